/* SPDX-License-Identifier: MIT
 *
 * Waking the loop: a strand that gives the loop something to do, or removes what keeps it alive,
 * must not leave it asleep.
 */
#include "scenes.h"

#include "uvsched/lane.h"

#include "model.h"
#include "stage.h"

/* ---- what keeps the loop ---- */

static void open_kept_by_tasks(void) {
  stage_init();
  stage.options.concurrency = 1;
  stage.options.keep_alive = UVS_KEEP_ALIVE_AUTO;
  stage_open_with(1);
}

static void turn_while_alive(void) {
  while (model_alive()) {
    if (!model_turn())
      weave_fail("the loop stays, and nothing is left that keeps it");
  }
}

/* Another handle keeps the loop alive for 10 ms. The timer is set for 20 ms, so the later deadline
 * of 'b' does not wake the loop. But the loop must know that 'b' keeps it alive when the handle is
 * gone. `last`: another task keeps the loop alive until just then, so that the scheduler has not
 * yet unref'd its handles. */
static void far_one_comes(bool last) {
  struct part *far;

  open_kept_by_tasks();
  stage_part('a')->spec.first_ns = UVS_MS(20);
  stage.parts[0].spec.flags = UVS_UNREF;
  stage_submit(&stage.parts[0]);
  if (last)
    stage_submit(stage_loop_part('r'));
  far = stage_part('b');
  far->spec.first_ns = UVS_MS(80);
  weave_spawn("submit", stage_submit_arg, far, false);
  model_guest_until(weave_now_ns + UINT64_C(10000000));
  stage_go();
  while (model_alive() && model_turn()) {
  }
  if (far->dones == 0)
    weave_fail("the loop ends although a task keeps it");
  stage_play();
  stage_close();
}

static void far_task_keeps_the_loop_alive(void) {
  far_one_comes(false);
}

static void far_task_arrives_as_the_last_ends(void) {
  far_one_comes(true);
}

/* The last task that keeps the loop alive is cancelled: the loop must notice and end. */
static void loop_ends_with_the_last_task(void) {
  struct part *a, *other;

  open_kept_by_tasks();
  a = stage_part('a');
  other = stage_part('b');
  a->spec.first_ns = other->spec.first_ns = UVS_NEVER;
  a->spec.done = other->spec.done = NULL;
  stage_submit(a);
  stage_submit(other);
  weave_spawn("cancel", stage_cancel_arg, a, false);
  stage_go();
  stage_cancel(other, 0);
  turn_while_alive();
  stage_play();
  stage_close();
}

/* Detached tasks have no callbacks: the loop only learns how many ended. */
static void loop_ends_after_detached_tasks(void) {
  open_kept_by_tasks();
  for (int i = 0; i < 2; i++) {
    stage_part((char)('a' + i))->spec.done = NULL;
    stage_submit(&stage.parts[i]);
  }
  stage_go();
  turn_while_alive();
  for (int i = 0; i < 2; i++)
    WEAVE_SAME(1, stage.parts[i].runs);
  stage_play();
  stage_close();
}

static void unref_meets_cancel(void) {
  struct part *a, *other;

  open_kept_by_tasks();
  a = stage_part('a');
  other = stage_part('b');
  a->spec.first_ns = other->spec.first_ns = UVS_NEVER;
  a->spec.done = NULL;
  other->stays = true;
  stage_submit(a);
  stage_submit(other);
  weave_spawn("cancel", stage_cancel_arg, a, false);
  stage_go();
  WEAVE_SAME(0, uvs_unref(stage.s, other->id));
  turn_while_alive();
  stage_play();
  stage_close();
}

/* ---- what the loop has to do ---- */

static void play(void) {
  stage_play();
  stage_close();
}

/* The loop has a deadline to sleep for, long after everything else. */
static void open_sleepy(int runners) {
  struct part *z;

  stage_open(runners);
  z = stage_loop_part('z');
  z->spec.first_ns = UVS_MS(90);
  stage_submit(z);
  while (model_sleeps_until() == 0)
    WEAVE_CHECK(model_turn());
}

/* Whatever a strand does to this part, its `done` must come immediately. */
static int64_t called_ns;

static void check_at_once(const struct part *p) {
  stage_play();
  WEAVE_SAME(1, p->dones);
  if (p->done_ns > called_ns)
    weave_fail("%c: done came %lld ns after the call", p->name,
               (long long)(p->done_ns - called_ns));
  stage_close();
}

