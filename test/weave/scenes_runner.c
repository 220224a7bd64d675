/* SPDX-License-Identifier: MIT
 *
 * Runners: how many there are, on which threads, which tasks they take and in which order; and
 * submissions for which there is no room.
 */
#include "scenes.h"

#include <string.h>

#include "uvsched/executor.h"
#include "uvsched/lane.h"

#include "model.h"
#include "stage.h"

static struct part *add(char name) {
  struct part *p = stage_part(name);

  stage_submit(p);
  return p;
}

static void play(void) {
  stage_play();
  stage_close();
}

static void three_tasks_for_two_runners(void) {
  stage_open(2);
  add('a');
  add('b');
  add('c');
  play();
}

static void detached_tasks_for_two_runners(void) {
  stage_open(2);
  for (int i = 0; i < 3; i++) {
    struct part *p = stage_part((char)('a' + i));

    p->spec.done = NULL;
    stage_submit(p);
  }
  stage_play();
  for (int i = 0; i < 3; i++)
    WEAVE_SAME(1, stage.parts[i].runs);
  stage_close();
}

/* Another thread submits detached tasks while a runner ends one: slots are reused. */
static void detached_tasks_from_another_thread(void) {
  struct part *p;

  stage_open(1);
  p = stage_part('a');
  p->spec.done = NULL;
  stage_submit(p);
  p = stage_part('b');
  p->spec.done = NULL;
  weave_spawn("submit", stage_submit_arg, p, false);
  stage_play();
  WEAVE_SAME(1, stage.parts[0].runs);
  WEAVE_SAME(1, stage.parts[1].runs);
  stage_close();
}

/* ---- order ---- */

static void submit_both(void *arg) {
  struct part *first = arg;

  stage_submit(first);
  stage_submit(first + 1);
}

/* Equal deadlines, one runner: in the order of submission. */
static void equal_deadlines_keep_their_order(void) {
  stage_open(1);
  for (int i = 0; i < 3; i++)
    stage_part((char)('a' + i))->spec.first_ns = UVS_MS(2);
  weave_spawn("submit", submit_both, &stage.parts[0], false);
  weave_spawn("other", stage_submit_arg, &stage.parts[2], false);
  stage_play();
  WEAVE_CHECK(stage.parts[0].order < stage.parts[1].order);
  stage_close();
}

/* The loop's own tasks come after those submitted before. */
static void loop_submission_keeps_the_order(void) {
  stage_open(1);
  for (int i = 0; i < 3; i++)
    stage_loop_part((char)('a' + i))->spec.first_ns = UVS_MS(2);
  weave_spawn("submit", submit_both, &stage.parts[0], false);
  stage_go();
  stage_submit(&stage.parts[2]);
  WEAVE_CHECK(stage.parts[2].rc == 0);
  stage.parts[2].not_before_ns = 0;
  stage_play();
  WEAVE_CHECK(stage.parts[0].order < stage.parts[1].order);
  stage_close();
}

/* ---- how many ---- */

static void set_concurrency(void *arg) {
  WEAVE_SAME(0, uvs_set_concurrency(stage.s, *(int *)arg));
}

static void concurrency_drops_to_zero(void) {
  static int none = 0;

  stage_open(1);
  add('a');
  add('b');
  weave_spawn("set", set_concurrency, &none, false);
  play();
}

static void concurrency_rises(void) {
  static int one = 1;

  stage_init();
  stage.options.concurrency = 0;
  stage_open_with(1);
  add('a');
  add('b');
  weave_spawn("set", set_concurrency, &one, false);
  play();
}

static void sleep_5ms(uvs_run_t *run, struct part *p) {
  (void)run;
  (void)p;
  stage_sleep_ms(5);
}

static void take_away_when_it_runs(void *arg) {
  stage_await_run(arg);
  WEAVE_SAME(0, uvs_set_concurrency(stage.s, 0));
}

/* The only runner is busy when the concurrency drops to 0: the loop runs 'b' itself,
 * immediately. */
static void concurrency_drops_to_zero_while_busy(void) {
  struct part *a;

  stage_open(1);
  a = add('a');
  a->act = sleep_5ms;
  add('b');
  weave_spawn("set", take_away_when_it_runs, a, false);
  play();
}

static void toggle(void *arg) {
  (void)arg;
  WEAVE_SAME(0, uvs_set_concurrency(stage.s, 0));
  WEAVE_SAME(0, uvs_set_concurrency(stage.s, 1));
}

static void concurrency_drops_and_rises(void) {
  stage_open(1);
  add('a');
  add('b');
  weave_spawn("toggle", toggle, NULL, false);
  weave_spawn("submit", stage_submit_arg, stage_part('c'), false);
  play();
}

static void sleep_1ms(uvs_run_t *run, struct part *p) {
  (void)run;
  (void)p;
  stage_sleep_ms(1);
}

