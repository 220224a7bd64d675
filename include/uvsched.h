/* SPDX-License-Identifier: MIT
 *
 * uvsched: a scheduler for programs that live on a libuv loop.
 *
 * Run a function once after a delay, at a fixed rate, with a fixed delay, at an instant of the wall
 * clock, or at once but off the loop. One uv_timer waits for the nearest deadline. Due tasks run on
 * libuv's thread pool.
 *
 *   scheduler  uvs_t, bound to one uv_loop_t
 *   task       a function to run, once or periodically; an id names it
 *   id         a number; it may be stale, but it never dangles
 *   work       the body of a task, on a pool thread
 *   after      optional, on the loop thread, after each run; or alone, as a body on the loop
 *   done       optional, on the loop thread, once per accepted task: the last use of its `arg`
 *
 * Other headers: uvsched/outcome.h (wait for tasks, results, clean-ups), uvsched/stats.h (ask about
 * tasks, counters, histograms), uvsched/lane.h (ordered groups of tasks), uvsched/queue.h (a delay
 * queue of values), uvsched/executor.h (where bodies run), uvsched/hooks.h (watch, wrap and refuse
 * tasks), uvsched/settings.h (change options while the scheduler runs; a replaced clock),
 * uvsched/control.h (pause, run now, next runs, names), uvsched/calendar.h (cron and time zones),
 * uvsched/trace.h (a flight recorder, written for Perfetto).
 * docs/contract.md numbers every guarantee; the tests carry those numbers.
 *
 * THREADS. Any thread may call any function, unless its comment says "loop thread". Callbacks:
 *
 *   work              a pool thread, or a thread of the executor; the loop thread if concurrency is
 *                     0; the submitter's with UVS_REJECT_CALLER_RUNS
 *   allocator, clock  any thread, concurrently
 *   all others        loop thread, unless their comment says otherwise
 *
 * The loop thread is the thread on which the loop last woke the scheduler. Before the first wake-up
 * it is the thread that called uvs_open. To move a loop, stop calling uvsched on the old thread,
 * call uvs_clock_changed on the new one, and run the loop there once, with a ref'd handle. On
 * Linux, if the old thread has ended, the new thread may call at once.
 *
 * TIME. Durations and instants are signed nanoseconds. A duration of zero or less means now,
 * UVS_NEVER means never. No run starts before its time by the nanosecond clock.
 *
 * ERRORS. Zero or a positive number is success; a negative UV_E* code is an error, and uvs_strerror
 * explains it. After an error nothing has changed, and no callback will run for the call. (The
 * rejected handler was called before.) An accepted task ends in exactly one `done` (in none with
 * UVS_CANCEL_NO_DONE), which is never called from inside an API call. Every call on a scheduler
 * answers UV_EINVAL if the scheduler is NULL, UV_ENOTSUP in a forked child (except uvs_close), and
 * UV_ESHUTDOWN after it was closed (see uvs_retain). But uvs_is_shutdown and uvs_is_terminated then
 * answer 1, uvs_wait_terminated answers 0, and uvs_counts gives the final numbers.
 */
#ifndef UVSCHED_H
#define UVSCHED_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <uv.h>

#include "uvsched/time.h"
#include "uvsched/version.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- basics --- */

typedef struct uvs_s uvs_t;
typedef uint64_t uvs_id_t;   /* of a task; 0 names no task */
typedef uint64_t uvs_lane_t; /* of a lane (uvsched/lane.h); 0 names no lane */

#define UVS_EDEADLK (-3900) /* this wait would never end; libuv has no code for that */

/* What a body returns: 0 (the run succeeded), a negative UV_E* code (it failed), or one of these.
 * Any other positive value is a failure, reported as UV_EINVAL. If the body was asked to stop
 * (uvs_cancelled) and returns UV_ECANCELED, the task is cancelled, not failed. */
enum {
  UVS_STOP = 1,   /* success, and a periodic task ends */
  UVS_PENDING = 2 /* the run ends later, when uvs_finish is called */
};

