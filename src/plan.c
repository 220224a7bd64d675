/* SPDX-License-Identifier: MIT
 *
 * plan: does another run follow, and when? After a success as the kind of the task says, after a
 * failure as its policy says. And which points of the grid were missed on the way.
 *
 * RUNNING gives us the fields; the CAS that ends the run publishes them.
 */
#include "scheduler.h"

#include "backoff.h"

static uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

static uint64_t chance(const uvs_t *s, uvs_id_t id, uint64_t run) {
  return mix(mix(s->seed + id) + run);
}

uint64_t uvs__jitter(const uvs_t *s, uvs_id_t id, uint64_t run, uint64_t jitter_ns) {
  return jitter_ns == 0 ? 0 : chance(s, id, run) % (jitter_ns + 1);
}

struct uvs__recur uvs__recur_of(const struct uvs__slot *t, const struct uvs__cold *c, uint64_t w) {
  return (struct uvs__recur){
      .kind = uvs__word_kind(w),
      .policy = c->policy,
      .max_burst = c->max_burst,
      .period_ns = uvs__load(&t->period_ns, relaxed), /* constant */
  };
}

void uvs__miss(uvs_t *s, struct uvs__cold *c, uint64_t count, int reason) {
  if (count == 0)
    return;
  uvs__add(&c->missed_total, count, relaxed); /* a count */
  uv_mutex_lock(&s->pool.lock);
  s->pool.missed += count;
  uv_mutex_unlock(&s->pool.lock);
  if (s->missed_cb == NULL)
    return;
  /* One occasion between two visits to the loop: before a run, at its start, or at its end. */
  UVS_ASSERT(c->missed_count == 0);
  c->missed_count = count;
  c->missed_reason = (uint8_t)reason;
}

static void set_due(struct uvs__slot *t, struct uvs__cold *c, uint64_t ideal_ns,
                    uint64_t jitter_ns) {
  if (jitter_ns > UVS__NEVER - ideal_ns)
    jitter_ns = UVS__NEVER - ideal_ns;
  /* relaxed, both: ours while RUNNING */
  uvs__store(&c->jitter_now_ns, jitter_ns, relaxed);
  uvs__store(&t->deadline_ns, ideal_ns + jitter_ns, relaxed);
}

/* Ideal, merged: of the run that ended. */
static uint64_t last_point(const struct uvs__recur *r, const struct uvs__cold *c) {
  return uvs__steps_later((uint64_t)c->run.ideal_ns, c->run.merged, r->period_ns);
}

static bool plan_point(uvs_t *s, uint32_t slot, struct uvs__cold *c, bool retried,
                       uint64_t end_ns) {
  struct uvs__slot *t = uvs__slot(s, slot);
  /* relaxed, both: ours while RUNNING */
  uint64_t w = uvs__load(&t->word, relaxed);
  uint32_t runs = uvs__load(&t->runs, relaxed);
  struct uvs__recur r = uvs__recur_of(t, c, w);
  struct uvs__point p;

  if (retried && r.kind == UVS_RATE) {
    r.policy = UVS_MISSED_SKIP; /* what passed while it was retried has been used up */
    p = uvs__recur_next(&r, c->grid_ns, 0, end_ns);
  } else {
    p = uvs__recur_next(&r, (uint64_t)c->run.ideal_ns, c->run.merged, end_ns);
  }
  if (p.ideal_ns > c->until_ns)
    return false;
  uvs__miss(s, c, p.missed, retried ? UVS_LATE_RETRY : UVS_LATE_OVERLAP);
  c->missed_next += p.missed; /* a run that passed its limit before it started told nobody */
  set_due(t, c, p.ideal_ns, uvs__jitter(s, uvs__id(w, slot), runs, c->jitter_ns));
  return true;
}

/* The instant end_ns of the monotonic clock by the wall clock, as that goes now. */
static uint64_t wall_of(uvs_t *s, uint64_t end_ns) {
  uint64_t wall_ns = uvs__clock_wall(&s->clock);
  uint64_t ago_ns = uvs__now(s) - end_ns;

  return wall_ns > ago_ns ? wall_ns - ago_ns : 0;
}

static bool plan_retry(uvs_t *s, uint32_t slot, struct uvs__cold *c, uint32_t failures,
                       uint64_t end_ns) {
  struct uvs__slot *t = uvs__slot(s, slot);
  /* relaxed, both: ours while RUNNING */
  uint64_t w = uvs__load(&t->word, relaxed);
  uint32_t runs = uvs__load(&t->runs, relaxed);
  struct uvs__recur r = uvs__recur_of(t, c, w);
  uint64_t from_ns = uvs__is_wall(w) ? wall_of(s, end_ns) : end_ns;
  uint64_t wait_ns = uvs__backoff(c->retry_ns, c->retry_max_ns, c->retry_jitter, failures,
                                  chance(s, uvs__id(w, slot), runs));
  uint64_t again_ns = uvs__steps_later(from_ns, 1, wait_ns);

  if (again_ns > c->until_ns)
    return false;
  if (failures == 1 && r.kind == UVS_RATE)
    c->grid_ns = last_point(&r, c);
  set_due(t, c, again_ns, 0);
  /* A one-shot that a shutdown lets run no more keeps its failure (S42). */
  return r.kind != UVS_ONCE || uvs__may_run(s, t, w);
}

bool uvs__plan_next(uvs_t *s, uint32_t slot, int status, uint64_t end_ns, uint64_t over_ns) {
  struct uvs__slot *t = uvs__slot(s, slot);
  struct uvs__cold *c = uvs__agenda_cold(&s->agenda, t);
  /* relaxed, all: ours while RUNNING */
  bool once = uvs__word_kind(uvs__load(&t->word, relaxed)) == UVS_ONCE;
  uint32_t runs = uvs__load(&t->runs, relaxed);
  uint32_t failures;
  bool goes_on;

  if (c == NULL || status == UVS_STOP)
    return false;
  c->since_ns = over_ns;
  c->run.failure = status < 0 ? status : 0;
  failures = uvs__load(&c->failures, relaxed);
  uvs__store(&c->failures, status >= 0 ? 0 : failures + (failures < UINT32_MAX), relaxed);
  if (c->max_runs != 0 && runs >= c->max_runs)
    return false;
  if (status >= 0)
    return !once && plan_point(s, slot, c, failures > 0 && c->failure == UVS_FAIL_RETRY, end_ns);

  failures += failures < UINT32_MAX;
  if (c->failure == UVS_FAIL_STOP || (c->max_failures != 0 && failures >= c->max_failures))
    return false;
  goes_on = c->failure == UVS_FAIL_RETRY ? plan_retry(s, slot, c, failures, end_ns)
                                         : plan_point(s, slot, c, false, end_ns);
  if (goes_on && s->error_cb != NULL && c->run.seen == 0)
    c->failed_news = status;
  return goes_on;
}
