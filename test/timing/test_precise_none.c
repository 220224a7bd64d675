/* SPDX-License-Identifier: MIT
 *
 * The option precise_ns on a system without timerfd: this program is linked with that system's
 * source file instead.
 */
#include "lib/unit.h"

/* L10 */
TEST without_timerfd_support_open_refuses_precise_ns(void) {
  struct fault fault;
  uvs_options_t o;
  uv_loop_t loop;
  uvs_t *s = NULL;

  fault_init(&fault);
  ASSERT_RC(0, uv_loop_init(&loop));
  uvs_options_init(&o);
  o.allocator = fault_option(&fault);
  o.precise_ns = 1;
  ASSERT_RC(UV_ENOTSUP, uvs_open(&loop, &o, &s));
  ASSERT_EQ(NULL, s);
  ASSERT_EQ_FMT(0L, atomic_load(&fault.live), "%ld");
  o.precise_ns = 0;
  ASSERT_RC(0, uvs_open(&loop, &o, &s));
  ASSERT_RC(0, uvs_close(s, NULL));
  uv_run(&loop, UV_RUN_DEFAULT);
  ASSERT_EQ_FMT(0L, atomic_load(&fault.live), "%ld");
  ASSERT_RC(0, uv_loop_close(&loop));
  PASS();
}

SUITE(precise_none) {
  RUN_TEST(without_timerfd_support_open_refuses_precise_ns);
}

TEST_MAIN(RUN_SUITE(precise_none));
