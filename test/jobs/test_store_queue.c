/* SPDX-License-Identifier: MIT
 *
 * Settings of queues: pause and concurrency bound what is claimed.
 */
#include "store_fixture.h"

/* Jobs "a", "b", ... that are due at due_us. */
static void put_letters(struct store_fixture *f, char first, char last, int64_t due_us) {
  char rest[2] = "";

  for (rest[0] = first; rest[0] <= last; rest[0]++) {
    struct uvs__record job = store_job("q", rest);

    job.due = at_us(due_us);
    store_put(f, &job);
  }
}

static void set_concurrency(struct store_fixture *f, int64_t n) {
  uvs_job_queue_t q = store_queue("q");

  q.concurrency = n;
  store_set_queue(f, &q);
}

/* Q41 */
TEST a_paused_queue_gives_nothing_until_it_is_resumed(void) {
  struct store_fixture f;
  uvs_job_queue_t q = store_queue("q");

  store_init(&f);
  put_letters(&f, 'a', 'b', store_now(&f));
  EQ(0, store_put_simple(&f, "p", "other"));
  SAYS("a", store_claim(&f, "q", 1));
  q.paused = 1;
  EQ(0, store_set_queue(&f, &q));
  SAYS("", store_claim(&f, "q", 9));
  EQ(UVS__NEVER_US, f.next_us);
  store_advance(&f, f.lease_us);
  SAYS("", store_claim(&f, "q", 9));
  EQ(UVS__NEVER_US, f.next_us);
  SAYS("other", store_claim(&f, "p", 9));
  q.paused = 0;
  EQ(0, store_set_queue(&f, &q));
  SAYS("a b", store_claim(&f, "q", 9));
  store_close(&f);
  PASS();
}

/* Q41 */
TEST a_paused_queue_still_takes_jobs_and_results(void) {
  struct store_fixture f;
  uvs_job_queue_t q = store_queue("q");

  store_init(&f);
  put_letters(&f, 'a', 'a', store_now(&f));
  SAYS("a", store_claim(&f, "q", 1));
  q.paused = 1;
  EQ(0, store_set_queue(&f, &q));
  EQ(0, store_put_simple(&f, "q", "b"));
  EQ(0, store_extend(&f, 0, SEC));
  EQ(0, store_ack(&f, 0));
  EQ(UVS_JOB_PENDING, store_state(&f, "q", "b"));
  store_close(&f);
  PASS();
}

TEST settings_that_are_minus_one_stay(void) {
  struct store_fixture f;
  uvs_job_queue_t q = store_queue("q");
  const uvs_queue_stats_t *s;

  store_init(&f);
  EQ(0, store_set_queue(&f, &q));
  s = store_count(&f, "q");
  ASSERT(s != NULL);
  EQ(0, s->paused);
  EQ(0, s->concurrency);
  EQ(0, s->rate);
  EQ(UVS_SEC(1), s->rate_ns);
  EQ(0, s->catch_up_rate);

  q.paused = 1;
  q.concurrency = 7;
  q.rate = 8;
  q.rate_ns = UVS_MIN(1);
  q.catch_up_rate = 9;
  EQ(0, store_set_queue(&f, &q));
  q = store_queue("q");
  q.rate = 10;
  EQ(0, store_set_queue(&f, &q));
  s = store_count(&f, "q");
  ASSERT(s != NULL);
  EQ(1, s->paused);
  EQ(7, s->concurrency);
  EQ(10, s->rate);
  EQ(UVS_MIN(1), s->rate_ns);
  EQ(9, s->catch_up_rate);

  q.rate = q.concurrency = q.catch_up_rate = 0;
  q.paused = 0;
  EQ(0, store_set_queue(&f, &q));
  s = store_count(&f, "q");
  EQ(0, s->paused);
  EQ(0, s->concurrency);
  EQ(0, s->rate);
  EQ(UVS_MIN(1), s->rate_ns);
  EQ(0, s->catch_up_rate);
  SAYS("queue q; queue q; queue q; queue q", store_events(&f));
  store_close(&f);
  PASS();
}

/* Q39 */
TEST no_more_jobs_run_at_once_than_the_concurrency(void) {
  struct store_fixture f;
  int64_t first_end_us;

  store_init(&f);
  set_concurrency(&f, 2);
  put_letters(&f, 'a', 'd', store_now(&f));
  SAYS("a", store_claim(&f, "q", 1));
  EQ(store_now(&f), f.next_us); /* there was room for another one */
  first_end_us = store_now(&f) + f.lease_us;
  store_advance(&f, SEC);
  SAYS("b", store_claim(&f, "q", 9));
  EQ(first_end_us, f.next_us);
  SAYS("", store_claim(&f, "q", 9));
  EQ(first_end_us, f.next_us);
  store_close(&f);
  PASS();
}

