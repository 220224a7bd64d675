/* SPDX-License-Identifier: MIT
 *
 * callbacks: `after`, `done`, hooks and clean-up actions, on the loop, without the lock.
 *
 * All tasks that are owed a callback are on one list. The callbacks that a task is owed depend on
 * its state when the loop serves it:
 *
 *   WAITING   the hooks before its next run: decorate, error, missed; and results to drop. For a
 *             calendar task the loop also computes the next occurrence here.
 *   RUNNING   `interrupt`, if the body still runs; `after`, if the body has returned
 *   ENDED     its last callbacks; then it is over
 */
#include "loop/loop.h"

#include "uvsched/calendar.h"

#include "core/trace.h"

/* ---- hooks of a task that goes on ---- */

/* Lock held, except during the hooks. Calls the hooks that a task is owed between two runs, and
 * drops its discarded results. If the task has ended, the decorate hook is not called. */
static void call_task_hooks(uvs_t *s, uint32_t slot, struct uvs__task *t, struct uvs__extra *x) {
  uvs_id_t id = uvs__id_of(s, t, slot);
  void *arg = t->arg;
  bool decorate = x->decorate && t->state == UVS__WAITING;
  uvs_decoration_t decoration = x->decoration;
  int failed = x->failed_owed;
  uint64_t missed = x->missed_owed;
  int reason = x->missed_reason;
  void (*drop_result)(void *) = x->drop_result;
  void *dropped[2] = {x->dropped[0], x->dropped[1]};

  if (failed != 0)
    x->seen = failed;
  x->decorate = false;
  x->failed_owed = 0;
  x->missed_owed = 0;
  x->dropped[0] = x->dropped[1] = NULL;
  uvs__unlock(s);
  if (decorate)
    s->decorate_cb(s, id, &decoration);
  if (failed != 0)
    s->error_cb(s, id, failed, arg);
  if (missed != 0)
    s->missed_cb(s, id, missed, reason, arg);
  for (int i = 0; i < 2; i++) {
    if (dropped[i] != NULL)
      drop_result(dropped[i]);
  }
  uvs__lock(s);
  if (!decorate)
    return;
  if (decoration.work == NULL)
    decoration.work = t->fn; /* the hook gave no body: the task keeps its own */
  x->decoration = decoration;
}

/* ---- a run in progress ---- */

/* Lock held, except during `interrupt`. If the body returns meanwhile, its run ends after the call:
 * otherwise a wait could return, and its thread could free `arg`, while `interrupt` uses it. */
static void interrupt(uvs_t *s, uint32_t slot, const struct uvs__task *t, struct uvs__extra *x) {
  struct uvs__run_end end = {.status = UVS_PENDING}; /* no run ends with that status */
  uvs_id_t id = uvs__id_of(s, t, slot);
  uvs_interrupt_cb cb = x->interrupt;
  uvs_t *seen = x->narrow ? NULL : s;
  void *arg = t->arg;

  x->end_later = &end;
  uvs__unlock(s);
  cb(seen, id, arg);
  uvs__lock(s);
  x->end_later = NULL;
  if (end.status != UVS_PENDING)
    uvs__end_run(s, slot, &end);
}

