/* SPDX-License-Identifier: MIT */
#include "port/platform.h"

static void *std_alloc(size_t size, void *arg) {
  (void)arg;
  return uvs__mem_system(size);
}

static void std_free(void *ptr, void *arg) {
  (void)arg;
  free(ptr);
}

void uvs__mem_init(uvs_allocator_t *m) {
  if (m->alloc != NULL)
    return;
  m->alloc = std_alloc;
  m->free = std_free;
}

void *uvs__mem_alloc(const uvs_allocator_t *m, size_t n, size_t size, size_t extra) {
  if (size != 0 && n > (SIZE_MAX - extra) / size)
    return NULL;
  return m->alloc(n * size + extra, m->arg);
}

void uvs__mem_free(const uvs_allocator_t *m, void *ptr) {
  if (ptr != NULL)
    m->free(ptr, m->arg);
}
