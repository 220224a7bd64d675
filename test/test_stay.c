/* SPDX-License-Identifier: MIT
 *
 * On a thread of the scheduler's own a runner whose runs are brief waits for more, rather than go
 * home and be called out again. On the real clock, of which nothing is asserted.
 */
#include "lib/bodies.h"
#include "lib/fixture.h"

#include "uvsched/executor.h"

int __real_uv_cond_timedwait(uv_cond_t *cond, uv_mutex_t *lock, uint64_t timeout_ns);
int __wrap_uv_cond_timedwait(uv_cond_t *cond, uv_mutex_t *lock, uint64_t timeout_ns);

static _Atomic int stayed;  /* so often did a runner wait for more */
static _Atomic int patient; /* ... not for its time, but until it is wanted */
static _Atomic int woken;   /* ... and it was */

int __wrap_uv_cond_timedwait(uv_cond_t *cond, uv_mutex_t *lock, uint64_t timeout_ns) {
  int rc;

  atomic_fetch_add(&stayed, 1);
  if (atomic_load(&patient) != 0)
    timeout_ns = (uint64_t)PATIENCE_NS;
  rc = __real_uv_cond_timedwait(cond, lock, timeout_ns);
  if (rc == 0)
    atomic_fetch_add(&woken, 1);
  return rc;
}

static enum greatest_test_res submit_rate(struct fixture *f, int64_t period_ns, uint32_t runs) {
  uvs_task_t t = fixture_rate(f, 'a', 0, period_ns);

  t.work = work_nothing;
  t.missed = UVS_MISSED_ONCE;
  t.max_runs = runs;
  ASSERT_RC(0, uvs_submit(f->s, &t, NULL));
  PASS();
}

static void init_own(struct fixture *f) {
  atomic_store(&stayed, 0);
  atomic_store(&woken, 0);
  atomic_store(&patient, 0);
  fixture_init(f);
  f->pool = FAKEPOOL_REAL;
  f->real_clock = true;
  f->options.concurrency = -1;
}

TEST on_an_own_thread_a_runner_waits_for_more(void) {
  struct fixture f;

  init_own(&f);
  f.options.threads = 1;
  CHECK_CALL(fixture_open_turned(&f));
  atomic_store(&patient, 1);
  CHECK_CALL(submit_rate(&f, UVS_US(200), 0));
  ASSERT(fixture_wait_flag(&f, &woken)); /* by the loop, which had something for it */
  atomic_store(&patient, 0);
  uvs_task_t t = fixture_once(&f, 'b', 0); /* for one that still is */
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT(fixture_wait_log(&f, EV_DONE, 'b', 1));
  ASSERT_U64(1, counts_of(f.s).peak_runners);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L1 L2 */
TEST when_nothing_more_comes_it_goes_home(void) {
  struct fixture f;

  init_own(&f);
  f.options.threads = 2;
  CHECK_CALL(fixture_open_turned(&f));
  CHECK_CALL(submit_rate(&f, UVS_US(200), 300));
  ASSERT(fixture_run(&f, UV_RUN_DEFAULT, NULL));
  ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* Others may want them. */
TEST on_threads_that_are_shared_it_goes_home(void) {
  uvs_threads_options_t o;
  uvs_threads_t *shared;
  struct fixture f;

  uvs_threads_options_init(&o);
  o.threads = 1;
  ASSERT_RC(0, uvs_threads_open(&o, &shared));
  init_own(&f);
  f.options.executor = uvs_threads_executor(shared);
  CHECK_CALL(fixture_open_turned(&f));
  CHECK_CALL(submit_rate(&f, UVS_US(200), 300));
  ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 1));
  ASSERT_RC(0, atomic_load(&stayed));
  CHECK_CALL(fixture_close(&f));
  ASSERT_RC(0, uvs_threads_close(shared));
  PASS();
}

SUITE(stay) {
  RUN_TEST(on_an_own_thread_a_runner_waits_for_more);
  RUN_TEST(when_nothing_more_comes_it_goes_home);
  RUN_TEST(on_threads_that_are_shared_it_goes_home);
}

TEST_MAIN(RUN_SUITE(stay));
