/* SPDX-License-Identifier: MIT
 *
 * hasher: a small addon whose bodies run on the pool of a scheduler of uvsched's.
 *
 *   init(scheduler.native)          once, before the others
 *   hashFile(path)                  a promise of the digest
 *   watch(path, periodMs, report)   a number; report(path, digest) or report(path, null, error) is
 *                                   called when the digest, or the error, is another than before
 *   stop(number)                    ends a watch; true if it was one
 *
 * What to take from here for an addon of your own:
 *
 * - A task's memory (struct job, struct watch) belongs to the task. It is made before the
 * submission and freed in `done`, which comes exactly once for each accepted task, however it ends.
 * Nothing else frees it, so JavaScript can hold a number and needs no finalizer.
 * - The body, on the pool, touches that memory only, and no napi at all. What it writes is seen by
 *   `after` and `done` on the loop without a lock.
 * - On the loop, ask u->alive before napi: at the end of an environment (worker.terminate()) tasks
 *   are still cancelled and `done`, but there is no JavaScript any more.
 * - No static variables: a worker loads the addon again, with another scheduler.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uvsched_node.h>

#define BLOCK 65536 /* read at a time; between two we ask whether to stop */

struct instance {
  const uvsched_node_t *u; /* NULL before init */
};

/* ---- the body ---- */

/* FNV-1a, 64 bits: short, and good enough to see that a file has changed. */
static uint64_t hash(uint64_t h, const unsigned char *data, size_t size) {
  for (size_t i = 0; i < size; i++)
    h = (h ^ data[i]) * UINT64_C(0x100000001b3);
  return h;
}

/* Thread: the pool's. 0, or a negative UV_E* code. */
static int hash_file(const uvsched_node_t *u, const uvs_run_t *run, const char *path,
                     uint64_t *ret) {
  unsigned char block[BLOCK];
  uint64_t h = UINT64_C(0xcbf29ce484222325);
  size_t n = 0;
  int rc = 0;
  FILE *f = fopen(path, "rb");

  if (f == NULL)
    return uv_translate_sys_error(errno);
  while (rc == 0 && (n = fread(block, 1, sizeof block, f)) > 0) {
    h = hash(h, block, n);
    if (u->cancelled(run))
      rc = UV_ECANCELED;
  }
  if (rc == 0 && ferror(f))
    rc = uv_translate_sys_error(errno);
  fclose(f);
  if (rc == 0)
    *ret = h;
  return rc;
}

/* ---- arguments and values ---- */

static struct instance *instance(napi_env env) {
  void *data = NULL;

  napi_get_instance_data(env, &data);
  return data;
}

/* The instance, if init was called and the arguments are there; else NULL, and an Error is thrown.
 */
static struct instance *arguments(napi_env env, napi_callback_info info, size_t count,
                                  napi_value *argv) {
  struct instance *in = instance(env);
  size_t argc = count;

  if (napi_get_cb_info(env, info, &argc, argv, NULL, NULL) != napi_ok)
    return NULL;
  if (argc < count) {
    napi_throw_type_error(env, "ERR_MISSING_ARGS", "hasher: too few arguments");
    return NULL;
  }
  if (in->u == NULL) {
    napi_throw_error(env, NULL, "hasher: init was not called");
    return NULL;
  }
  return in;
}

/* On the heap, for the task; NULL, and an Error is thrown. */
static char *path_of(napi_env env, napi_value value) {
  size_t length = 0;
  char *path;

  if (napi_get_value_string_utf8(env, value, NULL, 0, &length) != napi_ok) {
    napi_throw_type_error(env, "ERR_INVALID_ARG_TYPE", "hasher: path must be a string");
    return NULL;
  }
  path = malloc(length + 1);
  if (path == NULL) {
    napi_throw_error(env, "ENOMEM", "hasher: out of memory");
    return NULL;
  }
  napi_get_value_string_utf8(env, value, path, length + 1, &length);
  return path;
}

static napi_value hex(napi_env env, uint64_t digest) {
  char text[17];
  napi_value value = NULL;

  snprintf(text, sizeof text, "%016" PRIx64, digest);
  napi_create_string_utf8(env, text, 16, &value);
  return value;
}