/* Q39 */
TEST the_end_of_a_run_makes_room_for_another(void) {
  struct store_fixture f;

  store_init(&f);
  set_concurrency(&f, 2);
  put_letters(&f, 'a', 'd', store_now(&f));
  SAYS("a b", store_claim(&f, "q", 9));
  EQ(store_now(&f) + f.lease_us, f.next_us);
  EQ(0, store_ack(&f, 0));
  EQ(0, store_release(&f, 1, 0));
  SAYS("b c", store_claim(&f, "q", 9));
  store_close(&f);
  PASS();
}

/* Q39 */
TEST a_lease_that_has_ended_makes_room_for_another(void) {
  struct store_fixture f;

  store_init(&f);
  set_concurrency(&f, 1);
  put_letters(&f, 'a', 'b', store_now(&f));
  SAYS("a", store_claim(&f, "q", 9));
  store_advance(&f, f.lease_us);
  f.pending_only = true;
  SAYS("b", store_claim(&f, "q", 9));
  f.pending_only = false;
  SAYS("", store_claim(&f, "q", 9)); /* the expired one waits for room, too */
  EQ(store_now(&f) + f.lease_us, f.next_us);
  store_close(&f);
  PASS();
}

TEST a_reached_concurrency_does_not_hide_the_next_due_time(void) {
  struct store_fixture f;
  int64_t now;

  store_init(&f);
  now = store_now(&f);
  set_concurrency(&f, 1);
  put_letters(&f, 'a', 'a', now);
  put_letters(&f, 'b', 'b', now + SEC);
  SAYS("a", store_claim(&f, "q", 9));
  EQ(now + SEC, f.next_us);
  store_advance(&f, SEC);
  SAYS("", store_claim(&f, "q", 9));
  EQ(now + f.lease_us, f.next_us);
  store_close(&f);
  PASS();
}

TEST a_pending_job_with_crashes_does_not_count_for_the_concurrency(void) {
  struct store_fixture f;

  store_init(&f);
  put_letters(&f, 'a', 'c', store_now(&f));
  SAYS("a", store_claim(&f, "q", 1));
  store_advance(&f, f.lease_us);
  SAYS("a", store_claim(&f, "q", 1));
  EQ(0, store_retry(&f, 0, SEC)); /* visible in a second, in the class of leases */
  set_concurrency(&f, 1);
  SAYS("b", store_claim(&f, "q", 9));
  EQ(store_now(&f) + f.lease_us, f.next_us);
  store_close(&f);
  PASS();
}

TEST cancelled_jobs_end_at_a_claim_although_the_concurrency_is_reached(void) {
  struct store_fixture f;

  store_init(&f);
  put_letters(&f, 'a', 'b', store_now(&f));
  SAYS("a", store_claim(&f, "q", 1));
  store_advance(&f, f.lease_us - 1);
  SAYS("b", store_claim(&f, "q", 1));
  EQ(UVS_JOB_RUNNING, store_cancel(&f, "q", "a"));
  store_advance(&f, 1);
  set_concurrency(&f, 1);
  store_events(&f);
  SAYS("", store_claim(&f, "q", 9));
  SAYS("cancelled q/a", store_events(&f));
  store_close(&f);
  PASS();
}

/* Q39 */
TEST a_lower_concurrency_ends_no_run(void) {
  struct store_fixture f;

  store_init(&f);
  put_letters(&f, 'a', 'e', store_now(&f));
  SAYS("a b c", store_claim(&f, "q", 3));
  set_concurrency(&f, 1);
  EQ(0, store_extend(&f, 2, SEC));
  EQ(0, store_ack(&f, 0));
  SAYS("", store_claim(&f, "q", 9));
  EQ(store_now(&f) + SEC, f.next_us);
  store_close(&f);
  PASS();
}

SUITE(queue) {
  RUN_TEST(a_paused_queue_gives_nothing_until_it_is_resumed);
  RUN_TEST(a_paused_queue_still_takes_jobs_and_results);
  RUN_TEST(settings_that_are_minus_one_stay);
  RUN_TEST(no_more_jobs_run_at_once_than_the_concurrency);
  RUN_TEST(the_end_of_a_run_makes_room_for_another);
  RUN_TEST(a_lease_that_has_ended_makes_room_for_another);
  RUN_TEST(a_reached_concurrency_does_not_hide_the_next_due_time);
  RUN_TEST(a_pending_job_with_crashes_does_not_count_for_the_concurrency);
  RUN_TEST(cancelled_jobs_end_at_a_claim_although_the_concurrency_is_reached);
  RUN_TEST(a_lower_concurrency_ends_no_run);
}

TEST_MAIN(ON_EVERY_STORE(RUN_SUITE(queue)));
