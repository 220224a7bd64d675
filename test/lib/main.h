/* SPDX-License-Identifier: MIT
 *
 * The frame of a test program. TEST_MAIN(RUN_SUITE(a); RUN_SUITE(b)) is its last line. The program
 * prints the seed of its random numbers first. SEED=n in the environment repeats a run.
 */
#ifndef TEST_MAIN_H
#define TEST_MAIN_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <uv.h>

#include "greatest.h"

/* test/meson.build sets TEST_PORT_LINUX: 1 with src/port/linux.c, 0 with src/port/other.c. */

/* .ci/portability says so where an emulator runs the tests. A test that needs bodies to be brief in
 * real time cannot work there. */
#define SKIP_UNDER_EMULATOR(why) \
  do { \
    if (getenv("UVS_EMULATOR") != NULL) { \
      printf("\nSKIP %s: %s\n", __func__, why); /* greatest says it with -v only */ \
      SKIPm(why); \
    } \
  } while (0)

extern uint64_t test_seed; /* of this program; never 0 */

static inline void test_seed_init(void) {
  const char *text = getenv("SEED");

  test_seed = text == NULL ? uv_hrtime() ^ (uint64_t)uv_os_getpid() << 32 : strtoull(text, NULL, 0);
  if (test_seed == 0)
    test_seed = 1;
  /* Line-buffered, so that a crash does not lose earlier output. */
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
  printf("SEED=%llu\n", (unsigned long long)test_seed);
}

/* Pseudo-random numbers: xorshift64*. *state must not be 0. */
static inline uint64_t test_random(uint64_t *state) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return *state * UINT64_C(2685821657736338717);
}

static inline uint64_t test_random_below(uint64_t *state, uint64_t n) {
  return (test_random(state) >> 11) % n;
}

/* greatest's own functions do not compile with -Wconversion. */
#define TEST_MAIN(...) \
  _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wconversion\"") \
      GREATEST_MAIN_DEFS(); \
  _Pragma("GCC diagnostic pop") uint64_t test_seed; \
  int main(int argc, char **argv) { \
    GREATEST_MAIN_BEGIN(); \
    test_seed_init(); \
    __VA_ARGS__; \
    GREATEST_MAIN_END(); \
  } \
  _Static_assert(1, "a semicolon may follow")

#endif
