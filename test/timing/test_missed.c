/* SPDX-License-Identifier: MIT
 *
 * Points of the grid that pass without a run: who is told, when, and why they passed. A script says
 * how each run ends: "xx." fails twice and then succeeds.
 */
#include <limits.h>

#include "lib/bodies.h"
#include "lib/fixture.h"
#include "lib/threads.h"

#define TOLD 1024

/* What the hook was told. The log has it too, as EV_USER 'm' with the count as its status. */
static struct {
  struct {
    uvs_id_t id;
    uint64_t count;
    int reason;
    int64_t at_ns;
  } all[TOLD];
  unsigned n;
} told;

static void note_missed(uvs_t *s, uvs_id_t id, uint64_t count, int reason, void *arg) {
  struct fixture *f = uvs_data(s);
  struct probe *p = arg; /* the task's */

  log_add(f, EV_USER, p >= f->probes && p < f->probes + PROBES ? 'm' : '?', id, (int)count);
  told.all[told.n % TOLD].id = id;
  told.all[told.n % TOLD].count = count;
  told.all[told.n % TOLD].reason = reason;
  told.all[told.n++ % TOLD].at_ns = uvs_now(s);
}

static enum greatest_test_res open_with(struct fixture *f, int concurrency) {
  memset(&told, 0, sizeof told);
  fixture_init(f);
  f->options.concurrency = concurrency;
  f->hooks.on_missed = note_missed;
  CHECK_CALL(fixture_open_turned(f));
  PASS();
}

/* ------------------------------------------------------------ missed points --- */

enum cause { OVERLAP, LOOP, RUNNERS, SUBMIT, CAUSES };

static int act_slow_first(struct probe *p, uvs_run_t *run) {
  if (run->number == 1)
    vclock_advance_ns(&p->f->clock, UVS_MS(350));
  return 0;
}

/* Three points of the grid pass: 100, 200 and 300. */
static void let_points_pass(struct fixture *f, enum cause cause) {
  fixture_turn(f); /* OVERLAP: the first run takes until 350 */
  if (cause == LOOP)
    fixture_jump_ms(f, 350);
  if (cause == RUNNERS) {
    fakepool_hold();
    fixture_advance_ms(f, 100);
    vclock_advance_ns(&f->clock, UVS_MS(250));
    fakepool_release();
    fixture_turn(f);
  }
}

/* V3. For each policy and each reason: the hook is told the count and the reason before the next
 * run. */
TEST missed_points_are_reported_with_their_reason(void) {
  static const int reasons[] = {UVS_LATE_OVERLAP, UVS_LATE_LOOP, UVS_LATE_RUNNERS, UVS_LATE_SUBMIT};
  static const struct {
    int missed;
    uint32_t max_burst;
    int count;
    const char *order[2]; /* if it was due before it was submitted, there is no run at 0 */
  } ways[] = {
      {UVS_MISSED_CATCH_UP, 0, 0, {"wwww", "wwww"}}, /* they all have their run */
      {UVS_MISSED_CATCH_UP, 1, 2, {"wwm", "wm"}},    /* the newest has one */
      {UVS_MISSED_ONCE, 0, 2, {"wwm", "wm"}},        /* and so does the oldest, for the others */
      {UVS_MISSED_SKIP, 0, 3, {"wm", "m"}},          /* the next one is at 400 */
  };

  for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
    for (int cause = OVERLAP; cause < CAUSES; cause++) {
      /* SUBMIT: the point at 0 has passed, too. */
      int count = ways[i].count + (cause == SUBMIT && ways[i].count > 0);
      struct fixture f;
      uvs_id_t id;

      CHECK_CALL(open_with(&f, 1));
      uvs_task_t t = fixture_rate(&f, 'w', 0, UVS_MS(100));
      t.missed_policy = ways[i].missed;
      t.max_burst = ways[i].max_burst;
      if (cause == OVERLAP)
        probe_of(&t)->act = act_slow_first;
      if (cause == SUBMIT) {
        vclock_advance_ns(&f.clock, UVS_MS(350));
        t.from = UVS_FROM_MONOTONIC;
        t.first_ns = VCLOCK_START_NS;
      }
      ASSERT_RC(0, uvs_submit(f.s, &t, &id));
      let_points_pass(&f, (enum cause)cause);
      ASSERT_STR_EQ(ways[i].order[cause == SUBMIT], log_string(&f, (enum event_kind)0));
      ASSERT_RC(count, log_nth(&f, EV_USER, 'm', 0)->status);
      if (count > 0) {
        ASSERT_RC(reasons[cause], told.all[0].reason);
        ASSERT_U64(id, log_nth(&f, EV_USER, 'm', 0)->id);
        ASSERT(log_nth(&f, EV_USER, 'm', 0)->on_loop);
      }
      ASSERT_U64(count, look_at(f.s, id).info.missed);
      ASSERT_U64(count, counts_of(f.s).missed);
      fixture_advance_ms(&f, 100);
      ASSERT_U64(told.n, count > 0); /* told once */
      CHECK_CALL(fixture_close(&f));
    }
  PASS();
}

