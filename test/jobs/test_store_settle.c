/* SPDX-License-Identifier: MIT
 *
 * SETTLE: how a run ends, and which fences count.
 */
#include "store_fixture.h"

#include <string.h>

/* A claimed job "q/a". */
static void claim_a(struct store_fixture *f) {
  store_init(f);
  store_put_simple(f, "q", "a");
  store_claim(f, "q", 1);
}

/* Q26 */
TEST a_done_job_ends_with_its_result(void) {
  struct store_fixture f;
  struct uvs__settle s;

  claim_a(&f);
  s = store_settlement(&f, 0, UVS__ACK);
  s.result.data = "4\0"
                  "2";
  s.result.size = 3;
  store_advance(&f, SEC);
  EQ(0, store_settle(&f, &s));
  EQ(UVS_JOB_DONE, store_state(&f, "q", "a"));
  SAYS("q/a", f.infos->id);
  SAYS("n", f.infos->name);
  SAYS("q", f.infos->queue);
  SAYS("", f.infos->error);
  EQ(store_now(&f) * 1000, f.infos->ended_ns);
  EQ((store_now(&f) - SEC) * 1000, f.infos->put_ns);
  EQ(1, f.infos->attempts);
  EQ(3, f.infos->result_size);
  ASSERT_MEM_EQ("4\0"
                "2",
                f.infos->result, 3);
  EQ(0, f.infos->due_ns);
  EQ(0, f.infos->payload_size);
  SAYS("", store_events(&f));
  store_close(&f);
  PASS();
}

TEST a_failed_job_is_pending_again_with_its_error(void) {
  struct store_fixture f;

  claim_a(&f);
  EQ(0, store_retry(&f, 0, 3 * SEC));
  EQ(UVS_JOB_PENDING, store_state(&f, "q", "a"));
  EQ((store_now(&f) + 3 * SEC) * 1000, f.infos->due_ns);
  EQ(1, f.infos->attempts);
  SAYS("failed", f.infos->error);
  SAYS("", store_claim(&f, "q", 1));
  EQ(store_now(&f) + 3 * SEC, f.next_us);
  store_advance(&f, 3 * SEC);
  SAYS("a", store_claim(&f, "q", 1));
  EQ(1, f.claimed[0]->failures);
  EQ(0, f.claimed[0]->crashes);
  EQ(store_now(&f), f.claimed[0]->due_us);
  store_close(&f);
  PASS();
}

TEST a_failed_job_keeps_its_priority(void) {
  struct store_fixture f;
  struct uvs__record job = store_job("q", "high");

  store_init(&f);
  job.priority = UVS_PRIORITY_HIGH;
  EQ(0, store_put(&f, &job));
  EQ(0, store_put_simple(&f, "q", "normal"));
  SAYS("high", store_claim(&f, "q", 1));
  EQ(0, store_retry(&f, 0, 0));
  SAYS("high normal", store_claim(&f, "q", 2));
  store_close(&f);
  PASS();
}

TEST the_error_is_that_of_the_last_failure(void) {
  struct store_fixture f;
  struct uvs__settle s;

  claim_a(&f);
  EQ(0, store_retry(&f, 0, 0));
  SAYS("a", store_claim(&f, "q", 1));
  EQ(0, store_release(&f, 0, 0));
  EQ(0, store_get(&f, "q", "a"));
  SAYS("failed", f.infos->error);
  EQ(1, f.infos->attempts);
  SAYS("a", store_claim(&f, "q", 1));
  s = store_settlement(&f, 0, UVS__RETRY);
  s.when = after_us(0);
  EQ(0, store_settle(&f, &s));
  EQ(0, store_get(&f, "q", "a"));
  SAYS("", f.infos->error);
  EQ(2, f.infos->attempts);
  store_close(&f);
  PASS();
}

TEST a_job_can_be_retried_at_an_instant(void) {
  struct store_fixture f;
  struct uvs__settle s;

  claim_a(&f);
  s = store_settlement(&f, 0, UVS__RETRY);
  s.when = at_us(store_now(&f) + 5);
  EQ(0, store_settle(&f, &s));
  SAYS("", store_claim(&f, "q", 1));
  EQ(store_now(&f) + 5, f.next_us);
  store_close(&f);
  PASS();
}

