/* SPDX-License-Identifier: MIT
 *
 * Outcomes: wait for a task, read how it ended, hand a result from a body to a waiting thread,
 * attach actions to the end of a task.
 *
 *   settled  the outcome is final. A task that is cancelled while it runs, or whose last run passes
 *            its time limit, is settled at once.
 *   quiet    settled, and no run is in progress: nothing that the body used is in use any more.
 *            (`done` and on_error may still get the task's arg.)
 */
#ifndef UVSCHED_OUTCOME_H
#define UVSCHED_OUTCOME_H

#include <uvsched.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a task ended that was submitted with keep_outcome. */
typedef struct {
  size_t size;      /* set by the initializer; new fields go at the end */
  int state;        /* UVS_RUNNING (settled, not quiet) or UVS_ENDED, see uvsched/stats.h */
  int status;       /* 0, the failure of the last run, or UV_ECANCELED */
  void *result;     /* of a success: that of the last run that set one, else the spec's */
  int64_t ideal_ns; /* of the last run, if the task is quiet and has run; else 0 */
  int64_t start_ns;
  int64_t end_ns;
  uint64_t runs; /* started; if the task is not quiet, perhaps without the run that just begins */
  uvs_id_t id;   /* of the task; stale after uvs_all and uvs_any, which forget their tasks */
} uvs_outcome_t;

static inline void uvs_outcome_init(uvs_outcome_t *o) {
  memset(o, 0, sizeof *o);
  o->size = sizeof *o;
}

/* --------------------------------------------------------------- results --- */

/**
 * Set the result that this run gives if it succeeds.
 *
 * Each result that a run sets is either handed to a wait, in a uvs_outcome_t, or passed to the
 * spec's drop_result exactly once. A result that was handed over belongs to the caller of the wait.
 * A result is dropped in these cases:
 *   - The same run sets another result: in uvs_set_result, on its thread.
 *   - The run fails or passes its limit, or the task was settled before the run ended; a later run
 *     or limit.result replaces the task's result; the task does not succeed: on the loop, before
 *     the next run or before `done`.
 *   - The outcome is forgotten, and no wait was handed the result: in uvs_forget, on its thread, if
 *     `done` has returned; else on the loop. uvs_all and uvs_any forget all their tasks.
 *   - The scheduler is closed, and no wait was handed the result: on the loop, before the callback
 *     of uvs_close. In a forked child uvs_close drops nothing.
 * A pointer that is set again while it is the result of the run or of the task is one result. NULL
 * and the spec's result and limit.result are never dropped. drop_result may call anything.
 *
 * Thread:  that of the body, or of `after`.
 * Returns: 0; UV_EINVAL (the spec has no keep_outcome).
 */
UVS_API int uvs_set_result(uvs_run_t *run, void *result);

/* Give a kept outcome back, now or when the task ends. Waits in progress still get it. May call
 * drop_result. Thread: any.
 * 0; UV_ENOENT (already forgotten, stale); UV_EINVAL (the spec has no keep_outcome). */
UVS_API int uvs_forget(uvs_t *s, uvs_id_t id);

/**
 * End a task that is not running, with `status`: 0 or negative. The task counts as completed or
 * failed; `runs` and the times of its last run stay as they are. result
 * (or NULL) becomes the result of a success; it needs keep_outcome. A result of an earlier run that
 * it replaces is dropped before the call returns.
 *
 * Thread:  any.
 * Returns: 0; UV_EBUSY (a run is in progress); UV_ENOENT (the task has ended or is settled, or
 * never existed); UV_EINVAL (status is positive, or result is not allowed).
 */
UVS_API int uvs_complete(uvs_t *s, uvs_id_t id, int status, void *result);

/* ------------------------------------------------------------------ wait --- */

enum { UVS_WAIT_SETTLED = 1 }; /* a flag of uvs_wait: do not wait until the task is quiet */

/**
 * Wait for the end of a task that was submitted with keep_outcome, at most timeout_ns of real time
 * (zero or less: only look; UVS_NEVER: without end). Any number of threads may wait for one task.
 * `done` may come later.
 *
 * Thread:  any; but where it would have to wait, not the loop thread and not a body of this
 *          scheduler: UVS_EDEADLK.
 * Returns: 0 with *ret set (may be NULL; else initialized); UV_ETIMEDOUT, never early; UV_ENOENT
 *          (forgotten, stale, or it never existed); UV_EINVAL (the spec has no keep_outcome,
 * unknown flags, a wrong size).
 */
UVS_API int uvs_wait(uvs_t *s, uvs_id_t id, int64_t timeout_ns, unsigned flags, uvs_outcome_t *ret);

