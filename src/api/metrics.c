/* SPDX-License-Identifier: MIT
 *
 * metrics: the statistics of a scheduler: read, and written out.
 *
 * Everything is read before the first line is written. So `write` is called without the lock, and
 * may call anything. Nothing is allocated. Numbers are printed from integers: where the locale has
 * a decimal comma, %f would write a comma, which Prometheus does not accept.
 */
#include "api/api.h"
#include "pool/runner.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#define TEXT_SIZE 512 /* several lines; the longest is below 200 */
#define LABEL_SIZE 32
#define READABLE_SIZE 24
#define SEC UINT64_C(1000000000)

/* ---- read ---- */

/* Runners stay as long as the scheduler, and new ones are added in front. So the list can be
 * followed without the lock. */
static const struct uvs__runner *all_runners(uvs_t *s) {
  const struct uvs__runner *first;

  uvs__lock(s);
  first = s->runners.all;
  uvs__unlock(s);
  return first;
}

/* The sum of the statistics `from` to `to` of all cells. The lock is not needed: a cell has one
 * writer at a time, and any thread may read it (util/stats.h). */
static void read_stats(const uvs_t *s, const struct uvs__runner *runners, int from, int to,
                       uvs_histogram_t *ret) {
  uvs_histogram_init(ret);
  for (int stat = from; stat <= to; stat++) {
    uvs__cell_read(&s->loop_cell, stat, ret);
    uvs__cell_read(&s->shared_cell, stat, ret);
    for (const struct uvs__runner *r = runners; r != NULL; r = r->all)
      uvs__cell_read(&r->cell, stat, ret);
  }
}

int uvs_histogram(uvs_t *s, int which, uvs_histogram_t *ret) {
  uvs_histogram_t h;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (which < 0 || which >= UVS__STATS || ret == NULL ||
      uvs__check_size(ret, ret->size, sizeof h, sizeof h) < 0)
    return UV_EINVAL;
  read_stats(s, all_runners(s), which, which == UVS_STAT_LATE ? UVS__STATS - 1 : which, &h);
  h.size = ret->size; /* a larger struct is zero beyond ours: uvs__check_size */
  memcpy(ret, &h, sizeof h);
  return 0;
}

/* What is written out. */
struct report {
  uvs_counts_t counts;
  uvs_histogram_t late;             /* of all runs */
  uvs_histogram_t stat[UVS__STATS]; /* as in a cell: UVS_STAT_LATE has the runs without culprit */
};

static int read_report(uvs_t *s, struct report *ret) {
  const struct uvs__runner *runners = all_runners(s);
  int rc;

  uvs_counts_init(&ret->counts);
  rc = uvs_counts(s, &ret->counts);
  if (rc < 0)
    return rc;
  read_stats(s, runners, UVS_STAT_LATE, UVS__STATS - 1, &ret->late);
  for (int stat = 0; stat < UVS__STATS; stat++)
    read_stats(s, runners, stat, stat, &ret->stat[stat]);
  return 0;
}

/* ---- lines ---- */

struct out {
  uvs_write_cb write;
  void *arg;
  int rc; /* not 0: `write` has returned this, and is not called again */
  size_t used;
  char text[TEXT_SIZE];
};

static void flush(struct out *o) {
  if (o->used > 0)
    o->rc = o->write(o->text, o->used, o->arg);
  o->used = 0; /* also if `write` has failed */
}

/* Adds whole lines to the buffer, and writes the buffer out first if it has no room for them. */
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
    UVS_ASSERT(o->used > 0); /* no line is longer than the buffer */
    flush(o);
  }
}

/* ---- the metrics ---- */

#define FIELD(name) offsetof(uvs_counts_t, name)
#define AS_ABOVE NULL, NULL, NULL

/* The fields of uvs_counts_t: first the sum and its parts, in its order. The last three columns are
 * the metric's name, type and help for Prometheus. */
static const struct {
  const char *name;
  size_t offset;
  const char *labels, *metric, *type, *help;
} counters[] = {
    {"submitted", FIELD(submitted), "", "uvsched_tasks_submitted_total", "counter",
     "Tasks accepted."},
    {"completed", FIELD(completed), "{outcome=\"completed\"}", "uvsched_tasks_ended_total",
     "counter", "Tasks whose outcome is final."},
    {"failed", FIELD(failed), "{outcome=\"failed\"}", AS_ABOVE},
    {"cancelled", FIELD(cancelled), "{outcome=\"cancelled\"}", AS_ABOVE},
    {"timed out", FIELD(timed_out), "{outcome=\"timed out\"}", AS_ABOVE},
    {"dropped", FIELD(dropped), "{outcome=\"dropped\"}", AS_ABOVE},
    {"waiting", FIELD(waiting), "{state=\"waiting\"}", "uvsched_tasks", "gauge",
     "Tasks whose outcome is open."},
    {"ready", FIELD(ready), "{state=\"ready\"}", AS_ABOVE},
    {"running", FIELD(running), "{state=\"running\"}", AS_ABOVE},
    {"rejected", FIELD(rejected), "", "uvsched_submissions_rejected_total", "counter",
     "Submissions refused: too many tasks, or shut down."},
    {"runs", FIELD(runs), "", "uvsched_runs_total", "counter", "Runs started."},
    {"failed runs", FIELD(failed_runs), "", "uvsched_runs_failed_total", "counter",
     "Runs that failed, also of tasks that went on."},
    {"missed", FIELD(missed), "", "uvsched_runs_missed_total", "counter",
     "Points of a fixed rate that passed without a run."},
    {"runners", FIELD(runners), "", "uvsched_runners", "gauge",
     "Pool threads that are busy with task bodies."},
    {"runners, peak", FIELD(peak_runners), "", "uvsched_runners_peak", "gauge",
     "The most pool threads that were busy at once."},
    {"slots", FIELD(slots), "", "uvsched_task_slots", "gauge", "Tasks that there is memory for."},
    {"heap ops", FIELD(heap_ops), "", "uvsched_heap_operations_total", "counter",
     "Tasks put into the delay queue, moved in it, or taken out."},
    {"wake-ups", FIELD(wakeups), "", "uvsched_wakeups_total", "counter",
     "Loop passes that the scheduler asked for."},
};

