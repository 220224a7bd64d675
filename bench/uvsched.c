/* SPDX-License-Identifier: MIT
 *
 * The row of uvsched in the comparison: public API only, and default options but for the
 * concurrency, which is 2 as that of every other pool here (W7: default as well).
 *
 * A task is what uvs_submit takes; its spec is made anew for each, as a program would that
 * schedules here and there. Its id is the handle, and stands in the table of handles. */
#include "peers/bench.h"
#include <uvsched.h>

static uv_loop_t *L;
static uvs_t *S;
static int concurrency = 2;

#define P_NAME "uvsched"
#define P_ARM_NS 300
#define P_HANDLE uvs_id_t
#define P_NATIVE_SUBMIT
#define P_MANY
#define P_EARLY_NS 0 /* that is the promise */

static void p_open(void) {
  uvs_options_t o;

  uvs_options_init(&o);
  o.concurrency = concurrency;
  L = (uv_loop_t *)malloc(sizeof *L);
  uv_loop_init(L);
  if (uvs_open(L, &o, &S) < 0)
    die("uvs_open");
}
static void p_pump(void) {
  uv_run(L, UV_RUN_NOWAIT);
}
static void p_run(void) {
  uv_run(L, UV_RUN_DEFAULT);
}
static void p_break(void) {
  uv_stop(L);
}
static uv_async_t keep_h;
static void p_keep(void) { /* as long as nothing was submitted */
  uv_async_init(L, &keep_h, NULL);
}
static void p_cancel(uvs_id_t id) { /* of a task that has not run */
  if (uvs_cancel(S, id, 0) != UVS_NEVER_RUNS)
    die("uvs_cancel");
}
static void p_free(uvs_id_t id) {
  uvs_cancel(S, id, 0);
}
static uvs_id_t p_churn(uvs_id_t id, uint32_t i, uint32_t ms);
static void p_arm_many(uint32_t n, const uint32_t *ms);
static void p_submit(uint32_t i, uint32_t ms);

#include "peers/loopbench.h"
#include "peers/uvbench.h"

/* ---- W1, W2, W3 on the loop, check: tasks that are `after` alone ------------- */
static int on_fire(uvs_run_t *run) {
  fired((uint32_t)(uintptr_t)run->arg);
  return 0;
}
static void submit(const uvs_task_t *t, uvs_id_t *ret) {
  if (uvs_submit(S, t, ret) < 0)
    die("uvs_submit");
}
static uvs_id_t arm_at(uint32_t i, int from, int64_t ns) {
  uvs_task_t t;
  uvs_id_t id;

  uvs_task_init(&t);
  t.after = on_fire;
  t.arg = (void *)(uintptr_t)i;
  t.from = from;
  t.delay_ns = ns;
  submit(&t, &id);
  return id;
}
static uvs_id_t arm_new(uint32_t i, uint32_t ms) {
  return arm_at(i, UVS_FROM_NOW, UVS_MS(ms));
}
static uvs_id_t arm_new_abs(uint32_t i, uint64_t ns) {
  return arm_at(i, UVS_FROM_MONOTONIC, (int64_t)ns);
}
static uvs_id_t p_churn(uvs_id_t id, uint32_t i, uint32_t ms) {
  uvs_cancel(S, id, 0);
  return arm_new(i, ms);
}

/* In batches: a program that has many tasks at once has them in an array of specs. What differs
 * from one task to the next is written in the timed part, the rest of the array beforehand. */
#define BATCH 1024
static void p_arm_many(uint32_t n, const uint32_t *ms) {
  static uvs_task_t t[BATCH];

  if (t[0].size == 0)
    for (int k = 0; k < BATCH; k++) {
      uvs_task_init(&t[k]);
      t[k].after = on_fire;
    }
  for (uint32_t i = 0; i < n; i += BATCH) {
    uint32_t m = n - i < BATCH ? n - i : BATCH;

    for (uint32_t k = 0; k < m; k++) {
      t[k].arg = (void *)(uintptr_t)(i + k);
      t[k].delay_ns = UVS_MS(ms[i + k]);
    }
    if (uvs_submit_many(S, t, m, &T[i]) < 0)
      die("uvs_submit_many");
  }
}

