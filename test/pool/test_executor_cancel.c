/* SPDX-License-Identifier: MIT
 *
 * Cancel, dispose, shutdown and close while an executor holds a runner. The end comes at each stage
 * of a task. Nothing is left in the scheduler or in the executor.
 */
#include "lib/bodies.h"
#include "lib/inspect.h"
#include "lib/shelf.h"
#include "lib/threads.h"

/* No task is left anywhere. `away` runners are out and have nothing to do. */
static enum greatest_test_res nothing_left(struct fixture *f, unsigned out) {
  uvs_counts_t c = counts_of(f->s);

  ASSERT(adds_up(&c));
  ASSERT_U64(0, live_tasks(f->s));
  ASSERT_U64(0, inspect_records(f->s));
  ASSERT_U64(0, inspect_live_refs(f->s));
  ASSERT_U64(out, inspect_runners_out(f->s));
  ASSERT(inspect_idle(f->s));
  ASSERT_I64(-1, fixture_next_ms(f));
  PASS();
}

/* ------------------------------------------------------------------ the moments --- */

enum moment {
  IN_THE_DELAY,
  DUE_BUT_NOT_SEEN,  /* due, but the loop has not looked at the clock */
  READY_BUT_REFUSED, /* ready, but the executor holds another runner and takes no more */
  HANDED_OVER,       /* the runner is on the shelf */
  RUNNING,
  MOMENTS
};

static struct {
  struct fixture *f;
  uvs_id_t id;
  uvs_lane_t lane;
  bool dispose; /* instead of cancel */
  bool off_loop;
  int rc;
} end;

static int do_end(void *arg) {
  (void)arg;
  return end.dispose ? uvs_lane_dispose(end.lane, 0) : uvs_cancel(end.f->s, end.id, 0);
}

static void end_it(void) {
  end.rc = end.off_loop ? elsewhere(do_end, NULL) : do_end(NULL);
}

static int act_end(struct probe *p, uvs_run_t *run) {
  (void)p;
  (void)run;
  end.rc = do_end(NULL);
  return 0;
}

/* The task is due in 5 ms. Brings it to that moment, ends it there, and checks what follows. */
static enum greatest_test_res end_at(struct fixture *f, struct shelf *e, enum moment moment,
                                     uvs_task_t *t) {
  uvs_task_t other = fixture_once(f, 'o', 0);

  other.lane = moment == READY_BUT_REFUSED ? t->lane : 0;
  if (moment == RUNNING)
    probe_of(t)->act = act_end;
  ASSERT_RC(0, uvs_submit(f->s, t, &end.id));
  fixture_advance_ms(f, 1);
  if (moment == READY_BUT_REFUSED) {
    ASSERT_RC(0, uvs_submit(f->s, &other, NULL));
    fixture_turn(f);
    ASSERT_U64(1, e->n);
    e->refuses = UV_EBUSY;
  }
  if (moment == DUE_BUT_NOT_SEEN)
    vclock_advance_ns(&f->clock, UVS_MS(4));
  else if (moment != IN_THE_DELAY)
    fixture_advance_ms(f, 4);
  ASSERT_RC(moment <= DUE_BUT_NOT_SEEN ? UVS_WAITING : UVS_READY, state_of(f->s, end.id));
  ASSERT_U64(moment >= READY_BUT_REFUSED, e->n);
  if (moment == RUNNING)
    ASSERT(shelf_run(e));
  else
    end_it();
  uvs_clock_changed(f->s); /* a task without callbacks is freed in the next loop pass */
  fixture_turn(f);
  e->refuses = 0;
  PASS();
}

static enum greatest_test_res ends_at(enum moment moment, enum place place, bool with_done) {
  struct fixture f;
  struct shelf e;
  bool own = place == LANE_WITH_ITS_OWN;
  unsigned away;

