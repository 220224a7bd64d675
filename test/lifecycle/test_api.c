/* SPDX-License-Identifier: MIT
 *
 * Calls every public function through the shared library, as a user does. The library must export
 * exactly the functions of the headers.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>

#include "uvsched/calendar.h"
#include "uvsched/control.h"
#include "uvsched/executor.h"
#include "uvsched/lane.h"
#include "uvsched/queue.h"
#include "uvsched/settings.h"
#include "uvsched/stats.h"
#include "uvsched/trace.h"

#include "lib/patience.h"
#include "lib/unit.h"

#define FUNCTIONS(X) \
  X(uvs_abandon) \
  X(uvs_add_cleanup) \
  X(uvs_after_shutdown) \
  X(uvs_all) \
  X(uvs_all_with) \
  X(uvs_any) \
  X(uvs_any_with) \
  X(uvs_bucket_ns) \
  X(uvs_calendar_interval) \
  X(uvs_calendar_list) \
  X(uvs_calendar_matches) \
  X(uvs_calendar_next) \
  X(uvs_calendar_parse) \
  X(uvs_calendar_previous) \
  X(uvs_calendar_refresh) \
  X(uvs_calendar_release) \
  X(uvs_calendar_retain) \
  X(uvs_calendar_text) \
  X(uvs_calendar_zone) \
  X(uvs_cancel) \
  X(uvs_cancelled) \
  X(uvs_check) \
  X(uvs_clock_changed) \
  X(uvs_close) \
  X(uvs_complete) \
  X(uvs_concurrency) \
  X(uvs_counts) \
  X(uvs_data) \
  X(uvs_dump) \
  X(uvs_each) \
  X(uvs_each_lane) \
  X(uvs_each_name) \
  X(uvs_each_step) \
  X(uvs_execute) \
  X(uvs_find) \
  X(uvs_finish) \
  X(uvs_forget) \
  X(uvs_has_ref) \
  X(uvs_histogram) \
  X(uvs_ignore_errors) \
  X(uvs_info) \
  X(uvs_inline_executor) \
  X(uvs_is_paused) \
  X(uvs_is_shutdown) \
  X(uvs_is_terminated) \
  X(uvs_is_terminating) \
  X(uvs_lane_add_cleanup) \
  X(uvs_lane_cancel) \
  X(uvs_lane_dispose) \
  X(uvs_lane_finish) \
  X(uvs_lane_is_disposed) \
  X(uvs_lane_open) \
  X(uvs_lane_reschedule) \
  X(uvs_lane_submit) \
  X(uvs_late_name) \
  X(uvs_loop) \
  X(uvs_name) \
  X(uvs_name_stats) \
  X(uvs_next_due) \
  X(uvs_next_runs) \
  X(uvs_now) \
  X(uvs_open) \
  X(uvs_outcome_name) \
  X(uvs_owns_handle) \
  X(uvs_parse_duration) \
  X(uvs_pause) \
  X(uvs_pause_all) \
  X(uvs_post) \
  X(uvs_quantile_ns) \
  X(uvs_queue_abandon) \
  X(uvs_queue_clear) \
  X(uvs_queue_close) \
  X(uvs_queue_consume) \
  X(uvs_queue_contains) \
  X(uvs_queue_drain) \
  X(uvs_queue_dump) \
  X(uvs_queue_each) \
  X(uvs_queue_has_ref) \
  X(uvs_queue_open) \
  X(uvs_queue_peek) \
  X(uvs_queue_poll) \
  X(uvs_queue_poll_within) \
  X(uvs_queue_put) \
  X(uvs_queue_put_at) \
  X(uvs_queue_put_many) \
  X(uvs_queue_ref) \
  X(uvs_queue_release) \
  X(uvs_queue_remove) \
  X(uvs_queue_remove_value) \
  X(uvs_queue_retain) \
  X(uvs_queue_scheduler) \
  X(uvs_queue_size) \
  X(uvs_queue_take) \
  X(uvs_queue_unref) \
  X(uvs_ref) \
  X(uvs_rejection_handler) \
  X(uvs_rejection_policy) \
  X(uvs_release) \
  X(uvs_reschedule) \
  X(uvs_resume) \
  X(uvs_resume_all) \
  X(uvs_retain) \
  X(uvs_run_now) \
  X(uvs_schedule) \
  X(uvs_schedule_at) \
  X(uvs_schedule_at_fixed_rate) \
  X(uvs_schedule_cron) \
  X(uvs_schedule_with_fixed_delay) \
  X(uvs_set_after_shutdown) \
  X(uvs_set_concurrency) \
  X(uvs_set_rejection_policy) \
  X(uvs_set_result) \
  X(uvs_shutdown) \
  X(uvs_shutdown_now) \
  X(uvs_shutdown_within) \
  X(uvs_state_name) \
  X(uvs_stats_write) \
  X(uvs_stats_write_all) \
  X(uvs_strerror) \
  X(uvs_submit) \
  X(uvs_submit_many) \
  X(uvs_threads_close) \
  X(uvs_threads_executor) \
  X(uvs_threads_open) \
  X(uvs_threads_resize) \
  X(uvs_threads_size) \
  X(uvs_trace_close) \
  X(uvs_trace_open) \
  X(uvs_trace_runs) \
  X(uvs_trace_write) \
  X(uvs_unref) \
  X(uvs_version) \
  X(uvs_version_string) \
  X(uvs_wait) \
  X(uvs_wait_terminated) \
  X(uvs_wait_terminated_with) \
  X(uvs_wait_with)

#define NAME(f) #f,
static const char *const names[] = {FUNCTIONS(NAME)}; /* sorted */
#define NAMES (sizeof names / sizeof names[0])

