/* SPDX-License-Identifier: MIT
 *
 * uvsched: a scheduler for programs that live on a libuv loop.
 *
 * Run a function once after a delay, at a fixed rate, with a fixed delay, at an instant of the wall
 * clock, or now but off the loop. One uv_timer waits for the nearest deadline; what is due runs on
 * libuv's thread pool.
 *
 *   scheduler  uvs_t, bound to one uv_loop_t
 *   task       something to run, once or again and again, named by an id
 *   id         a number; it may be stale, but never dangles
 *   work       the body, on a pool thread
 *   after      optional, on the loop thread, after each run; a task with only `after` never leaves
 *              the loop thread
 *   done       optional, on the loop thread, exactly once per accepted task: the last touch of
 *              `arg`
 *
 * THREADS. Every function may be called from any thread unless its comment says "loop thread".
 * Callbacks:
 *
 *   callback                                         thread
 *   work, before_body, after_body                    pool, or that of the executor (the loop's with
 *                                                    concurrency 0, and for tasks without `work`;
 *                                                    the submitter's with UVS_REJECT_CALLER_RUNS)
 *   after, done, error, missed, decorate,            loop
 *   never_ran, over, clean-ups, quiet, terminated,
 *   close, each
 *   rejected                                         that of the submission
 *   drop_result                                      loop; also inside uvs_set_result, uvs_forget
 *   write                                            that of uvs_stats_write
 *   allocator, clock                                 any, concurrently
 *
 * The loop's thread is the one on which the loop last gave the scheduler a turn; until the first,
 * the one that called uvs_open. A loop may move to another thread, if the old one calls nothing
 * here before the new one has run it for a turn. When it has ended (Linux), the next thread that
 * makes a call of the loop's takes its place.
 *
 * TIME. Durations and instants are signed nanoseconds. Zero or negative durations mean now,
 * UVS_NEVER means never. Nothing ever starts before its time by the nanosecond clock.
 *
 * ERRORS. Zero or a positive answer is success, a negative UV_E* code is an error. If a call
 * returns an error, nothing happened and no callback will ever run for it (the rejected handler was
 * asked before). An accepted task ends in exactly one `done`, never from inside an API call.
 * Any call on a scheduler: UV_EINVAL if it is NULL; UV_ENOTSUP in a forked child, but for
 * uvs_close; UV_ESHUTDOWN after it was closed (only a thread that holds a reference, see
 * uvs_retain, may call then). After close the calls that ask whether it is shut down and terminated
 * still answer yes, uvs_await succeeds, and uvs_counts gives the final numbers.
 *
 * docs/contract.md numbers what is promised; the tests carry those numbers.
 */
#ifndef UVSCHED_H
#define UVSCHED_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <uv.h>

#include "uvsched/version.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef UVS_API
#if defined(__GNUC__)
#define UVS_API __attribute__((visibility("default")))
#else
#define UVS_API
#endif
#endif

/* ---------------------------------------------------------------- words --- */

typedef struct uvs_s uvs_t;
typedef uint64_t uvs_id_t;   /* below 2^53; 0 names no task */
typedef uint64_t uvs_lane_t; /* the same of a lane, see uvsched/lane.h */

#define UVS_US(n) ((n)*INT64_C(1000))
#define UVS_MS(n) ((n)*INT64_C(1000000))
#define UVS_SEC(n) ((n)*INT64_C(1000000000))
#define UVS_MIN(n) (UVS_SEC(60) * (n))
#define UVS_HOUR(n) (UVS_SEC(3600) * (n))
#define UVS_DAY(n) (UVS_SEC(86400) * (n))
#define UVS_NEVER INT64_MAX

/* What a body returns: 0 = this run succeeded; a negative UV_E* code = it failed; or one of these.
 * Any other positive value is a failure, reported as UV_EINVAL. If a body that was asked to stop
 * (uvs_cancelled) returns UV_ECANCELED, the task is cancelled, not failed. */
enum {
  UVS_STOP = 1,   /* success, and a periodic task is finished */
  UVS_PENDING = 2 /* the run ends later, when uvs_finish is called */
};

/* libuv has no code for "this wait would never end". */
#define UVS_EDEADLK (-3900)

/* uvs_cancel's receipts. */
enum {
  UVS_NEVER_RUNS = 0,  /* no run will ever start */
  UVS_RUN_FINISHES = 1 /* cancelled; the present run finishes, and none follows */
};

/* uvs_cancel's flags. */
enum {
  UVS_CANCEL_TOKEN = 1,     /* also ask a running body to stop: its uvs_cancelled(run) turns true */
  UVS_CANCEL_IF_WAITING = 2 /* only if no run is in progress, else UV_EBUSY and nothing happened */
};

/* Why a run was late: what the time between due and start was spent on. */
enum {
  UVS_LATE_TIMER = 0, /* uv_timer counts in whole ms; never with precise_ns */
  UVS_LATE_LOOP,      /* the loop was held up, or asleep and had to be woken (with precise_ns) */
  UVS_LATE_BUDGET,    /* too much was due at once, and the run was left to a later pass */
  UVS_LATE_RUNNERS,   /* it was ready, but no runner was free (or no thread of libuv's pool), or it
                         was not its turn in its lane */
  UVS_LATE_OVERLAP,   /* its own previous run was still going on */
  UVS_LATE_CLOCK,     /* the wall clock was set forward */
  UVS_LATE_SUBMIT,    /* it was due before it was submitted */
  UVS_LATE_CAUSES
};
#define UVS_LATE_RETRY UVS_LATE_CAUSES /* only of missed points: a retry came in their place */

/* ------------------------------------------------------------ callbacks --- */

/* One run of a task, as its body sees it. Valid only during the callback. New fields go at the
 * end. */
