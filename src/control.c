/* SPDX-License-Identifier: MIT
 *
 * control: cancel, reschedule, finish, ref and unref. Each finds the slot of the id, decides by its
 * word, and makes one move.
 */
#include "scheduler.h"

static uint32_t slot_of(uvs_id_t id) {
  return (uint32_t)id & UVS__SLOT_MASK;
}

/* Its memory is only asked for; NULL: there never was such a slot. */
static inline struct uvs__slot *locate(const uvs_t *s, uvs_id_t id) {
  uint32_t slot = slot_of(id);
  struct uvs__slot *t;

  if (slot >= uvs__slab_made(&s->agenda.slots))
    return NULL;
  t = uvs__slot(s, slot);
  __builtin_prefetch(t, 1);
  return t;
}

static inline struct uvs__slot *identify(struct uvs__slot *t, uvs_id_t id, uint64_t *ret_w) {
  if (t == NULL)
    return NULL;
  *ret_w = uvs__load(&t->word, acquire); /* pairs with the release that made it what it is */
  if (uvs__word_generation(*ret_w) != id >> UVS__SLOT_BITS || uvs__word_state(*ret_w) == UVS__FREE)
    return NULL;
  return t;
}

struct uvs__slot *uvs__find(const uvs_t *s, uvs_id_t id, uint64_t *ret_w) {
  return identify(locate(s, id), id, ret_w);
}

/* After a failed CAS: is it still the same task? */
static bool same(uvs_id_t id, uint64_t w) {
  return uvs__word_generation(w) == id >> UVS__SLOT_BITS && uvs__word_state(w) != UVS__FREE;
}

/* ---- cancel ---- */

/* Off the loop, a cancelled task is sent to it. Must it hear of that now? If there is a `done` to
 * call, or if it kept a shutdown from its end, or if it was of a lane: another of that may start on
 * the loop now, or the lane may be quiet. */
static uint64_t hear_of_cancel(uvs_t *s, uvs_id_t id, uint64_t w) {
  struct uvs__cold *c = uvs__agenda_cold(&s->agenda, uvs__slot(s, slot_of(id)));

  if ((w & (UVS__HAS_DONE | UVS__CLEANUP)) != 0 || s->decorate_cb != NULL ||
      uvs__inbox_is_shut(&s->inbox))
    return 0;
  /* relaxed: constant until the loop retires it, and then it has heard */
  if (c != NULL && uvs__load(&c->lane, relaxed) != NULL)
    return 0;
  return UVS__ASLEEP;
}

static int cancel_unstarted(uvs_t *s, uvs_id_t id, uint64_t w) {
  uint64_t hear_by_ns = hear_of_cancel(s, id, w);

  if (uvs__inbox_add_dead(&s->inbox)) /* before it can come in. See submit.c */
    hear_by_ns = 0;
  if ((w & UVS__INBOX) == 0)
    uvs__send_in(s, slot_of(id), slot_of(id), hear_by_ns);
  else if (hear_by_ns == 0)
    uvs__ticker_wake(&s->ticker); /* on its way, but perhaps nobody has woken the loop for it */
  /* Was it the last that kept the loop alive? Asked after the push: whatever ends later than we ask
   * is followed by a look of the loop's at the inbox, and that finds ours.
   * A shutdown since we asked may have looked before our push, and now waits for this task. The
   * same if a clean-up was attached since. relaxed: if the loop has looked at the inbox since then,
   * our push comes after that and has acquired it. */
  if (hear_by_ns != 0 &&
      (((w & UVS__REF) != 0 && !uvs__any_ref(s)) || uvs__inbox_is_shut(&s->inbox) ||
       (uvs__load(&uvs__slot(s, slot_of(id))->word, relaxed) & UVS__CLEANUP) != 0))
    uvs__ticker_wake(&s->ticker);
  return UVS_NEVER_RUNS;
}

/* The word, and its count, in one: nobody sees the one without the other. */
static bool settle_plain(uvs_t *s, struct uvs__slot *t, uvs_id_t id, uint64_t w) {
  uint64_t free = (uint64_t)UVS__FREE | (uvs__word_generation(w) + 1) << UVS__GENERATION_SHIFT;
  uint64_t one = UVS__LOAD_ONE + ((w & UVS__REF) != 0 ? UVS__LOAD_REF : 0);
  struct uvs__own *own = &s->own;
  uint64_t turn;
  bool done;

  if (s->max_pending != 0) /* a cap needs one load for all */
    return uvs__pool_decide(&s->pool, slot_of(id), &w, free, UVS__CANCELED);
  /* As uvs__own says; relaxed, the loads: the loop's. No steps, as under a lock. */
  turn = uvs__locked_load(&own->turn, relaxed);
  uvs__locked_store(&own->turn, turn + 1, release);
  done = uvs__locked_cas(&t->word, &w, free, acq_rel); /* WAITING to FREE, move 6: legal */
  if (done) {
    uint64_t load = uvs__locked_load(&own->load, relaxed) - one;

    if (s->taken_ref > UVS__UNHEARD_MOST)
      uvs__locked_store(&own->load, load, release);
    else
      uvs__locked_store(&own->load, load, seq_cst); /* before uvs__others_unheard asks */
    uvs__locked_store(&own->cancelled, uvs__locked_load(&own->cancelled, relaxed) + 1, release);
  }
  uvs__locked_store(&own->turn, turn + 2, release);
  return done;
}

