/* SPDX-License-Identifier: MIT
 *
 * calls: put, cancel, move, get.
 */
#include "jobs/engine.h"

#include <stdio.h>
#include <string.h>

#include "jobs/run.h"

/* -------------------------------------------------------------------- put --- */

static bool put_answered(struct uvs__call *c) {
  uvs_jobs_stats_t *stats = &c->jobs->keeper.stats;

  for (size_t i = 0; i < c->put.n; i++) {
    struct uvs__put *p = &c->put.puts[i];
    uvs_put_result_t *result = &c->results[i];

    if (c->status == 0 && p->status == UVS_JOB_EXISTS && c->ask.unknown && c->made[i] &&
        strcmp(p->there, p->job.rest) == 0)
      p->status = 0; /* an earlier try of this call has put it */
    result->status = c->status != 0 ? c->status : p->status;
    if (result->status == 0) {
      stats->put++;
      uvs__worker_due(c->jobs, p->job.queue, p->due_us);
    } else if (result->status == UVS_JOB_EXISTS || result->status == UV_EEXIST) {
      stats->exists++;
      snprintf((char *)(uintptr_t)result->id, UVS_JOB_ID_MAX + 1, "%s/%s", p->job.queue, p->there);
    }
  }
  return true;
}

static void deliver_put(struct uvs__call *c) {
  ((uvs_put_cb)c->callback)(c->jobs, c->results, c->put.n, c->arg);
}

/* Copies one spec. The id in the result has room for any id. */
static int copy_put(struct uvs__call *c, size_t i, const uvs_job_spec_t *spec) {
  struct uvs__put *p = &c->put.puts[i];
  char made[27] = "";
  char *id;
  int rc = 0;

  c->made[i] = spec->id == NULL;
  if (c->made[i]) {
    int64_t wall_ns = uvs__wall_ns(c->jobs);

    uv_mutex_lock(&c->jobs->lock);
    rc = uvs__make_id(&c->jobs->ids, wall_ns, made);
    uv_mutex_unlock(&c->jobs->lock);
  }
  if (rc != 0)
    return rc;
  id = uvs__arena_alloc(&c->arena, UVS_JOB_ID_MAX + 1);
  if (id == NULL || !uvs__copy_spec(spec, made, &c->arena, &p->job))
    return UV_ENOMEM;
  snprintf(id, UVS_JOB_ID_MAX + 1, "%s/%s", p->job.queue, p->job.rest);
  c->results[i].id = id;
  return 0;
}

int uvs_jobs_check(const uvs_jobs_t *jobs, const uvs_job_spec_t *spec, char *text, size_t size) {
  if (jobs == NULL) {
    if (text != NULL)
      snprintf(text, size, "jobs is NULL");
    return UV_EINVAL;
  }
  return uvs__check_job_spec(spec, jobs->options.max_payload_bytes, text, size);
}

static int read_put(const uvs_jobs_t *jobs, const uvs_job_spec_t *specs, size_t i,
                    uvs_job_spec_t *ret) {
  const uvs_job_spec_t *spec =
      (const uvs_job_spec_t *)(const void *)((const char *)specs + i * specs->size);
  int rc = uvs_jobs_check(jobs, spec, NULL, 0);

  return rc != 0 ? rc : uvs__read_job_spec(spec, ret);
}

