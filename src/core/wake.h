/* SPDX-License-Identifier: MIT
 *
 * wake: must the loop be woken for what a critical section has just done?
 *
 * There is one rule, for the end of every critical section outside a pass: decide under the lock,
 * and act after unlocking. During a pass nothing is sent: a pass looks at everything, under the
 * lock, before the loop sleeps.
 *
 * A section that decides to send raises `senders`; the sender lowers it again after uv_async_send.
 * Close forbids new senders and waits until there are none, since uv_async_send on a closed handle
 * aborts.
 */
#ifndef UVS__CORE_WAKE_H
#define UVS__CORE_WAKE_H

#include "core/scheduler.h"

/* What to do when the lock is released. */
struct uvs__wake {
  bool send;       /* wake the loop */
  bool keep, kept; /* loop thread: if `keep`, set the handle's ref to `kept` */
  uint64_t arm_ns; /* loop thread: arm the timer for this; UVS__NEVER: stop it; 0: leave it */
};

/* Lock held. now_ns: the time if the caller knows it, else 0. */
struct uvs__wake uvs__wake_decide(uvs_t *s, uint64_t now_ns);
/* Without the lock. */
void uvs__wake_do(uvs_t *s, struct uvs__wake w, uint64_t now_ns);

/* Lock held: does a ready task lack a runner? Only the loop can send one. A runner that is on its
 * way back wakes the loop anyway. */
static inline bool uvs__lacks_runner(const uvs_t *s, uint64_t now_ns) {
  bool held_back;

  if (s->home.startable == 0 || uvs__crew_returns(&s->home, s->lingerers))
    return false;
  if (s->lingerers > 0 && s->home.startable > s->home.seeking)
    return true; /* the loop must signal a lingering runner */
  if (uvs__crew_wants(&s->home, &held_back))
    return true;
  /* The loop must look again soon: the running bodies may be stuck. */
  return held_back && (now_ns == 0 || s->at.armed_ns > now_ns + 2 * UVS__HELD_BACK_NS);
}

/* Lock held. False: uvs__wake_decide would find nothing to do, or a pass that decides everything
 * anew is on its way, and the loop is kept alive until then. */
static inline bool uvs__may_want_loop(const uvs_t *s, uint64_t now_ns) {
  const struct uvs__loop_state *at = &s->at;
  bool work;

  if (at->wake_sent && !at->in_pass && at->kept && s->live_refs > 0)
    return false;
  work = (at->owed.first & at->arrivals.first) != UVS__NONE || at->calls != NULL ||
         at->now_first != NULL || s->loop_ready.count > 0 || at->policy_changed ||
         at->returned != NULL || at->crews_want || at->watch_wanted || s->queues.dirty || s->shut ||
         uvs__lacks_runner(s, now_ns);
  return work || s->delay.soonest_ns < at->armed_ns || !at->kept ||
         s->keep_alive != UVS_KEEP_ALIVE_AUTO || s->live_refs == 0 ||
         (s->delay.count == 0 && at->armed_ns != UVS__NEVER);
}

/* The end of a critical section of any thread. */
static inline void uvs__unlock_and_wake(uvs_t *s, uint64_t now_ns) {
  struct uvs__wake w;

  if (!uvs__may_want_loop(s, now_ns)) {
    uvs__unlock(s);
    return;
  }
  w = uvs__wake_decide(s, now_ns);
  uvs__unlock(s);
  if (w.send || w.keep || w.arm_ns != 0)
    uvs__wake_do(s, w, now_ns);
}

/* Lock held: must the async handle keep the loop alive? */
bool uvs__wants_keep(const uvs_t *s);
/* Lock held: the scheduler is shut down, and nothing is left. */
bool uvs__can_terminate(const uvs_t *s);
/* Lock held: uvs_shutdown_now has handed back every task that never started, and the last call of
 * its callback is still to be made. */
bool uvs__all_given_back(const uvs_t *s);
/* Lock held: is there something for a full pass to do now? */
bool uvs__has_loop_work(const uvs_t *s);
/* Lock held: the earliest instant at which the loop has something to do. wall_due_ns: when the
 * first wall-clock task is due, by the monotonic clock. */
uint64_t uvs__next_look(const uvs_t *s, uint64_t wall_due_ns);

/* Lock held: the loop must wake at due_ns for something that is not in the delay queue. */
static inline void uvs__note_due(uvs_t *s, uint64_t due_ns) {
  if (due_ns < s->delay.soonest_ns)
    s->delay.soonest_ns = due_ns;
}

/* Any thread, without the lock: wake the loop whatever it is doing. */
void uvs__wake_loop(uvs_t *s);
/* Loop thread, without the lock. If somebody else has closed the handles, no more tasks are
 * accepted, and nothing is sent. */
void uvs__notice_loss(uvs_t *s);

#endif
