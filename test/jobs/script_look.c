/* SPDX-License-Identifier: MIT
 *
 * script_look: reads from a store the state of the jobs of a script.
 */
#include "script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void on_done(struct uvs__request *r) {
  *(bool *)r->owner = true;
}

static void ask(struct uvs__store *store, struct uvs__request *r, enum uvs__op op) {
  bool done = false;

  r->op = op;
  r->owner = &done;
  r->done = on_done;
  store->ops->run(store, r);
  if (!done)
    abort();
}

/* The caller frees q->arena. */
static int get(struct script *s, struct uvs__store *store, unsigned job,
               struct uvs__list_request *q) {
  char id[80];

  memset(q, 0, sizeof *q);
  q->queue = s->jobs[job].record.queue;
  q->rest = s->jobs[job].rest;
  snprintf(id, sizeof id, "%s/%s", q->queue, q->rest);
  uvs_job_filter_init(&q->filter);
  q->filter.id = id;
  q->limit = 1;
  ask(store, &q->r, UVS__GET);
  q->filter.id = NULL;
  return q->r.status;
}

static bool same_bytes(const void *a, size_t a_size, const void *b, size_t b_size) {
  return a_size == b_size && (a_size == 0 || memcmp(a, b, a_size) == 0);
}

static bool same_text(const char *a, const char *b) {
  return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

int script_state(struct script *s, struct uvs__store *store, unsigned job, bool *ret_intact) {
  const struct uvs__record *put = &s->jobs[job].record;
  struct uvs__list_request q;
  int rc = get(s, store, job, &q), state = rc == UV_ENOENT ? 0 : -1;

  *ret_intact = false;
  if (rc == 0) {
    state = q.infos[0].state;
    *ret_intact = same_bytes(put->payload.data, put->payload.size, q.infos[0].payload,
                             q.infos[0].payload_size) &&
                  same_text(put->name, q.infos[0].name);
  }
  uvs__arena_free(&q.arena);
  return state;
}

/* The first field that differs; NULL: none. */
static const char *compare(const uvs_job_info_t *a, const uvs_job_info_t *b) {
  return a->state != b->state                                                        ? "state"
         : !same_text(a->id, b->id)                                                  ? "id"
         : !same_text(a->name, b->name)                                              ? "name"
         : !same_text(a->queue, b->queue)                                            ? "queue"
         : !same_text(a->key, b->key)                                                ? "key"
         : a->priority != b->priority                                                ? "priority"
         : a->due_ns != b->due_ns && a->state != UVS_JOB_RUNNING                     ? "due"
         : a->put_ns != b->put_ns                                                    ? "put"
         : a->ended_ns != b->ended_ns                                                ? "ended"
         : a->attempts != b->attempts                                                ? "attempts"
         : a->crashes != b->crashes                                                  ? "crashes"
         : a->cancelling != b->cancelling                                            ? "cancelling"
         : !same_text(a->error, b->error)                                            ? "error"
         : !same_bytes(a->payload, a->payload_size, b->payload, b->payload_size)     ? "payload"
         : !same_bytes(a->meta, a->meta_size, b->meta, b->meta_size)                 ? "meta"
         : !same_bytes(a->progress, a->progress_size, b->progress, b->progress_size) ? "progress"
         : !same_bytes(a->result, a->result_size, b->result, b->result_size)         ? "result"
                                                                                     : NULL;
}

static bool same_job(struct script *s, struct uvs__store *a, struct uvs__store *b, unsigned job,
                     char *text, size_t size) {
  struct uvs__list_request q, r;
  const char *field = NULL;
  int a_rc = get(s, a, job, &q), b_rc = get(s, b, job, &r);

  if (a_rc != b_rc) {
    snprintf(text, size, "%s/%s: %d, the other store %d", q.queue, q.rest, a_rc, b_rc);
  } else if (a_rc == 0 && (field = compare(&q.infos[0], &r.infos[0])) != NULL) {
    snprintf(text, size, "%s/%s: %s (states %d and %d)", q.queue, q.rest, field, q.infos[0].state,
             r.infos[0].state);
  }
  uvs__arena_free(&q.arena);
  uvs__arena_free(&r.arena);
  return a_rc == b_rc && field == NULL;
}

static bool same_counts(struct uvs__store *a, struct uvs__store *b, char *text, size_t size) {
  struct uvs__count_request q = {.r.status = 0}, r = {.r.status = 0};
  bool same;

  ask(a, &q.r, UVS__COUNT);
  ask(b, &r.r, UVS__COUNT);
  same = q.r.status == r.r.status && q.stats.pending == r.stats.pending &&
         q.stats.running == r.stats.running && q.stats.dead == r.stats.dead &&
         q.stats.kept == r.stats.kept && q.stats.n_queues == r.stats.n_queues;
  if (!same)
    snprintf(text, size, "the counts differ");
  for (size_t i = 0; same && i < q.stats.n_queues; i++) {
    const uvs_queue_stats_t *one = &q.stats.queues[i], *two = &r.stats.queues[i];

    same = same_text(one->queue, two->queue) && one->paused == two->paused &&
           one->concurrency == two->concurrency && one->rate == two->rate &&
           one->rate_ns == two->rate_ns && one->catch_up_rate == two->catch_up_rate;
    if (!same)
      snprintf(text, size, "the settings of queue %s differ", one->queue);
  }
  uvs__arena_free(&q.arena);
  uvs__arena_free(&r.arena);
  return same;
}

bool script_same(struct script *s, struct uvs__store *a, struct uvs__store *b, char *text,
                 size_t size) {
  for (unsigned i = 0; i < s->n_jobs; i++)
    if (!same_job(s, a, b, i, text, size))
      return false;
  return same_counts(a, b, text, size);
}
