/* SPDX-License-Identifier: MIT
 *
 * tick: the main flow, a turn of the loop. Take in what other threads sent, call back, hand over
 * what is due, run the loop's own tasks, arm the timer.
 *
 * Three rules. What a callback schedules waits for the next turn. After the budget the rest is
 * carried over: we send to ourselves and let I/O have its turn. No user code runs while one of our
 * structures is half changed.
 */
#include "scheduler.h"

#include "late.h"

#define MS UINT64_C(1000000)
#define BATCH 64
/* So many due tasks of the loop's are handed over before they are run. Not if the last turn could
 * not run them all: then they take long, and must not keep others, of the pool or of a higher
 * class, in the queue. */
#define DUE_MANY 1024

/* What the tasks that a turn hands over have in common, to tell later why they were late. */
struct handing {
  uint64_t turn_ns;  /* the turn began; if it is one of several that were too short, the first */
  uint64_t ready_ns; /* now */
  uint64_t wall_ns;
  uint64_t step_ns; /* so far was the wall clock set forward since the last turn */
};

/* ---- in ---- */

/* How far the wall clock was set forward since the last look at both. */
static uint64_t step_of_wall(uvs_t *s, uint64_t wall_ns, uint64_t now_ns) {
  int64_t offset_ns = (int64_t)wall_ns - (int64_t)now_ns;
  int64_t step_ns = s->wall_known ? offset_ns - s->wall_offset_ns : 0;

  s->wall_known = true;
  s->wall_offset_ns = offset_ns;
  return step_ns < 0 ? 0 : (uint64_t)step_ns;
}

void uvs__wait_for_due(uvs_t *s, uint32_t slot, uint64_t w) {
  uvs__limit_end(s, slot);
  if (!uvs__may_run(s, uvs__slot(s, slot), w)) {
    uvs__end_refused(s, slot);
    return;
  }
  if (uvs__is_wall(w)) {
    if (!uvs__clock_replaced(&s->clock))
      uvs__wallwatch_open(&s->watch, s->loop);
    if (!s->wall_known)
      step_of_wall(s, uvs__clock_wall(&s->clock), uvs__now(s)); /* from here on one is noticed */
  }
  uvs__agenda_insert(&s->agenda, slot, w);
}

/* It came in ENDED. */
static void bury(uvs_t *s, uint32_t slot, uint64_t w) {
  if ((w & UVS__DEAD) != 0)
    uvs__sub(&s->inbox.dead, 1, relaxed); /* a count */
  uvs__conclude(s, slot, w);
}

/* The hook may call anything: the task is still on its way, as for every other call. */
static void decorate(uvs_t *s, uint32_t slot, uint64_t w) {
  struct uvs__slot *t = uvs__slot(s, slot);
  uvs_decoration_t d = uvs__agenda_cold(&s->agenda, t)->decoration;

  s->decorate_cb(s, uvs__id(w, slot), &d);
  if (d.work == NULL)
    d.work = uvs__load(&t->fn, relaxed); /* not a body: it stays as it was */
  uvs__agenda_cold(&s->agenda, t)->decoration = d;
}

void uvs__take_in_new(uvs_t *s, uint32_t slot) {
  struct uvs__slot *t = uvs__slot(s, slot);
  uint64_t w = uvs__load(&t->word, relaxed); /* the CAS acquires */

  uvs__agenda_number(&s->agenda, slot);
  if (s->decorate_cb != NULL && uvs__word_state(w) == UVS__WAITING && uvs__may_run(s, t, w)) {
    decorate(s, slot, w);
    w = uvs__load(&t->word, relaxed); /* the CAS acquires */
  }
  /* A guessed id may have cancelled it already: then it is ENDED, and still INBOX. */
  while (!uvs__word_try(t, &w,
                        uvs__word_state(w) == UVS__WAITING
                            ? (w & ~(UVS__INBOX | UVS__PUSHES)) | UVS__TAKEN
                            : w | UVS__TAKEN)) {
  }
  s->taken++;
  s->taken_ref += (w & UVS__REF) != 0;
  uvs__lane_enter(s, slot);
  if (uvs__word_state(w) != UVS__WAITING) {
    bury(s, slot, w);
    return;
  }
  if ((w & UVS__PUSHES) != 0 && !uvs__make_room(s, slot, w))
    return;
  if ((w & UVS__MOVING) == 0)
    uvs__wait_for_due(s, slot, w);
}

