/* SPDX-License-Identifier: MIT
 *
 * uvsched's row in the comparison: only the public API, with default options except for the
 * concurrency, which is 2 as for every other pool here (W7: the default as well).
 *
 * A task is one uvs_submit. Its spec is built anew for each task, as in a program that schedules
 * from different places. Its id is the handle, and is stored in the table of handles. */
#include "peers/bench.h"
#include <uvsched.h>
#include <uvsched/stats.h>
#include <uvsched/lane.h>

static uv_loop_t *L;
static uvs_t *S;
static int concurrency = 2;
static int64_t precise_ns;

#define P_NAME "uvsched"
#define P_ARM_NS 300
#define P_HANDLE uvs_id_t
#define P_NATIVE_SUBMIT
#define P_MANY
#define P_EARLY_NS 0 /* never early, as promised */

static void open_scheduler(void) { /* on L */
  uvs_options_t o;

  uvs_options_init(&o);
  o.concurrency = concurrency;
  o.precise_ns = precise_ns;
  if (uvs_open(L, &o, &S) < 0)
    die("uvs_open");
}
static void p_open(void) {
  L = (uv_loop_t *)malloc(sizeof *L);
  uv_loop_init(L);
  open_scheduler();
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
  if (uvs_cancel(S, id, 0) != UVS_CANCELLED)
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

/* ---- the end of a scheduler, and its counts ---------------------------------- */
static int closed;
static void on_closed(uvs_t *s) {
  (void)s;
  closed = 1;
}
static void close_scheduler(void) {
  closed = 0;
  uvs_close(S, on_closed);
  while (!closed)
    uv_run(L, UV_RUN_ONCE);
}
/* Closes the scheduler, then the loop. Other handles must be closing already. */
static void p_close(void) {
  close_scheduler();
  p_run();
  if (uv_loop_close(L))
    die("a handle is left on the loop");
  free(L);
}
/* The counts after the loop has processed everything. */
static uvs_counts_t settled_counts(void) {
  uint64_t stop = now_ns() + 10000000000u;
  uvs_counts_t c;

  do {
    p_pump();
    uvs_counts_init(&c);
    if (uvs_counts(S, &c) < 0)
      die("uvs_counts");
    if (c.waiting + c.ready + c.running == 0)
      return c;
    nap_us(200);
  } while (now_ns() < stop);
  die("a task is neither finished nor cancelled");
  return c;
}

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
  t.first_ns = ns;
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

/* In batches: a program that has many tasks at once has them in an array of specs. The fields that
 * differ between tasks are written in the timed part, the other fields beforehand. */
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
      t[k].first_ns = UVS_MS(ms[i + k]);
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
    t.first_ns = (int64_t)due;
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
static uvs_id_t *w4_ids; /* where the ids go, or NULL */
static int on_zero(uvs_run_t *run) {
  (void)run;
  w4_done_one();
  return 0;
}
static void p_submit(uint32_t i, uint32_t ms) {
  uvs_task_t t;

  uvs_task_init(&t);
  if (w4_on_pool)
    t.work = work_empty;
  else
    t.after = on_zero;
  t.first_ns = UVS_MS(ms);
  submit(&t, w4_ids ? &w4_ids[i] : NULL);
}
/* A submission from another thread counts as accepted when the loop has taken it from the inbox.
 * The loop does so in order. So a loop task that is submitted after the last producer has finished
 * runs after the last of them was taken. */
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
/* Runs the workload once. The producers are not joined yet. */
static producer *w4_pass(int p, int rnd, uint32_t total) {
  pthread_t m;
  producer *pr;
  uvs_counts_t c;

  pool_total = cell_sum() + total / (uint32_t)p * (uint32_t)p;
  w4_last = rnd ? submit_last : NULL;
  w4_go = 0;
  pr = w4_start(p, rnd, total);
  if (!rnd)
    pthread_create(&m, NULL, monitor, NULL);
  p_run();
  if (!rnd) {
    pthread_join(m, NULL);
    w4_end = pool_end;
    if (cell_sum() != pool_total)
      die("w4 count");
  } else {
    uvs_counts_init(&c);
    if (uvs_counts(S, &c) < 0 || c.waiting != w4_total)
      die("w4 count");
  }
  return pr;
}
static void w4_any(int on_pool, int p, int rnd, uint32_t total) {
  w4_on_pool = on_pool;
  if (!on_pool && !rnd) {
    w4_loop(p, rnd, total);
    return;
  }
  keep_heap();
  p_open();
  uv_async_init(L, &quit_h, on_quit);
  w4_report(w4_pass(p, rnd, total), p);
}

/* W4 warm, on the pool: the same scheduler runs the workload twice, and the second time counts.
 * Tasks with far deadlines are cancelled in between, untimed. */
static producer *w4_warm(int p, int rnd, uint32_t total) {
  uvs_id_t *ids = (uvs_id_t *)calloc(total, sizeof *ids);
  uvs_counts_t c;
  producer *pr;

  w4_on_pool = 1;
  keep_heap();
  p_open();
  uv_async_init(L, &quit_h, on_quit);
  w4_ids = ids;
  pr = w4_pass(p, rnd, total);
  w4_ids = NULL;
  for (int i = 0; i < p; i++)
    pthread_join(pr[i].th, NULL);
  free(pr);
  for (uint64_t i = 0; rnd && i < w4_total; i++)
    p_cancel(ids[i]);
  free(ids);
  c = settled_counts();
  /* beside those of the producers, one task of submit_last */
  if (c.submitted != w4_total + (rnd ? 1 : 0) || c.cancelled != (rnd ? w4_total : 0) ||
      c.completed != c.submitted - c.cancelled)
    die("w4 warm: the counts are not those of the first time");
  return w4_pass(p, rnd, total);
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
  t.kind = UVS_FIXED_RATE;
  t.from = UVS_FROM_MONOTONIC;
  t.first_ns = (int64_t)PT[i].ideal;
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

/* ---- W7 neighbour -------------------------------------------------------------- */
static int on_w7(uvs_run_t *run) {
  if (w7_body())
    uvs_execute(run->scheduler, on_w7, NULL);
  return 0;
}
static void w7_start(void) {
  if (uvs_execute(S, on_w7, NULL) < 0)
    die("uvs_execute");
}

/* ---- W8 push-back ---------------------------------------------------------------- */
static void w8_reschedule(uint32_t i) {
  if (uvs_reschedule(S, T[i], UVS_MS(W8_MS)) < 0)
    die("uvs_reschedule");
}
static int on_w8_last(uvs_run_t *run) {
  (void)run;
  w8_end = now_ns();
  p_break();
  return 0;
}
static void w8_last(void) { /* as in W4: the loop takes submissions in order */
  uvs_task_t t;

  uvs_task_init(&t);
  t.after = on_w8_last;
  submit(&t, NULL);
}
static void w8_any(int on_loop, uint32_t n, double secs) {
  uint64_t s = 7;

  keep_heap();
  T = (uvs_id_t *)malloc((size_t)n * sizeof *T);
  fired = fired_count;
  p_open();
  w8_n = n;
  w8_secs = secs;
  w8_push = w8_reschedule;
  w8_last_push = on_loop ? NULL : w8_last;
  for (uint32_t i = 0; i < n; i++)
    T[i] = arm_new(i, w8_first_ms(&s));
  w8();
}

/* ---- W9 exit ----------------------------------------------------------------------- */
static int w9_started;
static uint32_t w9_ended;
static int on_w9(uvs_run_t *run) {
  (void)run;
  __atomic_store_n(&w9_started, 1, __ATOMIC_RELAXED);
  nap_us(1000);
  cell_hit();
  return 0;
}
static void w9_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)s;
  (void)id;
  (void)status;
  (void)arg;
  w9_ended++;
}
static void w9(uint32_t n) {
  uvs_task_t t;
  uint64_t t0;

  p_open();
  for (uint32_t i = 0; i < n; i++) {
    uvs_task_init(&t);
    t.work = on_w9;
    t.done = w9_done;
    submit(&t, NULL);
  }
  while (!__atomic_load_n(&w9_started, __ATOMIC_RELAXED))
    p_pump();
  t0 = now_ns();
  uvs_close(S, on_closed);
  p_run();
  if (uv_loop_close(L) || !closed || w9_ended != n)
    die("w9: some tasks have not ended");
  emit("close_ms", (double)(now_ns() - t0) / 1e6);
  emit("ran", (double)cell_sum());
}

