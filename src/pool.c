/* SPDX-License-Identifier: MIT */
#include "pool.h"

#include "lane.h"

#include <string.h>

int uvs__pool_init(struct uvs__pool *p, struct uvs__agenda *a, const uvs_allocator_t *mem,
                   void *runner_arg) {
  int rc;

  memset(p, 0, sizeof *p);
  p->agenda = a;
  p->mem = mem;
  p->runner_arg = runner_arg;
  uvs__ready_init(&p->home.ready);
  uvs__ready_init(&p->due);
  rc = uv_mutex_init(&p->lock);
  if (rc < 0)
    return rc;
  rc = uv_cond_init(&p->settled);
  if (rc < 0)
    goto destroy_lock;
  rc = uv_cond_init(&p->more);
  if (rc < 0)
    goto destroy_settled;
  return 0;

destroy_settled:
  uv_cond_destroy(&p->settled);
destroy_lock:
  uv_mutex_destroy(&p->lock);
  return rc;
}

void uvs__pool_destroy(struct uvs__pool *p) {
  uvs__crew_free_runners(p);
  uv_cond_destroy(&p->more);
  uv_cond_destroy(&p->settled);
  uv_mutex_destroy(&p->lock);
}

/* ---- turns, with the lock ---- */

static inline struct uvs__lane_turns *lane_of(struct uvs__pool *p, uint32_t slot) {
  struct uvs__lane *lane;
  struct uvs__cold *c;

  if (!uvs__locked_load(&p->with_lanes, relaxed)) /* see there */
    return NULL;
  c = uvs__agenda_cold(p->agenda, uvs__agenda_slot(p->agenda, slot));
  lane = c == NULL ? NULL : uvs__locked_load(&c->lane, relaxed); /* constant while it is not over */
  return lane == NULL ? NULL : &lane->turns;
}

/* What its turn depends on, of a READY task: its class, and whether it has a lane. It is kept in
 * `next`, so that who starts it need not wait, under the lock, for its cold record. One without
 * such has something else there. */
#define HAS_LANE 4u

static unsigned turn_of(const struct uvs__pool *p, uint32_t slot) {
  const struct uvs__slot *t = uvs__agenda_slot(p->agenda, slot);

  /* relaxed, both: written before it was READY; under the lock */
  if ((uvs__locked_load(&t->seq_cold, relaxed) & UVS__SLOT_MASK) == 0)
    return UVS__NORMAL;
  return uvs__locked_load(&t->next, relaxed);
}

static void note_turn(struct uvs__pool *p, uint32_t slot, const struct uvs__lane_turns *l) {
  struct uvs__slot *t = uvs__agenda_slot(p->agenda, slot);
  struct uvs__cold *c = uvs__agenda_cold(p->agenda, t);

  if (c != NULL) /* relaxed, both: constant; READY, and under the lock */
    uvs__locked_store(&t->next, uvs__locked_load(&c->class, relaxed) | (l != NULL ? HAS_LANE : 0),
                      relaxed);
}

static struct uvs__lane_turns *lane_of_ready(struct uvs__pool *p, uint32_t slot) {
  return (turn_of(p, slot) & HAS_LANE) != 0 ? lane_of(p, slot) : NULL;
}

static void append(struct uvs__pool *p, struct uvs__ready *r, uint32_t slot) {
  uvs__ready_append(p->agenda, r, turn_of(p, slot) & ~HAS_LANE, slot);
}

static bool take_off(struct uvs__pool *p, struct uvs__ready *r, uint32_t slot) {
  return uvs__ready_remove(p->agenda, r, turn_of(p, slot) & ~HAS_LANE, slot);
}

static uint64_t word_of(struct uvs__pool *p, uint32_t slot) {
  return uvs__locked_load(&uvs__agenda_slot(p->agenda, slot)->word,
                          relaxed); /* for ONLOOP, which is written under the lock */
}

static struct uvs__crew *crew_of(struct uvs__pool *p, const struct uvs__lane_turns *l) {
  return l == NULL ? &p->home : l->crew;
}

static bool has_no_runners(const struct uvs__crew *c) {
  return uvs__locked_load(&c->concurrency, relaxed) == 0; /* a setting */
}

bool uvs__pool_is_loops_locked(struct uvs__pool *p, uint32_t slot) {
  return has_no_runners(crew_of(p, lane_of(p, slot)));
}

/* READY for the pool, and now for the loop. */
static void give_to_loop(struct uvs__pool *p, uint32_t slot) {
  struct uvs__slot *t = uvs__agenda_slot(p->agenda, slot);
  uint64_t w = uvs__locked_load(&t->word, relaxed); /* the CAS acquires */

  while (!uvs__word_try_locked(t, &w, w | UVS__ONLOOP)) {
  }
  p->ready_count[0]--;
  p->ready_count[1]++;
}

