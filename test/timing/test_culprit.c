/* SPDX-License-Identifier: MIT
 *
 * A late run reports why it is late. Each test creates one cause and expects to find it in the run,
 * in `after`, and in uvs_info.
 */
#include "lib/bodies.h"

#define RUNS 64

/* What the runs of one task reported about themselves. */
struct said {
  unsigned count;
  uvs_run_t run[RUNS];
};

static int note(struct probe *p, uvs_run_t *run) {
  struct said *said = p->data;

  if (said->count < RUNS)
    said->run[said->count++] = *run;
  return p->ret;
}

static int note_and_dawdle(struct probe *p, uvs_run_t *run) {
  if (run->number == 1)
    vclock_advance_ns(&p->f->clock, UVS_MS(25));
  return note(p, run);
}

static void listen_to(uvs_task_t *t, struct said *said) {
  said->count = 0;
  probe_of(t)->act = note;
  probe_of(t)->data = said;
}

/* Run n was late for exactly one reason. */
static enum greatest_test_res check_only(const struct said *said, unsigned n, int cause,
                                         int64_t late_ns) {
  const uvs_run_t *r = &said->run[n];

  ASSERT(n < said->count);
  ASSERT_I64(late_ns, r->late_ns);
  ASSERT_RC(cause, r->culprit);
  for (int i = 0; i < UVS_LATE_CAUSES; i++)
    ASSERT_I64(i == cause ? late_ns : 0, r->late_by_ns[i]);
  PASS();
}

static int64_t sum_of(const int64_t by_ns[UVS_LATE_CAUSES]) {
  int64_t sum = 0;

  for (int i = 0; i < UVS_LATE_CAUSES; i++)
    sum += by_ns[i];
  return sum;
}

/* A named task: it needs a cold record. */
static uvs_task_t named(uvs_task_t t) {
  t.name = "named";
  return t;
}

