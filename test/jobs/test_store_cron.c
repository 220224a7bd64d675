/* SPDX-License-Identifier: MIT
 *
 * Crons: definitions with revisions, and the tick: settling it puts the jobs of the occurrences.
 */
#include "store_fixture.h"

#include <string.h>

/* Settles the i-th claimed tick, with one occurrence. */
static int settle_tick(struct store_fixture *f, size_t i, int64_t next_us, int64_t last_us,
                       const char *occurrence, int *ret_put) {
  struct uvs__put put = {.job = store_job("reports", occurrence)};
  struct uvs__settle s = store_settlement(f, i, UVS__RELEASE);
  struct uvs__settle_request r = {.r = {.op = UVS__SETTLE}, .items = &s, .n = 1};

  s.when = at_us(next_us);
  s.tick_last_us = last_us;
  s.puts = &put;
  s.n_puts = 1;
  store_run(f, &r.r);
  *ret_put = put.status;
  uvs__arena_free(&r.arena);
  return s.status;
}

TEST a_new_cron_has_a_tick_that_is_due_now(void) {
  struct store_fixture f;
  struct uvs__cron c = store_cron("nightly", 3);

  store_init(&f);
  EQ(0, store_set_cron(&f, &c));
  SAYS("nightly", store_claim(&f, UVS__CRON_QUEUE, 9));
  SAYS(UVS__CRON_QUEUE, f.claimed[0]->queue);
  SAYS("nightly", f.claimed[0]->name);
  ASSERT_EQ(NULL, f.claimed[0]->key);
  EQ(store_now(&f), f.claimed[0]->due_us);
  EQ(UVS_PRIORITY_NORMAL, f.claimed[0]->priority);
  EQ(0, f.claimed[0]->payload.size);
  store_close(&f);
  PASS();
}

TEST a_claimed_tick_carries_its_definition(void) {
  struct store_fixture f;
  struct uvs__cron c = store_cron("nightly", 3);
  const struct uvs__cron *got;

  store_init(&f);
  EQ(0, store_set_cron(&f, &c));
  SAYS("nightly", store_claim(&f, UVS__CRON_QUEUE, 9));
  got = f.claimed[0]->cron;
  ASSERT(got != NULL);
  SAYS("nightly", got->name);
  SAYS("0 3 * * *", got->expression);
  SAYS("Europe/Berlin", got->zone);
  EQ(3, got->revision);
  EQ(UVS_MISFIRE_ALL, got->misfire);
  EQ(UVS_CRON_SKIP, got->overlap);
  EQ(7, got->max_missed);
  EQ(store_now(&f), got->last_us);
  SAYS("reports", got->job.queue);
  SAYS("report", got->job.name);
  EQ(UVS_PRIORITY_HIGH, got->job.priority);
  EQ(5 * SEC, got->job.keep_us);
  EQ(3, got->job.payload.size);
  ASSERT_MEM_EQ("pay", got->job.payload.data, 3);
  EQ(2, got->job.meta.size);
  ASSERT_MEM_EQ("me", got->job.meta.data, 2);
  store_close(&f);
  PASS();
}

TEST a_cron_without_a_zone_and_a_payload_has_none(void) {
  struct store_fixture f;
  struct uvs__cron c = store_cron("c", 1);

  store_init(&f);
  c.zone = NULL;
  c.job.payload.size = c.job.meta.size = 0;
  EQ(0, store_set_cron(&f, &c));
  SAYS("c", store_claim(&f, UVS__CRON_QUEUE, 9));
  ASSERT_EQ(NULL, f.claimed[0]->cron->zone);
  EQ(0, f.claimed[0]->cron->job.payload.size);
  EQ(0, f.claimed[0]->cron->job.meta.size);
  store_close(&f);
  PASS();
}

/* Q34 */
TEST a_definition_that_is_not_newer_changes_nothing(void) {
  struct store_fixture f;
  struct uvs__cron c = store_cron("c", 3);

  store_init(&f);
  EQ(0, store_set_cron(&f, &c));
  store_advance(&f, SEC);
  c.expression = "other";
  EQ(UVS_JOB_EXISTS, store_set_cron(&f, &c));
  c.revision = 2;
  EQ(UVS_JOB_EXISTS, store_set_cron(&f, &c));
  EQ(0, store_crons(&f));
  EQ(1, f.n_crons);
  SAYS("0 3 * * *", f.crons[0].expression);
  EQ(3, f.crons[0].revision);
  EQ(store_now(&f) - SEC, f.crons[0].tick_us);
  store_close(&f);
  PASS();
}

/* Q34 */
TEST a_newer_definition_replaces_the_older(void) {
  struct store_fixture f;
  struct uvs__cron c = store_cron("c", 1);
  int64_t now;
  int put;

  store_init(&f);
  now = store_now(&f);
  EQ(0, store_set_cron(&f, &c));
  SAYS("c", store_claim(&f, UVS__CRON_QUEUE, 9));
  EQ(0, settle_tick(&f, 0, now + 500, now + 9, "x", &put));
  store_advance(&f, 100);
  c.expression = "other";
  c.revision = 2;
  EQ(0, store_set_cron(&f, &c));
  EQ(0, store_crons(&f));
  EQ(1, f.n_crons);
  SAYS("other", f.crons[0].expression);
  EQ(2, f.crons[0].revision);
  EQ(now + 100, f.crons[0].last_us); /* with another expression it counts from now */
  EQ(now + 100, f.crons[0].tick_us); /* due at once */
  SAYS("", store_events(&f));
  store_close(&f);
  PASS();
}

