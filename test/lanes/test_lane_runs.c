/* SPDX-License-Identifier: MIT
 *
 * A run occupies its lane until it has ended, including `after` and uvs_finish, wherever it runs.
 * Whatever ends or removes it lets the next task start.
 */
#include "lib/bodies.h"
#include "lib/lanes.h"
#include "lib/limited.h"
#include "lib/threads.h"

/* ------------------------------------------------- after, pending, on the loop --- */

/* R7: no task starts between `work` and the end of `after`. */
TEST a_run_occupies_its_lane_until_its_after_has_returned(void) {
  for (int concurrency = 0; concurrency < 3; concurrency++) {
    struct fixture f;
    uvs_lane_t lane;

    CHECK_CALL(open_with_lane(&f, concurrency, 1, &lane));
    for (int i = 0; i < 3; i++) {
      uvs_task_t t = in_lane(fixture_once(&f, 'a' + i, 0), lane);

      t.after = probe_after;
      t.done = NULL;
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    }
    fixture_turn(&f);
    ASSERT_STR_EQ("aabbcc", log_string(&f, (enum event_kind)0));
    CHECK_CALL(close_idle(&f));
  }
  PASS();
}

/* R2 R7 L14 */
TEST a_pending_run_occupies_its_lane_until_it_is_finished(void) {
  for (int how = 0; how < 16; how++) {
    bool with_after = how % 2 != 0, narrow = how / 2 % 2 != 0;
    struct fixture f;
    uvs_lane_t lane;
    uvs_id_t id;

    CHECK_CALL(open_with_lane(&f, how / 4, 1, &lane));
    uvs_task_t t = in_lane(fixture_once(&f, 'a', 0), lane);
    t.after = with_after ? probe_after : NULL;
    probe_of(&t)->ret = UVS_PENDING;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    CHECK_CALL(submit(&f, lane, 'b', 0));
    CHECK_CALL(submit_loop_task(&f, lane, 'c'));
    fixture_advance_ms(&f, 100);
    ASSERT_STR_EQ("a", log_string(&f, (enum event_kind)0));
    ASSERT_RC(0, narrow ? uvs_lane_finish(lane, id, 0) : uvs_finish(f.s, id, 0));
    ASSERT_RC(UV_ENOENT, narrow ? uvs_lane_finish(lane, id, 0) : uvs_finish(f.s, id, 0));
    fixture_turn(&f);
    ASSERT_STR_EQ("ab", log_string(&f, EV_WORK));
    ASSERT_STR_EQ(with_after ? "ac" : "c", log_string(&f, EV_AFTER));
    ASSERT_STR_EQ("abc", log_string(&f, EV_DONE));
    CHECK_CALL(close_idle(&f));
  }
  PASS();
}

static int do_finish(void *arg) {
  struct probe *p = arg;

  return uvs_finish(p->f->s, p->id, 0);
}

/* The finishing thread is neither the loop nor a runner: both must be notified. */
TEST a_finish_on_another_thread_lets_the_next_lane_task_start(void) {
  for (int loop_task = 0; loop_task < 2; loop_task++) {
    struct fixture f;
    uvs_lane_t lane;

    CHECK_CALL(open_with_lane(&f, 2, 1, &lane));
    uvs_task_t t = in_lane(fixture_once(&f, 'a', 0), lane);
    probe_of(&t)->ret = UVS_PENDING;
    t.done = NULL;
    ASSERT_RC(0, uvs_submit(f.s, &t, &probe_of(&t)->id));
    CHECK_CALL(loop_task ? submit_loop_task(&f, lane, 'b') : submit(&f, lane, 'b', 0));
    fixture_turn(&f);
    ASSERT_RC(0, elsewhere(do_finish, t.arg));
    fixture_turn(&f);
    ASSERT_U64(1, log_count(&f, EV_DONE, 'b'));
    CHECK_CALL(close_idle(&f));
  }
  PASS();
}

