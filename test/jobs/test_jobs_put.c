/* SPDX-License-Identifier: MIT
 *
 * Jobs are put, read, moved and cancelled; they become due.
 */
#include <string.h>

#include "engine_fixture.h"

/* -------------------------------------------------------------------- put --- */

TEST a_put_answers_0_with_the_whole_id_and_the_job_is_there(void) {
  struct engine *f = engine_start();

  EQ(0, engine_put_simple(f, "n", "a", UVS_SEC(1)));
  SAYS("n/a", f->last.id);
  EQ(1, f->last.count);
  EQ(UVS_JOB_PENDING, engine_state(f, "n/a"));
  engine_close(f);
  PASS();
}

/* Q6. The store's thread cannot have seen the job before the put was sent, and the callback comes
 * only on the loop. */
TEST the_callback_of_a_put_comes_on_the_loop_and_not_inside_the_call(void) {
  struct engine *f = engine_start();
  uvs_job_spec_t spec = engine_spec("n", "a");
  struct answer a;

  answer_init(&a, f);
  EQ(0, uvs_jobs_put(f->nodes[0].jobs, &spec, answer_put, &a));
  EQ(0, a.calls);
  engine_quiesce(f);
  EQ(1, a.calls);
  EQ(0, a.status);
  engine_close(f);
  PASS();
}

TEST ids_that_are_made_are_unique_and_sort_by_the_time_of_put(void) {
  struct engine *f = engine_start();
  char last[UVS_JOB_ID_MAX + 1] = "";

  for (int i = 0; i < 100; i++) {
    EQ(0, engine_put_simple(f, "n", NULL, UVS_SEC(1)));
    EQ(2 + 26, strlen(f->last.id));
    ASSERT(strcmp(last, f->last.id) < 0);
    strcpy(last, f->last.id);
    if (i % 10 == 0)
      engine_advance(f, UVS_MS(1));
    if (i == 50)
      engine_step_wall(f, -UVS_HOUR(1));
  }
  engine_close(f);
  PASS();
}

/* Q4 */
TEST each_job_of_put_many_is_put_or_refused_by_itself(void) {
  struct engine *f = engine_start();
  uvs_job_spec_t specs[4];

  EQ(0, engine_put_simple(f, "n", "b", UVS_SEC(1)));
  specs[0] = engine_spec("n", "a");
  specs[1] = engine_spec("n", "b");
  specs[2] = engine_spec("n", "a");
  specs[3] = engine_spec("other", "a");
  answer_init(&f->last, f);
  EQ(0, uvs_jobs_put_many(f->nodes[0].jobs, specs, 4, answer_put, &f->last));
  engine_quiesce(f);
  EQ(1, f->last.calls);
  SAYS("n/a:0 n/b:1 n/a:1 other/a:0", f->last.text);
  engine_close(f);
  PASS();
}

TEST the_array_stride_of_put_many_is_spec_size(void) {
  struct engine *f = engine_start();
  struct {
    uvs_job_spec_t spec;
    char more[24]; /* of a newer header */
  } specs[2];

  memset(specs, 0xee, sizeof specs);
  for (int i = 0; i < 2; i++) {
    specs[i].spec = engine_spec("n", i == 0 ? "a" : "b");
    specs[i].spec.size = sizeof specs[i];
  }
  answer_init(&f->last, f);
  EQ(0, uvs_jobs_put_many(f->nodes[0].jobs, &specs[0].spec, 2, answer_put, &f->last));
  engine_quiesce(f);
  SAYS("n/a:0 n/b:0", f->last.text);
  engine_close(f);
  PASS();
}

