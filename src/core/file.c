/* SPDX-License-Identifier: MIT
 *
 * file: puts a waiting task where it belongs, and makes it ready when it is due.
 */
#include "core/moves.h"

#include "core/wake.h"

/* ---- waiting ---- */

bool uvs__may_run(const uvs_t *s, const struct uvs__task *t, const struct uvs__extra *x) {
  if (x != NULL && x->gate != NULL && x->gate->shut)
    return false;
  if (!s->shut)
    return true;
  if (x != NULL && x->paused) /* a shutdown cancels paused tasks */
    return false;
  if (uvs__load(&s->stop, relaxed)) /* written under the lock */
    return false;
  if (t->kind != UVS_ONE_SHOT)
    return s->survive[UVS_PERIODIC_TASKS] != 0;
  if (t->state == UVS__READY || s->survive[UVS_DELAYED_TASKS] != 0)
    return true;
  return t->due_ns <= (uvs__has(t, UVS__WALL) ? s->shutdown_wall_ns : s->shutdown_ns);
}

/* A hook must be called, or a result dropped, before the next run. */
static bool owes_hook(const struct uvs__extra *x) {
  return x != NULL && (x->decorate || x->failed_owed != 0 || x->missed_owed != 0 ||
                       x->dropped[0] != NULL || x->point_owed);
}

/* An entry in the queue of the wall clock names the task's extra record, not its slot. Its deadline
 * is the task's. But a run that was asked for is due however the clock is set: its entry is first.
 */
static void put_wall(uvs_t *s, struct uvs__task *t, const struct uvs__extra *x) {
  uvs__heap_push(&s->table.wall, uvs__is_asked_for(x) ? 0 : t->due_ns,
                 (uint64_t)t->seq << UVS__SLOT_BITS | (t->extra - 1));
  t->place = UVS__IN_WALL;
  s->at.watch_wanted |= !s->at.watch_asked;
  s->at.watch_asked = true;
}

void uvs__note_wall(uvs_t *s, const struct uvs__task *t, uint64_t now_ns, uint64_t wall_ns) {
  uint64_t due_ns = now_ns + UVS__WALL_CAP_NS;

  if (t->due_ns <= wall_ns)
    due_ns = now_ns;
  else if (t->due_ns - wall_ns < UVS__WALL_CAP_NS)
    due_ns = now_ns + (t->due_ns - wall_ns);
  uvs__note_due(s, due_ns);
}

void uvs__file(uvs_t *s, uint32_t slot, uint64_t now_ns) {
  struct uvs__task *t = uvs__task(s, slot);
  struct uvs__extra *x = uvs__extra(s, t);

  UVS_ASSERT(t->state == UVS__WAITING && t->place == UVS__NOWHERE);
  if ((x != NULL || s->shut) && !uvs__may_run(s, t, x)) {
    uvs__end_refused(s, slot);
  } else if (owes_hook(x)) {
    uvs__list_append(s, &s->at.owed, slot, UVS__IN_OWED);
  } else if (t->due_ns >= UVS__NEVER || (x != NULL && uvs__is_held_back(x))) {
    /* in no queue */
  } else if (uvs__has(t, UVS__WALL)) {
    put_wall(s, t, x);
  } else {
    t->place = UVS__IN_DELAY;
    uvs__delay_put(&s->delay, slot, now_ns);
  }
}

void uvs__unfile(uvs_t *s, uint32_t slot, struct uvs__task *t) {
  switch ((enum uvs__place)t->place) {
  case UVS__IN_DELAY:
    uvs__delay_remove(&s->delay, slot);
    t->place = UVS__NOWHERE;
    break;
  case UVS__IN_WALL:
    uvs__heap_remove(&s->table.wall, (uint32_t)t->extra - 1);
    t->place = UVS__NOWHERE;
    break;
  case UVS__IN_ARRIVALS:
    uvs__list_remove(s, &s->at.arrivals, slot);
    break;
  case UVS__WITH_CALLER:
    t->place = UVS__NOWHERE;
    break;
  case UVS__IN_OWED: /* the task stays there: the loop acts on the state that it then finds */
  case UVS__NOWHERE:
  case UVS__IN_READY:
  case UVS__IN_GATE:
    break;
  }
}

