/* SPDX-License-Identifier: MIT
 *
 * Bugs that a review found in keeping the loop alive, shutdown and close: one test for each.
 *
 * The comment above a test says what went wrong before. Other bugs are in test_regress_runs.c.
 */
#include "lib/bodies.h"
#include "lib/fixture.h"
#include "lib/threads.h"

/* Waits until libuv's pool has returned all requests. */
static bool wait_home(struct fixture *f) {
  uint64_t end_ns = uv_hrtime() + (uint64_t)PATIENCE_NS;

  while (fakepool_pending() > 0 && uv_hrtime() < end_ns) {
    uv_run(&f->loop, UV_RUN_NOWAIT);
    uv_sleep(1);
  }
  fixture_turn(f);
  return fakepool_pending() == 0;
}

/* ------------------------------------------------------------ keep alive --- */

/* A detached task (one-shot, only `work`) whose ref changes while its body is on the pool. `b`
 * waits meanwhile. */
static enum greatest_test_res change_ref_on_the_pool(bool ref) {
  struct fixture f;
  struct hold d = {0};
  uvs_id_t a, b;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t ta = fixture_once(&f, 'a', 0), tb = fixture_once(&f, 'b', UVS_HOUR(1));
  ta.done = NULL;
  ta.flags = ref ? UVS_UNREF : 0;
  probe_of(&ta)->act = hold_act;
  probe_of(&ta)->data = &d;
  ASSERT_RC(0, uvs_submit(f.s, &ta, &a));
  ASSERT_RC(0, uvs_submit(f.s, &tb, &b));
  ASSERT(fixture_wait_flag(&f, &d.inside));
  ASSERT_RC(0, ref ? uvs_ref(f.s, a) : uvs_unref(f.s, a));
  ASSERT_RC(ref, uvs_has_ref(f.s, a));
  atomic_store(&d.open, 1);
  ASSERT(wait_home(&f));
  ASSERT_RC(UV_ENOENT, uvs_has_ref(f.s, a));
  ASSERT(fixture_alive(&f)); /* for b */
  ASSERT_RC(0, uvs_unref(f.s, b));
  ASSERT_FALSE(fixture_alive(&f));
  ASSERT_RC(0, uvs_ref(f.s, b));
  ASSERT(fixture_alive(&f));
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, b, 0));
  ASSERT(fixture_run(&f, UV_RUN_DEFAULT, NULL));
  ASSERT_STR_EQ("b", log_string(&f, EV_DONE));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L1. The count of tasks that keep the loop alive was decremented by the ref that the task had when
 * its run began. After an unref it was decremented twice, so uv_run returned while tasks waited, or
 * never returned. */
TEST an_unref_during_a_detached_tasks_run_on_the_pool_counts_once(void) {
  CHECK_CALL(change_ref_on_the_pool(false));
  PASS();
}

/* L1. As above: after a ref the count was never decremented, and uv_run never returned. */
TEST a_ref_during_a_detached_tasks_run_on_the_pool_is_released(void) {
  CHECK_CALL(change_ref_on_the_pool(true));
  PASS();
}

static int act_unref(struct probe *p, uvs_run_t *run) {
  log_add(p->f, EV_USER, p->tag, run->id, uvs_unref(run->scheduler, run->id));
  return 0;
}

static int act_ref(struct probe *p, uvs_run_t *run) {
  log_add(p->f, EV_USER, p->tag, run->id, uvs_ref(run->scheduler, run->id));
  return 0;
}

/* L1. The same with concurrency 0, from inside the body itself. */
TEST a_detached_task_on_the_loop_may_change_its_own_ref_in_its_run(void) {
  for (int ref = 0; ref < 2; ref++) {
    struct fixture f;
    uvs_id_t b;

    fixture_init(&f);
    f.options.concurrency = 0;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t ta = fixture_once(&f, 'a', 0), tb = fixture_once(&f, 'b', UVS_HOUR(1));
    ta.done = NULL;
    ta.flags = ref ? UVS_UNREF : 0;
    probe_of(&ta)->act = ref ? act_ref : act_unref;
    ASSERT_RC(0, uvs_submit(f.s, &ta, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &tb, &b));
    fixture_turn(&f);
    ASSERT_U64(1, log_count(&f, EV_USER, 'a'));
    ASSERT_RC(0, log_nth(&f, EV_USER, 'a', 0)->status);
    ASSERT(fixture_alive(&f)); /* for b */
    ASSERT_RC(0, uvs_unref(f.s, b));
    ASSERT_FALSE(fixture_alive(&f));
    ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, b, 0));
    ASSERT(fixture_run(&f, UV_RUN_DEFAULT, NULL));
    ASSERT_STR_EQ("b", log_string(&f, EV_DONE));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L1. A submission on the loop was queued behind the inbox. If the loop need not be woken for that,
 * because an unref'd task was due earlier, uv_run returned at once. */