/* Loop tasks, with or without `work` on the pool, keep the lane's order. R2 */
TEST loop_tasks_and_pool_tasks_of_one_lane_run_in_order(void) {
  for (int how = 0; how < 4 * 4; how++) {
    struct fixture f;
    uvs_lane_t lane;

    fixture_init(&f);
    f.pool = how % 2 == 0 ? FAKEPOOL_STEPPED : FAKEPOOL_INLINE;
    f.options.concurrency = how / 4;
    CHECK_CALL(fixture_open_turned(&f));
    CHECK_CALL(open_lane(&f, 1, &lane));
    for (int i = 0; i < 12; i++) {
      uvs_task_t t = i % 3 == 1 ? fixture_loop_task(&f, 'a' + i, 0) : fixture_once(&f, 'a' + i, 0);

      if (i % 3 == 0)
        t.after = probe_after; /* whose end lets a loop task start, on the loop itself */
      if (how / 2 % 2 != 0)
        t.done = NULL;
      t.lane = lane;
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    }
    fixture_turn(&f);
    ASSERT_STR_EQ("acdfgijl", log_string(&f, EV_WORK));
    ASSERT_STR_EQ("abdeghjk", log_string(&f, EV_AFTER));
    CHECK_CALL(close_idle(&f));
  }
  PASS();
}

/* A body on libuv's pool that blocks until it is released and does not call the library: the loop
 * sleeps unless something else wakes it. */
static _Atomic int inside, let;

static int act_stays(struct probe *p, uvs_run_t *run) {
  (void)run;
  await_at_least(&let, atomic_fetch_add(&inside, 1) + 1);
  return p->ret;
}

static enum greatest_test_res open_to_stay(struct fixture *f, uint32_t width, uvs_lane_t *ret) {
  atomic_store(&inside, 0);
  atomic_store(&let, 0);
  CHECK_CALL(open_real(f, 1, width, ret));
  PASS();
}

static enum greatest_test_res close_real(struct fixture *f) {
  uint64_t end_ns = uv_hrtime() + (uint64_t)PATIENCE_NS;

  while (fakepool_pending() > 0 && uv_hrtime() < end_ns)
    fixture_turn(f);
  CHECK_CALL(close_idle(f));
  PASS();
}

static enum greatest_test_res submit_staying(struct fixture *f, uvs_lane_t lane, int tag) {
  uvs_task_t t = in_lane(fixture_once(f, tag, 0), lane);

  t.done = NULL;
  probe_of(&t)->act = act_stays;
  ASSERT_RC(0, uvs_submit(f->s, &t, NULL));
  PASS();
}

TEST the_end_of_a_lanes_run_wakes_the_loop_for_the_next_task(void) {
  static struct fixture f;
  uvs_lane_t lane;

  CHECK_CALL(open_to_stay(&f, 1, &lane));
  CHECK_CALL(submit_staying(&f, lane, 'a'));
  CHECK_CALL(submit_loop_task(&f, lane, 'b'));
  CHECK_CALL(submit_staying(&f, 0, 'x'));
  fixture_turn(&f);
  ASSERT(await_at_least(&inside, 1));
  fixture_turn(&f);
  atomic_store(&let, 1);
  ASSERT(await_at_least(&inside, 2)); /* the runner is in x, for as long as it takes */
  ASSERT(fixture_wait_log(&f, EV_DONE, 'b', 1));
  atomic_store(&let, 2);
  CHECK_CALL(close_real(&f));
  PASS();
}

static int run_one_item(void *arg) {
  (void)arg;
  return fakepool_step() ? 0 : UV_EAGAIN;
}

/* In a wider lane the start of one task lets the next one start. The loop must be woken for it,
 * even if it fell asleep before: the runner comes late. */
TEST the_start_of_a_wide_lanes_run_wakes_the_loop_for_the_next_task(void) {
  for (int first = 0; first < 2; first++) { /* a runner's first task, or one after another */
    struct errand runner = {run_one_item, NULL, UV_EAGAIN};
    static struct fixture f;
    uv_thread_t thread;
    uvs_lane_t lane;

    atomic_store(&inside, 0);
    atomic_store(&let, 0);
    fixture_init(&f);
    f.pool = FAKEPOOL_INLINE;
    f.options.concurrency = 1;
    CHECK_CALL(fixture_open_turned(&f));
    CHECK_CALL(open_lane(&f, 2, &lane));
    fakepool_hold();
    if (!first)
      CHECK_CALL(submit_staying(&f, 0, 'x'));
    CHECK_CALL(submit_staying(&f, lane, 'a'));
    CHECK_CALL(submit_loop_task(&f, lane, 'b'));
    fixture_turn(&f);
    ASSERT_RC(0, uv_thread_create(&thread, errand_main, &runner));
    ASSERT(await_at_least(&inside, 1));
    fixture_turn(&f);
    atomic_store(&let, !first);
    ASSERT(await_at_least(&inside, first ? 1 : 2)); /* in a */
    fixture_turn(&f);
    unsigned ran = log_count(&f, EV_AFTER, 'b');
    atomic_store(&let, 2);
    uv_thread_join(&thread);
    ASSERT_U64(1, ran);
    ASSERT_RC(0, runner.rc);
    fakepool_release();
    fixture_turn(&f);
    CHECK_CALL(close_idle(&f));
  }
  PASS();
}

