/* SPDX-License-Identifier: MIT */
#include "script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/alloc.h"

#define START_NS INT64_C(1700000000000000000)

static const char *const queues[SCRIPT_QUEUES] = {"mail", "bill"};

/* xorshift64* */
uint64_t script_below(struct script *s, uint64_t n) {
  s->random ^= s->random >> 12;
  s->random ^= s->random << 25;
  s->random ^= s->random >> 27;
  return (s->random * UINT64_C(2685821657736338717) >> 11) % n;
}

/* ---------------------------------------------------------------- script --- */

static void make_job(struct script *s, unsigned i) {
  static const char *const names[] = {"send", "check"};
  struct script_job *job = &s->jobs[i];
  struct uvs__record *r = &job->record;
  size_t size = script_below(s, 8) == 0 ? script_below(s, sizeof job->payload) : i;

  snprintf(job->rest, sizeof job->rest, "j%u", i);
  snprintf(job->key, sizeof job->key, "k%u", (unsigned)script_below(s, 4));
  for (size_t at = 0; at < size; at++)
    job->payload[at] = (uint8_t)(at * 31 + i);
  r->queue = queues[script_below(s, SCRIPT_QUEUES)];
  r->rest = job->rest;
  r->name = names[script_below(s, 2)];
  r->key = script_below(s, 4) == 0 ? job->key : NULL;
  r->key_policy = (int)script_below(s, 3);
  r->priority = (int)script_below(s, 3) - 1;
  r->due.delay_us = script_below(s, 2) == 0 ? 0 : (int64_t)script_below(s, 5000000);
  r->keep_us = script_below(s, 4) == 0 ? 120000000 : 0;
  r->payload = (struct uvs__bytes){job->payload, size};
  r->meta = (struct uvs__bytes){job->rest, script_below(s, 3)};
}

struct script *script_make(uint64_t seed) {
  struct script *s = calloc(1, sizeof *s);

  if (s == NULL)
    abort();
  s->random = seed == 0 ? 1 : seed;
  s->wall_ns = s->now_ns = START_NS;
  for (unsigned i = 0; i < SCRIPT_JOBS; i++)
    make_job(s, i);
  return s;
}

static int64_t clock_ns(void *arg) {
  return ((struct script *)arg)->now_ns;
}

uvs_clock_t script_clock(struct script *s) {
  return (uvs_clock_t){.monotonic_ns = clock_ns, .wall_ns = clock_ns, .arg = s};
}

static struct script_step *add_step(struct script *s, enum script_op op) {
  struct script_step *step = &s->steps[s->n_steps++];

  memset(step, 0, sizeof *step);
  step->op = op;
  step->wall_ns = s->wall_ns;
  step->queue = (unsigned)script_below(s, SCRIPT_QUEUES);
  uvs_job_queue_init(&step->set);
  return step;
}

static unsigned some_job(struct script *s) {
  return (unsigned)script_below(s, s->n_jobs == 0 ? 1 : s->n_jobs);
}

static unsigned new_job(struct script *s) {
  return s->n_jobs < SCRIPT_JOBS ? s->n_jobs++ : some_job(s);
}

/* A job that the tested store has claimed lately, or any job. */
static unsigned claimed_job(struct script *s) {
  for (unsigned i = s->n_steps; i-- > 0;) {
    const struct script_answer *a = &s->steps[i].answers[SCRIPT_TESTED];

    if (a->n_claimed > 0 && script_below(s, 3) > 0)
      return a->claimed[script_below(s, a->n_claimed)].job;
  }
  return some_job(s);
}

static void fill_settle(struct script *s, struct script_step *step) {
  static const enum uvs__settle_op ops[] = {UVS__ACK,   UVS__ACK,    UVS__ACK,     UVS__RETRY,
                                            UVS__RETRY, UVS__EXTEND, UVS__RELEASE, UVS__DEAD};

  step->n = 1 + (unsigned)script_below(s, 4);
  for (unsigned i = 0; i < step->n; i++) {
    struct script_item *item = &step->items[i];

    item->job = claimed_job(s);
    item->how = ops[script_below(s, sizeof ops / sizeof *ops)];
    item->when.delay_us = 1 + (int64_t)script_below(s, 4000000);
    if (item->how == UVS__ACK && script_below(s, 4) == 0) {
      item->puts = true;
      item->put = new_job(s);
    }
  }
}

