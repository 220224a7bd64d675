/* SPDX-License-Identifier: MIT
 *
 * Many threads, with libuv's pool and the real clock. Four producers call one or two schedulers on
 * one loop at random (from a seed), while these run, are reconfigured, shut down and closed, and a
 * while longer. Each task records what happens to it, and at the end the accounts must balance.
 *
 * Takes two seconds; with UVS_STRESS=long a minute. The accounts use relaxed atomics and no lock:
 * under ThreadSanitizer only the library itself orders one run after the other (S64).
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "lib/fixture.h"

enum { PRODUCERS = 4, JOBS = 1500, SIDES = 2 };

#define LONG_PATIENCE_NS UVS_SEC(100)

/* Errors of a task that were seen. */
enum {
  OVERLAPPED = 1,     /* two runs at once, or a run and its `after` */
  RAN_AFTER_DONE = 2, /* or `after` or `done` came after `done` */
  RAN_CANCELLED = 4,  /* a run started although a cancel had been answered "never runs" */
  WRONG_THREAD = 8,
  LOST_WRITE = 16, /* a run did not see what the one before it wrote */
  BAD_ANSWER = 32,
  EARLY = 64,
  DATED_BACK = 128, /* it said that it started before its time */
};

struct side;

struct job {
  struct side *side;
  uvs_id_t id; /* the producer's */
  uvs_task_t spec;
  bool accepted;
  bool pends;     /* its runs end by uvs_finish */
  int ret;        /* what the last of `lives` runs answers */
  uint64_t lives; /* of a periodic one; 0: until somebody ends it */
  int64_t not_before_ns;
  bool wall;

  _Atomic int moved; /* somebody tried to */
  _Atomic int busy, runs, dones, status, wrong, handed_back;
  _Atomic int never; /* a cancel was answered "never runs" */
  _Atomic int cancelled;
  _Atomic int awaits; /* pending: the thread that sets it to 0 finishes the run */
  _Atomic uvs_id_t run_id;
  int plain; /* written by runs only: the library must order them */
};

struct side {
  uvs_t *s;
  _Atomic int closed, now_called;
  bool terminated;
  uvs_counts_t at_end; /* in the terminated callback */
};

struct producer {
  uv_thread_t thread;
  uint64_t random;
  struct side *sides;
  int side_count;
  struct job *jobs; /* JOBS of them */
  int used;
  bool may_shut_down;
  uint64_t accepted[SIDES], refused[SIDES];
  int wrong; /* an answer that cannot be */
  int wrong_rc;
  const char *wrong_call;
  _Atomic int *over; /* everything is closed */
};

static uv_thread_t loop_thread;

static int get(_Atomic int *p) {
  return atomic_load_explicit(p, memory_order_relaxed);
}

static void set(_Atomic int *p, int v) {
  atomic_store_explicit(p, v, memory_order_relaxed);
}

static int add(_Atomic int *p, int v) {
  return atomic_fetch_add_explicit(p, v, memory_order_relaxed);
}

static void blame(struct job *j, int what) {
  atomic_fetch_or_explicit(&j->wrong, what, memory_order_relaxed);
}

static bool on_loop(void) {
  uv_thread_t self = uv_thread_self();

  return uv_thread_equal(&self, &loop_thread) != 0;
}

/* ----------------------------------------------------------------- callbacks --- */

static void enter(struct job *j) {
  if (atomic_exchange_explicit(&j->busy, 1, memory_order_relaxed) != 0)
    blame(j, OVERLAPPED);
  if (get(&j->dones) != 0)
    blame(j, RAN_AFTER_DONE);
}

