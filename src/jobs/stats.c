/* SPDX-License-Identifier: MIT
 *
 * stats: the statistics of an open store, written as text or for Prometheus.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stddef.h>
#include <string.h>

#include "jobs/engine.h"

#define LINE_SIZE 400
#define SEC UINT64_C(1000000000)

void uvs__histogram_add(uvs_histogram_t *h, int64_t ns) {
  uint64_t value = ns < 0 ? 0 : (uint64_t)ns;
  unsigned low = 0, high = UVS_BUCKETS - 1;

  while (low < high) { /* the first bucket whose bound is above the value */
    unsigned middle = (low + high) / 2;

    if ((uint64_t)uvs_bucket_ns(middle) > value)
      high = middle;
    else
      low = middle + 1;
  }
  h->size = sizeof *h;
  h->bucket[low]++;
  h->count++;
  h->sum_ns += value;
  if (value > h->max_ns)
    h->max_ns = value;
}

/* ------------------------------------------------------------------- lines --- */

struct out {
  uvs_write_cb write;
  void *arg;
  int rc; /* not 0: `write` has returned it, and is not called again */
};

__attribute__((format(printf, 2, 3))) static void line(struct out *o, const char *format, ...) {
  char text[LINE_SIZE];
  va_list args;
  int n;

  if (o->rc != 0)
    return;
  va_start(args, format);
  n = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  o->rc = o->write(text, (size_t)n, o->arg);
}

/* ----------------------------------------------------------------- counters --- */

#define FIELD(name) offsetof(uvs_jobs_stats_t, name)

static const struct {
  const char *name;
  size_t offset;
  const char *metric, *type, *help;
} counters[] = {
    {"kept", FIELD(kept), "kept", "gauge", "Jobs that have ended and can still be read."},
    {"put", FIELD(put), "put_total", "counter", "Jobs put by this process."},
    {"exists", FIELD(exists), "exists_total", "counter",
     "Puts that found a job with the same id or key."},
    {"started", FIELD(started), "started_total", "counter", "Handlers started."},
    {"done", FIELD(done), "done_total", "counter", "Jobs that ended as done."},
    {"failed", FIELD(failed), "failed_total", "counter", "Handlers that failed."},
    {"retried", FIELD(retried), "retried_total", "counter",
     "Failures after which the job is retried."},
    {"given up", FIELD(given_up), "given_up_total", "counter", "Jobs that became dead letters."},
    {"cancelled", FIELD(cancelled), "cancelled_total", "counter",
     "Running jobs that ended as cancelled."},
    {"lost leases", FIELD(lost_leases), "lost_leases_total", "counter",
     "Leases lost before the result was stored."},
    {"crashes", FIELD(crashes), "crashes_total", "counter",
     "Jobs claimed again because their lease had ended."},
    {"store failures", FIELD(store_failures), "store_failures_total", "counter",
     "Times the store did not work."},
    {"transactions", FIELD(transactions), "transactions_total", "counter",
     "Batches that the store carried out."},
};

static uint64_t value_of(const uvs_jobs_stats_t *s, size_t i) {
  uint64_t n;

  memcpy(&n, (const char *)s + counters[i].offset, sizeof n);
  return n;
}

/* ------------------------------------------------------------- for Prometheus --- */

static void head(struct out *o, const char *metric, const char *type, const char *help) {
  line(o, "# HELP uvsched_jobs_%s %s\n# TYPE uvsched_jobs_%s %s\n", metric, help, metric, type);
}

static void write_histogram(struct out *o, const char *metric, const char *help,
                            const uvs_histogram_t *h) {
  uint64_t below = 0;

  head(o, metric, "histogram", help);
  for (unsigned i = 0; i < UVS_BUCKETS - 1; i++) {
    uint64_t bound_ns = (uint64_t)uvs_bucket_ns(i);

    below += h->bucket[i];
    if (i % 4 == 0)
      line(o, "uvsched_jobs_%s_bucket{le=\"%" PRIu64 ".%09" PRIu64 "\"} %" PRIu64 "\n", metric,
           bound_ns / SEC, bound_ns % SEC, below);
  }
  line(o, "uvsched_jobs_%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", metric, h->count);
  line(o, "uvsched_jobs_%s_sum %" PRIu64 ".%09" PRIu64 "\n", metric, h->sum_ns / SEC,
       h->sum_ns % SEC);
  line(o, "uvsched_jobs_%s_count %" PRIu64 "\n", metric, h->count);
}

