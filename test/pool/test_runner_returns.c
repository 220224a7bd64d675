/* SPDX-License-Identifier: MIT
 *
 * A runner returns while the loop sleeps. The loop then handles everything that became due, was
 * submitted, or ended meanwhile, and stays alive no longer than that.
 */
#include <time.h>

#include "uvsched/lane.h"
#include "uvsched/queue.h"

#include "lib/bodies.h"
#include "lib/cleanups.h"
#include "lib/fixture.h"
#include "lib/lanes.h"
#include "lib/threads.h"
#include "lib/values.h"

/* ---- a runner that is on its way ---- */

/* Task 'r' is in the pool and stays there until home_after. The loop sleeps. */
static enum greatest_test_res send_out(struct fixture *f, const uvs_task_t *r) {
  fakepool_hold();
  ASSERT_RC(0, uvs_submit(f->s, r, NULL));
  fixture_turn(f);
  ASSERT_U64(1, fakepool_pending());
  PASS();
}

static enum greatest_test_res send_any(struct fixture *f) {
  uvs_task_t r = fixture_once(f, 'r', 0);

  r.done = NULL;
  CHECK_CALL(send_out(f, &r));
  PASS();
}

/* The runner runs this many bodies and returns. Nothing else wakes the loop. */
static enum greatest_test_res home_after(struct fixture *f, unsigned bodies) {
  unsigned before = log_total(f);

  ASSERT(fakepool_step());
  ASSERT_U64(before + bodies, log_total(f));
  ASSERT(fakepool_step());
  ASSERT_U64(before + bodies, log_total(f)); /* and nothing is called back there */
  fakepool_release();
  PASS();
}

static enum greatest_test_res home(struct fixture *f) {
  return home_after(f, 1);
}

/* Time passes, and nothing wakes the loop. */
static void silently(struct fixture *f, int64_t ms) {
  vclock_advance_ns(&f->clock, UVS_MS(ms));
}

/* ---- what it finds ---- */

/* ---- what it finds ---- */