/* What this lane adds to its crew's `startable`, as it stands now. */
static void promise(struct uvs__pool *p, struct uvs__lane_turns *l) {
  uint32_t room = l->running >= l->width ? 0 : l->width - l->running;
  uint32_t promised = l->ready < room ? l->ready : room;

  if (l->next == UVS__NONE || (word_of(p, l->next) & UVS__ONLOOP) != 0)
    promised = 0;
  l->crew->startable += promised - l->promised;
  l->promised = promised;
  if (l->crew != &p->home)
    uvs__crew_list_locked(p, l->crew);
}

/* If the lane may start one more, the first that waits in it waits among all others. */
static void admit(struct uvs__pool *p, struct uvs__lane_turns *l) {
  uint32_t slot = l->waiting.head;
  bool on_loop;

  if (l->next == UVS__NONE && !l->shut && l->running < l->width && slot != UVS__NONE) {
    uvs__list_unlink(p->agenda, &l->waiting, slot);
    l->next = slot;
    if ((word_of(p, slot) & UVS__ONLOOP) == 0 && has_no_runners(l->crew))
      give_to_loop(p, slot);
    on_loop = (word_of(p, slot) & UVS__ONLOOP) != 0;
    append(p, on_loop ? &p->due : &l->crew->ready, slot);
    if (on_loop)
      uvs__locked_store(&p->due_news, true, relaxed); /* who did this asks after the lock */
  }
  promise(p, l);
}

void uvs__pool_list_locked(struct uvs__pool *p, uint32_t slot, uint64_t w) {
  struct uvs__lane_turns *l = lane_of(p, slot);
  bool on_loop = uvs__on_which(w) != 0;

  p->ready_count[on_loop]++;
  note_turn(p, slot, l);
  if (l == NULL) {
    append(p, on_loop ? &p->due : &p->home.ready, slot);
    p->home.startable += !on_loop;
    return;
  }
  l->ready++;
  uvs__list_append(p->agenda, &l->waiting, slot);
  admit(p, l);
}

/* It is READY no more. */
static void unlist(struct uvs__pool *p, struct uvs__lane_turns *l, uint32_t slot, uint64_t w) {
  bool on_loop = uvs__on_which(w) != 0;

  p->ready_count[on_loop]--;
  if (l == NULL) {
    if (take_off(p, on_loop ? &p->due : &p->home.ready, slot))
      p->home.startable -= !on_loop;
    return;
  }
  if (l->next != slot)
    uvs__list_unlink(p->agenda, &l->waiting, slot);
  else
    take_off(p, on_loop ? &p->due : &l->crew->ready, slot);
  l->ready--;
  if (l->next == slot)
    l->next = UVS__NONE;
  admit(p, l);
}

void uvs__pool_ended_locked(struct uvs__pool *p, uint32_t slot) {
  struct uvs__lane_turns *l = lane_of(p, slot);

  if (l == NULL)
    return;
  l->running--;
  admit(p, l);
}

bool uvs__pool_take_news(struct uvs__pool *p) {
  /* relaxed, both: our own are there, and who takes another's wakes the loop as well */
  return uvs__load(&p->due_news, relaxed) && uvs__swap(&p->due_news, false, relaxed);
}

void uvs__pool_shut_lane_locked(struct uvs__pool *p, struct uvs__lane_turns *l) {
  l->shut = true;
  if (l->next != UVS__NONE) {
    bool on_loop = (word_of(p, l->next) & UVS__ONLOOP) != 0;

    take_off(p, on_loop ? &p->due : &l->crew->ready, l->next);
    l->next = UVS__NONE; /* still READY: the loop ends it */
  }
  promise(p, l);
}

uint32_t uvs__pool_first(struct uvs__pool *p) {
  uint32_t slot = UVS__NONE;

  uv_mutex_lock(&p->lock);
  slot = uvs__ready_first(&p->home.ready);
  for (struct uvs__crew *c = p->wanting; c != NULL && slot == UVS__NONE; c = c->next)
    slot = uvs__ready_first(&c->ready);
  if (slot == UVS__NONE)
    slot = uvs__ready_first(&p->due);
  uv_mutex_unlock(&p->lock);
  return slot;
}

bool uvs__pool_is_due(struct uvs__pool *p) {
  bool due;

  uv_mutex_lock(&p->lock);
  due = p->due.count > 0;
  uvs__locked_store(&p->due_news, false, relaxed); /* the lock orders it */
  uv_mutex_unlock(&p->lock);
  return due;
}

