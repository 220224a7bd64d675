/* SPDX-License-Identifier: MIT
 *
 * instant: instants as text, such as 2025-03-09T07:00:00Z, and back. Instants are nanoseconds since
 * 1970, UTC, in the years 1678 to 2261, as in uvsched/calendar.h.
 */
#ifndef UVSCHED_CLI_INSTANT_H
#define UVSCHED_CLI_INSTANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uvsched/calendar.h>

#define CLI_INSTANT_BYTES 96 /* room for every text that these functions write */

/**
 * Read an instant: "now" (in whole seconds), "@SECONDS" since 1970, or a date with a time and with
 * Z or an offset: 2025-03-09T07:00:00Z, 2025-03-09T08:00+01:00. Seconds may be left out, or have a
 * fraction of up to nine digits.
 *
 * Returns: NULL with *ret_ns set, or one line that says what to write instead.
 */
const char *cli_read_instant(const char *text, int64_t *ret_ns);

/* The line that cli_read_instant returns for an instant in other years. */
extern const char cli_instant_range[];

/* How many digits a fraction of a second needs to show this instant: 0, 3, 6 or 9. */
int cli_fraction_digits(int64_t instant_ns);

/* Writes 2025-03-09T07:00:00Z, with `digits` digits after the second. */
void cli_write_instant(int64_t instant_ns, int digits, char ret[CLI_INSTANT_BYTES]);

/* Writes 2025-03-09T03:00:00, with `separator` instead of T, and the fraction of the instant. */
void cli_write_local(const uvs_local_time_t *local, char separator, int64_t instant_ns, int digits,
                     char ret[CLI_INSTANT_BYTES]);

/* Writes -04:00, or -04:56:02 if the seconds are not 0. */
void cli_write_offset(int offset_s, char ret[CLI_INSTANT_BYTES]);

#endif
