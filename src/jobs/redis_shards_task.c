/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "jobs/alloc.h"
#include "jobs/redis_shards.h"

/* ----------------------------------------------------------------- servers --- */

/* The link of a server that is stopped is freed. */
static bool is_up(const struct uvs__shard *shard) {
  return !shard->stopped && shard->redis->link != NULL && shard->redis->link->is_up;
}

/* A server that was not reached yet counts as usable, until a request shows that it is down. */
bool uvs__shard_is_usable(const struct uvs__shard *shard) {
  return shard->in_map && (!shard->down || is_up(shard));
}

bool uvs__shards_work(const struct uvs__shards *all) {
  for (size_t i = 0; i < all->n; i++)
    if (all->shards[i]->in_map && all->shards[i]->redis->ready)
      return true;
  return false;
}

struct uvs__shard *uvs__shard_of(const struct uvs__shards *all, unsigned slot) {
  return all->shards[all->of_map[all->map->owner[slot]]];
}

struct uvs__shard *uvs__shard_before(const struct uvs__shards *all, unsigned slot) {
  return all->shards[all->of_map[all->map->from[slot]]];
}

int64_t uvs__shards_now_us(const struct uvs__shards *all) {
  size_t i = 0;

  while (i + 1 < all->n && !all->shards[i]->in_map)
    i++;
  return uvs__redis_now_us(all->shards[i]->redis);
}

int64_t uvs__shard_to_store_us(const struct uvs__shard *shard, int64_t us) {
  int64_t now_us = uvs__redis_now_us(shard->redis);

  return us <= now_us || us >= UVS__NEVER_US ? us : us - now_us + uvs__shards_now_us(shard->all);
}

void uvs__shard_retire(struct uvs__shard *shard) {
  if (shard->in_map || shard->kept || shard->stopped || shard->in_flight > 0 || shard->held > 0)
    return;
  shard->stopped = true;
  if (shard->started)
    uvs__redis_stop(shard->redis);
}

/* The server cannot be used. */
static void note_failure(struct uvs__shard *shard) {
  struct uvs__shards *all = shard->all;
  char text[UVS__REDIS_SERVER_NAME + sizeof all->base.trouble + 2];

  if (!shard->in_map)
    return;
  shard->down = true;
  if (shard->told_down || all->map == NULL)
    return;
  shard->told_down = true;
  snprintf(text, sizeof text, "%s: %s", shard->name, all->base.trouble);
  all->hooks->event(all->arg, UVS_EVENT_STORE_DOWN, text);
}

/* ------------------------------------------------------------------- tasks --- */

bool uvs__may_try_again(int status) {
  return status == UV_EAGAIN || status == UVS_EUNKNOWN;
}

struct uvs__task *uvs__task_new(struct uvs__shards *all, struct uvs__request *r) {
  struct uvs__task *t = uvs__jobs_alloc(sizeof *t);

  if (t == NULL) {
    snprintf(all->base.trouble, sizeof all->base.trouble, "there is not enough memory");
    r->status = UV_ENOMEM;
    r->done(r);
    return NULL;
  }
  t->all = all;
  t->r = r;
  t->generation = all->current.generation;
  return t;
}

void uvs__task_fail(struct uvs__task *t, int status) {
  if (status == UVS__IN_TRANSIT) {
    t->in_transit = true;
    status = UV_EAGAIN;
    snprintf(t->all->base.trouble, sizeof t->all->base.trouble,
             "a job is on its way to another server");
  }
  if (t->status == 0 || status == UVS_EUNKNOWN ||
      (status == UV_EAGAIN && t->status != UVS_EUNKNOWN))
    t->status = status;
}

void uvs__task_end(struct uvs__task *t) {
  struct uvs__request *r = t->r;

  r->status = t->status;
  r->part_only = uvs__may_try_again(t->status) && t->all->map != NULL &&
                 (t->in_transit || uvs__shards_work(t->all));
  uvs__arena_free(&t->arena);
  uvs__jobs_free(t);
  r->done(r);
}

void uvs__task_begin(struct uvs__task *t, void (*joined)(struct uvs__task *t)) {
  t->joined = joined;
  t->left = 1;
  t->subs = NULL;
}

void uvs__task_sent(struct uvs__task *t) {
  if (--t->left == 0)
    t->joined(t);
}

/* ---------------------------------------------------- requests to servers --- */

static void on_done(struct uvs__request *r) {
  struct uvs__sub *sub = r->owner;
  struct uvs__shard *shard = sub->shard;

  shard->in_flight--;
  /* While it gets a new map, it is not ready, although the connection works. */
  if (uvs__may_try_again(r->status) ? !is_up(shard) : r->status < 0 && !shard->redis->ready)
    note_failure(shard);
  sub->answered(sub);
  uvs__task_sent(sub->task);
  uvs__shard_retire(shard);
}

struct uvs__sub *uvs__sub_new(struct uvs__task *t, struct uvs__shard *shard, size_t size,
                              enum uvs__op op, void (*answered)(struct uvs__sub *sub)) {
  struct uvs__sub *sub = uvs__arena_alloc(&t->arena, sizeof *sub);

  if (sub != NULL)
    sub->r = uvs__arena_alloc(&t->arena, size);
  if (sub == NULL || sub->r == NULL) {
    snprintf(t->all->base.trouble, sizeof t->all->base.trouble, "there is not enough memory");
    uvs__task_fail(t, UV_ENOMEM);
    return NULL;
  }
  sub->task = t;
  sub->shard = shard;
  sub->answered = answered;
  sub->r->op = op;
  sub->r->done = on_done;
  sub->r->owner = sub;
  return sub;
}

void uvs__copy_request(struct uvs__request *to, const struct uvs__request *from, size_t size) {
  memcpy(to + 1, from + 1, size - sizeof *to);
}

void uvs__sub_send(struct uvs__sub *sub) {
  struct uvs__shard *shard = sub->shard;
  struct uvs__request *r = sub->r;

  sub->task->left++;
  sub->next = sub->task->subs;
  sub->task->subs = sub;
  shard->in_flight++;
  r->next = NULL;
  if (shard->stopped || (shard->down && !is_up(shard))) {
    if (!shard->stopped && shard->redis->link != NULL)
      snprintf(shard->all->base.trouble, sizeof shard->all->base.trouble, "%s",
               shard->redis->link->trouble);
    r->status = UV_EAGAIN;
    on_done(r);
  } else if (shard->all->dividing) {
    *shard->end = r;
    shard->end = &r->next;
  } else {
    uvs__redis_run(shard->redis, r);
  }
}
