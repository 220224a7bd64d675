/* SPDX-License-Identifier: MIT
 *
 * Keys: what happens when a key is in use, and jobs that wait for the run of the job that
 * they replace.
 */
#include "store_fixture.h"

/* A claimed job "q/a" with key "k", and a held job "q/b" that replaces it. */
static void claim_and_replace(struct store_fixture *f) {
  store_init(f);
  store_put_key(f, "a", "k", 0);
  store_claim(f, "q", 1);
  store_put_key(f, "b", "k", UVS_KEY_REPLACE);
}

/* Q28 */
TEST keep_writes_nothing_and_answers_with_the_other_job(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_put_key(&f, "a", "k", UVS_KEY_KEEP));
  EQ(UVS_JOB_EXISTS, store_put_key(&f, "b", "k", UVS_KEY_KEEP));
  SAYS("a", f.there);
  EQ(0, store_state(&f, "q", "b"));
  SAYS("a", store_list_state(&f, 0));
  store_close(&f);
  PASS();
}

/* Q28 */
TEST error_writes_nothing_and_answers_eexist(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_put_key(&f, "a", "k", UVS_KEY_ERROR));
  EQ(UV_EEXIST, store_put_key(&f, "b", "k", UVS_KEY_ERROR));
  SAYS("a", f.there);
  EQ(0, store_state(&f, "q", "b"));
  store_close(&f);
  PASS();
}

TEST the_id_is_looked_at_before_the_key(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_put_key(&f, "a", "k", 0));
  EQ(0, store_put_key(&f, "b", "l", 0));
  EQ(UVS_JOB_EXISTS, store_put_key(&f, "b", "k", UVS_KEY_ERROR));
  SAYS("b", f.there);
  EQ(UVS_JOB_EXISTS, store_put_key(&f, "a", "k", UVS_KEY_REPLACE));
  SAYS("a", f.there);
  SAYS("", store_events(&f));
  store_close(&f);
  PASS();
}

/* Q28 */
TEST a_key_belongs_to_its_queue(void) {
  struct store_fixture f;
  struct uvs__record job = store_job("p", "b");

  store_init(&f);
  EQ(0, store_put_key(&f, "a", "k", 0));
  job.key = "k";
  job.key_policy = UVS_KEY_ERROR;
  EQ(0, store_put(&f, &job));
  EQ(0, store_put_key(&f, "c", "l", UVS_KEY_ERROR));
  store_close(&f);
  PASS();
}

/* Q29 */
TEST replace_takes_the_place_of_a_pending_job(void) {
  struct store_fixture f;
  struct uvs__record job = store_job("q", "b");

  store_init(&f);
  EQ(0, store_put_key(&f, "a", "k", 0));
  job.key = "k";
  job.key_policy = UVS_KEY_REPLACE;
  job.due = after_us(SEC);
  EQ(0, store_put(&f, &job));
  EQ(store_now(&f) + SEC, f.due_us);
  SAYS("replaced q/a", store_events(&f));
  EQ(UVS_JOB_REPLACED, store_state(&f, "q", "a"));
  EQ(UVS_JOB_PENDING, store_state(&f, "q", "b"));
  SAYS("", store_claim(&f, "q", 1));
  EQ(store_now(&f) + SEC, f.next_us);
  EQ(UVS_JOB_EXISTS, store_put_key(&f, "c", "k", UVS_KEY_KEEP));
  SAYS("b", f.there);
  EQ(UVS_JOB_EXISTS, store_put_key(&f, "a", "l", 0)); /* the id is still known */
  store_close(&f);
  PASS();
}

TEST replace_without_another_job_is_a_usual_put(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_put_key(&f, "a", "k", UVS_KEY_REPLACE));
  SAYS("a", store_claim(&f, "q", 1));
  SAYS("", store_events(&f));
  store_close(&f);
  PASS();
}

