/* SPDX-License-Identifier: MIT
 *
 * Two openers of one store, and a store that is closed and opened again.
 */
#include "store_fixture.h"

#include <string.h>

static bool poll(struct store_fixture *f, struct uvs__store *store) {
  (void)f;
  return store->ops->poll(store);
}

/* Q15 Q28 Q39 */
TEST two_openers_share_jobs_keys_queues_and_fences(void) {
  struct store_fixture f;
  uvs_job_queue_t q = store_queue("q");
  uint64_t fence;

  store_init(&f);
  EQ(0, store_put_key(&f, "a", "k", 0));
  EQ(0, store_put_simple(&f, "q", "b"));
  SAYS("a", store_claim(&f, "q", 1));
  fence = f.claimed[0]->fence;
  EQ(0, store_open_second(&f));
  EQ(UV_EEXIST, store_put_key(&f, "c", "k", UVS_KEY_ERROR));
  EQ(0, store_ack(&f, 0)); /* the other's claim */
  SAYS("b", store_claim(&f, "q", 1));
  EQ(fence + 1, f.claimed[0]->fence);
  q.paused = 1;
  EQ(0, store_set_queue(&f, &q));
  f.at = f.first;
  EQ(0, store_put_simple(&f, "q", "d"));
  SAYS("", store_claim(&f, "q", 1));
  EQ(UVS_JOB_DONE, store_state(&f, "q", "a"));
  SAYS("queue q", store_events(&f));
  store_close(&f);
  PASS();
}

/* Q18 */
TEST a_poll_reports_changes_by_another_opener_once(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_open_second(&f));
  poll(&f, f.first);
  poll(&f, f.second);
  EQ(0, store_put_simple(&f, "q", "a"));
  EQ(true, poll(&f, f.first));
  EQ(false, poll(&f, f.first));
  EQ(false, poll(&f, f.second)); /* its own change */
  store_close(&f);
  PASS();
}

TEST claims_that_find_nothing_are_no_change(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_open_second(&f));
  poll(&f, f.first);
  poll(&f, f.second);
  SAYS("", store_claim(&f, "q", 9));
  EQ(0, store_state(&f, "q", "a"));
  EQ(false, poll(&f, f.first));
  store_close(&f);
  PASS();
}

TEST a_retry_a_result_and_a_queue_are_changes(void) {
  struct store_fixture f;
  uvs_job_queue_t q = store_queue("q");

  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  EQ(0, store_open_second(&f));
  SAYS("a", store_claim(&f, "q", 9));
  poll(&f, f.first);
  EQ(0, store_retry(&f, 0, 0));
  EQ(true, poll(&f, f.first));
  SAYS("a", store_claim(&f, "q", 9));
  poll(&f, f.first);
  EQ(0, store_ack(&f, 0)); /* makes room if the concurrency is bounded */
  EQ(true, poll(&f, f.first));
  EQ(0, store_set_queue(&f, &q));
  EQ(true, poll(&f, f.first));
  store_close(&f);
  PASS();
}

TEST an_own_change_does_not_hide_an_earlier_one_of_another_opener(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_open_second(&f));
  poll(&f, f.first);
  poll(&f, f.second);
  EQ(0, store_put_simple(&f, "q", "a")); /* by the second */
  f.at = f.first;
  EQ(0, store_put_simple(&f, "q", "b"));
  EQ(true, poll(&f, f.first));
  EQ(true, poll(&f, f.second));
  store_close(&f);
  PASS();
}

TEST polling_says_that_there_are_new_events(void) {
  struct store_fixture f;
  uint64_t before;

  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  EQ(0, store_open_second(&f));
  before = f.first->events;
  EQ(0, store_cancel(&f, "q", "a"));
  poll(&f, f.first);
  ASSERT(f.first->events != before);
  store_close(&f);
  PASS();
}

TEST a_store_has_a_clock_and_a_poll_interval(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(store_now(&f), f.first->ops->now_us(f.first));
  f.wall_ns += 1999;
  EQ(store_now(&f), f.first->ops->now_us(f.first));
  ASSERT(f.first->poll_ms > 0 || f.kind->server); /* it can be shared */
  EQ(0, f.first->ops->idle(f.first));
  SAYS("", f.first->trouble);
  store_close(&f);
  PASS();
}

