/* SPDX-License-Identifier: MIT
 *
 * The option precise_ns: a timerfd instead of the uv_timer. These tests use the real clock, so the
 * only assertion about times is that nothing is early. The library's calls to the system are
 * wrapped here, so that a test can refuse them or make a timer fire early.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/bodies.h"
#include "lib/fixture.h"
#include "lib/threads.h"

/* ------------------------------------------------- the wrapped system calls --- */

int __real_timerfd_create(int clock, int flags);
int __real_timerfd_settime(int fd, int flags, const struct itimerspec *t, struct itimerspec *old);
int __real_uv_poll_init(uv_loop_t *loop, uv_poll_t *h, int fd);
int __wrap_timerfd_create(int clock, int flags);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *t, struct itimerspec *old);
int __wrap_uv_poll_init(uv_loop_t *loop, uv_poll_t *h, int fd);
int __real_uv_cond_timedwait(uv_cond_t *cond, uv_mutex_t *lock, uint64_t timeout_ns);
int __wrap_uv_cond_timedwait(uv_cond_t *cond, uv_mutex_t *lock, uint64_t timeout_ns);

static struct {
  unsigned made, sets;
  int fd;         /* the last that was made */
  int64_t set_ns; /* the last instant it was set to; 0: it was stopped */
  int make_errno, poll_rc;
  bool refuse_set;
  int64_t early_ns; /* the timer is set this much too early */
} fd_seen;

static void fd_watch(void) {
  memset(&fd_seen, 0, sizeof fd_seen);
  fd_seen.fd = -1;
}

int __wrap_timerfd_create(int clock, int flags) {
  if (fd_seen.make_errno != 0) {
    errno = fd_seen.make_errno;
    return -1;
  }
  fd_seen.made++;
  fd_seen.fd = __real_timerfd_create(clock, flags);
  return fd_seen.fd;
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *t, struct itimerspec *old) {
  struct itimerspec to = *t;
  int64_t ns = UVS_SEC(t->it_value.tv_sec) + t->it_value.tv_nsec;

  fd_seen.sets++;
  fd_seen.set_ns = ns;
  if (fd_seen.refuse_set) {
    errno = EINVAL;
    return -1;
  }
  if (ns > fd_seen.early_ns) {
    to.it_value.tv_sec = (ns - fd_seen.early_ns) / UVS_SEC(1);
    to.it_value.tv_nsec = (ns - fd_seen.early_ns) % UVS_SEC(1);
  }
  return __real_timerfd_settime(fd, flags, &to, old);
}

int __wrap_uv_poll_init(uv_loop_t *loop, uv_poll_t *h, int fd) {
  return fd_seen.poll_rc != 0 ? fd_seen.poll_rc : __real_uv_poll_init(loop, h, fd);
}

static _Atomic int lingered; /* how often a runner lingered */
static _Atomic int patient;  /* ... until there is work, however long that takes */

int __wrap_uv_cond_timedwait(uv_cond_t *cond, uv_mutex_t *lock, uint64_t timeout_ns) {
  if (!fakepool_in_work())
    return __real_uv_cond_timedwait(cond, lock, timeout_ns);
  atomic_fetch_add(&lingered, 1);
  if (atomic_load(&patient) != 0)
    timeout_ns = (uint64_t)PATIENCE_NS;
  return __real_uv_cond_timedwait(cond, lock, timeout_ns);
}

static bool fd_is_open(int fd) {
  return fcntl(fd, F_GETFD) >= 0;
}

static void init_precise(struct fixture *f, int64_t precise_ns) {
  fd_watch();
  fixture_init(f);
  f->pool = FAKEPOOL_REAL;
  f->real_clock = true;
  f->options.precise_ns = precise_ns;
}

/* -------------------------------------------------------------------- open --- */