static void submit_meets_sleep(void) {
  open_sleepy(1);
  weave_spawn("submit", stage_submit_arg, stage_part('a'), false);
  play();
}

static void loop_task_meets_sleep(void) {
  open_sleepy(1);
  weave_spawn("submit", stage_submit_arg, stage_loop_part('a'), false);
  play();
}

/* The loop is about to sleep again after a pass. */
static void submit_meets_the_end_of_a_pass(void) {
  open_sleepy(1);
  stage_submit(stage_loop_part('x'));
  weave_spawn("submit", stage_submit_arg, stage_part('a'), false);
  weave_spawn("other", stage_submit_arg, stage_loop_part('b'), false);
  play();
}

static void nearer_task_meets_the_end_of_a_pass(void) {
  open_sleepy(1);
  stage_submit(stage_loop_part('x'));
  stage_part('a')->spec.first_ns = UVS_MS(2);
  weave_spawn("submit", stage_submit_arg, &stage.parts[2], false);
  play();
}

static void two_nearer_tasks(void) {
  open_sleepy(1);
  stage_part('a')->spec.first_ns = UVS_MS(5);
  stage_part('b')->spec.first_ns = UVS_MS(2);
  weave_spawn("a", stage_submit_arg, &stage.parts[1], false);
  weave_spawn("b", stage_submit_arg, &stage.parts[2], false);
  play();
}

/* The runner of 'x' finds nothing more and returns, or finds 'a'. */
static void submit_meets_a_leaving_runner(void) {
  open_sleepy(1);
  stage_part('x')->spec.done = NULL;
  stage_submit(&stage.parts[1]);
  weave_spawn("submit", stage_submit_arg, stage_part('a'), false);
  play();
}

/* The same, but 'a' is a loop task: it goes through the delay queue. */
static void loop_task_meets_a_leaving_runner(void) {
  open_sleepy(1);
  stage_part('x')->spec.done = NULL;
  stage_submit(&stage.parts[1]);
  weave_spawn("submit", stage_submit_arg, stage_loop_part('a'), false);
  play();
}

static void two_submits_meet_a_leaving_runner(void) {
  open_sleepy(1);
  stage_part('x')->spec.done = NULL;
  stage_submit(&stage.parts[1]);
  weave_spawn("a", stage_submit_arg, stage_part('a'), false);
  weave_spawn("b", stage_submit_arg, stage_part('b'), false);
  play();
}

/* The runner's budget is used up after 'a': 'b' is left to the next runner. */
static void runner_leaves_tasks_behind(void) {
  open_sleepy(1);
  stage_part('a')->takes_ms = 2;
  stage_part('b')->late_ns = UVS_MS(2);
  stage_submit(&stage.parts[1]);
  weave_spawn("submit", stage_submit_arg, &stage.parts[2], false);
  play();
}

static void cancel_and_note(void *arg) {
  called_ns = (int64_t)weave_now_ns;
  stage_cancel(arg, 0);
}

static void cancel_meets_sleep(void) {
  struct part *a;

  open_sleepy(1);
  a = stage_part('a');
  a->spec.first_ns = UVS_MS(50);
  stage_submit(a);
  weave_spawn("cancel", cancel_and_note, a, false);
  check_at_once(a);
}

static void complete_and_note(void *arg) {
  struct part *p = arg;

  called_ns = (int64_t)weave_now_ns;
  WEAVE_SAME(0, uvs_complete(stage.s, p->id, UV_EIO, NULL));
}

static void complete_meets_sleep(void) {
  struct part *a;

  open_sleepy(1);
  a = stage_part('a');
  a->spec.first_ns = UVS_MS(50);
  stage_submit(a);
  weave_spawn("complete", complete_and_note, a, false);
  check_at_once(a);
}

static void cancel_meets_the_end_of_a_pass(void) {
  struct part *a;

  open_sleepy(1);
  a = stage_part('a');
  a->spec.first_ns = UVS_MS(50);
  stage_submit(a);
  stage_submit(stage_loop_part('x'));
  weave_spawn("cancel", cancel_and_note, a, false);
  check_at_once(a);
}

static void move_to_now(void *arg) {
  WEAVE_SAME(0, stage_reschedule(arg, 0));
}

static void reschedule_meets_the_end_of_a_pass(void) {
  struct part *a;

  open_sleepy(1);
  a = stage_part('a');
  a->spec.first_ns = UVS_MS(50);
  stage_submit(a);
  stage_submit(stage_loop_part('x'));
  weave_spawn("move", move_to_now, a, false);
  play();
}

