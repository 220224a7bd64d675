/* SPDX-License-Identifier: MIT
 *
 * uvsched_node: a scheduler of the npm package uvsched, for other addons.
 *
 * Two .node files do not see each other's symbols, so the scheduler comes as a table of functions.
 * JavaScript hands it over, and the addon asks for it once:
 *
 *   addon.init(scheduler.native);                                           // JavaScript
 *
 *   const uvsched_node_t *u;                                                // C
 *   if (uvsched_node_get(env, argv[0], UVSCHED_NODE_VERSION, &u) != napi_ok)
 *     return NULL;                                                          // an Error is thrown
 *
 * and from then on u->submit(u, &task, &id), u->promise(u, env, &task, result, NULL, &promise) ...
 * Tasks, runs and their options are those of uvsched.h, of which an addon uses types, constants and
 * initializers; its functions are not linked, and the uvs_t * that callbacks are given is of no use
 * but to tell one scheduler from another. `work` runs on libuv's pool (or the scheduler's own
 * threads), `after` and `done` on the thread of the environment (node's main thread, a worker's).
 *
 * LIFE. The table stays valid as long as the environment of who got it: in its clean-up hooks, and
 * in the finalizers of its values and of its instance data. When the scheduler is closed, or the
 * environment is about to end, calls answer UV_ESHUTDOWN. After that it must not be touched: not by
 * a thread, nor by what is static in an addon that a later environment loads again; each
 * environment gets a table for itself.
 *
 * THE END OF THE ENVIRONMENT (process.exit, worker.terminate()) cancels all tasks, asks running
 * bodies to stop, ends pending runs with UV_ECANCELED, and waits for bodies and for `done`. Only
 * then are the finalizers of who got the table called. So every accepted task has its `done`, but
 * no JavaScript: what is given an env gets NULL then; free memory, and leave napi alone.
 * (References end with the environment.) Where a `done` has kept an env by itself: see `alive`.
 *
 * SCOPES. `after` and `done` are called without a handle scope; who makes values there opens one. A
 * `result` callback is called in an open one.
 *
 * Errors are negative UV_E* codes. examples/node-addon is a complete addon to start from.
 */
#ifndef UVSCHED_NODE_H
#define UVSCHED_NODE_H

#include <node_api.h>
#include <uvsched.h>
#include <uvsched/stats.h>
#include <uvsched/lane.h>

#if NAPI_VERSION < 8
#error "uvsched_node.h needs NAPI_VERSION 8 or newer: type tags"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Within a version the table only grows, at its end. */
#define UVSCHED_NODE_VERSION 1

/* The function threw, and that was reported: see `call`. */
#define UVSCHED_NODE_THREW 1

typedef struct uvsched_node_s uvsched_node_t;

/**
 * What a promise is settled with: the value, or if status is negative the reason. NULL: undefined,
 * or an Error of `error`. What it throws (napi_throw) is the reason in any case.
 *
 * Thread:  env's, in an open handle scope. Exactly once, before the task's `done`.
 * Owns:    borrows arg, the task's.
 * Calls:   napi, but if env is NULL nothing of it: the environment ends.
 */
typedef napi_value (*uvsched_node_result_cb)(napi_env env, int status, void *arg);

struct uvsched_node_s {
  uint32_t version; /* UVSCHED_NODE_VERSION */
  uint32_t size;    /* of the table that this package has */

  /**
   * For uvsched_node_get: makes an environment known, so that its end waits for the tasks. Once is
   * enough, more do no harm.
   *
   * Thread:  env's.
   * Returns: 0; UV_ESHUTDOWN; UV_ENOMEM.
   */
  int (*attach)(const uvsched_node_t *u, napi_env env);

  /* ---- as the functions of uvsched.h and uvsched/lane.h with these names ---- */

  /* Thread: any. The body has all that it needs in t->arg, this table included. */
  int (*submit)(const uvsched_node_t *u, const uvs_task_t *t, uvs_id_t *ret_id);
  int (*submit_many)(const uvsched_node_t *u, const uvs_task_t *t, size_t n, uvs_id_t *ret_ids);
  int (*cancel)(const uvsched_node_t *u, uvs_id_t id, unsigned flags);
  int (*reschedule)(const uvsched_node_t *u, uvs_id_t id, int64_t delay_ns);
  int (*finish)(const uvsched_node_t *u, uvs_id_t id, int status);

  /* Of a task of `promise`, `arg` and `work` are NULL. Thread: any. */
  int (*info)(const uvsched_node_t *u, uvs_id_t id, uvs_info_t *ret);
  int64_t (*now)(const uvsched_node_t *u);

  /* Thread: that of the body. */
  int (*cancelled)(const uvs_run_t *run);

  /* uvs_ref (on is 1), uvs_unref (0). Thread: the environment's. */
  int (*ref)(const uvsched_node_t *u, uvs_id_t id, int on);

  /* Thread: any. */
  int (*lane_open)(const uvsched_node_t *u, const uvs_lane_options_t *o, uvs_lane_t *ret);
  int (*lane_dispose)(const uvsched_node_t *u, uvs_lane_t lane, unsigned flags);
  const char *(*strerror)(int code);

  /* ---- helpers ----
   *
   * All of them: on env's thread, and env is one with which uvsched_node_get was called; else
   * UV_EINVAL. They work in env, so an exception that they leave is env's: none but where it says
   * so. With an exception pending in env they answer UV_EBUSY and do nothing. */

