/* SPDX-License-Identifier: MIT
 *
 * Executors: where bodies run. An executor is a small table of functions. Write your own, or use
 * one of the two that are here: a pool of threads, and the inline executor.
 *
 *   executor  uvs_executor_t: takes a function and calls it once, on a thread of its choice
 *   threads   uvs_threads_t: a pool of own threads, which can be resized while it works
 *   inline    uvs_inline_executor: no thread at all; the function runs inside `submit`
 *   job       what was given to `submit`: fn and arg
 *
 * THREADS. Any thread may call any function, also from inside a job, unless the function's comment
 * says otherwise. Jobs run without a lock, and may call anything. The allocator is called on any
 * thread, concurrently, and with locks of the pool held. So the allocator must not call the pool.
 *
 * ERRORS. As in uvsched.h. Every call on a pool of threads answers UV_EINVAL if the pool is NULL.
 *
 * FORK. A forked child has a copy of the pool's memory, but none of its threads, so the pool does
 * not work there. Every call in the child answers UV_ENOTSUP, `submit` and `concurrency` too. The
 * exception is uvs_threads_close, which frees that memory. If a job forks and also returns in the
 * child, its thread ends in the child. If the child has no other thread, the child ends too. No
 * other job runs in the child.
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

  /* Call fn(arg) once, on any thread: later, or before `submit` returns. Returns 0 or a positive
   * number if the job is accepted. A negative code means that the job is refused, and fn is never
   * called. `submit` must be callable from any thread, and from fn. In a forked child no fn is
   * called that was submitted in the parent. */
  int (*submit)(void *self, void (*fn)(void *arg), void *arg);

  /* Optional: how many jobs at once make sense now. The answer may change over time. The function
   * is called whenever a job is submitted, and inside uvs_open and uvs_lane_open, on the thread of
   * that call. NULL means 1. */
  int (*concurrency)(void *self);

  /* Optional: no more jobs will be submitted; free everything. The library calls `close` only on an
   * executor that the library itself made. */
  void (*close)(void *self);

  void *self; /* the first argument of each function */
} uvs_executor_t;

static inline void uvs_executor_init(uvs_executor_t *e) {
  memset(e, 0, sizeof *e);
  e->size = sizeof *e;
}

/* The inline executor. Its `submit` calls fn on the caller's thread, and returns when fn has
 * returned. If fn submits another job, that job runs inside fn. `submit` refuses only a NULL fn:
 * UV_EINVAL. There is one inline executor per process, and it always exists. */
UVS_API const uvs_executor_t *uvs_inline_executor(void);

/* -------------------------------------------------------------- threads --- */

typedef struct uvs_threads_s uvs_threads_t;

#define UVS_THREADS_MAX 1024
#define UVS_THREADS_NAME_MAX 10 /* bytes; the system allows 15, the number needs up to 5 */

typedef struct {
  size_t size; /* set by the initializer; new fields go at the end */
  int threads; /* 1 .. UVS_THREADS_MAX; there is no default */

  /* Up to UVS_THREADS_NAME_MAX bytes. top and ps show the threads as name-0, name-1 ... (Linux).
   * Each new thread gets the lowest free number. NULL: "uvs". */
  const char *name;

  size_t stack_size;         /* of each thread, as uv_thread_create_ex takes it; 0: the system's */
  uvs_allocator_t allocator; /* all NULL: malloc and free */
} uvs_threads_options_t;

static inline void uvs_threads_options_init(uvs_threads_options_t *o) {
  memset(o, 0, sizeof *o);
  o->size = sizeof *o;
}

/**
 * Make a pool of own threads. All threads exist when the call returns.
 *
 * Owns:    copies *o, and the name.
 * Returns: 0 with *ret set; UV_EINVAL (NULL, a wrong size, threads out of range, a name that is too
 *          long, half an allocator); UV_ENOMEM; or what libuv's init calls and uv_thread_create_ex
 *          answer. On error no thread is left.
 */
UVS_API int uvs_threads_open(const uvs_threads_options_t *o, uvs_threads_t **ret);

/**
 * The pool as an executor. The table is valid until the pool is closed. Jobs start in the order in
 * which they were submitted. Its `concurrency` is uvs_threads_size; its `close` is
 * uvs_threads_close. Its `submit` has no bound on the number of jobs, and never waits for a job.
 * `submit` answers 0; UV_EINVAL (NULL fn); UV_ENOMEM; UV_ESHUTDOWN (uvs_threads_close was called);
 * UV_ENOTSUP (a forked child).
 *
 * Returns: the table; NULL if p is NULL.
 */
UVS_API const uvs_executor_t *uvs_threads_executor(uvs_threads_t *p);

/* The number of threads that was last asked for, by open or resize. */
UVS_API int uvs_threads_size(uvs_threads_t *p);

/**
 * Set the number of threads. If the number grows, all new threads exist when the call returns. If
 * the number shrinks, idle threads end at once. If there are still too many, busy threads end after
 * their current job. No job is lost. Concurrent calls run one after the other.
 *
 * The call may wait until a thread that is leaving has ended. It never waits for a job.
 *
 * Returns: 0; UV_EINVAL (out of range); UV_ESHUTDOWN (the pool is being closed); UV_ENOMEM, or what
 *          uv_thread_create_ex answers: then nothing has changed.
 */
UVS_API int uvs_threads_resize(uvs_threads_t *p, int threads);

/**
 * Close the pool: refuse new jobs (UV_ESHUTDOWN), also jobs that the pool's own jobs submit; run
 * the jobs that were submitted before, and wait for them; end all threads; free the pool. When the
 * call returns, code outside these jobs must not use the pool any more. In a forked child the call
 * frees the child's copy and runs nothing. Memory that a thread of the parent was changing at the
 * fork is not freed.
 *
 * Thread:  any but the pool's own threads: UVS_EDEADLK, and nothing has happened.
 * Returns: 0; UV_EALREADY (another thread is inside uvs_threads_close).
 */
UVS_API int uvs_threads_close(uvs_threads_t *p);

#ifdef __cplusplus
}
#endif

#endif
