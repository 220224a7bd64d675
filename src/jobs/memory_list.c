/* SPDX-License-Identifier: MIT
 *
 * memory_list: GET, LIST, REDRIVE, PURGE and TRIM of the memory store.
 */
#include <stdio.h>
#include <string.h>

#include "jobs/memory.h"

/* ------------------------------------------------------------------ filter --- */

struct scan {
  const struct uvs__memory *m;
  const uvs_job_filter_t *filter;
  const char *queue, *rest; /* of filter->id */
  enum uvs__memory_kind kind;
};

static bool matches(const struct scan *s, const struct uvs__memory_job *job) {
  const uvs_job_filter_t *f = s->filter;

  if (uvs__memory_kind(job) != s->kind || uvs__memory_is_past(s->m, job))
    return false;
  if (f->id != NULL && (strcmp(job->queue, s->queue) != 0 || strcmp(job->rest, s->rest) != 0))
    return false;
  if ((f->queue != NULL && strcmp(job->queue, f->queue) != 0) ||
      (f->name != NULL && strcmp(job->name, f->name) != 0))
    return false;
  if (s->kind == UVS__MEMORY_LIVE && f->state != 0 && job->state != f->state)
    return false;
  return !f->overdue || (job->state == UVS_JOB_PENDING && job->due_us <= s->m->now_us);
}

/* Which jobs can match? False: none. */
static bool kind_of_state(int state, enum uvs__memory_kind *ret) {
  switch (state) {
  case 0:
  case UVS_JOB_PENDING:
  case UVS_JOB_RUNNING:
  case UVS_JOB_HELD:
    *ret = UVS__MEMORY_LIVE;
    return true;
  case UVS_JOB_DEAD:
    *ret = UVS__MEMORY_DEAD;
    return true;
  case UVS_JOB_DONE:
    *ret = UVS__MEMORY_ENDED;
    return true;
  default:
    return false;
  }
}

/* The first that matches, with a number above the cursor. NULL: none. */
static struct uvs__memory_job *next_match(const struct scan *s, int64_t cursor) {
  const struct uvs__tree *numbers = &s->m->numbers[s->kind];
  struct uvs__memory_job like = {.number = cursor}, *job;
  struct uvs__node *node;

  if (s->filter->id != NULL) {
    job = uvs__memory_find(s->m, s->queue, s->rest);
    return job != NULL && job->number > cursor && matches(s, job) ? job : NULL;
  }
  for (node = uvs__tree_after(numbers, &like.by_number); node != NULL;
       node = uvs__tree_after(numbers, node)) {
    job = UVS__AROUND(node, struct uvs__memory_job, by_number);
    if (matches(s, job))
      return job;
  }
  return NULL;
}

/* --------------------------------------------------------------- GET, LIST --- */

static bool copy_blob(struct uvs__arena *a, const struct uvs__blob *blob, const void **ret,
                      size_t *ret_size) {
  if (blob == NULL)
    return true;
  *ret = uvs__arena_copy(a, blob->data, blob->size);
  *ret_size = blob->size;
  return *ret != NULL;
}

static bool copy_error(struct uvs__arena *a, const struct uvs__blob *error, const char **ret) {
  *ret = "";
  return error == NULL || uvs__arena_string(a, error->data, ret);
}

static bool copy_id(struct uvs__arena *a, const struct uvs__memory_job *job, const char **ret) {
  size_t size = strlen(job->queue) + strlen(job->rest) + 2;
  char *id = uvs__arena_alloc(a, size);

  *ret = id;
  if (id == NULL)
    return false;
  snprintf(id, size, "%s/%s", job->queue, job->rest);
  return true;
}

