/* SPDX-License-Identifier: MIT
 *
 * The end of a lane: who may dispose it and when, what that cancels, and when it is quiet.
 */
#include "lib/bodies.h"
#include "lib/lanes.h"
#include "lib/threads.h"

/* Counts how often a lock was taken: each critical section of the library starts with it. */
static _Atomic unsigned long sections;

int __real_uv_mutex_trylock(uv_mutex_t *mutex);
int __wrap_uv_mutex_trylock(uv_mutex_t *mutex);
int __wrap_uv_mutex_trylock(uv_mutex_t *mutex) {
  atomic_fetch_add(&sections, 1);
  return __real_uv_mutex_trylock(mutex);
}

/* -------------------------------------------------------------- from outside --- */

static int do_dispose(void *lane) {
  return uvs_lane_dispose(*(uvs_lane_t *)lane, 0);
}

static int do_dispose_token(void *lane) {
  return uvs_lane_dispose(*(uvs_lane_t *)lane, UVS_DISPOSE_TOKEN);
}

static int do_is_disposed(void *lane) {
  return uvs_lane_is_disposed(*(uvs_lane_t *)lane);
}

static int dispose_from(bool off_loop, uvs_lane_t *lane) {
  return off_loop ? elsewhere(do_dispose, lane) : do_dispose(lane);
}

/* Nothing of the lane is left: `quiet` came once, after every `done`. */
static enum greatest_test_res is_quiet(struct fixture *f, uvs_lane_t lane, unsigned dones) {
  unsigned after_quiet = 0;

  ASSERT_RC(1, uvs_lane_is_disposed(lane));
  ASSERT_U64(1, log_count(f, EV_USER, 'q'));
  ASSERT_U64(lane, log_nth(f, EV_USER, 'q', 0)->id);
  ASSERT_RC(0, log_nth(f, EV_USER, 'q', 0)->status);
  ASSERT(log_nth(f, EV_USER, 'q', 0)->on_loop);
  ASSERT_U64(dones, log_count(f, EV_DONE, 0));
  for (unsigned i = 0; i < log_total(f); i++)
    after_quiet += log_nth(f, (enum event_kind)0, 0, i) > log_nth(f, EV_USER, 'q', 0);
  ASSERT_U64(0, after_quiet);
  ASSERT_U64(0, inspect_lanes(f->s));
  PASS();
}

static struct {
  uvs_allocator_t real;
  uvs_lane_t lane; /* disposed at the next allocation; 0: none */
} disposer;

static void *dispose_and_alloc(size_t size, void *arg) {
  uvs_lane_t lane = disposer.lane;

  disposer.lane = 0;
  if (lane != 0)
    elsewhere(do_dispose, &lane);
  return disposer.real.alloc(size, arg);
}

/* R18: a submission has to make room, and the lane is disposed meanwhile. */
TEST a_lane_disposed_while_a_submission_makes_room_refuses_it(void) {
  struct fixture f;
  uvs_lane_t lane;
  uvs_id_t id = 77;

  fixture_init(&f);
  disposer.real = f.options.allocator;
  f.options.allocator.alloc = dispose_and_alloc;
  CHECK_CALL(fixture_open_turned(&f));
  CHECK_CALL(open_lane(&f, 1, &lane));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  disposer.lane = lane;
  ASSERT_RC(UV_ECANCELED, uvs_lane_submit(lane, &t, &id));
  ASSERT_U64(0, disposer.lane); /* it did make room */
  ASSERT_U64(77, id);
  fixture_turn(&f);
  ASSERT_U64(0, counts_of(f.s).submitted);
  CHECK_CALL(is_quiet(&f, lane, 0));
  CHECK_CALL(close_idle(&f));
  PASS();
}