typedef struct uvs_run_s {
  uvs_t *scheduler;
  uvs_id_t id;
  void *arg;
  int runner;        /* which runner: 0 and up, or UVS_ON_LOOP, or UVS_ON_CALLER */
  int status;        /* in an `after` that follows `work`: how that ended, 0 or negative; else 0 */
  int64_t ideal_ns;  /* when it should have started, jitter not counted; a wall task: wall clock */
  int64_t start_ns;  /* when it did; uvs_now's clock */
  int64_t end_ns;    /* in an `after` that follows `work`: when the run ended; else 0 */
  int64_t late_ns;   /* how much later than due (ideal plus jitter) it started; never negative */
  uint64_t number;   /* 1 for the first run; stays at 2^32 - 1 */
  uint64_t missed;   /* points of the grid that passed without a run since the run before */
  const void *state; /* ours */
  int culprit;       /* what most of late_ns was spent on: UVS_LATE_...; -1: it was on time */
  int64_t late_by_ns[UVS_LATE_CAUSES]; /* the parts of late_ns */
} uvs_run_t;

#define UVS_ON_LOOP (-1)
#define UVS_ON_CALLER (-2) /* its submitter's thread, see UVS_REJECT_CALLER_RUNS */

/* The body of a task. `work` runs on a pool thread, `after` on the loop thread. If both are given,
 * `after` sees the run's end in run->status; what it returns counts only if `work` succeeded (0: as
 * `work` said), and must not be UVS_PENDING. */
typedef int (*uvs_work_cb)(uvs_run_t *run);
typedef int (*uvs_after_cb)(uvs_run_t *run);

/* The end of a task. status: 0, the failure of the last run (UV_ETIMEDOUT: it passed its limit), or
 * UV_ECANCELED. */
typedef void (*uvs_done_cb)(uvs_t *s, uvs_id_t id, int status, void *arg);

/* A run failed, or passed its time limit, and no other callback reports that: there is no `after`,
 * which sees the status of each run, and, if it was the last run, no `done`. If the last run passes
 * its limit, the hook is called at once, and the body may still be using arg, the task's. */
typedef void (*uvs_error_cb)(uvs_t *s, uvs_id_t id, int status, void *arg);

/* Points of a fixed-rate grid passed without a run of their own, as the task's `missed` policy
 * says: `count` of them, because of `reason`, UVS_LATE_... Before the next run. */
typedef void (*uvs_missed_cb)(uvs_t *s, uvs_id_t id, uint64_t count, int reason, void *arg);

/* Around each body, on its thread. status: what it returned, also UVS_PENDING. */
typedef void (*uvs_before_body_cb)(uvs_run_t *run);
typedef void (*uvs_after_body_cb)(uvs_run_t *run, int status);

/* uvs_shutdown_now took back a task that never started (before its `done`). task_arg is the spec's
 * arg, arg that of uvs_shutdown_now. The last call has id 0 and task_arg NULL: no task follows. */
typedef void (*uvs_never_ran_cb)(uvs_t *s, uvs_id_t id, void *task_arg, void *arg);

/* What a task will run. The decorate hook may wrap or replace it, for every run of the task. */
typedef struct {
  uvs_work_cb work;        /* the body: `work`, or the `after` of a loop task */
  void *arg;               /* run->arg of the body, and of the hooks around it; every other callback
                              sees the spec's arg */
  void (*over)(void *arg); /* optional: on the loop, after `done`, with this arg; say, to free it */
} uvs_decoration_t;

/* Called once for each accepted task that may run, in the loop's next pass and before the first
 * run. API calls never invoke this hook. Until it has returned, the task is waiting. */
typedef void (*uvs_decorate_cb)(uvs_t *s, uvs_id_t id, uvs_decoration_t *d);

/* What the rejected handler answers. Any other answer leaves the refusal standing. */
enum {
  UVS_REFUSE = 0,
  UVS_DROP,    /* as UVS_REJECT_DISCARD */
  UVS_RUN_HERE /* as UVS_REJECT_CALLER_RUNS */
};

/* A submission is being refused, with code UV_EAGAIN or UV_ESHUTDOWN (then the answer changes
 * nothing). t and n are those of the call, n of the short calls 1. Once per submission until
 * the scheduler is closed, on its thread, with no lock held: may call anything that its caller
 * might. */
struct uvs_task_s; /* uvs_task_t, below */
typedef int (*uvs_rejected_cb)(uvs_t *s, const struct uvs_task_s *t, size_t n, int code);

typedef void (*uvs_terminated_cb)(uvs_t *s);
typedef void (*uvs_close_cb)(uvs_t *s);

/* 1 if the running body was asked to stop: cancelled with UVS_CANCEL_TOKEN, or past its time limit,
 * or uvs_shutdown_now or uvs_close was called. A few atomic loads, and with a limit a look at the
 * clock; call it as often as you like. Thread: that of the body (or any while the body waits for
 * it). */
UVS_API int uvs_cancelled(const uvs_run_t *run);

/* ----------------------------------------------------------------- open --- */

/* Keep-alive: what makes uv_run stay?
 *   AUTO    a ref'd task that is not over, and a ref'd queue (uvsched/queue.h) that is open. A task
 *           from another thread counts once the loop has taken it in, so a program that is fed only
 *           by other threads wants ALWAYS.
 *   ALWAYS  the scheduler itself, until it is terminated or closed.
 *   NEVER   nothing. (A body on the pool still does: libuv waits for its own requests.) */
enum { UVS_KEEP_AUTO = 0, UVS_KEEP_ALWAYS, UVS_KEEP_NEVER };

/* What happens to a submission (of one task or many) that max_pending has no room for? Once shut
 * down, it is refused with UV_ESHUTDOWN whatever the policy.
 *
 *   ABORT           refused with UV_EAGAIN
 *   DISCARD         accepted and dropped: its body never runs, its `done` says UV_ECANCELED; takes
 *                   no room
 *   DISCARD_OLDEST  accepted; for each new task the one that would start next is dropped
 *   CALLER_RUNS     accepted, above max_pending, and run by the submitter before its call returns
 *   ASK             the rejected handler is asked
 *
 * DISCARD_OLDEST also drops a periodic task between two runs. It never drops a running task, a task
 * that waits for its lane or for a hook, or a task that is due never. If there is no task to drop,
 * the new task is dropped. The drop happens inside the call, on any thread.
 *
 * CALLER_RUNS: the task's `after`, `done` and counters work as for any other task. On the loop's
 * thread the body holds up the loop. The submitter runs only one-shots that are due now, with
 * `work`, without lane, retries, limit, jitter, wall clock and decorate hook. uvs_submit_many needs
 * this of all its tasks. Tasks of uvs_all and uvs_any never run this way. Other submissions are
 * refused with UV_EAGAIN: nothing starts early. A body that submits may run another inside it. */
