/* SPDX-License-Identifier: MIT
 *
 * plan: does another run follow, and when? A table of ends of runs for each kind and each policy,
 * then jitter, then long random sequences. Their model does no division: it walks along the grid
 * point by point.
 *
 * Needs: src/task/{plan,recur}.c test/lib/fault.c
 */
#include "task/plan.h"

#include <string.h>

#include "lib/unit.h"

#define N(array) (sizeof(array) / sizeof(array)[0])
#define NEVER UVS__NEVER
#define SEED 12345

/* ---- one end of a run ---- */

struct row {
  const char *what;
  /* The task. */
  int kind, policy, failure;
  uint64_t period_ns, until_ns;
  uint32_t max_runs, max_failures;
  /* Its run. */
  uint32_t runs, failures; /* this one counts in runs, not yet in failures */
  uint64_t grid_ns;
  uint64_t ideal_ns, merged;
  int status;
  uint64_t end_ns, over_ns;
  uint64_t wall_ns; /* 0: not of the wall clock */
  /* What is expected. */
  bool goes_on;
  uint64_t due_ns, missed;
  int reason;
  uint32_t failures_then;
  uint64_t grid_then_ns;
};

enum { CATCH_UP = UVS_MISSED_CATCH_UP, MERGE = UVS_MISSED_ONCE, SKIP = UVS_MISSED_SKIP };
enum { STOP = UVS_FAIL_STOP, GO_ON = UVS_FAIL_CONTINUE, RETRY = UVS_FAIL_RETRY };

