/* SPDX-License-Identifier: MIT
 *
 * Calendars: cron expressions in a time zone. A calendar answers when its next occurrence is. It
 * has no loop and reads no clock: the caller gives the instant to count from.
 *
 * EXPRESSIONS have five fields: minute, hour, day of month, month, day of week. An expression with
 * six fields begins with the second. docs/calendar.md describes the fields.
 *   - Each field is a list of *, ?, a value, a range a-b, each with an optional step /n. A value
 *     with a step (5/15) runs to the end of the field. Months and weekdays may be names (JAN, MON).
 *     Sunday is 0 or 7.
 *   - Day of month also: L (the last day), 15W (the weekday nearest to the 15th, in the same
 *     month), LW (the last weekday, Monday to Friday). Day of week also: 5L (the last Friday of the
 *     month), 5#2 (the second Friday).
 *   - @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly.
 *   - @every 90s is an interval, not a calendar: see uvs_calendar_interval.
 *
 * GAPS AND OVERLAPS. Where a zone sets its clock forward, local times are skipped (a gap). Where it
 * sets its clock back, local times come twice (an overlap).
 *   - An expression whose minute or hour begins with * or ? follows real time: it occurs in both
 *     passes of an overlap, and does not make up for a gap.
 *   - Any other expression has fixed times. All its times in one gap occur together, once, at the
 *     first instant after the gap. In an overlap they occur in the first pass only.
 * uvs_calendar_options_t can change both rules for fixed times.
 *
 * INSTANTS are nanoseconds since 1970, UTC, as in uvs_schedule_at. Occurrences are whole seconds in
 * the years 1678 to 2261 (UTC).
 *
 * THREADS. Any thread may call any function here. A calendar does not change after it was made.
 * There is one exception: if the file of its zone changes, uvs_calendar_refresh reads the new
 * rules.
 */
#ifndef UVSCHED_CALENDAR_H
#define UVSCHED_CALENDAR_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <uv.h>

#include "uvsched/time.h"
#include "uvsched/version.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ make --- */

typedef struct uvs_calendar_s uvs_calendar_t;

/* Day of month and day of week are two fields. Which days match?
 *   AUTO    BOTH if one of the two fields begins with * or ?, else EITHER (as in Vixie's cron)
 *   EITHER  days that match at least one field; a field that is only * or ? does not count
 *   BOTH    days that match both fields */
enum { UVS_DAYS_AUTO = 0, UVS_DAYS_EITHER, UVS_DAYS_BOTH };

/* A fixed time falls into a gap: does it occur right after the gap, or not at all? */
enum { UVS_GAP_RUN_AFTER = 0, UVS_GAP_SKIP };

/* A fixed time falls into an overlap: does it occur in the first pass only, or in both? */
enum { UVS_OVERLAP_FIRST = 0, UVS_OVERLAP_BOTH };

typedef struct {
  size_t size; /* set by the initializer; new fields go at the end */
  int days;    /* UVS_DAYS_... */
  int gap;     /* UVS_GAP_...; only for fixed times */
  int overlap; /* UVS_OVERLAP_...; only for fixed times */
} uvs_calendar_options_t;

static inline void uvs_calendar_options_init(uvs_calendar_options_t *o) {
  memset(o, 0, sizeof *o);
  o->size = sizeof *o;
}

/* Why an expression was refused. */
typedef struct {
  int column;     /* in the expression, from 1; 0: the error is not in the expression */
  char field[16]; /* "second", "minute", "hour", "day of month", "month", "day of week",
                   * "expression", "interval", "zone", "options" */
  char text[160]; /* one line: what is wrong, and what to write instead */
} uvs_calendar_error_t;

/**
 * Make a calendar. A date that never comes (31 February) is an error here.
 *
 * zone: a name from tzdata, such as "Europe/Berlin"; or "UTC"; or NULL or "Local", which means the
 * zone in the environment variable TZ, or /etc/localtime if TZ is not set, or UTC if there is none.
 *
 * Thread:  any.
 * Owns:    copies text, zone and *o (NULL: defaults). The caller owns *ret, until
 *          uvs_calendar_release.
 * Returns: 0 with *ret set; UV_EINVAL (an invalid expression, option or zone name; a damaged zone
 *          file); UV_ENOENT (no such zone); UV_ENOMEM; another error of reading the zone file. On
 *          an error, *error (may be NULL) says why, and *ret is unchanged.
 */
UVS_API int uvs_calendar_parse(const char *text, const char *zone, const uvs_calendar_options_t *o,
                               uvs_calendar_t **ret, uvs_calendar_error_t *error);

/* Calendars are reference-counted: the last release frees the calendar. Both calls accept NULL.
 * uvs_calendar_retain returns c. Thread: any. */
UVS_API uvs_calendar_t *uvs_calendar_retain(uvs_calendar_t *c);
UVS_API void uvs_calendar_release(uvs_calendar_t *c);

