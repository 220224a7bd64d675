/* SPDX-License-Identifier: MIT */
#include "turns.h"

#define FIRST (UVS__NONE - 1) /* `a` of the first on a list; UVS__NONE would mean: on no list */
#define TURNS 13

static const uint8_t wheel[TURNS] = {
    UVS__HIGH, UVS__HIGH,   UVS__NORMAL, UVS__HIGH, UVS__HIGH,   UVS__NORMAL, UVS__HIGH,
    UVS__HIGH, UVS__NORMAL, UVS__HIGH,   UVS__HIGH, UVS__NORMAL, UVS__LOW,
};

void uvs__list_init(struct uvs__list *l) {
  l->head = UVS__NONE;
  l->tail = UVS__NONE;
}

void uvs__list_append(const struct uvs__agenda *a, struct uvs__list *l, uint32_t slot) {
  struct uvs__link *k = uvs__agenda_link(a, slot);

  UVS_ASSERT(k->a == UVS__NONE);
  k->a = l->tail == UVS__NONE ? FIRST : l->tail;
  k->b = UVS__NONE;
  if (l->tail == UVS__NONE)
    l->head = slot;
  else
    uvs__agenda_link(a, l->tail)->b = slot;
  l->tail = slot;
}

bool uvs__list_unlink(const struct uvs__agenda *a, struct uvs__list *l, uint32_t slot) {
  struct uvs__link *k = uvs__agenda_link(a, slot);

  if (k->a == UVS__NONE)
    return false;
  if (k->a == FIRST)
    l->head = k->b;
  else
    uvs__agenda_link(a, k->a)->b = k->b;
  if (k->b == UVS__NONE)
    l->tail = k->a == FIRST ? UVS__NONE : k->a;
  else
    uvs__agenda_link(a, k->b)->a = k->a;
  *k = (struct uvs__link){UVS__NONE, UVS__NONE};
  return true;
}

void uvs__ready_init(struct uvs__ready *r) {
  for (int i = 0; i < UVS__CLASSES; i++)
    uvs__list_init(&r->of[i]);
  r->turn = 0;
  r->count = 0;
}

static struct uvs__list *class_of(const struct uvs__agenda *a, struct uvs__ready *r,
                                  uint32_t slot) {
  struct uvs__cold *c = uvs__agenda_cold(a, uvs__agenda_slot(a, slot));

  if (c == NULL)
    return &r->of[UVS__NORMAL];
  return &r->of[uvs__locked_load(&c->class, relaxed)]; /* constant */
}

void uvs__ready_append(const struct uvs__agenda *a, struct uvs__ready *r, uint32_t slot) {
  uvs__list_append(a, class_of(a, r, slot), slot);
  r->count++;
}

bool uvs__ready_remove(const struct uvs__agenda *a, struct uvs__ready *r, uint32_t slot) {
  if (!uvs__list_unlink(a, class_of(a, r, slot), slot))
    return false;
  r->count--;
  return true;
}

uint32_t uvs__ready_first(const struct uvs__ready *r) {
  uint32_t slot = r->of[wheel[r->turn]].head;

  for (int i = 0; i < UVS__CLASSES && slot == UVS__NONE; i++)
    slot = r->of[i].head;
  return slot;
}

void uvs__ready_turn(struct uvs__ready *r) {
  r->turn = (r->turn + 1) % TURNS;
}
