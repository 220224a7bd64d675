/* SPDX-License-Identifier: MIT
 *
 * events: events that the store remembers, so that every process that has opened it learns of them.
 */
#include "jobs/engine.h"

#include "jobs/alloc.h"

struct look {
  struct uvs__ask ask;
  struct uvs__events_request r;
  uint64_t seen;
};

static void handle(uvs_jobs_t *jobs, const struct uvs__event *e) {
  int state = e->what == UVS_EVENT_DEAD        ? UVS_JOB_DEAD
              : e->what == UVS_EVENT_CANCELLED ? UVS_JOB_CANCELLED
              : e->what == UVS_EVENT_REPLACED  ? UVS_JOB_REPLACED
                                               : 0;

  if (state != 0)
    uvs__waits_event(jobs, e->id, state);
  if (e->what == UVS_EVENT_QUEUE_CHANGED)
    uvs__workers_due(jobs);
  uvs__tell(jobs, e->what, e->id, e->text);
}

static void answered(uvs_jobs_t *jobs, struct uvs__ask *ask, int status) {
  struct look *look = UVS__OWNER(ask, struct look, ask);
  struct uvs__keeper *k = &jobs->keeper;

  for (size_t i = 0; status == 0 && i < look->r.n; i++) {
    handle(jobs, &look->r.events[i]);
    k->events_last = look->r.events[i].number;
  }
  if (status == 0 && look->r.n == 0)
    k->events_last = look->r.last;
  if (status != UVS_EDOWN && (status != 0 || k->events_last == look->r.last))
    k->events_seen = look->seen; /* if the store refuses, its next event makes us ask again */
  k->looking_at_events = false;
  uvs__arena_free(&look->r.arena);
  uvs__jobs_free(look);
}

void uvs__events_look(uvs_jobs_t *jobs) {
  struct uvs__keeper *k = &jobs->keeper;
  struct look *look;

  if (k->looking_at_events || k->events_seen == k->store->events)
    return;
  look = uvs__jobs_alloc(sizeof *look);
  if (look == NULL)
    return; /* the next pass tries again */
  k->looking_at_events = true;
  look->seen = k->store->events;
  look->r.r.op = UVS__EVENTS;
  look->r.after = k->events_last;
  look->ask.request = &look->r.r;
  look->ask.repeat = UVS__ONCE;
  look->ask.answered = answered;
  uvs__keeper_ask(jobs, &look->ask);
}
