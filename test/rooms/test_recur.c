/* SPDX-License-Identifier: MIT
 *
 * recur: the time of the next run. Tables for each policy, the ends of time, no drift, invariants
 * for random sequences, and the saturating arithmetic.
 */
#include "task/recur.h"

#include "lib/unit.h"

#define N(array) (sizeof(array) / sizeof(array)[0])

static const char *row(const char *table, size_t i) {
  static char text[64];

  snprintf(text, sizeof text, "row %u of %s", (unsigned)i, table);
  return text;
}

#define ASSERT_POINT(table, i, ideal, left_out, point) \
  do { \
    struct uvs__point point_ = (point); \
    ASSERT_EQ_FMTm(row(table, i), (unsigned long long)(ideal), \
                   (unsigned long long)point_.ideal_ns, "%llu"); \
    ASSERT_EQ_FMTm(row(table, i), (unsigned long long)(left_out), \
                   (unsigned long long)point_.missed, "%llu"); \
  } while (0)

static struct uvs__recur rate(int policy, uint32_t max_burst, uint64_t period_ns) {
  return (struct uvs__recur){UVS_FIXED_RATE, policy, max_burst, period_ns};
}

TEST adding_a_delay_saturates_and_a_negative_delay_is_now(void) {
  static const struct {
    uint64_t now_ns;
    int64_t delay_ns;
    uint64_t expected_ns;
  } rows[] = {
      {5, 0, 5},
      {5, -1, 5},
      {5, INT64_MIN, 5},
      {5, 7, 12},
      {0, INT64_MAX, UVS__NEVER},
      {1, INT64_MAX, UVS__NEVER},
      {0, INT64_MAX - 1, UVS__NEVER - 1},
      {1, INT64_MAX - 1, UVS__NEVER},
      {2, INT64_MAX - 1, UVS__NEVER},
      {UVS__NEVER, 1, UVS__NEVER},
      {UVS__NEVER, INT64_MAX, UVS__NEVER},
      {UVS__NEVER - 1, 1, UVS__NEVER},
      {UVS__NEVER - 2, 1, UVS__NEVER - 1},
      {UVS__NEVER, 0, UVS__NEVER},
  };

  for (size_t i = 0; i < N(rows); i++)
    ASSERT_EQ_FMTm(row("later", i), (unsigned long long)rows[i].expected_ns,
                   (unsigned long long)uvs__later(rows[i].now_ns, rows[i].delay_ns), "%llu");
  ASSERT_U64(0, uvs__instant(INT64_MIN));
  ASSERT_U64(0, uvs__instant(-1));
  ASSERT_U64(0, uvs__instant(0));
  ASSERT_U64(UVS__NEVER, uvs__instant(INT64_MAX));
  ASSERT_U64(UVS_NEVER, UVS__NEVER);
  PASS();
}

TEST adding_periods_saturates(void) {
  static const struct {
    uint64_t a_ns, n, step_ns, expected_ns;
  } rows[] = {
      {5, 0, UINT64_MAX, 5},
      {5, 3, 10, 35},
      {5, 3, 0, 5},
      {0, 1, UVS__NEVER, UVS__NEVER},
      {1, 1, UVS__NEVER, UVS__NEVER},
      {0, UINT64_MAX, UINT64_MAX, UVS__NEVER},
      {0, UINT64_MAX, 1, UVS__NEVER},
      {0, UINT64_C(1) << 32, UINT64_C(1) << 32, UVS__NEVER}, /* 2^64 would be 0 */
      {7, UINT64_C(1) << 62, 4, UVS__NEVER},
      {0, UVS__NEVER / 7, 7, UVS__NEVER / 7 * 7},
      {UVS__NEVER - 20, 2, 10, UVS__NEVER},
      {UVS__NEVER - 20, 2, 9, UVS__NEVER - 2},
      {UVS__NEVER - 20, 3, 7, UVS__NEVER},
      {UVS__NEVER, 1, 1, UVS__NEVER},
      {UVS__NEVER, 0, 1, UVS__NEVER},
  };

  for (size_t i = 0; i < N(rows); i++)
    ASSERT_EQ_FMTm(row("steps", i), (unsigned long long)rows[i].expected_ns,
                   (unsigned long long)uvs__steps_later(rows[i].a_ns, rows[i].n, rows[i].step_ns),
                   "%llu");
  PASS();
}