typedef void (*any_function)(void);
#define ADDRESS(f) (any_function)(f),
static const any_function addresses[] = {FUNCTIONS(ADDRESS)};

/* ---------------------------------------------------------------- the lists --- */

static int by_name(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

#define WORDS 256

struct words {
  char text[WORDS][64];
  const char *sorted[WORDS];
  size_t n;
};

static void add_word(struct words *w, const char *from, size_t length) {
  if (w->n == WORDS || length >= sizeof w->text[0])
    return;
  memcpy(w->text[w->n], from, length);
  w->text[w->n][length] = '\0';
  w->sorted[w->n] = w->text[w->n];
  w->n++;
}

static enum greatest_test_res is_our_list(struct words *w) {
  qsort(w->sorted, w->n, sizeof w->sorted[0], by_name);
  for (size_t i = 0; i < NAMES && i < w->n; i++)
    ASSERT_STR_EQ(names[i], w->sorted[i]);
  ASSERT_U64(NAMES, w->n);
  PASS();
}

static size_t name_length(const char *s) {
  return strspn(s, "abcdefghijklmnopqrstuvwxyz_0123456789");
}

TEST every_function_has_an_address(void) {
  for (size_t i = 0; i < NAMES; i++)
    ASSERT(addresses[i] != NULL);
  PASS();
}

TEST the_shared_library_exports_exactly_the_functions_of_the_headers(void) {
  static struct words w;
  char command[PATH_MAX + 64], line[512];
  Dl_info lib;
  FILE *nm;

  w.n = 0;
  void *sym = dlsym(RTLD_DEFAULT, "uvs_open");
  if (sym == NULL || dladdr(sym, &lib) == 0 || strstr(lib.dli_fname, ".so") == NULL)
    SKIPm("where is the library?");
  snprintf(command, sizeof command, "nm -D --defined-only '%s' 2>/dev/null", lib.dli_fname);
  nm = popen(command, "r");
  if (nm == NULL)
    SKIPm("no nm");
  while (fgets(line, sizeof line, nm) != NULL) {
    const char *name = strrchr(line, ' ');
    size_t length = name == NULL ? 0 : strcspn(name + 1, "@\n");

    /* Sanitizers and the linker export names of their own, which begin with an underscore. */
    if (name != NULL && name[1] != '_')
      add_word(&w, name + 1, length);
  }
  if (pclose(nm) != 0)
    SKIPm("no nm");
  CHECK_CALL(is_our_list(&w));
  PASS();
}

/* Declarations start at the beginning of a line. Returns false if the file cannot be read. */
static bool read_header(struct words *w, const char *path) {
  char line[512];
  FILE *in = fopen(path, "r"); /* relative to the build directory, where meson runs us */

  if (in == NULL)
    return false;
  while (fgets(line, sizeof line, in) != NULL) {
    const char *name;

    if (strncmp(line, "UVS_API ", 8) != 0)
      continue;
    name = strstr(line, "uvs_");
    while (name != NULL && name[name_length(name)] != '(') /* a type */
      name = strstr(name + 1, "uvs_");
    if (name != NULL)
      add_word(w, name, name_length(name));
  }
  fclose(in);
  return true;
}

TEST the_headers_declare_exactly_the_functions_tested_here(void) {
  static const char ours[] = "test/lifecycle/test_api.c";
  static const char *const headers[] = {"include/uvsched.h",         "include/uvsched/calendar.h",
                                        "include/uvsched/control.h", "include/uvsched/executor.h",
                                        "include/uvsched/lane.h",    "include/uvsched/outcome.h",
                                        "include/uvsched/queue.h",   "include/uvsched/settings.h",
                                        "include/uvsched/stats.h",   "include/uvsched/trace.h"};
  static struct words w;
  char path[PATH_MAX];
  size_t base = sizeof __FILE__ - sizeof ours;

  w.n = 0;
  if (sizeof __FILE__ < sizeof ours || strcmp(&__FILE__[base], ours) != 0)
    SKIPm("where is the header?");
  for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
    snprintf(path, sizeof path, "%.*s%s", (int)base, __FILE__, headers[i]);
    if (!read_header(&w, path))
      SKIPm("where is the header?");
  }
  CHECK_CALL(is_our_list(&w));
  PASS();
}

