/* SPDX-License-Identifier: MIT
 *
 * Lanes: which tasks they accept, in which order these run, how many at once, and how lanes share
 * the runners.
 */
#include "lib/bodies.h"
#include "lib/lanes.h"
#include "lib/threads.h"

/* --------------------------------------------------------------------- order --- */

/* R2 R3 R4 */
TEST lane_tasks_run_in_order_of_due_time_and_submission(void) {
  for (int how = 0; how < 8; how++) {
    bool narrow = how % 2 != 0;
    struct fixture f;
    uvs_lane_t lane;

    CHECK_CALL(open_with_lane(&f, how / 2, 1, &lane));
    for (int i = 0; i < 6; i++) {
      static const int delay_ms[] = {30, 0, 20, 0, 10, 0};
      uvs_task_t t = fixture_once(&f, "zaybxc"[i], UVS_MS(delay_ms[i]));

      t.lane = narrow ? 0 : lane;
      ASSERT_RC(0, narrow ? uvs_lane_submit(lane, &t, NULL) : uvs_submit(f.s, &t, NULL));
    }
    fixture_jump_ms(&f, 50);
    ASSERT_STR_EQ("abcxyz", log_string(&f, EV_WORK));
    ASSERT_STR_EQ("abcxyz", log_string(&f, EV_DONE));
    CHECK_CALL(close_idle(&f));
  }
  PASS();
}

/* The first submission runs first, also from another thread. R2 S63 */
TEST a_lane_keeps_the_order_of_submission_across_threads(void) {
  struct fixture f;
  uvs_lane_t lane;

  CHECK_CALL(open_with_lane(&f, 3, 1, &lane));
  for (int i = 0; i < 12; i++) {
    uvs_task_t t = in_lane(fixture_once(&f, 'a' + i, 0), lane);

    ASSERT_RC(0, i % 3 == 0 ? submit_elsewhere(f.s, t, NULL) : uvs_submit(f.s, &t, NULL));
  }
  fixture_turn(&f);
  ASSERT_STR_EQ("abcdefghijkl", log_string(&f, EV_WORK));
  CHECK_CALL(close_idle(&f));
  PASS();
}

/* R9 R31: immediate, delayed, both periodic kinds, and wall-clock tasks. */
TEST every_kind_of_task_runs_in_a_lane_and_sees_its_own_time(void) {
  for (int concurrency = 0; concurrency < 3; concurrency++) {
    struct fixture f;
    uvs_lane_t lane;
    uvs_id_t rate, delay;

    CHECK_CALL(open_with_lane(&f, concurrency, 1, &lane));
    uvs_task_t n = in_lane(fixture_once(&f, 'n', 0), lane),
               d = in_lane(fixture_once(&f, 'd', UVS_MS(15)), lane),
               r = in_lane(fixture_rate(&f, 'r', UVS_MS(10), UVS_MS(10)), lane),
               y = in_lane(fixture_delay(&f, 'y', UVS_MS(10), UVS_MS(10)), lane),
               w = in_lane(fixture_once(&f, 'w', VCLOCK_WALL_NS + UVS_MS(25)), lane);
    w.from = UVS_FROM_WALL;
    ASSERT_RC(0, uvs_lane_submit(lane, &r, &rate));
    ASSERT_RC(0, uvs_submit(f.s, &y, &delay));
    ASSERT_RC(0, uvs_submit(f.s, &w, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &d, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &n, NULL));
    ASSERT_STR_EQ("", log_string(&f, EV_WORK));
    fixture_advance_ms(&f, 35);
    ASSERT_STR_EQ("nrydrywry", log_string(&f, EV_WORK));
    ASSERT_STR_EQ("10 20 30", log_runs(&f, EV_WORK, 'r'));
    ASSERT_STR_EQ("10 20 30", log_runs(&f, EV_WORK, 'y'));
    ASSERT_STR_EQ("15", log_runs(&f, EV_WORK, 'd'));
    ASSERT_I64(UVS_MS(25), log_nth(&f, EV_WORK, 'w', 0)->start_ns - VCLOCK_START_NS);
    ASSERT_STR_EQ("ndw", log_string(&f, EV_DONE));
    ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, rate, 0));
    ASSERT_RC(UVS_CANCELLED, uvs_lane_cancel(lane, delay, 0));
    ASSERT_RC(UV_ENOENT, uvs_cancel(f.s, rate, 0)); /* it shows disposed */
    fixture_advance_ms(&f, 100);
    ASSERT_STR_EQ("ndwry", log_string(&f, EV_DONE));
    CHECK_CALL(close_idle(&f));
  }
  PASS();
}

