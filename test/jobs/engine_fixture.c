/* SPDX-License-Identifier: MIT */
#include "engine_fixture.h"

#include <dirent.h>
#include <string.h>
#include <unistd.h>

#include <uvsched/settings.h>

#include "lib/tmp.h"
#include "redis_ns.h"

#define QUIET_ROUNDS 4
#define ROUNDS_MAX 200000
#define PATIENCE_MS 60000 /* real time; only for a library that hangs */

/* To add a store, add a line. A server is chosen only if STORE asks for it. */
static const struct {
  const char *name;
  bool file, server;
} kinds[] = {{"memory", false, false}, {"sqlite", true, false}, {"redis", false, true}};

const char *engine_store;
bool engine_is_server;
static bool store_is_file;

bool engine_choose(size_t i) {
  const char *only = getenv("STORE");

  if (i >= sizeof kinds / sizeof *kinds)
    return false;
  engine_store = only == NULL || strcmp(only, kinds[i].name) == 0 ? kinds[i].name : NULL;
  if (kinds[i].server && (only == NULL || !redis_ns_is_built()))
    engine_store = NULL;
  store_is_file = kinds[i].file;
  engine_is_server = kinds[i].server;
  if (engine_store != NULL)
    printf("\nstore: %s\n", engine_store);
  return true;
}

static void must(bool good, const char *what) {
  if (good)
    return;
  fprintf(stderr, "engine_fixture: %s\n", what);
  abort();
}

static void append(char *text, const char *more) {
  size_t length = strlen(text);

  must(length + strlen(more) + 1 < TEXT_MAX, "a log is full");
  strcpy(text + length, more);
}

bool engine_is_on_loop(const struct engine *f) {
  uv_thread_t self = uv_thread_self();

  return uv_thread_equal(&self, &f->thread) != 0;
}

/* ------------------------------------------------------------------- open --- */

static void on_event(uvs_jobs_t *jobs, const uvs_jobs_event_t *e, void *arg) {
  struct node *n = arg;
  char line[1000], number[16] = "";

  must(uvs_jobs_data(jobs) == arg, "the arg of on_event is not uvs_jobs_data");
  must(engine_is_on_loop(n->f), "an event on another thread");
  n->f->activity++;
  if (n->number != 0)
    snprintf(number, sizeof number, "%d:", n->number);
  snprintf(line, sizeof line, "%s%s%s%s%s%s%s", n->f->events[0] == '\0' ? "" : "; ", number,
           uvs_jobs_event_name(e->what), e->id == NULL ? "" : " ", e->id == NULL ? "" : e->id,
           *e->text == '\0' ? "" : " ", e->text);
  if (strlen(n->f->events) + strlen(line) < TEXT_MAX - 1) /* the rest is cut off */
    append(n->f->events, line);
}

static void name_store(struct engine *f) {
  static unsigned stores;

  if (engine_is_server) {
    redis_ns_name(f->store, sizeof f->store);
    return;
  }
  if (!store_is_file) {
    snprintf(f->store, sizeof f->store, "memory:engine-%u", stores++);
    return;
  }
  snprintf(f->folder, sizeof f->folder, "%s/uvsched-engine-XXXXXX", tmp_root());
  must(mkdtemp(f->folder) != NULL, "mkdtemp");
  snprintf(f->store, sizeof f->store, "sqlite:%s/jobs.db", f->folder);
}

struct engine *engine_new(void) {
  struct engine *f = calloc(1, sizeof *f);

  must(f != NULL, "no memory");
  f->thread = uv_thread_self();
  must(engine_store != NULL, "no store was chosen");
  vclock_init(&f->clock);
  uvs_jobs_options_init(&f->options);
  f->options.on_event = on_event;
  uvs_options_init(&f->scheduler);
  f->scheduler.concurrency = 0;
  f->scheduler.data = f;
  name_store(f);
  must(uv_loop_init(&f->loop) == 0, "uv_loop_init");
  return f;
}

static void open_node(struct engine *f, int number) {
  struct node *n = &f->nodes[number];
  char text[300];
  int rc;

  memset(n, 0, sizeof *n);
  n->f = f;
  n->number = number;
  f->options.store = f->store;
  f->options.arg = n;
  rc = uvs_jobs_open(f->s, &f->options, &n->jobs, text, sizeof text);
  if (rc != 0)
    fprintf(stderr, "uvs_jobs_open: %d %s\n", rc, text);
  must(rc == 0, "uvs_jobs_open");
  must(uvs_jobs_scheduler(n->jobs) == f->s, "uvs_jobs_scheduler");
  if (!f->real_clock)
    engine_quiesce(f);
}

int engine_open_node(struct engine *f) {
  must(f->n_nodes < NODES_MAX, "too many nodes");
  open_node(f, f->n_nodes);
  return f->n_nodes++;
}

void engine_open(struct engine *f) {
  if (!f->real_clock)
    f->options.clock = f->scheduler.clock = vclock_option(&f->clock);
  must(uvs_open(&f->loop, &f->scheduler, &f->s) == 0, "uvs_open");
  engine_open_node(f);
}

