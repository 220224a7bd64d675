/* SPDX-License-Identifier: MIT
 *
 * Tasks at an instant of the wall clock, which may be set while they wait. On the virtual clock,
 * moving only the wall time stands for somebody who sets the clock, or for a machine that slept:
 * then, too, the wall time moves on and the monotonic time does not.
 */
#include <stdlib.h>
#include <time.h>

#include "uvsched/lane.h"

#include "lib/bodies.h"
#include "lib/fixture.h"
#include "lib/inspect.h"
#include "lib/threads.h"

/* The wall time `ms` milliseconds after the start of the virtual clock. */
static int64_t wall_ms(int64_t ms) {
  return VCLOCK_WALL_NS + UVS_MS(ms);
}

static void step_wall(struct fixture *f, int64_t by_ns) {
  vclock_step_wall(&f->clock, by_ns);
  uvs_clock_changed(f->s);
  fixture_turn(f);
}

static uvs_task_t at(struct fixture *f, int tag, int64_t unix_ns) {
  uvs_task_t t = fixture_once(f, tag, unix_ns);

  t.from = UVS_FROM_WALL;
  return t;
}

/* S70 */
TEST a_wall_task_runs_at_its_instant_and_not_a_nanosecond_before(void) {
  struct fixture f;
  uvs_id_t id;
  uvs_info_t info;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = at(&f, 'a', wall_ms(100));
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_turn(&f);
  uvs_info_init(&info);
  ASSERT_RC(0, uvs_info(f.s, id, &info));
  ASSERT_RC(UVS_FROM_WALL, info.from);
  ASSERT_I64(wall_ms(100), info.due_ns);
  ASSERT_I64(UVS_MS(100), info.remaining_ns);
  ASSERT_I64(100, fixture_next_ms(&f)); /* the remaining wall time from now */
  fixture_jump_ns(&f, UVS_MS(100) - 1);
  ASSERT_U64(0, log_total(&f));
  fixture_jump_ns(&f, 1);
  ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
  const struct event *e = log_nth(&f, EV_WORK, 'a', 0);
  ASSERT_I64(wall_ms(100), e->wall_ns);
  ASSERT_I64(wall_ms(100), e->ideal_ns);
  ASSERT_I64(VCLOCK_START_NS + UVS_MS(100), e->start_ns);
  ASSERT_I64(0, e->late_ns);
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'a', 0)->status);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S70 */
TEST a_late_wall_task_knows_its_lateness(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = at(&f, 'a', wall_ms(100));
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_jump_ms(&f, 130);
  ASSERT_I64(wall_ms(100), log_nth(&f, EV_WORK, 'a', 0)->ideal_ns);
  ASSERT_I64(UVS_MS(30), log_nth(&f, EV_WORK, 'a', 0)->late_ns);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S70 */
TEST an_instant_in_the_past_runs_now(void) {
  static const int64_t instants[] = {VCLOCK_WALL_NS, VCLOCK_WALL_NS - 1, UVS_SEC(1), 1, 0, -1,
                                     INT64_MIN};
  struct fixture f;

  fixture_init(&f);
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open_turned(&f));
  for (unsigned i = 0; i < sizeof instants / sizeof *instants; i++) {
    log_clear(&f);
    ASSERT_RC(0, uvs_schedule_at(f.s, instants[i], probe_work, fixture_probe(&f, 'a'), NULL));
    fixture_turn(&f);
    ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
    ASSERT(log_nth(&f, EV_WORK, 'a', 0)->late_ns >= 0);
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S71 */
TEST setting_the_wall_clock_past_the_instant_runs_the_task_immediately(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = at(&f, 'a', VCLOCK_WALL_NS + UVS_HOUR(1));
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ms(&f, 5);
  step_wall(&f, UVS_MIN(30));
  ASSERT_U64(0, log_total(&f));
  ASSERT_I64(UVS_MIN(30) / UVS_MS(1), fixture_next_ms(&f));
  step_wall(&f, UVS_MIN(30) - UVS_MS(5) - 1);
  ASSERT_U64(0, log_total(&f));
  step_wall(&f, 1);
  ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
  ASSERT_I64(VCLOCK_START_NS + UVS_MS(5), log_nth(&f, EV_WORK, 'a', 0)->start_ns);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S71 S70 */
TEST setting_the_wall_clock_back_makes_the_task_wait_again(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = at(&f, 'a', wall_ms(100));
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ms(&f, 99);
  step_wall(&f, -UVS_HOUR(1));
  fixture_advance_ms(&f, 1000); /* far beyond what it would have been */
  ASSERT_U64(0, log_total(&f));
  fixture_advance_ns(&f, UVS_HOUR(1) + UVS_MS(1) - UVS_SEC(1) - 1);
  ASSERT_U64(0, log_total(&f));
  fixture_advance_ns(&f, 1);
  ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
  ASSERT_I64(wall_ms(100), log_nth(&f, EV_WORK, 'a', 0)->wall_ns);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S71 S70 */
TEST an_unreported_step_back_does_not_make_a_wall_task_early(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = at(&f, 'a', wall_ms(100));
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ms(&f, 50);
  vclock_step_wall(&f.clock, -UVS_MS(30)); /* silently */
  fixture_jump_ms(&f, 50);                 /* the old deadline, by the monotonic clock */
  ASSERT_U64(0, log_total(&f));
  fixture_advance_ms(&f, 30);
  ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
  ASSERT_I64(wall_ms(100), log_nth(&f, EV_WORK, 'a', 0)->wall_ns);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S71 */
TEST relative_tasks_do_not_notice_that_the_wall_clock_was_set(void) {
  struct fixture f;

  fixture_init(&f);
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t once = fixture_once(&f, 'o', UVS_MS(100));
  uvs_task_t rate = fixture_rate(&f, 'r', UVS_MS(50), UVS_MS(50));
  uvs_task_t wall = at(&f, 'w', wall_ms(60));
  ASSERT_RC(0, uvs_submit(f.s, &once, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &rate, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &wall, NULL));
  fixture_turn(&f);
  step_wall(&f, UVS_DAY(1));
  ASSERT_STR_EQ("w", log_string(&f, EV_WORK));
  ASSERT_I64(50, fixture_next_ms(&f));
  fixture_advance_ms(&f, 70);
  step_wall(&f, -UVS_DAY(2));
  ASSERT_I64(100, fixture_next_ms(&f));
  fixture_advance_ms(&f, 80);
  ASSERT_STR_EQ("100", log_runs(&f, EV_WORK, 'o'));
  ASSERT_STR_EQ("50 100 150", log_runs(&f, EV_WORK, 'r'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* R30. With and without a lane. The monotonic clock never goes back. If it jumps forward, that is a
 * late loop pass like any other: a task with a grid stays on its grid. The wall-clock task makes
 * the loop read the wall clock. */
TEST periodic_tasks_keep_their_period_when_clocks_are_set(void) {
  for (int laned = 0; laned < 2; laned++) {
    struct fixture f;
    uvs_lane_t lane = 0;

    fixture_init(&f);
    f.options.concurrency = 1;
    CHECK_CALL(fixture_open_turned(&f));
    if (laned)
      ASSERT_RC(0, uvs_lane_open(f.s, NULL, &lane));
    uvs_task_t rate = fixture_rate(&f, 'r', UVS_MS(100), UVS_MS(100));
    uvs_task_t once = fixture_rate(&f, 'o', UVS_MS(100), UVS_MS(100));
    uvs_task_t delay = fixture_delay(&f, 'd', UVS_MS(100), UVS_MS(100));
    rate.missed_policy = UVS_MISSED_SKIP;
    once.missed_policy = UVS_MISSED_ONCE;
    rate.lane = once.lane = delay.lane = lane;
    ASSERT_RC(0, uvs_schedule_at(f.s, UVS_NEVER - 1, probe_work, fixture_probe(&f, 'w'), NULL));
    ASSERT_RC(0, uvs_submit(f.s, &rate, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &once, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &delay, NULL));
    fixture_advance_ms(&f, 150);
    step_wall(&f, UVS_DAY(3000));
    fixture_advance_ms(&f, 100);
    step_wall(&f, -UVS_DAY(6000));
    fixture_advance_ms(&f, 100);
    ASSERT_STR_EQ("100 200 300", log_runs(&f, EV_WORK, 'r'));
    ASSERT_STR_EQ("100 200 300", log_runs(&f, EV_WORK, 'o'));
    ASSERT_STR_EQ("100 200 300", log_runs(&f, EV_WORK, 'd'));
    fixture_jump_ms(&f, 600); /* 350 to 950 */
    fixture_advance_ms(&f, 200);
    ASSERT_STR_EQ("100 200 300 1000(1000+6) 1100", log_runs(&f, EV_WORK, 'r'));
    ASSERT_STR_EQ("100 200 300 950(400+5) 1000 1100", log_runs(&f, EV_WORK, 'o'));
    ASSERT_STR_EQ("100 200 300 950(400) 1050 1150", log_runs(&f, EV_WORK, 'd'));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S70 S63 */
TEST wall_tasks_run_in_the_order_of_their_instants(void) {
  struct fixture f;

  fixture_init(&f);
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t d = at(&f, 'd', wall_ms(300));
  uvs_task_t b = at(&f, 'b', wall_ms(200));
  uvs_task_t c = at(&f, 'c', wall_ms(200)); /* equal: in the order of submission */
  uvs_task_t a = at(&f, 'a', wall_ms(100));
  ASSERT_RC(0, uvs_submit(f.s, &d, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &c, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  fixture_turn(&f);
  step_wall(&f, UVS_SEC(1)); /* all at once */
  ASSERT_STR_EQ("abcd", log_string(&f, EV_WORK));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S70 */
TEST wall_tasks_and_relative_tasks_run_in_one_common_order(void) {
  struct fixture f;

  fixture_init(&f);
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open_turned(&f));
  for (int i = 0; i < 10; i++) {
    int64_t ms = 10 * (10 - i);
    uvs_task_t t =
        i % 2 == 0 ? at(&f, 'j' - i, wall_ms(ms)) : fixture_once(&f, 'j' - i, UVS_MS(ms));
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  fixture_advance_ms(&f, 100);
  ASSERT_STR_EQ("abcdefghij", log_string(&f, EV_WORK));
  for (unsigned i = 0; i < 10; i++) /* each at its own time */
    ASSERT_I64(VCLOCK_START_NS + UVS_MS(10 * (i + 1)), log_nth(&f, EV_WORK, 0, i)->start_ns);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S71 */
TEST a_wall_task_can_be_rescheduled_and_cancelled(void) {
  struct fixture f;
  uvs_id_t a, b;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t ta = at(&f, 'a', wall_ms(100));
  uvs_task_t tb = at(&f, 'b', wall_ms(100));
  ASSERT_RC(0, uvs_submit(f.s, &ta, &a));
  ASSERT_RC(0, uvs_submit(f.s, &tb, &b));
  fixture_advance_ms(&f, 50);
  ASSERT_RC(0, uvs_reschedule(f.s, a, UVS_MS(200))); /* 250, by the wall clock */
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, b, 0));
  fixture_turn(&f);
  ASSERT_I64(250, fixture_next_ms(&f));
  step_wall(&f, UVS_MS(100)); /* still a wall-clock task */
  ASSERT_I64(150, fixture_next_ms(&f));
  fixture_advance_ms(&f, 100);
  ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
  ASSERT_I64(wall_ms(250), log_nth(&f, EV_WORK, 'a', 0)->wall_ns);
  ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'b', 0)->status);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S70 */
TEST a_wall_task_at_the_end_of_time_never_runs_and_blocks_nothing(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t far = at(&f, 'f', INT64_MAX);
  uvs_task_t far2 = at(&f, 'g', INT64_MAX - 1);
  uvs_task_t near = at(&f, 'n', wall_ms(10));
  ASSERT_RC(0, uvs_submit(f.s, &far, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &far2, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &near, NULL));
  fixture_advance_ms(&f, 10);
  ASSERT_STR_EQ("n", log_string(&f, EV_WORK));
  fixture_jump_ns(&f, UVS_DAY(365 * 100));
  ASSERT_STR_EQ("n", log_string(&f, EV_WORK));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* the header: UVS_FROM_WALL */
TEST only_one_shots_may_name_an_instant_of_the_wall_clock(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t rate = fixture_rate(&f, 'r', wall_ms(1), UVS_MS(1));
  uvs_task_t delay = fixture_delay(&f, 'd', wall_ms(1), UVS_MS(1));
  rate.from = delay.from = UVS_FROM_WALL;
  ASSERT_RC(UV_EINVAL, uvs_submit(f.s, &rate, NULL));
  ASSERT_RC(UV_EINVAL, uvs_submit(f.s, &delay, NULL));
  fixture_advance_ms(&f, 10);
  ASSERT_U64(0, log_total(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int64_t real_wall_ns(void) {
  struct timespec t;

  clock_gettime(CLOCK_REALTIME, &t);
  return UVS_SEC(t.tv_sec) + t.tv_nsec;
}

/* S71: a step of the clock may go unreported, so the timer never sleeps longer than this. Calls on
 * the loop arm the timer directly; for calls on other threads the next loop pass does. */
TEST the_wall_clock_is_read_again_at_least_every_half_minute(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    struct fixture f;

    fixture_init(&f);
    f.pool = FAKEPOOL_REAL;
    f.real_clock = true;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = at(&f, 'a', real_wall_ns() + UVS_DAY(1));
    ASSERT_RC(0, off_loop ? submit_elsewhere(f.s, t, NULL) : uvs_submit(f.s, &t, NULL));
    if (off_loop)
      fixture_turn(&f);
    ASSERT(fakepool_seen().timer_starts >= 1);
    ASSERT(fakepool_seen().last.timeout_ms <= 30000);
    ASSERT(fakepool_seen().last.timeout_ms >= 1000);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

struct far_task {
  uvs_t *s;
  uvs_id_t id;
};

static int move_to_now(void *arg) {
  const struct far_task *t = arg;

  return uvs_reschedule(t->s, t->id, 0);
}

/* the header: uvs_reschedule. The task's time is on another clock than the loop's wake-up, so the
 * two cannot be compared. */
TEST rescheduling_a_wall_task_on_another_thread_wakes_the_loop(void) {
  struct fixture f;
  struct far_task far;
  uint64_t sends;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.real_clock = true;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = at(&f, 'a', real_wall_ns() + UVS_DAY(1));
  far.s = f.s;
  ASSERT_RC(0, uvs_submit(f.s, &t, &far.id));
  fixture_turn(&f);
  fixture_turn(&f); /* now it sleeps, for half a minute */
  sends = fakepool_seen().async_sends;
  ASSERT_RC(0, elsewhere(move_to_now, &far));
  ASSERT_U64(sends + 1, fakepool_seen().async_sends);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int finish_failed(void *arg) {
  const struct far_task *t = arg;

  return uvs_finish(t->s, t->id, UV_EIO);
}

/* S70: the same for a retry. No runner comes back that would wake the loop. */
TEST a_retry_of_a_wall_task_finished_on_another_thread_wakes_the_loop(void) {
  struct fixture f;
  struct far_task pending;
  uint64_t sends;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.real_clock = true;
  f.options.on_error = NULL; /* else the loop is woken to call it */
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = retried(at(&f, 'a', real_wall_ns()), UVS_MS(1), "p.");
  pending.s = f.s;
  ASSERT_RC(0, uvs_submit(f.s, &t, &pending.id));
  ASSERT(fixture_wait_log(&f, EV_WORK, 'a', 1));
  while (inspect_runners_out(f.s) > 0)
    uv_run(&f.loop, UV_RUN_ONCE);
  fixture_turn(&f); /* now it sleeps without end */
  sends = fakepool_seen().async_sends;
  ASSERT_RC(0, elsewhere(finish_failed, &pending));
  ASSERT_U64(sends + 1, fakepool_seen().async_sends);
  ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 1));
  ASSERT_RC(0, done_status(&f, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

struct instant {
  int64_t due_ns;
  _Atomic int64_t early_ns;
  _Atomic int runs;
};

static int instant_body(uvs_run_t *run) {
  struct instant *i = run->arg;
  int64_t now_ns = real_wall_ns();

  if (now_ns < i->due_ns)
    atomic_store(&i->early_ns, i->due_ns - now_ns);
  atomic_fetch_add(&i->runs, 1);
  return 0;
}

/* S70 */
TEST no_wall_task_is_early_by_the_real_wall_clock(void) {
  enum { N = 100 };
  static struct instant instants[N];
  struct fixture f;
  uint64_t random = test_seed;

  memset(instants, 0, sizeof instants);
  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.real_clock = true;
  CHECK_CALL(fixture_open_turned(&f));
  for (int i = 0; i < N; i++) {
    instants[i].due_ns = real_wall_ns() + (int64_t)test_random_below(&random, (uint64_t)UVS_MS(20));
    ASSERT_RC(0, uvs_schedule_at(f.s, instants[i].due_ns, instant_body, &instants[i], NULL));
  }
  ASSERT_RC(0, uvs_shutdown(f.s));
  ASSERT(fixture_wait_log(&f, EV_TERMINATED, 0, 1));
  for (int i = 0; i < N; i++) {
    ASSERT_RC(1, atomic_load(&instants[i].runs));
    ASSERT_I64(0, atomic_load(&instants[i].early_ns));
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(wall) {
  RUN_TEST(a_wall_task_runs_at_its_instant_and_not_a_nanosecond_before);
  RUN_TEST(a_late_wall_task_knows_its_lateness);
  RUN_TEST(an_instant_in_the_past_runs_now);
  RUN_TEST(setting_the_wall_clock_past_the_instant_runs_the_task_immediately);
  RUN_TEST(setting_the_wall_clock_back_makes_the_task_wait_again);
  RUN_TEST(an_unreported_step_back_does_not_make_a_wall_task_early);
  RUN_TEST(relative_tasks_do_not_notice_that_the_wall_clock_was_set);
  RUN_TEST(periodic_tasks_keep_their_period_when_clocks_are_set);
  RUN_TEST(wall_tasks_run_in_the_order_of_their_instants);
  RUN_TEST(wall_tasks_and_relative_tasks_run_in_one_common_order);
  RUN_TEST(a_wall_task_can_be_rescheduled_and_cancelled);
  RUN_TEST(a_wall_task_at_the_end_of_time_never_runs_and_blocks_nothing);
  RUN_TEST(only_one_shots_may_name_an_instant_of_the_wall_clock);
  RUN_TEST(the_wall_clock_is_read_again_at_least_every_half_minute);
  RUN_TEST(rescheduling_a_wall_task_on_another_thread_wakes_the_loop);
  RUN_TEST(a_retry_of_a_wall_task_finished_on_another_thread_wakes_the_loop);
  RUN_TEST(no_wall_task_is_early_by_the_real_wall_clock);
}

TEST_MAIN(RUN_SUITE(wall));