static void write_prometheus(const uvs_jobs_stats_t *s, struct out *o) {
  head(o, "jobs", "gauge", "Jobs in the store, by queue and state.");
  for (size_t i = 0; i < s->n_queues; i++) {
    const uvs_queue_stats_t *q = &s->queues[i];

    line(o, "uvsched_jobs_jobs{queue=\"%s\",state=\"pending\"} %" PRIu64 "\n", q->queue,
         q->pending);
    line(o, "uvsched_jobs_jobs{queue=\"%s\",state=\"running\"} %" PRIu64 "\n", q->queue,
         q->running);
    line(o, "uvsched_jobs_jobs{queue=\"%s\",state=\"dead\"} %" PRIu64 "\n", q->queue, q->dead);
  }
  head(o, "overdue", "gauge", "Pending jobs that are due, by queue.");
  for (size_t i = 0; i < s->n_queues; i++)
    line(o, "uvsched_jobs_overdue{queue=\"%s\"} %" PRIu64 "\n", s->queues[i].queue,
         s->queues[i].overdue);
  head(o, "oldest_overdue_seconds", "gauge",
       "How long the oldest overdue job has been due, by queue.");
  for (size_t i = 0; i < s->n_queues; i++) {
    uint64_t ns = (uint64_t)s->queues[i].oldest_overdue_ns;

    line(o, "uvsched_jobs_oldest_overdue_seconds{queue=\"%s\"} %" PRIu64 ".%09" PRIu64 "\n",
         s->queues[i].queue, ns / SEC, ns % SEC);
  }
  head(o, "paused", "gauge", "1 if the queue is paused.");
  for (size_t i = 0; i < s->n_queues; i++)
    line(o, "uvsched_jobs_paused{queue=\"%s\"} %d\n", s->queues[i].queue, s->queues[i].paused);
  for (size_t i = 0; i < sizeof counters / sizeof *counters; i++) {
    head(o, counters[i].metric, counters[i].type, counters[i].help);
    line(o, "uvsched_jobs_%s %" PRIu64 "\n", counters[i].metric, value_of(s, i));
  }
  write_histogram(o, "late_seconds", "How late handlers started.", &s->late);
  write_histogram(o, "run_seconds", "How long handlers ran.", &s->run);
}

/* ------------------------------------------------------------------ for a human --- */

/* Times in ms. */
static void write_row(struct out *o, const char *name, const uvs_histogram_t *h) {
  uint64_t p50_us = (uint64_t)uvs_quantile_ns(h, 0.5) / 1000;
  uint64_t p90_us = (uint64_t)uvs_quantile_ns(h, 0.9) / 1000;
  uint64_t p99_us = (uint64_t)uvs_quantile_ns(h, 0.99) / 1000;
  uint64_t max_us = h->max_ns / 1000;

#define MS(us) (us) / 1000, (us) % 1000
  line(o,
       "  %-14s %10" PRIu64 " %8" PRIu64 ".%03" PRIu64 " %8" PRIu64 ".%03" PRIu64 " %8" PRIu64
       ".%03" PRIu64 " %8" PRIu64 ".%03" PRIu64 "\n",
       name, h->count, MS(p50_us), MS(p90_us), MS(p99_us), MS(max_us));
#undef MS
}

static void write_text(const uvs_jobs_stats_t *s, struct out *o) {
  line(o, "%-30s %10s %10s %10s %10s %16s\n", "queue", "pending", "overdue", "running", "dead",
       "oldest overdue");
  for (size_t i = 0; i < s->n_queues; i++) {
    const uvs_queue_stats_t *q = &s->queues[i];

    line(o, "%-30s %10" PRIu64 " %10" PRIu64 " %10" PRIu64 " %10" PRIu64 " %14" PRId64 " s%s\n",
         q->queue, q->pending, q->overdue, q->running, q->dead, q->oldest_overdue_ns / (int64_t)SEC,
         q->paused ? "  paused" : "");
  }
  line(o, "\nin this process\n");
  for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
    line(o, "  %-14s %10" PRIu64 "\n", counters[i].name, value_of(s, i));
  line(o, "\n%-16s %10s %12s %12s %12s %12s  (ms)\n", "times", "count", "p50", "p90", "p99", "max");
  write_row(o, "late", &s->late);
  write_row(o, "run", &s->run);
}

int uvs_jobs_stats_write(const uvs_jobs_stats_t *stats, int format, uvs_write_cb write, void *arg) {
  struct out o = {write, arg, 0};

  if (stats == NULL || write == NULL ||
      (format != UVS_FORMAT_TEXT && format != UVS_FORMAT_PROMETHEUS))
    return UV_EINVAL;
  if (format == UVS_FORMAT_PROMETHEUS)
    write_prometheus(stats, &o);
  else
    write_text(stats, &o);
  return o.rc;
}
