/* SPDX-License-Identifier: MIT
 *
 * agenda: all tasks of a scheduler: their slots, and the delay queues of those that wait. No libuv
 * call but its mutexes.
 *
 * Slots are taken and given back by any thread; the queues belong to the loop thread. A slot is
 * taken together with its room in the queue, so that arming and firing cannot fail. Tasks for an
 * instant of the wall clock have a queue of their own and are never converted. "Never" tasks are in
 * no queue.
 */
#ifndef UVS__AGENDA_H
#define UVS__AGENDA_H

#include "heap.h"
#include "slab.h"
#include "task.h"
#include "wheel.h"

struct uvs__agenda {
  const uvs_allocator_t *mem;
  struct uvs__slab slots;
  struct uvs__slab colds;
  struct uvs__link *links[UVS__CHUNKS];
  struct uvs__wheel wheel; /* by the monotonic clock */
  struct uvs__heap wall;   /* by the wall clock */
  struct uvs__heap limits; /* time limits of runs that are ready or in progress */
  struct uvs__link *limit_links[UVS__CHUNKS]; /* theirs; only where a task has had a limit */
  struct uvs__link *lane_links[UVS__CHUNKS];  /* previous and next of a lane; the same way */
  uint64_t last_seq; /* 38 bits; after 2.7e11 tasks equal deadlines may swap once */
};

int uvs__agenda_init(struct uvs__agenda *a, const uvs_allocator_t *mem);
void uvs__agenda_destroy(struct uvs__agenda *a);
/* In a forked child, where locks may be held by threads that do not exist. */
void uvs__agenda_free_memory(struct uvs__agenda *a);

/* Any thread. 0, UV_ENOMEM, UV_E2BIG. The slot is FREE and private; its other fields are unset. */
int uvs__agenda_take_slot(struct uvs__agenda *a, uintptr_t stripe, bool cold, bool wall,
                          uint32_t *ret_slot);
/* Any thread, who has the slot: room for the limit of its runs; for a place in a lane. 0 or
 * UV_ENOMEM. */
int uvs__agenda_reserve_limit(struct uvs__agenda *a, uint32_t slot);
int uvs__agenda_reserve_lane(struct uvs__agenda *a, uint32_t slot);
/* Its word is FREE with a new generation; a generation at its maximum is never used again, so the
 * slot stays out (L18). */
void uvs__agenda_give_slot(struct uvs__agenda *a, uintptr_t stripe, uint32_t slot);

/* Slots without cold record that one thread is about to give back, a batch at a time. */
struct uvs__freed {
  uint32_t count;
  uint32_t slot[UVS__SLAB_BATCH];
};

/* As uvs__agenda_give_slot, but only when there are enough of them, and: those that there are. */
void uvs__agenda_free_later(struct uvs__agenda *a, uintptr_t stripe, struct uvs__freed *f,
                            uint32_t slot);
void uvs__agenda_free_now(struct uvs__agenda *a, uintptr_t stripe, struct uvs__freed *f);

static inline struct uvs__slot *uvs__agenda_slot(const struct uvs__agenda *a, uint32_t slot) {
  uint32_t offset;
  unsigned k = uvs__chunk_of(slot, &offset);

  return (struct uvs__slot *)(void *)a->slots.chunk[k] + offset; /* uvs__slab_at, of a known size */
}

static inline struct uvs__link *uvs__agenda_link(const struct uvs__agenda *a, uint32_t slot) {
  uint32_t offset;
  unsigned k = uvs__chunk_of(slot, &offset);

  return &a->links[k][offset];
}

/* Of a task that has a lane; the loop's. */
static inline struct uvs__link *uvs__agenda_lane_link(const struct uvs__agenda *a, uint32_t slot) {
  uint32_t offset;
  unsigned k = uvs__chunk_of(slot, &offset);

  return &a->lane_links[k][offset];
}

/* NULL if it has none. */
static inline struct uvs__cold *uvs__agenda_cold(const struct uvs__agenda *a, struct uvs__slot *t) {
  /* Constant from submit to FREE, but for the sequence. acquire: a stale id may find a new task's
   * record here, in a chunk that was just made; pairs with uvs__agenda_take_slot. No step: also
   * called under the pool's lock */
  uint32_t index = (uint32_t)uvs__locked_load(&t->seq_cold, acquire) & UVS__SLOT_MASK;

  return index == 0 ? NULL : uvs__slab_at(&a->colds, index - 1);
}

/* Its cold record, if it has one, will be looked at soon. */
static inline void uvs__agenda_prefetch_cold(const struct uvs__agenda *a, uint32_t slot) {
  /* relaxed: constant while it is not free */
  uint32_t index =
      (uint32_t)uvs__locked_load(&uvs__agenda_slot(a, slot)->seq_cold, relaxed) & UVS__SLOT_MASK;

  if (index != 0) {
    const char *c = uvs__slab_at(&a->colds, index - 1);

    __builtin_prefetch(c);
    __builtin_prefetch(c + 64);
  }
}

