/* SPDX-License-Identifier: MIT
 *
 * recur: "when next?" for once, fixed rate and fixed delay, and what a missed run means. Pure: no
 * clock, no task.
 *
 * A fixed-rate task runs on the grid first + k * period, in integers, so that it cannot drift.
 * `ideal` is the point of the grid that a run stands for; it starts later than that, and what it
 * does about points that passed is its policy.
 */
#ifndef UVS__RECUR_H
#define UVS__RECUR_H

#include "uvsched.h"

#include "base.h"

struct uvs__recur {
  int kind;           /* UVS_ONCE, UVS_RATE, UVS_DELAY */
  int policy;         /* UVS_MISSED_... */
  uint32_t max_burst; /* CATCH_UP; 0: no bound */
  uint64_t period_ns;
};

struct uvs__point {
  uint64_t ideal_ns;
  uint64_t missed; /* points left out on the way here */
};

/* The loop takes a due task up at `now`: SKIP moves on to the first point of the grid that is not
 * before now if a whole period has gone by. */
struct uvs__point uvs__recur_due(const struct uvs__recur *r, uint64_t ideal_ns, uint64_t now_ns);

/* Its run starts at `now`: which point does it stand for, and how many does it leave out or merge?
 */
struct uvs__point uvs__recur_start(const struct uvs__recur *r, uint64_t ideal_ns, uint64_t now_ns);

/* Its run, which stood for `ideal` and merged `merged` further points, ended at `end`: the point of
 * the next one. */
struct uvs__point uvs__recur_next(const struct uvs__recur *r, uint64_t ideal_ns, uint64_t merged,
                                  uint64_t end_ns);

#endif
