/* SPDX-License-Identifier: MIT */
#include "random_calls.h"

#include <string.h>

#define ANY(m, array) ((array)[below((m), sizeof(array) / sizeof *(array))])

static const char *const queue_names[QUEUES + 1] = {"q", "mail", "mail.b", UVS__CRON_QUEUE};
static const char *const rests[RESTS] = {"a", "b", "c", "d", "e",  "f",
                                         "g", "h", "i", "j", "k1", "k2"};
static const char *const cron_names[CRONS] = {"nightly", "hourly"};
static const char *const ids[] = {"q/a", "q/b", "mail/c", "mail.b/d", "mail/a", "q/none"};
static const char *const keys[] = {"x", "y", "z"};
static const char *const errors[] = {NULL, "no route", "it failed because of a long reason"};
static char bytes[20000]; /* filled when the first request is made */

static struct uvs__bytes any_bytes(struct maker *m) {
  static const size_t sizes[] = {0, 0, 1, 3, 20, 20, 100, 3000, 9000};
  size_t size = one_in(m, 3) ? ANY(m, sizes) : 5;
  struct uvs__bytes b = {bytes + below(m, 100), size};

  return b;
}

static struct uvs__when any_when(struct maker *m, int64_t now_us) {
  switch (below(m, 8)) {
  case 0:
    return at_us(now_us - (int64_t)below(m, 200) * SEC);
  case 1:
    return at_us(now_us + (int64_t)below(m, 30) * SEC);
  case 2:
    return after_us((int64_t)below(m, 1000) * SEC);
  case 3:
    return after_us((int64_t)below(m, 3));
  case 4:
    return one_in(m, 20) ? after_us(UVS__NEVER_US) : after_us(SEC);
  default:
    return after_us(0);
  }
}

static struct uvs__record any_record(struct maker *m, int64_t now_us) {
  static const int64_t keeps[] = {0, 0, 0, 5 * SEC, 60 * SEC, 3600 * SEC, 86400 * SEC};
  struct uvs__record job = {.queue = queue_names[below(m, QUEUES)], .rest = ANY(m, rests)};

  job.name = one_in(m, 2) ? job.queue : one_in(m, 2) ? "n" : "m";
  if (one_in(m, 2)) {
    job.key = ANY(m, keys);
    job.key_policy = (int)below(m, 3);
  }
  job.priority = (int)below(m, 3) - 1;
  job.due = any_when(m, now_us);
  job.keep_us = ANY(m, keeps);
  job.payload = any_bytes(m);
  if (one_in(m, 3))
    job.meta = any_bytes(m);
  return job;
}

static size_t make_puts(struct maker *m, int64_t now_us, struct uvs__put *puts, size_t n) {
  size_t i;

  for (i = 0; i < n; i++)
    puts[i].job = any_record(m, now_us);
  return n;
}

static const char *any_queue(struct maker *m) {
  return queue_names[below(m, one_in(m, 4) ? QUEUES + 1 : QUEUES)];
}

static void make_claim(struct maker *m, struct uvs__claim_request *r) {
  static const int64_t leases[] = {1, SEC, 5 * SEC, 10 * SEC, 10 * SEC, 40 * SEC, 300 * SEC};

  r->queue = any_queue(m);
  r->max = 1 + (uint32_t)below(m, one_in(m, 4) ? 20 : 4);
  r->max_crashed = one_in(m, 2) ? 1000 : (uint32_t)below(m, 3);
  r->pending_only = one_in(m, 6);
  r->lease_us = ANY(m, leases);
}

