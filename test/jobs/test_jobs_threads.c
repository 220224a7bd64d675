/* SPDX-License-Identifier: MIT
 *
 * Many threads at once, on the real clock: calls from any thread, handlers on the pool, and a close
 * that races with both.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine_fixture.h"

#define THREADS 4
#define PUTS 150 /* of each thread */

struct many {
  struct engine *f;
  uint64_t seed;
  _Atomic int accepted, runs[THREADS * PUTS];
  int acknowledged, ended, cancelled, errors; /* on the loop */
  bool all_ended;
  uv_thread_t threads[THREADS];
  struct one {
    struct many *m;
    int number;
  } ones[THREADS];
};

static struct engine *start(void) {
  struct engine *f = engine_new();

  f->real_clock = true;
  f->scheduler.concurrency = 3;
  engine_open(f);
  return f;
}

/* ----------------------------------------------------------------- everything --- */

static void on_wait(uvs_jobs_t *jobs, int status, const uvs_job_info_t *info, void *arg) {
  struct many *m = arg;

  (void)jobs;
  m->errors += status != 0 || (info->state != UVS_JOB_DONE && info->state != UVS_JOB_CANCELLED);
  m->cancelled += status == 0 && info->state == UVS_JOB_CANCELLED;
  m->ended++;
  m->all_ended = m->ended == THREADS * PUTS;
}

static void on_put(uvs_jobs_t *jobs, const uvs_put_result_t *results, size_t n, void *arg) {
  struct many *m = arg;

  for (size_t i = 0; i < n; i++) {
    m->errors += results[i].status != 0;
    m->acknowledged++;
    m->errors += uvs_jobs_wait(jobs, results[i].id, UVS_NEVER, on_wait, m) != 0;
  }
}

static void on_info(uvs_jobs_t *jobs, int status, const uvs_job_info_t *info, void *arg) {
  struct many *m = arg;

  (void)jobs;
  (void)info;
  m->errors += status != 0 && status != UV_ENOENT;
}

static void on_status(uvs_jobs_t *jobs, int status, void *arg) {
  struct many *m = arg;

  (void)jobs;
  m->errors += status != 0 && status != UV_ENOENT && status != UVS_JOB_RUNNING;
}

static int run_one(uvs_job_t *job) {
  struct many *m = job->arg;
  int number;

  memcpy(&number, job->payload, sizeof number);
  switch (number % 5) {
  case 0:
    uvs_job_progress(job, "half", 4);
    break;
  case 1:
    uvs_job_extend(job, UVS_MIN(1));
    break;
  case 2:
    uvs_job_result(job, &number, sizeof number);
    if (job->attempt == 1)
      return UV_EAGAIN; /* again after 1 ms */
    break;
  case 3:
    atomic_fetch_add(&m->runs[number], 1);
    uvs_job_finish(job, 0);
    return UVS_PENDING;
  default:
    break;
  }
  atomic_fetch_add(&m->runs[number], 1);
  return 0;
}

static void make_calls(void *arg) {
  struct one *one = arg;
  struct many *m = one->m;
  uvs_jobs_t *jobs = m->f->nodes[0].jobs;
  uint64_t random = m->seed + (uint64_t)one->number * 77;

  for (int i = 0; i < PUTS; i++) {
    uvs_job_spec_t spec = engine_spec("n", NULL);
    int number = one->number * PUTS + i;
    char rest[20], id[30];

    snprintf(rest, sizeof rest, "%d", number);
    snprintf(id, sizeof id, "n/%d", number);
    spec.id = rest;
    spec.payload = &number;
    spec.payload_size = sizeof number;
    spec.delay_ns = UVS_US((int64_t)test_random_below(&random, 3000));
    if (uvs_jobs_put(jobs, &spec, on_put, m) == 0)
      atomic_fetch_add(&m->accepted, 1);
    switch (test_random_below(&random, 6)) {
    case 0:
      uvs_jobs_cancel(jobs, id, on_status, m);
      break;
    case 1:
      uvs_jobs_get(jobs, id, on_info, m);
      break;
    case 2:
      uvs_jobs_move(jobs, id, UVS_MS(1), 0, on_status, m);
      break;
    case 3:
      uvs_jobs_wake(jobs);
      break;
    default:
      break;
    }
  }
}