static void finish_and_note(void *arg) {
  struct part *p = arg;

  stage_await_run(p);
  stage_sleep_ms(1); /* all sleep: the body has returned */
  called_ns = (int64_t)weave_now_ns;
  WEAVE_SAME(0, uvs_finish(stage.s, p->id, 0));
}

static void finish_meets_sleep(void) {
  struct part *a;

  open_sleepy(1);
  a = stage_part('a');
  a->ret = UVS_PENDING;
  stage_submit(a);
  weave_spawn("finish", finish_and_note, a, false);
  check_at_once(a);
}

static void finish_meets_the_end_of_a_pass(void) {
  struct part *a;

  open_sleepy(1);
  a = stage_part('a');
  a->ret = UVS_PENDING;
  stage_submit(a);
  stage_loop_part('x')->spec.first_ns = UVS_MS(1);
  stage_submit(&stage.parts[2]);
  weave_spawn("finish", finish_and_note, a, false);
  check_at_once(a);
}

static uvs_lane_t lane;
static int64_t quiet_ns;

static void on_quiet(uvs_t *s, uvs_lane_t number, void *arg) {
  (void)s;
  (void)number;
  (void)arg;
  quiet_ns = (int64_t)weave_now_ns;
}

static void open_lane(void) {
  uvs_lane_options_t o;

  quiet_ns = 0;
  uvs_lane_options_init(&o);
  o.on_quiet = on_quiet;
  WEAVE_SAME(0, uvs_lane_open(stage.s, &o, &lane));
}

static void dispose_and_note(void *arg) {
  (void)arg;
  called_ns = (int64_t)weave_now_ns;
  WEAVE_SAME(0, uvs_lane_dispose(lane, 0));
}

static void dispose_meets_sleep(void) {
  struct part *a;

  open_sleepy(1);
  open_lane();
  a = stage_part('a');
  a->spec.lane = lane;
  a->spec.first_ns = UVS_MS(50);
  a->others_cancel = true;
  stage_submit(a);
  stage_submit(stage_loop_part('x'));
  weave_spawn("dispose", dispose_and_note, NULL, false);
  check_at_once(a);
  WEAVE_SAME(called_ns, quiet_ns);
}

/* The lane is empty: only its last callback is pending. */
static void dispose_of_an_empty_lane(void) {
  open_sleepy(1);
  open_lane();
  weave_spawn("dispose", dispose_and_note, NULL, false);
  stage_play();
  WEAVE_SAME(called_ns, quiet_ns);
  stage_close();
}

static int64_t cleanup_ns;

static void on_cleanup(uvs_t *s, void *arg) {
  (void)s;
  (void)arg;
  cleanup_ns = (int64_t)weave_now_ns;
}

static void attach_and_note(void *arg) {
  called_ns = (int64_t)weave_now_ns;
  WEAVE_SAME(0, uvs_add_cleanup(stage.s, ((struct part *)arg)->id, on_cleanup, NULL, 0));
}

static void post_and_note(void *arg) {
  (void)arg;
  called_ns = (int64_t)weave_now_ns;
  WEAVE_SAME(0, uvs_post(stage.s, on_cleanup, NULL));
}

/* A posted call is made in the next pass, which must come. */
static void post_meets_sleep(void) {
  open_sleepy(1);
  cleanup_ns = 0;
  stage_submit(stage_loop_part('y'));
  weave_spawn("post", post_and_note, NULL, false);
  stage_play();
  WEAVE_SAME(called_ns, cleanup_ns);
  stage_close();
}

/* The task has ended: the action is called in the next pass, which must come. */
static void cleanup_meets_sleep(void) {
  struct part *x;

  open_sleepy(1);
  cleanup_ns = 0;
  x = stage_loop_part('x');
  stage_submit(x);
  while (x->dones == 0)
    WEAVE_CHECK(model_turn());
  stage_submit(stage_loop_part('y'));
  weave_spawn("attach", attach_and_note, x, false);
  stage_play();
  WEAVE_SAME(called_ns, cleanup_ns);
  stage_close();
}

/* ---- a runner looks into the delay queue itself ---- */

/* 'l', a task of the loop, is due while the runner is in the body of 'x'. */
static struct part *due_in_a_body(bool of_loop) {
  struct part *x, *l;

