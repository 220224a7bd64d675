/* SPDX-License-Identifier: MIT
 *
 * Calendars in zones: what gaps and overlaps do, the audit, the limits, and that next, previous,
 * matches and list agree. brute.py compares many more with a brute force.
 */
#include "calendar/count.h"
#include "calendar/occur.h"

#include "calendar/calendars.h"

/* Calendars belong to no scheduler: their memory comes from here. */
void *__real_uvs__mem_system(size_t size);
void *__wrap_uvs__mem_system(size_t size);

static struct fault memory;

void *__wrap_uvs__mem_system(size_t size) {
  uvs_allocator_t a = fault_option(&memory);
  void *probe = a.alloc(1, a.arg);

  if (probe == NULL)
    return NULL;
  a.free(probe, a.arg);
  return __real_uvs__mem_system(size);
}

/* ------------------------------------------------------ gaps and overlaps --- */

enum { RUN_AFTER = UVS_GAP_RUN_AFTER, SKIP = UVS_GAP_SKIP };
enum { FIRST = UVS_OVERLAP_FIRST, BOTH = UVS_OVERLAP_BOTH };

static const struct change {
  const char *text, *zone;
  int gap, overlap;
  const char *from;
  const char *instants[8]; /* the next ones, UTC */
} changes[] = {
    /* What others answer */
    {"30 2 * * *",
     "America/New_York",
     RUN_AFTER,
     FIRST,
     "2025-03-08 00:00",
     {"2025-03-08 07:30", "2025-03-09 07:00", "2025-03-10 06:30"}},
    {"30 1 * * *",
     "America/New_York",
     RUN_AFTER,
     FIRST,
     "2025-11-01 00:00",
     {"2025-11-01 05:30", "2025-11-02 05:30", "2025-11-03 06:30"}},
    {"*/30 * * * *",
     "America/New_York",
     RUN_AFTER,
     FIRST,
     "2025-11-02 04:59",
     {"2025-11-02 05:00", "2025-11-02 05:30", "2025-11-02 06:00", "2025-11-02 06:30",
      "2025-11-02 07:00"}},
    {"0 0 * * *",
     "America/Santiago",
     RUN_AFTER,
     FIRST,
     "2025-09-06 00:00",
     {"2025-09-06 04:00", "2025-09-07 04:00", "2025-09-08 03:00"}},
    {"0 2 * * *",
     "Australia/Lord_Howe",
     RUN_AFTER,
     FIRST,
     "2025-10-03 16:00",
     {"2025-10-04 15:30", "2025-10-05 15:00"}},
    /* Real time: nothing for a gap */
    {"30 * * * *",
     "America/New_York",
     RUN_AFTER,
     FIRST,
     "2025-03-09 06:00",
     {"2025-03-09 06:30", "2025-03-09 07:30", "2025-03-09 08:30"}},
    {"* 2 * * *",
     "America/New_York",
     RUN_AFTER,
     FIRST,
     "2025-03-09 00:00",
     {"2025-03-10 06:00", "2025-03-10 06:01"}},
    /* A * in the seconds field makes no difference */
    {"* 30 2 * * *",
     "America/New_York",
     RUN_AFTER,
     FIRST,
     "2025-03-09 00:00",
     {"2025-03-09 07:00", "2025-03-10 06:30", "2025-03-10 06:30:01"}},
    {"0 30 1 * * *",
     "America/New_York",
     RUN_AFTER,
     FIRST,
     "2025-11-02 00:00",
     {"2025-11-02 05:30", "2025-11-03 06:30"}},
    /* Several times in one gap are one run, and so is one right after the gap */
    {"0,15,45 2 * * *",
     "America/New_York",
     RUN_AFTER,
     FIRST,
     "2025-03-09 00:00",
     {"2025-03-09 07:00", "2025-03-10 06:00"}},
    {"0 2,3 * * *",
     "America/New_York",
     RUN_AFTER,
     FIRST,
     "2025-03-09 00:00",
     {"2025-03-09 07:00", "2025-03-10 06:00", "2025-03-10 07:00"}},
    {"30 2,3 * * *",
     "America/New_York",
     RUN_AFTER,
     FIRST,
     "2025-03-09 00:00",
     {"2025-03-09 07:00", "2025-03-09 07:30", "2025-03-10 06:30"}},
    /* Apia had no 2011-12-30: the first instant after it is 2011-12-30 10:00 UTC */
    {"0 12 * * *",
     "Pacific/Apia",
     RUN_AFTER,
     FIRST,
     "2011-12-29 00:00",
     {"2011-12-29 22:00", "2011-12-30 10:00", "2011-12-30 22:00"}},
    {"0 12 30 12 *",
     "Pacific/Apia",
     RUN_AFTER,
     FIRST,
     "2011-01-01 00:00",
     {"2011-12-30 10:00", "2012-12-29 22:00"}},
    {"*/30 12 30 12 *",
     "Pacific/Apia",
     RUN_AFTER,
     FIRST,
     "2011-01-01 00:00",
     {"2012-12-29 22:00", "2012-12-29 22:30"}},
    /* Kwajalein had no 1993-08-21. Casey's overlaps of three hours end on another date. */
    {"0 0 21 8 *",
     "Pacific/Kwajalein",
     RUN_AFTER,
     FIRST,
     "1993-01-01 00:00",
     {"1993-08-21 12:00", "1994-08-20 12:00"}},
    {"30 23 * * *",
     "Antarctica/Casey",
     RUN_AFTER,
     FIRST,
     "2010-03-03 16:00",
     {"2010-03-04 12:30", "2010-03-05 15:30"}},
    /* The options */
    {"30 2 * * *", "America/New_York", SKIP, FIRST, "2025-03-09 00:00", {"2025-03-10 06:30"}},
    {"0 2,3 * * *",
     "America/New_York",
     SKIP,
     FIRST,
     "2025-03-09 00:00",
     {"2025-03-09 07:00", "2025-03-10 06:00"}},
    {"0 12 30 12 *", "Pacific/Apia", SKIP, FIRST, "2011-01-01 00:00", {"2012-12-29 22:00"}},
    {"30 1 * * *",
     "America/New_York",
     RUN_AFTER,
     BOTH,
     "2025-11-02 00:00",
     {"2025-11-02 05:30", "2025-11-02 06:30", "2025-11-03 06:30"}},
    {"*/30 1 * * *",
     "America/New_York",
     SKIP,
     FIRST,
     "2025-11-02 00:00",
     {"2025-11-02 05:00", "2025-11-02 05:30", "2025-11-02 06:00", "2025-11-02 06:30"}},
    /* Nothing special */
    {"0 9 * * 1-5",
     "Europe/Berlin",
     RUN_AFTER,
     FIRST,
     "2026-03-27 09:00",
     {"2026-03-30 07:00", "2026-03-31 07:00"}},
    {"0 9 * * *", "Asia/Kolkata", RUN_AFTER, FIRST, "2026-03-27 09:00", {"2026-03-28 03:30"}},
};

