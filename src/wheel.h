/* SPDX-License-Identifier: MIT
 *
 * wheel: the delay queue of the monotonic clock. Exact as a heap, cheap as a wheel.
 *
 * Time is cut into ticks of 2^20 ns. What is due after the tick `upto` lies in buckets: eight
 * levels of 64, each level 64 times as coarse as the one below. An entry is at the level of the
 * highest digit (of base 64) in which its tick differs from `upto`, in the bucket of its digit
 * there. So all of a level comes before all of the next, no bucket wraps round, and the next bucket
 * is found by two bitmaps. No tick has to pass by: `upto` jumps from bucket to bucket, when what is
 * in front of them runs out.
 *
 * What is due up to then is in exact order (deadline, then sequence): in the small heap, or in the
 * front, a list of what came in order anyway and need not pay for a heap. The first of all is the
 * earlier of the two; uvs__wheel_step() brings it there.
 *
 * The rule that is easy to break: a list does not say for when its entries were filed, their slots
 * do. So whoever moves a deadline later without a word to the queue says so before
 * (uvs__wheel_push_back), or is another thread, and then INBOX or MOVING is set in the word.
 *
 * Entries are linked through the slots' dense links: nothing here allocates but the heap's room.
 */
#ifndef UVS__WHEEL_H
#define UVS__WHEEL_H

#include "heap.h"
#include "slab.h"
#include "task.h"

#define UVS__TICK_BITS 20 /* about the timer's ms */
#define UVS__DIGIT_BITS 6
#define UVS__DIGITS (1u << UVS__DIGIT_BITS)
#define UVS__LEVELS 8 /* 20 + 8 * 6 > 63 bits */
#define UVS__BUCKETS (UVS__LEVELS * UVS__DIGITS)
#define UVS__FRONT UVS__BUCKETS         /* in order, and due up to `upto` */
#define UVS__FALLING (UVS__BUCKETS + 1) /* a bucket on its way down */
#define UVS__LISTS (UVS__BUCKETS + 2)
/* In a link: not a slot, but the list itself. The first's `a` and the last's `b`. */
#define UVS__LIST_MARK UINT32_C(0x80000000)

#define UVS__UNORDERED UINT64_MAX

/* A list through the links. */
struct uvs__bucket {
  struct uvs__link ends; /* a: the last, b: the first; an empty list's are itself */
  /* The greatest that was appended, if they came in order; else last_ns is UVS__UNORDERED, the
   * maximum, so that nothing comes after it. */
  uint64_t last_ns, last_key;
};

struct uvs__wheel {
  struct uvs__link **links; /* borrowed; chunked by slot. In the heap `a` is the position and `b`
                               UVS__NONE; on a list they are previous and next */
  const struct uvs__slab *slots; /* borrowed */
  uint32_t count;                /* of all */
  uint32_t below;                /* that the heap got since `upto` moved */
  uint64_t upto;                 /* a tick: what is in a bucket is after it */
  uint64_t now_ns;               /* a hint: that was the time not long ago */
  uint64_t soonest_ns;           /* of what was put or moved since it was set to UVS__NEVER */
  uint64_t falling_ns;           /* nothing on the falling list was filed for before */
  uint64_t falling_upto;         /* a tick, nor for after */
  uint32_t levels;               /* bit l: level l is not empty */
  uint64_t digits[UVS__LEVELS];  /* bit d: its bucket d is not */
  struct uvs__heap heap;
  struct uvs__bucket list[UVS__LISTS];
  /* Since init; anybody reads. */
  _Atomic uint64_t puts, moves, removals;
};

void uvs__wheel_init(struct uvs__wheel *w, struct uvs__link **links, const struct uvs__slab *slots);
void uvs__wheel_destroy(struct uvs__wheel *w, const uvs_allocator_t *m);
/* As uvs__heap_reserve. */
int uvs__wheel_reserve(struct uvs__wheel *w, const uvs_allocator_t *m, size_t n);

/* The rest: loop thread. */

/* The parts of what follows that are not for every call. */
void uvs__wheel_start_over(struct uvs__wheel *w);
void uvs__wheel_file_below(struct uvs__wheel *w, uint32_t slot, uint64_t deadline_ns, uint64_t key);
void uvs__wheel_emptied(struct uvs__wheel *w, uint32_t list);
void uvs__wheel_push_back_below(struct uvs__wheel *w, uint32_t slot, uint64_t old_ns);

static inline struct uvs__link *uvs__wheel_link(const struct uvs__wheel *w, uint32_t slot) {
  uint32_t offset;
  unsigned k = uvs__chunk_of(slot, &offset);

  return &w->links[k][offset];
}

/* Of a slot, or of a list. */
static inline struct uvs__link *uvs__wheel_end(struct uvs__wheel *w, uint32_t i) {
  return (i & UVS__LIST_MARK) != 0 ? &w->list[i & ~UVS__LIST_MARK].ends : uvs__wheel_link(w, i);
}

static inline bool uvs__wheel_has(const struct uvs__wheel *w, uint32_t slot) {
  return uvs__wheel_link(w, slot)->a != UVS__NONE;
}

