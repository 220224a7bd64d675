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

#include "late.h"

#include <sched.h>

#define MS UINT64_C(1000000)
#define TIMED_EVERY \
  31 /* to look at the clock once more takes as long as a short body; odd, since \
        bodies may come in turns */
#define NOT_TIMED UINT64_MAX
#define HEAVY_NS (MS / 10)
#define KEPT_NS (3 * MS)
#define SHY_NS (200 * MS)

/* What is left to do when the body has returned. */
enum rest {
  REST_END,   /* end the run */
  REST_SKIP,  /* it was left out: on to the next point */
  REST_AFTER, /* take it to the loop for `after` */
  REST_NONE   /* it is pending, and somebody else's */
};

/* Who runs it. */
struct seat {
  int runner;                  /* as in uvs_run_t */
  struct uvs__cell *cell;      /* whose one writer this thread is; NULL: it has none */
  uint64_t home_ns, called_ns; /* see struct uvs__crew */
  uint64_t *ret_body_ns;       /* the body alone is to be timed; or NULL */
};

/* ---- statistics ---- */

static void record_start(uvs_t *s, struct uvs__cell *cell, const uvs_run_t *run,
                         uint64_t queue_ns) {
  if (cell != NULL) {
    uvs__cell_start(cell, (uint64_t)run->late_ns, run->culprit, queue_ns);
    return;
  }
  uv_mutex_lock(&s->pool.lock);
  uvs__cell_start(&s->shared_cell, (uint64_t)run->late_ns, run->culprit, queue_ns);
  uv_mutex_unlock(&s->pool.lock);
}

static void record_end(uvs_t *s, struct uvs__cell *cell, uint64_t run_ns) {
  if (cell != NULL) {
    uvs__cell_end(cell, run_ns);
    return;
  }
  uv_mutex_lock(&s->pool.lock);
  uvs__cell_end(&s->shared_cell, run_ns);
  uv_mutex_unlock(&s->pool.lock);
}

/* ---- the start of a run ---- */

/* What is known of every run. RUNNING gives us the fields. */
static inline struct uvs__late how_started(const uvs_t *s, const struct seat *seat, uint64_t w,
                                           uint64_t due_ns, uint64_t start_ns) {
  struct uvs__late l = {
      .due_ns = (int64_t)due_ns,
      .start_ns = (int64_t)start_ns,
      .home_ns = (int64_t)seat->home_ns,
      .again_ns = (int64_t)seat->called_ns,
  };

  if ((w & UVS__ONLOOP) != 0) { /* then we are the loop */
    l.on_loop = true;
    l.home_ns = (int64_t)(s->turn_ns - s->overrun_ns);
    l.again_ns = (int64_t)s->turn_ns;
  }
  return l;
}

/* How did it come to be due at due_ns and start at start_ns? */
static struct uvs__late how_late(uvs_t *s, struct uvs__slot *t, const struct uvs__cold *c,
                                 const struct seat *seat, uint64_t w, uint64_t due_ns,
                                 uint64_t start_ns) {
  struct uvs__late l = how_started(s, seat, w, due_ns, start_ns);

  l.first = uvs__load(&t->runs, relaxed) == 0; /* ours since READY -> RUNNING acquired it */
  l.since_ns = (int64_t)c->since_ns;
  l.ended_ns = c->run.end_ns;
  l.after_ns = (int64_t)c->after_ns;
  l.turn_ns = (int64_t)c->turn_ns;
  l.ready_ns = (int64_t)c->ready_ns;
  if (uvs__is_wall(w)) {
    l.due_ns = l.ready_ns - (int64_t)c->wall_late_ns;
    l.step_ns = (int64_t)c->step_ns;
  }
  l.timed = uvs__waits_by_ms(s) && l.since_ns < l.due_ns;
  return l;
}

/* Which point of the grid does this run stand for? Others may be left out, or merged into it. */
static struct uvs__point choose_point(uvs_t *s, struct uvs__slot *t, struct uvs__cold *c,
                                      uint64_t w, const struct uvs__late *l) {
  struct uvs__recur r = uvs__recur_of(t, c, w);
  uint64_t start_ns = (uint64_t)l->start_ns;
  /* relaxed, both: ours while RUNNING */
  uint64_t ideal_ns = uvs__load(&t->deadline_ns, relaxed) - uvs__load(&c->jitter_now_ns, relaxed);
  int64_t by_ns[UVS_LATE_CAUSES];
  struct uvs__point p;

  if (uvs__retrying(c))
    return (struct uvs__point){ideal_ns, 0}; /* it is not on the grid */
  /* Points after the end time are not missed. */
  p = uvs__recur_start(&r, ideal_ns, start_ns < c->until_ns ? start_ns : c->until_ns);
  if (p.missed > 0)
    uvs__miss(s, c, p.missed, uvs__late_split(l, by_ns));
  return p;
}

