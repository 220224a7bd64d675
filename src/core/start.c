/* SPDX-License-Identifier: MIT
 *
 * start: a run begins. Which point of the grid does it stand for, and how late is it?
 *
 * Everything that the body will see is copied into a record on the stack of the thread that runs
 * it. So the body can be called without the lock.
 */
#include "core/trace.h"

/* Collects the instants that split the lateness of the run into its causes. x NULL: the task is
 * plain, and this needs no lock. */
static inline struct uvs__late how_late(const uvs_t *s, const struct uvs__task *t,
                                        const struct uvs__extra *x, unsigned flags,
                                        uint32_t turn_us, const struct uvs__seat *seat,
                                        int64_t start_ns) {
  struct uvs__late l = {
      .due_ns = (int64_t)t->due_ns,
      .start_ns = start_ns,
      .turn_ns = (int64_t)(t->ready_ns - (uint64_t)turn_us * 1000),
      .ready_ns = (int64_t)t->ready_ns,
      .home_ns = (int64_t)seat->idle_since_ns,
      .again_ns = (int64_t)seat->recalled_ns,
      .resumed_ns = (int64_t)uvs__load(&s->resumed_ns, relaxed), /* a time; orders nothing */
      .on_loop = (flags & UVS__ON_LOOP) != 0,
      .timed = (flags & UVS__DELAYED) != 0,
  };

  if (x == NULL)
    return l;
  l.first = x->runs == 0;
  l.since_ns = (int64_t)x->since_ns;
  l.ended_ns = x->run.end_ns;
  l.after_ns = (int64_t)x->after_ns;
  if (x->since_resumed)
    uvs__late_resumed(&l);
  if (uvs__has(t, UVS__WALL)) {
    l.due_ns = l.ready_ns - (int64_t)x->wall_late_ns;
    l.step_ns = (int64_t)x->step_ns;
  }
  return l;
}

/* Which point of the grid does this run stand for? Others may be left out, or merged into it. */
static struct uvs__point choose_point(uvs_t *s, const struct uvs__task *t, struct uvs__extra *x,
                                      const struct uvs__late *l) {
  struct uvs__recur r = uvs__recur_of(t, x);
  uint64_t ideal_ns = uvs__ideal_of(t, x);
  uint64_t start_ns = (uint64_t)l->start_ns;
  int64_t by_ns[UVS_LATE_CAUSES];
  struct uvs__point p;

  if (uvs__is_off_grid(x))
    return (struct uvs__point){ideal_ns, 0};
  /* Points after the end time are not missed. */
  p = uvs__recur_start(&r, ideal_ns, start_ns < x->until_ns ? start_ns : x->until_ns);
  if (p.missed > 0)
    uvs__miss(s, x, p.missed, uvs__late_split(l, by_ns));
  return p;
}

/* Copies what every body sees. */
static inline void copy(uvs_t *s, struct uvs__task *t, struct uvs__extra *x,
                        struct uvs__started *st) {
  uvs_run_t *run = &st->run;

  st->body = t->fn;
  st->queue_ns = (uint64_t)run->start_ns - t->ready_ns;
  st->context = (struct uvs__context){
      .scheduler = s, .token = &t->token, .extra = x, .limit_due_ns = UVS__NEVER};
  run->scheduler = s;
  run->arg = t->arg;
  run->runner = st->seat.runner;
  run->status = 0;
  run->end_ns = 0;
  run->state = &st->context;
}

/* The task is RUNNING and has no extra record. So only this thread writes the fields that are read
 * here. `seat`, `flags` and `turn_us` were copied under the lock. */
void uvs__start_plain(uvs_t *s, struct uvs__started *st) {
  struct uvs__task *t = uvs__task(s, (uint32_t)st->run.id & UVS__SLOT_MASK);
  struct uvs__late l = how_late(s, t, NULL, st->flags, st->turn_us, &st->seat, st->run.start_ns);
  uvs_run_t *run = &st->run;

  copy(s, t, NULL, st);
  run->ideal_ns = (int64_t)t->due_ns;
  run->number = 1;
  run->missed = 0;
  run->late_ns = run->start_ns <= l.due_ns ? 0 : run->start_ns - l.due_ns;
  run->culprit = uvs__late_split(&l, run->late_by_ns);
}