/* What the time between the deadline and the start of a late run was spent on. */
enum {
  UVS_LATE_TIMER = 0, /* uv_timer counts in whole ms; never with precise_ns */
  UVS_LATE_LOOP,      /* the loop was busy, or (with precise_ns) slow to wake up */
  UVS_LATE_BUDGET,    /* too many tasks were due at once: the run waited for a later loop pass */
  UVS_LATE_RUNNERS,   /* no runner, no pool thread or no place in the task's lane was free */
  UVS_LATE_OVERLAP,   /* the task's previous run was still in progress */
  UVS_LATE_CLOCK,     /* the wall clock was set forward */
  UVS_LATE_SUBMIT,    /* the deadline had passed when the task was submitted */
  UVS_LATE_PAUSED,    /* the task or the scheduler was paused (uvsched/control.h) */
  UVS_LATE_CAUSES
};
#define UVS_LATE_RETRY UVS_LATE_CAUSES /* only as a reason of on_missed: a retry took the place */

/* One run of a task. Valid only during the callback. New fields go at the end. */
typedef struct uvs_run_s {
  uvs_t *scheduler;
  uvs_id_t id;
  void *arg;
  int runner;       /* the runner's number, from 0, or UVS_ON_LOOP, or UVS_ON_CALLER */
  int status;       /* in an `after` that follows `work`: how `work` ended, 0 or negative; else 0 */
  int64_t ideal_ns; /* when the run should have started, without jitter (by the task's clock) */
  int64_t start_ns; /* when the run started, by uvs_now */
  int64_t end_ns;   /* in an `after` that follows `work`: when `work` ended; else 0 */
  int64_t late_ns;  /* from the deadline (ideal_ns plus jitter) to the start; never negative */
  uint64_t number;  /* 1 for the first run; stays at 2^32 - 1 */
  uint64_t missed;  /* points of the grid that passed without a run since the previous run */
  const void *state; /* private */
  int culprit;       /* the largest part of late_ns: UVS_LATE_...; -1: the run was on time */
  int64_t late_by_ns[UVS_LATE_CAUSES]; /* the parts of late_ns */
} uvs_run_t;

#define UVS_ON_LOOP (-1)
#define UVS_ON_CALLER (-2) /* on the submitter's thread, see UVS_REJECT_CALLER_RUNS */

/* 1 if the running body was asked to stop: cancelled with UVS_CANCEL_TOKEN, past its time limit, or
 * after uvs_shutdown_now or uvs_close. Cheap: call it as often as you like. Thread: the body's, or
 * any while the body waits for the answer. */
UVS_API int uvs_cancelled(const uvs_run_t *run);

/* ------------------------------------------------------------- callbacks --- */

/* Callbacks of a run get the run, and run->arg is the spec's. Others get an `arg` at the end. */

/* The body. It must return: it must not end its thread (pthread_exit), nor leave by longjmp or an
 * exception, because its run would never end. exit() does not ask bodies to stop; it waits for
 * bodies on libuv's pool. `work` runs on a pool thread, `after` on the loop thread. If a task has
 * both, `after` reads how `work` ended in run->status. What `after` returns counts only if `work`
 * succeeded (0: the run ends as `work` said). `after` must not return UVS_PENDING then. */
typedef int (*uvs_work_cb)(uvs_run_t *run);
typedef int (*uvs_after_cb)(uvs_run_t *run);

/* The end of a task. status: 0, the failure of the last run (UV_ETIMEDOUT: a time limit), or
 * UV_ECANCELED. arg: the spec's. */
typedef void (*uvs_done_cb)(uvs_t *s, uvs_id_t id, int status, void *arg);

/* A run failed or passed its time limit, and no other callback reports it: the task has no `after`
 * and, if it was the last run, no `done`. If the last run passes its limit, the hook is called at
 * once, and the body may still be using arg. arg: the spec's. */
typedef void (*uvs_error_cb)(uvs_t *s, uvs_id_t id, int status, void *arg);

/* An on_error for programs that want no report. */
UVS_API void uvs_ignore_errors(uvs_t *s, uvs_id_t id, int status, void *arg);

/* The running body is asked to stop: make its blocking call return, or finish its pending run. At
 * most once per run, before the run ends. The body may return during the call. arg: the spec's. */
typedef void (*uvs_interrupt_cb)(uvs_t *s, uvs_id_t id, void *arg);

