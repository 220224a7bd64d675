/* SPDX-License-Identifier: MIT
 *
 * task: the record of a task, its states, and the table of legal moves.
 *
 * A task is a slot of 64 bytes. Tasks that are more than "call this function once, after a delay"
 * also have an extra record. The scheduler's lock protects both, except `token` and `spared`.
 *
 *   FREE      the slot is not in use
 *   WAITING   the next run is not due, or a hook must be called before it
 *   READY     due: the task waits for a runner, for the loop, or for its lane
 *   RUNNING   the body runs or is pending, or `after` is still to come
 *   ENDED     no run is in progress and none will start
 *
 * `state` says what a task is; `place` says which list or queue its link is in. Only the functions
 * of core/ change them. docs/states.md describes all states and moves.
 */
#ifndef UVS__TASK_TASK_H
#define UVS__TASK_TASK_H

#include "uvsched/hooks.h"

#include "port/atomic.h"
#include "port/base.h"
#include "util/heap.h"

#define UVS__SEQ_BITS 38 /* wraps after 2.7e11 tasks: then equal deadlines may swap once */
#ifndef UVS__GENERATION_BITS
#define UVS__GENERATION_BITS 27 /* a test build has 3 */
#endif
#define UVS__ID_BITS (UVS__SLOT_BITS + 27) /* the bits above hold the scheduler's number */
#define UVS__GENERATION_MAX ((UINT32_C(1) << UVS__GENERATION_BITS) - 1)

enum uvs__state { UVS__FREE = 0, UVS__WAITING, UVS__READY, UVS__RUNNING, UVS__ENDED, UVS__STATES };

/* Where the task's link is. */
enum uvs__place {
  UVS__NOWHERE = 0, /* in no list: running, ended, never due, paused, or held */
  UVS__IN_DELAY,    /* the delay queue of the monotonic clock */
  UVS__IN_WALL,     /* the delay queue of the wall clock */
  UVS__IN_READY,    /* among the ready tasks of a crew, or of the loop */
  UVS__IN_GATE,     /* ready, and waiting for its lane */
  UVS__IN_OWED,     /* the loop owes it a callback, or its next occurrence */
  UVS__IN_ARRIVALS, /* a runner found it due, and only the loop can run it */
  UVS__WITH_CALLER  /* in no list: its submitter is about to run it (UVS_REJECT_CALLER_RUNS) */
};

/* Flags. */
enum {
  UVS__LOOP = 1 << 0,       /* `fn` is `after`: the task never leaves the loop thread */
  UVS__REF = 1 << 1,        /* the task keeps the loop alive */
  UVS__WALL = 1 << 2,       /* due_ns is an instant of the wall clock */
  UVS__KEPT = 1 << 3,       /* the outcome is kept until uvs_forget; the task has an extra record */
  UVS__CANCELLED = 1 << 4,  /* the outcome is decided: cancelled */
  UVS__TIMED_OUT = 1 << 5,  /* the outcome is decided: the last run passed its limit */
  UVS__PENDING = 1 << 6,    /* RUNNING: the body has returned UVS_PENDING */
  UVS__FINISHED = 1 << 7,   /* RUNNING: uvs_finish was called. With PENDING: the body is over */
  UVS__ON_LOOP = 1 << 8,    /* READY or RUNNING: this run belongs to the loop thread */
  UVS__DELAYED = 1 << 9,    /* READY or RUNNING: it waited for its deadline, so for the timer */
  UVS__TOLD = 1 << 10,      /* ENDED: `done` has returned, only the outcome is left */
  UVS__NEVER_RAN = 1 << 11, /* ENDED: uvs_shutdown_now took it back before its first run */
  UVS__CLEANUPS = 1 << 12,  /* actions are attached to its end */
  UVS__RAN = 1 << 13,       /* a run has started */
  UVS__CLASS_SHIFT = 14     /* two bits: UVS__HIGH, UVS__NORMAL, UVS__LOW */
};
#define UVS__CLASS_MASK (UINT32_C(3) << UVS__CLASS_SHIFT)

/* Flags of one run, which are cleared before the next. */
#define UVS__RUN_FLAGS (UVS__PENDING | UVS__FINISHED | UVS__ON_LOOP | UVS__DELAYED)

