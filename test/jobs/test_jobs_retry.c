/* SPDX-License-Identifier: MIT
 *
 * How runs end: failures and their waits, dead letters, pending runs, time limits.
 */
#include <string.h>

#include "engine_fixture.h"

/* ---------------------------------------------------------------- back-off --- */

/* Q20 Q21 */
TEST the_wait_doubles_with_each_failure_up_to_its_bound(void) {
  static const int64_t waits_s[] = {1, 2, 4, 8, 10, 10, 10};
  struct engine *f = engine_start();
  uvs_job_handler_t h = engine_handler();

  h.retry.wait_ns = UVS_SEC(1);
  h.retry.max_wait_ns = UVS_SEC(10);
  engine_handle(f, "n", &h)->ret = UV_EIO;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  engine_advance(f, UVS_SEC(1 + 2 + 4 + 8 + 10 + 10 + 10));
  EQ(8, f->n_runs);
  for (int i = 0; i < 7; i++) {
    EQ(waits_s[i], (f->runs[i + 1].wall_ns - f->runs[i].wall_ns) / UVS_SEC(1));
    EQ(i + 1, f->runs[i].attempt);
    EQ(0, f->runs[i].crashes);
  }
  engine_close(f);
  PASS();
}

/* Q20. 200 first waits of 10 s with 30 % of jitter: all within 7 to 10 s, and spread. */
TEST jitter_shortens_waits_within_its_range(void) {
  struct engine *f = engine_start();
  uvs_job_handler_t h = engine_handler();
  int64_t start_ns = engine_wall(f), shortest_ns = UVS_NEVER, longest_ns = 0;

  h.retry.wait_ns = UVS_SEC(10);
  h.retry.jitter_percent = 30;
  h.concurrency = 200;
  engine_handle(f, "n", &h)->ret = UV_EIO;
  for (int i = 0; i < 200; i++)
    EQ(0, engine_put_simple(f, "n", NULL, 0));
  engine_advance(f, UVS_SEC(10));
  EQ(400, f->n_runs);
  for (int i = 200; i < 400; i++) {
    int64_t wait_ns = f->runs[i].wall_ns - start_ns;

    shortest_ns = wait_ns < shortest_ns ? wait_ns : shortest_ns;
    longest_ns = wait_ns > longest_ns ? wait_ns : longest_ns;
  }
  ASSERT(shortest_ns >= UVS_SEC(7) && shortest_ns < UVS_MS(7300));
  ASSERT(longest_ns <= UVS_SEC(10) && longest_ns > UVS_MS(9700));
  engine_close(f);
  PASS();
}

TEST a_job_that_waits_for_a_retry_says_why_it_failed(void) {
  struct engine *f = engine_start();

  engine_handle(f, "n", NULL)->ret = UV_EIO;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  EQ(UVS_JOB_PENDING, engine_state(f, "n/a"));
  EQ(1, f->last.info.attempts);
  EQ(engine_wall(f) + UVS_SEC(1), f->last.info.due_ns);
  SAYS(uvs_strerror(UV_EIO), f->last.error);
  engine_close(f);
  PASS();
}

/* ------------------------------------------------------------ dead letters --- */

static int fail_with_text(struct probe *p, uvs_job_t *job) {
  uvs_job_error(job, "not this");
  uvs_job_error(job, p->data);
  return UV_EIO;
}