static uvs_lane_t open_lane_with_a_thread(void) {
  uvs_lane_options_t o;
  uvs_lane_t lane;

  uvs_lane_options_init(&o);
  o.threads = 1;
  WEAVE_SAME(0, uvs_lane_open(stage.s, &o, &lane));
  return lane;
}

/* A freed lane has left a spare runner. A strand that needs two more counts on it, creates one, and
 * finds that a new lane has taken the spare one. */
static void two_want_the_spare_runner(void) {
  static int three = 3;

  stage_init();
  stage.options.concurrency = 1;
  stage_open_with(3);
  WEAVE_SAME(0, uvs_lane_dispose(open_lane_with_a_thread(), 0));
  while (model_turn()) {
  }
  weave_spawn("set", set_concurrency, &three, false);
  stage_go();
  weave_yield();
  stage_part('l')->spec.lane = open_lane_with_a_thread();
  for (int i = 0; i < 3; i++)
    stage_part((char)('a' + i));
  for (int i = 0; i < 4; i++) {
    stage.parts[i].act = sleep_1ms;
    stage.parts[i].late_ns = UVS_MS(3); /* perhaps there is only one runner yet */
    stage_submit(&stage.parts[i]);
  }
  play();
}

/* ---- where ---- */

/* An executor with one thread. It refuses the first jobs if told to. */
static struct {
  void (*fn[16])(void *arg);
  void *arg[16];
  unsigned first, end;
  int refuse;
} own;

static bool has_own(const void *arg) {
  (void)arg;
  return own.first != own.end;
}

static void serve_own(void *arg) {
  (void)arg;
  for (;;) {
    weave_sleep(has_own, NULL, WEAVE_NEVER);
    own.first++;
    own.fn[own.first - 1](own.arg[own.first - 1]);
  }
}

static int submit_own(void *self, void (*fn)(void *arg), void *arg) {
  (void)self;
  weave_here();
  if (own.refuse > 0) {
    own.refuse--;
    return UV_EAGAIN;
  }
  WEAVE_CHECK(own.end < 16);
  own.fn[own.end] = fn;
  own.arg[own.end++] = arg;
  return 0;
}

static void open_own(int refuse) {
  static uvs_executor_t e;

  memset(&own, 0, sizeof own);
  own.refuse = refuse;
  uvs_executor_init(&e);
  e.submit = submit_own;
  stage_init();
  stage.options.executor = &e;
  stage_open_with(0);
  weave_spawn("own", serve_own, NULL, true);
}

static void custom_executor(void) {
  open_own(0);
  add('a');
  weave_spawn("submit", stage_submit_arg, stage_part('b'), false);
  play();
}

static void executor_refuses(void) {
  open_own(1);
  add('a');
  weave_spawn("submit", stage_submit_arg, stage_part('b'), false);
  play();
}

static void poke(void *arg) {
  (void)arg;
  WEAVE_CHECK(uvs_set_after_shutdown(stage.s, UVS_DELAYED_TASKS, 1) <= 0); /* wakes the loop */
  uvs_release(stage.s);
}

/* The scheduler cannot join the executor's thread: a returned runner may still be on it. */
static void executor_meets_close(void) {
  open_own(0);
  stage_part('a')->others_cancel = true;
  stage_submit(&stage.parts[0]);
  uvs_retain(stage.s);
  weave_spawn("poke", poke, NULL, false);
  stage_go();
  model_turn();
  WEAVE_SAME(0, uvs_close(stage.s, stage_on_closed));
  stage_await_close();
}

static void own_threads(void) {
  stage_init();
  stage.options.threads = 1;
  stage_open_with(0);
  add('a');
  weave_spawn("submit", stage_submit_arg, stage_part('b'), false);
  play();
}

static void resize_to_two(void *arg) {
  WEAVE_SAME(0, uvs_threads_resize(arg, 2));
  WEAVE_SAME(0, uvs_threads_resize(arg, 1));
}

static void own_threads_are_resized(void) {
  uvs_threads_options_t o;
  uvs_threads_t *threads;

  stage_init();
  uvs_threads_options_init(&o);
  o.threads = 1;
  o.allocator = stage.options.allocator;
  model_reset(0);
  WEAVE_SAME(0, uvs_threads_open(&o, &threads));
  stage.options.executor = uvs_threads_executor(threads);
  stage_open_again();
  add('a');
  add('b');
  weave_spawn("resize", resize_to_two, threads, false);
  stage_play();
  stage_close_but_memory();
  WEAVE_SAME(0, uvs_threads_close(threads));
  stage_check_memory();
}

/* ---- runners that stay for more (precise_ns) ---- */

static void open_precise(void) {
  stage_init();
  stage.options.concurrency = 1;
  stage.options.precise_ns = 1;
  stage_open_with(1);
  stage_runs_are_brief();
}