/* The first wait of a retry is 10, the longest 35, without jitter. */
static const struct row rows[] = {
#define TASK(k, p, f, period, until, max_r, max_f) \
  .kind = (k), .policy = (p), .failure = (f), .period_ns = (period), .until_ns = (until), \
  .max_runs = (max_r), .max_failures = (max_f)
#define RUN(r, fs, ideal, m, st, end, over) \
  .runs = (r), .failures = (fs), .ideal_ns = (ideal), .merged = (m), .status = (st), \
  .end_ns = (end), .over_ns = (over)
#define ENDS(f) .goes_on = false, .failures_then = (f)
#define NEXT(due, f) .goes_on = true, .due_ns = (due), .failures_then = (f)
#define MISSED(n, why) .missed = (n), .reason = (why)

    {"a one-shot ends with its success", TASK(UVS_ONE_SHOT, 0, STOP, 0, NEVER, 0, 0),
     RUN(1, 0, 50, 0, 0, 60, 61), ENDS(0)},
    {"a one-shot ends with its failure", TASK(UVS_ONE_SHOT, 0, STOP, 0, NEVER, 0, 0),
     RUN(1, 0, 50, 0, UV_EIO, 60, 61), ENDS(1)},
    {"a one-shot is retried from the end of its body", TASK(UVS_ONE_SHOT, 0, RETRY, 0, NEVER, 0, 0),
     RUN(1, 0, 50, 0, UV_EIO, 60, 65), NEXT(70, 1)},
    {"the second wait is twice the first", TASK(UVS_ONE_SHOT, 0, RETRY, 0, NEVER, 0, 0),
     RUN(2, 1, 50, 0, UV_EIO, 60, 65), NEXT(80, 2)},
    {"the third is the longest that is allowed", TASK(UVS_ONE_SHOT, 0, RETRY, 0, NEVER, 0, 0),
     RUN(3, 2, 50, 0, UV_EIO, 60, 65), NEXT(95, 3)},
    {"so is any later one", TASK(UVS_ONE_SHOT, 0, RETRY, 0, NEVER, 0, 0),
     RUN(90, 80, 50, 0, UV_EIO, 60, 65), NEXT(95, 81)},
    {"the count of failures does not overflow", TASK(UVS_ONE_SHOT, 0, RETRY, 0, NEVER, 0, 0),
     RUN(90, UINT32_MAX, 50, 0, UV_EIO, 60, 65), NEXT(95, UINT32_MAX)},
    {"a retried one-shot ends with its success", TASK(UVS_ONE_SHOT, 0, RETRY, 0, NEVER, 0, 0),
     RUN(4, 3, 50, 0, 0, 60, 65), ENDS(0)},
    {"no retry after the end time", TASK(UVS_ONE_SHOT, 0, RETRY, 0, 69, 0, 0),
     RUN(1, 0, 50, 0, UV_EIO, 60, 65), ENDS(1)},
    {"a retry at the end time", TASK(UVS_ONE_SHOT, 0, RETRY, 0, 70, 0, 0),
     RUN(1, 0, 50, 0, UV_EIO, 60, 65), NEXT(70, 1)},
    {"the last failure that is allowed", TASK(UVS_ONE_SHOT, 0, RETRY, 0, NEVER, 0, 3),
     RUN(3, 2, 50, 0, UV_EIO, 60, 65), ENDS(3)},
    {"the last but one", TASK(UVS_ONE_SHOT, 0, RETRY, 0, NEVER, 0, 3),
     RUN(2, 1, 50, 0, UV_EIO, 60, 65), NEXT(80, 2)},
    {"max_runs ends retries, too", TASK(UVS_ONE_SHOT, 0, RETRY, 0, NEVER, 2, 0),
     RUN(2, 1, 50, 0, UV_EIO, 60, 65), ENDS(2)},
    {"UVS_STOP ends a task that would be retried", TASK(UVS_ONE_SHOT, 0, RETRY, 0, NEVER, 0, 0),
     RUN(2, 1, 50, 0, UVS_STOP, 60, 65), ENDS(1)},

    {"a wall-clock task is retried by the wall clock", TASK(UVS_ONE_SHOT, 0, RETRY, 0, NEVER, 0, 0),
     RUN(1, 0, 9000, 0, UV_EIO, 60, 65), .wall_ns = 9100, NEXT(9105, 1)},
    {"and by its zero if the clock was set back so far",
     TASK(UVS_ONE_SHOT, 0, RETRY, 0, NEVER, 0, 0), RUN(1, 0, 9000, 0, UV_EIO, 60, 65), .wall_ns = 3,
     NEXT(10, 1)},
    {"and not after its end time", TASK(UVS_ONE_SHOT, 0, RETRY, 0, 9104, 0, 0),
     RUN(1, 0, 9000, 0, UV_EIO, 60, 65), .wall_ns = 9100, ENDS(1)},

    {"a fixed delay counts from the end of the body",
     TASK(UVS_FIXED_DELAY, 0, STOP, 100, NEVER, 0, 0), RUN(1, 0, 50, 0, 0, 60, 65), NEXT(160, 0),
     MISSED(0, UVS_LATE_OVERLAP)},
    {"a fixed delay ends with UVS_STOP", TASK(UVS_FIXED_DELAY, 0, GO_ON, 100, NEVER, 0, 0),
     RUN(1, 0, 50, 0, UVS_STOP, 60, 65), ENDS(0)},
    {"a fixed delay ends with a failure", TASK(UVS_FIXED_DELAY, 0, STOP, 100, NEVER, 0, 0),
     RUN(1, 0, 50, 0, UV_EIO, 60, 65), ENDS(1)},
    {"a fixed delay goes on after a failure", TASK(UVS_FIXED_DELAY, 0, GO_ON, 100, NEVER, 0, 0),
     RUN(1, 0, 50, 0, UV_EIO, 60, 65), NEXT(160, 1), MISSED(0, UVS_LATE_OVERLAP)},
    {"a fixed delay is retried", TASK(UVS_FIXED_DELAY, 0, RETRY, 100, NEVER, 0, 0),
     RUN(1, 0, 50, 0, UV_EIO, 60, 65), NEXT(70, 1)},
    {"and counts on from the retry that succeeded",
     TASK(UVS_FIXED_DELAY, 0, RETRY, 100, NEVER, 0, 0), RUN(2, 1, 70, 0, 0, 75, 75), NEXT(175, 0),
     MISSED(0, UVS_LATE_RETRY)},
    {"a fixed delay at its end time", TASK(UVS_FIXED_DELAY, 0, STOP, 100, 160, 0, 0),
     RUN(1, 0, 50, 0, 0, 60, 65), NEXT(160, 0), MISSED(0, UVS_LATE_OVERLAP)},
    {"a fixed delay after its end time", TASK(UVS_FIXED_DELAY, 0, STOP, 100, 159, 0, 0),
     RUN(1, 0, 50, 0, 0, 60, 65), ENDS(0)},
    {"a fixed delay that saturates", TASK(UVS_FIXED_DELAY, 0, STOP, NEVER, NEVER, 0, 0),
     RUN(1, 0, 50, 0, 0, 60, 65), NEXT(NEVER, 0), MISSED(0, UVS_LATE_OVERLAP)},
    {"max_runs is reached", TASK(UVS_FIXED_DELAY, 0, STOP, 100, NEVER, 3, 0),
     RUN(3, 0, 50, 0, 0, 60, 65), ENDS(0)},
    {"max_runs is not reached", TASK(UVS_FIXED_DELAY, 0, STOP, 100, NEVER, 3, 0),
     RUN(2, 0, 50, 0, 0, 60, 65), NEXT(160, 0), MISSED(0, UVS_LATE_OVERLAP)},
    {"max_runs counts failures as well", TASK(UVS_FIXED_DELAY, 0, GO_ON, 100, NEVER, 3, 0),
     RUN(3, 1, 50, 0, UV_EIO, 60, 65), ENDS(2)},

    {"a rate keeps its grid", TASK(UVS_FIXED_RATE, CATCH_UP, STOP, 100, NEVER, 0, 0),
     RUN(1, 0, 1000, 0, 0, 1050, 1060), NEXT(1100, 0), MISSED(0, UVS_LATE_OVERLAP)},
    {"a rate that catches up leaves nothing out",
     TASK(UVS_FIXED_RATE, CATCH_UP, STOP, 100, NEVER, 0, 0), RUN(1, 0, 1000, 0, 0, 1850, 1860),
     NEXT(1100, 0), MISSED(0, UVS_LATE_OVERLAP)},
    {"a rate that merges goes on after its last point",
     TASK(UVS_FIXED_RATE, MERGE, STOP, 100, NEVER, 0, 0), RUN(1, 0, 1000, 3, 0, 1350, 1360),
     NEXT(1400, 0), MISSED(0, UVS_LATE_OVERLAP)},
    {"and its next run will merge what passed since",
     TASK(UVS_FIXED_RATE, MERGE, STOP, 100, NEVER, 0, 0), RUN(1, 0, 1000, 3, 0, 1950, 1960),
     NEXT(1400, 0), MISSED(0, UVS_LATE_OVERLAP)},
    {"a rate that skips, on time", TASK(UVS_FIXED_RATE, SKIP, STOP, 100, NEVER, 0, 0),
     RUN(1, 0, 1000, 0, 0, 1100, 1199), NEXT(1100, 0), MISSED(0, UVS_LATE_OVERLAP)},
    {"a rate that skips one point", TASK(UVS_FIXED_RATE, SKIP, STOP, 100, NEVER, 0, 0),
     RUN(1, 0, 1000, 0, 0, 1101, 1199), NEXT(1200, 0), MISSED(1, UVS_LATE_OVERLAP)},
    {"a point at the very end of the run is not missed",
     TASK(UVS_FIXED_RATE, SKIP, STOP, 100, NEVER, 0, 0), RUN(1, 0, 1000, 0, 0, 1500, 1501),
     NEXT(1500, 0), MISSED(4, UVS_LATE_OVERLAP)},
    {"points after the end time are not missed", TASK(UVS_FIXED_RATE, SKIP, STOP, 100, 1499, 0, 0),
     RUN(1, 0, 1000, 0, 0, 1450, 1501), ENDS(0)},
    {"a rate ends with a failure", TASK(UVS_FIXED_RATE, SKIP, STOP, 100, NEVER, 0, 0),
     RUN(1, 0, 1000, 0, UV_EIO, 1101, 1199), ENDS(1)},
    {"a rate goes on after a failure as after a success",
     TASK(UVS_FIXED_RATE, SKIP, GO_ON, 100, NEVER, 0, 0), RUN(1, 4, 1000, 0, UV_EIO, 1101, 1199),
     NEXT(1200, 5), MISSED(1, UVS_LATE_OVERLAP)},
    {"a rate gives up after max_failures in a row",
     TASK(UVS_FIXED_RATE, SKIP, GO_ON, 100, NEVER, 0, 5), RUN(1, 4, 1000, 0, UV_EIO, 1101, 1199),
     ENDS(5)},
    {"a success in between sets them to 0", TASK(UVS_FIXED_RATE, SKIP, GO_ON, 100, NEVER, 0, 5),
     RUN(1, 4, 1000, 0, 0, 1050, 1051), NEXT(1100, 0), MISSED(0, UVS_LATE_OVERLAP)},

    {"the first retry remembers the grid", TASK(UVS_FIXED_RATE, CATCH_UP, RETRY, 100, NEVER, 0, 0),
     RUN(1, 0, 1000, 0, UV_EIO, 1005, 1006), NEXT(1015, 1), .grid_then_ns = 1000},
    {"with what was merged", TASK(UVS_FIXED_RATE, MERGE, RETRY, 100, NEVER, 0, 0),
     RUN(1, 0, 1000, 3, UV_EIO, 1305, 1306), NEXT(1315, 1), .grid_then_ns = 1300},
    {"the second retry leaves it alone", TASK(UVS_FIXED_RATE, CATCH_UP, RETRY, 100, NEVER, 0, 0),
     RUN(2, 1, 1015, 0, UV_EIO, 1020, 1021), .grid_ns = 1000, NEXT(1040, 2), .grid_then_ns = 1000},
    {"a retry that succeeds returns to the grid",
     TASK(UVS_FIXED_RATE, CATCH_UP, RETRY, 100, NEVER, 0, 0), RUN(3, 2, 1040, 0, 0, 1060, 1061),
     .grid_ns = 1000, NEXT(1100, 0), MISSED(0, UVS_LATE_RETRY), .grid_then_ns = 1000},
    {"points that passed meanwhile are used up",
     TASK(UVS_FIXED_RATE, CATCH_UP, RETRY, 100, NEVER, 0, 0), RUN(3, 2, 1315, 0, 0, 1320, 1321),
     .grid_ns = 1000, NEXT(1400, 0), MISSED(3, UVS_LATE_RETRY), .grid_then_ns = 1000},
    {"also where points are merged", TASK(UVS_FIXED_RATE, MERGE, RETRY, 100, NEVER, 0, 0),
     RUN(3, 2, 1315, 0, 0, 1320, 1321), .grid_ns = 1000, NEXT(1400, 0), MISSED(3, UVS_LATE_RETRY),
     .grid_then_ns = 1000},
    {"but not past the end time", TASK(UVS_FIXED_RATE, CATCH_UP, RETRY, 100, 1399, 0, 0),
     RUN(3, 2, 1315, 0, 0, 1320, 1321), .grid_ns = 1000, ENDS(0), .grid_then_ns = 1000},
    {"a rate at the end of time", TASK(UVS_FIXED_RATE, CATCH_UP, STOP, 100, NEVER, 0, 0),
     RUN(3, 0, NEVER - 50, 0, 0, NEVER - 40, NEVER - 40), NEXT(NEVER, 0),
     MISSED(0, UVS_LATE_OVERLAP)},
};

