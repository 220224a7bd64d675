/* SPDX-License-Identifier: MIT
 *
 * admin: the calls of uvsched/jobs_admin.h: list, redrive, purge, queues, statistics.
 */
#include "jobs/engine.h"

#include <string.h>

#define BULK_BATCH 1000

/* ----------------------------------------------------------------- filters --- */

static int copy_filter(struct uvs__call *c, const uvs_job_filter_t *from, uvs_job_filter_t *ret,
                       const char **ret_queue, const char **ret_rest) {
  int rc;

  if (from == NULL) {
    uvs_job_filter_init(ret);
    return 0;
  }
  if (from->size < sizeof *from || from->state < 0 || from->state > UVS_JOB_DEAD)
    return UV_EINVAL;
  *ret = *from;
  ret->size = sizeof *ret;
  if (!uvs__arena_string(&c->arena, from->id, &ret->id) ||
      !uvs__arena_string(&c->arena, from->queue, &ret->queue) ||
      !uvs__arena_string(&c->arena, from->name, &ret->name))
    return UV_ENOMEM;
  rc = from->id == NULL ? 0 : uvs__call_id(c, from->id, ret_queue, ret_rest);
  return rc;
}

/* -------------------------------------------------------------------- list --- */

/* The ticks of crons are jobs only in the store. */
static bool drop_ticks(struct uvs__call *c) {
  size_t n = 0;

  for (size_t i = 0; c->status == 0 && i < c->list.n; i++)
    if (!uvs__is_reserved(c->list.infos[i].queue))
      c->list.infos[n++] = c->list.infos[i];
  c->list.n = n;
  return true;
}

static void deliver_list(struct uvs__call *c) {
  ((uvs_job_list_cb)c->callback)(c->jobs, c->status, c->list.infos, c->status == 0 ? c->list.n : 0,
                                 c->list.next, c->arg);
}

int uvs_jobs_list(uvs_jobs_t *jobs, const uvs_job_filter_t *f, int64_t cursor, uint32_t limit,
                  uvs_job_list_cb cb, void *arg) {
  struct uvs__call *c;
  int rc;

  if (limit < 1 || limit > 1000 || cursor < 0)
    return UV_EINVAL;
  rc = uvs__call_new(jobs, UVS__LIST, &c);
  if (rc != 0)
    return rc;
  c->callback = (void (*)(void))cb;
  c->arg = arg;
  c->deliver = deliver_list;
  c->answered = drop_ticks;
  c->list.cursor = cursor;
  c->list.limit = limit;
  rc = copy_filter(c, f, &c->list.filter, &c->list.queue, &c->list.rest);
  if (rc == 0)
    return uvs__call_send(c);
  uvs__call_free(c);
  return rc;
}

/* --------------------------------------------------------- redrive and purge --- */

/* The store has done one batch. Asks for the next one, until the store has looked at everything. */
static bool bulk_answered(struct uvs__call *c) {
  c->bulk_count += c->status == 0 ? c->bulk.count : 0;
  if (c->status == 0 && c->bulk.r.op == UVS__REDRIVE && c->bulk.count > 0)
    uvs__workers_due(c->jobs);
  if (c->status != 0 || c->bulk.next == 0)
    return true;
  c->bulk.cursor = c->bulk.next;
  c->bulk.count = 0;
  uvs__keeper_ask(c->jobs, &c->ask);
  return false;
}

static void deliver_count(struct uvs__call *c) {
  ((uvs_jobs_count_cb)c->callback)(c->jobs, c->status, c->bulk_count, c->arg);
}

static int bulk(uvs_jobs_t *jobs, enum uvs__op op, const uvs_job_filter_t *f, uvs_jobs_count_cb cb,
                void *arg) {
  struct uvs__call *c;
  int rc = uvs__call_new(jobs, op, &c);

  if (rc != 0)
    return rc;
  c->callback = (void (*)(void))cb;
  c->arg = arg;
  c->deliver = deliver_count;
  c->answered = bulk_answered;
  c->bulk.limit = BULK_BATCH;
  rc = copy_filter(c, f, &c->bulk.filter, &c->bulk.queue, &c->bulk.rest);
  if (rc == 0)
    return uvs__call_send(c);
  uvs__call_free(c);
  return rc;
}

static bool has_state(const uvs_job_filter_t *f, int other) {
  return f == NULL || f->state == 0 || f->state == UVS_JOB_DEAD || f->state == other;
}

int uvs_jobs_redrive(uvs_jobs_t *jobs, const uvs_job_filter_t *f, uvs_jobs_count_cb cb, void *arg) {
  return has_state(f, UVS_JOB_DEAD) ? bulk(jobs, UVS__REDRIVE, f, cb, arg) : UV_EINVAL;
}

int uvs_jobs_purge(uvs_jobs_t *jobs, const uvs_job_filter_t *f, uvs_jobs_count_cb cb, void *arg) {
  return has_state(f, UVS_JOB_DONE) ? bulk(jobs, UVS__PURGE, f, cb, arg) : UV_EINVAL;
}

/* ------------------------------------------------------------------ queues --- */

static bool queue_answered(struct uvs__call *c) {
  if (c->status == 0)
    uvs__workers_due(c->jobs);
  return true;
}

static bool is_queue_valid(const uvs_job_queue_t *q) {
  return q->paused >= -1 && q->paused <= 1 && q->concurrency >= -1 && q->rate >= -1 &&
         (q->rate_ns == -1 || (q->rate_ns >= 1000 && q->rate_ns < UVS_JOBS_END_NS / 2)) &&
         q->catch_up_rate >= -1;
}

int uvs_jobs_set_queue(uvs_jobs_t *jobs, const uvs_job_queue_t *q, uvs_jobs_cb cb, void *arg) {
  char text[100];
  struct uvs__call *c;
  int rc;

  if (q == NULL || q->size < sizeof *q || !is_queue_valid(q) ||
      uvs__check_name("name", q->name, text, sizeof text) != 0)
    return UV_EINVAL;
  rc = uvs__call_new(jobs, UVS__SET_QUEUE, &c);
  if (rc != 0)
    return rc;
  c->callback = (void (*)(void))cb;
  c->arg = arg;
  c->deliver = uvs__call_deliver_status;
  c->answered = queue_answered;
  c->queue.set = *q;
  if (uvs__arena_string(&c->arena, q->name, &c->queue.set.name))
    return uvs__call_send(c);
  uvs__call_free(c);
  return UV_ENOMEM;
}

/* -------------------------------------------------------------- statistics --- */

/* The store has filled in the fields about the store, which come first. The keeper keeps the fields
 * about this process. */
static bool stats_answered(struct uvs__call *c) {
  size_t half = offsetof(uvs_jobs_stats_t, put);

  memcpy((char *)&c->count.stats + half, (const char *)&c->jobs->keeper.stats + half,
         sizeof c->count.stats - half);
  c->count.stats.size = sizeof c->count.stats;
  return true;
}

static void deliver_stats(struct uvs__call *c) {
  ((uvs_jobs_stats_cb)c->callback)(c->jobs, c->status, c->status == 0 ? &c->count.stats : NULL,
                                   c->arg);
}

int uvs_jobs_stats(uvs_jobs_t *jobs, uvs_jobs_stats_cb cb, void *arg) {
  struct uvs__call *c;
  int rc = uvs__call_new(jobs, UVS__COUNT, &c);

  if (rc != 0)
    return rc;
  c->callback = (void (*)(void))cb;
  c->arg = arg;
  c->deliver = deliver_stats;
  c->answered = stats_answered;
  return uvs__call_send(c);
}
