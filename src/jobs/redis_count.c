/* SPDX-License-Identifier: MIT
 *
 * redis_count: COUNT and EVENTS. COUNT asks for the names of the queues, and then for the counts of
 * 50 queues at a time.
 */
#include <stdlib.h>
#include <string.h>

#include "jobs/alloc.h"
#include "jobs/redis_store.h"

/* ------------------------------------------------------------------- COUNT --- */

#define COUNTS 6 /* elements of the answer for each queue */

struct count {
  struct uvs__redis_names names;
  struct uvs__redis_op *op;
};

struct count_call {
  struct uvs__redis_call call;
  uvs_queue_stats_t *queues; /* those of this command */
  size_t n;
};

static struct uvs__count_request *count_of(const struct uvs__redis_op *op) {
  return (struct uvs__count_request *)(void *)op->r;
}

static int64_t read_decimal(const redisReply *reply) {
  return reply->type == REDIS_REPLY_STRING ? strtoll(reply->str, NULL, 10) : 0;
}

/* rate_ns is present if the queue has settings; then the queue is listed even if it is empty. */
static bool read_settings(const redisReply *list, uvs_queue_stats_t *ret) {
  if (list->type != REDIS_REPLY_ARRAY || list->elements < 5)
    return false;
  ret->paused = (int)read_decimal(list->element[0]);
  ret->concurrency = read_decimal(list->element[1]);
  ret->rate = read_decimal(list->element[2]);
  ret->rate_ns = read_decimal(list->element[3]);
  ret->catch_up_rate = read_decimal(list->element[4]);
  return list->element[3]->type == REDIS_REPLY_STRING;
}

static void add_up(uvs_jobs_stats_t *sum, const uvs_queue_stats_t *q) {
  sum->pending += q->pending;
  sum->overdue += q->overdue;
  sum->running += q->running;
  sum->dead += q->dead;
  if (q->oldest_overdue_ns > sum->oldest_overdue_ns)
    sum->oldest_overdue_ns = q->oldest_overdue_ns;
}

/* Clears the name of a queue that is not to be listed. */
static void read_queue(uvs_jobs_stats_t *sum, redisReply *const *body, uvs_queue_stats_t *q) {
  q->pending = (uint64_t)uvs__redis_int(body[0]);
  q->overdue = (uint64_t)uvs__redis_int(body[1]);
  q->running = (uint64_t)uvs__redis_int(body[2]);
  q->dead = (uint64_t)uvs__redis_int(body[3]);
  q->oldest_overdue_ns = uvs__redis_int(body[4]) * 1000;
  if ((!read_settings(body[5], q) && q->pending + q->running + q->dead == 0) ||
      strcmp(q->queue, UVS__CRON_QUEUE) == 0)
    q->queue = NULL;
  else
    add_up(sum, q);
}

static void counted(struct uvs__redis_call *call, int status, redisReply *const *body, size_t n) {
  struct count_call *c = (struct count_call *)(void *)call;
  struct uvs__count_request *r = count_of(call->op);

  if (status == 0 && n != 1 + c->n * COUNTS)
    status = UV_EIO;
  if (status == 0) {
    r->stats.kept = (uint64_t)uvs__redis_int(body[0]);
    for (size_t i = 0; i < c->n; i++)
      read_queue(&r->stats, body + 1 + i * COUNTS, &c->queues[i]);
  }
  uvs__redis_op_done(call->op, status);
  uvs__jobs_free(c);
}

static int compare_names(const void *a, const void *b) {
  return strcmp(((const uvs_queue_stats_t *)a)->queue, ((const uvs_queue_stats_t *)b)->queue);
}

/* The answers come in the order of the commands, so the last one ends the request. */
static void counted_last(struct uvs__redis_call *call, int status, redisReply *const *body,
                         size_t n) {
  struct uvs__count_request *r = count_of(call->op);
  uvs_queue_stats_t *queues = (uvs_queue_stats_t *)r->stats.queues;
  struct count_call *c = (struct count_call *)(void *)call;
  size_t all = r->stats.n_queues, listed = 0;

  call->op->left++; /* the request lives until the queues are sorted */
  struct uvs__redis_op *op = call->op;
  counted(call, status, body, n);
  (void)c;
  for (size_t i = 0; i < all; i++) {
    if (queues[i].queue != NULL)
      queues[listed++] = queues[i];
  }
  qsort(queues, listed, sizeof *queues, compare_names);
  r->stats.n_queues = listed;
  uvs__redis_op_done(op, 0);
}

