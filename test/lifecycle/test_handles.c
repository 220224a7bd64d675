/* SPDX-License-Identifier: MIT
 *
 * The scheduler's handles and pool requests, and what happens when others close the handles.
 */
#include <stdlib.h>

#include "uvsched/lane.h"

#include "lib/bodies.h"
#include "lib/fixture.h"
#include "lib/threads.h"

/* --------------------------------------------------------------------- L13 --- */

static uint64_t ms_up(int64_t ns) {
  return ns <= UVS_MS(1) ? 1 : (uint64_t)((ns + UVS_MS(1) - 1) / UVS_MS(1));
}

/* Was the timer last started (not before since_ns) for the first deadline? */
static bool armed_for_head(struct fixture *f, int64_t since_ns) {
  struct fakepool_timer_start last = fakepool_seen().last;
  int64_t due_ns;

  return uvs_next_due(f->s, &due_ns) == 0 &&
         last.handle == (const uv_timer_t *)find_handles(&f->loop, f->s).timer &&
         last.timeout_ms >= ms_up(due_ns - (int64_t)last.at_ns) &&
         last.timeout_ms <= ms_up(due_ns - since_ns);
}

/* L13 */
TEST the_timer_is_always_started_for_the_first_deadline(void) {
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
  for (int i = 0; i < 200; i++) { /* none comes due: the loop does not run */
    int64_t since_ns = (int64_t)uv_hrtime();
    int64_t at_ns = since_ns + (int64_t)test_random_below(&random, (uint64_t)UVS_MS(700));
    uint64_t starts = fakepool_seen().timer_starts;
    uvs_task_t t = fixture_once(&f, 'a', at_ns + UVS_MS(200));

    t.from = UVS_FROM_MONOTONIC;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    if (t.first_ns < nearest_ns) {
      nearest_ns = t.first_ns;
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
    /* Unless the machine is so slow that the first task has come due meanwhile. */
    ASSERT(armed_for_head(&f, since_ns) || (int64_t)uv_hrtime() >= nearest_ns);
  }
  ASSERT_U64(1, fakepool_seen().timer_inits);
  ASSERT_U64(1, fakepool_seen().async_inits);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L13 */
TEST the_timer_is_restarted_for_a_wall_clock_task_that_is_moved_earlier(void) {
  struct fixture f;
  uint64_t starts;
  uvs_id_t id;

  fixture_init(&f);
  f.real_clock = true;
  f.pool = FAKEPOOL_REAL;
  CHECK_CALL(fixture_open(&f));
  fixture_turn(&f);
  uvs_task_t near = fixture_once(&f, 'a', UVS_HOUR(1));
  uvs_task_t wall = fixture_once(&f, 'b', UVS_NEVER);
  wall.from = UVS_FROM_WALL;
  ASSERT_RC(0, uvs_submit(f.s, &near, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &wall, &id));
  starts = fakepool_seen().timer_starts;
  ASSERT_RC(0, uvs_reschedule(f.s, id, UVS_MS(200)));
  ASSERT_U64(starts + 1, fakepool_seen().timer_starts);
  ASSERT(fakepool_seen().last.timeout_ms <= 200);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L13 */
TEST a_scheduler_has_one_timer_one_async_and_no_other_handle(void) {
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
    w = find_handles(&f.loop, f.s);
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
TEST at_most_concurrency_work_requests_are_outstanding(void) {
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
      ASSERT_RC(0, uvs_execute(f.s, work_nothing, NULL));
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
  ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, uvs_cancel(f.s, probe_of(&c)->id, UVS_CANCEL_TOKEN));
  ASSERT(fixture_wait_log(&f, EV_WORK, 'b', 1));
  ASSERT_U64(1, log_count(&f, EV_WORK, 'a'));
  ASSERT_RC(log_nth(&f, EV_WORK, 'a', 0)->runner, log_nth(&f, EV_WORK, 'b', 0)->runner);
  ASSERT_RC(0, uvs_set_concurrency(f.s, 2));
  for (unsigned i = 2; i < 20; i++) {
    fixture_jump_ms(&f, 1);
    ASSERT(fixture_wait_log(&f, EV_WORK, 'a', i));
  }
  ASSERT_U64(0, log_count(&f, EV_DONE, 'b'));
  ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, uvs_cancel(f.s, endless_id, UVS_CANCEL_TOKEN));
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
TEST a_cancel_on_another_thread_makes_the_loop_call_done_promptly(void) {
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
  ASSERT_RC(UVS_CANCELLED, cancel_elsewhere(f.s, b));
  fixture_turn(&f);
  ASSERT_STR_EQ("b", log_string(&f, EV_DONE));
  ASSERT_RC(UVS_CANCELLED, cancel_elsewhere(f.s, a));
  fixture_turn(&f);
  ASSERT_STR_EQ("ba", log_string(&f, EV_DONE));
  ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 0)->status);
  ASSERT_U64(0, log_count(&f, EV_WORK, 0));
  /* The same for a task that the loop has not seen yet, and for which nobody woke it. */
  ASSERT_RC(0, submit_elsewhere(f.s, fixture_once(&f, 'd', UVS_NEVER), &a));
  ASSERT_RC(UVS_CANCELLED, cancel_elsewhere(f.s, a));
  fixture_turn(&f);
  ASSERT_STR_EQ("bad", log_string(&f, EV_DONE));
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
  p.t.first_ns = UVS_NEVER;
  p.t.work = work_nothing;
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
  enum phase phase; /* where in the pass */
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
  t.work = work_nothing;
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
    fixture_turn_until_closed(&f);
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
TEST close_finishes_if_others_closed_its_handles_in_an_earlier_pass(void) {
  CHECK_CALL(survive_wrecks(true, false));
  CHECK_CALL(survive_wrecks(true, true));
  PASS();
}

/* L2 L5 */
TEST close_finishes_if_others_closed_its_handles_in_the_same_pass(void) {
  CHECK_CALL(survive_wrecks(false, false));
  CHECK_CALL(survive_wrecks(false, true));
  PASS();
}

/* L2 L5 */
TEST close_finishes_if_others_close_its_handles_after_uvs_close(void) {
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
TEST close_finishes_if_others_closed_the_wall_clock_handle(void) {
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
    if (phase == 0) { /* in the same pass as the end of close */
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
TEST a_scheduler_whose_handles_others_closed_refuses_calls_until_closed(void) {
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
  ASSERT_RC(UV_ESHUTDOWN, uvs_execute(f.s, work_nothing, NULL));
  ASSERT_RC(UV_ESHUTDOWN, uvs_schedule(f.s, 0, work_nothing, NULL, &id));
  ASSERT_RC(UV_ESHUTDOWN, submit_elsewhere(f.s, t, NULL));
  ASSERT_U64(5, id);
  ASSERT_RC(0, uvs_clock_changed(f.s)); /* nothing is sent to a closed handle */
  fixture_turn(&f);
  ASSERT_U64(0, log_total(&f));
  CHECK_CALL(fixture_close(&f)); /* one done */
  PASS();
}

/* ------------------------------------------------------------------ refusals --- */

/* Only the scheduler itself causes the loop pass that tries again. */
static enum greatest_test_res refused_and_tried_again(unsigned works, unsigned timer_starts,
                                                      int64_t delay_ns) {
  unsigned dones;
  struct fixture f;

  fixture_init(&f);
  f.real_clock = true;
  f.pool = FAKEPOOL_REAL;
  CHECK_CALL(fixture_open_turned(&f));
  fakepool_refuse_next(works, timer_starts);
  for (int i = 0; i < 3; i++) {
    uvs_task_t t = fixture_once(&f, 'a', delay_ns * i);
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  ASSERT(fixture_run(&f, UV_RUN_DEFAULT, &dones));
  ASSERT_U64(3, dones);
  ASSERT_U64(3, log_count(&f, EV_WORK, 'a'));
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'a', 0)->status);
  fakepool_refuse_next(0, 0);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

TEST a_call_that_libuv_refuses_is_repeated_by_the_scheduler_itself(void) {
  CHECK_CALL(refused_and_tried_again(1, 0, 0)); /* the first runner */
  CHECK_CALL(refused_and_tried_again(5, 0, 0));
  CHECK_CALL(refused_and_tried_again(2, 0, UVS_MS(2))); /* and in a dispatch-only pass */
  CHECK_CALL(refused_and_tried_again(0, 1, UVS_MS(2))); /* the timer */
  CHECK_CALL(refused_and_tried_again(0, 5, UVS_MS(2)));
  PASS();
}

SUITE(handles_and_pool) {
  RUN_TEST(the_timer_is_always_started_for_the_first_deadline);
  RUN_TEST(the_timer_is_restarted_for_a_wall_clock_task_that_is_moved_earlier);
  RUN_TEST(a_scheduler_has_one_timer_one_async_and_no_other_handle);
  RUN_TEST(with_default_options_every_body_runs_inside_a_uv_queue_work_callback);
  RUN_TEST(at_most_concurrency_work_requests_are_outstanding);
  RUN_TEST(a_finished_run_is_never_stuck_behind_a_long_one_on_the_same_runner);
  RUN_TEST(a_done_is_never_stuck_behind_a_long_body_on_the_same_runner);
  RUN_TEST(a_cancel_on_another_thread_makes_the_loop_call_done_promptly);
  RUN_TEST(a_producer_with_a_reference_may_call_during_and_after_close);
  RUN_TEST(a_call_that_libuv_refuses_is_repeated_by_the_scheduler_itself);
}

static void ignore_cleanup(uvs_t *s, void *arg) {
  (void)s, (void)arg;
}

static int call_on_the_loop(int which, uvs_t *s, uvs_id_t id, uvs_lane_t lane) {
  switch (which) {
  case 0:
    return uvs_clock_changed(s);
  case 1:
    return uvs_set_concurrency(s, 3);
  case 2:
    return uvs_set_after_shutdown(s, UVS_PERIODIC_TASKS, 1);
  case 3:
    return uvs_lane_dispose(lane, 0);
  case 4:
    return uvs_cancel(s, id, 0);
  case 5:
    return uvs_lane_add_cleanup(s, lane, ignore_cleanup, NULL, 0) + uvs_lane_dispose(lane, 0);
  default:
    return uvs_shutdown(s);
  }
}

/* L2: no call sends to a closed handle, whose loop may be gone as well. */
TEST no_call_sends_to_an_async_handle_that_others_closed(void) {
  for (int which = 0; which < 7; which++) {
    struct fixture f;
    struct found found;
    uvs_lane_t lane;
    uvs_id_t id;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = fixture_once(&f, 'a', UVS_HOUR(1));
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    ASSERT_RC(0, uvs_lane_open(f.s, NULL, &lane));
    fixture_turn(&f);
    found = find_handles(&f.loop, f.s);
    uv_close(found.timer, NULL);
    uv_close(found.async, NULL);
    fixture_turn(&f);
    fakepool_forget();
    ASSERT_RC(0, call_on_the_loop(which, f.s, id, lane));
    ASSERT_U64(0, fakepool_seen().async_sends);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* The scheduler does not know the loop thread yet, so it cannot look at its handles. */
TEST a_task_submitted_after_a_foreign_close_before_the_first_pass_ends_cancelled(void) {
  struct fixture f;
  struct wreck w = {.f = &f, .what = CLOSE_ALL};

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  uv_walk(&f.loop, wreck_one, &w);
  uvs_task_t t = fixture_once(&f, 'a', 0);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  ASSERT_U64(0, log_count(&f, EV_WORK, 0));
  ASSERT_RC(0, uvs_close(f.s, note_closed));
  fixture_turn_until_closed(&f);
  f.s = NULL;
  ASSERT_U64(0, log_count(&f, EV_WORK, 0));
  ASSERT_RC(UV_ECANCELED, done_status(&f, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(foreign_close) {
  RUN_TEST(a_task_submitted_after_a_foreign_close_before_the_first_pass_ends_cancelled);
  RUN_TEST(close_finishes_if_others_closed_its_handles_in_an_earlier_pass);
  RUN_TEST(close_finishes_if_others_closed_its_handles_in_the_same_pass);
  RUN_TEST(close_finishes_if_others_close_its_handles_after_uvs_close);
  RUN_TEST(close_finishes_if_others_closed_the_wall_clock_handle);
  RUN_TEST(a_scheduler_whose_handles_others_closed_refuses_calls_until_closed);
  RUN_TEST(no_call_sends_to_an_async_handle_that_others_closed);
}

TEST_MAIN(RUN_SUITE(handles_and_pool); RUN_SUITE(foreign_close));
