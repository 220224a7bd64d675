/* SPDX-License-Identifier: MIT
 *
 * Monotonic and wall time, from the system or from a replaced clock.
 */
#include "port/clock.h"

#include <time.h>

#include "lib/unit.h"
#include "lib/vclock.h"

TEST the_system_clocks_advance_in_nanoseconds(void) {
  uvs_clock_t c = {NULL, NULL, NULL};
  uint64_t before_ns = uv_hrtime(), now_ns = uvs__clock_now(&c), wall_ns = uvs__clock_wall(&c);
  uint64_t seconds = (uint64_t)time(NULL);

  ASSERT(!uvs__clock_replaced(&c));
  ASSERT(now_ns >= before_ns);
  ASSERT(now_ns <= uv_hrtime());
  /* A minute of tolerance: somebody may set the clock just now. */
  ASSERT(wall_ns / 1000000000 <= seconds + 60);
  ASSERT(wall_ns / 1000000000 + 60 >= seconds);
  PASS();
}

TEST a_replaced_clock_is_used_for_both_times(void) {
  struct vclock v;
  uvs_clock_t c;

  vclock_init(&v);
  c = vclock_option(&v);
  ASSERT(uvs__clock_replaced(&c));
  ASSERT_U64(VCLOCK_START_NS, uvs__clock_now(&c));
  ASSERT_U64(VCLOCK_WALL_NS, uvs__clock_wall(&c));
  vclock_advance_ns(&v, 5);
  vclock_step_wall(&v, 100);
  ASSERT_U64(VCLOCK_START_NS + 5, uvs__clock_now(&c));
  ASSERT_U64(VCLOCK_WALL_NS + 105, uvs__clock_wall(&c));
  PASS();
}

static int64_t answer(void *arg) {
  return *(int64_t *)arg;
}

TEST a_negative_time_of_a_replaced_clock_counts_as_zero(void) {
  int64_t ns = -1;
  uvs_clock_t c = {answer, answer, &ns};

  ASSERT_U64(0, uvs__clock_now(&c));
  ASSERT_U64(0, uvs__clock_wall(&c));
  ns = INT64_MIN;
  ASSERT_U64(0, uvs__clock_now(&c));
  ASSERT_U64(0, uvs__clock_wall(&c));
  ns = INT64_MAX;
  ASSERT_U64(UVS__NEVER, uvs__clock_now(&c));
  ASSERT_U64(UVS__NEVER, uvs__clock_wall(&c));
  PASS();
}

SUITE(clocks) {
  RUN_TEST(the_system_clocks_advance_in_nanoseconds);
  RUN_TEST(a_replaced_clock_is_used_for_both_times);
  RUN_TEST(a_negative_time_of_a_replaced_clock_counts_as_zero);
}

TEST_MAIN(RUN_SUITE(clocks));
