/* SPDX-License-Identifier: MIT */
#include "text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void cli_write_plain(FILE *to, const char *text) {
  for (; *text != '\0'; text++)
    putc(*text >= 0x20 && *text < 0x7f ? *text : '?', to);
}

/* How many of the n bytes at p are the first UTF-8 character; 0: the bytes are not UTF-8. The first
 * bytes and the range of the second byte are those of table 3-7 of the Unicode standard. */
static size_t utf8_length(const unsigned char *p, size_t n) {
  static const struct {
    unsigned char first, last, second_min, second_max;
    size_t length;
  } rows[] = {
      {0x00, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
      {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
      {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};

  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (*p < rows[i].first || *p > rows[i].last)
      continue;
    if (rows[i].length == 1)
      return 1;
    if (n < rows[i].length)
      return 0;
    if (p[1] < rows[i].second_min || p[1] > rows[i].second_max)
      return 0;
    for (size_t k = 2; k < rows[i].length; k++) {
      if ((p[k] & 0xc0) != 0x80)
        return 0;
    }
    return rows[i].length;
  }
  return 0;
}

bool cli_is_utf8(const void *data, size_t size) {
  const unsigned char *p = data, *end = p + size;

  while (p < end) {
    size_t n = utf8_length(p, (size_t)(end - p));

    if (n == 0)
      return false;
    p += n;
  }
  return true;
}

void cli_write_json_bytes(FILE *to, const void *data, size_t size) {
  const unsigned char *p = data, *end = p + size;

  putc('"', to);
  while (p < end) {
    size_t n = utf8_length(p, (size_t)(end - p));

    if (n == 0)
      fputs("\\ufffd", to);
    else if (*p < 0x20 || *p == 0x7f)
      fprintf(to, "\\u%04x", (unsigned)*p);
    else {
      if (*p == '"' || *p == '\\')
        putc('\\', to);
      fwrite(p, 1, n, to);
    }
    p += n == 0 ? 1 : n;
  }
  putc('"', to);
}

void cli_write_json(FILE *to, const char *text) {
  cli_write_json_bytes(to, text, strlen(text));
}

void cli_write_base64(FILE *to, const void *data, size_t size) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const unsigned char *p = data;

  for (size_t i = 0; i < size; i += 3) {
    size_t n = size - i < 3 ? size - i : 3;
    unsigned bits = p[i] * 65536u + (n > 1 ? p[i + 1] * 256u : 0) + (n > 2 ? p[i + 2] : 0u);

    putc(digits[bits >> 18], to);
    putc(digits[bits >> 12 & 63], to);
    putc(n > 1 ? digits[bits >> 6 & 63] : '=', to);
    putc(n > 2 ? digits[bits & 63] : '=', to);
  }
}

void cli_complain(const char *format, ...) {
  char line[501];
  va_list args;

  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  fputs("uvsched: ", stderr);
  cli_write_plain(stderr, line);
  putc('\n', stderr);
}

bool cli_has_colours(void) {
  const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");

  return isatty(STDOUT_FILENO) && (no_color == NULL || *no_color == '\0') && term != NULL &&
         strcmp(term, "dumb") != 0;
}

void cli_set_colour(bool colours, int colour) {
  static const char *const codes[] = {"\033[0m", "\033[1m", "\033[33m", "\033[31m", "\033[36m"};

  if (colours)
    fputs(codes[colour], stdout);
}
