/* SPDX-License-Identifier: MIT
 *
 * Periodic tasks and retries: each run stands for the right point of the grid, whatever happens
 * meanwhile.
 */
#include "scenes.h"

#include "model.h"
#include "stage.h"

#define PERIOD UVS_MS(2)

static struct {
  int64_t first_ns;
  int64_t passed;  /* points that the runs so far, and what they missed, have used up */
  int64_t next_ns; /* DELAY, retries: the next run is due then */
  int64_t end_ns;  /* of the last run */
  bool moved;      /* somebody has moved the grid */
} grid;

static void begin(struct part *p) {
  grid.first_ns = (int64_t)weave_now_ns + p->spec.first_ns;
  grid.passed = 0;
  grid.next_ns = grid.first_ns;
  grid.end_ns = 0;
  grid.moved = false;
}

/* Called in the body. */
static void check_rate(uvs_run_t *run, struct part *p) {
  if (grid.moved)
    return;
  if (p->spec.missed_policy ==
      UVS_MISSED_ONCE) { /* it stands for the first, and more have passed */
    WEAVE_SAME(grid.first_ns + grid.passed * PERIOD, run->ideal_ns);
    grid.passed += 1 + (int64_t)run->missed;
    if (p->spec.until_ns == 0) /* what is after the end is not missed */
      WEAVE_CHECK(run->start_ns < grid.first_ns + grid.passed * PERIOD);
  } else { /* those that were left out come before it */
    grid.passed += (int64_t)run->missed;
    WEAVE_SAME(grid.first_ns + grid.passed * PERIOD, run->ideal_ns);
    grid.passed++;
  }
  WEAVE_CHECK(run->start_ns >= run->ideal_ns);
  if (p->spec.missed_policy == UVS_MISSED_SKIP) { /* nor what passed in its own run */
    WEAVE_CHECK(run->start_ns < run->ideal_ns + PERIOD);
    WEAVE_CHECK(run->ideal_ns >= grid.end_ns);
  }
  if (p->spec.max_burst != 0)
    WEAVE_CHECK((run->start_ns - run->ideal_ns) / PERIOD < (int64_t)p->spec.max_burst);
  grid.end_ns = (int64_t)weave_now_ns;
}

static void check_delay(uvs_run_t *run, struct part *p) {
  WEAVE_SAME(grid.next_ns, run->ideal_ns);
  WEAVE_CHECK(run->start_ns >= run->ideal_ns);
  (void)p;
  grid.next_ns = (int64_t)weave_now_ns + PERIOD;
}

static struct part *periodic(int kind, int missed) {
  struct part *p;

  stage_open(1);
  p = stage_part('p');
  p->spec.kind = kind;
  p->spec.first_ns = UVS_MS(1);
  p->spec.period_ns = PERIOD;
  p->spec.missed_policy = missed;
  p->stops_at = 3;
  p->late_ns = UVS_MS(20);
  p->act = kind == UVS_FIXED_RATE ? check_rate : check_delay;
  begin(p);
  return p;
}

static void play(struct part *p, int runs) {
  stage_play();
  WEAVE_SAME(runs, p->runs);
  stage_close();
}

static void clock_5ms(void *arg) {
  (void)arg;
  model_pass_ms(5);
}

static void on_time(void) {
  struct part *p = periodic(UVS_FIXED_RATE, UVS_MISSED_CATCH_UP);

  p->late_ns = 0;
  weave_spawn("submit", stage_submit_arg, p, false);
  play(p, 3);
}

/* Time jumps at any moment. */
static void catch_up(void) {
  struct part *p = periodic(UVS_FIXED_RATE, UVS_MISSED_CATCH_UP);

  stage_submit(p);
  weave_spawn("clock", clock_5ms, NULL, false);
  play(p, 3);
}

static void catch_up_with_max_burst(void) {
  struct part *p = periodic(UVS_FIXED_RATE, UVS_MISSED_CATCH_UP);

  p->spec.max_burst = 1;
  stage_submit(p);
  weave_spawn("clock", clock_5ms, NULL, false);
  play(p, 3);
}

