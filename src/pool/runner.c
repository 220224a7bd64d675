/* SPDX-License-Identifier: MIT
 *
 * runner: takes a task, calls its body, ends its run, takes the next.
 *
 * A runner ends one run and takes the next in one critical section. So a thread that sees the end
 * of a run never finds its runner still counted as busy (S24b). After the budget a runner gives its
 * thread back, so that file system and DNS work gets its turn. A runner also looks for due tasks in
 * the delay queue: the loop need not be woken for them.
 */
#include "pool/runner.h"

#include "core/wake.h"

#include <sched.h>

#define NOT_TIMED UINT64_MAX

/* ---- a body ---- */

void uvs__record_start(uvs_t *s, struct uvs__started *st, struct uvs__cell *cell) {
  uvs_run_t *run = &st->run;

  st->expired = st->limited && uvs__now(s) >= st->context.limit_due_ns;
  if (st->expired)
    return;
  if (st->plain) {
    run->late_ns = run->start_ns <= st->late.due_ns ? 0 : run->start_ns - st->late.due_ns;
    run->culprit = uvs__late_split(&st->late, run->late_by_ns);
  }
  uvs__cell_start(cell, (uint64_t)run->late_ns, run->culprit, st->queue_ns);
}

int uvs__call_body(uvs_t *s, struct uvs__started *st, uint64_t *ret_end_ns, uint64_t *ret_over_ns) {
  uvs_run_t *run = &st->run;
  struct uvs__frame frame = {s, (uint32_t)run->id & UVS__SLOT_MASK, uvs__thread.frame};
  int returned;

  if (st->expired) {
    *ret_end_ns = *ret_over_ns = uvs__now(s);
    return 0;
  }
  uvs__thread.frame = &frame;
  if (s->before_cb != NULL)
    s->before_cb(run);
  if (st->narrow)
    run->scheduler = NULL; /* but the hooks, which are the owner's, see it */
  returned = st->body(run);
  *ret_end_ns = uvs__now(s);
  run->scheduler = s;
  *ret_over_ns = *ret_end_ns;
  if (s->after_cb != NULL) {
    if (st->limited && returned != UVS_PENDING) { /* the hook may take long: see core/limits.c */
      uvs__lock(s);
      uvs__task(s, frame.slot)->flags |= UVS__PENDING | UVS__FINISHED;
      uvs__unlock(s);
    }
    s->after_cb(run, returned);
    *ret_over_ns = uvs__now(s);
  }
  uvs__thread.frame = frame.outer;
  return returned;
}

bool uvs__return_body(uvs_t *s, const struct uvs__started *st, int returned, uint64_t end_ns,
                      uint64_t over_ns, uint64_t wall_ns, struct uvs__cell *cell) {
  uint32_t slot = (uint32_t)st->run.id & UVS__SLOT_MASK;
  struct uvs__task *t = uvs__task(s, slot);
  struct uvs__run_end e = {0, end_ns, over_ns, wall_ns};

  if (st->expired) {
    uvs__time_out_started(s, slot, end_ns);
    return false;
  }
  if (returned == UVS_PENDING) {
    t->flags |= UVS__PENDING;
    if (!uvs__has(t, UVS__FINISHED)) {
      t->ready_ns = (uint64_t)st->run.start_ns; /* uvs_finish needs it */
      return true;
    }
    returned = t->status;
  }
  e.status = uvs__status_of(returned);
  uvs__cell_end(cell, end_ns - (uint64_t)st->run.start_ns);
  uvs__body_returned(s, slot, &e);
  return false;
}

/* ---- how many runners ---- */

/* Lock held. ns: the length of the run; body_ns: of the body alone, or NOT_TIMED. */
static void note_length(const uvs_t *s, struct uvs__crew *c, uint64_t ns, uint64_t body_ns) {
  if (ns >= UVS__BRIEF_NS || uvs__clock_replaced(&s->clock))
    c->brief = 0;
  else if (c->brief < UVS__BRIEF_MANY)
    c->brief++;
  if (body_ns != NOT_TIMED) /* one long body must not outweigh many short ones */
    c->usual_ns =
        (3 * c->usual_ns + (uint32_t)(body_ns < UVS__BRIEF_NS ? body_ns : UVS__BRIEF_NS)) / 4;
}

/* Lock held, after a run: can the crew do without this runner? Only if another runner has started a
 * run since this one did. If none has for many runs, the others run long bodies. */
static bool is_to_spare(struct uvs__runner *r) {
  struct uvs__crew *c = r->crew;

  if (c->active == 1 || c->starts != r->starts)
    r->in_a_row = 0;
  else if (++r->in_a_row >= UVS__BRIEF_MANY)
    c->usual_ns = UVS__BRIEF_NS;
  return c->active > 1 && c->starts != r->starts && uvs__crew_is_alone(c);
}

