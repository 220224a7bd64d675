/* SPDX-License-Identifier: MIT
 *
 * pass: what the loop does when it is woken. It looks at policies, time limits, due tasks, runners,
 * value queues, the loop's own tasks and callbacks, and then arms the timer.
 *
 * A pass holds the lock, except during user code and between two batches.
 *
 * There are three rules. Tasks that a callback schedules wait for the next pass. When the budget is
 * used up, the rest of the work is left to another pass: this pass wakes the loop again, and the
 * loop polls for I/O in between. Arming the timer is the last step: its time is decided under the
 * lock, and no user code runs between that decision and uv_timer_start.
 */
#include "loop/loop.h"

#include "core/trace.h"
#include "pool/crew.h"

struct pass {
  uint64_t began_ns, until_ns;
  bool full;       /* makes callbacks; otherwise it only makes tasks ready and sends runners */
  bool leaves_due; /* leaves due tasks to the timer, or to a runner */
};

void uvs__own_loop(uvs_t *s) {
  /* Both relaxed: each thread looks only for its own number. If another thread takes over the loop,
   * the program synchronizes the two. */
  uvs__store(&s->loop_thread, uvs__self(), relaxed);
  uvs__store(&s->loop_tid, uvs__thread.tid, relaxed);
}

uint64_t uvs__wall_due(const uvs_t *s, uint64_t wall_ns, uint64_t now_ns) {
  const struct uvs__heap_entry *e = uvs__heap_head(&s->table.wall);

  if (e == NULL)
    return UVS__NEVER;
  return e->deadline_ns <= wall_ns ? now_ns : uvs__steps_later(now_ns, 1, e->deadline_ns - wall_ns);
}

/* ---- the beginning of a pass ---- */

/* Lock held: is there something to do that only a full pass does? */
static bool needs_full(const uvs_t *s, uint64_t now_ns) {
  const struct uvs__heap_entry *limit = uvs__heap_head(&s->table.limits);

  return s->at.wake_sent || s->closing || s->shut || s->home.executor != NULL ||
         uvs__has_loop_work(s) || (limit != NULL && limit->deadline_ns <= now_ns) ||
         s->queues.due_ns <= now_ns || uvs__ticker_lost(&s->ticker) ||
         (s->any_calendars && s->zones_look_ns <= now_ns);
}

/* Lock held: the loop was held up from from_ns to to_ns. Short delays are not counted. */
static void note_held(uvs_t *s, uint64_t from_ns, uint64_t to_ns) {
  struct uvs__counts *c = &s->counts;

  if (to_ns < UVS__HELD_UP_NS || to_ns - UVS__HELD_UP_NS < from_ns)
    return;
  c->held_ns += to_ns - from_ns;
  if (to_ns - from_ns > c->held_max_ns)
    c->held_max_ns = to_ns - from_ns;
}

/* Lock held: the time at which this pass should have begun; UVS__NEVER: unknown. */
static uint64_t expected_pass(const uvs_t *s) {
  uint64_t sent_ns = s->at.wake_sent ? s->at.sent_ns : UVS__NEVER;

  return s->at.armed_ns < sent_ns ? s->at.armed_ns : sent_ns;
}

/* Locks, and begins a pass. False: no pass begins now, and the lock is not held. */
static bool begin_pass(uvs_t *s, struct pass *p) {
  p->began_ns = uvs__now(s);
  p->until_ns = p->began_ns + s->budget_ns;
  uvs__lock(s);
  if (s->at.in_pass) { /* a callback of this scheduler runs the loop */
    if (p->full)
      s->at.wake_sent = false; /* received: the outer pass looks again at its end */
    uvs__unlock(s);
    return false;
  }
  if (!p->full && needs_full(s, p->began_ns)) {
    uvs__note_due(s, 0); /* wakes the loop in any case */
    uvs__unlock_and_wake(s, 0);
    return false;
  }
  uvs__own_loop(s);
  note_held(s, expected_pass(s), p->began_ns);
  if (uvs__is_traced(s))
    uvs__trace_put_pass(s, p->began_ns);
  s->at.in_pass = true;
  s->at.watch_wanted = false;
  s->at.pass_ns = p->began_ns;
  s->delay.soonest_ns = UVS__NEVER;
  if (p->full) {
    s->at.wake_sent = false;
    s->at.first_pass = false;
    s->counts.wakeups++;
    uvs__take_back(s);
  }
  return true;
}