enum { UVS__HIGH = 0, UVS__NORMAL, UVS__LOW, UVS__CLASSES };

/* What `token` says: the running body is asked to stop. */
enum { UVS__TOKEN = 1 };

struct uvs__task { /* one cache line */
  uint64_t due_ns; /* deadline of the next or the present run: ideal time plus jitter */
  uint64_t seq : UVS__SEQ_BITS;    /* its place among equal deadlines: the order of submission */
  uint64_t extra : UVS__SLOT_BITS; /* index of the extra record + 1; 0: none */
  uvs_work_cb fn;                  /* `work`, or `after` of a LOOP task */
  void *arg;
  uvs_done_cb done;
  uint64_t ready_ns; /* when it became READY */
  uint32_t generation : 27;
  uint32_t rank : 5; /* READY, out of order: see core/ready.h */
  uint16_t flags;
  uint8_t state : 3;     /* enum uvs__state */
  uint8_t kind : 2;      /* UVS_ONE_SHOT, UVS_FIXED_RATE, UVS_FIXED_DELAY, UVS_CALENDAR */
  uint8_t place : 3;     /* enum uvs__place */
  _Atomic uint8_t token; /* 0, or UVS__TOKEN; any thread, without the lock */
  union {
    uint32_t turn_us; /* READY, RUNNING: how long before ready_ns the loop's pass began */
    int32_t status;   /* ENDED: the outcome; RUNNING with `after` to come: what `work` returned */
  };
  uint32_t up; /* READY, out of order: the parent; see core/ready.h */
};

_Static_assert(sizeof(struct uvs__task) == 64 || sizeof(void *) < 8, "a task is one cache line");

struct uvs__gate;
struct uvs__waiter;
struct uvs__cleanup;

/* The run in progress, or the last one. */
struct uvs__record {
  int64_t ideal_ns, start_ns, end_ns;
  uint64_t missed; /* as the body sees it */
  uint64_t merged; /* points after `ideal` that the run also stands for */
  int runner;
  int failure; /* the status with which it failed, or 0 */
};

/* The fields that a plain one-shot does not need.
 *
 * A run of a plain periodic task touches four cache lines: the first two when the task is filed and
 * when it becomes READY, all four when it starts and when it ends. Fields that only some tasks, or
 * only some runs, need come after these. */
struct uvs__extra {
  uint32_t slot;          /* of the task */
  uint32_t runs;          /* runs started; stops at the maximum */
  struct uvs__gate *gate; /* of its lane; NULL: none. Until the task is over */
  union {
    uint64_t period_ns;
    struct uvs_calendar_s *calendar; /* UVS_CALENDAR; a reference */
  };
  uint64_t until_ns;
  uint64_t since_ns; /* when it was submitted or its last run was over; no run starts earlier */
  uint64_t key_ns, key_seq; /* READY: its place among the ready tasks */
  uint64_t total_limit_ns;  /* of a run, from READY; UVS__NEVER: none */

  uint64_t jitter_ns;
  uint64_t jitter_now_ns; /* part of due_ns */
  uint64_t missed_next;   /* points without a run, which the next run reports */
  uint64_t missed_owed;   /* points that the missed hook must be told of; 0 */
  int failed_owed;        /* the error hook must be told of this failure; 0 */
  uint32_t max_burst;
  uint8_t policy;         /* UVS_MISSED_... */
  uint8_t failure;        /* UVS_FAIL_... */
  bool decorate : 1;      /* the decorate hook is still to be called */
  bool narrow : 1;        /* its callbacks do not see the scheduler: it was submitted by its lane */
  bool at_once : 1;       /* uvs_run_now: the next run starts even if the task is paused */
  bool timed_out : 1;     /* `run` has passed its limit */
  _Atomic bool spared;    /* the body has disposed its own lane: no token for it. Any thread */
  bool limited : 1;       /* the runs have a time limit ... */
  bool run_limited : 1;   /* ... that counts from their start: run_limit_ns */
  bool limit_final : 1;   /* if this run passes its limit, no run follows */
  bool forgotten : 1;     /* uvs_forget was called */
  bool outcome_taken : 1; /* a waiter was handed the result: it is not dropped */
  bool since_resumed : 1; /* since_ns is when uvs_resume was called */
  bool paused : 1;        /* uvs_pause was called */
  bool extra_run : 1;     /* uvs_run_now: the next run, or the run in progress, is extra */
  bool held : 1;          /* it replaced a task (held_by) whose run is still in progress */
  bool replaced : 1;      /* RUNNING: another task has replaced it, and is held */
  bool indexed : 1;       /* uvs_find finds it by its name */
  bool point_owed : 1;    /* calendar: the loop must compute the next occurrence ... */
  bool point_passed : 1;  /* ... because later ones have passed, too, ... */
  bool zone_changed : 1;  /* ... or because the rules of its zone have changed */
  bool interrupted : 1;   /* `interrupt` was called for this run, or is owed */
  bool after_owed : 1;    /* RUNNING, in `owed`: the body has returned, and `after` is to come */
  uint8_t retry_jitter;   /* percent */
  uint8_t missed_reason;  /* of missed_owed, and of points that point_owed leaves out */
  uint64_t limit_due_ns;  /* of this run; UVS__NEVER. Constant while the body runs */
  uvs_after_cb after;     /* when `work` exists too */

