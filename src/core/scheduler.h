/* SPDX-License-Identifier: MIT
 *
 * scheduler: the scheduler itself, and its one lock.
 *
 * `lock` protects everything below it in struct uvs_s, and every task. Under the lock there is no
 * user code (allocator, clock, executor and hooks are user code), no other lock, and no system call
 * except the one that wakes a waiting thread. No critical section grows with the number of tasks.
 *
 * Functions of core/ need the lock unless they say otherwise. Each section ends in uvs__unlock or
 * in uvs__unlock_and_wake (core/wake.h), which wakes the loop if the loop has something to do.
 */
#ifndef UVS__CORE_SCHEDULER_H
#define UVS__CORE_SCHEDULER_H

#include "uvsched/outcome.h"
#include "uvsched/settings.h"
#include "uvsched/stats.h"

#include "core/crew.h"
#include "core/gate.h"
#include "core/name_stats.h"
#include "core/ready.h"
#include "core/tuning.h"
#include "delay/delay.h"
#include "port/clock.h"
#include "port/self.h"
#include "port/ticker.h"
#include "task/table.h"
#include "port/atomic.h"
#include "util/stats.h"

/* A list of tasks through their links: previous in `a`, next in `b`. */
struct uvs__list {
  uint32_t first, last; /* UVS__NONE */
};

/* How a task ends. */
enum uvs__outcome {
  UVS__COMPLETED = 0,
  UVS__FAILED,
  UVS__WAS_CANCELLED,
  UVS__PASSED_LIMIT,
  UVS__DROPPED,
  UVS__OUTCOMES
};

struct uvs__counts {
  uint64_t submitted;
  uint64_t waiting, ready, running; /* settled tasks are in none of them */
  uint64_t runs;
  uint32_t runners, peak_runners; /* runners in a body: now; the most so far */
  uint64_t ended[UVS__OUTCOMES];
  uint64_t failed_runs, missed, rejected, wakeups;
  uint64_t held_ns, held_max_ns; /* how long the loop was held up: the sum, the longest */
};

/* A callback that the loop owes to something that is not a task. */
struct uvs__call {
  void (*call)(uvs_t *s, struct uvs__call *c); /* loop thread, without the lock */
  struct uvs__call *next;
  bool listed;
};

/* An action that was attached to the end of a task or a lane. */
struct uvs__cleanup {
  uvs_cleanup_cb cb; /* NULL: it was called */
  void *arg;
  bool when_settled;
  uint8_t lists;                 /* how many of these two lists the action is on: */
  struct uvs__cleanup *next;     /* actions of its task or lane */
  struct uvs__cleanup *next_now; /* actions that are called at the next pass */
};

/* Delay queues of values (queue/). The scheduler knows them only through this struct. */
struct uvs__queues {
  /* Loop thread, without the lock: hand due values to waiting threads, and make callbacks until
   * until_ns. until_ns 0: hand over, make due_ns exact, and make no callback. */
  void (*serve)(uvs_t *s, uint64_t until_ns);
  /* Without the lock, loop thread: close all; in a forked child: free all. */
  void (*close)(uvs_t *s);
  uint64_t due_ns;           /* the nearest time that a queue wants the loop at; UVS__NEVER */
  bool dirty;                /* the loop must look at all queues */
  uint32_t refs;             /* open queues that keep the loop alive */
  bool shut;                 /* no queue is opened any more */
  struct uvs_queue_s *first; /* queue/'s own list */
  struct uvs_queue_s
      *resume; /* whose callback is next, if the last pass was too short. Loop thread */
};

/* What the loop will do next, and which callbacks it owes. */
struct uvs__loop_state {
  uint64_t armed_ns;   /* the loop looks at this time without being woken; UVS__NEVER */
  bool in_pass;        /* the loop is in a pass: it looks at everything before it sleeps */
  bool wake_sent;      /* a wake-up is on its way */
  bool first_pass;     /* the loop has had no pass yet, and is kept alive until then */
  bool mute;           /* nothing may be sent any more: the handles are closed or lost */
  bool held_back;      /* a crew was given fewer runners than tasks: look again in 1 ms */
  bool runner_wanted;  /* during the pass, a critical section left a task without a runner */
  bool crews_want;     /* a lane's own crew may want a runner */
  bool watch_wanted;   /* the first wall-clock task was filed: watch the wall clock */
  bool watch_asked;    /* watch_wanted was set once, and is never set again */
  bool policy_changed; /* a shutdown, a survive policy, a lane's token: look at every task */
  bool behind;         /* the last pass had no time for all callbacks */
  bool kept;           /* the async handle is ref'd, so the loop stays alive. Loop thread writes */
  struct uvs__list owed;     /* tasks with callbacks to make */
  struct uvs__list arrivals; /* due tasks of the loop that a runner found */
  struct uvs__call *calls;
  struct uvs__cleanup *now_first; /* actions for the next pass */
  struct uvs__runner *returned;   /* runners that executors brought back, by `next` */
  /* The end of each critical section looks at all of the above. */
  struct uvs__call **last_call;
  struct uvs__cleanup *now_last;
  uint64_t pass_ns;    /* the present, or last, pass began */
  uint64_t slept_ns;   /* when the last pass ended */
  uint64_t sent_ns;    /* wake_sent: since when a wake-up is on its way; UVS__NEVER: unknown */
  uint64_t carried_ns; /* when the first of several passes without enough time began; 0: none */
  uint64_t overrun_ns; /* by how much a body made the last pass exceed its budget */
};