/* A run without cold record: the first and only one. */
static void begin_plain(uvs_t *s, struct uvs__slot *t, const struct seat *seat, uint64_t w,
                        uvs_run_t *run) {
  /* relaxed, all: ours since READY -> RUNNING acquired them */
  uint64_t due_ns = uvs__load(&t->deadline_ns, relaxed);
  struct uvs__late l = how_started(s, seat, w, due_ns, (uint64_t)run->start_ns);

  l.ready_ns = (int64_t)uvs__load(&t->period_ns, relaxed);
  uvs__late_unpack(uvs__load(&t->next, relaxed), &l);
  run->scheduler = s;
  run->arg = uvs__load(&t->arg, relaxed);
  run->ideal_ns = (int64_t)due_ns;
  run->late_ns = l.start_ns <= l.due_ns ? 0 : l.start_ns - l.due_ns;
  run->number = 1;
  run->missed = 0;
  run->culprit = uvs__late_split(&l, run->late_by_ns);
  uvs__store(&t->runs, 1, relaxed);
  record_start(s, seat->cell, run, (uint64_t)(l.start_ns - l.ready_ns));
  /* If it becomes pending: see uvs__run_finished. */
  uvs__store(&t->period_ns, (uint64_t)run->start_ns, relaxed);
}

static void begin_cold(uvs_t *s, struct uvs__slot *t, struct uvs__cold *c, const struct seat *seat,
                       uint64_t w, uvs_run_t *run) {
  /* relaxed, all: ours since READY -> RUNNING acquired them */
  uint64_t due_ns = uvs__load(&t->deadline_ns, relaxed);
  uint32_t runs = uvs__load(&t->runs, relaxed);
  struct uvs__late l = how_late(s, t, c, seat, w, due_ns, (uint64_t)run->start_ns);
  struct uvs__point p = choose_point(s, t, c, w, &l);

  due_ns -= uvs__load(&c->jitter_now_ns, relaxed);
  l.due_ns += (int64_t)(p.ideal_ns - due_ns); /* points left out are not waited for */
  run->scheduler = c->narrow ? NULL : s;
  run->arg = s->decorate_cb != NULL ? c->decoration.arg : uvs__load(&t->arg, relaxed);
  run->missed = 0;
  if (!uvs__is_wall(w)) { /* which has no grid, and the room for something else */
    run->missed = c->missed_next + p.missed;
    c->missed_next = 0;
  }
  if (runs < UINT32_MAX)
    uvs__store(&t->runs, ++runs, relaxed);
  run->number = runs;
  run->ideal_ns = (int64_t)p.ideal_ns;
  run->late_ns = l.start_ns <= l.due_ns ? 0 : l.start_ns - l.due_ns;
  run->culprit = uvs__late_split(&l, run->late_by_ns);
  record_start(s, seat->cell, run, (uint64_t)(l.start_ns - l.ready_ns));
  c->run = (struct uvs__record){
      .ideal_ns = run->ideal_ns,
      .start_ns = run->start_ns,
      .missed = run->missed,
      .merged = c->policy == UVS_MISSED_ONCE ? p.missed : 0,
      .runner = seat->runner,
  };
  if ((w & UVS__KEEP) != 0)
    c->run_result = c->result;
  for (int i = 0; i < UVS_LATE_CAUSES; i++) /* relaxed: for uvs_info */
    uvs__store(&c->late_by_ns[i], run->late_by_ns[i], relaxed);
}

static void begin(uvs_t *s, uint32_t slot, const struct seat *seat, uint64_t start_ns,
                  uvs_run_t *run) {
  struct uvs__slot *t = uvs__slot(s, slot);
  struct uvs__cold *c = uvs__agenda_cold(&s->agenda, t);
  uint64_t w = uvs__load(&t->word, relaxed); /* as above */

  if (!uvs__is_wall(w) && start_ns < uvs__load(&t->deadline_ns, relaxed)) /* as above */
    start_ns = uvs__now(s); /* it became due after the runner had read its clock */
  run->id = uvs__id(w, slot);
  run->runner = seat->runner;
  run->status = 0;
  run->start_ns = (int64_t)start_ns;
  run->end_ns = 0;
  run->state = s;
  if (c == NULL)
    begin_plain(s, t, seat, w, run);
  else
    begin_cold(s, t, c, seat, w, run);
}

/* It was RUNNING for a moment, but there is no run. */
static void uncount_run(uvs_t *s) {
  uv_mutex_lock(&s->pool.lock);
  s->pool.runs--;
  uv_mutex_unlock(&s->pool.lock);
}

/* SKIP, and a whole period has gone by while it waited for its turn: on to the next point, without
 * a run. *status: 0, or UVS_STOP if that point is after the end time; then the last run's failure,
 * if it failed, is the outcome (end_locked). */
static bool leave_out(uvs_t *s, uint32_t slot, const struct seat *seat, uint64_t now_ns,
                      int *status) {
  struct uvs__slot *t = uvs__slot(s, slot);
  struct uvs__cold *c = uvs__agenda_cold(&s->agenda, t);
  int64_t by_ns[UVS_LATE_CAUSES];
  struct uvs__recur r;
  struct uvs__point p;
  struct uvs__late l;
  uint64_t jitter_ns;
  uint64_t due_ns;
  uint64_t w;

  if (c == NULL || c->policy != UVS_MISSED_SKIP || uvs__retrying(c))
    return false;
  /* relaxed, all: ours while RUNNING */
  w = uvs__load(&t->word, relaxed);
  r = uvs__recur_of(t, c, w);
  jitter_ns = uvs__load(&c->jitter_now_ns, relaxed);
  due_ns = uvs__load(&t->deadline_ns, relaxed);
  p = uvs__recur_due(&r, due_ns - jitter_ns, now_ns);
  if (p.missed == 0)
    return false;
  l = how_late(s, t, c, seat, w, due_ns, now_ns);
  uvs__miss(s, c, p.missed, uvs__late_split(&l, by_ns));
  uncount_run(s);
  c->missed_next += p.missed;
  uvs__store(&t->deadline_ns, uvs__steps_later(p.ideal_ns, 1, jitter_ns), relaxed);
  *status = p.ideal_ns > c->until_ns ? UVS_STOP : 0;
  return true;
}