TEST uv_run_stays_for_a_ref_d_task_submitted_behind_a_full_inbox(void) {
  struct fixture f;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.real_clock = true;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t a = fixture_once(&f, 'a', UVS_HOUR(1)), b = fixture_once(&f, 'b', UVS_HOUR(2));
  uvs_task_t c = fixture_once(&f, 'c', UVS_MS(2));
  a.flags = b.flags = UVS_UNREF;
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  ASSERT_FALSE(fixture_alive(&f));
  fakepool_forget();
  ASSERT_RC(0, submit_elsewhere(f.s, b, NULL));
  ASSERT_U64(0, fakepool_seen().async_sends); /* it is in the inbox, and nobody was woken */
  ASSERT_RC(0, uvs_submit(f.s, &c, NULL));
  ASSERT(fixture_alive(&f));
  ASSERT(fixture_run(&f, UV_RUN_DEFAULT, NULL));
  ASSERT_STR_EQ("c", log_string(&f, EV_DONE));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int act_cancel_other(struct probe *p, uvs_run_t *run) {
  log_add(p->f, EV_USER, p->tag, p->id, uvs_cancel(run->scheduler, p->id, 0));
  return 0;
}

static void done_cancels_other(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct probe *p = arg;

  probe_done(s, id, status, arg);
  log_add(p->f, EV_USER, p->tag, p->id, uvs_cancel(s, p->id, 0));
}

/* L1 F17. The `done` of an unref'd task that was cancelled on the loop was left for a loop pass for
 * which uv_run did not stay. */
TEST the_done_of_a_cancelled_unref_d_task_is_called_before_uv_run_returns(void) {
  enum { OUTSIDE, IN_BODY, IN_DONE, WHERE };

  for (int where = OUTSIDE; where < WHERE; where++) {
    unsigned dones_in_run;
    struct fixture f;
    uvs_id_t id;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t a = fixture_once(&f, 'a', UVS_HOUR(1)), b = fixture_loop_task(&f, 'b', 0);
    a.flags = UVS_UNREF;
    ASSERT_RC(0, uvs_submit(f.s, &a, &id));
    ASSERT_FALSE(fixture_alive(&f));
    if (where == OUTSIDE) {
      ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, 0));
      ASSERT_U64(0, log_count(&f, EV_DONE, 'a')); /* never from inside a call */
    } else {
      probe_of(&b)->id = id;
      if (where == IN_BODY)
        probe_of(&b)->act = act_cancel_other;
      else
        b.done = done_cancels_other;
      ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
    }
    ASSERT(fixture_run(&f, UV_RUN_DEFAULT, &dones_in_run));
    ASSERT_U64(where == OUTSIDE ? 1 : 2, dones_in_run);
    ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
    ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 0)->status);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* -------------------------------------------------------------- shutdown --- */

enum { BY_LOOP, BY_OTHER, BEFORE_FIRST_TURN };

