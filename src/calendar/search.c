/* SPDX-License-Identifier: MIT
 *
 * Each step uses the bits of a set to go from one matching day, hour, minute or second to the next.
 * The search never steps minute by minute. It does step month by month: 29 February on a Monday may
 * be 40 years away.
 */
#include "calendar/search.h"
#include "calendar/days.h"

#define YEAR_MIN 1677 /* the years of the limits */
#define YEAR_MAX 2262

#define NONE (-1)

/* The lowest bit of the set that is >= n; NONE: there is none. n is 0 to 63. */
static int bit_from(uint64_t set, int n) {
  set &= ~UINT64_C(0) << n;
  return set == 0 ? NONE : __builtin_ctzll(set);
}

/* The highest bit of the set that is <= n. */
static int bit_to(uint64_t set, int n) {
  set &= ~UINT64_C(0) >> (63 - n);
  return set == 0 ? NONE : 63 - __builtin_clzll(set);
}

static int lowest(uint64_t set) {
  return bit_from(set, 0);
}

static int highest(uint64_t set) {
  return bit_to(set, 63);
}

/* The days of a month that match. */
static uint32_t month_set(const struct uvs__expression *e, int year, int month) {
  if ((e->months >> month & 1) == 0)
    return 0;
  return e
      ->days[uvs__month_length(year, month) - 28][uvs__weekday_of(uvs__day_number(year, month, 1))];
}

/* The first matching second of a day that is >= second_of_day; NONE: there is none. */
static int time_from(const struct uvs__expression *e, int second_of_day) {
  int h = second_of_day / 3600, m = second_of_day / 60 % 60, s = second_of_day % 60;
  int hour = bit_from(e->hours, h);

  if (hour == h) {
    int minute = bit_from(e->minutes, m);

    if (minute == m) {
      int second = bit_from(e->seconds, s);

      if (second != NONE)
        return h * 3600 + m * 60 + second;
      minute = bit_from(e->minutes, m + 1);
    }
    if (minute != NONE)
      return h * 3600 + minute * 60 + lowest(e->seconds);
    hour = bit_from(e->hours, h + 1);
  }
  if (hour == NONE)
    return NONE;
  return hour * 3600 + lowest(e->minutes) * 60 + lowest(e->seconds);
}

/* The last matching second of a day that is <= second_of_day; NONE: there is none. */
static int time_to(const struct uvs__expression *e, int second_of_day) {
  int h = second_of_day / 3600, m = second_of_day / 60 % 60, s = second_of_day % 60;
  int hour = bit_to(e->hours, h);

  if (hour == h) {
    int minute = bit_to(e->minutes, m);

    if (minute == m) {
      int second = bit_to(e->seconds, s);

      if (second != NONE)
        return h * 3600 + m * 60 + second;
      minute = m > 0 ? bit_to(e->minutes, m - 1) : NONE;
    }
    if (minute != NONE)
      return h * 3600 + minute * 60 + highest(e->seconds);
    hour = h > 0 ? bit_to(e->hours, h - 1) : NONE;
  }
  if (hour == NONE)
    return NONE;
  return hour * 3600 + highest(e->minutes) * 60 + highest(e->seconds);
}

bool uvs__local_matches(const struct uvs__expression *e, int64_t local_s) {
  int second;
  struct uvs__date d = uvs__date_of(uvs__day_of_second(local_s, &second));

  return (e->hours >> second / 3600 & 1) != 0 && (e->minutes >> second / 60 % 60 & 1) != 0 &&
         (e->seconds >> second % 60 & 1) != 0 && (month_set(e, d.year, d.month) >> d.day & 1) != 0;
}

