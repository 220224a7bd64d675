/* SPDX-License-Identifier: MIT
 *
 * Unique keys: what happens when a new job's key is in use.
 */
#include <string.h>

#include "engine_fixture.h"

static int put_key(struct engine *f, const char *id, int policy, int64_t delay_ns) {
  uvs_job_spec_t spec = engine_spec("n", id);

  spec.key = "k";
  spec.key_policy = policy;
  spec.delay_ns = delay_ns;
  return engine_put(f, &spec);
}

/* Q28 */
TEST keep_answers_exists_with_the_id_of_the_job_that_is_there(void) {
  struct engine *f = engine_start();

  EQ(0, put_key(f, "a", UVS_KEY_KEEP, UVS_SEC(5)));
  EQ(UVS_JOB_EXISTS, put_key(f, "b", UVS_KEY_KEEP, 0));
  SAYS("n/a", f->last.id);
  EQ(UV_ENOENT, engine_get(f, "n/b"));
  engine_handle(f, "n", NULL);
  engine_advance(f, UVS_SEC(5));
  SAYS("n/a", engine_ran(f));
  engine_close(f);
  PASS();
}

/* Q28 */
TEST error_answers_eexist_with_the_id_of_the_job_that_is_there(void) {
  struct engine *f = engine_start();

  EQ(0, put_key(f, "a", UVS_KEY_KEEP, UVS_SEC(5)));
  EQ(UV_EEXIST, put_key(f, "b", UVS_KEY_ERROR, 0));
  SAYS("n/a", f->last.id);
  EQ(UV_ENOENT, engine_get(f, "n/b"));
  EQ(0, engine_stats(f));
  EQ(1, f->last.stats.put);
  EQ(1, f->last.stats.pending);
  engine_close(f);
  PASS();
}

/* Q29 */
TEST replace_takes_the_place_of_a_pending_job(void) {
  struct engine *f = engine_start();

  EQ(0, put_key(f, "a", UVS_KEY_KEEP, UVS_SEC(5)));
  EQ(0, put_key(f, "b", UVS_KEY_REPLACE, UVS_SEC(3)));
  SAYS("n/b", f->last.id);
  SAYS("replaced n/a", engine_events(f));
  EQ(UVS_JOB_REPLACED, engine_state(f, "n/a"));
  engine_handle(f, "n", NULL);
  engine_advance(f, UVS_SEC(10));
  SAYS("n/b", engine_ran(f));
  engine_close(f);
  PASS();
}

/* Q28 */
TEST keep_and_error_hold_while_the_holder_runs(void) {
  struct engine *f = engine_start();

  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, put_key(f, "a", UVS_KEY_KEEP, 0));
  EQ(UVS_JOB_EXISTS, put_key(f, "b", UVS_KEY_KEEP, 0));
  EQ(UV_EEXIST, put_key(f, "b", UVS_KEY_ERROR, 0));
  engine_finish(f, 0, UV_EIO); /* it waits for a retry */
  EQ(UVS_JOB_EXISTS, put_key(f, "b", UVS_KEY_KEEP, 0));
  EQ(1, f->n_runs);
  engine_close(f);
  PASS();
}

/* Q29 */
TEST a_job_that_replaces_a_running_one_waits_for_the_end_of_that_run(void) {
  struct engine *f = engine_start();

  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, put_key(f, "a", UVS_KEY_KEEP, 0));
  EQ(0, put_key(f, "b", UVS_KEY_REPLACE, 0));
  EQ(UVS_JOB_HELD, engine_state(f, "n/b"));
  EQ(UVS_JOB_RUNNING, engine_state(f, "n/a"));
  engine_advance(f, UVS_MIN(5));
  EQ(1, f->n_runs);
  engine_finish(f, 0, UV_EIO); /* a failure: it does not run again */
  EQ(UVS_JOB_REPLACED, engine_state(f, "n/a"));
  SAYS("n/a n/b", engine_ran(f));
  engine_finish(f, 1, 0);
  EQ(UVS_JOB_DONE, engine_state(f, "n/b"));
  engine_advance(f, UVS_MIN(5));
  EQ(2, f->n_runs);
  engine_close(f);
  PASS();
}

/* Q29 */
TEST a_run_that_succeeds_is_done_and_its_replacement_follows_at_its_own_time(void) {
  struct engine *f = engine_start();

  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, put_key(f, "a", UVS_KEY_KEEP, 0));
  EQ(0, put_key(f, "b", UVS_KEY_REPLACE, UVS_SEC(5)));
  engine_finish(f, 0, 0);
  EQ(UVS_JOB_DONE, engine_state(f, "n/a"));
  EQ(UVS_JOB_PENDING, engine_state(f, "n/b"));
  engine_advance(f, UVS_SEC(5) - 1);
  EQ(1, f->n_runs);
  engine_advance(f, 1);
  SAYS("n/a n/b", engine_ran(f));
  engine_close(f);
  PASS();
}

/* Q29 */
TEST a_later_replacement_replaces_an_earlier_one_that_is_held(void) {
  struct engine *f = engine_start();

  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, put_key(f, "a", UVS_KEY_KEEP, 0));
  EQ(0, put_key(f, "b", UVS_KEY_REPLACE, 0));
  EQ(0, put_key(f, "c", UVS_KEY_REPLACE, 0));
  EQ(UVS_JOB_REPLACED, engine_state(f, "n/b"));
  SAYS("replaced n/b", engine_events(f));
  engine_finish(f, 0, 0);
  SAYS("n/a n/c", engine_ran(f));
  engine_close(f);
  PASS();
}

