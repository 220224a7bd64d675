/* SPDX-License-Identifier: MIT
 *
 * Statistics: ask about a task, visit all tasks, read counters and histograms, write both as text
 * or for Prometheus. Counters and histograms are always on.
 */
#ifndef UVSCHED_STATS_H
#define UVSCHED_STATS_H

#include <stdio.h>

#include <uvsched.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ----------------------------------------------------------------- tasks --- */

/* The state of a task. */
enum {
  UVS_WAITING = 1, /* the next run is not due yet */
  UVS_READY,       /* due; the task waits for a runner, for the loop, or for its lane */
  UVS_RUNNING,     /* the body runs or is pending */
  UVS_ENDED        /* no run is in progress and none will start; `done` is still to come */
};

typedef struct {
  size_t size; /* set by the initializer; new fields go at the end */
  uvs_id_t id;
  int state;            /* UVS_WAITING ... */
  int kind;             /* UVS_ONE_SHOT ... */
  int from;             /* UVS_FROM_WALL or UVS_FROM_MONOTONIC: the clock of due_ns */
  int cancelled;        /* 1: the outcome is UV_ECANCELED; the last run may still be finishing */
  int64_t due_ns;       /* of the next run, or of the run in progress; UVS_NEVER */
  int64_t remaining_ns; /* until due_ns; negative if overdue; UVS_NEVER */
  int64_t period_ns;
  uint64_t runs;   /* started runs */
  uint64_t missed; /* points of the grid that passed without a run, since the task was submitted */
  void *arg;
  char name[UVS_NAME_MAX + 1];
  uvs_work_cb work;  /* the body as submitted, before any decoration */
  uint64_t failures; /* consecutive failures up to now */
  /* How late the last run was, and why, as in uvs_run_t. Not recorded for a plain one-shot, whose
   * spec has nothing but first_ns, work or after, done, arg and flags. */
  int64_t late_ns;
  int culprit;
  int timed_out; /* 1: a time limit has settled the task, and the body still runs */
  int64_t late_by_ns[UVS_LATE_CAUSES];
  int priority;    /* UVS_PRIORITY_... */
  uvs_lane_t lane; /* 0: none */
  int paused;      /* 1: uvs_pause was called, and uvs_resume was not */
} uvs_info_t;

static inline void uvs_info_init(uvs_info_t *i) {
  memset(i, 0, sizeof *i);
  i->size = sizeof *i;
}

/* Ask about a task. Thread: any. UV_ENOENT (ended or stale); UV_EINVAL (no initialized *ret). */
UVS_API int uvs_info(uvs_t *s, uvs_id_t id, uvs_info_t *ret);

/* Visit every task that has not ended, in no special order. If `each` returns a nonzero value, the
 * visit ends, and uvs_each returns that value. `each` may call anything but uvs_each. arg: that of
 * uvs_each. Thread: loop thread. UV_EINVAL; UV_EPERM (thread); UV_EBUSY (inside `each`). */
typedef int (*uvs_each_cb)(uvs_t *s, const uvs_info_t *info, void *arg);
UVS_API int uvs_each(uvs_t *s, uvs_each_cb each, void *arg);

/* The same visit in steps, so that many tasks do not hold up the loop. A step looks at up to
 * `places` places for tasks, from *cursor on, and moves *cursor. The first step begins with *cursor
 * 0; after the last step *cursor is 0 again. A task that is submitted between two steps may be left
 * out. After an error, or a nonzero answer of `each`, *cursor is past the last task that was
 * visited. Otherwise as uvs_each. UV_EINVAL also if places is 0 or cursor is NULL. */
UVS_API int uvs_each_step(uvs_t *s, uint64_t *cursor, uint32_t places, uvs_each_cb each, void *arg);

/* Print the scheduler's state, its counters and its tasks, nearest deadline first. Thread: loop
 * thread. UV_EINVAL; UV_EPERM (thread); UV_ENOMEM; UV_EBUSY (inside `each`). */
UVS_API int uvs_dump(uvs_t *s, FILE *out);

/* -------------------------------------------------------------- counters --- */

