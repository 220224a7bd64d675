/* SPDX-License-Identifier: MIT
 *
 * Faults around a scheduler: clocks that stand still, jump and are set back; a loop that is no
 * longer run; a full address space.
 */
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "uvsched/executor.h"
#include "uvsched/lane.h"
#include "uvsched/queue.h"

#include "../lib/bodies.h"
#include "../lib/fixture.h"
#include "../lib/threads.h"
#include "../lib/unit.h"

#define YEAR UVS_DAY(365)

/* ------------------------------------------------------------------- clocks --- */

static void note_timer(uv_timer_t *h) {
  ++*(unsigned *)h->data;
}

/* A body on the loop that submits itself again, due now. */
static int again(uvs_run_t *run) {
  unsigned *left = run->arg;
  uvs_task_t t;

  if (*left == 0)
    return 0;
  --*left;
  uvs_task_init(&t);
  t.after = again;
  t.arg = left;
  return uvs_submit(run->scheduler, &t, NULL);
}

/* By such a clock the budget never ends. */
TEST a_stopped_clock_delays_waiting_tasks_and_nothing_else(void) {
  unsigned fires = 0, left = 2000;
  uv_timer_t timer;
  struct fixture f;

  fixture_init(&f);
  f.options.keep_alive = UVS_KEEP_ALIVE_ALWAYS;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t now = fixture_once(&f, 'n', 0), later = fixture_once(&f, 'l', 1);
  uvs_task_t rate = fixture_rate(&f, 'r', 0, 1), delay = fixture_delay(&f, 'd', 0, 1);
  uvs_task_t chain;
  uvs_task_init(&chain);
  chain.after = again;
  chain.arg = &left;
  uv_timer_init(&f.loop, &timer);
  timer.data = &fires;
  uv_timer_start(&timer, note_timer, 1, 1);
  ASSERT_RC(0, uvs_submit(f.s, &now, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &later, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &rate, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &delay, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &chain, NULL));
  for (int i = 0; i < 1900; i++)
    uv_run(&f.loop, UV_RUN_NOWAIT); /* returns each time, although a task is always due */
  ASSERT(left < 2000 && left > 0);
  while (fires == 0)
    uv_run(&f.loop, UV_RUN_ONCE);
  fixture_turn(&f);
  ASSERT_U64(0, left);
  ASSERT_STR_EQ("nrd", log_string(&f, EV_WORK));
  fixture_advance_ns(&f, 1); /* time goes on, and everything works */
  ASSERT_U64(1, log_count(&f, EV_WORK, 'l'));
  ASSERT_U64(2, log_count(&f, EV_WORK, 'r'));
  ASSERT_U64(2, log_count(&f, EV_WORK, 'd'));
  uv_close((uv_handle_t *)&timer, NULL);
  fixture_turn(&f);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

TEST a_clock_jump_of_a_year_is_one_late_loop_pass(void) {
  int64_t points = YEAR / UVS_SEC(7); /* of the grid, after the first */
  const struct event *e;
  struct fixture f;
  long total;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t once = fixture_once(&f, 'o', UVS_SEC(7));
  uvs_task_t stands = fixture_rate(&f, 's', UVS_SEC(7), UVS_SEC(7));
  uvs_task_t skips = fixture_rate(&f, 'k', UVS_SEC(7), UVS_SEC(7));
  uvs_task_t burst = fixture_rate(&f, 'b', UVS_SEC(7), UVS_SEC(7));
  uvs_task_t delay = fixture_delay(&f, 'd', UVS_SEC(7), UVS_SEC(7));
  uvs_task_t wall = fixture_once(&f, 'w', vclock_wall(&f.clock) + UVS_SEC(7));
  uvs_task_t limit = fixture_once(&f, 'l', UVS_SEC(7));
  stands.missed_policy = UVS_MISSED_ONCE;
  skips.missed_policy = UVS_MISSED_SKIP;
  burst.max_burst = 3;
  wall.from = UVS_FROM_WALL;
  limit.limit.total_ns = UVS_SEC(1); /* from when it is ready, which is when the loop saw it due */
  ASSERT_RC(0, uvs_submit(f.s, &once, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &stands, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &skips, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &burst, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &delay, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &wall, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &limit, NULL));
  total = atomic_load(&f.fault.total);
  fixture_jump_ns(&f, YEAR);
  ASSERT_U64(1, log_count(&f, EV_WORK, 'o'));
  ASSERT_I64(YEAR - UVS_SEC(7), log_nth(&f, EV_WORK, 'o', 0)->late_ns);
  ASSERT_U64(1, log_count(&f, EV_WORK, 's'));
  e = log_nth(&f, EV_WORK, 's', 0);
  ASSERT_I64(points - 1, (int64_t)e->missed);
  ASSERT_I64(VCLOCK_START_NS + UVS_SEC(7), e->ideal_ns); /* it stands for the first, and the rest */
  ASSERT_U64(0, log_count(&f, EV_WORK, 'k'));
  ASSERT_U64(3, log_count(&f, EV_WORK, 'b'));
  e = log_nth(&f, EV_WORK, 'b', 2);
  ASSERT_I64(VCLOCK_START_NS + points * UVS_SEC(7), e->ideal_ns);
  ASSERT_U64(1, log_count(&f, EV_WORK, 'd'));
  ASSERT_U64(1, log_count(&f, EV_WORK, 'w'));
  ASSERT_U64(1, log_count(&f, EV_WORK, 'l'));
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'l', 0)->status);
  log_clear(&f);
  fixture_advance_ns(&f, UVS_SEC(7)); /* the grids are where they were */
  ASSERT_I64(VCLOCK_START_NS + (points + 1) * UVS_SEC(7), log_nth(&f, EV_WORK, 's', 0)->ideal_ns);
  ASSERT_I64(VCLOCK_START_NS + (points + 1) * UVS_SEC(7), log_nth(&f, EV_WORK, 'k', 0)->ideal_ns);
  ASSERT_I64(VCLOCK_START_NS + (points + 1) * UVS_SEC(7), log_nth(&f, EV_WORK, 'b', 0)->ideal_ns);
  ASSERT_I64(points, (int64_t)log_nth(&f, EV_WORK, 'k', 0)->missed);
  ASSERT_I64(total, atomic_load(&f.fault.total)); /* and it took no memory */
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static _Atomic long catches;