/* S33 S34. Tasks that were still in the inbox were cancelled, but not handed to `each`. */
TEST immediate_shutdown_hands_back_tasks_in_the_inbox(void) {
  for (int who = BY_LOOP; who <= BEFORE_FIRST_TURN; who++) {
    struct fixture f;

    fixture_init(&f);
    CHECK_CALL(fixture_open(&f));
    if (who != BEFORE_FIRST_TURN)
      fixture_turn(&f);
    uvs_task_t k = fixture_once(&f, 'k', UVS_MS(1)), n = fixture_once(&f, 'n', 0);
    n.done = NULL;
    ASSERT_RC(0, uvs_submit(f.s, &k, NULL)); /* on the loop's thread */
    ASSERT_RC(0, submit_elsewhere(f.s, fixture_once(&f, 'a', 0), NULL));
    ASSERT_RC(0, submit_elsewhere(f.s, fixture_rate(&f, 'r', UVS_MS(2), UVS_MS(2)), NULL));
    ASSERT_RC(0, submit_elsewhere(f.s, fixture_loop_task(&f, 'l', UVS_HOUR(1)), NULL));
    ASSERT_RC(0, submit_elsewhere(f.s, fixture_once(&f, 'e', UVS_NEVER), NULL));
    ASSERT_RC(0, submit_elsewhere(f.s, n, NULL));
    if (who == BY_OTHER)
      ASSERT_RC(0, elsewhere(do_shutdown_now, f.s));
    else
      ASSERT_RC(0, uvs_shutdown_now(f.s, probe_never_ran, NULL));
    ASSERT_U64(0, log_total(&f)); /* not from inside the call */
    fixture_turn(&f);
    ASSERT_U64(0, log_count(&f, EV_WORK, 0) + log_count(&f, EV_AFTER, 0));
    ASSERT_U64(6, log_count(&f, EV_NEVER_RAN, 0));
    ASSERT_U64(5, log_count(&f, EV_DONE, 0));
    for (const char *tag = "karlen"; *tag != 0; tag++) {
      ASSERT_U64(1, log_count(&f, EV_NEVER_RAN, *tag));
      if (*tag == 'n')
        continue;
      ASSERT_U64(1, log_count(&f, EV_DONE, *tag));
      ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, *tag, 0)->status);
      ASSERT(log_nth(&f, EV_NEVER_RAN, *tag, 0) < log_nth(&f, EV_DONE, *tag, 0));
    }
    ASSERT_U64(6, counts_of(f.s).cancelled);
    ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static int act_shutdown_now(struct probe *p, uvs_run_t *run) {
  (void)p;
  return uvs_shutdown_now(run->scheduler, probe_never_ran, NULL);
}

static int act_shutdown(struct probe *p, uvs_run_t *run) {
  (void)p;
  return uvs_shutdown(run->scheduler);
}

/* Submits `count` tasks due immediately, for the loop: loop tasks, or `work` with concurrency 0.
 * The first one does `act`. */
static enum greatest_test_res submit_due_at_once(struct fixture *f, bool loop_tasks, int kind,
                                                 int count,
                                                 int (*act)(struct probe *, uvs_run_t *)) {
  for (int i = 0; i < count; i++) {
    uvs_task_t t = loop_tasks ? fixture_loop_task(f, 'a' + i, UVS_MS(10))
                              : fixture_once(f, 'a' + i, UVS_MS(10));
    t.kind = kind;
    t.period_ns = kind == UVS_ONE_SHOT ? 0 : UVS_MS(10);
    if (i == 0)
      probe_of(&t)->act = act;
    ASSERT_RC(0, uvs_submit(f->s, &t, NULL));
  }
  PASS();
}

/* S33. Bodies that the loop had made ready in the same pass ran after the shutdown. */
TEST a_loop_body_that_calls_immediate_shutdown_is_the_last_to_run(void) {
  for (int i = 0; i < 6; i++) {
    bool loop_tasks = i % 2 == 0;
    int kind = i / 2 == 0 ? UVS_ONE_SHOT : i / 2 == 1 ? UVS_FIXED_RATE : UVS_FIXED_DELAY;
    struct fixture f;

    fixture_init(&f);
    f.options.concurrency = loop_tasks ? 2 : 0;
    CHECK_CALL(fixture_open_turned(&f));
    CHECK_CALL(submit_due_at_once(&f, loop_tasks, kind, 4, act_shutdown_now));
    fixture_jump_ms(&f, 10);
    ASSERT_STR_EQ("a", log_string(&f, loop_tasks ? EV_AFTER : EV_WORK));
    ASSERT_STR_EQ("bcd", log_string(&f, EV_NEVER_RAN));
    ASSERT_U64(4, log_count(&f, EV_DONE, 0));
    ASSERT_RC(kind == UVS_ONE_SHOT ? 0 : UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 0)->status);
    for (int tag = 'b'; tag <= 'd'; tag++)
      ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, tag, 0)->status);
    ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
    ASSERT_U64(1, counts_of(f.s).runs);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S39 S38. The same with the orderly shutdown: periodic tasks that were ready ran once more.
 * One-shots were due, and do run. */
