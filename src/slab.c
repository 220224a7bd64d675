/* SPDX-License-Identifier: MIT */
#include "slab.h"

#define BATCH 64u
#define ALIGN 64u /* a cache line */

static _Atomic uint32_t *next_of(const struct uvs__slab *b, uint32_t index) {
  return (_Atomic uint32_t *)(void *)((char *)uvs__slab_at(b, index) + b->next_offset);
}

/* The free lists are guarded by their locks; the link is atomic only because it serves lock-free
 * lists at other times. */
static uint32_t get_next(const struct uvs__slab *b, uint32_t index) {
  return uvs__locked_load(next_of(b, index), relaxed);
}

static void set_next(const struct uvs__slab *b, uint32_t index, uint32_t next) {
  uvs__locked_store(next_of(b, index), next, relaxed);
}

static int add_chunk(struct uvs__slab *b, unsigned k) {
  void *raw = uvs__mem_alloc(b->mem, uvs__chunk_size(k), b->element_size, ALIGN - 1);
  int rc;

  if (raw == NULL)
    return UV_ENOMEM;
  rc = b->grow == NULL ? 0 : b->grow(b->arg, k);
  if (rc < 0) {
    uvs__mem_free(b->mem, raw);
    return rc;
  }
  b->raw[k] = raw;
  b->chunk[k] = (char *)raw + (ALIGN - (uintptr_t)raw % ALIGN) % ALIGN;
  return 0;
}

/* Make 64 new elements: the next part of the last chunk, whose memory the system gives only when it
 * is touched. */
static int make_spares(struct uvs__slab *b) {
  uint32_t first = uvs__locked_load(&b->made, relaxed); /* only written under the lock */
  uint32_t offset;
  unsigned k;
  int rc;

  if (first >= UVS__INDEX_MAX)
    return UV_E2BIG;
  k = uvs__chunk_of(first, &offset);
  if (b->chunk[k] == NULL) {
    rc = add_chunk(b, k);
    if (rc < 0)
      return rc;
  }
  for (uint32_t i = first + BATCH; i-- > first;) {
    atomic_init(next_of(b, i), b->spare);
    b->spare = i;
    if (b->init != NULL)
      b->init(b->arg, i);
  }
  b->spare_count += BATCH;
  uvs__locked_store(&b->made, first + BATCH, release); /* pairs with uvs__slab_made */
  return 0;
}

static int refill(struct uvs__slab *b, struct uvs__stripe *p) {
  int rc = 0;

  uv_mutex_lock(&b->lock);
  if (b->spare_count == 0)
    rc = make_spares(b);
  for (; rc == 0 && p->count < BATCH && b->spare_count > 0; p->count++, b->spare_count--) {
    uint32_t i = b->spare;

    b->spare = get_next(b, i);
    set_next(b, i, p->head);
    p->head = i;
  }
  uv_mutex_unlock(&b->lock);
  return rc;
}

static void hand_back(struct uvs__slab *b, struct uvs__stripe *p) {
  uv_mutex_lock(&b->lock);
  for (unsigned n = 0; n < BATCH; n++, p->count--, b->spare_count++) {
    uint32_t i = p->head;

    p->head = get_next(b, i);
    set_next(b, i, b->spare);
    b->spare = i;
  }
  uv_mutex_unlock(&b->lock);
}

int uvs__slab_init(struct uvs__slab *b) {
  int rc = uv_mutex_init(&b->lock);
  unsigned i;

  if (rc < 0)
    return rc;
  for (i = 0; i < UVS__STRIPES; i++) {
    b->stripe[i].head = UVS__NONE;
    b->stripe[i].count = 0;
    rc = uv_mutex_init(&b->stripe[i].lock);
    if (rc < 0)
      goto destroy_locks;
  }
  b->own.head = UVS__NONE;
  b->own.count = 0;
  for (unsigned k = 0; k < UVS__CHUNKS; k++) {
    b->chunk[k] = NULL;
    b->raw[k] = NULL;
  }
  b->spare = UVS__NONE;
  b->spare_count = 0;
  atomic_init(&b->made, 0);
  return 0;

destroy_locks:
  while (i-- > 0)
    uv_mutex_destroy(&b->stripe[i].lock);
  uv_mutex_destroy(&b->lock);
  return rc;
}

void uvs__slab_free_memory(struct uvs__slab *b) {
  for (unsigned k = 0; k < UVS__CHUNKS; k++)
    uvs__mem_free(b->mem, b->raw[k]);
}

void uvs__slab_destroy_locks(struct uvs__slab *b) {
  for (unsigned i = 0; i < UVS__STRIPES; i++)
    uv_mutex_destroy(&b->stripe[i].lock);
  uv_mutex_destroy(&b->lock);
}

static int take_from(struct uvs__slab *b, struct uvs__stripe *p, uint32_t *ret_index) {
  if (p->count == 0) {
    int rc = refill(b, p);

    if (rc < 0)
      return rc;
  }
  *ret_index = p->head;
  p->head = get_next(b, p->head);
  p->count--;
  return 0;
}

static void give_to(struct uvs__slab *b, struct uvs__stripe *p, uint32_t index) {
  set_next(b, index, p->head);
  p->head = index;
  if (++p->count >= 2 * BATCH)
    hand_back(b, p);
}

int uvs__slab_take(struct uvs__slab *b, uintptr_t stripe, uint32_t *ret_index) {
  struct uvs__stripe *p = &b->stripe[stripe % UVS__STRIPES];
  int rc;

  if (stripe == UVS__STRIPE_LOOP)
    return take_from(b, &b->own, ret_index);
  uv_mutex_lock(&p->lock);
  rc = take_from(b, p, ret_index);
  uv_mutex_unlock(&p->lock);
  return rc;
}

void uvs__slab_give(struct uvs__slab *b, uintptr_t stripe, uint32_t index) {
  struct uvs__stripe *p = &b->stripe[stripe % UVS__STRIPES];

  if (stripe == UVS__STRIPE_LOOP) {
    give_to(b, &b->own, index);
    return;
  }
  uv_mutex_lock(&p->lock);
  give_to(b, p, index);
  uv_mutex_unlock(&p->lock);
}
