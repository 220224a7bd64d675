/* SPDX-License-Identifier: MIT
 *
 * Settings of queues: the rate and the catch-up rate bound what is claimed.
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

static void set_rate(struct store_fixture *f, int64_t rate, int64_t rate_ns) {
  uvs_job_queue_t q = store_queue("q");

  q.rate = rate;
  q.rate_ns = rate_ns;
  store_set_queue(f, &q);
}

static void set_catch_up(struct store_fixture *f, int64_t rate) {
  uvs_job_queue_t q = store_queue("q");

  q.catch_up_rate = rate;
  store_set_queue(f, &q);
}

/* Q40 */
TEST no_more_jobs_are_claimed_in_a_window_than_the_rate(void) {
  struct store_fixture f;
  int64_t start_us;

  store_init(&f);
  set_rate(&f, 3, UVS_SEC(10));
  put_letters(&f, 'a', 'h', store_now(&f));
  store_advance(&f, 3 * SEC);
  start_us = store_now(&f); /* the window begins with the first claim */
  SAYS("a b", store_claim(&f, "q", 2));
  EQ(start_us, f.next_us);
  store_advance(&f, 9 * SEC);
  SAYS("c", store_claim(&f, "q", 2));
  EQ(start_us + 10 * SEC, f.next_us);
  store_advance(&f, SEC - 1);
  SAYS("", store_claim(&f, "q", 2));
  EQ(start_us + 10 * SEC, f.next_us);
  store_advance(&f, 1);
  f.pending_only = true;
  SAYS("d e f", store_claim(&f, "q", 9));
  EQ(start_us + 20 * SEC, f.next_us);
  store_close(&f);
  PASS();
}

TEST a_rate_that_is_reached_waits_only_if_a_job_is_due(void) {
  struct store_fixture f;
  int64_t now;

  store_init(&f);
  now = store_now(&f);
  set_rate(&f, 1, UVS_SEC(10));
  put_letters(&f, 'a', 'a', now);
  put_letters(&f, 'b', 'b', now + SEC);
  SAYS("a", store_claim(&f, "q", 9));
  EQ(now + SEC, f.next_us);
  store_advance(&f, SEC);
  SAYS("", store_claim(&f, "q", 9));
  EQ(now + 10 * SEC, f.next_us);
  store_close(&f);
  PASS();
}

TEST a_claim_that_finds_nothing_takes_no_token(void) {
  struct store_fixture f;

  store_init(&f);
  set_rate(&f, 1, UVS_SEC(10));
  SAYS("", store_claim(&f, "q", 9));
  store_advance(&f, 5 * SEC);
  put_letters(&f, 'a', 'b', store_now(&f));
  SAYS("a", store_claim(&f, "q", 9));
  EQ(store_now(&f) + 10 * SEC, f.next_us);
  store_close(&f);
  PASS();
}

TEST the_default_window_of_a_rate_is_a_second(void) {
  struct store_fixture f;

  store_init(&f);
  set_rate(&f, 1, -1);
  put_letters(&f, 'a', 'b', store_now(&f));
  SAYS("a", store_claim(&f, "q", 9));
  EQ(store_now(&f) + SEC, f.next_us);
  store_close(&f);
  PASS();
}

TEST a_window_is_rounded_up_to_microseconds(void) {
  struct store_fixture f;

  store_init(&f);
  set_rate(&f, 1, 1);
  put_letters(&f, 'a', 'b', store_now(&f));
  SAYS("a", store_claim(&f, "q", 9));
  EQ(store_now(&f) + 1, f.next_us);
  set_rate(&f, 1, 2001);
  SAYS("", store_claim(&f, "q", 9));
  EQ(store_now(&f) + 3, f.next_us); /* the window stays, with its new length */
  set_rate(&f, 1, 0);
  SAYS("", store_claim(&f, "q", 9));
  EQ(store_now(&f) + 1, f.next_us); /* the shortest */
  store_close(&f);
  PASS();
}

TEST a_clock_that_is_set_back_does_not_stop_a_rate(void) {
  struct store_fixture f;
  int64_t now;

  store_init(&f);
  now = store_now(&f);
  set_rate(&f, 1, UVS_SEC(10));
  put_letters(&f, 'a', 'c', now - 7200 * SEC);
  SAYS("a", store_claim(&f, "q", 9));
  store_advance(&f, -3600 * SEC);
  SAYS("b", store_claim(&f, "q", 9));
  EQ(now - 3590 * SEC, f.next_us);
  store_close(&f);
  PASS();
}

TEST claims_without_a_rate_leave_its_window_alone(void) {
  struct store_fixture f;

  store_init(&f);
  put_letters(&f, 'a', 'h', store_now(&f));
  SAYS("a b c", store_claim(&f, "q", 3));
  set_rate(&f, 2, UVS_SEC(10));
  SAYS("d e", store_claim(&f, "q", 9));
  set_rate(&f, 0, -1);
  SAYS("f", store_claim(&f, "q", 1));
  set_rate(&f, 3, -1);
  SAYS("g", store_claim(&f, "q", 9)); /* two of three were used */
  EQ(store_now(&f) + 10 * SEC, f.next_us);
  store_close(&f);
  PASS();
}

