/* SPDX-License-Identifier: MIT
 *
 * The code and the timelines of docs/periodic.md. Each timeline is drawn by the runs themselves, on
 * a virtual clock: one character is 20 ms. The output must equal docs_periodic.expected. */
#include <string.h>
#include <uvsched.h>

#include "expect.h"
#include "virtual_time.h"

#define PERIOD_NS UVS_MS(100)
#define CHARACTER_NS UVS_MS(20)
#define END_NS UVS_MS(600)

/* -------------------------------------------------------------- timelines --- */

struct timeline {
  int64_t begin_ns;
  int64_t slow_ns; /* how long the second run takes; every other run takes one character */
  uint64_t runs, missed;
  int fixed_rate;
  char line[64];
};

/* The body. It draws itself, and moves the clock by the time that it takes. */
static int draw(uvs_run_t *run) {
  struct timeline *l = run->arg;
  int64_t takes_ns = run->number == 2 ? l->slow_ns : CHARACTER_NS;
  int64_t at = (run->start_ns - l->begin_ns) / CHARACTER_NS;

  memset(&l->line[at], '=', (size_t)(takes_ns / CHARACTER_NS));
  l->line[at] = '#';
  if (l->fixed_rate) /* the point of the grid that this run stands for */
    l->line[at] = (char)('0' + (run->ideal_ns - l->begin_ns) / PERIOD_NS);
  l->runs++;
  l->missed += run->missed;
  pass_ns(run->scheduler, takes_ns);
  return 0;
}

static struct timeline print_timeline(uvs_t *s, const char *name, uvs_task_t t, int64_t slow_ns) {
  struct timeline l = {uvs_now(s), slow_ns, 0, 0, t.kind == UVS_FIXED_RATE, ""};
  size_t length = sizeof l.line - 1;

  memset(l.line, ' ', length);
  t.after = draw; /* and no `work`: on the loop */
  t.arg = &l;
  t.until_ns = END_NS;
  EXPECT(uvs_submit(s, &t, NULL) == 0);
  EXPECT(run_for(s, UVS_SEC(1)) == 0); /* the task has ended: its last point was at 600 ms */
  while (length > 0 && l.line[length - 1] == ' ')
    l.line[--length] = '\0';
  printf("%-25s%s\n", name, l.line);
  return l;
}

static void print_ruler(void) {
  printf("\n%-25s0    100  200  300  400  500  600\n", "ms");
}

static uvs_task_t fixed_rate(int missed_policy, uint32_t max_burst) {
  uvs_task_t t;

  uvs_task_init(&t);
  t.kind = UVS_FIXED_RATE;
  t.period_ns = PERIOD_NS;
  t.missed_policy = missed_policy;
  t.max_burst = max_burst;
  return t;
}

static uvs_task_t fixed_delay(void) {
  uvs_task_t t;

  uvs_task_init(&t);
  t.kind = UVS_FIXED_DELAY;
  t.period_ns = PERIOD_NS;
  return t;
}

static void show_kinds(uvs_t *s) {
  print_ruler();
  print_timeline(s, "fixed rate", fixed_rate(UVS_MISSED_CATCH_UP, 0), UVS_MS(60));
  print_timeline(s, "fixed delay", fixed_delay(), UVS_MS(60));
}

static void show_policies(uvs_t *s) {
  const int64_t slow_ns = UVS_MS(340);
  struct timeline l;

  print_ruler();
  l = print_timeline(s, "UVS_MISSED_CATCH_UP", fixed_rate(UVS_MISSED_CATCH_UP, 0), slow_ns);
  EXPECT(l.runs == 7 && l.missed == 0);
  l = print_timeline(s, "  with max_burst 2", fixed_rate(UVS_MISSED_CATCH_UP, 2), slow_ns);
  EXPECT(l.runs == 6 && l.missed == 1);
  l = print_timeline(s, "UVS_MISSED_ONCE", fixed_rate(UVS_MISSED_ONCE, 0), slow_ns);
  EXPECT(l.runs == 5 && l.missed == 2);
  l = print_timeline(s, "UVS_MISSED_SKIP", fixed_rate(UVS_MISSED_SKIP, 0), slow_ns);
  EXPECT(l.runs == 4 && l.missed == 3);
}

/* ----------------------------------------------------- jitter, and the end --- */

static struct {
  int64_t begin_ns;
  uint64_t reports;
  int done;
} day;

static int report(uvs_run_t *run) {
  int64_t jitter_ns = run->start_ns - run->ideal_ns;

  EXPECT((run->ideal_ns - day.begin_ns) % UVS_MIN(1) == 0);
  EXPECT(jitter_ns >= 0 && jitter_ns <= UVS_SEC(10));
  EXPECT(run->late_ns == 0); /* the jitter is part of the deadline */
  day.reports++;
  return 0;
}

static void on_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)s, (void)id, (void)arg;
  day.done += status == 0;
}

static int report_every_minute(uvs_t *s, uvs_id_t *ret_id) {
  uvs_task_t t;
  uvs_task_init(&t);
  t.kind = UVS_FIXED_RATE;
  t.period_ns = UVS_MIN(1);
  t.jitter_ns = UVS_SEC(10); /* each run starts 0 to 10 s after its point of the grid */
  t.missed_policy = UVS_MISSED_ONCE;
  t.max_runs = 5000;        /* ends after this many runs, */
  t.until_ns = UVS_HOUR(8); /* or after 8 hours, whichever comes first */
  t.after = report;
  t.done = on_done;
  return uvs_submit(s, &t, ret_id);
}

static void show_jitter(uvs_t *s) {
  uvs_id_t id;

  day.begin_ns = uvs_now(s);
  EXPECT(report_every_minute(s, &id) == 0);
  EXPECT(run_for(s, UVS_DAY(1)) == 0);
  /* 8 hours of minutes, both ends included: jitter never adds up */
  EXPECT(day.reports == 481 && day.done == 1);
  EXPECT(uvs_cancel(s, id, 0) == UV_ENOENT);
}

/* ------------------------------------------------------------------- stop --- */

static int countdown(uvs_run_t *run) {
  int *left = run->arg;
  return --*left == 0 ? UVS_STOP : 0;
}

static void show_stop(uvs_t *s) {
  uvs_task_t t = fixed_delay();
  int left = 3;

  t.after = countdown;
  t.arg = &left;
  EXPECT(uvs_submit(s, &t, NULL) == 0);
  EXPECT(run_for(s, UVS_SEC(10)) == 0);
  EXPECT(left == 0);
}

int main(void) {
  uv_loop_t *loop = uv_default_loop();
  uvs_options_t o;
  uvs_t *s;

  uvs_options_init(&o);
  o.clock = virtual_clock;
  EXPECT(uvs_open(loop, &o, &s) == 0);
  show_kinds(s);
  show_policies(s);
  show_jitter(s);
  show_stop(s);
  EXPECT(uvs_close(s, NULL) == 0);
  uv_run(loop, UV_RUN_DEFAULT);
  EXPECT(uv_loop_close(loop) == 0);
  return 0;
}
