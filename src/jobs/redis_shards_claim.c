/* SPDX-License-Identifier: MIT
 *
 * CLAIM asks one server. For each queue there is a table: from when on each server may have a job
 * that is visible. Servers that are due are asked in turn. If none is due, the caller knows more
 * than the table, and all servers are asked, one with each CLAIM. While other servers have jobs all
 * the time, a server is asked at least every 30 s, because a message may be lost; and sooner after
 * a claim of pending jobs only, because of the leases that had ended.
 */
#include <stdio.h>
#include <string.h>

#include "jobs/alloc.h"
#include "jobs/redis_shards.h"

#define AFTER_FAILURE_US INT64_C(250000)
#define AT_LEAST_US INT64_C(30000000)

struct uvs__shard_queue {
  struct uvs__shard_queue *next;
  char name[UVS_JOB_NAME_MAX + 1];
  size_t turn;                      /* the server that was asked last */
  int64_t next_us[UVS__SHARDS_MAX]; /* by the clock of the server; 0: now */
  int64_t look_us[UVS__SHARDS_MAX]; /* if another server is asked then: this one, too */
};

static struct uvs__shard_queue *queue_of(struct uvs__shards *all, const char *name) {
  struct uvs__shard_queue *q = all->queues;

  while (q != NULL && strcmp(q->name, name) != 0)
    q = q->next;
  return q;
}

static struct uvs__shard_queue *make_queue(struct uvs__shards *all, const char *name) {
  struct uvs__shard_queue *q = uvs__jobs_alloc(sizeof *q);

  if (q == NULL)
    return NULL;
  snprintf(q->name, sizeof q->name, "%s", name);
  q->next = all->queues;
  all->queues = q;
  return q;
}

void uvs__shard_due(struct uvs__shard *shard, const char *queue, int64_t due_us) {
  for (struct uvs__shard_queue *q = shard->all->queues; q != NULL; q = q->next)
    if ((queue == NULL || strcmp(q->name, queue) == 0) && due_us < q->next_us[shard->index])
      q->next_us[shard->index] = due_us;
}

void uvs__shards_all_due(struct uvs__shards *all) {
  for (struct uvs__shard_queue *q = all->queues; q != NULL; q = q->next)
    memset(q->next_us, 0, sizeof q->next_us);
}

void uvs__shards_free_queues(struct uvs__shards *all) {
  while (all->queues != NULL) {
    struct uvs__shard_queue *q = all->queues;

    all->queues = q->next;
    uvs__jobs_free(q);
  }
}

/* ------------------------------------------------------------- which server --- */

static bool is_due(const struct uvs__shard_queue *q, const struct uvs__shard *shard) {
  int64_t next_us = q->next_us[shard->index], look_us = q->look_us[shard->index];

  if (look_us < next_us)
    next_us = look_us;
  return uvs__shard_is_usable(shard) &&
         (next_us <= 0 || next_us <= uvs__redis_now_us(shard->redis));
}

/* The next server in turn that is due. NULL: none. */
static struct uvs__shard *next_due(const struct uvs__shards *all, struct uvs__shard_queue *q) {
  for (size_t i = 1; i <= all->n; i++) {
    struct uvs__shard *shard = all->shards[(q->turn + i) % all->n];

    if (is_due(q, shard))
      return shard;
  }
  return NULL;
}

static struct uvs__shard *choose(struct uvs__shards *all, struct uvs__shard_queue *q) {
  struct uvs__shard *shard = next_due(all, q);

  if (shard == NULL) {
    memset(q->next_us, 0, sizeof q->next_us);
    shard = next_due(all, q);
  }
  for (size_t i = 0; shard == NULL; i++) /* no server is usable: the request fails */
    if (all->shards[i]->in_map)
      shard = all->shards[i];
  q->turn = shard->index;
  return shard;
}

