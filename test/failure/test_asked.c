/* SPDX-License-Identifier: MIT
 *
 * A body that returns UV_ECANCELED. If it was asked to stop, in whatever way, the task was
 * cancelled: outcome, counts, `done` and hooks agree, and no run follows. If nobody asked,
 * UV_ECANCELED is a failure like any other.
 */
#include "lib/bodies.h"
#include "lib/lanes.h"
#include "lib/threads.h"

/* ------------------------------------------------------------- ways to ask --- */

enum way {
  CANCEL, /* without token: the outcome is decided, the body does not hear of it */
  CANCEL_TOKEN,
  SHUTDOWN_NOW,
  GRACE_IS_OVER, /* of uvs_shutdown_within; the loop does not know yet */
  DISPOSE_TOKEN, /* its lane, from another thread */
  WAYS
};

static const char *const name_of_way[WAYS] = {"cancel", "cancel with token", "shutdown now",
                                              "the grace is over", "lane disposed with token"};

static struct {
  struct fixture *f;
  uvs_lane_t lane;
  uvs_id_t id;
  int way;
  int ret;  /* what the body returns then */
  int told; /* what uvs_cancelled said then */
} asked;

static int do_dispose(void *arg) {
  (void)arg;
  return uvs_lane_dispose(asked.lane, UVS_DISPOSE_TOKEN);
}

static int ask(uvs_id_t id) {
  uvs_t *s = asked.f->s;
  int rc;

  switch (asked.way) {
  case CANCEL:
    return uvs_cancel(s, id, 0) == UVS_CANCELLED_WHILE_RUNNING ? 0 : UV_EIO;
  case CANCEL_TOKEN:
    return uvs_cancel(s, id, UVS_CANCEL_TOKEN) == UVS_CANCELLED_WHILE_RUNNING ? 0 : UV_EIO;
  case SHUTDOWN_NOW:
    return uvs_shutdown_now(s, NULL, NULL);
  case GRACE_IS_OVER:
    rc = uvs_shutdown_within(s, UVS_MS(10));
    vclock_advance_ns(&asked.f->clock, UVS_MS(10));
    return rc;
  case DISPOSE_TOKEN: /* a body that disposes its own lane is spared the token (R22) */
    return elsewhere(do_dispose, NULL);
  case WAYS:
    break;
  }
  return UV_EINVAL;
}

static int act_asked(struct probe *p, uvs_run_t *run) {
  int rc = ask(run->id);

  (void)p;
  uvs_set_result(run, &asked);
  asked.told = uvs_cancelled(run);
  return rc < 0 ? UV_EIO : asked.ret;
}

static int act_unasked(struct probe *p, uvs_run_t *run) {
  (void)p;
  asked.told = uvs_cancelled(run);
  return UV_ECANCELED;
}

/* ------------------------------------------------------------ kinds of task --- */

enum where { ON_A_RUNNER, WITHOUT_RUNNERS, LOOP_TASK, WITH_AFTER, PLACES };

static enum greatest_test_res open_at(struct fixture *f, int where) {
  fixture_init(f);
  f->options.concurrency = where == WITHOUT_RUNNERS ? 0 : 1;
  CHECK_CALL(fixture_open_turned(f));
  asked.f = f;
  asked.lane = 0;
  asked.ret = UV_ECANCELED;
  asked.told = -1;
  PASS();
}

static uvs_task_t spec(struct fixture *f, int where, int kind, int failure,
                       int (*act)(struct probe *p, uvs_run_t *run)) {
  uvs_task_t t = kind == UVS_ONE_SHOT     ? fixture_once(f, 'a', 0)
                 : kind == UVS_FIXED_RATE ? fixture_rate(f, 'a', 0, UVS_MS(1))
                                          : fixture_delay(f, 'a', 0, UVS_MS(1));

  if (where == LOOP_TASK) {
    t.work = NULL;
    t.after = probe_loop_body;
  } else if (where == WITH_AFTER) {
    t.after = probe_after;
  }
  t.failure_policy = failure;
  t.retry.wait_ns = failure == UVS_FAIL_RETRY ? UVS_MS(1) : 0;
  t.max_failures = failure == UVS_FAIL_STOP ? 0 : 3;
  t.keep_outcome = 1;
  probe_of(&t)->act = act;
  return t;
}

static bool is_possible(int kind, int failure) {
  return kind != UVS_ONE_SHOT || failure != UVS_FAIL_CONTINUE;
}

