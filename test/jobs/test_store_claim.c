/* SPDX-License-Identifier: MIT
 *
 * CLAIM: the order of jobs, leases, crashes, fences, and when to ask again.
 */
#include "store_fixture.h"

#include <string.h>

static int put_due(struct store_fixture *f, const char *rest, int priority, int64_t due_us) {
  struct uvs__record job = store_job("q", rest);

  job.priority = priority;
  job.due = at_us(due_us);
  return store_put(f, &job);
}

/* Q10 */
TEST jobs_start_by_priority_then_due_time_then_time_of_put(void) {
  struct store_fixture f;
  int64_t now;

  store_init(&f);
  now = store_now(&f);
  EQ(0, put_due(&f, "low-early", UVS_PRIORITY_LOW, now - 90));
  EQ(0, put_due(&f, "normal-late", UVS_PRIORITY_NORMAL, now - 5));
  EQ(0, put_due(&f, "high-late", UVS_PRIORITY_HIGH, now - 1));
  EQ(0, put_due(&f, "normal-early-1", UVS_PRIORITY_NORMAL, now - 7));
  EQ(0, put_due(&f, "normal-early-2", UVS_PRIORITY_NORMAL, now - 7));
  EQ(0, put_due(&f, "a", UVS_PRIORITY_NORMAL, now - 7));
  EQ(0, put_due(&f, "high-early", UVS_PRIORITY_HIGH, now - 2));
  SAYS("high-early high-late normal-early-1 normal-early-2 a normal-late low-early",
       store_claim(&f, "q", 99));
  store_close(&f);
  PASS();
}

/* Q10 */
TEST a_moved_job_keeps_its_time_of_put(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  EQ(0, store_put_simple(&f, "q", "b"));
  EQ(0, store_put_simple(&f, "q", "c"));
  EQ(0, store_move(&f, "q", "a", after_us(3)));
  EQ(0, store_move(&f, "q", "c", after_us(3)));
  EQ(0, store_move(&f, "q", "b", after_us(3)));
  store_advance(&f, 3);
  SAYS("a b c", store_claim(&f, "q", 99));
  store_close(&f);
  PASS();
}

/* Q10 */
TEST jobs_with_crashes_are_claimed_first(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, put_due(&f, "low", UVS_PRIORITY_LOW, store_now(&f)));
  SAYS("low", store_claim(&f, "q", 1));
  store_advance(&f, f.lease_us);
  EQ(0, put_due(&f, "high", UVS_PRIORITY_HIGH, store_now(&f) - 3600 * SEC));
  SAYS("low high", store_claim(&f, "q", 9));
  store_close(&f);
  PASS();
}

/* Q11 */
TEST no_more_than_max_are_claimed_and_the_rest_can_be_had_at_once(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  EQ(0, store_put_simple(&f, "q", "b"));
  EQ(0, store_put_simple(&f, "q", "c"));
  SAYS("a b", store_claim(&f, "q", 2));
  EQ(store_now(&f), f.next_us);
  SAYS("c", store_claim(&f, "q", 1));
  EQ(store_now(&f) + f.lease_us, f.next_us);
  store_close(&f);
  PASS();
}

TEST a_claim_takes_jobs_of_its_queue_only(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_put_simple(&f, "qa", "a"));
  EQ(0, store_put_simple(&f, "q", "b"));
  EQ(0, store_put_simple(&f, "q.", "c"));
  SAYS("b", store_claim(&f, "q", 9));
  SAYS("", store_claim(&f, "none", 9));
  EQ(UVS__NEVER_US, f.next_us);
  store_close(&f);
  PASS();
}

TEST the_next_time_of_an_empty_queue_is_never(void) {
  struct store_fixture f;

  store_init(&f);
  SAYS("", store_claim(&f, "q", 9));
  EQ(UVS__NEVER_US, f.next_us);
  EQ(0, store_put_simple(&f, "q", "a"));
  SAYS("a", store_claim(&f, "q", 9));
  EQ(0, store_ack(&f, 0));
  SAYS("", store_claim(&f, "q", 9));
  EQ(UVS__NEVER_US, f.next_us);
  store_close(&f);
  PASS();
}

