/* SPDX-License-Identifier: MIT
 *
 * memory_admin: settings of queues, crons, COUNT and EVENTS of the memory store.
 */
#include <stdio.h>
#include <string.h>

#include "jobs/alloc.h"
#include "jobs/memory.h"

/* ------------------------------------------------------------------ queues --- */

static int compare_queues(const struct uvs__node *x, const struct uvs__node *y) {
  return strcmp(UVS__AROUND(x, struct uvs__memory_queue, by_name)->set.name,
                UVS__AROUND(y, struct uvs__memory_queue, by_name)->set.name);
}

struct uvs__memory_queue *uvs__memory_find_queue(const struct uvs__memory *m, const char *name) {
  struct uvs__memory_queue like = {.set.name = name};
  struct uvs__node *node = uvs__tree_find(&m->queues, &like.by_name);

  return node == NULL ? NULL : UVS__AROUND(node, struct uvs__memory_queue, by_name);
}

static struct uvs__memory_queue *add_queue(struct uvs__memory *m, const char *name) {
  struct uvs__memory_queue *q = uvs__jobs_alloc(sizeof *q);

  if (q == NULL)
    return NULL;
  snprintf(q->name, sizeof q->name, "%s", name);
  q->set.size = sizeof q->set;
  q->set.name = q->name;
  q->set.rate_ns = UVS_SEC(1);
  uvs__tree_insert(&m->queues, &q->by_name);
  return q;
}

static void set_field(int64_t *field, int64_t value) {
  if (value != -1)
    *field = value;
}

int uvs__memory_set_queue(struct uvs__memory *m, struct uvs__queue_request *r) {
  struct uvs__memory_queue *q = uvs__memory_find_queue(m, r->set.name);

  if (q == NULL)
    q = add_queue(m, r->set.name);
  if (q == NULL)
    return UV_ENOMEM;
  if (r->set.paused != -1)
    q->set.paused = r->set.paused;
  set_field(&q->set.concurrency, r->set.concurrency);
  set_field(&q->set.rate, r->set.rate);
  set_field(&q->set.rate_ns, r->set.rate_ns);
  set_field(&q->set.catch_up_rate, r->set.catch_up_rate);
  m->changes++;
  uvs__memory_write_event(m, UVS_EVENT_QUEUE_CHANGED, NULL, q->name, "");
  return 0;
}

/* ------------------------------------------------------------------- crons --- */

static int compare_crons(const struct uvs__node *x, const struct uvs__node *y) {
  return strcmp(UVS__AROUND(x, struct uvs__memory_cron, by_name)->cron.name,
                UVS__AROUND(y, struct uvs__memory_cron, by_name)->cron.name);
}

struct uvs__memory_cron *uvs__memory_find_cron(const struct uvs__memory *m, const char *name) {
  struct uvs__memory_cron like = {.cron.name = name};
  struct uvs__node *node = uvs__tree_find(&m->crons, &like.by_name);

  return node == NULL ? NULL : UVS__AROUND(node, struct uvs__memory_cron, by_name);
}

static bool copy_bytes(struct uvs__arena *a, struct uvs__bytes from, struct uvs__bytes *ret) {
  ret->size = from.size;
  ret->data = from.size == 0 ? NULL : uvs__arena_copy(a, from.data, from.size);
  return from.size == 0 || ret->data != NULL;
}

bool uvs__copy_cron(struct uvs__arena *a, const struct uvs__cron *from, struct uvs__cron *ret) {
  *ret = *from;
  ret->job.rest = ret->job.key = NULL;
  memset(&ret->job.due, 0, sizeof ret->job.due);
  ret->tick_us = 0;
  return uvs__arena_string(a, from->name, &ret->name) &&
         uvs__arena_string(a, from->expression, &ret->expression) &&
         uvs__arena_string(a, from->zone, &ret->zone) &&
         uvs__arena_string(a, from->job.queue, &ret->job.queue) &&
         uvs__arena_string(a, from->job.name, &ret->job.name) &&
         copy_bytes(a, from->job.payload, &ret->job.payload) &&
         copy_bytes(a, from->job.meta, &ret->job.meta);
}

static void free_cron(struct uvs__memory_cron *c) {
  if (c != NULL)
    uvs__arena_free(&c->arena);
  uvs__jobs_free(c);
}

static struct uvs__memory_cron *make_cron(const struct uvs__cron *from) {
  struct uvs__memory_cron *c = uvs__jobs_alloc(sizeof *c);

  if (c == NULL || uvs__copy_cron(&c->arena, from, &c->cron))
    return c;
  free_cron(c);
  return NULL;
}

static struct uvs__memory_job *make_tick(const char *name) {
  struct uvs__record record = {.queue = UVS__CRON_QUEUE, .rest = name, .name = name};

  return uvs__memory_make_job(&record);
}

