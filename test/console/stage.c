/* SPDX-License-Identifier: MIT
 *
 * stage: a program with a console, and with tasks that are late for known reasons. It prints the
 * console's address, and runs until SIGTERM. Tests look at it from outside.
 *
 *   stage [token=TOKEN] [tasks=N] [port=N] [read=1] [hosts=A,B] [connections=N] [quiet=1] [plain=1]
 *         [fork=1] [full=1]
 *
 *   victim    late because of `runners`: two tasks named hog take both runners
 *   tick      late because of `loop`: loop-hog sleeps on the loop
 *   behind    late because of `submit`
 *   flaky     fails every second
 *   heartbeat every 20 ms, on the loop
 *
 * quiet: only heartbeat and the N tasks, which wait for an hour. plain: no hostile names, and a
 *   slower heartbeat. fork: the loop goes on in a forked child, too, until the end.
 *   full: it has no descriptor left.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <uvsched.h>
#include <uvsched/console.h>
#include <uvsched/lane.h>
#ifdef TEST_JOBS
#include <uvsched/console_jobs.h>
#endif

#define CHECK(x) \
  do { \
    if (!(x)) { \
      fprintf(stderr, "stage: line %d: %s\n", __LINE__, #x); \
      exit(1); \
    } \
  } while (0)

static uvs_t *s;
static uvs_console_t *console;
static uv_signal_t end;

/* ---- bodies ---- */

static int nothing(uvs_run_t *run) {
  (void)run;
  return 0;
}

static int hog(uvs_run_t *run) {
  (void)run;
  uv_sleep(400);
  return 0;
}

static int hog_loop(uvs_run_t *run) {
  uvs_task_t t;

  uv_sleep(60);
  uvs_task_init(&t);
  t.name = "behind";
  t.from = UVS_FROM_MONOTONIC;
  t.first_ns = uvs_now(run->scheduler) - UVS_MS(30);
  t.work = nothing;
  CHECK(uvs_submit(run->scheduler, &t, NULL) == 0);
  return 0;
}

static int fail(uvs_run_t *run) {
  (void)run;
  return UV_EIO;
}

/* ---- tasks ---- */

static uvs_task_t every_second(const char *name, int64_t at_ms, uvs_work_cb work) {
  uvs_task_t t;

  uvs_task_init(&t);
  t.kind = UVS_FIXED_RATE;
  t.name = name;
  t.first_ns = UVS_MS(at_ms);
  t.period_ns = UVS_SEC(1);
  t.work = work;
  return t;
}

static void submit(uvs_task_t t) {
  CHECK(uvs_submit(s, &t, NULL) == 0);
}

static void submit_late_tasks(void) {
  uvs_task_t t;

  submit(every_second("hog", 1000, hog));
  submit(every_second("hog", 1000, hog));
  submit(every_second("victim", 1100, nothing));
  t = every_second("loop-hog", 1600, NULL);
  t.after = hog_loop;
  submit(t);
  t = every_second("tick", 1620, NULL);
  t.after = nothing;
  submit(t);
  t = every_second("flaky", 1800, fail);
  t.failure_policy = UVS_FAIL_CONTINUE;
  submit(t);
}

/* They wait for an hour. */
static void submit_hostile_names(void) {
  static const char broken[] = "\xc3\x28\xff\xfe\xed\xa0\x80\xf5\x80\x80\x80\xc0\xaf\xe2\x82"
                               "\x80\x80\x80\x80\xf0\x9f\x92\xa9"; /* 23 bytes */
  static const char *const names[] = {
      "<img src=x onerror=x()>",         "</td><script>x()</scrip", "\"';-->\n\r\t\x1b[31m", broken,
      "\xe2\x80\xae\xe2\x80\xa8gnp.exe",
  };

  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    uvs_task_t t;

    uvs_task_init(&t);
    t.name = names[i];
    t.first_ns = UVS_HOUR(1);
    t.work = nothing;
    submit(t);
  }
}

static void submit_fillers(int n) {
  for (int i = 0; i < n; i++) {
    char name[UVS_NAME_MAX + 1];
    uvs_task_t t;

    snprintf(name, sizeof name, "filler-%d", i);
    uvs_task_init(&t);
    t.name = name;
    t.first_ns = UVS_HOUR(1) + UVS_MS(i);
    t.work = nothing;
    submit(t);
  }
}

static void open_lanes(void) {
  for (int i = 1; i <= 3; i++) {
    uvs_lane_options_t o;
    uvs_lane_t lane;

    uvs_lane_options_init(&o);
    o.width = (uint32_t)i;
    CHECK(uvs_lane_open(s, &o, &lane) == 0);
    for (int n = 0; n < i; n++) {
      uvs_task_t t = every_second("in-lane", 1200, nothing);

      t.lane = lane;
      submit(t);
    }
  }
}

/* ---- durable jobs ---- */

#ifdef TEST_JOBS
static uvs_jobs_t *jobs;

static int give_up(uvs_job_t *job) {
  uvs_job_error(job, "<b>no such customer</b>\n\xff");
  return UVS_JOB_GIVE_UP;
}

