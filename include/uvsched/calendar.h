/* SPDX-License-Identifier: MIT
 *
 * Calendars: cron expressions in a time zone. A calendar answers when its next occurrence is. It
 * has no loop and reads no clock: the caller gives the instant to count from.
 *
 * EXPRESSIONS. An expression has five fields: minute, hour, day of month, month, day of week. A
 * sixth field, for seconds, may stand in front of them. docs/calendar.md describes the fields.
 *   - A field is a list of items, separated by commas. An item is *, ?, a value, or a range a-b. A
 *     step /n may follow an item. A value with a step (5/15) runs to the end of the field. Months
 *     and days of the week may be names (JAN, MON). Sunday is 0 or 7.
 *   - The day of month also allows L (the last day of the month), 15W (the working day, Monday to
 *     Friday, that is nearest to the 15th in the same month) and LW (the last working day).
 *   - The day of week also allows 5L (the last Friday of the month) and 5#2 (the second Friday).
 *   - A shorthand stands for a whole expression: @yearly, @annually, @monthly, @weekly, @daily,
 *     @midnight, @hourly.
 *   - @every 90s is an interval, not a calendar: see uvs_calendar_interval.
 *
 * GAPS AND OVERLAPS. When a zone sets its clock forward, some local times are skipped (a gap). When
 * it sets its clock back, some local times come twice (an overlap).
 *   - An expression whose minute or hour begins with * or ? follows real time. Its times in a gap
 *     do not occur. Its times in an overlap occur in both passes.
 *   - Any other expression has fixed times. All its times in one gap together occur once, at the
 *     first instant after the gap. Its times in an overlap occur in the first pass only.
 *     uvs_calendar_options_t can change these two rules.
 *
 * INSTANTS are nanoseconds since 1970, UTC, as in uvs_schedule_at. Occurrences are whole seconds in
 * the years 1678 to 2261 (UTC).
 *
 * THREADS. Any thread may call any function here. A calendar never changes, with one exception: if
 * the file of its zone has changed, uvs_calendar_refresh makes it use the new rules. A scheduler
 * that has calendar tasks calls uvs_calendar_refresh about once a minute.
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

/* Which days match the two fields day of month and day of week?
 *   AUTO    like BOTH if one of the two fields begins with * or ?, otherwise like EITHER (the rule
 *           of Vixie's cron)
 *   EITHER  days that match at least one of the fields; a field that is only * or ? is ignored
 *   BOTH    days that match both fields */
enum { UVS_DAYS_AUTO = 0, UVS_DAYS_EITHER, UVS_DAYS_BOTH };

/* What happens to a fixed time in a gap? It occurs right after the gap, or not at all. */
enum { UVS_GAP_RUN_AFTER = 0, UVS_GAP_SKIP };

/* What happens to a fixed time in an overlap? It occurs in the first pass only, or in both. */
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
  int column;     /* where in the expression, from 1; 0: the error is elsewhere */
  char field[16]; /* "second", "minute", "hour", "day of month", "month", "day of week",
                   * "expression", "interval", "zone", "options" */
  char text[160]; /* one line: what is wrong, and what to write instead */
} uvs_calendar_error_t;

/**
 * Make a calendar. An expression that never occurs (31 February) is an error.
 *
 * zone is one of these:
 *   - a name from tzdata, such as "Europe/Berlin", or "UTC"
 *   - NULL or "Local": the zone in the environment variable TZ, which may be a name, the path of a
 *     file, or a POSIX rule. If TZ is not set: /etc/localtime. If there is no such file: UTC.
 *
 * Thread:  any.
 * Owns:    copies text, zone and *o (NULL: defaults). The caller owns *ret until it calls
 *          uvs_calendar_release.
 * Returns: 0 with *ret set; UV_EINVAL (an invalid expression, option or zone name; a damaged zone
 *          file; NULL text or ret); UV_ENOENT (no such zone); UV_ENOMEM; or the error of reading
 *          the zone file. On an error, *error (may be NULL) says why, and *ret is unchanged.
 */
UVS_API int uvs_calendar_parse(const char *text, const char *zone, const uvs_calendar_options_t *o,
                               uvs_calendar_t **ret, uvs_calendar_error_t *error);

/* Calendars are reference-counted: the last release frees the calendar. Both calls accept NULL.
 * uvs_calendar_retain returns c. Thread: any. */
UVS_API uvs_calendar_t *uvs_calendar_retain(uvs_calendar_t *c);
UVS_API void uvs_calendar_release(uvs_calendar_t *c);

/* The expression and the zone, as they were given to uvs_calendar_parse ("Local" for a NULL zone).
 * The text is valid until the calendar is freed. NULL if c is NULL. Thread: any. */
UVS_API const char *uvs_calendar_text(const uvs_calendar_t *c);
UVS_API const char *uvs_calendar_zone(const uvs_calendar_t *c);

