/* SPDX-License-Identifier: MIT
 *
 * Bodies are so short that one runner is enough for a crew, and many tasks are due at one instant:
 * on the real clock and the real pool.
 */
#include "lib/fixture.h"
#include "lib/inspect.h"
#include "lib/patience.h"

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
    t.delay_ns = burst.due_ns;
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
TEST a_burst_starts_in_order(void) {
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

/* L15: one body of the burst waits for a task far behind it: a second runner must be sent. */
TEST a_burst_does_not_wait_for_a_body_that_is_stuck(void) {
  struct fixture f;

  CHECK_CALL(open_burst(&f, 2));
  burst.waits = 301;
  burst.waits_for = TASKS - 1;
  CHECK_CALL(run_burst(&f));
  ASSERT_FALSE(atomic_load(&burst.given_up));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(one_runner) {
  RUN_TEST(a_burst_starts_in_order);
  RUN_TEST(a_burst_does_not_wait_for_a_body_that_is_stuck);
}

TEST_MAIN(RUN_SUITE(one_runner));
