/* SPDX-License-Identifier: MIT
 *
 * Several nodes on one store, and clocks that are set.
 */
#include <string.h>

#include "engine_fixture.h"

static struct engine *two_nodes(void) {
  struct engine *f = engine_start();

  engine_open_node(f);
  return f;
}

/* -------------------------------------------------------------------- work --- */

TEST a_job_runs_at_the_node_that_handles_it(void) {
  struct engine *f = two_nodes();

  f->to = 1;
  engine_handle(f, "n", NULL);
  f->to = 0;
  EQ(0, engine_put_simple(f, "n", "a", UVS_SEC(1)));
  engine_advance(f, UVS_SEC(1));
  SAYS("n/a", engine_ran(f));
  EQ(1, f->runs[0].node);
  engine_close(f);
  PASS();
}

TEST a_node_learns_of_a_job_that_another_one_has_put_when_it_looks(void) {
  struct engine *f = two_nodes();

  f->to = 1;
  engine_handle(f, "n", NULL);
  f->to = 0;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  SAYS("", engine_ran(f));
  EQ(0, uvs_jobs_wake(f->nodes[1].jobs));
  engine_quiesce(f);
  SAYS("n/a", engine_ran(f));
  engine_close(f);
  PASS();
}

static int fail_at_random(struct probe *p, uvs_job_t *job) {
  uint64_t *random = p->data;

  (void)job;
  switch (test_random_below(random, 4)) {
  case 0:
    return UV_EIO;
  case 1:
    return uvs_job_retry_at(job, engine_wall(p->f) + UVS_MS(10));
  default:
    p->number++;
    return 0;
  }
}

/* Q1 Q53. Jobs with random delays, cancels and moves; three nodes that stop for less than a lease.
 */
TEST each_job_is_done_exactly_once_if_no_node_is_away_for_a_lease(void) {
  struct engine *f = two_nodes();
  uint64_t random = test_seed;
  uvs_job_handler_t h = engine_handler();
  int put = 0, cancelled = 0, done = 0;

  engine_open_node(f);
  h.concurrency = 7;
  h.max_attempts = 0;
  for (f->to = 0; f->to < 3; f->to++) {
    struct probe *p = engine_handle(f, "n", &h);

    p->act = fail_at_random;
    p->data = &random;
  }
  for (int i = 0; i < 300; i++) {
    int stopped = (int)test_random_below(&random, 3);
    char id[20];

    f->to = (int)test_random_below(&random, 3);
    put += engine_put_simple(f, "n", NULL, UVS_MS((int64_t)test_random_below(&random, 20000))) == 0;
    if (test_random_below(&random, 5) == 0)
      engine_move(f, f->last.id, UVS_MS((int64_t)test_random_below(&random, 9000)), 0);
    snprintf(id, sizeof id, "c%d", i);
    if (test_random_below(&random, 5) == 0) {
      char whole[30];

      snprintf(whole, sizeof whole, "n/%s", id);
      put += engine_put_simple(f, "n", id, UVS_SEC(9)) == 0;
      cancelled += engine_cancel(f, whole) == 0;
    }
    engine_stop(f, stopped);
    engine_advance(f, UVS_MS((int64_t)test_random_below(&random, 2000)));
    engine_go_on(f, stopped);
  }
  engine_advance(f, UVS_HOUR(3));
  for (int i = 0; i < f->n_probes; i++)
    done += f->probes[i].number;
  EQ(put, done + cancelled);
  EQ(0, engine_stats(f));
  EQ(0, f->last.stats.pending + f->last.stats.running + f->last.stats.dead);
  ASSERT(strstr(engine_events(f), "lost") == NULL);
  engine_close(f);
  PASS();
}

/* ------------------------------------------------------------------ events --- */

