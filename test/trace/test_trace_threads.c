/* SPDX-License-Identifier: MIT
 *
 * The flight recorder with libuv's pool, the real clock and many threads: recording, writing,
 * opening and closing at once.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "uvsched/control.h"
#include "uvsched/lane.h"

#include "lib/traced.h"
#include "lib/unit.h"

enum { SUBMITTERS = 3, WRITERS = 2 };

static struct world {
  uv_loop_t loop;
  uvs_t *s;
  uvs_lane_t lane;
  int tasks; /* of each submitter */
  bool limited;
  _Atomic int ended, submitters_left, bad, stop, written, opened;
} world;

static int on_work(uvs_run_t *run) {
  uint64_t random = run->id * 2 + 1;

  if (run->number == 1 && test_random_below(&random, 8) == 0)
    uvs_execute(run->scheduler, on_work, NULL);
  return test_random_below(&random, 10) == 0 ? UV_EIO : 0;
}

static int on_after(uvs_run_t *run) {
  (void)run;
  return 0;
}

static void on_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)s, (void)id, (void)status, (void)arg;
  atomic_fetch_add(&world.ended, 1);
}

static void submit_all(void *arg) {
  uint64_t random = test_seed + (uintptr_t)arg;

  for (int i = 0; i < world.tasks; i++) {
    uvs_id_t id;
    uvs_task_t t;

    uvs_task_init(&t);
    t.work = test_random_below(&random, 5) == 0 ? NULL : on_work;
    t.after = t.work == NULL || test_random_below(&random, 5) == 0 ? on_after : NULL;
    t.done = on_done;
    t.first_ns = (int64_t)test_random_below(&random, 3) * 500000;
    t.name = test_random_below(&random, 2) == 0 ? "a \"name\"" : NULL;
    t.lane = test_random_below(&random, 4) == 0 ? world.lane : 0;
    if (t.lane == 0 && test_random_below(&random, 4) == 0) {
      t.kind = UVS_FIXED_RATE;
      t.period_ns = UVS_US(200);
      t.max_runs = 5;
      t.failure_policy = UVS_FAIL_CONTINUE;
    }
    if (uvs_submit(world.s, &t, &id) < 0)
      atomic_fetch_add(&world.bad, 1);
    else if (test_random_below(&random, 6) == 0)
      uvs_cancel(world.s, id, 0);
    if (i % 64 == 0)
      uv_sleep(1);
  }
  atomic_fetch_sub(&world.submitters_left, 1);
}

static int count_bytes(const char *data, size_t size, void *arg) {
  (void)data;
  *(size_t *)arg += size;
  return 0;
}

static void write_on_and_on(void *arg) {
  uvs_trace_run_t *runs = malloc(1000 * sizeof *runs);
  size_t count, bytes = 0;

  (void)arg;
  uvs_trace_run_init(runs);
  while (!atomic_load(&world.stop)) {
    int rc = uvs_trace_write(world.s, UVS_NEVER, UVS_TRACE_LANES, count_bytes, &bytes);

    if (rc != 0 && rc != UV_ENOENT)
      atomic_fetch_add(&world.bad, 1);
    atomic_fetch_add(&world.written, rc == 0);
    rc = uvs_trace_runs(world.s, UVS_SEC(1), runs, 1000, &count, NULL);
    if ((rc != 0 && rc != UV_ENOENT) || (rc == 0 && count > 1000))
      atomic_fetch_add(&world.bad, 1);
    for (size_t i = 0; rc == 0 && i < count; i++) {
      if (runs[i].end_ns < runs[i].start_ns || (i > 0 && runs[i].start_ns < runs[i - 1].start_ns))
        atomic_fetch_add(&world.bad, 1);
    }
  }
  free(runs);
}

