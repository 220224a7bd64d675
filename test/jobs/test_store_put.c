/* SPDX-License-Identifier: MIT
 *
 * PUT: due times, ids that are there already, and what is kept of a job.
 */
#include "store_fixture.h"

#include <string.h>

/* Q2 Q11 */
TEST a_new_job_is_pending_until_its_delay_has_passed(void) {
  struct store_fixture f;
  struct uvs__record job = store_job("q", "a");

  store_init(&f);
  job.due = after_us(5 * SEC);
  EQ(0, store_put(&f, &job));
  EQ(store_now(&f) + 5 * SEC, f.due_us);
  EQ(UVS_JOB_PENDING, store_state(&f, "q", "a"));
  EQ(f.due_us * 1000, f.infos->due_ns);
  store_advance(&f, 5 * SEC - 1);
  SAYS("", store_claim(&f, "q", 9));
  store_advance(&f, 1);
  SAYS("a", store_claim(&f, "q", 9));
  store_close(&f);
  PASS();
}

TEST a_job_at_an_instant_is_due_then(void) {
  struct store_fixture f;
  struct uvs__record job = store_job("q", "a");

  store_init(&f);
  job.due = at_us(store_now(&f) + 77);
  EQ(0, store_put(&f, &job));
  EQ(store_now(&f) + 77, f.due_us);
  EQ(0, store_get(&f, "q", "a"));
  EQ((store_now(&f) + 77) * 1000, f.infos->due_ns);
  store_close(&f);
  PASS();
}

TEST a_due_time_in_the_past_is_kept_as_it_is(void) {
  struct store_fixture f;
  struct uvs__record job = store_job("q", "a");

  store_init(&f);
  job.due = at_us(12345);
  EQ(0, store_put(&f, &job));
  EQ(12345, f.due_us);
  SAYS("a", store_claim(&f, "q", 1));
  EQ(12345, f.claimed[0]->due_us);
  EQ(store_now(&f), f.claimed[0]->put_us);
  store_close(&f);
  PASS();
}

/* Q2 */
TEST a_delay_counts_from_the_next_whole_microsecond(void) {
  struct store_fixture f;
  struct uvs__record job = store_job("q", "a");
  int64_t now;

  store_init(&f);
  now = store_now(&f);
  f.wall_ns += 1;
  job.due = after_us(10);
  EQ(0, store_put(&f, &job));
  EQ(now + 11, f.due_us);
  store_close(&f);
  PASS();
}

TEST a_delay_beyond_the_last_instant_ends_at_it(void) {
  struct store_fixture f;
  struct uvs__record job = store_job("q", "a");

  store_init(&f);
  job.due = after_us(UVS__NEVER_US - 5);
  EQ(0, store_put(&f, &job));
  EQ(UVS__NEVER_US - 1, f.due_us);
  SAYS("", store_claim(&f, "q", 1));
  EQ(UVS__NEVER_US - 1, f.next_us);
  store_close(&f);
  PASS();
}

TEST a_job_has_everything_that_was_put(void) {
  struct store_fixture f;
  struct uvs__record job = {.queue = "mail", .rest = "a/b#1", .name = "send", .key = "user:7"};

  store_init(&f);
  job.priority = UVS_PRIORITY_HIGH;
  job.payload.data = "p\0q";
  job.payload.size = 3;
  job.meta.data = "trace";
  job.meta.size = 5;
  EQ(0, store_put(&f, &job));
  EQ(0, store_get(&f, "mail", "a/b#1"));
  SAYS("mail/a/b#1", f.infos->id);
  SAYS("send", f.infos->name);
  SAYS("mail", f.infos->queue);
  SAYS("user:7", f.infos->key);
  SAYS("", f.infos->error);
  EQ(UVS_PRIORITY_HIGH, f.infos->priority);
  EQ(store_now(&f) * 1000, f.infos->put_ns);
  EQ(0, f.infos->ended_ns);
  EQ(0, f.infos->attempts);
  EQ(0, f.infos->crashes);
  EQ(0, f.infos->cancelling);
  EQ(3, f.infos->payload_size);
  ASSERT_MEM_EQ("p\0q", f.infos->payload, 3);
  EQ(5, f.infos->meta_size);
  ASSERT_MEM_EQ("trace", f.infos->meta, 5);
  EQ(0, f.infos->progress_size);
  EQ(0, f.infos->result_size);

  SAYS("a/b#1", store_claim(&f, "mail", 1));
  SAYS("mail", f.claimed[0]->queue);
  SAYS("send", f.claimed[0]->name);
  SAYS("user:7", f.claimed[0]->key);
  EQ(UVS_PRIORITY_HIGH, f.claimed[0]->priority);
  EQ(3, f.claimed[0]->payload.size);
  ASSERT_MEM_EQ("p\0q", f.claimed[0]->payload.data, 3);
  EQ(5, f.claimed[0]->meta.size);
  ASSERT_MEM_EQ("trace", f.claimed[0]->meta.data, 5);
  ASSERT_EQ(NULL, f.claimed[0]->cron);
  store_close(&f);
  PASS();
}