/* The interval of an @every expression, in ns; 0 for any other expression; 0 if c is NULL.
 * Thread: any. */
UVS_API int64_t uvs_calendar_interval(const uvs_calendar_t *c);

/* ------------------------------------------------------------------- ask --- */

/**
 * uvs_calendar_next finds the first occurrence that is strictly later than after_ns.
 * uvs_calendar_previous finds the last occurrence that is strictly earlier than before_ns. For an
 * @every they return after_ns plus the interval, and before_ns minus the interval.
 *
 * Thread:  any.
 * Returns: the instant. If there is no such occurrence in the years 1678 to 2261, if the result for
 *          an @every does not fit into 64 bits, or if c is NULL, uvs_calendar_next returns
 *          UVS_NEVER, and uvs_calendar_previous returns -UVS_NEVER.
 */
UVS_API int64_t uvs_calendar_next(const uvs_calendar_t *c, int64_t after_ns);
UVS_API int64_t uvs_calendar_previous(const uvs_calendar_t *c, int64_t before_ns);

/* Returns 1 if there is an occurrence in the second of instant_ns, else 0. Returns 0 for an @every,
 * and if c is NULL. Thread: any. */
UVS_API int uvs_calendar_matches(const uvs_calendar_t *c, int64_t instant_ns);

/* ----------------------------------------------------------------- audit --- */

/* What a gap or an overlap did to an occurrence. */
enum {
  UVS_OCCURRENCE_PLAIN = 0,     /* nothing */
  UVS_OCCURRENCE_MOVED,         /* from the gap to the first instant after the gap */
  UVS_OCCURRENCE_DROPPED,       /* its local time is in a gap: it does not occur */
  UVS_OCCURRENCE_FIRST,         /* it is in the first pass of an overlap */
  UVS_OCCURRENCE_SECOND,        /* it is in the second pass of an overlap */
  UVS_OCCURRENCE_SECOND_DROPPED /* it is in the second pass of an overlap: it does not occur */
};

/* The rule that decided the flag. */
enum {
  UVS_RULE_FIXED_TIME = 0, /* the default for fixed times */
  UVS_RULE_REAL_TIME,      /* the minute field or the hour field begins with * or ? */
  UVS_RULE_GAP_SKIP,       /* the option UVS_GAP_SKIP */
  UVS_RULE_OVERLAP_BOTH    /* the option UVS_OVERLAP_BOTH */
};

typedef struct {
  int year, month, day; /* month and day from 1 */
  int hour, minute, second;
  int weekday; /* 0: Sunday */
} uvs_local_time_t;

typedef struct {
  int64_t utc_ns;           /* when it occurs; DROPPED: the first instant after the gap */
  int32_t offset_s;         /* local time minus UTC, at utc_ns */
  int flag;                 /* UVS_OCCURRENCE_... */
  int rule;                 /* UVS_RULE_... */
  uvs_local_time_t local;   /* at utc_ns */
  uvs_local_time_t planned; /* the time in the expression; differs from `local` only if MOVED or
                             * DROPPED */
  uint32_t skipped;         /* how many times of the expression are in the gap that ends at utc_ns.
                             * If MOVED or DROPPED, `planned` is the first of them. */
} uvs_occurrence_t;

/**
 * List the occurrences from from_ns (inclusive) to until_ns (exclusive), and the times that a rule
 * dropped. The entries are in the order of utc_ns, and no two have the same utc_ns. All times in
 * one gap share one entry.
 *
 * Thread:  any.
 * Returns: how many entries were written to ret, at most n. If the result is n, there may be more:
 *          call again with from_ns = the last entry's utc_ns + 1. UV_EINVAL (NULL); UV_ENOTSUP (an
 *          @every: its occurrences depend on the instant from which they are counted).
 */
UVS_API int uvs_calendar_list(const uvs_calendar_t *c, int64_t from_ns, int64_t until_ns,
                              uvs_occurrence_t *ret, size_t n);

/* ----------------------------------------------------- zones and durations --- */

/* Check the files of the zones of all calendars, and read changed files again. Existing calendars
 * then use the new rules. If a file is damaged or gone, its old rules stay in use.
 * uvs_calendar_parse does not check the file of a zone that another calendar uses. Returns a number
 * that grows whenever the rules of a zone change. Thread: any. */
UVS_API uint64_t uvs_calendar_refresh(void);

/**
 * Read a duration such as "90s", "1h30m" or "250ms": numbers with units, without blanks. Larger
 * units come first, and no unit comes twice. Units: w, d, h, m, s, ms, us, ns.
 *
 * Thread:  any.
 * Returns: 0 with *ret_ns set; UV_EINVAL (NULL, not a duration, more than 292 years).
 */
UVS_API int uvs_parse_duration(const char *text, int64_t *ret_ns);

#ifdef __cplusplus
}
#endif

#endif
