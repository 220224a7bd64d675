/* SPDX-License-Identifier: MIT
 *
 * Claims, leases and places.
 */
#include <string.h>

#include "engine_fixture.h"

/* ----------------------------------------------------------------- places --- */

/* Q11 */
TEST a_node_claims_only_as_many_jobs_as_it_has_free_places_for(void) {
  struct engine *f = engine_start();
  uvs_job_handler_t h = engine_handler();

  h.concurrency = 2;
  engine_handle(f, "n", &h)->hold = true;
  for (int i = 0; i < 5; i++)
    EQ(0, engine_put_simple(f, "n", NULL, 0));
  EQ(2, f->n_runs);
  EQ(0, engine_stats(f));
  EQ(2, f->last.stats.running);
  EQ(3, f->last.stats.pending);
  EQ(3, f->last.stats.overdue);
  engine_finish(f, 0, 0);
  EQ(3, f->n_runs);
  engine_finish(f, 1, 0);
  engine_finish(f, 2, 0);
  EQ(5, f->n_runs);
  EQ(0, engine_stats(f));
  EQ(2, f->last.stats.running);
  engine_close(f);
  PASS();
}

/* Q11 */
TEST handlers_of_one_queue_share_their_places(void) {
  struct engine *f = engine_start();
  uvs_job_handler_t h = engine_handler();
  uvs_job_spec_t spec = engine_spec("a", NULL);

  h.queue = "q";
  h.concurrency = 1;
  engine_handle(f, "a", &h)->hold = true;
  h.concurrency = 2;
  engine_handle(f, "b", &h)->hold = true;
  spec.queue = "q";
  for (int i = 0; i < 5; i++)
    EQ(0, engine_put(f, &spec));
  EQ(3, f->n_runs);
  engine_close(f);
  PASS();
}

TEST a_handler_without_a_concurrency_has_at_least_one_place(void) {
  struct engine *f = engine_start(); /* a scheduler with concurrency 0 */
  uvs_job_handler_t h = engine_handler();

  h.concurrency = 0;
  engine_handle(f, "n", &h)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  EQ(0, engine_put_simple(f, "n", "b", 0));
  SAYS("n/a", engine_ran(f));
  engine_close(f);
  PASS();
}

TEST a_name_has_one_handler(void) {
  struct engine *f = engine_start();

  engine_handle(f, "n", NULL);
  EQ(UV_EEXIST, uvs_jobs_handle(f->nodes[0].jobs, "n", engine_probe_run, NULL, NULL));
  engine_close(f);
  PASS();
}

/* Q17 */
TEST a_job_without_a_handler_in_a_shared_queue_is_given_back_uncounted(void) {
  struct engine *f = engine_start();
  uvs_job_handler_t h = engine_handler();
  uvs_job_spec_t spec = engine_spec("unknown", "a");

  h.queue = "q";
  h.max_attempts = h.max_crashes = 1;
  engine_handle(f, "n", &h);
  spec.queue = "q";
  EQ(0, engine_put(f, &spec));
  SAYS("unknown name q/a unknown", engine_events(f));
  EQ(UVS_JOB_PENDING, engine_state(f, "q/a"));
  EQ(0, f->last.info.attempts);
  EQ(0, f->last.info.crashes);
  ASSERT(f->last.info.due_ns >= engine_wall(f) + UVS_SEC(30));
  ASSERT(f->last.info.due_ns <= engine_wall(f) + UVS_SEC(40));
  engine_advance(f, UVS_MIN(5));
  EQ(UVS_JOB_PENDING, engine_state(f, "q/a"));
  SAYS("", engine_ran(f));
  engine_stop(f, 0); /* otherwise it would always be the first to claim */
  f->to = engine_open_node(f);
  engine_handle(f, "unknown", &h);
  engine_advance(f, UVS_SEC(40));
  SAYS("q/a", engine_ran(f));
  EQ(1, f->runs[0].attempt);
  EQ(0, f->runs[0].crashes);
  engine_close(f);
  PASS();
}

/* ----------------------------------------------------------------- leases --- */

/* Q12 */
TEST a_lease_is_extended_for_as_long_as_the_handler_runs(void) {
  struct engine *f = engine_start();

  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  f->to = engine_open_node(f);
  engine_handle(f, "n", NULL);
  for (int i = 0; i < 30; i++) { /* 10 leases */
    engine_advance(f, UVS_SEC(10));
    EQ(UVS_JOB_RUNNING, engine_state(f, "n/a"));
    EQ(engine_wall(f) + UVS_SEC(30), f->last.info.due_ns / 1000 * 1000);
  }
  EQ(1, f->n_runs);
  SAYS("", engine_events(f));
  engine_finish(f, 0, 0);
  EQ(UVS_JOB_DONE, engine_state(f, "n/a"));
  EQ(0, f->last.info.crashes);
  engine_close(f);
  PASS();
}

