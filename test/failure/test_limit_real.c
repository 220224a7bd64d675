/* SPDX-License-Identifier: MIT
 *
 * The time limit of bodies that run on libuv's pool while the loop runs and other threads wait,
 * cancel, forget and close. The clock is virtual, except in the last test, which runs many threads
 * on the real clock.
 */
#include <string.h>

#include "lib/bodies.h"
#include "lib/inspect.h"
#include "lib/limited.h"
#include "lib/stage.h"
#include "lib/threads.h"

static int gate_and_give(struct probe *p, uvs_run_t *run) {
  int rc = gate_pass(p, run);

  log_add(p->f, EV_USER, p->tag, run->id, uvs_cancelled(run));
  uvs_set_result(run, &limit_value[3]);
  return rc;
}

/* `n` tasks with limits are in their bodies, at the gate. */
static enum greatest_test_res open_at_the_gate(struct fixture *f, bool stop_ends, int n, int how,
                                               uvs_id_t *ids) {
  fixture_init(f);
  f->pool = FAKEPOOL_REAL;
  f->options.concurrency = 4;
  CHECK_CALL(fixture_open_turned(f));
  gate_init(stop_ends);
  for (int i = 0; i < n; i++) {
    uvs_task_t t = limited(f, 'a' + i, how);
    probe_of(&t)->act = gate_and_give;
    ASSERT_RC(0, uvs_submit(f->s, &t, &ids[i]));
  }
  ASSERT(gate_wait(f, n));
  PASS();
}

/* ------------------------------------------------------------------------- waits --- */

/* F5 F6 F12b F13 F14 F15 V9 */
TEST a_timed_out_task_is_settled_at_once_and_quiet_after_its_body_returned(void) {
  static struct waiter settled[2], quiet[2];
  static struct fixture f;

  for (int way = 0; way < LATE_HOWS * 2; way++) {
    int how = way % LATE_HOWS;
    uvs_outcome_t o;
    uvs_counts_t c;
    struct look l;
    uvs_id_t id;

    CHECK_CALL(open_at_the_gate(&f, false, 1, how, &id));
    f.probes[0].ret = way / LATE_HOWS == 0 ? 0 : UV_EIO; /* what it returns later */
    for (int i = 0; i < 2; i++) {
      int64_t timeout_ns = i == 0 ? UVS_NEVER : PATIENCE_NS;
      ASSERT_RC(0, waiter_start(&settled[i], f.s, id, timeout_ns, UVS_WAIT_SETTLED));
      ASSERT_RC(0, waiter_start(&quiet[i], f.s, id, timeout_ns, 0));
    }
    ASSERT(await_asleep(2));
    fixture_advance_ns(&f, LIMIT_NS - 1);
    c = counts_of(f.s);
    ASSERT(adds_up(&c));
    ASSERT_U64(1, c.running);
    ASSERT_RC(UV_ETIMEDOUT, peek(f.s, id, UVS_WAIT_SETTLED, &o));
    ASSERT_RC(0, atomic_load(&settled[0].back) + atomic_load(&settled[1].back));

    fixture_advance_ns(&f, 1);
    for (int i = 0; i < 2; i++) {
      uv_thread_join(&settled[i].thread);
      ASSERT_RC(0, settled[i].rc);
      ASSERT_RC(UVS_RUNNING, settled[i].o.state);
      ASSERT_RC(late_status(how), settled[i].o.status);
      ASSERT_EQ(late_result(how), settled[i].o.result);
    }
    ASSERT_RC(1, gate_inside());
    ASSERT_RC(UV_ENOENT, uvs_cancel(f.s, id, UVS_CANCEL_TOKEN));
    ASSERT_RC(UV_ENOENT, cancel_elsewhere(f.s, id));
    ASSERT_RC(UV_ETIMEDOUT, peek(f.s, id, 0, &o));
    l = look_at(f.s, id);
    ASSERT_RC(UVS_RUNNING, l.info.state);
    ASSERT_RC(0, l.info.cancelled);
    c = counts_of(f.s);
    ASSERT(adds_up(&c));
    ASSERT_U64(0, c.running);
    ASSERT_U64(1, c.timed_out);
    ASSERT_U64(1, c.runners);
    ASSERT_U64(0, log_count(&f, EV_DONE, 0)); /* arg is still in use */
    ASSERT(await_asleep(1));                  /* who waits for quiet sleeps on */
    ASSERT_RC(0, atomic_load(&quiet[0].back) + atomic_load(&quiet[1].back));
    ASSERT(fixture_alive(&f)); /* for its `done` */

    gate_let(1);
    ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 1));
    for (int i = 0; i < 2; i++) {
      uv_thread_join(&quiet[i].thread);
      ASSERT_RC(0, quiet[i].rc);
      ASSERT_RC(UVS_ENDED, quiet[i].o.state);
      ASSERT_RC(late_status(how), quiet[i].o.status);
      ASSERT_EQ(late_result(how), quiet[i].o.result); /* what the body gave is discarded */
      ASSERT_I64(0, fixture_ms(&f, quiet[i].o.start_ns));
      ASSERT_I64(LIMIT_MS, fixture_ms(&f, quiet[i].o.end_ns));
    }
    ASSERT_RC(late_status(how), log_nth(&f, EV_DONE, 'a', 0)->status);
    ASSERT_RC(1, log_nth(&f, EV_USER, 'a', 0)->status); /* it was asked to stop */
    ASSERT_U64(0, log_count(&f, EV_ERROR, 0));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* F9 F10 J5: the token reaches only that body. */