/* False: no memory. */
static bool copy_info(struct uvs__arena *a, const struct uvs__memory_job *job, bool whole,
                      uvs_job_info_t *ret) {
  enum uvs__memory_kind kind = uvs__memory_kind(job);

  ret->size = sizeof *ret;
  ret->state = job->state;
  ret->attempts = job->failures;
  ret->crashes = job->crashes;
  ret->put_ns = job->put_us * 1000;
  if (!copy_id(a, job, &ret->id) || !uvs__arena_string(a, job->name, &ret->name) ||
      !uvs__arena_string(a, job->queue, &ret->queue) || !copy_error(a, job->error, &ret->error))
    return false;
  if (kind != UVS__MEMORY_LIVE)
    ret->ended_ns = job->ended_us * 1000;
  if (kind == UVS__MEMORY_ENDED)
    return !whole || copy_blob(a, job->result, &ret->result, &ret->result_size);

  ret->priority = job->priority;
  ret->cancelling = job->cancelled;
  ret->due_ns = (job->state == UVS_JOB_RUNNING ? job->visible_us : job->due_us) * 1000;
  if (!uvs__arena_string(a, job->key, &ret->key))
    return false;
  if (!whole && kind == UVS__MEMORY_LIVE)
    return true;
  return copy_blob(a, job->payload, &ret->payload, &ret->payload_size) &&
         copy_blob(a, job->meta, &ret->meta, &ret->meta_size) &&
         copy_blob(a, job->progress, &ret->progress, &ret->progress_size);
}

int uvs__memory_get(struct uvs__memory *m, struct uvs__list_request *r) {
  struct uvs__memory_job *job = uvs__memory_find(m, r->queue, r->rest);

  r->n = 0;
  r->next = 0;
  if (job == NULL)
    return UV_ENOENT;
  r->infos = uvs__arena_alloc(&r->arena, sizeof *r->infos);
  if (r->infos == NULL || !copy_info(&r->arena, job, true, r->infos))
    return UV_ENOMEM;
  r->n = 1;
  return 0;
}

int uvs__memory_list(struct uvs__memory *m, struct uvs__list_request *r) {
  struct scan s = {m, &r->filter, r->queue, r->rest, UVS__MEMORY_LIVE};
  struct uvs__memory_job *job;
  size_t n = 0, bytes = 0;

  r->n = 0;
  r->next = 0;
  if (!kind_of_state(r->filter.state, &s.kind))
    return 0;
  r->infos = uvs__arena_alloc(&r->arena, r->limit * sizeof *r->infos);
  if (r->infos == NULL)
    return UV_ENOMEM;
  for (job = next_match(&s, r->cursor); job != NULL && n < r->limit && bytes <= UVS__STEP_BYTES;
       job = next_match(&s, job->number)) {
    if (!copy_info(&r->arena, job, false, &r->infos[n]))
      return UV_ENOMEM;
    bytes += r->infos[n++].payload_size;
    r->next = job->number;
  }
  r->n = n;
  if (job == NULL)
    r->next = 0;
  return 0;
}

/* ----------------------------------------------------------- REDRIVE, PURGE --- */

/* 0, or UV_EEXIST. */
static int redrive(struct uvs__memory *m, struct uvs__memory_job *job) {
  if (job->key != NULL && uvs__memory_find_key(m, job->queue, job->key) != NULL)
    return UV_EEXIST;
  uvs__memory_revive(m, job);
  return 0;
}

static int purge(struct uvs__memory *m, struct uvs__memory_job *job) {
  if (job->state == UVS_JOB_DEAD)
    uvs__memory_remove_dead(m, job);
  else
    uvs__memory_forget(m, job);
  return 0;
}

static int each_match(const struct scan *s, struct uvs__memory *m, struct uvs__bulk_request *r,
                      int (*act)(struct uvs__memory *m, struct uvs__memory_job *job)) {
  int64_t cursor = r->cursor;
  struct uvs__memory_job *job = NULL;
  uint32_t seen;
  int rc = UV_ENOENT;

  for (seen = 0; (job = next_match(s, cursor)) != NULL && seen < r->limit;) {
    cursor = job->number;
    if (s->kind == UVS__MEMORY_ENDED && job->put_us + UVS__REPEAT_US > m->now_us)
      continue; /* still needed for repeated puts */
    seen++;
    rc = act(m, job);
    r->count += rc == 0;
  }
  if (r->filter.id != NULL)
    return rc;
  r->next = job == NULL ? 0 : cursor;
  return 0;
}

