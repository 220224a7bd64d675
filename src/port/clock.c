/* SPDX-License-Identifier: MIT */
#include "port/clock.h"

#include <time.h>

uint64_t uvs__clock_wall(const uvs_clock_t *c) {
  struct timespec t;

  if (uvs__clock_replaced(c))
    return uvs__instant(c->wall_ns(c->arg));
  if (timespec_get(&t, TIME_UTC) != TIME_UTC || t.tv_sec < 0)
    return 0;
  return uvs__steps_later((uint64_t)t.tv_nsec, (uint64_t)t.tv_sec, 1000000000u);
}