/* L19 */
TEST precise_ns_out_of_range_or_with_a_replaced_clock_is_refused(void) {
  static const int64_t wrong[] = {-1, INT64_MIN, UVS_MS(1) + 1, INT64_MAX};
  struct vclock clock;
  struct fault fault;
  uvs_options_t o;
  uv_loop_t loop;
  uvs_t *s = NULL;

  fd_watch();
  vclock_init(&clock);
  fault_init(&fault);
  ASSERT_RC(0, uv_loop_init(&loop));
  uvs_options_init(&o);
  ASSERT_I64(0, o.precise_ns);
  o.allocator = fault_option(&fault);
  for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    o.precise_ns = wrong[i];
    ASSERT_RC(UV_EINVAL, uvs_open(&loop, &o, &s));
  }
  o.precise_ns = 1;
  o.clock = vclock_option(&clock);
  ASSERT_RC(UV_EINVAL, uvs_open(&loop, &o, &s));
  ASSERT_EQ(NULL, s);
  ASSERT_U64(0, fd_seen.made);
  ASSERT_I64(0, atomic_load(&fault.total));
  ASSERT_RC(0, uv_loop_close(&loop));
  PASS();
}

/* L10 */
TEST if_the_system_refuses_a_timerfd_open_fails_cleanly(void) {
  struct fault fault;
  uvs_options_t o;
  uv_loop_t loop;
  uvs_t *s = NULL;

  fault_init(&fault);
  ASSERT_RC(0, uv_loop_init(&loop));
  uvs_options_init(&o);
  o.allocator = fault_option(&fault);
  o.precise_ns = 1;
  for (o.threads = 0; o.threads <= 2; o.threads += 2) { /* its threads are there by then */
    fd_watch();
    fd_seen.make_errno = EMFILE;
    ASSERT_RC(UV_EMFILE, uvs_open(&loop, &o, &s));
    fd_watch();
    fd_seen.poll_rc = UV_ENOSPC;
    ASSERT_RC(UV_ENOSPC, uvs_open(&loop, &o, &s));
    ASSERT_U64(1, fd_seen.made);
    ASSERT_FALSE(fd_is_open(fd_seen.fd));
    ASSERT_EQ(NULL, s);
    ASSERT_I64(0, atomic_load(&fault.live));
  }
  ASSERT_RC(0, uv_loop_close(&loop));
  PASS();
}

/* L10. libuv already has the handle, so the handle is closed in the next loop pass. */
TEST if_libuv_refuses_the_async_handle_the_timerfd_is_closed(void) {
  struct fault fault;
  uvs_options_t o;
  uv_loop_t loop;
  uvs_t *s = NULL;

  fd_watch();
  fault_init(&fault);
  ASSERT_RC(0, uv_loop_init(&loop));
  uvs_options_init(&o);
  o.allocator = fault_option(&fault);
  o.precise_ns = 1;
  fakepool_refuse_async(UV_EMFILE);
  ASSERT_RC(UV_EMFILE, uvs_open(&loop, &o, &s));
  fakepool_refuse_async(0);
  ASSERT_EQ(NULL, s);
  uv_run(&loop, UV_RUN_DEFAULT);
  ASSERT_FALSE(fd_is_open(fd_seen.fd));
  ASSERT_I64(0, atomic_load(&fault.live));
  ASSERT_RC(0, uv_loop_close(&loop));
  PASS();
}

/* L10 */
TEST open_of_a_precise_scheduler_fails_cleanly_at_every_allocation(void) {
  struct fault fault;
  uvs_options_t o;
  uv_loop_t loop;
  uvs_t *s = NULL;
  bool failed;
  long n = 0;

  fault_init(&fault);
  ASSERT_RC(0, uv_loop_init(&loop));
  uvs_options_init(&o);
  o.allocator = fault_option(&fault);
  o.precise_ns = 1;
  do {
    fd_watch();
    fault_after(n++);
    int rc = uvs_open(&loop, &o, &s);
    failed = fault_hit();
    ASSERT_RC(failed ? UV_ENOMEM : 0, rc);
    if (failed) {
      ASSERT_U64(0, fd_seen.made);
      ASSERT_I64(0, atomic_load(&fault.live));
    }
  } while (failed);
  ASSERT_RC(0, uvs_close(s, NULL));
  uv_run(&loop, UV_RUN_DEFAULT);
  ASSERT_I64(0, atomic_load(&fault.live));
  ASSERT_RC(0, uv_loop_close(&loop));
  PASS();
}

SUITE(open_it) {
  RUN_TEST(precise_ns_out_of_range_or_with_a_replaced_clock_is_refused);
  RUN_TEST(if_the_system_refuses_a_timerfd_open_fails_cleanly);
  RUN_TEST(if_libuv_refuses_the_async_handle_the_timerfd_is_closed);
  RUN_TEST(open_of_a_precise_scheduler_fails_cleanly_at_every_allocation);
}

