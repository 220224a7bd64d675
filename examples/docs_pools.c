/* SPDX-License-Identifier: MIT
 *
 * The code of docs/pools.md: two schedulers share libuv's pool, a lane has threads of its own, and
 * a scheduler hands its work to the program's own pool. */
#include <stdatomic.h>
#include <uvsched/executor.h>
#include <uvsched/lane.h>
#include <uvsched/settings.h>

#include "expect.h"

enum { TASKS = 100 };

/* Bodies at once. */
struct gauge {
  atomic_int inside, most, runs;
};

static int measure(uvs_run_t *run) {
  struct gauge *g = run->arg;
  int inside = atomic_fetch_add(&g->inside, 1) + 1;
  int most = atomic_load(&g->most);

  while (inside > most && !atomic_compare_exchange_weak(&g->most, &most, inside))
    ;
  uv_sleep(1); /* other bodies may overlap */
  atomic_fetch_sub(&g->inside, 1);
  atomic_fetch_add(&g->runs, 1);
  return 0;
}

static void submit_many(uvs_t *s, struct gauge *g) {
  for (int i = 0; i < TASKS; i++)
    EXPECT(uvs_execute(s, measure, g) == 0);
}

/* ----------------------------------------------- two schedulers, one pool --- */

/* libuv's pool has 4 threads: 2 for requests, 1 for reports, 1 for files and DNS. */
static int open_two(uv_loop_t *loop, uvs_t **requests, uvs_t **reports) {
  uvs_options_t o;
  int rc;

  uvs_options_init(&o);
  o.concurrency = 2;
  rc = uvs_open(loop, &o, requests);
  if (rc < 0)
    return rc;
  o.concurrency = 1;
  return uvs_open(loop, &o, reports); /* on an error: close the first */
}

static void show_two_schedulers(uv_loop_t *loop) {
  struct gauge a = {0}, b = {0};
  uvs_t *requests, *reports;

  EXPECT(open_two(loop, &requests, &reports) == 0);
  submit_many(requests, &a);
  submit_many(reports, &b);
  uv_run(loop, UV_RUN_DEFAULT);
  EXPECT(atomic_load(&a.runs) == TASKS && atomic_load(&a.most) <= 2);
  EXPECT(atomic_load(&b.runs) == TASKS && atomic_load(&b.most) == 1);

  EXPECT(uvs_set_concurrency(requests, 0) == 0 && uvs_concurrency(requests) == 0);
  EXPECT(uvs_close(requests, NULL) == 0 && uvs_close(reports, NULL) == 0);
  uv_run(loop, UV_RUN_DEFAULT);
}

/* -------------------------------------------------- a lane's own threads --- */

static int query(uvs_run_t *run) {
  uv_sem_post(run->arg);
  return 0;
}

/* Every thread of libuv's pool may wait for a query: queries have threads of their own. */
static int wait_for_query(uvs_run_t *run) {
  uv_sem_wait(run->arg);
  return 0;
}

static int open_database_lane(uvs_t *s, uvs_lane_t *ret) {
  uvs_lane_options_t o;
  uvs_lane_options_init(&o);
  o.width = 8;               /* at most 8 queries at once, */
  o.threads = 8;             /* on 8 threads that belong to the lane, */
  o.thread_name = "queries"; /* seen in top as queries-0 to queries-7 */
  return uvs_lane_open(s, &o, ret);
}

