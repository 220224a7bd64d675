/* SPDX-License-Identifier: MIT
 *
 * SETTLE: runs that were cancelled, jobs that are put with an end, several items.
 */
#include "store_fixture.h"

#include <string.h>

/* A claimed job "q/a". */
static void claim_a(struct store_fixture *f) {
  store_init(f);
  store_put_simple(f, "q", "a");
  store_claim(f, "q", 1);
}

/* Q31 */
TEST extending_the_lease_of_a_cancelled_run_answers_cancelled(void) {
  struct store_fixture f;
  struct uvs__settle s;

  claim_a(&f);
  EQ(UVS_JOB_RUNNING, store_cancel(&f, "q", "a"));
  EQ(UVS_JOB_RUNNING, store_cancel(&f, "q", "a"));
  s = store_settlement(&f, 0, UVS__EXTEND);
  s.when = after_us(20 * SEC);
  s.progress.data = "p";
  s.progress.size = 1;
  EQ(UVS__SETTLE_CANCELLED, store_settle(&f, &s));
  EQ(UVS_JOB_RUNNING, store_state(&f, "q", "a"));
  EQ(1, f.infos->cancelling);
  EQ((store_now(&f) + 20 * SEC) * 1000, f.infos->due_ns);
  EQ(1, f.infos->progress_size);
  SAYS("", store_events(&f));
  store_close(&f);
  PASS();
}

/* Q31 */
TEST a_cancelled_run_that_does_not_succeed_ends_as_cancelled(void) {
  enum uvs__settle_op ops[] = {UVS__RETRY, UVS__RELEASE, UVS__DEAD};
  size_t i;

  for (i = 0; i < 3; i++) {
    struct store_fixture f;
    struct uvs__settle s;

    claim_a(&f);
    EQ(UVS_JOB_RUNNING, store_cancel(&f, "q", "a"));
    s = store_settlement(&f, 0, ops[i]);
    s.when = after_us(0);
    s.error = "why";
    EQ(UVS__SETTLE_CANCELLED, store_settle(&f, &s));
    SAYS("cancelled q/a", store_events(&f));
    EQ(UVS_JOB_CANCELLED, store_state(&f, "q", "a"));
    EQ(ops[i] == UVS__RELEASE ? 0 : 1, f.infos->attempts);
    EQ(store_now(&f) * 1000, f.infos->ended_ns);
    SAYS("", store_claim(&f, "q", 1));
    store_close(&f);
  }
  PASS();
}

/* Q31 */
TEST a_cancelled_run_that_succeeds_ends_as_done(void) {
  struct store_fixture f;

  claim_a(&f);
  EQ(UVS_JOB_RUNNING, store_cancel(&f, "q", "a"));
  EQ(0, store_ack(&f, 0));
  EQ(UVS_JOB_DONE, store_state(&f, "q", "a"));
  SAYS("", store_events(&f));
  store_close(&f);
  PASS();
}

TEST a_run_that_is_not_known_to_be_cancelled_can_be_cancelled_when_pending_again(void) {
  struct store_fixture f;

  claim_a(&f);
  EQ(0, store_retry(&f, 0, SEC));
  EQ(0, store_cancel(&f, "q", "a"));
  EQ(UV_ENOENT, store_cancel(&f, "q", "a"));
  EQ(UVS_JOB_CANCELLED, store_state(&f, "q", "a"));
  EQ(1, f.infos->attempts);
  store_close(&f);
  PASS();
}

/* Q24 */
TEST jobs_are_put_in_the_step_that_ends_another(void) {
  struct store_fixture f;
  struct uvs__settle s;
  struct uvs__put puts[3] = {
      {.job = store_job("q", "b")}, {.job = store_job("q", "a")}, {.job = store_job("p", "c")}};
  struct uvs__settle_request r = {.r = {.op = UVS__SETTLE}, .items = &s, .n = 1};

  claim_a(&f);
  s = store_settlement(&f, 0, UVS__ACK);
  puts[0].job.due = after_us(9);
  s.puts = puts;
  s.n_puts = 3;
  store_run(&f, &r.r);
  EQ(0, s.status);
  EQ(0, puts[0].status);
  EQ(store_now(&f) + 9, puts[0].due_us);
  EQ(UVS_JOB_EXISTS, puts[1].status); /* the id of the job that ends */
  SAYS("a", puts[1].there);
  EQ(0, puts[2].status);
  uvs__arena_free(&r.arena);
  SAYS("b c", store_list_state(&f, 0));
  store_close(&f);
  PASS();
}

