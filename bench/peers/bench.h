/* SPDX-License-Identifier: MIT
 *
 * Shared by the native peers: clock, generator, process facts, output.
 * Plain C11 that also compiles as C++17. */
#ifndef BENCH_H
#define BENCH_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t now_ns(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static inline uint64_t cpu_ns(void) {
  struct timespec ts;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
  return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static inline uint64_t mix64(uint64_t *s) { /* splitmix64 */
  uint64_t z = (*s += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

/* uniform in [0,n) without a division */
static inline uint32_t below(uint64_t r, uint32_t n) {
  return (uint32_t)(((r >> 32) * (uint64_t)n) >> 32);
}

static uint32_t delay_base = 1000; /* 20000 for N >= 10^7: nothing may fall due while W1/W2 run */
static inline uint32_t rand_delay_ms(uint64_t *s) { /* 1 s .. 60 s */
  return delay_base + below(mix64(s), 59001u);
}

static inline double rss_bytes(void) {
  long pages = 0, total = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (f) {
    if (fscanf(f, "%ld %ld", &total, &pages) != 2)
      pages = 0;
    fclose(f);
  }
  return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static inline void emit(const char *k, double v) {
  printf("%s %.4f\n", k, v);
}

static inline void die(const char *why) {
  printf("FAIL %s\n", why);
  fflush(stdout);
  _exit(1);
}

/* Keep freed memory in the process: the "warm" figures of a long-lived server. */
static inline void keep_heap(void) {
  mallopt(M_TRIM_THRESHOLD, 2000 * 1000 * 1000);
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TOP_PAD, 1 << 20);
}

static inline void nap_us(unsigned us) {
  struct timespec ts;
  ts.tv_sec = us / 1000000;
  ts.tv_nsec = (long)(us % 1000000) * 1000;
  nanosleep(&ts, NULL);
}

/* --- executions counted on pool threads: one padded cell per thread, so the
 *     empty callback shares no cache line --------------------------------- */
#define CELLS 64
typedef struct {
  uint64_t n;
  char pad[120];
} cell;
static cell cells[CELLS];
static int cell_next;
static __thread cell *my_cell;
static inline void cell_hit(void) {
  if (!my_cell)
    my_cell = &cells[__atomic_fetch_add(&cell_next, 1, __ATOMIC_RELAXED) % CELLS];
  __atomic_store_n(&my_cell->n, my_cell->n + 1, __ATOMIC_RELEASE);
}
static inline uint64_t cell_sum(void) {
  uint64_t s = 0;
  for (int i = 0; i < CELLS; i++)
    s += __atomic_load_n(&cells[i].n, __ATOMIC_ACQUIRE);
  return s;
}

/* --- lateness samples ----------------------------------------------------- */
typedef struct {
  int64_t late;
  uint32_t win;
} sample;
static sample *samples;
static uint64_t samples_n, samples_cap;
static inline void sample_add(int64_t late, uint32_t win) {
  uint64_t i = __atomic_fetch_add(&samples_n, 1, __ATOMIC_RELAXED);
  if (i < samples_cap) {
    samples[i].late = late;
    samples[i].win = win;
  }
}
static inline int cmp_i64(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}
/* of m sorted ns */
static inline double quantile_us(const int64_t *v, uint64_t m, double q) {
  uint64_t i = (uint64_t)((double)m * q);
  return (double)v[i < m ? i : m - 1] / 1e3;
}
/* percentiles of each window; the driver takes the median of the windows. early_us: the largest
 * time by which a task started early, 0 if none did */
static inline void samples_report(uint32_t windows) {
  uint64_t n = samples_n < samples_cap ? samples_n : samples_cap;
  int64_t *v = (int64_t *)malloc((n + 1) * sizeof *v);
  int64_t early = 0;
  for (uint64_t i = 0; i < n; i++)
    if (-samples[i].late > early)
      early = -samples[i].late;
  emit("early_us", (double)early / 1e3);
  for (uint32_t w = 0; w < windows; w++) {
    uint64_t m = 0;
    for (uint64_t i = 0; i < n; i++)
      if (samples[i].win == w)
        v[m++] = samples[i].late;
    if (!m)
      continue;
    qsort(v, m, sizeof *v, cmp_i64);
    printf("win p50 %.1f p99 %.1f p999 %.1f max %.1f n %llu\n", quantile_us(v, m, 0.5),
           quantile_us(v, m, 0.99), quantile_us(v, m, 0.999), quantile_us(v, m, 1),
           (unsigned long long)m);
  }
  free(v);
}

/* --- the periodic task set of W5 and W6 ----------------------------------- */
typedef struct {
  uint64_t ideal;  /* next ideal start, ns */
  uint64_t period; /* ns */
  int64_t last;    /* lateness of the latest execution */
} ptask;
static inline ptask *periodic_set(uint32_t k, uint32_t period_ms, uint64_t t0) {
  ptask *p = (ptask *)calloc(k, sizeof *p);
  uint64_t s = 77;
  for (uint32_t i = 0; i < k; i++) {
    uint32_t ms = period_ms ? period_ms : 10 + i % 91;
    p[i].period = (uint64_t)ms * 1000000u;
    /* a whole number of microseconds: no peer is favoured by its tick */
    p[i].ideal = t0 + (uint64_t)below(mix64(&s), ms * 1000u) * 1000u;
  }
  return p;
}
static inline void drift_report(ptask *p, uint32_t k) {
  int64_t *v = (int64_t *)malloc(k * sizeof *v);
  for (uint32_t i = 0; i < k; i++)
    v[i] = p[i].last;
  qsort(v, k, sizeof *v, cmp_i64);
  emit("drift_us", quantile_us(v, k, 0.5));
  free(v);
}
#endif
