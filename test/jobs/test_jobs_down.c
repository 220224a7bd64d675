/* SPDX-License-Identifier: MIT
 *
 * A store that fails for a while.
 */
#include <string.h>

#include "between.h"

/* A put that is not answered at once. */
static int begin_put(struct engine *f, struct answer *a, const char *id) {
  uvs_job_spec_t spec = engine_spec("n", id);
  int rc;

  answer_init(a, f);
  rc = uvs_jobs_put(f->nodes[f->to].jobs, &spec, answer_put, a);
  engine_quiesce(f);
  return rc;
}

/* -------------------------------------------------------------------- puts --- */

/* Q5 */
TEST a_put_waits_for_a_store_that_comes_back_in_time(void) {
  struct engine *f = between_start();
  struct answer a;

  engine_handle(f, "n", NULL);
  between_set_mode(f, 0, DOWN);
  EQ(0, begin_put(f, &a, "a"));
  engine_advance(f, UVS_MS(1900));
  EQ(0, a.calls);
  between_set_mode(f, 0, WORKS);
  engine_advance(f, UVS_MS(250));
  EQ(1, a.calls);
  EQ(0, a.status);
  SAYS("n/a", engine_ran(f));
  SAYS("store down no disk; store up", engine_events(f));
  engine_close(f);
  PASS();
}

/* Q5 */
TEST a_put_fails_when_the_store_was_down_for_too_long_and_nothing_was_done(void) {
  struct engine *f = between_start();
  struct answer a;

  engine_handle(f, "n", NULL);
  between_set_mode(f, 0, DOWN);
  EQ(0, begin_put(f, &a, "a"));
  engine_advance(f, UVS_MS(1999));
  EQ(0, a.calls);
  engine_advance(f, UVS_MS(251));
  EQ(1, a.calls);
  EQ(UVS_EDOWN, a.status);
  SAYS("n/a", a.id);
  between_set_mode(f, 0, WORKS);
  engine_advance(f, UVS_MIN(1));
  EQ(UV_ENOENT, engine_get(f, "n/a"));
  EQ(1, a.calls);
  engine_close(f);
  PASS();
}

/* Q5 */
TEST a_put_whose_answer_was_lost_is_repeated_and_puts_one_job(void) {
  struct engine *f = between_start();

  engine_handle(f, "n", NULL);
  for (int i = 0; i < 2; i++) {
    struct answer a;

    between_set_mode(f, 0, REPLY_LOST);
    EQ(0, begin_put(f, &a, i == 0 ? NULL : "a"));
    EQ(0, a.calls);
    between_set_mode(f, 0, WORKS);
    engine_advance(f, UVS_SEC(1));
    EQ(1, a.calls);
    EQ(i == 0 ? 0 : UVS_JOB_EXISTS, a.status); /* one with a given id may have been there before */
    EQ(i + 1, f->n_runs);
    EQ(UVS_JOB_DONE, engine_state(f, a.id));
  }
  engine_close(f);
  PASS();
}

/* Q5 */
TEST a_put_whose_answers_were_all_lost_is_unknown_and_may_be_repeated_with_its_id(void) {
  struct engine *f = between_start();
  struct answer a;

  between_set_mode(f, 0, REPLY_LOST);
  EQ(0, begin_put(f, &a, NULL));
  engine_advance(f, UVS_MS(2250));
  EQ(1, a.calls);
  EQ(UVS_EUNKNOWN, a.status);
  between_set_mode(f, 0, WORKS);
  engine_advance(f, UVS_SEC(1));
  EQ(UVS_JOB_EXISTS, engine_put_simple(f, "n", a.id + 2, 0));
  engine_handle(f, "n", NULL);
  EQ(1, f->n_runs);
  engine_close(f);
  PASS();
}

/* Q5. The record of an end lasts until 30 s after the put. A put that may have been written must
 * not be repeated for as long as that, whatever put_timeout_ns is: its job would run again. */
TEST a_put_that_may_have_been_written_is_not_repeated_when_its_job_may_be_forgotten(void) {
  struct engine *f = between_new();
  uvs_job_spec_t spec = engine_spec("n", "a");
  struct answer a;

  f->options.put_timeout_ns = UVS_MIN(5);
  engine_open(f);
  engine_handle(f, "n", NULL);
  between_set_mode(f, 0, REPLY_LOST);
  spec.keep_done_ns = 0;
  answer_init(&a, f);
  EQ(0, uvs_jobs_put(f->nodes[0].jobs, &spec, answer_put, &a));
  between_set_mode(f, 0, NO_PUTS);
  engine_advance(f, UVS_SEC(40));
  SAYS("n/a", engine_ran(f));
  between_set_mode(f, 0, WORKS);
  engine_advance(f, UVS_SEC(5));
  SAYS("", engine_ran(f));
  EQ(1, a.calls);
  EQ(UVS_EUNKNOWN, a.status);
  engine_close(f);
  PASS();
}

