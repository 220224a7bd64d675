/* SPDX-License-Identifier: MIT
 *
 * values: what a delay queue holds: pointers in due order, each named by an item. Knows neither
 * threads nor clocks; the caller has the queue's lock.
 *
 * Slots are in chunks, as in util/slots.h, and never move. Room is reserved first, including links
 * and places in the heap. After that nothing here can fail. A value leaves in two steps. Taken out,
 * it is in no order any more, and its slot still holds it. Given back, the slot is free, and its
 * item is stale for ever (L18).
 */
#ifndef UVS__VALUES_H
#define UVS__VALUES_H

#include "uvsched/queue.h"

#include "util/heap.h"

struct uvs__value { /* 24 bytes; with link and heap entry a value takes 48 */
  void *value;
  uint64_t due_ns;
  uint32_t generation;
  uint32_t next; /* free list, or the chain of whoever took it out */
};

struct uvs__values {
  const uvs_allocator_t *mem; /* borrowed */
  struct uvs__value *chunk[UVS__CHUNKS];
  struct uvs__link *links[UVS__CHUNKS];
  struct uvs__heap heap;
  unsigned chunks;     /* so many exist */
  uint32_t made;       /* slots below were used */
  uint32_t free;       /* the first of those that are free again */
  uint32_t free_count; /* and how many */
  uint64_t last_seq;   /* 38 bits; after 2.7e11 values equal times may swap once */
};

void uvs__values_init(struct uvs__values *v, const uvs_allocator_t *mem);
void uvs__values_free_memory(struct uvs__values *v);

/* Room for n more. 0, UV_ENOMEM, UV_E2BIG: no value has changed. */
int uvs__values_reserve(struct uvs__values *v, size_t n);
/* Into reserved room. */
uvs_item_t uvs__values_add(struct uvs__values *v, void *value, uint64_t due_ns);

/* The slot of the first value; of an item; of the first of those with this pointer, which looks at
 * all. UVS__NONE if it is not in. */
uint32_t uvs__values_head(const struct uvs__values *v);
uint32_t uvs__values_find(const struct uvs__values *v, uvs_item_t item);
uint32_t uvs__values_find_value(const struct uvs__values *v, const void *value);

/* The slots of all that are in, in no order: n is below the heap's count. Values that
 * have left cost nothing here. */
uint32_t uvs__values_nth(const struct uvs__values *v, uint32_t n);

/* Is something in this slot, below `made`, and what? `seq` tells equal times apart. */
bool uvs__values_has(const struct uvs__values *v, uint32_t slot);
uint64_t uvs__values_seq(const struct uvs__values *v, uint32_t slot);
/* Also for a value that was taken out and not yet given back. */
uvs_entry_t uvs__values_entry(const struct uvs__values *v, uint32_t slot);

/* The two steps out. */
void uvs__values_take(struct uvs__values *v, uint32_t slot);
void uvs__values_give(struct uvs__values *v, uint32_t slot);

bool uvs__values_check(const struct uvs__values *v);

static inline struct uvs__value *uvs__values_at(const struct uvs__values *v, uint32_t slot) {
  uint32_t offset;
  unsigned k = uvs__chunk_of(slot, &offset);

  return &v->chunk[k][offset];
}

#endif