static void put(const char *name, const char *id, int64_t delay_ns) {
  uvs_job_spec_t spec;

  uvs_job_spec_init(&spec);
  spec.name = name;
  spec.id = id;
  spec.delay_ns = delay_ns;
  CHECK(uvs_jobs_put(jobs, &spec, NULL, NULL) == 0);
}

static void open_jobs(uvs_console_options_t *o) {
  static uvs_console_jobs_t table;
  uvs_jobs_options_t store;

  uvs_jobs_options_init(&store);
  store.store = "memory:";
  CHECK(uvs_jobs_open(s, &store, &jobs, NULL, 0) == 0);
  CHECK(uvs_jobs_handle(jobs, "charge", give_up, NULL, NULL) == 0);
  put("charge", "1", 0);
  put("charge", "2", 0);
  put("confirm", "<3>", UVS_DAY(15));
  table = uvs_console_jobs(jobs);
  o->jobs = &table;
}

static void on_jobs_closed(uvs_jobs_t *closed, void *arg) {
  (void)closed, (void)arg;
  CHECK(uvs_close(s, NULL) == 0);
}
#endif

static void on_console_closed(void *arg) {
  (void)arg;
#ifdef TEST_JOBS
  if (jobs != NULL) {
    CHECK(uvs_jobs_close(jobs, 0, on_jobs_closed, NULL) == 0);
    return;
  }
#endif
  CHECK(uvs_close(s, NULL) == 0);
}

/* ---- a forked child ---- */

static pid_t child; /* 0: none */

static void on_child_end(uv_signal_t *handle, int signum) {
  (void)handle, (void)signum;
  _exit(0);
}

static void run_child(uv_loop_t *loop) {
  child = fork();
  CHECK(child >= 0);
  if (child > 0)
    return;
  CHECK(uv_loop_fork(loop) == 0 && uv_signal_start(&end, on_child_end, SIGTERM) == 0);
  uv_run(loop, UV_RUN_DEFAULT);
  _exit(2);
}

static void end_child(void) {
  int status = 0;

  if (child == 0)
    return;
  CHECK(kill(child, SIGTERM) == 0 && waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Half of the runs let uvs_close end the console, as a user would who keeps no handle. */
static void on_end(uv_signal_t *handle, int signum) {
  (void)signum;
  uv_close((uv_handle_t *)handle, NULL);
  end_child();
#ifdef TEST_JOBS
  if (jobs == NULL && getpid() % 2 == 0) {
    CHECK(uvs_close(s, NULL) == 0);
    return;
  }
#endif
  CHECK(uvs_console_close(console, on_console_closed, NULL) == 0);
}

/* ---- main ---- */

static const char *argument(int argc, char **argv, const char *name) {
  size_t n = strlen(name);

  for (int i = 1; i < argc; i++) {
    if (strncmp(argv[i], name, n) == 0 && argv[i][n] == '=')
      return argv[i] + n + 1;
  }
  return NULL;
}

static int number(int argc, char **argv, const char *name, int otherwise) {
  const char *text = argument(argc, argv, name);

  return text == NULL ? otherwise : atoi(text);
}

/* C4 C5 C6 C12: check_security.py */
int main(int argc, char **argv) {
  uv_loop_t *loop = uv_default_loop();
  uvs_console_options_t o;
  uvs_options_t options;
  uvs_task_t t;
  int rc;

  uvs_options_init(&options);
  options.concurrency = 2;
  options.on_error = uvs_ignore_errors;
  options.name = "stage";
  CHECK(uvs_open(loop, &options, &s) == 0);
  uvs_console_options_init(&o);
  o.port = number(argc, argv, "port", 0);
  o.token = argument(argc, argv, "token");
  o.token_to_read = number(argc, argv, "read", 0);
  o.hosts = argument(argc, argv, "hosts");
  o.address = argument(argc, argv, "address");
  o.max_connections = number(argc, argv, "connections", o.max_connections);
  t = every_second("heartbeat", 20, NULL);
  t.period_ns = number(argc, argv, "plain", 0) ? UVS_MS(250) : UVS_MS(20);
  t.missed_policy = UVS_MISSED_SKIP;
  t.after = nothing;
  submit(t);
  if (!number(argc, argv, "quiet", 0)) {
    submit_late_tasks();
    if (!number(argc, argv, "plain", 0))
      submit_hostile_names();
    open_lanes();
#ifdef TEST_JOBS
    open_jobs(&o);
#endif
  }
  submit_fillers(number(argc, argv, "tasks", 0));
  rc = uvs_console_listen(s, &o, &console);
  if (rc < 0) {
    fprintf(stderr, "stage: %s\n", uv_strerror(rc));
    return 1;
  }
  CHECK(uv_signal_init(loop, &end) == 0 && uv_signal_start(&end, on_end, SIGTERM) == 0);
  while (number(argc, argv, "full", 0) && dup(0) >= 0)
    ;
  if (number(argc, argv, "fork", 0))
    run_child(loop);
  printf("%s\n", uvs_console_url(console));
  fflush(stdout);
  uv_run(loop, UV_RUN_DEFAULT);
  CHECK(uv_loop_close(loop) == 0);
  return 0;
}
