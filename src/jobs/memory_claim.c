/* SPDX-License-Identifier: MIT
 *
 * memory_claim: CLAIM of the memory store. The steps 1 to 8 are those of store.h.
 */
#include <string.h>

#include "jobs/alloc.h"
#include "jobs/memory.h"

struct walk {
  struct uvs__memory *m;
  struct uvs__claim_request *r;
  struct uvs__memory_queue *queue; /* NULL: no settings */
  struct uvs__claimed **end;       /* of r->claimed */
  uint64_t fence;                  /* 0: not drawn yet */
  uint32_t claimed_crashed, handled;
  size_t bytes;     /* of payloads that were claimed */
  int64_t running;  /* with leases that have not ended */
  int64_t token_us; /* when a job that was skipped may get a token */
  bool stopped;
  bool no_memory;
};

enum step { NEXT_JOB, NEXT_CLASS, STOP };

/* ----------------------------------------------------------------- tokens --- */

static int64_t rate_us(const struct uvs__memory_queue *q) {
  int64_t us = q->set.rate_ns / 1000 + (q->set.rate_ns % 1000 > 0);

  return us < 1 ? 1 : us;
}

static bool is_over(const struct uvs__window *w, int64_t length_us, int64_t now_us) {
  return now_us - w->start_us >= length_us || now_us < w->start_us;
}

static bool has_token(const struct uvs__window *w, int64_t length_us, int64_t rate,
                      int64_t now_us) {
  return rate == 0 || w->used < rate || is_over(w, length_us, now_us);
}

static void take_token(struct uvs__window *w, int64_t length_us, int64_t rate, int64_t now_us) {
  if (rate == 0)
    return;
  if (is_over(w, length_us, now_us)) {
    w->start_us = now_us;
    w->used = 0;
  }
  w->used++;
}

static bool is_overdue(const struct walk *w, const struct uvs__memory_job *job) {
  return job->visible_us < w->m->now_us - UVS__OVERDUE_US;
}

/* ------------------------------------------------------------------ bounds --- */

static int64_t count_running(const struct uvs__memory *m, const char *queue) {
  struct uvs__memory_job *job = uvs__memory_place(m, queue, UVS__CLASS_LEASED, m->now_us + 1);
  int64_t n = 0;

  for (; job != NULL; job = uvs__memory_next_place(m, job))
    n += job->state == UVS_JOB_RUNNING;
  return n;
}

static int64_t next_lease_end(const struct uvs__memory *m, const char *queue) {
  struct uvs__memory_job *job = uvs__memory_place(m, queue, UVS__CLASS_LEASED, m->now_us + 1);

  while (job->state != UVS_JOB_RUNNING) /* there is such a job: `concurrency` is reached */
    job = uvs__memory_next_place(m, job);
  return job->visible_us;
}

static enum step stop(struct walk *w, int64_t next_us) {
  w->stopped = true;
  w->r->next_us = next_us;
  return STOP;
}

/* Steps 4 to 6. */
static enum step look_at_bounds(struct walk *w, const struct uvs__memory_job *job,
                                bool *ret_may_claim) {
  struct uvs__memory_queue *q = w->queue;
  int64_t now_us = w->m->now_us;

  *ret_may_claim = false;
  if (q != NULL && q->set.concurrency > 0 && w->running >= q->set.concurrency)
    return stop(w, next_lease_end(w->m, w->r->queue));
  if (q != NULL && !has_token(&q->rate, rate_us(q), q->set.rate, now_us))
    return stop(w, q->rate.start_us + rate_us(q));
  if (q != NULL && is_overdue(w, job) &&
      !has_token(&q->catch_up, 1000000, q->set.catch_up_rate, now_us)) {
    w->token_us = q->catch_up.start_us + 1000000;
    return NEXT_JOB;
  }
  *ret_may_claim = true;
  return NEXT_JOB;
}

/* ------------------------------------------------------------------- claim --- */

static bool copy_blob(struct uvs__arena *a, const struct uvs__blob *blob, struct uvs__bytes *ret) {
  if (blob == NULL)
    return true;
  ret->data = uvs__arena_copy(a, blob->data, blob->size);
  ret->size = blob->size;
  return ret->data != NULL;
}

static bool copy_definition(const struct uvs__memory *m, const struct uvs__memory_job *job,
                            struct uvs__claimed *c) {
  struct uvs__memory_cron *cron =
      strcmp(job->queue, UVS__CRON_QUEUE) == 0 ? uvs__memory_find_cron(m, job->rest) : NULL;
  struct uvs__cron *copy;

  if (cron == NULL)
    return true;
  c->cron = copy = uvs__arena_alloc(&c->arena, sizeof *copy);
  return copy != NULL && uvs__copy_cron(&c->arena, &cron->cron, copy);
}

/* NULL: no memory. */
static struct uvs__claimed *copy_job(const struct uvs__memory *m,
                                     const struct uvs__memory_job *job) {
  struct uvs__claimed *c = uvs__jobs_alloc(sizeof *c);

  if (c == NULL)
    return NULL;
  if (!uvs__arena_string(&c->arena, job->queue, &c->queue) ||
      !uvs__arena_string(&c->arena, job->rest, &c->rest) ||
      !uvs__arena_string(&c->arena, job->name, &c->name) ||
      !uvs__arena_string(&c->arena, job->key, &c->key) ||
      !copy_blob(&c->arena, job->payload, &c->payload) ||
      !copy_blob(&c->arena, job->meta, &c->meta) || !copy_definition(m, job, c)) {
    uvs__arena_free(&c->arena);
    uvs__jobs_free(c);
    return NULL;
  }
  c->priority = job->priority;
  c->failures = job->failures;
  c->due_us = job->due_us;
  c->put_us = job->put_us;
  return c;
}

