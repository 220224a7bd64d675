/* SPDX-License-Identifier: MIT
 *
 * Requests that all servers answer: SET_QUEUE, COUNT, CRONS, EVENTS and TRIM. With a map, this file
 * numbers the events, in the order in which they are read.
 */
#include <stdlib.h>
#include <string.h>

#include "jobs/redis_shards.h"

/* Asks all servers of the map. `fill` writes the fields behind the head of the request. */
static void ask_all(struct uvs__task *t, size_t size, void (*fill)(struct uvs__sub *sub),
                    void (*answered)(struct uvs__sub *sub), void (*joined)(struct uvs__task *t)) {
  uvs__task_begin(t, joined);
  for (size_t i = 0; i < t->all->n; i++) {
    struct uvs__sub *sub = NULL;

    if (t->all->shards[i]->in_map)
      sub = uvs__sub_new(t, t->all->shards[i], size, t->r->op, answered);
    if (sub == NULL)
      continue;
    fill(sub);
    uvs__sub_send(sub);
  }
  uvs__task_sent(t);
}

static void fill_nothing(struct uvs__sub *sub) {
  (void)sub;
}

static void note_status(struct uvs__sub *sub) {
  if (sub->r->status != 0)
    uvs__task_fail(sub->task, sub->r->status);
}

/* --------------------------------------------------------------- SET_QUEUE --- */

static void fill_queue(struct uvs__sub *sub) {
  uvs__copy_request(sub->r, sub->task->r, sizeof(struct uvs__queue_request));
}

static void queue_set(struct uvs__sub *sub) {
  const struct uvs__queue_request *r = (const struct uvs__queue_request *)(void *)sub->r;

  note_status(sub);
  if (sub->r->status != 0)
    return;
  sub->task->more = sub; /* it was set on one server at least */
  uvs__shard_due(sub->shard, r->set.name, 0);
}

static void all_set(struct uvs__task *t) {
  if (t->status == UV_EAGAIN && t->more != NULL)
    t->status = UVS_EUNKNOWN;
  uvs__task_end(t);
}

void uvs__shards_set_queue(struct uvs__task *t) {
  ask_all(t, sizeof(struct uvs__queue_request), fill_queue, queue_set, all_set);
}

/* ------------------------------------------------------------------- COUNT --- */

static const uvs_jobs_stats_t *stats_of(const struct uvs__sub *sub) {
  return &((const struct uvs__count_request *)(const void *)sub->r)->stats;
}

static void counted(struct uvs__sub *sub) {
  struct uvs__count_request *r = (struct uvs__count_request *)(void *)sub->task->r;

  uvs__arena_join(&r->arena, &((struct uvs__count_request *)(void *)sub->r)->arena);
  note_status(sub);
}

static int compare_queues(const void *a, const void *b) {
  return strcmp(((const uvs_queue_stats_t *)a)->queue, ((const uvs_queue_stats_t *)b)->queue);
}

/* Adds the counts of a queue on another server. The settings are the same on all servers, or were
 * never set on some. */
static void add_queue(uvs_queue_stats_t *to, const uvs_queue_stats_t *q) {
  uvs_queue_stats_t sum = q->rate_ns > 0 ? *q : *to, other = q->rate_ns > 0 ? *to : *q;

  sum.pending += other.pending;
  sum.overdue += other.overdue;
  sum.running += other.running;
  sum.dead += other.dead;
  if (other.oldest_overdue_ns > sum.oldest_overdue_ns)
    sum.oldest_overdue_ns = other.oldest_overdue_ns;
  *to = sum;
}

static void add_stats(uvs_jobs_stats_t *to, const uvs_jobs_stats_t *s) {
  to->pending += s->pending;
  to->overdue += s->overdue;
  to->running += s->running;
  to->dead += s->dead;
  to->kept += s->kept;
  if (s->oldest_overdue_ns > to->oldest_overdue_ns)
    to->oldest_overdue_ns = s->oldest_overdue_ns;
}

static void merge_queues(uvs_jobs_stats_t *stats, uvs_queue_stats_t *queues, size_t n) {
  size_t merged = 0;

  if (n > 0)
    qsort(queues, n, sizeof *queues, compare_queues);
  for (size_t i = 0; i < n; i++) {
    if (merged > 0 && strcmp(queues[merged - 1].queue, queues[i].queue) == 0)
      add_queue(&queues[merged - 1], &queues[i]);
    else
      queues[merged++] = queues[i];
  }
  stats->queues = queues;
  stats->n_queues = merged;
}

