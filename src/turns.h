/* SPDX-License-Identifier: MIT
 *
 * turns: who starts next. Ready tasks wait in three classes, high, normal and low, first in first
 * out in each; the classes take turns, 8 : 4 : 1.
 *
 * A wheel of 13 turns says whose turn it is. If that class has nobody, the highest that has takes
 * it; so of any 13 starts in a row low has one, normal four and high eight, if they have so many.
 * The first of its class is overtaken by at most 2 (high), 3 (normal) or 12 (low) of the others.
 *
 * Under the pool's lock, all of it.
 */
#ifndef UVS__TURNS_H
#define UVS__TURNS_H

#include "agenda.h"

/* First in, first out, through the slots' links. */
struct uvs__list {
  uint32_t head, tail;
};

/* `a` of the first on a list; UVS__NONE would mean: on no list. */
#define UVS__LIST_FIRST (UVS__NONE - 1)

static inline void uvs__list_init(struct uvs__list *l) {
  l->head = UVS__NONE;
  l->tail = UVS__NONE;
}

static inline void uvs__list_append(const struct uvs__agenda *a, struct uvs__list *l,
                                    uint32_t slot) {
  struct uvs__link *k = uvs__agenda_link(a, slot);

  UVS_ASSERT(k->a == UVS__NONE);
  k->a = l->tail == UVS__NONE ? UVS__LIST_FIRST : l->tail;
  k->b = UVS__NONE;
  if (l->tail == UVS__NONE)
    l->head = slot;
  else
    uvs__agenda_link(a, l->tail)->b = slot;
  l->tail = slot;
}

/* False if it was not linked any more. */
static inline bool uvs__list_unlink(const struct uvs__agenda *a, struct uvs__list *l,
                                    uint32_t slot) {
  struct uvs__link *k = uvs__agenda_link(a, slot);

  if (k->a == UVS__NONE)
    return false;
  if (k->a == UVS__LIST_FIRST)
    l->head = k->b;
  else
    uvs__agenda_link(a, k->a)->b = k->b;
  if (k->b == UVS__NONE)
    l->tail = k->a == UVS__LIST_FIRST ? UVS__NONE : k->a;
  else
    uvs__agenda_link(a, k->b)->a = k->a;
  *k = (struct uvs__link){UVS__NONE, UVS__NONE};
  return true;
}

enum { UVS__HIGH, UVS__NORMAL, UVS__LOW, UVS__CLASSES };

struct uvs__ready {
  struct uvs__list of[UVS__CLASSES];
  unsigned turn;
  uint32_t count;
};

void uvs__ready_init(struct uvs__ready *r);

static inline void uvs__ready_append(const struct uvs__agenda *a, struct uvs__ready *r,
                                     unsigned class, uint32_t slot) {
  uvs__list_append(a, &r->of[class], slot);
  r->count++;
}

/* False if it was not linked any more. */
static inline bool uvs__ready_remove(const struct uvs__agenda *a, struct uvs__ready *r,
                                     unsigned class, uint32_t slot) {
  if (!uvs__list_unlink(a, &r->of[class], slot))
    return false;
  r->count--;
  return true;
}

/* Whose turn it is; UVS__NONE if there is nobody. It stays where it is. */
uint32_t uvs__ready_first(const struct uvs__ready *r);
/* It has started: its turn is over. */
void uvs__ready_turn(struct uvs__ready *r);

#endif
