/* SPDX-License-Identifier: MIT
 *
 * native: another addon, for native.test.js. It submits bodies, lets promises be settled, and
 * counts in memory that JavaScript outlives it with (a SharedArrayBuffer of the test's main
 * thread), so that a test can see what happened in a worker which is gone.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <uvsched_node.h>

/* The counters; native.test.js has the same list. */
enum {
  BODIES, /* that began */
  BODIES_OVER,
  ASKED,       /* bodies that saw that they are to stop */
  RESULTS,     /* `result` with an env */
  RESULTS_END, /* and without */
  DONES,
  DONES_LATE,    /* after the finalizer of the instance data: must not be */
  FINALIZED,     /* the instance data */
  TABLE_ANSWERS, /* what submit answered in the finalizer, and in clean-up hooks; negated */
  HOOK_EARLY,    /* of a hook that was added before the table was asked for */
  HOOK_LATE,     /* and after */
  HELPER_ANSWER, /* what `promise` answered in the finalizer; negated */
  ALIVE,         /* and `alive` in a `done` at the end, plus one */
  COUNTERS
};

struct instance {
  const uvsched_node_t *u;
  napi_env env;
  atomic_int *counts;
  napi_ref counters; /* keeps their memory */
  bool gone;
};

struct job {
  struct instance *in;
  struct job *self; /* what `arg` must be */
  int answer;       /* what the body returns */
  int ms;           /* how long it takes; it looks whether it is to stop */
  int throws;       /* of `result` */
  double number;    /* what the promise is resolved with */
  napi_ref fn;      /* of `calls` */
  napi_deferred deferred;
  napi_async_context context;
};

static void count(struct instance *in, int which) {
  if (in->counts != NULL)
    atomic_fetch_add(&in->counts[which], 1);
}

static void put(struct instance *in, int which, int value) {
  if (in->counts != NULL)
    atomic_store(&in->counts[which], value);
}

/* ---- arguments ---- */

static struct instance *instance(napi_env env) {
  void *data = NULL;

  napi_get_instance_data(env, &data);
  return data;
}

static double number_of(napi_env env, napi_value object, const char *name, double otherwise) {
  napi_value value;
  napi_valuetype type;
  double number = otherwise;

  if (napi_get_named_property(env, object, name, &value) == napi_ok &&
      napi_typeof(env, value, &type) == napi_ok && type == napi_number)
    napi_get_value_double(env, value, &number);
  return number;
}

static napi_value number(napi_env env, double value) {
  napi_value n = NULL;

  napi_create_double(env, value, &n);
  return n;
}

/* The id of a task has 64 bits. */
static napi_value bigint(napi_env env, uint64_t value) {
  napi_value n = NULL;

  napi_create_bigint_uint64(env, value, &n);
  return n;
}

/* ---- bodies ---- */

static int body(uvs_run_t *run) {
  struct job *j = run->arg;
  struct instance *in = j->in;

  if (j->self != j)
    abort();
  count(in, BODIES);
  for (int i = 0; i < j->ms; i++) {
    if (in->u->cancelled(run)) {
      count(in, ASKED);
      break;
    }
    usleep(1000);
  }
  j->number += 1;
  count(in, BODIES_OVER);
  return j->answer;
}

static int after(uvs_run_t *run) {
  struct job *j = run->arg;

  if (j->self != j)
    abort();
  j->number += 10;
  return 0;
}

static napi_value result(napi_env env, int status, void *arg) {
  struct job *j = arg;

  if (env == NULL) {
    count(j->in, RESULTS_END);
    return NULL;
  }
  count(j->in, RESULTS);
  if (j->throws) {
    napi_throw_error(env, "ETEST", "thrown by result");
    return NULL;
  }
  return status < 0 ? NULL : number(env, j->number);
}

static void done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct job *j = arg;

  (void)s;
  (void)id;
  (void)status;
  count(j->in, j->in->gone ? DONES_LATE : DONES);
  put(j->in, ALIVE, 1 + j->in->u->alive(j->in->u, j->in->env));
  free(j);
}

static struct job *make(napi_env env, napi_value o, uvs_task_t *t) {
  struct job *j = calloc(1, sizeof *j);

