/* SPDX-License-Identifier: MIT
 *
 * The workloads for a peer that is an event loop. The including file defines
 *
 *   task                      the peer's own per-task storage (one malloc)
 *   task *p_new(uint32_t i)   allocate + initialise task i (not armed)
 *   void p_arm(task*, ms)     arm one-shot, ms from now
 *   void p_arm_abs(task*, ns) arm one-shot at a CLOCK_MONOTONIC instant
 *   void p_cancel(task*)      disarm
 *   task *p_churn(task*, i, ms)  cancel, then arm a new one in its place
 *   void p_free(task*)        cancel if armed, give everything back
 *   void p_open(void)         make the loop
 *   void p_pump(void)         one non-blocking pass of the loop
 *   void p_run(void)          run until p_break()
 *   void p_break(void)        called on the loop thread
 *   void p_keep(void)         hold the loop alive while it has no timer
 *   P_ARM_NS                  rough cost of one arm (only sets W3's margin)
 *   P_NAME
 * and for W4 either P_NATIVE_SUBMIT with p_submit(i, ms), callable from any thread, or p_wake(),
 * callable from any thread, which makes the loop call drain_submitted() soon; the task then needs
 * the members w_next and w_ms, and p_init(task*, i) is p_new without the malloc.
 *
 * A peer that names its tasks by a number defines P_HANDLE, the type of that number, instead of
 * `task`; it is what p_cancel, p_churn and p_free get and p_churn returns. In place of p_new, p_arm
 * and p_arm_abs it has arm_new(i, ms) and arm_new_abs(i, ns), and its own W5 and W6.
 *
 * Optional: P_EARLY_NS, how much before its time `check` lets a task start (15 ms: loops count from
 * a cached clock); P_MANY, with p_arm_many(n, delays): arm n tasks in bulk, the handles into T (n =
 * 0: what is made beforehand).
 *
 * The peer's timer callback calls fired(i). */
#ifndef LOOPBENCH_H
#define LOOPBENCH_H
#include "bench.h"

#ifdef P_HANDLE
typedef P_HANDLE handle;
static handle arm_new(uint32_t i, uint32_t ms);
static handle arm_new_abs(uint32_t i, uint64_t ns);
#else
typedef task *handle;
static handle arm_new(uint32_t i, uint32_t ms) {
  task *t = p_new(i);
  p_arm(t, ms);
  return t;
}
static handle arm_new_abs(uint32_t i, uint64_t ns) {
  task *t = p_new(i);
  p_arm_abs(t, ns);
  return t;
}
#endif
#ifndef P_EARLY_NS
#define P_EARLY_NS 15000000u
#endif

static handle *T;
static uint64_t n_fired, n_want, t_end;

static void (*fired)(uint32_t i);

static void fired_count(uint32_t i) {
  (void)i;
  n_fired++;
}

static void fired_last(uint32_t i) {
  (void)i;
  if (++n_fired == n_want) {
    t_end = now_ns();
    p_break();
  }
}

/* ---- W1 + W2 -------------------------------------------------------------- */
static double arm_all(uint32_t n, const uint32_t *d) {
  uint64_t t0 = now_ns();
  for (uint32_t i = 0; i < n; i++)
    T[i] = arm_new(i, d[i]);
  return (double)(now_ns() - t0) / n;
}

static uint32_t *make_delays(uint32_t n, uint64_t seed) {
  uint32_t *d = (uint32_t *)malloc((size_t)n * sizeof *d);
  for (uint32_t i = 0; i < n; i++)
    d[i] = rand_delay_ms(&seed);
  return d;
}

static void w_mem(uint32_t n) {
  if (n >= 10000000)
    delay_base = 20000;
  uint32_t *d = make_delays(n, 1);
  T = (handle *)malloc((size_t)n * sizeof *T);
  memset((void *)T, 1, (size_t)n * sizeof *T);
  fired = fired_count;
  p_open();
  p_pump();
  double before = rss_bytes();
  double cold = arm_all(n, d);
  double after = rss_bytes();
  emit("bytes", (after - before) / n);
  emit("arm_cold_ns", cold);
}

static void free_all(uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    p_free(T[i]);
  p_pump();
}

static int rounds_for(uint32_t n) {
  return n <= 10000 ? 20 : n <= 100000 ? 4 : 1;
}

#ifdef P_MANY
/* Like W1 of w12, in a process of its own: memory that was armed and freed before would affect
 * both. */
