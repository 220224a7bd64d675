/* SPDX-License-Identifier: MIT
 *
 * The end of a scheduler and the threads that wait for it: termination, wait, close, and the memory
 * of ended tasks.
 */
#include "lib/bodies.h"
#include "lib/fixture.h"
#include "lib/threads.h"

static void mine_closed(uvs_t *s) {
  struct fixture *f = uvs_data(s);

  log_add(f, EV_USER, 'C', 0, uvs_is_terminated(s));
  f->closed = true;
}

static void closed_calls(uvs_t *s) {
  struct fixture *f = uvs_data(s);
  uvs_task_t t = fixture_once(f, 'x', 0);

  log_add(f, EV_USER, 's', 0, uvs_submit(s, &t, NULL));
  log_add(f, EV_USER, 'c', 0, uvs_cancel(s, 1, 0));
  log_add(f, EV_USER, 'p', 0, uvs_after_shutdown(s, UVS_DELAYED_TASKS));
  log_add(f, EV_USER, 'n', 0, uvs_set_concurrency(s, 3));
  mine_closed(s);
}

/* ---------------------------------------------------------------- afterwards --- */

/* the header: ERRORS */
TEST in_the_close_callback_the_scheduler_is_closed(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  ASSERT_RC(0, uvs_close(f.s, closed_calls));
  f.s = NULL;
  for (int i = 0; i < 10 && !f.closed; i++)
    fixture_turn(&f);
  ASSERT_STR_EQ("scpnC", log_string(&f, EV_USER));
  for (const char *call = "scpn"; *call != '\0'; call++)
    ASSERT_RC(UV_ESHUTDOWN, log_nth(&f, EV_USER, *call, 0)->status);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S55 S29 */
TEST scheduling_and_cancelling_without_end_uses_constant_memory(void) {
  enum { WARM = 2000, PAIRS = 100000 };
  struct fixture f;
  long peak = 0;
  uint64_t slots = 0;
  uvs_task_t t;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  fixture_turn(&f);
  uvs_task_init(&t);
  t.work = probe_work;
  t.first_ns = UVS_DAY(365);
  for (int i = 0; i < PAIRS; i++) {
    ASSERT_EQ(0, uvs_submit(f.s, &t, &id));
    ASSERT_EQ(UVS_CANCELLED, uvs_cancel(f.s, id, 0));
    if (i == WARM) {
      fixture_turn(&f);
      peak = atomic_load(&f.fault.peak_bytes);
      slots = counts_of(f.s).slots;
    }
  }
  ASSERT_U64((uint64_t)peak, atomic_load(&f.fault.peak_bytes));
  ASSERT_U64(slots, counts_of(f.s).slots);
  ASSERT_RC(0, uvs_shutdown(f.s));
  fixture_turn(&f);
  ASSERT_RC(1, uvs_is_terminated(f.s));
  uvs_counts_t c = counts_of(f.s);
  ASSERT_U64(PAIRS, c.submitted);
  ASSERT_U64(PAIRS, c.cancelled);
  ASSERT(adds_up(&c));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

struct churn {
  uvs_t *s;
  int pairs;
};

static int churn_far_tasks(void *arg) {
  struct churn *m = arg;
  uvs_id_t id;
  int rc = 0;

  for (int i = 0; i < m->pairs && rc == 0; i++) {
    rc = uvs_schedule(m->s, UVS_DAY(365), probe_work, NULL, &id);
    if (rc == 0)
      rc = uvs_cancel(m->s, id, 0);
  }
  return rc;
}

/* S55 S59 */
TEST tasks_cancelled_on_another_thread_are_freed_in_the_next_loop_pass(void) {
  struct fixture f;
  uint64_t slots = 0;
  long peak = 0;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  fixture_turn(&f);
  struct churn m = {f.s, 1000};
  for (int i = 0; i < 100; i++) {
    ASSERT_RC(0, elsewhere(churn_far_tasks, &m));
    fixture_turn(&f);
    if (i == 8) { /* each thread may use another stripe of the free list: let them all have some */
      slots = counts_of(f.s).slots;
      peak = atomic_load(&f.fault.peak_bytes);
    }
  }
  ASSERT(counts_of(f.s).slots <= 2 * slots);
  ASSERT(atomic_load(&f.fault.peak_bytes) <= 3 * peak);
  ASSERT_U64(100000, counts_of(f.s).cancelled);
  ASSERT_U64(0, counts_of(f.s).waiting);
  ASSERT_I64(-1, fixture_next_ms(&f));
  ASSERT_RC(0, uvs_shutdown(f.s));
  fixture_turn(&f);
  ASSERT_RC(1, uvs_is_terminated(f.s));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S56 S12 */
TEST after_termination_all_counts_are_zero_and_new_tasks_are_refused(void) {
  struct fixture f;
  uvs_id_t id = 4711;

  for (int now = 0; now < 2; now++) {
    fixture_init(&f);
    CHECK_CALL(fixture_open(&f));
    uvs_task_t a = fixture_once(&f, 'a', 0);
    uvs_task_t b = fixture_once(&f, 'b', 0);
    uvs_task_t c = fixture_rate(&f, 'c', 0, UVS_MS(10));
    probe_of(&b)->ret = UV_EIO;
    ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &c, NULL));
    fixture_turn(&f);
    ASSERT_RC(0, now ? do_shutdown_now(f.s) : do_shutdown(f.s));
    fixture_turn(&f);
    ASSERT_RC(1, uvs_is_terminated(f.s));
    ASSERT_RC(0, uvs_is_terminating(f.s));
    ASSERT_RC(0, elsewhere(do_look, f.s));
    uvs_counts_t n = counts_of(f.s);
    ASSERT_U64(0, n.waiting + n.ready + n.running + n.runners);
    ASSERT_U64(3, n.submitted);
    ASSERT_U64(1, n.completed);
    ASSERT_U64(1, n.failed);
    ASSERT_U64(1, n.cancelled);
    ASSERT_U64(1, n.peak_runners);
    ASSERT_I64(-1, fixture_next_ms(&f));
    struct probe *p = fixture_probe(&f, 'x');
    ASSERT_RC(UV_ESHUTDOWN, uvs_submit(f.s, &a, &id));
    ASSERT_RC(UV_ESHUTDOWN, uvs_submit_many(f.s, &a, 1, &id));
    ASSERT_RC(UV_ESHUTDOWN, uvs_execute(f.s, probe_work, p));
    ASSERT_RC(UV_ESHUTDOWN, uvs_schedule(f.s, 1, probe_work, p, &id));
    ASSERT_RC(UV_ESHUTDOWN, uvs_schedule_at_fixed_rate(f.s, 1, 1, probe_work, p, &id));
    ASSERT_RC(UV_ESHUTDOWN, uvs_schedule_with_fixed_delay(f.s, 1, 1, probe_work, p, &id));
    ASSERT_RC(UV_ESHUTDOWN, uvs_schedule_at(f.s, 1, probe_work, p, &id));
    ASSERT_U64(4711, id);
    ASSERT_U64(7, counts_of(f.s).rejected);
    ASSERT_U64(3, counts_of(f.s).submitted);
    ASSERT_RC(UV_ENOENT, uvs_cancel(f.s, log_nth(&f, EV_DONE, 'a', 0)->id, 0));
    fixture_advance_ms(&f, 100);
    ASSERT_U64(0, log_count(&f, 0, 'x'));
    ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static int await_end(void *s) {
  return uvs_wait_terminated(s, UVS_NEVER);
}

/* S59 */
TEST a_cancelled_task_is_released_although_threads_wait_for_the_scheduler(void) {
  struct fixture f;
  struct errand waiter;
  uv_thread_t thread;
  uvs_id_t id, again;
  uint64_t slots;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  fixture_turn(&f);
  waiter = (struct errand){await_end, f.s, UV_EAGAIN};
  ASSERT_RC(0, uv_thread_create(&thread, errand_main, &waiter));
  uvs_task_t t = fixture_once(&f, 'a', UVS_DAY(1));
  t.name = "with a cold record";
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  slots = counts_of(f.s).slots;
  for (int i = 0; i < 1000; i++) {
    ASSERT_EQ(UVS_CANCELLED, uvs_cancel(f.s, id, 0));
    fixture_turn(&f); /* `done`: the last touch of arg, and the slot is free again */
    ASSERT_EQ(UV_ENOENT, state_of(f.s, id));
    ASSERT_EQ(0, uvs_submit(f.s, &t, &again));
    ASSERT(again != id);
    id = again;
  }
  ASSERT_U64(1000, log_count(&f, EV_DONE, 'a'));
  ASSERT_U64(slots, counts_of(f.s).slots);
  ASSERT_RC(0, do_shutdown_now_quietly(f.s));
  fixture_turn(&f);
  uv_thread_join(&thread);
  ASSERT_RC(0, waiter.rc);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* --------------------------------------------------------------------- await --- */

struct patience {
  uvs_t *s;
  int64_t timeout_ns, took_ns;
};

static int await_measured(void *arg) {
  struct patience *p = arg;
  int64_t start_ns = (int64_t)uv_hrtime();
  int rc = uvs_wait_terminated(p->s, p->timeout_ns);

  p->took_ns = (int64_t)uv_hrtime() - start_ns;
  return rc;
}

/* P4 F15 F16 */
TEST waiting_for_an_open_scheduler_times_out_and_not_early(void) {
  static const int64_t timeouts[] = {UVS_MS(5), UVS_US(1500), 1, 0, -1, INT64_MIN};
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  fixture_turn(&f);
  for (int i = 0; i < 6; i++) {
    struct patience p = {f.s, timeouts[i], 0};
    ASSERT_RC(UV_ETIMEDOUT, elsewhere(await_measured, &p));
    ASSERT(p.took_ns >= timeouts[i]);
  }
  /* The same while it terminates. The virtual clock does not matter here. */
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT_RC(0, uvs_shutdown(f.s));
  struct patience p = {f.s, UVS_MS(5), 0};
  ASSERT_RC(UV_ETIMEDOUT, elsewhere(await_measured, &p));
  ASSERT(p.took_ns >= UVS_MS(5));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int await_here(struct probe *p, uvs_run_t *run) {
  log_add(p->f, EV_USER, p->tag, run->id, uvs_wait_terminated(run->scheduler, UVS_NEVER));
  log_add(p->f, EV_USER, p->tag, run->id, uvs_wait_terminated(run->scheduler, 1));
  return 0;
}

static void await_in_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct probe *p = arg;

  (void)status;
  log_add(p->f, EV_USER, 'd', id, uvs_wait_terminated(s, UVS_NEVER));
}

/* L4 P4 */
TEST a_wait_that_would_never_end_is_refused(void) {
  struct fixture f;

  for (int concurrency = 0; concurrency < 2; concurrency++) {
    fixture_init(&f);
    f.options.concurrency = concurrency;
    CHECK_CALL(fixture_open(&f));
    ASSERT_RC(UVS_EDEADLK,
              uvs_wait_terminated(f.s, UVS_NEVER)); /* before the first pass: the opener's thread */
    uvs_task_t w = fixture_once(&f, 'w', 0);
    uvs_task_t l = fixture_loop_task(&f, 'l', 0);
    probe_of(&w)->act = await_here;
    probe_of(&l)->act = await_here;
    w.done = await_in_done;
    ASSERT_RC(0, uvs_submit(f.s, &w, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &l, NULL));
    fixture_turn(&f);
    ASSERT_U64(5, log_count(&f, EV_USER, 0));
    for (unsigned i = 0; i < 5; i++)
      ASSERT_RC(UVS_EDEADLK, log_nth(&f, EV_USER, 0, i)->status);
    ASSERT_RC(UV_ETIMEDOUT, uvs_wait_terminated(f.s, 0)); /* it only looks */
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S32 P4 L12 */
TEST waiting_threads_are_released_by_termination_and_by_close(void) {
  enum { WAITERS = 5 };
  struct fixture f;
  struct errand waiters[WAITERS];
  struct patience patience[WAITERS];
  uv_thread_t threads[WAITERS];

  for (int way = 0; way < 3; way++) {
    fixture_init(&f);
    CHECK_CALL(fixture_open(&f));
    uvs_task_t t = fixture_once(&f, 'a', UVS_MS(10));
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_turn(&f);
    for (int i = 0; i < WAITERS; i++) {
      patience[i] = (struct patience){f.s, i % 2 == 0 ? UVS_NEVER : PATIENCE_NS, 0};
      waiters[i] = (struct errand){await_measured, &patience[i], UV_EAGAIN};
      ASSERT_RC(0, uv_thread_create(&threads[i], errand_main, &waiters[i]));
    }
    if (way == 0) {
      ASSERT_RC(0, uvs_shutdown(f.s));
      fixture_advance_ms(&f, 10);
      ASSERT_U64(1, log_count(&f, EV_WORK, 'a'));
    } else if (way == 1) {
      ASSERT_RC(0, do_shutdown_now(f.s));
      fixture_turn(&f);
    } else {
      /* A thread that has not entered the wait by now needs a reference. */
      uvs_retain(f.s);
      ASSERT_RC(0, uvs_close(f.s, mine_closed));
      f.s = NULL;
      for (int i = 0; i < 10 && !f.closed; i++)
        fixture_turn(&f);
      ASSERT(f.closed);
    }
    for (int i = 0; i < WAITERS; i++) {
      uv_thread_join(&threads[i]);
      ASSERT_RC(0, waiters[i].rc);
    }
    if (way == 2)
      uvs_release(patience[0].s);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* ------------------------------------------------------------------ callbacks --- */

/* S32 S43 */
TEST on_terminated_is_called_once_on_the_loop_and_never_inside_a_call(void) {
  struct fixture f;

  for (int with_task = 0; with_task < 2; with_task++) {
    fixture_init(&f);
    CHECK_CALL(fixture_open(&f));
    fixture_turn(&f);
    uvs_task_t t = fixture_once(&f, 'a', 0);
    if (with_task)
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    ASSERT_RC(0, uvs_shutdown(f.s));
    ASSERT_U64(0, log_total(&f));
    fixture_turn(&f);
    ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
    ASSERT(log_nth(&f, EV_TERMINATED, 0, 0)->on_loop);
    ASSERT_RC(EV_TERMINATED, log_nth(&f, (enum event_kind)0, 0, log_total(&f) - 1)->what);
    ASSERT_RC(0, uvs_shutdown(f.s));
    ASSERT_RC(0, do_shutdown_now(f.s));
    fixture_turn(&f);
    ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L11 S43 */
TEST the_loop_stays_alive_until_on_terminated_when_a_cancel_ends_the_last_task(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    struct fixture f;
    uvs_id_t id;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    ASSERT_RC(0, uvs_schedule(f.s, UVS_SEC(1), work_nothing, NULL, &id)); /* has no `done` */
    ASSERT_RC(0, uvs_shutdown(f.s));
    fixture_turn(&f);
    ASSERT_U64(0, log_count(&f, EV_TERMINATED, 0));
    ASSERT_RC(UVS_CANCELLED, off_loop ? cancel_elsewhere(f.s, id) : uvs_cancel(f.s, id, 0));
    ASSERT(fixture_alive(&f));
    ASSERT_RC(0, uv_run(&f.loop, UV_RUN_DEFAULT));
    ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
    ASSERT_FALSE(fixture_alive(&f));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* The tests below close from inside a callback with this. */
static void close_here(uvs_t *s, struct fixture *f) {
  if (f->s == NULL)
    return;
  log_add(f, EV_USER, 'c', 0, uvs_close(s, mine_closed));
  log_add(f, EV_USER, 'd', 0, uvs_close(s, mine_closed));
  log_add(f, EV_USER, 'e', 0, uvs_execute(s, probe_work, fixture_probe(f, 'x')));
  f->s = NULL;
}

static int close_in_body(struct probe *p, uvs_run_t *run) {
  close_here(run->scheduler, p->f);
  return p->ret;
}

static int close_in_after(uvs_run_t *run) {
  struct probe *p = run->arg;

  log_run(p->f, EV_AFTER, p->tag, run);
  close_here(run->scheduler, p->f);
  return 0;
}

static void close_in_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct probe *p = arg;

  log_add(p->f, EV_DONE, p->tag, id, status);
  close_here(s, p->f);
}

static void close_in_error(uvs_t *s, uvs_id_t id, int status, void *arg) {
  log_add(uvs_data(s), EV_ERROR, ((struct probe *)arg)->tag, id, status);
  close_here(s, uvs_data(s));
}

static void close_in_never_ran(uvs_t *s, uvs_id_t id, void *task_arg, void *arg) {
  (void)task_arg;
  (void)arg;
  log_add(uvs_data(s), EV_NEVER_RAN, 'n', id, 0);
  close_here(s, uvs_data(s));
}

static void close_in_terminated(uvs_t *s) {
  log_add(uvs_data(s), EV_TERMINATED, 't', 0, 0);
  close_here(s, uvs_data(s));
}

static int close_in_each(uvs_t *s, const uvs_info_t *info, void *arg) {
  (void)info;
  (void)arg;
  close_here(s, uvs_data(s));
  return 0;
}

/* S33 S43 L2 */
TEST close_works_from_inside_every_callback_of_the_loop(void) {
  enum { BODY, LOOP_BODY, PERIODIC, AFTER, DONE, ERROR, NEVER_RAN, TERMINATED, EACH, WAYS };
  struct fixture f;

  for (int way = 0; way < WAYS; way++) {
    fixture_init(&f);
    f.options.concurrency = way == BODY ? 0 : 1;
    if (way == ERROR)
      f.options.on_error = close_in_error;
    if (way == TERMINATED)
      f.options.on_terminated = close_in_terminated;
    CHECK_CALL(fixture_open(&f));
    uvs_task_t t = way == LOOP_BODY ? fixture_loop_task(&f, 'a', 0) : fixture_once(&f, 'a', 0);
    uvs_task_t neighbour = fixture_once(&f, 'b', 0);
    uvs_task_t later = fixture_rate(&f, 'l', UVS_MS(10), UVS_MS(10));
    if (way == BODY || way == LOOP_BODY || way == PERIODIC)
      probe_of(&t)->act = close_in_body;
    if (way == PERIODIC) {
      t.kind = UVS_FIXED_DELAY;
      t.period_ns = UVS_MS(1);
      t.after = t.work;
      t.work = NULL;
    }
    if (way == AFTER)
      t.after = close_in_after;
    if (way == DONE)
      t.done = close_in_done;
    if (way == ERROR) {
      probe_of(&t)->ret = UV_EIO;
      t.done = NULL;
    }
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &neighbour, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &later, NULL));
    if (way == NEVER_RAN) {
      fakepool_hold(); /* otherwise the first two have ended */
      fixture_turn(&f);
      ASSERT_RC(0, uvs_shutdown_now(f.s, close_in_never_ran, NULL));
      fakepool_release();
    }
    if (way == TERMINATED)
      ASSERT_RC(0, uvs_shutdown(f.s));
    if (way == EACH) {
      fakepool_hold();
      fixture_turn(&f);
      ASSERT_RC(0, uvs_each(f.s, close_in_each, NULL));
      fakepool_release();
    }
    for (int i = 0; i < 10 && !f.closed; i++)
      fixture_turn(&f);
    ASSERT(f.s == NULL);
    ASSERT(f.closed);
    ASSERT_STR_EQ("cdeC", log_string(&f, EV_USER));
    ASSERT_RC(0, log_nth(&f, EV_USER, 'c', 0)->status);
    ASSERT_RC(UV_EALREADY, log_nth(&f, EV_USER, 'd', 0)->status);
    ASSERT_RC(UV_ESHUTDOWN, log_nth(&f, EV_USER, 'e', 0)->status);
    ASSERT_RC(1, log_nth(&f, EV_USER, 'C', 0)->status);
    ASSERT_U64(way != ERROR, log_count(&f, EV_DONE, 'a'));
    ASSERT_U64(1, log_count(&f, EV_DONE, 'b'));
    ASSERT_U64(1, log_count(&f, EV_DONE, 'l'));
    ASSERT_U64(0, log_count(&f, EV_WORK, 'l') + log_count(&f, 0, 'x'));
    ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
    /* The close callback is the last one. */
    ASSERT_RC('C', log_nth(&f, (enum event_kind)0, 0, log_total(&f) - 1)->tag);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static int try_to_close(struct probe *p, uvs_run_t *run) {
  log_add(p->f, EV_USER, 'c', run->id, uvs_close(run->scheduler, mine_closed));
  return 0;
}

/* L3 */
TEST close_on_another_thread_is_refused_and_nothing_happens(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  probe_of(&t)->act = try_to_close;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  ASSERT_RC(UV_EPERM, log_nth(&f, EV_USER, 'c', 0)->status);
  ASSERT_RC(0, uvs_is_shutdown(f.s));
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  ASSERT_U64(2, log_count(&f, EV_DONE, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S33 S42 L2 */
TEST close_waits_for_bodies_and_for_pending_runs(void) {
  struct fixture f;
  uvs_id_t pending;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.options.concurrency = 2;
  CHECK_CALL(fixture_open(&f));
  gate_init(false);
  uvs_task_t a = fixture_once(&f, 'a', 0);
  uvs_task_t p = fixture_once(&f, 'p', 0);
  probe_of(&a)->act = gate_pass;
  probe_of(&p)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &p, &pending));
  ASSERT(fixture_wait_log(&f, EV_WORK, 0, 2));
  uvs_t *s = uvs_retain(f.s);
  f.s = NULL;
  ASSERT_RC(0, uvs_close(s, mine_closed));
  fixture_turn(&f);
  ASSERT_FALSE(f.closed);
  ASSERT_RC(0, uvs_finish(s, pending, 0));
  ASSERT(fixture_wait_log(&f, EV_DONE, 'p', 1));
  fixture_turn(&f);
  ASSERT_FALSE(f.closed);
  ASSERT(gate_wait(&f, 1));
  gate_let(1);
  ASSERT(fixture_wait_log(&f, EV_USER, 'C', 1));
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'a', 0)->status);
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'p', 0)->status);
  ASSERT_RC(UV_ESHUTDOWN, uvs_shutdown(s));
  ASSERT_RC(UV_EALREADY, uvs_close(s, NULL));
  ASSERT_RC(1, uvs_is_terminated(s));
  uvs_release(s);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ------------------------------------------------------------- the task object --- */

/* P10 S15 */
TEST the_same_spec_may_be_submitted_repeatedly_even_after_a_refusal(void) {
  struct fixture f;
  uvs_id_t ids[4] = {0, 0, 0, 99};

  fixture_init(&f);
  f.options.max_pending = 2;
  CHECK_CALL(fixture_open(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &t, &ids[0]));
  ASSERT_RC(0, uvs_submit(f.s, &t, &ids[1]));
  ASSERT_RC(UV_EAGAIN, uvs_submit(f.s, &t, &ids[3]));
  ASSERT_U64(99, ids[3]);
  fixture_advance_ms(&f, 10);
  ASSERT_RC(0, uvs_submit(f.s, &t, &ids[2]));
  ASSERT(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
  fixture_advance_ms(&f, 10);
  ASSERT_STR_EQ("aaa", log_string(&f, EV_WORK));
  ASSERT_STR_EQ("aaa", log_string(&f, EV_DONE));
  ASSERT_STR_EQ("10 10#1 20#1", log_runs(&f, EV_WORK, 'a'));
  ASSERT_RC(0, uvs_shutdown(f.s));
  ASSERT_RC(UV_ESHUTDOWN, uvs_submit(f.s, &t, &ids[3]));
  ASSERT_RC(UV_ESHUTDOWN, uvs_submit(f.s, &t, &ids[3]));
  ASSERT_U64(99, ids[3]);
  ASSERT_U64(3, counts_of(f.s).submitted);
  ASSERT_U64(3, counts_of(f.s).rejected);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* P11 */
TEST only_cancelled_tasks_leave_the_queue_without_a_run(void) {
  enum { TASKS = 200 };
  struct fixture f;
  uvs_id_t ids[TASKS];
  bool cancelled[TASKS] = {false};
  uint64_t random = test_seed;
  unsigned live = TASKS;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  for (int i = 0; i < TASKS; i++) {
    uvs_task_t t =
        fixture_once(&f, i + 1, (int64_t)test_random_below(&random, 50) * UVS_MS(1) + UVS_MS(1));
    ASSERT_RC(0, uvs_submit(f.s, &t, &ids[i]));
  }
  fixture_turn(&f);
  for (int n = 0; n < 300; n++) {
    unsigned i = (unsigned)test_random_below(&random, TASKS);
    ASSERT_RC(cancelled[i] ? UV_ENOENT : UVS_CANCELLED, uvs_cancel(f.s, ids[i], 0));
    live -= !cancelled[i];
    cancelled[i] = true;
    ASSERT_U64(live, counts_of(f.s).waiting);
  }
  fixture_advance_ms(&f, 100);
  for (int i = 0; i < TASKS; i++) {
    ASSERT_U64(cancelled[i] ? 0 : 1, log_count(&f, EV_WORK, i + 1));
    ASSERT_U64(1, log_count(&f, EV_DONE, i + 1));
    ASSERT_RC(cancelled[i] ? UV_ECANCELED : 0, log_nth(&f, EV_DONE, i + 1, 0)->status);
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int cancel_both(struct probe *p, uvs_run_t *run) {
  log_add(p->f, EV_USER, 'r', run->id, uvs_cancel(run->scheduler, run->id, 0));
  log_add(p->f, EV_USER, 'q', run->id, uvs_cancel(run->scheduler, p->id, 0));
  log_add(p->f, EV_USER, 'R', run->id, uvs_cancel(run->scheduler, run->id, 0));
  log_add(p->f, EV_USER, 'Q', run->id, uvs_cancel(run->scheduler, p->id, 0));
  return 0;
}

/* P12 P11 */
TEST a_running_and_a_queued_task_cancelled_together_both_end_cancelled(void) {
  struct fixture f;

  for (int64_t delay_ns = 0; delay_ns <= UVS_MS(10); delay_ns += UVS_MS(10)) { /* ready, waiting */
    fixture_init(&f);
    f.options.concurrency = 1;
    CHECK_CALL(fixture_open(&f));
    uvs_task_t r = fixture_once(&f, 'r', 0);
    uvs_task_t q = fixture_once(&f, 'q', delay_ns);
    probe_of(&r)->act = cancel_both;
    ASSERT_RC(0, uvs_submit(f.s, &r, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &q, &probe_of(&r)->id));
    fixture_turn(&f);
    ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, log_nth(&f, EV_USER, 'r', 0)->status);
    ASSERT_RC(UVS_CANCELLED, log_nth(&f, EV_USER, 'q', 0)->status);
    ASSERT_RC(UVS_CANCELLED_BEFORE, log_nth(&f, EV_USER, 'R', 0)->status);
    ASSERT_RC(UV_ENOENT, log_nth(&f, EV_USER, 'Q', 0)->status);
    ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'r', 0)->status);
    ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'q', 0)->status);
    fixture_advance_ms(&f, 50);
    ASSERT_STR_EQ("r", log_string(&f, EV_WORK));
    ASSERT_U64(2, log_count(&f, EV_DONE, 0));
    ASSERT_U64(2, counts_of(f.s).cancelled);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

SUITE(afterwards) {
  RUN_TEST(in_the_close_callback_the_scheduler_is_closed);
  RUN_TEST(scheduling_and_cancelling_without_end_uses_constant_memory);
  RUN_TEST(tasks_cancelled_on_another_thread_are_freed_in_the_next_loop_pass);
  RUN_TEST(after_termination_all_counts_are_zero_and_new_tasks_are_refused);
  RUN_TEST(a_cancelled_task_is_released_although_threads_wait_for_the_scheduler);
}

SUITE(waiting) {
  RUN_TEST(waiting_for_an_open_scheduler_times_out_and_not_early);
  RUN_TEST(a_wait_that_would_never_end_is_refused);
  RUN_TEST(waiting_threads_are_released_by_termination_and_by_close);
}

SUITE(callbacks) {
  RUN_TEST(on_terminated_is_called_once_on_the_loop_and_never_inside_a_call);
  RUN_TEST(the_loop_stays_alive_until_on_terminated_when_a_cancel_ends_the_last_task);
  RUN_TEST(close_works_from_inside_every_callback_of_the_loop);
  RUN_TEST(close_on_another_thread_is_refused_and_nothing_happens);
  RUN_TEST(close_waits_for_bodies_and_for_pending_runs);
}

SUITE(task_objects) {
  RUN_TEST(the_same_spec_may_be_submitted_repeatedly_even_after_a_refusal);
  RUN_TEST(only_cancelled_tasks_leave_the_queue_without_a_run);
  RUN_TEST(a_running_and_a_queued_task_cancelled_together_both_end_cancelled);
}

/* Blocking bodies need enough threads in libuv's pool, whatever the environment says. */
TEST_MAIN(uv_os_setenv("UV_THREADPOOL_SIZE", "4"); RUN_SUITE(afterwards); RUN_SUITE(waiting);
          RUN_SUITE(callbacks); RUN_SUITE(task_objects));
