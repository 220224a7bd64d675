/* SPDX-License-Identifier: MIT
 *
 * tags: which deliveries of a channel may be acknowledged. Delivery tags count up from 1. A tag is
 * finished when its message is safe elsewhere. The longest finished prefix is acknowledged at once
 * (`multiple`). If the oldest tag is slow (its message waits for the parking queue), the finished
 * tags behind it are acknowledged one by one. Pure.
 */
#ifndef UVSCHED_AMQP_TAGS_H
#define UVSCHED_AMQP_TAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct uvs__tags {
  uint8_t *state; /* a ring */
  size_t room;    /* 0 or a power of two */
  uint64_t first; /* the oldest tag that is not acknowledged in a prefix */
  uint64_t next;  /* the tag that comes next */
};

void uvs__tags_init(struct uvs__tags *t);
void uvs__tags_free(struct uvs__tags *t); /* as after init */

/* A delivery has come. Returns 0; UV_EPROTO (not the tag that comes next); UV_ENOMEM. */
int uvs__tags_add(struct uvs__tags *t, uint64_t tag);
void uvs__tags_slow(struct uvs__tags *t, uint64_t tag);
void uvs__tags_finish(struct uvs__tags *t, uint64_t tag);

/* What to acknowledge now; call it until it returns 0. */
uint64_t uvs__tags_ack(struct uvs__tags *t, bool *ret_multiple);

static inline bool uvs__tags_is_empty(const struct uvs__tags *t) {
  return t->first == t->next;
}

#endif