/* ---- due ---- */

/* If there are wall-clock tasks: reads that clock, and computes how far it was set forward since
 * the last look. */
static void look_at_wall(uvs_t *s, struct uvs__handing *h) {
  bool known = s->wall_known;
  int64_t offset_ns;

  s->wall_known = s->table.wall.count > 0;
  if (!s->wall_known)
    return;
  uvs__unlock(s);
  if (!uvs__clock_replaced(&s->clock))
    uvs__ticker_watch_wall(&s->ticker);
  h->wall_ns = uvs__clock_wall(&s->clock);
  uvs__lock(s);
  offset_ns = (int64_t)h->wall_ns - (int64_t)h->now_ns;
  if (known && offset_ns > s->wall_offset_ns)
    h->step_ns = (uint64_t)(offset_ns - s->wall_offset_ns);
  s->wall_offset_ns = offset_ns;
}

/* A runner looks for due tasks, too. If one runner is enough, is busy, and keeps up with the time,
 * the loop leaves the rest to it for 1 ms (W6, 10^5 x 100 ms: 0.85 of the CPU time). */
static bool is_left_to_runner(const uvs_t *s, uint64_t now_ns) {
  return uvs__crew_is_alone(&s->home) && s->home.active > 0 && s->home.startable >= UVS__BATCH &&
         s->loop_ready.count == 0 && s->table.wall.count == 0 && !s->shut && uvs__waits_by_ms(s) &&
         uvs__delay_bound(&s->delay) + UVS__MS > now_ns;
}

/* Due tasks become ready, until the budget is used up. */
static void hand_over_ready(uvs_t *s, struct pass *p) {
  struct uvs__handing h = {p->began_ns, p->began_ns, 0, 0};
  /* At this many loop tasks the pass stops here, and runs them first. But if the last pass left
   * some, loop tasks take long. Then there is no limit: otherwise pool tasks, and loop tasks of a
   * higher class, would stay in the delay queue behind them. */
  uint32_t most = s->loop_ready.count > 0 ? UINT32_MAX : UVS__LOOP_READY_MANY;
  bool more;

  look_at_wall(s, &h);
  if (s->at.carried_ns != 0)
    h.pass_ns = s->at.carried_ns;
  while ((more = uvs__collect(s, &h, true)) && s->loop_ready.count < most) {
    uint64_t now_ns;

    p->leaves_due = is_left_to_runner(s, h.now_ns);
    if (p->leaves_due)
      break;
    now_ns = uvs__let_others_in(s);
    if (now_ns >= p->until_ns)
      break;
    if (h.wall_ns != 0)
      h.wall_ns += now_ns - h.now_ns; /* both clocks advance alike */
    h.now_ns = now_ns;
  }
  s->at.carried_ns = more && !p->leaves_due ? h.pass_ns : 0;
}

static void expire_limits(uvs_t *s, const struct pass *p) {
  bool more = true;

  while (more) {
    uint32_t slot = uvs__limits_expire(s, p->began_ns, &more);

    if (slot != UVS__NONE) {
      const struct uvs__task *t = uvs__task(s, slot);
      uvs_id_t id = uvs__id_of(s, t, slot);
      int status = uvs__extra(s, t)->limit_status;
      void *arg = t->arg;

      uvs__unlock(s);
      s->error_cb(s, id, status, arg);
      uvs__lock(s);
    }
    more = more && uvs__let_others_in(s) < p->until_ns;
  }
}