/* The process was stopped between two tries. Q5 */
TEST a_put_that_may_have_been_written_is_not_repeated_after_a_stop(void) {
  struct engine *f = between_start();
  struct answer a;

  between_set_mode(f, 0, REPLY_LOST);
  EQ(0, begin_put(f, &a, "a"));
  between_set_mode(f, 0, WORKS);
  between_opened[0]->puts = 0;
  engine_jump(f, UVS_SEC(25));
  engine_quiesce(f);
  EQ(0, between_opened[0]->puts);
  EQ(1, a.calls);
  EQ(UVS_EUNKNOWN, a.status);
  engine_close(f);
  PASS();
}

/* Q52 */
TEST puts_that_wait_together_are_one_batch_and_each_is_answered(void) {
  static struct answer a[100]; /* too large for the stack */
  struct engine *f = between_start();

  between_set_mode(f, 0, DOWN);
  for (int i = 0; i < 100; i++)
    EQ(0, begin_put(f, &a[i], i < 2 ? "same" : NULL));
  between_set_mode(f, 0, WORKS);
  engine_advance(f, UVS_MS(250));
  EQ(100, between_opened[0]->puts);
  for (int i = 0; i < 100; i++)
    EQ(i == 1 ? UVS_JOB_EXISTS : 0, a[i].status);
  engine_close(f);
  PASS();
}

/* Q44 */
TEST a_put_into_a_full_store_answers_enospc_and_nothing_waits(void) {
  struct engine *f = between_start();

  between_set_mode(f, 0, FULL);
  EQ(UV_ENOSPC, engine_put_simple(f, "n", "a", 0));
  between_set_mode(f, 0, WORKS);
  EQ(UV_ENOENT, engine_get(f, "n/a"));
  SAYS("", engine_events(f));
  engine_close(f);
  PASS();
}

TEST other_calls_answer_down_or_unknown(void) {
  struct engine *f = between_start();
  uvs_jobs_t *jobs = f->nodes[0].jobs;
  uvs_job_cron_t c = engine_cron_spec("c", "@hourly");
  static struct answer cancel, get, wait, cron; /* too large for the stack */

  EQ(0, engine_put_simple(f, "n", "a", UVS_HOUR(1)));
  between_set_mode(f, 0, DOWN);
  answer_init(&get, f);
  EQ(0, uvs_jobs_get(jobs, "n/a", answer_info, &get));
  EQ(0, engine_wait(f, &wait, "n/a", UVS_HOUR(1)));
  engine_advance(f, UVS_SEC(3));
  EQ(UVS_EDOWN, get.status);
  EQ(UVS_EDOWN, wait.status);
  between_set_mode(f, 0, WORKS);
  engine_advance(f, UVS_SEC(1));
  between_set_mode(f, 0, REPLY_LOST);
  answer_init(&cancel, f);
  answer_init(&cron, f);
  EQ(0, uvs_jobs_cancel(jobs, "n/a", answer_status, &cancel));
  EQ(0, uvs_jobs_cron(jobs, &c, answer_status, &cron, NULL, 0));
  engine_quiesce(f);
  between_set_mode(f, 0, WORKS);
  engine_advance(f, UVS_SEC(1));
  EQ(UVS_EUNKNOWN, cancel.status); /* an earlier try may have cancelled it */
  EQ(UVS_JOB_CANCELLED, engine_state(f, "n/a"));
  EQ(0, cron.status);
  EQ(0, engine_stats(f));
  ASSERT(f->last.stats.store_failures > 2);
  engine_close(f);
  PASS();
}

/* ----------------------------------------------------------------- results --- */

/* Q27 */
TEST a_result_is_kept_until_the_store_is_back(void) {
  struct engine *f = between_start();

  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  between_set_mode(f, 0, DOWN);
  engine_finish(f, 0, 0);
  engine_advance(f, UVS_MIN(5));
  between_set_mode(f, 0, WORKS);
  engine_advance(f, UVS_SEC(1));
  EQ(UVS_JOB_DONE, engine_state(f, "n/a"));
  EQ(1, f->n_runs);
  SAYS("store down no disk; store up", engine_events(f));
  engine_close(f);
  PASS();
}

