/* SPDX-License-Identifier: MIT */
#include "util/heap.h"

#include <string.h>

#define ARITY 4u

static struct uvs__heap_entry *heap_at(const struct uvs__heap *h, uint32_t position) {
  uint32_t offset;
  unsigned k = uvs__chunk_of(position, &offset);

  return &h->chunk[k][offset];
}

static uint32_t *position_of(const struct uvs__heap *h, uint32_t slot) {
  uint32_t offset;
  unsigned k = uvs__chunk_of(slot, &offset);

  return &h->links[k][offset].a;
}

static bool is_before(const struct uvs__heap_entry *x, const struct uvs__heap_entry *y) {
  return x->deadline_ns != y->deadline_ns ? x->deadline_ns < y->deadline_ns : x->key < y->key;
}

static void place(struct uvs__heap *h, uint32_t position, struct uvs__heap_entry e) {
  *heap_at(h, position) = e;
  *position_of(h, uvs__heap_slot(&e)) = position;
}

/* Both sifts move a hole, and write the entry once, at its final position. */
static void sift_up(struct uvs__heap *h, uint32_t position, struct uvs__heap_entry e) {
  while (position > 0) {
    uint32_t parent = (position - 1) / ARITY;
    struct uvs__heap_entry *p = heap_at(h, parent);

    if (!is_before(&e, p))
      break;
    place(h, position, *p);
    position = parent;
  }
  place(h, position, e);
}

static void sift_down(struct uvs__heap *h, uint32_t position, struct uvs__heap_entry e) {
  for (;;) {
    uint64_t child = (uint64_t)position * ARITY + 1;
    struct uvs__heap_entry *least = &e;
    uint32_t least_position = position;

    for (unsigned i = 0; i < ARITY && child + i < h->count; i++) {
      struct uvs__heap_entry *c = heap_at(h, (uint32_t)(child + i));

      if (is_before(c, least)) {
        least = c;
        least_position = (uint32_t)(child + i);
      }
    }
    if (least_position == position)
      break;
    place(h, position, *least);
    position = least_position;
  }
  place(h, position, e);
}

void uvs__heap_init(struct uvs__heap *h, struct uvs__link **links) {
  memset(h, 0, sizeof *h);
  h->links = links;
}

void uvs__heap_push(struct uvs__heap *h, uint64_t deadline_ns, uint64_t key) {
  struct uvs__heap_entry e = {deadline_ns, key};

  UVS_ASSERT(!uvs__heap_has(h, uvs__heap_slot(&e)));
  h->ops++;
  sift_up(h, h->count++, e);
}

bool uvs__heap_has(const struct uvs__heap *h, uint32_t slot) {
  return *position_of(h, slot) != UVS__NONE;
}

void uvs__heap_remove(struct uvs__heap *h, uint32_t slot) {
  uint32_t position = *position_of(h, slot);
  struct uvs__heap_entry last;

  UVS_ASSERT(position < h->count);
  UVS_ASSERT(uvs__heap_slot(heap_at(h, position)) == slot);
  h->ops++;
  *position_of(h, slot) = UVS__NONE;
  last = *heap_at(h, --h->count);
  if (position == h->count)
    return;
  /* The last entry comes from another part of the tree: it may have to go up or down. */
  if (position > 0 && is_before(&last, heap_at(h, (position - 1) / ARITY)))
    sift_up(h, position, last);
  else
    sift_down(h, position, last);
}

const struct uvs__heap_entry *uvs__heap_head(const struct uvs__heap *h) {
  return h->count == 0 ? NULL : heap_at(h, 0);
}

const struct uvs__heap_entry *uvs__heap_nth(const struct uvs__heap *h, uint32_t n) {
  UVS_ASSERT(n < h->count);
  return heap_at(h, n);
}

bool uvs__heap_check(const struct uvs__heap *h) {
  for (uint32_t i = 0; i < h->count; i++) {
    const struct uvs__heap_entry *e = heap_at(h, i);

    if (*position_of(h, uvs__heap_slot(e)) != i)
      return false;
    if (i > 0 && is_before(e, heap_at(h, (i - 1) / ARITY)))
      return false;
  }
  return true;
}
