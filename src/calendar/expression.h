/* SPDX-License-Identifier: MIT
 *
 * expression: reads the text of a cron expression into sets of bits. Pure.
 *
 * A set has bit n if the field contains n. Day of month, day of week and the rule that joins them
 * become one set of days for each kind of month. There are 28 kinds: a month has 28, 29, 30 or 31
 * days, and begins on one of seven weekdays. Nothing else is needed to decide about L, W and #.
 */
#ifndef UVS__EXPRESSION_H
#define UVS__EXPRESSION_H

#include "uvsched/calendar.h"

#include "port/base.h"

#define UVS__EXPRESSION_MAX 1000 /* bytes of text: reading them takes microseconds */

/* The date fields as written. */
struct uvs__day_fields {
  uint32_t days;             /* of the month: bits 1 to 31 */
  uint32_t nearest;          /* nW: bit n */
  bool last_day;             /* L */
  bool last_weekday;         /* LW */
  uint32_t weekdays;         /* bits 0 to 6 */
  uint32_t last_of;          /* nL: bit n */
  uint32_t nth[6];           /* n#k: bit n of nth[k]; k is 1 to 5 */
  bool day_star, day_bare;   /* day of month begins with * or ?; is only * or ? */
  bool week_star, week_bare; /* the same for day of week */
};

struct uvs__expression {
  uint64_t seconds, minutes; /* bits 0 to 59 */
  uint32_t hours;            /* bits 0 to 23 */
  uint32_t months;           /* bits 1 to 12 */
  uint32_t days[4][7]; /* [length of the month - 28][weekday of its first day]: bits 1 to 31 */
  bool real_time;      /* minute or hour begins with * or ? */
  int64_t interval_ns; /* @every, which uses no other field; otherwise 0 */
};

/* 0 or UV_EINVAL, with *error written. days_rule: UVS_DAYS_... */
int uvs__expression_read(const char *text, int days_rule, struct uvs__expression *ret,
                         uvs_calendar_error_t *error);

/* Writes *error and returns UV_EINVAL. Columns begin with 1; 0: the error is elsewhere. */
__attribute__((format(printf, 4, 5))) int uvs__refuse(uvs_calendar_error_t *error, size_t column,
                                                      const char *field, const char *format, ...);

/* One field of the text, [begin, end). */
struct uvs__span {
  const char *begin, *end;
};
enum { UVS__SECOND, UVS__MINUTE, UVS__HOUR, UVS__MONTH_DAY, UVS__MONTH, UVS__WEEKDAY };

/* Reads one field into *ret_set, and the two day fields also into *days. `text` is the expression:
 * columns are counted from there. */
int uvs__field_read(const char *text, int field, struct uvs__span span, uint64_t *ret_set,
                    struct uvs__day_fields *days, uvs_calendar_error_t *error);

/* Computes the days of each kind of month that match the day fields. */
void uvs__days_select(const struct uvs__day_fields *f, int days_rule, uint32_t ret[4][7]);

/* Is there a year in which a day matches? */
bool uvs__days_exist(const struct uvs__expression *e);

#endif