/* ---- the body ---- */

/* The body returned UVS_PENDING. Returns the status if uvs_finish was faster, or UVS_PENDING. */
static int pend(struct uvs__slot *t) {
  uint64_t w = uvs__load(&t->word, relaxed); /* the CAS acquires */

  while (!uvs__word_try(t, &w, w | UVS__PENDING)) {
  }
  return (w & UVS__FINISHED) != 0 ? uvs__word_status(w) : UVS_PENDING;
}

/* Both bits: the body has returned, and not as pending. */
static void mark_body_over(struct uvs__slot *t) {
  uint64_t w = uvs__load(&t->word, relaxed); /* the CAS acquires */

  while (!uvs__word_try(t, &w, w | UVS__PENDING | UVS__FINISHED)) {
  }
}

static int call(uvs_t *s, struct uvs__slot *t, const struct uvs__cold *c, uvs_run_t *run,
                uint64_t *ret_end_ns) {
  struct uvs__frame frame = {s, (uint32_t)run->id & UVS__SLOT_MASK, uvs__thread.frame};
  uvs_work_cb body =
      s->decorate_cb != NULL ? c->decoration.work : uvs__load(&t->fn, relaxed); /* constant */
  uvs_t *seen = run->scheduler;
  int returned;

  uvs__thread.frame = &frame;
  run->scheduler = s; /* the hooks are the owner's */
  if (s->before_cb != NULL)
    s->before_cb(run);
  run->scheduler = seen;
  returned = body(run);
  /* From here on the limit comes too late, however long the hook takes. If it came before, the
   * clock, which is read after that, says so, too. */
  if (returned != UVS_PENDING && c != NULL && c->limit_ns != UVS__NEVER)
    mark_body_over(t);
  *ret_end_ns = uvs__now(s);
  run->scheduler = s;
  if (s->after_cb != NULL)
    s->after_cb(run, returned);
  uvs__thread.frame = frame.outer;
  return returned;
}

/* The run that ended at end_ns, whatever its body says, if it has passed its limit. */
static int heed_limit(struct uvs__cold *c, int status, uint64_t end_ns) {
  if (!uvs__limit_passed(c, end_ns))
    return status;
  c->run.timed_out = true;
  return c->limit_status;
}

static uint64_t ideal_of(const struct uvs__slot *t, const struct uvs__cold *c) {
  /* relaxed, both: ours while RUNNING */
  return uvs__load(&t->deadline_ns, relaxed) - uvs__load(&c->jitter_now_ns, relaxed);
}

/* No run, since its limit has passed before it could start. Returns the status. */
static int time_out_unstarted(struct uvs__slot *t, struct uvs__cold *c) {
  UVS_ASSERT(c != NULL); /* it has a limit */
  c->run = (struct uvs__record){.ideal_ns = (int64_t)ideal_of(t, c), .timed_out = true};
  return c->limit_status;
}

/* Returns the rest; *status is set unless it is REST_NONE. *now_ns: before and after. *end_ns: the
 * end of the run, of which the hook behind the body is no part. */
static enum rest call_body(uvs_t *s, uint32_t slot, const struct seat *seat, uint64_t *now_ns,
                           uint64_t *end_ns, int *status) {
  struct uvs__slot *t = uvs__slot(s, slot);
  struct uvs__cold *c = uvs__agenda_cold(&s->agenda, t);
  uint64_t w = uvs__load(&t->word, relaxed); /* for its constants */
  uvs_run_t run;

  *end_ns = *now_ns;
  if (c != NULL && c->limit_due_ns != UVS__NEVER)
    *end_ns = *now_ns = uvs__now(s); /* the runner may have looked before the task was ready */
  if (c != NULL && uvs__limit_passed(c, *now_ns)) {
    uncount_run(s);
    *status = time_out_unstarted(t, c);
    return REST_END;
  }
  if (leave_out(s, slot, seat, *now_ns, status))
    return REST_SKIP;
  begin(s, slot, seat, *now_ns, &run);
  if (seat->ret_body_ns != NULL)
    *seat->ret_body_ns = uvs__now(s);
  *status = call(s, t, c, &run, end_ns);
  if (seat->ret_body_ns != NULL)
    *seat->ret_body_ns = *end_ns - *seat->ret_body_ns;
  *now_ns = s->after_cb == NULL ? *end_ns : uvs__now(s);
  if (*status == UVS_PENDING)
    *status = pend(t);
  if (*status == UVS_PENDING)
    return REST_NONE; /* not even a look at the task any more */
  *status = uvs__status_of(*status);
  record_end(s, seat->cell, *end_ns - (uint64_t)run.start_ns);
  if (c != NULL) {
    c->run.end_ns = (int64_t)*end_ns;
    *status = heed_limit(c, *status, *end_ns);
  }
  if ((w & UVS__HAS_AFTER) == 0)
    return REST_END;
  return REST_AFTER;
}

