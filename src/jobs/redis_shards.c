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

/* Sends what each server gets as one batch, so that its puts share commands. */
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

/* Takes the EVENTS out of the batch: which events were read is remembered for the time when there
 * is a map. */
static struct uvs__request *take_events(struct uvs__request **at) {
  struct uvs__request *taken = NULL;

  while (*at != NULL) {
    struct uvs__request *r = *at;

    if (r->op != UVS__EVENTS) {
      at = &r->next;
      continue;
    }
    *at = r->next;
    r->next = taken;
    taken = r;
  }
  return taken;
}

void uvs__shards_run(struct uvs__store *store, struct uvs__request *first) {
  struct uvs__shards *all = (struct uvs__shards *)store;
  struct uvs__request *divided = first;

  store->trouble[0] = '\0';
  if (all->map == NULL) {
    divided = take_events(&first);
    if (first != NULL)
      uvs__redis_run(all->shards[0]->redis, first);
  }
  all->dividing = true;
  while (divided != NULL) {
    struct uvs__request *next = divided->next;

    carry_out(all, divided);
    divided = next;
  }
  all->dividing = false;
  send_batches(all);
}
