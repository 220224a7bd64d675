/* SPDX-License-Identifier: MIT
 *
 * memory_put: PUT and ALTER of the memory store, and the memory that a request takes beforehand.
 */
#include <stdio.h>
#include <string.h>

#include "jobs/alloc.h"
#include "jobs/memory.h"

/* ----------------------------------------------------------------- spares --- */

/* *ret is NULL if there are no bytes. False: no memory. */
static bool make_blob(const void *data, size_t size, struct uvs__blob **ret) {
  *ret = NULL;
  if (size == 0)
    return true;
  *ret = uvs__jobs_alloc(sizeof **ret + size + 1);
  if (*ret == NULL)
    return false;
  (*ret)->size = size;
  memcpy((*ret)->data, data, size);
  return true;
}

static char *copy_text(char **room, const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = memcpy(*room, text, size);

  *room += size;
  return copy;
}

struct uvs__memory_job *uvs__memory_make_job(const struct uvs__record *record) {
  struct uvs__memory_job *job;
  char *room;

  job = uvs__jobs_alloc(sizeof *job + strlen(record->queue) + strlen(record->rest) +
                        strlen(record->name) + (record->key == NULL ? 0 : strlen(record->key) + 1) +
                        3);
  if (job == NULL)
    return NULL;
  if (!make_blob(record->payload.data, record->payload.size, &job->payload) ||
      !make_blob(record->meta.data, record->meta.size, &job->meta)) {
    uvs__memory_free_job(job);
    return NULL;
  }
  room = (char *)(job + 1);
  job->queue = copy_text(&room, record->queue);
  job->rest = copy_text(&room, record->rest);
  job->name = copy_text(&room, record->name);
  job->key = record->key == NULL ? NULL : copy_text(&room, record->key);
  job->priority = record->priority;
  job->keep_us = record->keep_us;
  return job;
}

void uvs__spares_init(struct uvs__spares *s) {
  s->jobs = NULL;
  s->jobs_end = &s->jobs;
  s->blobs = NULL;
  s->blobs_end = &s->blobs;
}

bool uvs__spares_add_puts(struct uvs__spares *s, const struct uvs__put *puts, size_t n,
                          struct uvs__arena *arena) {
  size_t i;

  for (i = 0; i < n; i++) {
    struct uvs__memory_job *job = uvs__memory_make_job(&puts[i].job);

    if (job == NULL)
      return false;
    *s->jobs_end = job;
    s->jobs_end = &job->next;
    job->there = uvs__arena_alloc(arena, UVS__REST_MAX + 1);
    if (job->there == NULL)
      return false;
  }
  return true;
}

bool uvs__spares_add_blob(struct uvs__spares *s, const void *data, size_t size) {
  struct uvs__blob *blob = uvs__jobs_alloc(sizeof *blob + size + 1);

  if (blob == NULL)
    return false;
  blob->size = size;
  if (size > 0)
    memcpy(blob->data, data, size);
  *s->blobs_end = blob;
  s->blobs_end = &blob->next;
  return true;
}

static struct uvs__memory_job *take_job(struct uvs__spares *s) {
  struct uvs__memory_job *job = s->jobs;

  s->jobs = job->next;
  job->next = NULL;
  return job;
}

struct uvs__blob *uvs__spares_take_blob(struct uvs__spares *s) {
  struct uvs__blob *blob = s->blobs;

  s->blobs = blob->next;
  blob->next = NULL;
  if (blob->size > 0)
    return blob;
  uvs__jobs_free(blob);
  return NULL;
}

void uvs__spares_free(struct uvs__spares *s) {
  while (s->jobs != NULL)
    uvs__memory_free_job(take_job(s));
  while (s->blobs != NULL)
    uvs__jobs_free(uvs__spares_take_blob(s));
}

/* -------------------------------------------------------------------- PUT --- */