/* Q22 */
TEST a_released_job_is_pending_again_and_nothing_is_counted(void) {
  struct store_fixture f;

  claim_a(&f);
  EQ(0, store_release(&f, 0, 3 * SEC));
  EQ(UVS_JOB_PENDING, store_state(&f, "q", "a"));
  EQ((store_now(&f) + 3 * SEC) * 1000, f.infos->due_ns);
  EQ(0, f.infos->attempts);
  EQ(0, f.infos->crashes);
  SAYS("", f.infos->error);
  store_advance(&f, 3 * SEC);
  SAYS("a", store_claim(&f, "q", 1));
  EQ(0, f.claimed[0]->failures);
  EQ(false, f.claimed[0]->crashed_now);
  store_close(&f);
  PASS();
}

/* Q21 */
TEST a_job_that_is_given_up_is_a_dead_letter_with_the_reason(void) {
  struct store_fixture f;
  struct uvs__record job = store_job("q", "a");

  store_init(&f);
  job.payload.data = "pay";
  job.payload.size = 3;
  job.meta.data = "me";
  job.meta.size = 2;
  job.key = "k";
  job.priority = UVS_PRIORITY_LOW;
  EQ(0, store_put(&f, &job));
  SAYS("a", store_claim(&f, "q", 1));
  EQ(0, store_retry(&f, 0, 7));
  store_advance(&f, 7);
  SAYS("a", store_claim(&f, "q", 1));
  store_advance(&f, SEC);
  EQ(0, store_bury(&f, 0, "no such user"));
  SAYS("dead q/a no such user", store_events(&f));
  EQ(UVS_JOB_DEAD, store_state(&f, "q", "a"));
  SAYS("n", f.infos->name);
  SAYS("k", f.infos->key);
  SAYS("no such user", f.infos->error);
  EQ(UVS_PRIORITY_LOW, f.infos->priority);
  EQ(2, f.infos->attempts);
  EQ(store_now(&f) * 1000, f.infos->ended_ns);
  EQ((store_now(&f) - SEC) * 1000, f.infos->due_ns);
  EQ((store_now(&f) - SEC - 7) * 1000, f.infos->put_ns);
  EQ(3, f.infos->payload_size);
  ASSERT_MEM_EQ("pay", f.infos->payload, 3);
  EQ(2, f.infos->meta_size);
  ASSERT_MEM_EQ("me", f.infos->meta, 2);
  SAYS("", store_claim(&f, "q", 1));
  EQ(UVS__NEVER_US, f.next_us);
  store_close(&f);
  PASS();
}

/* Q12 Q15 */
TEST an_extended_job_has_a_new_lease_with_the_same_fence(void) {
  struct store_fixture f;

  claim_a(&f);
  store_advance(&f, 9 * SEC);
  EQ(0, store_extend(&f, 0, 10 * SEC));
  store_advance(&f, 9 * SEC);
  EQ(0, store_extend(&f, 0, 2 * SEC));
  EQ(UVS_JOB_RUNNING, store_state(&f, "q", "a"));
  EQ((store_now(&f) + 2 * SEC) * 1000, f.infos->due_ns);
  EQ(0, store_ack(&f, 0));
  store_close(&f);
  PASS();
}

TEST a_lease_can_be_shortened(void) {
  struct store_fixture f;

  claim_a(&f);
  EQ(0, store_extend(&f, 0, 1));
  store_advance(&f, 1);
  SAYS("a", store_claim(&f, "q", 1));
  EQ(true, f.claimed[0]->crashed_now);
  store_close(&f);
  PASS();
}

