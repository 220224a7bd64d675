/* SPDX-License-Identifier: MIT
 *
 * uvsched_node: lets other addons use a scheduler of the npm package uvsched.
 *
 * Two .node files do not see each other's symbols, so the scheduler comes as a table of functions.
 * JavaScript passes the table to the addon, and the addon reads it once:
 *
 *   addon.init(scheduler.native);                                           // JavaScript
 *
 *   const uvsched_node_t *u;                                                // C
 *   if (uvsched_node_get(env, argv[0], UVSCHED_NODE_VERSION, &u) != napi_ok)
 *     return NULL;                                                          // an Error is thrown
 *
 * After that it calls u->submit(u, &task, &id), u->promise(u, env, &task, result, NULL, &promise)
 * and so on. Tasks, runs and their options are those of uvsched.h. An addon uses only its types,
 * constants and initializers: its functions are not linked. The uvs_t * that callbacks get only
 * tells schedulers apart. `work` runs on libuv's thread pool, or on the scheduler's own threads.
 * `after` and `done` run on the environment's thread (node's main thread, or a worker's).
 *
 * LIFE. The table is valid until the addon's environment has ended: also in its clean-up hooks, and
 * in the finalizers of its values and of its instance data. When the scheduler is closed, or the
 * environment is about to end, calls answer UV_ESHUTDOWN. After the end of the environment the
 * table must not be used, neither by a thread nor through a static variable. Each environment gets
 * its own table.
 *
 * THE END OF THE ENVIRONMENT (process.exit, worker.terminate()) cancels all tasks, asks running
 * bodies to stop, ends pending runs with UV_ECANCELED, and waits for bodies and for `done`. Only
 * then node calls the addon's finalizers. So every accepted task gets its `done`, but JavaScript no
 * longer runs: callbacks with an env parameter get NULL. They may free memory, but must not call
 * napi. (References end with the environment.) A `done` that has stored an env asks `alive`.
 *
 * SCOPES. `after` and `done` are called without a handle scope. If they make values, they open one.
 * A `result` callback is called inside an open handle scope.
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

/* The function threw, and the error was reported: see `call`. */
#define UVSCHED_NODE_THREW 1

typedef struct uvsched_node_s uvsched_node_t;

/**
 * Returns the value of a promise, or, if status is negative, the reason of its rejection. NULL
 * stands for undefined, or for the Error that `error` makes. If the callback throws (napi_throw),
 * the promise is rejected with that exception.
 *
 * Thread:  env's, in an open handle scope. Called exactly once, before the task's `done`.
 * Owns:    borrows the task's arg.
 * Calls:   may call napi, unless env is NULL: then the environment is ending.
 */
typedef napi_value (*uvsched_node_result_cb)(napi_env env, int status, void *arg);

struct uvsched_node_s {
  uint32_t version; /* UVSCHED_NODE_VERSION */
  uint32_t size;    /* of the table that this package has */

  /**
   * For uvsched_node_get: registers an environment, so that its end waits for the tasks. Repeated
   * calls have no effect.
   *
   * Thread:  env's.
   * Returns: 0; UV_ESHUTDOWN; UV_ENOMEM.
   */
  int (*attach)(const uvsched_node_t *u, napi_env env);

  /* ---- as the functions of uvsched.h and uvsched/lane.h with these names ---- */

  /* Thread: any. Pass this table to the body through t->arg, if the body needs it. */
  int (*submit)(const uvsched_node_t *u, const uvs_task_t *t, uvs_id_t *ret_id);
  int (*submit_many)(const uvsched_node_t *u, const uvs_task_t *t, size_t n, uvs_id_t *ret_ids);
  int (*cancel)(const uvsched_node_t *u, uvs_id_t id, unsigned flags);
  int (*reschedule)(const uvsched_node_t *u, uvs_id_t id, int64_t delay_ns);
  int (*finish)(const uvsched_node_t *u, uvs_id_t id, int status);

  /* For a task made by `promise`, `arg` and `work` are NULL. Thread: any. */
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
   * All helpers must be called on env's thread. They answer UV_EINVAL if uvsched_node_get was not
   * called with this env. Except `report` and `alive`, they answer UV_EBUSY and do nothing while an
   * exception is pending in env. They leave no exception in env. */

  /**
   * Submit *t, and make a promise that settles when the task ends.
   *
   * Thread:  env's.
   * Owns:    copies *t; borrows t->arg until t->done, or, if that is NULL, until `result`.
   * Calls:   nothing before it returns (above max_pending: as uvs_submit). When the task ends:
   *          `result` (may be NULL), t->done (may be NULL), and then the JavaScript reactions of
   *          the promise.
   * Returns: 0 with *ret_promise and *ret_id (may be NULL) set; the errors of uvs_submit; UV_EBUSY.
   *          On error there is no promise, nothing is thrown, and no callback will run.
   */
  int (*promise)(const uvsched_node_t *u, napi_env env, const uvs_task_t *t,
                 uvsched_node_result_cb result, uvs_id_t *ret_id, napi_value *ret_promise);

  /**
   * Settle a promise of napi_create_promise from a callback of the loop. If status is negative, the
   * promise is rejected with `value`, else it is resolved to `value`. A NULL value stands for the
   * Error that `error` makes, or for undefined. Then nextTick callbacks and microtasks run, unless
   * JavaScript is on the stack.
   *
   * Thread:  env's.
   * Owns:    owns `deferred` if it returns 0.
   * Returns: 0; UV_ESHUTDOWN; UV_EINVAL; UV_EBUSY.
   */
  int (*settle)(const uvsched_node_t *u, napi_env env, napi_deferred deferred, int status,
                napi_value value);

  /**
   * Call a function from a callback of the loop, in an async context. `context` comes from
   * napi_async_init, and `fn` then sees the AsyncLocalStorage stores of that call. NULL: a context
   * that all calls share. If `fn` throws, the error is reported as 'uncaughtException'. Then
   * nextTick callbacks and microtasks run, unless JavaScript is on the stack.
   *
   * Thread:  env's, in an open handle scope.
   * Owns:    borrows all arguments. self is `this`, an object; NULL: globalThis.
   * Returns: 0 with *ret (may be NULL) set; UVSCHED_NODE_THREW (the error was reported, and the
   *          process goes on); UV_ESHUTDOWN; UV_EINVAL (not a function); UV_EBUSY.
   */
  int (*call)(const uvsched_node_t *u, napi_env env, napi_async_context context, napi_value self,
              napi_value fn, size_t argc, const napi_value *argv, napi_value *ret);

  /**
   * Report the exception that is pending in env as 'uncaughtException', which ends the process if
   * there is no listener.
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

  /* 1: env can be used. 0: env is ending, or never got the table; do not call napi. Thread: env's.
   */
  int (*alive)(const uvsched_node_t *u, napi_env env);
};

/* Marks the external that holds a table; the same for all versions. */
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
 * Get the table from `external`, which is `scheduler.native` in JavaScript. Pass
 * UVSCHED_NODE_VERSION as `version`.
 *
 * Thread:  env's.
 * Owns:    the caller borrows *ret until the environment ends. It need not keep `external`.
 * Returns: napi_ok with *ret set. Otherwise an Error is thrown in env. Its code is
 *          ERR_INVALID_ARG_TYPE (not a table), ERR_UVSCHED_VERSION (the installed package has
 *          another version of the table, or a shorter one), ESHUTDOWN (the environment is ending)
 *          or ENOMEM.
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