static int body(uvs_run_t *run) {
  struct job *j = run->arg;
  uint64_t number = run->number;
  int rc;

  if (get(&j->never) != 0)
    blame(j, RAN_CANCELLED);
  enter(j);
  if (!get(&j->moved) && !j->wall && number == 1 && uvs_now(run->scheduler) < j->not_before_ns)
    blame(j, EARLY);
  if (!j->wall && run->start_ns < run->ideal_ns)
    blame(j, DATED_BACK);
  if (j->plain++ != add(&j->runs, 1))
    blame(j, LOST_WRITE);
  if (j->spec.work == NULL && !on_loop())
    blame(j, WRONG_THREAD);
  if (uvs_cancelled(run) < 0)
    blame(j, BAD_ANSWER);
  if (j->pends) {
    atomic_store_explicit(&j->run_id, run->id, memory_order_relaxed);
    set(&j->awaits, 1); /* from here on it is the finisher's */
    return UVS_PENDING;
  }
  rc = j->lives != 0 && number >= j->lives ? j->ret : 0;
  set(&j->busy, 0);
  return rc;
}

static int after(uvs_run_t *run) {
  struct job *j = run->arg;

  enter(j);
  if (j->plain != get(&j->runs))
    blame(j, LOST_WRITE);
  if (!on_loop())
    blame(j, WRONG_THREAD);
  set(&j->busy, 0);
  return 0;
}

static void done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct job *j = arg;

  (void)id;
  enter(j);
  if (!on_loop())
    blame(j, WRONG_THREAD);
  if (s != j->side->s)
    blame(j, BAD_ANSWER);
  if (j->plain != get(&j->runs))
    blame(j, LOST_WRITE);
  set(&j->status, status);
  set(&j->busy, 0);
  add(&j->dones, 1);
}

static void never_ran(uvs_t *s, uvs_id_t id, void *task_arg, void *arg) {
  (void)s;
  (void)arg;
  if (id != 0)
    add(&((struct job *)task_arg)->handed_back, 1);
}

static void terminated(uvs_t *s) {
  struct side *side = uvs_data(s);

  side->terminated = true;
  uvs_counts_init(&side->at_end);
  uvs_counts(s, &side->at_end);
}

/* Any valid answer, and some invalid ones. */
static int rejected(uvs_t *s, const uvs_task_t *t, size_t n, int code) {
  (void)s;
  (void)n;
  (void)code;
  return (int)((uintptr_t)t->arg / sizeof(struct job)) % 4;
}

static void closed(uvs_t *s) {
  struct side *side = uvs_data(s);

  set(&side->closed, 1);
}

/* ----------------------------------------------------------------- producers --- */

static uint64_t any(struct producer *p, uint64_t n) {
  return test_random_below(&p->random, n);
}

/* rc must be one of the allowed codes, or UV_ESHUTDOWN, since another thread may have closed the
 * scheduler. */
static void expect(struct producer *p, const char *call, int rc, int a, int b, int c) {
  if (rc == a || rc == b || rc == c || rc == UV_ESHUTDOWN)
    return;
  p->wrong++;
  p->wrong_rc = rc;
  p->wrong_call = call;
}

