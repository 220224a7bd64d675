/* SPDX-License-Identifier: MIT
 *
 * uvsched/jobs_admin.h: lists, dead letters, queues, statistics.
 */
#include <string.h>

#include "engine_fixture.h"

/* ------------------------------------------------------------------- list --- */

/* Q58 */
TEST a_list_comes_in_pages_by_time_of_put(void) {
  struct engine *f = engine_start();
  int64_t next = 0;
  char all[200] = "";
  int pages = 0;

  for (int i = 0; i < 7; i++) {
    char id[2] = {(char)('g' - i), '\0'};

    EQ(0, engine_put_simple(f, i % 2 == 0 ? "n" : "m", id, UVS_SEC(10 - i)));
  }
  do {
    EQ(0, engine_list(f, NULL, next, 3));
    ASSERT(f->last.count <= 3);
    strcat(strcat(all, f->last.text), " ");
    next = f->last.next;
  } while (next != 0 && ++pages < 10);
  SAYS("n/g m/f n/e m/d n/c m/b n/a ", all);
  engine_close(f);
  PASS();
}

TEST a_list_has_only_jobs_that_match_the_filter(void) {
  struct engine *f = engine_start();
  uvs_job_filter_t filter;
  struct probe *p = engine_handle(f, "n", NULL);

  p->ret = UVS_JOB_GIVE_UP;
  EQ(0, engine_put_simple(f, "n", "dead", 0));
  p->ret = 0;
  EQ(0, engine_put_simple(f, "n", "done", 0));
  p->hold = true;
  EQ(0, engine_put_simple(f, "n", "running", 0));
  EQ(0, engine_put_simple(f, "n", "pending", UVS_HOUR(1)));
  EQ(0, engine_put_simple(f, "m", "overdue", 0));
  uvs_job_filter_init(&filter);
  EQ(0, engine_list(f, &filter, 0, 100));
  SAYS("n/running n/pending m/overdue", f->last.text);
  filter.state = UVS_JOB_PENDING;
  EQ(0, engine_list(f, &filter, 0, 100));
  SAYS("n/pending m/overdue", f->last.text);
  filter.overdue = 1;
  EQ(0, engine_list(f, &filter, 0, 100));
  SAYS("m/overdue", f->last.text);
  filter.overdue = 0;
  filter.queue = "n";
  EQ(0, engine_list(f, &filter, 0, 100));
  SAYS("n/pending", f->last.text);
  filter.state = UVS_JOB_DEAD;
  EQ(0, engine_list(f, &filter, 0, 100));
  SAYS("n/dead", f->last.text);
  filter.state = UVS_JOB_DONE;
  EQ(0, engine_list(f, &filter, 0, 100));
  SAYS("n/done", f->last.text);
  filter.state = UVS_JOB_RUNNING;
  filter.name = "n";
  filter.id = "n/running";
  EQ(0, engine_list(f, &filter, 0, 100));
  SAYS("n/running", f->last.text);
  filter.name = "m";
  EQ(0, engine_list(f, &filter, 0, 100));
  SAYS("", f->last.text);
  EQ(0, f->last.next);
  engine_close(f);
  PASS();
}

/* ------------------------------------------------------------ dead letters --- */

static void kill_jobs(struct engine *f, struct probe *p, int n) {
  p->ret = UVS_JOB_GIVE_UP;
  for (int i = 0; i < n; i++) {
    char id[20];

    snprintf(id, sizeof id, "%d", i);
    engine_put_simple(f, "n", id, 0);
  }
  p->ret = 0;
  f->n_told = f->n_runs;
  engine_events(f);
}

/* Q25 */
TEST a_redriven_job_runs_at_once_as_if_new(void) {
  struct engine *f = engine_start();
  struct probe *p = engine_handle(f, "n", NULL);
  uvs_job_filter_t filter;

  kill_jobs(f, p, 3);
  uvs_job_filter_init(&filter);
  filter.id = "n/1";
  EQ(0, engine_redrive(f, &filter));
  EQ(1, f->last.count);
  SAYS("n/1", engine_ran(f));
  EQ(1, f->runs[3].attempt);
  EQ(UVS_JOB_DONE, engine_state(f, "n/1"));
  EQ(UV_ENOENT, engine_redrive(f, &filter));
  EQ(0, engine_redrive(f, NULL));
  EQ(2, f->last.count);
  SAYS("n/0 n/2", engine_ran(f));
  engine_close(f);
  PASS();
}