/* 'b' is due while the runner of 'a' lingers, or has just left. */
static void runner_lingers(void) {
  open_precise();
  add('a');
  stage_part('b')->spec.first_ns = UVS_US(500);
  stage.parts[1].late_ns = 1;
  stage_submit(&stage.parts[1]);
  play();
}

static void runner_lingers_and_another_submits(void) {
  open_precise();
  add('a');
  stage_part('b')->spec.first_ns = UVS_US(500);
  stage.parts[1].late_ns = 1;
  stage_submit(&stage.parts[1]);
  weave_spawn("submit", stage_submit_arg, stage_part('c'), false);
  stage.parts[2].late_ns = UVS_US(500); /* its runner waits for 'b' just as well */
  play();
}

/* ---- no room ---- */

static void open_full(int rejection) {
  stage_init();
  stage.options.concurrency = 1;
  stage.options.max_pending = 1;
  stage.options.rejection_policy = rejection;
  stage_open_with(1);
}

static void submit_maybe(void *arg) {
  struct part *p = arg;

  p->others_cancel = true;
  stage_submit(p);
  WEAVE_CHECK(p->rc == 0 || p->rc == UV_EAGAIN);
}

static void cap_of_one(void) {
  open_full(UVS_REJECT_ABORT);
  weave_spawn("a", submit_maybe, stage_part('a'), false);
  weave_spawn("b", submit_maybe, stage_part('b'), false);
  stage_play();
  WEAVE_CHECK(stage.parts[0].rc == 0 || stage.parts[1].rc == 0);
  stage_close();
}

static void newest_is_dropped(void) {
  open_full(UVS_REJECT_DISCARD);
  weave_spawn("a", submit_maybe, stage_part('a'), false);
  weave_spawn("b", submit_maybe, stage_part('b'), false);
  weave_spawn("count", stage_count_arg, NULL, false);
  stage_play();
  WEAVE_SAME(0, stage.parts[0].rc | stage.parts[1].rc);
  stage_close();
}

static void oldest_is_dropped(void) {
  open_full(UVS_REJECT_DISCARD_OLDEST);
  weave_spawn("a", submit_maybe, stage_part('a'), false);
  weave_spawn("b", submit_maybe, stage_part('b'), false);
  stage_play();
  WEAVE_SAME(0, stage.parts[0].rc | stage.parts[1].rc);
  stage_close();
}

static void caller_runs(void) {
  open_full(UVS_REJECT_CALLER_RUNS);
  weave_spawn("a", submit_maybe, stage_part('a'), false);
  weave_spawn("b", submit_maybe, stage_part('b'), false);
  stage_play();
  WEAVE_SAME(2, stage.parts[0].runs + stage.parts[1].runs);
  stage_close();
}

static void cancel_what_the_submitter_runs(void *arg) {
  stage_await_id(arg);
  stage_cancel(arg, 0);
}

static void caller_runs_meets_cancel(void) {
  struct part *a;

  open_full(UVS_REJECT_CALLER_RUNS);
  add('a')->spec.done = NULL;
  a = stage_part('b');
  weave_spawn("submit", submit_maybe, a, false);
  weave_spawn("cancel", cancel_what_the_submitter_runs, a, false);
  play();
}

const struct weave_scene scenes_runner[] = {
    {"runner", "three-tasks-for-two-runners", three_tasks_for_two_runners},
    {"runner", "detached-tasks-for-two-runners", detached_tasks_for_two_runners},
    {"runner", "detached-tasks-from-another-thread", detached_tasks_from_another_thread},
    {"runner", "equal-deadlines-keep-their-order", equal_deadlines_keep_their_order},
    {"runner", "loop-submission-keeps-the-order", loop_submission_keeps_the_order},
    {"runner", "concurrency-drops-to-zero", concurrency_drops_to_zero},
    {"runner", "concurrency-rises", concurrency_rises},
    {"runner", "two-want-the-spare-runner", two_want_the_spare_runner},
    {"runner", "custom-executor", custom_executor},
    {"runner", "executor-refuses", executor_refuses},
    {"runner", "executor-meets-close", executor_meets_close},
    {"runner", "own-threads", own_threads},
    {"runner", "own-threads-are-resized", own_threads_are_resized},
    {"runner", "runner-lingers", runner_lingers},
    {"runner", "runner-lingers-and-another-submits", runner_lingers_and_another_submits},
    {"runner", "cap-of-one", cap_of_one},
    {"runner", "newest-is-dropped", newest_is_dropped},
    {"runner", "oldest-is-dropped", oldest_is_dropped},
    {"runner", "caller-runs", caller_runs},
    {"runner", "caller-runs-meets-cancel", caller_runs_meets_cancel},
    {"runner", "concurrency-drops-to-zero-while-busy", concurrency_drops_to_zero_while_busy},
    {"runner", "concurrency-drops-and-rises", concurrency_drops_and_rises},
    {NULL, NULL, NULL},
};
