/* SPDX-License-Identifier: MIT
 *
 * Durable jobs in one short program: open a store, handle jobs, put a job, define a cron, close.
 * The file is in a fresh folder, which is removed at the end. */
#include <stdatomic.h>
#include <uvsched/jobs.h>

#include "scratch.h"

static atomic_int reminded;

static int remind(uvs_job_t *job) { /* pool thread: it may block */
  printf("remind: %.*s\n", (int)job->payload_size, (const char *)job->payload);
  atomic_store(&reminded, 1);
  return 0; /* done; a negative code: failed, and tried again later */
}

static void on_put(uvs_jobs_t *jobs, const uvs_put_result_t *result, size_t n, void *arg) {
  (void)jobs, (void)n, (void)arg; /* loop thread */
  if (result->status == 0)
    printf("on the disk: %s\n", result->id); /* now the job survives a crash */
}

static void on_closed(uvs_jobs_t *jobs, void *arg) {
  (void)jobs;
  uvs_close(arg, NULL);
}

static int tick(uvs_job_t *job) {
  printf("tick: %s\n", job->id);
  if (atomic_load(&reminded)) /* this program ends here; a server goes on */
    uvs_jobs_close(job->jobs, UVS_SEC(10), on_closed, job->arg);
  return 0;
}

static int run(const char *store) {
  uv_loop_t *loop = uv_default_loop();
  uvs_jobs_options_t o;
  uvs_job_spec_t spec;
  uvs_job_cron_t cron;
  uvs_jobs_t *jobs;
  uvs_t *s;
  char why[200];

  uvs_jobs_options_init(&o);
  o.store = store; /* "sqlite:app.db" */
  if (uvs_open(loop, NULL, &s) || uvs_jobs_open(s, &o, &jobs, why, sizeof why))
    return 1;
  if (uvs_jobs_handle(jobs, "remind", remind, NULL, NULL) ||
      uvs_jobs_handle(jobs, "tick", tick, s, NULL))
    return 1;

  uvs_job_spec_init(&spec);
  spec.name = "remind"; /* the handler's name */
  spec.delay_ns = UVS_MS(200);
  spec.payload = "rate the ride";
  spec.payload_size = strlen(spec.payload);
  if (uvs_jobs_put(jobs, &spec, on_put, NULL))
    return 1;

  uvs_job_cron_init(&cron);
  cron.name = "every-second"; /* in the store: each occurrence becomes one job, in one process */
  cron.expression = "* * * * * *";
  cron.spec.name = "tick";
  if (uvs_jobs_cron(jobs, &cron, NULL, NULL, why, sizeof why))
    return 1;
  uv_run(loop, UV_RUN_DEFAULT);
  return uv_loop_close(loop) != 0;
}

int main(void) {
  char folder[200], store[300];
  int rc;

  make_scratch(folder, sizeof folder);
  snprintf(store, sizeof store, "sqlite:%s/app.db", folder);
  rc = run(store);
  remove_scratch(folder);
  return rc;
}