  if (j == NULL)
    abort();
  j->in = instance(env);
  j->self = j;
  j->answer = (int)number_of(env, o, "answer", 0);
  j->ms = (int)number_of(env, o, "ms", 0);
  j->throws = (int)number_of(env, o, "throws", 0);
  j->number = number_of(env, o, "number", 0);
  uvs_task_init(t);
  t->first_ns = (int64_t)number_of(env, o, "delay", 0);
  t->period_ns = (int64_t)number_of(env, o, "period", 0);
  t->kind = t->period_ns > 0 ? UVS_FIXED_RATE : UVS_ONE_SHOT;
  t->max_runs = (uint32_t)number_of(env, o, "runs", 0);
  t->lane = (uvs_lane_t)number_of(env, o, "lane", 0);
  t->size = (size_t)number_of(env, o, "size", (double)t->size);
  t->work = number_of(env, o, "loop", 0) == 0 ? body : NULL;
  t->after = number_of(env, o, "loop", 0) != 0 || number_of(env, o, "after", 0) != 0 ? after : NULL;
  t->done = done;
  t->arg = j;
  return j;
}

/* ---- what JavaScript calls ---- */

/* promise(options): the promise, or the code; options.id is set. */
static napi_value promise(napi_env env, napi_callback_info info) {
  napi_value argv[1], ret = NULL;
  size_t argc = 1;
  uvs_task_t t;
  uvs_id_t id = 0;
  struct job *j;
  bool pending = false;
  int rc;

  napi_get_cb_info(env, info, &argc, argv, NULL, NULL);
  j = make(env, argv[0], &t);
  rc = j->in->u->promise(j->in->u, env, &t, number_of(env, argv[0], "bare", 0) != 0 ? NULL : result,
                         &id, &ret);
  napi_is_exception_pending(env, &pending);
  if (pending)
    abort();
  if (rc < 0) {
    free(j);
    return number(env, rc);
  }
  napi_set_named_property(env, argv[0], "id", bigint(env, id));
  return ret;
}

/* submit(options, n): n tasks; the id of the last one, or a code. */
static napi_value submit(napi_env env, napi_callback_info info) {
  napi_value argv[2];
  size_t argc = 2;
  uint32_t n = 1;
  uvs_id_t id = 0;
  int rc = 0;

  napi_get_cb_info(env, info, &argc, argv, NULL, NULL);
  napi_get_value_uint32(env, argv[1], &n);
  for (uint32_t i = 0; i < n && rc == 0; i++) {
    uvs_task_t t;
    struct job *j = make(env, argv[0], &t);

    rc = i % 2 == 0 ? j->in->u->submit(j->in->u, &t, &id)
                    : j->in->u->submit_many(j->in->u, &t, 1, &id);
    if (rc < 0)
      free(j);
  }
  return rc < 0 ? number(env, rc) : bigint(env, id);
}

/* act(word, id, number) */
static napi_value act(napi_env env, napi_callback_info info) {
  const uvsched_node_t *u = instance(env)->u;
  napi_value argv[3];
  size_t argc = 3;
  char word[16] = "";
  double lane_number = 0, n = 0;
  uvs_id_t id = 0;
  bool lossless;
  uvs_lane_options_t o;
  uvs_lane_t lane = 0;
  uvs_info_t i;
  int rc;

  napi_get_cb_info(env, info, &argc, argv, NULL, NULL);
  napi_get_value_string_utf8(env, argv[0], word, sizeof word, NULL);
  if (napi_get_value_double(env, argv[1], &lane_number) == napi_ok) /* or a stale id */
    id = (uvs_id_t)lane_number;
  else
    napi_get_value_bigint_uint64(env, argv[1], &id, &lossless);
  napi_get_value_double(env, argv[2], &n);
  uvs_info_init(&i);
  uvs_lane_options_init(&o);
  if (strcmp(word, "cancel") == 0)
    return number(env, u->cancel(u, id, (unsigned)n));
  if (strcmp(word, "finish") == 0)
    return number(env, u->finish(u, id, (int)n));
  if (strcmp(word, "reschedule") == 0)
    return number(env, u->reschedule(u, id, (int64_t)n));
  if (strcmp(word, "ref") == 0)
    return number(env, u->ref(u, id, (int)n));
  if (strcmp(word, "state") == 0) {
    rc = u->info(u, id, &i);
    return number(env, rc < 0 ? rc : i.state);
  }
  if (strcmp(word, "arg") == 0) {
    rc = u->info(u, id, &i);
    return number(env, rc < 0 ? rc : i.arg != NULL || i.work != NULL);
  }
  if (strcmp(word, "lane") == 0) {
    rc = u->lane_open(u, &o, &lane);
    return number(env, rc < 0 ? rc : (double)lane);
  }
  if (strcmp(word, "dispose") == 0)
    return number(env, u->lane_dispose(u, (uvs_lane_t)id, (unsigned)n));
  if (strcmp(word, "now") == 0)
    return number(env, (double)u->now(u));
  if (strcmp(word, "alive") == 0)
    return number(env, u->alive(u, env));
  abort();
}

