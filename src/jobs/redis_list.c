/* SPDX-License-Identifier: MIT
 *
 * redis_list: GET, LIST, REDRIVE, PURGE and TRIM. REDRIVE and PURGE look for what matches first,
 * and then give the ids to a script, which checks each id again.
 */
#include <string.h>

#include "jobs/alloc.h"
#include "jobs/redis_store.h"

/* --------------------------------------------------------------- GET, LIST --- */

static struct uvs__list_request *list_of(const struct uvs__redis_scan *scan) {
  return (struct uvs__list_request *)(void *)scan->call.op->r;
}

static void listed(struct uvs__redis_scan *scan, int status) {
  struct uvs__list_request *r = list_of(scan);
  struct uvs__redis_op *op = scan->call.op;

  if (status == 0) {
    r->infos = uvs__arena_alloc(&r->arena, (scan->n + 1) * sizeof *r->infos);
    status = r->infos == NULL ? UV_ENOMEM : 0;
  }
  for (size_t i = 0; i < scan->n && status == 0; i++)
    r->infos[i] = scan->matches[i].info;
  if (status == 0) {
    r->n = scan->n;
    r->next = scan->cursor;
  }
  if (status == 0 && r->r.op == UVS__GET)
    op->store->waited_for |= r->n > 0 && r->infos[0].ended_ns == 0;
  if (status == 0 && r->r.op == UVS__GET && r->n == 0)
    status = UV_ENOENT;
  uvs__redis_scan_free(scan);
  uvs__jobs_free(scan);
  uvs__redis_op_done(op, status);
}

static void list(struct uvs__redis_op *op, bool get) {
  struct uvs__list_request *r = (struct uvs__list_request *)(void *)op->r;
  struct uvs__redis_scan *scan;

  r->n = 0;
  r->next = 0;
  scan = uvs__redis_call_new(op, sizeof *scan, NULL);
  if (scan == NULL)
    return;
  scan->filter = get ? NULL : &r->filter;
  scan->queue = r->queue;
  scan->rest = r->rest;
  scan->whole = get;
  scan->limit = r->limit;
  scan->cursor = r->cursor;
  scan->arena = &r->arena;
  scan->found = listed;
  uvs__redis_scan(scan);
}

void uvs__redis_get(struct uvs__redis_op *op) {
  list(op, true);
}

void uvs__redis_list(struct uvs__redis_op *op) {
  list(op, false);
}

/* ---------------------------------------------------------- REDRIVE, PURGE --- */

struct bulk {
  struct uvs__redis_scan scan;
  uvs_job_filter_t filter;
  struct uvs__arena arena;
};

struct bulk_call {
  struct uvs__redis_call call;
  size_t n;
};

static struct uvs__bulk_request *bulk_of(const struct uvs__redis_op *op) {
  return (struct uvs__bulk_request *)(void *)op->r;
}

static void acted(struct uvs__redis_call *call, int status, redisReply *const *body, size_t n) {
  struct bulk_call *c = (struct bulk_call *)(void *)call;
  struct uvs__bulk_request *r = bulk_of(call->op);
  struct uvs__bytes digits = {"", 0};

  if (status == 0) {
    if (n > 0)
      digits = uvs__redis_bytes(body[0]);
    status = digits.size == c->n ? 0 : UV_EIO;
    call->op->done_any = true;
  }
  for (size_t i = 0; i < digits.size; i++) {
    char digit = ((const char *)digits.data)[i];

    r->count += digit == '0';
    if (r->filter.id != NULL && status == 0)
      status = digit == '1' ? UV_EEXIST : digit == '2' ? UV_ENOENT : 0;
  }
  uvs__redis_op_done(call->op, status);
  uvs__jobs_free(c);
}

static const char *action_of(const struct uvs__bulk_request *r) {
  return r->r.op == UVS__REDRIVE ? "redrive" : r->filter.state == UVS_JOB_DONE ? "forget" : "purge";
}

