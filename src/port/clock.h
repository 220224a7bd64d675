/* SPDX-License-Identifier: MIT
 *
 * clock: monotonic and wall time, the system's or a replaced one. Any thread.
 */
#ifndef UVS__CLOCK_H
#define UVS__CLOCK_H

#include <time.h>

#include "port/platform.h"

static inline bool uvs__clock_replaced(const uvs_clock_t *c) {
  return c->monotonic_ns != NULL;
}

/* The replaced clock, or uv_hrtime. Not the loop's cached time, which may be old by a whole
 * callback. */
static inline uint64_t uvs__clock_now(const uvs_clock_t *c) {
  return uvs__clock_replaced(c) ? uvs__instant(c->monotonic_ns(c->arg)) : uvs__clock_hrtime();
}

static inline uint64_t uvs__clock_wall(const uvs_clock_t *c) {
  struct timespec t;

  if (uvs__clock_replaced(c))
    return uvs__instant(c->wall_ns(c->arg));
  if (timespec_get(&t, TIME_UTC) != TIME_UTC || t.tv_sec < 0)
    return 0;
  return uvs__steps_later((uint64_t)t.tv_nsec, (uint64_t)t.tv_sec, 1000000000u);
}

#endif
