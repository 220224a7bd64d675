/* SPDX-License-Identifier: MIT
 *
 * count: how many occurrences a span of time has, without visiting each of them.
 */
#ifndef UVS__COUNT_H
#define UVS__COUNT_H

#include "uvsched/calendar.h"

/* Occurrences after after_ns and up to until_ns, which is included. Takes microseconds for a span
 * of years, whatever the expression is. */
uint64_t uvs__calendar_count(const uvs_calendar_t *c, int64_t after_ns, int64_t until_ns);

#endif