  stage_init();
  stage.options.concurrency = 1;
  stage.options.budget_ns = UVS_MS(50); /* or the runner would leave after 'x' */
  stage_open_with(1);
  x = stage_part('x');
  x->takes_ms = 3;
  stage_submit(x);
  l = of_loop ? stage_loop_part('l') : stage_part('l');
  l->spec.first_ns = UVS_MS(2);
  l->late_ns = UVS_MS(3); /* time passes in the body, whatever the loop is at */
  stage_submit(l);
  return l;
}

static void runner_finds_a_task_of_the_loop(void) {
  due_in_a_body(true);
  play();
}

static void runner_and_loop_collect(void) {
  due_in_a_body(false);
  play();
}

static void cancel_meets_a_task_found_by_a_runner(void) {
  weave_spawn("cancel", stage_cancel_arg, due_in_a_body(true), false);
  play();
}

static void cancel_meets_runner_and_loop_collecting(void) {
  weave_spawn("cancel", stage_cancel_arg, due_in_a_body(false), false);
  play();
}

static void move_by_1ms(void *arg) {
  int rc = stage_reschedule(arg, UVS_MS(1));

  WEAVE_CHECK(rc == 0 || rc == UV_EBUSY || rc == UV_ENOENT);
}

static void reschedule_meets_a_task_found_by_a_runner(void) {
  weave_spawn("move", move_by_1ms, due_in_a_body(true), false);
  play();
}

/* ---- brief runs ---- */

static void sleep_9ms(uvs_run_t *run, struct part *p) {
  (void)run;
  (void)p;
  stage_sleep_ms(9);
}

/* One runner is enough for many brief bodies. But 'a' is long: the loop looks again after 1 ms. */
static void long_body_among_brief_bodies(void) {
  open_sleepy(2);
  stage_runs_are_brief();
  stage_part('a')->act = sleep_9ms;
  stage_part('b')->late_ns = UVS_MS(3);
  stage_submit(&stage.parts[1]);
  weave_spawn("submit", stage_submit_arg, &stage.parts[2], false);
  play();
}

static void submit_after_2ms(void *arg) {
  stage_sleep_ms(2);
  stage_submit(arg);
}

/* The same, but 'b' comes while the loop ends a pass that found nothing to do, since 'x' was
 * postponed. */
static void held_back_task_meets_the_end_of_a_pass(void) {
  struct part *x, *a, *b;

  open_sleepy(2);
  stage_runs_are_brief();
  x = stage_loop_part('x');
  x->spec.first_ns = UVS_MS(2);
  a = stage_part('a');
  a->act = sleep_9ms;
  b = stage_part('b');
  b->late_ns = UVS_MS(3);
  stage_submit(x);
  WEAVE_SAME(0, stage_reschedule(x, UVS_MS(50)));
  stage_submit(a);
  weave_spawn("submit", submit_after_2ms, b, false);
  play();
}

/* ---- what keeps the loop, once more ---- */

static void finish_it(void *arg) {
  struct part *p = arg;

  stage_await_run(p);
  WEAVE_SAME(0, uvs_finish(stage.s, p->id, 0));
}

/* The last task that keeps the loop alive ends on another thread, without a callback. */
static void loop_ends_after_a_finish(void) {
  struct part *a;

  open_kept_by_tasks();
  a = stage_part('a');
  a->spec.done = NULL;
  a->ret = UVS_PENDING;
  stage_submit(a);
  weave_spawn("finish", finish_it, a, false);
  stage_go();
  turn_while_alive();
  play();
}

static void dispose_it(void *arg) {
  (void)arg;
  WEAVE_SAME(0, uvs_lane_dispose(lane, 0));
}

static void loop_ends_after_a_dispose(void) {
  struct part *a;

  open_kept_by_tasks();
  open_lane();
  a = stage_part('a');
  a->spec.lane = lane;
  a->spec.first_ns = UVS_NEVER;
  a->others_cancel = true;
  stage_submit(a);
  weave_spawn("dispose", dispose_it, NULL, false);
  stage_go();
  turn_while_alive();
  WEAVE_SAME(1, a->dones);
  WEAVE_CHECK(quiet_ns > 0);
  play();
}