/* The only task has ended this way, according to every call that reports it. */
static enum greatest_test_res ended(struct fixture *f, int status, uvs_counts_t want) {
  uvs_counts_t c = counts_of(f->s);
  uvs_outcome_t o;

  ASSERT(adds_up(&c));
  ASSERT_U64(want.completed, c.completed);
  ASSERT_U64(want.cancelled, c.cancelled);
  ASSERT_U64(want.failed, c.failed);
  ASSERT_U64(want.timed_out, c.timed_out);
  ASSERT_U64(want.runs, c.runs);
  ASSERT_U64(want.failed_runs, c.failed_runs);
  uvs_outcome_init(&o);
  ASSERT_RC(0, uvs_wait(f->s, asked.id, 0, 0, &o));
  ASSERT_RC(UVS_ENDED, o.state);
  ASSERT_RC(status, o.status);
  ASSERT_U64(want.runs, o.runs);
  if (status < 0)
    ASSERT_EQ(NULL, o.result);
  PASS();
}

/* ---------------------------------------------------------------- was asked --- */

static enum greatest_test_res asked_once(int where, int kind, int failure, bool has_done) {
  struct fixture f;

  CHECK_CALL(open_at(&f, where));
  if (asked.way == DISPOSE_TOKEN)
    ASSERT_RC(0, uvs_lane_open(f.s, NULL, &asked.lane));
  uvs_task_t t = spec(&f, where, kind, failure, act_asked);
  t.lane = asked.lane;
  if (!has_done)
    t.done = NULL;
  ASSERT_RC(0, uvs_submit(f.s, &t, &asked.id));
  fixture_advance_ms(&f, 100); /* long enough for retries and periods */
  ASSERT_RC(asked.way != CANCEL, asked.told);
  CHECK_CALL(ended(&f, UV_ECANCELED, (uvs_counts_t){.cancelled = 1, .runs = 1}));
  ASSERT_U64(0, log_count(&f, EV_ERROR, 0));
  ASSERT_U64(has_done, log_count(&f, EV_DONE, 0));
  if (has_done)
    ASSERT_RC(UV_ECANCELED, done_status(&f, 'a'));
  if (where == WITH_AFTER) {
    ASSERT_U64(1, log_count(&f, EV_AFTER, 'a'));
    ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_AFTER, 'a', 0)->status);
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* F9 S33: for every way of asking, kind of task, policy and thread. */
TEST a_body_that_returns_ecanceled_after_it_was_asked_to_stop_was_cancelled(void) {
  for (int way = 0; way < WAYS; way++) {
    for (int i = 0; i < PLACES * 3 * 3 * 2; i++) {
      int kind = i / 2 % 3, failure = i / 6 % 3;

      asked.way = way;
      if (!is_possible(kind, failure))
        continue;
      if (asked_once(i / 18, kind, failure, i % 2 != 0) != GREATEST_TEST_RES_PASS) {
        printf("%s: place %d, kind %d, failure policy %d, done %d\n", name_of_way[way], i / 18,
               kind, failure, i % 2);
        FAILm(name_of_way[way]);
      }
    }
  }
  PASS();
}

static int act_pending(struct probe *p, uvs_run_t *run) {
  (void)p;
  (void)run;
  return UVS_PENDING;
}

/* F9 L14 */
TEST a_pending_run_that_is_finished_with_ecanceled_was_cancelled(void) {
  for (int way = 0; way < WAYS; way++) {
    for (int where = 0; where < PLACES; where++) {
      struct fixture f;

      CHECK_CALL(open_at(&f, where));
      asked.way = way;
      if (way == DISPOSE_TOKEN)
        ASSERT_RC(0, uvs_lane_open(f.s, NULL, &asked.lane));
      uvs_task_t t = spec(&f, where, UVS_ONE_SHOT, UVS_FAIL_RETRY, act_pending);
      t.lane = asked.lane;
      t.done = where % 2 == 0 ? NULL : t.done;
      ASSERT_RC(0, uvs_submit(f.s, &t, &asked.id));
      fixture_turn(&f);
      ASSERT_RC(UVS_RUNNING, state_of(f.s, asked.id));
      ASSERT_RC(0, ask(asked.id));
      ASSERT_RC(0, uvs_finish(f.s, asked.id, UV_ECANCELED));
      fixture_advance_ms(&f, 100);
      CHECK_CALL(ended(&f, UV_ECANCELED, (uvs_counts_t){.cancelled = 1, .runs = 1}));
      ASSERT_U64(0, log_count(&f, EV_ERROR, 0));
      if (t.done != NULL)
        ASSERT_RC(UV_ECANCELED, done_status(&f, 'a'));
      CHECK_CALL(fixture_close(&f));
    }
  }
  PASS();
}