/* ----------------------------------------------------------------- handles --- */

/* L13 */
TEST the_precise_timer_is_one_handle_and_only_if_chosen(void) {
  for (int precise = 0; precise < 2; precise++) {
    struct fixture f;
    struct found w;

    init_precise(&f, precise);
    CHECK_CALL(fixture_open(&f));
    uvs_task_t far = fixture_once(&f, 'f', UVS_HOUR(1)); /* so that there is one to wait for */
    ASSERT_RC(0, uvs_submit(f.s, &far, NULL));
    for (int i = 0; i < 20; i++) {
      uvs_task_t t = i % 2 == 0 ? fixture_once(&f, 'a', UVS_US(300 * i))
                                : fixture_loop_task(&f, 'a', UVS_US(300 * i));
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    }
    for (unsigned n = 5; n <= 20; n += 5) {
      ASSERT(fixture_wait_log(&f, EV_DONE, 'a', n));
      w = find_handles(&f.loop, f.s);
      ASSERT_U64(1, w.timers);
      ASSERT_U64(1, w.asyncs);
      ASSERT_U64(precise, w.others);
      ASSERT_U64(precise, fd_seen.made);
      if (precise == 0)
        continue;
      ASSERT_RC(UV_POLL, w.other->type);
      ASSERT_RC(1, uvs_owns_handle(f.s, w.other));
      ASSERT_RC(0, uv_has_ref(w.other));
    }
    ASSERT_EQ(precise == 0, fakepool_seen().timer_starts > 0);
    CHECK_CALL(fixture_close(&f));
    ASSERT_FALSE(precise != 0 && fd_is_open(fd_seen.fd));
  }
  PASS();
}

/* L13 */
TEST the_precise_timer_is_set_for_the_first_deadline_plus_slack(void) {
  static const int64_t slacks[] = {1, UVS_US(50), UVS_MS(1)};

  for (unsigned k = 0; k < sizeof slacks / sizeof *slacks; k++) {
    int64_t base_ns = (int64_t)uv_hrtime() + UVS_HOUR(1);
    int64_t nearest_ns = UVS_NEVER;
    uint64_t random = test_seed;
    struct fixture f;
    uvs_id_t id;

    init_precise(&f, slacks[k]);
    CHECK_CALL(fixture_open_turned(&f));
    for (int i = 0; i < 200; i++) {
      uvs_task_t t = fixture_once(&f, 'a', base_ns);
      unsigned sets = fd_seen.sets;

      t.from = UVS_FROM_MONOTONIC;
      t.first_ns += (int64_t)test_random_below(&random, (uint64_t)UVS_HOUR(100));
      ASSERT_RC(0, uvs_submit(f.s, &t, &id));
      ASSERT_U64(sets + (t.first_ns < nearest_ns), fd_seen.sets);
      if (t.first_ns < nearest_ns)
        nearest_ns = t.first_ns;
      ASSERT_I64(nearest_ns + slacks[k], fd_seen.set_ns);
    }
    uvs_task_t t = fixture_once(&f, 'b', nearest_ns - 1); /* from another thread the loop hears */
    t.from = UVS_FROM_MONOTONIC;
    ASSERT_RC(0, submit_elsewhere(f.s, t, NULL));
    uv_run(&f.loop, UV_RUN_NOWAIT);
    ASSERT_I64(nearest_ns - 1 + slacks[k], fd_seen.set_ns);
    ASSERT_U64(0, fakepool_seen().timer_starts);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L11 */
TEST a_stopped_precise_timer_is_set_again(void) {
  struct fixture f;
  uvs_id_t id;

  init_precise(&f, UVS_US(50));
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t a = fixture_once(&f, 'a', UVS_HOUR(1)), b = fixture_once(&f, 'b', UVS_HOUR(2));
  ASSERT_RC(0, uvs_submit(f.s, &a, &id));
  fixture_turn(&f);
  ASSERT(fd_seen.set_ns > 0);
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, 0));
  fixture_turn(&f);
  ASSERT_I64(0, fd_seen.set_ns);
  ASSERT_RC(0, uvs_submit(f.s, &b, &id)); /* later than what it was set for */
  fixture_turn(&f);
  ASSERT(fd_seen.set_ns > 0);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

TEST a_precise_timer_that_has_fired_does_not_fire_again(void) {
  struct fixture f;
  uint64_t wakeups;

  init_precise(&f, 1);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_loop_task(&f, 'a', UVS_MS(5));
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT_U64(1, fd_seen.sets);
  ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 1));
  fixture_turn(&f);
  ASSERT_RC(0, poll(&(struct pollfd){fd_seen.fd, POLLIN, 0}, 1, 0));
  wakeups = counts_of(f.s).wakeups;
  for (int i = 0; i < 10; i++)
    uv_run(&f.loop, UV_RUN_NOWAIT);
  ASSERT_U64(wakeups, counts_of(f.s).wakeups);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L1 L11 */