static void w_many(uint32_t n) {
  keep_heap();
  uint32_t *d = make_delays(n, 1);
  T = (handle *)malloc((size_t)n * sizeof *T);
  memset((void *)T, 1, (size_t)n * sizeof *T);
  fired = fired_count;
  p_open();
  p_pump(); /* as in w12 */
  p_arm_many(0, d);
  int rounds = rounds_for(n), timed = (rounds + 1) / 2;
  double sum = 0;
  for (int r = 0; r < rounds; r++) {
    arm_all(n, d);
    free_all(n);
  }
  for (int r = 0; r < timed; r++) {
    if (r)
      free_all(n);
    uint64_t t0 = now_ns();
    p_arm_many(n, d);
    sum += (double)(now_ns() - t0) / n;
  }
  emit("many_ns", sum / timed);
}
#endif

static void w12(uint32_t n, double churn_s) {
  keep_heap();
  if (n >= 10000000)
    delay_base = 20000;
  uint32_t *d = make_delays(n, 1);
  T = (handle *)malloc((size_t)n * sizeof *T);
  memset((void *)T, 1, (size_t)n * sizeof *T);
  fired = fired_count;
  p_open();
  p_pump(); /* the loop has made a pass, as in a real program */
  /* warm-up round(s): fault the memory in, then give everything back */
  int rounds = rounds_for(n), timed = (rounds + 1) / 2;
  double sum = 0;
  for (int r = 0; r < rounds; r++) {
    arm_all(n, d);
    free_all(n);
  }
  for (int r = 0; r < timed; r++) { /* mean over warm rounds */
    if (r)
      free_all(n);
    sum += arm_all(n, d);
  }
  emit("arm_ns", sum / timed);
  /* churn */
  uint64_t s = 99, c0 = 0, t0 = 0, pairs = 0;
  for (int pass = 0; pass < 2; pass++) { /* pass 0 warms up for 1/4 of the time */
    double lim = pass ? churn_s : churn_s / 4;
    pairs = 0;
    c0 = cpu_ns();
    t0 = now_ns();
    do {
      for (int k = 0; k < 256; k++) {
        uint32_t i = below(mix64(&s), n);
        T[i] = p_churn(T[i], i, rand_delay_ms(&s));
      }
      pairs += 256;
      p_pump();
    } while ((double)(now_ns() - t0) < lim * 1e9);
  }
  emit("churn_ns", (double)(now_ns() - t0) / (double)pairs);
  emit("churn_cpu_ns", (double)(cpu_ns() - c0) / (double)pairs);
  emit("churn_pairs", (double)pairs);
  emit("churn_fired", (double)n_fired);
}

/* ---- W3, loop thread ------------------------------------------------------ */
static void w3_loop(uint32_t n) {
  T = (handle *)malloc((size_t)n * sizeof *T);
  fired = fired_last;
  n_want = n;
  p_open();
  uint64_t due = now_ns() + (uint64_t)n * P_ARM_NS + 20000000u;
  due = (due + 999999) / 1000000 * 1000000;
  for (uint32_t i = 0; i < n; i++)
    T[i] = arm_new_abs(i, due);
  uint64_t armed = now_ns();
  p_run();
  if (n_fired != n)
    die("w3 count");
  emit("fire_ns", (double)(t_end - (armed > due ? armed : due)) / n);
  emit("armed_late", armed > due);
}

/* ---- W4, work runs on the loop thread -------------------------------------- */
static int w4_go;
static uint32_t w4_each;
static int w4_rand;
static uint64_t w4_accepted, w4_total, w4_end, w4_t0;
static int w4_busy;           /* producers that have not finished */
static void (*w4_last)(void); /* optional: called by the last of them, untimed */
typedef struct {
  pthread_t th;
  uint32_t base;
  uint64_t ns;
} producer;

static void w4_done_one(void) {
  if (++w4_accepted == w4_total) {
    w4_end = now_ns();
    p_break();
  }
}

#ifndef P_NATIVE_SUBMIT
static pthread_mutex_t q_mu = PTHREAD_MUTEX_INITIALIZER;
static task *q_head, **q_tail = &q_head;
static void w4_run0_loop(task *t) {
  free(t); /* the empty callback */
  w4_done_one();
}
static void (*w4_run0)(task *) = w4_run0_loop;
static void p_submit(uint32_t i, uint32_t ms) {
  (void)i;
  task *t = (task *)malloc(sizeof *t);
  t->w_ms = ms;
  t->w_next = NULL;
  pthread_mutex_lock(&q_mu);
  *q_tail = t;
  q_tail = &t->w_next;
  pthread_mutex_unlock(&q_mu);
  p_wake();
}
static void drain_submitted(void) {
  pthread_mutex_lock(&q_mu);
  task *t = q_head;
  q_head = NULL;
  q_tail = &q_head;
  pthread_mutex_unlock(&q_mu);
  while (t) {
    task *nx = t->w_next;
    if (t->w_ms == 0) {
      /* the usual short cut: a task with no delay needs no timer */
      w4_run0(t);
    } else {
      p_init(t, 0);
      p_arm(t, t->w_ms);
      w4_done_one();
    }
    t = nx;
  }
}
#endif

