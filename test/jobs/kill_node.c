/* SPDX-License-Identifier: MIT
 *
 *   kill_node FILE SEED         puts and runs jobs until it is killed
 *   kill_node FILE SEED drain   puts nothing; exits when no job is due or running any more, and
 *                               prints which jobs are left
 *   kill_node FILE 0 check      prints what SQLite reports about the file
 *
 * kill.py starts several of these processes on one file, kills them, and checks what they have
 * written. They write into one pipe, a line at a time, so the lines are in the order in which
 * things happened:
 *
 *   PID put ID         the put was answered
 *   PID cancel ID      the cancel is about to be asked for
 *   PID gone ID        the cancel was answered: the job will not run
 *   PID run ID FENCE   its handler was called
 *   PID end ID FENCE   its handler returns
 *   PID left ID        with drain: the job is pending
 *   PID slow           the process did not run for so long that leases may have ended
 *   PID error TEXT
 *
 * KILL_AT=n in the environment: the process is killed in its n-th operation on the disk.
 * BREAK in the environment makes something wrong that kill.py must notice. early: the line "put" is
 * written before the put is answered. twice: some handlers write their line "run" twice. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include <uvsched/jobs.h>
#include <uvsched/jobs_admin.h>

#include "kill_vfs.h"

#define WAITING 8     /* puts that wait for their answer at a time */
#define PUTS 150      /* by one process */
#define PLACES 4      /* handlers at a time; kill.py knows it */
#define LEASE_MS 2000 /* kill.py knows it */
#define FAR_MS 1000000000
#define PROBE_MS 100

static uint64_t random_state;
static unsigned number; /* of the next job */
static bool breaks_early, breaks_twice;
static uv_timer_t poll_timer, probe_timer;
static int64_t probed_ns;
static int64_t list_cursor;

static void tell(const char *format, ...) {
  char line[300];
  int size = snprintf(line, sizeof line - 1, "%d ", (int)uv_os_getpid());
  va_list args;

  va_start(args, format);
  size += vsnprintf(line + size, sizeof line - 1 - (size_t)size, format, args);
  va_end(args);
  line[size++] = '\n';
  if (write(STDOUT_FILENO, line, (size_t)size) != size)
    _exit(1); /* kill.py is gone */
}