TEST the_precise_timer_alone_does_not_keep_the_loop_alive(void) {
  struct fixture f;
  unsigned dones;
  uvs_id_t id;

  init_precise(&f, 1);
  CHECK_CALL(fixture_open_turned(&f));
  ASSERT_FALSE(fixture_alive(&f));
  uvs_task_t u = fixture_once(&f, 'u', UVS_HOUR(1)), a = fixture_once(&f, 'a', UVS_MS(2));
  u.flags = UVS_UNREF;
  ASSERT_RC(0, uvs_submit(f.s, &u, &id));
  ASSERT_FALSE(fixture_alive(&f));
  ASSERT_RC(0, uvs_ref(f.s, id));
  ASSERT(fixture_alive(&f));
  ASSERT_RC(0, uvs_unref(f.s, id));
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  ASSERT(fixture_run(&f, UV_RUN_DEFAULT, &dones));
  ASSERT_U64(1, dones);
  ASSERT_RC(0, uvs_ref(f.s, id));
  ASSERT(fd_seen.set_ns > 0);
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, 0));
  ASSERT(fixture_run(&f, UV_RUN_DEFAULT, &dones));
  ASSERT_I64(0, fd_seen.set_ns); /* stopped */
  CHECK_CALL(fixture_close(&f));
  PASS();
}

enum { CLOSE_TIMER = 1, CLOSE_ASYNC = 2, CLOSE_POLL = 4, CLOSE_ALL = 7 };

struct wreck {
  struct fixture *f;
  int what;
};

static void wreck_one(uv_handle_t *h, void *arg) {
  struct wreck *w = arg;
  int kind = h->type == UV_TIMER ? CLOSE_TIMER : h->type == UV_ASYNC ? CLOSE_ASYNC : CLOSE_POLL;

  if (uvs_owns_handle(w->f->s, h) && (w->what & kind) != 0 && !uv_is_closing(h))
    uv_close(h, NULL);
}

/* L2 L5 */
TEST the_precise_timers_handle_may_be_closed_by_others(void) {
  enum { BEFORE, SAME_TURN, LATER, WHENS };

  for (int what = CLOSE_POLL; what <= CLOSE_ALL; what++) {
    for (int when = BEFORE; when < WHENS; when++) {
      struct fixture f;
      struct wreck w = {&f, what};

      init_precise(&f, 1);
      CHECK_CALL(fixture_open_turned(&f));
      uvs_task_t a = fixture_once(&f, 'a', UVS_MS(1)), q = fixture_once(&f, 'q', 0);
      uvs_task_t far = fixture_once(&f, 'f', UVS_HOUR(1));
      probe_of(&q)->act = act_endless; /* in the pool at that moment */
      ASSERT_RC(0, uvs_submit(f.s, &far, NULL));
      ASSERT_RC(0, uvs_submit(f.s, &q, NULL));
      ASSERT(fixture_wait_log(&f, EV_WORK, 'q', 1));
      if (when == BEFORE)
        ASSERT_RC(0, uvs_close(f.s, note_closed));
      uv_walk(&f.loop, wreck_one, &w);
      ASSERT_RC(UV_ESHUTDOWN, uvs_submit(f.s, &a, NULL));
      if (when == LATER) {
        uv_run(&f.loop, UV_RUN_NOWAIT);
        uv_run(&f.loop, UV_RUN_NOWAIT);
      }
      if (when != BEFORE)
        ASSERT_RC(0, uvs_close(f.s, note_closed));
      f.s = NULL;
      ASSERT(fixture_wait_log(&f, EV_USER, 'c', 1));
      ASSERT_U64(2, log_count(&f, EV_DONE, 0));
      ASSERT_FALSE(fd_is_open(fd_seen.fd));
      CHECK_CALL(fixture_close(&f));
    }
  }
  PASS();
}