/* Q3 */
TEST a_put_with_the_same_id_answers_exists_while_the_job_is_pending_running_and_done(void) {
  struct engine *f = engine_start();
  struct probe *p = engine_handle(f, "n", NULL);
  uvs_job_spec_t spec = engine_spec("n", "a");

  p->hold = true;
  spec.keep_done_ns = 0;
  spec.delay_ns = UVS_SEC(1);
  EQ(0, engine_put(f, &spec));
  EQ(UVS_JOB_EXISTS, engine_put(f, &spec));
  SAYS("n/a", f->last.id);
  engine_advance(f, UVS_SEC(1));
  SAYS("n/a", engine_ran(f));
  EQ(UVS_JOB_EXISTS, engine_put(f, &spec));
  engine_finish(f, 0, 0);
  EQ(UVS_JOB_EXISTS, engine_put(f, &spec));
  engine_advance(f, UVS_SEC(28)); /* 30 s after the put it may be forgotten */
  EQ(UVS_JOB_EXISTS, engine_put(f, &spec));
  engine_advance(f, UVS_SEC(20));
  SAYS("", engine_ran(f));
  engine_close(f);
  PASS();
}

/* Another node sees the job at once: the callback comes after the store has it. */
static void get_at_other_node(uvs_jobs_t *jobs, const uvs_put_result_t *results, size_t n,
                              void *arg) {
  struct answer *a = arg;

  (void)jobs;
  (void)n;
  a->count = 1;
  if (results[0].status == 0)
    uvs_jobs_get(a->f->nodes[1].jobs, results[0].id, answer_info, a);
}

TEST when_the_callback_of_a_put_comes_another_node_can_read_the_job(void) {
  struct engine *f = engine_start();
  uvs_job_spec_t spec = engine_spec("n", NULL);

  EQ(1, engine_open_node(f));
  answer_init(&f->last, f);
  EQ(0, uvs_jobs_put(f->nodes[0].jobs, &spec, get_at_other_node, &f->last));
  engine_quiesce(f);
  EQ(1, f->last.calls);
  EQ(0, f->last.status);
  EQ(UVS_JOB_PENDING, f->last.info.state);
  engine_close(f);
  PASS();
}

/* --------------------------------------------------------------- handlers --- */

static const char payload[] = {'p', '\0', 'q'}, meta[] = {'\0', 'm'};

static int look_at_job(struct probe *p, uvs_job_t *job) {
  bool *same = p->data;

  *same = job->arg == p && job->payload_size == sizeof payload &&
          memcmp(job->payload, payload, sizeof payload) == 0 && job->meta_size == sizeof meta &&
          memcmp(job->meta, meta, sizeof meta) == 0 && strcmp(job->name, "n") == 0 &&
          strcmp(job->queue, "q") == 0 && strcmp(job->key, "k") == 0 &&
          job->priority == UVS_PRIORITY_HIGH;
  return 0;
}

TEST the_handler_gets_everything_that_was_put(void) {
  struct engine *f = engine_start();
  uvs_job_spec_t spec = engine_spec("n", "a");
  uvs_job_handler_t h = engine_handler();
  int64_t put_ns = engine_wall(f);
  bool same = false;
  struct probe *p;

  h.queue = "q";
  p = engine_handle(f, "n", &h);
  p->data = &same;
  p->act = look_at_job;
  spec.queue = "q";
  spec.payload = payload;
  spec.payload_size = sizeof payload;
  spec.meta = meta;
  spec.meta_size = sizeof meta;
  spec.key = "k";
  spec.priority = UVS_PRIORITY_HIGH;
  spec.delay_ns = UVS_SEC(5);
  EQ(0, engine_put(f, &spec));
  engine_advance(f, UVS_SEC(7));
  SAYS("q/a", engine_ran(f));
  ASSERT(same);
  EQ(1, f->runs[0].attempt);
  EQ(0, f->runs[0].crashes);
  ASSERT(f->runs[0].fence > 0);
  EQ(put_ns, f->runs[0].put_ns);
  EQ(put_ns + UVS_SEC(5), f->runs[0].due_ns);
  engine_close(f);
  PASS();
}

static int look_at_nothing(struct probe *p, uvs_job_t *job) {
  bool *same = p->data;

  *same = job->key == NULL && job->payload_size == 0 && job->meta_size == 0 && job->priority == 0;
  return 0;
}

