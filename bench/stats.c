/* SPDX-License-Identifier: MIT
 *
 * The cost of the statistics per task: recording its start and its end. They are measured where
 * they are used, next to the lock that every run takes anyway, so the cost is what they add to
 * uv_mutex_lock and uv_mutex_unlock. In the last row the records follow each other directly, so
 * that each has to wait for the memory of the previous one. Prints best and median of many short
 * rounds, taken alternately, so that a busy moment of the machine affects all of them.
 *
 * Three kinds of tasks: on time; due now, and late because of the loop or the runners; and a mix,
 * with the timer and, rarely, another cause.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uv.h>

#include "util/stats.h"

#define TASKS 256 /* together they fit the fastest cache, as the one task of a runner does */
#define ROUNDS 1001
#define TURNS 20 /* passes over the tasks in a round */

struct task {
  uint64_t late_ns, queue_ns, run_ns;
  int culprit;
};

enum { ON_TIME, NOW, MIXED, KINDS };

static struct task tasks[KINDS][TASKS];
static struct uvs__cell cell;
static uv_mutex_t mutex;

static uint64_t random_number(void) {
  static uint64_t x = UINT64_C(0x9e3779b97f4a7c15);

  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return x >> 8;
}

/* From 2^low to 2^high; each power of two is equally likely. */
static int64_t spread_ns(unsigned low, unsigned high) {
  uint64_t least = UINT64_C(1) << (low + random_number() % (high - low));

  return (int64_t)(least + random_number() % least);
}

static struct task make_task(int kind) {
  struct task t = {.run_ns = (uint64_t)spread_ns(10, 24), .culprit = -1};

  t.queue_ns = (uint64_t)spread_ns(10, 20);
  if (kind == ON_TIME)
    return t;
  t.late_ns = t.queue_ns + (uint64_t)spread_ns(11, 18);
  t.culprit = t.queue_ns * 2 > t.late_ns ? UVS_LATE_RUNNERS : UVS_LATE_LOOP;
  if (kind == MIXED && random_number() % 2 == 0) {
    t.late_ns += random_number() % 1000000;
    t.culprit = UVS_LATE_TIMER;
  }
  if (kind == MIXED && random_number() % 16 == 0) {
    t.late_ns += (uint64_t)spread_ns(12, 28);
    t.culprit = (int)(random_number() % UVS_LATE_CAUSES);
  }
  return t;
}

static void one(const struct task *t) {
  uvs__cell_start(&cell, t->late_ns, t->culprit, t->queue_ns);
  uvs__cell_end(&cell, t->run_ns);
}

static double lock(void) {
  uint64_t start_ns = uv_hrtime();

  for (int i = 0; i < TURNS * TASKS; i++) {
    uv_mutex_lock(&mutex);
    uv_mutex_unlock(&mutex);
  }
  return (double)(uv_hrtime() - start_ns) / (TURNS * TASKS);
}

static double lock_and_record(int kind) {
  uint64_t start_ns = uv_hrtime();

  for (int turn = 0; turn < TURNS; turn++) {
    for (int i = 0; i < TASKS; i++) {
      uv_mutex_lock(&mutex);
      uv_mutex_unlock(&mutex);
      one(&tasks[kind][i]);
    }
  }
  return (double)(uv_hrtime() - start_ns) / (TURNS * TASKS);
}

static double record_only(void) {
  uint64_t start_ns = uv_hrtime();

  for (int turn = 0; turn < TURNS; turn++) {
    for (int i = 0; i < TASKS; i++)
      one(&tasks[MIXED][i]);
  }
  return (double)(uv_hrtime() - start_ns) / (TURNS * TASKS);
}

static int ascending(const void *x, const void *y) {
  double a = *(const double *)x;
  double b = *(const double *)y;

  return a < b ? -1 : a > b;
}

int main(void) {
  static const char *const names[] = {"... and a task on time", "... and a task that is due now",
                                      "... and a mix of tasks", "uv_mutex_lock + uv_mutex_unlock",
                                      "the mix, back to back"};
  enum { LOCK = KINDS, ALONE, ROWS };
  static const int order[] = {LOCK, ON_TIME, NOW, MIXED, ALONE};
  static double ns[ROWS][ROUNDS];

  if (uv_mutex_init(&mutex) < 0)
    return 1;
  for (int kind = 0; kind < KINDS; kind++) {
    for (int i = 0; i < TASKS; i++)
      tasks[kind][i] = make_task(kind);
  }
  for (int round = 0; round < ROUNDS; round++) {
    for (int kind = 0; kind < KINDS; kind++)
      ns[kind][round] = lock_and_record(kind);
    ns[LOCK][round] = lock();
    ns[ALONE][round] = record_only();
  }
  for (int row = 0; row < ROWS; row++)
    qsort(ns[row], ROUNDS, sizeof ns[row][0], ascending);

  printf("statistics of a task: %zu bytes a cell; %d rounds of %d tasks\n\n", sizeof cell, ROUNDS,
         TURNS * TASKS);
  printf("%-33s %10s %10s %10s\n", "", "best", "median", "adds");
  for (int i = 0; i < ROWS; i++) {
    const double *row = ns[order[i]];

    printf("%-33s %7.2f ns %7.2f ns", names[order[i]], row[0], row[ROUNDS / 2]);
    if (order[i] < KINDS)
      printf(" %7.2f ns", row[0] - ns[LOCK][0]);
    printf("\n");
  }
  uv_mutex_destroy(&mutex);
  return 0;
}
