/* SPDX-License-Identifier: MIT
 *
 * timeline: the recent runs, and the times for which the loop was held up, as JSON.
 */
#ifndef UVSCHED_CONSOLE_TIMELINE_H
#define UVSCHED_CONSOLE_TIMELINE_H

#include "console/json.h"

#define UVS__TIMELINE_MAX 2000 /* runs; see uvs_trace_runs */

/* Writes one value: an object. 0; an error. Without a recorder there are no runs. */
int uvs__timeline_write(struct uvs__json *j, uvs_t *s, int64_t last_ns, size_t max);

#endif