/* Q50 Q53 */
TEST calls_from_many_threads_lose_no_job_and_run_none_twice(void) {
  struct engine *f = start();
  struct many m = {.f = f, .seed = test_seed};
  uvs_job_handler_t h = engine_handler();
  int ran = 0;

  h.retry.wait_ns = UVS_MS(1);
  EQ(0, uvs_jobs_handle(f->nodes[0].jobs, "n", run_one, &m, &h));
  for (int i = 0; i < THREADS; i++) {
    m.ones[i] = (struct one){&m, i};
    EQ(0, uv_thread_create(&m.threads[i], make_calls, &m.ones[i]));
  }
  engine_run_until(f, &m.all_ended);
  for (int i = 0; i < THREADS; i++)
    uv_thread_join(&m.threads[i]);
  EQ(THREADS * PUTS, m.accepted);
  EQ(THREADS * PUTS, m.acknowledged);
  EQ(0, m.errors);
  for (int i = 0; i < THREADS * PUTS; i++) {
    ASSERT(m.runs[i] <= 1);
    ran += m.runs[i];
  }
  ASSERT(ran + m.cancelled >= THREADS * PUTS); /* a run that was cancelled may have done its work */
  engine_close(f);
  PASS();
}

/* --------------------------------------------------------------------- flood --- */

#define FLOOD 12      /* puts of UVS_JOBS_PUT_MAX jobs that wait at any time */
#define FLOOD_MAX 300 /* puts until the test gives up */

struct flood {
  uvs_job_spec_t specs[UVS_JOBS_PUT_MAX];
  _Atomic bool ran;
  int puts, waiting; /* on the loop */
  bool ended;
};

static int run_in_flood(uvs_job_t *job) {
  struct flood *flood = job->arg;

  flood->ran = true;
  return 0;
}

static void put_more(uvs_jobs_t *jobs, const uvs_put_result_t *results, size_t n, void *arg) {
  struct flood *flood = arg;

  (void)results;
  flood->waiting -= n > 0;
  while (!flood->ran && flood->puts < FLOOD_MAX && flood->waiting < FLOOD) {
    flood->puts++;
    flood->waiting += uvs_jobs_put_many(jobs, flood->specs, UVS_JOBS_PUT_MAX, put_more, flood) == 0;
  }
  flood->ended = flood->waiting == 0;
}

TEST a_flood_of_puts_keeps_no_job_from_starting(void) {
  struct engine *f = start();
  struct flood *flood = calloc(1, sizeof *flood);
  uvs_job_spec_t spec = engine_spec("n", NULL);

  for (int i = 0; i < UVS_JOBS_PUT_MAX; i++) {
    flood->specs[i] = engine_spec("later", NULL);
    flood->specs[i].delay_ns = UVS_HOUR(1);
  }
  EQ(0, uvs_jobs_handle(f->nodes[0].jobs, "n", run_in_flood, flood, NULL));
  EQ(0, uvs_jobs_put(f->nodes[0].jobs, &spec, NULL, NULL));
  put_more(f->nodes[0].jobs, NULL, 0, flood);
  engine_run_until(f, &flood->ended);
  ASSERT(flood->puts < FLOOD_MAX);
  engine_close(f);
  free(flood);
  PASS();
}

/* --------------------------------------------------------------------- close --- */

static void count_put(uvs_jobs_t *jobs, const uvs_put_result_t *results, size_t n, void *arg) {
  struct many *m = arg;

  (void)jobs;
  m->errors += n != 1 || results[0].status != 0;
  m->acknowledged++;
  m->all_ended = m->acknowledged >= 50; /* now the close comes */
}

static void put_until_shutdown(void *arg) {
  struct one *one = arg;
  uvs_jobs_t *jobs = one->m->f->nodes[0].jobs;
  uvs_job_spec_t spec = engine_spec("n", NULL);
  int rc;

  do {
    rc = uvs_jobs_put(jobs, &spec, count_put, one->m);
    if (rc == 0)
      atomic_fetch_add(&one->m->accepted, 1);
  } while (rc == 0 || rc == UV_EAGAIN);
  while (uvs_jobs_wake(jobs) == 0)
    ;
}