static void make_item(struct maker *m, int side, int64_t now_us, struct uvs__settle *s,
                      struct uvs__put *puts) {
  size_t q = below(m, QUEUES + 1), r;
  const struct held *held;

  r = q == QUEUES ? RESTS + below(m, CRONS) : below(m, RESTS);
  held = &m->held[q][r];
  s->queue = queue_names[q];
  s->rest = q == QUEUES ? cron_names[r - RESTS] : rests[r];
  s->row = one_in(m, 4) ? 0 : held->row[side];
  s->fence = held->fence[side];
  if (one_in(m, 20))
    s->fence -= below(m, 3);
  s->op = (enum uvs__settle_op)(UVS__ACK + below(m, 5));
  if (q == QUEUES && (s->op == UVS__ACK || s->op == UVS__DEAD || one_in(m, 2)))
    s->op = UVS__RELEASE; /* ticks do not end */
  s->when = s->op == UVS__EXTEND ? after_us((int64_t)below(m, 30) * SEC) : any_when(m, now_us);
  s->error = ANY(m, errors);
  s->result = any_bytes(m);
  if (one_in(m, 2))
    s->progress = any_bytes(m);
  if (q == QUEUES && s->op == UVS__RELEASE && one_in(m, 2))
    s->tick_last_us = now_us - 50 * SEC + (int64_t)below(m, 100) * SEC;
  if ((s->op == UVS__ACK && one_in(m, 3)) || s->tick_last_us != 0) {
    s->puts = puts;
    s->n_puts = make_puts(m, now_us, puts, below(m, 4));
  }
}

static void make_filter(struct maker *m, struct call *c, uvs_job_filter_t *f, const char **queue,
                        const char **rest) {
  static const int states[] = {0,
                               0,
                               UVS_JOB_PENDING,
                               UVS_JOB_RUNNING,
                               UVS_JOB_HELD,
                               UVS_JOB_DEAD,
                               UVS_JOB_DEAD,
                               UVS_JOB_DONE,
                               UVS_JOB_DONE,
                               UVS_JOB_CANCELLED};

  uvs_job_filter_init(f);
  f->state = ANY(m, states);
  f->overdue = one_in(m, 8);
  if (one_in(m, 3))
    f->queue = queue_names[below(m, QUEUES)];
  if (one_in(m, 5))
    f->name = one_in(m, 2) ? "n" : "mail";
  if (one_in(m, 4)) {
    f->id = ANY(m, ids);
    *rest = strchr(f->id, '/') + 1;
    snprintf(c->queue_text, sizeof c->queue_text, "%.*s", (int)(*rest - 1 - f->id), f->id);
    *queue = c->queue_text;
  }
}

static void make_queue(struct maker *m, uvs_job_queue_t *q) {
  static const int64_t bounds[] = {-1, -1, 0, 0, 0, 1, 2, 5};
  static const int64_t lengths[] = {-1, 0, 1500, 1000000, UVS_SEC(1), UVS_SEC(7), UVS_MIN(1)};

  uvs_job_queue_init(q);
  q->name = queue_names[below(m, QUEUES)];
  q->paused = one_in(m, 6) ? 1 : one_in(m, 4) ? -1 : 0;
  q->concurrency = ANY(m, bounds);
  q->rate = ANY(m, bounds);
  q->rate_ns = ANY(m, lengths);
  q->catch_up_rate = ANY(m, bounds);
}

static void make_cron(struct maker *m, struct uvs__cron *c) {
  *c = store_cron(ANY(m, cron_names), 1 + below(m, 50));
  c->zone = one_in(m, 2) ? NULL : "UTC";
  c->expression = one_in(m, 2) ? "@hourly" : "0 0 * * *";
  c->misfire = (int)below(m, 3);
  c->overlap = (int)below(m, 2);
  c->job.queue = queue_names[below(m, QUEUES)];
  c->job.payload = any_bytes(m);
  c->job.meta = any_bytes(m);
}

static enum uvs__op any_op(struct maker *m) {
  /* how often of 100; the rest are SETTLEs */
  static const struct {
    enum uvs__op op;
    unsigned percent;
  } often[] = {{UVS__PUT, 24},     {UVS__CLAIM, 26},      {UVS__ALTER, 8}, {UVS__GET, 4},
               {UVS__LIST, 3},     {UVS__REDRIVE, 2},     {UVS__PURGE, 1}, {UVS__SET_QUEUE, 2},
               {UVS__SET_CRON, 1}, {UVS__REMOVE_CRON, 1}, {UVS__CRONS, 1}, {UVS__COUNT, 2},
               {UVS__EVENTS, 1},   {UVS__TRIM, 1}};
  unsigned left = (unsigned)below(m, 100);
  size_t i;

