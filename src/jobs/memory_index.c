/* SPDX-License-Identifier: MIT
 *
 * memory_index: the indexes of the memory store's jobs, and the changes of a job's state.
 */
#include <stdio.h>
#include <string.h>

#include "jobs/alloc.h"
#include "jobs/memory.h"

/* ---------------------------------------------------------------- indexes --- */

static int compare_int(int64_t a, int64_t b) {
  return (a > b) - (a < b);
}

static int compare_ids(const struct uvs__node *x, const struct uvs__node *y) {
  const struct uvs__memory_job *a = UVS__AROUND(x, struct uvs__memory_job, by_id);
  const struct uvs__memory_job *b = UVS__AROUND(y, struct uvs__memory_job, by_id);
  int order = strcmp(a->queue, b->queue);

  return order != 0 ? order : strcmp(a->rest, b->rest);
}

static int compare_keys(const struct uvs__node *x, const struct uvs__node *y) {
  const struct uvs__memory_job *a = UVS__AROUND(x, struct uvs__memory_job, by_key);
  const struct uvs__memory_job *b = UVS__AROUND(y, struct uvs__memory_job, by_key);
  int order = strcmp(a->queue, b->queue);

  return order != 0 ? order : strcmp(a->key, b->key);
}

static int compare_numbers(const struct uvs__node *x, const struct uvs__node *y) {
  return compare_int(UVS__AROUND(x, struct uvs__memory_job, by_number)->number,
                     UVS__AROUND(y, struct uvs__memory_job, by_number)->number);
}

static int compare_places(const struct uvs__node *x, const struct uvs__node *y) {
  const struct uvs__memory_job *a = UVS__AROUND(x, struct uvs__memory_job, by_order);
  const struct uvs__memory_job *b = UVS__AROUND(y, struct uvs__memory_job, by_order);
  int order = strcmp(a->queue, b->queue);

  if (order == 0)
    order = compare_int(a->class, b->class);
  if (order == 0)
    order = compare_int(a->visible_us, b->visible_us);
  return order != 0 ? order : compare_int(a->number, b->number);
}

static int compare_ends(const struct uvs__node *x, const struct uvs__node *y) {
  const struct uvs__memory_job *a = UVS__AROUND(x, struct uvs__memory_job, by_order);
  const struct uvs__memory_job *b = UVS__AROUND(y, struct uvs__memory_job, by_order);
  int order = compare_int(a->ended_us, b->ended_us);

  return order != 0 ? order : compare_int(a->number, b->number);
}

void uvs__memory_init_indexes(struct uvs__memory *m) {
  int kind;

  uvs__tree_init(&m->ids, compare_ids);
  uvs__tree_init(&m->keys, compare_keys);
  for (kind = 0; kind < UVS__MEMORY_KINDS; kind++) {
    uvs__tree_init(&m->numbers[kind], compare_numbers);
    uvs__tree_init(&m->orders[kind], kind == UVS__MEMORY_LIVE ? compare_places : compare_ends);
  }
}

enum uvs__memory_kind uvs__memory_kind(const struct uvs__memory_job *job) {
  switch (job->state) {
  case UVS_JOB_PENDING:
  case UVS_JOB_RUNNING:
  case UVS_JOB_HELD:
    return UVS__MEMORY_LIVE;
  case UVS_JOB_DEAD:
    return UVS__MEMORY_DEAD;
  default:
    return UVS__MEMORY_ENDED;
  }
}

static bool holds_key(const struct uvs__memory_job *job) {
  return job->key != NULL && (job->state == UVS_JOB_PENDING || job->state == UVS_JOB_RUNNING);
}

void uvs__memory_add(struct uvs__memory *m, struct uvs__memory_job *job) {
  enum uvs__memory_kind kind = uvs__memory_kind(job);

  uvs__tree_insert(&m->ids, &job->by_id);
  uvs__tree_insert(&m->numbers[kind], &job->by_number);
  uvs__tree_insert(&m->orders[kind], &job->by_order);
  if (holds_key(job))
    uvs__tree_insert(&m->keys, &job->by_key);
}

