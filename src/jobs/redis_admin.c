/* SPDX-License-Identifier: MIT
 *
 * redis_admin: settings of queues, and crons.
 *
 * The definition of a cron: version (1 byte), revision (8), last (8), expression (2 bytes for the
 * size), zone (1), and then fields that only this file reads: flags (1: it has a zone), misfire,
 * overlap, priority + 1 (1 byte each), max_missed (4), keep_us (8), queue, name (1), metadata (2),
 * payload.
 */
#include <stdlib.h>
#include <string.h>

#include "jobs/alloc.h"
#include "jobs/redis_store.h"

/* ------------------------------------------------------------------ queues --- */

/* For requests that only have a status. */
static void answered(struct uvs__redis_call *call, int status, redisReply *const *body, size_t n) {
  (void)body;
  (void)n;
  uvs__redis_op_done(call->op, status);
  uvs__jobs_free(call);
}

static void add_setting(struct uvs__words *w, const char *name, int64_t value) {
  if (value == -1)
    return;
  uvs__words_text(w, name);
  uvs__words_int(w, value);
}

void uvs__redis_set_queue(struct uvs__redis_op *op) {
  const uvs_job_queue_t *set = &((struct uvs__queue_request *)(void *)op->r)->set;
  struct uvs__queue_names queues = {{set->name}, 1};
  struct uvs__redis_call *call = uvs__redis_call_new(op, sizeof *call, answered);
  struct uvs__words w = {0};
  int64_t rate_us;

  if (call == NULL)
    return;
  rate_us = set->rate_ns / 1000 + (set->rate_ns % 1000 > 0);
  uvs__redis_begin(op->store, &w, &queues);
  add_setting(&w, "paused", set->paused);
  add_setting(&w, "concurrency", set->concurrency);
  add_setting(&w, "rate", set->rate);
  add_setting(&w, "rate_ns", set->rate_ns);
  add_setting(&w, "rate_us", set->rate_ns == -1 ? -1 : rate_us < 1 ? 1 : rate_us);
  add_setting(&w, "catch_up", set->catch_up_rate);
  uvs__redis_send(call, UVS__REDIS_QUEUE, &w, true);
}

/* ------------------------------------------------------------------- crons --- */

static void put_number(char **at, uint64_t number, int size) {
  for (int i = size - 1; i >= 0; i--)
    *(*at)++ = (char)(number >> (8 * i) & 0xff);
}

static void put_bytes(char **at, const void *data, size_t size, int digits) {
  if (digits > 0)
    put_number(at, size, digits);
  if (size > 0)
    memcpy(*at, data, size);
  *at += size;
}

/* Makes the fields that only this file reads. data NULL: no memory. */
static struct uvs__bytes write_more(struct uvs__arena *a, const struct uvs__cron *c) {
  size_t size =
      20 + strlen(c->job.queue) + strlen(c->job.name) + c->job.meta.size + c->job.payload.size;
  char *text = uvs__arena_alloc(a, size), *at = text;
  struct uvs__bytes bytes = {text, size};

  if (text == NULL)
    return bytes;
  put_number(&at, c->zone != NULL, 1);
  put_number(&at, (uint64_t)c->misfire, 1);
  put_number(&at, (uint64_t)c->overlap, 1);
  put_number(&at, c->job.priority < 0 ? 0 : (uint64_t)c->job.priority + 1, 1);
  put_number(&at, c->max_missed, 4);
  put_number(&at, (uint64_t)c->job.keep_us, 8);
  put_bytes(&at, c->job.queue, strlen(c->job.queue), 1);
  put_bytes(&at, c->job.name, strlen(c->job.name), 1);
  put_bytes(&at, c->job.meta.data, c->job.meta.size, 2);
  put_bytes(&at, c->job.payload.data, c->job.payload.size, 0);
  bytes.size = (size_t)(at - text);
  return bytes;
}

static bool read_text(struct uvs__arena *a, struct uvs__bytes bytes, const char **ret) {
  *ret = uvs__redis_string(a, bytes);
  return *ret != NULL;
}

static bool read_blob(struct uvs__arena *a, struct uvs__bytes bytes, struct uvs__bytes *ret) {
  ret->size = bytes.size;
  ret->data = bytes.size == 0 ? NULL : uvs__arena_copy(a, bytes.data, bytes.size);
  return bytes.size == 0 || ret->data != NULL;
}

/* False: no memory. */
static bool read_cron(struct uvs__arena *a, struct uvs__reader *r, struct uvs__cron *c) {
  struct uvs__bytes expression, zone, queue, name, meta;
  bool has_zone;

  uvs__read_number(r, 1);
  c->revision = uvs__read_number(r, 8);
  c->last_us = (int64_t)uvs__read_number(r, 8);
  expression = uvs__read_bytes(r, (size_t)uvs__read_number(r, 2));
  zone = uvs__read_bytes(r, (size_t)uvs__read_number(r, 1));
  has_zone = uvs__read_number(r, 1) != 0;
  c->misfire = (int)uvs__read_number(r, 1);
  c->overlap = (int)uvs__read_number(r, 1);
  c->job.priority = (int)uvs__read_number(r, 1) - 1;
  c->max_missed = (uint32_t)uvs__read_number(r, 4);
  c->job.keep_us = (int64_t)uvs__read_number(r, 8);
  queue = uvs__read_bytes(r, (size_t)uvs__read_number(r, 1));
  name = uvs__read_bytes(r, (size_t)uvs__read_number(r, 1));
  meta = uvs__read_bytes(r, (size_t)uvs__read_number(r, 2));
  return read_text(a, expression, &c->expression) && (!has_zone || read_text(a, zone, &c->zone)) &&
         read_text(a, queue, &c->job.queue) && read_text(a, name, &c->job.name) &&
         read_blob(a, meta, &c->job.meta) && read_blob(a, uvs__read_rest(r), &c->job.payload);
}

