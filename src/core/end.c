/* SPDX-License-Identifier: MIT
 *
 * end: a run ends, and perhaps the task with it.
 *
 * The outcome of a task is decided once (settled): by its last run, by a cancel, by its time limit,
 * or by the rejection policy. A task is quiet when it is settled and no run is in progress. Then
 * the loop makes the callbacks that are owed, and the task is over.
 */
#include "core/trace.h"

/* ---- owed to the loop ---- */

void uvs__owe_cleanup(uvs_t *s, struct uvs__cleanup *a) {
  a->lists++;
  a->next_now = NULL;
  if (s->at.now_first == NULL)
    s->at.now_first = a;
  else
    s->at.now_last->next_now = a;
  s->at.now_last = a;
}

void uvs__owe_settled_cleanups(uvs_t *s, struct uvs__cleanup *first) {
  for (struct uvs__cleanup *a = first; a != NULL; a = a->next) {
    if (a->when_settled && a->cb != NULL && a->lists == 1) /* else it is owed already */
      uvs__owe_cleanup(s, a);
  }
}

/* Puts the task on the owed list. What the loop does there depends on the task's state by then. */
static void owe(uvs_t *s, uint32_t slot, const struct uvs__task *t) {
  if (t->place != UVS__IN_OWED)
    uvs__list_append(s, &s->at.owed, slot, UVS__IN_OWED);
}

void uvs__owe_interrupt(uvs_t *s, uint32_t slot) {
  const struct uvs__task *t = uvs__task(s, slot);
  struct uvs__extra *x = uvs__extra(s, t);

  if (x == NULL || x->interrupt == NULL || x->interrupted || uvs__body_is_over(t))
    return;
  x->interrupted = true;
  owe(s, slot, t);
}

/* ---- settled, ended, over ---- */

/* The task leaves the count of its present state. */
static void uncount(uvs_t *s, const struct uvs__task *t) {
  if (t->state == UVS__WAITING)
    s->counts.waiting--;
  else if (t->state == UVS__READY)
    s->counts.ready--;
  else
    s->counts.running--;
}

/* The outcome is decided. */
static void settle(uvs_t *s, uint32_t slot, struct uvs__task *t, struct uvs__extra *x,
                   enum uvs__outcome outcome) {
  uncount(s, t);
  s->counts.ended[outcome]++;
  if (uvs__is_traced(s))
    uvs__trace_put_ended(s, slot, outcome);
  if (outcome == UVS__WAS_CANCELLED || outcome == UVS__DROPPED)
    t->flags |= UVS__CANCELLED;
  if (x == NULL || t->state != UVS__RUNNING)
    return;
  if (outcome == UVS__PASSED_LIMIT && !uvs__body_is_over(t))
    t->flags |= UVS__TIMED_OUT;
}

void uvs__settle_running(uvs_t *s, uint32_t slot, enum uvs__outcome outcome) {
  struct uvs__task *t = uvs__task(s, slot);
  struct uvs__extra *x = uvs__extra(s, t);

  UVS_ASSERT(t->state == UVS__RUNNING && !uvs__is_settled(t));
  settle(s, slot, t, x, outcome);
  if (x == NULL)
    return;
  uvs__waiters_settled(s, t, x);
  uvs__owe_settled_cleanups(s, x->first_cleanup);
}

/* The task failed, it has no `done`, and neither `after` nor the error hook saw the failure. */
static bool is_unseen_failure(const struct uvs__task *t, const struct uvs__extra *x) {
  return !uvs__has(t, UVS__CANCELLED | UVS__TIMED_OUT) && t->done == NULL && t->status < 0 &&
         (x == NULL || x->seen == 0);
}

bool uvs__owes_error(const uvs_t *s, const struct uvs__task *t, const struct uvs__extra *x) {
  return s->error_cb != NULL && is_unseen_failure(t, x);
}

/* Must a callback be made at the end of the task? */
static bool is_heard(const uvs_t *s, const struct uvs__task *t, const struct uvs__extra *x) {
  if (t->done != NULL || t->kind == UVS_CALENDAR || uvs__has(t, UVS__CLEANUPS) ||
      uvs__owes_error(s, t, x) || (uvs__has(t, UVS__NEVER_RAN) && s->never_ran_cb != NULL))
    return true;
  return x != NULL && (x->failed_owed != 0 || x->missed_owed != 0 || x->dropped[0] != NULL ||
                       x->decoration.release != NULL);
}

