/* SPDX-License-Identifier: MIT
 *
 * The programs of docs/shutdown.md: hand back tasks that never started, shut down with a grace,
 * call from another thread until the scheduler is closed, close a loop that has other handles. */
#include <uvsched.h>
#include <uvsched/stats.h>

#include "expect.h"
#include "virtual_time.h"

struct job {
  int runs, ends, status;
};

static int run_job(uvs_run_t *run) {
  ((struct job *)run->arg)->runs++;
  return 0;
}

static void end_job(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct job *j = arg;
  (void)s, (void)id;
  j->ends++;
  j->status = status;
}

static uvs_task_t task_of(struct job *j, int64_t first_ns) {
  uvs_task_t t;
  uvs_task_init(&t);
  t.first_ns = first_ns;
  t.work = run_job;
  t.done = end_job;
  t.arg = j;
  return t;
}

static uvs_t *open_scheduler(uv_loop_t *loop) {
  uvs_options_t o;
  uvs_t *s;

  EXPECT(uv_loop_init(loop) == 0);
  uvs_options_init(&o);
  o.clock = virtual_clock;
  o.concurrency = 0; /* bodies run on the loop, so this program does the same each time */
  EXPECT(uvs_open(loop, &o, &s) == 0);
  return s;
}

static void close_all(uvs_t *s, uv_loop_t *loop) {
  EXPECT(uvs_close(s, NULL) == 0);
  uv_run(loop, UV_RUN_DEFAULT);
  EXPECT(uv_loop_close(loop) == 0);
}

/* --------------------------------------------------------- what never ran --- */

struct spool {
  struct job *never_ran[8];
  int count, complete;
};

static void on_never_ran(uvs_t *s, uvs_id_t id, void *task_arg, void *arg) {
  struct spool *spool = arg;
  (void)s;
  if (id != 0)
    spool->never_ran[spool->count++] = task_arg; /* its `done` comes right after this */
  else
    spool->complete = 1; /* the last call: these tasks have all had their `done` */
}

static void hand_back(void) {
  struct job later = {0}, beat = {0};
  struct spool spool = {0};
  uvs_task_t t;
  uv_loop_t loop;
  uvs_t *s = open_scheduler(&loop);

  t = task_of(&later, UVS_HOUR(1));
  EXPECT(uvs_submit(s, &t, NULL) == 0);
  t = task_of(&beat, 0);
  t.kind = UVS_FIXED_RATE;
  t.period_ns = UVS_MIN(1);
  EXPECT(uvs_submit(s, &t, NULL) == 0);
  EXPECT(run_for(s, UVS_SEC(90)) == 1);

  EXPECT(uvs_shutdown_now(s, on_never_ran, &spool) == 0);
  EXPECT(uvs_shutdown_now(s, on_never_ran, &spool) == UV_EALREADY);
  EXPECT(spool.complete == 0); /* not from inside the call: on the loop */
  EXPECT(run_for(s, UVS_SEC(1)) == 0);

  EXPECT(spool.complete == 1 && spool.count == 1 && spool.never_ran[0] == &later);
  EXPECT(later.runs == 0 && later.ends == 1 && later.status == UV_ECANCELED);
  EXPECT(beat.runs == 2 && beat.ends == 1 && beat.status == UV_ECANCELED); /* had started */
  EXPECT(uvs_is_terminated(s) == 1);
  close_all(s, &loop);
}

/* ----------------------------------------------------------------- a grace --- */

static void with_a_grace(void) {
  struct job soon = {0}, later = {0};
  int64_t begin_ns;
  uvs_task_t t;
  uv_loop_t loop;
  uvs_t *s = open_scheduler(&loop);

  begin_ns = uvs_now(s);
  t = task_of(&soon, UVS_SEC(10));
  EXPECT(uvs_submit(s, &t, NULL) == 0);
  t = task_of(&later, UVS_HOUR(1));
  EXPECT(uvs_submit(s, &t, NULL) == 0);

  EXPECT(uvs_shutdown_within(s, UVS_SEC(30)) == 0);
  EXPECT(uvs_submit(s, &t, NULL) == UV_ESHUTDOWN);
  EXPECT(run_for(s, UVS_DAY(1)) == 0); /* the loop ends with the last task */

  EXPECT(soon.runs == 1 && soon.status == 0);              /* within the grace */
  EXPECT(later.runs == 0 && later.status == UV_ECANCELED); /* not within it */
  EXPECT(uvs_now(s) - begin_ns == UVS_SEC(30));
  close_all(s, &loop);
}

/* ------------------------------------------------------------ other threads --- */

static int nothing(uvs_run_t *run) {
  (void)run;
  return 0;
}

/* Submits until the scheduler is shut down. Its reference was taken before it started. */
static void produce(void *arg) {
  uvs_t *s = arg;
  uvs_counts_t c;

  while (uvs_execute(s, nothing, NULL) == 0)
    uv_sleep(1);
  EXPECT(uvs_wait_terminated(s, UVS_NEVER) == 0); /* every task has ended */
  uvs_counts_init(&c);
  EXPECT(uvs_counts(s, &c) == 0); /* also after close: the final numbers */
  EXPECT(c.submitted == c.completed + c.cancelled);
  uvs_release(s); /* the last use of s on this thread */
}

static void with_a_producer(void) {
  struct job close_time = {0};
  uv_thread_t producer;
  uvs_task_t t;
  uv_loop_t loop;
  uvs_t *s = open_scheduler(&loop);

  t = task_of(&close_time, UVS_HOUR(1)); /* keeps the loop alive until then */
  EXPECT(uvs_submit(s, &t, NULL) == 0);
  uvs_retain(s);
  EXPECT(uv_thread_create(&producer, produce, s) == 0);
  run_for(s, UVS_HOUR(1));
  EXPECT(close_time.ends == 1);
  close_all(s, &loop);
  EXPECT(uv_thread_join(&producer) == 0);
}

/* ------------------------------------------------------------- all handles --- */

static void close_other(uv_handle_t *h, void *arg) {
  if (!uvs_owns_handle(arg, h) && !uv_is_closing(h))
    uv_close(h, NULL);
}

static void close_the_loop(uv_loop_t *loop, uvs_t *s) {
  uv_walk(loop, close_other, s);
  EXPECT(uvs_close(s, NULL) == 0); /* closes its own handles, when every task has ended */
  uv_run(loop, UV_RUN_DEFAULT);
  EXPECT(uv_loop_close(loop) == 0);
}

static void with_other_handles(void) {
  struct job later = {0};
  uvs_task_t t = task_of(&later, UVS_HOUR(1));
  uv_idle_t idle;
  uv_loop_t loop;
  uvs_t *s = open_scheduler(&loop);

  EXPECT(uvs_submit(s, &t, NULL) == 0);
  EXPECT(uv_idle_init(&loop, &idle) == 0);
  close_the_loop(&loop, s);
  EXPECT(later.runs == 0 && later.ends == 1 && later.status == UV_ECANCELED);
}

int main(void) {
  hand_back();
  with_a_grace();
  with_a_producer();
  with_other_handles();
  printf("each accepted task had exactly one done\n");
  return 0;
}