/* Q40 */
TEST a_job_that_is_claimed_again_takes_a_token_too(void) {
  struct store_fixture f;

  store_init(&f);
  set_rate(&f, 2, UVS_SEC(60));
  put_letters(&f, 'a', 'b', store_now(&f));
  SAYS("a", store_claim(&f, "q", 1));
  EQ(0, store_release(&f, 0, 0));
  SAYS("a", store_claim(&f, "q", 9));
  EQ(store_now(&f) + 60 * SEC, f.next_us);
  store_close(&f);
  PASS();
}

/* Q40 */
TEST overdue_jobs_are_bounded_by_the_catch_up_rate(void) {
  struct store_fixture f;
  int64_t now;

  store_init(&f);
  now = store_now(&f);
  set_catch_up(&f, 2);
  put_letters(&f, 'a', 'd', now - UVS__OVERDUE_US - 1);
  put_letters(&f, 'e', 'f', now - UVS__OVERDUE_US);
  SAYS("a b e f", store_claim(&f, "q", 9)); /* c and d are skipped */
  EQ(now + SEC, f.next_us);
  SAYS("", store_claim(&f, "q", 9));
  EQ(now + SEC, f.next_us);
  store_advance(&f, SEC);
  SAYS("c d", store_claim(&f, "q", 9));
  EQ(now + f.lease_us, f.next_us);
  store_close(&f);
  PASS();
}

/* Q40 */
TEST overdue_jobs_of_a_higher_priority_do_not_hold_up_others(void) {
  struct store_fixture f;
  struct uvs__record job = store_job("q", "high");
  int64_t now;

  store_init(&f);
  now = store_now(&f);
  set_catch_up(&f, 1);
  put_letters(&f, 'a', 'a', now);
  put_letters(&f, 'b', 'b', now + 7);
  job.due = at_us(now - 3600 * SEC);
  job.priority = UVS_PRIORITY_HIGH;
  EQ(0, store_put(&f, &job));
  job.rest = "high-2";
  EQ(0, store_put(&f, &job));
  SAYS("high a", store_claim(&f, "q", 9));
  EQ(now + 7, f.next_us); /* nearer than the next token */
  store_close(&f);
  PASS();
}

/* Q40 */
TEST an_overdue_job_takes_a_token_of_both_rates(void) {
  struct store_fixture f;
  int64_t now;

  store_init(&f);
  now = store_now(&f);
  set_catch_up(&f, 2);
  set_rate(&f, 3, UVS_SEC(5));
  put_letters(&f, 'a', 'c', now - 3600 * SEC);
  put_letters(&f, 'e', 'g', now);
  SAYS("a b e", store_claim(&f, "q", 9));
  EQ(now + 5 * SEC, f.next_us);
  store_close(&f);
  PASS();
}

TEST max_is_not_reported_as_the_bound_if_a_rate_is(void) {
  struct store_fixture f;
  int64_t now;

  store_init(&f);
  now = store_now(&f);
  set_rate(&f, 2, UVS_SEC(5));
  put_letters(&f, 'a', 'd', now);
  SAYS("a b", store_claim(&f, "q", 2));
  EQ(now + 5 * SEC, f.next_us);
  store_close(&f);
  PASS();
}

TEST max_is_not_reported_as_the_bound_if_the_catch_up_rate_is(void) {
  struct store_fixture f;
  int64_t now;

  store_init(&f);
  now = store_now(&f);
  set_catch_up(&f, 2);
  put_letters(&f, 'a', 'd', now - 3600 * SEC);
  SAYS("a b", store_claim(&f, "q", 2));
  EQ(now + SEC, f.next_us);
  store_close(&f);
  PASS();
}

TEST many_overdue_jobs_do_not_hide_one_that_is_not(void) {
  struct store_fixture f;
  char rest[20];
  int i;

  store_init(&f);
  set_catch_up(&f, 1);
  for (i = 0; i < 1500; i++) {
    struct uvs__record job = store_job("q", rest);

    snprintf(rest, sizeof rest, "old-%d", i);
    job.due = at_us(store_now(&f) - 3600 * SEC);
    EQ(0, store_put(&f, &job));
  }
  EQ(0, store_put_simple(&f, "q", "new"));
  SAYS("old-0 new", store_claim(&f, "q", 9));
  EQ(store_now(&f) + SEC, f.next_us);
  store_close(&f);
  PASS();
}

SUITE(rate) {
  RUN_TEST(no_more_jobs_are_claimed_in_a_window_than_the_rate);
  RUN_TEST(a_rate_that_is_reached_waits_only_if_a_job_is_due);
  RUN_TEST(a_claim_that_finds_nothing_takes_no_token);
  RUN_TEST(the_default_window_of_a_rate_is_a_second);
  RUN_TEST(a_window_is_rounded_up_to_microseconds);
  RUN_TEST(a_clock_that_is_set_back_does_not_stop_a_rate);
  RUN_TEST(claims_without_a_rate_leave_its_window_alone);
  RUN_TEST(a_job_that_is_claimed_again_takes_a_token_too);
  RUN_TEST(overdue_jobs_are_bounded_by_the_catch_up_rate);
  RUN_TEST(overdue_jobs_of_a_higher_priority_do_not_hold_up_others);
  RUN_TEST(an_overdue_job_takes_a_token_of_both_rates);
  RUN_TEST(max_is_not_reported_as_the_bound_if_a_rate_is);
  RUN_TEST(max_is_not_reported_as_the_bound_if_the_catch_up_rate_is);
  RUN_TEST(many_overdue_jobs_do_not_hide_one_that_is_not);
}

TEST_MAIN(ON_EVERY_STORE(RUN_SUITE(rate)));