/* Leaves this result for the loop to drop, unless it is the task's present result. */
static void discard(struct uvs__extra *x, void *result) {
  if (result == x->result || result == x->dropped[0] || !uvs__is_droppable(x, result))
    return;
  UVS_ASSERT(x->dropped[1] == NULL);
  x->dropped[x->dropped[0] != NULL] = result;
}

/* The task is ENDED, and all waiters have its outcome. Discards its result if no later wait can get
 * it. */
static void discard_last(const struct uvs__task *t, struct uvs__extra *x) {
  bool is_outcome = uvs__outcome_of(t, x) == 0 && !uvs__has(t, UVS__TIMED_OUT);
  void *result = x->result;

  if (is_outcome && (!x->forgotten || x->outcome_taken))
    return;
  x->result = NULL;
  discard(x, result);
}

void *uvs__take_unclaimed(struct uvs__extra *x) {
  void *result = x->result;

  if (x->outcome_taken || !uvs__is_droppable(x, result))
    return NULL;
  x->result = NULL;
  return result;
}

/* A replaced task has ended its run. The task that was held because of it may run now. */
static void release_successor(uvs_t *s, uint32_t ended, const char *name) {
  uint32_t slot = uvs__name_find(s, name);
  const struct uvs__task *t;
  struct uvs__extra *x;

  if (slot == UVS__NONE)
    return;
  t = uvs__task(s, slot);
  x = uvs__extra(s, t);
  if (!x->held || x->held_by != ended)
    return;
  x->held = false;
  if (t->state != UVS__WAITING || t->place != UVS__NOWHERE)
    return;
  uvs__file(s, slot, s->recent_ns);
  s->delay.soonest_ns = 0; /* makes the loop look, also if the task is due by the wall clock */
}

/* The task is settled, no run is in progress and none will start. It is in no list, except perhaps
 * in `owed`. */
static void end(uvs_t *s, uint32_t slot, struct uvs__task *t, int status) {
  struct uvs__extra *x = uvs__extra(s, t);

  if (x != NULL && x->limited)
    uvs__limit_end(s, t, x);
  uvs__set_state(t, UVS__ENDED);
  t->status = status;
  if (x != NULL) {
    uvs__waiters_settled(s, t, x);
    uvs__waiters_quiet(s, t, x);
    discard_last(t, x);
    if (x->gate != NULL)
      uvs__gate_part(s, x->gate, slot);
    if (x->indexed)
      uvs__name_remove(s, slot);
    else if (x->replaced)
      release_successor(s, slot, x->name);
  }
  if (t->place == UVS__IN_OWED || is_heard(s, t, x))
    owe(s, slot, t);
  else
    uvs__retire(s, slot, t);
}

void uvs__retire(uvs_t *s, uint32_t slot, struct uvs__task *t) {
  struct uvs__extra *x = uvs__extra(s, t);
  struct uvs__gate *gate = x == NULL ? NULL : x->gate;

  UVS_ASSERT(t->state == UVS__ENDED);
  UVS_ASSERT(t->place == UVS__NOWHERE);
  UVS_ASSERT(!uvs__has(t, UVS__CLEANUPS));
  s->live--;
  s->live_refs -= uvs__has(t, UVS__REF);
  if (gate != NULL)
    x->gate = NULL;
  if (uvs__has(t, UVS__KEPT) && !x->forgotten)
    t->flags |= UVS__TOLD;
  else
    uvs__free_told(s, slot, t);
  if (gate != NULL)
    uvs__gate_left(gate, 1);
}

void uvs__free_told(uvs_t *s, uint32_t slot, struct uvs__task *t) {
  uvs__set_state(t, UVS__FREE);
  uvs__table_give(&s->table, slot);
}

/* A silent task ends, and its slot is free at once. */
static inline void end_silently(uvs_t *s, uint32_t slot, struct uvs__task *t,
                                enum uvs__outcome outcome) {
  uncount(s, t);
  s->counts.ended[outcome]++;
  s->live--;
  s->live_refs -= uvs__has(t, UVS__REF);
  uvs__set_state(t, UVS__ENDED);
  uvs__free_told(s, slot, t);
}

/* ---- before a run ---- */

