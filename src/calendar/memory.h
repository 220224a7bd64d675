/* SPDX-License-Identifier: MIT
 *
 * memory: calendars and zones belong to the process, not to a scheduler. So their memory comes from
 * the standard allocator, through port/mem.h.
 */
#ifndef UVS__CALENDAR_MEMORY_H
#define UVS__CALENDAR_MEMORY_H

#include "port/mem.h"

/* n * size + extra bytes, uninitialized; NULL if that overflows or there is no memory. */
static inline void *uvs__calendar_alloc(size_t n, size_t size, size_t extra) {
  uvs_allocator_t m = {NULL, NULL, NULL};

  uvs__mem_init(&m);
  return uvs__mem_alloc(&m, n, size, extra);
}

/* Accepts NULL. */
static inline void uvs__calendar_free(void *ptr) {
  uvs_allocator_t m = {NULL, NULL, NULL};

  uvs__mem_init(&m);
  uvs__mem_free(&m, ptr);
}

#endif