/* R30: the wall clock is set back and forth. The period does not change. */
TEST a_periodic_task_keeps_its_period_whatever_the_wall_clock_does(void) {
  struct fixture f;
  uvs_lane_t lane;

  CHECK_CALL(open_with_lane(&f, 2, 1, &lane));
  uvs_task_t r = in_lane(fixture_rate(&f, 'r', UVS_MS(10), UVS_MS(10)), lane),
             y = in_lane(fixture_delay(&f, 'y', UVS_MS(10), UVS_MS(10)), lane);
  ASSERT_RC(0, uvs_submit(f.s, &r, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &y, NULL));
  for (int i = 0; i < 4; i++) {
    fixture_advance_ms(&f, 15);
    vclock_step_wall(&f.clock, i % 2 == 0 ? UVS_HOUR(1) : -UVS_DAY(1));
    ASSERT_RC(0, uvs_clock_changed(f.s));
    fixture_turn(&f);
  }
  ASSERT_STR_EQ("10 20 30 40 50 60", log_runs(&f, EV_WORK, 'r'));
  ASSERT_STR_EQ("10 20 30 40 50 60", log_runs(&f, EV_WORK, 'y'));
  CHECK_CALL(close_idle(&f));
  PASS();
}

/* A body submits to its own lane: on the pool, on the loop, and on a loop that acts as the pool. */
static int act_nests(struct probe *p, uvs_run_t *run) {
  struct fixture *f = p->f;
  uvs_task_t t;

  (void)run;
  if (p->tag < 'f') {
    t = in_lane(fixture_once(f, p->tag + 1, 0), *(uvs_lane_t *)p->data);
    *probe_of(&t) = *p;
    probe_of(&t)->tag = p->tag + 1;
    t.done = NULL;
    p->ret = p->tag % 2 == 0 ? uvs_submit(f->s, &t, NULL) : submit_elsewhere(f->s, t, NULL);
  }
  log_add(f, EV_USER, p->tag, 0, 0); /* its end */
  return p->ret;
}

/* R1 */
TEST a_task_submitted_by_a_body_to_its_lane_starts_after_the_body(void) {
  for (int how = 0; how < 8; how++) {
    struct fixture f;
    uvs_lane_t lane;

    fixture_init(&f);
    f.pool = how % 2 == 0 ? FAKEPOOL_STEPPED : FAKEPOOL_INLINE;
    f.options.concurrency = how / 2;
    CHECK_CALL(fixture_open_turned(&f));
    CHECK_CALL(open_lane(&f, 1, &lane));
    uvs_task_t t = in_lane(fixture_once(&f, 'a', 0), lane);
    t.done = NULL;
    probe_of(&t)->act = act_nests;
    probe_of(&t)->data = &lane;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_turn(&f);
    ASSERT_STR_EQ("aabbccddeeff", log_string(&f, (enum event_kind)0)); /* start and end */
    CHECK_CALL(close_idle(&f));
  }
  PASS();
}

static int act_goes_on(struct probe *p, uvs_run_t *run) {
  uvs_task_t t = *(uvs_task_t *)p->data;

  (void)run;
  if (p->id++ < 99)
    p->ret = uvs_lane_submit(t.lane, &t, NULL);
  return p->ret;
}

