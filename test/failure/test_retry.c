/* SPDX-License-Identifier: MIT
 *
 * Retries: exactly when, how often, and what ends the wait for a retry. How a task returns to its
 * grid is in test_missed.c. A script says how each run ends: "xx." fails twice and then succeeds
 * for ever.
 */
#include <limits.h>

#include "lib/bodies.h"
#include "lib/control.h"
#include "lib/fixture.h"
#include "lib/threads.h"

static enum greatest_test_res open_with(struct fixture *f, int concurrency) {
  fixture_init(f);
  f->options.concurrency = concurrency;
  CHECK_CALL(fixture_open_turned(f));
  PASS();
}

/* ------------------------------------------------------------- the instants --- */

/* V4. Exact to the nanosecond. */
TEST each_retry_waits_twice_as_long_as_the_one_before(void) {
  for (int concurrency = 0; concurrency < 3; concurrency++) {
    struct fixture f;

    CHECK_CALL(open_with(&f, concurrency));
    uvs_task_t t = retried(fixture_once(&f, 'a', UVS_MS(5)), UVS_MS(10), "xxxxx.");
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_advance_ns(&f, UVS_MS(15) - 1);
    ASSERT_U64(1, log_count(&f, EV_WORK, 'a'));
    fixture_advance_ns(&f, 1);
    ASSERT_U64(2, log_count(&f, EV_WORK, 'a'));
    fixture_advance_ms(&f, 1000);
    ASSERT_STR_EQ("5 15 35 75 155 315", log_runs(&f, EV_WORK, 'a'));
    ASSERT_RC(0, done_status(&f, 'a'));
    ASSERT_U64(5, log_count(&f, EV_ERROR, 'a'));
    ASSERT_U64(1, counts_of(f.s).completed);
    ASSERT_U64(6, counts_of(f.s).runs);
    ASSERT_U64(0, counts_of(f.s).failed);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

TEST retry_waits_stop_growing_at_retry_max(void) {
  struct fixture f;

  CHECK_CALL(open_with(&f, 1));
  uvs_task_t t = retried(fixture_once(&f, 'a', 0), UVS_MS(10), "xxxxx.");
  uvs_task_t even = retried(fixture_once(&f, 'e', 0), UVS_MS(10), "xxxx.");
  t.retry.max_wait_ns = UVS_MS(25);
  even.retry.max_wait_ns = UVS_MS(10);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &even, NULL));
  fixture_advance_ms(&f, 1000);
  ASSERT_STR_EQ("0 10 30 55 80 105", log_runs(&f, EV_WORK, 'a'));
  ASSERT_STR_EQ("0 10 20 30 40", log_runs(&f, EV_WORK, 'e'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* The wait counts from the end of the failed run, as `after` sees it. What happens after the body
 * does not matter. */
TEST a_retry_wait_counts_from_the_end_of_the_run(void) {
  for (int after = 0; after < 2; after++)
    for (int kind = UVS_ONE_SHOT; kind <= UVS_FIXED_DELAY; kind++) {
      struct fixture f;

      CHECK_CALL(open_with(&f, 1));
      uvs_task_t t = retried(fixture_once(&f, 'a', 0), UVS_MS(10), "xxs");
      t.kind = kind;
      t.period_ns = kind == UVS_ONE_SHOT ? 0 : UVS_SEC(1);
      if (after)
        t.after = probe_after;
      probe_of(&t)->takes_ns = UVS_MS(7);
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
      fixture_advance_ms(&f, 100);
      ASSERT_STR_EQ("0 17 44", log_runs(&f, EV_WORK, 'a'));
      ASSERT_RC(0, done_status(&f, 'a'));
      CHECK_CALL(fixture_close(&f));
    }
  PASS();
}

/* A retry that starts late is just late: nothing is caught up. */
TEST a_late_retry_is_not_caught_up(void) {
  struct fixture f;

  CHECK_CALL(open_with(&f, 1));
  uvs_task_t t = retried(fixture_rate(&f, 'a', 0, UVS_MS(100)), UVS_MS(10), "x.");
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  fixture_jump_ms(&f, 250);
  ASSERT_STR_EQ("0 250(10)", log_runs(&f, EV_WORK, 'a'));
  fixture_advance_ms(&f, 100);
  ASSERT_STR_EQ("0 250(10) 300(300+2)", log_runs(&f, EV_WORK, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* Without a bound the wait reaches the end of time. The task then waits there and can be
 * cancelled. */
TEST an_unbounded_retry_wait_ends_at_never(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(open_with(&f, 1));
  uvs_task_t t = retried(fixture_once(&f, 'a', 0), INT64_MAX / 3, "x");
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_turn(&f);
  ASSERT_I64(VCLOCK_START_NS + INT64_MAX / 3, look_at(f.s, id).info.due_ns);
  fixture_advance_ns(&f, INT64_MAX / 3);
  ASSERT_U64(2, log_count(&f, EV_WORK, 'a'));
  ASSERT_I64(UVS_NEVER, look_at(f.s, id).info.due_ns);
  ASSERT_I64(UVS_NEVER, look_at(f.s, id).info.remaining_ns);
  ASSERT_I64(-1, fixture_next_ms(&f));
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, 0));
  fixture_turn(&f);
  ASSERT_RC(UV_ECANCELED, done_status(&f, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static enum greatest_test_res play_seed(uint64_t seed, int retry_jitter, char *ret, size_t room) {
  struct fixture f;
  size_t n = 0;

  fixture_init(&f);
  f.options.seed = seed;
  CHECK_CALL(fixture_open_turned(&f));
  for (const char *tag = "ab"; *tag != 0; tag++) {
    uvs_task_t t = retried(fixture_once(&f, *tag, 0), UVS_US(1000), "xxxxxxxx.");
    t.retry.jitter_percent = retry_jitter;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  fixture_advance_ms(&f, 1000);
  for (const char *tag = "ab"; *tag != 0; tag++) {
    ASSERT_U64(9, log_count(&f, EV_WORK, *tag));
    for (unsigned i = 1; i < 9; i++) {
      int64_t wait_ns =
          log_nth(&f, EV_WORK, *tag, i)->start_ns - log_nth(&f, EV_WORK, *tag, i - 1)->start_ns;
      int64_t most_ns = UVS_US(1000) << (i - 1);

      ASSERT(wait_ns <= most_ns);
      ASSERT(wait_ns >= most_ns - most_ns * retry_jitter / 100);
    }
    n += (size_t)snprintf(ret + n, room - n, "%s;", log_runs(&f, EV_WORK, *tag));
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* The same seed and the same tasks give the same waits. Another seed gives other waits. */
TEST retry_jitter_is_determined_by_the_seed(void) {
  static const int percents[] = {0, 1, 50, 100};

  for (int i = 0; i < 4; i++) {
    char first[2000], again[2000], other[2000];
    char *second;

    CHECK_CALL(play_seed(4711, percents[i], first, sizeof first));
    CHECK_CALL(play_seed(4711, percents[i], again, sizeof again));
    CHECK_CALL(play_seed(4712, percents[i], other, sizeof other));
    ASSERT_STR_EQ(first, again);
    ASSERT_EQ(percents[i] == 0, strcmp(first, other) == 0);
    second = strchr(first, ';') + 1; /* two tasks do not go in step */
    ASSERT_EQ(percents[i] == 0, strncmp(first, second, strlen(second)) == 0);
  }
  PASS();
}

/* ---------------------------------------------------------- so often, so long --- */

TEST retries_stop_after_max_failures_consecutive_failures(void) {
  static const struct {
    const char *script;
    uint32_t max_failures;
    const char *once, *delay;
  } cases[] = {
      {"x", 1, "0", "0"},
      {"x", 3, "0 10 30", "0 10 30"},
      {"xx.xxx", 3, "0 10 30", "0 10 30 130 140 160"}, /* the row starts anew, and so the waits */
  };

  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct fixture f;

    CHECK_CALL(open_with(&f, 1));
    uvs_task_t once = retried(fixture_once(&f, 'o', 0), UVS_MS(10), cases[i].script);
    uvs_task_t delay = retried(fixture_delay(&f, 'd', 0, UVS_MS(100)), UVS_MS(10), cases[i].script);
    once.max_failures = delay.max_failures = cases[i].max_failures;
    ASSERT_RC(0, uvs_submit(f.s, &once, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &delay, NULL));
    fixture_advance_ms(&f, 1000);
    ASSERT_STR_EQ(cases[i].once, log_runs(&f, EV_WORK, 'o'));
    ASSERT_STR_EQ(cases[i].delay, log_runs(&f, EV_WORK, 'd'));
    ASSERT_RC(strchr(cases[i].script, '.') != NULL ? 0 : UV_EIO, done_status(&f, 'o'));
    ASSERT_RC(UV_EIO, done_status(&f, 'd'));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* A retry is a run: it counts for max_runs, and it does not start after the end time. */
TEST max_runs_and_the_end_time_also_limit_retries(void) {
  struct fixture f;
  uvs_id_t moved;

  CHECK_CALL(open_with(&f, 1));
  uvs_task_t runs = retried(fixture_rate(&f, 'r', 0, UVS_MS(100)), UVS_MS(10), "xx.xx");
  uvs_task_t until = retried(fixture_rate(&f, 'u', 0, UVS_MS(100)), UVS_MS(10), "x");
  uvs_task_t just = retried(fixture_rate(&f, 'j', 0, UVS_MS(100)), UVS_MS(10), "xxx.");
  uvs_task_t late = retried(fixture_rate(&f, 'l', 0, UVS_MS(100)), UVS_MS(10), "x");
  runs.max_runs = 4;
  until.until_ns = UVS_MS(69);
  just.until_ns = UVS_MS(70);
  late.until_ns = UVS_MS(50);
  ASSERT_RC(0, uvs_submit(f.s, &runs, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &until, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &just, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &late, &moved));
  fixture_turn(&f);
  ASSERT_RC(0, uvs_reschedule(f.s, moved, UVS_MS(60))); /* after its end */
  fixture_advance_ms(&f, 1000);
  ASSERT_STR_EQ("0 10 30 100", log_runs(&f, EV_WORK, 'r'));
  ASSERT_RC(UV_EIO, done_status(&f, 'r'));
  ASSERT_STR_EQ("0 10 30", log_runs(&f, EV_WORK, 'u'));
  ASSERT_RC(UV_EIO, done_status(&f, 'u'));
  ASSERT_I64(30, fixture_ms(&f, log_nth(&f, EV_DONE, 'u', 0)->time_ns)); /* known at once */
  ASSERT_U64(2, log_count(&f, EV_ERROR, 'u'));
  ASSERT_STR_EQ("0 10 30 70", log_runs(&f, EV_WORK, 'j'));
  ASSERT_RC(0, done_status(&f, 'j'));
  ASSERT_STR_EQ("0", log_runs(&f, EV_WORK, 'l'));
  ASSERT_RC(UV_EIO, done_status(&f, 'l'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

TEST stop_ends_a_retried_task_as_a_success(void) {
  struct fixture f;

  CHECK_CALL(open_with(&f, 1));
  uvs_task_t t = retried(fixture_rate(&f, 'a', 0, UVS_MS(100)), UVS_MS(10), "xxs");
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ms(&f, 1000);
  ASSERT_STR_EQ("0 10 30", log_runs(&f, EV_WORK, 'a'));
  ASSERT_RC(0, done_status(&f, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

TEST the_fixed_delay_after_a_retry_counts_from_the_end_of_the_retry(void) {
  struct fixture f;

  CHECK_CALL(open_with(&f, 1));
  uvs_task_t t = retried(fixture_delay(&f, 'a', 0, UVS_MS(100)), UVS_MS(30), "xx..x.");
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ms(&f, 500);
  ASSERT_STR_EQ("0 30 90 190 290 320 420", log_runs(&f, EV_WORK, 'a'));
  ASSERT_U64(0, counts_of(f.s).missed);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* Jitter applies to points of the grid. A retry has retry_jitter. */
TEST jitter_affects_neither_a_retry_nor_the_grid(void) {
  struct fixture f;

  CHECK_CALL(open_with(&f, 1));
  uvs_task_t t = retried(fixture_rate(&f, 'a', 0, UVS_MS(100)), UVS_MS(20), ".x.");
  t.jitter_ns = UVS_MS(50);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ms(&f, 260);
  const struct event *e[4];
  for (unsigned i = 0; i < 4; i++)
    e[i] = log_nth(&f, EV_WORK, 'a', i);
  ASSERT_I64(100, fixture_ms(&f, e[1]->ideal_ns));
  ASSERT_I64(e[1]->start_ns + UVS_MS(20), e[2]->start_ns);
  ASSERT_I64(e[2]->start_ns, e[2]->ideal_ns);
  ASSERT_I64(200, fixture_ms(&f, e[3]->ideal_ns));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ----------------------------------------------------------- other kinds --- */

/* S71. The retry uses the clock of the task's due time. */
TEST a_task_of_the_wall_clock_is_retried_by_the_wall_clock(void) {
  for (int after = 0; after < 2; after++) {
    struct fixture f;
    uvs_id_t id;

    CHECK_CALL(open_with(&f, 1));
    uvs_task_t t = retried(fixture_once(&f, 'a', 0), UVS_SEC(10), "xxx.");
    t.from = UVS_FROM_WALL;
    t.first_ns = vclock_wall(&f.clock) + UVS_SEC(1);
    if (after)
      t.after = probe_after;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_advance_ms(&f, 1000);
    ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
    ASSERT_RC(UVS_FROM_WALL, look_at(f.s, id).info.from);
    ASSERT_I64(t.first_ns + UVS_SEC(10), look_at(f.s, id).info.due_ns);
    ASSERT_I64(UVS_SEC(10), look_at(f.s, id).info.remaining_ns);
    fixture_advance_ms(&f, 9999);
    ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
    fixture_advance_ms(&f, 1); /* 11 s */
    ASSERT_STR_EQ("aa", log_string(&f, EV_WORK));
    ASSERT_I64(UVS_SEC(20), look_at(f.s, id).info.remaining_ns);
    vclock_step_wall(&f.clock, UVS_SEC(20)); /* set forward: at once */
    uvs_clock_changed(f.s);
    fixture_turn(&f);
    ASSERT_STR_EQ("aaa", log_string(&f, EV_WORK));
    ASSERT_I64(UVS_SEC(40), look_at(f.s, id).info.remaining_ns);
    fixture_advance_ms(&f, 40000);
    ASSERT_STR_EQ("aaaa", log_string(&f, EV_WORK));
    ASSERT_RC(0, done_status(&f, 'a'));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* The busy loop called `after` late. The wait still counts from the end of the run. */
TEST a_late_after_does_not_move_a_retry_by_the_wall_clock(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(open_with(&f, 1));
  uvs_task_t t = retried(fixture_once(&f, 'a', 0), UVS_SEC(10), "x.");
  t.from = UVS_FROM_WALL;
  t.first_ns = vclock_wall(&f.clock);
  t.after = probe_after;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fakepool_hold();
  fixture_turn(&f);
  ASSERT(fakepool_step()); /* the body has ended, */
  vclock_advance_ns(&f.clock, UVS_SEC(3));
  fakepool_release();
  fixture_turn(&f); /* and `after` comes 3 s later */
  ASSERT_I64(UVS_SEC(7), look_at(f.s, id).info.remaining_ns);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

TEST tasks_of_the_loop_are_retried_on_the_loop(void) {
  for (int kind = UVS_ONE_SHOT; kind <= UVS_FIXED_DELAY; kind++) {
    struct fixture f;

    CHECK_CALL(open_with(&f, 1));
    uvs_task_t t = retried(fixture_loop_task(&f, 'a', 0), UVS_MS(10), "xxs");
    t.kind = kind;
    t.period_ns = kind == UVS_ONE_SHOT ? 0 : UVS_MS(100);
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_advance_ms(&f, 500);
    ASSERT_STR_EQ("0 10 30", log_runs(&f, EV_AFTER, 'a'));
    for (unsigned i = 0; i < 3; i++)
      ASSERT(log_nth(&f, EV_AFTER, 'a', i)->on_loop);
    ASSERT_U64(2, log_count(&f, EV_ERROR, 'a'));
    ASSERT_RC(0, done_status(&f, 'a'));
    ASSERT_U64(0, fakepool_seen().queue_works);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L14 */
TEST a_pending_run_that_is_finished_as_failed_is_retried(void) {
  for (int after = 0; after < 2; after++)
    for (int off_loop = 0; off_loop < 2; off_loop++) {
      struct fixture f;
      uvs_id_t id;

      CHECK_CALL(open_with(&f, off_loop));
      uvs_task_t t = retried(fixture_once(&f, 'a', 0), UVS_MS(10), "pp.");
      if (after)
        t.after = probe_after;
      ASSERT_RC(0, uvs_submit(f.s, &t, &id));
      fixture_advance_ms(&f, 5);
      ASSERT_RC(0, uvs_finish(f.s, id, UV_EPIPE));
      ASSERT_RC(UV_ENOENT, uvs_finish(f.s, id, 0)); /* waits for its retry: no run to finish */
      fixture_advance_ms(&f, 20);                   /* 25: its second run began at 15 */
      ASSERT_RC(UVS_RUNNING, state_of(f.s, id));
      ASSERT_U64(1, look_at(f.s, id).info.failures);
      ASSERT_RC(0, uvs_finish(f.s, id, UV_EIO));
      fixture_advance_ms(&f, 100);
      ASSERT_STR_EQ("0 15 45", log_runs(&f, EV_WORK, 'a'));
      ASSERT_RC(0, done_status(&f, 'a'));
      ASSERT_U64(after ? 0 : 2, log_count(&f, EV_ERROR, 'a'));
      if (after)
        ASSERT_RC(UV_EIO, log_nth(&f, EV_AFTER, 'a', 1)->status);
      CHECK_CALL(fixture_close(&f));
    }
  PASS();
}

/* F1 F3. The outcome is that of the last run. Before that there is none. */
TEST a_kept_outcome_settles_only_at_the_end(void) {
  static int value;

  for (int ends_well = 0; ends_well < 2; ends_well++) {
    struct fixture f;
    uvs_outcome_t o;
    uvs_id_t id;

    CHECK_CALL(open_with(&f, 1));
    uvs_task_t t = retried(fixture_once(&f, 'a', 0), UVS_MS(10), ends_well ? "xx." : "xxx");
    t.max_failures = 3;
    t.keep_outcome = 1;
    t.result = &value;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    for (int i = 0; i < 3; i++) { /* 0, 10, 20 */
      fixture_advance_ms(&f, i == 0 ? 0 : 10);
      ASSERT_RC(UV_ETIMEDOUT, uvs_wait(f.s, id, 0, 0, NULL));
      ASSERT_RC(UV_ETIMEDOUT, uvs_wait(f.s, id, 0, UVS_WAIT_SETTLED, NULL));
    }
    fixture_advance_ms(&f, 10);
    uvs_outcome_init(&o);
    ASSERT_RC(0, uvs_wait(f.s, id, 0, 0, &o));
    ASSERT_RC(ends_well ? 0 : UV_EIO, o.status);
    ASSERT_EQ(ends_well ? &value : NULL, o.result);
    ASSERT_U64(3, o.runs);
    ASSERT_I64(30, fixture_ms(&f, o.start_ns));
    ASSERT_RC(o.status, done_status(&f, 'a'));
    ASSERT_RC(0, uvs_forget(f.s, id));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

struct group {
  uvs_t *s;
  uvs_task_t t[3];
  uvs_outcome_t o[3];
  size_t winner;
  _Atomic int over;
};

static int wait_for_all(void *arg) {
  struct group *g = arg;
  int rc = uvs_all(g->s, g->t, 3, UVS_NEVER, g->o);

  atomic_store(&g->over, 1);
  return rc;
}

static int wait_for_any(void *arg) {
  struct group *g = arg;
  int rc = uvs_any(g->s, g->t, 3, UVS_NEVER, &g->winner, &g->o[0]);

  atomic_store(&g->over, 1);
  return rc;
}

/* S46 S50. A failure that is retried is not the end: neither for a thread that waits for all tasks,
 * nor for one that waits for the first success. */
TEST waiting_threads_are_not_woken_by_retries(void) {
  for (int any = 0; any < 2; any++) {
    struct group g = {.winner = 9};
    struct errand e = {any ? wait_for_any : wait_for_all, &g, UV_EAGAIN};
    uv_thread_t thread;
    struct fixture f;

    CHECK_CALL(open_with(&f, 1));
    g.s = f.s;
    g.t[0] = retried(fixture_once(&f, 'a', 0), UVS_MS(10), "xx");
    g.t[0].max_failures = 2;
    g.t[1] = retried(fixture_once(&f, 'b', 0), UVS_MS(10), "xxx.");
    g.t[2] = retried(fixture_once(&f, 'c', 0), UVS_MS(10), any ? "x" : "xx.");
    for (int i = 0; i < 3; i++)
      uvs_outcome_init(&g.o[i]);
    ASSERT_RC(0, uv_thread_create(&thread, errand_main, &e));
    while (atomic_load(&g.over) == 0) /* ends: the test's time-out sees to it */
      fixture_advance_ms(&f, 1);
    uv_thread_join(&thread);
    ASSERT_RC(0, e.rc);
    if (any) {
      ASSERT_U64(1, g.winner);
    } else {
      ASSERT_RC(UV_EIO, g.o[0].status);
      ASSERT_RC(0, g.o[1].status);
      ASSERT_U64(4, g.o[1].runs);
      ASSERT_U64(3, g.o[2].runs);
    }
    fixture_turn(&f);
    ASSERT_U64(3, log_count(&f, EV_DONE, 0));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* One-shots without a policy need no cold record and run once. */
TEST one_shots_without_a_failure_policy_run_once_and_keep_no_record(void) {
  struct fixture f;

  CHECK_CALL(open_with(&f, 1));
  uvs_task_t t = retried(fixture_once(&f, 'a', 0), UVS_MS(10), "xxx.");
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  for (int i = 0; i < 100; i++) {
    struct probe *p = fixture_probe(&f, i % 2 == 0 ? 'g' : 'b');
    p->ret = i % 2 == 0 ? 0 : UV_ENOENT;
    ASSERT_RC(0, uvs_schedule(f.s, UVS_MS(i), probe_work, p, NULL));
  }
  fixture_advance_ms(&f, 1000);
  ASSERT_STR_EQ("0 10 30 70", log_runs(&f, EV_WORK, 'a'));
  ASSERT_U64(50, log_count(&f, EV_WORK, 'g'));
  ASSERT_U64(50, log_count(&f, EV_WORK, 'b'));
  ASSERT_U64(50, log_count(&f, EV_ERROR, 'b'));
  ASSERT_U64(50, counts_of(f.s).failed);
  ASSERT_U64(51, counts_of(f.s).completed);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ------------------------------------------------- while it waits for a retry --- */

/* L1 S10 */
TEST info_shows_the_wait_for_a_retry(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(open_with(&f, 1));
  uvs_task_t t = retried(fixture_rate(&f, 'a', 0, UVS_MS(100)), UVS_MS(10), "xx.");
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_advance_ms(&f, 14); /* 0, 10 */
  struct look l = look_at(f.s, id);
  ASSERT_RC(0, l.rc);
  ASSERT_RC(UVS_WAITING, l.info.state);
  ASSERT_I64(30, fixture_ms(&f, l.info.due_ns));
  ASSERT_I64(UVS_MS(16), l.info.remaining_ns);
  ASSERT_U64(2, l.info.failures);
  ASSERT_U64(2, l.info.runs);
  ASSERT_I64(UVS_MS(100), l.info.period_ns);
  ASSERT_I64(30, fixture_next_ms(&f));
  ASSERT(fixture_alive(&f)); /* the loop stays for it */
  ASSERT_U64(1, counts_of(f.s).waiting);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* F7 L16 */
TEST a_cancel_ends_the_wait_for_a_retry(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    struct fixture f;
    uvs_id_t id;

    CHECK_CALL(open_with(&f, 1));
    uvs_task_t t = retried(fixture_once(&f, 'a', 0), UVS_MS(10), "x");
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_advance_ms(&f, 15);
    ASSERT_RC(UVS_CANCELLED, off_loop ? cancel_elsewhere(f.s, id) : uvs_cancel(f.s, id, 0));
    fixture_turn(&f);
    ASSERT_RC(UV_ECANCELED, done_status(&f, 'a'));
    fixture_advance_ms(&f, 1000);
    ASSERT_U64(2, log_count(&f, EV_WORK, 'a'));
    ASSERT_U64(2, log_count(&f, EV_ERROR, 'a')); /* both failures were told before */
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* The header: uvs_reschedule. The grid moves with it, the count of failures continues. */
TEST a_reschedule_moves_the_retry_and_the_grid(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    struct fixture f;
    uvs_id_t id;

    CHECK_CALL(open_with(&f, off_loop));
    uvs_task_t t = retried(fixture_rate(&f, 'a', 0, UVS_MS(100)), UVS_MS(10), "xxx.");
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_advance_ms(&f, 15); /* 0, 10; the next would be at 30 */
    ASSERT_RC(0, uvs_reschedule(f.s, id, UVS_MS(120)));
    ASSERT_U64(2, look_at(f.s, id).info.failures);
    fixture_advance_ms(&f, 400); /* 135 fails, 175 succeeds: 135 + 100 */
    ASSERT_STR_EQ("0 10 135 175 235 335", log_runs(&f, EV_WORK, 'a'));
    ASSERT_U64(0, counts_of(f.s).missed);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S35 S37 S38. A one-shot that waits for a retry counts as not due, unless its time has come and
 * only the loop has not looked at the clock. */
TEST shutdown_treats_a_task_that_waits_for_a_retry_as_delayed(void) {
  for (int survive = 0; survive < 2; survive++)
    for (int due = 0; due < 2; due++)
      for (int kind = UVS_ONE_SHOT; kind <= UVS_FIXED_DELAY; kind++) {
        bool goes_on = kind == UVS_ONE_SHOT && (survive || due);
        struct fixture f;

        fixture_init(&f);
        f.options.delayed_after_shutdown = survive;
        CHECK_CALL(fixture_open_turned(&f));
        uvs_task_t t = retried(fixture_once(&f, 'a', 0), UVS_MS(10), "xx.");
        t.kind = kind;
        t.period_ns = kind == UVS_ONE_SHOT ? 0 : UVS_MS(100);
        ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
        fixture_advance_ms(&f, 5);
        if (due)
          vclock_advance_ns(&f.clock, UVS_MS(5));
        ASSERT_RC(0, uvs_shutdown(f.s));
        fixture_turn(&f);
        ASSERT_RC(goes_on && survive ? 0 : 1, uvs_is_terminated(f.s));
        fixture_advance_ms(&f, 100);
        ASSERT_STR_EQ(!goes_on ? "0" : survive ? "0 10 30" : "0 10", log_runs(&f, EV_WORK, 'a'));
        /* Due at shutdown, and failed again without a further retry: the outcome is its own
         * failure. */
        ASSERT_RC(!goes_on ? UV_ECANCELED : survive ? 0 : UV_EIO, done_status(&f, 'a'));
        ASSERT_RC(1, uvs_is_terminated(f.s));
        CHECK_CALL(fixture_close(&f));
      }
  PASS();
}

/* S36. The policy is switched off while the task waits. */
TEST switching_survive_off_after_shutdown_ends_the_wait_for_a_retry(void) {
  struct fixture f;

  CHECK_CALL(open_with(&f, 1));
  uvs_task_t t = retried(fixture_once(&f, 'a', 0), UVS_MS(10), "x");
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ms(&f, 5);
  ASSERT_RC(0, uvs_shutdown(f.s));
  fixture_advance_ms(&f, 10);
  ASSERT_U64(2, log_count(&f, EV_WORK, 'a'));
  ASSERT_RC(0, uvs_set_after_shutdown(f.s, UVS_DELAYED_TASKS, 0));
  fixture_turn(&f);
  ASSERT_RC(UV_ECANCELED, done_status(&f, 'a'));
  ASSERT_RC(1, uvs_is_terminated(f.s));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S33 V2. The task has run, so it is not handed back. */
TEST shutdown_now_and_close_cancel_tasks_that_wait_for_a_retry(void) {
  for (int close = 0; close < 2; close++)
    for (int kind = UVS_ONE_SHOT; kind <= UVS_FIXED_DELAY; kind++) {
      struct fixture f;

      CHECK_CALL(open_with(&f, 1));
      uvs_task_t t = retried(fixture_once(&f, 'a', 0), UVS_MS(10), "x");
      t.kind = kind;
      t.period_ns = kind == UVS_ONE_SHOT ? 0 : UVS_MS(100);
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
      fixture_advance_ms(&f, 5);
      if (!close) {
        ASSERT_RC(0, uvs_shutdown_now(f.s, probe_never_ran, NULL));
        fixture_turn(&f);
        ASSERT_RC(1, uvs_is_terminated(f.s));
      } else {
        ASSERT_RC(0, uvs_close(f.s, note_closed));
        f.s = NULL;
        fixture_turn_until_closed(&f);
      }
      ASSERT_RC(UV_ECANCELED, done_status(&f, 'a'));
      ASSERT_U64(0, log_count(&f, EV_NEVER_RAN, 0));
      ASSERT_U64(1, log_count(&f, EV_WORK, 'a'));
      CHECK_CALL(fixture_close(&f));
    }
  PASS();
}

/* S35. The scheduler terminates when the retry succeeds, or at the end of the grace period. */
TEST an_orderly_shutdown_waits_for_retries_within_its_grace_period(void) {
  for (int grace = 0; grace < 2; grace++) {
    struct fixture f;

    CHECK_CALL(open_with(&f, 1));
    uvs_task_t t = retried(fixture_once(&f, 'a', 0), UVS_MS(10), grace ? "x" : "xxx.");
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_turn(&f);
    ASSERT_RC(0, grace ? uvs_shutdown_within(f.s, UVS_MS(50)) : uvs_shutdown(f.s));
    fixture_advance_ms(&f, 49);
    ASSERT_RC(0, uvs_is_terminated(f.s));
    fixture_advance_ms(&f, 21);
    ASSERT_RC(1, uvs_is_terminated(f.s));
    ASSERT_STR_EQ(grace ? "0 10 30" : "0 10 30 70", log_runs(&f, EV_WORK, 'a'));
    ASSERT_RC(grace ? UV_ECANCELED : 0, done_status(&f, 'a'));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

SUITE(instants) {
  RUN_TEST(each_retry_waits_twice_as_long_as_the_one_before);
  RUN_TEST(retry_waits_stop_growing_at_retry_max);
  RUN_TEST(a_retry_wait_counts_from_the_end_of_the_run);
  RUN_TEST(a_late_retry_is_not_caught_up);
  RUN_TEST(an_unbounded_retry_wait_ends_at_never);
  RUN_TEST(retry_jitter_is_determined_by_the_seed);
}

SUITE(bounds) {
  RUN_TEST(retries_stop_after_max_failures_consecutive_failures);
  RUN_TEST(max_runs_and_the_end_time_also_limit_retries);
  RUN_TEST(stop_ends_a_retried_task_as_a_success);
}

SUITE(kinds) {
  RUN_TEST(the_fixed_delay_after_a_retry_counts_from_the_end_of_the_retry);
  RUN_TEST(jitter_affects_neither_a_retry_nor_the_grid);
  RUN_TEST(a_task_of_the_wall_clock_is_retried_by_the_wall_clock);
  RUN_TEST(a_late_after_does_not_move_a_retry_by_the_wall_clock);
  RUN_TEST(tasks_of_the_loop_are_retried_on_the_loop);
  RUN_TEST(a_pending_run_that_is_finished_as_failed_is_retried);
  RUN_TEST(a_kept_outcome_settles_only_at_the_end);
  RUN_TEST(waiting_threads_are_not_woken_by_retries);
  RUN_TEST(one_shots_without_a_failure_policy_run_once_and_keep_no_record);
}

/* As for a fixed rate: whatever the policy says about other delays. */
TEST occurrences_that_pass_before_a_retry_are_missed(void) {
  for (int policy = UVS_MISSED_CATCH_UP; policy <= UVS_MISSED_SKIP; policy++) {
    struct fixture f;

    CHECK_CALL(fixture_open_turned_anew(&f));
    uvs_task_t t = retried(fixture_every_second(&f, 'a'), UVS_MS(2500), "x.");
    t.missed_policy = policy;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    uvs_calendar_release(t.calendar);
    fixture_advance_ms(&f, 5000); /* runs at 1 s, 3.5 s, 4 s and 5 s */
    ASSERT_U64(4, log_count(&f, EV_WORK, 'a'));
    ASSERT_U64(2, log_nth(&f, EV_WORK, 'a', 2)->missed);
    ASSERT_I64(4000, fixture_ms(&f, log_nth(&f, EV_WORK, 'a', 2)->start_ns));
    ASSERT_U64(2, counts_of(f.s).missed);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

SUITE(waiting) {
  RUN_TEST(occurrences_that_pass_before_a_retry_are_missed);
  RUN_TEST(info_shows_the_wait_for_a_retry);
  RUN_TEST(a_cancel_ends_the_wait_for_a_retry);
  RUN_TEST(a_reschedule_moves_the_retry_and_the_grid);
  RUN_TEST(shutdown_treats_a_task_that_waits_for_a_retry_as_delayed);
  RUN_TEST(switching_survive_off_after_shutdown_ends_the_wait_for_a_retry);
  RUN_TEST(shutdown_now_and_close_cancel_tasks_that_wait_for_a_retry);
  RUN_TEST(an_orderly_shutdown_waits_for_retries_within_its_grace_period);
}

TEST_MAIN(RUN_SUITE(instants); RUN_SUITE(bounds); RUN_SUITE(kinds); RUN_SUITE(waiting));