TEST the_next_time_is_the_nearest_due_time_of_any_priority(void) {
  struct store_fixture f;
  int64_t now;

  store_init(&f);
  now = store_now(&f);
  EQ(0, put_due(&f, "high", UVS_PRIORITY_HIGH, now + 300));
  EQ(0, put_due(&f, "normal", UVS_PRIORITY_NORMAL, now + 200));
  EQ(0, put_due(&f, "low", UVS_PRIORITY_LOW, now + 100));
  SAYS("", store_claim(&f, "q", 9));
  EQ(now + 100, f.next_us);
  EQ(0, store_cancel(&f, "q", "low"));
  SAYS("", store_claim(&f, "q", 9));
  EQ(now + 200, f.next_us);
  EQ(0, store_cancel(&f, "q", "normal"));
  SAYS("", store_claim(&f, "q", 9));
  EQ(now + 300, f.next_us);
  store_close(&f);
  PASS();
}

TEST the_next_time_is_the_end_of_a_lease_if_that_is_nearer(void) {
  struct store_fixture f;
  int64_t now;

  store_init(&f);
  now = store_now(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  EQ(0, put_due(&f, "b", 0, now + 11 * SEC));
  SAYS("a", store_claim(&f, "q", 9));
  EQ(now + 10 * SEC, f.next_us);
  EQ(0, store_extend(&f, 0, 12 * SEC));
  SAYS("", store_claim(&f, "q", 9));
  EQ(now + 11 * SEC, f.next_us);
  store_close(&f);
  PASS();
}

TEST a_held_job_is_never_claimed_and_sets_no_next_time(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_put_key(&f, "a", "k", 0));
  SAYS("a", store_claim(&f, "q", 9));
  EQ(0, store_put_key(&f, "b", "k", UVS_KEY_REPLACE));
  EQ(UVS_JOB_HELD, store_state(&f, "q", "b"));
  SAYS("", store_claim(&f, "q", 9));
  EQ(store_now(&f) + f.lease_us, f.next_us);
  store_close(&f);
  PASS();
}

TEST a_claimed_job_is_running_until_the_end_of_its_lease(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  SAYS("a", store_claim(&f, "q", 9));
  EQ(0, f.claimed[0]->crashes);
  EQ(0, f.claimed[0]->failures);
  EQ(false, f.claimed[0]->crashed_now);
  EQ(UVS_JOB_RUNNING, store_state(&f, "q", "a"));
  EQ((store_now(&f) + f.lease_us) * 1000, f.infos->due_ns);
  EQ(0, f.infos->cancelling);
  store_advance(&f, f.lease_us - 1);
  SAYS("", store_claim(&f, "q", 9));
  EQ(store_now(&f) + 1, f.next_us);
  store_close(&f);
  PASS();
}

