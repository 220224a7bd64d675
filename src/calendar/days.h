/* SPDX-License-Identifier: MIT
 *
 * days: dates of the Gregorian calendar, and the day number of a date. Pure.
 *
 * Day 0 is 1970-01-01. Before 1582 the calendar is extended backwards.
 */
#ifndef UVS__DAYS_H
#define UVS__DAYS_H

#include "port/base.h"

#define UVS__DAY_S 86400

struct uvs__date {
  int year;
  int month; /* 1 to 12 */
  int day;   /* 1 to 31 */
};

int64_t uvs__day_number(int year, int month, int day);
struct uvs__date uvs__date_of(int64_t day_number);
int uvs__month_length(int year, int month);

/* 0 is Sunday. */
int uvs__weekday_of(int64_t day_number);

/* The day number of a local second, and *ret_s, the second of that day. */
int64_t uvs__day_of_second(int64_t local_s, int *ret_s);

#endif
