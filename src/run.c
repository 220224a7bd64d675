/* SPDX-License-Identifier: MIT
 *
 * run: one run of a task from start to end, on a runner, on the loop, or finished by somebody else.
 *
 * A run ends with one CAS of the word, after all fields are written: the next point of the grid, if
 * another run follows. A body that returned UVS_PENDING is ended by whoever sets the second of
 * PENDING and FINISHED. With `after`, the run is not over before that has returned on the loop: the
 * task travels there still RUNNING.
 */
#include "scheduler.h"

#define MS UINT64_C(1000000)

/* What is left to do when the body has returned. */
enum rest {
  REST_END,   /* end the run */
  REST_SKIP,  /* it was left out: on to the next point */
  REST_AFTER, /* take it to the loop for `after` */
  REST_NONE   /* it is pending, and somebody else's */
};

static uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

uint64_t uvs__jitter(const uvs_t *s, uvs_id_t id, uint64_t run, uint64_t jitter_ns) {
  return jitter_ns == 0 ? 0 : mix(mix(s->seed + id) + run) % (jitter_ns + 1);
}

struct uvs__recur uvs__recur_of(const struct uvs__slot *t, const struct uvs__cold *c, uint64_t w) {
  return (struct uvs__recur){
      .kind = uvs__word_kind(w),
      .policy = c == NULL ? UVS_MISSED_CATCH_UP : c->policy,
      .max_burst = c == NULL ? 0 : c->max_burst,
      .period_ns = uvs__load(&t->period_ns, relaxed), /* constant */
  };
}

void uvs__count_missed(uvs_t *s, struct uvs__cold *c, uint64_t missed) {
  if (missed == 0)
    return;
  uvs__add(&c->missed_total, missed, relaxed); /* a count */
  uv_mutex_lock(&s->pool.lock);
  s->pool.missed += missed;
  uv_mutex_unlock(&s->pool.lock);
}

/* RUNNING gives us the fields. */
static void begin(uvs_t *s, uint32_t slot, int runner, uint64_t start_ns, uvs_run_t *run) {
  struct uvs__slot *t = uvs__slot(s, slot);
  struct uvs__cold *c = uvs__agenda_cold(&s->agenda, t);
  /* relaxed, all: ours since READY -> RUNNING acquired them */
  uint64_t w = uvs__load(&t->word, relaxed);
  uint64_t due_ns = uvs__load(&t->deadline_ns, relaxed);
  uint32_t runs = uvs__load(&t->runs, relaxed);
  uint64_t ideal_ns = due_ns;
  uint64_t missed = 0;
  uint64_t at_ns;

  if ((w & UVS__WALL) == 0 && start_ns < due_ns)
    start_ns = uvs__now(s); /* it became due after the runner had read its clock */
  at_ns = (w & UVS__WALL) != 0 ? uvs__clock_wall(&s->clock) : start_ns;
  if (runs < UINT32_MAX)
    uvs__store(&t->runs, ++runs, relaxed);
  if (c != NULL) {
    struct uvs__recur r = uvs__recur_of(t, c, w);
    struct uvs__point p;

    ideal_ns = due_ns - uvs__load(&c->jitter_now_ns, relaxed);
    /* Points after the end time are not missed. */
    p = uvs__recur_start(&r, ideal_ns, start_ns < c->until_ns ? start_ns : c->until_ns);
    uvs__count_missed(s, c, p.missed);
    due_ns += p.ideal_ns - ideal_ns;
    ideal_ns = p.ideal_ns;
    missed = c->missed_next + p.missed;
    c->missed_next = 0;
  }
  *run = (uvs_run_t){
      .scheduler = s,
      .id = uvs__id(w, slot),
      .arg = c != NULL ? c->decoration.arg : uvs__load(&t->arg, relaxed),
      .runner = runner,
      .ideal_ns = (int64_t)ideal_ns,
      .start_ns = (int64_t)start_ns,
      .late_ns = at_ns <= due_ns ? 0 : (int64_t)(at_ns - due_ns),
      .number = runs,
      .missed = missed,
      .state = t,
  };
  if (c != NULL) {
    c->run = *run;
    c->run_result = c->result;
  }
}

