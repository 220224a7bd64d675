/* SPDX-License-Identifier: MIT
 *
 * The code of docs/control.md: a task prints a report. The program replaces the task by name, runs
 * it at once, lists its next runs, and pauses it. The clock is virtual. */
#include <inttypes.h>
#include <stdio.h>

#include <uvsched/control.h>

#include "virtual_time.h"

static int reports;

static int report(uvs_run_t *run) {
  reports++;
  printf("report %" PRIu64 ", missed %" PRIu64 "\n", run->number, run->missed);
  return 0;
}

/* Starts the report, or changes its period. */
static int report_every(uvs_t *s, int64_t period_ns) {
  uvs_task_t t;

  uvs_task_init(&t);
  t.kind = UVS_FIXED_RATE;
  t.first_ns = t.period_ns = period_ns;
  t.missed_policy = UVS_MISSED_ONCE;
  t.after = report;
  t.name = "report";
  t.flags = UVS_REPLACE;
  return uvs_submit(s, &t, NULL);
}

/* For a button "report now". */
static int report_now(uvs_t *s) {
  uvs_id_t id;
  int rc = uvs_find(s, "report", &id);

  return rc == 0 ? uvs_run_now(s, id) : rc;
}

/* For a switch "no reports during maintenance". */
static int maintain(uvs_t *s, int on) {
  uvs_id_t id;
  int rc = uvs_find(s, "report", &id);

  if (rc < 0)
    return rc;
  return on ? uvs_pause(s, id) : uvs_resume(s, id, UVS_RESUME_FORGET);
}

/* For a page that shows the next reports. */
static int print_plan(uvs_t *s) {
  int64_t next_ns[3];
  uvs_id_t id;
  int n = uvs_find(s, "report", &id);

  if (n == 0)
    n = uvs_next_runs(s, id, next_ns, 3);
  for (int i = 0; i < n; i++)
    printf("in %" PRId64 " s\n", (next_ns[i] - uvs_now(s)) / UVS_SEC(1));
  return n;
}

int main(void) {
  uvs_options_t o;
  uv_loop_t loop;
  uvs_t *s;

  EXPECT(uv_loop_init(&loop) == 0);
  uvs_options_init(&o);
  o.clock = virtual_clock;
  EXPECT(uvs_open(&loop, &o, &s) == 0);

  EXPECT(report_every(s, UVS_SEC(10)) == 0);
  EXPECT(run_for(s, UVS_SEC(25)) == 1);
  EXPECT(reports == 2);
  EXPECT(print_plan(s) == 3);

  EXPECT(report_now(s) == 0);
  EXPECT(run_for(s, UVS_SEC(5)) == 1); /* the extra run, and the run at 30 s */
  EXPECT(reports == 4);

  EXPECT(maintain(s, 1) == UVS_PAUSED);
  EXPECT(run_for(s, UVS_SEC(35)) == 1);
  EXPECT(reports == 4);
  EXPECT(print_plan(s) == 0);
  EXPECT(maintain(s, 0) == 0);
  EXPECT(run_for(s, UVS_SEC(5)) == 1);
  EXPECT(reports == 5);

  EXPECT(report_every(s, UVS_SEC(2)) == UVS_REPLACED);
  EXPECT(run_for(s, UVS_SEC(10)) == 1);
  EXPECT(reports == 10);

  EXPECT(uvs_pause_all(s) == 0);
  EXPECT(run_for(s, UVS_SEC(10)) == 1);
  EXPECT(reports == 10);
  EXPECT(uvs_resume_all(s) == 0);
  EXPECT(run_for(s, 0) == 1);
  EXPECT(reports == 11); /* one run for all missed runs */

  EXPECT(uvs_close(s, NULL) == 0);
  EXPECT(uv_run(&loop, UV_RUN_DEFAULT) == 0);
  EXPECT(uv_loop_close(&loop) == 0);
  return 0;
}