/* K4 K5 K6 */
TEST gaps_and_overlaps_follow_the_rule(void) {
  SKIP_WITHOUT("America/New_York");
  for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
    const struct change *h = &changes[i];
    uvs_calendar_t *c = calendar_with(h->text, h->zone, UVS_DAYS_AUTO, h->gap, h->overlap);
    int64_t at = utc(h->from);

    ASSERT(c != NULL);
    for (size_t k = 0; k < 8 && h->instants[k] != NULL; k++) {
      int64_t next = uvs_calendar_next(c, at);

      ASSERT_STR_EQm(h->text, text_of(utc(h->instants[k])), text_of(next));
      if (k > 0) {
        ASSERT_INSTANT(at, uvs_calendar_previous(c, next));
      }
      ASSERT_RC(1, uvs_calendar_matches(c, next));
      ASSERT_RC(1, uvs_calendar_matches(c, next + UVS_SEC(1) - 1));
      at = next;
    }
    uvs_calendar_release(c);
  }
  PASS();
}

/* ------------------------------------------------------------------ audit --- */

static const struct listed {
  const char *text, *zone;
  int gap, overlap;
  const char *from, *until;
  struct {
    const char *utc, *local, *planned; /* planned: NULL if the same as local */
    int offset_minutes, flag, rule;
    unsigned skipped;
  } list[6];
} lists[] = {
    /* a gap of one day, with 12 times in each minute */
    {"0-59/5 0-59 0-23 30 12 *",
     "Pacific/Apia",
     RUN_AFTER,
     FIRST,
     "2011-12-30 00:00",
     "2011-12-31 00:00",
     {{"2011-12-30 10:00", "2011-12-31 00:00:00 6", "2011-12-30 00:00:00 5", 840,
       UVS_OCCURRENCE_MOVED, UVS_RULE_FIXED_TIME, 17280}}},
    {"30 2 * * *",
     "America/New_York",
     RUN_AFTER,
     FIRST,
     "2025-03-08 00:00",
     "2025-03-11 00:00",
     {{"2025-03-08 07:30", "2025-03-08 02:30:00 6", NULL, -300, UVS_OCCURRENCE_PLAIN,
       UVS_RULE_FIXED_TIME, 0},
      {"2025-03-09 07:00", "2025-03-09 03:00:00 0", "2025-03-09 02:30:00 0", -240,
       UVS_OCCURRENCE_MOVED, UVS_RULE_FIXED_TIME, 1},
      {"2025-03-10 06:30", "2025-03-10 02:30:00 1", NULL, -240, UVS_OCCURRENCE_PLAIN,
       UVS_RULE_FIXED_TIME, 0}}},
    {"0,15 2 * * *",
     "America/New_York",
     SKIP,
     FIRST,
     "2025-03-09 00:00",
     "2025-03-10 00:00",
     {{"2025-03-09 07:00", "2025-03-09 03:00:00 0", "2025-03-09 02:00:00 0", -240,
       UVS_OCCURRENCE_DROPPED, UVS_RULE_GAP_SKIP, 2}}},
    {"0 2,3 * * *",
     "America/New_York",
     RUN_AFTER,
     FIRST,
     "2025-03-09 00:00",
     "2025-03-10 00:00",
     {{"2025-03-09 07:00", "2025-03-09 03:00:00 0", NULL, -240, UVS_OCCURRENCE_PLAIN,
       UVS_RULE_FIXED_TIME, 1}}},
    {"0 2,3 * * *",
     "America/New_York",
     SKIP,
     FIRST,
     "2025-03-09 00:00",
     "2025-03-10 00:00",
     {{"2025-03-09 07:00", "2025-03-09 03:00:00 0", NULL, -240, UVS_OCCURRENCE_PLAIN,
       UVS_RULE_FIXED_TIME, 1}}},
    {"*/30 2 * * *",
     "America/New_York",
     RUN_AFTER,
     FIRST,
     "2025-03-09 00:00",
     "2025-03-10 00:00",
     {{"2025-03-09 07:00", "2025-03-09 03:00:00 0", "2025-03-09 02:00:00 0", -240,
       UVS_OCCURRENCE_DROPPED, UVS_RULE_REAL_TIME, 2}}},
    {"*/30 * * * *",
     "America/New_York",
     RUN_AFTER,
     FIRST,
     "2025-03-09 06:30",
     "2025-03-09 07:30",
     {{"2025-03-09 06:30", "2025-03-09 01:30:00 0", NULL, -300, UVS_OCCURRENCE_PLAIN,
       UVS_RULE_REAL_TIME, 0},
      {"2025-03-09 07:00", "2025-03-09 03:00:00 0", NULL, -240, UVS_OCCURRENCE_PLAIN,
       UVS_RULE_REAL_TIME, 2}}},
    {"30 1 * * *",
     "America/New_York",
     RUN_AFTER,
     FIRST,
     "2025-11-02 00:00",
     "2025-11-03 00:00",
     {{"2025-11-02 05:30", "2025-11-02 01:30:00 0", NULL, -240, UVS_OCCURRENCE_FIRST,
       UVS_RULE_FIXED_TIME, 0},
      {"2025-11-02 06:30", "2025-11-02 01:30:00 0", NULL, -300, UVS_OCCURRENCE_SECOND_DROPPED,
       UVS_RULE_FIXED_TIME, 0}}},
    {"30 1 * * *",
     "America/New_York",
     RUN_AFTER,
     BOTH,
     "2025-11-02 00:00",
     "2025-11-03 00:00",
     {{"2025-11-02 05:30", "2025-11-02 01:30:00 0", NULL, -240, UVS_OCCURRENCE_FIRST,
       UVS_RULE_OVERLAP_BOTH, 0},
      {"2025-11-02 06:30", "2025-11-02 01:30:00 0", NULL, -300, UVS_OCCURRENCE_SECOND,
       UVS_RULE_OVERLAP_BOTH, 0}}},
    {"0 * * * *",
     "America/New_York",
     SKIP,
     FIRST,
     "2025-11-02 04:00",
     "2025-11-02 08:00",
     {{"2025-11-02 04:00", "2025-11-02 00:00:00 0", NULL, -240, UVS_OCCURRENCE_PLAIN,
       UVS_RULE_REAL_TIME, 0},
      {"2025-11-02 05:00", "2025-11-02 01:00:00 0", NULL, -240, UVS_OCCURRENCE_FIRST,
       UVS_RULE_REAL_TIME, 0},
      {"2025-11-02 06:00", "2025-11-02 01:00:00 0", NULL, -300, UVS_OCCURRENCE_SECOND,
       UVS_RULE_REAL_TIME, 0},
      {"2025-11-02 07:00", "2025-11-02 02:00:00 0", NULL, -300, UVS_OCCURRENCE_PLAIN,
       UVS_RULE_REAL_TIME, 0}}},
    {"0 12 * * *",
     "Pacific/Apia",
     RUN_AFTER,
     FIRST,
     "2011-12-30 00:00",
     "2011-12-31 00:00",
     {{"2011-12-30 10:00", "2011-12-31 00:00:00 6", "2011-12-30 12:00:00 5", 840,
       UVS_OCCURRENCE_MOVED, UVS_RULE_FIXED_TIME, 1},
      {"2011-12-30 22:00", "2011-12-31 12:00:00 6", NULL, 840, UVS_OCCURRENCE_PLAIN,
       UVS_RULE_FIXED_TIME, 0}}},
};