/* ---------------------------------------------------------------- each once --- */

struct seen {
  _Atomic int work, after, done, failed, never_ran, all_came, terminated, closed, visited, rc,
      asked;
};

static int work(uvs_run_t *run) {
  struct seen *n = run->arg;

  atomic_fetch_add(&n->work, 1);
  atomic_fetch_add(&n->asked, uvs_cancelled(run));
  return 0;
}

static int after_sets_result(uvs_run_t *run) {
  return uvs_set_result(run, uvs_loop(run->scheduler));
}

static int work_pending(uvs_run_t *run) {
  atomic_fetch_add(&((struct seen *)run->arg)->work, 1);
  return UVS_PENDING;
}

static int work_fails(uvs_run_t *run) {
  (void)run;
  return UV_EIO;
}

static int after(uvs_run_t *run) {
  atomic_fetch_add(&((struct seen *)run->arg)->after, 1);
  return 0;
}

static void done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)s;
  (void)id;
  (void)status;
  atomic_fetch_add(&((struct seen *)arg)->done, 1);
}

static void error(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)id;
  (void)arg;
  (void)status;
  atomic_fetch_add(&((struct seen *)uvs_data(s))->failed, 1);
}

static void never_ran(uvs_t *s, uvs_id_t id, void *task_arg, void *arg) {
  struct seen *n = arg;

  (void)s;
  (void)task_arg;
  atomic_fetch_add(id == 0 ? &n->all_came : &n->never_ran, 1);
}

static void terminated(uvs_t *s) {
  atomic_fetch_add(&((struct seen *)uvs_data(s))->terminated, 1);
}

static void closed(uvs_t *s) {
  atomic_fetch_add(&((struct seen *)uvs_data(s))->closed, 1);
}

static int stop_at_lane(uvs_t *s, const uvs_lane_info_t *info, void *arg) {
  (void)s, (void)arg;
  return info->lane != 0 && !info->disposed ? 77 : 0;
}

static int visit(uvs_t *s, const uvs_info_t *info, void *arg) {
  (void)s;
  (void)info;
  atomic_fetch_add(&((struct seen *)arg)->visited, 1);
  return 0;
}

static int count_bytes(const char *data, size_t size, void *arg) {
  (void)data;
  *(size_t *)arg += size;
  return 0;
}

static void find_ours(uv_handle_t *h, void *arg) {
  uvs_t *s = arg;
  struct seen *n = uvs_data(s);

  atomic_fetch_add(&n->asked, uvs_owns_handle(s, h));
}

struct awaiter {
  uvs_t *s;
  int rc;
};

static void await_main(void *arg) {
  struct awaiter *a = arg;

  a->rc = uvs_wait_terminated(a->s, PATIENCE_NS);
  uvs_release(a->s);
}

static int stop_at_name(uvs_t *s, const uvs_name_stats_t *n, void *arg) {
  (void)s;
  (void)arg;
  return strcmp(n->name, "far") == 0 ? 7 : 0;
}