/* Q15 Q27 */
TEST a_result_whose_answer_was_lost_counts_once(void) {
  struct engine *f = between_start();
  struct answer a;

  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  EQ(0, engine_put_simple(f, "n", "b", 0));
  EQ(0, engine_wait(f, &a, "n/a", UVS_NEVER));
  between_set_mode(f, 0, REPLY_LOST);
  engine_finish(f, 0, 0);
  engine_finish(f, 1, UV_EIO);
  engine_advance(f, UVS_MS(2500)); /* longer than put_timeout_ns */
  EQ(2, f->n_runs);
  between_set_mode(f, 0, WORKS);
  engine_advance(f, UVS_SEC(1));
  EQ(UVS_JOB_DONE, engine_state(f, "n/a"));
  EQ(UVS_JOB_DONE, a.info.state);
  EQ(3, f->n_runs);
  EQ(2, f->runs[2].attempt);
  EQ(0, engine_stats(f));
  EQ(1, f->last.stats.done);
  EQ(1, f->last.stats.retried);
  EQ(0, f->last.stats.lost_leases);
  ASSERT(strstr(engine_events(f), "lost") == NULL);
  engine_close(f);
  PASS();
}

/* Q27 */
TEST a_result_for_a_full_store_is_tried_again_each_second(void) {
  struct engine *f = between_start();

  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  EQ(0, engine_put_simple(f, "n", "b", 0));
  between_set_mode(f, 0, FULL);
  engine_finish(f, 0, 0);
  engine_finish(f, 1, UV_EIO);
  engine_advance(f, UVS_SEC(20));
  between_set_mode(f, 0, WORKS);
  EQ(UVS_JOB_RUNNING, engine_state(f, "n/a"));
  engine_advance(f, UVS_SEC(1));
  EQ(UVS_JOB_DONE, engine_state(f, "n/a"));
  engine_advance(f, UVS_SEC(1)); /* the wait after the failure */
  EQ(3, f->n_runs);
  EQ(2, f->runs[2].attempt);
  engine_close(f);
  PASS();
}

/* Q15 */
TEST a_node_whose_store_was_away_for_a_lease_loses_its_job_to_another(void) {
  struct engine *f = between_start();

  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  f->to = engine_open_node(f);
  engine_handle(f, "n", NULL)->hold = true;
  between_set_mode(f, 0, DOWN);
  engine_advance(f, UVS_SEC(31));
  EQ(2, f->n_runs);
  EQ(1, f->runs[1].crashes);
  engine_finish(f, 0, 0);
  engine_events(f);
  between_set_mode(f, 0, WORKS);
  engine_advance(f, UVS_SEC(1));
  EQ(0, strncmp(engine_events(f), "store up; lost n/a ", 19));
  EQ(UVS_JOB_RUNNING, engine_state(f, "n/a"));
  engine_finish(f, 1, 0);
  EQ(UVS_JOB_DONE, engine_state(f, "n/a"));
  engine_close(f);
  PASS();
}

/* Q35. A node dies after it has claimed the tick of a cron and a job. The next node runs the
 * job, which has a crash now. Only one such job may run at once, but the tick does not count as
 * one. */
TEST a_tick_that_a_dead_node_has_claimed_is_not_held_up_by_crashed_jobs(void) {
  struct engine *f = between_start();
  uvs_job_cron_t c = engine_cron_spec("c", "*/10 * * * *");

  engine_handle(f, "m", NULL)->hold = true;
  EQ(0, engine_cron(f, &c));
  EQ(0, engine_put_simple(f, "m", "a", 0));
  f->to = engine_open_node(f);
  engine_handle(f, "m", NULL)->hold = true;
  engine_handle(f, "n", NULL);
  engine_stop(f, 1);
  between_set_mode(f, 0, NO_RESULTS);
  engine_advance(f, UVS_SEC(6 * 60 + 41)); /* 22:20:01 */
  engine_stop(f, 0);
  engine_go_on(f, 1);
  engine_advance(f, UVS_SEC(61));
  SAYS("m/a m/a n/c@2023-11-14T22:20:00Z", engine_ran(f));
  EQ(1, f->runs[1].crashes);
  EQ(0, f->runs[2].crashes);
  between_set_mode(f, 0, WORKS);
  engine_events(f);
  engine_go_on(f, 0); /* its settling of the tick comes too late; this makes no event */
  engine_advance(f, UVS_SEC(1));
  ASSERT(strstr(f->events, "lost m/a") != NULL);
  ASSERT(strstr(f->events, "uvs.cron") == NULL);
  engine_close(f);
  PASS();
}