/* Q21 Q25 */
TEST after_max_attempts_a_job_becomes_a_dead_letter_with_its_last_reason(void) {
  struct engine *f = engine_start();
  uvs_job_handler_t h = engine_handler();
  uvs_job_spec_t spec = engine_spec("n", "a");
  struct probe *p;

  h.max_attempts = 3;
  p = engine_handle(f, "n", &h);
  p->act = fail_with_text;
  p->data = (void *)(uintptr_t) "the shop is shut";
  spec.payload = "p";
  spec.payload_size = 1;
  EQ(0, engine_put(f, &spec));
  engine_advance(f, UVS_SEC(3) - 1);
  EQ(2, f->n_runs);
  SAYS("", engine_events(f));
  engine_advance(f, UVS_HOUR(2));
  EQ(3, f->n_runs);
  SAYS("dead n/a the shop is shut", engine_events(f));
  EQ(UVS_JOB_DEAD, engine_state(f, "n/a"));
  SAYS("the shop is shut", f->last.error);
  SAYS("p", f->last.payload);
  EQ(3, f->last.info.attempts);
  EQ(0, engine_stats(f));
  EQ(1, f->last.stats.dead);
  EQ(3, f->last.stats.failed);
  EQ(2, f->last.stats.retried);
  EQ(1, f->last.stats.given_up);
  EQ(3, f->last.stats.started);
  EQ(0, f->last.stats.done);
  engine_close(f);
  PASS();
}

TEST the_reason_of_a_failure_without_text_is_the_text_of_its_code(void) {
  struct engine *f = engine_start();
  uvs_job_handler_t h = engine_handler();
  struct probe *p;

  h.max_attempts = 1;
  p = engine_handle(f, "n", &h);
  p->ret = UV_ECONNREFUSED;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  EQ(UVS_JOB_DEAD, engine_state(f, "n/a"));
  SAYS(uvs_strerror(UV_ECONNREFUSED), f->last.error);
  p->ret = 5;
  EQ(0, engine_put_simple(f, "n", "b", 0));
  EQ(UVS_JOB_DEAD, engine_state(f, "n/b"));
  SAYS("the handler returned an unknown positive number", f->last.error);
  engine_close(f);
  PASS();
}

TEST a_reason_that_is_too_long_is_cut_off(void) {
  char text[UVS_JOB_ERROR_MAX + 100];
  struct engine *f = engine_start();
  uvs_job_handler_t h = engine_handler();
  struct probe *p;

  memset(text, 'x', sizeof text);
  text[sizeof text - 1] = '\0';
  h.max_attempts = 1;
  p = engine_handle(f, "n", &h);
  p->act = fail_with_text;
  p->data = text;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  EQ(UVS_JOB_DEAD, engine_state(f, "n/a"));
  EQ(UVS_JOB_ERROR_MAX, strlen(f->last.error));
  engine_close(f);
  PASS();
}

TEST without_a_bound_a_job_is_tried_for_ever(void) {
  struct engine *f = engine_start();
  uvs_job_handler_t h = engine_handler();

  h.max_attempts = 0;
  h.retry.max_wait_ns = UVS_SEC(1);
  engine_handle(f, "n", &h)->ret = UV_EIO;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  engine_advance(f, UVS_SEC(99));
  EQ(100, f->n_runs);
  EQ(100, f->runs[99].attempt);
  engine_close(f);
  PASS();
}

/* Q21 */
TEST a_job_that_gives_up_becomes_a_dead_letter_at_once(void) {
  struct engine *f = engine_start();

  engine_handle(f, "n", NULL)->ret = UVS_JOB_GIVE_UP;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  SAYS("n/a", engine_ran(f));
  SAYS("dead n/a given up by the handler", engine_events(f));
  EQ(UVS_JOB_DEAD, engine_state(f, "n/a"));
  engine_advance(f, UVS_HOUR(2));
  SAYS("", engine_ran(f));
  engine_close(f);
  PASS();
}

/* ---------------------------------------------------------------- retry at --- */

static int retry_in_an_hour(struct probe *p, uvs_job_t *job) {
  return uvs_job_retry_at(job, engine_wall(p->f) + UVS_HOUR(1));
}

