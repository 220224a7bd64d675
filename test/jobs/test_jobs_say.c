/* SPDX-License-Identifier: MIT
 *
 * What a handler reports while its job runs: progress, the result, further jobs, a longer lease.
 */
#include <string.h>

#include "engine_fixture.h"

/* Q26 */
TEST progress_is_seen_while_the_job_runs_and_the_result_after_it(void) {
  struct engine *f = engine_start();
  uvs_job_t *job;

  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  job = f->runs[0].job;
  EQ(0, uvs_job_progress(job, "10 %", 4));
  EQ(0, engine_get(f, "n/a"));
  SAYS("10 %", f->last.progress);
  EQ(0, uvs_job_progress(job, "20 %", 4));
  EQ(0, uvs_job_progress(job, "30 %", 4));
  engine_advance(f, UVS_MIN(1));
  EQ(0, engine_get(f, "n/a"));
  SAYS("30 %", f->last.progress);
  EQ(0, uvs_job_result(job, "wrong", 5));
  EQ(0, uvs_job_result(job, "42", 2));
  engine_finish(f, 0, 0);
  EQ(UVS_JOB_DONE, engine_state(f, "n/a"));
  SAYS("42", f->last.text);
  SAYS("", f->last.progress);
  engine_close(f);
  PASS();
}

static int set_result(struct probe *p, uvs_job_t *job) {
  uvs_job_result(job, "42", 2);
  return p->ret;
}

/* Q3 Q26 */
TEST the_result_of_a_done_job_is_kept_for_as_long_as_asked(void) {
  struct engine *f = engine_start();
  uvs_job_spec_t spec = engine_spec("n", "a");

  engine_handle(f, "n", NULL)->act = set_result;
  spec.keep_done_ns = UVS_HOUR(1);
  EQ(0, engine_put(f, &spec));
  engine_advance(f, UVS_HOUR(1) - 1);
  EQ(UVS_JOB_DONE, engine_state(f, "n/a"));
  SAYS("42", f->last.text);
  EQ(1, f->last.info.attempts);
  EQ(engine_wall(f) - UVS_HOUR(1) + 1, f->last.info.ended_ns);
  EQ(UVS_JOB_EXISTS, engine_put(f, &spec));
  engine_advance(f, 1000);
  EQ(UV_ENOENT, engine_get(f, "n/a"));
  EQ(0, engine_put(f, &spec));
  engine_close(f);
  PASS();
}

TEST the_result_of_a_failure_is_not_kept(void) {
  struct engine *f = engine_start();
  struct probe *p = engine_handle(f, "n", NULL);

  p->act = set_result;
  p->ret = UV_EIO;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  p->act = NULL;
  p->ret = 0;
  engine_advance(f, UVS_SEC(1));
  EQ(UVS_JOB_DONE, engine_state(f, "n/a"));
  SAYS("", f->last.text);
  engine_close(f);
  PASS();
}

static int put_two(struct probe *p, uvs_job_t *job) {
  uvs_job_spec_t spec = engine_spec("next", "a");

  if (strcmp(job->name, "next") == 0)
    return 0;
  if (uvs_job_put(job, &spec) != 0)
    abort();
  spec.id = "later";
  spec.delay_ns = UVS_SEC(5);
  if (uvs_job_put(job, &spec) != 0)
    abort();
  return p->ret;
}

/* Q24 */
TEST jobs_that_a_handler_puts_come_with_its_success_and_not_with_its_failure(void) {
  struct engine *f = engine_start();
  struct probe *p = engine_handle(f, "n", NULL);

  engine_handle(f, "next", NULL);
  p->act = put_two;
  p->ret = UV_EIO;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  engine_advance(f, UVS_SEC(1) - 1000);
  SAYS("n/a", engine_ran(f));
  EQ(UV_ENOENT, engine_get(f, "next/a"));
  p->ret = 0;
  engine_advance(f, 1000);
  SAYS("n/a next/a", engine_ran(f));
  engine_advance(f, UVS_SEC(5));
  SAYS("next/later", engine_ran(f));
  engine_close(f);
  PASS();
}

/* Q24 */
TEST a_lost_run_puts_no_jobs(void) {
  struct engine *f = engine_start();
  uvs_job_spec_t spec = engine_spec("next", "a");

  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  EQ(0, uvs_job_put(f->runs[0].job, &spec));
  engine_stop(f, 0);
  f->to = engine_open_node(f);
  engine_handle(f, "n", NULL)->hold = true;
  engine_advance(f, UVS_SEC(31));
  engine_go_on(f, 0);
  engine_finish(f, 0, 0);
  EQ(UV_ENOENT, engine_get(f, "next/a"));
  engine_close(f);
  PASS();
}

TEST an_extended_lease_outlives_a_pause_of_the_whole_node(void) {
  struct engine *f = engine_start();

  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  EQ(0, uvs_job_extend(f->runs[0].job, UVS_MIN(10)));
  engine_stop(f, 0);
  f->to = engine_open_node(f);
  engine_handle(f, "n", NULL);
  engine_advance(f, UVS_MIN(10) - 1000);
  EQ(1, f->n_runs);
  engine_go_on(f, 0);
  engine_finish(f, 0, 0);
  EQ(0, engine_stats(f));
  EQ(0, f->last.stats.running);
  SAYS("", engine_events(f));
  engine_close(f);
  PASS();
}

TEST neither_a_heartbeat_nor_progress_shortens_a_lease_that_was_extended(void) {
  struct engine *f = engine_start();
  int64_t end_ns;

  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  EQ(0, uvs_job_extend(f->runs[0].job, UVS_MIN(10)));
  end_ns = engine_wall(f) + UVS_MIN(10);
  engine_advance(f, UVS_SEC(15));
  EQ(0, uvs_job_progress(f->runs[0].job, "half", 4));
  EQ(UVS_JOB_RUNNING, engine_state(f, "n/a"));
  EQ(end_ns, f->last.info.due_ns);
  engine_advance(f, UVS_MIN(10));
  EQ(UVS_JOB_RUNNING, engine_state(f, "n/a"));
  ASSERT(f->last.info.due_ns > engine_wall(f));
  ASSERT(f->last.info.due_ns <= engine_wall(f) + UVS_SEC(30));
  engine_finish(f, 0, 0);
  engine_close(f);
  PASS();
}

TEST an_extension_of_a_lost_lease_answers_lost(void) {
  struct engine *f = engine_start();

  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  engine_stop(f, 0);
  f->to = engine_open_node(f);
  engine_handle(f, "n", NULL)->hold = true;
  engine_advance(f, UVS_SEC(31));
  EQ(UVS_ELOST, uvs_job_extend(f->runs[0].job, UVS_SEC(30)));
  engine_close(f);
  PASS();
}

SUITE(say) {
  RUN_TEST(progress_is_seen_while_the_job_runs_and_the_result_after_it);
  RUN_TEST(the_result_of_a_done_job_is_kept_for_as_long_as_asked);
  RUN_TEST(the_result_of_a_failure_is_not_kept);
  RUN_TEST(jobs_that_a_handler_puts_come_with_its_success_and_not_with_its_failure);
  RUN_TEST(a_lost_run_puts_no_jobs);
  RUN_TEST(an_extended_lease_outlives_a_pause_of_the_whole_node);
  RUN_TEST(neither_a_heartbeat_nor_progress_shortens_a_lease_that_was_extended);
  RUN_TEST(an_extension_of_a_lost_lease_answers_lost);
}

TEST_MAIN(ON_EVERY_STORE(RUN_SUITE(say)));
