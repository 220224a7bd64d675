/* SPDX-License-Identifier: MIT
 *
 * Outcomes: wait for a task, read how the task ended, hand a result from a body to a waiting
 * thread, attach actions to the end of a task.
 *
 *   settled  the outcome is final. A task that is cancelled while it runs is settled at once. So is
 *            a task whose last run passes its time limit. The body may still run.
 *   quiet    settled, and no run is in progress: the body uses nothing any more. (`done` and
 *            on_error may still get the task's arg.)
 */
#ifndef UVSCHED_OUTCOME_H
#define UVSCHED_OUTCOME_H

#include <uvsched.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a task with keep_outcome ended. */
typedef struct {
  size_t size;      /* set by the initializer; new fields go at the end */
  int state;        /* UVS_RUNNING (settled, not quiet) or UVS_ENDED, see uvsched/stats.h */
  int status;       /* 0, the failure of the last run, or UV_ECANCELED */
  void *result;     /* of a success: the last one that a run set, else the spec's */
  int64_t ideal_ns; /* the times of the last run; 0 if the task is not quiet or never ran */
  int64_t start_ns;
  int64_t end_ns;
  uint64_t runs; /* started runs; if the task is not quiet, a run that just starts may be missing */
  uvs_id_t id;   /* the task; stale after uvs_all and uvs_any, because they forget their tasks */
} uvs_outcome_t;

static inline void uvs_outcome_init(uvs_outcome_t *o) {
  memset(o, 0, sizeof *o);
  o->size = sizeof *o;
}

/* --------------------------------------------------------------- results --- */

/**
 * Set the result of this run, for the case that the run succeeds.
 *
 * Each result that a run sets is either handed to a wait, in a uvs_outcome_t, or dropped: passed to
 * the spec's drop_result, exactly once. A result that was handed over belongs to the caller of the
 * wait. A result is dropped:
 *   - Inside uvs_set_result, on the thread of that call, if the same run sets another result.
 *   - On the loop, before the next run or before `done`, if the run fails or passes its limit, if
 *     the task was settled before the run ended, if a later run or limit.result replaces the task's
 *     result, or if the task does not succeed.
 *   - If the outcome is forgotten and no wait was handed the result: inside uvs_forget, on the
 *     thread of that call, if `done` has returned; otherwise on the loop. uvs_all and uvs_any
 *     forget all their tasks.
 *   - On the loop, before the callback of uvs_close, if the scheduler is closed and no wait was
 *     handed the result. In a forked child uvs_close drops nothing.
 * If a run sets the pointer that already is the result of the run or of the task, the two are one
 * result. NULL, the spec's result and limit.result are never dropped. drop_result may call
 * anything.
 *
 * Thread:  the body's, or the loop thread in `after`.
 * Returns: 0; UV_EINVAL (the spec has no keep_outcome).
 */
UVS_API int uvs_set_result(uvs_run_t *run, void *result);

/* Forget a kept outcome: now, or when the task ends. Waits in progress still get the outcome. May
 * call drop_result. Thread: any.
 * 0; UV_ENOENT (already forgotten, stale); UV_EINVAL (the spec has no keep_outcome). */
UVS_API int uvs_forget(uvs_t *s, uvs_id_t id);

/**
 * End a task that is not running, with `status`, which is 0 or negative. The task counts as
 * completed or failed; `runs` and the times of its last run stay as they are. A `result` that is
 * not NULL becomes the task's result. Such a result needs status 0 and keep_outcome. If `result`
 * replaces the result of an earlier run, the earlier result is dropped before the call returns.
 *
 * Thread:  any.
 * Returns: 0; UV_EBUSY (a run is in progress); UV_ENOENT (the task has ended or is settled, or
 *          never existed); UV_EINVAL (status is positive, or result is not allowed).
 */
UVS_API int uvs_complete(uvs_t *s, uvs_id_t id, int status, void *result);

/* ------------------------------------------------------------------ wait --- */

enum { UVS_WAIT_SETTLED = 1 }; /* a flag of uvs_wait: return when the task is settled */

/**
 * Wait until a task with keep_outcome is quiet, at most timeout_ns of real time (zero or less: only
 * look; UVS_NEVER: no time limit). Any number of threads may wait for one task. `done` may be
 * called after the wait returns. ret may be NULL; otherwise *ret must be initialized.
 *
 * Thread:  any. If the call would have to wait on the loop thread, or inside a body of this
 *          scheduler, it returns UVS_EDEADLK instead.
 * Returns: 0 with *ret set; UV_ETIMEDOUT, never early; UV_ENOENT (the outcome was forgotten, the id
 *          is stale, or the task never existed); UV_EINVAL (the spec has no keep_outcome, unknown
 *          flags, a wrong size).
 */