  struct uvs__record run;
  int seen;           /* of `run`: the failure that `after` or the error hook was told of, or 0 */
  uint16_t name_stat; /* the record of its name: see core/name_stats.h */

  int64_t late_by_ns[UVS_LATE_CAUSES]; /* of the last run */
  uint32_t failures;                   /* consecutive */
  uint32_t max_runs;

  /* Failures, limits, missed points. */
  uint64_t grid_ns;  /* fixed rate: the point of the grid that is being retried; calendar: the last
                        occurrence that a run stood for */
  uint64_t after_ns; /* when `after` of the previous run was called; 0: it was not */
  uint64_t retry_ns, retry_max_ns;
  uint64_t run_limit_ns;
  uint32_t max_failures;
  int limit_status;
  void *limit_result;
  uint64_t missed_total;
  /* The outcome, if it is kept, and the end of the task. */
  void *run_result;            /* what this run has set, else `result`; see keep_result */
  void *result;                /* of the task */
  void *preset;                /* the result in the spec; like limit_result, never dropped */
  void (*drop_result)(void *); /* NULL: results are not dropped */
  void *dropped[2];            /* results that the loop must drop; NULL */
  struct uvs__waiter *waiters; /* threads that wait for its outcome */
  struct uvs__cleanup *first_cleanup, *last_cleanup; /* actions for its end, in order */
  /* Wall clock, lane, decorate hook, name. */
  union {
    uint64_t wall_late_ns; /* READY: how late the task became READY */
    uint32_t held_by;      /* held: the slot of the task that it has replaced */
  };
  uint64_t step_ns;   /* READY: how far the wall clock had been set forward */
  uint64_t last_ns;   /* calendar: the last occurrence that the next run stands for */
  uint64_t passed_ns; /* calendar: from this instant on, a later occurrence has passed */
  uint64_t saved_ns;  /* extra_run: the ideal time of the next regular run */
  uint32_t lane_previous, lane_next; /* all tasks of its lane; UVS__NONE */
  uvs_decoration_t decoration;       /* what runs, if there is a decorate hook */
  uvs_interrupt_cb interrupt;        /* NULL: none */
  struct uvs__run_end *end_later;    /* during `interrupt`: where the end of the run is noted */
  uint32_t name_child[2];            /* indexed: see core/names.c */
  char name[UVS_NAME_MAX + 1];
};

_Static_assert(offsetof(struct uvs__extra, grid_ns) == 4 * 64 || sizeof(void *) < 8,
               "four cache lines for each run");
_Static_assert(sizeof(struct uvs__extra) <= 8 * 64, "a ninth line only on purpose");

#define UVS__EXTRA_SIZE (((sizeof(struct uvs__extra) + 63) / 64) * 64)

/* What a body returned, as a status that `status` can hold. Not for UVS_PENDING. */
static inline int uvs__status_of(int returned) {
  if (returned == 0 || returned == UVS_STOP)
    return returned;
  if (returned > 0)
    return UV_EINVAL;
  return returned < -0xfff ? UV_UNKNOWN : returned;
}

static inline bool uvs__has(const struct uvs__task *t, unsigned flags) {
  return (t->flags & flags) != 0;
}

