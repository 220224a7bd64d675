/* SPDX-License-Identifier: MIT */
#include "util/slots.h"

#include <string.h>

#define ALIGNMENT 64u

/* Words of each level in chunk k. */
static size_t words_of(unsigned k) {
  return (size_t)1 << k;
}

static size_t sums_of(unsigned k) {
  return (words_of(k) + 63) / 64;
}

static size_t tops_of(unsigned k) {
  return (sums_of(k) + 63) / 64;
}

static size_t map_size(unsigned k) {
  return (words_of(k) + sums_of(k) + tops_of(k)) * sizeof(uint64_t);
}

static struct uvs__free_map map_at(uint64_t *from, unsigned k) {
  return (struct uvs__free_map){from, from + words_of(k), from + words_of(k) + sums_of(k)};
}

/* All n bits are set, and no others. */
static void set_first(uint64_t *words, size_t n) {
  memset(words, 0xff, n / 64 * sizeof *words);
  if (n % 64 != 0)
    words[n / 64] = (UINT64_C(1) << n % 64) - 1;
}

static char *aligned(void *raw) {
  return (char *)(((uintptr_t)raw + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1));
}

/* The map follows the elements, and the side follows the map. */
static uint64_t *map_of_chunk(char *elements, size_t element_size, unsigned k) {
  return (uint64_t *)(void *)(elements + uvs__chunk_size(k) * element_size);
}

int uvs__slots_prepare(const struct uvs__slots *t, unsigned k, const uvs_allocator_t *m,
                       struct uvs__slots_chunk *ret) {
  struct uvs__free_map map;
  char *elements;

  if (k >= UVS__CHUNKS)
    return UV_E2BIG;
  ret->k = k;
  ret->raw = uvs__mem_alloc(m, uvs__chunk_size(k), t->element_size + t->side_size,
                            map_size(k) + ALIGNMENT);
  if (ret->raw == NULL)
    return UV_ENOMEM;
  elements = aligned(ret->raw);
  map = map_at(map_of_chunk(elements, t->element_size, k), k);
  set_first(map.words, uvs__chunk_size(k));
  set_first(map.sums, words_of(k));
  set_first(map.tops, sums_of(k));
  return 0;
}

bool uvs__slots_attach(struct uvs__slots *t, struct uvs__slots_chunk *c) {
  unsigned k = c->k;

  if (c->raw == NULL || k != t->chunks)
    return false;
  t->raw[k] = c->raw;
  t->chunk[k] = aligned(c->raw);
  t->map[k] = map_at(map_of_chunk(t->chunk[k], t->element_size, k), k);
  t->side[k] = t->map[k].tops + tops_of(k);
  t->chunks++;
  t->open_chunks |= 1u << k;
  t->free += uvs__chunk_size(k);
  if (t->free == uvs__chunk_size(k)) /* all others are full */
    t->low_word = (uint32_t)(words_of(k) - 1);
  c->raw = NULL;
  return true;
}

/* Bits of the word became 0. */
static void note_empty(struct uvs__slots *t, struct uvs__free_map *map, unsigned k, size_t word) {
  size_t sum = word / 64;
  size_t top = sum / 64;

  map->sums[sum] &= ~(UINT64_C(1) << word % 64);
  if (map->sums[sum] == 0)
    map->tops[top] &= ~(UINT64_C(1) << sum % 64);
  while (top < tops_of(k) && map->tops[top] == 0)
    top++;
  if (top == tops_of(k))
    t->open_chunks &= ~(1u << k);
}

/* The first word with a free bit. */
static uint32_t find_low(const struct uvs__slots *t) {
  unsigned k = (unsigned)__builtin_ctz(t->open_chunks);
  const struct uvs__free_map *map = &t->map[k];
  size_t top = 0;
  size_t sum;

  while (map->tops[top] == 0)
    top++;
  sum = top * 64 + (size_t)__builtin_ctzll(map->tops[top]);
  return (uint32_t)(words_of(k) - 1 + sum * 64 + (size_t)__builtin_ctzll(map->sums[sum]));
}

uint32_t uvs__slots_take(struct uvs__slots *t, bool *ret_new) {
  uint32_t low = t->low_word;
  unsigned k = 31u ^ (unsigned)__builtin_clz(low + 1);
  size_t word = low + 1 - words_of(k);
  struct uvs__free_map *map = &t->map[k];
  uint64_t bits = map->words[word];
  uint32_t index = low * 64 + (uint32_t)__builtin_ctzll(bits);

  bits &= bits - 1;
  map->words[word] = bits;
  t->free--;
  if (bits == 0) {
    note_empty(t, map, k, word);
    t->low_word = t->open_chunks == 0 ? UINT32_MAX - 1 : find_low(t);
  }
  *ret_new = index == t->made;
  t->made += *ret_new;
  return index;
}

void uvs__slots_give(struct uvs__slots *t, uint32_t index) {
  uint32_t offset;
  unsigned k = uvs__chunk_of(index, &offset);
  struct uvs__free_map *map = &t->map[k];
  size_t word = offset / 64;
  uint64_t bits = map->words[word];

  map->words[word] = bits | UINT64_C(1) << offset % 64;
  t->free++;
  if (bits != 0)
    return;
  map->sums[word / 64] |= UINT64_C(1) << word % 64;
  map->tops[word / 64 / 64] |= UINT64_C(1) << word / 64 % 64;
  t->open_chunks |= 1u << k;
  if (index / 64 < t->low_word)
    t->low_word = index / 64;
}

bool uvs__slots_is_free(const struct uvs__slots *t, uint32_t index) {
  uint32_t offset;
  unsigned k = uvs__chunk_of(index, &offset);

  return (t->map[k].words[offset / 64] >> offset % 64 & 1) != 0;
}

void uvs__slots_free_memory(struct uvs__slots *t, const uvs_allocator_t *m) {
  for (unsigned k = 0; k < t->chunks; k++)
    uvs__mem_free(m, t->raw[k]);
  t->chunks = 0;
}

/* Does bit i of `upper` say whether word i of `lower` is not 0? *ret_any: one is not. */
static bool level_agrees(const uint64_t *upper, const uint64_t *lower, size_t n, bool *ret_any) {
  *ret_any = false;
  for (size_t i = 0; i < n; i++) {
    if ((upper[i / 64] >> i % 64 & 1) != (lower[i] != 0))
      return false;
    *ret_any |= lower[i] != 0;
  }
  return true;
}

bool uvs__slots_check(const struct uvs__slots *t) {
  uint64_t free = 0;

  for (unsigned k = 0; k < t->chunks; k++) {
    const struct uvs__free_map *map = &t->map[k];
    bool any, any_sum;

    for (size_t i = 0; i < words_of(k); i++)
      free += (uint64_t)__builtin_popcountll(map->words[i]);
    if (!level_agrees(map->sums, map->words, words_of(k), &any) ||
        !level_agrees(map->tops, map->sums, sums_of(k), &any_sum))
      return false;
    if (any != ((t->open_chunks >> k & 1) != 0))
      return false;
  }
  if (t->open_chunks != 0 && t->low_word != find_low(t))
    return false;
  return free == t->free && t->reserved <= t->free;
}