/* R5 R10 */
TEST a_lane_task_that_resubmits_itself_a_hundred_times_runs_a_hundred_times(void) {
  for (int how = 0; how < 6; how++) {
    struct fixture f;
    uvs_lane_t lane;
    uvs_task_t t;

    CHECK_CALL(open_with_lane(&f, how / 2, 1, &lane));
    t = in_lane(fixture_once(&f, 'a', how % 2 == 0 ? 0 : UVS_MS(3)), lane);
    probe_of(&t)->act = act_goes_on;
    probe_of(&t)->data = &t;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_advance_ms(&f, 1000);
    ASSERT_U64(100, log_count(&f, EV_WORK, 'a'));
    ASSERT_U64(100, log_count(&f, EV_DONE, 'a'));
    CHECK_CALL(close_idle(&f));
  }
  PASS();
}

/* ------------------------------------------------------------------- fairness --- */

static int act_submits_b(struct probe *p, uvs_run_t *run) {
  uvs_task_t *t = p->data;

  (void)run;
  return uvs_submit(p->f->s, t, NULL);
}

/* R8 */
TEST lanes_on_one_runner_alternate_task_by_task(void) {
  for (int concurrency = 0; concurrency < 2; concurrency++) {
    struct fixture f;
    uvs_lane_t a, b, c;

    CHECK_CALL(open_with_lane(&f, concurrency, 1, &a));
    CHECK_CALL(open_lane(&f, 1, &b));
    CHECK_CALL(open_lane(&f, 4, &c));
    for (int i = 0; i < 4; i++)
      CHECK_CALL(submit(&f, a, 'a', 0));
    for (int i = 0; i < 4; i++)
      CHECK_CALL(submit(&f, b, 'b', 0));
    for (int i = 0; i < 4; i++)
      CHECK_CALL(submit(&f, c, 'c', 0));
    fixture_turn(&f);
    ASSERT_STR_EQ("abcabcabcabc", log_string(&f, EV_WORK));
    CHECK_CALL(close_idle(&f));
  }
  PASS();
}

/* A lane with many ready tasks delays a later task of another lane by at most one more of its
 * tasks, however wide it is. R8 */
TEST a_new_task_waits_for_at_most_one_more_task_of_a_busy_lane(void) {
  for (uint32_t width = 0; width < 3; width++) {
    struct fixture f;
    uvs_lane_t a, b;

    CHECK_CALL(open_with_lane(&f, 1, width, &a));
    CHECK_CALL(open_lane(&f, 1, &b));
    uvs_task_t late = in_lane(fixture_once(&f, 'B', 0), b);
    for (int i = 0; i < 40; i++) {
      uvs_task_t t = in_lane(fixture_once(&f, 'a', 0), a);

      if (i == 5) {
        probe_of(&t)->act = act_submits_b;
        probe_of(&t)->data = &late;
      }
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    }
    /* If the runner leaves after each body, the loop takes the task from the inbox during the
     * sixth. */
    inspect_set_budget_ns(f.s, 1);
    probe_of(&late)->takes_ns = 1;
    for (unsigned i = 0; i < PROBES && i < f.probe_count; i++)
      f.probes[i].takes_ns = 1;
    fixture_turn(&f);
    const char *order = log_string(&f, EV_WORK);
    ASSERT_U64(41, strlen(order));
    ASSERT(strchr(order, 'B') - order <= 7);
    CHECK_CALL(close_idle(&f));
  }
  PASS();
}