enum {
  UVS_REJECT_ABORT = 0,
  UVS_REJECT_DISCARD,
  UVS_REJECT_DISCARD_OLDEST,
  UVS_REJECT_CALLER_RUNS,
  UVS_REJECT_ASK
};

typedef struct {
  void *(*alloc)(size_t size, void *arg); /* aligned as malloc's; NULL = failed */
  void (*free)(void *ptr, void *arg);
  void *arg;
} uvs_allocator_t;

/* A replaced clock. No uv_timer is armed then: its owner steps it and calls uvs_clock_changed. Both
 * must not go below 0, and monotonic_ns must not go back. */
typedef struct {
  int64_t (*monotonic_ns)(void *arg);
  int64_t (*wall_ns)(void *arg); /* since 1970, UTC */
  void *arg;
} uvs_clock_t;

typedef struct {
  size_t size; /* set by the initializer; new fields go at the end */

  /* Most bodies at once on the pool, 0 .. 1024. 0: bodies run on the loop. -1 (default): one less
   * than the pool has threads (UV_THREADPOOL_SIZE as libuv reads it), but at least 1. */
  int concurrency;
  int keep_alive; /* UVS_KEEP_... */

  /* After uvs_shutdown, do one-shots that are not yet due (or wait for a retry) still run (default
   * 1), do periodic tasks go on (default 0)? Else they are cancelled. */
  int survive_delayed;
  int survive_periodic;

  uint32_t max_pending; /* most tasks waiting, ready or running, else `rejection`; 0: no bound */

  /* After this time the scheduler lets other code use the loop, or the pool thread. 1 us to 1 s;
   * default 1 ms. */
  int64_t budget_ns;

  uint64_t seed;                  /* of the jitter; 0: another one each time */
  uvs_error_cb error;             /* optional; each failure that nobody else sees */
  uvs_terminated_cb terminated;   /* optional; shut down, and the last task is over */
  void *data;                     /* uvs_data gives it back */
  uvs_clock_t clock;              /* all NULL: uv_hrtime and the system's real-time clock */
  uvs_allocator_t allocator;      /* all NULL: malloc and free */
  uvs_decorate_cb decorate;       /* optional; wraps or replaces what each task runs */
  uvs_missed_cb missed;           /* optional; points of a grid without a run */
  uvs_before_body_cb before_body; /* optional; right before each body */
  uvs_after_body_cb after_body;   /* optional; right after it */
  int rejection;                  /* UVS_REJECT_...; left 0 with a handler: ASK */
  uvs_rejected_cb rejected;       /* the handler for UVS_REJECT_ASK, which is an error without */

  /* Where `work` runs, if not on libuv's pool: on your executor (borrowed until the callback of
   * uvs_close; the scheduler never closes it), or on `threads` own threads, 1 .. 1024, which are
   * made here and closed with the scheduler. See uvsched/executor.h. With either, concurrency -1
   * means: as many as the executor says. A task that the executor refuses fails with that code, and
   * the error hook is told, even if `done` is. */
  const struct uvs_executor_s *executor;
  int threads;
  const char *thread_name; /* of own threads: uvs_threads_options_t.name; copied; may be NULL */

  /* 0 (default): the uv_timer wakes the loop, in whole ms. Else a timer that counts in ns wakes the
   * loop, this much later than the nearest deadline, so that nearby deadlines share one wake-up:
   * 1 ns (no sharing) to 1 ms; Linux itself lets a sleeping thread wake 50 us late. Takes one more
   * handle, a uv_poll. If runs are brief, a runner then waits in its pool thread for more tasks,
   * until its budget, or 1 ms, is used up. Linux only, else UV_ENOTSUP; not with a replaced clock:
   * UV_EINVAL. */
  int64_t precise_ns;
} uvs_options_t;

static inline void uvs_options_init(uvs_options_t *o) {
  memset(o, 0, sizeof *o);
  o->size = sizeof *o;
  o->concurrency = -1;
  o->survive_delayed = 1;
  o->budget_ns = UVS_MS(1);
}

/**
 * Make a scheduler on `loop`. Any number per process, several on one loop if you like.
 *
 * Thread:  loop thread, or before the loop's first turn.
 * Owns:    copies *o (NULL: defaults); borrows `loop` until the callback of uvs_close.
 * Returns: 0 with *ret set; UV_EINVAL (NULL loop or ret, a wrong size, an option out of range);
 *          UV_ENOMEM; UV_ENOTSUP (precise_ns on a system that has no such timer); or what libuv's
 *          init calls, or the system's for that timer, answer.
 */
UVS_API int uvs_open(uv_loop_t *loop, const uvs_options_t *o, uvs_t **ret);

/* --------------------------------------------------------------- submit --- */

/* A task's kind: once, at a fixed rate, with a fixed delay. */
enum { UVS_ONCE = 0, UVS_RATE, UVS_DELAY };

/* What delay_ns and until_ns count from. */
enum {
  UVS_FROM_NOW = 0,
  UVS_FROM_MONOTONIC, /* they are instants of uvs_now */
  UVS_FROM_WALL       /* they are instants of the wall clock, ns since 1970; UVS_ONCE only */
};

/* What a fixed-rate task does about points of its grid that passed while it could not run.
 *   CATCH_UP  runs them all, back to back; with max_burst, only the newest max_burst points
 *   ONCE      one run, at once, stands for all of them; run->missed says how many more passed
 *   SKIP      leaves out what passed during its own run, and a run that is a whole period late;
 *             the next one is on the grid */
enum { UVS_MISSED_CATCH_UP = 0, UVS_MISSED_ONCE, UVS_MISSED_SKIP };

/* What a run that fails means for the task. With RETRY the next run is a retry, after a wait that
 * doubles with each failure in a row. A success ends the row; points of a grid that have passed by
 * then are missed. With max_failures the task ends at that failure of a row, and has it for its
 * outcome. */
