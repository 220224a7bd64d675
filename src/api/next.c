/* SPDX-License-Identifier: MIT
 *
 * next: uvs_next_runs. Lists the next runs of a task, as if nothing delayed them.
 */
#include "api/api.h"

#include "task/occasion.h"
#include "uvsched/calendar.h"
#include "uvsched/control.h"

/* Everything that the list of next runs depends on, copied under the lock. */
struct forecast {
  int kind;
  bool off_grid; /* an extra run or a retry comes first, at off_grid_ns */
  uint64_t off_grid_ns;
  uint64_t first_ns; /* the first run on the grid; calendar: UVS__NEVER if it is not known yet */
  uint64_t last_ns;  /* calendar: the runs on the grid are for later occurrences than this */
  uint64_t period_ns;
  uint64_t until_ns;
  uint64_t left; /* how many runs there may be */
  uvs_calendar_t *calendar;
};

/* Lock held: the first run on the grid that has not started. */
static uint64_t first_run(const struct uvs__task *t, const struct uvs__extra *x) {
  bool running = t->state == UVS__RUNNING;
  struct uvs__recur r;

  if (x == NULL)
    return running ? UVS__NEVER : t->due_ns;
  if (x->extra_run)
    return x->saved_ns;
  if (!running && !uvs__is_retrying(x))
    return uvs__ideal_of(t, x);
  if (t->kind != UVS_FIXED_RATE)
    return UVS__NEVER;
  if (!uvs__is_retrying(x))
    return uvs__steps_later((uint64_t)x->run.ideal_ns, x->run.merged + 1, x->period_ns);
  r = uvs__recur_of(t, x);
  r.policy = UVS_MISSED_SKIP; /* as after the retry */
  return uvs__recur_next(&r, x->grid_ns, 0, running ? (uint64_t)x->run.ideal_ns : t->due_ns)
      .ideal_ns;
}

/* Lock held. */
static struct forecast forecast_of(const struct uvs__task *t, const struct uvs__extra *x) {
  struct forecast f = {.kind = (int)t->kind,
                       .first_ns = first_run(t, x),
                       .until_ns = UVS__NEVER,
                       .left = UINT64_MAX};

  if (x == NULL)
    return f;
  f.off_grid = uvs__is_off_grid(x) && t->state != UVS__RUNNING;
  f.off_grid_ns = t->due_ns;
  f.until_ns = x->until_ns;
  if (x->max_runs != 0)
    f.left = x->max_runs - x->runs;
  if (x->held || (x->paused && !x->at_once))
    f.left = 0;
  else if (x->paused && f.left > 1)
    f.left = 1; /* uvs_run_now */
  if (t->kind == UVS_CALENDAR) {
    f.calendar = uvs_calendar_retain(x->calendar);
    f.last_ns = x->grid_ns;
    if (uvs__is_retrying(x) && !x->extra_run) { /* occurrences before the retry are missed */
      uint64_t retry_ns = t->state == UVS__RUNNING ? (uint64_t)x->run.ideal_ns : t->due_ns;

      if (retry_ns > f.last_ns)
        f.last_ns = retry_ns - 1;
    }
    if (x->point_owed)
      f.first_ns = UVS__NEVER;
  } else {
    f.period_ns = x->period_ns;
  }
  return f;
}

/* The n-th run on the grid. The run before it is at previous_ns. UVS__NEVER: none, or not known. */
static uint64_t following(const struct forecast *f, size_t n, uint64_t previous_ns) {
  if (f->kind == UVS_CALENDAR && (n > 0 || f->first_ns == UVS__NEVER))
    return (uint64_t)uvs_calendar_next(f->calendar, (int64_t)(n == 0 ? f->last_ns : previous_ns));
  if (n == 0)
    return f->first_ns;
  return f->kind == UVS_FIXED_RATE ? uvs__steps_later(previous_ns, 1, f->period_ns) : UVS__NEVER;
}

static int tell_forecast(const struct forecast *f, int64_t *ret_ns, size_t n) {
  uint64_t run_ns = 0;
  size_t told = 0;

  if (n > f->left)
    n = (size_t)f->left;
  if (n > INT_MAX)
    n = INT_MAX;
  if (f->off_grid && (f->off_grid_ns == UVS__NEVER || f->off_grid_ns > f->until_ns))
    return 0;
  if (f->off_grid && told < n)
    ret_ns[told++] = (int64_t)f->off_grid_ns;
  for (size_t i = 0; told < n; i++) {
    run_ns = following(f, i, run_ns);
    if (run_ns == UVS__NEVER || run_ns > f->until_ns)
      break;
    ret_ns[told++] = (int64_t)run_ns;
  }
  return (int)told;
}

int uvs_next_runs(uvs_t *s, uvs_id_t id, int64_t *ret_ns, size_t n) {
  struct forecast f = {.calendar = NULL};
  const struct uvs__task *t;
  uint32_t slot;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (ret_ns == NULL && n > 0)
    return UV_EINVAL;
  uvs__lock(s);
  t = uvs__table_find(&s->table, id, &slot);
  if (t == NULL || uvs__is_settled(t))
    rc = UV_ENOENT;
  else
    f = forecast_of(t, uvs__extra(s, t));
  uvs__unlock(s);
  if (rc == 0)
    rc = tell_forecast(&f, ret_ns, n);
  uvs_calendar_release(f.calendar);
  return rc;
}