struct uvs_s {
  /* Constant. */
  void *raw; /* as allocated */
  uv_loop_t *loop;
  uintptr_t opener;
  int opener_tid;
  uvs_clock_t clock;
  uvs_allocator_t mem;
  int keep_alive;
  uint32_t max_pending;
  uint64_t budget_ns;
  uint64_t seed;
  uvs_error_cb error_cb; /* NULL: uvs_ignore_errors was given */
  bool error_printed;    /* see print_first_error */
  uvs_terminated_cb terminated_cb;
  uvs_decorate_cb decorate_cb;
  uvs_missed_cb missed_cb;
  uvs_before_body_cb before_cb;
  uvs_after_body_cb after_cb;
  uvs_rejected_cb rejected_cb;
  void *data;
  char name[UVS_NAME_MAX + 1];
  struct uvs__fork fork;
  void (*runner_is_back)(uvs_t *s); /* loop/: a runner has come back from libuv's pool */

  /* Any thread, without the lock. */
  _Atomic uint32_t refs;
  _Atomic uintptr_t loop_thread; /* 0 until the first pass */
  _Atomic int loop_tid;
  _Atomic bool stop;           /* uvs_shutdown_now: bodies are asked to stop. Set under the lock */
  _Atomic uint64_t kill_ns;    /* when the grace of uvs_shutdown_within ends. Set under the lock */
  _Atomic uint64_t resumed_ns; /* when uvs_resume_all was called last; 0. Set under the lock */
  _Atomic bool closed;

  /* Loop thread. */
  struct uvs__ticker ticker;
  struct uvs__cell loop_cell; /* statistics; any thread reads */
  bool in_each;
  bool closing;
  bool closed_in_child;
  bool closing_handles;
  uvs_close_cb close_cb;
  int64_t wall_offset_ns; /* wall clock minus monotonic clock, at the last reading */
  bool wall_known;

  /* The lock, and the fields that it protects. Those that most calls use come first. */
  uv_mutex_t lock;
  uint64_t live;      /* accepted tasks that are not over */
  uint64_t live_refs; /* those of them that keep the loop alive */
  uint32_t lingerers; /* runners that wait on `lingering` */
  uint32_t summoned;  /* runners that were signalled there, and have not yet woken */
  bool shut;          /* nothing new is accepted */
  bool paused;        /* uvs_pause_all: no task becomes READY */
  bool terminated;
  struct uvs__trace *trace; /* the flight recorder (core/trace.h); NULL: none is open */
  struct uvs__counts counts;
  struct uvs__loop_state at;
  struct uvs__queues queues;
  struct uvs__ready loop_ready; /* tasks that may start on the loop */
  struct uvs__crew home;        /* the scheduler's own runners */
  struct uvs__table table;
  struct uvs__delay delay;
  struct uvs__crew *wanting, *wanting_last; /* crews of lanes that have something to start */
  uint32_t wanting_count;
  struct uvs__runners runners;
  struct uvs__gate *gates;      /* of all lanes */
  struct uvs__cell shared_cell; /* statistics of runs without a runner */
  uint64_t unfiled;             /* accepted tasks that have no slot yet: see uvs_submit_many */
  uint64_t recent_ns;           /* a recent time: when a task became ready or a run ended */
  uvs_id_t ending;              /* the task whose actions are being called */
  uv_cond_t lingering;          /* idle runners wait on it for more tasks */
  bool any_drops; /* a task with `drop_result` was accepted: close looks for results */
  uint32_t names; /* the root of the index by name; UVS__NONE */
  struct uvs__name_stats name_stats;
  bool any_calendars;        /* a calendar task was accepted: look at the time zones */
  uint64_t zones_look_ns;    /* when to look next */
  uint64_t zones_generation; /* what uvs_calendar_refresh returned last */
  bool any_interrupts; /* a task with `interrupt` was accepted: a raised token looks for runs */
  int rejection;
  int survive[2];
  uint64_t shutdown_ns, shutdown_wall_ns; /* what "already due" means; UVS__NEVER until shut down */
  bool closing_cleanups; /* closing: other threads may attach no action to finished tasks */
  bool cleanups_shut;    /* no thread may attach an action to a finished task */
  struct uvs__sleeper *terminated_waiters;
  struct uvs__call trace_call;   /* calls the trigger of the recorder */
  uint64_t traces;               /* recorders that were opened */
  uvs_never_ran_cb never_ran_cb; /* NULL: none, or its last call was made */
  void *never_ran_arg;
};

