/* SPDX-License-Identifier: MIT
 *
 * Tests with the real clock and libuv's real pool. A machine may be slow, so only two things are
 * asserted: every task runs, and no task runs early.
 */
#include <stdlib.h>
#include <time.h>

#include "lib/fixture.h"

static int64_t real_wall_ns(void) {
  struct timespec t;

  clock_gettime(CLOCK_REALTIME, &t);
  return UVS_SEC(t.tv_sec) + t.tv_nsec;
}

static void open_real(struct fixture *f) {
  fixture_init(f);
  f->pool = FAKEPOOL_REAL;
  f->real_clock = true;
}

#define TASKS 400

struct timed {
  int64_t due_ns;
  bool wall;
  _Atomic int runs, early, lied;
};

static int timed_body(uvs_run_t *run) {
  struct timed *p = run->arg;
  int64_t now_ns = p->wall ? real_wall_ns() : (int64_t)uv_hrtime();

  if (now_ns < p->due_ns)
    atomic_fetch_add(&p->early, 1);
  if (run->late_ns < 0 || (!p->wall && run->start_ns < p->due_ns))
    atomic_fetch_add(&p->lied, 1);
  atomic_fetch_add(&p->runs, 1);
  return 0;
}

/* S1 S2 L6 */
TEST every_pool_and_loop_task_runs_and_none_runs_early(void) {
  static struct timed p[TASKS];
  uint64_t random = test_seed;
  struct fixture f;

  memset(p, 0, sizeof p);
  open_real(&f);
  CHECK_CALL(fixture_open(&f));
  for (int i = 0; i < TASKS; i++) {
    uvs_task_t t;

    uvs_task_init(&t);
    t.first_ns = (int64_t)test_random_below(&random, (uint64_t)UVS_MS(30));
    t.work = i % 2 == 0 ? timed_body : NULL;
    t.after = i % 2 == 0 ? NULL : timed_body;
    t.arg = &p[i];
    p[i].due_ns = (int64_t)uv_hrtime() + t.first_ns;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    if (i % 50 == 0)
      uv_run(&f.loop, UV_RUN_NOWAIT);
  }
  ASSERT_RC(0, uvs_shutdown(f.s));
  ASSERT(fixture_wait_log(&f, EV_TERMINATED, 0, 1));
  for (int i = 0; i < TASKS; i++) {
    ASSERT_RC(1, atomic_load(&p[i].runs));
    ASSERT_RC(0, atomic_load(&p[i].early));
    ASSERT_RC(0, atomic_load(&p[i].lied));
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S70 */
TEST every_wall_clock_task_runs_and_none_runs_early(void) {
  static struct timed p[50];
  struct fixture f;

  memset(p, 0, sizeof p);
  open_real(&f);
  CHECK_CALL(fixture_open(&f));
  for (int i = 0; i < 50; i++) {
    p[i].wall = true;
    p[i].due_ns = real_wall_ns() + UVS_US(700) * i - UVS_MS(2);
    ASSERT_RC(0, uvs_schedule_at(f.s, p[i].due_ns, timed_body, &p[i], NULL));
  }
  ASSERT_RC(0, uvs_shutdown(f.s));
  ASSERT(fixture_wait_log(&f, EV_TERMINATED, 0, 1));
  for (int i = 0; i < 50; i++) {
    ASSERT_RC(1, atomic_load(&p[i].runs));
    ASSERT_RC(0, atomic_load(&p[i].early));
    ASSERT_RC(0, atomic_load(&p[i].lied));
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

struct beats {
  int64_t first_ns, period_ns, end_ns;
  bool rate;
  _Atomic int runs, early, overlaps, inside;
};

static int beat(uvs_run_t *run) {
  struct beats *b = run->arg;
  int n = atomic_load(&b->runs);
  int64_t now_ns = (int64_t)uv_hrtime();
  int64_t due_ns = b->rate || n == 0 ? b->first_ns + n * b->period_ns : b->end_ns + b->period_ns;

  if (atomic_exchange(&b->inside, 1) != 0)
    atomic_fetch_add(&b->overlaps, 1);
  if (now_ns < due_ns)
    atomic_fetch_add(&b->early, 1);
  atomic_store(&b->runs, n + 1);
  atomic_store(&b->inside, 0);
  b->end_ns = (int64_t)uv_hrtime(); /* the next run sees it (S64) */
  return n == 19 ? UVS_STOP : 0;
}

/* S4 S5 S6 S7 S64 */
TEST fixed_rate_and_fixed_delay_are_never_early(void) {
  static struct beats b[2];
  struct fixture f;

  memset(b, 0, sizeof b);
  open_real(&f);
  f.options.periodic_after_shutdown = 1;
  CHECK_CALL(fixture_open(&f));
  for (int i = 0; i < 2; i++) {
    b[i].rate = i == 0;
    b[i].period_ns = UVS_US(1300);
    b[i].first_ns = (int64_t)uv_hrtime() + UVS_MS(3);
  }
  ASSERT_RC(0, uvs_schedule_at_fixed_rate(f.s, UVS_MS(3), b[0].period_ns, beat, &b[0], NULL));
  ASSERT_RC(0, uvs_schedule_with_fixed_delay(f.s, UVS_MS(3), b[1].period_ns, beat, &b[1], NULL));
  ASSERT_RC(0, uvs_shutdown(f.s));
  ASSERT(fixture_wait_log(&f, EV_TERMINATED, 0, 1));
  for (int i = 0; i < 2; i++) {
    ASSERT_RC(20, atomic_load(&b[i].runs));
    ASSERT_RC(0, atomic_load(&b[i].early));
    ASSERT_RC(0, atomic_load(&b[i].overlaps));
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ------------------------------------------------------------ a sleeping loop --- */

static void on_guard(uv_timer_t *h) {
  *(bool *)h->data = true;
  uv_stop(h->loop);
}

/* uv_run(DEFAULT), which really sleeps in the kernel; false if it had to be stopped after 20 s. */
static bool run_default(struct fixture *f) {
  uv_timer_t guard;
  bool expired = false;

  uv_timer_init(&f->loop, &guard);
  guard.data = &expired;
  uv_unref((uv_handle_t *)&guard);
  uv_timer_start(&guard, on_guard, 20000, 0);
  uv_run(&f->loop, UV_RUN_DEFAULT);
  uv_close((uv_handle_t *)&guard, NULL);
  uv_run(&f->loop, UV_RUN_NOWAIT);
  return !expired;
}

struct producer {
  struct fixture *f;
  uv_sem_t go;
  uvs_task_t t;
  int64_t due_ns;
  int rc;
};

static void producer_main(void *arg) {
  struct producer *p = arg;

  uv_sem_wait(&p->go);
  uv_sleep(5); /* so that the loop is likely asleep; nothing is asserted about it */
  p->due_ns = (int64_t)uv_hrtime() + p->t.first_ns;
  p->rc = uvs_submit(p->f->s, &p->t, NULL);
}

static void on_prepare(uv_prepare_t *h) {
  struct producer *p = h->data;

  uv_prepare_stop(h);
  uv_sem_post(&p->go);
}

static int act_shutdown(struct probe *p, uvs_run_t *run) {
  (void)p;
  return uvs_shutdown_now(run->scheduler, NULL, NULL);
}

/* S2 L3 */
TEST a_submission_from_another_thread_wakes_a_sleeping_loop(void) {
  static const int64_t delays[] = {0, UVS_MS(3)};

  for (int i = 0; i < 4; i++) {
    struct fixture f;
    struct producer p;
    uv_prepare_t prepare;
    uv_thread_t thread;

    open_real(&f);
    f.options.keep_alive = UVS_KEEP_ALIVE_ALWAYS;
    CHECK_CALL(fixture_open(&f));
    if (i / 2 != 0) { /* asleep for a far task; else for ever */
      uvs_task_t far = fixture_once(&f, 'f', UVS_HOUR(1));
      ASSERT_RC(0, uvs_submit(f.s, &far, NULL));
    }
    p.f = &f;
    p.rc = UV_EAGAIN;
    p.t = fixture_once(&f, 'a', delays[i % 2]);
    probe_of(&p.t)->act = act_shutdown;
    ASSERT_RC(0, uv_sem_init(&p.go, 0));
    ASSERT_RC(0, uv_prepare_init(&f.loop, &prepare));
    prepare.data = &p;
    uv_prepare_start(&prepare, on_prepare);
    uv_unref((uv_handle_t *)&prepare);
    ASSERT_RC(0, uv_thread_create(&thread, producer_main, &p));
    ASSERT(run_default(&f));
    uv_thread_join(&thread);
    ASSERT_RC(0, p.rc);
    ASSERT_U64(1, log_count(&f, EV_WORK, 'a'));
    ASSERT(log_nth(&f, EV_WORK, 'a', 0)->time_ns >= p.due_ns);
    ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
    uv_close((uv_handle_t *)&prepare, NULL);
    uv_sem_destroy(&p.go);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L13 */
TEST a_nearer_task_re_arms_the_timer(void) {
  struct fixture f;
  int64_t start_ns;

  open_real(&f);
  CHECK_CALL(fixture_open(&f));
  uvs_task_t far = fixture_once(&f, 'f', UVS_HOUR(1)), near = fixture_loop_task(&f, 'n', UVS_MS(5));
  uvs_task_t nearer = fixture_once(&f, 'm', UVS_MS(2));
  far.flags = UVS_UNREF; /* it does not keep uv_run from returning, but it is the first head */
  ASSERT_RC(0, uvs_submit(f.s, &far, NULL));
  uv_run(&f.loop, UV_RUN_NOWAIT);
  start_ns = (int64_t)uv_hrtime();
  ASSERT_RC(0, uvs_submit(f.s, &near, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &nearer, NULL));
  ASSERT(run_default(&f));
  ASSERT_U64(1, log_count(&f, EV_WORK, 'm'));
  ASSERT_U64(1, log_count(&f, EV_AFTER, 'n'));
  ASSERT(log_nth(&f, EV_WORK, 'm', 0)->time_ns >= start_ns + UVS_MS(2));
  ASSERT(log_nth(&f, EV_AFTER, 'n', 0)->time_ns >= start_ns + UVS_MS(5));
  ASSERT_U64(2, log_count(&f, EV_DONE, 0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S2 */
TEST a_timer_beyond_a_second_is_set_in_two_stages_and_is_not_early(void) {
  struct fixture f;
  int64_t start_ns;

  open_real(&f);
  CHECK_CALL(fixture_open(&f));
  uvs_task_t t = fixture_loop_task(&f, 'a', UVS_MS(1100));
  start_ns = (int64_t)uv_hrtime();
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  uv_run(&f.loop, UV_RUN_NOWAIT);
  /* The first stage ends 1/512 and 1 ms before the time, since the kernel may be 0.1 % late. */
  ASSERT(fakepool_seen().last.timeout_ms <= 1098);
  ASSERT(run_default(&f));
  ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
  ASSERT(log_nth(&f, EV_AFTER, 'a', 0)->time_ns >= start_ns + UVS_MS(1100));
  ASSERT(fakepool_seen().timer_fires >= 1);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

struct waiter {
  uvs_t *s;
  int64_t took_ns;
  int rc;
};

static void waiter_main(void *arg) {
  struct waiter *w = arg;
  int64_t start_ns = (int64_t)uv_hrtime();

  w->rc = uvs_wait_terminated(w->s, UVS_MS(5));
  w->took_ns = (int64_t)uv_hrtime() - start_ns;
}

/* P4 */
TEST wait_terminated_on_an_open_scheduler_times_out_and_not_early(void) {
  struct fixture f;
  struct waiter w;
  uv_thread_t thread;

  open_real(&f);
  CHECK_CALL(fixture_open(&f));
  fixture_turn(&f);
  w.s = f.s;
  ASSERT_RC(0, uv_thread_create(&thread, waiter_main, &w));
  uv_thread_join(&thread);
  ASSERT_RC(UV_ETIMEDOUT, w.rc);
  ASSERT(w.took_ns >= UVS_MS(5));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(real_clock) {
  RUN_TEST(every_pool_and_loop_task_runs_and_none_runs_early);
  RUN_TEST(every_wall_clock_task_runs_and_none_runs_early);
  RUN_TEST(fixed_rate_and_fixed_delay_are_never_early);
  RUN_TEST(a_submission_from_another_thread_wakes_a_sleeping_loop);
  RUN_TEST(a_nearer_task_re_arms_the_timer);
  RUN_TEST(a_timer_beyond_a_second_is_set_in_two_stages_and_is_not_early);
  RUN_TEST(wait_terminated_on_an_open_scheduler_times_out_and_not_early);
}

TEST_MAIN(RUN_SUITE(real_clock));
