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

/* ---- W7 neighbour: one uv_queue_work per body -------------------------------- */
static void w7_work(uv_work_t *r) {
  r->data = w7_body() ? r : NULL;
}
static void w7_after(uv_work_t *r, int st) {
  (void)st;
  if (r->data)
    uv_queue_work(L, r, w7_work, w7_after);
  else
    free(r);
}
static void w7_start(void) {
  uv_work_t *r = (uv_work_t *)malloc(sizeof *r);
  uv_queue_work(L, r, w7_work, w7_after);
}

/* ---- W8 push-back: uv_timer_again; another thread has a list and an async ------ */
typedef struct w8_node {
  task *t; /* NULL: the last */
  struct w8_node *next;
} w8_node;
static w8_node *w8_head, **w8_tail = &w8_head;
static void w8_again(uint32_t i) {
  uv_timer_again(&T[i]->h);
}
static void w8_enqueue(task *t) {
  w8_node *q = (w8_node *)malloc(sizeof *q);
  q->t = t;
  q->next = NULL;
  pthread_mutex_lock(&q_mu);
  *w8_tail = q;
  w8_tail = &q->next;
  pthread_mutex_unlock(&q_mu);
  uv_async_send(&wake_h);
}
static void w8_far(uint32_t i) {
  w8_enqueue(T[i]);
}
static void w8_far_last(void) {
  w8_enqueue(NULL);
}
static void w8_wake(uv_async_t *h) {
  (void)h;
  pthread_mutex_lock(&q_mu);
  w8_node *q = w8_head;
  w8_head = NULL;
  w8_tail = &w8_head;
  pthread_mutex_unlock(&q_mu);
  while (q) {
    w8_node *nx = q->next;
    if (q->t)
      uv_timer_again(&q->t->h);
    else {
      w8_end = now_ns();
      uv_stop(L);
    }
    free(q);
    q = nx;
  }
}
static void w8_any(int on_loop, uint32_t n, double secs) {
  uint64_t s = 7;
  keep_heap();
  T = (handle *)malloc((size_t)n * sizeof *T);
  fired = fired_count;
  p_open();
  uv_async_init(L, &wake_h, w8_wake);
  w8_n = n;
  w8_secs = secs;
  w8_push = on_loop ? w8_again : w8_far;
  w8_last_push = on_loop ? NULL : w8_far_last;
  for (uint32_t i = 0; i < n; i++) {
    T[i] = p_new(i);
    uv_timer_start(&T[i]->h, cb, w8_first_ms(&s), W8_MS);
  }
  w8();
}

/* ---- W9 exit: all that is queued runs, or is cancelled one by one --------------- */
static int w9_started;
static uint64_t w9_ended;
static void w9_work(uv_work_t *r) {
  (void)r;
  __atomic_store_n(&w9_started, 1, __ATOMIC_RELAXED);
  nap_us(1000);
  cell_hit();
}
static void w9_after(uv_work_t *r, int st) {
  (void)r;
  (void)st;
  w9_ended++;
}
static void w9(uint32_t n, int cancel) {
  uv_work_t *r = (uv_work_t *)calloc(n, sizeof *r);
  p_open();
  for (uint32_t i = 0; i < n; i++)
    uv_queue_work(L, &r[i], w9_work, w9_after);
  while (!__atomic_load_n(&w9_started, __ATOMIC_RELAXED))
    p_pump();
  uint64_t t0 = now_ns();
  if (cancel)
    for (uint32_t i = 0; i < n; i++)
      uv_cancel((uv_req_t *)&r[i]);
  p_run();
  if (uv_loop_close(L) || w9_ended != n)
    die("w9: some requests have not ended");
  emit("close_ms", (double)(now_ns() - t0) / 1e6);
  emit("ran", (double)cell_sum());
}

