/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "jobs/alloc.h"
#include "jobs/redis_store.h"

#define GLOBAL_KEYS 13
#define QUEUE_KEYS 10

/* --------------------------------------------------------------------- ops --- */

struct uvs__redis_op *uvs__redis_op_new(struct uvs__redis *store, struct uvs__request *r) {
  struct uvs__redis_op *op = uvs__jobs_alloc(sizeof *op);

  if (op == NULL) {
    snprintf(store->face->trouble, sizeof store->face->trouble, "there is not enough memory");
    r->status = UV_ENOMEM;
    r->done(r);
    return NULL;
  }
  op->store = store;
  op->r = r;
  op->left = 1;
  return op;
}

/* Of the codes of several commands, the first error counts. If another command was carried out, the
 * request may have been done in part. */
static int status_of(const struct uvs__redis_op *op) {
  bool nothing_done = op->status == UV_EAGAIN || op->status == UV_ENOMEM || op->status == UV_ENOSPC;

  return op->done_any && nothing_done ? UVS_EUNKNOWN : op->status;
}

void uvs__redis_op_done(struct uvs__redis_op *op, int status) {
  struct uvs__request *r = op->r;

  if (op->status == 0)
    op->status = status;
  if (--op->left > 0)
    return;
  r->status = status_of(op);
  uvs__jobs_free(op);
  r->done(r);
}

/* ------------------------------------------------------------------- words --- */

size_t uvs__queue_index(struct uvs__queue_names *q, const char *name) {
  for (size_t i = q->n; i > 0; i--) {
    if (strcmp(q->names[i - 1], name) == 0)
      return i;
  }
  if (q->n == UVS__REDIS_QUEUES)
    return 0;
  q->names[q->n++] = name;
  return q->n;
}

char *uvs__redis_key(struct uvs__redis *store, struct uvs__arena *a, const char *what,
                     const char *more) {
  size_t size = strlen(store->options->ns) + strlen(what) + strlen(more) + 4;
  char *key = uvs__arena_alloc(a, size);

  if (key != NULL)
    snprintf(key, size, "{%s}:%s%s", store->options->ns, what, more);
  return key;
}

static void add_key(struct uvs__redis *store, struct uvs__words *w, const char *what,
                    const char *queue, const char *end) {
  char more[UVS_JOB_NAME_MAX + 4];
  const char *key;

  snprintf(more, sizeof more, "%s%s", queue, end);
  key = uvs__redis_key(store, &w->arena, what, more);
  w->no_memory = w->no_memory || key == NULL;
  uvs__words_text(w, key);
}

static void add_keys(struct uvs__redis *store, struct uvs__words *w,
                     const struct uvs__queue_names *queues) {
  static const char *const globals[GLOBAL_KEYS] = {"meta",    "queues",  "events", "crons", "dead",
                                                   "dead_no", "dead_at", "dead_n", "end",   "until",
                                                   "kept",    "kept_at", "lead"};
  static const char *const each[QUEUE_KEYS][2] = {
      {"due:", ":0"}, {"due:", ":1"}, {"due:", ":2"}, {"lease:", ""}, {"again:", ""},
      {"job:", ""},   {"run:", ""},   {"key:", ""},   {"set:", ""},   {"idle:", ""}};

  uvs__words_int(w, (int64_t)(GLOBAL_KEYS + QUEUE_KEYS * queues->n + 1));
  for (size_t i = 0; i < GLOBAL_KEYS; i++)
    add_key(store, w, globals[i], "", "");
  for (size_t i = 0; i < queues->n; i++) {
    for (size_t j = 0; j < QUEUE_KEYS; j++)
      add_key(store, w, each[j][0], queues->names[i], each[j][1]);
  }
  add_key(store, w, "outbox", "", "");
}

void uvs__redis_begin(struct uvs__redis *store, struct uvs__words *w,
                      const struct uvs__queue_names *queues) {
  bool replaced = store->clock.wall_ns != NULL;
  int64_t wall_ns = replaced ? store->clock.wall_ns(store->clock.arg) : 0;

  add_keys(store, w, queues);
  uvs__words_text(w, store->epoch);
  uvs__words_int(w, wall_ns / 1000);
  uvs__words_int(w, wall_ns / 1000 + (wall_ns % 1000 > 0));
  uvs__words_int(w, (int64_t)store->node);
  uvs__words_int(w, store->housekeeping);
  uvs__words_int(w, (int64_t)queues->n);
  for (size_t i = 0; i < queues->n; i++)
    uvs__words_text(w, queues->names[i]);
}

/* ------------------------------------------------------------------- clock --- */

