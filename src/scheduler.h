/* SPDX-License-Identifier: MIT
 *
 * scheduler: what the rooms of the front door share.
 *
 *   scheduler.c  open, close, and what keeps the loop alive
 *   tick.c       the main flow: a turn of the loop
 *   dispatch.c   runners are sent out, and come home
 *   ending.c     the end of a task, on the loop
 *   run.c        one run from start to end, on a runner, on the loop, or finished by somebody else
 *   plan.c       does another run follow, and when
 *   news.c       what the hooks are told of a task that goes on
 *   limit.c      runs that take too long
 *   submit.c     in
 *   reject.c     no room: refused, dropped, somebody else dropped, or run by the submitter
 *   control.c    cancel, reschedule, finish, ref
 *   outcome.c    wait, forget, all of them, any of them
 *   shutdown.c   the ways to an end
 *   lane.c       tasks that keep their order, and end together
 *   cleanup.c    actions for the end of a task or a lane
 *   queues.c     the delay queues of values: the loop's part (queue.c: everybody's)
 *   report.c     what can be asked
 *   metrics.c    the statistics: read, and written out
 */
#ifndef UVS__SCHEDULER_H
#define UVS__SCHEDULER_H

#include "uvsched.h"

#include "agenda.h"
#include "cleanup.h"
#include "clock.h"
#include "fork.h"
#include "inbox.h"
#include "lane.h"
#include "pool.h"
#include "queue.h"
#include "recur.h"
#include "stats.h"
#include "thread.h"
#include "ticker.h"
#include "wallwatch.h"

/* A loop-only list through the slots' `next`; its members have INBOX set. */
struct uvs__chain {
  uint32_t head, tail;
};

/* What the loop counts by itself, of plain tasks that it takes in and cancels: without the pool's
 * lock, and without a locked instruction. It writes, anybody reads. */
struct uvs__own {
  /* Odd: one is just being cancelled, and its word and its count are not yet one. All are stored
   * with release and loaded with acquire: who sees a change sees that `turn` was odd. */
  _Atomic uint64_t turn;
  _Atomic uint64_t load; /* as the pool's, to be added to it; below zero now and then */
  _Atomic uint64_t cancelled;
};

struct uvs_s {
  /* Any thread. */
  struct uvs__inbox inbox;
  char apart[64]; /* everybody writes the inbox, and reads the rest */
  struct uvs__agenda agenda;
  struct uvs__pool pool;
  struct uvs__ticker ticker;
  struct uvs__queues queues;
  struct uvs__lanes lanes;
  struct uvs__cleanups cleanups;
  _Atomic(struct uvs__runner *) homing; /* runners that other executors bring back, by `next` */
  struct uvs__fork fork;
  _Atomic uint32_t refs;
  _Atomic uintptr_t loop_thread; /* 0 until the first turn */
  _Atomic int loop_tid;
  _Atomic uint32_t
      policy; /* counts changes of shutdown and survive policies, for the loop to notice */
  _Atomic int survive[2];
  _Atomic int rejection;
  _Atomic uint64_t shutdown_ns, shutdown_wall_ns; /* UVS__NEVER until shut down */
  _Atomic uint64_t kill_ns; /* when the grace of uvs_shutdown_within is over */
  /* No task that the loop knows keeps it alive: whoever brings one wakes it, however far off that
   * is. The loop writes it, and looks at the inbox after that. */
  _Atomic bool unkept;
  _Atomic bool stop; /* uvs_shutdown_now: bodies are asked to stop, none starts */
  _Atomic bool now_called;
  _Atomic bool terminated;
  _Atomic bool closed;
  uv_cond_t terminated_cond; /* with the pool's lock */

  /* Constant. */
  uv_loop_t *loop;
  uintptr_t opener;
  int opener_tid;
  uvs_clock_t clock;
  uvs_allocator_t mem;
  int keep_alive;
  uint32_t max_pending;
  uint64_t budget_ns;
  uint64_t seed;
  uvs_error_cb error_cb;
  uvs_terminated_cb terminated_cb;
  uvs_decorate_cb decorate_cb;
  uvs_missed_cb missed_cb;
  uvs_before_body_cb before_cb;
  uvs_after_body_cb after_cb;
  uvs_rejected_cb rejected_cb;
  void *data;

