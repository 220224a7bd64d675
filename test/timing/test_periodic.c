/* SPDX-License-Identifier: MIT
 *
 * Periodic tasks: the grid of a fixed rate, the gaps of a fixed delay, missed points, how a
 * periodic task ends, and pending runs (UVS_PENDING). log_runs shows a task's runs in one line: "0
 * 450(400+3)" started at 0 and 450 ms; the second run stood for the point at 400 ms, and three
 * points were missed.
 */
#include <stdlib.h>

#include "lib/fixture.h"
#include "lib/threads.h"

/* A body that takes long in one of its runs: p->data points to this. */
struct slow {
  uint64_t in_run;
  int64_t takes_ns;
};

static int slow_in_one_run(struct probe *p, uvs_run_t *run) {
  const struct slow *slow = p->data;

  if (run->number == slow->in_run)
    vclock_advance_ns(&p->f->clock, slow->takes_ns);
  return 0;
}

static uint64_t missed_of(struct fixture *f, uvs_id_t id) {
  uvs_info_t info;

  uvs_info_init(&info);
  return uvs_info(f->s, id, &info) == 0 ? info.missed : UINT64_MAX;
}

/* ------------------------------------------------------------ rate and delay --- */

/* S6 */
TEST fixed_rate_keeps_its_grid_however_long_bodies_take(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(50), UVS_MS(100));
  probe_of(&t)->takes_ns = UVS_MS(99);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ms(&f, 450);
  ASSERT_STR_EQ("50 150 250 350 450", log_runs(&f, EV_WORK, 'a'));
  ASSERT_I64(550, fixture_next_ms(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S7 */
TEST fixed_delay_counts_from_the_end_of_each_run(void) {
  static const struct slow slow = {2, UVS_MS(370)};
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_delay(&f, 'a', UVS_MS(50), UVS_MS(100));
  probe_of(&t)->act = slow_in_one_run;
  probe_of(&t)->data = (void *)&slow;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ms(&f, 150); /* the second run ends at 520 */
  fixture_advance_to(&f, VCLOCK_START_NS + UVS_MS(720));
  ASSERT_STR_EQ("50 150 620 720", log_runs(&f, EV_WORK, 'a'));
  /* A late run does not shorten the next delay. */
  fixture_jump_ms(&f, 1000);
  fixture_advance_ms(&f, 100);
  ASSERT_STR_EQ("50 150 620 720 1720(820) 1820", log_runs(&f, EV_WORK, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S6 */
TEST a_periodic_loop_task_keeps_its_grid_on_the_loop(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_loop_task(&f, 'a', UVS_MS(10));
  t.kind = UVS_FIXED_RATE;
  t.period_ns = UVS_MS(20);
  t.max_runs = 4;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ms(&f, 500);
  ASSERT_STR_EQ("10 30 50 70", log_runs(&f, EV_AFTER, 'a'));
  for (unsigned i = 0; i < 4; i++) {
    ASSERT(log_nth(&f, EV_AFTER, 'a', i)->on_loop);
    ASSERT_RC(UVS_ON_LOOP, log_nth(&f, EV_AFTER, 'a', i)->runner);
  }
  ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
  ASSERT_U64(0, fakepool_seen().queue_works);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

struct shared_by_runs {
  int plain;          /* written without any lock: only the scheduler orders the runs */
  int order_broken;   /* the same */
  _Atomic int inside; /* more than one at a time? */
  _Atomic int overlaps;
};

static int run_alone(uvs_run_t *run) {
  struct shared_by_runs *s = run->arg;

  if (atomic_fetch_add_explicit(&s->inside, 1, memory_order_relaxed) != 0)
    atomic_fetch_add_explicit(&s->overlaps, 1, memory_order_relaxed);
  s->order_broken += (uint64_t)s->plain + 1 != run->number;
  s->plain++;
  atomic_fetch_sub_explicit(&s->inside, 1, memory_order_relaxed);
  return 0;
}

/* S64 S66 */
TEST runs_never_overlap_and_each_sees_what_the_one_before_wrote(void) {
  enum { TASKS = 3, RUNS = 1000 };
  struct shared_by_runs shared[TASKS];
  struct fixture f;
  uvs_task_t t;

  memset(shared, 0, sizeof shared);
  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.options.concurrency = 4;
  f.options.periodic_after_shutdown = 1;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_init(&t);
  t.kind = UVS_FIXED_RATE;
  t.period_ns = UVS_US(1);
  t.work = run_alone;
  t.max_runs = RUNS;
  for (int i = 0; i < TASKS; i++) {
    t.arg = &shared[i];
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  ASSERT_RC(0, uvs_shutdown(f.s));
  fixture_jump_ms(&f, 100); /* all are hopelessly late: back to back, on whatever thread is free */
  ASSERT(fixture_wait_log(&f, EV_TERMINATED, 0, 1));
  for (int i = 0; i < TASKS; i++) {
    ASSERT_RC(RUNS, shared[i].plain);
    ASSERT_RC(0, shared[i].order_broken);
    ASSERT_RC(0, atomic_load(&shared[i].overlaps));
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* --------------------------------------------------------------- missed runs --- */

/* S66 V3 */
TEST a_late_fixed_rate_task_catches_up_back_to_back(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(100), UVS_MS(100));
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_jump_ms(&f, 450);
  ASSERT_STR_EQ("450(100) 450(200) 450(300) 450(400)", log_runs(&f, EV_WORK, 'a'));
  fixture_advance_ms(&f, 50);
  ASSERT_STR_EQ("450(100) 450(200) 450(300) 450(400) 500", log_runs(&f, EV_WORK, 'a'));
  ASSERT_U64(0, missed_of(&f, id));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S66 S64 */
TEST after_a_slow_run_the_missed_runs_follow_without_overlap(void) {
  static const struct slow slow = {1, UVS_MS(250)};
  struct fixture f;

  fixture_init(&f);
  f.options.concurrency = 4;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_MS(100));
  probe_of(&t)->act = slow_in_one_run;
  probe_of(&t)->data = (void *)&slow;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  fixture_advance_to(&f, VCLOCK_START_NS + UVS_MS(400));
  ASSERT_STR_EQ("0 250(100) 250(200) 300 400", log_runs(&f, EV_WORK, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S66 */
TEST uvs_schedule_at_fixed_rate_catches_up(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  ASSERT_RC(
      0, uvs_schedule_at_fixed_rate(f.s, 0, UVS_MS(10), probe_work, fixture_probe(&f, 'a'), NULL));
  fixture_jump_ms(&f, 35);
  /* The jump's loop pass came before its look at the clock, so the first run was on time. */
  ASSERT_STR_EQ("0 35(10) 35(20) 35(30)", log_runs(&f, EV_WORK, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* V3 */
TEST catching_up_runs_only_the_newest_max_burst_points(void) {
  static const char *const expected[] = {
      "0 450(100) 450(200) 450(300) 450(400) 500", /* 0: no bound */
      "0 450(400+3) 500",                          /* 1 */
      "0 450(300+2) 450(400) 500",
      "0 450(200+1) 450(300) 450(400) 500",
      "0 450(100) 450(200) 450(300) 450(400) 500", /* 4: as many as passed */
      "0 450(100) 450(200) 450(300) 450(400) 500",
  };
  static const uint64_t missed[] = {0, 3, 2, 1, 0, 0};
  struct fixture f;
  uvs_id_t id;

  for (uint32_t burst = 0; burst < 6; burst++) {
    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_MS(100));
    t.max_burst = burst;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_jump_ms(&f, 450);
    fixture_advance_ms(&f, 50);
    ASSERT_STR_EQ(expected[burst], log_runs(&f, EV_WORK, 'a'));
    ASSERT_U64(missed[burst], missed_of(&f, id));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* V3 */
TEST missed_once_runs_once_for_all_passed_points_and_counts_the_others(void) {
  struct fixture f;
  uvs_id_t id;
  uvs_counts_t c;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_MS(100));
  t.missed_policy = UVS_MISSED_ONCE;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_jump_ms(&f, 450); /* 100, 200, 300, 400 passed */
  ASSERT_STR_EQ("0 450(100+3)", log_runs(&f, EV_WORK, 'a'));
  ASSERT_I64(500, fixture_next_ms(&f));
  fixture_advance_ms(&f, 50);
  ASSERT_STR_EQ("0 450(100+3) 500", log_runs(&f, EV_WORK, 'a'));
  fixture_jump_ms(&f, 199); /* 600 passed, 700 not quite: nothing is missed */
  ASSERT_STR_EQ("0 450(100+3) 500 699(600)", log_runs(&f, EV_WORK, 'a'));
  fixture_jump_ms(&f, 101); /* 700 passed, and 800 is now */
  ASSERT_STR_EQ("0 450(100+3) 500 699(600) 800(700+1)", log_runs(&f, EV_WORK, 'a'));
  ASSERT_I64(900, fixture_next_ms(&f));
  ASSERT_U64(4, missed_of(&f, id));
  uvs_counts_init(&c);
  ASSERT_RC(0, uvs_counts(f.s, &c));
  ASSERT_U64(4, c.missed);
  ASSERT_U64(5, c.runs);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* V3 */
TEST missed_once_runs_immediately_after_a_slow_run(void) {
  static const struct slow slow = {1, UVS_MS(250)};
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_MS(100));
  t.missed_policy = UVS_MISSED_ONCE;
  probe_of(&t)->act = slow_in_one_run;
  probe_of(&t)->data = (void *)&slow;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  ASSERT_STR_EQ("0 250(100+1)", log_runs(&f, EV_WORK, 'a'));
  fixture_advance_ms(&f, 50);
  ASSERT_STR_EQ("0 250(100+1) 300", log_runs(&f, EV_WORK, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* V3 */
TEST skip_leaves_out_a_run_that_is_a_whole_period_late(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_MS(100));
  t.missed_policy = UVS_MISSED_SKIP;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_jump_ms(&f, 199); /* 100 passed, but not by a period: it runs, late */
  ASSERT_STR_EQ("0 199(100)", log_runs(&f, EV_WORK, 'a'));
  fixture_jump_ms(&f, 251); /* 450: 200, 300 and 400 passed */
  ASSERT_STR_EQ("0 199(100)", log_runs(&f, EV_WORK, 'a'));
  ASSERT_I64(500, fixture_next_ms(&f));
  fixture_advance_ms(&f, 50);
  ASSERT_STR_EQ("0 199(100) 500(500+3)", log_runs(&f, EV_WORK, 'a'));
  fixture_jump_ms(&f,
                  200); /* 700, exactly a period after 600, which is left out; 700 is not late */
  ASSERT_STR_EQ("0 199(100) 500(500+3) 700(700+1)", log_runs(&f, EV_WORK, 'a'));
  ASSERT_I64(800, fixture_next_ms(&f));
  ASSERT_U64(4, missed_of(&f, id));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* V3 */
TEST skip_after_a_slow_run_goes_on_at_the_next_point_of_the_grid(void) {
  static const struct slow slow[] = {{1, UVS_MS(250)}, {1, UVS_MS(300)}, {1, UVS_MS(100)}};
  static const char *const expected[] = {
      "0 300(300+2) 400", /* ended between two points */
      "0 300(300+2) 400", /* ended on one: that one is not missed */
      "0 100 200",
  };
  struct fixture f;

  for (int i = 0; i < 3; i++) {
    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_MS(100));
    t.missed_policy = UVS_MISSED_SKIP;
    probe_of(&t)->act = slow_in_one_run;
    probe_of(&t)->data = (void *)&slow[i];
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_turn(&f);
    fixture_advance_to(&f, VCLOCK_START_NS + UVS_MS(i == 2 ? 200 : 400));
    ASSERT_STR_EQ(expected[i], log_runs(&f, EV_WORK, 'a'));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* V3 */
TEST a_run_never_misses_a_point_by_a_nanosecond(void) {
  struct fixture f;

  for (int policy = UVS_MISSED_CATCH_UP; policy <= UVS_MISSED_SKIP; policy++) {
    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_MS(100));
    t.missed_policy = policy;
    t.max_burst = policy == UVS_MISSED_CATCH_UP ? 1 : 0;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_jump_ns(&f, UVS_MS(200) - 1); /* 200 has not passed under any policy */
    ASSERT_STR_EQ("0 199.999999(100)", log_runs(&f, EV_WORK, 'a'));
    ASSERT_I64(200, fixture_next_ms(&f));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* ---------------------------------------------------------------- their ends --- */

/* S41 V4 */
TEST a_periodic_body_that_fails_runs_no_more_and_its_failure_is_the_outcome(void) {
  static const int failures[] = {UV_EIO, UV_EOF, UV_ECANCELED, -1};
  struct fixture f;
  uvs_id_t id;
  uvs_counts_t c;

  for (int kind = UVS_FIXED_RATE; kind <= UVS_FIXED_DELAY; kind++) {
    for (int i = 0; i < 4; i++) {
      fixture_init(&f);
      CHECK_CALL(fixture_open_turned(&f));
      uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_MS(10));
      t.kind = kind;
      probe_of(&t)->ret = failures[i];
      probe_of(&t)->ret_from = 3;
      ASSERT_RC(0, uvs_submit(f.s, &t, &id));
      fixture_advance_ms(&f, 1000);
      ASSERT_STR_EQ("0 10 20", log_runs(&f, EV_WORK, 'a'));
      ASSERT_U64(4, log_total(&f)); /* three runs, done */
      ASSERT_RC(EV_DONE, log_nth(&f, (enum event_kind)0, 0, 3)->what);
      ASSERT_RC(failures[i], log_nth(&f, EV_DONE, 'a', 0)->status);
      ASSERT_RC(UV_ENOENT, state_of(f.s, id));
      uvs_counts_init(&c);
      ASSERT_RC(0, uvs_counts(f.s, &c));
      ASSERT_U64(1, c.failed);
      ASSERT_U64(0, c.completed + c.cancelled + c.waiting + c.ready + c.running);
      CHECK_CALL(fixture_close(&f));
    }
  }
  PASS();
}

/* V4. A failure goes to `done` if the task has one, else to the error hook. */
TEST a_failure_reaches_the_error_hook_unless_done_sees_it(void) {
  struct fixture f;
  struct probe *p;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  p = fixture_probe(&f, 'a');
  p->ret = UV_ENOSPC;
  ASSERT_RC(0, uvs_execute(f.s, probe_work, p));
  uvs_task_t t = fixture_once(&f, 'b', UVS_MS(1));
  probe_of(&t)->ret = UV_ENOTDIR;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  uvs_task_t r = fixture_rate(&f, 'r', 0, UVS_MS(10));
  r.done = NULL;
  probe_of(&r)->ret = UV_EIO;
  probe_of(&r)->ret_from = 3;
  ASSERT_RC(0, uvs_submit(f.s, &r, &id));
  fixture_advance_ms(&f, 100);
  ASSERT_STR_EQ("ar", log_string(&f, EV_ERROR));
  ASSERT_RC(UV_ENOSPC, log_nth(&f, EV_ERROR, 'a', 0)->status);
  ASSERT_RC(UV_ENOTDIR, log_nth(&f, EV_DONE, 'b', 0)->status);
  ASSERT_RC(UV_EIO, log_nth(&f, EV_ERROR, 'r', 0)->status);
  ASSERT(log_nth(&f, EV_ERROR, 'r', 0)->on_loop);
  ASSERT_U64(id, log_nth(&f, EV_ERROR, 'r', 0)->id);
  ASSERT_STR_EQ("0 10 20", log_runs(&f, EV_WORK, 'r'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* the header: what a body returns */
TEST an_unknown_positive_answer_is_a_failure(void) {
  static const int answers[] = {3, 4, 100, 1 << 20, INT32_MAX};
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  for (int i = 0; i < 5; i++) {
    uvs_task_t rate = fixture_rate(&f, 'r', 0, UVS_MS(10));
    uvs_task_t once = fixture_once(&f, 'o', 0);
    probe_of(&rate)->ret = probe_of(&once)->ret = answers[i];
    log_clear(&f);
    ASSERT_RC(0, uvs_submit(f.s, &rate, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &once, NULL));
    fixture_advance_ms(&f, 100);
    ASSERT_U64(1, log_count(&f, EV_WORK, 'r'));
    ASSERT_RC(UV_EINVAL, log_nth(&f, EV_DONE, 'r', 0)->status);
    ASSERT_RC(UV_EINVAL, log_nth(&f, EV_DONE, 'o', 0)->status);
    ASSERT_U64(2, log_count(&f, EV_DONE, 0));
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* the header: UVS_STOP */
TEST stop_ends_a_periodic_task_as_a_success(void) {
  struct fixture f;
  uvs_counts_t c;

  fixture_init(&f);
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t rate = fixture_rate(&f, 'r', 0, UVS_MS(10));
  uvs_task_t delay = fixture_delay(&f, 'd', 0, UVS_MS(10));
  uvs_task_t once = fixture_once(&f, 'o', 0);
  uvs_task_t loop = fixture_loop_task(&f, 'l', 0);
  loop.kind = UVS_FIXED_RATE;
  loop.period_ns = UVS_MS(10);
  probe_of(&rate)->ret = probe_of(&delay)->ret = probe_of(&once)->ret = UVS_STOP;
  probe_of(&loop)->ret = UVS_STOP;
  probe_of(&rate)->ret_from = probe_of(&delay)->ret_from = probe_of(&loop)->ret_from = 3;
  ASSERT_RC(0, uvs_submit(f.s, &rate, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &delay, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &once, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &loop, NULL));
  fixture_advance_ms(&f, 1000);
  ASSERT_STR_EQ("0 10 20", log_runs(&f, EV_WORK, 'r'));
  ASSERT_STR_EQ("0 10 20", log_runs(&f, EV_WORK, 'd'));
  ASSERT_STR_EQ("0", log_runs(&f, EV_WORK, 'o'));
  ASSERT_STR_EQ("0 10 20", log_runs(&f, EV_AFTER, 'l'));
  ASSERT_U64(4, log_count(&f, EV_DONE, 0));
  for (unsigned i = 0; i < 4; i++)
    ASSERT_RC(0, log_nth(&f, EV_DONE, 0, i)->status);
  ASSERT_U64(0, log_count(&f, EV_ERROR, 0));
  uvs_counts_init(&c);
  ASSERT_RC(0, uvs_counts(f.s, &c));
  ASSERT_U64(4, c.completed);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* the header: max_runs */
TEST max_runs_ends_the_task_as_a_success_after_that_many_runs(void) {
  struct fixture f;

  for (uint32_t n = 1; n <= 3; n++) {
    fixture_init(&f);
    f.options.concurrency = 1;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t rate = fixture_rate(&f, 'r', 0, UVS_MS(10));
    uvs_task_t delay = fixture_delay(&f, 'd', 0, UVS_MS(10));
    rate.max_runs = delay.max_runs = n;
    ASSERT_RC(0, uvs_submit(f.s, &rate, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &delay, NULL));
    fixture_advance_ms(&f, 10 * ((int64_t)n - 1));
    ASSERT_U64(n, log_count(&f, EV_WORK, 'r'));
    ASSERT_U64(n, log_count(&f, EV_WORK, 'd'));
    ASSERT_STR_EQ("rd", log_string(&f, EV_DONE)); /* at once, not at the next point */
    ASSERT_RC(0, log_nth(&f, EV_DONE, 'r', 0)->status);
    ASSERT_RC(0, log_nth(&f, EV_DONE, 'd', 0)->status);
    fixture_advance_ms(&f, 100);
    ASSERT_U64(n, log_count(&f, EV_WORK, 'r'));
    ASSERT_U64(n, log_count(&f, EV_WORK, 'd'));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* the header: max_runs */
TEST max_runs_counts_runs_and_not_points(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_MS(100));
  t.missed_policy = UVS_MISSED_ONCE;
  t.max_runs = 3;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_jump_ms(&f, 450);
  fixture_advance_ms(&f, 1000);
  ASSERT_STR_EQ("0 450(100+3) 500", log_runs(&f, EV_WORK, 'a'));
  ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* the header: until_ns */
TEST no_run_has_an_ideal_time_later_than_until(void) {
  static const int64_t until_ms[] = {199, 200, 201, 299};
  static const char *const expected[] = {"0 100", "0 100 200", "0 100 200", "0 100 200"};
  struct fixture f;

  for (int i = 0; i < 4; i++) {
    for (int absolute = 0; absolute < 2; absolute++) {
      fixture_init(&f);
      f.options.concurrency = 1;
      CHECK_CALL(fixture_open_turned(&f));
      uvs_task_t rate = fixture_rate(&f, 'r', 0, UVS_MS(100));
      uvs_task_t delay = fixture_delay(&f, 'd', 0, UVS_MS(100));
      if (absolute) {
        rate.from = delay.from = UVS_FROM_MONOTONIC;
        rate.first_ns = delay.first_ns = VCLOCK_START_NS;
      }
      rate.until_ns = delay.until_ns = rate.first_ns + UVS_MS(until_ms[i]);
      ASSERT_RC(0, uvs_submit(f.s, &rate, NULL));
      ASSERT_RC(0, uvs_submit(f.s, &delay, NULL));
      fixture_advance_ms(&f, i == 0 ? 100 : 200);
      ASSERT_STR_EQ("rd", log_string(&f, EV_DONE)); /* with the last run: none will follow */
      fixture_advance_ms(&f, 1000);
      ASSERT_STR_EQ(expected[i], log_runs(&f, EV_WORK, 'r'));
      ASSERT_STR_EQ(expected[i], log_runs(&f, EV_WORK, 'd'));
      ASSERT_RC(0, log_nth(&f, EV_DONE, 'r', 0)->status);
      ASSERT_RC(0, log_nth(&f, EV_DONE, 'd', 0)->status);
      CHECK_CALL(fixture_close(&f));
    }
  }
  PASS();
}

/* the header: until_ns */
TEST until_counts_ideal_times_and_not_starts(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_MS(100));
  t.until_ns = UVS_MS(250);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_jump_ms(&f, 1000);
  ASSERT_STR_EQ("0 1000(100) 1000(200)", log_runs(&f, EV_WORK, 'a'));
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'a', 0)->status);
  ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* the header: until_ns */
TEST skip_with_no_point_left_before_until_ends_the_task_as_a_success(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_MS(100));
  t.missed_policy = UVS_MISSED_SKIP;
  t.until_ns = UVS_MS(250);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_jump_ms(&f, 1000);
  ASSERT_STR_EQ("0", log_runs(&f, EV_WORK, 'a'));
  ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'a', 0)->status);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* -------------------------------------------------------------------- jitter --- */

#define JITTER_RUNS 200

static enum greatest_test_res jittered(uint64_t seed, int kind, int64_t starts_ns[JITTER_RUNS]) {
  const int64_t period_ns = UVS_MS(100), jitter_ns = UVS_MS(40);
  int64_t ideal_ns = VCLOCK_START_NS + UVS_MS(10);
  struct fixture f;

  fixture_init(&f);
  f.options.seed = seed;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), period_ns);
  t.kind = kind;
  t.jitter_ns = jitter_ns;
  t.max_runs = JITTER_RUNS;
  probe_of(&t)->takes_ns = UVS_MS(5);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ms(&f, 1000 * 60);
  ASSERT_U64(JITTER_RUNS, log_count(&f, EV_WORK, 'a'));
  for (unsigned i = 0; i < JITTER_RUNS; i++) {
    const struct event *e = log_nth(&f, EV_WORK, 'a', i);
    ASSERT_I64(ideal_ns, e->ideal_ns); /* the grid does not move with the jitter */
    ASSERT(e->start_ns >= e->ideal_ns);
    ASSERT(e->start_ns <= e->ideal_ns + jitter_ns);
    ASSERT_I64(0, e->late_ns); /* that was intended, not late */
    ideal_ns = (kind == UVS_FIXED_RATE ? e->ideal_ns : e->start_ns + UVS_MS(5)) + period_ns;
    starts_ns[i] = e->start_ns;
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* the header: jitter_ns, seed */
TEST jitter_stays_within_its_bounds_never_accumulates_and_follows_the_seed(void) {
  static int64_t a[JITTER_RUNS], b[JITTER_RUNS], c[JITTER_RUNS];
  int low = 0, high = 0;

  for (int kind = UVS_FIXED_RATE; kind <= UVS_FIXED_DELAY; kind++) {
    CHECK_CALL(jittered(7, kind, a));
    CHECK_CALL(jittered(7, kind, b));
    CHECK_CALL(jittered(8, kind, c));
    ASSERT_MEM_EQ(a, b, sizeof a);
    ASSERT(memcmp(a, c, sizeof a) != 0);
  }
  CHECK_CALL(jittered(9, UVS_FIXED_RATE, a));
  for (int i = 0; i < JITTER_RUNS; i++) {
    int64_t jitter_ns = a[i] - (VCLOCK_START_NS + UVS_MS(10) + i * UVS_MS(100));
    low += jitter_ns < UVS_MS(20);
    high += jitter_ns >= UVS_MS(20);
  }
  ASSERT(low > JITTER_RUNS / 4); /* it is spread over the range, not stuck at a place */
  ASSERT(high > JITTER_RUNS / 4);
  PASS();
}

static int step_clock(struct probe *p, uvs_run_t *run) {
  (void)run;
  vclock_advance_ns(&p->f->clock, UVS_MS(25));
  return 0;
}

/* the header: jitter_ns, UVS_MISSED_SKIP. Points are skipped while the task waits (the clock
 * jumps), and when it was ready already (another body takes long). The grid does not move. */
TEST skipped_points_do_not_shift_the_grid_by_their_jitter(void) {
  for (int ready = 0; ready < 2; ready++) {
    struct fixture f;

    fixture_init(&f);
    f.options.seed = 5;
    f.options.concurrency = 0;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t slow = fixture_rate(&f, 'b', UVS_MS(104), UVS_MS(100));
    slow.priority = UVS_PRIORITY_HIGH;
    probe_of(&slow)->act = step_clock;
    if (ready)
      ASSERT_RC(0, uvs_submit(f.s, &slow, NULL));
    uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
    t.jitter_ns = UVS_MS(5);
    t.missed_policy = UVS_MISSED_SKIP;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    for (int i = 0; i < (ready ? 1000 : 20); i++) {
      fixture_jump_ms(&f, ready ? 2 : 57); /* all that is due then is ready at once */
      if (!ready)
        fixture_advance_ms(&f, 35);
    }
    ASSERT(log_count(&f, EV_WORK, 'a') > 20);
    for (unsigned i = 0; i < log_count(&f, EV_WORK, 'a'); i++)
      ASSERT_I64(0, (log_nth(&f, EV_WORK, 'a', i)->ideal_ns - VCLOCK_START_NS) % UVS_MS(10));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

struct move {
  uvs_t *s;
  uvs_id_t id;
};

static int do_move(void *arg) {
  const struct move *m = arg;

  return uvs_reschedule(m->s, m->id, UVS_MS(50));
}

/* the header: uvs_reschedule. The caller names an instant: it gets no jitter, not even a part of
 * the old one, and the grid starts there. */
TEST a_rescheduled_task_runs_exactly_then_without_jitter(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    for (int kind = UVS_FIXED_RATE; kind <= UVS_FIXED_DELAY; kind++) {
      struct fixture f;
      uvs_id_t id;

      fixture_init(&f);
      f.options.seed = 7;
      CHECK_CALL(fixture_open_turned(&f));
      uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(100));
      t.kind = kind;
      t.jitter_ns = UVS_MS(40);
      ASSERT_RC(0, uvs_submit(f.s, &t, &id));
      struct move m = {f.s, id};
      ASSERT_RC(0, off_loop ? elsewhere(do_move, &m) : do_move(&m));
      fixture_advance_ms(&f, 400);
      for (unsigned i = 0; i < 3; i++) {
        const struct event *e = log_nth(&f, EV_WORK, 'a', i);

        if (i == 0)
          ASSERT_I64(VCLOCK_START_NS + UVS_MS(50), e->start_ns);
        if (i == 0 || kind == UVS_FIXED_RATE)
          ASSERT_I64(VCLOCK_START_NS + UVS_MS(50) + i * UVS_MS(100), e->ideal_ns);
      }
      CHECK_CALL(fixture_close(&f));
    }
  }
  PASS();
}

/* the header: jitter_ns */
TEST jitter_of_a_whole_period_is_an_argument_error(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_MS(100));
  t.jitter_ns = UVS_MS(100);
  ASSERT_RC(UV_EINVAL, uvs_submit(f.s, &t, NULL));
  t.jitter_ns = -1;
  ASSERT_RC(UV_EINVAL, uvs_submit(f.s, &t, NULL));
  t.jitter_ns = UVS_MS(100) - 1;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* --------------------------------------------------------------------- after --- */

/* the header: after */
TEST after_follows_each_run_on_the_loop_and_sees_its_status(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(100));
  t.after = probe_after;
  probe_of(&t)->takes_ns = UVS_MS(30);
  probe_of(&t)->ret = UV_EIO;
  probe_of(&t)->ret_from = 3;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ms(&f, 1000);
  ASSERT_U64(7, log_total(&f)); /* three times work and after, done */
  for (unsigned i = 0; i < 3; i++) {
    const struct event *work = log_nth(&f, (enum event_kind)0, 0, 2 * i);
    const struct event *after = log_nth(&f, (enum event_kind)0, 0, 2 * i + 1);
    ASSERT_RC(EV_WORK, work->what);
    ASSERT_RC(EV_AFTER, after->what);
    ASSERT_FALSE(work->on_loop);
    ASSERT(after->on_loop);
    ASSERT_RC(0, work->status);
    ASSERT_I64(0, work->end_ns);
    ASSERT_RC(i == 2 ? UV_EIO : 0, after->status);
    ASSERT_U64(i + 1, after->number);
    ASSERT_U64(work->id, after->id);
    ASSERT_RC(work->runner, after->runner);
    ASSERT_I64(work->ideal_ns, after->ideal_ns);
    ASSERT_I64(work->start_ns, after->start_ns);
    ASSERT_I64(work->start_ns + UVS_MS(30), after->end_ns);
  }
  ASSERT_RC(EV_DONE, log_nth(&f, (enum event_kind)0, 0, 6)->what);
  ASSERT_RC(UV_EIO, log_nth(&f, EV_DONE, 'a', 0)->status);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* the header: after */
TEST after_can_stop_or_fail_a_task_whose_work_succeeded(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t stop = fixture_rate(&f, 's', 0, UVS_MS(10));
  uvs_task_t fail = fixture_delay(&f, 'f', 0, UVS_MS(10));
  uvs_task_t once = fixture_once(&f, 'o', 0);
  stop.after = fail.after = once.after = probe_after;
  once.done = NULL; /* only the hook sees that */
  probe_of(&stop)->after_ret = UVS_STOP;
  probe_of(&stop)->after_from = 2;
  probe_of(&fail)->after_ret = UV_EPIPE;
  probe_of(&fail)->after_from = 3;
  probe_of(&once)->after_ret = UV_ENODEV;
  ASSERT_RC(0, uvs_submit(f.s, &stop, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &fail, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &once, NULL));
  fixture_advance_ms(&f, 1000);
  ASSERT_STR_EQ("0 10", log_runs(&f, EV_WORK, 's'));
  ASSERT_RC(0, log_nth(&f, EV_DONE, 's', 0)->status);
  ASSERT_STR_EQ("0 10 20", log_runs(&f, EV_WORK, 'f'));
  ASSERT_RC(UV_EPIPE, log_nth(&f, EV_DONE, 'f', 0)->status);
  ASSERT_STR_EQ("o", log_string(&f, EV_ERROR));
  ASSERT_RC(UV_ENODEV, log_nth(&f, EV_ERROR, 'o', 0)->status);
  ASSERT_U64(2, log_count(&f, EV_DONE, 0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* the header: after */
TEST the_answer_of_after_is_ignored_if_work_failed_or_stopped(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t fail = fixture_rate(&f, 'f', 0, UVS_MS(10));
  uvs_task_t fail2 = fixture_rate(&f, 'g', 0, UVS_MS(10));
  uvs_task_t stop = fixture_rate(&f, 's', 0, UVS_MS(10));
  fail.after = fail2.after = stop.after = probe_after;
  probe_of(&fail)->ret = UV_EIO;
  probe_of(&fail)->after_ret = UVS_STOP;
  probe_of(&fail2)->ret = UV_EIO;
  probe_of(&fail2)->after_ret = UV_EPIPE;
  probe_of(&stop)->ret = UVS_STOP; /* `after` that says "go on" does not revive it */
  ASSERT_RC(0, uvs_submit(f.s, &fail, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &fail2, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &stop, NULL));
  fixture_advance_ms(&f, 1000);
  ASSERT_U64(1, log_count(&f, EV_WORK, 'f'));
  ASSERT_U64(1, log_count(&f, EV_WORK, 'g'));
  ASSERT_U64(1, log_count(&f, EV_WORK, 's'));
  ASSERT_RC(UV_EIO, log_nth(&f, EV_DONE, 'f', 0)->status);
  ASSERT_RC(UV_EIO, log_nth(&f, EV_DONE, 'g', 0)->status);
  ASSERT_RC(0, log_nth(&f, EV_DONE, 's', 0)->status);
  ASSERT_RC(0, log_nth(&f, EV_AFTER, 's', 0)->status);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ------------------------------------------------------------------- pending --- */

struct finish {
  uvs_t *s;
  uvs_id_t id;
  int status;
  int rc;
};

static void finish_main(void *arg) {
  struct finish *n = arg;

  n->rc = uvs_finish(n->s, n->id, n->status);
}

static int finish_elsewhere(uvs_t *s, uvs_id_t id, int status) {
  struct finish n = {s, id, status, UV_EAGAIN};
  uv_thread_t thread;

  if (uv_thread_create(&thread, finish_main, &n) < 0)
    return UV_EAGAIN;
  uv_thread_join(&thread);
  return n.rc;
}

static enum greatest_test_res check_pending(bool elsewhere) {
  int (*finish)(uvs_t *, uvs_id_t, int) = elsewhere ? finish_elsewhere : uvs_finish;
  struct fixture f;
  uvs_id_t id, other;
  uvs_counts_t c;

  fixture_init(&f);
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(10));
  probe_of(&t)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(UV_ENOENT, finish(f.s, id, 0)); /* no run yet */
  fixture_advance_ms(&f, 10);
  ASSERT_STR_EQ("10", log_runs(&f, EV_WORK, 'a'));
  ASSERT_RC(UVS_RUNNING, state_of(f.s, id));

  /* It holds no thread: the one runner is free for others. */
  ASSERT_U64(0, fakepool_pending());
  uvs_counts_init(&c);
  ASSERT_RC(0, uvs_counts(f.s, &c));
  ASSERT_U64(1, c.running);
  ASSERT_U64(0, c.runners);
  uvs_task_t b = fixture_once(&f, 'b', 0);
  ASSERT_RC(0, uvs_submit(f.s, &b, &other));
  fixture_advance_ms(&f, 1000);
  ASSERT_U64(1, log_count(&f, EV_DONE, 'b'));
  ASSERT_U64(0, log_count(&f, EV_DONE, 'a'));

  ASSERT_RC(UV_EINVAL, finish(f.s, id, UVS_PENDING));
  ASSERT_RC(UV_ENOENT, finish(f.s, other, 0));
  ASSERT_RC(0, finish(f.s, id, UV_ETIMEDOUT));
  ASSERT_U64(0, log_count(&f, EV_DONE, 'a')); /* never from inside a call */
  ASSERT_RC(UV_ENOENT, finish(f.s, id, 0));
  fixture_turn(&f);
  ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
  ASSERT_RC(UV_ETIMEDOUT, log_nth(&f, EV_DONE, 'a', 0)->status);
  ASSERT(log_nth(&f, EV_DONE, 'a', 0)->on_loop);
  ASSERT_RC(UV_ENOENT, finish(f.s, id, 0));
  fixture_turn(&f);
  ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L14 */
TEST a_pending_run_ends_once_when_it_is_finished_on_the_loop(void) {
  CHECK_CALL(check_pending(false));
  PASS();
}

/* L14 */
TEST a_pending_run_ends_once_when_it_is_finished_from_another_thread(void) {
  CHECK_CALL(check_pending(true));
  PASS();
}

static int finish_first(struct probe *p, uvs_run_t *run) {
  int rc = uvs_finish(run->scheduler, run->id, 0);
  int again = uvs_finish(run->scheduler, run->id, UV_EIO);

  log_add(p->f, EV_USER, p->tag, run->id, rc == 0 && again == UV_ENOENT ? 0 : -1);
  return UVS_PENDING;
}

/* L14 */
TEST a_run_may_be_finished_before_its_body_has_returned_pending(void) {
  struct fixture f;

  for (int concurrency = 0; concurrency < 2; concurrency++) {
    fixture_init(&f);
    f.options.concurrency = concurrency;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t once = fixture_once(&f, 'o', 0);
    uvs_task_t rate = fixture_rate(&f, 'r', 0, UVS_MS(10));
    uvs_task_t loop = fixture_loop_task(&f, 'l', 0);
    rate.max_runs = 3;
    probe_of(&once)->act = probe_of(&rate)->act = probe_of(&loop)->act = finish_first;
    ASSERT_RC(0, uvs_submit(f.s, &once, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &rate, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &loop, NULL));
    fixture_advance_ms(&f, 100);
    ASSERT_U64(5, log_count(&f, EV_USER, 0));
    for (unsigned i = 0; i < 5; i++)
      ASSERT_RC(0, log_nth(&f, EV_USER, 0, i)->status);
    ASSERT_STR_EQ("0 10 20", log_runs(&f, EV_WORK, 'r'));
    ASSERT_U64(3, log_count(&f, EV_DONE, 0));
    for (unsigned i = 0; i < 3; i++)
      ASSERT_RC(0, log_nth(&f, EV_DONE, 0, i)->status);
    ASSERT_U64(0, log_count(&f, EV_ERROR, 0));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L14 */
TEST a_fixed_delay_counts_from_the_finish_of_a_pending_run(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_delay(&f, 'a', 0, UVS_MS(100));
  probe_of(&t)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_advance_ms(&f, 750);
  ASSERT_STR_EQ("0", log_runs(&f, EV_WORK, 'a'));
  ASSERT_RC(0, uvs_finish(f.s, id, 0));
  ASSERT_RC(UV_ENOENT, uvs_finish(f.s, id, 0)); /* between two runs */
  fixture_turn(&f);
  ASSERT_RC(UV_ENOENT, uvs_finish(f.s, id, 0));
  ASSERT_I64(850, fixture_next_ms(&f));
  fixture_advance_ms(&f, 200);
  ASSERT_STR_EQ("0 850", log_runs(&f, EV_WORK, 'a'));
  ASSERT_RC(0, finish_elsewhere(f.s, id, 0)); /* at 950 */
  vclock_advance_ns(&f.clock, UVS_MS(30));    /* and the loop notices only later */
  fixture_turn(&f);
  ASSERT_I64(1050, fixture_next_ms(&f));
  fixture_advance_ms(&f, 500);
  ASSERT_STR_EQ("0 850 1050", log_runs(&f, EV_WORK, 'a'));
  ASSERT_RC(0, uvs_finish(f.s, id, UVS_STOP));
  fixture_advance_ms(&f, 500);
  ASSERT_STR_EQ("0 850 1050", log_runs(&f, EV_WORK, 'a'));
  ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'a', 0)->status);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L14 S64 */
TEST a_fixed_rate_task_does_not_overlap_its_pending_run(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  f.options.concurrency = 4;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_MS(100));
  t.missed_policy = UVS_MISSED_ONCE;
  probe_of(&t)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_advance_ms(&f, 350);
  ASSERT_STR_EQ("0", log_runs(&f, EV_WORK, 'a'));
  ASSERT_RC(0, uvs_finish(f.s, id, 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("0 350(100+2)", log_runs(&f, EV_WORK, 'a'));
  fixture_advance_ms(&f, 50);
  ASSERT_STR_EQ("0 350(100+2)", log_runs(&f, EV_WORK, 'a'));
  ASSERT_RC(0, uvs_finish(f.s, id, UV_EIO));
  fixture_advance_ms(&f, 1000);
  ASSERT_STR_EQ("0 350(100+2)", log_runs(&f, EV_WORK, 'a'));
  ASSERT_RC(UV_EIO, log_nth(&f, EV_DONE, 'a', 0)->status);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L14 */
TEST a_pending_loop_task_is_finished_like_any_other(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_loop_task(&f, 'a', 0);
  t.kind = UVS_FIXED_DELAY;
  t.period_ns = UVS_MS(100);
  probe_of(&t)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_advance_ms(&f, 30);
  ASSERT_RC(UVS_RUNNING, state_of(f.s, id));
  ASSERT_RC(0, uvs_finish(f.s, id, 0));
  fixture_advance_ms(&f, 200);
  ASSERT_STR_EQ("0 130", log_runs(&f, EV_AFTER, 'a'));
  ASSERT_RC(0, finish_elsewhere(f.s, id, UV_EIO));
  fixture_advance_ms(&f, 200);
  ASSERT_STR_EQ("0 130", log_runs(&f, EV_AFTER, 'a'));
  ASSERT_RC(UV_EIO, log_nth(&f, EV_DONE, 'a', 0)->status);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L14 */
TEST after_follows_the_finish_of_a_pending_run(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_MS(100));
  t.after = probe_after;
  probe_of(&t)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_advance_ms(&f, 40);
  ASSERT_U64(0, log_count(&f, EV_AFTER, 'a'));
  ASSERT_RC(0, finish_elsewhere(f.s, id, 0));
  fixture_turn(&f);
  ASSERT_U64(1, log_count(&f, EV_AFTER, 'a'));
  ASSERT_RC(0, log_nth(&f, EV_AFTER, 'a', 0)->status);
  ASSERT_I64(VCLOCK_START_NS + UVS_MS(40), log_nth(&f, EV_AFTER, 'a', 0)->end_ns);
  ASSERT(log_nth(&f, EV_AFTER, 'a', 0)->on_loop);
  fixture_advance_ms(&f, 60);
  ASSERT_STR_EQ("0 100", log_runs(&f, EV_WORK, 'a'));
  ASSERT_RC(0, uvs_finish(f.s, id, UV_EIO));
  fixture_turn(&f);
  ASSERT_U64(2, log_count(&f, EV_AFTER, 'a'));
  ASSERT_RC(UV_EIO, log_nth(&f, EV_AFTER, 'a', 1)->status);
  ASSERT_RC(UV_EIO, log_nth(&f, EV_DONE, 'a', 0)->status);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L14 */
TEST a_pending_run_that_is_cancelled_is_done_when_it_is_finished(void) {
  struct fixture f;
  uvs_id_t id;

  for (int kind = UVS_ONE_SHOT; kind <= UVS_FIXED_DELAY; kind++) {
    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_MS(100));
    t.kind = kind;
    t.period_ns = kind == UVS_ONE_SHOT ? 0 : UVS_MS(100);
    probe_of(&t)->ret = UVS_PENDING;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_turn(&f);
    ASSERT_RC(UV_EBUSY, uvs_cancel(f.s, id, UVS_CANCEL_IF_WAITING));
    ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, uvs_cancel(f.s, id, 0));
    ASSERT_RC(UVS_CANCELLED_BEFORE, uvs_cancel(f.s, id, UVS_CANCEL_TOKEN));
    fixture_advance_ms(&f, 1000);
    ASSERT_U64(0, log_count(&f, EV_DONE, 'a')); /* somebody still has its arg */
    ASSERT_RC(0, uvs_finish(f.s, id, 0));
    ASSERT_RC(UV_ENOENT, uvs_finish(f.s, id, 0));
    fixture_advance_ms(&f, 1000);
    ASSERT_STR_EQ("0", log_runs(&f, EV_WORK, 'a'));
    ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
    ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 0)->status);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L14 */
TEST shutdown_waits_for_a_pending_run(void) {
  struct fixture f;
  uvs_id_t id;

  for (int now = 0; now < 2; now++) {
    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = fixture_once(&f, 'a', 0);
    probe_of(&t)->ret = UVS_PENDING;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_turn(&f);
    ASSERT_RC(0, now ? uvs_shutdown_now(f.s, NULL, NULL) : uvs_shutdown(f.s));
    fixture_advance_ms(&f, 1000);
    ASSERT_RC(0, uvs_is_terminated(f.s));
    ASSERT_RC(1, uvs_is_terminating(f.s));
    ASSERT_U64(0, log_count(&f, EV_TERMINATED, 0));
    ASSERT_U64(0, log_count(&f, EV_DONE, 'a'));
    ASSERT_RC(0, finish_elsewhere(f.s, id, UV_EIO));
    fixture_turn(&f);
    ASSERT_RC(1, uvs_is_terminated(f.s));
    ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
    ASSERT_RC(UV_EIO, log_nth(&f, EV_DONE, 'a', 0)->status); /* it keeps its result */
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static void on_closed(uvs_t *s) {
  ((struct fixture *)uvs_data(s))->closed = true;
}

/* L14 */
TEST close_waits_for_a_pending_run(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_t *s = f.s;
  uvs_task_t t = fixture_delay(&f, 'a', 0, UVS_MS(10));
  probe_of(&t)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(s, &t, &id));
  fixture_turn(&f);
  f.s = NULL; /* closed by us */
  ASSERT_RC(0, uvs_close(s, on_closed));
  fixture_turn(&f);
  ASSERT_FALSE(f.closed);
  ASSERT_U64(0, log_count(&f, EV_DONE, 'a'));
  ASSERT_RC(0, uvs_finish(s, id, 0));
  fixture_turn(&f);
  ASSERT(f.closed);
  ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
  ASSERT_U64(1, log_count(&f, EV_WORK, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L14 S64 */
TEST pending_runs_end_once_under_any_order_of_the_pool(void) {
  enum { TASKS = 12, ROUNDS = 40 };
  struct fixture f;
  uint64_t random = test_seed;
  uvs_id_t ids[TASKS];

  fixture_init(&f);
  f.pool = FAKEPOOL_SEEDED;
  f.options.concurrency = 3;
  CHECK_CALL(fixture_open_turned(&f));
  for (int i = 0; i < TASKS; i++) {
    uvs_task_t t = fixture_delay(&f, 'a' + i, 0, UVS_MS(10));
    t.max_runs = 5;
    probe_of(&t)->ret = UVS_PENDING;
    ASSERT_RC(0, uvs_submit(f.s, &t, &ids[i]));
  }
  for (int round = 0; round < ROUNDS && log_count(&f, EV_DONE, 0) < TASKS; round++) {
    fixture_advance_ms(&f, 10);
    for (int i = 0; i < TASKS; i++) {
      if (test_random_below(&random, 3) == 0)
        continue;
      bool running = state_of(f.s, ids[i]) == UVS_RUNNING;
      int rc = test_random_below(&random, 2) == 0 ? uvs_finish(f.s, ids[i], 0)
                                                  : finish_elsewhere(f.s, ids[i], 0);
      ASSERT_RC(running ? 0 : UV_ENOENT, rc);
    }
  }
  fixture_turn(&f);
  for (int i = 0; i < TASKS; i++) {
    ASSERT_U64(5, log_count(&f, EV_WORK, 'a' + i));
    ASSERT_U64(1, log_count(&f, EV_DONE, 'a' + i));
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(rate_and_delay) {
  RUN_TEST(fixed_rate_keeps_its_grid_however_long_bodies_take);
  RUN_TEST(fixed_delay_counts_from_the_end_of_each_run);
  RUN_TEST(a_periodic_loop_task_keeps_its_grid_on_the_loop);
  RUN_TEST(runs_never_overlap_and_each_sees_what_the_one_before_wrote);
}

SUITE(missed_runs) {
  RUN_TEST(a_late_fixed_rate_task_catches_up_back_to_back);
  RUN_TEST(after_a_slow_run_the_missed_runs_follow_without_overlap);
  RUN_TEST(uvs_schedule_at_fixed_rate_catches_up);
  RUN_TEST(catching_up_runs_only_the_newest_max_burst_points);
  RUN_TEST(missed_once_runs_once_for_all_passed_points_and_counts_the_others);
  RUN_TEST(missed_once_runs_immediately_after_a_slow_run);
  RUN_TEST(skip_leaves_out_a_run_that_is_a_whole_period_late);
  RUN_TEST(skip_after_a_slow_run_goes_on_at_the_next_point_of_the_grid);
  RUN_TEST(a_run_never_misses_a_point_by_a_nanosecond);
}

SUITE(ends) {
  RUN_TEST(a_periodic_body_that_fails_runs_no_more_and_its_failure_is_the_outcome);
  RUN_TEST(a_failure_reaches_the_error_hook_unless_done_sees_it);
  RUN_TEST(an_unknown_positive_answer_is_a_failure);
  RUN_TEST(stop_ends_a_periodic_task_as_a_success);
  RUN_TEST(max_runs_ends_the_task_as_a_success_after_that_many_runs);
  RUN_TEST(max_runs_counts_runs_and_not_points);
  RUN_TEST(no_run_has_an_ideal_time_later_than_until);
  RUN_TEST(until_counts_ideal_times_and_not_starts);
  RUN_TEST(skip_with_no_point_left_before_until_ends_the_task_as_a_success);
}

SUITE(jitter) {
  RUN_TEST(jitter_stays_within_its_bounds_never_accumulates_and_follows_the_seed);
  RUN_TEST(skipped_points_do_not_shift_the_grid_by_their_jitter);
  RUN_TEST(a_rescheduled_task_runs_exactly_then_without_jitter);
  RUN_TEST(jitter_of_a_whole_period_is_an_argument_error);
}

SUITE(after) {
  RUN_TEST(after_follows_each_run_on_the_loop_and_sees_its_status);
  RUN_TEST(after_can_stop_or_fail_a_task_whose_work_succeeded);
  RUN_TEST(the_answer_of_after_is_ignored_if_work_failed_or_stopped);
}

SUITE(pending) {
  RUN_TEST(a_pending_run_ends_once_when_it_is_finished_on_the_loop);
  RUN_TEST(a_pending_run_ends_once_when_it_is_finished_from_another_thread);
  RUN_TEST(a_run_may_be_finished_before_its_body_has_returned_pending);
  RUN_TEST(a_fixed_delay_counts_from_the_finish_of_a_pending_run);
  RUN_TEST(a_fixed_rate_task_does_not_overlap_its_pending_run);
  RUN_TEST(a_pending_loop_task_is_finished_like_any_other);
  RUN_TEST(after_follows_the_finish_of_a_pending_run);
  RUN_TEST(a_pending_run_that_is_cancelled_is_done_when_it_is_finished);
  RUN_TEST(shutdown_waits_for_a_pending_run);
  RUN_TEST(close_waits_for_a_pending_run);
  RUN_TEST(pending_runs_end_once_under_any_order_of_the_pool);
}

TEST_MAIN(RUN_SUITE(rate_and_delay); RUN_SUITE(missed_runs); RUN_SUITE(ends); RUN_SUITE(jitter);
          RUN_SUITE(after); RUN_SUITE(pending));
