/* SPDX-License-Identifier: MIT
 *
 * uvs_pause_all and uvs_resume_all: the whole scheduler.
 */
#include "uvsched/queue.h"

#include "lib/bodies.h"
#include "lib/control.h"
#include "lib/lanes.h"

/* L28 */
TEST nothing_starts_while_the_scheduler_is_paused(void) {
  struct fixture f;
  uvs_lane_t lane;
  uvs_id_t id;

  CHECK_CALL(open_with_lane(&f, 1, 1, &lane));
  ASSERT_RC(UV_EALREADY, uvs_resume_all(f.s));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT_RC(0, uvs_is_paused(f.s));
  ASSERT_RC(0, uvs_pause_all(f.s));
  ASSERT_RC(1, uvs_is_paused(f.s));
  ASSERT_RC(UV_EALREADY, uvs_pause_all(f.s));
  t = fixture_rate(&f, 'r', UVS_MS(10), UVS_MS(10)); /* tasks are accepted */
  t.missed_policy = UVS_MISSED_ONCE;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  CHECK_CALL(submit(&f, lane, 'l', 0));
  CHECK_CALL(submit_loop_task(&f, 0, 'o'));
  t = fixture_once(&f, 'w', 0);
  t.from = UVS_FROM_WALL;
  t.first_ns = vclock_wall(&f.clock) + UVS_MS(5);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  t = fixture_every_second(&f, 'c');
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  uvs_calendar_release(t.calendar);
  ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id)); /* the two kinds of pause are independent */
  ASSERT_RC(0, uvs_resume(f.s, id, 0));
  fixture_advance_ms(&f, 1035);
  ASSERT_U64(0, log_total(&f));
  ASSERT_I64(-1, fixture_next_ms(&f)); /* the loop sleeps */
  ASSERT_RC(0, uvs_resume_all(f.s));
  fixture_turn(&f);
  ASSERT_U64(5, log_count(&f, EV_WORK, 0));
  ASSERT_U64(1, log_count(&f, EV_AFTER, 'o'));
  ASSERT_STR_EQ("1035(10+102)", log_runs(&f, EV_WORK, 'r'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int pause_all(uvs_t *s, uvs_id_t id) {
  (void)id;
  return uvs_pause_all(s);
}

/* L28: plain and other tasks that are ready for a runner, for the loop, in a lane; 200 of each */
TEST ready_tasks_wait_again_when_the_scheduler_is_paused(void) {
  for (int i = 0; i < 4; i++) {
    struct fixture f;
    uvs_lane_t lane;
    struct order o = {.call = pause_all};

    CHECK_CALL(open_with_lane(&f, i == 1 ? 0 : 1, 1, &lane));
    uvs_task_t a = in_lane(fixture_once(&f, 'a', 0), i == 2 ? lane : 0);
    give_order(&a, &o);
    ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
    uvs_task_t b = in_lane(fixture_once(&f, 'b', 0), i == 2 ? lane : 0);
    b.limit.total_ns = i == 3 ? UVS_MS(5) : 0;
    for (int k = 0; k < 200; k++)
      ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
    fixture_advance_ms(&f, 20);
    ASSERT_RC(0, o.rc);
    ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
    CHECK_CALL(pool_is_idle(&f));
    ASSERT_U64(200, counts_of(f.s).waiting);
    ASSERT_RC(0, uvs_resume_all(f.s));
    fixture_turn(&f);
    ASSERT_U64(200, log_count(&f, EV_WORK, 'b'));
    ASSERT_U64(201, counts_of(f.s).completed);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L28: runs in progress finish, with `after` and `done`. */
TEST a_run_in_progress_finishes_while_the_scheduler_is_paused(void) {
  struct fixture f;
  struct order o = {.call = pause_all};

  CHECK_CALL(fixture_open_turned_anew(&f));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  give_order(&t, &o);
  t.after = probe_after;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  ASSERT_RC(0, o.rc);
  ASSERT_U64(1, log_count(&f, EV_AFTER, 'a'));
  ASSERT_RC(0, done_status(&f, 'a'));
  CHECK_CALL(fixture_close(&f)); /* a close resumes */
  PASS();
}

static _Atomic int first_runs, others_submitted, scheduler_paused;

/* Runs until the other two tasks are due. */
static int act_wait_for_others(struct probe *p, uvs_run_t *run) {
  int64_t due_ns;

  (void)run;
  atomic_store(&first_runs, 1);
  while (!atomic_load(&others_submitted))
    uv_sleep(0);
  due_ns = uvs_now(p->f->s) + UVS_MS(1);
  while (uvs_now(p->f->s) < due_ns)
    uv_sleep(0);
  return 0;
}

static int act_pause_all(struct probe *p, uvs_run_t *run) {
  (void)run;
  atomic_store(&scheduler_paused, uvs_pause_all(p->f->s) == 0 ? 1 : -1);
  return 0;
}

/* L28: a runner has found a loop task due, and left it to the loop. The runner's next body pauses
 * the scheduler. The loop must not wake up again and again for a task that it may not run. */
TEST a_loop_task_that_a_runner_found_due_waits_while_the_scheduler_is_paused(void) {
  struct fixture f;
  uint64_t wakeups;
  bool alone;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.real_clock = true;
  f.options.concurrency = 1;
  f.options.budget_ns = UVS_SEC(1); /* one runner runs both */
  CHECK_CALL(fixture_open_turned(&f));
  atomic_store(&first_runs, 0);
  atomic_store(&others_submitted, 0);
  atomic_store(&scheduler_paused, 0);
  uvs_task_t t = fixture_once(&f, 'f', 0);
  probe_of(&t)->act = act_wait_for_others;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT(fixture_wait_flag(&f, &first_runs));
  t = fixture_loop_task(&f, 'o', UVS_US(10));
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  t = fixture_once(&f, 'a', UVS_US(20));
  probe_of(&t)->act = act_pause_all;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  atomic_store(&others_submitted, 1);
  /* The loop does not run meanwhile, unless the runner has used up its budget. */
  for (int i = 0; i < 2000 && atomic_load(&scheduler_paused) == 0; i++)
    uv_sleep(1);
  alone = atomic_load(&scheduler_paused) != 0;
  ASSERT(fixture_wait_flag(&f, &scheduler_paused));
  ASSERT_RC(1, atomic_load(&scheduler_paused));
  ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 1));
  fixture_turn(&f);
  wakeups = counts_of(f.s).wakeups;
  for (int i = 0; i < 20; i++)
    uv_run(&f.loop, UV_RUN_NOWAIT);
  ASSERT(counts_of(f.s).wakeups <= wakeups + 2);
  ASSERT(!alone || log_count(&f, EV_AFTER, 'o') == 0);
  ASSERT_RC(0, uvs_resume_all(f.s));
  ASSERT(fixture_wait_log(&f, EV_DONE, 'o', 1));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L28: a shutdown resumes: what is due still runs, and blames the pause. */
TEST a_shutdown_resumes_the_scheduler(void) {
  struct fixture f;

  fixture_init(&f);
  f.options.delayed_after_shutdown = 0;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(10));
  probe_of(&t)->act = act_note_late;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  t = fixture_once(&f, 'b', UVS_MS(100));
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT_RC(0, uvs_pause_all(f.s));
  fixture_advance_ms(&f, 50);
  ASSERT_RC(0, uvs_shutdown(f.s));
  ASSERT_RC(UV_ESHUTDOWN, uvs_pause_all(f.s));
  ASSERT_RC(UV_EALREADY, uvs_resume_all(f.s));
  fixture_turn(&f);
  ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
  ASSERT_RC(UVS_LATE_PAUSED, noted_late.culprit);
  ASSERT_I64(UVS_MS(40), noted_late.paused_ns);
  ASSERT_RC(UV_ECANCELED, done_status(&f, 'b'));
  ASSERT_RC(1, uvs_is_terminated(f.s));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L26 L28 */
TEST a_late_run_after_resume_all_names_the_pause_as_the_culprit(void) {
  struct fixture f;

  CHECK_CALL(fixture_open_turned_anew(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(10));
  probe_of(&t)->act = act_note_late;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT_RC(0, uvs_pause_all(f.s));
  fixture_advance_ms(&f, 40);
  ASSERT_RC(0, uvs_resume_all(f.s));
  fixture_turn(&f);
  ASSERT_RC(UVS_LATE_PAUSED, noted_late.culprit);
  ASSERT_I64(UVS_MS(30), noted_late.paused_ns);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L28 */
TEST value_queues_work_while_the_scheduler_is_paused(void) {
  struct fixture f;
  uvs_queue_t *q;
  uvs_entry_t got;

  CHECK_CALL(fixture_open_turned_anew(&f));
  ASSERT_RC(0, uvs_queue_open(f.s, NULL, &q));
  ASSERT_RC(0, uvs_pause_all(f.s));
  ASSERT_RC(0, uvs_queue_put(q, &f, UVS_MS(10), NULL));
  ASSERT_RC(UV_EAGAIN, uvs_queue_poll(q, &got));
  fixture_advance_ms(&f, 10);
  ASSERT_RC(0, uvs_queue_poll(q, &got));
  ASSERT(got.value == &f);
  ASSERT_RC(0, uvs_queue_close(q));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L28 L29: run now is accepted, and waits. */
TEST an_extra_run_waits_for_resume_all(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(fixture_open_turned_anew(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(100), UVS_MS(100));
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(0, uvs_pause_all(f.s));
  ASSERT_RC(0, uvs_run_now(f.s, id));
  fixture_advance_ms(&f, 10);
  ASSERT_U64(0, log_total(&f));
  ASSERT_RC(0, uvs_resume_all(f.s));
  fixture_turn(&f);
  fixture_advance_ms(&f, 90);
  ASSERT_STR_EQ("10(0) 100", log_runs(&f, EV_WORK, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static _Atomic int started;

static int count_start(uvs_run_t *run) {
  atomic_fetch_add((_Atomic int *)run->arg, 1);
  return 0;
}

/* L28: many runners. When the call has returned, the number of started runs stays the same. */
TEST no_run_starts_on_any_runner_after_pause_all_has_returned(void) {
  struct fixture f;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.real_clock = true;
  f.options.concurrency = 4;
  CHECK_CALL(fixture_open_turned(&f));
  for (int round = 0; round < 50; round++) {
    uvs_task_t t;
    int seen;

    uvs_task_init(&t);
    t.work = count_start;
    t.arg = (void *)&started;
    for (int i = 0; i < 100; i++)
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    uv_run(&f.loop, UV_RUN_NOWAIT);
    ASSERT_RC(0, uvs_pause_all(f.s));
    seen = counts_of(f.s).runs > INT_MAX ? -1 : (int)counts_of(f.s).runs;
    for (int i = 0; i < 5; i++)
      uv_run(&f.loop, UV_RUN_NOWAIT);
    ASSERT_RC(seen, (int)counts_of(f.s).runs); /* a started run may not have reached its body */
    ASSERT_RC(0, uvs_resume_all(f.s));
  }
  while (live_tasks(f.s) > 0)
    uv_run(&f.loop, UV_RUN_ONCE);
  ASSERT_RC(5000, atomic_load(&started));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(pauses_all) {
  RUN_TEST(nothing_starts_while_the_scheduler_is_paused);
  RUN_TEST(ready_tasks_wait_again_when_the_scheduler_is_paused);
  RUN_TEST(a_run_in_progress_finishes_while_the_scheduler_is_paused);
  RUN_TEST(a_loop_task_that_a_runner_found_due_waits_while_the_scheduler_is_paused);
  RUN_TEST(a_shutdown_resumes_the_scheduler);
  RUN_TEST(a_late_run_after_resume_all_names_the_pause_as_the_culprit);
  RUN_TEST(value_queues_work_while_the_scheduler_is_paused);
  RUN_TEST(an_extra_run_waits_for_resume_all);
  RUN_TEST(no_run_starts_on_any_runner_after_pause_all_has_returned);
}

TEST_MAIN(RUN_SUITE(pauses_all));
