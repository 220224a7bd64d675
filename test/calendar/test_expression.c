/* SPDX-License-Identifier: MIT
 *
 * What cron expressions mean, and how wrong ones are refused. No zone but UTC.
 */
#include "calendar/expression.h"

#include "calendar/calendars.h"

/* --------------------------------------------------------------- refusals --- */

static const struct refusal {
  const char *text;
  int column;
  const char *field, *why;
} refusals[] = {
    /* values */
    {"60 * * * *", 1, "minute", "minute 60 is out of range 0-59"},
    {"60 * * * * *", 1, "second", "second 60 is out of range 0-59"},
    {"0 24 * * *", 3, "hour", "hour 24 is out of range 0-23"},
    {"0 0 0 * *", 5, "day of month", "day of month 0 is out of range 1-31"},
    {"0 0 1,32 * *", 7, "day of month", "day of month 32 is out of range 1-31"},
    {"0 0 1 13 *", 7, "month", "month 13 is out of range 1-12"},
    {"0 0 * * 8", 9, "day of week", "day of week 8 is out of range 0-7"},
    {"0 0-99999999999999999999 * * *", 5, "hour", "hour 99999999999999999999 is out of range 0-23"},
    {"0  0  *  *  x", 13, "day of week",
     "'x' is not a day of week: write a number from 0 to 7, or SUN to SAT"},
    {"0 0 * FOO *", 7, "month", "'FOO' is not a month: write a number from 1 to 12, or JAN to DEC"},
    {"-5 * * * *", 1, "minute", "'-5' is not a minute: write a number from 0 to 59"},
    {"5- * * * *", 1, "minute", "'5-' is not a minute: write a number from 0 to 59"},
    {"5-10-15 * * * *", 1, "minute", "'5-10-15' is not a minute: write a number from 0 to 59"},
    {"*5 * * * *", 1, "minute", "'*5' is not a minute: write a number from 0 to 59"},
    {"1.5 * * * *", 1, "minute", "'1.5' is not a minute: write a number from 0 to 59"},
    {"\001\377 * * * *", 1, "minute",
     "'"
     "??"
     "' is not a minute: write a number from 0 to 59"},
    {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa * * * *", 1, "minute",
     "'aaaaaaaaaaaaaaaaaaaaaaaa...' is not a minute: write a number from 0 to 59"},
    {"5, * * * *", 3, "minute",
     "the minute field has an empty item: write a value, or remove the comma"},
    {"1,,2 * * * *", 3, "minute",
     "the minute field has an empty item: write a value, or remove the comma"},
    /* names */
    {"0 0 * * MONDAY", 9, "day of week", "'MONDAY' is not a name: write MON"},
    {"0 0 * * MON-FRIDAY", 13, "day of week", "'FRIDAY' is not a name: write FRI"},
    {"0 0 * january *", 7, "month", "'january' is not a name: write JAN"},
    {"0 0 MON * *", 5, "day of month", "'MON' is not a day of month: write a number from 1 to 31"},
    {"0 0 * MAYL *", 7, "month", "'MAYL' is not a name: write MAY"},
    /* steps */
    {"*/0 * * * *", 3, "minute", "a step of 0 is not allowed: write a step of 1 or more"},
    {"*/ * * * *", 3, "minute", "'*/' has no step after '/': write a number from 1"},
    {"5/x * * * *", 3, "minute", "'5/x' has no step after '/': write a number from 1"},
    {"*/5/5 * * * *", 1, "minute", "'*/5/5' is not a minute: write a number from 0 to 59"},
    /* ranges that wrap round */
    {"0 0 * * FRI-MON", 9, "day of week", "FRI-MON wraps round: write FRI,SAT,SUN,MON"},
    {"0 0 * * fri-mon/2", 9, "day of week", "fri-mon/2 wraps round: write FRI,SUN"},
    {"0 22-2 * * *", 3, "hour", "22-2 wraps round: write 22-23,0-2"},
    {"0 22-2/2 * * *", 3, "hour", "22-2/2 wraps round: write 22-23/2,0-2/2"},
    {"50-5/7 * * * *", 1, "minute", "50-5/7 wraps round: write 50-59/7,4-5/7"},
    {"59-0 * * * *", 1, "minute", "59-0 wraps round: write 59,0"},
    {"0 0 1,20-5 * *", 7, "day of month", "20-5 wraps round: write 20-31,1-5"},
    {"0 0 * NOV-FEB *", 7, "month", "NOV-FEB wraps round: write NOV,DEC,JAN,FEB"},
    {"0 0 * 11-2 *", 7, "month", "11-2 wraps round: write 11-12,1-2"},
    {"0 0 * * 5-0", 9, "day of week", "5-0 wraps round: write 5-7"},
    {"0 0 * * 5-1", 9, "day of week", "5-1 wraps round: write 5-7,1"},
    {"0 0 * * 7-2", 9, "day of week", "7-2 wraps round: write 7,1-2"},
    /* L, W and # */
    {"0 0 L-3 * *", 5, "day of month",
     "'L-3' is not allowed: write L for the last day, LW for the last weekday, or a day"},
    {"0 0 1-5W * *", 5, "day of month", "'1-5W': W takes one day: write a single day, such as 15W"},
    {"0 0 W * *", 5, "day of month", "'W' is not a day of month: write a number from 1 to 31"},
    {"0 0 32W * *", 5, "day of month", "day of month 32 is out of range 1-31"},
    {"0 0 5L * *", 5, "day of month", "'5L' is not a day of month: write a number from 1 to 31"},
    {"0 0 * L *", 7, "month", "'L' is not a month: write a number from 1 to 12, or JAN to DEC"},
    {"L * * * *", 1, "minute", "'L' is not a minute: write a number from 0 to 59"},
    {"0 0 * * L", 9, "day of week",
     "'L' is not a day of week: write 6L for the last Saturday, 6 for every Saturday"},
    {"0 0 * * 1-5#1", 9, "day of week", "'1-5#1': # takes one weekday: write 1#1,2#1,3#1,4#1,5#1"},
    {"0 0 * * 1#6", 11, "day of week", "'1#6': write a number from 1 to 5 after '#'"},
    {"0 0 * * 1#", 11, "day of week", "'1#': write a number from 1 to 5 after '#'"},
    {"0 0 * * #1", 9, "day of week",
     "'#1' is not a day of week: write a number from 0 to 7, or SUN to SAT"},
    {"0 0 * * 1-5L", 9, "day of week",
     "'1-5L' is not a day of week: write a number from 0 to 7, or SUN to SAT"},
    /* dates that never come */
    {"0 0 31 2 *", 5, "day of month",
     "day 31 of month 2 never comes: write a day that the month has"},
    {"0 0 31 4,6,9,11 ?", 5, "day of month",
     "day 31 of month 4,6,9,11 never comes: write a day that the month has"},
    {"0 0 0 30W FEB *", 7, "day of month",
     "day 30W of month FEB never comes: write a day that the month has"},
    {"0 0 */31 * 1#2", 5, "day of month",
     "day */31 of month * is never a day of week 1#2: write other days, or * in one field"},
    /* the whole */
    {"", 1, "expression", "the expression is empty: write 5 fields, such as 0 9 * * 1-5"},
    {"  \t ", 1, "expression", "the expression is empty: write 5 fields, such as 0 9 * * 1-5"},
    {"*", 2, "expression",
     "1 field is too few: write minute, hour, day of month, month, day of week"},
    {"* * * *", 8, "expression",
     "4 fields are too few: write minute, hour, day of month, month, day of week"},
    {"0 0 0 * * * 2025", 13, "expression",
     "7 fields are too many: write 5, or 6 with the seconds first; there is no year field"},
    {"@reboot", 1, "expression",
     "@reboot is not a time: submit a task without a calendar when the program starts"},
    {"@often", 1, "expression",
     "this is not a shorthand: write @yearly, @monthly, @weekly, @daily, @midnight, @hourly, or "
     "@every 90s"},
    {"@daily 5", 8, "expression", "@daily stands alone: write nothing after it"},
    {"@every", 7, "interval",
     "@every needs one interval: write numbers with units, such as @every 1h30m"},
    {"@every 1h 30m", 11, "interval",
     "@every needs one interval: write numbers with units, such as @every 1h30m"},
    {"@every 90", 8, "interval",
     "this is not an interval: write numbers with units, such as 90s or 1h30m"},
    {"@every 0s", 8, "interval",
     "this is not an interval: write numbers with units, such as 90s or 1h30m"},
};

