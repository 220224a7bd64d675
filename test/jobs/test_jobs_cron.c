/* SPDX-License-Identifier: MIT
 *
 * Crons: each occurrence becomes one job.
 */
#include "engine_fixture.h"

#define START_NS VCLOCK_WALL_NS /* Tuesday, 2023-11-14 22:13:20 UTC */

/* Until the next 22:20:00, from the start of the clock. */
#define TO_22_20 UVS_SEC(6 * 60 + 40)

/* ------------------------------------------------------------- definition --- */

/* Q33 */
TEST each_occurrence_becomes_a_job_at_its_instant(void) {
  struct engine *f = engine_start();
  uvs_job_cron_t c = engine_cron_spec("ten", "*/10 * * * *");

  engine_handle(f, "n", NULL);
  c.spec.payload = "p";
  c.spec.payload_size = 1;
  EQ(0, engine_cron(f, &c));
  engine_advance(f, TO_22_20 - 1);
  SAYS("", engine_ran(f));
  engine_advance(f, 1);
  SAYS("n/ten@2023-11-14T22:20:00Z", engine_ran(f));
  EQ(START_NS + TO_22_20, f->runs[0].wall_ns);
  EQ(START_NS + TO_22_20, f->runs[0].due_ns);
  engine_advance(f, UVS_MIN(30));
  SAYS("n/ten@2023-11-14T22:30:00Z n/ten@2023-11-14T22:40:00Z n/ten@2023-11-14T22:50:00Z",
       engine_ran(f));
  SAYS("", engine_events(f));
  engine_close(f);
  PASS();
}

TEST a_cron_without_a_handler_here_makes_jobs_all_the_same(void) {
  struct engine *f = engine_start();
  uvs_job_cron_t c = engine_cron_spec("ten", "*/10 * * * *");

  c.spec.queue = "q";
  c.spec.payload = "p";
  c.spec.payload_size = 1;
  c.spec.priority = UVS_PRIORITY_HIGH;
  EQ(0, engine_cron(f, &c));
  engine_advance(f, UVS_MIN(10));
  EQ(UVS_JOB_PENDING, engine_state(f, "q/ten@2023-11-14T22:20:00Z"));
  SAYS("n", f->last.name);
  SAYS("p", f->last.payload);
  EQ(UVS_PRIORITY_HIGH, f->last.info.priority);
  engine_close(f);
  PASS();
}

/* Q34 */
TEST a_definition_that_is_stored_or_older_changes_nothing_and_a_newer_one_replaces_it(void) {
  struct engine *f = engine_start();
  uvs_job_cron_t c = engine_cron_spec("c", "*/10 * * * *");

  engine_handle(f, "n", NULL);
  c.revision = 2;
  EQ(0, engine_cron(f, &c));
  c.expression = "* * * * *";
  EQ(UVS_JOB_EXISTS, engine_cron(f, &c));
  c.revision = 1;
  EQ(UVS_JOB_EXISTS, engine_cron(f, &c));
  EQ(0, engine_crons(f));
  SAYS("c r2 */10 * * * * UTC n n", f->last.text);
  EQ(START_NS + TO_22_20, f->last.next);
  engine_advance(f, TO_22_20);
  SAYS("n/c@2023-11-14T22:20:00Z", engine_ran(f));
  c.revision = 3;
  c.expression = "*/30 * * * *";
  c.spec.name = "m";
  EQ(0, engine_cron(f, &c));
  EQ(0, engine_crons(f));
  SAYS("c r3 */30 * * * * UTC m m", f->last.text);
  EQ(START_NS + TO_22_20, f->last.info.due_ns); /* the newest occurrence that was dealt with */
  engine_advance(f, UVS_MIN(15));
  EQ(UVS_JOB_PENDING, engine_state(f, "m/c@2023-11-14T22:30:00Z"));
  SAYS("", engine_ran(f));
  engine_close(f);
  PASS();
}

