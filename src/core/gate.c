/* SPDX-License-Identifier: MIT */
#include "core/gate.h"

#include "core/scheduler.h"

/* Updates what this lane adds to its crew's `startable`. */
void uvs__gate_promise(uvs_t *s, struct uvs__gate *g) {
  uint32_t room = g->running >= g->width ? 0 : g->width - g->running;
  uint32_t promised = g->ready < room ? g->ready : room;

  if (g->next == UVS__NONE || uvs__has(uvs__task(s, g->next), UVS__ON_LOOP))
    promised = 0;
  g->crew->startable += promised - g->promised;
  g->promised = promised;
  if (g->crew != &s->home)
    uvs__crew_list(s, g->crew);
}

static void wait_in_gate(uvs_t *s, struct uvs__gate *g, uint32_t slot) {
  struct uvs__list l = {g->first_waiting, g->last_waiting};

  uvs__list_append(s, &l, slot, UVS__IN_GATE);
  g->first_waiting = l.first;
  g->last_waiting = l.last;
}

static void wait_no_more(uvs_t *s, struct uvs__gate *g, uint32_t slot) {
  struct uvs__list l = {g->first_waiting, g->last_waiting};

  uvs__list_remove(s, &l, slot);
  g->first_waiting = l.first;
  g->last_waiting = l.last;
}

/* The task joins the ready tasks of its crew. If it waited in the gate, it goes behind the others.
 */
static void pass_on(uvs_t *s, struct uvs__gate *g, uint32_t slot, bool waited) {
  struct uvs__task *t = uvs__task(s, slot);
  struct uvs__extra *x = uvs__extra(s, t);

  if (waited) {
    if (x->key_ns < s->recent_ns)
      x->key_ns = s->recent_ns;
    x->key_seq = s->table.next_seq++;
  }
  if (g->crew->concurrency == 0)
    t->flags |= UVS__ON_LOOP;
  g->next = slot;
  uvs__ready_add(&s->table, uvs__ready_of(s, t), slot);
}

/* If the lane may start one more run, its first waiting task becomes `next`. */
static void admit(uvs_t *s, struct uvs__gate *g) {
  uint32_t slot = g->first_waiting;

  if (g->next == UVS__NONE && !g->shut && g->running < g->width && slot != UVS__NONE) {
    wait_no_more(s, g, slot);
    pass_on(s, g, slot, true);
  }
  uvs__gate_promise(s, g);
}

void uvs__gate_enter(uvs_t *s, struct uvs__gate *g, uint32_t slot) {
  g->ready++;
  if (g->next == UVS__NONE && !g->shut && g->running < g->width && g->first_waiting == UVS__NONE)
    pass_on(s, g, slot, false);
  else
    wait_in_gate(s, g, slot);
  uvs__gate_promise(s, g);
}

void uvs__gate_leave(uvs_t *s, struct uvs__gate *g, uint32_t slot, bool starts) {
  struct uvs__task *t = uvs__task(s, slot);

  if (t->place == UVS__IN_GATE)
    wait_no_more(s, g, slot);
  else
    uvs__ready_remove(&s->table, uvs__ready_of(s, t), slot);
  g->ready--;
  g->running += starts;
  if (g->next == slot)
    g->next = UVS__NONE;
  admit(s, g);
}

void uvs__gate_run_ended(uvs_t *s, struct uvs__gate *g) {
  g->running--;
  admit(s, g);
}

/* ---- the tasks of a lane ---- */

void uvs__gate_join(uvs_t *s, struct uvs__gate *g, uint32_t slot) {
  struct uvs__extra *x = uvs__extra(s, uvs__task(s, slot));

  x->gate = g;
  x->lane_previous = g->last_task;
  x->lane_next = UVS__NONE;
  if (g->last_task == UVS__NONE)
    g->first_task = slot;
  else
    uvs__extra(s, uvs__task(s, g->last_task))->lane_next = slot;
  g->last_task = slot;
}

void uvs__gate_part(uvs_t *s, struct uvs__gate *g, uint32_t slot) {
  struct uvs__extra *x = uvs__extra(s, uvs__task(s, slot));

  if (x->lane_previous == UVS__NONE && g->first_task != slot)
    return; /* a sweep has taken the task off the list */
  if (x->lane_previous == UVS__NONE)
    g->first_task = x->lane_next;
  else
    uvs__extra(s, uvs__task(s, x->lane_previous))->lane_next = x->lane_next;
  if (x->lane_next == UVS__NONE)
    g->last_task = x->lane_previous;
  else
    uvs__extra(s, uvs__task(s, x->lane_next))->lane_previous = x->lane_previous;
  x->lane_previous = x->lane_next = UVS__NONE;
}

void uvs__gate_left(struct uvs__gate *g, uint64_t tasks) {
  g->live -= tasks;
  if (g->shut && g->live == 0 && (g->crew->gate != g || g->crew->out == 0))
    g->quiet(g);
}

/* ---- the end of a lane ---- */

void uvs__gate_shut(uvs_t *s, struct uvs__gate *g) {
  g->shut = true;
  if (g->next != UVS__NONE) { /* the task stays READY until the sweep ends it */
    uint32_t slot = g->next;

    uvs__ready_remove(&s->table, uvs__ready_of(s, uvs__task(s, slot)), slot);
    g->next = UVS__NONE;
    wait_in_gate(s, g, slot);
  }
  uvs__gate_promise(s, g);
}