/* Those of node 0 first. */
static void sort_events(char *events, char *ret) {
  char *copies[2] = {strdup(events), strdup(events)}, *event, *rest;

  *ret = '\0';
  for (int node = 0; node < 2; node++) {
    for (event = strtok_r(copies[node], ";", &rest); event != NULL;
         event = strtok_r(NULL, ";", &rest)) {
      event += *event == ' ';
      if ((strncmp(event, "1:", 2) == 0) == (node == 1))
        strcat(strcat(ret, event), "; ");
    }
    free(copies[node]);
  }
}

/* Q57 */
TEST events_of_jobs_reach_all_nodes(void) {
  struct engine *f = two_nodes();
  char text[TEXT_MAX];
  uvs_job_queue_t q = engine_queue("n");
  uvs_job_spec_t spec = engine_spec("m", "x");

  engine_handle(f, "n", NULL)->ret = UVS_JOB_GIVE_UP;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  EQ(0, engine_put_simple(f, "n", "b", UVS_HOUR(1)));
  EQ(0, engine_cancel(f, "n/b"));
  spec.key = "k";
  spec.delay_ns = UVS_HOUR(1);
  EQ(0, engine_put(f, &spec));
  spec.id = "y";
  spec.key_policy = UVS_KEY_REPLACE;
  EQ(0, engine_put(f, &spec));
  EQ(0, engine_set_queue(f, &q));
  if (engine_is_server) { /* the events of both nodes come in any order */
    engine_await_event(f, "1:queue changed n");
    sort_events(f->events, text);
    SAYS("dead n/a given up by the handler; cancelled n/b; replaced m/x; queue changed n; "
         "1:dead n/a given up by the handler; 1:cancelled n/b; 1:replaced m/x; 1:queue changed n; ",
         text);
    engine_close(f);
    PASS();
  }
  SAYS("dead n/a given up by the handler; cancelled n/b; replaced m/x; queue changed n",
       engine_events(f));
  engine_sync(f);
  SAYS("1:dead n/a given up by the handler; 1:cancelled n/b; 1:replaced m/x; 1:queue changed n",
       engine_events(f));
  engine_sync(f);
  SAYS("", engine_events(f));
  engine_close(f);
  PASS();
}

/* Q57 */
TEST a_node_gets_no_events_from_before_it_opened(void) {
  struct engine *f = engine_start();

  EQ(0, engine_put_simple(f, "n", "a", UVS_HOUR(1)));
  EQ(0, engine_cancel(f, "n/a"));
  engine_open_node(f);
  engine_sync(f);
  SAYS("cancelled n/a", engine_events(f));
  engine_close(f);
  PASS();
}

/* ------------------------------------------------------------------ clocks --- */

/* Q19 */
TEST each_step_of_the_clock_makes_one_event_and_queues_are_asked_again(void) {
  struct engine *f = engine_start();

  engine_handle(f, "n", NULL);
  EQ(0, engine_put_simple(f, "n", "a", UVS_HOUR(1)));
  engine_step_wall(f, UVS_MS(499)); /* adjusted, not set */
  SAYS("", engine_events(f));
  engine_step_wall(f, UVS_HOUR(2));
  SAYS("clock set forward", engine_events(f));
  SAYS("n/a", engine_ran(f));
  engine_step_wall(f, -UVS_HOUR(2));
  SAYS("clock set back", engine_events(f));
  engine_advance(f, UVS_MIN(1));
  SAYS("", engine_events(f));
  engine_close(f);
  PASS();
}

/* Q2 */
TEST a_delay_that_began_before_the_clock_was_set_back_counts_by_the_store_s_clock(void) {
  struct engine *f = engine_start();

  engine_handle(f, "n", NULL);
  EQ(0, engine_put_simple(f, "n", "a", UVS_MIN(10)));
  engine_step_wall(f, -UVS_MIN(5));
  engine_advance(f, UVS_MIN(15) - 1000);
  SAYS("", engine_ran(f));
  engine_advance(f, 1000);
  SAYS("n/a", engine_ran(f));
  engine_close(f);
  PASS();
}