/* uvs__take_in_new of the most common kind. False if it is not of that: nothing has happened. */
static bool take_in_plain(uvs_t *s, uint32_t slot, struct uvs__slot *t, uint64_t w) {
  uint64_t deadline_ns;

  if ((w & (UVS__STATE_MASK | UVS__INBOX | UVS__MOVING | UVS__PUSHES | UVS__KIND_MASK)) !=
          ((uint64_t)UVS__WAITING | UVS__INBOX) ||
      uvs__agenda_cold(&s->agenda, t) != NULL || s->decorate_cb != NULL ||
      uvs__inbox_is_shutting(&s->inbox))
    return false;
  uvs__agenda_number_plain(&s->agenda, t);
  if (!uvs__word_try(t, &w, (w & ~UVS__INBOX) | UVS__TAKEN))
    return false; /* a guessed id was used; it is only numbered once more */
  s->taken++;
  s->taken_ref += (w & UVS__REF) != 0;
  /* relaxed: whoever wrote it handed the slot over through the inbox */
  deadline_ns = uvs__load(&t->deadline_ns, relaxed);
  if (deadline_ns < UVS__NEVER)
    uvs__wheel_put(&s->agenda.wheel, slot, deadline_ns,
                   s->agenda.last_seq << UVS__SLOT_BITS | slot);
  return true;
}

/* Move 2: a slot came in. */
static void take_in_one(uvs_t *s, uint32_t slot) {
  struct uvs__slot *t = uvs__slot(s, slot);
  uint64_t w = uvs__load(
      &t->word, acquire); /* pairs with the word's last release; the push orders the fields */

  if ((w & UVS__TAKEN) == 0) {
    if (!take_in_plain(s, slot, t, w))
      uvs__take_in_new(s, slot);
    return;
  }
  s->brought = true;
  while (uvs__word_state(w) == UVS__WAITING) {
    if ((w & UVS__MOVING) == 0 && uvs__has_news(s, uvs__agenda_cold(&s->agenda, t))) {
      uvs__list_news(s, slot); /* it comes here again when they are told */
      return;
    }
    if (!uvs__word_try(t, &w, w & ~UVS__INBOX))
      continue;
    if ((w & UVS__MOVING) == 0) /* else the mover sends it again */
      uvs__wait_for_due(s, slot, w);
    return;
  }
  switch (uvs__word_state(w)) {
  case UVS__RUNNING:
    uvs__chain_append(s, &s->todo, slot);
    break;
  case UVS__ENDED:
    uvs__unlink_ended(s, slot, w);
    bury(s, slot, w);
    break;
  default:
    UVS_ASSERT(uvs__word_state(w) == UVS__OVER);
    uvs__retire(s, slot);
  }
}

/* Until the time is over; UVS__NEVER: all. True if something is left. */
static bool take_in_until(uvs_t *s, uint64_t until_ns) {
  uint32_t first, last;
  bool shut;

  first = uvs__inbox_take(&s->inbox, &last, &shut);
  uvs__learn_of_here(s); /* before what is among them can be over */
  if (first != UVS__NONE) {
    if (s->intake.head == UVS__NONE)
      s->intake.head = first;
    else
      uvs__store(&uvs__slot(s, s->intake.tail)->next, first,
                 relaxed); /* loop only while INBOX is set */
    s->intake.tail = last;
  }
  if (s->taking_in)
    return false; /* the decorate hook called us: who called that goes on with these */
  s->taking_in = true;
  for (unsigned n = 1; s->intake.head != UVS__NONE; n++) {
    take_in_one(s, uvs__chain_pop(s, &s->intake));
    if (n % BATCH == 0 && until_ns != UVS__NEVER && uvs__now(s) >= until_ns)
      break;
  }
  s->taking_in = false;
  return s->intake.head != UVS__NONE;
}

void uvs__take_in(uvs_t *s) {
  take_in_until(s, UVS__NEVER);
}

/* ---- due ---- */