SUITE(handles) {
  RUN_TEST(the_precise_timer_is_one_handle_and_only_if_chosen);
  RUN_TEST(the_precise_timer_is_set_for_the_first_deadline_plus_slack);
  RUN_TEST(a_stopped_precise_timer_is_set_again);
  RUN_TEST(a_precise_timer_that_has_fired_does_not_fire_again);
  RUN_TEST(the_precise_timer_alone_does_not_keep_the_loop_alive);
  RUN_TEST(the_precise_timers_handle_may_be_closed_by_others);
}

/* -------------------------------------------------------------------- time --- */

#define TASKS 300

struct timed {
  int64_t due_ns; /* of the first run */
  _Atomic int runs, early, blamed;
};

static int timed_body(uvs_run_t *run) {
  struct timed *p = run->arg;
  int64_t now_ns = (int64_t)uv_hrtime();

  if (now_ns < run->ideal_ns || run->ideal_ns < p->due_ns || run->late_ns < 0)
    atomic_fetch_add(&p->early, 1);
  if (run->late_by_ns[UVS_LATE_TIMER] != 0)
    atomic_fetch_add(&p->blamed, 1);
  atomic_fetch_add(&p->runs, 1);
  return 0;
}

/* Pool and loop tasks, one-shot and periodic: each fires, none fires early, and none blames a
 * uv_timer. */
static enum greatest_test_res all_come_none_early(struct fixture *f) {
  static struct timed p[TASKS];
  uint64_t random = test_seed;
  uvs_id_t far;

  memset(p, 0, sizeof p);
  CHECK_CALL(fixture_open(f));
  /* A far deadline, so that the timer is set even if a slow machine finds all other tasks due. */
  ASSERT_RC(0, uvs_schedule(f->s, UVS_HOUR(1), work_nothing, NULL, &far));
  for (int i = 0; i < TASKS; i++) {
    uvs_task_t t;

    uvs_task_init(&t);
    t.first_ns = (int64_t)test_random_below(&random, (uint64_t)UVS_MS(20));
    t.work = i % 2 == 0 ? timed_body : NULL;
    t.after = i % 2 == 0 ? NULL : timed_body;
    if (i % 3 == 0) {
      t.kind = UVS_FIXED_RATE;
      t.period_ns = 1 + (int64_t)test_random_below(&random, (uint64_t)UVS_MS(2));
      t.max_runs = 10;
    }
    t.arg = &p[i];
    p[i].due_ns = (int64_t)uv_hrtime() + t.first_ns;
    ASSERT_RC(0, uvs_submit(f->s, &t, NULL));
    if (i % 50 == 0)
      uv_run(&f->loop, UV_RUN_NOWAIT);
  }
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f->s, far, 0));
  ASSERT_RC(0, uvs_set_after_shutdown(f->s, UVS_PERIODIC_TASKS, 1));
  ASSERT_RC(0, uvs_shutdown(f->s));
  ASSERT(fixture_wait_log(f, EV_TERMINATED, 0, 1));
  for (int i = 0; i < TASKS; i++) {
    ASSERT_RC(i % 3 == 0 ? 10 : 1, atomic_load(&p[i].runs));
    ASSERT_RC(0, atomic_load(&p[i].early));
    if (!fd_seen.refuse_set)
      ASSERT_RC(0, atomic_load(&p[i].blamed));
  }
  CHECK_CALL(fixture_close(f));
  PASS();
}

/* S1 S2 L6 */
TEST every_timer_fires_and_none_fires_early(void) {
  static const int64_t slacks[] = {1, UVS_US(50), UVS_MS(1)};

  for (unsigned k = 0; k < sizeof slacks / sizeof *slacks; k++) {
    struct fixture f;

    init_precise(&f, slacks[k]);
    CHECK_CALL(all_come_none_early(&f));
    ASSERT(fd_seen.sets > 0);
    ASSERT_U64(0, fakepool_seen().timer_starts);
  }
  PASS();
}

