/* SPDX-License-Identifier: MIT
 *
 * Time-outs in bulk: hundreds of thousands, most of them cancelled or postponed. Chapter T of the
 * contract, implemented with ordinary tasks.
 */
#include "lib/fixture.h"
#include "lib/inspect.h"
#include "lib/threads.h"

/* ------------------------------------------------------------------- time-outs --- */

/* The kinds of tasks that serve as time-outs. PLAIN tasks need one slot. The others also need a
 * cold record. */
enum kind { PLAIN, ON_POOL, KEPT, NAMED, PERIODIC, KINDS };

struct crowd;

struct timeout {
  struct crowd *crowd;
  enum kind kind;
  uvs_id_t id;
  int64_t armed_ns, due_ns; /* computed by the test */
  int64_t fired_ns;         /* the last time */
  int fires, ends, handed_back;
  int status; /* of its end */
};

struct crowd {
  struct fixture f;
  struct timeout *all;
  unsigned n;
  int64_t takes_ns; /* each body, on the virtual clock */
  unsigned fired, early, ended, cancelled, handed_back;
  bool all_came;  /* the last call of on_handed_back */
  unsigned wrong; /* callbacks in an order that must not be */
};

static int on_timeout(uvs_run_t *run) {
  struct timeout *t = run->arg;
  struct crowd *c = t->crowd;

  t->fires++;
  t->fired_ns = uvs_now(run->scheduler);
  c->fired++;
  c->early += t->fired_ns < t->due_ns || run->start_ns < t->due_ns;
  c->wrong += t->ends > 0 || t->handed_back > 0;
  if (c->takes_ns > 0)
    vclock_advance_ns(&c->f.clock, c->takes_ns);
  return UVS_STOP; /* a periodic one fires once, too */
}

static void on_end(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct timeout *t = arg;
  struct crowd *c = t->crowd;

  (void)s;
  t->ends++;
  t->status = status;
  c->ended++;
  c->cancelled += status == UV_ECANCELED;
  c->wrong += t->ends > 1 || id != t->id || status != (t->fires > 0 ? 0 : UV_ECANCELED);
}

/* For uvs_shutdown_now. */
static void on_handed_back(uvs_t *s, uvs_id_t id, void *task_arg, void *arg) {
  struct crowd *c = arg;
  struct timeout *t = task_arg;
  struct look l;

  c->wrong += c->all_came;
  if (id == 0) {
    c->all_came = true;
    return;
  }
  l = look_at(s, id);
  if (l.rc != 0 || l.info.arg != t) {
    c->wrong++;
    return;
  }
  t->handed_back++;
  c->handed_back++;
  c->wrong += t->handed_back > 1 || t->fires > 0 || t->ends > 0 || id != t->id;
  c->wrong += l.info.cancelled != 1 || l.info.state != UVS_ENDED;
}

/* The number of puts, moves and removals in the delay queue since ops_forget. */
static uint64_t ops_before;

static void ops_forget(struct crowd *c) {
  ops_before = counts_of(c->f.s).heap_ops;
}

static uint64_t ops_of(struct crowd *c) {
  return counts_of(c->f.s).heap_ops - ops_before;
}

static void crowd_init(struct crowd *c, unsigned n) {
  memset(c, 0, sizeof *c);
  c->n = n;
  c->all = calloc(n, sizeof *c->all);
  if (c->all == NULL)
    abort();
  for (unsigned i = 0; i < n; i++)
    c->all[i].crowd = c;
  fixture_init(&c->f);
}

static enum greatest_test_res crowd_open(struct crowd *c) {
  CHECK_CALL(fixture_open_turned(&c->f));
  ops_forget(c);
  PASS();
}

static enum greatest_test_res crowd_close(struct crowd *c) {
  CHECK_CALL(fixture_close(&c->f));
  ASSERT_U64(0, c->early);
  ASSERT_U64(0, c->wrong);
  free(c->all);
  PASS();
}

static uvs_task_t spec_of(struct timeout *t, int64_t delay_ns) {
  uvs_task_t s;

  uvs_task_init(&s);
  s.first_ns = delay_ns;
  s.after = t->kind == ON_POOL ? NULL : on_timeout;
  s.work = t->kind == ON_POOL ? on_timeout : NULL;
  s.done = on_end;
  s.arg = t;
  s.keep_outcome = t->kind == KEPT;
  s.name = t->kind == NAMED ? "time-out" : NULL;
  s.kind = t->kind == PERIODIC ? UVS_FIXED_DELAY : UVS_ONE_SHOT;
  s.period_ns = t->kind == PERIODIC ? UVS_SEC(1) : 0;
  return s;
}

static void expect_in(struct timeout *t, int64_t delay_ns) {
  t->armed_ns = uvs_now(t->crowd->f.s);
  t->due_ns = delay_ns > UVS_NEVER - t->armed_ns ? UVS_NEVER : t->armed_ns + delay_ns;
}

static int arm(struct timeout *t, int64_t delay_ns) {
  uvs_task_t s = spec_of(t, delay_ns);
  int rc;

  expect_in(t, delay_ns);
  t->fires = t->ends = t->handed_back = 0;
  rc = uvs_submit(t->crowd->f.s, &s, &t->id);
  return rc;
}

static int push_back(struct timeout *t, int64_t delay_ns) {
  int rc = uvs_reschedule(t->crowd->f.s, t->id, delay_ns);

  if (rc == 0)
    expect_in(t, delay_ns);
  return rc;
}

static int cancel(struct timeout *t) {
  return uvs_cancel(t->crowd->f.s, t->id, 0);
}

/* The state of a time-out as the API shows it: "armed", "expired" or "cancelled". "gone" if the
 * scheduler keeps nothing of it: then `done` has said which. */