/* ---- the end of a run ---- */

/* The run is over, and so perhaps the task: its result, and those who wait for it to be quiet. */
static void keep_result_locked(uvs_t *s, struct uvs__cold *c, uint64_t w, int status, bool last) {
  if ((w & (UVS__CANCELLED | UVS__LATE)) == 0 && status >= 0) {
    if (!c->run.timed_out)
      c->result = c->run_result;
    else if (last) /* a run that follows does not give the limit's */
      c->result = c->limit_result;
  }
  if ((w & (UVS__CANCELLED | UVS__LATE)) != 0) /* it is quiet; else who settles it tells */
    uv_cond_broadcast(&s->pool.settled);
}

struct ended {
  uint64_t w; /* the new word */
  bool ref;   /* it kept the loop alive to the last */
};

/* Move 5, with the lock. `list`: INBOX if the slot is about to travel to the loop. */
static struct ended end_locked(uvs_t *s, uint32_t slot, int status, bool goes_on, uint64_t list) {
  struct ended ended;
  struct uvs__slot *t = uvs__slot(s, slot);
  uint64_t w = uvs__locked_load(&t->word, relaxed); /* the CAS acquires */
  uint64_t to;
  struct uvs__cold *c = uvs__agenda_cold(&s->agenda, t);
  bool failed = status < 0;

  if (status == UVS_STOP && c != NULL && c->run.failure < 0)
    status = c->run.failure;
  if (c != NULL)
    uvs__pool_heed_lane_locked(&s->pool, slot, &w);
  do {
    uint64_t rest = w & ~(UVS__RUN_BITS | UVS__INBOX);
    bool cancelled = (w & UVS__CANCELLED) != 0;
    bool late = (w & UVS__LATE) != 0;

    if (goes_on && !cancelled && !late)
      to = uvs__word_in(rest, UVS__WAITING) | list;
    else if (uvs__is_light(w, c) && (w & UVS__PENDING) == 0 && (cancelled || status >= 0))
      to = (uint64_t)UVS__FREE | (uvs__word_generation(w) + 1) << UVS__GENERATION_SHIFT;
    else if (late)
      to = uvs__word_in(rest, UVS__ENDED) | (w & UVS__STATUS_MASK) | UVS__INBOX;
    else
      to = uvs__word_with_status(uvs__word_in(rest, UVS__ENDED), cancelled ? 0 : status) |
           UVS__INBOX;
  } while (!uvs__word_try_locked(t, &w, to));

  ended = (struct ended){to, (w & UVS__REF) != 0};
  if (c != NULL)
    uvs__pool_ended_locked(&s->pool, slot);
  s->pool.failed_runs += (w & UVS__LATE) != 0 ? uvs__word_status(w) < 0 : failed;
  if (c != NULL && uvs__word_state(to) == UVS__ENDED)
    c->failed_news = 0; /* it was decided in its run: what that says is discarded (F5, F12) */
  if ((w & UVS__KEEP) != 0)
    keep_result_locked(s, c, w, status, uvs__word_state(to) != UVS__WAITING);
  if ((w & (UVS__CANCELLED | UVS__LATE)) != 0)
    return ended; /* counted by whoever decided it */
  if (uvs__word_state(to) == UVS__WAITING)
    s->pool.running_count--;
  else
    uvs__pool_settle_locked(&s->pool, w,
                            c != NULL && c->run.timed_out ? UVS__TIMED_OUT
                            : status < 0                  ? UVS__FAILED
                                                          : UVS__COMPLETED);
  return ended;
}

static struct ended end_run(uvs_t *s, uint32_t slot, int status, bool goes_on, uint64_t list) {
  struct ended ended;

  uv_mutex_lock(&s->pool.lock);
  ended = end_locked(s, slot, status, goes_on, list);
  uv_mutex_unlock(&s->pool.lock);
  uvs__tell_of_due(s);
  return ended;
}

/* RUNNING -> RUNNING|INBOX with its status: on the way to `after`. */
static void mark_for_after(uvs_t *s, uint32_t slot, int status) {
  struct uvs__slot *t = uvs__slot(s, slot);
  uint64_t w = uvs__load(&t->word, relaxed); /* the CAS acquires */

  while (!uvs__word_try(
      t, &w, ((w & UVS__LATE) != 0 ? w : uvs__word_with_status(w, status)) | UVS__INBOX)) {
  }
}

/* When must the loop hear of a completion? In 1 ms, or when the task is next due. */
static uint64_t hear_by(uvs_t *s, uint32_t slot, uint64_t w, uint64_t now_ns) {
  uint64_t next_ns =
      uvs__word_state(w) == UVS__WAITING && !uvs__is_wall(w)
          ? uvs__load(&uvs__slot(s, slot)->deadline_ns, relaxed) /* ours until the push */
          : UVS__NEVER;

  return next_ns < now_ns + MS ? next_ns : now_ns + MS;
}

/* ---- on the loop ---- */

/* With the lock: a due task that is started now; UVS__NONE if there is none, or no time. A body may
 * have shut us down: then the next turn decides what may still run. acquire: pairs with the release
 * of who changed it */