/* --------------------------------------------------------------------- cancel --- */

static int do_cancel(void *arg) {
  struct probe *p = arg;

  return uvs_cancel(p->f->s, p->id, 0);
}

/* R11 R17 R34: whichever task is removed, the others run as if it had never existed. */
TEST a_lane_continues_without_cancelled_tasks(void) {
  for (int how = 0; how < 4 * 5 * 2; how++) {
    int which = how % 5, concurrency = how / 5 % 4;
    bool off_loop = how >= 4 * 5;
    uvs_task_t t[5];
    struct fixture f;
    uvs_lane_t lane;
    char rest[6] = "abcde";

    CHECK_CALL(open_with_lane(&f, concurrency, 1, &lane));
    fakepool_hold();
    for (int i = 0; i < 5; i++) {
      t[i] = i == 3 ? fixture_loop_task(&f, 'a' + i, 0)
                    : fixture_once(&f, 'a' + i, i == 4 ? UVS_MS(10) : 0);
      t[i].lane = lane;
      ASSERT_RC(0, uvs_submit(f.s, &t[i], &probe_of(&t[i])->id));
    }
    if (concurrency > 0)
      fixture_turn(&f); /* a is the next, b to d are ready, e waits */
    ASSERT_RC(UVS_CANCELLED,
              off_loop ? elsewhere(do_cancel, t[which].arg) : do_cancel(t[which].arg));
    ASSERT_RC(UV_ENOENT, do_cancel(t[which].arg));
    fakepool_release();
    fixture_advance_ms(&f, 20);
    memmove(rest + which, rest + which + 1, strlen(rest + which));
    char ran[16] = "";
    for (unsigned i = 0; i < log_total(&f); i++) {
      const struct event *e = log_nth(&f, (enum event_kind)0, 0, i);

      if (e->what == EV_WORK || e->what == EV_AFTER)
        ran[strlen(ran)] = (char)e->tag;
    }
    ASSERT_STR_EQ(rest, ran);
    ASSERT_U64(5, log_count(&f, EV_DONE, 0));
    ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'a' + which, 0)->status);
    CHECK_CALL(close_idle(&f));
  }
  PASS();
}

/* A task is the next in its lane and ready for the pool, whose only runner is busy for long. When
 * the task is cancelled, a task of the loop may start, and nothing else would wake the loop. */
TEST cancelling_a_lanes_first_task_wakes_the_loop_for_the_next(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    struct fixture f;
    uvs_lane_t lane;

    CHECK_CALL(open_with_lane(&f, 1, 1, &lane));
    fakepool_hold();
    uvs_task_t a = in_lane(fixture_once(&f, 'a', 0), lane);
    a.done = NULL;
    ASSERT_RC(0, uvs_submit(f.s, &a, &probe_of(&a)->id));
    CHECK_CALL(submit_loop_task(&f, lane, 'b'));
    CHECK_CALL(submit(&f, lane, 'c', 0));
    fixture_turn(&f);
    ASSERT_RC(UVS_CANCELLED, off_loop ? elsewhere(do_cancel, a.arg) : do_cancel(a.arg));
    fixture_turn(&f);
    ASSERT_U64(1, log_count(&f, EV_AFTER, 'b'));
    fakepool_release();
    fixture_turn(&f);
    ASSERT_STR_EQ("c", log_string(&f, EV_WORK));
    CHECK_CALL(close_idle(&f));
  }
  PASS();
}

/* The same from a callback, after the loop's own tasks of this pass. */
static void done_cancels(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct probe *p = arg;

  (void)id;
  log_add(p->f, EV_DONE, p->tag, id, status);
  log_add(p->f, EV_USER, 'x', 0, uvs_cancel(s, p->id, 0));
}