/* Q13 Q29 */
TEST if_the_node_dies_the_replacement_runs_and_the_replaced_job_does_not(void) {
  struct engine *f = engine_start();

  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, put_key(f, "a", UVS_KEY_KEEP, 0));
  EQ(0, put_key(f, "b", UVS_KEY_REPLACE, 0));
  engine_stop(f, 0);
  f->to = engine_open_node(f);
  engine_handle(f, "n", NULL);
  engine_advance(f, UVS_SEC(31));
  SAYS("n/a n/b", engine_ran(f));
  EQ(0, f->runs[1].crashes);
  EQ(UVS_JOB_REPLACED, engine_state(f, "n/a"));
  EQ(UVS_JOB_DONE, engine_state(f, "n/b"));
  engine_close(f);
  PASS();
}

TEST a_held_job_can_be_cancelled_and_moved(void) {
  struct engine *f = engine_start();

  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, put_key(f, "a", UVS_KEY_KEEP, 0));
  EQ(0, put_key(f, "b", UVS_KEY_REPLACE, 0));
  EQ(0, engine_move(f, "n/b", UVS_SEC(5), 0));
  EQ(UVS_JOB_HELD, engine_state(f, "n/b"));
  EQ(0, engine_cancel(f, "n/b"));
  EQ(UVS_JOB_CANCELLED, engine_state(f, "n/b"));
  engine_finish(f, 0, 0);
  engine_advance(f, UVS_MIN(1));
  SAYS("n/a", engine_ran(f));
  engine_close(f);
  PASS();
}

/* Q30. Done, cancelled, dead: the key is free after each. */
TEST every_end_of_a_job_frees_its_key(void) {
  struct engine *f = engine_start();
  struct probe *p = engine_handle(f, "n", NULL);

  EQ(0, put_key(f, "a", UVS_KEY_ERROR, 0));
  EQ(UVS_JOB_DONE, engine_state(f, "n/a"));
  p->ret = UVS_JOB_GIVE_UP;
  EQ(0, put_key(f, "b", UVS_KEY_ERROR, 0));
  EQ(UVS_JOB_DEAD, engine_state(f, "n/b"));
  EQ(0, put_key(f, "c", UVS_KEY_ERROR, UVS_SEC(5)));
  EQ(0, engine_cancel(f, "n/c"));
  p->ret = 0;
  EQ(0, put_key(f, "d", UVS_KEY_ERROR, 0));
  SAYS("n/a n/b n/d", engine_ran(f));
  engine_close(f);
  PASS();
}

/* Q28 */
TEST a_key_is_unique_in_its_queue_only(void) {
  struct engine *f = engine_start();
  uvs_job_spec_t spec = engine_spec("other", "a");

  EQ(0, put_key(f, "a", UVS_KEY_ERROR, UVS_SEC(5)));
  spec.key = "k";
  spec.key_policy = UVS_KEY_ERROR;
  EQ(0, engine_put(f, &spec));
  engine_close(f);
  PASS();
}

static int put_successor(struct probe *p, uvs_job_t *job) {
  uvs_job_spec_t spec = engine_spec("n", NULL);
  char id[2] = {(char)('a' + ++p->number), '\0'};

  spec.id = id;
  spec.key = "k";
  spec.key_policy = UVS_KEY_ERROR;
  spec.delay_ns = UVS_SEC(1);
  return p->number < 4 ? uvs_job_put(job, &spec) : 0;
}

/* Q30. A chain: each job puts the next one with its own key, in the step that ends it. */
TEST a_job_that_a_handler_puts_may_have_the_key_of_its_own_job(void) {
  struct engine *f = engine_start();

  engine_handle(f, "n", NULL)->act = put_successor;
  EQ(0, put_key(f, "a", UVS_KEY_KEEP, 0));
  engine_advance(f, UVS_SEC(10));
  SAYS("n/a n/b n/c n/d", engine_ran(f));
  engine_close(f);
  PASS();
}

SUITE(keys) {
  RUN_TEST(keep_answers_exists_with_the_id_of_the_job_that_is_there);
  RUN_TEST(error_answers_eexist_with_the_id_of_the_job_that_is_there);
  RUN_TEST(replace_takes_the_place_of_a_pending_job);
  RUN_TEST(keep_and_error_hold_while_the_holder_runs);
  RUN_TEST(a_job_that_replaces_a_running_one_waits_for_the_end_of_that_run);
  RUN_TEST(a_run_that_succeeds_is_done_and_its_replacement_follows_at_its_own_time);
  RUN_TEST(a_later_replacement_replaces_an_earlier_one_that_is_held);
  RUN_TEST(if_the_node_dies_the_replacement_runs_and_the_replaced_job_does_not);
  RUN_TEST(a_held_job_can_be_cancelled_and_moved);
  RUN_TEST(every_end_of_a_job_frees_its_key);
  RUN_TEST(a_key_is_unique_in_its_queue_only);
  RUN_TEST(a_job_that_a_handler_puts_may_have_the_key_of_its_own_job);
}

TEST_MAIN(ON_EVERY_STORE(RUN_SUITE(keys)));
