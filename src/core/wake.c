/* SPDX-License-Identifier: MIT */
#include "core/wake.h"

bool uvs__can_terminate(const uvs_t *s) {
  return s->shut && !s->terminated && s->live == 0 && s->runners.out == 0 && !s->at.policy_changed;
}

bool uvs__all_given_back(const uvs_t *s) {
  return s->never_ran_cb != NULL && !s->at.policy_changed && s->unfiled == 0 &&
         s->at.owed.first == UVS__NONE;
}

bool uvs__has_loop_work(const uvs_t *s) {
  const struct uvs__loop_state *at = &s->at;

  return at->owed.first != UVS__NONE || at->calls != NULL ||
         (at->arrivals.first != UVS__NONE && !s->paused) || at->now_first != NULL ||
         s->loop_ready.count > 0 || at->policy_changed || at->returned != NULL || at->crews_want ||
         at->watch_wanted || s->queues.dirty ||
         (s->shut && (uvs__can_terminate(s) || uvs__all_given_back(s)));
}

bool uvs__wants_keep(const uvs_t *s) {
  const struct uvs__loop_state *at = &s->at;
  bool keep = s->closing_cleanups; /* uvs_close was called */

  if (s->keep_alive == UVS_KEEP_ALIVE_AUTO)
    keep |= s->live_refs > 0 || at->first_pass;
  if (s->keep_alive == UVS_KEEP_ALIVE_ALWAYS)
    keep |= !s->terminated;
  if (s->keep_alive != UVS_KEEP_ALIVE_NEVER)
    keep |= at->owed.first != UVS__NONE || at->calls != NULL || at->now_first != NULL ||
            at->policy_changed || s->queues.refs > 0 || uvs__can_terminate(s);
  return keep;
}

uint64_t uvs__next_look(const uvs_t *s, uint64_t wall_due_ns) {
  uint64_t next_ns = s->paused ? UVS__NEVER : uvs__delay_bound(&s->delay);
  const struct uvs__heap_entry *limit = uvs__heap_head(&s->table.limits);
  uint64_t kill_ns = uvs__load(&s->kill_ns, relaxed); /* written under the lock, as `stop` */

  if (wall_due_ns < next_ns && !s->paused)
    next_ns = wall_due_ns;
  if (limit != NULL && limit->deadline_ns < next_ns)
    next_ns = limit->deadline_ns;
  if (s->queues.due_ns < next_ns)
    next_ns = s->queues.due_ns;
  if (kill_ns < next_ns && !uvs__load(&s->stop, relaxed))
    next_ns = kill_ns;
  return next_ns;
}

/* Is there no deadline at all? Then the timer stops (L11). */
static bool waits_for_nothing(const uvs_t *s) {
  return s->delay.count == 0 && s->home.startable == 0 && s->table.wall.count == 0 &&
         s->table.limits.count == 0 && s->queues.due_ns == UVS__NEVER && !s->at.held_back &&
         uvs__load(&s->kill_ns, relaxed) == UVS__NEVER; /* written under the lock */
}

struct uvs__wake uvs__wake_decide(uvs_t *s, uint64_t now_ns) {
  struct uvs__wake w = {false, false, false, 0};
  struct uvs__loop_state *at = &s->at;
  bool keep, on_loop, send;

  if (at->mute)
    return w;
  if (at->in_pass) { /* the pass may have sent its runners already */
    at->runner_wanted |= uvs__lacks_runner(s, now_ns);
    return w;
  }
  on_loop = uvs__on_loop(s);
  if (on_loop && uvs__ticker_lost(&s->ticker))
    return w; /* somebody else has closed the handles, and perhaps the loop */
  send = uvs__has_loop_work(s) || uvs__lacks_runner(s, now_ns);
  keep = uvs__wants_keep(s);
  if (keep != at->kept && on_loop) {
    w.keep = true;
    w.kept = at->kept = keep;
  } else if (keep != at->kept) { /* only the loop thread can change the ref */
    send |= !uvs__crew_returns(&s->home, s->lingerers);
  }
  if (s->delay.soonest_ns < at->armed_ns) {
    bool later = on_loop && now_ns != 0 && s->delay.soonest_ns > now_ns;

    send |= !later;
    if (later && !uvs__clock_replaced(&s->clock)) /* a replaced clock is stepped by its owner */
      w.arm_ns = at->armed_ns = s->delay.soonest_ns;
    if (later)
      s->delay.soonest_ns = UVS__NEVER;
  } else if (on_loop && at->armed_ns != UVS__NEVER && waits_for_nothing(s)) {
    w.arm_ns = at->armed_ns = UVS__NEVER;
  }
  if (!send || at->wake_sent)
    return w;
  at->wake_sent = true;
  /* now_ns may be from the beginning of a long call, and the loop may have had a pass since. */
  at->sent_ns = now_ns == 0 ? UVS__NEVER : now_ns > at->slept_ns ? now_ns : at->slept_ns;
  uvs__ticker_hold(&s->ticker);
  w.send = true;
  return w;
}

/* Loop thread: somebody else has closed the handles in use. */
static void stop_sending(uvs_t *s) {
  uvs__lock(s);
  s->shut = true;
  s->at.mute = true;
  uvs__unlock(s);
  uvs__ticker_mute(&s->ticker);
}

void uvs__notice_loss(uvs_t *s) {
  if (!uvs__ticker_lost(&s->ticker) || s->closing_handles)
    return;
  stop_sending(s);
  /* Closing goes on with a second pair of handles. Without one, the next pass comes only when a
   * runner returns. */
  if (!s->closing || uvs__ticker_replace(&s->ticker) < 0)
    return;
  uvs__ticker_keep(&s->ticker, true);
  uvs__lock(s);
  s->at.mute = false;
  s->at.kept = true;
  s->at.wake_sent = false;
  uvs__unlock(s);
}

void uvs__wake_do(uvs_t *s, struct uvs__wake w, uint64_t now_ns) {
  if (w.keep)
    uvs__ticker_keep(&s->ticker, w.kept);
  if (w.arm_ns == UVS__NEVER)
    uvs__ticker_disarm(&s->ticker);
  else if (w.arm_ns != 0)
    uvs__ticker_arm(&s->ticker, w.arm_ns, now_ns);
  if (w.send)
    uvs__ticker_send(&s->ticker);
}

void uvs__wake_loop(uvs_t *s) {
  bool send;

  uvs__lock(s);
  send = !s->at.mute && !s->at.wake_sent && !(uvs__on_loop(s) && uvs__ticker_lost(&s->ticker));
  if (send) {
    s->at.wake_sent = true;
    s->at.sent_ns = UVS__NEVER;
    uvs__ticker_hold(&s->ticker);
  }
  uvs__unlock(s);
  if (send)
    uvs__ticker_send(&s->ticker);
}