TEST cancelling_in_a_callback_lets_the_next_lane_task_start(void) {
  struct fixture f;
  uvs_lane_t lane;

  CHECK_CALL(open_with_lane(&f, 1, 1, &lane));
  fakepool_hold();
  uvs_task_t a = in_lane(fixture_once(&f, 'a', 0), lane), x = fixture_loop_task(&f, 'x', 0);
  a.done = NULL;
  x.done = done_cancels;
  ASSERT_RC(0, uvs_submit(f.s, &a, &probe_of(&x)->id));
  CHECK_CALL(submit_loop_task(&f, lane, 'b'));
  ASSERT_RC(0, uvs_submit(f.s, &x, NULL));
  fixture_turn(&f);
  ASSERT_U64(1, log_count(&f, EV_AFTER, 'b'));
  fakepool_release();
  fixture_turn(&f);
  CHECK_CALL(close_idle(&f));
  PASS();
}

/* F12: the outcome is decided, but the lane is occupied until the body has returned. */
TEST a_task_cancelled_during_its_run_occupies_its_lane_until_the_body_returns(void) {
  static struct fixture f;
  uvs_lane_t lane;
  uvs_id_t id;

  gate_init(false);
  CHECK_CALL(open_real(&f, 2, 1, &lane));
  uvs_task_t t = in_lane(fixture_once(&f, 'a', 0), lane);
  probe_of(&t)->act = gate_pass;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  CHECK_CALL(submit(&f, lane, 'b', 0));
  ASSERT(gate_wait(&f, 1));
  ASSERT_RC(UV_EBUSY, uvs_lane_cancel(lane, id, UVS_CANCEL_IF_WAITING));
  ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, uvs_lane_cancel(lane, id, 0));
  for (int i = 0; i < 10; i++)
    fixture_turn(&f);
  ASSERT_STR_EQ("a", log_string(&f, (enum event_kind)0));
  gate_let(1);
  ASSERT(fixture_wait_log(&f, EV_DONE, 0, 2));
  ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 0)->status);
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'b', 0)->status);
  CHECK_CALL(close_real(&f));
  PASS();
}

static int act_cancels_itself(struct probe *p, uvs_run_t *run) {
  return uvs_cancel(run->scheduler, run->id, 0) == UVS_CANCELLED_WHILE_RUNNING ? p->ret : UV_EIO;
}

/* R10 R11 */
TEST a_periodic_lane_task_can_end_itself_in_its_first_run(void) {
  struct fixture f;
  uvs_lane_t lane;

  CHECK_CALL(open_with_lane(&f, 2, 1, &lane));
  uvs_task_t t = in_lane(fixture_rate(&f, 'a', 0, UVS_MS(10)), lane);
  probe_of(&t)->act = act_cancels_itself;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  CHECK_CALL(submit(&f, lane, 'b', UVS_MS(50)));
  fixture_advance_ms(&f, 100);
  ASSERT_STR_EQ("ab", log_string(&f, EV_WORK));
  ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 0)->status);
  CHECK_CALL(close_idle(&f));
  PASS();
}

/* --------------------------------------------------- failures, retries, limits --- */

/* R12 R20 R25 R26 */
TEST a_failing_task_is_reported_and_its_lane_goes_on(void) {
  struct fixture f;
  uvs_lane_t lane;
  uvs_id_t id[3];

  CHECK_CALL(open_with_lane(&f, 2, 1, &lane));
  uvs_task_t t = in_lane(fixture_rate(&f, 'a', 0, UVS_MS(10)), lane),
             u = in_lane(fixture_once(&f, 'u', 0), lane);
  probe_of(&t)->ret = probe_of(&u)->ret = UV_EIO;
  u.done = NULL;
  uvs_task_t b = in_lane(fixture_once(&f, 'b', 0), lane);
  ASSERT_RC(0, uvs_submit(f.s, &t, &id[0]));
  ASSERT_RC(0, uvs_submit(f.s, &u, &id[1]));
  ASSERT_RC(0, uvs_submit(f.s, &b, &id[2]));
  fixture_advance_ms(&f, 100);
  for (int i = 0; i < 3; i++) { /* over, each of them */
    ASSERT_RC(UV_ENOENT, uvs_lane_cancel(lane, id[i], 0));
    ASSERT_RC(UV_ENOENT, state_of(f.s, id[i]));
  }
  ASSERT_STR_EQ("aub", log_string(&f, EV_WORK));
  ASSERT_STR_EQ("u", log_string(&f, EV_ERROR));
  ASSERT_RC(UV_EIO, log_nth(&f, EV_DONE, 'a', 0)->status);
  CHECK_CALL(close_idle(&f));
  PASS();
}

