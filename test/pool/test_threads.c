/* SPDX-License-Identifier: MIT
 *
 * Loops that move to another thread, and threads that are faster than the loop.
 */
#include "lib/fixture.h"

#include <stdatomic.h>
#include <string.h>

struct scene {
  uv_loop_t loop;
  uvs_t *s;
  uv_sem_t opened;
  uv_thread_t thread;
  int concurrency;
  atomic_int runs;
  atomic_bool running, told;
};

/* Runs a loop on a thread of its own until the scheduler is terminated. */
static void loop_main(void *arg) {
  struct scene *c = arg;
  uvs_options_t o;

  uvs_options_init(&o);
  o.keep_alive = UVS_KEEP_ALIVE_ALWAYS;
  o.concurrency = c->concurrency;
  uvs_open(&c->loop, &o, &c->s);
  uv_sem_post(&c->opened);
  uv_run(&c->loop, UV_RUN_DEFAULT);
}

static enum greatest_test_res start(struct scene *c, int concurrency) {
  memset(c, 0, sizeof *c);
  c->concurrency = concurrency;
  ASSERT_RC(0, uv_loop_init(&c->loop));
  ASSERT_RC(0, uv_sem_init(&c->opened, 0));
  ASSERT_RC(0, uv_thread_create(&c->thread, loop_main, c));
  uv_sem_wait(&c->opened);
  ASSERT(c->s != NULL);
  PASS();
}

static void keep_alive(uv_idle_t *idle) {
  (void)idle;
}

/* other.c does not notice that the loop's thread has ended, so the loop must run on this thread. A
 * terminated scheduler does not keep the loop alive, so another handle has to. */
static enum greatest_test_res move_loop_here(struct scene *c) {
  uv_idle_t idle;

  ASSERT_RC(UV_EPERM, uvs_close(c->s, NULL));
  ASSERT_RC(0, uv_idle_init(&c->loop, &idle));
  ASSERT_RC(0, uv_idle_start(&idle, keep_alive));
  ASSERT_RC(0, uvs_clock_changed(c->s));
  uv_run(&c->loop, UV_RUN_NOWAIT);
  uv_close((uv_handle_t *)&idle, NULL);
  uv_run(&c->loop, UV_RUN_NOWAIT); /* closes it */
  PASS();
}

/* Shuts down, joins the loop's thread, and closes from this thread. */
static enum greatest_test_res finish(struct scene *c) {
  ASSERT_RC(0, uvs_shutdown(c->s));
  ASSERT_RC(0, uvs_wait_terminated(c->s, PATIENCE_NS));
  uv_thread_join(&c->thread);
  if (!TEST_PORT_LINUX)
    CHECK_CALL(move_loop_here(c));
  ASSERT_RC(0, uvs_close(c->s, NULL));
  ASSERT_RC(0, uv_run(&c->loop, UV_RUN_DEFAULT));
  ASSERT_RC(0, uv_loop_close(&c->loop));
  uv_sem_destroy(&c->opened);
  PASS();
}

static int count_run(uvs_run_t *run) {
  struct scene *c = run->arg;

  atomic_fetch_add(&c->runs, 1);
  return 0;
}

/* L2 L3 The most natural way to end: join the loop's thread, then close on the thread that
 * opened. */
TEST another_thread_may_close_after_the_loop_thread_has_ended(void) {
  struct scene c;

  CHECK_CALL(start(&c, 1));
  ASSERT_RC(0, uvs_execute(c.s, count_run, &c));
  ASSERT_RC(UV_EPERM, uvs_close(c.s, NULL)); /* the loop's thread still runs */
  CHECK_CALL(finish(&c));
  ASSERT_RC(1, atomic_load(&c.runs));
  PASS();
}

struct stranger {
  struct scene *c;
  int rc, await_rc;
};

static void stranger_main(void *arg) {
  struct stranger *x = arg;

  x->rc = uvs_close(x->c->s, NULL);
  x->await_rc = uvs_wait_terminated(x->c->s, 0);
}

