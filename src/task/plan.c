/* SPDX-License-Identifier: MIT */
#include "task/plan.h"

uint64_t uvs__backoff(uint64_t first_ns, uint64_t max_ns, uint32_t jitter, uint32_t failures,
                      uint64_t random) {
  uint32_t doubled = failures - 1;
  uint64_t wait_ns = doubled >= 63 || first_ns > max_ns >> doubled ? max_ns : first_ns << doubled;
  /* In two parts, so that nothing overflows. */
  uint64_t play_ns = wait_ns / 100 * jitter + wait_ns % 100 * jitter / 100;

  return wait_ns - random % (play_ns + 1);
}

static uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

static uint64_t chance(uint64_t seed, uvs_id_t id, uint64_t run) {
  return mix(mix(seed + id) + run);
}

uint64_t uvs__jitter(uint64_t seed, uvs_id_t id, uint64_t run, uint64_t jitter_ns) {
  return jitter_ns == 0 ? 0 : chance(seed, id, run) % (jitter_ns + 1);
}

struct uvs__recur uvs__recur_of(const struct uvs__task *t, const struct uvs__extra *x) {
  return (struct uvs__recur){
      .kind = (int)t->kind,
      .policy = x->policy,
      .max_burst = x->max_burst,
      .period_ns = x->period_ns,
  };
}

void uvs__set_due(struct uvs__task *t, struct uvs__extra *x, uint64_t ideal_ns,
                  uint64_t jitter_ns) {
  if (jitter_ns > UVS__NEVER - ideal_ns)
    jitter_ns = UVS__NEVER - ideal_ns;
  x->jitter_now_ns = jitter_ns;
  t->due_ns = ideal_ns + jitter_ns;
}

/* An extra run has ended: plans the next regular run, whose time was saved. */
static struct uvs__plan plan_saved(struct uvs__task *t, struct uvs__extra *x, uint64_t seed) {
  x->extra_run = false;
  /* saved_ns is unknown, unless the task was moved to UVS_NEVER */
  if (t->kind == UVS_CALENDAR && x->saved_ns == UVS__NEVER && x->grid_ns != UVS__NEVER)
    uvs__owe_point(x, false, UVS_LATE_OVERLAP);
  if (x->saved_ns > x->until_ns && x->saved_ns != UVS__NEVER)
    return (struct uvs__plan){false, 0, 0};
  uvs__set_due(t, x, x->saved_ns,
               uvs__jitter(seed, uvs__local_id(t, x->slot), x->runs, x->jitter_ns));
  return (struct uvs__plan){true, 0, 0};
}

/* The next point of the grid, or the fixed delay. */
static struct uvs__plan plan_point(struct uvs__task *t, struct uvs__extra *x, uint64_t seed,
                                   bool retried, uint64_t end_ns) {
  struct uvs__recur r = uvs__recur_of(t, x);
  struct uvs__point p;

  if (x->extra_run)
    return plan_saved(t, x, seed);
  if (t->kind == UVS_CALENDAR) { /* the loop works it out: loop/occurrence.c */
    uvs__owe_point(x, false, retried ? UVS_LATE_RETRY : UVS_LATE_OVERLAP);
    uvs__set_due(t, x, UVS__NEVER, 0);
    return (struct uvs__plan){true, 0, 0};
  }
  if (retried && r.kind == UVS_FIXED_RATE) {
    r.policy = UVS_MISSED_SKIP; /* points that passed during the retries are used up */
    p = uvs__recur_next(&r, x->grid_ns, 0, end_ns);
  } else {
    p = uvs__recur_next(&r, (uint64_t)x->run.ideal_ns, x->run.merged, end_ns);
  }
  if (p.ideal_ns > x->until_ns)
    return (struct uvs__plan){false, 0, 0};
  x->missed_next += p.missed; /* added: a run that timed out unstarted has not reported its own */
  uvs__set_due(t, x, p.ideal_ns,
               uvs__jitter(seed, uvs__local_id(t, x->slot), x->runs, x->jitter_ns));
  return (struct uvs__plan){true, p.missed, retried ? UVS_LATE_RETRY : UVS_LATE_OVERLAP};
}

/* When the body returned, by the wall clock as it is set now. */
static uint64_t wall_end(const struct uvs__run_end *e) {
  uint64_t ago_ns = e->over_ns - e->end_ns;

  return e->wall_ns > ago_ns ? e->wall_ns - ago_ns : 0;
}

static struct uvs__plan plan_retry(struct uvs__task *t, struct uvs__extra *x, uint64_t seed,
                                   const struct uvs__run_end *e) {
  struct uvs__recur r = uvs__recur_of(t, x);
  uint64_t from_ns = uvs__has(t, UVS__WALL) ? wall_end(e) : e->end_ns;
  uint64_t wait_ns = uvs__backoff(x->retry_ns, x->retry_max_ns, x->retry_jitter, x->failures,
                                  chance(seed, uvs__local_id(t, x->slot), x->runs));
  uint64_t again_ns = uvs__steps_later(from_ns, 1, wait_ns);

  if (again_ns > x->until_ns)
    return (struct uvs__plan){false, 0, 0};
  if (x->failures == 1 && r.kind == UVS_FIXED_RATE) /* remember the last point of the failed run */
    x->grid_ns = uvs__steps_later((uint64_t)x->run.ideal_ns, x->run.merged, r.period_ns);
  uvs__set_due(t, x, again_ns, 0);
  return (struct uvs__plan){true, 0, 0};
}

struct uvs__plan uvs__plan_next(struct uvs__task *t, struct uvs__extra *x, uint64_t seed,
                                const struct uvs__run_end *e) {
  static const struct uvs__plan ends = {false, 0, 0};
  bool failed = e->status < 0;
  bool retried = uvs__is_retrying(x);

  if (e->status == UVS_STOP)
    return ends;
  x->since_ns = e->over_ns;
  x->since_resumed = x->at_once = false; /* at_once: also of a run that never started */
  x->run.failure = failed ? e->status : 0;
  if (!failed)
    x->failures = 0;
  else if (x->failures < UINT32_MAX)
    x->failures++;
  if (x->max_runs != 0 && x->runs >= x->max_runs)
    return ends;
  if (!failed)
    return t->kind == UVS_ONE_SHOT && !x->extra_run ? ends
                                                    : plan_point(t, x, seed, retried, e->end_ns);
  if (x->failure == UVS_FAIL_STOP || (x->max_failures != 0 && x->failures >= x->max_failures))
    return ends;
  return x->failure == UVS_FAIL_RETRY ? plan_retry(t, x, seed, e)
                                      : plan_point(t, x, seed, false, e->end_ns);
}