static const char *shows(struct timeout *t) {
  struct look l = look_at(t->crowd->f.s, t->id);
  uvs_outcome_t o;
  int rc;

  if (t->kind != KEPT) {
    if (l.rc == UV_ENOENT)
      return t->ends != 1 ? "lost" : t->status == 0 ? "gone, expired" : "gone, cancelled";
    return l.info.cancelled ? "cancelled" : l.info.state == UVS_WAITING ? "armed" : "expiring";
  }
  uvs_outcome_init(&o);
  rc = uvs_wait(t->crowd->f.s, t->id, 0, 0, &o); /* only looks */
  if (rc == UV_ETIMEDOUT)
    return "armed";
  return rc < 0 ? "lost" : o.status == UV_ECANCELED ? "cancelled" : o.runs == 1 ? "expired" : "?";
}

static const char *expired(const struct timeout *t) {
  return t->kind == KEPT ? "expired" : "gone, expired";
}

static const char *cancelled(const struct timeout *t) {
  return t->kind == KEPT ? "cancelled" : "gone, cancelled";
}

/* The number of armed time-outs as the scheduler counts them. A double count on one side shows as a
 * negative number on the other. */
static uint64_t pending(struct crowd *c) {
  uvs_counts_t n = counts_of(c->f.s);

  if (!adds_up(&n) || n.waiting > c->n || n.ready > c->n || n.running > c->n)
    return UINT64_MAX;
  return n.waiting + n.ready + n.running;
}

/* --------------------------------------------------------------------- T1, T2 --- */

/* T1 T2 */
TEST a_time_out_shows_expired_when_it_has_fired_and_not_before(void) {
  for (int kind = 0; kind < KINDS; kind++) {
    struct crowd c;
    struct timeout *t;

    crowd_init(&c, 1);
    CHECK_CALL(crowd_open(&c));
    t = &c.all[0];
    t->kind = (enum kind)kind;
    ASSERT_RC(0, arm(t, UVS_MS(500)));
    ASSERT_STR_EQ("armed", shows(t));
    ASSERT_I64(UVS_MS(500), look_at(c.f.s, t->id).info.remaining_ns);
    fixture_advance_ns(&c.f, UVS_MS(500) - 1);
    ASSERT_STR_EQ("armed", shows(t));
    ASSERT_I64(1, look_at(c.f.s, t->id).info.remaining_ns);
    ASSERT_U64(0, look_at(c.f.s, t->id).info.runs);
    ASSERT_U64(0, c.fired + c.ended);
    ASSERT_U64(1, pending(&c));
    fixture_advance_ns(&c.f, 1);
    ASSERT_U64(1, c.fired);
    ASSERT_U64(1, c.ended);
    ASSERT_I64(t->due_ns, t->fired_ns);
    ASSERT_STR_EQ(expired(t), shows(t));
    ASSERT_RC(UV_ENOENT, cancel(t));
    ASSERT_STR_EQ(expired(t), shows(t));
    ASSERT_U64(0, pending(&c));
    fixture_advance_ns(&c.f, UVS_HOUR(1));
    ASSERT_U64(1, c.fired);
    CHECK_CALL(crowd_close(&c));
  }
  PASS();
}

/* T1 T2. A postponed time-out neither fires nor shows expired at its old deadline. */
TEST a_postponed_time_out_fires_after_its_new_delay(void) {
  for (int kind = 0; kind < KINDS; kind++) {
    struct crowd c;
    struct timeout *t;

    crowd_init(&c, 1);
    CHECK_CALL(crowd_open(&c));
    t = &c.all[0];
    t->kind = (enum kind)kind;
    ASSERT_RC(0, arm(t, UVS_MS(500)));
    for (int i = 0; i < 10; i++) {
      fixture_jump_ms(&c.f, 400);
      ASSERT_RC(0, push_back(t, UVS_MS(500)));
      ASSERT_STR_EQ("armed", shows(t));
      ASSERT_I64(UVS_MS(500), look_at(c.f.s, t->id).info.remaining_ns);
    }
    fixture_jump_ns(&c.f, UVS_MS(500) - 1);
    ASSERT_STR_EQ("armed", shows(t));
    ASSERT_U64(0, c.fired);
    fixture_jump_ns(&c.f, 1);
    ASSERT_STR_EQ(expired(t), shows(t));
    ASSERT_U64(1, c.fired);
    ASSERT_I64(4500, fixture_ms(&c.f, t->fired_ns));
    ASSERT_RC(UV_ENOENT, push_back(t, UVS_MS(500)));
    CHECK_CALL(crowd_close(&c));
  }
  PASS();
}

/* ------------------------------------------------------------------ T3, T4, T5 --- */

/* T3 T4. A hundred time-outs, one due in each ms. Every tenth is cancelled, every seventh is
 * postponed beyond the others. uvs_shutdown_now comes after `ms` milliseconds. */
static enum greatest_test_res stop_after(int ms) {
  enum { N = 100 };
  struct crowd c;
  unsigned gone = 0;

  crowd_init(&c, N);
  CHECK_CALL(crowd_open(&c));
  for (int i = 0; i < N; i++) {
    c.all[i].kind = (enum kind)(i % KINDS);
    ASSERT_RC(0, arm(&c.all[i], UVS_MS(i + 1)));
    if (i % 10 == 9)
      ASSERT_RC(UVS_CANCELLED, cancel(&c.all[i]));
    else if (i % 7 == 6)
      ASSERT_RC(0, push_back(&c.all[i], UVS_MS(N + i)));
  }
  fixture_advance_ms(&c.f, ms);
  ASSERT_U64(N / 10, c.cancelled);
  ASSERT_RC(0, uvs_shutdown_now(c.f.s, on_handed_back, &c));
  ASSERT_U64(0, c.handed_back); /* never from inside a call */
  fixture_turn(&c.f);
  for (int i = 0; i < N; i++) {
    struct timeout *t = &c.all[i];
    bool fires = i % 10 != 9 && t->due_ns <= uvs_now(c.f.s);

    ASSERT_RC(fires, t->fires);
    ASSERT_RC(!fires && i % 10 != 9, t->handed_back);
    ASSERT_RC(1, t->ends);
    ASSERT_STR_EQ(fires ? expired(t) : cancelled(t), shows(t));
    gone += fires || i % 10 == 9;
  }
  ASSERT_U64(N - gone, c.handed_back);
  ASSERT(c.all_came);
  ASSERT_U64(0, pending(&c));
  ASSERT_RC(1, uvs_is_terminated(c.f.s));
  fixture_advance_ns(&c.f, UVS_HOUR(1));
  ASSERT_U64(N, c.fired + c.cancelled);
  CHECK_CALL(crowd_close(&c));
  PASS();
}