/* On the loop, a task that waits and of which nobody hears: WAITING to FREE in one move. */
static bool cancel_plain(uvs_t *s, uvs_id_t id, struct uvs__slot *t, uint64_t w) {
  uint32_t slot = slot_of(id);

  if ((w & UVS__TAKEN) == 0 ||
      (w & (UVS__INBOX | UVS__MOVING | UVS__HAS_DONE | UVS__KEEP | UVS__CLEANUP)) != 0 ||
      uvs__agenda_cold(&s->agenda, t) != NULL)
    return false;
  uvs__wheel_prefetch(&s->agenda.wheel, slot); /* its neighbours come while we decide */
  if (!settle_plain(s, t, id, w))
    return false;
  if (uvs__wheel_has(&s->agenda.wheel, slot))
    uvs__wheel_remove(&s->agenda.wheel, slot);
  s->taken--;
  s->taken_ref -= (w & UVS__REF) != 0;
  uvs__agenda_give_plain(&s->agenda, slot, uvs__word_generation(w) + 1);
  /* Else nothing becomes any different. */
  if (s->taken_ref == 0 || s->agenda.wheel.count == 0 || uvs__others_unheard(s))
    uvs__relax(s);
  return true;
}

/* On the loop the task leaves its queue here and now. False if it has started meanwhile. */
static bool cancel_on_loop(uvs_t *s, uvs_id_t id) {
  uvs__take_in(s); /* it may still be on its way */
  if (!uvs__end_on_loop(s, slot_of(id), id, 0))
    return false;
  uvs__relax(s);
  return true;
}

int uvs_cancel(uvs_t *s, uvs_id_t id, unsigned flags) {
  uint64_t token = (flags & UVS_CANCEL_TOKEN) != 0 ? UVS__TOKEN : 0;
  struct uvs__slot *t;
  uint64_t w;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if ((flags & ~(unsigned)(UVS_CANCEL_TOKEN | UVS_CANCEL_IF_WAITING)) != 0)
    return UV_EINVAL;
  t = locate(s, id);
  if (t != NULL) /* where it waits is wanted, too */
    __builtin_prefetch(uvs__agenda_link(&s->agenda, slot_of(id)), 1);
  t = identify(t, id, &w);
  if (t == NULL)
    return UV_ENOENT;
  while (same(id, w)) {
    switch (uvs__word_state(w)) {
    case UVS__WAITING:
    case UVS__READY:
      if (uvs__on_loop(s)) {
        if (uvs__word_state(w) == UVS__WAITING && cancel_plain(s, id, t, w))
          return UVS_NEVER_RUNS;
        if (cancel_on_loop(s, id))
          return UVS_NEVER_RUNS;
        w = uvs__load(&t->word, acquire); /* pairs with the release of who was faster */
      } else if (uvs__pool_cancel(&s->pool, slot_of(id), &w, UVS__DEAD)) {
        return cancel_unstarted(s, id, w);
      }
      continue;
    case UVS__RUNNING:
      if ((w & UVS__LATE) != 0)
        return UV_ENOENT; /* its limit has settled it */
      if ((flags & UVS_CANCEL_IF_WAITING) != 0)
        return UV_EBUSY;
      if ((w & UVS__CANCELLED) != 0) {
        if ((w | token) == w || uvs__word_try(t, &w, w | token))
          return UVS_RUN_FINISHES;
      } else if (uvs__pool_cancel(&s->pool, slot_of(id), &w, token)) {
        uvs__cleanup_settled(s, slot_of(id), w);
        return UVS_RUN_FINISHES;
      }
      continue;
    default:
      return UV_ENOENT;
    }
  }
  return UV_ENOENT;
}

