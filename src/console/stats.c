/* SPDX-License-Identifier: MIT */
#include "console/stats.h"

#include <uvsched/control.h>
#include <uvsched/settings.h>

/* Lanes may be many. Only the newest are looked at, and the busiest of these are shown. */
#define LANES_SEEN 1000
#define LANES_SHOWN 50

/* ---- lanes ---- */

struct lanes {
  uvs_lane_t own;
  int seen, shown;
  bool more; /* some are not shown */
  uvs_lane_info_t info[LANES_SHOWN];
};

static bool is_busier(const uvs_lane_info_t *a, const uvs_lane_info_t *b) {
  uint64_t a_due = (uint64_t)a->ready + a->running, b_due = (uint64_t)b->ready + b->running;

  return a_due != b_due ? a_due > b_due : a->tasks > b->tasks;
}

static int see_lane(uvs_t *s, const uvs_lane_info_t *info, void *arg) {
  struct lanes *l = arg;
  int at = l->shown;

  (void)s;
  if (info->lane == l->own)
    return 0;
  if (l->seen++ == LANES_SEEN) {
    l->more = true;
    return 1;
  }
  while (at > 0 && is_busier(info, &l->info[at - 1]))
    at--;
  if (l->shown == LANES_SHOWN)
    l->more = true;
  else
    l->shown++;
  if (at == LANES_SHOWN)
    return 0;
  for (int i = l->shown - 1; i > at; i--)
    l->info[i] = l->info[i - 1];
  l->info[at] = *info;
  return 0;
}

static int write_lanes(struct uvs__json *j, uvs_t *s, uvs_lane_t own) {
  struct lanes l = {.own = own};
  int rc = uvs_each_lane(s, see_lane, &l);

  if (rc < 0)
    return rc;
  uvs__json_open(j, "lanes", '[');
  for (int i = 0; i < l.shown; i++) {
    const uvs_lane_info_t *lane = &l.info[i];

    uvs__json_open(j, NULL, '{');
    uvs__json_id(j, "lane", lane->lane);
    uvs__json_uint(j, "width", lane->width);
    uvs__json_uint(j, "tasks", lane->tasks);
    uvs__json_uint(j, "ready", lane->ready);
    uvs__json_uint(j, "running", lane->running);
    uvs__json_bool(j, "own_executor", lane->own_executor);
    uvs__json_bool(j, "disposed", lane->disposed);
    uvs__json_close(j, '}');
  }
  uvs__json_close(j, ']');
  uvs__json_bool(j, "more_lanes", l.more);
  return 0;
}

/* ---- counters and histograms ---- */

static int write_counts(struct uvs__json *j, uvs_t *s) {
  uvs_counts_t c;
  int rc;

  uvs_counts_init(&c);
  rc = uvs_counts(s, &c);
  if (rc < 0)
    return rc;
  uvs__json_open(j, "counts", '{');
  uvs__json_uint(j, "submitted", c.submitted);
  uvs__json_uint(j, "completed", c.completed);
  uvs__json_uint(j, "failed", c.failed);
  uvs__json_uint(j, "cancelled", c.cancelled);
  uvs__json_uint(j, "timed_out", c.timed_out);
  uvs__json_uint(j, "dropped", c.dropped);
  uvs__json_uint(j, "waiting", c.waiting);
  uvs__json_uint(j, "ready", c.ready);
  uvs__json_uint(j, "running", c.running);
  uvs__json_uint(j, "rejected", c.rejected);
  uvs__json_uint(j, "runs", c.runs);
  uvs__json_uint(j, "failed_runs", c.failed_runs);
  uvs__json_uint(j, "missed", c.missed);
  uvs__json_uint(j, "runners", c.runners);
  uvs__json_uint(j, "peak_runners", c.peak_runners);
  uvs__json_uint(j, "slots", c.slots);
  uvs__json_uint(j, "wakeups", c.wakeups);
  uvs__json_close(j, '}');
  uvs__json_uint(j, "oldest_ready_ns", c.oldest_ready_ns);
  uvs__json_open(j, "held_up", '{');
  uvs__json_uint(j, "sum_ns", c.loop_held_ns);
  uvs__json_uint(j, "max_ns", c.loop_held_max_ns);
  uvs__json_close(j, '}');
  return 0;
}

static void write_histogram(struct uvs__json *j, const uvs_histogram_t *h) {
  uvs__json_uint(j, "count", h->count);
  uvs__json_uint(j, "sum_ns", h->sum_ns);
  uvs__json_int(j, "p50_ns", uvs_quantile_ns(h, 0.5));
  uvs__json_int(j, "p99_ns", uvs_quantile_ns(h, 0.99));
  uvs__json_uint(j, "max_ns", h->max_ns);
}

static int write_times(struct uvs__json *j, uvs_t *s) {
  static const char *const keys[] = {
      [UVS_STAT_QUEUE] = "queue", [UVS_STAT_RUN] = "run", [UVS_STAT_LATE] = "late"};

  for (int which = UVS_STAT_QUEUE; which < UVS_STAT_CAUSE + UVS_LATE_CAUSES; which++) {
    uvs_histogram_t h;
    int rc;

    uvs_histogram_init(&h);
    rc = uvs_histogram(s, which, &h);
    if (rc < 0)
      return rc;
    if (which == UVS_STAT_CAUSE)
      uvs__json_open(j, "culprits", '[');
    uvs__json_open(j, which < UVS_STAT_CAUSE ? keys[which] : NULL, '{');
    if (which >= UVS_STAT_CAUSE)
      uvs__json_string(j, "name", uvs_late_name(which - UVS_STAT_CAUSE));
    write_histogram(j, &h);
    uvs__json_close(j, '}');
  }
  uvs__json_close(j, ']');
  return 0;
}

int uvs__stats_write(struct uvs__json *j, uvs_t *s, const struct uvs__stats_about *about) {
  int rc;

  uvs__json_open(j, NULL, '{');
  uvs__json_string(j, "version", uvs_version_string());
  uvs__json_string(j, "name", uvs_name(s));
  uvs__json_int(j, "now_ns", uvs_now(s));
  uvs__json_string(j, "state",
                   uvs_is_terminated(s)    ? "terminated"
                   : uvs_is_terminating(s) ? "terminating"
                                           : "open");
  uvs__json_int(j, "concurrency", uvs_concurrency(s));
  uvs__json_bool(j, "paused", uvs_is_paused(s) > 0);
  uvs__json_bool(j, "actions", about->may_act);
  uvs__json_bool(j, "jobs", about->has_jobs);
  uvs__json_bool(j, "events", about->has_events);
  rc = write_counts(j, s);
  if (rc == 0)
    rc = write_times(j, s);
  if (rc == 0)
    rc = write_lanes(j, s, about->own_lane);
  uvs__json_close(j, '}');
  return rc;
}
