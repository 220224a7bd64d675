/* SPDX-License-Identifier: MIT
 *
 * metrics: the statistics of one or more schedulers, written out.
 *
 * Everything that needs the lock is read before the first line is written. So `write` is called
 * without the lock, and may call anything. Numbers are printed from integers: where the locale has
 * a decimal comma, %f would write a comma, which Prometheus does not accept.
 */
#include "api/api.h"
#include "pool/runner.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#define TEXT_SIZE 512   /* several lines; the longest is below 300 */
#define LABELS_SIZE 192 /* two names of 23 bytes, all escaped, and `culprit` or `le` */
#define READABLE_SIZE 24
#define SEC UINT64_C(1000000000)
#define NAMED_FIRST 24 /* uvs_bucket_ns: 2^16 ns */
#define NAMED_LAST 104 /* 2^36 ns */

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

/* The fields of uvs_counts_t: first the sum and its parts, in its order. A label is a name and a
 * value. The last three columns are the metric's name, type and help for Prometheus. A metric in
 * seconds is a field in nanoseconds. */
static const struct {
  const char *name;
  size_t offset;
  const char *label, *value, *metric, *type, *help;
} counters[] = {
    {"submitted", FIELD(submitted), NULL, NULL, "uvsched_tasks_submitted_total", "counter",
     "Tasks accepted."},
    {"completed", FIELD(completed), "outcome", "completed", "uvsched_tasks_ended_total", "counter",
     "Tasks whose outcome is final."},
    {"failed", FIELD(failed), "outcome", "failed", AS_ABOVE},
    {"cancelled", FIELD(cancelled), "outcome", "cancelled", AS_ABOVE},
    {"timed out", FIELD(timed_out), "outcome", "timed_out", AS_ABOVE},
    {"dropped", FIELD(dropped), "outcome", "dropped", AS_ABOVE},
    {"waiting", FIELD(waiting), "state", "waiting", "uvsched_tasks", "gauge",
     "Tasks whose outcome is open."},
    {"ready", FIELD(ready), "state", "ready", AS_ABOVE},
    {"running", FIELD(running), "state", "running", AS_ABOVE},
    {"oldest ready", FIELD(oldest_ready_ns), NULL, NULL, "uvsched_oldest_ready_seconds", "gauge",
     "How long the oldest ready task has been ready."},
    {"rejected", FIELD(rejected), NULL, NULL, "uvsched_submissions_rejected_total", "counter",
     "Submissions refused: too many tasks, or shut down."},
    {"runs", FIELD(runs), NULL, NULL, "uvsched_runs_total", "counter", "Runs started."},
    {"failed runs", FIELD(failed_runs), NULL, NULL, "uvsched_runs_failed_total", "counter",
     "Runs that failed, also of tasks that went on."},
    {"missed", FIELD(missed), NULL, NULL, "uvsched_runs_missed_total", "counter",
     "Points of a fixed rate or a calendar that passed without a run."},
    {"concurrency", FIELD(concurrency), NULL, NULL, "uvsched_concurrency", "gauge",
     "The most bodies that may run on the pool at once."},
    {"runners", FIELD(runners), NULL, NULL, "uvsched_runners", "gauge",
     "Pool threads that are busy with task bodies."},
    {"runners, peak", FIELD(peak_runners), NULL, NULL, "uvsched_runners_peak", "gauge",
     "The most pool threads that were busy at once."},
    {"slots", FIELD(slots), NULL, NULL, "uvsched_task_slots", "gauge",
     "Tasks that there is memory for."},
    {"heap ops", FIELD(heap_ops), NULL, NULL, "uvsched_heap_operations_total", "counter",
     "Tasks put into the delay queue, moved in it, or taken out."},
    {"wake-ups", FIELD(wakeups), NULL, NULL, "uvsched_wakeups_total", "counter",
     "Loop passes that the scheduler asked for."},
    {"loop held up", FIELD(loop_held_ns), NULL, NULL, "uvsched_loop_held_seconds_total", "counter",
     "For how long the loop was held up, in total."},
    {"held, longest", FIELD(loop_held_max_ns), NULL, NULL, "uvsched_loop_held_max_seconds", "gauge",
     "The longest time for which the loop was held up."},
};

