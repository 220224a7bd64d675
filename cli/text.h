/* SPDX-License-Identifier: MIT
 *
 * text: writes strings that come from the user. Nothing here depends on the locale.
 */
#ifndef UVSCHED_CLI_TEXT_H
#define UVSCHED_CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* For people: every byte that is not printable ASCII becomes one '?'. So no text can control the
 * terminal, and columns stay aligned. */
void cli_write_plain(FILE *to, const char *text);

/* A JSON string, with its quotes. Bytes that are not UTF-8 become U+FFFD. */
void cli_write_json(FILE *to, const char *text);
void cli_write_json_bytes(FILE *to, const void *data, size_t size);

bool cli_is_utf8(const void *data, size_t size);

/* RFC 4648, with padding, without quotes. */
void cli_write_base64(FILE *to, const void *data, size_t size);

/* Prints "uvsched: ..." to stderr, as plain text of at most 500 bytes. */
__attribute__((format(printf, 1, 2))) void cli_complain(const char *format, ...);

/* May the output to stdout have colours? Only on a terminal, and not if NO_COLOR is set, or if TERM
 * is not set or is "dumb". */
bool cli_has_colours(void);

enum { CLI_PLAIN, CLI_BOLD, CLI_YELLOW, CLI_RED, CLI_CYAN };

/* Switches the colour of stdout, if `colours`. */
void cli_set_colour(bool colours, int colour);

#endif