static int bulk(struct uvs__memory *m, struct uvs__bulk_request *r, bool ends,
                int (*act)(struct uvs__memory *m, struct uvs__memory_job *job)) {
  struct scan s = {m, &r->filter, r->queue, r->rest, UVS__MEMORY_DEAD};

  r->count = 0;
  r->next = 0;
  if (ends && r->filter.state == UVS_JOB_DONE)
    s.kind = UVS__MEMORY_ENDED;
  else if (r->filter.state != 0 && r->filter.state != UVS_JOB_DEAD)
    return r->filter.id == NULL ? 0 : UV_ENOENT;
  return each_match(&s, m, r, act);
}

int uvs__memory_redrive(struct uvs__memory *m, struct uvs__bulk_request *r) {
  return bulk(m, r, false, redrive);
}

int uvs__memory_purge(struct uvs__memory *m, struct uvs__bulk_request *r) {
  return bulk(m, r, true, purge);
}

/* -------------------------------------------------------------------- TRIM --- */

static struct uvs__memory_job *oldest_end(const struct uvs__memory *m, enum uvs__memory_kind kind,
                                          const struct uvs__memory_job *after) {
  struct uvs__node *node = after == NULL ? uvs__tree_first(&m->orders[kind])
                                         : uvs__tree_after(&m->orders[kind], &after->by_order);

  return node == NULL ? NULL : UVS__AROUND(node, struct uvs__memory_job, by_order);
}

static uint64_t count_ends(const struct uvs__memory *m, enum uvs__memory_kind kind,
                           bool kept_only) {
  const struct uvs__memory_job *job = NULL;
  uint64_t n = 0;

  while ((job = oldest_end(m, kind, job)) != NULL)
    n += !kept_only || (uvs__memory_is_kept(job) && !uvs__memory_is_past(m, job));
  return n;
}

static void trim_past(struct uvs__memory *m, struct uvs__trim_request *r) {
  struct uvs__memory_job *job = oldest_end(m, UVS__MEMORY_ENDED, NULL), *next;

  for (; job != NULL && r->count < r->limit; job = next) {
    next = oldest_end(m, UVS__MEMORY_ENDED, job);
    if (uvs__memory_is_past(m, job)) {
      uvs__memory_forget(m, job);
      r->count++;
    }
  }
}

static void trim_kept(struct uvs__memory *m, struct uvs__trim_request *r) {
  struct uvs__memory_job *job = oldest_end(m, UVS__MEMORY_ENDED, NULL), *next;
  uint64_t kept = count_ends(m, UVS__MEMORY_ENDED, true);

  for (; job != NULL && r->count < r->limit && kept > r->max_done; job = next) {
    next = oldest_end(m, UVS__MEMORY_ENDED, job);
    if (uvs__memory_is_kept(job) && job->put_us + UVS__REPEAT_US <= m->now_us) {
      uvs__memory_forget(m, job);
      kept--;
      r->count++;
    }
  }
}

static void trim_dead(struct uvs__memory *m, struct uvs__trim_request *r) {
  uint64_t dead = count_ends(m, UVS__MEMORY_DEAD, false), removed = 0;
  struct uvs__memory_job *job;
  char text[40];

  while (r->count < r->limit && (job = oldest_end(m, UVS__MEMORY_DEAD, NULL)) != NULL &&
         (job->ended_us < m->now_us - r->dead_age_us || dead > r->max_dead)) {
    uvs__memory_remove_dead(m, job);
    dead--;
    removed++;
    r->count++;
  }
  snprintf(text, sizeof text, "removed: %llu", (unsigned long long)removed);
  if (removed > 0)
    uvs__memory_write_event(m, UVS_EVENT_DEAD_DROPPED, NULL, NULL, text);
}

int uvs__memory_trim(struct uvs__memory *m, struct uvs__trim_request *r) {
  r->count = 0;
  trim_past(m, r);
  trim_kept(m, r);
  trim_dead(m, r);
  return 0;
}