#define COUNTS (sizeof counters / sizeof counters[0])

_Static_assert(sizeof(uvs_counts_t) == sizeof(size_t) + COUNTS * sizeof(uint64_t),
               "every field of uvs_counts_t has its line");

static uint64_t count_of(const uvs_counts_t *c, size_t i) {
  uint64_t n;

  memcpy(&n, (const char *)c + counters[i].offset, sizeof n);
  return n;
}

static bool is_in_ns(size_t i) {
  size_t offset = counters[i].offset;

  return offset == FIELD(oldest_ready_ns) || offset == FIELD(loop_held_ns) ||
         offset == FIELD(loop_held_max_ns);
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

/* A scheduler that is written out. */
struct source {
  uvs_t *s;
  const struct uvs__runner *runners;
  struct uvs__name_list names;
  uvs_counts_t counts;
};

static int read_source(uvs_t *s, struct source *ret) {
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  ret->s = s;
  ret->runners = uvs__all_runners(s);
  ret->names = uvs__all_names(s);
  uvs_counts_init(&ret->counts);
  return uvs_counts(s, &ret->counts);
}

/* The labels of a series, without the braces. */
struct labels {
  size_t used;
  char text[LABELS_SIZE];
};

static void add_char(struct labels *l, char c) {
  UVS_ASSERT(l->used + 1 < sizeof l->text);
  l->text[l->used++] = c;
  l->text[l->used] = '\0';
}

static void add_text(struct labels *l, const char *text) {
  for (; *text != '\0'; text++)
    add_char(l, *text);
}

/* The value is UTF-8. */
static void add_label(struct labels *l, const char *label, const char *value) {
  if (l->used > 0)
    add_char(l, ',');
  add_text(l, label);
  add_text(l, "=\"");
  for (; *value != '\0'; value++) {
    bool line_end = *value == '\n';

    if (line_end || *value == '\\' || *value == '"')
      add_char(l, '\\');
    if (line_end)
      add_char(l, 'n');
    else
      add_char(l, *value);
  }
  add_char(l, '"');
}

/* The label of the scheduler, if it has a name, and another one, if there is one. */
static struct labels labels_of(const struct source *from, const char *label, const char *value) {
  struct labels l = {.used = 0};

  if (from->s->name[0] != '\0')
    add_label(&l, "scheduler", from->s->name);
  if (label != NULL)
    add_label(&l, label, value);
  return l;
}

static void write_head(struct out *o, const char *metric, const char *type, const char *help) {
  line(o, "# HELP %s %s\n# TYPE %s %s\n", metric, help, metric, type);
}

/* One sample: of a histogram `suffix` is not empty. */
static void write_sample(struct out *o, const char *metric, const char *suffix,
                         const struct labels *l, uint64_t value, bool is_ns) {
  const char *open = l->used > 0 ? "{" : "";
  const char *close = l->used > 0 ? "}" : "";

  if (is_ns)
    line(o, "%s%s%s%s%s %" PRIu64 ".%09" PRIu64 "\n", metric, suffix, open, l->text, close,
         value / SEC, value % SEC);
  else
    line(o, "%s%s%s%s%s %" PRIu64 "\n", metric, suffix, open, l->text, close, value);
}

static void write_bucket(struct out *o, const char *metric, struct labels l, const char *le,
                         uint64_t below) {
  add_label(&l, "le", le);
  write_sample(o, metric, "_bucket", &l, below, false);
}

/* One `le` for each power of two, from that of bucket `first` to that of bucket `last`. A value
 * exactly on a bound is counted in the bucket above; a nanosecond makes no difference here. */
static void write_series(struct out *o, const char *metric, const struct labels *l,
                         const uvs_histogram_t *h, unsigned first, unsigned last) {
  uint64_t below = 0;

  for (unsigned i = 0; i <= last; i++) {
    uint64_t bound_ns = (uint64_t)uvs_bucket_ns(i);
    char le[READABLE_SIZE];

    below += h->bucket[i];
    if (i < first || i % 4 != 0)
      continue;
    snprintf(le, sizeof le, "%" PRIu64 ".%09" PRIu64, bound_ns / SEC, bound_ns % SEC);
    write_bucket(o, metric, *l, le, below);
  }
  write_bucket(o, metric, *l, "+Inf", h->count);
  write_sample(o, metric, "_sum", l, h->sum_ns, true);
  write_sample(o, metric, "_count", l, h->count, false);
}

static void write_counters(const struct source *from, size_t n, struct out *o) {
  const char *metric = NULL;

  for (size_t i = 0; i < COUNTS; i++) {
    if (counters[i].metric != NULL) {
      metric = counters[i].metric;
      write_head(o, metric, counters[i].type, counters[i].help);
    }
    for (size_t k = 0; k < n; k++) {
      struct labels l = labels_of(&from[k], counters[i].label, counters[i].value);

      write_sample(o, metric, "", &l, count_of(&from[k].counts, i), is_in_ns(i));
    }
  }
}

static void write_histograms(const struct source *from, size_t n, struct out *o) {
  for (int stat = 0; stat < UVS__STATS; stat++) {
    int cause = stat - UVS_STAT_CAUSE; /* below -1: it is not about lateness; -1: no culprit */
    const char *culprit = cause < 0 ? "none" : uvs_late_name(cause);
    const char *metric = times[cause < -1 ? stat : UVS_STAT_LATE].metric;

    if (stat <= UVS_STAT_LATE)
      write_head(o, metric, "histogram", times[stat].help);
    for (size_t k = 0; k < n; k++) {
      struct labels l = labels_of(&from[k], cause < -1 ? NULL : "culprit", culprit);
      uvs_histogram_t h;

      uvs__read_stats(from[k].s, from[k].runners, stat, stat, &h);
      write_series(o, metric, &l, &h, 0, UVS_BUCKETS - 2);
    }
  }
}

/* The bounds go only from 66 us to 69 s, because there may be many names. */
static void write_names(const struct source *from, size_t n, struct out *o, bool late) {
  const char *metric =
      late ? "uvsched_named_run_late_seconds" : "uvsched_named_run_duration_seconds";

  write_head(o, metric, "histogram",
             late ? "How late runs started, by the name of their task."
                  : "How long runs took, by the name of their task.");
  for (size_t k = 0; k < n; k++) {
    for (int i = from[k].names.from; i < from[k].names.to; i++) {
      const struct uvs__name_stat *r = from[k].names.of[i];
      struct labels l = labels_of(&from[k], "name", r->name);
      uvs_histogram_t h;

      uvs_histogram_init(&h);
      uvs__stat_read(late ? &r->late : &r->run, &h);
      write_series(o, metric, &l, &h, NAMED_FIRST, NAMED_LAST);
    }
  }
}

static bool any_names(const struct source *from, size_t n) {
  for (size_t k = 0; k < n; k++) {
    if (from[k].names.from < from[k].names.to)
      return true;
  }
  return false;
}

static void write_prometheus(const struct source *from, size_t n, struct out *o) {
  write_counters(from, n, o);
  write_histograms(from, n, o);
  if (!any_names(from, n))
    return;
  write_names(from, n, o, true);
  write_names(from, n, o, false);
}

/* Do two schedulers have the same name, or no name? Their series would have the same labels. */
static bool any_same_name(uvs_t *const *list, size_t n) {
  for (size_t i = 0; i < n; i++) {
    for (size_t k = i + 1; k < n; k++) {
      if (strcmp(list[i]->name, list[k]->name) == 0)
        return true;
    }
  }
  return false;
}

/* `from` has room for n. */
static int write_all(uvs_t *const *list, size_t n, struct source *from, struct out *o) {
  int rc = 0;

  for (size_t i = 0; i < n && rc == 0; i++)
    rc = read_source(list[i], &from[i]);
  if (rc < 0)
    return rc;
  for (size_t i = 0; i < n; i++)
    uvs_retain(from[i].s); /* `write` may close the scheduler */
  write_prometheus(from, n, o);
  flush(o);
  for (size_t i = 0; i < n; i++)
    uvs_release(from[i].s);
  return o->rc;
}

int uvs_stats_write_all(uvs_t *const *list, size_t n, uvs_write_cb write, void *arg) {
  struct out o = {.write = write, .arg = arg};
  struct source *from;
  uvs_allocator_t mem;
  int rc = 0;

  if (list == NULL || n == 0 || write == NULL)
    return UV_EINVAL;
  for (size_t i = 0; i < n && rc == 0; i++)
    rc = uvs__enter(list[i]);
  if (rc < 0)
    return rc;
  if (any_same_name(list, n))
    return UV_EINVAL;
  mem = list[0]->mem; /* the scheduler may be freed before `from` */
  from = uvs__mem_alloc(&mem, n, sizeof *from, 0);
  if (from == NULL)
    return UV_ENOMEM;
  rc = write_all(list, n, from, &o);
  uvs__mem_free(&mem, from);
  return rc;
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
static void write_causes(const uvs_histogram_t of[UVS_LATE_CAUSES], struct out *o) {
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

/* What is written for a human. */
struct report {
  uvs_counts_t counts;
  uvs_histogram_t late;             /* of all runs */
  uvs_histogram_t stat[UVS__STATS]; /* as in a cell: UVS_STAT_LATE has the runs without culprit */
};

static int read_report(uvs_t *s, struct report *ret) {
  const struct uvs__runner *runners = uvs__all_runners(s);
  int rc;

  uvs_counts_init(&ret->counts);
  rc = uvs_counts(s, &ret->counts);
  if (rc < 0)
    return rc;
  uvs__read_stats(s, runners, UVS_STAT_LATE, UVS__STATS - 1, &ret->late);
  for (int stat = 0; stat < UVS__STATS; stat++)
    uvs__read_stats(s, runners, stat, stat, &ret->stat[stat]);
  return 0;
}

static int write_text(uvs_t *s, struct out *o) {
  struct report r; /* 11 KB */
  char text[READABLE_SIZE];
  int rc = read_report(s, &r);

  if (rc < 0)
    return rc;
  line(o, "tasks\n");
  for (size_t i = 0; i < COUNTS; i++) {
    uint64_t n = count_of(&r.counts, i);

    if (is_in_ns(i))
      line(o, "  %-13s %12s\n", counters[i].name, readable(text, n));
    else
      line(o, "  %-13s %12" PRIu64 "\n", counters[i].name, n);
  }
  line(o, "\n%-15s %12s %9s %9s %9s %9s\n", "runs", "count", "p50", "p90", "p99", "max");
  write_row(o, times[UVS_STAT_LATE].name, &r.late, "");
  for (int which = 0; which < UVS_STAT_LATE; which++)
    write_row(o, times[which].name, &r.stat[which], "");
  write_causes(r.stat + UVS_STAT_CAUSE, o);
  flush(o);
  return o->rc;
}

int uvs_stats_write(uvs_t *s, int format, uvs_write_cb write, void *arg) {
  struct out o = {.write = write, .arg = arg};
  struct source from;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (write == NULL || (format != UVS_FORMAT_TEXT && format != UVS_FORMAT_PROMETHEUS))
    return UV_EINVAL;
  return format == UVS_FORMAT_TEXT ? write_text(s, &o) : write_all(&s, 1, &from, &o);
}
