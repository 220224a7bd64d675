/* SPDX-License-Identifier: MIT
 *
 * moves: everything that can happen to a task, one function for each move. All need the lock.
 *
 *   accept -> file -> (owed | arrivals | delay queue | ready)
 *   delay queue -> make_ready -> start -> end_run -> file, or end
 *   cancel, drop, complete: from WAITING or READY to the end
 *   settle: the outcome of a running task is decided before its body returns
 */
#ifndef UVS__CORE_MOVES_H
#define UVS__CORE_MOVES_H

#include "core/scheduler.h"
#include "task/late.h"
#include "task/plan.h"

/* The times that a pass, or a runner, knows when it makes due tasks ready. */
struct uvs__handing {
  uint64_t now_ns;
  uint64_t pass_ns; /* when the pass began; if a burst takes several passes, the first one */
  uint64_t wall_ns; /* 0: the wall clock was not read */
  uint64_t step_ns; /* how far the wall clock was set forward since the last pass */
};

/* The runner, the loop or the caller that runs a task. */
struct uvs__seat {
  int runner; /* as in uvs_run_t */
  /* For a runner: when the last active runner of its crew became idle, and when the loop sent the
   * next one. For the loop: recalled_ns is when this pass began, and idle_since_ns is recalled_ns
   * minus the time by which a body overran the last pass. */
  uint64_t idle_since_ns, recalled_ns;
};

/* run->state: what uvs_cancelled and uvs_set_result need. The body reads it without the lock. */
struct uvs__context {
  uvs_t *scheduler;
  _Atomic uint8_t *token;
  struct uvs__extra *extra; /* as it was when the run started; NULL: none */
  struct uvs__gate *gate;   /* NULL: none */
  uint64_t limit_due_ns;    /* UVS__NEVER: none */
  bool kept;                /* the outcome is kept */
};

/* A run that has started, with everything that is needed to call its body. It is copied under the
 * lock, with one exception: for a plain task only the fields that may change are copied under the
 * lock, and uvs__start_plain copies the rest after unlocking. */
struct uvs__started {
  uvs_run_t run;
  struct uvs__context context;
  uvs_work_cb body;
  uint64_t queue_ns; /* how long the task was READY */
  bool limited;      /* the run has a time limit ... */
  bool expired;      /* ... which passed before its body could be called */
  bool narrow;       /* the body does not see the scheduler */
  bool wall;         /* a wall-clock task: see uvs__run_end */
  bool plain;        /* uvs__start_plain is still to be called */
  uint16_t flags;    /* of the task */
  uint32_t turn_us;  /* of the task */
  struct uvs__seat seat;
};

/* ---- make.c ---- */

/* An instant of the spec, on the clock that the spec counts from. */
static inline uint64_t uvs__instant_of(const uvs_task_t *t, int64_t ns, uint64_t now_ns) {
  return t->from == UVS_FROM_NOW ? uvs__later(now_ns, ns) : uvs__instant(ns);
}

/* Was the task due before its submission? Then it has an extra record. */
static inline bool uvs__is_past(const uvs_task_t *t, uint64_t now_ns) {
  return t->from == UVS_FROM_MONOTONIC && uvs__instant(t->first_ns) < now_ns;
}

/* Does the task need an extra record? */
bool uvs__needs_extra(const uvs_t *s, const uvs_task_t *t, uint64_t now_ns);

static inline uint16_t uvs__flags_of(const uvs_t *s, const uvs_task_t *t, uint64_t due_ns,
                                     uint64_t now_ns) {
  unsigned flags = (unsigned)(UVS__NORMAL - t->priority) << UVS__CLASS_SHIFT;

  if (t->work == NULL)
    flags |= UVS__LOOP;
  if (t->keep_outcome != 0)
    flags |= UVS__KEPT;
  if (t->from == UVS_FROM_WALL || t->kind == UVS_CALENDAR)
    flags |= UVS__WALL;
  if ((t->flags & UVS_UNREF) == 0)
    flags |= UVS__REF;
  if (due_ns > now_ns && uvs__waits_by_ms(s))
    flags |= UVS__DELAYED;
  return (uint16_t)flags;
}

/* ---- statistics by name ---- */

/* Lock held: counts a run that has started, or one that has ended after run_ns. */
static inline void uvs__name_started(uvs_t *s, const struct uvs__extra *x, const uvs_run_t *run) {
  if (x->name_stat != 0)
    uvs__stat_add(&s->name_stats.of[x->name_stat]->late, (uint64_t)run->late_ns);
}

static inline void uvs__name_ended(uvs_t *s, const struct uvs__extra *x, uint64_t run_ns) {
  if (x != NULL && x->name_stat != 0)
    uvs__stat_add(&s->name_stats.of[x->name_stat]->run, run_ns);
}

