/* SPDX-License-Identifier: MIT
 *
 * The code of docs/calendar.md: finds the next occurrence of a cron expression in a time zone,
 * explains an error, and lists the occurrences around a change of the clock. Exit status 77 (the
 * test is skipped): this system has no tzdata. */
#include <inttypes.h>
#include <stdio.h>

#include <uvsched/calendar.h>

#include "expect.h"

/* Prints the expression, a caret under the wrong column, and the error. */
static void explain(const char *text, const uvs_calendar_error_t *e) {
  printf("%s\n%*s\n%s\n", text, e->column, "^", e->text);
}

static int64_t next_of(const char *text, const char *zone, int64_t now_ns) {
  uvs_calendar_error_t error;
  uvs_calendar_t *c;
  int64_t next_ns;

  if (uvs_calendar_parse(text, zone, NULL, &c, &error) != 0) {
    explain(text, &error);
    return UVS_NEVER;
  }
  next_ns = uvs_calendar_next(c, now_ns);
  uvs_calendar_release(c);
  return next_ns;
}

static void print_one(const uvs_occurrence_t *o) {
  static const char *const flags[] = {"plain",      "moved",       "dropped",
                                      "first pass", "second pass", "second pass, dropped"};

  printf("%" PRId64 "  %04d-%02d-%02d %02d:%02d  UTC%+d h  planned %02d:%02d  %s\n",
         o->utc_ns / UVS_SEC(1), o->local.year, o->local.month, o->local.day, o->local.hour,
         o->local.minute, (int)o->offset_s / 3600, o->planned.hour, o->planned.minute,
         flags[o->flag]);
}

/* Prints the occurrences from one instant until another. Returns how many of them occur. */
static int audit(const uvs_calendar_t *c, int64_t from_ns, int64_t until_ns) {
  uvs_occurrence_t o[10];
  int n, occur = 0;

  do {
    n = uvs_calendar_list(c, from_ns, until_ns, o, 10);
    for (int i = 0; i < n; i++) {
      print_one(&o[i]);
      occur += o[i].flag != UVS_OCCURRENCE_DROPPED && o[i].flag != UVS_OCCURRENCE_SECOND_DROPPED;
    }
    from_ns = n > 0 ? o[n - 1].utc_ns + 1 : until_ns;
  } while (n == 10);
  return occur;
}

int main(void) {
  const int64_t march_8 = UVS_DAY(20155), november_1 = UVS_DAY(20393); /* of 2025 */
  uvs_calendar_options_t options;
  uvs_calendar_t *c;
  int rc = uvs_calendar_parse("30 2 * * *", "America/New_York", NULL, &c, NULL);

  if (rc == UV_ENOENT) {
    printf("skipped: this system has no tzdata\n");
    return 77;
  }
  EXPECT(rc == 0);
  EXPECT(next_of("0 9 * * 1-5", "UTC", march_8) == march_8 + UVS_DAY(2) + UVS_HOUR(9));
  EXPECT(next_of("0 9 * * FRI-MON", "UTC", march_8) == UVS_NEVER); /* refused, and explained */

  EXPECT(audit(c, march_8, march_8 + UVS_DAY(3)) == 3); /* a gap moves one of them */
  uvs_calendar_release(c);

  uvs_calendar_options_init(&options);
  options.gap = UVS_GAP_SKIP;
  options.overlap = UVS_OVERLAP_BOTH;
  EXPECT(uvs_calendar_parse("30 1,2 * * *", "America/New_York", &options, &c, NULL) == 0);
  EXPECT(audit(c, march_8, march_8 + UVS_DAY(3)) == 5);       /* a gap drops one */
  EXPECT(audit(c, november_1, november_1 + UVS_DAY(3)) == 7); /* one occurs twice */
  uvs_calendar_release(c);
  return 0;
}