TEST the_due_time_of_a_one_shot_does_not_move(void) {
  struct uvs__recur r = {UVS_ONE_SHOT, UVS_MISSED_SKIP, 3,
                         0}; /* what the other fields say is nothing to it */
  static const uint64_t now_ns[] = {0, 99, 100, 101, 1000000, UVS__NEVER};

  for (size_t i = 0; i < N(now_ns); i++) {
    ASSERT_POINT("due", i, 100, 0, uvs__recur_due(&r, 100, now_ns[i]));
    ASSERT_POINT("start", i, 100, 0, uvs__recur_start(&r, 100, now_ns[i]));
  }
  PASS();
}

TEST fixed_delay_counts_from_the_end_of_the_run(void) {
  struct uvs__recur r = {UVS_FIXED_DELAY, UVS_MISSED_SKIP, 3, 100};
  static const uint64_t now_ns[] = {0, 100, 150, 250, 100000, UVS__NEVER};

  for (size_t i = 0; i < N(now_ns); i++) {
    ASSERT_POINT("due", i, 100, 0,
                 uvs__recur_due(&r, 100, now_ns[i])); /* a delay has no grid to miss */
    ASSERT_POINT("start", i, 100, 0, uvs__recur_start(&r, 100, now_ns[i]));
    ASSERT_POINT("next", i, now_ns[i] > UVS__NEVER - 100 ? UVS__NEVER : now_ns[i] + 100, 0,
                 uvs__recur_next(&r, 100, 0, now_ns[i]));
  }
  PASS();
}

TEST catch_up_runs_every_point(void) {
  struct uvs__recur r = rate(UVS_MISSED_CATCH_UP, 0, 100);
  static const uint64_t now_ns[] = {1000, 1099, 1100, 1101, 1999, 1000000, UVS__NEVER};

  for (size_t i = 0; i < N(now_ns); i++) {
    ASSERT_POINT("due", i, 1000, 0, uvs__recur_due(&r, 1000, now_ns[i]));
    ASSERT_POINT("start", i, 1000, 0, uvs__recur_start(&r, 1000, now_ns[i]));
    ASSERT_POINT("next", i, 1100, 0, uvs__recur_next(&r, 1000, 0, now_ns[i]));
  }
  PASS();
}

/* Of the points that are due, including 1000, the newest max_burst are run. */
TEST catch_up_skips_all_but_the_newest_max_burst_points(void) {
  static const struct {
    uint32_t burst;
    uint64_t now_ns, ideal_ns, missed;
  } rows[] = {
      {1, 1000, 1000, 0},
      {1, 1099, 1000, 0},
      {1, 1100, 1100, 1},
      {1, 1299, 1200, 2},
      {2, 1199, 1000, 0},
      {2, 1200, 1100, 1},
      {3, 1299, 1000, 0},
      {3, 1300, 1100, 1},
      {3, 1999, 1700, 7},
      {3, 2000, 1800, 8},
      {UINT32_MAX, 1000000, 1000, 0},
      {1, 500, 1000, 0}, /* before its time: the point is where it is */
  };

  for (size_t i = 0; i < N(rows); i++) {
    struct uvs__recur r = rate(UVS_MISSED_CATCH_UP, rows[i].burst, 100);

    ASSERT_POINT("start", i, rows[i].ideal_ns, rows[i].missed,
                 uvs__recur_start(&r, 1000, rows[i].now_ns));
    ASSERT_POINT("due", i, 1000, 0, uvs__recur_due(&r, 1000, rows[i].now_ns));
    ASSERT_POINT("next", i, 1100, 0, uvs__recur_next(&r, 1000, 0, rows[i].now_ns));
  }
  PASS();
}

TEST once_merges_the_points_that_passed(void) {
  static const struct {
    uint64_t now_ns, merged, next_ns;
  } rows[] = {
      {900, 0, 1100},  {1000, 0, 1100}, {1099, 0, 1100},  {1100, 1, 1200},
      {1199, 1, 1200}, {1250, 2, 1300}, {2000, 10, 2100},
  };
  struct uvs__recur r = rate(UVS_MISSED_ONCE, 0, 100);

  for (size_t i = 0; i < N(rows); i++) {
    ASSERT_POINT("due", i, 1000, 0, uvs__recur_due(&r, 1000, rows[i].now_ns));
    ASSERT_POINT("start", i, 1000, rows[i].merged, uvs__recur_start(&r, 1000, rows[i].now_ns));
    /* Points that pass during the run are merged by the next run, however long this run was. */
    ASSERT_POINT("next", i, rows[i].next_ns, 0,
                 uvs__recur_next(&r, 1000, rows[i].merged, rows[i].now_ns + 1));
    ASSERT_POINT("next", i, rows[i].next_ns, 0, uvs__recur_next(&r, 1000, rows[i].merged, 1000000));
  }
  PASS();
}

