/* SPDX-License-Identifier: MIT */
#include "turns.h"

#define TURNS 13

static const uint8_t wheel[TURNS] = {
    UVS__HIGH, UVS__HIGH,   UVS__NORMAL, UVS__HIGH, UVS__HIGH,   UVS__NORMAL, UVS__HIGH,
    UVS__HIGH, UVS__NORMAL, UVS__HIGH,   UVS__HIGH, UVS__NORMAL, UVS__LOW,
};

void uvs__ready_init(struct uvs__ready *r) {
  for (int i = 0; i < UVS__CLASSES; i++)
    uvs__list_init(&r->of[i]);
  r->turn = 0;
  r->count = 0;
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
