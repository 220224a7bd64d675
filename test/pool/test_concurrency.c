/* SPDX-License-Identifier: MIT
 *
 * Concurrency: how many bodies run at once. The default, the valid values, and the effect of a
 * change.
 */
#include "lib/bodies.h"
#include "lib/fixture.h"
#include "lib/inspect.h"
#include "lib/threads.h"

/* ---------------------------------------------------------------- setting it --- */

/* S25 P3 */
TEST concurrency_reads_back_and_invalid_values_do_not_change_it(void) {
  static const int good[] = {0, 1, 2, 7, 1024, 3};
  static const int bad[] = {-1, -2, 1025, INT_MIN, INT_MAX};
  struct fixture f;
  uvs_t *s = NULL;

  for (unsigned i = 0; i < sizeof good / sizeof *good; i++) {
    fixture_init(&f);
    f.options.concurrency = good[i];
    CHECK_CALL(fixture_open(&f));
    ASSERT_RC(good[i], uvs_concurrency(f.s));
    for (unsigned k = 0; k < sizeof bad / sizeof *bad; k++) {
      ASSERT_RC(UV_EINVAL, uvs_set_concurrency(f.s, bad[k]));
      ASSERT_RC(good[i], uvs_concurrency(f.s));
    }
    for (unsigned k = 0; k < sizeof good / sizeof *good; k++) {
      ASSERT_RC(0, uvs_set_concurrency(f.s, good[k]));
      ASSERT_RC(good[k], uvs_concurrency(f.s));
    }
    for (unsigned k = 1; k < sizeof bad / sizeof *bad; k++) { /* at open, -1 means something */
      f.options.concurrency = bad[k];
      ASSERT_RC(UV_EINVAL, uvs_open(&f.loop, &f.options, &s));
      ASSERT(s == NULL);
    }
    uvs_task_t t = fixture_once(&f, 'a', 0);
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_turn(&f);
    ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
    ASSERT_RC(UV_EINVAL, uvs_concurrency(NULL));
    ASSERT_RC(UV_EINVAL, uvs_set_concurrency(NULL, 1));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S25 P3 L10 */
TEST a_failed_change_of_the_concurrency_leaves_the_old_one(void) {
  struct fixture f;
  int n;

  fixture_init(&f);
  f.options.concurrency = 2;
  CHECK_CALL(fixture_open(&f));
  for (n = 0;; n++) {
    fault_after(n);
    int rc = uvs_set_concurrency(f.s, 6);
    bool failed = fault_hit();
    ASSERT_RC(failed ? UV_ENOMEM : 0, rc);
    ASSERT_RC(failed ? 2 : 6, uvs_concurrency(f.s));
    if (!failed)
      break;
  }
  ASSERT_RC(4, n);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

#define SETTERS 4
#define MOST 64

static void set_again_and_again(void *arg) {
  uint64_t seed = test_seed ^ (uint64_t)(uintptr_t)&seed;

  for (int i = 0; i < 30; i++)
    uvs_set_concurrency(arg, 1 + (int)test_random_below(&seed, MOST));
}

/* S67: each thread computes how many runners are missing, and creates them without the lock. */
TEST runners_created_by_several_threads_at_once_have_distinct_numbers(void) {
  for (int round = 0; round < 20; round++) {
    uv_thread_t threads[SETTERS];
    struct fixture f;

    fixture_init(&f);
    f.options.concurrency = 0;
    CHECK_CALL(fixture_open(&f));
    for (int i = 0; i < SETTERS; i++)
      ASSERT_RC(0, uv_thread_create(&threads[i], set_again_and_again, f.s));
    for (int i = 0; i < SETTERS; i++)
      uv_thread_join(&threads[i]);
    ASSERT(inspect_idle(f.s)); /* which looks at their numbers, too */
    ASSERT_U64(0, inspect_runners_out(f.s));
    ASSERT(inspect_runners_made(f.s) <= MOST);
    ASSERT(uvs_concurrency(f.s) <= inspect_runners_made(f.s));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* An allocator during whose first call another thread creates runners. */
struct rival {
  uvs_allocator_t real;
  uvs_t *s;
  int wants; /* 0: no other thread */
};

static void *alloc_with_rival(size_t size, void *arg) {
  struct rival *r = arg;
  int wants = r->wants;

  r->wants = 0;
  if (wants != 0)
    uvs_set_concurrency(r->s, wants);
  return r->real.alloc(size, r->real.arg);
}

static void free_with_rival(void *ptr, void *arg) {
  struct rival *r = arg;

  r->real.free(ptr, r->real.arg);
}

/* S67 L10 */
TEST runners_that_another_thread_creates_meanwhile_are_not_created_twice(void) {
  static const int rivals[] = {1, 3, 5, 8};

  for (unsigned i = 0; i < sizeof rivals / sizeof *rivals; i++) {
    struct rival rival = {.wants = 0};
    struct fixture f;
    long live;

    fixture_init(&f);
    rival.real = f.options.allocator;
    f.options.allocator = (uvs_allocator_t){alloc_with_rival, free_with_rival, &rival};
    f.options.concurrency = 0;
    CHECK_CALL(fixture_open(&f));
    live = atomic_load(&f.fault.live);
    rival.s = f.s;
    rival.wants = rivals[i];
    ASSERT_RC(0, uvs_set_concurrency(f.s, 5));
    ASSERT_RC(5, uvs_concurrency(f.s));
    ASSERT_RC(rivals[i] > 5 ? rivals[i] : 5, inspect_runners_made(f.s));
    ASSERT_I64(live + inspect_runners_made(f.s), atomic_load(&f.fault.live));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* ------------------------------------------------------------- the default --- */

struct pool_size {
  const char *env;
  int concurrency;
};

/* With UV_THREADPOOL_SIZE as each case says. */
static enum greatest_test_res default_concurrency(const struct pool_size *cases, unsigned n) {
  char old[32];
  size_t size = sizeof old;
  bool had = uv_os_getenv("UV_THREADPOOL_SIZE", old, &size) == 0;

  for (unsigned i = 0; i < n; i++) {
    struct fixture f;

    if (cases[i].env == NULL)
      uv_os_unsetenv("UV_THREADPOOL_SIZE");
    else
      uv_os_setenv("UV_THREADPOOL_SIZE", cases[i].env);
    fixture_init(&f);
    CHECK_CALL(fixture_open(&f));
    ASSERT_RC(cases[i].concurrency, uvs_concurrency(f.s));
    CHECK_CALL(fixture_close(&f));
  }
  if (had)
    uv_os_setenv("UV_THREADPOOL_SIZE", old);
  PASS();
}

/* S25 */
TEST the_default_concurrency_leaves_one_pool_thread_free(void) {
  static const struct pool_size cases[] = {{NULL, 3}, {"4", 3},       {"8", 7},
                                           {"2", 1},  {"1", 1},       {"0", 1},
                                           {"x", 1},  {"1024", 1023}, {"99999", 1023}};

  return default_concurrency(cases, sizeof cases / sizeof *cases);
}

/* S25. libuv reads a negative size as a huge one and then has 1024 threads. It was read as the
 * smallest size here. */
TEST the_default_concurrency_reads_the_pools_size_as_libuv_does(void) {
  static const struct pool_size cases[] = {
      {"-1", 1023}, {"-4", 1023}, {"0", 1}, {"1", 1}, {NULL, 3}};

  return default_concurrency(cases, sizeof cases / sizeof *cases);
}

/* -------------------------------------------------------------- what it does --- */

/* S67 S25 */
TEST raising_and_lowering_the_concurrency_takes_effect(void) {
  struct fixture f;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open(&f));
  gate_init(false);
  for (int i = 0; i < 12; i++) {
    uvs_task_t t = fixture_once(&f, 'a' + i, 0);
    probe_of(&t)->act = gate_pass;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  ASSERT(gate_wait(&f, 1));
  fixture_turn(&f);
  ASSERT_U64(1, log_count(&f, EV_WORK, 0));
  ASSERT_U64(11, counts_of(f.s).ready);

  ASSERT_RC(0, uvs_set_concurrency(f.s, 3)); /* no body had to end for that */
  ASSERT_RC(3, uvs_concurrency(f.s));
  ASSERT(gate_wait(&f, 3));
  ASSERT_U64(3, log_count(&f, EV_WORK, 0));
  ASSERT_U64(3, counts_of(f.s).runners);

  ASSERT_RC(0, uvs_set_concurrency(f.s, 1)); /* bodies inside stay; then one at a time */
  gate_let(2);
  ASSERT(fixture_wait_log(&f, EV_DONE, 0, 2));
  ASSERT(gate_wait(&f, 1));
  gate_peak();
  gate_let(4);
  ASSERT(fixture_wait_log(&f, EV_DONE, 0, 6));
  ASSERT(gate_wait(&f, 1));
  ASSERT_RC(1, gate_peak());
  ASSERT_U64(7, log_count(&f, EV_WORK, 0));
  ASSERT_U64(3, counts_of(f.s).peak_runners);

  ASSERT_RC(0, uvs_set_concurrency(f.s, 0)); /* ready tasks move to the loop */
  gate_let(6);
  ASSERT(fixture_wait_log(&f, EV_DONE, 0, 12));
  for (int i = 7; i < 12; i++)
    ASSERT_RC(UVS_ON_LOOP, log_nth(&f, EV_WORK, 'a' + i, 0)->runner);
  /* Two runners started b and c at the same time: either may have logged first. */
  const char *order = log_string(&f, EV_WORK);
  ASSERT_STR_EQ(order[1] == 'b' ? "abcdefghijkl" : "acbdefghijkl", order);

  ASSERT_RC(0, uvs_set_concurrency(f.s, 2)); /* and back to the pool */
  uvs_task_t t = fixture_once(&f, 'z', 0);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT(fixture_wait_log(&f, EV_DONE, 'z', 1));
  ASSERT(log_nth(&f, EV_WORK, 'z', 0)->runner >= 0);
  ASSERT_FALSE(log_nth(&f, EV_WORK, 'z', 0)->on_loop);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int set_three(void *s) {
  return uvs_set_concurrency(s, 3);
}

/* S67 */
TEST raising_the_concurrency_from_another_thread_wakes_the_loop(void) {
  struct fixture f;

  fixture_init(&f);
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open(&f));
  fakepool_hold();
  for (int i = 0; i < 5; i++) {
    uvs_task_t t = fixture_once(&f, 'a' + i, 0);
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  fixture_turn(&f);
  ASSERT_U64(1, fakepool_pending());
  ASSERT_RC(0, elsewhere(set_three, f.s));
  fixture_turn(&f);
  ASSERT_U64(3, fakepool_pending());
  fakepool_release();
  fixture_turn(&f);
  ASSERT_U64(5, log_count(&f, EV_DONE, 0));
  ASSERT_U64(3, fakepool_seen().peak_outstanding);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ---- the pool-size experiment: a short body due at 2 s, an endless one at 1 s, shutdown at once
 */

static enum greatest_test_res experiment_open(struct fixture *f, int concurrency) {
  fixture_init(f);
  f->pool = FAKEPOOL_REAL;
  f->options.concurrency = concurrency;
  f->options.keep_alive = UVS_KEEP_ALIVE_ALWAYS;
  CHECK_CALL(fixture_open(f));
  gate_init(true);
  uvs_task_t brief = fixture_once(f, 's', UVS_SEC(2));
  uvs_task_t endless = fixture_once(f, 'e', UVS_SEC(1));
  probe_of(&endless)->act = gate_pass;
  ASSERT_RC(0, uvs_submit(f->s, &brief, NULL));
  ASSERT_RC(0, uvs_submit(f->s, &endless, NULL));
  ASSERT_RC(0, uvs_shutdown(f->s));
  PASS();
}

/* S67 S35 S42 */
TEST with_one_runner_an_endless_body_keeps_a_short_one_from_starting(void) {
  struct fixture f;

  CHECK_CALL(experiment_open(&f, 1));
  fixture_turn(&f);
  ASSERT_I64(1000, fixture_next_ms(&f)); /* the later submission is the nearer head */
  fixture_jump_ns(&f, UVS_SEC(1) - 1);
  ASSERT_U64(0, log_total(&f));
  fixture_jump_ns(&f, 1);
  ASSERT(fixture_wait_log(&f, EV_WORK, 'e', 1));
  ASSERT_STR_EQ("1000", log_runs(&f, EV_WORK, 'e'));
  fixture_jump_ns(&f, UVS_SEC(1));
  fixture_jump_ns(&f, UVS_HOUR(1));
  ASSERT_STR_EQ("e", log_string(&f, EV_WORK));
  ASSERT_U64(1, counts_of(f.s).ready); /* due, accepted, not dropped */
  ASSERT_U64(1, counts_of(f.s).running);
  ASSERT(gate_wait(&f, 1));
  ASSERT_RC(1, uvs_is_terminating(f.s));
  ASSERT_RC(0, elsewhere(do_shutdown_now, f.s));
  ASSERT(fixture_wait_log(&f, EV_TERMINATED, 0, 1));
  ASSERT_STR_EQ("e", log_string(&f, EV_WORK));
  ASSERT_STR_EQ("s", log_string(&f, EV_NEVER_RAN));
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'e', 0)->status);
  ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 's', 0)->status);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S67 S35 S42 */
TEST with_two_runners_both_bodies_run(void) {
  struct fixture f;

  CHECK_CALL(experiment_open(&f, 2));
  fixture_jump_ns(&f, UVS_SEC(1));
  ASSERT(fixture_wait_log(&f, EV_WORK, 'e', 1));
  fixture_jump_ns(&f, UVS_SEC(1));
  ASSERT(fixture_wait_log(&f, EV_DONE, 's', 1));
  ASSERT_STR_EQ("2000", log_runs(&f, EV_WORK, 's'));
  ASSERT_RC(0, log_nth(&f, EV_DONE, 's', 0)->status);
  ASSERT(log_nth(&f, EV_WORK, 's', 0)->runner != log_nth(&f, EV_WORK, 'e', 0)->runner);
  ASSERT(gate_wait(&f, 1));
  ASSERT_RC(1, uvs_is_terminating(f.s));
  ASSERT_RC(0, elsewhere(do_shutdown_now, f.s));
  ASSERT(fixture_wait_log(&f, EV_TERMINATED, 0, 1));
  ASSERT_U64(0, log_count(&f, EV_NEVER_RAN, 0));
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'e', 0)->status);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static void loop_thread_main(void *arg) {
  struct fixture *f = arg;

  f->loop_thread = uv_thread_self();
  uv_run(&f->loop, UV_RUN_DEFAULT); /* until terminated: UVS_KEEP_ALIVE_ALWAYS */
}

/* S67 S35 S42 L4 */
TEST without_runners_the_cancel_token_reaches_a_body_that_blocks_the_loop(void) {
  struct fixture f;
  uv_thread_t thread;

  CHECK_CALL(experiment_open(&f, 0));
  ASSERT_RC(0, uv_thread_create(&thread, loop_thread_main, &f));
  vclock_advance_ns(&f.clock, UVS_SEC(1));
  ASSERT_RC(0, uvs_clock_changed(f.s));
  ASSERT(gate_await(1));
  vclock_advance_ns(&f.clock, UVS_SEC(1));
  ASSERT_RC(0, uvs_clock_changed(f.s));
  ASSERT_RC(UV_ETIMEDOUT,
            uvs_wait_terminated(f.s, UVS_MS(20))); /* the loop had time to run it, if it could */
  ASSERT_U64(1, counts_of(f.s).running);
  ASSERT_U64(1, counts_of(f.s).waiting + counts_of(f.s).ready);
  ASSERT_RC(1, gate_inside());
  ASSERT_STR_EQ("e", log_string(&f, EV_WORK));
  ASSERT_STR_EQ("1000", log_runs(&f, EV_WORK, 'e'));
  ASSERT_RC(0, do_shutdown_now(f.s));
  ASSERT_RC(0, uvs_wait_terminated(f.s, PATIENCE_NS));
  uv_thread_join(&thread);
  ASSERT_STR_EQ("e", log_string(&f, EV_WORK));
  ASSERT(log_nth(&f, EV_WORK, 'e', 0)->on_loop);
  ASSERT_RC(UVS_ON_LOOP, log_nth(&f, EV_WORK, 'e', 0)->runner);
  ASSERT_STR_EQ("s", log_string(&f, EV_NEVER_RAN));
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'e', 0)->status);
  ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 's', 0)->status);
  ASSERT_U64(0, fakepool_seen().queue_works);
  f.loop_thread = uv_thread_self(); /* the other has ended: the loop goes on with us */
  ASSERT_RC(0, uvs_clock_changed(f.s));
  fixture_turn(&f);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(setting) {
  RUN_TEST(concurrency_reads_back_and_invalid_values_do_not_change_it);
  RUN_TEST(a_failed_change_of_the_concurrency_leaves_the_old_one);
  RUN_TEST(runners_created_by_several_threads_at_once_have_distinct_numbers);
  RUN_TEST(runners_that_another_thread_creates_meanwhile_are_not_created_twice);
  RUN_TEST(the_default_concurrency_leaves_one_pool_thread_free);
  RUN_TEST(the_default_concurrency_reads_the_pools_size_as_libuv_does);
}

SUITE(concurrency) {
  RUN_TEST(raising_and_lowering_the_concurrency_takes_effect);
  RUN_TEST(raising_the_concurrency_from_another_thread_wakes_the_loop);
  RUN_TEST(with_one_runner_an_endless_body_keeps_a_short_one_from_starting);
  RUN_TEST(with_two_runners_both_bodies_run);
  RUN_TEST(without_runners_the_cancel_token_reaches_a_body_that_blocks_the_loop);
}

/* Blocking bodies need enough threads in libuv's pool, whatever the environment says. */
TEST_MAIN(uv_os_setenv("UV_THREADPOOL_SIZE", "4"); RUN_SUITE(setting); RUN_SUITE(concurrency));
