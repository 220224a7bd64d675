/* SPDX-License-Identifier: MIT
 *
 * The time limit of a run, for one-shots: which runs are in time, which time out, who notices, and
 * what waiters, `after`, `done`, the error hook and the counts get. Later calls change nothing.
 * Tasks that go on after a time-out are in test_limit_runs.c.
 *
 * The pool is stepped: while a body runs, the loop waits, so the runner notices the time-out. A
 * body that returns UVS_PENDING is in its run while the loop runs. Real threads are in
 * test_limit_real.c.
 */
#include "lib/bodies.h"
#include "lib/inspect.h"
#include "lib/limited.h"
#include "lib/threads.h"

/* Submits t, which is then ready. With `held`, no runner takes it. */
static enum greatest_test_res make_ready(struct fixture *f, const uvs_task_t *t, bool held,
                                         uvs_id_t *id) {
  if (held)
    fakepool_hold();
  ASSERT_RC(0, uvs_submit(f->s, t, id));
  fixture_turn(f);
  PASS();
}

/* The only task has ended, timed out or as a success, according to every call that reports it. */
static enum greatest_test_res is_over(struct fixture *f, uvs_id_t id, int how, bool late,
                                      uint64_t runs, void *in_time) {
  int status = late ? late_status(how) : 0;
  uvs_counts_t c = counts_of(f->s);
  int64_t due_ns;
  uvs_outcome_t o;

  for (unsigned flags = 0; flags <= UVS_WAIT_SETTLED; flags++) {
    ASSERT_RC(0, peek(f->s, id, flags, &o));
    ASSERT_RC(UVS_ENDED, o.state);
    ASSERT_RC(status, o.status);
    ASSERT_EQ(late ? late_result(how) : in_time, o.result);
    ASSERT_U64(runs, o.runs);
  }
  ASSERT_U64(1, log_count(f, EV_DONE, 'a'));
  ASSERT_RC(status, log_nth(f, EV_DONE, 'a', 0)->status);
  ASSERT_U64(0, log_count(f, EV_ERROR, 0)); /* `done` has seen it */
  ASSERT(adds_up(&c));
  ASSERT_U64(late, c.timed_out);
  ASSERT_U64(!late, c.completed);
  ASSERT_U64(runs, c.runs);
  ASSERT_U64(runs, log_count(f, EV_WORK, 'a'));
  ASSERT_U64(0, c.failed + c.cancelled + c.waiting + c.ready + c.running + c.runners);
  ASSERT_U64(0, inspect_limits(f->s));
  ASSERT_RC(0, uvs_next_due(f->s, &due_ns));
  ASSERT_I64(UVS_NEVER, due_ns);
  ASSERT_RC(UV_ENOENT, uvs_cancel(f->s, id, UVS_CANCEL_TOKEN));
  ASSERT_RC(UV_ENOENT, uvs_finish(f->s, id, 0));
  ASSERT_RC(0, uvs_forget(f->s, id));
  ASSERT_RC(UV_ENOENT, peek(f->s, id, 0, &o));
  PASS();
}

/* ---------------------------------------------------------------- in time, late --- */

static int give(struct probe *p, uvs_run_t *run) {
  uvs_set_result(run, &limit_value[3]);
  return p->ret;
}

static int after_contradicts(uvs_run_t *run) {
  struct probe *p = run->arg;

  log_run(p->f, EV_AFTER, p->tag, run);
  if (run->status == 0)
    uvs_set_result(run, &limit_value[2]);
  return p->after_ret;
}