/* A refused submission as an exception. */
static napi_value throw_code(const uvsched_node_t *u, napi_env env, int rc) {
  napi_value error;

  if (u->error(u, env, rc, &error) == 0)
    napi_throw(env, error);
  return NULL;
}

/* ---- hashFile: one run, and a promise ---- */

struct job {
  const uvsched_node_t *u;
  char *path;
  uint64_t digest;
};

static void free_job(struct job *j) {
  free(j->path);
  free(j);
}

static int job_work(uvs_run_t *run) {
  struct job *j = run->arg;

  return hash_file(j->u, run, j->path, &j->digest);
}

/* What the promise is resolved with. A failure is left to the scheduler: an Error with its code. */
static napi_value job_result(napi_env env, int status, void *arg) {
  const struct job *j = arg;

  return env == NULL || status < 0 ? NULL : hex(env, j->digest);
}

static void job_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)s;
  (void)id;
  (void)status;
  free_job(arg);
}

static napi_value hash_file_call(napi_env env, napi_callback_info info) {
  napi_value argv[1], promise = NULL;
  struct instance *in = arguments(env, info, 1, argv);
  struct job *j;
  uvs_task_t t;
  int rc;

  if (in == NULL)
    return NULL;
  j = calloc(1, sizeof *j);
  if (j == NULL)
    return throw_code(in->u, env, UV_ENOMEM);
  j->u = in->u;
  j->path = path_of(env, argv[0]);
  if (j->path == NULL) {
    free_job(j);
    return NULL;
  }
  uvs_task_init(&t);
  t.work = job_work;
  t.done = job_done;
  t.arg = j;
  t.name = "hashFile";
  rc = in->u->promise(in->u, env, &t, job_result, NULL, &promise);
  if (rc < 0) {
    free_job(j); /* refused: no `done` will come */
    return throw_code(in->u, env, rc);
  }
  return promise;
}

/* ---- watch: at a fixed rate, and a function that is called ---- */

struct watch {
  const uvsched_node_t *u;
  napi_env env;
  napi_ref report;
  napi_async_context context; /* of the caller of watch, for AsyncLocalStorage */
  char *path;
  uint64_t digest; /* of the last run that succeeded; the body writes it */
  bool told;       /* report was called */
  int told_status; /* and with this */
  uint64_t told_digest;
};

static void free_watch(struct watch *w) {
  /* At the end of an environment node takes back what is its own. */
  if (w->u->alive(w->u, w->env)) {
    if (w->report != NULL)
      napi_delete_reference(w->env, w->report);
    if (w->context != NULL)
      napi_async_destroy(w->env, w->context);
  }
  free(w->path);
  free(w);
}

static int watch_work(uvs_run_t *run) {
  struct watch *w = run->arg;

  return hash_file(w->u, run, w->path, &w->digest);
}

static void call_report(struct watch *w) {
  napi_env env = w->env;
  napi_handle_scope scope;
  napi_value fn, argv[3];

  if (!w->u->alive(w->u, env) || napi_open_handle_scope(env, &scope) != napi_ok)
    return;
  if (napi_get_reference_value(env, w->report, &fn) == napi_ok &&
      napi_create_string_utf8(env, w->path, NAPI_AUTO_LENGTH, &argv[0]) == napi_ok &&
      napi_get_null(env, &argv[1]) == napi_ok) {
    if (w->told_status == 0)
      argv[1] = hex(env, w->told_digest);
    /* What report throws is an 'uncaughtException', as from a timer. The watch goes on. */
    if (w->told_status == 0 || w->u->error(w->u, env, w->told_status, &argv[2]) == 0)
      w->u->call(w->u, env, w->context, NULL, fn, w->told_status == 0 ? 2 : 3, argv, NULL);
  }
  napi_close_handle_scope(env, scope);
}

/* Thread: the environment's, after each run. */
static int watch_after(uvs_run_t *run) {
  struct watch *w = run->arg;

  if (w->told && w->told_status == run->status && (run->status < 0 || w->told_digest == w->digest))
    return 0;
  if (run->status == UV_ECANCELED)
    return 0; /* stopped in the middle of the file */
  w->told = true;
  w->told_status = run->status;
  w->told_digest = w->digest;
  call_report(w);
  return 0;
}

static void watch_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)s;
  (void)id;
  (void)status;
  free_watch(arg);
}

