/* SPDX-License-Identifier: MIT
 *
 * slots: a table of elements that are named by an index and never move.
 *
 * 64 neighbouring elements share a word, whose bitmap says which of them are free. The words that
 * have a free element form a list. Elements are taken from the first word of the list, lowest
 * element first, until the word has none left. So elements that are taken one after the other are
 * mostly neighbours, however long the table has been in use, and an element that was just given
 * back is still in the cache. A new element is taken only if no old one is free, so memory is
 * touched only when it is needed.
 *
 * The table has no lock. Its owner serializes all calls except uvs__slots_prepare, which allocates
 * a chunk, and uvs__slots_at.
 */
#ifndef UVS__SLOTS_H
#define UVS__SLOTS_H

#include "port/base.h"
#include "port/mem.h"

struct uvs__slots_word {
  uint64_t free; /* bit i: element i of the 64 can be taken, and was taken before */
  uint32_t next; /* if `free` is not 0, the next such word: index + 1; 0: the last */
};

/* All zero at first, except the two sizes. */
struct uvs__slots {
  unsigned chunks;          /* how many exist */
  uint32_t first;           /* the first word with a free element: index + 1; 0: none */
  uint32_t made;            /* elements below this index were taken at least once */
  uint32_t free;            /* elements that can be taken, the reserved ones too */
  uint32_t reserved;        /* promised to a call that has yet to take them */
  size_t element_size;      /* if this is a multiple of 64, so is each element's address */
  size_t side_size;         /* bytes per element in an array of their own; a multiple of 8 */
  char *chunk[UVS__CHUNKS]; /* chunk k has 64 << k elements */
  void *raw[UVS__CHUNKS];   /* as allocated */
  struct uvs__slots_word *words[UVS__CHUNKS];
  void *side[UVS__CHUNKS]; /* chunk_size * side_size bytes each */
};

/* A chunk that is not yet part of a table. */
struct uvs__slots_chunk {
  unsigned k;
  void *raw; /* NULL: none */
};

static inline uint32_t uvs__slots_room(const struct uvs__slots *t) {
  return t->free - t->reserved;
}

static inline void *uvs__slots_at(const struct uvs__slots *t, uint32_t index) {
  uint32_t offset;
  unsigned k = uvs__chunk_of(index, &offset);

  return t->chunk[k] + (size_t)offset * t->element_size;
}

/* Allocates chunk k. Needs no lock: reads only the two sizes. 0, UV_ENOMEM, UV_E2BIG (there is no
 * chunk k). */
int uvs__slots_prepare(const struct uvs__slots *t, unsigned k, const uvs_allocator_t *m,
                       struct uvs__slots_chunk *ret);
/* Adds a prepared chunk, and sets c->raw to NULL. False: the table has this chunk already. */
bool uvs__slots_attach(struct uvs__slots *t, struct uvs__slots_chunk *c);

/* The word of the 64 elements that `index` is one of. */
static inline struct uvs__slots_word *uvs__slots_word_of(const struct uvs__slots *t,
                                                         uint32_t index) {
  uint32_t offset;
  unsigned k = uvs__chunk_of(index, &offset);

  return &t->words[k][offset / 64];
}

/* Needs a free element. *ret_new: it is taken for the first time, and holds garbage. */
static inline uint32_t uvs__slots_take(struct uvs__slots *t, bool *ret_new) {
  uint32_t index;
  struct uvs__slots_word *w;

  t->free--;
  *ret_new = t->first == 0;
  if (t->first == 0) {
    index = t->made++;
    if (index % 64 == 0)
      uvs__slots_word_of(t, index)->free = 0;
    return index;
  }
  index = (t->first - 1) * 64;
  w = uvs__slots_word_of(t, index);
  index += (uint32_t)__builtin_ctzll(w->free);
  w->free &= w->free - 1;
  if (w->free == 0)
    t->first = w->next;
  return index;
}

static inline void uvs__slots_give(struct uvs__slots *t, uint32_t index) {
  struct uvs__slots_word *w = uvs__slots_word_of(t, index);

  t->free++;
  if (w->free == 0) {
    w->next = t->first;
    t->first = index / 64 + 1;
  }
  w->free |= UINT64_C(1) << index % 64;
}

bool uvs__slots_is_free(const struct uvs__slots *t, uint32_t index);
void uvs__slots_free_memory(struct uvs__slots *t, const uvs_allocator_t *m);
/* Do bitmaps, list and counts agree? */
bool uvs__slots_check(const struct uvs__slots *t);

#endif
