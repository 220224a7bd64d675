/* SPDX-License-Identifier: MIT
 *
 * What a review found broken, one test for each, so that it stays mended. The comment above a test
 * says what happened before. Those that need another thread between two steps of ours are in
 * test_regress_steps.c.
 */
#include <sched.h>
#include <stdlib.h>

#include "lib/fixture.h"

#define PATIENCE_NS UVS_SEC(20) /* real time; reached only if something is broken */

/* ----------------------------------------------------------------- helpers --- */

static bool elsewhere(void (*fn)(void *), void *arg) {
  uv_thread_t thread;

  return uv_thread_create(&thread, fn, arg) == 0 && uv_thread_join(&thread) == 0;
}

struct call {
  uvs_t *s;
  uvs_task_t t;
  uvs_id_t id;
  int rc;
};

static void submit_main(void *arg) {
  struct call *c = arg;

  c->rc = uvs_submit(c->s, &c->t, &c->id);
}

static int submit_elsewhere(uvs_t *s, uvs_task_t t, uvs_id_t *ret_id) {
  struct call c = {s, t, 0, UV_EAGAIN};

  if (!elsewhere(submit_main, &c))
    return UV_EAGAIN;
  if (ret_id != NULL)
    *ret_id = c.id;
  return c.rc;
}

static void shutdown_main(void *arg) {
  struct call *c = arg;

  c->rc = uvs_shutdown(c->s);
}

static void shutdown_now_main(void *arg) {
  struct call *c = arg;

  c->rc = uvs_shutdown_now(c->s, probe_never_ran, NULL);
}

static int call_elsewhere(void (*fn)(void *), uvs_t *s) {
  struct call c;

  memset(&c, 0, sizeof c);
  c.s = s;
  c.rc = UV_EAGAIN;
  return elsewhere(fn, &c) ? c.rc : UV_EAGAIN;
}

static void stop_loop(uv_timer_t *h) {
  *(bool *)h->data = true;
  uv_stop(h->loop);
}

static unsigned dones_in_run; /* how many there were when uv_run returned */

/* uv_run to its end, but not for ever: false if it had to be stopped. */
static bool run_bounded(struct fixture *f) {
  uv_timer_t guard;
  bool expired = false;

  uv_timer_init(&f->loop, &guard);
  guard.data = &expired;
  uv_unref((uv_handle_t *)&guard);
  uv_timer_start(&guard, stop_loop, (uint64_t)(PATIENCE_NS / UVS_MS(1)), 0);
  uv_run(&f->loop, UV_RUN_DEFAULT);
  dones_in_run = log_count(f, EV_DONE, 0);
  uv_close((uv_handle_t *)&guard, NULL); /* takes one more turn */
  uv_run(&f->loop, UV_RUN_NOWAIT);
  return !expired;
}

static bool alive(struct fixture *f) {
  return uv_loop_alive(&f->loop) != 0;
}

static uvs_counts_t counts_of(uvs_t *s) {
  uvs_counts_t c;

  uvs_counts_init(&c);
  uvs_counts(s, &c);
  return c;
}

/* Until all our work is back from libuv's pool. */
static bool wait_home(struct fixture *f) {
  uint64_t end_ns = uv_hrtime() + (uint64_t)PATIENCE_NS;

  while (fakepool_pending() > 0 && uv_hrtime() < end_ns) {
    uv_run(&f->loop, UV_RUN_NOWAIT);
    uv_sleep(1);
  }
  fixture_turn(f);
  return fakepool_pending() == 0;
}

/* A door that a body stands at. It waits longer than any test does, and not for ever. */
struct door {
  _Atomic int reached, open, told;
};

static int act_wait(struct probe *p, uvs_run_t *run) {
  struct door *d = p->data;
  uint64_t end_ns = uv_hrtime() + (uint64_t)PATIENCE_NS + (uint64_t)UVS_SEC(5);

  atomic_store(&d->reached, 1);
  while (atomic_load(&d->open) == 0 && uv_hrtime() < end_ns) {
    if (uvs_cancelled(run))
      atomic_store(&d->told, 1);
    uv_sleep(1);
  }
  return 0;
}

static void note_closed(uvs_t *s) {
  struct fixture *f = uvs_data(s);

  f->closed = true;
  log_add(f, EV_USER, 'c', 0, 0);
}

/* A clock of ours in front of the virtual one: the test hears of each look at it. */
struct looked {
  struct vclock *hands;
  uv_thread_t loop_thread;
  _Atomic(void (*)(struct looked *, bool on_loop)) hook;
};

static int64_t looked_monotonic(void *arg) {
  struct looked *l = arg;
  int64_t now_ns = vclock_now(l->hands);
  void (*hook)(struct looked *, bool) = atomic_load(&l->hook);
  uv_thread_t self = uv_thread_self();

  if (hook != NULL)
    hook(l, uv_thread_equal(&self, &l->loop_thread) != 0);
  return now_ns;
}

static int64_t looked_wall(void *arg) {
  return vclock_wall(((struct looked *)arg)->hands);
}

static void put_in_front(struct looked *l, struct fixture *f) {
  l->hands = &f->clock;
  l->loop_thread = uv_thread_self();
  atomic_store(&l->hook, NULL);
  f->options.clock = (uvs_clock_t){looked_monotonic, looked_wall, l};
}

/* ------------------------------------------------------------ keep alive --- */

/* A light task (once, `work` alone) of which the ref changes while its body is on the pool; `b`
 * waits meanwhile. */