/* At every instant: submitted = completed + failed + cancelled + timed_out + dropped + waiting +
 * ready + running. */
typedef struct {
  size_t size; /* set by the initializer; new fields go at the end */
  uint64_t submitted, completed, failed, cancelled;
  uint64_t waiting, ready, running; /* if cancelled during a run: `cancelled`, not `running` */
  uint64_t rejected;                /* submissions refused: max_pending or shutdown */
  uint64_t runs;                    /* started runs */
  uint64_t missed;                  /* points of a grid that passed without a run */
  uint64_t runners;                 /* pool threads busy with bodies now */
  uint64_t peak_runners;            /* the greatest number of runners so far */
  uint64_t slots;                   /* tasks that the allocated memory has room for */
  uint64_t timed_out;               /* the last run passed its limit; its body may still run */
  uint64_t dropped;                 /* by the rejection policy */
  uint64_t failed_runs;             /* also of tasks that went on */
  uint64_t heap_ops;    /* insertions into the delay queue, moves inside it, removals from it */
  uint64_t wakeups;     /* loop passes that the scheduler asked for, by its timer or a wake-up */
  uint64_t concurrency; /* as uvs_concurrency */
  /* How long the oldest ready task has been ready; 0: no task is ready. Only the tasks that start
   * next are looked at: of each priority, on the loop, on the pool and on each executor. A task
   * that waits for a place in its lane does not count. */
  uint64_t oldest_ready_ns;
  /* How long the loop was held up: the sum, and the longest time. Either a pass of the scheduler
   * began 5 ms or more after its time, or a pass took 5 ms or more longer than budget_ns. */
  uint64_t loop_held_ns, loop_held_max_ns;
} uvs_counts_t;

static inline void uvs_counts_init(uvs_counts_t *c) {
  memset(c, 0, sizeof *c);
  c->size = sizeof *c;
}

/* Read all counters in one consistent snapshot. After close, a thread that holds a reference gets
 * the final numbers. Thread: any. */
UVS_API int uvs_counts(uvs_t *s, uvs_counts_t *ret);

/* ------------------------------------------------------------ histograms --- */

enum {
  UVS_STAT_QUEUE = 0, /* from ready to the start of a run */
  UVS_STAT_RUN,       /* from the start to the end of a run; only runs that have ended */
  UVS_STAT_LATE,      /* how late each run started */
  UVS_STAT_CAUSE      /* + UVS_LATE_...: how late the runs with this culprit started */
};

/* Bucket 0 holds values below 1024 ns. Above, each power of two is divided into four buckets. The
 * last bucket begins at 2^40 ns, which is 18 minutes. */
#define UVS_BUCKETS 122

typedef struct {
  size_t size;                  /* set by the initializer */
  uint64_t count;               /* always the sum of the buckets */
  uint64_t sum_ns;              /* may include a value that is just being added */
  uint64_t max_ns;              /* may include a value that is just being added */
  uint64_t bucket[UVS_BUCKETS]; /* see uvs_bucket_ns */
} uvs_histogram_t;

static inline void uvs_histogram_init(uvs_histogram_t *h) {
  memset(h, 0, sizeof *h);
  h->size = sizeof *h;
}

/* Read one histogram: all values since uvs_open. Blocks no other thread. Thread: any. UV_EINVAL (an
 * unknown UVS_STAT_..., or no initialized *ret). */
UVS_API int uvs_histogram(uvs_t *s, int which, uvs_histogram_t *ret);

/* The upper bound of a bucket: every value in the bucket is below it. UVS_NEVER for the last. */
UVS_API int64_t uvs_bucket_ns(unsigned bucket);

/* The q-quantile (q from 0 to 1), rounded up: at least the share q of all values is not above the
 * answer. The answer is the upper bound of the bucket of the q-quantile, but never more than
 * max_ns. From 1024 ns on, it is at most a quarter too high. 0 if the histogram is empty. The
 * function reads only count, max_ns and bucket, so it also works on the difference of two
 * snapshots. */
UVS_API int64_t uvs_quantile_ns(const uvs_histogram_t *h, double q);