/**
 * Submit n one-shots and wait for all of them. Tasks that have not ended after timeout_ns are
 * cancelled, with the token. Returns only when every task is quiet. ret has room for n, or is NULL;
 * its stride is ret[0].size, and each element is set.
 *
 * Thread:  not the loop thread, not a body of this scheduler: UVS_EDEADLK.
 * Returns: 0 (also if n is 0); UV_ETIMEDOUT; what uvs_submit_many answers.
 */
UVS_API int uvs_all(uvs_t *s, const uvs_task_t *t, size_t n, int64_t timeout_ns,
                    uvs_outcome_t *ret);

/**
 * Submit n one-shots (n > 0) and wait for the first that succeeds. The others are cancelled, with
 * the token. Returns only when every task is quiet. *ret_index (may be NULL) is the winner, *ret
 * (may be NULL) its outcome.
 *
 * Thread:  not the loop thread, not a body of this scheduler: UVS_EDEADLK.
 * Returns: 0; the failure of one of the tasks if none succeeded; UV_ETIMEDOUT; what uvs_submit_many
 *          answers.
 */
UVS_API int uvs_any(uvs_t *s, const uvs_task_t *t, size_t n, int64_t timeout_ns, size_t *ret_index,
                    uvs_outcome_t *ret);

/* -------------------------------------------------------- abandon a wait --- */

/* A handle by which another thread can abandon a wait: uvs_abandon, uvs_queue_abandon. The caller
 * owns it. It serves one scheduler or one queue, and one call at a time. It must live until that
 * call has returned. */
typedef struct {
  size_t size;       /* set by the initializer */
  void *waiting;     /* private */
  int requested;     /* private */
  const void *owner; /* private */
} uvs_waiter_t;

static inline void uvs_waiter_init(uvs_waiter_t *w) {
  memset(w, 0, sizeof *w);
  w->size = sizeof *w;
}

/* The waits of above, and uvs_wait_terminated, that uvs_abandon can end through w (may be NULL).
 * Also UV_EINTR (abandoned; the task is untouched); UV_EBUSY (w is in use); UV_EINVAL (w is not
 * initialized). uvs_all_with and uvs_any_with end as at their time limit, but answer UV_EINTR. If w
 * was abandoned before the call, they submit nothing and do not write ret. With n = 0, w is not
 * used. */
UVS_API int uvs_wait_with(uvs_t *s, uvs_id_t id, int64_t timeout_ns, unsigned flags,
                          uvs_waiter_t *w, uvs_outcome_t *ret);
UVS_API int uvs_all_with(uvs_t *s, const uvs_task_t *t, size_t n, int64_t timeout_ns,
                         uvs_waiter_t *w, uvs_outcome_t *ret);
UVS_API int uvs_any_with(uvs_t *s, const uvs_task_t *t, size_t n, int64_t timeout_ns,
                         uvs_waiter_t *w, size_t *ret_index, uvs_outcome_t *ret);
UVS_API int uvs_wait_terminated_with(uvs_t *s, int64_t timeout_ns, uvs_waiter_t *w);

/**
 * Abandon the wait that sleeps with w: the wait answers UV_EINTR. If no call waits with w, the next
 * call with w answers UV_EINTR at once, even if it would not have to wait. Either way the request
 * is used up. If the wait ended just before, it keeps its answer, and the request is for the next
 * call.
 *
 * Thread:  any.
 * Returns: 1 (a wait is abandoned), 0 (the next one will be); UV_EINVAL (NULL, not initialized, or
 *          a call waits with w in another scheduler or in a queue).
 */
UVS_API int uvs_abandon(uvs_t *s, uvs_waiter_t *w);

/* ------------------------------------------------------------- clean-ups --- */

/* arg: that of uvs_add_cleanup. Thread: loop thread. */
typedef void (*uvs_cleanup_cb)(uvs_t *s, void *arg);

/* A flag: call the action as soon as the task is settled, perhaps while its body still runs. For
 * example to cancel what the body waits for. */
enum { UVS_CLEANUP_WHEN_SETTLED = 1 };

/**
 * Attach an action to the end of a task. It is called exactly once, when the task is quiet, after
 * `after` and before `done`, however the task ends. Several actions are called in the order of
 * adding. If the task has already ended (with the flag: is settled), the action is called in the
 * loop's next pass. An action that another thread adds while the others are being called may come
 * after `done`. For lanes see uvs_lane_add_cleanup.
 *
 * Thread:  any, also inside an action.
 * Returns: 0; UV_ENOENT (no such task ever existed); UV_EINVAL (NULL cb, unknown flags); UV_ENOMEM;
 *          UV_ESHUTDOWN (the scheduler is closed; or uvs_close was called and the task has ended).
 */
UVS_API int uvs_add_cleanup(uvs_t *s, uvs_id_t id, uvs_cleanup_cb cb, void *arg, unsigned flags);

#ifdef __cplusplus
}
#endif

#endif