static void make(const struct row *r, struct uvs__task *t, struct uvs__extra *x) {
  memset(t, 0, sizeof *t);
  memset(x, 0, sizeof *x);
  t->kind = (unsigned)r->kind & 3u;
  t->generation = 1;
  t->flags = r->wall_ns != 0 ? UVS__WALL : 0;
  t->due_ns = r->ideal_ns;
  x->policy = (uint8_t)r->policy;
  x->failure = (uint8_t)r->failure;
  x->period_ns = r->period_ns;
  x->until_ns = r->until_ns;
  x->max_runs = r->max_runs;
  x->max_failures = r->max_failures;
  x->runs = r->runs;
  x->failures = r->failures;
  x->grid_ns = r->grid_ns;
  x->run.ideal_ns = (int64_t)r->ideal_ns;
  x->run.merged = r->merged;
  x->retry_ns = 10;
  x->retry_max_ns = 35;
  x->missed_next = 7;
}

#define ASSERT_ROW(r, expected, got) \
  ASSERT_EQ_FMTm((r)->what, (unsigned long long)(expected), (unsigned long long)(got), "%llu")

TEST the_plan_after_a_run_matches_its_table_row(void) {
  for (size_t i = 0; i < N(rows); i++) {
    const struct row *r = &rows[i];
    struct uvs__run_end e = {r->status, r->end_ns, r->over_ns, r->wall_ns};
    struct uvs__task t;
    struct uvs__extra x;
    struct uvs__plan p;

    make(r, &t, &x);
    p = uvs__plan_next(&t, &x, SEED, &e);
    ASSERT_ROW(r, r->goes_on, p.goes_on);
    ASSERT_ROW(r, r->failures_then, x.failures);
    ASSERT_ROW(r, r->grid_then_ns, x.grid_ns);
    ASSERT_ROW(r, r->goes_on ? r->due_ns : r->ideal_ns, t.due_ns);
    ASSERT_ROW(r, 0, x.jitter_now_ns);
    ASSERT_ROW(r, r->goes_on ? r->missed : 0, p.missed);
    ASSERT_ROW(r, 7 + p.missed, x.missed_next); /* added to the points that were not reported yet */
    if (p.missed > 0)
      ASSERT_ROW(r, r->reason, p.reason);
    if (r->status != UVS_STOP) {
      ASSERT_ROW(r, r->over_ns, x.since_ns);
      ASSERT_EQ_FMTm(r->what, r->status < 0 ? r->status : 0, x.run.failure, "%d");
    }
  }
  PASS();
}