static void describe(struct producer *p, struct job *j) {
  uvs_task_t *t = &j->spec;
  uint64_t kind = any(p, 10);
  int64_t delay_ns = any(p, 4) == 0 ? 0 : (int64_t)any(p, (uint64_t)UVS_MS(3));

  uvs_task_init(t);
  t->arg = j;
  t->first_ns = any(p, 12) == 0 ? UVS_HOUR(1) : delay_ns;
  t->kind = kind < 6 ? UVS_ONE_SHOT : kind < 8 ? UVS_FIXED_RATE : UVS_FIXED_DELAY;
  t->period_ns = t->kind == UVS_ONE_SHOT ? 0 : UVS_US(50) + (int64_t)any(p, (uint64_t)UVS_MS(1));
  t->flags = any(p, 5) == 0 ? UVS_UNREF : 0;
  if (any(p, 5) == 0)
    t->after = body;
  else
    t->work = body;
  if (t->work != NULL && any(p, 4) == 0)
    t->after = after;
  if (any(p, 5) != 0)
    t->done = done; /* those without take shorter ways */
  if (t->kind == UVS_FIXED_RATE) {
    t->missed_policy = (int)any(p, 3);
    t->max_burst = t->missed_policy == UVS_MISSED_CATCH_UP ? (uint32_t)any(p, 3) : 0;
    t->jitter_ns = any(p, 3) == 0 ? t->period_ns / 2 : 0;
  }
  if (t->kind != UVS_ONE_SHOT && any(p, 5) == 0)
    t->max_runs = 1 + (uint32_t)any(p, 5);
  if (t->kind != UVS_ONE_SHOT && any(p, 5) == 0)
    t->until_ns = t->first_ns + UVS_MS(2);
  if (any(p, 6) == 0)
    t->name = "stressed";
  if (t->kind == UVS_ONE_SHOT && any(p, 8) == 0) {
    uv_timeval64_t now;
    uv_gettimeofday(&now);
    t->from = UVS_FROM_WALL;
    t->first_ns = UVS_SEC(now.tv_sec) + UVS_US(now.tv_usec) + delay_ns;
    j->wall = true;
  }
  j->pends = t->until_ns == 0 && any(p, 6) == 0;
  j->lives = t->kind == UVS_ONE_SHOT ? 1 : any(p, 6);
  j->ret = any(p, 4) == 0 ? UV_EIO : t->kind == UVS_ONE_SHOT ? 0 : UVS_STOP;
  if (j->pends)
    j->ret = 0; /* what uvs_finish says */
}

static void submit_one(struct producer *p) {
  struct job *j = &p->jobs[p->used];
  unsigned side = (unsigned)any(p, (uint64_t)p->side_count);
  int rc;

  if (p->used == JOBS)
    return;
  p->used++;
  j->side = &p->sides[side];
  describe(p, j);
  j->not_before_ns = j->spec.first_ns == 0 ? 0 : uvs_now(j->side->s) + j->spec.first_ns;
  j->accepted = true; /* before it can run */
  rc = uvs_submit(j->side->s, &j->spec, &j->id);
  expect(p, "submit", rc, 0, UV_EAGAIN, 0);
  if (rc == 0) {
    p->accepted[side]++;
    return;
  }
  j->accepted = false;
  p->refused[side] += rc == UV_EAGAIN || !get(&j->side->closed);
}

static void cancel_one(struct producer *p, struct job *j) {
  unsigned flags = (unsigned)any(p, 4);
  int rc = uvs_cancel(j->side->s, j->id, flags);

  expect(p, "cancel", rc, 0, 1,
         UV_ENOENT == rc || UV_EBUSY == rc || UVS_CANCELLED_BEFORE == rc ? rc : 0);
  if (rc == UV_EBUSY && (flags & UVS_CANCEL_IF_WAITING) == 0)
    p->wrong++;
  if (rc == UVS_CANCELLED && get(&j->never))
    p->wrong++; /* twice */
  if (rc == UVS_CANCELLED)
    set(&j->never, 1);
  if (rc >= 0)
    set(&j->cancelled, 1);
}

static void finish_one(struct job *j, int *wrong) {
  uvs_id_t id;
  int expected = 1;

  if (!atomic_compare_exchange_strong_explicit(&j->awaits, &expected, 0, memory_order_relaxed,
                                               memory_order_relaxed))
    return;
  id = atomic_load_explicit(&j->run_id, memory_order_relaxed);
  bool last = j->lives != 0 && (uint64_t)get(&j->runs) >= j->lives;
  set(&j->busy, 0);
  if (uvs_finish(j->side->s, id, last && j->spec.kind != UVS_ONE_SHOT ? UVS_STOP : 0) != 0)
    ++*wrong; /* it was running, and only we may finish it */
}

