/* SPDX-License-Identifier: MIT
 *
 * Where bodies run: an executor is a small table of functions, yours or one of these two.
 *
 *   executor  uvs_executor_t: takes a function and calls it once, on a thread of its choice
 *   threads   uvs_threads_t: a pool of own threads, which can be resized while it works
 *   inline    uvs_inline_executor: no thread at all; the function runs inside `submit`
 *   job       what was given to `submit`: fn and arg
 *
 * THREADS. Every function may be called from any thread unless its comment says otherwise, also
 * from a job. Jobs run without a lock, and may call anything. The allocator is called on any
 * thread, concurrently, and with locks of the pool held: it must not call the pool.
 *
 * ERRORS. As in uvsched.h. Any call on a pool of threads: UV_EINVAL if it is NULL.
 *
 * FORK. A forked child has a copy of the pool's memory, but none of its threads: the pool does not
 * exist there. Any call answers UV_ENOTSUP, `submit` and `concurrency` too, but for
 * uvs_threads_close, which frees that memory. A job that forks and returns in the child as well
 * ends its thread there, and so the child if that has no other; no other job runs in the child.
 */
#ifndef UVSCHED_EXECUTOR_H
#define UVSCHED_EXECUTOR_H

#include <uvsched.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------- executor --- */

typedef struct uvs_executor_s {
  size_t size; /* set by the initializer; new fields go at the end */

  /* Call fn(arg) once, on any thread, now or later, also before it returns. 0 or positive; a
   * negative code: it was refused, and fn is never called. Must be callable from any thread, and
   * from fn. In a forked child nothing is called that was submitted in the parent. */
  int (*submit)(void *self, void (*fn)(void *arg), void *arg);

  /* Optional: how many jobs at once make sense now. May change over time: asked whenever a job is
   * submitted, and inside uvs_open and uvs_lane_open, on their thread. NULL: 1. */
  int (*concurrency)(void *self);

  /* Optional: no more will be submitted; let go of everything. Only called on an executor that the
   * library itself made. */
  void (*close)(void *self);

  void *self; /* the first argument of each */
} uvs_executor_t;

static inline void uvs_executor_init(uvs_executor_t *e) {
  memset(e, 0, sizeof *e);
  e->size = sizeof *e;
}

/* The executor that runs fn inside `submit`, on the caller's thread, and answers when fn has
 * returned. A fn that submits nests. Never refuses, but a NULL fn: UV_EINVAL. One per process, and
 * always there. */
UVS_API const uvs_executor_t *uvs_inline_executor(void);

/* -------------------------------------------------------------- threads --- */

typedef struct uvs_threads_s uvs_threads_t;

#define UVS_THREADS_MAX 1024
#define UVS_THREADS_NAME_MAX 10 /* bytes; the system has 15, and the number wants up to five */

typedef struct {
  size_t size; /* set by the initializer; new fields go at the end */
  int threads; /* 1 .. UVS_THREADS_MAX; there is no default */

  /* Shown by top and ps (Linux), as name-0, name-1 ...: up to UVS_THREADS_NAME_MAX bytes. Each
   * thread has the lowest number that is free when it is made. NULL: "uvs". */
  const char *name;

  size_t stack_size;         /* of each thread, as uv_thread_create_ex takes it; 0: the system's */
  uvs_allocator_t allocator; /* all NULL: malloc and free */
} uvs_threads_options_t;

static inline void uvs_threads_options_init(uvs_threads_options_t *o) {
  memset(o, 0, sizeof *o);
  o->size = sizeof *o;
}

/**
 * Make a pool of own threads. They all exist when it returns.
 *
 * Owns:    copies *o, and the name.
 * Returns: 0 with *ret set; UV_EINVAL (NULL, a wrong size, threads out of range, a name that is too
 *          long, half an allocator); UV_ENOMEM; or what libuv's init calls and uv_thread_create_ex
 *          answer. On error no thread is left.
 */
UVS_API int uvs_threads_open(const uvs_threads_options_t *o, uvs_threads_t **ret);

/**
 * The pool as an executor, until it is closed. Jobs start in the order in which they were
 * submitted. Its `concurrency` is uvs_threads_size; its `close` is uvs_threads_close.
 *
 * `submit`: there is no bound, and it never waits for a job. Returns 0; UV_EINVAL (NULL fn);
 *          UV_ENOMEM; UV_ESHUTDOWN (uvs_threads_close was called); UV_ENOTSUP.
 * Returns: the table; NULL of NULL.
 */
UVS_API const uvs_executor_t *uvs_threads_executor(uvs_threads_t *p);

/* How many threads it was last told to have. */
UVS_API int uvs_threads_size(uvs_threads_t *p);

/**
 * Set the number of threads. If there are to be more, all new threads exist when the call returns.
 * If there are to be fewer, idle threads leave at once, and busy threads after their present job if
 * there are still too many. No job is lost. Concurrent calls run one after the other.
 *
 * May wait for the end of a thread that has left; never for a job.
 *
 * Returns: 0; UV_EINVAL (out of range); UV_ESHUTDOWN (being closed); UV_ENOMEM, or what
 *          uv_thread_create_ex answers, and then nothing has changed.
 */
UVS_API int uvs_threads_resize(uvs_threads_t *p, int threads);

/**
 * Close: refuses new jobs (UV_ESHUTDOWN), also from its own jobs, runs the jobs that were submitted
 * before, waits for them, ends all threads and frees the pool. Code outside these jobs must not use
 * the pool any more when the call returns. In a forked child: frees the child's copy and runs
 * nothing; memory that a thread of the parent was changing at the fork is not freed.
 *
 * Thread:  not one of its own: UVS_EDEADLK, and nothing happened.
 * Returns: 0; UV_EALREADY (another thread is in it).
 */
UVS_API int uvs_threads_close(uvs_threads_t *p);

#ifdef __cplusplus
}
#endif

#endif