/* Q22 */
TEST a_run_that_asks_for_another_instant_is_not_counted(void) {
  struct engine *f = engine_start();
  uvs_job_handler_t h = engine_handler();

  h.max_attempts = 1;
  engine_handle(f, "n", &h)->act = retry_in_an_hour;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  engine_advance(f, UVS_HOUR(1) - 1000);
  EQ(1, f->n_runs);
  engine_advance(f, UVS_HOUR(4));
  EQ(5, f->n_runs);
  EQ(1, f->runs[4].attempt);
  EQ(UVS_JOB_PENDING, engine_state(f, "n/a"));
  EQ(0, f->last.info.attempts);
  engine_close(f);
  PASS();
}

static int retry_after_the_end(struct probe *p, uvs_job_t *job) {
  (void)p;
  return uvs_job_retry_at(job, UVS_JOBS_END_NS);
}

/* Q8 */
TEST retry_at_an_instant_that_cannot_be_stored_is_a_failure(void) {
  struct engine *f = engine_start();
  uvs_job_handler_t h = engine_handler();
  struct probe *p;

  h.max_attempts = 1;
  p = engine_handle(f, "n", &h);
  p->act = retry_after_the_end;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  EQ(UVS_JOB_DEAD, engine_state(f, "n/a"));
  SAYS(uvs_strerror(UV_EINVAL), f->last.error);
  p->act = NULL;
  p->ret = UVS_JOB_RETRY_AT; /* without a call of uvs_job_retry_at */
  EQ(0, engine_put_simple(f, "n", "b", 0));
  EQ(UVS_JOB_DEAD, engine_state(f, "n/b"));
  engine_close(f);
  PASS();
}

/* ------------------------------------------------------------ pending runs --- */

TEST a_run_may_start_when_the_monotonic_clock_reads_0(void) {
  struct engine *f = engine_new();

  f->clock.monotonic_ns = 0;
  engine_open(f);
  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  EQ(UVS_JOB_RUNNING, engine_state(f, "n/a"));
  engine_finish(f, 0, 0);
  EQ(UVS_JOB_DONE, engine_state(f, "n/a"));
  engine_close(f);
  PASS();
}

TEST a_pending_run_ends_with_uvs_job_finish(void) {
  struct engine *f = engine_start();

  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  EQ(UVS_JOB_RUNNING, engine_state(f, "n/a"));
  EQ(UV_EINVAL, uvs_job_finish(f->runs[0].job, UVS_PENDING));
  EQ(UVS_JOB_RUNNING, engine_state(f, "n/a"));
  engine_finish(f, 0, UV_EIO);
  EQ(UVS_JOB_PENDING, engine_state(f, "n/a"));
  engine_advance(f, UVS_SEC(1));
  engine_finish(f, 1, 0);
  EQ(UVS_JOB_DONE, engine_state(f, "n/a"));
  EQ(2, f->last.info.attempts);
  engine_close(f);
  PASS();
}

static int finish_and_return_pending(struct probe *p, uvs_job_t *job) {
  (void)p;
  uvs_job_finish(job, 0);
  return UVS_PENDING;
}

static int finish_and_fail(struct probe *p, uvs_job_t *job) {
  (void)p;
  uvs_job_finish(job, 0);
  return UV_EIO;
}

TEST the_first_end_of_a_run_counts(void) {
  struct engine *f = engine_start();

  engine_handle(f, "n", NULL)->act = finish_and_fail;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  EQ(UVS_JOB_DONE, engine_state(f, "n/a"));
  EQ(0, engine_stats(f));
  EQ(0, f->last.stats.failed);
  EQ(1, f->last.stats.done);
  engine_close(f);
  PASS();
}

static void finish_on_thread(void *job) {
  uvs_job_finish(job, UVS_JOB_GIVE_UP);
}

static int finish_on_another_thread(struct probe *p, uvs_job_t *job) {
  uv_thread_t *thread = p->data;

  if (uv_thread_create(thread, finish_on_thread, job) != 0)
    abort();
  if (p->number == 1)
    uv_thread_join(thread); /* it has finished before the handler returns */
  return UVS_PENDING;
}