/* ---- W10 lanes ------------------------------------------------------------------------ */
static uvs_lane_t *lanes;
static uint32_t lanes_n;
static uint64_t w10_t0;
static void lanes_open(uint32_t n) {
  lanes_n = n;
  lanes = (uvs_lane_t *)malloc(n * sizeof *lanes);
  for (uint32_t i = 0; i < n; i++)
    if (uvs_lane_open(S, NULL, &lanes[i]) < 0)
      die("uvs_lane_open");
}
static void lane_submit(uint32_t lane, uvs_work_cb work, uint32_t i) {
  uvs_task_t t;

  uvs_task_init(&t);
  t.work = work;
  t.arg = (void *)(uintptr_t)i;
  t.lane = lanes[lane];
  submit(&t, NULL);
}
static void *w10_producer(void *a) {
  (void)a;
  nap_us(5000); /* the loop is in its wait by now */
  w10_t0 = now_ns();
  for (uint32_t i = 0; i < pool_total; i++)
    lane_submit(i % lanes_n, work_empty, i);
  return NULL;
}
static void w10(int on_loop, uint32_t n, uint32_t total) {
  pthread_t m, th;

  keep_heap();
  p_open();
  uv_async_init(L, &quit_h, on_quit);
  pool_total = total;
  lanes_open(n);
  p_pump();
  pthread_create(&m, NULL, monitor, NULL);
  if (on_loop) {
    w10_t0 = now_ns();
    for (uint32_t i = 0; i < total; i++)
      lane_submit(i % lanes_n, work_empty, i);
  } else
    pthread_create(&th, NULL, w10_producer, NULL);
  p_run();
  pthread_join(m, NULL);
  if (!on_loop)
    pthread_join(th, NULL);
  if (cell_sum() != total)
    die("w10 count");
  emit("lane_ns", (double)(pool_end - w10_t0) / total);
}