void uvs__memory_take(struct uvs__memory *m, struct uvs__memory_job *job) {
  enum uvs__memory_kind kind = uvs__memory_kind(job);

  uvs__tree_remove(&m->ids, &job->by_id);
  uvs__tree_remove(&m->numbers[kind], &job->by_number);
  uvs__tree_remove(&m->orders[kind], &job->by_order);
  if (holds_key(job))
    uvs__tree_remove(&m->keys, &job->by_key);
}

struct uvs__memory_job *uvs__memory_find_any(const struct uvs__memory *m, const char *queue,
                                             const char *rest) {
  struct uvs__memory_job like = {.queue = queue, .rest = rest};
  struct uvs__node *node = uvs__tree_find(&m->ids, &like.by_id);

  return node == NULL ? NULL : UVS__AROUND(node, struct uvs__memory_job, by_id);
}

bool uvs__memory_is_past(const struct uvs__memory *m, const struct uvs__memory_job *job) {
  return uvs__memory_kind(job) == UVS__MEMORY_ENDED && job->until_us <= m->now_us;
}

struct uvs__memory_job *uvs__memory_find(const struct uvs__memory *m, const char *queue,
                                         const char *rest) {
  struct uvs__memory_job *job = uvs__memory_find_any(m, queue, rest);

  return job == NULL || uvs__memory_is_past(m, job) ? NULL : job;
}

struct uvs__memory_job *uvs__memory_find_key(const struct uvs__memory *m, const char *queue,
                                             const char *key) {
  struct uvs__memory_job like = {.queue = queue, .key = key};
  struct uvs__node *node = uvs__tree_find(&m->keys, &like.by_key);

  return node == NULL ? NULL : UVS__AROUND(node, struct uvs__memory_job, by_key);
}

static struct uvs__memory_job *in_class(struct uvs__node *node, const char *queue, int class) {
  struct uvs__memory_job *job;

  if (node == NULL)
    return NULL;
  job = UVS__AROUND(node, struct uvs__memory_job, by_order);
  return job->class == class && strcmp(job->queue, queue) == 0 ? job : NULL;
}

struct uvs__memory_job *uvs__memory_place(const struct uvs__memory *m, const char *queue, int class,
                                          int64_t from_us) {
  struct uvs__memory_job like = {.queue = queue, .class = class, .visible_us = from_us};

  return in_class(uvs__tree_from(&m->orders[UVS__MEMORY_LIVE], &like.by_order), queue, class);
}

struct uvs__memory_job *uvs__memory_next_place(const struct uvs__memory *m,
                                               const struct uvs__memory_job *job) {
  return in_class(uvs__tree_after(&m->orders[UVS__MEMORY_LIVE], &job->by_order), job->queue,
                  job->class);
}

/* ----------------------------------------------------------------- events --- */

void uvs__memory_write_event(struct uvs__memory *m, int what, const struct uvs__memory_job *job,
                             const char *queue, const char *text) {
  struct uvs__memory_event *e = &m->events[++m->last_event % UVS__EVENTS_KEPT];

  e->what = what;
  e->has_id = job != NULL || queue != NULL;
  if (job != NULL)
    snprintf(e->id, sizeof e->id, "%s/%s", job->queue, job->rest);
  else
    snprintf(e->id, sizeof e->id, "%s", queue == NULL ? "" : queue);
  snprintf(e->text, sizeof e->text, "%s", text);
}

/* ------------------------------------------------- what can become of a job --- */

static void free_blob(struct uvs__blob **blob) {
  uvs__jobs_free(*blob);
  *blob = NULL;
}

void uvs__memory_free_job(struct uvs__memory_job *job) {
  free_blob(&job->payload);
  free_blob(&job->meta);
  free_blob(&job->error);
  free_blob(&job->progress);
  free_blob(&job->result);
  uvs__jobs_free(job);
}

void uvs__memory_forget(struct uvs__memory *m, struct uvs__memory_job *job) {
  uvs__memory_take(m, job);
  uvs__memory_free_job(job);
}

