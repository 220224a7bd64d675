/* SPDX-License-Identifier: MIT
 *
 * values: the values of a delay queue: pointers in due order, each named by an item. Knows neither
 * threads nor clocks. The caller holds the queue's lock.
 *
 * The caller reserves room first; after that nothing here can fail. A value leaves in two steps.
 * uvs__values_take takes it out of the order, but its slot still holds it. uvs__values_give frees
 * the slot, and the item is stale for ever (L18).
 */
#ifndef UVS__VALUES_H
#define UVS__VALUES_H

#include "uvsched/queue.h"

#include "util/heap.h"
#include "util/slots.h"

struct uvs__value { /* 24 bytes; with link and heap entry a value takes 48 */
  void *value;
  uint64_t due_ns;
  uint32_t generation;
  uint32_t next; /* in the chain of the call that took the value out */
};

struct uvs__values {
  const uvs_allocator_t *mem; /* borrowed */
  struct uvs__slots slots;    /* with each value: its link, and room in the heap */
  struct uvs__link *links[UVS__CHUNKS];
  struct uvs__heap heap;
  uint64_t next_key; /* 38 bits of sequence: after 2.7e11 values, equal times may swap once */
};

void uvs__values_init(struct uvs__values *v, const uvs_allocator_t *mem);
void uvs__values_free_memory(struct uvs__values *v);

/* Room for n more. 0, UV_ENOMEM, UV_E2BIG: no value has changed. */
int uvs__values_reserve(struct uvs__values *v, size_t n);
/* Needs reserved room. */
uvs_item_t uvs__values_add(struct uvs__values *v, void *value, uint64_t due_ns);

/* Each returns a slot: of the first value; of an item; of the first value that is this pointer
 * (looks at all values). UVS__NONE: there is none. */
uint32_t uvs__values_head(const struct uvs__values *v);
uint32_t uvs__values_find(const struct uvs__values *v, uvs_item_t item);
uint32_t uvs__values_find_value(const struct uvs__values *v, const void *value);
/* Also for a value that was taken out and not yet given back. */
uvs_entry_t uvs__values_entry(const struct uvs__values *v, uint32_t slot);

/* The two steps in which a value leaves. The second returns the value that the slot held. */
void uvs__values_take(struct uvs__values *v, uint32_t slot);
uvs_entry_t uvs__values_give(struct uvs__values *v, uint32_t slot);

static inline struct uvs__value *uvs__values_at(const struct uvs__values *v, uint32_t slot) {
  return uvs__slots_at(&v->slots, slot);
}

/* Does x come out before y? */
static inline bool uvs__values_before(const struct uvs__heap_entry *x,
                                      const struct uvs__heap_entry *y) {
  return x->deadline_ns != y->deadline_ns ? x->deadline_ns < y->deadline_ns : x->key < y->key;
}

#endif
