/* SPDX-License-Identifier: MIT
 *
 * slab: elements that are named by an index and never move. Memory is type-stable until the slab
 * goes: a stale index may always be looked at, and what is found there says that it is stale.
 *
 * Any thread takes and gives. One store for all would be the bottleneck from two producers on, so
 * each thread uses one of a few stripes, which trade with the common store 64 elements at a time.
 * Nobody waits for a stripe: if somebody is at it, the next will do. The loop's thread has one to
 * itself. What is free is kept as numbers in dense stacks, so that to trade them touches none of
 * the elements.
 */
#ifndef UVS__SLAB_H
#define UVS__SLAB_H

#include "atomic.h"
#include "base.h"
#include "mem.h"

#define UVS__STRIPES 8
#define UVS__SLAB_BATCH 64u
#define UVS__SLAB_AHEAD \
  8u /* who takes one often takes more: so far ahead their memory is asked for */
#define UVS__STRIPE_LOOP UINTPTR_MAX /* the loop's own */

struct uvs__stripe {
  _Atomic bool busy; /* somebody is at it */
  uint32_t count;
  uint32_t free[2 * UVS__SLAB_BATCH]; /* the last `count` given */
  char pad[64];                       /* two stripes never share a cache line */
};

struct uvs__slab {
  const uvs_allocator_t *mem;
  size_t element_size; /* a multiple of 64, the alignment */
  /* Both may be NULL. `grow`: chunk k is about to exist; `init`: element `index` is made. Under
   * `lock`. */
  int (*grow)(void *arg, unsigned k);
  void (*init)(void *arg, uint32_t index);
  void *arg;

  char *chunk[UVS__CHUNKS]; /* aligned */
  void *raw[UVS__CHUNKS];   /* as allocated */
  /* Elements below are initialized. Release: pairs with uvs__slab_made's acquire. */
  _Atomic uint32_t made;

  uv_mutex_t lock;              /* what follows */
  uint32_t *spare[UVS__CHUNKS]; /* a chunked stack; behind the elements of the chunk */
  uint32_t spare_count;
  uint32_t reserved; /* so many of them are the loop's */
  struct uvs__stripe stripe[UVS__STRIPES];
  struct uvs__stripe own; /* the loop's; never busy */
};

/* The other fields up to arg are set by the caller before. 0 or what uv_mutex_init answers. */
int uvs__slab_init(struct uvs__slab *b);
/* Two parts: a forked child may free, but not touch a lock that its parent's threads held. */
void uvs__slab_free_memory(struct uvs__slab *b);
void uvs__slab_destroy_lock(struct uvs__slab *b);

/* Any thread. The stripe is any number that threads tend to differ in, on the loop's thread (and
 * only there) UVS__STRIPE_LOOP. 0, UV_ENOMEM, UV_E2BIG. */
int uvs__slab_take(struct uvs__slab *b, uintptr_t stripe, uint32_t *ret_index);
void uvs__slab_give(struct uvs__slab *b, uintptr_t stripe, uint32_t index);
/* The loop's thread: its next n takings will not fail, if nothing else is taken in between. All n
 * of them must follow. 0, UV_ENOMEM, UV_E2BIG. */
int uvs__slab_reserve(struct uvs__slab *b, size_t n);
/* Up to a batch at once. */
void uvs__slab_give_many(struct uvs__slab *b, uintptr_t stripe, const uint32_t *index, uint32_t n);

static inline uint32_t uvs__slab_made(const struct uvs__slab *b) {
  return uvs__load(&b->made, acquire);
}

/* index < uvs__slab_made() */
static inline void *uvs__slab_at(const struct uvs__slab *b, uint32_t index) {
  uint32_t offset;
  unsigned k = uvs__chunk_of(index, &offset);

  return b->chunk[k] + (size_t)offset * b->element_size;
}

/* What taking and giving is made of: a stripe that is empty, or full. */
int uvs__slab_refill(struct uvs__slab *b, struct uvs__stripe *p);
void uvs__slab_hand_back(struct uvs__slab *b, struct uvs__stripe *p);

#endif
