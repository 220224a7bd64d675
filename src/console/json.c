/* SPDX-License-Identifier: MIT */
#include "console/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void uvs__json_init(struct uvs__json *j, uvs_write_cb write, void *arg) {
  j->write = write;
  j->arg = arg;
  j->rc = 0;
  j->used = 0;
  j->comma = false;
}

static void flush(struct uvs__json *j) {
  if (j->used > 0 && j->rc == 0)
    j->rc = j->write(j->text, j->used, j->arg);
  j->used = 0;
}

int uvs__json_end(struct uvs__json *j) {
  flush(j);
  return j->rc;
}

static void put(struct uvs__json *j, const char *text, size_t size) {
  while (size > 0) {
    size_t room = sizeof j->text - j->used;
    size_t n = size < room ? size : room;

    memcpy(j->text + j->used, text, n);
    j->used += n;
    text += n;
    size -= n;
    if (j->used == sizeof j->text)
      flush(j);
  }
}

static void put_text(struct uvs__json *j, const char *text) {
  put(j, text, strlen(text));
}

/* Writes the comma and the key in front of the next value. */
static void begin(struct uvs__json *j, const char *key) {
  if (j->comma)
    put(j, ",", 1);
  j->comma = true;
  if (key != NULL) {
    put(j, "\"", 1);
    put_text(j, key);
    put(j, "\":", 2);
  }
}

void uvs__json_open(struct uvs__json *j, const char *key, char open) {
  begin(j, key);
  put(j, &open, 1);
  j->comma = false;
}

void uvs__json_close(struct uvs__json *j, char close) {
  put(j, &close, 1);
  j->comma = true;
}

void uvs__json_int(struct uvs__json *j, const char *key, int64_t value) {
  char text[24];

  begin(j, key);
  snprintf(text, sizeof text, "%" PRId64, value);
  put_text(j, text);
}

void uvs__json_uint(struct uvs__json *j, const char *key, uint64_t value) {
  char text[24];

  begin(j, key);
  snprintf(text, sizeof text, "%" PRIu64, value);
  put_text(j, text);
}

void uvs__json_bool(struct uvs__json *j, const char *key, bool value) {
  begin(j, key);
  put_text(j, value ? "true" : "false");
}

void uvs__json_null(struct uvs__json *j, const char *key) {
  begin(j, key);
  put_text(j, "null");
}

void uvs__json_ns(struct uvs__json *j, const char *key, int64_t ns) {
  if (ns == UVS_NEVER)
    uvs__json_null(j, key);
  else
    uvs__json_int(j, key, ns);
}

void uvs__json_id(struct uvs__json *j, const char *key, uint64_t id) {
  char text[24];

  if (id == 0) {
    uvs__json_null(j, key);
    return;
  }
  begin(j, key);
  snprintf(text, sizeof text, "\"%" PRIu64 "\"", id);
  put_text(j, text);
}

void uvs__json_raw(struct uvs__json *j, const char *text, size_t size) {
  begin(j, NULL);
  put(j, text, size);
}

/* The length of the UTF-8 character that begins at p; 0: none does. Surrogates, overlong forms and
 * characters above U+10FFFF are none (RFC 3629). */
static size_t utf8_length(const unsigned char *p, size_t left) {
  size_t n = p[0] < 0x80   ? 1
             : p[0] < 0xc2 ? 0
             : p[0] < 0xe0 ? 2
             : p[0] < 0xf0 ? 3
             : p[0] < 0xf5 ? 4
                           : 0;

  if (n == 0 || n > left)
    return 0;
  for (size_t i = 1; i < n; i++) {
    if ((p[i] & 0xc0) != 0x80)
      return 0;
  }
  if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
      (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
    return 0;
  return n;
}

/* Is it escaped? Control characters and DEL; what JSON needs; what HTML would read as markup; and
 * U+2028 and U+2029, which end a line in older JavaScript. */
static bool is_plain(const unsigned char *p, size_t n) {
  if (n == 1)
    return p[0] >= 0x20 && p[0] != 0x7f && strchr("\"\\<>&'", p[0]) == NULL;
  return !(n == 3 && p[0] == 0xe2 && p[1] == 0x80 && (p[2] == 0xa8 || p[2] == 0xa9));
}

void uvs__json_bytes(struct uvs__json *j, const char *key, const void *data, size_t size) {
  const unsigned char *p = data;

  begin(j, key);
  put(j, "\"", 1);
  while (size > 0) {
    size_t n = utf8_length(p, size);

    if (n > 0 && is_plain(p, n)) {
      put(j, (const char *)p, n);
    } else {
      char text[8];

      snprintf(text, sizeof text, "\\u%04x",
               n == 0   ? 0xfffdu
               : n == 1 ? p[0]
                        : 0x2000u + (p[2] & 0x3f));
      put_text(j, text);
      n = n == 0 ? 1 : n;
    }
    p += n;
    size -= n;
  }
  put(j, "\"", 1);
}

void uvs__json_string(struct uvs__json *j, const char *key, const char *text) {
  uvs__json_bytes(j, key, text, strlen(text));
}
