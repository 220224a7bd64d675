/* SPDX-License-Identifier: MIT
 *
 * TRIM, COUNT and EVENTS.
 */
#include "store_fixture.h"

#include <string.h>

#define DAY (86400 * SEC)

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

TEST trim_removes_records_whose_time_is_over(void) {
  struct store_fixture f;

  store_init(&f);
  put_done(&f, "a", 0);
  put_done(&f, "b", 0);
  put_done(&f, "c", 0);
  put_done(&f, "d", DAY);
  EQ(0, store_trim(&f, 9, 9, DAY, 9));
  store_advance(&f, UVS__REPEAT_US);
  EQ(2, store_trim(&f, 9, 9, DAY, 2));
  EQ(1, store_trim(&f, 9, 9, DAY, 9));
  EQ(0, store_trim(&f, 9, 9, DAY, 9));
  SAYS("d", store_list_state(&f, UVS_JOB_DONE));
  SAYS("", store_events(&f));
  store_close(&f);
  PASS();
}

/* Q3 Q26 */
TEST trim_removes_the_oldest_kept_ends_above_the_bound(void) {
  struct store_fixture f;
  struct uvs__record job = store_job("q", "put-first");

  store_init(&f);
  job.keep_us = DAY;
  job.due = after_us(10 * SEC);
  EQ(0, store_put(&f, &job));
  put_done(&f, "a", DAY);
  store_advance(&f, SEC);
  put_done(&f, "b", DAY);
  put_done(&f, "short", 0);
  store_advance(&f, 9 * SEC);
  SAYS("put-first", store_claim(&f, "q", 1));
  EQ(0, store_ack(&f, 0));             /* the newest end */
  EQ(0, store_trim(&f, 1, 9, DAY, 9)); /* all are younger than 30 s */
  store_advance(&f, UVS__REPEAT_US - 10 * SEC);
  EQ(2, store_trim(&f, 1, 9, DAY, 9)); /* not b, whose put is too young by a second */
  SAYS("b short", store_list_state(&f, UVS_JOB_DONE));
  store_close(&f);
  PASS();
}

TEST trim_keeps_what_is_within_the_bound(void) {
  struct store_fixture f;

  store_init(&f);
  put_done(&f, "a", DAY);
  put_done(&f, "b", DAY);
  put_done(&f, "c", DAY);
  put_done(&f, "d", DAY);
  store_advance(&f, UVS__REPEAT_US);
  EQ(0, store_trim(&f, 4, 9, DAY, 9));
  EQ(1, store_trim(&f, 2, 9, DAY, 1));
  EQ(1, store_trim(&f, 2, 9, DAY, 9));
  SAYS("c d", store_list_state(&f, UVS_JOB_DONE));
  EQ(2, store_trim(&f, 0, 9, DAY, 9));
  store_close(&f);
  PASS();
}

TEST records_for_repeated_puts_do_not_count_for_max_done(void) {
  struct store_fixture f;

  store_init(&f);
  put_done(&f, "kept", DAY);
  store_advance(&f, UVS__REPEAT_US);
  put_done(&f, "a", 0);
  put_done(&f, "b", 0);
  EQ(0, store_trim(&f, 1, 9, DAY, 9));
  SAYS("kept a b", store_list_state(&f, UVS_JOB_DONE));
  store_close(&f);
  PASS();
}

/* Q25 */
TEST trim_removes_old_dead_letters_and_those_above_the_bound(void) {
  struct store_fixture f;

  store_init(&f);
  put_dead(&f, "a", NULL);
  store_advance(&f, SEC);
  put_dead(&f, "b", NULL);
  store_advance(&f, DAY - SEC);
  put_dead(&f, "c", NULL);
  put_dead(&f, "d", NULL);
  store_events(&f);
  EQ(0, store_trim(&f, 9, 4, DAY, 9));
  store_advance(&f, 1);
  EQ(1, store_trim(&f, 9, 4, DAY, 9));
  SAYS("dropped removed: 1", store_events(&f));
  EQ(1, store_trim(&f, 9, 1, DAY, 1));
  SAYS("c d", store_list_state(&f, UVS_JOB_DEAD));
  EQ(1, store_trim(&f, 9, 1, DAY, 9));
  SAYS("d", store_list_state(&f, UVS_JOB_DEAD));
  SAYS("dropped removed: 1; dropped removed: 1", store_events(&f));
  EQ(UVS_JOB_EXISTS, store_put_simple(&f, "q", "c")); /* its put may still be repeated */
  store_close(&f);
  PASS();
}

