/* SPDX-License-Identifier: MIT
 *
 * Peer: libuv. One uv_timer_t per task; pool rows: the timer callback does one
 * uv_queue_work per task. -DFRESH: W2 closes the old handle and mallocs a new
 * one (a new task object per arm, as Java/Go do) instead of stop+start. */
#include "bench.h"
#include <uv.h>

typedef struct task {
  uv_timer_t h;
  uint32_t i;
  uint32_t w_ms;
  struct task *w_next;
} task;
typedef struct {
  task t;
  uv_work_t req;
} ptask_h; /* pool rows: timer and work request in one block */

static uv_loop_t *L;
static uv_async_t wake_h;
static void (*on_timer)(task *);
static void cb(uv_timer_t *h);

#define P_NAME "libuv"
#define P_ARM_NS 450
static void p_init(task *t, uint32_t i) {
  uv_timer_init(L, &t->h);
  t->i = i;
}
static task *p_new(uint32_t i) {
  task *t = (task *)malloc(sizeof *t);
  p_init(t, i);
  return t;
}
static void p_arm(task *t, uint32_t ms) {
  uv_timer_start(&t->h, cb, ms, 0);
}
static void p_arm_abs(task *t, uint64_t ns) {
  uint64_t ms = (ns + 999999) / 1000000, n = uv_now(L);
  uv_timer_start(&t->h, cb, ms > n ? ms - n : 0, 0);
}
static void p_cancel(task *t) {
  uv_timer_stop(&t->h);
}
static void closed(uv_handle_t *h) {
  free(h);
}
static void p_free(task *t) {
  uv_close((uv_handle_t *)&t->h, closed);
}
static task *p_churn(task *t, uint32_t i, uint32_t ms) {
#ifdef FRESH
  p_free(t);
  t = p_new(i);
#else
  (void)i;
  uv_timer_stop(&t->h);
#endif
  uv_timer_start(&t->h, cb, ms, 0);
  return t;
}
static void p_open(void) {
  static uv_loop_t loop;
  L = &loop;
  uv_loop_init(L);
  uv_update_time(L);
}
static void p_pump(void) {
  uv_run(L, UV_RUN_NOWAIT);
}
static void p_run(void) {
  uv_update_time(L);
  uv_run(L, UV_RUN_DEFAULT);
}
static void p_break(void) {
  uv_stop(L);
}
static void p_wake(void) {
  uv_async_send(&wake_h);
}
static void on_wake(uv_async_t *h);
static void p_keep(void) {
  uv_async_init(L, &wake_h, on_wake);
}

#include "loopbench.h"
#include "uvbench.h"

static void on_wake(uv_async_t *h) {
  (void)h;
  drain_submitted();
}
static void cb(uv_timer_t *h) {
  task *t = (task *)h;
  if (on_timer)
    on_timer(t);
  else
    fired(t->i);
}

/* ---- pool variants ---------------------------------------------------------- */
static void w_empty(uv_work_t *r) {
  (void)r;
  cell_hit();
}
static void w_after(uv_work_t *r, int st) {
  (void)st;
  (void)r;
}
static void timer_to_pool(task *t) {
  ptask_h *p = (ptask_h *)t;
  uv_queue_work(L, &p->req, w_empty, w_after);
}
static ptask_h *pool_new(uint32_t i) {
  ptask_h *p = (ptask_h *)malloc(sizeof *p);
  p_init(&p->t, i);
  return p;
}
static void w3_pool(uint32_t n) {
  pthread_t m;
  T = (handle *)malloc((size_t)n * sizeof *T);
  p_open();
  uv_async_init(L, &quit_h, on_quit);
  on_timer = timer_to_pool;
  pool_total = n;
  uint64_t due = now_ns() + (uint64_t)n * P_ARM_NS + 20000000u;
  due = (due + 999999) / 1000000 * 1000000;
  for (uint32_t i = 0; i < n; i++) {
    T[i] = &pool_new(i)->t;
    p_arm_abs(T[i], due);
  }
  uint64_t armed = now_ns();
  pthread_create(&m, NULL, monitor, NULL);
  p_run();
  pthread_join(m, NULL);
  if (cell_sum() != n)
    die("w3 pool count");
  emit("fire_ns", (double)(pool_end - (armed > due ? armed : due)) / n);
  emit("armed_late", armed > due);
}

