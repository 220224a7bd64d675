/* SPDX-License-Identifier: MIT
 *
 * Lanes, for programs with the fixture that can include headers of src/.
 */
#ifndef TEST_LANES_H
#define TEST_LANES_H

#include "uvsched/lane.h"

#include "fixture.h"
#include "inspect.h"

/* For uvs_lane_options_t: logs EV_USER 'q' with the lane as id. Its arg is the fixture. */
static inline void logs_quiet(uvs_t *s, uvs_lane_t lane, void *arg) {
  struct fixture *f = arg;

  log_add(f, EV_USER, 'q', lane, s == f->s ? 0 : UV_EINVAL);
}

static inline enum greatest_test_res open_lane(struct fixture *f, uint32_t width, uvs_lane_t *ret) {
  uvs_lane_options_t o;

  uvs_lane_options_init(&o);
  ASSERT_U64(1, o.width);
  o.width = width;
  o.on_quiet = logs_quiet;
  o.arg = f;
  ASSERT_RC(0, uvs_lane_open(f->s, &o, ret));
  PASS();
}

/* Opens a fixture whose loop has run once, with one lane. */
static inline enum greatest_test_res open_with_lane(struct fixture *f, int concurrency,
                                                    uint32_t width, uvs_lane_t *ret) {
  fixture_init(f);
  f->options.concurrency = concurrency;
  CHECK_CALL(fixture_open_turned(f));
  CHECK_CALL(open_lane(f, width, ret));
  PASS();
}

/* The same with libuv's own pool. */
static inline enum greatest_test_res open_real(struct fixture *f, int concurrency, uint32_t width,
                                               uvs_lane_t *ret) {
  fixture_init(f);
  f->pool = FAKEPOOL_REAL;
  f->options.concurrency = concurrency;
  CHECK_CALL(fixture_open_turned(f));
  CHECK_CALL(open_lane(f, width, ret));
  PASS();
}

static inline uvs_task_t in_lane(uvs_task_t t, uvs_lane_t lane) {
  t.lane = lane;
  return t;
}

static inline enum greatest_test_res submit(struct fixture *f, uvs_lane_t lane, int tag,
                                            int64_t delay_ns) {
  uvs_task_t t = in_lane(fixture_once(f, tag, delay_ns), lane);

  ASSERT_RC(0, uvs_submit(f->s, &t, NULL));
  PASS();
}

static inline enum greatest_test_res submit_loop_task(struct fixture *f, uvs_lane_t lane, int tag) {
  uvs_task_t t = in_lane(fixture_loop_task(f, tag, 0), lane);

  ASSERT_RC(0, uvs_submit(f->s, &t, NULL));
  PASS();
}

/* No task is ready or running, and the internal counts agree. */
static inline enum greatest_test_res pool_is_idle(struct fixture *f) {
  uvs_counts_t c = counts_of(f->s);

  ASSERT(adds_up(&c));
  ASSERT_U64(0, c.ready + c.running + c.runners);
  ASSERT_U64(0, inspect_runners_out(f->s));
  ASSERT(inspect_idle(f->s));
  PASS();
}

/* Closes a fixture that may still have open lanes. */
static inline enum greatest_test_res close_idle(struct fixture *f) {
  CHECK_CALL(pool_is_idle(f));
  CHECK_CALL(fixture_close(f));
  PASS();
}

#endif
