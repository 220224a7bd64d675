/* SPDX-License-Identifier: MIT
 *
 * table: the table of functions through which other addons use a scheduler: see uvsched_node.h.
 *
 *   gate   a table and the data that its functions need; made when JavaScript first reads
 *          `native` of a scheduler, and freed with the environment's addon
 *   guest  the napi_env of another addon that has a table (node makes one for each .node file)
 *
 * A gate holds a reference to its scheduler, so a late call finds a closed scheduler, not freed
 * memory.
 *
 * Node calls clean-up hooks and finalizers in an order that depends on which addon was loaded
 * first. So every guest has a clean-up hook in its own environment. Whichever of these hooks,
 * including that of this addon, is called first starts the teardown of everything. When every
 * scheduler is closed, the hooks of the guests are removed, and then that of this addon. Node calls
 * the finalizers in that order. So the finalizer of a guest still finds the table, and no `done`
 * comes after it.
 *
 * The helpers use the guest's napi_env, never this addon's: an exception belongs to one napi_env,
 * and an exception left in this addon's would make the next call from JavaScript to this addon
 * fail.
 */
#include "host.h"

#include <stdlib.h>

struct gate {
  struct uvsched_node_s table; /* first: other addons have a pointer to it */
  struct addon *addon;
  struct gate *next;
  uvs_t *s; /* a reference */
};

struct guest {
  struct addon *addon;
  struct guest *next;
  napi_env env;
  napi_async_cleanup_hook_handle hook;
  napi_async_context context; /* for calls that pass no context */
};

/* A task with a promise. This record replaces the task's own arg. */
struct promise {
  struct guest *guest;
  napi_deferred deferred;
  uvsched_node_result_cb result;
  uvs_work_cb work;
  uvs_after_cb after;
  uvs_done_cb done;
  void *arg;
};

static const struct gate *gate_of(const uvsched_node_t *u) {
  return (const struct gate *)(const void *)u;
}

static uvs_t *core(const uvsched_node_t *u) {
  return u == NULL ? NULL : gate_of(u)->s; /* for NULL the core returns UV_EINVAL */
}

/* ---- guests ---- */

static struct guest *guest_of(const struct addon *a, napi_env env) {
  struct guest *g = a->guests;

  while (g != NULL && g->env != env)
    g = g->next;
  return g;
}

/* Can JavaScript be called? When a worker is terminated, there is a time before the first clean-up
 * hook in which the loop still runs but every call fails. The call here has no other effect. */
static int reach(const struct guest *g) {
  napi_value nothing, no;
  bool pending = false;

  if (g->addon->dying)
    return UV_ESHUTDOWN;
  if (napi_get_undefined(g->env, &nothing) == napi_ok &&
      napi_coerce_to_bool(g->env, nothing, &no) == napi_ok)
    return 0;
  return napi_is_exception_pending(g->env, &pending) == napi_ok && pending ? UV_EBUSY
                                                                           : UV_ESHUTDOWN;
}

/* Every helper begins here. */
static int enter(const uvsched_node_t *u, napi_env env, struct guest **ret) {
  struct guest *g;
  int rc;

  if (u == NULL || env == NULL)
    return UV_EINVAL;
  g = guest_of(gate_of(u)->addon, env);
  if (g == NULL)
    return UV_EINVAL;
  /* Values need a scope, including the value in `reach`, and the caller may not have opened one. */
  {
    napi_handle_scope scope;

    if (g->addon->dying || napi_open_handle_scope(env, &scope) != napi_ok)
      return UV_ESHUTDOWN;
    rc = reach(g);
    napi_close_handle_scope(env, scope);
  }
  *ret = g;
  return rc;
}

static void on_guest_ends(napi_async_cleanup_hook_handle hook, void *arg) {
  (void)hook; /* the handle that napi_add_async_cleanup_hook returned */
  uvs_node_teardown(((struct guest *)arg)->addon);
}

