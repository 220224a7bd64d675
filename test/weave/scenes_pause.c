/* SPDX-License-Identifier: MIT
 *
 * Pause, resume, run now and replace by name, racing runs, deadlines and each other.
 */
#include "scenes.h"

#include "uvsched/lane.h"

#include "model.h"
#include "lib/inspect.h"
#include "stage.h"

static void play(void) {
  stage_play();
  stage_close();
}

static struct part *due_at(int64_t ms) {
  struct part *a;

  stage_open(1);
  a = stage_part('a');
  a->spec.first_ns = UVS_MS(ms);
  stage_submit(a);
  return a;
}

/* 'a' every 5 ms, for this many runs. */
static struct part *every_5ms(uint64_t runs) {
  struct part *a;

  stage_open(1);
  a = stage_part('a');
  a->spec.kind = UVS_FIXED_RATE;
  a->spec.first_ns = a->spec.period_ns = UVS_MS(5);
  a->stops_at = runs;
  stage_submit(a);
  return a;
}

/* ---- pause ---- */

/* Pauses and resumes. Between the two no run starts, and after UVS_PAUSED none is in progress. */
static void pause_and_resume(void *arg) {
  struct part *p = arg;
  int rc = uvs_pause(stage.s, p->id);

  if (rc == UVS_PAUSED) {
    int runs = p->runs;

    WEAVE_CHECK(!p->inside);
    p->must_not_run = true;
    stage_sleep_ms(3);
    p->must_not_run = false;
    WEAVE_SAME(runs, p->runs);
  }
  WEAVE_CHECK(rc == UVS_PAUSED || rc == UVS_PAUSED_WHILE_RUNNING || rc == UV_ENOENT);
  if (rc < 0)
    return;
  p->late_ns = UVS_MS(20);
  rc = uvs_resume(stage.s, p->id, 0);
  WEAVE_CHECK(rc == 0 || rc == UV_ENOENT);
}

static void pause_at_5ms(void *arg) {
  ((struct part *)arg)->late_ns = UVS_MS(20); /* it may run late */
  stage_sleep_ms(5);
  pause_and_resume(arg);
}

static void pause_for_ever(void *arg) {
  struct part *p = arg;
  int rc = uvs_pause(stage.s, p->id);

  WEAVE_CHECK(rc == UVS_PAUSED || rc == UVS_PAUSED_WHILE_RUNNING || rc == UV_ENOENT ||
              rc == UV_ESHUTDOWN);
  if (rc == UVS_PAUSED) {
    WEAVE_CHECK(!p->inside);
    p->must_not_run = true;
  }
}

static void pause_meets_due(void) {
  weave_spawn("pause", pause_at_5ms, due_at(5), false);
  play();
}

static void pause_meets_due_of_a_plain_loop_task(void) {
  struct part *a;

  stage_open(1);
  a = stage_loop_part('a');
  a->spec.first_ns = UVS_MS(5);
  stage_submit(a);
  weave_spawn("pause", pause_at_5ms, a, false);
  play();
}

static void pause_meets_cancel(void) {
  struct part *a = due_at(5);

  weave_spawn("pause", pause_and_resume, a, false);
  weave_spawn("cancel", stage_cancel_arg, a, false);
  a->late_ns = UVS_MS(20);
  play();
}

static void pause_meets_the_end_of_a_run(void) {
  struct part *a = every_5ms(3);

  a->late_ns = UVS_MS(20);
  a->takes_ms = 1;
  weave_spawn("pause", pause_at_5ms, a, false);
  play();
  WEAVE_SAME(3, a->runs);
}

static void pause_for_ever_meets_cancel(void) {
  struct part *a = due_at(5);

  a->late_ns = UVS_MS(20);
  a->others_cancel = true;
  weave_spawn("pause", pause_for_ever, a, false);
  weave_spawn("cancel", stage_cancel_arg, a, false);
  play();
}

static void shut_down(void *arg) {
  (void)arg;
  WEAVE_SAME(0, uvs_shutdown(stage.s));
}

static void resume(void *arg) {
  struct part *p = arg;
  int rc = uvs_resume(stage.s, p->id, 0);

  WEAVE_CHECK(rc == 0 || rc == UV_ENOENT);
}