/* The reported points add up to the counted ones, whatever happens to the task and to the loop. */
TEST reported_missed_points_add_up_to_the_count(void) {
  uint64_t random = test_seed;

  for (int round = 0; round < 20; round++) {
    struct fixture f;
    uint64_t sum = 0;
    uvs_id_t ids[6];

    CHECK_CALL(open_with(&f, (int)test_random_below(&random, 3)));
    for (int i = 0; i < 6; i++) {
      uvs_task_t t = fixture_rate(&f, 'w', 0, UVS_MS(10));
      t.missed_policy = i % 3;
      t.max_burst = i == 3 ? 2 : 0;
      t.failure_policy = i < 3 ? UVS_FAIL_CONTINUE : UVS_FAIL_RETRY;
      t.retry.wait_ns = i < 3 ? 0 : UVS_MS(7);
      follow_script(&t, "x.xx...xxxx.x......");
      probe_of(&t)->takes_ns = i == 5 ? UVS_MS(12) : 0; /* it skips */
      ASSERT_RC(0, uvs_submit(f.s, &t, &ids[i]));
    }
    for (int i = 0; i < 60; i++) {
      switch (test_random_below(&random, 4)) {
      case 0:
        fixture_jump_ms(&f, (int64_t)test_random_below(&random, 60));
        break;
      case 1:
        fakepool_hold();
        fixture_advance_ms(&f, 10);
        vclock_advance_ns(&f.clock, UVS_MS((int64_t)test_random_below(&random, 60)));
        fakepool_release();
        break;
      case 2:
        uvs_reschedule(f.s, ids[test_random_below(&random, 6)],
                       UVS_MS((int64_t)test_random_below(&random, 30)));
        break;
      default:
        fixture_advance_ms(&f, (int64_t)test_random_below(&random, 60));
      }
    }
    ASSERT_RC(0, uvs_shutdown_now(f.s, NULL, NULL));
    fixture_turn(&f);
    for (unsigned i = 0; i < log_count(&f, EV_USER, 'm'); i++)
      sum += (uint64_t)log_nth(&f, EV_USER, 'm', i)->status;
    ASSERT(sum > 0);
    ASSERT_U64(counts_of(f.s).missed, sum);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* The task ends before its missed points were reported. They are still reported, and before
 * `done`. */
TEST missed_points_are_reported_before_done(void) {
  enum { LAST_RUN, CANCEL, ELSEWHERE, LISTED, NOW, END };

  for (int by = LAST_RUN; by < END; by++)
    for (int done = 0; done < 2; done++) {
      struct fixture f;
      uvs_id_t id;
      int64_t ns;

      CHECK_CALL(open_with(&f, 1));
      uvs_task_t t = fixture_rate(&f, 'w', 0, UVS_MS(100));
      t.missed_policy = UVS_MISSED_ONCE;
      t.max_runs = by == LAST_RUN ? 2 : 0;
      if (!done)
        t.done = NULL;
      ASSERT_RC(0, uvs_submit(f.s, &t, &id));
      fixture_turn(&f);
      fakepool_hold();
      fixture_jump_ms(&f, 350);
      ASSERT(fakepool_step()); /* the second run has ended, and the loop has not run since */
      if (by == CANCEL)
        ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, 0));
      if (by == LISTED)
        ASSERT_RC(0, uvs_next_due(f.s, &ns)); /* takes in what has come */
      if (by == ELSEWHERE || by == LISTED)
        ASSERT_RC(UVS_CANCELLED, cancel_elsewhere(f.s, id));
      if (by == NOW)
        ASSERT_RC(0, uvs_shutdown_now(f.s, NULL, NULL));
      fakepool_release();
      fixture_turn(&f);
      ASSERT_STR_EQ(by == NOW ? done ? "wwmwt" : "wwmt"
                    : done    ? "wwmw"
                              : "wwm",
                    log_string(&f, (enum event_kind)0));
      ASSERT_RC(2, log_nth(&f, EV_USER, 'm', 0)->status);
      ASSERT_RC(done ? by == LAST_RUN ? 0 : UV_ECANCELED : INT_MAX, done_status(&f, 'w'));
      ASSERT_U64(0, live_tasks(f.s));
      CHECK_CALL(fixture_close(&f));
    }
  PASS();
}