/* ---- giving way ---- */

/* Notes whether the body was long, and whether it was CPU-bound. cpu_ns: this thread's CPU time at
 * the start of the body; 0: unknown. Reading it takes longer than a brief run, so it is read only
 * after a long one. */
static void weigh(struct uvs__runner *r, uint64_t took_ns, uint64_t cpu_ns) {
  r->last_long = took_ns >= UVS__LONG_NS;
  r->last_cpu_bound = r->last_long && cpu_ns != 0 && uvs__thread_cpu_ns() - cpu_ns >= took_ns / 4;
}

static bool gives_way(const uvs_t *s, const struct uvs__runner *r, uint64_t now_ns) {
  return r->last_cpu_bound && now_ns >= r->no_yield_until_ns && !uvs__on_loop(s);
}

/* The kernel often puts a woken thread on the core of the thread that woke it, and lets the running
 * thread keep the core for its time slice. So a runner may keep the loop from running. Between two
 * CPU-bound bodies the runner therefore yields the core to the loop and to the other threads of the
 * pool. If the yield takes long, other programs want the core: then the runner does not yield again
 * for a while. Returns the time. */
static uint64_t give_way(const uvs_t *s, struct uvs__runner *r, uint64_t now_ns) {
  uint64_t back_ns;

  if (!gives_way(s, r, now_ns))
    return now_ns;
  sched_yield();
  back_ns = uvs__now(s);
  if (back_ns - now_ns > UVS__YIELD_MOST_NS)
    r->no_yield_until_ns = back_ns + UVS__NO_YIELD_NS;
  return back_ns;
}

/* ---- taking ---- */

/* Lock held. Earlier deadlines go first: is a task in the delay queue due, and does it belong
 * before those that are ready? */
static bool is_overtaken(const uvs_t *s, const struct uvs__crew *c, uint64_t now_ns) {
  uint32_t first = uvs__ready_first(&s->table, &c->ready);
  uint64_t key_ns, key_seq;

  if (uvs__delay_bound(&s->delay) > now_ns)
    return false;
  if (first == UVS__NONE)
    return true;
  uvs__ready_key(&s->table, first, &key_ns, &key_seq);
  return uvs__delay_is_before(&s->delay, key_ns, key_seq);
}

/* Lock held: due tasks become ready. */
static void hand_over(uvs_t *s, uint64_t now_ns) {
  struct uvs__handing h = {now_ns, now_ns, 0, 0};

  if (s->at.carried_ns != 0) /* a burst: the loop began to hand it over then */
    h.pass_ns = s->at.carried_ns;
  else if (s->at.in_pass)
    h.pass_ns = s->at.pass_ns;
  uvs__collect(s, &h, false);
}

/* Lock held: the next task for a runner that counts as active. */
static uint32_t take(uvs_t *s, struct uvs__runner *r, bool arrives, uint64_t now_ns,
                     struct uvs__started *ret) {
  struct uvs__crew *c = r->crew;
  struct uvs__seat seat = {r->index, c->idle_since_ns, c->recalled_ns};
  int steps = UVS__BATCH;
  uint32_t slot;

  if ((int)c->active > c->concurrency || uvs__load(&s->stop, relaxed)) /* written under the lock */
    return UVS__NONE;
  if (c == &s->home && !s->shut && is_overtaken(s, c, now_ns)) {
    /* A replaced clock may stand still: the budget would never be over, and a task that catches up
     * would keep the runner for ever. There the runner leaves, and the loop looks for due tasks. */
    if (!uvs__clock_replaced(&s->clock))
      hand_over(s, now_ns);
    else if (!arrives)
      return UVS__NONE;
  }
  slot = uvs__start_next(s, &c->ready, &seat, now_ns, ret, &steps);
  if (slot != UVS__NONE)
    r->starts = ++c->starts;
  return slot;
}

/* Lock held: a runner that was sent looks for its first task. */
static uint32_t arrive(uvs_t *s, struct uvs__runner *r, uint64_t now_ns, struct uvs__started *ret) {
  struct uvs__crew *c = r->crew;
  uint32_t slot;

  c->seeking--;
  c->active++;
  s->counts.runners++;
  slot = take(s, r, true, now_ns, ret);
  if (slot == UVS__NONE) {
    c->active--;
    s->counts.runners--;
  } else if (s->counts.runners > s->counts.peak_runners) {
    s->counts.peak_runners = s->counts.runners;
  }
  return slot;
}

/* Lock held: the runner has no task any more. */
static void become_idle(uvs_t *s, struct uvs__runner *r, uint64_t now_ns) {
  s->counts.runners--;
  if (--r->crew->active == 0)
    r->crew->idle_since_ns = now_ns;
}

