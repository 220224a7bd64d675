/* SPDX-License-Identifier: MIT
 *
 * A dozen tasks on one loop and two runners, printed line by line as they run; about 10 seconds.
 *
 *   demo [--fast] [--trace FILE] [--console]
 *
 *   --fast        the same script on a virtual clock, with the bodies on the loop. It takes no
 *                 time, and the output is always the same (demo.expected)
 *   --console     serves a page that shows it (uvsched/console.h), and prints its address
 *   --trace FILE  writes everything that happened to FILE, for https://ui.perfetto.dev
 *
 * The output has colours only on a terminal, and not if NO_COLOR is set. */
#include <stdbool.h>
#include <time.h>
#include <unistd.h>
#include <uvsched.h>
#include <uvsched/settings.h>
#include <uvsched/stats.h>
#include <uvsched/trace.h>
#ifdef WITH_CONSOLE
#include <uvsched/console.h>
#endif

#include "expect.h"

/* ------------------------------------------------------------------- time --- */

/* With --fast, time moves only when the program says so: from deadline to deadline, and while a
 * body is busy.
 */
static struct {
  bool is_virtual;
  int64_t virtual_ns;
  int64_t start_ns, wall_start_ns;
} timing = {.virtual_ns = UVS_SEC(1000)};

static int64_t virtual_monotonic(void *arg) {
  (void)arg;
  return timing.virtual_ns;
}

static int64_t virtual_wall(void *arg) {
  (void)arg;
  return timing.virtual_ns + UVS_DAY(20000);
}

static int64_t wall_now(void) {
  struct timespec t;
  if (timing.is_virtual)
    return virtual_wall(NULL);
  clock_gettime(CLOCK_REALTIME, &t);
  return UVS_SEC(t.tv_sec) + t.tv_nsec;
}

static void busy_until(uvs_t *s, int64_t then_ns) {
  if (timing.is_virtual && timing.virtual_ns < then_ns)
    timing.virtual_ns = then_ns;
  while (uvs_now(s) < then_ns)
    uv_sleep((unsigned)((then_ns - uvs_now(s)) / 1000000 + 1));
}

/* ---------------------------------------------------------------- telling --- */

static const char *plain = "", *dim = "", *red = "", *green = "", *yellow = "", *cyan = "";

static void choose_colours(void) {
  const char *no_color = getenv("NO_COLOR");
  if (!isatty(STDOUT_FILENO) || (no_color != NULL && no_color[0] != '\0'))
    return;
  plain = "\033[0m";
  dim = "\033[2m";
  red = "\033[31m";
  green = "\033[32m";
  yellow = "\033[33m";
  cyan = "\033[36m";
}

/* One printf per line, so that lines of several threads never mix. */
static void tell(int64_t at_ns, int runner, const char *name, const char *colour, const char *event,
                 const char *about) {
  char where[16] = "loop", remark[96] = "";
  if (runner != UVS_ON_LOOP)
    snprintf(where, sizeof where, "runner %d", runner);
  if (about != NULL)
    snprintf(remark, sizeof remark, "%*s  %s%s%s", (int)strlen(event) - 29, "", dim, about, plain);
  printf("%+.3f s  %-8s  %-9s  %s%s%s%s\n", (double)(at_ns - timing.start_ns) / 1e9, where, name,
         colour, event, colour[0] != '\0' ? plain : "", remark);
}

static void tell_now(uvs_t *s, const char *name, const char *colour, const char *event) {
  tell(uvs_now(s), UVS_ON_LOOP, name, colour, event, NULL);
}

/* ---------------------------------------------------------------- the cast --- */

#define ANY UINT64_MAX

struct part {
  const char *name;
  const char *about; /* printed with its first run */
  uint64_t want_runs;
  int want_status;
  /* the results */
  uvs_id_t id;
  uint64_t runs;
  int64_t late_ns; /* of its last run */
  int ends, status;
};