/* -------------------------------------------------------- back to the grid --- */

/* V3 V4. Points that pass during retries are missed under every policy. The next run is on the
 * grid. */
TEST after_a_retry_that_succeeds_the_task_is_back_on_its_grid(void) {
  static const struct {
    const char *script, *runs;
    uint64_t missed;
  } cases[] = {
      {"x.", "0 30 100 200 300 400 500 600", 0},
      {".xx.", "0 100 130 190 200 300 400 500 600", 0},
      {"xxx.", "0 30 90 210 300(300+2) 400 500 600", 2},
      {"xxx.xxx.", "0 30 90 210 300(300+2) 330 390 510 600(600+2)", 4},
  };

  for (int missed = UVS_MISSED_CATCH_UP; missed <= UVS_MISSED_SKIP; missed++)
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
      struct fixture f;
      uvs_id_t id;
      uint64_t sum = 0;

      CHECK_CALL(open_with(&f, (int)i % 3));
      uvs_task_t t = retried(fixture_rate(&f, 'a', 0, UVS_MS(100)), UVS_MS(30), cases[i].script);
      t.missed_policy = missed;
      ASSERT_RC(0, uvs_submit(f.s, &t, &id));
      fixture_advance_ms(&f, 600);
      ASSERT_STR_EQ(cases[i].runs, log_runs(&f, EV_WORK, 'a'));
      ASSERT_U64(cases[i].missed, look_at(f.s, id).info.missed);
      ASSERT_U64(cases[i].missed, counts_of(f.s).missed);
      ASSERT_U64(cases[i].missed / 2, told.n);
      for (unsigned k = 0; k < told.n; k++) {
        ASSERT_RC(UVS_LATE_RETRY, told.all[k].reason);
        ASSERT_U64(2, told.all[k].count);
        ASSERT_U64(id, told.all[k].id);
        ASSERT_I64(k == 0 ? 210 : 510, fixture_ms(&f, told.all[k].at_ns));
        sum += told.all[k].count;
      }
      ASSERT_U64(cases[i].missed, sum);
      CHECK_CALL(fixture_close(&f));
    }
  PASS();
}

/* Points that passed before the failure are missed as well, and counted once: points that were
 * merged into the failed run are not counted again. */