/* ---- W11 flood, W12 ageing ---------------------------------------------------------------- */
#include "flood.h"
#include "ageing.h"

/* ---- check: lanes keep their order ------------------------------------------------------ */
/* Ten tasks in a row for each lane, so that two of one lane are neighbours when runners look for
 * work. */
static uint32_t lane_next[100], lane_inside[100], lane_wrong;
static int on_lane(uvs_run_t *run) {
  uint32_t i = (uint32_t)(uintptr_t)run->arg, l = i / 10 % lanes_n;

  if (__atomic_fetch_add(&lane_inside[l], 1, __ATOMIC_RELAXED) != 0 ||
      lane_next[l] != i / (10 * lanes_n) * 10 + i % 10)
    __atomic_store_n(&lane_wrong, 1, __ATOMIC_RELAXED);
  if (i % 16 == 0)
    nap_us(20);   /* the other runner is awake by then */
  lane_next[l]++; /* plain memory: a lane's tasks see what the ones before have written */
  __atomic_fetch_sub(&lane_inside[l], 1, __ATOMIC_RELAXED);
  cell_hit();
  return 0;
}
static void check_lanes(void) {
  uint64_t before = cell_sum(), stop = now_ns() + 10000000000u;

  p_open();
  lanes_open(100);
  for (uint32_t i = 0; i < 20000; i++)
    lane_submit(i / 10 % lanes_n, on_lane, i);
  while (cell_sum() < before + 20000 && now_ns() < stop) {
    p_pump();
    nap_us(100);
  }
  nap_us(5000);
  p_pump();
  if (cell_sum() != before + 20000 || lane_wrong)
    die("check: a lane lost a task, or its order");
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
    if (uvs_cancel(S, T[i], 0) == UVS_CANCELLED) {
      cp_want[i]--;
      cancelled++;
    }
    arm_checked(&c[CHECKED + k], i, below(mix64(&s), 100));
  }
  for (uint32_t i = 0; i < CHECKED; i++)
    want += cp_want[i];
  stop = now_ns() + 200000000u; /* all are due by then; a slow machine gets more time */
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