static void *w4_producer(void *a) {
  producer *p = (producer *)a;
  uint64_t s = 1000 + p->base;
  while (!__atomic_load_n(&w4_go, __ATOMIC_ACQUIRE))
    sched_yield();
  uint64_t t0 = now_ns();
  for (uint32_t k = 0; k < w4_each; k++)
    p_submit(p->base + k, w4_rand ? rand_delay_ms(&s) : 0);
  p->ns = now_ns() - t0;
  if (__atomic_sub_fetch(&w4_busy, 1, __ATOMIC_ACQ_REL) == 0 && w4_last)
    w4_last();
  return NULL;
}

static void *w4_starter(void *a) {
  (void)a;
  nap_us(5000); /* the loop is in its wait by now */
  w4_t0 = now_ns();
  __atomic_store_n(&w4_go, 1, __ATOMIC_RELEASE);
  return NULL;
}

static void w4_report(producer *pr, int p) {
  double sum = 0;
  for (int i = 0; i < p; i++) {
    pthread_join(pr[i].th, NULL);
    sum += (double)pr[i].ns;
  }
  emit("submit_ns", sum / (double)w4_total);
  emit("total_ns", (double)(w4_end - w4_t0) / (double)w4_total);
}

static producer *w4_start(int p, int rnd, uint32_t total) {
  producer *pr = (producer *)calloc((size_t)p, sizeof *pr);
  pthread_t st;
  w4_each = total / (uint32_t)p;
  w4_total = (uint64_t)w4_each * (uint64_t)p;
  w4_rand = rnd;
  w4_busy = p;
  for (int i = 0; i < p; i++) {
    pr[i].base = (uint32_t)i * w4_each;
    pthread_create(&pr[i].th, NULL, w4_producer, &pr[i]);
  }
  pthread_create(&st, NULL, w4_starter, NULL);
  pthread_detach(st);
  return pr;
}

static void w4_loop(int p, int rnd, uint32_t total) {
  keep_heap();
  fired = fired_count;
  p_open();
  p_keep();
  producer *pr = w4_start(p, rnd, total);
  p_run();
  if (w4_accepted != w4_total)
    die("w4 count");
  w4_report(pr, p);
}

/* ---- W5 / W6 on the loop thread -------------------------------------------- */
static ptask *PT;
static uint64_t w_t0, win_ns;

static void samples_make(double secs) {
  samples_cap = (uint64_t)(secs * 40000 + 10000);
  samples = (sample *)malloc(samples_cap * sizeof *samples);
  memset((void *)samples, 0, samples_cap * sizeof *samples);
}

#ifndef P_HANDLE
static uint64_t w_stop;
static void fired_periodic(uint32_t i) {
  uint64_t now = now_ns();
  ptask *p = &PT[i];
  p->last = (int64_t)(now - p->ideal);
  if (samples)
    sample_add(p->last, (uint32_t)((now - w_t0) / win_ns));
  n_fired++;
  if (now >= w_stop) {
    p_break();
    return;
  }
  p->ideal += p->period;
  p_arm_abs(T[i], p->ideal);
}

static void w5_loop(double secs) {
  uint32_t k = 1000;
  samples_make(secs);
  T = (handle *)malloc(k * sizeof *T);
  fired = fired_periodic;
  p_open();
  w_t0 = now_ns() + 20000000u;
  w_stop = w_t0 + (uint64_t)(secs * 1e9);
  win_ns = (uint64_t)(secs * 1e9 / 5);
  PT = periodic_set(k, 0, w_t0);
  for (uint32_t i = 0; i < k; i++)
    T[i] = arm_new_abs(i, PT[i].ideal);
  uint64_t c0 = cpu_ns();
  p_run();
  emit("cpu_ms", (double)(cpu_ns() - c0) / 1e6);
  emit("execs", (double)n_fired);
  samples_report(5);
  drift_report(PT, k);
}

static void w6_loop(uint32_t k, uint32_t period_ms, double secs) {
  T = (handle *)malloc(k * sizeof *T);
  fired = fired_periodic;
  p_open();
  w_t0 = now_ns() + 20000000u + (uint64_t)k * P_ARM_NS;
  w_stop = w_t0 + (uint64_t)(secs * 1e9);
  PT = periodic_set(k, period_ms, w_t0);
  for (uint32_t i = 0; i < k; i++)
    T[i] = arm_new_abs(i, PT[i].ideal);
  uint64_t t0 = now_ns();
  if (t0 < w_t0)
    t0 = w_t0;
  uint64_t c0 = cpu_ns();
  p_run();
  uint64_t t1 = now_ns();
  emit("keepup", (double)n_fired / ((double)(t1 - t0) / 1e6 / period_ms * k));
  emit("cpu_s_per_M", (double)(cpu_ns() - c0) / 1e9 / (double)n_fired * 1e6);
}

