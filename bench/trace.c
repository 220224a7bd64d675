/* SPDX-License-Identifier: MIT
 *
 *   bench-trace FOLDER [ROUNDS]
 *
 * What the flight recorder costs. FOLDER has two builds of the library: libuvsched-bench.so, and
 * libuvsched-untraced.so, which has no branch for a recorder. Both are loaded, and take turns in
 * many short rounds, so that a busy machine disturbs both. The figures are those of the best round.
 *
 * Three rows are small forms of W3 (tasks with one deadline, on the loop and on the pool) and W6
 * (fixed-rate tasks; on a virtual clock, so that no round waits). The last row is uvs_submit.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "uvsched/trace.h"

#define TASKS 512
#define ROUNDS 1500
#define MAX_PATH 1024

enum { UNTRACED, OFF, ON, FORMS };
enum { W3_LOOP, W3_POOL, W6, SUBMIT, ROWS };

static const struct {
  const char *name;
  int events; /* that are recorded in the timed part, for each task */
} rows[ROWS] = {
    [W3_LOOP] = {"W3, runs on the loop", 2},
    [W3_POOL] = {"W3, runs on the pool (CPU)", 2},
    [W6] = {"W6, fixed-rate runs", 2},
    [SUBMIT] = {"uvs_submit", 1},
};

/* The functions of one library. */
struct api {
  int (*open)(uv_loop_t *, const uvs_options_t *, uvs_t **);
  int (*close)(uvs_t *, uvs_close_cb);
  int (*submit)(uvs_t *, const uvs_task_t *, uvs_id_t *);
  int (*clock_changed)(uvs_t *);
  int (*trace_open)(uvs_t *, const uvs_trace_options_t *);
};

/* A scheduler for one row and one form. */
struct bench {
  const struct api *api;
  uv_loop_t loop;
  uvs_t *s;
  int64_t virtual_ns;
  double best_ns;
};

static struct api apis[2];
static struct bench benches[ROWS][FORMS];
static _Atomic int ran;

static void die(const char *what) {
  fprintf(stderr, "bench-trace: %s\n", what);
  exit(1);
}

static void *find(void *library, const char *name) {
  void *f = dlsym(library, name);

  if (f == NULL)
    die(name);
  return f;
}

static void load(struct api *a, const char *folder, const char *name) {
  char path[MAX_PATH];
  void *library;

  snprintf(path, sizeof path, "%s/%s", folder, name);
  library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL)
    die(dlerror());
  *(void **)&a->open = find(library, "uvs_open");
  *(void **)&a->close = find(library, "uvs_close");
  *(void **)&a->submit = find(library, "uvs_submit");
  *(void **)&a->clock_changed = find(library, "uvs_clock_changed");
  *(void **)&a->trace_open = find(library, "uvs_trace_open");
}

static int on_run(uvs_run_t *run) {
  (void)run;
  ran++;
  return 0;
}

static int64_t read_virtual(void *arg) {
  return ((struct bench *)arg)->virtual_ns;
}

static uint64_t cpu_ns(void) {
  struct timespec t;

  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uvs_task_t spec(int row) {
  uvs_task_t t;

  uvs_task_init(&t);
  if (row == W3_POOL)
    t.work = on_run;
  else
    t.after = on_run;
  if (row == W6) {
    t.kind = UVS_FIXED_RATE;
    t.period_ns = UVS_MS(1);
  }
  return t;
}

static void submit_all(struct bench *b, int row) {
  uvs_task_t t = spec(row);

  for (int i = 0; i < TASKS; i++) {
    if (b->api->submit(b->s, &t, NULL) < 0)
      die("uvs_submit");
  }
}

/* On the pool, the loop sleeps meanwhile: its turns would take CPU time, too. */
static void run_all(struct bench *b, int row) {
  while (ran < TASKS)
    uv_run(&b->loop, row == W3_POOL ? UV_RUN_ONCE : UV_RUN_NOWAIT);
  ran = 0;
}

static void set_up(struct bench *b, int row, int form) {
  uvs_options_t o;

  b->api = &apis[form == UNTRACED];
  b->best_ns = 1e9;
  b->virtual_ns = UVS_SEC(1);
  uvs_options_init(&o);
  o.concurrency = row == W3_POOL ? 1 : 0;
  o.budget_ns = UVS_SEC(1);
  if (row == W6)
    o.clock = (uvs_clock_t){.monotonic_ns = read_virtual, .wall_ns = read_virtual, .arg = b};
  if (uv_loop_init(&b->loop) < 0 || b->api->open(&b->loop, &o, &b->s) < 0)
    die("uvs_open");
  if (form == ON && b->api->trace_open(b->s, NULL) < 0)
    die("uvs_trace_open");
  uv_run(&b->loop, UV_RUN_NOWAIT);
  if (row == W6) {
    submit_all(b, row);
    run_all(b, row);
  }
}

static void one_round(struct bench *b, int row) {
  uint64_t start_ns;
  double ns;

  if (row == W6) {
    b->virtual_ns += UVS_MS(1);
    if (b->api->clock_changed(b->s) < 0)
      die("uvs_clock_changed");
  } else if (row != SUBMIT) {
    submit_all(b, row);
  }
  start_ns = row == W3_POOL ? cpu_ns() : uv_hrtime();
  if (row == SUBMIT)
    submit_all(b, row);
  else
    run_all(b, row);
  ns = (double)((row == W3_POOL ? cpu_ns() : uv_hrtime()) - start_ns) / TASKS;
  if (ns < b->best_ns)
    b->best_ns = ns;
  if (row == SUBMIT)
    run_all(b, row);
}

int main(int argc, char **argv) {
  int rounds = argc > 2 ? atoi(argv[2]) : ROUNDS;

  if (argc < 2)
    die("which folder?");
  load(&apis[0], argv[1], "libuvsched-bench.so");
  load(&apis[1], argv[1], "libuvsched-untraced.so");
  for (int row = 0; row < ROWS; row++) {
    for (int form = 0; form < FORMS; form++)
      set_up(&benches[row][form], row, form);
    for (int i = 0; i < rounds * FORMS; i++)
      one_round(&benches[row][(i + i / FORMS) % FORMS], row);
  }
  printf("the best of %d rounds of %d tasks; ns for each task\n\n", rounds, TASKS);
  printf("%-28s %10s %10s %10s %12s %10s\n", "", "untraced", "off", "ratio", "recording",
         "an event");
  for (int row = 0; row < ROWS; row++) {
    double bare = benches[row][UNTRACED].best_ns;
    double off = benches[row][OFF].best_ns;
    double on = benches[row][ON].best_ns;

    printf("%-28s %10.1f %10.1f %8.3f x %12.1f %7.1f ns\n", rows[row].name, bare, off, off / bare,
           on, (on - off) / rows[row].events);
  }
  return 0;
}