static const char *local_text(const uvs_local_time_t *l, char *text, size_t size) {
  snprintf(text, size, "%04d-%02d-%02d %02d:%02d:%02d %d", l->year, l->month, l->day, l->hour,
           l->minute, l->second, l->weekday);
  return text;
}

/* K8 */
TEST the_audit_says_what_gaps_and_overlaps_did(void) {
  char text[80];

  SKIP_WITHOUT("America/New_York");
  for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
    const struct listed *h = &lists[i];
    uvs_calendar_t *c = calendar_with(h->text, h->zone, UVS_DAYS_AUTO, h->gap, h->overlap);
    uvs_occurrence_t got[7];
    int n;

    ASSERT(c != NULL);
    memset(got, 0xff, sizeof got);
    n = uvs_calendar_list(c, utc(h->from), utc(h->until), got, 7);
    for (int k = 0; k < 6 && h->list[k].utc != NULL; k++) {
      const char *planned = h->list[k].planned == NULL ? h->list[k].local : h->list[k].planned;

      ASSERTm(h->text, k < n);
      ASSERT_INSTANT(utc(h->list[k].utc), got[k].utc_ns);
      ASSERT_STR_EQ(h->list[k].local, local_text(&got[k].local, text, sizeof text));
      ASSERT_STR_EQ(planned, local_text(&got[k].planned, text, sizeof text));
      ASSERT_EQ_FMT(h->list[k].offset_minutes * 60, (int)got[k].offset_s, "%d");
      ASSERT_EQ_FMT(h->list[k].flag, got[k].flag, "%d");
      ASSERT_EQ_FMT(h->list[k].rule, got[k].rule, "%d");
      ASSERT_EQ_FMT(h->list[k].skipped, (unsigned)got[k].skipped, "%u");
      ASSERT_RC(h->list[k].flag != UVS_OCCURRENCE_DROPPED &&
                    h->list[k].flag != UVS_OCCURRENCE_SECOND_DROPPED,
                uvs_calendar_matches(c, got[k].utc_ns));
      n -= k == 5 || h->list[k + 1].utc == NULL ? k + 1 : 0;
    }
    ASSERT_EQ_FMT(0, n, "%d"); /* and no more */
    uvs_calendar_release(c);
  }
  PASS();
}