#endif

/* ---- check: only what should fire fires, once, not early -------------------- */
static uint32_t *ck_fired, *ck_want;
static uint64_t *ck_due, ck_early, ck_stop;
static void fired_check(uint32_t i) {
  uint64_t now = now_ns();
  if (now < ck_due[i] && ck_due[i] - now > ck_early)
    ck_early = ck_due[i] - now;
  ck_fired[i]++;
}
static void w_check(void) {
  uint32_t n = 20000;
  uint64_t s = 5, want = 0, got = 0, cancelled = 0;
  T = (handle *)malloc(n * sizeof *T);
  ck_fired = (uint32_t *)calloc(n, 4);
  ck_want = (uint32_t *)calloc(n, 4);
  ck_due = (uint64_t *)calloc(n, 8);
  fired = fired_check;
  p_open();
  for (uint32_t i = 0; i < n; i++) {
    uint32_t ms = 20 + below(mix64(&s), 200);
    if (i % 256 == 0)
      p_pump();
    ck_due[i] = now_ns() + ms * 1000000ull;
    T[i] = arm_new(i, ms);
    ck_want[i] = 1;
  }
  for (uint32_t k = 0; k < 20000; k++) {
    uint32_t i = below(mix64(&s), n), ms = 20 + below(mix64(&s), 200);
    if (k % 256 == 0)
      p_pump();
    if (ck_fired[i] == ck_want[i])
      ck_want[i]++;
    else
      cancelled++;
    ck_due[i] = now_ns() + ms * 1000000ull;
    T[i] = p_churn(T[i], i, ms);
  }
  for (uint32_t k = 0; k < n; k += 2) {
    if (ck_fired[k] != ck_want[k]) {
      ck_want[k]--;
      cancelled++;
      p_cancel(T[k]);
    }
  }
  for (uint32_t i = 0; i < n; i++)
    want += ck_want[i];
  /* all are due by then; a slow machine gets more time */
  ck_stop = now_ns() + 300000000u;
  do {
    p_pump();
    nap_us(500);
    got = 0;
    for (uint32_t i = 0; i < n; i++)
      got += ck_fired[i];
  } while (now_ns() < ck_stop || (got < want && now_ns() < ck_stop + 10000000000u));
  for (uint32_t i = 0; i < n; i++)
    if (ck_want[i] != ck_fired[i])
      die("check: a task fired a wrong number of times");
  /* a loop counts from its cached clock, so a small value is expected: report it */
  if (ck_early > P_EARLY_NS)
    die("check: a task fired early");
  emit("check_early_us", (double)ck_early / 1e3);
  emit("check_fired", (double)got);
  emit("check_cancelled", (double)cancelled);
}

static int loop_main(int argc, char **argv) {
  const char *w = argc > 1 ? argv[1] : "";
  if (!strcmp(w, "check"))
    w_check();
  else if (!strcmp(w, "mem") && argc > 2)
    w_mem((uint32_t)strtoul(argv[2], NULL, 10));
  else if (!strcmp(w, "w12") && argc > 3)
    w12((uint32_t)strtoul(argv[2], NULL, 10), atof(argv[3]));
  else if (!strcmp(w, "w3") && argc > 3 && !strcmp(argv[2], "loop"))
    w3_loop((uint32_t)strtoul(argv[3], NULL, 10));
  else if (!strcmp(w, "w4") && argc > 5 && !strcmp(argv[2], "loop"))
    w4_loop(atoi(argv[3]), !strcmp(argv[4], "rand"), (uint32_t)strtoul(argv[5], NULL, 10));
#ifdef P_MANY
  else if (!strcmp(w, "many") && argc > 2)
    w_many((uint32_t)strtoul(argv[2], NULL, 10));
#endif
#ifndef P_HANDLE
  else if (!strcmp(w, "w5") && argc > 3 && !strcmp(argv[2], "loop"))
    w5_loop(atof(argv[3]));
  else if (!strcmp(w, "w6") && argc > 5 && !strcmp(argv[2], "loop"))
    w6_loop((uint32_t)strtoul(argv[3], NULL, 10), (uint32_t)atoi(argv[4]), atof(argv[5]));
#endif
  else
    return 2;
  fflush(stdout);
  _exit(0); /* no teardown inside or outside the timed parts */
}
#endif
