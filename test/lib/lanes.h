/* SPDX-License-Identifier: MIT
 *
 * Lanes for programs with the fixture and with src/ in sight.
 */
#ifndef TEST_LANES_H
#define TEST_LANES_H

#include "uvsched/lane.h"

#include "scheduler.h"

#include "fixture.h"

/* For uvs_lane_options_t: logs EV_USER 'q' with the lane as id. The arg is the fixture. */
static inline void logs_quiet(uvs_t *s, uvs_lane_t lane, void *arg) {
  struct fixture *f = arg;

  log_add(f, EV_USER, 'q', lane, s == f->s ? 0 : UV_EINVAL);
}

static inline enum greatest_test_res open_lane(struct fixture *f, uint32_t width, uvs_lane_t *ret) {
  uvs_lane_options_t o;

  uvs_lane_options_init(&o);
  ASSERT_U64(1, o.width);
  o.width = width;
  o.quiet = logs_quiet;
  o.arg = f;
  ASSERT_RC(0, uvs_lane_open(f->s, &o, ret));
  PASS();
}

/* A fixture whose loop has turned, with one lane. */
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

/* Nothing is ready or runs, and every count inside says so. */
static inline enum greatest_test_res pool_is_idle(struct fixture *f) {
  struct uvs__pool *p = &f->s->pool;
  uvs_counts_t c = counts_of(f->s);

  ASSERT(adds_up(&c));
  ASSERT_U64(0, c.ready + c.running + c.runners);
  ASSERT_U64(c.waiting, (uint32_t)(atomic_load(&p->load) + atomic_load(&f->s->own.load)));
  uv_mutex_lock(&p->lock);
  uint32_t home = p->home.startable | p->home.seeking | p->home.active | p->home.out;
  uint32_t ready = p->home.ready.count | p->due.count;
  uint64_t counts = p->ready_count[0] | p->ready_count[1] | p->running_count;
  for (struct uvs__lane *lane = f->s->lanes.all; lane != NULL; lane = lane->next)
    ready |= lane->turns.running | lane->turns.ready | lane->turns.promised;
  uv_mutex_unlock(&p->lock);
  ASSERT_U64(0, home);
  ASSERT_U64(0, ready);
  ASSERT_U64(0, counts);
  PASS();
}

static inline unsigned lanes_of(struct fixture *f) {
  unsigned n = 0;

  uv_mutex_lock(&f->s->pool.lock);
  for (struct uvs__lane *lane = f->s->lanes.all; lane != NULL; lane = lane->next)
    n++;
  uv_mutex_unlock(&f->s->pool.lock);
  return n;
}

/* So many lanes are left, none of them about to go. */
static inline enum greatest_test_res lanes_left(struct fixture *f, unsigned n) {
  ASSERT_U64(n, lanes_of(f));
  ASSERT(f->s->lanes.ending == NULL);
  ASSERT(atomic_load(&f->s->lanes.look) == NULL);
  PASS();
}

/* With the lanes that are still open. */
static inline enum greatest_test_res close_idle(struct fixture *f) {
  CHECK_CALL(pool_is_idle(f));
  CHECK_CALL(fixture_close(f));
  PASS();
}

#endif
