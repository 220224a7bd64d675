/* SPDX-License-Identifier: MIT
 *
 * zone_table: the transitions of a zone, and the rule for the time after the last transition. A
 * table never changes after it was made. Tables are reference-counted.
 */
#ifndef UVS__ZONE_TABLE_H
#define UVS__ZONE_TABLE_H

#include "calendar/posix_rule.h"
#include "port/atomic.h"

struct uvs__zone_table {
  _Atomic uint32_t holds;
  uint32_t count;   /* transitions */
  int32_t has_rule; /* 0: there is no rule, and the last offset is valid for ever */
  int64_t tail_s;   /* the rule is valid from here on; here it agrees with the table */
  struct uvs__posix_rule rule;
  /* Two arrays in the same block of memory. From at_s[i] on, the offset is offset_s[i + 1]. Each
   * transition changes the offset. */
  int64_t *at_s;     /* count */
  int32_t *offset_s; /* count + 1 */
};

/* Makes an empty table with one reference and room for `room` transitions. All offsets are 0. NULL:
 * no memory. */
struct uvs__zone_table *uvs__zone_table_make(uint32_t room);
/* Do both have the same transitions and the same rule? */
bool uvs__zone_table_equal(const struct uvs__zone_table *a, const struct uvs__zone_table *b);
/* Makes a table that has only this rule, such as the value of TZ. 0, UV_EINVAL, UV_ENOMEM. */
int uvs__zone_table_of_rule(const char *text, size_t n, struct uvs__zone_table **ret);
void uvs__zone_table_hold(struct uvs__zone_table *t);

#endif
