/* SPDX-License-Identifier: MIT
 *
 * events: tells the user what happened. Some events are the engine's; others are remembered by the
 * store, so that every process that has opened it learns of them.
 */
#include "jobs/engine.h"

#include <string.h>

#include "jobs/alloc.h"

static void deliver(struct uvs__message *m, void *to) {
  struct uvs__news *n = UVS__OWNER(m, struct uvs__news, message);
  uvs_jobs_t *jobs = to;
  uvs_jobs_event_t event = {n->what, n->id, n->text};

  jobs->options.on_event(jobs, &event, jobs->options.arg);
  uvs__jobs_free(n);
}

void uvs__tell(uvs_jobs_t *jobs, int what, const char *id, const char *text) {
  size_t id_size = id == NULL ? 0 : strlen(id) + 1, text_size = strlen(text) + 1;
  struct uvs__news *n;
  char *strings;

  if (jobs->options.on_event == NULL)
    return;
  n = uvs__jobs_alloc(sizeof *n + id_size + text_size);
  if (n == NULL)
    return;
  strings = (char *)(n + 1);
  n->what = what;
  n->text = memcpy(strings + id_size, text, text_size);
  if (id != NULL)
    n->id = memcpy(strings, id, id_size);
  n->message.receive = deliver;
  if (!uvs__mailbox_send(&jobs->user, &n->message))
    uvs__jobs_free(n);
}

/* ------------------------------------------------------- events of the store --- */

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
    k->events_seen = look->seen; /* a store that refuses is asked again after its next event */
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