enum {
  UVS_FAIL_STOP = 0, /* the task ends with the failure */
  UVS_FAIL_GO_ON,    /* periodic tasks: the next run comes as after a success */
  UVS_FAIL_RETRY     /* also one-shots */
};

/* A task's flags. */
enum {
  UVS_UNREF = 1 /* while it waits, this task does not keep the loop alive */
};

/* Which of the tasks that are ready starts first. The classes take turns, 8 : 4 : 1: while there
 * are of all three, of any 13 starts 8 are high, 4 normal and 1 low; a class that has none leaves
 * its turns to the highest that has. So the oldest low one starts after at most 12 others, and
 * nothing starves. In a lane tasks keep their order: what counts is the priority of the one whose
 * turn it is. */
enum { UVS_PRIORITY_LOW = -1, UVS_PRIORITY_NORMAL = 0, UVS_PRIORITY_HIGH = 1 };

#define UVS_NAME_MAX 23

typedef struct uvs_task_s {
  size_t size;        /* set by the initializer; new fields go at the end */
  int kind;           /* UVS_ONCE, UVS_RATE, UVS_DELAY */
  int from;           /* UVS_FROM_... */
  int64_t delay_ns;   /* to the first run */
  int64_t period_ns;  /* RATE: the grid; DELAY: from the end of a run to the next start; ONCE: 0 */
  uvs_work_cb work;   /* pool thread; NULL: the task is `after` alone, on the loop */
  uvs_after_cb after; /* loop thread, after each run */
  uvs_done_cb done;   /* loop thread, exactly once, the last touch of arg */
  void *arg;          /* borrowed until `done` (without one: until the task is over) */
  unsigned flags;     /* UVS_UNREF */

  /* Fixed rate only. */
  int missed;         /* UVS_MISSED_... */
  uint32_t max_burst; /* CATCH_UP; 0: no bound */

  /* Periodic only: each ends the task, as a success unless its last run failed. */
  uint32_t max_runs; /* after this many started runs; 0: no bound */
  int64_t until_ns;  /* before a run whose ideal time is later; counted as delay_ns is; 0: no end */

  /* Each run is due a random time up to this after its ideal time; delays never add up. RATE: below
   * the period. With SKIP keep it well below the period: jitter counts as lateness. */
  int64_t jitter_ns;
  const char *name; /* copied, up to UVS_NAME_MAX bytes, for uvs_info and uvs_dump; may be NULL */

  int keep;     /* 1: the outcome is kept, for uvs_wait, until uvs_forget */
  void *result; /* what a success gives unless the body sets another; with `keep` only */

  int failure;           /* UVS_FAIL_... */
  uint32_t max_failures; /* GO_ON, RETRY: gives up after this many in a row; 0: never */
  int64_t retry_ns;      /* RETRY: first wait, from the end of the run that failed (a wall-clock
                            task: by the wall clock) */
  int64_t retry_max_ns;  /* RETRY: longest wait; 0: no bound */
  int retry_jitter;      /* RETRY: percent of each wait, 0 to 100, that chance may take off */

  /* Time limit of each run, counted from when it is ready (so waiting for a runner counts); 0:
   * none. A run that reaches it is asked to stop (uvs_cancelled), or does not start at all; it ends
   * with UV_ETIMEDOUT, or with limit_status (0 or negative) and limit_result if `substitute` is 1,
   * whatever the body returns later; `done`, and a run that follows, wait for the body. Not for
   * tasks without `work`. */
  int substitute;
  int64_t limit_ns;
  void *limit_result; /* with `keep` only */
  int limit_status;

  int priority;    /* UVS_PRIORITY_... */
  uvs_lane_t lane; /* see uvsched/lane.h; 0: none */

  /* Frees a result that nobody receives, for example `free`. Needs `keep`. NULL: results are not
   * freed. See uvs_set_result. */
  void (*drop_result)(void *result);
} uvs_task_t;

static inline void uvs_task_init(uvs_task_t *t) {
  /* In pieces: of one large block compilers make an instruction that takes longer than the rest of
   * a submission. */
  memset(t, 0, 64);
  memset((char *)t + 64, 0, 64);
  memset((char *)t + 128, 0, sizeof *t - 128);
  t->size = sizeof *t;
}

/**
 * Schedule the task that *t describes. Within a priority, tasks start by deadline, and equal
 * deadlines in the order of first submission. There are three exceptions:
 *   - A task that waited in its lane counts as due when the lane lets it in.
 *   - A run that catches up counts as due no earlier than 1 s before the end of the task's previous
 *     run. So a task that never catches up delays others by a bounded time.
 *   - On the loop thread, tasks that are ready in one pass start before any run that catches up.
 *
 * Thread:  any.
 * Owns:    copies *t and its name; borrows t->arg until `done`.
 * Calls:   nothing before it returns (above max_pending: the rejected handler, or `work` itself);
 *          with no delay, `work` may start on another thread before this call returns.
 * Returns: 0, with *ret_id (may be NULL) set before `work` can start; UV_EINVAL (the spec);
 *          UV_ENOMEM; UV_EAGAIN (max_pending reached, see UVS_REJECT_ABORT ...); UV_ESHUTDOWN once
 *          shut down; with a lane: UV_ECANCELED (it is disposed), UV_EINVAL (another scheduler's),
 *          UV_ENOENT (there never was such a lane).
 */
UVS_API int uvs_submit(uvs_t *s, const uvs_task_t *t, uvs_id_t *ret_id);

/* The same for n specs (not 0: UV_EINVAL), all or none, with one clock read. They lie t->size
 * apart, all of one size; ret_ids has room for n, or is NULL. */
UVS_API int uvs_submit_many(uvs_t *s, const uvs_task_t *t, size_t n, uvs_id_t *ret_ids);

/* Short calls for the common cases; otherwise as uvs_submit. ret_id may be NULL. Fixed rate catches
 * up with missed runs. */
