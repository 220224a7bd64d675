/* SPDX-License-Identifier: MIT
 *
 * occasion: the next run of a calendar task, compared with a reference that has all occurrences in
 * an array and counts them one by one.
 */
#include "task/occasion.h"

#include "calendar/calendars.h"

#define MANY 8192
#define LOOK_AHEAD 1024

/* All occurrences after an instant. */
struct reference {
  uint64_t at[MANY];
};

static void fill(struct reference *r, const uvs_calendar_t *c, int64_t from_ns) {
  for (size_t i = 0; i < MANY; i++) {
    from_ns = uvs_calendar_next(c, from_ns);
    r->at[i] = (uint64_t)from_ns;
  }
}

/* The index of the first occurrence that is not before this instant. */
static size_t first_from(const struct reference *r, uint64_t ns) {
  size_t i = 0;

  while (r->at[i] < ns)
    i++;
  return i;
}

static const struct {
  const char *text, *zone;
  int64_t spread_ns; /* so that about 2000 occurrences are in it */
} calendars[] = {
    {"* * * * * *", "UTC", UVS_SEC(2000)},
    {"*/5 * * * *", "America/New_York", UVS_DAY(7)},
    {"30 1,2 * * *", "America/New_York", UVS_DAY(1000)},
    {"0 9 * * 1-5", "Europe/Berlin", UVS_DAY(2500)},
};

/* A random instant; often exactly at an occurrence, or 1 ns beside it. */
static uint64_t instant_in(const struct reference *r, uint64_t *seed, size_t from, size_t until) {
  uint64_t ns = r->at[from + test_random_below(seed, until - from)];

  return ns + test_random_below(seed, 3) - 1;
}

#define ROW(i) (snprintf(row, sizeof row, "case %d, SEED above", i), row)
#define SAME(EXP, GOT) \
  ASSERT_EQ_FMTm(ROW(i), (unsigned long long)(EXP), (unsigned long long)(GOT), "%llu")

/* K16 K17 */
TEST every_policy_agrees_with_a_count_one_by_one(void) {
  static struct reference r;
  static const uint32_t bursts[] = {0, 1, 2, 7, 100, 1023, 1024, 1025, 1500};
  uint64_t seed = test_seed;
  char row[64];

  SKIP_WITHOUT("America/New_York");
  for (int k = 0; k < 4; k++) {
    uvs_calendar_t *calendar = calendar_of(calendars[k].text, calendars[k].zone);

    ASSERT(calendar != NULL);
    fill(&r, calendar, utc("2025-03-01 00:00"));
    for (int i = 0; i < 400; i++) {
      struct uvs__occasions c = {calendar, (int)test_random_below(&seed, 3), 0};
      bool skip = test_random_below(&seed, 4) == 0;
      size_t before = test_random_below(&seed, 200);
      uint64_t now_ns = instant_in(&r, &seed, before, before + 2000);
      struct uvs__occasion o;
      size_t ideal = before + 1, now_i;

      if (c.policy == UVS_MISSED_CATCH_UP)
        c.max_burst = bursts[test_random_below(&seed, 9)];

      /* after */
      o = uvs__occasion_after(&c, r.at[before], skip, now_ns);
      if (skip || c.policy == UVS_MISSED_SKIP) {
        while (r.at[ideal] < now_ns)
          ideal++;
      }
      SAME(r.at[ideal], o.ideal_ns);
      SAME(r.at[ideal], o.last_ns);
      SAME(ideal - before - 1, o.missed);
      if (c.policy != UVS_MISSED_CATCH_UP)
        SAME(r.at[ideal + 1], o.passed_ns);
      else if (c.max_burst == 0)
        SAME(UVS__NEVER, o.passed_ns);
      else
        SAME(r.at[ideal + (c.max_burst < LOOK_AHEAD ? c.max_burst : LOOK_AHEAD)], o.passed_ns);

      /* again */
      o = uvs__occasion_again(&c, r.at[before], now_ns);
      now_i = first_from(&r, now_ns + 1);
      SAME(r.at[now_i > before ? now_i : before + 1], o.ideal_ns);
      SAME(0, o.missed);

      /* passed: from `ideal`, and until `last` they are counted */
      size_t last = ideal;
      if (c.policy == UVS_MISSED_CATCH_UP && c.max_burst == 0)
        continue; /* it never is */
      ideal = before;
      last = c.policy == UVS_MISSED_ONCE ? before + test_random_below(&seed, 50) : before;
      now_ns = instant_in(&r, &seed, last + 1, last + 2001) + 1;
      now_i = first_from(&r, now_ns + 1); /* the first that is later */
      o = uvs__occasion_passed(&c, r.at[ideal], r.at[last], now_ns);
      if (c.policy == UVS_MISSED_ONCE) {
        SAME(r.at[ideal], o.ideal_ns);
        SAME(r.at[now_i - 1], o.last_ns);
        SAME(r.at[now_i], o.passed_ns);
        SAME(now_i - 1 - last, o.missed);
      } else if (c.policy == UVS_MISSED_SKIP) {
        size_t next = first_from(&r, now_ns);

        SAME(r.at[next], o.ideal_ns);
        SAME(next - ideal, o.missed);
        SAME(r.at[next + 1], o.passed_ns);
      } else {
        size_t kept = now_i - ideal > c.max_burst ? now_i - c.max_burst : ideal;
        size_t full = kept + c.max_burst; /* when it has come, one must be left out */

        SAME(r.at[kept], o.ideal_ns);
        SAME(kept - ideal, o.missed);
        SAME(r.at[full < now_i + LOOK_AHEAD ? full : now_i + LOOK_AHEAD - 1], o.passed_ns);
      }
    }
    uvs_calendar_release(calendar);
  }
  PASS();
}