static uint32_t next_due_locked(uvs_t *s, uint64_t now_ns, uint64_t until_ns) {
  if (now_ns >= until_ns || uvs__locked_load(&s->policy, acquire) != s->policy_seen)
    return UVS__NONE;
  return uvs__pool_start_locked(&s->pool, &s->pool.due);
}

static uint32_t next_due(uvs_t *s, uint64_t now_ns, uint64_t until_ns) {
  uint32_t slot;

  uv_mutex_lock(&s->pool.lock);
  slot = next_due_locked(s, now_ns, until_ns);
  uv_mutex_unlock(&s->pool.lock);
  return slot;
}

/* The run is over: the task goes back to the queue, or to its end. Returns the next one, which
 * starts in the same critical section; until_ns 0: none. */
static uint32_t end_on_loop(uvs_t *s, uint32_t slot, int status, bool goes_on, uint64_t now_ns,
                            uint64_t until_ns) {
  bool news = uvs__has_news(s, uvs__agenda_cold(&s->agenda, uvs__slot(s, slot)));
  struct ended ended;
  uint32_t next;

  uv_mutex_lock(&s->pool.lock);
  ended = end_locked(s, slot, status, goes_on, news ? UVS__INBOX : 0);
  next = next_due_locked(s, now_ns, until_ns);
  uv_mutex_unlock(&s->pool.lock);
  UVS_ASSERT(s->in_tick); /* so nobody has to be told of what may start now */

  switch (uvs__word_state(ended.w)) {
  case UVS__WAITING:
    if (news)
      uvs__list_news(s, slot);
    else
      uvs__wait_for_due(s, slot, ended.w);
    break;
  case UVS__ENDED:
    uvs__conclude(s, slot, ended.w);
    break;
  default: /* a light one */
    UVS_ASSERT(uvs__word_state(ended.w) == UVS__FREE);
    UVS_ASSERT(uvs__agenda_link(&s->agenda, slot)->a == UVS__NONE);
    uvs__agenda_give_plain(&s->agenda, slot, uvs__word_generation(ended.w));
    s->taken--;
    s->taken_ref -= ended.ref;
  }
  return next;
}

static int call_after(uvs_t *s, uint32_t slot, int status) {
  struct uvs__slot *t = uvs__slot(s, slot);
  struct uvs__cold *c = uvs__agenda_cold(&s->agenda, t);
  uvs_run_t run = {
      .scheduler = c->narrow ? NULL : s,
      .id = uvs__id(uvs__load(&t->word, relaxed), slot), /* relaxed, all: ours while RUNNING */
      .arg = uvs__load(&t->arg, relaxed),
      .runner = c->run.runner,
      .status = status == UVS_STOP ? 0 : status,
      .ideal_ns = c->run.ideal_ns,
      .start_ns = c->run.start_ns,
      .end_ns = c->run.end_ns,
      .number = uvs__load(&t->runs, relaxed),
      .missed = c->run.missed,
      .state = s,
  };
  struct uvs__frame frame = {s, slot, uvs__thread.frame};
  int rc;

  for (int i = 0; i < UVS_LATE_CAUSES; i++) {
    run.late_by_ns[i] = uvs__load(&c->late_by_ns[i], relaxed);
    run.late_ns += run.late_by_ns[i];
  }
  run.culprit = uvs__culprit(run.late_by_ns);
  c->run.seen = run.status;
  c->after_ns = uvs__now(s);
  uvs__thread.frame = &frame;
  rc = uvs__status_of(c->after(&run));
  uvs__thread.frame = frame.outer;
  return status < 0 || rc == 0 || c->run.timed_out ? status : rc;
}

/* A due task, its run's end included. Returns the next one, which has started. *now_ns: the end of
 * this one is the start of that. */
static uint32_t run_on_loop(uvs_t *s, uint32_t slot, uint64_t *now_ns, uint64_t until_ns) {
  struct seat seat = {UVS_ON_LOOP, &s->loop_cell, 0, 0, NULL};
  uint64_t end_ns;
  enum rest rest;
  bool goes_on;
  int status;

  rest = call_body(s, slot, &seat, now_ns, &end_ns, &status);
  if (rest == REST_NONE)
    return next_due(s, *now_ns, until_ns);
  if (rest == REST_AFTER) {
    mark_for_after(s, slot, status); /* as on a runner: from here on uvs_finish comes too late */
    uvs__run_after(s, slot);
    *now_ns = uvs__now(s);
    return next_due(s, *now_ns, until_ns);
  }
  goes_on = rest == REST_SKIP ? status == 0 : uvs__plan_next(s, slot, status, end_ns, *now_ns);
  return end_on_loop(s, slot, status, goes_on, *now_ns, until_ns);
}

bool uvs__run_due(uvs_t *s, uint64_t until_ns) {
  uint64_t now_ns = uvs__now(s);
  uint32_t slot = next_due(s, now_ns, UVS__NEVER);

  while (slot != UVS__NONE)
    slot = run_on_loop(s, slot, &now_ns, until_ns);
  return uvs__load(&s->policy, acquire) != s->policy_seen || /* as above */
         uvs__pool_is_due(&s->pool);
}

