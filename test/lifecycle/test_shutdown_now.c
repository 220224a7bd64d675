/* SPDX-License-Identifier: MIT
 *
 * Immediate shutdown: which tasks are handed back, and which still finish.
 */
#include "lib/bodies.h"
#include "lib/fixture.h"
#include "lib/threads.h"

/* The task has had exactly one `done`, and no callback came after it. */
static bool one_done_and_last(struct fixture *f, int tag) {
  uvs_id_t id = log_nth(f, EV_DONE, tag, 0)->id;

  if (log_count(f, EV_DONE, tag) != 1 || id == 0)
    return false;
  for (unsigned i = 0, seen = 0; i < log_total(f); i++) {
    const struct event *e = log_nth(f, (enum event_kind)0, 0, i);
    if (e->tag == tag && seen > 0)
      return false;
    seen += e->tag == tag && e->what == EV_DONE;
  }
  return true;
}

/* -------------------------------------------------------- immediate shutdown --- */

/* S33 S42 S43 */
TEST shutdown_now_hands_back_unstarted_tasks_and_lets_running_ones_finish(void) {
  struct fixture f;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.options.concurrency = 2;
  CHECK_CALL(fixture_open(&f));
  gate_init(true);
  for (int tag = 'a'; tag <= 'e'; tag++) { /* two run, three are ready */
    uvs_task_t t = fixture_once(&f, tag, 0);
    probe_of(&t)->act = gate_pass;
    probe_of(&t)->ret = tag == 'b' ? UV_EIO : 0;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  uvs_task_t later = fixture_once(&f, 'g', UVS_MS(20));
  uvs_task_t sooner = fixture_rate(&f, 'f', UVS_MS(10), UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &later, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &sooner, NULL));
  ASSERT(fixture_wait_log(&f, EV_WORK, 0, 2));
  ASSERT_U64(3, counts_of(f.s).ready);
  ASSERT_RC(0, elsewhere(do_shutdown_now, f.s));
  ASSERT(fixture_wait_log(&f, EV_TERMINATED, 0, 1));
  for (int tag = 'c'; tag <= 'g'; tag++)
    ASSERT_U64(1, log_count(&f, EV_NEVER_RAN, tag));
  ASSERT_U64(5, log_count(&f, EV_NEVER_RAN, 0));
  ASSERT_U64(2, log_count(&f, EV_WORK, 0)); /* they saw their token, or we would still wait */
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'a', 0)->status);
  ASSERT_RC(UV_EIO, log_nth(&f, EV_DONE, 'b', 0)->status);
  for (int tag = 'c'; tag <= 'g'; tag++)
    ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, tag, 0)->status);
  for (int tag = 'a'; tag <= 'g'; tag++)
    ASSERT(one_done_and_last(&f, tag));
  uvs_counts_t c = counts_of(f.s);
  ASSERT_U64(1, c.completed);
  ASSERT_U64(1, c.failed);
  ASSERT_U64(5, c.cancelled);
  ASSERT_U64(2, c.runs);
  ASSERT_U64(0, c.waiting + c.ready + c.running);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S33 */
TEST shutdown_now_empties_the_queue_while_a_body_still_runs(void) {
  struct fixture f;
  uvs_id_t running;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  uvs_task_t a = fixture_once(&f, 'a', 0);
  uvs_task_t b = fixture_once(&f, 'b', UVS_MS(10));
  uvs_task_t c = fixture_delay(&f, 'c', UVS_NEVER, UVS_MS(1));
  probe_of(&a)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &a, &running));
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &c, NULL));
  fixture_turn(&f);
  ASSERT_RC(0, do_shutdown_now(f.s));
  fixture_turn(&f);
  ASSERT_STR_EQ("bc", log_string(&f, EV_NEVER_RAN));
  ASSERT_STR_EQ("bc", log_string(&f, EV_DONE));
  uvs_counts_t n = counts_of(f.s);
  ASSERT_U64(0, n.waiting + n.ready);
  ASSERT_U64(1, n.running);
  ASSERT_U64(2, n.cancelled);
  ASSERT_I64(-1, fixture_next_ms(&f));
  ASSERT_RC(0, uvs_finish(f.s, running, 0));
  fixture_turn(&f);
  ASSERT_U64(1, counts_of(f.s).completed);
  ASSERT_RC(1, uvs_is_terminated(f.s));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S34 S33 */