/* Step 8. */
static enum step claim(struct walk *w, struct uvs__memory_job *job) {
  struct uvs__memory *m = w->m;
  struct uvs__claimed *c = copy_job(m, job);

  if (c == NULL) {
    w->no_memory = true;
    return stop(w, m->now_us);
  }
  if (w->queue != NULL) {
    struct uvs__memory_queue *q = w->queue;

    take_token(&q->rate, rate_us(q), q->set.rate, m->now_us);
    if (is_overdue(w, job))
      take_token(&q->catch_up, 1000000, q->set.catch_up_rate, m->now_us);
  }
  if (w->fence == 0)
    w->fence = ++m->last_fence;
  w->claimed_crashed += job->class == UVS__CLASS_LEASED;

  uvs__memory_take(m, job);
  c->crashed_now = job->state == UVS_JOB_RUNNING;
  c->crashes = job->crashes += c->crashed_now;
  c->fence = job->fence = w->fence;
  job->owner = m->owner;
  job->state = UVS_JOB_RUNNING;
  job->class = UVS__CLASS_LEASED;
  job->visible_us =
      w->r->lease_us < UVS__NEVER_US - m->now_us ? m->now_us + w->r->lease_us : UVS__NEVER_US - 1;
  uvs__memory_add(m, job);
  w->running++;
  w->handled++;
  w->bytes += c->payload.size;
  *w->end = c;
  w->end = &c->next;
  return NEXT_JOB;
}

static enum step look_at(struct walk *w, struct uvs__memory_job *job) {
  bool expired = job->state == UVS_JOB_RUNNING, may_claim;
  enum step step;

  if (job->class == UVS__CLASS_LEASED && w->claimed_crashed == w->r->max_crashed)
    return NEXT_CLASS; /* 1 */
  if (w->r->pending_only && expired)
    return NEXT_JOB;                                           /* 2 */
  if (expired && (job->cancelled || job->successor != NULL)) { /* 3 */
    if (w->handled == w->r->max)
      return stop(w, w->m->now_us);
    uvs__memory_end(w->m, job, job->cancelled ? UVS_JOB_CANCELLED : UVS_JOB_REPLACED);
    w->handled++;
    return NEXT_JOB;
  }
  step = look_at_bounds(w, job, &may_claim);
  if (!may_claim)
    return step;
  if (w->handled == w->r->max || w->bytes > UVS__STEP_BYTES)
    return stop(w, w->m->now_us); /* 7 */
  return claim(w, job);
}

static enum step walk_class(struct walk *w, int class) {
  struct uvs__memory_job *job = uvs__memory_place(w->m, w->r->queue, class, INT64_MIN), *next;
  enum step step = NEXT_JOB;

  for (; step == NEXT_JOB && job != NULL && job->visible_us <= w->m->now_us; job = next) {
    next = uvs__memory_next_place(w->m, job);
    step = look_at(w, job);
  }
  return step;
}

/* next_us of a walk that was not stopped. */
static int64_t next_visible(const struct walk *w) {
  int64_t next_us = w->token_us;
  int class;

  for (class = UVS__CLASS_HIGH; class <= UVS__CLASS_LEASED; class ++) {
    struct uvs__memory_job *job = uvs__memory_place(w->m, w->r->queue, class, w->m->now_us + 1);

    if (job != NULL && job->visible_us < next_us)
      next_us = job->visible_us;
  }
  return next_us;
}

int uvs__memory_claim(struct uvs__memory *m, struct uvs__claim_request *r) {
  static const int classes[] = {UVS__CLASS_LEASED, UVS__CLASS_HIGH, UVS__CLASS_NORMAL,
                                UVS__CLASS_LOW};
  struct walk w = {.m = m, .r = r, .end = &r->claimed, .token_us = UVS__NEVER_US};
  size_t i;

  r->claimed = NULL;
  r->now_us = m->now_us;
  r->next_us = UVS__NEVER_US;
  w.queue = uvs__memory_find_queue(m, r->queue);
  if (w.queue != NULL && w.queue->set.paused)
    return 0;
  if (w.queue != NULL && w.queue->set.concurrency > 0)
    w.running = count_running(m, r->queue);
  for (i = 0; i < sizeof classes / sizeof *classes; i++) {
    if (walk_class(&w, classes[i]) == STOP)
      break;
  }
  if (!w.stopped)
    r->next_us = next_visible(&w);
  return w.no_memory && w.handled == 0 ? UV_ENOMEM : 0;
}

void uvs__memory_end_leases(struct uvs__memory *m, uint64_t owner) {
  const struct uvs__tree *live = &m->numbers[UVS__MEMORY_LIVE];
  struct uvs__node *node, *next;

  for (node = uvs__tree_first(live); node != NULL; node = next) {
    struct uvs__memory_job *job = UVS__AROUND(node, struct uvs__memory_job, by_number);

    next = uvs__tree_after(live, node);
    if (job->state != UVS_JOB_RUNNING || job->owner != owner || job->visible_us <= m->now_us)
      continue;
    uvs__memory_take(m, job);
    job->visible_us = m->now_us;
    uvs__memory_add(m, job);
    m->changes++;
  }
}