/* Q13 Q21 */
TEST a_job_whose_lease_has_ended_is_claimed_again_as_a_crash(void) {
  struct store_fixture f;
  int64_t put_us;

  store_init(&f);
  put_us = store_now(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  SAYS("a", store_claim(&f, "q", 9));
  store_advance(&f, f.lease_us);
  EQ(UVS_JOB_RUNNING, store_state(&f, "q", "a"));
  SAYS("a", store_claim(&f, "q", 9));
  EQ(1, f.claimed[0]->crashes);
  EQ(true, f.claimed[0]->crashed_now);
  EQ(put_us, f.claimed[0]->due_us);
  EQ(0, store_get(&f, "q", "a"));
  EQ(1, f.infos->crashes);
  store_advance(&f, f.lease_us);
  SAYS("a", store_claim(&f, "q", 9));
  EQ(2, f.claimed[0]->crashes);
  EQ(0, f.claimed[0]->failures);
  store_close(&f);
  PASS();
}

/* Q21 */
TEST a_retried_job_with_a_crash_is_no_new_crash_when_it_is_claimed(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  SAYS("a", store_claim(&f, "q", 9));
  store_advance(&f, f.lease_us);
  SAYS("a", store_claim(&f, "q", 9));
  EQ(0, store_retry(&f, 0, SEC));
  EQ(UVS_JOB_PENDING, store_state(&f, "q", "a"));
  store_advance(&f, SEC - 1);
  SAYS("", store_claim(&f, "q", 9));
  EQ(store_now(&f) + 1, f.next_us);
  store_advance(&f, 1);
  SAYS("a", store_claim(&f, "q", 9));
  EQ(1, f.claimed[0]->crashes);
  EQ(false, f.claimed[0]->crashed_now);
  EQ(1, f.claimed[0]->failures);
  EQ(store_now(&f), f.claimed[0]->due_us);
  store_close(&f);
  PASS();
}

/* Q10 */
TEST a_claim_takes_at_most_max_crashed_jobs_with_crashes(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  EQ(0, store_put_simple(&f, "q", "b"));
  SAYS("a b", store_claim(&f, "q", 9));
  store_advance(&f, f.lease_us);
  EQ(0, store_put_simple(&f, "q", "c"));
  EQ(0, put_due(&f, "d", 0, store_now(&f) + 5));
  f.max_crashed = 1;
  SAYS("a c", store_claim(&f, "q", 9));
  EQ(store_now(&f) + 5, f.next_us); /* b is held back, and does not count */
  f.max_crashed = 0;
  SAYS("", store_claim(&f, "q", 9));
  EQ(store_now(&f) + 5, f.next_us);
  EQ(0, store_cancel(&f, "q", "d"));
  SAYS("", store_claim(&f, "q", 9));
  EQ(store_now(&f) + f.lease_us, f.next_us);
  f.max_crashed = 9;
  SAYS("b", store_claim(&f, "q", 9));
  store_close(&f);
  PASS();
}

TEST max_crashed_holds_back_pending_jobs_with_crashes_too(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  SAYS("a", store_claim(&f, "q", 9));
  store_advance(&f, f.lease_us);
  SAYS("a", store_claim(&f, "q", 9));
  EQ(0, store_release(&f, 0, 0));
  f.max_crashed = 0;
  SAYS("", store_claim(&f, "q", 9));
  EQ(UVS__NEVER_US, f.next_us);
  f.max_crashed = 1;
  SAYS("a", store_claim(&f, "q", 9));
  store_close(&f);
  PASS();
}

/* Q19 */
TEST pending_only_leaves_leases_that_have_ended(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  EQ(0, store_put_simple(&f, "q", "b"));
  SAYS("a b", store_claim(&f, "q", 9));
  store_advance(&f, f.lease_us);
  SAYS("a b", store_claim(&f, "q", 9));
  EQ(0, store_release(&f, 1, f.lease_us));
  store_advance(&f, f.lease_us);
  EQ(0, store_put_simple(&f, "q", "c"));
  f.pending_only = true;
  SAYS("b c", store_claim(&f, "q", 9));
  EQ(store_now(&f) + f.lease_us, f.next_us);
  f.pending_only = false;
  SAYS("a", store_claim(&f, "q", 9));
  store_close(&f);
  PASS();
}

TEST pending_only_does_not_end_cancelled_jobs(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  SAYS("a", store_claim(&f, "q", 9));
  EQ(UVS_JOB_RUNNING, store_cancel(&f, "q", "a"));
  store_advance(&f, f.lease_us);
  f.pending_only = true;
  SAYS("", store_claim(&f, "q", 9));
  EQ(UVS__NEVER_US, f.next_us);
  EQ(UVS_JOB_RUNNING, store_state(&f, "q", "a"));
  store_close(&f);
  PASS();
}

/* Q15 */
TEST jobs_of_one_claim_have_one_fence_and_later_claims_a_larger_one(void) {
  struct store_fixture f;
  uint64_t first;

  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  EQ(0, store_put_simple(&f, "q", "b"));
  EQ(0, store_put_simple(&f, "q", "c"));
  EQ(0, store_put_simple(&f, "p", "d"));
  SAYS("a b", store_claim(&f, "q", 2));
  first = f.claimed[0]->fence;
  ASSERT(first > 0);
  EQ(first, f.claimed[1]->fence);
  SAYS("c", store_claim(&f, "q", 2));
  EQ(first + 1, f.claimed[0]->fence);
  SAYS("", store_claim(&f, "q", 2)); /* draws none */
  SAYS("d", store_claim(&f, "p", 2));
  EQ(first + 2, f.claimed[0]->fence);
  store_close(&f);
  PASS();
}

/* Q13 Q31 */
TEST a_cancelled_job_whose_lease_has_ended_ends_at_the_next_claim(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  SAYS("a", store_claim(&f, "q", 9));
  EQ(UVS_JOB_RUNNING, store_cancel(&f, "q", "a"));
  EQ(UVS_JOB_RUNNING, store_state(&f, "q", "a"));
  EQ(1, f.infos->cancelling);
  store_advance(&f, f.lease_us);
  SAYS("", store_events(&f));
  EQ(0, store_put_simple(&f, "q", "b"));
  SAYS("b", store_claim(&f, "q", 9));
  SAYS("cancelled q/a", store_events(&f));
  EQ(UVS_JOB_CANCELLED, store_state(&f, "q", "a"));
  EQ(0, f.infos->crashes);
  store_close(&f);
  PASS();
}

TEST jobs_that_end_at_a_claim_count_for_max(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  EQ(0, store_put_simple(&f, "q", "b"));
  SAYS("a b", store_claim(&f, "q", 9));
  EQ(UVS_JOB_RUNNING, store_cancel(&f, "q", "a"));
  EQ(UVS_JOB_RUNNING, store_cancel(&f, "q", "b"));
  store_advance(&f, f.lease_us);
  EQ(0, store_put_simple(&f, "q", "c"));
  SAYS("", store_claim(&f, "q", 1));
  EQ(store_now(&f), f.next_us);
  SAYS("cancelled q/a", store_events(&f));
  SAYS("", store_claim(&f, "q", 1));
  EQ(store_now(&f), f.next_us);
  SAYS("cancelled q/b", store_events(&f));
  SAYS("c", store_claim(&f, "q", 1));
  store_close(&f);
  PASS();
}

/* Q13 Q29 */
TEST a_job_with_a_successor_whose_lease_has_ended_is_replaced_at_the_next_claim(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_put_key(&f, "a", "k", 0));
  SAYS("a", store_claim(&f, "q", 9));
  EQ(0, store_put_key(&f, "b", "k", UVS_KEY_REPLACE));
  store_advance(&f, f.lease_us);
  SAYS("b", store_claim(&f, "q", 9)); /* in the same request */
  EQ(false, f.claimed[0]->crashed_now);
  EQ(0, f.claimed[0]->crashes);
  SAYS("replaced q/a", store_events(&f));
  EQ(UVS_JOB_REPLACED, store_state(&f, "q", "a"));
  EQ(UVS_JOB_EXISTS, store_put_key(&f, "c", "k", UVS_KEY_KEEP));
  SAYS("b", f.there);
  store_close(&f);
  PASS();
}