  for (i = 0; i < sizeof often / sizeof *often; i++) {
    if (left < often[i].percent)
      return often[i].op;
    left -= often[i].percent;
  }
  return UVS__SETTLE;
}

static void make_settle(struct maker *m, int side, int64_t now_us, struct call *c) {
  size_t i;

  c->settle.items = c->items;
  c->settle.n = 1 + below(m, 4);
  for (i = 0; i < c->settle.n; i++)
    make_item(m, side, now_us, &c->items[i], c->puts + 4 * i);
}

static void make_trim(struct maker *m, struct uvs__trim_request *r) {
  r->max_done = one_in(m, 2) ? 100000 : (uint32_t)below(m, 6);
  r->max_dead = one_in(m, 2) ? 100000 : (uint32_t)below(m, 4);
  r->dead_age_us = one_in(m, 2) ? 90 * 86400 * SEC : (int64_t)below(m, 7200) * SEC;
  r->limit = one_in(m, 2) ? 1000 : 1 + (uint32_t)below(m, 5);
}

void make_call(struct maker *m, int side, int64_t now_us, struct call *c) {
  size_t i;

  for (i = 0; bytes[1] == 0 && i < sizeof bytes; i++)
    bytes[i] = (char)(i * 31 + i / 251);
  memset(c, 0, sizeof *c);
  c->head.op = any_op(m);
  switch (c->head.op) {
  case UVS__PUT:
    c->put.puts = c->puts;
    c->put.n = make_puts(m, now_us, c->puts, 1 + below(m, 4));
    break;
  case UVS__CLAIM:
    make_claim(m, &c->claim);
    break;
  case UVS__SETTLE:
    make_settle(m, side, now_us, c);
    break;
  case UVS__ALTER:
    c->alter.op = one_in(m, 2) ? UVS__CANCEL : UVS__MOVE;
    c->alter.queue = queue_names[below(m, QUEUES)];
    c->alter.rest = ANY(m, rests);
    c->alter.when = any_when(m, now_us);
    break;
  case UVS__GET:
    c->list.queue = queue_names[below(m, QUEUES)];
    c->list.rest = ANY(m, rests);
    break;
  case UVS__LIST:
    make_filter(m, c, &c->list.filter, &c->list.queue, &c->list.rest);
    c->list.limit = 1 + (uint32_t)below(m, 9);
    break;
  case UVS__REDRIVE:
  case UVS__PURGE:
    make_filter(m, c, &c->bulk.filter, &c->bulk.queue, &c->bulk.rest);
    c->bulk.limit = 1 + (uint32_t)below(m, 9);
    break;
  case UVS__SET_QUEUE:
    make_queue(m, &c->queue.set);
    break;
  case UVS__SET_CRON:
  case UVS__REMOVE_CRON:
    make_cron(m, &c->cron.cron);
    break;
  case UVS__TRIM:
    make_trim(m, &c->trim);
    break;
  case UVS__CRONS:
  case UVS__COUNT:
  case UVS__EVENTS:
    break;
  }
}

void remember_claims(struct maker *m, int side, const struct uvs__claim_request *r) {
  const struct uvs__claimed *c;
  size_t q, i;

  for (c = r->claimed; c != NULL; c = c->next) {
    for (q = 0; strcmp(queue_names[q], c->queue) != 0; q++)
      ;
    for (i = q == QUEUES ? RESTS : 0;
         strcmp(i < RESTS ? rests[i] : cron_names[i - RESTS], c->rest) != 0; i++)
      ;
    m->held[q][i].fence[side] = c->fence;
    m->held[q][i].row[side] = c->row;
  }
}
