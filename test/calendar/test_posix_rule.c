/* SPDX-License-Identifier: MIT
 *
 * Zones that are described by a rule: which texts are allowed, and when the offset changes.
 */
#include "calendar/posix_rule.h"

#include <string.h>

#include "lib/unit.h"

#define HOUR 3600
#define I64(EXP, GOT) ASSERT_EQ_FMT((long long)(EXP), (long long)(GOT), "%lld")

static struct uvs__posix_rule parsed(const char *text) {
  struct uvs__posix_rule r;

  memset(&r, 0x55, sizeof r);
  if (uvs__posix_rule_parse(text, strlen(text), &r) != 0) {
    fprintf(stderr, "%s is refused\n", text);
    abort();
  }
  return r;
}

static struct uvs__zone_span span_at(const char *text, int64_t at_s) {
  struct uvs__posix_rule r = parsed(text);
  struct uvs__zone_span s;

  uvs__posix_rule_find(&r, at_s, &s);
  return s;
}

/* UTC seconds, by a way of counting that differs from the library's: day by day. */
static int64_t utc(int year, int month, int day, int hour, int minute) {
  static const int length[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  int64_t days = 0;

  for (int y = 1970; y < year; y++)
    days += y % 4 == 0 && (y % 100 != 0 || y % 400 == 0) ? 366 : 365;
  for (int m = 1; m < month; m++)
    days += length[m - 1] + (m == 2 && year % 4 == 0 && (year % 100 != 0 || year % 400 == 0));
  return ((days + day - 1) * 24 + hour) * HOUR + minute * 60;
}

TEST a_rule_without_daylight_saving_is_one_span(void) {
  static const struct {
    const char *text;
    int32_t offset_s;
  } zones[] = {{"UTC0", 0},
               {"EST5", -5 * HOUR},
               {"<+03>-3", 3 * HOUR},
               {"<-0330>+3:30", -(3 * HOUR + 1800)},
               {"IST-5:30:15", 5 * HOUR + 1815},
               {"ABC24", -24 * HOUR},
               {"ABC0ABD0,J1,J2", 0}}; /* both offsets are equal */

  for (size_t i = 0; i < sizeof zones / sizeof *zones; i++) {
    for (int k = -1; k <= 1; k++) {
      struct uvs__zone_span s = span_at(zones[i].text, k * (INT64_MAX / 2));

      I64(INT64_MIN, s.start_s);
      I64(INT64_MAX, s.end_s);
      I64(zones[i].offset_s, s.offset_s);
      I64(zones[i].offset_s, s.before_s);
    }
  }
  PASS();
}

TEST central_europe_changes_on_the_last_sundays(void) {
  struct uvs__zone_span s = span_at("CET-1CEST,M3.5.0,M10.5.0/3", utc(2025, 7, 1, 0, 0));

  I64(utc(2025, 3, 30, 1, 0), s.start_s);
  I64(utc(2025, 10, 26, 1, 0), s.end_s);
  I64(2 * HOUR, s.offset_s);
  I64(HOUR, s.before_s);
  s = span_at("CET-1CEST,M3.5.0,M10.5.0/3", s.end_s);
  I64(utc(2026, 3, 29, 1, 0), s.end_s);
  I64(HOUR, s.offset_s);
  I64(2 * HOUR, s.before_s);
  s = span_at("CET-1CEST,M3.5.0,M10.5.0/3", utc(2024, 3, 31, 1, 0) - 1); /* the last second of it */
  I64(utc(2024, 3, 31, 1, 0), s.end_s);
  PASS();
}

TEST the_southern_summer_crosses_the_new_year(void) {
  struct uvs__zone_span s = span_at("<-04>4<-03>,M9.1.6/24,M4.1.6/24", utc(2026, 1, 1, 0, 0));

  I64(utc(2025, 9, 7, 4, 0), s.start_s); /* 24:00 on Saturday 6 September */
  I64(utc(2026, 4, 5, 3, 0), s.end_s);
  I64(-3 * HOUR, s.offset_s);
  s = span_at("<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", utc(2025, 5, 1, 0, 0)); /* 30 minutes */
  I64(utc(2025, 4, 5, 15, 0), s.start_s);
  I64(utc(2025, 10, 4, 15, 30), s.end_s);
  PASS();
}

TEST days_are_counted_with_and_without_29_february(void) {
  I64(utc(2024, 3, 1, 2, 0), span_at("AAA0BBB,J60,J300", utc(2024, 6, 1, 0, 0)).start_s);
  I64(utc(2025, 3, 1, 2, 0), span_at("AAA0BBB,J60,J300", utc(2025, 6, 1, 0, 0)).start_s);
  I64(utc(2024, 2, 28, 2, 0), span_at("AAA0BBB,J59,J300", utc(2024, 6, 1, 0, 0)).start_s);
  I64(utc(2024, 2, 29, 2, 0), span_at("AAA0BBB,59,300", utc(2024, 6, 1, 0, 0)).start_s);
  I64(utc(2025, 3, 1, 2, 0), span_at("AAA0BBB,59,300", utc(2025, 6, 1, 0, 0)).start_s);
  I64(utc(2000, 2, 29, 2, 0), span_at("AAA0BBB,59,300", utc(2000, 6, 1, 0, 0)).start_s);
  I64(utc(2100, 3, 1, 2, 0), span_at("AAA0BBB,59,300", utc(2100, 6, 1, 0, 0)).start_s);
  PASS();
}

TEST times_reach_from_minus_to_plus_167_hours(void) {
  struct uvs__zone_span s = span_at("AAA0BBB,M3.5.0/-167,M10.5.0/167:59:59", utc(2025, 6, 1, 0, 0));

  I64(utc(2025, 3, 30, 0, 0) - 167 * HOUR, s.start_s);
  I64(utc(2025, 10, 26, 0, 0) + 168 * HOUR - 1 - HOUR, s.end_s);
  s = span_at("<-02>2<-01>,M3.5.0/-1,M10.5.0/0", utc(2025, 6, 1, 0, 0)); /* Nuuk */
  I64(utc(2025, 3, 30, 1, 0), s.start_s);
  I64(utc(2025, 10, 26, 1, 0), s.end_s);
  s = span_at("AAA0BBB,J1/-100,J180", utc(2025, 1, 1, 0, 0)); /* it leaves its year */
  I64(utc(2024, 12, 27, 20, 0), s.start_s);
  I64(utc(2025, 6, 29, 1, 0), s.end_s);
  s = span_at("AAA0BBB,J180,J365/100", utc(2025, 1, 1, 0, 0));
  I64(utc(2024, 6, 29, 2, 0), s.start_s);
  I64(utc(2025, 1, 4, 3, 0), s.end_s);
  PASS();
}

TEST daylight_saving_all_the_year_is_one_span(void) {
  static const char *const always[] = {"XXX3EDT4,0/0,J365/23", "EST5EDT,0/0,J365/25",
                                       "EST5EDT4,0/0,J365/25"};

  for (size_t i = 0; i < 3; i++) {
    struct uvs__zone_span s = span_at(always[i], utc(2025, 1, 1, 4, 0));

    I64(-4 * HOUR, s.offset_s);
    I64(INT64_MIN, s.start_s);
    I64(INT64_MAX, s.end_s);
  }
  PASS();
}

/* Day 365 exists in leap years only; else it is 1 January, when daylight saving begins again. So
 * three of four years have no standard time. */
TEST changes_that_cancel_each_other_are_left_out(void) {
  struct uvs__zone_span s = span_at("AAA0BBB,0/0,365/1", utc(2026, 1, 1, 0, 0));

  I64(utc(2025, 1, 1, 0, 0), s.start_s);
  I64(utc(2028, 12, 31, 0, 0), s.end_s);
  I64(HOUR, s.offset_s);
  I64(0, s.before_s);
  s = span_at("AAA0BBB,0/0,365/1", utc(2102, 6, 1, 0, 0)); /* 2100 has no such day */
  I64(utc(2097, 1, 1, 0, 0), s.start_s);
  I64(utc(2104, 12, 31, 0, 0), s.end_s);
  PASS();
}

TEST the_ends_of_time_saturate(void) {
  const char *text = "CET-1CEST,M3.5.0,M10.5.0/3";
  struct uvs__zone_span s = span_at(text, INT64_MIN);

  I64(INT64_MIN, s.start_s);
  ASSERT(s.end_s > INT64_MIN && s.end_s < INT64_MIN + INT64_C(366) * 86400);
  s = span_at(text, INT64_MAX);
  I64(INT64_MAX, s.end_s);
  ASSERT(s.start_s > INT64_MAX - INT64_C(366) * 86400);
  PASS();
}

/* Every span begins where the one before ended, in 800 years on both sides of 1970. */
TEST spans_are_without_holes(void) {
  static const char *const texts[] = {"CET-1CEST,M3.5.0,M10.5.0/3", "AAA0BBB,0/0,365/1",
                                      "<-04>4<-03>,M9.1.6/24,M4.1.6/24", "AAA0BBB,J1/-100,J180",
                                      "AAA0BBB,J180,J365/100"};
  const int64_t span_s = INT64_C(800) * 366 * 86400;

  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    struct uvs__zone_span s = span_at(texts[i], -span_s), next;
    unsigned count = 0;

    for (; s.end_s < span_s; s = next, count++) {
      next = span_at(texts[i], s.end_s);
      I64(s.end_s, next.start_s);
      I64(s.offset_s, next.before_s);
      ASSERT(next.offset_s != s.offset_s);
      ASSERT(next.end_s > next.start_s);
      I64(next.end_s, span_at(texts[i], next.end_s - 1).end_s);
    }
    ASSERT(count > 380);
  }
  PASS();
}

