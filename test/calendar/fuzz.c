/* SPDX-License-Identifier: MIT
 *
 * fuzz-zone: TZif images and rules, as a libFuzzer target.
 *
 *   fuzz-zone -max_total_time=600 CORPUS
 *
 * Nothing is read past the end (AddressSanitizer), nothing overflows (UndefinedBehaviorSanitizer),
 * and what is accepted is a table whose spans fit together.
 */
#include <stdlib.h>

#include "calendar/zone_table.h"

#define SPANS_MOST 200

static void must(bool good) {
  if (!good)
    abort();
}

static void check_at(const struct uvs__zone_table *t, int64_t at_s) {
  struct uvs__zone_span s, next;

  uvs__zone_find(t, at_s, &s);
  must(s.start_s <= at_s && (at_s < s.end_s || at_s == INT64_MAX));
  must(s.offset_s > -25 * 3600 && s.offset_s < 26 * 3600);
  for (int i = 0; i < SPANS_MOST && s.end_s != INT64_MAX; i++, s = next) {
    uvs__zone_find(t, s.end_s, &next);
    must(next.start_s == s.end_s && next.before_s == s.offset_s);
    must(next.offset_s != s.offset_s);
  }
}

static void check_table(const struct uvs__zone_table *t) {
  static const int64_t points[] = {INT64_MIN,  INT64_MIN / 3, 0,
                                   1700000000, INT64_MAX / 3, INT64_MAX};

  for (size_t i = 0; i < sizeof points / sizeof *points; i++)
    check_at(t, points[i]);
  must(uvs__zone_table_equal(t, t));
  uvs__zone_table_release(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct uvs__zone_table *t;

  if (uvs__zone_parse(data, size, &t) == 0)
    check_table(t);
  if (uvs__zone_table_of_rule((const char *)data, size, &t) == 0)
    check_table(t);
  return 0;
}
