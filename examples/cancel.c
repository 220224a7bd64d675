/* SPDX-License-Identifier: MIT
 *
 * uvs_cancel says what became of the task: never run, or cancelled while its body was running. The
 * answer is final when the call returns, on any thread. Here the loop runs in the main thread, and
 * another thread cancels. */
#include <uvsched.h>
#include <uvsched/stats.h>

#include "expect.h"

struct job {
  const char *name;
  uvs_id_t id;
  uv_sem_t started, go, over;
  int runs;
  int saw_token;
  int status; /* the status that `done` got */
};

/* Runs until the other thread lets it go on, and notes whether it was asked to stop. */
static int body(uvs_run_t *run) {
  struct job *j = run->arg;
  j->runs++;
  uv_sem_post(&j->started);
  uv_sem_wait(&j->go);
  j->saw_token = uvs_cancelled(run);
  return 0;
}

/* Runs until its token is raised. */
static int polite_body(uvs_run_t *run) {
  struct job *j = run->arg;
  j->runs++;
  uv_sem_post(&j->started);
  while (!uvs_cancelled(run))
    uv_sleep(1);
  j->saw_token = 1;
  return 0;
}

static void job_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct job *j = arg;
  (void)s, (void)id;
  j->status = status;
  printf("    done, on the loop: %s: %s after %d runs\n", j->name,
         status == 0 ? "completed" : uvs_strerror(status), j->runs);
  uv_sem_post(&j->over);
}

static void submit(uvs_t *s, struct job *j, const char *name, int64_t delay_ns, uvs_work_cb work) {
  uvs_task_t t;
  memset(j, 0, sizeof *j);
  j->name = name;
  EXPECT(uv_sem_init(&j->started, 0) == 0);
  EXPECT(uv_sem_init(&j->go, 0) == 0);
  EXPECT(uv_sem_init(&j->over, 0) == 0);
  uvs_task_init(&t);
  t.kind = UVS_FIXED_DELAY; /* periodic, so that the check can see that no run follows */
  t.first_ns = delay_ns;
  t.period_ns = UVS_MS(1);
  t.work = work;
  t.done = job_done;
  t.arg = j;
  t.name = name;
  EXPECT(uvs_submit(s, &t, &j->id) == 0);
}

/* `done` is the last use of the job, so its memory may be freed after this. */
static void await_done(struct job *j, int runs, int saw_token, int status) {
  uv_sem_wait(&j->over);
  EXPECT(j->runs == runs && j->saw_token == saw_token && j->status == status);
  uv_sem_destroy(&j->started);
  uv_sem_destroy(&j->go);
  uv_sem_destroy(&j->over);
}

static const char *receipt_name(int code) {
  switch (code) {
  case UVS_CANCELLED:
    return "UVS_CANCELLED";
  case UVS_CANCELLED_WHILE_RUNNING:
    return "UVS_CANCELLED_WHILE_RUNNING";
  case UVS_CANCELLED_BEFORE:
    return "UVS_CANCELLED_BEFORE";
  default:
    return uv_err_name(code);
  }
}

static void cancel(uvs_t *s, uvs_id_t id, unsigned flags, const char *what, int expected) {
  int code = uvs_cancel(s, id, flags);
  printf("  %-52s -> %s\n", what, receipt_name(code));
  EXPECT(code == expected);
}

static void canceller(void *arg) {
  uvs_t *s = arg;
  struct job j;

  printf("a task that waits, due in an hour\n");
  submit(s, &j, "waiting", UVS_HOUR(1), body);
  cancel(s, j.id, 0, "cancel", UVS_CANCELLED);
  await_done(&j, 0, 0, UV_ECANCELED); /* `done` comes now, not in an hour */
  cancel(s, j.id, 0, "cancel it again", UV_ENOENT);

  printf("a task in the middle of a run\n");
  submit(s, &j, "running", 0, body);
  uv_sem_wait(&j.started);
  cancel(s, j.id, UVS_CANCEL_IF_WAITING, "cancel, but only if it waits", UV_EBUSY);
  cancel(s, j.id, 0, "cancel", UVS_CANCELLED_WHILE_RUNNING);
  cancel(s, j.id, 0, "cancel it again", UVS_CANCELLED_BEFORE);
  uv_sem_post(&j.go);
  await_done(&j, 1, 0, UV_ECANCELED); /* the body was not disturbed, and no run followed */

  printf("a body that polls its token\n");
  submit(s, &j, "polite", 0, polite_body);
  uv_sem_wait(&j.started);
  cancel(s, j.id, 0, "cancel: it does not notice", UVS_CANCELLED_WHILE_RUNNING);
  cancel(s, j.id, UVS_CANCEL_TOKEN, "cancel with token: it ends early", UVS_CANCELLED_BEFORE);
  await_done(&j, 1, 1, UV_ECANCELED);

  printf("ids that name nothing\n");
  cancel(s, j.id, 0, "a task that is over", UV_ENOENT);
  cancel(s, 0, 0, "0, which names no task", UV_ENOENT);
  cancel(s, 123456789, 0, "a number that was never given", UV_ENOENT);

  EXPECT(uvs_shutdown(s) == 0);
}

int main(void) {
  uv_loop_t *loop = uv_default_loop();
  uv_thread_t thread;
  uvs_counts_t c;
  uvs_options_t o;
  uvs_t *s;

  setvbuf(stdout, NULL, _IOLBF, 0);
  uvs_options_init(&o);
  o.keep_alive = UVS_KEEP_ALIVE_ALWAYS; /* the loop waits for tasks from another thread */
  EXPECT(uvs_open(loop, &o, &s) == 0);
  EXPECT(uv_thread_create(&thread, canceller, s) == 0);
  uv_run(loop, UV_RUN_DEFAULT); /* returns after the other thread's shutdown */
  EXPECT(uv_thread_join(&thread) == 0);

  uvs_counts_init(&c);
  EXPECT(uvs_counts(s, &c) == 0);
  printf("%d tasks submitted, %d cancelled, %d runs\n", (int)c.submitted, (int)c.cancelled,
         (int)c.runs);
  EXPECT(c.submitted == 3 && c.cancelled == 3 && c.completed == 0 && c.runs == 2);
  EXPECT(uvs_close(s, NULL) == 0);
  uv_run(loop, UV_RUN_DEFAULT);
  EXPECT(uv_loop_close(loop) == 0);
  return 0;
}
