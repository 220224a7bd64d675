/* SPDX-License-Identifier: MIT
 *
 * Pause, resume, run now and replace by name, racing runs, deadlines, shutdowns, the end of a lane
 * and each other.
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

static uvs_lane_t lane;

static void dispose(void *arg) {
  (void)arg;
  WEAVE_SAME(0, uvs_lane_dispose(lane, 0));
}

static void dispose_at_5ms(void *arg) {
  stage_sleep_ms(5);
  dispose(arg);
}

static void shut_down_at_5ms(void *arg) {
  stage_sleep_ms(5);
  stage_shut_down_arg(arg);
}

static void shut_down_now_at_5ms(void *arg) {
  stage_sleep_ms(5);
  stage_shut_down_now_arg(arg);
}

/* A lane of one run at a time, with `n` tasks that are due then. */
static void open_lane(unsigned n, int64_t ms) {
  stage_open(2);
  WEAVE_SAME(0, uvs_lane_open(stage.s, NULL, &lane));
  for (unsigned i = 0; i < n; i++) {
    struct part *p = stage_part((char)('a' + i));

    p->spec.lane = lane;
    p->spec.first_ns = UVS_MS(ms);
    p->others_cancel = true;
    stage_submit(p);
  }
}

/* The shutdown handed back exactly the accepted tasks that it cancelled before their first run. */
static void check_handed_back(const struct part *p) {
  WEAVE_SAME(p->status == UV_ECANCELED && p->runs == 0, p->never_ran);
  WEAVE_SAME(1, stage.all_came);
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
  weave_spawn("shutdown", stage_shut_down_arg, NULL, false);
  play();
}

static void resume_meets_sleep(void) {
  struct part *a = due_at(5);

  a->late_ns = UVS_MS(20);
  WEAVE_SAME(UVS_PAUSED, uvs_pause(stage.s, a->id));
  weave_spawn("resume", resume, a, false);
  play();
}

/* ---- pause, shutdown, the end of a lane ---- */

static int pause_rc, runs_at_pause;

static void pause_and_note(void *arg) {
  struct part *p = arg;

  pause_rc = uvs_pause(stage.s, p->id);
  runs_at_pause = p->runs;
  WEAVE_CHECK(pause_rc == UVS_PAUSED || pause_rc == UVS_PAUSED_WHILE_RUNNING ||
              pause_rc == UV_ENOENT || pause_rc == UV_ESHUTDOWN);
  if (pause_rc != UVS_PAUSED)
    return;
  WEAVE_CHECK(!p->inside);
  p->must_not_run = true;
}

static void pause_and_note_at_5ms(void *arg) {
  stage_sleep_ms(5);
  pause_and_note(arg);
}

/* The task was paused for ever, so the shutdown or the end of its lane has cancelled it. Only a run
 * in progress could finish. */
static void check_paused(const struct part *p) {
  WEAVE_SAME(UV_ECANCELED, p->status);
  WEAVE_CHECK(p->runs - runs_at_pause <= (pause_rc == UVS_PAUSED_WHILE_RUNNING));
}

/* A delayed task runs after the shutdown, unless it was paused before. */
static void pause_meets_shutdown(void) {
  struct part *a = due_at(5);

  a->others_cancel = true;
  weave_spawn("pause", pause_and_note, a, false);
  weave_spawn("shutdown", stage_shut_down_arg, NULL, false);
  play();
  WEAVE_CHECK(pause_rc == UVS_PAUSED || pause_rc == UV_ESHUTDOWN);
  if (pause_rc == UVS_PAUSED)
    check_paused(a);
  WEAVE_SAME(pause_rc == UV_ESHUTDOWN, a->runs);
}

/* The task goes on after the shutdown, unless it was paused before. */
static void pause_of_a_periodic_task_meets_shutdown(void) {
  struct part *a = every_5ms(3);

  a->others_cancel = true;
  WEAVE_SAME(0, uvs_set_after_shutdown(stage.s, UVS_PERIODIC_TASKS, 1));
  weave_spawn("pause", pause_and_note_at_5ms, a, false);
  weave_spawn("shutdown", shut_down_at_5ms, NULL, false);
  play();
  if (pause_rc >= 0) {
    check_paused(a);
  } else {
    WEAVE_SAME(UV_ESHUTDOWN, pause_rc);
    WEAVE_SAME(3, a->runs);
    WEAVE_SAME(0, a->status);
  }
}

