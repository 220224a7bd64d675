/* SPDX-License-Identifier: MIT */
#include "jobs/redis_shards.h"

static void carry_out(struct uvs__shards *all, struct uvs__request *r) {
  struct uvs__task *t = uvs__task_new(all, r);

  if (t == NULL)
    return;
  switch (r->op) {
  case UVS__PUT:
    uvs__shards_put(t);
    break;
  case UVS__CLAIM:
    uvs__shards_claim(t);
    break;
  case UVS__SETTLE:
    uvs__shards_settle(t);
    break;
  case UVS__ALTER:
  case UVS__GET:
    uvs__shards_find(t);
    break;
  case UVS__LIST:
  case UVS__REDRIVE:
  case UVS__PURGE:
    uvs__shards_page(t);
    break;
  case UVS__SET_QUEUE:
    uvs__shards_set_queue(t);
    break;
  case UVS__SET_CRON:
  case UVS__REMOVE_CRON:
    uvs__shards_cron(t);
    break;
  case UVS__CRONS:
    uvs__shards_crons(t);
    break;
  case UVS__COUNT:
    uvs__shards_count(t);
    break;
  case UVS__EVENTS:
    uvs__shards_events(t);
    break;
  case UVS__TRIM:
    uvs__shards_trim(t);
    break;
  }
}

/* Sends to each server all its requests as one batch, so that its puts share commands. */
static void send_batches(struct uvs__shards *all) {
  for (size_t i = 0; i < all->n; i++) {
    struct uvs__shard *shard = all->shards[i];
    struct uvs__request *first = shard->first;

    shard->first = NULL;
    shard->end = &shard->first;
    if (first != NULL)
      uvs__redis_run(shard->redis, first);
  }
}

/* Without a map, requests go to the server unchanged. The exception is EVENTS: the number of the
 * last event that was read is kept, because it is needed when there is a map. */
static void pass_on(struct uvs__shards *all, struct uvs__request *r) {
  struct uvs__shard *shard = all->shards[0];

  if (r->op == UVS__EVENTS) {
    carry_out(all, r);
    return;
  }
  r->next = NULL;
  *shard->end = r;
  shard->end = &r->next;
}

void uvs__shards_run(struct uvs__store *store, struct uvs__request *first) {
  struct uvs__shards *all = (struct uvs__shards *)store;

  store->trouble[0] = '\0';
  all->dividing = true;
  while (first != NULL) {
    struct uvs__request *next = first->next;

    if (all->map == NULL)
      pass_on(all, first);
    else
      carry_out(all, first);
    first = next;
  }
  all->dividing = false;
  send_batches(all);
}
