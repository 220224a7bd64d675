/* SPDX-License-Identifier: MIT
 *
 * Lanes: a lane is a group of tasks that keep their order, do not overlap, and are cancelled
 * together. Lanes share the scheduler's threads with all other tasks.
 *
 * ORDER. Tasks that are due now start in the order of submission. Delayed tasks start by due time.
 *
 * WIDTH. The width is the greatest number of runs at once.
 *   1  (default) One task runs at a time. Each body sees what the body before it wrote, whatever
 *      threads the two run on.
 *   n  Up to n tasks run at once.
 *   0  Any number of tasks run at once.
 * A run occupies its place until the run has ended, including `after` and the time between
 * UVS_PENDING and uvs_finish.
 *
 * FAIRNESS. Lanes alternate: no lane has to wait until another lane is empty. Suppose that a task
 * is ready and its lane has room. Among the tasks of the same priority, at most one more task of
 * each other lane starts before this task, however many tasks are ready in that lane. (Due tasks
 * become ready in the order of due time, one batch per loop pass.)
 *
 * DISPOSAL. Disposing a lane cancels all its tasks.
 *
 * A RESTRICTED HANDLE. A lane is named by a number. Code that has only this number can submit,
 * cancel, reschedule, finish and dispose in this lane, and can reach nothing else. Callbacks of
 * tasks that are submitted this way get NULL for the scheduler. The number may be stale, but it
 * never dangles, even when the scheduler is closed and gone.
 *
 * Code that has the scheduler submits to a lane with uvs_task_t.lane.
 */
#ifndef UVSCHED_LANE_H
#define UVSCHED_LANE_H

#include <uvsched/outcome.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A disposed lane is quiet: the `done` of its last task has returned. After this call no code
 * touches what the lane owned. arg: that of the options. Thread: loop thread. */
typedef void (*uvs_quiet_cb)(uvs_t *s, uvs_lane_t lane, void *arg);

#define UVS_LANE_WIDTH_MAX INT32_MAX /* a negative width is an error, not a wide lane */

typedef struct {
  size_t size;           /* set by the initializer; new fields go at the end */
  uint32_t width;        /* most runs at once, up to UVS_LANE_WIDTH_MAX; default 1; 0: no bound */
  uvs_quiet_cb on_quiet; /* optional; called exactly once, after the lane was disposed */
  void *arg;             /* of on_quiet */

  /* Where the lane's bodies run, if not where the scheduler's bodies run. The fields are as in
   * uvs_options_t. A lane with `executor` or `threads` has its own runners: as many as the executor
   * says, but not more than the lane's width. Each runner takes 12 KB. */
  const struct uvs_executor_s *executor; /* borrowed until the lane is quiet */
  int threads;                           /* closed when the lane is quiet */
  const char *thread_name;
} uvs_lane_options_t;

static inline void uvs_lane_options_init(uvs_lane_options_t *o) {
  memset(o, 0, sizeof *o);
  o->size = sizeof *o;
  o->width = 1;
}

/**
 * Make a lane. A lane does not keep the loop alive; its tasks do. Dispose the lane when it is no
 * longer needed. uvs_close disposes the lanes that are left.
 *
 * Thread:  any.
 * Owns:    copies *o (NULL: defaults).
 * Returns: 0 with *ret set; UV_EINVAL (NULL ret, a wrong size, an option out of range);
 *          UV_ESHUTDOWN (the scheduler is shut down); UV_ENOMEM; what uvs_threads_open answers.
 */
UVS_API int uvs_lane_open(uvs_t *s, const uvs_lane_options_t *o, uvs_lane_t *ret);

/* uvs_lane_dispose's flags. */
enum {
  UVS_DISPOSE_TOKEN = 1 /* also ask running bodies to stop: their uvs_cancelled(run) turns 1; not
                           the body that itself makes the call */
};

/**
 * Dispose a lane: every task of the lane is cancelled, as if by uvs_cancel, and the lane accepts no
 * more tasks. When this call has returned, no body of the lane starts any more. A running body
 * finishes. Each task gets its `done`, and then on_quiet is called.
 *
 * Thread:  any, also inside a body of the lane, any number of times (each call may add the token).
 * Returns: 0; UV_ENOENT (there never was such a lane); UV_EINVAL (unknown flags); UV_ENOTSUP (a
 *          forked child).
 */
UVS_API int uvs_lane_dispose(uvs_lane_t lane, unsigned flags);

/* 1 as soon as the lane is disposed, and for ever after; else 0. UV_ENOENT (there never was such a
 * lane). Thread: any. */
UVS_API int uvs_lane_is_disposed(uvs_lane_t lane);

/* As uvs_add_cleanup, for the end of a lane. The action is called when the lane is disposed and
 * quiet, before on_quiet; with UVS_CLEANUP_WHEN_SETTLED, as soon as the lane is disposed. UV_EINVAL
 * also for a lane of another scheduler. */
UVS_API int uvs_lane_add_cleanup(uvs_t *s, uvs_lane_t lane, uvs_cleanup_cb cb, void *arg,
                                 unsigned flags);

/**
 * As uvs_submit, to this lane. run->scheduler is NULL, and `done` gets NULL for the scheduler.
 * t->lane must be 0 or this lane. UVS_REPLACE is refused: names belong to the scheduler. A kept
 * outcome (t->keep_outcome) is readable only through the scheduler, until uvs_forget.
 *
 * Thread:  any.
 * Returns: as uvs_submit; UV_ECANCELED (the lane is disposed); UV_ENOENT (there never was such a
 *          lane).
 */
UVS_API int uvs_lane_submit(uvs_lane_t lane, const uvs_task_t *t, uvs_id_t *ret_id);

/* As uvs_cancel, uvs_reschedule and uvs_finish, for any task of this lane, however the task was
 * submitted. UV_ENOENT for a task that is not in this lane, and if the lane is gone. Thread: any.
 */
UVS_API int uvs_lane_cancel(uvs_lane_t lane, uvs_id_t id, unsigned flags);
UVS_API int uvs_lane_reschedule(uvs_lane_t lane, uvs_id_t id, int64_t delay_ns);
UVS_API int uvs_lane_finish(uvs_lane_t lane, uvs_id_t id, int status);

/* A lane, as uvs_each_lane shows it. New fields go at the end. */
typedef struct {
  size_t size;
  uvs_lane_t lane;
  uint32_t width;   /* 0: no bound */
  uint64_t tasks;   /* that have not ended, and ended ones whose `done` is still to come */
  uint32_t ready;   /* due tasks that wait for a runner or for a place in the lane */
  uint32_t running; /* runs in progress */
  int own_executor; /* 1: the lane has runners of its own */
  int disposed;     /* 1: on_quiet is still to come */
} uvs_lane_info_t;

/* Visit every lane of the scheduler, newest first. If `each` returns a nonzero value, the visit
 * ends, and uvs_each_lane returns that value. `each` may call anything but uvs_each_lane. Thread:
 * loop thread. UV_EINVAL; UV_EPERM (thread). */
typedef int (*uvs_each_lane_cb)(uvs_t *s, const uvs_lane_info_t *info, void *arg);
UVS_API int uvs_each_lane(uvs_t *s, uvs_each_lane_cb each, void *arg);

#ifdef __cplusplus
}
#endif

#endif
