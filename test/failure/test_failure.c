/* SPDX-License-Identifier: MIT
 *
 * The effect of a failed run on its task, and that no failure goes unreported. Retries are in
 * test_retry.c. A script says how each run ends: "xx." fails twice and then succeeds.
 */
#include <limits.h>

#include "lib/bodies.h"
#include "lib/fixture.h"
#include "lib/inspect.h"
#include "lib/threads.h"

#define UNTOUCHED UINT64_C(0x7e57)

static enum greatest_test_res open_with(struct fixture *f, int concurrency) {
  fixture_init(f);
  f->options.concurrency = concurrency;
  CHECK_CALL(fixture_open_turned(f));
  PASS();
}

static uvs_task_t make_retry(uvs_task_t t, int64_t retry_ns, uint32_t max_failures) {
  t.failure_policy = UVS_FAIL_RETRY;
  t.retry.wait_ns = retry_ns;
  t.max_failures = max_failures;
  return t;
}

/* -------------------------------------------------------------- stop, go on --- */

/* S41 V4 */
TEST by_default_the_first_failure_ends_a_task(void) {
  for (int concurrency = 0; concurrency < 2; concurrency++) {
    struct fixture f;

    CHECK_CALL(open_with(&f, concurrency));
    uvs_task_t tasks[] = {
        fixture_once(&f, 'o', 0),
        fixture_rate(&f, 'r', 0, UVS_MS(10)),
        fixture_delay(&f, 'd', 0, UVS_MS(10)),
        fixture_loop_task(&f, 'l', 0),
    };
    tasks[3].kind = UVS_FIXED_RATE;
    tasks[3].period_ns = UVS_MS(10);
    for (int i = 0; i < 4; i++) {
      ASSERT_RC(UVS_FAIL_STOP, tasks[i].failure_policy);
      follow_script(&tasks[i], tasks[i].kind == UVS_ONE_SHOT ? "x" : "..x");
      ASSERT_RC(0, uvs_submit(f.s, &tasks[i], NULL));
    }
    fixture_advance_ms(&f, 100);
    ASSERT_STR_EQ("0", log_runs(&f, EV_WORK, 'o'));
    ASSERT_STR_EQ("0 10 20", log_runs(&f, EV_WORK, 'r'));
    ASSERT_STR_EQ("0 10 20", log_runs(&f, EV_WORK, 'd'));
    ASSERT_STR_EQ("0 10 20", log_runs(&f, EV_AFTER, 'l'));
    for (const char *tag = "ordl"; *tag != 0; tag++)
      ASSERT_RC(UV_EIO, done_status(&f, *tag));
    ASSERT_U64(0, log_count(&f, EV_ERROR, 0));
    ASSERT_U64(4, counts_of(f.s).failed);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

enum way { CATCH_UP, BURST, ONCE, SKIP, JITTER, DELAY, WAYS };

static int act_slow_third(struct probe *p, uvs_run_t *run) {
  if (run->number == 3)
    vclock_advance_ns(&p->f->clock, UVS_MS(250));
  return act_script(p, run);
}

/* Runs a task with a long body, a busy loop, or busy runners. */
static enum greatest_test_res live(enum way way, int concurrency, int failure, const char *script,
                                   char *ret_runs, size_t room) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  f.options.concurrency = concurrency;
  f.options.seed = 7;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(100));
  t.failure_policy = failure;
  t.kind = way == DELAY ? UVS_FIXED_DELAY : UVS_FIXED_RATE;
  t.missed_policy = way == ONCE   ? UVS_MISSED_ONCE
                    : way == SKIP ? UVS_MISSED_SKIP
                                  : UVS_MISSED_CATCH_UP;
  t.max_burst = way == BURST ? 2 : 0;
  t.jitter_ns = way == JITTER ? UVS_MS(50) : 0;
  follow_script(&t, script);
  probe_of(&t)->act = act_slow_third;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_advance_to(&f, VCLOCK_START_NS + UVS_MS(900));
  fixture_jump_ms(&f, 470);
  fixture_advance_ms(&f, 300);
  fakepool_hold();
  fixture_jump_ms(&f, 100);
  vclock_advance_ns(&f.clock, UVS_MS(333));
  fakepool_release();
  fixture_advance_ms(&f, 300);
  ASSERT(log_count(&f, EV_WORK, 'a') > 10);
  ASSERT(look_at(f.s, id).info.failures ==
         (failure == UVS_FAIL_CONTINUE && script[0] == 'x' ? log_count(&f, EV_WORK, 'a') : 0));
  ASSERT_U64(script[0] == 'x' ? log_count(&f, EV_WORK, 'a') : 0, log_count(&f, EV_ERROR, 'a'));
  snprintf(ret_runs, room, "%s, missed %llu", log_runs(&f, EV_WORK, 'a'),
           (unsigned long long)look_at(f.s, id).info.missed);
  ASSERT_U64(look_at(f.s, id).info.missed, counts_of(f.s).missed);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* V4 */
TEST with_fail_continue_the_next_run_follows_as_after_a_success(void) {
  for (int way = CATCH_UP; way < WAYS; way++)
    for (int concurrency = 0; concurrency < 2; concurrency++) {
      char good[2000], bad[2000];

      CHECK_CALL(live((enum way)way, concurrency, UVS_FAIL_STOP, ".", good, sizeof good));
      CHECK_CALL(live((enum way)way, concurrency, UVS_FAIL_CONTINUE, "x", bad, sizeof bad));
      ASSERT_STR_EQ(good, bad);
    }
  PASS();
}

/* V4 */
TEST max_failures_consecutive_failures_end_the_task(void) {
  static const struct {
    const char *script;
    uint32_t max_failures;
    unsigned runs;
  } cases[] = {
      {"x", 1, 1},   {"..x", 1, 3},      {"x", 3, 3}, {"xx.xxx", 3, 6},     {"x.x.x.xx", 2, 8},
      {"xx.", 3, 0}, {"x.x.x.x.", 2, 0}, {"x", 0, 0}, {"x", UINT32_MAX, 0},
  };

  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    for (int kind = UVS_FIXED_RATE; kind <= UVS_FIXED_DELAY; kind++) {
      struct fixture f;
      uvs_id_t id;

      CHECK_CALL(open_with(&f, 1));
      uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_MS(10));
      t.kind = kind;
      t.failure_policy = UVS_FAIL_CONTINUE;
      t.max_failures = cases[i].max_failures;
      follow_script(&t, cases[i].script);
      ASSERT_RC(0, uvs_submit(f.s, &t, &id));
      fixture_advance_ms(&f, 200);
      ASSERT_U64(cases[i].runs == 0 ? 21 : cases[i].runs, log_count(&f, EV_WORK, 'a'));
      ASSERT_RC(cases[i].runs == 0 ? INT_MAX : UV_EIO, done_status(&f, 'a'));
      ASSERT_RC(cases[i].runs == 0 ? UVS_WAITING : UV_ENOENT, state_of(f.s, id));
      ASSERT_U64(cases[i].runs != 0, counts_of(f.s).failed);
      CHECK_CALL(fixture_close(&f));
    }
  PASS();
}

