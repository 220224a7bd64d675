/* SPDX-License-Identifier: MIT
 *
 * ticker: all handles of a scheduler: the ONE uv_timer and the ONE uv_async, the alarm of the
 * option `precise_ns`, and the alarm that watches the wall clock. Arm, wake, call back.
 *
 * Only the async handle calls tick, so that one pass of the loop has one full turn of ours: where
 * in a pass timers come differs between libuv's versions and modes, and no task may run twice in
 * one (L9). The timer, or the alarm, calls `due`, which runs nothing.
 *
 * The timer is only a wake-up: rounded up to whole ms, and the caller compares with its own clock
 * when it comes. It never holds the loop; the async handle does, on demand. Somebody who walks the
 * loop may close our handles: then there is a second pair for the time that closing the scheduler
 * takes. With an alarm the timer is never started, but in that second pair, which has none.
 */
#ifndef UVS__TICKER_H
#define UVS__TICKER_H

#include "port/atomic.h"
#include "port/platform.h"

/* Where nothing tells that the wall clock was set, the scheduler looks at it this often. */
#define UVS__WALL_CAP_NS (UINT64_C(30) * 1000000000)

struct uvs__ticker;
typedef void (*uvs__tick_cb)(struct uvs__ticker *k);

struct uvs__ticker {
  uv_loop_t *loop;
  const uvs_allocator_t *mem; /* borrowed */
  uvs__tick_cb tick, due, closed;
  struct {
    uv_timer_t timer;
    uv_async_t async;
  } pair[2];
  struct uvs__alarm *alarm; /* belongs to the first pair; NULL: none is chosen, or it is gone */
  struct uvs__alarm *wall;  /* the wall clock's; NULL: it is not watched */
  bool wall_tried;          /* to watch it: once is enough */
  uint64_t slack_ns;        /* so much later than asked is it set; constant, 0 without one */
  bool nudged;              /* the spare handle is on its way to call tick */
  uv_timer_t spare;         /* see uvs__ticker_close */
  int in_use;               /* which pair */
  int open_handles;         /* while they are being closed */
  bool kept;                /* the async handle is ref'd */
  uint64_t armed_ns;        /* the deadline that the timer is armed for; UVS__NEVER if it is not */
  _Atomic int sendable;     /* the pair whose async may be sent to, -1 = none */
  _Atomic uint32_t senders; /* threads that are about to send */
};

/* All zero before. slack_ns > 0: with an alarm. 0, or what libuv or the alarm answers. */
int uvs__ticker_init(struct uvs__ticker *k, uv_loop_t *loop, const uvs_allocator_t *mem,
                     uint64_t slack_ns, uvs__tick_cb tick, uvs__tick_cb due);
/* In a forked child: the memory, and nothing else. */
void uvs__ticker_forget(struct uvs__ticker *k);

/* Any thread, in two steps: call tick soon. Merges with others that have not come yet. From the
 * first step to the end of the second the handle is not closed. Not for long, since the loop waits
 * for that. */
void uvs__ticker_hold(struct uvs__ticker *k);
void uvs__ticker_send(struct uvs__ticker *k);

/* The rest: loop thread. */
void uvs__ticker_arm(struct uvs__ticker *k, uint64_t due_ns, uint64_t now_ns);
void uvs__ticker_disarm(struct uvs__ticker *k);
void uvs__ticker_keep(struct uvs__ticker *k, bool keep);
/* There are wall-clock tasks: from now on tick is called when that clock was set. Where that is not
 * to be had it is not an error. */
void uvs__ticker_watch_wall(struct uvs__ticker *k);
bool uvs__ticker_owns(const struct uvs__ticker *k, const uv_handle_t *h);

/* Has somebody else closed a handle that we cannot do without? */
bool uvs__ticker_lost(const struct uvs__ticker *k);
/* From now on nobody sends; returns when nobody is about to. */
void uvs__ticker_mute(struct uvs__ticker *k);
/* Take the second pair into use, if the first is lost. */
int uvs__ticker_replace(struct uvs__ticker *k);
/* Call tick in this turn or the next, by the end of a handle that is closed already, so that nobody
 * else can close it. Once. */
void uvs__ticker_nudge(struct uvs__ticker *k);
/* Close what is open, then call `closed`: no handle of ours is known to libuv any more, nor is one
 * that somebody else has closed. */
void uvs__ticker_close(struct uvs__ticker *k, uvs__tick_cb closed);

#endif