static int block_for_ten_leases(struct probe *p, uvs_job_t *job) {
  struct engine *f = p->f;
  int64_t due_ns;

  (void)job;
  for (int i = 0; i < 30; i++) {
    vclock_advance_ns(&f->clock, UVS_SEC(10));
    for (int node = 0; node < 2; node++)
      if (uvs_jobs_clock_changed(f->nodes[node].jobs) != 0 ||
          uvs_jobs_next_due(f->nodes[node].jobs, &due_ns) != 0)
        abort();
  }
  return 0;
}

/* Q12. Handlers run on the loop here, so nothing but the store's thread can extend the lease. */
TEST a_lease_is_extended_although_the_handler_blocks_the_loop(void) {
  struct engine *f = engine_start();

  engine_open_node(f);
  for (f->to = 0; f->to < 2; f->to++)
    engine_handle(f, "n", NULL)->act = block_for_ten_leases;
  f->to = 0;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  engine_sync(f);
  EQ(UVS_JOB_DONE, engine_state(f, "n/a"));
  EQ(0, f->last.info.crashes);
  EQ(1, f->n_runs);
  SAYS("", engine_events(f));
  engine_close(f);
  PASS();
}

TEST the_lease_of_a_queue_is_the_longest_of_its_handlers(void) {
  struct engine *f = engine_start();
  uvs_job_handler_t h = engine_handler();
  uvs_job_spec_t spec = engine_spec("a", "a");

  h.queue = "q";
  h.lease_ns = UVS_SEC(5);
  engine_handle(f, "a", &h)->hold = true;
  h.lease_ns = UVS_SEC(50);
  engine_handle(f, "b", &h);
  h.lease_ns = UVS_SEC(20);
  engine_handle(f, "c", &h);
  spec.queue = "q";
  EQ(0, engine_put(f, &spec));
  EQ(UVS_JOB_RUNNING, engine_state(f, "q/a"));
  EQ(engine_wall(f) + UVS_SEC(50), f->last.info.due_ns);
  engine_close(f);
  PASS();
}

/* Q1 Q13 Q15 Q21 */
TEST when_a_node_dies_its_job_runs_again_with_one_crash_and_an_event(void) {
  struct engine *f = engine_start();

  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  engine_stop(f, 0);
  f->to = engine_open_node(f);
  engine_handle(f, "n", NULL);
  engine_advance(f, UVS_SEC(30) - 1000);
  EQ(1, f->n_runs);
  engine_advance(f, 1000);
  EQ(2, f->n_runs);
  EQ(1, f->runs[1].node);
  EQ(1, f->runs[1].attempt);
  EQ(1, f->runs[1].crashes);
  ASSERT(f->runs[1].fence > f->runs[0].fence);
  SAYS("1:crashed n/a an earlier lease has ended without a result", engine_events(f));
  EQ(UVS_JOB_DONE, engine_state(f, "n/a"));
  EQ(0, engine_stats(f));
  EQ(1, f->last.stats.crashes);
  engine_close(f);
  PASS();
}

/* Q15 */
TEST a_result_after_the_lease_was_lost_is_refused_with_an_event(void) {
  struct engine *f = engine_start();

  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  engine_stop(f, 0);
  f->to = engine_open_node(f);
  engine_handle(f, "n", NULL)->hold = true;
  engine_advance(f, UVS_SEC(31));
  EQ(2, f->n_runs);
  engine_events(f);
  /* The first node goes on, and its result comes before its heartbeat. */
  uvs_job_result(f->runs[0].job, "wrong", 5);
  engine_finish(f, 0, 0);
  f->nodes[0].stopped = false;
  engine_quiesce(f);
  SAYS("lost n/a the result came too late", engine_events(f));
  EQ(UVS_JOB_RUNNING, engine_state(f, "n/a"));
  engine_finish(f, 1, 0);
  EQ(UVS_JOB_DONE, engine_state(f, "n/a"));
  SAYS("", f->last.text);
  f->to = 0;
  EQ(0, engine_stats(f));
  EQ(1, f->last.stats.lost_leases);
  EQ(0, f->last.stats.done);
  engine_close(f);
  PASS();
}

/* Q15 */
TEST a_handler_learns_from_the_heartbeat_that_its_lease_is_lost(void) {
  struct engine *f = engine_start();

  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  engine_stop(f, 0);
  f->to = engine_open_node(f);
  engine_handle(f, "n", NULL)->hold = true;
  engine_advance(f, UVS_SEC(31));
  EQ(2, f->n_runs);
  engine_events(f);
  EQ(0, uvs_job_lost(f->runs[0].job));
  engine_go_on(f, 0);
  EQ(1, uvs_job_lost(f->runs[0].job));
  EQ(1, uvs_job_cancelled(f->runs[0].job));
  SAYS("lost n/a the lease has ended, and the job is claimed again", engine_events(f));
  engine_finish(f, 0, 0);
  SAYS("", engine_events(f)); /* only once */
  EQ(UVS_JOB_RUNNING, engine_state(f, "n/a"));
  engine_close(f);
  PASS();
}

