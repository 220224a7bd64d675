/* SPDX-License-Identifier: MIT
 *
 *   kill_node STORE SEED [NAME=NUMBER...]  puts and runs jobs until it is killed, or gets SIGTERM
 *   kill_node STORE SEED drain [...]       puts nothing; exits when no job is due or running any
 *                                          more, and prints what is left
 *   kill_node FILE 0 check                 prints what SQLite reports about the file
 *
 * kill.py and ../redis/faults.py start several of these processes on one store, kill them, break
 * the store, and check what they have written (history.py). They write into one pipe, a line at a
 * time, so the lines are in the order in which things happened. Times are in us, by the machine's
 * clock.
 *
 *   PID ready                 the store is open
 *   PID ask ID TIME DELAY     a put is about to be asked for
 *   PID put ID                the put was answered
 *   PID full ID               it was refused: the store is full
 *   PID failed ID CODE        the put has failed, and is not repeated any more
 *   PID cancel ID             the cancel is about to be asked for
 *   PID gone ID               the cancel was answered: the job will not run
 *   PID run ID FENCE TIME CRASHES   its handler was called
 *   PID end ID FENCE          its handler returns
 *   PID left ID               with drain: the job is pending
 *   PID done ID FENCE         with drain: the result of this claim was accepted
 *   PID lost ID               an event: the result came too late
 *   PID down, up, reset, unsafe   events of the store
 *   PID slow MS               the process did not run for so long that leases may have ended
 *   PID held MS               the loop turned so late, without the time in which its thread waited
 *                             for a processor
 *   PID error TEXT
 *
 * KILL_AT=n in the environment: the process is killed in its n-th operation on the disk.
 * BREAK in the environment makes something wrong that must be noticed. early: the line "put" is
 * written before the put is answered. twice: some handlers write their line "run" twice. soon: they
 * claim to run an hour ago. stale: the results have a smaller fence. */
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include <uvsched/jobs.h>
#include <uvsched/jobs_admin.h>

#include "kill_node.h"
#include "kill_vfs.h"

#define PROBE_MS 100
#define WATCH_MS 5 /* between two turns of the loop */
#define HELD_NS UVS_MS(20)
#define OPEN_NS UVS_SEC(60) /* for so long an open is tried again */

struct node_settings node = {.lease = 2000, .places = 4, .puts = 150, .waiting = 8, .delay = 60,
                             .timeout = 2000};
bool node_breaks_early;
static bool breaks_twice, breaks_soon, breaks_stale;
static uint64_t random_state;
static uv_timer_t probe_timer, watch_timer;
static uv_signal_t term;
static int64_t probed_ns;
static bool is_server; /* the store */

void node_tell(const char *format, ...) {
  char line[300];
  int size = snprintf(line, sizeof line - 1, "%d ", (int)uv_os_getpid());
  int room = (int)sizeof line - 1 - size, more;
  va_list args;

  va_start(args, format);
  more = vsnprintf(line + size, (size_t)room, format, args);
  va_end(args);
  size += more < room ? more : room - 1;
  line[size++] = '\n';
  if (write(STDOUT_FILENO, line, (size_t)size) != size)
    _exit(1); /* the driver is gone */
}

void node_need(int rc, const char *what) {
  if (rc != 0) {
    node_tell("error %s: %s", what, uvs_jobs_strerror(rc));
    _exit(1);
  }
}

/* xorshift64* */
uint64_t node_below(uint64_t n) {
  random_state ^= random_state >> 12;
  random_state ^= random_state << 25;
  random_state ^= random_state >> 27;
  return (random_state * UINT64_C(2685821657736338717) >> 11) % n;
}

int64_t node_now_us(void) {
  uv_timeval64_t now;

  node_need(uv_gettimeofday(&now), "uv_gettimeofday");
  return (now.tv_sec - node.clock) * 1000000 + now.tv_usec;
}

/* ------------------------------------------------------------------ jobs --- */

/* On the pool. Most are brief. */
static int run_job(uvs_job_t *job) {
  unsigned ms = (unsigned)(job->fence % 64 == 0 ? 100 : job->fence % 4);
  bool is_rare = job->fence % 32 == 0;
  char result[30];

  for (int i = 0; i < (breaks_twice && is_rare ? 2 : 1); i++)
    node_tell("run %s %" PRIu64 " %" PRId64 " %" PRIu32, job->id, job->fence,
              node_now_us() - (breaks_soon && is_rare ? INT64_C(3600000000) : 0), job->crashes);
  uv_sleep(node.sleep > 0 ? (unsigned)node.sleep : ms);
  snprintf(result, sizeof result, "%" PRIu64, job->fence - (breaks_stale && is_rare ? 1 : 0));
  if (node.keep != 0)
    node_need(uvs_job_result(job, result, strlen(result)), "uvs_job_result");
  node_tell("end %s %" PRIu64, job->id, job->fence);
  return 0;
}