/* Q26 */
TEST progress_is_kept_until_the_next_note_or_the_end(void) {
  struct store_fixture f;
  struct uvs__settle s;

  claim_a(&f);
  s = store_settlement(&f, 0, UVS__EXTEND);
  s.when = after_us(SEC);
  s.progress.data = "50%";
  s.progress.size = 3;
  EQ(0, store_settle(&f, &s));
  EQ(0, store_extend(&f, 0, SEC)); /* without a note */
  EQ(0, store_get(&f, "q", "a"));
  EQ(3, f.infos->progress_size);
  ASSERT_MEM_EQ("50%", f.infos->progress, 3);
  EQ(0, store_retry(&f, 0, 0));
  SAYS("a", store_claim(&f, "q", 1));
  EQ(0, store_get(&f, "q", "a"));
  EQ(3, f.infos->progress_size);
  s = store_settlement(&f, 0, UVS__EXTEND);
  s.when = after_us(SEC);
  s.progress.data = "x";
  s.progress.size = 1;
  EQ(0, store_settle(&f, &s));
  EQ(0, store_get(&f, "q", "a"));
  EQ(1, f.infos->progress_size);
  EQ(0, store_bury(&f, 0, "why"));
  EQ(0, store_get(&f, "q", "a"));
  EQ(0, f.infos->progress_size);
  store_close(&f);
  PASS();
}

/* Q15 */
TEST a_second_result_of_a_claim_is_lost(void) {
  struct store_fixture f;

  claim_a(&f);
  EQ(0, store_ack(&f, 0));
  EQ(UVS_ELOST, store_ack(&f, 0));
  EQ(UVS_ELOST, store_retry(&f, 0, 0));
  EQ(UVS_ELOST, store_release(&f, 0, 0));
  EQ(UVS_ELOST, store_extend(&f, 0, SEC));
  EQ(UVS_ELOST, store_bury(&f, 0, "x"));
  EQ(UVS_JOB_DONE, store_state(&f, "q", "a"));
  SAYS("", store_claim(&f, "q", 1));
  store_close(&f);
  PASS();
}

/* Q15 */
TEST a_result_after_a_retry_is_lost(void) {
  struct store_fixture f;

  claim_a(&f);
  EQ(0, store_retry(&f, 0, 0));
  EQ(UVS_ELOST, store_ack(&f, 0));
  EQ(UVS_JOB_PENDING, store_state(&f, "q", "a"));
  EQ(1, f.infos->attempts);
  store_close(&f);
  PASS();
}

/* Q15 */
TEST the_result_of_an_older_claim_is_lost(void) {
  struct store_fixture f;
  struct uvs__settle old;

  claim_a(&f);
  old = store_settlement(&f, 0, UVS__ACK);
  store_advance(&f, f.lease_us);
  SAYS("a", store_claim(&f, "q", 1));
  EQ(UVS_ELOST, store_settle(&f, &old));
  old.op = UVS__EXTEND;
  EQ(UVS_ELOST, store_settle(&f, &old));
  EQ(UVS_JOB_RUNNING, store_state(&f, "q", "a"));
  EQ((store_now(&f) + f.lease_us) * 1000, f.infos->due_ns);
  EQ(0, store_ack(&f, 0));
  store_close(&f);
  PASS();
}

/* Q15 */
TEST the_result_of_a_released_and_claimed_again_job_is_lost(void) {
  struct store_fixture f;
  struct uvs__settle old;

  claim_a(&f);
  old = store_settlement(&f, 0, UVS__ACK);
  EQ(0, store_release(&f, 0, 0));
  SAYS("a", store_claim(&f, "q", 1)); /* with the same end of the lease */
  EQ(UVS_ELOST, store_settle(&f, &old));
  EQ(0, store_ack(&f, 0));
  store_close(&f);
  PASS();
}

TEST a_result_without_a_fence_is_lost(void) {
  struct store_fixture f;
  struct uvs__settle s = {.queue = "q", .rest = "a", .op = UVS__ACK};

  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  EQ(UVS_ELOST, store_settle(&f, &s)); /* pending, fence 0 */
  s.rest = "none";
  EQ(UVS_ELOST, store_settle(&f, &s));
  EQ(UVS_JOB_PENDING, store_state(&f, "q", "a"));
  store_close(&f);
  PASS();
}

