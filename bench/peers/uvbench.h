/* SPDX-License-Identifier: MIT
 *
 * What both rows on a libuv loop, libuv's own and uvsched's, measure in the same way: the end of a
 * burst on the pool, the window of W5 and W6, W7 and W8. Included after loopbench.h. Needs the
 * loop, L. */
#ifndef UVBENCH_H
#define UVBENCH_H

static uv_async_t quit_h;
static void on_quit(uv_async_t *h) {
  (void)h;
  uv_stop(L);
}

/* ---- W3, W4 on the pool ----------------------------------------------------- */
static uint64_t pool_end, pool_total;
static void *monitor(void *a) { /* sees the last execution within 0.2 ms */
  (void)a;
  while (cell_sum() < pool_total)
    nap_us(200);
  pool_end = now_ns();
  uv_async_send(&quit_h);
  return NULL;
}

/* ---- W5, W6 ----------------------------------------------------------------- */
static double stop_after;
static uint64_t wc0, wc1, we0, we1, wt0, wt1;
static void *stopper(void *a) {
  (void)a;
  while (now_ns() < w_t0)
    nap_us(500);
  wt0 = now_ns();
  wc0 = cpu_ns();
  we0 = cell_sum();
  while ((double)(now_ns() - w_t0) < stop_after * 1e9)
    nap_us(2000);
  wt1 = now_ns();
  wc1 = cpu_ns();
  we1 = cell_sum();
  uv_async_send(&quit_h);
  return NULL;
}
/* Task p starts now: records its lateness relative to its grid. */
static void period_hit(ptask *p) {
  uint64_t now = now_ns();
  p->last = (int64_t)(now - p->ideal);
  if (samples)
    sample_add(p->last, now < w_t0 ? 0 : (uint32_t)((now - w_t0) / win_ns));
  cell_hit();
}
/* Arms k tasks by arm(i) and runs the loop for the window. */
static void periodic(uint32_t k, uint32_t period_ms, double secs, void (*arm)(uint32_t i)) {
  pthread_t m;
  uv_async_init(L, &quit_h, on_quit);
  stop_after = secs;
  w_t0 = now_ns() + 20000000u + (uint64_t)k * P_ARM_NS;
  win_ns = (uint64_t)(secs * 1e9 / 5);
  PT = periodic_set(k, period_ms, w_t0);
  for (uint32_t i = 0; i < k; i++)
    arm(i);
  pthread_create(&m, NULL, stopper, NULL);
  p_run();
  pthread_join(m, NULL);
}
static void w5_report(void) {
  emit("cpu_ms", (double)(wc1 - wc0) / 1e6);
  emit("execs", (double)(we1 - we0));
  samples_report(5);
  drift_report(PT, 1000);
}
static void w6_report(uint32_t k, uint32_t period_ms) {
  emit("keepup", (double)(we1 - we0) / ((double)(wt1 - wt0) / 1e6 / period_ms * k));
  emit("cpu_s_per_M", (double)(wc1 - wc0) / 1e9 / (double)(we1 - we0) * 1e6);
}

/* ---- W7 neighbour ------------------------------------------------------------ */
static int w7_over;               /* no further bodies are submitted */
static uint32_t w7_spin;          /* iterations that take half a millisecond; 0: bodies block */
static volatile uint64_t w7_sink; /* keeps the compiler from removing them */
static uint64_t w7_stop, w7_last, w7_bodies;
static int64_t *w7_stats, *w7_beats;
static uint64_t w7_stats_n, w7_beats_n, w7_cap, w7_out;