TEST delayed_and_periodic_tasks_are_all_handed_back_and_end_cancelled(void) {
  struct fixture f;
  int off_loop;

  for (off_loop = 0; off_loop < 2; off_loop++) {
    fixture_init(&f);
    CHECK_CALL(fixture_open(&f));
    uvs_task_t specs[] = {
        fixture_once(&f, 'd', UVS_MS(40)),
        fixture_rate(&f, 'b', UVS_MS(20), UVS_MS(1)),
        fixture_delay(&f, 'c', UVS_MS(30), UVS_MS(1)),
        fixture_loop_task(&f, 'a', UVS_MS(10)),
        fixture_once(&f, 'w', VCLOCK_WALL_NS + UVS_MS(5)),
        fixture_once(&f, 'n', UVS_NEVER),
    };
    specs[4].from = UVS_FROM_WALL;
    for (unsigned i = 0; i < 6; i++)
      ASSERT_RC(0, uvs_submit(f.s, &specs[i], NULL));
    fixture_turn(&f);
    ASSERT_RC(0, off_loop ? elsewhere(do_shutdown_now, f.s) : do_shutdown_now(f.s));
    ASSERT_U64(0, log_total(&f)); /* never from inside a call */
    fixture_turn(&f);
    for (unsigned i = 0; i < 6; i++)
      ASSERT_U64(1, log_count(&f, EV_NEVER_RAN, probe_of(&specs[i])->tag));
    ASSERT_U64(6, log_count(&f, EV_NEVER_RAN, 0));
    ASSERT_U64(6, log_count(&f, EV_DONE, 0));
    for (unsigned i = 0; i < 6; i++) {
      int tag = probe_of(&specs[i])->tag;
      ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, tag, 0)->status);
      ASSERT(log_nth(&f, EV_NEVER_RAN, tag, 0)->on_loop);
      ASSERT_U64(log_nth(&f, EV_DONE, tag, 0)->id, log_nth(&f, EV_NEVER_RAN, tag, 0)->id);
      ASSERT(one_done_and_last(&f, tag));
    }
    ASSERT_U64(0, log_count(&f, EV_WORK, 0) + log_count(&f, EV_AFTER, 0));
    fixture_advance_ns(&f, UVS_HOUR(1));
    ASSERT_U64(14, log_total(&f)); /* all have come, and it has terminated */
    ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static int submit_spec(void *arg) {
  void **both = arg;

  return uvs_submit(both[0], both[1], NULL);
}