int uvs_cancelled(const uvs_run_t *run) {
  struct uvs__cold *c;
  struct uvs__slot *t;
  const uvs_t *s;
  uint64_t stop_ns;
  uint64_t w;

  if (run == NULL || run->state == NULL)
    return 0;
  s = run->state;
  t = uvs__slot(s, slot_of(run->id));
  /* acquire, both: a body that is told to stop sees what was written before */
  w = uvs__load(&t->word, acquire);
  if ((w & UVS__TOKEN) != 0 || uvs__load(&s->stop, acquire))
    return 1;
  /* The rest is told by the clock: the loop may be held up, or run this body. */
  stop_ns = uvs__load(&s->kill_ns, relaxed); /* a time; it says all by itself */
  c = uvs__agenda_cold(&s->agenda, t);
  if (c != NULL && uvs__lane_token(c))
    return 1;
  if (c != NULL && (w & UVS__INBOX) == 0 && c->limit_due_ns < stop_ns)
    stop_ns = c->limit_due_ns; /* in `after` (INBOX) the limit is no more */
  return stop_ns != UVS__NEVER && uvs__now(s) >= stop_ns;
}

/* ---- reschedule ---- */

static uint64_t moved_to(uvs_t *s, uint64_t w, int64_t delay_ns, uint64_t now_ns) {
  return uvs__later(uvs__is_wall(w) ? uvs__clock_wall(&s->clock) : now_ns, delay_ns);
}

static void set_deadline(uvs_t *s, struct uvs__slot *t, uint64_t deadline_ns) {
  struct uvs__cold *c = uvs__agenda_cold(&s->agenda, t);

  if (c != NULL) { /* the grid moves to just here */
    c->jitter_now_ns = 0;
    c->grid_ns = deadline_ns;
  }
  /* release: who sees it sees MOVING, too, if another thread moves it; pairs with the wheel's
   * acquire. For all others the word's next release publishes it */
  uvs__store(&t->deadline_ns, deadline_ns, release);
}

/* Move 7 off the loop, and of tasks that are on their way: MOVING is set, and the deadline ours. */
static int move_held(uvs_t *s, uvs_id_t id, struct uvs__slot *t, uint64_t w, uint64_t deadline_ns,
                     uint64_t now_ns) {
  uint64_t due_ns = uvs__is_wall(w) ? 0 : deadline_ns;
  uint64_t moved_ns;

  (void)now_ns;
  set_deadline(s, t, deadline_ns);
  w = uvs__load(&t->word, relaxed); /* the CAS acquires */
  while (!uvs__word_try(t, &w, (w & ~UVS__MOVING) | UVS__INBOX)) {
  }
  if (uvs__word_state(w) != UVS__WAITING)
    due_ns = 0;                /* cancelled meanwhile; its end waits for us */
  if ((w & UVS__INBOX) != 0) { /* on its way already; wake as uvs__inbox_push would */
    if (due_ns < uvs__load(&s->inbox.next_wake, seq_cst))
      uvs__ticker_wake(&s->ticker);
    return uvs__word_state(w) == UVS__WAITING ? 0 : UV_ENOENT;
  }
  uvs__send_in(s, slot_of(id), slot_of(id), due_ns);
  /* Cancelled between our CAS and our push? The canceller wakes the loop after its CAS, perhaps
   * before our push; if so we see its CAS here (seq_cst: push and load against CAS and take). */
  if (uvs__word_state(uvs__load(&t->word, seq_cst)) == UVS__ENDED)
    uvs__ticker_wake(&s->ticker);
  /* The same of one who moved it to an earlier time. relaxed: if he came before our push, the word
   * has acquired it; else he wakes the loop for it, or sends it himself. */
  moved_ns = uvs__load(&t->deadline_ns, relaxed);
  if (moved_ns < due_ns && uvs__inbox_must_wake(&s->inbox, moved_ns))
    uvs__ticker_wake(&s->ticker);
  return uvs__word_state(w) == UVS__WAITING ? 0 : UV_ENOENT;
}

/* On the loop: later is lazy, the entry learns of it when it comes up. */
static int move_on_loop(uvs_t *s, uvs_id_t id, struct uvs__slot *t, uint64_t w,
                        uint64_t deadline_ns, uint64_t now_ns) {
  uint64_t old_ns = uvs__load(&t->deadline_ns, relaxed); /* WAITING, on the loop: ours */
  bool lazy = deadline_ns >= old_ns && deadline_ns != UVS__NEVER && old_ns != UVS__NEVER;

  if (lazy)
    uvs__agenda_push_back(&s->agenda, slot_of(id), w);
  set_deadline(s, t, deadline_ns);
  while ((w & UVS__MOVING) != 0 && !uvs__word_try(t, &w, w & ~UVS__MOVING)) {
  }
  if (uvs__word_state(w) != UVS__WAITING)
    return UV_ENOENT; /* cancelled meanwhile: the inbox brings it */
  if (!lazy)
    uvs__agenda_insert(&s->agenda, slot_of(id), w);
  if (uvs__is_wall(w) || deadline_ns < uvs__load(&s->inbox.next_wake, relaxed)) /* the loop's */
    uvs__expect(s, w, deadline_ns, now_ns);
  if (deadline_ns == UVS__NEVER)
    uvs__relax(s);
  return 0;
}

