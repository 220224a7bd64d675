/* SPDX-License-Identifier: MIT
 *
 * Which due task starts first where only one runs at a time: by (deadline, order of first
 * submission) within a priority class. On one runner, on the loop because there is no runner, and
 * for tasks of the loop. Priorities are tested in test_priority.c, lanes in lanes/.
 */
#include <stdlib.h>

#include "lib/inspect.h"
#include "lib/lanes.h"
#include "lib/threads.h"

/* ------------------------------------------------------------------ where --- */

enum where {
  ON_A_RUNNER,         /* `work`, concurrency 1 */
  ON_A_PATIENT_RUNNER, /* the same; it looks for tasks that came due during a body, since it does
                          not go home after it */
  WITHOUT_RUNNERS,     /* `work`, concurrency 0 */
  TASKS_OF_THE_LOOP,   /* `after` alone */
  IN_LONG_PASSES,      /* the same; the pass goes on after a body that took long */
  PLACES,
  /* The loop finishes what is ready in a pass. A run that catches up, or a task that a body
   * submits, has its place in the next pass. */
  RUNNERS = WITHOUT_RUNNERS
};

/* For the message of a failure. */
static const char *const place_of[PLACES] = {
    "on a runner", "on a patient runner", "without runners", "tasks of the loop", "in long passes"};

static bool is_loop_task(int where) {
  return where == TASKS_OF_THE_LOOP || where == IN_LONG_PASSES;
}

static enum greatest_test_res open_at(struct fixture *f, int where) {
  fixture_init(f);
  f->options.concurrency = where == WITHOUT_RUNNERS ? 0 : 1;
  if (where == ON_A_PATIENT_RUNNER || where == IN_LONG_PASSES)
    f->options.budget_ns = UVS_SEC(1);
  CHECK_CALL(fixture_open_turned(f));
  PASS();
}

static uvs_task_t placed(uvs_task_t t, int where) {
  if (is_loop_task(where)) {
    t.work = NULL;
    t.after = probe_loop_body;
  }
  return t;
}

static const char *starts(struct fixture *f, int where) {
  return log_string(f, is_loop_task(where) ? EV_AFTER : EV_WORK);
}

static int64_t first_start_ms(struct fixture *f, int where, int tag) {
  enum event_kind what = is_loop_task(where) ? EV_AFTER : EV_WORK;

  return log_count(f, what, tag) == 0 ? -1 : fixture_ms(f, log_nth(f, what, tag, 0)->start_ns);
}

/* Due `ms` milliseconds after the virtual clock started, which may be in the past. */
static uvs_task_t due_at(struct fixture *f, int where, int tag, int64_t ms) {
  uvs_task_t t = fixture_once(f, tag, VCLOCK_START_NS + UVS_MS(ms));

  t.from = UVS_FROM_MONOTONIC;
  return placed(t, where);
}

/* The first run of this body takes 50 ms, and all other tasks wait for it. */
static int act_slow_start(struct probe *p, uvs_run_t *run) {
  if (run->number == 1)
    vclock_advance_ns(&p->f->clock, UVS_MS(50));
  return 0;
}

/* ------------------------------------------------------------ runs that catch up --- */