TEST skip_leaves_out_a_run_that_is_a_whole_period_late(void) {
  static const struct {
    uint64_t now_ns, ideal_ns, missed;
  } rows[] = {
      {900, 1000, 0},  {1000, 1000, 0}, {1001, 1000, 0}, {1099, 1000, 0}, {1100, 1100, 1},
      {1101, 1200, 2}, {1199, 1200, 2}, {1200, 1200, 2}, {1250, 1300, 3}, {1999, 2000, 10},
  };
  struct uvs__recur r = rate(UVS_MISSED_SKIP, 0, 100);

  for (size_t i = 0; i < N(rows); i++) {
    ASSERT_POINT("due", i, rows[i].ideal_ns, rows[i].missed,
                 uvs__recur_due(&r, 1000, rows[i].now_ns));
    /* A run that was accepted is made, however long it waited. */
    ASSERT_POINT("start", i, 1000, 0, uvs__recur_start(&r, 1000, rows[i].now_ns));
  }
  PASS();
}

TEST skip_continues_at_the_first_point_not_before_the_end(void) {
  static const struct {
    uint64_t end_ns, ideal_ns, missed;
  } rows[] = {
      {1000, 1100, 0}, {1050, 1100, 0}, {1100, 1100, 0}, {1101, 1200, 1},
      {1200, 1200, 1}, {1201, 1300, 2}, {1999, 2000, 9}, {2000, 2000, 9},
  };
  struct uvs__recur r = rate(UVS_MISSED_SKIP, 0, 100);

  for (size_t i = 0; i < N(rows); i++)
    ASSERT_POINT("next", i, rows[i].ideal_ns, rows[i].missed,
                 uvs__recur_next(&r, 1000, 0, rows[i].end_ns));
  PASS();
}

TEST the_end_of_time_is_reached_but_not_passed(void) {
  static const int policy[] = {UVS_MISSED_CATCH_UP, UVS_MISSED_ONCE, UVS_MISSED_SKIP};
  static const uint64_t period_ns[] = {1, 2, 100, UVS__NEVER / 2, UVS__NEVER - 1, UVS__NEVER};
  struct uvs__recur delay = {UVS_FIXED_DELAY, 0, 0, UVS__NEVER};

  for (size_t i = 0; i < N(policy); i++)
    for (size_t j = 0; j < N(period_ns); j++) {
      struct uvs__recur r = rate(policy[i], 0, period_ns[j]);

      ASSERT_U64(UVS__NEVER, uvs__recur_next(&r, UVS__NEVER, 0, UVS__NEVER).ideal_ns);
      ASSERT_U64(UVS__NEVER, uvs__recur_next(&r, UVS__NEVER - 1, 0, UVS__NEVER).ideal_ns);
      ASSERT_U64(UVS__NEVER, uvs__recur_next(&r, UVS__NEVER, UVS__NEVER, UVS__NEVER).ideal_ns);
      ASSERT_POINT("due", j, UVS__NEVER, 0, uvs__recur_due(&r, UVS__NEVER, 5));
      ASSERT_POINT("start", j, UVS__NEVER, 0, uvs__recur_start(&r, UVS__NEVER, 5));
      ASSERT_POINT("start", j, UVS__NEVER, 0, uvs__recur_start(&r, UVS__NEVER, UVS__NEVER));
    }
  ASSERT_U64(UVS__NEVER, uvs__recur_next(&delay, 0, 0, 0).ideal_ns);
  ASSERT_U64(UVS__NEVER, uvs__recur_next(&delay, 0, 0, 1).ideal_ns);
  ASSERT_U64(UVS__NEVER, uvs__recur_next(&delay, 0, 0, UVS__NEVER).ideal_ns);
  PASS();
}

