/* SPDX-License-Identifier: MIT
 *
 * Shared by the tests of calendars: instants as text, and calendars that must be there.
 */
#ifndef TEST_CALENDARS_H
#define TEST_CALENDARS_H

#include <string.h>
#include <time.h>

#include "uvsched/calendar.h"

#include "lib/unit.h"

/* "2025-03-09 07:00" or "2025-03-09 07:00:30", UTC, as ns. */
static inline int64_t utc(const char *text) {
  struct tm tm;

  memset(&tm, 0, sizeof tm);
  if (strptime(text, strlen(text) > 16 ? "%Y-%m-%d %H:%M:%S" : "%Y-%m-%d %H:%M", &tm) == NULL)
    abort();
  return UVS_SEC((int64_t)timegm(&tm));
}

/* The text of an instant; of the last four calls. */
static inline const char *text_of(int64_t ns) {
  static char texts[4][32];
  static unsigned n;
  char *text = texts[n++ % 4];
  time_t s = (time_t)(ns / UVS_SEC(1));
  struct tm tm;

  if (ns == UVS_NEVER || ns == -UVS_NEVER)
    return ns > 0 ? "never" : "-never";
  strftime(text, sizeof texts[0], "%Y-%m-%d %H:%M:%S", gmtime_r(&s, &tm));
  return text;
}

#define ASSERT_INSTANT(EXP, GOT) ASSERT_STR_EQ(text_of(EXP), text_of(GOT))

/* A zone that this system has no file for: the test is skipped. */
#define SKIP_WITHOUT(zone) \
  do { \
    uvs_calendar_t *zone_probe; \
    if (uvs_calendar_parse("* * * * *", zone, NULL, &zone_probe, NULL) == UV_ENOENT) { \
      printf("\nSKIP %s: no %s\n", __func__, zone); \
      SKIPm("no tzdata"); \
    } \
    uvs_calendar_release(zone_probe); \
  } while (0)

/* NULL, with the reason printed, if it was refused. */
static inline uvs_calendar_t *calendar_with(const char *text, const char *zone, int days, int gap,
                                            int overlap) {
  uvs_calendar_options_t o;
  uvs_calendar_error_t error;
  uvs_calendar_t *c;

  uvs_calendar_options_init(&o);
  o.days = days;
  o.gap = gap;
  o.overlap = overlap;
  if (uvs_calendar_parse(text, zone, &o, &c, &error) == 0)
    return c;
  printf("\n%s in %s: %s\n", text, zone == NULL ? "NULL" : zone, error.text);
  return NULL;
}

static inline uvs_calendar_t *calendar_of(const char *text, const char *zone) {
  return calendar_with(text, zone, UVS_DAYS_AUTO, UVS_GAP_RUN_AFTER, UVS_OVERLAP_FIRST);
}

#endif
