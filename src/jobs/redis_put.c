/* SPDX-License-Identifier: MIT
 *
 * redis_put: PUT. Requests that follow each other in a batch share commands, and a large one is
 * divided. The caller repeats a failed put as a whole, so it does no harm if a part of it was done.
 */
#include <string.h>

#include "jobs/alloc.h"
#include "jobs/redis_store.h"

#define PUT_WORDS 100 /* bytes of the words of a put, besides its texts */

/* Puts of one request that are in one command. */
struct span {
  struct uvs__redis_op *op;
  struct uvs__put *puts;
  size_t n;
};

struct put_call {
  struct uvs__redis_call call;
  struct uvs__queue_names queues;
  struct span *spans;
  size_t n_spans, n, bytes;
};

size_t uvs__redis_put_size(const struct uvs__put *put) {
  return put->job.payload.size + put->job.meta.size + PUT_WORDS;
}

static int class_of(int priority) {
  return priority > UVS_PRIORITY_NORMAL   ? UVS__CLASS_HIGH
         : priority < UVS_PRIORITY_NORMAL ? UVS__CLASS_LOW
                                          : UVS__CLASS_NORMAL;
}

void uvs__redis_put_words(struct uvs__words *w, const struct uvs__put *put, size_t queue) {
  const struct uvs__record *job = &put->job;

  uvs__words_int(w, (int64_t)queue);
  uvs__words_text(w, job->rest);
  uvs__words_text(w, job->name);
  uvs__words_text(w, job->key);
  uvs__words_int(w, job->key_policy);
  uvs__words_int(w, class_of(job->priority));
  uvs__words_when(w, job->due);
  uvs__words_int(w, job->keep_us < UVS__NEVER_US ? job->keep_us : UVS__NEVER_US);
  uvs__words_add(w, job->meta.data, job->meta.size);
  uvs__words_add(w, job->payload.data, job->payload.size);
}

static int status_of(char digit) {
  switch (digit) {
  case '0':
    return 0;
  case '1':
    return UVS_JOB_EXISTS;
  case '2':
    return UV_EEXIST;
  case '3':
    return UVS__NOT_HERE;
  default:
    return UVS__IN_TRANSIT;
  }
}

int uvs__redis_read_puts(struct uvs__put *puts, size_t n, const char *digits,
                         redisReply *const *body, size_t n_body, size_t *at, int64_t wall_ns,
                         struct uvs__arena *a) {
  for (size_t i = 0; i < n; i++) {
    struct uvs__put *put = &puts[i];

    put->there = NULL;
    put->due_us = 0;
    put->status = status_of(digits[i]);
    if (put->status == 0)
      put->due_us = uvs__due_us(put->job.due, wall_ns);
    if (put->status != UVS_JOB_EXISTS && put->status != UV_EEXIST)
      continue;
    if (*at >= n_body)
      return UV_EIO;
    put->there = uvs__redis_string(a, uvs__redis_bytes(body[(*at)++]));
    if (put->there == NULL)
      return UV_ENOMEM;
  }
  return 0;
}

void uvs__redis_refuse_puts(struct uvs__put *puts, size_t n) {
  for (size_t i = 0; i < n; i++) {
    puts[i].status = UVS_JOB_EXISTS;
    puts[i].there = puts[i].job.rest;
    puts[i].due_us = 0;
  }
}

/* ------------------------------------------------------------------ answer --- */

static struct uvs__arena *arena_of(const struct span *span) {
  return &((struct uvs__put_request *)(void *)span->op->r)->arena;
}