int64_t uvs__local_next(const struct uvs__expression *e, int64_t local_s) {
  int second, day;
  int64_t number = uvs__day_of_second(local_s, &second);
  struct uvs__date d = uvs__date_of(number);
  uint32_t set = month_set(e, d.year, d.month);

  if ((set >> d.day & 1) != 0) {
    int found = time_from(e, second);

    if (found != NONE)
      return number * UVS__DAY_S + found;
  }
  day = bit_from(set, d.day + 1);
  UVS_ASSERT(e->months != 0); /* each expression has a month */
  while (day == NONE) {
    d.month = bit_from(e->months, d.month + 1);
    if (d.month == NONE) {
      d.month = lowest(e->months);
      d.year++;
    }
    if (d.year > YEAR_MAX)
      return UVS__LOCAL_MAX;
    day = lowest(month_set(e, d.year, d.month));
  }
  return uvs__day_number(d.year, d.month, day) * UVS__DAY_S + time_from(e, 0);
}

int64_t uvs__local_previous(const struct uvs__expression *e, int64_t local_s) {
  int second, day;
  int64_t number = uvs__day_of_second(local_s, &second);
  struct uvs__date d = uvs__date_of(number);
  uint32_t set = month_set(e, d.year, d.month);

  if ((set >> d.day & 1) != 0) {
    int found = time_to(e, second);

    if (found != NONE)
      return number * UVS__DAY_S + found;
  }
  day = bit_to(set, d.day - 1);
  UVS_ASSERT(e->months != 0);
  while (day == NONE) {
    d.month = bit_to(e->months, d.month - 1);
    if (d.month == NONE) {
      d.month = highest(e->months);
      d.year--;
    }
    if (d.year < YEAR_MIN)
      return UVS__LOCAL_MIN;
    day = highest(month_set(e, d.year, d.month));
  }
  return uvs__day_number(d.year, d.month, day) * UVS__DAY_S + time_to(e, UVS__DAY_S - 1);
}

/* ---------------------------------------------------------------- counting --- */

static uint64_t bits(uint64_t set) {
  return (uint64_t)__builtin_popcountll(set);
}

/* How many bits of the set are below n. n is 0 to 63. */
static uint64_t bits_below(uint64_t set, int n) {
  return bits(set & ((UINT64_C(1) << n) - 1));
}

/* How many seconds of a matching day match. */
static uint64_t times_a_day(const struct uvs__expression *e) {
  return bits(e->hours) * bits(e->minutes) * bits(e->seconds);
}

/* How many seconds of a matching day match before second_of_day. */
static uint64_t times_before(const struct uvs__expression *e, int second_of_day) {
  int h = second_of_day / 3600, m = second_of_day / 60 % 60, s = second_of_day % 60;
  uint64_t n = bits_below(e->hours, h) * bits(e->minutes) * bits(e->seconds);

  if ((e->hours >> h & 1) == 0)
    return n;
  n += bits_below(e->minutes, m) * bits(e->seconds);
  return (e->minutes >> m & 1) == 0 ? n : n + bits_below(e->seconds, s);
}

static bool day_matches(const struct uvs__expression *e, int64_t day) {
  struct uvs__date d = uvs__date_of(day);

  return (month_set(e, d.year, d.month) >> d.day & 1) != 0;
}

/* How many days in [day, end) match. */
static uint64_t count_days(const struct uvs__expression *e, int64_t day, int64_t end) {
  struct uvs__date d = uvs__date_of(day);
  uint64_t n = 0;

  while (day < end) {
    int after = uvs__month_length(d.year, d.month) + 1; /* the day after the last day to count */
    uint64_t set = month_set(e, d.year, d.month);

    if (after - d.day > end - day)
      after = d.day + (int)(end - day);
    n += bits_below(set, after) - bits_below(set, d.day);
    day += after - d.day;
    d = (struct uvs__date){d.year + d.month / 12, d.month % 12 + 1, 1};
  }
  return n;
}

uint64_t uvs__local_count(const struct uvs__expression *e, int64_t from_s, int64_t to_s) {
  int from, to; /* seconds of their days */
  int64_t first, last;
  uint64_t n;

  if (from_s >= to_s)
    return 0;
  first = uvs__day_of_second(from_s, &from);
  last = uvs__day_of_second(to_s, &to);
  n = count_days(e, first, last) * times_a_day(e);
  if (day_matches(e, last))
    n += times_before(e, to);
  return day_matches(e, first) ? n - times_before(e, from) : n;
}
