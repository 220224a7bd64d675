/* SPDX-License-Identifier: MIT */
#include "calendar/days.h"

#define ERA_YEARS 400
#define ERA_DAYS 146097
#define EPOCH_DAYS 719468 /* from 0000-03-01 to 1970-01-01 */

/* Quotient rounded down, for b > 0. */
static int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b < 0);
}

/* Here a year begins in March, so that the leap day is its last day. The lengths of the months then
 * repeat every five months: 31, 30, 31, 30, 31, together 153 days. */
int64_t uvs__day_number(int year, int month, int day) {
  int64_t y = month <= 2 ? (int64_t)year - 1 : year;
  int64_t era = floor_div(y, ERA_YEARS);
  int64_t of_era = y - era * ERA_YEARS;
  int64_t of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;

  return era * ERA_DAYS + of_era * 365 + of_era / 4 - of_era / 100 + of_year - EPOCH_DAYS;
}

struct uvs__date uvs__date_of(int64_t day_number) {
  int64_t n = day_number + EPOCH_DAYS;
  int64_t era = floor_div(n, ERA_DAYS);
  uint32_t of_era = (uint32_t)(n - era * ERA_DAYS);
  uint32_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / (ERA_DAYS - 1)) / 365;
  uint32_t of_year = of_era - (365 * year + year / 4 - year / 100);
  uint32_t march = (5 * of_year + 2) / 153; /* months since March */
  struct uvs__date d;

  d.day = (int)(of_year - (153 * march + 2) / 5 + 1);
  d.month = (int)(march < 10 ? march + 3 : march - 9);
  d.year = (int)(era * ERA_YEARS + year) + (d.month <= 2);
  return d;
}

int uvs__month_length(int year, int month) {
  static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

  return lengths[month - 1] + (month == 2 && leap);
}

int uvs__weekday_of(int64_t day_number) {
  int64_t n = (day_number + 4) % 7; /* 1970-01-01 was a Thursday */

  return (int)(n < 0 ? n + 7 : n);
}

int64_t uvs__day_of_second(int64_t local_s, int *ret_s) {
  int64_t day = floor_div(local_s, UVS__DAY_S);

  *ret_s = (int)(local_s - day * UVS__DAY_S);
  return day;
}