static void answered(struct uvs__redis_call *call, int status, redisReply *const *body, size_t n) {
  struct put_call *c = (struct put_call *)(void *)call;
  const char *digits = NULL;
  size_t at = 1;

  if (status == 0) {
    struct uvs__bytes text = n == 0 ? (struct uvs__bytes){"", 0} : uvs__redis_bytes(body[0]);

    digits = text.data;
    status = text.size == c->n ? 0 : UV_EIO;
  }
  for (size_t i = 0; i < c->n_spans; i++) {
    struct span *s = &c->spans[i];
    int rc = status;

    s->op->done_any |= status == 0;
    if (rc == 0) {
      rc = uvs__redis_read_puts(s->puts, s->n, digits, body, n, &at, call->wall_ns, arena_of(s));
      digits += s->n;
    }
    uvs__redis_op_done(s->op, rc);
  }
  uvs__jobs_free(c->spans);
  uvs__jobs_free(c);
}

/* -------------------------------------------------------------------- send --- */

static void send_puts(struct put_call *c) {
  struct uvs__words w = {0};

  uvs__redis_begin(c->call.store, &w, &c->queues);
  for (size_t i = 0; i < c->n_spans; i++) {
    for (size_t j = 0; j < c->spans[i].n; j++) {
      const struct uvs__put *put = &c->spans[i].puts[j];

      uvs__redis_put_words(&w, put, uvs__queue_index(&c->queues, put->job.queue));
    }
  }
  uvs__redis_send(&c->call, UVS__REDIS_PUT, &w, true);
}

static struct put_call *make_call(struct uvs__redis *store, size_t max_spans) {
  struct put_call *c = uvs__jobs_alloc(sizeof *c);

  if (c == NULL)
    return NULL;
  c->spans = uvs__jobs_alloc(max_spans * sizeof *c->spans);
  if (c->spans == NULL) {
    uvs__jobs_free(c);
    return NULL;
  }
  c->call.store = store;
  c->call.answered = answered;
  return c;
}

/* Is there room in the command for one more put? */
static bool fits(struct put_call *c, const struct uvs__put *put) {
  return c->n < UVS__REDIS_PUTS &&
         (c->n == 0 || c->bytes + uvs__redis_put_size(put) <= UVS__REDIS_BYTES) &&
         uvs__queue_index(&c->queues, put->job.queue) > 0;
}

/* Returns the part of the command for the puts of the request. */
static struct span *span_of(struct put_call *c, struct uvs__redis_op *op, struct uvs__put *first) {
  struct span *span;

  if (c->n_spans > 0 && c->spans[c->n_spans - 1].op == op)
    return &c->spans[c->n_spans - 1];
  span = &c->spans[c->n_spans++];
  span->op = op;
  span->puts = first;
  op->left++;
  return span;
}

static void add(struct put_call *c, struct uvs__redis_op *op, struct uvs__put *put) {
  span_of(c, op, put)->n++;
  c->n++;
  c->bytes += uvs__redis_put_size(put);
}

/* Adds all puts of a request to *call; commands that are full are sent. False: no memory. */
static bool add_all(struct uvs__redis *store, struct uvs__redis_op *op, size_t requests,
                    struct put_call **call) {
  struct uvs__put_request *r = (struct uvs__put_request *)(void *)op->r;

  for (size_t i = 0; i < r->n; i++) {
    if (*call != NULL && !fits(*call, &r->puts[i])) {
      send_puts(*call);
      *call = NULL;
    }
    if (*call == NULL) {
      *call = make_call(store, requests);
      if (*call == NULL)
        return false;
      uvs__queue_index(&(*call)->queues, r->puts[i].job.queue);
    }
    add(*call, op, &r->puts[i]);
  }
  return true;
}

void uvs__redis_put(struct uvs__redis *store, struct uvs__request *r, size_t n) {
  struct uvs__request *next;
  struct put_call *call = NULL;

  for (size_t i = 0; i < n; i++, r = next) {
    struct uvs__redis_op *op;

    next = r->next;
    op = uvs__redis_op_new(store, r);
    if (op == NULL)
      continue;
    uvs__redis_op_done(op, add_all(store, op, n, &call) ? 0 : UV_ENOMEM);
  }
  if (call != NULL)
    send_puts(call);
}
