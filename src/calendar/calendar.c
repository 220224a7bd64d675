/* SPDX-License-Identifier: MIT
 *
 * calendar: makes calendars, and searches occurrences. A search goes from one span of constant
 * offset to UTC to the next.
 *
 * Easy to break: local time may go back from one span to the next. So a local time that the search
 * has passed in one span can come again in the next span. See FAR_S.
 */
#include "calendar/occur.h"

#include <string.h>

#include "calendar/memory.h"
#include "util/sizes.h"

/* Two offsets of a zone differ by less than this (RFC 9636: offsets are from -25 h to 26 h).
 * Suppose that the search in a span finds its first match at M, after the end of the span, and that
 * the search began at least FAR_S before that end. Then no later span has a match before M - FAR_S,
 * so the search can skip all spans that end before M - FAR_S. */
#define FAR_S (3 * INT64_C(86400))

/* ------------------------------------------------------------------ make --- */

static int read_calendar_options(const uvs_calendar_options_t *given, uvs_calendar_options_t *ret,
                                 uvs_calendar_error_t *error) {
  uvs_calendar_options_init(ret);
  if (given == NULL)
    return 0;
  if (uvs__check_size(given, given->size, sizeof *ret, sizeof *ret) < 0)
    return uvs__refuse(error, 0, "options", "size is wrong: call uvs_calendar_options_init");
  memcpy(ret, given, sizeof *ret);
  if (ret->days < UVS_DAYS_AUTO || ret->days > UVS_DAYS_BOTH)
    return uvs__refuse(error, 0, "options",
                       "days is not UVS_DAYS_AUTO, UVS_DAYS_EITHER or UVS_DAYS_BOTH");
  if (ret->gap != UVS_GAP_RUN_AFTER && ret->gap != UVS_GAP_SKIP)
    return uvs__refuse(error, 0, "options", "gap is not UVS_GAP_RUN_AFTER or UVS_GAP_SKIP");
  if (ret->overlap != UVS_OVERLAP_FIRST && ret->overlap != UVS_OVERLAP_BOTH)
    return uvs__refuse(error, 0, "options", "overlap is not UVS_OVERLAP_FIRST or UVS_OVERLAP_BOTH");
  return 0;
}

/* Adds the field to an error. The zone reader gives only the text. */
static int open_zone(const char *name, struct uvs__zone **ret, uvs_calendar_error_t *error) {
  char why[sizeof error->text] = "";
  int rc = uvs__zone_open(name, ret, why, sizeof why);

  if (rc < 0)
    uvs__refuse(error, 0, "zone", "%s", why[0] == '\0' ? uv_strerror(rc) : why);
  return rc;
}

int uvs_calendar_parse(const char *text, const char *zone, const uvs_calendar_options_t *o,
                       uvs_calendar_t **ret, uvs_calendar_error_t *error) {
  uvs_calendar_error_t unread;
  uvs_calendar_options_t options;
  struct uvs__expression e;
  uvs_calendar_t *c;
  size_t length;
  int rc;

  if (error == NULL)
    error = &unread;
  if (text == NULL || ret == NULL)
    return uvs__refuse(error, 0, "expression", "%s is NULL", text == NULL ? "text" : "ret");
  rc = read_calendar_options(o, &options, error);
  if (rc < 0)
    return rc;
  rc = uvs__expression_read(text, options.days, &e, error);
  if (rc < 0)
    return rc;
  length = strlen(text);
  c = uvs__calendar_alloc(1, sizeof *c, length + 1);
  if (c == NULL) {
    uvs__refuse(error, 0, "expression", "no memory for the calendar");
    return UV_ENOMEM;
  }
  rc = open_zone(zone, &c->zone, error);
  if (rc < 0) {
    uvs__calendar_free(c);
    return rc;
  }
  uvs__store(&c->refs, 1, relaxed); /* no other thread knows the calendar yet */
  c->e = e;
  c->gap = options.gap;
  c->overlap = options.overlap;
  memcpy(c->text, text, length + 1);
  *ret = c;
  return 0;
}

uvs_calendar_t *uvs_calendar_retain(uvs_calendar_t *c) {
  if (c != NULL)
    uvs__add(&c->refs, 1, relaxed); /* the caller has a reference already */
  return c;
}

void uvs_calendar_release(uvs_calendar_t *c) {
  /* acq_rel: pairs with the other releases: their threads have finished reading the calendar */
  if (c == NULL || uvs__sub(&c->refs, 1, acq_rel) != 1)
    return;
  uvs__zone_close(c->zone);
  uvs__calendar_free(c);
}

const char *uvs_calendar_text(const uvs_calendar_t *c) {
  return c == NULL ? NULL : c->text;
}

const char *uvs_calendar_zone(const uvs_calendar_t *c) {
  return c == NULL ? NULL : uvs__zone_name(c->zone);
}

int64_t uvs_calendar_interval(const uvs_calendar_t *c) {
  return c == NULL ? 0 : c->e.interval_ns;
}

uint64_t uvs_calendar_refresh(void) {
  return uvs__zones_refresh();
}

/* ---------------------------------------------------------------- search --- */

