/* SPDX-License-Identifier: MIT
 *
 * Hooks: watch every run, wrap or replace every body, learn of missed runs, decide about
 * submissions that are refused.
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
  void *arg;                  /* run->arg of the body and of the hooks around it; every other
                                 callback gets the spec's arg */
  void (*release)(void *arg); /* optional: called on the loop after `done`, with this arg */
} uvs_decoration_t;

/* May wrap or replace the body, for every run of the task. Called once per accepted task, on the
 * loop, before its first run. No API call invokes it. The task waits until it has returned. */
typedef void (*uvs_decorate_cb)(uvs_t *s, uvs_id_t id, uvs_decoration_t *d);

/* Before and after each body, on its thread. status: what the body returned, also UVS_PENDING. */
typedef void (*uvs_before_body_cb)(uvs_run_t *run);
typedef void (*uvs_after_body_cb)(uvs_run_t *run, int status);

/* Points of a fixed-rate grid passed without a run: `count` of them, because of `reason`
 * (UVS_LATE_...). Called on the loop, before the task's next run. arg: the spec's. */
typedef void (*uvs_missed_cb)(uvs_t *s, uvs_id_t id, uint64_t count, int reason, void *arg);

/* A submission is being refused with `code`: UV_EAGAIN, or UV_ESHUTDOWN (the answer is ignored).
 * The answer is a policy, UVS_REJECT_...; ASK and unknown numbers mean ABORT. t and n are the
 * submission's (n is 1 for the short calls). Called once per submission, on the submitter's thread,
 * with no lock held: it may call what its caller may call. */
typedef int (*uvs_rejected_cb)(uvs_t *s, const uvs_task_t *t, size_t n, int code);

/* Each is optional. */
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