/* Q30 */
TEST a_letter_whose_key_is_in_use_stays(void) {
  struct engine *f = engine_start();
  struct probe *p = engine_handle(f, "n", NULL);
  uvs_job_spec_t spec = engine_spec("n", "a");
  uvs_job_filter_t filter;

  p->ret = UVS_JOB_GIVE_UP;
  spec.key = "k";
  EQ(0, engine_put(f, &spec));
  spec.id = "b";
  spec.delay_ns = UVS_HOUR(1);
  EQ(0, engine_put(f, &spec));
  uvs_job_filter_init(&filter);
  filter.id = "n/a";
  EQ(UV_EEXIST, engine_redrive(f, &filter));
  EQ(UVS_JOB_DEAD, engine_state(f, "n/a"));
  EQ(0, engine_redrive(f, NULL));
  EQ(0, f->last.count);
  engine_close(f);
  PASS();
}

/* Q25. More than one batch of the engine, 1000. */
TEST redrive_and_purge_go_through_all_letters(void) {
  struct engine *f = engine_start();
  struct probe *p = engine_handle(f, "n", NULL);

  kill_jobs(f, p, 1200);
  f->probes[0].hold = true;
  EQ(0, engine_redrive(f, NULL));
  EQ(1200, f->last.count);
  EQ(0, engine_stats(f));
  EQ(0, f->last.stats.dead);
  EQ(100, f->last.stats.running);
  for (int i = 1200; i < f->n_runs; i++)
    engine_finish(f, i, UVS_JOB_GIVE_UP);
  EQ(0, engine_stats(f));
  EQ(1200, f->last.stats.dead);
  EQ(0, engine_purge(f, NULL));
  EQ(1200, f->last.count);
  EQ(0, engine_stats(f));
  EQ(0, f->last.stats.dead);
  EQ(0, engine_purge(f, NULL));
  EQ(0, f->last.count);
  engine_close(f);
  PASS();
}

TEST records_of_ends_can_be_purged(void) {
  struct engine *f = engine_start();
  uvs_job_filter_t filter;

  engine_handle(f, "n", NULL);
  EQ(0, engine_put_simple(f, "n", "a", 0));
  engine_advance(f, UVS_MIN(1));
  EQ(UVS_JOB_DONE, engine_state(f, "n/a"));
  uvs_job_filter_init(&filter);
  filter.state = UVS_JOB_DONE;
  EQ(0, engine_purge(f, &filter));
  EQ(1, f->last.count);
  EQ(UV_ENOENT, engine_get(f, "n/a"));
  engine_close(f);
  PASS();
}

/* Q25 */
TEST old_and_surplus_dead_letters_are_dropped_with_an_event(void) {
  struct engine *f = engine_new();

  f->options.max_dead = 2;
  f->options.dead_age_ns = UVS_DAY(10);
  engine_open(f);
  kill_jobs(f, engine_handle(f, "n", NULL), 5);
  engine_advance(f, UVS_MIN(2));
  EQ(0, engine_stats(f));
  EQ(2, f->last.stats.dead);
  EQ(UVS_JOB_DEAD, engine_state(f, "n/4"));
  EQ(UV_ENOENT, engine_get(f, "n/2"));
  SAYS("dead dropped removed: 3", engine_events(f));
  engine_advance(f, UVS_DAY(10));
  EQ(0, engine_stats(f));
  EQ(0, f->last.stats.dead);
  SAYS("dead dropped removed: 2", engine_events(f));
  engine_close(f);
  PASS();
}