/* Everything except the times of the next run stays unchanged. */
TEST the_plan_changes_only_times_and_counts_of_its_task(void) {
  for (size_t i = 0; i < N(rows); i++) {
    struct uvs__run_end e = {rows[i].status, rows[i].end_ns, rows[i].over_ns, rows[i].wall_ns};
    struct uvs__task t, t_before;
    struct uvs__extra x, x_before;

    make(&rows[i], &t, &x);
    t_before = t;
    x_before = x;
    uvs__plan_next(&t, &x, SEED, &e);
    t.due_ns = t_before.due_ns;
    x.since_ns = x_before.since_ns;
    x.failures = x_before.failures;
    x.grid_ns = x_before.grid_ns;
    x.missed_next = x_before.missed_next;
    x.jitter_now_ns = x_before.jitter_now_ns;
    x.run.failure = x_before.run.failure;
    ASSERT_MEM_EQm(rows[i].what, &t_before, &t, sizeof t);
    ASSERT_MEM_EQm(rows[i].what, &x_before, &x, sizeof x);
  }
  PASS();
}

/* ---- jitter ---- */

TEST jitter_is_the_same_for_the_same_seed_task_and_run_and_differs_otherwise(void) {
  uint64_t max_ns = UINT64_C(1) << 40;
  uint64_t ns = uvs__jitter(1, 2, 3, max_ns);

  ASSERT_U64(ns, uvs__jitter(1, 2, 3, max_ns));
  ASSERT(ns != uvs__jitter(2, 2, 3, max_ns));
  ASSERT(ns != uvs__jitter(1, 3, 3, max_ns));
  ASSERT(ns != uvs__jitter(1, 2, 4, max_ns));
  ASSERT_U64(0, uvs__jitter(1, 2, 3, 0));
  PASS();
}

