/* SPDX-License-Identifier: MIT
 *
 * uvs_run_now: an extra run, beside the grid.
 */
#include "lib/bodies.h"
#include "lib/control.h"
#include "lib/lanes.h"

/* L29 */
TEST run_now_answers_for_each_kind_of_id(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(fixture_open_turned_anew(&f));
  ASSERT_RC(UV_EINVAL, uvs_run_now(NULL, 1));
  ASSERT_RC(UV_ENOENT, uvs_run_now(f.s, 0));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(100), UVS_MS(100));
  probe_of(&t)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(0, uvs_run_now(f.s, id));
  ASSERT_RC(UV_EBUSY, uvs_run_now(f.s, id)); /* one is due already */
  fixture_turn(&f);
  ASSERT_RC(UVS_RUNNING, state_of(f.s, id));
  ASSERT_RC(UV_EBUSY, uvs_run_now(f.s, id));
  ASSERT_RC(0, uvs_shutdown(f.s));
  ASSERT_RC(UV_ESHUTDOWN, uvs_run_now(f.s, id));
  ASSERT_RC(0, uvs_finish(f.s, id, 0));
  fixture_turn(&f);
  ASSERT_RC(UV_ENOENT, uvs_run_now(f.s, id));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L29: a ready task */
TEST run_now_of_a_ready_task_is_refused(void) {
  struct fixture f;
  struct order o = {.call = uvs_run_now};

  fixture_init(&f);
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t a = fixture_once(&f, 'a', 0);
  give_order(&a, &o);
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  uvs_task_t b = fixture_once(&f, 'b', 0);
  ASSERT_RC(0, uvs_submit(f.s, &b, &o.id));
  fixture_turn(&f);
  ASSERT_RC(UVS_READY, o.state);
  ASSERT_RC(UV_EBUSY, o.rc);
  ASSERT_STR_EQ("ab", log_string(&f, EV_WORK));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L29: for each missed policy, and with a grid point that passes during the extra run */
TEST an_extra_run_does_not_move_the_grid(void) {
  for (int policy = UVS_MISSED_CATCH_UP; policy <= UVS_MISSED_SKIP; policy++) {
    struct fixture f;
    uvs_id_t id;

    CHECK_CALL(fixture_open_turned_anew(&f));
    uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
    t.missed_policy = policy;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_advance_ms(&f, 13);
    ASSERT_RC(0, uvs_run_now(f.s, id));
    fixture_turn(&f);
    fixture_advance_ms(&f, 17);
    ASSERT_STR_EQ("10 13 20 30", log_runs(&f, EV_WORK, 'a'));
    probe_of(&t)->takes_ns = UVS_MS(6); /* the extra run lasts until 41 ms */
    fixture_advance_ms(&f, 5);
    ASSERT_RC(0, uvs_run_now(f.s, id));
    fixture_turn(&f);
    probe_of(&t)->takes_ns = 0;
    fixture_advance_ms(&f, 3);
    ASSERT_STR_EQ("10 13 20 30 35 41(40) 50", log_runs(&f, EV_WORK, 'a'));
    ASSERT_U64(0, counts_of(f.s).missed);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L29 */
TEST an_extra_run_of_a_fixed_delay_does_not_move_the_next_run(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(fixture_open_turned_anew(&f));
  uvs_task_t t = fixture_delay(&f, 'a', UVS_MS(10), UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_advance_ms(&f, 15);
  ASSERT_RC(0, uvs_run_now(f.s, id));
  fixture_turn(&f);
  fixture_advance_ms(&f, 15);
  ASSERT_STR_EQ("10 15 20 30", log_runs(&f, EV_WORK, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L29: plain, loop task, in a lane, by the wall clock */
TEST a_one_shot_runs_twice(void) {
  for (int i = 0; i < 4; i++) {
    struct fixture f;
    uvs_lane_t lane;
    uvs_id_t id;

    CHECK_CALL(open_with_lane(&f, 1, 1, &lane));
    uvs_task_t t =
        i == 1 ? fixture_loop_task(&f, 'a', UVS_MS(10)) : fixture_once(&f, 'a', UVS_MS(10));
    if (i == 2)
      t.lane = lane;
    if (i == 3) {
      t.from = UVS_FROM_WALL;
      t.first_ns = vclock_wall(&f.clock) + UVS_MS(10);
    }
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    ASSERT_RC(0, uvs_run_now(f.s, id));
    fixture_turn(&f);
    ASSERT_U64(1, log_total(&f)); /* a run, and no `done` */
    ASSERT_I64(0, log_nth(&f, 0, 'a', 0)->late_ns);
    fixture_advance_ms(&f, 10);
    ASSERT_U64(3, log_total(&f));
    ASSERT_I64(10, fixture_ms(&f, log_nth(&f, 0, 'a', 1)->start_ns));
    ASSERT_U64(2, log_nth(&f, 0, 'a', 1)->number);
    ASSERT_RC(0, done_status(&f, 'a'));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L29 */
TEST an_extra_run_counts_for_max_runs(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(fixture_open_turned_anew(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
  t.max_runs = 2;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(0, uvs_run_now(f.s, id));
  fixture_turn(&f);
  fixture_advance_ms(&f, 30);
  ASSERT_STR_EQ("0 10", log_runs(&f, EV_WORK, 'a'));
  ASSERT_RC(0, done_status(&f, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L29: STOP ends it, CONTINUE does not, RETRY retries the extra run and then goes on with the grid;
 * max_failures counts it. */
TEST a_failure_of_an_extra_run_follows_the_failure_policy(void) {
  static const struct {
    int failure;
    uint32_t max_failures;
    const char *script, *runs;
    int status; /* INT_MAX: it goes on */
  } rows[] = {
      {UVS_FAIL_STOP, 0, "x.", "5", UV_EIO},
      {UVS_FAIL_CONTINUE, 0, "x.", "5 10 20", INT_MAX},
      {UVS_FAIL_CONTINUE, 2, "x", "5 10", UV_EIO},
      {UVS_FAIL_RETRY, 0, "x.", "5 7 10 20", INT_MAX},
      {UVS_FAIL_RETRY, 0, "xxx.", "5 7 11 19 19(10) 20", INT_MAX},
      {UVS_FAIL_RETRY, 2, "x", "5 7", UV_EIO},
  };

  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct fixture f;
    uvs_id_t id;

    CHECK_CALL(fixture_open_turned_anew(&f));
    uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
    t.failure_policy = rows[i].failure;
    t.max_failures = rows[i].max_failures;
    t.retry.wait_ns = rows[i].failure == UVS_FAIL_RETRY ? UVS_MS(2) : 0;
    follow_script(&t, rows[i].script);
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_advance_ms(&f, 5);
    ASSERT_RC(0, uvs_run_now(f.s, id));
    fixture_turn(&f);
    fixture_advance_ms(&f, 15);
    ASSERT_STR_EQ(rows[i].runs, log_runs(&f, EV_WORK, 'a'));
    ASSERT_RC(rows[i].status, done_status(&f, 'a'));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L29: a retry, at once; also the retry of an extra run. Then the grid, as after any retry. */
TEST run_now_brings_a_retry_forward(void) {
  for (int i = 0; i < 2; i++) {
    struct fixture f;
    uvs_id_t id;

    CHECK_CALL(fixture_open_turned_anew(&f));
    uvs_task_t t = retried(fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(50)), UVS_MS(30), "x.");
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    if (i == 1) {
      fixture_advance_ms(&f, 5);
      ASSERT_RC(0, uvs_run_now(f.s, id));
      fixture_turn(&f);
      fixture_advance_ms(&f, 7);
    } else {
      fixture_advance_ms(&f, 12);
    }
    ASSERT_RC(0, uvs_run_now(f.s, id));
    fixture_turn(&f);
    fixture_advance_ms(&f, 58);
    ASSERT_STR_EQ(i == 0 ? "10 12 60" : "5 12 12(10) 60", log_runs(&f, EV_WORK, 'a'));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L29: a paused task: waiting for a point, or for a retry. It stays paused. */
TEST a_paused_task_has_an_extra_run_and_stays_paused(void) {
  for (int i = 0; i < 2; i++) {
    struct fixture f;
    uvs_id_t id;

    CHECK_CALL(fixture_open_turned_anew(&f));
    uvs_task_t t =
        retried(fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10)), UVS_MS(3), i == 0 ? "." : "x.");
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_advance_ms(&f, 11);
    ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id));
    fixture_advance_ms(&f, 1);
    ASSERT_RC(0, uvs_run_now(f.s, id));
    fixture_turn(&f);
    ASSERT_STR_EQ("10 12", log_runs(&f, EV_WORK, 'a'));
    fixture_advance_ms(&f, 33);
    ASSERT_STR_EQ("10 12", log_runs(&f, EV_WORK, 'a'));
    ASSERT_RC(UV_EALREADY, uvs_pause(f.s, id));
    ASSERT_RC(0, uvs_resume(f.s, id, UVS_RESUME_FORGET));
    fixture_advance_ms(&f, 5);
    ASSERT_STR_EQ("10 12 50", log_runs(&f, EV_WORK, 'a'));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L24: the answer UVS_PAUSED says that no run starts: an extra run that was asked for before waits,
 * too, whether it is waiting or ready. */
TEST a_pause_holds_back_an_extra_run_that_has_not_started(void) {
  for (int i = 0; i < 2; i++) {
    struct fixture f;
    struct order o = {.call = uvs_pause};

    fixture_init(&f);
    f.options.concurrency = 1;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t a = fixture_once(&f, 'a', 0);
    give_order(&a, &o);
    uvs_task_t b = fixture_rate(&f, 'b', UVS_MS(10), UVS_MS(10));
    if (i == 1)
      ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &b, &o.id));
    ASSERT_RC(0, uvs_run_now(f.s, o.id));
    if (i == 0)
      ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, o.id));
    fixture_advance_ms(&f, 35);
    ASSERT_U64(0, log_count(&f, EV_WORK, 'b'));
    ASSERT_RC(0, uvs_resume(f.s, o.id, UVS_RESUME_FORGET));
    fixture_turn(&f);
    fixture_advance_ms(&f, 5);
    ASSERT_STR_EQ("35(0) 40", log_runs(&f, EV_WORK, 'b'));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L25: a resumption that forgets, while an extra run of the paused task is in progress */
TEST points_are_forgotten_although_an_extra_run_is_in_progress(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(fixture_open_turned_anew(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
  follow_script(&t, "p.");
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id));
  fixture_advance_ms(&f, 35);
  ASSERT_RC(0, uvs_run_now(f.s, id));
  fixture_turn(&f);
  ASSERT_RC(0, uvs_resume(f.s, id, UVS_RESUME_FORGET));
  ASSERT_RC(0, uvs_finish(f.s, id, 0));
  fixture_turn(&f);
  fixture_advance_ms(&f, 15);
  ASSERT_STR_EQ("35 40 50", log_runs(&f, EV_WORK, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L29: no run starts after the end time, an extra run neither. */
TEST an_extra_run_after_the_end_time_ends_the_task(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(fixture_open_turned_anew(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
  t.until_ns = UVS_MS(25);
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_advance_ms(&f, 15);
  ASSERT_RC(0, uvs_run_now(f.s, id));
  fixture_turn(&f);
  ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id));
  fixture_advance_ms(&f, 15);
  ASSERT_RC(0, uvs_run_now(f.s, id));
  fixture_turn(&f);
  ASSERT_STR_EQ("10 15", log_runs(&f, EV_WORK, 'a'));
  ASSERT_RC(0, done_status(&f, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L29: a limit of an extra run */
TEST an_extra_run_has_the_limit_of_any_other_run(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(fixture_open_turned_anew(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(100), UVS_MS(100));
  t.limit.run_ns = UVS_MS(5);
  t.failure_policy = UVS_FAIL_CONTINUE;
  probe_of(&t)->ret = UVS_PENDING;
  probe_of(&t)->ret_from = 1;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(0, uvs_run_now(f.s, id));
  fixture_advance_ms(&f, 10);
  ASSERT(inspect_token(f.s, id));
  ASSERT_RC(0, uvs_finish(f.s, id, 0));
  fixture_turn(&f);
  ASSERT_U64(1, counts_of(f.s).failed_runs);
  ASSERT_I64(100, fixture_next_ms(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L29: an extra run waits for its lane. */
TEST an_extra_run_waits_for_its_lane(void) {
  struct fixture f;
  uvs_lane_t lane;
  uvs_id_t a, b;

  CHECK_CALL(open_with_lane(&f, 2, 1, &lane));
  uvs_task_t t = in_lane(fixture_once(&f, 'a', 0), lane);
  probe_of(&t)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &t, &a));
  t = in_lane(fixture_rate(&f, 'b', UVS_MS(100), UVS_MS(100)), lane);
  ASSERT_RC(0, uvs_submit(f.s, &t, &b));
  fixture_turn(&f);
  ASSERT_RC(0, uvs_run_now(f.s, b));
  fixture_turn(&f);
  ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
  ASSERT_RC(0, uvs_finish(f.s, a, 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("ab", log_string(&f, EV_WORK));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L29: an occurrence is neither lost nor repeated; before and after its time is known. */
TEST an_extra_run_of_a_calendar_task_does_not_move_its_occurrences(void) {
  for (int i = 0; i < 2; i++) {
    struct fixture f;
    uvs_id_t id;

    CHECK_CALL(fixture_open_turned_anew(&f));
    uvs_task_t t = fixture_every_second(&f, 'a');
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    uvs_calendar_release(t.calendar);
    if (i == 1)
      fixture_advance_ms(&f, 1500);
    ASSERT_RC(0, uvs_run_now(f.s, id));
    fixture_turn(&f);
    ASSERT_U64(1u + (unsigned)i, log_count(&f, EV_WORK, 'a'));
    fixture_advance_ms(&f, 1000);
    ASSERT_U64(2u + (unsigned)i, log_count(&f, EV_WORK, 'a'));
    ASSERT_I64(VCLOCK_WALL_NS + UVS_SEC(1 + i),
               log_nth(&f, EV_WORK, 'a', 1u + (unsigned)i)->ideal_ns);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L29: a cancel ends a task whose extra run is due; a move takes the place of the extra run. */
TEST an_extra_run_that_has_not_started_can_be_cancelled_or_moved(void) {
  struct fixture f;
  uvs_id_t a, b;

  CHECK_CALL(fixture_open_turned_anew(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &t, &a));
  t = fixture_rate(&f, 'b', UVS_MS(10), UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &t, &b));
  ASSERT_RC(0, uvs_run_now(f.s, a));
  ASSERT_RC(0, uvs_run_now(f.s, b));
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, a, 0));
  ASSERT_RC(0, uvs_reschedule(f.s, b, UVS_MS(3)));
  fixture_advance_ms(&f, 15);
  ASSERT_STR_EQ("3 13", log_runs(&f, EV_WORK, 'b'));
  ASSERT_U64(0, log_count(&f, EV_WORK, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(runs_now) {
  RUN_TEST(run_now_answers_for_each_kind_of_id);
  RUN_TEST(run_now_of_a_ready_task_is_refused);
  RUN_TEST(an_extra_run_does_not_move_the_grid);
  RUN_TEST(an_extra_run_of_a_fixed_delay_does_not_move_the_next_run);
  RUN_TEST(a_one_shot_runs_twice);
  RUN_TEST(an_extra_run_counts_for_max_runs);
  RUN_TEST(a_failure_of_an_extra_run_follows_the_failure_policy);
  RUN_TEST(run_now_brings_a_retry_forward);
  RUN_TEST(a_paused_task_has_an_extra_run_and_stays_paused);
  RUN_TEST(a_pause_holds_back_an_extra_run_that_has_not_started);
  RUN_TEST(points_are_forgotten_although_an_extra_run_is_in_progress);
  RUN_TEST(an_extra_run_after_the_end_time_ends_the_task);
  RUN_TEST(an_extra_run_has_the_limit_of_any_other_run);
  RUN_TEST(an_extra_run_waits_for_its_lane);
  RUN_TEST(an_extra_run_of_a_calendar_task_does_not_move_its_occurrences);
  RUN_TEST(an_extra_run_that_has_not_started_can_be_cancelled_or_moved);
}

TEST_MAIN(RUN_SUITE(runs_now));
