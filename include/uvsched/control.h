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

/* uvs_pause's answers. */
enum {
  UVS_PAUSED = 0,              /* no run is in progress, and none starts until uvs_resume */
  UVS_PAUSED_WHILE_RUNNING = 1 /* a run is in progress and finishes; no other starts until then */
};

/**
 * Pause a task. A waiting or ready task leaves its queue, even if an extra run is due. The task
 * keeps its id, its lane and its deadline, and it still keeps the loop alive. A paused task can be
 * cancelled, completed and rescheduled. A shutdown cancels it.
 *
 * Thread:  any, also inside its own body.
 * Returns: UVS_PAUSED; UVS_PAUSED_WHILE_RUNNING; UV_EALREADY (it is paused); UV_ENOENT; UV_ENOMEM;
 *          UV_ESHUTDOWN (the scheduler is shut down).
 */
UVS_API int uvs_pause(uvs_t *s, uvs_id_t id);

/* uvs_resume's flags. */
enum {
  UVS_RESUME_FORGET = 1 /* points of the grid that passed during the pause do not count as missed */
};

/**
 * Resume a paused task. If its deadline has passed, the task is due at once. A fixed-rate or
 * calendar task has missed the points of its grid that passed, and its missed_policy decides. With
 * UVS_RESUME_FORGET the task continues with the next point instead.
 *
 * Thread:  any.
 * Returns: 0; UV_EALREADY (it is not paused); UV_ENOENT; UV_EINVAL (unknown flags).
 */
UVS_API int uvs_resume(uvs_t *s, uvs_id_t id, unsigned flags);

/**
 * Pause and resume the scheduler. After uvs_pause_all has returned, no run starts until
 * uvs_resume_all. Runs in progress finish. `after`, `done` and queues work as usual. New tasks are
 * accepted. (UVS_REJECT_CALLER_RUNS still runs tasks on the submitter's thread.) Points of a grid
 * that pass during the pause are missed, as in any other delay. A shutdown resumes the scheduler.
 * The two calls are independent of uvs_pause and uvs_resume.
 *
 * Thread:  any.
 * Returns: 0; UV_EALREADY (it is paused, or not paused, already); UV_ESHUTDOWN (uvs_pause_all after
 *          a shutdown).
 */
UVS_API int uvs_pause_all(uvs_t *s);
UVS_API int uvs_resume_all(uvs_t *s);

/* ---------------------------------------------------------------- run now --- */

/**
 * Start an extra run of a waiting task at once, even if the task is paused. The extra run does not
 * move the next regular run. (To move that run, use uvs_reschedule.) The extra run counts towards
 * max_runs, and its failure counts like the failure of any other run. If the task waits for a
 * retry, the retry starts at once. After until_ns the task ends instead of running.
 *
 * Thread:  any.
 * Returns: 0; UV_EBUSY (the task is ready or running, an extra run is due already, or a replaced
 *          task of the same name is still running); UV_ENOENT; UV_ENOMEM; UV_ESHUTDOWN.
 */
UVS_API int uvs_run_now(uvs_t *s, uvs_id_t id);

/**
 * List the ideal times of the next runs, in order, at most n. They are instants of the wall clock
 * for UVS_FROM_WALL and UVS_CALENDAR, and of uvs_now for all other tasks. The list assumes that no
 * run is late, and it leaves out a run in progress.
 *   - A pending extra run or retry comes first.
 *   - A fixed-delay task has at most one regular run in the list: later ones depend on how long its
 *     runs take.
 *   - A paused task has no entry, except an extra run.
 *   - A task has no entry while a replaced task of the same name is still running.
 *
 * Thread:  any.
 * Returns: how many were written; UV_ENOENT; UV_EINVAL (NULL).
 */
UVS_API int uvs_next_runs(uvs_t *s, uvs_id_t id, int64_t *ret_ns, size_t n);

/* ------------------------------------------------------------------- names --- */

/* A task that is submitted with the flag UVS_REPLACE replaces the task that was submitted earlier
 * with this flag and the same name. The old task ends as if cancelled. Both happen in one step: no
 * other call can find two tasks of that name, or none. If the old task is running, its run
 * finishes, and the new task starts no run before that. If max_pending is reached, nothing is
 * replaced.
 *
 * The new task keeps the old task's id if no callback has to report the old task's end. This means:
 *   - The old task is not running, and no hook is due for it.
 *   - The next run of an old calendar task has been worked out.
 *   - The old task has no `done`, clean-up action, decoration to release or kept outcome.
 *   - Neither task has a lane. */
#define UVS_REPLACED 1 /* the result of uvs_submit if it replaced a task */

/* Find the task that was submitted with UVS_REPLACE and this name. A settled or replaced task is
 * not found. Thread: any. 0 with *ret_id set; UV_ENOENT; UV_EINVAL (NULL). */
UVS_API int uvs_find(uvs_t *s, const char *name, uvs_id_t *ret_id);

/* --------------------------------------------------------------------- ref --- */

/* Choose whether the task keeps the loop alive while it waits. uvs_has_ref returns 1 if the task
 * does, else 0. Thread: loop thread. UV_ENOENT; UV_EPERM (thread). */
UVS_API int uvs_ref(uvs_t *s, uvs_id_t id);
UVS_API int uvs_unref(uvs_t *s, uvs_id_t id);
UVS_API int uvs_has_ref(uvs_t *s, uvs_id_t id);

#ifdef __cplusplus
}
#endif

#endif