typedef struct {
  uv_work_t r;
} w4req;
static void w4_after(uv_work_t *r, int st) {
  (void)st;
  free(r);
}
static void w4_run0_pool(task *t) {
  w4req *q = (w4req *)malloc(sizeof *q);
  free(t);
  uv_queue_work(L, &q->r, w_empty, w4_after);
}
static void w4_pool(int p, int rnd, uint32_t total) {
  pthread_t m;
  if (rnd) { /* nothing reaches the pool within the run */
    w4_loop(p, rnd, total);
    return;
  }
  keep_heap();
  p_open();
  p_keep();
  uv_async_init(L, &quit_h, on_quit);
  w4_run0 = w4_run0_pool;
  pool_total = total / (uint32_t)p * (uint32_t)p;
  producer *pr = w4_start(p, rnd, total);
  pthread_create(&m, NULL, monitor, NULL);
  p_run();
  pthread_join(m, NULL);
  w4_end = pool_end;
  if (cell_sum() != w4_total)
    die("w4 pool count");
  w4_report(pr, p);
}

static void wp_work(uv_work_t *r) {
  ptask_h *h = (ptask_h *)((char *)r - offsetof(ptask_h, req));
  period_hit(&PT[h->t.i]);
}
static void wp_after(uv_work_t *r, int st) {
  (void)st;
  ptask_h *h = (ptask_h *)((char *)r - offsetof(ptask_h, req));
  ptask *p = &PT[h->t.i];
  p->ideal += p->period;
  p_arm_abs(&h->t, p->ideal);
}
static void wp_timer(task *t) {
  uv_queue_work(L, &((ptask_h *)t)->req, wp_work, wp_after);
}
static void wp_arm(uint32_t i) {
  p_arm_abs(&pool_new(i)->t, PT[i].ideal);
}
static void w5_pool(double secs) {
  samples_make(secs);
  p_open();
  on_timer = wp_timer;
  periodic(1000, 0, secs, wp_arm);
  w5_report();
}
static void w6_pool(uint32_t k, uint32_t period_ms, double secs) {
  p_open();
  on_timer = wp_timer;
  periodic(k, period_ms, secs, wp_arm);
  w6_report(k, period_ms);
}

/* libuv's own repeating timer, for the drift it shows */
static void rep_cb(uv_timer_t *h) {
  task *t = (task *)h;
  ptask *p = &PT[t->i];
  uint64_t now = now_ns();
  p->last = (int64_t)(now - p->ideal);
  sample_add(p->last, (uint32_t)((now - w_t0) / win_ns));
  n_fired++;
  p->ideal += p->period;
  if (now >= w_stop)
    uv_stop(L);
}
static void w5_repeat(double secs) {
  uint32_t k = 1000;
  samples_make(secs);
  p_open();
  w_t0 = now_ns() + 20000000u;
  w_stop = w_t0 + (uint64_t)(secs * 1e9);
  win_ns = (uint64_t)(secs * 1e9 / 5);
  PT = periodic_set(k, 0, w_t0);
  for (uint32_t i = 0; i < k; i++) {
    task *t = p_new(i);
    uint64_t ms = (PT[i].ideal + 999999) / 1000000, n = uv_now(L);
    uv_timer_start(&t->h, rep_cb, ms - n, PT[i].period / 1000000);
  }
  uint64_t c0 = cpu_ns();
  p_run();
  emit("cpu_ms", (double)(cpu_ns() - c0) / 1e6);
  emit("execs", (double)n_fired);
  samples_report(5);
  drift_report(PT, k);
}

int main(int argc, char **argv) {
  const char *w = argc > 2 ? argv[1] : "", *v = argc > 2 ? argv[2] : "";
  setenv("UV_THREADPOOL_SIZE", "2", 0);
  if (!strcmp(v, "pool")) {
    if (!strcmp(w, "w3"))
      w3_pool((uint32_t)strtoul(argv[3], NULL, 10));
    else if (!strcmp(w, "w4") && argc > 5)
      w4_pool(atoi(argv[3]), !strcmp(argv[4], "rand"), (uint32_t)strtoul(argv[5], NULL, 10));
    else if (!strcmp(w, "w5"))
      w5_pool(atof(argv[3]));
    else if (!strcmp(w, "w6") && argc > 5)
      w6_pool((uint32_t)strtoul(argv[3], NULL, 10), (uint32_t)atoi(argv[4]), atof(argv[5]));
    fflush(stdout);
    _exit(0);
  }
  if (!strcmp(w, "w5") && !strcmp(v, "repeat")) {
    w5_repeat(atof(argv[3]));
    fflush(stdout);
    _exit(0);
  }
  return loop_main(argc, argv);
}