/* K16. Stepping over each occurrence would take this test half a minute. */
TEST five_years_of_seconds_are_counted_without_stepping(void) {
  uvs_calendar_t *calendar = calendar_of("* * * * * *", "UTC");
  uint64_t first_ns = (uint64_t)utc("2025-01-01 00:00"), now_ns = (uint64_t)utc("2030-01-01 00:00");
  uint64_t n = (uint64_t)1826 * 86400, s = (uint64_t)UVS_SEC(1); /* n more after the first */
  struct uvs__occasions c = {calendar, UVS_MISSED_ONCE, 0};
  struct uvs__occasion o = uvs__occasion_passed(&c, first_ns, first_ns, now_ns);

  ASSERT_U64(n, o.missed);
  ASSERT_U64(first_ns, o.ideal_ns);
  ASSERT_U64(now_ns, o.last_ns);
  ASSERT_U64(now_ns + s, o.passed_ns);

  c.policy = UVS_MISSED_SKIP;
  o = uvs__occasion_passed(&c, first_ns, first_ns, now_ns);
  ASSERT_U64(n, o.missed);
  ASSERT_U64(now_ns, o.ideal_ns);
  o = uvs__occasion_after(&c, first_ns, false, now_ns);
  ASSERT_U64(n - 1, o.missed);
  ASSERT_U64(now_ns, o.ideal_ns);

  c.policy = UVS_MISSED_CATCH_UP;
  for (c.max_burst = 1; c.max_burst < n; c.max_burst = c.max_burst * 7 + 3) {
    o = uvs__occasion_passed(&c, first_ns, first_ns, now_ns);
    ASSERT_U64(n + 1 - c.max_burst, o.missed);
    ASSERT_U64(now_ns - (c.max_burst - 1) * s, o.ideal_ns);
  }
  uvs_calendar_release(calendar);
  PASS();
}

/* K16 */
TEST at_the_end_of_time_there_is_no_next_run(void) {
  uvs_calendar_t *calendar = calendar_of("0 0 1 1 *", "UTC");
  int64_t last_ns = uvs_calendar_previous(calendar, UVS_NEVER);
  struct uvs__occasions c = {calendar, UVS_MISSED_ONCE, 0};

  ASSERT_U64(UVS__NEVER, uvs__occasion_after(&c, (uint64_t)last_ns, false, 0).ideal_ns);
  ASSERT_U64(UVS__NEVER, uvs__occasion_after(&c, UVS__NEVER, false, 0).ideal_ns);
  ASSERT_U64(0, uvs__occasion_passed(&c, (uint64_t)last_ns, (uint64_t)last_ns, UVS__NEVER).missed);
  ASSERT_U64(UVS__NEVER,
             uvs__occasion_passed(&c, (uint64_t)last_ns, (uint64_t)last_ns, UVS__NEVER).passed_ns);
  uvs_calendar_release(calendar);
  PASS();
}

SUITE(occasion) {
  RUN_TEST(every_policy_agrees_with_a_count_one_by_one);
  RUN_TEST(five_years_of_seconds_are_counted_without_stepping);
  RUN_TEST(at_the_end_of_time_there_is_no_next_run);
}

TEST_MAIN(RUN_SUITE(occasion));