/* Q24 */
TEST jobs_are_not_put_if_the_lease_is_lost(void) {
  struct store_fixture f;
  struct uvs__settle s;
  struct uvs__put put = {.job = store_job("q", "b")};

  claim_a(&f);
  s = store_settlement(&f, 0, UVS__ACK);
  store_advance(&f, f.lease_us);
  SAYS("a", store_claim(&f, "q", 1));
  s.puts = &put;
  s.n_puts = 1;
  EQ(UVS_ELOST, store_settle(&f, &s));
  EQ(UV_ENOENT, store_get(&f, "q", "b"));
  store_close(&f);
  PASS();
}

/* Q30 */
TEST a_job_that_ends_can_put_its_successor_with_its_own_key(void) {
  struct store_fixture f;
  struct uvs__settle s;
  struct uvs__put put = {.job = store_job("q", "b")};

  store_init(&f);
  EQ(0, store_put_key(&f, "a", "k", 0));
  SAYS("a", store_claim(&f, "q", 1));
  s = store_settlement(&f, 0, UVS__ACK);
  put.job.key = "k";
  put.job.key_policy = UVS_KEY_ERROR;
  s.puts = &put;
  s.n_puts = 1;
  EQ(0, store_settle(&f, &s));
  EQ(0, put.status);
  EQ(UV_EEXIST, store_put_key(&f, "c", "k", UVS_KEY_ERROR));
  SAYS("b", f.there);
  store_close(&f);
  PASS();
}

/* Q29 */
TEST a_held_successor_takes_the_key_before_the_puts_of_the_end(void) {
  struct store_fixture f;
  struct uvs__settle s;
  struct uvs__put put = {.job = store_job("q", "c")};
  struct uvs__settle_request r = {.r = {.op = UVS__SETTLE}, .items = &s, .n = 1};

  store_init(&f);
  EQ(0, store_put_key(&f, "a", "k", 0));
  SAYS("a", store_claim(&f, "q", 1));
  EQ(0, store_put_key(&f, "b", "k", UVS_KEY_REPLACE));
  s = store_settlement(&f, 0, UVS__ACK);
  put.job.key = "k";
  s.puts = &put;
  s.n_puts = 1;
  store_run(&f, &r.r);
  EQ(0, s.status);
  EQ(UVS_JOB_EXISTS, put.status);
  SAYS("b", put.there);
  uvs__arena_free(&r.arena);
  SAYS("b", store_list_state(&f, 0));
  store_close(&f);
  PASS();
}

TEST items_of_one_settle_are_carried_out_one_by_one(void) {
  struct store_fixture f;
  struct uvs__settle items[3];
  struct uvs__settle_request r = {.r = {.op = UVS__SETTLE}, .items = items, .n = 3};

  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  EQ(0, store_put_simple(&f, "q", "b"));
  SAYS("a b", store_claim(&f, "q", 2));
  items[0] = store_settlement(&f, 0, UVS__ACK);
  items[1] = store_settlement(&f, 0, UVS__ACK);
  items[2] = store_settlement(&f, 1, UVS__DEAD);
  store_run(&f, &r.r);
  EQ(0, r.r.status);
  EQ(0, items[0].status);
  EQ(UVS_ELOST, items[1].status);
  EQ(0, items[2].status);
  SAYS("dead q/b", store_events(&f));
  uvs__arena_free(&r.arena);
  store_close(&f);
  PASS();
}

SUITE(settle_more) {
  RUN_TEST(extending_the_lease_of_a_cancelled_run_answers_cancelled);
  RUN_TEST(a_cancelled_run_that_does_not_succeed_ends_as_cancelled);
  RUN_TEST(a_cancelled_run_that_succeeds_ends_as_done);
  RUN_TEST(a_run_that_is_not_known_to_be_cancelled_can_be_cancelled_when_pending_again);
  RUN_TEST(jobs_are_put_in_the_step_that_ends_another);
  RUN_TEST(jobs_are_not_put_if_the_lease_is_lost);
  RUN_TEST(a_job_that_ends_can_put_its_successor_with_its_own_key);
  RUN_TEST(a_held_successor_takes_the_key_before_the_puts_of_the_end);
  RUN_TEST(items_of_one_settle_are_carried_out_one_by_one);
}

TEST_MAIN(ON_EVERY_STORE(RUN_SUITE(settle_more)));
