/* SPDX-License-Identifier: MIT
 *
 * close: the end of a scheduler, on the loop.
 *
 * Closing has three steps: refuse new work and stop; let passes end every task, lane and queue;
 * close the handles. The owner's reference is released after the close callback. The last release
 * frees the memory.
 */
#include "loop/loop.h"

#include "uvsched/calendar.h"

#include "pool/crew.h"
#include "util/numbers.h"
#include "uvsched/executor.h"

/* Lock held: cancels up to a batch of the lane's tasks. False: there are none left. */
static bool sweep(uvs_t *s, struct uvs__gate *g) {
  for (int steps = UVS__BATCH; steps > 0; steps--) {
    uint32_t slot = g->first_task;
    struct uvs__task *t;

    if (slot == UVS__NONE)
      return false;
    t = uvs__task(s, slot);
    uvs__gate_part(s, g, slot);
    if (t->state == UVS__WAITING || t->state == UVS__READY)
      uvs__end_refused(s, slot);
    else if (t->state == UVS__RUNNING && !uvs__is_settled(t))
      uvs__settle_running(s, slot, UVS__WAS_CANCELLED);
  }
  return true;
}

/* Lock held, except between two batches. */
static void dispose(uvs_t *s, struct uvs__gate *g) {
  if (g->shut)
    return;
  g->live++; /* the lane is not quiet until all its tasks were looked at */
  uvs__gate_shut(s, g);
  uvs__owe_settled_cleanups(s, g->first_cleanup);
  while (sweep(s, g)) {
    uvs__unlock_and_wake(s, 0); /* let others in */
    uvs__lock(s);
  }
  uvs__gate_left(g, 1);
}

void uvs__dispose(uvs_t *s, struct uvs__gate *g, bool token) {
  uvs__lock(s);
  if (token) {
    uvs__store(&g->token, true, release); /* pairs with the acquire in uvs_cancelled */
    s->at.policy_changed |= s->any_interrupts;
  }
  dispose(s, g);
  uvs__unlock_and_wake(s, 0);
}

void uvs__close_parts(uvs_t *s) {
  void (*close_queues)(uvs_t *) = s->queues.close;

  if (s->queues.shut)
    return;
  s->queues.shut = true;
  if (close_queues != NULL) {
    uvs__unlock(s);
    close_queues(s);
    uvs__lock(s);
  }
  /* Only the loop takes a lane off the list, and no lane is added after shutdown. */
  for (struct uvs__gate *g = s->gates; g != NULL; g = g->next_gate)
    dispose(s, g);
}

/* ---- give back ---- */

static void drop_action(uvs_t *s, struct uvs__cleanup *a) {
  if (--a->lists == 0)
    uvs__mem_free(&s->mem, a);
}

/* In a forked child: releases the calendars. */
static void drop_calendars(uvs_t *s) {
  for (uint32_t slot = 0; s->any_calendars && slot < s->table.tasks.made; slot++) {
    const struct uvs__task *t = uvs__task(s, slot);

    if (t->kind == UVS_CALENDAR && t->state != UVS__FREE && !uvs__has(t, UVS__TOLD))
      uvs_calendar_release(uvs__extra(s, t)->calendar);
  }
}

/* In a forked child: frees all actions without calling them. */
static void drop_actions(uvs_t *s) {
  struct uvs__cleanup *next;

  for (struct uvs__cleanup *a = s->at.now_first; a != NULL; a = next) {
    next = a->next_now;
    drop_action(s, a);
  }
  for (uint32_t slot = 0; slot < s->table.tasks.made; slot++) {
    const struct uvs__task *t = uvs__task(s, slot);
    struct uvs__cleanup *a = uvs__has(t, UVS__CLEANUPS) ? uvs__extra(s, t)->first_cleanup : NULL;

    for (; a != NULL; a = next) {
      next = a->next;
      drop_action(s, a);
    }
  }
}

static void destroy(uvs_t *s) {
  uvs_allocator_t mem = s->mem;

  if (uvs__forked(&s->fork)) { /* locks may be held by threads that do not exist in the child */
    if (s->home.own != NULL)
      uvs_threads_close(s->home.own);
    uvs__ticker_forget(&s->ticker);
    if (uv_mutex_trylock(&s->lock) == 0) { /* else a thread was changing the lists at the fork */
      drop_actions(s);
      drop_calendars(s);
      uv_mutex_unlock(&s->lock); /* with a debug build of libuv, musl lists a thread's locks */
    }
  } else {
    uv_cond_destroy(&s->lingering);
    uv_mutex_destroy(&s->lock);
  }
  uvs__number_give((uint32_t)(s->table.id_base >> UVS__ID_BITS));
  uvs__free_runners(s);
  uvs__name_stats_free(s);
  uvs__table_free_memory(&s->table, &mem);
  uvs__fork_destroy(&s->fork);
  uvs__mem_free(&mem, s->trace);
  uvs__mem_free(&mem, s->raw);
}

uvs_t *uvs_retain(uvs_t *s) {
  if (s != NULL)
    uvs__add(&s->refs, 1, relaxed); /* the caller has a reference, or relies on the owner's */
  return s;
}

void uvs_release(uvs_t *s) {
  if (s == NULL)
    return;
  /* acq_rel: each call releases its thread's accesses; the last one acquires those of all others */
  if (uvs__sub(&s->refs, 1, acq_rel) == 1)
    destroy(s);
}

/* Every task is over. Drops each result that no wait has received. A wait that is still in progress
 * no longer finds the task of such a result. */
static void drop_unclaimed(uvs_t *s) {
  uvs__lock(s);
  for (uint32_t slot = 0; s->any_drops && slot < s->table.tasks.made; slot++) {
    const struct uvs__task *t = uvs__task(s, slot);
    struct uvs__extra *x = t->state == UVS__ENDED ? uvs__extra(s, t) : NULL;
    void *result = x == NULL ? NULL : uvs__take_unclaimed(x);

    if (result != NULL)
      x->forgotten = true;
    if (result != NULL || slot % UVS__BATCH == 0) {
      uvs__unlock(s); /* also to let others in */
      if (result != NULL)
        x->drop_result(result); /* the task stays as it is: calls are refused by now */
      uvs__lock(s);
    }
  }
  uvs__unlock(s);
}

/* ---- handles ---- */

static void on_ticker_closed(struct uvs__ticker *k) {
  uvs_t *s = (void *)((char *)k - offsetof(uvs_t, ticker));

  uvs__store(&s->closed, true, release); /* pairs with uvs__enter */
  drop_unclaimed(s);
  if (s->close_cb != NULL)
    s->close_cb(s);
  uvs_release(s);
}

void uvs__finish_close(uvs_t *s) {
  bool over;

  uvs__lock(s);
  /* If a callback closes the scheduler and then runs the loop, this function may be called before
   * uvs__close_parts. */
  over = s->terminated && s->gates == NULL && s->queues.shut;
  s->cleanups_shut |= over; /* first: otherwise other threads could add actions for ever */
  over = over && s->at.now_first == NULL && !s->closing_handles && !s->ticker.nudged;
  s->at.mute |= over;
  uvs__unlock(s);
  if (!over)
    return;
  uvs__crew_close(s, &s->home);
  s->closing_handles = true;
  uvs__ticker_close(&s->ticker, on_ticker_closed);
}