/* Q3 Q26 */
TEST surplus_records_of_ends_are_dropped_oldest_first(void) {
  struct engine *f = engine_new();

  f->options.max_done = 3;
  engine_open(f);
  engine_handle(f, "n", NULL);
  for (int i = 0; i < 5; i++) {
    char id[2] = {(char)('a' + i), '\0'};

    EQ(0, engine_put_simple(f, "n", id, 0));
    engine_advance(f, UVS_SEC(1));
  }
  engine_advance(f, UVS_MIN(2));
  EQ(UV_ENOENT, engine_get(f, "n/b"));
  EQ(UVS_JOB_DONE, engine_state(f, "n/c"));
  EQ(0, engine_stats(f));
  EQ(3, f->last.stats.kept);
  engine_close(f);
  PASS();
}

/* ------------------------------------------------------------------ queues --- */

/* Q41 */
TEST a_paused_queue_starts_nothing_until_it_is_resumed(void) {
  struct engine *f = engine_start();
  uvs_job_queue_t q = engine_queue("n");

  engine_handle(f, "n", NULL);
  engine_handle(f, "m", NULL);
  q.paused = 1;
  EQ(0, engine_set_queue(f, &q));
  SAYS("queue changed n", engine_events(f));
  EQ(0, engine_put_simple(f, "n", "a", 0));
  EQ(0, engine_put_simple(f, "m", "a", 0));
  engine_advance(f, UVS_HOUR(1));
  SAYS("m/a", engine_ran(f));
  q.paused = 0;
  EQ(0, engine_set_queue(f, &q));
  SAYS("n/a", engine_ran(f));
  engine_close(f);
  PASS();
}

/* Q39 Q41 */
TEST a_pause_holds_for_all_nodes_and_after_a_restart(void) {
  struct engine *f = engine_start();
  uvs_job_queue_t q = engine_queue("n");

  engine_open_node(f);
  q.paused = 1;
  EQ(0, engine_set_queue(f, &q));
  f->to = 1;
  engine_handle(f, "n", NULL);
  EQ(0, engine_put_simple(f, "n", "a", 0));
  SAYS("", engine_ran(f));
  engine_reopen(f, 0);
  f->to = 0;
  engine_handle(f, "n", NULL);
  engine_sync(f);
  SAYS("", engine_ran(f));
  q.paused = 0;
  EQ(0, engine_set_queue(f, &q));
  SAYS("n/a", engine_ran(f));
  engine_sync(f);
  SAYS("", engine_ran(f));
  engine_close(f);
  PASS();
}

/* Q39 */
TEST the_concurrency_of_a_queue_bounds_all_nodes_together(void) {
  struct engine *f = engine_start();
  uvs_job_queue_t q = engine_queue("n");

  engine_open_node(f);
  q.concurrency = 3;
  EQ(0, engine_set_queue(f, &q));
  for (f->to = 0; f->to < 2; f->to++)
    engine_handle(f, "n", NULL)->hold = true;
  f->to = 0;
  for (int i = 0; i < 8; i++)
    EQ(0, engine_put_simple(f, "n", NULL, 0));
  engine_sync(f);
  EQ(3, f->n_runs);
  engine_finish(f, 0, 0);
  engine_sync(f);
  EQ(4, f->n_runs);
  q.concurrency = 0;
  EQ(0, engine_set_queue(f, &q));
  engine_sync(f);
  EQ(8, f->n_runs);
  engine_close(f);
  PASS();
}

/* Q40 */
TEST the_rate_of_a_queue_bounds_all_nodes_together(void) {
  struct engine *f = engine_start();
  uvs_job_queue_t q = engine_queue("n");
  int64_t start_ns = engine_wall(f);

  engine_open_node(f);
  q.rate = 5;
  q.rate_ns = UVS_SEC(10);
  EQ(0, engine_set_queue(f, &q));
  for (f->to = 0; f->to < 2; f->to++)
    engine_handle(f, "n", NULL);
  f->to = 0;
  for (int i = 0; i < 23; i++)
    EQ(0, engine_put_simple(f, "n", NULL, 0));
  engine_advance(f, UVS_SEC(45));
  EQ(23, f->n_runs);
  for (int i = 0; i < 23; i++)
    EQ(i / 5 * 10, (f->runs[i].wall_ns - start_ns) / UVS_SEC(1));
  engine_close(f);
  PASS();
}