/* --------------------------------------------------------- names of tasks --- */

/* Tasks with a name also have histograms by name. The first max_names names (uvs_options_t) have
 * histograms of their own, until the scheduler is freed. They take 2.2 KB when the first task of
 * the name is submitted. The tasks of all other names are counted together under the name "other":
 * those of further names, of names that are not valid UTF-8, and of the name "other" itself. If
 * there is no memory for a name, the submission does not fail, and the task is counted under
 * "other", or, if there is no memory for that either, not by name. max_names: 0 (no statistics by
 * name) to 256. */
#define UVS_NAMES_MAX 256
#define UVS_NAME_OTHER "other"

typedef struct {
  size_t size; /* set by the initializer; new fields go at the end */
  char name[UVS_NAME_MAX + 1];
  uvs_histogram_t late; /* how late each run started */
  uvs_histogram_t run;  /* from the start to the end of a run; only runs that have ended */
} uvs_name_stats_t;

static inline void uvs_name_stats_init(uvs_name_stats_t *n) {
  memset(n, 0, sizeof *n);
  n->size = sizeof *n;
}

/* Read the statistics of one name. Blocks no other thread for longer than a look-up. Thread: any.
 * UV_ENOENT (no task of this name was submitted, or its tasks are counted under "other");
 * UV_EINVAL (NULL name, or no initialized *ret). */
UVS_API int uvs_name_stats(uvs_t *s, const char *name, uvs_name_stats_t *ret);

/* Visit all names that have statistics: first "other", if it has any, then the names in the order
 * of their first submission. If `each` returns a nonzero value, the visit ends, and uvs_each_name
 * returns that value. `each` may call anything. arg: that of uvs_each_name. Thread: any.
 * UV_EINVAL. */
typedef int (*uvs_each_name_cb)(uvs_t *s, const uvs_name_stats_t *stats, void *arg);
UVS_API int uvs_each_name(uvs_t *s, uvs_each_name_cb each, void *arg);

/* ------------------------------------------------------------------ text --- */

/* Gets whole lines. A nonzero answer stops the writing. arg: that of uvs_stats_write. */
typedef int (*uvs_write_cb)(const char *data, size_t size, void *arg);

enum {
  UVS_FORMAT_TEXT = 0,  /* one screen, for a human */
  UVS_FORMAT_PROMETHEUS /* the text exposition format, version 0.0.4 */
};

/**
 * Write counters and histograms, piece by piece. The names of the metrics begin with uvsched_. If
 * the scheduler has a name (uvs_options_t), each series has it as the label `scheduler`.
 *
 * Thread:  any. `write` is called on the same thread, before this call returns. `write` may call
 *          anything.
 * Returns: 0; what `write` answered, if not 0; UV_EINVAL (unknown format, NULL write).
 */
UVS_API int uvs_stats_write(uvs_t *s, int format, uvs_write_cb write, void *arg);

/**
 * Write several schedulers as one page for Prometheus, version 0.0.4.
 *
 * Thread:  any that may use all of the schedulers; `write` is called as by uvs_stats_write.
 * Returns: 0; what `write` answered, if not 0; UV_EINVAL (n is 0, an argument is NULL, two
 *          schedulers have the same name, or two have none); UV_ESHUTDOWN (a scheduler was closed);
 *          UV_ENOMEM (from the allocator of the first scheduler). With these three codes
 *          nothing was written.
 */
UVS_API int uvs_stats_write_all(uvs_t *const *list, size_t n, uvs_write_cb write, void *arg);

UVS_API const char *uvs_name(const uvs_t *s); /* uvs_options_t.name; "" if it has none */

UVS_API const char *uvs_state_name(int state); /* "waiting" ...; "?" if unknown */
/* "timer" ... "submit", "retry"; "on time" for -1 (no culprit); "?" if unknown. */
UVS_API const char *uvs_late_name(int cause);
/* What a task's final status means: "completed", "failed", "cancelled", "timed out". */
UVS_API const char *uvs_outcome_name(int status);

#ifdef __cplusplus
}
#endif

#endif
