/* SPDX-License-Identifier: MIT
 *
 * Durable jobs on the console. The library uvsched-console does not link with uvsched-jobs: your
 * program does, and hands the functions over.
 *
 *   uvs_console_jobs_t table = uvs_console_jobs(jobs);
 *   options.jobs = &table;                uvs_console_listen copies it
 */
#ifndef UVSCHED_CONSOLE_JOBS_H
#define UVSCHED_CONSOLE_JOBS_H

#include <uvsched/console.h>
#include <uvsched/jobs_admin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The functions are those of uvsched/jobs.h and uvsched/jobs_admin.h. */
typedef struct uvs_console_jobs_s {
  size_t size;
  uvs_jobs_t *jobs; /* borrowed: close the console before uvs_jobs_close */
  int (*list)(uvs_jobs_t *jobs, const uvs_job_filter_t *f, int64_t cursor, uint32_t limit,
              uvs_job_list_cb cb, void *arg);
  int (*stats)(uvs_jobs_t *jobs, uvs_jobs_stats_cb cb, void *arg);
  int (*redrive)(uvs_jobs_t *jobs, const uvs_job_filter_t *f, uvs_jobs_count_cb cb, void *arg);
  int (*cancel)(uvs_jobs_t *jobs, const char *id, uvs_jobs_cb cb, void *arg);
  const char *(*state_name)(int state);
} uvs_console_jobs_t;

static inline uvs_console_jobs_t uvs_console_jobs(uvs_jobs_t *jobs) {
  uvs_console_jobs_t table;

  table.size = sizeof table;
  table.jobs = jobs;
  table.list = uvs_jobs_list;
  table.stats = uvs_jobs_stats;
  table.redrive = uvs_jobs_redrive;
  table.cancel = uvs_jobs_cancel;
  table.state_name = uvs_job_state_name;
  return table;
}

#ifdef __cplusplus
}
#endif

#endif