/* The expression and the zone, as they were given to uvs_calendar_parse; "Local" if the zone was
 * NULL. Both return NULL if c is NULL. The text is valid until the calendar is freed. Thread: any.
 */
UVS_API const char *uvs_calendar_text(const uvs_calendar_t *c);
UVS_API const char *uvs_calendar_zone(const uvs_calendar_t *c);

/* The interval of an @every expression, in ns. 0 for any other expression, and if c is NULL.
 * Thread: any. */
UVS_API int64_t uvs_calendar_interval(const uvs_calendar_t *c);

/* ------------------------------------------------------------------- ask --- */

/**
 * uvs_calendar_next gives the first occurrence strictly later than after_ns. uvs_calendar_previous
 * gives the last occurrence strictly earlier than before_ns. For an @every they give after_ns plus
 * the interval, and before_ns minus the interval.
 *
 * Thread:  any.
 * Returns: the instant. If there is no occurrence before 2262, or c is NULL, uvs_calendar_next
 *          returns UVS_NEVER. If there is none since 1678, or c is NULL, uvs_calendar_previous
 *          returns -UVS_NEVER.
 */
UVS_API int64_t uvs_calendar_next(const uvs_calendar_t *c, int64_t after_ns);
UVS_API int64_t uvs_calendar_previous(const uvs_calendar_t *c, int64_t before_ns);

/* Returns 1 if an occurrence is in the same second as instant_ns, else 0. Returns 0 for an @every,
 * and if c is NULL. Thread: any. */
UVS_API int uvs_calendar_matches(const uvs_calendar_t *c, int64_t instant_ns);

/* ----------------------------------------------------------------- audit --- */

/* What a gap or an overlap did to an occurrence. An entry with one of the two DROPPED flags does
 * not occur. */
enum {
  UVS_OCCURRENCE_PLAIN = 0,
  UVS_OCCURRENCE_MOVED,         /* from a gap to the first instant after it */
  UVS_OCCURRENCE_DROPPED,       /* its local time is in a gap: does not occur */
  UVS_OCCURRENCE_FIRST,         /* its local time is in an overlap: the first pass */
  UVS_OCCURRENCE_SECOND,        /* its local time is in an overlap: the second pass */
  UVS_OCCURRENCE_SECOND_DROPPED /* the second pass of an overlap: does not occur */
};

/* The rule that decided the flag. */
enum {
  UVS_RULE_FIXED_TIME = 0, /* the default for fixed times */
  UVS_RULE_REAL_TIME,      /* minute or hour begins with * or ? */
  UVS_RULE_GAP_SKIP,       /* the option UVS_GAP_SKIP */
  UVS_RULE_OVERLAP_BOTH    /* the option UVS_OVERLAP_BOTH */
};

typedef struct {
  int year, month, day; /* month and day from 1 */
  int hour, minute, second;
  int weekday; /* 0: Sunday */
} uvs_local_time_t;

typedef struct {
  int64_t utc_ns;           /* DROPPED: the first instant after the gap */
  int32_t offset_s;         /* local time minus UTC, at utc_ns */
  int flag;                 /* UVS_OCCURRENCE_... */
  int rule;                 /* UVS_RULE_... */
  uvs_local_time_t local;   /* at utc_ns */
  uvs_local_time_t planned; /* the time in the expression; differs from `local` only if MOVED or
                             * DROPPED */
  uint32_t skipped;         /* how many local times of the expression are in the gap that ends at
                             * utc_ns. If MOVED or DROPPED, `planned` is the first of them. 0 if the
                             * expression follows real time. */
} uvs_occurrence_t;

/**
 * List the occurrences from from_ns (inclusive) to until_ns (exclusive), including those that a
 * rule dropped. The entries are in order, and no two have the same utc_ns. All times in one gap
 * share one entry.
 *
 * Thread:  any.
 * Returns: how many entries were written to ret, at most n. If the result is n, there may be more:
 *          call again from the last entry's utc_ns + 1. UV_EINVAL (NULL); UV_ENOTSUP (an @every has
 *          no fixed occurrences to list).
 */
UVS_API int uvs_calendar_list(const uvs_calendar_t *c, int64_t from_ns, int64_t until_ns,
                              uvs_occurrence_t *ret, size_t n);

/* ----------------------------------------------------- zones and durations --- */

/* Checks the files of all zones in use, and reads changed files again. Existing calendars then use
 * the new rules. Returns a number that grows with every such change. Thread: any. */
UVS_API uint64_t uvs_calendar_refresh(void);

/**
 * Read a duration such as "90s", "1h30m" or "250ms": numbers with units, without blanks, larger
 * units first. Units: w, d, h, m, s, ms, us, ns.
 *
 * Thread:  any.
 * Returns: 0 with *ret_ns set; UV_EINVAL (NULL, not a duration, more than 292 years).
 */
UVS_API int uvs_parse_duration(const char *text, int64_t *ret_ns);

#ifdef __cplusplus
}
#endif

#endif