static void ask(struct producer *p, struct job *j) {
  uvs_t *s = j->side->s;
  uvs_info_t info;
  uvs_counts_t c;
  int rc;

  uvs_info_init(&info);
  rc = uvs_info(s, j->id, &info);
  expect(p, "info", rc, 0, UV_ENOENT, 0);
  if (rc == 0 && (info.arg != j || info.id != j->id))
    p->wrong++;
  uvs_counts_init(&c);
  rc = uvs_counts(s, &c);
  expect(p, "counts", rc, 0, 0, 0);
  if (rc == 0 && c.submitted != c.completed + c.failed + c.cancelled + c.timed_out + c.dropped +
                                    c.waiting + c.ready + c.running)
    p->wrong++;
  rc = uvs_is_terminated(s);
  expect(p, "is_terminated", rc, 0, 1, 0);
}

static void configure(struct producer *p, struct side *side) {
  uvs_t *s = side->s;
  int64_t ns;
  int rc;

  switch (any(p, 7)) {
  case 0:
    expect(p, "set_concurrency", uvs_set_concurrency(s, (int)any(p, 5)), 0, 0, 0);
    break;
  case 1:
    expect(p, "set_survive", uvs_set_after_shutdown(s, (int)any(p, 2), (int)any(p, 2)), 0, 0, 0);
    break;
  case 2:
    expect(p, "await", uvs_wait_terminated(s, (int64_t)any(p, (uint64_t)UVS_US(100)) - UVS_US(50)),
           0, UV_ETIMEDOUT, 0);
    break;
  case 3:
    expect(p, "next_due", uvs_next_due(s, &ns), UV_EPERM, UV_EPERM, UV_EPERM);
    break;
  case 4:
    expect(p, "clock_changed", uvs_clock_changed(s), 0, 0, 0);
    break;
  case 5: /* the last asks, if there is somebody to ask */
    expect(p, "set_rejection", uvs_set_rejection_policy(s, (int)any(p, UVS_REJECT_ASK + 1)), 0,
           uvs_rejection_handler(s) == NULL ? UV_EINVAL : 0, 0);
    break;
  default:
    if (!p->may_shut_down || any(p, 20) != 0)
      break;
    switch (any(p, 4)) {
    case 0:
      rc = uvs_shutdown_within(s, (int64_t)any(p, (uint64_t)UVS_MS(5)));
      break;
    case 1:
      rc = uvs_shutdown_now(s, never_ran, NULL);
      set(&side->now_called, 1);
      break;
    default:
      rc = uvs_shutdown(s);
    }
    expect(p, "shutdown", rc, 0, UV_EALREADY, 0);
  }
}

static void act(struct producer *p) {
  struct job *j = p->used == 0 ? NULL : &p->jobs[any(p, (uint64_t)p->used)];
  uint64_t what = any(p, 20);

  if (j == NULL || what < 8)
    submit_one(p);
  else if (what < 11 && j->accepted)
    cancel_one(p, j);
  else if (what < 14 && j->accepted && j->spec.kind != UVS_FIXED_RATE) {
    int64_t to_ns = (int64_t)any(p, (uint64_t)UVS_MS(4)) - UVS_MS(1);
    set(&j->moved, 1);
    int rc = uvs_reschedule(j->side->s, j->id, to_ns);
    expect(p, "reschedule", rc, 0, UV_EBUSY, UV_ENOENT);
  } else if (what < 16)
    finish_one(j, &p->wrong);
  else if (what < 19 && j->accepted)
    ask(p, j);
  else
    configure(p, j->side);
}

