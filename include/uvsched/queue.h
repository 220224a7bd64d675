/* SPDX-License-Identifier: MIT
 *
 * A delay queue of values on a scheduler: put a pointer in with a delay, take it out when it is
 * due. A scheduler may have any number of queues. A queue may have any number of producers and
 * consumers, on any threads.
 *
 *   queue     uvs_queue_t, on one scheduler
 *   value     a pointer of yours, never NULL; the queue only carries it
 *   item      a number that names one value in the queue; it may be stale, but never dangles
 *   due       a value comes out at its due time or later, never earlier. The nearest due time comes
 *             out first; equal due times in the order of insertion.
 *   consumer  a thread in uvs_queue_take, or a callback on the loop (uvs_queue_consume)
 *
 * WAITING. Only the loop waits for due times: the queue's nearest due time counts like a task's
 * deadline. Consumers sleep, without a timer for the due time, until they are handed a value, first
 * come, first served. The loop hands over a value when it falls due. So does a thread that finds a
 * due value during one of its own calls. A value wakes at most one consumer. A delayed value
 * reaches a sleeping consumer only while the loop runs.
 *
 * THREADS. Any thread may call any function, unless its comment says otherwise. Functions that
 * sleep are refused on the loop thread and in bodies of the scheduler: UVS_EDEADLK. All callbacks
 * except `hold` are called without a lock, and may call anything:
 *
 *   callback             thread
 *   consume              the loop thread
 *   drain, clear, each   the caller's, before the call returns
 *   hold                 the caller's, with the queue's lock
 *   drop                 the caller's, before the call returns
 *   on_left              that of uvs_queue_close, or the loop thread (uvs_close)
 *
 * The scheduler's clock and allocator, and the queue's `hold`, are called with the queue's lock,
 * and must not use the queue. A call that looks at many values, or takes many values out in one
 * step, blocks all other calls and the loop for that time: less than 1 us per value, but 1 s for a
 * million.
 *
 * TIME. Due times and delays are signed nanoseconds on the scheduler's monotonic clock, also if
 * that clock is replaced. A delay of zero or less means now; UVS_NEVER means never. The time-out of
 * a consumer is real time.
 *
 * ERRORS. As in uvsched.h. Every call on a queue answers UV_EINVAL if the queue is NULL, UV_ENOTSUP
 * in a forked child (except uvs_queue_close), and UV_ESHUTDOWN after the queue or its scheduler was
 * closed. uvs_shutdown and the other shutdown calls end tasks only: queues go on.
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

/* A value in the queue. This struct never grows. */
typedef struct {
  void *value;
  uvs_item_t item;
  int64_t due_ns; /* uvs_now's clock; UVS_NEVER */
} uvs_entry_t;

/* *e is valid during the call only. arg is the one given to uvs_queue_consume, uvs_queue_drain or
 * uvs_queue_clear; on_left gets the arg of the options. */
typedef void (*uvs_value_cb)(uvs_queue_t *q, const uvs_entry_t *e, void *arg);

/* ------------------------------------------------------- open and close --- */