/* ---- making tasks, continued ---- */

/* Lock held: makes a WAITING task that is in no list and has no extra record. Needs room
 * (uvs__reserve). */
static inline uint32_t uvs__make_plain(uvs_t *s, const uvs_task_t *t, uint64_t now_ns) {
  uint32_t slot = uvs__table_take(&s->table);
  struct uvs__task *k = uvs__task(s, slot);
  uint64_t due_ns = uvs__instant_of(t, t->first_ns, now_ns);

  *k = (struct uvs__task){
      .due_ns = due_ns,
      .seq = s->table.next_seq++ & ((UINT64_C(1) << UVS__SEQ_BITS) - 1),
      .fn = t->work != NULL ? t->work : t->after,
      .arg = t->arg,
      .done = t->done,
      .generation = k->generation,
      .flags = uvs__flags_of(s, t, due_ns, now_ns),
      .state = UVS__WAITING,
      .kind = (unsigned)t->kind & 3u,
  };
  return slot;
}

/* Lock held: as uvs__make_plain. extra: the task also gets an extra record. Needs room. */
uint32_t uvs__make_task(uvs_t *s, const uvs_task_t *t, bool extra, uint64_t now_ns);
/* Lock held: sets the fields of a new calendar task. The loop computes its first run. */
void uvs__begin_calendar(uvs_t *s, uint32_t slot, const uvs_task_t *t, uint64_t wall_ns);
/* Lock held, but released to allocate: makes room for this many more of each. 0, UV_ENOMEM. */
int uvs__reserve(uvs_t *s, size_t tasks, size_t extras);

/* ---- in ---- */

/* Do the shutdown policies and the lane still allow this WAITING or READY task to run? */
bool uvs__may_run(const uvs_t *s, const struct uvs__task *t, const struct uvs__extra *x);
/* A WAITING task that is in no list: puts it where it belongs. */
void uvs__file(uvs_t *s, uint32_t slot, uint64_t now_ns);
/* A WAITING task, at any place: changes the time of its next run to due_ns. */
void uvs__move(uvs_t *s, uint32_t slot, uint64_t due_ns, uint64_t now_ns);
/* A wall-clock task is about to be filed. The loop must look when the task is due, by the present
 * difference of the clocks, but after UVS__WALL_CAP_NS at the latest: the wall clock may be set. */
void uvs__note_wall(uvs_t *s, const struct uvs__task *t, uint64_t now_ns, uint64_t wall_ns);
/* A WAITING task leaves its queue. A task that is owed a callback stays in `owed`. */
void uvs__unfile(uvs_t *s, uint32_t slot, struct uvs__task *t);
/* A plain task gets an extra record, which the caller has made room for. */
void uvs__give_extra(uvs_t *s, uint32_t slot);

/* ---- names (core/names.c, core/replace.c) ---- */

uint64_t uvs__name_hash(const char *name);
/* The slot of the task that is indexed under this name; UVS__NONE: there is none. */
uint32_t uvs__name_find(uvs_t *s, const char *name);
/* Adds the task to the index under its name, which no other indexed task has; removes it. */
void uvs__name_add(uvs_t *s, uint32_t slot);
void uvs__name_remove(uvs_t *s, uint32_t slot);
/* A new WAITING task that is in no list takes its name. The old task of this name ends. If the old
 * task is running, it is cancelled, and the new task is held until its run has ended. Returns the
 * slot of the new task, which may be the slot of the old task. The caller releases *ret_calendar
 * without the lock; it may be NULL. */
uint32_t uvs__replace(uvs_t *s, uint32_t slot, bool *ret_replaced,
                      struct uvs_calendar_s **ret_calendar);

/* ---- pause (core/pause.c) ---- */

/* The task is WAITING, READY or RUNNING, and has an extra record: its runs no longer start. */
void uvs__pause(uvs_t *s, uint32_t slot, uint64_t now_ns);
/* The task is paused: its runs may start again. forget: points that have passed are not missed. */
void uvs__resume(uvs_t *s, uint32_t slot, bool forget, uint64_t now_ns, uint64_t wall_ns);
/* The task is WAITING and has an extra record: makes an extra run due now, or the pending retry. */
void uvs__run_extra(uvs_t *s, uint32_t slot, uint64_t now_ns, uint64_t wall_ns);
/* A READY task becomes WAITING, and is filed again. */
void uvs__unmake_ready(uvs_t *s, uint32_t slot, uint64_t now_ns);

/* ---- due ---- */

/* Up to a batch of due tasks becomes READY. True: there may be more. by_loop: the caller is a pass
 * of the loop. A runner puts the loop's tasks into `arrivals` instead. */
