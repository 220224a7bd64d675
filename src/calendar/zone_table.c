/* SPDX-License-Identifier: MIT */
#include "calendar/zone_table.h"

#include <string.h>

#include <uv.h>

#include "calendar/memory.h"

struct uvs__zone_table *uvs__zone_table_make(uint32_t room) {
  size_t per = sizeof(int64_t) + sizeof(int32_t), fixed = sizeof(struct uvs__zone_table);
  struct uvs__zone_table *t = uvs__calendar_alloc(room, per, fixed + sizeof(int32_t));

  if (t == NULL)
    return NULL;
  memset(t, 0, fixed + sizeof(int32_t) + room * per);
  atomic_init(&t->holds, 1);
  t->tail_s = INT64_MIN;
  t->at_s = (int64_t *)(t + 1);
  t->offset_s = (int32_t *)(t->at_s + room);
  return t;
}

bool uvs__zone_table_equal(const struct uvs__zone_table *a, const struct uvs__zone_table *b) {
  return a->count == b->count && a->has_rule == b->has_rule &&
         (!a->has_rule || a->tail_s == b->tail_s) &&
         memcmp(&a->rule, &b->rule, sizeof a->rule) == 0 &&
         memcmp(a->at_s, b->at_s, a->count * sizeof *a->at_s) == 0 &&
         memcmp(a->offset_s, b->offset_s, (a->count + 1) * sizeof *a->offset_s) == 0;
}

int uvs__zone_table_of_rule(const char *text, size_t n, struct uvs__zone_table **ret) {
  struct uvs__posix_rule rule;
  int rc = uvs__posix_rule_parse(text, n, &rule);
  struct uvs__zone_table *t = rc < 0 ? NULL : uvs__zone_table_make(0);

  if (t == NULL)
    return rc < 0 ? rc : UV_ENOMEM;
  t->has_rule = true;
  t->rule = rule;
  *ret = t;
  return 0;
}

void uvs__zone_table_hold(struct uvs__zone_table *t) {
  uvs__add(&t->holds, 1, relaxed); /* the caller has a reference, or the lock of zone.c */
}

void uvs__zone_table_release(const struct uvs__zone_table *given) {
  struct uvs__zone_table *t = (struct uvs__zone_table *)(uintptr_t)given;

  /* acq_rel: pairs with the other releases: their threads have finished reading the table */
  if (t != NULL && uvs__sub(&t->holds, 1, acq_rel) == 1)
    uvs__calendar_free(t);
}

/* How many transitions are at or before at_s. */
static uint32_t transitions_until(const struct uvs__zone_table *t, int64_t at_s) {
  uint32_t low = 0, high = t->count;

  while (low < high) {
    uint32_t middle = low + (high - low) / 2;

    if (t->at_s[middle] <= at_s)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

void uvs__zone_find(const struct uvs__zone_table *t, int64_t at_s, struct uvs__zone_span *ret) {
  uint32_t i = transitions_until(t, at_s);
  struct uvs__zone_span span = {INT64_MIN, INT64_MAX, t->offset_s[i], t->offset_s[i]}, by_rule;

  if (i > 0) {
    span.start_s = t->at_s[i - 1];
    span.before_s = t->offset_s[i - 1];
  }
  if (i < t->count) {
    span.end_s = t->at_s[i];
  } else if (t->has_rule) {
    uvs__posix_rule_find(&t->rule, at_s < t->tail_s ? t->tail_s : at_s, &by_rule);
    if (by_rule.start_s > t->tail_s || t->tail_s == INT64_MIN)
      span = by_rule;
    else /* the span began in the table */
      span.end_s = by_rule.end_s;
  }
  *ret = span;
}