  /* Written by whoever sets now_called, before `stop`; read by the loop after it. */
  uvs_never_ran_cb never_ran_cb;
  void *never_ran_arg;

  /* Loop thread. */
  struct uvs__wallwatch watch;
  struct uvs__chain intake; /* taken from the inbox, not yet looked at */
  struct uvs__chain todo;   /* callbacks to make */
  uint64_t taken;           /* tasks that the loop knows and that are not over */
  uint64_t taken_ref;       /* those of them that keep it alive */
  uint64_t turn_ns;         /* this turn began */
  uint64_t overrun_ns;      /* a body made the one before longer than its budget by so much */
  uint64_t carried_ns;      /* the first of several turns that could not hand over all; 0: none */
  bool wall_known;          /* wall_offset_ns is true of the last turn */
  int64_t wall_offset_ns;   /* wall clock minus monotonic */
  uint32_t policy_seen;
  bool stop_seen;
  bool behind; /* the last turn had no time for all callbacks */
  bool in_tick;
  bool taking_in;
  bool owed; /* a turn is on its way, and the loop must not end before it: callbacks, a shutdown */
  bool due_left; /* the last full turn had no time for all that was due on the loop */
  bool in_each;
  bool brought; /* this turn brought completions */
  bool closing;
  bool closed_in_child;
  int closers; /* handles of which the end is awaited */
  uvs_close_cb close_cb;

  _Atomic uint64_t wakeups; /* turns; the loop thread writes, anybody reads */
  struct uvs__own own;

  /* Statistics of runs that are on no runner; anybody reads. */
  struct uvs__cell loop_cell;   /* the loop thread writes */
  struct uvs__cell shared_cell; /* whoever has the pool's lock writes: runs that others finish */
};

/* ---- threads and entry ---- */

/* Is this the loop's thread, so that the agenda is ours? relaxed: only that thread itself can find
 * its own number. */
static inline bool uvs__on_loop(const uvs_t *s) {
  return uvs__load(&s->loop_thread, relaxed) == uvs__self();
}

/* Of the slabs. */
static inline uintptr_t uvs__stripe(const uvs_t *s) {
  return uvs__on_loop(s) ? UVS__STRIPE_LOOP : uvs__self();
}

/* The door of every public function: 0, UV_EINVAL, UV_ENOTSUP, UV_ESHUTDOWN. */
static inline int uvs__enter(const uvs_t *s) {
  if (s == NULL)
    return UV_EINVAL;
  if (uvs__forked(&s->fork))
    return UV_ENOTSUP;
  if (uvs__load(&s->closed, acquire)) /* pairs with the release at the end of close */
    return UV_ESHUTDOWN;
  return 0;
}
/* The same for those of the loop thread; also UV_EPERM. If that thread has ended, ours takes its
 * place. */
int uvs__enter_loop(uvs_t *s);
/* Is this the loop's thread, or until the first turn the one that opened? */
bool uvs__owns_loop(const uvs_t *s);
/* This thread is the loop's now. */
void uvs__own_loop(uvs_t *s);
/* On the loop thread: did somebody close our handles? Then nothing more is accepted. */
void uvs__notice_loss(uvs_t *s);

/* Tasks accepted and not settled, packed as the pool's load. seq_cst, all: see cancel_unstarted in
 * control.c. The shares last, since they only grow: one that is settled while we add up is still
 * counted, and who settles it asks after us. */
static inline uint64_t uvs__live(const uvs_t *s) {
  uint64_t load = uvs__load(&s->pool.load, seq_cst) + uvs__load(&s->own.load, seq_cst);

  return load + uvs__pool_shares(&s->pool);
}

/* Does one of them keep the loop alive? A moment below zero is: none. */
static inline bool uvs__any_ref(const uvs_t *s) {
  return (int64_t)uvs__live(s) >= (int64_t)UVS__LOAD_REF;
}

