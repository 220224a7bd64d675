/* SPDX-License-Identifier: MIT
 *
 * count: counts the occurrences in a span of time, without visiting each of them.
 */
#ifndef UVS__COUNT_H
#define UVS__COUNT_H

#include "uvsched/calendar.h"

/* How many occurrences are later than after_ns and not later than until_ns. For a span of years
 * this takes microseconds, with any expression. */
uint64_t uvs__calendar_count(const uvs_calendar_t *c, int64_t after_ns, int64_t until_ns);

#endif