TEST a_cancelled_job_with_a_successor_ends_as_cancelled_at_the_next_claim(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_put_key(&f, "a", "k", 0));
  SAYS("a", store_claim(&f, "q", 9));
  EQ(0, store_put_key(&f, "b", "k", UVS_KEY_REPLACE));
  EQ(UVS_JOB_RUNNING, store_cancel(&f, "q", "a"));
  store_advance(&f, f.lease_us);
  SAYS("b", store_claim(&f, "q", 9));
  SAYS("cancelled q/a", store_events(&f));
  store_close(&f);
  PASS();
}

/* Q2 */
TEST a_clock_that_is_set_back_makes_no_job_early(void) {
  struct store_fixture f;
  int64_t due_us;

  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  due_us = store_now(&f);
  store_advance(&f, -3600 * SEC);
  SAYS("", store_claim(&f, "q", 9));
  EQ(due_us, f.next_us);
  store_advance(&f, 3600 * SEC);
  SAYS("a", store_claim(&f, "q", 9));
  store_advance(&f, -3600 * SEC);
  SAYS("", store_claim(&f, "q", 9));
  store_close(&f);
  PASS();
}

TEST a_thousand_jobs_are_claimed_in_one_request(void) {
  struct store_fixture f;
  char rest[20];
  int i;

  store_init(&f);
  for (i = 0; i < 1050; i++) {
    snprintf(rest, sizeof rest, "job-%d", i);
    EQ(0, store_put_simple(&f, "q", rest));
  }
  store_claim(&f, "q", 1000);
  EQ(1000, f.n_claimed);
  EQ(store_now(&f), f.next_us);
  for (i = 0; i < 1000; i++) {
    snprintf(rest, sizeof rest, "job-%d", i);
    SAYS(rest, f.claimed[i]->rest);
  }
  store_claim(&f, "q", 1000);
  EQ(50, f.n_claimed);
  store_close(&f);
  PASS();
}

static int put_sized(struct store_fixture *f, int i, size_t size) {
  static char payload[UVS_JOB_PAYLOAD_MAX];
  struct uvs__record job = store_job("q", NULL);
  char rest[20];

  snprintf(rest, sizeof rest, "%d", i);
  job.rest = rest;
  job.payload.data = payload;
  job.payload.size = size;
  return store_put(f, &job);
}

TEST a_claim_stops_after_a_mebibyte_of_payload(void) {
  struct store_fixture f;

  store_init(&f);
  for (int i = 0; i < 40; i++)
    EQ(0, put_sized(&f, i, 65536));
  for (size_t n = 0; n < 40; n += f.n_claimed) {
    store_claim(&f, "q", 500);
    ASSERT(f.n_claimed == 16 || f.n_claimed == 17 || n + f.n_claimed == 40);
    EQ(n + f.n_claimed < 40 ? store_now(&f) : store_now(&f) + f.lease_us, f.next_us);
  }
  for (int i = 40; i < 60; i++) /* small jobs come first, and the claim still stops in time */
    EQ(0, put_sized(&f, i, i < 57 ? 10 : UVS_JOB_PAYLOAD_MAX));
  store_claim(&f, "q", 500);
  EQ(18, f.n_claimed);
  EQ(store_now(&f), f.next_us);
  SAYS("58", store_claim(&f, "q", 500));
  SAYS("59", store_claim(&f, "q", 500));
  store_advance(&f, f.lease_us); /* the same limit holds for crashed jobs */
  f.max_crashed = 500;
  store_claim(&f, "q", 500);
  ASSERT(f.n_claimed == 16 || f.n_claimed == 17);
  EQ(store_now(&f), f.next_us);
  store_close(&f);
  PASS();
}