/* SKIP has moved it on: it waits again. Tell the hook first, if there is one. */
static void wait_again(uvs_t *s, uint32_t slot, uint64_t w) {
  struct uvs__slot *t = uvs__slot(s, slot);

  if (!uvs__has_news(s, uvs__agenda_cold(&s->agenda, t))) {
    uvs__agenda_insert(&s->agenda, slot, w);
    return;
  }
  while (uvs__word_state(w) == UVS__WAITING && (w & (UVS__INBOX | UVS__MOVING)) == 0) {
    if (uvs__word_try(t, &w, w | UVS__INBOX)) {
      uvs__list_news(s, slot);
      return;
    }
  } /* else it was cancelled or moved, and the inbox brings it */
}

static int why_late(const uvs_t *s, const struct uvs__cold *c, uint64_t due_ns, uint32_t runs,
                    const struct handing *h) {
  int64_t by_ns[UVS_LATE_CAUSES];
  struct uvs__late l = {
      .due_ns = (int64_t)due_ns,
      .ended_ns = c->run.end_ns,
      .after_ns = (int64_t)c->after_ns,
      .since_ns = (int64_t)c->since_ns,
      .turn_ns = (int64_t)h->turn_ns,
      .ready_ns = (int64_t)h->ready_ns,
      .start_ns = (int64_t)h->ready_ns,
      .timed = uvs__waits_by_ms(s) && c->since_ns < due_ns,
      .first = runs == 0,
  };

  return uvs__late_split(&l, by_ns);
}

/* A point of the grid may have to be left out, or the end time may have come: then the task is not
 * due after all. */
static bool still_due(uvs_t *s, uint32_t slot, uint64_t w, const struct handing *h) {
  struct uvs__slot *t = uvs__slot(s, slot);
  struct uvs__cold *c = uvs__agenda_cold(&s->agenda, t);
  uint64_t now_ns = h->ready_ns;
  uint64_t missed_ns;
  struct uvs__recur r;
  struct uvs__point p;
  uint64_t jitter_ns;
  uint64_t due_ns;

  if (c == NULL || uvs__word_kind(w) == UVS_ONCE)
    return true;
  /* The loop's while it waits, unless a mover has come: then the CAS below fails. acquire, and
   * first: with a mover's deadline comes its jitter. */
  due_ns = uvs__load(&t->deadline_ns, acquire);
  jitter_ns = uvs__load(&c->jitter_now_ns, relaxed); /* as above */
  if (due_ns > now_ns || due_ns < jitter_ns)
    return true; /* just moved: the inbox brings it */
  r = uvs__recur_of(t, c, w);
  p = (struct uvs__point){due_ns - jitter_ns, 0};
  if (!uvs__retrying(c)) /* else it is not on the grid */
    p = uvs__recur_due(&r, p.ideal_ns, now_ns);
  if (p.ideal_ns > c->until_ns) {
    uvs__complete_waiting(s, slot);
    return false;
  }
  if (p.missed == 0)
    return true;
  missed_ns = due_ns;
  while (!uvs__cas(&t->deadline_ns, &due_ns, uvs__steps_later(p.ideal_ns, 1, jitter_ns), relaxed)) {
    if (due_ns != missed_ns)
      return true; /* a mover was faster, perhaps with a time that is due: the inbox brings it */
  }
  c->missed_next += p.missed;
  /* relaxed: not RUNNING, so nobody writes it */
  uvs__miss(s, c, p.missed, why_late(s, c, missed_ns, uvs__load(&t->runs, relaxed), h));
  wait_again(s, slot, w);
  return false;
}

/* It is out of the queue. */
static bool can_start(uvs_t *s, uint32_t slot, const struct handing *h) {
  /* acquire: pairs with the release of who moved or cancelled it */
  uint64_t w = uvs__load(&uvs__slot(s, slot)->word, acquire);

  if (uvs__word_state(w) != UVS__WAITING || (w & (UVS__INBOX | UVS__MOVING)) != 0)
    return false; /* the inbox brings it */
  return still_due(s, slot, w, h);
}

/* Up to a batch of entries that are due, out of the queue; those that can be made ready into
 * `batch`. *ret_more: there may be others. */
