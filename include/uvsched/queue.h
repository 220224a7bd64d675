/* SPDX-License-Identifier: MIT
 *
 * A delay queue of values on a scheduler: put a pointer in with a delay, take it out when it is
 * due. Any number of producers and consumers, on any threads, any number of queues.
 *
 *   queue     uvs_queue_t, on one scheduler
 *   value     a pointer of yours, never NULL; the queue only carries it
 *   item      a number that names one value in the queue; it may be stale, but never dangles
 *   due       a value comes out at its time or later, never earlier; nearest time first, equal
 *             times in the order of insertion
 *   consumer  a thread in uvs_queue_take, or a callback on the loop (uvs_queue_consume)
 *
 * WHO WAITS. Only the loop waits for a time; the queue's nearest one counts like a task's deadline.
 * Consumers sleep until somebody hands them a value, first come, first served: the loop when it
 * falls due, or a thread that finds it due in a call of its own. A value wakes one consumer at
 * most. So a delayed value reaches a sleeping consumer only while the loop runs.
 *
 * THREADS. Every function may be called from any thread unless its comment says otherwise. Those
 * that sleep are refused on the loop's thread and in bodies of the scheduler: UVS_EDEADLK.
 * All callbacks except `hold` are called without a lock, and may call anything:
 *
 *   callback             thread
 *   consume              loop
 *   drain, clear, each   the caller's, before the call returns
 *   hold                 the caller's, with the queue's lock
 *   drop                 the caller's, before the call returns
 *   on_left               that of uvs_queue_close, or the loop's (uvs_close)
 *
 * The scheduler's clock and allocator, and the queue's `hold`, are called with the queue's lock,
 * and must not use the queue. A call that looks at many values, or takes many out in one step,
 * blocks all other calls and the loop meanwhile: less than 1 us per value, but 1 s for a million.
 *
 * TIME. Signed nanoseconds on the scheduler's monotonic clock, a replaced one too; zero or negative
 * delays mean now, UVS_NEVER means never. How long a consumer is willing to wait is real time.
 *
 * ERRORS. As in uvsched.h. Any call on a queue: UV_EINVAL if it is NULL; UV_ENOTSUP in a forked
 * child, but for uvs_queue_close; UV_ESHUTDOWN after the queue, or its scheduler, was closed.
 * uvs_shutdown and its kin are for tasks: queues go on.
 */
#ifndef UVSCHED_QUEUE_H
#define UVSCHED_QUEUE_H

#include <stdio.h>

#include <uvsched/outcome.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct uvs_queue_s uvs_queue_t;
typedef uint64_t uvs_item_t; /* below 2^53; 0 names no value */

/* A value as the queue has it. This struct never grows. */
typedef struct {
  void *value;
  uvs_item_t item;
  int64_t due_ns; /* uvs_now's clock; UVS_NEVER */
} uvs_entry_t;

/* *e is valid during the call only. */
typedef void (*uvs_value_cb)(uvs_queue_t *q, const uvs_entry_t *e, void *arg);

/* ------------------------------------------------------- open and close --- */

typedef struct {
  size_t size;          /* set by the initializer; new fields go at the end */
  uvs_value_cb on_left; /* optional; close gives each value back that nobody took, in due order */
  void *arg;            /* of `on_left`, `hold` and `drop` */

  /* Optional, both or neither: for values with a reference count. uvs_queue_peek, uvs_queue_each
   * and uvs_queue_dump show values that stay in, so a consumer may take and free them meanwhile.
   * `hold` takes one reference to a value before it is shown; `drop` gives that reference back.
   *   peek        calls hold; the caller must give the reference back
   *   each, dump  call hold for every value of the snapshot, and drop once for each: after its
   *               visit, or at the end if `each` stopped before it
   * hold is called with the queue's lock, on the caller's thread. It must be brief and must not
   * call the queue. drop is called without a lock, on the caller's thread, and may call anything.
   */
  void (*hold)(void *value, void *arg);
  void (*drop)(void *value, void *arg);
} uvs_queue_options_t;