/* K2 */
TEST a_refusal_names_the_field_and_the_column_and_what_to_write(void) {
  for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
    const struct refusal *r = &refusals[i];
    uvs_calendar_error_t error;
    uvs_calendar_t *c = NULL;

    ASSERT_RC(UV_EINVAL, uvs_calendar_parse(r->text, "UTC", NULL, &c, &error));
    ASSERT_EQ(NULL, c);
    ASSERT_STR_EQ(r->why, error.text);
    ASSERT_STR_EQ(r->field, error.field);
    ASSERT_EQ_FMT(r->column, error.column, "%d");
    ASSERT_RC(UV_EINVAL, uvs_calendar_parse(r->text, "UTC", NULL, &c, NULL));
  }
  PASS();
}

/* K2. Whatever stands in "write ..." is accepted. */
TEST what_a_refusal_of_a_wrapping_range_suggests_is_accepted(void) {
  static const struct {
    int field, min, max;
  } kinds[] = {{0, 0, 59}, {1, 0, 23}, {2, 1, 31}, {3, 1, 12}, {4, 0, 7}};

  for (size_t k = 0; k < 5; k++) {
    for (int a = kinds[k].min; a <= kinds[k].max; a++) {
      for (int b = kinds[k].min; b < a; b++) {
        int step = 1 + (a + b) % 5;
        char fields[5][64] = {"0", "0", "*", "*", "*"}, text[400];
        uint64_t expected = 0, set;
        struct uvs__day_fields days = {0};
        uvs_calendar_error_t error;
        uvs_calendar_t *c;
        const char *write;
        int count = kinds[k].max - kinds[k].min + (k == 4 ? 0 : 1);

        snprintf(fields[k], sizeof fields[k], "%d-%d/%d", a, b, step);
        snprintf(text, sizeof text, "%s %s %s %s %s", fields[0], fields[1], fields[2], fields[3],
                 fields[4]);
        ASSERT_RC(UV_EINVAL, uvs_calendar_parse(text, "UTC", NULL, &c, &error));
        write = strstr(error.text, "wraps round: write ");
        ASSERT(write != NULL);
        write += strlen("wraps round: write ");
        for (int n = a; n <= b + count; n += step)
          expected |= UINT64_C(1) << (kinds[k].min + (n - kinds[k].min) % count);
        ASSERT_RC(0, uvs__field_read(write, kinds[k].field + 1,
                                     (struct uvs__span){write, write + strlen(write)}, &set, &days,
                                     &error));
        ASSERT_U64(expected, k == 4 ? (set | set >> 7) & 0x7f : set);
      }
    }
  }
  PASS();
}