/* S33 S34 */
TEST tasks_that_the_loop_has_not_seen_yet_are_handed_back(void) {
  struct fixture f;

  for (int turned = 0; turned < 2; turned++) {
    fixture_init(&f);
    CHECK_CALL(fixture_open(&f));
    if (turned)
      fixture_turn(&f);
    uvs_task_t a = fixture_once(&f, 'a', UVS_MS(10));
    uvs_task_t b = fixture_rate(&f, 'b', 0, UVS_MS(10));
    uvs_task_t c = fixture_once(&f, 'c', 0);
    void *submissions[][2] = {{f.s, &a}, {f.s, &b}, {f.s, &c}};
    for (int i = 0; i < 3; i++)
      ASSERT_RC(0, elsewhere(submit_spec, submissions[i]));
    ASSERT_RC(0, do_shutdown_now(f.s));
    fixture_turn(&f);
    ASSERT_U64(0, log_count(&f, EV_WORK, 0));
    ASSERT_U64(3, log_count(&f, EV_DONE, 0));
    for (int tag = 'a'; tag <= 'c'; tag++) {
      ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, tag, 0)->status);
      ASSERT_U64(1, log_count(&f, EV_NEVER_RAN, tag));
    }
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S33 */
TEST a_task_that_has_run_is_not_handed_back(void) {
  struct fixture f;
  uvs_id_t cancelled;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  uvs_task_t ran = fixture_rate(&f, 'r', 0, UVS_MS(10));
  uvs_task_t not_yet = fixture_rate(&f, 'n', UVS_MS(5), UVS_MS(10));
  uvs_task_t gone = fixture_once(&f, 'g', UVS_MS(5));
  ASSERT_RC(0, uvs_submit(f.s, &ran, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &not_yet, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &gone, &cancelled));
  fixture_turn(&f);
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, cancelled, 0)); /* its owner has taken it back itself */
  ASSERT_RC(0, do_shutdown_now(f.s));
  fixture_turn(&f);
  ASSERT_STR_EQ("r", log_string(&f, EV_WORK));
  ASSERT_STR_EQ("n", log_string(&f, EV_NEVER_RAN));
  ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'r', 0)->status);
  ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'n', 0)->status);
  ASSERT_U64(3, log_count(&f, EV_DONE, 0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S33 */
TEST only_the_first_immediate_shutdown_hands_back(void) {
  struct fixture f;

  for (int first = 0; first < 2; first++) { /* with and without a callback of its own */
    for (int turn = 0; turn < 2; turn++) {
      fixture_init(&f);
      CHECK_CALL(fixture_open(&f));
      uvs_task_t a = fixture_once(&f, 'a', UVS_MS(10));
      ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
      fixture_turn(&f);
      ASSERT_RC(0, first ? do_shutdown_now(f.s) : do_shutdown_now_quietly(f.s));
      if (turn)
        fixture_turn(&f);
      ASSERT_RC(UV_EALREADY, do_shutdown_now(f.s));
      ASSERT_RC(UV_EALREADY, elsewhere(do_shutdown_now, f.s));
      ASSERT_RC(0, uvs_shutdown(f.s)); /* any number of times */
      fixture_turn(&f);
      ASSERT_U64((unsigned)first, log_count(&f, EV_NEVER_RAN, 0));
      ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
      ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
      CHECK_CALL(fixture_close(&f));
    }
  }
  PASS();
}

/* S33 S35 */
TEST shutdown_now_after_an_orderly_shutdown_takes_effect(void) {
  struct fixture f;

  fixture_init(&f);
  f.options.periodic_after_shutdown = 1;
  CHECK_CALL(fixture_open(&f));
  uvs_task_t a = fixture_once(&f, 'a', UVS_MS(10));
  uvs_task_t b = fixture_rate(&f, 'b', 0, UVS_MS(4));
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  ASSERT_RC(0, uvs_shutdown(f.s));
  fixture_advance_ms(&f, 9);
  ASSERT_STR_EQ("0 4 8", log_runs(&f, EV_WORK, 'b'));
  ASSERT_RC(0, do_shutdown_now(f.s));
  fixture_advance_ms(&f, 100);
  ASSERT_STR_EQ("bbb", log_string(&f, EV_WORK));
  ASSERT_STR_EQ("a", log_string(&f, EV_NEVER_RAN));
  ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S33 S34 */
TEST a_ready_task_with_a_runner_in_the_pool_is_handed_back(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  fakepool_hold();
  uvs_task_t a = fixture_once(&f, 'a', 0);
  uvs_task_t b = fixture_rate(&f, 'b', 0, UVS_MS(1));
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  fixture_turn(&f);
  ASSERT_U64(2, counts_of(f.s).ready);
  ASSERT(fakepool_pending() > 0);
  ASSERT_RC(0, do_shutdown_now(f.s));
  fakepool_release();
  fixture_turn(&f);
  ASSERT_U64(0, log_count(&f, EV_WORK, 0));
  ASSERT_STR_EQ("ab", log_string(&f, EV_NEVER_RAN));
  ASSERT_U64(2, log_count(&f, EV_DONE, 0));
  ASSERT_RC(1, uvs_is_terminated(f.s));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int log_task(uvs_run_t *run) {
  struct probe *p = run->arg;

  log_run(p->f, EV_AFTER, p->tag, run);
  return 0;
}

/* S73 S33 */
TEST a_last_callback_says_that_all_tasks_were_handed_back(void) {
  for (int tasks = 0; tasks < 4; tasks++) {
    for (int way = 0; way < 4; way++) {
      bool pending = way % 2 != 0, off_loop = way / 2 != 0;
      uvs_id_t running = 0;
      struct fixture f;

      fixture_init(&f);
      CHECK_CALL(fixture_open_turned(&f));
      uvs_task_t r = fixture_once(&f, 'r', 0);
      probe_of(&r)->ret = pending ? UVS_PENDING : 0;
      r.after = log_task;
      ASSERT_RC(0, uvs_submit(f.s, &r, &running));
      fixture_turn(&f);
      for (int i = 0; i < tasks; i++) {
        uvs_task_t t = fixture_once(&f, 'a' + i, UVS_MS(10));

        t.done = i == 0 ? NULL : probe_done;
        ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
      }
      ASSERT_RC(0, off_loop ? elsewhere(do_shutdown_now, f.s) : do_shutdown_now(f.s));
      ASSERT_U64(0, log_count(&f, EV_NEVER_RAN, 0) + log_count(&f, EV_ALL_CAME, 0));
      fixture_turn(&f);
      ASSERT_U64((unsigned)tasks, log_count(&f, EV_NEVER_RAN, 0));
      ASSERT_STR_EQ(".", log_string(&f, EV_ALL_CAME)); /* also while a body runs */
      ASSERT(log_nth(&f, EV_ALL_CAME, 0, 0)->on_loop);
      for (int i = 1; i < tasks; i++)
        ASSERT(log_nth(&f, EV_DONE, 'a' + i, 0) < log_nth(&f, EV_ALL_CAME, 0, 0));
      ASSERT_RC(!pending, uvs_is_terminated(f.s));
      if (pending)
        ASSERT_RC(0, uvs_finish(f.s, running, 0));
      fixture_turn(&f);
      ASSERT_RC(1, uvs_is_terminated(f.s));
      ASSERT(log_nth(&f, EV_ALL_CAME, 0, 0) < log_nth(&f, EV_TERMINATED, 0, 0));
      CHECK_CALL(fixture_close(&f));
    }
  }
  PASS();
}

/* Takes longer than the budget of a loop pass: the next `done` waits for the next pass. */
static void slow_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  vclock_advance_ns(&((struct probe *)arg)->f->clock, UVS_MS(2));
  probe_done(s, id, status, arg);
}

/* S73 L7 */
TEST the_last_callback_waits_for_tasks_that_a_loop_pass_left_over(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  for (int tag = 'a'; tag <= 'e'; tag++) {
    uvs_task_t t = fixture_once(&f, tag, UVS_HOUR(1));

    t.done = slow_done;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  ASSERT_RC(0, do_shutdown_now(f.s));
  fixture_turn(&f);
  ASSERT_STR_EQ("aabbccddee.t", log_string(&f, (enum event_kind)0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static struct fixture *logs_to;

static void close_at_the_last_call(uvs_t *s, uvs_id_t id, void *task_arg, void *arg) {
  probe_never_ran(s, id, task_arg, arg);
  if (id == 0)
    log_add(logs_to, EV_USER, '0', 0, uvs_close(s, note_closed));
}

/* S73 L2. Even if the scheduler has terminated before, or is closed right after; and not twice. */
TEST the_last_callback_is_made_exactly_once(void) {
  enum { AGAIN, TERMINATED, CLOSED, CLOSE_IN_IT, QUIETLY_FIRST, WAYS };

  for (int way = 0; way < WAYS; way++) {
    struct fixture f;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    logs_to = &f;
    uvs_task_t t = fixture_once(&f, 'a', UVS_MS(10));
    if (way == TERMINATED) {
      ASSERT_RC(0, uvs_shutdown(f.s));
      fixture_turn(&f);
      ASSERT_RC(1, uvs_is_terminated(f.s));
    } else {
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    }
    if (way == QUIETLY_FIRST)
      ASSERT_RC(0, do_shutdown_now_quietly(f.s));
    if (way == CLOSE_IN_IT)
      ASSERT_RC(0, uvs_shutdown_now(f.s, close_at_the_last_call, NULL));
    else
      ASSERT_RC(way == QUIETLY_FIRST ? UV_EALREADY : 0, do_shutdown_now(f.s));
    if (way == AGAIN)
      ASSERT_RC(UV_EALREADY, do_shutdown_now(f.s));
    if (way == CLOSED)
      ASSERT_RC(0, uvs_close(f.s, note_closed));
    if (way == CLOSED || way == CLOSE_IN_IT) {
      f.s = NULL;
      fixture_turn_until_closed(&f);
      ASSERT(log_nth(&f, EV_ALL_CAME, 0, 0) < log_nth(&f, EV_USER, 'c', 0));
    } else {
      fixture_turn(&f);
      fixture_advance_ms(&f, 100);
    }
    ASSERT_STR_EQ(way == QUIETLY_FIRST || way == TERMINATED ? "" : "a",
                  log_string(&f, EV_NEVER_RAN));
    ASSERT_STR_EQ(way == QUIETLY_FIRST ? "" : ".", log_string(&f, EV_ALL_CAME));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

SUITE(immediate) {
  RUN_TEST(shutdown_now_hands_back_unstarted_tasks_and_lets_running_ones_finish);
  RUN_TEST(shutdown_now_empties_the_queue_while_a_body_still_runs);
  RUN_TEST(delayed_and_periodic_tasks_are_all_handed_back_and_end_cancelled);
  RUN_TEST(tasks_that_the_loop_has_not_seen_yet_are_handed_back);
  RUN_TEST(a_task_that_has_run_is_not_handed_back);
  RUN_TEST(only_the_first_immediate_shutdown_hands_back);
  RUN_TEST(shutdown_now_after_an_orderly_shutdown_takes_effect);
  RUN_TEST(a_ready_task_with_a_runner_in_the_pool_is_handed_back);
  RUN_TEST(a_last_callback_says_that_all_tasks_were_handed_back);
  RUN_TEST(the_last_callback_waits_for_tasks_that_a_loop_pass_left_over);
  RUN_TEST(the_last_callback_is_made_exactly_once);
}

/* Blocking bodies need enough threads in libuv's pool, whatever the environment says. */
TEST_MAIN(uv_os_setenv("UV_THREADPOOL_SIZE", "4"); RUN_SUITE(immediate));
