/* SPDX-License-Identifier: MIT
 *
 * A calendar task: the loop works out its next run without the lock. Other threads cancel, move or
 * pause the task meanwhile. Only the loop uses the calendar, so the lock of the zones, which weave
 * does not know, is never held by two strands.
 */
#include "calendar/occur.h"

#include "scenes.h"

#include "model.h"
#include "stage.h"

static uvs_calendar_t *calendar;

/* Every second, in UTC; the run `stops_at` is the last. */
static struct part *open_calendar(uint64_t stops_at) {
  struct part *p;

  WEAVE_SAME(0, uvs_calendar_parse("* * * * * *", "UTC", NULL, &calendar, NULL));
  stage_open(1);
  p = stage_part('a');
  p->spec.kind = UVS_CALENDAR;
  p->spec.calendar = calendar;
  p->stops_at = stops_at;
  return p;
}

/* The task, and the records that it had, hold the calendar no more. */
static void close_calendar(void) {
  stage_close();
  WEAVE_SAME(1, uvs__load(&calendar->refs, relaxed));
  uvs_calendar_release(calendar);
}

static void check_occurrence(uvs_run_t *run, struct part *p) {
  (void)p;
  WEAVE_SAME(0, run->ideal_ns % UVS_SEC(1));
  WEAVE_SAME(0, run->missed);
}

static void cancel_meets_the_next_occurrence(void) {
  struct part *a = open_calendar(2);

  a->act = check_occurrence;
  stage_submit(a);
  weave_spawn("cancel", stage_cancel_arg, a, false);
  stage_play();
  close_calendar();
}

static int64_t moved_ns; /* the first run was moved to this time of the wall clock; 0: it was not */

static void check_moved(uvs_run_t *run, struct part *p) {
  (void)p;
  if (run->number == 1 && moved_ns != 0)
    WEAVE_SAME(moved_ns, run->ideal_ns);
  else
    WEAVE_SAME(0, run->ideal_ns % UVS_SEC(1));
}

static void move(void *arg) {
  struct part *p = arg;
  int rc = stage_reschedule(p, UVS_MS(2));

  WEAVE_CHECK(rc == 0 || rc == UV_EBUSY || rc == UV_ENOENT);
  if (rc == 0 && p->runs == 0)
    moved_ns = UVS_SEC(MODEL_WALL_S) + (int64_t)weave_now_ns + UVS_MS(2);
}

static void reschedule_meets_the_next_occurrence(void) {
  struct part *a = open_calendar(2);

  moved_ns = 0;
  a->act = check_moved;
  stage_submit(a);
  weave_spawn("move", move, a, false);
  stage_play();
  WEAVE_SAME(2, a->runs);
  close_calendar();
}

static void pause_and_resume(void *arg) {
  struct part *p = arg;
  int rc = uvs_pause(stage.s, p->id);

  WEAVE_CHECK(rc >= 0 || rc == UV_ENOENT);
  if (rc < 0)
    return;
  rc = uvs_resume(stage.s, p->id, UVS_RESUME_FORGET);
  WEAVE_CHECK(rc == 0 || rc == UV_ENOENT);
}

static void pause_meets_the_next_occurrence(void) {
  struct part *a = open_calendar(2);

  a->act = check_occurrence;
  stage_submit(a);
  weave_spawn("pause", pause_and_resume, a, false);
  stage_play();
  WEAVE_SAME(2, a->runs);
  close_calendar();
}

const struct weave_scene scenes_calendar[] = {
    {"calendar", "cancel-meets-the-next-occurrence", cancel_meets_the_next_occurrence},
    {"calendar", "reschedule-meets-the-next-occurrence", reschedule_meets_the_next_occurrence},
    {"calendar", "pause-meets-the-next-occurrence", pause_meets_the_next_occurrence},
    {NULL, NULL, NULL},
};
