/* SPDX-License-Identifier: MIT
 *
 * ticker: all handles of a scheduler: the ONE uv_timer and the ONE uv_async, the alarm of the
 * option `precise_ns`, and the alarm that watches the wall clock.
 *
 * Only the async handle calls `tick`, so one loop iteration has one full pass of the scheduler.
 * This is needed because no task may run twice in an iteration (L9), and because libuv's versions
 * and modes differ in when an iteration runs timers. The timer, or the alarm, calls `due`, which
 * runs nothing.
 *
 * The timer only wakes the loop. Its time is rounded up to whole ms, and the caller compares with
 * its own clock. The timer never keeps the loop alive; the async handle does (uvs__ticker_keep). A
 * program that walks the loop may close these handles. Then a second pair of handles serves until
 * the scheduler is closed. With an alarm only the timer of the second pair is ever started.
 */
#ifndef UVS__TICKER_H
#define UVS__TICKER_H

#include "port/atomic.h"
#include "port/platform.h"

/* Without an alarm for the wall clock, the scheduler reads that clock this often. */
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
  struct uvs__alarm *alarm; /* of the first pair; NULL: not opened, or freed */
  struct uvs__alarm *wall;  /* rings when the wall clock is set; NULL: none */
  bool wall_tried;          /* opening `wall` was tried: it is tried once */
  uint64_t slack_ns;        /* the alarm is set this much later; constant; 0: no alarm */
  bool nudged;              /* the close callback of `spare` will call tick */
  uv_timer_t spare;         /* see uvs__ticker_close */
  int in_use;               /* the pair in use: 0 or 1 */
  int open_handles;         /* handles that are being closed */
  bool kept;                /* the async handle is ref'd */
  uint64_t armed_ns;        /* the deadline that the timer is armed for; UVS__NEVER if it is not */
  _Atomic int sendable;     /* the pair whose async may be sent to, -1 = none */
  _Atomic uint32_t senders; /* threads that are about to send */
};

/* *k is all zero before. slack_ns > 0: use an alarm. 0, or what libuv or the alarm answers. */
int uvs__ticker_init(struct uvs__ticker *k, uv_loop_t *loop, const uvs_allocator_t *mem,
                     uint64_t slack_ns, uvs__tick_cb tick, uvs__tick_cb due);
/* In a forked child: frees the memory, and touches no handle. */
void uvs__ticker_forget(struct uvs__ticker *k);

/* Any thread: makes the loop call tick soon. A caller calls _hold and then _send. Sends that come
 * before that call of tick merge. The handle is not closed between _hold and _send: closing waits
 * for _send, so _send must follow soon. */
void uvs__ticker_hold(struct uvs__ticker *k);
void uvs__ticker_send(struct uvs__ticker *k);

/* The rest: loop thread. */
void uvs__ticker_arm(struct uvs__ticker *k, uint64_t due_ns, uint64_t now_ns);
void uvs__ticker_disarm(struct uvs__ticker *k);
void uvs__ticker_keep(struct uvs__ticker *k, bool keep);
/* From now on tick is called each time the wall clock is set, if the system can report that. */
void uvs__ticker_watch_wall(struct uvs__ticker *k);
bool uvs__ticker_owns(const struct uvs__ticker *k, const uv_handle_t *h);

/* Has somebody else closed a handle that the scheduler needs? */
bool uvs__ticker_lost(const struct uvs__ticker *k);
/* Forbids sending. Returns when no thread is about to send. */
void uvs__ticker_mute(struct uvs__ticker *k);
/* Opens the second pair, if the first is lost. 0, or what libuv answers. */
int uvs__ticker_replace(struct uvs__ticker *k);
/* Calls tick once, in this loop iteration or the next, from the close callback of the spare handle:
 * that handle is closing already, so nobody else can close it. */
void uvs__ticker_nudge(struct uvs__ticker *k);
/* Closes all handles, then calls `closed`. By then libuv no longer uses any of them, including
 * those that somebody else has closed. */
void uvs__ticker_close(struct uvs__ticker *k, uvs__tick_cb closed);

#endif