static int attach(const uvsched_node_t *u, napi_env env) {
  struct addon *a = gate_of(u)->addon;
  struct guest *g;
  napi_value name;

  if (a->dying)
    return UV_ESHUTDOWN;
  if (guest_of(a, env) != NULL)
    return 0;
  g = calloc(1, sizeof *g);
  if (g == NULL)
    return UV_ENOMEM;
  g->addon = a;
  g->env = env;
  if (napi_create_string_utf8(env, "uvsched", NAPI_AUTO_LENGTH, &name) != napi_ok ||
      napi_async_init(env, NULL, name, &g->context) != napi_ok)
    goto free_guest;
  if (napi_add_async_cleanup_hook(env, on_guest_ends, g, &g->hook) != napi_ok)
    goto destroy_context;
  g->next = a->guests;
  a->guests = g;
  return 0;

destroy_context:
  napi_async_destroy(env, g->context);
free_guest:
  free(g);
  return UV_ENOMEM;
}

void uvs_node_let_go(struct addon *a) {
  for (struct guest *g = a->guests; g != NULL; g = g->next) {
    napi_async_destroy(g->env, g->context);
    napi_remove_async_cleanup_hook(g->hook);
  }
  napi_remove_async_cleanup_hook(a->hook);
}

/* ---- functions of the core ---- */

static int submit(const uvsched_node_t *u, const uvs_task_t *t, uvs_id_t *ret_id) {
  return uvs_submit(core(u), t, ret_id);
}

static int submit_many(const uvsched_node_t *u, const uvs_task_t *t, size_t n, uvs_id_t *ret_ids) {
  return uvs_submit_many(core(u), t, n, ret_ids);
}

static int cancel(const uvsched_node_t *u, uvs_id_t id, unsigned flags) {
  return uvs_cancel(core(u), id, flags);
}

static int reschedule(const uvsched_node_t *u, uvs_id_t id, int64_t delay_ns) {
  return uvs_reschedule(core(u), id, delay_ns);
}

static int finish(const uvsched_node_t *u, uvs_id_t id, int status) {
  return uvs_finish(core(u), id, status);
}

static int set_ref(const uvsched_node_t *u, uvs_id_t id, int on) {
  return (on ? uvs_ref : uvs_unref)(core(u), id);
}

static int64_t read_clock(const uvsched_node_t *u) {
  return uvs_now(core(u));
}

static int open_lane(const uvsched_node_t *u, const uvs_lane_options_t *o, uvs_lane_t *ret) {
  return uvs_lane_open(core(u), o, ret);
}

static int dispose_lane(const uvsched_node_t *u, uvs_lane_t lane, unsigned flags) {
  return u == NULL ? UV_EINVAL : uvs_lane_dispose(lane, flags);
}

/* ---- helpers ---- */

/* Closing this scope runs nextTick callbacks and microtasks, if no JavaScript is on the stack. */
static bool open_scope(const struct guest *g, napi_callback_scope *ret) {
  napi_value anything; /* the context has its own resource */

  return napi_get_global(g->env, &anything) == napi_ok &&
         napi_open_callback_scope(g->env, anything, g->context, ret) == napi_ok;
}

/* NULL: none is pending. */
static napi_value take_exception(napi_env env) {
  bool pending = false;
  napi_value error = NULL;

  if (napi_is_exception_pending(env, &pending) == napi_ok && pending)
    napi_get_and_clear_last_exception(env, &error);
  return error;
}

/* How a task ended. The code of a body that failed is the body's own, so libuv's text explains it.
 */
static const char *status_text(int status) {
  bool ours = status == UV_ECANCELED || status == UV_ETIMEDOUT || status == UVS_EDEADLK;

  return ours ? uvs_strerror(status) : uv_strerror(status);
}

/* NULL: the error could not be made. */
static napi_value make_error(napi_env env, int status) {
  char name[64], words[160];
  napi_value code, message, number, error;

  if (status == UVS_EDEADLK)
    snprintf(name, sizeof name, "EDEADLK");
  else
    uv_err_name_r(status, name, sizeof name);
  snprintf(words, sizeof words, "%s: %s", name, status_text(status));
  if (napi_create_string_utf8(env, name, NAPI_AUTO_LENGTH, &code) != napi_ok ||
      napi_create_string_utf8(env, words, NAPI_AUTO_LENGTH, &message) != napi_ok ||
      napi_create_int32(env, status, &number) != napi_ok ||
      napi_create_error(env, code, message, &error) != napi_ok ||
      napi_set_named_property(env, error, "errno", number) != napi_ok)
    return NULL;
  return error;
}