static void loop_ends_after_a_caller_run_task(void) {
  stage_init();
  stage.options.concurrency = 1;
  stage.options.keep_alive = UVS_KEEP_ALIVE_AUTO;
  stage.options.max_pending = 1;
  stage.options.rejection_policy = UVS_REJECT_CALLER_RUNS;
  stage_open_with(1);
  stage_part('a')->spec.first_ns = UVS_NEVER;
  stage.parts[0].spec.flags = UVS_UNREF;
  stage.parts[0].stays = true;
  stage_submit(&stage.parts[0]);
  stage_part('b')->spec.done = NULL;
  weave_spawn("submit", stage_submit_arg, &stage.parts[1], false);
  model_guest_until(weave_now_ns + UINT64_C(1000000));
  stage_go();
  turn_while_alive();
  play();
}

/* The only task comes from another thread, while another handle keeps the loop alive. It ends
 * there, too. */
static void only_task_comes_and_goes(void) {
  struct part *a;

  open_kept_by_tasks();
  a = stage_part('a');
  a->spec.first_ns = UVS_MS(5);
  weave_spawn("submit", stage_submit_arg, a, false);
  model_guest_until(weave_now_ns + UINT64_C(1000000));
  stage_go();
  turn_while_alive();
  WEAVE_SAME(1, a->dones);
  play();
}

const struct weave_scene scenes_wake[] = {
    {"wake", "far-task-keeps-the-loop-alive", far_task_keeps_the_loop_alive},
    {"wake", "far-task-arrives-as-the-last-ends", far_task_arrives_as_the_last_ends},
    {"wake", "loop-ends-with-the-last-task", loop_ends_with_the_last_task},
    {"wake", "loop-ends-after-detached-tasks", loop_ends_after_detached_tasks},
    {"wake", "unref-meets-cancel", unref_meets_cancel},
    {"wake", "submit-meets-sleep", submit_meets_sleep},
    {"wake", "loop-task-meets-sleep", loop_task_meets_sleep},
    {"wake", "submit-meets-the-end-of-a-pass", submit_meets_the_end_of_a_pass},
    {"wake", "nearer-task-meets-the-end-of-a-pass", nearer_task_meets_the_end_of_a_pass},
    {"wake", "two-nearer-tasks", two_nearer_tasks},
    {"wake", "submit-meets-a-leaving-runner", submit_meets_a_leaving_runner},
    {"wake", "loop-task-meets-a-leaving-runner", loop_task_meets_a_leaving_runner},
    {"wake", "two-submits-meet-a-leaving-runner", two_submits_meet_a_leaving_runner},
    {"wake", "runner-leaves-tasks-behind", runner_leaves_tasks_behind},
    {"wake", "cancel-meets-sleep", cancel_meets_sleep},
    {"wake", "complete-meets-sleep", complete_meets_sleep},
    {"wake", "cancel-meets-the-end-of-a-pass", cancel_meets_the_end_of_a_pass},
    {"wake", "reschedule-meets-the-end-of-a-pass", reschedule_meets_the_end_of_a_pass},
    {"wake", "finish-meets-sleep", finish_meets_sleep},
    {"wake", "finish-meets-the-end-of-a-pass", finish_meets_the_end_of_a_pass},
    {"wake", "dispose-meets-sleep", dispose_meets_sleep},
    {"wake", "dispose-of-an-empty-lane", dispose_of_an_empty_lane},
    {"wake", "cleanup-meets-sleep", cleanup_meets_sleep},
    {"wake", "post-meets-sleep", post_meets_sleep},
    {"wake", "runner-finds-a-task-of-the-loop", runner_finds_a_task_of_the_loop},
    {"wake", "runner-and-loop-collect", runner_and_loop_collect},
    {"wake", "cancel-meets-a-task-found-by-a-runner", cancel_meets_a_task_found_by_a_runner},
    {"wake", "cancel-meets-runner-and-loop-collecting", cancel_meets_runner_and_loop_collecting},
    {"wake", "reschedule-meets-a-task-found-by-a-runner",
     reschedule_meets_a_task_found_by_a_runner},
    {"wake", "long-body-among-brief-bodies", long_body_among_brief_bodies},
    {"wake", "held-back-task-meets-the-end-of-a-pass", held_back_task_meets_the_end_of_a_pass},
    {"wake", "loop-ends-after-a-finish", loop_ends_after_a_finish},
    {"wake", "loop-ends-after-a-dispose", loop_ends_after_a_dispose},
    {"wake", "loop-ends-after-a-caller-run-task", loop_ends_after_a_caller_run_task},
    {"wake", "only-task-comes-and-goes", only_task_comes_and_goes},
    {NULL, NULL, NULL},
};