/* The body returned UVS_PENDING. Returns the status if uvs_finish was faster, or UVS_PENDING. */
static int pend(struct uvs__slot *t) {
  uint64_t w = uvs__load(&t->word, relaxed); /* the CAS acquires */

  while (!uvs__word_try(t, &w, w | UVS__PENDING)) {
  }
  return (w & UVS__FINISHED) != 0 ? uvs__word_status(w) : UVS_PENDING;
}

/* SKIP, and a whole period has gone by while it waited for its turn: on to the next point, without
 * a run. *status: 0, or UVS_STOP if that point is after the end time. */
static bool leave_out(uvs_t *s, uint32_t slot, uint64_t now_ns, int *status) {
  struct uvs__slot *t = uvs__slot(s, slot);
  struct uvs__cold *c = uvs__agenda_cold(&s->agenda, t);
  struct uvs__recur r;
  struct uvs__point p;
  uint64_t jitter_ns;

  if (c == NULL || c->policy != UVS_MISSED_SKIP)
    return false;
  /* relaxed, all: ours while RUNNING */
  r = uvs__recur_of(t, c, uvs__load(&t->word, relaxed));
  jitter_ns = uvs__load(&c->jitter_now_ns, relaxed);
  p = uvs__recur_due(&r, uvs__load(&t->deadline_ns, relaxed) - jitter_ns, now_ns);
  if (p.missed == 0)
    return false;
  uvs__count_missed(s, c, p.missed);
  uv_mutex_lock(&s->pool.lock);
  s->pool.runs--; /* it was not one after all */
  uv_mutex_unlock(&s->pool.lock);
  c->missed_next += p.missed;
  uvs__store(&t->deadline_ns, uvs__steps_later(p.ideal_ns, 1, jitter_ns), relaxed);
  *status = p.ideal_ns > c->until_ns ? UVS_STOP : 0;
  return true;
}

/* Returns the rest; *status is set unless it is REST_NONE. */
static enum rest call_body(uvs_t *s, uint32_t slot, int runner, uint64_t *now_ns, int *status) {
  struct uvs__slot *t = uvs__slot(s, slot);
  struct uvs__cold *c = uvs__agenda_cold(&s->agenda, t);
  uint64_t w = uvs__load(&t->word, relaxed); /* for its constants */
  uvs_run_t run;

  if (leave_out(s, slot, *now_ns, status))
    return REST_SKIP;
  begin(s, slot, runner, *now_ns, &run);
  *status = t->fn(&run);
  *now_ns = uvs__now(s);
  if (*status == UVS_PENDING)
    *status = pend(t);
  if (*status == UVS_PENDING)
    return REST_NONE; /* not even a look at the task any more */
  *status = uvs__status_of(*status);
  if (c != NULL)
    c->run.end_ns = (int64_t)*now_ns;
  if ((w & UVS__HAS_AFTER) == 0)
    return REST_END;
  return REST_AFTER;
}

