/* SPDX-License-Identifier: MIT
 *
 * W12: the cost of a scheduler after use, compared with a fresh one. A round arms n tasks with
 * delays of 1 .. 200 ms and runs the loop until all have run. After some rounds a burst is timed: n
 * one-shots with one common deadline are armed and then fired. The same burst is timed on a
 * scheduler that was opened just before. Both schedulers use one loop, in a process whose memory is
 * warm.
 *
 * Each run checks what it timed: every task must have run exactly once and not before its time, and
 * at the end the counts of each scheduler must match the submitted tasks.
 *
 * Included by uvsched.c after peers/uvbench.h. */
#ifndef AGEING_H
#define AGEING_H

#define AGE_SAMPLES 3 /* bursts of each kind; the median counts */

static uint32_t age_n;
static int age_on_pool;
static uint64_t *age_due; /* of each task of the round */
static uint32_t *age_ran; /* how often task i has run in this round, or in this burst */
static int age_early;     /* a task started before its time */
static uint32_t age_left; /* on the loop: tasks that have not run */
static uint64_t age_end;
static int age_armed_late;
static int64_t age_aged[AGE_SAMPLES], age_fresh[AGE_SAMPLES]; /* ns of a burst */

/* One run has ended. On the loop the last one ends p_run; on the pool the monitor does. */
static void age_count(uint32_t i) {
  __atomic_add_fetch(&age_ran[i], 1, __ATOMIC_RELAXED);
  if (age_on_pool)
    cell_hit();
  else if (--age_left == 0) {
    age_end = now_ns();
    p_break();
  }
}
static int on_aged(uvs_run_t *run) {
  uint32_t i = (uint32_t)(uintptr_t)run->arg;

  if (now_ns() < age_due[i])
    __atomic_store_n(&age_early, 1, __ATOMIC_RELAXED);
  age_count(i);
  return 0;
}
/* All tasks of a burst have one deadline, so it is enough to read the clock in the first run.
 * Reading it in each run would add to what is timed. */
static int burst_begun;
static int on_burst(uvs_run_t *run) {
  if (!__atomic_load_n(&burst_begun, __ATOMIC_RELAXED)) {
    __atomic_store_n(&burst_begun, 1, __ATOMIC_RELAXED);
    if (now_ns() < age_due[0])
      __atomic_store_n(&age_early, 1, __ATOMIC_RELAXED);
  }
  age_count((uint32_t)(uintptr_t)run->arg);
  return 0;
}
static void age_arm(uint32_t i, uvs_work_cb body, int from, int64_t ns) {
  uvs_task_t t;

  uvs_task_init(&t);
  if (age_on_pool)
    t.work = body;
  else
    t.after = body;
  t.arg = (void *)(uintptr_t)i;
  t.from = from;
  t.first_ns = ns;
  submit(&t, NULL);
}
static void age_begin(void) {
  memset(age_ran, 0, age_n * sizeof *age_ran);
  age_left = age_n;
  pool_total = cell_sum() + age_n;
  burst_begun = 0;
}
static void age_run(void) {
  pthread_t m;

  if (age_on_pool)
    pthread_create(&m, NULL, monitor, NULL);
  p_run();
  if (age_on_pool) {
    pthread_join(m, NULL);
    age_end = pool_end;
  }
  for (uint32_t i = 0; i < age_n; i++)
    if (__atomic_load_n(&age_ran[i], __ATOMIC_RELAXED) != 1)
      die("w12: a task did not run exactly once");
  if (__atomic_load_n(&age_early, __ATOMIC_RELAXED))
    die("w12: a task started early");
}

static void age_round(uint64_t *seed) {
  age_begin();
  for (uint32_t i = 0; i < age_n; i++) {
    uint32_t ms = 1 + below(mix64(seed), 200);

    age_due[i] = now_ns() + ms * 1000000ull;
    age_arm(i, on_aged, UVS_FROM_NOW, UVS_MS(ms));
  }
  age_run();
}
/* The ns to arm and to fire all tasks, without the wait for the deadline. */
static int64_t age_burst(void) {
  uint64_t t0, armed, due;

  age_begin();
  due = now_ns() + (uint64_t)age_n * P_ARM_NS + 20000000u;
  due = (due + 999999) / 1000000 * 1000000;
  age_due[0] = due;
  t0 = now_ns();
  for (uint32_t i = 0; i < age_n; i++)
    age_arm(i, on_burst, UVS_FROM_MONOTONIC, (int64_t)due);
  armed = now_ns();
  age_run();
  age_armed_late |= armed > due;
  return (int64_t)(armed - t0 + age_end - (armed > due ? armed : due));
}
static void age_prove(uint64_t submitted) {
  uvs_counts_t c = settled_counts();

  if (c.submitted != submitted || c.completed != submitted || c.runs != submitted)
    die("w12: the counts are not those of the tasks");
}
static int64_t age_burst_fresh(void) {
  uvs_t *aged = S;
  int64_t ns;

  open_scheduler();
  p_pump();
  ns = age_burst();
  age_prove(age_n);
  close_scheduler();
  S = aged;
  return ns;
}

static void ageing(int on_pool, uint32_t n, uint32_t rounds) {
  uint64_t seed = 12;

  keep_heap();
  p_open();
  uv_async_init(L, &quit_h, on_quit);
  age_on_pool = on_pool;
  age_n = n;
  age_due = (uint64_t *)calloc(n, sizeof *age_due);
  age_ran = (uint32_t *)calloc(n, sizeof *age_ran);
  age_early = age_armed_late = 0;
  age_burst_fresh(); /* untimed: from here on the process has the memory that it needs */
  for (uint32_t k = 0; k < AGE_SAMPLES; k++) {
    for (uint32_t r = 0; r < rounds; r++)
      age_round(&seed);
    age_aged[k] = age_burst();
    age_fresh[k] = age_burst_fresh();
  }
  age_prove((uint64_t)n * AGE_SAMPLES * (rounds + 1));
  uv_close((uv_handle_t *)&quit_h, NULL);
  p_close();
}

static void ageing_report(void) {
  double aged, fresh;

  qsort(age_aged, AGE_SAMPLES, sizeof *age_aged, cmp_i64);
  qsort(age_fresh, AGE_SAMPLES, sizeof *age_fresh, cmp_i64);
  aged = (double)age_aged[AGE_SAMPLES / 2] / age_n;
  fresh = (double)age_fresh[AGE_SAMPLES / 2] / age_n;
  emit("aged_ns", aged);
  emit("fresh_ns", fresh);
  emit("aged_ratio", aged / fresh);
  emit("armed_late", age_armed_late);
}
#endif
