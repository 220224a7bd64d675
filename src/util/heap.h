/* SPDX-License-Identifier: MIT
 *
 * heap: a 4-ary heap of deadlines. An entry holds a deadline, a sequence number and a slot. The
 * slot's link holds the position of the entry, so any entry can be removed. Knows nothing of tasks.
 *
 * The heap is chunked and never moves. Its owner makes room for an entry together with the slot, so
 * no function here can fail. The owner serializes all calls.
 */
#ifndef UVS__HEAP_H
#define UVS__HEAP_H

#include "port/base.h"
#include "port/mem.h"

#define UVS__SLOT_BITS 26
#define UVS__SLOT_MASK ((1u << UVS__SLOT_BITS) - 1u)

/* Eight bytes for each slot, in an array of their own. In a heap, `a` is the position. In a list,
 * `a` is the previous slot and `b` is the next. */
struct uvs__link {
  uint32_t a, b;
};

struct uvs__heap_entry {
  uint64_t deadline_ns;
  uint64_t key; /* sequence << 26 | slot: equal deadlines go by sequence */
};

struct uvs__heap {
  struct uvs__heap_entry *chunk[UVS__CHUNKS]; /* borrowed */
  struct uvs__link **links; /* borrowed; by slot: `a` is the position; UVS__NONE: not in the heap */
  uint32_t count;
  uint64_t ops; /* pushes and removals since init */
};

/* The owner sets each chunk before an entry needs it. */
void uvs__heap_init(struct uvs__heap *h, struct uvs__link **links);

void uvs__heap_push(struct uvs__heap *h, uint64_t deadline_ns, uint64_t key);
bool uvs__heap_has(const struct uvs__heap *h, uint32_t slot);
/* Needs uvs__heap_has. */
void uvs__heap_remove(struct uvs__heap *h, uint32_t slot);
/* NULL if empty. Valid until the next change. */
const struct uvs__heap_entry *uvs__heap_head(const struct uvs__heap *h);
/* The n-th of all entries, in no particular order; n < count. Valid until the next change. */
const struct uvs__heap_entry *uvs__heap_nth(const struct uvs__heap *h, uint32_t n);
bool uvs__heap_check(const struct uvs__heap *h);

static inline uint32_t uvs__heap_slot(const struct uvs__heap_entry *e) {
  return (uint32_t)e->key & UVS__SLOT_MASK;
}

#endif