/* K2 */
TEST an_expression_of_1000_bytes_is_read_and_one_of_1001_is_refused(void) {
  char text[1002];
  uvs_calendar_error_t error;
  uvs_calendar_t *c;

  memset(text, ' ', sizeof text);
  memcpy(text, "0 0 * * *", 9);
  text[1001] = '\0';
  ASSERT_RC(UV_EINVAL, uvs_calendar_parse(text, "UTC", NULL, &c, &error));
  ASSERT_STR_EQ("the expression is longer than 1000 bytes: write a shorter one", error.text);
  ASSERT_EQ_FMT(1001, error.column, "%d");
  text[1000] = '\0';
  ASSERT_RC(0, uvs_calendar_parse(text, "UTC", NULL, &c, &error));
  uvs_calendar_release(c);
  PASS();
}

/* --------------------------------------------------------------- meanings --- */

static const char *const same[][2] = {
    /* steps and ranges */
    {"5/15 * * * *", "5-59/15 * * * *"},
    {"5/15 * * * *", "5,20,35,50 * * * *"},
    {"0 3/8 * * *", "0 3,11,19 * * *"},
    {"*/90 * * * *", "*/60 * * * *"},
    {"1-10/99 0 * * *", "1 0 * * *"},
    {"?/20 ? ? ? ?", "*/20 * * * *"},
    {"?/20 * * * *", "*/20 * * * *"},
    {"0 0 1/7 * *", "0 0 1,8,15,22,29 * *"},
    {"3,1-2,1 0 * * *", "1-3 0 * * *"},
    {"05 007 01 02 03", "5 7 1 2 3"},
    {"  0 \t 9   * *\t\t1-5  ", "0 9 * * 1-5"},
    /* six fields */
    {"0 5 9 * * *", "5 9 * * *"},
    {"*/10 5 9 * * *", "0,10,20,30,40,50 5 9 * * *"},
    /* weekdays */
    {"0 0 * * 7", "0 0 * * 0"},
    {"0 0 * * SUN", "0 0 * * 0"},
    {"0 0 * * FRI-SUN", "0 0 * * 0,5,6"},
    {"0 0 * * 5-7", "0 0 * * 0,5,6"},
    {"0 0 * * 0-7", "0 0 * * 0-6"},
    {"0 0 * * SUN-TUE", "0 0 * * 0,1,2"},
    {"0 0 * * SUN-SUN", "0 0 * * 0"},
    {"0 0 * * 1/2", "0 0 * * 1,3,5"},
    {"0 0 * * 1-7/2", "0 0 * * 0,1,3,5"},
    {"0 0 * * 7/2", "0 0 * * 0,2,4,6"},
    {"0 0 * * Mon,wED,fri", "0 0 * * 1,3,5"},
    {"0 0 * * MON#2", "0 0 * * 1#2"},
    {"0 0 * * FRIL", "0 0 * * 5L"},
    {"0 0 * * fril", "0 0 * * 5L"},
    {"0 0 * * 7L,7#1", "0 0 * * 0L,SUN#1"},
    /* months */
    {"0 0 1 JAN,jul,Dec *", "0 0 1 1,7,12 *"},
    {"0 0 1 FEB-APR/2 *", "0 0 1 2,4 *"},
    /* days of the month */
    {"0 0 l * *", "0 0 L * *"},
    {"0 0 15w,lw * *", "0 0 15W,LW * *"},
    {"0 0 */2 * *", "0 0 1-31/2 * ?"},
    /* shorthands */
    {"@yearly", "0 0 1 1 *"},
    {"@annually", "0 0 1 1 *"},
    {"@monthly", "0 0 1 * *"},
    {"@weekly", "0 0 * * 0"},
    {"@daily", "0 0 * * *"},
    {"@midnight", "0 0 * * *"},
    {"@hourly", "0 * * * *"},
    {" @DAILY ", "0 0 * * *"},
    {"@every 90s", "@EVERY 1m30s"},
};