/* All of time passed, with one point per nanosecond. */
TEST the_largest_backlog_is_counted(void) {
  struct uvs__recur once = rate(UVS_MISSED_ONCE, 0, 1);
  struct uvs__recur burst = rate(UVS_MISSED_CATCH_UP, 1, 1);
  struct uvs__recur wide = rate(UVS_MISSED_CATCH_UP, UINT32_MAX, 1);
  struct uvs__recur skip = rate(UVS_MISSED_SKIP, 0, 1);

  ASSERT_POINT("once", 0, 0, UVS__NEVER, uvs__recur_start(&once, 0, UVS__NEVER));
  ASSERT_U64(UVS__NEVER, uvs__recur_next(&once, 0, UVS__NEVER, UVS__NEVER).ideal_ns);
  ASSERT_POINT("burst", 0, UVS__NEVER, UVS__NEVER, uvs__recur_start(&burst, 0, UVS__NEVER));
  ASSERT_POINT("wide", 0, UVS__NEVER + 1 - UINT32_MAX, UVS__NEVER + 1 - UINT32_MAX,
               uvs__recur_start(&wide, 0, UVS__NEVER));
  ASSERT_U64(UVS__NEVER, uvs__recur_due(&skip, 0, UVS__NEVER).ideal_ns);
  ASSERT_POINT("skip", 0, UVS__NEVER - 1, UVS__NEVER - 2,
               uvs__recur_next(&skip, 0, 0, UVS__NEVER - 1));
  PASS();
}

/* An awkward period, and a million runs that start late and end at any time within it: not one
 * nanosecond is lost. */
TEST a_million_periods_do_not_drift(void) {
  static const int policy[] = {UVS_MISSED_CATCH_UP, UVS_MISSED_ONCE, UVS_MISSED_SKIP};
  uint64_t period_ns = 333333333, first_ns = 17;

  for (size_t i = 0; i < N(policy); i++) {
    struct uvs__recur r = rate(policy[i], 3, period_ns);
    uint64_t random = test_seed, ideal_ns = first_ns;

    for (uint64_t k = 0; k < 1000000; k++) {
      uint64_t start_ns = ideal_ns + test_random_below(&random, period_ns - 100);
      struct uvs__point p = uvs__recur_due(&r, ideal_ns, start_ns);

      ASSERT_U64(first_ns + k * period_ns, p.ideal_ns);
      p = uvs__recur_start(&r, p.ideal_ns, start_ns);
      ASSERT_U64(first_ns + k * period_ns, p.ideal_ns);
      ASSERT_U64(0, p.missed);
      ideal_ns =
          uvs__recur_next(&r, p.ideal_ns, p.missed, start_ns + test_random_below(&random, 100))
              .ideal_ns;
    }
    ASSERT_U64(first_ns + 1000000 * period_ns, ideal_ns);
  }
  PASS();
}

/* One task through random late starts and long runs, with the invariants of every policy at every
 * step. */
static enum greatest_test_res random_life(int policy, uint32_t burst, uint64_t *random) {
  uint64_t period_ns = 1 + test_random_below(random, 1000);
  uint64_t first_ns = test_random_below(random, 1000);
  uint64_t now_ns = first_ns, ideal_ns = first_ns, runs = 0, left_out = 0;
  struct uvs__recur r = rate(policy, burst, period_ns);

  while (runs < 200) {
    struct uvs__point p;
    uint64_t merged = 0, end_ns;

    if (now_ns < ideal_ns)
      now_ns = ideal_ns;
    now_ns += test_random_below(random, 4) != 0 ? 0 : test_random_below(random, 5 * period_ns);
    p = uvs__recur_due(&r, ideal_ns, now_ns);
    ASSERT_U64(p.ideal_ns, ideal_ns + p.missed * period_ns);
    if (p.missed >
        0) { /* left out: it waits for a later point, which is not more than a period away */
      ASSERT_EQ(UVS_MISSED_SKIP, policy);
      ASSERT(now_ns - ideal_ns >= period_ns);
      ASSERT(p.ideal_ns >= now_ns);
      ASSERT(p.ideal_ns - now_ns <= period_ns);
      left_out += p.missed;
      ideal_ns = p.ideal_ns;
      continue;
    }
    if (policy == UVS_MISSED_SKIP)
      ASSERT(now_ns - ideal_ns < period_ns);
    p = uvs__recur_start(&r, ideal_ns, now_ns);
    ASSERT(p.ideal_ns <= now_ns); /* never early */
    if (policy == UVS_MISSED_ONCE) {
      ASSERT_U64(ideal_ns, p.ideal_ns);
      ASSERT_U64((now_ns - ideal_ns) / period_ns, p.missed);
      merged = p.missed;
    } else {
      ASSERT_U64(p.ideal_ns, ideal_ns + p.missed * period_ns);
      if (burst != 0 && policy == UVS_MISSED_CATCH_UP)
        ASSERT((now_ns - p.ideal_ns) / period_ns < burst);
      else
        ASSERT_U64(0, p.missed);
    }
    left_out += p.missed;
    ideal_ns = p.ideal_ns;
    runs++;
    end_ns =
        now_ns + (test_random_below(random, 3) != 0 ? 0 : test_random_below(random, 3 * period_ns));
    p = uvs__recur_next(&r, ideal_ns, merged, end_ns);
    ASSERT(p.ideal_ns > ideal_ns);
    ASSERT_U64(p.ideal_ns, ideal_ns + (1 + merged + p.missed) * period_ns);
    if (policy == UVS_MISSED_SKIP)
      ASSERT(p.ideal_ns >= end_ns);
    else
      ASSERT_U64(0, p.missed);
    left_out += p.missed;
    ideal_ns = p.ideal_ns;
    now_ns = end_ns;
    /* Every point of the grid was run or is counted. */
    ASSERT_U64(ideal_ns, first_ns + (runs + left_out) * period_ns);
  }
  if (policy == UVS_MISSED_CATCH_UP && burst == 0)
    ASSERT_U64(0, left_out);
  PASS();
}