/* S1 S2 L6 */
TEST a_precise_timer_that_fires_early_is_set_again(void) {
  struct fixture f;

  init_precise(&f, 1);
  fd_seen.early_ns = UVS_US(200);
  CHECK_CALL(all_come_none_early(&f));
  PASS();
}

/* S1 S2 */
TEST if_the_timerfd_cannot_be_set_the_uv_timer_takes_over(void) {
  struct fixture f;

  init_precise(&f, 1);
  fd_seen.refuse_set = true;
  CHECK_CALL(all_come_none_early(&f));
  PASS();
}

/* L7 L9 */
TEST a_task_that_is_always_due_runs_once_in_a_loop_pass(void) {
  for (int early = 0; early < 2; early++) {
    static struct timed p;
    struct fixture f;
    uvs_id_t id;

    memset(&p, 0, sizeof p);
    init_precise(&f, 1);
    fd_seen.early_ns = early == 0 ? 0 : UVS_SEC(1); /* it always rings at once */
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = fixture_loop_task(&f, 'a', 0);
    t.kind = UVS_FIXED_RATE;
    t.period_ns = 100; /* often over when the alarm is set, often not */
    t.missed_policy = UVS_MISSED_ONCE;
    t.after = timed_body;
    t.arg = &p;
    t.done = NULL;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    for (int i = 0; i < 1000; i++) {
      int before = atomic_load(&p.runs);

      uv_run(&f.loop, UV_RUN_NOWAIT); /* returns, so that I/O is handled */
      ASSERT(atomic_load(&p.runs) <= before + 1);
    }
    ASSERT(atomic_load(&p.runs) > 1);
    ASSERT_RC(0, atomic_load(&p.early));
    ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, 0));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* The body takes longer than its period, so the task is due again when the body returns. */
static int long_body(uvs_run_t *run) {
  int64_t end_ns = (int64_t)uv_hrtime() + UVS_US(300);

  while ((int64_t)uv_hrtime() < end_ns) {
  }
  return timed_body(run);
}