/* It is on no list. */
static inline void uvs__wheel_append(struct uvs__wheel *w, uint32_t list, uint32_t slot,
                                     uint64_t deadline_ns, uint64_t key) {
  struct uvs__bucket *b = &w->list[list];
  uint32_t last = b->ends.a;
  bool in_order = deadline_ns > b->last_ns || (deadline_ns == b->last_ns && key > b->last_key);

  *uvs__wheel_link(w, slot) = (struct uvs__link){last, UVS__LIST_MARK | list};
  uvs__wheel_end(w, last)->b = slot;
  b->ends.a = slot;
  b->last_ns = in_order ? deadline_ns : UVS__UNORDERED;
  b->last_key = key;
}

/* Which bucket is for this tick, which is after `upto`? */
static inline uint32_t uvs__wheel_bucket(const struct uvs__wheel *w, uint64_t tick) {
  unsigned level = (63u - (unsigned)__builtin_clzll(tick ^ w->upto)) / UVS__DIGIT_BITS;

  return level * UVS__DIGITS + (uint32_t)(tick >> (level * UVS__DIGIT_BITS)) % UVS__DIGITS;
}

/* To where it belongs; it is nowhere. */
static inline void uvs__wheel_file(struct uvs__wheel *w, uint32_t slot, uint64_t deadline_ns,
                                   uint64_t key) {
  uint64_t tick = deadline_ns >> UVS__TICK_BITS;
  uint32_t list;

  if (tick <= w->upto) {
    uvs__wheel_file_below(w, slot, deadline_ns, key);
    return;
  }
  list = uvs__wheel_bucket(w, tick);
  w->digits[list / UVS__DIGITS] |= UINT64_C(1) << list % UVS__DIGITS;
  w->levels |= 1u << list / UVS__DIGITS;
  uvs__wheel_append(w, list, slot, deadline_ns, key);
}

static inline void uvs__wheel_unlink(struct uvs__wheel *w, struct uvs__link *k) {
  uint32_t previous = k->a;
  uint32_t next = k->b;

  *k = (struct uvs__link){UVS__NONE, UVS__NONE};
  uvs__wheel_end(w, previous)->b = next;
  uvs__wheel_end(w, next)->a = previous;
  if (previous == next)
    uvs__wheel_emptied(w, next & ~UVS__LIST_MARK);
}

/* relaxed, both: a count, with one writer */
static inline void uvs__wheel_tally(_Atomic uint64_t *n) {
  uvs__locked_store(n, uvs__locked_load(n, relaxed) + 1, relaxed);
}

static inline void uvs__wheel_note(struct uvs__wheel *w, uint64_t deadline_ns) {
  if (deadline_ns < w->soonest_ns)
    w->soonest_ns = deadline_ns;
}

/* It is not in it. The deadline is that of the slot, the key as in the heap. */
static inline void uvs__wheel_put(struct uvs__wheel *w, uint32_t slot, uint64_t deadline_ns,
                                  uint64_t key) {
  UVS_ASSERT(!uvs__wheel_has(w, slot));
  uvs__wheel_tally(&w->puts);
  uvs__wheel_note(w, deadline_ns);
  w->count++;
  if (w->levels == 0)
    uvs__wheel_start_over(w);
  uvs__wheel_file(w, slot, deadline_ns, key);
}

/* These need uvs__wheel_has. */
static inline void uvs__wheel_remove(struct uvs__wheel *w, uint32_t slot) {
  struct uvs__link *k = uvs__wheel_link(w, slot);

  UVS_ASSERT(k->a != UVS__NONE);
  uvs__wheel_tally(&w->removals);
  w->count--;
  if (k->b == UVS__NONE)
    uvs__heap_remove(&w->heap, slot);
  else
    uvs__wheel_unlink(w, k);
}
/* It will be removed soon: where it waits is wanted. */
static inline void uvs__wheel_prefetch(struct uvs__wheel *w, uint32_t slot) {
  struct uvs__link k = *uvs__wheel_link(w, slot);

  if (k.b == UVS__NONE) {
    uvs__heap_prefetch(&w->heap, slot);
  } else {
    __builtin_prefetch(uvs__wheel_end(w, k.a), 1);
    __builtin_prefetch(uvs__wheel_end(w, k.b), 1);
  }
}

void uvs__wheel_move(struct uvs__wheel *w, uint32_t slot, uint64_t deadline_ns, uint64_t key);
/* The deadline in its slot, old_ns, is about to be moved later, and the queue will find out when it
 * comes up. */
static inline void uvs__wheel_push_back(struct uvs__wheel *w, uint32_t slot, uint64_t old_ns) {
  uint64_t tick = old_ns >> UVS__TICK_BITS;

  /* Without a look at the link: it may be in a bucket that is marked already, or in the heap after
   * all, and then this one is marked for nothing. */
  if (tick > w->upto)
    w->list[uvs__wheel_bucket(w, tick)].last_ns = UVS__UNORDERED;
  else
    uvs__wheel_push_back_below(w, slot, old_ns);
}

/* Up to a few entries on the way to the first of all, so many as it returns; 0: it is where it
 * should be. */
unsigned uvs__wheel_step(struct uvs__wheel *w);
/* The first of all, with the deadline that the queue knows; false if there is none. Needs that
 * uvs__wheel_step has nothing to do. */
bool uvs__wheel_head(struct uvs__wheel *w, struct uvs__heap_entry *ret);
/* Take out the first ones, as long as they are due by then, came in order, and are next; perhaps
 * none. */
unsigned uvs__wheel_take_front(struct uvs__wheel *w, uint64_t until_ns, uint32_t *ret_slots,
                               unsigned most);
bool uvs__wheel_check(const struct uvs__wheel *w);

#endif