TEST a_pending_run_may_finish_before_its_handler_returns_and_on_any_thread(void) {
  struct engine *f = engine_start();
  struct probe *p = engine_handle(f, "n", NULL);
  uv_thread_t thread;

  p->act = finish_and_return_pending;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  EQ(UVS_JOB_DONE, engine_state(f, "n/a"));
  p->act = finish_on_another_thread;
  p->data = &thread;
  p->number = 1;
  EQ(0, engine_put_simple(f, "n", "b", 0));
  EQ(UVS_JOB_DEAD, engine_state(f, "n/b"));
  p->number = 0;
  EQ(0, engine_put_simple(f, "n", "c", 0));
  uv_thread_join(&thread);
  EQ(UVS_JOB_DEAD, engine_state(f, "n/c"));
  SAYS("n/a n/b n/c", engine_ran(f));
  engine_close(f);
  PASS();
}

/* ------------------------------------------------------------- time limits --- */

/* Q23 */
TEST a_run_beyond_its_limit_is_asked_to_stop_and_fails_even_if_it_returns_0(void) {
  struct engine *f = engine_start();
  uvs_job_handler_t h = engine_handler();

  h.limit_ns = UVS_SEC(5);
  engine_handle(f, "n", &h)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  engine_advance(f, UVS_SEC(5) - 1);
  EQ(0, uvs_job_cancelled(f->runs[0].job));
  engine_advance(f, 1);
  EQ(1, uvs_job_cancelled(f->runs[0].job));
  EQ(0, uvs_job_lost(f->runs[0].job));
  engine_finish(f, 0, 0);
  EQ(UVS_JOB_PENDING, engine_state(f, "n/a"));
  EQ(1, f->last.info.attempts);
  SAYS(uvs_strerror(UV_ETIMEDOUT), f->last.error);
  engine_close(f);
  PASS();
}

/* The clock moves inside the handler, so that the store's thread sees the end and the limit at the
 * same time. */
static int take_six_seconds(struct probe *p, uvs_job_t *job) {
  int64_t due_ns;

  if (uvs_jobs_next_due(job->jobs, &due_ns) != 0)
    abort();
  vclock_advance_ns(&p->f->clock, UVS_SEC(6));
  return 0;
}

/* Q23 */
TEST a_success_after_the_limit_fails_even_if_the_timer_has_not_fired(void) {
  struct engine *f = engine_start();
  uvs_job_handler_t h = engine_handler();

  h.limit_ns = UVS_SEC(5);
  engine_handle(f, "n", &h)->act = take_six_seconds;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  EQ(UVS_JOB_PENDING, engine_state(f, "n/a"));
  SAYS(uvs_strerror(UV_ETIMEDOUT), f->last.error);
  engine_close(f);
  PASS();
}

/* The loop is not run while the clock advances, so the handler starts 10 s after the claim. */
TEST the_limit_counts_from_the_start_of_the_handler(void) {
  struct engine *f = engine_start();
  uvs_job_handler_t h = engine_handler();
  uvs_jobs_t *jobs = f->nodes[0].jobs;
  uvs_job_spec_t spec = engine_spec("n", "a");
  int64_t due_ns;

  h.limit_ns = UVS_SEC(4);
  engine_handle(f, "n", &h)->hold = true;
  EQ(0, uvs_jobs_put(jobs, &spec, NULL, NULL));
  for (int i = 0; i < 10; i++) {
    EQ(0, uvs_jobs_next_due(jobs, &due_ns));
    vclock_advance_ns(&f->clock, UVS_SEC(1));
    EQ(0, uvs_jobs_clock_changed(jobs));
  }
  EQ(0, uvs_jobs_next_due(jobs, &due_ns));
  engine_quiesce(f);
  EQ(1, f->n_runs);
  engine_advance(f, UVS_SEC(4) - 1);
  EQ(0, uvs_job_cancelled(f->runs[0].job));
  engine_advance(f, 1);
  EQ(1, uvs_job_cancelled(f->runs[0].job));
  engine_finish(f, 0, 0);
  EQ(0, engine_stats(f));
  EQ(1, f->last.stats.late.count);
  EQ(UVS_SEC(10), f->last.stats.late.max_ns);
  EQ(UVS_SEC(4), f->last.stats.run.max_ns);
  engine_close(f);
  PASS();
}

