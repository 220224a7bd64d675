/* SPDX-License-Identifier: MIT
 *
 * select: computes which days of a month match the two day fields.
 */
#include "calendar/expression.h"
#include "calendar/days.h"

#define EVERY_WEEK UINT32_C(0x10204081) /* bits 0, 7, 14, 21, 28 */

/* The weekday (0: Sunday) of a day of a month that begins on weekday `first`. */
static int weekday_in_month(int day, int first) {
  return (first + day - 1) % 7;
}

/* The day from Monday to Friday that is nearest to `day` in the same month. */
static int nearest_weekday(int day, int length, int first) {
  int w = weekday_in_month(day, first);

  if (w == 6)
    return day > 1 ? day - 1 : day + 2;
  if (w == 0)
    return day < length ? day + 1 : day - 2;
  return day;
}

static uint32_t month_days_of(const struct uvs__day_fields *f, int length, int first) {
  uint32_t set = f->days;

  for (int day = 1; day <= length; day++) {
    if ((f->nearest >> day & 1) != 0)
      set |= UINT32_C(1) << nearest_weekday(day, length, first);
  }
  if (f->last_day)
    set |= UINT32_C(1) << length;
  if (f->last_weekday) {
    int w = weekday_in_month(length, first);

    set |= UINT32_C(1) << (w == 6 ? length - 1 : w == 0 ? length - 2 : length);
  }
  return set;
}

static uint32_t week_days_of(const struct uvs__day_fields *f, int length, int first) {
  uint32_t set = 0;

  for (int w = 0; w < 7; w++) {
    int day = 1 + (w - first + 7) % 7; /* the first such weekday of the month */

    if ((f->weekdays >> w & 1) != 0)
      set |= EVERY_WEEK << day;
    if ((f->last_of >> w & 1) != 0)
      set |= UINT32_C(1) << (day + (length - day) / 7 * 7);
    for (int k = 1; k <= 5; k++) {
      if ((f->nth[k] >> w & 1) != 0 && day + 7 * (k - 1) <= 31)
        set |= UINT32_C(1) << (day + 7 * (k - 1));
    }
  }
  return set;
}

static bool either_matches(const struct uvs__day_fields *f, int days_rule) {
  if (days_rule == UVS_DAYS_EITHER)
    return !f->day_bare && !f->week_bare;
  return days_rule == UVS_DAYS_AUTO && !f->day_star && !f->week_star;
}

void uvs__days_select(const struct uvs__day_fields *f, int days_rule, uint32_t ret[4][7]) {
  bool either = either_matches(f, days_rule);

  for (int length = 28; length <= 31; length++) {
    uint32_t all = (uint32_t)((UINT64_C(2) << length) - 2);

    for (int first = 0; first < 7; first++) {
      uint32_t a = month_days_of(f, length, first), b = week_days_of(f, length, first);

      ret[length - 28][first] = (either ? a | b : a & b) & all;
    }
  }
}

/* Looks at 2000 to 2027: in these years every kind of month occurs. */
bool uvs__days_exist(const struct uvs__expression *e) {
  for (int year = 2000; year < 2028; year++) {
    for (int month = 1; month <= 12; month++) {
      int first = uvs__weekday_of(uvs__day_number(year, month, 1));

      if ((e->months >> month & 1) != 0 && e->days[uvs__month_length(year, month) - 28][first] != 0)
        return true;
    }
  }
  return false;
}
