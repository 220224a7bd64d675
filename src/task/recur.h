/* SPDX-License-Identifier: MIT
 *
 * recur: computes when a periodic task runs next, and which points of its grid it misses. Pure: no
 * clock, no task.
 *
 * A fixed-rate task runs on the grid first + k * period, in integers, so that it cannot drift.
 * `ideal` is the point of the grid that a run stands for. The run starts then or later. The
 * task's policy says what happens to points that have passed.
 */
#ifndef UVS__RECUR_H
#define UVS__RECUR_H

#include "uvsched.h"

#include "port/base.h"

struct uvs__recur {
  int kind;           /* UVS_ONE_SHOT, UVS_FIXED_RATE, UVS_FIXED_DELAY */
  int policy;         /* UVS_MISSED_... */
  uint32_t max_burst; /* CATCH_UP; 0: no bound */
  uint64_t period_ns;
};

struct uvs__point {
  uint64_t ideal_ns;
  uint64_t missed; /* points left out on the way here */
};

/* A due task is taken out of its queue at `now`. If a whole period has passed, SKIP moves on to the
 * first point of the grid that is not before now. */
struct uvs__point uvs__recur_due(const struct uvs__recur *r, uint64_t ideal_ns, uint64_t now_ns);

/* A run starts at `now`: which point does it stand for, and how many points does it leave out or
 * merge? */
struct uvs__point uvs__recur_start(const struct uvs__recur *r, uint64_t ideal_ns, uint64_t now_ns);

/* A run that stood for `ideal` and merged `merged` further points ended at `end`: the point of the
 * next run. */
struct uvs__point uvs__recur_next(const struct uvs__recur *r, uint64_t ideal_ns, uint64_t merged,
                                  uint64_t end_ns);

#endif