typedef void (*uvs_terminated_cb)(uvs_t *s);
typedef void (*uvs_close_cb)(uvs_t *s);
typedef void (*uvs_post_cb)(uvs_t *s, void *arg); /* arg: that of uvs_post */
/* task_arg: the spec's; arg: that of uvs_shutdown_now. */
typedef void (*uvs_never_ran_cb)(uvs_t *s, uvs_id_t id, void *task_arg, void *arg);

/* --------------------------------------------------------------- options --- */

/* What keeps uv_run from returning?
 *   AUTO    a ref'd task that has not ended, and a ref'd open queue. A task from another thread
 *           counts once the loop has noticed it: if all tasks come from other threads, use ALWAYS.
 *   ALWAYS  the scheduler, until it is terminated or closed
 *   NEVER   nothing; but libuv itself waits for bodies that run on its pool */
enum { UVS_KEEP_ALIVE_AUTO = 0, UVS_KEEP_ALIVE_ALWAYS, UVS_KEEP_ALIVE_NEVER };

/* What happens to a submission that max_pending has no room for? See uvsched/settings.h. */
enum {
  UVS_REJECT_ABORT = 0,      /* refused with UV_EAGAIN */
  UVS_REJECT_DISCARD,        /* accepted and dropped: no body runs, `done` gets UV_ECANCELED */
  UVS_REJECT_DISCARD_OLDEST, /* accepted; the task that would start next is dropped */
  UVS_REJECT_CALLER_RUNS,    /* accepted; the submitter runs the body before its call returns */
  UVS_REJECT_ASK             /* the hook on_rejected decides, see uvsched/hooks.h */
};

typedef struct {
  void *(*alloc)(size_t size, void *arg); /* aligned as malloc's; NULL = failed */
  void (*free)(void *ptr, void *arg);
  void *arg;
} uvs_allocator_t;

/* A replaced clock, see uvsched/settings.h. Neither time may be negative, and monotonic_ns must not
 * go back. */
typedef struct {
  int64_t (*monotonic_ns)(void *arg);
  int64_t (*wall_ns)(void *arg); /* since 1970, UTC */
  void *arg;
} uvs_clock_t;

typedef struct {
  size_t size; /* set by the initializer; new fields go at the end */

  /* The most bodies at once on the pool, 0 to 1024. 0: bodies run on the loop. -1 (default): one
   * less than libuv's pool has threads, but at least 1. */
  int concurrency;
  int keep_alive; /* UVS_KEEP_ALIVE_... */

  /* After uvs_shutdown: do one-shots that are not yet due, or wait for a retry, still run (default
   * 1)? Do periodic tasks go on (default 0)? Otherwise they are cancelled. */
  int delayed_after_shutdown;
  int periodic_after_shutdown;

  uint32_t max_pending; /* the most tasks waiting, ready or running; 0: no bound */
  int rejection_policy; /* above max_pending: UVS_REJECT_...; 0 with a hook on_rejected means ASK */

  int64_t budget_ns; /* after this, other code gets the loop or thread; 1 us to 1 s; default 1 ms */

  uint64_t seed;             /* of jitter; 0: a random one */
  void *data;                /* uvs_data returns it */
  uvs_clock_t clock;         /* all NULL: uv_hrtime and the system's real-time clock */
  uvs_allocator_t allocator; /* all NULL: malloc and free */

  uvs_error_cb on_error; /* NULL: the first failure is printed to stderr; see uvs_ignore_errors */
  uvs_terminated_cb on_terminated; /* optional; shut down, and the last task has ended */
  const struct uvs_hooks_s *hooks; /* optional; copied; see uvsched/hooks.h */

  /* Where `work` runs, if not on libuv's pool: on your executor, which is borrowed until the
   * callback of uvs_close and never closed, or on `threads` threads (1 to 1024) that belong to the
   * scheduler (uvsched/executor.h). With either, concurrency -1 means as many as the executor says,
   * and 0 is an error. If the executor refuses a run, the run fails, and on_error is called too. */
  const struct uvs_executor_s *executor;
  int threads;
  const char *thread_name; /* of these threads; copied; may be NULL */

  /* 0 (default): a uv_timer wakes the loop, in whole ms. Otherwise a timer that counts in ns wakes
   * the loop, up to this long after the nearest deadline, so that nearby deadlines share one
   * wake-up: 1 ns (no sharing) to 1 ms. Takes one more handle, a uv_poll. With brief runs, a runner
   * stays in its pool thread for up to 1 ms. Linux only; not with a replaced clock. */
  int64_t precise_ns;
  const char *name; /* of the scheduler, in metrics; copied; up to UVS_NAME_MAX bytes of UTF-8 */
  int max_names;    /* task names with statistics (uvs_name_stats), at most; 0 to 256; default 64 */
} uvs_options_t;