TEST every_function_does_its_work_through_the_shared_library(void) {
  static struct seen n;
  struct awaiter a;
  uv_thread_t thread;
  uv_loop_t loop;
  uvs_options_t o;
  uvs_task_t t, many[2];
  uvs_info_t info;
  uvs_counts_t counts;
  uvs_trace_run_t recorded;
  size_t recorded_count;
  uvs_histogram_t histogram;
  uvs_name_stats_t by_name;
  size_t bytes = 0;
  uvs_id_t id, pending, ids[2], far;
  uvs_outcome_t outcome;
  int64_t due_ns;
  uint64_t cursor = 0;
  FILE *out = tmpfile();
  uvs_t *s;

  ASSERT_U64(UVS_VERSION_HEX, uvs_version());
  ASSERT_STR_EQ(UVS_VERSION_STRING, uvs_version_string());
  ASSERT_STR_EQ("running", uvs_state_name(UVS_RUNNING));
  ASSERT_STR_EQ("completed", uvs_outcome_name(0));
  ASSERT_STR_EQ(uv_strerror(UV_EPIPE), uvs_strerror(UV_EPIPE));
  ASSERT_STR_EQ("timer", uvs_late_name(UVS_LATE_TIMER));
  ASSERT_U64(1024, uvs_bucket_ns(0));
  ASSERT(out != NULL);
  memset(&n, 0, sizeof n);
  ASSERT_RC(0, uv_loop_init(&loop));
  uvs_options_init(&o);
  o.concurrency = 2;
  o.on_error = error;
  o.on_terminated = terminated;
  o.data = &n;
  o.name = "main";
  ASSERT_RC(0, uvs_open(&loop, &o, &s));
  ASSERT_STR_EQ("main", uvs_name(s));
  ASSERT_EQ(&loop, uvs_loop(s));
  ASSERT_EQ(&n, uvs_data(s));
  ASSERT(uvs_now(s) > 0);
  uv_walk(&loop, find_ours, s);
  ASSERT_RC(2, atomic_exchange(&n.asked, 0));
  ASSERT_RC(2, uvs_concurrency(s));
  ASSERT_RC(0, uvs_set_concurrency(s, 1));
  ASSERT_RC(1, uvs_concurrency(s));
  ASSERT_RC(0, uvs_set_after_shutdown(s, UVS_PERIODIC_TASKS, 1));
  ASSERT_RC(1, uvs_after_shutdown(s, UVS_PERIODIC_TASKS));
  ASSERT_RC(UVS_REJECT_ABORT, uvs_rejection_policy(s));
  ASSERT_RC(0, uvs_set_rejection_policy(s, UVS_REJECT_DISCARD));
  ASSERT_RC(UVS_REJECT_DISCARD, uvs_rejection_policy(s));
  ASSERT(uvs_rejection_handler(s) == NULL);

  ASSERT_RC(0, uvs_execute(s, work, &n));
  ASSERT_RC(0, uvs_schedule(s, UVS_MS(1), work, &n, NULL));
  ASSERT_RC(0, uvs_schedule_at(s, 1, work, &n, NULL));
  ASSERT(turn_loop_until(&loop, &n.work, 3));
  ASSERT_RC(0, uvs_schedule_at_fixed_rate(s, 0, UVS_MS(1), work, &n, &ids[0]));
  ASSERT_RC(0, uvs_schedule_with_fixed_delay(s, 0, UVS_MS(1), work, &n, &ids[1]));
  ASSERT(turn_loop_until(&loop, &n.work, 8));
  ASSERT(uvs_cancel(s, ids[0], 0) >= 0);
  ASSERT(uvs_cancel(s, ids[1], UVS_CANCEL_TOKEN) >= 0);

  uvs_counts_init(&counts);
  do { /* their last runs may not yet have ended, and would be counted below */
    uv_run(&loop, UV_RUN_NOWAIT);
    ASSERT_RC(0, uvs_counts(s, &counts));
  } while (counts.runners > 0);

  uvs_task_init(&t);
  t.work = work_pending;
  t.after = after;
  t.done = done;
  t.arg = &n;
  atomic_store(&n.work, 0);
  ASSERT_RC(0, uvs_submit(s, &t, &pending));
  ASSERT(turn_loop_until(&loop, &n.work, 1));
  ASSERT_RC(0, uvs_finish(s, pending, 0));
  ASSERT(turn_loop_until(&loop, &n.done, 1));
  ASSERT_RC(1, atomic_load(&n.after));
  t.work = work_fails;
  t.after = NULL;
  t.done = NULL;
  many[0] = many[1] = t;
  ASSERT_RC(0, uvs_submit_many(s, many, 2, ids));
  ASSERT(turn_loop_until(&loop, &n.failed, 2));

  t.work = work;
  t.done = done;
  t.name = "far";
  t.first_ns = UVS_HOUR(1);
  ASSERT_RC(0, uvs_submit(s, &t, &id));
  ASSERT_RC(0, uvs_submit(s, &t, &far));
  ASSERT_RC(0, uvs_next_due(s, &due_ns));
  ASSERT(due_ns > uvs_now(s));
  ASSERT_RC(1, uvs_has_ref(s, id));
  ASSERT_RC(0, uvs_unref(s, id));
  ASSERT_RC(0, uvs_has_ref(s, id));
  ASSERT_RC(0, uvs_ref(s, id));
  uvs_info_init(&info);
  ASSERT_RC(0, uvs_info(s, id, &info));
  ASSERT_RC(UVS_WAITING, info.state);
  ASSERT_RC(0, uvs_each(s, visit, &n));
  ASSERT_RC(2, atomic_load(&n.visited));
  ASSERT_RC(0, uvs_each_step(s, &cursor, UINT32_MAX, visit, &n));
  ASSERT_RC(4, atomic_load(&n.visited));
  ASSERT_U64(0, cursor);
  ASSERT_RC(0, uvs_dump(s, out));
  ASSERT(ftell(out) > 0);
  fclose(out);
  ASSERT_RC(0, uvs_reschedule(s, id, 0));
  ASSERT_RC(0, uvs_clock_changed(s));
  ASSERT(turn_loop_until(&loop, &n.done, 2));
  uvs_counts_init(&counts);
  ASSERT_RC(0, uvs_counts(s, &counts));
  ASSERT_U64(2, counts.failed);
  ASSERT_U64(1, counts.waiting);
  uvs_histogram_init(&histogram);
  ASSERT_RC(0, uvs_histogram(s, UVS_STAT_LATE, &histogram));
  ASSERT(uvs_quantile_ns(&histogram, 1) <= (int64_t)histogram.max_ns);
  ASSERT_RC(0, uvs_stats_write(s, UVS_FORMAT_TEXT, count_bytes, &bytes));
  ASSERT(bytes > 0);
  ASSERT_RC(0, uvs_trace_open(s, NULL));
  ASSERT_RC(0, uvs_trace_write(s, UVS_NEVER, 0, count_bytes, &bytes));
  uvs_trace_run_init(&recorded);
  ASSERT_RC(0, uvs_trace_runs(s, UVS_NEVER, &recorded, 1, &recorded_count, NULL));
  ASSERT_U64(0, recorded_count);
  ASSERT_RC(0, uvs_trace_close(s));
  bytes = 0;
  ASSERT_RC(0, uvs_stats_write_all(&s, 1, count_bytes, &bytes));
  ASSERT(bytes > 0);
  uvs_name_stats_init(&by_name);
  ASSERT_RC(0, uvs_name_stats(s, "far", &by_name));
  ASSERT_U64(1, by_name.run.count);
  ASSERT_RC(7, uvs_each_name(s, stop_at_name, NULL));

  t = (uvs_task_t){.size = sizeof t, .after = after_sets_result, .keep_outcome = 1};
  ASSERT_RC(0, uvs_submit(s, &t, &id));
  uvs_outcome_init(&outcome);
  ASSERT_RC(UV_ETIMEDOUT, uvs_wait(s, id, 0, 0, &outcome));
  ASSERT_RC(UVS_EDEADLK, uvs_wait(s, id, UVS_NEVER, 0, &outcome));
  while (uvs_wait(s, id, 0, 0, &outcome) == UV_ETIMEDOUT)
    uv_run(&loop, UV_RUN_NOWAIT);
  ASSERT_EQ(&loop, outcome.result);
  ASSERT_RC(0, uvs_forget(s, id));
  ASSERT_RC(UVS_EDEADLK, uvs_all(s, &t, 1, 0, NULL));
  ASSERT_RC(UVS_EDEADLK, uvs_any(s, &t, 1, 0, NULL, NULL));

  ASSERT_RC(UV_ETIMEDOUT, uvs_wait_terminated(s, 0));
  ASSERT_RC(0, uvs_is_shutdown(s));
  ASSERT_RC(0, uvs_shutdown(s));
  ASSERT_RC(0, uvs_shutdown_within(s, UVS_HOUR(1)));
  ASSERT_RC(1, uvs_is_shutdown(s));
  ASSERT_RC(1, uvs_is_terminating(s));
  ASSERT_RC(0, uvs_is_terminated(s));
  a.s = uvs_retain(s);
  a.rc = UV_EAGAIN;
  ASSERT_RC(0, uv_thread_create(&thread, await_main, &a));
  ASSERT_RC(0, uvs_shutdown_now(s, never_ran, &n));
  ASSERT(turn_loop_until(&loop, &n.terminated, 1));
  uv_thread_join(&thread);
  ASSERT_RC(0, a.rc);
  ASSERT_RC(1, uvs_is_terminated(s));
  ASSERT_RC(1, atomic_load(&n.never_ran));
  ASSERT_RC(1, atomic_load(&n.all_came));
  ASSERT_RC(3, atomic_load(&n.done));
  ASSERT_RC(0, uvs_close(s, closed));
  ASSERT(turn_loop_until(&loop, &n.closed, 1));
  ASSERT_RC(0, uv_loop_close(&loop));
  PASS();
}