/* The cron with its tick. */
static void remove_cron(struct uvs__memory *m, struct uvs__memory_cron *c) {
  struct uvs__memory_job *tick = uvs__memory_find_any(m, UVS__CRON_QUEUE, c->cron.name);

  if (tick != NULL)
    uvs__memory_forget(m, tick);
  uvs__tree_remove(&m->crons, &c->by_name);
  free_cron(c);
  m->changes++;
}

int uvs__memory_set_cron(struct uvs__memory *m, struct uvs__cron_request *r) {
  struct uvs__memory_cron *old = uvs__memory_find_cron(m, r->cron.name), *c;
  struct uvs__memory_job *tick;

  if (old != NULL && r->cron.revision <= old->cron.revision)
    return UVS_JOB_EXISTS;
  c = make_cron(&r->cron);
  tick = c == NULL ? NULL : make_tick(r->cron.name);
  if (tick == NULL) {
    free_cron(c);
    return UV_ENOMEM;
  }
  c->cron.last_us = uvs__cron_last_us(old == NULL ? NULL : &old->cron, &r->cron, m->now_us);
  if (old != NULL)
    remove_cron(m, old);
  uvs__tree_insert(&m->crons, &c->by_name);
  uvs__memory_put_pending(m, tick, m->now_us);
  return 0;
}

int uvs__memory_remove_cron(struct uvs__memory *m, struct uvs__cron_request *r) {
  struct uvs__memory_cron *c = uvs__memory_find_cron(m, r->cron.name);

  if (c == NULL)
    return UV_ENOENT;
  remove_cron(m, c);
  return 0;
}

static size_t count_nodes(const struct uvs__tree *t) {
  struct uvs__node *node;
  size_t n = 0;

  for (node = uvs__tree_first(t); node != NULL; node = uvs__tree_after(t, node))
    n++;
  return n;
}

int uvs__memory_crons(struct uvs__memory *m, struct uvs__cron_request *r) {
  size_t n = 0;
  struct uvs__node *node;

  r->n = 0;
  r->now_us = m->now_us;
  r->crons = uvs__arena_alloc(&r->arena, count_nodes(&m->crons) * sizeof *r->crons);
  if (r->crons == NULL)
    return UV_ENOMEM;
  for (node = uvs__tree_first(&m->crons); node != NULL; node = uvs__tree_after(&m->crons, node)) {
    const struct uvs__memory_cron *c = UVS__AROUND(node, struct uvs__memory_cron, by_name);
    const struct uvs__memory_job *tick = uvs__memory_find(m, UVS__CRON_QUEUE, c->cron.name);

    if (!uvs__copy_cron(&r->arena, &c->cron, &r->crons[n]))
      return UV_ENOMEM;
    r->crons[n++].tick_us = tick == NULL || uvs__memory_kind(tick) != UVS__MEMORY_LIVE
                                ? UVS__NEVER_US
                                : tick->visible_us;
  }
  r->n = n;
  return 0;
}

/* ------------------------------------------------------------------- COUNT --- */

static void count_job(const struct uvs__memory *m, const struct uvs__memory_job *job,
                      uvs_queue_stats_t *q) {
  if (job->state == UVS_JOB_RUNNING)
    q->running++;
  if (job->state == UVS_JOB_DEAD)
    q->dead++;
  if (job->state != UVS_JOB_PENDING)
    return;
  q->pending++;
  if (job->due_us > m->now_us)
    return;
  q->overdue++;
  if ((m->now_us - job->due_us) * 1000 > q->oldest_overdue_ns)
    q->oldest_overdue_ns = (m->now_us - job->due_us) * 1000;
}

/* The first job or dead letter with an id after `job`; NULL: from the beginning. */
static struct uvs__memory_job *next_counted(const struct uvs__memory *m,
                                            const struct uvs__memory_job *job) {
  struct uvs__node *node =
      job == NULL ? uvs__tree_first(&m->ids) : uvs__tree_after(&m->ids, &job->by_id);

  for (; node != NULL; node = uvs__tree_after(&m->ids, node)) {
    struct uvs__memory_job *found = UVS__AROUND(node, struct uvs__memory_job, by_id);

    if (uvs__memory_kind(found) != UVS__MEMORY_ENDED && strcmp(found->queue, UVS__CRON_QUEUE) != 0)
      return found;
  }
  return NULL;
}

/* The queue that comes first among the next job's and the next with settings. NULL: no more. */
static const char *next_queue(const struct uvs__memory_job *job, const struct uvs__node *settings) {
  const char *set =
      settings == NULL ? NULL : UVS__AROUND(settings, struct uvs__memory_queue, by_name)->name;

  if (job == NULL || (set != NULL && strcmp(set, job->queue) < 0))
    return set;
  return job->queue;
}