/* Q19. After the store was down, processes have a third of the lease to extend their leases. */
TEST after_the_store_was_down_expired_leases_are_left_alone_for_a_third_of_a_lease(void) {
  struct engine *f = between_start();
  int64_t up_ns;

  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  f->to = engine_open_node(f);
  engine_handle(f, "n", NULL)->hold = true;
  engine_stop(f, 0);
  between_set_mode(f, 1, DOWN);
  engine_advance(f, UVS_MIN(1));
  EQ(1, f->n_runs);
  between_set_mode(f, 1, WORKS);
  engine_advance(f, UVS_MS(250));
  up_ns = engine_wall(f);
  engine_advance(f, UVS_SEC(9));
  EQ(1, f->n_runs);
  engine_advance(f, UVS_SEC(2));
  EQ(2, f->n_runs);
  ASSERT(f->runs[1].wall_ns - up_ns > UVS_MS(9700));
  engine_close(f);
  PASS();
}

/* ------------------------------------------------------------------- close --- */

/* Q6 Q27 Q48 */
TEST a_close_while_the_store_is_down_answers_all_calls_and_ends(void) {
  struct engine *f = between_start();
  struct answer a;

  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  between_set_mode(f, 0, DOWN);
  EQ(0, begin_put(f, &a, "b"));
  engine_finish(f, 0, 0);
  EQ(0, engine_begin_close(f, 0, 0));
  engine_advance(f, UVS_SEC(1));
  EQ(0, f->nodes[0].close_calls);
  engine_advance(f, UVS_SEC(4));
  EQ(1, a.calls);
  EQ(UVS_EDOWN, a.status);
  engine_close_node(f, 0, 0);
  EQ(1, f->nodes[0].close_calls);
  engine_close(f);
  PASS();
}

TEST jobs_go_on_by_themselves_after_the_store_was_down(void) {
  struct engine *f = between_start();

  engine_handle(f, "n", NULL);
  EQ(0, engine_put_simple(f, "n", "soon", UVS_SEC(5)));
  EQ(0, engine_put_simple(f, "n", "later", UVS_MIN(5)));
  between_set_mode(f, 0, DOWN);
  engine_advance(f, UVS_MS(60300)); /* claims come each second: the last one was a moment ago */
  SAYS("", engine_ran(f));
  EQ(0, uvs_jobs_get(f->nodes[0].jobs, "n/soon", NULL, NULL)); /* it is tried each 250 ms */
  engine_quiesce(f);
  between_set_mode(f, 0, WORKS);
  engine_advance(f, UVS_MS(250));
  SAYS("n/soon", engine_ran(f));
  engine_advance(f, UVS_MIN(5));
  SAYS("n/later", engine_ran(f));
  engine_close(f);
  PASS();
}

SUITE(down) {
  RUN_TEST(a_put_waits_for_a_store_that_comes_back_in_time);
  RUN_TEST(a_put_fails_when_the_store_was_down_for_too_long_and_nothing_was_done);
  RUN_TEST(a_put_whose_answer_was_lost_is_repeated_and_puts_one_job);
  RUN_TEST(a_put_whose_answers_were_all_lost_is_unknown_and_may_be_repeated_with_its_id);
  RUN_TEST(a_put_that_may_have_been_written_is_not_repeated_when_its_job_may_be_forgotten);
  RUN_TEST(a_put_that_may_have_been_written_is_not_repeated_after_a_stop);
  RUN_TEST(puts_that_wait_together_are_one_batch_and_each_is_answered);
  RUN_TEST(a_put_into_a_full_store_answers_enospc_and_nothing_waits);
  RUN_TEST(other_calls_answer_down_or_unknown);
  RUN_TEST(a_result_is_kept_until_the_store_is_back);
  RUN_TEST(a_result_whose_answer_was_lost_counts_once);
  RUN_TEST(a_result_for_a_full_store_is_tried_again_each_second);
  RUN_TEST(a_node_whose_store_was_away_for_a_lease_loses_its_job_to_another);
  RUN_TEST(a_tick_that_a_dead_node_has_claimed_is_not_held_up_by_crashed_jobs);
  RUN_TEST(after_the_store_was_down_expired_leases_are_left_alone_for_a_third_of_a_lease);
  RUN_TEST(a_close_while_the_store_is_down_answers_all_calls_and_ends);
  RUN_TEST(jobs_go_on_by_themselves_after_the_store_was_down);
}

/* Then the same with stores that answer later, as a server does. */
TEST_MAIN(ON_EVERY_LOCAL_STORE(RUN_SUITE(down); between_later = true; RUN_SUITE(down);
                               between_later = false));