/* Serves the value queues, if one of them wants the loop now. */
static void serve_queues(uvs_t *s, const struct pass *p) {
  void (*serve)(uvs_t *, uint64_t) = s->queues.serve;

  if (!s->queues.dirty && s->queues.due_ns > p->began_ns)
    return;
  uvs__unlock(s);
  serve(s, p->until_ns); /* if something is left, it sets `dirty` or due_ns */
  uvs__lock(s);
}

/* ---- the loop's own tasks ---- */

/* Runs at least one ready task, and more until the budget is used up. Loop tasks that a runner
 * finds due meanwhile wait for the next pass. If a body shuts the scheduler down, the next pass
 * decides which tasks may still run. */
static void run_on_loop(uvs_t *s, const struct pass *p) {
  struct uvs__seat seat = {UVS_ON_LOOP, s->at.pass_ns - s->at.overrun_ns, s->at.pass_ns};
  struct uvs__run_end e = {.over_ns = 0};
  struct uvs__started st;
  int steps = UVS__BATCH;

  s->at.overrun_ns = 0;
  if (s->loop_ready.count == 0)
    return;
  e.over_ns = uvs__let_others_in(s);
  while (!s->at.policy_changed &&
         uvs__start_next(s, &s->loop_ready, &seat, e.over_ns, &st, &steps) != UVS__NONE) {
    uvs__unlock(s);
    uvs__record_start(s, &st, &s->loop_cell);
    uvs__call_body(s, &st, &e);
    uvs__lock(s);
    uvs__return_body(s, &st, &e, &s->loop_cell);
    if (e.over_ns >= p->until_ns)
      break;
    steps = UVS__BATCH;
  }
  if (s->loop_ready.count > 0 && e.over_ns > p->until_ns)
    s->at.overrun_ns = e.over_ns - p->until_ns;
}

/* ---- the end of a pass ---- */

/* The last call of the callback that uvs_shutdown_now was given. */
static void tell_all_given_back(uvs_t *s) {
  uvs_never_ran_cb each = s->never_ran_cb;

  if (!uvs__all_given_back(s))
    return;
  s->never_ran_cb = NULL;
  uvs__unlock(s);
  each(s, 0, NULL, s->never_ran_arg);
  uvs__lock(s);
}

static void check_terminated(uvs_t *s) {
  if (!uvs__can_terminate(s))
    return;
  s->terminated = true;
  uvs__wake_terminated(s);
  uvs__unlock(s);
  if (s->terminated_cb != NULL)
    s->terminated_cb(s);
  uvs__lock(s);
}

/* Something is due at next_ns, which has passed. Can it wait for the timer, which counts in whole
 * ms anyway? A task that became due during the pass can: a faster pass would have left it to the
 * timer, too. A task that was put into the queue during the pass cannot. */
static bool can_wait(const uvs_t *s, const struct pass *p, uint64_t next_ns, uint64_t now_ns) {
  return uvs__waits_by_ms(s) && s->delay.soonest_ns > now_ns &&
         (p->leaves_due || (next_ns > p->began_ns && next_ns == uvs__delay_bound(&s->delay)));
}