static void show_lane_threads(uv_loop_t *loop) {
  uvs_lane_t lane;
  uvs_options_t o;
  uv_sem_t answers;
  uvs_task_t t;
  uvs_t *s;

  EXPECT(uv_sem_init(&answers, 0) == 0);
  uvs_options_init(&o);
  o.concurrency = 4; /* all of libuv's pool */
  EXPECT(uvs_open(loop, &o, &s) == 0);
  EXPECT(open_database_lane(s, &lane) == 0);
  uvs_task_init(&t);
  t.arg = &answers;
  for (int i = 0; i < TASKS; i++) {
    t.work = wait_for_query;
    t.lane = 0;
    EXPECT(uvs_submit(s, &t, NULL) == 0);
    t.work = query;
    t.lane = lane;
    EXPECT(uvs_submit(s, &t, NULL) == 0);
  }
  uv_run(loop, UV_RUN_DEFAULT); /* would never return if queries needed libuv's pool */
  EXPECT(uvs_lane_dispose(lane, 0) == 0);
  EXPECT(uvs_close(s, NULL) == 0);
  uv_run(loop, UV_RUN_DEFAULT);
  uv_sem_destroy(&answers);
}

/* ------------------------------------------------------ your own executor --- */

/* Stands for a pool that the program has anyway. */
struct program_pool {
  uvs_threads_t *threads;
  int jobs; /* on the loop */
};

/* Called on the loop. fn(arg) must be called once, on any thread. */
static int submit_to_program_pool(void *self, void (*fn)(void *arg), void *arg) {
  struct program_pool *p = self;
  const uvs_executor_t *e = uvs_threads_executor(p->threads);
  p->jobs++;
  return e->submit(e->self, fn, arg); /* negative: refused, and the run fails with this code */
}

static int size_of_program_pool(void *self) {
  struct program_pool *p = self;
  return uvs_threads_size(p->threads);
}

static int open_on_program_pool(uv_loop_t *loop, uvs_executor_t *e, struct program_pool *p,
                                uvs_t **ret) {
  uvs_options_t o;
  uvs_executor_init(e); /* borrowed: *e must live until the callback of uvs_close */
  e->submit = submit_to_program_pool;
  e->concurrency = size_of_program_pool;
  e->self = p;
  uvs_options_init(&o);
  o.executor = e; /* concurrency stays -1: as many as the executor says */
  return uvs_open(loop, &o, ret);
}

static void show_executor(uv_loop_t *loop) {
  struct program_pool p = {0};
  uvs_threads_options_t o;
  struct gauge g = {0};
  uvs_executor_t e;
  uvs_t *s;

  uvs_threads_options_init(&o);
  o.threads = 3;
  EXPECT(uvs_threads_open(&o, &p.threads) == 0);
  EXPECT(open_on_program_pool(loop, &e, &p, &s) == 0);
  EXPECT(uvs_concurrency(s) == 3);
  submit_many(s, &g);
  uv_run(loop, UV_RUN_DEFAULT);
  EXPECT(atomic_load(&g.runs) == TASKS && atomic_load(&g.most) <= 3);
  EXPECT(p.jobs > 0);
  EXPECT(uvs_close(s, NULL) == 0);
  uv_run(loop, UV_RUN_DEFAULT);
  EXPECT(uvs_threads_close(p.threads) == 0); /* uvsched did not close it */
}

/* ------------------------------------------------------------- no threads --- */

static int on_loop(uvs_run_t *run) {
  EXPECT(run->runner == UVS_ON_LOOP);
  return 0;
}

static void show_no_threads(uv_loop_t *loop) {
  uvs_options_t o;
  uvs_t *s;

  uvs_options_init(&o);
  o.concurrency = 0;
  EXPECT(uvs_open(loop, &o, &s) == 0);
  EXPECT(uvs_execute(s, on_loop, NULL) == 0);
  uv_run(loop, UV_RUN_DEFAULT);
  EXPECT(uvs_close(s, NULL) == 0);
  uv_run(loop, UV_RUN_DEFAULT);
}

int main(void) {
  uv_loop_t *loop = uv_default_loop();

  setenv("UV_THREADPOOL_SIZE", "4", 1); /* libuv reads it once, at the pool's first use */
  show_two_schedulers(loop);
  show_lane_threads(loop);
  show_executor(loop);
  show_no_threads(loop);
  EXPECT(uv_loop_close(loop) == 0);
  return 0;
}