/* Q7 */
TEST the_handler_of_a_bare_job_gets_no_key_and_no_bytes(void) {
  struct engine *f = engine_start();
  struct probe *p = engine_handle(f, "n", NULL);
  bool same = false;

  p->data = &same;
  p->act = look_at_nothing;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  SAYS("n/a", engine_ran(f));
  ASSERT(same);
  engine_close(f);
  PASS();
}

/* ------------------------------------------------------------------ when --- */

/* Q2 */
TEST a_job_never_starts_before_its_delay(void) {
  struct engine *f = engine_start();
  int64_t start_ns = engine_wall(f);

  engine_handle(f, "n", NULL);
  EQ(0, engine_put_simple(f, "n", "a", UVS_MS(1500)));
  engine_advance(f, UVS_MS(1500) - 1);
  SAYS("", engine_ran(f));
  engine_advance(f, 1);
  SAYS("n/a", engine_ran(f));
  EQ(start_ns + UVS_MS(1500), f->runs[0].wall_ns);
  engine_close(f);
  PASS();
}

/* Q2 */
TEST a_job_at_an_instant_starts_then(void) {
  struct engine *f = engine_start();
  uvs_job_spec_t spec = engine_spec("n", "a");

  engine_handle(f, "n", NULL);
  spec.at_ns = engine_wall(f) + UVS_HOUR(48);
  EQ(0, engine_put(f, &spec));
  engine_advance(f, UVS_HOUR(48) - 1);
  SAYS("", engine_ran(f));
  engine_advance(f, UVS_SEC(1));
  SAYS("n/a", engine_ran(f));
  ASSERT(f->runs[0].wall_ns >= spec.at_ns && f->runs[0].wall_ns < spec.at_ns + 1000);
  EQ(spec.at_ns, f->runs[0].due_ns);
  engine_close(f);
  PASS();
}

/* Q2 */
TEST an_instant_between_two_microseconds_is_rounded_up(void) {
  struct engine *f = engine_start();
  uvs_job_spec_t spec = engine_spec("n", "a");

  engine_handle(f, "n", NULL);
  spec.at_ns = engine_wall(f) + 1001;
  EQ(0, engine_put(f, &spec));
  engine_advance(f, 1999);
  SAYS("", engine_ran(f));
  engine_advance(f, 1);
  SAYS("n/a", engine_ran(f));
  engine_close(f);
  PASS();
}

TEST a_job_that_is_due_in_the_past_starts_at_once(void) {
  struct engine *f = engine_start();
  uvs_job_spec_t spec = engine_spec("n", "a");

  engine_handle(f, "n", NULL);
  spec.at_ns = 1;
  EQ(0, engine_put(f, &spec));
  SAYS("n/a", engine_ran(f));
  EQ(0, engine_put_simple(f, "n", "b", -UVS_SEC(5)));
  SAYS("n/b", engine_ran(f));
  engine_close(f);
  PASS();
}

TEST jobs_that_were_put_before_the_handler_came_run_then(void) {
  struct engine *f = engine_start();

  EQ(0, engine_put_simple(f, "n", "a", 0));
  EQ(0, engine_put_simple(f, "n", "b", UVS_SEC(1)));
  engine_handle(f, "n", NULL);
  SAYS("n/a", engine_ran(f));
  engine_advance(f, UVS_SEC(1));
  SAYS("n/b", engine_ran(f));
  engine_close(f);
  PASS();
}

/* Q10 */
TEST jobs_start_by_priority_then_due_time_then_time_of_put(void) {
  struct engine *f = engine_start();
  static const struct {
    const char *id;
    int priority;
    int64_t delay_ns;
  } jobs[] = {{"low-1", -1, UVS_SEC(1)},    {"normal-2", 0, UVS_SEC(2)},
              {"normal-1b", 0, UVS_SEC(1)}, {"high-3", 1, UVS_SEC(3)},
              {"normal-1c", 0, UVS_SEC(1)}, {"normal-1a", 0, UVS_MS(999)},
              {"high-2", 1, UVS_SEC(2)}};
  uvs_job_handler_t h = engine_handler();

  for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
    uvs_job_spec_t spec = engine_spec("n", jobs[i].id);

    spec.priority = jobs[i].priority;
    spec.delay_ns = jobs[i].delay_ns;
    EQ(0, engine_put(f, &spec));
  }
  engine_advance(f, UVS_SEC(4));
  h.concurrency = 1;
  engine_handle(f, "n", &h);
  SAYS("n/high-2 n/high-3 n/normal-1a n/normal-1b n/normal-1c n/normal-2 n/low-1", engine_ran(f));
  engine_close(f);
  PASS();
}

