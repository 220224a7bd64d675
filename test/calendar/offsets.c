/* SPDX-License-Identifier: MIT
 *
 * offsets: answers questions about zones, for zones.py.
 *
 * Reads lines "zone NAME" and "INSTANT" (seconds since 1970), and prints a line for each. For a
 * zone: "ok", or "refused" and why. For an instant: the offset, then start, end, and the offset
 * before of the span that contains it. Also asks the zone at both ends of each span, and fails if
 * the spans do not fit together.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calendar/zone.h"

static void check(bool good, const char *what, int64_t at_s) {
  if (good)
    return;
  printf("broken at %" PRId64 ": %s\n", at_s, what);
  exit(1);
}

static void check_neighbours(const struct uvs__zone_table *t, struct uvs__zone_span s,
                             int64_t at_s) {
  struct uvs__zone_span other;

  check(s.start_s <= at_s && at_s < s.end_s, "the span does not contain the instant", at_s);
  if (s.start_s != INT64_MIN) {
    check(s.before_s != s.offset_s, "the offset does not change at the start", at_s);
    uvs__zone_find(t, s.start_s - 1, &other);
    check(other.end_s == s.start_s && other.offset_s == s.before_s, "the span before", at_s);
  }
  if (s.end_s != INT64_MAX) {
    uvs__zone_find(t, s.end_s, &other);
    check(other.start_s == s.end_s && other.before_s == s.offset_s, "the span after", at_s);
  }
}

int main(void) {
  const struct uvs__zone_table *table = NULL;
  struct uvs__zone *zone = NULL;
  struct uvs__zone_span span;
  char line[400], why[200];

  while (fgets(line, sizeof line, stdin) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, "zone ", 5) == 0) {
      uvs__zone_table_release(table);
      uvs__zone_close(zone);
      table = NULL;
      zone = NULL;
      if (uvs__zone_open(line + 5, &zone, why, sizeof why) < 0) {
        printf("refused %s\n", why);
        continue;
      }
      table = uvs__zone_table(zone);
      printf("ok\n");
    } else {
      int64_t at_s = strtoll(line, NULL, 10);

      check(table != NULL, "there is no zone", at_s);
      uvs__zone_find(table, at_s, &span);
      check_neighbours(table, span, at_s);
      printf("%" PRId32 " %" PRId64 " %" PRId64 " %" PRId32 "\n", span.offset_s, span.start_s,
             span.end_s, span.before_s);
    }
  }
  uvs__zone_table_release(table);
  uvs__zone_close(zone);
  return 0;
}
