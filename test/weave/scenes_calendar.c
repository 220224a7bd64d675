/* SPDX-License-Identifier: MIT
 *
 * A calendar task: the loop works out its next run without the lock. Other threads cancel, move,
 * pause, run, replace or shut down the task meanwhile. Only the loop uses the calendar, so the lock
 * of the zones, which weave does not know, is never held by two strands.
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

/* ---- run now ---- */

static int extra_runs;
static int64_t first_ideal_ns, last_ideal_ns;
static int missed, off_grid;

static void note_occurrence(uvs_run_t *run, struct part *p) {
  if (run->ideal_ns % UVS_SEC(1) == 0) {
    first_ideal_ns = first_ideal_ns == 0 ? run->ideal_ns : first_ideal_ns;
    last_ideal_ns = run->ideal_ns;
  }
  off_grid += run->ideal_ns % UVS_SEC(1) != 0;
  missed += (int)run->missed;
  if (run->number == 1 && p->late_ns != 0)
    model_pass_ms(2500); /* two occurrences pass during this run */
}

static void run_now(void *arg) {
  struct part *p = arg;
  int rc = uvs_run_now(stage.s, p->id);

  WEAVE_CHECK(rc == 0 || rc == UV_EBUSY);
  extra_runs += rc == 0;
}

static void run_now_after_the_first(void *arg) {
  stage_await_run(arg);
  run_now(arg);
}

static struct part *open_noted(uint64_t stops_at) {
  struct part *a = open_calendar(stops_at);

  extra_runs = missed = off_grid = 0;
  first_ideal_ns = last_ideal_ns = 0;
  a->act = note_occurrence;
  return a;
}

/* Up to the last run, each occurrence has run once or is missed. The extra runs come on top. */
static void play_noted(struct part *a) {
  stage_play();
  WEAVE_SAME(a->stops_at, a->runs);
  WEAVE_SAME((last_ideal_ns - first_ideal_ns) / UVS_SEC(1) + 1, a->runs - extra_runs + missed);
  close_calendar();
}

/* The extra run takes place at once, although the first occurrence is not known yet. */
static void run_now_meets_the_next_occurrence(void) {
  struct part *a = open_noted(3);
  int64_t wall_ns = UVS_SEC(MODEL_WALL_S) + (int64_t)weave_now_ns; /* an occurrence */

  model_pass_ms(2); /* the extra run is for no occurrence */
  stage_submit(a);
  weave_spawn("run", run_now, a, false);
  stage_play();
  WEAVE_SAME(1, extra_runs);
  WEAVE_SAME(1, off_grid);
  WEAVE_SAME(0, missed);
  WEAVE_SAME(wall_ns + UVS_SEC(1), first_ideal_ns);
  WEAVE_SAME(wall_ns + UVS_SEC(2), last_ideal_ns);
  WEAVE_SAME(3, a->runs);
  close_calendar();
}

static void run_now_meets_the_occurrence_after_a_run(void) {
  struct part *a = open_noted(3);

  stage_submit(a);
  weave_spawn("run", run_now_after_the_first, a, false);
  play_noted(a);
}

/* The same when occurrences have passed, which the loop counts. */
static void run_now_meets_passed_occurrences(void) {
  struct part *a = open_noted(4);

  a->spec.missed_policy = UVS_MISSED_ONCE;
  a->late_ns = UVS_SEC(5);
  stage_submit(a);
  weave_spawn("run", run_now_after_the_first, a, false);
  play_noted(a);
}

/* ---- replace ---- */

/* 'a' and its replacement 'b', both by the calendar. */
static struct part *open_replaced(void) {
  struct part *a = open_calendar(2);
  struct part *b = stage_part('b');

  a->spec.name = b->spec.name = "job";
  a->spec.flags = b->spec.flags = UVS_REPLACE;
  b->spec.kind = UVS_CALENDAR;
  b->spec.calendar = calendar;
  b->stops_at = 2;
  a->act = b->act = check_occurrence;
  a->others_cancel = true;
  return a;
}

static void replace(void *arg) {
  stage_submit(arg);
}

static void replace_after_the_first(void *arg) {
  stage_await_run(&stage.parts[0]);
  stage_submit(arg);
}

static void play_replaced(int most_runs) {
  struct part *a = &stage.parts[0], *b = &stage.parts[1];

  stage_submit(a);
  weave_spawn("replace", most_runs == 0 ? replace : replace_after_the_first, b, false);
  stage_play();
  WEAVE_SAME(UVS_REPLACED, b->rc);
  WEAVE_SAME(most_runs, a->runs);
  WEAVE_SAME(a->spec.done == NULL ? 0 : UV_ECANCELED, a->status);
  WEAVE_SAME(2, b->runs);
  WEAVE_SAME(0, b->status);
  close_calendar();
}

static void replace_meets_the_next_occurrence(void) {
  open_replaced();
  play_replaced(0);
}

/* The old task has no `done`: if its time is known, the new task takes its slot and its id. */
static void replace_in_place_meets_the_next_occurrence(void) {
  open_replaced()->spec.done = NULL;
  play_replaced(0);
}

static void replace_meets_the_occurrence_after_a_run(void) {
  open_replaced();
  play_replaced(1);
}

/* ---- shutdown ---- */

