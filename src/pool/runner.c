/* SPDX-License-Identifier: MIT
 *
 * runner: takes a task, calls its body, ends its run, takes the next.
 *
 * A runner ends one run and takes the next in one critical section. So a thread that sees the end
 * of a run never finds that run's runner still counted as busy (S24b). After the budget a runner
 * gives its thread back, so that file system and DNS work can run. A runner also looks for due
 * tasks in the delay queue, so the loop need not be woken for them.
 */
#include "pool/runner.h"

#include "core/trace.h"
#include "core/wake.h"

#include <sched.h>

/* ---- a body ---- */

void uvs__record_start(uvs_t *s, struct uvs__started *st, struct uvs__cell *cell) {
  uvs_run_t *run = &st->run;

  st->expired = st->limited && uvs__now(s) >= st->context.limit_due_ns;
  if (st->expired)
    return;
  if (st->plain)
    uvs__start_plain(s, st);
  uvs__cell_start(cell, (uint64_t)run->late_ns, run->culprit, st->queue_ns);
}

void uvs__call_body(uvs_t *s, struct uvs__started *st, struct uvs__run_end *ret) {
  uvs_run_t *run = &st->run;
  struct uvs__frame frame = {s, (uint32_t)run->id & UVS__SLOT_MASK, uvs__thread.frame, run->runner};

  *ret = (struct uvs__run_end){.status = 0};
  if (st->expired) {
    ret->end_ns = ret->over_ns = uvs__now(s);
    return;
  }
  uvs__thread.frame = &frame;
  if (s->before_cb != NULL)
    s->before_cb(run);
  if (st->narrow)
    run->scheduler = NULL; /* hooks belong to the scheduler's owner, and see it */
  ret->status = st->body(run);
  ret->end_ns = ret->over_ns = uvs__now(s);
  run->scheduler = s;
  if (s->after_cb != NULL) {
    if (st->limited && ret->status != UVS_PENDING) { /* no limit passes during the hook */
      uvs__lock(s);
      uvs__task(s, frame.slot)->flags |= UVS__PENDING | UVS__FINISHED;
      uvs__unlock(s);
    }
    s->after_cb(run, ret->status);
    ret->over_ns = uvs__now(s);
  }
  uvs__thread.frame = frame.outer;
  if (st->wall)
    ret->wall_ns = uvs__clock_wall(&s->clock);
}

void uvs__return_body(uvs_t *s, const struct uvs__started *st, struct uvs__run_end *e,
                      struct uvs__cell *cell) {
  uint32_t slot = (uint32_t)st->run.id & UVS__SLOT_MASK;
  struct uvs__task *t = uvs__task(s, slot);

  if (st->expired) {
    if (uvs__is_traced(s))
      uvs__trace_put_end(s, &st->run, UVS__TRACE_UNBEGUN, e->end_ns);
    uvs__time_out_started(s, slot, e->end_ns);
    return;
  }
  if (st->limited)
    uvs__name_started(s, st->context.extra, &st->run);
  if (e->status == UVS_PENDING) {
    t->flags |= UVS__PENDING;
    if (!uvs__has(t, UVS__FINISHED)) {
      t->ready_ns = (uint64_t)st->run.start_ns; /* uvs_finish needs it */
      if (uvs__is_traced(s))
        uvs__trace_put_end(s, &st->run, UVS__TRACE_END, e->end_ns);
      return;
    }
    e->status = t->status;
  }
  e->status = uvs__status_of(e->status);
  uvs__cell_end(cell, e->end_ns - (uint64_t)st->run.start_ns);
  uvs__name_ended(s, st->context.extra, e->end_ns - (uint64_t)st->run.start_ns);
  if (uvs__is_traced(s))
    uvs__trace_put_last(s, t, &st->run, e);
  uvs__body_returned(s, slot, e);
}

/* ---- how many runners ---- */

/* Lock held: notes the length of a run. A thread may lose its core for a moment, so one run that is
 * not very long changes nothing among many brief ones. */
static void note_length(const uvs_t *s, struct uvs__crew *c, uint64_t ns) {
  uint64_t lost = UVS__BRIEF_MANY / 2 + ns / UVS__BRIEF_NS;

  if (uvs__clock_replaced(&s->clock))
    return;
  if (ns < UVS__BRIEF_NS)
    c->brief += c->brief < 2 * UVS__BRIEF_MANY;
  else
    c->brief -= c->brief < lost ? c->brief : (uint32_t)lost;
}