/* A lane has one of its tasks among the ready ones, however wide it is. R8 */
TEST each_task_without_a_lane_counts_as_its_own_lane(void) {
  struct fixture f;
  uvs_lane_t a;

  CHECK_CALL(open_with_lane(&f, 1, 0, &a));
  for (int i = 0; i < 3; i++)
    CHECK_CALL(submit(&f, a, 'a', 0));
  for (int i = 0; i < 3; i++)
    CHECK_CALL(submit(&f, 0, 'x', 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("axxxaa", log_string(&f, EV_WORK));
  CHECK_CALL(close_idle(&f));
  PASS();
}

/* ---------------------------------------------------------------------- width --- */

static enum greatest_test_res submit_gated(struct fixture *f, uvs_lane_t lane, int tag) {
  uvs_task_t t = in_lane(fixture_once(f, tag, 0), lane);

  probe_of(&t)->act = gate_pass;
  ASSERT_RC(0, uvs_submit(f->s, &t, NULL));
  PASS();
}

/* R7: on libuv's pool, where one of the four threads stays free. */
TEST exactly_the_lanes_width_of_bodies_run_at_once(void) {
  static const uint32_t widths[] = {1, 2, 3, 0, UVS_LANE_WIDTH_MAX};

  for (unsigned w = 0; w < sizeof widths / sizeof widths[0]; w++) {
    int most = widths[w] == 0 || widths[w] > 3 ? 3 : (int)widths[w];
    static struct fixture f;
    uvs_lane_t lane;

    gate_init(false);
    CHECK_CALL(open_real(&f, 3, widths[w], &lane));
    for (int i = 0; i < 9; i++)
      CHECK_CALL(submit_gated(&f, lane, 'a' + i));
    ASSERT(gate_wait(&f, most));
    for (int i = 0; i < 3; i++) { /* it fills up again and again, and never more */
      fixture_turn(&f);
      ASSERT_RC(most, gate_inside());
      uvs_counts_t c = counts_of(f.s);
      ASSERT(adds_up(&c));
      ASSERT_U64(most, c.running);
      gate_let(1);
      ASSERT(fixture_wait_log(&f, EV_WORK, 0, (unsigned)(most + i + 1)));
      ASSERT(gate_wait(&f, most));
    }
    gate_let(9);
    ASSERT(fixture_wait_log(&f, EV_DONE, 0, 9));
    ASSERT_RC(most, gate_peak());
    if (most == 1)
      ASSERT_STR_EQ("abcdefghi", log_string(&f, EV_WORK));
    ASSERT_U64(most, counts_of(f.s).peak_runners);
    while (fakepool_pending() > 0)
      fixture_turn(&f);
    CHECK_CALL(close_idle(&f));
  }
  PASS();
}

/* Several lanes of width 1 do not block each other. */
TEST lanes_of_width_1_do_not_block_each_other(void) {
  static struct fixture f;
  uvs_lane_t lane[3];

  gate_init(false);
  CHECK_CALL(open_real(&f, 3, 1, &lane[0]));
  CHECK_CALL(open_lane(&f, 1, &lane[1]));
  CHECK_CALL(open_lane(&f, 1, &lane[2]));
  for (int i = 0; i < 9; i++)
    CHECK_CALL(submit_gated(&f, lane[i / 3], 'a' + i));
  ASSERT(gate_wait(&f, 3));
  for (int i = 0; i < 3; i++)
    ASSERT_U64(1, log_count(&f, EV_WORK, "adg"[i]));
  gate_let(9);
  ASSERT(fixture_wait_log(&f, EV_DONE, 0, 9));
  while (fakepool_pending() > 0)
    fixture_turn(&f);
  CHECK_CALL(close_idle(&f));
  PASS();
}

SUITE(lane) {
  RUN_TEST(lane_tasks_run_in_order_of_due_time_and_submission);
  RUN_TEST(a_lane_keeps_the_order_of_submission_across_threads);
  RUN_TEST(every_kind_of_task_runs_in_a_lane_and_sees_its_own_time);
  RUN_TEST(a_periodic_task_keeps_its_period_whatever_the_wall_clock_does);
  RUN_TEST(a_task_submitted_by_a_body_to_its_lane_starts_after_the_body);
  RUN_TEST(a_lane_task_that_resubmits_itself_a_hundred_times_runs_a_hundred_times);
  RUN_TEST(lanes_on_one_runner_alternate_task_by_task);
  RUN_TEST(a_new_task_waits_for_at_most_one_more_task_of_a_busy_lane);
  RUN_TEST(each_task_without_a_lane_counts_as_its_own_lane);
  RUN_TEST(exactly_the_lanes_width_of_bodies_run_at_once);
  RUN_TEST(lanes_of_width_1_do_not_block_each_other);
}

TEST_MAIN(RUN_SUITE(lane));