static void producer_main(void *arg) {
  struct producer *p = arg;

  /* For each scheduler a reference was taken before this thread was started. */
  while (!get(p->over))
    act(p);
  for (int i = 0; i < p->side_count; i++) {
    uvs_t *s = p->sides[i].s;
    uvs_id_t id = 77;
    uvs_info_t info;
    uvs_info_init(&info);
    p->wrong += uvs_schedule(s, 0, body, NULL, &id) != UV_ESHUTDOWN || id != 77;
    p->wrong += uvs_cancel(s, 1, 0) != UV_ESHUTDOWN;
    p->wrong += uvs_reschedule(s, 1, 0) != UV_ESHUTDOWN;
    p->wrong += uvs_finish(s, 1, 0) != UV_ESHUTDOWN;
    p->wrong += uvs_info(s, 1, &info) != UV_ESHUTDOWN;
    p->wrong += uvs_shutdown(s) != UV_ESHUTDOWN;
    p->wrong += uvs_shutdown_now(s, NULL, NULL) != UV_ESHUTDOWN;
    p->wrong += uvs_is_terminated(s) != 1;
    uvs_release(s);
  }
}

/* --------------------------------------------------------------------- guests --- */

/* Schedulers that are opened and closed on the same loop meanwhile. */
struct guests {
  int opened, closed, dones, wrong;
};

static int guest_body(uvs_run_t *run) {
  (void)run;
  return 0;
}

static void guest_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct guests *g = arg;

  (void)s;
  (void)id;
  g->dones++;
  g->wrong += status != 0 && status != UV_ECANCELED;
}

static void guest_closed(uvs_t *s) {
  struct guests *g = uvs_data(s);

  g->closed++;
}

static int have_a_guest(uv_loop_t *loop, struct guests *g, uint64_t *random) {
  uvs_options_t o;
  uvs_task_t t;
  uvs_t *s;
  int rc;

  uvs_options_init(&o);
  o.data = g;
  o.concurrency = (int)test_random_below(random, 3);
  rc = uvs_open(loop, &o, &s);
  if (rc < 0)
    return rc;
  g->opened++;
  uvs_task_init(&t);
  t.work = guest_body;
  t.done = guest_done;
  t.arg = g;
  for (int i = 0; i < 3 && rc == 0; i++) {
    t.first_ns = (int64_t)test_random_below(random, (uint64_t)UVS_US(200));
    rc = uvs_submit(s, &t, NULL);
  }
  return rc < 0 ? rc : uvs_close(s, guest_closed);
}

/* ------------------------------------------------------------------ the round --- */

static void on_beat(uv_timer_t *h) {
  (void)h; /* it only bounds how long one uv_run takes */
}

/* Finishes pending runs, so that shutdown and close need not wait for a producer. */
static void finish_all(struct producer *producers, int *wrong) {
  for (int i = 0; i < PRODUCERS; i++)
    for (int k = 0; k < JOBS; k++)
      if (get(&producers[i].jobs[k].awaits))
        finish_one(&producers[i].jobs[k], wrong);
}

static enum greatest_test_res check_job(struct job *j) {
  int runs = get(&j->runs), dones = get(&j->dones), status = get(&j->status);

  ASSERT_RC(0, get(&j->wrong));
  ASSERT_RC(0, get(&j->busy));
  ASSERT_RC(runs, j->plain);
  if (!j->accepted) {
    ASSERT_RC(0, runs);
    ASSERT_RC(0, dones);
    PASS();
  }
  ASSERT_RC(j->spec.done != NULL, dones);
  if (j->spec.kind == UVS_ONE_SHOT)
    ASSERT(runs <= 1);
  if (j->spec.max_runs != 0)
    ASSERT((uint32_t)runs <= j->spec.max_runs);
  if (j->spec.kind != UVS_ONE_SHOT && j->lives != 0)
    ASSERT((uint64_t)runs <= j->lives);
  if (get(&j->handed_back)) {
    ASSERT_RC(1, get(&j->handed_back));
    ASSERT_RC(0, runs);
  }
  if (dones == 0)
    PASS();
  if (get(&j->cancelled))
    ASSERT_RC(UV_ECANCELED, status);
  if (status == 0 && j->spec.until_ns == 0) /* its time may be over before its first run */
    ASSERT(runs > 0);
  if (status == UV_ECANCELED && j->spec.kind == UVS_ONE_SHOT && !get(&j->cancelled))
    ASSERT_RC(0, runs); /* a shutdown does not take a result away */
  if (status != 0 && status != UV_ECANCELED)
    ASSERT_RC(j->ret, status);
  PASS();
}

