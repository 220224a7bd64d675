/* SPDX-License-Identifier: MIT
 *
 * GET, LIST, REDRIVE and PURGE.
 */
#include "store_fixture.h"

#include <string.h>

#define DAY (86400 * SEC)

static uvs_job_filter_t filter_state(int state) {
  uvs_job_filter_t filter;

  uvs_job_filter_init(&filter);
  filter.state = state;
  return filter;
}

/* A dead letter of "q". */
static void put_dead(struct store_fixture *f, const char *rest, const char *key) {
  store_put_key(f, rest, key, 0);
  store_claim(f, "q", 1);
  store_bury(f, 0, "why");
}

/* A job of "q" that is done, with a record for keep_us. */
static void put_done(struct store_fixture *f, const char *rest, int64_t keep_us) {
  struct uvs__record job = store_job("q", rest);

  job.keep_us = keep_us;
  store_put(f, &job);
  store_claim(f, "q", 1);
  store_ack(f, 0);
}

/* One job in each state: pend, run, held (which replaces run), dead, done, cancel. */
static void put_all_states(struct store_fixture *f) {
  struct uvs__record job = store_job("q", "pend");

  store_init(f);
  put_dead(f, "dead", NULL);
  put_done(f, "done", DAY);
  store_put_simple(f, "q", "cancel");
  store_cancel(f, "q", "cancel");
  store_put_key(f, "run", "k", 0);
  store_claim(f, "q", 1);
  store_put_key(f, "held", "k", UVS_KEY_REPLACE);
  job.due = after_us(SEC);
  store_put(f, &job);
  store_events(f);
}

TEST a_job_that_is_not_there_is_enoent(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  EQ(UV_ENOENT, store_get(&f, "q", "b"));
  EQ(UV_ENOENT, store_get(&f, "p", "a"));
  EQ(0, f.n_infos);
  store_close(&f);
  PASS();
}

TEST a_list_is_of_one_state(void) {
  struct store_fixture f;

  put_all_states(&f);
  SAYS("run held pend", store_list_state(&f, 0));
  SAYS("pend", store_list_state(&f, UVS_JOB_PENDING));
  SAYS("run", store_list_state(&f, UVS_JOB_RUNNING));
  SAYS("held", store_list_state(&f, UVS_JOB_HELD));
  SAYS("dead", store_list_state(&f, UVS_JOB_DEAD));
  SAYS("done cancel", store_list_state(&f, UVS_JOB_DONE));
  SAYS("", store_list_state(&f, UVS_JOB_CANCELLED));
  store_close(&f);
  PASS();
}

/* Q58 */
TEST a_list_is_ordered_by_time_of_put(void) {
  struct store_fixture f;
  struct uvs__record job = store_job("q", "z");

  store_init(&f);
  job.due = after_us(100);
  EQ(0, store_put(&f, &job));
  EQ(0, store_put_simple(&f, "p", "y"));
  EQ(0, store_put_simple(&f, "q", "x"));
  SAYS("x", store_claim(&f, "q", 1));
  EQ(0, store_move(&f, "q", "z", after_us(200)));
  EQ(0, store_retry(&f, 0, 500));
  SAYS("z y x", store_list_state(&f, 0));
  store_close(&f);
  PASS();
}

TEST a_filter_matches_jobs_that_match_all_its_fields(void) {
  struct store_fixture f;
  struct uvs__record job = store_job("q", "a");
  uvs_job_filter_t filter = filter_state(0);

  store_init(&f);
  EQ(0, store_put(&f, &job));
  job.rest = "b";
  job.name = "m";
  EQ(0, store_put(&f, &job));
  job.rest = "c";
  job.queue = "p";
  EQ(0, store_put(&f, &job));
  filter.queue = "q";
  SAYS("a b", store_list(&f, &filter, 0, 9));
  filter.name = "m";
  SAYS("b", store_list(&f, &filter, 0, 9));
  filter.queue = NULL;
  SAYS("b c", store_list(&f, &filter, 0, 9));
  filter.id = "p/c";
  SAYS("c", store_list(&f, &filter, 0, 9));
  EQ(0, f.cursor);
  filter.name = "n";
  SAYS("", store_list(&f, &filter, 0, 9));
  filter.name = NULL;
  filter.state = UVS_JOB_RUNNING;
  SAYS("", store_list(&f, &filter, 0, 9));
  filter.state = UVS_JOB_PENDING;
  SAYS("c", store_list(&f, &filter, 0, 9));
  filter.id = "p/none";
  SAYS("", store_list(&f, &filter, 0, 9));
  store_close(&f);
  PASS();
}

