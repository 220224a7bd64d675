/* SPDX-License-Identifier: MIT */
#include "slab.h"

#include <string.h>

#define BATCH UVS__SLAB_BATCH
#define ALIGN 64u /* a cache line */

static int add_chunk(struct uvs__slab *b, unsigned k) {
  size_t n = uvs__chunk_size(k);
  void *raw = uvs__mem_alloc(b->mem, n, b->element_size + sizeof *b->spare[k], ALIGN - 1);
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
  b->spare[k] = (void *)(b->chunk[k] + n * b->element_size);
  return 0;
}

static uint32_t *spare_at(const struct uvs__slab *b, uint32_t position) {
  uint32_t offset;
  unsigned k = uvs__chunk_of(position, &offset);

  return &b->spare[k][offset];
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
  for (uint32_t i = first; i < first + BATCH; i++) {
    *spare_at(b, b->spare_count++) = i;
    if (b->init != NULL)
      b->init(b->arg, i);
  }
  uvs__locked_store(&b->made, first + BATCH, release); /* pairs with uvs__slab_made */
  return 0;
}

/* Up to n from the common store, at least one; what was given last is taken first. `kept` of them
 * are not for the caller. */
static int take_spares(struct uvs__slab *b, uint32_t kept, uint32_t *index, uint32_t *n) {
  int rc = b->spare_count <= kept ? make_spares(b) : 0;

  if (rc < 0)
    return rc;
  if (b->spare_count - kept < *n)
    *n = b->spare_count - kept;
  b->spare_count -= *n;
  for (uint32_t i = 0; i < *n; i++)
    index[i] = *spare_at(b, b->spare_count + i);
  return 0;
}

static void give_spares(struct uvs__slab *b, const uint32_t *index, uint32_t n) {
  uv_mutex_lock(&b->lock);
  for (uint32_t i = 0; i < n; i++)
    *spare_at(b, b->spare_count++) = index[i];
  uv_mutex_unlock(&b->lock);
}

int uvs__slab_refill(struct uvs__slab *b, struct uvs__stripe *p) {
  uint32_t n = BATCH;
  int rc;

  uv_mutex_lock(&b->lock);
  rc = take_spares(b, p == &b->own ? 0 : b->reserved, p->free, &n);
  if (rc == 0) {
    p->count = n;
    if (p == &b->own)
      b->reserved -= b->reserved < n ? b->reserved : n;
  }
  uv_mutex_unlock(&b->lock);
  return rc;
}

/* Its older half. */
void uvs__slab_hand_back(struct uvs__slab *b, struct uvs__stripe *p) {
  give_spares(b, p->free, BATCH);
  memcpy(p->free, p->free + BATCH, BATCH * sizeof p->free[0]);
  p->count -= BATCH;
}

int uvs__slab_reserve(struct uvs__slab *b, size_t n) {
  int rc = 0;

  if (n > UVS__INDEX_MAX)
    return UV_E2BIG;
  if (n <= b->own.count)
    return 0;
  n -= b->own.count;
  uv_mutex_lock(&b->lock);
  while (rc == 0 && b->spare_count < n)
    rc = make_spares(b);
  if (rc == 0)
    b->reserved = (uint32_t)n;
  uv_mutex_unlock(&b->lock);
  return rc;
}

int uvs__slab_init(struct uvs__slab *b) {
  for (unsigned i = 0; i < UVS__STRIPES; i++) {
    b->stripe[i].count = 0;
    atomic_init(&b->stripe[i].busy, false);
  }
  b->own.count = 0;
  for (unsigned k = 0; k < UVS__CHUNKS; k++) {
    b->chunk[k] = NULL;
    b->raw[k] = NULL;
  }
  b->spare_count = 0;
  b->reserved = 0;
  atomic_init(&b->made, 0);
  return uv_mutex_init(&b->lock);
}

void uvs__slab_free_memory(struct uvs__slab *b) {
  for (unsigned k = 0; k < UVS__CHUNKS; k++)
    uvs__mem_free(b->mem, b->raw[k]);
}

void uvs__slab_destroy_lock(struct uvs__slab *b) {
  uv_mutex_destroy(&b->lock);
}

/* A stripe for us alone, until `leave`; this one, or another if somebody is at it. NULL: they are
 * all in use. acquire: what who left it last has written. */
static struct uvs__stripe *enter(struct uvs__slab *b, uintptr_t stripe) {
  for (unsigned i = 0; i < UVS__STRIPES; i++) {
    struct uvs__stripe *p = &b->stripe[(stripe + i) % UVS__STRIPES];

    if (!uvs__swap(&p->busy, true, acquire))
      return p;
  }
  return NULL;
}

static void leave(struct uvs__stripe *p) {
  uvs__store(&p->busy, false, release); /* pairs with `enter` */
}

static int take_from(struct uvs__slab *b, struct uvs__stripe *p, uint32_t *ret_index) {
  if (p->count == 0) {
    int rc = uvs__slab_refill(b, p);

    if (rc < 0)
      return rc;
  }
  *ret_index = p->free[--p->count];
  if (p->count >= UVS__SLAB_AHEAD)
    __builtin_prefetch(uvs__slab_at(b, p->free[p->count - UVS__SLAB_AHEAD]), 1);
  return 0;
}

static void give_to(struct uvs__slab *b, struct uvs__stripe *p, uint32_t index) {
  p->free[p->count++] = index;
  if (p->count == 2 * BATCH)
    uvs__slab_hand_back(b, p);
}

static int take_spare(struct uvs__slab *b, uint32_t *ret_index) {
  uint32_t n = 1;
  int rc;

  uv_mutex_lock(&b->lock);
  rc = take_spares(b, b->reserved, ret_index, &n);
  uv_mutex_unlock(&b->lock);
  return rc;
}

int uvs__slab_take(struct uvs__slab *b, uintptr_t stripe, uint32_t *ret_index) {
  struct uvs__stripe *p;
  int rc;

  if (stripe == UVS__STRIPE_LOOP)
    return take_from(b, &b->own, ret_index);
  p = enter(b, stripe);
  if (p == NULL)
    return take_spare(b, ret_index);
  rc = take_from(b, p, ret_index);
  leave(p);
  return rc;
}

void uvs__slab_give(struct uvs__slab *b, uintptr_t stripe, uint32_t index) {
  if (stripe == UVS__STRIPE_LOOP)
    give_to(b, &b->own, index);
  else
    uvs__slab_give_many(b, stripe, &index, 1);
}

void uvs__slab_give_many(struct uvs__slab *b, uintptr_t stripe, const uint32_t *index, uint32_t n) {
  struct uvs__stripe *p = enter(b, stripe);

  if (p == NULL) {
    give_spares(b, index, n);
    return;
  }
  for (uint32_t i = 0; i < n; i++)
    give_to(b, p, index[i]);
  leave(p);
}