TEST texts_that_are_not_rules_are_refused(void) {
  static const char *const texts[] = {
      "",
      "UTC",
      "0",
      "AB0",
      "<AB>0",
      "<ABC0",
      "<A_C>0",
      "UTC0 ",
      "UTC25",
      "UTC0:60",
      "UTC0:00:60",
      "UTC0:",
      "UTC+-1",
      "UTC1234",
      "EST5EDT", /* no dates: POSIX leaves open which */
      "EST5EDT,",
      "EST5EDT,M3.2.0",
      "EST5EDT,M3.2.0,",
      "EST5EDT,M3.2.0,M11.1.0,",
      "EST5EDT,M0.2.0,M11.1.0",
      "EST5EDT,M13.2.0,M11.1.0",
      "EST5EDT,M3.0.0,M11.1.0",
      "EST5EDT,M3.6.0,M11.1.0",
      "EST5EDT,M3.2.7,M11.1.0",
      "EST5EDT,M3.2,M11.1.0",
      "EST5EDT,J0,J100",
      "EST5EDT,J366,J100",
      "EST5EDT,366,J100",
      "EST5EDT,J1,J100/168",
      "EST5EDT,J1,J100/-168",
      "EST5EDT,J1,J100/",
      "EST5EDT,J1,J-1",
      "EST5EDT,J1/-160,J365/160",            /* one summer begins before the last one ends */
      "EST5EDT,M3.5.0,J88",                  /* sometimes before, sometimes after */
      "99999999999999999999999999999999999", /* nothing overflows */
      "UTC99999999999999999999999999999999",
  };
  struct uvs__posix_rule r;

  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    ASSERT_EQ_FMTm(texts[i], UV_EINVAL, uvs__posix_rule_parse(texts[i], strlen(texts[i]), &r),
                   "%d");
  ASSERT_RC(UV_EINVAL, uvs__posix_rule_parse("UTC0\0", 5, &r));
  PASS();
}