/* Between two attempts other tasks may use the lane. */
TEST a_task_that_waits_for_a_retry_does_not_occupy_its_lane(void) {
  struct fixture f;
  uvs_lane_t lane;

  CHECK_CALL(open_with_lane(&f, 2, 1, &lane));
  uvs_task_t t = in_lane(fixture_once(&f, 'a', 0), lane);
  follow_script(&t, "xx.");
  t.failure_policy = UVS_FAIL_RETRY;
  t.retry.wait_ns = UVS_MS(10);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  CHECK_CALL(submit(&f, lane, 'b', 0));
  CHECK_CALL(submit(&f, lane, 'c', UVS_MS(20)));
  fixture_advance_ms(&f, 100);
  ASSERT_STR_EQ("abaca", log_string(&f, EV_WORK));
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'a', 0)->status);
  CHECK_CALL(close_idle(&f));
  PASS();
}

/* Waiting for the lane counts: the limit passes, and the task does not run. F5 */
TEST a_lane_task_that_times_out_while_waiting_for_its_lane_does_not_run(void) {
  for (int concurrency = 0; concurrency < 3; concurrency++) {
    struct fixture f;
    uvs_lane_t lane;
    uvs_id_t id;

    CHECK_CALL(open_with_lane(&f, concurrency, 1, &lane));
    uvs_task_t a = in_lane(fixture_once(&f, 'a', 0), lane),
               b = in_lane(limited(&f, 'b', LATE_DEFAULT), lane);
    b.keep_outcome = 0;
    b.result = NULL;
    probe_of(&a)->ret = UVS_PENDING;
    ASSERT_RC(0, uvs_submit(f.s, &a, &id));
    ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
    CHECK_CALL(submit(&f, lane, 'c', 0));
    fixture_advance_ms(&f, LIMIT_MS + 1);
    ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
    ASSERT_STR_EQ("b", log_string(&f, EV_DONE));
    ASSERT_RC(UV_ETIMEDOUT, log_nth(&f, EV_DONE, 'b', 0)->status);
    ASSERT_RC(0, uvs_finish(f.s, id, 0));
    fixture_turn(&f);
    ASSERT_STR_EQ("ac", log_string(&f, EV_WORK));
    CHECK_CALL(close_idle(&f));
  }
  PASS();
}

