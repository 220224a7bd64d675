/* SPDX-License-Identifier: MIT
 *
 * Bodies so short that one runner is enough, and many tasks due at one instant: with the real clock
 * and the real pool.
 */
#include "lib/fixture.h"
#include "lib/inspect.h"
#include "lib/patience.h"
#include "lib/threads.h"

#include "uvsched/executor.h"

enum { TASKS = 4000, EVERY = 50 }; /* every EVERY-th task belongs to the loop */

static struct {
  int64_t due_ns;
  _Atomic int runs;        /* of all tasks */
  _Atomic uint32_t starts; /* of pool tasks */
  uint32_t order[TASKS];   /* of these starts */
  uint32_t on_loop;        /* starts of loop tasks */
  uint32_t loop_order[TASKS];
  _Atomic int early;         /* runs that started before due_ns */
  uint32_t waits, waits_for; /* this task waits until that one has started */
  _Atomic bool came, given_up;
} burst;

static void note(const uvs_run_t *run) {
  if (run->start_ns < burst.due_ns || (int64_t)uv_hrtime() < burst.due_ns)
    atomic_fetch_add(&burst.early, 1);
}

static int work(uvs_run_t *run) {
  uint32_t i = (uint32_t)(uintptr_t)run->arg;
  uint64_t end_ns = patience_end_ns();

  note(run);
  burst.order[atomic_fetch_add(&burst.starts, 1)] = i;
  if (i == burst.waits_for)
    atomic_store(&burst.came, true);
  while (i == burst.waits && !atomic_load(&burst.came)) {
    if (uv_hrtime() > end_ns) {
      atomic_store(&burst.given_up, true);
      break;
    }
    uv_sleep(0);
  }
  atomic_fetch_add(&burst.runs, 1);
  return 0;
}

static int on_loop(uvs_run_t *run) {
  note(run);
  burst.loop_order[burst.on_loop++] = (uint32_t)(uintptr_t)run->arg;
  atomic_fetch_add(&burst.runs, 1);
  return 0;
}

static enum greatest_test_res open_burst(struct fixture *f, int concurrency) {
  memset(&burst, 0, sizeof burst);
  burst.waits = burst.waits_for = UINT32_MAX;
  fixture_init(f);
  f->real_clock = true;
  f->pool = FAKEPOOL_REAL;
  f->options.concurrency = concurrency;
  CHECK_CALL(fixture_open_turned(f));
  inspect_one_is_enough(f->s);
  PASS();
}

static enum greatest_test_res run_burst(struct fixture *f) {
  burst.due_ns = (int64_t)uv_hrtime() + UVS_MS(20);
  for (uint32_t i = 0; i < TASKS; i++) {
    uvs_task_t t;

    uvs_task_init(&t);
    t.from = UVS_FROM_MONOTONIC;
    t.first_ns = burst.due_ns;
    t.arg = (void *)(uintptr_t)i;
    if (i % EVERY == 0)
      t.after = on_loop;
    else
      t.work = work;
    ASSERT_RC(0, uvs_submit(f->s, &t, NULL));
  }
  ASSERT(turn_loop_until(&f->loop, &burst.runs, TASKS));
  ASSERT_U64(0, burst.early);
  ASSERT_U64(TASKS / EVERY, burst.on_loop);
  ASSERT_U64(TASKS - TASKS / EVERY, burst.starts);
  PASS();
}

/* L20: tasks that are due at the same instant start in the order of submission, on the pool and on
 * the loop. */