/* No more cancelled tasks than these are ever on their way with nobody to tell the loop: every
 * 1024th wakes it. */
#define UVS__UNHEARD_MOST 4096

/* Loop thread: are all that keep it alive cancelled by others, who did not wake it for that? They
 * are in the inbox then; or about to be, and then who brings them asks after us. */
static inline bool uvs__others_unheard(const uvs_t *s) {
  return s->taken_ref > 0 && s->taken_ref <= UVS__UNHEARD_MOST && !uvs__any_ref(s);
}

static inline uint64_t uvs__now(const uvs_t *s) {
  return uvs__clock_now(&s->clock);
}

static inline struct uvs__slot *uvs__slot(const uvs_t *s, uint32_t slot) {
  return uvs__agenda_slot(&s->agenda, slot);
}

static inline uvs_id_t uvs__id(uint64_t w, uint32_t slot) {
  return uvs__word_generation(w) << UVS__SLOT_BITS | slot;
}

/* Does what waits wait for the uv_timer, which counts in whole ms? */
static inline bool uvs__waits_by_ms(const uvs_t *s) {
  return !uvs__clock_replaced(&s->clock) && s->ticker.slack_ns == 0;
}

/* The slot of an id and its word; NULL if stale. */
struct uvs__slot *uvs__find(const uvs_t *s, uvs_id_t id, uint64_t *ret_w);

/* ---- scheduler.c ---- */
/* Can we read or write a caller's struct of `size` bytes, of which we know `ours`? 0 or UV_EINVAL.
 */
int uvs__check_size(const void *given, size_t size, size_t ours, size_t least);
void uvs__update_keep(uvs_t *s);
void uvs__wake(void *s); /* the loop should look; any thread */
/* Loop thread: a turn, and soon; the loop stays for it. */
void uvs__owe_turn(uvs_t *s);
void uvs__close_handles(uvs_t *s);

/* ---- tick.c (loop thread) ---- */
void uvs__tick(uvs_t *s);
/* A turn that only takes in and hands over: it runs nothing of the user's, and may come at any
 * place of the loop's pass. If there is more to do, it sees to a full one. `timer`: because
 * something is due; else because a runner came home. */
void uvs__tick_light(uvs_t *s, bool timer);
/* Take in everything that has come; calls nothing back. */
void uvs__take_in(uvs_t *s);
/* A slot that is accepted on the loop thread itself: number and insert it. */
void uvs__take_in_new(uvs_t *s, uint32_t slot);
/* Outside a turn, something is due at deadline_ns: see to it that the loop wakes for it. */
void uvs__expect(uvs_t *s, uint64_t w, uint64_t deadline_ns, uint64_t now_ns);
/* The policies let it run no more. */
void uvs__end_refused(uvs_t *s, uint32_t slot);
/* It waits: into the queue, unless the policies are against it. */
void uvs__wait_for_due(uvs_t *s, uint32_t slot, uint64_t w);
/* Any thread, after something that may have let a task of the loop's start: wake it. */
void uvs__tell_of_due(uvs_t *s);
/* Outside a turn, when something was taken away: stop the timer if nothing waits, let the loop go.
 */
void uvs__relax(uvs_t *s);
/* When the next thing is to do, by the monotonic clock; UVS__NEVER. */
uint64_t uvs__next_due(uvs_t *s, uint64_t now_ns, bool exact);
uint64_t uvs__wall_to_monotonic(uvs_t *s, uint64_t wall_deadline_ns, uint64_t now_ns);

/* ---- ending.c (loop thread) ---- */
void uvs__chain_append(const uvs_t *s, struct uvs__chain *c, uint32_t slot);
uint32_t uvs__chain_pop(const uvs_t *s, struct uvs__chain *c);
/* Move 6, by the loop. False if it is not waiting or ready any more, or not the task `id` (0:
 * whichever is there). */