static void all_counted(struct uvs__task *t) {
  struct uvs__count_request *r = (struct uvs__count_request *)(void *)t->r;
  uvs_queue_stats_t *queues;
  size_t n = 0;

  for (const struct uvs__sub *sub = t->subs; sub != NULL && t->status == 0; sub = sub->next)
    n += stats_of(sub)->n_queues;
  queues = uvs__arena_alloc(&r->arena, (n + 1) * sizeof *queues);
  if (queues == NULL) {
    uvs__task_fail(t, UV_ENOMEM);
    uvs__task_end(t);
    return;
  }
  n = 0;
  for (const struct uvs__sub *sub = t->subs; sub != NULL && t->status == 0; sub = sub->next) {
    const uvs_jobs_stats_t *s = stats_of(sub);

    add_stats(&r->stats, s);
    for (size_t i = 0; i < s->n_queues; i++)
      queues[n++] = s->queues[i];
  }
  if (t->status == 0)
    merge_queues(&r->stats, queues, n);
  uvs__task_end(t);
}

void uvs__shards_count(struct uvs__task *t) {
  struct uvs__count_request *r = (struct uvs__count_request *)(void *)t->r;

  memset(&r->stats, 0, sizeof r->stats);
  r->stats.size = sizeof r->stats;
  ask_all(t, sizeof *r, fill_nothing, counted, all_counted);
}

/* ------------------------------------------------------------------- CRONS --- */

static const struct uvs__cron_request *crons_of(const struct uvs__sub *sub) {
  return (const struct uvs__cron_request *)(const void *)sub->r;
}

static void crons_listed(struct uvs__sub *sub) {
  struct uvs__cron_request *r = (struct uvs__cron_request *)(void *)sub->task->r;

  uvs__arena_join(&r->arena, &((struct uvs__cron_request *)(void *)sub->r)->arena);
  note_status(sub);
}

/* While jobs move, a cron may be on two servers. The larger revision comes first. */
static int compare_crons(const void *a, const void *b) {
  const struct uvs__cron *x = a, *y = b;
  int order = strcmp(x->name, y->name);

  return order != 0 ? order : (x->revision < y->revision) - (x->revision > y->revision);
}

static void all_crons(struct uvs__task *t) {
  struct uvs__cron_request *r = (struct uvs__cron_request *)(void *)t->r;
  size_t n = 0, kept = 0;

  for (const struct uvs__sub *sub = t->subs; sub != NULL && t->status == 0; sub = sub->next)
    n += crons_of(sub)->n;
  r->crons = uvs__arena_alloc(&r->arena, (n + 1) * sizeof *r->crons);
  if (r->crons == NULL) {
    uvs__task_fail(t, UV_ENOMEM);
    uvs__task_end(t);
    return;
  }
  n = 0;
  for (const struct uvs__sub *sub = t->subs; sub != NULL && t->status == 0; sub = sub->next)
    for (size_t i = 0; i < crons_of(sub)->n; i++)
      r->crons[n++] = crons_of(sub)->crons[i];
  if (n > 0 && t->status == 0)
    qsort(r->crons, n, sizeof *r->crons, compare_crons);
  for (size_t i = 0; i < n && t->status == 0; i++)
    if (kept == 0 || strcmp(r->crons[kept - 1].name, r->crons[i].name) != 0)
      r->crons[kept++] = r->crons[i];
  r->n = kept;
  r->now_us = uvs__shards_now_us(t->all);
  uvs__task_end(t);
}

void uvs__shards_crons(struct uvs__task *t) {
  ((struct uvs__cron_request *)(void *)t->r)->n = 0;
  ask_all(t, sizeof(struct uvs__cron_request), fill_nothing, crons_listed, all_crons);
}

/* ------------------------------------------------------------------ EVENTS --- */

static void fill_events(struct uvs__sub *sub) {
  ((struct uvs__events_request *)(void *)sub->r)->after = sub->shard->events_seen;
}

/* A server that does not answer keeps its events: they are read when it is back. */
static void events_read(struct uvs__sub *sub) {
  struct uvs__events_request *r = (struct uvs__events_request *)(void *)sub->task->r;
  struct uvs__events_request *from = (struct uvs__events_request *)(void *)sub->r;

  uvs__arena_join(&r->arena, &from->arena);
  note_status(sub);
  sub->task->more = sub->r->status == 0 ? sub : sub->task->more;
}

/* A queue is changed on all servers: the event of the first one is enough. */
static bool tells_of_queues(const struct uvs__shard *shard) {
  const struct uvs__shards *all = shard->all;

  return all->map == NULL || shard->index == all->of_map[0];
}

