/* SPDX-License-Identifier: MIT
 *
 * The scheduler as a guest on somebody's loop: what keeps it alive, which handles there are, who is
 * called where, how it leaves, and what it does when others close its handles. The program is
 * linked with uv_cond_wait in between, to know when a thread really waits.
 */
#include <dirent.h>
#include <stdlib.h>

#include "lib/fixture.h"

#define GUARD_MS 20000 /* real time; reached only if something is broken */

/* ----------------------------------------------------------------- helpers --- */

static _Atomic int sleepers; /* threads that have gone to sleep on a condition */

void __real_uv_cond_wait(uv_cond_t *, uv_mutex_t *);
void __wrap_uv_cond_wait(uv_cond_t *, uv_mutex_t *);

void __wrap_uv_cond_wait(uv_cond_t *c, uv_mutex_t *m) {
  atomic_fetch_add(&sleepers, 1); /* with the lock: whoever has it next finds us asleep */
  __real_uv_cond_wait(c, m);
}

static bool elsewhere(void (*fn)(void *), void *arg) {
  uv_thread_t thread;

  return uv_thread_create(&thread, fn, arg) == 0 && uv_thread_join(&thread) == 0;
}

struct call {
  uvs_t *s;
  uvs_task_t t;
  uvs_id_t id;
  unsigned flags;
  int rc;
};

static void submit_main(void *arg) {
  struct call *c = arg;

  c->rc = uvs_submit(c->s, &c->t, &c->id);
}

static void cancel_main(void *arg) {
  struct call *c = arg;

  c->rc = uvs_cancel(c->s, c->id, c->flags);
}

static int submit_elsewhere(uvs_t *s, uvs_task_t t, uvs_id_t *ret_id) {
  struct call c = {s, t, 0, 0, UV_EAGAIN};

  if (!elsewhere(submit_main, &c))
    return UV_EAGAIN;
  if (ret_id != NULL)
    *ret_id = c.id;
  return c.rc;
}

static int cancel_elsewhere(uvs_t *s, uvs_id_t id) {
  struct call c;

  memset(&c, 0, sizeof c);
  c.s = s;
  c.id = id;
  c.rc = UV_EAGAIN;
  return elsewhere(cancel_main, &c) ? c.rc : UV_EAGAIN;
}

static void stop_loop(uv_timer_t *h) {
  *(bool *)h->data = true;
  uv_stop(h->loop);
}

/* uv_run in this mode, but not for ever: false if it had to be stopped. */
static bool run_bounded(uv_loop_t *loop, uv_run_mode mode) {
  uv_timer_t guard;
  bool expired = false;

  uv_timer_init(loop, &guard);
  guard.data = &expired;
  uv_unref((uv_handle_t *)&guard);
  uv_timer_start(&guard, stop_loop, GUARD_MS, 0);
  uv_run(loop, mode);
  uv_close((uv_handle_t *)&guard, NULL);
  uv_run(loop, UV_RUN_NOWAIT);
  return !expired;
}

static bool alive(struct fixture *f) {
  return uv_loop_alive(&f->loop) != 0;
}

static uint64_t live_tasks(uvs_t *s) {
  uvs_counts_t c;

  uvs_counts_init(&c);
  uvs_counts(s, &c);
  return c.waiting + c.ready + c.running;
}

/* A body that goes on until it is asked to stop; and not for ever, should nobody ask. */
static int endless(uvs_run_t *run) {
  uint64_t end_ns = uv_hrtime() + (uint64_t)UVS_SEC(25);

  while (!uvs_cancelled(run) && uv_hrtime() < end_ns)
    uv_sleep(1);
  return 0;
}

static int act_endless(struct probe *p, uvs_run_t *run) {
  (void)p;
  return endless(run);
}

static void note_closed(uvs_t *s) {
  struct fixture *f = uvs_data(s);

  f->closed = true;
  log_add(f, EV_USER, 'c', 0, 0);
}

static void turn_until_closed(struct fixture *f) {
  for (int i = 0; i < 100 && !f->closed; i++)
    fixture_turn(f);
}

struct found {
  const uvs_t *s;
  unsigned timers, asyncs, others, pool;
  uv_handle_t *timer, *async, *other;
};

static void on_found(uv_handle_t *h, void *arg) {
  struct found *w = arg;

  if (fakepool_owns_handle(h)) {
    w->pool++;
  } else if (!uvs_owns_handle(w->s, h)) {
    w->others++;
    w->other = h;
  } else if (h->type == UV_TIMER) {
    w->timers++;
    w->timer = h;
  } else if (h->type == UV_ASYNC) {
    w->asyncs++;
    w->async = h;
  } else {
    w->others++;
    w->other = h;
  }
}

static struct found walk(uv_loop_t *loop, const uvs_t *s) {
  struct found w;

  memset(&w, 0, sizeof w);
  w.s = s;
  uv_walk(loop, on_found, &w);
  return w;
}

static int each_nothing(uvs_t *s, const uvs_info_t *info, void *arg) {
  (void)s;
  (void)info;
  (void)arg;
  return 0;
}

/* -------------------------------------------------------------- keep alive --- */

static void done_looks_alive(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct probe *p = arg;

  (void)status;
  log_add(p->f, EV_DONE, p->tag, id, uv_loop_alive(uvs_loop(s)));
}