TEST points_from_before_the_failure_are_counted_once(void) {
  for (int missed = UVS_MISSED_CATCH_UP; missed <= UVS_MISSED_ONCE; missed++) {
    bool merged = missed == UVS_MISSED_ONCE;
    struct fixture f;
    uvs_id_t id;

    CHECK_CALL(open_with(&f, 1));
    uvs_task_t t = retried(fixture_rate(&f, 'a', 0, UVS_MS(100)), UVS_MS(10), ".x.");
    t.missed_policy = missed;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_turn(&f);
    fixture_jump_ms(&f, 350); /* 100, 200 and 300 have passed */
    fixture_advance_ms(&f, 100);
    ASSERT_STR_EQ(merged ? "0 350(100+2) 360 400" : "0 350(100) 360 400(400+2)",
                  log_runs(&f, EV_WORK, 'a'));
    ASSERT_U64(2, counts_of(f.s).missed);
    ASSERT_U64(1, told.n);
    ASSERT_U64(2, told.all[0].count);
    ASSERT_RC(merged ? UVS_LATE_LOOP : UVS_LATE_RETRY, told.all[0].reason);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* A retry that ends exactly on a point does not miss that point. */
TEST a_retry_that_ends_on_a_grid_point_does_not_miss_it(void) {
  struct fixture f;

  CHECK_CALL(open_with(&f, 1));
  uvs_task_t t = retried(fixture_rate(&f, 'a', 0, UVS_MS(100)), UVS_MS(90), "x.");
  probe_of(&t)->takes_ns = UVS_MS(5); /* 0-5, 95-100 */
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ms(&f, 210);
  ASSERT_STR_EQ("0 95 100 200", log_runs(&f, EV_WORK, 'a'));
  ASSERT_U64(0, counts_of(f.s).missed);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* Points missed before a run that could not start are reported to the next run. */
TEST a_run_that_never_started_hides_no_missed_points(void) {
  struct fixture f;

  CHECK_CALL(open_with(&f, 1));
  uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_MS(100));
  t.missed_policy = UVS_MISSED_SKIP;
  t.failure_policy = UVS_FAIL_CONTINUE;
  t.limit.total_ns = UVS_MS(50);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  fixture_jump_ms(&f, 350); /* 100, 200 and 300 are left out */
  fakepool_hold();
  fixture_advance_ms(&f, 110); /* 400 finds no runner, and its limit passes */
  fakepool_release();
  ASSERT_RC(UV_ETIMEDOUT, log_nth(&f, EV_ERROR, 'a', 0)->status);
  fixture_advance_ms(&f, 100);
  ASSERT_STR_EQ("0 500(500+3)", log_runs(&f, EV_WORK, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ------------------------------------------------------------- many threads --- */

static struct {
  _Atomic unsigned before, after, failed, errors, failed_ends, cancelled_ends, missed, over;
} tally;

static void tally_before(uvs_run_t *run) {
  (void)run;
  atomic_fetch_add(&tally.before, 1);
}

static void tally_after(uvs_run_t *run, int status) {
  (void)run;
  atomic_fetch_add(&tally.after, 1);
  if (status < 0)
    atomic_fetch_add(&tally.failed, 1);
}

static void tally_missed(uvs_t *s, uvs_id_t id, uint64_t count, int reason, void *arg) {
  (void)s;
  (void)id;
  (void)reason;
  (void)arg;
  atomic_fetch_add(&tally.missed, (unsigned)count);
}

static void tally_error(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)s;
  (void)id;
  (void)status;
  (void)arg;
  atomic_fetch_add(&tally.errors, 1);
}

static void tally_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)s;
  (void)id;
  (void)arg;
  atomic_fetch_add(&tally.over, 1);
  if (status == UV_ECANCELED)
    atomic_fetch_add(&tally.cancelled_ends, 1);
  else if (status < 0)
    atomic_fetch_add(&tally.failed_ends, 1);
}

static int work_fails_often(uvs_run_t *run) {
  return run->number % 3 == 0 ? 0 : UV_EIO;
}

#define CROWD 60

struct crowd {
  uvs_t *s;
  uvs_id_t ids[CROWD];
};

/* Reschedules and cancels tasks while they run, fail, and wait to be retried. */
static int meddle(void *arg) {
  struct crowd *c = arg;
  uint64_t random = test_seed;

  for (int i = 0; i < 3000; i++) {
    uvs_id_t id = c->ids[test_random_below(&random, CROWD)];

    if (test_random_below(&random, 100) == 0)
      uvs_cancel(c->s, id, 0);
    else
      uvs_reschedule(c->s, id, (int64_t)test_random_below(&random, 3000));
  }
  return 0;
}

/* V4 S64. Every failure is reported once, except failures of runs that were cancelled while they
 * ran. */
TEST no_failure_and_no_missed_point_is_lost_between_threads(void) {
  struct errand e;
  struct fixture f;
  struct crowd c;
  uv_thread_t thread;
  unsigned unseen;

  memset(&tally, 0, sizeof tally);
  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.options.concurrency = 3;
  f.options.on_error = tally_error;
  f.hooks.on_missed = tally_missed;
  f.hooks.before_body = tally_before;
  f.hooks.after_body = tally_after;
  CHECK_CALL(fixture_open_turned(&f));
  c.s = f.s;
  for (int i = 0; i < CROWD; i++) {
    uvs_task_t t;

    uvs_task_init(&t);
    t.kind = i % 3;
    t.period_ns = t.kind == UVS_ONE_SHOT ? 0 : 1000;
    t.missed_policy = t.kind == UVS_FIXED_RATE ? i / 3 % 3 : 0;
    t.work = work_fails_often;
    t.done = tally_done;
    t.failure_policy = t.kind != UVS_ONE_SHOT && i % 2 == 0 ? UVS_FAIL_CONTINUE : UVS_FAIL_RETRY;
    t.retry.wait_ns = t.failure_policy == UVS_FAIL_RETRY ? 500 : 0;
    t.max_runs = t.kind == UVS_ONE_SHOT ? 0 : 100;
    ASSERT_RC(0, uvs_submit(f.s, &t, &c.ids[i]));
  }
  e = (struct errand){meddle, &c, 0};
  ASSERT_RC(0, uv_thread_create(&thread, errand_main, &e));
  for (int i = 0; i < 1000000 && atomic_load(&tally.over) < CROWD; i++)
    fixture_jump_ns(&f, 1000);
  uv_thread_join(&thread);
  ASSERT_U64(CROWD, atomic_load(&tally.over));
  ASSERT_U64(counts_of(f.s).runs, atomic_load(&tally.before));
  ASSERT_U64(counts_of(f.s).runs, atomic_load(&tally.after));
  ASSERT_U64(counts_of(f.s).missed, atomic_load(&tally.missed));
  ASSERT_U64(counts_of(f.s).failed, atomic_load(&tally.failed_ends));
  unseen =
      atomic_load(&tally.failed) - atomic_load(&tally.errors) - atomic_load(&tally.failed_ends);
  ASSERT(unseen <= atomic_load(&tally.cancelled_ends));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(hook) {
  RUN_TEST(missed_points_are_reported_with_their_reason);
  RUN_TEST(reported_missed_points_add_up_to_the_count);
  RUN_TEST(missed_points_are_reported_before_done);
  RUN_TEST(no_failure_and_no_missed_point_is_lost_between_threads);
}

SUITE(grid) {
  RUN_TEST(after_a_retry_that_succeeds_the_task_is_back_on_its_grid);
  RUN_TEST(points_from_before_the_failure_are_counted_once);
  RUN_TEST(a_retry_that_ends_on_a_grid_point_does_not_miss_it);
  RUN_TEST(a_run_that_never_started_hides_no_missed_points);
}

TEST_MAIN(RUN_SUITE(hook); RUN_SUITE(grid));