static enum greatest_test_res check_side(struct side *side, int index, struct producer *producers) {
  uvs_counts_t *c = &side->at_end;
  uint64_t accepted = 0, runs = 0, cancelled = 0, failed = 0;

  for (int i = 0; i < PRODUCERS; i++) {
    accepted += producers[i].accepted[index];
    for (int k = 0; k < producers[i].used; k++) {
      struct job *j = &producers[i].jobs[k];
      if (j->side != side || !j->accepted)
        continue;
      runs += (uint64_t)get(&j->runs);
      cancelled += get(&j->cancelled) != 0;
      failed += j->spec.done != NULL && get(&j->status) < 0 && get(&j->status) != UV_ECANCELED;
    }
  }
  ASSERT(side->terminated);
  ASSERT_U64(accepted, c->submitted);
  ASSERT_U64(0, c->waiting + c->ready + c->running + c->runners);
  ASSERT_U64(c->submitted, c->completed + c->failed + c->cancelled + c->dropped);
  ASSERT_U64(runs, c->runs);
  ASSERT(c->cancelled >= cancelled);
  ASSERT(c->failed >= failed);
  PASS();
}

static enum greatest_test_res round_of(uint64_t seed) {
  static const uint32_t caps[] = {0, 0, 5, 50};
  static struct producer producers[PRODUCERS];
  static struct side sides[SIDES];
  static _Atomic int over;
  uint64_t random = seed;
  int side_count = 1 + (int)test_random_below(&random, SIDES);
  int64_t busy_ns = UVS_MS(10) + (int64_t)test_random_below(&random, (uint64_t)UVS_MS(60));
  int64_t start_ns, end_ns;
  struct guests guests = {0, 0, 0, 0};
  struct fault fault;
  uv_loop_t loop;
  uv_timer_t beat;
  int wrong = 0;

  fault_init(&fault);
  memset(sides, 0, sizeof sides);
  memset(producers, 0, sizeof producers);
  set(&over, 0);
  loop_thread = uv_thread_self();
  ASSERT_RC(0, uv_loop_init(&loop));
  ASSERT_RC(0, uv_timer_init(&loop, &beat));
  ASSERT_RC(0, uv_timer_start(&beat, on_beat, 1, 1));
  for (int i = 0; i < side_count; i++) {
    uvs_options_t o;
    uvs_hooks_t hooks;
    uvs_hooks_init(&hooks);
    uvs_options_init(&o);
    o.hooks = &hooks;
    o.concurrency = (int)test_random_below(&random, 5) - 1;
    o.keep_alive = (int)test_random_below(&random, 3);
    o.delayed_after_shutdown = (int)test_random_below(&random, 2);
    o.periodic_after_shutdown = (int)test_random_below(&random, 2);
    o.max_pending = caps[test_random_below(&random, 4)];
    o.rejection_policy = (int)test_random_below(&random, UVS_REJECT_ASK);
    hooks.on_rejected = test_random_below(&random, 2) == 0 ? rejected : NULL;
    o.budget_ns = test_random_below(&random, 2) == 0 ? UVS_US(20) : UVS_MS(1);
    o.on_terminated = terminated;
    o.data = &sides[i];
    o.allocator = fault_option(&fault);
    ASSERT_RC(0, uvs_open(&loop, &o, &sides[i].s));
  }
  for (int i = 0; i < PRODUCERS; i++) {
    struct producer *p = &producers[i];
    p->random = (seed ^ (uint64_t)(i + 1) * UINT64_C(0x9e3779b97f4a7c15)) | 1;
    p->sides = sides;
    p->side_count = side_count;
    p->jobs = calloc(JOBS, sizeof *p->jobs);
    p->may_shut_down = test_random_below(&random, 3) == 0;
    p->over = &over;
    ASSERT(p->jobs != NULL);
    for (int k = 0; k < side_count; k++)
      uvs_retain(sides[k].s);
    ASSERT_RC(0, uv_thread_create(&p->thread, producer_main, p));
  }