static enum greatest_test_res change_ref_on_the_pool(bool ref) {
  struct fixture f;
  struct door d = {0, 0, 0};
  uvs_id_t a, b;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t ta = fixture_once(&f, 'a', 0), tb = fixture_once(&f, 'b', UVS_HOUR(1));
  ta.done = NULL;
  ta.flags = ref ? UVS_UNREF : 0;
  probe_of(&ta)->act = act_wait;
  probe_of(&ta)->data = &d;
  ASSERT_RC(0, uvs_submit(f.s, &ta, &a));
  ASSERT_RC(0, uvs_submit(f.s, &tb, &b));
  ASSERT(fixture_wait_flag(&f, &d.reached));
  ASSERT_RC(0, ref ? uvs_ref(f.s, a) : uvs_unref(f.s, a));
  ASSERT_RC(ref, uvs_has_ref(f.s, a));
  atomic_store(&d.open, 1);
  ASSERT(wait_home(&f));
  ASSERT_RC(UV_ENOENT, uvs_has_ref(f.s, a));
  ASSERT(alive(&f)); /* for b */
  ASSERT_RC(0, uvs_unref(f.s, b));
  ASSERT_FALSE(alive(&f));
  ASSERT_RC(0, uvs_ref(f.s, b));
  ASSERT(alive(&f));
  ASSERT_RC(UVS_NEVER_RUNS, uvs_cancel(f.s, b, 0));
  ASSERT(run_bounded(&f));
  ASSERT_STR_EQ("b", log_string(&f, EV_DONE));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L1. The count of what keeps the loop alive was taken down by the ref that the task had when its
 * run began: after an unref twice, so that uv_run left what still waited, or never returned. */
TEST an_unref_during_a_light_tasks_run_on_the_pool_counts_once(void) {
  CHECK_CALL(change_ref_on_the_pool(false));
  PASS();
}

/* L1. As above: after a ref the count was never taken down, and uv_run never returned. */
TEST a_ref_during_a_light_tasks_run_on_the_pool_is_given_back(void) {
  CHECK_CALL(change_ref_on_the_pool(true));
  PASS();
}

static int act_unref(struct probe *p, uvs_run_t *run) {
  log_add(p->f, EV_USER, p->tag, run->id, uvs_unref(run->scheduler, run->id));
  return 0;
}

static int act_ref(struct probe *p, uvs_run_t *run) {
  log_add(p->f, EV_USER, p->tag, run->id, uvs_ref(run->scheduler, run->id));
  return 0;
}

/* L1. The same with concurrency 0, from inside the body itself. */
TEST a_light_task_on_the_loop_may_change_its_own_ref_in_its_run(void) {
  for (int ref = 0; ref < 2; ref++) {
    struct fixture f;
    uvs_id_t b;

    fixture_init(&f);
    f.options.concurrency = 0;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t ta = fixture_once(&f, 'a', 0), tb = fixture_once(&f, 'b', UVS_HOUR(1));
    ta.done = NULL;
    ta.flags = ref ? UVS_UNREF : 0;
    probe_of(&ta)->act = ref ? act_ref : act_unref;
    ASSERT_RC(0, uvs_submit(f.s, &ta, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &tb, &b));
    fixture_turn(&f);
    ASSERT_U64(1, log_count(&f, EV_USER, 'a'));
    ASSERT_RC(0, log_nth(&f, EV_USER, 'a', 0)->status);
    ASSERT(alive(&f)); /* for b */
    ASSERT_RC(0, uvs_unref(f.s, b));
    ASSERT_FALSE(alive(&f));
    ASSERT_RC(UVS_NEVER_RUNS, uvs_cancel(f.s, b, 0));
    ASSERT(run_bounded(&f));
    ASSERT_STR_EQ("b", log_string(&f, EV_DONE));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L1. A submit on the loop queued up behind what was in the inbox. If nobody had to wake the loop
 * for that, because an unref'd task was due earlier, uv_run returned at once. */
TEST uv_run_stays_for_a_ref_d_task_submitted_behind_a_full_inbox(void) {
  struct fixture f;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.real_clock = true;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t a = fixture_once(&f, 'a', UVS_HOUR(1)), b = fixture_once(&f, 'b', UVS_HOUR(2));
  uvs_task_t c = fixture_once(&f, 'c', UVS_MS(2));
  a.flags = b.flags = UVS_UNREF;
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  ASSERT_FALSE(alive(&f));
  fakepool_forget();
  ASSERT_RC(0, submit_elsewhere(f.s, b, NULL));
  ASSERT_U64(0, fakepool_seen().async_sends); /* it is in the inbox, and nobody was woken */
  ASSERT_RC(0, uvs_submit(f.s, &c, NULL));
  ASSERT(alive(&f));
  ASSERT(run_bounded(&f));
  ASSERT_STR_EQ("c", log_string(&f, EV_DONE));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int act_cancel_other(struct probe *p, uvs_run_t *run) {
  log_add(p->f, EV_USER, p->tag, p->id, uvs_cancel(run->scheduler, p->id, 0));
  return 0;
}

static void done_cancels_other(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct probe *p = arg;

  probe_done(s, id, status, arg);
  log_add(p->f, EV_USER, p->tag, p->id, uvs_cancel(s, p->id, 0));
}

/* L1 F17. The `done` of a task cancelled on the loop was left for a turn that uv_run did not stay
 * for, if the task was unref'd. */
TEST the_done_of_a_cancelled_unref_d_task_comes_before_uv_run_returns(void) {
  enum { OUTSIDE, IN_BODY, IN_DONE, WHERE };

  for (int where = OUTSIDE; where < WHERE; where++) {
    struct fixture f;
    uvs_id_t id;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t a = fixture_once(&f, 'a', UVS_HOUR(1)), b = fixture_loop_task(&f, 'b', 0);
    a.flags = UVS_UNREF;
    ASSERT_RC(0, uvs_submit(f.s, &a, &id));
    ASSERT_FALSE(alive(&f));
    if (where == OUTSIDE) {
      ASSERT_RC(UVS_NEVER_RUNS, uvs_cancel(f.s, id, 0));
      ASSERT_U64(0, log_count(&f, EV_DONE, 'a')); /* never from inside a call */
    } else {
      probe_of(&b)->id = id;
      if (where == IN_BODY)
        probe_of(&b)->act = act_cancel_other;
      else
        b.done = done_cancels_other;
      ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
    }
    ASSERT(run_bounded(&f));
    ASSERT_U64(where == OUTSIDE ? 1 : 2, dones_in_run);
    ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
    ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 0)->status);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* -------------------------------------------------------------- shutdown --- */

enum { BY_LOOP, BY_OTHER, BEFORE_FIRST_TURN };

/* S33 S34. What the loop had not yet taken in was cancelled, but not handed to `each`. */
TEST immediate_shutdown_hands_back_what_is_still_in_the_inbox(void) {
  for (int who = BY_LOOP; who <= BEFORE_FIRST_TURN; who++) {
    struct fixture f;

    fixture_init(&f);
    CHECK_CALL(fixture_open(&f));
    if (who != BEFORE_FIRST_TURN)
      fixture_turn(&f);
    uvs_task_t k = fixture_once(&f, 'k', UVS_MS(1)), n = fixture_once(&f, 'n', 0);
    n.done = NULL;
    ASSERT_RC(0, uvs_submit(f.s, &k, NULL)); /* on the loop's thread */
    ASSERT_RC(0, submit_elsewhere(f.s, fixture_once(&f, 'a', 0), NULL));
    ASSERT_RC(0, submit_elsewhere(f.s, fixture_rate(&f, 'r', UVS_MS(2), UVS_MS(2)), NULL));
    ASSERT_RC(0, submit_elsewhere(f.s, fixture_loop_task(&f, 'l', UVS_HOUR(1)), NULL));
    ASSERT_RC(0, submit_elsewhere(f.s, fixture_once(&f, 'e', UVS_NEVER), NULL));
    ASSERT_RC(0, submit_elsewhere(f.s, n, NULL));
    if (who == BY_OTHER)
      ASSERT_RC(0, call_elsewhere(shutdown_now_main, f.s));
    else
      ASSERT_RC(0, uvs_shutdown_now(f.s, probe_never_ran, NULL));
    ASSERT_U64(0, log_total(&f)); /* not from inside the call */
    fixture_turn(&f);
    ASSERT_U64(0, log_count(&f, EV_WORK, 0) + log_count(&f, EV_AFTER, 0));
    ASSERT_U64(6, log_count(&f, EV_NEVER_RAN, 0));
    ASSERT_U64(5, log_count(&f, EV_DONE, 0));
    for (const char *tag = "karlen"; *tag != 0; tag++) {
      ASSERT_U64(1, log_count(&f, EV_NEVER_RAN, *tag));
      if (*tag == 'n')
        continue;
      ASSERT_U64(1, log_count(&f, EV_DONE, *tag));
      ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, *tag, 0)->status);
      ASSERT(log_nth(&f, EV_NEVER_RAN, *tag, 0) < log_nth(&f, EV_DONE, *tag, 0));
    }
    ASSERT_U64(6, counts_of(f.s).cancelled);
    ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static int act_shutdown_now(struct probe *p, uvs_run_t *run) {
  (void)p;
  return uvs_shutdown_now(run->scheduler, probe_never_ran, NULL);
}

static int act_shutdown(struct probe *p, uvs_run_t *run) {
  (void)p;
  return uvs_shutdown(run->scheduler);
}

/* `count` tasks due at once, for the loop: loop tasks, or `work` with concurrency 0. The first one
 * does `act`. */
static enum greatest_test_res submit_due_at_once(struct fixture *f, bool loop_tasks, int kind,
                                                 int count,
                                                 int (*act)(struct probe *, uvs_run_t *)) {
  for (int i = 0; i < count; i++) {
    uvs_task_t t = loop_tasks ? fixture_loop_task(f, 'a' + i, UVS_MS(10))
                              : fixture_once(f, 'a' + i, UVS_MS(10));
    t.kind = kind;
    t.period_ns = kind == UVS_ONCE ? 0 : UVS_MS(10);
    if (i == 0)
      probe_of(&t)->act = act;
    ASSERT_RC(0, uvs_submit(f->s, &t, NULL));
  }
  PASS();
}

/* S33. Bodies that the loop had made ready in the same turn ran after the shutdown. */
TEST a_loop_body_that_calls_immediate_shutdown_is_the_last_to_run(void) {
  for (int i = 0; i < 6; i++) {
    bool loop_tasks = i % 2 == 0;
    int kind = i / 2 == 0 ? UVS_ONCE : i / 2 == 1 ? UVS_RATE : UVS_DELAY;
    struct fixture f;

    fixture_init(&f);
    f.options.concurrency = loop_tasks ? 2 : 0;
    CHECK_CALL(fixture_open_turned(&f));
    CHECK_CALL(submit_due_at_once(&f, loop_tasks, kind, 4, act_shutdown_now));
    fixture_jump_ms(&f, 10);
    ASSERT_STR_EQ("a", log_string(&f, loop_tasks ? EV_AFTER : EV_WORK));
    ASSERT_STR_EQ("bcd", log_string(&f, EV_NEVER_RAN));
    ASSERT_U64(4, log_count(&f, EV_DONE, 0));
    ASSERT_RC(kind == UVS_ONCE ? 0 : UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 0)->status);
    for (int tag = 'b'; tag <= 'd'; tag++)
      ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, tag, 0)->status);
    ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
    ASSERT_U64(1, counts_of(f.s).runs);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S39 S38. The same with the orderly one: periodic tasks that were ready ran once more. One-shots
 * were due, and do run. */
TEST a_loop_body_that_calls_shutdown_is_the_last_of_the_periodic_ones(void) {
  for (int i = 0; i < 6; i++) {
    bool loop_tasks = i % 2 == 0;
    int kind = i / 2 == 0 ? UVS_ONCE : i / 2 == 1 ? UVS_RATE : UVS_DELAY;
    struct fixture f;

    fixture_init(&f);
    f.options.concurrency = loop_tasks ? 2 : 0;
    CHECK_CALL(fixture_open_turned(&f));
    CHECK_CALL(submit_due_at_once(&f, loop_tasks, kind, 4, act_shutdown));
    fixture_jump_ms(&f, 10);
    fixture_advance_ms(&f, 50);
    ASSERT_STR_EQ(kind == UVS_ONCE ? "abcd" : "a", log_string(&f, loop_tasks ? EV_AFTER : EV_WORK));
    ASSERT_U64(0, log_count(&f, EV_NEVER_RAN, 0));
    ASSERT_U64(4, log_count(&f, EV_DONE, 0));
    for (int tag = 'a'; tag <= 'd'; tag++)
      ASSERT_RC(kind == UVS_ONCE ? 0 : UV_ECANCELED, log_nth(&f, EV_DONE, tag, 0)->status);
    ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* How often the library woke the loop or set its timer, over so many turns. */
static uint64_t stirred(struct fixture *f, int turns) {
  struct fakepool_seen before = fakepool_seen(), after;

  fakepool_pin();
  for (int i = 0; i < turns; i++)
    uv_run(&f->loop, UV_RUN_NOWAIT);
  fakepool_unpin();
  after = fakepool_seen();
  return after.async_sends + after.timer_starts - before.async_sends - before.timer_starts;
}

/* S58. The end of the grace was looked for again after it had come: as long as a body ran, turn
 * followed turn. */
TEST after_the_grace_the_loop_sleeps_while_a_body_still_runs(void) {
  for (int real = 0; real < 2; real++) {
    struct fixture f;
    struct door d = {0, 0, 0};

    fixture_init(&f);
    f.pool = FAKEPOOL_REAL;
    f.real_clock = real != 0;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = fixture_once(&f, 'a', 0);
    probe_of(&t)->act = act_wait;
    probe_of(&t)->data = &d;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    ASSERT(fixture_wait_flag(&f, &d.reached));
    ASSERT_RC(0, uvs_shutdown_within(f.s, UVS_MS(10)));
    if (!real) {
      fixture_turn(&f);
      ASSERT_U64(0, stirred(&f, 20)); /* nor does it spin before */
      ASSERT_I64(10, fixture_next_ms(&f));
      fixture_jump_ms(&f, 10);
    }
    ASSERT(fixture_wait_flag(&f, &d.told));
    stirred(&f, 20);
    ASSERT(stirred(&f, 1000) <= 5);
    if (!real)
      ASSERT_I64(-1, fixture_next_ms(&f));
    ASSERT_FALSE(f.overrun);
    atomic_store(&d.open, 1);
    ASSERT(fixture_wait_log(&f, EV_TERMINATED, 0, 1));
    ASSERT_RC(0, log_nth(&f, EV_DONE, 'a', 0)->status);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S58. As above, for ever, if the scheduler had been terminated before the grace was over. */
TEST after_the_grace_a_terminated_scheduler_sleeps(void) {
  for (int real = 0; real < 2; real++) {
    struct fixture f;

    fixture_init(&f);
    f.pool = FAKEPOOL_REAL;
    f.real_clock = real != 0;
    CHECK_CALL(fixture_open_turned(&f));
    ASSERT_RC(0, uvs_shutdown_within(f.s, UVS_MS(2)));
    ASSERT(fixture_wait_log(&f, EV_TERMINATED, 0, 1));
    if (real) {
      uint64_t end_ns = uv_hrtime() + (uint64_t)UVS_MS(10); /* the grace is over for sure */
      while (uv_hrtime() < end_ns)
        fixture_turn(&f);
    } else {
      fixture_jump_ms(&f, 2);
      ASSERT_I64(-1, fixture_next_ms(&f));
    }
    stirred(&f, 20);
    ASSERT(stirred(&f, 1000) <= 5);
    ASSERT_FALSE(alive(&f));
    ASSERT_FALSE(f.overrun);
    ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* ----------------------------------------------------------------- close --- */

/* Where the program closes our handles. */
enum place { AT_CLOSE, IN_A_BODY, IN_A_DONE, IN_TERMINATED };

static struct wreck {
  struct fixture *f;
  bool polls_only;
  unsigned closed; /* handles that the program closed */
  unsigned left;   /* handles of ours that libuv still knew in the close callback */
  int close_rc;
} wreck;

static void wreck_one(uv_handle_t *h, void *arg) {
  (void)arg;
  if (uv_is_closing(h) || fakepool_owns_handle(h) || (wreck.polls_only && h->type != UV_POLL))
    return;
  uv_close(h, NULL);
  wreck.closed++;
}

static void wreck_all(void) {
  uv_walk(&wreck.f->loop, wreck_one, NULL);
}

static void count_ours(uv_handle_t *h, void *arg) {
  wreck.left += uvs_owns_handle(arg, h) != 0;
}

static void closed_counts(uvs_t *s) {
  uv_walk(uvs_loop(s), count_ours, s);
  note_closed(s);
}

static void close_and_wreck(void) {
  wreck.close_rc = uvs_close(wreck.f->s, closed_counts);
  wreck_all();
}

static void done_wrecks(uvs_t *s, uvs_id_t id, int status, void *arg) {
  probe_done(s, id, status, arg);
  wreck_all();
}

static void terminated_wrecks(uvs_t *s) {
  (void)s;
  wreck_all();
}

/* L2 L5. The program closed only the handle that watches the wall clock, in the turn in which close
 * came to its end: libuv was through with it last, after the memory had gone. */
TEST the_wall_clocks_handle_closed_in_the_last_turn_of_close_outlives_its_end(void) {
  for (int place = AT_CLOSE; place <= IN_TERMINATED; place++) {
    struct fixture f;
    struct door d = {0, 0, 0};

    if (place == IN_A_BODY)
      continue;
    fixture_init(&f);
    f.pool = FAKEPOOL_REAL;
    f.real_clock = true;
    if (place == IN_TERMINATED)
      f.options.terminated = terminated_wrecks;
    CHECK_CALL(fixture_open_turned(&f));
    wreck = (struct wreck){&f, true, 0, 0, 1};
    uvs_task_t w = fixture_once(&f, 'w', UVS_NEVER - 1), q = fixture_once(&f, 'q', 0);
    w.from = UVS_FROM_WALL;
    ASSERT_RC(0, uvs_submit(f.s, &w, NULL));
    fixture_turn(&f);
    if (place != AT_CLOSE) { /* with this body's end everything ends, in one turn */
      probe_of(&q)->act = act_wait;
      probe_of(&q)->data = &d;
      if (place == IN_A_DONE)
        q.done = done_wrecks;
      ASSERT_RC(0, uvs_submit(f.s, &q, NULL));
      ASSERT(fixture_wait_flag(&f, &d.reached));
      wreck.close_rc = uvs_close(f.s, closed_counts);
      for (int i = 0; i < 10; i++)
        uv_run(&f.loop, UV_RUN_NOWAIT);
      ASSERT_FALSE(f.closed);
      ASSERT_U64(0, wreck.closed);
      atomic_store(&d.open, 1);
    } else {
      uv_walk(&f.loop, wreck_one, NULL);
      wreck.close_rc = uvs_close(f.s, closed_counts);
    }
    ASSERT(fixture_wait_log(&f, EV_USER, 'c', 1));
    f.s = NULL;
    ASSERT_RC(0, wreck.close_rc);
#ifdef __linux__
    ASSERT_U64(1, wreck.closed);
#endif
    ASSERT_U64(0, wreck.left);
    ASSERT_STR_EQ(place == AT_CLOSE ? "w" : "wq", log_string(&f, EV_DONE));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static int act_close_and_wreck(struct probe *p, uvs_run_t *run) {
  (void)p;
  (void)run;
  close_and_wreck();
  return 0;
}

static void done_closes_and_wrecks(uvs_t *s, uvs_id_t id, int status, void *arg) {
  probe_done(s, id, status, arg);
  close_and_wreck();
}

/* With `busy`, a body is on the pool meanwhile; without, nothing but close itself brings us back.
 */
static enum greatest_test_res close_then_wreck(enum place place, bool real, bool busy) {
  struct fixture f;
  struct door d = {0, 0, 0};

  fixture_init(&f);
  f.pool = real ? FAKEPOOL_REAL : FAKEPOOL_STEPPED;
  f.real_clock = real;
  CHECK_CALL(fixture_open_turned(&f));
  wreck = (struct wreck){&f, false, 0, 0, 1};
  uvs_task_t a = fixture_once(&f, 'a', UVS_HOUR(1)), n = fixture_once(&f, 'n', UVS_NEVER);
  uvs_task_t r = fixture_rate(&f, 'r', UVS_HOUR(1), 1), q = fixture_once(&f, 'q', 0);
  uvs_task_t w = fixture_once(&f, 'w', UVS_NEVER - 1), b = fixture_loop_task(&f, 'b', 0);
  w.from = UVS_FROM_WALL;
  q.after = probe_after;
  probe_of(&q)->data = &d;
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &n, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &r, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &w, NULL));
  if (busy && real) {
    probe_of(&q)->act = act_wait;
    ASSERT_RC(0, uvs_submit(f.s, &q, NULL));
    ASSERT(fixture_wait_flag(&f, &d.reached));
  } else if (busy) {
    fakepool_hold();
    ASSERT_RC(0, uvs_submit(f.s, &q, NULL));
  }
  fixture_turn(&f);
  ASSERT_RC(0, submit_elsewhere(f.s, fixture_once(&f, 'i', UVS_HOUR(2)), NULL));
  if (place == IN_A_BODY)
    probe_of(&b)->act = act_close_and_wreck;
  if (place == IN_A_DONE)
    b.done = done_closes_and_wrecks;
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  if (place == AT_CLOSE)
    close_and_wreck();
  for (int turns = 0; turns < 20; turns++)
    uv_run(&f.loop, UV_RUN_NOWAIT);
  ASSERT_RC(0, wreck.close_rc);
  ASSERT(wreck.closed >= 2);
  ASSERT_FALSE(busy && f.closed);
  atomic_store(&d.open, 1);
  if (busy && !real)
    fakepool_release();
  ASSERT(fixture_wait_log(&f, EV_USER, 'c', 1));
  f.s = NULL;
  ASSERT_U64(0, wreck.left);
  ASSERT_U64(busy ? 7 : 6, log_count(&f, EV_DONE, 0));
  for (const char *tag = busy ? "anrwibq" : "anrwib"; *tag != 0; tag++)
    ASSERT_U64(1, log_count(&f, EV_DONE, *tag));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L2 L5. A program that closed all handles it found right after uvs_close took away the means of
 * coming back: `done`s and the close callback were never called. */
TEST close_comes_to_its_end_although_all_handles_are_closed_right_after_it(void) {
  for (int place = AT_CLOSE; place <= IN_A_DONE; place++) {
    for (int i = 0; i < 4; i++)
      CHECK_CALL(close_then_wreck((enum place)place, i % 2 != 0, i / 2 != 0));
  }
  PASS();
}

/* --------------------------------------------------------------- the cap --- */

struct hammer {
  uvs_t *s;
  uvs_task_t t[9];
  _Atomic int stop;
  _Atomic uint64_t refused;
  uint64_t wrong;
};

static void hammer_main(void *arg) {
  struct hammer *h = arg;

  while (atomic_load(&h->stop) == 0) {
    h->wrong += uvs_submit_many(h->s, h->t, 9, NULL) != UV_EAGAIN;
    atomic_fetch_add(&h->refused, 1);
  }
}

/* P5 S18. A submission that was refused for the cap took its room for a moment: others were refused
 * although they fitted, and the counts stood above the cap. */
TEST a_refused_crowd_never_takes_the_room_of_one_that_fits(void) {
  enum { CAP = 8, ROUNDS = 20000 };
  struct fixture f;
  struct hammer h;
  uv_thread_t thread;
  uvs_id_t ids[CAP];
  uint64_t over = 0, unfair = 0, refused = 0;
  uint64_t end_ns = uv_hrtime() + (uint64_t)PATIENCE_NS;

  fixture_init(&f);
  f.options.max_pending = CAP;
  CHECK_CALL(fixture_open_turned(&f));
  memset(&h, 0, sizeof h);
  h.s = f.s;
  for (int i = 0; i < 9; i++) {
    h.t[i] = fixture_once(&f, 'x', 0);
    h.t[i].done = NULL;
  }
  uvs_task_t t = fixture_once(&f, 'a', UVS_DAY(1));
  t.done = NULL;
  ASSERT_RC(0, uv_thread_create(&thread, hammer_main, &h));
  /* Until both have been at it for a while; the one that is ahead waits for the other. */
  for (int i = 0; i < ROUNDS && uv_hrtime() < end_ns; i++) {
    int n = i % CAP + 1;

    while (atomic_load(&h.refused) < (uint64_t)i / 2 && uv_hrtime() < end_ns)
      sched_yield();

    for (int k = 0; k < n; k++) {
      ids[k] = 0;
      unfair += uvs_submit(f.s, &t, &ids[k]) != 0;
    }
    uvs_counts_t c = counts_of(f.s);
    over += c.waiting + c.ready + c.running > CAP;
    if (n == CAP && uvs_submit(f.s, &t, NULL) == UV_EAGAIN)
      refused++;
    for (int k = 0; k < n; k++)
      unfair += uvs_cancel(f.s, ids[k], 0) != UVS_NEVER_RUNS;
  }
  atomic_store(&h.stop, 1);
  uv_thread_join(&thread);
  ASSERT_U64(0, unfair);
  ASSERT_U64(0, over);
  ASSERT_U64(0, h.wrong);
  ASSERT_U64(atomic_load(&h.refused) + refused, counts_of(f.s).rejected);
  ASSERT_U64(0, counts_of(f.s).waiting);
  fixture_turn(&f);
  ASSERT_U64(0, log_total(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ---------------------------------------------------------------- timing --- */

static struct { _Atomic int armed, stopped, go; } runner_clock;

/* The runner reads its clock at the end of a body, and is slow to go on. */
static void hold_the_runner(struct looked *l, bool on_loop) {
  int armed = 1;
  uint64_t end_ns = uv_hrtime() + (uint64_t)PATIENCE_NS;

  (void)l;
  if (on_loop || !atomic_compare_exchange_strong(&runner_clock.armed, &armed, 0))
    return;
  atomic_store(&runner_clock.stopped, 1);
  while (atomic_load(&runner_clock.go) == 0 && uv_hrtime() < end_ns)
    uv_sleep(1);
}

static int act_arm(struct probe *p, uvs_run_t *run) {
  (void)p;
  (void)run;
  atomic_store(&runner_clock.armed, 1);
  return 0;
}

/* S2 S3. A runner that went from one body to the next used the clock that it had read before the
 * second one was due: run->start_ns was before run->ideal_ns. */
TEST a_run_never_says_that_it_started_before_its_ideal_time(void) {
  struct fixture f;
  struct looked l;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.options.concurrency = 1;
  put_in_front(&l, &f);
  CHECK_CALL(fixture_open_turned(&f));
  atomic_store(&runner_clock.stopped, 0);
  atomic_store(&runner_clock.go, 0);
  atomic_store(&l.hook, hold_the_runner);
  uvs_task_t a = fixture_once(&f, 'a', 0), b = fixture_once(&f, 'b', UVS_MS(10));
  uvs_task_t c = fixture_rate(&f, 'c', UVS_MS(10), UVS_MS(100));
  c.missed = UVS_MISSED_ONCE;
  c.max_runs = 1;
  probe_of(&a)->act = act_arm;
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &c, NULL));
  ASSERT(fixture_wait_flag(&f, &runner_clock.stopped));
  fixture_jump_ms(&f, 10); /* b and c are ready now, and the runner takes them next */
  atomic_store(&runner_clock.go, 1);
  ASSERT(fixture_wait_log(&f, EV_DONE, 0, 3));
  ASSERT_STR_EQ("abc", log_string(&f, EV_WORK));
  ASSERT_STR_EQ("10", log_runs(&f, EV_WORK, 'b'));
  ASSERT_STR_EQ("10", log_runs(&f, EV_WORK, 'c'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

struct starts {
  _Atomic int runs, early, wrong;
};

static int check_start(uvs_run_t *run) {
  struct starts *s = run->arg;

  atomic_fetch_add(&s->runs, 1);
  if (run->start_ns < run->ideal_ns)
    atomic_fetch_add(&s->early, 1);
  if (run->late_ns != run->start_ns - run->ideal_ns)
    atomic_fetch_add(&s->wrong, 1);
  return 0;
}

/* S2 S3. As above, with many tasks on the real clock. */
TEST no_run_of_many_says_that_it_started_before_its_ideal_time(void) {
  enum { MANY = 3000 };
  static struct starts s;
  struct fixture f;
  uint64_t random = test_seed;

  memset(&s, 0, sizeof s);
  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.real_clock = true;
  f.options.concurrency = 2;
  CHECK_CALL(fixture_open_turned(&f));
  for (int i = 0; i < MANY; i++)
    ASSERT_RC(0, uvs_schedule(f.s, (int64_t)test_random_below(&random, (uint64_t)UVS_MS(30)),
                              check_start, &s, NULL));
  ASSERT_RC(0, uvs_shutdown(f.s));
  ASSERT(fixture_wait_log(&f, EV_TERMINATED, 0, 1));
  ASSERT_RC(MANY, atomic_load(&s.runs));
  ASSERT_RC(0, atomic_load(&s.early));
  ASSERT_RC(0, atomic_load(&s.wrong));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* The newest so many points were counted from now, also when now was after the end time: runs for
 * points that should never be. */
TEST a_burst_stands_for_points_before_the_end_time_only(void) {
  for (unsigned burst = 1; burst <= 5; burst++) {
    static const char *const runs[] = {
        "100(40+3)", "100(30+2) 100(40)", "100(20+1) 100(30) 100(40)",
        "100(10) 100(20) 100(30) 100(40)", "100(10) 100(20) 100(30) 100(40)"};
    struct fixture f;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
    t.until_ns = UVS_MS(45);
    t.max_burst = burst;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_jump_ms(&f, 100);
    ASSERT_STR_EQ(runs[burst - 1], log_runs(&f, EV_WORK, 'a'));
    ASSERT_STR_EQ("a", log_string(&f, EV_DONE));
    ASSERT_RC(0, log_nth(&f, EV_DONE, 'a', 0)->status);
    ASSERT_U64(burst < 4 ? 4 - burst : 0, counts_of(f.s).missed);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* Points after the end time were counted as missed. */
TEST one_run_for_all_counts_no_points_after_the_end_time_as_missed(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t a = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
  uvs_task_t b = fixture_rate(&f, 'b', UVS_MS(10), UVS_MS(10));
  a.missed = b.missed = UVS_MISSED_ONCE;
  a.until_ns = UVS_MS(45);
  b.until_ns = UVS_MS(40); /* that very point still counts */
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  fixture_jump_ms(&f, 100);
  ASSERT_STR_EQ("100(10+3)", log_runs(&f, EV_WORK, 'a'));
  ASSERT_STR_EQ("100(10+3)", log_runs(&f, EV_WORK, 'b'));
  ASSERT_STR_EQ("ab", log_string(&f, EV_DONE));
  ASSERT_U64(6, counts_of(f.s).missed);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* What a SKIP task does that found no runner for longer than its period. */
static enum greatest_test_res skip_late(bool loop_tasks, int64_t until_ns, const char *runs) {
  struct fixture f;
  uvs_info_t info;
  uvs_id_t id;

  fixture_init(&f);
  f.options.concurrency = loop_tasks ? 0 : 1;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t b = fixture_once(&f, 'b', UVS_MS(10));
  uvs_task_t t = fixture_rate(&f, 's', UVS_MS(10), UVS_MS(10));
  probe_of(&b)->takes_ns = UVS_MS(35);
  t.missed = UVS_MISSED_SKIP;
  t.until_ns = until_ns;
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_jump_ms(&f, 10); /* both are ready; b is first, and ends at 45 */
  ASSERT_I64(45, fixture_now_ms(&f));
  ASSERT_STR_EQ("", log_runs(&f, EV_WORK, 's'));
  ASSERT_U64(4, counts_of(f.s).missed);
  ASSERT_U64(1, counts_of(f.s).runs);
  uvs_info_init(&info);
  if (until_ns == 0) {
    ASSERT_RC(0, uvs_info(f.s, id, &info));
    ASSERT_U64(0, info.runs);
    ASSERT_U64(4, info.missed);
    ASSERT_RC(UVS_WAITING, info.state);
    ASSERT_I64(50, fixture_next_ms(&f));
  } else {
    ASSERT_RC(UV_ENOENT, uvs_info(f.s, id, &info));
    ASSERT_RC(0, log_nth(&f, EV_DONE, 's', 0)->status);
    ASSERT_U64(1, log_count(&f, EV_DONE, 's'));
    ASSERT_U64(2, counts_of(f.s).completed);
  }
  fixture_advance_ms(&f, 20);
  ASSERT_STR_EQ(runs, log_runs(&f, EV_WORK, 's'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* It ran, however late, when at last there was a runner. Then it did not run, but counted as a
 * run. */
TEST a_skip_task_that_waits_a_period_for_a_runner_is_left_out(void) {
  CHECK_CALL(skip_late(false, 0, "50(50+4) 60"));
  CHECK_CALL(skip_late(true, 0, "50(50+4) 60"));
  CHECK_CALL(skip_late(false, UVS_MS(48), "")); /* and the next point is after its end */
  CHECK_CALL(skip_late(true, UVS_MS(48), ""));
  PASS();
}

/* S63 S69. Whatever was due by the wall clock came after all that was due by the other one. */
TEST wall_clock_and_relative_tasks_run_in_the_order_in_which_they_became_due(void) {
  for (int pool = 0; pool < 2; pool++) {
    static const struct {
      int tag, due_ms;
      bool wall;
    } tasks[] = {{'f', 15, false}, {'e', 12, true}, {'a', 3, false}, {'g', 18, true},
                 {'b', 5, true},   {'c', 7, false}, {'d', 9, true}};
    struct fixture f;

    fixture_init(&f);
    f.options.concurrency = pool;
    CHECK_CALL(fixture_open_turned(&f));
    for (unsigned i = 0; i < sizeof tasks / sizeof *tasks; i++) {
      uvs_task_t t = fixture_once(&f, tasks[i].tag, UVS_MS(tasks[i].due_ms));
      if (tasks[i].wall) {
        t.from = UVS_FROM_WALL;
        t.delay_ns += VCLOCK_WALL_NS;
      }
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    }
    fixture_jump_ms(&f, 20);
    ASSERT_STR_EQ("abcdefg", log_string(&f, EV_WORK));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* ----------------------------------------------------------------- turns --- */

static void advance_a_budget(struct looked *l, bool on_loop) {
  if (on_loop)
    vclock_advance_ns(l->hands, UVS_MS(1));
}

/* L7. Tasks that were left out did not count, and the clock was not looked at: one turn went
 * through all of them. */
TEST a_turn_looks_at_a_bounded_number_of_late_skip_tasks(void) {
  enum { MANY = 2000, A_FEW = 256 };
  struct fixture f;
  struct looked l;
  uint64_t seen = 0;
  int turns;

  fixture_init(&f);
  put_in_front(&l, &f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_HOUR(1), UVS_HOUR(1));
  t.missed = UVS_MISSED_SKIP;
  t.done = NULL;
  for (int i = 0; i < MANY; i++)
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  vclock_advance_ns(&f.clock, UVS_MIN(150)); /* two points late, each */
  ASSERT_RC(0, uvs_clock_changed(f.s));
  atomic_store(&l.hook, advance_a_budget); /* each look at the clock uses a budget up */
  for (turns = 0; turns < MANY && seen < 2 * MANY; turns++) {
    uv_run(&f.loop, UV_RUN_NOWAIT);
    uint64_t missed = counts_of(f.s).missed;
    ASSERT(missed - seen <= 2 * A_FEW);
    seen = missed;
  }
  atomic_store(&l.hook, NULL);
  ASSERT_U64(2 * MANY, seen);
  fixture_turn(&f);
  ASSERT_U64(0, log_total(&f));
  ASSERT_I64(INT64_C(3) * 3600 * 1000, fixture_next_ms(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static struct {
  uvs_t *s;
  uvs_task_t t;
  uv_sem_t ask, answer;
  int pushes, most;
  int rc;
  bool leave;
} producer;

static void producer_main(void *arg) {
  (void)arg;
  for (;;) {
    uv_sem_wait(&producer.ask);
    if (producer.leave)
      return;
    producer.rc |= uvs_submit(producer.s, &producer.t, NULL);
    uv_sem_post(&producer.answer);
  }
}

/* Whenever the loop looks at the clock, another thread has just submitted something. */
static void push_once(struct looked *l, bool on_loop) {
  if (!on_loop || producer.pushes == producer.most)
    return;
  producer.pushes++;
  vclock_advance_ns(l->hands, UVS_US(10));
  uv_sem_post(&producer.ask);
  uv_sem_wait(&producer.answer);
}

/* L7. As long as something had come in by the end of a turn, the same turn went on. */
TEST a_producer_that_never_rests_does_not_keep_the_loop_in_one_turn(void) {
  enum { MOST = 5000, TURNS = 5 };
  struct fixture f;
  struct looked l;
  uv_thread_t thread;

  fixture_init(&f);
  put_in_front(&l, &f);
  CHECK_CALL(fixture_open_turned(&f));
  memset(&producer, 0, sizeof producer);
  producer.s = f.s;
  producer.t = fixture_once(&f, 'a', UVS_HOUR(1));
  producer.t.done = NULL;
  producer.most = MOST;
  ASSERT_RC(0, uv_sem_init(&producer.ask, 0));
  ASSERT_RC(0, uv_sem_init(&producer.answer, 0));
  ASSERT_RC(0, uv_thread_create(&thread, producer_main, NULL));
  atomic_store(&l.hook, push_once);
  ASSERT_RC(0, uvs_clock_changed(f.s));
  fakepool_pin();
  for (int i = 0; i < TURNS; i++)
    uv_run(&f.loop, UV_RUN_NOWAIT);
  fakepool_unpin();
  atomic_store(&l.hook, NULL);
  producer.leave = true;
  uv_sem_post(&producer.ask);
  uv_thread_join(&thread);
  uv_sem_destroy(&producer.ask);
  uv_sem_destroy(&producer.answer);
  /* 100 looks are a budget. */
  ASSERT(producer.pushes > 0);
  ASSERT(producer.pushes <= TURNS * 200);
  ASSERT_RC(0, producer.rc);
  fixture_turn(&f);
  ASSERT_U64((unsigned)producer.pushes, counts_of(f.s).waiting);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* R31. It knew of tasks only: who steps the clock by it went past callbacks that the loop owed. */
TEST next_due_is_now_while_callbacks_are_owed(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  ASSERT_I64(-1, fixture_next_ms(&f));
  uvs_task_t a = fixture_once(&f, 'a', UVS_HOUR(1)), b = fixture_once(&f, 'b', UVS_HOUR(2));
  ASSERT_RC(0, uvs_submit(f.s, &a, &id));
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  ASSERT_I64(3600 * 1000, fixture_next_ms(&f));
  ASSERT_RC(UVS_NEVER_RUNS, uvs_cancel(f.s, id, 0));
  ASSERT_I64(0, fixture_next_ms(&f));
  fixture_turn(&f);
  ASSERT_STR_EQ("a", log_string(&f, EV_DONE));
  ASSERT_I64(2 * 3600 * 1000, fixture_next_ms(&f));
  /* The same for one that the loop has not seen yet. */
  ASSERT_RC(0, submit_elsewhere(f.s, fixture_once(&f, 'c', UVS_HOUR(1)), &id));
  ASSERT_RC(UVS_NEVER_RUNS, uvs_cancel(f.s, id, 0));
  ASSERT_I64(0, fixture_next_ms(&f));
  fixture_turn(&f);
  ASSERT_STR_EQ("ac", log_string(&f, EV_DONE));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* R31. Likewise for a shutdown that the loop had yet to act upon. */
TEST next_due_is_now_while_a_shutdown_is_to_be_applied(void) {
  for (int i = 0; i < 4; i++) {
    struct fixture f;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t r = fixture_rate(&f, 'r', UVS_HOUR(1), UVS_HOUR(1));
    ASSERT_RC(0, uvs_submit(f.s, &r, NULL));
    ASSERT_I64(3600 * 1000, fixture_next_ms(&f));
    ASSERT_RC(0, i == 0   ? uvs_shutdown(f.s)
                 : i == 1 ? call_elsewhere(shutdown_main, f.s)
                 : i == 2 ? uvs_shutdown_now(f.s, NULL, NULL)
                          : call_elsewhere(shutdown_now_main, f.s));
    ASSERT_I64(0, fixture_next_ms(&f));
    ASSERT_U64(0, log_count(&f, EV_DONE, 0));
    fixture_turn(&f);
    ASSERT_STR_EQ("r", log_string(&f, EV_DONE));
    ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
    ASSERT_I64(-1, fixture_next_ms(&f));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* --------------------------------------------------------------- control --- */

/* The loop sleeps until `x`, in an hour; `a` is in the inbox, due in two, so nobody woke it. */
static enum greatest_test_res open_with_one_in_the_inbox(struct fixture *f, int variant,
                                                         uvs_id_t *ret_id) {
  fixture_init(f);
  f->pool = FAKEPOOL_REAL;
  f->real_clock = true;
  CHECK_CALL(fixture_open_turned(f));
  uvs_task_t x = fixture_once(f, 'x', UVS_HOUR(1)), a = fixture_once(f, 'a', UVS_HOUR(2));
  if (variant == 1) {
    a.kind = UVS_RATE;
    a.period_ns = UVS_HOUR(1);
  }
  if (variant == 2)
    a.name = "cold";
  if (variant == 3) {
    a.work = NULL;
    a.after = probe_loop_body;
  }
  ASSERT_RC(0, uvs_submit(f->s, &x, NULL));
  fakepool_forget();
  ASSERT_RC(0, submit_elsewhere(f->s, a, ret_id));
  ASSERT_U64(0, fakepool_seen().async_sends);
  PASS();
}

/* A reschedule on the loop of what was still in the inbox was not heard of before the loop woke for
 * something else. */
TEST a_reschedule_on_the_loop_acts_at_once_on_what_is_in_the_inbox(void) {
  for (int variant = 0; variant < 4; variant++) {
    struct fixture f;
    uvs_id_t id;

    CHECK_CALL(open_with_one_in_the_inbox(&f, variant, &id));
    ASSERT_RC(0, uvs_reschedule(f.s, id, UVS_MS(1)));
    ASSERT(fixture_wait_log(&f, variant == 3 ? EV_AFTER : EV_WORK, 'a', 1));
    ASSERT_U64(0, log_count(&f, EV_WORK, 'x'));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* Likewise a cancel: its `done` came with whatever the loop woke for next. */
TEST a_cancel_on_the_loop_acts_at_once_on_what_is_in_the_inbox(void) {
  for (int variant = 0; variant < 4; variant++) {
    struct fixture f;
    uvs_id_t id;

    CHECK_CALL(open_with_one_in_the_inbox(&f, variant, &id));
    ASSERT_RC(UVS_NEVER_RUNS, uvs_cancel(f.s, id, 0));
    ASSERT_U64(1, counts_of(f.s).cancelled);
    ASSERT_U64(1, counts_of(f.s).waiting);
    ASSERT_U64(0, log_total(&f)); /* not from inside the call */
    ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 1));
    ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 0)->status);
    ASSERT_U64(1, log_total(&f));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* ---------------------------------------------------------------- `after` --- */

/* S41. What `after` answered was not looked at when `work` had said UVS_STOP. */
TEST a_failing_after_decides_also_when_work_said_stop(void) {
  for (int i = 0; i < 4; i++) {
    int fails = i % 2;
    struct fixture f;

    fixture_init(&f);
    f.options.concurrency = i / 2;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
    t.after = probe_after;
    probe_of(&t)->ret = UVS_STOP;
    probe_of(&t)->ret_from = 2;
    probe_of(&t)->after_ret = fails ? UV_EIO : 0;
    probe_of(&t)->after_from = 2;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_advance_ms(&f, 100);
    ASSERT_STR_EQ("10 20", log_runs(&f, EV_WORK, 'a')); /* stopped it is, either way */
    ASSERT_U64(2, log_count(&f, EV_AFTER, 'a'));
    ASSERT_RC(0, log_nth(&f, EV_AFTER, 'a', 1)->status);
    ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
    ASSERT_RC(fails ? UV_EIO : 0, log_nth(&f, EV_DONE, 'a', 0)->status);
    ASSERT_U64(fails ? 1 : 0, log_count(&f, EV_ERROR, 'a'));
    ASSERT_U64(fails ? 1 : 0, counts_of(f.s).failed);
    ASSERT_U64(fails ? 0 : 1, counts_of(f.s).completed);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static int after_finishes(uvs_run_t *run) {
  struct probe *p = run->arg;

  log_add(p->f, EV_USER, p->tag, run->id, uvs_finish(run->scheduler, run->id, UV_EIO));
  return 0;
}

/* L14. With concurrency 0 the body's end was not marked, and a finish in `after` was accepted. */
TEST finish_inside_after_finds_no_run(void) {
  for (int concurrency = 0; concurrency < 2; concurrency++) {
    struct fixture f;
    uvs_id_t id;

    fixture_init(&f);
    f.options.concurrency = concurrency;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t a = fixture_once(&f, 'a', 0), b = fixture_delay(&f, 'b', 0, UVS_MS(10));
    uvs_task_t c = fixture_once(&f, 'c', 0);
    a.after = b.after = c.after = after_finishes;
    b.max_runs = 2;
    probe_of(&c)->ret = UVS_PENDING;
    ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &c, &id));
    fixture_advance_ms(&f, 20);
    ASSERT_U64(0, log_count(&f, EV_USER, 'c')); /* it is pending */
    ASSERT_RC(0, uvs_finish(f.s, id, 0));
    fixture_turn(&f);
    ASSERT_U64(1, log_count(&f, EV_USER, 'a'));
    ASSERT_U64(2, log_count(&f, EV_USER, 'b'));
    ASSERT_U64(1, log_count(&f, EV_USER, 'c'));
    for (unsigned i = 0; i < 4; i++)
      ASSERT_RC(UV_ENOENT, log_nth(&f, EV_USER, 0, i)->status);
    ASSERT_U64(3, log_count(&f, EV_DONE, 0));
    for (unsigned i = 0; i < 3; i++)
      ASSERT_RC(0, log_nth(&f, EV_DONE, 0, i)->status);
    ASSERT_STR_EQ("0 10", log_runs(&f, EV_WORK, 'b'));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* --------------------------------------------------------------- options --- */

/* S25. A negative size is a huge one to libuv, and its pool has 1024 threads then; it was taken for
 * the smallest. */
TEST the_default_concurrency_reads_the_pools_size_as_libuv_does(void) {
  static const struct {
    const char *env;
    int concurrency;
  } cases[] = {{"-1", 1023}, {"-4", 1023}, {"0", 1}, {"1", 1}, {NULL, 3}};
  char old[32];
  size_t size = sizeof old;
  bool had = uv_os_getenv("UV_THREADPOOL_SIZE", old, &size) == 0;

  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
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

SUITE(keep_alive) {
  RUN_TEST(an_unref_during_a_light_tasks_run_on_the_pool_counts_once);
  RUN_TEST(a_ref_during_a_light_tasks_run_on_the_pool_is_given_back);
  RUN_TEST(a_light_task_on_the_loop_may_change_its_own_ref_in_its_run);
  RUN_TEST(uv_run_stays_for_a_ref_d_task_submitted_behind_a_full_inbox);
  RUN_TEST(the_done_of_a_cancelled_unref_d_task_comes_before_uv_run_returns);
}

SUITE(ends) {
  RUN_TEST(immediate_shutdown_hands_back_what_is_still_in_the_inbox);
  RUN_TEST(a_loop_body_that_calls_immediate_shutdown_is_the_last_to_run);
  RUN_TEST(a_loop_body_that_calls_shutdown_is_the_last_of_the_periodic_ones);
  RUN_TEST(after_the_grace_the_loop_sleeps_while_a_body_still_runs);
  RUN_TEST(after_the_grace_a_terminated_scheduler_sleeps);
  RUN_TEST(the_wall_clocks_handle_closed_in_the_last_turn_of_close_outlives_its_end);
  RUN_TEST(close_comes_to_its_end_although_all_handles_are_closed_right_after_it);
}

SUITE(times) {
  RUN_TEST(a_run_never_says_that_it_started_before_its_ideal_time);
  RUN_TEST(no_run_of_many_says_that_it_started_before_its_ideal_time);
  RUN_TEST(a_burst_stands_for_points_before_the_end_time_only);
  RUN_TEST(one_run_for_all_counts_no_points_after_the_end_time_as_missed);
  RUN_TEST(a_skip_task_that_waits_a_period_for_a_runner_is_left_out);
  RUN_TEST(wall_clock_and_relative_tasks_run_in_the_order_in_which_they_became_due);
}

SUITE(turns) {
  RUN_TEST(a_turn_looks_at_a_bounded_number_of_late_skip_tasks);
  RUN_TEST(a_producer_that_never_rests_does_not_keep_the_loop_in_one_turn);
  RUN_TEST(next_due_is_now_while_callbacks_are_owed);
  RUN_TEST(next_due_is_now_while_a_shutdown_is_to_be_applied);
}

SUITE(calls) {
  RUN_TEST(a_refused_crowd_never_takes_the_room_of_one_that_fits);
  RUN_TEST(a_reschedule_on_the_loop_acts_at_once_on_what_is_in_the_inbox);
  RUN_TEST(a_cancel_on_the_loop_acts_at_once_on_what_is_in_the_inbox);
  RUN_TEST(a_failing_after_decides_also_when_work_said_stop);
  RUN_TEST(finish_inside_after_finds_no_run);
  RUN_TEST(the_default_concurrency_reads_the_pools_size_as_libuv_does);
}

TEST_MAIN(uv_os_setenv("UV_THREADPOOL_SIZE", "4"); RUN_SUITE(keep_alive); RUN_SUITE(ends);
          RUN_SUITE(times); RUN_SUITE(turns); RUN_SUITE(calls));