static inline void uvs_queue_options_init(uvs_queue_options_t *o) {
  memset(o, 0, sizeof *o);
  o->size = sizeof *o;
}

/**
 * Make an empty queue on s. While it is open it keeps the loop alive, as a listening socket does;
 * see uvs_queue_unref. (With UVS_KEEP_ALIVE_NEVER it does not.)
 *
 * Owns:    copies *o (NULL: defaults); holds a reference on s until its own memory goes.
 * Returns: 0 with *ret set; UV_EINVAL (NULL, a wrong size, hold without drop or drop without hold);
 *          UV_ENOMEM; UV_ESHUTDOWN (s is closed or about to be); or what uv_mutex_init answers.
 */
UVS_API int uvs_queue_open(uvs_t *s, const uvs_queue_options_t *o, uvs_queue_t **ret);

/**
 * Close: nothing more goes in or out, every consumer that sleeps leaves with UV_ECANCELED, and
 * `on_left` gets the values that nobody took. Gives the opener's reference back, so *q is gone
 * unless somebody else holds one. A callback on another thread that has its values already
 * (consume, drain, clear) may still come, and run, after close has returned here; on the loop's
 * thread, consume's does not.
 *
 * uvs_close closes the queues that are open, on the loop and at once, while bodies may still run;
 * `on_left` is over when its callback comes. The opener's reference is still to be given back then,
 * here. In a forked child: frees the child's copy, calls nothing.
 *
 * Calls:   `on_left`, before it returns (if uvs_close was first: there).
 * Returns: 0, also if uvs_close was first; UV_EALREADY.
 */
UVS_API int uvs_queue_close(uvs_queue_t *q);

/* A thread that may call during or after close takes a reference before and gives it back when it
 * is through. uvs_queue_retain returns q. Both accept NULL. */
UVS_API uvs_queue_t *uvs_queue_retain(uvs_queue_t *q);
UVS_API void uvs_queue_release(uvs_queue_t *q);

/* May this queue keep the loop alive? uvs_queue_has_ref answers 1 or 0. From another thread it
 * counts once the loop has heard of it, which is soon. */
UVS_API int uvs_queue_ref(uvs_queue_t *q);
UVS_API int uvs_queue_unref(uvs_queue_t *q);
UVS_API int uvs_queue_has_ref(uvs_queue_t *q);

UVS_API uvs_t *uvs_queue_scheduler(const uvs_queue_t *q); /* NULL of NULL */

/* ------------------------------------------------------------------- in --- */

/**
 * Put a value in, due delay_ns from now. There is no bound, and it never waits.
 *
 * Owns:    the pointer travels through; what it points to stays yours.
 * Returns: 0, with *ret_item (may be NULL) set before a thread can take the value; UV_EINVAL (NULL
 *          value); UV_ENOMEM; UV_E2BIG (2^26 - 64 values are in).
 */
UVS_API int uvs_queue_put(uvs_queue_t *q, void *value, int64_t delay_ns, uvs_item_t *ret_item);
/* The same, due at an instant of uvs_now's clock. */
UVS_API int uvs_queue_put_at(uvs_queue_t *q, void *value, int64_t due_ns, uvs_item_t *ret_item);
/* The same for n values at their due_ns, all or none, and in one step; each `item` is set. Also
 * UV_EINVAL: n is 0. */
UVS_API int uvs_queue_put_many(uvs_queue_t *q, uvs_entry_t *e, size_t n);

/* ------------------------------------------------------------------ out --- */

/* The first value, if it is due and no thread waits for it. 0 with *ret set; UV_EAGAIN: nothing is
 * due; UV_EINVAL: NULL ret. */
UVS_API int uvs_queue_poll(uvs_queue_t *q, uvs_entry_t *ret);

