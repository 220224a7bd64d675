/* SPDX-License-Identifier: MIT
 *
 * A lane task that resubmits itself a million times. A program of its own, because it is linked
 * with a library that does not check its invariant at each unlock: that would take half a minute.
 * test_lane.c does the same with a hundred runs and checks.
 */
#include "uvsched/lane.h"

#include "lib/fixture.h"

struct hopper {
  uvs_lane_t lane;
  uint64_t hops, most;
  int rc;
};

static int hop(uvs_run_t *run) {
  struct hopper *h = run->arg;
  uvs_task_t t;

  if (++h->hops == h->most)
    return 0;
  uvs_task_init(&t);
  t.work = hop;
  t.arg = h;
  h->rc |= uvs_lane_submit(h->lane, &t, NULL);
  return 0;
}

/* R6: a million resubmissions, with the memory of a few tasks. */
TEST a_million_self_resubmits_use_constant_stack_and_memory(void) {
  struct hopper h = {0, 0, 1000000, 0};
  struct fixture f;
  uint64_t slots;
  long bytes;

  fixture_init(&f);
  f.pool = FAKEPOOL_INLINE;
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open_turned(&f));
  ASSERT_RC(0, uvs_lane_open(f.s, NULL, &h.lane));
  uvs_run_t first = {.arg = &h};
  h.hops--; /* this is not one */
  hop(&first);
  for (int i = 0; i < 100; i++)
    uv_run(&f.loop, UV_RUN_NOWAIT);
  slots = counts_of(f.s).slots;
  bytes = atomic_load(&f.fault.live_bytes);
  ASSERT(h.hops > 10);
  for (uint64_t turns = 0; turns < 4 * h.most && h.hops < h.most; turns++) /* each is one hop */
    uv_run(&f.loop, UV_RUN_NOWAIT);
  fixture_turn(&f);
  ASSERT_U64(h.most, h.hops);
  ASSERT_RC(0, h.rc);
  ASSERT_U64(slots, counts_of(f.s).slots);
  ASSERT_I64(bytes, atomic_load(&f.fault.live_bytes));
  ASSERT_U64(h.most, counts_of(f.s).completed);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(lane_million) {
  RUN_TEST(a_million_self_resubmits_use_constant_stack_and_memory);
}

TEST_MAIN(RUN_SUITE(lane_million));