TEST overdue_jobs_are_pending_and_due(void) {
  struct store_fixture f;
  uvs_job_filter_t filter = filter_state(0);
  struct uvs__record job = store_job("q", "later");

  store_init(&f);
  EQ(0, store_put_key(&f, "run", "k", 0));
  SAYS("run", store_claim(&f, "q", 1));
  EQ(0, store_put_key(&f, "held", "k", UVS_KEY_REPLACE));
  EQ(0, store_put_simple(&f, "q", "due"));
  job.due = after_us(1);
  EQ(0, store_put(&f, &job));
  filter.overdue = 1;
  SAYS("due", store_list(&f, &filter, 0, 9));
  store_advance(&f, 1);
  SAYS("due later", store_list(&f, &filter, 0, 9));
  store_advance(&f, f.lease_us);
  SAYS("due later", store_list(&f, &filter, 0, 9)); /* not the expired lease */
  filter.state = UVS_JOB_DEAD;
  SAYS("", store_list(&f, &filter, 0, 9));
  store_close(&f);
  PASS();
}

/* Q25 */
TEST lists_have_no_payloads_but_dead_letters_have(void) {
  struct store_fixture f;
  struct uvs__record job = store_job("q", "a");

  store_init(&f);
  job.payload.data = "pay";
  job.payload.size = 3;
  job.meta.data = "me";
  job.meta.size = 2;
  EQ(0, store_put(&f, &job));
  SAYS("a", store_list_state(&f, 0));
  EQ(0, f.infos->payload_size);
  EQ(0, f.infos->meta_size);
  SAYS("q/a", f.infos->id);
  SAYS("n", f.infos->name);
  SAYS("q", f.infos->queue);
  SAYS("a", store_claim(&f, "q", 1));
  EQ(0, store_bury(&f, 0, "why"));
  SAYS("a", store_list_state(&f, UVS_JOB_DEAD));
  EQ(3, f.infos->payload_size);
  ASSERT_MEM_EQ("pay", f.infos->payload, 3);
  EQ(2, f.infos->meta_size);
  SAYS("why", f.infos->error);
  store_close(&f);
  PASS();
}

TEST records_whose_time_is_over_are_not_listed(void) {
  struct store_fixture f;

  store_init(&f);
  put_done(&f, "short", 0);
  put_done(&f, "long", 100 * SEC);
  SAYS("short long", store_list_state(&f, UVS_JOB_DONE));
  store_advance(&f, UVS__REPEAT_US);
  SAYS("long", store_list_state(&f, UVS_JOB_DONE));
  store_advance(&f, 70 * SEC);
  SAYS("", store_list_state(&f, UVS_JOB_DONE));
  store_close(&f);
  PASS();
}

/* Q25 */
TEST a_redriven_job_is_due_now_without_attempts_and_crashes(void) {
  struct store_fixture f;
  struct uvs__record job = store_job("q", "a");
  uvs_job_filter_t filter = filter_state(0);

  store_init(&f);
  job.priority = UVS_PRIORITY_HIGH;
  job.payload.data = "pay";
  job.payload.size = 3;
  EQ(0, store_put(&f, &job));
  SAYS("a", store_claim(&f, "q", 1));
  store_advance(&f, f.lease_us);
  SAYS("a", store_claim(&f, "q", 1));
  EQ(0, store_bury(&f, 0, "why"));
  store_advance(&f, SEC);
  EQ(0, store_put_simple(&f, "q", "b"));
  EQ(0, store_bulk(&f, UVS__REDRIVE, &filter, 0, 9));
  EQ(1, f.count);
  EQ(0, f.cursor);
  EQ(UVS_JOB_PENDING, store_state(&f, "q", "a"));
  EQ(store_now(&f) * 1000, f.infos->due_ns);
  EQ((store_now(&f) - f.lease_us - SEC) * 1000, f.infos->put_ns);
  EQ(0, f.infos->ended_ns);
  EQ(0, f.infos->attempts);
  EQ(0, f.infos->crashes);
  SAYS("", f.infos->error);
  SAYS("a b", store_list_state(&f, 0)); /* its time of put stays */
  SAYS("a b", store_claim(&f, "q", 9));
  EQ(0, f.claimed[0]->crashes);
  EQ(0, f.claimed[0]->failures);
  EQ(3, f.claimed[0]->payload.size);
  EQ(UVS_PRIORITY_HIGH, f.claimed[0]->priority);
  SAYS("dead q/a why", store_events(&f));
  store_close(&f);
  PASS();
}