/* L9 */
TEST timer_and_wake_up_in_one_loop_pass_run_a_task_once(void) {
  static struct timed p;
  struct fixture f;

  memset(&p, 0, sizeof p);
  init_precise(&f, 1);
  f.options.budget_ns = UVS_SEC(1); /* for b and a in one pass, however slow */
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_loop_task(&f, 'a', UVS_MS(20));
  t.kind = UVS_FIXED_RATE;
  t.period_ns = UVS_US(200);
  t.missed_policy = UVS_MISSED_ONCE;
  t.after = long_body;
  t.arg = &p;
  t.done = NULL;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT_RC(0, submit_elsewhere(f.s, fixture_loop_task(&f, 'b', 0), NULL));
  uv_sleep(25);
  for (int i = 0; i < 100 && atomic_load(&p.runs) == 0; i++)
    uv_run(&f.loop, UV_RUN_NOWAIT);
  ASSERT_RC(1, atomic_load(&p.runs));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(time_of_it) {
  RUN_TEST(timer_and_wake_up_in_one_loop_pass_run_a_task_once);
  RUN_TEST(every_timer_fires_and_none_fires_early);
  RUN_TEST(a_precise_timer_that_fires_early_is_set_again);
  RUN_TEST(if_the_timerfd_cannot_be_set_the_uv_timer_takes_over);
  RUN_TEST(a_task_that_is_always_due_runs_once_in_a_loop_pass);
}

/* ------------------------------------------------------------------ runners --- */

static enum greatest_test_res open_busy(struct fixture *f, int64_t precise_ns, uvs_id_t *ret_id) {
  init_precise(f, precise_ns);
  atomic_store(&lingered, 0);
  f->options.concurrency = 1;
  CHECK_CALL(fixture_open_turned(f));
  uvs_task_t t = fixture_rate(f, 'l', 0, UVS_US(200)); /* the loop wakes again and again */
  t.missed_policy = UVS_MISSED_ONCE;
  t.work = NULL;
  t.after = work_nothing;
  ASSERT_RC(0, uvs_submit(f->s, &t, ret_id));
  PASS();
}

/* Submits brief bodies one after the other until a runner has lingered. */
static enum greatest_test_res let_linger(struct fixture *f) {
  uvs_task_t t = fixture_rate(f, 'a', 0, UVS_US(300));
  uvs_id_t id;

  t.work = work_nothing;
  t.missed_policy = UVS_MISSED_ONCE;
  ASSERT_RC(0, uvs_submit(f->s, &t, &id));
  ASSERT(fixture_wait_flag(f, &lingered));
  ASSERT(uvs_cancel(f->s, id, 0) >= 0);
  ASSERT(fixture_wait_log(f, EV_DONE, 'a', 1));
  PASS();
}

/* L13. The runner may be leaving just when the test looks: then the test tries again. */
TEST an_idle_runner_lingers_for_the_next_task_instead_of_leaving_the_pool(void) {
  bool again = true;
  struct fixture f;
  uvs_id_t id;

  SKIP_UNDER_EMULATOR("an emulated body is not brief, so no runner waits for more");
  CHECK_CALL(open_busy(&f, 1, &id));
  for (int i = 0; i < 100 && again; i++) {
    uint64_t works;

    log_clear(&f);
    atomic_store(&lingered, 0);
    atomic_store(&patient, 1);
    CHECK_CALL(let_linger(&f));
    works = fakepool_seen().queue_works;
    atomic_store(&patient, 0);
    uvs_task_t t = fixture_once(&f, 'b', 0);
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    ASSERT(fixture_wait_log(&f, EV_DONE, 'b', 1));
    again = works != fakepool_seen().queue_works;
  }
  ASSERT_FALSE(again);
  ASSERT_U64(1, counts_of(f.s).peak_runners);
  ASSERT_U64(1, fakepool_seen().peak_outstanding);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L1 L2 */
TEST a_lingering_runner_leaves_the_pool_after_its_time(void) {
  struct fixture f;
  uvs_id_t id;

  SKIP_UNDER_EMULATOR("an emulated body is not brief, so no runner waits for more");
  CHECK_CALL(open_busy(&f, UVS_US(50), &id));
  CHECK_CALL(let_linger(&f));
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, 0));
  ASSERT(fixture_run(&f, UV_RUN_DEFAULT, NULL)); /* the scheduler has no request left in the pool */
  ASSERT_U64(0, fakepool_pending());
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L13 */
TEST with_default_options_an_idle_runner_leaves_the_pool_immediately(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(open_busy(&f, 0, &id));
  uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_US(300));
  t.work = work_nothing;
  t.max_runs = 200;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 1));
  ASSERT_RC(0, atomic_load(&lingered));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(runners) {
  RUN_TEST(an_idle_runner_lingers_for_the_next_task_instead_of_leaving_the_pool);
  RUN_TEST(a_lingering_runner_leaves_the_pool_after_its_time);
  RUN_TEST(with_default_options_an_idle_runner_leaves_the_pool_immediately);
}

/* -------------------------------------------------------------------- fork --- */

static int closes_its_copy(struct fixture *f) {
  unsigned sets = fd_seen.sets;

  if (uvs_close(f->s, note_closed) != 0)
    return 1;
  if (atomic_load(&f->fault.live) != 0)
    return 2;
  return fd_seen.sets == sets && fd_is_open(fd_seen.fd) ? 0 : 3;
}

/* L8 */
TEST a_forked_child_frees_its_memory_and_does_not_touch_the_timerfd(void) {
  struct fixture f;
  int status;
  pid_t pid;

  init_precise(&f, 1);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_loop_task(&f, 'a', UVS_MS(30));
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fflush(NULL);
  pid = fork();
  if (pid == 0) {
    alarm(15);
    _exit(closes_its_copy(&f));
  }
  ASSERT(pid > 0);
  ASSERT_RC((int)pid, (int)waitpid(pid, &status, 0));
  ASSERT(WIFEXITED(status));
  ASSERT_RC(0, WEXITSTATUS(status));
  ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 1));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(forked) {
  RUN_TEST(a_forked_child_frees_its_memory_and_does_not_touch_the_timerfd);
}

TEST_MAIN(RUN_SUITE(open_it); RUN_SUITE(handles); RUN_SUITE(time_of_it); RUN_SUITE(runners);
          RUN_SUITE(forked));
