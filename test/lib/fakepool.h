/* SPDX-License-Identifier: MIT
 *
 * Stands between the library and libuv. The test programs are linked with --wrap (see
 * test/meson.build), so the static library's calls of uv_queue_work, uv_timer_* and uv_async_* come
 * here first. All calls are counted and recorded. The thread pool can be replaced as well:
 *
 *   FAKEPOOL_REAL     libuv's pool, only observed
 *   FAKEPOOL_STEPPED  work runs on a helper thread while the loop waits for it: one item at a
 *                     time, in a fixed order, but not on the loop thread
 *   FAKEPOOL_INLINE   the same on the loop thread itself (a library that asks "am I on the loop
 *                     thread?" must survive it)
 *   FAKEPOOL_SEEDED   like STEPPED, but a seed decides which item runs when, and how long its
 *                     after_work is delayed
 *
 * In the fake modes the items advance in the idle phase of the loop, so any uv_run drives them.
 * Between fakepool_hold and fakepool_release they do not advance, unless the test calls
 * fakepool_step. An outstanding item keeps the loop alive, like one of libuv's.
 *
 * There is one fake pool per process. The fake modes serve one loop at a time.
 */
#ifndef TEST_FAKEPOOL_H
#define TEST_FAKEPOOL_H

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

enum fakepool_mode { FAKEPOOL_REAL, FAKEPOOL_STEPPED, FAKEPOOL_INLINE, FAKEPOOL_SEEDED };

/* Between open and close, the fake pool has one handle on the loop: see fakepool_owns_handle.
 * fakepool_close returns when the handle is closed; false if items were still outstanding. */
int fakepool_open(uv_loop_t *loop, enum fakepool_mode mode, uint64_t seed);
bool fakepool_close(void);
bool fakepool_owns_handle(const uv_handle_t *h);

void fakepool_hold(void);    /* items do not advance ... */
void fakepool_release(void); /* ... until this; they advance from the next loop pass on */

/* Runs the oldest item's work, or its after_work if the work has run. Returns false if there is no
 * item. */
bool fakepool_step(void);
bool fakepool_held(void);
unsigned fakepool_pending(void); /* items whose after_work has not returned, in any mode */

/* Keeps the loop alive, and passing without sleep, until fakepool_unpin. Calls nest. */
void fakepool_pin(void);
void fakepool_unpin(void);

bool fakepool_in_work(void); /* this thread is inside an uv_queue_work callback */

/* Which of the library's callbacks, as called by libuv, is this thread in? */
enum fakepool_place { IN_NONE, IN_TIMER, IN_ASYNC, IN_HOME };
enum fakepool_place fakepool_place(void);

/* Only timers and asyncs that are initialised while watching is on are counted. Watching is on
 * after fakepool_open; fixture_open turns it off after uvs_open, so that a test may have timers of
 * its own. The counts below start at fakepool_open or fakepool_forget. */
void fakepool_watch(bool on);

struct fakepool_timer_start {
  const uv_timer_t *handle;
  uint64_t timeout_ms;
  uint64_t at_ns;   /* uv_hrtime when it was started */
  uint64_t loop_ms; /* uv_now when it was started: what the time-out counts from */
};

struct fakepool_seen {
  uint64_t timer_inits, timer_starts, timer_stops;
  uint64_t timer_rechecks; /* starts for 1 ms, after the timer fired early */
  uint64_t async_inits, async_sends;
  uint64_t timer_fires;
  uint64_t queue_works;
  unsigned peak_outstanding;        /* the most items that were outstanding at once */
  struct fakepool_timer_start last; /* the newest start of a timer */
  uint64_t stalest_ms;              /* the largest age of uv_now when a timer was started */
};

struct fakepool_seen fakepool_seen(void);
void fakepool_refuse_async(int rc); /* uv_async_init fails with rc; 0: works again */
/* The next `works` calls of uv_queue_work fail, and the next `timer_starts` calls of uv_timer_start
 * for a watched timer. */
void fakepool_refuse_next(unsigned works, unsigned timer_starts);
void fakepool_forget(void); /* resets all counts but those of initialised handles */

#endif
