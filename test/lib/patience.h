/* SPDX-License-Identifier: MIT
 *
 * Waiting for another thread with a generous time-out.
 */
#ifndef TEST_PATIENCE_H
#define TEST_PATIENCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

#include "uvsched/control.h"
#include "uvsched/outcome.h"
#include "uvsched/settings.h"
#include "uvsched/stats.h"

#define PATIENCE_NS UVS_SEC(100) /* real time; a correct wait ends much sooner */

/* The uv_hrtime at which a wait that starts now gives up. */
static inline uint64_t patience_end_ns(void) {
  return uv_hrtime() + (uint64_t)PATIENCE_NS;
}

/* Waits until *n is at least `least`. Returns false after PATIENCE_NS. */
static inline bool await_at_least(const _Atomic int *n, int least) {
  uint64_t end_ns = patience_end_ns();

  while (atomic_load(n) < least && uv_hrtime() < end_ns)
    uv_sleep(1);
  return atomic_load(n) >= least;
}

static inline bool await_flag(const _Atomic int *flag) {
  return await_at_least(flag, 1);
}

/* The same, while running the loop. */
static inline bool turn_loop_until(uv_loop_t *loop, const _Atomic int *n, int least) {
  uint64_t end_ns = patience_end_ns();

  while (atomic_load(n) < least && uv_hrtime() < end_ns)
    uv_run(loop, UV_RUN_NOWAIT);
  return atomic_load(n) >= least;
}

#endif
