/* SPDX-License-Identifier: MIT
 *
 * Calls of libuv and of the system that fail when told to. The programs are linked with --wrap, so
 * the static library's calls come here first; libuv's own calls do not. There is one order per
 * process.
 */
#ifndef FAULTS_REFUSE_H
#define FAULTS_REFUSE_H

#include <stdbool.h>
#include <stdint.h>

#include "uvsched/outcome.h"
#include "uvsched/settings.h"
#include "uvsched/stats.h"

enum refusable {
  REFUSE_MEMORY, /* the scheduler's allocator: refuse_allocator */
  REFUSE_CALLOC, /* memory of the directory of lanes */
  REFUSE_QUEUE_WORK,
  REFUSE_ASYNC_INIT,
  REFUSE_TIMER_START,
  REFUSE_POLL_INIT,
  REFUSE_TIMERFD_CREATE,
  REFUSE_TIMERFD_SETTIME,
  REFUSE_MUTEX_INIT,
  REFUSE_COND_INIT,
  REFUSE_THREAD_CREATE,
  REFUSE_MMAP,
  REFUSE_MADVISE,
  REFUSE_SETNAME,
  REFUSABLES
};

extern const char *const refuse_names[REFUSABLES];

/* Lets n calls of this function pass and refuses the next one, or (all) every later one. libuv's
 * calls then return `code`; the system's calls set errno accordingly. */
void refuse_after(enum refusable which, long n, bool all, int code);
/* Refuses one in `one_in` calls of all functions, at random from a seed. */
void refuse_randomly(uint64_t seed, unsigned one_in, int code);
void refuse_nothing(void);
long refuse_count(void); /* calls refused since the order */

/* Wraps another allocator. */
uvs_allocator_t refuse_allocator(uvs_allocator_t *under);

#endif