  CHECK_CALL(open_place(&f, &e, place, &end.lane));
  end.f = &f;
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(5));
  t.lane = end.lane;
  if (!with_done)
    t.done = NULL;
  CHECK_CALL(end_at(&f, &e, moment, &t));
  ASSERT_RC(moment == RUNNING && !end.dispose ? UVS_CANCELLED_WHILE_RUNNING : 0, end.rc);
  ASSERT_RC(UV_ENOENT, state_of(f.s, end.id));
  ASSERT_U64(with_done, log_count(&f, EV_DONE, 'a'));
  if (with_done && !(moment == RUNNING && end.dispose)) /* the loop may notice that too late */
    ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 0)->status);

  away = e.n;
  ASSERT_U64(moment == READY_BUT_REFUSED || moment == HANDED_OVER, away);
  if (moment != READY_BUT_REFUSED || end.dispose)
    CHECK_CALL(nothing_left(&f, away));
  /* A lane is not quiet while its executor holds one of its runners. */
  ASSERT_U64(end.dispose && !(own && away > 0), log_count(&f, EV_USER, 'q'));
  shelf_empty(&f, &e); /* the runners find nothing to do and return */
  CHECK_CALL(nothing_left(&f, 0));
  ASSERT_U64(end.dispose, log_count(&f, EV_USER, 'q'));
  ASSERT_U64(moment == RUNNING, log_count(&f, EV_WORK, 'a'));
  ASSERT_U64(moment == READY_BUT_REFUSED && !end.dispose, log_count(&f, EV_WORK, 'o'));
  ASSERT_U64(0, log_count(&f, EV_ERROR, 0));

  fixture_advance_ms(&f, 100); /* and nothing comes later */
  ASSERT_U64(with_done, log_count(&f, EV_DONE, 'a'));
  ASSERT_U64(moment == RUNNING, log_count(&f, EV_WORK, 'a'));
  ASSERT_FALSE(fixture_alive(&f));
  CHECK_CALL(shelf_close(&f, &e));
  PASS();
}

/* R17 S29 V1 */
TEST a_cancel_at_any_moment_leaves_nothing_in_scheduler_or_executor(void) {
  memset(&end, 0, sizeof end);
  for (enum moment moment = 0; moment < MOMENTS; moment++)
    for (enum place place = 0; place < PLACES; place++)
      for (int with_done = 0; with_done < 2; with_done++)
        for (int off_loop = 0; off_loop < 2; off_loop++) {
          end.off_loop = off_loop;
          CHECK_CALL(ends_at(moment, place, with_done));
        }
  PASS();
}

/* R17 */
TEST a_dispose_at_any_moment_leaves_nothing_in_scheduler_or_executor(void) {
  memset(&end, 0, sizeof end);
  end.dispose = true;
  for (enum moment moment = 0; moment < MOMENTS; moment++)
    for (enum place place = LANE; place < PLACES; place++)
      for (int with_done = 0; with_done < 2; with_done++)
        for (int off_loop = 0; off_loop < 2; off_loop++) {
          end.off_loop = off_loop;
          CHECK_CALL(ends_at(moment, place, with_done));
        }
  PASS();
}

/* A runner on the shelf looks for work only when it is run. */
TEST a_runner_whose_task_was_cancelled_runs_the_next_task(void) {
  struct fixture f;
  struct shelf e;
  uvs_id_t id;

  fixture_init(&f);
  shelf_init(&e);
  CHECK_CALL(shelf_open(&f, &e));
  for (int i = 0; i < 5; i++) {
    uvs_task_t t = fixture_once(&f, 'x', 0);
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_turn(&f);
    ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, 0));
  }
  uvs_task_t t = fixture_once(&f, 'a', 0);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  ASSERT_U64(1, e.submitted);
  ASSERT(shelf_run(&e));
  fixture_turn(&f);
  ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
  ASSERT_STR_EQ("xxxxxa", log_string(&f, EV_DONE));
  CHECK_CALL(nothing_left(&f, 0));
  CHECK_CALL(shelf_close(&f, &e));
  PASS();
}

/* A time limit that passes while the runner is on the shelf settles the task at that time. */
TEST a_task_times_out_while_its_runner_waits_in_the_executor(void) {
  struct fixture f;
  struct shelf e;

  fixture_init(&f);
  shelf_init(&e);
  CHECK_CALL(shelf_open(&f, &e));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  t.limit.total_ns = UVS_MS(5);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ms(&f, 5);
  ASSERT_RC(UV_ETIMEDOUT, log_nth(&f, EV_DONE, 'a', 0)->status);
  CHECK_CALL(nothing_left(&f, 1));
  shelf_empty(&f, &e);
  CHECK_CALL(nothing_left(&f, 0));
  ASSERT_STR_EQ("", log_string(&f, EV_WORK));
  CHECK_CALL(shelf_close(&f, &e));
  PASS();
}

/* ---------------------------------------------------------------- shut down, close --- */

