/* SPDX-License-Identifier: MIT
 *
 * The only header through which a test of public behaviour may look inside a scheduler. Programs
 * that include it are compiled with src/ in their include path.
 *
 * Use a public call where there is one (uvs_counts, uvs_info, uvs_next_due, uvs_each).
 *
 * Call these on the loop thread while no other thread is inside the scheduler. inspect_stat_... may
 * be called on any thread, but for each writer on one thread at a time.
 */
#ifndef TEST_INSPECT_H
#define TEST_INSPECT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "uvsched/outcome.h"
#include "uvsched/settings.h"
#include "uvsched/stats.h"
#include "uvsched/queue.h"

#include "lib/check.h"
#include "pool/crew.h"
#include "queue/queue.h"
#include "util/heap.h"
#include "util/stats.h"

/* An id is a slot, its generation, and the number of the scheduler. The first generation is 1. */
static inline uint32_t inspect_slot_of(uvs_id_t id) {
  return (uint32_t)id & UVS__SLOT_MASK;
}

static inline uint64_t inspect_generation_of(uvs_id_t id) {
  return (id & ((UINT64_C(1) << UVS__ID_BITS) - 1)) >> UVS__SLOT_BITS;
}

static inline uvs_id_t inspect_id(const uvs_t *s, uint32_t slot, uint64_t generation) {
  return s->table.id_base | generation << UVS__SLOT_BITS | slot;
}

/* Writers of statistics: a runner (by its number), the loop, or a thread that finishes a run from
 * outside (uvs_finish, caller-runs). */
enum { INSPECT_LOOP = -1, INSPECT_OTHERS = -2 };

static inline struct uvs__cell *inspect_cell(uvs_t *s, int writer);

/* Records a run that started `ns` late because of this culprit (-1: on time), half of it in a
 * queue. */
static inline void inspect_stat_start(uvs_t *s, int writer, int culprit, uint64_t ns) {
  uvs__cell_start(inspect_cell(s, writer), ns, culprit, ns / 2);
}

/* Records a run that took `ns`. */
static inline void inspect_stat_end(uvs_t *s, int writer, uint64_t ns) {
  uvs__cell_end(inspect_cell(s, writer), ns);
}

static inline void inspect_stat_clear(uvs_t *s, int writer) {
  memset(inspect_cell(s, writer), 0, sizeof(struct uvs__cell));
}

/* The statistics cell of this writer. */
static inline struct uvs__cell *inspect_cell(uvs_t *s, int writer) {
  struct uvs__runner *r = s->runners.all;

  if (writer == INSPECT_LOOP)
    return &s->loop_cell;
  if (writer == INSPECT_OTHERS)
    return &s->shared_cell;
  while (r->index != writer)
    r = r->all;
  return &r->cell;
}

/* Runners that exist, busy or not. */
static inline int inspect_runners_made(uvs_t *s) {
  return s->runners.made;
}

/* Runners that libuv's pool or an executor holds. */
static inline unsigned inspect_runners_out(uvs_t *s) {
  return s->runners.out;
}

/* Makes the crew look as after many brief bodies, for which one runner is enough. */
static inline void inspect_one_is_enough(uvs_t *s) {
  uv_mutex_lock(&s->lock);
  s->home.brief = 2 * UVS__BRIEF_MANY;
  s->home.body_ns = 0;
  s->home.rest_ns = UVS__BRIEF_NS;
  uv_mutex_unlock(&s->lock);
}

static inline bool inspect_is_one_enough(uvs_t *s) {
  bool alone;

  uv_mutex_lock(&s->lock);
  alone = uvs__crew_is_alone(&s->home);
  uv_mutex_unlock(&s->lock);
  return alone;
}

/* The runners have distinct numbers, counted from 0. */
static inline bool inspect_runners_numbered(uvs_t *s) {
  bool seen[UVS__CONCURRENCY_MAX + 1] = {false};
  int made = 0;

  for (struct uvs__runner *r = s->runners.all; r != NULL; r = r->all, made++) {
    if (r->index < 0 || r->index >= s->runners.made || seen[r->index])
      return false;
    seen[r->index] = true;
  }
  return made == s->runners.made;
}

/* Checks every structure and compares it with the counts. */
static inline bool inspect_check(uvs_t *s) {
  bool valid;

  uv_mutex_lock(&s->lock);
  uvs__check_now(s); /* aborts if not */
  valid = inspect_runners_numbered(s);
  uv_mutex_unlock(&s->lock);
  return valid;
}