static void resume_meets_shutdown(void) {
  struct part *a = due_at(5);

  a->others_cancel = true;
  a->late_ns = UVS_MS(20);
  WEAVE_SAME(UVS_PAUSED, uvs_pause(stage.s, a->id));
  weave_spawn("resume", resume, a, false);
  weave_spawn("shutdown", shut_down, NULL, false);
  play();
}

static void resume_meets_sleep(void) {
  struct part *a = due_at(5);

  a->late_ns = UVS_MS(20);
  WEAVE_SAME(UVS_PAUSED, uvs_pause(stage.s, a->id));
  weave_spawn("resume", resume, a, false);
  play();
}

/* ---- the whole scheduler ---- */

static int starts_at_pause;

/* When the call has returned, no body starts until the resumption. */
static void pause_all_and_resume(void *arg) {
  uvs_counts_t c;

  (void)arg;
  WEAVE_SAME(0, uvs_pause_all(stage.s));
  uvs_counts_init(&c);
  uvs_counts(stage.s, &c);
  starts_at_pause = (int)c.runs;
  stage_sleep_ms(3);
  uvs_counts(stage.s, &c);
  WEAVE_SAME(starts_at_pause, (int)c.runs);
  WEAVE_SAME(0, uvs_resume_all(stage.s));
}

static void late_parts(unsigned n) {
  for (unsigned i = 0; i < n; i++)
    stage.parts[i].late_ns = UVS_MS(20);
}

static void pause_all_meets_submit(void) {
  struct part *a, *b;

  stage_open(2);
  a = stage_part('a');
  b = stage_loop_part('b');
  late_parts(2);
  weave_spawn("pause", pause_all_and_resume, NULL, false);
  weave_spawn("submit", stage_submit_arg, a, false);
  stage_submit(b);
  play();
}

static void pause_all_at_5ms(void *arg) {
  stage_sleep_ms(5);
  pause_all_and_resume(arg);
}

static void pause_all_meets_due(void) {
  struct part *b;

  due_at(5);
  b = stage_part('b');
  b->spec.first_ns = UVS_MS(5);
  stage_submit(b);
  late_parts(2);
  weave_spawn("pause", pause_all_at_5ms, NULL, false);
  play();
}

/* ---- run now ---- */

static int extra_runs;

static void run_now(void *arg) {
  struct part *p = arg;
  int rc = uvs_run_now(stage.s, p->id);

  WEAVE_CHECK(rc == 0 || rc == UV_EBUSY || rc == UV_ENOENT);
  extra_runs += rc == 0;
}

/* The extra run comes at once. */
static void run_now_and_look(void *arg) {
  struct part *p = arg;

  run_now(p);
  stage_sleep_ms(2);
  WEAVE_CHECK(p->runs > 0);
}

static void run_now_at_5ms(void *arg) {
  stage_sleep_ms(5);
  run_now(arg);
}

/* A one-shot runs once more for each extra run that was accepted. */
static void run_now_meets_due(void) {
  struct part *a = due_at(5);

  extra_runs = 0;
  weave_spawn("run", run_now_at_5ms, a, false);
  play();
  WEAVE_SAME(1 + extra_runs, a->runs);
}

static void run_now_meets_sleep(void) {
  struct part *a = due_at(80);

  extra_runs = 0;
  a->not_before_ns = 0;
  a->late_ns = UVS_MS(100);
  weave_spawn("run", run_now_and_look, a, false);
  weave_spawn("again", run_now, a, false);
  play();
  WEAVE_CHECK(extra_runs > 0);
  WEAVE_SAME(1 + extra_runs, a->runs);
}

static void run_now_meets_cancel(void) {
  struct part *a = due_at(80);

  extra_runs = 0;
  a->not_before_ns = 0;
  a->late_ns = UVS_MS(100);
  weave_spawn("run", run_now, a, false);
  weave_spawn("cancel", stage_cancel_arg, a, false);
  play();
  WEAVE_CHECK(a->runs <= extra_runs);
}

/* ---- replace ---- */

static struct part *named(char name) {
  struct part *p = stage_part(name);

  p->spec.name = "job";
  p->spec.flags = UVS_REPLACE;
  p->others_cancel = true;
  p->late_ns = UVS_MS(50);
  return p;
}