/* error(code) */
static napi_value error(napi_env env, napi_callback_info info) {
  const uvsched_node_t *u = instance(env)->u;
  napi_value argv[1], made = NULL;
  size_t argc = 1;
  int32_t code = 0;
  int rc;

  napi_get_cb_info(env, info, &argc, argv, NULL, NULL);
  napi_get_value_int32(env, argv[0], &code);
  rc = u->error(u, env, code, &made);
  return rc < 0 ? number(env, rc) : made;
}

/* On the loop: calls the function, and settles the promise with what came of it. */
static void call_back(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct job *j = arg;
  const uvsched_node_t *u = j->in->u;
  napi_env env = j->in->env;
  napi_handle_scope scope;
  napi_value fn, argv[1], ret = NULL;
  int rc;

  (void)s;
  (void)id;
  (void)status;
  if (u->alive(u, env)) {
    napi_open_handle_scope(env, &scope);
    napi_get_reference_value(env, j->fn, &fn);
    argv[0] = number(env, j->number);
    rc = u->call(u, env, j->context, NULL, fn, 1, argv, &ret);
    if (rc == UVSCHED_NODE_THREW)
      ret = number(env, rc);
    u->settle(u, env, j->deferred, rc == UV_EINVAL ? rc : 0, ret);
    napi_delete_reference(env, j->fn);
    napi_async_destroy(env, j->context);
    napi_close_handle_scope(env, scope);
  }
  free(j);
}

/* calls(fn): runs a body, then fn on the loop; a promise of what it returned. */
static napi_value calls(napi_env env, napi_callback_info info) {
  napi_value argv[1], name, ret = NULL;
  size_t argc = 1;
  uvs_task_t t;
  struct job *j;

  napi_get_cb_info(env, info, &argc, argv, NULL, NULL);
  j = make(env, argv[0], &t);
  t.done = call_back;
  napi_create_reference(env, argv[0], 1, &j->fn);
  napi_create_promise(env, &j->deferred, &ret);
  napi_create_string_utf8(env, "native.test", NAPI_AUTO_LENGTH, &name);
  napi_async_init(env, NULL, name, &j->context);
  if (j->in->u->submit(j->in->u, &t, NULL) < 0)
    abort();
  return ret;
}

/* report(error or undefined): leave it pending, have it reported. The answers of promise, then of
 * report. */
static napi_value report(napi_env env, napi_callback_info info) {
  const uvsched_node_t *u = instance(env)->u;
  napi_value argv[1], ret, made;
  napi_valuetype type;
  size_t argc = 1;
  uvs_task_t t;
  bool pending = false;
  int busy, rc;

  napi_get_cb_info(env, info, &argc, argv, NULL, NULL);
  napi_typeof(env, argv[0], &type);
  uvs_task_init(&t);
  t.work = body;
  t.arg = NULL;
  if (type != napi_undefined)
    napi_throw(env, argv[0]);
  busy = type == napi_undefined ? 0 : u->promise(u, env, &t, NULL, NULL, &made);
  rc = u->report(u, env);
  napi_is_exception_pending(env, &pending);
  if (pending)
    abort();
  napi_create_array(env, &ret);
  napi_set_element(env, ret, 0, number(env, busy));
  napi_set_element(env, ret, 1, number(env, rc));
  return ret;
}