static inline unsigned uvs__class_of(const struct uvs__task *t) {
  return t->flags >> UVS__CLASS_SHIFT;
}

/* The task's id without the number of its scheduler. */
static inline uvs_id_t uvs__local_id(const struct uvs__task *t, uint32_t slot) {
  return (uvs_id_t)t->generation << UVS__SLOT_BITS | slot;
}

/* The outcome is final: becomes true once, and never false again (F1). */
static inline bool uvs__is_settled(const struct uvs__task *t) {
  return t->state == UVS__ENDED || uvs__has(t, UVS__CANCELLED | UVS__TIMED_OUT);
}

/* A silent task owes no callback at its end, unless it fails or uvs_shutdown_now hands it back.
 * Most tasks are silent. */
static inline bool uvs__is_silent(const struct uvs__task *t) {
  return t->extra == 0 && t->done == NULL;
}

/* RUNNING, and the run ends with `status`: does the task end now, without any callback? */
static inline bool uvs__ends_silently(const struct uvs__task *t, int status) {
  return uvs__is_silent(t) && status >= 0 && !uvs__is_settled(t);
}

/* The body of the present run has returned; if it was pending, uvs_finish was called. */
static inline bool uvs__body_is_over(const struct uvs__task *t) {
  return (~t->flags & (UVS__PENDING | UVS__FINISHED)) == 0;
}

/* How a settled task ended: 0, a failure, or UV_ECANCELED. */
static inline int uvs__outcome_of(const struct uvs__task *t, const struct uvs__extra *x) {
  if (uvs__has(t, UVS__CANCELLED))
    return UV_ECANCELED;
  if (uvs__has(t, UVS__TIMED_OUT))
    return x->limit_status;
  return t->status == UVS_STOP ? 0 : t->status;
}

/* Must this result be dropped if no waiter receives it? Only results that a run has set are. */
static inline bool uvs__is_droppable(const struct uvs__extra *x, const void *result) {
  return x->drop_result != NULL && result != NULL && result != x->preset &&
         result != x->limit_result;
}

/* Is the present run, or the next one, a retry? */
static inline bool uvs__is_retrying(const struct uvs__extra *x) {
  return x->failure == UVS_FAIL_RETRY && x->failures > 0;
}

/* A retry and an extra run do not stand for a point of the grid. */
static inline bool uvs__is_off_grid(const struct uvs__extra *x) {
  return x->extra_run || uvs__is_retrying(x);
}

/* Was the next run asked for by uvs_run_now? An extra run that has failed waits for its retry. */
static inline bool uvs__is_asked_for(const struct uvs__extra *x) {
  return x->at_once || (x->extra_run && !uvs__is_retrying(x));
}

/* A run begins, or ends without its body: the occurrences up to last_ns are used up. */
static inline void uvs__use_point(const struct uvs__task *t, struct uvs__extra *x) {
  if (t->kind == UVS_CALENDAR && !uvs__is_off_grid(x))
    x->grid_ns = x->last_ns;
}

/* Must the task wait even if it is due? */
static inline bool uvs__is_held_back(const struct uvs__extra *x) {
  return x->held || (x->paused && !x->at_once);
}

#define UVS__MAY(state) (1u << (state))

/* The one function that changes a state. */
static inline void uvs__set_state(struct uvs__task *t, enum uvs__state to) {
  static const uint8_t allowed[UVS__STATES] = {
      [UVS__FREE] = UVS__MAY(UVS__WAITING), /* accepted */
      /* due; cancelled, dropped, or past its end time */
      [UVS__WAITING] = UVS__MAY(UVS__READY) | UVS__MAY(UVS__ENDED),
      /* started; a point of the grid is left out; cancelled or dropped */
      [UVS__READY] = UVS__MAY(UVS__RUNNING) | UVS__MAY(UVS__WAITING) | UVS__MAY(UVS__ENDED),
      [UVS__RUNNING] = UVS__MAY(UVS__WAITING) | UVS__MAY(UVS__ENDED), /* another run; the last */
      [UVS__ENDED] = UVS__MAY(UVS__FREE), /* `done` has returned, the outcome is forgotten */
  };

  UVS_ASSERT((allowed[t->state] & UVS__MAY(to)) != 0);
  t->state = (uint8_t)to & 7u;
}

#endif