/* Q28 */
TEST a_key_is_in_use_while_its_job_runs(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_put_key(&f, "a", "k", 0));
  SAYS("a", store_claim(&f, "q", 1));
  EQ(UVS_JOB_EXISTS, store_put_key(&f, "b", "k", UVS_KEY_KEEP));
  EQ(UV_EEXIST, store_put_key(&f, "b", "k", UVS_KEY_ERROR));
  EQ(0, store_retry(&f, 0, SEC));
  EQ(UV_EEXIST, store_put_key(&f, "b", "k", UVS_KEY_ERROR));
  store_close(&f);
  PASS();
}

/* Q30 */
TEST every_end_frees_the_key(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_put_key(&f, "done", "k", UVS_KEY_ERROR));
  SAYS("done", store_claim(&f, "q", 1));
  EQ(0, store_ack(&f, 0));
  EQ(0, store_put_key(&f, "cancelled", "k", UVS_KEY_ERROR));
  EQ(0, store_cancel(&f, "q", "cancelled"));
  EQ(0, store_put_key(&f, "dead", "k", UVS_KEY_ERROR));
  SAYS("dead", store_claim(&f, "q", 1));
  EQ(0, store_bury(&f, 0, ""));
  EQ(0, store_put_key(&f, "last", "k", UVS_KEY_ERROR));
  store_close(&f);
  PASS();
}

/* Q29 */
TEST a_job_that_replaces_a_running_one_is_held(void) {
  struct store_fixture f;

  claim_and_replace(&f);
  EQ(UVS_JOB_RUNNING, store_state(&f, "q", "a"));
  EQ(0, f.infos->cancelling);
  EQ(UVS_JOB_HELD, store_state(&f, "q", "b"));
  SAYS("k", f.infos->key);
  EQ(store_now(&f) * 1000, f.infos->due_ns);
  SAYS("", store_events(&f));
  EQ(0, store_extend(&f, 0, SEC)); /* the run goes on */
  EQ(UVS_JOB_HELD, store_state(&f, "q", "b"));
  store_close(&f);
  PASS();
}

/* Q29 */
TEST a_job_that_replaces_one_whose_lease_has_ended_is_held(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_put_key(&f, "a", "k", 0));
  SAYS("a", store_claim(&f, "q", 1));
  store_advance(&f, 2 * f.lease_us);
  EQ(0, store_put_key(&f, "b", "k", UVS_KEY_REPLACE));
  EQ(UVS_JOB_HELD, store_state(&f, "q", "b"));
  EQ(0, store_ack(&f, 0));
  EQ(UVS_JOB_PENDING, store_state(&f, "q", "b"));
  store_close(&f);
  PASS();
}

/* Q29 */
TEST a_held_job_is_pending_with_its_own_due_time_when_the_run_is_done(void) {
  struct store_fixture f;
  struct uvs__record job = store_job("q", "b");

  store_init(&f);
  EQ(0, store_put_key(&f, "a", "k", 0));
  SAYS("a", store_claim(&f, "q", 1));
  job.key = "k";
  job.key_policy = UVS_KEY_REPLACE;
  job.due = after_us(SEC);
  job.priority = UVS_PRIORITY_HIGH;
  EQ(0, store_put(&f, &job));
  EQ(0, store_ack(&f, 0));
  EQ(UVS_JOB_DONE, store_state(&f, "q", "a"));
  EQ(UVS_JOB_PENDING, store_state(&f, "q", "b"));
  EQ((store_now(&f) + SEC) * 1000, f.infos->due_ns);
  SAYS("", store_events(&f));
  EQ(UV_EEXIST, store_put_key(&f, "c", "k", UVS_KEY_ERROR));
  SAYS("b", f.there);
  store_advance(&f, SEC);
  SAYS("b", store_claim(&f, "q", 1));
  EQ(store_now(&f), f.claimed[0]->due_us);
  EQ(UVS_PRIORITY_HIGH, f.claimed[0]->priority);
  store_close(&f);
  PASS();
}