/* Found by the model: uvs_next_due ignored a dispose on another thread. */
TEST next_due_is_now_after_a_dispose_on_another_thread(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    struct fixture f;
    uvs_lane_t lane;

    CHECK_CALL(open_with_lane(&f, 1, 1, &lane));
    fixture_turn(&f);
    ASSERT_I64(-1, fixture_next_ms(&f));
    ASSERT_RC(0, dispose_from(off_loop, &lane));
    ASSERT_I64(fixture_now_ms(&f), fixture_next_ms(&f));
    fixture_turn(&f);
    ASSERT_I64(-1, fixture_next_ms(&f));
    CHECK_CALL(is_quiet(&f, lane, 0));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* R15 R17 R18 R19 R29 R35: the lane's next task, ready tasks, loop tasks, delayed, periodic and
 * wall-clock tasks, and one that the loop has not seen yet. */
TEST disposing_a_lane_cancels_all_its_tasks_and_then_calls_quiet(void) {
  for (int how = 0; how < 16; how++) {
    bool off_loop = how % 2 != 0, without_done = how / 2 % 2 != 0;
    struct fixture f;
    uvs_lane_t lane;
    uvs_id_t id = 77;

    CHECK_CALL(open_with_lane(&f, 1 + how / 8, how / 4 % 2 == 0 ? 1 : 3, &lane));
    fakepool_hold();
    uvs_task_t t[8] = {fixture_once(&f, 'a', 0),
                       fixture_once(&f, 'b', 0),
                       fixture_once(&f, 'c', UVS_DAY(1)),
                       fixture_rate(&f, 'd', UVS_DAY(1), UVS_MS(1)),
                       fixture_delay(&f, 'e', 0, UVS_MS(1)),
                       fixture_once(&f, 'f', UVS_NEVER),
                       fixture_once(&f, 'g', VCLOCK_WALL_NS + UVS_DAY(2)),
                       fixture_once(&f, 'h', 0)};
    t[6].from = UVS_FROM_WALL;
    for (int i = 0; i < 8; i++) {
      t[i].lane = lane;
      if (without_done)
        t[i].done = NULL;
      if (i < 7)
        ASSERT_RC(0, uvs_submit(f.s, &t[i], NULL));
    }
    CHECK_CALL(submit(&f, 0, 'x', UVS_MS(10))); /* not the lane's */
    fixture_turn(&f);
    ASSERT_RC(0, submit_elsewhere(f.s, t[7], NULL));
    ASSERT_RC(0, uvs_lane_is_disposed(lane));
    ASSERT_RC(0, dispose_from(off_loop, &lane));
    ASSERT_RC(1, uvs_lane_is_disposed(lane));
    ASSERT_RC(1, elsewhere(do_is_disposed, &lane));
    ASSERT_RC(0, dispose_from(!off_loop, &lane));
    for (int round = 0; round < 2; round++) {
      ASSERT_RC(UV_ECANCELED, uvs_submit(f.s, &t[0], &id));
      ASSERT_RC(UV_ECANCELED, submit_elsewhere(f.s, t[0], NULL));
      ASSERT_RC(UV_ECANCELED, uvs_lane_submit(lane, &t[0], &id));
      ASSERT_U64(77, id); /* no id was written */
      if (round == 0)
        fakepool_release();
      fixture_turn(&f);
      ASSERT_RC(0, dispose_from(off_loop, &lane));
      CHECK_CALL(is_quiet(&f, lane, without_done ? 0 : 8));
    }
    for (unsigned i = 0; i < log_count(&f, EV_DONE, 0); i++)
      ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 0, i)->status);
    ASSERT_U64(8, counts_of(f.s).cancelled);
    ASSERT_U64(9, counts_of(f.s).submitted);
    fixture_advance_ms(&f, 20);
    ASSERT_STR_EQ("x", log_string(&f, EV_WORK));
    CHECK_CALL(close_idle(&f));
  }
  PASS();
}

/* R19 */
TEST an_empty_lane_is_quiet_in_the_next_loop_pass(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    for (int used = 0; used < 2; used++) {
      struct fixture f;
      uvs_lane_t lane;

      CHECK_CALL(open_with_lane(&f, 1, 1, &lane));
      if (used)
        CHECK_CALL(submit(&f, lane, 'a', 0));
      fixture_turn(&f);
      ASSERT_RC(0, dispose_from(off_loop != 0, &lane));
      ASSERT_U64(0, log_count(&f, EV_USER, 'q')); /* not from inside the call */
      fixture_turn(&f);
      CHECK_CALL(is_quiet(&f, lane, (unsigned)used));
      CHECK_CALL(close_idle(&f));
    }
  }
  PASS();
}

/* uv_run does not return before the `quiet` of a lane that was disposed on the loop. */
TEST the_loop_stays_alive_until_a_disposed_lane_is_quiet(void) {
  struct fixture f;
  uvs_lane_t lane;
  unsigned dones;

  CHECK_CALL(open_with_lane(&f, 1, 1, &lane));
  ASSERT_FALSE(fixture_alive(&f)); /* an open lane does not hold it */
  CHECK_CALL(submit(&f, lane, 'a', UVS_DAY(1)));
  ASSERT(fixture_alive(&f));
  ASSERT_RC(0, uvs_lane_dispose(lane, 0));
  ASSERT(fixture_run(&f, UV_RUN_DEFAULT, &dones));
  ASSERT_U64(1, dones);
  CHECK_CALL(is_quiet(&f, lane, 1));
  CHECK_CALL(close_idle(&f));
  PASS();
}