/* ---- threads ---- */

/* Is this the loop's thread? relaxed: the answer is yes only if this thread itself stored its
 * number. */
static inline bool uvs__on_loop(const uvs_t *s) {
  return uvs__load(&s->loop_thread, relaxed) == uvs__self();
}

/* Every public function calls this before it locks: a forked child never locks. 0, UV_EINVAL,
 * UV_ENOTSUP, UV_ESHUTDOWN. */
static inline int uvs__enter(const uvs_t *s) {
  if (s == NULL)
    return UV_EINVAL;
  if (uvs__forked(&s->fork))
    return UV_ENOTSUP;
  if (uvs__load(&s->closed, acquire)) /* pairs with the release at the end of close */
    return UV_ESHUTDOWN;
  return 0;
}

/* ---- the lock ---- */

#ifdef UVS__CHECKS
void uvs__check(uvs_t *s); /* test/lib/check.c: aborts if something is wrong */
#else
#define uvs__check(s) ((void)0)
#endif

/* Waits for the lock: tries again UVS__LOOKS times, with pauses in between, and then sleeps. */
void uvs__lock_wait(uvs_t *s);

/* True: the thread had to wait, so a time that it read before is outdated. */
static inline bool uvs__lock(uvs_t *s) {
  if (uv_mutex_trylock(&s->lock) == 0)
    return false;
  uvs__lock_wait(s);
  return true;
}

static inline void uvs__unlock(uvs_t *s) {
  uvs__check(s);
  uv_mutex_unlock(&s->lock);
}

/* ---- small things ---- */

static inline uint64_t uvs__now(const uvs_t *s) {
  return uvs__clock_now(&s->clock);
}

/* Releases the lock for a moment, to let other threads in and to read the clock (user code). */
static inline uint64_t uvs__let_others_in(uvs_t *s) {
  uint64_t now_ns;

  uvs__unlock(s);
  now_ns = uvs__now(s);
  uvs__lock(s);
  return now_ns;
}

static inline struct uvs__task *uvs__task(const uvs_t *s, uint32_t slot) {
  return uvs__task_at(&s->table, slot);
}

static inline uvs_id_t uvs__id_of(const uvs_t *s, const struct uvs__task *t, uint32_t slot) {
  return s->table.id_base | uvs__local_id(t, slot);
}

static inline struct uvs__extra *uvs__extra(const uvs_t *s, const struct uvs__task *t) {
  return uvs__extra_of(&s->table, t);
}

/* The crew that runs a task. */
static inline struct uvs__crew *uvs__crew_of(uvs_t *s, const struct uvs__extra *x) {
  return x != NULL && x->gate != NULL ? x->gate->crew : &s->home;
}

/* The ready tasks, of a crew or of the loop, that a READY task belongs to. */
static inline struct uvs__ready *uvs__ready_of(uvs_t *s, const struct uvs__task *t) {
  return uvs__has(t, UVS__ON_LOOP) ? &s->loop_ready : &uvs__crew_of(s, uvs__extra(s, t))->ready;
}

/* Does the loop wait by the uv_timer, which counts in whole ms? */
static inline bool uvs__waits_by_ms(const uvs_t *s) {
  return !uvs__clock_replaced(&s->clock) && s->ticker.slack_ns == 0;
}

/* Appends a task that is in no list to `l`; removes a task from `l`. */
static inline void uvs__list_append(uvs_t *s, struct uvs__list *l, uint32_t slot,
                                    enum uvs__place place) {
  struct uvs__link *k = uvs__link_at(&s->table, slot);

  UVS_ASSERT(uvs__task(s, slot)->place == UVS__NOWHERE);
  *k = (struct uvs__link){l->last, UVS__NONE};
  if (l->last == UVS__NONE)
    l->first = slot;
  else
    uvs__link_at(&s->table, l->last)->b = slot;
  l->last = slot;
  uvs__task(s, slot)->place = (uint8_t)place & 7u;
}

static inline void uvs__list_remove(uvs_t *s, struct uvs__list *l, uint32_t slot) {
  struct uvs__link *k = uvs__link_at(&s->table, slot);

  if (k->a == UVS__NONE)
    l->first = k->b;
  else
    uvs__link_at(&s->table, k->a)->b = k->b;
  if (k->b == UVS__NONE)
    l->last = k->a;
  else
    uvs__link_at(&s->table, k->b)->a = k->a;
  *k = (struct uvs__link){UVS__NONE, UVS__NONE};
  uvs__task(s, slot)->place = UVS__NOWHERE;
}

#endif
