/* SPDX-License-Identifier: MIT
 *
 * occurrence: computes when a calendar task runs next, on the loop and without the lock.
 *
 * A calendar task that needs its next time is on the list of tasks that are owed a callback. When
 * this file has computed the time, the task moves to the queue of the wall clock. About once a
 * minute the loop checks the files of the time zones. If one has changed, the loop computes the
 * next times of all calendar tasks again.
 */
#include "loop/loop.h"

#include "task/occasion.h"

#define LOOK_NS (60000 * UVS__MS)

/* Lock held. */
static void apply_occasion(uvs_t *s, uint32_t slot, struct uvs__task *t, struct uvs__extra *x,
                           const struct uvs__occasion *o, uint64_t wall_ns) {
  x->point_owed = x->point_passed = x->zone_changed = false;
  if (o->ideal_ns > x->until_ns || o->ideal_ns == UVS__NEVER) {
    uvs__complete(s, slot);
    return;
  }
  uvs__miss(s, x, o->missed, x->missed_reason);
  x->missed_next += o->missed;
  x->last_ns = o->last_ns;
  x->passed_ns = o->passed_ns;
  if (o->ideal_ns > wall_ns)
    x->step_ns = 0; /* the run is not late */
  /* Occurrences after the end time do not count as missed. But SKIP still skips a run because of
   * them. */
  if (x->policy != UVS_MISSED_SKIP && x->passed_ns > x->until_ns)
    x->passed_ns = UVS__NEVER;
  uvs__set_due(t, x, o->ideal_ns,
               uvs__jitter(s->seed, uvs__local_id(t, slot), x->runs, x->jitter_ns));
}

/* What the task knows about its next run, copied under the lock. */
struct known {
  struct uvs__occasions c;
  struct uvs__occasion run;
  uint64_t grid_ns, until_ns;
  bool passed, zone_changed, retried;
};

/* Lock held. */
static struct known known_of(const struct uvs__task *t, const struct uvs__extra *x) {
  return (struct known){
      .c = {x->calendar, x->policy, x->max_burst},
      .run = {uvs__ideal_of(t, x), x->last_ns, x->passed_ns, 0},
      .grid_ns = x->grid_ns,
      .until_ns = x->until_ns,
      .passed = x->point_passed,
      .zone_changed = x->zone_changed,
      .retried = x->missed_reason == UVS_LATE_RETRY,
  };
}

/* Without the lock. */
static struct uvs__occasion next_occasion(const struct known *k, uint64_t wall_ns) {
  uint64_t until_ns =
      k->c.policy != UVS_MISSED_SKIP && k->until_ns < wall_ns ? k->until_ns : wall_ns;

  if (k->zone_changed && k->run.ideal_ns > wall_ns)
    return uvs__occasion_again(&k->c, k->grid_ns, wall_ns);
  if (!k->passed && !k->zone_changed)
    return uvs__occasion_after(&k->c, k->grid_ns, k->retried, wall_ns);
  if (until_ns < k->run.passed_ns) /* possible if the clock was set back meanwhile */
    return k->run;
  return uvs__occasion_passed(&k->c, k->run.ideal_ns, k->run.last_ns, until_ns);
}

void uvs__find_occurrence(uvs_t *s, uint32_t slot) {
  struct uvs__task *t = uvs__task(s, slot);
  struct uvs__extra *x = uvs__extra(s, t);
  struct known k = known_of(t, x);
  struct uvs__occasion o;
  uint64_t wall_ns;

  uvs__unlock(s); /* the task is on the owed list: it cannot be freed */
  wall_ns = uvs__clock_wall(&s->clock);
  o = next_occasion(&k, wall_ns);
  uvs__lock(s);
  /* The task may have been cancelled, moved, paused or resumed meanwhile. Use the result only if it
   * still fits. Otherwise a task that still needs a time stays on the owed list. */
  if (t->state == UVS__WAITING && x->point_owed && k.grid_ns == x->grid_ns &&
      k.zone_changed == x->zone_changed && k.passed == x->point_passed)
    apply_occasion(s, slot, t, x, &o, wall_ns);
}

/* ---- zones ---- */

/* Lock held: does the task (which may be paused) wait for an occurrence that was computed? A task
 * that was rescheduled does not: its time is not later than grid_ns. */
static bool waits_for_occurrence(const struct uvs__task *t, const struct uvs__extra *x) {
  return t->kind == UVS_CALENDAR && t->state == UVS__WAITING && t->place != UVS__IN_OWED &&
         !uvs__is_off_grid(x) && uvs__ideal_of(t, x) > x->grid_ns;
}

void uvs__look_at_zones(uvs_t *s, uint64_t now_ns) {
  uint64_t generation;

  if (!s->any_calendars || now_ns < s->zones_look_ns)
    return;
  s->zones_look_ns = now_ns + LOOK_NS;
  uvs__unlock(s);
  generation = uvs_calendar_refresh(); /* reads files */
  uvs__lock(s);
  if (generation == s->zones_generation)
    return;
  s->zones_generation = generation;
  for (uint32_t slot = 0; slot < s->table.tasks.made; slot++) {
    struct uvs__task *t = uvs__task(s, slot);
    struct uvs__extra *x = uvs__extra(s, t);

    if (x != NULL && t->kind == UVS_CALENDAR && x->extra_run && x->saved_ns > x->grid_ns)
      x->saved_ns = UVS__NEVER; /* computed after the extra run */
    if (x != NULL && waits_for_occurrence(t, x)) {
      uvs__unfile(s, slot, t);
      uvs__owe_point(x, false, UVS_LATE_CLOCK);
      x->zone_changed = true;
      uvs__file(s, slot, now_ns);
    }
    if (slot % UVS__BATCH == UVS__BATCH - 1)
      uvs__let_others_in(s);
  }
}
