/* SPDX-License-Identifier: MIT
 *
 * uvsched/lane: tasks that keep their order, do not overlap, and end together, on the threads that
 * all share.
 *
 * A lane of width 1 runs one task at a time, those that are due now in the order of submission,
 * delayed ones by due time; each sees what the one before has written, whatever threads they run
 * on. Width n lets n run at once, 0 any number. A run counts until it is over, `after` and
 * UVS_PENDING included. Lanes share the runners task by task: among those of one priority, a task
 * whose lane has room starts after at most one further task of each other lane, however many that
 * has ready. (What is due becomes ready in the order of due time, a batch per turn of the loop.)
 *
 * Dispose a lane, and everything that it owns is cancelled.
 *
 * The number of a lane is also a restricted handle for other code, which can submit, cancel and
 * dispose in this lane, and reach nothing else. Callbacks of tasks that are submitted this way get
 * NULL for the scheduler. The number may be stale, and never dangles, even when the scheduler is
 * closed and gone.
 *
 * Code that has the scheduler submits to a lane with uvs_task_t.lane.
 */
#ifndef UVSCHED_LANE_H
#define UVSCHED_LANE_H

#include <uvsched/outcome.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A lane that was disposed is quiet: the `done` of its last task has returned. No code will touch
 * what the lane owned again. Thread: loop. */
typedef void (*uvs_quiet_cb)(uvs_t *s, uvs_lane_t lane, void *arg);

#define UVS_LANE_WIDTH_MAX INT32_MAX /* so a negative number is an error, not a wide lane */

typedef struct {
  size_t size;           /* set by the initializer; new fields go at the end */
  uint32_t width;        /* most runs at once, up to UVS_LANE_WIDTH_MAX; default 1; 0: no bound */
  uvs_quiet_cb on_quiet; /* optional: exactly once, after the lane was disposed */
  void *arg;             /* of on_quiet */

  /* Where its bodies run, if not where the scheduler's do: as in uvs_options_t. Such a lane has
   * runners of its own, as many as the executor says but not more than it is wide; each takes 11
   * KB. */
  const struct uvs_executor_s *executor; /* borrowed until it is quiet */
  int threads;                           /* closed when it is quiet */
  const char *thread_name;
} uvs_lane_options_t;

static inline void uvs_lane_options_init(uvs_lane_options_t *o) {
  memset(o, 0, sizeof *o);
  o->size = sizeof *o;
  o->width = 1;
}

/**
 * Make a lane. It does not keep the loop alive; its tasks do. Dispose it when it is not needed any
 * more: uvs_close disposes those that are left.
 *
 * Thread:  any.
 * Owns:    copies *o (NULL: defaults).
 * Returns: 0 with *ret set; UV_EINVAL (NULL ret, a wrong size, an option out of range);
 *          UV_ESHUTDOWN once shut down; UV_ENOMEM; what uvs_threads_open answers.
 */
UVS_API int uvs_lane_open(uvs_t *s, const uvs_lane_options_t *o, uvs_lane_t *ret);

/* uvs_lane_dispose's flags. */
enum {
  UVS_DISPOSE_TOKEN = 1 /* also ask running bodies to stop, but not one that itself disposes its
                           lane: their uvs_cancelled(run) turns true */
};

/**
 * Dispose a lane: every task of it is cancelled, as if by uvs_cancel, and nothing more is accepted.
 * When this returns no body of it will start any more; one that runs finishes. The `done`s come,
 * and then `quiet`.
 *
 * Thread:  any, also in its own body, any number of times (each may add the token).
 * Returns: 0; UV_ENOENT (there never was such a lane); UV_EINVAL (unknown flags); UV_ENOTSUP (a
 *          forked child).
 */
UVS_API int uvs_lane_dispose(uvs_lane_t lane, unsigned flags);

/* 1 as soon as it is disposed, and ever after; 0. UV_ENOENT: there never was such a lane. Thread:
 * any. */
UVS_API int uvs_lane_is_disposed(uvs_lane_t lane);

/* As uvs_add_cleanup, to the end of a lane: when it is disposed and quiet, before its `quiet`; with
 * UVS_CLEANUP_WHEN_SETTLED, as soon as it is disposed. UV_EINVAL also for a lane of another
 * scheduler. */
UVS_API int uvs_lane_add_cleanup(uvs_t *s, uvs_lane_t lane, uvs_cleanup_cb cb, void *arg,
                                 unsigned flags);

/**
 * As uvs_submit, to this lane. run->scheduler and the scheduler that `done` is given are NULL.
 * t->lane is 0 or the same. A kept outcome (t->keep_outcome) is readable only through the
 * scheduler, until uvs_forget.
 *
 * Thread:  any.
 * Returns: as uvs_submit; UV_ECANCELED (the lane is disposed); UV_ENOENT (there never was such a
 *          lane).
 */
UVS_API int uvs_lane_submit(uvs_lane_t lane, const uvs_task_t *t, uvs_id_t *ret_id);

/* As uvs_cancel, uvs_reschedule and uvs_finish, of a task of this lane, however it was submitted.
 * UV_ENOENT for every other, and if the lane is gone. Thread: any. */
UVS_API int uvs_lane_cancel(uvs_lane_t lane, uvs_id_t id, unsigned flags);
UVS_API int uvs_lane_reschedule(uvs_lane_t lane, uvs_id_t id, int64_t delay_ns);
UVS_API int uvs_lane_finish(uvs_lane_t lane, uvs_id_t id, int status);

#ifdef __cplusplus
}
#endif

#endif