/* Q29 */
TEST a_replaced_run_that_fails_is_not_repeated(void) {
  struct store_fixture f;

  claim_and_replace(&f);
  EQ(0, store_retry(&f, 0, SEC));
  SAYS("replaced q/a", store_events(&f));
  EQ(UVS_JOB_REPLACED, store_state(&f, "q", "a"));
  EQ(1, f.infos->attempts);
  SAYS("b", store_claim(&f, "q", 9));
  store_close(&f);
  PASS();
}

/* Q29 */
TEST a_replaced_run_that_is_released_is_not_repeated(void) {
  struct store_fixture f;

  claim_and_replace(&f);
  EQ(0, store_release(&f, 0, SEC));
  SAYS("replaced q/a", store_events(&f));
  EQ(UVS_JOB_REPLACED, store_state(&f, "q", "a"));
  EQ(0, f.infos->attempts);
  SAYS("b", store_claim(&f, "q", 9));
  store_close(&f);
  PASS();
}

/* Q29 */
TEST a_replaced_run_that_is_given_up_is_a_dead_letter(void) {
  struct store_fixture f;

  claim_and_replace(&f);
  EQ(0, store_bury(&f, 0, "why"));
  SAYS("dead q/a why", store_events(&f));
  EQ(UVS_JOB_DEAD, store_state(&f, "q", "a"));
  SAYS("b", store_claim(&f, "q", 9));
  store_close(&f);
  PASS();
}

/* Q29 */
TEST a_cancelled_run_hands_its_key_on(void) {
  struct store_fixture f;

  claim_and_replace(&f);
  EQ(UVS_JOB_RUNNING, store_cancel(&f, "q", "a"));
  EQ(UVS__SETTLE_CANCELLED, store_retry(&f, 0, SEC));
  SAYS("cancelled q/a", store_events(&f));
  EQ(UVS_JOB_CANCELLED, store_state(&f, "q", "a"));
  SAYS("b", store_claim(&f, "q", 9));
  EQ(UV_EEXIST, store_put_key(&f, "c", "k", UVS_KEY_ERROR));
  store_close(&f);
  PASS();
}

/* Q29 */
TEST a_second_replacement_replaces_the_first(void) {
  struct store_fixture f;

  claim_and_replace(&f);
  EQ(0, store_put_key(&f, "c", "k", UVS_KEY_REPLACE));
  SAYS("replaced q/b", store_events(&f));
  EQ(UVS_JOB_REPLACED, store_state(&f, "q", "b"));
  EQ(UVS_JOB_HELD, store_state(&f, "q", "c"));
  EQ(UVS_JOB_EXISTS, store_put_key(&f, "d", "k", UVS_KEY_KEEP));
  SAYS("a", f.there);
  EQ(0, store_ack(&f, 0));
  SAYS("c", store_claim(&f, "q", 9));
  store_close(&f);
  PASS();
}

TEST a_held_job_can_be_cancelled(void) {
  struct store_fixture f;

  claim_and_replace(&f);
  EQ(0, store_cancel(&f, "q", "b"));
  SAYS("cancelled q/b", store_events(&f));
  EQ(UVS_JOB_CANCELLED, store_state(&f, "q", "b"));
  EQ(0, store_retry(&f, 0, 0)); /* there is no successor any more */
  SAYS("a", store_claim(&f, "q", 9));
  SAYS("", store_events(&f));
  EQ(UV_EEXIST, store_put_key(&f, "c", "k", UVS_KEY_ERROR));
  SAYS("a", f.there);
  store_close(&f);
  PASS();
}

/* Q32 */
TEST a_held_job_can_be_moved(void) {
  struct store_fixture f;

  claim_and_replace(&f);
  EQ(0, store_move(&f, "q", "b", after_us(7 * SEC)));
  EQ(UVS_JOB_HELD, store_state(&f, "q", "b"));
  EQ((store_now(&f) + 7 * SEC) * 1000, f.infos->due_ns);
  EQ(0, store_ack(&f, 0));
  EQ(UVS_JOB_PENDING, store_state(&f, "q", "b"));
  SAYS("", store_claim(&f, "q", 9));
  EQ(store_now(&f) + 7 * SEC, f.next_us);
  store_close(&f);
  PASS();
}