/* K1 */
TEST these_expressions_mean_the_same(void) {
  for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
    struct uvs__expression a, b;
    uvs_calendar_error_t error;

    ASSERT_EQm(same[i][0], 0, uvs__expression_read(same[i][0], UVS_DAYS_AUTO, &a, &error));
    ASSERT_EQm(same[i][1], 0, uvs__expression_read(same[i][1], UVS_DAYS_AUTO, &b, &error));
    ASSERT_EQm(same[i][0], 0, memcmp(&a, &b, sizeof a));
  }
  PASS();
}

/* K6 */
TEST only_minute_and_hour_decide_whether_an_expression_follows_real_time(void) {
  static const struct {
    const char *text;
    bool real_time;
  } cases[] = {{"* 2 * * *", true},     {"0 * * * *", true},        {"*/30 2 * * *", true},
               {"? 2 * * *", true},     {"0 */2 * * *", true},      {"0 ?/5 * * *", true},
               {"30 2 * * *", false},   {"0-59 0-23 * * *", false}, {"5,* 2 * * *", false},
               {"* 30 2 * * *", false}, {"*/5 30 2 * * *", false},  {"0 * 2 * * *", true},
               {"@hourly", true},       {"@daily", false}};

  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct uvs__expression e;
    uvs_calendar_error_t error;

    ASSERT_RC(0, uvs__expression_read(cases[i].text, UVS_DAYS_AUTO, &e, &error));
    ASSERT_EQm(cases[i].text, cases[i].real_time, e.real_time);
  }
  PASS();
}

/* ------------------------------------------------------------------ dates --- */