void uvs__run_after(uvs_t *s, uint32_t slot) {
  struct uvs__slot *t = uvs__slot(s, slot);
  struct uvs__cold *c = uvs__agenda_cold(&s->agenda, t);
  uint64_t w =
      uvs__load(&t->word, acquire); /* pairs with the word's release by who ended the body */
  int worked = c->run.timed_out ? c->limit_status : uvs__word_status(w);
  int status = call_after(s, slot, worked);

  end_on_loop(s, slot, status,
              uvs__plan_next(s, slot, status, (uint64_t)c->run.end_ns, uvs__now(s)), 0, 0);
}

void uvs__run_unstarted(uvs_t *s, uint32_t slot, uint64_t now_ns) {
  struct uvs__slot *t = uvs__slot(s, slot);
  int status = time_out_unstarted(t, uvs__agenda_cold(&s->agenda, t));

  end_on_loop(s, slot, status, uvs__plan_next(s, slot, status, now_ns, now_ns), 0, 0);
}

void uvs__run_refused(uvs_t *s, uint32_t slot, int status, uint64_t now_ns) {
  struct uvs__slot *t = uvs__slot(s, slot);
  struct uvs__cold *c = uvs__agenda_cold(&s->agenda, t);
  uint64_t w = uvs__load(&t->word, relaxed); /* for its constants, and its id */

  if (c != NULL)
    c->run = (struct uvs__record){.ideal_ns = (int64_t)ideal_of(t, c)};
  if (s->error_cb != NULL && (w & UVS__HAS_DONE) != 0) { /* else the hook is told as usual */
    if (c != NULL)
      c->run.seen = status;
    s->error_cb(s, uvs__id(w, slot), status, uvs__load(&t->arg, relaxed)); /* constant */
  }
  end_on_loop(s, slot, status, uvs__plan_next(s, slot, status, now_ns, now_ns), 0, 0);
}

/* ---- on a runner ---- */

struct finished {
  uint32_t newest, oldest;
  uint64_t hear_by_ns;
  struct uvs__freed freed; /* light ones, of whom the loop learns only how many they were */
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
  uvs__send_in(s, f->newest, f->oldest, hear_by_ns);
  f->newest = UVS__NONE;
}

static void retire_light(uvs_t *s, struct uvs__runner *r, struct finished *f, uint32_t slot,
                         bool ref) {
  uvs__agenda_free_later(&s->agenda, uvs__self(), &f->freed, slot);
  r->retired++;
  r->retired_ref += ref;
}

/* The memory of a run that is about to begin, or will soon: four lines at once, not one after the
 * other. */
static void ask_for_cold(uvs_t *s, uint32_t slot) {
  const char *c = (const char *)uvs__agenda_cold(&s->agenda, uvs__slot(s, slot));

  for (int i = 0; c != NULL && i < 4; i++)
    __builtin_prefetch(c + i * 64, 1);
}

/* With the lock: the next task for a runner that already counts as one of `active`. */
static uint32_t next_locked(uvs_t *s, struct uvs__runner *r) {
  struct uvs__crew *crew = r->crew;
  uint32_t slot;

  /* relaxed: a setting; stop: whoever sets it lets the loop end what is ready, under the same lock
   */
  if ((int)crew->active > uvs__locked_load(&crew->concurrency, relaxed) ||
      uvs__locked_load(&s->stop, relaxed))
    return UVS__NONE;
  r->starts = ++crew->starts;
  r->home_ns = crew->home_ns;
  r->called_ns = crew->called_ns;
  slot = uvs__pool_start_locked(&s->pool, &crew->ready);
  r->ahead = uvs__ready_first(&crew->ready);
  return slot;
}

/* With the lock: it has no task any more. */
static void rest_locked(uvs_t *s, struct uvs__runner *r, uint64_t now_ns) {
  s->pool.active--;
  if (--r->crew->active == 0 && r->crew->startable > 0)
    r->crew->home_ns = now_ns;
}

/* With the lock. body_ns: of one of many, and NOT_TIMED of the others. */
static void note_length_locked(const uvs_t *s, struct uvs__crew *crew, uint64_t ns,
                               uint64_t body_ns) {
  if (ns >= UVS__BRIEF_NS || uvs__clock_replaced(&s->clock))
    crew->brief = 0;
  else if (crew->brief < UVS__BRIEF_MANY)
    crew->brief++;
  if (body_ns != NOT_TIMED) /* a long one does not count for more than a few */
    crew->usual_ns =
        (3 * crew->usual_ns + (uint32_t)(body_ns < UVS__BRIEF_NS ? body_ns : UVS__BRIEF_NS)) / 4;
}

/* With the lock, after a run: can the others do without this runner? Only if one of them has
 * started something since it did. If none has for long, they are at long bodies, and that says more
 * than what is usual. */
static bool to_spare_locked(struct uvs__runner *r) {
  struct uvs__crew *crew = r->crew;

  if (crew->active == 1 || crew->starts != r->starts)
    r->in_a_row = 0;
  else if (++r->in_a_row >= UVS__BRIEF_MANY)
    crew->usual_ns = UVS__BRIEF_NS;
  return crew->active > 1 && crew->starts != r->starts && uvs__crew_alone(crew);
}

/* What kind of body was it? cpu_ns: this thread's CPU time at its start; 0: unknown. To ask for it
 * takes longer than many a run, so it is asked only behind one that took long. */
