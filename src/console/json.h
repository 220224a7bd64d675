/* SPDX-License-Identifier: MIT
 *
 * json: writes JSON piece by piece to a uvs_write_cb.
 *
 * The writer puts the commas. After `write` has refused a piece, nothing more is written.
 */
#ifndef UVSCHED_CONSOLE_JSON_H
#define UVSCHED_CONSOLE_JSON_H

#include <uvsched/stats.h>

#include <stdbool.h>

struct uvs__json {
  uvs_write_cb write;
  void *arg;
  int rc; /* not 0: `write` has returned this, and is not called again */
  size_t used;
  bool comma; /* the next value or key needs one */
  char text[1024];
};

void uvs__json_init(struct uvs__json *j, uvs_write_cb write, void *arg);
int uvs__json_end(struct uvs__json *j); /* writes out the rest; returns rc */

/* A key is a constant of ours, without characters that JSON escapes. NULL: an element of an
 * array. open: '{' or '['; close: '}' or ']'. */
void uvs__json_open(struct uvs__json *j, const char *key, char open);
void uvs__json_close(struct uvs__json *j, char close);
void uvs__json_int(struct uvs__json *j, const char *key, int64_t value);
void uvs__json_uint(struct uvs__json *j, const char *key, uint64_t value);
void uvs__json_bool(struct uvs__json *j, const char *key, bool value);
void uvs__json_null(struct uvs__json *j, const char *key);
/* UVS_NEVER: null. */
void uvs__json_ns(struct uvs__json *j, const char *key, int64_t ns);
/* A piece of JSON that was written before: members of an object, or elements. */
void uvs__json_raw(struct uvs__json *j, const char *text, size_t size);
/* A number as a string: JavaScript rounds numbers above 2^53. 0: null. */
void uvs__json_id(struct uvs__json *j, const char *key, uint64_t id);
/* Bytes that are not UTF-8 become U+FFFD. Escaped is also what HTML would read as markup. */
void uvs__json_string(struct uvs__json *j, const char *key, const char *text);
void uvs__json_bytes(struct uvs__json *j, const char *key, const void *data, size_t size);

#endif