/* L1 */
TEST armed_work_keeps_the_loop_alive_until_its_done_has_returned(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  fixture_turn(&f);
  ASSERT_FALSE(alive(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(100));
  t.done = done_looks_alive;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT(alive(&f));
  ASSERT(uv_run(&f.loop, UV_RUN_NOWAIT) != 0);
  fixture_advance_ms(&f, 99);
  ASSERT(alive(&f));
  fixture_advance_ms(&f, 1);
  ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
  ASSERT_RC(1, log_nth(&f, EV_DONE, 'a', 0)->status);
  ASSERT_FALSE(alive(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L1 */
TEST unref_d_work_does_not_keep_the_loop_alive_and_runs_all_the_same(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(100), UVS_MS(100));
  t.flags = UVS_UNREF;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_turn(&f);
  ASSERT_RC(0, uvs_has_ref(f.s, id));
  ASSERT_FALSE(alive(&f));
  ASSERT_RC(0, uv_run(&f.loop, UV_RUN_DEFAULT)); /* returns at once */
  fixture_advance_ms(&f, 250);
  ASSERT_STR_EQ("100 200", log_runs(&f, EV_WORK, 'a'));
  ASSERT_FALSE(alive(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L1 */
TEST ref_and_unref_change_the_state_while_armed(void) {
  struct fixture f;
  uvs_id_t a, b;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  uvs_task_t ta = fixture_once(&f, 'a', UVS_MS(100));
  uvs_task_t tb = fixture_once(&f, 'b', UVS_MS(200));
  ASSERT_RC(0, uvs_submit(f.s, &ta, &a));
  ASSERT_RC(0, uvs_submit(f.s, &tb, &b));
  fixture_turn(&f);
  ASSERT_RC(1, uvs_has_ref(f.s, a));
  ASSERT_RC(0, uvs_unref(f.s, a));
  ASSERT_RC(0, uvs_unref(f.s, a)); /* twice is once */
  ASSERT_RC(0, uvs_has_ref(f.s, a));
  ASSERT(alive(&f)); /* there is still b */
  ASSERT_RC(0, uvs_unref(f.s, b));
  ASSERT_FALSE(alive(&f));
  ASSERT_RC(0, uvs_ref(f.s, b));
  ASSERT_RC(0, uvs_ref(f.s, b));
  ASSERT(alive(&f));
  fixture_advance_ms(&f, 100);
  ASSERT_STR_EQ("a", log_string(&f, EV_DONE));
  ASSERT_RC(UV_ENOENT, uvs_has_ref(f.s, a));
  ASSERT_RC(UV_ENOENT, uvs_ref(f.s, a));
  ASSERT_RC(UV_ENOENT, uvs_unref(f.s, a));
  ASSERT(alive(&f));
  fixture_advance_ms(&f, 100);
  ASSERT_FALSE(alive(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int act_unref_self(struct probe *p, uvs_run_t *run) {
  log_add(p->f, EV_USER, p->tag, run->id, uvs_unref(run->scheduler, run->id));
  return 0;
}

/* L1 */
TEST a_loop_body_may_unref_its_own_task(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  uvs_task_t t = fixture_loop_task(&f, 'a', 0);
  t.kind = UVS_DELAY;
  t.period_ns = UVS_MS(10);
  probe_of(&t)->act = act_unref_self;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ms(&f, 10);
  ASSERT_U64(2, log_count(&f, EV_AFTER, 'a'));
  ASSERT_RC(0, log_nth(&f, EV_USER, 'a', 0)->status);
  ASSERT_FALSE(alive(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L1 */
TEST auto_holds_the_loop_for_a_foreign_submission_once_it_has_taken_it_in(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  fixture_turn(&f);
  ASSERT_RC(0, submit_elsewhere(f.s, fixture_once(&f, 'a', UVS_MS(100)), &id));
  fixture_turn(&f);
  ASSERT(alive(&f));
  ASSERT_RC(0, cancel_elsewhere(f.s, id));
  fixture_turn(&f);
  ASSERT_FALSE(alive(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L1 */
TEST what_is_submitted_before_the_first_turn_is_taken_in_by_uv_run(void) {
  struct fixture f;

  fixture_init(&f);
  f.real_clock = true;
  f.pool = FAKEPOOL_REAL;
  CHECK_CALL(fixture_open(&f));
  ASSERT_RC(0, submit_elsewhere(f.s, fixture_once(&f, 'a', UVS_MS(2)), NULL));
  uvs_task_t b = fixture_once(&f, 'b', UVS_MS(1));
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  ASSERT(run_bounded(&f.loop, UV_RUN_DEFAULT));
  ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
  ASSERT_U64(1, log_count(&f, EV_DONE, 'b'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L1 */
TEST a_call_of_the_loops_before_its_first_turn_lets_nothing_be_forgotten(void) {
  for (int i = 0; i < 4; i++) {
    struct fixture f;
    int64_t due_ns;
    uvs_id_t id;

    fixture_init(&f);
    f.real_clock = true;
    f.pool = FAKEPOOL_REAL;
    CHECK_CALL(fixture_open(&f));
    uvs_task_t a = fixture_once(&f, 'a', UVS_HOUR(1)), b = fixture_once(&f, 'b', UVS_MS(1));
    ASSERT_RC(0, uvs_submit(f.s, &a, &id));
    ASSERT_RC(0, uvs_unref(f.s, id));
    if (i == 1)
      ASSERT_RC(0, uvs_next_due(f.s, &due_ns));
    if (i == 2)
      ASSERT_RC(0, uvs_each(f.s, each_nothing, NULL));
    if (i == 3)
      ASSERT_RC(UVS_NEVER_RUNS, uvs_cancel(f.s, id, 0));
    ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
    ASSERT(run_bounded(&f.loop, UV_RUN_DEFAULT));
    ASSERT_U64(1, log_count(&f, EV_DONE, 'b'));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L1 */
TEST always_holds_the_loop_until_terminated(void) {
  struct fixture f;

  fixture_init(&f);
  f.options.keep_alive = UVS_KEEP_ALWAYS;
  CHECK_CALL(fixture_open(&f));
  fixture_turn(&f);
  ASSERT(alive(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(10));
  t.flags = UVS_UNREF;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT_RC(0, uvs_shutdown(f.s));
  fixture_turn(&f);
  ASSERT(alive(&f)); /* shut down, not yet terminated */
  fixture_advance_ms(&f, 10);
  ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
  ASSERT_FALSE(alive(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L1 */
TEST never_holds_the_loop_only_while_libuv_has_a_request_of_ours(void) {
  struct fixture f;

  fixture_init(&f);
  f.options.keep_alive = UVS_KEEP_NEVER;
  CHECK_CALL(fixture_open(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  ASSERT_FALSE(alive(&f));
  fakepool_hold();
  fixture_advance_ms(&f, 10);
  ASSERT(alive(&f)); /* it is in the pool */
  fakepool_release();
  fixture_turn(&f);
  ASSERT_STR_EQ("a", log_string(&f, EV_DONE));
  ASSERT_FALSE(alive(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L1 */
TEST closing_holds_the_loop_whatever_the_keep_alive(void) {
  for (int keep = UVS_KEEP_AUTO; keep <= UVS_KEEP_NEVER; keep++) {
    struct fixture f;

    fixture_init(&f);
    f.options.keep_alive = keep;
    CHECK_CALL(fixture_open(&f));
    uvs_task_t t = fixture_once(&f, 'a', UVS_MS(10));
    t.flags = UVS_UNREF;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_turn(&f);
    ASSERT_RC(0, uvs_close(f.s, note_closed));
    f.s = NULL;
    ASSERT(run_bounded(&f.loop, UV_RUN_DEFAULT));
    ASSERT(f.closed);
    ASSERT_STR_EQ("a", log_string(&f, EV_DONE));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

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

static int nothing(uvs_run_t *run) {
  (void)run;
  return 0;
}

static void done_counts(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)s;
  (void)id;
  (void)status;
  atomic_fetch_add((_Atomic int *)arg, 1);
}

/* L2 */
TEST in_the_close_callback_the_loop_has_no_handle_of_ours_and_then_closes(void) {
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
  t.work = nothing;
  t.done = done_counts;
  t.arg = &done;
  ASSERT_RC(0, uvs_submit(s, &t, NULL));
  t.delay_ns = UVS_HOUR(1);
  ASSERT_RC(0, uvs_submit(s, &t, NULL));
  t.from = UVS_FROM_WALL; /* this one has a handle of its own, where the system has such a thing */
  t.delay_ns = UVS_NEVER - 1;
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
TEST a_scheduler_that_never_turned_closes_as_well(void) {
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
TEST each_callback_runs_on_the_thread_that_the_table_names(void) {
  struct fixture f;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  CHECK_CALL(fixture_open(&f));
  uvs_task_t a = fixture_once(&f, 'a', 0);
  a.after = probe_after;
  probe_of(&a)->ret = UV_EIO; /* for the error hook */
  uvs_task_t b = fixture_loop_task(&f, 'b', 0);
  uvs_task_t c = fixture_once(&f, 'c', UVS_HOUR(1));
  ASSERT_RC(0, submit_elsewhere(f.s, a, NULL));
  ASSERT_RC(0, submit_elsewhere(f.s, b, NULL));
  ASSERT_RC(0, submit_elsewhere(f.s, c, NULL));
  ASSERT(fixture_wait_log(&f, EV_DONE, 0, 2));
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
  ASSERT_U64(3, log_count(&f, EV_DONE, 0));
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
      t[k].delay_ns = (int64_t)test_random_below(random, (uint64_t)UVS_MS(1));
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
    must(c, rc == UVS_NEVER_RUNS || rc == UVS_RUN_FINISHES || rc == UV_ENOENT);
    uvs_info_init(&info);
    rc = uvs_info(s, ids[(i + 2) % 3], &info);
    must(c, rc == UV_ENOENT || (rc == 0 && info.id == ids[(i + 2) % 3] && info.arg == c));
    uvs_counts_init(&counts);
    must(c, uvs_counts(s, &counts) == 0);
    must(c, counts.submitted == counts.completed + counts.failed + counts.cancelled +
                                    counts.waiting + counts.ready + counts.running);
    must(c, uvs_finish(s, 0, 0) == UV_ENOENT);
    must(c, uvs_set_concurrency(s, 1 + i % 3) == 0 && uvs_concurrency(s) >= 1);
    must(c, uvs_set_survive(s, UVS_SURVIVE_PERIODIC, 1) == 0);
    must(c, uvs_survive(s, UVS_SURVIVE_PERIODIC) == 1);
    must(c, uvs_is_shutdown(s) == 0 && uvs_is_terminating(s) == 0 && uvs_is_terminated(s) == 0);
    must(c, uvs_await(s, 0) == UV_ETIMEDOUT);
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
TEST every_call_for_any_thread_is_safe_from_all_of_them_at_once(void) {
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

  log_add(p->f, EV_USER, p->tag, 0, uvs_await(s, UVS_MS(1)));
  log_add(p->f, EV_USER, p->tag, 0, uvs_await(s, 0));
  return 0;
}

/* L4 */
TEST a_wait_on_the_loop_thread_or_in_a_body_says_deadlock(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  ASSERT_RC(UVS_EDEADLK, uvs_await(f.s, UVS_MS(1))); /* before the first turn: the opener's */
  fixture_turn(&f);
  ASSERT_RC(UVS_EDEADLK, uvs_await(f.s, UVS_MS(1)));
  ASSERT_RC(UVS_EDEADLK, uvs_await(f.s, 0));
  uvs_task_t a = fixture_once(&f, 'a', 0), b = fixture_loop_task(&f, 'b', 0);
  probe_of(&a)->act = act_await;
  probe_of(&b)->act = act_await;
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  fixture_turn(&f);
  ASSERT_U64(4, log_count(&f, EV_USER, 0));
  for (unsigned i = 0; i < 4; i++)
    ASSERT_RC(UVS_EDEADLK, log_nth(&f, EV_USER, 0, i)->status);
  ASSERT_STR_EQ("resource deadlock would occur", uvs_strerror(UVS_EDEADLK));
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
  mine = walk(&f.loop, f.s);
  theirs = walk(&f.loop, s2);
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
  turn_until_closed(&f);
  ASSERT(f.closed);
  f.closed = false;
  ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'b', 0)->status);
  ASSERT_U64(0, walk(&f.loop, f.s).others);
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
  return e->torn_down ? endless(run) : 0;
}

static void close_any(uv_handle_t *h, void *arg) {
  (void)arg;
  if (!uv_is_closing(h))
    uv_close(h, NULL);
}

static void env_main(void *arg) {
  struct env *e = arg;
  uint64_t end_ns = uv_hrtime() + (uint64_t)UVS_SEC(20);
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
    t.delay_ns = i % 3 == 2 ? UVS_MS(i % 7) : 0;
    t.work = i % 4 == 3 ? NULL : env_work;
    t.after = nothing;
    t.done = done_counts;
    t.arg = &e->done;
    e->accepted += uvs_submit(s, &t, NULL) == 0;
    if (e->torn_down) {
      t.delay_ns = UVS_HOUR(1);
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
TEST two_loops_in_two_threads_each_have_a_scheduler_and_one_may_go_in_mid_flight(void) {
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

/* ---------------------------------------------------------------------- L7 --- */

/* Somebody else on the loop: asks for a turn again and again, and measures how long it takes. */
struct neighbour {
  struct fixture *f;
  uv_async_t async;
  uv_check_t check;
  int64_t last_ns, worst_ns;
  unsigned turns;
};

static void on_neighbour(struct neighbour *n) {
  int64_t now_ns = vclock_now(&n->f->clock);

  if (now_ns - n->last_ns > n->worst_ns)
    n->worst_ns = now_ns - n->last_ns;
  if (now_ns != n->last_ns)
    n->turns++;
  n->last_ns = now_ns;
}

static void on_neighbour_async(uv_async_t *h) {
  on_neighbour(h->data);
}

static void on_neighbour_check(uv_check_t *h) {
  struct neighbour *n = h->data;

  uv_async_send(&n->async);
}

static void neighbour_open(struct neighbour *n, struct fixture *f) {
  memset(n, 0, sizeof *n);
  n->f = f;
  uv_async_init(&f->loop, &n->async, on_neighbour_async);
  uv_check_init(&f->loop, &n->check);
  n->async.data = n;
  n->check.data = n;
  uv_check_start(&n->check, on_neighbour_check);
  uv_unref((uv_handle_t *)&n->async);
  uv_unref((uv_handle_t *)&n->check);
  uv_async_send(&n->async);
  n->last_ns = vclock_now(&f->clock);
}

static void neighbour_close(struct neighbour *n) {
  uv_close((uv_handle_t *)&n->async, NULL);
  uv_close((uv_handle_t *)&n->check, NULL);
  uv_run(&n->f->loop, UV_RUN_NOWAIT);
}

static int costly(uvs_run_t *run) {
  struct probe *p = run->arg;

  vclock_advance_ns(&p->f->clock, UVS_US(100));
  return 0;
}

static void costly_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct probe *p = arg;

  (void)s;
  (void)id;
  vclock_advance_ns(&p->f->clock, UVS_US(100));
  if (status == 0)
    p->id++; /* counts */
}

/* L7 */
TEST a_burst_of_loop_bodies_keeps_io_waiting_no_longer_than_the_budget(void) {
  struct fixture f;
  struct neighbour n;
  uvs_task_t t;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  fixture_turn(&f);
  uvs_task_init(&t);
  t.delay_ns = UVS_MS(10);
  t.after = costly;
  t.done = costly_done;
  t.arg = fixture_probe(&f, 'a');
  for (int i = 0; i < 300; i++)
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  vclock_advance_ns(&f.clock, UVS_MS(10));
  neighbour_open(&n, &f);
  uvs_clock_changed(f.s);
  fixture_turn(&f);
  neighbour_close(&n);
  ASSERT_U64(300, probe_of(&t)->id);
  /* 60 ms of bodies and dones. Each phase makes at least one call, however long the one before. */
  ASSERT_I64(UVS_MS(10) + UVS_MS(60), vclock_now(&f.clock) - VCLOCK_START_NS);
  ASSERT(n.worst_ns <= UVS_MS(1) + 2 * UVS_US(100));
  ASSERT(n.turns >= 50);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* Each look at the clock costs: so the handing over itself takes time. */
static int64_t costly_now(void *arg) {
  struct vclock *c = arg;

  vclock_advance_ns(c, UVS_US(10));
  return vclock_now(c);
}

static void submit_many_main(void *arg) {
  struct call *c = arg;

  c->rc = 0;
  for (int i = 0; i < 10000 && c->rc == 0; i++)
    c->rc = uvs_submit(c->s, &c->t, NULL);
}

/* L7 */
TEST a_burst_of_expiries_for_the_pool_keeps_io_waiting_no_longer_than_the_budget(void) {
  struct fixture f;
  struct neighbour n;
  struct call c;

  fixture_init(&f);
  f.options.clock.monotonic_ns = costly_now;
  f.options.budget_ns = UVS_US(200);
  CHECK_CALL(fixture_open(&f));
  fixture_turn(&f);
  memset(&c, 0, sizeof c);
  c.s = f.s;
  uvs_task_init(&c.t);
  c.t.from = UVS_FROM_MONOTONIC;
  c.t.delay_ns = VCLOCK_START_NS + UVS_SEC(10);
  c.t.work = nothing;
  ASSERT(elsewhere(submit_many_main, &c)); /* nobody woke the loop for these */
  ASSERT_RC(0, c.rc);
  fakepool_hold();
  neighbour_open(&n, &f);
  uvs_clock_changed(f.s);
  fixture_turn(&f); /* takes them in */
  ASSERT(n.worst_ns <= UVS_US(200) + UVS_US(10) * 12);
  ASSERT(n.turns >= 7); /* 157 batches */
  vclock_advance_to(&f.clock, VCLOCK_START_NS + UVS_SEC(10));
  n.last_ns = vclock_now(&f.clock);
  n.worst_ns = 0;
  n.turns = 0;
  uvs_clock_changed(f.s);
  fixture_turn(&f); /* hands them over */
  ASSERT(n.worst_ns <= UVS_US(200) + UVS_US(10) * 12);
  ASSERT(n.turns >= 7);
  neighbour_close(&n);
  fakepool_release();
  f.options.budget_ns = UVS_SEC(1);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ---------------------------------------------------------------------- L9 --- */

static int act_again(struct probe *p, uvs_run_t *run) {
  uvs_task_t t;

  uvs_task_init(&t);
  t.after = probe_loop_body;
  t.arg = p;
  if (log_count(p->f, EV_AFTER, p->tag) < 5)
    uvs_submit(run->scheduler, &t, NULL);
  return 0;
}

/* L9 */
TEST in_one_pass_nothing_fires_twice(void) {
  static const uv_run_mode modes[] = {UV_RUN_NOWAIT, UV_RUN_ONCE};

  for (int i = 0; i < 2; i++) {
    struct fixture f;

    fixture_init(&f);
    CHECK_CALL(fixture_open(&f));
    uvs_task_t a = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10)); /* catches up */
    a.work = NULL;
    a.after = probe_loop_body;
    uvs_task_t b = fixture_loop_task(&f, 'b', UVS_MS(10));
    probe_of(&b)->act = act_again; /* as soon as possible */
    uvs_task_t c = fixture_loop_task(&f, 'c', UVS_MS(10));
    ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &c, NULL));
    fixture_turn(&f);
    vclock_advance_ns(&f.clock, UVS_MS(50));
    uvs_clock_changed(f.s);
    for (unsigned pass = 1; pass <= 5; pass++) {
      ASSERT(uv_run(&f.loop, modes[i]) != 0);
      ASSERT_U64(pass, log_count(&f, EV_AFTER, 'a'));
      ASSERT_U64(pass, log_count(&f, EV_AFTER, 'b'));
      ASSERT_U64(1, log_count(&f, EV_AFTER, 'c'));
    }
    ASSERT_STR_EQ("50(10) 50(20) 50(30) 50(40) 50", log_runs(&f, EV_AFTER, 'a'));
    uv_run(&f.loop, UV_RUN_NOWAIT);
    ASSERT_U64(5, log_count(&f, EV_AFTER, 'a'));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L9 */
TEST in_one_pass_nothing_fires_twice_also_when_the_timer_was_late(void) {
  static const uv_run_mode modes[] = {UV_RUN_NOWAIT, UV_RUN_ONCE};

  for (int i = 0; i < 2; i++) {
    struct fixture f;
    uint64_t late_ns;

    fixture_init(&f);
    f.real_clock = true;
    f.pool = FAKEPOOL_REAL;
    CHECK_CALL(fixture_open(&f));
    fixture_turn(&f);
    uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(1), UVS_US(1)); /* a thousand points to catch up */
    t.work = NULL;
    t.after = probe_loop_body;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    for (late_ns = uv_hrtime() + (uint64_t)UVS_MS(3); uv_hrtime() < late_ns;)
      ; /* a callback of the program's that takes long */
    for (unsigned pass = 0; pass < 5; pass++) {
      unsigned before = log_count(&f, EV_AFTER, 'a');

      uv_run(&f.loop, modes[i]);
      ASSERT(log_count(&f, EV_AFTER, 'a') <= before + 1);
    }
    ASSERT(log_count(&f, EV_AFTER, 'a') >= 3);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L9 */
TEST every_mode_of_uv_run_makes_progress(void) {
  static const uv_run_mode modes[] = {UV_RUN_NOWAIT, UV_RUN_ONCE, UV_RUN_DEFAULT};

  for (int i = 0; i < 3; i++) {
    struct fixture f;
    int64_t start_ns;

    fixture_init(&f);
    f.real_clock = true;
    f.pool = FAKEPOOL_REAL;
    CHECK_CALL(fixture_open(&f));
    start_ns = (int64_t)uv_hrtime();
    uvs_task_t a = fixture_loop_task(&f, 'a', UVS_MS(3));
    uvs_task_t b = fixture_once(&f, 'b', UVS_MS(3));
    uvs_task_t r = fixture_rate(&f, 'r', UVS_MS(1), UVS_MS(1));
    r.max_runs = 4;
    ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &r, NULL));
    while (log_count(&f, EV_DONE, 0) < 3 && (int64_t)uv_hrtime() < start_ns + UVS_SEC(20)) {
      unsigned dones = log_count(&f, EV_DONE, 0);

      if (modes[i] == UV_RUN_NOWAIT)
        uv_run(&f.loop, UV_RUN_NOWAIT);
      else
        ASSERT(run_bounded(&f.loop, modes[i]));
      if (modes[i] == UV_RUN_DEFAULT)
        break; /* all, or it failed */
      ASSERT(log_count(&f, EV_DONE, 'a') <= 1 && log_count(&f, EV_DONE, 0) >= dones);
    }
    ASSERT_U64(1, log_count(&f, EV_AFTER, 'a'));
    ASSERT_U64(1, log_count(&f, EV_WORK, 'b'));
    ASSERT_U64(4, log_count(&f, EV_WORK, 'r'));
    ASSERT_U64(3, log_count(&f, EV_DONE, 0));
    ASSERT(log_nth(&f, EV_AFTER, 'a', 0)->time_ns >= start_ns + UVS_MS(3));
    ASSERT(log_nth(&f, EV_WORK, 'b', 0)->time_ns >= start_ns + UVS_MS(3));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* --------------------------------------------------------------------- L11 --- */

struct canceller {
  uvs_t *s;
  uvs_id_t id;
  uv_sem_t go;
  int rc;
};

static void canceller_main(void *arg) {
  struct canceller *c = arg;

  uv_sem_wait(&c->go);
  c->rc = uvs_cancel(c->s, c->id, 0);
}

static void on_prepare_go(uv_prepare_t *h) {
  struct canceller *c = h->data;

  uv_prepare_stop(h);
  uv_sem_post(&c->go);
}

static void on_prepare_cancel(uv_prepare_t *h) {
  struct canceller *c = h->data;

  uv_prepare_stop(h);
  c->rc = uvs_cancel(c->s, c->id, 0);
}

/* L11 */
TEST when_the_last_ref_d_task_is_cancelled_the_timer_stops_and_uv_run_returns(void) {
  for (int how = 0; how < 4; how++) { /* with and without done, on the loop and off it */
    bool off_loop = how % 2 != 0, with_done = how / 2 != 0;
    struct fixture f;
    struct canceller c;
    uv_prepare_t prepare;
    uv_thread_t thread;

    fixture_init(&f);
    f.real_clock = true;
    f.pool = FAKEPOOL_REAL;
    CHECK_CALL(fixture_open(&f));
    uvs_task_t t = fixture_once(&f, 'a', UVS_HOUR(1));
    if (!with_done)
      t.done = NULL;
    ASSERT_RC(0, uvs_submit(f.s, &t, &c.id));
    fixture_turn(&f);
    ASSERT(uv_is_active(walk(&f.loop, f.s).timer));
    c.s = f.s;
    c.rc = UV_EAGAIN;
    ASSERT_RC(0, uv_sem_init(&c.go, 0));
    ASSERT_RC(0, uv_prepare_init(&f.loop, &prepare));
    prepare.data = &c;
    uv_prepare_start(&prepare, off_loop ? on_prepare_go : on_prepare_cancel);
    if (off_loop)
      ASSERT_RC(0, uv_thread_create(&thread, canceller_main, &c));
    uv_unref((uv_handle_t *)&prepare);
    ASSERT(run_bounded(&f.loop, UV_RUN_DEFAULT));
    if (off_loop)
      uv_thread_join(&thread);
    ASSERT_RC(UVS_NEVER_RUNS, c.rc);
    ASSERT_FALSE(uv_is_active(walk(&f.loop, f.s).timer));
    ASSERT_U64(with_done ? 1 : 0, log_count(&f, EV_DONE, 'a'));
    ASSERT_U64(0, fakepool_seen().timer_fires);
    uv_close((uv_handle_t *)&prepare, NULL);
    uv_sem_destroy(&c.go);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L11 */
TEST a_cancelled_head_causes_at_most_one_empty_wake_up(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    struct fixture f;
    uvs_id_t id[5];

    fixture_init(&f);
    f.real_clock = true;
    f.pool = FAKEPOOL_INLINE;
    CHECK_CALL(fixture_open(&f));
    for (int i = 0; i < 5; i++)
      ASSERT_RC(0, uvs_schedule(f.s, UVS_MS(10 + i), nothing, NULL, &id[i]));
    uvs_task_t b = fixture_loop_task(&f, 'b', UVS_MS(40));
    ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
    fixture_turn(&f);
    fakepool_forget();
    for (int i = 0; i < 5; i++) /* each was the head when it went */
      ASSERT_RC(UVS_NEVER_RUNS,
                off_loop ? cancel_elsewhere(f.s, id[i]) : uvs_cancel(f.s, id[i], 0));
    ASSERT_U64(0, fakepool_seen().timer_starts);
    ASSERT(fixture_wait_log(&f, EV_DONE, 'b', 1));
    ASSERT(fakepool_seen().timer_fires >= 1);
    ASSERT(fakepool_seen().timer_fires <= 2);
    ASSERT_FALSE(uv_is_active(walk(&f.loop, f.s).timer));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static void count_turn(uv_prepare_t *h) {
  ++*(unsigned *)h->data;
}

/* L11 S58 */
TEST an_idle_scheduler_never_wakes_the_loop(void) {
  for (int tasks = 0; tasks < 2; tasks++) {
    struct fixture f;
    struct fakepool_seen seen;
    uv_prepare_t prepare;
    uv_timer_t own;
    unsigned turns = 0;
    bool stopped = false;

    fixture_init(&f);
    f.real_clock = true;
    CHECK_CALL(fixture_open(&f));
    if (tasks > 0) {
      uvs_task_t t = fixture_once(&f, 'a', UVS_HOUR(1));
      uvs_task_t n = fixture_rate(&f, 'n', UVS_NEVER, 1);
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
      ASSERT_RC(0, uvs_submit(f.s, &n, NULL));
      ASSERT_RC(0, submit_elsewhere(f.s, fixture_once(&f, 'b', UVS_HOUR(2)), NULL));
    }
    ASSERT_RC(0, uvs_execute(f.s, nothing, NULL));
    fixture_turn(&f);
    fixture_turn(&f);
    ASSERT_U64(tasks * 3, live_tasks(f.s));
    uv_prepare_init(&f.loop, &prepare);
    prepare.data = &turns;
    uv_prepare_start(&prepare, count_turn);
    uv_timer_init(&f.loop, &own);
    own.data = &stopped;
    uv_timer_start(&own, stop_loop, 30, 0);
    fakepool_forget();
    uv_run(&f.loop, UV_RUN_DEFAULT); /* 30 ms of real idleness */
    seen = fakepool_seen();
    ASSERT(stopped);
    ASSERT_U64(0, seen.timer_fires);
    ASSERT_U64(0, seen.timer_starts);
    ASSERT_U64(0, seen.async_sends);
    ASSERT_U64(0, seen.queue_works);
    ASSERT(turns <= 5);
    uv_close((uv_handle_t *)&own, NULL);
    uv_close((uv_handle_t *)&prepare, NULL);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* --------------------------------------------------------------------- L12 --- */

#define WAITERS 3

struct waiter {
  uvs_t *s;
  uv_thread_t thread;
  int rc;
};

static void waiter_main(void *arg) {
  struct waiter *w = arg;

  w->rc = uvs_await(w->s, UVS_NEVER);
}

/* L12: by uvs_await; uvs_wait for a single task comes later */
TEST close_releases_those_who_wait_before_the_memory_goes(void) {
  struct fixture f;
  struct waiter w[WAITERS];
  uint64_t end_ns = uv_hrtime() + (uint64_t)UVS_SEC(20);

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  CHECK_CALL(fixture_open(&f));
  uvs_task_t t = fixture_once(&f, 'a', 0), u = fixture_once(&f, 'b', UVS_HOUR(1));
  probe_of(&t)->act = act_endless;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &u, NULL));
  ASSERT(fixture_wait_log(&f, EV_WORK, 'a', 1));
  atomic_store(&sleepers, 0);
  for (int i = 0; i < WAITERS; i++) {
    w[i].s = f.s; /* no reference: they sit in the wait before close comes */
    w[i].rc = UV_EAGAIN;
    ASSERT_RC(0, uv_thread_create(&w[i].thread, waiter_main, &w[i]));
  }
  while (atomic_load(&sleepers) < WAITERS && uv_hrtime() < end_ns)
    uv_sleep(1);
  ASSERT_RC(WAITERS, atomic_load(&sleepers));
  ASSERT_RC(0, uvs_close(f.s, note_closed));
  f.s = NULL;
  ASSERT(fixture_wait_log(&f, EV_USER, 'c', 1));
  for (int i = 0; i < WAITERS; i++) {
    uv_thread_join(&w[i].thread);
    ASSERT_RC(0, w[i].rc);
  }
  ASSERT_U64(2, log_count(&f, EV_DONE, 0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* --------------------------------------------------------------------- L13 --- */

static uint64_t ms_up(int64_t ns) {
  return ns <= UVS_MS(1) ? 1 : (uint64_t)((ns + UVS_MS(1) - 1) / UVS_MS(1));
}

/* Does the timer's last start, which was not before since_ns, lead to the head's deadline? */
static bool armed_for_head(struct fixture *f, int64_t since_ns) {
  struct fakepool_timer_start last = fakepool_seen().last;
  int64_t due_ns;

  return uvs_next_due(f->s, &due_ns) == 0 &&
         last.handle == (const uv_timer_t *)walk(&f->loop, f->s).timer &&
         last.timeout_ms >= ms_up(due_ns - (int64_t)last.at_ns) &&
         last.timeout_ms <= ms_up(due_ns - since_ns);
}

/* L13 */
TEST the_one_timer_is_always_started_for_the_heads_deadline(void) {
  uint64_t random = test_seed;
  int64_t nearest_ns = UVS_NEVER;
  struct fixture f;

  fixture_init(&f);
  f.real_clock = true;
  f.pool = FAKEPOOL_REAL;
  CHECK_CALL(fixture_open(&f));
  ASSERT_U64(1, fakepool_seen().timer_inits);
  ASSERT_U64(1, fakepool_seen().async_inits);
  fixture_turn(&f);
  for (int i = 0; i < 200; i++) { /* none comes due: the loop does not turn */
    int64_t since_ns = (int64_t)uv_hrtime();
    int64_t at_ns = since_ns + (int64_t)test_random_below(&random, (uint64_t)UVS_MS(700));
    uint64_t starts = fakepool_seen().timer_starts;
    uvs_task_t t = fixture_once(&f, 'a', at_ns + UVS_MS(200));

    t.from = UVS_FROM_MONOTONIC;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    if (t.delay_ns < nearest_ns) {
      nearest_ns = t.delay_ns;
      ASSERT_U64(starts + 1, fakepool_seen().timer_starts);
      ASSERT(armed_for_head(&f, since_ns));
    } else {
      ASSERT_U64(starts, fakepool_seen().timer_starts);
    }
  }
  for (int i = 0; i < 2; i++) { /* a nearer one, on the loop or off it, and when it has run */
    int64_t since_ns = (int64_t)uv_hrtime();
    uvs_task_t t = fixture_loop_task(&f, 'b', UVS_MS(5));
    ASSERT_RC(0, i == 0 ? uvs_submit(f.s, &t, NULL) : submit_elsewhere(f.s, t, NULL));
    if (i != 0)
      uv_run(&f.loop, UV_RUN_NOWAIT);
    ASSERT(log_count(&f, EV_DONE, 'b') == (unsigned)i + 1 || armed_for_head(&f, since_ns));
    ASSERT(fixture_wait_log(&f, EV_DONE, 'b', (unsigned)i + 1));
    ASSERT(armed_for_head(&f, since_ns));
  }
  ASSERT_U64(1, fakepool_seen().timer_inits);
  ASSERT_U64(1, fakepool_seen().async_inits);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L13 */
TEST there_is_no_handle_beyond_one_timer_and_one_async(void) {
  struct fixture f;
  struct found w;

  fixture_init(&f);
  f.real_clock = true;
  f.pool = FAKEPOOL_REAL;
  CHECK_CALL(fixture_open(&f));
  for (int i = 0; i < 60; i++) {
    uvs_task_t a = fixture_rate(&f, 'a', UVS_US(100 * i), UVS_US(500));
    uvs_task_t b = fixture_loop_task(&f, 'b', UVS_US(100 * i));
    a.after = probe_after;
    a.max_runs = 5;
    a.jitter_ns = UVS_US(100);
    ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  }
  for (unsigned n = 20; n <= 120; n += 20) {
    ASSERT(fixture_wait_log(&f, EV_DONE, 0, n));
    w = walk(&f.loop, f.s);
    ASSERT_U64(1, w.timers);
    ASSERT_U64(1, w.asyncs);
    ASSERT_U64(0, w.others);
    ASSERT_U64(1, w.pool);
    ASSERT_RC(1, uvs_owns_handle(f.s, w.timer));
    ASSERT_RC(1, uvs_owns_handle(f.s, w.async));
  }
  ASSERT_RC(0, uvs_owns_handle(f.s, NULL));
  ASSERT_U64(1, fakepool_seen().timer_inits);
  ASSERT_U64(1, fakepool_seen().async_inits);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L13 */
TEST with_default_options_every_body_runs_inside_a_uv_queue_work_callback(void) {
  static const enum fakepool_mode pools[] = {FAKEPOOL_REAL, FAKEPOOL_SEEDED};

  for (int i = 0; i < 2; i++) {
    struct fixture f;
    unsigned runs;

    fixture_init(&f);
    f.pool = pools[i];
    CHECK_CALL(fixture_open(&f));
    for (int k = 0; k < 100; k++) {
      uvs_task_t t = fixture_delay(&f, 'a', 0, 1);
      t.max_runs = 4;
      ASSERT_RC(0, k % 2 == 0 ? uvs_submit(f.s, &t, NULL) : submit_elsewhere(f.s, t, NULL));
    }
    for (int k = 0; k < 1000 && log_count(&f, EV_DONE, 0) < 100; k++) {
      fixture_advance_ns(&f, UVS_US(10));
      if (f.pool == FAKEPOOL_REAL)
        fixture_wait_log(&f, EV_WORK, 0, (unsigned)(k < 4 ? 100 * (k + 1) : 400));
    }
    ASSERT_U64(100, log_count(&f, EV_DONE, 0));
    runs = log_count(&f, EV_WORK, 0);
    ASSERT_U64(400, runs);
    for (unsigned k = 0; k < runs; k++) {
      ASSERT(log_nth(&f, EV_WORK, 0, k)->in_work);
      ASSERT(log_nth(&f, EV_WORK, 0, k)->runner >= 0);
      ASSERT(log_nth(&f, EV_WORK, 0, k)->runner < uvs_concurrency(f.s));
    }
    ASSERT(fakepool_seen().queue_works >= 1);
    ASSERT(fakepool_seen().peak_outstanding <= (unsigned)uvs_concurrency(f.s));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L13 S67 */
TEST never_more_than_concurrency_items_are_outstanding(void) {
  static const int sizes[] = {1, 5, 2, 16, 1};
  struct fixture f;

  fixture_init(&f);
  f.pool = FAKEPOOL_SEEDED;
  f.options.concurrency = 3;
  f.options.budget_ns = UVS_US(1);
  CHECK_CALL(fixture_open(&f));
  for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    ASSERT_RC(0, uvs_set_concurrency(f.s, sizes[i]));
    fakepool_forget();
    for (int k = 0; k < 200; k++)
      ASSERT_RC(0, uvs_execute(f.s, nothing, NULL));
    fixture_turn(&f);
    ASSERT_U64(0, live_tasks(f.s));
    ASSERT_U64((unsigned)sizes[i], fakepool_seen().peak_outstanding);
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ----------------------------------------------------------------- L15 L16 --- */

/* L15 */
TEST a_finished_run_is_never_stuck_behind_a_long_one_on_the_same_runner(void) {
  struct fixture f;
  uvs_id_t endless_id;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open(&f));
  uvs_task_t a = fixture_rate(&f, 'a', UVS_MS(1), UVS_MS(1));
  uvs_task_t b = fixture_once(&f, 'b', UVS_MS(1));
  uvs_task_t c = fixture_once(&f, 'c', 0); /* holds the runner until a and b are ready */
  probe_of(&b)->act = act_endless;
  probe_of(&c)->act = act_endless;
  ASSERT_RC(0, uvs_submit(f.s, &c, &probe_of(&c)->id));
  ASSERT(fixture_wait_log(&f, EV_WORK, 'c', 1));
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &b, &endless_id));
  fixture_jump_ms(&f, 1);
  ASSERT_RC(UVS_RUN_FINISHES, uvs_cancel(f.s, probe_of(&c)->id, UVS_CANCEL_TOKEN));
  ASSERT(fixture_wait_log(&f, EV_WORK, 'b', 1));
  ASSERT_U64(1, log_count(&f, EV_WORK, 'a'));
  ASSERT_RC(log_nth(&f, EV_WORK, 'a', 0)->runner, log_nth(&f, EV_WORK, 'b', 0)->runner);
  ASSERT_RC(0, uvs_set_concurrency(f.s, 2));
  for (unsigned i = 2; i < 20; i++) {
    fixture_jump_ms(&f, 1);
    ASSERT(fixture_wait_log(&f, EV_WORK, 'a', i));
  }
  ASSERT_U64(0, log_count(&f, EV_DONE, 'b'));
  ASSERT_RC(UVS_RUN_FINISHES, uvs_cancel(f.s, endless_id, UVS_CANCEL_TOKEN));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L15 */
TEST a_done_is_never_stuck_behind_a_long_body_on_the_same_runner(void) {
  struct fixture f;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.real_clock = true;
  f.options.concurrency = 1;
  f.options.budget_ns = UVS_SEC(1); /* so the same runner takes both */
  CHECK_CALL(fixture_open(&f));
  uvs_task_t a = fixture_once(&f, 'a', 0), b = fixture_once(&f, 'b', 0);
  a.after = probe_after;
  probe_of(&b)->act = act_endless;
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 1));
  ASSERT(fixture_wait_log(&f, EV_WORK, 'b', 1));
  ASSERT_U64(1, log_count(&f, EV_AFTER, 'a'));
  ASSERT_U64(0, log_count(&f, EV_DONE, 'b'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L16 */
TEST a_cancel_off_the_loop_brings_the_done_promptly(void) {
  struct fixture f;
  uvs_id_t a, b, c;

  fixture_init(&f); /* no time passes */
  CHECK_CALL(fixture_open(&f));
  uvs_task_t ta = fixture_once(&f, 'a', UVS_HOUR(1));
  uvs_task_t tb = fixture_rate(&f, 'b', UVS_NEVER, UVS_MS(1));
  uvs_task_t tc = fixture_loop_task(&f, 'c', UVS_HOUR(2));
  ASSERT_RC(0, uvs_submit(f.s, &ta, &a));
  ASSERT_RC(0, uvs_submit(f.s, &tb, &b));
  ASSERT_RC(0, uvs_submit(f.s, &tc, &c));
  fixture_turn(&f);
  ASSERT_RC(UVS_NEVER_RUNS, cancel_elsewhere(f.s, b));
  fixture_turn(&f);
  ASSERT_STR_EQ("b", log_string(&f, EV_DONE));
  ASSERT_RC(UVS_NEVER_RUNS, cancel_elsewhere(f.s, a));
  fixture_turn(&f);
  ASSERT_STR_EQ("ba", log_string(&f, EV_DONE));
  ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 0)->status);
  ASSERT_U64(0, log_count(&f, EV_WORK, 0));
  /* Also one that the loop has not yet seen, and for which nobody woke it. */
  ASSERT_RC(0, submit_elsewhere(f.s, fixture_once(&f, 'd', UVS_NEVER), &a));
  ASSERT_RC(UVS_NEVER_RUNS, cancel_elsewhere(f.s, a));
  fixture_turn(&f);
  ASSERT_STR_EQ("bad", log_string(&f, EV_DONE));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L16 */
TEST a_cancel_off_the_loop_wakes_a_loop_that_sleeps(void) {
  struct fixture f;
  struct canceller c;
  uv_prepare_t prepare;
  uv_thread_t thread;

  fixture_init(&f);
  f.real_clock = true;
  f.pool = FAKEPOOL_REAL;
  f.options.keep_alive = UVS_KEEP_ALWAYS;
  CHECK_CALL(fixture_open(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_HOUR(1)), u = fixture_once(&f, 'b', UVS_MIN(1));
  ASSERT_RC(0, uvs_submit(f.s, &t, &c.id));
  ASSERT_RC(0, uvs_submit(f.s, &u, NULL));
  fixture_turn(&f);
  c.s = f.s;
  c.rc = UV_EAGAIN;
  ASSERT_RC(0, uv_sem_init(&c.go, 0));
  ASSERT_RC(0, uv_thread_create(&thread, canceller_main, &c));
  ASSERT_RC(0, uv_prepare_init(&f.loop, &prepare));
  prepare.data = &c;
  uv_prepare_start(&prepare, on_prepare_go);
  for (int i = 0; i < 3 && log_count(&f, EV_DONE, 'a') == 0; i++)
    ASSERT(run_bounded(&f.loop, UV_RUN_ONCE));
  uv_thread_join(&thread);
  ASSERT_RC(UVS_NEVER_RUNS, c.rc);
  ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
  uv_close((uv_handle_t *)&prepare, NULL);
  uv_sem_destroy(&c.go);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* --------------------------------------------------------------------- L17 --- */

struct producer {
  uvs_t *s; /* a reference */
  uv_thread_t thread;
  uvs_task_t t;
  _Atomic int started, last_lap, accepted, wrong;
};

static void producer_main(void *arg) {
  struct producer *p = arg;
  bool refused = false;
  uvs_id_t id;

  for (;;) {
    bool last = atomic_load(&p->last_lap) != 0;
    int rc = uvs_submit(p->s, &p->t, &id);
    int cancel_rc = uvs_cancel(p->s, 1, 0);

    if (rc == 0)
      atomic_fetch_add(&p->accepted, 1);
    if ((rc == 0 && refused) || (rc != 0 && rc != UV_ESHUTDOWN))
      atomic_fetch_add(&p->wrong, 1);
    if (cancel_rc != UV_ESHUTDOWN && cancel_rc != UV_ENOENT)
      atomic_fetch_add(&p->wrong, 1);
    if (last && (rc != UV_ESHUTDOWN || cancel_rc != UV_ESHUTDOWN))
      atomic_fetch_add(&p->wrong, 1);
    refused |= rc == UV_ESHUTDOWN;
    atomic_store(&p->started, 1);
    if (last)
      return;
    if (refused)
      uv_sleep(0);
  }
}

/* L17 */
TEST a_producer_with_a_reference_may_call_during_and_after_close(void) {
  static struct producer p;
  struct fixture f;
  _Atomic int done = 0;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  CHECK_CALL(fixture_open(&f));
  fixture_turn(&f);
  memset(&p, 0, sizeof p);
  p.s = uvs_retain(f.s);
  ASSERT_EQ(f.s, p.s);
  uvs_task_init(&p.t);
  p.t.delay_ns = UVS_NEVER;
  p.t.work = nothing;
  p.t.done = done_counts;
  p.t.arg = &done;
  ASSERT_RC(0, uv_thread_create(&p.thread, producer_main, &p));
  ASSERT(fixture_wait_flag(&f, &p.started));
  ASSERT_RC(0, uvs_close(f.s, note_closed));
  f.s = NULL;
  ASSERT(fixture_wait_log(&f, EV_USER, 'c', 1));
  ASSERT(fakepool_close());
  ASSERT_RC(0, uv_loop_close(&f.loop));
  memset(&f.loop, 0xa5, sizeof f.loop); /* the producer still calls */
  atomic_store(&p.last_lap, 1);
  uv_thread_join(&p.thread);
  ASSERT_RC(0, atomic_load(&p.wrong));
  ASSERT_RC(atomic_load(&p.accepted), atomic_load(&done));
  ASSERT(atomic_load(&f.fault.live) > 0);
  uvs_release(p.s);
  ASSERT_I64(0, atomic_load(&f.fault.live));
  uvs_release(NULL);
  ASSERT_EQ(NULL, uvs_retain(NULL));
  uv_mutex_destroy(&f.lock);
  free(f.log);
  PASS();
}

/* ------------------------------------------------------------ foreign close --- */

enum { CLOSE_TIMER = 1, CLOSE_ASYNC = 2, CLOSE_OTHER = 4, CLOSE_ALL = 7 };
enum phase { OUTSIDE, BEFORE_POLL, AFTER_POLL };

struct wreck {
  struct fixture *f;
  int what;         /* which of our handles somebody else closes */
  enum phase phase; /* where in the turn */
  bool earlier;     /* uvs_close comes only when they are gone */
  bool close_first; /* uvs_close comes before */
  int submit_rc, close_rc;
  uvs_id_t id;
  bool happened;
};

static void wreck_one(uv_handle_t *h, void *arg) {
  struct wreck *w = arg;
  int kind = h->type == UV_TIMER ? CLOSE_TIMER : h->type == UV_ASYNC ? CLOSE_ASYNC : CLOSE_OTHER;

  if (uvs_owns_handle(w->f->s, h) && (w->what & kind) != 0 && !uv_is_closing(h))
    uv_close(h, NULL);
}

static void wreck_and_close(struct wreck *w) {
  uvs_task_t t;

  if (w->close_first)
    w->close_rc = uvs_close(w->f->s, note_closed);
  uv_walk(&w->f->loop, wreck_one, w);
  uvs_task_init(&t);
  t.work = nothing;
  w->submit_rc = uvs_submit(w->f->s, &t, &w->id);
  if (!w->earlier && !w->close_first)
    w->close_rc = uvs_close(w->f->s, note_closed);
  w->happened = true;
}

static void on_wreck_timer(uv_timer_t *h) {
  wreck_and_close(h->data);
}

static void on_wreck_check(uv_check_t *h) {
  uv_check_stop(h);
  wreck_and_close(h->data);
}

static void make_the_wreck(struct wreck *w) {
  uv_timer_t timer;
  uv_check_t check;

  uv_timer_init(&w->f->loop, &timer);
  uv_check_init(&w->f->loop, &check);
  timer.data = w;
  check.data = w;
  if (w->phase == BEFORE_POLL)
    uv_timer_start(&timer, on_wreck_timer, 0, 0);
  else if (w->phase == AFTER_POLL)
    uv_check_start(&check, on_wreck_check);
  else
    wreck_and_close(w);
  for (int i = 0; i < 1000 && !w->happened; i++)
    uv_run(&w->f->loop, UV_RUN_NOWAIT);
  uv_close((uv_handle_t *)&timer, NULL);
  uv_close((uv_handle_t *)&check, NULL);
  uv_run(&w->f->loop, UV_RUN_NOWAIT);
  if (w->earlier) {
    uv_run(&w->f->loop, UV_RUN_NOWAIT);
    w->close_rc = uvs_close(w->f->s, note_closed);
  }
}

static enum greatest_test_res survive_wreck(struct wreck w, bool real) {
  struct fixture f;

  fixture_init(&f);
  if (real) {
    f.real_clock = true;
    f.pool = FAKEPOOL_REAL;
  }
  CHECK_CALL(fixture_open(&f));
  w.f = &f;
  w.id = 77;
  w.submit_rc = w.close_rc = 1;
  uvs_task_t a = fixture_once(&f, 'a', UVS_HOUR(1)), n = fixture_once(&f, 'n', UVS_NEVER);
  uvs_task_t r = fixture_rate(&f, 'r', UVS_HOUR(1), 1), l = fixture_loop_task(&f, 'l', UVS_HOUR(1));
  uvs_task_t q = fixture_once(&f, 'q', 0); /* in the pool at that moment */
  q.after = probe_after;
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &n, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &r, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &l, NULL));
  if ((w.what & CLOSE_OTHER) != 0) { /* brings one more handle, on the real clock */
    uvs_task_t wall = fixture_once(&f, 'w', UVS_NEVER - 1);
    wall.from = UVS_FROM_WALL;
    ASSERT_RC(0, uvs_submit(f.s, &wall, NULL));
  }
  fixture_turn(&f);
  if (real) {
    probe_of(&q)->act = act_endless;
    ASSERT_RC(0, uvs_submit(f.s, &q, NULL));
    ASSERT(fixture_wait_log(&f, EV_WORK, 'q', 1));
  } else {
    fakepool_hold();
    ASSERT_RC(0, uvs_submit(f.s, &q, NULL));
    fixture_turn(&f);
  }
  ASSERT_RC(0, submit_elsewhere(f.s, fixture_once(&f, 'i', UVS_HOUR(2)), NULL)); /* in the inbox */
  make_the_wreck(&w);
  f.s = NULL;
  ASSERT_RC(UV_ESHUTDOWN, w.submit_rc);
  ASSERT_U64(77, w.id);
  ASSERT_RC(0, w.close_rc);
  if (real) {
    ASSERT(fixture_wait_log(&f, EV_USER, 'c', 1));
  } else {
    fakepool_release();
    turn_until_closed(&f);
  }
  ASSERT(f.closed);
  ASSERT_U64((w.what & CLOSE_OTHER) != 0 ? 7 : 6, log_count(&f, EV_DONE, 0));
  for (const char *tag = "anrliq"; *tag != 0; tag++)
    ASSERT_U64(1, log_count(&f, EV_DONE, *tag));
  ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 0)->status);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static enum greatest_test_res survive_wrecks(bool earlier, bool real) {
  for (int phase = OUTSIDE; phase <= AFTER_POLL; phase++) {
    for (int what = 1; what <= CLOSE_ALL; what++) {
      struct wreck w;

      if (what == CLOSE_OTHER)
        continue; /* see below */
      memset(&w, 0, sizeof w);
      w.what = what;
      w.phase = (enum phase)phase;
      w.earlier = earlier;
      CHECK_CALL(survive_wreck(w, real));
    }
  }
  PASS();
}

/* L2 L5 */
TEST handles_closed_by_others_in_an_earlier_turn_do_not_keep_close_from_its_end(void) {
  CHECK_CALL(survive_wrecks(true, false));
  CHECK_CALL(survive_wrecks(true, true));
  PASS();
}

/* L2 L5 */
TEST handles_closed_by_others_in_the_same_turn_do_not_keep_close_from_its_end(void) {
  CHECK_CALL(survive_wrecks(false, false));
  CHECK_CALL(survive_wrecks(false, true));
  PASS();
}

/* L2 L5 */
TEST handles_closed_by_others_after_uvs_close_do_not_keep_it_from_its_end(void) {
  for (int real = 0; real < 2; real++) {
    for (int phase = OUTSIDE; phase <= AFTER_POLL; phase++) {
      for (int what = 1; what <= CLOSE_ALL; what++) {
        struct wreck w;

        memset(&w, 0, sizeof w);
        w.what = what;
        w.phase = (enum phase)phase;
        w.close_first = true;
        CHECK_CALL(survive_wreck(w, real != 0));
      }
    }
  }
  PASS();
}

static void close_watch_only(uv_timer_t *h) {
  struct wreck *w = h->data;

  uv_walk(&w->f->loop, wreck_one, w);
  w->close_rc = uvs_close(w->f->s, note_closed);
}

/* L2 L5 */
TEST the_wall_clocks_watcher_may_be_closed_by_others_too(void) {
  for (int phase = 0; phase < 2; phase++) {
    struct fixture f;
    struct wreck w;
    uv_timer_t timer;

    fixture_init(&f);
    f.real_clock = true;
    f.pool = FAKEPOOL_REAL;
    CHECK_CALL(fixture_open(&f));
    uvs_task_t t = fixture_once(&f, 'a', UVS_NEVER - 1);
    t.from = UVS_FROM_WALL;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_turn(&f);
    memset(&w, 0, sizeof w);
    w.f = &f;
    w.what = CLOSE_OTHER;
    w.close_rc = 1;
    uv_timer_init(&f.loop, &timer);
    timer.data = &w;
    if (phase == 0) { /* in the same turn as the end of close */
      uv_timer_start(&timer, close_watch_only, 0, 0);
    } else {
      uv_walk(&f.loop, wreck_one, &w);
      uv_run(&f.loop, UV_RUN_NOWAIT);
      w.close_rc = uvs_close(f.s, note_closed);
    }
    for (int i = 0; i < 1000 && !f.closed; i++)
      uv_run(&f.loop, UV_RUN_NOWAIT);
    f.s = NULL;
    ASSERT_RC(0, w.close_rc);
    ASSERT(f.closed);
    ASSERT_STR_EQ("a", log_string(&f, EV_DONE));
    uv_close((uv_handle_t *)&timer, NULL);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L2 */
TEST without_a_close_of_ours_lost_handles_only_refuse(void) {
  struct fixture f;
  struct wreck w;
  uvs_id_t id = 5;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  memset(&w, 0, sizeof w);
  w.f = &f;
  w.what = CLOSE_ALL;
  uv_walk(&f.loop, wreck_one, &w);
  fixture_turn(&f);
  ASSERT_RC(UV_ESHUTDOWN, uvs_submit(f.s, &t, &id));
  ASSERT_RC(UV_ESHUTDOWN, uvs_submit_many(f.s, &t, 1, &id));
  ASSERT_RC(UV_ESHUTDOWN, uvs_execute(f.s, nothing, NULL));
  ASSERT_RC(UV_ESHUTDOWN, uvs_schedule(f.s, 0, nothing, NULL, &id));
  ASSERT_RC(UV_ESHUTDOWN, submit_elsewhere(f.s, t, NULL));
  ASSERT_U64(5, id);
  ASSERT_RC(0, uvs_clock_changed(f.s)); /* and nobody sends to a handle that is gone */
  fixture_turn(&f);
  ASSERT_U64(0, log_total(&f));
  CHECK_CALL(fixture_close(&f)); /* one done */
  PASS();
}

SUITE(keep_alive) {
  RUN_TEST(armed_work_keeps_the_loop_alive_until_its_done_has_returned);
  RUN_TEST(unref_d_work_does_not_keep_the_loop_alive_and_runs_all_the_same);
  RUN_TEST(ref_and_unref_change_the_state_while_armed);
  RUN_TEST(a_loop_body_may_unref_its_own_task);
  RUN_TEST(auto_holds_the_loop_for_a_foreign_submission_once_it_has_taken_it_in);
  RUN_TEST(what_is_submitted_before_the_first_turn_is_taken_in_by_uv_run);
  RUN_TEST(a_call_of_the_loops_before_its_first_turn_lets_nothing_be_forgotten);
  RUN_TEST(always_holds_the_loop_until_terminated);
  RUN_TEST(never_holds_the_loop_only_while_libuv_has_a_request_of_ours);
  RUN_TEST(closing_holds_the_loop_whatever_the_keep_alive);
}

SUITE(guest) {
  RUN_TEST(in_the_close_callback_the_loop_has_no_handle_of_ours_and_then_closes);
  RUN_TEST(a_scheduler_that_never_turned_closes_as_well);
  RUN_TEST(each_callback_runs_on_the_thread_that_the_table_names);
  RUN_TEST(every_call_for_any_thread_is_safe_from_all_of_them_at_once);
  RUN_TEST(a_wait_on_the_loop_thread_or_in_a_body_says_deadlock);
  RUN_TEST(schedulers_on_one_loop_do_not_disturb_each_other);
  RUN_TEST(two_loops_in_two_threads_each_have_a_scheduler_and_one_may_go_in_mid_flight);
}

SUITE(turns) {
  RUN_TEST(a_burst_of_loop_bodies_keeps_io_waiting_no_longer_than_the_budget);
  RUN_TEST(a_burst_of_expiries_for_the_pool_keeps_io_waiting_no_longer_than_the_budget);
  RUN_TEST(in_one_pass_nothing_fires_twice);
  RUN_TEST(in_one_pass_nothing_fires_twice_also_when_the_timer_was_late);
  RUN_TEST(every_mode_of_uv_run_makes_progress);
  RUN_TEST(when_the_last_ref_d_task_is_cancelled_the_timer_stops_and_uv_run_returns);
  RUN_TEST(a_cancelled_head_causes_at_most_one_empty_wake_up);
  RUN_TEST(an_idle_scheduler_never_wakes_the_loop);
  RUN_TEST(close_releases_those_who_wait_before_the_memory_goes);
}

SUITE(handles_and_pool) {
  RUN_TEST(the_one_timer_is_always_started_for_the_heads_deadline);
  RUN_TEST(there_is_no_handle_beyond_one_timer_and_one_async);
  RUN_TEST(with_default_options_every_body_runs_inside_a_uv_queue_work_callback);
  RUN_TEST(never_more_than_concurrency_items_are_outstanding);
  RUN_TEST(a_finished_run_is_never_stuck_behind_a_long_one_on_the_same_runner);
  RUN_TEST(a_done_is_never_stuck_behind_a_long_body_on_the_same_runner);
  RUN_TEST(a_cancel_off_the_loop_brings_the_done_promptly);
  RUN_TEST(a_cancel_off_the_loop_wakes_a_loop_that_sleeps);
  RUN_TEST(a_producer_with_a_reference_may_call_during_and_after_close);
}

SUITE(foreign_close) {
  RUN_TEST(handles_closed_by_others_in_an_earlier_turn_do_not_keep_close_from_its_end);
  RUN_TEST(handles_closed_by_others_in_the_same_turn_do_not_keep_close_from_its_end);
  RUN_TEST(handles_closed_by_others_after_uvs_close_do_not_keep_it_from_its_end);
  RUN_TEST(the_wall_clocks_watcher_may_be_closed_by_others_too);
  RUN_TEST(without_a_close_of_ours_lost_handles_only_refuse);
}

TEST_MAIN(RUN_SUITE(keep_alive); RUN_SUITE(guest); RUN_SUITE(turns); RUN_SUITE(handles_and_pool);
          RUN_SUITE(foreign_close));