static void weigh(struct uvs__runner *r, uint64_t took_ns, uint64_t cpu_ns) {
  r->heavy = took_ns >= HEAVY_NS;
  r->busy = r->heavy && cpu_ns != 0 && uvs__thread_cpu_ns() - cpu_ns >= took_ns / 4;
}

static bool gives_way(const uvs_t *s, const struct uvs__runner *r, uint64_t now_ns) {
  return r->busy && now_ns >= r->shy_ns && !uvs__on_loop(s);
}

/* The kernel likes to put a thread on the core of the one that wakes it, and lets whoever is there
 * stay for its slice, a millisecond or more. So a runner may stand before the loop that has just
 * called it out, or that it has just woken. Where bodies keep the core, the loop and the other
 * threads of the pool may go first, between two of them. If somebody then keeps the core for
 * longer than they would, it is not they who need it: not again, then, for a while. Returns the
 * time. */
static uint64_t give_way(const uvs_t *s, struct uvs__runner *r, uint64_t now_ns) {
  uint64_t back_ns;

  if (!gives_way(s, r, now_ns))
    return now_ns;
  sched_yield();
  back_ns = uvs__now(s);
  if (back_ns - now_ns > KEPT_NS)
    r->shy_ns = back_ns + SHY_NS;
  return back_ns;
}

/* Runs one task, ends its run, and takes the next in the same critical section, so that somebody
 * who sees the end of the last one never finds this runner still counted as busy (S24b). If it is
 * to give way, it takes none before: that would be running in name only. */
static uint32_t run_one(uvs_t *s, struct uvs__runner *r, uint32_t slot, struct finished *f,
                        uint64_t leave_ns, uint64_t *now_ns, bool *ret_gives_way) {
  uint64_t body_ns = NOT_TIMED;
  struct seat seat = {r->index, &r->cell, r->home_ns, r->called_ns,
                      r->starts % TIMED_EVERY == 0 ? &body_ns : NULL};
  uint64_t cpu_ns = r->heavy ? uvs__thread_cpu_ns() : 0;
  struct ended ended = {0, false};
  uint64_t start_ns = *now_ns;
  bool goes_on = false;
  uint64_t end_ns;
  enum rest rest;
  uint32_t next;
  int status;

  rest = call_body(s, slot, &seat, now_ns, &end_ns, &status);
  weigh(r, *now_ns - start_ns, cpu_ns);
  if (r->ahead != UVS__NONE)
    ask_for_cold(s, r->ahead); /* its slot has come meanwhile */
  if (rest == REST_AFTER)
    mark_for_after(s, slot, status);
  if (rest == REST_END)
    goes_on = uvs__plan_next(s, slot, status, end_ns, *now_ns);
  if (rest == REST_SKIP) {
    goes_on = status == 0;
    rest = REST_END;
  }

  uvs__pool_lock(&s->pool);
  if (rest == REST_END)
    ended = end_locked(s, slot, status, goes_on, UVS__INBOX);
  note_length_locked(s, r->crew, *now_ns - start_ns, body_ns);
  next = UVS__NONE;
  *ret_gives_way = false;
  if (!to_spare_locked(r) && *now_ns < leave_ns) {
    *ret_gives_way = gives_way(s, r, *now_ns) && r->crew->startable > 0;
    if (!*ret_gives_way)
      next = next_locked(s, r);
  }
  if (next == UVS__NONE)
    rest_locked(s, r, *now_ns);
  uv_mutex_unlock(&s->pool.lock);

  uvs__tell_of_due(s);
  if (rest == REST_AFTER)
    add_finished(s, f, slot, *now_ns + MS);
  else if (rest == REST_END && uvs__word_state(ended.w) == UVS__FREE)
    retire_light(s, r, f, slot, ended.ref);
  else if (rest == REST_END)
    add_finished(s, f, slot, hear_by(s, slot, ended.w, *now_ns));
  return next;
}

/* With the lock: the first task of a runner that was on its way. */
static uint32_t first_locked(uvs_t *s, struct uvs__runner *r) {
  uint32_t slot;

  r->crew->seeking--;
  r->crew->active++;
  s->pool.active++;
  slot = next_locked(s, r);
  if (slot == UVS__NONE) {
    r->crew->active--;
    s->pool.active--;
  } else if (s->pool.active > s->pool.peak) {
    s->pool.peak = s->pool.active;
  }
  return slot;
}

/* The next task, of a runner that has just given way. */
static uint32_t take_again(uvs_t *s, struct uvs__runner *r) {
  uint32_t slot;

  uvs__pool_lock(&s->pool);
  r->crew->seeking++;
  slot = first_locked(s, r);
  uv_mutex_unlock(&s->pool.lock);
  uvs__tell_of_due(s); /* its start may let another one start */
  return slot;
}

/* To come home and be called out again is a wake-up more for the loop. Where it wakes often and
 * runs are brief, that is most of the cost: with precise_ns, then, a runner stays while the loop is
 * to wake before its time is over. It may be there for nothing, but never longer than for work. */
static bool may_linger(uvs_t *s, const struct uvs__runner *r, uint64_t leave_ns) {
  return s->ticker.slack_ns > 0 && r->crew == &s->pool.home &&
         uvs__load(&s->inbox.next_wake, relaxed) < leave_ns; /* a hint */
}