static void need(int rc, const char *what) {
  if (rc != 0) {
    tell("error %s: %s", what, uvs_jobs_strerror(rc));
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

/* ------------------------------------------------------------------ jobs --- */

/* On the pool. Most are brief. */
static int run_job(uvs_job_t *job) {
  unsigned ms = (unsigned)(job->fence % 64 == 0 ? 100 : job->fence % 4);

  tell("run %s %" PRIu64, job->id, job->fence);
  if (breaks_twice && job->fence % 32 == 0)
    tell("run %s %" PRIu64, job->id, job->fence);
  uv_sleep(ms);
  tell("end %s %" PRIu64, job->id, job->fence);
  return 0;
}

static void put_one(uvs_jobs_t *jobs);

static void on_cancel(uvs_jobs_t *jobs, int status, void *arg) {
  (void)jobs;
  if (status == 0)
    tell("gone %s", (const char *)arg);
  free(arg);
}

/* A job that is due in the far future is cancelled. UVS_JOB_EXISTS: the library has repeated the
 * put. */
static void on_put(uvs_jobs_t *jobs, const uvs_put_result_t *results, size_t n, void *arg) {
  bool is_far = arg != NULL;
  char *id = is_far ? strdup(results[0].id) : NULL;

  if (n == 1 && results[0].status >= 0 && !breaks_early)
    tell("put %s", results[0].id);
  if (id != NULL) {
    tell("cancel %s", id);
    need(uvs_jobs_cancel(jobs, id, on_cancel, id), "uvs_jobs_cancel");
  }
  put_one(jobs);
}

static void put_one(uvs_jobs_t *jobs) {
  static char far_mark;
  bool is_far = below(10) == 0;
  uvs_job_spec_t spec;
  char rest[60], payload[200] = {0};

  uvs_job_spec_init(&spec);
  snprintf(rest, sizeof rest, "%d-%u", (int)uv_os_getpid(), number++);
  spec.name = "work";
  spec.id = rest;
  spec.delay_ns = is_far ? UVS_MS((int64_t)FAR_MS) : UVS_MS((int64_t)below(60));
  spec.payload = payload;
  spec.payload_size = below(sizeof payload);
  if (number > PUTS)
    return;
  if (breaks_early)
    tell("put work/%s", rest);
  need(uvs_jobs_put(jobs, &spec, on_put, is_far ? &far_mark : NULL), "uvs_jobs_put");
}

/* ----------------------------------------------------------------- probe --- */

static void on_probe_answer(uvs_jobs_t *jobs, int status, const uvs_job_info_t *info, void *arg);

/* Asks the store for something all the time. Heartbeats come from the same thread. */
static void probe(uv_timer_t *timer) {
  uvs_jobs_t *jobs = timer->data;
  int64_t now_ns = uvs_now(uvs_jobs_scheduler(jobs));

  if (probed_ns != 0 && now_ns - probed_ns > UVS_MS(PROBE_MS + LEASE_MS / 4))
    tell("slow");
  probed_ns = now_ns;
  need(uvs_jobs_get(jobs, "work/none", on_probe_answer, NULL), "uvs_jobs_get");
}

static void on_probe_answer(uvs_jobs_t *jobs, int status, const uvs_job_info_t *info, void *arg) {
  (void)jobs;
  (void)status;
  (void)info;
  (void)arg;
  need(uv_timer_start(&probe_timer, probe, PROBE_MS, 0), "uv_timer_start");
}

/* ----------------------------------------------------------------- drain --- */

static void on_closed(uvs_jobs_t *jobs, void *arg) {
  uvs_t *s = arg;

  (void)jobs;
  need(uvs_close(s, NULL), "uvs_close");
}

static void on_list(uvs_jobs_t *jobs, int status, const uvs_job_info_t *list, size_t n,
                    int64_t next, void *arg) {
  uvs_job_filter_t filter;

  (void)arg;
  need(status, "uvs_jobs_list");
  for (size_t i = 0; i < n; i++)
    tell("left %s", list[i].id);
  uvs_job_filter_init(&filter);
  if (next != 0 || list_cursor == -1) {
    list_cursor = list_cursor == -1 ? 0 : next;
    need(uvs_jobs_list(jobs, &filter, list_cursor, 1000, on_list, NULL), "uvs_jobs_list");
  } else {
    need(uvs_jobs_close(jobs, UVS_SEC(10), on_closed, uvs_jobs_scheduler(jobs)), "uvs_jobs_close");
  }
}

/* Nothing is due or running, twice in a row. Longer than the longest delay lies between. */
static void on_stats(uvs_jobs_t *jobs, int status, const uvs_jobs_stats_t *stats, void *arg) {
  static int quiet;

  (void)arg;
  need(status, "uvs_jobs_stats");
  if (stats->dead > 0)
    tell("error %" PRIu64 " jobs are dead", stats->dead);
  quiet = stats->overdue == 0 && stats->running == 0 ? quiet + 1 : 0;
  if (quiet == 2) {
    uv_close((uv_handle_t *)&poll_timer, NULL);
    list_cursor = -1;
    on_list(jobs, 0, NULL, 0, 0, NULL);
  }
}

static void on_poll(uv_timer_t *timer) {
  need(uvs_jobs_stats(timer->data, on_stats, NULL), "uvs_jobs_stats");
}

/* ------------------------------------------------------------------ main --- */

static uvs_jobs_t *open_jobs(const char *file) {
  char name[600], text[300];
  uvs_jobs_options_t options;
  uvs_job_handler_t handler;
  uvs_jobs_t *jobs;
  uvs_t *s;
  int rc;

  need(uvs_open(uv_default_loop(), NULL, &s), "uvs_open");
  snprintf(name, sizeof name, "sqlite:%s", file);
  uvs_jobs_options_init(&options);
  options.store = name;
  /* A process that was stopped may hold SQLite's lock. */
  while ((rc = uvs_jobs_open(s, &options, &jobs, text, sizeof text)) == UV_EBUSY)
    ;
  if (rc != 0)
    need(rc, text);
  uvs_job_handler_init(&handler);
  handler.concurrency = PLACES;
  handler.lease_ns = UVS_MS(LEASE_MS);
  handler.max_crashes = 0;
  need(uvs_jobs_handle(jobs, "work", run_job, NULL, &handler), "uvs_jobs_handle");
  return jobs;
}

/* The file of a program that was killed. */
static int check(const char *file) {
  sqlite3 *db;
  sqlite3_stmt *query = NULL;

  if (sqlite3_open(file, &db) == SQLITE_OK &&
      sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &query, NULL) == SQLITE_OK &&
      sqlite3_step(query) == SQLITE_ROW)
    puts((const char *)sqlite3_column_text(query, 0));
  else
    puts(sqlite3_errmsg(db));
  sqlite3_finalize(query);
  sqlite3_close(db);
  return 0;
}

int main(int argc, char **argv) {
  const char *kill_at = getenv("KILL_AT"), *broken = getenv("BREAK");
  uvs_jobs_t *jobs;

  if (argc < 3) {
    fprintf(stderr, "kill_node FILE SEED [drain|check]\n");
    return 2;
  }
  if (argc > 3 && strcmp(argv[3], "check") == 0)
    return check(argv[1]);
  if (kill_at != NULL)
    kill_vfs_at(strtol(kill_at, NULL, 10));
  breaks_twice = broken != NULL && strcmp(broken, "twice") == 0;
  breaks_early = broken != NULL && strcmp(broken, "early") == 0;
  random_state = strtoull(argv[2], NULL, 10) | 1;
  jobs = open_jobs(argv[1]);
  if (argc == 3) {
    need(uv_timer_init(uv_default_loop(), &probe_timer), "uv_timer_init");
    probe_timer.data = jobs;
    probe(&probe_timer);
    for (int i = 0; i < WAITING; i++)
      put_one(jobs);
  } else {
    need(uv_timer_init(uv_default_loop(), &poll_timer), "uv_timer_init");
    poll_timer.data = jobs;
    need(uv_timer_start(&poll_timer, on_poll, 100, 100), "uv_timer_start");
  }
  uv_run(uv_default_loop(), UV_RUN_DEFAULT);
  return 0;
}