/* Q33 Q34 */
TEST a_run_of_the_tick_is_lost_when_the_cron_is_replaced(void) {
  struct store_fixture f;
  struct uvs__cron c = store_cron("c", 1);
  int64_t now;
  int put;

  store_init(&f);
  now = store_now(&f);
  EQ(0, store_set_cron(&f, &c));
  SAYS("c", store_claim(&f, UVS__CRON_QUEUE, 9));
  c.revision = 2;
  EQ(0, store_set_cron(&f, &c));
  EQ(UVS_ELOST, settle_tick(&f, 0, now + 500, now + 9, "x", &put));
  EQ(UV_ENOENT, store_get(&f, "reports", "x"));
  EQ(0, store_crons(&f));
  EQ(now, f.crons[0].last_us);
  SAYS("c", store_claim(&f, UVS__CRON_QUEUE, 9));
  EQ(2, f.claimed[0]->cron->revision);
  EQ(false, f.claimed[0]->crashed_now);
  store_close(&f);
  PASS();
}

/* Q35 */
TEST a_tick_puts_its_occurrences_and_moves_last(void) {
  struct store_fixture f;
  struct uvs__cron c = store_cron("c", 1);
  int64_t now;
  int put;

  store_init(&f);
  now = store_now(&f);
  EQ(0, store_set_cron(&f, &c));
  SAYS("c", store_claim(&f, UVS__CRON_QUEUE, 9));
  EQ(0, settle_tick(&f, 0, now + 500, now + 9, "c@9", &put));
  EQ(0, put);
  EQ(UVS_JOB_PENDING, store_state(&f, "reports", "c@9"));
  SAYS("", store_claim(&f, UVS__CRON_QUEUE, 9));
  EQ(now + 500, f.next_us);
  EQ(0, store_crons(&f));
  EQ(now + 9, f.crons[0].last_us);
  EQ(now + 500, f.crons[0].tick_us);
  store_advance(&f, 500);
  SAYS("c", store_claim(&f, UVS__CRON_QUEUE, 9));
  EQ(now + 9, f.claimed[0]->cron->last_us);
  EQ(0, f.claimed[0]->failures);
  store_close(&f);
  PASS();
}

/* Q33 Q38 */
TEST a_tick_without_a_new_occurrence_puts_nothing(void) {
  struct store_fixture f;
  struct uvs__cron c = store_cron("c", 1);
  int64_t now;
  int put;

  store_init(&f);
  now = store_now(&f);
  EQ(0, store_set_cron(&f, &c));
  SAYS("c", store_claim(&f, UVS__CRON_QUEUE, 9));
  EQ(0, settle_tick(&f, 0, now, now, "same", &put)); /* not later than `last` */
  EQ(UVS_JOB_EXISTS, put);
  EQ(UV_ENOENT, store_get(&f, "reports", "same"));
  SAYS("c", store_claim(&f, UVS__CRON_QUEUE, 9));
  EQ(0, settle_tick(&f, 0, now, now - 5, "before", &put));
  EQ(UVS_JOB_EXISTS, put);
  EQ(0, store_crons(&f));
  EQ(now, f.crons[0].last_us);
  SAYS("c", store_claim(&f, UVS__CRON_QUEUE, 9));
  EQ(0, store_release(&f, 0, 0));
  EQ(0, store_crons(&f));
  EQ(now, f.crons[0].last_us);
  store_close(&f);
  PASS();
}

/* Q35 */
TEST a_tick_whose_lease_has_ended_is_claimed_again(void) {
  struct store_fixture f;
  struct uvs__cron c = store_cron("c", 1);

  store_init(&f);
  EQ(0, store_set_cron(&f, &c));
  SAYS("c", store_claim(&f, UVS__CRON_QUEUE, 9));
  EQ(0, store_crons(&f));
  EQ(store_now(&f) + f.lease_us, f.crons[0].tick_us);
  store_advance(&f, f.lease_us);
  SAYS("c", store_claim(&f, UVS__CRON_QUEUE, 9));
  EQ(1, f.claimed[0]->crashes);
  ASSERT(f.claimed[0]->cron != NULL);
  store_close(&f);
  PASS();
}

