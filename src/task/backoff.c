/* SPDX-License-Identifier: MIT */
#include "task/backoff.h"

uint64_t uvs__backoff(uint64_t first_ns, uint64_t max_ns, uint32_t jitter, uint32_t failures,
                      uint64_t random) {
  uint32_t doubled = failures - 1;
  uint64_t wait_ns = doubled >= 63 || first_ns > max_ns >> doubled ? max_ns : first_ns << doubled;
  /* In two parts, so that nothing overflows. */
  uint64_t play_ns = wait_ns / 100 * jitter + wait_ns % 100 * jitter / 100;

  return wait_ns - random % (play_ns + 1);
}
