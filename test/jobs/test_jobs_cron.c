/* SPDX-License-Identifier: MIT
 *
 * Crons: each occurrence becomes one job.
 */
#include <string.h>

#include <uvsched/calendar.h>

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

TEST a_zone_counts(void) {
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

TEST every_counts_from_the_definition(void) {
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

/* Nobody is there for 5.5 h: 23:00, 00:00 to 03:00 pass; it is 03:43:20. */
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
TEST all_misfires_get_a_job_up_to_the_bound_newest_first_to_keep(void) {
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

/* ------------------------------------------------------------ the long day --- */

#define DAY_START_NS UVS_SEC(INT64_C(1711753200)) /* 2024-03-30 00:00 in Berlin */
#define HOURS 50                                  /* over the change of 2024-03-31 */
#define CANCELLED_MAX 400

struct day {
  struct engine *f;
  uint64_t random;
  char cancelled[CANCELLED_MAX][UVS_JOB_ID_MAX + 1];
  int n_cancelled;
  uint64_t revision; /* that is stored */
};

static void define(struct day *d, int node, uint64_t revision) {
  uvs_job_cron_t c = engine_cron_spec("c", revision == 1 ? "*/15 * * * *" : "*/30 1-4 * * *");

  c.revision = revision;
  c.zone = "Europe/Berlin";
  c.misfire = UVS_MISFIRE_ALL;
  c.max_missed = 1000;
  d->f->to = node;
  engine_handle(d->f, "n", NULL);
  engine_cron(d->f, &c);
}

/* Node 0 knows revision 1 only, node 1 has 2. */
static void restart(struct day *d, int node) {
  engine_reopen(d->f, node);
  d->f->n_probes = 4 * node; /* those of the node are not used any more */
  define(d, node, node == 1 && d->revision == 2 ? 2 : 1);
}

/* Cancels one that is pending, while the queue is paused. */
static void cancel_one(struct day *d) {
  uvs_job_filter_t filter;
  char *blank;

  uvs_job_filter_init(&filter);
  filter.queue = "n";
  engine_list(d->f, &filter, 0, 1);
  if (d->f->last.count == 0 || d->n_cancelled == CANCELLED_MAX)
    return;
  blank = strchr(d->f->last.text, ' ');
  if (blank != NULL)
    *blank = '\0';
  strcpy(d->cancelled[d->n_cancelled], d->f->last.text);
  if (engine_cancel(d->f, d->cancelled[d->n_cancelled]) == 0)
    d->n_cancelled++;
}

static void do_something(struct day *d) {
  uvs_job_queue_t q = engine_queue("n");
  int node = (int)test_random_below(&d->random, 2);

  d->f->to = d->f->nodes[node].stopped ? 1 - node : node;
  switch (test_random_below(&d->random, 6)) {
  case 0:
    restart(d, node);
    break;
  case 1:
    q.paused = (int)test_random_below(&d->random, 2);
    engine_set_queue(d->f, &q);
    break;
  case 2:
    cancel_one(d);
    break;
  case 3:
    if (d->f->nodes[node].stopped)
      engine_go_on(d->f, node);
    else if (!d->f->nodes[1 - node].stopped)
      engine_stop(d->f, node);
    break;
  default:
    engine_jump(d->f, UVS_SEC((int64_t)test_random_below(&d->random, 2400)));
  }
}

/* How often the id has run or was cancelled. */
static int times(const struct day *d, const char *id) {
  int n = 0;

  for (int i = 0; i < d->f->n_runs; i++)
    n += strcmp(d->f->runs[i].id, id) == 0;
  for (int i = 0; i < d->n_cancelled; i++)
    n += strcmp(d->cancelled[i], id) == 0;
  return n;
}

/* All occurrences after from_ns until until_ns were dealt with once. Returns how many; -1. */
static int check(const struct day *d, const char *expression, int64_t from_ns, int64_t until_ns) {
  uvs_calendar_t *c;
  int n = 0;

  if (uvs_calendar_parse(expression, "Europe/Berlin", NULL, &c, NULL) != 0)
    return -1;
  for (int64_t ns = uvs_calendar_next(c, from_ns); ns <= until_ns && n >= 0;
       ns = uvs_calendar_next(c, ns)) {
    time_t seconds = (time_t)(ns / UVS_SEC(1));
    char id[100];
    struct tm t;

    strftime(id, sizeof id, "n/c@%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &t));
    n = times(d, id) == 1 ? n + 1 : -1;
    if (n < 0)
      printf("%s: %d times\n", id, times(d, id));
  }
  uvs_calendar_release(c);
  return n;
}

/* Q33 Q35. Two nodes, two revisions, restarts, pauses, jumps, and occurrences cancelled by hand. */
TEST each_occurrence_is_one_job_on_two_nodes_over_a_day_with_a_change_of_the_clocks(void) {
  struct engine *f = engine_start();
  struct day d = {.f = f, .random = test_seed, .revision = 1};
  uvs_job_queue_t q = engine_queue("n");
  int64_t end_ns = DAY_START_NS + UVS_HOUR(HOURS), changed_ns = 0;
  int first, second;

  engine_step_wall(f, DAY_START_NS - engine_wall(f));
  engine_open_node(f);
  define(&d, 0, 1);
  f->n_probes = 4;
  define(&d, 1, 1);
  while (engine_wall(f) < end_ns) {
    if (changed_ns == 0 && engine_wall(f) > DAY_START_NS + UVS_HOUR(HOURS / 3)) {
      d.revision = 2;
      changed_ns = engine_wall(f);
      if (f->nodes[1].stopped)
        engine_go_on(f, 1);
      engine_sync(f); /* what has passed is of revision 1 */
      restart(&d, 1);
    }
    do_something(&d);
  }
  for (int i = 0; i < 2; i++)
    if (f->nodes[i].stopped)
      engine_go_on(f, i);
  q.paused = 0;
  engine_set_queue(f, &q);
  engine_advance(f, UVS_MIN(5));
  first = check(&d, "*/15 * * * *", DAY_START_NS, changed_ns);
  second = check(&d, "*/30 1-4 * * *", changed_ns, engine_wall(f));
  ASSERT(first > 0 && second > 0);
  EQ(first + second, f->n_runs + d.n_cancelled);
  engine_close(f);
  PASS();
}

SUITE(cron) {
  RUN_TEST(each_occurrence_becomes_a_job_at_its_instant);
  RUN_TEST(a_cron_without_a_handler_here_makes_jobs_all_the_same);
  RUN_TEST(a_definition_that_is_stored_or_older_changes_nothing_and_a_newer_one_replaces_it);
  RUN_TEST(a_removed_cron_makes_no_more_jobs_and_may_be_defined_again);
  RUN_TEST(a_zone_counts);
  RUN_TEST(every_counts_from_the_definition);
  RUN_TEST(after_misfires_one_job_is_made_for_the_newest);
  RUN_TEST(misfires_may_be_skipped);
  RUN_TEST(all_misfires_get_a_job_up_to_the_bound_newest_first_to_keep);
  RUN_TEST(an_occurrence_of_the_last_minute_is_no_misfire);
  RUN_TEST(a_long_absence_makes_a_bounded_number_of_jobs);
  RUN_TEST(with_skip_an_occurrence_during_an_earlier_one_gets_no_job);
  RUN_TEST(with_skip_an_occurrence_that_waits_for_a_retry_counts_as_not_ended);
  RUN_TEST(with_queue_occurrences_overlap);
  RUN_TEST(a_clock_that_is_set_back_doubles_no_occurrence);
  RUN_TEST(a_clock_that_is_set_forward_brings_what_it_has_passed);
  RUN_TEST(neither_a_cancelled_nor_a_dead_occurrence_ends_the_cron);
  RUN_TEST(a_cron_goes_on_after_the_node_that_defined_it_has_closed);
  RUN_TEST(each_occurrence_is_one_job_on_two_nodes_over_a_day_with_a_change_of_the_clocks);
}

TEST_MAIN(ON_EVERY_STORE(RUN_SUITE(cron)));