/* A runner that goes back and is sent again costs the loop one more wake-up. With precise_ns and
 * brief runs that is most of the cost. So the runner waits on its thread if the loop is armed for a
 * time before leave_ns. Returns the next task; UVS__NONE: the runner leaves. */
static uint32_t linger(uvs_t *s, struct uvs__runner *r, uint64_t leave_ns,
                       struct uvs__started *ret) {
  uint32_t slot = UVS__NONE;
  uint64_t now_ns = uvs__now(s);

  uvs__lock(s);
  if (s->ticker.slack_ns == 0 || r->crew != &s->home || s->at.armed_ns >= leave_ns ||
      s->home.brief < UVS__BRIEF_MANY || uvs__load(&s->stop, relaxed)) {
    uvs__unlock(s);
    return UVS__NONE;
  }
  if (s->home.startable > s->home.seeking) { /* a task has just come, perhaps without a runner */
    s->home.seeking++;
    s->summoned++;
  } else {
    s->lingerers++;
  }
  while (s->summoned == 0 && now_ns < leave_ns) {
    uv_cond_timedwait(&s->lingering, &s->lock, leave_ns - now_ns);
    now_ns = uvs__clock_hrtime(); /* precise_ns excludes a replaced clock: no user code here */
  }
  if (s->summoned > 0) { /* if another runner was meant, it goes on waiting */
    s->summoned--;
    slot = arrive(s, r, now_ns, ret);
  } else {
    s->lingerers--;
  }
  uvs__unlock_and_wake(s, now_ns);
  return slot;
}

/* ---- the loop of a runner ---- */

/* Calls the body, ends the run, and takes the next. *now_ns: when this body returned. */
static uint32_t run_one(uvs_t *s, struct uvs__runner *r, struct uvs__started *st, uint64_t leave_ns,
                        uint64_t *now_ns, bool *ret_gives_way) {
  uint64_t cpu_ns = r->last_long ? uvs__thread_cpu_ns() : 0;
  bool timed = r->starts % UVS__TIMED_EVERY == 0;
  uint64_t body_ns = NOT_TIMED;
  uint64_t end_ns, wall_ns;
  uint32_t next = UVS__NONE;
  bool waited;
  int returned;

  uvs__record_start(s, st, &r->cell);
  if (timed)
    body_ns = uvs__now(s);
  returned = uvs__call_body(s, st, &end_ns, now_ns);
  if (timed)
    body_ns = end_ns - body_ns;
  weigh(r, *now_ns - (uint64_t)st->run.start_ns, cpu_ns);
  wall_ns = st->wall ? uvs__clock_wall(&s->clock) : 0;

  waited = uvs__lock(s);
  uvs__return_body(s, st, returned, end_ns, *now_ns, wall_ns, &r->cell);
  if (!r->waited) /* else its length includes the wait for the lock */
    note_length(s, r->crew, *now_ns - (uint64_t)st->run.start_ns, body_ns);
  r->waited = waited;
  *ret_gives_way = false;
  if (!is_to_spare(r) && *now_ns < leave_ns) {
    *ret_gives_way = gives_way(s, r, *now_ns) && r->crew->startable > 0;
    if (!*ret_gives_way)
      next = take(s, r, false, *now_ns, st);
  }
  if (next == UVS__NONE)
    become_idle(s, r, *now_ns);
  uvs__unlock_and_wake(s, *now_ns);
  return next;
}

/* The next task of a runner that has just given way. */
static uint32_t take_again(uvs_t *s, struct uvs__runner *r, uint64_t now_ns,
                           struct uvs__started *ret) {
  uint32_t slot;

  uvs__lock(s);
  r->crew->seeking++;
  slot = arrive(s, r, now_ns, ret);
  uvs__unlock_and_wake(s, now_ns);
  return slot;
}

void uvs__run_tasks(struct uvs__runner *r) {
  uvs_t *s = r->scheduler;
  uint64_t now_ns = give_way(s, r, uvs__now(s));
  uint64_t leave_ns = now_ns + s->budget_ns;
  uint64_t linger_ns = now_ns + (s->budget_ns < UVS__MS ? s->budget_ns : UVS__MS);
  struct uvs__started st;
  uint32_t slot;

  r->waited = uvs__lock(s);
  slot = arrive(s, r, now_ns, &st);
  uvs__unlock_and_wake(s, now_ns);
  while (slot != UVS__NONE) {
    bool way;

    slot = run_one(s, r, &st, leave_ns, &now_ns, &way);
    if (way) {
      now_ns = give_way(s, r, now_ns);
      slot = take_again(s, r, now_ns, &st);
    }
    if (slot == UVS__NONE && now_ns < linger_ns && s->ticker.slack_ns > 0)
      slot = linger(s, r, linger_ns, &st);
  }
}