static void on_value(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  (void)q;
  (void)e;
  atomic_fetch_add(&((struct seen *)arg)->visited, 1);
}

static int on_entry(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  on_value(q, e, arg);
  return 0;
}

struct taker {
  uvs_queue_t *q;
  uvs_waiter_t waiter;
  uvs_entry_t e;
  int rc;
};

static void take_main(void *arg) {
  struct taker *t = arg;

  t->rc = uvs_queue_take(t->q, &t->waiter, &t->e);
  if (t->rc == UV_EINTR)
    t->rc = uvs_queue_poll_within(t->q, PATIENCE_NS, &t->waiter, &t->e);
  uvs_queue_release(t->q);
}

TEST every_function_of_the_queue_does_its_work_through_the_shared_library(void) {
  static struct seen n;
  static struct taker t;
  uv_thread_t thread;
  uv_loop_t loop;
  uvs_queue_options_t o;
  uvs_entry_t e[2];
  uvs_item_t item;
  FILE *out = tmpfile();
  uvs_options_t so;
  uvs_queue_t *q;
  uvs_t *s;

  ASSERT(out != NULL);
  memset(&n, 0, sizeof n);
  ASSERT_RC(0, uv_loop_init(&loop));
  uvs_options_init(&so);
  so.data = &n;
  ASSERT_RC(0, uvs_open(&loop, &so, &s));
  uvs_queue_options_init(&o);
  o.on_left = on_value;
  o.arg = &n;
  ASSERT_RC(0, uvs_queue_open(s, &o, &q));
  ASSERT_EQ(s, uvs_queue_scheduler(q));
  uv_run(&loop, UV_RUN_NOWAIT);
  ASSERT_RC(1, uvs_queue_has_ref(q));
  ASSERT_RC(0, uvs_queue_unref(q));
  ASSERT_RC(0, uvs_queue_has_ref(q));
  ASSERT_RC(0, uvs_queue_ref(q));

  ASSERT_RC(0, uvs_queue_put(q, &n, UVS_HOUR(1), &item));
  ASSERT_RC(0, uvs_queue_put_at(q, &loop, UVS_NEVER, NULL));
  e[0].value = &n;
  e[1].value = &loop;
  e[0].due_ns = e[1].due_ns = 0;
  ASSERT_RC(0, uvs_queue_put_many(q, e, 2));
  ASSERT_RC(4, uvs_queue_size(q));
  ASSERT_RC(1, uvs_queue_contains(q, &loop));
  ASSERT_RC(0, uvs_queue_peek(q, e));
  ASSERT_RC(0, uvs_queue_poll(q, e));
  ASSERT_EQ((void *)&n, e[0].value);
  ASSERT_RC(1, uvs_queue_drain(q, UVS_QUEUE_ALL, on_value, &n));
  ASSERT_RC(0, uvs_queue_each(q, on_entry, &n));
  ASSERT_RC(3, atomic_exchange(&n.visited, 0));
  ASSERT_RC(0, uvs_queue_dump(q, out));
  ASSERT(ftell(out) > 0);
  fclose(out);
  ASSERT_RC(0, uvs_queue_remove(q, item, NULL));
  ASSERT_RC(0, uvs_queue_remove_value(q, &loop, NULL));
  ASSERT_RC(0, uvs_queue_clear(q, on_value, &n));

  t.q = uvs_queue_retain(q);
  uvs_waiter_init(&t.waiter);
  ASSERT_RC(0, uvs_queue_abandon(q, &t.waiter));
  ASSERT_RC(0, uv_thread_create(&thread, take_main, &t));
  ASSERT_RC(0, uvs_queue_put(q, &t, 0, NULL));
  uv_thread_join(&thread);
  ASSERT_RC(0, t.rc);
  ASSERT_EQ((void *)&t, t.e.value);

  ASSERT_RC(0, uvs_queue_consume(q, on_value, &n));
  ASSERT_RC(0, uvs_queue_put(q, &n, UVS_MS(1), NULL));
  ASSERT(turn_loop_until(&loop, &n.visited, 1));
  ASSERT_RC(0, uvs_queue_put(q, &n, UVS_HOUR(1), NULL));
  ASSERT_RC(0, uvs_queue_close(q));
  ASSERT_RC(2, atomic_load(&n.visited));
  ASSERT_RC(0, uvs_close(s, closed));
  ASSERT(turn_loop_until(&loop, &n.closed, 1));
  ASSERT_RC(0, uv_loop_close(&loop));
  PASS();
}