UVS_API int uvs_execute(uvs_t *s, uvs_work_cb work, void *arg); /* now */
UVS_API int uvs_schedule(uvs_t *s, int64_t delay_ns, uvs_work_cb work, void *arg, uvs_id_t *ret_id);
UVS_API int uvs_schedule_at_fixed_rate(uvs_t *s, int64_t initial_ns, int64_t period_ns,
                                       uvs_work_cb work, void *arg, uvs_id_t *ret_id);
UVS_API int uvs_schedule_with_fixed_delay(uvs_t *s, int64_t initial_ns, int64_t delay_ns,
                                          uvs_work_cb work, void *arg, uvs_id_t *ret_id);
/* At an instant of the wall clock: never before it by that clock; follows when the clock is set;
 * the past means now. */
UVS_API int uvs_schedule_at(uvs_t *s, int64_t unix_ns, uvs_work_cb work, void *arg,
                            uvs_id_t *ret_id);

/* ------------------------------------------------------- act on a task --- */

/**
 * Cancel a task. It leaves the queue at once; its `done` says UV_ECANCELED, and comes promptly.
 *
 * Thread:  any, also in its own body.
 * Returns: UVS_NEVER_RUNS, UVS_RUN_FINISHES (again on repetition, which may add the token);
 *          UV_ENOENT if it is over, was cancelled before it ran, is settled by its time limit, or
 *          never was;
 *          UV_EBUSY (UVS_CANCEL_IF_WAITING); UV_EINVAL (unknown flags).
 */
UVS_API int uvs_cancel(uvs_t *s, uvs_id_t id, unsigned flags);

/**
 * Move a waiting task: its next run is due delay_ns from now (a wall-clock task: by the wall
 * clock). A fixed-rate task's grid moves with it. Pushing a task back to a later time is cheap:
 * usually it is only a note in the task, and the loop wakes at most once for the old time.
 *
 * Thread:  any.
 * Returns: 0; UV_EBUSY if it is ready or running; UV_ENOENT.
 */
UVS_API int uvs_reschedule(uvs_t *s, uvs_id_t id, int64_t delay_ns);

/**
 * End a run whose body returned, or is about to return, UVS_PENDING. The run ends with `status` as
 * if the body had returned it (so not UVS_PENDING); fixed delay counts from here.
 *
 * Thread:  any.
 * Returns: 0; UV_ENOENT if no run is in progress or it was finished already; UV_EINVAL (status is
 *          UVS_PENDING).
 */
UVS_API int uvs_finish(uvs_t *s, uvs_id_t id, int status);

/* May this task keep the loop alive while it waits? Thread: loop. uvs_has_ref answers 1 or 0.
 * UV_ENOENT, UV_EPERM (thread). */
UVS_API int uvs_ref(uvs_t *s, uvs_id_t id);
UVS_API int uvs_unref(uvs_t *s, uvs_id_t id);
UVS_API int uvs_has_ref(uvs_t *s, uvs_id_t id);

/* ------------------------------------------------------------- clean up --- */

/* An action that was attached to a task or a lane. */
typedef void (*uvs_cleanup_cb)(uvs_t *s, void *arg);

enum {
  UVS_WHEN_SETTLED = 1 /* not when it is quiet but as soon as its outcome is decided, perhaps while
                          its body still runs: to cancel what that waits for */
};

/**
 * Attach an action to the end of a task: it is called exactly once, when the task is quiet, after
 * `after` and before `done`, whether it succeeded, failed or was cancelled. Any number, called in
 * the order of adding. If the task is over already (with UVS_WHEN_SETTLED: settled): at the loop's
 * next turn; and so, after `done`, what another thread adds while the others are being called. For
 * lanes see uvs_lane_add_cleanup.
 *
 * Thread:  any, also in an action.
 * Returns: 0; UV_ENOENT (there never was such a task); UV_EINVAL (NULL cb, unknown flags);
 *          UV_ENOMEM; UV_ESHUTDOWN (the scheduler is closed, or the task is over and uvs_close was
 *          called, which does not wait for what other threads go on adding).
 */
UVS_API int uvs_add_cleanup(uvs_t *s, uvs_id_t id, uvs_cleanup_cb cb, void *arg, unsigned flags);

/* ------------------------------------------------------------- outcomes --- */

/* How a kept task ended. Settled: the outcome is final. Quiet: besides, no run is in progress, so
 * that what its body used is safe (`done` and the error hook, if there are any, still get arg). A
 * task cancelled in its run, or whose last run passes its limit, is settled at once, and quiet when
 * its body has returned. */
typedef struct {
  size_t size;      /* set by the initializer */
  int state;        /* UVS_RUNNING (settled, not quiet) or UVS_ENDED */
  int status;       /* 0, the failure of the last run, or UV_ECANCELED */
  void *result;     /* of a success: what the last run that set one gave, else the preset */
  int64_t ideal_ns; /* of the last run, if it is quiet and there was one; else 0 */
  int64_t start_ns;
  int64_t end_ns;
  uint64_t runs; /* started; if it is not quiet, perhaps without the one that just begins */
} uvs_outcome_t;

static inline void uvs_outcome_init(uvs_outcome_t *o) {
  memset(o, 0, sizeof *o);
  o->size = sizeof *o;
}

/**
 * Set the result that this run gives if it succeeds.
 *
 * Each result that a run sets is either handed to a wait, in a uvs_outcome_t, or passed to the
 * spec's drop_result exactly once. A result that was handed over belongs to the caller of the wait.
 * A result is dropped in these cases:
 *   - The same run sets another result: in uvs_set_result, on its thread.
 *   - The run fails or passes its limit, or the task was settled before the run ended; a later run
 *     or limit_result replaces the task's result; the task does not succeed: on the loop, before
 *     the next run or before `done`.
 *   - The outcome is forgotten, and no wait was handed the result: in uvs_forget, on its thread, if
 *     `done` has returned; else on the loop. uvs_all and uvs_any forget all their tasks.
 *   - The scheduler is closed, and no wait was handed the result: on the loop, before the callback
 *     of uvs_close. In a forked child uvs_close drops nothing.
 * A pointer that is set again while it is the result of the run or of the task is one result. NULL
 * and the spec's result and limit_result are never dropped. drop_result may call anything.
 *
 * Thread:  that of the body, or of `after`.
 * Returns: 0; UV_EINVAL (not kept).
 */
