/* SPDX-License-Identifier: MIT
 *
 * How many runners? A short body, due at 2 s, is submitted first. Then follow an endless body, due
 * at 1 s, and immediately an orderly shutdown.
 *
 *   1 runner    the endless body starts at 1 s (the later submission re-armed the timer to a nearer
 *               head) and keeps the only runner, so the short one never starts; orderly shutdown
 *               neither drops what was accepted nor ends what runs
 *   2 runners   both run
 *   0 runners   bodies run on the loop: as with 1, and the loop itself is blocked
 *
 * Then the main thread calls uvs_shutdown_now. The endless body sees its token even if its loop is
 * blocked, because raising a token does not need the loop.
 *
 *   pool_size [--fast]     --fast: all times divided by 20 */
#include <stdatomic.h>
#include <uvsched.h>
#include <uvsched/stats.h>

#include "expect.h"

struct lab {
  int concurrency;
  int64_t second_ns;
  int64_t origin_ns;
  uvs_t *scheduler; /* the main thread's own reference */
  uvs_id_t short_id;
  uv_sem_t submitted, endless_started, short_ran;
  atomic_int short_runs;
  int short_status, endless_status;
  int handed_back;
};

/* One printf per line: lines of several threads never mix. */
static void say(const struct lab *lab, int64_t at_ns, const char *where, const char *what) {
  printf("  %6.3f s  %-8s  %s\n", (double)(at_ns - lab->origin_ns) / 1e9, where, what);
}

static const char *where(const uvs_run_t *run) {
  static const char *const runners[] = {"runner 0", "runner 1"};
  return run->runner == UVS_ON_LOOP ? "loop" : runners[run->runner];
}

static int endless_body(uvs_run_t *run) {
  struct lab *lab = run->arg;
  say(lab, run->start_ns, where(run), "endless: starts");
  EXPECT(run->start_ns - lab->origin_ns >= lab->second_ns);
  uv_sem_post(&lab->endless_started);
  while (!uvs_cancelled(run))
    uv_sleep(1);
  say(lab, uvs_now(run->scheduler), where(run), "endless: sees its token and ends");
  return 0;
}

static int short_body(uvs_run_t *run) {
  struct lab *lab = run->arg;
  say(lab, run->start_ns, where(run), "short: runs");
  EXPECT(run->start_ns - lab->origin_ns >= 2 * lab->second_ns);
  atomic_fetch_add(&lab->short_runs, 1);
  uv_sem_post(&lab->short_ran);
  return 0;
}

static void endless_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct lab *lab = arg;
  (void)id;
  lab->endless_status = status;
  say(lab, uvs_now(s), "loop", status == 0 ? "endless: done" : "endless: done, failed");
}

static void short_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct lab *lab = arg;
  (void)id;
  lab->short_status = status;
  say(lab, uvs_now(s), "loop", status == 0 ? "short: done" : "short: done, cancelled");
}

static void never_ran(uvs_t *s, uvs_id_t id, void *task_arg, void *arg) {
  struct lab *lab = arg;
  if (id == 0)
    return; /* the last call: no more tasks follow */
  EXPECT(id == lab->short_id && task_arg == lab);
  lab->handed_back++;
  say(lab, uvs_now(s), "loop", "short: handed back, it never started");
}

static void loop_thread(void *arg) {
  struct lab *lab = arg;
  uv_loop_t loop;
  uvs_options_t o;
  uvs_task_t t;
  uvs_t *s;

  EXPECT(uv_loop_init(&loop) == 0);
  uvs_options_init(&o);
  o.concurrency = lab->concurrency;
  EXPECT(uvs_open(&loop, &o, &s) == 0);
  lab->origin_ns = uvs_now(s);

  uvs_task_init(&t);
  t.arg = lab;
  t.first_ns = 2 * lab->second_ns;
  t.work = short_body;
  t.done = short_done;
  EXPECT(uvs_submit(s, &t, &lab->short_id) == 0);
  t.first_ns = lab->second_ns;
  t.work = endless_body;
  t.done = endless_done;
  EXPECT(uvs_submit(s, &t, NULL) == 0);
  EXPECT(uvs_shutdown(s) == 0);
  say(lab, uvs_now(s), "loop", "both submitted, and shut down in order");

  lab->scheduler = uvs_retain(s); /* the main thread may be in a call at close */
  uv_sem_post(&lab->submitted);
  uv_run(&loop, UV_RUN_DEFAULT);
  EXPECT(uvs_close(s, NULL) == 0);
  uv_run(&loop, UV_RUN_DEFAULT);
  EXPECT(uv_loop_close(&loop) == 0);
}

static void experiment(int concurrency, int64_t second_ns) {
  struct lab lab = {.concurrency = concurrency, .second_ns = second_ns};
  uv_thread_t thread;
  uvs_info_t info;
  char line[100];

  printf("concurrency %d\n", concurrency);
  EXPECT(uv_sem_init(&lab.submitted, 0) == 0);
  EXPECT(uv_sem_init(&lab.endless_started, 0) == 0);
  EXPECT(uv_sem_init(&lab.short_ran, 0) == 0);
  EXPECT(uv_thread_create(&thread, loop_thread, &lab) == 0);

  uv_sem_wait(&lab.submitted);
  uv_sem_wait(&lab.endless_started);
  if (concurrency == 2)
    uv_sem_wait(&lab.short_ran);
  while (uvs_now(lab.scheduler) < lab.origin_ns + 3 * second_ns)
    uv_sleep(1);

  EXPECT(uvs_is_terminating(lab.scheduler) == 1);
  if (concurrency == 2) {
    say(&lab, uvs_now(lab.scheduler), "main", "short has run, endless runs, not terminated");
  } else {
    uvs_info_init(&info);
    EXPECT(uvs_info(lab.scheduler, lab.short_id, &info) == 0);
    snprintf(line, sizeof line, "short is %s with %d runs, endless runs, not terminated",
             uvs_state_name(info.state), (int)info.runs);
    say(&lab, uvs_now(lab.scheduler), "main", line);
    EXPECT(info.runs == 0 && atomic_load(&lab.short_runs) == 0);
  }
  say(&lab, uvs_now(lab.scheduler), "main", "uvs_shutdown_now");
  EXPECT(uvs_shutdown_now(lab.scheduler, never_ran, &lab) == 0);

  EXPECT(uv_thread_join(&thread) == 0);
  /* The scheduler is closed, but with a reference the call is still safe. */
  EXPECT(uvs_cancel(lab.scheduler, lab.short_id, 0) == UV_ESHUTDOWN);
  uvs_release(lab.scheduler);
  EXPECT(lab.endless_status == 0);
  EXPECT(lab.short_status == (concurrency == 2 ? 0 : UV_ECANCELED));
  EXPECT(atomic_load(&lab.short_runs) == (concurrency == 2));
  EXPECT(lab.handed_back == (concurrency != 2));
  uv_sem_destroy(&lab.submitted);
  uv_sem_destroy(&lab.endless_started);
  uv_sem_destroy(&lab.short_ran);
  printf("\n");
}

int main(int argc, char **argv) {
  int64_t second_ns = UVS_SEC(1) / (argc > 1 && strcmp(argv[1], "--fast") == 0 ? 20 : 1);

  setenv("UV_THREADPOOL_SIZE", "4", 1); /* libuv reads it once, at the pool's first use */
  setvbuf(stdout, NULL, _IOLBF, 0);
  experiment(1, second_ns);
  experiment(2, second_ns);
  experiment(0, second_ns);
  return 0;
}
