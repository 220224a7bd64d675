/* SPDX-License-Identifier: MIT
 *
 * The counts, which must be right at every instant, and the cap on the number of tasks.
 */
#include "lib/bodies.h"
#include "lib/fixture.h"

/* All counts in one line, so that expectations read like a table. */
static const char *counts_text(uvs_t *s) {
  static char text[200];
  uvs_counts_t c = counts_of(s);

  snprintf(text, sizeof text, "%llu = %llu+%llu+%llu + %llu+%llu+%llu%s",
           (unsigned long long)c.submitted, (unsigned long long)c.completed,
           (unsigned long long)c.failed, (unsigned long long)c.cancelled,
           (unsigned long long)c.waiting, (unsigned long long)c.ready,
           (unsigned long long)c.running, adds_up(&c) ? "" : " (does not add up)");
  return text;
}

/* --------------------------------------------------------------------- counts --- */

static int log_counts(struct probe *p, uvs_run_t *run) {
  uvs_counts_t c = counts_of(run->scheduler);

  log_add(p->f, EV_USER, 'r', run->id, (int)c.running);
  log_add(p->f, EV_USER, 'n', run->id, (int)c.runners);
  log_add(p->f, EV_USER, 'p', run->id, (int)c.peak_runners);
  log_add(p->f, EV_USER, 'c', run->id, (int)c.completed);
  log_add(p->f, EV_USER, 'u', run->id, (int)c.runs);
  log_add(p->f, EV_USER, 'v', run->id, adds_up(&c));
  return p->ret;
}

/* S20 S21 S23 S24 */
TEST counts_are_right_before_inside_and_after_the_first_body(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  ASSERT_STR_EQ("0 = 0+0+0 + 0+0+0", counts_text(f.s));
  ASSERT_U64(0, counts_of(f.s).runners);
  ASSERT_U64(0, counts_of(f.s).peak_runners);
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(1));
  probe_of(&t)->act = log_counts;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  ASSERT_STR_EQ("1 = 0+0+0 + 1+0+0", counts_text(f.s));
  ASSERT_U64(0, counts_of(f.s).runners);
  fixture_advance_ms(&f, 1);
  ASSERT_STR_EQ("rnpcuv", log_string(&f, EV_USER));
  ASSERT_RC(1, log_nth(&f, EV_USER, 'r', 0)->status);
  ASSERT_RC(1, log_nth(&f, EV_USER, 'n', 0)->status);
  ASSERT_RC(1, log_nth(&f, EV_USER, 'p', 0)->status);
  ASSERT_RC(0, log_nth(&f, EV_USER, 'c', 0)->status);
  ASSERT_RC(1, log_nth(&f, EV_USER, 'u', 0)->status);
  ASSERT_RC(1, log_nth(&f, EV_USER, 'v', 0)->status);
  ASSERT_STR_EQ("1 = 1+0+0 + 0+0+0", counts_text(f.s));
  ASSERT_U64(0, counts_of(f.s).runners);
  ASSERT_U64(1, counts_of(f.s).peak_runners);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S20 S21 S23 */
