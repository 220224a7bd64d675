/* SPDX-License-Identifier: MIT
 *
 * The scheduler as a guest on a loop: which callback runs on which thread, several schedulers on
 * one loop, and how a scheduler leaves the loop.
 */
#include <dirent.h>

#include "lib/bodies.h"
#include "lib/fixture.h"
#include "lib/threads.h"

/* ------------------------------------------------------------------- L2 L3 --- */

static unsigned threads(void) {
  DIR *d = opendir("/proc/self/task");
  unsigned n = 0;

  if (d == NULL)
    return 0;
  while (readdir(d) != NULL)
    n++;
  closedir(d);
  return n;
}

static unsigned handles_at_close;

static void count_handles(uv_handle_t *h, void *arg) {
  (void)h;
  ++*(unsigned *)arg;
}

static void close_walks(uvs_t *s) {
  handles_at_close = 0;
  uv_walk(uvs_loop(s), count_handles, &handles_at_close);
}

/* L2 */
TEST in_the_close_callback_the_scheduler_has_no_handle_left_on_the_loop(void) {
  uvs_options_t o;
  uvs_task_t t;
  struct fault fault;
  uv_loop_t loop;
  uvs_t *s;
  _Atomic int done = 0;
  unsigned before;

  ASSERT_RC(0, uv_loop_init(&loop));
  before = threads();
  fault_init(&fault);
  uvs_options_init(&o);
  o.concurrency = 0; /* the pool's threads are libuv's */
  o.allocator = fault_option(&fault);
  ASSERT_RC(0, uvs_open(&loop, &o, &s));
  uvs_task_init(&t);
  t.work = work_nothing;
  t.done = done_counts;
  t.arg = &done;
  ASSERT_RC(0, uvs_submit(s, &t, NULL));
  t.first_ns = UVS_HOUR(1);
  ASSERT_RC(0, uvs_submit(s, &t, NULL));
  t.from = UVS_FROM_WALL; /* this one has a handle of its own, where the system has such a thing */
  t.first_ns = UVS_NEVER - 1;
  ASSERT_RC(0, uvs_submit(s, &t, NULL));
  uv_run(&loop, UV_RUN_NOWAIT);
  uv_run(&loop, UV_RUN_NOWAIT);
  ASSERT_RC(UV_EBUSY, uv_loop_close(&loop));
  handles_at_close = 99;
  ASSERT_RC(0, uvs_close(s, close_walks));
  ASSERT_RC(0, uv_run(&loop, UV_RUN_DEFAULT));
  ASSERT_U64(0, handles_at_close);
  ASSERT_RC(0, uv_loop_close(&loop));
  ASSERT_RC(3, atomic_load(&done));
  ASSERT_I64(0, atomic_load(&fault.live));
  ASSERT(threads() <= before);
  PASS();
}

/* L2 */
TEST a_scheduler_on_a_loop_that_never_ran_can_be_closed(void) {
  uv_loop_t loop;
  uvs_t *s;

  ASSERT_RC(0, uv_loop_init(&loop));
  ASSERT_RC(0, uvs_open(&loop, NULL, &s));
  ASSERT_RC(0, uvs_close(s, NULL));
  ASSERT_RC(UV_EALREADY, uvs_close(s, NULL));
  ASSERT_RC(0, uv_run(&loop, UV_RUN_DEFAULT));
  ASSERT_RC(0, uv_loop_close(&loop));
  PASS();
}

static int each_logs(uvs_t *s, const uvs_info_t *info, void *arg) {
  (void)s;
  log_add(arg, EV_USER, 'e', info->id, 0);
  return 0;
}

