/* SPDX-License-Identifier: MIT */
#include "jobs/alloc.h"

#include <stdlib.h>
#include <string.h>

void *uvs__jobs_alloc(size_t size) {
  return calloc(1, size == 0 ? 1 : size);
}

void *uvs__jobs_realloc(void *old, size_t size) {
  return realloc(old, size == 0 ? 1 : size);
}

void uvs__jobs_free(void *p) {
  free(p);
}