TEST every_point_of_the_grid_is_run_or_counted(void) {
  uint64_t random = test_seed;

  for (int i = 0; i < 200; i++) {
    CHECK_CALL(random_life(UVS_MISSED_CATCH_UP, 0, &random));
    CHECK_CALL(
        random_life(UVS_MISSED_CATCH_UP, 1 + (uint32_t)test_random_below(&random, 4), &random));
    CHECK_CALL(random_life(UVS_MISSED_ONCE, 0, &random));
    CHECK_CALL(random_life(UVS_MISSED_SKIP, 0, &random));
  }
  PASS();
}

/* Any times, from small to the largest. */
static uint64_t some_time(uint64_t *random) {
  return test_random(random) >> (1 + test_random_below(random, 63));
}

TEST extreme_times_never_go_back_or_beyond_the_end_of_time(void) {
  uint64_t random = test_seed;

  for (int i = 0; i < 100000; i++) {
    struct uvs__recur r = {test_random_below(&random, 2) == 0 ? UVS_FIXED_RATE : UVS_FIXED_DELAY,
                           (int)test_random_below(&random, 3), (uint32_t)some_time(&random),
                           some_time(&random) | 1};
    uint64_t ideal_ns = some_time(&random), now_ns = some_time(&random);
    struct uvs__point due = uvs__recur_due(&r, ideal_ns, now_ns);
    struct uvs__point start = uvs__recur_start(&r, ideal_ns, now_ns);
    struct uvs__point next = uvs__recur_next(&r, ideal_ns, start.missed, now_ns);

    ASSERT(due.ideal_ns >= ideal_ns);
    ASSERT(due.ideal_ns <= UVS__NEVER);
    ASSERT(start.ideal_ns >= ideal_ns);
    ASSERT(start.ideal_ns <= UVS__NEVER);
    if (start.ideal_ns != ideal_ns)
      ASSERT(start.ideal_ns <= now_ns);
    ASSERT(next.ideal_ns <= UVS__NEVER);
    if (r.kind == UVS_FIXED_DELAY)
      ASSERT(next.ideal_ns > now_ns || next.ideal_ns == UVS__NEVER);
    else
      ASSERT(next.ideal_ns > ideal_ns || next.ideal_ns == UVS__NEVER);
    if (r.kind == UVS_FIXED_RATE && r.policy == UVS_MISSED_SKIP)
      ASSERT(next.ideal_ns >= now_ns);
  }
  PASS();
}

SUITE(arithmetic) {
  RUN_TEST(adding_a_delay_saturates_and_a_negative_delay_is_now);
  RUN_TEST(adding_periods_saturates);
}

SUITE(recur) {
  RUN_TEST(the_due_time_of_a_one_shot_does_not_move);
  RUN_TEST(fixed_delay_counts_from_the_end_of_the_run);
  RUN_TEST(catch_up_runs_every_point);
  RUN_TEST(catch_up_skips_all_but_the_newest_max_burst_points);
  RUN_TEST(once_merges_the_points_that_passed);
  RUN_TEST(skip_leaves_out_a_run_that_is_a_whole_period_late);
  RUN_TEST(skip_continues_at_the_first_point_not_before_the_end);
  RUN_TEST(the_end_of_time_is_reached_but_not_passed);
  RUN_TEST(the_largest_backlog_is_counted);
  RUN_TEST(a_million_periods_do_not_drift);
  RUN_TEST(every_point_of_the_grid_is_run_or_counted);
  RUN_TEST(extreme_times_never_go_back_or_beyond_the_end_of_time);
}

TEST_MAIN(RUN_SUITE(arithmetic); RUN_SUITE(recur));