/* K8 */
TEST a_list_can_be_continued_where_it_ended(void) {
  uvs_occurrence_t all[500], some[3];
  uvs_calendar_t *c;
  int n, seen = 0;

  SKIP_WITHOUT("America/New_York");
  c = calendar_with("*/20 0-3 2,9 3,11 *", "America/New_York", 0, SKIP, FIRST);
  ASSERT(c != NULL);
  n = uvs_calendar_list(c, utc("2025-01-01 00:00"), utc("2026-01-01 00:00"), all, 500);
  ASSERT(n > 40 && n < 500);
  for (int64_t from = utc("2025-01-01 00:00");;) {
    int k = uvs_calendar_list(c, from, utc("2026-01-01 00:00"), some, 3);

    ASSERT(k >= 0 && k <= 3 && seen + k <= n);
    for (int i = 0; i < k; i++)
      ASSERT_EQ(0, memcmp(&all[seen++], &some[i], sizeof some[i]));
    if (k < 3)
      break;
    from = some[2].utc_ns + 1;
  }
  ASSERT_EQ_FMT(n, seen, "%d");
  /* from is inclusive, until is exclusive */
  ASSERT_RC(1, uvs_calendar_list(c, all[0].utc_ns, all[1].utc_ns, some, 3));
  ASSERT_RC(2, uvs_calendar_list(c, all[0].utc_ns, all[1].utc_ns + 1, some, 3));
  ASSERT_RC(0, uvs_calendar_list(c, all[0].utc_ns + 1, all[1].utc_ns, some, 3));
  ASSERT_RC(0, uvs_calendar_list(c, all[1].utc_ns, all[0].utc_ns, some, 3));
  ASSERT_RC(0, uvs_calendar_list(c, all[0].utc_ns, all[1].utc_ns, NULL, 0));
  ASSERT_RC(UV_EINVAL, uvs_calendar_list(c, 0, 1, NULL, 1));
  ASSERT_RC(UV_EINVAL, uvs_calendar_list(NULL, 0, 1, some, 1));
  uvs_calendar_release(c);
  PASS();
}

/* ----------------------------------------------------------------- limits --- */

