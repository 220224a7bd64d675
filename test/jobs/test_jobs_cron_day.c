/* SPDX-License-Identifier: MIT
 *
 * A cron on two nodes, over a day on which the clocks change: each occurrence is dealt with once.
 */
#include <string.h>
#include <time.h>

#include <uvsched/calendar.h>

#include "engine_fixture.h"

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

/* Is this run a repetition? A message of a server may make a node claim a job just before the clock
 * jumps. Then the lease has ended, and the other node may run the job too, with a crash. */
static bool is_repeated(const struct engine *f, int run) {
  if (!engine_is_server || f->runs[run].crashes == 0)
    return false;
  for (int i = 0; i < f->n_runs; i++)
    if (i != run && strcmp(f->runs[i].id, f->runs[run].id) == 0 &&
        (f->runs[i].crashes == 0 || i < run))
      return true;
  return false;
}

/* How often the id has run or was cancelled, without repetitions. */
static int times(const struct day *d, const char *id) {
  int n = 0;

  for (int i = 0; i < d->f->n_runs; i++)
    n += strcmp(d->f->runs[i].id, id) == 0 && !is_repeated(d->f, i);
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
  int first, second, repeated = 0;

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
  for (int i = 0; i < f->n_runs; i++)
    repeated += is_repeated(f, i);
  EQ(first + second, f->n_runs - repeated + d.n_cancelled);
  engine_close(f);
  PASS();
}

SUITE(cron_day) {
  RUN_TEST(each_occurrence_is_one_job_on_two_nodes_over_a_day_with_a_change_of_the_clocks);
}

TEST_MAIN(ON_EVERY_STORE(RUN_SUITE(cron_day)));
