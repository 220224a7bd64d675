/* SPDX-License-Identifier: MIT
 *
 * Lanes: order, width, fairness, and the end of a lane.
 */
#include "uvsched/lane.h"

#include "scheduler.h"

#include "lib/bodies.h"
#include "lib/fixture.h"
#include "lib/threads.h"

static void probe_quiet(uvs_t *s, uvs_lane_t lane, void *arg) {
  (void)s;
  log_add(arg, EV_USER, 'q', lane, 0);
}

static enum greatest_test_res open_lane(struct fixture *f, uint32_t width, uvs_lane_t *ret) {
  uvs_lane_options_t o;

  uvs_lane_options_init(&o);
  o.width = width;
  o.quiet = probe_quiet;
  o.arg = f;
  ASSERT_RC(0, uvs_lane_open(f->s, &o, ret));
  PASS();
}

static enum greatest_test_res open_with_lane(struct fixture *f, int concurrency, uint32_t width,
                                             uvs_lane_t *ret) {
  fixture_init(f);
  f->options.concurrency = concurrency;
  CHECK_CALL(fixture_open_turned(f));
  CHECK_CALL(open_lane(f, width, ret));
  PASS();
}

static enum greatest_test_res submit(struct fixture *f, uvs_lane_t lane, int tag,
                                     int64_t delay_ns) {
  uvs_task_t t = fixture_once(f, tag, delay_ns);

  t.lane = lane;
  ASSERT_RC(0, uvs_submit(f->s, &t, NULL));
  PASS();
}

/* R2 R3 R4 */
TEST tasks_run_in_order_of_submission_and_then_of_due_time(void) {
  for (int concurrency = 0; concurrency < 4; concurrency++) {
    struct fixture f;
    uvs_lane_t lane;

    CHECK_CALL(open_with_lane(&f, concurrency, 1, &lane));
    CHECK_CALL(submit(&f, lane, 'z', UVS_MS(30)));
    CHECK_CALL(submit(&f, lane, 'a', 0));
    CHECK_CALL(submit(&f, lane, 'y', UVS_MS(20)));
    CHECK_CALL(submit(&f, lane, 'b', 0));
    CHECK_CALL(submit(&f, lane, 'x', UVS_MS(10)));
    CHECK_CALL(submit(&f, lane, 'c', 0));
    fixture_jump_ms(&f, 50);
    ASSERT_STR_EQ("abcxyz", log_string(&f, EV_WORK));
    ASSERT_STR_EQ("abcxyz", log_string(&f, EV_DONE));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* R8 */
TEST lanes_share_one_runner_task_by_task(void) {
  struct fixture f;
  uvs_lane_t a, b;

  CHECK_CALL(open_with_lane(&f, 1, 1, &a));
  CHECK_CALL(open_lane(&f, 1, &b));
  for (int i = 0; i < 4; i++)
    CHECK_CALL(submit(&f, a, 'a', 0));
  for (int i = 0; i < 4; i++)
    CHECK_CALL(submit(&f, b, 'b', 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("abababab", log_string(&f, EV_WORK));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* R15 R17 R18 R19 R35 */
TEST disposing_cancels_everything_and_then_it_is_quiet(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    struct fixture f;
    uvs_lane_t lane;

    CHECK_CALL(open_with_lane(&f, 2, 1, &lane));
    fakepool_hold();
    CHECK_CALL(submit(&f, lane, 'a', 0));
    CHECK_CALL(submit(&f, lane, 'b', 0));
    CHECK_CALL(submit(&f, lane, 'c', UVS_DAY(1)));
    fixture_turn(&f);
    ASSERT_RC(0, uvs_lane_is_disposed(lane));
    ASSERT_RC(0, uvs_lane_dispose(lane, 0));
    ASSERT_RC(1, uvs_lane_is_disposed(lane));
    ASSERT_RC(0, uvs_lane_dispose(lane, 0));
    uvs_task_t t = fixture_once(&f, 'd', 0);
    t.lane = lane;
    ASSERT_RC(UV_ECANCELED, uvs_submit(f.s, &t, NULL));
    ASSERT_RC(UV_ECANCELED, uvs_lane_submit(lane, &t, NULL));
    fakepool_release();
    fixture_turn(&f);
    ASSERT_STR_EQ("", log_string(&f, EV_WORK));
    ASSERT_STR_EQ("abc", log_string(&f, EV_DONE));
    ASSERT_STR_EQ("q", log_string(&f, EV_USER));
    ASSERT_RC(1, uvs_lane_is_disposed(lane));
    ASSERT_RC(UV_ECANCELED, uvs_lane_submit(lane, &t, NULL));
    ASSERT_RC(0, uvs_lane_dispose(lane, 0));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static void probe_cleanup(uvs_t *s, void *arg) {
  struct probe *p = arg;

  (void)s;
  log_add(p->f, EV_USER, p->tag, 0, 0);
}

/* F12b R32 R33 */
TEST clean_ups_run_once_in_order_before_done(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', 0), other = fixture_once(&f, 'x', 0),
             third = fixture_once(&f, 'y', 0);
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(0, uvs_add_cleanup(f.s, id, probe_cleanup, other.arg, 0));
  ASSERT_RC(0, uvs_add_cleanup(f.s, id, probe_cleanup, third.arg, 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("axya", log_string(&f, 0));
  ASSERT_RC(0, uvs_add_cleanup(f.s, id, probe_cleanup, third.arg, 0));
  ASSERT_STR_EQ("axya", log_string(&f, 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("axyay", log_string(&f, 0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(lane) {
  RUN_TEST(tasks_run_in_order_of_submission_and_then_of_due_time);
  RUN_TEST(lanes_share_one_runner_task_by_task);
  RUN_TEST(disposing_cancels_everything_and_then_it_is_quiet);
  RUN_TEST(clean_ups_run_once_in_order_before_done);
}

TEST_MAIN(RUN_SUITE(lane));
