/* SPDX-License-Identifier: MIT */
#include "json.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 32

static const char *skip_blanks(const char *p) {
  return p + strspn(p, " \t\r\n");
}

/* The functions below return the end of what they have read; NULL: it is not JSON. */

static const char *skip_string(const char *p) {
  if (*p++ != '"')
    return NULL;
  while (*p != '"') {
    if (*p == '\\')
      p++;
    if ((unsigned char)*p < 0x20)
      return NULL;
    p++;
  }
  return p + 1;
}

static const char *skip_number(const char *p) {
  const char *digits;

  p += *p == '-';
  digits = p;
  p += strspn(p, "0123456789");
  if (p == digits)
    return NULL;
  return p + strspn(p, "0123456789.eE+-");
}

static const char *skip_word(const char *p) {
  static const char *const words[] = {"true", "false", "null"};

  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    if (strncmp(p, words[i], strlen(words[i])) == 0)
      return p + strlen(words[i]);
  }
  return NULL;
}

static const char *skip_value(const char *p, int depth);

/* Objects and arrays. */
static const char *skip_members(const char *p, int depth) {
  char open = *p, close = open == '{' ? '}' : ']';

  p = skip_blanks(p + 1);
  if (*p == close)
    return p + 1;
  for (;;) {
    if (open == '{') {
      p = skip_string(p);
      if (p == NULL || *(p = skip_blanks(p)) != ':')
        return NULL;
      p = skip_blanks(p + 1);
    }
    p = skip_value(p, depth - 1);
    if (p == NULL)
      return NULL;
    p = skip_blanks(p);
    if (*p == close)
      return p + 1;
    if (*p != ',')
      return NULL;
    p = skip_blanks(p + 1);
  }
}

static const char *skip_value(const char *p, int depth) {
  if (depth == 0)
    return NULL;
  if (*p == '{' || *p == '[')
    return skip_members(p, depth);
  if (*p == '"')
    return skip_string(p);
  return *p == '-' || (*p >= '0' && *p <= '9') ? skip_number(p) : skip_word(p);
}

const char *cli_json_read(const char *text) {
  const char *value = skip_blanks(text), *end = skip_value(value, DEPTH_MAX);

  return end == NULL || *skip_blanks(end) != 0 ? NULL : value;
}

const char *cli_json_first(const char *array) {
  if (array == NULL || *array != '[')
    return NULL;
  array = skip_blanks(array + 1);
  return *array == ']' ? NULL : array;
}

const char *cli_json_next(const char *element) {
  const char *p = skip_blanks(skip_value(element, DEPTH_MAX));

  return *p == ',' ? skip_blanks(p + 1) : NULL;
}

const char *cli_json_member(const char *object, const char *key) {
  size_t n = strlen(key);
  const char *p;

  if (object == NULL || *object != '{')
    return NULL;
  p = skip_blanks(object + 1);
  while (*p == '"') {
    const char *end = skip_string(p), *value = skip_blanks(skip_blanks(end) + 1);

    if ((size_t)(end - p) == n + 2 && memcmp(p + 1, key, n) == 0)
      return value;
    p = cli_json_next(value);
    if (p == NULL)
      return NULL;
  }
  return NULL;
}

bool cli_json_is_null(const char *value) {
  return value == NULL || *value == 'n';
}

bool cli_json_is_true(const char *value) {
  return value != NULL && *value == 't';
}

double cli_json_number(const char *value) {
  return value != NULL && (*value == '-' || (*value >= '0' && *value <= '9')) ? strtod(value, NULL)
                                                                              : 0;
}

/* Others than printable ASCII become '?'. */
static char printable(long c) {
  char text = '?';

  if (c >= 0x20 && c < 0x7f)
    text = (char)c;
  return text;
}

/* The character that an escape stands for; *p is moved to its last character. */
static char unescape(const char **p) {
  char hex[5] = "";

  if (**p != 'u')
    return printable(strchr("\"\\/", **p) != NULL ? **p : 0);
  for (int i = 0; i < 4 && isxdigit((unsigned char)(*p)[1]); i++)
    hex[i] = *++*p;
  return printable(strtol(hex, NULL, 16));
}

void cli_json_text(const char *value, char *ret, size_t size) {
  size_t used = 0;

  if (value != NULL && *value == '"') {
    for (const char *p = value + 1; *p != '"' && used + 1 < size; p++) {
      unsigned char c = (unsigned char)*p;

      if (c == '\\') {
        p++;
        ret[used++] = unescape(&p);
      } else if ((c & 0xc0) != 0x80) { /* a character of several bytes becomes one '?' */
        ret[used++] = printable(c);
      }
    }
  }
  ret[used] = 0;
}