TEST after_and_done_follow_the_return_of_the_runner(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t r = fixture_once(&f, 'r', 0);
  r.after = probe_after;
  CHECK_CALL(send_out(&f, &r));
  CHECK_CALL(home(&f));
  fixture_turn(&f);
  ASSERT_U64(1, log_count(&f, EV_AFTER, 'r'));
  ASSERT_U64(1, log_count(&f, EV_DONE, 'r'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* For a task of the pool and for a task of the loop. */
TEST a_task_that_is_due_when_the_runner_returns_starts(void) {
  struct fixture f;

  fixture_init(&f);
  f.options.concurrency = 2;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t l = fixture_loop_task(&f, 'l', UVS_MS(10));
  uvs_task_t p = fixture_once(&f, 'p', UVS_MS(10));
  uvs_task_t late = fixture_once(&f, 'z', UVS_MS(11));
  ASSERT_RC(0, uvs_submit(f.s, &l, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &p, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &late, NULL));
  CHECK_CALL(send_any(&f));
  silently(&f, 10);
  CHECK_CALL(home(&f));
  fixture_turn(&f);
  ASSERT_U64(1, log_count(&f, EV_AFTER, 'l'));
  ASSERT_U64(1, log_count(&f, EV_WORK, 'p'));
  ASSERT_U64(0, log_count(&f, EV_WORK, 'z'));
  fixture_advance_ms(&f, 1);
  ASSERT_U64(3, log_count(&f, EV_DONE, 0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* The same with concurrency 0 at that time: the loop runs the pool's task. V5 */
TEST when_the_runner_returns_to_concurrency_0_the_loop_runs_due_tasks(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t p = fixture_once(&f, 'p', UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &p, NULL));
  CHECK_CALL(send_any(&f));
  ASSERT(fakepool_step());
  ASSERT_RC(0, uvs_set_concurrency(f.s, 0));
  fixture_turn(&f);
  silently(&f, 10);
  ASSERT(fakepool_step());
  ASSERT_U64(0, log_count(&f, EV_WORK, 'p'));
  fakepool_release();
  fixture_turn(&f);
  ASSERT_U64(1, log_count(&f, EV_WORK, 'p'));
  ASSERT(log_nth(&f, EV_WORK, 'p', 0)->on_loop);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* F5 */
TEST a_time_limit_that_passed_is_seen_when_the_runner_returns(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  f.options.concurrency = 2;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t l = fixture_once(&f, 'l', 0);
  l.keep_outcome = 1;
  l.limit.total_ns = UVS_MS(10);
  probe_of(&l)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &l, &id));
  fixture_turn(&f);
  CHECK_CALL(send_any(&f));
  silently(&f, 20);
  CHECK_CALL(home(&f));
  fixture_turn(&f);
  ASSERT_U64(1, counts_of(f.s).timed_out);
  ASSERT_RC(0, uvs_finish(f.s, id, 0));
  ASSERT_RC(0, uvs_forget(f.s, id));
  fixture_turn(&f);
  ASSERT_U64(1, log_count(&f, EV_DONE, 'l'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* A delay queue: the callback gets a value that is due, and one that was just put. */
static int act_put(struct probe *p, uvs_run_t *run) {
  (void)run;
  return put_ms(p->data, 'v', 0);
}

TEST due_values_of_a_queue_are_handed_out_when_the_runner_returns(void) {
  for (int in_body = 0; in_body < 2; in_body++) {
    uvs_queue_t *q;
    struct fixture f;

    fixture_init(&f);
    CHECK_CALL(queue_open(&f, &q));
    ASSERT_RC(0, uvs_queue_consume(q, logs_value, &f));
    if (!in_body)
      ASSERT_RC(0, put_ms(q, 'v', 10));
    uvs_task_t r = fixture_once(&f, 'r', 0);
    r.done = NULL;
    probe_of(&r)->act = in_body ? act_put : NULL;
    probe_of(&r)->data = q;
    CHECK_CALL(send_out(&f, &r));
    silently(&f, 20);
    CHECK_CALL(home(&f));
    fixture_turn(&f);
    ASSERT_U64(1, log_count(&f, EV_USER, 'v'));
    CHECK_CALL(queue_close(&f, q));
  }
  PASS();
}

/* The grid missed points: the hook is called. The end time has come: `done` is called. */
static void logs_missed(uvs_t *s, uvs_id_t id, uint64_t count, int reason, void *arg) {
  struct probe *p = arg;

  (void)s;
  (void)reason;
  log_add(p->f, EV_USER, 'm', id, (int)count);
}

TEST missed_points_are_reported_when_the_runner_returns(void) {
  struct fixture f;

  fixture_init(&f);
  f.hooks.on_missed = logs_missed;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
  t.missed_policy = UVS_MISSED_SKIP;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  CHECK_CALL(send_any(&f));
  silently(&f, 35);
  CHECK_CALL(home(&f));
  fixture_turn(&f);
  ASSERT_U64(1, log_count(&f, EV_USER, 'm'));
  ASSERT_RC(3, log_nth(&f, EV_USER, 'm', 0)->status);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

TEST a_task_whose_end_time_has_come_is_done_when_the_runner_returns(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
  t.missed_policy = UVS_MISSED_SKIP;
  t.until_ns = UVS_MS(12);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  CHECK_CALL(send_any(&f));
  silently(&f, 35);
  CHECK_CALL(home(&f));
  fixture_turn(&f);
  ASSERT_U64(0, log_count(&f, EV_WORK, 'a'));
  ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* The last task of a disposed lane returns: clean-ups and `quiet` are called. R29 */
static int act_dispose(struct probe *p, uvs_run_t *run) {
  (void)run;
  return uvs_lane_dispose((uvs_lane_t)p->id, 0);
}

TEST a_lane_that_was_disposed_meanwhile_ends_when_the_runner_returns(void) {
  for (int in_body = 0; in_body < 2; in_body++) {
    struct fixture f;
    uvs_lane_t lane;

    CHECK_CALL(open_with_lane(&f, 1, 1, &lane));
    ASSERT_RC(0, uvs_lane_add_cleanup(f.s, lane, note, fixture_probe(&f, 'c'), 0));
    uvs_task_t r = in_lane(fixture_once(&f, 'r', 0), lane);
    r.done = NULL;
    probe_of(&r)->act = in_body ? act_dispose : NULL;
    probe_of(&r)->id = lane;
    CHECK_CALL(send_out(&f, &r));
    if (!in_body) { /* nothing starts any more, but one is in the pool */
      ASSERT(fakepool_step());
      ASSERT_RC(0, uvs_lane_dispose(lane, 0));
      fixture_turn(&f);
      ASSERT(fakepool_step());
      fakepool_release();
    } else {
      CHECK_CALL(home(&f));
    }
    fixture_turn(&f);
    ASSERT_STR_EQ("cq", log_string(&f, EV_USER));
    ASSERT_U64(0, inspect_lanes(f.s));
    CHECK_CALL(close_idle(&f));
  }
  PASS();
}

/* Attached by the body just before its task ends. */
static int act_attach(struct probe *p, uvs_run_t *run) {
  return attach(p->f, run->id, 'c', 0);
}

TEST a_clean_up_attached_by_the_body_is_called_when_the_runner_returns(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t r = fixture_once(&f, 'r', 0);
  r.done = NULL;
  probe_of(&r)->act = act_attach;
  CHECK_CALL(send_out(&f, &r));
  CHECK_CALL(home(&f));
  fixture_turn(&f);
  ASSERT_STR_EQ("c", log_string(&f, EV_USER));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S41: a task without callbacks fails, so the error hook must be called. */
TEST a_failure_reaches_the_error_hook_when_the_runner_returns(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t r = fixture_once(&f, 'r', 0);
  r.done = NULL;
  probe_of(&r)->ret = UV_EIO;
  CHECK_CALL(send_out(&f, &r));
  CHECK_CALL(home(&f));
  fixture_turn(&f);
  ASSERT_U64(1, log_count(&f, EV_ERROR, 'r'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S30: the returning runner may be the last. */
static int act_shut(struct probe *p, uvs_run_t *run) {
  (void)p;
  return uvs_shutdown(run->scheduler);
}

TEST a_scheduler_that_a_body_shuts_down_terminates(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t r = fixture_once(&f, 'r', 0);
  r.done = NULL;
  probe_of(&r)->act = act_shut;
  CHECK_CALL(send_out(&f, &r));
  CHECK_CALL(home(&f));
  fixture_turn(&f);
  ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

TEST a_shutdown_waits_for_the_runner_and_no_longer(void) {
  for (int now = 0; now < 2; now++) {
    struct fixture f;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    CHECK_CALL(send_any(&f));
    ASSERT(fakepool_step()); /* the body has returned, the runner is not home */
    ASSERT_RC(0, now ? uvs_shutdown_now(f.s, NULL, NULL) : uvs_shutdown(f.s));
    fixture_turn(&f);
    ASSERT_U64(0, log_count(&f, EV_TERMINATED, 0));
    ASSERT(fakepool_step());
    ASSERT_U64(0, log_count(&f, EV_TERMINATED, 0));
    fakepool_release();
    fixture_turn(&f);
    ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L2 */
TEST a_close_waits_for_the_runner_and_no_longer(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  CHECK_CALL(send_any(&f));
  ASSERT(fakepool_step());
  ASSERT_RC(0, uvs_close(f.s, note_closed));
  fixture_turn(&f);
  ASSERT_U64(0, log_count(&f, EV_USER, 'c'));
  ASSERT(fakepool_step());
  ASSERT_U64(0, log_count(&f, EV_USER, 'c'));
  fakepool_release();
  f.s = NULL;
  fixture_turn_until_closed(&f);
  ASSERT_U64(1, log_count(&f, EV_USER, 'c'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* Somebody closes the scheduler's handles and then the scheduler, before or after the runner
 * returns. There is no async to send to, and still all callbacks are made. */
TEST a_close_makes_all_callbacks_even_if_others_closed_its_handles(void) {
  for (int which = 0; which < 3; which++)
    for (int close_first = 0; close_first < 2; close_first++) {
      struct fixture f;
      struct found h;

      fixture_init(&f);
      CHECK_CALL(fixture_open_turned(&f));
      uvs_task_t r = fixture_once(&f, 'r', 0);
      r.after = probe_after;
      CHECK_CALL(send_out(&f, &r));
      h = find_handles(&f.loop, f.s);
      if (which != 1)
        uv_close(h.timer, NULL);
      if (which != 0)
        uv_close(h.async, NULL);
      ASSERT(fakepool_step());
      if (close_first)
        ASSERT_RC(0, uvs_close(f.s, note_closed));
      ASSERT(fakepool_step());
      ASSERT_U64(1, log_total(&f)); /* the body */
      fakepool_release();
      if (!close_first)
        ASSERT_RC(0, uvs_close(f.s, note_closed));
      f.s = NULL;
      fixture_turn_until_closed(&f);
      ASSERT_U64(1, log_count(&f, EV_AFTER, 'r'));
      ASSERT_U64(1, log_count(&f, EV_DONE, 'r'));
      ASSERT_U64(1, log_count(&f, EV_USER, 'c'));
      CHECK_CALL(fixture_close(&f));
    }
  PASS();
}

/* ---- asleep again ---- */

/* With the real clock. */
static enum greatest_test_res open_real_clock(struct fixture *f, enum fakepool_mode pool,
                                              int concurrency) {
  fixture_init(f);
  f->real_clock = true;
  f->pool = pool;
  f->options.concurrency = concurrency;
  CHECK_CALL(fixture_open_turned(f));
  PASS();
}

static int act_submit(struct probe *p, uvs_run_t *run) {
  return uvs_submit(run->scheduler, p->data, NULL);
}

/* F5: the body has submitted a task with a time limit. Only that limit wakes the loop. */
TEST the_time_limit_of_a_task_submitted_by_a_body_wakes_the_loop(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(open_real_clock(&f, FAKEPOOL_STEPPED, 2));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  t.limit.total_ns = UVS_MS(20);
  probe_of(&t)->ret = UVS_PENDING;
  uvs_task_t r = fixture_once(&f, 'r', 0);
  r.done = NULL;
  probe_of(&r)->act = act_submit;
  probe_of(&r)->data = &t;
  CHECK_CALL(send_out(&f, &r));
  CHECK_CALL(home_after(&f, 2)); /* the runner takes the new task, too */
  fixture_turn(&f);
  id = log_nth(&f, EV_WORK, 'a', 0)->id;
  ASSERT_RC(0, attach(&f, id, 'c', UVS_CLEANUP_WHEN_SETTLED));
  ASSERT(fixture_wait_log(&f, EV_USER, 'c', 1));
  ASSERT_U64(1, counts_of(f.s).timed_out);
  ASSERT_RC(0, uvs_finish(f.s, id, 0));
  ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 1));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S70: the body has submitted a wall-clock task. Only its due time wakes the loop. */
TEST a_wall_clock_task_submitted_by_a_body_wakes_the_loop(void) {
  struct timespec now;
  struct fixture f;

  CHECK_CALL(open_real_clock(&f, FAKEPOOL_STEPPED, 1));
  ASSERT_RC(0, clock_gettime(CLOCK_REALTIME, &now));
  uvs_task_t w = fixture_once(&f, 'w', 0);
  w.from = UVS_FROM_WALL;
  w.first_ns = UVS_SEC(now.tv_sec) + now.tv_nsec + UVS_MS(20);
  uvs_task_t r = fixture_once(&f, 'r', 0);
  r.done = NULL;
  probe_of(&r)->act = act_submit;
  probe_of(&r)->data = &w;
  CHECK_CALL(send_out(&f, &r));
  CHECK_CALL(home(&f));
  ASSERT(fixture_wait_log(&f, EV_DONE, 'w', 1));
  ASSERT_U64(1, log_count(&f, EV_WORK, 'w'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static struct {
  _Atomic int inside;
  _Atomic int given_up;
  int all;
} barrier;

static int meet(uvs_run_t *run) {
  int64_t end_ns = (int64_t)uv_hrtime() + PATIENCE_NS;

  (void)run;
  atomic_fetch_add(&barrier.inside, 1);
  while (atomic_load(&barrier.inside) < barrier.all) {
    if ((int64_t)uv_hrtime() > end_ns) {
      atomic_store(&barrier.given_up, 1);
      break;
    }
    uv_sleep(0);
  }
  return 0;
}

static int meet_in_the_second_run(uvs_run_t *run) {
  return run->number == 1 ? 0 : meet(run);
}

/* The loop polls all the time, but only the scheduler's own timer and runners call it. */
static void turn_until(struct fixture *f, const _Atomic int *count, int n) {
  fakepool_pin();
  while (atomic_load(count) < n)
    uv_run(&f->loop, UV_RUN_NOWAIT);
  fakepool_unpin();
}

/* L15: the bodies wait for each other, after many brief ones. No deadline wakes the loop. */
TEST bodies_that_wait_for_each_other_all_run(void) {
  enum { BRIEF = 200 };

  for (int way = 0; way < 3; way++) { /* from the loop, from another thread, coming home */
    for (barrier.all = 2; barrier.all <= 4; barrier.all++) {
      static _Atomic int dones;
      struct fixture f;

      CHECK_CALL(open_real_clock(&f, FAKEPOOL_REAL, 4));
      atomic_store(&dones, 0);
      atomic_store(&barrier.inside, 0);
      atomic_store(&barrier.given_up, 0);
      uvs_task_t t;
      uvs_task_init(&t);
      t.work = work_nothing;
      t.done = done_counts;
      t.arg = (void *)&dones;
      for (int n = 1; n <= BRIEF; n++)
        ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
      turn_until(&f, &dones, BRIEF);
      t.work = meet;
      if (way == 2) {
        t.work = meet_in_the_second_run;
        t.kind = UVS_FIXED_DELAY;
        t.period_ns = 1;
        t.max_runs = 2;
      }
      atomic_store(&dones, 0);
      for (int n = 0; n < barrier.all; n++)
        ASSERT_RC(0, way == 1 ? submit_elsewhere(f.s, t, NULL) : uvs_submit(f.s, &t, NULL));
      turn_until(&f, &dones, barrier.all);
      ASSERT_U64(0, atomic_load(&barrier.given_up));
      CHECK_CALL(fixture_close(&f));
    }
  }
  PASS();
}

/* ---- keep alive ---- */

/* L1: the loop stays alive while a callback is pending, and no longer. */
TEST the_loop_stays_alive_for_a_pending_callback_and_no_longer(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t r = fixture_once(&f, 'r', 0);
  r.flags = UVS_UNREF; /* it is the callback that is owed */
  r.after = probe_after;
  CHECK_CALL(send_out(&f, &r));
  CHECK_CALL(home(&f));
  ASSERT(fixture_alive(&f));
  ASSERT(fixture_run(&f, UV_RUN_DEFAULT, NULL));
  ASSERT_U64(1, log_count(&f, EV_DONE, 'r'));
  ASSERT_FALSE(fixture_alive(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L1: detached tasks have no callbacks, and still the loop notices their end. */
TEST the_loop_ends_when_the_last_runner_has_returned(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  CHECK_CALL(send_any(&f));
  ASSERT(fixture_alive(&f));
  CHECK_CALL(home(&f));
  ASSERT(fixture_run(&f, UV_RUN_DEFAULT, NULL));
  ASSERT_FALSE(fixture_alive(&f));
  ASSERT_U64(0, live_tasks(f.s));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L1: the loop sleeps without a timer. It must notice a task that is never due, because the task
 * keeps it alive. */
TEST a_task_that_is_never_due_keeps_the_loop_alive(void) {
  for (int real = 0; real < 2; real++) {
    struct fixture f;
    uvs_id_t id;

    fixture_init(&f);
    f.real_clock = real;
    CHECK_CALL(fixture_open_turned(&f));
    CHECK_CALL(send_any(&f));
    CHECK_CALL(home(&f));
    uvs_task_t t = fixture_once(&f, 'n', UVS_NEVER);
    ASSERT_RC(0, submit_elsewhere(f.s, t, &id));
    fixture_turn(&f);
    ASSERT(fixture_alive(&f));
    ASSERT_RC(UVS_CANCELLED, cancel_elsewhere(f.s, id));
    ASSERT(fixture_run(&f, UV_RUN_DEFAULT, NULL));
    ASSERT_U64(1, log_count(&f, EV_DONE, 'n'));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L1 L9: everything at once, with the real clock and pool: uv_run returns when the last task has
 * ended. */
TEST uv_run_returns_when_the_last_task_has_ended(void) {
  for (int round = 0; round < 5; round++) {
    unsigned dones;
    struct fixture f;

    CHECK_CALL(open_real_clock(&f, FAKEPOOL_REAL, 3));
    for (int i = 0; i < 40; i++) {
      uvs_task_t t = i % 4 == 0   ? fixture_loop_task(&f, 'l', UVS_US(100 * i))
                     : i % 4 == 1 ? fixture_rate(&f, 'p', UVS_US(100 * i), UVS_US(70))
                                  : fixture_once(&f, 'o', UVS_US(90 * i));

      if (i % 4 == 1)
        t.max_runs = 5;
      if (i % 4 == 2)
        t.after = probe_after;
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    }
    ASSERT(fixture_run(&f, UV_RUN_DEFAULT, &dones));
    ASSERT_U64(40, dones);
    ASSERT_U64(0, live_tasks(f.s));
    ASSERT_FALSE(fixture_alive(&f));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* ---- L9 ---- */

static unsigned pass;

static int logs_pass(uvs_run_t *run) {
  struct probe *p = run->arg;

  log_add(p->f, EV_AFTER, p->tag, run->id, (int)pass);
  return 0;
}

/* L9: many periods to catch up, by runs on the pool with an `after` each on the loop. */
TEST no_after_is_called_twice_in_one_loop_pass(void) {
  static const uv_run_mode modes[] = {UV_RUN_NOWAIT, UV_RUN_ONCE, UV_RUN_DEFAULT};

  for (int i = 0; i < 3; i++)
    for (int pool = FAKEPOOL_REAL; pool <= FAKEPOOL_STEPPED; pool++) {
      uv_prepare_t counter;
      struct fixture f;

      fixture_init(&f);
      f.pool = (enum fakepool_mode)pool;
      f.options.concurrency = 2;
      CHECK_CALL(fixture_open_turned(&f));
      uv_prepare_init(&f.loop, &counter);
      uv_prepare_start(&counter, count_turn);
      uv_unref((uv_handle_t *)&counter);
      counter.data = &pass;
      pass = 0;
      for (int k = 0; k < 4; k++) {
        uvs_task_t t = fixture_rate(&f, 'a' + k, VCLOCK_START_NS - UVS_MS(900), UVS_MS(1));

        t.from = UVS_FROM_MONOTONIC; /* 900 points are past */
        t.after = logs_pass;
        t.max_runs = 30;
        t.max_burst = 1000;
        ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
      }
      for (uint64_t until_ns = uv_hrtime() + (uint64_t)UVS_SEC(60);
           log_count(&f, EV_DONE, 0) < 4 && uv_hrtime() < until_ns;)
        uv_run(&f.loop, modes[i]);
      ASSERT_U64(4, log_count(&f, EV_DONE, 0));
      for (int k = 0; k < 4; k++) {
        ASSERT_U64(30, log_count(&f, EV_AFTER, 'a' + k));
        for (unsigned n = 1; n < 30; n++)
          ASSERT(log_nth(&f, EV_AFTER, 'a' + k, n)->status >
                 log_nth(&f, EV_AFTER, 'a' + k, n - 1)->status);
      }
      uv_close((uv_handle_t *)&counter, NULL);
      CHECK_CALL(fixture_close(&f));
    }
  PASS();
}

SUITE(what_a_runner_finds) {
  RUN_TEST(after_and_done_follow_the_return_of_the_runner);
  RUN_TEST(a_task_that_is_due_when_the_runner_returns_starts);
  RUN_TEST(when_the_runner_returns_to_concurrency_0_the_loop_runs_due_tasks);
  RUN_TEST(a_time_limit_that_passed_is_seen_when_the_runner_returns);
  RUN_TEST(due_values_of_a_queue_are_handed_out_when_the_runner_returns);
  RUN_TEST(missed_points_are_reported_when_the_runner_returns);
  RUN_TEST(a_task_whose_end_time_has_come_is_done_when_the_runner_returns);
  RUN_TEST(a_lane_that_was_disposed_meanwhile_ends_when_the_runner_returns);
  RUN_TEST(a_clean_up_attached_by_the_body_is_called_when_the_runner_returns);
  RUN_TEST(a_failure_reaches_the_error_hook_when_the_runner_returns);
  RUN_TEST(a_scheduler_that_a_body_shuts_down_terminates);
  RUN_TEST(a_shutdown_waits_for_the_runner_and_no_longer);
  RUN_TEST(a_close_waits_for_the_runner_and_no_longer);
  RUN_TEST(a_close_makes_all_callbacks_even_if_others_closed_its_handles);
}

SUITE(asleep_again) {
  RUN_TEST(the_time_limit_of_a_task_submitted_by_a_body_wakes_the_loop);
  RUN_TEST(a_wall_clock_task_submitted_by_a_body_wakes_the_loop);
  RUN_TEST(bodies_that_wait_for_each_other_all_run);
}

SUITE(the_loop) {
  RUN_TEST(the_loop_stays_alive_for_a_pending_callback_and_no_longer);
  RUN_TEST(the_loop_ends_when_the_last_runner_has_returned);
  RUN_TEST(a_task_that_is_never_due_keeps_the_loop_alive);
  RUN_TEST(uv_run_returns_when_the_last_task_has_ended);
  RUN_TEST(no_after_is_called_twice_in_one_loop_pass);
}

TEST_MAIN(RUN_SUITE(what_a_runner_finds); RUN_SUITE(asleep_again); RUN_SUITE(the_loop));