static void shutdown_meets_the_next_occurrence(void) {
  struct part *a = open_calendar(2);

  a->others_cancel = true;
  stage_submit(a);
  weave_spawn("shutdown", stage_shut_down_arg, NULL, false);
  stage_play();
  WEAVE_SAME(0, a->runs);
  WEAVE_SAME(UV_ECANCELED, a->status);
  close_calendar();
}

/* Periodic tasks go on after the shutdown. */
static void shutdown_that_spares_meets_the_next_occurrence(void) {
  struct part *a = open_calendar(2);

  a->act = check_occurrence;
  WEAVE_SAME(0, uvs_set_after_shutdown(stage.s, UVS_PERIODIC_TASKS, 1));
  stage_submit(a);
  weave_spawn("shutdown", stage_shut_down_arg, NULL, false);
  stage_play();
  WEAVE_SAME(2, a->runs);
  WEAVE_SAME(0, a->status);
  close_calendar();
}

static void shut_down_now_after_the_first(void *arg) {
  stage_await_run(arg);
  stage_shut_down_now_arg(NULL);
}

static void play_shutdown_now(struct part *a, void (*shut_down)(void *arg)) {
  a->others_cancel = true;
  stage_submit(a);
  weave_spawn("now", shut_down, a, false);
  stage_play();
  WEAVE_SAME(1, stage.all_came);
  WEAVE_SAME(a->status == UV_ECANCELED && a->runs == 0, a->never_ran);
  close_calendar();
}

static void shutdown_now_meets_the_next_occurrence(void) {
  play_shutdown_now(open_calendar(2), stage_shut_down_now_arg);
  WEAVE_SAME(1, stage.parts[0].never_ran);
}

static void shutdown_now_meets_the_occurrence_after_a_run(void) {
  play_shutdown_now(open_calendar(2), shut_down_now_after_the_first);
  WEAVE_SAME(1, stage.parts[0].runs);
  WEAVE_SAME(UV_ECANCELED, stage.parts[0].status);
}

/* No occurrence is left: the task ends, and the shutdown or the cancel ends it, too. One of both
 * decides the outcome. */
static struct part *open_without_occurrence(void) {
  struct part *a = open_calendar(0);

  a->spec.until_ns = UVS_MS(500);
  stage_submit(a);
  return a;
}

static void shutdown_meets_the_last_occurrence(void) {
  struct part *a = open_without_occurrence();

  a->others_cancel = true;
  weave_spawn("shutdown", stage_shut_down_arg, NULL, false);
  stage_play();
  WEAVE_SAME(0, a->runs);
  close_calendar();
}

static void cancel_meets_the_last_occurrence(void) {
  struct part *a = open_without_occurrence();

  weave_spawn("cancel", stage_cancel_arg, a, false);
  stage_play();
  WEAVE_SAME(0, a->runs);
  close_calendar();
}

/* An accepted extra run takes place before the task ends. */
static void run_now_until_the_end(void *arg) {
  struct part *p = arg;
  int rc = uvs_run_now(stage.s, p->id);

  WEAVE_CHECK(rc == 0 || rc == UV_ENOENT);
  extra_runs += rc == 0;
}

static void run_now_meets_the_last_occurrence(void) {
  struct part *a = open_without_occurrence();

  extra_runs = 0;
  weave_spawn("run", run_now_until_the_end, a, false);
  stage_play();
  WEAVE_SAME(extra_runs, a->runs);
  WEAVE_SAME(0, a->status);
  close_calendar();
}

const struct weave_scene scenes_calendar[] = {
    {"calendar", "cancel-meets-the-next-occurrence", cancel_meets_the_next_occurrence},
    {"calendar", "reschedule-meets-the-next-occurrence", reschedule_meets_the_next_occurrence},
    {"calendar", "pause-meets-the-next-occurrence", pause_meets_the_next_occurrence},
    {"calendar", "run-now-meets-the-next-occurrence", run_now_meets_the_next_occurrence},
    {"calendar", "run-now-meets-the-occurrence-after-a-run",
     run_now_meets_the_occurrence_after_a_run},
    {"calendar", "run-now-meets-passed-occurrences", run_now_meets_passed_occurrences},
    {"calendar", "run-now-meets-the-last-occurrence", run_now_meets_the_last_occurrence},
    {"calendar", "replace-meets-the-next-occurrence", replace_meets_the_next_occurrence},
    {"calendar", "replace-in-place-meets-the-next-occurrence",
     replace_in_place_meets_the_next_occurrence},
    {"calendar", "replace-meets-the-occurrence-after-a-run",
     replace_meets_the_occurrence_after_a_run},
    {"calendar", "shutdown-meets-the-next-occurrence", shutdown_meets_the_next_occurrence},
    {"calendar", "shutdown-that-spares-meets-the-next-occurrence",
     shutdown_that_spares_meets_the_next_occurrence},
    {"calendar", "shutdown-now-meets-the-next-occurrence", shutdown_now_meets_the_next_occurrence},
    {"calendar", "shutdown-now-meets-the-occurrence-after-a-run",
     shutdown_now_meets_the_occurrence_after_a_run},
    {"calendar", "shutdown-meets-the-last-occurrence", shutdown_meets_the_last_occurrence},
    {"calendar", "cancel-meets-the-last-occurrence", cancel_meets_the_last_occurrence},
    {NULL, NULL, NULL},
};