static uint64_t w7_turns(uint32_t n) {
  uint64_t s = 1, sum = 0;
  while (n--)
    sum += mix64(&s);
  return sum;
}
/* A body. Returns 1 if another one is to follow. */
static int w7_body(void) {
  if (w7_spin)
    w7_sink = w7_turns(w7_spin);
  else
    nap_us(500);
  cell_hit();
  return !__atomic_load_n(&w7_over, __ATOMIC_RELAXED);
}
static void w7_calibrate(void) {
  uint64_t best = UINT64_MAX;
  for (int r = 0; r < 20; r++) {
    uint64_t t0 = now_ns(), ns;
    w7_sink = w7_turns(200000);
    ns = now_ns() - t0;
    best = ns < best ? ns : best;
  }
  w7_spin = (uint32_t)(200000 * UINT64_C(500000) / best);
}
typedef struct {
  uv_fs_t req;
  uint64_t t0;
} w7_stat;
static void w7_end(void) {
  if (w7_over && w7_out == 0)
    uv_stop(L);
}
static void on_stat(uv_fs_t *req) {
  w7_stat *q = (w7_stat *)req;
  if (w7_stats_n < w7_cap)
    w7_stats[w7_stats_n++] = (int64_t)(now_ns() - q->t0);
  uv_fs_req_cleanup(req);
  free(q);
  w7_out--;
  w7_end();
}
static void on_beat(uv_timer_t *h) {
  uint64_t now = now_ns();
  if (w7_last && w7_beats_n < w7_cap)
    w7_beats[w7_beats_n++] = (int64_t)(now - w7_last) - 1000000;
  w7_last = now;
  if (now >= w7_stop) {
    uv_timer_stop(h);
    w7_bodies = cell_sum();
    __atomic_store_n(&w7_over, 1, __ATOMIC_RELAXED);
    w7_end();
    return;
  }
  w7_stat *q = (w7_stat *)malloc(sizeof *q);
  q->t0 = now_ns();
  w7_out++;
  uv_fs_stat(L, &q->req, ".", on_stat);
}
static void w7_emit(const char *what, int64_t *v, uint64_t n) {
  char name[32];
  if (n == 0)
    die("w7: no sample");
  qsort(v, n, sizeof *v, cmp_i64);
  snprintf(name, sizeof name, "%s_p50_us", what);
  emit(name, quantile_us(v, n, 0.5));
  snprintf(name, sizeof name, "%s_p99_us", what);
  emit(name, quantile_us(v, n, 0.99));
}
/* start() submits one body, which is followed by another while w7_body returns 1. */
static void w7(const char *kind, double secs, void (*start)(void)) {
  static uv_timer_t beat_h;
  w7_cap = (uint64_t)(secs * 1000) + 100;
  w7_stats = (int64_t *)calloc(w7_cap, sizeof *w7_stats);
  w7_beats = (int64_t *)calloc(w7_cap, sizeof *w7_beats);
  if (!strcmp(kind, "cpu"))
    w7_calibrate();
  p_open();
  uv_async_init(L, &quit_h, on_quit); /* keeps the loop alive */
  if (strcmp(kind, "idle"))
    for (int i = 0; i < 2000; i++)
      start();
  uv_update_time(L);
  uv_timer_init(L, &beat_h);
  uv_timer_start(&beat_h, on_beat, 1, 1);
  w7_stop = now_ns() + (uint64_t)(secs * 1e9);
  p_run();
  w7_emit("stat", w7_stats, w7_stats_n);
  w7_emit("beat", w7_beats, w7_beats_n);
  emit("bodies_per_s", (double)w7_bodies / secs);
}

/* ---- W8 push-back ------------------------------------------------------------ */
#define W8_MS 2000 /* the time-out that each task is postponed by */
static void (*w8_push)(uint32_t i);
static void (*w8_last_push)(void); /* from another thread: the loop notes w8_end and stops */
static uint32_t w8_n;
static double w8_secs;
static uint64_t w8_end, w8_t0, w8_t1, w8_pushed;

static void w8_pushes(void) {
  uint64_t s = 8;
  int on_loop = w8_last_push == NULL;
  for (uint32_t i = 0; i < w8_n; i++) { /* untimed: each once, before any is due */
    w8_push(i);
    if (on_loop && i % 256 == 0)
      p_pump();
  }
  w8_t0 = now_ns();
  do {
    for (int k = 0; k < 256; k++)
      w8_push(below(mix64(&s), w8_n));
    w8_pushed += 256;
    if (on_loop)
      p_pump();
    w8_t1 = now_ns();
  } while ((double)(w8_t1 - w8_t0) < w8_secs * 1e9);
  if (!on_loop)
    w8_last_push();
}
static void *w8_thread(void *a) {
  (void)a;
  nap_us(5000); /* the loop is in its wait by now */
  w8_pushes();
  return NULL;
}
/* All n tasks are armed, due in 0.4 .. 2 s, so that some of the old deadlines pass during the
 * run. */
static void w8(void) {
  pthread_t th;
  if (w8_last_push == NULL) {
    w8_pushes();
    w8_end = w8_t1;
  } else {
    pthread_create(&th, NULL, w8_thread, NULL);
    p_run();
    pthread_join(th, NULL);
  }
  if (n_fired)
    die("w8: one fired that was pushed back");
  emit("push_ns", (double)(w8_t1 - w8_t0) / (double)w8_pushed);
  emit("total_ns", (double)(w8_end - w8_t0) / (double)w8_pushed);
}
static uint32_t w8_first_ms(uint64_t *s) {
  return W8_MS / 5 + below(mix64(s), W8_MS * 4 / 5);
}
#endif