static void counts_job(void *arg) {
  atomic_fetch_add(&((struct seen *)arg)->work, 1);
}

TEST every_function_of_the_executors_does_its_work_through_the_shared_library(void) {
  const uvs_executor_t *x = uvs_inline_executor();
  uvs_threads_options_t o;
  struct seen n;
  uvs_threads_t *p;

  memset(&n, 0, sizeof n);
  ASSERT_RC(0, x->submit(x->self, counts_job, &n));
  ASSERT_RC(1, atomic_load(&n.work));
  uvs_threads_options_init(&o);
  o.threads = 1;
  ASSERT_RC(0, uvs_threads_open(&o, &p));
  x = uvs_threads_executor(p);
  ASSERT_RC(0, x->submit(x->self, counts_job, &n));
  ASSERT_RC(0, uvs_threads_resize(p, 2));
  ASSERT_RC(2, uvs_threads_size(p));
  ASSERT_RC(0, uvs_threads_close(p));
  ASSERT_RC(2, atomic_load(&n.work));
  PASS();
}

static void on_quiet(uvs_t *s, uvs_lane_t lane, void *arg) {
  (void)s;
  (void)lane;
  atomic_fetch_add(&((struct seen *)arg)->visited, 1);
}

static void on_cleanup(uvs_t *s, void *arg) {
  (void)s;
  atomic_fetch_add(&((struct seen *)arg)->after, 1);
}

