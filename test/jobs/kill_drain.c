/* SPDX-License-Identifier: MIT
 *
 * kill_drain: waits until no job is due or running, and tells which jobs are left and how the
 * others ended. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <uvsched/jobs_admin.h>

#include "kill_node.h"

#define PAGE 500

static uv_timer_t poll_timer;
static int state; /* of the jobs that are listed now: 0, not ended; or UVS_JOB_DONE */
static int64_t next_page;
static size_t reads; /* of the page's jobs, on their way */

static void list_page(uvs_jobs_t *jobs, int64_t cursor);

static void on_closed(uvs_jobs_t *jobs, void *arg) {
  uvs_t *s = arg;

  (void)jobs;
  node_need(uvs_close(s, NULL), "uvs_close");
}

void node_close(uvs_jobs_t *jobs) {
  node_need(uvs_jobs_close(jobs, UVS_SEC(10), on_closed, uvs_jobs_scheduler(jobs)),
            "uvs_jobs_close");
}

static void go_on(uvs_jobs_t *jobs) {
  if (next_page != 0) {
    list_page(jobs, next_page);
  } else if (state == 0 && node.keep != 0) {
    state = UVS_JOB_DONE;
    list_page(jobs, 0);
  } else {
    node_close(jobs);
  }
}

/* The result is the fence of the claim that was accepted. */
static void on_read(uvs_jobs_t *jobs, int status, const uvs_job_info_t *info, void *arg) {
  (void)arg;
  if (status == 0 && info->state == UVS_JOB_DONE && info->result_size > 0)
    node_tell("done %s %.*s", info->id, (int)info->result_size, (const char *)info->result);
  else if (status != UV_ENOENT)
    node_need(status, "uvs_jobs_get");
  if (--reads == 0)
    go_on(jobs);
}

static void on_list(uvs_jobs_t *jobs, int status, const uvs_job_info_t *list, size_t n,
                    int64_t next, void *arg) {
  (void)arg;
  node_need(status, "uvs_jobs_list");
  next_page = next;
  reads = state == UVS_JOB_DONE ? n : 0;
  for (size_t i = 0; i < n; i++)
    if (state == UVS_JOB_DONE)
      node_need(uvs_jobs_get(jobs, list[i].id, on_read, NULL), "uvs_jobs_get");
    else
      node_tell("left %s", list[i].id);
  if (reads == 0)
    go_on(jobs);
}

static void list_page(uvs_jobs_t *jobs, int64_t cursor) {
  uvs_job_filter_t filter;

  uvs_job_filter_init(&filter);
  filter.state = state;
  node_need(uvs_jobs_list(jobs, &filter, cursor, PAGE, on_list, NULL), "uvs_jobs_list");
}

/* Nothing is due or running, twice in a row. Longer than the longest delay lies between. */
static void on_stats(uvs_jobs_t *jobs, int status, const uvs_jobs_stats_t *stats, void *arg) {
  static int quiet;

  (void)arg;
  node_need(status, "uvs_jobs_stats");
  quiet = stats->overdue == 0 && stats->running == 0 ? quiet + 1 : 0;
  if (quiet == 2) {
    if (stats->dead > 0)
      node_tell("error %" PRIu64 " jobs are dead", stats->dead);
    uv_close((uv_handle_t *)&poll_timer, NULL);
    list_page(jobs, 0);
  }
}

static void on_poll(uv_timer_t *timer) {
  node_need(uvs_jobs_stats(timer->data, on_stats, NULL), "uvs_jobs_stats");
}

static void on_removed(uvs_jobs_t *jobs, int status, void *arg) {
  (void)jobs;
  (void)arg;
  if (status != UV_ENOENT)
    node_need(status, "uvs_jobs_remove_cron");
}

void node_drain(uvs_jobs_t *jobs) {
  node_need(uvs_jobs_remove_cron(jobs, "tick", on_removed, NULL), "uvs_jobs_remove_cron");
  node_need(uv_timer_init(uv_default_loop(), &poll_timer), "uv_timer_init");
  poll_timer.data = jobs;
  node_need(uv_timer_start(&poll_timer, on_poll, (uint64_t)node.delay + 50,
                           (uint64_t)node.delay + 50),
            "uv_timer_start");
}