/* The number of consecutive failures in uvs_info: it grows, and a success resets it. */
TEST info_shows_the_number_of_consecutive_failures(void) {
  static const uint64_t rows[] = {1, 2, 0, 1, 0, 0};
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(open_with(&f, 1));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
  t.failure_policy = UVS_FAIL_CONTINUE;
  follow_script(&t, "xx.x..");
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_U64(0, look_at(f.s, id).info.failures);
  for (int i = 0; i < 6; i++) {
    fixture_advance_ms(&f, 10);
    ASSERT_U64(rows[i], look_at(f.s, id).info.failures);
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* The failure of the last run is the outcome, whatever ended the task, even if the loop notices
 * late that the next run would be after the end time. */
TEST the_failure_of_the_last_run_is_the_outcome(void) {
  enum { RUNS, UNTIL, LOOP_LATE, RUNNERS_LATE, END };

  for (int way = RUNS; way < END; way++)
    for (int fails = 0; fails < 2; fails++)
      for (int done = 0; done < 2; done++) {
        struct fixture f;
        uvs_id_t id;

        CHECK_CALL(open_with(&f, 1));
        uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_MS(100));
        t.failure_policy = UVS_FAIL_CONTINUE;
        t.missed_policy = UVS_MISSED_SKIP;
        t.keep_outcome = 1;
        if (!done)
          t.done = NULL;
        if (way == RUNS)
          t.max_runs = 2;
        else
          t.until_ns = UVS_MS(way == UNTIL ? 150 : 250);
        follow_script(&t, fails ? "xx" : "x.");
        ASSERT_RC(0, uvs_submit(f.s, &t, &id));
        fixture_advance_ms(&f, 100);
        if (way == LOOP_LATE)
          fixture_jump_ms(&f, 200);
        if (way == RUNNERS_LATE) {
          fakepool_hold();
          fixture_advance_ms(&f, 100);
          vclock_advance_ns(&f.clock, UVS_MS(150));
          fakepool_release();
          fixture_turn(&f);
        }
        ASSERT_U64(2, log_count(&f, EV_WORK, 'a'));
        uvs_outcome_t o;
        uvs_outcome_init(&o);
        ASSERT_RC(0, uvs_wait(f.s, id, 0, 0, &o));
        ASSERT_RC(fails ? UV_EIO : 0, o.status);
        if (done)
          ASSERT_RC(o.status, done_status(&f, 'a'));
        /* Each failure was reported, and none twice except where the task was meant to go on. */
        ASSERT_U64(1 + fails * (!done || way >= LOOP_LATE), log_count(&f, EV_ERROR, 'a'));
        ASSERT_U64(fails, counts_of(f.s).failed);
        ASSERT_U64(!fails, counts_of(f.s).completed);
        ASSERT_RC(0, uvs_forget(f.s, id));
        CHECK_CALL(fixture_close(&f));
      }
  PASS();
}

/* The answer of `after` counts for the run, even if `work` returned UVS_STOP. */
TEST a_failure_of_after_is_a_failure_of_the_run(void) {
  for (int stop = 0; stop < 2; stop++) {
    struct fixture f;

    CHECK_CALL(open_with(&f, 1));
    uvs_task_t go = fixture_rate(&f, 'g', 0, UVS_MS(100));
    uvs_task_t again = make_retry(fixture_once(&f, 'r', 0), UVS_MS(10), 0);
    go.failure_policy = UVS_FAIL_CONTINUE;
    go.max_failures = 3;
    again.max_failures = 3;
    go.after = again.after = probe_after;
    probe_of(&go)->ret = probe_of(&again)->ret = stop ? UVS_STOP : 0;
    probe_of(&go)->after_ret = probe_of(&again)->after_ret = UV_EPIPE;
    ASSERT_RC(0, uvs_submit(f.s, &go, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &again, NULL));
    fixture_advance_ms(&f, 1000);
    ASSERT_STR_EQ("0 100 200", log_runs(&f, EV_WORK, 'g'));
    ASSERT_STR_EQ("0 10 30", log_runs(&f, EV_WORK, 'r'));
    for (const char *tag = "gr"; *tag != 0; tag++) {
      ASSERT_RC(UV_EPIPE, done_status(&f, *tag));
      ASSERT_U64(2, log_count(&f, EV_ERROR, *tag)); /* `after` did not see, but make it */
      ASSERT_RC(UV_EPIPE, log_nth(&f, EV_ERROR, *tag, 0)->status);
      ASSERT_RC(0, log_nth(&f, EV_AFTER, *tag, 0)->status);
    }
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* ------------------------------------------------------------- who sees it --- */

enum shape { WORK, WORK_AFTER, AFTER_FAILS, LOOP, PENDING, SHAPES };

#define FAILURES 3

static int act_pend_once(struct probe *p, uvs_run_t *run) {
  p->id = run->id;
  return UVS_PENDING;
}

static uvs_task_t shaped(struct fixture *f, enum shape shape, bool done, int failure) {
  uvs_task_t t =
      shape == LOOP ? fixture_loop_task(f, 'a', 0) : fixture_rate(f, 'a', 0, UVS_MS(100));

  t.kind = UVS_FIXED_RATE;
  t.period_ns = UVS_MS(100);
  t.failure_policy = failure;
  if (failure != UVS_FAIL_STOP)
    t.max_failures = FAILURES;
  if (failure == UVS_FAIL_RETRY)
    t.retry.wait_ns = UVS_MS(10);
  if (!done)
    t.done = NULL;
  if (shape == WORK_AFTER || shape == AFTER_FAILS)
    t.after = probe_after;
  if (shape == AFTER_FAILS)
    probe_of(&t)->after_ret = UV_EIO;
  else if (shape == PENDING)
    probe_of(&t)->act = act_pend_once;
  else
    probe_of(&t)->ret = UV_EIO;
  return t;
}

/* V4 R25 R26. Each failed run is reported to exactly one callback: to `after`, or for the last run
 * to `done`, or else to the error hook. */
TEST each_failure_is_reported_exactly_once(void) {
  for (int shape = WORK; shape < SHAPES; shape++)
    for (int done = 0; done < 2; done++)
      for (int failure = UVS_FAIL_STOP; failure <= UVS_FAIL_RETRY; failure++)
        for (int concurrency = 0; concurrency < 3; concurrency++) {
          unsigned runs = failure == UVS_FAIL_STOP ? 1 : FAILURES;
          unsigned by_after = shape == WORK_AFTER ? runs : 0;
          unsigned by_done = done ? 1 : 0;
          struct fixture f;

          CHECK_CALL(open_with(&f, concurrency));
          uvs_task_t t = shaped(&f, (enum shape)shape, done, failure);
          ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
          for (int i = 0; i < 50; i++) {
            fixture_advance_ms(&f, 10);
            if (shape == PENDING)
              uvs_finish(f.s, probe_of(&t)->id, UV_EIO);
          }
          ASSERT_U64(runs, log_count(&f, shape == LOOP ? EV_AFTER : EV_WORK, 'a'));
          for (unsigned i = 0; i < by_after; i++)
            ASSERT_RC(UV_EIO, log_nth(&f, EV_AFTER, 'a', i)->status);
          ASSERT_U64(by_done, log_count(&f, EV_DONE, 'a'));
          if (done)
            ASSERT_RC(UV_EIO, done_status(&f, 'a'));
          ASSERT_U64(by_after > 0 ? 0 : runs - by_done, log_count(&f, EV_ERROR, 'a'));
          for (unsigned i = 0; i < log_count(&f, EV_ERROR, 'a'); i++) {
            ASSERT_RC(UV_EIO, log_nth(&f, EV_ERROR, 'a', i)->status);
            ASSERT(log_nth(&f, EV_ERROR, 'a', i)->on_loop);
          }
          ASSERT_U64(0, live_tasks(f.s));
          ASSERT_U64(1, counts_of(f.s).failed);
          CHECK_CALL(fixture_close(&f));
        }
  PASS();
}

/* The same sequence without an error hook. */
TEST without_an_error_hook_nothing_else_changes(void) {
  for (int shape = WORK; shape < PENDING; shape++)
    for (int failure = UVS_FAIL_STOP; failure <= UVS_FAIL_RETRY; failure++) {
      struct fixture f;

      fixture_init(&f);
      f.options.on_error = NULL;
      CHECK_CALL(fixture_open_turned(&f));
      uvs_task_t t = shaped(&f, (enum shape)shape, true, failure);
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
      fixture_advance_ms(&f, 500);
      ASSERT_U64(failure == UVS_FAIL_STOP ? 1 : FAILURES,
                 log_count(&f, shape == LOOP ? EV_AFTER : EV_WORK, 'a'));
      ASSERT_RC(UV_EIO, done_status(&f, 'a'));
      CHECK_CALL(fixture_close(&f));
    }
  PASS();
}

/* The hook is called before the next run, however soon that is. */
TEST the_error_hook_is_called_before_the_next_run(void) {
  struct fixture f;

  CHECK_CALL(open_with(&f, 1));
  uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_MS(10));
  t.failure_policy = UVS_FAIL_CONTINUE;
  t.max_failures = 5;
  probe_of(&t)->ret = UV_EIO;
  vclock_advance_ns(&f.clock, UVS_MS(200));
  t.from = UVS_FROM_MONOTONIC;
  t.first_ns = VCLOCK_START_NS; /* all of them are due at once */
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  for (unsigned i = 0; i < 9; i++)
    ASSERT_RC(i % 2 == 0 ? EV_WORK : EV_ERROR, log_nth(&f, (enum event_kind)0, 'a', i)->what);
  ASSERT_U64(10, log_total(&f));
  ASSERT_RC(UV_EIO, done_status(&f, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* F9 F12. The task is cancelled during its run: the run's answer is discarded. */
TEST a_failure_in_a_cancelled_run_is_not_reported(void) {
  for (int failure = UVS_FAIL_STOP; failure <= UVS_FAIL_RETRY; failure++)
    for (int shape = 0; shape < 2; shape++) {
      struct fixture f;
      uvs_id_t id;

      CHECK_CALL(open_with(&f, 1));
      uvs_task_t t = shaped(&f, PENDING, true, failure);
      if (shape == 1)
        t.after = probe_after;
      ASSERT_RC(0, uvs_submit(f.s, &t, &id));
      fixture_turn(&f);
      ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, uvs_cancel(f.s, id, 0));
      ASSERT_RC(0, uvs_finish(f.s, id, UV_EIO));
      fixture_advance_ms(&f, 500);
      ASSERT_U64(0, log_count(&f, EV_ERROR, 0));
      ASSERT_RC(UV_ECANCELED, done_status(&f, 'a'));
      ASSERT_U64(1, log_count(&f, EV_WORK, 'a'));
      CHECK_CALL(fixture_close(&f));
    }
  PASS();
}

/* V4. A run failed and the task was to go on. Then the task was ended: before the loop knew of the
 * failure, or just before the loop called the hook. The failure is reported nevertheless. */
TEST a_failure_is_reported_even_if_the_task_ends_before_the_hook_was_called(void) {
  enum { ON_LOOP, ELSEWHERE, LISTED, SHUTDOWN, NOW, END };

  for (int by = ON_LOOP; by < END; by++)
    for (int failure = UVS_FAIL_CONTINUE; failure <= UVS_FAIL_RETRY; failure++)
      for (int done = 0; done < 2; done++) {
        struct fixture f;
        uvs_id_t id, other;
        int64_t ns;

        CHECK_CALL(open_with(&f, 1));
        uvs_task_t t = shaped(&f, WORK, done, failure);
        t.limit.total_ns = UVS_SEC(10); /* it must not be left behind either */
        ASSERT_RC(0, uvs_submit(f.s, &t, &id));
        fakepool_hold();
        fixture_turn(&f);
        ASSERT(fakepool_step()); /* the run has ended, and the loop has not run since */
        ASSERT_U64(1, log_count(&f, EV_WORK, 'a'));
        if (by == ON_LOOP)
          ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, 0));
        if (by == LISTED)
          ASSERT_RC(0, uvs_next_due(f.s, &ns)); /* takes in what has come */
        if (by == ELSEWHERE || by == LISTED)
          ASSERT_RC(UVS_CANCELLED, cancel_elsewhere(f.s, id));
        if (by == SHUTDOWN)
          ASSERT_RC(0, uvs_shutdown(f.s));
        if (by == NOW)
          ASSERT_RC(0, uvs_shutdown_now(f.s, probe_never_ran, NULL));
        fakepool_release();
        fixture_turn(&f);
        ASSERT_STR_EQ("a", log_string(&f, EV_ERROR));
        ASSERT_RC(UV_EIO, log_nth(&f, EV_ERROR, 'a', 0)->status);
        ASSERT_RC(done ? UV_ECANCELED : INT_MAX, done_status(&f, 'a'));
        ASSERT_U64(0, log_count(&f, EV_NEVER_RAN, 0));
        ASSERT_RC(UV_ENOENT, state_of(f.s, id));
        ASSERT_U64(1, counts_of(f.s).cancelled);
        ASSERT_U64(0, live_tasks(f.s));
        ASSERT_U64(0, inspect_records(f.s)); /* its record is freed */
        ASSERT(inspect_idle(f.s));
        if (by < SHUTDOWN) { /* its slot is as good as new */
          uvs_task_t again = fixture_once(&f, 'b', 0);
          again.limit.total_ns = UVS_SEC(1);
          ASSERT_RC(0, uvs_submit(f.s, &again, &other));
          ASSERT_U64(inspect_slot_of(id), inspect_slot_of(other));
          fixture_advance_ms(&f, 20000);
          ASSERT_RC(0, done_status(&f, 'b'));
        }
        CHECK_CALL(fixture_close(&f));
      }
  PASS();
}

/* S39 S42. A shutdown comes during a run that then fails. A periodic task ends cancelled and its
 * failure is reported. A one-shot that may no longer be retried keeps its failure. */
TEST a_run_that_fails_after_shutdown_is_the_last(void) {
  enum { ORDERLY, NOW, CLOSE, END };

  for (int by = ORDERLY; by < END; by++)
    for (int once = 0; once < 2; once++)
      for (int after = 0; after < 2; after++) {
        struct fixture f;
        uvs_id_t id;
        uvs_t *s;

        fixture_init(&f);
        f.options.delayed_after_shutdown = 0;
        CHECK_CALL(fixture_open_turned(&f));
        uvs_task_t t = once ? fixture_once(&f, 'a', 0) : fixture_rate(&f, 'a', 0, UVS_MS(100));
        t = make_retry(t, UVS_MS(10), 0);
        probe_of(&t)->act = act_pend_once;
        if (after)
          t.after = probe_after;
        ASSERT_RC(0, uvs_submit(f.s, &t, &id));
        fixture_turn(&f);
        s = f.s;
        if (by == ORDERLY)
          ASSERT_RC(0, uvs_shutdown(s));
        else if (by == NOW)
          ASSERT_RC(0, uvs_shutdown_now(s, probe_never_ran, NULL));
        else
          ASSERT_RC(0, uvs_close(s, note_closed));
        fixture_turn(&f);
        ASSERT_U64(0, log_count(&f, EV_DONE, 0));
        ASSERT_RC(0, uvs_finish(s, id, UV_EIO));
        if (by == CLOSE)
          f.s = NULL;
        fixture_turn(&f);
        ASSERT_RC(once ? UV_EIO : UV_ECANCELED, done_status(&f, 'a'));
        ASSERT_U64(!once && !after, log_count(&f, EV_ERROR, 'a'));
        ASSERT_U64(1, log_count(&f, EV_WORK, 'a'));
        ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
        CHECK_CALL(fixture_close(&f));
      }
  PASS();
}

/* --------------------------------------------------------------- bad input --- */

struct fields {
  int kind, failure;
  uint32_t max_failures;
  int64_t retry_ns, retry_max_ns;
  int retry_jitter;
};

static uvs_task_t with_fields(struct fixture *f, const struct fields *x) {
  uvs_task_t t = fixture_once(f, 'x', 0);

  t.kind = x->kind;
  t.period_ns = x->kind == UVS_ONE_SHOT ? 0 : UVS_MS(100);
  t.failure_policy = x->failure;
  t.max_failures = x->max_failures;
  t.retry.wait_ns = x->retry_ns;
  t.retry.max_wait_ns = x->retry_max_ns;
  t.retry.jitter_percent = x->retry_jitter;
  return t;
}

/* V11 */
TEST invalid_failure_policies_are_refused_and_change_nothing(void) {
  enum { S = UVS_FAIL_STOP, G = UVS_FAIL_CONTINUE, R = UVS_FAIL_RETRY };
  static const struct fields bad[] = {
      {UVS_FIXED_RATE, -1, 0, 0, 0, 0},
      {UVS_FIXED_RATE, R + 1, 0, 0, 0, 0},
      {UVS_FIXED_RATE, INT_MAX, 0, 0, 0, 0},
      {UVS_FIXED_RATE, INT_MIN, 0, 0, 0, 0},
      {UVS_FIXED_RATE, S, 1, 0, 0, 0}, /* it ends at the first */
      {UVS_ONE_SHOT, S, 1, 0, 0, 0},
      {UVS_ONE_SHOT, G, 0, 0, 0, 0}, /* to where? */
      {UVS_ONE_SHOT, G, 3, 0, 0, 0},
      {UVS_FIXED_RATE, S, 0, 1, 0, 0}, /* not retried, so no wait */
      {UVS_FIXED_RATE, S, 0, 0, 1, 0},
      {UVS_FIXED_RATE, S, 0, 0, 0, 1},
      {UVS_FIXED_RATE, S, 0, -1, 0, 0},
      {UVS_FIXED_RATE, G, 0, 1, 0, 0},
      {UVS_FIXED_RATE, G, 0, 0, 1, 0},
      {UVS_FIXED_RATE, G, 0, 0, 0, 1},
      {UVS_FIXED_DELAY, G, 0, 0, 0, -1},
      {UVS_ONE_SHOT, R, 0, 0, 0, 0}, /* at once, for ever */
      {UVS_FIXED_RATE, R, 0, -1, 0, 0},
      {UVS_FIXED_RATE, R, 0, INT64_MIN, 0, 0},
      {UVS_ONE_SHOT, R, 0, 10, 9, 0}, /* a bound below the first wait */
      {UVS_ONE_SHOT, R, 0, 10, -1, 0},
      {UVS_ONE_SHOT, R, 0, 10, INT64_MIN, 0},
      {UVS_ONE_SHOT, R, 0, 10, 0, -1},
      {UVS_ONE_SHOT, R, 0, 10, 0, 101},
      {UVS_ONE_SHOT, R, 0, 10, 0, INT_MAX},
      {UVS_ONE_SHOT, R, 0, 10, 0, INT_MIN},
  };
  static const struct fields good[] = {
      {UVS_ONE_SHOT, S, 0, 0, 0, 0},      {UVS_FIXED_RATE, G, 0, 0, 0, 0},
      {UVS_FIXED_DELAY, G, 1, 0, 0, 0},   {UVS_FIXED_RATE, G, UINT32_MAX, 0, 0, 0},
      {UVS_ONE_SHOT, R, 0, 1, 0, 0},      {UVS_FIXED_RATE, R, 1, 1, 1, 100},
      {UVS_FIXED_DELAY, R, 0, 10, 10, 1}, {UVS_ONE_SHOT, R, UINT32_MAX, INT64_MAX, INT64_MAX, 100},
  };
  struct fixture f;
  uvs_counts_t before, now;

  CHECK_CALL(open_with(&f, 1));
  before = counts_of(f.s);
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    uvs_task_t t = with_fields(&f, &bad[i]);
    uvs_task_t two[2] = {with_fields(&f, &good[0]), t};
    uvs_id_t ids[2] = {UNTOUCHED, UNTOUCHED};

    ASSERT_RC(UV_EINVAL, uvs_submit(f.s, &t, &ids[0]));
    ASSERT_RC(UV_EINVAL, submit_elsewhere(f.s, t, NULL));
    ASSERT_RC(UV_EINVAL, uvs_submit_many(f.s, two, 2, ids));
    ASSERT_U64(UNTOUCHED, ids[0]);
    ASSERT_U64(UNTOUCHED, ids[1]);
    fixture_turn(&f);
    now = counts_of(f.s);
    ASSERT_MEM_EQ(&before, &now, sizeof now);
  }
  ASSERT_U64(0, log_total(&f));
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    uvs_task_t t = with_fields(&f, &good[i]);

    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L19. A caller compiled before these fields existed. */
TEST an_older_spec_stops_at_its_first_failure(void) {
  struct fixture f;

  CHECK_CALL(open_with(&f, 1));
  uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_MS(10));
  probe_of(&t)->ret = UV_EIO;
  t.failure_policy = UVS_FAIL_CONTINUE; /* beyond its end: not looked at */
  t.size = offsetof(uvs_task_t, failure_policy);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ms(&f, 100);
  ASSERT_STR_EQ("0", log_runs(&f, EV_WORK, 'a'));
  ASSERT_RC(UV_EIO, done_status(&f, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L10 */
TEST submit_fails_cleanly_at_every_allocation(void) {
  static const int filled[] = {0, 64, 192};

  for (int i = 0; i < 3; i++)
    for (int limit = 0; limit < 2; limit++) {
      struct fixture f;
      uvs_counts_t before, now;
      uvs_id_t id = UNTOUCHED;
      long n;

      CHECK_CALL(open_with(&f, 1));
      for (int k = 0; k < filled[i]; k++) {
        uvs_task_t far = make_retry(fixture_once(&f, 'f', UVS_DAY(1)), 1, 0);
        ASSERT_RC(0, uvs_submit(f.s, &far, NULL));
      }
      uvs_task_t t = make_retry(fixture_once(&f, 'a', 0), UVS_MS(10), 0);
      t.retry.max_wait_ns = UVS_MS(15);
      t.limit.total_ns = limit ? UVS_SEC(1) : 0;
      follow_script(&t, "xx.");
      before = counts_of(f.s);
      for (n = 0; n < 100; n++) {
        fault_after(n);
        int rc = uvs_submit(f.s, &t, &id);
        bool failed = fault_hit();
        ASSERT_RC(failed ? UV_ENOMEM : 0, rc);
        if (!failed)
          break;
        now = counts_of(f.s);
        now.slots = before.slots; /* room that was made may stay */
        ASSERT_MEM_EQ(&before, &now, sizeof now);
        ASSERT_U64(UNTOUCHED, id);
      }
      ASSERT(n >= 2 && n < 100);
      fixture_advance_ms(&f, 100);
      ASSERT_STR_EQ("0 10 25", log_runs(&f, EV_WORK, 'a')); /* no allocation failed on the way */
      ASSERT_RC(0, done_status(&f, 'a'));
      CHECK_CALL(fixture_close(&f));
    }
  PASS();
}

SUITE(policies) {
  RUN_TEST(by_default_the_first_failure_ends_a_task);
  RUN_TEST(with_fail_continue_the_next_run_follows_as_after_a_success);
  RUN_TEST(max_failures_consecutive_failures_end_the_task);
  RUN_TEST(info_shows_the_number_of_consecutive_failures);
  RUN_TEST(the_failure_of_the_last_run_is_the_outcome);
  RUN_TEST(a_failure_of_after_is_a_failure_of_the_run);
}

SUITE(who_sees_it) {
  RUN_TEST(each_failure_is_reported_exactly_once);
  RUN_TEST(without_an_error_hook_nothing_else_changes);
  RUN_TEST(the_error_hook_is_called_before_the_next_run);
  RUN_TEST(a_failure_in_a_cancelled_run_is_not_reported);
  RUN_TEST(a_failure_is_reported_even_if_the_task_ends_before_the_hook_was_called);
  RUN_TEST(a_run_that_fails_after_shutdown_is_the_last);
}

SUITE(input) {
  RUN_TEST(invalid_failure_policies_are_refused_and_change_nothing);
  RUN_TEST(an_older_spec_stops_at_its_first_failure);
  RUN_TEST(submit_fails_cleanly_at_every_allocation);
}

TEST_MAIN(RUN_SUITE(policies); RUN_SUITE(who_sees_it); RUN_SUITE(input));
