/* SPDX-License-Identifier: MIT */
#include "instant.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define SECOND_NS UVS_SEC(1)
#define FIRST_S INT64_C(-9214560000) /* 1678-01-01 */
#define END_S INT64_C(9214646400)    /* 2262-01-01 */

static int64_t floor_divide(int64_t a, int64_t b) {
  return a / b - (a % b < 0);
}

static bool is_leap(int year) {
  return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int days_in_month(int year, int month) {
  static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

  return days[month - 1] + (month == 2 && is_leap(year));
}

/* Days from 1970-01-01 to the first day of the year. */
static int64_t days_before_year(int64_t year) {
  int64_t y = year - 1;

  return (year - 1970) * 365 + (y / 4 - y / 100 + y / 400) - 477;
}

/* ------------------------------------------------------------------ read --- */

/* Reads exactly n digits, and moves *p behind them. */
static bool read_digits(const char **p, int n, int *ret) {
  *ret = 0;
  for (; n > 0; n--, (*p)++) {
    if (**p < '0' || **p > '9')
      return false;
    *ret = *ret * 10 + (**p - '0');
  }
  return true;
}

static bool read_char(const char **p, const char *one_of) {
  if (**p == '\0' || strchr(one_of, **p) == NULL)
    return false;
  (*p)++;
  return true;
}

/* The digits after the point: .5 is 500000000 ns. */
static bool read_fraction(const char **p, int64_t *ret_ns) {
  int64_t unit = SECOND_NS / 10;
  const char *begin = *p;

  for (*ret_ns = 0; **p >= '0' && **p <= '9'; (*p)++, unit /= 10) {
    if (unit == 0)
      return false;
    *ret_ns += unit * (**p - '0');
  }
  return *p > begin;
}

const char cli_instant_range[] = "write an instant in the years 1678 to 2261 (UTC)";

static const char *add_up(int64_t seconds, int64_t fraction_ns, int64_t *ret_ns) {
  if (seconds < FIRST_S || seconds >= END_S)
    return cli_instant_range;
  *ret_ns = seconds * SECOND_NS + fraction_ns;
  return NULL;
}

static const char *read_date(const char *p, int64_t *ret_ns) {
  static const char form[] = "write it as 2025-03-09T07:00:00Z, 2025-03-09T08:00:00+01:00, "
                             "@SECONDS since 1970, or now";
  int year, month, day, hour, minute, second = 0, offset_hour = 0, offset_minute = 0;
  int64_t fraction_ns = 0, days, seconds;
  char sign;

  if (!read_digits(&p, 4, &year) || !read_char(&p, "-") || !read_digits(&p, 2, &month) ||
      !read_char(&p, "-") || !read_digits(&p, 2, &day) || !read_char(&p, "Tt ") ||
      !read_digits(&p, 2, &hour) || !read_char(&p, ":") || !read_digits(&p, 2, &minute))
    return form;
  if (read_char(&p, ":")) {
    if (!read_digits(&p, 2, &second) || (read_char(&p, ".") && !read_fraction(&p, &fraction_ns)))
      return form;
  }
  sign = *p;
  if (sign == '\0')
    return "this time has no offset to UTC: add Z for UTC, or an offset such as +01:00";
  if (!read_char(&p, "Zz+-"))
    return form;
  if ((sign == '+' || sign == '-') &&
      (!read_digits(&p, 2, &offset_hour) || !read_char(&p, ":") ||
       !read_digits(&p, 2, &offset_minute) || offset_hour > 25 || offset_minute > 59))
    return form;
  if (*p != '\0')
    return form;
  if (month < 1 || month > 12 || day < 1 || day > days_in_month(year, month))
    return "there is no such date";
  if (hour > 23 || minute > 59 || second > 59)
    return "there is no such time: hours are 00-23, minutes and seconds are 00-59";

  days = days_before_year(year) + day - 1;
  for (int m = 1; m < month; m++)
    days += days_in_month(year, m);
  seconds = days * 86400 + hour * 3600 + minute * 60 + second;
  offset_minute += offset_hour * 60;
  seconds -= (sign == '-' ? -offset_minute : offset_minute) * 60;
  return add_up(seconds, fraction_ns, ret_ns);
}

static const char *read_seconds(const char *p, int64_t *ret_ns) {
  bool negative = *p == '-';
  int64_t seconds = 0;

  p += negative;
  if (*p == '\0')
    return "write seconds since 1970 after the @, such as @1741503600";
  for (; *p != '\0'; p++) {
    if (*p < '0' || *p > '9')
      return "write seconds since 1970 after the @, such as @1741503600";
    if (seconds < END_S)
      seconds = seconds * 10 + (*p - '0');
  }
  return add_up(negative ? -seconds : seconds, 0, ret_ns);
}

const char *cli_read_instant(const char *text, int64_t *ret_ns) {
  struct timespec now;

  if (strcmp(text, "now") == 0) {
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
      return "the clock of this system cannot be read";
    return add_up(now.tv_sec, 0, ret_ns);
  }
  return *text == '@' ? read_seconds(text + 1, ret_ns) : read_date(text, ret_ns);
}

/* ----------------------------------------------------------------- write --- */

int cli_fraction_digits(int64_t instant_ns) {
  int64_t fraction_ns = instant_ns % SECOND_NS;

  if (fraction_ns % UVS_US(1) != 0)
    return 9;
  if (fraction_ns % UVS_MS(1) != 0)
    return 6;
  return fraction_ns != 0 ? 3 : 0;
}

/* *days is counted from 1970-01-01. Returns the year, and changes *days: it then counts from the
 * start of that year. */
static int year_of_day(int64_t *days) {
  int year = (int)(1969 + floor_divide(*days * 400, 146097)); /* the year, or one or two less */

  while (days_before_year(year + 1) <= *days)
    year++;
  *days -= days_before_year(year);
  return year;
}

void cli_write_local(const uvs_local_time_t *local, char separator, int64_t instant_ns, int digits,
                     char ret[CLI_INSTANT_BYTES]) {
  int64_t fraction_ns = instant_ns - floor_divide(instant_ns, SECOND_NS) * SECOND_NS;
  int n = snprintf(ret, CLI_INSTANT_BYTES, "%04d-%02d-%02d%c%02d:%02d:%02d", local->year,
                   local->month, local->day, separator, local->hour, local->minute, local->second);

  if (digits > 0) {
    snprintf(ret + n, CLI_INSTANT_BYTES - (size_t)n, ".%09d", (int)fraction_ns);
    ret[n + 1 + digits] = '\0';
  }
}

void cli_write_instant(int64_t instant_ns, int digits, char ret[CLI_INSTANT_BYTES]) {
  int64_t seconds = floor_divide(instant_ns, SECOND_NS), days = floor_divide(seconds, 86400);
  int second = (int)(seconds - days * 86400);
  uvs_local_time_t utc = {.hour = second / 3600, .minute = second / 60 % 60, .second = second % 60};

  utc.year = year_of_day(&days);
  for (utc.month = 1; days >= days_in_month(utc.year, utc.month); utc.month++)
    days -= days_in_month(utc.year, utc.month);
  utc.day = (int)days + 1;
  cli_write_local(&utc, 'T', instant_ns, digits, ret);
  strcat(ret, "Z");
}

void cli_write_offset(int offset_s, char ret[CLI_INSTANT_BYTES]) {
  int s = offset_s < 0 ? -offset_s : offset_s;
  int n = snprintf(ret, CLI_INSTANT_BYTES, "%c%02d:%02d", offset_s < 0 ? '-' : '+', s / 3600,
                   s / 60 % 60);

  if (s % 60 != 0)
    snprintf(ret + n, CLI_INSTANT_BYTES - (size_t)n, ":%02d", s % 60);
}
