/* SPDX-License-Identifier: MIT
 *
 * The engine over a store that answers later, from the keeper's loop, as a server does.
 */
#include <string.h>

#include "between.h"

static struct engine *start(void) {
  between_later = true;
  return between_start();
}

/* -------------------------------------------------------------------- jobs --- */

TEST jobs_run_fail_and_run_again(void) {
  struct engine *f = start();

  engine_handle(f, "n", NULL)->ret = UV_EIO;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  EQ(0, engine_put_simple(f, "n", "b", UVS_SEC(3)));
  SAYS("n/a", engine_ran(f));
  f->probes[0].ret = 0;
  engine_advance(f, UVS_SEC(1) - 1);
  SAYS("", engine_ran(f));
  engine_advance(f, 1);
  SAYS("n/a", engine_ran(f));
  engine_advance(f, UVS_SEC(2));
  SAYS("n/b", engine_ran(f));
  EQ(UVS_JOB_DONE, engine_state(f, "n/a"));
  EQ(UVS_JOB_DONE, engine_state(f, "n/b"));
  engine_close(f);
  PASS();
}

TEST no_more_jobs_are_claimed_than_there_are_places(void) {
  struct engine *f = start();
  uvs_job_handler_t h = engine_handler();
  char id[8];

  h.concurrency = 2;
  engine_handle(f, "n", &h)->hold = true;
  for (int i = 0; i < 5; i++) {
    snprintf(id, sizeof id, "%d", i);
    EQ(0, engine_put_simple(f, "n", id, 0));
  }
  SAYS("n/0 n/1", engine_ran(f));
  engine_finish(f, 0, 0);
  engine_quiesce(f);
  SAYS("n/2", engine_ran(f));
  engine_stats(f);
  EQ(2, f->last.stats.running);
  for (int i = 1; i < 5; i++) {
    engine_finish(f, i, 0);
    engine_quiesce(f);
  }
  engine_close(f);
  PASS();
}

/* Q48 */
TEST a_close_waits_for_the_answers(void) {
  struct engine *f = start();
  uvs_job_spec_t spec = engine_spec("n", NULL);
  struct answer a, b;

  answer_init(&a, f);
  answer_init(&b, f);
  EQ(0, uvs_jobs_put(f->nodes[0].jobs, &spec, answer_put, &a));
  EQ(0, uvs_jobs_cancel(f->nodes[0].jobs, "n/none", answer_status, &b));
  engine_close_node(f, 0, 0);
  EQ(0, a.status);
  EQ(UV_ENOENT, b.status);
  engine_close(f);
  PASS();
}

/* ------------------------------------------------------------------- reset --- */

/* Q60 */
TEST after_a_reset_the_crons_of_this_process_are_defined_again(void) {
  struct engine *f = start();
  uvs_job_cron_t mine = engine_cron_spec("mine", "*/10 * * * *");
  uvs_job_cron_t removed = engine_cron_spec("removed", "*/10 * * * *");

  engine_handle(f, "n", NULL);
  mine.revision = 3;
  EQ(0, engine_cron(f, &removed));
  EQ(0, engine_cron(f, &mine));
  EQ(0, engine_remove_cron(f, "removed"));
  f->to = engine_open_node(f); /* the other node forgets it without node 0 */
  EQ(0, engine_remove_cron(f, "mine"));
  f->to = 0;
  EQ(0, engine_crons(f));
  SAYS("", f->last.text);
  between_report(f, 0, UVS_EVENT_STORE_RESET);
  EQ(0, engine_crons(f));
  SAYS("mine r3 */10 * * * * UTC n n", f->last.text);
  SAYS("store reset", engine_events(f));
  engine_advance(f, UVS_MIN(7));
  SAYS("n/mine@2023-11-14T22:20:00Z", engine_ran(f));
  engine_close(f);
  PASS();
}

/* Q60 */
TEST a_reset_while_the_store_is_down_defines_the_crons_when_it_is_back(void) {
  struct engine *f = start();
  uvs_job_cron_t c = engine_cron_spec("c", "*/10 * * * *");

  EQ(0, engine_cron(f, &c));
  f->to = engine_open_node(f);
  EQ(0, engine_remove_cron(f, "c"));
  f->to = 0;
  between_set_mode(f, 0, DOWN);
  between_report(f, 0, UVS_EVENT_STORE_RESET);
  between_report(f, 0, UVS_EVENT_STORE_RESET); /* again, while it is being defined */
  engine_advance(f, UVS_SEC(10));
  between_set_mode(f, 0, WORKS);
  engine_advance(f, UVS_SEC(1));
  EQ(0, engine_crons(f));
  SAYS("c r1 */10 * * * * UTC n n", f->last.text);
  engine_close(f);
  PASS();
}

SUITE(later) {
  RUN_TEST(jobs_run_fail_and_run_again);
  RUN_TEST(no_more_jobs_are_claimed_than_there_are_places);
  RUN_TEST(a_close_waits_for_the_answers);
  RUN_TEST(after_a_reset_the_crons_of_this_process_are_defined_again);
  RUN_TEST(a_reset_while_the_store_is_down_defines_the_crons_when_it_is_back);
}

TEST_MAIN(ON_EVERY_LOCAL_STORE(RUN_SUITE(later)));
