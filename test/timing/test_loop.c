/* SPDX-License-Identifier: MIT
 *
 * The scheduler and the passes of its loop: what keeps the loop alive, how long a pass takes, what
 * wakes the loop up, and when uv_run returns.
 *
 * The program wraps uv_cond_wait, to know when a thread really waits.
 */
#include "lib/bodies.h"
#include "lib/fixture.h"
#include "lib/stage.h"
#include "lib/threads.h"

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
  ASSERT_FALSE(fixture_alive(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(100));
  t.done = done_looks_alive;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT(fixture_alive(&f));
  ASSERT(uv_run(&f.loop, UV_RUN_NOWAIT) != 0);
  fixture_advance_ms(&f, 99);
  ASSERT(fixture_alive(&f));
  fixture_advance_ms(&f, 1);
  ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
  ASSERT_RC(1, log_nth(&f, EV_DONE, 'a', 0)->status);
  ASSERT_FALSE(fixture_alive(&f));
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
  ASSERT_FALSE(fixture_alive(&f));
  ASSERT_RC(0, uv_run(&f.loop, UV_RUN_DEFAULT)); /* returns at once */
  fixture_advance_ms(&f, 250);
  ASSERT_STR_EQ("100 200", log_runs(&f, EV_WORK, 'a'));
  ASSERT_FALSE(fixture_alive(&f));
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
  ASSERT(fixture_alive(&f)); /* there is still b */
  ASSERT_RC(0, uvs_unref(f.s, b));
  ASSERT_FALSE(fixture_alive(&f));
  ASSERT_RC(0, uvs_ref(f.s, b));
  ASSERT_RC(0, uvs_ref(f.s, b));
  ASSERT(fixture_alive(&f));
  fixture_advance_ms(&f, 100);
  ASSERT_STR_EQ("a", log_string(&f, EV_DONE));
  ASSERT_RC(UV_ENOENT, uvs_has_ref(f.s, a));
  ASSERT_RC(UV_ENOENT, uvs_ref(f.s, a));
  ASSERT_RC(UV_ENOENT, uvs_unref(f.s, a));
  ASSERT(fixture_alive(&f));
  fixture_advance_ms(&f, 100);
  ASSERT_FALSE(fixture_alive(&f));
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
  t.kind = UVS_FIXED_DELAY;
  t.period_ns = UVS_MS(10);
  probe_of(&t)->act = act_unref_self;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ms(&f, 10);
  ASSERT_U64(2, log_count(&f, EV_AFTER, 'a'));
  ASSERT_RC(0, log_nth(&f, EV_USER, 'a', 0)->status);
  ASSERT_FALSE(fixture_alive(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L1 */
TEST keep_alive_auto_holds_the_loop_for_tasks_of_other_threads(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  fixture_turn(&f);
  ASSERT_RC(0, submit_elsewhere(f.s, fixture_once(&f, 'a', UVS_MS(100)), &id));
  fixture_turn(&f);
  ASSERT(fixture_alive(&f));
  ASSERT_RC(0, cancel_elsewhere(f.s, id));
  fixture_turn(&f);
  ASSERT_FALSE(fixture_alive(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L1 */
TEST uv_run_runs_tasks_submitted_before_its_first_pass(void) {
  struct fixture f;

  fixture_init(&f);
  f.real_clock = true;
  f.pool = FAKEPOOL_REAL;
  CHECK_CALL(fixture_open(&f));
  ASSERT_RC(0, submit_elsewhere(f.s, fixture_once(&f, 'a', UVS_MS(2)), NULL));
  uvs_task_t b = fixture_once(&f, 'b', UVS_MS(1));
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  ASSERT(fixture_run(&f, UV_RUN_DEFAULT, NULL));
  ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
  ASSERT_U64(1, log_count(&f, EV_DONE, 'b'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L1 */
TEST a_call_on_the_loop_thread_before_the_first_pass_loses_no_task(void) {
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
      ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, 0));
    ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
    ASSERT(fixture_run(&f, UV_RUN_DEFAULT, NULL));
    ASSERT_U64(1, log_count(&f, EV_DONE, 'b'));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L1 */
TEST keep_alive_always_holds_the_loop_until_terminated(void) {
  struct fixture f;

  fixture_init(&f);
  f.options.keep_alive = UVS_KEEP_ALIVE_ALWAYS;
  CHECK_CALL(fixture_open(&f));
  fixture_turn(&f);
  ASSERT(fixture_alive(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(10));
  t.flags = UVS_UNREF;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT_RC(0, uvs_shutdown(f.s));
  fixture_turn(&f);
  ASSERT(fixture_alive(&f)); /* shut down, not yet terminated */
  fixture_advance_ms(&f, 10);
  ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
  ASSERT_FALSE(fixture_alive(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L1 */
TEST keep_alive_never_holds_the_loop_only_while_a_request_is_in_the_pool(void) {
  struct fixture f;

  fixture_init(&f);
  f.options.keep_alive = UVS_KEEP_ALIVE_NEVER;
  CHECK_CALL(fixture_open(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  ASSERT_FALSE(fixture_alive(&f));
  fakepool_hold();
  fixture_advance_ms(&f, 10);
  ASSERT(fixture_alive(&f)); /* it is in the pool */
  fakepool_release();
  fixture_turn(&f);
  ASSERT_STR_EQ("a", log_string(&f, EV_DONE));
  ASSERT_FALSE(fixture_alive(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L1 */
TEST close_holds_the_loop_with_every_keep_alive(void) {
  for (int keep = UVS_KEEP_ALIVE_AUTO; keep <= UVS_KEEP_ALIVE_NEVER; keep++) {
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
    ASSERT(fixture_run(&f, UV_RUN_DEFAULT, NULL));
    ASSERT(f.closed);
    ASSERT_STR_EQ("a", log_string(&f, EV_DONE));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* ---------------------------------------------------------------------- L7 --- */

/* Another user of the loop: asks for a loop pass again and again, and measures how long it
 * waits. */
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
  t.first_ns = UVS_MS(10);
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

/* Each read of the clock costs time, so handing tasks over takes time too. */
static int64_t costly_now(void *arg) {
  struct vclock *c = arg;

  vclock_advance_ns(c, UVS_US(10));
  return vclock_now(c);
}

struct burst {
  uvs_t *s;
  uvs_task_t t;
};

static int submit_burst(void *arg) {
  struct burst *b = arg;
  int rc = 0;

  for (int i = 0; i < 10000 && rc == 0; i++)
    rc = uvs_submit(b->s, &b->t, NULL);
  return rc;
}

/* L7 */
TEST a_burst_of_expiries_for_the_pool_keeps_io_waiting_no_longer_than_the_budget(void) {
  struct fixture f;
  struct neighbour n;
  struct burst b;

  fixture_init(&f);
  f.options.clock.monotonic_ns = costly_now;
  f.options.budget_ns = UVS_US(200);
  CHECK_CALL(fixture_open(&f));
  fixture_turn(&f);
  b.s = f.s;
  uvs_task_init(&b.t);
  b.t.from = UVS_FROM_MONOTONIC;
  b.t.first_ns = VCLOCK_START_NS + UVS_SEC(10);
  b.t.work = work_nothing;
  ASSERT_RC(0, elsewhere(submit_burst, &b)); /* these did not wake the loop */
  fakepool_hold();
  neighbour_open(&n, &f);
  uvs_clock_changed(f.s);
  fixture_turn(&f);
  vclock_advance_to(&f.clock, VCLOCK_START_NS + UVS_SEC(10));
  n.last_ns = vclock_now(&f.clock);
  n.worst_ns = 0;
  n.turns = 0;
  uvs_clock_changed(f.s);
  fixture_turn(&f); /* hands the tasks to the pool */
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
TEST no_task_fires_twice_in_one_loop_pass(void) {
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
TEST no_task_fires_twice_in_one_loop_pass_after_a_late_timer(void) {
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
    while (log_count(&f, EV_DONE, 0) < 3 && (int64_t)uv_hrtime() < start_ns + UVS_SEC(100)) {
      unsigned dones = log_count(&f, EV_DONE, 0);

      if (modes[i] == UV_RUN_NOWAIT)
        uv_run(&f.loop, UV_RUN_NOWAIT);
      else
        ASSERT(fixture_run(&f, modes[i], NULL));
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
    ASSERT(uv_is_active(find_handles(&f.loop, f.s).timer));
    c.s = f.s;
    c.rc = UV_EAGAIN;
    ASSERT_RC(0, uv_sem_init(&c.go, 0));
    ASSERT_RC(0, uv_prepare_init(&f.loop, &prepare));
    prepare.data = &c;
    uv_prepare_start(&prepare, off_loop ? on_prepare_go : on_prepare_cancel);
    if (off_loop)
      ASSERT_RC(0, uv_thread_create(&thread, canceller_main, &c));
    uv_unref((uv_handle_t *)&prepare);
    ASSERT(fixture_run(&f, UV_RUN_DEFAULT, NULL));
    if (off_loop)
      uv_thread_join(&thread);
    ASSERT_RC(UVS_CANCELLED, c.rc);
    ASSERT_FALSE(uv_is_active(find_handles(&f.loop, f.s).timer));
    ASSERT_U64(with_done ? 1 : 0, log_count(&f, EV_DONE, 'a'));
    ASSERT_U64(0, fakepool_seen().timer_fires);
    uv_close((uv_handle_t *)&prepare, NULL);
    uv_sem_destroy(&c.go);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L11. First a task is cancelled on another thread. This does not wake the loop, because the task
 * is not the last. Then the last task is cancelled on the loop, before the loop has processed the
 * first cancel. */
TEST cancelling_the_last_task_on_the_loop_frees_those_cancelled_on_other_threads(void) {
  struct fixture f;
  uvs_id_t id[3];

  fixture_init(&f);
  f.real_clock = true;
  f.pool = FAKEPOOL_REAL;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_HOUR(1));
  t.done = NULL;
  for (int i = 0; i < 3; i++)
    ASSERT_RC(0, uvs_submit(f.s, &t, &id[i]));
  fixture_turn(&f);
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id[0], 0));
  ASSERT_RC(UVS_CANCELLED, cancel_elsewhere(f.s, id[1]));
  ASSERT(uv_loop_alive(&f.loop));
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id[2], 0));
  ASSERT_FALSE(uv_loop_alive(&f.loop));
  ASSERT_FALSE(uv_is_active(find_handles(&f.loop, f.s).timer));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L11. The other way round: the last task is cancelled on another thread, and some earlier ones
 * were cancelled on the loop. */
TEST cancelling_the_last_task_on_another_thread_wakes_the_loop(void) {
  struct fixture f;
  uvs_id_t id[3];

  fixture_init(&f);
  f.real_clock = true;
  f.pool = FAKEPOOL_REAL;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_HOUR(1));
  t.done = NULL;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id[0]));
  ASSERT_RC(0, submit_elsewhere(f.s, t, &id[1]));
  ASSERT_RC(0, submit_elsewhere(f.s, t, &id[2]));
  fixture_turn(&f);
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id[1], 0));
  fakepool_forget();
  ASSERT_RC(UVS_CANCELLED, cancel_elsewhere(f.s, id[0]));
  ASSERT_U64(0, fakepool_seen().async_sends);
  ASSERT_RC(UVS_CANCELLED, cancel_elsewhere(f.s, id[2]));
  ASSERT_U64(1, fakepool_seen().async_sends);
  fixture_turn(&f);
  ASSERT_FALSE(uv_loop_alive(&f.loop));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L13 S6. A batch is submitted between two passes. The timer is armed for its first deadline,
 * wherever that task is in the batch. If a task is due now, the loop is woken. */
TEST a_batch_arms_the_timer_for_its_first_deadline(void) {
  struct fixture f;
  uvs_task_t t[3];
  uvs_id_t id[3];

  fixture_init(&f);
  f.real_clock = true;
  f.pool = FAKEPOOL_REAL;
  CHECK_CALL(fixture_open_turned(&f));
  for (int i = 0; i < 3; i++)
    t[i] = fixture_once(&f, 'a' + i, UVS_HOUR(i == 1 ? 1 : 3));
  fakepool_forget();
  ASSERT_RC(0, uvs_submit_many(f.s, t, 3, id));
  ASSERT_U64(1, fakepool_seen().timer_starts);
  ASSERT(fakepool_seen().last.timeout_ms <= 3600 * 1000);
  ASSERT(uv_loop_alive(&f.loop));
  ASSERT_U64(0, fakepool_seen().async_sends);
  t[2].first_ns = 0;
  ASSERT_RC(0, uvs_submit_many(f.s, t, 3, NULL));
  ASSERT_U64(1, fakepool_seen().async_sends);
  ASSERT(fixture_wait_log(&f, EV_WORK, 'c', 1));
  for (int i = 0; i < 3; i++)
    ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id[i], 0));
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
  f.options.keep_alive = UVS_KEEP_ALIVE_ALWAYS;
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
    ASSERT(fixture_run(&f, UV_RUN_ONCE, NULL));
  uv_thread_join(&thread);
  ASSERT_RC(UVS_CANCELLED, c.rc);
  ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
  uv_close((uv_handle_t *)&prepare, NULL);
  uv_sem_destroy(&c.go);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* Cancels five heads of the queue, the first in good time before it is due. *ret_in_time says
 * whether all were cancelled in time. If not, the machine was too slow, and nothing was
 * observed. */
static enum greatest_test_res cancel_heads(bool off_loop, int64_t due_ns, bool *ret_in_time) {
  struct fixture f;
  uvs_id_t id[5];
  int rc = 0;

  fixture_init(&f);
  f.real_clock = true;
  f.pool = FAKEPOOL_INLINE;
  CHECK_CALL(fixture_open(&f));
  for (int i = 0; i < 5; i++)
    ASSERT_RC(0, uvs_schedule(f.s, due_ns + due_ns / 2 * i, work_nothing, NULL, &id[i]));
  uvs_task_t b = fixture_loop_task(&f, 'b', 6 * due_ns);
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  fixture_turn(&f);
  fakepool_forget();
  for (int i = 0; i < 5; i++) /* each was the head when it went */
    rc |= off_loop ? cancel_elsewhere(f.s, id[i]) : uvs_cancel(f.s, id[i], 0);
  *ret_in_time = rc == UVS_CANCELLED;
  if (*ret_in_time) {
    ASSERT_U64(0, fakepool_seen().timer_starts);
    ASSERT(fixture_wait_log(&f, EV_DONE, 'b', 1));
    /* libuv may fire up to 1 ms early. Then the timer is started once more, for 1 ms. */
    uint64_t fires = fakepool_seen().timer_fires - fakepool_seen().timer_rechecks;
    ASSERT(fires >= 1);
    ASSERT(fires <= 2);
    ASSERT_FALSE(uv_is_active(find_handles(&f.loop, f.s).timer));
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L11 */
TEST a_cancelled_head_causes_at_most_one_empty_wake_up(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    int64_t due_ns = UVS_MS(10);
    bool in_time = false;

    for (; !in_time && due_ns < UVS_SEC(5); due_ns *= 3)
      CHECK_CALL(cancel_heads(off_loop, due_ns, &in_time));
    ASSERT(in_time);
  }
  PASS();
}

static int submit_and_cancel(struct probe *p, uvs_run_t *run) {
  uvs_task_t t = fixture_once(p->f, 'n', UVS_MS(100));
  uvs_id_t id;
  int rc;

  t.done = NULL;
  rc = uvs_submit(run->scheduler, &t, &id);
  return rc < 0 ? rc : uvs_cancel(run->scheduler, id, 0);
}

/* L11. The timer was not armed for the task, and the scheduler remembers nothing of it. */
TEST a_task_submitted_and_cancelled_within_a_pass_causes_no_wake_up(void) {
  struct fixture f;

  fixture_init(&f);
  f.real_clock = true;
  f.pool = FAKEPOOL_REAL;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t far = fixture_once(&f, 'f', UVS_HOUR(1));
  uvs_task_t here = fixture_loop_task(&f, 'a', 0);
  probe_of(&here)->act = submit_and_cancel;
  ASSERT_RC(0, uvs_submit(f.s, &far, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &here, NULL));
  fixture_turn(&f);
  ASSERT_RC(UVS_CANCELLED, done_status(&f, 'a'));
  fakepool_forget();
  far.first_ns = UVS_HOUR(2);
  ASSERT_RC(0, submit_elsewhere(f.s, far, NULL));
  ASSERT_U64(0, fakepool_seen().async_sends);
  ASSERT_RC(0, uvs_submit(f.s, &far, NULL));
  ASSERT_U64(0, fakepool_seen().timer_starts);
  CHECK_CALL(fixture_close(&f));
  PASS();
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
    ASSERT_RC(0, uvs_execute(f.s, work_nothing, NULL));
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

static int do_await(void *s) {
  return uvs_wait_terminated(s, UVS_NEVER);
}

/* L12: for uvs_wait_terminated. */
TEST close_releases_waiting_threads_before_freeing_memory(void) {
  struct fixture f;
  struct errand w[WAITERS];
  uv_thread_t threads[WAITERS];

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  CHECK_CALL(fixture_open(&f));
  uvs_task_t t = fixture_once(&f, 'a', 0), u = fixture_once(&f, 'b', UVS_HOUR(1));
  probe_of(&t)->act = act_endless;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &u, NULL));
  ASSERT(fixture_wait_log(&f, EV_WORK, 'a', 1));
  for (int i = 0; i < WAITERS; i++) {
    /* No reference: they sit in the wait before close comes. */
    w[i] = (struct errand){do_await, f.s, UV_EAGAIN};
    ASSERT_RC(0, uv_thread_create(&threads[i], errand_main, &w[i]));
  }
  ASSERT(await_asleep(WAITERS));
  ASSERT_RC(0, uvs_close(f.s, note_closed));
  f.s = NULL;
  ASSERT(fixture_wait_log(&f, EV_USER, 'c', 1));
  for (int i = 0; i < WAITERS; i++) {
    uv_thread_join(&threads[i]);
    ASSERT_RC(0, w[i].rc);
  }
  ASSERT_U64(2, log_count(&f, EV_DONE, 0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(keep_alive) {
  RUN_TEST(armed_work_keeps_the_loop_alive_until_its_done_has_returned);
  RUN_TEST(unref_d_work_does_not_keep_the_loop_alive_and_runs_all_the_same);
  RUN_TEST(ref_and_unref_change_the_state_while_armed);
  RUN_TEST(a_loop_body_may_unref_its_own_task);
  RUN_TEST(keep_alive_auto_holds_the_loop_for_tasks_of_other_threads);
  RUN_TEST(uv_run_runs_tasks_submitted_before_its_first_pass);
  RUN_TEST(a_call_on_the_loop_thread_before_the_first_pass_loses_no_task);
  RUN_TEST(keep_alive_always_holds_the_loop_until_terminated);
  RUN_TEST(keep_alive_never_holds_the_loop_only_while_a_request_is_in_the_pool);
  RUN_TEST(close_holds_the_loop_with_every_keep_alive);
}

static int submit_far(void *arg) {
  return uvs_schedule(arg, UVS_SEC(1500), work_nothing, NULL, NULL);
}

/* L1: a task from another thread is too far off to wake the loop for its deadline. It keeps the
 * loop alive nevertheless, even if the last other task that did so is cancelled or unref'd while
 * this one is in the inbox. */
TEST a_far_task_from_another_thread_keeps_the_loop_alive(void) {
  for (int how = 0; how < 3; how++) {
    struct fixture f;
    uvs_id_t a = 0;
    uint64_t sends;

    fixture_init(&f);
    f.real_clock = true;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t u = fixture_once(&f, 'u', UVS_SEC(1400));
    u.flags = UVS_UNREF;
    ASSERT_RC(0, uvs_submit(f.s, &u, NULL));
    fixture_turn(&f);
    ASSERT_FALSE(fixture_alive(&f));
    if (how > 0) {
      ASSERT_RC(0, uvs_schedule(f.s, UVS_SEC(1000), work_nothing, NULL, &a));
      fixture_turn(&f);
    }
    sends = fakepool_seen().async_sends;
    ASSERT_RC(0, elsewhere(submit_far, f.s));
    if (how == 0) {
      ASSERT(fakepool_seen().async_sends > sends); /* it has to hear of it */
      fixture_turn(&f);
    }
    if (how == 1)
      ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, a, 0));
    if (how == 2)
      ASSERT_RC(0, uvs_unref(f.s, a));
    ASSERT(fixture_alive(&f));
    ASSERT_RC(0, uvs_shutdown_now(f.s, NULL, NULL));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

SUITE(turns) {
  RUN_TEST(a_far_task_from_another_thread_keeps_the_loop_alive);
  RUN_TEST(a_burst_of_loop_bodies_keeps_io_waiting_no_longer_than_the_budget);
  RUN_TEST(a_burst_of_expiries_for_the_pool_keeps_io_waiting_no_longer_than_the_budget);
  RUN_TEST(no_task_fires_twice_in_one_loop_pass);
  RUN_TEST(no_task_fires_twice_in_one_loop_pass_after_a_late_timer);
  RUN_TEST(every_mode_of_uv_run_makes_progress);
  RUN_TEST(when_the_last_ref_d_task_is_cancelled_the_timer_stops_and_uv_run_returns);
  RUN_TEST(cancelling_the_last_task_on_the_loop_frees_those_cancelled_on_other_threads);
  RUN_TEST(cancelling_the_last_task_on_another_thread_wakes_the_loop);
  RUN_TEST(a_batch_arms_the_timer_for_its_first_deadline);
  RUN_TEST(a_cancel_off_the_loop_wakes_a_loop_that_sleeps);
  RUN_TEST(a_cancelled_head_causes_at_most_one_empty_wake_up);
  RUN_TEST(a_task_submitted_and_cancelled_within_a_pass_causes_no_wake_up);
  RUN_TEST(an_idle_scheduler_never_wakes_the_loop);
  RUN_TEST(close_releases_waiting_threads_before_freeing_memory);
}

TEST_MAIN(RUN_SUITE(keep_alive); RUN_SUITE(turns));
