/* SPDX-License-Identifier: MIT
 *
 * Time limits: the limit racing the end of the body, cancel and finish.
 */
#include "scenes.h"

#include "model.h"
#include "stage.h"

static void clock_3ms(void *arg) {
  (void)arg;
  model_pass_ms(3);
}

static void cancel_at_3ms(void *arg) {
  stage_sleep_ms(3);
  stage_cancel(arg, 0);
}

static void finish_at_3ms(void *arg) {
  struct part *p = arg;
  int rc;

  stage_await_run(p);
  stage_sleep_ms(3);
  rc = uvs_finish(stage.s, p->id, 0);
  WEAVE_CHECK(rc == 0 || rc == UV_ENOENT);
}

static struct part *limited(void) {
  struct part *a;

  stage_open(1);
  a = stage_part('a');
  a->spec.limit.total_ns = UVS_MS(3);
  a->spec.keep_outcome = 1;
  a->late_ns = UVS_MS(3);
  return a;
}

static void play(struct part *a) {
  int64_t began_ns = (int64_t)weave_now_ns;
  uvs_outcome_t o;

  stage_play();
  uvs_outcome_init(&o);
  WEAVE_SAME(0, uvs_wait(stage.s, a->id, 0, 0, &o));
  WEAVE_SAME(a->status, o.status);
  if (a->runs == 1 && a->status == UV_ETIMEDOUT) /* what has ended in time has */
    WEAVE_CHECK(o.end_ns >= began_ns + UVS_MS(3));
  WEAVE_CHECK(a->status == 0 || a->status == UV_ETIMEDOUT || a->status == UV_ECANCELED);
  stage_close();
}

/* The limit passes while the body runs, or before, or not at all. */
static void limit_meets_end(void) {
  struct part *a = limited();

  stage_submit(a);
  weave_spawn("clock", clock_3ms, NULL, false);
  play(a);
}

static void limit_in_the_body(void) {
  struct part *a = limited();

  a->takes_ms = 3;
  stage_submit(a);
  stage_play();
  WEAVE_SAME(UV_ETIMEDOUT, a->status);
  stage_close();
}

static void limit_meets_cancel(void) {
  struct part *a = limited();

  a->takes_ms = 3;
  stage_submit(a);
  weave_spawn("cancel", cancel_at_3ms, a, false);
  play(a);
}

static void limit_meets_finish(void) {
  struct part *a = limited();

  a->ret = UVS_PENDING;
  stage_submit(a);
  weave_spawn("finish", finish_at_3ms, a, false);
  play(a);
}

/* The only pool thread is busy: the limit passes while the task is ready. */
static void limit_while_ready(void) {
  struct part *busy, *a = limited();

  busy = stage_part('b');
  busy->takes_ms = 4;
  stage_submit(busy);
  stage_submit(a);
  weave_spawn("cancel", cancel_at_3ms, a, false);
  play(a);
}

static void limit_with_after(void) {
  struct part *a = limited();

  stage_add_after(a);
  stage_submit(a);
  weave_spawn("clock", clock_3ms, NULL, false);
  play(a);
}

/* The time-out does not end the task: it only raises the token, and the next run has its own
 * limit. */
static void limit_of_a_periodic_task(void) {
  struct part *a = limited();

  a->spec.keep_outcome = 0;
  a->spec.kind = UVS_FIXED_DELAY;
  a->spec.period_ns = UVS_MS(1);
  a->spec.failure_policy = UVS_FAIL_CONTINUE;
  a->stops_at = 2;
  a->late_ns = UVS_MS(6);
  stage_submit(a);
  weave_spawn("clock", clock_3ms, NULL, false);
  stage_play();
  WEAVE_CHECK(a->status == 0 || a->status == UV_ETIMEDOUT);
  stage_close();
}

static void wait_settled(void *arg) {
  struct part *p = arg;
  uvs_outcome_t o;

  uvs_outcome_init(&o);
  WEAVE_SAME(0, uvs_wait(stage.s, p->id, UVS_NEVER, UVS_WAIT_SETTLED, &o));
  WEAVE_SAME(UV_ETIMEDOUT, o.status);
  WEAVE_CHECK((int64_t)weave_now_ns <= p->not_before_ns + UVS_MS(3));
}

static void finish_at_6ms(void *arg) {
  struct part *p = arg;

  stage_await_run(p);
  stage_sleep_ms(6);
  WEAVE_SAME(0, uvs_finish(stage.s, p->id, 0));
}

/* The limit settles the task while the body runs: a thread that waits for UVS_WAIT_SETTLED is
 * woken. */
static void limit_meets_wait(void) {
  struct part *a = limited();

  a->ret = UVS_PENDING;
  stage_submit(a);
  weave_spawn("wait", wait_settled, a, false);
  weave_spawn("finish", finish_at_6ms, a, false);
  play(a);
}

static void sleep_6ms(uvs_run_t *run, struct part *p) {
  (void)run;
  (void)p;
  stage_sleep_ms(6);
}

/* The same with the limit that begins on the pool thread, when the loop may be asleep. */
static void limit_from_the_start_meets_wait(void) {
  struct part *a = limited();

  a->spec.limit.run_ns = a->spec.limit.total_ns;
  a->spec.limit.total_ns = 0;
  a->act = sleep_6ms; /* so the runner does not come back to the loop before */
  stage_submit(a);
  weave_spawn("wait", wait_settled, a, false);
  play(a);
}

const struct weave_scene scenes_limit[] = {
    {"limit", "limit-meets-end", limit_meets_end},
    {"limit", "limit-in-the-body", limit_in_the_body},
    {"limit", "limit-meets-cancel", limit_meets_cancel},
    {"limit", "limit-meets-finish", limit_meets_finish},
    {"limit", "limit-while-ready", limit_while_ready},
    {"limit", "limit-with-after", limit_with_after},
    {"limit", "limit-of-a-periodic-task", limit_of_a_periodic_task},
    {"limit", "limit-meets-wait", limit_meets_wait},
    {"limit", "limit-from-the-start-meets-wait", limit_from_the_start_meets_wait},
    {NULL, NULL, NULL},
};