/* Lets the loop sleep, or wakes it again if something is left. Unlocks. */
static void end_pass(uvs_t *s, const struct pass *p) {
  bool replaced = uvs__clock_replaced(&s->clock);
  int steps = UVS__BATCH;
  struct uvs__wake w = {.keep = true};
  uint64_t now_ns, wall_ns, next_ns;
  bool more, held_back;

  uvs__unlock(s); /* clocks are user code */
  now_ns = uvs__now(s);
  wall_ns = uvs__clock_wall(&s->clock);
  uvs__lock(s);
  if (uvs__is_traced(s))
    uvs__trace_put_pass_end(s, now_ns);
  /* Never start the timer for a cancelled task: cancelled tasks cause one empty wake-up in all, not
   * one each (L11). */
  if (!replaced && s->ticker.armed_ns > uvs__delay_bound(&s->delay))
    uvs__delay_settle(&s->delay, &steps);
  next_ns = uvs__wall_due(s, wall_ns, now_ns);
  if (s->table.wall.count > 0 && next_ns > now_ns + UVS__WALL_CAP_NS)
    next_ns = now_ns + UVS__WALL_CAP_NS; /* the wall clock may be set without notice */
  next_ns = uvs__next_look(s, next_ns);
  (void)uvs__crew_wants(&s->home, &held_back); /* for tasks that came after send_runners */
  s->at.held_back |= held_back;
  if (s->at.held_back && now_ns + UVS__HELD_BACK_NS < next_ns)
    next_ns = now_ns + UVS__HELD_BACK_NS;
  more = uvs__has_loop_work(s) || s->at.runner_wanted || s->at.carried_ns != 0;
  more |= next_ns <= now_ns && !can_wait(s, p, next_ns, now_ns);
  w.kept = uvs__wants_keep(s);
  s->at.kept = w.kept;
  s->at.in_pass = false;
  s->at.slept_ns = now_ns;
  note_held(s, p->until_ns, now_ns);
  s->delay.soonest_ns = UVS__NEVER;
  s->counts.wakeups += !p->full && !more; /* else the full pass that follows is counted */
  s->at.armed_ns = replaced ? UVS__NEVER : next_ns;
  w.send = more && !s->at.mute && !s->at.wake_sent;
  if (w.send) {
    s->at.wake_sent = true;
    s->at.sent_ns = now_ns;
    uvs__ticker_hold(&s->ticker);
  } else if (!replaced) {
    w.arm_ns = next_ns;
  }
  uvs__unlock(s);
  uvs__wake_do(s, w, now_ns);
}

/* ---- both kinds of pass ---- */

void uvs__dispatch(uvs_t *s, bool timer) {
  struct pass p = {.full = false};

  uvs__notice_loss(s); /* a full pass cannot: it needs the async handle */
  if (!begin_pass(s, &p))
    return;
  /* If a runner is back and the timer fires within 1 ms, due tasks are left to the timer. So all
   * tasks that become due in this ms are handed over together. */
  p.leaves_due =
      !timer && uvs__waits_by_ms(s) && uvs__delay_bound(&s->delay) + UVS__MS > p.began_ns;
  if (!p.leaves_due)
    hand_over_ready(s, &p);
  uvs__send_runners(s, p.began_ns, p.until_ns, false);
  end_pass(s, &p);
}

void uvs__pass(uvs_t *s) {
  struct pass p = {.full = true};

  uvs__notice_loss(s);
  if (!begin_pass(s, &p))
    return;
  if (p.began_ns >= uvs__load(&s->kill_ns, relaxed)) { /* written under the lock */
    uvs__unlock(s);
    uvs__stop_now(s, NULL, NULL);
    uvs__lock(s);
  }
  uvs__apply_policies(s);
  uvs__look_at_zones(s, p.began_ns);
  if (s->closing)
    uvs__close_parts(s);
  expire_limits(s, &p);

  /* Under overload, due tasks alone would use up the budget, and only one callback would be made in
   * each pass. Finished tasks do not count against max_pending, so memory would grow. If the last
   * pass left callbacks, half of this one is reserved for them. */
  if (s->at.behind)
    uvs__make_callbacks(s, p.began_ns + s->budget_ns / 2);
  hand_over_ready(s, &p);
  uvs__send_runners(s, p.began_ns, p.until_ns, true);
  serve_queues(s, &p);
  run_on_loop(s, &p);
  uvs__make_callbacks(s, p.until_ns);
  uvs__make_calls(s, p.until_ns);
  uvs__send_runners(s, p.began_ns, p.until_ns, true); /* an `after` may let other tasks start */
  tell_all_given_back(s);
  check_terminated(s);
  end_pass(s, &p);
  if (s->closing)
    uvs__finish_close(s);
}