/* K7 */
TEST occurrences_lie_in_the_years_1678_to_2261(void) {
  uvs_calendar_t *c = calendar_of("0 0 1 1 *", "UTC"),
                 *leap = calendar_with("0 0 29 2 1", "UTC", UVS_DAYS_BOTH, 0, 0);

  ASSERT(c != NULL && leap != NULL);
  ASSERT_INSTANT(utc("2261-01-01 00:00"), uvs_calendar_next(c, utc("2260-05-01 00:00")));
  ASSERT_EQ(UVS_NEVER, uvs_calendar_next(c, utc("2261-01-01 00:00")));
  ASSERT_EQ(UVS_NEVER, uvs_calendar_next(c, INT64_MAX));
  ASSERT_EQ(UVS_NEVER, uvs_calendar_next(c, INT64_MAX - 1));
  ASSERT_INSTANT(utc("2261-01-01 00:00"), uvs_calendar_previous(c, INT64_MAX));
  ASSERT_INSTANT(utc("1678-01-01 00:00"), uvs_calendar_next(c, INT64_MIN));
  ASSERT_INSTANT(utc("1678-01-01 00:00"), uvs_calendar_previous(c, utc("1679-01-01 00:00")));
  ASSERT_EQ(-UVS_NEVER, uvs_calendar_previous(c, utc("1678-01-01 00:00")));
  ASSERT_INSTANT(utc("1678-01-01 00:00"), uvs_calendar_previous(c, utc("1678-01-01 00:00") + 1));
  ASSERT_EQ(-UVS_NEVER, uvs_calendar_previous(c, INT64_MIN));
  ASSERT_RC(0, uvs_calendar_matches(c, INT64_MIN));
  ASSERT_RC(0, uvs_calendar_matches(c, INT64_MAX));
  ASSERT_EQ(UVS_NEVER, uvs_calendar_next(leap, utc("2236-02-29 00:00")));
  uvs_calendar_release(c);
  uvs_calendar_release(leap);
  PASS();
}

/* K7 */
TEST an_instant_between_seconds_rounds_away_from_itself(void) {
  uvs_calendar_t *c = calendar_of("* * * * * *", "UTC");

  ASSERT(c != NULL);
  ASSERT_EQ(UVS_SEC(1), uvs_calendar_next(c, 0));
  ASSERT_EQ(UVS_SEC(1), uvs_calendar_next(c, 1));
  ASSERT_EQ(UVS_SEC(1), uvs_calendar_next(c, UVS_SEC(1) - 1));
  ASSERT_EQ(0, uvs_calendar_next(c, -1));
  ASSERT_EQ(-UVS_SEC(1), uvs_calendar_previous(c, 0));
  ASSERT_EQ(0, uvs_calendar_previous(c, 1));
  ASSERT_EQ(-UVS_SEC(1), uvs_calendar_previous(c, -1));
  ASSERT_EQ(-UVS_SEC(2), uvs_calendar_previous(c, -UVS_SEC(1)));
  uvs_calendar_release(c);
  PASS();
}

/* K12 */
TEST an_interval_counts_from_the_given_instant(void) {
  uvs_calendar_t *c = calendar_of("@every 1h30m", "UTC");
  uvs_occurrence_t o;

  ASSERT(c != NULL);
  ASSERT_EQ(UVS_MIN(90), uvs_calendar_interval(c));
  ASSERT_EQ(UVS_MIN(90) + 7, uvs_calendar_next(c, 7));
  ASSERT_EQ(7 - UVS_MIN(90), uvs_calendar_previous(c, 7));
  ASSERT_EQ(UVS_NEVER, uvs_calendar_next(c, INT64_MAX - 1));
  ASSERT_EQ(-UVS_NEVER, uvs_calendar_previous(c, INT64_MIN));
  ASSERT_RC(0, uvs_calendar_matches(c, UVS_MIN(90)));
  ASSERT_RC(UV_ENOTSUP, uvs_calendar_list(c, 0, 1, &o, 1));
  uvs_calendar_release(c);
  PASS();
}

/* -------------------------------------------------------------- arguments --- */

/* K2 */
TEST null_is_refused_or_ignored(void) {
  uvs_calendar_error_t error;
  uvs_calendar_t *c;

  ASSERT_RC(UV_EINVAL, uvs_calendar_parse(NULL, "UTC", NULL, &c, &error));
  ASSERT_STR_EQ("text is NULL", error.text);
  ASSERT_RC(UV_EINVAL, uvs_calendar_parse("* * * * *", "UTC", NULL, NULL, &error));
  ASSERT_STR_EQ("ret is NULL", error.text);
  ASSERT_EQ(NULL, uvs_calendar_retain(NULL));
  uvs_calendar_release(NULL);
  ASSERT_EQ(NULL, uvs_calendar_text(NULL));
  ASSERT_EQ(NULL, uvs_calendar_zone(NULL));
  ASSERT_EQ(0, uvs_calendar_interval(NULL));
  ASSERT_EQ(UVS_NEVER, uvs_calendar_next(NULL, 0));
  ASSERT_EQ(-UVS_NEVER, uvs_calendar_previous(NULL, 0));
  ASSERT_RC(0, uvs_calendar_matches(NULL, 0));
  PASS();
}

