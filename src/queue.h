/* SPDX-License-Identifier: MIT
 *
 * queue: what the rooms of the delay queues share.
 *
 *   queue.c       one queue, one value: in, out, ask; any thread, under the queue's lock
 *   queue_many.c  one queue, many values
 *   queues.c      all queues of a scheduler: the loop's part
 *
 * Only the loop waits for a time. A queue wants it when somebody waits for a value that is not due
 * (a thread, or a callback); told_ns is what the loop knows of that. Who makes a queue want an
 * earlier time tells the loop, and the loop alone finds out about later ones: it comes once for
 * nothing.
 */
#ifndef UVS__QUEUE_H
#define UVS__QUEUE_H

#include "uvsched/queue.h"

#include "atomic.h"
#include "values.h"

/* A thread that sleeps in the queue; on its stack. */
struct uvs__sleeper {
  struct uvs__sleeper *before, *behind;
  uvs_waiter_t *waiter; /* its own, may be NULL */
  uv_cond_t cond;
  bool over; /* somebody has ended the wait, with: */
  int rc;
  uvs_entry_t entry;
};

struct uvs_queue_s {
  _Atomic uint32_t refs;
  /* Constant. */
  uvs_t *s; /* holds a reference on it */
  uvs_value_cb left;
  void *left_arg;

  struct uvs_queue_s *next; /* on the list of all; the loop's */

  uv_mutex_t lock; /* what follows */
  struct uvs__values values;
  struct uvs__sleeper *first, *last; /* first come, first served */
  uvs_value_cb consume;              /* the loop's; NULL if there is none */
  void *consume_arg;
  uint64_t told_ns; /* the loop looks here at this time, or before; UVS__NEVER: when it is told */
  bool closed;
  bool opener_gone; /* has given its reference back */
  bool ref;
};

/* A scheduler's queues. */
struct uvs__queues {
  /* Any thread. */
  _Atomic(struct uvs_queue_s *) fresh; /* opened, and not yet seen by the loop; a reference each */
  _Atomic bool news;                   /* the loop is to look at all queues */
  _Atomic uint32_t refs;               /* open queues that keep the loop alive */

  /* Loop thread. */
  struct uvs_queue_s *first;  /* all that it has seen; a reference each */
  struct uvs_queue_s *resume; /* whose callback is the next, if the last turn was too short */
  uint64_t next_ns;           /* the nearest time that a queue wants */
  bool stale;                 /* it may be wrong: find it again */
};

/* ---- queues.c ---- */
void uvs__queues_init(struct uvs__queues *all);
/* Any thread: false if the scheduler has closed its queues. Takes over a reference on q. */
bool uvs__queues_add(uvs_t *s, uvs_queue_t *q);
/* Any thread, no lock held: a queue wants the loop at due_ns, which is earlier than it knows. 0: it
 * is to look at all queues soon. */
void uvs__queues_tell(uvs_t *s, uint64_t due_ns);
/* Any thread, no lock held: a queue that keeps the loop alive has come (1) or gone (-1). */
void uvs__queues_hold(uvs_t *s, int by);

/* The rest: loop thread. */

/* A turn: hand over what is due, call back. True if callbacks are left for the next turn. */
bool uvs__queues_serve(uvs_t *s, uint64_t until_ns);
/* When the next value that somebody waits for is due; UVS__NEVER. `exact`: not the time of one that
 * is gone. */
uint64_t uvs__queues_next(uvs_t *s, bool exact);
/* Has something come since? Asked when next_wake is published. */
bool uvs__queues_quiet(uvs_t *s);
/* The scheduler closes: so do its queues, and none is opened any more. */
void uvs__queues_close(uvs_t *s);
/* In a forked child: let go of them. */
void uvs__queues_forget(uvs_t *s);

/* ---- queue.c ---- */
/* The door of every call: 0, UV_EINVAL, UV_ENOTSUP, UV_ESHUTDOWN. ..._locked: and the lock, if it
 * is open, else UV_ESHUTDOWN. */
int uvs__queue_enter(const uvs_queue_t *q);
int uvs__queue_enter_locked(uvs_queue_t *q);
/* Let go of the lock, and tell the loop if it would wake too late for this queue. */
void uvs__queue_unlock_and_tell(uvs_queue_t *q);
/* With the lock: hand what is due to those who wait. The first value, if it is due, else UVS__NONE.
 * Take one out. */
void uvs__queue_hand_over_locked(uvs_queue_t *q);
uint32_t uvs__queue_due_locked(uvs_queue_t *q);
uvs_entry_t uvs__queue_pop_locked(uvs_queue_t *q, uint32_t slot);
/* With the lock: when does it want the loop? UVS__NEVER. */
uint64_t uvs__queue_wants_locked(const uvs_queue_t *q);
/* Nothing more in or out; false if that was done before. Calls `left`. */
bool uvs__queue_shut(uvs_queue_t *q);

#endif
