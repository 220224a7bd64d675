/* SPDX-License-Identifier: MIT
 *
 * callbacks: `after`, `done`, hooks and clean-up actions, on the loop, without the lock.
 *
 * All tasks that are owed a callback are on one list. The state that a task has when the loop
 * serves it says which callbacks it is owed:
 *
 *   WAITING   the hooks before its next run: decorate, error, missed; and results to drop
 *   RUNNING   `after`: the body has returned
 *   ENDED     its last callbacks; then it is over
 */
#include "loop/loop.h"

/* ---- hooks of a task that goes on ---- */

/* What the hooks must be told now. */
struct told {
  uvs_id_t id;
  void *arg;
  bool decorate;
  uvs_decoration_t decoration;
  int failed;
  uint64_t missed;
  int missed_reason;
  void (*drop_result)(void *);
  void *dropped[2];
};

/* Lock held: takes what is owed out of the extra record. */
static struct told take_told(const struct uvs__task *t, struct uvs__extra *x, uint32_t slot) {
  struct told h = {.id = uvs__id_of(t, slot),
                   .arg = t->arg,
                   .decorate = x->decorate,
                   .decoration = x->decoration,
                   .failed = x->failed_owed,
                   .missed = x->missed_owed,
                   .missed_reason = x->missed_reason,
                   .drop_result = x->drop_result,
                   .dropped = {x->dropped[0], x->dropped[1]}};

  if (h.failed != 0)
    x->run.seen = h.failed;
  x->decorate = false;
  x->failed_owed = 0;
  x->missed_owed = 0;
  x->dropped[0] = x->dropped[1] = NULL;
  return h;
}

static void tell(uvs_t *s, struct told *h) {
  if (h->decorate)
    s->decorate_cb(s, h->id, &h->decoration);
  if (h->failed != 0)
    s->error_cb(s, h->id, h->failed, h->arg);
  if (h->missed != 0)
    s->missed_cb(s, h->id, h->missed, h->missed_reason, h->arg);
  for (int i = 0; i < 2; i++) {
    if (h->dropped[i] != NULL)
      h->drop_result(h->dropped[i]);
  }
}

/* Lock held, except during the hooks. The task stays on the list meanwhile: whatever the hooks do
 * with it, it is not freed. */
static void tell_waiting(uvs_t *s, uint32_t slot) {
  struct uvs__task *t = uvs__task(s, slot);
  struct uvs__extra *x = uvs__extra(s, t);
  struct told h = take_told(t, x, slot);

  uvs__unlock(s);
  tell(s, &h);
  uvs__lock(s);
  if (h.decorate) {
    if (h.decoration.work == NULL)
      h.decoration.work = t->fn; /* the hook gave no body: the task keeps its own */
    x->decoration = h.decoration;
  }
}

/* ---- after ---- */

/* Lock held: what `after` sees. */
static struct uvs__started prepare_after(uvs_t *s, struct uvs__task *t, struct uvs__extra *x,
                                         uint32_t slot, uint64_t now_ns) {
  struct uvs__started st = {
      .run = {.scheduler = x->narrow ? NULL : s,
              .id = uvs__id_of(t, slot),
              .arg = t->arg,
              .runner = x->run.runner,
              .status = t->status == UVS_STOP ? 0 : t->status,
              .ideal_ns = x->run.ideal_ns,
              .start_ns = x->run.start_ns,
              .end_ns = x->run.end_ns,
              .number = x->runs,
              .missed = x->run.missed},
      .context = {.scheduler = s,
                  .token = &t->token,
                  .extra = x,
                  .gate = x->gate,
                  .limit_due_ns = UVS__NEVER,
                  .kept = uvs__has(t, UVS__KEPT)},
  };

  for (int i = 0; i < UVS_LATE_CAUSES; i++) {
    st.run.late_by_ns[i] = x->late_by_ns[i];
    st.run.late_ns += x->late_by_ns[i];
  }
  st.run.culprit = uvs__culprit(st.run.late_by_ns);
  x->run.seen = st.run.status;
  x->after_ns = now_ns;
  return st;
}