static const struct dates {
  const char *text;
  int days;
  const char *from, *dates; /* the next ones, from a date on */
} dates[] = {
    {"0 0 L * *", 0, "2024-01-01", "2024-01-31 2024-02-29 2024-03-31 2024-04-30"},
    {"0 0 L 2 *", 0, "2023-01-01", "2023-02-28 2024-02-29 2025-02-28"},
    {"0 0 L,15 * *", 0, "2025-02-01", "2025-02-15 2025-02-28 2025-03-15"},
    {"0 0 LW * *", 0, "2025-05-01", "2025-05-30 2025-06-30 2025-07-31 2025-08-29"},
    {"0 0 15W * *", 0, "2025-02-01", "2025-02-14 2025-03-14 2025-04-15 2025-05-15 2025-06-16"},
    {"0 0 1W * *", 0, "2025-02-01", "2025-02-03 2025-03-03 2025-04-01 2025-05-01 2025-06-02"},
    {"0 0 31W * *", 0, "2025-05-01", "2025-05-30 2025-07-31 2025-08-29 2025-10-31 2025-12-31"},
    {"0 0 30W 11 *", 0, "2025-11-01", "2025-11-28 2026-11-30"},
    {"0 0 * * 5L", 0, "2025-02-01", "2025-02-28 2025-03-28 2025-04-25"},
    {"0 0 * * 1#1", 0, "2025-08-02", "2025-08-04 2025-09-01 2025-10-06"},
    {"0 0 * * SAT#5", 0, "2025-01-01", "2025-03-29 2025-05-31 2025-08-30"},
    {"0 0 * * 1#2,5L,3", 0, "2025-09-01", "2025-09-03 2025-09-08 2025-09-10 2025-09-17"},
    /* the day rule */
    {"0 0 13 * 5", UVS_DAYS_AUTO, "2025-06-01", "2025-06-06 2025-06-13 2025-06-20 2025-06-27"},
    {"0 0 13 * 5", UVS_DAYS_EITHER, "2025-07-01", "2025-07-04 2025-07-11 2025-07-13 2025-07-18"},
    {"0 0 13 * 5", UVS_DAYS_BOTH, "2025-01-01", "2025-06-13 2026-02-13 2026-03-13"},
    {"0 0 */2 * 5", UVS_DAYS_AUTO, "2025-06-01", "2025-06-13 2025-06-27 2025-07-11"},
    {"0 0 */2 * 5", UVS_DAYS_EITHER, "2025-06-01", "2025-06-01 2025-06-03 2025-06-05 2025-06-06"},
    {"0 0 1-7 * */7", UVS_DAYS_AUTO, "2025-06-02", "2025-07-06 2025-08-03"},
    {"0 0 1,15 * */7", UVS_DAYS_EITHER, "2025-06-02", "2025-06-08 2025-06-15 2025-06-22"},
    {"0 0 * * 5", UVS_DAYS_EITHER, "2025-06-01", "2025-06-06 2025-06-13"},
    {"0 0 13 * ?", UVS_DAYS_EITHER, "2025-06-01", "2025-06-13 2025-07-13"},
    {"0 0 ? * 5", UVS_DAYS_AUTO, "2025-06-01", "2025-06-06 2025-06-13"},
    {"0 0 1,31 * *", 0, "2025-02-02", "2025-03-01 2025-03-31 2025-04-01 2025-05-01"},
    /* far away */
    {"0 0 29 2 *", 0, "2096-03-01", "2104-02-29 2108-02-29"},
    {"0 0 29 2 1", UVS_DAYS_BOTH, "2072-03-01", "2112-02-29 2140-02-29"},
    {"0 0 31 2 1", UVS_DAYS_AUTO, "2025-02-20", "2025-02-24 2026-02-02"}, /* the Mondays remain */
};

/* K1 K3 */
TEST the_date_fields_select_these_days(void) {
  for (size_t i = 0; i < sizeof dates / sizeof dates[0]; i++) {
    uvs_calendar_t *c = calendar_with(dates[i].text, "UTC", dates[i].days, 0, 0);
    char expected[32];
    int64_t at;

    ASSERT(c != NULL);
    snprintf(expected, sizeof expected, "%s 00:00", dates[i].from);
    at = utc(expected) - 1;
    for (const char *p = dates[i].dates; p != NULL; p = strchr(p, ' ')) {
      p += *p == ' ';
      snprintf(expected, sizeof expected, "%.10s 00:00:00", p);
      at = uvs_calendar_next(c, at);
      ASSERT_STR_EQm(dates[i].text, expected, text_of(at));
    }
    uvs_calendar_release(c);
  }
  PASS();
}

/* -------------------------------------------------------------- durations --- */