/* The rest: loop thread. */

/* The loop sees the task for the first time: its place among equals. */
void uvs__agenda_number(struct uvs__agenda *a, uint32_t slot);
/* The same of one without a cold record. */
static inline void uvs__agenda_number_plain(struct uvs__agenda *a, struct uvs__slot *t) {
  uvs__store(&t->seq_cold, ++a->last_seq << UVS__SLOT_BITS, release); /* as uvs__agenda_cold says */
}
/* uvs__agenda_take_slot and ..._give_slot of the loop's stripe, without a cold record. */
static inline int uvs__agenda_take_plain(struct uvs__agenda *a, uint32_t *ret_slot) {
  struct uvs__stripe *p = &a->slots.own;

  if (p->count == 0) {
    int rc = uvs__slab_refill(&a->slots, p);

    if (rc < 0)
      return rc;
  }
  *ret_slot = p->free[--p->count];
  __builtin_prefetch(uvs__agenda_link(a, *ret_slot), 1);
  if (p->count >= UVS__SLAB_AHEAD) /* for later */
    __builtin_prefetch(uvs__agenda_slot(a, p->free[p->count - UVS__SLAB_AHEAD]), 1);
  return 0;
}

static inline void uvs__agenda_give_plain(struct uvs__agenda *a, uint32_t slot,
                                          uint64_t generation) {
  struct uvs__stripe *p = &a->slots.own;

  if (generation >= UVS__GENERATION_MAX)
    return; /* it is used up (L18) */
  p->free[p->count++] = slot;
  if (p->count == 2 * UVS__SLAB_BATCH)
    uvs__slab_hand_back(&a->slots, p);
}

/* Put it, or move it, to where its deadline belongs. */
void uvs__agenda_insert(struct uvs__agenda *a, uint32_t slot, uint64_t w);
void uvs__agenda_remove(struct uvs__agenda *a, uint32_t slot, uint64_t w);
/* Its deadline is about to be moved later, without a word to its queue. */
static inline void uvs__agenda_push_back(struct uvs__agenda *a, uint32_t slot, uint64_t w) {
  /* relaxed: WAITING, and nobody moves it: the loop's */
  uint64_t old_ns = uvs__load(&uvs__agenda_slot(a, slot)->deadline_ns, relaxed);

  if (!uvs__is_wall(w))
    uvs__wheel_push_back(&a->wheel, slot, old_ns);
}
/* A task that was pushed back without a word to its queue has come up, and learns of it here; or
 * some have to be looked at to know who is the first. A few at a time, since they may be many: so
 * many, 0 if there is nothing to find out. */
unsigned uvs__agenda_put_back(struct uvs__agenda *a, uint64_t now_ns, uint64_t wall_ns);
/* Take out the first task that is due; UVS__NONE if none is. Finds out about lazy push-backs, all
 * of them. */
uint32_t uvs__agenda_take_due(struct uvs__agenda *a, uint64_t now_ns, uint64_t wall_ns);
/* The same of several at once, if that is cheap; perhaps none. */
unsigned uvs__agenda_take_front(struct uvs__agenda *a, uint64_t now_ns, uint32_t *ret_slots,
                                unsigned most);
/* Take out the first task, due or not; UVS__NONE if none waits. */
uint32_t uvs__agenda_take_any(struct uvs__agenda *a);
/* The first task, due or not, by clocks that say now; it stays where it is. UVS__NONE. */
uint32_t uvs__agenda_first(struct uvs__agenda *a, uint64_t now_ns, uint64_t wall_ns);
/* Deadline of the first; UVS__NEVER if there is none. `exact`: first find out about lazy
 * push-backs. If not, 0 is: look again at once, there is more to find out than a turn has time for.
 */
uint64_t uvs__agenda_next(struct uvs__agenda *a, bool exact);
/* The same of the wall clock's queue. */
uint64_t uvs__agenda_next_wall(struct uvs__agenda *a, bool exact);
/* Time limits. `unlimit` is harmless if there is none, or it was taken. */
void uvs__agenda_limit(struct uvs__agenda *a, uint32_t slot, uint64_t due_ns);
void uvs__agenda_unlimit(struct uvs__agenda *a, uint32_t slot);
uint32_t uvs__agenda_take_limit(struct uvs__agenda *a, uint64_t now_ns);
uint64_t uvs__agenda_next_limit(const struct uvs__agenda *a);
/* It will be removed soon: where it waits is wanted. */
void uvs__agenda_prefetch(struct uvs__agenda *a, uint32_t slot);
bool uvs__agenda_check(const struct uvs__agenda *a);

/* Any thread: changes of the queues since init. */
uint64_t uvs__agenda_ops(const struct uvs__agenda *a);

#endif