TEST a_chain_of_replacements_runs_one_by_one(void) {
  struct store_fixture f;

  claim_and_replace(&f);
  EQ(0, store_ack(&f, 0));
  SAYS("b", store_claim(&f, "q", 9));
  EQ(0, store_put_key(&f, "c", "k", UVS_KEY_REPLACE));
  EQ(0, store_ack(&f, 0));
  SAYS("c", store_claim(&f, "q", 9));
  EQ(0, store_ack(&f, 0));
  SAYS("", store_list_state(&f, 0));
  EQ(0, store_put_key(&f, "d", "k", UVS_KEY_ERROR));
  store_close(&f);
  PASS();
}

/* Q32 */
TEST cancel_and_move_of_jobs_in_other_states(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(UV_ENOENT, store_cancel(&f, "q", "a"));
  EQ(UV_ENOENT, store_move(&f, "q", "a", after_us(0)));
  EQ(0, store_put_simple(&f, "q", "a"));
  EQ(0, store_move(&f, "q", "a", at_us(store_now(&f) + 9)));
  EQ(0, store_get(&f, "q", "a"));
  EQ((store_now(&f) + 9) * 1000, f.infos->due_ns);
  EQ(0, store_move(&f, "q", "a", after_us(0)));
  SAYS("a", store_claim(&f, "q", 9));
  EQ(UVS_JOB_RUNNING, store_move(&f, "q", "a", after_us(0)));
  EQ(UVS_JOB_RUNNING, store_state(&f, "q", "a"));
  EQ((store_now(&f) + f.lease_us) * 1000, f.infos->due_ns);
  EQ(0, store_bury(&f, 0, "x"));
  EQ(UV_ENOENT, store_cancel(&f, "q", "a"));
  EQ(UV_ENOENT, store_move(&f, "q", "a", after_us(0)));
  EQ(0, store_put_simple(&f, "q", "b"));
  EQ(0, store_cancel(&f, "q", "b"));
  EQ(UV_ENOENT, store_cancel(&f, "q", "b"));
  EQ(UV_ENOENT, store_move(&f, "q", "b", after_us(0)));
  SAYS("dead q/a x; cancelled q/b", store_events(&f));
  store_close(&f);
  PASS();
}

SUITE(keys) {
  RUN_TEST(keep_writes_nothing_and_answers_with_the_other_job);
  RUN_TEST(error_writes_nothing_and_answers_eexist);
  RUN_TEST(the_id_is_looked_at_before_the_key);
  RUN_TEST(a_key_belongs_to_its_queue);
  RUN_TEST(replace_takes_the_place_of_a_pending_job);
  RUN_TEST(replace_without_another_job_is_a_usual_put);
  RUN_TEST(a_key_is_in_use_while_its_job_runs);
  RUN_TEST(every_end_frees_the_key);
  RUN_TEST(a_job_that_replaces_a_running_one_is_held);
  RUN_TEST(a_job_that_replaces_one_whose_lease_has_ended_is_held);
  RUN_TEST(a_held_job_is_pending_with_its_own_due_time_when_the_run_is_done);
  RUN_TEST(a_replaced_run_that_fails_is_not_repeated);
  RUN_TEST(a_replaced_run_that_is_released_is_not_repeated);
  RUN_TEST(a_replaced_run_that_is_given_up_is_a_dead_letter);
  RUN_TEST(a_cancelled_run_hands_its_key_on);
  RUN_TEST(a_second_replacement_replaces_the_first);
  RUN_TEST(a_held_job_can_be_cancelled);
  RUN_TEST(a_held_job_can_be_moved);
  RUN_TEST(a_chain_of_replacements_runs_one_by_one);
  RUN_TEST(cancel_and_move_of_jobs_in_other_states);
}

TEST_MAIN(ON_EVERY_STORE(RUN_SUITE(keys)));