TEST a_removed_cron_makes_no_more_jobs_and_may_be_defined_again(void) {
  struct engine *f = engine_start();
  uvs_job_cron_t c = engine_cron_spec("c", "*/10 * * * *");

  EQ(0, engine_cron(f, &c));
  engine_advance(f, TO_22_20);
  EQ(0, engine_remove_cron(f, "c"));
  EQ(UV_ENOENT, engine_remove_cron(f, "c"));
  engine_advance(f, UVS_HOUR(1));
  EQ(UVS_JOB_PENDING, engine_state(f, "n/c@2023-11-14T22:20:00Z")); /* its jobs stay */
  EQ(UV_ENOENT, engine_get(f, "n/c@2023-11-14T22:30:00Z"));
  EQ(0, engine_crons(f));
  EQ(0, f->last.count);
  EQ(0, engine_cron(f, &c));
  engine_advance(f, UVS_MIN(10));
  EQ(UV_ENOENT, engine_get(f, "n/c@2023-11-14T23:20:00Z"));
  EQ(UVS_JOB_PENDING, engine_state(f, "n/c@2023-11-14T23:30:00Z"));
  SAYS("", engine_events(f));
  engine_close(f);
  PASS();
}

TEST occurrences_follow_the_zone_of_the_cron(void) {
  struct engine *f = engine_start();
  uvs_job_cron_t c = engine_cron_spec("c", "0 9 * * *");

  engine_handle(f, "n", NULL);
  c.zone = "Europe/Berlin";
  EQ(0, engine_cron(f, &c));
  engine_advance(f, UVS_DAY(1));
  SAYS("n/c@2023-11-15T08:00:00Z", engine_ran(f));
  engine_close(f);
  PASS();
}

TEST the_grid_of_every_begins_at_the_definition(void) {
  struct engine *f = engine_start();
  uvs_job_cron_t c = engine_cron_spec("c", "@every 90s");

  engine_handle(f, "n", NULL);
  EQ(0, engine_cron(f, &c));
  engine_advance(f, UVS_SEC(180));
  SAYS("n/c@2023-11-14T22:14:50Z n/c@2023-11-14T22:16:20Z", engine_ran(f));
  engine_jump(f, UVS_SEC(100)); /* a late tick does not move the grid */
  SAYS("n/c@2023-11-14T22:17:50Z", engine_ran(f));
  engine_advance(f, UVS_SEC(80));
  SAYS("n/c@2023-11-14T22:19:20Z", engine_ran(f));
  engine_close(f);
  PASS();
}

/* ---------------------------------------------------------------- misfires --- */

/* No process runs for 5.5 h. 23:00 and 00:00 to 03:00 pass. Then it is 03:43:20. */
static struct engine *miss_five_hours(int misfire, uint32_t max_missed) {
  struct engine *f = engine_start();
  uvs_job_cron_t c = engine_cron_spec("c", "0 * * * *");

  c.misfire = misfire;
  c.max_missed = max_missed;
  engine_handle(f, "n", NULL);
  engine_cron(f, &c);
  engine_jump(f, UVS_HOUR(5) + UVS_MIN(30));
  return f;
}

/* Q36 */
TEST after_misfires_one_job_is_made_for_the_newest(void) {
  struct engine *f = miss_five_hours(UVS_MISFIRE_ONCE, 0);

  SAYS("n/c@2023-11-15T03:00:00Z", engine_ran(f));
  EQ(START_NS + UVS_SEC(4 * 3600 + 46 * 60 + 40), f->runs[0].due_ns);
  SAYS("misfired c 4 occurrences have passed without a job", engine_events(f));
  engine_advance(f, UVS_HOUR(1));
  SAYS("n/c@2023-11-15T04:00:00Z", engine_ran(f));
  engine_close(f);
  PASS();
}

