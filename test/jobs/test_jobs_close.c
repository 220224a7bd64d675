/* SPDX-License-Identifier: MIT
 *
 * Closing a store while calls and handlers are in progress, and a scheduler that ends before its
 * store.
 */
#include <string.h>

#include <uvsched/settings.h>

#include "engine_fixture.h"

/* ------------------------------------------------------------------ calls --- */

static int calls_before_close;

static void count_put(uvs_jobs_t *jobs, const uvs_put_result_t *results, size_t n, void *arg) {
  struct engine *f = arg;

  (void)jobs;
  (void)n;
  calls_before_close += results[0].status == 0 && f->nodes[0].close_calls == 0;
}

/* Q6 Q48 */
TEST a_close_carries_out_what_was_accepted_and_its_callback_is_the_last(void) {
  struct engine *f = engine_start();
  uvs_job_spec_t spec = engine_spec("n", NULL);
  struct answer a;

  EQ(1, engine_open_node(f));
  calls_before_close = 0;
  answer_init(&a, f);
  for (int i = 0; i < 1000; i++)
    EQ(0, uvs_jobs_put(f->nodes[0].jobs, &spec, count_put, f));
  EQ(0, uvs_jobs_cancel(f->nodes[0].jobs, "n/none", answer_status, &a));
  EQ(0, engine_begin_close(f, 0, 0));
  engine_close_node(f, 0, 0);
  EQ(1000, calls_before_close);
  EQ(UV_ENOENT, a.status);
  f->to = 1;
  EQ(0, engine_stats(f));
  EQ(1000, f->last.stats.pending);
  engine_close(f);
  PASS();
}

/* Q48 */
TEST a_store_that_is_being_closed_accepts_nothing(void) {
  struct engine *f = engine_start();
  uvs_jobs_t *jobs = f->nodes[0].jobs;
  uvs_job_spec_t spec = engine_spec("n", NULL);
  uvs_job_cron_t c = engine_cron_spec("c", "@hourly");
  uvs_job_queue_t q = engine_queue("n");

  EQ(0, engine_begin_close(f, 0, 0));
  EQ(UV_EALREADY, engine_begin_close(f, 0, 0));
  EQ(UV_ESHUTDOWN, uvs_jobs_put(jobs, &spec, NULL, NULL));
  EQ(UV_ESHUTDOWN, uvs_jobs_handle(jobs, "n", engine_probe_run, NULL, NULL));
  EQ(UV_ESHUTDOWN, uvs_jobs_cancel(jobs, "n/a", NULL, NULL));
  EQ(UV_ESHUTDOWN, uvs_jobs_move(jobs, "n/a", 0, 0, NULL, NULL));
  EQ(UV_ESHUTDOWN, uvs_jobs_get(jobs, "n/a", NULL, NULL));
  EQ(UV_ESHUTDOWN, uvs_jobs_wait(jobs, "n/a", 0, NULL, NULL));
  EQ(UV_ESHUTDOWN, uvs_jobs_cron(jobs, &c, NULL, NULL, NULL, 0));
  EQ(UV_ESHUTDOWN, uvs_jobs_remove_cron(jobs, "c", NULL, NULL));
  EQ(UV_ESHUTDOWN, uvs_jobs_list(jobs, NULL, 0, 1, NULL, NULL));
  EQ(UV_ESHUTDOWN, uvs_jobs_redrive(jobs, NULL, NULL, NULL));
  EQ(UV_ESHUTDOWN, uvs_jobs_purge(jobs, NULL, NULL, NULL));
  EQ(UV_ESHUTDOWN, uvs_jobs_set_queue(jobs, &q, NULL, NULL));
  EQ(UV_ESHUTDOWN, uvs_jobs_crons(jobs, NULL, NULL));
  EQ(UV_ESHUTDOWN, uvs_jobs_stats(jobs, NULL, NULL));
  EQ(UV_EINVAL, uvs_jobs_close(NULL, 0, NULL, NULL));
  engine_close(f);
  PASS();
}

/* The store's thread ends before the callback comes, because the loop does not run. */
TEST calls_before_the_close_callback_answer_eshutdown_after_the_thread_has_ended(void) {
  struct engine *f = engine_start();
  uvs_jobs_t *jobs = f->nodes[0].jobs;
  int64_t due_ns;
  int rc = 0;

  EQ(0, engine_begin_close(f, 0, 0));
  for (long i = 0; i < 100000000 && rc == 0; i++)
    rc = uvs_jobs_next_due(jobs, &due_ns);
  EQ(UV_ESHUTDOWN, rc);
  for (int i = 0; i < 1000; i++) {
    EQ(UV_ESHUTDOWN, uvs_jobs_wake(jobs));
    EQ(UV_ESHUTDOWN, uvs_jobs_clock_changed(jobs));
    EQ(UV_ESHUTDOWN, uvs_jobs_next_due(jobs, &due_ns));
  }
  engine_close(f);
  PASS();
}

