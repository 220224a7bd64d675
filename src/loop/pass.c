/* SPDX-License-Identifier: MIT
 *
 * pass: what the loop does when it is woken. Look at the policies, time limits, due tasks, runners,
 * value queues, the loop's own tasks and callbacks, and then arm the timer.
 *
 * Three rules. What a callback schedules waits for the next pass. After the budget the rest is
 * carried over: the pass wakes itself, and I/O has its turn. Arming is the last step: it is decided
 * under the lock, and no user code runs between that and uv_timer_start.
 */
#include "loop/loop.h"

#include "pool/crew.h"

/* A pass that is on its way to its end. */
struct pass {
  uint64_t began_ns, until_ns;
  uint64_t wall_ns; /* 0: there are no tasks of the wall clock */
  bool more;        /* something is left that cannot wait for the timer */
};

void uvs__own_loop(uvs_t *s) {
  /* relaxed, both: only the thread itself finds its own number there, and the program tells the
   * thread that takes the loop over from another */
  uvs__store(&s->loop_thread, uvs__self(), relaxed);
  uvs__store(&s->loop_tid, uvs__thread.tid, relaxed);
}

uint64_t uvs__wall_to_monotonic(uint64_t wall_due_ns, uint64_t wall_ns, uint64_t now_ns) {
  if (wall_due_ns >= UVS__NEVER)
    return UVS__NEVER;
  return wall_due_ns <= wall_ns ? now_ns : uvs__steps_later(now_ns, 1, wall_due_ns - wall_ns);
}

/* ---- due ---- */

/* The wall clock, if there are tasks of it. Returns how far it was set forward since the last look.
 */
static uint64_t look_at_wall(uvs_t *s, struct pass *p, bool any) {
  int64_t offset_ns, step_ns;

  if (!any) {
    s->wall_known = false;
    return 0;
  }
  p->wall_ns = uvs__clock_wall(&s->clock);
  offset_ns = (int64_t)p->wall_ns - (int64_t)p->began_ns;
  step_ns = s->wall_known ? offset_ns - s->wall_offset_ns : 0;
  s->wall_known = true;
  s->wall_offset_ns = offset_ns;
  return step_ns < 0 ? 0 : (uint64_t)step_ns;
}

/* Due tasks become ready, until the time is over. */
static void hand_over(uvs_t *s, struct pass *p, uint64_t step_ns) {
  struct uvs__handing h = {p->began_ns, p->began_ns, p->wall_ns, step_ns};
  uint32_t most, loop_ready;
  bool more;

  uvs__lock(s);
  if (s->at.carried_ns != 0)
    h.pass_ns = s->at.carried_ns;
  /* If the last pass could not run all of the loop's tasks, they take long, and must not keep
   * others, of the pool or of a higher class, in the queue. */
  most = s->loop_ready.count > 0 ? UINT32_MAX : UVS__LOOP_READY_MANY;
  for (;;) {
    uint64_t now_ns;

    more = uvs__collect(s, &h, true);
    loop_ready = s->loop_ready.count;
    uvs__unlock(s); /* let others in */
    if (!more || loop_ready >= most)
      break;
    now_ns = uvs__now(s);
    if (now_ns >= p->until_ns)
      break;
    if (h.wall_ns != 0)
      h.wall_ns += now_ns - h.now_ns; /* both clocks go on alike */
    h.now_ns = now_ns;
    uvs__lock(s);
  }
  uvs__lock(s);
  s->at.carried_ns = more ? h.pass_ns : 0;
  uvs__unlock(s);
  p->more |= more;
}

static void expire_limits(uvs_t *s, struct pass *p) {
  bool more;

  do {
    uint32_t slot;
    uvs_id_t id = 0;
    int status = 0;
    void *arg = NULL;

    uvs__lock(s);
    slot = uvs__limits_expire(s, p->began_ns, &more);
    if (slot != UVS__NONE) {
      const struct uvs__task *t = uvs__task(s, slot);

      id = uvs__id_of(t, slot);
      status = uvs__extra(s, t)->limit_status;
      arg = t->arg;
    }
    uvs__unlock(s);
    if (slot != UVS__NONE)
      s->error_cb(s, id, status, arg);
  } while (more && uvs__now(s) < p->until_ns);
  p->more |= more;
}

/* ---- the loop's own tasks ---- */

/* Lock held: the next one starts; UVS__NONE. A body may have shut us down: then the next pass
 * decides which may still run. */
static uint32_t start_on_loop(uvs_t *s, uint64_t now_ns, struct uvs__started *st) {
  struct uvs__seat seat = {UVS_ON_LOOP, s->at.pass_ns - s->at.overrun_ns, s->at.pass_ns};
  int steps = UVS__BATCH;

  if (s->at.policy_changed)
    return UVS__NONE;
  return uvs__start_next(s, &s->loop_ready, &seat, now_ns, st, &steps);
}

/* At least one, until the time is over. No task becomes ready for the loop meanwhile, but the next
 * of a lane: runners leave the loop's due tasks to the next pass. */