/* Lock held, except during `after`. The task is on no list. */
static void run_after(uvs_t *s, uint32_t slot, uint64_t now_ns) {
  struct uvs__task *t = uvs__task(s, slot);
  struct uvs__extra *x = uvs__extra(s, t);
  struct uvs__frame frame = {s, slot, uvs__thread.frame, UVS_ON_LOOP};
  struct uvs__run_end e = {t->status, (uint64_t)x->run.end_ns, 0, 0};
  bool counts = t->status >= 0 && !x->timed_out;
  bool wall = uvs__has(t, UVS__WALL);
  uvs_after_cb after = x->after;
  struct uvs__context context = {.scheduler = s,
                                 .token = &t->token,
                                 .extra = x,
                                 .gate = x->gate,
                                 .limit_due_ns = UVS__NEVER,
                                 .kept = uvs__has(t, UVS__KEPT)};
  uvs_run_t run = {.scheduler = x->narrow ? NULL : s,
                   .id = uvs__id_of(s, t, slot),
                   .arg = t->arg,
                   .runner = x->run.runner,
                   .status = t->status == UVS_STOP ? 0 : t->status,
                   .ideal_ns = x->run.ideal_ns,
                   .start_ns = x->run.start_ns,
                   .end_ns = x->run.end_ns,
                   .number = x->runs,
                   .missed = x->run.missed,
                   .state = &context};
  int rc;

  for (int i = 0; i < UVS_LATE_CAUSES; i++) {
    run.late_by_ns[i] = x->late_by_ns[i];
    run.late_ns += x->late_by_ns[i];
  }
  run.culprit = uvs__culprit(run.late_by_ns);
  x->seen = run.status;
  x->after_owed = false;
  x->after_ns = now_ns;
  if (uvs__is_traced(s))
    uvs__trace_put_call(s, slot, UVS__TRACE_AFTER, now_ns);
  uvs__unlock(s);
  uvs__thread.frame = &frame;
  rc = uvs__status_of(after(&run));
  uvs__thread.frame = frame.outer;
  if (counts && rc != 0)
    e.status = rc;
  e.over_ns = uvs__now(s);
  e.wall_ns = wall ? uvs__clock_wall(&s->clock) : 0;
  uvs__lock(s);
  if (uvs__is_traced(s))
    uvs__trace_put_call_end(s, e.over_ns);
  if (counts && rc == UV_ECANCELED)
    uvs__answer_cancelled(s, slot, e.over_ns);
  uvs__end_run(s, slot, &e);
}

/* ---- clean-up actions ---- */

/* Lock held, except during the action. The caller has taken the action off one of its lists. */
static void call_action(uvs_t *s, struct uvs__cleanup *a) {
  uvs_cleanup_cb cb = a->cb;
  void *arg = a->arg;
  bool spent = --a->lists == 0;

  a->cb = NULL; /* the other list, if any, does not call it again */
  uvs__unlock(s);
  if (spent)
    uvs__mem_free(&s->mem, a);
  if (cb != NULL)
    cb(s, arg);
  uvs__lock(s);
}

/* Lock held, except during the actions. */
static void call_list(uvs_t *s, struct uvs__cleanup **first) {
  while (*first != NULL) {
    struct uvs__cleanup *a = *first;

    *first = a->next;
    call_action(s, a);
  }
}

void uvs__call_cleanups(uvs_t *s, struct uvs__cleanup **first) {
  uvs__lock(s);
  call_list(s, first);
  uvs__unlock(s);
}

/* Lock held, except during the actions: calls the clean-up actions of a task that has ended. */
static void call_task_cleanups(uvs_t *s, struct uvs__task *t, uvs_id_t id) {
  if (!uvs__has(t, UVS__CLEANUPS))
    return;
  s->ending = id;
  call_list(s, &uvs__extra(s, t)->first_cleanup);
  t->flags &= (uint16_t)~UVS__CLEANUPS;
}

/* ---- the end of a task ---- */

