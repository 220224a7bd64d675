/* SPDX-License-Identifier: MIT
 *
 * uvs_jobs_wait, and uvs_jobs_get in every state.
 */
#include <string.h>

#include "engine_fixture.h"

static int set_result(struct probe *p, uvs_job_t *job) {
  uvs_job_result(job, "42", 2);
  return p->ret;
}

/* -------------------------------------------------------------------- get --- */

/* Q26 */
TEST get_reads_a_job_in_each_of_its_states(void) {
  struct engine *f = engine_start();
  uvs_job_spec_t spec = engine_spec("n", "a");
  int64_t put_ns = engine_wall(f);

  engine_handle(f, "n", NULL)->hold = true;
  spec.payload = "pay";
  spec.payload_size = 3;
  spec.meta = "met";
  spec.meta_size = 3;
  spec.key = "k";
  spec.priority = UVS_PRIORITY_LOW;
  spec.delay_ns = UVS_SEC(2);
  EQ(0, engine_put(f, &spec));
  EQ(UVS_JOB_PENDING, engine_state(f, "n/a"));
  SAYS("n/a", f->last.id);
  SAYS("n", f->last.name);
  SAYS("n", f->last.queue);
  SAYS("k", f->last.key);
  SAYS("pay", f->last.payload);
  SAYS("met", f->last.meta);
  SAYS("", f->last.error);
  EQ(UVS_PRIORITY_LOW, f->last.info.priority);
  EQ(put_ns, f->last.info.put_ns);
  EQ(put_ns + UVS_SEC(2), f->last.info.due_ns);
  EQ(0, f->last.info.ended_ns);
  EQ(0, f->last.info.attempts);
  engine_advance(f, UVS_SEC(2));
  EQ(0, uvs_job_progress(f->runs[0].job, "half", 4));
  EQ(UVS_JOB_RUNNING, engine_state(f, "n/a"));
  EQ(engine_wall(f) + UVS_SEC(30), f->last.info.due_ns);
  SAYS("half", f->last.progress);
  SAYS("pay", f->last.payload);
  EQ(0, f->last.info.cancelling);
  EQ(0, uvs_job_result(f->runs[0].job, "42", 2));
  engine_finish(f, 0, 0);
  EQ(UVS_JOB_DONE, engine_state(f, "n/a"));
  SAYS("42", f->last.text);
  EQ(put_ns, f->last.info.put_ns);
  EQ(put_ns + UVS_SEC(2), f->last.info.ended_ns);
  EQ(1, f->last.info.attempts);
  EQ(UV_ENOENT, engine_get(f, "n/none"));
  engine_close(f);
  PASS();
}

/* ------------------------------------------------------------------- wait --- */

/* Q26 */
TEST a_wait_ends_when_its_job_is_done_and_has_the_result(void) {
  struct engine *f = engine_start();
  struct answer a;

  engine_handle(f, "n", NULL)->act = set_result;
  EQ(0, engine_put_simple(f, "n", "a", UVS_SEC(5)));
  EQ(0, engine_wait(f, &a, "n/a", UVS_SEC(60)));
  engine_advance(f, UVS_SEC(5) - 1);
  EQ(0, a.calls);
  engine_advance(f, 1);
  EQ(1, a.calls);
  EQ(0, a.status);
  EQ(UVS_JOB_DONE, a.info.state);
  SAYS("n/a", a.id);
  SAYS("42", a.text);
  EQ(1, a.info.attempts);
  engine_advance(f, UVS_MIN(2));
  EQ(1, a.calls);
  engine_close(f);
  PASS();
}

/* Q26. The job leaves no record, because it ends long after its put and nothing keeps it. */
TEST a_wait_here_needs_no_record_of_the_end(void) {
  struct engine *f = engine_start();
  uvs_job_spec_t spec = engine_spec("n", "a");
  struct answer a;

  engine_handle(f, "n", NULL)->act = set_result;
  spec.keep_done_ns = 0;
  spec.delay_ns = UVS_HOUR(1);
  EQ(0, engine_put(f, &spec));
  EQ(0, engine_wait(f, &a, "n/a", UVS_NEVER));
  engine_advance(f, UVS_HOUR(1));
  EQ(UV_ENOENT, engine_get(f, "n/a"));
  EQ(0, a.status);
  EQ(UVS_JOB_DONE, a.info.state);
  SAYS("42", a.text);
  engine_close(f);
  PASS();
}

/* Q26 */
TEST a_wait_ends_with_dead_cancelled_and_replaced_jobs(void) {
  struct engine *f = engine_start();
  struct answer dead, cancelled, replaced;
  uvs_job_spec_t spec = engine_spec("n", "c");

  engine_handle(f, "n", NULL)->ret = UVS_JOB_GIVE_UP;
  EQ(0, engine_put_simple(f, "n", "a", UVS_SEC(50)));
  EQ(0, engine_put_simple(f, "n", "b", UVS_HOUR(1)));
  spec.key = "k";
  spec.delay_ns = UVS_HOUR(1);
  spec.keep_done_ns = 0;
  EQ(0, engine_put(f, &spec));
  EQ(0, engine_wait(f, &dead, "n/a", UVS_NEVER));
  EQ(0, engine_wait(f, &cancelled, "n/b", UVS_NEVER));
  EQ(0, engine_wait(f, &replaced, "n/c", UVS_NEVER));
  engine_advance(f, UVS_SEC(50));
  EQ(UVS_JOB_DEAD, dead.info.state);
  SAYS("given up by the handler", dead.error);
  EQ(0, engine_cancel(f, "n/b"));
  EQ(UVS_JOB_CANCELLED, cancelled.info.state);
  spec.id = "d";
  spec.key_policy = UVS_KEY_REPLACE;
  EQ(0, engine_put(f, &spec));
  EQ(0, replaced.status);
  EQ(UVS_JOB_REPLACED, replaced.info.state); /* no record is left of this one */
  SAYS("n/c", replaced.id);
  engine_close(f);
  PASS();
}