TEST every_function_of_the_lane_does_its_work_through_the_shared_library(void) {
  static struct seen n;
  uv_loop_t loop;
  uvs_lane_options_t o;
  uvs_options_t so;
  uvs_lane_t lane, other;
  uvs_id_t id;
  uvs_task_t t;
  uvs_t *s;

  memset(&n, 0, sizeof n);
  ASSERT_RC(0, uv_loop_init(&loop));
  uvs_options_init(&so);
  so.data = &n;
  ASSERT_RC(0, uvs_open(&loop, &so, &s));
  uvs_lane_options_init(&o);
  o.on_quiet = on_quiet;
  o.arg = &n;
  ASSERT_RC(0, uvs_lane_open(s, &o, &lane));
  ASSERT_RC(0, uvs_lane_open(s, NULL, &other));
  ASSERT_RC(0, uvs_lane_is_disposed(lane));
  ASSERT_RC(77, uvs_each_lane(s, stop_at_lane, NULL));
  ASSERT_RC(0, uvs_lane_add_cleanup(s, lane, on_cleanup, &n, 0));

  uvs_task_init(&t);
  t.work = work_pending;
  t.done = done;
  t.arg = &n;
  ASSERT_RC(0, uvs_lane_submit(lane, &t, &id));
  ASSERT(turn_loop_until(&loop, &n.work, 1));
  ASSERT_RC(UV_ENOENT, uvs_lane_finish(other, id, 0));
  ASSERT_RC(0, uvs_lane_finish(lane, id, 0));
  ASSERT(turn_loop_until(&loop, &n.done, 1));

  t.work = work;
  t.lane = lane; /* by the other door */
  t.first_ns = UVS_HOUR(1);
  ASSERT_RC(0, uvs_submit(s, &t, &id));
  ASSERT_RC(UV_ENOENT, uvs_lane_reschedule(other, id, 0));
  ASSERT_RC(0, uvs_lane_reschedule(lane, id, UVS_MS(1)));
  ASSERT(turn_loop_until(&loop, &n.done, 2));
  ASSERT_RC(2, atomic_load(&n.work));
  ASSERT_RC(0, uvs_submit(s, &t, &id));
  ASSERT_RC(UV_ENOENT, uvs_lane_cancel(other, id, 0));
  ASSERT_RC(UVS_CANCELLED, uvs_lane_cancel(lane, id, 0));
  ASSERT_RC(0, uvs_submit(s, &t, &id));
  ASSERT_RC(0, atomic_load(&n.after));
  ASSERT_RC(0, uvs_lane_dispose(lane, UVS_DISPOSE_TOKEN));
  ASSERT_RC(1, uvs_lane_is_disposed(lane));
  ASSERT_RC(UV_ECANCELED, uvs_submit(s, &t, &id));
  ASSERT(turn_loop_until(&loop, &n.visited, 1));
  ASSERT_RC(4, atomic_load(&n.done));
  ASSERT_RC(1, atomic_load(&n.after));
  ASSERT_RC(0, uvs_close(s, closed));
  ASSERT(turn_loop_until(&loop, &n.closed, 1));
  ASSERT_RC(0, uv_loop_close(&loop));
  ASSERT_RC(1, uvs_lane_is_disposed(other));
  ASSERT_RC(UV_ECANCELED, uvs_lane_submit(other, &t, NULL));
  PASS();
}

