/* SPDX-License-Identifier: MIT
 *
 * queue: what the files of queue/ share.
 *
 *   queue.c   one queue: open and close, in, out; any thread, under the queue's lock
 *   ask.c     one queue: its contents; any thread, under the queue's lock
 *   queues.c  all queues of a scheduler: the loop's part
 *
 * Each queue has a lock of its own. Lock order: the queue's lock, then the scheduler's lock. The
 * scheduler calls the functions of struct uvs__queues without its lock. The queue's lock may be
 * held while clock, allocator and `hold` are called; no other user code runs under it.
 *
 * Only the loop waits for deadlines. A queue wants the loop when a thread or a callback waits for a
 * value that is not due. told_ns is the time that the loop knows. A thread that makes a queue want
 * an earlier time tells the loop. Nobody tells the loop of a later time: the loop looks once for
 * nothing, and then finds the later time.
 */
#ifndef UVS__QUEUE_QUEUE_H
#define UVS__QUEUE_QUEUE_H

#include "uvsched/queue.h"

#include "api/api.h"
#include "queue/values.h"

/* A thread that waits for a value; a record on its stack. */
struct uvs__taker {
  struct uvs__sleeper z; /* first: the caller's uvs_waiter_t points to it */
  struct uvs__taker *next, **link;
  int rc; /* what its call returns */
  uvs_entry_t entry;
};

struct uvs_queue_s {
  _Atomic uint32_t refs;
  _Atomic bool opener_gone; /* the opener's reference was given back */

  /* Constant. */
  uvs_t *s; /* holds a reference on it */
  uvs_queue_options_t options;

  /* All queues of s. Written under the scheduler's lock; the loop thread reads it without. */
  struct uvs_queue_s *next;

  uv_mutex_t lock; /* protects what follows */
  struct uvs__values values;
  struct uvs__taker *first, **end; /* first come, first served */
  uvs_value_cb consume;            /* called on the loop; NULL: none */
  void *consume_arg;
  uint64_t told_ns; /* the loop looks no later than this; UVS__NEVER: only when it is told */
  bool closed;
  bool ref; /* an open queue with `ref` is counted in s->queues.refs */
};

/* ---- queues.c: any thread, without the scheduler's lock ---- */

/* Puts q on the scheduler's list, which takes a reference. False: the scheduler has closed its
 * queues. */
bool uvs__queues_add(uvs_t *s, uvs_queue_t *q);
/* due_ns: a queue wants the loop at this time (UVS__NEVER: no change). refs: how many more, or
 * fewer, open queues keep the loop alive. closed: a queue was closed and must leave the list. */
void uvs__queues_tell(uvs_t *s, uint64_t due_ns, int refs, bool closed);

/* ---- queue.c ---- */

/* Every call begins here. 0: the queue is open, and now locked; UV_EINVAL, UV_ENOTSUP,
 * UV_ESHUTDOWN. valid: the other arguments are valid. */
int uvs__queue_enter(uvs_queue_t *q, bool valid);
/* Unlocks, tells the loop if it would look too late, and returns rc. */
int uvs__queue_leave(uvs_queue_t *q, int rc);
/* Closes the queue: no value goes in or out any more. Calls `on_left` for each value that is left.
 * Does nothing if the queue is closed already, or in a forked child. */
void uvs__queue_shut(uvs_queue_t *q);

/* The rest: queue locked. */

/* Hands due values to the threads that wait. */
void uvs__queue_hand_over(uvs_queue_t *q);
/* Is the first value due? */
bool uvs__queue_is_due(const uvs_queue_t *q);
/* Takes the first value out. */
uvs_entry_t uvs__queue_pop(uvs_queue_t *q);
/* When does the queue want the loop? UVS__NEVER: not at all. */
uint64_t uvs__queue_wants(const uvs_queue_t *q);

#endif