static inline void uvs_options_init(uvs_options_t *o) {
  memset(o, 0, sizeof *o);
  o->size = sizeof *o;
  o->concurrency = -1;
  o->delayed_after_shutdown = 1;
  o->budget_ns = UVS_MS(1);
  o->max_names = 64;
}

/**
 * Make a scheduler on `loop`. A process, and a loop, may have several.
 *
 * Thread:  loop thread, or any before the loop has run.
 * Owns:    copies *o (NULL: defaults); borrows `loop` until the callback of uvs_close.
 * Returns: 0 with *ret set; UV_EINVAL (NULL, a wrong size, an option out of range); UV_ENOMEM;
 *          UV_ENOTSUP (precise_ns on this system); an error of libuv's or the system's init calls.
 */
UVS_API int uvs_open(uv_loop_t *loop, const uvs_options_t *o, uvs_t **ret);

UVS_API uv_loop_t *uvs_loop(const uvs_t *s);
UVS_API void *uvs_data(const uvs_t *s);
UVS_API int64_t uvs_now(const uvs_t *s); /* the scheduler's monotonic clock */

/* ---------------------------------------------------------------- submit --- */

enum { UVS_ONE_SHOT = 0, UVS_FIXED_RATE, UVS_FIXED_DELAY, UVS_CALENDAR };

/* What first_ns and until_ns count from. */
enum {
  UVS_FROM_NOW = 0,
  UVS_FROM_MONOTONIC, /* they are instants of uvs_now */
  UVS_FROM_WALL       /* instants of the wall clock, ns since 1970; only one-shots and calendars */
};

/* A fixed-rate or calendar task has missed points of its grid. What does it do?
 *   CATCH_UP  run once for each of them, back to back (with max_burst: for the newest max_burst)
 *   ONCE      run once, at once, for all of them; run->missed says how many more there were
 *   SKIP      run at the next point of the grid; also skip a run that would be a period late */
enum { UVS_MISSED_CATCH_UP = 0, UVS_MISSED_ONCE, UVS_MISSED_SKIP };

/* A run has failed. What does the task do?
 *   STOP      it ends with the failure
 *   CONTINUE  the next run comes as after a success; periodic tasks only
 *   RETRY     it runs again after a wait, which doubles with each consecutive failure. Points of a
 *             grid that pass meanwhile are missed.
 * With max_failures, CONTINUE and RETRY end the task after that many consecutive failures. */
enum { UVS_FAIL_STOP = 0, UVS_FAIL_CONTINUE, UVS_FAIL_RETRY };

/* While tasks of all three are ready, 8 of 13 starts are high, 4 normal and 1 low: nothing starves.
 * A lane keeps its own order, and the priority of its first task counts. */
enum { UVS_PRIORITY_LOW = -1, UVS_PRIORITY_NORMAL = 0, UVS_PRIORITY_HIGH = 1 };

enum {                 /* flags */
       UVS_UNREF = 1,  /* while it waits, the task does not keep the loop alive */
       UVS_REPLACE = 2 /* it replaces the earlier task of the same name: uvsched/control.h */
};