/* Lock held, except during the callbacks. The task is ENDED, and on no list. */
static void call_back_end(uvs_t *s, uint32_t slot, uint64_t now_ns) {
  struct uvs__task *t = uvs__task(s, slot);
  struct uvs__extra *x = uvs__extra(s, t);
  uvs_id_t id = uvs__id_of(s, t, slot);
  void *arg = t->arg;
  bool never_ran = uvs__has(t, UVS__NEVER_RAN) && s->never_ran_cb != NULL;
  bool error = uvs__owes_error(s, t, x);
  int status = uvs__outcome_of(t, x);
  uvs_done_cb done = t->done;
  uvs_decoration_t decoration = x != NULL ? x->decoration : (uvs_decoration_t){NULL, NULL, NULL};
  bool narrow = x != NULL && x->narrow;
  struct uvs_calendar_s *calendar = x != NULL && t->kind == UVS_CALENDAR ? x->calendar : NULL;
  void (*drop_result)(void *) = NULL;
  void *forgotten = NULL;

  if (uvs__is_traced(s) && done != NULL)
    uvs__trace_put_call(s, slot, UVS__TRACE_DONE, now_ns);
  if (never_ran) {
    uvs__unlock(s);
    s->never_ran_cb(s, id, arg, s->never_ran_arg);
    uvs__lock(s);
  }
  if (x != NULL && (x->failed_owed != 0 || x->missed_owed != 0 || x->dropped[0] != NULL))
    call_task_hooks(s, slot, t, x); /* still owed when the task ended */
  if (error) {
    uvs__unlock(s);
    s->error_cb(s, id, status, arg);
    uvs__lock(s);
  }
  call_task_cleanups(s, t, id);
  uvs__unlock(s);
  if (done != NULL)
    done(narrow ? NULL : s, id, status, arg);
  if (decoration.release != NULL)
    decoration.release(decoration.arg);
  uvs_calendar_release(calendar);
  uvs__lock(s);
  call_task_cleanups(s, t, id); /* `done` may have added some */
  if (x != NULL && x->forgotten) {
    drop_result = x->drop_result;
    forgotten = uvs__take_unclaimed(x); /* a callback called uvs_forget */
  }
  uvs__retire(s, slot, t);
  if (forgotten == NULL)
    return;
  uvs__unlock(s);
  drop_result(forgotten);
  uvs__lock(s);
}

/* Lock held, except during callbacks: serves the first task of the list. */
static void serve_first(uvs_t *s, uint64_t now_ns) {
  uint32_t slot = s->at.owed.first;
  struct uvs__task *t = uvs__task(s, slot);
  struct uvs__extra *x = uvs__extra(s, t);

  /* The task stays on the list, so it cannot be freed while the lock is not held. */
  if (t->state == UVS__WAITING && x->point_owed)
    uvs__find_occurrence(s, slot);
  if (t->state == UVS__WAITING)
    call_task_hooks(s, slot, t, x);
  else if (t->state == UVS__RUNNING && !uvs__body_is_over(t))
    interrupt(s, slot, t, x);
  uvs__list_remove(s, &s->at.owed, slot);
  switch ((enum uvs__state)t->state) {
  case UVS__WAITING:
    uvs__file(s, slot, now_ns);
    break;
  case UVS__RUNNING:
    if (x->after_owed) /* else the body still runs */
      run_after(s, slot, now_ns);
    break;
  default:
    UVS_ASSERT(t->state == UVS__ENDED);
    call_back_end(s, slot, now_ns);
  }
}

void uvs__make_callbacks(uvs_t *s, uint64_t until_ns) {
  uint32_t last = s->at.owed.last; /* tasks that these callbacks add wait for the next pass */
  bool over = s->at.owed.first == UVS__NONE;
  uint64_t now_ns = over ? 0 : uvs__let_others_in(s);

  s->at.behind = false;
  while (!over) {
    over = s->at.owed.first == last;
    serve_first(s, now_ns);
    now_ns = uvs__let_others_in(s);
    if (uvs__is_traced(s))
      uvs__trace_put_call_end(s, now_ns);
    if (!over && now_ns >= until_ns)
      over = s->at.behind = true;
  }
}

/* ---- everything else ---- */

/* Actions and calls that are added meanwhile wait for the next pass. */
void uvs__make_calls(uvs_t *s, uint64_t until_ns) {
  const struct uvs__cleanup *last = s->at.now_last;
  struct uvs__call **last_call;

  for (bool over = false; s->at.now_first != NULL && !over;) {
    struct uvs__cleanup *a = s->at.now_first;

    s->at.now_first = a->next_now;
    over = a == last;
    call_action(s, a);
    over |= uvs__let_others_in(s) >= until_ns;
  }
  last_call = s->at.last_call;
  for (bool over = false; s->at.calls != NULL && !over;) {
    struct uvs__call *c = s->at.calls;

    s->at.calls = c->next;
    if (s->at.calls == NULL)
      s->at.last_call = &s->at.calls;
    c->listed = false;
    over = last_call == &c->next;
    uvs__unlock(s);
    c->call(s, c);
    uvs__lock(s);
    over |= uvs__let_others_in(s) >= until_ns;
  }
}
