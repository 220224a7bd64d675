/* SPDX-License-Identifier: MIT
 *
 * Four periodic bodies. `tick` and `tock` are fast, `slow` keeps its thread for a while, and
 * `faulty` fails in its third run and then stops.
 *
 * With one runner the slow body holds the others up: their periods stretch. With two runners, or
 * with a scheduler of its own for the slow body, they do not.
 *
 *   periodic [--fast]     --fast: all times divided by 4 */
#include <stdatomic.h>
#include <stdbool.h>
#include <uvsched.h>

#include "expect.h"

#define ROW 16

struct body {
  const char *name;
  struct lab *lab;
  int64_t
      last_ns; /* start of the previous run; runs of a task never overlap, so this needs no lock */
  int64_t longest_ns;
  int64_t gap_ns[ROW]; /* from start to start, for the first few runs */
  size_t gaps;
  uint64_t runs;
  int status;
  uvs_id_t id;
  uvs_t *scheduler;
};

struct lab {
  int64_t unit_ns;
  bool crowded; /* one runner for all */
  int failures; /* seen by the error hook */
  atomic_bool slow_runs;
  atomic_int beside; /* runs of the neighbours that started while the slow body was running */
  struct body tick, tock, slow, faulty;
};

static void note_start(struct body *b, const uvs_run_t *run) {
  if (run->number > 1) {
    int64_t gap_ns = run->start_ns - b->last_ns;
    if (gap_ns > b->longest_ns)
      b->longest_ns = gap_ns;
    if (b->gaps < ROW)
      b->gap_ns[b->gaps++] = gap_ns;
  }
  b->last_ns = run->start_ns;
  b->runs = run->number;
}

static int quick(uvs_run_t *run) {
  struct body *b = run->arg;
  note_start(b, run);
  if (atomic_load(&b->lab->slow_runs))
    atomic_fetch_add(&b->lab->beside, 1);
  return 0;
}

static int slow(uvs_run_t *run) {
  struct body *b = run->arg;
  struct lab *lab = b->lab;
  note_start(b, run);
  atomic_store(&lab->slow_runs, true);
  uv_sleep((unsigned)(lab->unit_ns * 5 / 2 / 1000000));
  /* On a busy machine the neighbours may be late. If there is a runner for them, waits for them. */
  for (int i = 0; i < 1000 && !lab->crowded && atomic_load(&lab->beside) == 0; i++)
    uv_sleep(10);
  atomic_store(&lab->slow_runs, false);
  return 0;
}

static int faulty(uvs_run_t *run) {
  note_start(run->arg, run);
  return run->number < 3 ? 0 : UV_EIO;
}

static void body_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)s, (void)id;
  ((struct body *)arg)->status = status;
}

/* The slow body's third run ends the experiment. */
static void slow_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct lab *lab = ((struct body *)arg)->lab;
  body_done(s, id, status, arg);
  EXPECT(uvs_cancel(lab->tick.scheduler, lab->tick.id, 0) >= 0);
  EXPECT(uvs_cancel(lab->tock.scheduler, lab->tock.id, 0) >= 0);
}

static void on_error(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct body *b = arg;
  (void)s, (void)id;
  b->lab->failures++;
  b->status = status;
  printf("  %-6s  run %d failed: %s\n", b->name, (int)b->runs, uvs_strerror(status));
}

static void start(uvs_t *s, struct body *b, uvs_task_t *t) {
  t->kind = UVS_FIXED_RATE;
  t->missed_policy = UVS_MISSED_ONCE; /* one run stands for all missed points */
  t->arg = b;
  t->name = b->name;
  b->scheduler = s;
  EXPECT(uvs_submit(s, t, &b->id) == 0);
}

static void print_row(const struct body *b) {
  printf("  %-6s  ms from start to start:", b->name);
  for (size_t i = 0; i < b->gaps; i++)
    printf(" %4d", (int)((b->gap_ns[i] + 500000) / 1000000));
  printf("\n");
}

static void experiment(const char *title, int schedulers, int runners, int64_t unit_ns) {
  struct lab lab = {.unit_ns = unit_ns, .crowded = schedulers * runners == 1};
  uv_loop_t loop;
  uvs_t *s[2];
  uvs_options_t o;
  uvs_task_t t;

  printf("%s\n", title);
  EXPECT(uv_loop_init(&loop) == 0);
  uvs_options_init(&o);
  o.concurrency = runners;
  o.on_error = on_error;
  for (int i = 0; i < schedulers; i++)
    EXPECT(uvs_open(&loop, &o, &s[i]) == 0);

  lab.tick = (struct body){.name = "tick", .lab = &lab};
  lab.tock = (struct body){.name = "tock", .lab = &lab};
  lab.slow = (struct body){.name = "slow", .lab = &lab};
  lab.faulty = (struct body){.name = "faulty", .lab = &lab};

  uvs_task_init(&t);
  t.work = quick;
  t.done = body_done;
  t.period_ns = unit_ns;
  start(s[0], &lab.tick, &t);
  start(s[0], &lab.tock, &t);
  t.work = faulty;
  t.done = NULL; /* without `done`, the error hook reports the failure */
  start(s[0], &lab.faulty, &t);
  t.work = slow;
  t.done = slow_done;
  t.first_ns = unit_ns * 3 / 2;
  t.period_ns = unit_ns * 4;
  t.max_runs = 3;
  start(s[schedulers - 1], &lab.slow, &t);

  uv_run(&loop, UV_RUN_DEFAULT); /* returns when all four are over */
  for (int i = 0; i < schedulers; i++)
    EXPECT(uvs_close(s[i], NULL) == 0);
  uv_run(&loop, UV_RUN_DEFAULT);
  EXPECT(uv_loop_close(&loop) == 0);

  print_row(&lab.tick);
  print_row(&lab.tock);
  print_row(&lab.slow);
  printf("  %d runs of tick and tock began while slow was running\n\n", atomic_load(&lab.beside));

  EXPECT(lab.tick.status == UV_ECANCELED && lab.tock.status == UV_ECANCELED);
  EXPECT(lab.slow.status == 0 && lab.slow.runs == 3);
  EXPECT(lab.faulty.status == UV_EIO && lab.faulty.runs == 3 && lab.failures == 1);
  if (lab.crowded) {
    EXPECT(atomic_load(&lab.beside) == 0);
    EXPECT(lab.tick.longest_ns >= unit_ns * 5 / 2 && lab.tock.longest_ns >= unit_ns * 5 / 2);
  } else {
    EXPECT(atomic_load(&lab.beside) > 0);
  }
}

int main(int argc, char **argv) {
  int64_t unit_ns = UVS_MS(100) / (argc > 1 && strcmp(argv[1], "--fast") == 0 ? 4 : 1);

  setenv("UV_THREADPOOL_SIZE", "4", 1); /* libuv reads it once, at the pool's first use */
  printf(
      "tick and tock every %d ms; slow takes %d ms every %d ms; faulty fails in its third run\n\n",
      (int)(unit_ns / 1000000), (int)(unit_ns * 5 / 2 / 1000000), (int)(unit_ns * 4 / 1000000));
  experiment("one runner: slow stretches its neighbours' periods", 1, 1, unit_ns);
  experiment("two runners: it does not", 1, 2, unit_ns);
  experiment("two schedulers with one runner each: neither", 2, 1, unit_ns);
  return 0;
}