/* R28: in time that depends only on the lane's own tasks. All its memory is freed. */
TEST disposing_a_lane_frees_a_hundred_thousand_delayed_tasks(void) {
  enum { MANY = 100000 };

  for (int how = 0; how < 4; how++) {
    static _Atomic int dones;
    bool periodic = how % 2 != 0;
    struct fixture f;
    uvs_lane_t lane;
    uvs_id_t id = 0;
    long live;

    CHECK_CALL(open_with_lane(&f, 1, 1, &lane));
    CHECK_CALL(submit(&f, 0, 'x', UVS_DAY(2)));
    fixture_turn(&f);
    live = atomic_load(&f.fault.live);
    atomic_store(&dones, 0);
    for (int i = 0; i < MANY; i++) {
      uvs_task_t t;

      uvs_task_init(&t);
      t.lane = lane;
      t.kind = periodic ? UVS_FIXED_RATE : UVS_ONE_SHOT;
      t.first_ns = UVS_DAY(1);
      t.period_ns = periodic ? UVS_DAY(1) : 0;
      t.work = work_nothing;
      t.done = i % 2 == 0 ? done_counts : NULL;
      t.arg = &dones;
      ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    }
    fixture_turn(&f);
    ASSERT_U64(MANY + 1, counts_of(f.s).waiting);
    ASSERT_RC(0, dispose_from(how / 2 != 0, &lane));
    fixture_turn(&f);
    CHECK_CALL(is_quiet(&f, lane, 0));
    ASSERT_RC(MANY / 2, atomic_load(&dones));
    ASSERT_U64(1, counts_of(f.s).waiting);
    ASSERT_U64(MANY, counts_of(f.s).cancelled);
    ASSERT_U64(1, live_tasks(f.s));
    ASSERT_U64(1, inspect_records(f.s));
    ASSERT(inspect_queued(f.s) <= 2 + 64); /* S29 */
    ASSERT_RC(UV_ENOENT, uvs_cancel(f.s, id, 0));
    ASSERT(atomic_load(&f.fault.live) <= live + 64); /* chunks of slots stay, for the next */
    ASSERT_U64(0, log_count(&f, EV_WORK, 0));
    CHECK_CALL(close_idle(&f));
  }
  PASS();
}

/* ---------------------------------------------------------- while a body runs --- */

/* A task that resubmits itself. After ten runs its lane is disposed. */
struct chain {
  uvs_lane_t lane;
  int64_t delay_ns;
  int runs, most;
  bool inside; /* by its own body, before it submits once more */
  int last_rc;
};

static int act_chain(struct probe *p, uvs_run_t *run) {
  struct chain *c = p->data;
  uvs_task_t t = fixture_once(p->f, p->tag, c->delay_ns);

  (void)run;
  probe_of(&t)->act = act_chain;
  probe_of(&t)->data = c;
  if (++c->runs == c->most)
    c->last_rc =
        c->inside ? uvs_lane_dispose(c->lane, UVS_DISPOSE_TOKEN) : elsewhere(do_dispose, &c->lane);
  if (c->last_rc == 0)
    c->last_rc = uvs_lane_submit(c->lane, &t, NULL);
  return uvs_cancelled(run) ? UV_EIO : 0;
}

/* R15 R16 R22 */
TEST a_lane_disposed_after_ten_self_resubmits_ends_after_exactly_ten_runs(void) {
  for (int how = 0; how < 16; how++) {
    struct fixture f;
    struct chain c = {.most = 10, .delay_ns = how % 2 == 0 ? 0 : UVS_MS(1), .inside = how >= 8};

    CHECK_CALL(open_with_lane(&f, how / 2 % 4, 1, &c.lane));
    uvs_task_t t = in_lane(fixture_once(&f, 'a', 0), c.lane);
    probe_of(&t)->act = act_chain;
    probe_of(&t)->data = &c;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_advance_ms(&f, 100);
    ASSERT_RC(10, c.runs);
    ASSERT_RC(UV_ECANCELED, c.last_rc);
    ASSERT_U64(10, log_count(&f, EV_WORK, 'a'));
    ASSERT_U64(0, log_count(&f, EV_ERROR, 0));
    CHECK_CALL(is_quiet(&f, c.lane, 10));
    /* A task that runs when its lane is disposed ends cancelled, as by uvs_cancel. */
    ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 9)->status);
    ASSERT_U64(9, counts_of(f.s).completed);
    CHECK_CALL(close_idle(&f));
  }
  PASS();
}

static _Atomic int token_seen;

static int act_waits_for_token(struct probe *p, uvs_run_t *run) {
  (void)p;
  atomic_store(&token_seen, 0);
  log_add(p->f, EV_USER, 'i', 0, uvs_clock_changed(p->f->s));
  work_endless(run);
  atomic_store(&token_seen, uvs_cancelled(run));
  return 0;
}

/* R21: also by a later call, when the lane is disposed already. */
TEST dispose_raises_the_token_only_if_asked_to(void) {
  for (int how = 0; how < 4; how++) {
    static struct fixture f;
    uvs_lane_t lane;

    CHECK_CALL(open_real(&f, 2, 2, &lane));
    uvs_task_t t = in_lane(fixture_once(&f, 'a', 0), lane);
    probe_of(&t)->act = act_waits_for_token;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    ASSERT(fixture_wait_log(&f, EV_USER, 'i', 1));
    if (how % 2 == 0)
      ASSERT_RC(0, dispose_from(how >= 2, &lane));
    for (int i = 0; i < 20; i++)
      fixture_turn(&f);
    ASSERT_U64(how % 2 == 0, counts_of(f.s).cancelled); /* decided at once, F12 */
    ASSERT_U64(0, log_count(&f, EV_DONE, 0));
    ASSERT_U64(0, log_count(&f, EV_USER, 'q'));
    ASSERT_RC(0, how >= 2 ? elsewhere(do_dispose_token, &lane) : do_dispose_token(&lane));
    ASSERT(fixture_wait_log(&f, EV_USER, 'q', 1));
    ASSERT_RC(1, atomic_load(&token_seen));
    ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 0)->status);
    while (fakepool_pending() > 0)
      fixture_turn(&f);
    CHECK_CALL(close_idle(&f));
  }
  PASS();
}