/* Q40 */
TEST the_catch_up_rate_bounds_only_what_is_overdue_by_more_than_a_minute(void) {
  struct engine *f = engine_start();
  uvs_job_queue_t q = engine_queue("n");
  int64_t start_ns;

  q.catch_up_rate = 2;
  EQ(0, engine_set_queue(f, &q));
  for (int i = 0; i < 6; i++)
    EQ(0, engine_put_simple(f, "n", NULL, 0));
  engine_advance(f, UVS_SEC(61));
  for (int i = 0; i < 6; i++)
    EQ(0, engine_put_simple(f, "n", NULL, 0));
  start_ns = engine_wall(f);
  engine_handle(f, "n", NULL);
  EQ(8, f->n_runs);
  engine_advance(f, UVS_SEC(3));
  EQ(12, f->n_runs);
  EQ(1, (f->runs[9].wall_ns - start_ns) / UVS_SEC(1));
  EQ(2, (f->runs[11].wall_ns - start_ns) / UVS_SEC(1));
  engine_close(f);
  PASS();
}

/* ------------------------------------------------------------------- stats --- */

static const uvs_queue_stats_t *queue_of(const struct answer *a, size_t i) {
  return &a->queues[i];
}

TEST statistics_count_the_store_and_what_this_process_did(void) {
  struct engine *f = engine_start();
  uvs_job_queue_t q = engine_queue("zz");
  uvs_job_cron_t c = engine_cron_spec("c", "0 0 1 1 *");

  engine_handle(f, "n", NULL);
  q.rate = 7;
  EQ(0, engine_set_queue(f, &q));
  EQ(0, engine_cron(f, &c));
  EQ(0, engine_put_simple(f, "m", "late", 0));
  engine_advance(f, UVS_SEC(5));
  EQ(0, engine_put_simple(f, "m", "b", UVS_SEC(5)));
  EQ(UVS_JOB_EXISTS, engine_put_simple(f, "m", "b", UVS_SEC(5)));
  EQ(0, engine_put_simple(f, "n", "a", 0));
  EQ(0, engine_stats(f));
  SAYS("m zz", f->last.text); /* the ticks of crons are no queue */
  EQ(2, f->last.stats.pending);
  EQ(1, f->last.stats.overdue);
  EQ(UVS_SEC(5), f->last.stats.oldest_overdue_ns);
  EQ(2, queue_of(&f->last, 0)->pending);
  EQ(1, queue_of(&f->last, 0)->overdue);
  EQ(7, queue_of(&f->last, 1)->rate);
  EQ(UVS_SEC(1), queue_of(&f->last, 1)->rate_ns);
  EQ(3, f->last.stats.put);
  EQ(1, f->last.stats.exists);
  EQ(1, f->last.stats.started);
  EQ(1, f->last.stats.done);
  EQ(1, f->last.stats.late.count);
  EQ(1, f->last.stats.run.count);
  ASSERT(f->last.stats.transactions > 4);
  EQ(0, f->last.stats.store_failures);
  engine_close(f);
  PASS();
}

struct text {
  char *bytes;
  size_t n;
};

static int collect(const char *data, size_t size, void *arg) {
  struct text *t = arg;

  t->bytes = realloc(t->bytes, t->n + size + 1);
  memcpy(t->bytes + t->n, data, size);
  t->n += size;
  t->bytes[t->n] = '\0';
  return 0;
}

/* A line of the text format of Prometheus: a comment that is HELP or TYPE, or a sample of a metric
 * whose TYPE came before, with a number as value. */
static bool is_line_good(char *line, char *family) {
  char kind[8], name[100], word[200], *value, *end;

  if (sscanf(line, "# %7s %99s %199s", kind, name, word) == 3) {
    if (strcmp(kind, "TYPE") == 0)
      strcpy(family, name);
    return strncmp(name, "uvsched_jobs_", 13) == 0 &&
           (strcmp(kind, "HELP") == 0 || strcmp(word, "gauge") == 0 ||
            strcmp(word, "counter") == 0 || strcmp(word, "histogram") == 0);
  }
  value = strrchr(line, ' ');
  if (value == NULL || strncmp(line, family, strlen(family)) != 0)
    return false;
  strtod(value + 1, &end);
  return *end == '\0' && end != value + 1;
}