/* The text ends where its length says, not at a 0 byte: under AddressSanitizer a read beyond it is
 * seen. */
TEST a_text_is_not_read_beyond_its_length(void) {
  static const char whole[] = "<+0330>-3:30:30<+0430>-4:30:30,M3.5.0/-167:59:59,J300/12:34:56";
  struct uvs__posix_rule r;

  for (size_t n = 0; n < sizeof whole; n++) {
    char *text = malloc(n + !n);
    int rc;

    memcpy(text, whole, n);
    rc = uvs__posix_rule_parse(text, n, &r);
    free(text);
    if (n == sizeof whole - 1)
      ASSERT_RC(0, rc);
    if (n < 9 || n > sizeof whole - 1)
      ASSERT_RC(UV_EINVAL, rc);
  }
  PASS();
}

SUITE(posix_rule) {
  RUN_TEST(a_rule_without_daylight_saving_is_one_span);
  RUN_TEST(central_europe_changes_on_the_last_sundays);
  RUN_TEST(the_southern_summer_crosses_the_new_year);
  RUN_TEST(days_are_counted_with_and_without_29_february);
  RUN_TEST(times_reach_from_minus_to_plus_167_hours);
  RUN_TEST(daylight_saving_all_the_year_is_one_span);
  RUN_TEST(changes_that_cancel_each_other_are_left_out);
  RUN_TEST(the_ends_of_time_saturate);
  RUN_TEST(spans_are_without_holes);
  RUN_TEST(texts_that_are_not_rules_are_refused);
  RUN_TEST(a_text_is_not_read_beyond_its_length);
}

TEST_MAIN(RUN_SUITE(posix_rule));