/* Q19 */
TEST after_the_clock_was_set_forward_live_holders_keep_their_leases(void) {
  struct engine *f = two_nodes();

  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  f->to = 1;
  engine_handle(f, "n", NULL);
  engine_stop(f, 0); /* it is slow */
  engine_step_wall(f, UVS_HOUR(1));
  engine_advance(f, UVS_SEC(9));
  EQ(1, f->n_runs);
  engine_go_on(f, 0);
  engine_advance(f, UVS_MIN(2));
  EQ(1, f->n_runs);
  engine_finish(f, 0, 0);
  EQ(UVS_JOB_DONE, engine_state(f, "n/a"));
  engine_close(f);
  PASS();
}

/* Q19 */
TEST after_the_clock_was_set_forward_leases_of_the_dead_end_a_third_of_a_lease_later(void) {
  struct engine *f = two_nodes();
  int64_t set_ns;

  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  f->to = 1;
  engine_handle(f, "n", NULL);
  engine_stop(f, 0);
  engine_step_wall(f, UVS_HOUR(1));
  set_ns = engine_wall(f);
  engine_advance(f, UVS_MIN(1));
  EQ(2, f->n_runs);
  EQ(UVS_SEC(10), f->runs[1].wall_ns - set_ns);
  EQ(1, f->runs[1].crashes);
  engine_close(f);
  PASS();
}

/* Q19 */
TEST a_node_that_notices_a_clock_set_forward_extends_its_leases_at_once(void) {
  struct engine *f = two_nodes();

  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  engine_step_wall(f, UVS_HOUR(1));
  EQ(UVS_JOB_RUNNING, engine_state(f, "n/a"));
  EQ(engine_wall(f) + UVS_SEC(30), f->last.info.due_ns);
  engine_step_wall(f, -UVS_HOUR(2));
  EQ(UVS_JOB_RUNNING, engine_state(f, "n/a"));
  EQ(engine_wall(f) + UVS_SEC(30), f->last.info.due_ns);
  engine_finish(f, 0, 0);
  engine_close(f);
  PASS();
}

/* Q19 */
TEST a_claim_that_is_made_before_a_step_of_the_clock_is_noticed_takes_no_live_lease(void) {
  struct engine *f = two_nodes();

  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  f->to = 1;
  engine_handle(f, "n", NULL);
  engine_quiesce(f);
  vclock_step_wall(&f->clock, UVS_HOUR(1)); /* nobody is told */
  EQ(0, engine_put_simple(f, "n", "b", 0)); /* this makes node 1 claim */
  SAYS("n/a n/b", engine_ran(f));
  engine_finish(f, 0, 0);
  engine_close(f);
  PASS();
}

SUITE(nodes) {
  RUN_TEST(a_job_runs_at_the_node_that_handles_it);
  RUN_TEST(a_node_learns_of_a_job_that_another_one_has_put_when_it_looks);
  RUN_TEST(each_job_is_done_exactly_once_if_no_node_is_away_for_a_lease);
  RUN_TEST(events_of_jobs_reach_all_nodes);
  RUN_TEST(a_node_gets_no_events_from_before_it_opened);
  RUN_TEST(each_step_of_the_clock_makes_one_event_and_queues_are_asked_again);
  RUN_TEST(a_delay_that_began_before_the_clock_was_set_back_counts_by_the_store_s_clock);
  RUN_TEST(after_the_clock_was_set_forward_live_holders_keep_their_leases);
  RUN_TEST(after_the_clock_was_set_forward_leases_of_the_dead_end_a_third_of_a_lease_later);
  RUN_TEST(a_node_that_notices_a_clock_set_forward_extends_its_leases_at_once);
  RUN_TEST(a_claim_that_is_made_before_a_step_of_the_clock_is_noticed_takes_no_live_lease);
}

TEST_MAIN(ON_EVERY_STORE(RUN_SUITE(nodes)));