/* The shared library knows zones only by the files of the system, so this is UTC. */
TEST every_function_of_the_calendar_does_its_work_through_the_shared_library(void) {
  uvs_calendar_options_t o;
  uvs_calendar_error_t error;
  uvs_occurrence_t seen[3];
  uvs_calendar_t *c = NULL;
  int64_t ns;

  uvs_calendar_options_init(&o);
  ASSERT_RC(UV_EINVAL, uvs_calendar_parse("60 * * * *", "UTC", &o, &c, &error));
  ASSERT_STR_EQ("minute 60 is out of range 0-59", error.text);
  ASSERT_EQ(NULL, c);
  ASSERT_RC(0, uvs_calendar_parse("30 9 * * *", "UTC", &o, &c, &error));
  ASSERT_EQ(c, uvs_calendar_retain(c));
  uvs_calendar_release(c);
  ASSERT_STR_EQ("30 9 * * *", uvs_calendar_text(c));
  ASSERT_STR_EQ("UTC", uvs_calendar_zone(c));
  ASSERT_U64(0, uvs_calendar_interval(c));
  ASSERT_U64(UVS_MIN(570), uvs_calendar_next(c, 0));
  ASSERT_U64(UVS_MIN(570), uvs_calendar_previous(c, UVS_DAY(1)));
  ASSERT_RC(1, uvs_calendar_matches(c, UVS_MIN(570)));
  ASSERT_RC(2, uvs_calendar_list(c, 0, UVS_DAY(2), seen, 3));
  ASSERT_U64(UVS_MIN(570), seen[0].utc_ns);
  ASSERT(uvs_calendar_refresh() <= uvs_calendar_refresh());
  uvs_calendar_release(c);
  ASSERT_RC(0, uvs_parse_duration("1h30m", &ns));
  ASSERT_U64(UVS_MIN(90), ns);
  PASS();
}

SUITE(api) {
  RUN_TEST(every_function_has_an_address);
  RUN_TEST(the_shared_library_exports_exactly_the_functions_of_the_headers);
  RUN_TEST(the_headers_declare_exactly_the_functions_tested_here);
  RUN_TEST(every_function_does_its_work_through_the_shared_library);
  RUN_TEST(every_function_of_the_queue_does_its_work_through_the_shared_library);
  RUN_TEST(every_function_of_the_lane_does_its_work_through_the_shared_library);
  RUN_TEST(every_function_of_the_calendar_does_its_work_through_the_shared_library);
  RUN_TEST(every_function_of_the_executors_does_its_work_through_the_shared_library);
}

TEST_MAIN(RUN_SUITE(api));