void uvs__end_unstarted(uvs_t *s, uint32_t slot, enum uvs__outcome outcome, unsigned flags) {
  struct uvs__task *t = uvs__task(s, slot);

  if (t->state == UVS__WAITING)
    uvs__unfile(s, slot, t);
  else
    uvs__unready(s, slot, t, false);
  if (uvs__is_silent(t) && flags == 0 && t->place == UVS__NOWHERE) {
    if (uvs__is_traced(s))
      uvs__trace_put_ended(s, slot, outcome);
    end_silently(s, slot, t, outcome);
    return;
  }
  settle(s, slot, t, uvs__extra(s, t), outcome);
  t->flags |= (uint16_t)flags;
  end(s, slot, t, UV_ECANCELED);
}

void uvs__end_refused(uvs_t *s, uint32_t slot) {
  bool never_ran =
      uvs__load(&s->stop, relaxed) && !uvs__has(uvs__task(s, slot), UVS__RAN); /* under the lock */

  uvs__end_unstarted(s, slot, UVS__WAS_CANCELLED, never_ran ? UVS__NEVER_RAN : 0);
}

void *uvs__complete_unstarted(uvs_t *s, uint32_t slot, int status, void *result) {
  struct uvs__task *t = uvs__task(s, slot);
  struct uvs__extra *x = uvs__extra(s, t);
  void *replaced = NULL;

  if (t->state == UVS__WAITING)
    uvs__unfile(s, slot, t);
  else
    uvs__unready(s, slot, t, false);
  if (result != NULL && result != x->result) {
    replaced = uvs__is_droppable(x, x->result) ? x->result : NULL;
    x->result = result;
  }
  settle(s, slot, t, x, status < 0 ? UVS__FAILED : UVS__COMPLETED);
  if (x != NULL) {
    x->seen = 0;
    x->failures = status < 0 ? x->failures + (x->failures < UINT32_MAX) : 0;
  }
  end(s, slot, t, status);
  return replaced;
}

void uvs__complete(uvs_t *s, uint32_t slot) {
  struct uvs__task *t = uvs__task(s, slot);
  struct uvs__extra *x = uvs__extra(s, t);

  settle(s, slot, t, x,
         x->timed_out         ? UVS__PASSED_LIMIT
         : x->run.failure < 0 ? UVS__FAILED
                              : UVS__COMPLETED);
  end(s, slot, t, x->run.failure);
}

void uvs__back_to_waiting(uvs_t *s, uint32_t slot) {
  struct uvs__task *t = uvs__task(s, slot);
  struct uvs__extra *x = uvs__extra(s, t);

  uncount(s, t);
  uvs__set_state(t, UVS__WAITING);
  s->counts.waiting++;
  t->flags &= (uint16_t)~UVS__RUN_FLAGS;
  if (x == NULL)
    return;
  x->step_ns = 0;
  if (x->limited)
    uvs__limit_end(s, t, x);
}

/* ---- a run ---- */

bool uvs__was_asked(const uvs_t *s, const struct uvs__task *t, uint64_t end_ns) {
  const struct uvs__extra *x = uvs__extra(s, t);

  /* relaxed, all: written under the lock, which is held here */
  return uvs__load(&t->token, relaxed) != 0 || uvs__load(&s->stop, relaxed) ||
         end_ns >= uvs__load(&s->kill_ns, relaxed) ||
         (x != NULL && x->gate != NULL && uvs__load(&x->gate->token, relaxed) &&
          !uvs__load(&x->spared, relaxed));
}

void uvs__answer_cancelled(uvs_t *s, uint32_t slot, uint64_t now_ns) {
  const struct uvs__task *t = uvs__task(s, slot);

  if (!uvs__is_settled(t) && uvs__was_asked(s, t, now_ns))
    uvs__settle_running(s, slot, UVS__WAS_CANCELLED);
}

