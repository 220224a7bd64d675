/* SPDX-License-Identifier: MIT
 *
 * replace: a new task takes the name, and if possible the id, of the old task of that name
 * (UVS_REPLACE).
 */
#include "core/moves.h"

/* Can the new task take the slot, and so the id, of the old task? Only if no callback has to report
 * the old task's end. (The caller releases the old task's calendar.) */
static bool can_keep_id(const struct uvs__task *t, const struct uvs__extra *x) {
  return (t->state == UVS__WAITING || t->state == UVS__READY) && t->place != UVS__IN_OWED &&
         t->done == NULL && !uvs__has(t, UVS__KEPT | UVS__CLEANUPS) && x->gate == NULL &&
         x->waiters == NULL && x->decoration.release == NULL;
}

/* Exchanges two tasks: each gets the slot of the other. Both are in no list. */
static void exchange(uvs_t *s, uint32_t one, uint32_t two) {
  struct uvs__task *a = uvs__task(s, one);
  struct uvs__task *b = uvs__task(s, two);
  struct uvs__task other = *a;

  *a = *b;
  *b = other;
  b->generation = a->generation; /* the ids stay where they are */
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
  *ret_replaced = !uvs__is_settled(t); /* else only its run is still in progress */
  uvs__extra(s, t)->replaced = t->state == UVS__RUNNING;
  x->held = t->state == UVS__RUNNING || uvs__extra(s, t)->held;
  if (x->held)
    x->held_by = t->state == UVS__RUNNING ? old : uvs__extra(s, t)->held_by;
  uvs__name_remove(s, old);
  if (can_keep_id(t, uvs__extra(s, t)) && x->gate == NULL) {
    if (t->kind == UVS_CALENDAR) { /* else the loop would give it back at the task's end */
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
