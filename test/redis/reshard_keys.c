/* SPDX-License-Identifier: MIT
 *
 *   reshard_keys STORE SEED   puts and runs jobs with few unique keys, until it gets SIGTERM
 *
 * It writes a line for each event: "ready", "put ID" (the job was put), "run KEY ID", "end KEY ID",
 * "error TEXT". All processes write into one pipe, so the lines are in the order of the events. */
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <uvsched/jobs.h>

#define KEYS 12
#define PUT_MS 4

static uv_timer_t timer;
static uv_signal_t term;
static uint64_t random_state;

static void tell(const char *format, ...) {
  char line[300];
  va_list args;
  int size;

  va_start(args, format);
  size = vsnprintf(line, sizeof line, format, args);
  va_end(args);
  if (write(STDOUT_FILENO, line, (size_t)size) != size)
    _exit(1); /* the driver is gone */
}

static void need(int rc, const char *what) {
  if (rc != 0) {
    tell("error %s: %s\n", what, uvs_jobs_strerror(rc));
    _exit(1);
  }
}

/* xorshift64* */
static uint64_t below(uint64_t n) {
  random_state ^= random_state >> 12;
  random_state ^= random_state << 25;
  random_state ^= random_state >> 27;
  return (random_state * UINT64_C(2685821657736338717) >> 11) % n;
}

static int run_job(uvs_job_t *job) {
  unsigned ms = (unsigned)(job->fence % 5 == 0 ? 40 : job->fence % 4);

  tell("run %s %s\n", job->key, job->id);
  uv_sleep(ms);
  tell("end %s %s\n", job->key, job->id);
  return 0;
}

static void on_put(uvs_jobs_t *jobs, const uvs_put_result_t *results, size_t n, void *arg) {
  (void)jobs;
  (void)n;
  (void)arg;
  if (results[0].status == 0)
    tell("put %s\n", results[0].id);
}

static void put(uv_timer_t *t) {
  uvs_job_spec_t spec;
  char key[20];
  int rc;

  snprintf(key, sizeof key, "key%d", (int)below(KEYS));
  uvs_job_spec_init(&spec);
  spec.name = "keyed";
  spec.key = key;
  spec.key_policy = (int)below(3);
  spec.delay_ns = UVS_MS((int64_t)below(400));
  spec.keep_done_ns = UVS_SEC(3600);
  rc = uvs_jobs_put(t->data, &spec, on_put, NULL);
  if (rc != UV_EAGAIN)
    need(rc, "uvs_jobs_put");
}

static void on_closed(uvs_jobs_t *jobs, void *arg) {
  (void)jobs;
  need(uvs_close(arg, NULL), "uvs_close");
}

static void on_term(uv_signal_t *signal, int signum) {
  uvs_jobs_t *jobs = signal->data;

  (void)signum;
  uv_close((uv_handle_t *)&timer, NULL);
  uv_close((uv_handle_t *)&term, NULL);
  need(uvs_jobs_close(jobs, UVS_SEC(10), on_closed, uvs_jobs_scheduler(jobs)), "uvs_jobs_close");
}

int main(int argc, char **argv) {
  uv_loop_t *loop = uv_default_loop();
  uvs_jobs_options_t options;
  uvs_job_handler_t handler;
  uvs_jobs_t *jobs;
  char text[300];
  uvs_t *s;

  if (argc != 3) {
    fprintf(stderr, "reshard_keys STORE SEED\n");
    return 2;
  }
  random_state = strtoull(argv[2], NULL, 10) | 1;
  need(uvs_open(loop, NULL, &s), "uvs_open");
  uvs_jobs_options_init(&options);
  options.store = argv[1];
  need(uvs_jobs_open(s, &options, &jobs, text, sizeof text), text);
  uvs_job_handler_init(&handler);
  handler.concurrency = 4;
  handler.lease_ns = UVS_SEC(10);
  need(uvs_jobs_handle(jobs, "keyed", run_job, NULL, &handler), "uvs_jobs_handle");
  need(uv_signal_init(loop, &term), "uv_signal_init");
  term.data = jobs;
  need(uv_signal_start_oneshot(&term, on_term, SIGTERM), "uv_signal_start_oneshot");
  need(uv_timer_init(loop, &timer), "uv_timer_init");
  timer.data = jobs;
  need(uv_timer_start(&timer, put, PUT_MS, PUT_MS), "uv_timer_start");
  tell("ready\n");
  uv_run(loop, UV_RUN_DEFAULT);
  return 0;
}