static void run_on_loop(uvs_t *s, struct pass *p) {
  struct uvs__started st;
  uint64_t now_ns = uvs__now(s);
  uint32_t slot;

  uvs__lock(s);
  slot = start_on_loop(s, now_ns, &st);
  while (slot != UVS__NONE) {
    uint64_t end_ns, wall_ns;
    int returned;

    uvs__unlock(s);
    uvs__record_start(s, &st, &s->loop_cell);
    returned = uvs__call_body(s, &st, &end_ns, &now_ns);
    wall_ns = st.wall ? uvs__clock_wall(&s->clock) : 0;
    uvs__lock(s);
    uvs__return_body(s, &st, returned, end_ns, now_ns, wall_ns, &s->loop_cell);
    slot = UVS__NONE;
    if (now_ns < p->until_ns)
      slot = start_on_loop(s, now_ns, &st);
  }
  s->at.overrun_ns = s->loop_ready.count == 0 || now_ns <= p->until_ns ? 0 : now_ns - p->until_ns;
  uvs__unlock(s);
}

/* ---- the end of a pass ---- */

/* The last call of the callback that uvs_shutdown_now was given. */
static void tell_all_given_back(uvs_t *s) {
  uvs_never_ran_cb each = NULL;

  uvs__lock(s);
  if (uvs__all_given_back(s)) {
    each = s->never_ran_cb;
    s->never_ran_cb = NULL;
  }
  uvs__unlock(s);
  if (each != NULL)
    each(s, 0, NULL, s->never_ran_arg);
}

static void check_terminated(uvs_t *s) {
  bool now;

  uvs__lock(s);
  now = uvs__can_terminate(s);
  if (now) {
    s->terminated = true;
    uvs__wake_terminated(s);
  }
  uvs__unlock(s);
  if (now && s->terminated_cb != NULL)
    s->terminated_cb(s);
}

/* Lock held. A task that has become due while the pass went on is left to the timer, as if the pass
 * had been faster: it waits for whole ms anyway. Not if it was put into the queue meanwhile. */
static bool can_wait(const uvs_t *s, const struct pass *p, uint64_t next_ns, uint64_t now_ns) {
  return uvs__waits_by_ms(s) && next_ns > p->began_ns && s->delay.soonest_ns > now_ns &&
         next_ns == uvs__delay_bound(&s->delay);
}

/* Lock held: when the wall clock's queue wants the loop. That clock may be set without a word: look
 * at it now and then. */
static uint64_t wall_due(const uvs_t *s, uint64_t wall_ns, uint64_t now_ns) {
  const struct uvs__heap_entry *e = uvs__heap_head(&s->table.wall);
  uint64_t due_ns;

  if (e == NULL)
    return UVS__NEVER;
  due_ns = uvs__wall_to_monotonic(e->deadline_ns, wall_ns, now_ns);
  return due_ns < now_ns + UVS__WALL_CAP_NS ? due_ns : now_ns + UVS__WALL_CAP_NS;
}

/* Sleep, or carry over the rest. may_wait: due tasks may wait for the timer. */
static void end_pass(uvs_t *s, struct pass *p, bool may_wait) {
  uint64_t now_ns = uvs__now(s);
  uint64_t wall_ns = 0;
  bool replaced = uvs__clock_replaced(&s->clock);
  int steps = UVS__BATCH;
  uint64_t next_ns;
  bool keep, send;

  uvs__lock(s);
  if (s->table.wall.count > 0) { /* the clock is not read under the lock */
    uvs__unlock(s);
    wall_ns = uvs__clock_wall(&s->clock);
    uvs__lock(s);
  }
  /* Never start the timer for a task that was cancelled: cancelled tasks cause one empty wake-up in
   * all, not one each (L11). */
  if (!replaced && s->ticker.armed_ns > uvs__delay_bound(&s->delay))
    uvs__delay_settle(&s->delay, &steps);
  next_ns = uvs__next_look(s, wall_due(s, wall_ns, now_ns));
  if (s->at.held_back && now_ns + UVS__HELD_BACK_NS < next_ns)
    next_ns = now_ns + UVS__HELD_BACK_NS;
  p->more |= uvs__has_loop_work(s) || s->at.runner_wanted;
  if (next_ns <= now_ns)
    p->more |= !(may_wait && uvs__waits_by_ms(s) && s->delay.soonest_ns > now_ns) &&
               !can_wait(s, p, next_ns, now_ns);
  keep = uvs__wants_keep(s);
  s->at.kept = keep;
  s->at.in_pass = false;
  s->delay.soonest_ns = UVS__NEVER;
  send = p->more && !s->at.mute && !s->at.wake_sent;
  if (send) {
    s->at.wake_sent = true;
    uvs__ticker_hold(&s->ticker);
  }
  s->at.armed_ns = replaced ? UVS__NEVER : next_ns;
  uvs__unlock(s);

  uvs__ticker_keep(&s->ticker, keep);
  if (send)
    uvs__ticker_send(&s->ticker);
  else if (!replaced && next_ns == UVS__NEVER)
    uvs__ticker_disarm(&s->ticker);
  else if (!replaced)
    uvs__ticker_arm(&s->ticker, next_ns, now_ns);
}

