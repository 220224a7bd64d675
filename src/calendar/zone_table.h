/* SPDX-License-Identifier: MIT
 *
 * zone_table: the transitions of a zone, and the rule that follows the last of them. Immutable once
 * it is made, and counted.
 */
#ifndef UVS__ZONE_TABLE_H
#define UVS__ZONE_TABLE_H

#include "calendar/posix_rule.h"
#include "port/atomic.h"

struct uvs__zone_table {
  _Atomic uint32_t holds;
  uint32_t count;   /* transitions */
  int32_t has_rule; /* else the last offset is valid for ever */
  int64_t tail_s;   /* from here on the rule is valid; it agrees with the table there */
  struct uvs__posix_rule rule;
  /* In the same piece of memory. From at_s[i] on the offset is offset_s[i + 1]. Each transition
   * changes the offset. */
  int64_t *at_s;     /* count */
  int32_t *offset_s; /* count + 1 */
};

/* An empty table with one hold and room for so many transitions; all offsets are 0. NULL: no
 * memory. */
struct uvs__zone_table *uvs__zone_table_make(uint32_t room);
/* Do both say the same, and in the same way? */
bool uvs__zone_table_equal(const struct uvs__zone_table *a, const struct uvs__zone_table *b);
/* A table that has nothing but this rule: the value of TZ. 0, UV_EINVAL, UV_ENOMEM. */
int uvs__zone_table_of_rule(const char *text, size_t n, struct uvs__zone_table **ret);
void uvs__zone_table_hold(struct uvs__zone_table *t);

#endif