TEST a_job_without_key_and_payload_has_none(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  EQ(0, store_get(&f, "q", "a"));
  ASSERT_EQ(NULL, f.infos->key);
  EQ(0, f.infos->payload_size);
  EQ(0, f.infos->meta_size);
  SAYS("a", store_claim(&f, "q", 1));
  ASSERT_EQ(NULL, f.claimed[0]->key);
  EQ(0, f.claimed[0]->payload.size);
  EQ(0, f.claimed[0]->meta.size);
  EQ(UVS_PRIORITY_NORMAL, f.claimed[0]->priority);
  store_close(&f);
  PASS();
}

TEST the_longest_names_and_payloads_are_kept(void) {
  static char payload[UVS_JOB_PAYLOAD_MAX], meta[UVS_JOB_META_MAX];
  char name[65], rest[97], key[97], id[UVS_JOB_ID_MAX + 1];
  struct uvs__record job = {.queue = name, .rest = rest, .name = name, .key = key};
  struct store_fixture f;
  size_t i;

  store_init(&f);
  memset(name, 'n', 64);
  memset(rest, 'r', 96);
  memset(key, 'k', 96);
  name[64] = rest[96] = key[96] = '\0';
  for (i = 0; i < sizeof payload; i++)
    payload[i] = (char)(i * 7 + i / 256);
  memset(meta, 'm', sizeof meta);
  job.payload.data = payload;
  job.payload.size = sizeof payload;
  job.meta.data = meta;
  job.meta.size = sizeof meta;
  EQ(0, store_put(&f, &job));
  EQ(UVS_JOB_EXISTS, store_put(&f, &job));
  SAYS(rest, f.there);
  EQ(0, store_get(&f, name, rest));
  snprintf(id, sizeof id, "%s/%s", name, rest);
  SAYS(id, f.infos->id);
  SAYS(rest, store_claim(&f, name, 1));
  SAYS(key, f.claimed[0]->key);
  EQ(sizeof payload, f.claimed[0]->payload.size);
  ASSERT_MEM_EQ(payload, f.claimed[0]->payload.data, sizeof payload);
  EQ(sizeof meta, f.claimed[0]->meta.size);
  ASSERT_MEM_EQ(meta, f.claimed[0]->meta.data, sizeof meta);
  EQ(UVS_JOB_RUNNING, store_cancel(&f, name, rest));
  store_advance(&f, f.lease_us);
  SAYS("", store_claim(&f, name, 1));
  snprintf(payload, sizeof payload, "cancelled %s", id);
  SAYS(payload, store_events(&f));
  store_close(&f);
  PASS();
}

/* Q3 */
TEST a_repeated_put_answers_exists_and_changes_nothing(void) {
  struct store_fixture f;
  struct uvs__record job = store_job("q", "a");

  store_init(&f);
  EQ(0, store_put(&f, &job));
  job.name = "other";
  job.due = after_us(SEC);
  EQ(UVS_JOB_EXISTS, store_put(&f, &job));
  SAYS("a", f.there);
  EQ(0, store_get(&f, "q", "a"));
  SAYS("n", f.infos->name);
  EQ(store_now(&f) * 1000, f.infos->due_ns);
  SAYS("a", store_list_state(&f, 0));
  store_close(&f);
  PASS();
}

TEST the_same_rest_in_two_queues_is_two_jobs(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  EQ(0, store_put_simple(&f, "p", "a"));
  SAYS("a", store_claim(&f, "p", 9));
  SAYS("a", store_claim(&f, "q", 9));
  SAYS("", store_claim(&f, "q", 9));
  store_close(&f);
  PASS();
}