#define UVS_NAME_MAX 23
typedef struct uvs_task_s {
  size_t size;        /* set by the initializer; new fields go at the end */
  int kind;           /* UVS_ONE_SHOT, UVS_FIXED_RATE, UVS_FIXED_DELAY, UVS_CALENDAR */
  int from;           /* UVS_FROM_... */
  int64_t first_ns;   /* the first run (calendar: none before it); delay or instant, see `from` */
  int64_t period_ns;  /* fixed rate: the grid; fixed delay: from the end of a run to the next */
  uvs_work_cb work;   /* pool thread; NULL: the task is `after` alone, on the loop */
  uvs_after_cb after; /* loop thread, after each run */
  uvs_done_cb done;   /* loop thread, once (UVS_CANCEL_NO_DONE: never); the last use of arg */
  void *arg;          /* borrowed until `done` */
  unsigned flags;     /* UVS_UNREF, UVS_REPLACE */

  /* Fixed rate and calendar only. */
  int missed_policy;  /* UVS_MISSED_... */
  uint32_t max_burst; /* with CATCH_UP; 0: no bound */

  /* Periodic tasks only. Both end the task, with success unless its last run failed. 0: no end. */
  uint32_t max_runs; /* the task ends after this many started runs */
  int64_t until_ns;  /* no run has a later ideal time: the task ends instead; see `from` */

  /* Each run is due a random 0 to jitter_ns after its ideal time; delays do not add up. Fixed rate:
   * below the period, and with SKIP well below it, because jitter counts as lateness. */
  int64_t jitter_ns;
  const char *name; /* copied, up to UVS_NAME_MAX bytes; may be NULL */

  int failure_policy;    /* UVS_FAIL_... */
  uint32_t max_failures; /* with CONTINUE, RETRY: consecutive failures that end the task; 0: none */
  struct {               /* with UVS_FAIL_RETRY */
    int64_t wait_ns;     /* the first wait, from the end of the failed run, by the task's clock */
    int64_t max_wait_ns; /* the longest wait; 0: no bound */
    int jitter_percent;  /* each wait is shortened by a random 0 to this many percent */
  } retry;

  /* Time limits of each run; 0: none. At a limit the body is asked to stop (uvs_cancelled), or does
   * not start at all. The run ends with UV_ETIMEDOUT, or, if `substitute` is 1, with `status` (0 or
   * negative) and `result`. What the body returns later is ignored. `done` and the next run wait
   * for the body. Only for tasks with `work`. */
  struct {
    int64_t run_ns;   /* counted from the start of the run */
    int64_t total_ns; /* counted from when the run is ready: waiting for a lane or runner counts */
    void *result;     /* needs keep_outcome */
    int substitute;
    int status;
  } limit;

  int priority;     /* UVS_PRIORITY_... */
  int keep_outcome; /* 1: uvs_wait can read the outcome until uvs_forget (uvsched/outcome.h) */
  void *result;     /* of a success, unless the body sets another; needs keep_outcome */
  void (*drop_result)(void *result); /* frees a result that nobody receives: uvs_set_result */
  uvs_lane_t lane;                   /* see uvsched/lane.h; 0: none */
  uvs_interrupt_cb interrupt;        /* optional; only for tasks with `work` */
  struct uvs_calendar_s *calendar;   /* UVS_CALENDAR: when it runs; retained until its end */
} uvs_task_t;

static inline void uvs_task_init(uvs_task_t *t) {
  /* Cleared in pieces: for one large block compilers use an instruction that takes too long. */
  memset(t, 0, 64);
  memset((char *)t + 64, 0, 64);
  memset((char *)t + 128, 0, sizeof *t - 128);
  t->size = sizeof *t;
}

/**
 * Schedule the task that *t describes. Within a priority, tasks start by deadline, and equal
 * deadlines in the order of submission. There are three exceptions:
 *   - A task that waited in its lane counts as due when the lane lets it start.
 *   - A run that catches up counts as due no earlier than 1 s before the end of the task's previous
 *     run. So a task that never catches up delays others by a bounded time.
 *   - On the loop thread, tasks that are ready in one pass start before any run that catches up.
 *
 * Thread:  any.
 * Owns:    copies *t and its name; borrows t->arg until `done`.
 * Calls:   nothing (above max_pending: the rejected handler, or `work`). Without a delay, `work`
 *          may start on another thread before this call returns.
 * Returns: 0 or UVS_REPLACED, with *ret_id (may be NULL) set before `work` can start; UV_EINVAL
 *          (uvs_check says why); UV_ENOMEM; UV_EAGAIN (max_pending is reached); UV_ESHUTDOWN. For
 *          the lane: UV_ECANCELED (disposed), UV_EINVAL (of another scheduler), UV_ENOENT (none).
 */