#define COUNTS (sizeof counters / sizeof counters[0])

_Static_assert(sizeof(uvs_counts_t) == sizeof(size_t) + COUNTS * sizeof(uint64_t),
               "every field of uvs_counts_t has its line");

static uint64_t count_of(const uvs_counts_t *c, size_t i) {
  uint64_t n;

  memcpy(&n, (const char *)c + counters[i].offset, sizeof n);
  return n;
}

static const struct {
  const char *name, *metric, *help;
} times[] = {
    [UVS_STAT_QUEUE] = {"queue", "uvsched_run_queue_seconds",
                        "How long runs were ready before they started."},
    [UVS_STAT_RUN] = {"run", "uvsched_run_duration_seconds", "How long runs took."},
    [UVS_STAT_LATE] = {"late", "uvsched_run_late_seconds",
                       "How late runs started, by the main cause of the delay."},
};

/* ---- for Prometheus ---- */

static void write_head(struct out *o, const char *metric, const char *type, const char *help) {
  line(o, "# HELP %s %s\n# TYPE %s %s\n", metric, help, metric, type);
}

/* One `le` for each power of two. A value exactly on a bound is counted in the bucket above; a
 * nanosecond makes no difference here. The label, if there is one, comes in two forms: `beside`
 * goes in front of `le`, `alone` is complete. */
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

static void write_prometheus(const struct report *r, struct out *o) {
  const char *metric = NULL;

  for (size_t i = 0; i < COUNTS; i++) {
    if (counters[i].metric != NULL) {
      metric = counters[i].metric;
      write_head(o, metric, counters[i].type, counters[i].help);
    }
    line(o, "%s%s %" PRIu64 "\n", metric, counters[i].labels, count_of(&r->counts, i));
  }
  for (int stat = 0; stat < UVS__STATS; stat++) {
    int cause = stat - UVS_STAT_CAUSE; /* below -1: it is not about lateness; -1: no culprit */
    char beside[LABEL_SIZE] = "", alone[LABEL_SIZE] = "";

    if (stat <= UVS_STAT_LATE)
      write_head(o, times[stat].metric, "histogram", times[stat].help);
    if (cause >= -1) {
      const char *culprit = cause < 0 ? "none" : uvs_late_name(cause);

      snprintf(beside, sizeof beside, "culprit=\"%s\",", culprit);
      snprintf(alone, sizeof alone, "{culprit=\"%s\"}", culprit);
    }
    write_series(o, times[cause < -1 ? stat : UVS_STAT_LATE].metric, beside, alone, &r->stat[stat]);
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

/* Writes the culprits. The one with the greatest share of all lateness comes first. */
static void write_causes(const struct report *r, struct out *o) {
  const uvs_histogram_t *of = &r->stat[UVS_STAT_CAUSE]; /* by UVS_LATE_... */
  bool written[UVS_LATE_CAUSES] = {false};
  double all_ns = 0;

  for (int cause = 0; cause < UVS_LATE_CAUSES; cause++)
    all_ns += (double)of[cause].sum_ns;
  if (all_ns > 0)
    line(o, "\n%-15s %12s %9s %9s %9s %9s %8s\n", "late because of", "count", "p50", "p90", "p99",
         "max", "share");
  for (;;) {
    char share[READABLE_SIZE];
    unsigned thousandths;
    int most = -1;

    for (int cause = 0; cause < UVS_LATE_CAUSES; cause++) {
      if (!written[cause] && of[cause].sum_ns > (most < 0 ? 0 : of[most].sum_ns))
        most = cause;
    }
    if (most < 0)
      return;
    thousandths = (unsigned)((double)of[most].sum_ns * 1000 / all_ns + 0.5);
    snprintf(share, sizeof share, " %4u.%u %%", thousandths / 10, thousandths % 10);
    write_row(o, uvs_late_name(most), &of[most], share);
    written[most] = true;
  }
}

static void write_text(const struct report *r, struct out *o) {
  line(o, "tasks\n");
  for (size_t i = 0; i < COUNTS; i++)
    line(o, "  %-13s %12" PRIu64 "\n", counters[i].name, count_of(&r->counts, i));
  line(o, "\n%-15s %12s %9s %9s %9s %9s\n", "runs", "count", "p50", "p90", "p99", "max");
  write_row(o, times[UVS_STAT_LATE].name, &r->late, "");
  for (int which = 0; which < UVS_STAT_LATE; which++)
    write_row(o, times[which].name, &r->stat[which], "");
  write_causes(r, o);
}

int uvs_stats_write(uvs_t *s, int format, uvs_write_cb write, void *arg) {
  struct out o = {.write = write, .arg = arg};
  struct report r; /* 11 KB */
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (write == NULL || (format != UVS_FORMAT_TEXT && format != UVS_FORMAT_PROMETHEUS))
    return UV_EINVAL;
  rc = read_report(s, &r);
  if (rc < 0)
    return rc;
  if (format == UVS_FORMAT_PROMETHEUS)
    write_prometheus(&r, &o);
  else
    write_text(&r, &o);
  flush(&o);
  return o.rc;
}