/* Q3 */
TEST a_put_with_the_id_of_a_running_job_answers_exists(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  SAYS("a", store_claim(&f, "q", 1));
  EQ(UVS_JOB_EXISTS, store_put_simple(&f, "q", "a"));
  store_advance(&f, f.lease_us);
  EQ(UVS_JOB_EXISTS, store_put_simple(&f, "q", "a"));
  store_close(&f);
  PASS();
}

/* Q3 */
TEST a_put_with_the_id_of_a_held_job_answers_exists(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_put_key(&f, "a", "k", UVS_KEY_KEEP));
  SAYS("a", store_claim(&f, "q", 1));
  EQ(0, store_put_key(&f, "b", "k", UVS_KEY_REPLACE));
  EQ(UVS_JOB_EXISTS, store_put_key(&f, "b", "k", UVS_KEY_REPLACE));
  SAYS("b", f.there);
  SAYS("", store_events(&f));
  store_close(&f);
  PASS();
}

/* Q3 */
TEST a_put_that_is_repeated_within_30_s_never_runs_a_done_job_again(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  SAYS("a", store_claim(&f, "q", 1));
  EQ(0, store_ack(&f, 0));
  EQ(UVS_JOB_DONE, store_state(&f, "q", "a"));
  store_advance(&f, UVS__REPEAT_US - 1);
  EQ(UVS_JOB_EXISTS, store_put_simple(&f, "q", "a"));
  SAYS("a", f.there);
  SAYS("", store_claim(&f, "q", 1));
  store_advance(&f, 1);
  EQ(0, store_state(&f, "q", "a"));
  EQ(0, store_put_simple(&f, "q", "a"));
  SAYS("a", store_claim(&f, "q", 1));
  store_close(&f);
  PASS();
}

/* Q3 */
TEST a_put_that_is_repeated_within_30_s_never_runs_a_cancelled_job(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  EQ(0, store_cancel(&f, "q", "a"));
  EQ(UVS_JOB_CANCELLED, store_state(&f, "q", "a"));
  EQ(UVS_JOB_EXISTS, store_put_simple(&f, "q", "a"));
  SAYS("", store_claim(&f, "q", 1));
  store_close(&f);
  PASS();
}

TEST a_job_that_ends_30_s_after_its_put_leaves_no_record(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  store_advance(&f, UVS__REPEAT_US);
  SAYS("a", store_claim(&f, "q", 1));
  EQ(0, store_ack(&f, 0));
  EQ(UV_ENOENT, store_get(&f, "q", "a"));
  EQ(0, store_put_simple(&f, "q", "a"));
  store_close(&f);
  PASS();
}

/* Q3 Q26 */
TEST the_record_of_an_end_is_kept_for_keep_us(void) {
  struct store_fixture f;
  struct uvs__record job = store_job("q", "a");

  store_init(&f);
  job.keep_us = 3600 * SEC;
  EQ(0, store_put(&f, &job));
  store_advance(&f, 100 * SEC);
  SAYS("a", store_claim(&f, "q", 1));
  EQ(0, store_ack(&f, 0));
  store_advance(&f, 3600 * SEC - 1);
  EQ(UVS_JOB_DONE, store_state(&f, "q", "a"));
  EQ(UVS_JOB_EXISTS, store_put(&f, &job));
  store_advance(&f, 1);
  EQ(0, store_state(&f, "q", "a"));
  EQ(0, store_put(&f, &job));
  store_close(&f);
  PASS();
}

/* Q3 */
TEST a_short_keep_us_does_not_shorten_the_30_s(void) {
  struct store_fixture f;
  struct uvs__record job = store_job("q", "a");

  store_init(&f);
  job.keep_us = SEC;
  EQ(0, store_put(&f, &job));
  EQ(0, store_cancel(&f, "q", "a"));
  store_advance(&f, UVS__REPEAT_US - 1);
  EQ(UVS_JOB_EXISTS, store_put(&f, &job));
  store_close(&f);
  PASS();
}

