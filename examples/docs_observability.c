/* SPDX-License-Identifier: MIT
 *
 * The programs of docs/observability.md: why a run is late, which tasks are overdue, a percentile
 * of the last interval, statistics as text. A callback holds up the loop, and all of them show it.
 */
#include <uvsched.h>
#include <uvsched/hooks.h>
#include <uvsched/stats.h>

#include "expect.h"
#include "virtual_time.h"

/* A real program has a logger of its own. */
static int logged;
#define LOG(...) (logged++, printf(__VA_ARGS__))

/* A `before_body` hook: one line for each run that starts 100 ms late or later. */
static void report_late(uvs_run_t *run) {
  if (run->late_ns < UVS_MS(100))
    return;
  LOG("run %d starts %d ms late, %d ms of them because of: %s\n", (int)run->number,
      (int)(run->late_ns / 1000000), (int)(run->late_by_ns[run->culprit] / 1000000),
      uvs_late_name(run->culprit));
}

/* For uvs_each: one line for each task that is more than a second overdue. */
static int print_overdue(uvs_t *s, const uvs_info_t *info, void *arg) {
  (void)s, (void)arg;
  if (info->state != UVS_RUNNING && info->remaining_ns < -UVS_SEC(1))
    LOG("%s is %s and %d ms overdue\n", info->name, uvs_state_name(info->state),
        (int)(-info->remaining_ns / 1000000));
  return 0; /* go on */
}

/* The lateness that 99 % of all runs since the last call did not exceed. */
static int64_t late_p99_ns(uvs_t *s, uvs_histogram_t *last) {
  uvs_histogram_t now, since;

  uvs_histogram_init(&now);
  if (uvs_histogram(s, UVS_STAT_LATE, &now) < 0)
    return -1;
  since = now;
  since.count -= last->count;
  for (unsigned i = 0; i < UVS_BUCKETS; i++)
    since.bucket[i] -= last->bucket[i];
  *last = now;
  return uvs_quantile_ns(&since, 0.99);
}

/* For uvs_each_name: one line for each name. */
static int print_name(uvs_t *s, const uvs_name_stats_t *n, void *arg) {
  (void)s, (void)arg;
  LOG("%-23s %6d runs, p99 %d us late, p99 %d us long\n", n->name, (int)n->run.count,
      (int)(uvs_quantile_ns(&n->late, 0.99) / 1000), (int)(uvs_quantile_ns(&n->run, 0.99) / 1000));
  return 0; /* go on */
}

static int write_to_stream(const char *data, size_t size, void *arg) {
  return fwrite(data, 1, size, arg) == size ? 0 : UV_EIO;
}

/* ------------------------------------------------------------------- check --- */

static int beat(uvs_run_t *run) {
  (void)run;
  return 0;
}

/* A callback of the program that takes far too long. */
static int hold_up_the_loop(uvs_run_t *run) {
  pass_ns(run->scheduler, UVS_MS(2500));
  EXPECT(uvs_each(run->scheduler, print_overdue, NULL) == 0);
  return 0;
}

static void start(uvs_t *s, const char *name, int64_t first_ns, int64_t period_ns,
                  uvs_after_cb after, uvs_id_t *ret_id) {
  uvs_task_t t;
  uvs_task_init(&t);
  t.first_ns = first_ns;
  if (period_ns > 0) {
    t.kind = UVS_FIXED_RATE;
    t.period_ns = period_ns;
    t.missed_policy = UVS_MISSED_ONCE;
  }
  t.after = after;
  t.name = name;
  EXPECT(uvs_submit(s, &t, ret_id) == 0);
}

/* The page has this line. */
static void expect_line(FILE *f, const char *line) {
  char text[256];
  int found = 0;

  rewind(f);
  while (!found && fgets(text, sizeof text, f) != NULL)
    found = strcmp(text, line) == 0;
  EXPECT(found);
}

int main(void) {
  uv_loop_t *loop = uv_default_loop();
  FILE *page = tmpfile();
  uvs_histogram_t last;
  uvs_hooks_t hooks;
  uvs_options_t o;
  uvs_counts_t c;
  uvs_info_t info;
  uvs_id_t id;
  uvs_t *s;

  EXPECT(page != NULL);
  uvs_hooks_init(&hooks);
  hooks.before_body = report_late;
  uvs_options_init(&o);
  o.clock = virtual_clock;
  o.hooks = &hooks;
  EXPECT(uvs_open(loop, &o, &s) == 0);
  start(s, "beat", 0, UVS_SEC(1), beat, &id);
  start(s, "hold-up", UVS_MS(10500), 0, hold_up_the_loop, NULL);
  start(s, "report", UVS_HOUR(1), 0, beat, NULL);
  uvs_histogram_init(&last);

  EXPECT(run_for(s, UVS_SEC(10)) == 1);
  EXPECT(late_p99_ns(s, &last) == 0 && logged == 0);
  EXPECT(run_for(s, UVS_SEC(10)) == 1);
  EXPECT(late_p99_ns(s, &last) >= UVS_MS(2000)); /* one of its runs was that late */
  EXPECT(logged == 2);                           /* an overdue task, and then its late run */
  EXPECT(run_for(s, UVS_SEC(10)) == 1);
  EXPECT(late_p99_ns(s, &last) <= uvs_bucket_ns(0));

  logged = 0;
  EXPECT(uvs_each_name(s, print_name, NULL) == 0);
  EXPECT(logged == 3);

  uvs_info_init(&info);
  EXPECT(uvs_info(s, id, &info) == 0);
  EXPECT(info.state == UVS_WAITING && info.remaining_ns == UVS_SEC(1));
  EXPECT(info.runs + info.missed == 31); /* the points of the grid up to now */
  uvs_counts_init(&c);
  EXPECT(uvs_counts(s, &c) == 0);
  EXPECT(c.submitted == 3 && c.completed == 1 && c.waiting == 2);
  EXPECT(c.runs == info.runs + 1 && c.missed == info.missed && c.missed > 0);

  EXPECT(uvs_stats_write(s, UVS_FORMAT_PROMETHEUS, write_to_stream, page) == 0);
  expect_line(page, "uvsched_tasks_ended_total{outcome=\"completed\"} 1\n");
  expect_line(page, "uvsched_run_late_seconds_count{culprit=\"loop\"} 1\n");
  EXPECT(uvs_stats_write(s, UVS_FORMAT_TEXT, write_to_stream, stdout) == 0);
  EXPECT(uvs_dump(s, stdout) == 0);

  fclose(page);
  EXPECT(uvs_close(s, NULL) == 0);
  uv_run(loop, UV_RUN_DEFAULT);
  EXPECT(uv_loop_close(loop) == 0);
  return 0;
}