/* K12 */
TEST durations_are_numbers_with_units_and_the_larger_unit_comes_first(void) {
  static const struct {
    const char *text;
    int64_t ns;
  } good[] = {{"90s", UVS_SEC(90)},
              {"1h30m", UVS_MIN(90)},
              {"250ms", UVS_MS(250)},
              {"2d", UVS_DAY(2)},
              {"1w", UVS_DAY(7)},
              {"1w2d3h4m5s6ms7us8ns",
               UVS_DAY(9) + UVS_HOUR(3) + UVS_MIN(4) + UVS_SEC(5) + UVS_MS(6) + UVS_US(7) + 8},
              {"0s", 0},
              {"007s", UVS_SEC(7)},
              {"9223372036854775806ns", INT64_MAX - 1},
              {"106751d", UVS_DAY(106751)}};
  static const char *const bad[] = {"",
                                    "s",
                                    "90",
                                    "1.5h",
                                    " 90s",
                                    "90s ",
                                    "-1s",
                                    "1m1h",
                                    "1s1s",
                                    "1S",
                                    "1x",
                                    "9223372036854775807ns",
                                    "9223372036854775808ns",
                                    "106752d",
                                    "99999999999999999999s",
                                    "1h30",
                                    "1ms1s",
                                    "106751d86400s",
                                    "1min"};
  int64_t ns;

  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    ns = -1;
    ASSERT_EQm(good[i].text, 0, uvs_parse_duration(good[i].text, &ns));
    ASSERT_EQm(good[i].text, good[i].ns, ns);
  }
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    ns = -1;
    ASSERT_EQm(bad[i], UV_EINVAL, uvs_parse_duration(bad[i], &ns));
    ASSERT_EQm(bad[i], -1, ns);
  }
  ASSERT_RC(UV_EINVAL, uvs_parse_duration(NULL, &ns));
  ASSERT_RC(UV_EINVAL, uvs_parse_duration("1s", NULL));
  PASS();
}

/* ------------------------------------------------------------- any text --- */

/* K2. Random texts of the characters that expressions have. Whether one is accepted is for other
 * tests; here nothing may crash, and a refusal must point into the text. */
TEST random_texts_are_read_or_refused_with_a_column(void) {
  static const char bits[][8] = {"*", "?",   "1",   "5",   "0",      "59", "31", "2", "7",
                                 "-", "/",   ",",   "#",   "L",      "W",  " ",  " ", " ",
                                 " ", "MON", "SUN", "FEB", "@every", "@",  "s",  "%"};
  uint64_t state = test_seed;
  unsigned accepted = 0;

  for (int i = 0; i < 200000; i++) {
    char text[128] = "";
    uvs_calendar_error_t error;
    struct uvs__expression e;
    bool five = i % 8 == 0; /* five fields; many of these are accepted */
    size_t n = five ? 5 : test_random_below(&state, 14);

    for (size_t k = 0; k < n; k++) {
      strcat(text, bits[test_random_below(&state, five ? 5 : sizeof bits / sizeof bits[0])]);
      strcat(text, five && k < 4 ? " " : "");
    }
    memset(&error, 1, sizeof error);
    if (uvs__expression_read(text, (int)test_random_below(&state, 3), &e, &error) == 0) {
      accepted++;
      continue;
    }
    ASSERT(error.column >= 1 && (size_t)error.column <= strlen(text) + 1);
    ASSERT(strnlen(error.text, sizeof error.text) > 10);
    ASSERT(strnlen(error.text, sizeof error.text) < sizeof error.text - 1); /* it is not cut off */
    ASSERT(strnlen(error.field, sizeof error.field) < sizeof error.field);
  }
  ASSERT(accepted > 1000);
  PASS();
}

SUITE(expression) {
  RUN_TEST(a_refusal_names_the_field_and_the_column_and_what_to_write);
  RUN_TEST(what_a_refusal_of_a_wrapping_range_suggests_is_accepted);
  RUN_TEST(an_expression_of_1000_bytes_is_read_and_one_of_1001_is_refused);
  RUN_TEST(these_expressions_mean_the_same);
  RUN_TEST(only_minute_and_hour_decide_whether_an_expression_follows_real_time);
  RUN_TEST(the_date_fields_select_these_days);
  RUN_TEST(durations_are_numbers_with_units_and_the_larger_unit_comes_first);
  RUN_TEST(random_texts_are_read_or_refused_with_a_column);
}

TEST_MAIN(RUN_SUITE(expression));