static int class_of(int priority) {
  return priority > UVS_PRIORITY_NORMAL   ? UVS__CLASS_HIGH
         : priority < UVS_PRIORITY_NORMAL ? UVS__CLASS_LOW
                                          : UVS__CLASS_NORMAL;
}

/* The fields of a pending job, while it is in no index. */
static void write_pending(struct uvs__memory *m, struct uvs__memory_job *job, int64_t due_us) {
  job->state = UVS_JOB_PENDING;
  job->class = job->crashes > 0 ? UVS__CLASS_LEASED : class_of(job->priority);
  job->fence = 0;
  job->due_us = job->visible_us = due_us;
  m->changes++;
}

void uvs__memory_make_pending(struct uvs__memory *m, struct uvs__memory_job *job, int64_t due_us) {
  uvs__memory_take(m, job);
  write_pending(m, job, due_us);
  uvs__memory_add(m, job);
}

void uvs__memory_put_pending(struct uvs__memory *m, struct uvs__memory_job *job, int64_t due_us) {
  job->number = ++m->last_number;
  job->put_us = m->now_us;
  write_pending(m, job, due_us);
  uvs__memory_add(m, job);
}

/* The job has ended, and is in no index: its successor takes its place. If a held job has ended,
 * the job that it was to replace has no successor any more. */
static void hand_on(struct uvs__memory *m, struct uvs__memory_job *job) {
  struct uvs__memory_job *successor = job->successor;

  if (job->holder != NULL)
    job->holder->successor = NULL;
  if (successor != NULL) {
    successor->holder = NULL;
    uvs__memory_make_pending(m, successor, successor->due_us);
  }
  job->holder = job->successor = NULL;
  job->fence = 0;
  free_blob(&job->progress);
  m->changes++;
}

bool uvs__memory_is_kept(const struct uvs__memory_job *job) {
  return job->until_us > job->put_us + UVS__REPEAT_US;
}

void uvs__memory_end(struct uvs__memory *m, struct uvs__memory_job *job, int state) {
  uvs__memory_take(m, job);
  job->state = state;
  job->ended_us = m->now_us;
  job->until_us = job->put_us + UVS__REPEAT_US;
  if (job->keep_us > 0 && job->until_us < m->now_us + job->keep_us)
    job->until_us = m->now_us + job->keep_us;
  if (state == UVS_JOB_CANCELLED)
    uvs__memory_write_event(m, UVS_EVENT_CANCELLED, job, NULL, "");
  else if (state == UVS_JOB_REPLACED)
    uvs__memory_write_event(m, UVS_EVENT_REPLACED, job, NULL, "");
  hand_on(m, job);
  free_blob(&job->payload);
  free_blob(&job->meta);
  free_blob(&job->error);
  if (job->until_us > m->now_us)
    uvs__memory_add(m, job);
  else
    uvs__memory_free_job(job);
}

void uvs__memory_bury(struct uvs__memory *m, struct uvs__memory_job *job,
                      struct uvs__blob *reason) {
  uvs__memory_take(m, job);
  job->state = UVS_JOB_DEAD;
  job->ended_us = m->now_us;
  free_blob(&job->error);
  job->error = reason;
  uvs__memory_write_event(m, UVS_EVENT_DEAD, job, NULL, reason == NULL ? "" : reason->data);
  hand_on(m, job);
  uvs__memory_add(m, job);
}

void uvs__memory_revive(struct uvs__memory *m, struct uvs__memory_job *job) {
  uvs__memory_take(m, job);
  job->failures = job->crashes = 0;
  job->ended_us = 0;
  free_blob(&job->error);
  write_pending(m, job, m->now_us);
  uvs__memory_add(m, job);
}

void uvs__memory_remove_dead(struct uvs__memory *m, struct uvs__memory_job *job) {
  uvs__memory_take(m, job);
  job->state = UVS_JOB_CANCELLED;
  job->until_us = job->put_us + UVS__REPEAT_US;
  free_blob(&job->payload);
  free_blob(&job->meta);
  free_blob(&job->error);
  if (job->until_us > m->now_us)
    uvs__memory_add(m, job);
  else
    uvs__memory_free_job(job);
}