static unsigned collect_due(uvs_t *s, const struct handing *h, uint32_t batch[BATCH],
                            bool *ret_more) {
  unsigned taken = uvs__agenda_take_front(&s->agenda, h->ready_ns, batch, BATCH);
  unsigned n = 0;

  *ret_more = true;
  for (unsigned looked = taken; looked < BATCH;) {
    unsigned put_back = uvs__agenda_put_back(&s->agenda, h->ready_ns, h->wall_ns);
    uint32_t slot;

    if (put_back > 0) { /* not due after all */
      looked += put_back;
      continue;
    }
    slot = uvs__agenda_take_due(&s->agenda, h->ready_ns, h->wall_ns);
    *ret_more = slot != UVS__NONE;
    if (slot == UVS__NONE)
      break;
    looked++;
    batch[taken++] = slot;
  }
  for (unsigned i = 0; i < taken; i++)
    uvs__agenda_prefetch_cold(&s->agenda, batch[i]);
  for (unsigned i = 0; i < taken; i++) {
    if (can_start(s, batch[i], h))
      batch[n++] = batch[i];
  }
  return n;
}

/* With the lock: it has just become READY. */
static void note_ready(uvs_t *s, uint32_t slot, uint64_t w, const struct handing *h) {
  struct uvs__slot *t = uvs__slot(s, slot);
  struct uvs__cold *c = uvs__agenda_cold(&s->agenda, t);

  if (c == NULL) { /* relaxed, all: READY, ours; the lock hands them to the runner */
    bool waited =
        uvs__locked_load(&t->period_ns, relaxed) < uvs__locked_load(&t->deadline_ns, relaxed);

    uvs__locked_store(&t->period_ns, h->ready_ns, relaxed);
    uvs__locked_store(
        &t->next, uvs__late_pack(h->turn_ns, h->ready_ns, waited && uvs__waits_by_ms(s)), relaxed);
    return;
  }
  c->turn_ns = h->turn_ns;
  c->ready_ns = h->ready_ns;
  if (uvs__is_wall(w)) {
    c->wall_late_ns = h->wall_ns - uvs__locked_load(&t->deadline_ns, relaxed); /* READY: ours */
    c->step_ns = h->step_ns;
  }
  uvs__limit_begin_locked(s, slot, c, w);
}

/* Move 3. Returns how many wait for the loop to run them. */
static uint32_t make_ready(uvs_t *s, const uint32_t *batch, unsigned n, const struct handing *h) {
  uint32_t due;

  uvs__pool_lock(&s->pool);
  for (unsigned i = 0; i < n; i++) {
    struct uvs__slot *t = uvs__slot(s, batch[i]);
    uint64_t w = uvs__locked_load(&t->word, relaxed); /* the CAS acquires */
    bool on_loop = (w & UVS__LOOP) != 0 || uvs__pool_is_loops_locked(&s->pool, batch[i]);
    uint64_t flags = UVS__LISTED | (on_loop ? UVS__ONLOOP : 0);

    while (uvs__word_state(w) == UVS__WAITING && (w & (UVS__INBOX | UVS__MOVING)) == 0) {
      uint64_t ready = uvs__word_in(w, UVS__READY) | flags;

      if (!uvs__word_try_locked(t, &w, ready))
        continue;
      uvs__pool_list_locked(&s->pool, batch[i], ready);
      note_ready(s, batch[i], w, h);
      break;
    } /* else it was cancelled or moved, and the inbox brings it */
  }
  due = s->pool.due.count;
  uv_mutex_unlock(&s->pool.lock);
  return due;
}

/* The wall clock, if there are tasks of it. */
static void look_at_wall(uvs_t *s, struct handing *h) {
  if (s->agenda.wall.count == 0) {
    s->wall_known = false;
    return;
  }
  h->wall_ns = uvs__clock_wall(&s->clock);
  h->step_ns = step_of_wall(s, h->wall_ns, h->ready_ns);
}