UVS_API int uvs_set_result(uvs_run_t *run, void *result);

enum { UVS_WAIT_SETTLED = 1 }; /* uvs_wait: do not wait until quiet */

/**
 * Wait for the end of a task that was submitted with `keep`, at most timeout_ns of real time (zero
 * or less: only look; UVS_NEVER: without end). Any number of threads may wait for one task. `done`
 * may come later.
 *
 * Thread:  any, but where it would have to wait not the loop's nor a body of this scheduler:
 *          UVS_EDEADLK.
 * Returns: 0 with *ret set (may be NULL; else initialized); UV_ETIMEDOUT, never early; UV_ENOENT
 *          (forgotten, stale, never was); UV_EINVAL (not kept, unknown flags, a wrong size).
 */
UVS_API int uvs_wait(uvs_t *s, uvs_id_t id, int64_t timeout_ns, unsigned flags, uvs_outcome_t *ret);

/* A handle by which another thread can abandon a wait: uvs_abandon, uvs_queue_abandon. The caller
 * owns it. It serves one scheduler or one queue, and one call at a time. It must live until that
 * call has returned. */
typedef struct {
  size_t size;       /* set by the initializer */
  void *waiting;     /* ours */
  int requested;     /* ours */
  const void *owner; /* ours */
} uvs_waiter_t;

static inline void uvs_waiter_init(uvs_waiter_t *w) {
  memset(w, 0, sizeof *w);
  w->size = sizeof *w;
}

/* uvs_wait that uvs_abandon can end through w (may be NULL). Also UV_EINTR: abandoned; the task is
 * untouched. UV_EBUSY: w is in use. UV_EINVAL: w is not initialized. */
UVS_API int uvs_wait_with(uvs_t *s, uvs_id_t id, int64_t timeout_ns, unsigned flags,
                          uvs_waiter_t *w, uvs_outcome_t *ret);

/**
 * Abandon the wait that sleeps with w (uvs_wait_with, uvs_all_with, uvs_any_with, uvs_await_with):
 * the wait answers UV_EINTR. If no call waits with w, the next call with w answers UV_EINTR at
 * once, even if it would not have to wait. Either way the request is used up. If the wait ended
 * just before, it keeps its answer, and the request is for the next call.
 *
 * Thread:  any.
 * Returns: 1 (a wait is abandoned), 0 (the next one will be); UV_EINVAL (NULL, not initialized, or
 *          a call waits with w in another scheduler or in a queue).
 */
UVS_API int uvs_abandon(uvs_t *s, uvs_waiter_t *w);

/* Give a kept outcome back, now or when the task ends. Waits in progress still get it. May call
 * drop_result, see uvs_set_result. Thread: any.
 * 0; UV_ENOENT (forgotten already, stale); UV_EINVAL (not kept). */
UVS_API int uvs_forget(uvs_t *s, uvs_id_t id);

/**
 * Submit n one-shots and wait for all of them. What is not over after timeout_ns is cancelled, with
 * token; returns only when every body is quiet. ret has room for n, or is NULL; ret[0].size says
 * how large they are, and each is set.
 *
 * Thread:  not the loop's, not a body of this scheduler: UVS_EDEADLK.
 * Returns: 0 (also if n is 0); UV_ETIMEDOUT (the limit came first); what uvs_submit_many
 * answers.
 */
UVS_API int uvs_all(uvs_t *s, const uvs_task_t *t, size_t n, int64_t timeout_ns,
                    uvs_outcome_t *ret);

/* uvs_all that uvs_abandon can end through w (may be NULL). It ends as at its time limit, but the
 * answer is UV_EINTR. If w was abandoned before the call, nothing is submitted and ret is not
 * written. Also UV_EBUSY (w is in use), UV_EINVAL (w is not initialized). With n = 0, w is not
 * used. */
UVS_API int uvs_all_with(uvs_t *s, const uvs_task_t *t, size_t n, int64_t timeout_ns,
                         uvs_waiter_t *w, uvs_outcome_t *ret);

/**
 * Submit n one-shots (n > 0) and wait for the first that succeeds; cancel the others, with token;
 * return when every body is quiet. *ret_index (may be NULL) is the winner, *ret (may be NULL) its
 * outcome.
 *
 * Thread:  not the loop's, not a body of this scheduler: UVS_EDEADLK.
 * Returns: 0; the failure of one of them if none succeeded; UV_ETIMEDOUT; what uvs_submit_many
 * answers.
 */
UVS_API int uvs_any(uvs_t *s, const uvs_task_t *t, size_t n, int64_t timeout_ns, size_t *ret_index,
                    uvs_outcome_t *ret);

/* uvs_any that uvs_abandon can end through w (may be NULL), as uvs_all_with. */
UVS_API int uvs_any_with(uvs_t *s, const uvs_task_t *t, size_t n, int64_t timeout_ns,
                         uvs_waiter_t *w, size_t *ret_index, uvs_outcome_t *ret);

/* --------------------------------------------------------------- listen --- */

/* Where a task stands. */
enum {
  UVS_WAITING = 1, /* its next run is not due */
  UVS_READY,       /* due, waiting for a runner or for its turn on the loop */
  UVS_RUNNING,     /* its body runs, or is pending */
  UVS_ENDED        /* no run is in progress and none will start; `done` is still to come */
};