/* Q3 */
TEST a_put_with_the_id_of_a_dead_letter_answers_exists(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  SAYS("a", store_claim(&f, "q", 1));
  EQ(0, store_bury(&f, 0, "bad"));
  store_advance(&f, 90 * UVS__REPEAT_US);
  EQ(UVS_JOB_EXISTS, store_put_simple(&f, "q", "a"));
  SAYS("a", f.there);
  store_close(&f);
  PASS();
}

/* Q4 */
TEST each_put_of_a_batch_is_accepted_or_refused_by_itself(void) {
  struct store_fixture f;
  struct uvs__put puts[4] = {{.job = store_job("q", "a")},
                             {.job = store_job("q", "b")},
                             {.job = store_job("q", "a")},
                             {.job = store_job("q", "c")}};
  struct uvs__put_request r = {.r = {.op = UVS__PUT}, .puts = puts, .n = 4};

  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "b"));
  store_run(&f, &r.r);
  EQ(0, r.r.status);
  EQ(0, puts[0].status);
  EQ(UVS_JOB_EXISTS, puts[1].status);
  SAYS("b", puts[1].there);
  EQ(UVS_JOB_EXISTS, puts[2].status);
  SAYS("a", puts[2].there);
  EQ(0, puts[3].status);
  SAYS("b a c", store_list_state(&f, 0));
  uvs__arena_free(&r.arena);
  store_close(&f);
  PASS();
}

TEST requests_of_a_batch_are_carried_out_in_order(void) {
  struct store_fixture f;
  struct uvs__put put = {.job = store_job("q", "a")};
  struct uvs__list_request before = {.r = {.op = UVS__GET}, .queue = "q", .rest = "a"};
  struct uvs__put_request add = {.r = {.op = UVS__PUT}, .puts = &put, .n = 1};
  struct uvs__alter_request cancel = {
      .r = {.op = UVS__ALTER}, .op = UVS__CANCEL, .queue = "q", .rest = "a"};
  struct uvs__list_request after = {.r = {.op = UVS__GET}, .queue = "q", .rest = "a"};

  store_init(&f);
  before.r.next = &add.r;
  add.r.next = &cancel.r;
  cancel.r.next = &after.r;
  store_run(&f, &before.r);
  EQ(UV_ENOENT, before.r.status);
  EQ(0, put.status);
  EQ(0, cancel.status);
  EQ(0, after.r.status);
  EQ(UVS_JOB_CANCELLED, after.infos->state);
  uvs__arena_free(&before.arena);
  uvs__arena_free(&add.arena);
  uvs__arena_free(&after.arena);
  store_close(&f);
  PASS();
}

SUITE(put) {
  RUN_TEST(a_new_job_is_pending_until_its_delay_has_passed);
  RUN_TEST(a_job_at_an_instant_is_due_then);
  RUN_TEST(a_due_time_in_the_past_is_kept_as_it_is);
  RUN_TEST(a_delay_counts_from_the_next_whole_microsecond);
  RUN_TEST(a_delay_beyond_the_last_instant_ends_at_it);
  RUN_TEST(a_job_has_everything_that_was_put);
  RUN_TEST(a_job_without_key_and_payload_has_none);
  RUN_TEST(the_longest_names_and_payloads_are_kept);
  RUN_TEST(a_repeated_put_answers_exists_and_changes_nothing);
  RUN_TEST(the_same_rest_in_two_queues_is_two_jobs);
  RUN_TEST(a_put_with_the_id_of_a_running_job_answers_exists);
  RUN_TEST(a_put_with_the_id_of_a_held_job_answers_exists);
  RUN_TEST(a_put_that_is_repeated_within_30_s_never_runs_a_done_job_again);
  RUN_TEST(a_put_that_is_repeated_within_30_s_never_runs_a_cancelled_job);
  RUN_TEST(a_job_that_ends_30_s_after_its_put_leaves_no_record);
  RUN_TEST(the_record_of_an_end_is_kept_for_keep_us);
  RUN_TEST(a_short_keep_us_does_not_shorten_the_30_s);
  RUN_TEST(a_put_with_the_id_of_a_dead_letter_answers_exists);
  RUN_TEST(each_put_of_a_batch_is_accepted_or_refused_by_itself);
  RUN_TEST(requests_of_a_batch_are_carried_out_in_order);
}

TEST_MAIN(ON_EVERY_STORE(RUN_SUITE(put)));