bool uvs__end_on_loop(uvs_t *s, uint32_t slot, uvs_id_t id, uint64_t flags);
/* The same, dropped by the rejection policy. */
bool uvs__drop_on_loop(uvs_t *s, uvs_id_t id);
/* It waits, but its next run would be after its end time. */
void uvs__complete_waiting(uvs_t *s, uint32_t slot);
/* Out of whichever queue or list it is in, by its word. */
void uvs__unlink_ended(uvs_t *s, uint32_t slot, uint64_t w);
/* It is ENDED|INBOX and on no list: `done`, or nothing to say and gone. */
void uvs__conclude(uvs_t *s, uint32_t slot, uint64_t w);
/* It was on the to-do list: its last callbacks, and gone. */
void uvs__call_back_end(uvs_t *s, uint32_t slot, uint64_t w);
/* Moves 9 and 10: `done` has returned. False: there are clean-ups to be called first. */
bool uvs__retire(uvs_t *s, uint32_t slot);

/* ---- dispatch.c (loop thread) ---- */
/* Send out as many runners as there is work for. May call back, and run bodies (inline). True if
 * something is left to do at once. */
bool uvs__call_out_runners(uvs_t *s, uint64_t until_ns);
/* The same, of the scheduler's own, which are in libuv's pool; calls nothing back. True if others
 * are wanted. */
bool uvs__call_out_own(uvs_t *s);
/* Runners that other executors brought back. */
void uvs__take_home(uvs_t *s);

/* ---- run.c ---- */
/* What a runner does: task after task, until there is none or its time is over. */
void uvs__run_tasks(struct uvs__runner *r);
/* Loop thread: due tasks of its own, at least one, until the time is over. True if some are left.
 */
bool uvs__run_due(uvs_t *s, uint64_t until_ns);
/* `after` of a run that came back. */
void uvs__run_after(uvs_t *s, uint32_t slot);
/* A task that its submitter has made RUNNING, on this thread, its run's end included. False if the
 * loop does not hear of it: it was a light one, or it is pending. Any thread. */
bool uvs__run_here(uvs_t *s, uint32_t slot);
/* The rest of uvs_finish: the run of w ended with the status that w holds. Any thread. */
void uvs__run_finished(uvs_t *s, uint32_t slot, uint64_t w);
/* Loop thread: it was made RUNNING, but its executor has refused. */
void uvs__run_refused(uvs_t *s, uint32_t slot, int status, uint64_t now_ns);
/* Loop thread: it was withdrawn from its list, since its limit has passed before it started. */
void uvs__run_unstarted(uvs_t *s, uint32_t slot, uint64_t now_ns);

/* ---- plan.c (whom the task's fields belong to) ---- */
/* Does another run follow the one that ended with `status` at end_ns, and was over (`after`
 * included) at over_ns? Then the fields say when. */
bool uvs__plan_next(uvs_t *s, uint32_t slot, int status, uint64_t end_ns, uint64_t over_ns);
struct uvs__recur uvs__recur_of(const struct uvs__slot *t, const struct uvs__cold *c, uint64_t w);
/* So many points of the grid have no run of their own, because of `reason`. */
void uvs__miss(uvs_t *s, struct uvs__cold *c, uint64_t count, int reason);
uint64_t uvs__jitter(const uvs_t *s, uvs_id_t id, uint64_t run, uint64_t jitter_ns);

/* ---- news.c ---- */
/* Is a hook to be told something about a task that goes on? */
bool uvs__has_news(const uvs_t *s, const struct uvs__cold *c);
/* Loop thread: onto the to-do list, since it has some; and off it: was it there for that? */
void uvs__list_news(uvs_t *s, uint32_t slot);
bool uvs__unlist_news(struct uvs__cold *c);
/* Loop thread; calls back. */
void uvs__tell(uvs_t *s, uint32_t slot, uint64_t w);

/* ---- limit.c ---- */
/* Has the run in progress passed its limit, by now_ns? For whom it belongs to. */
bool uvs__limit_passed(const struct uvs__cold *c, uint64_t now_ns);
/* Loop thread: it has just become READY, and the lock is held; the run is over. */
void uvs__limit_begin_locked(uvs_t *s, uint32_t slot, struct uvs__cold *c, uint64_t w);
void uvs__limit_end(uvs_t *s, uint32_t slot);
/* What has passed, until the time is over. True if something may be left. */
bool uvs__limits_expire(uvs_t *s, uint64_t now_ns, uint64_t until_ns);

