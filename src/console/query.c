/* SPDX-License-Identifier: MIT */
#include "console/query.h"

#include <string.h>
#include <uv.h>

bool uvs__query_path_is(const char *target, const char *path) {
  size_t n = strcspn(target, "?");

  return strlen(path) == n && memcmp(target, path, n) == 0;
}

static int hex_digit(char c) {
  const char *digits = "0123456789abcdef";
  const char *at = c == 0 ? NULL : strchr(digits, c >= 'A' && c <= 'F' ? c + ('a' - 'A') : c);

  return at == NULL ? -1 : (int)(at - digits);
}

/* Decodes n bytes. */
static int decode(const char *text, size_t n, char *ret, size_t size) {
  size_t used = 0;

  for (size_t i = 0; i < n; i++) {
    int c = (unsigned char)text[i];

    if (c == '%') {
      int high = i + 2 < n ? hex_digit(text[i + 1]) : -1;
      int low = high < 0 ? -1 : hex_digit(text[i + 2]);

      if (low < 0)
        return UV_EINVAL;
      c = high * 16 + low;
      i += 2;
    } else if (c == '+') {
      c = ' ';
    }
    if (c == 0 || used + 1 >= size)
      return UV_EINVAL;
    ret[used++] = (char)c;
  }
  ret[used] = 0;
  return (int)used;
}

int uvs__query_text(const char *target, const char *name, char *ret, size_t size) {
  const char *at = strchr(target, '?');
  size_t length = strlen(name);

  while (at != NULL && *at != 0) {
    size_t n;

    at++;
    n = strcspn(at, "&");
    if (n > length && memcmp(at, name, length) == 0 && at[length] == '=')
      return decode(at + length + 1, n - length - 1, ret, size);
    at += n;
  }
  return UV_ENOENT;
}

int uvs__query_uint(const char *target, const char *name, uint64_t min, uint64_t max,
                    uint64_t *ret) {
  char text[24];
  uint64_t n = 0;
  int rc = uvs__query_text(target, name, text, sizeof text);

  if (rc == UV_ENOENT)
    return 0;
  if (rc <= 0)
    return UV_EINVAL;
  for (const char *c = text; *c != 0; c++) {
    uint64_t digit = (uint64_t)(*c - '0');

    if (*c < '0' || *c > '9' || n > (UINT64_MAX - digit) / 10)
      return UV_EINVAL;
    n = n * 10 + digit;
  }
  if (n < min || n > max)
    return UV_EINVAL;
  *ret = n;
  return 0;
}

int uvs__query_word(const char *target, const char *name, const char *const *words, int *ret) {
  char text[24];
  int rc = uvs__query_text(target, name, text, sizeof text);

  if (rc == UV_ENOENT || rc == 0)
    return 0;
  if (rc < 0)
    return UV_EINVAL;
  for (int i = 0; words[i] != NULL; i++) {
    if (strcmp(text, words[i]) == 0) {
      *ret = i;
      return 0;
    }
  }
  return UV_EINVAL;
}