/* Q36 */
TEST misfires_may_be_skipped(void) {
  struct engine *f = miss_five_hours(UVS_MISFIRE_SKIP, 0);

  SAYS("", engine_ran(f));
  SAYS("misfired c 5 occurrences have passed without a job", engine_events(f));
  engine_advance(f, UVS_HOUR(1));
  SAYS("n/c@2023-11-15T04:00:00Z", engine_ran(f));
  engine_close(f);
  PASS();
}

/* Q36 */
TEST with_all_the_newest_max_missed_misfires_get_a_job(void) {
  struct engine *f = miss_five_hours(UVS_MISFIRE_ALL, 3);

  SAYS("n/c@2023-11-15T01:00:00Z n/c@2023-11-15T02:00:00Z n/c@2023-11-15T03:00:00Z", engine_ran(f));
  SAYS("misfired c 2 occurrences have passed without a job", engine_events(f));
  engine_close(f);
  PASS();
}

/* Q36 */
TEST an_occurrence_of_the_last_minute_is_no_misfire(void) {
  struct engine *f = engine_start();
  uvs_job_cron_t c = engine_cron_spec("c", "*/10 * * * *");

  c.misfire = UVS_MISFIRE_SKIP;
  engine_handle(f, "n", NULL);
  EQ(0, engine_cron(f, &c));
  engine_jump(f, TO_22_20 + UVS_SEC(59));
  SAYS("n/c@2023-11-14T22:20:00Z", engine_ran(f));
  SAYS("", engine_events(f));
  engine_close(f);
  PASS();
}

/* Q36. 3 days of seconds. The first number is of the last minute, and is not bounded. */
TEST a_long_absence_makes_a_bounded_number_of_jobs(void) {
  struct engine *f = engine_start();
  uvs_job_cron_t c = engine_cron_spec("c", "* * * * * *");

  c.misfire = UVS_MISFIRE_ALL;
  c.max_missed = 1000;
  EQ(0, engine_cron(f, &c));
  engine_jump(f, UVS_DAY(3));
  EQ(0, engine_stats(f));
  EQ(1000 + 61, f->last.stats.pending);
  SAYS("misfired c 1000 or more occurrences have passed without a job", engine_events(f));
  engine_close(f);
  PASS();
}

/* ----------------------------------------------------------------- overlap --- */

/* Q37 */
TEST with_skip_an_occurrence_during_an_earlier_one_gets_no_job(void) {
  struct engine *f = engine_start();
  uvs_job_cron_t c = engine_cron_spec("c", "*/10 * * * *");
  struct probe *p = engine_handle(f, "n", NULL);

  c.overlap = UVS_CRON_SKIP;
  p->hold = true;
  EQ(0, engine_cron(f, &c));
  engine_advance(f, UVS_MIN(20));
  SAYS("n/c@2023-11-14T22:20:00Z", engine_ran(f));
  EQ(UV_ENOENT, engine_get(f, "n/c@2023-11-14T22:30:00Z"));
  p->hold = false;
  engine_finish(f, 0, 0);
  SAYS("", engine_ran(f));
  engine_advance(f, UVS_MIN(10));
  SAYS("n/c@2023-11-14T22:40:00Z", engine_ran(f));
  engine_close(f);
  PASS();
}

/* Q37 */
TEST with_skip_an_occurrence_that_waits_for_a_retry_counts_as_not_ended(void) {
  struct engine *f = engine_start();
  uvs_job_cron_t c = engine_cron_spec("c", "*/10 * * * *");
  uvs_job_handler_t h = engine_handler();
  struct probe *p;

  h.retry.wait_ns = UVS_MIN(25);
  c.overlap = UVS_CRON_SKIP;
  p = engine_handle(f, "n", &h);
  p->ret = UV_EIO;
  EQ(0, engine_cron(f, &c));
  engine_advance(f, UVS_MIN(10));
  p->ret = 0;
  engine_advance(f, UVS_MIN(23)); /* 22:46 */
  SAYS("n/c@2023-11-14T22:20:00Z n/c@2023-11-14T22:20:00Z", engine_ran(f));
  engine_advance(f, UVS_MIN(10));
  SAYS("n/c@2023-11-14T22:50:00Z", engine_ran(f));
  engine_close(f);
  PASS();
}