/* ---- W3, W4 on the pool ------------------------------------------------------ */
static int work_empty(uvs_run_t *run) {
  (void)run;
  cell_hit();
  return 0;
}
static void w3_pool(uint32_t n) {
  pthread_t m;
  uint64_t due, armed;
  uvs_task_t t;

  p_open();
  uv_async_init(L, &quit_h, on_quit);
  pool_total = n;
  due = now_ns() + (uint64_t)n * P_ARM_NS + 20000000u;
  due = (due + 999999) / 1000000 * 1000000;
  for (uint32_t i = 0; i < n; i++) {
    uvs_task_init(&t);
    t.work = work_empty;
    t.from = UVS_FROM_MONOTONIC;
    t.delay_ns = (int64_t)due;
    submit(&t, NULL);
  }
  armed = now_ns();
  pthread_create(&m, NULL, monitor, NULL);
  p_run();
  pthread_join(m, NULL);
  if (cell_sum() != n)
    die("w3 pool count");
  emit("fire_ns", (double)(pool_end - (armed > due ? armed : due)) / n);
  emit("armed_late", armed > due);
}

static int w4_on_pool;
static int on_zero(uvs_run_t *run) {
  (void)run;
  w4_done_one();
  return 0;
}
static void p_submit(uint32_t i, uint32_t ms) {
  uvs_task_t t;

  (void)i;
  uvs_task_init(&t);
  if (w4_on_pool)
    t.work = work_empty;
  else
    t.after = on_zero;
  t.delay_ns = UVS_MS(ms);
  submit(&t, NULL);
}
/* Far submissions are accepted when the loop has taken them in. It does so in their order: so a
 * loop task, submitted when the last producer is through, runs after the last of them was taken in.
 */
static int on_last(uvs_run_t *run) {
  (void)run;
  w4_end = now_ns();
  p_break();
  return 0;
}
static void submit_last(void) {
  uvs_task_t t;

  uvs_task_init(&t);
  t.after = on_last;
  submit(&t, NULL);
}
static void w4_any(int on_pool, int p, int rnd, uint32_t total) {
  pthread_t m;
  producer *pr;
  uvs_counts_t c;

  w4_on_pool = on_pool;
  if (!on_pool && !rnd) {
    w4_loop(p, rnd, total);
    return;
  }
  keep_heap();
  p_open();
  uv_async_init(L, &quit_h, on_quit);
  pool_total = total / (uint32_t)p * (uint32_t)p;
  if (rnd)
    w4_last = submit_last;
  pr = w4_start(p, rnd, total);
  if (!rnd)
    pthread_create(&m, NULL, monitor, NULL);
  p_run();
  if (!rnd) {
    pthread_join(m, NULL);
    w4_end = pool_end;
    if (cell_sum() != w4_total)
      die("w4 count");
  } else {
    uvs_counts_init(&c);
    if (uvs_counts(S, &c) < 0 || c.waiting != w4_total)
      die("w4 count");
  }
  w4_report(pr, p);
}

/* ---- W5, W6 ------------------------------------------------------------------ */
static int periodic_on_pool;
static int on_period(uvs_run_t *run) {
  ptask *p = (ptask *)run->arg;

  period_hit(p);
  p->ideal += p->period; /* none is left out: UVS_MISSED_CATCH_UP */
  return 0;
}
static void arm_period(uint32_t i) {
  uvs_task_t t;

  uvs_task_init(&t);
  t.kind = UVS_RATE;
  t.from = UVS_FROM_MONOTONIC;
  t.delay_ns = (int64_t)PT[i].ideal;
  t.period_ns = (int64_t)PT[i].period;
  if (periodic_on_pool)
    t.work = on_period;
  else
    t.after = on_period;
  t.arg = &PT[i];
  submit(&t, NULL);
}
static void w5_any(double secs) {
  samples_make(secs);
  p_open();
  periodic(1000, 0, secs, arm_period);
  w5_report();
}
static void w6_any(uint32_t k, uint32_t period_ms, double secs) {
  p_open();
  periodic(k, period_ms, secs, arm_period);
  w6_report(k, period_ms);
}

