/* SPDX-License-Identifier: MIT
 *
 * The two time limits of a run: limit.run_ns counts from its start, limit.total_ns from when it is
 * ready. The nearer one counts.
 */
#include "lib/fixture.h"
#include "lib/lanes.h"

static uvs_task_t pending_task(struct fixture *f, int tag, int64_t run_ms, int64_t total_ms) {
  uvs_task_t t = fixture_once(f, tag, 0);

  t.limit.run_ns = UVS_MS(run_ms);
  t.limit.total_ns = UVS_MS(total_ms);
  probe_of(&t)->ret = UVS_PENDING; /* the loop goes on, and finds the limit */
  return t;
}

/* J5 J7. A lane of width 1 and 20 tasks of 20 ms: the last one waits for 380 ms. */
TEST waiting_for_the_lane_counts_for_the_whole_limit_only(void) {
  for (int whole = 0; whole < 2; whole++) {
    unsigned timed_out = 0;
    struct fixture f;
    uvs_lane_t lane;

    CHECK_CALL(open_with_lane(&f, 4, 1, &lane));
    for (int i = 0; i < 20; i++) {
      uvs_task_t t = in_lane(fixture_once(&f, 'a' + i, 0), lane);

      *(whole ? &t.limit.total_ns : &t.limit.run_ns) = UVS_MS(100);
      probe_of(&t)->takes_ns = UVS_MS(20);
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    }
    fixture_advance_ms(&f, 1000);
    for (int i = 0; i < 20; i++)
      timed_out += done_status(&f, 'a' + i) == UV_ETIMEDOUT;
    ASSERT_U64(whole ? 16 : 0, timed_out); /* four end before 100 ms, the fifth at 100 ms */
    ASSERT_U64(timed_out, counts_of(f.s).timed_out);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* J5 F5. The body is pending, so it is the loop that must wake up at the limit. */
TEST the_limit_of_a_run_ends_it_counted_from_its_start(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = pending_task(&f, 'a', 30, 0);
  t.first_ns = UVS_MS(5);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ms(&f, 5);
  ASSERT_I64(35, fixture_next_ms(&f));
  fixture_advance_ns(&f, UVS_MS(30) - 1);
  ASSERT_U64(0, counts_of(f.s).timed_out);
  fixture_advance_ns(&f, 1);
  ASSERT_U64(1, counts_of(f.s).timed_out);
  ASSERT_RC(UV_ENOENT, uvs_cancel(f.s, log_nth(&f, EV_WORK, 'a', 0)->id, 0));
  ASSERT_RC(0, uvs_finish(f.s, log_nth(&f, EV_WORK, 'a', 0)->id, 0));
  fixture_turn(&f);
  ASSERT_RC(UV_ETIMEDOUT, done_status(&f, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* J5 */
TEST the_nearer_of_two_limits_counts(void) {
  static const struct {
    int64_t run_ms, total_ms, late_ms;
  } cases[] = {{30, 50, 30}, {50, 30, 30}, {30, 30, 30}};

  for (int i = 0; i < 3; i++) {
    struct fixture f;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = pending_task(&f, 'a', cases[i].run_ms, cases[i].total_ms);
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_turn(&f);
    ASSERT_I64(cases[i].late_ms, fixture_next_ms(&f));
    fixture_advance_ms(&f, cases[i].late_ms);
    ASSERT_U64(1, counts_of(f.s).timed_out);
    ASSERT_I64(-1, fixture_next_ms(&f)); /* the other limit is gone */
    ASSERT_RC(0, uvs_finish(f.s, log_nth(&f, EV_WORK, 'a', 0)->id, 0));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static int note_cancelled(struct probe *p, uvs_run_t *run) {
  log_add(p->f, EV_USER, p->tag, run->id, uvs_cancelled(run));
  return 0;
}

/* J5 S66. Each run of a periodic task has its own limit. */
TEST each_run_of_a_periodic_task_has_the_limit_from_its_own_start(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_MS(10));
  t.limit.run_ns = UVS_MS(25);
  t.failure_policy = UVS_FAIL_CONTINUE;
  t.max_runs = 3;
  probe_of(&t)->takes_ns = UVS_MS(20); /* later runs are ready long before they start */
  probe_of(&t)->act = note_cancelled;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ms(&f, 200);
  ASSERT_U64(3, log_count(&f, EV_WORK, 'a'));
  ASSERT_RC(0, done_status(&f, 'a'));
  for (unsigned i = 0; i < 3; i++)
    ASSERT_RC(0, log_nth(&f, EV_USER, 'a', i)->status);
  ASSERT_U64(0, counts_of(f.s).failed_runs);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* J5. At the limit of a run its token is raised, and the body ends as timed out. */
TEST a_body_sees_the_limit_of_its_run(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  t.limit.run_ns = UVS_MS(10);
  probe_of(&t)->takes_ns = UVS_MS(10);
  probe_of(&t)->act = note_cancelled;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  ASSERT_RC(1, log_nth(&f, EV_USER, 'a', 0)->status);
  ASSERT_RC(UV_ETIMEDOUT, done_status(&f, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(limit_start) {
  RUN_TEST(waiting_for_the_lane_counts_for_the_whole_limit_only);
  RUN_TEST(the_limit_of_a_run_ends_it_counted_from_its_start);
  RUN_TEST(the_nearer_of_two_limits_counts);
  RUN_TEST(each_run_of_a_periodic_task_has_the_limit_from_its_own_start);
  RUN_TEST(a_body_sees_the_limit_of_its_run);
}

TEST_MAIN(RUN_SUITE(limit_start));