static struct part *replaced; /* the task that is replaced */

/* When the old one could be replaced, its run is over before the new one starts. */
static void starts_alone(uvs_run_t *run, struct part *p) {
  (void)run;
  (void)p;
  WEAVE_CHECK(!replaced->inside);
}

static void replace(void *arg) {
  struct part *p = arg;

  stage_submit(p);
  WEAVE_CHECK(p->rc == 0 || p->rc == UVS_REPLACED || p->rc == UV_ESHUTDOWN ||
              p->rc == UV_ECANCELED);
  if (p->rc != UVS_REPLACED)
    p->act = NULL;
}

static void replace_at_5ms(void *arg) {
  stage_sleep_ms(5);
  replace(arg);
}

static void open_named(int64_t ms) {
  stage_open(2);
  replaced = named('a');
  replaced->spec.first_ns = UVS_MS(ms);
  replaced->takes_ms = 2;
  stage_submit(replaced);
}

static struct part *successor(char name) {
  struct part *p = named(name);

  p->act = starts_alone;
  return p;
}

/* The new task has run. The old one was cancelled exactly if it was replaced. */
static void play_replacement(void) {
  play();
  WEAVE_SAME(1, stage.parts[1].runs);
  WEAVE_SAME(stage.parts[1].rc == UVS_REPLACED ? UV_ECANCELED : 0, replaced->status);
}

static void replace_meets_run(void) {
  open_named(0);
  weave_spawn("replace", replace, successor('b'), false);
  play_replacement();
}

static void replace_meets_due(void) {
  open_named(5);
  weave_spawn("replace", replace_at_5ms, successor('b'), false);
  play_replacement();
}

static void replace_meets_cancel(void) {
  open_named(0);
  weave_spawn("replace", replace, successor('b'), false);
  weave_spawn("cancel", stage_cancel_arg, replaced, false);
  play();
}

/* Whichever comes last runs. */
static void two_replacements_meet_run(void) {
  open_named(0);
  weave_spawn("replace", replace, successor('b'), false);
  weave_spawn("replace2", replace, successor('c'), false);
  play();
  WEAVE_CHECK(stage.parts[1].runs + stage.parts[2].runs >= 1);
}

static uvs_lane_t lane;

static void dispose(void *arg) {
  (void)arg;
  WEAVE_SAME(0, uvs_lane_dispose(lane, 0));
}

static void replace_meets_dispose(void) {
  struct part *b;

  stage_open(2);
  WEAVE_SAME(0, uvs_lane_open(stage.s, NULL, &lane));
  replaced = named('a');
  replaced->spec.lane = lane;
  stage_submit(replaced);
  b = successor('b');
  b->spec.lane = lane;
  weave_spawn("replace", replace, b, false);
  weave_spawn("dispose", dispose, NULL, false);
  play();
}

const struct weave_scene scenes_pause[] = {
    {"pause", "pause-meets-due", pause_meets_due},
    {"pause", "pause-meets-due-on-the-loop", pause_meets_due_of_a_plain_loop_task},
    {"pause", "pause-meets-cancel", pause_meets_cancel},
    {"pause", "pause-meets-the-end-of-a-run", pause_meets_the_end_of_a_run},
    {"pause", "pause-for-ever-meets-cancel", pause_for_ever_meets_cancel},
    {"pause", "resume-meets-shutdown", resume_meets_shutdown},
    {"pause", "resume-meets-sleep", resume_meets_sleep},
    {"pause", "pause-all-meets-submit", pause_all_meets_submit},
    {"pause", "pause-all-meets-due", pause_all_meets_due},
    {"pause", "run-now-meets-due", run_now_meets_due},
    {"pause", "run-now-meets-sleep", run_now_meets_sleep},
    {"pause", "run-now-meets-cancel", run_now_meets_cancel},
    {"pause", "replace-meets-run", replace_meets_run},
    {"pause", "replace-meets-due", replace_meets_due},
    {"pause", "replace-meets-cancel", replace_meets_cancel},
    {"pause", "two-replacements-meet-run", two_replacements_meet_run},
    {"pause", "replace-meets-dispose", replace_meets_dispose},
    {NULL, NULL, NULL},
};
