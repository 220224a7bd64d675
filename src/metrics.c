/* SPDX-License-Identifier: MIT
 *
 * metrics: the statistics of a scheduler: read, and written out.
 *
 * Nothing is allocated, and no lock is held while `write` is called. Numbers are printed from
 * integers: where the locale has a decimal comma, %f would write one, and Prometheus reads none.
 */
#include "scheduler.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#define TEXT_SIZE 512 /* several lines; the longest is below 200 */
#define LABEL_SIZE 32
#define READABLE_SIZE 24
#define SEC UINT64_C(1000000000)

/* ---- read ---- */

/* Each cell once, so what is found there belongs together. */
static void add_stat(uvs_t *s, int stat, uvs_histogram_t *h) {
  uvs__cell_read(&s->loop_cell, stat, h);
  uvs__cell_read(&s->shared_cell, stat, h);
  for (const struct uvs__runner *r = uvs__pool_runners(&s->pool); r != NULL; r = r->all)
    uvs__cell_read(&r->cell, stat, h);
}

static void snapshot(uvs_t *s, int which, uvs_histogram_t *h) {
  uvs_histogram_init(h);
  add_stat(s, which, h);
  for (int cause = 0; which == UVS_STAT_LATE && cause < UVS_LATE_CAUSES; cause++)
    add_stat(s, UVS_STAT_CAUSE + cause, h);
}

int uvs_histogram(uvs_t *s, int which, uvs_histogram_t *ret) {
  uvs_histogram_t h;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (which < 0 || which >= UVS__STATS || ret == NULL ||
      uvs__check_size(ret, ret->size, sizeof h, sizeof h) < 0)
    return UV_EINVAL;
  snapshot(s, which, &h);
  h.size = ret->size; /* what the caller has beyond ours is zero */
  memcpy(ret, &h, sizeof h);
  return 0;
}

/* ---- lines ---- */

struct out {
  uvs_write_cb write;
  void *arg;
  int rc; /* not 0: `write` wants no more */
  size_t used;
  char text[TEXT_SIZE];
};

static void flush(struct out *o) {
  if (o->used > 0)
    o->rc = o->write(o->text, o->used, o->arg);
  o->used = 0; /* and stays so if `write` wants no more */
}

/* A whole line; it goes out together with others. */
__attribute__((format(printf, 2, 3))) static void line(struct out *o, const char *format, ...) {
  for (int again = 0; again < 2 && o->rc == 0; again++) {
    size_t room = sizeof o->text - o->used;
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(o->text + o->used, room, format, args);
    va_end(args);
    UVS_ASSERT(n > 0);
    if ((size_t)n < room) {
      o->used += (size_t)n;
      return;
    }
    UVS_ASSERT(o->used > 0); /* no line is longer than the room for all */
    flush(o);
  }
}

/* ---- what there is ---- */

struct family {
  const char *name, *type, *help;
};

static const struct family submitted = {"uvsched_tasks_submitted_total", "counter",
                                        "Tasks accepted."};
static const struct family ended = {"uvsched_tasks_ended_total", "counter",
                                    "Tasks whose outcome is final."};
static const struct family tasks = {"uvsched_tasks", "gauge", "Tasks whose outcome is open."};
static const struct family rejected = {"uvsched_submissions_rejected_total", "counter",
                                       "Submissions refused: too many tasks, or shut down."};
static const struct family runs = {"uvsched_runs_total", "counter", "Runs started."};
static const struct family failed_runs = {"uvsched_runs_failed_total", "counter",
                                          "Runs that failed, also of tasks that went on."};
static const struct family missed = {"uvsched_runs_missed_total", "counter",
                                     "Points of a fixed rate that passed without a run."};
static const struct family runners = {"uvsched_runners", "gauge",
                                      "Pool threads that are busy with task bodies."};
static const struct family peak = {"uvsched_runners_peak", "gauge",
                                   "The most pool threads that were busy at once."};
static const struct family slots = {"uvsched_task_slots", "gauge",
                                    "Tasks that there is memory for."};
static const struct family heap_ops = {"uvsched_heap_operations_total", "counter",
                                       "Tasks put into the delay heap, moved in it, taken out."};
static const struct family wakeups = {"uvsched_wakeups_total", "counter",
                                      "Turns of the loop that the scheduler asked for."};
static const struct family late = {
    "uvsched_run_late_seconds", "histogram",
    "How much later than due runs started, by what most of it was spent on."};

/* The fields of uvs_counts_t: first the sum and its parts, in its order. Those of one family stand
 * together. */