/* S33 S42: a body that a shutdown asked to stop and that returns another status keeps that
 * status. */
TEST a_body_that_shutdown_asked_to_stop_keeps_any_other_answer(void) {
  for (int way = SHUTDOWN_NOW; way <= GRACE_IS_OVER; way++) {
    for (int where = 0; where < PLACES; where++) {
      for (int fails = 0; fails < 2; fails++) {
        struct fixture f;

        CHECK_CALL(open_at(&f, where));
        asked.way = way;
        asked.ret = fails ? UV_EIO : 0;
        uvs_task_t t = spec(&f, where, UVS_ONE_SHOT, UVS_FAIL_STOP, act_asked);
        ASSERT_RC(0, uvs_submit(f.s, &t, &asked.id));
        fixture_advance_ms(&f, 100);
        if (fails)
          CHECK_CALL(ended(&f, UV_EIO, (uvs_counts_t){.failed = 1, .runs = 1, .failed_runs = 1}));
        else
          CHECK_CALL(ended(&f, 0, (uvs_counts_t){.completed = 1, .runs = 1}));
        ASSERT_RC(asked.ret, done_status(&f, 'a'));
        CHECK_CALL(fixture_close(&f));
      }
    }
  }
  PASS();
}

static int after_asked(uvs_run_t *run) {
  struct probe *p = run->arg;

  log_run(p->f, EV_AFTER, p->tag, run);
  return act_asked(p, run);
}