/* Sends a command about the matches from `from` on. Returns how many it names. */
static size_t act(struct bulk *b, size_t from) {
  struct uvs__redis_op *op = b->scan.call.op;
  struct uvs__queue_names queues = {.n = 0};
  struct uvs__words w = {0};
  struct bulk_call *c;
  size_t n = 0;

  while (from + n < b->scan.n && n < UVS__REDIS_PUTS &&
         uvs__queue_index(&queues, b->scan.matches[from + n].info.queue) > 0)
    n++;
  op->left++;
  c = uvs__redis_call_new(op, sizeof *c, acted);
  if (c == NULL)
    return n;
  c->n = n;
  uvs__redis_begin(op->store, &w, &queues);
  uvs__words_text(&w, action_of(bulk_of(op)));
  for (size_t i = from; i < from + n; i++) {
    const uvs_job_info_t *info = &b->scan.matches[i].info;

    uvs__words_int(&w, (int64_t)uvs__queue_index(&queues, info->queue));
    uvs__words_text(&w, strchr(info->id, '/') + 1);
  }
  uvs__redis_send(&c->call, UVS__REDIS_BULK, &w, true);
  return n;
}

/* Leaves out the ends that are still needed for repeated puts. */
static void drop_young(struct bulk *b) {
  struct uvs__redis_scan *scan = &b->scan;
  int64_t now_us = scan->call.wall_ns / 1000;
  size_t n = 0;

  if (scan->filter->state != UVS_JOB_DONE)
    return;
  for (size_t i = 0; i < scan->n; i++) {
    if (scan->matches[i].info.put_ns / 1000 + UVS__REPEAT_US <= now_us)
      scan->matches[n++] = scan->matches[i];
  }
  scan->n = n;
}

static void bulk_found(struct uvs__redis_scan *scan, int status) {
  struct bulk *b = (struct bulk *)(void *)scan;
  struct uvs__redis_op *op = scan->call.op;
  struct uvs__bulk_request *r = bulk_of(op);

  drop_young(b);
  if (status == 0 && r->filter.id != NULL && scan->n == 0)
    status = UV_ENOENT;
  if (status == 0) {
    r->next = scan->cursor;
    for (size_t i = 0; i < scan->n;)
      i += act(b, i);
  }
  uvs__redis_scan_free(scan);
  uvs__arena_free(&b->arena);
  uvs__jobs_free(b);
  uvs__redis_op_done(op, status);
}

void uvs__redis_bulk(struct uvs__redis_op *op) {
  struct uvs__bulk_request *r = bulk_of(op);
  int state = r->filter.state;
  bool nothing =
      state != 0 && state != UVS_JOB_DEAD && (state != UVS_JOB_DONE || r->r.op == UVS__REDRIVE);
  struct bulk *b;

  r->count = 0;
  r->next = 0;
  if (nothing) {
    uvs__redis_op_done(op, r->filter.id == NULL ? 0 : UV_ENOENT);
    return;
  }
  b = uvs__redis_call_new(op, sizeof *b, NULL);
  if (b == NULL)
    return;
  b->filter = r->filter;
  b->filter.state = state == 0 ? UVS_JOB_DEAD : state;
  b->scan.filter = &b->filter;
  b->scan.queue = r->queue;
  b->scan.rest = r->rest;
  b->scan.limit = r->limit;
  b->scan.cursor = r->cursor;
  b->scan.arena = &b->arena;
  b->scan.found = bulk_found;
  uvs__redis_scan(&b->scan);
}

/* -------------------------------------------------------------------- TRIM --- */

static void trimmed(struct uvs__redis_call *call, int status, redisReply *const *body, size_t n) {
  struct uvs__trim_request *r = (struct uvs__trim_request *)(void *)call->op->r;

  if (status == 0 && n == 0)
    status = UV_EIO;
  if (status == 0)
    r->count = (uint64_t)uvs__redis_int(body[0]);
  uvs__redis_op_done(call->op, status);
  uvs__jobs_free(call);
}

void uvs__redis_trim(struct uvs__redis_op *op) {
  struct uvs__trim_request *r = (struct uvs__trim_request *)(void *)op->r;
  struct uvs__queue_names queues = {.n = 0};
  struct uvs__redis_call *call;
  struct uvs__words w = {0};

  r->count = 0;
  call = uvs__redis_call_new(op, sizeof *call, trimmed);
  if (call == NULL)
    return;
  uvs__redis_begin(op->store, &w, &queues);
  uvs__words_int(&w, r->max_done);
  uvs__words_int(&w, r->max_dead);
  uvs__words_int(&w, r->dead_age_us);
  uvs__words_int(&w, r->limit);
  uvs__redis_send(call, UVS__REDIS_TRIM, &w, false);
}