static const struct count {
  const char *name;
  size_t offset;
  const struct family *family;
  const char *labels;
} counts[] = {
    {"submitted", offsetof(uvs_counts_t, submitted), &submitted, ""},
    {"completed", offsetof(uvs_counts_t, completed), &ended, "{outcome=\"completed\"}"},
    {"failed", offsetof(uvs_counts_t, failed), &ended, "{outcome=\"failed\"}"},
    {"cancelled", offsetof(uvs_counts_t, cancelled), &ended, "{outcome=\"cancelled\"}"},
    {"timed out", offsetof(uvs_counts_t, timed_out), &ended, "{outcome=\"timed out\"}"},
    {"dropped", offsetof(uvs_counts_t, dropped), &ended, "{outcome=\"dropped\"}"},
    {"waiting", offsetof(uvs_counts_t, waiting), &tasks, "{state=\"waiting\"}"},
    {"ready", offsetof(uvs_counts_t, ready), &tasks, "{state=\"ready\"}"},
    {"running", offsetof(uvs_counts_t, running), &tasks, "{state=\"running\"}"},
    {"rejected", offsetof(uvs_counts_t, rejected), &rejected, ""},
    {"runs", offsetof(uvs_counts_t, runs), &runs, ""},
    {"failed runs", offsetof(uvs_counts_t, failed_runs), &failed_runs, ""},
    {"missed", offsetof(uvs_counts_t, missed), &missed, ""},
    {"runners", offsetof(uvs_counts_t, runners), &runners, ""},
    {"runners, peak", offsetof(uvs_counts_t, peak_runners), &peak, ""},
    {"slots", offsetof(uvs_counts_t, slots), &slots, ""},
    {"heap ops", offsetof(uvs_counts_t, heap_ops), &heap_ops, ""},
    {"wake-ups", offsetof(uvs_counts_t, wakeups), &wakeups, ""},
};

#define COUNTS (sizeof counts / sizeof counts[0])

_Static_assert(sizeof(uvs_counts_t) == sizeof(size_t) + COUNTS * sizeof(uint64_t),
               "every field of uvs_counts_t has its line");

static uint64_t count_of(const uvs_counts_t *c, size_t i) {
  uint64_t n;

  memcpy(&n, (const char *)c + counts[i].offset, sizeof n);
  return n;
}

static const struct {
  const char *name;
  struct family family;
} times[] = {
    [UVS_STAT_QUEUE] = {"queue",
                        {"uvsched_run_queue_seconds", "histogram",
                         "How long runs were ready before they started."}},
    [UVS_STAT_RUN] = {"run", {"uvsched_run_duration_seconds", "histogram", "How long runs took."}},
};

/* ---- for Prometheus ---- */

static void write_family(struct out *o, const struct family *f) {
  line(o, "# HELP %s %s\n# TYPE %s %s\n", f->name, f->help, f->name, f->type);
}

/* One `le` for each power of two. What is exactly on a bound is in the bucket above; a nanosecond
 * makes no difference here. The label, if there is one, in both its forms: beside `le`, and alone.
 */
static void write_series(struct out *o, const char *name, const char *beside, const char *alone,
                         const uvs_histogram_t *h) {
  uint64_t below = 0;

  for (unsigned i = 0; i < UVS_BUCKETS - 1; i++) {
    uint64_t bound_ns = (uint64_t)uvs_bucket_ns(i);

    below += h->bucket[i];
    if (i % 4 == 0)
      line(o, "%s_bucket{%sle=\"%" PRIu64 ".%09" PRIu64 "\"} %" PRIu64 "\n", name, beside,
           bound_ns / SEC, bound_ns % SEC, below);
  }
  line(o, "%s_bucket{%sle=\"+Inf\"} %" PRIu64 "\n", name, beside, h->count);
  line(o, "%s_sum%s %" PRIu64 ".%09" PRIu64 "\n", name, alone, h->sum_ns / SEC, h->sum_ns % SEC);
  line(o, "%s_count%s %" PRIu64 "\n", name, alone, h->count);
}

static void write_prometheus(uvs_t *s, const uvs_counts_t *c, struct out *o) {
  uvs_histogram_t h;

  for (size_t i = 0; i < COUNTS; i++) {
    if (i == 0 || counts[i].family != counts[i - 1].family)
      write_family(o, counts[i].family);
    line(o, "%s%s %" PRIu64 "\n", counts[i].family->name, counts[i].labels, count_of(c, i));
  }
  for (int which = 0; which < UVS_STAT_LATE && o->rc == 0; which++) {
    snapshot(s, which, &h);
    write_family(o, &times[which].family);
    write_series(o, times[which].family.name, "", "", &h);
  }
  write_family(o, &late);
  for (int cause = -1; cause < UVS_LATE_CAUSES && o->rc == 0; cause++) {
    char beside[LABEL_SIZE], alone[LABEL_SIZE];
    const char *culprit = cause < 0 ? "none" : uvs_late_name(cause);

    snprintf(beside, sizeof beside, "culprit=\"%s\",", culprit);
    snprintf(alone, sizeof alone, "{culprit=\"%s\"}", culprit);
    uvs_histogram_init(&h);
    add_stat(s, UVS_STAT_CAUSE + cause, &h);
    write_series(o, late.name, beside, alone, &h);
  }
}