static void pause_meets_shutdown_now(void) {
  struct part *a = due_at(5);

  a->others_cancel = true;
  weave_spawn("pause", pause_and_note_at_5ms, a, false);
  weave_spawn("now", shut_down_now_at_5ms, NULL, false);
  play();
  if (pause_rc == UVS_PAUSED)
    check_paused(a);
  check_handed_back(a);
}

static void pause_meets_dispose(void) {
  open_lane(2, 5);
  weave_spawn("pause", pause_and_note_at_5ms, &stage.parts[0], false);
  weave_spawn("dispose", dispose_at_5ms, NULL, false);
  play();
  if (pause_rc == UVS_PAUSED)
    check_paused(&stage.parts[0]);
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

/* ---- the whole scheduler, shutdown, the end of a lane ---- */

static int runs_so_far(void) {
  uvs_counts_t c;

  uvs_counts_init(&c);
  uvs_counts(stage.s, &c);
  return (int)c.runs;
}

static void pause_all_and_note_at_5ms(void *arg) {
  (void)arg;
  stage_sleep_ms(5);
  pause_rc = uvs_pause_all(stage.s);
  WEAVE_CHECK(pause_rc == 0 || pause_rc == UV_ESHUTDOWN);
  starts_at_pause = runs_so_far();
}

static void resume_all(void *arg) {
  int rc = uvs_resume_all(stage.s);

  (void)arg;
  WEAVE_CHECK(rc == 0 || rc == UV_EALREADY);
}

/* No run starts before this shutdown. */
static void shut_down_if_paused_at_8ms(void *arg) {
  stage_sleep_ms(8);
  if (pause_rc == 0)
    WEAVE_SAME(starts_at_pause, runs_so_far());
  stage_shut_down_arg(arg);
}

/* Two tasks, one for the loop, due at 5 ms. */
static void two_due_at_5ms(void) {
  struct part *b;

  due_at(5)->others_cancel = true;
  b = stage_loop_part('b');
  b->spec.first_ns = UVS_MS(5);
  b->others_cancel = true;
  stage_submit(b);
}

static void both_ran(void) {
  for (unsigned i = 0; i < 2; i++) {
    WEAVE_SAME(1, stage.parts[i].runs);
    WEAVE_SAME(0, stage.parts[i].status);
  }
}

/* The shutdown resumes the scheduler: both tasks run, and not late. */
static void pause_all_meets_shutdown(void) {
  two_due_at_5ms();
  weave_spawn("pause", pause_all_and_note_at_5ms, NULL, false);
  weave_spawn("shutdown", shut_down_at_5ms, NULL, false);
  play();
  both_ran();
}

/* The same when the shutdown comes later. */
static void shutdown_after_pause_all(void) {
  two_due_at_5ms();
  late_parts(2);
  weave_spawn("pause", pause_all_and_note_at_5ms, NULL, false);
  weave_spawn("shutdown", shut_down_if_paused_at_8ms, NULL, false);
  play();
  both_ran();
}

static void resume_all_meets_shutdown(void) {
  two_due_at_5ms();
  WEAVE_SAME(0, uvs_pause_all(stage.s));
  weave_spawn("resume", resume_all, NULL, false);
  weave_spawn("shutdown", stage_shut_down_arg, NULL, false);
  play();
  both_ran();
}

static void pause_all_meets_shutdown_now(void) {
  two_due_at_5ms();
  weave_spawn("pause", pause_all_and_note_at_5ms, NULL, false);
  weave_spawn("now", shut_down_now_at_5ms, NULL, false);
  play();
  check_handed_back(&stage.parts[0]);
  check_handed_back(&stage.parts[1]);
}

/* Nobody resumes. The tasks of the lane end nevertheless, and none starts. */
static void pause_all_for_ever_meets_dispose(void) {
  open_lane(3, 5);
  weave_spawn("pause", pause_all_and_note_at_5ms, NULL, false);
  weave_spawn("dispose", dispose_at_5ms, NULL, false);
  stage_play();
  WEAVE_SAME(starts_at_pause, runs_so_far());
  stage_close();
}

static void pause_all_and_resume_meets_dispose(void) {
  open_lane(2, 5);
  late_parts(2);
  weave_spawn("pause", pause_all_at_5ms, NULL, false);
  weave_spawn("dispose", dispose_at_5ms, NULL, false);
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

/* ---- run now, shutdown, the end of a lane ---- */

static int run_rc;

static void run_now_and_note(void *arg) {
  struct part *p = arg;

  run_rc = uvs_run_now(stage.s, p->id);
  WEAVE_CHECK(run_rc == 0 || run_rc == UV_EBUSY || run_rc == UV_ENOENT || run_rc == UV_ESHUTDOWN);
}

static struct part *far_away(void) {
  struct part *a = due_at(80);

  a->not_before_ns = 0;
  a->others_cancel = true;
  return a;
}

/* An accepted extra run takes place, whatever the shutdown does with the regular run. */
static void run_now_and_shutdown(struct part *a, int delayed) {
  WEAVE_SAME(0, uvs_set_after_shutdown(stage.s, UVS_DELAYED_TASKS, delayed));
  weave_spawn("run", run_now_and_note, a, false);
  weave_spawn("shutdown", stage_shut_down_arg, NULL, false);
  play();
  WEAVE_SAME((run_rc == 0) + delayed, a->runs);
  WEAVE_SAME(delayed ? 0 : UV_ECANCELED, a->status);
}

static void run_now_meets_shutdown(void) {
  run_now_and_shutdown(far_away(), 1);
  WEAVE_CHECK(run_rc == 0 || run_rc == UV_ESHUTDOWN);
}

static void run_now_meets_shutdown_that_cancels(void) {
  run_now_and_shutdown(far_away(), 0);
}

/* The shutdown cancels a paused task, perhaps with its extra run. */
static void run_now_of_a_paused_task_meets_shutdown(void) {
  struct part *a = far_away();

  WEAVE_SAME(UVS_PAUSED, uvs_pause(stage.s, a->id));
  weave_spawn("run", run_now_and_note, a, false);
  weave_spawn("shutdown", stage_shut_down_arg, NULL, false);
  play();
  WEAVE_CHECK(a->runs <= (run_rc == 0));
  WEAVE_SAME(UV_ECANCELED, a->status);
}

static void run_now_meets_shutdown_now(void) {
  struct part *a = far_away();

  weave_spawn("run", run_now_and_note, a, false);
  weave_spawn("now", stage_shut_down_now_arg, NULL, false);
  play();
  WEAVE_CHECK(a->runs <= (run_rc == 0));
  WEAVE_SAME(UV_ECANCELED, a->status);
  check_handed_back(a);
}

static void run_now_meets_dispose(void) {
  open_lane(2, 80);
  stage.parts[0].not_before_ns = 0;
  weave_spawn("run", run_now_and_note, &stage.parts[0], false);
  weave_spawn("dispose", dispose, NULL, false);
  play();
  WEAVE_CHECK(stage.parts[0].runs <= (run_rc == 0));
  WEAVE_SAME(0, stage.parts[1].runs);
  WEAVE_SAME(UV_ECANCELED, stage.parts[0].status);
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

/* ---- replace and shutdown ---- */

/* Either the new task was accepted and has replaced the old one, or nothing has changed. */
static void play_replacement_or_refusal(void) {
  const struct part *b = &stage.parts[1];

  play();
  if (b->rc >= 0)
    WEAVE_SAME(1, b->runs);
  else
    WEAVE_SAME(UV_ESHUTDOWN, b->rc);
  WEAVE_SAME(b->rc == UVS_REPLACED ? UV_ECANCELED : 0, replaced->status);
}

static void replace_meets_shutdown(void) {
  open_named(5);
  weave_spawn("replace", replace, successor('b'), false);
  weave_spawn("shutdown", stage_shut_down_arg, NULL, false);
  play_replacement_or_refusal();
  WEAVE_CHECK(stage.parts[1].rc != 0); /* the old task has not ended when the new one comes */
  WEAVE_SAME(stage.parts[1].rc == UV_ESHUTDOWN, replaced->runs);
}

/* The new task waits for the run of the old one, and runs after the shutdown. */
static void replace_of_a_running_task_meets_shutdown(void) {
  open_named(0);
  weave_spawn("replace", replace, successor('b'), false);
  weave_spawn("shutdown", stage_shut_down_arg, NULL, false);
  play_replacement_or_refusal();
}

/* The old task has no `done`: the new task takes its slot and its id. */
static void replace_in_place_meets_shutdown(void) {
  uvs_counts_t c;
  struct part *b;

  stage_open(2);
  replaced = named('a');
  replaced->spec.first_ns = UVS_MS(5);
  replaced->spec.done = NULL;
  stage_submit(replaced);
  b = named('b');
  weave_spawn("replace", replace, b, false);
  weave_spawn("shutdown", stage_shut_down_arg, NULL, false);
  stage_play();
  uvs_counts_init(&c);
  WEAVE_SAME(0, uvs_counts(stage.s, &c));
  WEAVE_SAME(b->rc == UVS_REPLACED, c.cancelled);
  WEAVE_SAME(1, c.completed);
  WEAVE_SAME(b->rc == UVS_REPLACED ? 0 : 1, replaced->runs);
  WEAVE_SAME(b->rc == UVS_REPLACED ? 1 : 0, b->runs);
  if (b->rc == UVS_REPLACED)
    WEAVE_SAME(replaced->id, b->id);
  stage_close();
}

/* A replaced task is not handed back. Every other accepted task has run or is handed back. */
static void play_replacement_and_shutdown_now(void) {
  const struct part *b = &stage.parts[1];

  play();
  WEAVE_SAME(1, stage.all_came);
  if (b->rc >= 0)
    WEAVE_SAME(1, b->runs + b->never_ran);
  if (b->rc == UVS_REPLACED)
    WEAVE_SAME(0, replaced->never_ran);
  else
    WEAVE_SAME(1, replaced->runs + replaced->never_ran);
}

static void replace_meets_shutdown_now(void) {
  open_named(5);
  weave_spawn("replace", replace, successor('b'), false);
  weave_spawn("now", stage_shut_down_now_arg, NULL, false);
  play_replacement_and_shutdown_now();
}

static void replace_of_a_running_task_meets_shutdown_now(void) {
  open_named(0);
  weave_spawn("replace", replace, successor('b'), false);
  weave_spawn("now", stage_shut_down_now_arg, NULL, false);
  play_replacement_and_shutdown_now();
}

const struct weave_scene scenes_pause[] = {
    {"pause", "pause-meets-due", pause_meets_due},
    {"pause", "pause-meets-due-on-the-loop", pause_meets_due_of_a_plain_loop_task},
    {"pause", "pause-meets-cancel", pause_meets_cancel},
    {"pause", "pause-meets-the-end-of-a-run", pause_meets_the_end_of_a_run},
    {"pause", "pause-for-ever-meets-cancel", pause_for_ever_meets_cancel},
    {"pause", "resume-meets-shutdown", resume_meets_shutdown},
    {"pause", "resume-meets-sleep", resume_meets_sleep},
    {"pause", "pause-meets-shutdown", pause_meets_shutdown},
    {"pause", "pause-of-a-periodic-task-meets-shutdown", pause_of_a_periodic_task_meets_shutdown},
    {"pause", "pause-meets-shutdown-now", pause_meets_shutdown_now},
    {"pause", "pause-meets-dispose", pause_meets_dispose},
    {"pause", "pause-all-meets-submit", pause_all_meets_submit},
    {"pause", "pause-all-meets-due", pause_all_meets_due},
    {"pause", "pause-all-meets-shutdown", pause_all_meets_shutdown},
    {"pause", "shutdown-after-pause-all", shutdown_after_pause_all},
    {"pause", "resume-all-meets-shutdown", resume_all_meets_shutdown},
    {"pause", "pause-all-meets-shutdown-now", pause_all_meets_shutdown_now},
    {"pause", "pause-all-for-ever-meets-dispose", pause_all_for_ever_meets_dispose},
    {"pause", "pause-all-and-resume-meets-dispose", pause_all_and_resume_meets_dispose},
    {"pause", "run-now-meets-due", run_now_meets_due},
    {"pause", "run-now-meets-sleep", run_now_meets_sleep},
    {"pause", "run-now-meets-cancel", run_now_meets_cancel},
    {"pause", "run-now-meets-shutdown", run_now_meets_shutdown},
    {"pause", "run-now-meets-shutdown-that-cancels", run_now_meets_shutdown_that_cancels},
    {"pause", "run-now-of-a-paused-task-meets-shutdown", run_now_of_a_paused_task_meets_shutdown},
    {"pause", "run-now-meets-shutdown-now", run_now_meets_shutdown_now},
    {"pause", "run-now-meets-dispose", run_now_meets_dispose},
    {"pause", "replace-meets-run", replace_meets_run},
    {"pause", "replace-meets-due", replace_meets_due},
    {"pause", "replace-meets-cancel", replace_meets_cancel},
    {"pause", "two-replacements-meet-run", two_replacements_meet_run},
    {"pause", "replace-meets-dispose", replace_meets_dispose},
    {"pause", "replace-meets-shutdown", replace_meets_shutdown},
    {"pause", "replace-of-a-running-task-meets-shutdown", replace_of_a_running_task_meets_shutdown},
    {"pause", "replace-in-place-meets-shutdown", replace_in_place_meets_shutdown},
    {"pause", "replace-meets-shutdown-now", replace_meets_shutdown_now},
    {"pause", "replace-of-a-running-task-meets-shutdown-now",
     replace_of_a_running_task_meets_shutdown_now},
    {NULL, NULL, NULL},
};