static void on_event(uvs_jobs_t *jobs, const uvs_jobs_event_t *event, void *arg) {
  (void)jobs;
  (void)arg;
  switch (event->what) {
  case UVS_EVENT_LOST:
    node_tell("lost %s", event->id);
    break;
  case UVS_EVENT_STORE_DOWN:
    node_tell("down %s", event->text);
    break;
  case UVS_EVENT_STORE_UP:
    node_tell("up");
    break;
  case UVS_EVENT_STORE_RESET:
    node_tell("reset");
    break;
  case UVS_EVENT_STORE_UNSAFE:
    node_tell("unsafe %s", event->text);
    break;
  case UVS_EVENT_DEAD:
    node_tell("dead %s", event->id);
    break;
  default:
    break;
  }
}

static void on_cron(uvs_jobs_t *jobs, int status, void *arg) {
  (void)jobs;
  (void)arg;
  node_need(status > 0 ? 0 : status, "uvs_jobs_cron");
}

static void define_cron(uvs_jobs_t *jobs) {
  uvs_job_cron_t cron;

  uvs_job_cron_init(&cron);
  cron.name = "tick";
  cron.expression = "* * * * * *";
  cron.spec.name = "tick";
  node_need(uvs_jobs_cron(jobs, &cron, on_cron, NULL, NULL, 0), "uvs_jobs_cron");
}

/* ----------------------------------------------------------------- probe --- */

static void on_probe_answer(uvs_jobs_t *jobs, int status, const uvs_job_info_t *info, void *arg);

/* Asks a store in a file for something all the time. Heartbeats come from the same thread. */
static void probe(uv_timer_t *timer) {
  uvs_jobs_t *jobs = timer->data;
  int64_t now_ns = uvs_now(uvs_jobs_scheduler(jobs));

  if (probed_ns != 0 && now_ns - probed_ns > UVS_MS(PROBE_MS + node.lease / 4))
    node_tell("slow %" PRId64, (now_ns - probed_ns) / 1000000);
  probed_ns = now_ns;
  node_need(uvs_jobs_get(jobs, "work/none", on_probe_answer, NULL), "uvs_jobs_get");
}

static void on_probe_answer(uvs_jobs_t *jobs, int status, const uvs_job_info_t *info, void *arg) {
  (void)jobs;
  (void)status;
  (void)info;
  (void)arg;
  if (!uv_is_closing((uv_handle_t *)&probe_timer))
    node_need(uv_timer_start(&probe_timer, probe, PROBE_MS, 0), "uv_timer_start");
}

/* ----------------------------------------------------------------- watch --- */

static uv_mutex_t watch_lock;
static int64_t watcher_ns, watcher_gap_ns;

/* A thread that only sleeps: if it is late, then the machine is slow. */
static void watcher(void *arg) {
  (void)arg;
  for (;;) {
    int64_t now_ns;

    uv_sleep(WATCH_MS);
    now_ns = (int64_t)uv_hrtime();
    uv_mutex_lock(&watch_lock);
    if (watcher_ns != 0 && now_ns - watcher_ns > watcher_gap_ns)
      watcher_gap_ns = now_ns - watcher_ns;
    watcher_ns = now_ns;
    uv_mutex_unlock(&watch_lock);
  }
}

/* How long this thread has waited for a processor, in all. */
static int64_t queued_ns(void) {
  FILE *file = fopen("/proc/thread-self/schedstat", "r");
  long long ran_ns, waited_ns = 0;

  if (file != NULL && fscanf(file, "%lld %lld", &ran_ns, &waited_ns) != 2)
    waited_ns = 0;
  if (file != NULL)
    fclose(file);
  return waited_ns;
}

static void on_watch(uv_timer_t *timer) {
  static int64_t turned_ns, queued_before_ns;
  int64_t now_ns = (int64_t)uv_hrtime(), queued = queued_ns(), slept_ns;

  (void)timer;
  uv_mutex_lock(&watch_lock);
  slept_ns = watcher_gap_ns;
  watcher_gap_ns = 0;
  uv_mutex_unlock(&watch_lock);
  if (is_server && slept_ns > UVS_MS(node.lease / 4))
    node_tell("slow %" PRId64, slept_ns / 1000000);
  if (turned_ns != 0) {
    int64_t held_ns = now_ns - turned_ns - UVS_MS(WATCH_MS) - (queued - queued_before_ns);

    if (held_ns > HELD_NS && held_ns < UVS_MS(node.lease / 4)) /* else it was stopped */
      node_tell("held %" PRId64, held_ns / 1000000);
  }
  turned_ns = now_ns;
  queued_before_ns = queued;
}

static void watch(void) {
  uv_thread_t thread;

  node_need(uv_mutex_init(&watch_lock), "uv_mutex_init");
  node_need(uv_thread_create(&thread, watcher, NULL), "uv_thread_create");
  node_need(uv_timer_init(uv_default_loop(), &watch_timer), "uv_timer_init");
  node_need(uv_timer_start(&watch_timer, on_watch, WATCH_MS, WATCH_MS), "uv_timer_start");
}

/* ------------------------------------------------------------------ main --- */