/* ---- check, on the pool: cancels meet starts, and each receipt must be true --- */
#define CHECKED 20000
struct checked {
  uint32_t i;
  uint64_t due;
};
static uint32_t cp_ran[CHECKED], cp_want[CHECKED], cp_early;
static int on_checked(uvs_run_t *run) {
  struct checked *c = (struct checked *)run->arg;

  if (now_ns() < c->due)
    __atomic_fetch_add(&cp_early, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&cp_ran[c->i], 1, __ATOMIC_RELAXED);
  cell_hit();
  return 0;
}
static void arm_checked(struct checked *c, uint32_t i, uint32_t ms) {
  c->i = i;
  c->due = now_ns() + ms * 1000000ull;
  if (uvs_schedule(S, UVS_MS(ms), on_checked, c, &T[i]) < 0)
    die("uvs_schedule");
  cp_want[i]++;
}
static void check_pool(void) {
  struct checked *c = (struct checked *)calloc(2 * CHECKED, sizeof *c);
  uint64_t s = 6, cancelled = 0, want = 0, stop;

  p_open();
  T = (uvs_id_t *)malloc(CHECKED * sizeof *T);
  for (uint32_t i = 0; i < CHECKED; i++)
    arm_checked(&c[i], i, below(mix64(&s), 100));
  for (uint32_t k = 0; k < CHECKED; k++) { /* over a fifth of a second */
    uint32_t i = below(mix64(&s), CHECKED);

    if (k % 100 == 0) {
      p_pump();
      nap_us(1000);
    }
    if (uvs_cancel(S, T[i], 0) == UVS_NEVER_RUNS) {
      cp_want[i]--;
      cancelled++;
    }
    arm_checked(&c[CHECKED + k], i, below(mix64(&s), 100));
  }
  for (uint32_t i = 0; i < CHECKED; i++)
    want += cp_want[i];
  stop = now_ns() + 200000000u; /* all are due by then; a machine that is held up gets more time */
  do {
    p_pump();
    nap_us(500);
  } while (now_ns() < stop || (cell_sum() < want && now_ns() < stop + 10000000000u));
  for (uint32_t i = 0; i < CHECKED; i++)
    if (__atomic_load_n(&cp_ran[i], __ATOMIC_RELAXED) != cp_want[i])
      die("check: a task on the pool ran a wrong number of times");
  if (cp_early)
    die("check: a task on the pool started early");
  emit("check_pool_cancelled", (double)cancelled);
}

int main(int argc, char **argv) {
  const char *w = argc > 1 ? argv[1] : "", *v = argc > 2 ? argv[2] : "";
  int pool = !strcmp(v, "pool");

  if (argc > 3 && !pool && strcmp(v, "loop") && !strncmp(w, "w", 1) && strcmp(w, "w12"))
    return 2;
  periodic_on_pool = pool;
  setenv("UV_THREADPOOL_SIZE", "2", 0);
  if (!strcmp(w, "check")) {
    w_check();
    check_pool();
  } else if (!strcmp(w, "w3") && pool && argc > 3)
    w3_pool((uint32_t)strtoul(argv[3], NULL, 10));
  else if (!strcmp(w, "w4") && argc > 5)
    w4_any(pool, atoi(argv[3]), !strcmp(argv[4], "rand"), (uint32_t)strtoul(argv[5], NULL, 10));
  else if (!strcmp(w, "w5") && argc > 3)
    w5_any(atof(argv[3]));
  else if (!strcmp(w, "w6") && argc > 5)
    w6_any((uint32_t)strtoul(argv[3], NULL, 10), (uint32_t)atoi(argv[4]), atof(argv[5]));
  else
    return loop_main(argc, argv);
  fflush(stdout);
  _exit(0);
}