TEST a_removed_cron_has_no_tick_and_its_jobs_stay(void) {
  struct store_fixture f;
  struct uvs__cron c = store_cron("c", 5);
  int64_t now;
  int put;

  store_init(&f);
  now = store_now(&f);
  EQ(UV_ENOENT, store_remove_cron(&f, "c"));
  EQ(0, store_set_cron(&f, &c));
  SAYS("c", store_claim(&f, UVS__CRON_QUEUE, 9));
  EQ(0, settle_tick(&f, 0, now, now + 9, "x", &put));
  SAYS("c", store_claim(&f, UVS__CRON_QUEUE, 9));
  EQ(0, store_remove_cron(&f, "c"));
  EQ(UV_ENOENT, store_remove_cron(&f, "c"));
  EQ(UVS_ELOST, store_release(&f, 0, 0));
  SAYS("", store_claim(&f, UVS__CRON_QUEUE, 9));
  EQ(UVS__NEVER_US, f.next_us);
  EQ(0, store_crons(&f));
  EQ(0, f.n_crons);
  EQ(UVS_JOB_PENDING, store_state(&f, "reports", "x"));
  EQ(UV_ENOENT, store_get(&f, UVS__CRON_QUEUE, "c"));
  SAYS("", store_events(&f));

  store_advance(&f, SEC); /* a new one may have a lower revision, and starts now */
  c.revision = 1;
  EQ(0, store_set_cron(&f, &c));
  EQ(0, store_crons(&f));
  EQ(now + SEC, f.crons[0].last_us);
  store_close(&f);
  PASS();
}

/* Q34 */
TEST a_new_expression_or_zone_counts_from_now_and_other_changes_keep_the_last(void) {
  struct store_fixture f;
  struct uvs__cron c = store_cron("c", 1);
  int64_t defined;

  store_init(&f);
  defined = store_now(&f);
  EQ(0, store_set_cron(&f, &c));
  store_advance(&f, SEC);
  c.revision++;
  c.max_missed++;
  EQ(0, store_set_cron(&f, &c));
  EQ(0, store_crons(&f));
  EQ(defined, f.crons[0].last_us);
  c.revision++;
  c.expression = "1 2 * * *";
  EQ(0, store_set_cron(&f, &c));
  EQ(0, store_crons(&f));
  EQ(defined + SEC, f.crons[0].last_us);
  store_advance(&f, SEC);
  c.revision++;
  c.zone = NULL;
  EQ(0, store_set_cron(&f, &c));
  EQ(0, store_crons(&f));
  EQ(defined + 2 * SEC, f.crons[0].last_us);
  store_advance(&f, -SEC); /* the clock is set back: no occurrence is dealt with twice */
  c.revision++;
  c.expression = "3 4 * * *";
  EQ(0, store_set_cron(&f, &c));
  EQ(0, store_crons(&f));
  EQ(defined + 2 * SEC, f.crons[0].last_us);
  store_close(&f);
  PASS();
}

TEST crons_are_listed_by_name_with_their_definition(void) {
  struct store_fixture f;
  struct uvs__cron b = store_cron("b", 1), a = store_cron("a", 2), c = store_cron("c", 3);

  store_init(&f);
  EQ(0, store_set_cron(&f, &b));
  EQ(0, store_set_cron(&f, &a));
  c.zone = NULL;
  EQ(0, store_set_cron(&f, &c));
  EQ(0, store_crons(&f));
  EQ(3, f.n_crons);
  SAYS("a", f.crons[0].name);
  SAYS("b", f.crons[1].name);
  SAYS("c", f.crons[2].name);
  EQ(2, f.crons[0].revision);
  SAYS("reports", f.crons[0].job.queue);
  SAYS("report", f.crons[0].job.name);
  EQ(7, f.crons[0].max_missed);
  ASSERT_EQ(NULL, f.crons[2].zone);
  store_close(&f);
  PASS();
}

TEST statistics_do_not_count_ticks(void) {
  struct store_fixture f;
  struct uvs__cron c = store_cron("c", 1);

  store_init(&f);
  EQ(0, store_set_cron(&f, &c));
  EQ(0, store_put_simple(&f, "q", "a"));
  ASSERT_EQ(NULL, store_count(&f, UVS__CRON_QUEUE));
  EQ(1, f.stats.n_queues);
  EQ(1, f.stats.pending);
  EQ(1, f.stats.overdue);
  store_close(&f);
  PASS();
}

SUITE(cron) {
  RUN_TEST(a_new_cron_has_a_tick_that_is_due_now);
  RUN_TEST(a_claimed_tick_carries_its_definition);
  RUN_TEST(a_cron_without_a_zone_and_a_payload_has_none);
  RUN_TEST(a_definition_that_is_not_newer_changes_nothing);
  RUN_TEST(a_newer_definition_replaces_the_older);
  RUN_TEST(a_run_of_the_tick_is_lost_when_the_cron_is_replaced);
  RUN_TEST(a_tick_puts_its_occurrences_and_moves_last);
  RUN_TEST(a_tick_without_a_new_occurrence_puts_nothing);
  RUN_TEST(a_tick_whose_lease_has_ended_is_claimed_again);
  RUN_TEST(a_removed_cron_has_no_tick_and_its_jobs_stay);
  RUN_TEST(a_new_expression_or_zone_counts_from_now_and_other_changes_keep_the_last);
  RUN_TEST(crons_are_listed_by_name_with_their_definition);
  RUN_TEST(statistics_do_not_count_ticks);
}

TEST_MAIN(ON_EVERY_STORE(RUN_SUITE(cron)));