TEST a_wait_survives_failures_that_are_tried_again(void) {
  struct engine *f = engine_start();
  struct probe *p = engine_handle(f, "n", NULL);
  struct answer a;

  p->ret = UV_EIO;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  EQ(0, engine_wait(f, &a, "n/a", UVS_NEVER));
  engine_advance(f, UVS_SEC(3));
  EQ(0, a.calls);
  p->ret = 0;
  engine_advance(f, UVS_MIN(1));
  EQ(UVS_JOB_DONE, a.info.state);
  engine_close(f);
  PASS();
}

TEST a_wait_for_a_job_that_has_ended_ends_at_once_even_without_time(void) {
  struct engine *f = engine_start();
  struct answer a;

  engine_handle(f, "n", NULL)->act = set_result;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  EQ(0, engine_wait(f, &a, "n/a", 0));
  EQ(0, a.status);
  SAYS("42", a.text);
  EQ(0, engine_wait(f, &a, "n/none", UVS_SEC(5)));
  EQ(UV_ENOENT, a.status);
  engine_close(f);
  PASS();
}

TEST a_wait_times_out_at_its_instant(void) {
  struct engine *f = engine_start();
  struct answer none, some;

  EQ(0, engine_put_simple(f, "n", "a", UVS_HOUR(1)));
  EQ(0, engine_wait(f, &none, "n/a", 0));
  EQ(1, none.calls);
  EQ(UV_ETIMEDOUT, none.status);
  EQ(0, engine_wait(f, &none, "n/a", -1));
  EQ(UV_ETIMEDOUT, none.status);
  EQ(0, engine_wait(f, &some, "n/a", UVS_SEC(5)));
  engine_advance(f, UVS_SEC(5) - 1);
  EQ(0, some.calls);
  engine_advance(f, 1);
  EQ(1, some.calls);
  EQ(UV_ETIMEDOUT, some.status);
  engine_close(f);
  PASS();
}

TEST several_waits_for_one_job_all_end_with_it(void) {
  static struct answer a[5]; /* too large for the stack */
  struct engine *f = engine_start();

  engine_handle(f, "n", NULL)->act = set_result;
  EQ(0, engine_put_simple(f, "n", "a", UVS_SEC(5)));
  EQ(0, engine_put_simple(f, "n", "b", UVS_SEC(50)));
  for (int i = 0; i < 4; i++)
    EQ(0, engine_wait(f, &a[i], "n/a", i == 3 ? UVS_SEC(2) : UVS_NEVER));
  EQ(0, engine_wait(f, &a[4], "n/b", UVS_NEVER));
  engine_advance(f, UVS_SEC(5));
  for (int i = 0; i < 3; i++) {
    EQ(1, a[i].calls);
    SAYS("42", a[i].text);
  }
  EQ(UV_ETIMEDOUT, a[3].status);
  EQ(0, a[4].calls);
  engine_close(f);
  EQ(1, a[4].calls);
  PASS();
}

/* Q26 */
TEST a_wait_at_another_node_ends_when_that_node_looks(void) {
  struct engine *f = engine_start();
  struct answer done, dead;

  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  EQ(0, engine_put_simple(f, "n", "b", 0));
  f->to = engine_open_node(f);
  EQ(0, engine_wait(f, &done, "n/a", UVS_NEVER));
  EQ(0, engine_wait(f, &dead, "n/b", UVS_NEVER));
  EQ(0, uvs_job_result(f->runs[0].job, "42", 2));
  engine_finish(f, 0, 0);
  engine_finish(f, 1, UVS_JOB_GIVE_UP);
  if (!engine_is_server)
    EQ(0, done.calls + dead.calls);
  engine_sync(f);
  EQ(UVS_JOB_DONE, done.info.state);
  SAYS("42", done.text);
  EQ(UVS_JOB_DEAD, dead.info.state);
  engine_close(f);
  PASS();
}

/* Q6 */
TEST a_close_ends_waits_as_cancelled(void) {
  struct engine *f = engine_start();
  struct answer a;

  EQ(0, engine_put_simple(f, "n", "a", UVS_HOUR(1)));
  EQ(0, engine_wait(f, &a, "n/a", UVS_NEVER));
  engine_close_node(f, 0, 0);
  EQ(1, a.calls);
  EQ(UV_ECANCELED, a.status);
  engine_close(f);
  PASS();
}

SUITE(wait) {
  RUN_TEST(get_reads_a_job_in_each_of_its_states);
  RUN_TEST(a_wait_ends_when_its_job_is_done_and_has_the_result);
  RUN_TEST(a_wait_here_needs_no_record_of_the_end);
  RUN_TEST(a_wait_ends_with_dead_cancelled_and_replaced_jobs);
  RUN_TEST(a_wait_survives_failures_that_are_tried_again);
  RUN_TEST(a_wait_for_a_job_that_has_ended_ends_at_once_even_without_time);
  RUN_TEST(a_wait_times_out_at_its_instant);
  RUN_TEST(several_waits_for_one_job_all_end_with_it);
  RUN_TEST(a_wait_at_another_node_ends_when_that_node_looks);
  RUN_TEST(a_close_ends_waits_as_cancelled);
}

TEST_MAIN(ON_EVERY_STORE(RUN_SUITE(wait)));