static void open_and_close(void *arg) {
  uvs_trace_options_t o;

  (void)arg;
  uvs_trace_options_init(&o);
  o.bytes = 64 << 10;
  while (!atomic_load(&world.stop)) {
    atomic_fetch_add(&world.opened, uvs_trace_open(world.s, &o) == 0);
    uv_sleep(2);
    uvs_trace_close(world.s);
  }
}

static bool is_over(void) {
  return atomic_load(&world.submitters_left) == 0 &&
         atomic_load(&world.ended) == SUBMITTERS * world.tasks;
}

static void look(uv_timer_t *h) {
  uvs_counts_t c;

  uvs_counts_init(&c);
  uvs_counts(world.s, &c);
  if (is_over() && c.waiting + c.ready + c.running == 0)
    uv_timer_stop(h);
}

/* Runs the loop until every task has ended. */
static void run_all(int tasks, uv_thread_cb *others, int other_count) {
  uv_thread_t threads[SUBMITTERS], other[WRITERS + 1];
  uv_timer_t timer;

  world.tasks = tasks;
  atomic_store(&world.submitters_left, SUBMITTERS);
  atomic_store(&world.stop, 0);
  uv_timer_init(&world.loop, &timer);
  uv_timer_start(&timer, look, 1, 1);
  for (uintptr_t i = 0; i < SUBMITTERS; i++)
    uv_thread_create(&threads[i], submit_all, (void *)(i + 1));
  for (int i = 0; i < other_count; i++)
    uv_thread_create(&other[i], others[i], NULL);
  uv_run(&world.loop, UV_RUN_DEFAULT);
  for (int i = 0; i < SUBMITTERS; i++)
    uv_thread_join(&threads[i]);
  atomic_store(&world.stop, 1);
  for (int i = 0; i < other_count; i++)
    uv_thread_join(&other[i]);
  uv_close((uv_handle_t *)&timer, NULL);
  uv_run(&world.loop, UV_RUN_NOWAIT);
}

static void open_world(void) {
  uvs_options_t o;

  memset(&world, 0, sizeof world);
  uv_loop_init(&world.loop);
  uvs_options_init(&o);
  o.concurrency = 3;
  o.keep_alive = UVS_KEEP_ALIVE_NEVER;
  o.on_error = uvs_ignore_errors;
  uvs_open(&world.loop, &o, &world.s);
  uvs_lane_open(world.s, NULL, &world.lane);
}

static int close_world(void) {
  uvs_close(world.s, NULL);
  uv_run(&world.loop, UV_RUN_DEFAULT);
  return uv_loop_close(&world.loop);
}

static int scale(int n) {
  const char *how_long = getenv("UVS_STRESS");

  return how_long != NULL && strcmp(how_long, "long") == 0 ? n * 10 : n;
}

/* X2 X3 X5 */
TEST a_trace_of_many_threads_nests_and_adds_up(void) {
  uvs_trace_options_t o;

  open_world();
  uvs_trace_options_init(&o);
  o.bytes = 256 << 20;
  ASSERT_RC(0, uvs_trace_open(world.s, &o));
  run_all(scale(2000), NULL, 0);
  ASSERT_RC(0, world.bad);
  ASSERT(traced_is(world.s, UVS_NEVER, UVS_TRACE_LANES, "overwritten=0 running=0 run=1000+"));
  ASSERT_RC(0, close_world());
  PASS();
}

/* X12 X16 */
TEST threads_record_write_and_close_at_once(void) {
  uv_thread_cb others[] = {write_on_and_on, write_on_and_on, open_and_close};

  open_world();
  run_all(scale(5000), others, 3);
  ASSERT_RC(0, world.bad);
  ASSERT(world.opened > 0 && world.written > 0);
  ASSERT_RC(0, close_world());
  PASS();
}

SUITE(threads) {
  RUN_TEST(a_trace_of_many_threads_nests_and_adds_up);
  RUN_TEST(threads_record_write_and_close_at_once);
}

TEST_MAIN(RUN_SUITE(threads));