/* K2 */
TEST wrong_options_are_refused_with_a_text(void) {
  uvs_calendar_options_t good, o;
  uvs_calendar_error_t error;
  uvs_calendar_t *c;

  uvs_calendar_options_init(&good);
#define REFUSED(option, value, why) \
  do { \
    o = good; \
    o.option = value; \
    ASSERT_RC(UV_EINVAL, uvs_calendar_parse("* * * * *", "UTC", &o, &c, &error)); \
    ASSERT_STR_EQ(why, error.text); \
    ASSERT_STR_EQ("options", error.field); \
    ASSERT_EQ_FMT(0, error.column, "%d"); \
  } while (0)
  REFUSED(size, 0, "size is wrong: call uvs_calendar_options_init");
  REFUSED(size, sizeof o - 8, "size is wrong: call uvs_calendar_options_init");
  REFUSED(days, 3, "days is not UVS_DAYS_AUTO, UVS_DAYS_EITHER or UVS_DAYS_BOTH");
  REFUSED(days, -1, "days is not UVS_DAYS_AUTO, UVS_DAYS_EITHER or UVS_DAYS_BOTH");
  REFUSED(gap, 2, "gap is not UVS_GAP_RUN_AFTER or UVS_GAP_SKIP");
  REFUSED(overlap, 2, "overlap is not UVS_OVERLAP_FIRST or UVS_OVERLAP_BOTH");
  PASS();
}

/* K2 K9 */
TEST a_refused_zone_is_reported_as_the_field_zone(void) {
  uvs_calendar_error_t error;
  uvs_calendar_t *c = NULL;

  ASSERT_RC(UV_ENOENT, uvs_calendar_parse("* * * * *", "No/Such_Zone", NULL, &c, &error));
  ASSERT_STR_EQ("zone", error.field);
  ASSERT_EQ_FMT(0, error.column, "%d");
  ASSERT(strlen(error.text) > 10);
  ASSERT_RC(UV_EINVAL, uvs_calendar_parse("* * * * *", "../UTC", NULL, &c, &error));
  ASSERT_STR_EQ("zone", error.field);
  ASSERT_EQ(NULL, c);
  PASS();
}

/* K11 */
TEST a_calendar_remembers_its_text_and_zone_until_the_last_release(void) {
  char text[] = " 0  9 * * 1-5";
  uvs_calendar_t *c = calendar_of(text, "UTC"), *local = calendar_of("@daily", NULL);

  ASSERT(c != NULL && local != NULL);
  text[0] = 'x'; /* it was copied */
  ASSERT_EQ(c, uvs_calendar_retain(c));
  uvs_calendar_release(c);
  ASSERT_STR_EQ(" 0  9 * * 1-5", uvs_calendar_text(c));
  ASSERT_STR_EQ("UTC", uvs_calendar_zone(c));
  ASSERT_STR_EQ("Local", uvs_calendar_zone(local));
  ASSERT_EQ(0, uvs_calendar_interval(c));
  uvs_calendar_release(c);
  uvs_calendar_release(local);
  PASS();
}

/* K2 */
TEST every_allocation_failure_is_reported_and_nothing_leaks(void) {
  static const char *const zones[] = {"UTC", NULL, "Europe/Berlin"};
  int failures = 0;

  SKIP_WITHOUT("Europe/Berlin");
  for (size_t i = 0; i < 3; i++) {
    for (long n = 0;; n++) {
      uvs_calendar_error_t error;
      uvs_calendar_t *c = NULL;
      int rc;
      bool failed;

      fault_after(n);
      rc = uvs_calendar_parse("0 9 * * *", zones[i], NULL, &c, &error);
      failed = fault_hit();
      ASSERT_RC(failed ? UV_ENOMEM : 0, rc);
      if (!failed) {
        uvs_calendar_release(c);
        break;
      }
      ASSERT_EQ(NULL, c);
      ASSERT(strlen(error.text) > 5 && error.column == 0);
      failures++;
    }
  }
  ASSERT(failures >= 4);
  PASS();
}

/* ------------------------------------------------------------- properties --- */

