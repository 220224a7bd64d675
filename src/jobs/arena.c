/* SPDX-License-Identifier: MIT */
#include "jobs/arena.h"

#include <stdint.h>
#include <string.h>

#include "jobs/alloc.h"

#define CHUNK_BYTES 1000
#define ALIGN 16

struct uvs__chunk {
  struct uvs__chunk *next;
  size_t used, size;
  _Alignas(ALIGN) char bytes[];
};

void *uvs__arena_alloc(struct uvs__arena *a, size_t size) {
  struct uvs__chunk *c = a->chunks;
  size_t rounded = (size + ALIGN - 1) / ALIGN * ALIGN;
  void *p;

  if (c == NULL || c->size - c->used < rounded) {
    size_t room = rounded > CHUNK_BYTES ? rounded : CHUNK_BYTES / ALIGN * ALIGN;

    c = uvs__jobs_alloc(sizeof *c + room);
    if (c == NULL)
      return NULL;
    c->size = room;
    c->next = a->chunks;
    a->chunks = c;
  }
  p = c->bytes + c->used;
  c->used += rounded;
  return p;
}

void *uvs__arena_copy(struct uvs__arena *a, const void *data, size_t size) {
  char *copy = uvs__arena_alloc(a, size + 1);

  if (copy != NULL && size > 0)
    memcpy(copy, data, size);
  return copy;
}

int uvs__arena_string(struct uvs__arena *a, const char *text, const char **ret) {
  *ret = text == NULL ? NULL : uvs__arena_copy(a, text, strlen(text));
  return text == NULL || *ret != NULL;
}

void uvs__arena_join(struct uvs__arena *a, struct uvs__arena *from) {
  struct uvs__chunk **end = &a->chunks;

  while (*end != NULL)
    end = &(*end)->next;
  *end = from->chunks;
  from->chunks = NULL;
}

void uvs__arena_free(struct uvs__arena *a) {
  while (a->chunks != NULL) {
    struct uvs__chunk *next = a->chunks->next;

    uvs__jobs_free(a->chunks);
    a->chunks = next;
  }
}