/**
 * Take the first value as soon as it is due.
 *
 * Thread:  not the loop's, not a body of this scheduler: UVS_EDEADLK, even if a value is due.
 * Returns: 0 with *ret set; UV_EINTR (abandoned; w may be NULL, then it cannot be); UV_ECANCELED
 *          (closed meanwhile); UV_EINVAL (NULL ret, w not initialized); UV_EBUSY (w is in use); or
 *          what uv_cond_init answers.
 */
UVS_API int uvs_queue_take(uvs_queue_t *q, uvs_waiter_t *w, uvs_entry_t *ret);

/* The same, but wait at most timeout_ns; then UV_ETIMEDOUT, never early. Zero or less only looks,
 * and may do so on any thread. */
UVS_API int uvs_queue_poll_within(uvs_queue_t *q, int64_t timeout_ns, uvs_waiter_t *w,
                                  uvs_entry_t *ret);

/**
 * Abandon the wait that sleeps with w: the wait answers UV_EINTR. If no call waits with w, the next
 * call with w answers UV_EINTR, even if a value is due. Either way the request is used up. A thread
 * that was handed a value just before keeps it, and the request is for the next call.
 *
 * Returns: 1 (a wait is abandoned), 0 (the next one will be); UV_EINVAL (NULL, not initialized, or
 *          a call waits with w in another queue or in a scheduler).
 */
UVS_API int uvs_queue_abandon(uvs_queue_t *q, uvs_waiter_t *w);

/**
 * Give each value to `cb` on the loop as it falls due, within the scheduler's budget per turn.
 * Threads that wait are served first. What cb puts in comes in a later turn. NULL ends it; another
 * cb takes over. One per queue.
 *
 * Thread:  loop.
 * Returns: 0; UV_EPERM (thread).
 */
UVS_API int uvs_queue_consume(uvs_queue_t *q, uvs_value_cb cb, void *arg);

/* Take out what is due and no thread waits for, at most n, and give it to `each` in order; all of
 * it in one step, before the first call of `each`. n of zero or less: nothing happens. How many;
 * UV_EINVAL (NULL each). */
UVS_API int uvs_queue_drain(uvs_queue_t *q, int64_t n, uvs_value_cb each, void *arg);
#define UVS_QUEUE_ALL INT64_MAX

/* Take out everything, due or not, the same way. `each` may be NULL. How many. */
UVS_API int uvs_queue_clear(uvs_queue_t *q, uvs_value_cb each, void *arg);

/* Take one value out, due or not. 0 with *ret (may be NULL) set; UV_ENOENT: it is not, or no longer
 * in. By value: the first of several; looks at all. */
UVS_API int uvs_queue_remove(uvs_queue_t *q, uvs_item_t item, uvs_entry_t *ret);
UVS_API int uvs_queue_remove_value(uvs_queue_t *q, const void *value, uvs_entry_t *ret);

/* ------------------------------------------------------------------ ask --- */

/* The first value, due or not; it stays in. A consumer may take and free it at any time. With
 * `hold` in the options the caller gets a reference to the value, and must give it back. UV_ENOENT:
 * empty; UV_EINVAL: NULL ret. */
UVS_API int uvs_queue_peek(uvs_queue_t *q, uvs_entry_t *ret);
UVS_API int uvs_queue_size(uvs_queue_t *q);                        /* how many are in, due or not */
UVS_API int uvs_queue_contains(uvs_queue_t *q, const void *value); /* 1 or 0; looks at all */

/* Visit a snapshot of all values in due order: later changes are not seen. A nonzero answer of
 * `each` ends the visit and is returned. With `hold` in the options every value of the snapshot is
 * held until its visit is over. UV_EINVAL (NULL each), UV_ENOMEM. */
typedef int (*uvs_entry_cb)(uvs_queue_t *q, const uvs_entry_t *e, void *arg);
UVS_API int uvs_queue_each(uvs_queue_t *q, uvs_entry_cb each, void *arg);

/* Print all values in due order. UV_EINVAL, UV_ENOMEM. */
UVS_API int uvs_queue_dump(uvs_queue_t *q, FILE *out);

#ifdef __cplusplus
}
#endif

#endif
