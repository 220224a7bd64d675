/* SPDX-License-Identifier: MIT
 *
 * An id names a task of one scheduler only: other schedulers of the process do not know it.
 */
#include "lib/fixture.h"
#include "lib/lanes.h"

static void no_cleanup(uvs_t *s, void *arg) {
  (void)s;
  (void)arg;
}

static enum greatest_test_res is_unknown(uvs_t *s, uvs_id_t id) {
  uvs_info_t info;
  uvs_outcome_t o;

  uvs_info_init(&info);
  uvs_outcome_init(&o);
  ASSERT_RC(UV_ENOENT, uvs_cancel(s, id, UVS_CANCEL_TOKEN));
  ASSERT_RC(UV_ENOENT, uvs_reschedule(s, id, 0));
  ASSERT_RC(UV_ENOENT, uvs_finish(s, id, 0));
  ASSERT_RC(UV_ENOENT, uvs_ref(s, id));
  ASSERT_RC(UV_ENOENT, uvs_unref(s, id));
  ASSERT_RC(UV_ENOENT, uvs_has_ref(s, id));
  ASSERT_RC(UV_ENOENT, uvs_info(s, id, &info));
  ASSERT_RC(UV_ENOENT, uvs_wait(s, id, 0, 0, &o));
  ASSERT_RC(UV_ENOENT, uvs_forget(s, id));
  ASSERT_RC(UV_ENOENT, uvs_add_cleanup(s, id, no_cleanup, NULL, 0));
  PASS();
}

/* A second scheduler on the loop of the fixture. */
static enum greatest_test_res close_second(struct fixture *f, uvs_t *s) {
  ASSERT_RC(0, uvs_close(s, NULL));
  fixture_turn(f);
  PASS();
}

/* L21. Both schedulers have the same history, so slots and generations are equal. */
TEST a_scheduler_does_not_know_the_ids_of_another(void) {
  struct fixture f;
  uvs_id_t id[2];
  uvs_t *s[2];

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  s[0] = f.s;
  ASSERT_RC(0, uvs_open(&f.loop, &f.options, &s[1]));
  fixture_turn(&f);
  for (int i = 0; i < 2; i++) {
    uvs_task_t t = fixture_once(&f, 'a', UVS_HOUR(1));
    t.keep_outcome = 1;
    ASSERT_RC(0, uvs_submit(s[i], &t, &id[i]));
  }
  ASSERT(id[0] != id[1]);
  for (int i = 0; i < 2; i++) {
    CHECK_CALL(is_unknown(s[i], id[1 - i]));
    ASSERT_RC(UVS_WAITING, state_of(s[i], id[i]));
  }
  for (int i = 0; i < 2; i++)
    ASSERT_RC(UVS_CANCELLED, uvs_cancel(s[i], id[i], 0));
  fixture_turn(&f);
  for (int i = 0; i < 2; i++) {
    CHECK_CALL(is_unknown(s[i], id[1 - i])); /* ended, and still not known here */
    ASSERT_RC(0, uvs_add_cleanup(s[i], id[i], no_cleanup, NULL, 0));
  }
  CHECK_CALL(close_second(&f, s[1]));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L21 */
TEST a_lane_does_not_know_the_ids_of_another_scheduler(void) {
  struct fixture f;
  uvs_lane_t lane;
  uvs_id_t id, other;
  uvs_t *s;

  CHECK_CALL(open_with_lane(&f, 1, 1, &lane));
  ASSERT_RC(0, uvs_open(&f.loop, &f.options, &s));
  uvs_task_t t = fixture_once(&f, 'a', UVS_HOUR(1));
  ASSERT_RC(0, uvs_lane_submit(lane, &t, &id));
  ASSERT_RC(0, uvs_submit(s, &t, &other));
  ASSERT_RC(UV_ENOENT, uvs_lane_cancel(lane, other, 0));
  ASSERT_RC(UV_ENOENT, uvs_lane_reschedule(lane, other, 0));
  ASSERT_RC(UV_ENOENT, uvs_lane_finish(lane, other, 0));
  ASSERT_RC(UVS_WAITING, state_of(f.s, id));
  ASSERT_RC(UVS_WAITING, state_of(s, other));
  CHECK_CALL(close_second(&f, s));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L21. The numbers of schedulers come again after 2047; a number that is in use does not. */
TEST no_later_scheduler_has_the_ids_of_one_that_stays_open(void) {
  struct fixture f;
  uvs_id_t id, other;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_HOUR(1));
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  for (int i = 0; i < 2 * 2048; i++) {
    uvs_t *s;

    ASSERT_RC(0, uvs_open(&f.loop, &f.options, &s));
    ASSERT_RC(0, uvs_schedule(s, UVS_HOUR(1), probe_work, NULL, &other));
    ASSERT(other != id);
    ASSERT_RC(UV_ENOENT, uvs_cancel(f.s, other, 0));
    CHECK_CALL(close_second(&f, s));
  }
  ASSERT_RC(UVS_WAITING, state_of(f.s, id));
  log_clear(&f);
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, 0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(ids) {
  RUN_TEST(a_scheduler_does_not_know_the_ids_of_another);
  RUN_TEST(a_lane_does_not_know_the_ids_of_another_scheduler);
  RUN_TEST(no_later_scheduler_has_the_ids_of_one_that_stays_open);
}

TEST_MAIN(RUN_SUITE(ids));