TEST a_run_on_time_has_no_culprit(void) {
  struct fixture f;
  struct said said;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
  listen_to(&t, &said);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ms(&f, 30);
  ASSERT_U64(3, said.count);
  for (unsigned i = 0; i < 3; i++) {
    ASSERT_RC(-1, said.run[i].culprit);
    ASSERT_I64(0, sum_of(said.run[i].late_by_ns));
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

TEST a_loop_that_was_held_up_is_blamed(void) {
  struct fixture f;
  struct said plain, kept, periodic, on_loop;

  fixture_init(&f);
  f.options.concurrency = 4;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t a = fixture_once(&f, 'a', UVS_MS(10));
  uvs_task_t b = named(fixture_once(&f, 'b', UVS_MS(10)));
  uvs_task_t c = fixture_rate(&f, 'c', UVS_MS(10), UVS_SEC(1));
  uvs_task_t d = fixture_loop_task(&f, 'd', UVS_MS(10));
  listen_to(&a, &plain);
  listen_to(&b, &kept);
  listen_to(&c, &periodic);
  listen_to(&d, &on_loop);
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &c, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &d, NULL));
  fixture_jump_ms(&f, 60); /* no loop pass meanwhile */
  CHECK_CALL(check_only(&plain, 0, UVS_LATE_LOOP, UVS_MS(50)));
  CHECK_CALL(check_only(&kept, 0, UVS_LATE_LOOP, UVS_MS(50)));
  CHECK_CALL(check_only(&periodic, 0, UVS_LATE_LOOP, UVS_MS(50)));
  CHECK_CALL(check_only(&on_loop, 0, UVS_LATE_LOOP, UVS_MS(50)));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

TEST runners_that_were_all_busy_are_blamed(void) {
  struct fixture f;
  struct said plain, kept;

  fixture_init(&f);
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t long_one = fixture_once(&f, 'l', UVS_MS(10));
  uvs_task_t a = fixture_once(&f, 'a', UVS_MS(10));
  uvs_task_t b = named(fixture_once(&f, 'b', UVS_MS(10)));
  probe_of(&long_one)->takes_ns = UVS_MS(40);
  listen_to(&a, &plain);
  listen_to(&b, &kept);
  ASSERT_RC(0, uvs_submit(f.s, &long_one, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  fixture_advance_ms(&f, 100);
  CHECK_CALL(check_only(&plain, 0, UVS_LATE_RUNNERS, UVS_MS(40)));
  CHECK_CALL(check_only(&kept, 0, UVS_LATE_RUNNERS, UVS_MS(40)));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

TEST a_run_delayed_by_its_previous_run_reports_overlap(void) {
  struct fixture f;
  struct said said;
  struct look seen;
  uvs_id_t id;

  fixture_init(&f);
  f.options.concurrency = 2;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
  listen_to(&t, &said);
  probe_of(&t)->act = note_and_dawdle;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_advance_ms(&f, 10); /* and the body takes 25 */
  CHECK_CALL(check_only(&said, 1, UVS_LATE_OVERLAP, UVS_MS(15)));
  CHECK_CALL(check_only(&said, 2, UVS_LATE_OVERLAP, UVS_MS(5)));
  seen = look_at(f.s, id);
  ASSERT_RC(0, seen.rc);
  ASSERT_I64(UVS_MS(5), seen.info.late_ns);
  ASSERT_RC(UVS_LATE_OVERLAP, seen.info.culprit);
  ASSERT_I64(UVS_MS(5), seen.info.late_by_ns[UVS_LATE_OVERLAP]);
  fixture_advance_ms(&f, 5);
  ASSERT_U64(4, said.count);
  ASSERT_RC(-1, said.run[3].culprit);
  ASSERT_RC(-1, look_at(f.s, id).info.culprit);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* `after` belongs to the run, so the next run waits for it too. */
static int slow_after(uvs_run_t *run) {
  struct probe *p = run->arg;

  vclock_advance_ns(&p->f->clock, UVS_MS(30));
  *(uvs_run_t *)p->data = *run;
  return 0;
}

TEST lateness_caused_by_the_previous_after_is_reported_as_overlap(void) {
  struct fixture f;
  uvs_run_t seen;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
  t.after = slow_after;
  t.max_runs = 2;
  probe_of(&t)->data = &seen;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ms(&f, 100);
  ASSERT_U64(2, seen.number);
  ASSERT_I64(UVS_MS(20), seen.late_ns);
  ASSERT_RC(UVS_LATE_OVERLAP, seen.culprit);
  ASSERT_I64(UVS_MS(20), seen.late_by_ns[UVS_LATE_OVERLAP]);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* 25 ms late: 10 ms because of the task's previous run, 15 ms because the loop noticed its end
 * late. */
TEST lateness_with_several_causes_is_split_among_them(void) {
  struct fixture f;
  struct said said;

  fixture_init(&f);
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(20));
  probe_of(&t)->takes_ns = UVS_MS(30);
  t.max_runs = 2;
  listen_to(&t, &said);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fakepool_hold();
  fixture_jump_ms(&f, 10);
  ASSERT(fakepool_step()); /* its first run, until 40 ms; the next is due at 30 */
  ASSERT_I64(40, fixture_now_ms(&f));
  vclock_advance_ns(&f.clock, UVS_MS(15));
  fakepool_release();
  fixture_turn(&f);
  ASSERT_U64(2, said.count);
  ASSERT_I64(UVS_MS(25), said.run[1].late_ns);
  ASSERT_I64(UVS_MS(10), said.run[1].late_by_ns[UVS_LATE_OVERLAP]);
  ASSERT_I64(UVS_MS(15), said.run[1].late_by_ns[UVS_LATE_LOOP]);
  ASSERT_RC(UVS_LATE_LOOP, said.run[1].culprit);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* Another user's callback on the loop, between two passes of the scheduler. */
static void dawdle_once(uv_idle_t *h) {
  struct fixture *f = h->data;

  if (log_count(f, EV_AFTER, 'b') == 1 && log_count(f, EV_USER, 'i') == 0) {
    log_add(f, EV_USER, 'i', 0, 0);
    vclock_advance_ns(&f->clock, UVS_MS(5));
  }
}

/* L7. Bodies on the loop use up the budget of the pass. The remaining tasks are carried over to the
 * next pass, and other users of the loop run in between. */
TEST tasks_of_the_loop_are_carried_over_when_the_budget_is_used_up(void) {
  struct fixture f;
  struct said said[3];
  uv_idle_t idle;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  ASSERT_RC(0, uv_idle_init(&f.loop, &idle));
  idle.data = &f;
  ASSERT_RC(0, uv_idle_start(&idle, dawdle_once));
  for (int i = 0; i < 3; i++) {
    uvs_task_t t = fixture_loop_task(&f, 'a' + i, UVS_MS(10));
    probe_of(&t)->takes_ns = i == 0 ? UVS_US(600) : UVS_MS(2);
    listen_to(&t, &said[i]);
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  fixture_advance_ms(&f, 30);
  ASSERT_RC(-1, said[0].run[0].culprit);
  /* In the same pass: the loop was busy with the previous task. */
  CHECK_CALL(check_only(&said[1], 0, UVS_LATE_RUNNERS, UVS_US(600)));
  /* In the next pass: the budget of 1 ms ended the first pass, but another body took 1.6 ms
   * more. */
  ASSERT_I64(UVS_US(7600), said[2].run[0].late_ns);
  ASSERT_I64(UVS_US(1600), said[2].run[0].late_by_ns[UVS_LATE_RUNNERS]);
  ASSERT_I64(UVS_MS(6), said[2].run[0].late_by_ns[UVS_LATE_BUDGET]);
  ASSERT_RC(UVS_LATE_BUDGET, said[2].run[0].culprit);
  uv_close((uv_handle_t *)&idle, NULL);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* A clock that advances each time it is read, so that a burst of expiries takes time. */
static bool clock_drags;

static int64_t dragging_now(void *arg) {
  if (clock_drags)
    vclock_advance_ns(arg, UVS_US(100));
  return vclock_now(arg);
}

/* L7. More tasks are due at once than one loop pass may hand over. */
TEST a_burst_larger_than_one_loop_pass_blames_the_budget(void) {
  enum { MANY = 3000 };
  struct said first, last;
  struct fixture f;

  fixture_init(&f);
  f.options.clock.monotonic_ns = dragging_now;
  CHECK_CALL(fixture_open_turned(&f));
  for (int i = 0; i < MANY; i++) {
    uvs_task_t t = {.size = sizeof t, .first_ns = UVS_MS(10), .work = work_nothing};
    if (i == 0 || i == MANY - 1) {
      t = fixture_once(&f, 'a', UVS_MS(10));
      listen_to(&t, i == 0 ? &first : &last);
    }
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  vclock_advance_ns(&f.clock, UVS_MS(10));
  fakepool_hold(); /* runners that go home meanwhile, and are called out again, are the loop's doing
                    */
  clock_drags = true;
  ASSERT_RC(0, uvs_clock_changed(f.s));
  fixture_turn(&f);
  clock_drags = false;
  fakepool_release();
  fixture_turn(&f);
  ASSERT_U64(1, first.count);
  ASSERT_U64(1, last.count);
  ASSERT_I64(0, first.run[0].late_by_ns[UVS_LATE_BUDGET]);
  ASSERT(last.run[0].late_by_ns[UVS_LATE_BUDGET] > 3 * UVS_MS(1)); /* several loop passes */
  ASSERT_I64(first.run[0].late_by_ns[UVS_LATE_LOOP], last.run[0].late_by_ns[UVS_LATE_LOOP]);
  ASSERT_I64(last.run[0].late_ns, sum_of(last.run[0].late_by_ns));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S71. The wall clock is set forward past the instant: nothing was slow. */
TEST a_step_of_the_wall_clock_is_not_lateness(void) {
  struct fixture f;
  struct said stepped, waited;

  fixture_init(&f);
  f.options.concurrency = 2;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t a = fixture_once(&f, 'a', VCLOCK_WALL_NS + UVS_HOUR(1));
  uvs_task_t b = fixture_once(&f, 'b', VCLOCK_WALL_NS + UVS_HOUR(5));
  a.from = b.from = UVS_FROM_WALL;
  listen_to(&a, &stepped);
  listen_to(&b, &waited);
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  fixture_turn(&f);
  vclock_step_wall(&f.clock, UVS_HOUR(3));
  ASSERT_RC(0, uvs_clock_changed(f.s));
  fixture_turn(&f);
  CHECK_CALL(check_only(&stepped, 0, UVS_LATE_CLOCK, UVS_HOUR(2)));
  fixture_jump_ns(&f, UVS_HOUR(2) + UVS_MS(70)); /* a loop that is held up, on the other hand */
  CHECK_CALL(check_only(&waited, 0, UVS_LATE_LOOP, UVS_MS(70)));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

TEST a_task_that_was_due_before_its_submission_says_so(void) {
  struct fixture f;
  struct said instant, wall, rate;

  fixture_init(&f);
  f.options.concurrency = 3;
  CHECK_CALL(fixture_open_turned(&f));
  fixture_advance_ms(&f, 100);
  uvs_task_t a = fixture_once(&f, 'a', uvs_now(f.s) - UVS_MS(30));
  uvs_task_t b = fixture_once(&f, 'b', vclock_wall(&f.clock) - UVS_HOUR(8));
  uvs_task_t c = fixture_rate(&f, 'c', uvs_now(f.s) - UVS_MS(25), UVS_MS(10));
  a.from = c.from = UVS_FROM_MONOTONIC;
  b.from = UVS_FROM_WALL;
  c.max_runs = 2;
  listen_to(&a, &instant);
  listen_to(&b, &wall);
  listen_to(&c, &rate);
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &c, NULL));
  fixture_turn(&f);
  CHECK_CALL(check_only(&instant, 0, UVS_LATE_SUBMIT, UVS_MS(30)));
  CHECK_CALL(check_only(&wall, 0, UVS_LATE_SUBMIT, UVS_HOUR(8)));
  CHECK_CALL(check_only(&rate, 0, UVS_LATE_SUBMIT, UVS_MS(25)));
  CHECK_CALL(check_only(&rate, 1, UVS_LATE_OVERLAP, UVS_MS(15))); /* it catches up */
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* Only the loop can send runners to the pool again. The runner was busy for 20 ms, the loop for 280
 * ms. */
TEST a_loop_that_starts_no_runner_is_blamed(void) {
  struct fixture f;
  struct said said;

  fixture_init(&f);
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t a = fixture_once(&f, 'a', UVS_MS(10));
  uvs_task_t b = fixture_once(&f, 'b', UVS_MS(10));
  probe_of(&a)->takes_ns = UVS_MS(20);
  listen_to(&b, &said);
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  fakepool_hold();
  fixture_jump_ms(&f, 10);
  ASSERT(fakepool_step()); /* 'a'; its runner returns, since its budget is used up */
  vclock_advance_ns(&f.clock, UVS_MS(280));
  fakepool_release();
  fixture_turn(&f);
  ASSERT_I64(UVS_MS(300), said.run[0].late_ns);
  ASSERT_I64(UVS_MS(20), said.run[0].late_by_ns[UVS_LATE_RUNNERS]);
  ASSERT_I64(UVS_MS(280), said.run[0].late_by_ns[UVS_LATE_LOOP]);
  ASSERT_RC(UVS_LATE_LOOP, said.run[0].culprit);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* The body ended long ago, but the loop is late to call `after`. */
TEST a_loop_that_calls_after_late_is_blamed_for_the_next_run(void) {
  struct fixture f;
  struct said said;

  fixture_init(&f);
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(100));
  t.after = probe_after;
  t.max_runs = 2;
  listen_to(&t, &said);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fakepool_hold();
  fixture_jump_ms(&f, 10);
  ASSERT(fakepool_step());
  vclock_advance_ns(&f.clock, UVS_MS(300));
  fakepool_release();
  fixture_turn(&f);
  CHECK_CALL(check_only(&said, 1, UVS_LATE_LOOP, UVS_MS(200)));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* Skipped points are not waited for: only the rest of the lateness is split. */
TEST skipped_points_are_not_part_of_the_lateness(void) {
  struct fixture f;
  struct said burst, merged;

  fixture_init(&f);
  f.options.concurrency = 2;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t a = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
  uvs_task_t b = fixture_rate(&f, 'b', UVS_MS(10), UVS_MS(10));
  a.max_burst = 1;
  a.max_runs = b.max_runs = 1;
  b.missed_policy = UVS_MISSED_ONCE;
  listen_to(&a, &burst);
  listen_to(&b, &merged);
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  fixture_jump_ms(&f, 45);
  CHECK_CALL(check_only(&burst, 0, UVS_LATE_LOOP, UVS_MS(5)));
  CHECK_CALL(check_only(&merged, 0, UVS_LATE_LOOP, UVS_MS(35)));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

TEST info_of_a_task_that_has_not_run_shows_no_culprit(void) {
  struct fixture f;
  struct look seen;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_turn(&f);
  seen = look_at(f.s, id);
  ASSERT_RC(-1, seen.info.culprit);
  ASSERT_I64(0, seen.info.late_ns);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* Each histogram counts each run once: runs on runners, on the loop, and runs finished by another
 * thread. */
TEST the_histograms_count_every_run_once(void) {
  struct fixture f;
  uvs_histogram_t h;
  uvs_id_t plain, kept;

  fixture_init(&f);
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t a = fixture_once(&f, 'a', UVS_MS(10));
  uvs_task_t b = fixture_loop_task(&f, 'b', UVS_MS(10));
  uvs_task_t c = fixture_once(&f, 'c', UVS_MS(10));
  uvs_task_t d = named(fixture_once(&f, 'd', UVS_MS(10)));
  uvs_task_t e = fixture_once(&f, 'e', UVS_MS(1000));
  probe_of(&a)->takes_ns = UVS_MS(40);
  probe_of(&b)->takes_ns = UVS_MS(7);
  probe_of(&c)->ret = probe_of(&d)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &c, &plain));
  ASSERT_RC(0, uvs_submit(f.s, &d, &kept));
  ASSERT_RC(0, uvs_submit(f.s, &e, NULL));
  fixture_jump_ms(&f, 30);
  ASSERT_U64(2, histogram_of(f.s, UVS_STAT_RUN).count); /* two are pending */
  fixture_advance_ms(&f, 100);
  ASSERT_RC(0, uvs_finish(f.s, plain, 0));
  fixture_advance_ms(&f, 100);
  ASSERT_RC(0, uvs_finish(f.s, kept, 0));
  fixture_advance_ms(&f, 1000);
  h = histogram_of(f.s, UVS_STAT_LATE);
  ASSERT_U64(5, h.count);
  /* The loop was late by 20, then ran b for 7; a took 40. */
  ASSERT_U64(UVS_MS(20 + 27 + 67 + 67), h.sum_ns);
  ASSERT_U64(UVS_MS(67), h.max_ns);
  ASSERT_U64(2, histogram_of(f.s, UVS_STAT_CAUSE + UVS_LATE_LOOP).count);
  ASSERT_U64(2, histogram_of(f.s, UVS_STAT_CAUSE + UVS_LATE_RUNNERS).count);
  ASSERT_U64(UVS_MS(134), histogram_of(f.s, UVS_STAT_CAUSE + UVS_LATE_RUNNERS).sum_ns);
  ASSERT_U64(5, histogram_of(f.s, UVS_STAT_QUEUE).count);
  ASSERT_U64(UVS_MS(7 + 47 + 47), histogram_of(f.s, UVS_STAT_QUEUE).sum_ns);
  h = histogram_of(f.s, UVS_STAT_RUN);
  ASSERT_U64(5, h.count);
  ASSERT_U64(UVS_MS(40 + 7 + 100 + 200), h.sum_ns);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ------------------------------------------------------------- the real clock --- */

static void hold_up(uv_timer_t *h) {
  (void)h;
  uv_sleep(30);
}

/* Another user's timer blocks the loop for 30 ms just when the scheduler's timer is due. */
TEST a_loop_that_is_blocked_in_real_time_is_blamed(void) {
  struct fixture f;
  struct said said;
  uv_timer_t blocker;

  fixture_init(&f);
  f.real_clock = true;
  f.pool = FAKEPOOL_REAL;
  CHECK_CALL(fixture_open_turned(&f));
  ASSERT_RC(0, uv_timer_init(&f.loop, &blocker));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(5));
  listen_to(&t, &said);
  ASSERT_RC(0, uv_timer_start(&blocker, hold_up, 1, 0));
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 1));
  ASSERT(said.run[0].late_by_ns[UVS_LATE_LOOP] >= UVS_MS(20)); /* 30 less 5 less the timer's 1 */
  ASSERT(said.run[0].late_by_ns[UVS_LATE_TIMER] <= UVS_MS(1));
  ASSERT_I64(said.run[0].late_ns, sum_of(said.run[0].late_by_ns));
  uv_close((uv_handle_t *)&blocker, NULL);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* A task that is due at once does not wait for the timer. */
TEST a_task_that_is_due_at_once_never_blames_the_timer(void) {
  struct fixture f;
  struct said said;

  fixture_init(&f);
  f.real_clock = true;
  f.pool = FAKEPOOL_REAL;
  CHECK_CALL(fixture_open_turned(&f));
  for (int kept = 0; kept < 2; kept++) {
    uvs_task_t t = fixture_once(&f, 'a', 0);
    if (kept)
      t = named(t);
    listen_to(&t, &said);
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    ASSERT(fixture_wait_log(&f, EV_DONE, 'a', (unsigned)kept + 1));
    ASSERT_I64(0, said.run[0].late_by_ns[UVS_LATE_TIMER]);
    ASSERT_I64(said.run[0].late_ns, sum_of(said.run[0].late_by_ns));
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* On an idle loop the timer causes the lateness, because it rounds up. On a busy machine the loop
 * may never be idle in time: then the test tries again. */
TEST on_an_idle_loop_the_timer_is_blamed_for_its_rounding(void) {
  int64_t timer_ns = 0;

  for (int round = 0; round < 50 && timer_ns == 0; round++) {
    struct fixture f;
    struct said said;

    fixture_init(&f);
    f.real_clock = true;
    f.pool = FAKEPOOL_REAL;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = fixture_rate(&f, 'a', UVS_US(2500), UVS_US(2500));
    t.max_runs = 8;
    listen_to(&t, &said);
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 1));
    for (unsigned i = 0; i < said.count; i++) {
      ASSERT_I64(said.run[i].late_ns, sum_of(said.run[i].late_by_ns));
      ASSERT(said.run[i].late_by_ns[UVS_LATE_TIMER] <= UVS_MS(1));
      timer_ns += said.run[i].late_by_ns[UVS_LATE_TIMER];
    }
    CHECK_CALL(fixture_close(&f));
  }
  ASSERT(timer_ns > 0);
  PASS();
}

SUITE(culprit) {
  RUN_TEST(a_run_on_time_has_no_culprit);
  RUN_TEST(a_loop_that_was_held_up_is_blamed);
  RUN_TEST(runners_that_were_all_busy_are_blamed);
  RUN_TEST(a_run_delayed_by_its_previous_run_reports_overlap);
  RUN_TEST(lateness_caused_by_the_previous_after_is_reported_as_overlap);
  RUN_TEST(lateness_with_several_causes_is_split_among_them);
  RUN_TEST(tasks_of_the_loop_are_carried_over_when_the_budget_is_used_up);
  RUN_TEST(a_burst_larger_than_one_loop_pass_blames_the_budget);
  RUN_TEST(a_step_of_the_wall_clock_is_not_lateness);
  RUN_TEST(a_task_that_was_due_before_its_submission_says_so);
  RUN_TEST(a_loop_that_starts_no_runner_is_blamed);
  RUN_TEST(a_loop_that_calls_after_late_is_blamed_for_the_next_run);
  RUN_TEST(skipped_points_are_not_part_of_the_lateness);
  RUN_TEST(info_of_a_task_that_has_not_run_shows_no_culprit);
  RUN_TEST(the_histograms_count_every_run_once);
  RUN_TEST(a_loop_that_is_blocked_in_real_time_is_blamed);
  RUN_TEST(a_task_that_is_due_at_once_never_blames_the_timer);
  RUN_TEST(on_an_idle_loop_the_timer_is_blamed_for_its_rounding);
}

TEST_MAIN(RUN_SUITE(culprit));