/* Q37 */
TEST with_queue_occurrences_overlap(void) {
  struct engine *f = engine_start();
  uvs_job_cron_t c = engine_cron_spec("c", "*/10 * * * *");

  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, engine_cron(f, &c));
  engine_advance(f, UVS_MIN(20));
  SAYS("n/c@2023-11-14T22:20:00Z n/c@2023-11-14T22:30:00Z", engine_ran(f));
  engine_close(f);
  PASS();
}

/* ------------------------------------------------------------------- clocks --- */

/* Q38 */
TEST a_clock_that_is_set_back_doubles_no_occurrence(void) {
  struct engine *f = engine_start();
  uvs_job_cron_t c = engine_cron_spec("c", "*/10 * * * *");

  engine_handle(f, "n", NULL);
  EQ(0, engine_cron(f, &c));
  engine_advance(f, UVS_MIN(20)); /* 22:33:20 */
  SAYS("n/c@2023-11-14T22:20:00Z n/c@2023-11-14T22:30:00Z", engine_ran(f));
  engine_step_wall(f, -UVS_MIN(20)); /* 22:13:20 */
  EQ(0, engine_crons(f));
  EQ(START_NS + UVS_SEC(26 * 60 + 40), f->last.next);
  engine_advance(f, UVS_MIN(26));
  SAYS("", engine_ran(f));
  engine_advance(f, UVS_MIN(2)); /* 22:41:20 */
  SAYS("n/c@2023-11-14T22:40:00Z", engine_ran(f));
  SAYS("clock set back", engine_events(f));
  engine_close(f);
  PASS();
}

TEST a_clock_that_is_set_forward_brings_what_it_has_passed(void) {
  struct engine *f = engine_start();
  uvs_job_cron_t c = engine_cron_spec("c", "*/10 * * * *");

  engine_handle(f, "n", NULL);
  EQ(0, engine_cron(f, &c));
  engine_step_wall(f, UVS_MIN(30)); /* 22:43:20 */
  SAYS("n/c@2023-11-14T22:40:00Z", engine_ran(f));
  SAYS("clock set forward; misfired c 2 occurrences have passed without a job", engine_events(f));
  engine_advance(f, UVS_MIN(7));
  SAYS("n/c@2023-11-14T22:50:00Z", engine_ran(f));
  engine_close(f);
  PASS();
}

/* -------------------------------------------------------------- occurrences --- */

/* Q35 */
TEST neither_a_cancelled_nor_a_dead_occurrence_ends_the_cron(void) {
  struct engine *f = engine_start();
  uvs_job_cron_t c = engine_cron_spec("c", "*/10 * * * *");

  EQ(0, engine_cron(f, &c));
  engine_advance(f, UVS_MIN(10));
  EQ(0, engine_cancel(f, "n/c@2023-11-14T22:20:00Z"));
  engine_handle(f, "n", NULL)->ret = UVS_JOB_GIVE_UP;
  engine_advance(f, UVS_MIN(20));
  SAYS("n/c@2023-11-14T22:30:00Z n/c@2023-11-14T22:40:00Z", engine_ran(f));
  EQ(0, engine_stats(f));
  EQ(2, f->last.stats.dead);
  engine_close(f);
  PASS();
}

/* Q35 */
TEST a_cron_goes_on_after_the_node_that_defined_it_has_closed(void) {
  struct engine *f = engine_start();
  uvs_job_cron_t c = engine_cron_spec("c", "*/10 * * * *");

  EQ(1, engine_open_node(f));
  EQ(0, engine_cron(f, &c));
  engine_close_node(f, 0, 0);
  f->to = 1;
  engine_handle(f, "n", NULL); /* a node with a handler looks after crons */
  engine_advance(f, UVS_MIN(10));
  SAYS("n/c@2023-11-14T22:20:00Z", engine_ran(f));
  engine_close(f);
  PASS();
}