static void random_field_text(uint64_t *state, char *text, int min, int max, int star_percent) {
  int a = min + (int)test_random_below(state, (uint64_t)(max - min + 1));
  int b = a + (int)test_random_below(state, (uint64_t)(max - a + 1));

  if ((int)test_random_below(state, 100) < star_percent)
    sprintf(text, test_random_below(state, 2) == 0 ? "*" : "*/%d", 1 + max / 4);
  else if (test_random_below(state, 3) == 0)
    sprintf(text, "%d-%d/%d", a, b, 1 + (int)test_random_below(state, 7));
  else
    sprintf(text, "%d,%d", a, b);
}

static void random_expression(uint64_t *state, char *text) {
  char f[6][32];

  random_field_text(state, f[0], 0, 59, 5);
  random_field_text(state, f[1], 0, 59, 20);
  random_field_text(state, f[2], 0, 5, 20); /* where zones change */
  random_field_text(state, f[3], 1, 31, 60);
  random_field_text(state, f[4], 1, 12, 70);
  random_field_text(state, f[5], 0, 6, 60);
  if (test_random_below(state, 3) == 0)
    sprintf(text, "%s %s %s %s %s %s", f[0], f[1], f[2], f[3], f[4], f[5]);
  else
    sprintf(text, "%s %s %s %s %s", f[1], f[2], f[3], f[4], f[5]);
}

static bool dropped(const uvs_occurrence_t *o) {
  return o->flag == UVS_OCCURRENCE_DROPPED || o->flag == UVS_OCCURRENCE_SECOND_DROPPED;
}

/* From `at` on: next, previous, matches and list say the same. */
static enum greatest_test_res agree(const uvs_calendar_t *c, int64_t at) {
  enum { N = 40 };
  uvs_occurrence_t list[N];
  int n = uvs_calendar_list(c, at, UVS_NEVER, list, N);
  int64_t next = uvs_calendar_next(c, at - 1);

  ASSERT(n >= 0);
  for (int i = 0; i < n; i++) {
    if (i > 0)
      ASSERT(list[i].utc_ns > list[i - 1].utc_ns);
    ASSERT_RC(!dropped(&list[i]), uvs_calendar_matches(c, list[i].utc_ns));
    if (dropped(&list[i]))
      continue;
    ASSERT_INSTANT(next, list[i].utc_ns);
    ASSERT(next >= at);
    ASSERT_INSTANT(next, uvs_calendar_previous(c, next + 1));
    next = uvs_calendar_next(c, next);
    ASSERT(next > list[i].utc_ns);
    if (next != UVS_NEVER) {
      ASSERT_INSTANT(list[i].utc_ns, uvs_calendar_previous(c, next));
    }
  }
  if (n < N) {
    ASSERT_EQ(UVS_NEVER, next);
  }
  PASS();
}

/* The number of occurrences in a span from `at` on is the number of steps through it. */
static enum greatest_test_res count_agrees(const uvs_calendar_t *c, int64_t at, uint64_t *state) {
  int64_t end = at;

  for (uint64_t n = 0; n < 300 && end != UVS_NEVER; n++) {
    int64_t next = uvs_calendar_next(c, end);

    ASSERT_U64(n, uvs__calendar_count(c, at, end));
    if (next != UVS_NEVER) {
      ASSERT_U64(n, uvs__calendar_count(c, at, next - 1));
      end += (int64_t)test_random_below(state, (uint64_t)(next - end));
      ASSERT_U64(n, uvs__calendar_count(c, at, end));
      ASSERT_U64(n + 1, uvs__calendar_count(c, at, next));
    }
    end = next;
  }
  PASS();
}

/* 1950 to 2229, or up to three hours before a change of the clock. */
static int64_t random_start(const uvs_calendar_t *c, uint64_t *state, bool near_change) {
  int64_t at =
      utc("1950-01-01 00:00") + (int64_t)test_random_below(state, (uint64_t)UVS_DAY(102000));
  const struct uvs__zone_table *t;
  struct uvs__zone_span span;

  if (!near_change)
    return at;
  t = uvs__zone_table(c->zone);
  uvs__zone_find(t, at / UVS_SEC(1), &span);
  uvs__zone_table_release(t);
  if (span.end_s == INT64_MAX)
    return at / UVS_SEC(1) * UVS_SEC(1);
  return UVS_SEC(span.end_s - (int64_t)test_random_below(state, 3 * 3600));
}

