/* SPDX-License-Identifier: MIT
 *
 * Bugs that the model (test/model) found in uvsched/control.h: one test for each.
 *
 * The comment above a test says what went wrong before.
 */
#include <stdlib.h>

#include "uvsched/calendar.h"

#include "lib/fixture.h"

/* --------------------------------------------------------------- run now --- */

/* uvs_pause answered UVS_PAUSED, and the extra run started nevertheless. */
TEST a_pause_stops_an_extra_run_that_has_not_started(void) {
  struct fixture f;
  uvs_task_t t;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  t = fixture_rate(&f, 'a', UVS_MS(100), UVS_MS(100));
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(0, uvs_run_now(f.s, id));
  ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id));
  fixture_advance_ms(&f, 10);
  ASSERT_STR_EQ("", log_runs(&f, EV_WORK, 'a'));
  ASSERT_RC(0, uvs_resume(f.s, id, 0));
  fixture_advance_ms(&f, 90);
  ASSERT_STR_EQ("10(0) 100", log_runs(&f, EV_WORK, 'a'));
  /* A paused task runs now, also if an extra run was stopped before. */
  ASSERT_RC(0, uvs_run_now(f.s, id));
  ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id));
  ASSERT_RC(0, uvs_run_now(f.s, id));
  ASSERT_RC(UV_EBUSY, uvs_run_now(f.s, id));
  fixture_turn(&f);
  ASSERT_STR_EQ("10(0) 100 100", log_runs(&f, EV_WORK, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* The extra run is given up, and the pause counts again. It stayed in the queue. L29 */
TEST a_paused_task_that_is_moved_leaves_the_queue_with_its_extra_run(void) {
  struct fixture f;
  uvs_task_t t;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  t = fixture_once(&f, 'a', UVS_MS(100));
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id));
  ASSERT_RC(0, uvs_run_now(f.s, id));
  ASSERT_RC(0, uvs_reschedule(f.s, id, UVS_MS(10)));
  fixture_advance_ms(&f, 20);
  ASSERT_STR_EQ("", log_runs(&f, EV_WORK, 'a'));
  ASSERT_RC(0, uvs_resume(f.s, id, 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("20(10)", log_runs(&f, EV_WORK, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* Nothing is forgotten: a moved task stays where it was moved to, whatever its end time. L25 */
TEST a_resume_does_not_end_a_task_that_was_moved(void) {
  struct fixture f;
  uvs_calendar_t *calendar;
  uvs_task_t t[2];
  uvs_id_t id[2];

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  ASSERT_RC(0, uvs_calendar_parse("* * * * * *", "UTC", NULL, &calendar, NULL));
  t[0] = fixture_rate(&f, 'a', UVS_MS(100), UVS_MS(100));
  t[0].until_ns = UVS_MS(300);
  t[1] = fixture_once(&f, 'b', 0);
  t[1].kind = UVS_CALENDAR;
  t[1].calendar = calendar;
  for (int i = 0; i < 2; i++) {
    ASSERT_RC(0, uvs_submit(f.s, &t[i], &id[i]));
    fixture_turn(&f);
    ASSERT_RC(0, uvs_reschedule(f.s, id[i], UVS_NEVER));
    ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id[i]));
    ASSERT_RC(0, uvs_resume(f.s, id[i], i == 0 ? 0 : UVS_RESUME_FORGET));
    fixture_advance_ms(&f, 1000);
    ASSERT_RC(0, uvs_reschedule(f.s, id[i], UVS_NEVER)); /* it is still there */
  }
  uvs_calendar_release(calendar);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static uvs_task_t failing_once(struct fixture *f, int tag) {
  uvs_task_t t = fixture_rate(f, tag, UVS_MS(100), UVS_MS(100));

  t.failure_policy = UVS_FAIL_RETRY;
  t.retry.wait_ns = UVS_MS(30);
  probe_of(&t)->ret = UV_EIO;
  return t;
}

/* uvs_run_now answered 0, but a paused task that waited for a retry did not run. */
TEST a_paused_task_that_waits_for_a_retry_runs_now(void) {
  struct fixture f;
  uvs_task_t t;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  t = failing_once(&f, 'a');
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_advance_ms(&f, 110);
  ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id));
  ASSERT_RC(0, uvs_run_now(f.s, id));
  fixture_advance_ms(&f, 200);
  ASSERT_STR_EQ("100 110", log_runs(&f, EV_WORK, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* UV_EBUSY, although no run was due. */
TEST the_retry_of_an_extra_run_comes_at_once(void) {
  struct fixture f;
  uvs_task_t t;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  t = failing_once(&f, 'a');
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(0, uvs_run_now(f.s, id));
  fixture_advance_ms(&f, 10);
  probe_of(&t)->ret = 0;
  ASSERT_RC(0, uvs_run_now(f.s, id));
  fixture_advance_ms(&f, 190);
  ASSERT_STR_EQ("0 10 100 200", log_runs(&f, EV_WORK, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* The points that had passed came after the extra run. */
TEST a_resume_forgets_the_points_that_an_extra_run_came_before(void) {
  struct fixture f;
  uvs_task_t t;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  t = fixture_rate(&f, 'a', UVS_MS(100), UVS_MS(100));
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id));
  fixture_advance_ms(&f, 350);
  ASSERT_RC(0, uvs_run_now(f.s, id));
  ASSERT_RC(0, uvs_resume(f.s, id, UVS_RESUME_FORGET));
  fixture_advance_ms(&f, 50);
  ASSERT_STR_EQ("350 400", log_runs(&f, EV_WORK, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static uvs_task_t every_second(struct fixture *f, int tag) {
  uvs_task_t t = fixture_rate(f, tag, 0, 0);

  t.kind = UVS_CALENDAR;
  if (uvs_calendar_parse("* * * * * *", "UTC", NULL, &t.calendar, NULL) != 0)
    abort();
  return t;
}

/* The same for a calendar. */
TEST a_resume_forgets_the_occurrences_that_an_extra_run_came_before(void) {
  struct fixture f;
  uvs_task_t t;
  uvs_id_t id;
  int64_t second;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  second = vclock_wall(&f.clock) / UVS_SEC(1);
  t = every_second(&f, 'a');
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  uvs_calendar_release(t.calendar);
  fixture_turn(&f);
  ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id));
  fixture_advance_ms(&f, 3500);
  ASSERT_RC(0, uvs_run_now(f.s, id));
  ASSERT_RC(0, uvs_resume(f.s, id, UVS_RESUME_FORGET));
  fixture_advance_ms(&f, 600);
  ASSERT_U64(2, log_count(&f, EV_WORK, 'a'));
  ASSERT_I64(second + 4, log_nth(&f, EV_WORK, 'a', 1)->ideal_ns / UVS_SEC(1));
  ASSERT_U64(0, log_nth(&f, EV_WORK, 'a', 1)->missed);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int act_shutdown(struct probe *p, uvs_run_t *run) {
  (void)p;
  return uvs_shutdown(run->scheduler);
}

/* The task ended with 0, although a shutdown during the extra run had cancelled its run. */
TEST a_shutdown_during_an_extra_run_cancels_the_run_after_it(void) {
  struct fixture f;
  uvs_task_t t;
  uvs_id_t id;

  fixture_init(&f);
  f.options.delayed_after_shutdown = 0;
  CHECK_CALL(fixture_open_turned(&f));
  t = fixture_once(&f, 'a', UVS_MS(100));
  probe_of(&t)->act = act_shutdown;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(0, uvs_run_now(f.s, id));
  fixture_turn(&f);
  ASSERT_STR_EQ("0", log_runs(&f, EV_WORK, 'a'));
  ASSERT_RC(UV_ECANCELED, done_status(&f, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* -------------------------------------------------------- pause them all --- */

static int act_pause_all(struct probe *p, uvs_run_t *run) {
  (void)p;
  return uvs_pause_all(run->scheduler);
}

/* Read through a null pointer. */
TEST pause_all_takes_back_a_plain_task_that_is_ready(void) {
  struct fixture f;
  uvs_task_t t;

  fixture_init(&f);
  f.options.concurrency = 0;
  CHECK_CALL(fixture_open_turned(&f));
  t = fixture_once(&f, 'a', 0);
  probe_of(&t)->act = act_pause_all;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  t = fixture_once(&f, 'b', 0);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ms(&f, 10);
  ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
  ASSERT_U64(1, counts_of(f.s).waiting);
  ASSERT_RC(0, uvs_resume_all(f.s));
  fixture_turn(&f);
  ASSERT_STR_EQ("10(0)", log_runs(&f, EV_WORK, 'b'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int act_note_culprit(struct probe *p, uvs_run_t *run) {
  log_add(p->f, EV_USER, p->tag, run->id, run->culprit);
  return 0;
}

/* The loop was blamed. */
TEST a_pause_that_a_shutdown_ends_is_blamed_for_its_time(void) {
  struct fixture f;
  uvs_task_t t;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  t = fixture_once(&f, 'a', UVS_MS(10));
  probe_of(&t)->act = act_note_culprit;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT_RC(0, uvs_pause_all(f.s));
  fixture_advance_ms(&f, 50);
  ASSERT_RC(0, uvs_shutdown(f.s));
  fixture_turn(&f);
  ASSERT_STR_EQ("50(10)", log_runs(&f, EV_WORK, 'a'));
  ASSERT_RC(UVS_LATE_PAUSED, log_nth(&f, EV_USER, 'a', 0)->status);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ------------------------------------------------------------- next runs --- */

/* The runs after the retry were a period after it, not on the grid. */
TEST the_runs_after_a_retry_are_on_the_grid(void) {
  struct fixture f;
  int64_t runs[4];
  uvs_task_t t;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  t = failing_once(&f, 'a');
  t.retry.wait_ns = UVS_MS(130);
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_advance_ms(&f, 110);
  ASSERT_RC(3, uvs_next_runs(f.s, id, runs, 3));
  ASSERT_I64(230, fixture_ms(&f, runs[0]));
  ASSERT_I64(300, fixture_ms(&f, runs[1]));
  ASSERT_I64(400, fixture_ms(&f, runs[2]));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ------------------------------------------------------------- calendars --- */

/* CATCH_UP ran the occurrences that had passed during the retries, and uvs_next_runs told them. */
TEST occurrences_that_pass_during_retries_are_missed(void) {
  struct fixture f;
  int64_t runs[2];
  int64_t second;
  uvs_task_t t;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  second = vclock_wall(&f.clock) / UVS_SEC(1);
  t = every_second(&f, 'a');
  t.failure_policy = UVS_FAIL_RETRY;
  t.retry.wait_ns = UVS_MS(3500);
  probe_of(&t)->ret = UV_EIO;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  uvs_calendar_release(t.calendar);
  fixture_advance_ms(&f, 1100);
  ASSERT_U64(1, log_count(&f, EV_WORK, 'a'));
  probe_of(&t)->ret = 0;
  ASSERT_RC(2, uvs_next_runs(f.s, id, runs, 2));
  ASSERT_I64(UVS_SEC(second) + UVS_MS(4500), runs[0]);
  ASSERT_I64(UVS_SEC(second + 5), runs[1]);
  fixture_advance_ms(&f, 4000);
  ASSERT_U64(3, log_count(&f, EV_WORK, 'a'));
  ASSERT_I64(UVS_SEC(second + 5), log_nth(&f, EV_WORK, 'a', 2)->ideal_ns);
  ASSERT_U64(3, log_nth(&f, EV_WORK, 'a', 2)->missed);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int act_submit(struct probe *p, uvs_run_t *run) {
  int rc = uvs_submit(run->scheduler, p->data, NULL);

  vclock_advance_ns(&p->f->clock, UVS_MS(1500));
  return rc;
}

/* The first look at the zones, in the pass after the submission, left the occurrence out. */
TEST a_look_at_the_zones_does_not_leave_out_an_occurrence_that_is_due(void) {
  struct fixture f;
  uvs_task_t t, submitter;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  t = every_second(&f, 'a');
  submitter = fixture_loop_task(&f, 'b', 0);
  probe_of(&submitter)->act = act_submit;
  probe_of(&submitter)->data = &t;
  ASSERT_RC(0, uvs_submit(f.s, &submitter, NULL));
  fixture_turn(&f);
  uvs_calendar_release(t.calendar);
  ASSERT_U64(1, log_count(&f, EV_WORK, 'a'));
  ASSERT_I64(UVS_MS(500), log_nth(&f, EV_WORK, 'a', 0)->late_ns);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* It was the address of the calendar. */
TEST a_calendar_task_has_no_period(void) {
  struct fixture f;
  uvs_task_t t;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  t = every_second(&f, 'a');
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  uvs_calendar_release(t.calendar);
  ASSERT_I64(0, look_at(f.s, id).info.period_ns);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(run_now) {
  RUN_TEST(a_pause_stops_an_extra_run_that_has_not_started);
  RUN_TEST(a_paused_task_that_is_moved_leaves_the_queue_with_its_extra_run);
  RUN_TEST(a_resume_does_not_end_a_task_that_was_moved);
  RUN_TEST(a_paused_task_that_waits_for_a_retry_runs_now);
  RUN_TEST(the_retry_of_an_extra_run_comes_at_once);
  RUN_TEST(a_resume_forgets_the_points_that_an_extra_run_came_before);
  RUN_TEST(a_resume_forgets_the_occurrences_that_an_extra_run_came_before);
  RUN_TEST(a_shutdown_during_an_extra_run_cancels_the_run_after_it);
}

SUITE(pause_all) {
  RUN_TEST(pause_all_takes_back_a_plain_task_that_is_ready);
  RUN_TEST(a_pause_that_a_shutdown_ends_is_blamed_for_its_time);
}

SUITE(next_runs) {
  RUN_TEST(the_runs_after_a_retry_are_on_the_grid);
}

SUITE(calendars) {
  RUN_TEST(occurrences_that_pass_during_retries_are_missed);
  RUN_TEST(a_look_at_the_zones_does_not_leave_out_an_occurrence_that_is_due);
  RUN_TEST(a_calendar_task_has_no_period);
}

TEST_MAIN(RUN_SUITE(run_now); RUN_SUITE(pause_all); RUN_SUITE(next_runs); RUN_SUITE(calendars));