/* Does another run follow? Then the fields say when. RUNNING gives us the fields. */
static bool plan_next(uvs_t *s, uint32_t slot, int status, uint64_t end_ns) {
  struct uvs__slot *t = uvs__slot(s, slot);
  struct uvs__cold *c = uvs__agenda_cold(&s->agenda, t);
  /* relaxed, all: ours while RUNNING */
  uint64_t w = uvs__load(&t->word, relaxed);
  uint32_t runs = uvs__load(&t->runs, relaxed);
  struct uvs__recur r;
  struct uvs__point p;
  uint64_t jitter_ns;

  if (status != 0 || uvs__word_kind(w) == UVS_ONCE)
    return false;
  r = uvs__recur_of(t, c, w);
  if (c == NULL) {
    p = uvs__recur_next(&r, uvs__load(&t->deadline_ns, relaxed), 0, end_ns);
    uvs__store(&t->deadline_ns, p.ideal_ns, relaxed);
    return true;
  }
  if (c->max_runs != 0 && runs >= c->max_runs)
    return false;
  p = uvs__recur_next(&r, (uint64_t)c->run.ideal_ns, c->run.missed, end_ns);
  if (p.ideal_ns > c->until_ns)
    return false;
  uvs__count_missed(s, c, p.missed);
  c->missed_next = p.missed;
  jitter_ns = uvs__jitter(s, uvs__id(w, slot), runs, c->jitter_ns);
  if (jitter_ns > UVS__NEVER - p.ideal_ns)
    jitter_ns = UVS__NEVER - p.ideal_ns;
  uvs__store(&c->jitter_now_ns, jitter_ns, relaxed);
  uvs__store(&t->deadline_ns, p.ideal_ns + jitter_ns, relaxed);
  return true;
}

/* The run is over, and so perhaps the task: its result, and those who wait for it to be quiet. */
static void keep_result_locked(uvs_t *s, struct uvs__slot *t, uint64_t w, int status) {
  struct uvs__cold *c = uvs__agenda_cold(&s->agenda, t);

  if ((w & UVS__CANCELLED) == 0 && status >= 0)
    c->result = c->run_result;
  uv_cond_broadcast(&s->pool.settled);
}

/* Move 5, with the lock. `list`: INBOX if the slot is about to travel to the loop. Returns the new
 * word. *ret_ref: did it keep the loop alive to the last? */
static uint64_t end_locked(uvs_t *s, uint32_t slot, int status, bool goes_on, uint64_t list,
                           bool *ret_ref) {
  struct uvs__slot *t = uvs__slot(s, slot);
  uint64_t w = uvs__locked_load(&t->word, relaxed); /* the CAS acquires */
  uint64_t to;

  do {
    uint64_t rest = w & ~(UVS__RUN_BITS | UVS__INBOX);
    bool cancelled = (w & UVS__CANCELLED) != 0;

    if (goes_on && !cancelled)
      to = uvs__word_in(rest, UVS__WAITING) | list;
    else if ((w & UVS__LIGHT) != 0 && (w & UVS__PENDING) == 0 && (cancelled || status >= 0))
      to = (uint64_t)UVS__FREE | (uvs__word_generation(w) + 1) << UVS__GENERATION_SHIFT;
    else
      to = uvs__word_with_status(uvs__word_in(rest, UVS__ENDED), cancelled ? 0 : status) |
           UVS__INBOX;
  } while (!uvs__word_try_locked(t, &w, to));

  *ret_ref = (w & UVS__REF) != 0;
  if ((w & UVS__KEEP) != 0)
    keep_result_locked(s, t, w, status);
  if ((w & UVS__CANCELLED) != 0)
    return to; /* counted by the canceller */
  if (uvs__word_state(to) == UVS__WAITING)
    s->pool.running_count--;
  else
    uvs__pool_settle_locked(&s->pool, w, status < 0 ? UVS__FAILED : UVS__COMPLETED);
  return to;
}

static uint64_t end_run(uvs_t *s, uint32_t slot, int status, bool goes_on, uint64_t list,
                        bool *ret_ref) {
  uint64_t w;

  uv_mutex_lock(&s->pool.lock);
  w = end_locked(s, slot, status, goes_on, list, ret_ref);
  uv_mutex_unlock(&s->pool.lock);
  return w;
}

/* RUNNING -> RUNNING|INBOX with its status: on the way to `after`. */
static void mark_for_after(uvs_t *s, uint32_t slot, int status) {
  struct uvs__slot *t = uvs__slot(s, slot);
  uint64_t w = uvs__load(&t->word, relaxed); /* the CAS acquires */

  while (!uvs__word_try(t, &w, uvs__word_with_status(w, status) | UVS__INBOX)) {
  }
}