/* F9: `after` is asked to stop; its answer counts for a `work` that succeeded. */
TEST an_after_that_returns_ecanceled_after_it_was_asked_to_stop_was_cancelled(void) {
  for (int way = 0; way < WAYS; way++) {
    struct fixture f;

    CHECK_CALL(open_at(&f, WITH_AFTER));
    asked.way = way;
    if (way == DISPOSE_TOKEN)
      ASSERT_RC(0, uvs_lane_open(f.s, NULL, &asked.lane));
    uvs_task_t t = spec(&f, WITH_AFTER, UVS_ONE_SHOT, UVS_FAIL_STOP, NULL);
    t.after = after_asked;
    t.lane = asked.lane;
    t.done = NULL;
    ASSERT_RC(0, uvs_submit(f.s, &t, &asked.id));
    fixture_advance_ms(&f, 100);
    ASSERT_RC(way != CANCEL, asked.told);
    CHECK_CALL(ended(&f, UV_ECANCELED, (uvs_counts_t){.cancelled = 1, .runs = 1}));
    ASSERT_U64(0, log_count(&f, EV_ERROR, 0));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* F9 S17: the body runs on the submitter's thread, because the scheduler is full. */
TEST a_caller_run_body_that_returns_ecanceled_after_a_cancel_was_cancelled(void) {
  struct fixture f;

  fixture_init(&f);
  f.options.concurrency = 1;
  f.options.max_pending = 1;
  f.options.rejection_policy = UVS_REJECT_CALLER_RUNS;
  CHECK_CALL(fixture_open_turned(&f));
  asked.f = &f;
  asked.way = SHUTDOWN_NOW;
  asked.ret = UV_ECANCELED;
  uvs_task_t far = fixture_once(&f, 'f', UVS_DAY(1));
  ASSERT_RC(0, uvs_submit(f.s, &far, NULL));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  probe_of(&t)->act = act_asked;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT_RC(UVS_ON_CALLER, log_nth(&f, EV_WORK, 'a', 0)->runner);
  fixture_turn(&f);
  ASSERT_RC(UV_ECANCELED, done_status(&f, 'a'));
  uvs_counts_t c = counts_of(f.s);
  ASSERT_U64(2, c.cancelled);
  ASSERT_U64(0, c.failed + c.failed_runs);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ---------------------------------------------------------- past its limit --- */

static int act_past_its_limit(struct probe *p, uvs_run_t *run) {
  vclock_advance_ns(&p->f->clock, UVS_MS(20));
  asked.told = uvs_cancelled(run);
  return UV_ECANCELED;
}

/* F5 J5: the time limit has decided the run. The body's answer changes nothing. */
TEST a_body_that_returns_ecanceled_after_its_time_limit_has_timed_out(void) {
  for (int where = 0; where < PLACES; where++) {
    for (int has_done = 0; has_done < 2; has_done++) {
      struct fixture f;

      if (where == LOOP_TASK)
        continue; /* has no limit */
      CHECK_CALL(open_at(&f, where));
      uvs_task_t t = spec(&f, where, UVS_ONE_SHOT, UVS_FAIL_STOP, act_past_its_limit);
      t.limit.total_ns = UVS_MS(10);
      if (!has_done)
        t.done = NULL;
      ASSERT_RC(0, uvs_submit(f.s, &t, &asked.id));
      fixture_advance_ms(&f, 100);
      ASSERT_RC(1, asked.told);
      CHECK_CALL(
          ended(&f, UV_ETIMEDOUT, (uvs_counts_t){.timed_out = 1, .runs = 1, .failed_runs = 1}));
      if (has_done)
        ASSERT_RC(UV_ETIMEDOUT, done_status(&f, 'a'));
      if (where == WITH_AFTER)
        ASSERT_RC(UV_ETIMEDOUT, log_nth(&f, EV_AFTER, 'a', 0)->status);
      ASSERT_U64(!has_done && where != WITH_AFTER, log_count(&f, EV_ERROR, 0));
      if (log_count(&f, EV_ERROR, 0) > 0)
        ASSERT_RC(UV_ETIMEDOUT, log_nth(&f, EV_ERROR, 'a', 0)->status);
      CHECK_CALL(fixture_close(&f));
    }
  }
  PASS();
}

/* F5: with a substitute the time-out is a success; with retries it is a failure that is retried. */
TEST a_time_out_follows_its_policy_whatever_the_body_returns(void) {
  struct fixture f;

  CHECK_CALL(open_at(&f, ON_A_RUNNER));
  uvs_task_t t = spec(&f, ON_A_RUNNER, UVS_ONE_SHOT, UVS_FAIL_STOP, act_past_its_limit);
  t.limit.total_ns = UVS_MS(10);
  t.limit.substitute = 1;
  ASSERT_RC(0, uvs_submit(f.s, &t, &asked.id));
  fixture_advance_ms(&f, 100);
  CHECK_CALL(ended(&f, 0, (uvs_counts_t){.timed_out = 1, .runs = 1}));
  ASSERT_RC(0, done_status(&f, 'a'));
  CHECK_CALL(fixture_close(&f));

  CHECK_CALL(open_at(&f, ON_A_RUNNER));
  t = spec(&f, ON_A_RUNNER, UVS_ONE_SHOT, UVS_FAIL_RETRY, act_past_its_limit);
  t.limit.total_ns = UVS_MS(10);
  ASSERT_RC(0, uvs_submit(f.s, &t, &asked.id));
  fixture_advance_ms(&f, 200);
  CHECK_CALL(ended(&f, UV_ETIMEDOUT, (uvs_counts_t){.timed_out = 1, .runs = 3, .failed_runs = 3}));
  ASSERT_RC(UV_ETIMEDOUT, done_status(&f, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ---------------------------------------------------------------- not asked --- */

static enum greatest_test_res unasked_once(int where, int kind, int failure, bool has_done) {
  unsigned runs = failure == UVS_FAIL_STOP ? 1 : 3;
  unsigned unseen = where == WITH_AFTER ? 0 : runs - has_done;
  struct fixture f;

  CHECK_CALL(open_at(&f, where));
  uvs_task_t t = spec(&f, where, kind, failure, act_unasked);
  if (!has_done)
    t.done = NULL;
  ASSERT_RC(0, uvs_submit(f.s, &t, &asked.id));
  fixture_advance_ms(&f, 100);
  ASSERT_RC(0, asked.told);
  CHECK_CALL(
      ended(&f, UV_ECANCELED, (uvs_counts_t){.failed = 1, .runs = runs, .failed_runs = runs}));
  if (has_done)
    ASSERT_RC(UV_ECANCELED, done_status(&f, 'a'));
  ASSERT_U64(unseen, log_count(&f, EV_ERROR, 0)); /* of the last one `done` is told */
  for (unsigned i = 0; i < unseen; i++)
    ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_ERROR, 'a', i)->status);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S41 V4 R25 */
TEST ecanceled_without_a_request_to_stop_is_a_failure(void) {
  for (int i = 0; i < PLACES * 3 * 3 * 2; i++) {
    int kind = i / 2 % 3, failure = i / 6 % 3;

    if (!is_possible(kind, failure))
      continue;
    if (unasked_once(i / 18, kind, failure, i % 2 != 0) != GREATEST_TEST_RES_PASS) {
      printf("place %d, kind %d, failure policy %d, done %d\n", i / 18, kind, failure, i % 2);
      FAILm("a failure that was not taken for one");
    }
  }
  PASS();
}

static int act_asks_others(struct probe *p, uvs_run_t *run) {
  uvs_t *s = p->f->s;

  asked.told = uvs_cancel(s, asked.id, UVS_CANCEL_TOKEN) < 0 ||
               uvs_lane_dispose(asked.lane, UVS_DISPOSE_TOKEN) < 0 ||
               uvs_shutdown_within(s, UVS_HOUR(1)) < 0 || uvs_shutdown(s) < 0;
  return asked.told || uvs_cancelled(run) ? UV_EIO : UV_ECANCELED;
}

/* F10: another task is asked to stop, another lane is disposed, and the grace period has not
 * ended. */
TEST a_request_to_stop_one_task_does_not_reach_others(void) {
  for (int where = 0; where < PLACES; where++) {
    struct fixture f;

    CHECK_CALL(open_at(&f, where));
    ASSERT_RC(0, uvs_lane_open(f.s, NULL, &asked.lane));
    uvs_task_t other = fixture_once(&f, 'o', UVS_HOUR(2));
    ASSERT_RC(0, uvs_submit(f.s, &other, &asked.id));
    uvs_task_t t = spec(&f, where, UVS_ONE_SHOT, UVS_FAIL_STOP, act_asks_others);
    t.keep_outcome = 0;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_turn(&f);
    ASSERT_RC(UV_ECANCELED, done_status(&f, 'a'));
    uvs_counts_t c = counts_of(f.s);
    ASSERT_U64(1, c.failed);
    ASSERT_U64(1, c.failed_runs);
    ASSERT_U64(1, c.cancelled); /* the other one */
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static int after_shuts_down(uvs_run_t *run) {
  struct probe *p = run->arg;

  log_run(p->f, EV_AFTER, p->tag, run);
  return uvs_shutdown_now(run->scheduler, NULL, NULL);
}

/* The body fails by itself. The request to stop comes too late, from `after`. */
TEST a_request_to_stop_after_the_body_returned_changes_nothing(void) {
  struct fixture f;

  CHECK_CALL(open_at(&f, WITH_AFTER));
  uvs_task_t t = spec(&f, WITH_AFTER, UVS_ONE_SHOT, UVS_FAIL_STOP, act_unasked);
  t.after = after_shuts_down;
  ASSERT_RC(0, uvs_submit(f.s, &t, &asked.id));
  fixture_advance_ms(&f, 100);
  CHECK_CALL(ended(&f, UV_ECANCELED, (uvs_counts_t){.failed = 1, .runs = 1, .failed_runs = 1}));
  ASSERT_RC(UV_ECANCELED, done_status(&f, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(was_asked) {
  RUN_TEST(a_body_that_returns_ecanceled_after_it_was_asked_to_stop_was_cancelled);
  RUN_TEST(a_pending_run_that_is_finished_with_ecanceled_was_cancelled);
  RUN_TEST(a_body_that_shutdown_asked_to_stop_keeps_any_other_answer);
  RUN_TEST(an_after_that_returns_ecanceled_after_it_was_asked_to_stop_was_cancelled);
  RUN_TEST(a_caller_run_body_that_returns_ecanceled_after_a_cancel_was_cancelled);
}

SUITE(past_its_limit) {
  RUN_TEST(a_body_that_returns_ecanceled_after_its_time_limit_has_timed_out);
  RUN_TEST(a_time_out_follows_its_policy_whatever_the_body_returns);
}

SUITE(not_asked) {
  RUN_TEST(ecanceled_without_a_request_to_stop_is_a_failure);
  RUN_TEST(a_request_to_stop_one_task_does_not_reach_others);
  RUN_TEST(a_request_to_stop_after_the_body_returned_changes_nothing);
}

TEST_MAIN(RUN_SUITE(was_asked); RUN_SUITE(past_its_limit); RUN_SUITE(not_asked));