/* True if something due may be left. */
static bool hand_over(uvs_t *s, uint64_t until_ns) {
  struct handing h = {.turn_ns = s->turn_ns, .ready_ns = s->turn_ns};
  uint32_t most = s->due_left ? UINT32_MAX : DUE_MANY;
  uint32_t batch[BATCH];
  bool more;

  if (s->carried_ns != 0)
    h.turn_ns = s->carried_ns;
  look_at_wall(s, &h);
  for (;;) {
    uint64_t now_ns;
    unsigned n = collect_due(s, &h, batch, &more);

    if (n > 0 && make_ready(s, batch, n, &h) >= most)
      break; /* first run these, while they are in the cache */
    now_ns = uvs__now(s);
    if (!more || now_ns >= until_ns)
      break;
    h.wall_ns += h.wall_ns == 0 ? 0 : now_ns - h.ready_ns; /* both clocks go on alike */
    h.ready_ns = now_ns;
  }
  s->carried_ns = more ? h.turn_ns : 0;
  return more;
}

/* ---- callbacks, each phase at least one ---- */

static bool make_callbacks(uvs_t *s, uint64_t until_ns) {
  uint32_t last = s->todo.tail; /* what these callbacks add waits for the next turn */
  uint32_t slot;

  while ((slot = uvs__chain_pop(s, &s->todo)) != UVS__NONE) {
    struct uvs__slot *t = uvs__slot(s, slot);
    uint64_t w = uvs__load(&t->word, acquire); /* pairs with the release of who ended the run */

    if (uvs__unlist_news(uvs__agenda_cold(&s->agenda, t))) {
      if (uvs__word_state(w) == UVS__WAITING)
        uvs__tell(s, slot, w);
      take_in_one(s, slot); /* the hook, or somebody before, may have ended it */
    } else if (uvs__word_state(w) == UVS__RUNNING) {
      uvs__run_after(s, slot);
    } else {
      uvs__call_back_end(s, slot, w);
    }
    if (slot == last)
      break;
    if (uvs__now(s) >= until_ns) {
      s->behind = true;
      return true;
    }
  }
  s->behind = false;
  return s->todo.head != UVS__NONE;
}

/* ---- when next ---- */

uint64_t uvs__wall_to_monotonic(uvs_t *s, uint64_t wall_deadline_ns, uint64_t now_ns) {
  uint64_t wall_ns = uvs__clock_wall(&s->clock);

  if (wall_deadline_ns >= UVS__NEVER)
    return UVS__NEVER;
  return wall_deadline_ns <= wall_ns ? now_ns
                                     : uvs__steps_later(now_ns, 1, wall_deadline_ns - wall_ns);
}