/* ---- for a human ---- */

/* Three digits and a unit. */
static const char *readable(char text[READABLE_SIZE], uint64_t ns) {
  static const char *const units[] = {"ns", "us", "ms", "s"};
  uint64_t unit_ns = 1;
  unsigned i = 0;
  uint64_t whole, rest;

  while (i < 3 && ns / unit_ns >= 1000) {
    unit_ns *= 1000;
    i++;
  }
  whole = ns / unit_ns;
  rest = i == 0 ? 0 : ns % unit_ns / (unit_ns / 1000); /* thousandths */
  if (i == 0 || whole >= 100)
    snprintf(text, READABLE_SIZE, "%" PRIu64 " %s", whole, units[i]);
  else if (whole >= 10)
    snprintf(text, READABLE_SIZE, "%" PRIu64 ".%" PRIu64 " %s", whole, rest / 100, units[i]);
  else
    snprintf(text, READABLE_SIZE, "%" PRIu64 ".%02" PRIu64 " %s", whole, rest / 10, units[i]);
  return text;
}

static void write_row(struct out *o, const char *name, const uvs_histogram_t *h,
                      const char *share) {
  char text[4][READABLE_SIZE];

  line(o, "  %-13s %12" PRIu64 " %9s %9s %9s %9s%s\n", name, h->count,
       readable(text[0], (uint64_t)uvs_quantile_ns(h, 0.5)),
       readable(text[1], (uint64_t)uvs_quantile_ns(h, 0.9)),
       readable(text[2], (uint64_t)uvs_quantile_ns(h, 0.99)), readable(text[3], h->max_ns), share);
}

/* The culprits, the greatest share of all lateness first. */
static void write_causes(uvs_t *s, struct out *o) {
  uvs_histogram_t h;
  uint64_t sum_ns[UVS_LATE_CAUSES];
  double all_ns = 0;

  for (int cause = 0; cause < UVS_LATE_CAUSES; cause++) {
    snapshot(s, UVS_STAT_CAUSE + cause, &h);
    sum_ns[cause] = h.sum_ns;
    all_ns += (double)h.sum_ns;
  }
  if (all_ns > 0)
    line(o, "\n%-15s %12s %9s %9s %9s %9s %8s\n", "late because of", "count", "p50", "p90", "p99",
         "max", "share");
  while (o->rc == 0) {
    char share[READABLE_SIZE];
    unsigned thousandths;
    int most = 0;

    for (int cause = 1; cause < UVS_LATE_CAUSES; cause++)
      most = sum_ns[cause] > sum_ns[most] ? cause : most;
    if (sum_ns[most] == 0)
      return;
    thousandths = (unsigned)((double)sum_ns[most] * 1000 / all_ns + 0.5);
    snprintf(share, sizeof share, " %4u.%u %%", thousandths / 10, thousandths % 10);
    snapshot(s, UVS_STAT_CAUSE + most, &h);
    write_row(o, uvs_late_name(most), &h, share);
    sum_ns[most] = 0;
  }
}

static void write_text(uvs_t *s, const uvs_counts_t *c, struct out *o) {
  uvs_histogram_t h;

  line(o, "tasks\n");
  for (size_t i = 0; i < COUNTS; i++)
    line(o, "  %-13s %12" PRIu64 "\n", counts[i].name, count_of(c, i));
  line(o, "\n%-15s %12s %9s %9s %9s %9s\n", "runs", "count", "p50", "p90", "p99", "max");
  snapshot(s, UVS_STAT_LATE, &h);
  write_row(o, "late", &h, "");
  for (int which = 0; which < UVS_STAT_LATE; which++) {
    snapshot(s, which, &h);
    write_row(o, times[which].name, &h, "");
  }
  write_causes(s, o);
}

int uvs_stats_write(uvs_t *s, int format, uvs_write_cb write, void *arg) {
  struct out o = {.write = write, .arg = arg};
  uvs_counts_t c;
  int rc;

  uvs_counts_init(&c);
  rc = uvs_counts(s, &c);
  if (rc < 0)
    return rc;
  if (write == NULL || (format != UVS_TEXT && format != UVS_PROMETHEUS))
    return UV_EINVAL;
  if (format == UVS_PROMETHEUS)
    write_prometheus(s, &c, &o);
  else
    write_text(s, &c, &o);
  flush(&o);
  return o.rc;
}