static struct part hello, heartbeat, poller, flaky, lookup, reminder, regret, import1, import2,
    late, catch_up, once, skip, wall, countdown, farewell;
static struct part *const cast[] = {&hello,  &heartbeat, &poller,    &flaky,   &lookup,   &reminder,
                                    &regret, &import1,   &import2,   &late,    &catch_up, &once,
                                    &skip,   &wall,      &countdown, &farewell};
static int terminated;

/* Every body begins with this line. */
static void tell_run(const uvs_run_t *run) {
  struct part *p = run->arg;
  double late_ms = (double)run->late_ns / 1e6;
  char event[64];
  int n = snprintf(event, sizeof event, "run %d, ", (int)run->number);

  if (late_ms < 0.05)
    n += snprintf(event + n, sizeof event - (size_t)n, "on time");
  else
    n += snprintf(event + n, sizeof event - (size_t)n, "%.1f ms late: %s", late_ms,
                  uvs_late_name(run->culprit));
  if (run->missed > 0)
    snprintf(event + n, sizeof event - (size_t)n, ", %d missed", (int)run->missed);
  tell(run->start_ns, run->runner, p->name, late_ms < 50 ? "" : yellow, event,
       run->number == 1 ? p->about : NULL);
  p->runs = run->number;
  p->late_ns = run->late_ns;
}

static int simple(uvs_run_t *run) {
  tell_run(run);
  return 0;
}

static int poller_work(uvs_run_t *run) {
  tell_run(run);
  busy_until(run->scheduler, run->start_ns + UVS_MS(200));
  return 0;
}

static int poller_after(uvs_run_t *run) {
  char event[64];
  snprintf(event, sizeof event, "after run %d, which took %.1f ms", (int)run->number,
           (double)(run->end_ns - run->start_ns) / 1e6);
  tell_now(run->scheduler, poller.name, "", event);
  return 0;
}

static int flaky_work(uvs_run_t *run) {
  tell_run(run);
  return run->number < 3 ? 0 : UV_EIO;
}

/* In a real program this would be the callback of a request, such as uv_getaddrinfo. */
static int answer(uvs_run_t *run) {
  tell_now(run->scheduler, lookup.name, "", "the answer is here: uvs_finish");
  EXPECT(uvs_finish(run->scheduler, lookup.id, 0) == 0);
  return 0;
}

static int lookup_begins(uvs_run_t *run) {
  uvs_task_t t;
  tell_run(run);
  uvs_task_init(&t);
  t.first_ns = UVS_MS(300);
  t.after = answer;
  EXPECT(uvs_submit(run->scheduler, &t, NULL) == 0);
  return UVS_PENDING;
}

static int import_work(uvs_run_t *run) {
  tell_run(run);
  busy_until(run->scheduler, timing.start_ns + UVS_MS(5950));
  return 0;
}

static int countdown_work(uvs_run_t *run) {
  tell_run(run);
  return run->number < 3 ? 0 : UVS_STOP;
}

static void on_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct part *p = arg;
  char event[64];
  (void)id;
  p->ends++;
  p->status = status;
  if (status == 0)
    tell_now(s, p->name, green, "done");
  else if (status == UV_ECANCELED)
    tell_now(s, p->name, yellow, "done: cancelled");
  else {
    snprintf(event, sizeof event, "done: failed, %s", uvs_strerror(status));
    tell_now(s, p->name, red, event);
  }
}

static void on_error(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)id;
  EXPECT(status == UV_EIO);
  tell_now(s, ((struct part *)arg)->name, red, "the error hook hears of it");
}

static void on_terminated(uvs_t *s) {
  terminated++;
  tell_now(s, "scheduler", green, "terminated: shut down, and every task is over");
}

/* ----------------------------------------------------------- the operator --- */

/* Three loop tasks that interfere with the others. */