/* Q23 */
TEST the_lease_of_a_run_beyond_its_limit_is_not_extended_any_more(void) {
  struct engine *f = engine_start();
  uvs_job_handler_t h = engine_handler();
  int64_t start_ns = engine_wall(f);

  h.limit_ns = UVS_SEC(5);
  h.lease_ns = UVS_SEC(9);
  engine_handle(f, "n", &h)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  engine_advance(f, UVS_SEC(11));
  EQ(UVS_JOB_RUNNING, engine_state(f, "n/a"));
  EQ(start_ns + UVS_SEC(3 + 9), f->last.info.due_ns); /* one heartbeat, after 3 s */
  engine_finish(f, 0, 0);
  EQ(UVS_JOB_PENDING, engine_state(f, "n/a"));
  EQ(1, f->last.info.attempts);
  engine_close(f);
  PASS();
}

/* Q23 */
TEST what_a_run_beyond_its_limit_says_does_not_extend_its_lease(void) {
  struct engine *f = engine_start();
  uvs_job_handler_t h = engine_handler();
  int64_t start_ns = engine_wall(f);

  h.limit_ns = UVS_SEC(5);
  h.lease_ns = UVS_SEC(9);
  engine_handle(f, "n", &h)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  engine_advance(f, UVS_SEC(6));
  EQ(0, uvs_job_progress(f->runs[0].job, "half", 4));
  EQ(UV_ETIMEDOUT, uvs_job_extend(f->runs[0].job, UVS_MIN(1)));
  EQ(UVS_JOB_RUNNING, engine_state(f, "n/a"));
  EQ(start_ns + UVS_SEC(3 + 9), f->last.info.due_ns); /* one heartbeat, after 3 s */
  engine_finish(f, 0, 0);
  engine_close(f);
  PASS();
}

SUITE(retry) {
  RUN_TEST(the_wait_doubles_with_each_failure_up_to_its_bound);
  RUN_TEST(jitter_shortens_waits_within_its_range);
  RUN_TEST(a_job_that_waits_for_a_retry_says_why_it_failed);
  RUN_TEST(after_max_attempts_a_job_becomes_a_dead_letter_with_its_last_reason);
  RUN_TEST(the_reason_of_a_failure_without_text_is_the_text_of_its_code);
  RUN_TEST(a_reason_that_is_too_long_is_cut_off);
  RUN_TEST(without_a_bound_a_job_is_tried_for_ever);
  RUN_TEST(a_job_that_gives_up_becomes_a_dead_letter_at_once);
  RUN_TEST(a_run_that_asks_for_another_instant_is_not_counted);
  RUN_TEST(retry_at_an_instant_that_cannot_be_stored_is_a_failure);
  RUN_TEST(a_run_may_start_when_the_monotonic_clock_reads_0);
  RUN_TEST(a_pending_run_ends_with_uvs_job_finish);
  RUN_TEST(the_first_end_of_a_run_counts);
  RUN_TEST(a_pending_run_may_finish_before_its_handler_returns_and_on_any_thread);
  RUN_TEST(a_run_beyond_its_limit_is_asked_to_stop_and_fails_even_if_it_returns_0);
  RUN_TEST(a_success_after_the_limit_fails_even_if_the_timer_has_not_fired);
  RUN_TEST(the_limit_counts_from_the_start_of_the_handler);
  RUN_TEST(the_lease_of_a_run_beyond_its_limit_is_not_extended_any_more);
  RUN_TEST(what_a_run_beyond_its_limit_says_does_not_extend_its_lease);
}

TEST_MAIN(ON_EVERY_STORE(RUN_SUITE(retry)));