typedef struct {
  size_t size; /* set by the initializer */
  uvs_id_t id;
  int state;            /* UVS_WAITING ... */
  int kind;             /* UVS_ONCE ... */
  int from;             /* UVS_FROM_WALL or UVS_FROM_MONOTONIC: the clock of due_ns */
  int cancelled;        /* 1: the outcome is UV_ECANCELED, also while the last run still finishes */
  int64_t due_ns;       /* the next run (or the present one); UVS_NEVER */
  int64_t remaining_ns; /* until then; below zero when overdue; UVS_NEVER */
  int64_t period_ns;
  uint64_t runs;   /* started */
  uint64_t missed; /* points of the grid that passed without a run, over its whole life */
  void *arg;
  char name[UVS_NAME_MAX + 1];
  uvs_work_cb work;  /* the body as submitted, before any decoration */
  uint64_t failures; /* in a row, up to now */
  /* How late its last run was, and why; as in uvs_run_t. One-shots of the plain kind (only delay,
   * work, done, arg, flags) do not keep it. */
  int64_t late_ns;
  int culprit;
  int timed_out; /* 1: its limit has settled it, while its body still runs */
  int64_t late_by_ns[UVS_LATE_CAUSES];
  int priority; /* UVS_PRIORITY_... */
} uvs_info_t;

static inline void uvs_info_init(uvs_info_t *i) {
  memset(i, 0, sizeof *i);
  i->size = sizeof *i;
}

/* Ask about a task. Thread: any. UV_ENOENT: over or stale. UV_EINVAL: no initialized *ret. */
UVS_API int uvs_info(uvs_t *s, uvs_id_t id, uvs_info_t *ret);

/* Visit every task that the loop knows and that is not over, in no special order; a nonzero answer
 * of `each` ends it and is returned. `each` may call anything but uvs_each. Thread: loop.
 * UV_EINVAL, UV_EPERM, UV_EBUSY (from inside `each`). */
typedef int (*uvs_each_cb)(uvs_t *s, const uvs_info_t *info, void *arg);
UVS_API int uvs_each(uvs_t *s, uvs_each_cb each, void *arg);

/* At every instant: submitted = completed + failed + cancelled + timed_out + dropped + waiting +
 * ready + running. */
typedef struct {
  size_t size; /* set by the initializer */
  uint64_t submitted, completed, failed, cancelled;
  uint64_t waiting, ready, running; /* a task cancelled in its run counts as cancelled */
  uint64_t rejected;                /* submissions refused: cap or shut down */
  uint64_t runs;                    /* started */
  uint64_t missed;                  /* points of a grid without a run */
  uint64_t runners;                 /* pool threads busy with our bodies now */
  uint64_t peak_runners;            /* the most ever at once */
  uint64_t slots;                   /* room made so far, in tasks: the memory in use */
  uint64_t timed_out;               /* the last run passed its limit; also while its body runs on */
  uint64_t dropped;                 /* by the rejection policy */
  uint64_t failed_runs;             /* also of tasks that went on */
  uint64_t heap_ops;                /* tasks put into the delay queue, moved in it, taken out */
  uint64_t wakeups; /* loop passes that the scheduler asked for, by its timer or a wake-up */
} uvs_counts_t;

static inline void uvs_counts_init(uvs_counts_t *c) {
  memset(c, 0, sizeof *c);
  c->size = sizeof *c;
}

/* One consistent snapshot. After close: the final numbers, for a thread that holds a reference.
 * Thread: any. */
UVS_API int uvs_counts(uvs_t *s, uvs_counts_t *ret);

/* Print state, counters and tasks, the next due first. Thread: loop. UV_EINVAL, UV_EPERM,
 * UV_ENOMEM, UV_EBUSY (from inside `each`). */
UVS_API int uvs_dump(uvs_t *s, FILE *out);

UVS_API const char *uvs_state_name(int state); /* "waiting" ...; "?" if unknown */
/* What a status at the end of a task says: "completed", "failed", "cancelled", "timed out". */
UVS_API const char *uvs_outcome_name(int status);
UVS_API const char *uvs_strerror(int code); /* uv_strerror, which knows neither 0 nor UVS_EDEADLK */

UVS_API uv_loop_t *uvs_loop(const uvs_t *s);
UVS_API void *uvs_data(const uvs_t *s);
UVS_API int64_t uvs_now(const uvs_t *s); /* the scheduler's monotonic clock */

/* 1 if h is a handle of s, for programs that walk their loop and close what they find. Closing such
 * a handle ends the scheduler: submits on the loop get UV_ESHUTDOWN, and no task runs any more. The
 * program must still call uvs_close, before uv_loop_close; it ends every task. Thread: loop. */
UVS_API int uvs_owns_handle(const uvs_t *s, const uv_handle_t *h);

UVS_API unsigned uvs_version(void); /* UVS_VERSION_HEX of the library */
UVS_API const char *uvs_version_string(void);

/* ----------------------------------------------------------- statistics --- */

/* "timer" ... "submit", "retry"; "on time" for -1, no culprit; "?" if unknown. */
UVS_API const char *uvs_late_name(int cause);

/* What there are histograms of; always on. */
enum {
  UVS_STAT_QUEUE = 0, /* from ready to the start of a run */
  UVS_STAT_RUN,       /* from its start to its end; of runs that have ended */
  UVS_STAT_LATE,      /* how late each run started */
  UVS_STAT_CAUSE      /* + UVS_LATE_...: how late the runs with this culprit started */
};

/* Bucket 0 is below 1024 ns; then there are four to each power of two; the last begins at 2^40 ns,
 * which is 18 minutes. */
#define UVS_BUCKETS 122

typedef struct {
  size_t size;                  /* set by the initializer */
  uint64_t count;               /* always the sum of the buckets */
  uint64_t sum_ns;              /* of what is counted, and perhaps of what is just being added */
  uint64_t max_ns;              /* the same */
  uint64_t bucket[UVS_BUCKETS]; /* see uvs_bucket_ns */
} uvs_histogram_t;

static inline void uvs_histogram_init(uvs_histogram_t *h) {
  memset(h, 0, sizeof *h);
  h->size = sizeof *h;
}

/* A snapshot since uvs_open. Holds up nobody. Thread: any. UV_EINVAL: an unknown UVS_STAT_..., or
 * no initialized *ret. */
UVS_API int uvs_histogram(uvs_t *s, int which, uvs_histogram_t *ret);

/* Where a bucket ends: all in it is below. UVS_NEVER for the last. */
UVS_API int64_t uvs_bucket_ns(unsigned bucket);

/* At least the share q (0 .. 1) of all is not above this: the end of the bucket in which the
 * q-quantile lies, so (from 1024 ns on) at most a quarter too much, and never more than max_ns. 0
 * if nothing is counted. Reads count, max_ns and bucket, so also of a difference of two. */