/* The known offset is changed only if the reading shows that it is wrong. */
void uvs__redis_note_clock(struct uvs__redis *s, struct uvs__redis_reading r) {
  int64_t low = r.now_us - r.received_ns / 1000 - 1, high = r.now_us - r.sent_ns / 1000 + 1;

  if (r.now_us == 0)
    return;
  if (!s->knows_offset)
    s->offset_us = low + (high - low) / 2;
  else if (s->offset_us < low)
    s->offset_us = low;
  else if (s->offset_us > high)
    s->offset_us = high;
  s->knows_offset = true;
}

int64_t uvs__redis_now_us(struct uvs__redis *s) {
  uv_timeval64_t t;

  if (s->clock.wall_ns != NULL)
    return s->clock.wall_ns(s->clock.arg) / 1000;
  if (s->knows_offset)
    return (int64_t)(uv_hrtime() / 1000) + s->offset_us;
  uv_gettimeofday(&t);
  return t.tv_sec * 1000000 + t.tv_usec;
}

/* ------------------------------------------------------------------ answer --- */

int64_t uvs__redis_int(const redisReply *reply) {
  return reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;
}

struct uvs__bytes uvs__redis_bytes(const redisReply *reply) {
  struct uvs__bytes none = {"", 0}, bytes = {reply->str, reply->len};

  return reply->type == REDIS_REPLY_STRING ? bytes : none;
}

static bool is_common(const redisReply *reply) {
  return reply->type == REDIS_REPLY_ARRAY && reply->elements >= 2 &&
         reply->element[0]->type == REDIS_REPLY_INTEGER;
}

void uvs__redis_note_events(struct uvs__redis *s, uint64_t last) {
  if (last == s->events)
    return;
  s->events = last;
  s->hooks->new_events(s->arg);
}

/* Reads the elements that are common to all scripts. */
static int read_common(struct uvs__redis_call *call, const redisReply *reply, int64_t sent_ns,
                       int64_t received_ns) {
  struct uvs__redis *s = call->store;
  int64_t now_us = is_common(reply) ? uvs__redis_int(reply->element[1]) : -1;

  if (!is_common(reply) || (reply->element[0]->integer == 0 &&
                            (reply->elements < 3 || now_us < 0 || now_us >= UVS__NEVER_US))) {
    snprintf(s->face->trouble, sizeof s->face->trouble,
             "a script has given an answer that cannot be read");
    return UV_EIO;
  }
  if (reply->element[0]->integer != 0) {
    snprintf(s->face->trouble, sizeof s->face->trouble,
             "the server has lost its data or has a new map, or another server answers");
    s->ask_epoch(s);
    return UV_EAGAIN;
  }
  uvs__redis_note_events(s, (uint64_t)uvs__redis_int(reply->element[2]));
  if (s->clock.wall_ns == NULL) {
    call->wall_ns = now_us * 1000;
    uvs__redis_note_clock(s, (struct uvs__redis_reading){now_us, sent_ns, received_ns});
  }
  return 0;
}

static void on_reply(void *arg, int status, const redisReply *reply, int64_t sent_ns,
                     int64_t received_ns) {
  struct uvs__redis_call *call = arg;
  struct uvs__redis *s = call->store;

  if (status == 0)
    status = read_common(call, reply, sent_ns, received_ns);
  else
    snprintf(s->face->trouble, sizeof s->face->trouble, "%s", s->link->trouble);
  if (status == 0)
    call->answered(call, 0, (redisReply *const *)reply->element + 3, reply->elements - 3);
  else
    call->answered(call, status, NULL, 0);
}

void uvs__redis_send(struct uvs__redis_call *call, enum uvs__redis_script script,
                     struct uvs__words *w, bool durable) {
  struct uvs__redis *s = call->store;
  int rc = w->no_memory ? UV_ENOMEM : 0;

  if (s->clock.wall_ns != NULL)
    call->wall_ns = s->clock.wall_ns(s->clock.arg);
  if (rc == 0)
    rc = uvs__redis_link_send(s->link, script, w->n, w->words, w->sizes, durable, on_reply, call);
  uvs__words_free(w);
  if (rc == 0)
    return;
  snprintf(s->face->trouble, sizeof s->face->trouble, "there is not enough memory");
  call->answered(call, rc, NULL, 0);
}

void *uvs__redis_call_new(struct uvs__redis_op *op, size_t size,
                          void (*answered)(struct uvs__redis_call *call, int status,
                                           redisReply *const *body, size_t n)) {
  struct uvs__redis_call *call = uvs__jobs_alloc(size);

  if (call == NULL) {
    uvs__redis_op_done(op, UV_ENOMEM);
    return NULL;
  }
  call->store = op->store;
  call->op = op;
  call->answered = answered;
  return call;
}