UVS_API int uvs_wait(uvs_t *s, uvs_id_t id, int64_t timeout_ns, unsigned flags, uvs_outcome_t *ret);

/**
 * Submit n one-shots and wait for all of them. Tasks that have not ended after timeout_ns are
 * cancelled, with the token. Returns only when every task is quiet. ret is an array with room for n
 * outcomes, or NULL. The array stride is ret[0].size. Each element is set.
 *
 * Thread:  any but the loop thread and bodies of this scheduler: UVS_EDEADLK.
 * Returns: 0 (also if n is 0); UV_ETIMEDOUT; what uvs_submit_many answers.
 */
UVS_API int uvs_all(uvs_t *s, const uvs_task_t *t, size_t n, int64_t timeout_ns,
                    uvs_outcome_t *ret);

/**
 * Submit n one-shots (n > 0) and wait for the first that succeeds. The others are cancelled, with
 * the token. Returns only when every task is quiet. *ret_index is the index of the task that
 * succeeded, *ret its outcome. Either pointer may be NULL.
 *
 * Thread:  any but the loop thread and bodies of this scheduler: UVS_EDEADLK.
 * Returns: 0; the failure of one of the tasks if none succeeded; UV_ETIMEDOUT; what uvs_submit_many
 *          answers.
 */
UVS_API int uvs_any(uvs_t *s, const uvs_task_t *t, size_t n, int64_t timeout_ns, size_t *ret_index,
                    uvs_outcome_t *ret);

/* -------------------------------------------------------- abandon a wait --- */

/* Pass a waiter to a wait, and another thread can abandon the wait: uvs_abandon, uvs_queue_abandon.
 * The caller owns the waiter. A waiter serves one scheduler or one queue, and one call at a time.
 * It must live until that call has returned. */
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

/* The waits above, and uvs_wait_terminated, with a waiter: uvs_abandon can end them. w may be NULL.
 * They also answer UV_EINTR (abandoned; the task is untouched), UV_EBUSY (w is in use) and
 * UV_EINVAL (w is not initialized). If uvs_all_with or uvs_any_with is abandoned, it cancels its
 * tasks as at the time limit, but answers UV_EINTR. If w was abandoned before the call,
 * uvs_all_with and uvs_any_with submit nothing and do not write ret. With n = 0 these two calls do
 * not use w. */
UVS_API int uvs_wait_with(uvs_t *s, uvs_id_t id, int64_t timeout_ns, unsigned flags,
                          uvs_waiter_t *w, uvs_outcome_t *ret);
UVS_API int uvs_all_with(uvs_t *s, const uvs_task_t *t, size_t n, int64_t timeout_ns,
                         uvs_waiter_t *w, uvs_outcome_t *ret);
UVS_API int uvs_any_with(uvs_t *s, const uvs_task_t *t, size_t n, int64_t timeout_ns,
                         uvs_waiter_t *w, size_t *ret_index, uvs_outcome_t *ret);
UVS_API int uvs_wait_terminated_with(uvs_t *s, int64_t timeout_ns, uvs_waiter_t *w);

/**
 * Abandon the call that waits with w: that call answers UV_EINTR. If no call waits with w, the next
 * call with w answers UV_EINTR at once, even if it would not have to wait. In both cases
 * only one call is abandoned. If the wait has just ended by itself, it keeps its answer, and the
 * next call with w is abandoned.
 *
 * Thread:  any.
 * Returns: 1 (a wait is abandoned); 0 (the next call will be); UV_EINVAL (NULL, not initialized, or
 *          a call waits with w in another scheduler or in a queue).
 */
UVS_API int uvs_abandon(uvs_t *s, uvs_waiter_t *w);

/* ------------------------------------------------------------- clean-ups --- */

/* arg: that of uvs_add_cleanup. Thread: loop thread. */
typedef void (*uvs_cleanup_cb)(uvs_t *s, void *arg);

/* A flag: call the action as soon as the task is settled, perhaps while its body still runs. Such
 * an action can, for example, cancel a request that the body waits for. */
enum { UVS_CLEANUP_WHEN_SETTLED = 1 };

/**
 * Attach an action to the end of a task. The action is called exactly once, however the task ends:
 * when the task is quiet, after `after` and before `done`. Actions are called in the order in which
 * they were added. If the task has already ended (with the flag: is already settled), the action is
 * called in the loop's next pass. If another thread adds an action while the task's actions are
 * being called, the new action may be called after `done`. For lanes see uvs_lane_add_cleanup.
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