static inline bool inspect_crew_idle(const struct uvs__crew *c) {
  return c->ready.count == 0 && c->startable == 0 && c->active == 0;
}

/* inspect_check passes, and no task is ready, running, or on its way from one thread to another.
 * Tasks may be waiting. Runners without work may be out. */
static inline bool inspect_idle(uvs_t *s) {
  uint32_t seeking = s->home.seeking;
  bool idle = inspect_crew_idle(&s->home) && s->counts.runners == 0 && s->loop_ready.count == 0 &&
              s->counts.ready + s->counts.running == 0 && s->wanting == NULL && s->unfiled == 0 &&
              s->at.calls == NULL && s->at.arrivals.first == UVS__NONE;

  for (const struct uvs__gate *g = s->gates; g != NULL && idle; g = g->next_gate) {
    idle = g->running == 0 && g->ready == 0 && g->promised == 0;
    if (g->crew != &s->home) {
      idle = idle && inspect_crew_idle(g->crew);
      seeking += g->crew->seeking;
    }
  }
  return idle && seeking == s->runners.out && inspect_check(s);
}

/* Task records in use: tasks that have not ended, and kept outcomes. */
static inline uint64_t inspect_records(uvs_t *s) {
  uint64_t n = 0;

  for (uint32_t slot = 0; slot < s->table.tasks.made; slot++)
    n += uvs__task(s, slot)->state != UVS__FREE;
  return n;
}

/* Tasks that are not settled and keep the loop alive. */
static inline uint64_t inspect_live_refs(uvs_t *s) {
  uint64_t n = 0;

  for (uint32_t slot = 0; slot < s->table.tasks.made; slot++) {
    const struct uvs__task *t = uvs__task(s, slot);

    n += t->state != UVS__FREE && !uvs__is_settled(t) && uvs__has(t, UVS__REF);
  }
  return n;
}

/* Was the body of this running or pending task asked to stop? */
static inline bool inspect_token(uvs_t *s, uvs_id_t id) {
  return atomic_load(&uvs__task(s, inspect_slot_of(id))->token) != 0;
}

/* Time limits that have not passed, of runs that are ready or in progress. */
static inline uint64_t inspect_limits(uvs_t *s) {
  return s->table.limits.count;
}

/* Entries of the delay queue of the monotonic clock. */
static inline uint64_t inspect_queued(uvs_t *s) {
  return s->delay.count;
}

/* How many of them are in the heap, in exact order. */
static inline uint64_t inspect_ordered(uvs_t *s) {
  return s->table.delay_heap.count;
}

/* Clean-up actions of tasks that were not called yet, plus tasks that are marked as having some. */
static inline uint64_t inspect_cleanups(uvs_t *s) {
  uint64_t n = s->at.now_first != NULL;

  for (uint32_t slot = 0; slot < s->table.tasks.made; slot++) {
    const struct uvs__task *t = uvs__task(s, slot);

    n += t->state != UVS__FREE && uvs__has(t, UVS__CLEANUPS);
  }
  return n;
}

/* Lanes that exist: open, or disposed but not freed yet. */
static inline unsigned inspect_lanes(uvs_t *s) {
  unsigned n = 0;

  uv_mutex_lock(&s->lock);
  for (const struct uvs__gate *g = s->gates; g != NULL; g = g->next_gate)
    n++;
  uv_mutex_unlock(&s->lock);
  return n;
}

/* Sets the budget of loop passes and runners. A budget of 0 is used up immediately, even on a clock
 * that stands still. */
static inline void inspect_set_budget_ns(uvs_t *s, uint64_t ns) {
  s->budget_ns = ns;
}

/* The heap of a queue's values, the values' slots, and the positions stored in the slots agree. */
static inline bool inspect_values_check(const struct uvs__values *v) {
  uint32_t in = 0;

  for (uint32_t slot = 0; slot < v->slots.made; slot++) {
    bool has = uvs__heap_has(&v->heap, slot);

    if (has && uvs__slots_is_free(&v->slots, slot))
      return false;
    in += has;
  }
  return in == v->heap.count && uvs__slots_check(&v->slots) && uvs__heap_check(&v->heap);
}

static inline bool inspect_queue_check(uvs_queue_t *q) {
  return inspect_values_check(&q->values);
}

#endif