/* L3 */
TEST each_callback_runs_on_its_documented_thread(void) {
  struct fixture f;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  CHECK_CALL(fixture_open(&f));
  uvs_task_t a = fixture_once(&f, 'a', 0);
  a.after = probe_after;
  a.done = NULL;
  probe_of(&a)->after_ret = UV_EIO; /* for the error hook */
  uvs_task_t b = fixture_loop_task(&f, 'b', 0);
  uvs_task_t c = fixture_once(&f, 'c', UVS_HOUR(1));
  ASSERT_RC(0, submit_elsewhere(f.s, a, NULL));
  ASSERT_RC(0, submit_elsewhere(f.s, b, NULL));
  ASSERT_RC(0, submit_elsewhere(f.s, c, NULL));
  ASSERT(fixture_wait_log(&f, EV_ERROR, 0, 1));
  ASSERT(fixture_wait_log(&f, EV_DONE, 0, 1));
  ASSERT_RC(0, uvs_each(f.s, each_logs, &f));
  ASSERT_RC(0, uvs_shutdown_now(f.s, probe_never_ran, NULL));
  ASSERT(fixture_wait_log(&f, EV_TERMINATED, 0, 1));
  ASSERT_RC(0, uvs_close(f.s, note_closed));
  f.s = NULL;
  ASSERT(fixture_wait_log(&f, EV_USER, 'c', 1));
  ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
  ASSERT_U64(1, log_count(&f, EV_AFTER, 'a'));
  ASSERT_U64(1, log_count(&f, EV_AFTER, 'b'));
  ASSERT_STR_EQ("a", log_string(&f, EV_ERROR));
  ASSERT_U64(2, log_count(&f, EV_DONE, 0));
  ASSERT_STR_EQ("c", log_string(&f, EV_NEVER_RAN));
  ASSERT_STR_EQ("ec", log_string(&f, EV_USER));
  for (unsigned i = 0; i < log_total(&f); i++) {
    bool on_pool = f.log[i].what == EV_WORK;

    ASSERT_EQ(!on_pool, f.log[i].on_loop);
    ASSERT_EQ(on_pool, f.log[i].in_work);
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

#define CALLERS 4
#define CALLS 250

struct crowd {
  struct fixture *f;
  uint64_t random[CALLERS];
  _Atomic int next, left;
  _Atomic int accepted, done, wrong_thread, wrong_answer, finished;
};

static int crowd_work(uvs_run_t *run) {
  struct crowd *c = run->arg;

  if (!fakepool_in_work() || run->runner < 0)
    atomic_fetch_add(&c->wrong_thread, 1);
  return 0;
}

static void crowd_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct crowd *c = arg;
  uv_thread_t self = uv_thread_self();

  (void)s;
  (void)id;
  (void)status;
  if (!uv_thread_equal(&self, &c->f->loop_thread))
    atomic_fetch_add(&c->wrong_thread, 1);
  atomic_fetch_add(&c->done, 1);
}

static void must(struct crowd *c, bool ok) {
  if (!ok)
    atomic_fetch_add(&c->wrong_answer, 1);
}

static void crowd_main(void *arg) {
  struct crowd *c = arg;
  uvs_t *s = c->f->s;
  uint64_t *random = &c->random[atomic_fetch_add(&c->next, 1)];
  uvs_id_t ids[3] = {0, 0, 0};
  uvs_task_t t[3];

  for (int i = 0; i < CALLS; i++) {
    uvs_info_t info;
    uvs_counts_t counts;
    int rc;

    for (int k = 0; k < 3; k++) {
      uvs_task_init(&t[k]);
      t[k].kind = k;
      t[k].period_ns = k == 0 ? 0 : UVS_US(300);
      t[k].max_runs = k == 0 ? 0 : 2;
      t[k].first_ns = (int64_t)test_random_below(random, (uint64_t)UVS_MS(1));
      t[k].work = crowd_work;
      t[k].done = crowd_done;
      t[k].arg = c;
    }
    must(c, uvs_submit_many(s, t, 2, ids) == 0);
    must(c, uvs_submit(s, &t[2], &ids[2]) == 0);
    atomic_fetch_add(&c->accepted, 3);
    must(c, uvs_execute(s, crowd_work, c) == 0);
    rc = uvs_reschedule(s, ids[i % 3], (int64_t)test_random_below(random, (uint64_t)UVS_MS(1)));
    must(c, rc == 0 || rc == UV_EBUSY || rc == UV_ENOENT);
    rc = uvs_cancel(s, ids[(i + 1) % 3], i % 2 != 0 ? UVS_CANCEL_TOKEN : 0);
    must(c, rc == UVS_CANCELLED || rc == UVS_CANCELLED_WHILE_RUNNING || rc == UV_ENOENT);
    uvs_info_init(&info);
    rc = uvs_info(s, ids[(i + 2) % 3], &info);
    must(c, rc == UV_ENOENT || (rc == 0 && info.id == ids[(i + 2) % 3] && info.arg == c));
    uvs_counts_init(&counts);
    must(c, uvs_counts(s, &counts) == 0);
    must(c, adds_up(&counts));
    must(c, uvs_finish(s, 0, 0) == UV_ENOENT);
    must(c, uvs_set_concurrency(s, 1 + i % 3) == 0 && uvs_concurrency(s) >= 1);
    must(c, uvs_set_after_shutdown(s, UVS_PERIODIC_TASKS, 1) == 0);
    must(c, uvs_after_shutdown(s, UVS_PERIODIC_TASKS) == 1);
    must(c, uvs_set_rejection_policy(s, UVS_REJECT_DISCARD) == 0);
    must(c, uvs_rejection_policy(s) == UVS_REJECT_DISCARD && uvs_rejection_handler(s) == NULL);
    must(c, uvs_is_shutdown(s) == 0 && uvs_is_terminating(s) == 0 && uvs_is_terminated(s) == 0);
    must(c, uvs_wait_terminated(s, 0) == UV_ETIMEDOUT);
    must(c, uvs_now(s) > 0 && uvs_loop(s) == &c->f->loop && uvs_data(s) == c->f);
    must(c, uvs_clock_changed(s) == 0);
    uvs_release(uvs_retain(s));
  }
  if (atomic_fetch_sub(&c->left, 1) == 1) {
    atomic_store(&c->finished, 1);
    uvs_clock_changed(s);
  }
}

/* L3 */
TEST calls_for_any_thread_are_safe_on_many_threads_at_once(void) {
  static struct crowd c;
  uv_thread_t thread[CALLERS];
  struct fixture f;
  uvs_counts_t counts;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.real_clock = true;
  CHECK_CALL(fixture_open(&f));
  memset(&c, 0, sizeof c);
  c.f = &f;
  c.left = CALLERS;
  for (unsigned i = 0; i < CALLERS; i++) {
    c.random[i] = test_seed + i;
    ASSERT_RC(0, uv_thread_create(&thread[i], crowd_main, &c));
  }
  ASSERT(fixture_wait_flag(&f, &c.finished));
  for (int i = 0; i < CALLERS; i++)
    uv_thread_join(&thread[i]);
  ASSERT_RC(0, uvs_shutdown(f.s));
  ASSERT(fixture_wait_log(&f, EV_TERMINATED, 0, 1));
  ASSERT_RC(0, atomic_load(&c.wrong_answer));
  ASSERT_RC(0, atomic_load(&c.wrong_thread));
  ASSERT_RC(CALLERS * CALLS * 3, atomic_load(&c.accepted));
  ASSERT_RC(CALLERS * CALLS * 3, atomic_load(&c.done));
  uvs_counts_init(&counts);
  ASSERT_RC(0, uvs_counts(f.s, &counts));
  ASSERT_U64(CALLERS * CALLS * 4, counts.submitted);
  ASSERT_U64(counts.submitted, counts.completed + counts.cancelled);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ---------------------------------------------------------------------- L4 --- */

static int act_await(struct probe *p, uvs_run_t *run) {
  uvs_t *s = p->data != NULL ? p->data : run->scheduler;

  log_add(p->f, EV_USER, p->tag, 0, uvs_wait_terminated(s, UVS_MS(1)));
  log_add(p->f, EV_USER, p->tag, 0, uvs_wait_terminated(s, 1));
  return 0;
}

/* L4 */
TEST a_wait_on_the_loop_thread_or_in_a_body_returns_edeadlk(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  ASSERT_RC(UVS_EDEADLK,
            uvs_wait_terminated(f.s, UVS_MS(1))); /* before the first pass: the opener's thread */
  fixture_turn(&f);
  ASSERT_RC(UVS_EDEADLK, uvs_wait_terminated(f.s, UVS_MS(1)));
  ASSERT_RC(UV_ETIMEDOUT, uvs_wait_terminated(f.s, 0)); /* it only looks */
  uvs_task_t a = fixture_once(&f, 'a', 0), b = fixture_loop_task(&f, 'b', 0);
  probe_of(&a)->act = act_await;
  probe_of(&b)->act = act_await;
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  fixture_turn(&f);
  ASSERT_U64(4, log_count(&f, EV_USER, 0));
  for (unsigned i = 0; i < 4; i++)
    ASSERT_RC(UVS_EDEADLK, log_nth(&f, EV_USER, 0, i)->status);
  ASSERT(strstr(uvs_strerror(UVS_EDEADLK), "never end") != NULL);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* --------------------------------------------------------- several schedulers --- */

static void look_both(struct fixture *f, uvs_t *other, int64_t ms) {
  vclock_advance_ns(&f->clock, UVS_MS(ms));
  uvs_clock_changed(f->s);
  if (other != NULL)
    uvs_clock_changed(other);
  fixture_turn(f);
}

/* L4 L5 */
TEST schedulers_on_one_loop_do_not_disturb_each_other(void) {
  struct fixture f;
  struct found mine, theirs;
  uvs_t *s2;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  ASSERT_RC(0, uvs_open(&f.loop, &f.options, &s2));
  fixture_turn(&f);
  mine = find_handles(&f.loop, f.s);
  theirs = find_handles(&f.loop, s2);
  ASSERT_U64(1, mine.timers);
  ASSERT_U64(1, mine.asyncs);
  ASSERT_U64(2, mine.others);
  ASSERT_U64(1, theirs.timers);
  ASSERT_U64(1, theirs.asyncs);
  ASSERT_U64(2, theirs.others);
  ASSERT(mine.timer != theirs.timer);
  ASSERT(mine.async != theirs.async);

  uvs_task_t a = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
  uvs_task_t b = fixture_rate(&f, 'b', UVS_MS(10), UVS_MS(10));
  uvs_task_t w = fixture_once(&f, 'w', UVS_MS(10));
  probe_of(&w)->act = act_await; /* the body of one may wait for the other */
  probe_of(&w)->data = f.s;
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  ASSERT_RC(0, uvs_submit(s2, &b, NULL));
  ASSERT_RC(0, uvs_submit(s2, &w, NULL));
  look_both(&f, s2, 10);
  ASSERT_U64(1, log_count(&f, EV_WORK, 'a'));
  ASSERT_U64(1, log_count(&f, EV_WORK, 'b'));
  ASSERT_RC(UV_ETIMEDOUT, log_nth(&f, EV_USER, 'w', 0)->status);
  ASSERT_RC(0, uvs_close(s2, note_closed));
  fixture_turn_until_closed(&f);
  ASSERT(f.closed);
  f.closed = false;
  ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'b', 0)->status);
  ASSERT_U64(0, find_handles(&f.loop, f.s).others);
  look_both(&f, NULL, 10);
  ASSERT_U64(2, log_count(&f, EV_WORK, 'a'));
  ASSERT_U64(0, log_count(&f, EV_DONE, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ---------------------------------------------------------------------- L5 --- */

#define ENV_TASKS 60

struct env {
  uv_thread_t thread;
  bool torn_down; /* mid-flight, as when a worker is terminated */
  struct fault fault;
  _Atomic int work, done;
  int accepted, closed, loop_rc, rc;
};

static void env_closed(uvs_t *s) {
  ((struct env *)uvs_data(s))->closed++;
}

static int env_work(uvs_run_t *run) {
  struct env *e = uvs_data(run->scheduler);

  atomic_fetch_add(&e->work, 1);
  return e->torn_down ? work_endless(run) : 0;
}

static void close_any(uv_handle_t *h, void *arg) {
  (void)arg;
  if (!uv_is_closing(h))
    uv_close(h, NULL);
}

static void env_main(void *arg) {
  struct env *e = arg;
  uint64_t end_ns = uv_hrtime() + (uint64_t)UVS_SEC(100);
  uv_loop_t loop;
  uv_timer_t own;
  uvs_options_t o;
  uvs_t *s;

  fault_init(&e->fault);
  uvs_options_init(&o);
  o.concurrency = 1;
  o.allocator = fault_option(&e->fault);
  o.data = e;
  e->rc = uv_loop_init(&loop);
  if (e->rc == 0)
    e->rc = uvs_open(&loop, &o, &s);
  if (e->rc < 0)
    return;
  uv_timer_init(&loop, &own);
  for (int i = 0; i < ENV_TASKS; i++) {
    uvs_task_t t;

    uvs_task_init(&t);
    t.first_ns = i % 3 == 2 ? UVS_MS(i % 7) : 0;
    t.work = i % 4 == 3 ? NULL : env_work;
    t.after = work_nothing;
    t.done = done_counts;
    t.arg = &e->done;
    e->accepted += uvs_submit(s, &t, NULL) == 0;
    if (e->torn_down) {
      t.first_ns = UVS_HOUR(1);
      e->accepted += uvs_submit(s, &t, NULL) == 0;
    }
  }
  if (e->torn_down) {
    while (atomic_load(&e->work) == 0 && uv_hrtime() < end_ns)
      uv_run(&loop, UV_RUN_NOWAIT);
    uv_walk(&loop, close_any, NULL);
  } else {
    while (atomic_load(&e->done) < e->accepted && uv_hrtime() < end_ns)
      uv_run(&loop, UV_RUN_NOWAIT);
    uv_close((uv_handle_t *)&own, NULL);
  }
  e->rc = uvs_close(s, env_closed);
  while (uv_run(&loop, UV_RUN_NOWAIT) != 0 && uv_hrtime() < end_ns)
    ;
  e->loop_rc = uv_loop_close(&loop);
}

/* L5 */
TEST two_loops_have_a_scheduler_each_and_one_may_close_while_tasks_run(void) {
  for (int torn = 0; torn < 4; torn++) {
    static struct env e[2];

    memset(e, 0, sizeof e);
    for (int i = 0; i < 2; i++) {
      e[i].torn_down = (torn >> i & 1) != 0;
      e[i].loop_rc = 1;
      ASSERT_RC(0, uv_thread_create(&e[i].thread, env_main, &e[i]));
    }
    for (int i = 0; i < 2; i++)
      uv_thread_join(&e[i].thread);
    for (int i = 0; i < 2; i++) {
      ASSERT_RC(0, e[i].rc);
      ASSERT_RC(1, e[i].closed);
      ASSERT_RC(0, e[i].loop_rc);
      ASSERT_RC(ENV_TASKS * (e[i].torn_down ? 2 : 1), e[i].accepted);
      ASSERT_RC(e[i].accepted, atomic_load(&e[i].done));
      ASSERT_I64(0, atomic_load(&e[i].fault.live));
    }
  }
  PASS();
}

SUITE(guest) {
  RUN_TEST(in_the_close_callback_the_scheduler_has_no_handle_left_on_the_loop);
  RUN_TEST(a_scheduler_on_a_loop_that_never_ran_can_be_closed);
  RUN_TEST(each_callback_runs_on_its_documented_thread);
  RUN_TEST(calls_for_any_thread_are_safe_on_many_threads_at_once);
  RUN_TEST(a_wait_on_the_loop_thread_or_in_a_body_returns_edeadlk);
  RUN_TEST(schedulers_on_one_loop_do_not_disturb_each_other);
  RUN_TEST(two_loops_have_a_scheduler_each_and_one_may_close_while_tasks_run);
}

TEST_MAIN(RUN_SUITE(guest));