void uvs__body_returned(uvs_t *s, uint32_t slot, const struct uvs__run_end *e) {
  struct uvs__task *t = uvs__task(s, slot);
  struct uvs__extra *x = uvs__extra(s, t);
  struct uvs__run_end end_of_run = *e;

  UVS_ASSERT(t->state == UVS__RUNNING);
  if (uvs__ends_silently(t, e->status)) {
    s->recent_ns = e->over_ns;
    end_silently(s, slot, t, UVS__COMPLETED);
    return;
  }
  t->flags |= UVS__PENDING | UVS__FINISHED; /* from here on the time limit has no effect */
  if (x != NULL) {
    x->run.end_ns = (int64_t)e->end_ns;
    if (uvs__has(t, UVS__TIMED_OUT) && e->end_ns < x->limit_due_ns)
      x->run.end_ns = (int64_t)x->limit_due_ns;
    if (uvs__limit_passed(x, e->end_ns)) {
      x->timed_out = true;
      end_of_run.status = x->limit_status;
    }
  }
  if (end_of_run.status == UV_ECANCELED && (x == NULL || !x->timed_out))
    uvs__answer_cancelled(s, slot, e->end_ns);
  if (x != NULL && x->after != NULL) {
    t->status = end_of_run.status;
    x->after_owed = true;
    owe(s, slot, t);
    return;
  }
  uvs__end_run(s, slot, &end_of_run);
}

/* Stores the run's result as the task's result, if the run counts. Discards all other results. */
static void keep_result(const struct uvs__task *t, struct uvs__extra *x, int status, bool last) {
  bool counts = !uvs__is_settled(t) && status >= 0;
  void *before = x->result;

  if (counts && !x->timed_out)
    x->result = x->run_result;
  else if (counts && last) /* limit_result counts only if no run follows */
    x->result = x->limit_result;
  discard(x, before);
  discard(x, x->run_result);
  x->run_result = x->result; /* the next run starts with this result, and may replace it */
}

/* Does another run follow? */
static bool goes_on(uvs_t *s, struct uvs__task *t, struct uvs__extra *x,
                    const struct uvs__run_end *e) {
  struct uvs__plan p;

  if (x == NULL || uvs__is_settled(t))
    return false;
  p = uvs__plan_next(t, x, s->seed, e);
  if (!p.goes_on)
    return false;
  if (t->kind == UVS_ONE_SHOT && e->status < 0 && !uvs__may_run(s, t, x))
    return false; /* a one-shot that may not run again after a shutdown keeps its failure (S42) */
  uvs__miss(s, x, p.missed, p.reason);
  if (e->status < 0 && s->error_cb != NULL && x->seen == 0)
    x->failed_owed = e->status;
  return true;
}

void uvs__end_run(uvs_t *s, uint32_t slot, const struct uvs__run_end *e) {
  struct uvs__task *t = uvs__task(s, slot);
  struct uvs__extra *x = uvs__extra(s, t);
  bool follows;

  if (x != NULL && x->end_later != NULL) {
    *x->end_later = *e; /* the loop ends the run when `interrupt` has returned */
    return;
  }
  s->recent_ns = e->over_ns;
  if (x != NULL && x->gate != NULL && x->gate->shut && !uvs__is_settled(t))
    uvs__settle_running(s, slot, UVS__WAS_CANCELLED); /* the lane was disposed during the run */
  follows = goes_on(s, t, x, e);
  if (uvs__has(t, UVS__TIMED_OUT))
    s->counts.failed_runs += x->limit_status < 0;
  else
    s->counts.failed_runs +=
        e->status < 0 && !(e->status == UV_ECANCELED && uvs__has(t, UVS__CANCELLED));
  if (x != NULL && uvs__has(t, UVS__KEPT))
    keep_result(t, x, e->status, !follows);
  if (x != NULL && x->gate != NULL)
    uvs__gate_run_ended(s, x->gate);
  if (follows) {
    uvs__back_to_waiting(s, slot);
    if (uvs__has(t, UVS__WALL)) /* there may be no runner whose return would wake the loop */
      uvs__note_wall(s, t, e->over_ns, e->wall_ns);
    if (t->place == UVS__NOWHERE) /* else it is on the owed list, and the loop files it */
      uvs__file(s, slot, e->over_ns);
    return;
  }
  if (!uvs__is_settled(t))
    settle(s, slot, t, x,
           x != NULL && x->timed_out ? UVS__PASSED_LIMIT
           : e->status < 0           ? UVS__FAILED
                                     : UVS__COMPLETED);
  t->flags &= (uint16_t)~UVS__RUN_FLAGS;
  end(s, slot, t, e->status == UVS_STOP ? 0 : e->status);
}

