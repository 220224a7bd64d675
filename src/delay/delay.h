/* SPDX-License-Identifier: MIT
 *
 * delay: the delay queue of the monotonic clock. It is as exact as a heap, and as cheap as a timer
 * wheel.
 *
 * Time is cut into ticks of 2^20 ns. Tasks that are due after the tick `upto` are in buckets: eight
 * levels of 64, each level 64 times as coarse as the one below. The level of a task is the position
 * of the highest base-64 digit in which its tick differs from `upto`; its bucket at that level is
 * the value of that digit. So every bucket of a level comes before every bucket of the next level,
 * no bucket wraps round, and two bitmaps find the next bucket. When tasks are taken out, `upto`
 * jumps towards the present, and never beyond it. A bucket is opened when one of its tasks is due,
 * not when its time begins.
 *
 * Tasks that are due up to the tick `upto` are in exact order (due_ns, then seq): in the front, a
 * list of tasks that came in order, or in a small heap.
 *
 * A bucket knows a lower bound of its deadlines, and the task that has this deadline. The bound is
 * exact until that task is removed or pushed back. Then the loop may wake once for nothing (L11),
 * or uvs__delay_settle finds the new bound.
 *
 * Pushing a task back to a later time only changes its due_ns. The task moves to its new bucket
 * when its old bucket is opened.
 *
 * The scheduler's lock protects the whole queue.
 */
#ifndef UVS__DELAY_H
#define UVS__DELAY_H

#include "task/table.h"

#define UVS__TICK_BITS 20 /* about 1 ms, which is what the uv_timer counts in */
#define UVS__DIGIT_BITS 6
#define UVS__DIGITS (1u << UVS__DIGIT_BITS)
#define UVS__LEVELS 8 /* 20 + 8 * 6 > 63 bits */
#define UVS__BUCKETS (UVS__LEVELS * UVS__DIGITS)
#define UVS__FRONT UVS__BUCKETS         /* in order, and due up to `upto` */
#define UVS__FALLING (UVS__BUCKETS + 1) /* tasks of a bucket that are about to be filed again */
#define UVS__LISTS (UVS__BUCKETS + 2)

struct uvs__bucket {
  struct uvs__link ends; /* a: the last, b: the first; if empty, both name the list itself */
  uint64_t last_ns;      /* the greatest deadline, if all came in order; else UINT64_MAX */
  uint64_t last_seq;
  uint64_t min_ns;   /* no deadline is earlier; UVS__NEVER if the list is empty */
  uint32_t min_slot; /* the task with this deadline, unless `stale` */
  bool stale;        /* min_ns may be too early */
};

struct uvs__delay {
  struct uvs__table *table;
  uint32_t count;
  uint32_t levels;       /* bit l: level l is not empty */
  uint64_t upto;         /* a tick; no bucket has a task of this tick or before */
  uint64_t soonest_ns;   /* the earliest deadline put in since the owner last reset this field */
  uint64_t ops;          /* tasks put in, moved, taken out */
  uint64_t falling_upto; /* a tick: the end of the bucket that the falling tasks come from */
  uint64_t digits[UVS__LEVELS]; /* bit d: bucket d of this level is not empty */
  struct uvs__bucket list[UVS__LISTS];
};

void uvs__delay_init(struct uvs__delay *d, struct uvs__table *t, uint64_t now_ns);

/* Order: due_ns, which is below UVS__NEVER, then seq. now_ns: the time, or a little before. */
void uvs__delay_put(struct uvs__delay *d, uint32_t slot, uint64_t now_ns);
void uvs__delay_remove(struct uvs__delay *d, uint32_t slot);
/* The task's due_ns becomes due_ns, which is below UVS__NEVER. */
void uvs__delay_move(struct uvs__delay *d, uint32_t slot, uint64_t due_ns, uint64_t now_ns);

/* No task is due before this; UVS__NEVER: there is no task. */
uint64_t uvs__delay_bound(const struct uvs__delay *d);
/* Does a task belong before (due_ns, seq)? If the bound is not exact, the answer `true` may be
 * wrong. */
bool uvs__delay_is_before(const struct uvs__delay *d, uint64_t due_ns, uint64_t seq);
/* Takes out the next due task; UVS__NONE: none. Lowers *steps by the number of tasks that it looks
 * at. At 0 the call gives up, and more tasks may be due. */
uint32_t uvs__delay_take(struct uvs__delay *d, uint64_t now_ns, int *steps);
/* Makes the bound exact. False: *steps came to 0 before that. */
bool uvs__delay_settle(struct uvs__delay *d, int *steps);
/* The first task, due or not; UVS__NONE. Needs an exact bound. */
uint32_t uvs__delay_first(const struct uvs__delay *d);

bool uvs__delay_check(const struct uvs__delay *d);

#endif