/* The next task; UVS__NONE: go home. */
static uint32_t linger(uvs_t *s, struct uvs__runner *r, uint64_t leave_ns) {
  struct uvs__pool *p = &s->pool;
  uint32_t slot = UVS__NONE;
  uint64_t now_ns;

  uvs__pool_lock(p);
  if (p->home.brief < UVS__BRIEF_MANY || uvs__locked_load(&s->stop, relaxed)) { /* a hint */
    uv_mutex_unlock(&p->lock);
    return UVS__NONE;
  }
  if (p->home.startable > p->home.seeking) { /* it has just come: nobody may be called out for it */
    p->home.seeking++;
    p->summoned++;
  } else {
    p->lingering++;
  }
  while (p->summoned == 0 && (now_ns = uvs__now(s)) < leave_ns)
    uv_cond_timedwait(&p->more, &p->lock, leave_ns - now_ns);
  if (p->summoned > 0) { /* perhaps another was meant: he stays in our place */
    p->summoned--;
    slot = first_locked(s, r);
  } else {
    p->lingering--;
  }
  uv_mutex_unlock(&p->lock);
  uvs__tell_of_due(s);
  return slot;
}

void uvs__run_tasks(struct uvs__runner *r) {
  uvs_t *s = r->arg;
  struct finished f;
  uint64_t now_ns = give_way(s, r, uvs__now(s));
  uint64_t leave_ns = now_ns + s->budget_ns;
  uint64_t linger_ns = now_ns + (s->budget_ns < MS ? s->budget_ns : MS);
  uint32_t slot;
  bool way;

  f.newest = UVS__NONE;
  f.oldest = UVS__NONE;
  f.hear_by_ns = UVS__ASLEEP;
  f.freed.count = 0;
  uvs__pool_lock(&s->pool);
  slot = first_locked(s, r);
  uv_mutex_unlock(&s->pool.lock);
  uvs__tell_of_due(s); /* its start may let another one start */

  while (slot != UVS__NONE) {
    ask_for_cold(s, slot);
    bring(s, &f, f.hear_by_ns); /* a finished task never waits for another's body */
    slot = run_one(s, r, slot, &f, leave_ns, &now_ns, &way);
    if (way) {
      bring(s, &f, f.hear_by_ns);
      now_ns = give_way(s, r, now_ns);
      slot = take_again(s, r);
    }
    if (slot != UVS__NONE || now_ns >= linger_ns || !may_linger(s, r, linger_ns))
      continue;
    bring(s, &f, f.hear_by_ns);
    slot = linger(s, r, linger_ns);
    now_ns = uvs__now(s);
  }
  uvs__agenda_free_now(&s->agenda, uvs__self(), &f.freed);
  bring(s, &f, UVS__ASLEEP); /* no need to wake: the loop looks when we come home */
}

/* ---- by anybody ---- */

void uvs__run_finished(uvs_t *s, uint32_t slot, uint64_t w) {
  struct uvs__slot *t = uvs__slot(s, slot);
  struct uvs__cold *c = uvs__agenda_cold(&s->agenda, t);
  uint64_t now_ns = uvs__now(s);
  uint64_t start_ns =
      c != NULL ? (uint64_t)c->run.start_ns : uvs__load(&t->period_ns, relaxed); /* ours */
  int status = uvs__word_status(w);

  record_end(s, NULL, now_ns - start_ns);
  if (c != NULL) {
    c->run.end_ns = (int64_t)now_ns;
    status = heed_limit(c, status, now_ns);
  }
  if ((w & UVS__HAS_AFTER) == 0) /* else it is marked for it */
    end_run(s, slot, status, uvs__plan_next(s, slot, status, now_ns, now_ns), UVS__INBOX);
  uvs__send_in(s, slot, slot, 0);
}

/* ---- on the thread of its submitter ---- */

bool uvs__run_here(uvs_t *s, uint32_t slot) {
  struct seat seat = {UVS_ON_CALLER, NULL, 0, 0, NULL};
  struct uvs__slot *t = uvs__slot(s, slot);
  struct uvs__cold *c = uvs__agenda_cold(&s->agenda, t);
  uint64_t now_ns = uvs__now(s);
  struct ended ended;
  uint64_t end_ns;
  enum rest rest;
  int status;

  if (c == NULL) { /* relaxed, both: RUNNING, ours. It is ready just now. */
    uvs__store(&t->period_ns, now_ns, relaxed);
    uvs__store(&t->next, uvs__late_pack(now_ns, now_ns, false), relaxed);
  } else {
    c->turn_ns = c->ready_ns = now_ns;
  }
  rest = call_body(s, slot, &seat, &now_ns, &end_ns, &status);
  if (rest == REST_NONE)
    return false;
  if (rest == REST_AFTER) {
    mark_for_after(s, slot, status);
  } else {
    ended = end_run(s, slot, status, uvs__plan_next(s, slot, status, end_ns, now_ns), UVS__INBOX);
    if (uvs__word_state(ended.w) == UVS__FREE) {
      uvs__agenda_give_slot(&s->agenda, uvs__stripe(s), slot);
      uvs__sub(&s->pool.here, UVS__LOAD_ONE + (ended.ref ? UVS__LOAD_REF : 0),
               relaxed); /* a count */
      return false;
    }
  }
  uvs__send_in(s, slot, slot, now_ns + MS);
  return true;
}