/* J5 J6 J7 F5 F6 */
TEST a_run_that_ends_before_its_limit_succeeds_and_at_the_limit_times_out(void) {
  for (int way = 0; way < 3 * 3 * 2 * 2; way++) {
    int late = way % 3 - 1, how = way / 3 % 3, concurrency = way / 9 % 2, after = way / 18;
    struct fixture f;
    uvs_id_t id;

    fixture_init(&f);
    f.options.concurrency = concurrency;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = limited(&f, 'a', how);
    t.first_ns = UVS_MS(5);
    t.after = after ? probe_after : NULL;
    probe_of(&t)->act = give;
    probe_of(&t)->ret = late >= 0 ? UV_EIO : 0; /* a late body's own failure is not heard */
    probe_of(&t)->takes_ns = LIMIT_NS + late;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_advance_ms(&f, 5);
    ASSERT_U64(after, log_count(&f, EV_AFTER, 'a'));
    if (after)
      ASSERT_RC(late >= 0 ? late_status(how) : 0, log_nth(&f, EV_AFTER, 'a', 0)->status);
    CHECK_CALL(is_over(&f, id, how, late >= 0, 1, &limit_value[3]));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* F5 */
TEST the_answer_and_result_of_after_do_not_change_a_timed_out_run(void) {
  static const int answers[] = {0, UV_EIO, UVS_STOP, 77};

  for (int way = 0; way < 4 * LATE_HOWS * 2; way++) {
    int how = way / 4 % LATE_HOWS;
    bool pending = way / 12 != 0; /* then it is the loop that finds it late */
    struct fixture f;
    uvs_id_t id;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = limited(&f, 'a', how);
    t.after = after_contradicts;
    probe_of(&t)->takes_ns = pending ? 0 : LIMIT_NS;
    probe_of(&t)->ret = pending ? UVS_PENDING : 0;
    probe_of(&t)->after_ret = answers[way % 4];
    CHECK_CALL(make_ready(&f, &t, false, &id));
    if (pending) {
      fixture_advance_ns(&f, LIMIT_NS);
      ASSERT_U64(0, log_count(&f, EV_AFTER, 'a'));
      ASSERT_RC(0, uvs_finish(f.s, id, UV_EIO));
      fixture_turn(&f);
    }
    ASSERT_U64(1, log_count(&f, EV_AFTER, 'a'));
    ASSERT_RC(late_status(how), log_nth(&f, EV_AFTER, 'a', 0)->status);
    CHECK_CALL(is_over(&f, id, how, true, 1, NULL));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* J7: the limit applies to the body. */
TEST time_spent_waiting_for_after_does_not_count_against_the_limit(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = limited(&f, 'a', LATE_DEFAULT);
  t.after = probe_after;
  CHECK_CALL(make_ready(&f, &t, true, &id));
  ASSERT(fakepool_step()); /* the body has run, and the loop does not know it yet */
  vclock_advance_ns(&f.clock, 2 * LIMIT_NS);
  ASSERT_RC(UV_ENOENT, uvs_finish(f.s, id, UV_EIO));
  fakepool_release();
  fixture_turn(&f);
  ASSERT_RC(0, log_nth(&f, EV_AFTER, 'a', 0)->status);
  CHECK_CALL(is_over(&f, id, LATE_DEFAULT, false, 1, PRESET));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ------------------------------------------------------------------ from READY on --- */

/* J5 J6 F5 */
TEST waiting_for_a_runner_counts_and_a_task_past_its_limit_never_starts(void) {
  for (int way = 0; way < LATE_HOWS * 2 * 2; way++) {
    int how = way % LATE_HOWS;
    bool moved = way / LATE_HOWS % 2 != 0, on_loop = way / LATE_HOWS / 2 != 0;
    struct fixture f;
    uvs_outcome_t o;
    uvs_id_t id;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = limited(&f, 'a', how);
    t.after = probe_after;
    t.first_ns = UVS_MS(moved ? 5 : 100);
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    if (moved)
      ASSERT_RC(0, uvs_reschedule(f.s, id, UVS_MS(100)));
    fakepool_hold();
    fixture_advance_ms(&f, 100);
    ASSERT_I64(100 + LIMIT_MS, fixture_next_ms(&f)); /* it is ready, and its limit is next */
    if (on_loop)
      ASSERT_RC(0, uvs_set_concurrency(f.s, 0)); /* the list is the loop's then; the body too */
    else
      fixture_advance_ns(&f, LIMIT_NS - 1);
    ASSERT_RC(UVS_READY, state_of(f.s, id));
    ASSERT_RC(UV_ETIMEDOUT, peek(f.s, id, UVS_WAIT_SETTLED, &o));
    vclock_advance_ns(&f.clock, on_loop ? LIMIT_NS : 1);
    uvs_clock_changed(f.s);
    fixture_turn(&f);
    ASSERT_I64(100 + LIMIT_MS, fixture_now_ms(&f));
    ASSERT_RC(0, peek(f.s, id, 0, &o));
    ASSERT_I64(100, fixture_ms(&f, o.ideal_ns));
    ASSERT_I64(0, o.start_ns + o.end_ns); /* it never started */
    fakepool_release();
    fixture_advance_ms(&f, 100);
    ASSERT_U64(0, log_count(&f, EV_AFTER, 'a'));
    CHECK_CALL(is_over(&f, id, how, true, 0, NULL));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* J7: lateness of the loop is not counted against the task. */
TEST a_busy_loop_at_the_due_time_does_not_shorten_the_limit(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = limited(&f, 'a', LATE_DEFAULT);
  t.first_ns = UVS_MS(5);
  probe_of(&t)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_jump_ms(&f, 100);
  ASSERT_I64(100 + LIMIT_MS, fixture_next_ms(&f));
  fixture_advance_ns(&f, LIMIT_NS - 1);
  ASSERT_RC(0, uvs_finish(f.s, id, 0));
  fixture_turn(&f);
  CHECK_CALL(is_over(&f, id, LATE_DEFAULT, false, 1, PRESET));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* J5 J7 */
TEST a_runner_does_not_start_a_timed_out_task_even_if_the_loop_is_busy(void) {
  for (int late = -1; late <= 1; late++) {
    struct fixture f;
    uvs_id_t id;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = limited(&f, 'a', LATE_DEFAULT);
    t.after = probe_after;
    CHECK_CALL(make_ready(&f, &t, true, &id));
    vclock_advance_ns(&f.clock, LIMIT_NS + late);
    ASSERT(fakepool_step());
    ASSERT_U64(late < 0, log_count(&f, EV_WORK, 'a'));
    fakepool_release();
    fixture_turn(&f);
    ASSERT_U64(late < 0, log_count(&f, EV_AFTER, 'a'));
    CHECK_CALL(is_over(&f, id, LATE_DEFAULT, late >= 0, late < 0, PRESET));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static struct late_reader {
  struct vclock *clock;
  int64_t add_ns; /* the next look at the clock off the loop takes so long, after it was read */
  uv_thread_t loop;
} slow;

static int64_t slow_monotonic(void *arg) {
  int64_t now_ns = vclock_now(arg);
  uv_thread_t self = uv_thread_self();

  if (slow.add_ns != 0 && !uv_thread_equal(&self, &slow.loop)) {
    vclock_advance_ns(arg, slow.add_ns);
    slow.add_ns = 0;
  }
  return now_ns;
}

/* J5: the runner may have read its clock before it took the task. */
TEST a_runner_with_an_outdated_clock_reading_starts_no_timed_out_task(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  f.options.clock.monotonic_ns = slow_monotonic;
  CHECK_CALL(fixture_open_turned(&f));
  slow.loop = f.loop_thread;
  uvs_task_t t = limited(&f, 'a', LATE_DEFAULT);
  CHECK_CALL(make_ready(&f, &t, true, &id));
  slow.add_ns = LIMIT_NS;
  ASSERT(fakepool_step());
  fakepool_release();
  fixture_turn(&f);
  CHECK_CALL(is_over(&f, id, LATE_DEFAULT, true, 0, NULL));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ---------------------------------------------------------------- pending, finish --- */

struct finish {
  uvs_t *s;
  uvs_id_t id;
  int status;
};

static int do_finish(void *arg) {
  struct finish *x = arg;

  return uvs_finish(x->s, x->id, x->status);
}

/* The task is settled and still in its run: which calls work, and which are refused. */
static enum greatest_test_res is_late(struct fixture *f, uvs_id_t id, int how) {
  uvs_counts_t c = counts_of(f->s);
  struct look l = look_at(f->s, id);
  uvs_outcome_t o;

  ASSERT_RC(UV_ETIMEDOUT, peek(f->s, id, 0, &o));
  ASSERT_RC(0, peek(f->s, id, UVS_WAIT_SETTLED, &o));
  ASSERT_RC(UVS_RUNNING, o.state);
  ASSERT_RC(late_status(how), o.status);
  ASSERT_EQ(late_result(how), o.result);
  ASSERT_U64(1, o.runs);
  ASSERT_I64(0, o.ideal_ns + o.start_ns + o.end_ns);
  ASSERT(adds_up(&c));
  ASSERT_U64(1, c.timed_out);
  ASSERT_U64(0, c.running + c.completed + c.failed + c.cancelled);
  ASSERT_RC(0, l.rc);
  ASSERT_RC(UVS_RUNNING, l.info.state);
  ASSERT_RC(0, l.info.cancelled);
  ASSERT_RC(UV_ENOENT, uvs_cancel(f->s, id, 0));
  ASSERT_RC(UV_ENOENT, uvs_cancel(f->s, id, UVS_CANCEL_TOKEN));
  ASSERT_RC(UV_ENOENT, uvs_cancel(f->s, id, UVS_CANCEL_IF_WAITING));
  ASSERT_RC(UV_ENOENT, cancel_elsewhere(f->s, id));
  ASSERT_RC(UV_EBUSY, uvs_reschedule(f->s, id, 0));
  ASSERT_U64(0, log_count(f, EV_DONE, 'a'));
  ASSERT_U64(0, inspect_limits(f->s));
  PASS();
}

/* L14 F5 F6 J7 */
TEST a_pending_run_times_out_by_the_clock_and_ends_when_finished(void) {
  for (int way = 0; way < 3 * LATE_HOWS * 2 * 2 * 2 * 2; way++) {
    int late = way % 3 - 1, how = way / 3 % LATE_HOWS;
    bool after = way / 9 % 2 != 0, off_loop = way / 18 % 2 != 0;
    bool loop_sees = way / 36 % 2 != 0,
         early = way / 72 != 0; /* finished before the body returns */
    struct finish x;
    struct fixture f;

    if (early && loop_sees)
      continue; /* the body, and so the run, ends at once */
    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = limited(&f, 'a', how);
    t.after = after ? probe_after : NULL;
    probe_of(&t)->ret = UVS_PENDING;
    if (early)
      probe_of(&t)->takes_ns = LIMIT_NS + late;
    x = (struct finish){f.s, 0, late < 0 ? 0 : UV_EIO};
    CHECK_CALL(make_ready(&f, &t, false, &x.id));
    ASSERT_RC(UVS_RUNNING, state_of(f.s, x.id));
    if (loop_sees) {
      fixture_advance_ns(&f, LIMIT_NS + late);
      if (late >= 0)
        CHECK_CALL(is_late(&f, x.id, how));
    } else if (!early) {
      vclock_advance_ns(&f.clock, LIMIT_NS + late); /* the loop is held up */
    }
    ASSERT_RC(0, off_loop ? elsewhere(do_finish, &x) : do_finish(&x));
    ASSERT_RC(UV_ENOENT, do_finish(&x));
    fixture_turn(&f);
    ASSERT_U64(after, log_count(&f, EV_AFTER, 'a'));
    if (after)
      ASSERT_RC(late >= 0 ? late_status(how) : 0, log_nth(&f, EV_AFTER, 'a', 0)->status);
    CHECK_CALL(is_over(&f, x.id, how, late >= 0, 1, PRESET));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static int finish_myself(struct probe *p, uvs_run_t *run) {
  p->id = (uvs_id_t)uvs_finish(run->scheduler, run->id, UV_EIO);
  vclock_advance_ns(&p->f->clock, LIMIT_NS);
  return UVS_PENDING;
}

/* L14: the run ends when both have happened, the return of the body and the finish. */
TEST a_timely_finish_does_not_help_a_body_that_exceeds_its_limit(void) {
  for (int after = 0; after < 2; after++) {
    struct fixture f;
    uvs_id_t id;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = limited(&f, 'a', LATE_VALUE);
    t.after = after ? probe_after : NULL;
    probe_of(&t)->act = finish_myself;
    CHECK_CALL(make_ready(&f, &t, false, &id));
    ASSERT_U64(0, probe_of(&t)->id);
    CHECK_CALL(is_over(&f, id, LATE_VALUE, true, 1, NULL));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* ------------------------------------------------------------------ who is told --- */

/* V4 R26: `done` or `after` gets the time-out, otherwise the hook. */
TEST the_error_hook_gets_a_time_out_only_if_no_other_callback_does(void) {
  for (int way = 0; way < LATE_HOWS * 2 * 2 * 3; way++) {
    int how = way % LATE_HOWS,
        noticed = way / LATE_HOWS / 4; /* before it starts, by the body, by the loop */
    bool done = way / LATE_HOWS % 2 != 0, after = way / LATE_HOWS / 2 % 2 != 0;
    bool unseen = !done && (!after || noticed == 0) && late_status(how) < 0;
    struct fixture f;
    uvs_id_t id;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = limited(&f, 'a', how);
    t.done = done ? probe_done : NULL;
    t.after = after ? probe_after : NULL;
    probe_of(&t)->takes_ns = noticed == 1 ? LIMIT_NS : 0;
    probe_of(&t)->ret = noticed == 2 ? UVS_PENDING : 0;
    CHECK_CALL(make_ready(&f, &t, noticed == 0, &id));
    fixture_advance_ns(&f, LIMIT_NS);
    if (noticed == 0)
      fakepool_release();
    if (noticed == 2) {
      ASSERT_U64(unseen, log_count(&f, EV_ERROR, 0)); /* at once; the others not yet */
      ASSERT_U64(0, log_count(&f, EV_DONE, 0) + log_count(&f, EV_AFTER, 0));
      ASSERT_RC(0, uvs_finish(f.s, id, 0));
    }
    fixture_turn(&f);
    ASSERT_U64(unseen, log_count(&f, EV_ERROR, 'a'));
    if (unseen)
      ASSERT_RC(late_status(how), log_nth(&f, EV_ERROR, 'a', 0)->status);
    ASSERT_U64(done, log_count(&f, EV_DONE, 'a'));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* Runs until it is asked to stop, or for ten limits. Records when it was asked. */
static int until_asked(struct probe *p, uvs_run_t *run) {
  for (int ms = 0; ms < 10 * LIMIT_MS && !uvs_cancelled(run); ms++)
    vclock_advance_ns(&p->f->clock, UVS_MS(1));
  log_add(p->f, EV_USER, p->tag, run->id, uvs_cancelled(run));
  return 0;
}

static int after_looks(uvs_run_t *run) {
  struct probe *p = run->arg;

  log_add(p->f, EV_AFTER, p->tag, run->id, uvs_cancelled(run));
  return 0;
}

/* J5 F9: also where the loop cannot raise the token, because it is busy or runs the body itself. */
TEST a_body_is_asked_to_stop_at_its_limit_without_the_loop(void) {
  for (int concurrency = 0; concurrency < 2; concurrency++) {
    struct fixture f;
    uvs_id_t id;

    fixture_init(&f);
    f.options.concurrency = concurrency;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = limited(&f, 'a', LATE_DEFAULT);
    probe_of(&t)->act = until_asked;
    CHECK_CALL(make_ready(&f, &t, false, &id));
    ASSERT_RC(1, log_nth(&f, EV_USER, 'a', 0)->status);
    ASSERT_I64(LIMIT_MS, fixture_ms(&f, log_nth(&f, EV_USER, 'a', 0)->time_ns));
    CHECK_CALL(is_over(&f, id, LATE_DEFAULT, true, 1, NULL));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* J7 */
TEST an_after_that_is_called_after_the_limit_is_not_asked_to_stop(void) {
  for (int late = 0; late < 2; late++) {
    struct fixture f;
    uvs_id_t id;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = limited(&f, 'a', LATE_DEFAULT);
    t.after = after_looks;
    probe_of(&t)->takes_ns = late ? LIMIT_NS : 0;
    CHECK_CALL(make_ready(&f, &t, true, &id));
    ASSERT(fakepool_step());
    vclock_advance_ns(&f.clock, LIMIT_NS);
    fakepool_release();
    fixture_turn(&f);
    ASSERT_RC(0, log_nth(&f, EV_AFTER, 'a', 0)->status);
    CHECK_CALL(is_over(&f, id, LATE_DEFAULT, late != 0, 1, PRESET));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S63 */
TEST limits_that_pass_together_are_reported_in_the_order_of_submission(void) {
  struct fixture f;
  uvs_id_t id[3];

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  fakepool_hold();
  for (int i = 0; i < 3; i++)
    ASSERT_RC(0, uvs_schedule(f.s, UVS_HOUR(1), probe_work, NULL, &id[i]));
  for (int i = 0; i < 3; i++) { /* the slot just freed is taken: so from the highest down */
    uvs_task_t t = limited(&f, 'a' + i, LATE_DEFAULT);
    ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id[2 - i], 0));
    ASSERT_RC(0, uvs_submit(f.s, &t, &id[2 - i]));
  }
  ASSERT(inspect_slot_of(id[2]) > inspect_slot_of(id[1]) &&
         inspect_slot_of(id[1]) > inspect_slot_of(id[0])); /* by slot it would be "cba" */
  fixture_advance_ns(&f, LIMIT_NS);
  ASSERT_STR_EQ("abc", log_string(&f, EV_DONE));
  fakepool_release();
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ------------------------------------------------------------------------ cancel --- */

/* F7 F9 F12: the cancel came before the limit, so it decides the outcome. */
TEST a_cancel_before_the_limit_is_not_replaced_by_a_time_out(void) {
  enum { WAITING, READY, PENDING, STATES };

  for (int way = 0; way < STATES * 2 * 2; way++) {
    int state = way % STATES;
    unsigned flags = way / STATES % 2 != 0 ? UVS_CANCEL_TOKEN : 0;
    bool off_loop = way / STATES / 2 != 0;
    uvs_outcome_t o;
    struct fixture f;
    uvs_counts_t c;
    uvs_id_t id;
    int rc;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = limited(&f, 'a', LATE_VALUE);
    t.first_ns = state == WAITING ? UVS_MS(5) : 0;
    probe_of(&t)->ret = state == PENDING ? UVS_PENDING : 0;
    CHECK_CALL(make_ready(&f, &t, state == READY, &id));
    fixture_advance_ns(&f, state == WAITING ? 0 : LIMIT_NS - 1);
    rc = off_loop ? cancel_elsewhere(f.s, id) : uvs_cancel(f.s, id, flags);
    ASSERT_RC(state == PENDING ? UVS_CANCELLED_WHILE_RUNNING : UVS_CANCELLED, rc);
    fixture_advance_ns(&f, 3 * LIMIT_NS);
    if (state == READY)
      fakepool_release();
    if (state == PENDING) {
      ASSERT_U64(0, log_count(&f, EV_DONE, 'a'));
      ASSERT_RC(UVS_CANCELLED_BEFORE, uvs_cancel(f.s, id, flags));
      ASSERT_RC(0, uvs_finish(f.s, id, 0));
    }
    fixture_turn(&f);
    ASSERT_RC(0, peek(f.s, id, 0, &o));
    ASSERT_RC(UV_ECANCELED, o.status);
    ASSERT_EQ(NULL, o.result);
    ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
    ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 0)->status);
    c = counts_of(f.s);
    ASSERT(adds_up(&c));
    ASSERT_U64(1, c.cancelled);
    ASSERT_U64(0, c.timed_out);
    ASSERT_U64(0, inspect_limits(f.s));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L11: a settled task no longer keeps the loop alive, whatever is done to its ref later. */
TEST unref_of_a_timed_out_task_does_not_release_other_refs(void) {
  for (int ref = 0; ref < 2; ref++) {
    struct fixture f;
    uvs_id_t late, last;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = limited(&f, 'a', LATE_DEFAULT);
    t.flags = ref ? UVS_UNREF : 0;
    probe_of(&t)->ret = UVS_PENDING;
    CHECK_CALL(make_ready(&f, &t, false, &late));
    fixture_advance_ns(&f, LIMIT_NS);
    ASSERT_U64(1, counts_of(f.s).timed_out);
    ASSERT_RC(0, ref ? uvs_ref(f.s, late) : uvs_unref(f.s, late));
    ASSERT_RC(ref, uvs_has_ref(f.s, late));
    ASSERT_RC(0, uvs_schedule(f.s, UVS_HOUR(1), work_nothing, NULL, &last));
    ASSERT_RC(0, uvs_finish(f.s, late, 0));
    fixture_turn(&f);
    ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
    ASSERT_RC(UVS_CANCELLED, cancel_elsewhere(f.s, last));
    ASSERT_U64(0, live_tasks(f.s));
    ASSERT_U64(0, inspect_live_refs(f.s));
    ASSERT(fixture_run(&f, UV_RUN_DEFAULT, NULL)); /* nothing keeps it */
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* Returns when the limit has passed and the loop has made a whole pass since then. */
static void slow_hook(uvs_run_t *run, int status) {
  uint64_t end_ns = uv_hrtime() + (uint64_t)PATIENCE_NS;
  struct probe *p = run->arg;
  uvs_t *s = p->f->s;
  uint64_t passes;

  (void)status;
  vclock_advance_ns(&p->f->clock, UVS_MS(120));
  passes = counts_of(s).wakeups + 2; /* one may be in progress */
  while (counts_of(s).wakeups < passes && uv_hrtime() < end_ns) {
    uvs_clock_changed(s);
    uv_sleep(0);
  }
  log_add(p->f, EV_USER, 'l', run->id, counts_of(s).wakeups >= passes);
}

/* J7. The body ended in time. The long hook after it is not counted. */
TEST a_slow_hook_after_the_body_does_not_time_the_body_out(void) {
  struct fixture f;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.hooks.after_body = slow_hook;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  t.limit.total_ns = UVS_MS(40);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 1));
  ASSERT_RC(1, log_nth(&f, EV_USER, 'l', 0)->status); /* the loop saw the limit pass */
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'a', 0)->status);
  ASSERT_U64(1, counts_of(f.s).completed);
  ASSERT_U64(0, counts_of(f.s).timed_out);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* V4. A body that hangs past its limit may never return, so the hook is called at the limit. */
TEST the_error_hook_does_not_wait_for_a_hanging_body(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  t.done = NULL;
  t.limit.total_ns = UVS_MS(40);
  probe_of(&t)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_advance_ms(&f, 39);
  ASSERT_U64(0, log_count(&f, EV_ERROR, 0));
  ASSERT_RC(0, look_at(f.s, id).info.timed_out);
  fixture_advance_ms(&f, 1);
  ASSERT_STR_EQ("a", log_string(&f, EV_ERROR));
  ASSERT_RC(UV_ETIMEDOUT, log_nth(&f, EV_ERROR, 'a', 0)->status);
  ASSERT_RC(1, look_at(f.s, id).info.timed_out);
  ASSERT_RC(0, uvs_finish(f.s, id, 0));
  fixture_turn(&f);
  ASSERT_U64(1, log_count(&f, EV_ERROR, 'a')); /* once */
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(limit) {
  RUN_TEST(a_slow_hook_after_the_body_does_not_time_the_body_out);
  RUN_TEST(the_error_hook_does_not_wait_for_a_hanging_body);
  RUN_TEST(a_run_that_ends_before_its_limit_succeeds_and_at_the_limit_times_out);
  RUN_TEST(the_answer_and_result_of_after_do_not_change_a_timed_out_run);
  RUN_TEST(time_spent_waiting_for_after_does_not_count_against_the_limit);
  RUN_TEST(waiting_for_a_runner_counts_and_a_task_past_its_limit_never_starts);
  RUN_TEST(a_busy_loop_at_the_due_time_does_not_shorten_the_limit);
  RUN_TEST(a_runner_does_not_start_a_timed_out_task_even_if_the_loop_is_busy);
  RUN_TEST(a_runner_with_an_outdated_clock_reading_starts_no_timed_out_task);
  RUN_TEST(a_pending_run_times_out_by_the_clock_and_ends_when_finished);
  RUN_TEST(a_timely_finish_does_not_help_a_body_that_exceeds_its_limit);
  RUN_TEST(the_error_hook_gets_a_time_out_only_if_no_other_callback_does);
  RUN_TEST(a_body_is_asked_to_stop_at_its_limit_without_the_loop);
  RUN_TEST(an_after_that_is_called_after_the_limit_is_not_asked_to_stop);
  RUN_TEST(limits_that_pass_together_are_reported_in_the_order_of_submission);
  RUN_TEST(a_cancel_before_the_limit_is_not_replaced_by_a_time_out);
  RUN_TEST(unref_of_a_timed_out_task_does_not_release_other_refs);
}

TEST_MAIN(RUN_SUITE(limit));