static void fill_queue(struct script *s, struct script_step *step) {
  step->set.paused = script_below(s, 5) == 0;
  step->set.concurrency = script_below(s, 2) == 0 ? 0 : 1 + (int64_t)script_below(s, 6);
  step->set.rate = script_below(s, 2) == 0 ? 0 : 1 + (int64_t)script_below(s, 6);
  step->set.catch_up_rate = script_below(s, 4) == 0 ? 2 : 0;
}

static void add_some_step(struct script *s) {
  static const enum script_op ops[] = {SCRIPT_PUT,    SCRIPT_PUT,     SCRIPT_PUT,    SCRIPT_PUT,
                                       SCRIPT_CLAIM,  SCRIPT_CLAIM,   SCRIPT_CLAIM,  SCRIPT_CLAIM,
                                       SCRIPT_CLAIM,  SCRIPT_SETTLE,  SCRIPT_SETTLE, SCRIPT_SETTLE,
                                       SCRIPT_SETTLE, SCRIPT_SETTLE,  SCRIPT_CANCEL, SCRIPT_MOVE,
                                       SCRIPT_QUEUE,  SCRIPT_REDRIVE, SCRIPT_PURGE,  SCRIPT_TRIM};
  struct script_step *step =
      add_step(s, s->n_jobs < 3 ? SCRIPT_PUT : ops[script_below(s, sizeof ops / sizeof *ops)]);

  step->max = 1 + (unsigned)script_below(s, 6);
  step->lease_us = 1000000 * (1 + (int64_t)script_below(s, 20));
  step->n = 1;
  step->items[0].job = some_job(s);
  step->items[0].when.delay_us = (int64_t)script_below(s, 5000000);
  switch (step->op) {
  case SCRIPT_PUT:
    step->n += (unsigned)script_below(s, 4);
    for (unsigned i = 0; i < step->n; i++)
      step->items[i].job = script_below(s, 8) == 0 ? some_job(s) : new_job(s);
    break;
  case SCRIPT_SETTLE:
    fill_settle(s, step);
    break;
  case SCRIPT_QUEUE:
    fill_queue(s, step);
    break;
  default:
    break;
  }
}

void script_add_batch(struct script *s) {
  unsigned n = 1 + (unsigned)script_below(s, 4);

  s->wall_ns += 1 + (int64_t)script_below(s, script_below(s, 20) == 0 ? 600000000000 : 3000000000);
  for (unsigned i = 0; i < n && s->n_steps < SCRIPT_STEPS; i++)
    add_some_step(s);
}

void script_add_claim_all(struct script *s) {
  s->wall_ns += INT64_C(3600000000000);
  for (unsigned i = 0; i < SCRIPT_QUEUES; i++) {
    struct script_step *step = add_step(s, SCRIPT_QUEUE);

    step->queue = i;
    step->set.paused = 0;
    step->set.concurrency = step->set.rate = step->set.catch_up_rate = 0;
  }
  for (unsigned i = 0; i < SCRIPT_QUEUES; i++) {
    struct script_step *step = add_step(s, SCRIPT_CLAIM);

    step->queue = i;
    step->max = 1000;
    step->lease_us = 60000000;
  }
}

void script_add_release_all(struct script *s) {
  unsigned end = s->n_steps;
  struct script_step *step;

  s->wall_ns++;
  step = add_step(s, SCRIPT_SETTLE);

  for (unsigned i = end - SCRIPT_QUEUES; i < end; i++) {
    const struct script_answer *a = &s->steps[i].answers[SCRIPT_TESTED];

    for (unsigned k = 0; k < a->n_claimed; k++) {
      struct script_item *item = &step->items[step->n++];

      item->job = a->claimed[k].job;
      item->how = UVS__RELEASE;
      item->when.delay_us = a->claimed[k].job % 5 * 1000000;
    }
  }
}

