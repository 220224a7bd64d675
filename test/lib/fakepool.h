/* SPDX-License-Identifier: MIT
 *
 * Stands between the library and libuv: the test programs are linked with --wrap (see
 * test/meson.build), so that the static library's calls of uv_queue_work, uv_timer_* and uv_async_*
 * come here first. It counts and remembers them all, and can be libuv's thread pool itself:
 *
 *   FAKEPOOL_REAL     libuv's pool; we only watch
 *   FAKEPOOL_STEPPED  work runs on a thread of our own while the loop waits for it: one thing at a
 *                     time, in a fixed order, and yet the body is not on the loop thread
 *   FAKEPOOL_INLINE   the same on the loop thread itself (what a library that tests "am I on the
 *                     loop?" must survive)
 *   FAKEPOOL_SEEDED   as STEPPED, but a seed decides which item runs when, and how long its
 *                     after_work is kept back while other things happen
 *
 * In the fake modes the items move in the idle phase of the loop, so any uv_run drives them;
 * between fakepool_hold and fakepool_release they stay where they are, unless the test calls
 * fakepool_step. An outstanding item keeps the loop alive, as libuv's own does.
 *
 * One per process, as libuv's pool is. The fake modes serve one loop at a time.
 */
#ifndef TEST_FAKEPOOL_H
#define TEST_FAKEPOOL_H

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

enum fakepool_mode { FAKEPOOL_REAL, FAKEPOOL_STEPPED, FAKEPOOL_INLINE, FAKEPOOL_SEEDED };

/* From open to close there is one handle of ours on the loop: fakepool_owns_handle. Close returns
 * when it is gone; false if items were still outstanding. */
int fakepool_open(uv_loop_t *loop, enum fakepool_mode mode, uint64_t seed);
bool fakepool_close(void);
bool fakepool_owns_handle(const uv_handle_t *h);

void fakepool_hold(void);    /* keep the items back ... */
void fakepool_release(void); /* ... and let them go again, at the next turn of the loop */

/* Run the oldest item's work, or call its after_work if the work was done; false: there is none. */
bool fakepool_step(void);
bool fakepool_held(void);
unsigned fakepool_pending(void); /* items not yet through, in any mode */

/* Keep the loop alive (and turning) meanwhile; calls nest. */
void fakepool_pin(void);
void fakepool_unpin(void);

bool fakepool_in_work(void); /* this thread is inside an uv_queue_work callback */

/* Which of the library's callbacks is this thread inside, of those that libuv makes? */
enum fakepool_place { IN_NONE, IN_TIMER, IN_ASYNC, IN_HOME };
enum fakepool_place fakepool_place(void);

/* What was seen since fakepool_open (or fakepool_forget). Only timers and asyncs that were
 * initialised while we watched are ours to count: watching is on after fakepool_open, and
 * fixture_open turns it off behind uvs_open, so a test may have timers of its own. */
void fakepool_watch(bool on);

struct fakepool_timer_start {
  const uv_timer_t *handle;
  uint64_t timeout_ms;
  uint64_t at_ns;   /* uv_hrtime when it was started */
  uint64_t loop_ms; /* uv_now when it was started: what the time-out counts from */
};

struct fakepool_seen {
  uint64_t timer_inits, timer_starts, timer_stops;
  uint64_t timer_rechecks; /* starts for 1 ms: the timer had fired early */
  uint64_t async_inits, async_sends;
  uint64_t timer_fires;
  uint64_t queue_works;
  unsigned peak_outstanding;        /* the most items at once between queue and after */
  struct fakepool_timer_start last; /* the newest start of a timer */
  uint64_t stalest_ms;              /* how old uv_now was at most when a timer was started */
};

struct fakepool_seen fakepool_seen(void);
void fakepool_refuse_async(int rc); /* uv_async_init fails with it, until told 0 */
/* The next so many calls of uv_queue_work, and of uv_timer_start for a timer that we watch, fail.
 */
void fakepool_refuse_next(unsigned works, unsigned timer_starts);
void fakepool_forget(void); /* all but which handles are ours, and how many were initialised */

#endif