int uvs_jobs_put_many(uvs_jobs_t *jobs, const uvs_job_spec_t *specs, size_t n, uvs_put_cb cb,
                      void *arg) {
  struct uvs__call *c;
  uvs_job_spec_t spec;
  size_t bytes = 0;
  int rc = 0;

  if (jobs == NULL || specs == NULL || n == 0 || n > UVS_JOBS_PUT_MAX)
    return UV_EINVAL;
  for (size_t i = 0; i < n && rc == 0; i++) {
    rc = read_put(jobs, specs, i, &spec);
    if (rc == 0)
      bytes += spec.payload_size;
  }
  if (rc == 0 && bytes > UVS_JOBS_PUT_BYTES_MAX)
    rc = UV_E2BIG;
  if (rc == 0)
    rc = uvs__call_new(jobs, UVS__PUT, &c);
  if (rc != 0)
    return rc;
  c->callback = (void (*)(void))cb;
  c->arg = arg;
  c->deliver = deliver_put;
  c->answered = put_answered;
  c->put.n = n;
  c->put.puts = uvs__arena_alloc(&c->arena, n * sizeof *c->put.puts);
  c->results = uvs__arena_alloc(&c->arena, n * sizeof *c->results);
  c->made = uvs__arena_alloc(&c->arena, n * sizeof *c->made);
  if (c->put.puts == NULL || c->results == NULL || c->made == NULL)
    rc = UV_ENOMEM;
  for (size_t i = 0; i < n && rc == 0; i++) {
    rc = read_put(jobs, specs, i, &spec);
    if (rc == 0)
      rc = copy_put(c, i, &spec);
  }
  if (rc == 0)
    return uvs__call_send(c);
  uvs__call_free(c);
  return rc;
}

int uvs_jobs_put(uvs_jobs_t *jobs, const uvs_job_spec_t *spec, uvs_put_cb cb, void *arg) {
  return uvs_jobs_put_many(jobs, spec, 1, cb, arg);
}

/* ---------------------------------------------------------- cancel and move --- */

static bool alter_answered(struct uvs__call *c) {
  if (c->status == 0)
    c->status = c->alter.status;
  if (c->alter.op == UVS__MOVE && c->status == 0)
    uvs__workers_due(c->jobs);
  if (c->alter.op == UVS__CANCEL && c->status == UVS_JOB_RUNNING)
    uvs__run_cancelled(c->jobs, c->alter.queue, c->alter.rest);
  if (c->status == UV_ENOENT && c->ask.unknown && c->alter.op == UVS__CANCEL)
    c->status = UVS_EUNKNOWN; /* an earlier try may have cancelled it */
  return true;
}

static int alter(uvs_jobs_t *jobs, enum uvs__alter_op op, const char *id, struct uvs__when when,
                 uvs_jobs_cb cb, void *arg) {
  struct uvs__call *c;
  int rc = uvs__call_new(jobs, UVS__ALTER, &c);

  if (rc != 0)
    return rc;
  c->callback = (void (*)(void))cb;
  c->arg = arg;
  c->deliver = uvs__call_deliver_status;
  c->answered = alter_answered;
  c->alter.op = op;
  c->alter.when = when;
  rc = uvs__call_id(c, id, &c->alter.queue, &c->alter.rest);
  if (rc == 0)
    return uvs__call_send(c);
  uvs__call_free(c);
  return rc;
}

int uvs_jobs_cancel(uvs_jobs_t *jobs, const char *id, uvs_jobs_cb cb, void *arg) {
  struct uvs__when never = {-1, 0};

  return alter(jobs, UVS__CANCEL, id, never, cb, arg);
}

int uvs_jobs_move(uvs_jobs_t *jobs, const char *id, int64_t delay_ns, int64_t at_ns, uvs_jobs_cb cb,
                  void *arg) {
  char text[100];
  int rc = uvs__check_when(delay_ns, at_ns, text, sizeof text);

  return rc != 0 ? rc : alter(jobs, UVS__MOVE, id, uvs__to_when(delay_ns, at_ns), cb, arg);
}

/* -------------------------------------------------------------------- get --- */

static void deliver_info(struct uvs__call *c) {
  ((uvs_job_info_cb)c->callback)(c->jobs, c->status, c->status == 0 ? c->list.infos : NULL, c->arg);
}

int uvs_jobs_get(uvs_jobs_t *jobs, const char *id, uvs_job_info_cb cb, void *arg) {
  struct uvs__call *c;
  int rc = uvs__call_new(jobs, UVS__GET, &c);

  if (rc != 0)
    return rc;
  c->callback = (void (*)(void))cb;
  c->arg = arg;
  c->deliver = deliver_info;
  rc = uvs__call_id(c, id, &c->list.queue, &c->list.rest);
  if (rc == 0 && !uvs__arena_string(&c->arena, id, &c->list.filter.id))
    rc = UV_ENOMEM;
  if (rc == 0)
    return uvs__call_send(c);
  uvs__call_free(c);
  return rc;
}