UVS_API int uvs_submit(uvs_t *s, const uvs_task_t *t, uvs_id_t *ret_id);

/* The same for an array of n specs, all or none, with one clock read. n is not 0. The array stride
 * is t->size, the same for all elements. ret_ids has room for n, or is NULL. */
UVS_API int uvs_submit_many(uvs_t *s, const uvs_task_t *t, size_t n, uvs_id_t *ret_ids);

/* What is wrong with a spec? Writes a text that names the field and the reason, such as "max_burst
 * is only for UVS_MISSED_CATCH_UP"; "" if nothing is wrong. text may be NULL. The lane is not
 * looked at. Returns 0, or UV_EINVAL as uvs_submit would. Thread: any. */
UVS_API int uvs_check(const uvs_task_t *t, char *text, size_t size);

/* Short calls for the common cases, otherwise as uvs_submit. They have no `done`: only on_error
 * reports a failure. ret_id may be NULL. Fixed rate catches up with missed runs. uvs_schedule_at
 * takes an instant of the wall clock: the task never starts before it by that clock, follows when
 * the clock is set, and a past instant means now. */
UVS_API int uvs_execute(uvs_t *s, uvs_work_cb work, void *arg); /* now */
UVS_API int uvs_schedule(uvs_t *s, int64_t delay_ns, uvs_work_cb work, void *arg, uvs_id_t *ret_id);
UVS_API int uvs_schedule_at_fixed_rate(uvs_t *s, int64_t first_ns, int64_t period_ns,
                                       uvs_work_cb work, void *arg, uvs_id_t *ret_id);
UVS_API int uvs_schedule_with_fixed_delay(uvs_t *s, int64_t first_ns, int64_t delay_ns,
                                          uvs_work_cb work, void *arg, uvs_id_t *ret_id);
UVS_API int uvs_schedule_at(uvs_t *s, int64_t unix_ns, uvs_work_cb work, void *arg,
                            uvs_id_t *ret_id);
/* By a cron expression in a zone, as in uvs_calendar_parse. One run makes up for missed runs. */
UVS_API int uvs_schedule_cron(uvs_t *s, const char *expression, const char *zone, uvs_work_cb work,
                              void *arg, uvs_id_t *ret_id);

/* ---------------------------------------------------------- act on a task --- */

/* uvs_cancel's flags. */
enum {
  UVS_CANCEL_TOKEN = 1,      /* also ask a running body to stop: its uvs_cancelled(run) turns 1 */
  UVS_CANCEL_IF_WAITING = 2, /* only if no run is in progress; else UV_EBUSY */
  UVS_CANCEL_NO_DONE = 4     /* if the answer is UVS_CANCELLED, there is no `done` */
};

/* uvs_cancel's answers. */
enum {
  UVS_CANCELLED = 0,               /* no run will start any more, and none is in progress */
  UVS_CANCELLED_WHILE_RUNNING = 1, /* the run in progress finishes, and none follows */
  UVS_CANCELLED_BEFORE = 2         /* an earlier call cancelled it, and its run still finishes */
};

/**
 * Cancel a task. It leaves the queue at once. Its `done` is called promptly, with UV_ECANCELED.
 * With UVS_CANCEL_NO_DONE a waiting or ready task ends as if it had no `done`: its memory is free
 * when the call returns, unless another callback (a clean-up action, a hook) is still due.
 *
 * Thread:  any, also inside its own body.
 * Returns: UVS_CANCELLED; UVS_CANCELLED_WHILE_RUNNING; UVS_CANCELLED_BEFORE (may add the token);
 *          UV_ENOENT (the task has ended, was cancelled before it ran, was ended by its time limit,
 *          or never existed); UV_EBUSY (UVS_CANCEL_IF_WAITING); UV_EINVAL (unknown flags).
 */
UVS_API int uvs_cancel(uvs_t *s, uvs_id_t id, unsigned flags);

/**
 * Move a waiting task: its next run is due delay_ns from now (a wall-clock task: by the wall
 * clock). The grid of a fixed-rate task moves with it. Moving a task to a later time is cheap:
 * usually the task only remembers it, and the loop wakes at most once at the old time.
 *
 * Thread:  any.
 * Returns: 0; UV_EBUSY (the task is ready or running); UV_ENOENT.
 */
