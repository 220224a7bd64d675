/* SPDX-License-Identifier: MIT
 *
 * The time limit of tasks that may go on after a time-out: retries, periodic tasks, each failure
 * policy. Such a run is only asked to stop. It fails, or is substituted, when its body has
 * returned. A run after which no other can follow settles the task at the limit.
 *
 * Bodies that return UVS_PENDING are in their run while the loop runs.
 */
#include "lib/inspect.h"
#include "lib/limited.h"

/* The task is in its run and passes its limit at this instant: is it settled, or only asked to
 * stop? Only the loop can raise the token here. */
static enum greatest_test_res passes_its_limit(struct fixture *f, uvs_id_t id, int how,
                                               bool settles) {
  uvs_counts_t c;
  uvs_outcome_t o;

  fixture_advance_ns(f, LIMIT_NS - 1);
  ASSERT_RC(UVS_RUNNING, state_of(f->s, id));
  ASSERT_RC(UV_ETIMEDOUT, peek(f->s, id, UVS_WAIT_SETTLED, &o));
  ASSERT_FALSE(inspect_token(f->s, id));
  ASSERT_U64(1, inspect_limits(f->s));
  fixture_advance_ns(f, 1);
  ASSERT(inspect_token(f->s, id));
  ASSERT_U64(0, inspect_limits(f->s));
  ASSERT_RC(UVS_RUNNING, state_of(f->s, id));
  ASSERT_RC(settles ? 0 : UV_ETIMEDOUT, peek(f->s, id, UVS_WAIT_SETTLED, &o));
  if (settles) {
    ASSERT_RC(late_status(how), o.status);
    ASSERT_EQ(late_result(how), o.result);
  }
  ASSERT_RC(UV_ETIMEDOUT, peek(f->s, id, 0, &o));
  c = counts_of(f->s);
  ASSERT(adds_up(&c));
  ASSERT_U64(settles, c.timed_out);
  ASSERT_U64(!settles, c.running);
  PASS();
}

static enum greatest_test_res is_over(struct fixture *f, uvs_id_t id, int status, void *result,
                                      bool timed_out, uint64_t runs) {
  uvs_counts_t c = counts_of(f->s);
  int64_t due_ns;
  uvs_outcome_t o;

  ASSERT_RC(0, peek(f->s, id, 0, &o));
  ASSERT_RC(status, o.status);
  ASSERT_EQ(result, o.result);
  ASSERT_U64(runs, o.runs);
  ASSERT_U64(1, log_count(f, EV_DONE, 'a'));
  ASSERT_RC(status, log_nth(f, EV_DONE, 'a', 0)->status);
  ASSERT(adds_up(&c));
  ASSERT_U64(timed_out, c.timed_out);
  ASSERT_U64(1, c.timed_out + c.completed + c.failed + c.cancelled);
  ASSERT_U64(runs, c.runs);
  ASSERT_U64(0, inspect_limits(f->s));
  ASSERT_RC(0, uvs_next_due(f->s, &due_ns));
  ASSERT_I64(UVS_NEVER, due_ns);
  PASS();
}

/* All n errors have this status. */
static enum greatest_test_res errors_are(struct fixture *f, unsigned n, int status) {
  ASSERT_U64(n, log_count(f, EV_ERROR, 'a'));
  for (unsigned i = 0; i < n; i++)
    ASSERT_RC(status, log_nth(f, EV_ERROR, 'a', i)->status);
  PASS();
}

/* ------------------------------------------------------------------------- retry --- */

static uvs_task_t retried(struct fixture *f, int how, uint32_t max_failures) {
  uvs_task_t t = limited(f, 'a', how);

  t.failure_policy = UVS_FAIL_RETRY;
  t.retry.wait_ns = UVS_MS(20);
  t.max_failures = max_failures;
  probe_of(&t)->ret = UVS_PENDING;
  return t;
}