/* When the worker asks again, by the clock that reads now_us. */
static int64_t next_claim_us(const struct uvs__shards *all, const struct uvs__shard_queue *q,
                             int64_t now_us) {
  int64_t least_us = UVS__NEVER_US;

  for (size_t i = 0; i < all->n; i++) {
    const struct uvs__shard *shard = all->shards[i];
    int64_t next_us = q->next_us[i];

    if (is_due(q, shard))
      return now_us;
    if (!uvs__shard_is_usable(shard) || next_us >= UVS__NEVER_US)
      continue;
    next_us = now_us + next_us - uvs__redis_now_us(shard->redis);
    if (next_us < least_us)
      least_us = next_us;
  }
  return least_us;
}

/* ------------------------------------------------------------------- CLAIM --- */

/* For how long expired leases are left alone, because the server was down: processes that are alive
 * extend theirs first. They do it after each third of a lease, so a lease outlives a shorter time.
 */
static int64_t spared_us(const struct uvs__shard *shard, int64_t lease_us) {
  int64_t since_us = ((int64_t)uv_hrtime() - shard->up_ns) / 1000;

  if (shard->up_ns == 0 || shard->all->clock.wall_ns != NULL || since_us >= lease_us / 3 ||
      (shard->up_ns - shard->down_ns) / 1000 < lease_us / 3)
    return 0;
  return lease_us / 3 - since_us;
}

static void take_claimed(struct uvs__shard *shard, struct uvs__claim_request *r,
                         const struct uvs__claim_request *from) {
  r->claimed = from->claimed;
  for (struct uvs__claimed *c = r->claimed; c != NULL; c = c->next) {
    c->part = (int)shard->index + 1;
    shard->held++;
  }
}

static void answered(struct uvs__sub *sub) {
  struct uvs__task *t = sub->task;
  struct uvs__shard *shard = sub->shard;
  struct uvs__claim_request *r = (struct uvs__claim_request *)(void *)t->r;
  const struct uvs__claim_request *from = (const struct uvs__claim_request *)(void *)sub->r;
  struct uvs__shard_queue *q = t->more;
  int64_t spare_us = spared_us(shard, r->lease_us);

  if (sub->r->status == 0) {
    take_claimed(shard, r, from);
    r->now_us = from->now_us;
    q->look_us[shard->index] =
        from->now_us +
        (r->pending_only && r->lease_us / 3 < AT_LEAST_US ? r->lease_us / 3 : AT_LEAST_US);
    uvs__shard_due(shard, r->queue, from->next_us);
    if (spare_us > 0)
      uvs__shard_due(shard, r->queue, from->now_us + spare_us);
  } else {
    r->now_us = uvs__redis_now_us(shard->redis);
    uvs__shard_due(shard, r->queue, r->now_us + AFTER_FAILURE_US);
    if (!uvs__shards_work(t->all))
      uvs__task_fail(t, sub->r->status);
  }
  r->next_us = next_claim_us(t->all, q, r->now_us);
}

void uvs__shards_claim(struct uvs__task *t) {
  struct uvs__shards *all = t->all;
  struct uvs__claim_request *r = (struct uvs__claim_request *)(void *)t->r, *copy;
  struct uvs__shard_queue *q = queue_of(all, r->queue);
  struct uvs__shard *shard;
  struct uvs__sub *sub = NULL;

  r->claimed = NULL;
  r->now_us = uvs__shards_now_us(all);
  r->next_us = UVS__NEVER_US;
  if (q == NULL)
    q = make_queue(all, r->queue);
  uvs__task_begin(t, uvs__task_end);
  if (q == NULL)
    uvs__task_fail(t, UV_ENOMEM);
  if (q != NULL) {
    shard = choose(all, q);
    sub = uvs__sub_new(t, shard, sizeof *r, UVS__CLAIM, answered);
  }
  if (sub != NULL) {
    copy = (struct uvs__claim_request *)(void *)sub->r;
    uvs__copy_request(sub->r, t->r, sizeof *r);
    copy->pending_only |= spared_us(shard, r->lease_us) > 0;
    t->more = q;
    q->next_us[shard->index] = q->look_us[shard->index] = UVS__NEVER_US;
    uvs__sub_send(sub);
  }
  uvs__task_sent(t);
}