/* Q30 */
TEST a_dead_letter_whose_key_is_in_use_is_not_redriven(void) {
  struct store_fixture f;
  uvs_job_filter_t filter = filter_state(0);

  store_init(&f);
  put_dead(&f, "a", "k");
  put_dead(&f, "b", "l");
  put_dead(&f, "c", "k");
  EQ(0, store_put_key(&f, "d", "k", UVS_KEY_ERROR));
  filter.id = "q/a";
  EQ(UV_EEXIST, store_bulk(&f, UVS__REDRIVE, &filter, 0, 9));
  filter.id = NULL;
  EQ(0, store_bulk(&f, UVS__REDRIVE, &filter, 0, 9));
  EQ(1, f.count);
  EQ(0, f.cursor);
  SAYS("a c", store_list_state(&f, UVS_JOB_DEAD));
  EQ(0, store_cancel(&f, "q", "d"));
  EQ(0, store_bulk(&f, UVS__REDRIVE, &filter, 0, 9));
  EQ(1, f.count); /* a has the key now */
  SAYS("c", store_list_state(&f, UVS_JOB_DEAD));
  EQ(UV_EEXIST, store_put_key(&f, "e", "k", UVS_KEY_ERROR));
  SAYS("a", f.there);
  store_close(&f);
  PASS();
}

TEST one_dead_letter_is_redriven_by_its_id(void) {
  struct store_fixture f;
  uvs_job_filter_t filter = filter_state(0);

  put_all_states(&f);
  filter.id = "q/none";
  EQ(UV_ENOENT, store_bulk(&f, UVS__REDRIVE, &filter, 0, 9));
  filter.id = "q/pend";
  EQ(UV_ENOENT, store_bulk(&f, UVS__REDRIVE, &filter, 0, 9));
  filter.id = "q/done";
  EQ(UV_ENOENT, store_bulk(&f, UVS__REDRIVE, &filter, 0, 9));
  EQ(0, f.count);
  filter.id = "q/dead";
  EQ(0, store_bulk(&f, UVS__REDRIVE, &filter, 0, 9));
  EQ(1, f.count);
  EQ(0, f.cursor);
  EQ(UV_ENOENT, store_bulk(&f, UVS__REDRIVE, &filter, 0, 9));
  store_close(&f);
  PASS();
}

TEST only_dead_letters_are_redriven(void) {
  struct store_fixture f;
  int states[] = {UVS_JOB_PENDING, UVS_JOB_RUNNING, UVS_JOB_HELD, UVS_JOB_DONE};
  size_t i;

  put_all_states(&f);
  for (i = 0; i < 4; i++) {
    uvs_job_filter_t filter = filter_state(states[i]);

    EQ(0, store_bulk(&f, UVS__REDRIVE, &filter, 0, 9));
    EQ(0, f.count);
    EQ(0, f.cursor);
  }
  SAYS("dead", store_list_state(&f, UVS_JOB_DEAD));
  store_close(&f);
  PASS();
}

TEST bulk_requests_come_in_steps_and_reach_all(void) {
  struct store_fixture f;
  uvs_job_filter_t filter = filter_state(UVS_JOB_DEAD);
  uint64_t total = 0;
  char rest[9];
  int i, steps = 0;

  store_init(&f);
  for (i = 0; i < 20; i++) {
    snprintf(rest, sizeof rest, "d%d", i);
    put_dead(&f, rest, i % 4 == 0 ? "k" : NULL); /* of five, only one gets the key */
  }
  do {
    EQ(0, store_bulk(&f, UVS__REDRIVE, &filter, f.cursor, 3));
    ASSERT(f.count <= 3);
    total += f.count;
    ASSERT(++steps < 50);
  } while (f.cursor != 0);
  EQ(16, total);
  SAYS("d4 d8 d12 d16", store_list_state(&f, UVS_JOB_DEAD));
  store_close(&f);
  PASS();
}