TEST the_loop_raises_the_token_of_a_timed_out_body(void) {
  static struct fixture f;
  uvs_id_t ids[2];

  CHECK_CALL(open_at_the_gate(&f, true, 1, LATE_DEFAULT, ids));
  fixture_advance_ms(&f, 5);
  uvs_task_t b = limited(&f, 'b', LATE_DEFAULT); /* 5 ms behind */
  probe_of(&b)->act = gate_and_give;
  ASSERT_RC(0, uvs_submit(f.s, &b, &ids[1]));
  ASSERT(gate_wait(&f, 2));
  fixture_advance_ms(&f, 5);
  ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 1)); /* it left because it was asked to */
  ASSERT_RC(1, gate_inside());
  ASSERT_U64(0, log_count(&f, EV_USER, 'b'));
  gate_let(1);
  ASSERT(fixture_wait_log(&f, EV_DONE, 'b', 1));
  ASSERT_RC(0, log_nth(&f, EV_USER, 'b', 0)->status);
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'b', 0)->status); /* in time */
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* F12 J5: cancelled without a token, the body is not asked to stop until its limit. */
TEST a_cancelled_body_is_asked_to_stop_at_its_limit(void) {
  static struct fixture f;
  uvs_id_t id;

  CHECK_CALL(open_at_the_gate(&f, true, 1, LATE_VALUE, &id));
  ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, uvs_cancel(f.s, id, 0));
  fixture_advance_ns(&f, LIMIT_NS - 1);
  ASSERT_RC(1, gate_inside());
  fixture_advance_ns(&f, 1);
  ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 1));
  ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 0)->status);
  ASSERT_U64(1, counts_of(f.s).cancelled);
  ASSERT_U64(0, counts_of(f.s).timed_out);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* F13 F17 S59: a timed-out task that is forgotten is gone after its `done`. A wait in progress
 * still gets the outcome. */
