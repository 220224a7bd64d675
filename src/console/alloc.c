/* SPDX-License-Identifier: MIT */
#include "console/alloc.h"

#include <stdlib.h>
#include <string.h>

void *uvs__console_alloc(size_t size) {
  return calloc(1, size == 0 ? 1 : size);
}

void *uvs__console_realloc(void *old, size_t size) {
  return realloc(old, size == 0 ? 1 : size);
}

void uvs__console_free(void *p) {
  free(p);
}

char *uvs__console_copy(const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = uvs__console_alloc(size);

  if (copy != NULL)
    memcpy(copy, text, size);
  return copy;
}