TEST purge_removes_dead_letters(void) {
  struct store_fixture f;
  uvs_job_filter_t filter = filter_state(0);

  store_init(&f);
  put_dead(&f, "a", NULL);
  put_dead(&f, "b", NULL);
  put_dead(&f, "c", NULL);
  EQ(0, store_put_simple(&f, "q", "d"));
  store_advance(&f, UVS__REPEAT_US);
  filter.id = "q/b";
  EQ(0, store_bulk(&f, UVS__PURGE, &filter, 0, 9));
  EQ(1, f.count);
  EQ(UV_ENOENT, store_bulk(&f, UVS__PURGE, &filter, 0, 9));
  filter.id = "q/d";
  EQ(UV_ENOENT, store_bulk(&f, UVS__PURGE, &filter, 0, 9));
  filter.id = NULL;
  filter.queue = "other";
  EQ(0, store_bulk(&f, UVS__PURGE, &filter, 0, 9));
  EQ(0, f.count);
  filter.queue = "q";
  EQ(0, store_bulk(&f, UVS__PURGE, &filter, 0, 1));
  EQ(1, f.count);
  ASSERT(f.cursor != 0);
  EQ(0, store_bulk(&f, UVS__PURGE, &filter, f.cursor, 9));
  EQ(1, f.count);
  EQ(0, f.cursor);
  SAYS("", store_list_state(&f, UVS_JOB_DEAD));
  SAYS("d", store_list_state(&f, 0));
  EQ(UV_ENOENT, store_get(&f, "q", "a"));
  SAYS("dead q/a why; dead q/b why; dead q/c why", store_events(&f));
  store_close(&f);
  PASS();
}

TEST a_purged_dead_letter_is_not_put_again_by_a_repeated_put(void) {
  struct store_fixture f;
  uvs_job_filter_t filter = filter_state(UVS_JOB_DEAD);

  store_init(&f);
  put_dead(&f, "a", NULL);
  store_advance(&f, UVS__REPEAT_US - 1);
  EQ(0, store_bulk(&f, UVS__PURGE, &filter, 0, 9));
  EQ(1, f.count);
  EQ(UVS_JOB_CANCELLED, store_state(&f, "q", "a"));
  EQ((store_now(&f) - UVS__REPEAT_US + 1) * 1000, f.infos->ended_ns);
  EQ(1, f.infos->attempts);
  SAYS("", f.infos->error);
  EQ(UVS_JOB_EXISTS, store_put_simple(&f, "q", "a"));
  store_advance(&f, 1);
  EQ(0, store_put_simple(&f, "q", "a"));
  store_close(&f);
  PASS();
}

TEST purge_removes_kept_ends_but_not_those_that_repeated_puts_need(void) {
  struct store_fixture f;
  uvs_job_filter_t filter = filter_state(UVS_JOB_DONE);

  store_init(&f);
  put_dead(&f, "dead", NULL);
  put_done(&f, "old", DAY);
  store_advance(&f, UVS__REPEAT_US);
  put_done(&f, "new", DAY);
  EQ(0, store_bulk(&f, UVS__PURGE, &filter, 0, 9));
  EQ(1, f.count);
  EQ(0, f.cursor);
  SAYS("new", store_list_state(&f, UVS_JOB_DONE));
  filter.id = "q/new";
  EQ(UV_ENOENT, store_bulk(&f, UVS__PURGE, &filter, 0, 9));
  store_advance(&f, UVS__REPEAT_US);
  EQ(0, store_bulk(&f, UVS__PURGE, &filter, 0, 9));
  EQ(1, f.count);
  SAYS("dead", store_list_state(&f, UVS_JOB_DEAD));
  store_close(&f);
  PASS();
}

SUITE(list) {
  RUN_TEST(a_job_that_is_not_there_is_enoent);
  RUN_TEST(a_list_is_of_one_state);
  RUN_TEST(a_list_is_ordered_by_time_of_put);
  RUN_TEST(a_filter_matches_jobs_that_match_all_its_fields);
  RUN_TEST(overdue_jobs_are_pending_and_due);
  RUN_TEST(lists_have_no_payloads_but_dead_letters_have);
  RUN_TEST(records_whose_time_is_over_are_not_listed);
}

SUITE(bulk) {
  RUN_TEST(a_redriven_job_is_due_now_without_attempts_and_crashes);
  RUN_TEST(a_dead_letter_whose_key_is_in_use_is_not_redriven);
  RUN_TEST(one_dead_letter_is_redriven_by_its_id);
  RUN_TEST(only_dead_letters_are_redriven);
  RUN_TEST(bulk_requests_come_in_steps_and_reach_all);
  RUN_TEST(purge_removes_dead_letters);
  RUN_TEST(a_purged_dead_letter_is_not_put_again_by_a_repeated_put);
  RUN_TEST(purge_removes_kept_ends_but_not_those_that_repeated_puts_need);
}

TEST_MAIN(ON_EVERY_STORE(RUN_SUITE(list); RUN_SUITE(bulk)));
