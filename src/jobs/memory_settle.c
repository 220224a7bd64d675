/* SPDX-License-Identifier: MIT
 *
 * memory_settle: SETTLE of the memory store.
 */
#include <string.h>

#include "jobs/alloc.h"
#include "jobs/memory.h"

static void replace(struct uvs__blob **at, struct uvs__blob *blob) {
  uvs__jobs_free(*at);
  *at = blob;
}

static int extend(struct uvs__memory *m, struct uvs__memory_job *job, int64_t lease_us,
                  struct uvs__blob *progress) {
  uvs__memory_take(m, job);
  job->visible_us = lease_us < UVS__NEVER_US - m->now_us ? m->now_us + lease_us : UVS__NEVER_US - 1;
  if (progress != NULL)
    replace(&job->progress, progress);
  uvs__memory_add(m, job);
  return job->cancelled ? UVS__SETTLE_CANCELLED : 0;
}

/* RETRY or RELEASE: the job is pending again, unless it was cancelled or has a successor. */
static int go_back(struct uvs__memory *m, struct uvs__memory_job *job, struct uvs__when when) {
  if (job->cancelled) {
    uvs__memory_end(m, job, UVS_JOB_CANCELLED);
    return UVS__SETTLE_CANCELLED;
  }
  if (job->successor != NULL)
    uvs__memory_end(m, job, UVS_JOB_REPLACED);
  else
    uvs__memory_make_pending(m, job, uvs__due_us(when, m->wall_ns));
  return 0;
}

/* Owns the blob. */
static int settle_run(struct uvs__memory *m, struct uvs__memory_job *job,
                      const struct uvs__settle *s, struct uvs__blob *blob) {
  switch (s->op) {
  case UVS__EXTEND:
    return extend(m, job, s->when.delay_us, blob);
  case UVS__ACK:
    job->failures++;
    job->result = blob;
    uvs__memory_end(m, job, UVS_JOB_DONE);
    return 0;
  case UVS__RETRY:
    job->failures++;
    replace(&job->error, blob);
    return go_back(m, job, s->when);
  case UVS__DEAD:
    job->failures++;
    if (job->cancelled) {
      replace(&job->error, blob);
      return go_back(m, job, s->when);
    }
    uvs__memory_bury(m, job, blob);
    return 0;
  case UVS__RELEASE:
  default:
    uvs__jobs_free(blob);
    return go_back(m, job, s->when);
  }
}

/* The puts of a tick are put only if its cron has a new occurrence. */
static bool may_put(struct uvs__memory *m, const struct uvs__settle *s) {
  struct uvs__memory_cron *cron;

  if (s->op != UVS__RELEASE)
    return s->op == UVS__ACK;
  cron = strcmp(s->queue, UVS__CRON_QUEUE) == 0 ? uvs__memory_find_cron(m, s->rest) : NULL;
  if (cron == NULL || s->tick_last_us == 0 || s->tick_last_us <= cron->cron.last_us)
    return false;
  cron->cron.last_us = s->tick_last_us;
  return true;
}

static void settle_one(struct uvs__memory *m, struct uvs__settle *s, struct uvs__spares *spares) {
  struct uvs__memory_job *job = uvs__memory_find(m, s->queue, s->rest);
  struct uvs__blob *blob = uvs__spares_take_blob(spares);

  if (job == NULL || job->state != UVS_JOB_RUNNING || job->fence != s->fence) {
    s->status = UVS_ELOST;
    uvs__jobs_free(blob);
  } else {
    s->status = settle_run(m, job, s, blob);
  }
  if (s->status == 0 && may_put(m, s))
    uvs__memory_put_all(m, s->puts, s->n_puts, spares);
  else
    uvs__memory_refuse_all(s->puts, s->n_puts, spares);
}

/* The bytes that the job will own. */
static struct uvs__bytes bytes_of(const struct uvs__settle *s) {
  struct uvs__bytes none = {NULL, 0}, error = {s->error, s->error == NULL ? 0 : strlen(s->error)};

  switch (s->op) {
  case UVS__ACK:
    return s->result;
  case UVS__EXTEND:
    return s->progress;
  case UVS__RETRY:
  case UVS__DEAD:
    return error;
  default:
    return none;
  }
}

int uvs__memory_settle(struct uvs__memory *m, struct uvs__settle_request *r) {
  struct uvs__spares spares;
  int rc = UV_ENOMEM;
  size_t i;

  uvs__spares_init(&spares);
  for (i = 0; i < r->n; i++) {
    struct uvs__bytes bytes = bytes_of(&r->items[i]);

    if (!uvs__spares_add_blob(&spares, bytes.data, bytes.size) ||
        !uvs__spares_add_puts(&spares, r->items[i].puts, r->items[i].n_puts, &r->arena))
      goto free_spares;
  }
  for (i = 0; i < r->n; i++)
    settle_one(m, &r->items[i], &spares);
  rc = 0;

free_spares:
  uvs__spares_free(&spares);
  return rc;
}
