/* SPDX-License-Identifier: MIT
 *
 * make: makes a task from a checked spec, and allocates the memory for it.
 */
#include "core/moves.h"

#include "uvsched/calendar.h"

#include <string.h>

/* A plain one-shot needs no extra record, unless it was due before it was submitted: then the
 * record holds the time of the submission. */
bool uvs__needs_extra(const uvs_t *s, const uvs_task_t *t, uint64_t now_ns) {
  return s->decorate_cb != NULL || t->kind != UVS_ONE_SHOT || t->from == UVS_FROM_WALL ||
         uvs__is_past(t, now_ns) || (t->work != NULL && t->after != NULL) || t->jitter_ns != 0 ||
         t->name != NULL || t->keep_outcome != 0 || t->lane != 0 ||
         t->failure_policy != UVS_FAIL_STOP || t->interrupt != NULL || t->limit.run_ns != 0 ||
         t->limit.total_ns != 0;
}

static void fill_extra(uvs_t *s, struct uvs__task *k, struct uvs__extra *x, const uvs_task_t *t,
                       uint64_t now_ns) {
  uint64_t jitter_ns = uvs__jitter(s->seed, uvs__local_id(k, x->slot), 0, (uint64_t)t->jitter_ns);

  x->after = t->work != NULL ? t->after : NULL;
  x->period_ns = (uint64_t)t->period_ns;
  x->policy = (uint8_t)t->missed_policy;
  x->max_burst = t->max_burst;
  x->max_runs = t->max_runs;
  x->until_ns = t->until_ns == 0 ? UVS__NEVER : uvs__instant_of(t, t->until_ns, now_ns);
  x->jitter_ns = (uint64_t)t->jitter_ns;
  x->failure = (uint8_t)t->failure_policy;
  x->max_failures = t->max_failures;
  x->retry_ns = (uint64_t)t->retry.wait_ns;
  x->retry_max_ns = t->retry.max_wait_ns == 0 ? UVS__NEVER : (uint64_t)t->retry.max_wait_ns;
  x->retry_jitter = (uint8_t)t->retry.jitter_percent;
  x->limited = t->limit.run_ns != 0 || t->limit.total_ns != 0;
  x->run_limited = t->limit.run_ns != 0;
  x->run_limit_ns = (uint64_t)t->limit.run_ns;
  x->total_limit_ns = t->limit.total_ns == 0 ? UVS__NEVER : (uint64_t)t->limit.total_ns;
  x->limit_due_ns = UVS__NEVER;
  x->limit_status = t->limit.substitute != 0 ? t->limit.status : UV_ETIMEDOUT;
  x->limit_result = t->limit.result;
  x->since_ns = now_ns;
  x->decorate = s->decorate_cb != NULL;
  x->decoration = (uvs_decoration_t){k->fn, k->arg, NULL};
  x->result = x->run_result = x->preset = t->result; /* valid even if no run ever starts */
  x->drop_result = t->drop_result;
  x->lane_previous = x->lane_next = UVS__NONE;
  x->interrupt = t->interrupt;
  s->any_interrupts |= t->interrupt != NULL;
  s->any_drops |= t->drop_result != NULL;
  if (t->name != NULL)
    memcpy(x->name, t->name, strlen(t->name));
  uvs__set_due(k, x, k->due_ns, jitter_ns);
}

void uvs__begin_calendar(uvs_t *s, uint32_t slot, const uvs_task_t *t, uint64_t wall_ns) {
  struct uvs__task *k = uvs__task(s, slot);
  struct uvs__extra *x = uvs__extra(s, k);
  uint64_t first_ns = uvs__instant_of(t, t->first_ns, wall_ns);

  x->calendar = uvs_calendar_retain(t->calendar);
  x->until_ns = t->until_ns == 0 ? UVS__NEVER : uvs__instant_of(t, t->until_ns, wall_ns);
  x->grid_ns = first_ns > wall_ns ? first_ns - 1 : wall_ns; /* an occurrence at first_ns counts */
  uvs__set_due(k, x, UVS__NEVER, 0);
  uvs__owe_point(x, false, UVS_LATE_SUBMIT);
  s->any_calendars = true;
}

uint32_t uvs__make_task(uvs_t *s, const uvs_task_t *t, bool extra, uint64_t now_ns) {
  uint32_t slot = uvs__make_plain(s, t, now_ns);
  struct uvs__task *k = uvs__task(s, slot);

  if (extra) {
    uvs__table_add_extra(&s->table, slot);
    fill_extra(s, k, uvs__extra(s, k), t, now_ns);
  }
  return slot;
}

/* ---- room ---- */

/* Lock held, but released to allocate. 0, UV_ENOMEM. */
static int grow(uvs_t *s, struct uvs__slots *slots) {
  struct uvs__slots_chunk c;
  unsigned k = slots->chunks;
  int rc;

  uvs__unlock(s);
  rc = uvs__slots_prepare(slots, k, &s->mem, &c);
  uvs__lock(s);
  if (rc < 0)
    return UV_ENOMEM;
  uvs__table_attach(&s->table, slots, &c);
  if (c.raw == NULL)
    return 0;
  uvs__unlock(s); /* another thread has attached this chunk */
  uvs__mem_free(&s->mem, c.raw);
  uvs__lock(s);
  return 0;
}

int uvs__reserve(uvs_t *s, size_t tasks, size_t extras) {
  for (;;) {
    bool lacks_tasks = uvs__slots_room(&s->table.tasks) < tasks;
    int rc;

    if (!lacks_tasks && uvs__slots_room(&s->table.extras) >= extras)
      return 0;
    rc = grow(s, lacks_tasks ? &s->table.tasks : &s->table.extras);
    if (rc < 0)
      return rc;
  }
}