TEST a_page_of_large_dead_letters_is_short(void) {
  struct store_fixture f;
  uvs_job_filter_t filter;
  size_t n = 0;

  store_init(&f);
  uvs_job_filter_init(&filter);
  filter.state = UVS_JOB_DEAD;
  for (int i = 0; i < 25; i++) {
    EQ(0, put_sized(&f, i, UVS_JOB_PAYLOAD_MAX));
    store_claim(&f, "q", 1);
    EQ(0, store_bury(&f, 0, "why"));
  }
  do {
    store_list(&f, &filter, f.cursor, 1000);
    ASSERT(f.n_infos <= (f.kind->server ? 20u : 1u)); /* Redis: up to 20 steps, one each */
    n += f.n_infos;
    EQ(UVS_JOB_PAYLOAD_MAX, f.n_infos == 0 ? UVS_JOB_PAYLOAD_MAX : f.infos[0].payload_size);
  } while (f.cursor != 0);
  EQ(25, n);
  store_close(&f);
  PASS();
}

TEST a_lease_beyond_the_last_instant_ends_at_it(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  f.lease_us = UVS__NEVER_US;
  SAYS("a", store_claim(&f, "q", 9));
  EQ(UVS__NEVER_US - 1, f.next_us);
  EQ(0, store_extend(&f, 0, SEC));
  EQ(0, store_extend(&f, 0, UVS__NEVER_US));
  SAYS("", store_claim(&f, "q", 9));
  EQ(UVS__NEVER_US - 1, f.next_us);
  store_close(&f);
  PASS();
}

SUITE(claim) {
  RUN_TEST(jobs_start_by_priority_then_due_time_then_time_of_put);
  RUN_TEST(a_moved_job_keeps_its_time_of_put);
  RUN_TEST(jobs_with_crashes_are_claimed_first);
  RUN_TEST(no_more_than_max_are_claimed_and_the_rest_can_be_had_at_once);
  RUN_TEST(a_claim_takes_jobs_of_its_queue_only);
  RUN_TEST(the_next_time_of_an_empty_queue_is_never);
  RUN_TEST(the_next_time_is_the_nearest_due_time_of_any_priority);
  RUN_TEST(the_next_time_is_the_end_of_a_lease_if_that_is_nearer);
  RUN_TEST(a_held_job_is_never_claimed_and_sets_no_next_time);
  RUN_TEST(a_claimed_job_is_running_until_the_end_of_its_lease);
  RUN_TEST(a_job_whose_lease_has_ended_is_claimed_again_as_a_crash);
  RUN_TEST(a_retried_job_with_a_crash_is_no_new_crash_when_it_is_claimed);
  RUN_TEST(a_claim_takes_at_most_max_crashed_jobs_with_crashes);
  RUN_TEST(max_crashed_holds_back_pending_jobs_with_crashes_too);
  RUN_TEST(pending_only_leaves_leases_that_have_ended);
  RUN_TEST(pending_only_does_not_end_cancelled_jobs);
  RUN_TEST(jobs_of_one_claim_have_one_fence_and_later_claims_a_larger_one);
  RUN_TEST(a_cancelled_job_whose_lease_has_ended_ends_at_the_next_claim);
  RUN_TEST(jobs_that_end_at_a_claim_count_for_max);
  RUN_TEST(a_job_with_a_successor_whose_lease_has_ended_is_replaced_at_the_next_claim);
  RUN_TEST(a_cancelled_job_with_a_successor_ends_as_cancelled_at_the_next_claim);
  RUN_TEST(a_clock_that_is_set_back_makes_no_job_early);
  RUN_TEST(a_thousand_jobs_are_claimed_in_one_request);
  RUN_TEST(a_claim_stops_after_a_mebibyte_of_payload);
  RUN_TEST(a_page_of_large_dead_letters_is_short);
  RUN_TEST(a_lease_beyond_the_last_instant_ends_at_it);
}

TEST_MAIN(ON_EVERY_STORE(RUN_SUITE(claim)));
