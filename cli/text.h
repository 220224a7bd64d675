/* SPDX-License-Identifier: MIT
 *
 * text: writes strings that come from the user. Nothing here depends on the locale.
 */
#ifndef UVSCHED_CLI_TEXT_H
#define UVSCHED_CLI_TEXT_H

#include <stdbool.h>
#include <stdio.h>

/* For people: every byte that is not printable ASCII becomes one '?'. So no text can control the
 * terminal, and columns stay aligned. */
void cli_write_plain(FILE *to, const char *text);

/* A JSON string, with its quotes. Bytes that are not UTF-8 become U+FFFD. */
void cli_write_json(FILE *to, const char *text);

/* Prints "uvsched: ..." to stderr, as plain text of at most 500 bytes. */
__attribute__((format(printf, 1, 2))) void cli_complain(const char *format, ...);

/* May the output to stdout have colours? Only on a terminal, and not if NO_COLOR is set, or if TERM
 * is not set or is "dumb". */
bool cli_has_colours(void);

#endif
