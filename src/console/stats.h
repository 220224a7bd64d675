/* SPDX-License-Identifier: MIT
 *
 * stats: counters, lateness by culprit, and the busiest lanes, as JSON.
 */
#ifndef UVSCHED_CONSOLE_STATS_H
#define UVSCHED_CONSOLE_STATS_H

#include <uvsched/lane.h>

#include "console/json.h"

/* What the console itself adds. */
struct uvs__stats_about {
  uvs_lane_t own_lane; /* not shown; 0: none */
  bool may_act;        /* a token is set */
  bool has_jobs;
  bool has_events; /* there is /events */
};

/* Writes one value: an object. 0; an error of reading the scheduler. */
int uvs__stats_write(struct uvs__json *j, uvs_t *s, const struct uvs__stats_about *about);

#endif
