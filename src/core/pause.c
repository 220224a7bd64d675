/* SPDX-License-Identifier: MIT
 *
 * pause: pauses and resumes tasks, and makes extra runs.
 *
 * A paused task is WAITING in no queue, or RUNNING. It keeps its id, its place in its lane and its
 * deadline, which may pass during the pause.
 */
#include "core/moves.h"

#include "core/wake.h"

/* The task is WAITING: files it again, and wakes the loop if necessary. */
static void refile(uvs_t *s, uint32_t slot, uint64_t now_ns) {
  const struct uvs__task *t = uvs__task(s, slot);

  if (t->place == UVS__NOWHERE) /* else it is on the owed list, and the loop files it */
    uvs__file(s, slot, now_ns);
  if (t->place == UVS__IN_WALL)
    uvs__note_due(s, 0);
}

void uvs__unmake_ready(uvs_t *s, uint32_t slot, uint64_t now_ns) {
  uvs__unready(s, slot, uvs__task(s, slot), false);
  uvs__back_to_waiting(s, slot);
  uvs__file(s, slot, now_ns);
}

void uvs__pause(uvs_t *s, uint32_t slot, uint64_t now_ns) {
  struct uvs__task *t = uvs__task(s, slot);

  uvs__extra(s, t)->paused = true;
  uvs__extra(s, t)->at_once = false; /* an extra run that has not started waits, too */
  if (t->state == UVS__WAITING)
    uvs__unfile(s, slot, t);
  else if (t->state == UVS__READY)
    uvs__unmake_ready(s, slot, now_ns);
}

/* Fixed rate: the first point of the grid, from ideal_ns on, that is not before now. */
static uint64_t first_not_passed(const struct uvs__task *t, const struct uvs__extra *x,
                                 uint64_t ideal_ns, uint64_t now_ns) {
  struct uvs__recur r = uvs__recur_of(t, x);

  r.policy = UVS_MISSED_SKIP;
  return ideal_ns >= now_ns ? ideal_ns : uvs__recur_next(&r, ideal_ns, 0, now_ns).ideal_ns;
}

/* Calendar: makes the next regular run stand for the first occurrence that is not before now. */
static void forget_occurrences(struct uvs__task *t, struct uvs__extra *x, uint64_t wall_ns) {
  uint64_t next_ns = x->extra_run ? x->saved_ns : uvs__ideal_of(t, x);

  if (x->grid_ns == UVS__NEVER) /* the task was moved to UVS_NEVER, and stays there */
    return;
  if (!x->point_owed && next_ns >= wall_ns && next_ns != UVS__NEVER)
    return;
  if (x->grid_ns + 1 < wall_ns)
    x->grid_ns = wall_ns - 1; /* an occurrence at wall_ns counts */
  if (x->extra_run) {
    x->saved_ns = UVS__NEVER; /* computed after the extra run */
    return;
  }
  uvs__owe_point(x, false, UVS_LATE_PAUSED);
  uvs__set_due(t, x, UVS__NEVER, 0);
}

/* Moves the next regular run to the first point that is not before now. While a regular run is in
 * progress or waits for its retry, nothing is forgotten: the run is why its points are missed. */
static void forget_passed(struct uvs__task *t, struct uvs__extra *x, uint64_t now_ns,
                          uint64_t wall_ns) {
  if (!x->extra_run && (t->state != UVS__WAITING || uvs__is_retrying(x)))
    return;
  if (t->kind == UVS_FIXED_RATE && x->extra_run)
    x->saved_ns = first_not_passed(t, x, x->saved_ns, now_ns);
  else if (t->kind == UVS_FIXED_RATE)
    uvs__set_due(t, x, first_not_passed(t, x, uvs__ideal_of(t, x), now_ns), x->jitter_now_ns);
  else if (t->kind == UVS_CALENDAR)
    forget_occurrences(t, x, wall_ns);
}

void uvs__resume(uvs_t *s, uint32_t slot, bool forget, uint64_t now_ns, uint64_t wall_ns) {
  struct uvs__task *t = uvs__task(s, slot);
  struct uvs__extra *x = uvs__extra(s, t);
  uint64_t due_ns = t->due_ns;

  x->paused = false;
  if (forget)
    forget_passed(t, x, now_ns, wall_ns);
  if (t->state != UVS__WAITING)
    return;
  x->since_ns = now_ns;
  x->since_resumed = true;
  if (t->kind == UVS_FIXED_RATE && t->due_ns != due_ns && uvs__ideal_of(t, x) > x->until_ns) {
    uvs__complete(s, slot); /* its next point is after its end time */
    return;
  }
  refile(s, slot, now_ns);
}

void uvs__run_extra(uvs_t *s, uint32_t slot, uint64_t now_ns, uint64_t wall_ns) {
  struct uvs__task *t = uvs__task(s, slot);
  struct uvs__extra *x = uvs__extra(s, t);

  if (!uvs__is_off_grid(x)) { /* else a retry, or an extra run that uvs_pause has held back */
    x->saved_ns = x->zone_changed ? UVS__NEVER : uvs__ideal_of(t, x);
    x->extra_run = true;
  }
  x->point_owed = x->zone_changed = false;
  x->at_once = true;
  uvs__unfile(s, slot, t);
  uvs__set_due(t, x, uvs__has(t, UVS__WALL) ? wall_ns : now_ns, 0);
  x->since_ns = now_ns;
  x->since_resumed = false;
  x->step_ns = 0;
  refile(s, slot, now_ns);
}