static void missed_once(void) {
  struct part *p = periodic(UVS_FIXED_RATE, UVS_MISSED_ONCE);

  stage_submit(p);
  weave_spawn("clock", clock_5ms, NULL, false);
  play(p, 3);
}

static void missed_skip(void) {
  struct part *p = periodic(UVS_FIXED_RATE, UVS_MISSED_SKIP);

  stage_submit(p);
  weave_spawn("clock", clock_5ms, NULL, false);
  play(p, 3);
}

static void long_bodies(void) {
  struct part *p = periodic(UVS_FIXED_RATE, UVS_MISSED_SKIP);

  p->takes_ms = 3;
  stage_submit(p);
  weave_spawn("clock", clock_5ms, NULL, false);
  play(p, 3);
}

static void fixed_delay(void) {
  struct part *p = periodic(UVS_FIXED_DELAY, UVS_MISSED_CATCH_UP);

  p->takes_ms = 3;
  stage_submit(p);
  play(p, 3);
}

static void max_runs(void) {
  struct part *p = periodic(UVS_FIXED_RATE, UVS_MISSED_CATCH_UP);

  p->stops_at = 0;
  p->spec.max_runs = 2;
  stage_submit(p);
  weave_spawn("clock", clock_5ms, NULL, false);
  play(p, 2);
}

static void until_end_time(void) {
  struct part *p = periodic(UVS_FIXED_RATE, UVS_MISSED_ONCE);

  p->stops_at = 0;
  p->spec.until_ns = UVS_MS(4); /* 1, 3 */
  stage_submit(p);
  weave_spawn("clock", clock_5ms, NULL, false);
  stage_play();
  WEAVE_CHECK(p->runs <= 2);
  stage_close();
}

static void move_by_1ms(void *arg) {
  int rc = stage_reschedule(arg, UVS_MS(1));

  WEAVE_CHECK(rc == 0 || rc == UV_ENOENT);
}

/* All its points have passed, including the last: the loop ends the task, unless it is
 * rescheduled. */
static struct part *over_but_for_a_look(void) {
  struct part *p = periodic(UVS_FIXED_RATE, UVS_MISSED_SKIP);

  p->stops_at = 0;
  p->spec.until_ns = UVS_MS(4);
  stage_submit(p);
  model_pass_ms(5);
  grid.moved = true;
  return p;
}

static void until_meets_reschedule(void) {
  weave_spawn("move", move_by_1ms, over_but_for_a_look(), false);
  stage_play();
  stage_close();
}

static void until_meets_cancel(void) {
  weave_spawn("cancel", stage_cancel_arg, over_but_for_a_look(), false);
  stage_play();
  stage_close();
}

static void cancel_at_3ms(void *arg) {
  stage_sleep_ms(3);
  stage_cancel(arg, 0);
}

static void cancel_between_runs(void) {
  struct part *p = periodic(UVS_FIXED_RATE, UVS_MISSED_CATCH_UP);

  stage_submit(p);
  weave_spawn("cancel", cancel_at_3ms, p, false);
  stage_play();
  stage_close();
}

static void move_at_3ms(void *arg) {
  int rc;

  stage_sleep_ms(3);
  grid.moved = true;
  rc = stage_reschedule(arg, UVS_MS(1));
  WEAVE_CHECK(rc == 0 || rc == UV_EBUSY || rc == UV_ENOENT);
}

static void reschedule_between_runs(void) {
  struct part *p = periodic(UVS_FIXED_RATE, UVS_MISSED_CATCH_UP);

  stage_submit(p);
  weave_spawn("move", move_at_3ms, p, false);
  play(p, 3);
}

static void skip_meets_reschedule(void) {
  struct part *p = periodic(UVS_FIXED_RATE, UVS_MISSED_SKIP);

  stage_submit(p);
  weave_spawn("move", move_at_3ms, p, false);
  weave_spawn("clock", clock_5ms, NULL, false);
  play(p, 3);
}

