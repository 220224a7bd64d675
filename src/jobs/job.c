/* SPDX-License-Identifier: MIT
 *
 * job: the functions that a handler calls about its job: progress, result, reason of a failure,
 * further jobs, a longer lease. The lock protects these notes until the run ends.
 */
#include "jobs/run.h"

#include <string.h>

#include "jobs/alloc.h"

int uvs_job_cancelled(const uvs_job_t *job) {
  return job != NULL && atomic_load_explicit(&uvs__run_of(job)->stop, memory_order_acquire) != 0;
}

int uvs_job_lost(const uvs_job_t *job) {
  return job != NULL && (atomic_load(&uvs__run_of(job)->stop) & UVS__STOP_LOST) != 0;
}

/* -------------------------------------------------------------- to the keeper --- */

static void on_noted(struct uvs__message *m, void *to) {
  struct uvs__run *run = UVS__OWNER(m, struct uvs__run, noted);
  uvs_jobs_t *jobs = to;

  uv_mutex_lock(&jobs->lock);
  run->noted_sent = false;
  uv_mutex_unlock(&jobs->lock);
  if (atomic_load(&run->stop) & UVS__STOP_LIMIT)
    uvs__run_end_extenders(run, UV_ETIMEDOUT);
  else if (!run->end_wanted)
    uvs__settle_extend(run);
}

/* Lock held. At most one such message is on its way. It arrives before the run ends, because the
 * message that reports the end is sent later. */
static void send_note(struct uvs__run *run) {
  if (run->noted_sent)
    return;
  run->noted_sent = true;
  run->noted.receive = on_noted;
  uvs__keeper_send(run->jobs, &run->noted);
}

int uvs_job_progress(uvs_job_t *job, const void *data, size_t size) {
  struct uvs__run *run = uvs__run_of(job);
  void *copy;

  if (job == NULL || (data == NULL && size > 0))
    return UV_EINVAL;
  if (size > UVS_JOB_PROGRESS_MAX)
    return UV_E2BIG;
  copy = uvs__jobs_alloc(size);
  if (copy == NULL)
    return UV_ENOMEM;
  if (size > 0)
    memcpy(copy, data, size);
  uv_mutex_lock(&run->jobs->lock);
  uvs__jobs_free(run->progress);
  run->progress = copy;
  run->progress_size = size;
  send_note(run);
  uv_mutex_unlock(&run->jobs->lock);
  return 0;
}

int uvs_job_extend(uvs_job_t *job, int64_t lease_ns) {
  struct uvs__run *run = uvs__run_of(job);
  struct uvs__extender e = {.lease_us = lease_ns / 1000};
  int rc;

  if (job == NULL || lease_ns <= 0 || lease_ns >= UVS_JOBS_END_NS / 2)
    return UV_EINVAL;
  rc = uv_sem_init(&e.done, 0);
  if (rc != 0)
    return rc;
  uv_mutex_lock(&run->jobs->lock);
  e.next = run->extenders;
  run->extenders = &e;
  send_note(run);
  uv_mutex_unlock(&run->jobs->lock);
  uv_sem_wait(&e.done);
  uv_sem_destroy(&e.done);
  return e.status;
}

void uvs__run_end_extenders(struct uvs__run *run, int status) {
  struct uvs__extender *e;

  uv_mutex_lock(&run->jobs->lock);
  e = run->extenders;
  run->extenders = NULL;
  uv_mutex_unlock(&run->jobs->lock);
  while (e != NULL) {
    struct uvs__extender *next = e->next;

    e->status = status;
    uv_sem_post(&e->done);
    e = next;
  }
}

/* ------------------------------------------------------------------ notes --- */

int uvs_job_result(uvs_job_t *job, const void *data, size_t size) {
  struct uvs__run *run = uvs__run_of(job);
  void *copy;

  if (job == NULL || (data == NULL && size > 0))
    return UV_EINVAL;
  if (size > UVS_JOB_RESULT_MAX)
    return UV_E2BIG;
  uv_mutex_lock(&run->jobs->lock);
  copy = uvs__arena_copy(&run->notes, data, size);
  if (copy != NULL)
    run->result = (struct uvs__bytes){copy, size};
  uv_mutex_unlock(&run->jobs->lock);
  return copy == NULL ? UV_ENOMEM : 0;
}

int uvs_job_error(uvs_job_t *job, const char *text) {
  struct uvs__run *run = uvs__run_of(job);
  char *copy;

  if (job == NULL || text == NULL)
    return UV_EINVAL;
  uv_mutex_lock(&run->jobs->lock);
  copy = uvs__arena_copy(&run->notes, text, strnlen(text, UVS_JOB_ERROR_MAX));
  if (copy != NULL)
    run->error = copy;
  uv_mutex_unlock(&run->jobs->lock);
  return copy == NULL ? UV_ENOMEM : 0;
}

int uvs_job_put(uvs_job_t *job, const uvs_job_spec_t *spec) {
  struct uvs__run *run = uvs__run_of(job);
  uvs_jobs_t *jobs;
  struct uvs__job_put *put;
  uvs_job_spec_t s;
  char made[27] = "";
  int64_t wall_ns;
  int rc;

  if (job == NULL)
    return UV_EINVAL;
  jobs = run->jobs;
  rc = uvs__check_job_spec(spec, jobs->options.max_payload_bytes, NULL, 0);
  if (rc == 0)
    rc = uvs__read_job_spec(spec, &s);
  if (rc != 0)
    return rc;
  wall_ns = uvs__wall_ns(jobs);
  uv_mutex_lock(&jobs->lock);
  if (s.id == NULL)
    rc = uvs__make_id(&jobs->ids, wall_ns, made);
  put = uvs__arena_alloc(&run->notes, sizeof *put);
  if (rc == 0 && run->n_puts == UVS_JOBS_PUT_MAX)
    rc = UV_EAGAIN;
  if (rc == 0 && s.payload_size > UVS_JOBS_PUT_BYTES_MAX - run->put_bytes)
    rc = UV_E2BIG;
  if (rc == 0 && (put == NULL || !uvs__copy_spec(&s, made, &run->notes, &put->record)))
    rc = UV_ENOMEM;
  if (rc == 0) {
    *run->puts_end = put;
    run->puts_end = &put->next;
    run->n_puts++;
    run->put_bytes += s.payload_size;
  }
  uv_mutex_unlock(&jobs->lock);
  return rc;
}

int uvs_job_retry_at(uvs_job_t *job, int64_t at_ns) {
  if (job == NULL || at_ns <= 0 || at_ns >= UVS_JOBS_END_NS)
    return UV_EINVAL;
  uvs__run_of(job)->retry_at_us = at_ns / 1000 + (at_ns % 1000 > 0);
  return UVS_JOB_RETRY_AT;
}