/* heap(): bytes in use, where malloc tells. */
static napi_value heap(napi_env env, napi_callback_info info) {
  (void)info;
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
  return number(env, (double)mallinfo2().uordblks);
#else
  return number(env, 0);
#endif
}

/* ---- the table ---- */

static int submit_nothing(struct instance *in) {
  uvs_task_t t;

  uvs_task_init(&t);
  t.work = body;
  t.first_ns = UVS_HOUR(1); /* so that it never runs, without an arg */
  return in->u->submit(in->u, &t, NULL);
}

static void on_hook_early(void *arg) {
  struct instance *in = arg;

  put(in, HOOK_EARLY, in->u == NULL ? 0 : -submit_nothing(in));
}

static void on_hook_late(void *arg) {
  struct instance *in = arg;

  put(in, HOOK_LATE, 1 - submit_nothing(in));
}

/* get(external, version, counters): any of the errors of uvsched_node_get. */
static napi_value get(napi_env env, napi_callback_info info) {
  struct instance *in = instance(env);
  napi_value argv[3];
  size_t argc = 3, length = 0;
  uint32_t version = 0;
  const uvsched_node_t *u;
  bool typed = false;
  void *data = NULL;

  napi_get_cb_info(env, info, &argc, argv, NULL, NULL);
  napi_get_value_uint32(env, argv[1], &version);
  if (version == 0)
    version = UVSCHED_NODE_VERSION;
  if (uvsched_node_get(env, argv[0], version, &u) != napi_ok)
    return NULL;
  if (in->u == NULL)
    napi_add_env_cleanup_hook(env, on_hook_late, in);
  in->u = u;
  if (napi_is_typedarray(env, argv[2], &typed) == napi_ok && typed &&
      napi_get_typedarray_info(env, argv[2], NULL, &length, &data, NULL, NULL) == napi_ok &&
      length >= COUNTERS) {
    if (in->counters != NULL)
      napi_delete_reference(env, in->counters);
    napi_create_reference(env, argv[2], 1, &in->counters);
    in->counts = data;
  }
  return argv[0];
}

/* old(): an external with our tag, as of a package whose table is shorter. */
static napi_value old(napi_env env, napi_callback_info info) {
  static const uint32_t table[2] = {UVSCHED_NODE_VERSION, 8};
  const napi_type_tag tag = UVSCHED_NODE_TAG;
  napi_value external = NULL;

  (void)info;
  napi_create_external(env, (void *)table, NULL, NULL, &external);
  napi_type_tag_object(env, external, &tag);
  return external;
}

/* foreign(): an external of somebody else's. */
static napi_value foreign(napi_env env, napi_callback_info info) {
  napi_value external = NULL;

  (void)info;
  napi_create_external(env, (void *)foreign, NULL, NULL, &external);
  return external;
}

static void finalize(napi_env env, void *data, void *hint) {
  struct instance *in = data;
  napi_value ret;
  uvs_task_t t;

  (void)hint;
  in->gone = true;
  count(in, FINALIZED);
  if (in->u != NULL) {
    uvs_task_init(&t);
    t.work = body;
    put(in, TABLE_ANSWERS, -submit_nothing(in));
    put(in, HELPER_ANSWER, -in->u->promise(in->u, env, &t, NULL, NULL, &ret));
  }
  free(in);
}

NAPI_MODULE_INIT() {
  static const struct {
    const char *name;
    napi_callback call;
  } functions[] = {
      {"get", get},       {"old", old},   {"foreign", foreign}, {"promise", promise},
      {"submit", submit}, {"act", act},   {"error", error},     {"calls", calls},
      {"report", report}, {"heap", heap},
  };
  struct instance *in = calloc(1, sizeof *in);

  if (in == NULL)
    abort();
  in->env = env;
  napi_set_instance_data(env, in, finalize, NULL);
  napi_add_env_cleanup_hook(env, on_hook_early, in);
  for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
    napi_value f;

    napi_create_function(env, functions[i].name, NAPI_AUTO_LENGTH, functions[i].call, NULL, &f);
    napi_set_named_property(env, exports, functions[i].name, f);
  }
  return exports;
}
