/* SPDX-License-Identifier: MIT
 *
 * The smallest real use of the console, with durable jobs on it. .ci/run builds it against the
 * installed libraries. */
#include <stdio.h>

#include <uvsched/console.h>
#include <uvsched/console_jobs.h>

static void on_jobs_closed(uvs_jobs_t *jobs, void *arg) {
  (void)arg;
  uvs_close(uvs_jobs_scheduler(jobs), NULL);
}

static void on_console_closed(void *jobs) {
  uvs_jobs_close(jobs, 0, on_jobs_closed, NULL);
}

int main(void) {
  uv_loop_t loop;
  uvs_console_options_t o;
  uvs_console_jobs_t table;
  uvs_jobs_options_t store;
  uvs_console_t *console;
  uvs_jobs_t *jobs;
  uvs_t *s;

  uvs_jobs_options_init(&store);
  store.store = "memory:";
  if (uv_loop_init(&loop) != 0 || uvs_open(&loop, NULL, &s) != 0 ||
      uvs_jobs_open(s, &store, &jobs, NULL, 0) != 0)
    return 1;
  table = uvs_console_jobs(jobs);
  uvs_console_options_init(&o);
  o.port = 0;
  o.jobs = &table;
  if (uvs_console_listen(s, &o, &console) != 0)
    return 1;
  printf("consumer: a console at %s\n", uvs_console_url(console));
  if (uvs_console_close(console, on_console_closed, jobs) != 0)
    return 1;
  uv_run(&loop, UV_RUN_DEFAULT);
  return uv_loop_close(&loop) != 0;
}