TEST every_jitter_up_to_the_maximum_is_equally_likely(void) {
  unsigned n[11] = {0};

  for (uint64_t run = 0; run < 11000; run++) {
    uint64_t ns = uvs__jitter(test_seed, 77, run, 10);

    ASSERT(ns <= 10);
    n[ns]++;
  }
  for (int i = 0; i <= 10; i++) {
    ASSERT(n[i] > 800);
    ASSERT(n[i] < 1200);
  }
  PASS();
}

/* The grid must not drift with jitter, and the end of time is not exceeded. */
TEST jitter_is_added_to_the_deadline_and_not_to_the_ideal_time(void) {
  struct row r = {"", TASK(UVS_FIXED_RATE, CATCH_UP, STOP, 1000, NEVER, 0, 0),
                  RUN(0, 0, 5000, 0, 0, 0, 0)};
  struct uvs__task t;
  struct uvs__extra x;
  uint64_t least = UINT64_MAX, greatest = 0;

  make(&r, &t, &x);
  x.jitter_ns = 300;
  for (uint32_t run = 1; run <= 1000; run++) {
    uint64_t ideal_ns = 5000 + (run - 1) * UINT64_C(1000);
    struct uvs__run_end e = {0, t.due_ns + 10, t.due_ns + 11, 0};

    ASSERT_U64(ideal_ns, uvs__ideal_of(&t, &x));
    x.run.ideal_ns = (int64_t)ideal_ns;
    x.runs = run;
    ASSERT(uvs__plan_next(&t, &x, test_seed, &e).goes_on);
    ASSERT_U64(ideal_ns + 1000 + x.jitter_now_ns, t.due_ns);
    ASSERT_U64(uvs__jitter(test_seed, uvs__local_id(&t, 0), run, 300), x.jitter_now_ns);
    least = x.jitter_now_ns < least ? x.jitter_now_ns : least;
    greatest = x.jitter_now_ns > greatest ? x.jitter_now_ns : greatest;
  }
  ASSERT(least < 20);
  ASSERT(greatest > 280);
  ASSERT(greatest <= 300);
  uvs__set_due(&t, &x, NEVER - 5, 100);
  ASSERT_U64(NEVER, t.due_ns);
  ASSERT_U64(NEVER - 5, uvs__ideal_of(&t, &x));
  PASS();
}