/* The task is settled, and the next one still waits for the body. F5 */
TEST a_timed_out_run_occupies_its_lane_until_the_body_returns(void) {
  struct fixture f;
  uvs_lane_t lane;
  uvs_id_t id;

  CHECK_CALL(open_with_lane(&f, 2, 1, &lane));
  uvs_task_t a = in_lane(limited(&f, 'a', LATE_DEFAULT), lane);
  a.keep_outcome = 0;
  a.result = NULL;
  probe_of(&a)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &a, &id));
  CHECK_CALL(submit(&f, lane, 'b', 0));
  fixture_advance_ms(&f, LIMIT_MS + 5);
  ASSERT_U64(1, counts_of(f.s).timed_out);
  ASSERT_STR_EQ("a", log_string(&f, (enum event_kind)0));
  ASSERT_RC(0, uvs_finish(f.s, id, 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("ab", log_string(&f, EV_WORK));
  ASSERT_RC(UV_ETIMEDOUT, log_nth(&f, EV_DONE, 'a', 0)->status);
  CHECK_CALL(close_idle(&f));
  PASS();
}

/* ---------------------------------------------------------------- concurrency --- */

/* S67 V5: with concurrency 0 the ready tasks of lanes move to the loop, and back. */
TEST concurrency_can_drop_to_0_and_rise_while_lanes_are_full(void) {
  for (int how = 0; how < 8; how++) {
    uint32_t width = (uint32_t)how % 4;
    struct fixture f;
    uvs_lane_t a, b;

    CHECK_CALL(open_with_lane(&f, 2, width, &a));
    CHECK_CALL(open_lane(&f, 1, &b));
    fakepool_hold();
    for (int i = 0; i < 5; i++) {
      CHECK_CALL(submit(&f, a, 'a' + i, 0));
      CHECK_CALL(submit(&f, b, 'A' + i, 0));
    }
    CHECK_CALL(submit_loop_task(&f, a, 'l'));
    CHECK_CALL(submit(&f, a, 'm', 0));
    fixture_turn(&f);
    ASSERT_U64(12, counts_of(f.s).ready);
    ASSERT_RC(0, uvs_set_concurrency(f.s, 0));
    if (how >= 4) { /* the loop has not looked meanwhile */
      ASSERT_RC(0, uvs_set_concurrency(f.s, 2));
    } else {
      fixture_turn(&f);
      ASSERT_U64(0, counts_of(f.s).ready);
      ASSERT(log_nth(&f, EV_WORK, 'e', 0)->on_loop);
      CHECK_CALL(submit(&f, a, 'n', 0));
      ASSERT_RC(0, uvs_set_concurrency(f.s, 2));
    }
    fakepool_release();
    fixture_turn(&f);
    ASSERT_U64(how >= 4 ? 12 : 13, log_count(&f, EV_DONE, 0));
    for (int i = 0; i + 1 < 5; i++)
      ASSERT(log_nth(&f, EV_WORK, 'A' + i, 0) < log_nth(&f, EV_WORK, 'A' + i + 1, 0));
    CHECK_CALL(close_idle(&f));
  }
  PASS();
}

/* The runner is in a body when the concurrency drops to 0. Its end moves the other tasks to the
 * loop. */
TEST tasks_behind_the_last_runner_move_to_the_loop(void) {
  for (int back = 0; back < 2; back++) {
    static struct fixture f;
    uvs_lane_t lane;

    gate_init(false);
    CHECK_CALL(open_real(&f, 1, 1, &lane));
    uvs_task_t t = in_lane(fixture_once(&f, 'a', 0), lane);
    t.done = NULL;
    probe_of(&t)->act = gate_pass;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    for (int i = 1; i < 5; i++)
      CHECK_CALL(submit(&f, lane, 'a' + i, 0));
    ASSERT(gate_wait(&f, 1));
    ASSERT_RC(0, uvs_set_concurrency(f.s, 0));
    fixture_turn(&f);
    if (back)
      ASSERT_RC(0, uvs_set_concurrency(f.s, 1));
    gate_let(1);
    ASSERT(fixture_wait_log(&f, EV_DONE, 0, 4));
    ASSERT_STR_EQ("abcde", log_string(&f, EV_WORK));
    ASSERT_EQ(!back, log_nth(&f, EV_WORK, 'b', 0)->on_loop);
    CHECK_CALL(close_real(&f));
  }
  PASS();
}

SUITE(lane_runs) {
  RUN_TEST(a_run_occupies_its_lane_until_its_after_has_returned);
  RUN_TEST(a_pending_run_occupies_its_lane_until_it_is_finished);
  RUN_TEST(a_finish_on_another_thread_lets_the_next_lane_task_start);
  RUN_TEST(loop_tasks_and_pool_tasks_of_one_lane_run_in_order);
  RUN_TEST(the_end_of_a_lanes_run_wakes_the_loop_for_the_next_task);
  RUN_TEST(the_start_of_a_wide_lanes_run_wakes_the_loop_for_the_next_task);
  RUN_TEST(a_lane_continues_without_cancelled_tasks);
  RUN_TEST(cancelling_a_lanes_first_task_wakes_the_loop_for_the_next);
  RUN_TEST(cancelling_in_a_callback_lets_the_next_lane_task_start);
  RUN_TEST(a_task_cancelled_during_its_run_occupies_its_lane_until_the_body_returns);
  RUN_TEST(a_periodic_lane_task_can_end_itself_in_its_first_run);
  RUN_TEST(a_failing_task_is_reported_and_its_lane_goes_on);
  RUN_TEST(a_task_that_waits_for_a_retry_does_not_occupy_its_lane);
  RUN_TEST(a_lane_task_that_times_out_while_waiting_for_its_lane_does_not_run);
  RUN_TEST(a_timed_out_run_occupies_its_lane_until_the_body_returns);
  RUN_TEST(concurrency_can_drop_to_0_and_rise_while_lanes_are_full);
  RUN_TEST(tasks_behind_the_last_runner_move_to_the_loop);
}

TEST_MAIN(RUN_SUITE(lane_runs));