/* L3 A new thread, even one with the same address, is not taken for the loop's. */
TEST a_new_thread_is_not_mistaken_for_the_loop_thread(void) {
  struct scene c;
  struct fixture f;
  struct stranger x = {&c, 1, 1};
  uv_thread_t thread;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f)); /* ours is this loop's thread, and lives */
  memset(&c, 0, sizeof c);
  c.s = f.s;
  for (int i = 0; i < 20; i++) {
    ASSERT_RC(0, uv_thread_create(&thread, stranger_main, &x));
    uv_thread_join(&thread);
    ASSERT_RC(UV_EPERM, x.rc);
    ASSERT_RC(UV_ETIMEDOUT, x.await_rc);
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

#define PAIRS 200000

static atomic_int bad_pairs;

static void pairs_main(void *arg) {
  struct scene *c = arg;

  for (int i = 0; i < PAIRS; i++) {
    uvs_id_t id;

    if (uvs_schedule(c->s, UVS_HOUR(1), count_run, c, &id) != 0 ||
        uvs_cancel(c->s, id, 0) != UVS_CANCELLED)
      atomic_fetch_add(&bad_pairs, 1);
  }
}

/* S55 Producers that do not wait for the loop. */
TEST threads_that_schedule_and_cancel_without_end_use_constant_memory(void) {
  uv_thread_t threads[3];
  uvs_counts_t counts;
  struct scene c;

  atomic_store(&bad_pairs, 0);
  CHECK_CALL(start(&c, 1));
  for (int i = 0; i < 3; i++)
    ASSERT_RC(0, uv_thread_create(&threads[i], pairs_main, &c));
  for (int i = 0; i < 3; i++)
    uv_thread_join(&threads[i]);
  ASSERT_RC(0, atomic_load(&bad_pairs));
  uvs_counts_init(&counts);
  ASSERT_RC(0, uvs_counts(c.s, &counts));
  ASSERT_U64(3 * PAIRS, counts.cancelled);
  ASSERT(counts.slots < PAIRS / 4); /* of 3 * PAIRS; without the brake it is most of them */
  CHECK_CALL(finish(&c));
  PASS();
}

static int until_told(uvs_run_t *run) {
  struct scene *c = run->arg;

  atomic_store(&c->running, true);
  while (!uvs_cancelled(run)) {
  }
  atomic_store(&c->told, true);
  return 0;
}

/* S33 The token of uvs_shutdown_within does not need the loop, which the body itself blocks. */
TEST the_end_of_the_grace_period_reaches_a_body_that_blocks_the_loop(void) {
  for (int i = 0; i < 2; i++) {
    struct scene c;

    CHECK_CALL(start(&c, 0));
    ASSERT_RC(0, uvs_execute(c.s, until_told, &c));
    while (!atomic_load(&c.running)) {
    }
    ASSERT_RC(0, uvs_shutdown_within(c.s, i == 0 ? 0 : UVS_MS(5)));
    CHECK_CALL(finish(&c));
    ASSERT(atomic_load(&c.told));
  }
  PASS();
}

static atomic_int overs;

static void count_over(void *arg) {
  (void)arg;
  atomic_fetch_add(&overs, 1);
}

static void decorate_with_over(uvs_t *s, uvs_id_t id, uvs_decoration_t *d) {
  (void)s;
  (void)id;
  d->release = count_over;
}

struct far_task {
  uvs_t *s;
  uvs_id_t id;
  int rc;
};

static void cancel_main(void *arg) {
  struct far_task *x = arg;

  x->rc = uvs_cancel(x->s, x->id, 0);
}

/* L16 A wrapper's `over` hook is called as promptly as `done`. */
TEST a_cancel_on_another_thread_wakes_the_loop_for_a_wrappers_end_hook(void) {
  struct far_task x;
  struct fixture f;
  uv_thread_t thread;

  atomic_store(&overs, 0);
  fixture_init(&f);
  f.hooks.decorate = decorate_with_over;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t keep = fixture_once(&f, 'k', UVS_HOUR(2)); /* so that it is not the last one */
  ASSERT_RC(0, uvs_submit(f.s, &keep, NULL));
  x.s = f.s;
  ASSERT_RC(0, uvs_schedule(f.s, UVS_HOUR(1), count_run, NULL, &x.id));
  fixture_turn(&f);
  ASSERT_RC(0, uv_thread_create(&thread, cancel_main, &x));
  uv_thread_join(&thread);
  ASSERT_RC(UVS_CANCELLED, x.rc);
  fixture_turn(&f); /* no time passes */
  ASSERT_RC(1, atomic_load(&overs));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L19 An impossible size is refused before anything after `size` is read. */
TEST a_struct_with_an_impossible_size_is_refused_unread(void) {
  struct fixture f;
  uvs_options_t o;
  uvs_counts_t c;
  uvs_info_t i;
  uvs_id_t id;
  uvs_t *s;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_HOUR(1));
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  uvs_options_init(&o);
  uvs_counts_init(&c);
  uvs_info_init(&i);
  t.size = o.size = c.size = i.size = (size_t)1 << 40;
  ASSERT_RC(UV_EINVAL, uvs_submit(f.s, &t, NULL));
  ASSERT_RC(UV_EINVAL, uvs_open(&f.loop, &o, &s));
  ASSERT_RC(UV_EINVAL, uvs_counts(f.s, &c));
  ASSERT_RC(UV_EINVAL, uvs_info(f.s, id, &i));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(threads) {
  RUN_TEST(another_thread_may_close_after_the_loop_thread_has_ended);
  RUN_TEST(a_new_thread_is_not_mistaken_for_the_loop_thread);
  RUN_TEST(threads_that_schedule_and_cancel_without_end_use_constant_memory);
  RUN_TEST(the_end_of_the_grace_period_reaches_a_body_that_blocks_the_loop);
  RUN_TEST(a_cancel_on_another_thread_wakes_the_loop_for_a_wrappers_end_hook);
  RUN_TEST(a_struct_with_an_impossible_size_is_refused_unread);
}

TEST_MAIN(RUN_SUITE(threads));