/* The end time is compared with the ideal time. */
TEST jitter_may_pass_the_end_time_and_a_retry_has_none(void) {
  struct row r = {"", TASK(UVS_FIXED_DELAY, 0, RETRY, 100, 160, 0, 0), RUN(1, 0, 50, 0, 0, 60, 60)};
  struct uvs__run_end good = {0, 60, 60, 0}, bad = {UV_EIO, 60, 60, 0};
  bool passed = false;

  for (uint64_t seed = 0; seed < 100; seed++) {
    struct uvs__task t;
    struct uvs__extra x;

    make(&r, &t, &x);
    x.jitter_ns = 50;
    ASSERT(uvs__plan_next(&t, &x, seed, &good).goes_on);
    passed |= t.due_ns > 160;
    make(&r, &t, &x);
    x.jitter_ns = 50;
    x.jitter_now_ns = 30; /* of the run before */
    ASSERT(uvs__plan_next(&t, &x, seed, &bad).goes_on);
    ASSERT_U64(70, t.due_ns);
    ASSERT_U64(0, x.jitter_now_ns);
  }
  ASSERT(passed);
  PASS();
}

TEST retry_jitter_shortens_a_wait_by_up_to_its_percentage(void) {
  struct row r = {"", TASK(UVS_ONE_SHOT, 0, RETRY, 0, NEVER, 0, 0), RUN(1, 0, 50, 0, 0, 60, 60)};
  struct uvs__run_end bad = {UV_EIO, 60, 60, 0};
  uint64_t least = UINT64_MAX, greatest = 0;

  for (uint64_t seed = 0; seed < 1000; seed++) {
    struct uvs__task t;
    struct uvs__extra x;

    make(&r, &t, &x);
    x.retry_ns = 1000;
    x.retry_max_ns = NEVER;
    x.retry_jitter = 25;
    ASSERT(uvs__plan_next(&t, &x, seed, &bad).goes_on);
    least = t.due_ns < least ? t.due_ns : least;
    greatest = t.due_ns > greatest ? t.due_ns : greatest;
  }
  ASSERT(least >= 60 + 750);
  ASSERT(least < 60 + 770);
  ASSERT(greatest <= 60 + 1000);
  ASSERT(greatest > 60 + 980);
  PASS();
}