/* 'a' is on the shelf, 'b' is ready behind it, 'c' waits. */
static enum greatest_test_res three_tasks(struct fixture *f, struct shelf *e, uvs_lane_t lane) {
  for (int i = 0; i < 3; i++) {
    uvs_task_t t = fixture_once(f, 'a' + i, i < 2 ? 0 : UVS_MS(5));
    t.lane = lane;
    ASSERT_RC(0, uvs_submit(f->s, &t, NULL));
  }
  fixture_turn(f);
  ASSERT_U64(1, e->n);
  PASS();
}

/* S31 S32 S38 */
TEST an_orderly_shutdown_runs_submitted_tasks_and_then_terminates(void) {
  for (enum place place = 0; place < PLACES; place++) {
    struct fixture f;
    struct shelf e;
    uvs_lane_t lane;

    CHECK_CALL(open_place(&f, &e, place, &lane));
    CHECK_CALL(three_tasks(&f, &e, lane));
    ASSERT_RC(0, uvs_shutdown(f.s));
    fixture_turn(&f);
    ASSERT_RC(1, uvs_is_terminating(f.s));
    ASSERT_U64(0, log_total(&f));
    ASSERT(shelf_run(&e));
    fixture_turn(&f);
    ASSERT_STR_EQ("ab", log_string(&f, EV_DONE));
    fixture_advance_ms(&f, 5);
    ASSERT_RC(1, uvs_is_terminating(f.s));
    ASSERT(shelf_run(&e));
    fixture_turn(&f);
    ASSERT_STR_EQ("abc", log_string(&f, EV_WORK));
    ASSERT_RC(1, uvs_is_terminated(f.s));
    CHECK_CALL(shelf_close(&f, &e));
  }
  PASS();
}

/* S33 V2 */
TEST shutdown_now_ends_all_tasks_and_terminates_when_the_runner_returns(void) {
  for (enum place place = 0; place < PLACES; place++) {
    struct fixture f;
    struct shelf e;
    uvs_lane_t lane;

    CHECK_CALL(open_place(&f, &e, place, &lane));
    CHECK_CALL(three_tasks(&f, &e, lane));
    ASSERT_RC(0, uvs_shutdown_now(f.s, probe_never_ran, NULL));
    fixture_turn(&f);
    ASSERT_STR_EQ("abc", log_string(&f, EV_NEVER_RAN));
    ASSERT_STR_EQ("abc", log_string(&f, EV_DONE));
    CHECK_CALL(nothing_left(&f, 1));
    ASSERT_RC(1, uvs_is_terminating(f.s)); /* somebody could still call into us */
    ASSERT(shelf_run(&e));
    fixture_turn(&f);
    ASSERT_RC(1, uvs_is_terminated(f.s));
    ASSERT_STR_EQ("", log_string(&f, EV_WORK));
    CHECK_CALL(shelf_close(&f, &e));
  }
  PASS();
}

/* Two runners are on the shelf. The callback comes when the second has returned. L2 */
TEST close_waits_for_every_runner_to_return_and_calls_back_once(void) {
  for (enum place place = 0; place < PLACES; place++) {
    struct fixture f;
    struct shelf e;
    uvs_lane_options_t o;
    uvs_lane_t lane = 0;

    fixture_init(&f);
    shelf_init(&e);
    e.at_once = 2;
    uvs_lane_options_init(&o);
    o.width = 2;
    o.on_quiet = log_quiet;
    o.arg = &f;
    if (place == LANE_WITH_ITS_OWN)
      o.executor = &e.table;
    else
      f.options.executor = &e.table;
    CHECK_CALL(fixture_open_turned(&f));
    if (place != SCHEDULER)
      ASSERT_RC(0, uvs_lane_open(f.s, &o, &lane));
    for (int i = 0; i < 2; i++) {
      uvs_task_t t = fixture_once(&f, 'a', 0);
      t.lane = lane;
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    }
    fixture_turn(&f);
    ASSERT_U64(2, e.n);
    ASSERT_RC(0, uvs_close(f.s, note_closed));
    ASSERT_RC(UV_EALREADY, uvs_close(f.s, note_closed));
    fixture_turn(&f);
    ASSERT_STR_EQ("aa", log_string(&f, EV_DONE));
    ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 1)->status);
    for (int i = 0; i < 2; i++) {
      ASSERT_FALSE(f.closed);
      ASSERT(fixture_alive(&f));
      ASSERT_U64(place == LANE, log_count(&f, EV_USER, 'q'));
      ASSERT(shelf_run(&e));
      fixture_turn(&f);
    }
    ASSERT(f.closed);
    ASSERT_STR_EQ(place == SCHEDULER ? "c" : "qc", log_string(&f, EV_USER));
    f.s = NULL;
    ASSERT_STR_EQ("", log_string(&f, EV_WORK));
    CHECK_CALL(shelf_close(&f, &e));
  }
  PASS();
}

