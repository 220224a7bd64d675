/* SPDX-License-Identifier: MIT
 *
 * The code of docs/outcomes.md: a thread waits for tasks, takes their results, and abandons a wait.
 * The loop has a thread of its own; the main thread is the one that waits. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <uvsched/outcome.h>
#include <uvsched/stats.h>

#include "expect.h"

static atomic_int results; /* that are allocated */

/* ------------------------------------------------------------------ results --- */

/* Pool thread. */
static int count_words(uvs_run_t *run) {
  const char *line = run->arg;
  int *words = calloc(1, sizeof *words);
  if (words == NULL)
    return UV_ENOMEM;
  atomic_fetch_add(&results, 1);
  for (const char *p = line; *p != '\0'; p++)
    *words += *p != ' ' && (p[1] == ' ' || p[1] == '\0');
  return uvs_set_result(run, words);
}

static void free_words(void *words) {
  atomic_fetch_sub(&results, 1);
  free(words);
}

static uvs_task_t count_task(char *line) {
  uvs_task_t t;
  uvs_task_init(&t);
  t.work = count_words;
  t.arg = line;
  t.keep_outcome = 1;         /* the outcome stays until uvs_forget */
  t.drop_result = free_words; /* of a result that no wait receives */
  return t;
}

static void show_result(uvs_t *s) {
  static char line[] = "to be or not to be";
  uvs_task_t t = count_task(line);
  uvs_outcome_t out;
  uvs_id_t id;

  EXPECT(uvs_submit(s, &t, &id) == 0);
  uvs_outcome_init(&out);
  EXPECT(uvs_wait(s, id, UVS_SEC(60), 0, &out) == 0); /* not the loop thread, not a body */
  EXPECT(out.status == 0 && *(int *)out.result == 6);
  free_words(out.result); /* a result that a wait received belongs to the caller */
  EXPECT(uvs_forget(s, id) == 0);
  EXPECT(uvs_wait(s, id, 0, 0, &out) == UV_ENOENT);

  EXPECT(uvs_submit(s, &t, &id) == 0);
  EXPECT(uvs_forget(s, id) == 0); /* no wait will come: drop_result gets the result */
}

/* --------------------------------------------------------- settled and quiet --- */

struct blocked {
  uv_sem_t started, proceed;
};

static int block(uvs_run_t *run) {
  struct blocked *b = run->arg;
  uv_sem_post(&b->started);
  uv_sem_wait(&b->proceed);
  return 0;
}

static void show_quiet(uvs_t *s) {
  struct blocked b;
  uvs_outcome_t out;
  uvs_task_t t;
  uvs_id_t id;

  EXPECT(uv_sem_init(&b.started, 0) == 0 && uv_sem_init(&b.proceed, 0) == 0);
  uvs_task_init(&t);
  t.work = block;
  t.arg = &b;
  t.keep_outcome = 1;
  EXPECT(uvs_submit(s, &t, &id) == 0);
  uv_sem_wait(&b.started);
  uvs_outcome_init(&out);
  EXPECT(uvs_cancel(s, id, 0) == UVS_CANCELLED_WHILE_RUNNING);
  EXPECT(uvs_wait(s, id, UVS_NEVER, UVS_WAIT_SETTLED, &out) == 0);
  EXPECT(out.status == UV_ECANCELED && out.state == UVS_RUNNING); /* settled, not quiet */
  EXPECT(uvs_wait(s, id, 0, 0, &out) == UV_ETIMEDOUT);
  uv_sem_post(&b.proceed);
  EXPECT(uvs_wait(s, id, UVS_NEVER, 0, &out) == 0);
  EXPECT(out.status == UV_ECANCELED && out.state == UVS_ENDED); /* quiet: b may go */
  EXPECT(uvs_forget(s, id) == 0);
  uv_sem_destroy(&b.started);
  uv_sem_destroy(&b.proceed);
}

/* -------------------------------------------------------------------- groups --- */

static int give_up_when_asked(uvs_run_t *run) {
  while (!uvs_cancelled(run))
    uv_sleep(1);
  return UV_ECANCELED;
}

static void show_all(uvs_t *s) {
  static char lines[3][16] = {"one", "one two", "one two three"};
  uvs_task_t t[3];
  uvs_outcome_t out[3];

  for (int i = 0; i < 3; i++) {
    t[i] = count_task(lines[i]);
    uvs_outcome_init(&out[i]);
  }
  EXPECT(uvs_all(s, t, 3, UVS_SEC(60), out) == 0);
  for (int i = 0; i < 3; i++) {
    EXPECT(out[i].status == 0 && *(int *)out[i].result == i + 1);
    free_words(out[i].result);
  }
}