/* Q25 */
TEST dead_letters_go_by_the_time_of_their_end(void) {
  struct store_fixture f;
  struct uvs__record job = store_job("q", "put-first");

  store_init(&f);
  job.due = after_us(SEC);
  EQ(0, store_put(&f, &job));
  put_dead(&f, "dead-first", NULL);
  store_advance(&f, SEC);
  SAYS("put-first", store_claim(&f, "q", 1));
  EQ(0, store_bury(&f, 0, "x"));
  SAYS("put-first dead-first", store_list_state(&f, UVS_JOB_DEAD));
  EQ(1, store_trim(&f, 9, 1, DAY, 9));
  SAYS("put-first", store_list_state(&f, UVS_JOB_DEAD));
  store_close(&f);
  PASS();
}

TEST each_queue_counts_its_jobs_by_state(void) {
  struct store_fixture f;
  const uvs_queue_stats_t *q;

  put_all_states(&f);
  EQ(0, store_put_simple(&f, "q", "due"));
  EQ(0, store_put_simple(&f, "p", "p"));
  q = store_count(&f, "q");
  ASSERT(q != NULL);
  EQ(2, q->pending);
  EQ(1, q->overdue);
  EQ(1, q->running);
  EQ(1, q->dead);
  EQ(0, q->oldest_overdue_ns);
  EQ(0, q->rate_ns);
  EQ(3, f.stats.pending);
  EQ(2, f.stats.overdue);
  EQ(1, f.stats.running);
  EQ(1, f.stats.dead);
  EQ(1, f.stats.kept); /* not the cancelled one */
  EQ(2, f.stats.n_queues);
  SAYS("p", f.stats.queues[0].queue);
  SAYS("q", f.stats.queues[1].queue);
  EQ(sizeof f.stats, f.stats.size);

  store_advance(&f, 5 * SEC);
  q = store_count(&f, "q");
  EQ(2, q->overdue);
  EQ(UVS_SEC(5), q->oldest_overdue_ns);
  EQ(UVS_SEC(5), f.stats.oldest_overdue_ns);
  store_advance(&f, f.lease_us);
  EQ(1, store_count(&f, "q")->running); /* its lease has ended */
  EQ(2, store_count(&f, "q")->overdue);
  store_close(&f);
  PASS();
}

TEST an_empty_store_has_no_queues(void) {
  struct store_fixture f;

  store_init(&f);
  ASSERT_EQ(NULL, store_count(&f, "q"));
  EQ(0, f.stats.n_queues);
  EQ(0, f.stats.pending);
  EQ(0, f.stats.oldest_overdue_ns);
  store_close(&f);
  PASS();
}

TEST a_queue_with_settings_is_counted_although_it_is_empty(void) {
  struct store_fixture f;
  uvs_job_queue_t b = store_queue("b"), d = store_queue("d");

  store_init(&f);
  b.paused = 1;
  d.concurrency = 3;
  EQ(0, store_set_queue(&f, &d));
  EQ(0, store_set_queue(&f, &b));
  EQ(0, store_put_simple(&f, "a", "x"));
  EQ(0, store_put_simple(&f, "c", "x"));
  EQ(0, store_put_simple(&f, "d", "x"));
  ASSERT(store_count(&f, "b") != NULL);
  EQ(1, store_count(&f, "b")->paused);
  EQ(3, store_count(&f, "d")->concurrency);
  EQ(1, store_count(&f, "d")->pending);
  EQ(4, f.stats.n_queues);
  SAYS("a", f.stats.queues[0].queue);
  SAYS("b", f.stats.queues[1].queue);
  SAYS("c", f.stats.queues[2].queue);
  SAYS("d", f.stats.queues[3].queue);
  store_close(&f);
  PASS();
}