UVS_API int uvs_reschedule(uvs_t *s, uvs_id_t id, int64_t delay_ns);

/**
 * End a run whose body returned, or is about to return, UVS_PENDING. The run ends with `status` as
 * if the body had returned it. A fixed delay counts from here.
 *
 * Thread:  any.
 * Returns: 0; UV_ENOENT (no run to finish); UV_EINVAL (status is UVS_PENDING).
 */
UVS_API int uvs_finish(uvs_t *s, uvs_id_t id, int status);

/* Call cb(s, arg) on the loop thread in its next pass, in the order of posting; also after
 * shutdown. Thread: any. UV_EINVAL (NULL cb); UV_ENOMEM; UV_ESHUTDOWN (uvs_close was called). */
UVS_API int uvs_post(uvs_t *s, uvs_post_cb cb, void *arg);

/* -------------------------------------------------------------- shutdown --- */

/* Orderly shutdown: nothing new is accepted. A one-shot that is due runs. A run in progress
 * finishes. Delayed and periodic tasks go on or are cancelled, see uvs_after_shutdown. Thread: any,
 * any number of times. Returns 0. */
UVS_API int uvs_shutdown(uvs_t *s);

/* The same, and uvs_shutdown_now(s, NULL, NULL) if s is not terminated when grace_ns has passed.
 * Bodies learn of that without the loop. The nearest of several calls counts. */
UVS_API int uvs_shutdown_within(uvs_t *s, int64_t grace_ns);

/**
 * Immediate shutdown: every task that is not running is cancelled. Running bodies are asked to stop
 * (uvs_cancelled) and keep their result; none runs again. For each task that never started,
 * `never_ran` (may be NULL) is called on the loop, before the task's `done`, in no special order.
 * After the last of these it is called once more, with id 0 and task_arg NULL, in any case. This
 * last call does not wait for running bodies. If on_terminated is called, it is called after this.
 *
 * Thread:  any. Bodies learn of it at once; the rest happens on the loop.
 * Returns: 0; UV_EALREADY (it was called before; nothing happens).
 */
UVS_API int uvs_shutdown_now(uvs_t *s, uvs_never_ran_cb never_ran, void *arg);

UVS_API int uvs_is_shutdown(uvs_t *s);    /* 1 once one of the calls above was made */
UVS_API int uvs_is_terminating(uvs_t *s); /* shut down, not yet terminated */
UVS_API int uvs_is_terminated(uvs_t *s);  /* shut down, and every task has ended */

/* Wait until terminated, at most timeout_ns (zero or less: only look; UVS_NEVER: without end).
 * Where it would have to wait, not on the loop thread and not inside a body of this scheduler:
 * UVS_EDEADLK. Returns 0; UV_ETIMEDOUT, never early. */
UVS_API int uvs_wait_terminated(uvs_t *s, int64_t timeout_ns);

/**
 * Close: shuts down as uvs_shutdown_now, closes the scheduler's queues, disposes its lanes, waits
 * on the loop until no body runs or is pending and every callback has returned, closes its handles,
 * and calls cb (may be NULL). When uv_run has returned after that, no handle of s is left, and *s
 * is freed unless a thread holds a reference. In a forked child: frees the child's copy at once,
 * touches no handle, calls no `done` or drop_result, and calls cb before it returns.
 *
 * Thread:  loop thread.
 * Returns: 0; UV_EALREADY; UV_EPERM (thread).
 */
UVS_API int uvs_close(uvs_t *s, uvs_close_cb cb);

/* A thread that may call during or after close takes a reference before, and gives it back when it
 * has finished. uvs_retain returns s. Both accept NULL. Thread: any. */
UVS_API uvs_t *uvs_retain(uvs_t *s);
UVS_API void uvs_release(uvs_t *s);

/* Explains the codes that our calls return. For the failure of a body use uv_strerror. */
UVS_API const char *uvs_strerror(int code);
UVS_API unsigned uvs_version(void); /* UVS_VERSION_HEX of the library */
UVS_API const char *uvs_version_string(void);

#ifdef __cplusplus
}
#endif

#endif
