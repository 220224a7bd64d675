/* SPDX-License-Identifier: MIT
 *
 * What the rows on a libuv loop, libuv's own and uvsched's, measure in the same way: the end of a
 * burst on the pool, the window of W5 and W6. Included after loopbench.h; needs the loop, L. */
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
/* A start of task p, now: its lateness by the grid that was asked for. */
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
#endif