struct engine *engine_start(void) {
  struct engine *f = engine_new();

  engine_open(f);
  return f;
}

/* ------------------------------------------------------------------- time --- */

static bool is_live(const struct node *n) {
  return n->jobs != NULL && !n->stopped && !n->closed;
}

/* Waits until the keeper has nothing left to do. UVS_NEVER if it has ended. */
static int64_t node_next_due(const struct node *n) {
  int64_t due_ns = UVS_NEVER;
  int rc = uvs_jobs_next_due(n->jobs, &due_ns);

  must(rc == 0 || rc == UV_ESHUTDOWN, "uvs_jobs_next_due");
  return due_ns;
}

static void run_loop_once(struct engine *f) {
  for (int i = 0; i < 3; i++)
    uv_run(&f->loop, UV_RUN_NOWAIT);
}

void engine_quiesce(struct engine *f) {
  int quiet = 0;

  for (int round = 0; quiet < QUIET_ROUNDS; round++) {
    uint64_t before = f->activity;

    must(round < ROUNDS_MAX, "it never becomes quiet");
    for (int i = 0; i < f->n_nodes; i++)
      if (is_live(&f->nodes[i]))
        node_next_due(&f->nodes[i]);
    run_loop_once(f);
    quiet = f->activity == before ? quiet + 1 : 0;
  }
}

void engine_sync(struct engine *f) {
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < f->n_nodes; i++) {
      if (is_live(&f->nodes[i])) {
        uvs_jobs_wake(f->nodes[i].jobs);
        engine_quiesce(f);
      }
    }
  }
}

static void tell_clock(struct engine *f) {
  must(uvs_clock_changed(f->s) == 0, "uvs_clock_changed");
  for (int i = 0; i < f->n_nodes; i++) {
    if (is_live(&f->nodes[i])) {
      int rc;

      do
        rc = uvs_jobs_clock_changed(f->nodes[i].jobs);
      while (rc == UV_ENOMEM); /* a test lets allocations fail */
      must(rc == 0 || rc == UV_ESHUTDOWN, "uvs_jobs_clock_changed");
      engine_quiesce(f);
    }
  }
  engine_quiesce(f);
}

int64_t engine_next_due(struct engine *f) {
  int64_t due_ns = UVS_NEVER;

  must(uvs_next_due(f->s, &due_ns) == 0, "uvs_next_due");
  for (int i = 0; i < f->n_nodes; i++) {
    int64_t ns = is_live(&f->nodes[i]) ? node_next_due(&f->nodes[i]) : UVS_NEVER;

    due_ns = ns < due_ns ? ns : due_ns;
  }
  return due_ns;
}

void engine_jump(struct engine *f, int64_t ns) {
  engine_quiesce(f);
  vclock_advance_ns(&f->clock, ns);
  tell_clock(f);
}

void engine_advance(struct engine *f, int64_t ns) {
  int64_t end_ns = vclock_now(&f->clock) + ns;

  for (int steps = 0;; steps++) {
    int64_t due_ns;

    must(steps < ROUNDS_MAX, "time does not advance");
    engine_quiesce(f);
    due_ns = engine_next_due(f);
    if (due_ns > end_ns)
      break;
    vclock_advance_to(&f->clock, due_ns);
    tell_clock(f);
  }
  if (vclock_now(&f->clock) < end_ns) {
    vclock_advance_to(&f->clock, end_ns);
    tell_clock(f);
  }
}

void engine_step_wall(struct engine *f, int64_t ns) {
  engine_quiesce(f);
  vclock_step_wall(&f->clock, ns);
  tell_clock(f);
}

int64_t engine_wall(struct engine *f) {
  return vclock_wall(&f->clock);
}

void engine_stop(struct engine *f, int node) {
  engine_quiesce(f);
  f->nodes[node].stopped = true;
}

void engine_go_on(struct engine *f, int node) {
  f->nodes[node].stopped = false;
  uvs_jobs_clock_changed(f->nodes[node].jobs);
  engine_quiesce(f);
}

/* --------------------------------------------------------------- handlers --- */

int engine_probe_run(uvs_job_t *job) {
  struct probe *p = job->arg;
  struct engine *f = p->f;
  struct run *r = &f->runs[f->n_runs];

  must(f->n_runs < RUNS_MAX, "too many runs");
  must(job->jobs == f->nodes[p->node].jobs, "job->jobs");
  f->n_runs++;
  f->activity++;
  snprintf(r->id, sizeof r->id, "%s", job->id);
  r->node = p->node;
  r->wall_ns = engine_wall(f);
  r->attempt = job->attempt;
  r->crashes = job->crashes;
  r->fence = job->fence;
  r->due_ns = job->due_ns;
  r->put_ns = job->put_ns;
  if (p->hold) {
    r->job = job;
    return UVS_PENDING;
  }
  return p->act != NULL ? p->act(p, job) : p->ret;
}

