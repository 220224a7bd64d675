/* SPDX-License-Identifier: MIT
 *
 * posix_rule: the offsets of a zone as a text, such as CET-1CEST,M3.5.0,M10.5.0/3.
 *
 * The text is the value of TZ, or the footer of a TZif file. The footer gives the offsets after the
 * last transition of the file. The format is that of POSIX with the extensions of RFC 9636: times
 * from -167 to 167 hours, and names such as <+03>. Pure: no memory, no file, no clock.
 *
 * A rule with daylight saving time has two changes in every year. Their order must be the same in
 * all years; otherwise the text is refused. Two changes at the same instant cancel each other. This
 * is how a text describes a zone that has daylight saving time all year.
 */
#ifndef UVS__POSIX_RULE_H
#define UVS__POSIX_RULE_H

#include "calendar/zone.h"
#include "port/base.h"

/* A day of the year, and a time on it. */
struct uvs__rule_date {
  int32_t kind;        /* 'J': day 1 to 365, without 29 February; '0': day 0 to 365; 'M' */
  int32_t day;         /* of kind M: the weekday, 0 is Sunday */
  int32_t month, week; /* of kind M: 1 to 12; 1 to 5, where 5 is the last */
  int32_t time_s;      /* local time before the change; may be negative, or longer than a day */
};

struct uvs__posix_rule {
  int32_t changes; /* 0: the offset is always offset_s[0] */
  int32_t cancels; /* there are changes at the same instant, which cancel each other */
  /* In the order of the year: from date[k] on, the offset is offset_s[k]. */
  struct uvs__rule_date date[2];
  int32_t offset_s[2];
};

/* 0; UV_EINVAL: the n bytes of `text` are not a rule. */
int uvs__posix_rule_parse(const char *text, size_t n, struct uvs__posix_rule *ret);
/* The span of constant offset that contains at_s. */
void uvs__posix_rule_find(const struct uvs__posix_rule *r, int64_t at_s,
                          struct uvs__zone_span *ret);

#endif