  start_ns = (int64_t)uv_hrtime();
  while ((int64_t)uv_hrtime() - start_ns < busy_ns) {
    uv_run(&loop, UV_RUN_ONCE);
    if (test_random_below(&random, 20) == 0)
      ASSERT_RC(0, have_a_guest(&loop, &guests, &random));
  }
  for (int i = 0; i < side_count; i++) {
    ASSERT_RC(0, uvs_close(sides[i].s, closed));
    for (uint64_t n = test_random_below(&random, 5); n > 0; n--)
      uv_run(&loop, UV_RUN_ONCE);
  }
  end_ns = (int64_t)uv_hrtime() + LONG_PATIENCE_NS;
  for (;;) {
    bool all = guests.closed == guests.opened;
    for (int i = 0; i < side_count; i++)
      all &= get(&sides[i].closed) != 0;
    if (all || (int64_t)uv_hrtime() > end_ns)
      break;
    finish_all(producers, &wrong);
    uv_run(&loop, UV_RUN_ONCE);
  }
  set(&over, 1);
  for (int i = 0; i < PRODUCERS; i++)
    uv_thread_join(&producers[i].thread);

  for (int i = 0; i < side_count; i++)
    ASSERTm("a scheduler never closed", get(&sides[i].closed));
  ASSERT_RC(guests.opened, guests.closed);
  ASSERT_RC(3 * guests.opened, guests.dones);
  ASSERT_RC(0, guests.wrong);
  ASSERT_RC(0, wrong);
  for (int i = 0; i < PRODUCERS; i++) {
    if (producers[i].wrong_call != NULL)
      fprintf(stderr, "uvs_%s answered %d\n", producers[i].wrong_call, producers[i].wrong_rc);
    ASSERT_RC(0, producers[i].wrong);
    for (int k = 0; k < producers[i].used; k++)
      CHECK_CALL(check_job(&producers[i].jobs[k]));
  }
  for (int i = 0; i < side_count; i++)
    CHECK_CALL(check_side(&sides[i], i, producers));
  uv_close((uv_handle_t *)&beat, NULL);
  uv_run(&loop, UV_RUN_NOWAIT);
  ASSERT_RC(0, uv_loop_close(&loop));
  ASSERT_I64(0, atomic_load(&fault.live));
  for (int i = 0; i < PRODUCERS; i++)
    free(producers[i].jobs);
  PASS();
}

/* S64 S68 S22 S56 S44 L3 L17 V9 */
TEST every_accepted_task_is_accounted_for_exactly_once(void) {
  const char *how = getenv("UVS_STRESS");
  int64_t limit_ns = how != NULL && strcmp(how, "long") == 0 ? UVS_MIN(1) : UVS_SEC(2);
  int64_t end_ns = (int64_t)uv_hrtime() + limit_ns;
  uint64_t random = test_seed;
  int rounds = 0;

  do {
    uint64_t seed = rounds == 0 ? test_seed : test_random(&random);
    enum greatest_test_res res = round_of(seed);
    if (res != GREATEST_TEST_RES_PASS) {
      fprintf(stderr, "round %d; to begin with it: SEED=%llu\n", rounds, (unsigned long long)seed);
      return res;
    }
    rounds++;
  } while ((int64_t)uv_hrtime() < end_ns);
  printf("%d rounds\n", rounds);
  PASS();
}

SUITE(stress) {
  RUN_TEST(every_accepted_task_is_accounted_for_exactly_once);
}

TEST_MAIN(RUN_SUITE(stress));