struct duel {
  uvs_lane_t lane;
  _Atomic int inside, disposed, own, other;
};

static int act_duel(struct probe *p, uvs_run_t *run) {
  struct duel *d = p->data;

  if (p->tag == 'o') { /* the other one of the lane */
    atomic_fetch_add(&d->inside, 1);
    work_endless(run);
    atomic_store(&d->other, uvs_cancelled(run));
    return 0;
  }
  await_flag(&d->inside);
  uvs_lane_dispose(d->lane, UVS_DISPOSE_TOKEN);
  atomic_store(&d->own, uvs_cancelled(run));
  elsewhere(do_dispose_token, &d->lane); /* and another thread, at about the same time */
  atomic_fetch_or(&d->own, uvs_cancelled(run));
  return 0;
}

/* R22: the other bodies are asked to stop, but not the one that disposes. */
TEST a_body_that_disposes_its_lane_is_not_asked_to_stop(void) {
  static struct fixture f;
  static struct duel d;

  memset(&d, 0, sizeof d);
  CHECK_CALL(open_real(&f, 2, 2, &d.lane));
  uvs_task_t own = in_lane(fixture_once(&f, 'w', 0), d.lane),
             other = in_lane(fixture_once(&f, 'o', 0), d.lane);
  probe_of(&own)->act = probe_of(&other)->act = act_duel;
  probe_of(&own)->data = probe_of(&other)->data = &d;
  ASSERT_RC(0, uvs_submit(f.s, &other, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &own, NULL));
  ASSERT(fixture_wait_log(&f, EV_USER, 'q', 1));
  ASSERT_RC(0, atomic_load(&d.own));
  ASSERT_RC(1, atomic_load(&d.other));
  CHECK_CALL(is_quiet(&f, d.lane, 2));
  while (fakepool_pending() > 0)
    fixture_turn(&f);
  CHECK_CALL(close_idle(&f));
  PASS();
}

static int after_disposes(uvs_run_t *run) {
  struct probe *p = run->arg;

  log_run(p->f, EV_AFTER, p->tag, run);
  log_add(p->f, EV_USER, uvs_cancelled(run) ? 'T' : 't', 0,
          uvs_lane_dispose(*(uvs_lane_t *)p->data, UVS_DISPOSE_TOKEN));
  log_add(p->f, EV_USER, uvs_cancelled(run) ? 'T' : 't', 0, 0);
  return 0;
}

/* R16 R22: in `after`, and in the body of a loop task. */
TEST a_body_on_the_loop_may_dispose_its_lane(void) {
  for (int loop_task = 0; loop_task < 2; loop_task++) {
    struct fixture f;
    uvs_lane_t lane;

    CHECK_CALL(open_with_lane(&f, 2, 1, &lane));
    uvs_task_t t = in_lane(fixture_once(&f, 'a', 0), lane);
    t.after = after_disposes;
    t.work = loop_task ? NULL : t.work;
    probe_of(&t)->data = &lane;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    CHECK_CALL(submit(&f, lane, 'b', 0));
    fixture_turn(&f);
    ASSERT_STR_EQ("ttq", log_string(&f, EV_USER));
    ASSERT_STR_EQ(loop_task ? "" : "a", log_string(&f, EV_WORK));
    CHECK_CALL(is_quiet(&f, lane, 2));
    CHECK_CALL(close_idle(&f));
  }
  PASS();
}

/* L14: a pending run delays `quiet`. */
TEST a_pending_run_keeps_the_lane_from_being_quiet(void) {
  for (int how = 0; how < 8; how++) {
    struct fixture f;
    uvs_lane_t lane;
    uvs_id_t id;

    CHECK_CALL(open_with_lane(&f, how / 4 * 2, 1, &lane));
    uvs_task_t t = in_lane(fixture_once(&f, 'a', 0), lane);
    t.after = how / 2 % 2 == 0 ? NULL : probe_after;
    probe_of(&t)->ret = UVS_PENDING;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_turn(&f);
    ASSERT_RC(0, dispose_from(how % 2 != 0, &lane));
    fixture_turn(&f);
    ASSERT_U64(0, log_count(&f, EV_USER, 'q') + log_count(&f, EV_DONE, 0));
    ASSERT_U64(1, counts_of(f.s).cancelled);
    ASSERT_RC(UV_ECANCELED, uvs_lane_submit(lane, &t, NULL));
    ASSERT_RC(0, uvs_lane_finish(lane, id, 0)); /* still a task of it */
    fixture_turn(&f);
    CHECK_CALL(is_quiet(&f, lane, 1));
    CHECK_CALL(close_idle(&f));
  }
  PASS();
}

