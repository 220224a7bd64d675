/* SPDX-License-Identifier: MIT
 *
 * bench-jobs [--quick] [--pending N] [FOLDER]: what durable jobs on SQLite cost, beside what the
 * disk of FOLDER (default: the current one) can do. All figures are of one run; the rates that
 * depend on the disk are medians of rounds in which the disk's own rate is measured, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <uvsched/jobs.h>
#include <uvsched/jobs_admin.h>

#include "jobs/store.h"

#define MUST(condition) must(condition, #condition, __LINE__)
#define PAYLOAD 128

static void must(int ok, const char *what, int line) {
  if (ok)
    return;
  fprintf(stderr, "bench-jobs: line %d: %s\n", line, what);
  exit(1);
}

static char folder[400] = ".";
static char path[500];
static int rounds = 5;
static double round_s = 1;
static long pending = 1000000;

static double seconds(void) {
  return (double)uv_hrtime() / 1e9;
}

static void remove_file(void) {
  static const char *const ends[] = {"", "-wal", "-shm", "-owners", "-journal"};
  char name[600];

  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    snprintf(name, sizeof name, "%s%s", path, ends[i]);
    if (unlink(name) != 0)
      MUST(errno == ENOENT);
  }
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;

  return (x > y) - (x < y);
}

static double median(double *values, int n) {
  qsort(values, (size_t)n, sizeof *values, compare);
  return values[n / 2];
}

static double rss_mb(void) {
  FILE *f = fopen("/proc/self/statm", "r");
  long size, resident;

  MUST(f != NULL && fscanf(f, "%ld %ld", &size, &resident) == 2);
  fclose(f);
  return (double)resident * (double)sysconf(_SC_PAGESIZE) / 1e6;
}

/* -------------------------------------------------------------------- disk --- */