/* S66 S69 L20: as in the JDK. */
TEST late_runs_of_a_fixed_rate_task_start_before_a_one_shot_that_is_due_later(void) {
  for (int where = 0; where < RUNNERS; where++) {
    struct fixture f;

    CHECK_CALL(open_at(&f, where));
    uvs_task_t rate = placed(fixture_rate(&f, 'R', 0, UVS_MS(10)), where);
    rate.max_runs = 5;
    probe_of(&rate)->act = act_slow_start;
    ASSERT_RC(0, uvs_submit(f.s, &rate, NULL));
    uvs_task_t once = placed(fixture_once(&f, 'D', UVS_MS(25)), where);
    ASSERT_RC(0, uvs_submit(f.s, &once, NULL));
    fixture_advance_ms(&f, 100);
    ASSERT_STR_EQm(place_of[where], "RRRDRR", starts(&f, where));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S66 L20: the runs of both are merged by their ideal times; at equal ones the first submitted goes
 * first. 'a' is due at 10, 20, 30 ..., 'b' at 15, 30, 45. */
TEST late_runs_of_two_fixed_rate_tasks_are_merged_by_their_ideal_times(void) {
  for (int where = 0; where < RUNNERS; where++) {
    struct fixture f;

    CHECK_CALL(open_at(&f, where));
    uvs_task_t x = placed(fixture_once(&f, 'x', 0), where);
    probe_of(&x)->act = act_slow_start;
    ASSERT_RC(0, uvs_submit(f.s, &x, NULL));
    uvs_task_t a = placed(fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10)), where);
    a.max_runs = 5;
    ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
    uvs_task_t b = placed(fixture_rate(&f, 'b', UVS_MS(15), UVS_MS(15)), where);
    b.max_runs = 3;
    ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
    fixture_advance_ms(&f, 100);
    ASSERT_STR_EQm(place_of[where], "xabaababa", starts(&f, where));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S66: 1 ms period, 10 ms body. Its runs fall behind by 9 ms each; without a bound, a one-shot that
 * is due at 1 s would start at 10 s. */
TEST a_task_that_falls_behind_delays_others_by_at_most_one_second(void) {
  for (int where = 0; where < RUNNERS; where++) {
    struct fixture f;
    int64_t start_ms;

    CHECK_CALL(open_at(&f, where));
    uvs_task_t rate = placed(fixture_rate(&f, 'R', 0, UVS_MS(1)), where);
    rate.max_runs = 400;
    probe_of(&rate)->takes_ns = UVS_MS(10);
    ASSERT_RC(0, uvs_submit(f.s, &rate, NULL));
    uvs_task_t once = placed(fixture_once(&f, 'D', UVS_SEC(1)), where);
    ASSERT_RC(0, uvs_submit(f.s, &once, NULL));
    fixture_advance_ms(&f, 5000);
    start_ms = first_start_ms(&f, where, 'D');
    ASSERT(start_ms >= 1900 && start_ms <= 2020); /* it waits for its place, but not longer */
    ASSERT_U64(401, strlen(starts(&f, where)));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S66: the bound applies only to runs that follow others. A first run keeps its deadline, however
 * late it is. */
TEST a_first_run_keeps_its_deadline_however_late_it_is(void) {
  for (int where = 0; where < PLACES; where++) {
    struct fixture f;

    CHECK_CALL(open_at(&f, where));
    uvs_task_t b = placed(fixture_rate(&f, 'b', UVS_MS(20), UVS_HOUR(2)), where);
    b.max_runs = 1;
    ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
    uvs_task_t a = placed(fixture_rate(&f, 'a', UVS_MS(10), UVS_HOUR(2)), where);
    a.max_runs = 1;
    ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
    fixture_jump_ns(&f, UVS_HOUR(1));
    ASSERT_STR_EQm(place_of[where], "ab", starts(&f, where));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* ------------------------------------------------------------- ready and waiting --- */

/* S69: 'b' is ready and waits when 'a', which was due before it, is submitted. */
TEST a_task_due_at_10_ms_submitted_at_50_ms_starts_before_one_due_at_20_ms(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    struct fixture f;
    uvs_id_t b;

    CHECK_CALL(open_at(&f, ON_A_RUNNER));
    fakepool_hold();
    uvs_task_t t = fixture_once(&f, 'b', UVS_MS(20));
    ASSERT_RC(0, uvs_submit(f.s, &t, &b));
    fixture_jump_ms(&f, 50);
    ASSERT_RC(UVS_READY, state_of(f.s, b));
    t = due_at(&f, ON_A_RUNNER, 'a', 10);
    ASSERT_RC(0, off_loop ? submit_elsewhere(f.s, t, NULL) : uvs_submit(f.s, &t, NULL));
    t = due_at(&f, ON_A_RUNNER, 'c', 30);
    ASSERT_RC(0, off_loop ? submit_elsewhere(f.s, t, NULL) : uvs_submit(f.s, &t, NULL));
    fixture_turn(&f);
    fakepool_release();
    fixture_turn(&f);
    ASSERT_STR_EQ("abc", log_string(&f, EV_WORK));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static struct {
  int where;
  uvs_id_t ready;
  int state;
} late;

static int act_submits_an_older_one(struct probe *p, uvs_run_t *run) {
  uvs_task_t t = due_at(p->f, late.where, 'a', 10);

  (void)run;
  vclock_advance_ns(&p->f->clock, UVS_MS(30));
  late.state = state_of(p->f->s, late.ready);
  return uvs_submit(p->f->s, &t, NULL);
}

/* S69: the same if the running body submits the task, also on the loop. */
TEST an_older_task_that_a_body_submits_starts_before_one_that_is_ready(void) {
  for (int where = 0; where < RUNNERS; where++) {
    struct fixture f;

    CHECK_CALL(open_at(&f, where));
    uvs_task_t x = placed(fixture_once(&f, 'x', UVS_MS(20)), where);
    probe_of(&x)->act = act_submits_an_older_one;
    ASSERT_RC(0, uvs_submit(f.s, &x, NULL));
    uvs_task_t b = placed(fixture_once(&f, 'b', UVS_MS(20)), where);
    ASSERT_RC(0, uvs_submit(f.s, &b, &late.ready));
    late.where = where;
    late.state = 0;
    fixture_advance_ms(&f, 100);
    ASSERT_RC(UVS_READY, late.state);
    ASSERT_STR_EQm(place_of[where], "xab", starts(&f, where));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S69: a due task that was not looked at yet counts as ready: the first free runner looks for
 * it. */
TEST a_task_that_came_due_during_a_body_starts_before_one_that_was_due_later(void) {
  for (int where = 0; where < RUNNERS; where++) {
    struct fixture f;

    CHECK_CALL(open_at(&f, where));
    uvs_task_t x = placed(fixture_once(&f, 'x', 0), where);
    probe_of(&x)->act = act_slow_start;
    ASSERT_RC(0, uvs_submit(f.s, &x, NULL));
    for (int ms = 40; ms >= 10; ms -= 10) {
      uvs_task_t t = placed(fixture_once(&f, 'a' + ms / 10 - 1, UVS_MS(ms)), where);

      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    }
    fixture_advance_ms(&f, 100);
    ASSERT_STR_EQm(place_of[where], "xabcd", starts(&f, where));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S69 S70: an instant of the wall clock counts as the monotonic time at which it passed. */
TEST wall_clock_tasks_are_in_the_same_order_as_others(void) {
  struct fixture f;

  CHECK_CALL(open_at(&f, ON_A_RUNNER));
  fakepool_hold();
  for (int i = 3; i >= 0; i--) {
    uvs_task_t t = due_at(&f, ON_A_RUNNER, 'a' + i, 10 * i + 10);

    if (i % 2 == 0) {
      t.from = UVS_FROM_WALL;
      t.first_ns += VCLOCK_WALL_NS - VCLOCK_START_NS;
    }
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_jump_ms(&f, i == 2 ? 50 : 0); /* 'd' and 'c' are ready when the others come */
  }
  fakepool_release();
  fixture_turn(&f);
  ASSERT_STR_EQ("abcd", log_string(&f, EV_WORK));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ------------------------------------------------------------- equal deadlines --- */

/* L20 S63 */
TEST at_equal_deadlines_the_first_submitted_starts_first_over_periods(void) {
  for (int where = 0; where < PLACES; where++) {
    struct fixture f;

    CHECK_CALL(open_at(&f, where));
    uvs_task_t a = placed(fixture_rate(&f, 'A', UVS_MS(100), UVS_MS(100)), where);
    a.max_runs = 6;
    ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
    uvs_task_t b = placed(fixture_rate(&f, 'B', UVS_MS(200), UVS_MS(200)), where);
    b.max_runs = 3;
    ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
    uvs_task_t c = placed(fixture_once(&f, 'C', UVS_MS(400)), where);
    ASSERT_RC(0, uvs_submit(f.s, &c, NULL));
    fixture_advance_ms(&f, 600);
    ASSERT_STR_EQm(place_of[where], "AABAABCAAB", starts(&f, where));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L20: the same when all runs are late. */
TEST late_runs_at_equal_deadlines_start_in_the_order_of_first_submission(void) {
  for (int where = 0; where < RUNNERS; where++) {
    struct fixture f;

    CHECK_CALL(open_at(&f, where));
    uvs_task_t a = placed(fixture_rate(&f, 'A', UVS_MS(100), UVS_MS(100)), where);
    a.max_runs = 6;
    ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
    uvs_task_t b = placed(fixture_rate(&f, 'B', UVS_MS(200), UVS_MS(200)), where);
    b.max_runs = 3;
    ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
    uvs_task_t c = placed(fixture_once(&f, 'C', UVS_MS(400)), where);
    ASSERT_RC(0, uvs_submit(f.s, &c, NULL));
    fixture_jump_ms(&f, 650);
    ASSERT_STR_EQm(place_of[where], "AABAABCAAB", starts(&f, where));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L20: a task is rescheduled to the deadline of another task. */
TEST a_rescheduled_task_keeps_its_place_among_equal_deadlines(void) {
  for (int where = 0; where < PLACES; where++) {
    struct fixture f;
    uvs_id_t a;

    CHECK_CALL(open_at(&f, where));
    uvs_task_t t = placed(fixture_once(&f, 'a', UVS_MS(10)), where);
    ASSERT_RC(0, uvs_submit(f.s, &t, &a));
    t = placed(fixture_once(&f, 'b', UVS_MS(50)), where);
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    ASSERT_RC(0, uvs_reschedule(f.s, a, UVS_MS(50)));
    fixture_jump_ms(&f, 60);
    ASSERT_STR_EQm(place_of[where], "ab", starts(&f, where));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* ----------------------------------------------------------------- any order --- */

struct expected {
  uvs_id_t id;
  int64_t due_ns;
  int priority;
  int number; /* of submission */
  bool cancelled;
};

static int by_deadline(const void *x, const void *y) {
  const struct expected *a = x;
  const struct expected *b = y;

  if (a->due_ns != b->due_ns)
    return a->due_ns < b->due_ns ? -1 : 1;
  return a->number - b->number;
}

enum { MANY = 200 };

/* S63 S69 L20 P11: deadlines in the past in any order, many of them equal, some cancelled while
 * they are ready, on the loop and from another thread. */
TEST ready_tasks_start_by_deadline_in_whatever_order_they_come(void) {
  uint64_t random = test_seed;

  for (int round = 0; round < 20; round++) {
    struct expected e[MANY];
    unsigned next[3] = {0, 0, 0};
    struct fixture f;
    int n = 1 + (int)test_random_below(&random, MANY);

    CHECK_CALL(open_at(&f, ON_A_RUNNER));
    vclock_advance_ns(&f.clock, UVS_SEC(10));
    fakepool_hold();
    for (int i = 0; i < n; i++) {
      int priority = (int)test_random_below(&random, 3) - 1;
      uvs_task_t t = due_at(&f, ON_A_RUNNER, "lnh"[priority + 1],
                            (int64_t)test_random_below(&random, 40) * 10);

      t.priority = priority;
      t.done = i % 2 == 0 ? NULL : t.done; /* a plain one-shot, or not */
      t.name = i % 3 == 0 ? "x" : NULL;
      e[i] = (struct expected){0, t.first_ns, priority, i, false};
      if (i % 5 == 0)
        ASSERT_RC(0, submit_elsewhere(f.s, t, &e[i].id));
      else
        ASSERT_RC(0, uvs_submit(f.s, &t, &e[i].id));
      if (test_random_below(&random, 4) == 0)
        fixture_turn(&f);
      if (test_random_below(&random, 4) == 0) {
        struct expected *gone = &e[test_random_below(&random, (uint64_t)i + 1)];

        ASSERT_RC(gone->cancelled ? UV_ENOENT : UVS_CANCELLED, uvs_cancel(f.s, gone->id, 0));
        gone->cancelled = true;
      }
      ASSERT(inspect_check(f.s));
    }
    fixture_turn(&f);
    fakepool_release();
    fixture_turn(&f);
    qsort(e, (size_t)n, sizeof e[0], by_deadline);
    for (int i = 0; i < n; i++) {
      int tag = "lnh"[e[i].priority + 1];

      if (!e[i].cancelled)
        ASSERT_U64(e[i].id, log_nth(&f, EV_WORK, tag, next[e[i].priority + 1]++)->id);
    }
    ASSERT_U64(next[0] + next[1] + next[2], log_count(&f, EV_WORK, 0));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* --------------------------------------------------------------------- lanes --- */

/* R8: 'a' to 'c' were due before 'A' to 'C'. A lane has only one task among the ready ones. The
 * lane's next task takes that place when the first one is handed over. */
TEST lanes_alternate_although_all_deadlines_have_passed(void) {
  for (int where = 0; where < PLACES; where++) {
    struct fixture f;
    uvs_lane_t lanes[2];

    CHECK_CALL(open_at(&f, where));
    for (int i = 0; i < 2; i++)
      ASSERT_RC(0, uvs_lane_open(f.s, NULL, &lanes[i]));
    for (int i = 0; i < 6; i++) {
      uvs_task_t t = placed(fixture_once(&f, "abcABC"[i], UVS_MS(i + 1)), where);

      t.lane = lanes[i / 3];
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    }
    fixture_jump_ms(&f, 50);
    ASSERT_STR_EQm(place_of[where], "aAbBcC", starts(&f, where));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* R8 S69: 'p' is in no lane. Only 'a' was among the ready tasks before the others came. */
TEST a_task_that_waited_in_its_lane_starts_after_tasks_that_were_ready_before(void) {
  for (int where = 0; where < PLACES; where++) {
    struct fixture f;
    uvs_lane_t lane;

    CHECK_CALL(open_at(&f, where));
    ASSERT_RC(0, uvs_lane_open(f.s, NULL, &lane));
    for (int i = 0; i < 5; i++) {
      uvs_task_t t = placed(fixture_once(&f, "abcpq"[i], UVS_MS(i + 1)), where);

      t.lane = i < 3 ? lane : 0;
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    }
    fixture_jump_ms(&f, 50);
    ASSERT_STR_EQm(place_of[where], "apqbc", starts(&f, where));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* R8 S69: the same, but 'p' came due while 'a' ran, and only the runner has looked at the clock. */
TEST a_task_that_came_due_during_a_body_starts_before_one_handed_over_after_it(void) {
  for (int where = 0; where < RUNNERS; where++) {
    struct fixture f;
    uvs_lane_t lane;

    CHECK_CALL(open_at(&f, where));
    ASSERT_RC(0, uvs_lane_open(f.s, NULL, &lane));
    for (int i = 0; i < 2; i++) {
      uvs_task_t t = placed(fixture_once(&f, 'a' + i, UVS_MS(1)), where);

      t.lane = lane;
      if (i == 0)
        probe_of(&t)->act = act_slow_start;
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    }
    uvs_task_t p = placed(fixture_once(&f, 'p', UVS_MS(20)), where);
    ASSERT_RC(0, uvs_submit(f.s, &p, NULL));
    fixture_advance_ms(&f, 100);
    ASSERT_STR_EQm(place_of[where], "apb", starts(&f, where));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

SUITE(catching_up) {
  RUN_TEST(late_runs_of_a_fixed_rate_task_start_before_a_one_shot_that_is_due_later);
  RUN_TEST(late_runs_of_two_fixed_rate_tasks_are_merged_by_their_ideal_times);
  RUN_TEST(a_task_that_falls_behind_delays_others_by_at_most_one_second);
  RUN_TEST(a_first_run_keeps_its_deadline_however_late_it_is);
}

SUITE(ready_and_waiting) {
  RUN_TEST(a_task_due_at_10_ms_submitted_at_50_ms_starts_before_one_due_at_20_ms);
  RUN_TEST(an_older_task_that_a_body_submits_starts_before_one_that_is_ready);
  RUN_TEST(a_task_that_came_due_during_a_body_starts_before_one_that_was_due_later);
  RUN_TEST(wall_clock_tasks_are_in_the_same_order_as_others);
}

SUITE(equal_deadlines) {
  RUN_TEST(at_equal_deadlines_the_first_submitted_starts_first_over_periods);
  RUN_TEST(late_runs_at_equal_deadlines_start_in_the_order_of_first_submission);
  RUN_TEST(a_rescheduled_task_keeps_its_place_among_equal_deadlines);
  RUN_TEST(ready_tasks_start_by_deadline_in_whatever_order_they_come);
}

SUITE(in_lanes) {
  RUN_TEST(lanes_alternate_although_all_deadlines_have_passed);
  RUN_TEST(a_task_that_waited_in_its_lane_starts_after_tasks_that_were_ready_before);
  RUN_TEST(a_task_that_came_due_during_a_body_starts_before_one_handed_over_after_it);
}

TEST_MAIN(RUN_SUITE(catching_up); RUN_SUITE(ready_and_waiting); RUN_SUITE(equal_deadlines);
          RUN_SUITE(in_lanes));