UVS_API int64_t uvs_quantile_ns(const uvs_histogram_t *h, double q);

/* Whole lines of text. A nonzero answer ends the writing. */
typedef int (*uvs_write_cb)(const char *data, size_t size, void *arg);

enum {
  UVS_TEXT = 0,  /* one screen, for a human */
  UVS_PROMETHEUS /* the text exposition format, version 0.0.4 */
};

/**
 * Write out counts and histograms, piece by piece. The names of the metrics begin with uvsched_.
 *
 * Thread:  any; `write` is called before it returns, and may call anything.
 * Returns: 0; what `write` answered, if not 0; UV_EINVAL (unknown format, no write).
 */
UVS_API int uvs_stats_write(uvs_t *s, int format, uvs_write_cb write, void *arg);

/* ------------------------------------------------------------ configure --- */

UVS_API int uvs_concurrency(uvs_t *s);
/* Takes effect at once for what is not yet running. UV_EINVAL below 0 or above 1024, UV_ENOMEM: the
 * old value stays. */
UVS_API int uvs_set_concurrency(uvs_t *s, int concurrency);

enum { UVS_SURVIVE_DELAYED = 0, UVS_SURVIVE_PERIODIC };
/* 1, 0 or UV_EINVAL. Setting one after shutdown acts at once. */
UVS_API int uvs_survive(uvs_t *s, int which);
UVS_API int uvs_set_survive(uvs_t *s, int which, int on);

/* What happens above max_pending, UVS_REJECT_... UV_EINVAL: unknown, or ASK without a handler. The
 * handler is fixed at open: NULL if there is none, or s is NULL. */
UVS_API int uvs_rejection(uvs_t *s);
UVS_API int uvs_set_rejection(uvs_t *s, int rejection);
UVS_API uvs_rejected_cb uvs_rejection_handler(uvs_t *s);

/* For the owner of a replaced clock. Both together: set the clock to the next due instant, say that
 * it changed, let the loop turn, and again.
 *
 * uvs_next_due: the instant (uvs_now's clock) at which something is to do: now or earlier if the
 * loop need only turn, UVS_NEVER if nothing waits. A wall-clock task counts as its remaining wall
 * time from now. Does not foresee what bodies on the pool will do. Thread: loop; UV_EPERM,
 * UV_EINVAL. uvs_clock_changed: look at the clocks again. Thread: any. */
UVS_API int uvs_next_due(uvs_t *s, int64_t *ret_ns);
UVS_API int uvs_clock_changed(uvs_t *s);

/* ------------------------------------------------------------- lifecycle --- */

/**
 * Orderly shutdown: nothing new is accepted, what was accepted goes on as the survive policies say.
 * A one-shot already due always runs. A periodic task in the middle of a run finishes it and then
 * ends cancelled, unless it survives.
 *
 * Thread:  any, any number of times.
 * Returns: 0.
 */
UVS_API int uvs_shutdown(uvs_t *s);

/* The same, and uvs_shutdown_now(s, NULL, NULL) when grace_ns has passed (at once if zero or less)
 * and it is not yet terminated. Bodies learn of the end of the grace without the loop. The nearest
 * of several calls counts. */
UVS_API int uvs_shutdown_within(uvs_t *s, int64_t grace_ns);

/**
 * Immediate shutdown: every task that is not running is cancelled, running bodies are asked to stop
 * (uvs_cancelled) and keep their result, none runs again. For each task that never started, `each`
 * (may be NULL) is called on the loop, before its `done`, in no special order. After the last of
 * these `done`, `each` is called once more, with id 0, also if there was no such task. This last
 * call does not wait for bodies that still run. It comes before the terminated hook, unless that
 * hook was called before uvs_shutdown_now.
 *
 * Thread:  any; the bodies learn of it at once, the rest happens on the loop.
 * Returns: 0; UV_EALREADY if it was called before (nothing happens, `each` is not called).
 */
UVS_API int uvs_shutdown_now(uvs_t *s, uvs_never_ran_cb each, void *arg);

UVS_API int uvs_is_shutdown(uvs_t *s);    /* 1 as soon as one of the calls above was made */
UVS_API int uvs_is_terminating(uvs_t *s); /* shut down, not yet terminated */
UVS_API int uvs_is_terminated(uvs_t *s);  /* shut down, and every task is over */

/**
 * Wait until terminated, at most timeout_ns (zero or less: only look; UVS_NEVER: without end).
 *
 * Thread:  not the loop's, not inside a body of this scheduler: UVS_EDEADLK.
 * Returns: 0; UV_ETIMEDOUT, never early.
 */
UVS_API int uvs_await(uvs_t *s, int64_t timeout_ns);

/* uvs_await that uvs_abandon can end through w (may be NULL). Also UV_EINTR (abandoned), UV_EBUSY
 * (w is in use), UV_EINVAL (w is not initialized). */
UVS_API int uvs_await_with(uvs_t *s, int64_t timeout_ns, uvs_waiter_t *w);

/**
 * Close: uvs_shutdown_now, close its queues and dispose its lanes, wait (on the loop) until no body
 * runs and none is pending and every `done` and `quiet` has returned, close its handles, call cb
 * (may be NULL). Once uv_run has returned after that, no handle of s keeps uv_loop_close from
 * returning 0, and *s is gone unless a thread holds a reference. In a forked child: frees the
 * child's copy at once, touches neither loop nor handles, calls no `done` or drop_result, and calls
 * cb before it returns.
 *
 * Thread:  loop.
 * Returns: 0; UV_EALREADY; UV_EPERM (thread).
 */
UVS_API int uvs_close(uvs_t *s, uvs_close_cb cb);

/* A thread that may call during or after close takes a reference before and gives it back when it
 * is through. Such calls answer UV_ESHUTDOWN after close. uvs_retain returns s. Both accept NULL.
 * Thread: any. */
UVS_API uvs_t *uvs_retain(uvs_t *s);
UVS_API void uvs_release(uvs_t *s);

#ifdef __cplusplus
}
#endif

#endif