/* Appends of one page and its header, as SQLite's log does, each followed by fdatasync. */
static double disk_rate(void) {
  static const char page[4096 + 24];
  char name[600];
  double start, end;
  long n = 0;
  int fd;

  snprintf(name, sizeof name, "%s.disk", path);
  fd = open(name, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  MUST(fd >= 0);
  start = seconds();
  do {
    MUST(pwrite(fd, page, sizeof page, (n % 1000) * (long)sizeof page) == (ssize_t)sizeof page);
    MUST(fdatasync(fd) == 0);
    n++;
    end = seconds();
  } while (end - start < round_s);
  close(fd);
  unlink(name);
  return (double)n / (end - start);
}

/* ----------------------------------------------------------- an open store --- */

static uvs_t *scheduler;
static uvs_jobs_t *jobs;

static void open_jobs(void) {
  uvs_jobs_options_t o;
  char store[600], text[200];

  snprintf(store, sizeof store, "sqlite:%s", path);
  MUST(uvs_open(uv_default_loop(), NULL, &scheduler) == 0);
  uvs_jobs_options_init(&o);
  o.store = store;
  if (uvs_jobs_open(scheduler, &o, &jobs, text, sizeof text) != 0) {
    fprintf(stderr, "bench-jobs: %s\n", text);
    exit(1);
  }
}

static void on_closed(uvs_jobs_t *j, void *arg) {
  (void)j;
  (void)arg;
  uvs_close(scheduler, NULL);
}

static void close_jobs(void) {
  MUST(uvs_jobs_close(jobs, 0, on_closed, NULL) == 0);
  uv_run(uv_default_loop(), UV_RUN_DEFAULT);
}

/* --------------------------------------------------------------------- put --- */

static struct {
  double until_s;
  long answered, waiting, left;
  int delay_is_random;
  size_t at_once; /* jobs in one call */
  uint64_t random;
} load;

static void put_next(void);

static void on_put(uvs_jobs_t *j, const uvs_put_result_t *results, size_t n, void *arg) {
  (void)j;
  (void)arg;
  for (size_t i = 0; i < n; i++)
    MUST(results[i].status == 0);
  load.answered += (long)n;
  load.waiting--;
  if (load.left > 0 && seconds() < load.until_s)
    put_next();
  else if (load.waiting == 0)
    uv_stop(uv_default_loop());
}

static int64_t next_delay_ns(void) {
  load.random = load.random * UINT64_C(6364136223846793005) + 1442695040888963407u;
  return load.delay_is_random ? UVS_DAY(1) + (int64_t)(load.random % (uint64_t)UVS_DAY(14))
                              : UVS_DAY(15);
}

static void put_next(void) {
  static const char payload[PAYLOAD];
  static uvs_job_spec_t specs[UVS_JOBS_PUT_MAX];

  for (size_t i = 0; i < load.at_once; i++) {
    uvs_job_spec_init(&specs[i]);
    specs[i].name = "order";
    specs[i].payload = payload;
    specs[i].payload_size = sizeof payload;
    specs[i].delay_ns = next_delay_ns();
  }
  load.waiting++;
  load.left -= (long)load.at_once;
  MUST(uvs_jobs_put_many(jobs, specs, load.at_once, on_put, NULL) == 0);
}

/* Jobs a second, with `producers` calls that wait at a time. Ends after `most` jobs or for_s. */
static double put_rate(int producers, size_t at_once, int delay_is_random, long most,
                       double for_s) {
  double start = seconds();

  load.until_s = start + for_s;
  load.answered = load.waiting = 0;
  load.left = most;
  load.at_once = at_once;
  load.delay_is_random = delay_is_random;
  for (int i = 0; i < producers; i++)
    put_next();
  uv_run(uv_default_loop(), UV_RUN_DEFAULT);
  return (double)load.answered / (seconds() - start);
}

static void bench_put_single(void) {
  double one[9], many[9], disk[9], ratio[9], gain[9];

  remove_file();
  open_jobs();
  for (int i = 0; i < rounds; i++) {
    disk[i] = disk_rate();
    one[i] = put_rate(1, 1, 0, 1L << 40, round_s);
    many[i] = put_rate(64, 1, 0, 1L << 40, round_s);
    ratio[i] = one[i] / disk[i];
    gain[i] = many[i] / one[i];
  }
  close_jobs();
  printf("fdatasync of the disk                %10.0f /s\n", median(disk, rounds));
  printf("put one by one                       %10.0f /s  %6.2f x fdatasync  (goal 0.6)\n",
         median(one, rounds), median(ratio, rounds));
  printf("put, 64 producers wait               %10.0f /s  %6.1f x one by one (goal 10)\n",
         median(many, rounds), median(gain, rounds));
}

static void bench_put_batches(int delay_is_random, const char *name, double goal) {
  double rate, filled, start, open_s, rss;

  remove_file();
  open_jobs();
  filled = put_rate(1, 1000, delay_is_random, pending, 1e9);
  rate = put_rate(1, 1000, delay_is_random, pending / 10, 1e9);
  rss = rss_mb();
  close_jobs();
  start = seconds();
  open_jobs();
  open_s = seconds() - start;
  close_jobs();
  printf("put, 1000 a call, %s delay      %10.0f /s  at %ld pending (goal %.0f); filling %.0f /s\n",
         name, rate, pending, goal, filled);
  printf("  memory of the process              %10.1f MB (goal 80); open %.3f s (goal 0.5)\n", rss,
         open_s);
}

/* ------------------------------------------------------------ claim and ack --- */

/* Only makes uv_run return. */
static void wake_up(uv_timer_t *timer) {
  (void)timer;
}

static _Atomic long n_run;

static int do_nothing(uvs_job_t *job) {
  (void)job;
  n_run++;
  return 0;
}

static void check_done(uvs_jobs_t *j, int status, const uvs_jobs_stats_t *s, void *arg) {
  (void)j;
  MUST(status == 0);
  *(uint64_t *)arg = s->done;
  uv_stop(uv_default_loop());
}

/* Puts jobs that are due, then runs them with a handler that does nothing. */
static void bench_run(long n) {
  uvs_job_handler_t h;
  uint64_t done = 0;
  uv_timer_t look;
  double start;

  remove_file();
  open_jobs();
  n_run = 0;
  for (long i = 0; i < n; i += 1000) {
    static uvs_job_spec_t specs[1000];

    for (int k = 0; k < 1000; k++) {
      uvs_job_spec_init(&specs[k]);
      specs[k].name = "order";
    }
    MUST(uvs_jobs_put_many(jobs, specs, 1000, NULL, NULL) == 0);
  }
  MUST(uvs_jobs_stats(jobs, check_done, &done) == 0);
  uv_run(uv_default_loop(), UV_RUN_DEFAULT);
  uvs_job_handler_init(&h);
  h.concurrency = 200;
  start = seconds();
  MUST(uvs_jobs_handle(jobs, "order", do_nothing, NULL, &h) == 0);
  MUST(uv_timer_init(uv_default_loop(), &look) == 0);
  MUST(uv_timer_start(&look, wake_up, 50, 50) == 0);
  while (n_run < n)
    uv_run(uv_default_loop(), UV_RUN_ONCE);
  uv_close((uv_handle_t *)&look, NULL);
  while (done < (uint64_t)n) { /* counting takes long while many jobs are pending */
    MUST(uvs_jobs_stats(jobs, check_done, &done) == 0);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
  }
  printf("claim, run a no-op on the pool, ack  %10.0f /s\n", (double)n / (seconds() - start));
  close_jobs();
}

static void on_request(struct uvs__request *r) {
  MUST(r->status == 0);
}

/* The same on the store alone: batches of 100. */
static void bench_store(long n) {
  struct uvs__store_config config = {.name = path};
  struct uvs__store *store;
  char text[200];
  double start;
  long acked = 0;

  remove_file();
  open_jobs();
  for (long i = 0; i < n; i += 1000) {
    static uvs_job_spec_t specs[1000];

    for (int k = 0; k < 1000; k++) {
      uvs_job_spec_init(&specs[k]);
      specs[k].name = "order";
      specs[k].payload = path;
      specs[k].payload_size = PAYLOAD;
    }
    MUST(uvs_jobs_put_many(jobs, specs, 1000, NULL, NULL) == 0);
  }
  close_jobs();
  MUST(uvs__sqlite_open(&config, &store, text, sizeof text) == 0);
  start = seconds();
  while (acked < n) {
    struct uvs__claim_request claim = {.r = {.op = UVS__CLAIM, .done = on_request},
                                       .queue = "order",
                                       .max = 100,
                                       .max_crashed = 100,
                                       .lease_us = 30000000};
    struct uvs__settle items[100];
    struct uvs__settle_request settle = {.r = {.op = UVS__SETTLE, .done = on_request},
                                         .items = items};

    memset(items, 0, sizeof items);
    store->ops->run(store, &claim.r);
    for (struct uvs__claimed *c = claim.claimed; c != NULL; c = c->next) {
      struct uvs__settle *item = &items[settle.n++];

      item->queue = c->queue;
      item->rest = c->rest;
      item->row = c->row;
      item->fence = c->fence;
      item->op = UVS__ACK;
    }
    MUST(settle.n > 0);
    store->ops->run(store, &settle.r);
    for (size_t i = 0; i < settle.n; i++)
      MUST(items[i].status == 0);
    acked += (long)settle.n;
    while (claim.claimed != NULL) {
      struct uvs__claimed *c = claim.claimed;

      claim.claimed = c->next;
      uvs__arena_free(&c->arena);
      free(c);
    }
  }
  printf("claim + ack in the store, 100 each   %10.0f /s  (goal 60000)\n",
         (double)acked / (seconds() - start));
  store->ops->close(store);
}

/* ----------------------------------------------------------------- lateness --- */

static uint64_t late_ns[2000];
static _Atomic size_t n_late;

static int note_lateness(uvs_job_t *job) {
  struct timespec t;

  clock_gettime(CLOCK_REALTIME, &t);
  late_ns[n_late++] =
      (uint64_t)((int64_t)t.tv_sec * 1000000000 + t.tv_nsec - job->due_ns); /* one at a time */
  return 0;
}

static int compare_ns(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

  return (x > y) - (x < y);
}

static void bench_lateness(size_t n) {
  uvs_job_handler_t h;
  uvs_job_spec_t spec;
  uv_timer_t look;

  remove_file();
  open_jobs();
  n_late = 0;
  uvs_job_handler_init(&h);
  h.concurrency = 1;
  MUST(uvs_jobs_handle(jobs, "order", note_lateness, NULL, &h) == 0);
  uvs_job_spec_init(&spec);
  spec.name = "order";
  for (size_t i = 0; i < n; i++) { /* one each 10 ms */
    spec.delay_ns = UVS_MS(500) + UVS_MS(10) * (int64_t)i + UVS_US(137) * (int64_t)(i % 7);
    MUST(uvs_jobs_put(jobs, &spec, NULL, NULL) == 0);
  }
  MUST(uv_timer_init(uv_default_loop(), &look) == 0);
  MUST(uv_timer_start(&look, wake_up, 200, 200) == 0);
  while (n_late < n)
    uv_run(uv_default_loop(), UV_RUN_ONCE);
  uv_close((uv_handle_t *)&look, NULL);
  close_jobs();
  qsort(late_ns, n_late, sizeof *late_ns, compare_ns);
  printf("lateness of one job each 10 ms: p50 %.2f ms, p99 %.2f ms (goals 2, 10)\n",
         (double)late_ns[n_late / 2] / 1e6, (double)late_ns[n_late * 99 / 100] / 1e6);
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--quick") == 0) {
      rounds = 1;
      round_s = 0.1;
      pending = 10000;
    } else if (strcmp(argv[i], "--pending") == 0 && i + 1 < argc) {
      pending = atol(argv[++i]);
    } else {
      snprintf(folder, sizeof folder, "%s", argv[i]);
    }
  }
  snprintf(path, sizeof path, "%s/bench-jobs-%d.db", folder, (int)getpid());
  setvbuf(stdout, NULL, _IOLBF, 0);
  bench_put_single();
  bench_put_batches(0, "constant", 100000);
  bench_put_batches(1, "random  ", 25000);
  bench_store(pending < 200000 ? pending : 200000);
  bench_run(pending < 200000 ? pending : 200000);
  bench_lateness(rounds == 1 ? 20 : 500);
  remove_file();
  return 0;
}