static int conclude(napi_env env, napi_deferred deferred, int status, napi_value value) {
  napi_status rc;

  if (value == NULL) {
    if (status < 0)
      value = make_error(env, status);
    else
      napi_get_undefined(env, &value);
  }
  if (value == NULL)
    return UV_ESHUTDOWN;
  rc = status < 0 ? napi_reject_deferred(env, deferred, value)
                  : napi_resolve_deferred(env, deferred, value);
  return rc == napi_ok ? 0 : UV_ESHUTDOWN;
}

static int settle(const uvsched_node_t *u, napi_env env, napi_deferred deferred, int status,
                  napi_value value) {
  napi_handle_scope handles;
  napi_callback_scope scope;
  struct guest *g;
  int rc = enter(u, env, &g);

  if (rc < 0)
    return rc;
  if (deferred == NULL)
    return UV_EINVAL;
  if (napi_open_handle_scope(env, &handles) != napi_ok)
    return UV_ESHUTDOWN;
  rc = UV_ESHUTDOWN;
  if (open_scope(g, &scope)) {
    rc = conclude(env, deferred, status, value);
    napi_close_callback_scope(env, scope);
  }
  napi_close_handle_scope(env, handles);
  return rc;
}

static int call(const uvsched_node_t *u, napi_env env, napi_async_context context, napi_value self,
                napi_value fn, size_t argc, const napi_value *argv, napi_value *ret) {
  napi_callback_scope scope;
  napi_valuetype type;
  napi_value value, error = NULL;
  napi_status status;
  struct guest *g;
  int rc = enter(u, env, &g);

  if (rc < 0)
    return rc;
  if (fn == NULL || napi_typeof(env, fn, &type) != napi_ok || type != napi_function)
    return UV_EINVAL;
  if (self == NULL && napi_get_global(env, &self) != napi_ok)
    return UV_ESHUTDOWN;
  if (!open_scope(g, &scope))
    return UV_ESHUTDOWN;
  /* Two scopes are needed. Only napi_make_callback restores AsyncLocalStorage (since node 24), but
   * if the function throws, it does not run nextTick callbacks and microtasks. */
  status =
      napi_make_callback(env, context != NULL ? context : g->context, self, fn, argc, argv, &value);
  if (status == napi_ok && ret != NULL)
    *ret = value;
  if (status != napi_ok)
    error = take_exception(env);
  /* Inside the scope, so that closing it also runs what the listeners have queued. */
  if (error != NULL)
    napi_fatal_exception(env, error);
  napi_close_callback_scope(env, scope);
  if (status == napi_ok)
    return 0;
  return error != NULL ? UVSCHED_NODE_THREW : UV_ESHUTDOWN;
}

static int report(const uvsched_node_t *u, napi_env env) {
  napi_handle_scope handles;
  napi_value error;
  struct guest *g;
  int rc = enter(u, env, &g);

  if (rc == 0)
    return UV_ENOENT;
  if (rc != UV_EBUSY)
    return rc;
  if (napi_open_handle_scope(env, &handles) != napi_ok)
    return UV_ESHUTDOWN;
  error = take_exception(env);
  rc = error != NULL && napi_fatal_exception(env, error) == napi_ok ? 0 : UV_ESHUTDOWN;
  napi_close_handle_scope(env, handles);
  return rc;
}

static int error_for(const uvsched_node_t *u, napi_env env, int status, napi_value *ret) {
  napi_value error;
  struct guest *g;
  int rc = enter(u, env, &g);

  if (rc < 0)
    return rc;
  if (status >= 0 || ret == NULL)
    return UV_EINVAL;
  error = make_error(env, status);
  if (error == NULL)
    return UV_ESHUTDOWN;
  *ret = error;
  return 0;
}