/* T3 T4 */
TEST shutdown_now_hands_back_exactly_the_time_outs_that_did_not_fire(void) {
  CHECK_CALL(stop_after(0));
  CHECK_CALL(stop_after(37));
  CHECK_CALL(stop_after(200));
  PASS();
}

static int stop_here(uvs_run_t *run) {
  struct timeout *t = run->arg;

  on_timeout(run);
  return uvs_shutdown_now(run->scheduler, on_handed_back, t->crowd);
}

/* T3 T4. The other time-outs were due in the same pass, but had not fired. */
TEST shutdown_now_in_a_body_hands_back_time_outs_due_in_the_same_pass(void) {
  enum { N = 20 };
  struct crowd c;

  crowd_init(&c, N);
  CHECK_CALL(crowd_open(&c));
  for (int i = 0; i < N; i++) {
    uvs_task_t s = spec_of(&c.all[i], UVS_MS(10));

    if (i == 4)
      s.after = stop_here;
    expect_in(&c.all[i], UVS_MS(10));
    ASSERT_RC(0, uvs_submit(c.f.s, &s, &c.all[i].id));
  }
  fixture_advance_ms(&c.f, 10);
  ASSERT_U64(5, c.fired);
  ASSERT_U64(N - 5, c.handed_back);
  ASSERT_U64(N - 5, c.cancelled);
  for (int i = 0; i < N; i++)
    ASSERT_STR_EQ(i < 5 ? "gone, expired" : "gone, cancelled", shows(&c.all[i]));
  CHECK_CALL(crowd_close(&c));
  PASS();
}

/* T3. A periodic time-out that waits for its next time has fired already. */
TEST shutdown_now_does_not_hand_back_a_periodic_time_out_that_has_fired(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t fired = fixture_delay(&f, 'a', UVS_MS(10), UVS_MS(10));
  uvs_task_t waits = fixture_delay(&f, 'b', UVS_MS(30), UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &fired, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &waits, NULL));
  fixture_advance_ms(&f, 15);
  ASSERT_RC(0, uvs_shutdown_now(f.s, probe_never_ran, NULL));
  fixture_turn(&f);
  ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
  ASSERT_STR_EQ("b", log_string(&f, EV_NEVER_RAN));
  ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 0)->status);
  ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'b', 0)->status);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* Attempts to arm one more, and how many were refused as they should be. */
static struct {
  struct crowd *crowd;
  struct timeout extra;
  unsigned asked, refused;
} late;

static void arm_in_vain(void) {
  uvs_task_t s = spec_of(&late.extra, UVS_MS(1));
  uvs_id_t id = 4711;

  late.asked++;
  late.refused += uvs_submit(late.crowd->f.s, &s, &id) == UV_ESHUTDOWN && id == 4711;
}

static int do_arm(void *arg) {
  (void)arg;
  arm_in_vain();
  return 0;
}

static void each_arms(uvs_t *s, uvs_id_t id, void *task_arg, void *arg) {
  on_handed_back(s, id, task_arg, arg);
  arm_in_vain();
  late.refused -= uvs_reschedule(s, id, UVS_MS(1)) != UV_ENOENT; /* nor can it be had back */
}

static void done_arms(uvs_t *s, uvs_id_t id, int status, void *arg) {
  on_end(s, id, status, arg);
  arm_in_vain();
}

/* T5 */
TEST arming_after_shutdown_now_is_refused_on_every_thread(void) {
  enum { N = 3 };
  struct crowd c;

  crowd_init(&c, N);
  CHECK_CALL(crowd_open(&c));
  memset(&late, 0, sizeof late);
  late.crowd = late.extra.crowd = &c;
  for (int i = 0; i < N; i++) {
    uvs_task_t s = spec_of(&c.all[i], UVS_MS(10));

    s.done = done_arms;
    ASSERT_RC(0, uvs_submit(c.f.s, &s, &c.all[i].id));
  }
  ASSERT_RC(0, uvs_shutdown_now(c.f.s, each_arms, &c));
  arm_in_vain(); /* still winding down */
  ASSERT_RC(0, elsewhere(do_arm, NULL));
  fixture_turn(&c.f);
  ASSERT_U64(N, c.handed_back);
  ASSERT_RC(1, uvs_is_terminated(c.f.s));
  arm_in_vain();
  ASSERT_RC(0, elsewhere(do_arm, NULL));
  ASSERT_RC(UV_EALREADY, uvs_shutdown_now(c.f.s, each_arms, &c));
  fixture_advance_ns(&c.f, UVS_HOUR(1));
  ASSERT_U64(2 * N + 1 + 4, late.asked); /* the last call of each_arms, too */
  ASSERT_U64(late.asked, late.refused);
  ASSERT_U64(late.asked, counts_of(c.f.s).rejected);
  ASSERT_U64(0, c.fired);
  ASSERT_RC(0, late.extra.ends);
  ASSERT_U64(N, c.ended);
  CHECK_CALL(crowd_close(&c));
  PASS();
}

/* -------------------------------------------------------------------------- T6 --- */