/* Q39 */
TEST everything_is_there_after_the_store_was_closed(void) {
  struct store_fixture f;
  struct uvs__record job = store_job("q", "pending");
  struct uvs__cron cron = store_cron("c", 4);
  uvs_job_queue_t q = store_queue("q");
  uint64_t fence;

  store_init(&f);
  job.payload.data = "pay";
  job.payload.size = 3;
  job.due = after_us(SEC);
  EQ(0, store_put_key(&f, "dead", NULL, 0));
  SAYS("dead", store_claim(&f, "q", 1));
  EQ(0, store_bury(&f, 0, "why"));
  EQ(0, store_put_key(&f, "run", "k", 0));
  SAYS("run", store_claim(&f, "q", 1));
  fence = f.claimed[0]->fence;
  EQ(0, store_put_key(&f, "held", "k", UVS_KEY_REPLACE));
  EQ(0, store_put(&f, &job));
  EQ(0, store_put_simple(&f, "q", "cancelled"));
  EQ(0, store_cancel(&f, "q", "cancelled"));
  EQ(0, store_set_cron(&f, &cron));
  q.rate = 5;
  EQ(0, store_set_queue(&f, &q));

  EQ(0, store_reopen(&f));
  SAYS("run held pending c", store_list_state(&f, 0));
  SAYS("dead", store_list_state(&f, UVS_JOB_DEAD));
  EQ(UVS_JOB_EXISTS, store_put_simple(&f, "q", "cancelled"));
  EQ(5, store_count(&f, "q")->rate);
  EQ(0, store_crons(&f));
  EQ(4, f.crons[0].revision);
  SAYS("dead q/dead why; cancelled q/cancelled; queue q", store_events(&f));
  EQ(0, store_put_simple(&f, "p", "x"));
  SAYS("run held pending c x", store_list_state(&f, 0));
  EQ(0, store_ack(&f, 0)); /* the claim before the store was closed */
  EQ(UVS_JOB_PENDING, store_state(&f, "q", "held"));
  SAYS("held", store_claim(&f, "q", 9));
  ASSERT(f.claimed[0]->fence > fence);
  store_close(&f);
  PASS();
}

TEST closing_an_opener_ends_the_leases_that_it_has_given(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  EQ(0, store_put_simple(&f, "q", "b"));
  EQ(0, store_put_simple(&f, "q", "c"));
  SAYS("a", store_claim(&f, "q", 1));
  EQ(0, store_open_second(&f));
  SAYS("b", store_claim(&f, "q", 1));
  store_advance(&f, SEC);
  store_end(f.second);
  f.second = NULL;
  f.at = f.first;
  EQ(UVS_JOB_RUNNING, store_state(&f, "q", "b"));
  EQ(store_now(&f) * 1000, f.infos->due_ns);
  if (!f.kind->server)
    EQ(true, poll(&f, f.first));
  SAYS("b c", store_claim(&f, "q", 9)); /* not a */
  EQ(true, f.claimed[0]->crashed_now);
  store_close(&f);
  PASS();
}

/* A server tells by messages. */
SUITE(polling) {
  RUN_TEST(a_poll_reports_changes_by_another_opener_once);
  RUN_TEST(claims_that_find_nothing_are_no_change);
  RUN_TEST(a_retry_a_result_and_a_queue_are_changes);
  RUN_TEST(an_own_change_does_not_hide_an_earlier_one_of_another_opener);
  RUN_TEST(polling_says_that_there_are_new_events);
}

SUITE(shared) {
  RUN_TEST(two_openers_share_jobs_keys_queues_and_fences);
  RUN_TEST(a_store_has_a_clock_and_a_poll_interval);
  RUN_TEST(everything_is_there_after_the_store_was_closed);
  RUN_TEST(closing_an_opener_ends_the_leases_that_it_has_given);
}

TEST_MAIN(ON_EVERY_STORE(RUN_SUITE(shared); if (!store_kind->server) RUN_SUITE(polling)));