static void close_handle(uv_handle_t *h, void *arg) {
  if (uvs_owns_handle(arg, h) && !uv_is_closing(h))
    uv_close(h, NULL);
}

/* A program that closes all handles that it finds, before or after it closes the scheduler. L2 */
TEST close_calls_back_even_if_others_closed_its_handles_while_a_runner_was_out(void) {
  for (int before = 0; before < 2; before++) {
    for (int turns = 0; turns < 3; turns++) {
      struct fixture f;
      struct shelf e;

      fixture_init(&f);
      shelf_init(&e);
      CHECK_CALL(shelf_open(&f, &e));
      uvs_task_t t = fixture_once(&f, 'a', 0);
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
      fixture_turn(&f);
      ASSERT_U64(1, e.n);
      if (before)
        uv_walk(&f.loop, close_handle, f.s);
      for (int i = 0; i < turns; i++)
        fixture_turn(&f);
      ASSERT_RC(0, uvs_close(f.s, note_closed));
      if (!before)
        uv_walk(&f.loop, close_handle, f.s);
      for (int i = 0; i < turns; i++)
        fixture_turn(&f);
      ASSERT_FALSE(f.closed);
      ASSERT(shelf_run(&e));
      fixture_turn_until_closed(&f);
      ASSERT(f.closed);
      f.s = NULL;
      ASSERT_STR_EQ("a", log_string(&f, EV_DONE));
      CHECK_CALL(shelf_close(&f, &e));
    }
  }
  PASS();
}

/* --------------------------------------------------------------- keeping the loop --- */

/* A ref'd task keeps the loop alive until its body on the executor has ended. An unref'd task does
 * not. L1 */
TEST only_a_refd_task_keeps_the_loop_alive_on_any_executor(void) {
  for (enum place place = 0; place < PLACES; place++) {
    for (int unref = 0; unref < 2; unref++) {
      struct fixture f;
      struct shelf e;
      uvs_lane_t lane;

      CHECK_CALL(open_place(&f, &e, place, &lane));
      uvs_task_t t = fixture_once(&f, 'a', UVS_MS(5));
      t.lane = lane;
      t.flags = unref ? UVS_UNREF : 0;
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
      fixture_turn(&f);
      ASSERT_RC(!unref, fixture_alive(&f)); /* in the delay */
      fixture_advance_ms(&f, 5);
      ASSERT_U64(1, e.n);
      ASSERT_RC(!unref, fixture_alive(&f)); /* on the shelf */
      ASSERT(shelf_run(&e));
      ASSERT_RC(!unref, fixture_alive(&f)); /* it has run, and the loop has not heard of it */
      fixture_turn(&f);
      ASSERT_FALSE(fixture_alive(&f));
      ASSERT_STR_EQ("a", log_string(&f, EV_DONE));
      CHECK_CALL(shelf_close(&f, &e));
    }
  }
  PASS();
}

SUITE(moments) {
  RUN_TEST(a_cancel_at_any_moment_leaves_nothing_in_scheduler_or_executor);
  RUN_TEST(a_dispose_at_any_moment_leaves_nothing_in_scheduler_or_executor);
  RUN_TEST(a_runner_whose_task_was_cancelled_runs_the_next_task);
  RUN_TEST(a_task_times_out_while_its_runner_waits_in_the_executor);
}

SUITE(ends) {
  RUN_TEST(an_orderly_shutdown_runs_submitted_tasks_and_then_terminates);
  RUN_TEST(shutdown_now_ends_all_tasks_and_terminates_when_the_runner_returns);
  RUN_TEST(close_waits_for_every_runner_to_return_and_calls_back_once);
  RUN_TEST(close_calls_back_even_if_others_closed_its_handles_while_a_runner_was_out);
  RUN_TEST(only_a_refd_task_keeps_the_loop_alive_on_any_executor);
}

TEST_MAIN(RUN_SUITE(moments); RUN_SUITE(ends));
