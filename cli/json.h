/* SPDX-License-Identifier: MIT
 *
 * json: reads JSON that another program has sent. The text is checked once as a whole; after that,
 * a value is a pointer to its first character, and all functions accept NULL: no such value.
 */
#ifndef UVSCHED_CLI_JSON_H
#define UVSCHED_CLI_JSON_H

#include <stdbool.h>
#include <stddef.h>

/* The value of the text; NULL: it is not JSON, or is nested more than 32 deep. */
const char *cli_json_read(const char *text);

const char *cli_json_member(const char *object, const char *key); /* keys without escapes */
const char *cli_json_first(const char *array);                    /* NULL: it is empty */
const char *cli_json_next(const char *element);                   /* NULL: it was the last */

bool cli_json_is_null(const char *value); /* also if there is no value */
bool cli_json_is_true(const char *value);
double cli_json_number(const char *value); /* 0 if it is no number */

/* Writes a string as printable ASCII; other characters become '?'. "" if it is no string. */
void cli_json_text(const char *value, char *ret, size_t size);

#endif
