/* SPDX-License-Identifier: MIT
 *
 * utf8: which bytes are UTF-8? Pure.
 */
#ifndef UVS__UTF8_H
#define UVS__UTF8_H

#include <stddef.h>

/* The length of the character that begins at p; 0: it is not valid. */
static inline size_t uvs__utf8_length(const unsigned char *p) {
  /* The first byte decides the length, and the least and greatest second byte: overlong forms,
   * surrogates and numbers above U+10FFFF are not valid. */
  size_t n = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
  unsigned least = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
  unsigned most = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;

  if (p[0] > 0xf4)
    return 0;
  for (size_t i = 1; i < n; i++) {
    if (p[i] < least || p[i] > most)
      return 0;
    least = 0x80;
    most = 0xbf;
  }
  return n;
}

#endif