/* An orderly end. */
static void on_term(uv_signal_t *signal, int signum) {
  uvs_jobs_t *jobs = signal->data;

  (void)signum;
  node_puts_end();
  uv_close((uv_handle_t *)&probe_timer, NULL);
  uv_close((uv_handle_t *)&watch_timer, NULL);
  uv_close((uv_handle_t *)&term, NULL);
  node_close(jobs);
}

/* Another process that was stopped may hold SQLite's lock; a server may be down just now. */
static bool may_open_again(int rc, int64_t began_ns) {
  if (rc == UV_EBUSY)
    return true;
  return is_server && rc != UV_EINVAL && rc != UV_ENOTSUP &&
         (int64_t)uv_hrtime() - began_ns < OPEN_NS;
}

static uvs_jobs_t *open_jobs(const char *store) {
  char text[300];
  int64_t began_ns = (int64_t)uv_hrtime();
  uvs_jobs_options_t options;
  uvs_job_handler_t handler;
  uvs_jobs_t *jobs;
  uvs_t *s;
  int rc;

  node_need(uvs_open(uv_default_loop(), NULL, &s), "uvs_open");
  uvs_jobs_options_init(&options);
  options.store = store;
  options.on_event = on_event;
  options.put_timeout_ns = UVS_MS(node.timeout);
  while ((rc = uvs_jobs_open(s, &options, &jobs, text, sizeof text)) != 0 &&
         may_open_again(rc, began_ns))
    uv_sleep(rc == UV_EBUSY ? 0 : 20);
  if (rc != 0)
    node_need(rc, text);
  uvs_job_handler_init(&handler);
  handler.concurrency = (int)node.places;
  handler.lease_ns = UVS_MS(node.lease);
  handler.max_crashes = (uint32_t)node.crashes;
  node_need(uvs_jobs_handle(jobs, "work", run_job, NULL, &handler), "uvs_jobs_handle");
  if (node.cron != 0) {
    node_need(uvs_jobs_handle(jobs, "tick", run_job, NULL, &handler), "uvs_jobs_handle");
    define_cron(jobs);
  }
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

static bool read_setting(const char *word) {
  static const struct {
    const char *name;
    int64_t *value;
  } settings[] = {
    {"lease", &node.lease},   {"places", &node.places},   {"puts", &node.puts},
    {"rate", &node.rate},     {"waiting", &node.waiting}, {"delay", &node.delay},
    {"sleep", &node.sleep},   {"crashes", &node.crashes}, {"keep", &node.keep},
    {"timeout", &node.timeout}, {"clock", &node.clock},   {"cron", &node.cron},
    {"bulk", &node.bulk},     {"at", &node.at},           {"repeat", &node.repeat},
  };

  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
    size_t size = strlen(settings[i].name);

    if (strncmp(word, settings[i].name, size) == 0 && word[size] == '=') {
      *settings[i].value = strtoll(word + size + 1, NULL, 10);
      return true;
    }
  }
  return false;
}

static bool is(const char *text, const char *word) {
  return text != NULL && strcmp(text, word) == 0;
}

static void serve(uvs_jobs_t *jobs) {
  node_need(uv_signal_init(uv_default_loop(), &term), "uv_signal_init");
  term.data = jobs;
  node_need(uv_signal_start_oneshot(&term, on_term, SIGTERM), "uv_signal_start_oneshot");
  node_tell("ready");
  node_need(uv_timer_init(uv_default_loop(), &probe_timer), "uv_timer_init");
  probe_timer.data = jobs;
  if (!is_server)
    probe(&probe_timer);
  watch();
  node_puts_begin(jobs);
}

int main(int argc, char **argv) {
  const char *kill_at = getenv("KILL_AT"), *broken = getenv("BREAK");
  const char *mode = argc > 3 && strchr(argv[3], '=') == NULL ? argv[3] : NULL;
  uvs_jobs_t *jobs;

  if (argc < 3 || (mode != NULL && !is(mode, "drain") && !is(mode, "check"))) {
    fprintf(stderr, "kill_node STORE SEED [drain|check] [NAME=NUMBER...]\n");
    return 2;
  }
  if (is(mode, "check"))
    return check(argv[1]);
  for (int i = mode == NULL ? 3 : 4; i < argc; i++)
    if (!read_setting(argv[i])) {
      fprintf(stderr, "kill_node: unknown setting '%s'\n", argv[i]);
      return 2;
    }
  if (kill_at != NULL)
    kill_vfs_at(strtol(kill_at, NULL, 10));
  node_breaks_early = is(broken, "early");
  breaks_twice = is(broken, "twice");
  breaks_soon = is(broken, "soon");
  breaks_stale = is(broken, "stale");
  random_state = strtoull(argv[2], NULL, 10) | 1;
  is_server = strncmp(argv[1], "redis", 5) == 0;
  jobs = open_jobs(argv[1]);
  if (mode == NULL)
    serve(jobs);
  else
    node_drain(jobs);
  uv_run(uv_default_loop(), UV_RUN_DEFAULT);
  return 0;
}