/* Moves an average a quarter of the way to a new value. Since a thread may lose its core, a value
 * that is much greater than the average counts as about four times the average. */
static uint32_t average(uint32_t usual_ns, uint64_t ns) {
  uint64_t most_ns = 4 * (uint64_t)usual_ns + UVS__AVERAGE_NS;

  if (most_ns > UVS__BRIEF_NS)
    most_ns = UVS__BRIEF_NS;
  return (3 * usual_ns + (uint32_t)(ns < most_ns ? ns : most_ns)) / 4;
}

/* Lock held, after a run: can the crew do without this runner? Only if another runner has started a
 * run since this one did: otherwise all others may be in long bodies. */
static bool is_to_spare(const struct uvs__runner *r) {
  const struct uvs__crew *c = r->crew;

  return c->active > 1 && c->starts != r->starts && uvs__crew_is_alone(c);
}

bool uvs__wants_runner(uvs_t *s, struct uvs__crew *c, uint64_t now_ns) {
  bool held_back;

  if (uvs__crew_wants(c, &held_back))
    return true;
  if (!held_back)
    return false;
  if (c->starts != c->starts_seen) {
    c->starts_seen = c->starts;
    c->seen_ns = now_ns;
  } else if (now_ns - c->seen_ns >= UVS__HELD_BACK_NS) {
    c->brief = 0; /* no run has started for so long: runs are no longer brief */
    return true;
  }
  s->at.held_back = true;
  return false;
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

  sched_yield();
  back_ns = uvs__now(s);
  if (back_ns - now_ns > UVS__YIELD_MOST_NS)
    r->no_yield_until_ns = back_ns + UVS__NO_YIELD_NS;
  return back_ns;
}

/* ---- taking ---- */

/* Lock held. Earlier deadlines go first: is a task in the delay queue due, and before all ready
 * tasks? */
static bool is_overtaken(const uvs_t *s, const struct uvs__crew *c, uint64_t now_ns) {
  uint64_t key_ns, key_seq;
  uint32_t first;

  if (uvs__delay_bound(&s->delay) > now_ns)
    return false;
  first = uvs__ready_first(&s->table, &c->ready);
  if (first == UVS__NONE)
    return true;
  uvs__ready_key(&s->table, first, &key_ns, &key_seq);
  return uvs__delay_is_before(&s->delay, key_ns, key_seq);
}

/* Lock held: due tasks become ready. */
static void hand_over_locked(uvs_t *s, uint64_t now_ns) {
  struct uvs__handing h = {now_ns, now_ns, 0, 0};

  if (s->at.carried_ns != 0) /* when the loop began to hand over this burst */
    h.pass_ns = s->at.carried_ns;
  else if (s->at.in_pass)
    h.pass_ns = s->at.pass_ns;
  uvs__collect(s, &h, false);
}

/* Lock held: a runner without a task takes one. arrives: the runner has not just ended a run. */
static bool take(uvs_t *s, struct uvs__runner *r, bool arrives, uint64_t now_ns,
                 struct uvs__started *ret) {
  struct uvs__crew *c = r->crew;
  struct uvs__seat seat = {r->index, c->idle_since_ns, c->recalled_ns};
  int steps = UVS__BATCH;

  if ((int)c->active >= c->concurrency || uvs__load(&s->stop, relaxed)) /* written under the lock */
    return false;
  if (c == &s->home && !s->shut && is_overtaken(s, c, now_ns)) {
    /* A replaced clock may stand still. Then the budget is never used up, and a task that catches
     * up would keep the runner for ever. So the runner leaves, and the loop looks for due tasks. */
    if (!uvs__clock_replaced(&s->clock))
      hand_over_locked(s, now_ns);
    else if (!arrives)
      return false;
  }
  if (uvs__start_next(s, &c->ready, &seat, now_ns, ret, &steps) == UVS__NONE)
    return false;
  r->starts = ++c->starts;
  c->active++;
  if (++s->counts.runners > s->counts.peak_runners)
    s->counts.peak_runners = s->counts.runners;
  return true;
}