TEST a_job_is_settled_by_its_id_if_the_row_is_not_known(void) {
  struct store_fixture f;
  struct uvs__settle s;

  claim_a(&f);
  s = store_settlement(&f, 0, UVS__ACK);
  s.row = 0;
  EQ(0, store_settle(&f, &s));
  EQ(UVS_JOB_DONE, store_state(&f, "q", "a"));
  store_close(&f);
  PASS();
}

TEST a_result_after_the_end_of_the_lease_counts_if_nobody_has_claimed(void) {
  struct store_fixture f;

  claim_a(&f);
  store_advance(&f, 5 * f.lease_us);
  EQ(0, store_extend(&f, 0, SEC));
  store_advance(&f, 2 * SEC);
  EQ(0, store_ack(&f, 0));
  EQ(UV_ENOENT, store_get(&f, "q", "a"));
  store_close(&f);
  PASS();
}

TEST the_largest_results_errors_and_notes_are_kept(void) {
  static char bytes[UVS_JOB_RESULT_MAX];
  char error[UVS_JOB_ERROR_MAX + 1], expected[UVS_JOB_ERROR_MAX + 20];
  struct store_fixture f;
  struct uvs__settle s;

  memset(bytes, 'b', sizeof bytes);
  memset(error, 'e', sizeof error - 1);
  error[sizeof error - 1] = '\0';
  claim_a(&f);
  s = store_settlement(&f, 0, UVS__EXTEND);
  s.when = after_us(SEC);
  s.progress.data = bytes;
  s.progress.size = UVS_JOB_PROGRESS_MAX;
  EQ(0, store_settle(&f, &s));
  s = store_settlement(&f, 0, UVS__RETRY);
  s.when = after_us(0);
  s.error = error;
  EQ(0, store_settle(&f, &s));
  EQ(0, store_get(&f, "q", "a"));
  SAYS(error, f.infos->error);
  EQ(UVS_JOB_PROGRESS_MAX, f.infos->progress_size);
  EQ(0, store_put_simple(&f, "q", "b"));
  SAYS("a b", store_claim(&f, "q", 2));
  s = store_settlement(&f, 0, UVS__ACK);
  s.result.data = bytes;
  s.result.size = sizeof bytes;
  EQ(0, store_settle(&f, &s));
  EQ(0, store_get(&f, "q", "a"));
  EQ(sizeof bytes, f.infos->result_size);
  ASSERT_MEM_EQ(bytes, f.infos->result, sizeof bytes);
  EQ(0, store_bury(&f, 1, error));
  snprintf(expected, sizeof expected, "dead q/b %s", error);
  SAYS(expected, store_events(&f));
  store_close(&f);
  PASS();
}

SUITE(settle) {
  RUN_TEST(a_done_job_ends_with_its_result);
  RUN_TEST(a_failed_job_is_pending_again_with_its_error);
  RUN_TEST(a_failed_job_keeps_its_priority);
  RUN_TEST(the_error_is_that_of_the_last_failure);
  RUN_TEST(a_job_can_be_retried_at_an_instant);
  RUN_TEST(a_released_job_is_pending_again_and_nothing_is_counted);
  RUN_TEST(a_job_that_is_given_up_is_a_dead_letter_with_the_reason);
  RUN_TEST(an_extended_job_has_a_new_lease_with_the_same_fence);
  RUN_TEST(a_lease_can_be_shortened);
  RUN_TEST(progress_is_kept_until_the_next_note_or_the_end);
  RUN_TEST(a_second_result_of_a_claim_is_lost);
  RUN_TEST(a_result_after_a_retry_is_lost);
  RUN_TEST(the_result_of_an_older_claim_is_lost);
  RUN_TEST(the_result_of_a_released_and_claimed_again_job_is_lost);
  RUN_TEST(a_result_without_a_fence_is_lost);
  RUN_TEST(a_job_is_settled_by_its_id_if_the_row_is_not_known);
  RUN_TEST(a_result_after_the_end_of_the_lease_counts_if_nobody_has_claimed);
  RUN_TEST(the_largest_results_errors_and_notes_are_kept);
}

TEST_MAIN(ON_EVERY_STORE(RUN_SUITE(settle)));