TEST a_timed_out_task_may_be_forgotten(void) {
  static struct waiter w;
  static struct fixture f;

  for (int when = 0; when < 3; when++) { /* before the limit, after it, after `done` */
    uvs_outcome_t o;
    uvs_id_t id;

    CHECK_CALL(open_at_the_gate(&f, false, 1, LATE_VALUE, &id));
    ASSERT_RC(0, waiter_start(&w, f.s, id, UVS_NEVER, 0));
    ASSERT(await_asleep(1));
    if (when == 0)
      ASSERT_RC(0, uvs_forget(f.s, id));
    fixture_advance_ns(&f, LIMIT_NS);
    if (when == 1)
      ASSERT_RC(0, uvs_forget(f.s, id));
    ASSERT_RC(when < 2 ? UV_ENOENT : 0, peek(f.s, id, UVS_WAIT_SETTLED, &o));
    ASSERT_U64(0, log_count(&f, EV_DONE, 0));
    gate_let(1);
    ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 1));
    uv_thread_join(&w.thread);
    ASSERT_RC(0, w.rc);
    ASSERT_RC(0, w.o.status);
    ASSERT_EQ(late_result(LATE_VALUE), w.o.result);
    if (when == 2)
      ASSERT_RC(0, uvs_forget(f.s, id));
    ASSERT_RC(UV_ENOENT, uvs_forget(f.s, id));
    fixture_jump_ns(&f, 0);
    ASSERT_U64(0, inspect_records(f.s));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* ------------------------------------------------------------------- all and any --- */

enum { GROUP = 3 };

static struct group {
  uvs_t *s;
  uvs_task_t t[GROUP];
  uvs_outcome_t o[GROUP];
  size_t winner;
  bool any;
  int rc;
  _Atomic int back;
} group;

static void group_main(void *arg) {
  (void)arg;
  for (int i = 0; i < GROUP; i++)
    uvs_outcome_init(&group.o[i]);
  group.rc = group.any ? uvs_any(group.s, group.t, GROUP, UVS_NEVER, &group.winner, &group.o[0])
                       : uvs_all(group.s, group.t, GROUP, UVS_NEVER, group.o);
  atomic_store(&group.back, 1);
  uvs_clock_changed(group.s);
}

/* Three limited tasks (see `how`) are at the gate. A thread is about to wait for them. */
static enum greatest_test_res start_group(struct fixture *f, bool any, const int how[GROUP],
                                          uv_thread_t *thread) {
  fixture_init(f);
  f->pool = FAKEPOOL_REAL;
  f->options.concurrency = 4;
  CHECK_CALL(fixture_open_turned(f));
  gate_init(false);
  memset(&group, 0, sizeof group);
  group.s = f->s;
  group.any = any;
  for (int i = 0; i < GROUP; i++) {
    group.t[i] = limited(f, 'a' + i, how[i] < 0 ? LATE_DEFAULT : how[i]);
    if (how[i] < 0) /* this one has all the time in the world */
      group.t[i].limit.total_ns = 0;
    probe_of(&group.t[i])->act = gate_and_give;
  }
  ASSERT_RC(0, uv_thread_create(thread, group_main, NULL));
  ASSERT(gate_wait(f, GROUP));
  ASSERT(await_asleep(1));
  PASS();
}