static int alive(const uvsched_node_t *u, napi_env env) {
  struct guest *g;
  int rc = enter(u, env, &g);

  return rc == 0 || rc == UV_EBUSY;
}

/* ---- promises ---- */

/* The bodies see the task's own arg. Nobody else uses `run` during the call. */
static int run_work(uvs_run_t *run) {
  struct promise *p = run->arg;
  int rc;

  run->arg = p->arg;
  rc = p->work(run);
  run->arg = p;
  return rc;
}

static int run_after(uvs_run_t *run) {
  struct promise *p = run->arg;
  int rc;

  run->arg = p->arg;
  rc = p->after(run);
  run->arg = p;
  return rc;
}

/* Calls `result` and `done` while JavaScript can be called; then settles the promise. */
static void end_promise(struct promise *p, uvs_t *s, uvs_id_t id, int status) {
  napi_env env = p->guest->env;
  napi_value value = NULL, thrown = NULL, other;

  if (p->result != NULL)
    value = p->result(env, status, p->arg);
  thrown = take_exception(env);
  if (p->done != NULL)
    p->done(s, id, status, p->arg);
  other = take_exception(env);
  if (thrown != NULL)
    conclude(env, p->deferred, UV_ECANCELED, thrown);
  else
    conclude(env, p->deferred, status, value);
  if (other != NULL)
    napi_fatal_exception(env, other);
}

static void on_promise_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct promise *p = arg;
  struct guest *g = p->guest;
  napi_handle_scope handles = NULL;
  napi_callback_scope scope;

  if (!g->addon->dying && napi_open_handle_scope(g->env, &handles) != napi_ok)
    handles = NULL;
  if (handles != NULL && reach(g) == 0 && open_scope(g, &scope)) {
    end_promise(p, s, id, status);
    free(p);
    napi_close_callback_scope(g->env, scope);
  } else {
    /* The promise stays pending: no JavaScript can look at it any more. */
    if (p->result != NULL)
      p->result(NULL, status, p->arg);
    if (p->done != NULL)
      p->done(s, id, status, p->arg);
    free(p);
  }
  if (handles != NULL)
    napi_close_handle_scope(g->env, handles);
}

/* A spec of another version of uvsched.h may be shorter or longer. The core refuses unknown fields
 * that are set, so it must see the whole spec. */
static int submit_promise(uvs_t *s, const uvs_task_t *t, struct promise *p, uvs_id_t *ret_id) {
  union {
    uvs_task_t task;
    char room[2 * sizeof(uvs_task_t)];
  } copy;

  if (t->size < offsetof(uvs_task_t, flags) || t->size > sizeof copy)
    return UV_EINVAL;
  memcpy(&copy, t, t->size);
  p->work = t->work;
  p->after = t->after;
  p->done = t->done;
  p->arg = t->arg;
  copy.task.work = t->work != NULL ? run_work : NULL;
  copy.task.after = t->after != NULL ? run_after : NULL;
  copy.task.done = on_promise_done;
  copy.task.arg = p;
  return uvs_submit(s, &copy.task, ret_id);
}

static int promise(const uvsched_node_t *u, napi_env env, const uvs_task_t *t,
                   uvsched_node_result_cb result, uvs_id_t *ret_id, napi_value *ret_promise) {
  napi_value made, nothing;
  struct promise *p;
  struct guest *g;
  int rc = enter(u, env, &g);

  if (rc < 0)
    return rc;
  if (t == NULL || ret_promise == NULL)
    return UV_EINVAL;
  p = calloc(1, sizeof *p);
  if (p == NULL)
    return UV_ENOMEM;
  p->guest = g;
  p->result = result;
  rc = UV_ESHUTDOWN;
  if (napi_create_promise(env, &p->deferred, &made) != napi_ok)
    goto free_promise;
  rc = submit_promise(core(u), t, p, ret_id);
  if (rc < 0)
    goto conclude_deferred;
  *ret_promise = made;
  return 0;

conclude_deferred:
  /* Settling frees the memory of the deferred. It is resolved, since an unseen rejection would be
   * reported. */
  if (napi_get_undefined(env, &nothing) == napi_ok)
    napi_resolve_deferred(env, p->deferred, nothing);
free_promise:
  free(p);
  return rc;
}