/* The new job waits for the run of the job that holds its key. */
static void hold(struct uvs__memory *m, struct uvs__memory_job *job, struct uvs__memory_job *holder,
                 int64_t due_us) {
  if (holder->successor != NULL)
    uvs__memory_end(m, holder->successor, UVS_JOB_REPLACED);
  job->state = UVS_JOB_HELD;
  job->class = UVS__CLASS_HELD;
  job->number = ++m->last_number;
  job->put_us = m->now_us;
  job->due_us = due_us;
  job->visible_us = UVS__NEVER_US;
  job->holder = holder;
  holder->successor = job;
  uvs__memory_add(m, job);
}

static int refuse(struct uvs__put *put, struct uvs__memory_job *spare, const char *there,
                  int status) {
  snprintf(spare->there, UVS__REST_MAX + 1, "%s", there);
  put->there = spare->there;
  uvs__memory_free_job(spare);
  return status;
}

static int put_one(struct uvs__memory *m, struct uvs__put *put, struct uvs__memory_job *spare) {
  const struct uvs__record *record = &put->job;
  struct uvs__memory_job *old = uvs__memory_find_any(m, record->queue, record->rest), *holder;
  int64_t due_us = uvs__due_us(record->due, m->wall_ns);

  if (old != NULL && !uvs__memory_is_past(m, old))
    return refuse(put, spare, old->rest, UVS_JOB_EXISTS);
  if (old != NULL)
    uvs__memory_forget(m, old);
  holder = record->key == NULL ? NULL : uvs__memory_find_key(m, record->queue, record->key);
  if (holder != NULL && record->key_policy != UVS_KEY_REPLACE)
    return refuse(put, spare, holder->rest,
                  record->key_policy == UVS_KEY_KEEP ? UVS_JOB_EXISTS : UV_EEXIST);
  put->due_us = due_us;
  if (holder != NULL && holder->state == UVS_JOB_RUNNING) {
    hold(m, spare, holder, due_us);
    return 0;
  }
  if (holder != NULL)
    uvs__memory_end(m, holder, UVS_JOB_REPLACED);
  uvs__memory_put_pending(m, spare, due_us);
  return 0;
}

void uvs__memory_put_all(struct uvs__memory *m, struct uvs__put *puts, size_t n,
                         struct uvs__spares *spares) {
  size_t i;

  for (i = 0; i < n; i++) {
    puts[i].there = NULL;
    puts[i].due_us = 0;
    puts[i].status = put_one(m, &puts[i], take_job(spares));
  }
}

void uvs__memory_refuse_all(struct uvs__put *puts, size_t n, struct uvs__spares *spares) {
  size_t i;

  for (i = 0; i < n; i++) {
    puts[i].due_us = 0;
    puts[i].status = refuse(&puts[i], take_job(spares), puts[i].job.rest, UVS_JOB_EXISTS);
  }
}

int uvs__memory_put(struct uvs__memory *m, struct uvs__put_request *r) {
  struct uvs__spares spares;
  int rc = UV_ENOMEM;

  uvs__spares_init(&spares);
  if (uvs__spares_add_puts(&spares, r->puts, r->n, &r->arena)) {
    uvs__memory_put_all(m, r->puts, r->n, &spares);
    rc = 0;
  }
  uvs__spares_free(&spares);
  return rc;
}

/* ------------------------------------------------------------------ ALTER --- */

static void move(struct uvs__memory *m, struct uvs__memory_job *job, int64_t due_us) {
  if (job->state == UVS_JOB_HELD)
    job->due_us = due_us; /* in no index */
  else
    uvs__memory_make_pending(m, job, due_us);
}

int uvs__memory_alter(struct uvs__memory *m, struct uvs__alter_request *r) {
  struct uvs__memory_job *job = uvs__memory_find(m, r->queue, r->rest);

  if (job == NULL || uvs__memory_kind(job) != UVS__MEMORY_LIVE) {
    r->status = UV_ENOENT;
  } else if (job->state == UVS_JOB_RUNNING) {
    r->status = UVS_JOB_RUNNING;
    if (r->op == UVS__CANCEL)
      job->cancelled = true;
  } else {
    r->status = 0;
    if (r->op == UVS__CANCEL)
      uvs__memory_end(m, job, UVS_JOB_CANCELLED);
    else
      move(m, job, uvs__due_us(r->when, m->wall_ns));
  }
  return 0;
}
