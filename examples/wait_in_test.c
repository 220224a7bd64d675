/* SPDX-License-Identifier: MIT
 *
 * How a unit test waits for tasks on a loop. The test is the main thread, and the loop has a thread
 * of its own. One test uses real time, the other a clock that the test moves. */
#include <uvsched.h>
#include <uvsched/outcome.h>

#include "expect.h"
#include "virtual_time.h"

/* ----------------------------------------------------- what is to be tested --- */

struct text {
  const char *line;
  int words;
};

static int count_words(uvs_run_t *run) {
  struct text *x = run->arg;
  for (const char *p = x->line; *p != '\0'; p++)
    x->words += *p != ' ' && (p[1] == ' ' || p[1] == '\0');
  return uvs_set_result(run, &x->words);
}

static int count_later(uvs_t *s, int64_t delay_ns, struct text *x, uvs_id_t *ret_id) {
  uvs_task_t t;
  uvs_task_init(&t);
  t.first_ns = delay_ns;
  t.work = count_words;
  t.arg = x;
  t.keep_outcome = 1; /* the outcome stays until uvs_forget */
  return uvs_submit(s, &t, ret_id);
}

/* ------------------------------------------- a loop on a thread of its own --- */

struct harness {
  uvs_options_t options;
  uvs_t *scheduler;
  uv_sem_t opened;
  uv_thread_t thread;
};

static void run_loop(void *arg) {
  struct harness *h = arg;
  uv_loop_t loop;

  EXPECT(uv_loop_init(&loop) == 0);
  EXPECT(uvs_open(&loop, &h->options, &h->scheduler) == 0);
  uvs_retain(h->scheduler); /* for the test, which may still be in a call when this thread closes */
  uv_sem_post(&h->opened);
  uv_run(&loop, UV_RUN_DEFAULT); /* returns after the test has shut the scheduler down */
  EXPECT(uvs_close(h->scheduler, NULL) == 0);
  uv_run(&loop, UV_RUN_DEFAULT);
  EXPECT(uv_loop_close(&loop) == 0);
}

static uvs_t *set_up(struct harness *h, const uvs_clock_t *clock) {
  uvs_options_init(&h->options);
  h->options.keep_alive = UVS_KEEP_ALIVE_ALWAYS; /* the loop waits for what the test submits */
  h->options.concurrency = 1;
  if (clock != NULL)
    h->options.clock = *clock;
  EXPECT(uv_sem_init(&h->opened, 0) == 0);
  EXPECT(uv_thread_create(&h->thread, run_loop, h) == 0);
  uv_sem_wait(&h->opened);
  return h->scheduler;
}

static void tear_down(struct harness *h) {
  EXPECT(uvs_shutdown(h->scheduler) == 0);
  EXPECT(uv_thread_join(&h->thread) == 0);
  uvs_release(h->scheduler);
  uv_sem_destroy(&h->opened);
}

/* -------------------------------------------------------------- real time --- */

static void test_words_are_counted(void) {
  struct text x = {.line = "to be or not to be"};
  struct harness h;
  uvs_t *s = set_up(&h, NULL);
  uvs_outcome_t out;
  uvs_id_t id;

  EXPECT(count_later(s, UVS_MS(10), &x, &id) == 0);
  uvs_outcome_init(&out);
  EXPECT(uvs_wait(s, id, UVS_SEC(20), 0, &out) == 0); /* returns as soon as the task is over */
  EXPECT(out.status == 0 && *(int *)out.result == 6);
  EXPECT(uvs_forget(s, id) == 0);
  tear_down(&h);
}

static void test_wait_gives_up(void) {
  struct text x = {.line = "later"};
  struct harness h;
  uvs_t *s = set_up(&h, NULL);
  uvs_outcome_t out;
  uvs_id_t id;

  EXPECT(count_later(s, UVS_HOUR(1), &x, &id) == 0);
  uvs_outcome_init(&out);
  EXPECT(uvs_wait(s, id, UVS_MS(10), 0, &out) == UV_ETIMEDOUT);
  EXPECT(uvs_cancel(s, id, UVS_CANCEL_TOKEN) >= 0); /* x may be freed when the task is quiet: */
  EXPECT(uvs_wait(s, id, UVS_NEVER, 0, &out) == 0);
  EXPECT(out.status == UV_ECANCELED && out.runs == 0 && x.words == 0);
  EXPECT(uvs_forget(s, id) == 0);
  tear_down(&h);
}

/* -------------------------------------------------------- without real time --- */

static int nothing(uvs_run_t *run) {
  (void)run;
  return 0;
}

/* Returns when all due tasks have run: the task that is submitted here comes after them. */
static void let_it_run(uvs_t *s) {
  uvs_task_t t;
  uvs_task_init(&t);
  t.work = nothing;
  EXPECT(uvs_all(s, &t, 1, UVS_SEC(20), NULL) == 0);
}

static void test_words_are_counted_in_an_hour(void) {
  struct text x = {.line = "to be or not to be"};
  struct harness h;
  uvs_t *s = set_up(&h, &virtual_clock);
  int64_t begin_ns = uvs_now(s);
  uvs_outcome_t out;
  uvs_id_t id;

  EXPECT(count_later(s, UVS_HOUR(1), &x, &id) == 0);
  uvs_outcome_init(&out);
  pass_ns(s, UVS_HOUR(1) - 1);
  let_it_run(s);
  EXPECT(uvs_wait(s, id, 0, 0, &out) == UV_ETIMEDOUT); /* not a nanosecond early */
  pass_ns(s, 1);
  EXPECT(uvs_wait(s, id, UVS_SEC(20), 0, &out) == 0);
  EXPECT(out.start_ns - begin_ns == UVS_HOUR(1) && *(int *)out.result == 6);
  EXPECT(uvs_forget(s, id) == 0);
  tear_down(&h);
}

int main(void) {
  test_words_are_counted();
  test_wait_gives_up();
  test_words_are_counted_in_an_hour();
  printf("3 passed\n");
  return 0;
}