/* J5 J6 F5 F6 V4 */
TEST each_retry_has_its_own_limit_and_the_last_time_out_settles_the_task(void) {
  for (int way = 0; way < 4; way++) {
    int how = way % 2 == 0 ? LATE_DEFAULT : LATE_FAILURE;
    bool after = way / 2 != 0;
    struct fixture f;
    uvs_id_t id;

    fixture_init(&f);
    f.options.concurrency = 1;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = retried(&f, how, 3);
    t.after = after ? probe_after : NULL;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_turn(&f);
    for (unsigned try = 1; try <= 3; try++) {
      ASSERT_U64(try, log_count(&f, EV_WORK, 'a'));
      ASSERT_U64(try - 1, look_at(f.s, id).info.failures);
      CHECK_CALL(passes_its_limit(&f, id, how, try == 3));
      fixture_advance_ms(&f, 5); /* the wait counts from when the body is through */
      ASSERT_RC(0, uvs_finish(f.s, id, 0));
      fixture_turn(&f);
      ASSERT_U64(after ? try : 0, log_count(&f, EV_AFTER, 'a'));
      if (after)
        ASSERT_RC(late_status(how), log_nth(&f, EV_AFTER, 'a', try - 1)->status);
      if (try < 3)
        fixture_advance_ms(&f, 20 << (try - 1));
    }
    ASSERT_STR_EQ("0 35 90", log_runs(&f, EV_WORK, 'a'));
    CHECK_CALL(errors_are(&f, after ? 0 : 2, late_status(how))); /* `done` sees the last */
    CHECK_CALL(is_over(&f, id, late_status(how), NULL, true, 3));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* J5 */
TEST a_run_that_times_out_before_its_start_is_retried(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = retried(&f, LATE_DEFAULT, 3);
  t.after = probe_after;
  probe_of(&t)->ret = 0;
  fakepool_hold();
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_advance_ns(&f, LIMIT_NS);
  ASSERT_RC(UVS_WAITING, state_of(f.s, id));
  ASSERT_U64(1, look_at(f.s, id).info.failures);
  ASSERT_I64(30, fixture_next_ms(&f));
  CHECK_CALL(errors_are(&f, 1, UV_ETIMEDOUT)); /* there was no `after` to see it */
  fixture_advance_ms(&f, 20);
  ASSERT_RC(UVS_READY, state_of(f.s, id));
  vclock_advance_ns(&f.clock, LIMIT_NS); /* the loop is held up: the runner notices */
  while (fakepool_step()) {
  }
  fixture_turn(&f);
  ASSERT_I64(80, fixture_next_ms(&f));
  CHECK_CALL(errors_are(&f, 2, UV_ETIMEDOUT));
  fakepool_release();
  fixture_advance_ms(&f, 40);
  ASSERT_STR_EQ("80", log_runs(&f, EV_WORK, 'a')); /* its first run */
  CHECK_CALL(is_over(&f, id, 0, PRESET, false, 1));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* J6: a success is not retried. */
TEST a_successful_substitute_ends_the_retries(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = retried(&f, LATE_VALUE, 0);
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_turn(&f);
  CHECK_CALL(passes_its_limit(&f, id, LATE_VALUE, true));
  ASSERT_RC(0, uvs_finish(f.s, id, UV_EIO)); /* would be retried */
  fixture_advance_ms(&f, 100);
  CHECK_CALL(errors_are(&f, 0, 0));
  CHECK_CALL(is_over(&f, id, 0, late_result(LATE_VALUE), true, 1));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* J7 */
TEST a_run_within_its_limit_keeps_its_own_status(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = retried(&f, LATE_DEFAULT, 2);
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_turn(&f);
  CHECK_CALL(passes_its_limit(&f, id, LATE_DEFAULT, false));
  ASSERT_RC(0, uvs_finish(f.s, id, 0));
  fixture_advance_ms(&f, 20);
  fixture_advance_ns(&f, LIMIT_NS - 1);
  ASSERT_RC(0, uvs_finish(f.s, id, UV_EIO)); /* failed, not timed out */
  fixture_turn(&f);
  CHECK_CALL(is_over(&f, id, UV_EIO, NULL, false, 2));
  ASSERT_U64(1, counts_of(f.s).failed);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ---------------------------------------------------------------------- periodic --- */

static uvs_task_t periodic(struct fixture *f, int kind, int how) {
  uvs_task_t t = fixture_rate(f, 'a', 0, UVS_MS(100));

  t.kind = kind;
  limit_to(&t, how);
  probe_of(&t)->ret = UVS_PENDING;
  return t;
}

/* J5 F5 */
TEST by_default_a_time_out_ends_a_periodic_task(void) {
  for (int way = 0; way < 4; way++) {
    int kind = way % 2 == 0 ? UVS_FIXED_RATE : UVS_FIXED_DELAY,
        how = way / 2 == 0 ? LATE_DEFAULT : LATE_FAILURE;
    struct fixture f;
    uvs_id_t id;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = periodic(&f, kind, how);
    probe_of(&t)->ret_from = 2;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_advance_ms(&f, 100);
    ASSERT_U64(2, log_count(&f, EV_WORK, 'a')); /* the first was in time */
    CHECK_CALL(passes_its_limit(&f, id, how, true));
    fixture_advance_ms(&f, 500);
    ASSERT_RC(0, uvs_finish(f.s, id, 0));
    fixture_advance_ms(&f, 500);
    CHECK_CALL(errors_are(&f, 0, 0));
    CHECK_CALL(is_over(&f, id, late_status(how), NULL, true, 2));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* V4 J6: the task goes on with a failure, or with a success in its place. The last run settles. */
TEST a_periodic_task_may_continue_after_a_time_out_and_the_last_one_settles_it(void) {
  enum { BY_RUNS, BY_FAILURES, WAYS };

  for (int way = 0; way < LATE_HOWS * 2 * WAYS; way++) {
    int how = way % LATE_HOWS, kind = way / LATE_HOWS % 2 == 0 ? UVS_FIXED_RATE : UVS_FIXED_DELAY;
    int end = way / LATE_HOWS / 2;
    bool fails = late_status(how) < 0;
    struct fixture f;
    uvs_id_t id;

    if (!fails && end == BY_FAILURES)
      continue;
    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = periodic(&f, kind, how);
    t.failure_policy = fails ? UVS_FAIL_CONTINUE : UVS_FAIL_STOP;
    t.max_runs = end == BY_RUNS ? 3 : 0;
    t.max_failures = end == BY_FAILURES ? 3 : 0;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_turn(&f);
    for (unsigned run = 1; run <= 3; run++) {
      ASSERT_U64(run, log_count(&f, EV_WORK, 'a'));
      ASSERT_U64(fails ? run - 1 : 0, look_at(f.s, id).info.failures);
      CHECK_CALL(passes_its_limit(&f, id, how, run == 3));
      fixture_advance_ms(&f, 5);
      ASSERT_RC(0, uvs_finish(f.s, id, run == 2 ? UVS_STOP : UV_EIO)); /* not heard */
      fixture_turn(&f);
      if (run < 3)
        fixture_advance_ms(&f, kind == UVS_FIXED_RATE ? 85 : 100);
    }
    ASSERT_STR_EQ(kind == UVS_FIXED_RATE ? "0 100 200" : "0 115 230", log_runs(&f, EV_WORK, 'a'));
    CHECK_CALL(errors_are(&f, fails ? 2 : 0, late_status(how)));
    CHECK_CALL(is_over(&f, id, late_status(how), late_result(how), true, 3));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static int stop_at_2(struct probe *p, uvs_run_t *run) {
  if (run->number == 1)
    vclock_advance_ns(&p->f->clock, LIMIT_NS);
  return run->number == 2 ? UVS_STOP : 0;
}

/* J7 S9: the substitute result belongs to the run that timed out. */
TEST a_timely_run_does_not_return_the_substitute_of_an_earlier_one(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = periodic(&f, UVS_FIXED_RATE, LATE_VALUE);
  probe_of(&t)->act = stop_at_2;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_advance_ms(&f, 100);
  CHECK_CALL(is_over(&f, id, 0, PRESET, false, 2));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* V4: a success, even one that replaces a time-out, resets the count of consecutive failures. */
TEST a_timely_run_resets_the_count_of_consecutive_time_outs(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = periodic(&f, UVS_FIXED_RATE, LATE_DEFAULT);
  t.failure_policy = UVS_FAIL_CONTINUE;
  t.max_failures = 2;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  for (int i = 0; i < 5; i++) {
    fixture_turn(&f);
    CHECK_CALL(passes_its_limit(&f, id, LATE_DEFAULT, false));
    ASSERT_RC(0, uvs_finish(f.s, id, 0));
    fixture_advance_ms(&f, 90);
    ASSERT_U64(1, look_at(f.s, id).info.failures);
    ASSERT_RC(0, uvs_finish(f.s, id, 0)); /* in time */
    fixture_turn(&f);
    ASSERT_U64(0, look_at(f.s, id).info.failures);
    fixture_advance_ms(&f, 100);
  }
  ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, uvs_cancel(f.s, id, 0));
  ASSERT_RC(0, uvs_finish(f.s, id, 0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ----------------------------------------------------------------- missed points --- */

/* V3 S66: a run that did not start in time is dropped, and the grid continues as after any other
 * run. */
TEST after_a_run_that_did_not_start_the_grid_continues(void) {
  static const char *const runs[] = {"40(20) 40(30) 40 50", "40(20+2) 50", "40(40+2) 50"};
  static const uint64_t missed[] = {0, 2, 2};

  for (int policy = UVS_MISSED_CATCH_UP; policy <= UVS_MISSED_SKIP; policy++) {
    for (int how = 0; how < LATE_HOWS; how++) {
      struct fixture f;
      uvs_id_t id;

      fixture_init(&f);
      f.options.concurrency = 1;
      CHECK_CALL(fixture_open_turned(&f));
      uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
      limit_to(&t, how);
      t.limit.total_ns = UVS_MS(25);
      t.missed_policy = policy;
      t.failure_policy = UVS_FAIL_CONTINUE;
      ASSERT_RC(0, uvs_submit(f.s, &t, &id));
      fakepool_hold();
      fixture_advance_ms(&f, 35); /* the run of 10 ms is late, and not started */
      ASSERT_U64(0, counts_of(f.s).runs);
      fixture_advance_ms(&f, 5);
      fakepool_release();
      fixture_advance_ms(&f, 10);
      ASSERT_STR_EQ(runs[policy], log_runs(&f, EV_WORK, 'a'));
      ASSERT_U64(missed[policy], look_at(f.s, id).info.missed);
      ASSERT_U64(missed[policy], counts_of(f.s).missed);
      CHECK_CALL(errors_are(&f, late_status(how) < 0, late_status(how)));
      ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, 0));
      CHECK_CALL(fixture_close(&f));
    }
  }
  PASS();
}

static void on_missed(uvs_t *s, uvs_id_t id, uint64_t count, int reason, void *arg) {
  struct probe *p = arg;

  (void)s;
  log_add(p->f, EV_USER, p->tag, id, (int)count * 100 + reason);
}

/* V3: the missed points that a run which did not start would have reported go to the next run. */
TEST missed_points_of_a_run_that_did_not_start_are_reported_to_the_next(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  f.hooks.on_missed = on_missed;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
  limit_to(&t, LATE_DEFAULT);
  t.limit.total_ns = UVS_MS(25);
  t.missed_policy = UVS_MISSED_SKIP;
  t.failure_policy = UVS_FAIL_CONTINUE;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fakepool_hold();
  fixture_advance_ms(&f, 40); /* 10 is late at 35, next is 40: two missed */
  ASSERT_U64(2, look_at(f.s, id).info.missed);
  fixture_advance_ms(&f, 30); /* 40 is late at 65, next is 70 */
  fakepool_release();
  fixture_turn(&f);
  ASSERT_STR_EQ("70(70+4)", log_runs(&f, EV_WORK, 'a'));
  ASSERT_U64(4, look_at(f.s, id).info.missed);
  ASSERT_U64(2, log_count(&f, EV_USER, 'a'));
  for (unsigned i = 0; i < 2; i++)
    ASSERT_RC(200 + UVS_LATE_OVERLAP, log_nth(&f, EV_USER, 'a', i)->status);
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, 0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* J5 V3: the clock decides whether the limit passed first or the point of the grid was skipped
 * first. */
TEST a_late_runner_decides_the_same_as_the_loop(void) {
  static const int limit_ms[] = {5, 14, 15, 16, 20};

  for (int i = 0; i < 5; i++) {
    bool late = limit_ms[i] <= 15;
    struct fixture f;
    uvs_id_t id;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
    limit_to(&t, LATE_DEFAULT);
    t.limit.total_ns = UVS_MS(limit_ms[i]);
    t.missed_policy = UVS_MISSED_SKIP;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fakepool_hold();
    fixture_advance_ms(&f, 10);
    vclock_advance_ns(&f.clock, UVS_MS(15)); /* a period and a half late, and the loop held up */
    ASSERT(fakepool_step());
    fixture_turn(&f);
    fakepool_release();
    fixture_advance_ms(&f, 5);
    ASSERT_STR_EQ(late ? "" : "30(30+2)", log_runs(&f, EV_WORK, 'a'));
    ASSERT_U64(late, log_count(&f, EV_DONE, 'a'));
    if (late)
      CHECK_CALL(is_over(&f, id, UV_ETIMEDOUT, NULL, true, 0));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* ------------------------------------------------------------------------ others --- */

static void log_before(uvs_run_t *run) {
  log_add(uvs_data(run->scheduler), EV_USER, '(', run->id, 0);
}

static void log_after(uvs_run_t *run, int status) {
  log_add(uvs_data(run->scheduler), EV_USER, ')', run->id, status);
}

/* P7: the hooks are called around each body, not for a run without a start. They get the body's
 * status. */
TEST hooks_around_the_body_get_the_bodys_status_and_not_the_time_out(void) {
  struct fixture f;

  fixture_init(&f);
  f.hooks.before_body = log_before;
  f.hooks.after_body = log_after;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t a = limited(&f, 'a', LATE_FAILURE);
  uvs_task_t b = limited(&f, 'b', LATE_FAILURE);
  probe_of(&a)->takes_ns = LIMIT_NS;
  probe_of(&a)->ret = UVS_STOP;
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  fixture_turn(&f);
  fakepool_hold();
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  fixture_advance_ns(&f, LIMIT_NS);
  fakepool_release();
  fixture_turn(&f);
  ASSERT_STR_EQ("()", log_string(&f, EV_USER));
  ASSERT_RC(UVS_STOP, log_nth(&f, EV_USER, ')', 0)->status);
  ASSERT_STR_EQ("ab", log_string(&f, EV_DONE));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S70 S71: the due time is on the wall clock, the limit is a duration. */
TEST the_limit_of_a_wall_clock_task_is_not_affected_by_the_wall_clock(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = limited(&f, 'a', LATE_DEFAULT);
  t.from = UVS_FROM_WALL;
  t.first_ns = VCLOCK_WALL_NS + UVS_MS(50);
  probe_of(&t)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_advance_ms(&f, 50);
  vclock_step_wall(&f.clock, UVS_HOUR(1));
  uvs_clock_changed(f.s);
  fixture_turn(&f);
  CHECK_CALL(passes_its_limit(&f, id, LATE_DEFAULT, true));
  ASSERT_RC(0, uvs_finish(f.s, id, 0));
  fixture_turn(&f);
  CHECK_CALL(is_over(&f, id, UV_ETIMEDOUT, NULL, true, 1));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S39 J1 F5: the run finishes and none follows. A task that its limit settled stays settled. */
TEST after_shutdown_a_timed_out_run_ends_as_the_policies_say(void) {
  for (int way = 0; way < 4; way++) {
    bool go_on = way % 2 != 0, survives = way / 2 != 0;
    struct fixture f;
    uvs_id_t id;

    fixture_init(&f);
    f.options.periodic_after_shutdown = survives;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = periodic(&f, UVS_FIXED_RATE, LATE_DEFAULT);
    t.failure_policy = go_on ? UVS_FAIL_CONTINUE : UVS_FAIL_STOP;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_turn(&f);
    ASSERT_RC(0, uvs_shutdown(f.s));
    CHECK_CALL(passes_its_limit(&f, id, LATE_DEFAULT, !go_on));
    ASSERT_RC(0, uvs_is_terminated(f.s));
    ASSERT_RC(0, uvs_finish(f.s, id, 0));
    fixture_turn(&f);
    if (go_on && survives) {
      fixture_advance_ms(&f, 90);
      CHECK_CALL(passes_its_limit(&f, id, LATE_DEFAULT, false));
      ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, uvs_cancel(f.s, id, 0));
      ASSERT_RC(0, uvs_finish(f.s, id, 0));
      fixture_turn(&f);
    }
    ASSERT_RC(1, uvs_is_terminated(f.s));
    CHECK_CALL(is_over(&f, id, go_on ? UV_ECANCELED : UV_ETIMEDOUT, NULL, !go_on,
                       go_on && survives ? 2 : 1));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S38 J5: a ready task runs, but not after its limit. */
TEST after_shutdown_a_ready_task_still_has_its_limit(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  f.options.delayed_after_shutdown = 0;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = limited(&f, 'a', LATE_VALUE);
  fakepool_hold();
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_turn(&f);
  ASSERT_RC(0, uvs_shutdown(f.s));
  fixture_advance_ns(&f, LIMIT_NS);
  CHECK_CALL(is_over(&f, id, 0, late_result(LATE_VALUE), true, 0));
  fakepool_release();
  fixture_turn(&f);
  ASSERT_RC(1, uvs_is_terminated(f.s));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(limit_runs) {
  RUN_TEST(each_retry_has_its_own_limit_and_the_last_time_out_settles_the_task);
  RUN_TEST(a_run_that_times_out_before_its_start_is_retried);
  RUN_TEST(a_successful_substitute_ends_the_retries);
  RUN_TEST(a_run_within_its_limit_keeps_its_own_status);
  RUN_TEST(by_default_a_time_out_ends_a_periodic_task);
  RUN_TEST(a_periodic_task_may_continue_after_a_time_out_and_the_last_one_settles_it);
  RUN_TEST(a_timely_run_does_not_return_the_substitute_of_an_earlier_one);
  RUN_TEST(a_timely_run_resets_the_count_of_consecutive_time_outs);
  RUN_TEST(after_a_run_that_did_not_start_the_grid_continues);
  RUN_TEST(missed_points_of_a_run_that_did_not_start_are_reported_to_the_next);
  RUN_TEST(a_late_runner_decides_the_same_as_the_loop);
  RUN_TEST(hooks_around_the_body_get_the_bodys_status_and_not_the_time_out);
  RUN_TEST(the_limit_of_a_wall_clock_task_is_not_affected_by_the_wall_clock);
  RUN_TEST(after_shutdown_a_timed_out_run_ends_as_the_policies_say);
  RUN_TEST(after_shutdown_a_ready_task_still_has_its_limit);
}

TEST_MAIN(RUN_SUITE(limit_runs));
