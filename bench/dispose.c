/* SPDX-License-Identifier: MIT
 *
 * The cost of disposing a lane with 1000 tasks that are due in a day or two: from the call until
 * the lane is quiet, on the loop thread. Once without other tasks, and twice among 100 000 tasks of
 * other lanes: in the usual case the lane's own tasks were submitted in a row; in the worst case
 * the tasks of all lanes were submitted alternately, so that they are far apart in cold memory.
 * Neither may take more than twice as long as the first. There are three loops with one round on
 * each in turn, so that a busy moment of the machine affects all. Prints best and median of many
 * rounds.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "uvsched/lane.h"

#define TASKS 1000
#define OTHER_LANES 100 /* of as many tasks each */
#define ROUNDS 301
#define RATIO_MOST 2.0

struct side {
  uv_loop_t loop;
  uvs_t *s;
  bool quiet, closed;
  int lanes;
  uvs_lane_t lane[1 + OTHER_LANES];
  double us[ROUNDS];
};

enum { ALONE, AMONG_OTHERS, MIXED, SIDES };

static struct side sides[SIDES];

static void check(int rc, const char *what) {
  if (rc >= 0)
    return;
  fprintf(stderr, "%s: %s\n", what, uvs_strerror(rc));
  exit(1);
}

static uint64_t random_number(void) {
  static uint64_t x = UINT64_C(0x9e3779b97f4a7c15);

  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return x >> 8;
}

static int never_runs(uvs_run_t *run) {
  (void)run;
  return 0;
}

static void on_quiet(uvs_t *s, uvs_lane_t lane, void *arg) {
  (void)s;
  (void)lane;
  ((struct side *)arg)->quiet = true;
}

static void on_closed(uvs_t *s) {
  ((struct side *)uvs_data(s))->closed = true;
}

static void open_lane(struct side *side, int i) {
  uvs_lane_options_t o;

  uvs_lane_options_init(&o);
  o.on_quiet = on_quiet;
  o.arg = side;
  check(uvs_lane_open(side->s, &o, &side->lane[i]), "uvs_lane_open");
}

static void submit(struct side *side, int lane) {
  uvs_task_t t;

  uvs_task_init(&t);
  t.work = never_runs;
  t.lane = side->lane[lane];
  t.first_ns = UVS_DAY(1) + (int64_t)(random_number() % (uint64_t)UVS_DAY(1));
  check(uvs_submit(side->s, &t, NULL), "uvs_submit");
}

static void open_side(struct side *side, int lanes, bool mixed) {
  uvs_options_t o;

  uvs_options_init(&o);
  o.data = side;
  side->lanes = lanes;
  check(uv_loop_init(&side->loop), "uv_loop_init");
  check(uvs_open(&side->loop, &o, &side->s), "uvs_open");
  uv_run(&side->loop, UV_RUN_NOWAIT);
  for (int lane = 0; lane < lanes; lane++)
    open_lane(side, lane);
  for (int i = 0; i < TASKS * lanes; i++)
    submit(side, mixed ? i % lanes : i / TASKS);
  uv_run(&side->loop, UV_RUN_NOWAIT);
}

/* Disposes one of the lanes, and opens another in its place. */
static double dispose_one(struct side *side) {
  int lane = (int)(random_number() % (uint64_t)side->lanes);
  uint64_t start_ns = uv_hrtime();
  double us;

  side->quiet = false;
  check(uvs_lane_dispose(side->lane[lane], 0), "uvs_lane_dispose");
  while (!side->quiet)
    uv_run(&side->loop, UV_RUN_NOWAIT);
  us = (double)(uv_hrtime() - start_ns) / 1e3;
  open_lane(side, lane);
  for (int i = 0; i < TASKS; i++)
    submit(side, lane);
  uv_run(&side->loop, UV_RUN_NOWAIT);
  return us;
}

static void close_side(struct side *side) {
  check(uvs_close(side->s, on_closed), "uvs_close");
  while (!side->closed)
    uv_run(&side->loop, UV_RUN_NOWAIT);
  uv_run(&side->loop, UV_RUN_DEFAULT);
  check(uv_loop_close(&side->loop), "uv_loop_close");
}

static int ascending(const void *x, const void *y) {
  double a = *(const double *)x;
  double b = *(const double *)y;

  return a < b ? -1 : a > b;
}

int main(void) {
  static const char *const names[] = {"among no others", "among 100 000 others",
                                      "... mixed one by one"};
  double median[SIDES];
  double ratio;

  for (int i = 0; i < SIDES; i++)
    open_side(&sides[i], i == ALONE ? 1 : 1 + OTHER_LANES, i == MIXED);
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < SIDES; i++)
      sides[i].us[round] = dispose_one(&sides[i]);
  }
  printf("dispose a lane of %d tasks until it is quiet; %d rounds\n\n", TASKS, ROUNDS);
  printf("%-24s %11s %11s %9s\n", "", "best", "median", "ratio");
  for (int i = 0; i < SIDES; i++) {
    qsort(sides[i].us, ROUNDS, sizeof sides[i].us[0], ascending);
    median[i] = sides[i].us[ROUNDS / 2];
    printf("%-24s %8.1f us %8.1f us %9.2f\n", names[i], sides[i].us[0], median[i],
           median[i] / median[ALONE]);
  }
  ratio =
      (median[MIXED] > median[AMONG_OTHERS] ? median[MIXED] : median[AMONG_OTHERS]) / median[ALONE];
  printf("\nthe greater ratio of the medians: %.2f, at most %.0f is wanted\n", ratio, RATIO_MOST);
  for (int i = 0; i < SIDES; i++)
    close_side(&sides[i]);
  return ratio <= RATIO_MOST ? 0 : 1;
}
