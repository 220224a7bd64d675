/* SPDX-License-Identifier: MIT
 *
 * `interrupt`: racing the end of the run, cancel, finish, shutdown, dispose and a wait.
 */
#include "scenes.h"

#include <string.h>

#include "uvsched/lane.h"
#include "uvsched/stats.h"

#include "model.h"
#include "stage.h"

static struct {
  int calls;
  uint64_t last_run; /* that was interrupted */
  bool open;         /* the blocked body may return */
  bool pending;      /* `interrupt` calls uvs_finish */
  int finishes;      /* that succeeded */
  bool freed;        /* a thread has waited for the end, and frees what `interrupt` uses */
  uvs_lane_t lane;
} in;

static void finish(void *arg) {
  struct part *p = arg;
  int rc;

  stage_await_run(p);
  rc = uvs_finish(stage.s, p->id, 0);
  WEAVE_CHECK(rc == 0 || rc == UV_ENOENT);
  in.finishes += rc == 0;
}

static void on_interrupt(uvs_t *s, uvs_id_t id, void *arg) {
  struct part *p = arg;
  uvs_info_t i;

  WEAVE_CHECK(s == stage.s && !stage.terminated);
  WEAVE_SAME(0, weave_self());
  WEAVE_SAME(0, weave_locks());
  WEAVE_SAME(p->id, id);
  WEAVE_SAME(0, p->dones);
  uvs_info_init(&i);
  WEAVE_SAME(0, uvs_info(s, id, &i));
  WEAVE_SAME(UVS_RUNNING, i.state);
  WEAVE_CHECK(i.runs > in.last_run);
  WEAVE_CHECK((uint64_t)p->afters < i.runs);
  in.last_run = i.runs;
  in.calls++;
  in.open = true;
  if (in.pending)
    finish(p);
  weave_here();
  WEAVE_CHECK(!in.freed);
}

static bool is_open(const void *arg) {
  (void)arg;
  return in.open;
}

/* A body that blocks until `interrupt` makes it return. */
static void blocks(uvs_run_t *run, struct part *p) {
  (void)p;
  weave_sleep(is_open, NULL, WEAVE_NEVER);
  WEAVE_SAME(1, uvs_cancelled(run));
  in.open = false;
}

static struct part *interruptible(void) {
  struct part *a;

  memset(&in, 0, sizeof in);
  stage_open(1);
  a = stage_part('a');
  a->spec.interrupt = on_interrupt;
  return a;
}

static struct part *blocked(void) {
  struct part *a = interruptible();

  a->act = blocks;
  return a;
}

/* ---- actors ---- */

static void cancel_with_token(void *arg) {
  stage_cancel(arg, UVS_CANCEL_TOKEN);
}

static void cancel_run_with_token(void *arg) {
  stage_await_run(arg);
  stage_cancel(arg, UVS_CANCEL_TOKEN);
}

static void shut_down_now(void *arg) {
  stage_await_run(arg);
  WEAVE_SAME(0, uvs_shutdown_now(stage.s, NULL, NULL));
}

static void dispose(void *arg) {
  stage_await_run(arg);
  WEAVE_SAME(0, uvs_lane_dispose(in.lane, 0));
}

static void dispose_with_token(void *arg) {
  stage_await_run(arg);
  WEAVE_SAME(0, uvs_lane_dispose(in.lane, UVS_DISPOSE_TOKEN));
}

static void wait_and_free(void *arg) {
  struct part *p = arg;
  uvs_outcome_t o;

  uvs_outcome_init(&o);
  WEAVE_SAME(0, uvs_wait(stage.s, p->id, UVS_NEVER, 0, &o));
  WEAVE_SAME(UV_ECANCELED, o.status);
  in.freed = true;
}

/* ---- scenes ---- */

static void play(int least, int most) {
  stage_play();
  WEAVE_CHECK(in.calls >= least && in.calls <= most);
  stage_close();
  WEAVE_CHECK(in.calls <= most);
}

/* The body sleeps for ever unless `interrupt` is called. */
static void interrupt_ends_the_body(void) {
  struct part *a = blocked();

  stage_submit(a);
  weave_spawn("cancel", cancel_run_with_token, a, false);
  weave_spawn("again", cancel_run_with_token, a, false);
  play(1, 1);
}

/* The body returns by itself, before or after `interrupt`. */
static void interrupt_meets_end(void) {
  struct part *a = interruptible();

  stage_submit(a);
  weave_spawn("cancel", cancel_with_token, a, false);
  play(0, 1);
}

