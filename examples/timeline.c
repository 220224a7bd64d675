/* SPDX-License-Identifier: MIT
 *
 * One second of a scheduler, as a table. Each line is a run: its task, when it was due, when it
 * started and ended (ms), on which thread, and what caused its delay. Three things make runs late
 * here: one run that takes longer than its period, two imports that take both runners, and a
 * callback that holds up the loop.
 *
 * docs/images/draw-timeline draws docs/images/timeline.svg from this table. */
#include <uvsched.h>
#include <uvsched/stats.h>

#include "expect.h"

struct job {
  const char *name;
  unsigned first_ms, period_ms; /* period 0: a one-shot */
  unsigned runs, body_ms;
  unsigned second_ms; /* how long the second run takes; 0: as long as the others */
};

static const struct job jobs[] = {
    {.name = "beat", .first_ms = 50, .period_ms = 100, .runs = 10, .body_ms = 8},
    {.name = "report",
     .first_ms = 20,
     .period_ms = 200,
     .runs = 5,
     .body_ms = 40,
     .second_ms = 250},
    {.name = "import", .first_ms = 530, .runs = 1, .body_ms = 110},
    {.name = "import", .first_ms = 530, .runs = 1, .body_ms = 110},
};

static int64_t begin_ns;
static unsigned runs_seen;

static double ms(int64_t ns) {
  return (double)(ns - begin_ns) / 1e6;
}

static int work(uvs_run_t *run) { /* a runner */
  const struct job *job = run->arg;
  uv_sleep(run->number == 2 && job->second_ms > 0 ? job->second_ms : job->body_ms);
  return 0;
}

static int after(uvs_run_t *run) { /* the loop, after each run */
  const struct job *job = run->arg;
  EXPECT(run->status == 0 && run->start_ns >= run->ideal_ns); /* never early */
  printf("%s %.2f %.2f %.2f runner-%d %s\n", job->name, ms(run->start_ns - run->late_ns),
         ms(run->start_ns), ms(run->end_ns), run->runner,
         run->culprit < 0 ? "none" : uvs_late_name(run->culprit));
  runs_seen++;
  return 0;
}

static void hold_up_the_loop(uv_timer_t *timer) {
  int64_t start_ns = (int64_t)uv_hrtime();
  uv_sleep(110);
  printf("callback %.2f %.2f %.2f loop none\n", ms(start_ns), ms(start_ns),
         ms((int64_t)uv_hrtime()));
  uv_close((uv_handle_t *)timer, NULL);
}

int main(void) {
  uv_loop_t *loop = uv_default_loop();
  uvs_options_t options;
  uvs_t *s;
  uv_timer_t timer;
  unsigned runs = 0;

  uvs_options_init(&options);
  options.concurrency = 2;
  EXPECT(uvs_open(loop, &options, &s) == 0);
  begin_ns = uvs_now(s);
  for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
    uvs_task_t t;
    uvs_task_init(&t);
    t.kind = jobs[i].period_ms > 0 ? UVS_FIXED_RATE : UVS_ONE_SHOT;
    t.from = UVS_FROM_MONOTONIC;
    t.first_ns = begin_ns + UVS_MS(jobs[i].first_ms);
    t.period_ns = UVS_MS(jobs[i].period_ms);
    t.max_runs = jobs[i].period_ms > 0 ? jobs[i].runs : 0;
    t.work = work;
    t.after = after;
    t.arg = (void *)&jobs[i];
    EXPECT(uvs_submit(s, &t, NULL) == 0);
    runs += jobs[i].runs;
  }
  EXPECT(uv_timer_init(loop, &timer) == 0);
  uv_update_time(loop);
  EXPECT(uv_timer_start(&timer, hold_up_the_loop, 760, 0) == 0);

  uv_run(loop, UV_RUN_DEFAULT);
  EXPECT(runs_seen == runs);
  EXPECT(uvs_close(s, NULL) == 0);
  uv_run(loop, UV_RUN_DEFAULT);
  EXPECT(uv_loop_close(loop) == 0);
  return 0;
}