/* ---- submit.c ---- */
/* The caller's struct of `size` bytes as ours. UV_EINVAL: a size that we cannot read. */
int uvs__read_spec(const void *given, size_t size, uvs_task_t *ret);
int uvs__check_spec(const uvs_task_t *t);
/* As uvs_submit_many, of specs that were checked, `refs` of them ref'd; `keep` may also be
 * ...PINNED: kept, and with a pin from the start. `given`: as the caller has them. */
#define UVS__KEEP_PINNED 2
int uvs__submit_specs(uvs_t *s, const uvs_task_t *given, const uvs_task_t *specs, size_t n,
                      uint64_t refs, uvs_id_t *ret_ids);
/* As uvs_submit, of a task that comes in by its lane. */
int uvs__submit_to_lane(uvs_t *s, uvs_lane_t lane, const uvs_task_t *t, uvs_id_t *ret_id);
/* Push a chain of accepted tasks, and wake the loop if it must know by due_ns. */
void uvs__send_in(uvs_t *s, uint32_t first, uint32_t last, uint64_t due_ns);

/* ---- reject.c ---- */
/* On which terms a submission comes in. */
enum uvs__terms {
  UVS__TERMS_ROOM,   /* there is room for it */
  UVS__TERMS_DROP,   /* it ends at once, without a run */
  UVS__TERMS_PUSH,   /* for each of its tasks the oldest has to go */
  UVS__TERMS_HERE,   /* its tasks run on this thread, inside the call */
  UVS__TERMS_REFUSED /* it does not */
};
bool uvs__rejection_known(int rejection, uvs_rejected_cb handler);
/* A submission found no room (code UV_EAGAIN) or came too late (UV_ESHUTDOWN): what now? May call
 * the handler. */
enum uvs__terms uvs__terms_without_room(uvs_t *s, const uvs_task_t *given, size_t n, int code);
/* Would running it now, here, be a run as any other? */
bool uvs__fits_here(const uvs_t *s, const uvs_task_t *t, uint64_t due_ns, uint64_t now_ns);
/* This thread is about to run tasks that it submits: false if we are shut down. */
bool uvs__caller_enters(uvs_t *s);
/* Runs them, oldest first, linked by `next`; then the thread is no caller any more. */
void uvs__caller_runs(uvs_t *s, uint32_t oldest);
/* The rest: loop thread. */
/* Shut down: does a thread still run tasks that it submitted? If none does, none will. */
bool uvs__callers_inside(uvs_t *s);
/* Count tasks that were started by their submitters among those that we know. */
void uvs__learn_of_here(uvs_t *s);
/* The word of a newcomer was w: if there is no room for it, drop the oldest task that is not
 * running. False if that was the newcomer itself. */
bool uvs__make_room(uvs_t *s, uint32_t newcomer, uint64_t w);

/* ---- outcome.c ---- */
/* May this thread wait for this scheduler? 0 or UVS_EDEADLK. */
int uvs__may_wait(uvs_t *s);
/* Wait for cond until until_ns by uv_hrtime. With the pool's lock. 0 or UV_ETIMEDOUT, never early.
 */
int uvs__wait_locked(uvs_t *s, uv_cond_t *cond, uint64_t until_ns);
/* The same with any lock. */
int uvs__wait_on(uv_cond_t *cond, uv_mutex_t *lock, uint64_t until_ns);

/* ---- shutdown.c ---- */
/* False if it was done before. */
bool uvs__stop_now(uvs_t *s, uvs_never_ran_cb each, void *arg);
/* May this task, waiting or ready, still run? Loop thread, or who is about to let it wait. */
bool uvs__may_run(uvs_t *s, struct uvs__slot *t, uint64_t w);
/* The loop noticed a change of policy, or the stop. */
void uvs__apply_policies(uvs_t *s);

#endif
