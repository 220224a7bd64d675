/* SPDX-License-Identifier: MIT
 *
 * table: all tasks of a scheduler: their slots, their links, and their extra records.
 *
 * A slot is taken together with its link and its room in the delay queue. An extra record is taken
 * together with its room in the heaps of the wall clock and of time limits. So filing, firing and
 * cancelling cannot fail. Memory is allocated without the scheduler's lock (uvs__slots_prepare) and
 * attached with it.
 */
#ifndef UVS__TABLE_H
#define UVS__TABLE_H

#include "task/task.h"
#include "util/heap.h"
#include "util/slots.h"

#include <string.h>

struct uvs__table {
  uint64_t id_base; /* the number of the scheduler, in the upper bits of each id */
  uint64_t next_seq;
  struct uvs__slots tasks;
  struct uvs__slots extras;
  struct uvs__link *links[UVS__CHUNKS];       /* of the tasks */
  struct uvs__link *extra_links[UVS__CHUNKS]; /* of the extra records; for `wall` and `limits` */
  struct uvs__heap delay_heap;                /* of the delay queue; entries name slots */
  struct uvs__heap wall;                      /* wall-clock tasks; entries name extra records */
  struct uvs__heap limits; /* time limits of READY and RUNNING tasks; entries name extra records */
};

void uvs__table_init(struct uvs__table *t);
void uvs__table_free_memory(struct uvs__table *t, const uvs_allocator_t *m);

/* With the lock: a chunk that uvs__slots_prepare made for t->tasks, or t->extras, becomes part of
 * the table, if the table still lacks it. */
void uvs__table_attach(struct uvs__table *t, struct uvs__slots *slots, struct uvs__slots_chunk *c);

static inline struct uvs__task *uvs__task_at(const struct uvs__table *t, uint32_t slot) {
  uint32_t offset;
  unsigned k = uvs__chunk_of(slot, &offset);

  return (struct uvs__task *)(void *)t->tasks.chunk[k] +
         offset; /* as uvs__slots_at, but the size is a constant */
}

static inline struct uvs__link *uvs__link_at(const struct uvs__table *t, uint32_t slot) {
  uint32_t offset;
  unsigned k = uvs__chunk_of(slot, &offset);

  return &t->links[k][offset];
}

/* NULL: the task has none. */
static inline struct uvs__extra *uvs__extra_of(const struct uvs__table *t,
                                               const struct uvs__task *k) {
  return k->extra == 0 ? NULL : uvs__slots_at(&t->extras, (uint32_t)k->extra - 1);
}

/* Prefetches the link of the id's slot, so that it loads while the task does. */
static inline void uvs__table_prefetch(const struct uvs__table *t, uvs_id_t id) {
  uint32_t slot = (uint32_t)id & UVS__SLOT_MASK;

  if (slot < t->tasks.made)
    __builtin_prefetch(uvs__link_at(t, slot), 1);
}

/* The task of an id; NULL if the id is stale or never existed. */
static inline struct uvs__task *uvs__table_find(const struct uvs__table *t, uvs_id_t id,
                                                uint32_t *ret_slot) {
  uint32_t slot = (uint32_t)id & UVS__SLOT_MASK;
  struct uvs__task *k;

  if (slot >= t->tasks.made)
    return NULL;
  k = uvs__task_at(t, slot);
  if (k->generation != (id ^ t->id_base) >> UVS__SLOT_BITS || k->state == UVS__FREE)
    return NULL;
  *ret_slot = slot;
  return k;
}

/* Gives a task that has no extra record one, all zero. Needs room. */
void uvs__table_add_extra(struct uvs__table *t, uint32_t slot);

/* Takes a slot. Needs room. The task is FREE; only its `generation` and its link are set. */
static inline uint32_t uvs__table_take(struct uvs__table *t) {
  bool is_new;
  uint32_t slot = uvs__slots_take(&t->tasks, &is_new);
  struct uvs__task *k = uvs__task_at(t, slot);

  if (is_new) {
    memset(k, 0, sizeof *k);
    k->generation = 1; /* so that no id is 0 */
    *uvs__link_at(t, slot) = (struct uvs__link){UVS__NONE, UVS__NONE};
  }
  UVS_ASSERT(k->state == UVS__FREE);
  return slot;
}

/* The task is FREE: its slot and its extra record go back, with a new generation. A slot whose
 * generation is used up is never taken again (L18). */
static inline void uvs__table_give(struct uvs__table *t, uint32_t slot) {
  struct uvs__task *k = uvs__task_at(t, slot);

  UVS_ASSERT(k->state == UVS__FREE && k->place == UVS__NOWHERE);
  if (k->extra != 0) {
    uvs__slots_give(&t->extras, (uint32_t)k->extra - 1);
    k->extra = 0;
  }
  k->generation = (k->generation + 1) & ((UINT32_C(1) << 27) - 1);
  if (k->generation < UVS__GENERATION_MAX)
    uvs__slots_give(&t->tasks, slot);
}

#endif