/* Hides the record of a promise: it is internal, and may be freed at any time. */
static int get_info(const uvsched_node_t *u, uvs_id_t id, uvs_info_t *ret) {
  int rc = uvs_info(core(u), id, ret);

  if (rc == 0 && ret->size > offsetof(uvs_info_t, work) &&
      (ret->work == run_work || ret->work == run_after)) {
    ret->work = NULL;
    ret->arg = NULL;
  }
  return rc;
}

/* ---- the table ---- */

static const struct uvsched_node_s functions = {
    .version = UVSCHED_NODE_VERSION,
    .size = sizeof(struct uvsched_node_s),
    .attach = attach,
    .submit = submit,
    .submit_many = submit_many,
    .cancel = cancel,
    .reschedule = reschedule,
    .finish = finish,
    .info = get_info,
    .now = read_clock,
    .cancelled = uvs_cancelled,
    .ref = set_ref,
    .lane_open = open_lane,
    .lane_dispose = dispose_lane,
    .strerror = uvs_strerror,
    .promise = promise,
    .settle = settle,
    .call = call,
    .report = report,
    .error = error_for,
    .alive = alive,
};

/* On the main thread, process.exit() calls no clean-up hook, but waits for libuv's pool. So bodies
 * in the pool must be asked to stop here. */
static napi_value on_exit_event(napi_env env, napi_callback_info info) {
  struct addon *a = NULL;

  if (napi_get_cb_info(env, info, NULL, NULL, NULL, (void **)&a) != napi_ok)
    return NULL;
  for (struct gate *t = a->gates; t != NULL; t = t->next)
    uvs_shutdown_now(t->s, NULL, NULL);
  return NULL;
}

/* Calls process.once('exit', ...). If this fails, the exit only takes longer, so errors are
 * ignored. */
static void listen_for_exit(napi_env env, struct addon *a) {
  napi_value global, process, once, argv[2], ignored;

  if (napi_get_global(env, &global) == napi_ok &&
      napi_get_named_property(env, global, "process", &process) == napi_ok &&
      napi_get_named_property(env, process, "once", &once) == napi_ok &&
      napi_create_string_utf8(env, "exit", NAPI_AUTO_LENGTH, &argv[0]) == napi_ok &&
      napi_create_function(env, "uvsched", NAPI_AUTO_LENGTH, on_exit_event, a, &argv[1]) == napi_ok)
    napi_call_function(env, process, once, 2, argv, NULL);
  napi_get_and_clear_last_exception(env, &ignored);
}

static struct gate *make_gate(napi_env env, struct host *h) {
  struct gate *t = malloc(sizeof *t);

  if (t == NULL)
    return NULL;
  if (h->addon->gates == NULL)
    listen_for_exit(env, h->addon);
  *t = (struct gate){functions, h->addon, h->addon->gates, uvs_retain(h->s)};
  h->addon->gates = t;
  return t;
}

/* table(): the value of scheduler.native. */
napi_value uvs_node_table(napi_env env, napi_callback_info info) {
  const napi_type_tag tag = UVSCHED_NODE_TAG;
  struct host *h = uvs_node_host(env, info);
  napi_value external = NULL;

  if (h->gate == NULL && h->s == NULL) {
    napi_throw_error(env, "ESHUTDOWN", "uvsched: the scheduler is closed");
    return NULL;
  }
  if (h->gate == NULL)
    h->gate = make_gate(env, h);
  if (h->gate == NULL ||
      napi_create_external(env, &h->gate->table, NULL, NULL, &external) != napi_ok ||
      napi_type_tag_object(env, external, &tag) != napi_ok)
    napi_throw_error(env, "ENOMEM", "uvsched: out of memory");
  return external;
}

void uvs_node_free_tables(struct addon *a) {
  struct guest *g;
  struct gate *t;

  while ((g = a->guests) != NULL) {
    a->guests = g->next;
    free(g);
  }
  while ((t = a->gates) != NULL) {
    a->gates = t->next;
    uvs_release(t->s);
    free(t);
  }
}
