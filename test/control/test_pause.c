/* SPDX-License-Identifier: MIT
 *
 * uvs_pause and uvs_resume: one task.
 */
#include "lib/bodies.h"
#include "lib/control.h"
#include "lib/lanes.h"

/* ------------------------------------------------------------------- answers --- */

/* L24 L25 */
TEST each_call_answers_for_each_kind_of_id(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(fixture_open_turned_anew(&f));
  ASSERT_RC(UV_EINVAL, uvs_pause(NULL, 1));
  ASSERT_RC(UV_EINVAL, uvs_resume(NULL, 1, 0));
  ASSERT_RC(UV_EINVAL, uvs_pause_all(NULL));
  ASSERT_RC(UV_EINVAL, uvs_resume_all(NULL));
  ASSERT_RC(UV_ENOENT, uvs_pause(f.s, 0));
  ASSERT_RC(UV_ENOENT, uvs_resume(f.s, 0, 0));
  ASSERT_RC(UV_ENOENT, uvs_pause(f.s, 1234567));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(UV_EINVAL, uvs_resume(f.s, id, 2));
  ASSERT_RC(UV_EALREADY, uvs_resume(f.s, id, 0)); /* not paused */
  ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id));
  ASSERT_RC(UV_EALREADY, uvs_pause(f.s, id));
  ASSERT_RC(0, uvs_resume(f.s, id, 0));
  ASSERT_RC(UV_EALREADY, uvs_resume(f.s, id, UVS_RESUME_FORGET));
  fixture_advance_ms(&f, 10);
  ASSERT_RC(0, done_status(&f, 'a'));
  ASSERT_RC(UV_ENOENT, uvs_pause(f.s, id)); /* it has ended */
  ASSERT_RC(UV_ENOENT, uvs_resume(f.s, id, 0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ---------------------------------------------------------------- each state --- */

/* L24 L25: plain (no extra record), named, loop task, by the wall clock; before or after it is due
 */
TEST a_paused_one_shot_runs_when_it_is_resumed_and_not_before_it_is_due(void) {
  for (int i = 0; i < 8; i++) {
    bool late = i >= 4;
    struct fixture f;
    uvs_id_t id;

    CHECK_CALL(fixture_open_turned_anew(&f));
    uvs_task_t t =
        i % 4 == 2 ? fixture_loop_task(&f, 'a', UVS_MS(10)) : fixture_once(&f, 'a', UVS_MS(10));
    if (i % 4 == 1)
      t.name = "named";
    if (i % 4 == 3) {
      t.from = UVS_FROM_WALL;
      t.first_ns = vclock_wall(&f.clock) + UVS_MS(10);
    }
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_advance_ms(&f, 2);
    ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id));
    ASSERT_RC(UVS_WAITING, state_of(f.s, id));
    ASSERT_I64(-1, fixture_next_ms(&f)); /* the loop has nothing to wait for ... */
    ASSERT(fixture_alive(&f));           /* ... but stays alive for it */
    fixture_advance_ms(&f, late ? 50 : 3);
    ASSERT_U64(0, log_total(&f));
    ASSERT_RC(0, uvs_resume(f.s, id, 0));
    fixture_turn(&f);
    if (!late) {
      ASSERT_U64(0, log_total(&f));
      fixture_advance_ms(&f, 5);
    }
    ASSERT_I64(late ? 52 : 10, fixture_ms(&f, log_nth(&f, 0, 'a', 0)->start_ns));
    ASSERT_I64(late ? UVS_MS(42) : 0, log_nth(&f, 0, 'a', 0)->late_ns);
    ASSERT_RC(0, done_status(&f, 'a'));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L24: ready on the loop, ready for a runner, ready in a lane (first, and behind another). The
 * first task pauses the second while both are ready; the third still runs. */
TEST a_ready_task_leaves_its_queue_when_it_is_paused(void) {
  for (int i = 0; i < 3; i++) {
    struct fixture f;
    uvs_lane_t lane = 0;

    CHECK_CALL(open_with_lane(&f, i == 0 ? 0 : 1, 1, &lane));
    uvs_task_t a = in_lane(fixture_once(&f, 'a', UVS_MS(1)), i == 2 ? lane : 0);
    uvs_task_t b = in_lane(fixture_once(&f, 'b', UVS_MS(1)), i == 2 ? lane : 0);
    uvs_task_t c = in_lane(fixture_once(&f, 'c', UVS_MS(1)), i == 2 ? lane : 0);
    struct order o = {.call = uvs_pause};
    give_order(&a, &o);
    ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &b, &o.id));
    ASSERT_RC(0, uvs_submit(f.s, &c, NULL));
    fixture_advance_ms(&f, 5);
    ASSERT_RC(UVS_READY, o.state);
    ASSERT_RC(UVS_PAUSED, o.rc);
    ASSERT_STR_EQ("ac", log_string(&f, EV_WORK));
    ASSERT_RC(UVS_WAITING, state_of(f.s, o.id));
    CHECK_CALL(pool_is_idle(&f));
    ASSERT_RC(0, uvs_resume(f.s, o.id, 0));
    fixture_turn(&f);
    ASSERT_STR_EQ("acb", log_string(&f, EV_WORK));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L24: a run in progress finishes, and none follows; also if the body pauses itself. */
TEST a_running_task_finishes_its_run_and_has_no_other_until_it_is_resumed(void) {
  struct fixture f;

  CHECK_CALL(fixture_open_turned_anew(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
  struct order o = {.call = uvs_pause, .at_run = 2};
  t.after = probe_after;
  t.missed_policy = UVS_MISSED_ONCE;
  give_order(&t, &o);
  ASSERT_RC(0, uvs_submit(f.s, &t, &o.id));
  fixture_advance_ms(&f, 45);
  ASSERT_RC(UVS_PAUSED_WHILE_RUNNING, o.rc);
  ASSERT_STR_EQ("10 20", log_runs(&f, EV_WORK, 'a'));
  ASSERT_U64(2, log_count(&f, EV_AFTER, 'a'));
  ASSERT_RC(0, uvs_resume(f.s, o.id, 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("10 20 45(30+1)", log_runs(&f, EV_WORK, 'a'));
  fixture_advance_ms(&f, 5);
  ASSERT_STR_EQ("10 20 45(30+1) 50", log_runs(&f, EV_WORK, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L24: a body that has returned UVS_PENDING, and a body whose `after` is still to come */
TEST a_pending_task_is_paused_while_running(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(fixture_open_turned_anew(&f));
  uvs_task_t t = fixture_delay(&f, 'a', UVS_MS(10), UVS_MS(10));
  probe_of(&t)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_advance_ms(&f, 10);
  ASSERT_RC(UVS_PAUSED_WHILE_RUNNING, uvs_pause(f.s, id));
  ASSERT_RC(UVS_RUNNING, state_of(f.s, id));
  ASSERT_RC(0, uvs_finish(f.s, id, 0));
  fixture_advance_ms(&f, 50);
  ASSERT_STR_EQ("10", log_runs(&f, EV_WORK, 'a'));
  ASSERT_RC(UV_EALREADY, uvs_pause(f.s, id));
  ASSERT_RC(0, uvs_resume(f.s, id, 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("10 60(20)", log_runs(&f, EV_WORK, 'a'));
  ASSERT_RC(0, uvs_finish(f.s, id, UVS_STOP));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L24: a one-shot that is paused while it runs ends as usual. */
TEST a_one_shot_that_is_paused_while_it_runs_ends(void) {
  struct fixture f;

  CHECK_CALL(fixture_open_turned_anew(&f));
  uvs_task_t t = fixture_once(&f, 'a', 0); /* plain: gets its extra record during the run */
  struct order o = {.call = uvs_pause};
  give_order(&t, &o);
  t.done = probe_done;
  ASSERT_RC(0, uvs_submit(f.s, &t, &o.id));
  fixture_turn(&f);
  ASSERT_RC(UVS_PAUSED_WHILE_RUNNING, o.rc);
  ASSERT_RC(0, done_status(&f, 'a'));
  ASSERT_RC(UV_ENOENT, uvs_resume(f.s, o.id, 0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int act_resume_itself(struct probe *p, uvs_run_t *run) {
  if (run->number == 1)
    p->ret = uvs_pause(p->f->s, run->id) == UVS_PAUSED_WHILE_RUNNING
                 ? uvs_resume(p->f->s, run->id, 0)
                 : UV_EIO;
  return p->ret;
}

/* L24 */
TEST a_body_that_pauses_and_resumes_its_task_changes_nothing(void) {
  struct fixture f;

  CHECK_CALL(fixture_open_turned_anew(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
  probe_of(&t)->act = act_resume_itself;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ms(&f, 30);
  ASSERT_STR_EQ("10 20 30", log_runs(&f, EV_WORK, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static void error_pauses(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct probe *p = arg;

  p->ret = 0;
  log_add(p->f, EV_ERROR, p->tag, id, uvs_pause(s, id));
  (void)status;
}

/* L24: the error hook is owed before the next run; it pauses the task. */
TEST a_task_that_is_owed_a_hook_can_be_paused(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  f.options.on_error = error_pauses;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
  t.failure_policy = UVS_FAIL_CONTINUE;
  t.done = NULL;
  probe_of(&t)->ret = UV_EIO;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_advance_ms(&f, 50);
  ASSERT_STR_EQ("10", log_runs(&f, EV_WORK, 'a'));
  ASSERT_RC(UVS_PAUSED, log_nth(&f, EV_ERROR, 'a', 0)->status);
  ASSERT_RC(0, uvs_resume(f.s, id, UVS_RESUME_FORGET));
  fixture_advance_ms(&f, 10);
  ASSERT_STR_EQ("10 50 60", log_runs(&f, EV_WORK, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L24: a task that waits for a retry */
TEST a_task_that_waits_for_a_retry_can_be_paused(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(fixture_open_turned_anew(&f));
  uvs_task_t t = retried(fixture_once(&f, 'a', UVS_MS(10)), UVS_MS(10), "x.");
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_advance_ms(&f, 12);
  ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id));
  fixture_advance_ms(&f, 30);
  ASSERT_STR_EQ("10", log_runs(&f, EV_WORK, 'a'));
  ASSERT_RC(0, uvs_resume(f.s, id, UVS_RESUME_FORGET)); /* a retry is no point of a grid */
  fixture_turn(&f);
  ASSERT_STR_EQ("10 42(20)", log_runs(&f, EV_WORK, 'a'));
  ASSERT_RC(0, done_status(&f, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L24: its submitter is about to run it (UVS_REJECT_CALLER_RUNS). The body of the first pauses the
 * second. */
TEST a_task_that_its_submitter_would_run_can_be_paused(void) {
  struct fixture f;
  uvs_id_t ids[2];

  fixture_init(&f);
  f.options.max_pending = 1;
  f.options.rejection_policy = UVS_REJECT_CALLER_RUNS;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t filler = fixture_once(&f, 'f', UVS_HOUR(1));
  ASSERT_RC(0, uvs_submit(f.s, &filler, NULL));
  uvs_task_t t[2] = {fixture_once(&f, 'a', 0), fixture_once(&f, 'b', 0)};
  struct order o = {.call = uvs_pause, .ids = &ids[1]};
  give_order(&t[0], &o);
  ASSERT_RC(0, uvs_submit_many(f.s, t, 2, ids));
  ASSERT_RC(UVS_PAUSED, o.rc);
  fixture_advance_ms(&f, 10);
  ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
  ASSERT_RC(0, uvs_resume(f.s, ids[1], 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("ab", log_string(&f, EV_WORK));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L24: a limit from READY on does not count during the pause. */
TEST the_time_limit_of_a_ready_task_does_not_count_while_it_is_paused(void) {
  struct fixture f;

  fixture_init(&f);
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t a = fixture_once(&f, 'a', 0);
  uvs_task_t b = fixture_once(&f, 'b', 0);
  struct order o = {.call = uvs_pause};
  give_order(&a, &o);
  b.limit.total_ns = UVS_MS(5);
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &b, &o.id));
  fixture_turn(&f);
  ASSERT_RC(UVS_PAUSED, o.rc);
  ASSERT_U64(0, inspect_limits(f.s));
  fixture_advance_ms(&f, 50);
  ASSERT_RC(0, uvs_resume(f.s, o.id, 0));
  fixture_turn(&f);
  ASSERT_RC(0, done_status(&f, 'b'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* -------------------------------------------------------------- missed points --- */

/* Fixed rate of 10 ms, paused from 15 to 47 ms. */
static enum greatest_test_res resume_at_47(struct fixture *f, uvs_task_t t, unsigned flags) {
  uvs_id_t id;

  ASSERT_RC(0, uvs_submit(f->s, &t, &id));
  fixture_advance_ms(f, 15);
  ASSERT_RC(UVS_PAUSED, uvs_pause(f->s, id));
  fixture_advance_ms(f, 32);
  ASSERT_RC(0, uvs_resume(f->s, id, flags));
  fixture_turn(f);
  fixture_advance_ms(f, 13);
  PASS();
}

/* L25 L26 */
TEST points_that_pass_during_a_pause_are_missed_as_the_policy_says(void) {
  static const struct {
    int policy;
    uint32_t max_burst;
    unsigned flags;
    const char *runs;
    uint64_t missed;
  } rows[] = {
      {UVS_MISSED_CATCH_UP, 0, 0, "10 47(20) 47(30) 47(40) 50 60", 0},
      {UVS_MISSED_CATCH_UP, 2, 0, "10 47(30+1) 47(40) 50 60", 1},
      {UVS_MISSED_ONCE, 0, 0, "10 47(20+2) 50 60", 2},
      {UVS_MISSED_SKIP, 0, 0, "10 50(50+3) 60", 3},
      {UVS_MISSED_CATCH_UP, 0, UVS_RESUME_FORGET, "10 50 60", 0},
      {UVS_MISSED_ONCE, 0, UVS_RESUME_FORGET, "10 50 60", 0},
      {UVS_MISSED_SKIP, 0, UVS_RESUME_FORGET, "10 50 60", 0},
  };

  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct fixture f;

    CHECK_CALL(fixture_open_turned_anew(&f));
    uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
    t.missed_policy = rows[i].policy;
    t.max_burst = rows[i].max_burst;
    CHECK_CALL(resume_at_47(&f, t, rows[i].flags));
    ASSERT_STR_EQ(rows[i].runs, log_runs(&f, EV_WORK, 'a'));
    ASSERT_U64(rows[i].missed, counts_of(f.s).missed);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L25: a point at the instant of the resumption is not forgotten. */
TEST a_point_that_is_due_when_the_task_is_resumed_is_not_forgotten(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(fixture_open_turned_anew(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id));
  fixture_advance_ms(&f, 30);
  ASSERT_RC(0, uvs_resume(f.s, id, UVS_RESUME_FORGET));
  fixture_turn(&f);
  ASSERT_STR_EQ("30", log_runs(&f, EV_WORK, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L25 */
TEST a_fixed_delay_continues_at_once_if_its_deadline_has_passed(void) {
  for (unsigned flags = 0; flags <= UVS_RESUME_FORGET; flags++) {
    struct fixture f;

    CHECK_CALL(fixture_open_turned_anew(&f));
    CHECK_CALL(resume_at_47(&f, fixture_delay(&f, 'a', UVS_MS(10), UVS_MS(10)), flags));
    ASSERT_STR_EQ("10 47(20) 57", log_runs(&f, EV_WORK, 'a'));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L25: no point is left when the end time has passed: the task ends at once, as a success. */
TEST a_task_that_forgets_all_points_up_to_its_end_time_ends(void) {
  struct fixture f;

  CHECK_CALL(fixture_open_turned_anew(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
  t.until_ns = UVS_MS(45);
  CHECK_CALL(resume_at_47(&f, t, UVS_RESUME_FORGET));
  ASSERT_STR_EQ("10", log_runs(&f, EV_WORK, 'a'));
  ASSERT_RC(0, done_status(&f, 'a'));
  ASSERT_I64(47, fixture_ms(&f, log_nth(&f, EV_DONE, 'a', 0)->time_ns));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int missed_reason;

static void note_missed(uvs_t *s, uvs_id_t id, uint64_t missed, int reason, void *arg) {
  struct probe *p = arg;

  missed_reason = reason;
  log_add(p->f, EV_USER, p->tag, id, (int)missed);
  (void)s;
}

/* L26: for a plain task, a periodic task and a task by the wall clock */
TEST a_late_run_after_a_pause_names_the_pause_as_the_culprit(void) {
  for (int i = 0; i < 3; i++) {
    struct fixture f;
    uvs_id_t id;

    CHECK_CALL(fixture_open_turned_anew(&f));
    uvs_task_t t =
        i == 1 ? fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(100)) : fixture_once(&f, 'a', UVS_MS(10));
    if (i == 2) {
      t.from = UVS_FROM_WALL;
      t.first_ns = vclock_wall(&f.clock) + UVS_MS(10);
    }
    probe_of(&t)->act = act_note_late;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id));
    fixture_advance_ms(&f, 40);
    ASSERT_RC(0, uvs_resume(f.s, id, 0));
    fixture_turn(&f);
    ASSERT_U64(1, log_count(&f, EV_WORK, 'a'));
    ASSERT_RC(UVS_LATE_PAUSED, noted_late.culprit);
    ASSERT_I64(UVS_MS(30), noted_late.paused_ns);
    ASSERT_I64(UVS_MS(30), noted_late.late_ns);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L26 */
TEST the_missed_hook_is_told_that_a_pause_was_the_reason(void) {
  struct fixture f;

  fixture_init(&f);
  f.hooks.on_missed = note_missed;
  CHECK_CALL(fixture_open_turned(&f));
  missed_reason = -1;
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
  t.missed_policy = UVS_MISSED_SKIP;
  CHECK_CALL(resume_at_47(&f, t, 0));
  ASSERT_RC(3, log_nth(&f, EV_USER, 'a', 0)->status);
  ASSERT_RC(UVS_LATE_PAUSED, missed_reason);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L26: the task is resumed first, then the scheduler; and the other way round. */
TEST the_pause_of_the_task_and_of_the_scheduler_are_both_blamed_on_the_pause(void) {
  for (int i = 0; i < 2; i++) {
    struct fixture f;
    uvs_id_t id;

    CHECK_CALL(fixture_open_turned_anew(&f));
    uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(100));
    probe_of(&t)->act = act_note_late;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id));
    ASSERT_RC(0, uvs_pause_all(f.s));
    fixture_advance_ms(&f, 40);
    ASSERT_RC(0, i == 0 ? uvs_resume(f.s, id, 0) : uvs_resume_all(f.s));
    fixture_advance_ms(&f, 2);
    ASSERT_RC(0, i == 0 ? uvs_resume_all(f.s) : uvs_resume(f.s, id, 0));
    fixture_turn(&f);
    ASSERT_STR_EQ("42(10)", log_runs(&f, EV_WORK, 'a'));
    ASSERT_I64(UVS_MS(32), noted_late.paused_ns);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* ---------------------------------------------------- other calls on a paused task --- */

/* L24 */
TEST a_paused_task_can_be_cancelled_completed_and_rescheduled(void) {
  struct fixture f;
  uvs_id_t a, b, c;

  CHECK_CALL(fixture_open_turned_anew(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &t, &a));
  t = fixture_rate(&f, 'b', UVS_MS(10), UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &t, &b));
  t = fixture_rate(&f, 'c', UVS_MS(10), UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &t, &c));
  ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, a));
  ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, b));
  ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, c));
  fixture_advance_ms(&f, 25);
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, a, 0));
  ASSERT_RC(0, uvs_complete(f.s, b, UV_EIO, NULL));
  ASSERT_RC(0, uvs_reschedule(f.s, c, UVS_MS(5))); /* the grid moves to 30 ms */
  fixture_turn(&f);
  ASSERT_RC(UV_ECANCELED, done_status(&f, 'a'));
  ASSERT_RC(UV_EIO, done_status(&f, 'b'));
  fixture_advance_ms(&f, 5);
  ASSERT_U64(0, log_count(&f, EV_WORK, 0)); /* it stays paused */
  ASSERT_RC(0, uvs_resume(f.s, c, 0));
  fixture_turn(&f);
  fixture_advance_ms(&f, 10);
  ASSERT_STR_EQ("30 40", log_runs(&f, EV_WORK, 'c'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L27: also if its due time has passed, and tasks of its kind go on */
TEST a_shutdown_cancels_a_paused_task(void) {
  for (int i = 0; i < 4; i++) {
    struct fixture f;
    uvs_id_t id;

    fixture_init(&f);
    f.options.delayed_after_shutdown = 1;
    f.options.periodic_after_shutdown = 1;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = i % 2 == 0 ? fixture_once(&f, 'a', UVS_MS(10))
                              : fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id));
    if (i >= 2)
      fixture_advance_ms(&f, 20);
    ASSERT_RC(0, uvs_shutdown(f.s));
    fixture_turn(&f);
    ASSERT_RC(UV_ECANCELED, done_status(&f, 'a'));
    ASSERT_RC(1, uvs_is_terminated(f.s));
    ASSERT_RC(UV_ENOENT, uvs_resume(f.s, id, 0));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L27 */
TEST a_task_that_is_paused_while_it_runs_is_cancelled_after_a_shutdown(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  f.options.periodic_after_shutdown = 1;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
  probe_of(&t)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_advance_ms(&f, 10);
  ASSERT_RC(UVS_PAUSED_WHILE_RUNNING, uvs_pause(f.s, id));
  ASSERT_RC(0, uvs_shutdown(f.s));
  fixture_turn(&f);
  ASSERT_RC(UV_ESHUTDOWN, uvs_pause(f.s, id));
  ASSERT_RC(0, uvs_finish(f.s, id, 0));
  fixture_turn(&f);
  ASSERT_RC(UV_ECANCELED, done_status(&f, 'a'));
  ASSERT_RC(1, uvs_is_terminated(f.s));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L24: it is handed back like any other task that never started. */
TEST an_immediate_shutdown_and_a_close_end_a_paused_task(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(fixture_open_turned_anew(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id));
  ASSERT_RC(0, uvs_shutdown_now(f.s, probe_never_ran, &f));
  fixture_turn(&f);
  ASSERT_U64(1, log_count(&f, EV_NEVER_RAN, 'a'));
  ASSERT_RC(UV_ECANCELED, done_status(&f, 'a'));
  CHECK_CALL(fixture_close(&f));
  CHECK_CALL(fixture_open_turned_anew(&f));
  t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id));
  CHECK_CALL(fixture_close(&f)); /* fails on a lost `done` */
  PASS();
}

/* L24: a lane counts its paused tasks, and ends them when it is disposed. */
TEST the_dispose_of_its_lane_ends_a_paused_task(void) {
  struct fixture f;
  uvs_lane_t lane;
  uvs_id_t id;

  CHECK_CALL(open_with_lane(&f, 1, 1, &lane));
  uvs_task_t t = in_lane(fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10)), lane);
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id));
  CHECK_CALL(submit(&f, lane, 'b', UVS_MS(5)));
  fixture_advance_ms(&f, 20);
  ASSERT_STR_EQ("b", log_string(&f, EV_WORK)); /* a paused task does not block its lane */
  ASSERT_RC(0, uvs_lane_dispose(lane, 0));
  fixture_turn(&f);
  ASSERT_RC(UV_ECANCELED, done_status(&f, 'a'));
  ASSERT_U64(1, log_count(&f, EV_USER, 'q'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

struct pause_call {
  uvs_t *s;
  uvs_id_t id;
};

static int do_pause(void *arg) {
  const struct pause_call *c = arg;

  return uvs_pause(c->s, c->id);
}

static int do_resume(void *arg) {
  const struct pause_call *c = arg;

  return uvs_resume(c->s, c->id, 0);
}

/* L24: a resumption on another thread wakes the loop. */
TEST another_thread_can_pause_and_resume(void) {
  struct fixture f;
  struct pause_call c;

  CHECK_CALL(fixture_open_turned_anew(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &t, &c.id));
  c.s = f.s;
  ASSERT_RC(UVS_PAUSED, elsewhere(do_pause, &c));
  fixture_advance_ms(&f, 20);
  ASSERT_U64(0, log_total(&f));
  ASSERT_RC(0, elsewhere(do_resume, &c));
  ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 1));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ------------------------------------------------------------------- calendar --- */

/* L25: every second, paused for three occurrences */
TEST the_occurrences_of_a_paused_calendar_task_are_missed_or_forgotten(void) {
  static const struct {
    int policy;
    unsigned flags;
    unsigned runs;
    uint64_t missed;
  } rows[] = {
      {UVS_MISSED_CATCH_UP, 0, 5, 0},
      {UVS_MISSED_ONCE, 0, 3, 2},
      {UVS_MISSED_SKIP, 0, 2, 3},
      {UVS_MISSED_CATCH_UP, UVS_RESUME_FORGET, 2, 0},
      {UVS_MISSED_ONCE, UVS_RESUME_FORGET, 2, 0},
      {UVS_MISSED_SKIP, UVS_RESUME_FORGET, 2, 0},
  };

  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct fixture f;
    uvs_id_t id;

    CHECK_CALL(fixture_open_turned_anew(&f));
    uvs_task_t t = fixture_every_second(&f, 'a');
    t.missed_policy = rows[i].policy;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    uvs_calendar_release(t.calendar);
    fixture_advance_ms(&f, 1500);
    ASSERT_U64(1, log_count(&f, EV_WORK, 'a'));
    ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id));
    fixture_advance_ms(&f, 3000);
    ASSERT_RC(0, uvs_resume(f.s, id, rows[i].flags));
    fixture_turn(&f);
    fixture_advance_ms(&f, 500);
    ASSERT_U64(rows[i].runs, log_count(&f, EV_WORK, 'a'));
    ASSERT_U64(rows[i].missed, counts_of(f.s).missed);
    ASSERT_I64(VCLOCK_WALL_NS + UVS_SEC(5), log_nth(&f, EV_WORK, 'a', rows[i].runs - 1)->ideal_ns);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L24: the moved run is not an occurrence of the calendar. */
TEST a_rescheduled_calendar_task_keeps_its_time_over_a_pause(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(fixture_open_turned_anew(&f));
  uvs_task_t t = fixture_every_second(&f, 'a');
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  uvs_calendar_release(t.calendar);
  fixture_turn(&f);
  ASSERT_RC(0, uvs_reschedule(f.s, id, UVS_MS(300)));
  ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id));
  fixture_advance_ms(&f, 100);
  ASSERT_RC(0, uvs_resume(f.s, id, 0));
  fixture_advance_ms(&f, 900);
  ASSERT_U64(2, log_count(&f, EV_WORK, 'a'));
  ASSERT_I64(VCLOCK_WALL_NS + UVS_MS(300), log_nth(&f, EV_WORK, 'a', 0)->ideal_ns);
  ASSERT_I64(VCLOCK_WALL_NS + UVS_MS(1000), log_nth(&f, EV_WORK, 'a', 1)->ideal_ns);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L25: the same for an occurrence at the instant of the resumption */
TEST an_occurrence_at_the_instant_of_the_resumption_is_not_forgotten(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(fixture_open_turned_anew(&f));
  uvs_task_t t = fixture_every_second(&f, 'a');
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  uvs_calendar_release(t.calendar);
  fixture_turn(&f);
  ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id));
  fixture_advance_ms(&f, 3000);
  ASSERT_RC(0, uvs_resume(f.s, id, UVS_RESUME_FORGET));
  fixture_turn(&f);
  ASSERT_U64(1, log_count(&f, EV_WORK, 'a'));
  ASSERT_I64(VCLOCK_WALL_NS + UVS_SEC(3), log_nth(&f, EV_WORK, 'a', 0)->ideal_ns);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(answers_and_states) {
  RUN_TEST(each_call_answers_for_each_kind_of_id);
  RUN_TEST(a_paused_one_shot_runs_when_it_is_resumed_and_not_before_it_is_due);
  RUN_TEST(a_ready_task_leaves_its_queue_when_it_is_paused);
  RUN_TEST(a_running_task_finishes_its_run_and_has_no_other_until_it_is_resumed);
  RUN_TEST(a_pending_task_is_paused_while_running);
  RUN_TEST(a_one_shot_that_is_paused_while_it_runs_ends);
  RUN_TEST(a_body_that_pauses_and_resumes_its_task_changes_nothing);
  RUN_TEST(a_task_that_is_owed_a_hook_can_be_paused);
  RUN_TEST(a_task_that_waits_for_a_retry_can_be_paused);
  RUN_TEST(a_task_that_its_submitter_would_run_can_be_paused);
  RUN_TEST(the_time_limit_of_a_ready_task_does_not_count_while_it_is_paused);
}

SUITE(missed_points) {
  RUN_TEST(points_that_pass_during_a_pause_are_missed_as_the_policy_says);
  RUN_TEST(a_point_that_is_due_when_the_task_is_resumed_is_not_forgotten);
  RUN_TEST(a_fixed_delay_continues_at_once_if_its_deadline_has_passed);
  RUN_TEST(a_task_that_forgets_all_points_up_to_its_end_time_ends);
  RUN_TEST(a_late_run_after_a_pause_names_the_pause_as_the_culprit);
  RUN_TEST(the_missed_hook_is_told_that_a_pause_was_the_reason);
  RUN_TEST(the_pause_of_the_task_and_of_the_scheduler_are_both_blamed_on_the_pause);
}

SUITE(other_calls) {
  RUN_TEST(a_paused_task_can_be_cancelled_completed_and_rescheduled);
  RUN_TEST(a_shutdown_cancels_a_paused_task);
  RUN_TEST(a_task_that_is_paused_while_it_runs_is_cancelled_after_a_shutdown);
  RUN_TEST(an_immediate_shutdown_and_a_close_end_a_paused_task);
  RUN_TEST(the_dispose_of_its_lane_ends_a_paused_task);
  RUN_TEST(another_thread_can_pause_and_resume);
  RUN_TEST(the_occurrences_of_a_paused_calendar_task_are_missed_or_forgotten);
  RUN_TEST(an_occurrence_at_the_instant_of_the_resumption_is_not_forgotten);
  RUN_TEST(a_rescheduled_calendar_task_keeps_its_time_over_a_pause);
}

TEST_MAIN(RUN_SUITE(answers_and_states); RUN_SUITE(missed_points); RUN_SUITE(other_calls));