void uvs__move(uvs_t *s, uint32_t slot, uint64_t due_ns, uint64_t now_ns) {
  struct uvs__task *t = uvs__task(s, slot);
  struct uvs__extra *x = uvs__extra(s, t);

  UVS_ASSERT(t->state == UVS__WAITING);
  if (x != NULL) { /* the grid moves to due_ns */
    x->jitter_now_ns = 0;
    x->grid_ns = x->last_ns = due_ns;
    x->passed_ns = UVS__NEVER;
    x->step_ns = 0;
    x->extra_run = x->at_once = x->point_owed = x->zone_changed = false;
    if (x->since_ns > due_ns) /* a guess of uvs__give_extra; the submission was before now */
      x->since_ns = due_ns;
  }
  if (t->place == UVS__IN_DELAY && due_ns < UVS__NEVER && (x == NULL || !uvs__is_held_back(x))) {
    uvs__delay_move(&s->delay, slot, due_ns, now_ns);
    return;
  }
  if (t->place == UVS__IN_OWED) {
    t->due_ns = due_ns;
    return;
  }
  uvs__unfile(s, slot, t);
  t->due_ns = due_ns;
  uvs__file(s, slot, now_ns);
}

void uvs__give_extra(uvs_t *s, uint32_t slot) {
  struct uvs__task *t = uvs__task(s, slot);
  struct uvs__extra *x;

  uvs__table_add_extra(&s->table, slot);
  x = uvs__extra(s, t);
  x->total_limit_ns = x->limit_due_ns = x->until_ns = UVS__NEVER;
  x->since_ns = uvs__has(t, UVS__DELAYED) ? 0 : t->due_ns;
  x->runs = uvs__has(t, UVS__RAN);
  x->failures = t->state == UVS__ENDED && !uvs__has(t, UVS__CANCELLED) && t->status < 0;
  x->decoration = (uvs_decoration_t){t->fn, t->arg, NULL};
  x->lane_previous = x->lane_next = UVS__NONE;
  x->key_ns = t->due_ns;
  x->key_seq = t->seq;
}

/* ---- ready ---- */

/* Does the task's next run belong to the loop thread? */
static bool is_loops(uvs_t *s, const struct uvs__task *t, const struct uvs__extra *x) {
  return uvs__has(t, UVS__LOOP) || uvs__crew_of(s, x)->concurrency == 0;
}

/* Notes when the task was due by the monotonic clock, and its key among the ready tasks. A run that
 * catches up counts as due no earlier than UVS__CATCH_UP_NS before the end of the task's previous
 * run. */
static void note_lateness(uvs_t *s, struct uvs__task *t, struct uvs__extra *x,
                          const struct uvs__handing *h) {
  uint64_t least_ns =
      x->runs == 0 || x->since_ns < UVS__CATCH_UP_NS ? 0 : x->since_ns - UVS__CATCH_UP_NS;

  x->key_ns = t->due_ns;
  if (uvs__has(t, UVS__WALL)) {
    x->wall_late_ns = h->wall_ns - t->due_ns;
    x->step_ns += h->step_ns; /* a calendar task may have noted it in is_still_due */
    x->key_ns = h->now_ns > x->wall_late_ns ? h->now_ns - x->wall_late_ns : 0;
  } else if (uvs__waits_by_ms(s) && x->since_ns < t->due_ns) {
    t->flags |= UVS__DELAYED;
  }
  if (x->key_ns < least_ns)
    x->key_ns = least_ns;
  x->key_seq = t->seq;
}