/* Lock held: does the same for a task with an extra record, and updates that record. */
static void begin(uvs_t *s, struct uvs__task *t, struct uvs__extra *x, struct uvs__started *st) {
  uvs_run_t *run = &st->run;
  struct uvs__late l = how_late(s, t, x, t->flags, t->turn_us, &st->seat, st->run.start_ns);
  struct uvs__point p = choose_point(s, t, x, &l);

  copy(s, t, x, st);
  l.due_ns += (int64_t)(p.ideal_ns - uvs__ideal_of(t, x)); /* skipped points are no lateness */
  run->ideal_ns = (int64_t)p.ideal_ns;
  run->missed = x->missed_next + p.missed;
  x->missed_next = 0;
  if (x->runs < UINT32_MAX)
    x->runs++;
  run->number = x->runs;
  run->late_ns = run->start_ns <= l.due_ns ? 0 : run->start_ns - l.due_ns;
  run->culprit = uvs__late_split(&l, run->late_by_ns);
  if (s->decorate_cb != NULL) {
    run->arg = x->decoration.arg;
    st->body = x->decoration.work;
  }
  st->narrow = x->narrow;
  if (x->run_limited)
    uvs__limit_start(s, t, x, (uint64_t)run->start_ns);
  st->limited = x->limit_due_ns != UVS__NEVER;
  st->context.limit_due_ns = x->limit_due_ns;
  st->context.gate = x->gate;
  st->context.kept = uvs__has(t, UVS__KEPT);
  uvs__store(&x->spared, false, relaxed); /* the lock publishes it to the body */
  x->interrupted = false;
  x->at_once = false;
  x->step_ns = 0;
  uvs__use_point(t, x);
  x->run = (struct uvs__record){
      .ideal_ns = run->ideal_ns,
      .start_ns = run->start_ns,
      .missed = run->missed,
      .merged = x->policy == UVS_MISSED_ONCE ? p.missed : 0,
      .runner = run->runner,
  };
  x->seen = 0;
  x->timed_out = false;
  if (!st->limited) /* else see uvs__return_body: the limit may pass before the body is called */
    uvs__name_started(s, x, run);
  for (int i = 0; i < UVS_LATE_CAUSES; i++)
    x->late_by_ns[i] = run->late_by_ns[i];
}

/* Records the start. A plain task is copied at once, because the record says why it is late. Not
 * inline, so that uvs__start stays short. */
__attribute__((noinline)) static void trace_start(uvs_t *s, const struct uvs__task *t,
                                                  struct uvs__started *st) {
  if (st->plain)
    uvs__start_plain(s, st);
  st->plain = false;
  uvs__trace_put_start(s, t, &st->run);
}

void uvs__start(uvs_t *s, uint32_t slot, const struct uvs__seat *seat, uint64_t now_ns,
                struct uvs__started *ret) {
  struct uvs__task *t = uvs__task(s, slot);
  struct uvs__extra *x = uvs__extra(s, t);

  if (!uvs__has(t, UVS__WALL) && now_ns < t->due_ns)
    now_ns = t->due_ns; /* the task became due after the caller had read the clock */
  if (now_ns < t->ready_ns)
    now_ns = t->ready_ns; /* the same */
  uvs__unready(s, slot, t, true);
  uvs__set_state(t, UVS__RUNNING);
  s->counts.ready--;
  s->counts.running++;
  s->counts.runs++;
  t->flags |= UVS__RAN;
  uvs__store(&t->token, 0, relaxed); /* the lock publishes it to the body */
  ret->run.id = uvs__id_of(s, t, slot);
  ret->run.start_ns = (int64_t)now_ns;
  ret->seat = *seat;
  ret->flags = t->flags;
  ret->turn_us = t->turn_us;
  ret->plain = x == NULL;
  ret->limited = false;
  ret->narrow = false;
  ret->wall = uvs__has(t, UVS__WALL);
  if (x != NULL)
    begin(s, t, x, ret);
  if (uvs__is_traced(s))
    trace_start(s, t, ret);
}