/* RUNNING: the run ends before its body was called. */
static void end_unbegun(uvs_t *s, uint32_t slot, uint64_t now_ns) {
  struct uvs__task *t = uvs__task(s, slot);
  struct uvs__extra *x = uvs__extra(s, t);
  struct uvs__run_end e = {x->limit_status, now_ns, now_ns, 0};

  if (uvs__has(t, UVS__WALL)) /* the wall clock now, computed from when the task became READY */
    e.wall_ns = t->due_ns + x->wall_late_ns + (now_ns - t->ready_ns);
  t->flags |= UVS__PENDING | UVS__FINISHED;
  uvs__use_point(t, x);
  x->run = (struct uvs__record){.ideal_ns = (int64_t)uvs__ideal_of(t, x)};
  x->seen = 0;
  x->timed_out = true;
  uvs__end_run(s, slot, &e);
}

void uvs__time_out_started(uvs_t *s, uint32_t slot, uint64_t now_ns) {
  struct uvs__task *t = uvs__task(s, slot);
  struct uvs__extra *x = uvs__extra(s, t);

  s->counts.runs--; /* a run whose body was not called does not count */
  x->runs--;
  if (x->runs == 0)
    t->flags &= (uint16_t)~UVS__RAN;
  x->missed_next = x->run.missed; /* the next run reports them */
  if (uvs__has(t, UVS__TIMED_OUT) && x->after != NULL && t->done == NULL && s->error_cb != NULL &&
      x->limit_status < 0)
    x->failed_owed = x->limit_status; /* `after`, which would have seen it, is not called */
  end_unbegun(s, slot, now_ns);
}

void uvs__begin_refused(uvs_t *s, uint32_t slot) {
  struct uvs__task *t = uvs__task(s, slot);
  struct uvs__extra *x = uvs__extra(s, t);

  uvs__unready(s, slot, t, true); /* the gate counts the run until it ends */
  uvs__set_state(t, UVS__RUNNING);
  s->counts.ready--;
  s->counts.running++;
  if (x == NULL)
    return;
  uvs__use_point(t, x);
  x->run = (struct uvs__record){.ideal_ns = (int64_t)uvs__ideal_of(t, x)};
  x->seen = 0;
  x->timed_out = false;
}

void uvs__time_out_unstarted(uvs_t *s, uint32_t slot, uint64_t now_ns) {
  struct uvs__task *t = uvs__task(s, slot);

  uvs__unready(s, slot, t, true); /* the gate counts the run until end_unbegun ends the run */
  uvs__set_state(t, UVS__RUNNING);
  s->counts.ready--;
  s->counts.running++;
  end_unbegun(s, slot, now_ns);
}

/* ---- a limit has passed ---- */

/* Must the error hook be called now? The task is settled, but its body goes on, perhaps for ever.
 * If the task has neither `after` nor `done`, nothing else reports the time-out. */
static bool is_told_now(const uvs_t *s, const struct uvs__task *t, const struct uvs__extra *x) {
  return s->error_cb != NULL && x->limit_status < 0 && t->done == NULL && x->after == NULL;
}

/* The time limit of a run has passed. True: the error hook must be called. */
static bool pass(uvs_t *s, uint32_t slot, uint64_t now_ns) {
  struct uvs__task *t = uvs__task(s, slot);
  struct uvs__extra *x = uvs__extra(s, t);

  if (t->state == UVS__READY) {
    uvs__time_out_unstarted(s, slot, now_ns);
    return false;
  }
  UVS_ASSERT(t->state == UVS__RUNNING);
  if (uvs__body_is_over(t))
    return false;
  uvs__store(&t->token, UVS__TOKEN, release); /* pairs with the acquire in uvs_cancelled */
  uvs__owe_interrupt(s, slot);
  if (!x->limit_final || uvs__is_settled(t))
    return false;
  uvs__settle_running(s, slot, UVS__PASSED_LIMIT);
  return is_told_now(s, t, x);
}

uint32_t uvs__limits_expire(uvs_t *s, uint64_t now_ns, bool *ret_more) {
  *ret_more = false;
  for (int steps = UVS__BATCH; steps > 0; steps--) {
    const struct uvs__heap_entry *e = uvs__heap_head(&s->table.limits);
    const struct uvs__extra *x;

    if (e == NULL || e->deadline_ns > now_ns)
      return UVS__NONE;
    x = uvs__slots_at(&s->table.extras, uvs__heap_slot(e));
    uvs__heap_remove(&s->table.limits, uvs__heap_slot(e));
    *ret_more = true;
    if (pass(s, x->slot, now_ns))
      return x->slot;
  }
  return UVS__NONE;
}