/* Lock held, except during `after`. The task is on no list. */
static void run_after(uvs_t *s, uint32_t slot, uint64_t now_ns) {
  struct uvs__task *t = uvs__task(s, slot);
  struct uvs__extra *x = uvs__extra(s, t);
  struct uvs__started st = prepare_after(s, t, x, slot, now_ns);
  struct uvs__frame frame = {s, slot, uvs__thread.frame};
  struct uvs__run_end e = {t->status, (uint64_t)x->run.end_ns, 0, 0};
  uvs_after_cb after = x->after;
  bool counts = t->status >= 0 && !x->run.timed_out;
  bool wall = uvs__has(t, UVS__WALL);
  int rc;

  uvs__unlock(s);
  st.run.state = &st.context;
  uvs__thread.frame = &frame;
  rc = uvs__status_of(after(&st.run));
  uvs__thread.frame = frame.outer;
  if (counts && rc != 0)
    e.status = rc;
  e.over_ns = uvs__now(s);
  e.wall_ns = wall ? uvs__clock_wall(&s->clock) : 0;
  uvs__lock(s);
  if (counts && rc == UV_ECANCELED)
    uvs__answer_cancelled(s, slot, e.over_ns);
  uvs__end_run(s, slot, &e);
}

/* ---- clean-up actions ---- */

/* An action that was taken off a list: what to call, and what to free. */
struct call {
  uvs_cleanup_cb cb; /* NULL: nothing */
  void *arg;
  struct uvs__cleanup *spent; /* to be freed: it is on no list any more; NULL */
};

/* Lock held: the action was taken off one list. */
static struct call take_action(struct uvs__cleanup *a) {
  struct call c = {a->cb, a->arg, NULL};

  a->cb = NULL;
  if (--a->lists == 0)
    c.spent = a;
  return c;
}

static void make(uvs_t *s, const struct call *c) {
  uvs__mem_free(&s->mem, c->spent);
  if (c->cb != NULL)
    c->cb(s, c->arg);
}

void uvs__call_cleanups(uvs_t *s, struct uvs__cleanup **first) {
  uvs__lock(s);
  while (*first != NULL) {
    struct uvs__cleanup *a = *first;
    struct call c;

    *first = a->next;
    c = take_action(a);
    uvs__unlock(s);
    make(s, &c);
    uvs__lock(s);
  }
  uvs__unlock(s);
}

/* Lock held, except during the actions: calls all actions of a task that has ended. */
static void call_task_cleanups(uvs_t *s, struct uvs__task *t, uint32_t slot) {
  struct uvs__extra *x = uvs__extra(s, t);

  while (uvs__has(t, UVS__CLEANUPS)) {
    struct uvs__cleanup *a = x->first_cleanup;
    struct call c;

    s->ending = uvs__id_of(t, slot);
    x->first_cleanup = a->next;
    if (a->next == NULL)
      t->flags &= (uint16_t)~UVS__CLEANUPS;
    c = take_action(a);
    uvs__unlock(s);
    make(s, &c);
    uvs__lock(s);
  }
}

/* ---- the end of a task ---- */

