/* SPDX-License-Identifier: MIT
 *
 * When and in which order tasks run: one-shots, first runs of periodic tasks, and the ends of time.
 * Later runs of periodic tasks are in test_periodic.c, the wall clock is in test_wall.c.
 */
#include <stdlib.h>

#include "lib/fixture.h"
#include "lib/threads.h"

#define NS_BEFORE(ms) (UVS_MS(ms) - 1)

static void spin_ns(int64_t ns) {
  uint64_t end_ns = uv_hrtime() + (uint64_t)ns;

  while (uv_hrtime() < end_ns)
    ;
}

/* --------------------------------------------------------------- one-shots --- */

/* S1 */
TEST fire_and_forget_runs_once_on_a_pool_thread(void) {
  struct fixture f;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  CHECK_CALL(fixture_open(&f));
  ASSERT_RC(0, uvs_execute(f.s, probe_work, fixture_probe(&f, 'a')));
  ASSERT_RC(0, uvs_shutdown(f.s));
  ASSERT(fixture_wait_log(&f, EV_TERMINATED, 0, 1));
  ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
  ASSERT_FALSE(log_nth(&f, EV_WORK, 'a', 0)->on_loop);
  ASSERT(log_nth(&f, EV_WORK, 'a', 0)->in_work);
  ASSERT(log_nth(&f, EV_WORK, 'a', 0)->runner >= 0);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S2 S3 S9 */
TEST delayed_task_starts_at_its_full_delay_and_not_a_nanosecond_before(void) {
  struct fixture f;
  uvs_id_t id = 0;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(100));
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT(id != 0);
  fixture_jump_ns(&f, NS_BEFORE(100));
  ASSERT_U64(0, log_total(&f));
  fixture_jump_ns(&f, 1);
  ASSERT_STR_EQ("100", log_runs(&f, EV_WORK, 'a'));
  ASSERT_FALSE(log_nth(&f, EV_WORK, 'a', 0)->on_loop);
  ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'a', 0)->status);
  ASSERT_U64(id, log_nth(&f, EV_DONE, 'a', 0)->id);
  ASSERT(log_nth(&f, EV_DONE, 'a', 0)->on_loop);
  fixture_advance_ns(&f, UVS_HOUR(1));
  ASSERT_U64(2, log_total(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S2 */
TEST the_delay_counts_from_the_submission_whoever_submits(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  ASSERT_RC(0, submit_elsewhere(f.s, fixture_once(&f, 'a', UVS_MS(100)), NULL));
  vclock_advance_ns(&f.clock, UVS_MS(60)); /* before the loop has seen it */
  fixture_turn(&f);
  ASSERT_I64(100, fixture_next_ms(&f));
  fixture_advance_ms(&f, 40);
  ASSERT_STR_EQ("100", log_runs(&f, EV_WORK, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

#define MANY 300

struct timed {
  int64_t due_ns;
  _Atomic int64_t early_ns; /* above zero: it was */
  _Atomic int runs;
};

static int timed_body(uvs_run_t *run) {
  struct timed *p = run->arg;
  int64_t now_ns = (int64_t)uv_hrtime();

  if (now_ns < p->due_ns)
    atomic_store(&p->early_ns, p->due_ns - now_ns);
  atomic_fetch_add(&p->runs, 1);
  return 0;
}

/* S2 S3 */
TEST no_delayed_task_is_early_on_the_real_clock(void) {
  static struct timed timed[MANY];
  struct fixture f;
  uint64_t random = test_seed;

  memset(timed, 0, sizeof timed);
  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.real_clock = true;
  CHECK_CALL(fixture_open(&f));
  for (int i = 0; i < MANY; i++) {
    int64_t delay_ns = (int64_t)test_random_below(&random, (uint64_t)UVS_MS(20));
    timed[i].due_ns = (int64_t)uv_hrtime() + delay_ns;
    ASSERT_RC(0, uvs_schedule(f.s, delay_ns, timed_body, &timed[i], NULL));
  }
  ASSERT_RC(0, uvs_shutdown(f.s));
  ASSERT(fixture_wait_log(&f, EV_TERMINATED, 0, 1));
  for (int i = 0; i < MANY; i++) {
    ASSERT_RC(1, atomic_load(&timed[i].runs));
    ASSERT_I64(0, atomic_load(&timed[i].early_ns));
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S4 S5 */
TEST first_run_of_a_periodic_task_is_not_before_its_initial_delay(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t rate = fixture_rate(&f, 'r', UVS_MS(70), UVS_MS(10));
  uvs_task_t delay = fixture_delay(&f, 'd', UVS_MS(70), UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &rate, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &delay, NULL));
  fixture_jump_ns(&f, NS_BEFORE(70));
  ASSERT_U64(0, log_total(&f));
  fixture_jump_ns(&f, 1);
  ASSERT_STR_EQ("70", log_runs(&f, EV_WORK, 'r'));
  ASSERT_STR_EQ("70", log_runs(&f, EV_WORK, 'd'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S4 S5 */
TEST first_run_scheduled_by_a_short_call_is_not_before_its_initial_delay(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  ASSERT_RC(0, uvs_schedule_at_fixed_rate(f.s, UVS_MS(70), UVS_MS(500), probe_work,
                                          fixture_probe(&f, 'r'), NULL));
  ASSERT_RC(0, uvs_schedule_with_fixed_delay(f.s, UVS_MS(80), UVS_MS(500), probe_work,
                                             fixture_probe(&f, 'd'), NULL));
  fixture_jump_ns(&f, NS_BEFORE(70));
  ASSERT_U64(0, log_total(&f));
  fixture_advance_ms(&f, 100);
  ASSERT_STR_EQ("70", log_runs(&f, EV_WORK, 'r'));
  ASSERT_STR_EQ("80", log_runs(&f, EV_WORK, 'd'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S6 */
TEST n_runs_at_a_fixed_rate_take_n_minus_one_periods(void) {
  struct fixture f;
  enum { RUNS = 200 };

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', 0, 3333333); /* not a whole number of anything */
  probe_of(&t)->takes_ns = UVS_US(700);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ns(&f, 3333333 * (RUNS - 1));
  ASSERT_U64(RUNS, log_count(&f, EV_WORK, 'a'));
  for (unsigned i = 0; i < RUNS; i++)
    ASSERT_I64(VCLOCK_START_NS + i * INT64_C(3333333), log_nth(&f, EV_WORK, 'a', i)->start_ns);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

struct beats {
  int64_t first_ns, period_ns;
  _Atomic int runs, early;
};

static int beat(uvs_run_t *run) {
  struct beats *b = run->arg;
  int n = atomic_fetch_add(&b->runs, 1);

  if ((int64_t)uv_hrtime() < b->first_ns + n * b->period_ns)
    atomic_fetch_add(&b->early, 1);
  return n == 9 ? UVS_STOP : 0;
}

/* S6 */
TEST fixed_rate_is_never_early_on_the_real_clock(void) {
  static struct beats b;
  struct fixture f;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.real_clock = true;
  f.options.periodic_after_shutdown = 1;
  CHECK_CALL(fixture_open_turned(&f));
  atomic_store(&b.runs, 0);
  atomic_store(&b.early, 0);
  b.period_ns = UVS_US(1500);
  b.first_ns = (int64_t)uv_hrtime();
  ASSERT_RC(0, uvs_schedule_at_fixed_rate(f.s, 0, b.period_ns, beat, &b, NULL));
  ASSERT_RC(0, uvs_shutdown(f.s));
  ASSERT(fixture_wait_log(&f, EV_TERMINATED, 0, 1));
  ASSERT_RC(10, atomic_load(&b.runs));
  ASSERT_RC(0, atomic_load(&b.early));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S7 */
TEST fixed_delay_counts_from_the_end_of_a_run_to_the_start_of_the_next(void) {
  struct fixture f;
  enum { RUNS = 50 };

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_delay(&f, 'a', 0, UVS_MS(10));
  probe_of(&t)->takes_ns = UVS_MS(7);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ms(&f, 17 * (RUNS - 1));
  ASSERT_U64(RUNS, log_count(&f, EV_WORK, 'a'));
  for (unsigned i = 0; i < RUNS; i++)
    ASSERT_I64(VCLOCK_START_NS + i * UVS_MS(17), log_nth(&f, EV_WORK, 'a', i)->start_ns);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

struct gaps {
  int64_t delay_ns, end_ns;
  int runs, early;
};

static int gap(uvs_run_t *run) {
  struct gaps *g = run->arg;

  if (g->runs > 0 && (int64_t)uv_hrtime() < g->end_ns + g->delay_ns)
    g->early++;
  g->runs++;
  spin_ns(UVS_US(300));
  g->end_ns = (int64_t)uv_hrtime();
  return g->runs == 8 ? UVS_STOP : 0;
}

/* S7 */
TEST fixed_delay_is_never_early_on_the_real_clock(void) {
  static struct gaps g;
  struct fixture f;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.real_clock = true;
  f.options.periodic_after_shutdown = 1;
  CHECK_CALL(fixture_open_turned(&f));
  memset(&g, 0, sizeof g);
  g.delay_ns = UVS_US(1700);
  ASSERT_RC(0, uvs_schedule_with_fixed_delay(f.s, 0, g.delay_ns, gap, &g, NULL));
  ASSERT_RC(0, uvs_shutdown(f.s));
  ASSERT(fixture_wait_log(&f, EV_TERMINATED, 0, 1));
  ASSERT_RC(8, g.runs);
  ASSERT_RC(0, g.early);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S8 */
TEST every_entry_point_refuses_a_task_without_work_and_after(void) {
  struct fixture f;
  uvs_counts_t before, after;
  uvs_id_t id = 4711, ids[2] = {4711, 4711};

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t bad = fixture_once(&f, 'a', 0);
  bad.work = NULL;
  uvs_task_t two[2] = {fixture_once(&f, 'b', 0), bad};
  uvs_counts_init(&before);
  uvs_counts_init(&after);
  ASSERT_RC(0, uvs_counts(f.s, &before));
  ASSERT_RC(UV_EINVAL, uvs_submit(f.s, &bad, &id));
  ASSERT_RC(UV_EINVAL, uvs_submit_many(f.s, two, 2, ids));
  ASSERT_RC(UV_EINVAL, uvs_execute(f.s, NULL, bad.arg));
  ASSERT_RC(UV_EINVAL, uvs_schedule(f.s, 0, NULL, bad.arg, &id));
  ASSERT_RC(UV_EINVAL, uvs_schedule_at_fixed_rate(f.s, 0, UVS_MS(1), NULL, bad.arg, &id));
  ASSERT_RC(UV_EINVAL, uvs_schedule_with_fixed_delay(f.s, 0, UVS_MS(1), NULL, bad.arg, &id));
  ASSERT_RC(UV_EINVAL, uvs_schedule_at(f.s, 0, NULL, bad.arg, &id));
  ASSERT_RC(0, uvs_counts(f.s, &after));
  ASSERT_MEM_EQ(&before, &after, sizeof before);
  ASSERT_U64(4711, id);
  ASSERT_U64(4711, ids[0]);
  fixture_advance_ms(&f, 1000);
  ASSERT_U64(0, log_total(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S9 */
TEST a_task_that_returns_zero_succeeds_with_nothing_else(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  ASSERT_STR_EQ("aa", log_string(&f, (enum event_kind)0)); /* work, done; no error */
  ASSERT_U64(1, log_count(&f, EV_WORK, 'a'));
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'a', 0)->status);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S10 S65 */
TEST an_immediate_submission_is_due_as_soon_as_it_is_queued(void) {
  static const int64_t delays[] = {0, -1, -UVS_HOUR(1), INT64_MIN};
  struct fixture f;
  uvs_info_t info;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  fakepool_hold();
  for (unsigned i = 0; i < sizeof delays / sizeof *delays; i++) {
    uvs_task_t t = fixture_once(&f, 'a', delays[i]);
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    uvs_info_init(&info);
    ASSERT_RC(0, uvs_info(f.s, id, &info));
    ASSERT(info.remaining_ns <= 0);
    ASSERT_RC(0, submit_elsewhere(f.s, fixture_once(&f, 'b', delays[i]), &id));
    uvs_info_init(&info);
    ASSERT_RC(0, uvs_info(f.s, id, &info));
    ASSERT(info.remaining_ns <= 0);
  }
  fixture_turn(&f);
  ASSERT_RC(0, uvs_info(f.s, id, &info));
  ASSERT_RC(UVS_READY, info.state);
  ASSERT(info.remaining_ns <= 0);
  ASSERT_U64(0, log_total(&f));
  fakepool_release();
  fixture_turn(&f);
  ASSERT_U64(4, log_count(&f, EV_WORK, 'a'));
  ASSERT_U64(4, log_count(&f, EV_WORK, 'b'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S65 */
TEST zero_and_negative_delays_mean_now_for_every_kind(void) {
  static const int64_t delays[] = {0, -1, INT64_MIN};
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  for (int i = 0; i < 3; i++) {
    uvs_task_t once = fixture_once(&f, 'o', delays[i]);
    uvs_task_t rate = fixture_rate(&f, 'r', delays[i], UVS_HOUR(1));
    uvs_task_t delay = fixture_delay(&f, 'd', delays[i], UVS_HOUR(1));
    uvs_task_t loop = fixture_loop_task(&f, 'l', delays[i]);
    log_clear(&f);
    ASSERT_RC(0, uvs_submit(f.s, &once, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &rate, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &delay, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &loop, NULL));
    fixture_turn(&f);
    ASSERT_STR_EQ("ord", log_string(&f, EV_WORK));
    ASSERT_STR_EQ("l", log_string(&f, EV_AFTER));
    ASSERT_STR_EQ("0", log_runs(&f, EV_WORK, 'r')); /* no lateness for a time before now */
    ASSERT_STR_EQ("0", log_runs(&f, EV_WORK, 'd'));
    ASSERT_STR_EQ("0", log_runs(&f, EV_WORK, 'o'));
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S65 */
TEST a_period_of_zero_or_less_is_an_argument_error(void) {
  static const int64_t periods[] = {0, -1, -UVS_MS(5), INT64_MIN};
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  for (int i = 0; i < 4; i++) {
    uvs_task_t rate = fixture_rate(&f, 'r', 0, periods[i]);
    uvs_task_t delay = fixture_delay(&f, 'd', 0, periods[i]);
    ASSERT_RC(UV_EINVAL, uvs_submit(f.s, &rate, NULL));
    ASSERT_RC(UV_EINVAL, uvs_submit(f.s, &delay, NULL));
    ASSERT_RC(UV_EINVAL,
              uvs_schedule_at_fixed_rate(f.s, 0, periods[i], probe_work, rate.arg, NULL));
    ASSERT_RC(UV_EINVAL,
              uvs_schedule_with_fixed_delay(f.s, 0, periods[i], probe_work, rate.arg, NULL));
  }
  fixture_advance_ms(&f, 10);
  ASSERT_U64(0, log_total(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int count_body(uvs_run_t *run) {
  ++*(int *)run->arg;
  return 0;
}

/* S11 */
TEST an_open_scheduler_never_refuses_for_lack_of_room(void) {
  enum { N = 200000 };
  struct fixture f;
  uvs_counts_t c;
  int ran = 0;

  fixture_init(&f);
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open_turned(&f));
  for (int i = 0; i < N; i++)
    ASSERT_RC(0, uvs_schedule(f.s, UVS_HOUR(1), count_body, &ran, NULL));
  uvs_counts_init(&c);
  ASSERT_RC(0, uvs_counts(f.s, &c));
  ASSERT_U64(N, c.waiting);
  ASSERT_U64(N, c.submitted);
  ASSERT_U64(0, c.rejected);
  fixture_jump_ns(&f, UVS_HOUR(1));
  ASSERT_RC(N, ran);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ------------------------------------------------------------------- order --- */

static enum greatest_test_res check_submission_order(enum fakepool_mode pool, int concurrency,
                                                     bool turned) {
  struct fixture f;

  fixture_init(&f);
  f.pool = pool;
  f.options.concurrency = concurrency;
  CHECK_CALL(turned ? fixture_open_turned(&f) : fixture_open(&f));
  uvs_task_t two[2] = {fixture_once(&f, 'c', UVS_MS(10)), fixture_once(&f, 'd', UVS_MS(10))};
  uvs_task_t a = fixture_once(&f, 'a', UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  ASSERT_RC(0, submit_elsewhere(f.s, fixture_once(&f, 'b', UVS_MS(10)), NULL));
  ASSERT_RC(0, uvs_submit_many(f.s, two, 2, NULL));
  ASSERT_RC(0, submit_elsewhere(f.s, fixture_rate(&f, 'e', UVS_MS(10), UVS_MS(10)), NULL));
  ASSERT_RC(0, submit_elsewhere(f.s, fixture_delay(&f, 'f', UVS_MS(10), UVS_MS(10)), NULL));
  ASSERT_RC(0, uvs_schedule(f.s, UVS_MS(10), probe_work, fixture_probe(&f, 'g'), NULL));
  fixture_jump_ms(&f, 10);
  ASSERT_STR_EQ("abcdefg", log_string(&f, EV_WORK));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S63 L20 */
TEST equal_due_times_run_in_the_order_of_submission(void) {
  for (int turned = 0; turned < 2; turned++) {
    CHECK_CALL(check_submission_order(FAKEPOOL_STEPPED, 1, turned));
    CHECK_CALL(check_submission_order(FAKEPOOL_INLINE, 1, turned));
    CHECK_CALL(check_submission_order(FAKEPOOL_STEPPED, 0, turned));
    CHECK_CALL(check_submission_order(FAKEPOOL_REAL, 0, turned));
    for (int i = 0; i < 20; i++)
      CHECK_CALL(check_submission_order(FAKEPOOL_SEEDED, 1, turned));
  }
  PASS();
}

/* S63 */
TEST immediate_tasks_run_in_the_order_of_submission(void) {
  struct fixture f;

  for (int turned = 0; turned < 2; turned++) {
    fixture_init(&f);
    f.options.concurrency = 1;
    CHECK_CALL(turned ? fixture_open_turned(&f) : fixture_open(&f));
    for (int tag = 'a'; tag <= 'z'; tag++) {
      if (tag % 3 == 0)
        ASSERT_RC(0, submit_elsewhere(f.s, fixture_once(&f, tag, 0), NULL));
      else
        ASSERT_RC(0, uvs_execute(f.s, probe_work, fixture_probe(&f, tag)));
    }
    fixture_turn(&f);
    ASSERT_STR_EQ("abcdefghijklmnopqrstuvwxyz", log_string(&f, EV_WORK));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

struct ordered {
  int64_t due_ns;
  int index; /* in the order of submission */
};

static struct ordered *order_seen[2000];
static int order_count;

static int order_body(uvs_run_t *run) {
  order_seen[order_count++] = run->arg;
  return 0;
}

/* S63, and the header: order */
TEST the_earlier_deadline_runs_first_whatever_the_order_of_submission(void) {
  enum { N = 2000 };
  static struct ordered tasks[N];
  struct fixture f;
  uint64_t random = test_seed;

  fixture_init(&f);
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open_turned(&f));
  order_count = 0;
  for (int i = 0; i < N; i++) {
    /* few different instants, so that many are equal */
    int64_t delay_ns = UVS_MS((int64_t)test_random_below(&random, 200));
    tasks[i].due_ns = vclock_now(&f.clock) + delay_ns;
    tasks[i].index = i;
    ASSERT_RC(0, uvs_schedule(f.s, delay_ns, order_body, &tasks[i], NULL));
    if (i % 500 == 499)
      fixture_jump_ns(&f, 1); /* some of them run; later ones get odd deadlines */
  }
  int early = order_count;
  fixture_jump_ms(&f, 300); /* all at once: only the deadlines say who is first */
  ASSERT_RC(N, order_count);
  for (int i = early + 1; i < N; i++) {
    const struct ordered *a = order_seen[i - 1], *b = order_seen[i];
    ASSERT(a->due_ns < b->due_ns || (a->due_ns == b->due_ns && a->index < b->index));
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S69 */
TEST an_overdue_task_starts_before_an_immediate_task_submitted_later(void) {
  struct fixture f;

  fixture_init(&f);
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t late = fixture_once(&f, 'a', UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &late, NULL));
  fixture_turn(&f);
  vclock_advance_ns(&f.clock, UVS_MS(20)); /* and the loop has not looked */
  uvs_task_t now = fixture_once(&f, 'n', 0);
  ASSERT_RC(0, uvs_submit(f.s, &now, NULL));
  ASSERT_RC(0, submit_elsewhere(f.s, fixture_once(&f, 'm', 0), NULL));
  fixture_turn(&f);
  ASSERT_STR_EQ("anm", log_string(&f, EV_WORK));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S69 */
TEST behind_a_busy_runner_an_overdue_task_starts_before_a_later_immediate_one(void) {
  struct fixture f;

  fixture_init(&f);
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open_turned(&f));
  fakepool_hold();
  uvs_task_t first = fixture_once(&f, 'x', 0);
  uvs_task_t late = fixture_once(&f, 'a', UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &late, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &first, NULL));
  fixture_turn(&f); /* the one runner is out with x */
  fixture_jump_ms(&f, 20);
  uvs_task_t now = fixture_once(&f, 'n', 0);
  ASSERT_RC(0, uvs_submit(f.s, &now, NULL));
  fixture_turn(&f);
  fakepool_release();
  fixture_turn(&f);
  ASSERT_STR_EQ("xan", log_string(&f, EV_WORK));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L20 */
TEST equal_deadlines_keep_their_order_over_periods(void) {
  struct fixture f;

  fixture_init(&f);
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t a = fixture_rate(&f, 'a', UVS_MS(100), UVS_MS(100));
  uvs_task_t b = fixture_rate(&f, 'b', UVS_MS(200), UVS_MS(200));
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL)); /* its entry for 200 ms is made after that of b */
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  fixture_advance_ms(&f, 600);
  ASSERT_STR_EQ("aabaabaab", log_string(&f, EV_WORK));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L20 */
TEST equal_deadlines_keep_their_order_over_reschedules(void) {
  struct fixture f;
  uvs_id_t a_id, b_id, c_id;

  fixture_init(&f);
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t a = fixture_once(&f, 'a', UVS_MS(500));
  uvs_task_t b = fixture_once(&f, 'b', UVS_MS(300));
  uvs_task_t c = fixture_once(&f, 'c', UVS_MS(100));
  ASSERT_RC(0, uvs_submit(f.s, &a, &a_id));
  ASSERT_RC(0, uvs_submit(f.s, &b, &b_id));
  ASSERT_RC(0, uvs_submit(f.s, &c, &c_id));
  fixture_turn(&f);
  ASSERT_RC(0, uvs_reschedule(f.s, c_id, UVS_MS(300))); /* later */
  ASSERT_RC(0, uvs_reschedule(f.s, a_id, UVS_MS(300))); /* earlier */
  fixture_jump_ms(&f, 300);
  ASSERT_STR_EQ("abc", log_string(&f, EV_WORK));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L13 */
TEST rescheduling_to_never_leaves_no_timer_armed(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  f.real_clock = true; /* else there is no timer at all */
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t a = fixture_once(&f, 'a', UVS_HOUR(1));
  ASSERT_RC(0, uvs_submit(f.s, &a, &id));
  fixture_turn(&f);
  uv_handle_t *timer = find_handles(&f.loop, f.s).timer;
  ASSERT(uv_is_active(timer));
  ASSERT_RC(0, uvs_reschedule(f.s, id, UVS_NEVER));
  fixture_turn(&f);
  ASSERT_FALSE(uv_is_active(timer));
  ASSERT_RC(0, uvs_reschedule(f.s, id, UVS_HOUR(2)));
  ASSERT(uv_is_active(timer));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* -------------------------------------------------------- the ends of time --- */

/* S52 */
TEST the_largest_fixed_delay_does_not_stop_a_later_immediate_task(void) {
  static const int64_t delays[] = {INT64_MAX, INT64_MAX - 1, INT64_MAX - UVS_SEC(2)};
  struct fixture f;
  uvs_info_t info;
  uvs_id_t id;

  for (int i = 0; i < 3; i++) {
    fixture_init(&f);
    f.options.concurrency = 1;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t far = fixture_delay(&f, 'f', 0, delays[i]);
    uvs_task_t now = fixture_once(&f, 'n', 0);
    uvs_task_t soon = fixture_once(&f, 's', UVS_MS(1));
    ASSERT_RC(0, uvs_submit(f.s, &far, &id));
    fixture_turn(&f);
    ASSERT_STR_EQ("f", log_string(&f, EV_WORK));
    uvs_info_init(&info);
    ASSERT_RC(0, uvs_info(f.s, id, &info));
    ASSERT_RC(UVS_WAITING, info.state);
    ASSERT(info.due_ns >= INT64_MAX - UVS_SEC(2)); /* and not below zero */
    ASSERT(info.remaining_ns >= INT64_MAX - UVS_SEC(4));
    ASSERT(fixture_next_ms(&f) == -1 || fixture_next_ms(&f) > INT64_MAX / UVS_MS(1) / 2);
    ASSERT_RC(0, uvs_submit(f.s, &now, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &soon, NULL));
    fixture_advance_ms(&f, 1);
    ASSERT_STR_EQ("fns", log_string(&f, EV_WORK));
    fixture_jump_ns(&f, UVS_DAY(365 * 100));
    ASSERT_STR_EQ("fns", log_string(&f, EV_WORK));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S53's entry points: each submits a task due after `delay_ns`. */
static int enter(struct fixture *f, int entry, int64_t delay_ns, int tag) {
  struct probe *p = fixture_probe(f, tag);

  switch (entry) {
  case 0:
    return uvs_schedule(f->s, delay_ns, probe_work, p, NULL);
  case 1:
    return uvs_schedule_at_fixed_rate(f->s, delay_ns, INT64_MAX, probe_work, p, NULL);
  case 2:
    return uvs_schedule_with_fixed_delay(f->s, delay_ns, INT64_MAX, probe_work, p, NULL);
  default:
    return uvs_schedule_at(f->s, delay_ns == INT64_MAX ? delay_ns : VCLOCK_WALL_NS + delay_ns,
                           probe_work, p, NULL);
  }
}

/* S53 */
TEST due_tasks_run_before_tasks_at_the_end_of_time_for_all_pairs_of_calls(void) {
  struct fixture f;

  for (int due = 0; due < 4; due++) {
    for (int far = 0; far < 4; far++) {
      for (int far_first = 0; far_first < 2; far_first++) {
        fixture_init(&f);
        f.options.concurrency = 1;
        CHECK_CALL(fixture_open_turned(&f));
        if (far_first)
          ASSERT_RC(0, enter(&f, far, INT64_MAX, 'f'));
        ASSERT_RC(0, enter(&f, due, due % 2 == 0 ? 0 : -UVS_MS(1), 'd'));
        if (!far_first)
          ASSERT_RC(0, enter(&f, far, INT64_MAX, 'f'));
        fixture_turn(&f);
        ASSERT_STR_EQ("d", log_string(&f, EV_WORK));
        fixture_jump_ns(&f, UVS_DAY(365 * 200));
        ASSERT_STR_EQ("d", log_string(&f, EV_WORK));
        ASSERT_I64(-1, fixture_next_ms(&f));
        CHECK_CALL(fixture_close(&f));
      }
    }
  }
  PASS();
}

static int submit_now(struct probe *p, uvs_run_t *run) {
  uvs_task_t t = fixture_once(p->f, 'n', 0);

  return uvs_submit(run->scheduler, &t, NULL);
}

/* S54 */
TEST moving_a_task_to_the_end_of_time_does_not_block_an_immediate_task(void) {
  struct fixture f;

  for (int concurrency = 0; concurrency < 2; concurrency++) {
    fixture_init(&f);
    f.options.concurrency = concurrency;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t d = fixture_delay(&f, 'd', 0, INT64_MAX);
    uvs_task_t r = fixture_rate(&f, 'r', UVS_MS(1), INT64_MAX);
    probe_of(&d)->act = submit_now;
    probe_of(&r)->act = submit_now;
    ASSERT_RC(0, uvs_submit(f.s, &d, NULL));
    fixture_turn(&f);
    ASSERT_STR_EQ("dn", log_string(&f, EV_WORK));
    ASSERT_RC(0, uvs_submit(f.s, &r, NULL));
    fixture_advance_ms(&f, 1);
    ASSERT_STR_EQ("dnrn", log_string(&f, EV_WORK));
    fixture_jump_ns(&f, UVS_DAY(365 * 100));
    ASSERT_STR_EQ("dnrn", log_string(&f, EV_WORK));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S52 S53 */
TEST delays_near_the_largest_value_neither_overflow_nor_run(void) {
  static const int64_t delays[] = {INT64_MAX, INT64_MAX - 1, INT64_MAX - VCLOCK_START_NS,
                                   INT64_MAX - VCLOCK_START_NS + 1, INT64_MAX / 2};
  struct fixture f;
  uvs_info_t info;
  uvs_id_t id;

  fixture_init(&f);
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open_turned(&f));
  for (unsigned i = 0; i < sizeof delays / sizeof *delays; i++) {
    uvs_task_t t = fixture_once(&f, 'f', delays[i]);
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_turn(&f);
    uvs_info_init(&info);
    ASSERT_RC(0, uvs_info(f.s, id, &info));
    ASSERT_RC(UVS_WAITING, info.state);
    ASSERT(info.remaining_ns >= INT64_MAX / 2);
    ASSERT(info.due_ns >= INT64_MAX / 2);
  }
  uvs_task_t soon = fixture_once(&f, 's', UVS_MS(5));
  ASSERT_RC(0, uvs_submit(f.s, &soon, NULL));
  ASSERT_I64(5, fixture_next_ms(&f));
  fixture_advance_ms(&f, 10);
  fixture_jump_ns(&f, UVS_DAY(365 * 100));
  ASSERT_STR_EQ("s", log_string(&f, EV_WORK));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S52 */
TEST a_task_due_never_does_not_run_even_at_the_end_of_the_clock(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t never = fixture_once(&f, 'n', UVS_NEVER);
  uvs_task_t now = fixture_once(&f, 'a', 0);
  ASSERT_RC(0, uvs_submit(f.s, &never, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &now, NULL));
  fixture_turn(&f);
  ASSERT_I64(-1, fixture_next_ms(&f));
  fixture_jump_ns(&f, INT64_MAX - VCLOCK_START_NS - 1);
  ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* the header: UVS_FROM_MONOTONIC */
TEST an_absolute_instant_counts_on_the_monotonic_clock(void) {
  struct fixture f;

  fixture_init(&f);
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t past = fixture_once(&f, 'p', 5); /* 5 ns after the machine started */
  uvs_task_t soon = fixture_once(&f, 's', VCLOCK_START_NS + UVS_MS(30));
  past.from = soon.from = UVS_FROM_MONOTONIC;
  vclock_advance_ns(&f.clock, UVS_MS(20));
  ASSERT_RC(0, uvs_submit(f.s, &soon, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &past, NULL));
  fixture_turn(&f);
  ASSERT_STR_EQ("p", log_string(&f, EV_WORK));
  ASSERT_I64(30, fixture_next_ms(&f));
  fixture_advance_ms(&f, 10);
  ASSERT_STR_EQ("30", log_runs(&f, EV_WORK, 's'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

#define CROWD 100000

struct far_task {
  int64_t due_ns, ran_ns;
  int runs;
};

static int far_body(uvs_run_t *run) {
  struct far_task *t = run->arg;

  t->ran_ns = run->start_ns;
  t->runs++;
  return 0;
}

/* S72 */
TEST tasks_in_48_hours_and_in_15_days_run_on_time_among_many_others(void) {
  static struct far_task crowd[CROWD];
  struct far_task far[2] = {{0, 0, 0}, {0, 0, 0}};
  struct fixture f;
  uint64_t random = test_seed;
  uvs_task_t t;

  memset(crowd, 0, sizeof crowd);
  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_init(&t);
  t.after = far_body; /* on the loop: the crowd need not visit the pool */
  for (int i = 0; i < CROWD; i++) {
    if (i == CROWD / 2) {
      ASSERT_RC(0, uvs_schedule(f.s, UVS_HOUR(48), far_body, &far[0], NULL));
      ASSERT_RC(0, uvs_schedule(f.s, UVS_DAY(15), far_body, &far[1], NULL));
    }
    t.first_ns = (int64_t)test_random_below(&random, (uint64_t)UVS_DAY(20));
    t.arg = &crowd[i];
    crowd[i].due_ns = VCLOCK_START_NS + t.first_ns;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  fixture_advance_ns(&f, UVS_DAY(20));
  ASSERT_RC(1, far[0].runs);
  ASSERT_RC(1, far[1].runs);
  ASSERT_I64(VCLOCK_START_NS + UVS_HOUR(48), far[0].ran_ns);
  ASSERT_I64(VCLOCK_START_NS + UVS_DAY(15), far[1].ran_ns);
  for (int i = 0; i < CROWD; i++) {
    ASSERT_RC(1, crowd[i].runs);
    ASSERT_I64(crowd[i].due_ns, crowd[i].ran_ns);
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ------------------------------------------------------------ concurrency 0 --- */

/* S57 */
TEST with_concurrency_zero_a_delayed_task_runs_on_the_loop_even_after_shutdown(void) {
  struct fixture f;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.options.concurrency = 0;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(100));
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT_RC(0, uvs_shutdown(f.s));
  ASSERT_RC(0, uvs_concurrency(f.s));
  fixture_jump_ns(&f, NS_BEFORE(100));
  ASSERT_U64(0, log_total(&f));
  fixture_jump_ns(&f, 1);
  ASSERT_STR_EQ("100", log_runs(&f, EV_WORK, 'a'));
  ASSERT(log_nth(&f, EV_WORK, 'a', 0)->on_loop);
  ASSERT_RC(UVS_ON_LOOP, log_nth(&f, EV_WORK, 'a', 0)->runner);
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'a', 0)->status);
  ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
  ASSERT_RC(0, uvs_concurrency(f.s));
  ASSERT_U64(0, fakepool_seen().queue_works);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S58 */
TEST with_concurrency_zero_and_a_far_task_the_loop_sleeps(void) {
  struct fixture f;
  uv_prepare_t turns;
  uv_timer_t enough;
  unsigned n = 0;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.real_clock = true;
  f.options.concurrency = 0;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_DAY(10));
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  /* The loop would poll for long: nothing makes it return immediately. */
  ASSERT(uv_backend_timeout(&f.loop) < 0 || uv_backend_timeout(&f.loop) > 10000);
  /* And it sleeps: in 50 ms of real time there are only a few loop passes. */
  uv_prepare_init(&f.loop, &turns);
  turns.data = &n;
  uv_prepare_start(&turns, count_turn);
  uv_timer_init(&f.loop, &enough);
  enough.data = NULL;
  uv_update_time(&f.loop);
  uv_timer_start(&enough, stop_loop, 50, 0);
  uv_run(&f.loop, UV_RUN_DEFAULT);
  uv_close((uv_handle_t *)&turns, NULL);
  uv_close((uv_handle_t *)&enough, NULL);
  fixture_turn(&f);
  ASSERT(n <= 5);
  ASSERT_U64(0, log_total(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ---------------------------------------------------------------- the timer --- */

/* L6 */
TEST nothing_fires_early_on_a_loop_that_has_not_run_yet(void) {
  static struct timed timed;
  struct fixture f;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.real_clock = true;
  CHECK_CALL(fixture_open(&f));
  memset(&timed, 0, sizeof timed);
  spin_ns(UVS_MS(20)); /* the loop's own clock stands at its birth */
  timed.due_ns = (int64_t)uv_hrtime() + UVS_MS(10);
  ASSERT_RC(0, uvs_schedule(f.s, UVS_MS(10), timed_body, &timed, NULL));
  ASSERT_RC(0, uvs_shutdown(f.s));
  ASSERT(fixture_wait_log(&f, EV_TERMINATED, 0, 1));
  ASSERT_RC(1, atomic_load(&timed.runs));
  ASSERT_I64(0, atomic_load(&timed.early_ns));
  ASSERT(fakepool_seen().stalest_ms < 10);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static struct timed timed_from_callback;

static int slow_callback(struct probe *p, uvs_run_t *run) {
  (void)p;
  spin_ns(UVS_MS(20)); /* uv_now is that old now */
  timed_from_callback.due_ns = (int64_t)uv_hrtime() + UVS_MS(10);
  return uvs_schedule(run->scheduler, UVS_MS(10), timed_body, &timed_from_callback, NULL);
}

/* L6 */
TEST a_long_callback_makes_nothing_fire_early(void) {
  struct fixture f;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.real_clock = true;
  CHECK_CALL(fixture_open_turned(&f));
  memset(&timed_from_callback, 0, sizeof timed_from_callback);
  uvs_task_t t = fixture_loop_task(&f, 'c', 0);
  probe_of(&t)->act = slow_callback;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT(fixture_wait_log(&f, EV_DONE, 'c', 1));
  /* The time-out was counted from an updated uv_now, not from one that was 20 ms old. */
  ASSERT(fakepool_seen().timer_starts >= 1);
  ASSERT(fakepool_seen().stalest_ms < 10);
  ASSERT_RC(0, uvs_shutdown(f.s));
  ASSERT(fixture_wait_log(&f, EV_TERMINATED, 0, 1));
  ASSERT_RC(1, atomic_load(&timed_from_callback.runs));
  ASSERT_I64(0, atomic_load(&timed_from_callback.early_ns));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static enum greatest_test_res open_real(struct fixture *f) {
  fixture_init(f);
  f->pool = FAKEPOOL_REAL;
  f->real_clock = true;
  return fixture_open_turned(f);
}

/* L13 */
TEST on_the_loop_a_nearer_task_re_arms_the_timer_and_a_later_one_does_not(void) {
  struct fixture f;

  CHECK_CALL(open_real(&f));
  uvs_task_t far = fixture_once(&f, 'f', UVS_SEC(10));
  uvs_task_t farther = fixture_once(&f, 'g', UVS_SEC(20));
  uvs_task_t near = fixture_once(&f, 'n', UVS_SEC(5));
  uvs_task_t nearest = fixture_once(&f, 'x', UVS_MS(3));
  ASSERT_RC(0, uvs_submit(f.s, &far, NULL));
  fixture_turn(&f);
  struct fakepool_seen seen = fakepool_seen();
  ASSERT_U64(1, seen.timer_starts);
  ASSERT(seen.last.timeout_ms <= 10000 && seen.last.timeout_ms > 9000);
  ASSERT_RC(0, uvs_submit(f.s, &farther, NULL));
  fixture_turn(&f);
  ASSERT_U64(1, fakepool_seen().timer_starts);
  ASSERT_RC(0, uvs_submit(f.s, &near, NULL));
  fixture_turn(&f);
  seen = fakepool_seen();
  ASSERT_U64(2, seen.timer_starts);
  ASSERT(seen.last.timeout_ms <= 5000 && seen.last.timeout_ms > 4000);
  ASSERT_RC(0, uvs_submit(f.s, &nearest, NULL));
  ASSERT(fixture_wait_log(&f, EV_DONE, 'x', 1));
  ASSERT_STR_EQ("x", log_string(&f, EV_WORK));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L13 */
TEST from_another_thread_a_nearer_task_re_arms_the_timer_and_a_later_one_does_not(void) {
  struct fixture f;

  CHECK_CALL(open_real(&f));
  ASSERT_RC(0, submit_elsewhere(f.s, fixture_once(&f, 'f', UVS_SEC(10)), NULL));
  fixture_turn(&f);
  struct fakepool_seen seen = fakepool_seen();
  ASSERT_U64(1, seen.timer_starts);
  ASSERT(seen.last.timeout_ms <= 10000 && seen.last.timeout_ms > 9000);
  ASSERT_RC(0, submit_elsewhere(f.s, fixture_once(&f, 'g', UVS_SEC(20)), NULL));
  fixture_turn(&f);
  ASSERT_U64(1, fakepool_seen().timer_starts);
  ASSERT_U64(seen.async_sends, fakepool_seen().async_sends); /* it did not even wake the loop */
  ASSERT_RC(0, submit_elsewhere(f.s, fixture_once(&f, 'n', UVS_SEC(5)), NULL));
  fixture_turn(&f);
  seen = fakepool_seen();
  ASSERT_U64(2, seen.timer_starts);
  ASSERT(seen.last.timeout_ms <= 5000 && seen.last.timeout_ms > 4000);
  ASSERT_RC(0, submit_elsewhere(f.s, fixture_once(&f, 'x', UVS_MS(3)), NULL));
  ASSERT(fixture_wait_log(&f, EV_DONE, 'x', 1));
  ASSERT_STR_EQ("x", log_string(&f, EV_WORK));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L13 */
TEST a_nearer_task_submitted_before_the_first_loop_pass_is_on_time(void) {
  struct fixture f;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.real_clock = true;
  CHECK_CALL(fixture_open(&f));
  uvs_task_t far = fixture_once(&f, 'f', UVS_SEC(10));
  uvs_task_t near = fixture_once(&f, 'n', UVS_MS(3));
  ASSERT_RC(0, uvs_submit(f.s, &far, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &near, NULL));
  ASSERT(fixture_wait_log(&f, EV_DONE, 'n', 1));
  ASSERT_STR_EQ("n", log_string(&f, EV_WORK));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(one_shots) {
  RUN_TEST(fire_and_forget_runs_once_on_a_pool_thread);
  RUN_TEST(delayed_task_starts_at_its_full_delay_and_not_a_nanosecond_before);
  RUN_TEST(the_delay_counts_from_the_submission_whoever_submits);
  RUN_TEST(no_delayed_task_is_early_on_the_real_clock);
  RUN_TEST(first_run_of_a_periodic_task_is_not_before_its_initial_delay);
  RUN_TEST(first_run_scheduled_by_a_short_call_is_not_before_its_initial_delay);
  RUN_TEST(n_runs_at_a_fixed_rate_take_n_minus_one_periods);
  RUN_TEST(fixed_rate_is_never_early_on_the_real_clock);
  RUN_TEST(fixed_delay_counts_from_the_end_of_a_run_to_the_start_of_the_next);
  RUN_TEST(fixed_delay_is_never_early_on_the_real_clock);
  RUN_TEST(every_entry_point_refuses_a_task_without_work_and_after);
  RUN_TEST(a_task_that_returns_zero_succeeds_with_nothing_else);
  RUN_TEST(an_immediate_submission_is_due_as_soon_as_it_is_queued);
  RUN_TEST(zero_and_negative_delays_mean_now_for_every_kind);
  RUN_TEST(a_period_of_zero_or_less_is_an_argument_error);
  RUN_TEST(an_open_scheduler_never_refuses_for_lack_of_room);
}

SUITE(order) {
  RUN_TEST(equal_due_times_run_in_the_order_of_submission);
  RUN_TEST(immediate_tasks_run_in_the_order_of_submission);
  RUN_TEST(the_earlier_deadline_runs_first_whatever_the_order_of_submission);
  RUN_TEST(an_overdue_task_starts_before_an_immediate_task_submitted_later);
  RUN_TEST(behind_a_busy_runner_an_overdue_task_starts_before_a_later_immediate_one);
  RUN_TEST(equal_deadlines_keep_their_order_over_periods);
  RUN_TEST(equal_deadlines_keep_their_order_over_reschedules);
  RUN_TEST(rescheduling_to_never_leaves_no_timer_armed);
}

SUITE(ends_of_time) {
  RUN_TEST(the_largest_fixed_delay_does_not_stop_a_later_immediate_task);
  RUN_TEST(due_tasks_run_before_tasks_at_the_end_of_time_for_all_pairs_of_calls);
  RUN_TEST(moving_a_task_to_the_end_of_time_does_not_block_an_immediate_task);
  RUN_TEST(delays_near_the_largest_value_neither_overflow_nor_run);
  RUN_TEST(a_task_due_never_does_not_run_even_at_the_end_of_the_clock);
  RUN_TEST(an_absolute_instant_counts_on_the_monotonic_clock);
  RUN_TEST(tasks_in_48_hours_and_in_15_days_run_on_time_among_many_others);
}

SUITE(loop_and_timer) {
  RUN_TEST(with_concurrency_zero_a_delayed_task_runs_on_the_loop_even_after_shutdown);
  RUN_TEST(with_concurrency_zero_and_a_far_task_the_loop_sleeps);
  RUN_TEST(nothing_fires_early_on_a_loop_that_has_not_run_yet);
  RUN_TEST(a_long_callback_makes_nothing_fire_early);
  RUN_TEST(on_the_loop_a_nearer_task_re_arms_the_timer_and_a_later_one_does_not);
  RUN_TEST(from_another_thread_a_nearer_task_re_arms_the_timer_and_a_later_one_does_not);
  RUN_TEST(a_nearer_task_submitted_before_the_first_loop_pass_is_on_time);
}

TEST_MAIN(RUN_SUITE(one_shots); RUN_SUITE(order); RUN_SUITE(ends_of_time);
          RUN_SUITE(loop_and_timer));
