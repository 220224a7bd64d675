/* SPDX-License-Identifier: MIT */
#include "amqp/tags.h"

#include <string.h>

#include <uv.h>

#include "amqp/alloc.h"

enum { PENDING, SLOW, FINISHED, ACKED };

#define FIRST_ROOM 1024

void uvs__tags_init(struct uvs__tags *t) {
  memset(t, 0, sizeof *t);
  t->first = t->next = 1;
}

void uvs__tags_free(struct uvs__tags *t) {
  uvs__amqp_free(t->state);
  uvs__tags_init(t);
}

static uint8_t *state_of(const struct uvs__tags *t, uint64_t tag) {
  return &t->state[tag & (t->room - 1)];
}

static bool grow(struct uvs__tags *t) {
  size_t room = t->room == 0 ? FIRST_ROOM : 2 * t->room;
  uint8_t *state = uvs__amqp_alloc(room);

  if (state == NULL)
    return false;
  for (uint64_t tag = t->first; tag < t->next; tag++)
    state[tag & (room - 1)] = *state_of(t, tag);
  uvs__amqp_free(t->state);
  t->state = state;
  t->room = room;
  return true;
}

int uvs__tags_add(struct uvs__tags *t, uint64_t tag) {
  if (tag != t->next)
    return UV_EPROTO;
  if (t->next - t->first == t->room && !grow(t))
    return UV_ENOMEM;
  t->next++;
  *state_of(t, tag) = PENDING;
  return 0;
}

static void set(struct uvs__tags *t, uint64_t tag, uint8_t state) {
  if (tag >= t->first && tag < t->next && *state_of(t, tag) < FINISHED)
    *state_of(t, tag) = state;
}

void uvs__tags_slow(struct uvs__tags *t, uint64_t tag) {
  set(t, tag, SLOW);
}

void uvs__tags_finish(struct uvs__tags *t, uint64_t tag) {
  set(t, tag, FINISHED);
}

uint64_t uvs__tags_ack(struct uvs__tags *t, bool *ret_multiple) {
  uint64_t last = 0;

  while (t->first < t->next && *state_of(t, t->first) >= FINISHED) {
    if (*state_of(t, t->first) == FINISHED)
      last = t->first;
    t->first++;
  }
  *ret_multiple = last != 0;
  if (last != 0 || t->first == t->next || *state_of(t, t->first) != SLOW)
    return last;
  for (uint64_t tag = t->first + 1; tag < t->next; tag++) {
    if (*state_of(t, tag) == FINISHED) {
      *state_of(t, tag) = ACKED;
      return tag;
    }
  }
  return 0;
}
