/* SPDX-License-Identifier: MIT
 *
 * search: finds the local times that match an expression. Pure; knows no zone.
 *
 * A local time is a number of seconds since 1970-01-01 00:00:00 on a local clock. A search ends at
 * one of the two limits. The local time of every occurrence is between them.
 */
#ifndef UVS__SEARCH_H
#define UVS__SEARCH_H

#include "calendar/expression.h"

#define UVS__LOCAL_MIN INT64_C(-9246096000) /* 1677-01-01 */
#define UVS__LOCAL_MAX INT64_C(9246182400)  /* 2263-01-01 */

bool uvs__local_matches(const struct uvs__expression *e, int64_t local_s);

/* The first local time >= local_s that matches; UVS__LOCAL_MAX if there is none before it. */
int64_t uvs__local_next(const struct uvs__expression *e, int64_t local_s);

/* The last local time <= local_s that matches; UVS__LOCAL_MIN if there is none after it. */
int64_t uvs__local_previous(const struct uvs__expression *e, int64_t local_s);

/* How many local times in [from_s, to_s) match. Counts month by month. */
uint64_t uvs__local_count(const struct uvs__expression *e, int64_t from_s, int64_t to_s);

#endif
