/* SPDX-License-Identifier: MIT
 *
 * Control of tasks: pause and resume, run now, list the next runs, replace and find by name, ref
 * and unref.
 */
#ifndef UVSCHED_CONTROL_H
#define UVSCHED_CONTROL_H

#include <uvsched.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------- pause and resume --- */

/* uvs_pause's answers. After either answer, no other run starts until uvs_resume, except a run that
 * uvs_run_now starts. */
enum {
  UVS_PAUSED = 0,              /* no run is in progress */
  UVS_PAUSED_WHILE_RUNNING = 1 /* a run is in progress, and finishes */
};

/**
 * Pause a task. A waiting or ready task leaves its queue. An extra run that was requested before
 * (uvs_run_now) and has not started waits, too. The task keeps its id, its lane and its deadline,
 * and it still keeps the loop alive. A paused task can be cancelled, completed, rescheduled and
 * replaced. A shutdown cancels it.
 *
 * Thread:  any, also inside the task's own body.
 * Returns: UVS_PAUSED; UVS_PAUSED_WHILE_RUNNING; UV_EALREADY (the task is paused already);
 *          UV_ENOENT; UV_ENOMEM; UV_ESHUTDOWN (the scheduler was shut down).
 */
UVS_API int uvs_pause(uvs_t *s, uvs_id_t id);

/* uvs_resume's flags. */
enum {
  UVS_RESUME_FORGET = 1 /* points of the grid that have passed do not count as missed */
};

/**
 * Resume a paused task. What happens if its deadline has passed?
 *   - A one-shot or fixed-delay task is due at once.
 *   - A fixed-rate or calendar task has missed the points of its grid that have passed, and its
 *     missed_policy decides. With UVS_RESUME_FORGET these points do not count as missed: the task
 *     continues with the first point that is not before now. If that point is later than until_ns,
 *     the task ends. The flag has no effect while a regular run is in progress or waits for its
 *     retry.
 *
 * Thread:  any.
 * Returns: 0; UV_EALREADY (the task is not paused); UV_ENOENT; UV_EINVAL (unknown flags).
 */
UVS_API int uvs_resume(uvs_t *s, uvs_id_t id, unsigned flags);

/**
 * Pause and resume the scheduler. After uvs_pause_all has returned, no run starts until
 * uvs_resume_all. There is one exception: UVS_REJECT_CALLER_RUNS still runs tasks on the thread
 * that submits them. Runs in progress finish. (The body of a run that has just started may begin a
 * moment after the call. uvs_counts counts the run as running.) `after`, `done` and delay queues of
 * values work as usual. New tasks are accepted. Points of a grid that pass during the pause are
 * missed, as in any other delay. A shutdown resumes the scheduler. A task that is paused by
 * uvs_pause stays paused after uvs_resume_all, and uvs_resume does not run a task while the
 * scheduler is paused.
 *
 * Thread:  any.
 * Returns: 0; UV_EALREADY (uvs_pause_all: the scheduler is paused already; uvs_resume_all: the
 *          scheduler is not paused); UV_ESHUTDOWN (uvs_pause_all after a shutdown).
 */
UVS_API int uvs_pause_all(uvs_t *s);
UVS_API int uvs_resume_all(uvs_t *s);

/* 1 while the scheduler is paused, else 0. Thread: any. */
UVS_API int uvs_is_paused(uvs_t *s);

/* ---------------------------------------------------------------- run now --- */

/**
 * Start an extra run of a waiting task at once, even if the task is paused. (If the scheduler is
 * paused, the extra run starts after uvs_resume_all.) The extra run does not move the next regular
 * run: a one-shot runs again at its own time. To move the next regular run, use uvs_reschedule. The
 * extra run counts towards max_runs, and its failure counts like the failure of any other run. If
 * the task waits for a retry, that retry starts at once, and there is no extra run. If until_ns has
 * passed, the task ends, and there is no run.
 *
 * Thread:  any.
 * Returns: 0; UV_EBUSY (the task is ready or running, an extra run is due already, or the task that
 *          this task has replaced is still running); UV_ENOENT; UV_ENOMEM; UV_ESHUTDOWN.
 */
UVS_API int uvs_run_now(uvs_t *s, uvs_id_t id);

/**
 * List the ideal times of the next runs, at most n, in the order of the runs. The times are
 * instants of the wall clock for UVS_FROM_WALL and UVS_CALENDAR, and of uvs_now for all other
 * tasks. The list assumes that no run is late. A run in progress is not in the list.
 *   - A pending extra run or retry comes first.
 *   - A fixed-delay task has at most one regular run in the list: the times of later runs depend on
 *     how long each run takes.
 *   - A paused task has no run in the list, except an extra run that was requested after the pause.
 *   - A task has no run in the list while the task that it has replaced is still running.
 *
 * Thread:  any.
 * Returns: how many times were written; UV_ENOENT; UV_EINVAL (NULL).
 */
UVS_API int uvs_next_runs(uvs_t *s, uvs_id_t id, int64_t *ret_ns, size_t n);

/* ------------------------------------------------------------------- names --- */

/* A task that is submitted with a name and the flag UVS_REPLACE replaces the task that was
 * submitted earlier with this flag and the same name. The old task ends as if cancelled. The new
 * task takes the name in the same step: no other call can find two tasks of this name, or none. If
 * the old task is running, its run finishes, and the new task starts no run before that.
 *
 * The new task counts towards max_pending before the old task ends. If max_pending is reached, the
 * rejection policy decides. A new task that is refused or discarded replaces nothing.
 *
 * The new task keeps the old task's id if no callback has to report the old task's end and no lane
 * is involved. This is the case if all of the following conditions hold:
 *   - The old task is not running, and no hook is due for it.
 *   - If the old task is a calendar task, the loop has computed its next run.
 *   - The old task has no `done`, clean-up action, decoration to release or kept outcome.
 *   - Neither task has a lane.
 * Otherwise the new task gets a new id. */
#define UVS_REPLACED 1 /* uvs_submit and uvs_submit_many return this if they replaced a task */

/* Find the task that was submitted with UVS_REPLACE and this name. A task that is settled or was
 * replaced is not found. Thread: any. 0 with *ret_id set; UV_ENOENT; UV_EINVAL (NULL). */
UVS_API int uvs_find(uvs_t *s, const char *name, uvs_id_t *ret_id);

/* --------------------------------------------------------------------- ref --- */

/* uvs_ref: the task keeps the loop alive while the task waits. uvs_unref: the task no longer keeps
 * the loop alive. uvs_has_ref returns 1 if the task keeps the loop alive, else 0. Thread: loop
 * thread. UV_ENOENT; UV_EPERM (another thread). */
UVS_API int uvs_ref(uvs_t *s, uvs_id_t id);
UVS_API int uvs_unref(uvs_t *s, uvs_id_t id);
UVS_API int uvs_has_ref(uvs_t *s, uvs_id_t id);

#ifdef __cplusplus
}
#endif

#endif