/* Delays around the values where a counter of ms, of ticks, or of a timer wheel would overflow. */
static const int64_t delays_ns[] = {
    UVS_MS(1),          UVS_DAY(1),
    UVS_DAY(24),        UVS_MS(INT64_C(1) << 31),
    UVS_DAY(49),        UVS_MS((INT64_C(1) << 32) + 1),
    UVS_DAY(400),       UVS_DAY(36525) /* a hundred years */,
    (INT64_C(1) << 62), UVS_US(1),
};

#define LEGS (sizeof delays_ns / sizeof delays_ns[0])

static int act_arm_again(struct probe *p, uvs_run_t *run) {
  uvs_task_t *t = p->data;
  unsigned runs = log_count(p->f, t->work != NULL ? EV_WORK : EV_AFTER, p->tag);

  /* A running task is not waiting, so it cannot be rescheduled. */
  log_add(p->f, EV_USER, 'm', run->id, uvs_reschedule(run->scheduler, run->id, UVS_MS(1)));
  if (runs == LEGS)
    return 0;
  t->first_ns = delays_ns[runs];
  return uvs_submit(run->scheduler, t, NULL);
}

/* T6 */
TEST a_body_can_rearm_its_time_out_even_for_many_days(void) {
  for (int on_pool = 0; on_pool < 2; on_pool++) {
    enum event_kind body = on_pool ? EV_WORK : EV_AFTER;
    int64_t due_ns = VCLOCK_START_NS;
    struct fixture f;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t =
        on_pool ? fixture_once(&f, 'a', delays_ns[0]) : fixture_loop_task(&f, 'a', delays_ns[0]);
    probe_of(&t)->act = act_arm_again;
    probe_of(&t)->data = &t;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    for (unsigned i = 0; i < LEGS; i++) {
      due_ns += delays_ns[i];
      fixture_advance_to(&f, due_ns - 1);
      ASSERT_U64(i, log_count(&f, body, 'a'));
      fixture_advance_to(&f, due_ns);
      ASSERT_U64(i + 1, log_count(&f, body, 'a'));
      ASSERT_I64(due_ns, log_nth(&f, body, 'a', i)->start_ns);
      ASSERT_RC(0, log_nth(&f, EV_DONE, 'a', i)->status);
      ASSERT_RC(UV_EBUSY, log_nth(&f, EV_USER, 'm', i)->status);
    }
    ASSERT_U64(0, live_tasks(f.s));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* T6. A periodic task, whose body does not rearm it. */
TEST a_periodic_time_out_goes_on_for_years(void) {
  struct fixture f;
  int64_t day_ms = UVS_DAY(1) / UVS_MS(1);

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_loop_task(&f, 'a', UVS_DAY(60));
  t.kind = UVS_FIXED_DELAY;
  t.period_ns = UVS_DAY(60);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ns(&f, UVS_DAY(3600) - 1);
  ASSERT_U64(59, log_count(&f, EV_AFTER, 'a'));
  fixture_advance_ns(&f, 1);
  ASSERT_U64(60, log_count(&f, EV_AFTER, 'a'));
  for (unsigned i = 0; i < 60; i++)
    ASSERT_I64((i + 1) * 60 * day_ms, fixture_ms(&f, log_nth(&f, EV_AFTER, 'a', i)->start_ns));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* -------------------------------------------------------------------------- T7 --- */

/* T7. The time-outs are armed within 0.1 s and due within 0.1 s. The bodies take 0.5 s together, so
 * the budget of a loop pass is used up 500 times. */
TEST a_hundred_thousand_time_outs_with_one_delay_fire_on_time(void) {
  enum { N = 100000 };
  const int64_t delay_ns = UVS_SEC(1), tick_ns = UVS_MS(1);
  struct crowd c;

  crowd_init(&c, N);
  c.takes_ns = UVS_US(5);
  CHECK_CALL(crowd_open(&c));
  for (int i = 0; i < N; i++) {
    ASSERT_RC(0, arm(&c.all[i], delay_ns));
    vclock_advance_ns(&c.f.clock, UVS_US(1));
  }
  ASSERT_U64(N, pending(&c));
  fixture_advance_to(&c.f, c.all[0].due_ns - 1);
  ASSERT_U64(0, c.fired);
  fixture_advance_ns(&c.f, 2 * (delay_ns + tick_ns));
  ASSERT_U64(N, c.fired);
  ASSERT_U64(N, c.ended);
  ASSERT_U64(0, pending(&c));
  for (int i = 0; i < N; i++) {
    ASSERT_RC(1, c.all[i].fires);
    ASSERT(c.all[i].fired_ns - c.all[i].armed_ns >= delay_ns);
    ASSERT(c.all[i].fired_ns - c.all[i].armed_ns <= 2 * (delay_ns + tick_ns));
    ASSERT(i == 0 || c.all[i].fired_ns > c.all[i - 1].fired_ns);
  }
  ASSERT_U64(100000 + 100000, ops_of(&c));
  CHECK_CALL(crowd_close(&c));
  PASS();
}

/* ----------------------------------------------------------------- T8, T9, T10 --- */

/* T8 T9 T10. On the loop the room is free again when the call returns, not some ticks later. */
TEST above_the_cap_arming_is_refused_until_one_is_cancelled_or_fires(void) {
  enum { CAP = 1000 };
  struct timeout *extra;
  struct crowd c;

  crowd_init(&c, CAP + 1);
  c.f.options.max_pending = CAP;
  CHECK_CALL(crowd_open(&c));
  extra = &c.all[CAP];
  for (unsigned i = 0; i < CAP; i++) {
    c.all[i].kind = (enum kind)(i % KINDS);
    ASSERT_U64(i, pending(&c));
    ASSERT_RC(0, arm(&c.all[i], UVS_MS(i + 1)));
  }
  ASSERT_RC(UV_EAGAIN, arm(extra, UVS_MS(1)));
  ASSERT_U64(CAP, pending(&c));
  ASSERT_U64(1, counts_of(c.f.s).rejected);
  for (unsigned i = 0; i < CAP; i++) /* to push back needs no room, and makes none */
    ASSERT_RC(0, push_back(&c.all[i], UVS_SEC(1) + UVS_MS(i + 1)));
  ASSERT_RC(UV_EAGAIN, arm(extra, UVS_MS(1)));

  ASSERT_RC(UVS_CANCELLED, cancel(&c.all[CAP / 2]));
  ASSERT_U64(CAP - 1, pending(&c));
  ASSERT_RC(0, arm(extra, UVS_SEC(10)));
  ASSERT_RC(UV_EAGAIN, arm(&c.all[CAP / 2], UVS_MS(1)));
  ASSERT_RC(UVS_CANCELLED, cancel_elsewhere(c.f.s, extra->id));
  ASSERT_U64(CAP - 1, pending(&c));
  fixture_turn(&c.f); /* both have heard of their end */
  ASSERT_RC(0, arm(extra, UVS_SEC(10)));
  ASSERT_RC(UV_EAGAIN, arm(&c.all[CAP / 2], UVS_MS(1)));

  fixture_advance_ms(&c.f, 1001); /* the first one fires */
  ASSERT_U64(1, c.fired);
  ASSERT_U64(CAP - 1, pending(&c));
  ASSERT_RC(0, arm(&c.all[CAP / 2], UVS_SEC(10)));
  ASSERT_RC(UV_EAGAIN, arm(&c.all[0], UVS_MS(1)));
  fixture_advance_ms(&c.f, 999); /* and all the others */
  ASSERT_U64(CAP - 1, c.fired);
  ASSERT_U64(2, pending(&c));
  CHECK_CALL(crowd_close(&c));
  PASS();
}

/* A model: which time-outs are armed, and until when. */
static unsigned model_armed(const struct crowd *c, const bool *armed) {
  unsigned n = 0;

  for (unsigned i = 0; i < c->n; i++)
    n += armed[i];
  return n;
}

/* T1 T2 T8 T9 T10 T13. In any order of arming, postponing, bringing forward, cancelling and firing,
 * the count is exact after each step. Each time-out fires once at its time or is cancelled once. */
TEST random_time_outs_fire_and_count_like_a_plain_list(void) {
  enum { N = 300, CAP = 200, STEPS = 20000 };
  uint64_t random = test_seed;
  static bool armed[N];
  struct crowd c;

  memset(armed, 0, sizeof armed);
  crowd_init(&c, N);
  c.f.options.max_pending = CAP;
  CHECK_CALL(crowd_open(&c));
  for (int step = 0; step < STEPS; step++) {
    unsigned i = (unsigned)test_random_below(&random, N);
    int64_t delay_ns = (int64_t)test_random_below(&random, (uint64_t)UVS_MS(100)) + 1;
    struct timeout *t = &c.all[i];

    switch (test_random_below(&random, 8)) {
    case 0:
    case 1:
    case 2:
      if (armed[i])
        break;
      if (model_armed(&c, armed) == CAP) {
        ASSERT_RC(UV_EAGAIN, arm(t, delay_ns));
        break;
      }
      t->kind = test_random_below(&random, 10) > 0 ? PLAIN : NAMED;
      ASSERT_RC(0, arm(t, delay_ns));
      armed[i] = true;
      break;
    case 3:
      ASSERT_RC(armed[i] ? UVS_CANCELLED : UV_ENOENT, cancel(t));
      if (!armed[i])
        break;
      armed[i] = false;
      fixture_turn(&c.f);
      ASSERT_RC(0, t->fires);
      ASSERT_RC(1, t->ends);
      ASSERT_RC(UV_ECANCELED, t->status);
      break;
    case 4:
    case 5:
    case 6:
      ASSERT_RC(armed[i] ? 0 : UV_ENOENT, push_back(t, delay_ns));
      break;
    default:
      fixture_advance_ns(&c.f, (int64_t)test_random_below(&random, (uint64_t)UVS_MS(2)));
      for (unsigned k = 0; k < N; k++) {
        bool fires = armed[k] && c.all[k].due_ns <= uvs_now(c.f.s);

        if (!armed[k])
          continue;
        ASSERT_RC(fires, c.all[k].fires);
        ASSERT_RC(fires, c.all[k].ends);
        if (fires)
          ASSERT_I64(c.all[k].due_ns, c.all[k].fired_ns);
        armed[k] = !fires;
      }
    }
    ASSERT_U64(model_armed(&c, armed), pending(&c));
    ASSERT(inspect_check(c.f.s));
  }
  ASSERT(c.fired > STEPS / 100 && c.cancelled > STEPS / 100);
  CHECK_CALL(crowd_close(&c));
  PASS();
}

/* ------------------------------------------------------------------------- T11 --- */

/* A callback cancels all other time-outs, twice, while they are due in the current pass, and reads
 * the count after each cancel. */
static struct {
  struct crowd *crowd;
  unsigned times, wrong;
} turn;

static void cancel_the_others(const struct timeout *me, uint64_t mine) {
  struct crowd *c = turn.crowd;
  uint64_t left = c->n - 1 + mine;

  turn.times++;
  turn.wrong += pending(c) != left;
  for (unsigned i = 0; i < c->n; i++) {
    if (&c->all[i] == me)
      continue;
    turn.wrong += cancel(&c->all[i]) != UVS_CANCELLED;
    turn.wrong += pending(c) != --left;
    turn.wrong += cancel(&c->all[i]) != UV_ENOENT;
    turn.wrong += pending(c) != left;
  }
}

static int body_cancels(uvs_run_t *run) {
  int rc = on_timeout(run);

  cancel_the_others(run->arg, 1);
  return rc;
}

static int after_cancels(uvs_run_t *run) {
  cancel_the_others(run->arg, 1);
  return 0;
}

static void done_cancels(uvs_t *s, uvs_id_t id, int status, void *arg) {
  on_end(s, id, status, arg);
  cancel_the_others(arg, 0);
}

static int body_cancels_itself(uvs_run_t *run) {
  struct timeout *t = run->arg;

  on_timeout(run);
  cancel_the_others(t, 1);
  turn.wrong += cancel(t) != UVS_CANCELLED_WHILE_RUNNING;
  turn.wrong += pending(t->crowd) != 0;
  turn.wrong += cancel(t) != UVS_CANCELLED_BEFORE;
  turn.wrong += pending(t->crowd) != 0;
  return 0;
}

static void done_of_cancelled(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct timeout *t = arg;

  (void)s, (void)id;
  t->ends++;
  t->crowd->ended++;
  t->crowd->cancelled += status == UV_ECANCELED;
}

/* Who cancels. DONE, AFTER: an earlier body has used up the budget, so the others are ready and
 * wait for the next pass. OUTSIDE: the others are due, but the loop has not looked at the clock
 * yet. */
enum canceller { BODY, ITSELF, OUTSIDE, DONE, POOL_BODY, AFTER, CANCELLERS };

static uvs_task_t first_of(struct timeout *t, enum canceller who) {
  uvs_task_t s;

  t->kind = who == POOL_BODY || who == AFTER ? ON_POOL : PLAIN;
  s = spec_of(t, UVS_MS(10));
  if (who == BODY)
    s.after = body_cancels;
  else if (who == ITSELF)
    s.after = body_cancels_itself;
  else if (who == DONE)
    s.done = done_cancels;
  else if (who == POOL_BODY)
    s.work = body_cancels;
  else if (who == AFTER)
    s.after = after_cancels;
  if (who == ITSELF)
    s.done = done_of_cancelled;
  return s;
}

/* After the pass there is room for exactly as many tasks as the cap allows: no room was given back
 * twice. */
static enum greatest_test_res cancel_in_the_turn(enum canceller who, enum kind kind, unsigned n) {
  struct crowd c;

  crowd_init(&c, n);
  c.f.options.max_pending = n;
  c.f.options.concurrency = 1;
  c.takes_ns = who == DONE || who == AFTER ? UVS_MS(2) : 0;
  CHECK_CALL(crowd_open(&c));
  memset(&turn, 0, sizeof turn);
  turn.crowd = &c;
  for (unsigned i = 0; i < n; i++) {
    uvs_task_t s;

    c.all[i].kind = kind;
    s = i == 0 ? first_of(&c.all[0], who) : spec_of(&c.all[i], UVS_MS(10));
    expect_in(&c.all[i], UVS_MS(10));
    ASSERT_RC(0, uvs_submit(c.f.s, &s, &c.all[i].id));
  }
  vclock_advance_ns(&c.f.clock, UVS_MS(10));
  if (who == OUTSIDE)
    cancel_the_others(&c.all[0], 1);
  ASSERT_RC(0, uvs_clock_changed(c.f.s));
  fixture_turn(&c.f);
  ASSERT_U64(0, turn.wrong);
  ASSERT_U64(1, turn.times);
  ASSERT_U64(1, c.fired);
  ASSERT_U64(n, c.ended);
  ASSERT_U64(who == ITSELF ? n : n - 1, c.cancelled);
  ASSERT_U64(0, pending(&c));
  ASSERT_U64(who == ITSELF ? 0 : 1, counts_of(c.f.s).completed);
  for (unsigned i = 0; i < n; i++) {
    c.all[i].kind = PLAIN;
    ASSERT_RC(0, arm(&c.all[i], UVS_MS(10)));
  }
  ASSERT_RC(UV_EAGAIN, arm(&c.all[0], UVS_MS(10)));
  ASSERT_U64(n, pending(&c));
  CHECK_CALL(crowd_close(&c));
  PASS();
}

/* T10 T11 */
TEST cancelling_time_outs_that_are_due_in_the_current_pass_counts_once(void) {
  for (int who = 0; who < CANCELLERS; who++)
    for (int kind = 0; kind < KINDS; kind++) {
      if ((who == POOL_BODY || who == AFTER) && kind != ON_POOL)
        continue; /* the loop's own would have run by then */
      CHECK_CALL(cancel_in_the_turn((enum canceller)who, (enum kind)kind, 5));
      CHECK_CALL(cancel_in_the_turn((enum canceller)who, (enum kind)kind, 200));
    }
  PASS();
}

/* ------------------------------------------------------------------------- T12 --- */

/* T12. The same for a delay that comes from postponing, and when the clock has advanced far. */
TEST the_largest_delays_neither_overflow_nor_fire(void) {
  static const int64_t large_ns[] = {UVS_NEVER, UVS_NEVER - 1, UVS_NEVER - VCLOCK_START_NS + 1};
  enum { SIZES = 3, WAYS = 3, N = SIZES * WAYS * KINDS };
  struct timeout *soon;
  struct crowd c;

  crowd_init(&c, N + 1);
  CHECK_CALL(crowd_open(&c));
  soon = &c.all[N];
  for (unsigned i = 0; i < N; i++) {
    int64_t ns = large_ns[i % SIZES];
    unsigned way = i / SIZES % WAYS;

    c.all[i].kind = (enum kind)(i / SIZES / WAYS);
    ASSERT_RC(0, arm(&c.all[i], way == 0 ? ns : UVS_MS(1)));
    if (way > 0)
      ASSERT_RC(0, push_back(&c.all[i], ns));
    if (way == 2) { /* there and back again */
      ASSERT_RC(0, push_back(&c.all[i], UVS_HOUR(1)));
      ASSERT_RC(0, push_back(&c.all[i], ns));
    }
  }
  fixture_turn(&c.f);
  for (unsigned i = 0; i < N; i++)
    ASSERT_I64(UVS_NEVER, look_at(c.f.s, c.all[i].id).info.remaining_ns);
  ASSERT_I64(-1, fixture_next_ms(&c.f));
  ASSERT_RC(0, arm(soon, UVS_MS(5))); /* and they do not delay others */
  fixture_advance_ms(&c.f, 5);
  ASSERT_RC(1, soon->fires);
  fixture_advance_to(&c.f, UVS_NEVER - UVS_SEC(1));
  ASSERT_U64(1, c.fired);
  ASSERT_RC(0, arm(soon, UVS_NEVER - 1));
  fixture_advance_to(&c.f, UVS_NEVER - 1);
  ASSERT_U64(1, c.fired);
  ASSERT_U64(N + 1, pending(&c));
  for (unsigned i = 0; i < N; i++)
    ASSERT_RC(UVS_CANCELLED, cancel(&c.all[i]));
  ASSERT_U64(1, pending(&c));
  fixture_turn(&c.f);
  ASSERT_U64(N, c.cancelled);
  CHECK_CALL(crowd_close(&c));
  PASS();
}

/* ------------------------------------------------------------------------- T13 --- */

/* T13. The hook is `done`: it is called once, promptly, on the loop, and never from inside the
 * cancel. */
TEST a_cancelled_time_out_gets_one_done_and_never_fires(void) {
  enum { N = 2 * 2 * KINDS };
  struct crowd c;

  crowd_init(&c, N);
  CHECK_CALL(crowd_open(&c));
  for (unsigned i = 0; i < N; i++) {
    c.all[i].kind = (enum kind)(i / 4);
    ASSERT_RC(0, arm(&c.all[i], UVS_MS(10)));
  }
  for (unsigned i = 0; i < N; i++) {
    if (i % 2 == 1)
      ASSERT_RC(0, push_back(&c.all[i], UVS_MS(20)));
    ASSERT_RC(UVS_CANCELLED,
              i / 2 % 2 == 0 ? cancel(&c.all[i]) : cancel_elsewhere(c.f.s, c.all[i].id));
    ASSERT_RC(0, c.all[i].ends); /* not from inside the call */
    ASSERT_RC(UV_ENOENT, cancel(&c.all[i]));
    ASSERT_RC(UV_ENOENT, push_back(&c.all[i], UVS_MS(30)));
    ASSERT_U64(N - 1 - i, pending(&c));
  }
  fixture_turn(&c.f); /* no time has passed */
  for (unsigned i = 0; i < N; i++) {
    ASSERT_RC(1, c.all[i].ends);
    ASSERT_STR_EQ(cancelled(&c.all[i]), shows(&c.all[i]));
  }
  fixture_advance_ns(&c.f, UVS_HOUR(1));
  ASSERT_U64(0, c.fired);
  ASSERT_U64(N, c.cancelled);
  ASSERT_U64(N, counts_of(c.f.s).cancelled);
  ASSERT_U64(0, counts_of(c.f.s).runs);
  CHECK_CALL(crowd_close(&c));
  PASS();
}

/* ------------------------------------------------------------------- push-backs --- */

#define MANY 100000

/* Arms all time-outs for the same instant, one hour from now. */
static enum greatest_test_res open_armed(struct crowd *c, enum kind kind, bool real_clock) {
  int64_t now_ns, next_ns;

  crowd_init(c, MANY);
  c->f.real_clock = real_clock;
  CHECK_CALL(crowd_open(c));
  now_ns = uvs_now(c->f.s);
  for (unsigned i = 0; i < MANY; i++) {
    struct timeout *t = &c->all[i];
    uvs_task_t s;

    t->kind = kind;
    s = spec_of(t, now_ns + UVS_HOUR(1));
    s.from = UVS_FROM_MONOTONIC;
    t->due_ns = now_ns + UVS_HOUR(1);
    ASSERT_RC(0, uvs_submit(c->f.s, &s, &t->id));
  }
  fixture_turn(&c->f);
  ASSERT_U64(100000, ops_of(c));
  ASSERT_U64(MANY, counts_of(c->f.s).heap_ops);
  ASSERT_RC(0, uvs_next_due(c->f.s, &next_ns));
  ASSERT_I64(now_ns + UVS_HOUR(1), next_ns);
  ops_forget(c);
  fakepool_forget();
  PASS();
}

/* T1 T2. 10^5 time-outs are postponed again and again. Nothing is done in the heap and the loop
 * does not wake up until the old deadline. Then each time-out is moved once. */
TEST postponing_time_outs_costs_nothing_until_the_old_deadline(void) {
  struct crowd c;
  uvs_counts_t before;
  int64_t old_ns, new_ns, next_ns;

  CHECK_CALL(open_armed(&c, PLAIN, false));
  old_ns = c.all[0].due_ns;
  before = counts_of(c.f.s);
  for (int round = 0; round < 10; round++) {
    vclock_advance_ns(&c.f.clock, UVS_MIN(5));
    for (unsigned i = 0; i < MANY; i++)
      ASSERT_RC(0, push_back(&c.all[i], UVS_HOUR(1)));
    fixture_turn(&c.f);
  }
  new_ns = c.all[0].due_ns;
  ASSERT_U64(0, ops_of(&c));
  ASSERT_U64(0, fakepool_seen().async_sends);
  ASSERT_U64(0, fakepool_seen().timer_starts);
  ASSERT_U64(before.heap_ops, counts_of(c.f.s).heap_ops);
  ASSERT_U64(before.wakeups, counts_of(c.f.s).wakeups);

  fixture_jump_ns(&c.f, old_ns - uvs_now(c.f.s) - 1);
  ASSERT_U64(0, ops_of(&c));
  fixture_jump_ns(&c.f, 1);
  ASSERT_U64(100000, ops_of(&c));
  ASSERT_RC(0, uvs_next_due(c.f.s, &next_ns));
  ASSERT_I64(new_ns, next_ns);
  ASSERT_U64(0, c.fired);
  ASSERT_U64(MANY, pending(&c));
  ASSERT_U64(before.heap_ops + MANY, counts_of(c.f.s).heap_ops);

  fixture_jump_ns(&c.f, new_ns - uvs_now(c.f.s) - 1);
  ASSERT_U64(100000, ops_of(&c));
  ASSERT_U64(0, c.fired);
  fixture_jump_ns(&c.f, 1);
  ASSERT_U64(100000 + 100000, ops_of(&c));
  ASSERT_U64(MANY, c.fired);
  ASSERT_U64(before.heap_ops + 2 * MANY, counts_of(c.f.s).heap_ops);
  CHECK_CALL(crowd_close(&c));
  PASS();
}

/* With the library's own clock there is a timer, armed for the old deadline. It is not touched. */
TEST postponing_time_outs_neither_touches_the_timer_nor_wakes_the_loop(void) {
  struct crowd c;
  uvs_counts_t before;

  CHECK_CALL(open_armed(&c, PLAIN, true));
  before = counts_of(c.f.s);
  for (unsigned i = 0; i < MANY; i++)
    ASSERT_RC(0, push_back(&c.all[i], UVS_HOUR(2)));
  fixture_turn(&c.f);
  ASSERT_U64(0, ops_of(&c));
  ASSERT_U64(0, fakepool_seen().async_sends);
  ASSERT_U64(0, fakepool_seen().timer_starts);
  ASSERT_U64(0, fakepool_seen().timer_stops);
  ASSERT_U64(before.wakeups, counts_of(c.f.s).wakeups);
  ASSERT_U64(0, c.fired);
  CHECK_CALL(crowd_close(&c));
  PASS();
}

/* Some time-outs were postponed, some were not, some were cancelled afterwards. At the old deadline
 * exactly the right ones fire. */
TEST only_time_outs_that_were_not_postponed_fire_at_the_old_deadline(void) {
  struct crowd c;

  CHECK_CALL(open_armed(&c, PLAIN, false));
  for (unsigned i = 0; i < MANY; i++) {
    if (i % 4 > 0)
      ASSERT_RC(0, push_back(&c.all[i], UVS_HOUR(i % 4 + 1)));
    if (i % 4 == 3)
      ASSERT_RC(UVS_CANCELLED, cancel(&c.all[i]));
  }
  ASSERT_U64(25000, ops_of(&c));
  fixture_advance_ns(&c.f, UVS_HOUR(1));
  ASSERT_U64(MANY / 4, c.fired);
  ASSERT_U64(50000 + 50000, ops_of(&c));
  fixture_advance_ns(&c.f, UVS_HOUR(1));
  ASSERT_U64(MANY / 2, c.fired);
  fixture_advance_ns(&c.f, UVS_HOUR(1));
  ASSERT_U64(MANY / 4 * 3, c.fired);
  ASSERT_U64(50000 + 100000, ops_of(&c));
  for (unsigned i = 0; i < MANY; i++)
    ASSERT_RC(i % 4 < 3, c.all[i].fires);
  ASSERT_U64(0, pending(&c));
  CHECK_CALL(crowd_close(&c));
  PASS();
}

/* The same for tasks with a cold record. */
TEST postponing_tasks_of_every_kind_costs_nothing(void) {
  static const enum kind cold[] = {KEPT, NAMED, PERIODIC};

  for (int k = 0; k < 3; k++) {
    struct crowd c;

    CHECK_CALL(open_armed(&c, cold[k], true));
    for (int round = 0; round < 5; round++)
      for (unsigned i = 0; i < MANY; i++)
        ASSERT_RC(0, push_back(&c.all[i], UVS_HOUR(2)));
    fixture_turn(&c.f);
    ASSERT_U64(0, ops_of(&c));
    ASSERT_U64(0, fakepool_seen().async_sends);
    ASSERT_U64(0, fakepool_seen().timer_starts);
    ASSERT_U64(0, c.fired);
    ASSERT_U64(MANY, pending(&c));
    for (unsigned i = 0; i < MANY; i++)
      ASSERT(look_at(c.f.s, c.all[i].id).info.remaining_ns > UVS_HOUR(1));
    CHECK_CALL(crowd_close(&c));
  }
  PASS();
}

SUITE(expiry) {
  RUN_TEST(a_time_out_shows_expired_when_it_has_fired_and_not_before);
  RUN_TEST(a_postponed_time_out_fires_after_its_new_delay);
  RUN_TEST(a_body_can_rearm_its_time_out_even_for_many_days);
  RUN_TEST(a_periodic_time_out_goes_on_for_years);
  RUN_TEST(a_hundred_thousand_time_outs_with_one_delay_fire_on_time);
  RUN_TEST(the_largest_delays_neither_overflow_nor_fire);
}

SUITE(stop) {
  RUN_TEST(shutdown_now_hands_back_exactly_the_time_outs_that_did_not_fire);
  RUN_TEST(shutdown_now_in_a_body_hands_back_time_outs_due_in_the_same_pass);
  RUN_TEST(shutdown_now_does_not_hand_back_a_periodic_time_out_that_has_fired);
  RUN_TEST(arming_after_shutdown_now_is_refused_on_every_thread);
}

SUITE(counts) {
  RUN_TEST(above_the_cap_arming_is_refused_until_one_is_cancelled_or_fires);
  RUN_TEST(random_time_outs_fire_and_count_like_a_plain_list);
  RUN_TEST(cancelling_time_outs_that_are_due_in_the_current_pass_counts_once);
  RUN_TEST(a_cancelled_time_out_gets_one_done_and_never_fires);
}

SUITE(push_backs) {
  RUN_TEST(postponing_time_outs_costs_nothing_until_the_old_deadline);
  RUN_TEST(postponing_time_outs_neither_touches_the_timer_nor_wakes_the_loop);
  RUN_TEST(only_time_outs_that_were_not_postponed_fire_at_the_old_deadline);
  RUN_TEST(postponing_tasks_of_every_kind_costs_nothing);
}

TEST_MAIN(RUN_SUITE(expiry); RUN_SUITE(stop); RUN_SUITE(counts); RUN_SUITE(push_backs));