/* Lock held, except while the runner waits. A runner that goes back and is sent again costs the
 * loop one more wake-up. With precise_ns and brief runs that is most of the cost. So if the loop is
 * armed for a time before linger_ns, the runner waits on its thread. False: the runner leaves. */
static bool linger(uvs_t *s, struct uvs__runner *r, uint64_t *now_ns, struct uvs__started *ret) {
  if (s->ticker.slack_ns == 0 || *now_ns >= r->linger_ns || r->crew != &s->home ||
      s->at.armed_ns >= r->linger_ns || s->home.brief < UVS__BRIEF_MANY ||
      uvs__load(&s->stop, relaxed)) /* written under the lock */
    return false;
  uvs__unlock_and_wake(s, *now_ns);
  uvs__lock(s);
  if (s->home.startable <= s->home.seeking) { /* else a task has just become ready */
    s->lingerers++;
    while (s->summoned == 0 && *now_ns < r->linger_ns) {
      uv_cond_timedwait(&s->lingering, &s->lock, r->linger_ns - *now_ns);
      *now_ns = uvs__clock_hrtime(); /* precise_ns excludes a replaced clock: no user code here */
    }
    if (s->summoned == 0) {
      s->lingerers--;
      return false;
    }
    s->summoned--; /* if another runner was signalled, that one goes on waiting */
    s->home.seeking--;
  }
  return take(s, r, true, *now_ns, ret);
}

/* ---- the loop of a runner ---- */

/* Calls the body, locks, and ends the run. Returns the time at which body and hooks were over. */
static uint64_t run_one(uvs_t *s, struct uvs__runner *r, struct uvs__started *st) {
  uint64_t cpu_ns = r->last_long ? uvs__thread_cpu_ns() : 0;
  bool timed = r->starts % UVS__TIMED_EVERY == 0;
  struct uvs__run_end e;
  uint64_t began_ns, took_ns;
  bool waited;

  uvs__record_start(s, st, &r->cell);
  began_ns = timed ? uvs__now(s) : 0;
  uvs__call_body(s, st, &e);
  took_ns = e.over_ns - (uint64_t)st->run.start_ns;
  weigh(r, took_ns, cpu_ns);
  waited = uvs__lock(s);
  uvs__return_body(s, st, &e, &r->cell);
  if (!r->waited) /* else took_ns includes the wait for the lock */
    note_length(s, r->crew, took_ns);
  if (timed && !r->waited) {
    r->crew->body_ns = average(r->crew->body_ns, e.over_ns - began_ns);
    r->crew->rest_ns = average(r->crew->rest_ns, took_ns - (e.over_ns - began_ns));
  }
  r->waited = waited;
  return e.over_ns;
}

/* Lock held, except while the runner gives way or lingers. A run has ended: takes the next task. */
static bool go_on(uvs_t *s, struct uvs__runner *r, uint64_t *now_ns, struct uvs__started *ret) {
  bool stays = !is_to_spare(r) && *now_ns < r->leave_ns;
  bool way = stays && gives_way(s, r, *now_ns) && r->crew->startable > 0;

  r->crew->active--;
  s->counts.runners--;
  if (stays && !way && take(s, r, false, *now_ns, ret))
    return true;
  if (r->crew->active == 0)
    r->crew->idle_since_ns = *now_ns;
  if (way) {
    uvs__unlock_and_wake(s, *now_ns);
    *now_ns = give_way(s, r, *now_ns);
    uvs__lock(s);
    if (take(s, r, true, *now_ns, ret))
      return true;
  }
  return linger(s, r, now_ns, ret);
}

void uvs__run_tasks(struct uvs__runner *r) {
  uvs_t *s = r->scheduler;
  uint64_t now_ns = uvs__now(s);
  struct uvs__started st;
  bool found;

  if (gives_way(s, r, now_ns))
    now_ns = give_way(s, r, now_ns);
  r->leave_ns = now_ns + s->budget_ns;
  r->linger_ns = now_ns + (s->budget_ns < UVS__MS ? s->budget_ns : UVS__MS);
  r->waited = uvs__lock(s);
  r->crew->seeking--;
  found = take(s, r, true, now_ns, &st);
  while (found) {
    uvs__unlock_and_wake(s, now_ns);
    now_ns = run_one(s, r, &st);
    found = go_on(s, r, &now_ns, &st);
  }
  uvs__unlock_and_wake(s, now_ns);
}
