/* SPDX-License-Identifier: MIT
 *
 * plan: does another run follow, and when? After a success the kind of the task decides, after a
 * failure its failure policy. Also counts the points of the grid that are missed.
 *
 * Pure: no clock, no lock, no list. It changes only the times in the task's record.
 */
#ifndef UVS__PLAN_H
#define UVS__PLAN_H

#include "task/recur.h"
#include "task/task.h"

/* How a run ended. */
struct uvs__run_end {
  int status;       /* 0, UVS_STOP, or negative */
  uint64_t end_ns;  /* the body returned */
  uint64_t over_ns; /* the run is over: hooks and `after` have returned, too */
  uint64_t wall_ns; /* wall-clock tasks: that clock, at over_ns; else 0 */
};

struct uvs__plan {
  bool goes_on;
  uint64_t missed; /* points of the grid that the next run leaves out */
  int reason;      /* UVS_LATE_...: why */
};

struct uvs__recur uvs__recur_of(const struct uvs__task *t, const struct uvs__extra *x);
/* A random part of jitter_ns. The same seed, task and run give the same part. */
uint64_t uvs__jitter(uint64_t seed, uvs_id_t id, uint64_t run, uint64_t jitter_ns);
/* How long to wait after `failures` consecutive failures (1 or more): first_ns, doubled for each
 * further failure, at most max_ns; minus a random 0 to `jitter` percent. */
uint64_t uvs__backoff(uint64_t first_ns, uint64_t max_ns, uint32_t jitter, uint32_t failures,
                      uint64_t random);
/* The run has ended. If another follows, sets the due_ns of the task. */
struct uvs__plan uvs__plan_next(struct uvs__task *t, struct uvs__extra *x, uint64_t seed,
                                const struct uvs__run_end *e);
/* The ideal time becomes ideal_ns; the deadline is jitter_ns later. */
void uvs__set_due(struct uvs__task *t, struct uvs__extra *x, uint64_t ideal_ns, uint64_t jitter_ns);

/* The loop must compute the next occurrence of a calendar task. passed: occurrences after the due
 * one have passed, too. reason: UVS_LATE_..., why occurrences are missed; -1: because of jitter. */
static inline void uvs__owe_point(struct uvs__extra *x, bool passed, int reason) {
  x->point_owed = true;
  x->point_passed = passed;
  x->zone_changed = false;
  x->missed_reason = (uint8_t)(reason < 0 ? UVS_LATE_TIMER : reason);
}

static inline uint64_t uvs__ideal_of(const struct uvs__task *t, const struct uvs__extra *x) {
  return t->due_ns - x->jitter_now_ns;
}

#endif
