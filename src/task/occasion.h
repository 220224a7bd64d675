/* SPDX-License-Identifier: MIT
 *
 * occasion: computes the next run of a calendar task, and which occurrences it misses. As
 * task/recur.h, but for the occurrences of a calendar instead of an even grid.
 *
 * To count the occurrences that have passed takes microseconds. So no caller may hold the lock.
 * Pure: no clock, no task.
 */
#ifndef UVS__OCCASION_H
#define UVS__OCCASION_H

#include "uvsched.h"
#include "uvsched/calendar.h"

#include "port/base.h"

struct uvs__occasions {
  const uvs_calendar_t *calendar;
  int policy;         /* UVS_MISSED_... */
  uint32_t max_burst; /* CATCH_UP; 0: no bound */
};

/* What the next run stands for. */
struct uvs__occasion {
  uint64_t ideal_ns;  /* UVS__NEVER: there is no next run */
  uint64_t last_ns;   /* the last occurrence that the run stands for */
  uint64_t passed_ns; /* if the task becomes due at this instant or later: uvs__occasion_passed */
  uint64_t missed;    /* occurrences left out, or merged into the run */
};

/* The next run. last_ns is the last occurrence that a run stood for. If skip is true, or the policy
 * is SKIP, occurrences before now_ns are missed. */
struct uvs__occasion uvs__occasion_after(const struct uvs__occasions *c, uint64_t last_ns,
                                         bool skip, uint64_t now_ns);
/* The task is due for the occurrence ideal_ns, and passed_ns has been reached, so later occurrences
 * have passed as well. The run already stands for the occurrences up to last_ns. If the rules of
 * the zone have changed, ideal_ns and last_ns may no longer be occurrences. */
struct uvs__occasion uvs__occasion_passed(const struct uvs__occasions *c, uint64_t ideal_ns,
                                          uint64_t last_ns, uint64_t now_ns);
/* The rules of the zone have changed: the run for the first occurrence after last_ns and now_ns. */
struct uvs__occasion uvs__occasion_again(const struct uvs__occasions *c, uint64_t last_ns,
                                         uint64_t now_ns);

#endif
