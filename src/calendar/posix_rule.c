/* SPDX-License-Identifier: MIT */
#include "calendar/posix_rule.h"
#include "calendar/days.h"

#include <string.h>

#include <uv.h>

#define CYCLE_YEARS 400 /* the Gregorian calendar repeats after this many years */
#define CYCLE_DAYS INT64_C(146097)
#define CYCLE_S (CYCLE_DAYS * UVS__DAY_S)
#define OFFSET_HOURS_MAX 24
#define TIME_HOURS_MAX 167

/* ---- the text ---- */

struct rule_text {
  const char *next, *end;
};

static bool text_is(struct rule_text *t, char c) {
  if (t->next == t->end || *t->next != c)
    return false;
  t->next++;
  return true;
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

static bool is_letter(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* A number of up to three digits. */
static bool text_number(struct rule_text *t, int32_t min, int32_t max, int32_t *ret) {
  const char *start = t->next;
  int32_t n = 0;

  while (t->next != t->end && is_digit(*t->next) && t->next - start < 3)
    n = 10 * n + (*t->next++ - '0');
  *ret = n;
  return t->next != start && n >= min && n <= max;
}

/* Three or more letters; between < and > also digits and signs. The name is not kept. */
static bool text_name(struct rule_text *t) {
  bool quoted = text_is(t, '<');
  const char *start = t->next;

  while (t->next != t->end &&
         (is_letter(*t->next) ||
          (quoted && (is_digit(*t->next) || *t->next == '+' || *t->next == '-'))))
    t->next++;
  return t->next - start >= 3 && (!quoted || text_is(t, '>'));
}

/* [+|-]hours[:minutes[:seconds]] */
static bool text_time(struct rule_text *t, int32_t hours_max, int32_t *ret_s) {
  bool negative = text_is(t, '-');
  int32_t hours, minutes = 0, seconds = 0;

  if (!negative)
    text_is(t, '+');
  if (!text_number(t, 0, hours_max, &hours))
    return false;
  if (text_is(t, ':')) {
    if (!text_number(t, 0, 59, &minutes))
      return false;
    if (text_is(t, ':') && !text_number(t, 0, 59, &seconds))
      return false;
  }
  *ret_s = hours * 3600 + minutes * 60 + seconds;
  if (negative)
    *ret_s = -*ret_s;
  return true;
}

/* ,date[/time] */
static bool text_date(struct rule_text *t, struct uvs__rule_date *d) {
  bool good;

  if (!text_is(t, ','))
    return false;
  if (text_is(t, 'M')) {
    d->kind = 'M';
    good = text_number(t, 1, 12, &d->month) && text_is(t, '.') && text_number(t, 1, 5, &d->week) &&
           text_is(t, '.') && text_number(t, 0, 6, &d->day);
  } else if (text_is(t, 'J')) {
    d->kind = 'J';
    good = text_number(t, 1, 365, &d->day);
  } else {
    d->kind = '0';
    good = text_number(t, 0, 365, &d->day);
  }
  d->time_s = 2 * 3600;
  return good && (!text_is(t, '/') || text_time(t, TIME_HOURS_MAX, &d->time_s));
}

/* ---- when the offset changes ---- */

/* The day of d in this year, as days since 1970. */
static int64_t rule_day(const struct uvs__rule_date *d, int year) {
  int64_t first = uvs__day_number(year, d->kind == 'M' ? d->month : 1, 1), day;

  if (d->kind == '0')
    return first + d->day;
  if (d->kind == 'J') /* 29 February is not counted */
    return first + d->day - (d->day >= 60 && uvs__month_length(year, 2) == 29 ? 0 : 1);
  day = first + (d->day - uvs__weekday_of(first) + 7) % 7 + 7 * (d->week - 1);
  return day < first + uvs__month_length(year, d->month) ? day : day - 7;
}

/* The instant of a change. The changes of a year have the numbers 2 * year and 2 * year + 1. */
static int64_t rule_change(const struct uvs__posix_rule *r, int64_t number) {
  int k = (int)(number & 1);

  return rule_day(&r->date[k], (int)(number >> 1)) * UVS__DAY_S + r->date[k].time_s -
         r->offset_s[1 - k];
}

/* Sorts the two dates by their order in the year. False: the order differs between years. */
static bool order_changes(struct uvs__posix_rule *r) {
  bool lasts[2] = {false, false}; /* is there a year in which offset_s[k] lasts longer than 0 s? */
  int64_t number = 2 * 1970, end = number + 2 * (CYCLE_YEARS + 1), at;

  if (rule_change(r, number) > rule_change(r, number + 1)) {
    struct uvs__rule_date date = r->date[0];
    int32_t offset_s = r->offset_s[0];

    r->date[0] = r->date[1];
    r->offset_s[0] = r->offset_s[1];
    r->date[1] = date;
    r->offset_s[1] = offset_s;
  }
  for (at = rule_change(r, number); number < end; number++) {
    int64_t next = rule_change(r, number + 1);

    if (next < at)
      return false;
    if (next > at)
      lasts[number & 1] = true;
    else
      r->cancels = true;
    at = next;
  }
  r->changes = lasts[0] && lasts[1];
  if (!lasts[0])
    r->offset_s[0] = r->offset_s[1];
  return true;
}

int uvs__posix_rule_parse(const char *text, size_t n, struct uvs__posix_rule *ret) {
  struct rule_text t = {text, text + n};
  struct uvs__posix_rule r;
  int32_t west_s;

  memset(&r, 0, sizeof r); /* all bytes: uvs__zone_table_equal compares them */
  if (!text_name(&t) || !text_time(&t, OFFSET_HOURS_MAX, &west_s))
    return UV_EINVAL;
  r.offset_s[0] = r.offset_s[1] = -west_s;
  if (t.next != t.end) { /* daylight saving: offset_s[0] */
    r.offset_s[0] += 3600;
    if (!text_name(&t))
      return UV_EINVAL;
    if (t.next != t.end && *t.next != ',') {
      if (!text_time(&t, OFFSET_HOURS_MAX, &west_s))
        return UV_EINVAL;
      r.offset_s[0] = -west_s;
    }
    if (!text_date(&t, &r.date[0]) || !text_date(&t, &r.date[1]) || t.next != t.end)
      return UV_EINVAL;
    if (r.offset_s[0] != r.offset_s[1] && !order_changes(&r))
      return UV_EINVAL;
  }
  *ret = r;
  return 0;
}

void uvs__posix_rule_find(const struct uvs__posix_rule *r, int64_t at_s,
                          struct uvs__zone_span *ret) {
  int64_t in_cycle, number, last_s, next_s;

  *ret = (struct uvs__zone_span){INT64_MIN, INT64_MAX, r->offset_s[0], r->offset_s[0]};
  if (!r->changes)
    return;
  /* All cycles are alike. So compute in the cycle that begins in 1970: nothing overflows. */
  in_cycle = at_s % CYCLE_S;
  if (in_cycle < 0)
    in_cycle += CYCLE_S;
  number = 2 * (1970 + in_cycle * CYCLE_YEARS / CYCLE_S) + 1; /* near the right number */
  last_s = rule_change(r, number - 1);
  next_s = rule_change(r, number);
  while (next_s <= in_cycle) {
    last_s = next_s;
    next_s = rule_change(r, ++number);
  }
  while (last_s > in_cycle) {
    next_s = last_s;
    last_s = rule_change(r, --number - 1);
  }
  ret->offset_s = r->offset_s[(number - 1) & 1];
  ret->before_s = r->offset_s[number & 1];
  /* Two changes at the same instant cancel each other. Each loop ends: order_changes has found a
   * change that is not cancelled in every cycle. */
  if (r->cancels) {
    int64_t last = number - 1, next = number;

    while (rule_change(r, last) == rule_change(r, last - 1))
      last -= 2;
    while (rule_change(r, next) == rule_change(r, next + 1))
      next += 2;
    last_s = rule_change(r, last);
    next_s = rule_change(r, next);
  }
  ret->start_s = at_s < INT64_MIN + (in_cycle - last_s) ? INT64_MIN : at_s - (in_cycle - last_s);
  ret->end_s = at_s > INT64_MAX - (next_s - in_cycle) ? INT64_MAX : at_s + (next_s - in_cycle);
}