TEST a_store_can_be_closed_without_a_callback_and_opened_again(void) {
  struct engine *f = engine_start();
  uvs_jobs_t *jobs;

  f->options.arg = &f->nodes[0];
  for (int i = 0; i < 20; i++) {
    EQ(0, uvs_jobs_open(f->s, &f->options, &jobs, NULL, 0));
    EQ(0, uvs_jobs_close(jobs, 0, NULL, NULL));
    if (i % 3 == 0)
      engine_quiesce(f);
  }
  engine_close(f);
  PASS();
}

/* ------------------------------------------------------------------ grace --- */

/* Q48 */
TEST handlers_have_the_grace_to_finish_and_nothing_new_starts(void) {
  struct engine *f = engine_start();

  EQ(1, engine_open_node(f));
  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  EQ(0, engine_put_simple(f, "n", "later", UVS_SEC(5)));
  EQ(0, engine_begin_close(f, 0, UVS_MIN(2)));
  engine_advance(f, UVS_SEC(100));
  EQ(1, f->n_runs);
  EQ(0, uvs_job_cancelled(f->runs[0].job));
  EQ(0, f->nodes[0].close_calls);
  engine_finish(f, 0, 0);
  engine_close_node(f, 0, 0);
  f->to = 1;
  EQ(UVS_JOB_DONE, engine_state(f, "n/a"));
  EQ(UVS_JOB_PENDING, engine_state(f, "n/later"));
  SAYS("", engine_events(f));
  engine_close(f);
  PASS();
}

/* Q22 Q48 */
TEST after_the_grace_handlers_are_asked_to_stop_and_their_jobs_are_given_back_uncounted(void) {
  struct engine *f = engine_start();

  EQ(1, engine_open_node(f));
  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  EQ(0, engine_begin_close(f, 0, UVS_SEC(60)));
  engine_advance(f, UVS_SEC(60) - 1);
  EQ(0, uvs_job_cancelled(f->runs[0].job));
  engine_advance(f, 1);
  EQ(1, uvs_job_cancelled(f->runs[0].job));
  EQ(0, uvs_job_lost(f->runs[0].job));
  engine_advance(f, UVS_MIN(10)); /* the handler does not stop, so the close waits */
  EQ(0, f->nodes[0].close_calls);
  f->to = 1;
  engine_handle(f, "n", NULL);
  EQ(1, f->n_runs);
  engine_finish(f, 0, UV_ECANCELED);
  engine_close_node(f, 0, 0);
  engine_sync(f);
  SAYS("n/a n/a", engine_ran(f));
  EQ(1, f->runs[1].node);
  EQ(1, f->runs[1].attempt);
  EQ(0, f->runs[1].crashes);
  SAYS("", engine_events(f));
  engine_close(f);
  PASS();
}

/* Q48 */
TEST a_result_counts_although_the_close_has_asked_the_handler_to_stop(void) {
  struct engine *f = engine_start();

  EQ(1, engine_open_node(f));
  engine_handle(f, "n", NULL)->hold = true;
  for (int i = 0; i < 3; i++) {
    char id[2] = {(char)('a' + i), '\0'};

    EQ(0, engine_put_simple(f, "n", id, 0));
  }
  EQ(0, engine_begin_close(f, 0, 0));
  engine_quiesce(f);
  EQ(1, uvs_job_cancelled(f->runs[0].job));
  engine_finish(f, 0, 0);
  engine_finish(f, 1, UVS_JOB_GIVE_UP);
  engine_finish(f, 2, uvs_job_retry_at(f->runs[2].job, engine_wall(f) + UVS_HOUR(1)));
  engine_close_node(f, 0, 0);
  f->to = 1;
  EQ(UVS_JOB_DONE, engine_state(f, "n/a"));
  EQ(UVS_JOB_DEAD, engine_state(f, "n/b"));
  EQ(UVS_JOB_PENDING, engine_state(f, "n/c"));
  EQ(engine_wall(f) + UVS_HOUR(1), f->last.info.due_ns);
  engine_close(f);
  PASS();
}

/* Q48. The job was claimed, but the loop had no time to start its handler. */
TEST a_job_that_was_claimed_but_not_started_is_given_back(void) {
  struct engine *f = engine_start();
  uvs_job_spec_t spec = engine_spec("n", "a");
  int64_t due_ns;

  EQ(1, engine_open_node(f));
  engine_handle(f, "n", NULL);
  EQ(0, uvs_jobs_put(f->nodes[0].jobs, &spec, NULL, NULL));
  EQ(0, uvs_jobs_next_due(f->nodes[0].jobs, &due_ns));
  f->to = 1;
  EQ(0, engine_begin_close(f, 0, 0));
  EQ(0, uvs_jobs_next_due(f->nodes[0].jobs, &due_ns));
  engine_close_node(f, 0, 0);
  EQ(0, f->n_runs);
  EQ(UVS_JOB_PENDING, engine_state(f, "n/a"));
  EQ(0, f->last.info.attempts);
  EQ(0, f->last.info.crashes);
  engine_close(f);
  PASS();
}