TEST the_text_for_prometheus_is_well_formed_and_has_the_numbers(void) {
  struct engine *f = engine_start();
  struct text t = {NULL, 0};
  char family[200] = "", *line;
  int lines = 0;
  uvs_queue_stats_t queues[2];

  engine_handle(f, "n", NULL);
  EQ(0, engine_put_simple(f, "n", "a", 0));
  EQ(0, engine_put_simple(f, "m", "b", UVS_HOUR(1)));
  EQ(0, engine_stats(f));
  EQ(1, f->last.stats.n_queues);
  queues[0] = f->last.queues[0];
  queues[0].queue = "m";
  f->last.stats.queues = queues;
  EQ(0, uvs_jobs_stats_write(&f->last.stats, UVS_FORMAT_PROMETHEUS, collect, &t));
  ASSERT(strstr(t.bytes, "uvsched_jobs_jobs{queue=\"m\",state=\"pending\"} 1\n") != NULL);
  ASSERT(strstr(t.bytes, "\nuvsched_jobs_put_total 2\n") != NULL);
  ASSERT(strstr(t.bytes, "\nuvsched_jobs_done_total 1\n") != NULL);
  ASSERT(strstr(t.bytes, "\nuvsched_jobs_run_seconds_bucket{le=\"+Inf\"} 1\n") != NULL);
  ASSERT(strstr(t.bytes, "\nuvsched_jobs_run_seconds_count 1\n") != NULL);
  for (line = strtok(t.bytes, "\n"); line != NULL; line = strtok(NULL, "\n"), lines++)
    if (!is_line_good(line, family))
      FAILm(line);
  ASSERT(lines > 100);
  t.n = 0;
  EQ(0, uvs_jobs_stats_write(&f->last.stats, UVS_FORMAT_TEXT, collect, &t));
  ASSERT(strstr(t.bytes, "oldest overdue") != NULL);
  EQ(UV_EINVAL, uvs_jobs_stats_write(&f->last.stats, 99, collect, &t));
  EQ(UV_EINVAL, uvs_jobs_stats_write(NULL, UVS_FORMAT_TEXT, collect, &t));
  free(t.bytes);
  engine_close(f);
  PASS();
}

/* Lists of a server have no order. */
SUITE(order) {
  RUN_TEST(a_list_comes_in_pages_by_time_of_put);
}

SUITE(admin) {
  RUN_TEST(a_list_has_only_jobs_that_match_the_filter);
  RUN_TEST(a_redriven_job_runs_at_once_as_if_new);
  RUN_TEST(a_letter_whose_key_is_in_use_stays);
  RUN_TEST(redrive_and_purge_go_through_all_letters);
  RUN_TEST(records_of_ends_can_be_purged);
  RUN_TEST(old_and_surplus_dead_letters_are_dropped_with_an_event);
  RUN_TEST(surplus_records_of_ends_are_dropped_oldest_first);
  RUN_TEST(a_paused_queue_starts_nothing_until_it_is_resumed);
  RUN_TEST(a_pause_holds_for_all_nodes_and_after_a_restart);
  RUN_TEST(the_concurrency_of_a_queue_bounds_all_nodes_together);
  RUN_TEST(the_rate_of_a_queue_bounds_all_nodes_together);
  RUN_TEST(the_catch_up_rate_bounds_only_what_is_overdue_by_more_than_a_minute);
  RUN_TEST(statistics_count_the_store_and_what_this_process_did);
  RUN_TEST(the_text_for_prometheus_is_well_formed_and_has_the_numbers);
}

TEST_MAIN(ON_EVERY_STORE(RUN_SUITE(admin)); ON_EVERY_LOCAL_STORE(RUN_SUITE(order)));