/* ---- random lives ---- */

struct model {
  bool goes_on;
  uint64_t ideal_ns, missed;
  uint32_t failures;
  uint64_t grid_ns; /* the last point that was not a retry's */
};

static uint64_t naive_wait(uint32_t failures) {
  uint64_t wait_ns = 10;

  while (--failures > 0 && wait_ns < 35)
    wait_ns *= 2;
  return wait_ns < 35 ? wait_ns : 35;
}

/* What follows a run that stood for `ideal` and for `merged` later points. */
static void naive_next(struct model *m, const struct uvs__task *t, const struct uvs__extra *x,
                       uint64_t ideal_ns, uint64_t merged, const struct uvs__run_end *e) {
  bool was_retry = x->failure == UVS_FAIL_RETRY && m->failures > 0;
  bool skips = x->policy == UVS_MISSED_SKIP || was_retry;
  uint64_t point_ns = ideal_ns;

  m->missed = 0;
  m->goes_on = false;
  if (e->status == UVS_STOP)
    return;
  m->failures = e->status < 0 ? m->failures + 1 : 0;
  if (x->max_runs != 0 && x->runs >= x->max_runs)
    return;
  if (e->status < 0 && x->failure == UVS_FAIL_STOP)
    return;
  if (e->status < 0 && x->max_failures != 0 && m->failures >= x->max_failures)
    return;
  if (!was_retry) {
    for (uint64_t i = 0; i < merged; i++)
      point_ns += x->period_ns;
    m->grid_ns = point_ns;
  }
  if (e->status < 0 && x->failure == UVS_FAIL_RETRY) {
    /* When the body returned, by the task's clock. */
    uint64_t from_ns = (e->wall_ns != 0 ? e->wall_ns : e->over_ns) - (e->over_ns - e->end_ns);

    m->ideal_ns = from_ns + naive_wait(m->failures);
  } else if (t->kind == UVS_ONE_SHOT) {
    return;
  } else if (t->kind == UVS_FIXED_DELAY) {
    m->ideal_ns = e->end_ns + x->period_ns;
  } else {
    m->ideal_ns = m->grid_ns + x->period_ns;
    while (skips && m->ideal_ns < e->end_ns) {
      m->ideal_ns += x->period_ns;
      m->missed++;
    }
  }
  m->goes_on = m->ideal_ns <= x->until_ns;
}

static enum greatest_test_res random_life(uint64_t *random) {
  struct row r = {
      .kind = (int)test_random_below(random, 3),
      .policy = (int)test_random_below(random, 3),
      .failure = (int)test_random_below(random, 3),
      .period_ns = 1 + test_random_below(random, 50),
      .until_ns = test_random_below(random, 2) == 0 ? NEVER : test_random_below(random, 3000),
      .max_runs = test_random_below(random, 2) == 0 ? 0 : (uint32_t)test_random_below(random, 30),
      .max_failures =
          test_random_below(random, 2) == 0 ? 0 : (uint32_t)test_random_below(random, 6),
  };
  struct model m = {0};
  uint64_t now_ns = test_random_below(random, 100), missed_next = 7;
  struct uvs__task t;
  struct uvs__extra x;