/* K7 K8 */
TEST next_previous_matches_list_and_count_agree(void) {
  static const char *const zones[] = {
      "America/New_York", "Europe/Berlin",     "Australia/Lord_Howe", "Pacific/Apia",
      "Asia/Tehran",      "Africa/Casablanca", "Antarctica/Casey",    "UTC"};
  uint64_t state = test_seed;
  int agreed = 0;

  SKIP_WITHOUT("America/New_York");
  for (int i = 0; i < 3000; i++) {
    uvs_calendar_options_t o;
    uvs_calendar_error_t error;
    uvs_calendar_t *c;
    char text[200];

    random_expression(&state, text);
    uvs_calendar_options_init(&o);
    o.days = (int)test_random_below(&state, 3);
    o.gap = (int)test_random_below(&state, 2);
    o.overlap = (int)test_random_below(&state, 2);
    if (uvs_calendar_parse(text, zones[test_random_below(&state, 8)], &o, &c, &error) < 0) {
      ASSERTm(error.text, strstr(error.text, "never") != NULL);
      continue;
    }
    for (int k = 0; k < 4; k++) {
      int64_t at = random_start(c, &state, k % 2 == 0);

      if (agree(c, at) != GREATEST_TEST_RES_PASS ||
          (i % 10 == 0 && count_agrees(c, at, &state) != GREATEST_TEST_RES_PASS)) {
        printf("\n%s in %s, options %d %d %d, at %lld\n", text, uvs_calendar_zone(c), o.days, o.gap,
               o.overlap, (long long)at);
        uvs_calendar_release(c);
        FAILm("they do not agree");
      }
      agreed++;
    }
    uvs_calendar_release(c);
  }
  ASSERT(agreed > 8000);
  PASS();
}

/* ---------------------------------------------------------------- threads --- */

#define THREADS 4

static void ask_much(void *arg) {
  uvs_calendar_t *c = arg;
  int64_t at = 0;

  for (int i = 0; i < 2000; i++) {
    uvs_calendar_retain(c);
    at = uvs_calendar_next(c, at);
    if (i % 500 == 0)
      uvs_calendar_refresh();
    uvs_calendar_release(c);
  }
  uvs_calendar_release(c);
}

/* K11 */
TEST threads_share_a_calendar(void) {
  uvs_calendar_t *c = calendar_of("30 2 * * *", "UTC");
  uv_thread_t threads[THREADS];

  ASSERT(c != NULL);
  for (int i = 0; i < THREADS; i++)
    ASSERT_RC(0, uv_thread_create(&threads[i], ask_much, uvs_calendar_retain(c)));
  uvs_calendar_release(c);
  for (int i = 0; i < THREADS; i++)
    uv_thread_join(&threads[i]);
  PASS();
}

TEST a_count_covers_intervals_empty_spans_and_all_of_time(void) {
  uvs_calendar_t *every = calendar_of("@every 90s", "UTC");
  uvs_calendar_t *seconds = calendar_of("* * * * * *", "UTC");
  uvs_calendar_t *years = calendar_of("0 0 1 1 *", "UTC");
  int64_t at = utc("2025-01-01 00:00");

  ASSERT_U64(9, uvs__calendar_count(every, at, at + UVS_SEC(899)));
  ASSERT_U64(10, uvs__calendar_count(every, at, at + UVS_SEC(900)));
  ASSERT_U64(0, uvs__calendar_count(seconds, at, at));
  ASSERT_U64(0, uvs__calendar_count(seconds, at, at - UVS_SEC(5)));
  ASSERT_U64(0, uvs__calendar_count(seconds, at, at + UVS_SEC(1) - 1));
  ASSERT_U64(1, uvs__calendar_count(seconds, at, at + UVS_SEC(1)));
  ASSERT_U64(1, uvs__calendar_count(seconds, at - 1, at));
  ASSERT_U64(1826 * 86400, uvs__calendar_count(seconds, at, utc("2030-01-01 00:00")));
  ASSERT_U64(2261 - 1678 + 1, uvs__calendar_count(years, -UVS_NEVER, UVS_NEVER));
  uvs_calendar_release(every);
  uvs_calendar_release(seconds);
  uvs_calendar_release(years);
  PASS();
}

SUITE(calendar) {
  RUN_TEST(gaps_and_overlaps_follow_the_rule);
  RUN_TEST(the_audit_says_what_gaps_and_overlaps_did);
  RUN_TEST(a_list_can_be_continued_where_it_ended);
  RUN_TEST(occurrences_lie_in_the_years_1678_to_2261);
  RUN_TEST(an_instant_between_seconds_rounds_away_from_itself);
  RUN_TEST(an_interval_counts_from_the_given_instant);
  RUN_TEST(null_is_refused_or_ignored);
  RUN_TEST(wrong_options_are_refused_with_a_text);
  RUN_TEST(a_refused_zone_is_reported_as_the_field_zone);
  RUN_TEST(a_calendar_remembers_its_text_and_zone_until_the_last_release);
  RUN_TEST(every_allocation_failure_is_reported_and_nothing_leaks);
  RUN_TEST(next_previous_matches_list_and_count_agree);
  RUN_TEST(a_count_covers_intervals_empty_spans_and_all_of_time);
  RUN_TEST(threads_share_a_calendar);
}

TEST_MAIN(RUN_SUITE(calendar));
