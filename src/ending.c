/* SPDX-License-Identifier: MIT
 *
 * ending: the end of a task, on the loop. Cancelled, completed or refused, it leaves its queue, its
 * last callbacks are made, and its slot is free again.
 *
 * What has something to say goes on the to-do list, so that no callback is made from inside a call;
 * tick() empties that list. The rest is gone at once.
 */
#include "scheduler.h"

void uvs__chain_append(const uvs_t *s, struct uvs__chain *c, uint32_t slot) {
  uvs__store(&uvs__slot(s, slot)->next, UVS__NONE, relaxed); /* loop only while INBOX is set */
  if (c->head == UVS__NONE)
    c->head = slot;
  else
    uvs__store(&uvs__slot(s, c->tail)->next, slot, relaxed);
  c->tail = slot;
}

uint32_t uvs__chain_pop(const uvs_t *s, struct uvs__chain *c) {
  uint32_t slot = c->head;

  if (slot != UVS__NONE)
    c->head = uvs__load(&uvs__slot(s, slot)->next, relaxed); /* loop only while INBOX is set */
  return slot;
}

/* ---- the end of a task ---- */

/* Moves 9 and 10. Somebody may still need the slot: a mover has it in hand, a waiter reads the
 * outcome, or nobody has forgotten it yet. Whoever is the last of them sends it here once more. */
bool uvs__retire(uvs_t *s, uint32_t slot) {
  struct uvs__slot *t = uvs__slot(s, slot);
  struct uvs__cold *c = uvs__agenda_cold(&s->agenda, t);
  uint64_t w = uvs__load(&t->word, relaxed); /* the CAS acquires */
  bool keep = (w & UVS__KEEP) != 0;
  struct uvs__lane *lane = c == NULL ? NULL : uvs__load(&c->lane, relaxed); /* until it is over */
  bool held;

  if (keep)
    uv_mutex_lock(&s->pool.lock); /* for the pins */
  do {
    if ((w & UVS__CLEANUP) != 0)
      goto not_yet;
    held = (w & UVS__MOVING) != 0 || (w & (UVS__KEEP | UVS__FORGOTTEN)) == UVS__KEEP ||
           (keep && c->pins > 0);
  } while (!uvs__word_try_locked(t, &w,
                                 held ? uvs__word_in(w & ~UVS__INBOX, UVS__OVER)
                                      : (uint64_t)UVS__FREE | (uvs__word_generation(w) + 1)
                                                                  << UVS__GENERATION_SHIFT));
  if (keep)
    uv_mutex_unlock(&s->pool.lock);
  if (uvs__word_state(w) == UVS__ENDED) { /* it is over just now */
    s->taken--;
    s->taken_ref -= (w & UVS__REF) != 0;
  }
  if (lane != NULL)
    uvs__store(&c->lane, NULL, relaxed); /* only ids of others are looking */
  if (!held)
    uvs__agenda_give_slot(&s->agenda, uvs__stripe(s), slot);
  if (lane != NULL && uvs__word_state(w) == UVS__ENDED)
    uvs__lane_left(s, lane);
  return true;

not_yet:
  if (keep)
    uv_mutex_unlock(&s->pool.lock);
  return false;
}

/* It failed, and neither `done` nor somebody else sees it. */
static bool unseen_failure(const struct uvs__cold *c, uint64_t w) {
  return (w & (UVS__CANCELLED | UVS__LATE | UVS__HAS_DONE)) == 0 && uvs__word_status(w) < 0 &&
         (c == NULL || c->run.seen == 0);
}

/* Is there anything to say about the end of this task? */
static bool heard(uvs_t *s, uint32_t slot, uint64_t w) {
  struct uvs__cold *c = uvs__agenda_cold(&s->agenda, uvs__slot(s, slot));

  return (w & UVS__HAS_DONE) != 0 || ((w & UVS__NEVER_RAN) != 0 && s->never_ran_cb != NULL) ||
         (w & UVS__CLEANUP) != 0 || (s->error_cb != NULL && unseen_failure(c, w)) ||
         uvs__has_news(s, c) || (s->decorate_cb != NULL && c->decoration.over != NULL);
}

void uvs__conclude(uvs_t *s, uint32_t slot, uint64_t w) {
  uvs__limit_end(s, slot);
  uvs__lane_ended(s, slot);
  if (heard(s, slot, w) || !uvs__retire(s, slot))
    uvs__chain_append(s, &s->todo, slot);
}