/* ---- both kinds ---- */

/* False if we are inside one already: a callback of ours runs the loop. */
static bool begin(uvs_t *s, struct pass *p, bool full) {
  bool any_wall, nested;

  uvs__lock(s);
  nested = s->at.in_pass;
  any_wall = s->table.wall.count > 0;
  if (nested && full)
    s->at.wake_sent = false; /* the signal is used up; the pass around us looks again at its end */
  uvs__unlock(s);
  if (nested)
    return false;
  uvs__own_loop(s);
  *p = (struct pass){.began_ns = uvs__now(s)};
  p->until_ns = p->began_ns + s->budget_ns;
  if (any_wall && !uvs__clock_replaced(&s->clock))
    uvs__ticker_watch_wall(&s->ticker);
  uvs__lock(s);
  s->at.in_pass = true;
  s->at.watch_wanted = false;
  s->at.pass_ns = p->began_ns;
  s->delay.soonest_ns = UVS__NEVER;
  if (full) {
    s->at.wake_sent = false;
    s->at.first_pass = false;
    s->counts.wakeups++;
    uvs__take_back(s);
  }
  uvs__unlock(s);
  p->more = false;
  return true;
}

/* Does only a full pass see to what there is to do? */
static bool needs_pass(uvs_t *s) {
  const struct uvs__heap_entry *limit;
  uint64_t now_ns = uvs__now(s);
  bool needs;

  uvs__lock(s);
  limit = uvs__heap_head(&s->table.limits);
  needs = s->at.wake_sent || s->closing || s->shut || s->home.executor != NULL ||
          uvs__has_loop_work(s) || (limit != NULL && limit->deadline_ns <= now_ns) ||
          s->queues.due_ns <= now_ns || now_ns >= uvs__load(&s->kill_ns, relaxed);
  uvs__unlock(s);
  return needs || uvs__ticker_lost(&s->ticker);
}

/* A runner is back, and something is due. If the timer comes within 1 ms, that is left to it: so
 * all that becomes due in this ms is handed over together. */
static bool left_to_timer(uvs_t *s, const struct pass *p) {
  uint64_t bound_ns;

  uvs__lock(s);
  bound_ns = uvs__delay_bound(&s->delay);
  uvs__unlock(s);
  return uvs__waits_by_ms(s) && bound_ns + UVS__MS > p->began_ns;
}

void uvs__dispatch(uvs_t *s, bool timer) {
  struct pass p;
  bool wait;

  if (needs_pass(s)) {
    uvs__wake_loop(s);
    uvs__lock(s);
    uvs__unlock_and_wake(s, 0); /* the loop may have to stay for it */
    return;
  }
  if (!begin(s, &p, false))
    return;
  wait = !timer && left_to_timer(s, &p);
  if (!wait) {
    bool any_wall;

    uvs__lock(s);
    any_wall = s->table.wall.count > 0;
    uvs__unlock(s);
    hand_over(s, &p, look_at_wall(s, &p, any_wall));
  }
  p.more |= uvs__send_home_runners(s, p.began_ns);
  end_pass(s, &p, wait);
  if (!p.more) { /* else it is part of the pass that follows */
    uvs__lock(s);
    s->counts.wakeups++;
    uvs__unlock(s);
  }
}

void uvs__pass(uvs_t *s) {
  struct pass p;
  bool behind, any_wall;

  if (!begin(s, &p, true))
    return;
  uvs__notice_loss(s);
  if (p.began_ns >= uvs__load(&s->kill_ns, relaxed)) /* a time; it says all by itself */
    uvs__stop_now(s, NULL, NULL);
  uvs__apply_policies(s);
  if (s->closing)
    uvs__close_parts(s);
  expire_limits(s, &p);

  /* Under overload, due tasks alone would use up the budget, and only one callback would be made in
   * each pass. Finished tasks do not count against max_pending, so memory would grow. If the last
   * pass left callbacks, half of this one is reserved for them. */
  uvs__lock(s);
  behind = s->at.behind;
  any_wall = s->table.wall.count > 0;
  uvs__unlock(s);
  if (behind)
    uvs__make_callbacks(s, p.began_ns + s->budget_ns / 2);
  hand_over(s, &p, look_at_wall(s, &p, any_wall));
  p.more |= uvs__send_runners(s, p.began_ns, p.until_ns);
  uvs__serve_queues(s, p.began_ns, p.until_ns);
  run_on_loop(s, &p);
  p.more |= uvs__make_callbacks(s, p.until_ns);
  p.more |= uvs__make_calls(s, p.until_ns);
  p.more |= uvs__send_runners(s, p.began_ns, p.until_ns); /* an `after` may let others start */
  tell_all_given_back(s);
  check_terminated(s);
  end_pass(s, &p, false);
  if (s->closing)
    uvs__finish_close(s);
}
