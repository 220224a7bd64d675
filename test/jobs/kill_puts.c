/* SPDX-License-Identifier: MIT
 *
 * kill_puts: puts jobs, and cancels those that are due in the far future. A put whose answer is not
 * clear is repeated with the same id, as uvsched/jobs.h tells programs to do. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kill_node.h"

#define FAR_MS 1000000000
#define BULK 1000     /* jobs in a call */
#define PACE_MS 10    /* between bursts, with a rate */
#define REPEAT_MS 50  /* before a put is repeated */

struct put {
  struct put *next; /* waits for being repeated */
  uvs_job_spec_t spec;
  bool is_far;
  int64_t asked_ns;
  char rest[60], payload[200];
};

static uv_timer_t pace_timer, repeat_timer;
static struct put *to_repeat;
static unsigned number; /* of the next job */
static int64_t waiting;
static double allowance;
static bool ended;
static char id_prefix[40];

static void put_next(uvs_jobs_t *jobs);

static void on_cancel(uvs_jobs_t *jobs, int status, void *arg) {
  (void)jobs;
  if (status == 0)
    node_tell("gone %s", (const char *)arg);
  free(arg);
}

static void cancel(uvs_jobs_t *jobs, const char *id) {
  char *copy = strdup(id);

  node_need(copy == NULL ? UV_ENOMEM : 0, "strdup");
  node_tell("cancel %s", copy);
  node_need(uvs_jobs_cancel(jobs, copy, on_cancel, copy), "uvs_jobs_cancel");
}

static void on_put(uvs_jobs_t *jobs, const uvs_put_result_t *results, size_t n, void *arg);

static void send_put(uvs_jobs_t *jobs, struct put *p) {
  int rc = uvs_jobs_put(jobs, &p->spec, on_put, p);

  if (rc == UV_ESHUTDOWN)
    free(p);
  else
    node_need(rc, "uvs_jobs_put");
}

static void on_repeat(uv_timer_t *timer) {
  struct put *next, *p = to_repeat;

  to_repeat = NULL;
  for (; p != NULL; p = next) {
    next = p->next;
    send_put(timer->data, p);
  }
}

static bool may_repeat(const struct put *p) {
  return node.repeat > 0 && (int64_t)uv_hrtime() - p->asked_ns < UVS_SEC(node.repeat);
}

static void repeat(struct put *p) {
  p->next = to_repeat;
  to_repeat = p;
  if (!uv_is_active((uv_handle_t *)&repeat_timer))
    node_need(uv_timer_start(&repeat_timer, on_repeat, REPEAT_MS, 0), "uv_timer_start");
}

/* UVS_JOB_EXISTS: the library, or this program, has repeated the put. */
static void on_put(uvs_jobs_t *jobs, const uvs_put_result_t *results, size_t n, void *arg) {
  struct put *p = arg;
  int status = results[0].status;

  (void)n;
  if (status == UV_ENOSPC)
    node_tell("full %s", results[0].id);
  if (status < 0 && !ended && may_repeat(p)) {
    repeat(p);
    return;
  }
  if (status < 0)
    node_tell("failed %s %d", results[0].id, status);
  else if (!node_breaks_early)
    node_tell("put %s", results[0].id);
  if (p->is_far && !ended)
    cancel(jobs, results[0].id);
  free(p);
  waiting--;
  if (node.rate == 0)
    put_next(jobs);
}

static void put_next(uvs_jobs_t *jobs) {
  struct put *p;
  int64_t delay_us;

  if (ended || (node.puts > 0 && number >= node.puts))
    return;
  p = calloc(1, sizeof *p);
  node_need(p == NULL ? UV_ENOMEM : 0, "calloc");
  uvs_job_spec_init(&p->spec);
  snprintf(p->rest, sizeof p->rest, "%s%u", id_prefix, number++);
  p->is_far = node_below(10) == 0;
  /* A third is due at once. */
  delay_us = node_below(3) == 0 ? 0 : (int64_t)node_below((uint64_t)node.delay * 1000);
  p->spec.name = "work";
  p->spec.id = p->rest;
  p->spec.delay_ns = p->is_far ? UVS_MS((int64_t)FAR_MS) : UVS_US(delay_us);
  p->spec.payload = p->payload;
  p->spec.payload_size = node_below(sizeof p->payload);
  if (node.keep != 0 && number % 2 == 0)
    p->spec.keep_done_ns = UVS_HOUR(1);
  p->asked_ns = (int64_t)uv_hrtime();
  node_tell("ask work/%s %" PRId64 " %" PRId64, p->rest, node_now_us(), p->spec.delay_ns / 1000);
  if (node_breaks_early)
    node_tell("put work/%s", p->rest);
  waiting++;
  send_put(jobs, p);
}

static void on_pace(uv_timer_t *timer) {
  double burst = (double)node.rate * PACE_MS / 1000;

  allowance = allowance < 10 * burst ? allowance + burst : allowance;
  for (; allowance >= 1 && waiting < node.waiting; allowance--)
    put_next(timer->data);
}

/* ------------------------------------------------------------------- bulk --- */

static void on_bulk(uvs_jobs_t *jobs, const uvs_put_result_t *results, size_t n, void *arg) {
  (void)jobs;
  (void)arg;
  for (size_t i = 0; i < n; i++)
    if (results[i].status >= 0)
      node_tell("put %s", results[i].id);
}

static void put_bulk(uvs_jobs_t *jobs) {
  static uvs_job_spec_t specs[BULK];
  static char rests[BULK][60], payload[128];

  for (int64_t i = 0; i < node.bulk; i += BULK) {
    size_t n = node.bulk - i < BULK ? (size_t)(node.bulk - i) : BULK;
    int64_t now_us = node_now_us();

    for (size_t k = 0; k < n; k++) {
      uvs_job_spec_init(&specs[k]);
      snprintf(rests[k], sizeof rests[k], "%s%u", id_prefix, number++);
      specs[k].name = "work";
      specs[k].id = rests[k];
      specs[k].at_ns = UVS_US(node.at);
      specs[k].payload = payload;
      specs[k].payload_size = sizeof payload;
      node_tell("ask work/%s %" PRId64 " %" PRId64, rests[k], now_us, node.at - now_us);
    }
    node_need(uvs_jobs_put_many(jobs, specs, n, on_bulk, NULL), "uvs_jobs_put_many");
  }
}

void node_puts_begin(uvs_jobs_t *jobs) {
  snprintf(id_prefix, sizeof id_prefix, "%d-", (int)uv_os_getpid());
  node_need(uv_timer_init(uv_default_loop(), &repeat_timer), "uv_timer_init");
  node_need(uv_timer_init(uv_default_loop(), &pace_timer), "uv_timer_init");
  repeat_timer.data = pace_timer.data = jobs;
  if (node.bulk > 0) {
    put_bulk(jobs);
  } else if (node.rate > 0) {
    node_need(uv_timer_start(&pace_timer, on_pace, PACE_MS, PACE_MS), "uv_timer_start");
  } else {
    for (int64_t i = 0; i < node.waiting; i++)
      put_next(jobs);
  }
}

void node_puts_end(void) {
  ended = true;
  uv_close((uv_handle_t *)&pace_timer, NULL);
  uv_close((uv_handle_t *)&repeat_timer, NULL);
}
