/* SPDX-License-Identifier: MIT
 *
 * Linux: the clock that uv_hrtime reads, asked directly. It is asked for each task, and half of
 * what uv_hrtime takes is not the clock.
 */
#include "port/clock.h"

#include <time.h>

uint64_t uvs__clock_hrtime(void) {
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC, &t); /* it cannot fail */
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
