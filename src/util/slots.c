/* SPDX-License-Identifier: MIT */
#include "util/slots.h"

#define ALIGNMENT 64u

/* Chunk k holds its elements, then 1 << k words, then the side array. */
int uvs__slots_prepare(const struct uvs__slots *t, unsigned k, const uvs_allocator_t *m,
                       struct uvs__slots_chunk *ret) {
  if (k >= UVS__CHUNKS)
    return UV_E2BIG;
  ret->k = k;
  ret->raw = uvs__mem_alloc(m, uvs__chunk_size(k), t->element_size + t->side_size,
                            (sizeof(struct uvs__slots_word) << k) + ALIGNMENT);
  return ret->raw == NULL ? UV_ENOMEM : 0;
}

bool uvs__slots_attach(struct uvs__slots *t, struct uvs__slots_chunk *c) {
  unsigned k = c->k;

  if (c->raw == NULL || k != t->chunks)
    return false;
  t->raw[k] = c->raw;
  t->chunk[k] = (char *)(((uintptr_t)c->raw + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1));
  t->words[k] = (void *)(t->chunk[k] + uvs__chunk_size(k) * t->element_size);
  t->side[k] = t->words[k] + ((size_t)1 << k);
  t->chunks++;
  t->free += uvs__chunk_size(k);
  c->raw = NULL;
  return true;
}

bool uvs__slots_is_free(const struct uvs__slots *t, uint32_t index) {
  return index >= t->made || (uvs__slots_word_of(t, index)->free >> index % 64 & 1) != 0;
}

void uvs__slots_free_memory(struct uvs__slots *t, const uvs_allocator_t *m) {
  for (unsigned k = 0; k < t->chunks; k++)
    uvs__mem_free(m, t->raw[k]);
  t->chunks = 0;
}

bool uvs__slots_check(const struct uvs__slots *t) {
  uint64_t free = (UVS__CHUNK_FIRST << t->chunks) - UVS__CHUNK_FIRST - t->made; /* never taken */
  uint32_t words = 0; /* words that have a free element */

  for (uint32_t index = 0; index < t->made; index += 64) {
    free += (uint64_t)__builtin_popcountll(uvs__slots_word_of(t, index)->free);
    words += uvs__slots_word_of(t, index)->free != 0;
  }
  for (uint32_t i = t->first; i != 0; i = uvs__slots_word_of(t, (i - 1) * 64)->next) {
    if (words-- == 0 || uvs__slots_word_of(t, (i - 1) * 64)->free == 0)
      return false;
  }
  return words == 0 && free == t->free && t->reserved <= t->free;
}
