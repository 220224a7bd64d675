/* SPDX-License-Identifier: MIT
 *
 * The smallest real use of the jobs library: one job, put and run. .ci/run builds it against the
 * installed library. */
#include <stdio.h>
#include <string.h>

#include <uvsched/jobs.h>
#include <uvsched/jobs_admin.h>
#include <uvsched/jobs_sqlite.h>

static int ran;

static void on_closed(uvs_jobs_t *jobs, void *arg) {
  (void)arg;
  uvs_close(uvs_jobs_scheduler(jobs), NULL);
}

static int work(uvs_job_t *job) {
  ran = strcmp(job->id, "greet/1") == 0;
  return uvs_jobs_close(job->jobs, UVS_SEC(10), on_closed, NULL);
}

int main(void) {
  uv_loop_t loop;
  uvs_jobs_options_t o;
  uvs_job_spec_t spec;
  uvs_jobs_t *jobs;
  uvs_t *s;
  char why[200];

  if (uv_loop_init(&loop) != 0 || uvs_open(&loop, NULL, &s) != 0)
    return 1;
  uvs_jobs_options_init(&o);
  o.store = "memory:";
  if (uvs_jobs_open(s, &o, &jobs, why, sizeof why) != 0) {
    fprintf(stderr, "consumer: %s\n", why);
    return 1;
  }
  uvs_job_spec_init(&spec);
  spec.name = "greet";
  spec.id = "1";
  if (uvs_jobs_handle(jobs, "greet", work, NULL, NULL) != 0 ||
      uvs_jobs_put(jobs, &spec, NULL, NULL) != 0)
    return 1;
  uv_run(&loop, UV_RUN_DEFAULT);
  if (uv_loop_close(&loop) != 0 || !ran)
    return 1;
  printf("consumer: uvsched %s ran a job\n", uvs_version_string());
  return 0;
}