static napi_value watch_call(napi_env env, napi_callback_info info) {
  napi_value argv[3], name, number = NULL;
  struct instance *in = arguments(env, info, 3, argv);
  napi_valuetype type = napi_undefined;
  double period_ms = 0;
  struct watch *w;
  uvs_task_t t;
  uvs_id_t id;
  int rc;

  if (in == NULL)
    return NULL;
  if (napi_get_value_double(env, argv[1], &period_ms) != napi_ok || !(period_ms >= 1) ||
      period_ms > 1e9 || napi_typeof(env, argv[2], &type) != napi_ok || type != napi_function) {
    napi_throw_type_error(env, "ERR_INVALID_ARG_VALUE",
                          "hasher: watch(path, periodMs from 1 to 1e9, function)");
    return NULL;
  }
  w = calloc(1, sizeof *w);
  if (w == NULL)
    return throw_code(in->u, env, UV_ENOMEM);
  w->u = in->u;
  w->env = env;
  w->path = path_of(env, argv[0]);
  if (w->path == NULL)
    goto free_all;
  if (napi_create_reference(env, argv[2], 1, &w->report) != napi_ok ||
      napi_create_string_utf8(env, "hasher.watch", NAPI_AUTO_LENGTH, &name) != napi_ok ||
      napi_async_init(env, NULL, name, &w->context) != napi_ok) {
    throw_code(in->u, env, UV_ENOMEM);
    goto free_all;
  }
  uvs_task_init(&t);
  t.kind = UVS_FIXED_RATE;
  t.period_ns = (int64_t)(period_ms * 1e6);
  t.missed_policy =
      UVS_MISSED_SKIP; /* a file that takes longer than a period: no run to make up for it */
  t.failure_policy = UVS_FAIL_CONTINUE; /* a file that is not there may come back */
  t.work = watch_work;
  t.after = watch_after;
  t.done = watch_done;
  t.arg = w;
  t.name = "watch";
  rc = in->u->submit(in->u, &t, &id);
  if (rc < 0) {
    throw_code(in->u, env, rc);
    goto free_all;
  }
  napi_create_bigint_uint64(env, id, &number); /* ids have 64 bits */
  return number;

free_all:
  free_watch(w);
  return NULL;
}

/* An id may be stale, and never dangles: no harm is done by stopping twice. */
static napi_value stop_call(napi_env env, napi_callback_info info) {
  napi_value argv[1], was = NULL;
  struct instance *in = arguments(env, info, 1, argv);
  uvs_id_t id = 0;
  bool lossless;

  if (in == NULL)
    return NULL;
  napi_get_value_bigint_uint64(env, argv[0], &id, &lossless);
  napi_get_boolean(env, id > 0 && in->u->cancel(in->u, id, UVS_CANCEL_TOKEN) >= 0, &was);
  return was;
}

/* ---- the module ---- */

static napi_value init_call(napi_env env, napi_callback_info info) {
  struct instance *in = instance(env);
  napi_value argv[1];
  size_t argc = 1;

  if (napi_get_cb_info(env, info, &argc, argv, NULL, NULL) == napi_ok)
    uvsched_node_get(env, argv[0], UVSCHED_NODE_VERSION, &in->u); /* or it throws */
  return NULL;
}

/* All tasks have ended by now. */
static void free_instance(napi_env env, void *data, void *hint) {
  (void)env;
  (void)hint;
  free(data);
}

NAPI_MODULE_INIT() {
  static const struct {
    const char *name;
    napi_callback call;
  } functions[] = {
      {"init", init_call},
      {"hashFile", hash_file_call},
      {"watch", watch_call},
      {"stop", stop_call},
  };
  struct instance *in = calloc(1, sizeof *in);

  if (in == NULL || napi_set_instance_data(env, in, free_instance, NULL) != napi_ok) {
    free(in);
    napi_throw_error(env, "ENOMEM", "hasher: out of memory");
    return NULL;
  }
  for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
    napi_value f;

    if (napi_create_function(env, functions[i].name, NAPI_AUTO_LENGTH, functions[i].call, NULL,
                             &f) != napi_ok ||
        napi_set_named_property(env, exports, functions[i].name, f) != napi_ok)
      return NULL; /* an Error is pending */
  }
  return exports;
}