  /**
   * Submit *t, and make a promise that is settled when the task is over.
   *
   * Thread:  env's.
   * Owns:    copies *t; borrows t->arg until its `done`, or without one until `result`.
   * Calls:   nothing before it returns (above max_pending: as uvs_submit). At the end of the task:
   *          `result` (may be NULL), t->done (may be NULL), and then, in JavaScript, what waits for
   *          the promise.
   * Returns: 0 with *ret_promise and *ret_id (may be NULL) set; what uvs_submit answers; UV_EBUSY.
   *          On error there is no promise, nothing is thrown, and no callback will ever run.
   */
  int (*promise)(const uvsched_node_t *u, napi_env env, const uvs_task_t *t,
                 uvsched_node_result_cb result, uvs_id_t *ret_id, napi_value *ret_promise);

  /**
   * Settle a promise of napi_create_promise, from the loop: resolved with `value` if status is 0 or
   * positive, else rejected with it. NULL: undefined, or an Error of `error`. Then microtasks and
   * process.nextTick have their turn, if we are not inside JavaScript anyway.
   *
   * Thread:  env's.
   * Owns:    takes `deferred`, if it returns 0.
   * Returns: 0; UV_ESHUTDOWN; UV_EINVAL; UV_EBUSY.
   */
  int (*settle)(const uvsched_node_t *u, napi_env env, napi_deferred deferred, int status,
                napi_value value);

  /**
   * Call a function from the loop, in an async context: of napi_async_init (which also gives
   * AsyncLocalStorage to `fn` as it was there), or NULL for one that all share. What it throws is
   * reported as 'uncaughtException'. Then microtasks and process.nextTick have their turn, if we
   * are not inside JavaScript anyway.
   *
   * Thread:  env's, in an open handle scope.
   * Owns:    borrows all of it. self: `this`, an object; NULL: globalThis.
   * Returns: 0 with *ret (may be NULL) set; UVSCHED_NODE_THREW: reported, and the process goes on;
   *          UV_ESHUTDOWN; UV_EINVAL (not a function); UV_EBUSY.
   */
  int (*call)(const uvsched_node_t *u, napi_env env, napi_async_context context, napi_value self,
              napi_value fn, size_t argc, const napi_value *argv, napi_value *ret);

  /**
   * Take the exception that is pending in env and report it as 'uncaughtException', which ends the
   * process if nobody listens.
   *
   * Thread:  env's.
   * Returns: 0; UV_ENOENT (none is pending); UV_ESHUTDOWN; UV_EINVAL.
   */
  int (*report)(const uvsched_node_t *u, napi_env env);

  /**
   * Make an Error for a negative code: its `code` is the name ('ENOENT'), its `errno` the number.
   *
   * Thread:  env's, in an open handle scope.
   * Returns: 0 with *ret set; UV_ESHUTDOWN; UV_EINVAL; UV_EBUSY.
   */
  int (*error)(const uvsched_node_t *u, napi_env env, int status, napi_value *ret);

  /* 1 if env is still to be used; 0 if it ends, or never got the table: leave napi alone. Thread:
   * env's. */
  int (*alive)(const uvsched_node_t *u, napi_env env);
};

/* What tells the external from others; the same for all versions. */
#define UVSCHED_NODE_TAG \
  { UINT64_C(0x6b1f9c0d5e274a83), UINT64_C(0xa47d20e8913cb5f6) }

static inline int uvsched_node_is_table(napi_env env, napi_value external, void **ret) {
  const napi_type_tag tag = UVSCHED_NODE_TAG;
  napi_valuetype type;
  bool ours = false;

  return napi_typeof(env, external, &type) == napi_ok && type == napi_external &&
         napi_check_object_type_tag(env, external, &tag, &ours) == napi_ok && ours &&
         napi_get_value_external(env, external, ret) == napi_ok && *ret != NULL;
}

/**
 * The table in `external`, which is what JavaScript has as `scheduler.native`.
 *
 * Thread:  env's.
 * Owns:    *ret is borrowed, as long as the environment lives. `external` need not be kept.
 * Returns: napi_ok with *ret set; else an Error is thrown in env, and its code is
 *          ERR_INVALID_ARG_TYPE (something else), ERR_UVSCHED_VERSION (the installed package has
 *          no such table; `version` is UVSCHED_NODE_VERSION of who asks), ESHUTDOWN (the
 *          environment ends) or ENOMEM.
 */
static inline napi_status uvsched_node_get(napi_env env, napi_value external, uint32_t version,
                                           const uvsched_node_t **ret) {
  void *data = NULL;
  const uvsched_node_t *u;
  char words[200];
  int rc;

  if (!uvsched_node_is_table(env, external, &data)) {
    napi_throw_type_error(env, "ERR_INVALID_ARG_TYPE",
                          "uvsched: this is not the `native` of a scheduler");
    return napi_pending_exception;
  }
  u = (const uvsched_node_t *)data;
  if (u->version != version || u->size < sizeof *u) {
    snprintf(words, sizeof words,
             "uvsched: the addon needs version %u (%u bytes) of the table in uvsched_node.h, the "
             "package that is installed has version %u (%u bytes)",
             (unsigned)version, (unsigned)sizeof *u, (unsigned)u->version, (unsigned)u->size);
    napi_throw_error(env, "ERR_UVSCHED_VERSION", words);
    return napi_pending_exception;
  }
  rc = u->attach(u, env);
  if (rc < 0) {
    napi_throw_error(env, rc == UV_ENOMEM ? "ENOMEM" : "ESHUTDOWN",
                     rc == UV_ENOMEM ? "uvsched: out of memory" : "uvsched: the environment ends");
    return napi_pending_exception;
  }
  *ret = u;
  return napi_ok;
}

#ifdef __cplusplus
}
#endif

#endif