uvs_job_handler_t engine_handler(void) {
  uvs_job_handler_t h;

  uvs_job_handler_init(&h);
  h.concurrency = 100;
  h.retry.jitter_percent = 0;
  return h;
}

struct probe *engine_handle(struct engine *f, const char *name, const uvs_job_handler_t *o) {
  struct probe *p = &f->probes[f->n_probes++];
  uvs_job_handler_t h = engine_handler();

  must(f->n_probes <= PROBES_MAX, "too many probes");
  p->f = f;
  p->node = f->to;
  must(uvs_jobs_handle(f->nodes[f->to].jobs, name, engine_probe_run, p, o == NULL ? &h : o) == 0,
       "uvs_jobs_handle");
  engine_quiesce(f);
  return p;
}

static void finish(struct run *r, int status) {
  uvs_job_t *job = r->job;

  r->job = NULL;
  must(uvs_job_finish(job, status) == 0, "uvs_job_finish");
}

void engine_finish(struct engine *f, int i, int status) {
  must(i < f->n_runs && f->runs[i].job != NULL, "this run is not held");
  finish(&f->runs[i], status);
  engine_quiesce(f);
}

const char *engine_ran(struct engine *f) {
  f->text[0] = '\0';
  for (; f->n_told < f->n_runs; f->n_told++) {
    if (f->text[0] != '\0')
      append(f->text, " ");
    append(f->text, f->runs[f->n_told].id);
  }
  return f->text;
}

void engine_await_event(struct engine *f, const char *text) {
  for (int i = 0; strstr(f->events, text) == NULL; i++) {
    must(i < PATIENCE_MS, "an event does not come");
    uv_sleep(1);
    engine_quiesce(f);
  }
}

const char *engine_events(struct engine *f) {
  memcpy(f->text, f->events, sizeof f->text);
  f->events[0] = '\0';
  return f->text;
}

/* ------------------------------------------------------------------ close --- */

static void on_closed(uvs_jobs_t *jobs, void *arg) {
  struct node *n = arg;

  must(jobs == n->jobs, "another store was closed");
  n->f->activity++;
  n->closed = true;
  n->close_calls++;
}

int engine_begin_close(struct engine *f, int node, int64_t grace_ns) {
  struct node *n = &f->nodes[node];

  return uvs_jobs_close(n->jobs, grace_ns, on_closed, n);
}

static void finish_held(struct engine *f, int node) {
  for (int i = 0; i < f->n_runs; i++)
    if (f->runs[i].node == node && f->runs[i].job != NULL)
      finish(&f->runs[i], UV_ECANCELED);
}

static void on_no_patience(uv_timer_t *timer) {
  (void)timer;
  must(false, "a close takes too long");
}

void engine_run_until(struct engine *f, const bool *ended) {
  uv_timer_t patience;

  uv_timer_init(&f->loop, &patience);
  uv_timer_start(&patience, on_no_patience, PATIENCE_MS, 0);
  while (!*ended)
    uv_run(&f->loop, UV_RUN_ONCE);
  uv_close((uv_handle_t *)&patience, NULL);
  uv_run(&f->loop, UV_RUN_NOWAIT);
}

void engine_close_node(struct engine *f, int node, int64_t grace_ns) {
  struct node *n = &f->nodes[node];
  int rc;

  if (n->jobs == NULL || n->closed)
    return;
  if (n->stopped)
    engine_go_on(f, node);
  rc = engine_begin_close(f, node, grace_ns);
  must(rc == 0 || rc == UV_EALREADY, "uvs_jobs_close");
  if (!f->real_clock)
    engine_advance(f, grace_ns);
  finish_held(f, node);
  engine_run_until(f, &n->closed);
  must(n->close_calls == 1, "the callback of the close did not come once");
}

void engine_reopen(struct engine *f, int node) {
  engine_close_node(f, node, 0);
  open_node(f, node);
}

static void on_scheduler_closed(uvs_t *s) {
  struct engine *f = uvs_data(s);

  f->scheduler_closed = true;
}

static void remove_folder(const char *path) {
  DIR *dir = opendir(path);
  struct dirent *entry;
  char file[600];

  must(dir != NULL, "opendir");
  while ((entry = readdir(dir)) != NULL) {
    snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
    unlink(file); /* not "." and ".." */
  }
  closedir(dir);
  must(rmdir(path) == 0, "rmdir");
}

void engine_close(struct engine *f) {
  for (int i = 0; i < f->n_nodes; i++)
    engine_close_node(f, i, 0);
  must(uvs_close(f->s, on_scheduler_closed) == 0, "uvs_close");
  engine_run_until(f, &f->scheduler_closed);
  uv_run(&f->loop, UV_RUN_DEFAULT); /* stores that a test has closed without a callback */
  must(uv_loop_close(&f->loop) == 0, "a handle is still alive");
  if (f->folder[0] != '\0')
    remove_folder(f->folder);
  if (engine_is_server)
    redis_ns_flush();
  free(f);
}