/* ---- tasks that do not start ---- */

/* READY: the wall clock now, computed from when the task became READY. */
static uint64_t wall_now(const struct uvs__task *t, const struct uvs__extra *x, uint64_t now_ns) {
  return t->due_ns + x->wall_late_ns + (now_ns < t->ready_ns ? 0 : now_ns - t->ready_ns);
}

/* SKIP: if a later occurrence has passed, leaves this run out. The loop computes the next run. */
static bool leave_out_occurrence(uvs_t *s, uint32_t slot, const struct uvs__seat *seat,
                                 uint64_t now_ns) {
  struct uvs__task *t = uvs__task(s, slot);
  struct uvs__extra *x = uvs__extra(s, t);
  int64_t by_ns[UVS_LATE_CAUSES];
  struct uvs__late l;

  if (wall_now(t, x, now_ns) < x->passed_ns)
    return false;
  l = how_late(s, t, x, t->flags, t->turn_us, seat, (int64_t)now_ns);
  uvs__owe_point(x, true, uvs__late_split(&l, by_ns));
  uvs__unready(s, slot, t, false);
  uvs__back_to_waiting(s, slot);
  uvs__file(s, slot, now_ns);
  return true;
}

/* UVS_MISSED_SKIP: if a whole period has passed while the task was READY, it goes on to the next
 * point without a run. */
static bool leave_out(uvs_t *s, uint32_t slot, const struct uvs__seat *seat, uint64_t now_ns) {
  struct uvs__task *t = uvs__task(s, slot);
  struct uvs__extra *x = uvs__extra(s, t);
  int64_t by_ns[UVS_LATE_CAUSES];
  struct uvs__recur r;
  struct uvs__point p;
  struct uvs__late l;

  if (x == NULL || x->policy != UVS_MISSED_SKIP || uvs__is_off_grid(x))
    return false;
  if (t->kind == UVS_CALENDAR)
    return leave_out_occurrence(s, slot, seat, now_ns);
  r = uvs__recur_of(t, x);
  p = uvs__recur_due(&r, uvs__ideal_of(t, x), now_ns);
  if (p.missed == 0)
    return false;
  l = how_late(s, t, x, t->flags, t->turn_us, seat, (int64_t)now_ns);
  uvs__miss(s, x, p.missed, uvs__late_split(&l, by_ns));
  x->missed_next += p.missed;
  uvs__set_due(t, x, p.ideal_ns, x->jitter_now_ns);
  uvs__unready(s, slot, t, false);
  uvs__back_to_waiting(s, slot);
  if (p.ideal_ns > x->until_ns)
    uvs__complete(s, slot);
  else
    uvs__file(s, slot, now_ns);
  return true;
}

/* If the limit has passed before the task could start, the run ends without its body. */
static bool time_out(uvs_t *s, uint32_t slot, uint64_t now_ns) {
  struct uvs__task *t = uvs__task(s, slot);
  struct uvs__extra *x = uvs__extra(s, t);

  if (x == NULL || !uvs__limit_passed(x, now_ns))
    return false;
  uvs__time_out_unstarted(s, slot, now_ns);
  return true;
}

uint32_t uvs__start_next(uvs_t *s, struct uvs__ready *r, const struct uvs__seat *seat,
                         uint64_t now_ns, struct uvs__started *ret, int *steps) {
  uint32_t slot = UVS__NONE;
  uint32_t next;

  for (; *steps > 0; --*steps) {
    slot = uvs__ready_first(&s->table, r);
    if (slot == UVS__NONE)
      return UVS__NONE;
    if (!time_out(s, slot, now_ns) && !leave_out(s, slot, seat, now_ns))
      break;
    slot = UVS__NONE;
  }
  if (slot == UVS__NONE)
    return UVS__NONE;
  next = uvs__link_at(&s->table, slot)->b; /* almost always the task that starts after this one */
  if (next != UVS__NONE)
    __builtin_prefetch(uvs__task(s, next), 1);
  uvs__start(s, slot, seat, now_ns, ret);
  uvs__ready_turn(r);
  return slot;
}
