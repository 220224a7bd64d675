/* SPDX-License-Identifier: MIT
 *
 * clock: monotonic and wall time, the system's or a replaced one.
 */
#ifndef UVS__CLOCK_H
#define UVS__CLOCK_H

#include "port/platform.h"

static inline bool uvs__clock_replaced(const uvs_clock_t *c) {
  return c->monotonic_ns != NULL;
}

/* Any thread. The system's: uv_hrtime, never the loop's cached time, which may be stale by a whole
 * callback. */
static inline uint64_t uvs__clock_now(const uvs_clock_t *c) {
  return uvs__clock_replaced(c) ? uvs__instant(c->monotonic_ns(c->arg)) : uvs__clock_hrtime();
}

uint64_t uvs__clock_wall(const uvs_clock_t *c);

#endif