typedef struct {
  size_t size;          /* set by the initializer; new fields go at the end */
  uvs_value_cb on_left; /* optional; close calls it for each value still in, in due order */
  void *arg;            /* of `on_left`, `hold` and `drop` */

  /* For values with a reference count. Optional; set both or neither. uvs_queue_peek,
   * uvs_queue_each and uvs_queue_dump show values that stay in the queue. A consumer may take and
   * free such a value at the same time. `hold` takes one reference to a value before the value is
   * shown; `drop` gives that reference back.
   *   peek        calls hold; the caller must give the reference back
   *   each, dump  call hold for every value of the snapshot, and drop once for every value: after
   *               the visit of the value, or at the end if `each` stopped before that visit
   * hold is called with the queue's lock, on the caller's thread. hold must be brief and must not
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
 * Make an empty queue on s. An open queue keeps the loop alive, as a listening socket does. To
 * change that, see uvs_queue_unref. (With UVS_KEEP_ALIVE_NEVER a queue does not keep the loop
 * alive.)
 *
 * Owns:    copies *o (NULL: defaults); holds a reference to s until the queue is freed.
 * Returns: 0 with *ret set; UV_EINVAL (NULL, a wrong size, hold without drop or drop without hold);
 *          UV_ENOMEM; UV_ESHUTDOWN (s is closed or about to be); or what uv_mutex_init answers.
 */
UVS_API int uvs_queue_open(uvs_t *s, const uvs_queue_options_t *o, uvs_queue_t **ret);

/**
 * Close a queue: no value goes in or out any more, every sleeping consumer gets UV_ECANCELED, and
 * `on_left` gets the values that nobody took. The call gives the opener's reference back, so *q is
 * freed unless a thread holds a reference.
 *
 * Another thread may already have taken values out for its callback (consume, drain, clear). That
 * callback may then still be called, or still run, after uvs_queue_close has returned. Exception:
 * after uvs_queue_close on the loop thread, the callback of consume is not called any more.
 *
 * uvs_close closes the open queues at once, on the loop, while bodies may still run. Every
 * `on_left` has returned before the callback of uvs_close. The opener must still call
 * uvs_queue_close, to give its reference back. In a forked child uvs_queue_close frees the child's
 * copy and calls nothing.
 *
 * Calls:   `on_left`, before the call returns (if uvs_close was first, uvs_close calls it).
 * Returns: 0, also if uvs_close was first; UV_EALREADY (uvs_queue_close was called before).
 */
UVS_API int uvs_queue_close(uvs_queue_t *q);

/* A thread that may call during or after close takes a reference before, and gives it back when it
 * has finished. uvs_queue_retain returns q. Both accept NULL. */
UVS_API uvs_queue_t *uvs_queue_retain(uvs_queue_t *q);
UVS_API void uvs_queue_release(uvs_queue_t *q);

/* May this queue keep the loop alive? uvs_queue_has_ref answers 1 or 0. A change from another
 * thread counts once the loop has noticed it, which is soon. */
UVS_API int uvs_queue_ref(uvs_queue_t *q);
UVS_API int uvs_queue_unref(uvs_queue_t *q);
UVS_API int uvs_queue_has_ref(uvs_queue_t *q);

UVS_API uvs_t *uvs_queue_scheduler(const uvs_queue_t *q); /* NULL if q is NULL */

/* ------------------------------------------------------------------- in --- */

/**
 * Put a value in, due delay_ns from now. The call never waits: a queue has no bound except that of
 * UV_E2BIG.
 *
 * Owns:    the queue carries the pointer; the object that it points to stays yours.
 * Returns: 0, with *ret_item (may be NULL) set before a thread can take the value; UV_EINVAL (NULL
 *          value); UV_ENOMEM; UV_E2BIG (2^26 - 64 values are in the queue).
 */
UVS_API int uvs_queue_put(uvs_queue_t *q, void *value, int64_t delay_ns, uvs_item_t *ret_item);
/* As uvs_queue_put, with the value due at an instant of uvs_now's clock. */
UVS_API int uvs_queue_put_at(uvs_queue_t *q, void *value, int64_t due_ns, uvs_item_t *ret_item);
/* As uvs_queue_put_at, for n values, each at its due_ns: all or none, in one step. Each `item` is
 * set. Also UV_EINVAL (n is 0). */
UVS_API int uvs_queue_put_many(uvs_queue_t *q, uvs_entry_t *e, size_t n);

/* ------------------------------------------------------------------ out --- */

/* Take the first value, if it is due and no thread waits for it. Never waits. 0 with *ret set;
 * UV_EAGAIN (nothing is due); UV_EINVAL (NULL ret). */
UVS_API int uvs_queue_poll(uvs_queue_t *q, uvs_entry_t *ret);

/**
 * Take the first value as soon as it is due. If w is not NULL, uvs_queue_abandon can end the wait.
 *
 * Thread:  any but the loop thread and bodies of this scheduler: UVS_EDEADLK, even if a value is
 *          due.
 * Returns: 0 with *ret set; UV_EINTR (abandoned); UV_ECANCELED (the queue was closed during the
 *          wait); UV_EINVAL (NULL ret, w not initialized); UV_EBUSY (w is in use); or what
 *          uv_cond_init answers.
 */
UVS_API int uvs_queue_take(uvs_queue_t *q, uvs_waiter_t *w, uvs_entry_t *ret);

/* As uvs_queue_take, but waits at most timeout_ns; then UV_ETIMEDOUT, never early. With zero or
 * less the call only looks, and any thread may make it. */
UVS_API int uvs_queue_poll_within(uvs_queue_t *q, int64_t timeout_ns, uvs_waiter_t *w,
                                  uvs_entry_t *ret);

/**
 * Abandon the call that waits with w: that call answers UV_EINTR. If no call waits with w, the next
 * call with w answers UV_EINTR, even if a value is due. In both cases only one call is
 * abandoned. A thread that was just handed a value keeps the value, and the next call with w is
 * abandoned.
 *
 * Returns: 1 (a wait is abandoned); 0 (the next call will be); UV_EINVAL (NULL, not initialized, or
 *          a call waits with w in another queue or in a scheduler).
 */
UVS_API int uvs_queue_abandon(uvs_queue_t *q, uvs_waiter_t *w);

/**
 * Call `cb` on the loop for each value that falls due, within the scheduler's budget per loop pass.
 * Threads that wait are served first. A value that cb puts in is given to cb in a later pass. A
 * queue has at most one cb: a new cb replaces the old one, and NULL removes it.
 *
 * Thread:  loop thread.
 * Returns: 0; UV_EPERM (thread).
 */
UVS_API int uvs_queue_consume(uvs_queue_t *q, uvs_value_cb cb, void *arg);

/* Take out at most n values that are due and that no thread waits for, and give them to `each` in
 * order. All are taken out in one step, before the first call of `each`. If n is zero or less,
 * nothing happens. Returns the number of values; UV_EINVAL (NULL each). */
UVS_API int uvs_queue_drain(uvs_queue_t *q, int64_t n, uvs_value_cb each, void *arg);
#define UVS_QUEUE_ALL INT64_MAX

/* As uvs_queue_drain, for all values, due or not. `each` may be NULL. Returns the number of values.
 */
UVS_API int uvs_queue_clear(uvs_queue_t *q, uvs_value_cb each, void *arg);

/* Take one value out, due or not. 0 with *ret (may be NULL) set; UV_ENOENT (the value is not in the
 * queue, or not any more). If a pointer is in several times, uvs_queue_remove_value takes out the
 * first. It looks at all values. */
UVS_API int uvs_queue_remove(uvs_queue_t *q, uvs_item_t item, uvs_entry_t *ret);
UVS_API int uvs_queue_remove_value(uvs_queue_t *q, const void *value, uvs_entry_t *ret);

/* ------------------------------------------------------------------ ask --- */

/* Show the first value, due or not. The value stays in the queue, so a consumer may take and free
 * it at any time. With `hold` in the options the caller gets a reference to the value, and must
 * give the reference back. UV_ENOENT (the queue is empty); UV_EINVAL (NULL ret). */
UVS_API int uvs_queue_peek(uvs_queue_t *q, uvs_entry_t *ret);
UVS_API int uvs_queue_size(uvs_queue_t *q); /* how many values, due or not */
/* 1 or 0. Looks at all values; compares pointers. */
UVS_API int uvs_queue_contains(uvs_queue_t *q, const void *value);

/* Visit a snapshot of all values, in due order. Later changes are not seen. If `each` returns a
 * nonzero value, the visit ends, and uvs_queue_each returns that value. With `hold` in the options
 * every value of the snapshot is held until its visit is over. arg: that of uvs_queue_each.
 * UV_EINVAL (NULL each); UV_ENOMEM. */
typedef int (*uvs_entry_cb)(uvs_queue_t *q, const uvs_entry_t *e, void *arg);
UVS_API int uvs_queue_each(uvs_queue_t *q, uvs_entry_cb each, void *arg);

/* Print all values, in due order. UV_EINVAL; UV_ENOMEM. */
UVS_API int uvs_queue_dump(uvs_queue_t *q, FILE *out);

#ifdef __cplusplus
}
#endif

#endif