static int move_reminder(uvs_run_t *run) {
  tell_now(run->scheduler, "operator", cyan, "moves reminder from +2.500 s to +2.800 s");
  EXPECT(uvs_reschedule(run->scheduler, reminder.id,
                        timing.start_ns + UVS_MS(2800) - uvs_now(run->scheduler)) == 0);
  return 0;
}

static int cancel_regret(uvs_run_t *run) {
  tell_now(run->scheduler, "operator", cyan, "cancels regret, which was due at +6.200 s");
  EXPECT(uvs_cancel(run->scheduler, regret.id, 0) == UVS_CANCELLED);
  return 0;
}

static int shut_down(uvs_run_t *run) {
  tell_now(run->scheduler, "operator", cyan, "shuts down: one-shots go on, periodic ends");
  EXPECT(uvs_shutdown(run->scheduler) == 0);
  EXPECT(uvs_execute(run->scheduler, simple, NULL) == UV_ESHUTDOWN);
  tell_now(run->scheduler, "operator", cyan, "submits one more task, and is refused");
  return 0;
}

/* --------------------------------------------------------------- the script --- */

static void operate(uvs_t *s, int64_t at_ms, uvs_after_cb action) {
  uvs_task_t t;
  uvs_task_init(&t);
  t.from = UVS_FROM_MONOTONIC;
  t.first_ns = timing.start_ns + UVS_MS(at_ms);
  t.after = action; /* and no `work`: on the loop thread */
  t.name = "operator";
  EXPECT(uvs_submit(s, &t, NULL) == 0);
}

/* A one-shot on the pool; the script changes what is to be different. */
static uvs_task_t task(struct part *p, const char *name, int64_t at_ms, const char *about) {
  uvs_task_t t;
  p->name = name;
  p->about = about;
  p->want_runs = 1;
  uvs_task_init(&t);
  t.from = UVS_FROM_MONOTONIC;
  t.first_ns = timing.start_ns + UVS_MS(at_ms);
  t.work = simple;
  t.done = on_done;
  t.arg = p;
  t.name = name;
  return t;
}

static void submit(uvs_t *s, const uvs_task_t *t) {
  EXPECT(uvs_submit(s, t, &((struct part *)t->arg)->id) == 0);
}