/* When must the loop hear of a completion? In 1 ms, or when the task is next due. */
static uint64_t hear_by(uvs_t *s, uint32_t slot, uint64_t w, uint64_t now_ns) {
  uint64_t next_ns =
      uvs__word_state(w) == UVS__WAITING && (w & UVS__WALL) == 0
          ? uvs__load(&uvs__slot(s, slot)->deadline_ns, relaxed) /* ours until the push */
          : UVS__NEVER;

  return next_ns < now_ns + MS ? next_ns : now_ns + MS;
}

/* ---- on the loop ---- */

/* The run is over: the task goes back to the queue, or to its end. */
static void end_on_loop(uvs_t *s, uint32_t slot, int status, bool goes_on) {
  bool ref;
  uint64_t w = end_run(s, slot, status, goes_on, 0, &ref);

  switch (uvs__word_state(w)) {
  case UVS__WAITING:
    uvs__wait_for_due(s, slot, w);
    break;
  case UVS__ENDED:
    uvs__conclude(s, slot, w);
    break;
  default: /* a light one */
    UVS_ASSERT(uvs__word_state(w) == UVS__FREE);
    uvs__agenda_give_slot(&s->agenda, uvs__stripe(), slot);
    s->taken--;
    s->taken_ref -= ref;
  }
}

static int call_after(uvs_t *s, uint32_t slot, int status) {
  struct uvs__slot *t = uvs__slot(s, slot);
  struct uvs__cold *c = uvs__agenda_cold(&s->agenda, t);
  uvs_run_t run = c->run;
  int rc;

  run.status = status == UVS_STOP ? 0 : status;
  run.arg = uvs__load(&t->arg, relaxed); /* constant */
  rc = uvs__status_of(c->after(&run));
  return status < 0 || rc == 0 ? status : rc;
}

void uvs__run_on_loop(uvs_t *s, uint32_t slot) {
  uint64_t now_ns = uvs__now(s);
  enum rest rest;
  int status;

  rest = call_body(s, slot, UVS_ON_LOOP, &now_ns, &status);
  if (rest == REST_NONE)
    return;
  if (rest == REST_AFTER) {
    mark_for_after(s, slot, status); /* as on a runner: from here on uvs_finish comes too late */
    status = call_after(s, slot, status);
  }
  end_on_loop(s, slot, status,
              rest == REST_SKIP ? status == 0 : plan_next(s, slot, status, now_ns));
}

void uvs__run_after(uvs_t *s, uint32_t slot) {
  struct uvs__slot *t = uvs__slot(s, slot);
  uint64_t w =
      uvs__load(&t->word, acquire); /* pairs with the word's release by who ended the body */
  uint64_t end_ns = (uint64_t)uvs__agenda_cold(&s->agenda, t)->run.end_ns;
  int status = call_after(s, slot, uvs__word_status(w));

  end_on_loop(s, slot, status, plan_next(s, slot, status, end_ns));
}

/* ---- on a runner ---- */

struct finished {
  uint32_t newest, oldest;
  uint64_t hear_by_ns;
};

static void add_finished(uvs_t *s, struct finished *f, uint32_t slot, uint64_t hear_by_ns) {
  uvs__store(&uvs__slot(s, slot)->next, f->newest, relaxed); /* the push releases it */
  if (f->newest == UVS__NONE)
    f->oldest = slot;
  if (f->newest == UVS__NONE || hear_by_ns < f->hear_by_ns)
    f->hear_by_ns = hear_by_ns;
  f->newest = slot;
}

static void bring(uvs_t *s, struct finished *f, uint64_t hear_by_ns) {
  if (f->newest == UVS__NONE)
    return;
  uvs__send_in(s, f->newest, f->oldest, false, hear_by_ns);
  f->newest = UVS__NONE;
}

