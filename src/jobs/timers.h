/* SPDX-License-Identifier: MIT
 *
 * timers: deadlines of the keeper's thread, in a pairing heap. The owner embeds a timer, so that
 * setting it cannot fail.
 */
#ifndef UVSCHED_JOBS_TIMERS_H
#define UVSCHED_JOBS_TIMERS_H

#include <stdbool.h>
#include <stdint.h>

struct uvs__timer {
  int64_t due_ns;
  void (*fire)(struct uvs__timer *t, int64_t now_ns); /* NULL: not set */
  struct uvs__timer *child, *next, *previous; /* previous: the left sibling, or the parent */
};

struct uvs__timers {
  struct uvs__timer *root;
};

/* A timer that is set already moves to the new deadline. */
void uvs__timer_set(struct uvs__timers *all, struct uvs__timer *t, int64_t due_ns,
                    void (*fire)(struct uvs__timer *t, int64_t now_ns));
/* Does nothing if the timer is not set. */
void uvs__timer_clear(struct uvs__timers *all, struct uvs__timer *t);
/* Fires all timers that are due, each after it was cleared. True: there was one. */
bool uvs__timers_fire(struct uvs__timers *all, int64_t now_ns);
/* The nearest deadline; UVS_NEVER. */
int64_t uvs__timers_next(const struct uvs__timers *all);

#endif