TEST a_burst_of_short_bodies_starts_in_the_order_of_submission(void) {
  struct fixture f;

  CHECK_CALL(open_burst(&f, 1));
  CHECK_CALL(run_burst(&f));
  for (uint32_t i = 1; i < burst.starts; i++)
    ASSERT(burst.order[i - 1] < burst.order[i]);
  for (uint32_t i = 1; i < burst.on_loop; i++)
    ASSERT(burst.loop_order[i - 1] < burst.loop_order[i]);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L15: one body of the burst waits for a task far behind it, so a second runner must be started. */
TEST a_burst_does_not_wait_for_a_blocked_body(void) {
  struct fixture f;

  CHECK_CALL(open_burst(&f, 2));
  burst.waits = 301;
  burst.waits_for = TASKS - 1;
  CHECK_CALL(run_burst(&f));
  ASSERT_FALSE(atomic_load(&burst.given_up));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ---- other bodies among short ones ---- */

static struct { _Atomic int inside, came; } pair;

static int waits_for_the_other(uvs_run_t *run) {
  (void)run;
  atomic_store(&pair.inside, 1);
  await_flag(&pair.came);
  return 0;
}

static int comes(uvs_run_t *run) {
  (void)run;
  atomic_store(&pair.came, 1);
  return 0;
}

static uvs_task_t plain(uvs_work_cb body) {
  uvs_task_t t;

  uvs_task_init(&t);
  t.work = body;
  return t;
}

/* L15: the timer of a third task would have helped the second body, but that task is cancelled. */
TEST a_held_back_task_starts_without_another_task(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(open_burst(&f, 2));
  memset(&pair, 0, sizeof pair);
  uvs_task_t t = plain(waits_for_the_other);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT(turn_loop_until(&f.loop, &pair.inside, 1));
  inspect_one_is_enough(f.s);
  t = plain(NULL);
  t.after = on_loop;
  t.first_ns = UVS_US(1900);
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(0, submit_elsewhere(f.s, plain(comes), NULL));
  ASSERT_RC(0, uvs_reschedule(f.s, id, UVS_NEVER));
  ASSERT(turn_loop_until(&f.loop, &pair.came, 1));
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, 0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int sleeps_2ms(uvs_run_t *run) {
  (void)run;
  uv_sleep(2);
  atomic_fetch_add(&burst.runs, 1);
  return 0;
}

/* After one run that is much longer than the short ones, one runner is no longer enough. */
TEST one_long_body_makes_the_crew_use_several_runners_again(void) {
  struct fixture f;

  CHECK_CALL(open_burst(&f, 2));
  ASSERT(inspect_is_one_enough(f.s));
  uvs_task_t t = plain(sleeps_2ms);
  /* A run whose runner had to wait for the lock does not count, so there may be several. */
  for (int i = 1; i <= 100 && inspect_is_one_enough(f.s); i++) {
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    ASSERT(turn_loop_until(&f.loop, &burst.runs, i));
    while (counts_of(f.s).running > 0)
      uv_sleep(1);
  }
  ASSERT_FALSE(inspect_is_one_enough(f.s));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ---- tasks that other threads submit for now ---- */

static _Atomic int concurrency;

struct job {
  void (*run)(void *arg);
  void *arg;
};

static void run_job(void *arg) {
  struct job *j = arg;

  j->run(j->arg);
  free(j);
}

static uv_thread_t job_threads[64];
static unsigned job_count;

static int submit_job(void *self, void (*run)(void *arg), void *arg) {
  struct job *j = malloc(sizeof *j);

  (void)self;
  if (j == NULL || job_count == 64)
    return UV_ENOMEM;
  *j = (struct job){run, arg};
  return uv_thread_create(&job_threads[job_count++], run_job, j);
}

static int concurrency_now(void *self) {
  (void)self;
  return atomic_load(&concurrency);
}

/* An executor whose concurrency changes is asked for it at each submission. */
TEST the_executors_concurrency_is_read_at_each_submission(void) {
  uvs_executor_t e;
  struct fixture f;

  uvs_executor_init(&e);
  e.submit = submit_job;
  e.concurrency = concurrency_now;
  atomic_store(&concurrency, 1);
  job_count = 0;
  memset(&pair, 0, sizeof pair);
  fixture_init(&f);
  f.real_clock = true;
  f.pool = FAKEPOOL_REAL;
  f.options.executor = &e;
  f.options.concurrency = -1;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = plain(waits_for_the_other);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL)); /* it keeps the loop alive */
  ASSERT(turn_loop_until(&f.loop, &pair.inside, 1));
  atomic_store(&concurrency, 2);
  ASSERT_RC(0, submit_elsewhere(f.s, plain(comes), NULL));
  ASSERT(turn_loop_until(&f.loop, &pair.came, 1));
  CHECK_CALL(fixture_close(&f));
  while (job_count > 0)
    ASSERT_RC(0, uv_thread_join(&job_threads[--job_count]));
  PASS();
}

/* The loop thread can reschedule a task that it has just submitted, even before the first pass. */
TEST the_loop_can_reschedule_a_task_until_its_next_pass(void) {
  for (int passes = 0; passes < 2; passes++) {
    struct fixture f;
    uvs_id_t id;

    memset(&pair, 0, sizeof pair);
    fixture_init(&f);
    f.real_clock = true;
    f.pool = FAKEPOOL_REAL;
    CHECK_CALL(passes == 0 ? fixture_open(&f) : fixture_open_turned(&f));
    uvs_task_t t = plain(comes);
    t.first_ns = UVS_SEC(3600);
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL)); /* so that there is room for the next */
    t.first_ns = 0;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    ASSERT_RC(0, uvs_reschedule(f.s, id, UVS_MS(1)));
    ASSERT(turn_loop_until(&f.loop, &pair.came, 1));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

SUITE(one_runner) {
  RUN_TEST(a_burst_of_short_bodies_starts_in_the_order_of_submission);
  RUN_TEST(a_burst_does_not_wait_for_a_blocked_body);
  RUN_TEST(a_held_back_task_starts_without_another_task);
  RUN_TEST(one_long_body_makes_the_crew_use_several_runners_again);
  RUN_TEST(the_executors_concurrency_is_read_at_each_submission);
  RUN_TEST(the_loop_can_reschedule_a_task_until_its_next_pass);
}

TEST_MAIN(RUN_SUITE(one_runner));