static void copy_settings(const struct uvs__memory *m, const char *name, uvs_queue_stats_t *ret) {
  const struct uvs__memory_queue *q = uvs__memory_find_queue(m, name);

  if (q == NULL)
    return;
  ret->paused = q->set.paused;
  ret->concurrency = q->set.concurrency;
  ret->rate = q->set.rate;
  ret->rate_ns = q->set.rate_ns;
  ret->catch_up_rate = q->set.catch_up_rate;
}

/* Counts all queues in the order of their names. With queues NULL, returns only how many. */
static size_t count_queues(const struct uvs__memory *m, uvs_queue_stats_t *queues) {
  struct uvs__memory_job *job = next_counted(m, NULL);
  struct uvs__node *settings = uvs__tree_first(&m->queues);
  const char *name;
  size_t n = 0;

  for (; (name = next_queue(job, settings)) != NULL; n++) {
    if (queues != NULL) {
      queues[n].queue = name;
      copy_settings(m, name, &queues[n]);
    }
    for (; job != NULL && strcmp(job->queue, name) == 0; job = next_counted(m, job)) {
      if (queues != NULL)
        count_job(m, job, &queues[n]);
    }
    if (settings != NULL &&
        strcmp(UVS__AROUND(settings, struct uvs__memory_queue, by_name)->name, name) == 0)
      settings = uvs__tree_after(&m->queues, settings);
  }
  return n;
}

static uint64_t count_kept(const struct uvs__memory *m) {
  const struct uvs__tree *ends = &m->orders[UVS__MEMORY_ENDED];
  struct uvs__node *node;
  uint64_t n = 0;

  for (node = uvs__tree_first(ends); node != NULL; node = uvs__tree_after(ends, node)) {
    const struct uvs__memory_job *job = UVS__AROUND(node, struct uvs__memory_job, by_order);

    n += uvs__memory_is_kept(job) && !uvs__memory_is_past(m, job) &&
         strcmp(job->queue, UVS__CRON_QUEUE) != 0;
  }
  return n;
}

int uvs__memory_count(struct uvs__memory *m, struct uvs__count_request *r) {
  size_t n = count_queues(m, NULL), i;
  uvs_queue_stats_t *queues = uvs__arena_alloc(&r->arena, n * sizeof *queues);

  memset(&r->stats, 0, sizeof r->stats);
  r->stats.size = sizeof r->stats;
  if (queues == NULL)
    return UV_ENOMEM;
  count_queues(m, queues);
  for (i = 0; i < n; i++) {
    if (!uvs__arena_string(&r->arena, queues[i].queue, &queues[i].queue))
      return UV_ENOMEM;
    r->stats.pending += queues[i].pending;
    r->stats.overdue += queues[i].overdue;
    r->stats.running += queues[i].running;
    r->stats.dead += queues[i].dead;
    if (queues[i].oldest_overdue_ns > r->stats.oldest_overdue_ns)
      r->stats.oldest_overdue_ns = queues[i].oldest_overdue_ns;
  }
  r->stats.kept = count_kept(m);
  r->stats.queues = queues;
  r->stats.n_queues = n;
  return 0;
}

/* ------------------------------------------------------------------ EVENTS --- */

int uvs__memory_events(struct uvs__memory *m, struct uvs__events_request *r) {
  uint64_t from = r->after + 1, number;
  size_t n = 0;

  r->n = 0;
  r->last = m->last_event;
  if (m->last_event > UVS__EVENTS_KEPT && from <= m->last_event - UVS__EVENTS_KEPT)
    from = m->last_event - UVS__EVENTS_KEPT + 1;
  r->events = uvs__arena_alloc(&r->arena, UVS__EVENTS_PAGE * sizeof *r->events);
  if (r->events == NULL)
    return UV_ENOMEM;
  for (number = from; number <= m->last_event && n < UVS__EVENTS_PAGE; number++) {
    const struct uvs__memory_event *e = &m->events[number % UVS__EVENTS_KEPT];
    struct uvs__event *copy = &r->events[n++];

    copy->number = number;
    copy->what = e->what;
    if (!uvs__arena_string(&r->arena, e->text, &copy->text) ||
        (e->has_id && !uvs__arena_string(&r->arena, e->id, &copy->id)))
      return UV_ENOMEM;
  }
  r->n = n;
  return 0;
}

/* ------------------------------------------------------------ open and free --- */

void uvs__memory_init_admin(struct uvs__memory *m) {
  uvs__tree_init(&m->queues, compare_queues);
  uvs__tree_init(&m->crons, compare_crons);
}

void uvs__memory_free_admin(struct uvs__memory *m) {
  struct uvs__node *node;

  while ((node = uvs__tree_first(&m->queues)) != NULL) {
    uvs__tree_remove(&m->queues, node);
    uvs__jobs_free(UVS__AROUND(node, struct uvs__memory_queue, by_name));
  }
  while ((node = uvs__tree_first(&m->crons)) != NULL) {
    uvs__tree_remove(&m->crons, node);
    free_cron(UVS__AROUND(node, struct uvs__memory_cron, by_name));
  }
}