static uint64_t min_ns(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

uint64_t uvs__next_due(uvs_t *s, uint64_t now_ns, bool exact) {
  uint64_t next_ns = uvs__agenda_next(&s->agenda, exact);
  uint64_t wall_ns = uvs__agenda_next_wall(&s->agenda, exact);

  next_ns = min_ns(next_ns, uvs__agenda_next_limit(&s->agenda));
  next_ns = min_ns(next_ns, uvs__queues_next(s, exact));
  if (wall_ns != UVS__NEVER)
    next_ns = min_ns(next_ns, uvs__wall_to_monotonic(s, wall_ns, now_ns));
  if (!uvs__load(&s->stop, relaxed)) /* a hint; the turn that follows decides */
    next_ns = min_ns(next_ns, uvs__load(&s->kill_ns, relaxed));
  return next_ns;
}

/* When to wake by ourselves. The wall clock may be set without a word: look at it now and then. */
static uint64_t next_look(uvs_t *s, uint64_t now_ns) {
  uint64_t next_ns = uvs__next_due(s, now_ns, false);

  if (s->agenda.wall.count > 0)
    next_ns = min_ns(next_ns, now_ns + UVS__WALL_CAP_NS);
  /* While completions keep coming, one look per ms is cheaper than a wake-up each. The first ms
   * that brings none ends it. */
  if ((s->brought && s->pool.out > 0) || s->pool.held_back)
    next_ns = min_ns(next_ns, now_ns + MS);
  return next_ns;
}

/* What is left over keeps the loop, too. */
static bool owes(const uvs_t *s) {
  return s->todo.head != UVS__NONE || s->intake.head != UVS__NONE || s->lanes.ending != NULL;
}

/* Something has come while we were about to sleep. Take it in; does all of it only wait, and not
 * for before next_wake? Where runners finish one task after another, there is always something: so
 * this, too, ends with the budget. */
static bool only_waits(uvs_t *s, uint64_t next_wake) {
  uint64_t until_ns = s->turn_ns + s->budget_ns;
  uint64_t now_ns;

  if (uvs__load(&s->pool.with_lanes, relaxed) || /* see there; then others may start */
      uvs__inbox_is_shut(&s->inbox))
    return false;
  take_in_until(s, until_ns);
  now_ns = uvs__now(s);
  return now_ns < until_ns && !owes(s) && next_look(s, now_ns) >= next_wake;
}

/* Publish it. False if there is something to do at once. */
static bool fall_asleep(uvs_t *s, uint64_t next_wake) {
  for (;;) {
    /* seq_cst: pairs with send_fresh in submit.c. The look at the inbox follows. */
    uvs__store(&s->unkept, s->taken_ref == 0, seq_cst);
    if (uvs__inbox_sleep(&s->inbox, next_wake))
      break;
    if (!only_waits(s, next_wake))
      return false;
  }
  if (uvs__queues_quiet(s))
    return true;
  uvs__inbox_lower(&s->inbox, UVS__AWAKE);
  return false;
}

/* A task that has become due while we were at it is left to the timer, as if we had been faster: it
 * waits for whole ms anyway, and where much is due, something always is. Not if one was put into
 * the queue in this turn: it may be due at once. */
static bool can_wait(uvs_t *s, uint64_t next_ns, uint64_t now_ns) {
  return uvs__waits_by_ms(s) && next_ns > s->turn_ns && s->agenda.wheel.soonest_ns > now_ns &&
         next_ns == uvs__agenda_next(&s->agenda, false);
}

/* Arm for the next look and publish it. False if there is something to do at once. */
static bool rest(uvs_t *s) {
  uint64_t now_ns = uvs__now(s);
  uint64_t next_ns = next_look(s, now_ns);

  if (next_ns <= now_ns && !can_wait(s, next_ns, now_ns))
    return false;
  if (uvs__clock_replaced(&s->clock))
    return fall_asleep(s, UVS__ASLEEP);
  if (next_ns == UVS__NEVER) {
    uvs__ticker_disarm(&s->ticker);
    return fall_asleep(s, UVS__ASLEEP);
  }
  uvs__ticker_arm(&s->ticker, next_ns, now_ns);
  return fall_asleep(s, s->ticker.armed_ns);
}

void uvs__expect(uvs_t *s, uint64_t w, uint64_t deadline_ns, uint64_t now_ns) {
  uint64_t wake_ns = uvs__inbox_next_wake(&s->inbox);

  if (uvs__is_wall(w) && deadline_ns != UVS__NEVER)
    deadline_ns = min_ns(uvs__wall_to_monotonic(s, deadline_ns, now_ns), now_ns + UVS__WALL_CAP_NS);
  if (wake_ns == UVS__AWAKE || deadline_ns >= wake_ns || deadline_ns == UVS__NEVER)
    return;
  if (deadline_ns <= now_ns) {
    uvs__inbox_lower(&s->inbox, UVS__AWAKE);
    uvs__ticker_wake(&s->ticker);
  } else if (!uvs__clock_replaced(&s->clock)) {
    uvs__ticker_arm(&s->ticker, deadline_ns, now_ns);
    uvs__inbox_lower(&s->inbox, s->ticker.armed_ns);
  }
}

void uvs__tell_of_due(uvs_t *s) {
  if (uvs__on_loop(s) && s->in_tick)
    return; /* the turn sees it at its end */
  if (uvs__pool_take_news(&s->pool))
    uvs__ticker_wake(&s->ticker);
}

void uvs__relax(uvs_t *s) {
  if (s->in_tick)
    return;
  if (uvs__others_unheard(s))
    uvs__take_in(s);
  if (s->taken_ref == 0) { /* another may be on its way that was too far off to wake us */
    uvs__store(&s->unkept, true, seq_cst); /* as in fall_asleep */
    if (uvs__load(&s->inbox.head, seq_cst) != 0)
      uvs__take_in(s);
  }
  if (s->todo.head != UVS__NONE) {
    uvs__owe_turn(s);
  } else if (s->agenda.wheel.count == 0 && s->agenda.wall.count == 0) {
    if (uvs__inbox_next_wake(&s->inbox) != UVS__AWAKE && !rest(s)) {
      uvs__inbox_lower(&s->inbox, UVS__AWAKE);
      uvs__ticker_wake(&s->ticker);
    }
  }
  uvs__update_keep(s);
}

/* ---- the turn ---- */

static void check_terminated(uvs_t *s) {
  bool drained;

  if (uvs__load(&s->terminated, relaxed)) /* only this thread writes it */
    return;
  if (!uvs__inbox_is_shut(&s->inbox) || uvs__callers_inside(s))
    return;
  /* seq_cst: with the tag set no fresh push can follow, so an empty inbox stays empty of
   * submissions */
  drained = uvs__load(&s->inbox.head, seq_cst) == UVS__SHUTDOWN_TAG;
  if (!drained || s->taken > 0 || s->pool.out > 0 || s->intake.head != UVS__NONE)
    return;
  uv_mutex_lock(&s->pool.lock);
  uvs__locked_store(&s->terminated, true, release); /* pairs with the acquire of those who ask */
  uv_cond_broadcast(&s->terminated_cond);
  uv_mutex_unlock(&s->pool.lock);
  if (s->terminated_cb != NULL)
    s->terminated_cb(s);
}

static void follow_policies(uvs_t *s, uint64_t now_ns) {
  uint32_t policy;

  if (now_ns >= uvs__load(&s->kill_ns, relaxed)) /* set before the wake-up that brought us */
    uvs__stop_now(s, NULL, NULL);
  policy = uvs__load(&s->policy, acquire); /* pairs with the release of who changed one */
  /* A stop is seen by itself, too: who sets it may not yet have come to say so, and runners take
   * nothing any more. acquire: pairs with uvs__stop_now */
  if (policy == s->policy_seen && (s->stop_seen || !uvs__load(&s->stop, acquire)))
    return;
  s->policy_seen = policy;
  if (uvs__inbox_is_shut(&s->inbox))
    uvs__apply_policies(s);
}

/* The start of a turn. */
static void awake(uvs_t *s) {
  s->in_tick = true;
  s->agenda.wheel.soonest_ns = UVS__NEVER;
  s->brought = false;
  uvs__own_loop(s);
  uvs__inbox_lower(&s->inbox, UVS__AWAKE);
  s->turn_ns = uvs__now(s);
}

/* The end of it. On the way to sleep it may have taken in what it cannot sleep over. */
static void doze(uvs_t *s) {
  s->owed |= owes(s);
  if (uvs__inbox_next_wake(&s->inbox) == UVS__AWAKE)
    uvs__ticker_wake(&s->ticker); /* carry over */
  s->in_tick = false;
  uvs__update_keep(s);
}

/* relaxed, both: a count, with one writer; so no step of atomic.h's either */
static void count_turn(uvs_t *s) {
  uvs__locked_store(&s->wakeups, uvs__locked_load(&s->wakeups, relaxed) + 1, relaxed);
}

/* Is there nothing that may call the user, or end us? And no full turn on its way. */
static bool may_be_light(uvs_t *s) {
  return uvs__inbox_next_wake(&s->inbox) != UVS__AWAKE && s->decorate_cb == NULL &&
         s->pool.home.executor == NULL && !s->closing && !uvs__inbox_is_shut(&s->inbox) &&
         !uvs__ticker_lost(&s->ticker);
}

/* Something that is due just now is left to the timer, which is armed for it and comes within 1 ms:
 * so what becomes due in this ms goes out together, and not with each runner that comes home. False
 * if the timer is to come earlier than it does, for whatever reason. */
static bool left_to_timer(uvs_t *s) {
  uint64_t armed_ns = s->ticker.armed_ns;

  if (s->pool.held_back || s->agenda.wall.count > 0)
    return false;
  return armed_ns <= uvs__agenda_next(&s->agenda, false) &&
         armed_ns <= uvs__agenda_next_limit(&s->agenda) && armed_ns <= uvs__queues_next(s, false) &&
         armed_ns <= s->turn_ns + MS && s->turn_ns < armed_ns + MS;
}

/* Is something due that only a full turn can see to? To look again would not help. */
static bool needs_full(uvs_t *s) {
  return uvs__agenda_next_limit(&s->agenda) <= s->turn_ns ||
         uvs__queues_next(s, false) <= s->turn_ns;
}

static uint64_t wake_of_timer(const uvs_t *s) {
  return s->ticker.armed_ns == UVS__NEVER ? UVS__ASLEEP : s->ticker.armed_ns;
}

void uvs__tick_light(uvs_t *s, bool timer) {
  uint64_t until_ns;
  bool asleep;
  bool more;

  if (s->in_tick)
    return;
  if (!may_be_light(s)) {
    uvs__ticker_wake(&s->ticker);
    return;
  }
  awake(s);
  until_ns = s->turn_ns + s->budget_ns;
  do {
    more = take_in_until(s, until_ns);
    if (!timer)
      more |= uvs__call_out_own(s); /* so that held_back is true of now */
    if (timer || !left_to_timer(s)) {
      more |= hand_over(s, until_ns);
      more |= uvs__call_out_own(s);
    }
    more |= uvs__pool_is_due(&s->pool);
    more |= needs_full(s);
    s->owed |= owes(s);
    if (more || s->owed)
      break;
    /* If something has come or become due meanwhile, look again while there is time. */
    asleep = !timer && left_to_timer(s) ? fall_asleep(s, wake_of_timer(s)) : rest(s);
  } while (!asleep && (s->turn_ns = uvs__now(s)) < until_ns);
  if (uvs__inbox_next_wake(&s->inbox) != UVS__AWAKE)
    count_turn(s); /* else it is part of the turn that follows */
  doze(s);
}

void uvs__tick(uvs_t *s) {
  uint64_t now_ns;
  uint64_t until_ns;
  uint64_t in_ns;
  bool behind;
  bool more;

  if (s->in_tick)
    return;
  awake(s);
  count_turn(s);
  s->owed = false;
  now_ns = s->turn_ns;
  until_ns = now_ns + s->budget_ns;
  uvs__notice_loss(s);

  /* Where ever more is sent in than we can take in, that alone would fill each turn, and of what is
   * over one would be called back: it takes room that max_pending does not count. So if the last
   * turn had no time for all of them, half of this one is theirs, and a quarter is for what comes
   * in. */
  behind = s->behind;
  in_ns = behind ? now_ns + s->budget_ns / 4 : until_ns;
  uvs__take_home(s);
  more = take_in_until(s, in_ns);
  follow_policies(s, now_ns);
  if (s->closing) {
    uvs__queues_close(s);
    uvs__lanes_close(s);
  }
  s->owed |= uvs__lanes_look(s, until_ns); /* what is left of it keeps the loop, too */
  more |= uvs__limits_expire(s, now_ns, until_ns);
  if (behind)
    make_callbacks(s, now_ns + s->budget_ns / 4 * 3);
  more |= hand_over(s, until_ns);
  uvs__pool_take_over(&s->pool);
  more |= uvs__call_out_runners(s, until_ns);
  more |= uvs__queues_serve(s, until_ns);
  more |= uvs__run_due(s, until_ns);
  more |= make_callbacks(s, until_ns);
  s->owed |= uvs__cleanup_turn(s, until_ns);
  more |= uvs__lanes_end(s, until_ns);
  more |= uvs__call_out_runners(s, until_ns); /* the end of an `after` may let others start */
  s->overrun_ns = 0;
  s->due_left = uvs__pool_is_due(&s->pool);
  if (s->due_left) { /* it waits for the next turn */
    more = true;
    now_ns = uvs__now(s);
    s->overrun_ns = now_ns <= until_ns ? 0 : now_ns - until_ns;
  }

  do {
    more |= take_in_until(s, until_ns);
    uvs__update_keep(s);
    check_terminated(s);
    s->owed |= owes(s);
    more |= s->owed;
    more |= uvs__pool_take_news(&s->pool);
    /* Nothing left: sleep. If something has come meanwhile, look again while there is time. */
  } while (!more && !rest(s) && (now_ns = uvs__now(s)) < until_ns &&
           uvs__next_due(s, now_ns, false) > now_ns);
  doze(s);
  if (s->closing && uvs__load(&s->terminated, relaxed) && uvs__lanes_gone(s) &&
      uvs__cleanup_shut(s)) {
    uvs__crew_close(&s->pool, &s->pool.home);
    uvs__close_handles(s);
  }
}