TEST bodies_on_the_loop_count_as_running_but_hold_no_runner(void) {
  struct fixture f;

  for (int concurrency = 0; concurrency < 2; concurrency++) {
    fixture_init(&f);
    f.options.concurrency = concurrency;
    CHECK_CALL(fixture_open(&f));
    uvs_task_t t = concurrency == 0 ? fixture_once(&f, 'a', 0) : fixture_loop_task(&f, 'a', 0);
    probe_of(&t)->act = log_counts;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_turn(&f);
    ASSERT_RC(1, log_nth(&f, EV_USER, 'r', 0)->status);
    ASSERT_RC(0, log_nth(&f, EV_USER, 'n', 0)->status);
    ASSERT_RC(0, log_nth(&f, EV_USER, 'c', 0)->status);
    ASSERT_STR_EQ("1 = 1+0+0 + 0+0+0", counts_text(f.s));
    ASSERT_U64(0, counts_of(f.s).peak_runners);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S21 S22 */
TEST each_outcome_is_counted_where_it_belongs(void) {
  struct fixture f;
  uvs_id_t waiting, pending;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  uvs_task_t ok = fixture_once(&f, 'o', 0);
  uvs_task_t bad = fixture_once(&f, 'b', 0);
  uvs_task_t stop = fixture_rate(&f, 's', 0, UVS_MS(1));
  uvs_task_t later = fixture_once(&f, 'l', UVS_MS(5));
  uvs_task_t hanging = fixture_once(&f, 'h', 0);
  probe_of(&bad)->ret = UV_EIO;
  probe_of(&stop)->ret = UVS_STOP;
  probe_of(&stop)->ret_from = 3;
  probe_of(&hanging)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &ok, NULL));
  ASSERT_STR_EQ("1 = 0+0+0 + 1+0+0", counts_text(f.s));
  ASSERT_RC(0, uvs_submit(f.s, &bad, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &stop, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &later, &waiting));
  ASSERT_RC(0, uvs_submit(f.s, &hanging, &pending));
  ASSERT_STR_EQ("5 = 0+0+0 + 5+0+0", counts_text(f.s));
  fixture_turn(&f);
  ASSERT_STR_EQ("5 = 1+1+0 + 2+0+1", counts_text(f.s));
  fixture_advance_ms(&f, 2);
  ASSERT_STR_EQ("5 = 2+1+0 + 1+0+1", counts_text(f.s)); /* a run of a periodic task is no task */
  ASSERT_U64(6, counts_of(f.s).runs);
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, waiting, 0));
  ASSERT_STR_EQ("5 = 2+1+1 + 0+0+1", counts_text(f.s));
  ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, uvs_cancel(f.s, pending, 0));
  ASSERT_STR_EQ("5 = 2+1+2 + 0+0+0", counts_text(f.s)); /* cancelled ones do not count as running */
  ASSERT_RC(UVS_CANCELLED_BEFORE, uvs_cancel(f.s, pending, 0)); /* and only once as cancelled */
  ASSERT_RC(0, uvs_finish(f.s, pending, 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("5 = 2+1+2 + 0+0+0", counts_text(f.s));
  ASSERT_RC(0, uvs_shutdown(f.s));
  fixture_turn(&f);
  ASSERT_RC(1, uvs_is_terminated(f.s));
  ASSERT_STR_EQ("5 = 2+1+2 + 0+0+0", counts_text(f.s));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S20 S29 */
TEST a_cancelled_ready_task_is_no_longer_counted_as_ready(void) {
  struct fixture f;
  uvs_id_t ids[4];

  for (int on_loop = 0; on_loop < 2; on_loop++) { /* ready for a runner, ready for the loop */
    fixture_init(&f);
    f.options.concurrency = on_loop ? 0 : 2;
    f.options.budget_ns = UVS_US(1);
    CHECK_CALL(fixture_open(&f));
    fakepool_hold();
    for (int i = 0; i < 4; i++) {
      uvs_task_t t = fixture_once(&f, 'a' + i, 0);
      probe_of(&t)->takes_ns = on_loop ? UVS_MS(1) : 0; /* the budget of a pass is enough for one */
      ASSERT_RC(0, uvs_submit(f.s, &t, &ids[i]));
    }
    fakepool_pin();
    for (int i = 0; i < 10 && counts_of(f.s).ready == 0; i++)
      uv_run(&f.loop, UV_RUN_NOWAIT);
    fakepool_unpin();
    uint64_t ready = counts_of(f.s).ready;
    ASSERT_U64(on_loop ? 3 : 4, ready);
    ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, ids[2], 0));
    ASSERT_U64(ready - 1, counts_of(f.s).ready);
    ASSERT_STR_EQ(on_loop ? "4 = 1+0+1 + 0+2+0" : "4 = 0+0+1 + 0+3+0", counts_text(f.s));
    fakepool_release();
    fixture_turn(&f);
    ASSERT_STR_EQ("abd", log_string(&f, EV_WORK));
    ASSERT_STR_EQ("4 = 3+0+1 + 0+0+0", counts_text(f.s));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S22 S18 */
TEST a_refused_submission_raises_the_rejected_count_and_no_other(void) {
  struct fixture f;

  fixture_init(&f);
  f.options.max_pending = 1;
  CHECK_CALL(fixture_open(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(5));
  uvs_task_t bad = t;
  bad.work = NULL;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT_RC(UV_EAGAIN, uvs_submit(f.s, &t, NULL));
  ASSERT_STR_EQ("1 = 0+0+0 + 1+0+0", counts_text(f.s));
  ASSERT_U64(1, counts_of(f.s).rejected);
  ASSERT_RC(UV_EINVAL, uvs_submit(f.s, &bad, NULL));
  ASSERT_U64(1, counts_of(f.s).rejected); /* an argument error is no refusal */
  ASSERT_RC(0, uvs_shutdown(f.s));
  ASSERT_RC(UV_ESHUTDOWN, uvs_submit(f.s, &t, NULL));
  ASSERT_STR_EQ("1 = 0+0+0 + 1+0+0", counts_text(f.s));
  ASSERT_U64(2, counts_of(f.s).rejected);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* A body that blocks until all bodies of the meeting have come. */
struct meeting {
  uv_mutex_t lock;
  uv_cond_t cond;
  int here, wanted, left;
  bool open;
};

static struct meeting meeting;

static int meet(struct probe *p, uvs_run_t *run) {
  int64_t end_ns = (int64_t)uv_hrtime() + PATIENCE_NS;
  int rc = 0;

  (void)p;
  uvs_clock_changed(run->scheduler);
  uv_mutex_lock(&meeting.lock);
  if (++meeting.here >= meeting.wanted)
    uv_cond_broadcast(&meeting.cond);
  while (!meeting.open && rc == 0) {
    uv_cond_timedwait(&meeting.cond, &meeting.lock, (uint64_t)UVS_MS(100));
    if ((int64_t)uv_hrtime() > end_ns)
      rc = UV_ETIMEDOUT;
  }
  uv_mutex_unlock(&meeting.lock);
  return rc;
}

static void meeting_init(int wanted) {
  static bool made;

  if (!made) {
    uv_mutex_init(&meeting.lock);
    uv_cond_init(&meeting.cond);
    made = true;
  }
  meeting.here = 0;
  meeting.wanted = wanted;
  meeting.open = false;
}

static void meeting_end(void) {
  uv_mutex_lock(&meeting.lock);
  meeting.open = true;
  uv_cond_broadcast(&meeting.cond);
  uv_mutex_unlock(&meeting.lock);
}

/* S24 S23 S20 */
TEST n_bodies_at_once_give_a_peak_of_n_that_survives_termination(void) {
  struct fixture f;

  for (int n = 1; n <= 4; n++) {
    fixture_init(&f);
    f.pool = FAKEPOOL_REAL;
    f.options.concurrency = n;
    CHECK_CALL(fixture_open(&f));
    meeting_init(n);
    for (int i = 0; i < n + 2; i++) {
      uvs_task_t t = fixture_once(&f, 'a', 0);
      probe_of(&t)->act = meet;
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    }
    ASSERT(fixture_wait_log(&f, EV_WORK, 'a', (unsigned)n));
    uvs_counts_t c = counts_of(f.s);
    ASSERT_U64((unsigned)n, c.running);
    ASSERT_U64((unsigned)n, c.runners);
    ASSERT_U64((unsigned)n, c.peak_runners);
    ASSERT_U64(2, c.ready);
    ASSERT_U64(0, c.completed);
    meeting_end();
    ASSERT_RC(0, uvs_shutdown(f.s));
    ASSERT(fixture_wait_log(&f, EV_TERMINATED, 0, 1));
    c = counts_of(f.s);
    ASSERT_U64((unsigned)n, c.peak_runners);
    ASSERT_U64(0, c.runners);
    ASSERT_U64((unsigned)n + 2, c.completed);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S24b */
TEST ten_tasks_one_after_the_other_give_a_peak_of_one(void) {
  struct fixture f;

  for (int round = 0; round < 20; round++) {
    fixture_init(&f);
    f.pool = round % 2 == 0 ? FAKEPOOL_REAL : FAKEPOOL_STEPPED;
    f.options.concurrency = 3;
    CHECK_CALL(fixture_open(&f));
    for (unsigned i = 1; i <= 10; i++) {
      uvs_task_t t = fixture_once(&f, 'a', 0);
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
      ASSERT(fixture_wait_log(&f, EV_DONE, 'a', i));
      ASSERT_U64(i, counts_of(f.s).completed);
      ASSERT_U64(1, counts_of(f.s).peak_runners);
    }
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* The submitter itself waits, on another thread: it sees `completed` rise and submits the next task
 * at once. */
struct relay {
  uvs_t *s;
  int tasks;
  _Atomic int over;
  int rc;
};

static void relay_main(void *arg) {
  struct relay *r = arg;
  int64_t end_ns = (int64_t)uv_hrtime() + PATIENCE_NS;

  for (int i = 1; i <= r->tasks && r->rc == 0; i++) {
    r->rc = uvs_execute(r->s, work_nothing, NULL);
    while (r->rc == 0 && counts_of(r->s).completed < (uint64_t)i)
      if ((int64_t)uv_hrtime() > end_ns)
        r->rc = UV_ETIMEDOUT;
  }
  atomic_store(&r->over, 1);
  uvs_clock_changed(r->s);
}

/* S24b */
TEST a_runner_is_free_as_soon_as_its_task_counts_as_completed(void) {
  struct fixture f;
  struct relay r;
  uv_thread_t thread;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.options.concurrency = 3;
  f.options.keep_alive = UVS_KEEP_ALIVE_ALWAYS;
  CHECK_CALL(fixture_open(&f));
  r = (struct relay){f.s, 500, 0, 0};
  ASSERT_RC(0, uv_thread_create(&thread, relay_main, &r));
  ASSERT(fixture_wait_flag(&f, &r.over));
  uv_thread_join(&thread);
  ASSERT_RC(0, r.rc);
  ASSERT_U64(500, counts_of(f.s).completed);
  ASSERT_U64(1, counts_of(f.s).peak_runners);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S22 S66 */
TEST runs_and_missed_points_are_counted_separately_from_tasks(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_MS(10));
  t.missed_policy = UVS_MISSED_ONCE;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_jump_ms(&f, 0);
  fixture_jump_ms(&f, 45); /* 10, 20, 30, 40: one run stands for them */
  ASSERT_U64(2, counts_of(f.s).runs);
  ASSERT_U64(3, counts_of(f.s).missed);
  ASSERT_STR_EQ("1 = 0+0+0 + 1+0+0", counts_text(f.s));
  ASSERT_U64(3, look_at(f.s, id).info.missed);
  ASSERT_U64(2, look_at(f.s, id).info.runs);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S27 D16 */
TEST the_snapshot_lists_waiting_and_running_tasks_by_state(void) {
  struct fixture f;
  uvs_id_t running;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  uvs_task_t p = fixture_once(&f, 'p', 0);
  probe_of(&p)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &p, &running));
  fixture_turn(&f);
  fakepool_hold();
  uvs_task_t ready = fixture_once(&f, 'r', 0);
  uvs_task_t due = fixture_once(&f, 'd', UVS_MS(10));
  uvs_task_t never = fixture_once(&f, 'n', UVS_NEVER);
  ASSERT_RC(0, uvs_submit(f.s, &ready, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &due, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &never, NULL));
  fixture_turn(&f);
  ASSERT_RC(0, uvs_each(f.s, each_logs_state, &f));
  ASSERT_U64(4, log_count(&f, EV_USER, 0)); /* each one once */
  ASSERT_RC(UVS_RUNNING, log_nth(&f, EV_USER, 'p', 0)->status);
  ASSERT_RC(UVS_READY, log_nth(&f, EV_USER, 'r', 0)->status);
  ASSERT_RC(UVS_WAITING, log_nth(&f, EV_USER, 'd', 0)->status);
  ASSERT_RC(UVS_WAITING, log_nth(&f, EV_USER, 'n', 0)->status);
  ASSERT_STR_EQ("4 = 0+0+0 + 2+1+1", counts_text(f.s));
  log_clear(&f);
  fakepool_release();
  fixture_turn(&f);
  ASSERT_RC(0, uvs_finish(f.s, running, 0));
  fixture_turn(&f);
  ASSERT_RC(0, uvs_each(f.s, each_logs_state, &f));
  ASSERT_U64(0, log_count(&f, EV_USER, 'p') + log_count(&f, EV_USER, 'r'));
  ASSERT_U64(2, log_count(&f, EV_USER, 0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S28 S29 D12 */
TEST cancelling_succeeds_once_and_only_before_the_run_and_spares_other_tasks(void) {
  struct fixture f;
  uvs_id_t ids[5], running;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  uvs_task_t p = fixture_once(&f, 'p', 0);
  probe_of(&p)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &p, &running));
  for (int i = 0; i < 5; i++) {
    uvs_task_t t = fixture_once(&f, 'a' + i, UVS_MS(10));
    ASSERT_RC(0, uvs_submit(f.s, &t, &ids[i]));
  }
  fixture_turn(&f);
  for (int i = 4; i >= 0; i -= 2) {
    uint64_t before = counts_of(f.s).waiting;
    ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, ids[i], UVS_CANCEL_IF_WAITING));
    ASSERT_U64(before - 1, counts_of(f.s).waiting); /* already */
    ASSERT_RC(UV_ENOENT, uvs_cancel(f.s, ids[i], UVS_CANCEL_IF_WAITING));
    ASSERT_U64(before - 1, counts_of(f.s).waiting);
  }
  ASSERT_RC(UV_EBUSY, uvs_cancel(f.s, running, UVS_CANCEL_IF_WAITING));
  ASSERT_RC(0, look_at(f.s, running).info.cancelled);
  ASSERT_RC(UV_EINVAL, uvs_cancel(f.s, ids[1], 8));
  fixture_advance_ms(&f, 10);
  ASSERT_STR_EQ("pbd", log_string(&f, EV_WORK));
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'b', 0)->status);
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'd', 0)->status);
  ASSERT_RC(0, uvs_finish(f.s, running, 0));
  fixture_turn(&f);
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'p', 0)->status);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

struct act_elsewhere {
  uvs_t *s;
  uvs_id_t id;
  int rc;
  uint64_t waiting_before, waiting_after;
};

static void cancel_main(void *arg) {
  struct act_elsewhere *a = arg;

  a->waiting_before = counts_of(a->s).waiting;
  a->rc = uvs_cancel(a->s, a->id, 0);
  a->waiting_after = counts_of(a->s).waiting;
}

/* S29 S28 */
TEST a_cancel_on_another_thread_lowers_the_count_before_it_returns(void) {
  struct fixture f;
  uv_thread_t thread;

  for (int seen = 0; seen < 2; seen++) { /* also of a task that the loop has not yet seen */
    fixture_init(&f);
    CHECK_CALL(fixture_open(&f));
    uvs_task_t t = fixture_once(&f, 'a', UVS_MS(10));
    uvs_task_t u = fixture_once(&f, 'b', UVS_MS(10));
    struct act_elsewhere a = {f.s, 0, 0, 0, 0};
    ASSERT_RC(0, uvs_submit(f.s, &t, &a.id));
    ASSERT_RC(0, uvs_submit(f.s, &u, NULL));
    if (seen)
      fixture_turn(&f);
    ASSERT_RC(0, uv_thread_create(&thread, cancel_main, &a));
    uv_thread_join(&thread);
    ASSERT_RC(UVS_CANCELLED, a.rc);
    ASSERT_U64(2, a.waiting_before);
    ASSERT_U64(1, a.waiting_after);
    ASSERT_STR_EQ("2 = 0+0+1 + 1+0+0", counts_text(f.s));
    fixture_advance_ms(&f, 10);
    ASSERT_STR_EQ("b", log_string(&f, EV_WORK));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* ------------------------------------------------- the sum holds at every instant --- */

struct crowd {
  uvs_t *s;
  uint64_t seed;
  int rounds;
  _Atomic int *stop;
  uint64_t accepted, refused;
};

struct sampler {
  uvs_t *s;
  _Atomic int stop;
  uint64_t samples, wrong, backwards;
  uvs_counts_t bad;
};

static void sampler_main(void *arg) {
  struct sampler *m = arg;
  uvs_counts_t last;

  uvs_counts_init(&last);
  while (!atomic_load(&m->stop)) {
    uvs_counts_t c = counts_of(m->s);
    m->samples++;
    if (!adds_up(&c) || c.runners > c.peak_runners || c.running + c.ready > c.submitted) {
      m->wrong++;
      m->bad = c;
    }
    /* The counts of ended tasks never decrease. */
    if (c.completed < last.completed || c.failed < last.failed || c.cancelled < last.cancelled ||
        c.runs < last.runs || c.rejected < last.rejected || c.peak_runners < last.peak_runners ||
        c.submitted < last.submitted || c.heap_ops < last.heap_ops || c.wakeups < last.wakeups) {
      m->backwards++;
      m->bad = c;
    }
    last = c;
  }
}

static int some_body(uvs_run_t *run) {
  uint64_t n = (uint64_t)(uintptr_t)run->arg;

  return n % 5 == 0 ? UV_EIO : run->number >= 3 ? UVS_STOP : 0;
}

static void crowd_main(void *arg) {
  struct crowd *m = arg;
  uvs_id_t ids[16] = {0};

  for (int i = 0; i < m->rounds; i++) {
    uint64_t pick = test_random_below(&m->seed, 16);
    uvs_task_t t;
    uvs_task_init(&t);
    t.kind = (int)test_random_below(&m->seed, 3);
    t.period_ns = t.kind == UVS_ONE_SHOT ? 0 : UVS_US(50);
    t.first_ns = (int64_t)test_random_below(&m->seed, (uint64_t)UVS_US(300));
    t.arg = (void *)(uintptr_t)test_random_below(&m->seed, 100);
    if (pick % 4 == 0)
      t.after = some_body;
    else
      t.work = some_body;
    uvs_cancel(m->s, ids[pick], pick % 2 == 0 ? UVS_CANCEL_TOKEN : 0);
    int rc = uvs_submit(m->s, &t, &ids[pick]);
    m->accepted += rc == 0;
    m->refused += rc < 0;
    uvs_reschedule(m->s, ids[(pick + 7) % 16], UVS_US(100));
  }
}

/* S20 S22 S29 */
TEST the_counts_add_up_at_every_instant(void) {
  enum { CROWDS = 2 };
  struct fixture f;
  struct sampler m;
  struct crowd crowds[CROWDS];
  uv_thread_t sampling, threads[CROWDS];
  static _Atomic int over;
  uint64_t accepted = 0, refused = 0;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.real_clock = true;
  f.options.concurrency = 3;
  f.options.keep_alive = UVS_KEEP_ALIVE_ALWAYS;
  f.options.periodic_after_shutdown = 1;
  f.options.on_error = NULL;
  CHECK_CALL(fixture_open(&f));
  memset(&m, 0, sizeof m);
  m.s = f.s;
  ASSERT_RC(0, uv_thread_create(&sampling, sampler_main, &m));
  for (int i = 0; i < CROWDS; i++) {
    crowds[i] = (struct crowd){f.s, test_seed + (uint64_t)i + 1, 5000, &over, 0, 0};
    ASSERT_RC(0, uv_thread_create(&threads[i], crowd_main, &crowds[i]));
  }
  /* The loop runs meanwhile, until the threads have ended by themselves. */
  uint64_t rounds = 0;
  while (counts_of(f.s).submitted < (uint64_t)CROWDS * 5000 && rounds++ < 10000000)
    fixture_turn(&f);
  for (int i = 0; i < CROWDS; i++) {
    uv_thread_join(&threads[i]);
    accepted += crowds[i].accepted;
    refused += crowds[i].refused;
  }
  ASSERT_RC(0, uvs_shutdown(f.s));
  ASSERT(fixture_wait_log(&f, EV_TERMINATED, 0, 1));
  atomic_store(&m.stop, 1);
  uv_thread_join(&sampling);
  uvs_counts_t c = counts_of(f.s);
  ASSERT(m.samples > 0);
  ASSERT_U64(0, m.wrong);
  ASSERT_U64(0, m.backwards);
  ASSERT_U64(accepted, c.submitted);
  ASSERT_U64(refused, c.rejected);
  ASSERT_U64(c.submitted, c.completed + c.failed + c.cancelled);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static void few_sampler_main(void *arg) {
  struct sampler *m = arg;
  uint64_t submitted = 0;

  while (!atomic_load(&m->stop)) {
    uvs_counts_t c = counts_of(m->s);

    m->samples++;
    m->wrong += !adds_up(&c) || c.waiting < 3 || c.waiting > 4 || c.ready + c.running > 0;
    m->backwards += c.submitted < submitted;
    submitted = c.submitted;
  }
}

/* V9. Tasks that the loop arms and cancels: three or four wait at every instant. */
TEST the_counts_of_the_loops_own_tasks_add_up_at_every_instant(void) {
  enum { ROUNDS = 200000 };
  struct fixture f;
  struct sampler m;
  uvs_id_t id[4];
  uv_thread_t sampling;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  for (int i = 0; i < 3; i++)
    ASSERT_RC(0, uvs_schedule(f.s, UVS_HOUR(1), some_body, NULL, &id[i]));
  memset(&m, 0, sizeof m);
  m.s = f.s;
  ASSERT_RC(0, uv_thread_create(&sampling, few_sampler_main, &m));
  for (int i = 0; i < ROUNDS; i++) {
    ASSERT_RC(0, uvs_schedule(f.s, UVS_HOUR(1), some_body, NULL, &id[3]));
    ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id[i % 3], 0));
    id[i % 3] = id[3];
  }
  atomic_store(&m.stop, 1);
  uv_thread_join(&sampling);
  ASSERT(m.samples > 0);
  ASSERT_U64(0, m.wrong);
  ASSERT_U64(0, m.backwards);
  ASSERT_U64(ROUNDS + 3, counts_of(f.s).submitted);
  ASSERT_U64(ROUNDS, counts_of(f.s).cancelled);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S22 S18 */
TEST the_counts_add_up_and_never_decrease_while_submissions_are_refused(void) {
  enum { CROWDS = 2 };
  struct fixture f;
  struct sampler m;
  struct crowd crowds[CROWDS];
  uv_thread_t sampling, threads[CROWDS];
  uint64_t accepted = 0, refused = 0;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.real_clock = true;
  f.options.keep_alive = UVS_KEEP_ALIVE_ALWAYS;
  f.options.max_pending = 4;
  f.options.on_error = NULL;
  CHECK_CALL(fixture_open(&f));
  memset(&m, 0, sizeof m);
  m.s = f.s;
  ASSERT_RC(0, uv_thread_create(&sampling, sampler_main, &m));
  for (int i = 0; i < CROWDS; i++) {
    crowds[i] = (struct crowd){f.s, test_seed + (uint64_t)i + 1, 5000, NULL, 0, 0};
    ASSERT_RC(0, uv_thread_create(&threads[i], crowd_main, &crowds[i]));
  }
  uint64_t rounds = 0;
  for (;;) {
    uvs_counts_t c = counts_of(f.s);
    if (c.submitted + c.rejected >= (uint64_t)CROWDS * 5000 || rounds++ == 10000000)
      break;
    fixture_turn(&f);
  }
  for (int i = 0; i < CROWDS; i++) {
    uv_thread_join(&threads[i]);
    accepted += crowds[i].accepted;
    refused += crowds[i].refused;
  }
  ASSERT_RC(0, uvs_shutdown_now(f.s, NULL, NULL));
  ASSERT(fixture_wait_log(&f, EV_TERMINATED, 0, 1));
  atomic_store(&m.stop, 1);
  uv_thread_join(&sampling);
  uvs_counts_t c = counts_of(f.s);
  ASSERT(refused > 0);
  ASSERT_U64(0, m.wrong);
  ASSERT_U64(0, m.backwards); /* not even for a moment does a refused one count as submitted */
  ASSERT_U64(accepted, c.submitted);
  ASSERT_U64(refused, c.rejected);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* --------------------------------------------------------------------- the cap --- */

/* P5 S11 T8 T9 T10 */
TEST the_cap_is_exact_and_every_ended_task_makes_room(void) {
  enum { CAP = 10 };
  struct fixture f;
  uvs_id_t ids[CAP], x = 7;

  fixture_init(&f);
  f.options.max_pending = CAP;
  CHECK_CALL(fixture_open(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(10));
  for (int i = 0; i < CAP; i++)
    ASSERT_RC(0, uvs_submit(f.s, &t, &ids[i]));
  /* Every submitting call is refused. */
  struct probe *p = fixture_probe(&f, 'x');
  ASSERT_RC(UV_EAGAIN, uvs_submit(f.s, &t, &x));
  ASSERT_RC(UV_EAGAIN, uvs_submit_many(f.s, &t, 1, &x));
  ASSERT_RC(UV_EAGAIN, uvs_execute(f.s, probe_work, p));
  ASSERT_RC(UV_EAGAIN, uvs_schedule(f.s, 0, probe_work, p, &x));
  ASSERT_RC(UV_EAGAIN, uvs_schedule_at_fixed_rate(f.s, 0, 1, probe_work, p, &x));
  ASSERT_RC(UV_EAGAIN, uvs_schedule_with_fixed_delay(f.s, 0, 1, probe_work, p, &x));
  ASSERT_RC(UV_EAGAIN, uvs_schedule_at(f.s, 0, probe_work, p, &x));
  ASSERT_U64(7, x);
  ASSERT_U64(7, counts_of(f.s).rejected);
  /* A cancel makes room for one task immediately. */
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, ids[3], 0));
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT_RC(UV_EAGAIN, uvs_submit(f.s, &t, NULL));
  /* An ended task makes room, too. A run after which the task goes on does not. */
  uvs_task_t rate = fixture_rate(&f, 'r', UVS_MS(10), UVS_MS(10));
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, ids[4], 0));
  ASSERT_RC(0, uvs_submit(f.s, &rate, NULL));
  fixture_advance_ms(&f, 10);
  ASSERT_U64(CAP - 1, log_count(&f, EV_WORK, 'a'));
  ASSERT_U64(1, log_count(&f, EV_WORK, 'r'));
  for (int i = 0; i < CAP - 1; i++)
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT_RC(UV_EAGAIN, uvs_submit(f.s, &t, NULL));
  ASSERT_U64(0, log_count(&f, 0, 'x'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* P5 */
TEST a_batch_is_accepted_all_or_none_under_the_cap(void) {
  struct fixture f;
  uvs_task_t many[6];
  uvs_id_t ids[6] = {1, 2, 3, 4, 5, 6};

  fixture_init(&f);
  f.options.max_pending = 8;
  CHECK_CALL(fixture_open(&f));
  for (int i = 0; i < 6; i++)
    many[i] = fixture_once(&f, 'a' + i, UVS_MS(10));
  ASSERT_RC(0, uvs_submit_many(f.s, many, 3, NULL));
  ASSERT_RC(UV_EAGAIN, uvs_submit_many(f.s, many, 6, ids));
  for (int i = 0; i < 6; i++)
    ASSERT_U64((unsigned)i + 1, ids[i]);
  ASSERT_STR_EQ("3 = 0+0+0 + 3+0+0", counts_text(f.s));
  ASSERT_U64(1, counts_of(f.s).rejected);
  ASSERT_RC(0, uvs_submit_many(f.s, many, 5, ids));
  ASSERT_RC(UV_EAGAIN, uvs_submit(f.s, many, NULL));
  fixture_advance_ms(&f, 10);
  ASSERT_STR_EQ("abcabcde", log_string(&f, EV_WORK));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* P5 */
TEST running_and_pending_tasks_count_for_the_cap_and_cancelled_ones_do_not(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  f.options.max_pending = 1;
  CHECK_CALL(fixture_open(&f));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  uvs_task_t u = fixture_once(&f, 'b', 0);
  probe_of(&t)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(UV_EAGAIN, uvs_submit(f.s, &u, NULL)); /* it waits */
  fakepool_hold();
  fixture_turn(&f);
  ASSERT_RC(UVS_READY, look_at(f.s, id).info.state);
  ASSERT_RC(UV_EAGAIN, uvs_submit(f.s, &u, NULL));
  fakepool_release();
  fixture_turn(&f);
  ASSERT_RC(UVS_RUNNING, look_at(f.s, id).info.state);
  ASSERT_RC(UV_EAGAIN, uvs_submit(f.s, &u, NULL));
  ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, uvs_cancel(f.s, id, 0));
  ASSERT_RC(0, uvs_submit(f.s, &u, NULL));
  fixture_turn(&f);
  ASSERT_RC(0, uvs_finish(f.s, id, 0));
  fixture_turn(&f);
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'b', 0)->status);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int hold_place(uvs_run_t *run) {
  (void)run;
  return UVS_PENDING;
}

struct rush {
  uvs_t *s;
  int accepted;
};

static void rush_main(void *arg) {
  struct rush *r = arg;

  for (int i = 0; i < 1000; i++)
    r->accepted += uvs_schedule(r->s, UVS_DAY(1), hold_place, NULL, NULL) == 0;
}

/* P5 */
TEST the_cap_is_exact_when_threads_compete_for_it(void) {
  enum { THREADS = 4, CAP = 777 };
  struct fixture f;
  struct rush r[THREADS];
  uv_thread_t threads[THREADS];
  int accepted = 0;

  fixture_init(&f);
  f.options.max_pending = CAP;
  CHECK_CALL(fixture_open(&f));
  for (int i = 0; i < THREADS; i++) {
    r[i] = (struct rush){f.s, 0};
    ASSERT_RC(0, uv_thread_create(&threads[i], rush_main, &r[i]));
  }
  for (int i = 0; i < THREADS; i++) {
    uv_thread_join(&threads[i]);
    accepted += r[i].accepted;
  }
  ASSERT_RC(CAP, accepted);
  ASSERT_U64(CAP, counts_of(f.s).waiting);
  ASSERT_U64(THREADS * 1000 - CAP, counts_of(f.s).rejected);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

TEST heap_operations_and_wake_ups_are_counted(void) {
  struct fixture f;
  uvs_counts_t before, now;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  before = counts_of(f.s);
  ASSERT_U64(0, before.heap_ops);
  ASSERT_U64(1, before.wakeups); /* uvs_open asked for one */
  uvs_task_t loop = fixture_loop_task(&f, 'l', UVS_MS(10));
  uvs_task_t wall = fixture_once(&f, 'w', VCLOCK_WALL_NS + UVS_MS(10));
  uvs_task_t limited = fixture_once(&f, 't', UVS_HOUR(1));
  wall.from = UVS_FROM_WALL;
  limited.limit.total_ns = UVS_SEC(1);
  ASSERT_RC(0, uvs_submit(f.s, &loop, &id));
  ASSERT_RC(0, uvs_submit(f.s, &wall, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &limited, NULL));
  now = counts_of(f.s);
  ASSERT_U64(3, now.heap_ops); /* in */
  ASSERT_U64(before.wakeups, now.wakeups);
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, 0));
  ASSERT_U64(4, counts_of(f.s).heap_ops); /* out */
  fixture_turn(&f);
  ASSERT_U64(before.wakeups + 1, counts_of(f.s).wakeups); /* for its `done` */
  fixture_advance_ms(&f, 10);
  ASSERT_U64(5, counts_of(f.s).heap_ops);
  fixture_advance_ns(&f, UVS_HOUR(1));
  ASSERT_U64(8, counts_of(f.s).heap_ops); /* out, and its limit in and out */
  now = counts_of(f.s);
  fixture_turn(&f);
  ASSERT_U64(now.wakeups,
             counts_of(f.s).wakeups); /* a pass that the scheduler did not ask for does not count */
  ASSERT_STR_EQ("wt", log_string(&f, EV_WORK));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(counting) {
  RUN_TEST(counts_are_right_before_inside_and_after_the_first_body);
  RUN_TEST(bodies_on_the_loop_count_as_running_but_hold_no_runner);
  RUN_TEST(each_outcome_is_counted_where_it_belongs);
  RUN_TEST(a_cancelled_ready_task_is_no_longer_counted_as_ready);
  RUN_TEST(a_refused_submission_raises_the_rejected_count_and_no_other);
  RUN_TEST(n_bodies_at_once_give_a_peak_of_n_that_survives_termination);
  RUN_TEST(ten_tasks_one_after_the_other_give_a_peak_of_one);
  RUN_TEST(a_runner_is_free_as_soon_as_its_task_counts_as_completed);
  RUN_TEST(runs_and_missed_points_are_counted_separately_from_tasks);
  RUN_TEST(the_snapshot_lists_waiting_and_running_tasks_by_state);
  RUN_TEST(cancelling_succeeds_once_and_only_before_the_run_and_spares_other_tasks);
  RUN_TEST(a_cancel_on_another_thread_lowers_the_count_before_it_returns);
  RUN_TEST(heap_operations_and_wake_ups_are_counted);
  RUN_TEST(the_counts_add_up_at_every_instant);
  RUN_TEST(the_counts_of_the_loops_own_tasks_add_up_at_every_instant);
  RUN_TEST(the_counts_add_up_and_never_decrease_while_submissions_are_refused);
}

SUITE(cap) {
  RUN_TEST(the_cap_is_exact_and_every_ended_task_makes_room);
  RUN_TEST(a_batch_is_accepted_all_or_none_under_the_cap);
  RUN_TEST(running_and_pending_tasks_count_for_the_cap_and_cancelled_ones_do_not);
  RUN_TEST(the_cap_is_exact_when_threads_compete_for_it);
}

/* Blocking bodies need enough threads in libuv's pool, whatever the environment says. */
TEST_MAIN(uv_os_setenv("UV_THREADPOOL_SIZE", "5"); RUN_SUITE(counting); RUN_SUITE(cap));
