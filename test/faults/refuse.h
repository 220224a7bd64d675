/* SPDX-License-Identifier: MIT
 *
 * Calls of libuv and of the system that fail when told to. The programs are linked with --wrap, so
 * that the static library's calls come here first; libuv's own do not. One order per process.
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
  REFUSE_CALLOC, /* the directory of lanes has its memory from there */
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

/* Let n calls of this one pass, and refuse the next, or (all) every one that follows. `code` is
 * what libuv's calls answer then; the system's set errno to the same. */
void refuse_after(enum refusable which, long n, bool all, int code);
/* Refuse one in so many calls of any of them, as a seed says. */
void refuse_randomly(uint64_t seed, unsigned one_in, int code);
void refuse_nothing(void);
long refuse_count(void); /* refused since the order */

/* On top of another allocator. */
uvs_allocator_t refuse_allocator(uvs_allocator_t *under);

#endif
