/* SPDX-License-Identifier: MIT
 *
 * replace: UVS_REPLACE. A new task takes the name of the old task that had this name, and also its
 * id if possible.
 */
#include "core/moves.h"

/* Can the new task take the slot of the old task t, and so its id? Only if no callback has to
 * report the end of t. (Its calendar needs no callback: the caller releases it.) */
static bool can_keep_id(const struct uvs__task *t, const struct uvs__extra *x) {
  return (t->state == UVS__WAITING || t->state == UVS__READY) && t->place != UVS__IN_OWED &&
         t->done == NULL && !uvs__has(t, UVS__KEPT | UVS__CLEANUPS) && x->gate == NULL &&
         x->waiters == NULL && x->decoration.release == NULL;
}

/* Exchanges the slots of two tasks. Neither of them is in a list. */
static void exchange(uvs_t *s, uint32_t one, uint32_t two) {
  struct uvs__task *a = uvs__task(s, one);
  struct uvs__task *b = uvs__task(s, two);
  struct uvs__task other = *a;

  *a = *b;
  *b = other;
  b->generation = a->generation; /* each slot keeps its id */
  a->generation = other.generation;
  uvs__extra(s, a)->slot = one;
  uvs__extra(s, b)->slot = two;
}

uint32_t uvs__replace(uvs_t *s, uint32_t slot, bool *ret_replaced,
                      struct uvs_calendar_s **ret_calendar) {
  struct uvs__extra *x = uvs__extra(s, uvs__task(s, slot));
  uint32_t old = uvs__name_find(s, x->name);
  struct uvs__task *t;

  *ret_calendar = NULL;
  *ret_replaced = false;
  if (old == UVS__NONE) {
    uvs__name_add(s, slot);
    return slot;
  }
  t = uvs__task(s, old);
  *ret_replaced = !uvs__is_settled(t); /* a settled task has ended, but its run goes on */
  uvs__extra(s, t)->replaced = t->state == UVS__RUNNING;
  x->held = t->state == UVS__RUNNING || uvs__extra(s, t)->held;
  if (x->held)
    x->held_by = t->state == UVS__RUNNING ? old : uvs__extra(s, t)->held_by;
  uvs__name_remove(s, old);
  if (can_keep_id(t, uvs__extra(s, t)) && x->gate == NULL) {
    if (t->kind == UVS_CALENDAR) { /* else the loop would release it at the end of the task */
      *ret_calendar = uvs__extra(s, t)->calendar;
      t->kind = UVS_FIXED_RATE;
    }
    if (t->state == UVS__WAITING)
      uvs__unfile(s, old, t);
    else {
      uvs__unready(s, old, t, false);
      uvs__back_to_waiting(s, old);
    }
    exchange(s, old, slot);
    uvs__end_unstarted(s, slot, UVS__WAS_CANCELLED, 0);
    slot = old;
  } else if (t->state == UVS__WAITING || t->state == UVS__READY) {
    uvs__end_unstarted(s, old, UVS__WAS_CANCELLED, 0);
  } else if (t->state == UVS__RUNNING && !uvs__is_settled(t)) {
    uvs__settle_running(s, old, UVS__WAS_CANCELLED);
  }
  uvs__name_add(s, slot);
  return slot;
}