/* ------------------------------------------------------------ act on a job --- */

/* Q32 */
TEST a_moved_job_starts_at_its_new_time(void) {
  struct engine *f = engine_start();

  engine_handle(f, "n", NULL);
  EQ(0, engine_put_simple(f, "n", "later", UVS_SEC(1)));
  EQ(0, engine_put_simple(f, "n", "sooner", UVS_HOUR(1)));
  EQ(0, engine_move(f, "n/later", UVS_SEC(10), 0));
  EQ(0, engine_move(f, "n/sooner", 0, engine_wall(f) + UVS_SEC(5)));
  engine_advance(f, UVS_SEC(5) - 1);
  SAYS("", engine_ran(f));
  engine_advance(f, 1);
  SAYS("n/sooner", engine_ran(f));
  engine_advance(f, UVS_SEC(5));
  SAYS("n/later", engine_ran(f));
  EQ(0, engine_put_simple(f, "n", "now", UVS_HOUR(1)));
  EQ(0, engine_move(f, "n/now", 0, 0));
  SAYS("n/now", engine_ran(f)); /* although the clock stands still */
  EQ(UV_ENOENT, engine_move(f, "n/later", 0, 0));
  EQ(UV_ENOENT, engine_move(f, "n/none", 0, 0));
  engine_close(f);
  PASS();
}

/* Q32 */
TEST a_running_job_cannot_be_moved(void) {
  struct engine *f = engine_start();

  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  EQ(UVS_JOB_RUNNING, engine_move(f, "n/a", UVS_SEC(1), 0));
  EQ(UVS_JOB_RUNNING, engine_state(f, "n/a"));
  engine_close(f);
  PASS();
}

/* Q31 */
TEST a_cancelled_pending_job_never_runs(void) {
  struct engine *f = engine_start();

  engine_handle(f, "n", NULL);
  EQ(0, engine_put_simple(f, "n", "a", UVS_SEC(1)));
  EQ(0, engine_cancel(f, "n/a"));
  EQ(UVS_JOB_CANCELLED, engine_state(f, "n/a"));
  SAYS("cancelled n/a", engine_events(f));
  EQ(UV_ENOENT, engine_cancel(f, "n/a"));
  EQ(UV_ENOENT, engine_cancel(f, "n/none"));
  engine_advance(f, UVS_SEC(20));
  SAYS("", engine_ran(f));
  EQ(UVS_JOB_EXISTS, engine_put_simple(f, "n", "a", 0));
  engine_close(f);
  PASS();
}

/* Q31 */
TEST the_handler_of_a_cancelled_job_is_asked_to_stop_and_the_job_does_not_run_again(void) {
  struct engine *f = engine_start();

  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  EQ(0, uvs_job_cancelled(f->runs[0].job));
  EQ(UVS_JOB_RUNNING, engine_cancel(f, "n/a"));
  EQ(1, uvs_job_cancelled(f->runs[0].job));
  EQ(0, uvs_job_lost(f->runs[0].job));
  EQ(UVS_JOB_RUNNING, engine_state(f, "n/a"));
  EQ(1, f->last.info.cancelling);
  engine_finish(f, 0, UV_ECANCELED);
  EQ(UVS_JOB_CANCELLED, engine_state(f, "n/a"));
  SAYS("cancelled n/a", engine_events(f));
  engine_advance(f, UVS_HOUR(2));
  EQ(1, f->n_runs);
  EQ(0, engine_stats(f));
  EQ(1, f->last.stats.cancelled);
  EQ(0, f->last.stats.retried);
  engine_close(f);
  PASS();
}