/* The first occurrence >= at_s; UVS__OCCUR_END_S if there is none. */
static int64_t search_next(const uvs_calendar_t *c, const struct uvs__zone_table *t, int64_t at_s) {
  while (at_s < UVS__OCCUR_END_S) {
    struct uvs__zone_span z;
    int64_t from_s, match_s;

    uvs__zone_find(t, at_s, &z);
    if (at_s == z.start_s && uvs__runs_after_gap(c, &z))
      return at_s;
    from_s = uvs__counts_from(c, &z);
    if (from_s < at_s)
      from_s = at_s;
    at_s = z.end_s;
    if (from_s >= z.end_s)
      continue;
    match_s = uvs__local_next(&c->e, from_s + z.offset_s) - z.offset_s;
    if (match_s < z.end_s)
      return match_s < UVS__OCCUR_END_S ? match_s : UVS__OCCUR_END_S;
    if (z.end_s - from_s >= FAR_S && match_s - FAR_S > z.end_s)
      at_s = match_s - FAR_S;
  }
  return UVS__OCCUR_END_S;
}

/* The last occurrence <= at_s; UVS__OCCUR_FIRST_S - 1 if there is none. */
static int64_t search_previous(const uvs_calendar_t *c, const struct uvs__zone_table *t,
                               int64_t at_s) {
  while (at_s >= UVS__OCCUR_FIRST_S) {
    struct uvs__zone_span z;
    int64_t low_s, match_s = INT64_MAX;

    uvs__zone_find(t, at_s, &z);
    low_s = uvs__counts_from(c, &z);
    if (at_s >= low_s) {
      match_s = uvs__local_previous(&c->e, at_s + z.offset_s) - z.offset_s;
      if (match_s >= low_s)
        return match_s >= UVS__OCCUR_FIRST_S ? match_s : UVS__OCCUR_FIRST_S - 1;
    }
    if (uvs__runs_after_gap(c, &z))
      return z.start_s >= UVS__OCCUR_FIRST_S ? z.start_s : UVS__OCCUR_FIRST_S - 1;
    if (z.start_s < UVS__OCCUR_FIRST_S)
      break;
    if (match_s != INT64_MAX && at_s - z.start_s >= FAR_S && match_s + FAR_S < z.start_s)
      at_s = match_s + FAR_S;
    else
      at_s = z.start_s - 1;
  }
  return UVS__OCCUR_FIRST_S - 1;
}

int64_t uvs_calendar_next(const uvs_calendar_t *c, int64_t after_ns) {
  const struct uvs__zone_table *t;
  int64_t at_s, found_s;

  if (c == NULL)
    return UVS_NEVER;
  if (c->e.interval_ns != 0)
    return after_ns > UVS_NEVER - c->e.interval_ns ? UVS_NEVER : after_ns + c->e.interval_ns;
  at_s = uvs__floor_s(after_ns) + 1;
  if (at_s < UVS__OCCUR_FIRST_S)
    at_s = UVS__OCCUR_FIRST_S;
  t = uvs__zone_table(c->zone);
  found_s = search_next(c, t, at_s);
  uvs__zone_table_release(t);
  if (found_s == UVS__OCCUR_END_S)
    return UVS_NEVER;
  UVS_ASSERT(found_s * UVS__NS_PER_S > after_ns);
  return found_s * UVS__NS_PER_S;
}

int64_t uvs_calendar_previous(const uvs_calendar_t *c, int64_t before_ns) {
  const struct uvs__zone_table *t;
  int64_t at_s, found_s;

  if (c == NULL)
    return -UVS_NEVER;
  if (c->e.interval_ns != 0)
    return before_ns < -UVS_NEVER + c->e.interval_ns ? -UVS_NEVER : before_ns - c->e.interval_ns;
  at_s = uvs__ceil_s(before_ns) - 1;
  if (at_s >= UVS__OCCUR_END_S)
    at_s = UVS__OCCUR_END_S - 1;
  t = uvs__zone_table(c->zone);
  found_s = search_previous(c, t, at_s);
  uvs__zone_table_release(t);
  if (found_s < UVS__OCCUR_FIRST_S)
    return -UVS_NEVER;
  UVS_ASSERT(found_s * UVS__NS_PER_S < before_ns);
  return found_s * UVS__NS_PER_S;
}

int uvs_calendar_matches(const uvs_calendar_t *c, int64_t instant_ns) {
  const struct uvs__zone_table *t;
  struct uvs__zone_span z;
  int64_t at_s = uvs__floor_s(instant_ns);
  bool matches;

  if (c == NULL || c->e.interval_ns != 0 || at_s < UVS__OCCUR_FIRST_S || at_s >= UVS__OCCUR_END_S)
    return 0;
  t = uvs__zone_table(c->zone);
  uvs__zone_find(t, at_s, &z);
  matches = (at_s >= uvs__counts_from(c, &z) && uvs__local_matches(&c->e, at_s + z.offset_s)) ||
            (at_s == z.start_s && uvs__runs_after_gap(c, &z));
  uvs__zone_table_release(t);
  return matches;
}