TEST a_heartbeat_that_is_late_still_extends_if_nobody_has_claimed_the_job(void) {
  struct engine *f = engine_start();

  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  for (int i = 0; i < 10; i++)
    engine_jump(f, UVS_SEC(31));
  EQ(1, f->n_runs);
  SAYS("", engine_events(f));
  engine_finish(f, 0, 0);
  EQ(UVS_JOB_DONE, engine_state(f, "n/a"));
  EQ(0, f->last.info.crashes);
  engine_close(f);
  PASS();
}

/* Q16 Q23. Beyond its limit the lease is not extended, and the node itself claims the job again. */
TEST a_node_never_starts_a_job_that_it_still_runs(void) {
  struct engine *f = engine_start();
  uvs_job_handler_t h = engine_handler();

  h.limit_ns = UVS_SEC(5);
  engine_handle(f, "n", &h)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  engine_advance(f, UVS_MIN(5));
  EQ(1, f->n_runs);
  engine_finish(f, 0, 0);
  ASSERT(strstr(engine_events(f), "lost n/a") != NULL);
  EQ(UVS_JOB_PENDING, engine_state(f, "n/a"));
  engine_advance(f, UVS_SEC(30));
  EQ(2, f->n_runs);
  EQ(1, f->runs[1].attempt);
  EQ(1, f->runs[1].crashes);
  engine_close(f);
  PASS();
}

/* Q21 */
TEST after_max_crashes_a_job_becomes_a_dead_letter(void) {
  struct engine *f = engine_start();
  uvs_job_handler_t h = engine_handler();

  h.max_crashes = 2;
  engine_handle(f, "n", &h)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  for (int node = 1; node <= 2; node++) {
    engine_stop(f, node - 1);
    f->to = engine_open_node(f);
    engine_handle(f, "n", &h)->hold = true;
    engine_advance(f, UVS_SEC(30));
    engine_events(f);
  }
  EQ(2, f->n_runs);
  EQ(1, f->runs[1].crashes);
  EQ(UVS_JOB_DEAD, engine_state(f, "n/a"));
  SAYS("crashed too often: its leases ended without a result", f->last.error);
  EQ(2, f->last.info.crashes);
  engine_close(f);
  PASS();
}

/* Q10. Three jobs of a queue and one of another have a crash behind them. */
TEST crashed_jobs_run_one_at_a_time_per_node_and_each_follows_at_once(void) {
  struct engine *f = engine_start();

  engine_handle(f, "n", NULL)->hold = true;
  engine_handle(f, "m", NULL)->hold = true;
  for (int i = 0; i < 3; i++)
    EQ(0, engine_put_simple(f, "n", NULL, 0));
  EQ(0, engine_put_simple(f, "m", NULL, 0));
  EQ(4, f->n_runs);
  engine_stop(f, 0);
  f->to = engine_open_node(f);
  engine_handle(f, "n", NULL)->hold = true;
  engine_handle(f, "m", NULL)->hold = true;
  engine_advance(f, UVS_SEC(30));
  EQ(5, f->n_runs); /* one crashed job */
  EQ(0, engine_put_simple(f, "n", "new", 0));
  EQ(6, f->n_runs); /* others are not held up */
  EQ(0, f->runs[5].crashes);
  for (int i = 0; i < 4; i++) {
    int crashed = i == 0 ? 4 : 5 + i;

    EQ(1, f->runs[crashed].crashes);
    engine_finish(f, crashed, 0);
    EQ(i < 3 ? 7 + i : 9, f->n_runs);
  }
  engine_close(f);
  PASS();
}

SUITE(run) {
  RUN_TEST(a_node_claims_only_as_many_jobs_as_it_has_free_places_for);
  RUN_TEST(handlers_of_one_queue_share_their_places);
  RUN_TEST(a_handler_without_a_concurrency_has_at_least_one_place);
  RUN_TEST(a_name_has_one_handler);
  RUN_TEST(a_job_without_a_handler_in_a_shared_queue_is_given_back_uncounted);
  RUN_TEST(a_lease_is_extended_for_as_long_as_the_handler_runs);
  RUN_TEST(a_lease_is_extended_although_the_handler_blocks_the_loop);
  RUN_TEST(the_lease_of_a_queue_is_the_longest_of_its_handlers);
  RUN_TEST(when_a_node_dies_its_job_runs_again_with_one_crash_and_an_event);
  RUN_TEST(a_result_after_the_lease_was_lost_is_refused_with_an_event);
  RUN_TEST(a_handler_learns_from_the_heartbeat_that_its_lease_is_lost);
  RUN_TEST(a_heartbeat_that_is_late_still_extends_if_nobody_has_claimed_the_job);
  RUN_TEST(a_node_never_starts_a_job_that_it_still_runs);
  RUN_TEST(after_max_crashes_a_job_becomes_a_dead_letter);
  RUN_TEST(crashed_jobs_run_one_at_a_time_per_node_and_each_follows_at_once);
}

TEST_MAIN(ON_EVERY_STORE(RUN_SUITE(run)));
