/* SPDX-License-Identifier: MIT */
#include "util/directory.h"

#include <uv.h>

#define INDEX_BITS 26
#define OPEN (UINT64_C(1) << 36)
#define HOLDERS_MASK (OPEN - 1)
#define GENERATION_SHIFT 37
#ifndef UVS__GENERATION_BITS
#define UVS__GENERATION_BITS 27 /* a test build has 3 */
#endif
#define GENERATION_MAX ((UINT64_C(1) << UVS__GENERATION_BITS) - 1)

struct entry {
  _Atomic uint64_t word; /* generation, OPEN, holders */
  _Atomic(void *) thing;
  _Atomic uint32_t next; /* free: index + 1 of the next free entry */
};

static struct {
  _Atomic(struct entry *) chunk[UVS__CHUNKS];
  _Atomic uint32_t made;
  /* The list of free entries: changes << 32 | index + 1 of the first. The number of changes makes a
   * CAS fail if the list was changed and has the same first entry again. */
  _Atomic uint64_t free;
} directory;

static uint32_t index_of(uint64_t number) {
  return (uint32_t)(number & ((UINT64_C(1) << INDEX_BITS) - 1));
}

static struct entry *at(uint32_t index) {
  uint32_t offset;
  unsigned k = uvs__chunk_of(index, &offset);

  return &uvs__load(&directory.chunk[k], acquire)[offset]; /* pairs with make_chunk */
}

static uint64_t changed(uint64_t free, uint32_t first) {
  return ((free >> 32) + 1) << 32 | first;
}

static void give_index(uint32_t index) {
  uint64_t free = uvs__load(&directory.free, relaxed); /* the CAS decides */

  do {
    uvs__store(&at(index)->next, (uint32_t)free, relaxed); /* the CAS releases it */
  } while (!uvs__cas(&directory.free, &free, changed(free, index + 1), release));
}

/* UVS__NONE if there is none. */
static uint32_t take_free(void) {
  uint64_t free = uvs__load(&directory.free, acquire); /* pairs with `give_index` */

  while ((uint32_t)free != 0) {
    uint32_t index = (uint32_t)free - 1;
    /* relaxed: if another thread took the entry, `next` is wrong, but then the CAS fails */
    uint32_t next = uvs__load(&at(index)->next, relaxed);

    if (uvs__cas(&directory.free, &free, changed(free, next),
                 acquire)) /* pairs with `give_index` */
      return index;
    /* A CAS that fails loads relaxed, but the present value must be acquired. */
    free = uvs__load(&directory.free, acquire);
  }
  return UVS__NONE;
}

/* A chunk stays for the life of the process. */
static bool make_chunk(unsigned k) {
  struct entry *there = uvs__load(&directory.chunk[k], relaxed); /* `at` acquires */
  struct entry *fresh = there != NULL ? NULL : calloc(uvs__chunk_size(k), sizeof *fresh);

  while (there == NULL && fresh != NULL) {                     /* a weak CAS may fail spuriously */
    if (uvs__cas(&directory.chunk[k], &there, fresh, release)) /* pairs with `at` */
      return true;
  }
  free(fresh);
  return there != NULL;
}

/* UVS__NONE: there is no memory, or no number left. */
static uint32_t take_new(void) {
  uint32_t made = uvs__load(&directory.made, relaxed); /* the CAS decides */
  uint32_t offset;

  do {
    if (made >= UVS__INDEX_MAX || !make_chunk(uvs__chunk_of(made, &offset)))
      return UVS__NONE;
  } while (!uvs__cas(&directory.made, &made, made + 1, release)); /* pairs with hold */
  return made;
}

int uvs__directory_add(void *thing, uint64_t *ret_number) {
  uint32_t index = take_free();
  uint64_t generation;
  struct entry *e;

  if (index == UVS__NONE)
    index = take_new();
  if (index == UVS__NONE)
    return UV_ENOMEM;
  e = at(index);
  generation = (uvs__load(&e->word, relaxed) >> GENERATION_SHIFT) + 1; /* no other thread uses e */
  uvs__store(&e->thing, thing, relaxed);
  *ret_number = generation << INDEX_BITS | index; /* before the store: it may be in the thing */
  uvs__store(&e->word, generation << GENERATION_SHIFT | OPEN | 1, release); /* pairs with hold */
  return 0;
}

void *uvs__directory_hold(uint64_t number, bool *ret_was) {
  uint64_t generation = number >> INDEX_BITS;
  struct entry *e;
  uint64_t w;

  *ret_was = false;
  if (generation == 0 || generation > GENERATION_MAX ||
      index_of(number) >= uvs__load(&directory.made, acquire)) /* pairs with take_new */
    return NULL;
  e = at(index_of(number));
  w = uvs__load(&e->word, relaxed); /* the CAS acquires */
  while (w >> GENERATION_SHIFT == generation && (w & OPEN) != 0) {
    if (uvs__cas(&e->word, &w, w + 1, acquire)) /* pairs with the release in `add` */
      return uvs__load(&e->thing, relaxed);     /* constant while somebody holds it */
  }
  *ret_was = w >> GENERATION_SHIFT >= generation;
  return NULL;
}

bool uvs__directory_drop(uint64_t number) {
  /* acq_rel: releases what this thread did; the last holder acquires what all others did */
  uint64_t w = uvs__sub(&at(index_of(number))->word, 1, acq_rel) - 1;

  if ((w & (OPEN | HOLDERS_MASK)) != 0)
    return false;
  if (w >> GENERATION_SHIFT < GENERATION_MAX) /* else it is never used again */
    give_index(index_of(number));
  return true;
}

void uvs__directory_close(uint64_t number) {
  /* release: this only clears a bit; uvs__directory_drop orders the rest */
  uvs__and(&at(index_of(number))->word, ~OPEN, release);
}
