/* SPDX-License-Identifier: MIT */
#include "task/recur.h"

/* Whole periods between ideal and now. */
static uint64_t behind(const struct uvs__recur *r, uint64_t ideal_ns, uint64_t now_ns) {
  return now_ns <= ideal_ns ? 0 : (now_ns - ideal_ns) / r->period_ns;
}

static struct uvs__point skip_points(const struct uvs__recur *r, uint64_t ideal_ns, uint64_t n) {
  return (struct uvs__point){uvs__steps_later(ideal_ns, n, r->period_ns), n};
}

struct uvs__point uvs__recur_due(const struct uvs__recur *r, uint64_t ideal_ns, uint64_t now_ns) {
  if (r->kind != UVS_FIXED_RATE || r->policy != UVS_MISSED_SKIP || behind(r, ideal_ns, now_ns) == 0)
    return (struct uvs__point){ideal_ns, 0};
  return skip_points(r, ideal_ns, (now_ns - ideal_ns - 1) / r->period_ns + 1); /* not before now */
}

struct uvs__point uvs__recur_start(const struct uvs__recur *r, uint64_t ideal_ns, uint64_t now_ns) {
  uint64_t passed;

  if (r->kind != UVS_FIXED_RATE)
    return (struct uvs__point){ideal_ns, 0};
  passed = behind(r, ideal_ns, now_ns);
  if (r->policy == UVS_MISSED_ONCE)
    return (struct uvs__point){ideal_ns, passed};
  if (r->policy == UVS_MISSED_CATCH_UP && r->max_burst != 0 && passed >= r->max_burst)
    return skip_points(r, ideal_ns, passed + 1 - r->max_burst);
  return (struct uvs__point){ideal_ns, 0};
}

struct uvs__point uvs__recur_next(const struct uvs__recur *r, uint64_t ideal_ns, uint64_t merged,
                                  uint64_t end_ns) {
  uint64_t next_ns;

  UVS_ASSERT(r->kind != UVS_ONE_SHOT);
  if (r->kind == UVS_FIXED_DELAY)
    return (struct uvs__point){uvs__steps_later(end_ns, 1, r->period_ns), 0};
  if (r->policy == UVS_MISSED_ONCE)
    return (struct uvs__point){uvs__steps_later(ideal_ns, merged + 1, r->period_ns), 0};
  next_ns = uvs__steps_later(ideal_ns, 1, r->period_ns);
  if (r->policy != UVS_MISSED_SKIP || next_ns >= end_ns)
    return (struct uvs__point){next_ns, 0};
  /* Round up: the first point that is not before the end. */
  return skip_points(r, next_ns, (end_ns - next_ns - 1) / r->period_ns + 1);
}