/* ---- W10 lanes: a FIFO each, and one uv_queue_work at a time that empties it ---- */
typedef struct lane_item {
  struct lane_item *next;
} lane_item;
typedef struct lane {
  pthread_mutex_t mu;
  lane_item *head, **tail;
  int busy;
  uv_work_t req;
  struct lane *w_next; /* those that another thread has made busy */
} lane;
static lane *lanes, *lanes_head;
static uint32_t lanes_n;
static uint64_t w10_t0;
static void lane_work(uv_work_t *r) {
  lane *l = (lane *)r->data;
  for (;;) {
    pthread_mutex_lock(&l->mu);
    lane_item *q = l->head;
    if (q && (l->head = q->next) == NULL)
      l->tail = &l->head;
    pthread_mutex_unlock(&l->mu);
    if (q == NULL)
      return;
    free(q);
    cell_hit(); /* the empty body */
  }
}
static void lane_after(uv_work_t *r, int st) {
  lane *l = (lane *)r->data;
  (void)st;
  pthread_mutex_lock(&l->mu);
  l->busy = l->head != NULL;
  int again = l->busy;
  pthread_mutex_unlock(&l->mu);
  if (again)
    uv_queue_work(L, &l->req, lane_work, lane_after);
}
static int lane_put(lane *l) { /* 1: it was idle */
  lane_item *q = (lane_item *)malloc(sizeof *q);
  q->next = NULL;
  pthread_mutex_lock(&l->mu);
  *l->tail = q;
  l->tail = &q->next;
  int idle = !l->busy;
  l->busy = 1;
  pthread_mutex_unlock(&l->mu);
  return idle;
}
static void lanes_wake(uv_async_t *h) {
  (void)h;
  pthread_mutex_lock(&q_mu);
  lane *l = lanes_head;
  lanes_head = NULL;
  pthread_mutex_unlock(&q_mu);
  while (l) {
    lane *nx = l->w_next;
    uv_queue_work(L, &l->req, lane_work, lane_after);
    l = nx;
  }
}
static void *w10_producer(void *a) {
  (void)a;
  nap_us(5000); /* the loop is in its wait by now */
  w10_t0 = now_ns();
  for (uint32_t i = 0; i < pool_total; i++) {
    lane *l = &lanes[i % lanes_n];
    if (!lane_put(l))
      continue;
    pthread_mutex_lock(&q_mu);
    l->w_next = lanes_head;
    lanes_head = l;
    pthread_mutex_unlock(&q_mu);
    uv_async_send(&wake_h);
  }
  return NULL;
}
static void w10(int on_loop, uint32_t n, uint32_t total) {
  pthread_t m, th;
  keep_heap();
  p_open();
  uv_async_init(L, &wake_h, lanes_wake);
  uv_async_init(L, &quit_h, on_quit);
  pool_total = total;
  lanes_n = n;
  lanes = (lane *)calloc(n, sizeof *lanes);
  for (uint32_t i = 0; i < n; i++) {
    pthread_mutex_init(&lanes[i].mu, NULL);
    lanes[i].tail = &lanes[i].head;
    lanes[i].req.data = &lanes[i];
  }
  pthread_create(&m, NULL, monitor, NULL);
  if (on_loop) {
    w10_t0 = now_ns();
    for (uint32_t i = 0; i < total; i++)
      if (lane_put(&lanes[i % n]))
        uv_queue_work(L, &lanes[i % n].req, lane_work, lane_after);
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

int main(int argc, char **argv) {
  const char *w = argc > 2 ? argv[1] : "", *v = argc > 2 ? argv[2] : "";
  int new_ones = 1;
  if (!strcmp(w, "w7"))
    unsetenv("UV_THREADPOOL_SIZE"); /* the default */
  else
    setenv("UV_THREADPOOL_SIZE", "2", 0);
  if (!strcmp(w, "w7") && argc > 3)
    w7(v, atof(argv[3]), w7_start);
  else if (!strcmp(w, "w8") && argc > 4)
    w8_any(!strcmp(v, "loop"), (uint32_t)strtoul(argv[3], NULL, 10), atof(argv[4]));
  else if (!strcmp(w, "w9"))
    w9((uint32_t)strtoul(v, NULL, 10), argc > 3);
  else if (!strcmp(w, "w10") && argc > 4)
    w10(!strcmp(v, "loop"), (uint32_t)strtoul(argv[3], NULL, 10),
        (uint32_t)strtoul(argv[4], NULL, 10));
  else
    new_ones = 0;
  if (new_ones) {
    fflush(stdout);
    _exit(0);
  }
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