TEST after_a_loop_body_calls_shutdown_no_other_periodic_task_runs(void) {
  for (int i = 0; i < 6; i++) {
    bool loop_tasks = i % 2 == 0;
    int kind = i / 2 == 0 ? UVS_ONE_SHOT : i / 2 == 1 ? UVS_FIXED_RATE : UVS_FIXED_DELAY;
    struct fixture f;

    fixture_init(&f);
    f.options.concurrency = loop_tasks ? 2 : 0;
    CHECK_CALL(fixture_open_turned(&f));
    CHECK_CALL(submit_due_at_once(&f, loop_tasks, kind, 4, act_shutdown));
    fixture_jump_ms(&f, 10);
    fixture_advance_ms(&f, 50);
    ASSERT_STR_EQ(kind == UVS_ONE_SHOT ? "abcd" : "a",
                  log_string(&f, loop_tasks ? EV_AFTER : EV_WORK));
    ASSERT_U64(0, log_count(&f, EV_NEVER_RAN, 0));
    ASSERT_U64(4, log_count(&f, EV_DONE, 0));
    for (int tag = 'a'; tag <= 'd'; tag++)
      ASSERT_RC(kind == UVS_ONE_SHOT ? 0 : UV_ECANCELED, log_nth(&f, EV_DONE, tag, 0)->status);
    ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* How often the library woke the loop or set its timer, in this many passes. */
static uint64_t stirred(struct fixture *f, int turns) {
  struct fakepool_seen before = fakepool_seen(), after;

  fakepool_pin();
  for (int i = 0; i < turns; i++)
    uv_run(&f->loop, UV_RUN_NOWAIT);
  fakepool_unpin();
  after = fakepool_seen();
  return after.async_sends + after.timer_starts - before.async_sends - before.timer_starts;
}

/* S58. The loop looked again and again for the end of the grace period after it had passed: as long
 * as a body ran, pass followed pass. */
TEST after_the_grace_period_the_loop_sleeps_while_a_body_still_runs(void) {
  for (int real = 0; real < 2; real++) {
    struct fixture f;
    struct hold d = {0};

    fixture_init(&f);
    f.pool = FAKEPOOL_REAL;
    f.real_clock = real != 0;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = fixture_once(&f, 'a', 0);
    probe_of(&t)->act = hold_act;
    probe_of(&t)->data = &d;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    ASSERT(fixture_wait_flag(&f, &d.inside));
    ASSERT_RC(0, uvs_shutdown_within(f.s, UVS_MS(10)));
    if (!real) {
      fixture_turn(&f);
      ASSERT_U64(0, stirred(&f, 20)); /* nor does it spin before */
      ASSERT_I64(10, fixture_next_ms(&f));
      fixture_jump_ms(&f, 10);
    }
    ASSERT(fixture_wait_flag(&f, &d.saw_token));
    stirred(&f, 20);
    ASSERT(stirred(&f, 1000) <= 5);
    if (!real)
      ASSERT_I64(-1, fixture_next_ms(&f));
    ASSERT_FALSE(f.overrun);
    atomic_store(&d.open, 1);
    ASSERT(fixture_wait_log(&f, EV_TERMINATED, 0, 1));
    ASSERT_RC(0, log_nth(&f, EV_DONE, 'a', 0)->status);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S58. As above, for ever, if the scheduler had terminated before the end of the grace period. */
TEST after_the_grace_period_a_terminated_scheduler_does_not_wake_the_loop(void) {
  for (int real = 0; real < 2; real++) {
    struct fixture f;

    fixture_init(&f);
    f.pool = FAKEPOOL_REAL;
    f.real_clock = real != 0;
    CHECK_CALL(fixture_open_turned(&f));
    ASSERT_RC(0, uvs_shutdown_within(f.s, UVS_MS(2)));
    ASSERT(fixture_wait_log(&f, EV_TERMINATED, 0, 1));
    if (real) {
      uint64_t end_ns = uv_hrtime() + (uint64_t)UVS_MS(10); /* the grace period has surely ended */
      while (uv_hrtime() < end_ns)
        fixture_turn(&f);
    } else {
      fixture_jump_ms(&f, 2);
      ASSERT_I64(-1, fixture_next_ms(&f));
    }
    stirred(&f, 20);
    ASSERT(stirred(&f, 1000) <= 5);
    ASSERT_FALSE(fixture_alive(&f));
    ASSERT_FALSE(f.overrun);
    ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* ----------------------------------------------------------------- close --- */

/* Where the program closes the scheduler's handles. */
enum place { AT_CLOSE, IN_A_BODY, IN_A_DONE, IN_TERMINATED };

static struct wreck {
  struct fixture *f;
  bool polls_only;
  unsigned closed; /* handles that the program closed */
  unsigned left;   /* handles of ours that libuv still knew in the close callback */
  int close_rc;
} wreck;

static void wreck_one(uv_handle_t *h, void *arg) {
  (void)arg;
  if (uv_is_closing(h) || fakepool_owns_handle(h) || (wreck.polls_only && h->type != UV_POLL))
    return;
  uv_close(h, NULL);
  wreck.closed++;
}

static void wreck_all(void) {
  uv_walk(&wreck.f->loop, wreck_one, NULL);
}

static void count_ours(uv_handle_t *h, void *arg) {
  wreck.left += uvs_owns_handle(arg, h) != 0;
}

static void closed_counts(uvs_t *s) {
  uv_walk(uvs_loop(s), count_ours, s);
  note_closed(s);
}

static void close_and_wreck(void) {
  wreck.close_rc = uvs_close(wreck.f->s, closed_counts);
  wreck_all();
}

static void done_wrecks(uvs_t *s, uvs_id_t id, int status, void *arg) {
  probe_done(s, id, status, arg);
  wreck_all();
}

static void terminated_wrecks(uvs_t *s) {
  (void)s;
  wreck_all();
}

/* L2 L5. The program closed only the handle that watches the wall clock, in the pass in which close
 * finished. libuv called its close callback last, after the memory was freed. */
TEST closing_the_wall_clock_handle_in_the_last_pass_of_close_is_safe(void) {
  for (int place = AT_CLOSE; place <= IN_TERMINATED; place++) {
    struct fixture f;
    struct hold d = {0};

    if (place == IN_A_BODY)
      continue;
    fixture_init(&f);
    f.pool = FAKEPOOL_REAL;
    f.real_clock = true;
    if (place == IN_TERMINATED)
      f.options.on_terminated = terminated_wrecks;
    CHECK_CALL(fixture_open_turned(&f));
    wreck = (struct wreck){&f, true, 0, 0, 1};
    uvs_task_t w = fixture_once(&f, 'w', UVS_NEVER - 1), q = fixture_once(&f, 'q', 0);
    w.from = UVS_FROM_WALL;
    ASSERT_RC(0, uvs_submit(f.s, &w, NULL));
    fixture_turn(&f);
    if (place != AT_CLOSE) { /* with this body everything ends, in one pass */
      probe_of(&q)->act = hold_act;
      probe_of(&q)->data = &d;
      if (place == IN_A_DONE)
        q.done = done_wrecks;
      ASSERT_RC(0, uvs_submit(f.s, &q, NULL));
      ASSERT(fixture_wait_flag(&f, &d.inside));
      wreck.close_rc = uvs_close(f.s, closed_counts);
      for (int i = 0; i < 10; i++)
        uv_run(&f.loop, UV_RUN_NOWAIT);
      ASSERT_FALSE(f.closed);
      ASSERT_U64(0, wreck.closed);
      atomic_store(&d.open, 1);
    } else {
      uv_walk(&f.loop, wreck_one, NULL);
      wreck.close_rc = uvs_close(f.s, closed_counts);
    }
    ASSERT(fixture_wait_log(&f, EV_USER, 'c', 1));
    f.s = NULL;
    ASSERT_RC(0, wreck.close_rc);
    ASSERT_U64(TEST_PORT_LINUX ? 1 : 0, wreck.closed); /* other.c has no such handle */
    ASSERT_U64(0, wreck.left);
    ASSERT_STR_EQ(place == AT_CLOSE ? "w" : "wq", log_string(&f, EV_DONE));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static int act_close_and_wreck(struct probe *p, uvs_run_t *run) {
  (void)p;
  (void)run;
  close_and_wreck();
  return 0;
}

static void done_closes_and_wrecks(uvs_t *s, uvs_id_t id, int status, void *arg) {
  probe_done(s, id, status, arg);
  close_and_wreck();
}

/* With `busy`, a body is on the pool meanwhile. Without, only close itself causes the next pass. */
static enum greatest_test_res close_then_wreck(enum place place, bool real, bool busy) {
  struct fixture f;
  struct hold d = {0};

  fixture_init(&f);
  f.pool = real ? FAKEPOOL_REAL : FAKEPOOL_STEPPED;
  f.real_clock = real;
  CHECK_CALL(fixture_open_turned(&f));
  wreck = (struct wreck){&f, false, 0, 0, 1};
  uvs_task_t a = fixture_once(&f, 'a', UVS_HOUR(1)), n = fixture_once(&f, 'n', UVS_NEVER);
  uvs_task_t r = fixture_rate(&f, 'r', UVS_HOUR(1), 1), q = fixture_once(&f, 'q', 0);
  uvs_task_t w = fixture_once(&f, 'w', UVS_NEVER - 1), b = fixture_loop_task(&f, 'b', 0);
  w.from = UVS_FROM_WALL;
  q.after = probe_after;
  probe_of(&q)->data = &d;
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &n, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &r, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &w, NULL));
  if (busy && real) {
    probe_of(&q)->act = hold_act;
    ASSERT_RC(0, uvs_submit(f.s, &q, NULL));
    ASSERT(fixture_wait_flag(&f, &d.inside));
  } else if (busy) {
    fakepool_hold();
    ASSERT_RC(0, uvs_submit(f.s, &q, NULL));
  }
  fixture_turn(&f);
  ASSERT_RC(0, submit_elsewhere(f.s, fixture_once(&f, 'i', UVS_HOUR(2)), NULL));
  if (place == IN_A_BODY)
    probe_of(&b)->act = act_close_and_wreck;
  if (place == IN_A_DONE)
    b.done = done_closes_and_wrecks;
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  if (place == AT_CLOSE)
    close_and_wreck();
  for (int turns = 0; turns < 20; turns++)
    uv_run(&f.loop, UV_RUN_NOWAIT);
  ASSERT_RC(0, wreck.close_rc);
  ASSERT(wreck.closed >= 2);
  ASSERT_FALSE(busy && f.closed);
  atomic_store(&d.open, 1);
  if (busy && !real)
    fakepool_release();
  ASSERT(fixture_wait_log(&f, EV_USER, 'c', 1));
  f.s = NULL;
  ASSERT_U64(0, wreck.left);
  ASSERT_U64(busy ? 7 : 6, log_count(&f, EV_DONE, 0));
  for (const char *tag = busy ? "anrwibq" : "anrwib"; *tag != 0; tag++)
    ASSERT_U64(1, log_count(&f, EV_DONE, *tag));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L2 L5. A program that closed all handles right after uvs_close took away the scheduler's way to
 * be called: `done`s and the close callback were never called. */
TEST close_finishes_although_all_handles_are_closed_right_after_it(void) {
  for (int place = AT_CLOSE; place <= IN_A_DONE; place++) {
    for (int i = 0; i < 4; i++)
      CHECK_CALL(close_then_wreck((enum place)place, i % 2 != 0, i / 2 != 0));
  }
  PASS();
}

/* ---------------------------------------------------------------- shares --- */

#define OVER 2000
#define COMING 20000

static struct { unsigned taken_in, dones; } shares;

/* Both take 20 us of the loop's time. */
static void decorate_slowly(uvs_t *s, uvs_id_t id, uvs_decoration_t *d) {
  struct fixture *f = uvs_data(s);

  (void)id;
  (void)d;
  shares.taken_in++;
  vclock_advance_ns(&f->clock, UVS_US(20));
}

static void done_slowly(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct fixture *f = arg;

  (void)s;
  (void)id;
  (void)status;
  shares.dones++;
  vclock_advance_ns(&f->clock, UVS_US(20));
}

static uvs_task_t far_task(struct fixture *f) {
  uvs_task_t t;

  uvs_task_init(&t);
  t.first_ns = UVS_HOUR(1);
  t.after = probe_loop_body;
  t.done = done_slowly;
  t.arg = f;
  return t;
}

static int send_many(void *arg) {
  struct fixture *f = arg;
  uvs_task_t t = far_task(f);
  int rc = 0;

  for (int i = 0; i < COMING && rc == 0; i++)
    rc = uvs_submit(f->s, &t, NULL);
  return rc;
}

/* S55. Taking tasks from the inbox used up the pass, and then one callback was made. With producers
 * faster than the loop, finished tasks accumulated without bound whatever max_pending was, and
 * their `done`s came seconds later. */
TEST under_overload_finished_tasks_still_get_their_callbacks(void) {
  static uvs_id_t ids[OVER];
  struct fixture f;

  memset(&shares, 0, sizeof shares);
  fixture_init(&f);
  f.options.budget_ns = UVS_MS(10);
  f.hooks.decorate = decorate_slowly;
  f.options.keep_alive = UVS_KEEP_ALIVE_ALWAYS;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = far_task(&f);
  for (int i = 0; i < OVER; i++)
    ASSERT_RC(0, uvs_submit(f.s, &t, &ids[i]));
  for (int i = 0; i < OVER; i++)
    ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, ids[i], 0));
  ASSERT_RC(0, elsewhere(send_many,
                         &f)); /* last, since calls on the loop would take them from the inbox */
  for (int turn = 0; turn < 6; turn++) {
    int64_t before_ns = vclock_now(&f.clock);
    unsigned dones = shares.dones, taken_in = shares.taken_in;

    uv_run(&f.loop, UV_RUN_NOWAIT);
    if (turn > 0) /* the first pass notices that it is behind; 4 of 10 ms */
      ASSERT(shares.dones - dones + shares.taken_in - taken_in >= 200);
    /* The budget, and a batch that was started within it. */
    ASSERT(vclock_now(&f.clock) - before_ns <= UVS_MS(10) + 2 * UVS_US(64 * 20));
  }
  fixture_turn(&f);
  ASSERT_U64(OVER, shares.dones);
  ASSERT_U64(COMING, shares.taken_in); /* the others were cancelled before */
  CHECK_CALL(fixture_close(&f));
  ASSERT_U64(OVER + COMING, shares.dones);
  PASS();
}

SUITE(keep_alive) {
  RUN_TEST(an_unref_during_a_detached_tasks_run_on_the_pool_counts_once);
  RUN_TEST(a_ref_during_a_detached_tasks_run_on_the_pool_is_released);
  RUN_TEST(a_detached_task_on_the_loop_may_change_its_own_ref_in_its_run);
  RUN_TEST(uv_run_stays_for_a_ref_d_task_submitted_behind_a_full_inbox);
  RUN_TEST(the_done_of_a_cancelled_unref_d_task_is_called_before_uv_run_returns);
}

SUITE(ends) {
  RUN_TEST(immediate_shutdown_hands_back_tasks_in_the_inbox);
  RUN_TEST(a_loop_body_that_calls_immediate_shutdown_is_the_last_to_run);
  RUN_TEST(after_a_loop_body_calls_shutdown_no_other_periodic_task_runs);
  RUN_TEST(after_the_grace_period_the_loop_sleeps_while_a_body_still_runs);
  RUN_TEST(after_the_grace_period_a_terminated_scheduler_does_not_wake_the_loop);
  RUN_TEST(closing_the_wall_clock_handle_in_the_last_pass_of_close_is_safe);
  RUN_TEST(close_finishes_although_all_handles_are_closed_right_after_it);
}

SUITE(turns) {
  RUN_TEST(under_overload_finished_tasks_still_get_their_callbacks);
}

/* Blocking bodies need enough threads in libuv's pool, whatever the environment says. */
TEST_MAIN(uv_os_setenv("UV_THREADPOOL_SIZE", "4"); RUN_SUITE(keep_alive); RUN_SUITE(ends);
          RUN_SUITE(turns));