/* The tick is a job of the store. Without it the cron would never make a job again. */
TEST no_call_on_a_job_reaches_the_tick_of_a_cron(void) {
  struct engine *f = engine_start();
  uvs_job_cron_t c = engine_cron_spec("c", "*/10 * * * *");
  struct answer a;

  engine_handle(f, "n", NULL);
  EQ(0, engine_cron(f, &c));
  EQ(UV_EINVAL, engine_cancel(f, "uvs.cron/c"));
  EQ(UV_EINVAL, engine_move(f, "uvs.cron/c", UVS_DAY(1), 0));
  EQ(UV_EINVAL, engine_get(f, "uvs.cron/c"));
  answer_init(&a, f);
  EQ(UV_EINVAL, engine_wait(f, &a, "uvs.cron/c", UVS_DAY(1)));
  engine_advance(f, TO_22_20);
  SAYS("n/c@2023-11-14T22:20:00Z", engine_ran(f));
  engine_close(f);
  PASS();
}

TEST lists_do_not_show_the_ticks_of_crons(void) {
  struct engine *f = engine_start();
  uvs_job_cron_t a = engine_cron_spec("a", "*/10 * * * *"), b = engine_cron_spec("b", "@daily");
  uvs_job_filter_t filter;

  uvs_job_filter_init(&filter);
  EQ(0, engine_cron(f, &a));
  EQ(0, engine_put_simple(f, "n", "x", UVS_DAY(1)));
  EQ(0, engine_cron(f, &b));
  EQ(0, engine_list(f, NULL, 0, 1000));
  SAYS("n/x", f->last.text);
  filter.name = "a";
  EQ(0, engine_list(f, &filter, 0, 1000));
  SAYS("", f->last.text);
  engine_close(f);
  PASS();
}

SUITE(cron) {
  RUN_TEST(each_occurrence_becomes_a_job_at_its_instant);
  RUN_TEST(a_cron_without_a_handler_here_makes_jobs_all_the_same);
  RUN_TEST(a_definition_that_is_stored_or_older_changes_nothing_and_a_newer_one_replaces_it);
  RUN_TEST(a_removed_cron_makes_no_more_jobs_and_may_be_defined_again);
  RUN_TEST(occurrences_follow_the_zone_of_the_cron);
  RUN_TEST(the_grid_of_every_begins_at_the_definition);
  RUN_TEST(after_misfires_one_job_is_made_for_the_newest);
  RUN_TEST(misfires_may_be_skipped);
  RUN_TEST(with_all_the_newest_max_missed_misfires_get_a_job);
  RUN_TEST(an_occurrence_of_the_last_minute_is_no_misfire);
  RUN_TEST(a_long_absence_makes_a_bounded_number_of_jobs);
  RUN_TEST(with_skip_an_occurrence_during_an_earlier_one_gets_no_job);
  RUN_TEST(with_skip_an_occurrence_that_waits_for_a_retry_counts_as_not_ended);
  RUN_TEST(with_queue_occurrences_overlap);
  RUN_TEST(a_clock_that_is_set_back_doubles_no_occurrence);
  RUN_TEST(a_clock_that_is_set_forward_brings_what_it_has_passed);
  RUN_TEST(neither_a_cancelled_nor_a_dead_occurrence_ends_the_cron);
  RUN_TEST(a_cron_goes_on_after_the_node_that_defined_it_has_closed);
  RUN_TEST(no_call_on_a_job_reaches_the_tick_of_a_cron);
  RUN_TEST(lists_do_not_show_the_ticks_of_crons);
}

TEST_MAIN(ON_EVERY_STORE(RUN_SUITE(cron)));