static void submit_all(uvs_t *s) {
  uvs_task_t t;

  t = task(&hello, "hello", 200, "once, 0.2 s after the start");
  submit(s, &t);

  t = task(&heartbeat, "heartbeat", 1000, "fixed rate: every second");
  t.kind = UVS_FIXED_RATE;
  t.period_ns = UVS_SEC(1);
  heartbeat.want_runs = ANY;
  heartbeat.want_status = UV_ECANCELED; /* by the shutdown */
  submit(s, &t);

  t = task(&poller, "poller", 400, "fixed delay: 0.7 s pause");
  t.kind = UVS_FIXED_DELAY;
  t.period_ns = UVS_MS(700);
  t.work = poller_work;
  t.after = poller_after;
  poller.want_runs = t.max_runs = 3;
  submit(s, &t);

  t = task(&flaky, "flaky", 700, "every 0.55 s; fails, is retried");
  t.kind = UVS_FIXED_RATE;
  t.period_ns = UVS_MS(550);
  t.work = flaky_work;
  t.failure_policy = UVS_FAIL_RETRY;
  t.retry.wait_ns = UVS_MS(100); /* then 200 */
  flaky.want_runs = 5;
  t.max_failures = 3;
  flaky.want_status = UV_EIO;
  submit(s, &t);

  t = task(&lookup, "lookup", 850, "async: ends by uvs_finish");
  t.kind = UVS_FIXED_DELAY;
  t.period_ns = UVS_MS(600);
  t.work = NULL;
  t.after = lookup_begins;
  lookup.want_runs = t.max_runs = 2;
  submit(s, &t);

  t = task(&reminder, "reminder", 2500, "once, moved from +2.500 s");
  submit(s, &t);
  operate(s, 1600, move_reminder);

  t = task(&regret, "regret", 6200, "");
  regret.want_runs = 0;
  regret.want_status = UV_ECANCELED;
  submit(s, &t);
  operate(s, 2600, cancel_regret);

  t = task(&wall, "wall", 0, "at a wall-clock instant");
  t.from = UVS_FROM_WALL;
  t.first_ns = timing.wall_start_ns + UVS_MS(3600);
  submit(s, &t);

  /* Two long bodies take both runners. Tasks that become due meanwhile are late. Three tasks with
   * the same rate have three different policies for this. */
  t = task(&import1, "import 1", 5050, "takes one runner for 0.9 s");
  t.work = import_work;
  submit(s, &t);
  t = task(&import2, "import 2", 5050, "takes the other runner too");
  t.work = import_work;
  submit(s, &t);
  t = task(&late, "late", 5200, "once; no runner was free");
  submit(s, &t);

  t = task(&catch_up, "catch-up", 4500, "every 0.3 s, catches up");
  t.kind = UVS_FIXED_RATE;
  t.period_ns = UVS_MS(300);
  t.until_ns = timing.start_ns + UVS_MS(6400);
  catch_up.want_runs = 7;
  submit(s, &t);
  t = task(&once, "once", 4500, "every 0.3 s, one for all");
  t.kind = UVS_FIXED_RATE;
  t.period_ns = UVS_MS(300);
  t.until_ns = timing.start_ns + UVS_MS(6400);
  t.missed_policy = UVS_MISSED_ONCE;
  once.want_runs = ANY;
  submit(s, &t);
  t = task(&skip, "skip", 4500, "every 0.3 s, skips missed");
  t.kind = UVS_FIXED_RATE;
  t.period_ns = UVS_MS(300);
  t.until_ns = timing.start_ns + UVS_MS(6400);
  t.missed_policy = UVS_MISSED_SKIP;
  skip.want_runs = ANY;
  submit(s, &t);

  t = task(&countdown, "countdown", 7300, "every 0.2 s until UVS_STOP");
  t.kind = UVS_FIXED_RATE;
  t.period_ns = UVS_MS(200);
  t.work = countdown_work;
  countdown.want_runs = 3;
  submit(s, &t);

  t = task(&farewell, "farewell", 9600, "once, despite the shutdown");
  submit(s, &t);
  operate(s, 8600, shut_down);
}

/* From deadline to deadline, at once, until nothing is left. */
static void run_virtual(uv_loop_t *loop, uvs_t *s) {
  for (int turns = 0; terminated == 0; turns++) {
    int64_t due_ns;
    EXPECT(turns < 10000);
    EXPECT(uvs_next_due(s, &due_ns) == 0);
    if (due_ns != UVS_NEVER && due_ns > timing.virtual_ns) {
      timing.virtual_ns = due_ns;
      EXPECT(uvs_clock_changed(s) == 0);
    }
    uv_run(loop, UV_RUN_NOWAIT);
  }
}

static void print_statistics(const uvs_counts_t *c) {
  printf("\nstatistics (uvs_counts)\n"
         "  tasks submitted %5d\n"
         "  ... completed   %5d\n"
         "  ... failed      %5d\n"
         "  ... cancelled   %5d\n"
         "  still to do     %5d\n"
         "  refused         %5d\n"
         "  runs            %5d\n"
         "  missed points   %5d\n"
         "  peak of runners %5d\n",
         (int)c->submitted, (int)c->completed, (int)c->failed, (int)c->cancelled,
         (int)(c->waiting + c->ready + c->running), (int)c->rejected, (int)c->runs, (int)c->missed,
         (int)c->peak_runners);
}

static int write_to_file(const char *data, size_t size, void *file) {
  return fwrite(data, 1, size, file) == size ? 0 : UV_EIO;
}

static void write_trace(uvs_t *s, const char *path) {
  FILE *file = fopen(path, "w");
  EXPECT(file != NULL);
  EXPECT(uvs_trace_write(s, UVS_NEVER, 0, write_to_file, file) == 0);
  EXPECT(fclose(file) == 0);
  printf("\nThe trace is in %s: open it in https://ui.perfetto.dev\n", path);
}