/* The store is there until its callback returns, so the threads may call up to then. */
static void on_closed(uvs_jobs_t *jobs, void *arg) {
  struct many *m = arg;

  for (int i = 0; i < THREADS; i++)
    uv_thread_join(&m->threads[i]);
  m->errors += uvs_jobs_wake(jobs) != UV_ESHUTDOWN;
  m->f->nodes[0].closed = true;
}

static int run_slowly(uvs_job_t *job) {
  return uvs_job_cancelled(job) ? UV_ECANCELED : 0;
}

/* Q6 Q48 Q50 */
TEST a_close_that_races_with_puts_answers_each_accepted_one(void) {
  struct engine *f = start();
  struct many m = {.f = f};

  EQ(0, uvs_jobs_handle(f->nodes[0].jobs, "n", run_slowly, &m, NULL));
  for (int i = 0; i < THREADS; i++) {
    m.ones[i] = (struct one){&m, i};
    EQ(0, uv_thread_create(&m.threads[i], put_until_shutdown, &m.ones[i]));
  }
  engine_run_until(f, &m.all_ended);
  EQ(0, uvs_jobs_close(f->nodes[0].jobs, 0, on_closed, &m));
  engine_run_until(f, &f->nodes[0].closed);
  EQ(m.accepted, m.acknowledged);
  EQ(0, m.errors);
  engine_close(f);
  PASS();
}

struct slow {
  uv_sem_t may_return;
  bool closed;
};

static int finish_and_stay(uvs_job_t *job) {
  struct slow *slow = job->arg;

  uvs_job_finish(job, 0);
  uv_sem_wait(&slow->may_return);
  return UVS_PENDING;
}

static void on_slow_closed(uvs_jobs_t *jobs, void *arg) {
  struct slow *slow = arg;

  (void)jobs;
  slow->closed = true;
}

static void on_finished(uvs_jobs_t *jobs, int status, const uvs_job_info_t *info, void *arg) {
  bool *finished = arg;

  (void)jobs;
  (void)info;
  *finished = status == 0;
}

static void on_timer(uv_timer_t *timer) {
  bool *passed = timer->data;

  *passed = true;
}

/* Q48 */
TEST a_close_waits_for_a_handler_that_has_finished_its_run_but_not_returned(void) {
  struct engine *f = start();
  uvs_jobs_t *jobs = f->nodes[0].jobs;
  uvs_job_spec_t spec = engine_spec("n", "a");
  struct slow slow = {.closed = false};
  bool finished = false, passed = false;
  uv_timer_t timer;
  int64_t due_ns;

  EQ(0, uv_sem_init(&slow.may_return, 0));
  EQ(0, uvs_jobs_handle(jobs, "n", finish_and_stay, &slow, NULL));
  EQ(0, uvs_jobs_put(jobs, &spec, NULL, NULL));
  EQ(0, uvs_jobs_wait(jobs, "n/a", UVS_NEVER, on_finished, &finished));
  engine_run_until(f, &finished);
  EQ(0, uvs_jobs_close(jobs, 0, on_slow_closed, &slow));
  while (uvs_jobs_next_due(jobs, &due_ns) == 0)
    ;
  uv_timer_init(&f->loop, &timer);
  timer.data = &passed;
  uv_timer_start(&timer, on_timer, 50, 0); /* long enough to see that nothing happens */
  engine_run_until(f, &passed);
  uv_close((uv_handle_t *)&timer, NULL);
  ASSERT_FALSE(slow.closed);
  uv_sem_post(&slow.may_return);
  engine_run_until(f, &slow.closed);
  f->nodes[0].closed = true;
  uv_sem_destroy(&slow.may_return);
  engine_close(f);
  PASS();
}

SUITE(threads) {
  RUN_TEST(a_close_waits_for_a_handler_that_has_finished_its_run_but_not_returned);
  RUN_TEST(calls_from_many_threads_lose_no_job_and_run_none_twice);
  RUN_TEST(a_flood_of_puts_keeps_no_job_from_starting);
  RUN_TEST(a_close_that_races_with_puts_answers_each_accepted_one);
}

TEST_MAIN(ON_EVERY_STORE(RUN_SUITE(threads)));