TEST a_queue_with_dead_letters_only_is_counted(void) {
  struct store_fixture f;

  store_init(&f);
  put_dead(&f, "a", NULL);
  ASSERT(store_count(&f, "q") != NULL);
  EQ(1, store_count(&f, "q")->dead);
  EQ(0, store_count(&f, "q")->pending);
  put_done(&f, "b", DAY);
  store_advance(&f, DAY - 1);
  store_count(&f, "q");
  EQ(1, f.stats.kept);
  store_advance(&f, 1);
  store_count(&f, "q");
  EQ(0, f.stats.kept);
  store_close(&f);
  PASS();
}

TEST events_come_in_pages_from_a_number(void) {
  struct store_fixture f;
  struct uvs__events_request r = {.r = {.op = UVS__EVENTS}};
  char rest[9];
  int i;

  store_init(&f);
  for (i = 0; i < 150; i++) {
    snprintf(rest, sizeof rest, "j%d", i);
    EQ(0, store_put_simple(&f, "q", rest));
    EQ(0, store_cancel(&f, "q", rest));
  }
  store_run(&f, &r.r);
  EQ(UVS__EVENTS_PAGE, r.n);
  EQ(150, r.last);
  EQ(1, r.events[0].number);
  SAYS("q/j0", r.events[0].id);
  EQ(100, r.events[99].number);
  uvs__arena_free(&r.arena);
  r.after = 100;
  store_run(&f, &r.r);
  EQ(50, r.n);
  SAYS("q/j149", r.events[49].id);
  SAYS("", r.events[49].text);
  EQ(UVS_EVENT_CANCELLED, r.events[49].what);
  uvs__arena_free(&r.arena);
  r.after = 150;
  store_run(&f, &r.r);
  EQ(0, r.n);
  EQ(150, r.last);
  uvs__arena_free(&r.arena);
  r.after = 999;
  store_run(&f, &r.r);
  EQ(0, r.n);
  uvs__arena_free(&r.arena);
  store_close(&f);
  PASS();
}

/* Q57 */
TEST the_newest_1000_events_are_remembered(void) {
  struct store_fixture f;
  struct uvs__events_request r = {.r = {.op = UVS__EVENTS}};
  uvs_job_queue_t q = store_queue("q");
  int i;

  store_init(&f);
  for (i = 0; i < 1005; i++)
    EQ(0, store_set_queue(&f, &q));
  store_run(&f, &r.r);
  EQ(100, r.n);
  EQ(1005, r.last);
  EQ(6, r.events[0].number);
  SAYS("q", r.events[0].id);
  EQ(UVS_EVENT_QUEUE_CHANGED, r.events[0].what);
  uvs__arena_free(&r.arena);
  store_close(&f);
  PASS();
}

TEST the_store_says_that_there_are_new_events(void) {
  struct store_fixture f;
  uint64_t before;

  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  before = f.first->events;
  EQ(0, store_put_simple(&f, "q", "b"));
  EQ(before, f.first->events);
  EQ(0, store_cancel(&f, "q", "a"));
  ASSERT(f.first->events > before);
  store_close(&f);
  PASS();
}

SUITE(trim) {
  RUN_TEST(trim_removes_records_whose_time_is_over);
  RUN_TEST(trim_removes_the_oldest_kept_ends_above_the_bound);
  RUN_TEST(trim_keeps_what_is_within_the_bound);
  RUN_TEST(records_for_repeated_puts_do_not_count_for_max_done);
  RUN_TEST(trim_removes_old_dead_letters_and_those_above_the_bound);
  RUN_TEST(dead_letters_go_by_the_time_of_their_end);
}

SUITE(count) {
  RUN_TEST(each_queue_counts_its_jobs_by_state);
  RUN_TEST(an_empty_store_has_no_queues);
  RUN_TEST(a_queue_with_settings_is_counted_although_it_is_empty);
  RUN_TEST(a_queue_with_dead_letters_only_is_counted);
}

SUITE(events) {
  RUN_TEST(events_come_in_pages_from_a_number);
  RUN_TEST(the_newest_1000_events_are_remembered);
  RUN_TEST(the_store_says_that_there_are_new_events);
}

TEST_MAIN(ON_EVERY_STORE(RUN_SUITE(trim); RUN_SUITE(count); RUN_SUITE(events)));