static int catch_up(uvs_run_t *run) {
  (void)run;
  atomic_fetch_add(&catches, 1);
  return 0;
}

/* 31,536,000,000 runs have to be caught up. */
TEST catching_up_with_a_year_does_not_block_other_tasks(void) {
  struct fixture f;
  uvs_id_t id;

  for (int on_loop = 0; on_loop < 2; on_loop++) {
    atomic_store(&catches, 0);
    fixture_init(&f);
    f.real_clock = false;
    f.pool = FAKEPOOL_STEPPED;
    f.options.concurrency = on_loop ? 0 : 2;
    f.options.keep_alive = UVS_KEEP_ALIVE_ALWAYS;
    CHECK_CALL(fixture_open_turned(&f));
    ASSERT_RC(0, uvs_schedule_at_fixed_rate(f.s, UVS_MS(1), UVS_MS(1), catch_up, NULL, &id));
    uv_run(&f.loop, UV_RUN_NOWAIT);
    vclock_advance_ns(&f.clock, YEAR);
    ASSERT_RC(0, uvs_clock_changed(f.s));
    for (int i = 0; i < 200; i++)
      uv_run(&f.loop, UV_RUN_NOWAIT);
    ASSERT(atomic_load(&catches) > 10);
    uvs_task_t other = fixture_once(&f, 'o', 0);
    ASSERT_RC(0, uvs_submit(f.s, &other, NULL));
    for (int i = 0; i < 200 && log_count(&f, EV_DONE, 'o') == 0; i++)
      uv_run(&f.loop, UV_RUN_NOWAIT);
    ASSERT_U64(1, log_count(&f, EV_DONE, 'o'));
    ASSERT(uvs_cancel(f.s, id, 0) >= 0);
    fixture_turn(&f);
    ASSERT_U64(0, live_tasks(f.s));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

#define KINDS 6

static struct {
  unsigned count[KINDS]; /* points: runs and missed */
  int64_t base_ns, period_ns;
  const char *wrong;
  unsigned walls;
} leaps;

static int on_grid(uvs_run_t *run) {
  unsigned k = (unsigned)(uintptr_t)run->arg;
  int64_t place = (run->ideal_ns - leaps.base_ns) / leaps.period_ns;

  if ((run->ideal_ns - leaps.base_ns) % leaps.period_ns != 0)
    leaps.wrong = "beside the grid";
  if (run->start_ns < run->ideal_ns)
    leaps.wrong = "early";
  if (run->late_ns != run->start_ns - run->ideal_ns)
    leaps.wrong = "not as late as it says";
  if (place < leaps.count[k] || place > (int64_t)(leaps.count[k] + run->missed))
    leaps.wrong = "a point twice, or not at all";
  leaps.count[k] += 1 + (unsigned)run->missed;
  return 0;
}

static int on_wall(uvs_run_t *run) {
  struct fixture *f = uvs_data(run->scheduler);

  if (vclock_wall(&f->clock) < run->ideal_ns)
    leaps.wrong = "early by the wall clock";
  leaps.walls++;
  return 0;
}

/* Jumps forward by up to a year. The wall clock is set forward and back as far, reported or not. */
TEST random_clock_jumps_make_no_run_early_lost_or_duplicate(void) {
  uint64_t random = test_seed;
  unsigned walls = 0;
  struct fixture f;
  uvs_task_t t;

  memset(&leaps, 0, sizeof leaps);
  fixture_init(&f);
  f.pool = FAKEPOOL_INLINE;
  CHECK_CALL(fixture_open_turned(&f));
  leaps.period_ns = UVS_SEC(1) + (int64_t)test_random_below(&random, (uint64_t)UVS_SEC(9));
  leaps.base_ns = vclock_now(&f.clock) + leaps.period_ns;
  for (unsigned k = 0; k < KINDS; k++) {
    uvs_task_init(&t);
    t.kind = UVS_FIXED_RATE;
    t.from = UVS_FROM_MONOTONIC;
    t.first_ns = leaps.base_ns;
    t.period_ns = leaps.period_ns;
    t.missed_policy = k % 3 == 0   ? UVS_MISSED_CATCH_UP
                      : k % 3 == 1 ? UVS_MISSED_ONCE
                                   : UVS_MISSED_SKIP;
    t.max_burst = k % 3 == 0 ? k + 2 : 0;
    t.work = k < 3 ? on_grid : NULL;
    t.after = k < 3 ? NULL : on_grid;
    t.arg = (void *)(uintptr_t)k;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  for (int i = 0; i < 3000 && leaps.wrong == NULL; i++) {
    int64_t by_ns =
        (int64_t)(test_random_below(&random, (uint64_t)YEAR) >> test_random_below(&random, 50));

    switch (test_random_below(&random, 6)) {
    case 0:
      vclock_step_wall(&f.clock, by_ns);
      break;
    case 1:
      if (vclock_wall(&f.clock) > by_ns)
        vclock_step_wall(&f.clock, -by_ns);
      break;
    case 2:
      uvs_task_init(&t);
      t.from = UVS_FROM_WALL;
      t.first_ns = vclock_wall(&f.clock) + by_ns;
      t.work = on_wall;
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
      walls++;
      break;
    case 3:
      vclock_advance_ns(&f.clock, by_ns);
      break;
    default:
      fixture_jump_ns(&f, by_ns >> 6);
    }
    if (vclock_now(&f.clock) > INT64_MAX / 4)
      break;
  }
  fixture_jump_ns(&f, YEAR);
  vclock_step_wall(&f.clock, 100 * YEAR); /* past all of them */
  ASSERT_RC(0, uvs_clock_changed(f.s));
  fixture_turn(&f);
  if (leaps.wrong != NULL)
    FAILm(leaps.wrong);
  ASSERT_U64(walls, leaps.walls);
  for (unsigned k = 0; k < KINDS; k++)
    ASSERT(leaps.count[k] > 1000);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ----------------------------------------------------- a loop that is not run --- */

struct stopped {
  struct fixture *f;
  uvs_queue_t *q;
  uvs_lane_t lane;
  uvs_id_t kept;
  unsigned accepted;
  const char *wrong;
};

#define EXPECT(condition) \
  do { \
    if (!(condition) && x->wrong == NULL) \
      x->wrong = #condition; \
  } while (0)

/* Everything that other threads may call while the loop is not run: nothing hangs. */
static int do_all(void *arg) {
  struct stopped *x = arg;
  uvs_t *s = x->f->s;
  uvs_task_t t = fixture_once(x->f, 'a', 0), four[4];
  uvs_outcome_t outcomes[4], o;
  uvs_id_t id = 0;
  uvs_entry_t e;
  int rc;

  while ((rc = uvs_submit(s, &t, &id)) == 0)
    x->accepted++;
  EXPECT(rc == UV_EAGAIN);
  EXPECT(x->accepted > 100);
  EXPECT(uvs_cancel(s, id, 0) == UVS_CANCELLED);
  EXPECT(uvs_cancel(s, id, 0) == UV_ENOENT);
  for (int i = 0; i < 4; i++) {
    uvs_task_init(&four[i]);
    four[i].work = work_nothing;
  }
  uvs_outcome_init(&outcomes[0]);
  uvs_outcome_init(&o);
  EXPECT(uvs_all(s, four, 4, UVS_MS(5), outcomes) == UV_EAGAIN);
  EXPECT(uvs_all(s, four, 1, UVS_MS(5), outcomes) == UV_ETIMEDOUT);
  EXPECT(outcomes[0].status == UV_ECANCELED);
  EXPECT(uvs_wait(s, x->kept, UVS_MS(2), 0, &o) == UV_ETIMEDOUT);
  EXPECT(uvs_wait_terminated(s, UVS_MS(2)) == UV_ETIMEDOUT);
  EXPECT(uvs_queue_put(x->q, x, UVS_MS(1), NULL) == 0);
  EXPECT(uvs_queue_poll_within(x->q, 0, NULL, &e) == UV_ETIMEDOUT);
  EXPECT(uvs_queue_put(x->q, x, 0, NULL) == 0);
  EXPECT(uvs_queue_poll_within(x->q, UVS_SEC(5), NULL, &e) == 0); /* due: no loop needed */
  EXPECT(uvs_lane_dispose(x->lane, UVS_DISPOSE_TOKEN) == 0);
  EXPECT(uvs_lane_is_disposed(x->lane) == 1);
  EXPECT(uvs_clock_changed(s) == 0);
  EXPECT(uvs_stats_write(s, UVS_FORMAT_TEXT, NULL, NULL) == UV_EINVAL);
  EXPECT(uvs_shutdown(s) == 0);
  EXPECT(uvs_submit(s, &t, NULL) == UV_ESHUTDOWN);
  EXPECT(uvs_is_terminated(s) == 0);
  return 0;
}

static unsigned quiets;

static void on_quiet(uvs_t *s, uvs_lane_t lane, void *arg) {
  (void)s;
  (void)lane;
  (void)arg;
  quiets++;
}

TEST a_loop_that_is_not_run_blocks_no_other_thread_and_loses_nothing(void) {
  uvs_lane_options_t lo;
  struct fixture f;
  struct stopped x;

  memset(&x, 0, sizeof x);
  quiets = 0;
  x.f = &f;
  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.options.max_pending = 500;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_lane_options_init(&lo);
  lo.on_quiet = on_quiet;
  ASSERT_RC(0, uvs_lane_open(f.s, &lo, &x.lane));
  ASSERT_RC(0, uvs_queue_open(f.s, NULL, &x.q));
  ASSERT_RC(0, uvs_queue_unref(x.q));
  uvs_task_t kept = fixture_once(&f, 'k', UVS_MS(1)), laned = fixture_once(&f, 'l', UVS_HOUR(1));
  kept.keep_outcome = 1;
  laned.lane = x.lane;
  ASSERT_RC(0, uvs_submit(f.s, &kept, &x.kept));
  ASSERT_RC(0, uvs_submit(f.s, &laned, NULL));
  fixture_turn(&f);
  /* The loop is not run until all of this has returned. */
  ASSERT_RC(0, elsewhere(do_all, &x));
  if (x.wrong != NULL)
    FAILm(x.wrong);
  vclock_advance_ns(&f.clock, UVS_MS(2));
  uvs_clock_changed(f.s);
  ASSERT(fixture_wait_log(&f, EV_TERMINATED, 0, 1));
  ASSERT_U64(x.accepted, log_count(&f, EV_DONE, 'a'));
  ASSERT_U64(x.accepted - 1, log_count(&f, EV_WORK, 'a')); /* one was cancelled */
  ASSERT_U64(1, log_count(&f, EV_DONE, 'k'));
  ASSERT_U64(1, log_count(&f, EV_DONE, 'l'));
  ASSERT_U64(1, quiets);
  ASSERT_RC(1, uvs_queue_size(x.q));
  ASSERT_RC(0, uvs_queue_close(x.q));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* Closing a loop with a scheduler on it fails and changes nothing. */
TEST a_loop_with_a_scheduler_on_it_cannot_be_closed(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(1));
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT_RC(UV_EBUSY, uv_loop_close(&f.loop));
  fixture_advance_ms(&f, 1);
  ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* -------------------------------------------------- a full address space --- */

#define ARMED 1000000

enum {
  WELL,
  NO_LOOP,
  NO_SUBMIT,
  NO_LIMIT,
  NEVER_FULL,
  WRONG_CODE,
  LOST,
  NOT_USABLE,
  NOT_CLOSED,
  STILL_THERE
};

static unsigned long armed_dones, armed_sum;

static void count_armed(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)s;
  (void)id;
  (void)status;
  armed_dones++;
  armed_sum += (unsigned long)(uintptr_t)arg;
}

static void note_end(uvs_t *s) {
  *(bool *)uvs_data(s) = true;
}

static uvs_task_t armed(int64_t delay_ns, unsigned long number) {
  uvs_task_t t;

  uvs_task_init(&t);
  t.first_ns = delay_ns;
  if (number % 2 == 0)
    t.work = work_nothing;
  else
    t.after = work_nothing;
  t.done = count_armed;
  t.arg = (void *)(uintptr_t)number;
  return t;
}

/* Other calls that need memory return UV_ENOMEM or succeed, and nothing else. */
static int others_say_so(uv_loop_t *loop, uvs_t *s) {
  uvs_threads_options_t to;
  uvs_threads_t *pool = NULL;
  uvs_queue_t *q = NULL;
  uvs_t *second = NULL;
  FILE *out = fopen("/dev/null", "w");
  int rc;

  uvs_threads_options_init(&to);
  to.threads = 64; /* 8 MB of stack each */
  rc = uvs_threads_open(&to, &pool);
  if (rc != UV_ENOMEM && rc != UV_EAGAIN)
    return WRONG_CODE;
  rc = uvs_open(loop, NULL, &second);
  if (rc == 0)
    uvs_close(second, NULL);
  else if (rc != UV_ENOMEM)
    return WRONG_CODE;
  rc = uvs_queue_open(s, NULL, &q);
  if (rc == 0)
    uvs_queue_close(q);
  else if (rc != UV_ENOMEM)
    return WRONG_CODE;
  rc = out == NULL ? UV_ENOMEM : uvs_dump(s, out); /* it sorts all of them: hundreds of MB */
  if (rc != UV_ENOMEM)
    return WRONG_CODE;
  if (out != NULL)
    fclose(out);
  return WELL;
}

static int child_without_room(void) {
  unsigned long accepted = 0, sum = 0, full;
  struct rlimit limit = {0, 0};
  bool closed = false;
  uvs_options_t o;
  uv_loop_t loop;
  long pages = 0;
  FILE *in;
  uvs_t *s;
  int rc;

  uvs_options_init(&o);
  o.data = &closed;
  if (uv_loop_init(&loop) < 0 || uvs_open(&loop, &o, &s) < 0)
    return NO_LOOP;
  uv_run(&loop, UV_RUN_NOWAIT);
  uvs_execute(s, work_nothing,
              NULL); /* libuv's pool starts its threads before the memory is used up */
  uv_run(&loop, UV_RUN_DEFAULT);
  for (; accepted < ARMED; accepted++) {
    uvs_task_t t = armed(UVS_MS(500), accepted + 1);

    if (uvs_submit(s, &t, NULL) < 0)
      return NO_SUBMIT;
    sum += accepted + 1;
  }
  in = fopen("/proc/self/statm", "r");
  if (in == NULL || fscanf(in, "%ld", &pages) != 1)
    return NO_LIMIT;
  fclose(in);
  limit.rlim_cur = limit.rlim_max = (rlim_t)(pages + 1024) * (rlim_t)sysconf(_SC_PAGESIZE);
  if (setrlimit(RLIMIT_AS, &limit) != 0)
    return NO_LIMIT;
  /* Until the address space is full: the code is clear each time. */
  for (full = 0; full < 1000;) {
    uvs_task_t t = armed(UVS_MS(500), accepted + 1);

    rc = uvs_submit(s, &t, NULL);
    if (rc == 0) {
      sum += ++accepted;
      if (accepted > 20 * (unsigned long)ARMED)
        return NEVER_FULL;
    } else if (rc == UV_ENOMEM) {
      full++;
    } else {
      return WRONG_CODE;
    }
  }
  rc = others_say_so(&loop, s);
  if (rc != WELL)
    return rc;
  uv_run(&loop, UV_RUN_DEFAULT); /* all tasks run without an allocation */
  if (armed_dones != accepted || armed_sum != sum)
    return LOST;
  for (int i = 0; i < 1000; i++) { /* the freed memory can be reused */
    uvs_task_t t = armed(0, ++accepted);

    if (uvs_submit(s, &t, NULL) != 0)
      return NOT_USABLE;
  }
  uv_run(&loop, UV_RUN_DEFAULT);
  if (armed_dones != accepted)
    return LOST;
  if (uvs_close(s, note_end) != 0)
    return NOT_CLOSED;
  uv_run(&loop, UV_RUN_DEFAULT);
  return !closed ? NOT_CLOSED : uv_loop_close(&loop) == 0 ? WELL : STILL_THERE;
}

/* The sanitizers' runtimes need an unlimited address space. */
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED UNDER_TSAN
#endif

/* L10 */
TEST a_million_armed_tasks_survive_a_full_address_space(void) {
  int status = 0;
  pid_t pid;

  if (SANITIZED)
    SKIP();
  fflush(NULL);
  pid = fork(); /* first, so that the child has its own libuv pool */
  ASSERT(pid >= 0);
  if (pid == 0) {
    alarm(100);
    _exit(child_without_room());
  }
  ASSERT_RC(pid, waitpid(pid, &status, 0));
  ASSERTm("the child was killed", WIFEXITED(status));
  ASSERT_RC(WELL, WEXITSTATUS(status));
  PASS();
}

SUITE(room) {
  RUN_TEST(a_million_armed_tasks_survive_a_full_address_space);
}

SUITE(clocks) {
  RUN_TEST(a_stopped_clock_delays_waiting_tasks_and_nothing_else);
  RUN_TEST(a_clock_jump_of_a_year_is_one_late_loop_pass);
  RUN_TEST(catching_up_with_a_year_does_not_block_other_tasks);
  RUN_TEST(random_clock_jumps_make_no_run_early_lost_or_duplicate);
}

SUITE(loops) {
  RUN_TEST(a_loop_that_is_not_run_blocks_no_other_thread_and_loses_nothing);
  RUN_TEST(a_loop_with_a_scheduler_on_it_cannot_be_closed);
}

/* This suite runs first, before any other thread exists. */
TEST_MAIN(RUN_SUITE(room); RUN_SUITE(clocks); RUN_SUITE(loops));