static void ask_counts(struct uvs__redis_op *op, uvs_queue_stats_t *queues, size_t n, bool last) {
  struct uvs__queue_names names = {.n = 0};
  struct uvs__words w = {0};
  struct count_call *c;

  op->left++;
  c = uvs__redis_call_new(op, sizeof *c, last ? counted_last : counted);
  if (c == NULL)
    return;
  for (size_t i = 0; i < n; i++)
    uvs__queue_index(&names, queues[i].queue);
  c->queues = queues;
  c->n = n;
  uvs__redis_begin(op->store, &w, &names);
  uvs__redis_send(&c->call, UVS__REDIS_COUNT, &w, false);
}

static int copy_queues(struct uvs__count_request *r, redisReply *const *list, size_t n) {
  uvs_queue_stats_t *queues = uvs__arena_alloc(&r->arena, (n + 1) * sizeof *queues);

  if (queues == NULL)
    return UV_ENOMEM;
  for (size_t i = 0; i < n; i++) {
    queues[i].queue = uvs__redis_string(&r->arena, uvs__redis_bytes(list[i]));
    if (queues[i].queue == NULL)
      return UV_ENOMEM;
  }
  r->stats.queues = queues;
  r->stats.n_queues = n;
  return 0;
}

static void on_names(struct uvs__redis_names *names, int status, redisReply *const *list,
                     size_t n) {
  struct count *c = (struct count *)(void *)names;
  struct uvs__redis_op *op = c->op;
  struct uvs__count_request *r = count_of(op);
  size_t i = 0, page;

  uvs__jobs_free(c);
  if (status == 0)
    status = copy_queues(r, list, n);
  while (status == 0) { /* at least one command, because ends are counted, too */
    uvs_queue_stats_t *queues = (uvs_queue_stats_t *)r->stats.queues + i;

    page = n - i < UVS__REDIS_QUEUES ? n - i : UVS__REDIS_QUEUES;
    i += page;
    ask_counts(op, queues, page, i == n);
    if (i == n)
      break;
  }
  uvs__redis_op_done(op, status);
}

void uvs__redis_count(struct uvs__redis_op *op) {
  struct uvs__count_request *r = count_of(op);
  struct count *c = uvs__jobs_alloc(sizeof *c);

  memset(&r->stats, 0, sizeof r->stats);
  r->stats.size = sizeof r->stats;
  if (c == NULL) {
    uvs__redis_op_done(op, UV_ENOMEM);
    return;
  }
  c->op = op;
  c->names.store = op->store;
  c->names.named = on_names;
  uvs__redis_ask_names(&c->names, 0, -1);
}

/* ------------------------------------------------------------------ EVENTS --- */

static int read_event(struct uvs__events_request *r, struct uvs__bytes text) {
  struct uvs__event *e = &r->events[r->n];
  struct uvs__reader reader = uvs__reader_of(text);
  struct uvs__bytes id;

  e->number = uvs__read_number(&reader, 7);
  e->what = (int)uvs__read_number(&reader, 1);
  id = uvs__read_bytes(&reader, (size_t)uvs__read_number(&reader, 2));
  if (reader.bad || e->number <= r->after)
    return 0; /* overwritten by a reset */
  e->id = id.size == 0 ? NULL : uvs__redis_string(&r->arena, id);
  e->text = uvs__redis_string(&r->arena, uvs__read_rest(&reader));
  if (e->text == NULL || (id.size > 0 && e->id == NULL))
    return UV_ENOMEM;
  r->n++;
  return 0;
}

static void on_events(struct uvs__redis_call *call, int status, redisReply *const *body, size_t n) {
  struct uvs__events_request *r = (struct uvs__events_request *)(void *)call->op->r;

  r->last = call->store->events;
  for (size_t i = 0; i < n && i < UVS__EVENTS_PAGE && status == 0; i++)
    status = read_event(r, uvs__redis_bytes(body[i]));
  uvs__redis_op_done(call->op, status);
  uvs__jobs_free(call);
}

void uvs__redis_events(struct uvs__redis_op *op) {
  struct uvs__events_request *r = (struct uvs__events_request *)(void *)op->r;
  struct uvs__queue_names queues = {.n = 0};
  struct uvs__redis_call *call;
  struct uvs__words w = {0};

  r->n = 0;
  r->events = uvs__arena_alloc(&r->arena, UVS__EVENTS_PAGE * sizeof *r->events);
  if (r->events == NULL) {
    uvs__redis_op_done(op, UV_ENOMEM);
    return;
  }
  call = uvs__redis_call_new(op, sizeof *call, on_events);
  if (call == NULL)
    return;
  uvs__redis_begin(op->store, &w, &queues);
  uvs__words_int(&w, (int64_t)r->after);
  uvs__words_int(&w, UVS__EVENTS_PAGE);
  uvs__redis_send(call, UVS__REDIS_EVENTS, &w, false);
}
