/* SPDX-License-Identifier: MIT */
#include "calendar/count.h"
#include "calendar/occur.h"

/* Counts the occurrences in [from_s, to_s). from_s is inside the span. to_s is inside the span, or
 * its end. */
static uint64_t count_in_span(const uvs_calendar_t *c, const struct uvs__zone_span *z,
                              int64_t from_s, int64_t to_s) {
  int64_t low_s = uvs__counts_from(c, z);
  uint64_t n = 0;

  /* The occurrence after a gap. If its second matches the expression, it is counted below. */
  if (from_s == z->start_s && uvs__runs_after_gap(c, z) &&
      !uvs__local_matches(&c->e, from_s + z->offset_s))
    n = 1;
  if (low_s < from_s)
    low_s = from_s;
  return n + uvs__local_count(&c->e, low_s + z->offset_s, to_s + z->offset_s);
}

uint64_t uvs__calendar_count(const uvs_calendar_t *c, int64_t after_ns, int64_t until_ns) {
  const struct uvs__zone_table *t;
  int64_t at_s, end_s;
  uint64_t n = 0;

  if (until_ns <= after_ns)
    return 0;
  if (c->e.interval_ns != 0)
    return ((uint64_t)until_ns - (uint64_t)after_ns) / (uint64_t)c->e.interval_ns;
  at_s = uvs__floor_s(after_ns) + 1;
  if (at_s < UVS__OCCUR_FIRST_S)
    at_s = UVS__OCCUR_FIRST_S;
  end_s = uvs__floor_s(until_ns) + 1;
  if (end_s > UVS__OCCUR_END_S)
    end_s = UVS__OCCUR_END_S;
  t = uvs__zone_table(c->zone);
  while (at_s < end_s) {
    struct uvs__zone_span z;
    int64_t to_s;

    uvs__zone_find(t, at_s, &z);
    to_s = z.end_s < end_s ? z.end_s : end_s;
    n += count_in_span(c, &z, at_s, to_s);
    at_s = to_s;
  }
  uvs__zone_table_release(t);
  return n;
}