int uvs_reschedule(uvs_t *s, uvs_id_t id, int64_t delay_ns) {
  struct uvs__slot *t;
  uint64_t now_ns;
  uint64_t w;
  bool ours;
  bool on_loop;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  ours = uvs__on_loop(s);
  t = locate(s, id);
  now_ns = uvs__now(s); /* which waits for all loads before it, but not for what was asked for */
  t = identify(t, id, &w);
  if (t == NULL)
    return UV_ENOENT;
  while (same(id, w)) {
    switch (uvs__word_state(w)) {
    case UVS__WAITING:
      if ((w & UVS__MOVING) != 0)
        return 0; /* ours came first, and was overwritten */
      on_loop = ours && (w & UVS__INBOX) == 0;
      if (on_loop && uvs__agenda_cold(&s->agenda, t) == NULL) /* one field, one store */
        return move_on_loop(s, id, t, w, moved_to(s, w, delay_ns, now_ns), now_ns);
      if (!uvs__word_try(t, &w, w | UVS__MOVING))
        continue;
      w |= UVS__MOVING;
      return (on_loop ? move_on_loop : move_held)(s, id, t, w, moved_to(s, w, delay_ns, now_ns),
                                                  now_ns);
    case UVS__READY:
    case UVS__RUNNING:
      return UV_EBUSY;
    default:
      return UV_ENOENT;
    }
  }
  return UV_ENOENT;
}

/* ---- finish ---- */

int uvs_finish(uvs_t *s, uvs_id_t id, int status) {
  struct uvs__slot *t;
  uint64_t w;
  uint64_t to;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (status == UVS_PENDING)
    return UV_EINVAL;
  if (uvs__on_loop(s))
    uvs__notice_loss(s);
  t = uvs__find(s, id, &w);
  if (t == NULL)
    return UV_ENOENT;
  do {
    /* INBOX: the body has ended, and is on its way to `after`. */
    if (!same(id, w) || uvs__word_state(w) != UVS__RUNNING ||
        (w & (UVS__FINISHED | UVS__INBOX)) != 0)
      return UV_ENOENT;
    to = ((w & UVS__LATE) != 0 ? w : uvs__word_with_status(w, uvs__status_of(status))) |
         UVS__FINISHED;
    if ((w & UVS__PENDING) != 0 && (w & UVS__HAS_AFTER) != 0)
      to |= UVS__INBOX;
  } while (!uvs__word_try(t, &w, to));
  if ((w & UVS__PENDING) != 0)
    uvs__run_finished(s, slot_of(id), to);
  return 0;
}

/* ---- ref ---- */

static int set_ref(uvs_t *s, uvs_id_t id, bool ref) {
  struct uvs__slot *t;
  uint64_t w;
  int rc = uvs__enter_loop(s);

  if (rc < 0)
    return rc;
  uvs__take_in(s);
  t = uvs__find(s, id, &w);
  if (t == NULL || uvs__word_state(w) >= UVS__ENDED)
    return UV_ENOENT;
  uv_mutex_lock(&s->pool.lock); /* so that nobody settles it between the word and the load */
  do {
    rc = same(id, w) && uvs__word_state(w) < UVS__ENDED ? 0 : UV_ENOENT;
  } while (rc == 0 && ((w & UVS__REF) != 0) != ref && !uvs__word_try_locked(t, &w, w ^ UVS__REF));
  if (rc == 0 && ((w & UVS__REF) != 0) != ref) {
    uint64_t change = ref ? UVS__LOAD_REF : 0 - UVS__LOAD_REF;

    /* seq_cst: as uvs__any_ref says. What is settled has left it already. */
    if (!uvs__settled(w))
      uvs__locked_add(&s->pool.load, change, seq_cst);
    if ((w & UVS__TAKEN) != 0)
      s->taken_ref += ref ? 1 : UINT64_MAX;
  }
  uv_mutex_unlock(&s->pool.lock);
  uvs__relax(s);
  return rc;
}

int uvs_ref(uvs_t *s, uvs_id_t id) {
  return set_ref(s, id, true);
}

int uvs_unref(uvs_t *s, uvs_id_t id) {
  return set_ref(s, id, false);
}

int uvs_has_ref(uvs_t *s, uvs_id_t id) {
  uint64_t w;
  int rc = uvs__enter_loop(s);

  if (rc < 0)
    return rc;
  if (uvs__find(s, id, &w) == NULL || uvs__word_state(w) >= UVS__ENDED)
    return UV_ENOENT;
  return (w & UVS__REF) != 0;
}
