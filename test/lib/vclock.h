/* SPDX-License-Identifier: MIT
 *
 * A clock that moves only when a test says so, for the public `clock` option. Both hands are
 * atomic: bodies on other threads read it, and a body may move it to pretend that it takes long.
 */
#ifndef TEST_VCLOCK_H
#define TEST_VCLOCK_H

#include <stdatomic.h>
#include <stdint.h>

#include "uvsched/outcome.h"
#include "uvsched/settings.h"
#include "uvsched/stats.h"

/* Where the hands stand at first: neither at zero, nor at the same number. */
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

/* Time passes: both hands move on. Never past the end of time. */
void vclock_advance_ns(struct vclock *c, int64_t ns);
void vclock_advance_to(struct vclock *c, int64_t monotonic_ns); /* no effect if it is past */

/* Somebody sets the clock on the wall: the monotonic one does not notice. */
void vclock_step_wall(struct vclock *c, int64_t by_ns);

#endif