  if (r.kind == UVS_ONE_SHOT) {
    if (r.failure == UVS_FAIL_CONTINUE) /* is refused at submission */
      r.failure = UVS_FAIL_RETRY;
    r.wall_ns = test_random_below(random, 2);
  }
  r.ideal_ns = now_ns;
  make(&r, &t, &x);
  x.jitter_ns = test_random_below(random, 3) == 0 ? test_random_below(random, 40) : 0;
  for (int run = 0; run < 100; run++) {
    struct uvs__recur recur = uvs__recur_of(&t, &x);
    uint64_t ideal_ns = uvs__ideal_of(&t, &x);
    struct uvs__run_end e;
    struct uvs__plan p;

    /* The start, as core/ does it: points may be merged. */
    if (r.wall_ns == 0 && now_ns < t.due_ns)
      now_ns = t.due_ns;
    now_ns += test_random_below(random, 4) == 0 ? test_random_below(random, 300) : 0;
    x.run = (struct uvs__record){.ideal_ns = (int64_t)ideal_ns};
    if (!uvs__is_retrying(&x) && r.policy == UVS_MISSED_ONCE)
      x.run.merged = uvs__recur_start(&recur, ideal_ns, now_ns).missed;
    x.runs++;
    now_ns += test_random_below(random, 4) == 0 ? test_random_below(random, 300)
                                                : test_random_below(random, 20);
    e.end_ns = now_ns;
    now_ns += test_random_below(random, 20);
    e.over_ns = now_ns;
    e.wall_ns = r.wall_ns != 0 ? 100000 + now_ns + test_random_below(random, 1000) : 0;
    e.status = test_random_below(random, 60) == 0  ? UVS_STOP
               : test_random_below(random, 3) == 0 ? UV_EIO
                                                   : 0;
    naive_next(&m, &t, &x, ideal_ns, x.run.merged, &e);
    p = uvs__plan_next(&t, &x, SEED, &e);
    ASSERT_EQ(m.goes_on, p.goes_on);
    ASSERT_U64(m.failures, x.failures);
    if (!p.goes_on)
      PASS();
    ASSERT_U64(m.ideal_ns, uvs__ideal_of(&t, &x));
    ASSERT_U64(m.missed, p.missed);
    ASSERT(x.jitter_now_ns <= x.jitter_ns);
    ASSERT(!uvs__is_retrying(&x) || x.jitter_now_ns == 0);
    missed_next += p.missed;
    ASSERT_U64(missed_next, x.missed_next);
    ASSERT_U64(e.over_ns, x.since_ns);
  }
  PASS();
}

TEST a_random_task_agrees_with_a_walk_along_the_grid(void) {
  uint64_t random = test_seed;

  for (int i = 0; i < 50000; i++)
    CHECK_CALL(random_life(&random));
  PASS();
}

SUITE(plan) {
  RUN_TEST(the_plan_after_a_run_matches_its_table_row);
  RUN_TEST(the_plan_changes_only_times_and_counts_of_its_task);
  RUN_TEST(jitter_is_the_same_for_the_same_seed_task_and_run_and_differs_otherwise);
  RUN_TEST(every_jitter_up_to_the_maximum_is_equally_likely);
  RUN_TEST(jitter_is_added_to_the_deadline_and_not_to_the_ideal_time);
  RUN_TEST(jitter_may_pass_the_end_time_and_a_retry_has_none);
  RUN_TEST(retry_jitter_shortens_a_wait_by_up_to_its_percentage);
  RUN_TEST(a_random_task_agrees_with_a_walk_along_the_grid);
}

TEST_MAIN(RUN_SUITE(plan));