void uvs__make_ready(uvs_t *s, uint32_t slot, const struct uvs__handing *h) {
  struct uvs__task *t = uvs__task(s, slot);
  struct uvs__extra *x = uvs__extra(s, t);
  uint64_t us = h->now_ns <= h->pass_ns ? 0 : (h->now_ns - h->pass_ns) / 1000;

  UVS_ASSERT(t->place == UVS__NOWHERE);
  s->recent_ns = h->now_ns;
  uvs__set_state(t, UVS__READY);
  s->counts.waiting--;
  s->counts.ready++;
  t->ready_ns = h->now_ns;
  t->turn_us = us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
  if (is_loops(s, t, x))
    t->flags |= UVS__ON_LOOP;
  if (x != NULL) {
    note_lateness(s, t, x, h);
    if (x->limited)
      uvs__limit_begin(s, t, x);
  }
  if (x != NULL && x->gate != NULL) {
    uvs__gate_enter(s, x->gate, slot);
    return;
  }
  uvs__ready_add(&s->table, uvs__ready_of(s, t), slot);
  s->home.startable += !uvs__has(t, UVS__ON_LOOP);
}

void uvs__unready(uvs_t *s, uint32_t slot, struct uvs__task *t, bool starts) {
  struct uvs__extra *x = uvs__extra(s, t);

  if (x != NULL && x->gate != NULL) {
    uvs__gate_leave(s, x->gate, slot, starts);
    return;
  }
  uvs__ready_remove(&s->table, uvs__ready_of(s, t), slot);
  s->home.startable -= !uvs__has(t, UVS__ON_LOOP);
}

/* ---- due ---- */

void uvs__miss(uvs_t *s, struct uvs__extra *x, uint64_t count, int reason) {
  if (count == 0)
    return;
  x->missed_total += count;
  s->counts.missed += count;
  if (s->missed_cb == NULL)
    return;
  x->missed_owed += count;
  x->missed_reason = (uint8_t)reason;
}

/* Why is the task late already? */
static int why_late(const uvs_t *s, const struct uvs__task *t, const struct uvs__extra *x,
                    const struct uvs__handing *h) {
  int64_t by_ns[UVS_LATE_CAUSES];
  struct uvs__late l = {
      .due_ns =
          (int64_t)(uvs__has(t, UVS__WALL) ? h->now_ns - (h->wall_ns - t->due_ns) : t->due_ns),
      .step_ns = (int64_t)(uvs__has(t, UVS__WALL) ? h->step_ns : 0),
      .ended_ns = x->run.end_ns,
      .after_ns = (int64_t)x->after_ns,
      .since_ns = (int64_t)x->since_ns,
      .resumed_ns = (int64_t)uvs__load(&s->resumed_ns, relaxed), /* written under the lock */
      .turn_ns = (int64_t)h->pass_ns,
      .ready_ns = (int64_t)h->now_ns,
      .start_ns = (int64_t)h->now_ns,
      .timed = uvs__waits_by_ms(s) && !uvs__has(t, UVS__WALL) && x->since_ns < t->due_ns,
      .first = x->runs == 0,
  };

  if (x->since_resumed)
    uvs__late_resumed(&l);
  return uvs__late_split(&l, by_ns);
}

/* A periodic task was taken out of its queue. False: it does not run now, because points of its
 * grid are left out (it was filed again) or its end time has passed (it has ended). */