static void take_events(struct uvs__task *t, const struct uvs__sub *sub, bool *more) {
  struct uvs__events_request *r = (struct uvs__events_request *)(void *)t->r;
  const struct uvs__events_request *from = (const struct uvs__events_request *)(void *)sub->r;
  struct uvs__shard *shard = sub->shard;

  if (from->r.status != 0)
    return;
  for (size_t i = 0; i < from->n; i++) {
    const struct uvs__event *e = &from->events[i];

    shard->events_seen = e->number;
    if (e->what == UVS_EVENT_QUEUE_CHANGED)
      uvs__shard_due(shard, e->id, 0);
    if (e->what == UVS_EVENT_QUEUE_CHANGED && !tells_of_queues(shard))
      continue;
    r->events[r->n] = *e;
    r->events[r->n++].number = ++t->all->numbered;
  }
  if (from->n == 0)
    shard->events_seen = from->last;
  *more |= shard->events_seen != from->last;
}

static void all_events(struct uvs__task *t) {
  struct uvs__events_request *r = (struct uvs__events_request *)(void *)t->r;
  bool more = false;
  size_t n = 0;

  for (const struct uvs__sub *sub = t->subs; sub != NULL; sub = sub->next)
    n += sub->r->status == 0 ? ((const struct uvs__events_request *)(void *)sub->r)->n : 0;
  r->events = uvs__arena_alloc(&r->arena, (n + 1) * sizeof *r->events);
  if (r->events == NULL) {
    t->status = UV_ENOMEM;
  } else if (t->more != NULL) {
    t->status = 0;
    for (const struct uvs__sub *sub = t->subs; sub != NULL; sub = sub->next)
      take_events(t, sub, &more);
  }
  r->last = t->all->numbered + more;
  uvs__task_end(t);
}

/* One server without a map: the numbers are those of the server. */
static void fill_same(struct uvs__sub *sub) {
  uvs__copy_request(sub->r, sub->task->r, sizeof(struct uvs__events_request));
  ((struct uvs__events_request *)(void *)sub->r)->arena = (struct uvs__arena){NULL};
}

static void take_same(struct uvs__sub *sub) {
  struct uvs__events_request *r = (struct uvs__events_request *)(void *)sub->task->r;
  struct uvs__events_request *from = (struct uvs__events_request *)(void *)sub->r;

  uvs__arena_join(&from->arena, &r->arena);
  uvs__copy_request(&r->r, sub->r, sizeof *r);
  note_status(sub);
  if (from->r.status == 0) /* needed when the store gets a map */
    sub->shard->events_seen = from->n == 0 ? from->last : from->events[from->n - 1].number;
}

void uvs__shards_events(struct uvs__task *t) {
  struct uvs__events_request *r = (struct uvs__events_request *)(void *)t->r;

  r->n = 0;
  if (t->all->map == NULL) {
    t->all->events_began |= r->after == INT64_MAX;
    ask_all(t, sizeof *r, fill_same, take_same, uvs__task_end);
    return;
  }
  if (r->after == INT64_MAX) { /* the caller wants those that are new from now on */
    t->all->events_began = true;
    for (size_t i = 0; i < t->all->n; i++)
      t->all->shards[i]->events_seen = INT64_MAX;
  }
  ask_all(t, sizeof *r, fill_events, events_read, all_events);
}

/* -------------------------------------------------------------------- TRIM --- */

static uint32_t share_of(const struct uvs__task *t, uint32_t max) {
  uint32_t n = (uint32_t)t->all->map->n_all;

  return max / n + (max % n > 0);
}

/* Each server has its share of the bounds. */
static void fill_trim(struct uvs__sub *sub) {
  struct uvs__trim_request *r = (struct uvs__trim_request *)(void *)sub->r;

  uvs__copy_request(sub->r, sub->task->r, sizeof *r);
  r->max_done = share_of(sub->task, r->max_done);
  r->max_dead = share_of(sub->task, r->max_dead);
}

static void trimmed(struct uvs__sub *sub) {
  struct uvs__trim_request *r = (struct uvs__trim_request *)(void *)sub->task->r;
  const struct uvs__trim_request *from = (const struct uvs__trim_request *)(void *)sub->r;

  note_status(sub);
  if (sub->r->status == 0)
    r->count += from->count;
}

/* A count that is the limit says that there is more to do. */
static void all_trimmed(struct uvs__task *t) {
  struct uvs__trim_request *r = (struct uvs__trim_request *)(void *)t->r;
  bool more = false;

  for (const struct uvs__sub *sub = t->subs; sub != NULL; sub = sub->next)
    more |= sub->r->status == 0 &&
            ((const struct uvs__trim_request *)(void *)sub->r)->count >= r->limit;
  if (more || r->count > r->limit)
    r->count = r->limit;
  uvs__task_end(t);
}

void uvs__shards_trim(struct uvs__task *t) {
  ((struct uvs__trim_request *)(void *)t->r)->count = 0;
  ask_all(t, sizeof(struct uvs__trim_request), fill_trim, trimmed, all_trimmed);
}