bool uvs__collect(uvs_t *s, const struct uvs__handing *h, bool by_loop);
/* A WAITING task that is in no list becomes READY. */
void uvs__make_ready(uvs_t *s, uint32_t slot, const struct uvs__handing *h);
/* The next task of `r` starts. UVS__NONE: there is none, or *steps came to 0. A task whose limit
 * has passed is timed out, and a task whose point of the grid is left out waits again: neither
 * starts. */
uint32_t uvs__start_next(uvs_t *s, struct uvs__ready *r, const struct uvs__seat *seat,
                         uint64_t now_ns, struct uvs__started *ret, int *steps);
/* A READY task starts. */
void uvs__start(uvs_t *s, uint32_t slot, const struct uvs__seat *seat, uint64_t now_ns,
                struct uvs__started *ret);
/* Without the lock, after uvs__start of a plain task: copies the rest. */
void uvs__start_plain(uvs_t *s, struct uvs__started *st);
/* A READY task leaves the ready tasks, or its gate. starts: its run begins. */
void uvs__unready(uvs_t *s, uint32_t slot, struct uvs__task *t, bool starts);
/* `count` points of the grid get no run of their own. */
void uvs__miss(uvs_t *s, struct uvs__extra *x, uint64_t count, int reason);

/* ---- the end ---- */

/* RUNNING: was the body asked to stop before end_ns? */
bool uvs__was_asked(const uvs_t *s, const struct uvs__task *t, uint64_t end_ns);
/* RUNNING, and its body or its `after` has returned UV_ECANCELED: if the run was asked to stop, the
 * task is cancelled. */
void uvs__answer_cancelled(uvs_t *s, uint32_t slot, uint64_t now_ns);
/* RUNNING: the body has returned. If the task has `after`, the loop calls it next; else the run
 * ends. */
void uvs__body_returned(uvs_t *s, uint32_t slot, const struct uvs__run_end *e);
/* RUNNING: the run is over, `after` included. */
void uvs__end_run(uvs_t *s, uint32_t slot, const struct uvs__run_end *e);
/* RUNNING and not settled: the outcome is decided now, and the run goes on. */
void uvs__settle_running(uvs_t *s, uint32_t slot, enum uvs__outcome outcome);
/* WAITING or READY: the task ends, and never runs again. flags: 0, or UVS__NEVER_RAN. */
void uvs__end_unstarted(uvs_t *s, uint32_t slot, enum uvs__outcome outcome, unsigned flags);
/* WAITING, in no queue, and the next run would be after the end time: the task ends, with success
 * unless its last run failed. */
void uvs__complete(uvs_t *s, uint32_t slot);
/* WAITING or READY: the task ends with this status, and with `result` unless that is NULL. Returns
 * a result that the caller must drop, or NULL. */
void *uvs__complete_unstarted(uvs_t *s, uint32_t slot, int status, void *result);
/* As uvs__end_unstarted, for a task that shutdown or its lane no longer allows to run. */
void uvs__end_refused(uvs_t *s, uint32_t slot);
/* ENDED, in no list, all callbacks made: FREE, or TOLD if its outcome is kept. */
void uvs__retire(uvs_t *s, uint32_t slot, struct uvs__task *t);
/* ENDED, and the outcome is forgotten: returns the result that the caller must drop after
 * unlocking. NULL: there is none, or a waiter has received it. */
void *uvs__take_unclaimed(struct uvs__extra *x);
/* ENDED, and the outcome is not kept or is forgotten: the slot becomes FREE. */
void uvs__free_told(uvs_t *s, uint32_t slot, struct uvs__task *t);

/* READY or RUNNING, in no list: another run follows. The caller files the task. */
void uvs__back_to_waiting(uvs_t *s, uint32_t slot);
/* READY, and the limit has passed: the run ends before its body was called. */
void uvs__time_out_unstarted(uvs_t *s, uint32_t slot, uint64_t now_ns);
/* RUNNING, and the limit has passed between the start and the call of the body: the same. */
void uvs__time_out_started(uvs_t *s, uint32_t slot, uint64_t now_ns);
/* READY, and the executor has refused a runner: the task becomes RUNNING without a start. The
 * caller ends the run. */
void uvs__begin_refused(uvs_t *s, uint32_t slot);
/* ENDED: must the error hook be called for the failure? */
bool uvs__owes_error(const uvs_t *s, const struct uvs__task *t, const struct uvs__extra *x);

/* ---- limits (core/limits.c; uvs__limits_expire is in core/end.c) ---- */

/* READY: total_limit_ns begins to count. */
void uvs__limit_begin(uvs_t *s, const struct uvs__task *t, struct uvs__extra *x);
/* RUNNING: run_limit_ns begins to count, if it passes before the other limit. */
void uvs__limit_start(uvs_t *s, const struct uvs__task *t, struct uvs__extra *x, uint64_t start_ns);
/* The run is over: removes its limit. */
void uvs__limit_end(uvs_t *s, const struct uvs__task *t, struct uvs__extra *x);
static inline bool uvs__limit_passed(const struct uvs__extra *x, uint64_t now_ns) {
  return x->limit_due_ns != UVS__NEVER && now_ns >= x->limit_due_ns;
}
/* Looks at up to a batch of limits that have passed. Returns a task whose time-out must be reported
 * to the error hook at once; UVS__NONE: none. *ret_more: call again, more may have passed. */