/* ---- check: W4 warm, W11 and W12 do what they time. Each dies if it did not. ------------- */
static void check_warm(int rnd) {
  producer *pr = w4_warm(2, rnd, 20000);

  for (int i = 0; i < 2; i++)
    pthread_join(pr[i].th, NULL);
  uv_close((uv_handle_t *)&quit_h, NULL);
  p_close();
}
static void check_new(void) {
  check_warm(0);
  check_warm(1);
  flood(0, 0.2);
  flood(1, 0.2);
  ageing(0, 5000, 2);
  ageing(1, 5000, 2);
}

int main(int argc, char **argv) {
  const char *w = argc > 1 ? argv[1] : "", *v = argc > 2 ? argv[2] : "";
  int pool = !strcmp(v, "pool"), loop = !strcmp(v, "loop");
  uint32_t n = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0;

  if (!strcmp(w, "w5") && !strncmp(v, "precise-", 8)) {
    pool = !strcmp(v, "precise-pool");
    loop = !strcmp(v, "precise-loop");
    precise_ns = pool ? UVS_US(60) : UVS_US(20); /* see README.md */
  }

  if (!strcmp(w, "w7")) {
    unsetenv("UV_THREADPOOL_SIZE"); /* the default */
    concurrency = -1;
  } else
    setenv("UV_THREADPOOL_SIZE", "2", 0);
  if (!strcmp(w, "check")) {
    alarm(120); /* the program would wait for a lost task without end */
    w_check();
    check_pool();
    check_lanes();
    check_new();
  } else if (!strcmp(w, "w3") && pool && argc > 3)
    w3_pool(n);
  else if (!strcmp(w, "w4") && (pool || loop) && argc > 5)
    w4_any(pool, (int)n, !strcmp(argv[4], "rand"), (uint32_t)strtoul(argv[5], NULL, 10));
  else if (!strcmp(w, "w4warm") && pool && argc > 5)
    w4_report(w4_warm((int)n, !strcmp(argv[4], "rand"), (uint32_t)strtoul(argv[5], NULL, 10)),
              (int)n);
  else if (!strcmp(w, "w5") && (pool || loop) && argc > 3) {
    periodic_on_pool = pool;
    w5_any(atof(argv[3]));
  } else if (!strcmp(w, "w6") && (pool || loop) && argc > 5) {
    periodic_on_pool = pool;
    w6_any(n, (uint32_t)atoi(argv[4]), atof(argv[5]));
  } else if (!strcmp(w, "w7") && argc > 3)
    w7(v, atof(argv[3]), w7_start);
  else if (!strcmp(w, "w8") && argc > 4)
    w8_any(loop, n, atof(argv[4]));
  else if (!strcmp(w, "w9") && argc == 3)
    w9((uint32_t)strtoul(v, NULL, 10));
  else if (!strcmp(w, "w10") && argc > 4)
    w10(loop, n, (uint32_t)strtoul(argv[4], NULL, 10));
  else if (!strcmp(w, "w11") && (!strcmp(v, "flat") || !strcmp(v, "paced")) && argc > 3) {
    flood(!strcmp(v, "paced"), atof(argv[3]));
    flood_report();
  } else if (!strcmp(w, "ageing") && (pool || loop) && argc > 4) {
    ageing(pool, n, (uint32_t)strtoul(argv[4], NULL, 10));
    ageing_report();
  } else
    return loop_main(argc, argv);
  fflush(stdout);
  _exit(0);
}