static uint64_t missed;

static void on_missed(uvs_t *s, uvs_id_t id, uint64_t n, int reason, void *arg) {
  struct part *p = arg;

  (void)s;
  (void)reason;
  WEAVE_SAME(0, weave_self());
  WEAVE_SAME(p->id, id);
  WEAVE_SAME(0, p->dones);
  missed += n;
}

/* The hook is called before the task waits again. In between it is cancelled or rescheduled. */
static struct part *skips_with_a_hook(void) {
  struct part *p;

  stage_init();
  stage.options.concurrency = 1;
  stage.hooks.on_missed = on_missed;
  stage_open_with(1);
  missed = 0;
  p = stage_part('p');
  p->spec.kind = UVS_FIXED_RATE;
  p->spec.first_ns = UVS_MS(1);
  p->spec.period_ns = PERIOD;
  p->spec.missed_policy = UVS_MISSED_SKIP;
  p->stops_at = 2;
  p->late_ns = UVS_MS(20);
  stage_submit(p);
  weave_spawn("clock", clock_5ms, NULL, false);
  return p;
}

static void hook_meets_cancel(void) {
  weave_spawn("cancel", stage_cancel_arg, skips_with_a_hook(), false);
  stage_play();
  stage_close();
}

static void hook_meets_reschedule(void) {
  struct part *p = skips_with_a_hook();

  begin(p);
  weave_spawn("move", move_at_3ms, p, false);
  play(p, 2);
}

static int tries;

static void fail_twice(uvs_run_t *run, struct part *p) {
  WEAVE_SAME(grid.next_ns, run->ideal_ns);
  p->ret = ++tries < 3 ? UV_EIO : 0;
  grid.next_ns = (int64_t)weave_now_ns + PERIOD * tries; /* 2, 4 */
}

static void retries(void) {
  struct part *p;

  stage_open(1);
  tries = 0;
  p = stage_part('p');
  p->spec.failure_policy = UVS_FAIL_RETRY;
  p->spec.retry.wait_ns = PERIOD;
  p->act = fail_twice;
  begin(p);
  weave_spawn("submit", stage_submit_arg, p, false);
  stage_play();
  WEAVE_SAME(3, p->runs);
  WEAVE_SAME(0, p->status);
  stage_close();
}

static void retry_meets_cancel(void) {
  struct part *p;

  stage_open(1);
  tries = 0;
  p = stage_part('p');
  p->spec.failure_policy = UVS_FAIL_RETRY;
  p->spec.retry.wait_ns = PERIOD;
  p->act = fail_twice;
  begin(p);
  stage_submit(p);
  weave_spawn("cancel", stage_cancel_arg, p, false);
  stage_play();
  stage_close();
}

const struct weave_scene scenes_recur[] = {
    {"recur", "on-time", on_time},
    {"recur", "catch-up", catch_up},
    {"recur", "catch-up-with-max-burst", catch_up_with_max_burst},
    {"recur", "missed-once", missed_once},
    {"recur", "missed-skip", missed_skip},
    {"recur", "long-bodies", long_bodies},
    {"recur", "fixed-delay", fixed_delay},
    {"recur", "max-runs", max_runs},
    {"recur", "until-end-time", until_end_time},
    {"recur", "until-meets-reschedule", until_meets_reschedule},
    {"recur", "until-meets-cancel", until_meets_cancel},
    {"recur", "cancel-between-runs", cancel_between_runs},
    {"recur", "reschedule-between-runs", reschedule_between_runs},
    {"recur", "skip-meets-reschedule", skip_meets_reschedule},
    {"recur", "hook-meets-cancel", hook_meets_cancel},
    {"recur", "hook-meets-reschedule", hook_meets_reschedule},
    {"recur", "retries", retries},
    {"recur", "retry-meets-cancel", retry_meets_cancel},
    {NULL, NULL, NULL},
};