/* A kept outcome does not delay `quiet`, and survives the lane. F9 */
TEST kept_outcomes_survive_the_end_of_their_lane(void) {
  struct fixture f;
  uvs_lane_t lane;
  uvs_outcome_t o;
  uvs_id_t id[2];

  CHECK_CALL(open_with_lane(&f, 1, 1, &lane));
  for (int i = 0; i < 2; i++) {
    uvs_task_t t = in_lane(fixture_once(&f, 'a' + i, i == 0 ? 0 : UVS_DAY(1)), lane);

    t.keep_outcome = 1;
    t.result = &f;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id[i]));
  }
  fixture_turn(&f);
  ASSERT_RC(0, uvs_lane_dispose(lane, 0));
  fixture_turn(&f);
  CHECK_CALL(is_quiet(&f, lane, 2));
  uvs_outcome_init(&o);
  ASSERT_RC(0, uvs_wait(f.s, id[0], 0, 0, &o));
  ASSERT_EQ((void *)&f, o.result);
  ASSERT_RC(UV_ENOENT, uvs_lane_cancel(lane, id[0], 0));
  ASSERT_RC(0, uvs_wait(f.s, id[1], 0, 0, &o));
  ASSERT_RC(UV_ECANCELED, o.status);
  ASSERT_RC(0, uvs_forget(f.s, id[0]));
  ASSERT_RC(0, uvs_forget(f.s, id[1]));
  fixture_turn(&f);
  CHECK_CALL(close_idle(&f));
  PASS();
}

/* -------------------------------------------------------------- in callbacks --- */

static void done_disposes(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct probe *p = arg;

  probe_done(s, id, status, arg);
  log_add(p->f, EV_USER, 'd', 0, uvs_lane_dispose(*(uvs_lane_t *)p->data, 0));
}

/* R19 R34 */
TEST a_lane_may_be_disposed_in_the_done_of_one_of_its_tasks(void) {
  for (int last = 0; last < 2; last++) {
    struct fixture f;
    uvs_lane_t lane;

    CHECK_CALL(open_with_lane(&f, 2, 1, &lane));
    uvs_task_t t = in_lane(fixture_once(&f, 'a', 0), lane);
    t.done = done_disposes;
    probe_of(&t)->data = &lane;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    if (!last)
      CHECK_CALL(submit(&f, lane, 'b', UVS_MS(1)));
    fixture_advance_ms(&f, 5);
    ASSERT_STR_EQ("dq", log_string(&f, EV_USER));
    ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
    CHECK_CALL(is_quiet(&f, lane, last ? 1 : 2));
    CHECK_CALL(close_idle(&f));
  }
  PASS();
}

struct heir {
  struct fixture *f;
  uvs_lane_t other, opened;
  int own_rc, other_rc, submit_rc, open_rc, shown;
  bool close;
};

static void quiet_acts(uvs_t *s, uvs_lane_t lane, void *arg) {
  struct heir *h = arg;
  uvs_task_t t = fixture_once(h->f, 'z', 0);

  log_add(h->f, EV_USER, 'Q', lane, 0);
  h->shown = uvs_lane_is_disposed(lane);
  h->own_rc = uvs_lane_dispose(lane, UVS_DISPOSE_TOKEN);
  h->submit_rc = uvs_lane_submit(lane, &t, NULL);
  h->other_rc = uvs_lane_dispose(h->other, 0);
  h->open_rc = uvs_lane_open(s, NULL, &h->opened);
  if (h->close)
    h->own_rc |= uvs_close(s, note_closed);
}

/* R19: dispose this lane and another, submit, open, close, all in `quiet`. */
TEST anything_may_be_called_in_quiet(void) {
  for (int close = 0; close < 2; close++) {
    struct fixture f;
    uvs_lane_options_t o;
    uvs_lane_t lane;
    struct heir h = {.f = &f, .close = close != 0};

    CHECK_CALL(open_with_lane(&f, 1, 1, &h.other));
    uvs_lane_options_init(&o);
    o.on_quiet = quiet_acts;
    o.arg = &h;
    ASSERT_RC(0, uvs_lane_open(f.s, &o, &lane));
    CHECK_CALL(submit(&f, h.other, 'b', UVS_MS(1)));
    ASSERT_RC(0, uvs_lane_dispose(lane, 0));
    if (close) {
      fixture_turn_until_closed(&f);
      f.s = NULL;
      ASSERT_STR_EQ("Qqc", log_string(&f, EV_USER));
    } else {
      fixture_turn(&f);
      ASSERT_STR_EQ("Qq", log_string(&f, EV_USER));
      ASSERT_U64(1, inspect_lanes(f.s));
      ASSERT_RC(0, uvs_lane_is_disposed(h.opened));
    }
    ASSERT_RC(1, h.shown);
    ASSERT_RC(0, h.own_rc | h.other_rc | h.open_rc);
    ASSERT_RC(UV_ECANCELED, h.submit_rc);
    ASSERT_STR_EQ("b", log_string(&f, EV_DONE));
    CHECK_CALL(fixture_close(&f));
    ASSERT_RC(1, uvs_lane_is_disposed(h.opened));
  }
  PASS();
}