/* ------------------------------------------------------- a scheduler that ends --- */

TEST when_the_scheduler_is_shut_down_jobs_stay_in_the_store(void) {
  struct engine *f = engine_start();
  uvs_jobs_t *jobs = f->nodes[0].jobs;
  uvs_job_spec_t spec = engine_spec("n", "claimed");
  int64_t due_ns;

  engine_handle(f, "n", NULL);
  EQ(0, uvs_jobs_put(jobs, &spec, NULL, NULL));
  EQ(0, uvs_jobs_next_due(jobs, &due_ns)); /* claimed; the handler waits for the loop */
  EQ(0, uvs_shutdown_now(f->s, NULL, NULL));
  EQ(0, engine_put_simple(f, "n", "later", 0));
  EQ(0, f->n_runs);
  for (int i = 0; i < 5; i++) {
    EQ(UVS_JOB_PENDING, engine_state(f, "n/claimed"));
    EQ(0, f->last.info.attempts);
    EQ(0, f->last.info.crashes);
    EQ(UVS_JOB_PENDING, engine_state(f, "n/later"));
    engine_jump(f, UVS_SEC(2));
  }
  EQ(0, f->n_runs);
  SAYS("", engine_events(f));
  engine_close(f);
  PASS();
}

TEST a_job_is_given_back_for_a_moment_if_the_scheduler_has_no_room(void) {
  struct engine *f = engine_new();

  f->scheduler.max_pending = 2;
  engine_open(f);
  engine_handle(f, "n", NULL);
  for (int i = 0; i < 20; i++)
    EQ(0, engine_put_simple(f, "n", NULL, UVS_SEC(5)));
  engine_advance(f, UVS_MIN(1));
  EQ(20, f->n_runs);
  for (int i = 0; i < 20; i++) {
    EQ(1, f->runs[i].attempt);
    EQ(0, f->runs[i].crashes);
  }
  engine_close(f);
  PASS();
}

/* ----------------------------------------------------------------- restart --- */

/* Q1 */
TEST jobs_dead_letters_and_crons_survive_a_restart(void) {
  struct engine *f = engine_start();
  uvs_job_cron_t c = engine_cron_spec("c", "@hourly");
  struct probe *p = engine_handle(f, "n", NULL);

  EQ(1, engine_open_node(f)); /* keeps a store in memory */
  EQ(0, engine_cron(f, &c));
  p->ret = UV_EIO;
  EQ(0, engine_put_simple(f, "n", "retry", 0));
  p->ret = UVS_JOB_GIVE_UP;
  EQ(0, engine_put_simple(f, "n", "dead", 0));
  p->ret = 0;
  EQ(0, engine_put_simple(f, "n", "done", 0));
  EQ(0, engine_put_simple(f, "n", "pending", UVS_SEC(5)));
  engine_ran(f);
  engine_close_node(f, 0, 0);
  engine_reopen(f, 1);
  f->to = 1;
  if (strcmp(engine_store, "memory") != 0) {
    EQ(UVS_JOB_DEAD, engine_state(f, "n/dead"));
    EQ(UVS_JOB_DONE, engine_state(f, "n/done"));
    engine_handle(f, "n", NULL);
    engine_advance(f, UVS_SEC(5));
    SAYS("n/retry n/pending", engine_ran(f));
    EQ(2, f->runs[3].attempt);
    engine_advance(f, UVS_HOUR(1));
    SAYS("n/c@2023-11-14T23:00:00Z", engine_ran(f));
  } else {
    EQ(UV_ENOENT, engine_get(f, "n/dead")); /* the last opener has forgotten it */
  }
  engine_close(f);
  PASS();
}

SUITE(close_) {
  RUN_TEST(a_close_carries_out_what_was_accepted_and_its_callback_is_the_last);
  RUN_TEST(a_store_that_is_being_closed_accepts_nothing);
  RUN_TEST(calls_before_the_close_callback_answer_eshutdown_after_the_thread_has_ended);
  RUN_TEST(a_store_can_be_closed_without_a_callback_and_opened_again);
  RUN_TEST(handlers_have_the_grace_to_finish_and_nothing_new_starts);
  RUN_TEST(after_the_grace_handlers_are_asked_to_stop_and_their_jobs_are_given_back_uncounted);
  RUN_TEST(a_result_counts_although_the_close_has_asked_the_handler_to_stop);
  RUN_TEST(a_job_that_was_claimed_but_not_started_is_given_back);
  RUN_TEST(when_the_scheduler_is_shut_down_jobs_stay_in_the_store);
  RUN_TEST(a_job_is_given_back_for_a_moment_if_the_scheduler_has_no_room);
  RUN_TEST(jobs_dead_letters_and_crons_survive_a_restart);
}

TEST_MAIN(ON_EVERY_STORE(RUN_SUITE(close_)));