static void show_any(uvs_t *s) {
  static char line[] = "quick";
  uvs_task_t t[2];
  uvs_outcome_t out;
  size_t winner;

  uvs_task_init(&t[0]);
  t[0].work = give_up_when_asked;
  t[1] = count_task(line);
  uvs_outcome_init(&out);
  EXPECT(uvs_any(s, t, 2, UVS_SEC(60), &winner, &out) == 0);
  EXPECT(winner == 1 && *(int *)out.result == 1);
  free_words(out.result); /* t[0] was asked to stop, and its body has returned */
}

/* ------------------------------------------------------------------- abandon --- */

struct waiting {
  uvs_t *scheduler;
  uvs_waiter_t waiter;
};

static void interrupt(void *arg) {
  struct waiting *w = arg;
  EXPECT(uvs_abandon(w->scheduler, &w->waiter) >= 0);
}

static void show_abandon(uvs_t *s) {
  static char line[] = "later";
  struct waiting w = {.scheduler = s};
  uvs_task_t t = count_task(line);
  uv_thread_t thread;
  uvs_id_t id;

  t.first_ns = UVS_HOUR(1);
  EXPECT(uvs_submit(s, &t, &id) == 0);
  uvs_waiter_init(&w.waiter);
  EXPECT(uv_thread_create(&thread, interrupt, &w) == 0);
  EXPECT(uvs_wait_with(s, id, UVS_NEVER, 0, &w.waiter, NULL) == UV_EINTR);
  EXPECT(uv_thread_join(&thread) == 0);
  EXPECT(uvs_cancel(s, id, 0) == UVS_CANCELLED); /* the wait left the task alone */
  EXPECT(uvs_forget(s, id) == 0);
}

/* ----------------------------------------------------------------- clean-ups --- */

struct steps {
  char log[8]; /* on the loop thread */
  uv_sem_t done;
};

static void first(uvs_t *s, void *arg) {
  (void)s;
  strcat(((struct steps *)arg)->log, "1");
}

static void second(uvs_t *s, void *arg) {
  (void)s;
  strcat(((struct steps *)arg)->log, "2");
}

static void on_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct steps *x = arg;
  (void)s, (void)id, (void)status;
  strcat(x->log, "d");
  uv_sem_post(&x->done);
}

static void show_cleanups(uvs_t *s) {
  struct steps x = {.log = ""};
  uvs_task_t t;
  uvs_id_t id;

  EXPECT(uv_sem_init(&x.done, 0) == 0);
  uvs_task_init(&t);
  t.first_ns = UVS_HOUR(1);
  t.work = give_up_when_asked;
  t.done = on_done;
  t.arg = &x;
  EXPECT(uvs_submit(s, &t, &id) == 0);
  EXPECT(uvs_add_cleanup(s, id, first, &x, 0) == 0);
  EXPECT(uvs_add_cleanup(s, id, second, &x, 0) == 0);
  EXPECT(uvs_cancel(s, id, 0) == UVS_CANCELLED);
  uv_sem_wait(&x.done);
  EXPECT(strcmp(x.log, "12d") == 0);
  uv_sem_destroy(&x.done);
}

/* ----------------------------------------------------- a loop on its own thread --- */

struct harness {
  uvs_t *scheduler;
  uv_sem_t opened;
};

static void run_loop(void *arg) {
  struct harness *h = arg;
  uvs_options_t o;
  uv_loop_t loop;

  uvs_options_init(&o);
  o.keep_alive = UVS_KEEP_ALIVE_ALWAYS; /* all tasks come from another thread */
  EXPECT(uv_loop_init(&loop) == 0);
  EXPECT(uvs_open(&loop, &o, &h->scheduler) == 0);
  uvs_retain(h->scheduler); /* for the main thread, which may still be in a call at close */
  uv_sem_post(&h->opened);
  uv_run(&loop, UV_RUN_DEFAULT);
  EXPECT(uvs_close(h->scheduler, NULL) == 0);
  uv_run(&loop, UV_RUN_DEFAULT);
  EXPECT(uv_loop_close(&loop) == 0);
}

int main(void) {
  struct harness h;
  uv_thread_t thread;

  setenv("UV_THREADPOOL_SIZE", "4", 1); /* uvs_any needs two bodies at once here */
  EXPECT(uv_sem_init(&h.opened, 0) == 0);
  EXPECT(uv_thread_create(&thread, run_loop, &h) == 0);
  uv_sem_wait(&h.opened);
  show_result(h.scheduler);
  show_quiet(h.scheduler);
  show_all(h.scheduler);
  show_any(h.scheduler);
  show_abandon(h.scheduler);
  show_cleanups(h.scheduler);
  EXPECT(uvs_shutdown(h.scheduler) == 0);
  EXPECT(uv_thread_join(&thread) == 0);
  EXPECT(atomic_load(&results) == 0); /* each result was received or dropped, once */
  uvs_release(h.scheduler);
  uv_sem_destroy(&h.opened);
  return 0;
}