void uvs__pool_take_over(struct uvs__pool *p) {
  uint32_t slot;

  uv_mutex_lock(&p->lock);
  while (has_no_runners(&p->home) && (slot = uvs__ready_first(&p->home.ready)) != UVS__NONE) {
    struct uvs__lane_turns *l = lane_of(p, slot);

    take_off(p, &p->home.ready, slot);
    give_to_loop(p, slot);
    append(p, &p->due, slot);
    if (l == NULL)
      p->home.startable--;
    else
      promise(p, l);
  }
  uv_mutex_unlock(&p->lock);
}

/* ---- moves ---- */

void uvs__pool_settle_locked(struct uvs__pool *p, uint64_t w, enum uvs__outcome outcome) {
  uint64_t one = UVS__LOAD_ONE + ((w & UVS__REF) != 0 ? UVS__LOAD_REF : 0);

  if (uvs__word_state(w) == UVS__RUNNING)
    p->running_count--;
  p->ended[outcome]++;
  if ((w & UVS__KEEP) != 0)
    uv_cond_broadcast(&p->settled);
  uvs__locked_sub(&p->load, one, seq_cst); /* a count, and as uvs__any_ref says */
}

bool uvs__pool_decide(struct uvs__pool *p, uint32_t slot, uint64_t *w, uint64_t to,
                      enum uvs__outcome outcome) {
  bool done;

  uv_mutex_lock(&p->lock);
  done = uvs__word_try_locked(uvs__agenda_slot(p->agenda, slot), w, to);
  if (done && uvs__word_state(*w) == UVS__READY)
    unlist(p, lane_of_ready(p, slot), slot, *w);
  if (done)
    uvs__pool_settle_locked(p, *w, outcome);
  uv_mutex_unlock(&p->lock);
  return done;
}

bool uvs__pool_cancel(struct uvs__pool *p, uint32_t slot, uint64_t *w, uint64_t flags) {
  uint64_t to = (*w & ~UVS__PUSHES) | UVS__CANCELLED | flags;

  if (uvs__word_state(*w) != UVS__RUNNING)
    to = uvs__word_in(to, UVS__ENDED) | UVS__INBOX;
  return uvs__pool_decide(p, slot, w, to, UVS__CANCELED);
}

bool uvs__pool_drop(struct uvs__pool *p, uint32_t slot, uint64_t *w) {
  uint64_t to = uvs__word_in((*w & ~UVS__PUSHES) | UVS__CANCELLED | UVS__INBOX, UVS__ENDED);

  return uvs__pool_decide(p, slot, w, to, UVS__DROPPED);
}

void uvs__pool_heed_lane_locked(struct uvs__pool *p, uint32_t slot, uint64_t *w) {
  struct uvs__lane_turns *l = lane_of(p, slot);

  if (l == NULL || !l->shut)
    return;
  while (!uvs__settled(*w)) {
    if (!uvs__word_try_locked(uvs__agenda_slot(p->agenda, slot), w, *w | UVS__CANCELLED))
      continue;
    uvs__pool_settle_locked(p, *w, UVS__CANCELED);
    *w |= UVS__CANCELLED;
  }
}

/* Move 4. */
static bool start_locked(struct uvs__pool *p, uint32_t slot, uint64_t *w) {
  struct uvs__lane_turns *l;

  if (uvs__word_state(*w) != UVS__READY)
    return false;
  l = lane_of_ready(p, slot);
  if (!uvs__word_try_locked(uvs__agenda_slot(p->agenda, slot), w,
                            uvs__word_in(*w & ~UVS__LISTED, UVS__RUNNING)))
    return false;
  if (l != NULL)
    l->running++; /* before its place is another's */
  unlist(p, l, slot, *w);
  p->running_count++;
  return true;
}

uint32_t uvs__pool_start_locked(struct uvs__pool *p, struct uvs__ready *ready) {
  uint32_t slot = uvs__ready_first(ready);
  uint32_t next;
  uint64_t w;

  if (slot == UVS__NONE)
    return slot;
  w = word_of(p, slot);
  while (
      !start_locked(p, slot, &w)) /* what is listed is READY: nobody can be in our way for long */
    UVS_ASSERT(uvs__word_state(w) == UVS__READY);
  uvs__ready_turn(ready);
  p->runs++;
  next = uvs__ready_first(ready);
  if (next != UVS__NONE)
    __builtin_prefetch(uvs__agenda_slot(p->agenda, next), 1); /* whoever takes it */
  return slot;
}

bool uvs__pool_withdraw(struct uvs__pool *p, uint32_t slot, uint64_t *w) {
  bool done;

  uv_mutex_lock(&p->lock);
  done = start_locked(p, slot, w);
  uv_mutex_unlock(&p->lock);
  return done;
}
