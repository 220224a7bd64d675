/* SPDX-License-Identifier: MIT
 *
 * when: reads the headers x-delay and x-deliver-at. Pure.
 *
 * x-delay is a time in milliseconds, as a number of any AMQP type or as decimal text. x-deliver-at
 * is an instant: an AMQP timestamp (seconds since 1970), a number (milliseconds since 1970), or
 * text, either milliseconds or as in RFC 3339. If x-deliver-at is readable, x-delay is ignored.
 * An absent, negative, past or unreadable value means now. A value that the store cannot keep is
 * refused: a delay of 142 years or more, and an instant from the year 2255 on.
 */
#ifndef UVSCHED_AMQP_WHEN_H
#define UVSCHED_AMQP_WHEN_H

#include <stdbool.h>
#include <stdint.h>

#include <amqp.h>

struct uvs__amqp_when {
  int64_t delay_ns;           /* 0: now */
  int64_t at_ns;              /* 0: delay_ns is used */
  const char *refused;        /* why the store cannot keep it; NULL: it can */
  bool has_delay;             /* x-delay was read, and is positive */
  amqp_field_value_t negated; /* what x-delay becomes at delivery, if has_delay */
};

void uvs__amqp_read_when(const amqp_table_t *headers, struct uvs__amqp_when *ret);

/* Reads an instant in the form of RFC 3339, such as 2026-11-18T20:00:00Z, in nanoseconds since
 * 1970. Years 1 to 9999; beyond what 64 bits can hold it saturates. */
bool uvs__amqp_read_instant(const char *text, size_t length, int64_t *ret_ns);

#endif
