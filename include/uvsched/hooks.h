/* SPDX-License-Identifier: MIT
 *
 * Hooks: watch every run, wrap or replace every body, learn of missed runs, decide what
 * happens to submissions above max_pending.
 *
 *   uvs_hooks_t hooks;
 *   uvs_hooks_init(&hooks);
 *   hooks.before_body = start_span;
 *   options.hooks = &hooks;             uvs_open copies *hooks
 */
#ifndef UVSCHED_HOOKS_H
#define UVSCHED_HOOKS_H

#include <uvsched.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a task will run. */
typedef struct {
  uvs_work_cb work;           /* the body: `work`, or the `after` of a task without `work` */
  void *arg;                  /* run->arg of the body and of the hooks around it. The task's other
                                 callbacks get the spec's arg. */
  void (*release)(void *arg); /* optional: called on the loop after `done`, with this arg */
} uvs_decoration_t;

/* May change *d, to wrap or replace the body for all runs of the task. Called once per accepted
 * task, on the loop, before the task's first run, but never from inside an API call. The task does
 * not run until the hook has returned. */
typedef void (*uvs_decorate_cb)(uvs_t *s, uvs_id_t id, uvs_decoration_t *d);

/* Called before and after each body, on the body's thread. status: what the body returned; may be
 * UVS_PENDING. */
typedef void (*uvs_before_body_cb)(uvs_run_t *run);
typedef void (*uvs_after_body_cb)(uvs_run_t *run, int status);

/* `count` points of a grid, or occurrences of a calendar, passed without a run, because of `reason`
 * (UVS_LATE_...). Called on the loop, before the task's next run. arg: the spec's. */
typedef void (*uvs_missed_cb)(uvs_t *s, uvs_id_t id, uint64_t count, int reason, void *arg);

/* A submission is about to be refused with `code`: UV_EAGAIN (max_pending is reached) or
 * UV_ESHUTDOWN. For UV_EAGAIN the hook returns the policy to apply, UVS_REJECT_...; ASK and unknown
 * numbers mean ABORT. For UV_ESHUTDOWN its answer is ignored. t and n are the specs of the
 * submission (n is 1 for the short calls). Called once per submission, on the submitter's thread,
 * with no lock held. The hook may call what the submitter may call. */
typedef int (*uvs_rejected_cb)(uvs_t *s, const uvs_task_t *t, size_t n, int code);

/* Each hook is optional. */
typedef struct uvs_hooks_s {
  size_t size; /* set by the initializer; new fields go at the end */
  uvs_decorate_cb decorate;
  uvs_before_body_cb before_body;
  uvs_after_body_cb after_body;
  uvs_missed_cb on_missed;
  uvs_rejected_cb on_rejected; /* required by UVS_REJECT_ASK */
} uvs_hooks_t;

static inline void uvs_hooks_init(uvs_hooks_t *h) {
  memset(h, 0, sizeof *h);
  h->size = sizeof *h;
}

#ifdef __cplusplus
}
#endif

#endif
