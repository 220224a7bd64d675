/* SPDX-License-Identifier: MIT
 *
 * waiters: threads that wait for the end of tasks, or for termination.
 *
 * Each thread sleeps on a condition of its own, in a struct uvs__sleeper on its stack. A struct
 * uvs__waiter links the sleeper to one task. When the task ends, its outcome is copied into the
 * waiter and the waiter is unlinked, so the slot of the task can be freed at once. The thread is
 * woken once, when its whole wait is satisfied: a group of n tasks costs one wake-up.
 *
 * A thread is signalled under the lock; this is the only system call under the lock. After
 * unlocking it would be too late: the sleeper may have returned for another reason, and its
 * condition, which is on its stack, would be gone.
 *
 * A sleeper has its handle (uvs_waiter_t) only until its wait is decided: by the tasks, by an
 * abandonment, or by the time limit. A later abandonment is for the next call.
 */
#include "core/moves.h"

/* ---- waking ---- */

static void wake_sleeper(struct uvs__sleeper *z) {
  z->woken = true;
  uvs__handle_release(z);
  uv_cond_signal(&z->cond);
}

static void wake_if_satisfied(struct uvs__sleeper *z) {
  bool satisfied = z->not_over == 0;

  if (z->race && !z->drains)
    satisfied = z->winner != NULL || z->unsettled == 0;
  if (satisfied && !z->woken)
    wake_sleeper(z);
}

/* ---- outcomes ---- */

void uvs__read_outcome(const struct uvs__task *t, const struct uvs__extra *x, uvs_outcome_t *o) {
  uvs_outcome_init(o);
  o->state = t->state == UVS__ENDED ? UVS_ENDED : UVS_RUNNING;
  o->status = uvs__outcome_of(t, x);
  if (o->status == 0)
    o->result = uvs__has(t, UVS__TIMED_OUT) ? x->limit_result : x->result;
  o->runs = x->runs;
  if (t->state != UVS__ENDED)
    return; /* the run is not over: its times are not final */
  o->ideal_ns = x->run.ideal_ns;
  o->start_ns = x->run.start_ns;
  o->end_ns = x->run.end_ns;
}

static void note_settled(struct uvs__waiter *w, int status) {
  struct uvs__sleeper *z = w->sleeper;

  if (w->settled)
    return;
  w->settled = true;
  w->status = status;
  z->unsettled--;
  if (z->race && !z->drains && z->winner == NULL && status == 0)
    z->winner = w;
}

static void hand_over_outcome(struct uvs__extra *x, struct uvs__waiter *w, const uvs_outcome_t *o) {
  struct uvs__sleeper *z = w->sleeper;

  note_settled(w, o->status);
  w->outcome = *o;
  z->not_over--;
  if (o->status == 0 && z->wants_result && (!z->race || z->winner == w))
    x->outcome_taken = true; /* losers of a race do not take their results */
  uvs__waiter_unlink(w);
}

void uvs__waiter_serve(const struct uvs__task *t, struct uvs__extra *x, struct uvs__waiter *w) {
  uvs_outcome_t o;

  uvs__read_outcome(t, x, &o);
  hand_over_outcome(x, w, &o);
}

/* ---- the waiters of a task ---- */

void uvs__waiter_link(struct uvs__extra *x, struct uvs__waiter *w) {
  w->next = x->waiters;
  w->link = &x->waiters;
  if (w->next != NULL)
    w->next->link = &w->next;
  x->waiters = w;
}

void uvs__waiter_unlink(struct uvs__waiter *w) {
  if (w->link == NULL)
    return;
  *w->link = w->next;
  if (w->next != NULL)
    w->next->link = w->link;
  w->link = NULL;
}

void uvs__waiters_settled(uvs_t *s, const struct uvs__task *t, struct uvs__extra *x) {
  struct uvs__waiter *next;
  uvs_outcome_t o;

  (void)s;
  if (x->waiters == NULL)
    return;
  uvs__read_outcome(t, x, &o);
  for (struct uvs__waiter *w = x->waiters; w != NULL; w = next) {
    next = w->next;
    if (w->settled_is_enough)
      hand_over_outcome(x, w, &o);
    else
      note_settled(w, o.status);
    wake_if_satisfied(w->sleeper);
  }
}

void uvs__waiters_quiet(uvs_t *s, const struct uvs__task *t, struct uvs__extra *x) {
  uvs_outcome_t o;

  (void)s;
  if (x->waiters == NULL)
    return;
  UVS_ASSERT(t->state == UVS__ENDED);
  uvs__read_outcome(t, x, &o);
  while (x->waiters != NULL) {
    struct uvs__waiter *w = x->waiters;

    hand_over_outcome(x, w, &o);
    wake_if_satisfied(w->sleeper);
  }
}

/* ---- termination ---- */

void uvs__terminated_link(uvs_t *s, struct uvs__sleeper *z) {
  z->next = s->terminated_waiters;
  z->link = &s->terminated_waiters;
  if (z->next != NULL)
    z->next->link = &z->next;
  s->terminated_waiters = z;
}

void uvs__terminated_unlink(struct uvs__sleeper *z) {
  if (z->link == NULL)
    return;
  *z->link = z->next;
  if (z->next != NULL)
    z->next->link = z->link;
  z->link = NULL;
}

void uvs__wake_terminated(uvs_t *s) {
  while (s->terminated_waiters != NULL) {
    struct uvs__sleeper *z = s->terminated_waiters;

    uvs__terminated_unlink(z);
    wake_sleeper(z);
  }
}

/* ---- handles ---- */

int uvs__handle_claim(const void *owner, struct uvs__sleeper *z, void *handle) {
  uvs_waiter_t *w = handle;

  if (w == NULL)
    return 0;
  if (w->size != sizeof *w)
    return UV_EINVAL;
  if (w->waiting != NULL)
    return UV_EBUSY;
  if (w->requested != 0) {
    w->requested = 0;
    return UV_EINTR;
  }
  w->owner = owner;
  w->waiting = z;
  z->handle = w;
  return 0;
}

void uvs__handle_release(struct uvs__sleeper *z) {
  uvs_waiter_t *w = z->handle;

  if (w == NULL)
    return;
  w->owner = NULL;
  w->waiting = NULL;
  z->handle = NULL;
}

int uvs__handle_abandon(uvs_t *s, void *handle) {
  uvs_waiter_t *w = handle;
  struct uvs__sleeper *z;

  if (w == NULL || w->size != sizeof *w)
    return UV_EINVAL;
  if (w->waiting == NULL) {
    w->requested = 1;
    return 0;
  }
  if (w->owner != s)
    return UV_EINVAL; /* it waits in another scheduler, or in a queue: under another lock */
  z = w->waiting;
  z->abandoned = true;
  z->drains = true;
  if (z->only != NULL)
    uvs__waiter_unlink(z->only); /* else it might receive a result that its call would lose */
  uvs__handle_release(z);
  uv_cond_signal(&z->cond);
  return 1;
}