/* -------------------------------------------------------------- requests --- */

struct call {
  union {
    struct uvs__request r;
    struct uvs__put_request put;
    struct uvs__claim_request claim;
    struct uvs__settle_request settle;
    struct uvs__alter_request alter;
    struct uvs__bulk_request bulk;
    struct uvs__queue_request queue;
    struct uvs__trim_request trim;
  } q;
  struct script_step *step;
  struct script_answer *answer;
  struct uvs__put puts[SCRIPT_JOBS];
  struct uvs__settle items[SCRIPT_JOBS];
};

static void take_claimed(struct call *c) {
  struct uvs__claimed *claimed = c->q.claim.claimed, *next;

  for (; claimed != NULL; claimed = next) {
    c->answer->claimed[c->answer->n_claimed++] =
        (struct script_claimed){.job = (unsigned)strtoul(claimed->rest + 1, NULL, 10),
                                .fence = claimed->fence,
                                .row = claimed->row};
    next = claimed->next;
    uvs__arena_free(&claimed->arena);
    uvs__jobs_free(claimed);
  }
}

static void on_done(struct uvs__request *r) {
  struct call *c = r->owner;
  struct script_answer *a = c->answer;

  a->given = true;
  a->status = r->status;
  for (unsigned i = 0; i < c->step->n; i++)
    a->statuses[i] = r->op == UVS__PUT      ? c->puts[i].status
                     : r->op == UVS__SETTLE ? c->items[i].status
                     : r->op == UVS__ALTER  ? c->q.alter.status
                                            : 0;
  if (r->op == UVS__REDRIVE || r->op == UVS__PURGE)
    a->count = c->q.bulk.count;
  if (r->op == UVS__CLAIM)
    take_claimed(c);
  if (r->op == UVS__PUT)
    uvs__arena_free(&c->q.put.arena);
  if (r->op == UVS__SETTLE)
    uvs__arena_free(&c->q.settle.arena);
}

/* The newest claim of a job before the batch of this step; all 0: there is none. */
static struct script_claimed find_claim(const struct script *s, const struct script_step *before,
                                        int which, unsigned job) {
  for (const struct script_step *step = before; step-- > s->steps;) {
    const struct script_answer *a = &step->answers[which];

    for (unsigned i = 0; i < a->n_claimed && step->wall_ns < before->wall_ns; i++)
      if (a->claimed[i].job == job)
        return a->claimed[i];
  }
  return (struct script_claimed){.job = job};
}

static void fill_items(struct script *s, struct call *c, int which) {
  for (unsigned i = 0; i < c->step->n; i++) {
    const struct script_item *from = &c->step->items[i];
    struct script_claimed claim = find_claim(s, c->step, which, from->job);
    struct uvs__settle *item = &c->items[i];

    item->queue = s->jobs[from->job].record.queue;
    item->rest = s->jobs[from->job].rest;
    item->fence = claim.fence;
    item->row = from->job % 3 == 0 ? 0 : claim.row;
    item->op = from->how;
    item->when = from->when;
    if (from->how == UVS__RETRY || from->how == UVS__DEAD)
      item->error = "no luck";
    if (from->how == UVS__ACK)
      item->result = (struct uvs__bytes){item->rest, from->job % 3};
    if (from->how == UVS__EXTEND)
      item->progress = (struct uvs__bytes){item->rest, from->job % 3};
    if (from->puts) {
      c->puts[i].job = s->jobs[from->put].record;
      item->puts = &c->puts[i];
      item->n_puts = 1;
    }
  }
}

static void fill_bulk(struct call *c, enum uvs__op op) {
  c->q.r.op = op;
  uvs_job_filter_init(&c->q.bulk.filter);
  c->q.bulk.filter.queue = queues[c->step->queue];
  c->q.bulk.filter.state = UVS_JOB_DEAD;
  c->q.bulk.limit = c->step->max;
}