/* ------------------------------------------------------------ all at an end --- */

static enum greatest_test_res fill_lanes(struct fixture *f, uvs_lane_t lane[2], bool pending) {
  CHECK_CALL(open_with_lane(f, 2, 1, &lane[0]));
  CHECK_CALL(open_lane(f, 2, &lane[1]));
  for (int i = 0; i < 2; i++) {
    uvs_task_t a = in_lane(fixture_once(f, 'a', 0), lane[i]),
               p = in_lane(fixture_rate(f, 'p', UVS_MS(2), UVS_MS(2)), lane[i]);

    probe_of(&a)->ret = pending ? UVS_PENDING : 0;
    ASSERT_RC(0, uvs_submit(f->s, &a, &probe_of(&a)->id));
    CHECK_CALL(submit(f, lane[i], 'b', 0));
    CHECK_CALL(submit_loop_task(f, lane[i], 'c'));
    CHECK_CALL(submit(f, lane[i], 'd', UVS_MS(1)));
    ASSERT_RC(0, uvs_submit(f->s, &p, NULL));
  }
  PASS();
}

/* S33 S35 S38 S43 */
TEST an_orderly_shutdown_runs_the_tasks_of_lanes(void) {
  struct fixture f;
  uvs_lane_t lane[2], more;

  CHECK_CALL(fill_lanes(&f, lane, false));
  uvs_task_t t = fixture_once(&f, 'z', 0);
  ASSERT_RC(0, uvs_shutdown(f.s));
  ASSERT_RC(UV_ESHUTDOWN, uvs_lane_submit(lane[0], &t, NULL));
  ASSERT_RC(UV_ESHUTDOWN, uvs_lane_open(f.s, NULL, &more));
  fixture_advance_ms(&f, 5);
  ASSERT_RC(1, uvs_is_terminated(f.s));
  ASSERT_U64(6, log_count(&f, EV_WORK, 0)); /* a, b, d of each; p is periodic */
  ASSERT_U64(2, log_count(&f, EV_AFTER, 'c'));
  ASSERT_U64(10, log_count(&f, EV_DONE, 0));
  CHECK_CALL(pool_is_idle(&f));
  ASSERT_U64(2, inspect_lanes(f.s));
  ASSERT_RC(0, uvs_lane_is_disposed(lane[0])); /* it has an owner, who disposes it */
  ASSERT_RC(0, elsewhere(do_dispose, &lane[0]));
  ASSERT_RC(0, uvs_lane_dispose(lane[1], 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("qq", log_string(&f, EV_USER));
  ASSERT_U64(0, inspect_lanes(f.s));
  CHECK_CALL(close_idle(&f));
  PASS();
}

static struct {
  uvs_t *other;
  uvs_lane_t lane;
} nested;

static int dispose_outer_lane(uvs_run_t *run) {
  (void)run;
  return uvs_lane_dispose(nested.lane, UVS_DISPOSE_TOKEN);
}

static int act_runs_another(struct probe *p, uvs_run_t *run) {
  log_add(p->f, EV_USER, 'e', 0, uvs_execute(nested.other, dispose_outer_lane, NULL));
  log_add(p->f, EV_USER, 't', 0, uvs_cancelled(run));
  return 0;
}

/* R22: the body that disposes its lane is not asked to stop, even if it runs inside a body of
 * another scheduler on the same thread. */
TEST a_nested_body_that_disposes_its_lane_is_not_asked_to_stop(void) {
  struct fixture f;
  uvs_options_t o;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  o = f.options;
  o.max_pending = 1;
  o.rejection_policy = UVS_REJECT_CALLER_RUNS;
  o.on_terminated = NULL;
  ASSERT_RC(0, uvs_open(&f.loop, &o, &nested.other));
  uvs_task_t x = fixture_once(&f, 'x', UVS_HOUR(1));
  ASSERT_RC(0, uvs_submit(nested.other, &x, NULL));
  ASSERT_RC(0, uvs_lane_open(f.s, NULL, &nested.lane));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  t.lane = nested.lane;
  probe_of(&t)->act = act_runs_another;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  ASSERT_STR_EQ("et", log_string(&f, EV_USER));
  ASSERT_RC(0, log_nth(&f, EV_USER, 'e', 0)->status);
  ASSERT_RC(1, uvs_lane_is_disposed(nested.lane));
  ASSERT_RC(0, log_nth(&f, EV_USER, 't', 0)->status);
  ASSERT_RC(0, uvs_close(nested.other, NULL));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S33 V2 */
TEST an_immediate_shutdown_hands_back_the_tasks_of_lanes(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    struct fixture f;
    uvs_lane_t lane[2];

    CHECK_CALL(fill_lanes(&f, lane, true));
    fixture_turn(&f); /* the a's run, and of the wide lane b and c too */
    ASSERT_RC(0, off_loop ? elsewhere(do_shutdown_now, f.s) : do_shutdown_now(f.s));
    fixture_turn(&f);
    ASSERT_U64(1 + 2 * 2 + 1, log_count(&f, EV_NEVER_RAN, 0));
    ASSERT_U64(1, log_count(&f, EV_NEVER_RAN, 'b'));
    ASSERT_U64(3, log_count(&f, EV_WORK, 0));
    for (unsigned i = 0; i < 2; i++)
      ASSERT_RC(0, uvs_finish(f.s, log_nth(&f, EV_WORK, 'a', i)->id, 0));
    fixture_turn(&f);
    ASSERT_RC(1, uvs_is_terminated(f.s));
    ASSERT_U64(10, log_count(&f, EV_DONE, 0));
    CHECK_CALL(pool_is_idle(&f));
    ASSERT_U64(2, inspect_lanes(f.s));
    ASSERT_STR_EQ("", log_string(&f, EV_USER));
    CHECK_CALL(close_idle(&f));
  }
  PASS();
}

/* L17: and `quiet` comes before the close callback. */
TEST closing_the_scheduler_disposes_open_lanes(void) {
  struct fixture f;
  uvs_lane_t lane[2];

  CHECK_CALL(fill_lanes(&f, lane, true));
  fixture_turn(&f);
  ASSERT_RC(0, uvs_close(f.s, note_closed));
  for (int i = 0; i < 10; i++)
    fixture_turn(&f);
  ASSERT_RC(1, uvs_lane_is_disposed(lane[0]));
  ASSERT_STR_EQ("", log_string(&f, EV_USER));
  for (unsigned i = 0; i < 2; i++) /* by the lane: that is how a pending body ends */
    ASSERT_RC(0, uvs_lane_finish(lane[i], log_nth(&f, EV_WORK, 'a', i)->id, 0));
  fixture_turn_until_closed(&f);
  f.s = NULL;
  ASSERT_STR_EQ("qqc", log_string(&f, EV_USER));
  ASSERT_U64(10, log_count(&f, EV_DONE, 0));
  for (int i = 0; i < 2; i++) {
    ASSERT_RC(1, uvs_lane_is_disposed(lane[i]));
    ASSERT_RC(0, uvs_lane_dispose(lane[i], 0));
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* The critical sections that closing takes with this many lanes, of which one ends in each pass. */
static enum greatest_test_res close_with_lanes(int lanes, unsigned long *ret) {
  unsigned long before;
  struct fixture f;
  uvs_lane_t lane;

  CHECK_CALL(open_with_lane(&f, 1, 1, &lane));
  for (int i = 1; i < lanes; i++)
    CHECK_CALL(open_lane(&f, 1, &lane));
  fixture_turn(&f);
  inspect_set_budget_ns(f.s, 0);
  before = atomic_load(&sections);
  ASSERT_RC(0, uvs_close(f.s, note_closed));
  fixture_turn_until_closed(&f);
  *ret = atomic_load(&sections) - before;
  f.s = NULL;
  ASSERT_U64(lanes, log_count(&f, EV_USER, 'q'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L7: a close that looked at all lanes in each pass would take 16 times as many. */
TEST closing_takes_time_proportional_to_the_number_of_lanes(void) {
  unsigned long few, many;

  CHECK_CALL(close_with_lanes(100, &few));
  CHECK_CALL(close_with_lanes(400, &many));
  ASSERT(few >= 100);
  ASSERT(many <= 6 * few);
  PASS();
}

/* L7: for a lane that another thread disposed, the loop ends tasks within the budget of a pass. The
 * same holds for lanes. Here the budget is used up immediately, so only the minimum is done. */
TEST disposing_lanes_does_not_hold_the_loop_longer_than_the_budget(void) {
  enum { TASKS = 1000, LANES = 20 };
  struct fixture f;
  uvs_lane_t lane[LANES];
  uvs_counts_t c;

  CHECK_CALL(open_with_lane(&f, 1, 1, &lane[0]));
  for (int i = 1; i < LANES; i++)
    CHECK_CALL(open_lane(&f, 1, &lane[i]));
  uvs_task_t t = in_lane(fixture_once(&f, 'a', UVS_DAY(1)), lane[0]);
  t.done = NULL;
  for (int i = 0; i < TASKS; i++)
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  inspect_set_budget_ns(f.s, 0);
  ASSERT_RC(0, elsewhere(do_dispose, &lane[0]));
  for (unsigned turns = 1; (c = counts_of(f.s)).waiting > 0; turns++) {
    ASSERT(turns <= TASKS);
    uv_run(&f.loop, UV_RUN_NOWAIT);
    ASSERT(counts_of(f.s).waiting < c.waiting);
    ASSERT(c.waiting - counts_of(f.s).waiting <= 100);
  }
  for (int i = 1; i < LANES; i++)
    ASSERT_RC(0, uvs_lane_dispose(lane[i], 0));
  for (unsigned turns = 1; log_count(&f, EV_USER, 'q') < LANES; turns++) {
    unsigned quiet = log_count(&f, EV_USER, 'q');

    ASSERT(turns <= 2 * LANES);
    uv_run(&f.loop, UV_RUN_NOWAIT);
    ASSERT(log_count(&f, EV_USER, 'q') <= quiet + 1);
  }
  ASSERT_U64(0, inspect_lanes(f.s));
  CHECK_CALL(close_idle(&f));
  PASS();
}

static void ignore_timer(uv_timer_t *t) {
  (void)t;
}

static void ignore_close(uv_handle_t *h) {
  (void)h;
}

struct flood {
  struct fixture *f;
  uvs_task_t far, last;
};

static int do_flood(void *arg) {
  struct flood *flood = arg;
  int rc = 0;

  for (int i = 0; i < 1000; i++)
    rc |= uvs_submit(flood->f->s, &flood->far, NULL);
  return rc | uvs_submit(flood->f->s, &flood->last, NULL);
}

/* L1 L7: the loop has started to process what other threads sent, and the budget is used up. It
 * stays alive for the rest, even if what it has seen so far does not keep it alive. */
TEST the_loop_stays_alive_for_work_that_the_budget_left_over(void) {
  enum { TAKE_IN, DISPOSE, WAYS };

  for (int way = TAKE_IN; way < WAYS; way++) {
    struct fixture f;
    uvs_lane_t lane;
    uv_timer_t once; /* keeps the loop alive for the first pass */

    CHECK_CALL(open_with_lane(&f, 1, 1, &lane));
    struct flood flood = {&f, in_lane(fixture_once(&f, 'a', UVS_DAY(1)), lane),
                          fixture_loop_task(&f, 'z', 0)};
    flood.far.flags = UVS_UNREF;
    flood.far.done = NULL; /* which the loop would stay for */
    inspect_set_budget_ns(f.s, 0);
    if (way == DISPOSE) {
      ASSERT_RC(0, do_flood(&flood));
      fixture_turn(&f);
      ASSERT_RC(0, elsewhere(do_dispose, &lane));
    } else {
      ASSERT_RC(0, elsewhere(do_flood, &flood));
    }
    uv_timer_init(&f.loop, &once);
    uv_timer_start(&once, ignore_timer, 0, 0);
    ASSERT(fixture_run(&f, UV_RUN_DEFAULT, NULL));
    ASSERT_STR_EQ("z", log_string(&f, EV_AFTER));
    ASSERT_STR_EQ("z", log_string(&f, EV_DONE));
    ASSERT_U64(way == DISPOSE, log_count(&f, EV_USER, 'q'));
    uv_close((uv_handle_t *)&once, ignore_close);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

SUITE(lane_dispose) {
  RUN_TEST(next_due_is_now_after_a_dispose_on_another_thread);
  RUN_TEST(a_lane_disposed_while_a_submission_makes_room_refuses_it);
  RUN_TEST(disposing_a_lane_cancels_all_its_tasks_and_then_calls_quiet);
  RUN_TEST(an_empty_lane_is_quiet_in_the_next_loop_pass);
  RUN_TEST(the_loop_stays_alive_until_a_disposed_lane_is_quiet);
  RUN_TEST(disposing_a_lane_frees_a_hundred_thousand_delayed_tasks);
  RUN_TEST(a_lane_disposed_after_ten_self_resubmits_ends_after_exactly_ten_runs);
  RUN_TEST(dispose_raises_the_token_only_if_asked_to);
  RUN_TEST(a_body_that_disposes_its_lane_is_not_asked_to_stop);
  RUN_TEST(a_body_on_the_loop_may_dispose_its_lane);
  RUN_TEST(a_pending_run_keeps_the_lane_from_being_quiet);
  RUN_TEST(kept_outcomes_survive_the_end_of_their_lane);
  RUN_TEST(a_lane_may_be_disposed_in_the_done_of_one_of_its_tasks);
  RUN_TEST(anything_may_be_called_in_quiet);
  RUN_TEST(an_orderly_shutdown_runs_the_tasks_of_lanes);
  RUN_TEST(a_nested_body_that_disposes_its_lane_is_not_asked_to_stop);
  RUN_TEST(an_immediate_shutdown_hands_back_the_tasks_of_lanes);
  RUN_TEST(closing_the_scheduler_disposes_open_lanes);
  RUN_TEST(closing_takes_time_proportional_to_the_number_of_lanes);
  RUN_TEST(disposing_lanes_does_not_hold_the_loop_longer_than_the_budget);
  RUN_TEST(the_loop_stays_alive_for_work_that_the_budget_left_over);
}

TEST_MAIN(RUN_SUITE(lane_dispose));
