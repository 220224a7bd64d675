/* SPDX-License-Identifier: MIT
 *
 * Time that passes only when an example says so. An hour takes no real time, and nothing depends on
 * how busy the machine is. For one scheduler at a time. */
#ifndef VIRTUAL_TIME_H
#define VIRTUAL_TIME_H

#include <stdatomic.h>
#include <uvsched.h>
#include <uvsched/settings.h>

#include "expect.h"

static _Atomic int64_t virtual_ns = UVS_SEC(1000); /* atomic: bodies on the pool read it too */

static inline int64_t read_virtual(void *arg) {
  (void)arg;
  return atomic_load(&virtual_ns);
}

/* For the `clock` option. */
static const uvs_clock_t virtual_clock = {.monotonic_ns = read_virtual, .wall_ns = read_virtual};

/* Lets time pass, and tells the loop. Thread: any. */
static inline void pass_ns(uvs_t *s, int64_t ns) {
  atomic_fetch_add(&virtual_ns, ns);
  EXPECT(uvs_clock_changed(s) == 0);
}

/* Lets time pass, and runs the loop at each deadline on the way. Returns 0 if it ended early
 * because nothing kept the loop alive. Thread: the loop's. */
static inline int run_for(uvs_t *s, int64_t ns) {
  int64_t end_ns = uvs_now(s) + ns;
  int64_t due_ns;

  while (uv_run(uvs_loop(s), UV_RUN_NOWAIT) != 0) {
    EXPECT(uvs_next_due(s, &due_ns) == 0);
    if (due_ns > end_ns && uvs_now(s) >= end_ns)
      return 1;
    if (due_ns > end_ns)
      due_ns = end_ns;
    if (due_ns > uvs_now(s))
      pass_ns(s, due_ns - uvs_now(s));
  }
  return 0;
}

#endif