uint32_t uvs__limits_expire(uvs_t *s, uint64_t now_ns, bool *ret_more);

/* ---- owed to the loop ---- */

/* The loop will call c->call. */
static inline void uvs__owe_call(uvs_t *s, struct uvs__call *c) {
  if (c->listed)
    return;
  c->listed = true;
  c->next = NULL;
  *s->at.last_call = c;
  s->at.last_call = &c->next;
}
/* The next pass calls the action. */
void uvs__owe_cleanup(uvs_t *s, struct uvs__cleanup *a);
/* The same for those actions of a list that are called when the task or lane is settled. */
void uvs__owe_settled_cleanups(uvs_t *s, struct uvs__cleanup *first);

/* The task is RUNNING, and its body was asked to stop. The loop will call `interrupt`, unless the
 * body returns before that. */
void uvs__owe_interrupt(uvs_t *s, uint32_t slot);

/* ---- waiters (core/waiters.c) ---- */

/* A thread that waits for one task, for several, or for termination; a record on its stack. The
 * waiting call sets the counts and the constants before it links anything. */
struct uvs__sleeper {
  uv_cond_t cond;
  void *handle;               /* the uvs_waiter_t that can abandon the wait; NULL: none */
  bool woken;                 /* the wait is satisfied */
  bool abandoned;             /* another thread has abandoned the wait */
  bool race;                  /* constant: wait for the first success, or until all are settled */
  bool drains;                /* decided or abandoned: waits only until all tasks are over */
  bool wants_result;          /* constant: the caller has room for outcomes */
  size_t unsettled;           /* tasks that are not settled */
  size_t not_over;            /* tasks whose outcome was not handed over */
  struct uvs__waiter *winner; /* of a race; NULL: none yet */
  struct uvs__waiter *only;   /* constant: of a wait for one task; abandoning unlinks it; or NULL */
  struct uvs__sleeper *next, **link; /* sleepers that wait for termination; link NULL: not linked */
};

/* One task that a sleeper waits for. */
struct uvs__waiter {
  struct uvs__waiter *next, **link; /* of its task; link NULL: not linked any more */
  struct uvs__sleeper *sleeper;
  bool settled_is_enough; /* constant: waits for settled; else for quiet */
  bool settled;           /* `status` is final */
  int status;
  uvs_outcome_t outcome; /* valid once it is handed over */
};

/* Copies the known part of the outcome of a settled task. */
void uvs__read_outcome(const struct uvs__task *t, const struct uvs__extra *x, uvs_outcome_t *o);

/* The task is not yet settled, or not yet quiet, as the waiter needs it: links the waiter to it. */
void uvs__waiter_link(struct uvs__extra *x, struct uvs__waiter *w);
void uvs__waiter_unlink(struct uvs__waiter *w); /* no effect if it is not linked */
/* The task is already settled, or quiet, as the waiter needs it, and the waiter is not linked:
 * hands the outcome over. */
void uvs__waiter_serve(const struct uvs__task *t, struct uvs__extra *x, struct uvs__waiter *w);
/* `settled`: the task is settled. `quiet`: the task is ENDED, its status is set, and its slot is
 * not yet given back. Each hands the outcome over and wakes the threads whose wait is satisfied.
 * `quiet` includes `settled`. */
void uvs__waiters_settled(uvs_t *s, const struct uvs__task *t, struct uvs__extra *x);
void uvs__waiters_quiet(uvs_t *s, const struct uvs__task *t, struct uvs__extra *x);

/* Adds a sleeper to those that wait for termination; removes it, and has no effect if it is not
 * linked. */
void uvs__terminated_link(uvs_t *s, struct uvs__sleeper *z);
void uvs__terminated_unlink(struct uvs__sleeper *z);
/* s->terminated has become true: wake them all. */
void uvs__wake_terminated(uvs_t *s);

/* From now on `handle`, a uvs_waiter_t or NULL, can abandon z, which sleeps in `owner`. UV_EINVAL
 * (not initialized), UV_EBUSY (in use), UV_EINTR (abandoned before; the request is used up). */
int uvs__handle_claim(const void *owner, struct uvs__sleeper *z, void *handle);
void uvs__handle_release(struct uvs__sleeper *z); /* no effect if there is none */
/* Returns what uvs_abandon returns. */
int uvs__handle_abandon(uvs_t *s, void *handle);

#endif