static void retire_light(uvs_t *s, struct uvs__runner *r, uint32_t slot, bool ref) {
  uvs__agenda_give_slot(&s->agenda, uvs__stripe(), slot);
  r->retired++;
  r->retired_ref += ref;
}

/* With the lock: the next task for a runner that already counts as one of `active`. */
static uint32_t next_locked(uvs_t *s) {
  /* relaxed: a setting; stop: whoever sets it lets the loop end what is ready, under the same lock
   */
  if ((int)s->pool.active > uvs__locked_load(&s->pool.concurrency, relaxed) ||
      uvs__locked_load(&s->stop, relaxed))
    return UVS__NONE;
  return uvs__pool_start_locked(&s->pool, &s->pool.ready);
}

/* Runs one task, ends its run, and takes the next in the same critical section, so that somebody
 * who sees the end of the last one never finds this runner still counted as busy (S24b). */
static uint32_t run_one(uvs_t *s, struct uvs__runner *r, uint32_t slot, struct finished *f,
                        uint64_t leave_ns, uint64_t *now_ns) {
  bool ref = false;
  bool goes_on = false;
  uint64_t w = 0;
  enum rest rest;
  uint32_t next;
  int status;

  rest = call_body(s, slot, r->index, now_ns, &status);
  if (rest == REST_AFTER)
    mark_for_after(s, slot, status);
  if (rest == REST_END)
    goes_on = plan_next(s, slot, status, *now_ns);
  if (rest == REST_SKIP) {
    goes_on = status == 0;
    rest = REST_END;
  }

  uv_mutex_lock(&s->pool.lock);
  if (rest == REST_END)
    w = end_locked(s, slot, status, goes_on, UVS__INBOX, &ref);
  next = *now_ns >= leave_ns ? UVS__NONE : next_locked(s);
  if (next == UVS__NONE)
    s->pool.active--;
  uv_mutex_unlock(&s->pool.lock);

  if (rest == REST_AFTER)
    add_finished(s, f, slot, *now_ns + MS);
  else if (rest == REST_END && uvs__word_state(w) == UVS__FREE)
    retire_light(s, r, slot, ref);
  else if (rest == REST_END)
    add_finished(s, f, slot, hear_by(s, slot, w, *now_ns));
  return next;
}

void uvs__runner_work(uv_work_t *req) {
  struct uvs__runner *r = req->data;
  uvs_t *s = r->arg;
  struct finished f = {UVS__NONE, UVS__NONE, 0};
  uint64_t now_ns = uvs__now(s);
  uint64_t leave_ns = now_ns + s->budget_ns;
  uint32_t slot;

  uv_mutex_lock(&s->pool.lock);
  s->pool.seeking--;
  s->pool.active++;
  slot = next_locked(s);
  if (slot == UVS__NONE)
    s->pool.active--;
  else if (s->pool.active > s->pool.peak)
    s->pool.peak = s->pool.active;
  uv_mutex_unlock(&s->pool.lock);

  uvs__thread.running = s;
  while (slot != UVS__NONE) {
    bring(s, &f, f.hear_by_ns); /* a finished task never waits for another's body */
    slot = run_one(s, r, slot, &f, leave_ns, &now_ns);
  }
  uvs__thread.running = NULL;
  bring(s, &f, UVS__ASLEEP); /* no need to wake: the loop looks when we come home */
}

/* ---- by anybody ---- */

void uvs__run_finished(uvs_t *s, uint32_t slot, uint64_t w) {
  struct uvs__cold *c = uvs__agenda_cold(&s->agenda, uvs__slot(s, slot));
  uint64_t now_ns = uvs__now(s);
  bool ref;

  if (c != NULL)
    c->run.end_ns = (int64_t)now_ns;
  if ((w & UVS__HAS_AFTER) == 0) /* else it is marked for it */
    end_run(s, slot, uvs__word_status(w), plan_next(s, slot, uvs__word_status(w), now_ns),
            UVS__INBOX, &ref);
  uvs__send_in(s, slot, slot, false, 0);
}
