/* SPDX-License-Identifier: MIT
 *
 * The wait before a retry: doubled, bounded, and shortened by random jitter.
 */
#include <inttypes.h>

#include "lib/unit.h"

#include "task/plan.h"

static uint64_t exact(uint64_t first_ns, uint64_t max_ns, uint32_t failures) {
  return uvs__backoff(first_ns, max_ns, 0, failures, UINT64_MAX);
}

/* The naive way: one doubling after another. max_ns is below 2^63, so nothing overflows. */
__attribute__((noinline)) static uint64_t doubled_by_hand(uint64_t first_ns, uint64_t max_ns,
                                                          uint32_t failures) {
  uint64_t wait = first_ns;

  for (uint32_t i = 1; i < failures && wait < max_ns; i++)
    wait *= 2;
  return wait < max_ns ? wait : max_ns;
}

TEST the_backoff_doubles_with_each_consecutive_failure(void) {
  ASSERT_U64(10, exact(10, UVS__NEVER, 1));
  ASSERT_U64(20, exact(10, UVS__NEVER, 2));
  ASSERT_U64(40, exact(10, UVS__NEVER, 3));
  ASSERT_U64(10 * 1024, exact(10, UVS__NEVER, 11));
  PASS();
}

TEST the_backoff_stops_at_its_bound(void) {
  ASSERT_U64(10, exact(10, 35, 1));
  ASSERT_U64(20, exact(10, 35, 2));
  ASSERT_U64(35, exact(10, 35, 3)); /* not 40, and not 20 */
  ASSERT_U64(35, exact(10, 35, 4));
  ASSERT_U64(10, exact(10, 10, 1)); /* no more than the first */
  ASSERT_U64(10, exact(10, 10, 9));
  ASSERT_U64(40, exact(10, 40, 3)); /* just reached */
  ASSERT_U64(40, exact(10, 40, 4));
  PASS();
}

/* For any number of failures and the largest numbers. */
TEST the_backoff_does_not_overflow(void) {
  static const uint64_t firsts[] = {
      1,         2, 3, 1000, UINT64_C(999999937), UVS__NEVER / 3, UVS__NEVER / 2, INT64_MAX - 1,
      UVS__NEVER};
  static const uint32_t counts[] = {
      62, 63, 64, 65, 66, 127, 128, 129, 1000, 65536, UINT32_MAX - 1, UINT32_MAX};
  uint64_t random = test_seed;

  for (size_t i = 0; i < sizeof firsts / sizeof firsts[0]; i++) {
    uint64_t max_ns[] = {firsts[i], UVS__NEVER, UVS__NEVER / 2, UVS__NEVER - 1};

    for (size_t k = 0; k < sizeof max_ns / sizeof max_ns[0]; k++) {
      if (max_ns[k] < firsts[i])
        continue;
      for (uint32_t n = 1; n < 70; n++)
        ASSERT_U64(doubled_by_hand(firsts[i], max_ns[k], n), exact(firsts[i], max_ns[k], n));
      for (size_t n = 0; n < sizeof counts / sizeof counts[0]; n++)
        ASSERT_U64(doubled_by_hand(firsts[i], max_ns[k], counts[n]),
                   exact(firsts[i], max_ns[k], counts[n]));
      for (uint64_t n = 1; n <= UINT32_MAX; n += 1 + test_random_below(&random, UINT32_MAX / 64))
        ASSERT_U64(doubled_by_hand(firsts[i], max_ns[k], (uint32_t)n),
                   exact(firsts[i], max_ns[k], (uint32_t)n));
    }
  }
  PASS();
}

/* The most that jitter may subtract, rounded down. */
static uint64_t share_of(uint64_t wait_ns, uint32_t percent) {
  return wait_ns / 100 * percent + wait_ns % 100 * percent / 100; /* does not overflow */
}

TEST jitter_shortens_the_backoff_by_no_more_than_its_percentage(void) {
  static const uint64_t waits[] = {1, 2, 99, 100, 101, 150, 1000003, UVS__NEVER, UVS__NEVER - 1};
  static const uint32_t percents[] = {0, 1, 50, 99, 100};
  uint64_t random = test_seed;

  for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
    for (size_t k = 0; k < sizeof percents / sizeof percents[0]; k++) {
      uint64_t share = share_of(waits[i], percents[k]);
      uint64_t lowest = waits[i] - share;

      /* Both ends are reached, */
      ASSERT_U64(waits[i], uvs__backoff(waits[i], UVS__NEVER, percents[k], 1, 0));
      ASSERT_U64(lowest, uvs__backoff(waits[i], UVS__NEVER, percents[k], 1, share));
      ASSERT_U64(waits[i], uvs__backoff(waits[i], UVS__NEVER, percents[k], 1, share + 1));
      for (int n = 0; n < 1000; n++) { /* and never passed. */
        uint64_t got = uvs__backoff(waits[i], UVS__NEVER, percents[k], 1, test_random(&random));

        ASSERT(got >= lowest);
        ASSERT(got <= waits[i]);
      }
    }
  }
  PASS();
}

TEST jitter_is_a_percentage_of_the_doubled_and_bounded_backoff(void) {
  ASSERT_U64(40 - 20, uvs__backoff(10, UVS__NEVER, 50, 3, 20));
  ASSERT_U64(40, uvs__backoff(10, UVS__NEVER, 50, 3, 21));
  ASSERT_U64(30 - 15, uvs__backoff(10, 30, 50, 3, 15));
  ASSERT_U64(30, uvs__backoff(10, 30, 50, UINT32_MAX, 16));
  ASSERT_U64(0, uvs__backoff(10, UVS__NEVER, 100, 1, 10)); /* all of it: at once */
  PASS();
}

TEST jitter_uses_the_whole_range_of_its_percentage(void) {
  unsigned seen[101] = {0};
  uint64_t random = test_seed;

  for (int n = 0; n < 20000; n++)
    seen[uvs__backoff(100, UVS__NEVER, 50, 1, test_random(&random))]++;
  for (int i = 0; i < 50; i++)
    ASSERT_EQ_FMT(0u, seen[i], "%u");
  for (int i = 50; i <= 100; i++)
    ASSERT(seen[i] > 100); /* of about 390 */
  PASS();
}

SUITE(backoff) {
  RUN_TEST(the_backoff_doubles_with_each_consecutive_failure);
  RUN_TEST(the_backoff_stops_at_its_bound);
  RUN_TEST(the_backoff_does_not_overflow);
  RUN_TEST(jitter_shortens_the_backoff_by_no_more_than_its_percentage);
  RUN_TEST(jitter_is_a_percentage_of_the_doubled_and_bounded_backoff);
  RUN_TEST(jitter_uses_the_whole_range_of_its_percentage);
}

TEST_MAIN(RUN_SUITE(backoff));
