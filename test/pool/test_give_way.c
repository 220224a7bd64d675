/* SPDX-License-Identifier: MIT
 *
 * A runner yields the core between bodies that compute, and only there. The test decides the CPU
 * time and how long a yield takes.
 */
#include <sched.h>
#include <time.h>

#include "lib/bodies.h"
#include "lib/fixture.h"

#include "uvsched/executor.h"

/* ------------------------------------------------- the wrapped system calls --- */

int __wrap_sched_yield(void);
int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);

static struct {
  struct fixture *f;
  _Atomic uint64_t cpu_ns;
  int64_t away_ns; /* how long a yield takes */
  unsigned yields, asked;
  uint64_t running; /* running tasks during the yield */
} core;

int __wrap_sched_yield(void) {
  core.yields++;
  core.running += counts_of(core.f->s).running;
  vclock_advance_ns(&core.f->clock, core.away_ns);
  return 0;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *t) {
  uint64_t ns = core.cpu_ns;

  if (clock != CLOCK_THREAD_CPUTIME_ID)
    return __real_clock_gettime(clock, t);
  core.asked++;
  if (ns == 0)
    return -1;
  *t = (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
  return 0;
}

/* A body that takes this many us, of which it computes for that many. */
struct kind {
  int64_t takes_us, computes_us;
};

static int body(struct probe *p, uvs_run_t *run) {
  const struct kind *k = p->data;

  (void)run;
  core.cpu_ns += (uint64_t)UVS_US(k->computes_us);
  vclock_advance_ns(&p->f->clock, UVS_US(k->takes_us));
  return 0;
}

/* Runs n such bodies one after the other, on one runner that stays out for all of them. */
static enum greatest_test_res run_many(struct fixture *f, struct kind *k, int n) {
  core.yields = core.asked = 0;
  for (int i = 0; i < n; i++) {
    uvs_task_t t = fixture_once(f, 'a', 0);

    probe_of(&t)->act = body;
    probe_of(&t)->data = k;
    ASSERT_RC(0, uvs_submit(f->s, &t, NULL));
  }
  fixture_turn(f);
  PASS();
}

static enum greatest_test_res open_core(struct fixture *f) {
  memset(&core, 0, sizeof core);
  core.f = f;
  core.cpu_ns = 1;
  fixture_init(f);
  f->options.concurrency = 1;
  f->options.budget_ns = UVS_SEC(1);
  CHECK_CALL(fixture_open_turned(f));
  PASS();
}

/* ------------------------------------------------------------------- the tests --- */

TEST a_runner_yields_between_bodies_that_compute(void) {
  struct kind computes = {500, 500};
  struct fixture f;

  CHECK_CALL(open_core(&f));
  CHECK_CALL(run_many(&f, &computes, 10));
  /* Not after the first body, whose kind is not known yet, and not after the last, when the runner
   * returns. */
  ASSERT_U64(8, core.yields);
  CHECK_CALL(run_many(&f, &computes, 10));
  ASSERT_U64(10, core.yields); /* and when it is called out again */
  ASSERT_U64(0,
             core.running); /* it held none meanwhile: any could be cancelled, or run by others */
  ASSERT_U64(20, log_count(&f, EV_WORK, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

TEST a_runner_yields_after_a_body_that_computes_half_the_time(void) {
  struct kind crowded = {500, 200};
  struct fixture f;

  CHECK_CALL(open_core(&f));
  CHECK_CALL(run_many(&f, &crowded, 10));
  ASSERT_U64(8, core.yields);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

TEST a_runner_does_not_yield_after_a_body_that_blocked(void) {
  struct kind blocks = {500, 20};
  struct fixture f;

  CHECK_CALL(open_core(&f));
  CHECK_CALL(run_many(&f, &blocks, 10));
  ASSERT_U64(0, core.yields);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

TEST a_runner_does_not_yield_after_brief_bodies(void) {
  struct kind brief = {50, 50};
  struct fixture f;

  CHECK_CALL(open_core(&f));
  CHECK_CALL(run_many(&f, &brief, 10));
  ASSERT_U64(0, core.yields);
  ASSERT_U64(0, core.asked);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

TEST a_start_time_is_read_after_the_yield(void) {
  struct kind computes = {500, 500};
  struct fixture f;

  CHECK_CALL(open_core(&f));
  core.away_ns = UVS_MS(1);
  CHECK_CALL(run_many(&f, &computes, 3));
  ASSERT_U64(1, core.yields);
  ASSERT_I64(UVS_US(1000), log_nth(&f, EV_WORK, 'a', 2)->start_ns -
                               log_nth(&f, EV_WORK, 'a', 1)->start_ns - UVS_US(500));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

TEST after_a_yield_that_took_long_a_runner_does_not_yield_for_a_while(void) {
  struct kind computes = {500, 500};
  struct kind long_one = {210000, 210000};
  struct fixture f;

  CHECK_CALL(open_core(&f));
  core.away_ns = UVS_MS(4);
  CHECK_CALL(run_many(&f, &computes, 10));
  ASSERT_U64(1, core.yields);
  CHECK_CALL(run_many(&f, &computes, 10));
  ASSERT_U64(0, core.yields);
  CHECK_CALL(run_many(&f, &long_one, 2)); /* then he may have gone */
  ASSERT_U64(1, core.yields);
  core.away_ns = 0;
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* A runner on the loop thread must not yield. */
TEST the_loop_thread_does_not_yield(void) {
  struct kind computes = {500, 500};
  struct fixture f;

  memset(&core, 0, sizeof core);
  core.f = &f;
  core.cpu_ns = 1;
  fixture_init(&f);
  f.options.executor = uvs_inline_executor();
  f.options.budget_ns = UVS_SEC(1);
  CHECK_CALL(fixture_open_turned(&f));
  CHECK_CALL(run_many(&f, &computes, 10));
  ASSERT_U64(0, core.yields);
  ASSERT_U64(10, log_count(&f, EV_WORK, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(give_way) {
  RUN_TEST(a_runner_yields_between_bodies_that_compute);
  RUN_TEST(a_runner_yields_after_a_body_that_computes_half_the_time);
  RUN_TEST(a_runner_does_not_yield_after_a_body_that_blocked);
  RUN_TEST(a_runner_does_not_yield_after_brief_bodies);
  RUN_TEST(a_start_time_is_read_after_the_yield);
  RUN_TEST(after_a_yield_that_took_long_a_runner_does_not_yield_for_a_while);
  RUN_TEST(the_loop_thread_does_not_yield);
}

TEST_MAIN(RUN_SUITE(give_way));
