/* SPDX-License-Identifier: MIT
 *
 * Where bodies run: executors of a scheduler and of a lane, own threads, and refusals.
 */
#include "uvsched/executor.h"
#include "uvsched/lane.h"

#include "scheduler.h"

#include "lib/bodies.h"
#include "lib/fixture.h"
#include "lib/threads.h"

/* An executor that keeps what it is given, until the test lets it run. */
struct shelf {
  uvs_executor_t table;
  void (*fn[64])(void *arg);
  void *arg[64];
  unsigned n, submitted, closed;
  int refuses; /* with this code */
};

static int shelf_submit(void *self, void (*fn)(void *arg), void *arg) {
  struct shelf *e = self;

  if (e->refuses < 0)
    return e->refuses;
  e->fn[e->n] = fn;
  e->arg[e->n++] = arg;
  e->submitted++;
  return 0;
}

static void shelf_close(void *self) {
  ((struct shelf *)self)->closed++;
}

static void shelf_init(struct shelf *e) {
  memset(e, 0, sizeof *e);
  uvs_executor_init(&e->table);
  e->table.submit = shelf_submit;
  e->table.close = shelf_close;
  e->table.self = e;
}

static int run_one(void *arg) {
  struct shelf *e = arg;

  e->n--;
  e->fn[0](e->arg[0]);
  for (unsigned i = 0; i < e->n; i++) {
    e->fn[i] = e->fn[i + 1];
    e->arg[i] = e->arg[i + 1];
  }
  return 0;
}

TEST bodies_run_on_the_executor_and_it_is_not_closed(void) {
  struct fixture f;
  struct shelf e;

  shelf_init(&e);
  fixture_init(&f);
  f.options.executor = &e.table;
  CHECK_CALL(fixture_open_turned(&f));
  ASSERT_RC(1, uvs_concurrency(f.s));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(5));
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ms(&f, 4);
  ASSERT_U64(0, e.submitted);
  fixture_advance_ms(&f, 1);
  ASSERT_U64(1, e.n);
  ASSERT_STR_EQ("", log_string(&f, EV_WORK));
  ASSERT_RC(0, elsewhere(run_one, &e));
  ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
  ASSERT_FALSE(log_nth(&f, EV_WORK, 'a', 0)->on_loop);
  fixture_turn(&f);
  ASSERT_STR_EQ("a", log_string(&f, EV_DONE));
  CHECK_CALL(fixture_close(&f));
  ASSERT_U64(0, e.closed);
  PASS();
}

/* R27 */
TEST a_refusal_ends_the_task_and_reaches_the_error_hook(void) {
  for (int with_done = 0; with_done < 2; with_done++) {
    struct fixture f;
    struct shelf e;

    shelf_init(&e);
    fixture_init(&f);
    f.options.executor = &e.table;
    CHECK_CALL(fixture_open_turned(&f));
    e.refuses = UV_EBUSY;
    uvs_task_t t = fixture_once(&f, 'a', 0);
    if (!with_done)
      t.done = NULL;
    for (int i = 0; i < 3; i++)
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_turn(&f);
    ASSERT_STR_EQ("", log_string(&f, EV_WORK));
    ASSERT_STR_EQ("aaa", log_string(&f, EV_ERROR));
    ASSERT_RC(UV_EBUSY, log_nth(&f, EV_ERROR, 'a', 0)->status);
    ASSERT_STR_EQ(with_done ? "aaa" : "", log_string(&f, EV_DONE));
    if (with_done)
      ASSERT_RC(UV_EBUSY, log_nth(&f, EV_DONE, 'a', 2)->status);
    e.refuses = 0;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_turn(&f);
    ASSERT_RC(0, elsewhere(run_one, &e));
    fixture_turn(&f);
    ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

TEST own_threads_of_a_scheduler_run_its_bodies_and_end_with_it(void) {
  struct fixture f;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.options.threads = 3;
  f.options.thread_name = "mine";
  CHECK_CALL(fixture_open_turned(&f));
  ASSERT_RC(3, uvs_concurrency(f.s));
  gate_init(false);
  for (int i = 0; i < 5; i++) {
    uvs_task_t t = fixture_once(&f, 'a', 0);
    probe_of(&t)->act = gate_pass;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  ASSERT(gate_wait(&f, 3));
  gate_let(5);
  ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 5));
  ASSERT_RC(3, gate_peak());
  ASSERT_FALSE(log_nth(&f, EV_WORK, 'a', 0)->in_work); /* not in libuv's pool */
  CHECK_CALL(fixture_close(&f));
  PASS();
}

TEST a_lane_may_have_threads_of_its_own(void) {
  struct fixture f;
  uvs_lane_options_t o;
  uvs_lane_t lane;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_lane_options_init(&o);
  o.threads = 1;
  ASSERT_RC(0, uvs_lane_open(f.s, &o, &lane));
  for (int i = 0; i < 10; i++) {
    uvs_task_t t = fixture_once(&f, 'a' + i, 0);
    t.lane = lane;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  ASSERT(fixture_wait_log(&f, EV_DONE, 0, 10));
  ASSERT_STR_EQ("abcdefghij", log_string(&f, EV_WORK));
  ASSERT_FALSE(log_nth(&f, EV_WORK, 'a', 0)->in_work);
  ASSERT_RC(0, uvs_lane_dispose(lane, 0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

TEST inline_bodies_run_on_the_loop(void) {
  struct fixture f;

  fixture_init(&f);
  f.options.executor = uvs_inline_executor();
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ms(&f, 30);
  ASSERT_STR_EQ("aaaa", log_string(&f, EV_WORK));
  ASSERT(log_nth(&f, EV_WORK, 'a', 0)->on_loop);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(executor) {
  RUN_TEST(bodies_run_on_the_executor_and_it_is_not_closed);
  RUN_TEST(a_refusal_ends_the_task_and_reaches_the_error_hook);
  RUN_TEST(own_threads_of_a_scheduler_run_its_bodies_and_end_with_it);
  RUN_TEST(a_lane_may_have_threads_of_its_own);
  RUN_TEST(inline_bodies_run_on_the_loop);
}

TEST_MAIN(RUN_SUITE(executor));