int uvs__redis_read_cron(struct uvs__arena *a, const char *name, struct uvs__bytes text,
                         const struct uvs__cron **ret) {
  struct uvs__reader reader = uvs__reader_of(text);
  struct uvs__cron *c = uvs__arena_alloc(a, sizeof *c);

  if (c == NULL || !read_cron(a, &reader, c))
    return UV_ENOMEM;
  c->name = name;
  *ret = c;
  return reader.bad ? UV_EIO : 0;
}

static int cron_status(int64_t answer) {
  switch (answer) {
  case 0:
    return 0;
  case 1:
    return UVS_JOB_EXISTS;
  case 2:
    return UV_ENOENT;
  case 3:
    return UVS__NOT_HERE;
  default:
    return UVS__IN_TRANSIT;
  }
}

static void cron_answered(struct uvs__redis_call *call, int status, redisReply *const *body,
                          size_t n) {
  if (status == 0 && n == 0)
    status = UV_EIO;
  if (status == 0)
    status = cron_status(uvs__redis_int(body[0]));
  uvs__redis_op_done(call->op, status);
  uvs__jobs_free(call);
}

static void add_definition(struct uvs__words *w, const struct uvs__cron *c) {
  struct uvs__bytes more = write_more(&w->arena, c);
  char *revision = uvs__arena_alloc(&w->arena, 8), *at = revision;

  w->no_memory = w->no_memory || more.data == NULL || revision == NULL;
  if (w->no_memory)
    return;
  put_number(&at, c->revision, 8);
  uvs__words_add(w, revision, 8);
  uvs__words_text(w, c->expression);
  uvs__words_text(w, c->zone);
  uvs__words_add(w, more.data, more.size);
}

void uvs__redis_cron(struct uvs__redis_op *op) {
  struct uvs__cron_request *r = (struct uvs__cron_request *)(void *)op->r;
  struct uvs__queue_names queues = {{UVS__CRON_QUEUE}, 1};
  struct uvs__redis_call *call = uvs__redis_call_new(op, sizeof *call, cron_answered);
  struct uvs__words w = {0};

  if (call == NULL)
    return;
  uvs__redis_begin(op->store, &w, &queues);
  if (r->r.op == UVS__SET_CRON)
    uvs__words_text(&w, r->only_if_there ? "set_there" : "set");
  else
    uvs__words_text(&w, "remove");
  uvs__words_text(&w, r->cron.name);
  if (r->r.op == UVS__SET_CRON)
    add_definition(&w, &r->cron);
  uvs__redis_send(call, UVS__REDIS_CRON, &w, true);
}

/* ------------------------------------------------------------- list of crons --- */

static int compare_crons(const void *a, const void *b) {
  return strcmp(((const struct uvs__cron *)a)->name, ((const struct uvs__cron *)b)->name);
}

static int read_crons(struct uvs__cron_request *r, redisReply *const *body, size_t n) {
  r->crons = uvs__arena_alloc(&r->arena, (n / 3 + 1) * sizeof *r->crons);
  if (r->crons == NULL)
    return UV_ENOMEM;
  for (size_t i = 0; i + 3 <= n; i += 3) {
    const char *name = uvs__redis_string(&r->arena, uvs__redis_bytes(body[i]));
    const struct uvs__cron *c = NULL;
    int rc = name == NULL
                 ? UV_ENOMEM
                 : uvs__redis_read_cron(&r->arena, name, uvs__redis_bytes(body[i + 1]), &c);

    if (rc != 0)
      return rc;
    r->crons[r->n] = *c;
    r->crons[r->n++].tick_us = uvs__redis_int(body[i + 2]);
  }
  qsort(r->crons, r->n, sizeof *r->crons, compare_crons);
  return 0;
}

static void listed(struct uvs__redis_call *call, int status, redisReply *const *body, size_t n) {
  struct uvs__cron_request *r = (struct uvs__cron_request *)(void *)call->op->r;

  r->now_us = call->wall_ns / 1000;
  if (status == 0)
    status = read_crons(r, body, n);
  if (status != 0)
    r->n = 0;
  uvs__redis_op_done(call->op, status);
  uvs__jobs_free(call);
}

void uvs__redis_crons(struct uvs__redis_op *op) {
  struct uvs__cron_request *r = (struct uvs__cron_request *)(void *)op->r;
  struct uvs__queue_names queues = {{UVS__CRON_QUEUE}, 1};
  struct uvs__redis_call *call;
  struct uvs__words w = {0};

  r->n = 0;
  call = uvs__redis_call_new(op, sizeof *call, listed);
  if (call == NULL)
    return;
  uvs__redis_begin(op->store, &w, &queues);
  uvs__redis_send(call, UVS__REDIS_CRONS, &w, false);
}