/* uvs_close closes the console. */
static void serve_console(uvs_t *s) {
#ifdef WITH_CONSOLE
  uvs_console_options_t o;
  uvs_console_t *console;
  int rc;
  uvs_console_options_init(&o);
  rc = uvs_console_listen(s, &o, &console);
  if (rc == UV_EADDRINUSE) {
    o.port = 0;
    rc = uvs_console_listen(s, &o, &console);
  }
  EXPECT(rc == 0);
  printf("The console: %s\n\n", uvs_console_url(console));
#else
  (void)s;
  printf("The console was not built: it needs libmicrohttpd.\n\n");
#endif
}

static void check(const uvs_counts_t *c) {
  for (size_t i = 0; i < sizeof cast / sizeof cast[0]; i++) {
    const struct part *p = cast[i];
    EXPECT(p->ends == 1 && p->status == p->want_status);
    EXPECT(p->want_runs == ANY || p->runs == p->want_runs);
  }
  EXPECT(late.late_ns >= UVS_MS(5950 - 5200));
  EXPECT(once.runs < catch_up.runs && skip.runs < catch_up.runs);
  EXPECT(terminated == 1);
  EXPECT(c->submitted == c->completed + c->failed + c->cancelled);
  EXPECT(c->failed == 1 && c->cancelled == 2 && c->rejected == 1);
  EXPECT(c->peak_runners == (timing.is_virtual ? 0 : 2));
}

int main(int argc, char **argv) {
  uv_loop_t *loop = uv_default_loop();
  uvs_options_t o;
  const char *trace = NULL;
  bool console = false;
  uvs_counts_t c;
  uvs_t *s;

  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--fast") == 0)
      timing.is_virtual = true;
    if (strcmp(argv[i], "--trace") == 0)
      trace = argv[++i];
    if (strcmp(argv[i], "--console") == 0)
      console = true;
  }
  setenv("UV_THREADPOOL_SIZE", "4", 1); /* libuv reads it once, at the pool's first use */
  setvbuf(stdout, NULL, _IOLBF, 0);
  choose_colours();

  uvs_options_init(&o);
  o.concurrency = 2;
  o.on_error = on_error;
  o.on_terminated = on_terminated;
  if (timing.is_virtual) {
    o.concurrency = 0;
    o.clock = (uvs_clock_t){.monotonic_ns = virtual_monotonic, .wall_ns = virtual_wall};
  }
  EXPECT(uvs_open(loop, &o, &s) == 0);
  if (console)
    serve_console(s);
  printf("uvsched: 21 tasks on one loop; %s\n\n"
         "  where  \"runner n\" is a thread of libuv's pool, \"loop\" the loop's own thread\n"
         "  event  every run, how late it began (never early), and why;\n"
         "         then \"done\", exactly once for each task\n\n"
         "    time  where     task       event                          in words\n",
         timing.is_virtual ? "virtual clock, every body on the loop"
                           : "two runners, about 10 seconds");
  if (trace != NULL) {
    int rc = uvs_trace_open(s, NULL);
    EXPECT(rc == 0 || (console && rc == UV_EALREADY)); /* the console has opened it */
  }
  timing.start_ns = uvs_now(s);
  timing.wall_start_ns = wall_now();
  submit_all(s);

  if (timing.is_virtual)
    run_virtual(loop, s);
  uv_run(loop, UV_RUN_DEFAULT); /* returns when the last task is over */

  uvs_counts_init(&c);
  EXPECT(uvs_counts(s, &c) == 0);
  print_statistics(&c);
  if (trace != NULL)
    write_trace(s, trace);
  EXPECT(uvs_close(s, NULL) == 0);
  uv_run(loop, UV_RUN_DEFAULT);
  EXPECT(uv_loop_close(loop) == 0);
  check(&c);
  return 0;
}