/* S50 S51 F5 F6 */
TEST uvs_all_waits_for_timed_out_bodies_and_returns_their_time_outs(void) {
  static const int how[GROUP] = {LATE_VALUE, -1, LATE_FAILURE};
  static struct fixture f;
  uv_thread_t thread;

  CHECK_CALL(start_group(&f, false, how, &thread));
  fixture_advance_ns(&f, LIMIT_NS);
  ASSERT_U64(2, counts_of(f.s).timed_out);
  gate_let(2);
  ASSERT(gate_wait(&f, 1));
  ASSERT_RC(0, atomic_load(&group.back));
  gate_let(1);
  ASSERT(fixture_wait_flag(&f, &group.back));
  uv_thread_join(&thread);
  ASSERT_RC(0, group.rc);
  for (int i = 0; i < GROUP; i++) {
    ASSERT_RC(UVS_ENDED, group.o[i].state);
    ASSERT_RC(how[i] < 0 ? 0 : late_status(how[i]), group.o[i].status);
    ASSERT_EQ(how[i] < 0 ? &limit_value[3] : late_result(how[i]), group.o[i].result);
  }
  ASSERT(fixture_wait_log(&f, EV_DONE, 0, GROUP));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* Waits until another thread has cancelled n tasks. */
static bool await_cancelled(uvs_t *s, uint64_t n) {
  int64_t end_ns = (int64_t)uv_hrtime() + PATIENCE_NS;

  while (counts_of(s).cancelled != n && (int64_t)uv_hrtime() < end_ns)
    uv_sleep(1);
  return counts_of(s).cancelled == n;
}

/* S46 S47 F5: a successful substitute wins. The call still waits for its body. */
TEST uvs_any_can_be_won_by_a_substitute_result_or_lost_by_time_outs(void) {
  static const int how[2][GROUP] = {{LATE_FAILURE, LATE_VALUE, -1},
                                    {LATE_DEFAULT, LATE_DEFAULT, LATE_DEFAULT}};
  static struct fixture f;
  uv_thread_t thread;

  for (int way = 0; way < 2; way++) {
    CHECK_CALL(start_group(&f, true, how[way], &thread));
    fixture_advance_ns(&f, LIMIT_NS);
    ASSERT(await_cancelled(f.s, way == 0 ? 1 : 0)); /* whoever has not lost yet */
    ASSERT_RC(0, atomic_load(&group.back));
    gate_let(GROUP);
    ASSERT(fixture_wait_flag(&f, &group.back));
    uv_thread_join(&thread);
    ASSERT_RC(way == 0 ? 0 : UV_ETIMEDOUT, group.rc);
    if (way == 0) {
      ASSERT_U64(1, group.winner);
      ASSERT_RC(0, group.o[0].status);
      ASSERT_EQ(late_result(LATE_VALUE), group.o[0].result);
      ASSERT_RC(UVS_ENDED, group.o[0].state);
    }
    ASSERT(fixture_wait_log(&f, EV_DONE, 0, GROUP));
    ASSERT_U64(way == 0 ? 2 : 3, counts_of(f.s).timed_out);
    ASSERT_U64(way == 0 ? 1 : 0, counts_of(f.s).cancelled);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* -------------------------------------------------------------------- the end of it --- */

/* S32 S33 L2 L12 F5: every way to end waits for the timed-out body and does not change its
 * outcome. */
TEST shutdown_and_close_wait_for_a_timed_out_body(void) {
  enum { ORDERLY, NOW, CLOSE, WAYS };
  static struct waiter w;
  static struct fixture f;

  for (int way = 0; way < WAYS * 2; way++) {
    bool before = way / WAYS != 0; /* shut down first, then the limit */
    uvs_t *s;
    uvs_id_t id;

    CHECK_CALL(open_at_the_gate(&f, false, 1, LATE_FAILURE, &id));
    s = uvs_retain(f.s);
    ASSERT_RC(0, waiter_start(&w, f.s, id, UVS_NEVER, 0));
    ASSERT(await_asleep(1));
    if (!before)
      fixture_advance_ns(&f, LIMIT_NS);
    if (way % WAYS == ORDERLY)
      ASSERT_RC(0, uvs_shutdown(f.s));
    if (way % WAYS == NOW)
      ASSERT_RC(0, uvs_shutdown_now(f.s, probe_never_ran, NULL));
    if (way % WAYS == CLOSE)
      ASSERT_RC(0, uvs_close(f.s, note_closed));
    fixture_turn(&f);
    if (before)
      fixture_advance_ns(&f, LIMIT_NS);
    ASSERT_RC(0, uvs_is_terminated(s));
    ASSERT_U64(0, log_count(&f, EV_USER, 'c') + log_count(&f, EV_DONE, 0));
    ASSERT_U64(1, counts_of(s).timed_out);
    gate_let(1);
    ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 1));
    uv_thread_join(&w.thread);
    ASSERT_RC(UV_EPROTO, w.o.status);
    ASSERT_RC(UV_EPROTO, log_nth(&f, EV_DONE, 'a', 0)->status);
    ASSERT_U64(0, log_count(&f, EV_NEVER_RAN, 0));
    ASSERT(fixture_wait_log(&f, EV_TERMINATED, 0, 1));
    if (way % WAYS == CLOSE) {
      ASSERT(fixture_wait_log(&f, EV_USER, 'c', 1));
      f.s = NULL;
    }
    uvs_release(s);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L11 L13: without any step of the clock, the scheduler's only timer fires for the limit. */
TEST the_real_timer_fires_for_a_time_limit(void) {
  for (int i = 0; i < 3; i++) {
    struct fixture f;
    int64_t start_ns;

    fixture_init(&f);
    f.pool = FAKEPOOL_REAL;
    f.real_clock = true;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = limited(&f, 'a', LATE_DEFAULT);
    probe_of(&t)->act = act_endless; /* until it is asked to stop */
    t.keep_outcome = 0;
    t.result = NULL;
    start_ns = (int64_t)uv_hrtime();
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    ASSERT(fixture_run(&f, UV_RUN_DEFAULT, NULL));
    ASSERT(log_nth(&f, EV_DONE, 'a', 0)->time_ns >= start_ns + LIMIT_NS);
    ASSERT_RC(UV_ETIMEDOUT, log_nth(&f, EV_DONE, 'a', 0)->status);
    ASSERT_U64(1, fakepool_seen().timer_inits);
    ASSERT_FALSE(uv_is_active(find_handles(&f.loop, f.s).timer));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* ----------------------------------------------------------------------- a crowd --- */

enum { PRODUCERS = 3, EACH = 600, CROWD = PRODUCERS * EACH };

struct one {
  uvs_id_t id;
  int how, pace; /* how long its body takes */
  _Atomic int dones, status, cancels, started;
  int seen; /* what a settled wait gave; 1: none did */
};

static struct crowd {
  struct fixture f;
  struct one all[CROWD];
  _Atomic int through, disagree;
} crowd;

static int crowd_body(uvs_run_t *run) {
  struct one *x = run->arg;

  atomic_fetch_add(&x->started, 1);
  if (x->pace == 1)
    uv_sleep(1);
  for (int i = 0; x->pace == 2 && i < 20 && !uvs_cancelled(run); i++)
    uv_sleep(1);
  if (x->pace == 3)
    return UVS_PENDING;
  uvs_set_result(run, x);
  return x->pace == 4 ? UV_EIO : 0;
}

static int crowd_after(uvs_run_t *run) {
  return run->number % 2 == 0 ? UV_EINVAL : 0;
}

static void crowd_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct one *x = arg;

  (void)s;
  (void)id;
  atomic_store(&x->status, status);
  atomic_fetch_add(&x->dones, 1);
}

static uvs_task_t crowd_spec(struct one *x, uint64_t *random) {
  uvs_task_t t;

  uvs_task_init(&t);
  x->how = (int)test_random_below(random, LATE_HOWS);
  x->pace = (int)test_random_below(random, 5);
  x->seen = 1;
  limit_to(&t, x->how);
  t.limit.total_ns = UVS_US(1) << test_random_below(random, 12);
  t.first_ns = (int64_t)test_random_below(random, (uint64_t)UVS_MS(1));
  t.work = crowd_body;
  t.after = test_random_below(random, 3) == 0 ? crowd_after : NULL;
  t.done = crowd_done;
  t.arg = x;
  if (test_random_below(random, 4) == 0) {
    t.kind = UVS_FIXED_RATE;
    t.period_ns = UVS_MS(1);
    t.max_runs = 3;
    t.until_ns = UVS_MS(20); /* some never start in time, so they do not count */
    t.failure_policy = UVS_FAIL_CONTINUE;
  } else if (test_random_below(random, 3) == 0) {
    t.failure_policy = UVS_FAIL_RETRY;
    t.retry.wait_ns = UVS_US(100);
    t.max_failures = 3;
  }
  return t;
}

static void crowd_wait(struct one *x, unsigned flags) {
  uvs_outcome_t o;

  uvs_outcome_init(&o);
  if (uvs_wait(crowd.f.s, x->id, UVS_MS(2), flags, &o) != 0)
    return;
  if (o.status == 0 && o.result != late_result(x->how) && o.result != (void *)x &&
      o.result != PRESET)
    atomic_fetch_add(&crowd.disagree, 1);
  if (x->seen != 1 && x->seen != o.status)
    atomic_fetch_add(&crowd.disagree, 1); /* F1: it has changed */
  x->seen = o.status;
}

static void producer_main(void *arg) {
  struct one *all = arg;
  uint64_t random = test_seed + (uint64_t)(all - crowd.all) + 1;
  uvs_t *s = crowd.f.s;

  for (int i = 0; i < EACH; i++) {
    struct one *x = &all[i], *other = &all[test_random_below(&random, (uint64_t)i + 1)];
    uvs_task_t t = crowd_spec(x, &random);

    if (uvs_submit(s, &t, &x->id) < 0) {
      atomic_fetch_add(&crowd.disagree, 1);
      break;
    }
    switch (test_random_below(&random, 8)) {
    case 0:
    case 1:
      other->cancels += uvs_cancel(s, other->id, (unsigned)(i % 2) * UVS_CANCEL_TOKEN) >= 0;
      break;
    case 2:
    case 3:
      crowd_wait(other, i % 2 == 0 ? UVS_WAIT_SETTLED : 0);
      break;
    case 4:
      uvs_forget(s, other->id);
      break;
    default:
      uvs_finish(s, other->id, i % 3 == 0 ? UV_EIO : 0);
    }
  }
  /* Finishes the runs that are still pending, repeatedly for periodic tasks. */
  for (int i = 0; i < EACH; i++) {
    while (atomic_load(&all[i].dones) == 0) {
      uvs_finish(s, all[i].id, 0);
      crowd_wait(&all[i], UVS_WAIT_SETTLED);
      uv_sleep(0);
    }
  }
  atomic_fetch_add(&crowd.through, 1);
  uvs_clock_changed(s);
}

/* With such a hook, the body ends before its run does. */
static void after_nothing(uvs_run_t *run, int status) {
  (void)run;
  (void)status;
}

/* F1 F5 F13 F17 V9 L3 */
TEST many_limits_survive_cancels_waits_and_forgets_from_other_threads(void) {
  struct fixture *f = &crowd.f;
  uint64_t late = 0, cancelled = 0;
  uv_thread_t threads[PRODUCERS];
  uvs_counts_t c;

  fixture_init(f);
  f->pool = FAKEPOOL_REAL;
  f->real_clock = true;
  f->options.concurrency = 3;
  f->options.on_error = NULL;
  f->hooks.after_body = after_nothing;
  CHECK_CALL(fixture_open_turned(f));
  fakepool_pin(); /* the loop stays */
  for (int i = 0; i < PRODUCERS; i++)
    ASSERT_RC(0, uv_thread_create(&threads[i], producer_main, &crowd.all[i * EACH]));
  for (int64_t end_ns = (int64_t)uv_hrtime() + PATIENCE_NS;
       atomic_load(&crowd.through) < PRODUCERS && (int64_t)uv_hrtime() < end_ns;) {
    uv_run(&f->loop, UV_RUN_NOWAIT);
    c = counts_of(f->s);
    ASSERT(adds_up(&c));
  }
  fakepool_unpin();
  ASSERT_RC(PRODUCERS, atomic_load(&crowd.through));
  for (int i = 0; i < PRODUCERS; i++)
    uv_thread_join(&threads[i]);
  fixture_jump_ns(f, 0);

  for (int i = 0; i < CROWD; i++) {
    struct one *x = &crowd.all[i];
    int status = atomic_load(&x->status);

    ASSERT_RC(1, atomic_load(&x->dones));
    ASSERT(x->cancels == 0 || status == UV_ECANCELED);
    ASSERT(x->cancels > 0 || status != UV_ECANCELED);
    ASSERT(x->seen == 1 || x->seen == status);
    ASSERT(atomic_load(&x->started) <= 3);
    late += status == UV_ETIMEDOUT || status == UV_EPROTO;
    cancelled += status == UV_ECANCELED;
  }
  ASSERT_RC(0, atomic_load(&crowd.disagree));
  c = counts_of(f->s);
  ASSERT(adds_up(&c));
  ASSERT_U64(CROWD, c.submitted);
  ASSERT_U64(0, c.waiting + c.ready + c.running);
  ASSERT_U64(cancelled, c.cancelled);
  ASSERT(c.timed_out >= late && late > 0);
  ASSERT_U64(0, inspect_limits(f->s));
  CHECK_CALL(fixture_close(f));
  PASS();
}

/* ---------------------------------------------------------- before the body --- */

static struct {
  struct vclock *clock;
  uv_thread_t loop_thread;
  _Atomic int reads, held, open; /* the runner's reads of the clock; the second one waits */
} slow_start;

static int64_t slow_start_now(void *arg) {
  uv_thread_t self = uv_thread_self();

  if (!uv_thread_equal(&self, &slow_start.loop_thread) &&
      atomic_fetch_add(&slow_start.reads, 1) == 1) {
    atomic_store(&slow_start.held, 1);
    await_flag(&slow_start.open);
  }
  return vclock_now(arg);
}

/* F5, the header: uvs_error_cb. The loop settles the task after its start and before its body is
 * called. Then neither the body nor `after` is called, so the error hook is. */
TEST the_error_hook_gets_a_time_out_that_comes_before_the_body(void) {
  for (int after = 0; after < 2; after++) {
    static struct fixture f;

    fixture_init(&f);
    f.pool = FAKEPOOL_REAL;
    f.options.concurrency = 1;
    f.options.clock.monotonic_ns = slow_start_now;
    slow_start.loop_thread = uv_thread_self();
    slow_start.reads = slow_start.held = slow_start.open = 0;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = fixture_once(&f, 'a', 0);
    t.limit.total_ns = UVS_MS(10);
    t.after = after ? probe_after : NULL;
    t.done = NULL;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    ASSERT(fixture_wait_flag(&f, &slow_start.held));
    ASSERT_U64(1, counts_of(f.s).running);
    vclock_advance_ns(&f.clock, UVS_MS(10));
    ASSERT_RC(0, uvs_clock_changed(f.s));
    while (counts_of(f.s).timed_out == 0)
      uv_run(&f.loop, UV_RUN_ONCE);
    atomic_store(&slow_start.open, 1);
    while (live_tasks(f.s) > 0 || inspect_runners_out(f.s) > 0 || inspect_records(f.s) > 0)
      uv_run(&f.loop, UV_RUN_ONCE);
    ASSERT_STR_EQ("", log_string(&f, EV_WORK));
    ASSERT_STR_EQ("", log_string(&f, EV_AFTER));
    ASSERT_STR_EQ("a", log_string(&f, EV_ERROR));
    ASSERT_RC(UV_ETIMEDOUT, log_nth(&f, EV_ERROR, 'a', 0)->status);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

SUITE(limit_real) {
  RUN_TEST(a_timed_out_task_is_settled_at_once_and_quiet_after_its_body_returned);
  RUN_TEST(the_loop_raises_the_token_of_a_timed_out_body);
  RUN_TEST(a_cancelled_body_is_asked_to_stop_at_its_limit);
  RUN_TEST(a_timed_out_task_may_be_forgotten);
  RUN_TEST(uvs_all_waits_for_timed_out_bodies_and_returns_their_time_outs);
  RUN_TEST(uvs_any_can_be_won_by_a_substitute_result_or_lost_by_time_outs);
  RUN_TEST(shutdown_and_close_wait_for_a_timed_out_body);
  RUN_TEST(the_real_timer_fires_for_a_time_limit);
  RUN_TEST(the_error_hook_gets_a_time_out_that_comes_before_the_body);
  RUN_TEST(many_limits_survive_cancels_waits_and_forgets_from_other_threads);
}

TEST_MAIN(RUN_SUITE(limit_real));