static bool is_still_due(uvs_t *s, uint32_t slot, struct uvs__task *t,
                         const struct uvs__handing *h) {
  struct uvs__extra *x = uvs__extra(s, t);
  struct uvs__recur r = uvs__recur_of(t, x);
  struct uvs__point p = {uvs__ideal_of(t, x), 0};

  if (t->kind == UVS_CALENDAR && !uvs__is_off_grid(x) && h->wall_ns >= x->passed_ns) {
    uvs__owe_point(x, true, why_late(s, t, x, h));
    x->step_ns = h->step_ns;
    uvs__file(s, slot, h->now_ns);
    return false;
  }
  if (!uvs__is_off_grid(x))
    p = uvs__recur_due(&r, p.ideal_ns, h->now_ns);
  if (p.ideal_ns > x->until_ns) {
    uvs__complete(s, slot);
    return false;
  }
  if (p.missed == 0)
    return true;
  uvs__miss(s, x, p.missed, why_late(s, t, x, h));
  x->missed_next += p.missed;
  uvs__set_due(t, x, p.ideal_ns, x->jitter_now_ns);
  uvs__file(s, slot, h->now_ns);
  return false;
}

/* A due task was taken out of its queue: it becomes READY, unless is_still_due says no. */
static inline void hand_over(uvs_t *s, uint32_t slot, struct uvs__task *t,
                             const struct uvs__handing *h) {
  if (t->kind == UVS_ONE_SHOT || is_still_due(s, slot, t, h))
    uvs__make_ready(s, slot, h);
}

/* Takes the next due task of either clock out of its queue; UVS__NONE: none. The task that has been
 * due for longer comes first. */
static uint32_t take_due(uvs_t *s, const struct uvs__handing *h, int *steps) {
  const struct uvs__heap_entry *wall = h->wall_ns == 0 ? NULL : uvs__heap_head(&s->table.wall);
  uint64_t bound_ns;
  uint32_t slot;

  if (wall != NULL && wall->deadline_ns <= h->wall_ns) {
    if (!uvs__delay_settle(&s->delay, steps)) /* else the bound may be too early */
      return UVS__NONE;
    bound_ns = uvs__delay_bound(&s->delay);
    if (bound_ns > h->now_ns || h->wall_ns - wall->deadline_ns > h->now_ns - bound_ns) {
      struct uvs__extra *x = uvs__slots_at(&s->table.extras, uvs__heap_slot(wall));
      struct uvs__task *t = uvs__task(s, x->slot);

      slot = x->slot;
      uvs__unfile(s, slot, t);
      if (t->due_ns > h->wall_ns) /* it was asked for, and the clock was set back since then */
        uvs__set_due(t, x, h->wall_ns, 0);
      --*steps;
      return slot;
    }
  }
  slot = uvs__delay_take(&s->delay, h->now_ns, steps);
  if (slot != UVS__NONE)
    uvs__task(s, slot)->place = UVS__NOWHERE;
  return slot;
}

/* Runners put due tasks that only the loop can run into `arrivals`. Makes these tasks READY. */
static void collect_arrivals(uvs_t *s, const struct uvs__handing *h, int *steps) {
  uint32_t slot;

  while (*steps > 0 && (slot = s->at.arrivals.first) != UVS__NONE) {
    --*steps;
    uvs__list_remove(s, &s->at.arrivals, slot);
    hand_over(s, slot, uvs__task(s, slot), h);
  }
}

bool uvs__collect(uvs_t *s, const struct uvs__handing *h, bool by_loop) {
  int steps = UVS__BATCH;
  uint32_t slot;

  if (s->paused)
    return false;
  if (by_loop)
    collect_arrivals(s, h, &steps);
  while ((slot = take_due(s, h, &steps)) != UVS__NONE) {
    struct uvs__task *t = uvs__task(s, slot);

    if (t->extra != 0) { /* the run will need these cache lines */
      const char *x = (const char *)uvs__extra(s, t);

      __builtin_prefetch(x, 1);
      __builtin_prefetch(x + 64, 1);
      __builtin_prefetch(x + 128, 1);
      __builtin_prefetch(x + 192, 1);
      __builtin_prefetch(x + 256, 1);
    }
    if (!by_loop && is_loops(s, t, uvs__extra(s, t)))
      uvs__list_append(s, &s->at.arrivals, slot, UVS__IN_ARRIVALS);
    else
      hand_over(s, slot, t, h);
  }
  return steps <= 0;
}
