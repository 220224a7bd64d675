/* SPDX-License-Identifier: MIT
 *
 * audit: lists occurrences, and says what gaps and overlaps did to them.
 *
 * The walk goes from one span of constant offset to the next, as in calendar.c. But it stops at
 * every local time of the expression, including times that a rule drops.
 */
#include "calendar/occur.h"
#include "calendar/days.h"

#include <limits.h>
#include <string.h>

/* The position of a list. */
struct walk {
  const uvs_calendar_t *c;
  const struct uvs__zone_table *t;
  struct uvs__zone_span z;
  int64_t first_pass_s; /* where the first pass of the overlap at the end of the span begins */
  int64_t at_s;         /* the next second to look at; within z */
};

static uvs_local_time_t local_time(int64_t local_s) {
  int second;
  int64_t day = uvs__day_of_second(local_s, &second);
  struct uvs__date d = uvs__date_of(day);
  uvs_local_time_t l = {.year = d.year, .month = d.month, .day = d.day};

  l.hour = second / 3600;
  l.minute = second / 60 % 60;
  l.second = second % 60;
  l.weekday = uvs__weekday_of(day);
  return l;
}

static void enter_span(struct walk *w, int64_t at_s) {
  struct uvs__zone_span next;

  w->at_s = at_s;
  uvs__zone_find(w->t, at_s, &w->z);
  w->first_pass_s = INT64_MAX;
  if (w->z.end_s >= UVS__OCCUR_END_S)
    return;
  uvs__zone_find(w->t, w->z.end_s, &next);
  if (next.before_s > next.offset_s)
    w->first_pass_s = w->z.end_s - (next.before_s - next.offset_s);
}

/* Sets the flag and the rule of the entry at at_s, where the local time matches the expression. */
static void judge(const struct walk *w, int64_t at_s, uvs_occurrence_t *o) {
  const uvs_calendar_t *c = w->c;

  o->rule = c->e.real_time ? UVS_RULE_REAL_TIME : UVS_RULE_FIXED_TIME;
  if (at_s < uvs__second_pass_end(&w->z))
    o->flag = uvs__skips_second_pass(c) ? UVS_OCCURRENCE_SECOND_DROPPED : UVS_OCCURRENCE_SECOND;
  else if (at_s >= w->first_pass_s)
    o->flag = UVS_OCCURRENCE_FIRST;
  else
    return;
  if (!c->e.real_time && c->overlap == UVS_OVERLAP_BOTH)
    o->rule = UVS_RULE_OVERLAP_BOTH;
}

static void write_occurrence(const struct walk *w, int64_t at_s, uvs_occurrence_t *ret) {
  memset(ret, 0, sizeof *ret);
  ret->utc_ns = at_s * UVS__NS_PER_S;
  ret->offset_s = w->z.offset_s;
  ret->local = local_time(at_s + w->z.offset_s);
  ret->planned = ret->local;
}

/* Writes the entry for the first second after a gap. False: the gap skips no time of the
 * expression. */
static bool list_gap(const struct walk *w, uvs_occurrence_t *ret) {
  const uvs_calendar_t *c = w->c;
  const struct uvs__zone_span *z = &w->z;
  int64_t skipped = uvs__first_skipped(&c->e, z);

  if (skipped == UVS__LOCAL_MAX)
    return false;
  write_occurrence(w, z->start_s, ret);
  ret->skipped = (uint32_t)uvs__local_count(&c->e, skipped, z->start_s + z->offset_s);
  if (uvs__local_matches(&c->e, z->start_s + z->offset_s)) {
    judge(w, z->start_s, ret);
    return true;
  }
  ret->planned = local_time(skipped);
  ret->flag = UVS_OCCURRENCE_DROPPED;
  if (c->e.real_time) {
    ret->rule = UVS_RULE_REAL_TIME;
  } else if (c->gap == UVS_GAP_SKIP) {
    ret->rule = UVS_RULE_GAP_SKIP;
  } else {
    ret->rule = UVS_RULE_FIXED_TIME;
    ret->flag = UVS_OCCURRENCE_MOVED;
  }
  return true;
}

/* Writes the next entry before end_s. False: there is none. */
static bool list_one(struct walk *w, int64_t end_s, uvs_occurrence_t *ret) {
  while (w->at_s < end_s) {
    int64_t match_s;

    if (w->at_s == w->z.start_s && list_gap(w, ret)) {
      w->at_s++; /* if the span is one second long, the next call leaves it */
      return true;
    }
    match_s = uvs__local_next(&w->c->e, w->at_s + w->z.offset_s) - w->z.offset_s;
    if (w->at_s < w->z.end_s && match_s < w->z.end_s) {
      if (match_s >= end_s)
        return false;
      write_occurrence(w, match_s, ret);
      judge(w, match_s, ret);
      w->at_s = match_s + 1;
      return true;
    }
    enter_span(w, w->z.end_s);
  }
  return false;
}

int uvs_calendar_list(const uvs_calendar_t *c, int64_t from_ns, int64_t until_ns,
                      uvs_occurrence_t *ret, size_t n) {
  int64_t from_s = uvs__ceil_s(from_ns), end_s = uvs__ceil_s(until_ns);
  struct walk w;
  size_t written = 0;

  if (c == NULL || (ret == NULL && n > 0))
    return UV_EINVAL;
  if (c->e.interval_ns != 0)
    return UV_ENOTSUP;
  if (from_s < UVS__OCCUR_FIRST_S)
    from_s = UVS__OCCUR_FIRST_S;
  if (end_s > UVS__OCCUR_END_S)
    end_s = UVS__OCCUR_END_S;
  if (n > INT_MAX)
    n = INT_MAX;
  w.c = c;
  w.t = uvs__zone_table(c->zone);
  if (from_s < end_s) {
    enter_span(&w, from_s);
    while (written < n && list_one(&w, end_s, &ret[written]))
      written++;
  }
  uvs__zone_table_release(w.t);
  return (int)written;
}
