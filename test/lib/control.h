/* SPDX-License-Identifier: MIT
 *
 * Helpers of the tests of uvsched/control.h, for programs with the fixture.
 */
#ifndef TEST_CONTROL_H
#define TEST_CONTROL_H

#include "uvsched/calendar.h"

#include "fixture.h"
#include "threads.h"

static inline enum greatest_test_res fixture_open_turned_anew(struct fixture *f) {
  fixture_init(f);
  return fixture_open_turned(f);
}

/* One call that the body of a task makes, and its answer. */
struct order {
  int (*call)(uvs_t *s, uvs_id_t id);
  uvs_id_t id;         /* of the task that the call is about */
  const uvs_id_t *ids; /* or where its id will be */
  uint64_t at_run;     /* which run makes the call; 0: the first */
  int state;           /* of the task just before the call */
  int rc;
};

static inline int act_order(struct probe *p, uvs_run_t *run) {
  struct order *o = p->data;

  if (run->number == (o->at_run == 0 ? 1 : o->at_run)) {
    uvs_id_t id = o->ids != NULL ? *o->ids : o->id;

    o->state = state_of(p->f->s, id);
    o->rc = o->call(p->f->s, id);
  }
  return 0;
}

static inline void give_order(uvs_task_t *t, struct order *o) {
  probe_of(t)->act = act_order;
  probe_of(t)->data = o;
}

/* How late the last run with act_note_late was, and because of what. */
static struct {
  int culprit;
  int64_t paused_ns; /* this much because of a pause */
  int64_t late_ns;
} noted_late;

static inline int act_note_late(struct probe *p, uvs_run_t *run) {
  (void)p;
  noted_late.culprit = run->culprit;
  noted_late.paused_ns = run->late_by_ns[UVS_LATE_PAUSED];
  noted_late.late_ns = run->late_ns;
  return 0;
}

/* A calendar task that runs every second. The caller releases t.calendar after submitting it. */
static inline uvs_task_t fixture_every_second(struct fixture *f, int tag) {
  uvs_task_t t = fixture_once(f, tag, 0);

  t.kind = UVS_CALENDAR;
  if (uvs_calendar_parse("* * * * * *", "UTC", NULL, &t.calendar, NULL) < 0)
    t.calendar = NULL;
  return t;
}

#endif
