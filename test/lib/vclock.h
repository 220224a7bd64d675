/* SPDX-License-Identifier: MIT
 *
 * A virtual clock for the public `clock` option: it moves only when a test moves it. Both times are
 * atomic, because bodies on other threads read them, and a body may move the clock to simulate a
 * long run.
 */
#ifndef TEST_VCLOCK_H
#define TEST_VCLOCK_H

#include <stdatomic.h>
#include <stdint.h>

#include "uvsched/outcome.h"
#include "uvsched/settings.h"
#include "uvsched/stats.h"

/* The initial times: not zero, and not equal. */
#define VCLOCK_START_NS UVS_SEC(1)
#define VCLOCK_WALL_NS UVS_SEC(1700000000)

struct vclock {
  _Atomic int64_t monotonic_ns;
  _Atomic int64_t wall_ns;
};

void vclock_init(struct vclock *c);
uvs_clock_t vclock_option(struct vclock *c);

int64_t vclock_now(struct vclock *c);
int64_t vclock_wall(struct vclock *c);

/* Time passes: both times advance, but not past the end of time. */
void vclock_advance_ns(struct vclock *c, int64_t ns);
void vclock_advance_to(struct vclock *c, int64_t monotonic_ns); /* no effect if that has passed */

/* Sets the wall clock. The monotonic time does not change. */
void vclock_step_wall(struct vclock *c, int64_t by_ns);

#endif
