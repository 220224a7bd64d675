/* SPDX-License-Identifier: MIT
 *
 * One cron expression in three zones: every day at 02:30, on the days around 2025-03-09, when New
 * York sets its clock from 02:00 to 03:00. The clock is virtual, so three days take no time. Exit
 * status 77 (the test is skipped): this system has no tzdata. */
#include <stdio.h>
#include <uvsched.h>
#include <uvsched/calendar.h>
#include <uvsched/control.h>

#include "expect.h"
#include "virtual_time.h"

#define BEGIN_NS UVS_DAY(20155) /* 2025-03-08 00:00 UTC */

struct job {
  const char *zone;
  uvs_calendar_t *calendar;
  int runs, moved;
};

/* The body, on the loop. run->ideal_ns is the occurrence that the run stands for. */
static int print_run(uvs_run_t *run) {
  struct job *job = run->arg;
  uvs_occurrence_t o;

  EXPECT(uvs_calendar_list(job->calendar, run->ideal_ns, run->ideal_ns + 1, &o, 1) == 1);
  printf("2025-03-%02d %02d:%02d  %-18s%04d-%02d-%02d %02d:%02d%s\n",
         8 + (int)((run->ideal_ns - BEGIN_NS) / UVS_DAY(1)),
         (int)(run->ideal_ns % UVS_DAY(1) / UVS_HOUR(1)),
         (int)(run->ideal_ns % UVS_HOUR(1) / UVS_MIN(1)), job->zone, o.local.year, o.local.month,
         o.local.day, o.local.hour, o.local.minute,
         o.flag == UVS_OCCURRENCE_MOVED ? "  moved: there was no 02:30" : "");
  job->runs++;
  job->moved += o.flag == UVS_OCCURRENCE_MOVED;
  return 0;
}

static int start_job(uvs_t *s, struct job *job, uvs_id_t *ret_id) {
  uvs_task_t t;
  int rc = uvs_calendar_parse("30 2 * * *", job->zone, NULL, &job->calendar, NULL);

  if (rc < 0)
    return rc;
  uvs_task_init(&t);
  t.kind = UVS_CALENDAR;
  t.calendar = job->calendar;        /* uvs_submit retains it */
  t.missed_policy = UVS_MISSED_ONCE; /* one run makes up for all missed runs */
  t.after = print_run;               /* there is no `work`: the body runs on the loop */
  t.arg = job;
  return uvs_submit(s, &t, ret_id);
}

/* The short call. It has no `done`. One run makes up for all missed runs. */
static int check_report(uvs_t *s, uvs_work_cb report, uvs_id_t *ret_id) {
  return uvs_schedule_cron(s, "0 9 * * 1-5", "Europe/Berlin", report, NULL, ret_id);
}

static int report(uvs_run_t *run) {
  (void)run;
  return 0;
}

int main(void) {
  struct job jobs[] = {
      {.zone = "America/New_York"}, {.zone = "Europe/Berlin"}, {.zone = "Asia/Tokyo"}};
  uv_loop_t *loop = uv_default_loop();
  uvs_options_t options;
  int64_t next_ns[2];
  uvs_id_t id;
  uvs_t *s;

  atomic_store(&virtual_ns, BEGIN_NS);
  uvs_options_init(&options);
  options.clock = virtual_clock;
  EXPECT(uvs_open(loop, &options, &s) == 0);
  printf("%-18s%-18s%s\n", "UTC", "zone", "local time");
  for (int i = 0; i < 3; i++) {
    int rc = start_job(s, &jobs[i], &id);

    if (rc == UV_ENOENT) {
      printf("skipped: this system has no tzdata\n");
      return 77;
    }
    EXPECT(rc == 0);
  }
  EXPECT(run_for(s, UVS_DAY(3)) == 1);
  for (int i = 0; i < 3; i++) {
    EXPECT(jobs[i].runs == 3);
    EXPECT(jobs[i].moved == (i == 0));
    uvs_calendar_release(jobs[i].calendar);
  }

  EXPECT(check_report(s, report, &id) == 0);
  EXPECT(uvs_next_runs(s, id, next_ns, 2) == 2);
  EXPECT(next_ns[0] == BEGIN_NS + UVS_DAY(3) + UVS_HOUR(8)); /* Tuesday, 09:00 in Berlin */
  EXPECT(next_ns[1] == next_ns[0] + UVS_DAY(1));
  EXPECT(uvs_close(s, NULL) == 0);
  uv_run(loop, UV_RUN_DEFAULT);
  return uv_loop_close(loop);
}