void uvs__call_back_end(uvs_t *s, uint32_t slot, uint64_t w) {
  struct uvs__slot *t = uvs__slot(s, slot);
  struct uvs__cold *c = uvs__agenda_cold(&s->agenda, t);
  uvs_id_t id = uvs__id(w, slot);
  void *arg = uvs__load(&t->arg, relaxed); /* constant */

  if ((w & UVS__NEVER_RAN) != 0 && s->never_ran_cb != NULL)
    s->never_ran_cb(s, id, s->never_ran_arg);
  uvs__tell(s, slot, w); /* what it had no time for while it lived */
  if (s->error_cb != NULL && unseen_failure(c, w))
    s->error_cb(s, id, uvs__outcome_status(w), arg);
  uvs__cleanup_task(s, slot);
  if (t->done != NULL)
    t->done(c != NULL && c->narrow ? NULL : s, id, uvs__outcome_status(w), arg);
  if (s->decorate_cb != NULL && c->decoration.over != NULL)
    c->decoration.over(c->decoration.arg);
  while (!uvs__retire(s, slot)) /* some were added since */
    uvs__cleanup_task(s, slot);
}

/* Out of the queue that it waits in: w is the word before it ended. */
void uvs__unlink_ended(uvs_t *s, uint32_t slot, uint64_t w) {
  if ((w & UVS__LISTED) == 0) /* else whoever ended it took it off its list */
    uvs__agenda_remove(&s->agenda, slot, w);
}

/* It was settled just now, and its word was w. */
static void leave_queue(uvs_t *s, uint32_t slot, uint64_t w, uint64_t flags) {
  uvs__tell_of_due(s);
  if ((w & UVS__INBOX) != 0) { /* whoever linked it brings it, see move_held */
    if (!s->in_tick)
      uvs__owe_turn(s);
    return;
  }
  uvs__unlink_ended(s, slot, w);
  uvs__conclude(s, slot, uvs__word_in(w, UVS__ENDED) | UVS__CANCELLED | UVS__INBOX | flags);
}

static bool not_started(uint64_t w) {
  return uvs__word_state(w) == UVS__WAITING || uvs__word_state(w) == UVS__READY;
}

bool uvs__end_on_loop(uvs_t *s, uint32_t slot, uvs_id_t id, uint64_t flags) {
  uint64_t w = uvs__load(&uvs__slot(s, slot)->word, relaxed); /* the CAS acquires */

  do {
    if (!not_started(w))
      return false;
    if (id != 0 && uvs__id(w, slot) != id)
      return false; /* over meanwhile, and the slot is another's */
  } while (!uvs__pool_cancel(&s->pool, slot, &w, flags));
  leave_queue(s, slot, w, flags);
  return true;
}

bool uvs__drop_on_loop(uvs_t *s, uvs_id_t id) {
  uint32_t slot = (uint32_t)id & UVS__SLOT_MASK;
  uint64_t w = uvs__load(&uvs__slot(s, slot)->word, relaxed); /* the CAS acquires */

  do {
    if (!not_started(w) || uvs__id(w, slot) != id)
      return false;
  } while (!uvs__pool_drop(&s->pool, slot, &w));
  leave_queue(s, slot, w, 0);
  return true;
}

/* A periodic task whose next run would be after its end time: a success, unless the last one
 * failed.
 */
void uvs__complete_waiting(uvs_t *s, uint32_t slot) {
  struct uvs__slot *t = uvs__slot(s, slot);
  const struct uvs__record *last = &uvs__agenda_cold(&s->agenda, t)->run;
  uint64_t w = uvs__load(&t->word, relaxed); /* the CAS acquires */
  uint64_t to;

  do {
    if (uvs__word_state(w) != UVS__WAITING || (w & (UVS__INBOX | UVS__MOVING)) != 0)
      return; /* cancelled or moved meanwhile: the inbox brings it */
    to = uvs__word_with_status(uvs__word_in(w, UVS__ENDED), last->failure) | UVS__INBOX;
  } while (!uvs__pool_decide(&s->pool, slot, &w, to,
                             last->timed_out     ? UVS__TIMED_OUT
                             : last->failure < 0 ? UVS__FAILED
                                                 : UVS__COMPLETED));
  uvs__conclude(s, slot, to);
}