/* Q31 */
TEST a_cancelled_job_whose_run_succeeds_is_done(void) {
  struct engine *f = engine_start();

  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  EQ(UVS_JOB_RUNNING, engine_cancel(f, "n/a"));
  engine_finish(f, 0, 0);
  EQ(UVS_JOB_DONE, engine_state(f, "n/a"));
  engine_close(f);
  PASS();
}

/* Q31 */
TEST a_cancel_at_another_node_reaches_the_handler_within_a_third_of_the_lease(void) {
  struct engine *f = engine_start();

  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  f->to = engine_open_node(f);
  EQ(UVS_JOB_RUNNING, engine_cancel(f, "n/a"));
  EQ(0, uvs_job_cancelled(f->runs[0].job));
  engine_advance(f, UVS_SEC(10));
  EQ(1, uvs_job_cancelled(f->runs[0].job));
  engine_finish(f, 0, UV_ECANCELED);
  EQ(UVS_JOB_CANCELLED, engine_state(f, "n/a"));
  engine_close(f);
  PASS();
}

/* The event says so even if it is the first thing that happens in the store. */
TEST a_cancel_right_after_the_open_is_told(void) {
  struct engine *f = engine_new();
  uvs_job_spec_t spec = engine_spec("n", "a");

  engine_open(f);
  for (int i = 1; i < 20; i++) {
    char id[20];

    snprintf(id, sizeof id, "n/%d", i);
    spec.id = id + 2;
    f->options.arg = &f->nodes[1];
    f->nodes[1] = (struct node){.f = f, .number = 1};
    EQ(0, uvs_jobs_open(f->s, &f->options, &f->nodes[1].jobs, NULL, 0));
    f->n_nodes = 2;
    EQ(0, uvs_jobs_put(f->nodes[1].jobs, &spec, NULL, NULL));
    EQ(0, uvs_jobs_cancel(f->nodes[1].jobs, id, NULL, NULL));
    engine_quiesce(f);
    ASSERT(strstr(engine_events(f), "1:cancelled n/") != NULL);
    engine_close_node(f, 1, 0);
    engine_sync(f);
    engine_events(f);
  }
  engine_close(f);
  PASS();
}

SUITE(put) {
  RUN_TEST(a_put_answers_0_with_the_whole_id_and_the_job_is_there);
  RUN_TEST(the_callback_of_a_put_comes_on_the_loop_and_not_inside_the_call);
  RUN_TEST(ids_that_are_made_are_unique_and_sort_by_the_time_of_put);
  RUN_TEST(each_job_of_put_many_is_put_or_refused_by_itself);
  RUN_TEST(the_array_stride_of_put_many_is_spec_size);
  RUN_TEST(a_put_with_the_same_id_answers_exists_while_the_job_is_pending_running_and_done);
  RUN_TEST(when_the_callback_of_a_put_comes_another_node_can_read_the_job);
  RUN_TEST(the_handler_gets_everything_that_was_put);
  RUN_TEST(the_handler_of_a_bare_job_gets_no_key_and_no_bytes);
  RUN_TEST(a_job_never_starts_before_its_delay);
  RUN_TEST(a_job_at_an_instant_starts_then);
  RUN_TEST(an_instant_between_two_microseconds_is_rounded_up);
  RUN_TEST(a_job_that_is_due_in_the_past_starts_at_once);
  RUN_TEST(jobs_that_were_put_before_the_handler_came_run_then);
  RUN_TEST(jobs_start_by_priority_then_due_time_then_time_of_put);
  RUN_TEST(a_moved_job_starts_at_its_new_time);
  RUN_TEST(a_running_job_cannot_be_moved);
  RUN_TEST(a_cancelled_pending_job_never_runs);
  RUN_TEST(the_handler_of_a_cancelled_job_is_asked_to_stop_and_the_job_does_not_run_again);
  RUN_TEST(a_cancelled_job_whose_run_succeeds_is_done);
  RUN_TEST(a_cancel_at_another_node_reaches_the_handler_within_a_third_of_the_lease);
  RUN_TEST(a_cancel_right_after_the_open_is_told);
}

TEST_MAIN(ON_EVERY_STORE(RUN_SUITE(put)));