static void fill_alter(struct script *s, struct call *c, enum uvs__alter_op op) {
  c->q.r.op = UVS__ALTER;
  c->q.alter.op = op;
  c->q.alter.queue = s->jobs[c->step->items[0].job].record.queue;
  c->q.alter.rest = s->jobs[c->step->items[0].job].rest;
  c->q.alter.when = c->step->items[0].when;
}

static void fill_call(struct script *s, struct call *c, int which) {
  const struct script_step *step = c->step;

  switch (step->op) {
  case SCRIPT_PUT:
    c->q.r.op = UVS__PUT;
    c->q.put.puts = c->puts;
    c->q.put.n = step->n;
    for (unsigned i = 0; i < step->n; i++)
      c->puts[i].job = s->jobs[step->items[i].job].record;
    break;
  case SCRIPT_CLAIM:
    c->q.r.op = UVS__CLAIM;
    c->q.claim.queue = queues[step->queue];
    c->q.claim.max = c->q.claim.max_crashed = step->max;
    c->q.claim.lease_us = step->lease_us;
    break;
  case SCRIPT_SETTLE:
    c->q.r.op = UVS__SETTLE;
    c->q.settle.items = c->items;
    c->q.settle.n = step->n;
    fill_items(s, c, which);
    break;
  case SCRIPT_CANCEL:
    fill_alter(s, c, UVS__CANCEL);
    break;
  case SCRIPT_MOVE:
    fill_alter(s, c, UVS__MOVE);
    break;
  case SCRIPT_QUEUE:
    c->q.r.op = UVS__SET_QUEUE;
    c->q.queue.set = step->set;
    c->q.queue.set.name = queues[step->queue];
    break;
  case SCRIPT_REDRIVE:
    fill_bulk(c, UVS__REDRIVE);
    break;
  case SCRIPT_PURGE:
    fill_bulk(c, UVS__PURGE);
    break;
  case SCRIPT_TRIM:
    c->q.r.op = UVS__TRIM;
    c->q.trim.max_done = c->q.trim.max_dead = step->max;
    c->q.trim.limit = 1000;
    c->q.trim.dead_age_us = INT64_C(1000000000);
    break;
  }
}

void script_run(struct script *s, struct uvs__store *store, int which, unsigned first, unsigned n) {
  struct call *calls = calloc(n, sizeof *calls);

  if (calls == NULL)
    abort();
  s->now_ns = s->steps[first].wall_ns;
  for (unsigned i = 0; i < n; i++) {
    struct call *c = &calls[i];

    c->step = &s->steps[first + i];
    c->answer = &c->step->answers[which];
    memset(c->answer, 0, sizeof *c->answer);
    c->q.r.owner = c;
    c->q.r.done = on_done;
    c->q.r.next = i + 1 < n ? &calls[i + 1].q.r : NULL;
    fill_call(s, c, which);
  }
  store->ops->run(store, &calls[0].q.r);
  for (unsigned i = 0; i < n; i++)
    if (!calls[i].answer->given)
      abort();
  free(calls);
}

/* Was the job's flag set before? */
static bool was_cancelled(const struct script *s, unsigned step) {
  for (unsigned i = 0; i < step; i++)
    if (s->steps[i].op == SCRIPT_CANCEL && s->steps[i].items[0].job == s->steps[step].items[0].job)
      return true;
  return false;
}

bool script_is_durable(const struct script *s, unsigned step) {
  const struct script_step *t = &s->steps[step];
  const struct script_answer *a = &t->answers[SCRIPT_TESTED];
  bool written = false;

  if (!a->given || a->status != 0)
    return false;
  switch (t->op) {
  case SCRIPT_PUT:
    for (unsigned i = 0; i < t->n; i++)
      written |= a->statuses[i] == 0;
    return written;
  case SCRIPT_QUEUE:
    return true;
  case SCRIPT_REDRIVE:
  case SCRIPT_PURGE:
    return a->count > 0;
  case SCRIPT_CANCEL:
    return a->statuses[0] == 0 || (a->statuses[0] == UVS_JOB_RUNNING && !was_cancelled(s, step));
  case SCRIPT_MOVE:
    return a->statuses[0] == 0;
  default:
    return false;
  }
}