static void interrupt_meets_after(void) {
  struct part *a = interruptible();

  stage_add_after(a);
  stage_submit(a);
  weave_spawn("cancel", cancel_with_token, a, false);
  play(0, 1);
}

static struct part *periodic(struct part *a) {
  a->spec.kind = UVS_FIXED_DELAY;
  a->spec.period_ns = UVS_MS(1);
  a->spec.failure_policy = UVS_FAIL_CONTINUE;
  a->spec.limit.run_ns = UVS_MS(3);
  a->late_ns = UVS_MS(6);
  return a;
}

static void blocks_twice(uvs_run_t *run, struct part *p) {
  if (run->number <= 2)
    blocks(run, p);
}

/* The time limit of a run asks it to stop. It does not end the task. */
static void interrupt_ends_each_run(void) {
  struct part *a = periodic(interruptible());

  a->act = blocks_twice;
  a->stops_at = 3;
  stage_submit(a);
  play(2, 2);
}

static void sleep_3ms_once(uvs_run_t *run, struct part *p) {
  (void)p;
  if (run->number == 1)
    stage_sleep_ms(3);
}

/* The body returns at its limit. The task is filed once, and runs again. */
static void interrupt_meets_the_end_of_a_period(void) {
  struct part *a = periodic(interruptible());

  a->act = sleep_3ms_once;
  a->stops_at = 2;
  stage_submit(a);
  stage_play();
  WEAVE_SAME(2, a->runs);
  WEAVE_CHECK(in.calls <= 1);
  stage_close();
}

static void finishes_once(bool after) {
  struct part *a = interruptible();

  a->ret = UVS_PENDING;
  in.pending = true;
  if (after)
    stage_add_after(a);
  stage_submit(a);
  weave_spawn("finish", finish, a, false);
  weave_spawn("cancel", cancel_run_with_token, a, false);
  stage_play();
  WEAVE_CHECK(in.calls <= 1);
  WEAVE_SAME(1, in.finishes);
  stage_close();
}

static void interrupt_meets_finish(void) {
  finishes_once(false);
}

static void interrupt_meets_finish_and_after(void) {
  finishes_once(true);
}

static void interrupt_meets_shutdown(void) {
  struct part *a = blocked();

  a->others_cancel = true;
  stage_submit(a);
  weave_spawn("shutdown", shut_down_now, a, false);
  weave_spawn("cancel", cancel_run_with_token, a, false);
  play(1, 1);
}

static void interrupt_by_shutdown(void) {
  struct part *a = blocked();

  a->others_cancel = true;
  stage_submit(a);
  weave_spawn("shutdown", shut_down_now, a, false);
  play(1, 1);
}

/* The second call comes when the lane has already let go of its tasks. */
static void interrupt_by_the_second_dispose(void) {
  struct part *a = blocked();

  WEAVE_SAME(0, uvs_lane_open(stage.s, NULL, &in.lane));
  a->spec.lane = in.lane;
  a->others_cancel = true;
  stage_submit(a);
  weave_spawn("dispose", dispose, a, false);
  weave_spawn("token", dispose_with_token, a, false);
  play(1, 1);
}

static void interrupt_meets_wait(void) {
  struct part *a = interruptible();

  a->spec.keep_outcome = 1;
  a->act = blocks;
  stage_submit(a);
  weave_spawn("wait", wait_and_free, a, false);
  weave_spawn("cancel", cancel_run_with_token, a, false);
  play(1, 1);
}

const struct weave_scene scenes_interrupt[] = {
    {"interrupt", "interrupt-ends-the-body", interrupt_ends_the_body},
    {"interrupt", "interrupt-meets-end", interrupt_meets_end},
    {"interrupt", "interrupt-meets-after", interrupt_meets_after},
    {"interrupt", "interrupt-ends-each-run", interrupt_ends_each_run},
    {"interrupt", "interrupt-meets-the-end-of-a-period", interrupt_meets_the_end_of_a_period},
    {"interrupt", "interrupt-meets-finish", interrupt_meets_finish},
    {"interrupt", "interrupt-meets-finish-and-after", interrupt_meets_finish_and_after},
    {"interrupt", "interrupt-meets-shutdown", interrupt_meets_shutdown},
    {"interrupt", "interrupt-by-shutdown", interrupt_by_shutdown},
    {"interrupt", "interrupt-by-the-second-dispose", interrupt_by_the_second_dispose},
    {"interrupt", "interrupt-meets-wait", interrupt_meets_wait},
    {NULL, NULL, NULL},
};