/* Lock held, except during the callbacks. The task is ENDED, and on no list. */
static void call_back_end(uvs_t *s, uint32_t slot) {
  struct uvs__task *t = uvs__task(s, slot);
  struct uvs__extra *x = uvs__extra(s, t);
  struct told h = {.id = uvs__id_of(t, slot), .arg = t->arg};
  bool never_ran = uvs__has(t, UVS__NEVER_RAN) && s->never_ran_cb != NULL;
  bool error = uvs__owes_error(s, t, x);
  int status = uvs__outcome_of(t, x);
  uvs_done_cb done = t->done;
  uvs_decoration_t decoration = {NULL, NULL, NULL};
  bool narrow = x != NULL && x->narrow;
  void *forgotten = NULL;

  if (x != NULL) {
    h = take_told(t, x, slot);
    h.decorate = false;
    decoration = x->decoration;
  }
  uvs__unlock(s);
  if (never_ran)
    s->never_ran_cb(s, h.id, h.arg, s->never_ran_arg);
  tell(s, &h); /* the hooks that were still owed when the task ended */
  if (error)
    s->error_cb(s, h.id, status, h.arg);
  uvs__lock(s);
  call_task_cleanups(s, t, slot);
  uvs__unlock(s);
  if (done != NULL)
    done(narrow ? NULL : s, h.id, status, h.arg);
  if (decoration.over != NULL)
    decoration.over(decoration.arg);
  uvs__lock(s);
  call_task_cleanups(s, t, slot); /* `done` may have added some */
  if (x != NULL && x->forgotten)
    forgotten = uvs__take_unclaimed(x); /* uvs_forget came during the callbacks */
  uvs__retire(s, slot, t);
  if (forgotten == NULL)
    return;
  uvs__unlock(s);
  h.drop_result(forgotten);
  uvs__lock(s);
}

/* Lock held, except during callbacks: serves the first task of the list. */
static void serve_first(uvs_t *s, uint64_t now_ns) {
  uint32_t slot = s->at.owed.first;
  struct uvs__task *t = uvs__task(s, slot);

  if (t->state == UVS__WAITING)
    tell_waiting(s, slot);
  uvs__list_remove(s, &s->at.owed, slot);
  switch ((enum uvs__state)t->state) {
  case UVS__WAITING:
    uvs__file(s, slot, now_ns);
    break;
  case UVS__RUNNING:
    run_after(s, slot, now_ns);
    break;
  default:
    UVS_ASSERT(t->state == UVS__ENDED);
    call_back_end(s, slot);
  }
}

bool uvs__make_callbacks(uvs_t *s, uint64_t until_ns) {
  uint64_t now_ns = uvs__now(s);
  bool over = false;
  uint32_t last;
  bool left;

  uvs__lock(s);
  last = s->at.owed.last; /* tasks that these callbacks add wait for the next pass */
  while (s->at.owed.first != UVS__NONE && !over) {
    over = s->at.owed.first == last;
    serve_first(s, now_ns);
    uvs__unlock(s);
    now_ns = uvs__now(s);
    uvs__lock(s);
    if (!over && now_ns >= until_ns) {
      s->at.behind = true;
      uvs__unlock(s);
      return true;
    }
  }
  s->at.behind = false;
  left = s->at.owed.first != UVS__NONE;
  uvs__unlock(s);
  return left;
}

/* ---- everything else ---- */

static bool call_actions_now(uvs_t *s, uint64_t until_ns) {
  struct uvs__cleanup *last;
  bool over = false;
  bool left;

  uvs__lock(s);
  last = s->at.now_last; /* actions that these add wait for the next pass */
  while (s->at.now_first != NULL && !over) {
    struct uvs__cleanup *a = s->at.now_first;
    struct call c;

    over = a == last;
    s->at.now_first = a->next_now;
    c = take_action(a);
    uvs__unlock(s);
    make(s, &c);
    over |= uvs__now(s) >= until_ns;
    uvs__lock(s);
  }
  left = s->at.now_first != NULL;
  uvs__unlock(s);
  return left;
}

bool uvs__make_calls(uvs_t *s, uint64_t until_ns) {
  bool left = call_actions_now(s, until_ns);
  struct uvs__call **last;
  bool over = false;

  uvs__lock(s);
  last = s->at.last_call;
  while (s->at.calls != NULL && !over) {
    struct uvs__call *c = s->at.calls;

    over = last == &c->next;
    s->at.calls = c->next;
    if (s->at.calls == NULL)
      s->at.last_call = &s->at.calls;
    c->listed = false;
    uvs__unlock(s);
    c->call(s, c);
    over |= uvs__now(s) >= until_ns;
    uvs__lock(s);
  }
  left |= s->at.calls != NULL;
  uvs__unlock(s);
  return left;
}
