/* SPDX-License-Identifier: MIT
 *
 * Lanes: order, no overlap, and an end that comes once, after everything else.
 */
#include "scenes.h"

#include <string.h>

#include "uvsched/lane.h"

#include "model.h"
#include "stage.h"

static struct {
  uvs_lane_t number;
  int inside; /* bodies */
  unsigned last;
  int quiets, cleanups;
  const struct part *caught; /* its body was running when the lane was disposed */
  bool ordered; /* its tasks were submitted one after the other, in the order of their names */
} lane;

static void on_quiet(uvs_t *s, uvs_lane_t number, void *arg) {
  (void)s;
  (void)arg;
  WEAVE_SAME(lane.number, number);
  WEAVE_SAME(0, lane.quiets++);
  WEAVE_SAME(0, lane.inside);
  for (unsigned i = 0; i < stage.part_count; i++) {
    struct part *p = &stage.parts[i];

    if (p->spec.lane == number && p->sent && p->rc == 0 && p->spec.done != NULL)
      WEAVE_SAME(1, p->dones);
  }
}

/* In each body: it runs alone, and after the earlier tasks. */
static void alone(uvs_run_t *run, struct part *p) {
  (void)run;
  WEAVE_SAME(0, lane.inside++);
  weave_here();
  lane.inside--;
  if (lane.ordered)
    WEAVE_CHECK((unsigned)p->name > lane.last);
  lane.last = (unsigned)p->name;
}

static void open_lane(int threads) {
  uvs_lane_options_t o;

  memset(&lane, 0, sizeof lane);
  uvs_lane_options_init(&o);
  o.on_quiet = on_quiet;
  o.threads = threads;
  WEAVE_SAME(0, uvs_lane_open(stage.s, &o, &lane.number));
}

static struct part *in_lane(struct part *p) {
  p->spec.lane = lane.number;
  p->act = alone;
  return p;
}

static void submit_two(void *arg) {
  struct part *first = arg;

  stage_submit(first);
  stage_submit(first + 1);
}

static void submit_maybe(void *arg) {
  struct part *p = arg;

  p->others_cancel = true;
  stage_submit(p);
  WEAVE_CHECK(p->rc == 0 || p->rc == UV_ECANCELED || p->rc == UV_ESHUTDOWN);
}

/* A task that is not running now never will. */
static void note_disposed(void) {
  for (unsigned i = 0; i < stage.part_count; i++) {
    struct part *p = &stage.parts[i];
    uvs_info_t info;

    uvs_info_init(&info);
    if (p->spec.lane == lane.number && p->rc == 0 && p->id != 0 &&
        (uvs_info(stage.s, p->id, &info) < 0 || info.state != UVS_RUNNING))
      p->must_not_run = true;
    if (p->spec.lane == lane.number && p->inside)
      lane.caught = p;
  }
}

static void dispose(void *arg) {
  (void)arg;
  WEAVE_SAME(0, uvs_lane_dispose(lane.number, 0));
  WEAVE_SAME(1, uvs_lane_is_disposed(lane.number));
  note_disposed();
}

static void dispose_with_token(void *arg) {
  (void)arg;
  WEAVE_SAME(0, uvs_lane_dispose(lane.number, UVS_DISPOSE_TOKEN));
  note_disposed();
}

static void end(int quiets) {
  stage_play();
  WEAVE_SAME(quiets, lane.quiets);
  if (lane.caught != NULL) /* whatever its body returns, and whoever notices first */
    WEAVE_SAME(UV_ECANCELED, lane.caught->status);
  stage_close();
  WEAVE_SAME(1, lane.quiets);
}

static void order_in_a_lane(void) {
  stage_open(2);
  open_lane(0);
  lane.ordered = true;
  in_lane(stage_part('a'));
  in_lane(stage_part('b'));
  weave_spawn("submit", submit_two, &stage.parts[0], false);
  end(0);
}

/* There is a runner for 'b', but 'b' must wait for its lane. */
static void lane_among_others(void) {
  stage_open(2);
  open_lane(0);
  lane.ordered = true;
  stage_submit(in_lane(stage_part('a')));
  stage_submit(in_lane(stage_part('b')));
  stage_submit(stage_part('x'));
  stage_submit(stage_part('y'));
  end(0);
}

static void two_submit_to_a_lane(void) {
  stage_open(2);
  open_lane(0);
  weave_spawn("a", stage_submit_arg, in_lane(stage_part('a')), false);
  weave_spawn("b", stage_submit_arg, in_lane(stage_part('b')), false);
  end(0);
}

static void cancel_in_a_lane(void) {
  stage_open(2);
  open_lane(0);
  stage_submit(in_lane(stage_part('a')));
  stage_submit(in_lane(stage_part('b')));
  weave_spawn("cancel", stage_cancel_arg, &stage.parts[0], false);
  end(0);
}

/* One task on the loop, one on the pool: the end of one lets the other start. */
static void lane_of_loop_and_pool(void) {
  stage_open(1);
  open_lane(0);
  lane.ordered = true;
  stage_submit(in_lane(stage_part('a')));
  stage_submit(in_lane(stage_loop_part('b')));
  stage_submit(in_lane(stage_part('c')));
  end(0);
}

static void sleep_3ms(uvs_run_t *run, struct part *p) {
  (void)run;
  (void)p;
  stage_sleep_ms(3);
}

/* 'b' runs on the loop and is next in the lane. The runner of 'a' has gone on to a long body. */
static void runner_wakes_the_loop_for_the_next_task(void) {
  stage_open(1);
  open_lane(0);
  stage_submit(in_lane(stage_part('a')));
  stage_submit(in_lane(stage_loop_part('b')));
  stage_part('x')->act = sleep_3ms;
  stage_submit(&stage.parts[2]);
  stage_loop_part('z')->spec.first_ns = UVS_MS(1); /* the loop would notice the end of 'a' then */
  stage_submit(&stage.parts[3]);
  end(0);
}

/* The same, but the runner has yielded before it starts 'c', which lets the loop's 'd' start. */
static void yielding_runner_wakes_the_loop(void) {
  uvs_lane_options_t o;

  stage_init();
  stage.options.concurrency = 1;
  stage.options.budget_ns = UVS_MS(50);
  stage_open_with(1);
  uvs_lane_options_init(&o);
  o.width = 2;
  WEAVE_SAME(0, uvs_lane_open(stage.s, &o, &lane.number));
  for (int i = 0; i < 4; i++) {
    struct part *p = i < 3 ? stage_part((char)('a' + i)) : stage_loop_part('d');

    p->late_ns = UVS_MS(2);
    if (i < 2) {
      p->takes_ms = 1;
    } else {
      p->spec.lane = lane.number;
    }
    if (i == 2)
      p->act = sleep_3ms;
    stage_submit(p);
  }
  stage_play();
  stage_close();
}

static void cancel_lets_the_loop_start(void) {
  stage_open(1);
  open_lane(0);
  stage_submit(in_lane(stage_part('a')));
  stage_submit(in_lane(stage_loop_part('b')));
  weave_spawn("cancel", stage_cancel_arg, &stage.parts[0], false);
  end(0);
}

/* The same while the runner is in a long body and the loop falls asleep: nothing else wakes it. */
static void cancel_lets_the_sleeping_loop_start(void) {
  stage_open(1);
  open_lane(0);
  stage_part('x')->act = sleep_3ms;
  stage_submit(&stage.parts[0]);
  stage_submit(in_lane(stage_part('a')));
  stage.parts[1].late_ns = UVS_MS(3);
  stage_submit(in_lane(stage_loop_part('b')));
  stage_part('z')->spec.first_ns = UVS_MS(50); /* what it sleeps for */
  stage_submit(&stage.parts[3]);
  weave_spawn("cancel", stage_cancel_arg, &stage.parts[1], false);
  stage_play();
  stage_close();
}

/* A lingering runner takes 'b', which lets the loop's 'c' start. */
static void lingering_runner_wakes_the_loop(void) {
  uvs_lane_options_t o;

  stage_init();
  stage.options.concurrency = 1;
  stage.options.precise_ns = 1;
  stage_open_with(1);
  stage_runs_are_brief();
  uvs_lane_options_init(&o);
  o.width = 2;
  WEAVE_SAME(0, uvs_lane_open(stage.s, &o, &lane.number));
  stage_submit(stage_part('a'));
  stage_part('b')->act = sleep_3ms;
  stage_loop_part('c');
  for (int i = 1; i < 3; i++) {
    stage.parts[i].spec.lane = lane.number;
    stage.parts[i].spec.first_ns = UVS_US(500);
    stage.parts[i].late_ns = 1;
    stage_submit(&stage.parts[i]);
  }
  stage_play();
  stage_close();
}

static void dispose_meets_submit(void) {
  stage_open(1);
  open_lane(0);
  weave_spawn("submit", submit_maybe, in_lane(stage_part('a')), false);
  weave_spawn("dispose", dispose, NULL, false);
  end(1);
}

static void dispose_meets_run(void) {
  stage_open(1);
  open_lane(0);
  submit_maybe(in_lane(stage_part('a')));
  submit_maybe(in_lane(stage_part('b')));
  weave_spawn("dispose", dispose_with_token, NULL, false);
  end(1);
}

static void shut_down(void *arg) {
  (void)arg;
  WEAVE_SAME(0, uvs_shutdown(stage.s));
}

/* The submission has joined the lane, and is then refused: the lane must not count it any more. */
static void refusal_meets_dispose(void) {
  stage_open(1);
  open_lane(0);
  weave_spawn("submit", submit_maybe, in_lane(stage_part('a')), false);
  weave_spawn("dispose", dispose, NULL, false);
  weave_spawn("shutdown", shut_down, NULL, false);
  end(1);
}

static int nothing(uvs_run_t *run) {
  (void)run;
  return 0;
}

static void submit_both_at_once(void *arg) {
  struct part *p = arg;
  uvs_task_t specs[2] = {p[0].spec, p[1].spec};
  uvs_id_t ids[2] = {0, 0};
  int rc;

  p[0].sent = p[1].sent = true;
  p[0].others_cancel = p[1].others_cancel = true;
  p[0].rc = p[1].rc = 1;
  specs[0].work = specs[1].work = nothing;
  specs[0].done = specs[1].done = NULL;
  rc = uvs_submit_many(stage.s, specs, 2, ids);
  WEAVE_CHECK(rc == 0 || rc == UV_ECANCELED);
  p[0].sent = p[1].sent = false; /* the lane only counts them */
}

/* The first task may have joined the lane when the second is refused. */
static void batch_meets_dispose(void) {
  stage_open(1);
  open_lane(0);
  in_lane(stage_part('a'));
  in_lane(stage_part('b'));
  weave_spawn("submit", submit_both_at_once, &stage.parts[0], false);
  weave_spawn("dispose", dispose, NULL, false);
  end(1);
}

static void two_threads_dispose(void) {
  stage_open(1);
  open_lane(0);
  submit_maybe(in_lane(stage_part('a')));
  weave_spawn("one", dispose, NULL, false);
  weave_spawn("two", dispose_with_token, NULL, false);
  end(1);
}

static void loop_and_other_dispose(void) {
  stage_open(1);
  open_lane(0);
  submit_maybe(in_lane(stage_part('a')));
  weave_spawn("other", dispose, NULL, false);
  stage_go();
  dispose(NULL);
  end(1);
}

static void dispose_meets_cancel(void) {
  stage_open(1);
  open_lane(0);
  submit_maybe(in_lane(stage_part('a')));
  weave_spawn("dispose", dispose, NULL, false);
  weave_spawn("cancel", stage_cancel_arg, &stage.parts[0], false);
  end(1);
}

static void dispose_own(uvs_run_t *run, struct part *p) {
  (void)p;
  WEAVE_SAME(0, uvs_lane_dispose(lane.number, UVS_DISPOSE_TOKEN));
  WEAVE_SAME(0, uvs_cancelled(run)); /* it is not asked to stop, whatever others do */
}

static void body_disposes_its_lane(void) {
  stage_open(1);
  open_lane(0);
  submit_maybe(in_lane(stage_part('a')));
  stage.parts[0].act = dispose_own;
  submit_maybe(in_lane(stage_part('b')));
  end(1);
}

/* The id of a freed lane finds nothing else. */
static void stale_number(void *arg) {
  int rc = uvs_lane_is_disposed(lane.number);

  (void)arg;
  WEAVE_CHECK(rc == 0 || rc == 1);
  rc = uvs_lane_cancel(lane.number, stage.parts[0].id, 0);
  WEAVE_CHECK(rc == UVS_CANCELLED || rc == UVS_CANCELLED_WHILE_RUNNING ||
              rc == UVS_CANCELLED_BEFORE || rc == UV_ENOENT);
}

static void lane_id_meets_dispose(void) {
  stage_open(1);
  open_lane(0);
  submit_maybe(in_lane(stage_part('a')));
  weave_spawn("ask", stale_number, NULL, false);
  stage_go();
  dispose(NULL);
  end(1);
}

static void open_two(void *arg) {
  uvs_lane_t *number = arg;

  for (int i = 0; i < 2; i++)
    WEAVE_SAME(0, uvs_lane_open(stage.s, NULL, &number[i]));
}

/* A place in the directory is taken, freed and taken again while another strand is about to take
 * it: no two lanes have the same place. */
static void directory_place_is_reused(void) {
  static uvs_lane_t number[4];

  stage_open(1);
  open_two(number);
  for (int i = 0; i < 2; i++)
    WEAVE_SAME(0, uvs_lane_dispose(number[i], 0));
  while (model_turn()) {
  }
  weave_spawn("open", open_two, &number[2], false);
  stage_go();
  weave_yield();
  open_two(number);
  WEAVE_SAME(0, uvs_lane_dispose(number[0], 0));
  stage_play();
  for (int i = 1; i < 4; i++) {
    WEAVE_SAME(0, uvs_lane_is_disposed(number[i]));
    for (int k = i + 1; k < 4; k++)
      WEAVE_CHECK(((number[i] ^ number[k]) & UINT32_MAX) != 0);
  }
  stage_close();
}

static void lane_with_a_thread(void) {
  stage_open(1);
  open_lane(1);
  submit_maybe(in_lane(stage_part('a')));
  weave_spawn("dispose", dispose, NULL, false);
  end(1);
}

/* ---- close ---- */

static void on_other_quiet(uvs_t *s, uvs_lane_t number, void *arg) {
  (void)s;
  (void)number;
  WEAVE_SAME(0, ((int *)arg)[0]++);
}

/* Three lanes. The one in the middle ends first. Close ends the others. */
static void close_with_lanes(void) {
  static int quiet[2];
  uvs_lane_options_t o;
  uvs_lane_t number[2];

  stage_open(1);
  uvs_lane_options_init(&o);
  o.on_quiet = on_other_quiet;
  quiet[0] = quiet[1] = 0;
  o.arg = &quiet[0];
  WEAVE_SAME(0, uvs_lane_open(stage.s, &o, &number[0]));
  open_lane(0);
  o.arg = &quiet[1];
  WEAVE_SAME(0, uvs_lane_open(stage.s, &o, &number[1]));
  submit_maybe(in_lane(stage_part('a')));
  stage_part('b')->spec.lane = number[0];
  submit_maybe(&stage.parts[1]);
  weave_spawn("dispose", dispose, NULL, false);
  end(1);
  WEAVE_SAME(1, quiet[0]);
  WEAVE_SAME(1, quiet[1]);
}

static void submit_held(void *arg) {
  submit_maybe(arg);
  uvs_release(stage.s);
}

static void dispose_held(void *arg) {
  dispose(arg);
  uvs_release(stage.s);
}

static void close_meets_dispose(void) {
  stage_open(1);
  open_lane(0);
  submit_maybe(in_lane(stage_part('a')));
  uvs_retain(stage.s);
  weave_spawn("dispose", dispose_held, NULL, false);
  stage_go();
  WEAVE_SAME(0, uvs_close(stage.s, stage_on_closed));
  stage_await_close();
  WEAVE_SAME(1, lane.quiets);
}

static void close_meets_submit_to_a_lane(void) {
  stage_open(1);
  open_lane(0);
  uvs_retain(stage.s);
  weave_spawn("submit", submit_held, in_lane(stage_part('a')), false);
  stage_go();
  WEAVE_SAME(0, uvs_close(stage.s, stage_on_closed));
  stage_await_close();
  WEAVE_SAME(1, lane.quiets);
}

static void open_held(void *arg) {
  uvs_lane_options_t o;
  int rc;

  (void)arg;
  uvs_lane_options_init(&o);
  o.on_quiet = on_quiet;
  rc = uvs_lane_open(stage.s, &o, &lane.number);
  WEAVE_CHECK(rc == 0 || rc == UV_ESHUTDOWN);
  lane.inside = 0;
  uvs_release(stage.s);
}

static void close_meets_lane_open(void) {
  stage_open(1);
  memset(&lane, 0, sizeof lane);
  uvs_retain(stage.s);
  weave_spawn("open", open_held, NULL, false);
  stage_go();
  WEAVE_SAME(0, uvs_close(stage.s, stage_on_closed));
  stage_await_close();
  WEAVE_SAME(lane.number != 0, lane.quiets);
}

/* ---- clean-ups ---- */

static void on_cleanup(uvs_t *s, void *arg) {
  (void)s;
  (void)arg;
  WEAVE_SAME(0, weave_self());
  lane.cleanups++;
}

static void attach_to_task(void *arg) {
  struct part *p = arg;

  WEAVE_SAME(0, uvs_add_cleanup(stage.s, p->id, on_cleanup, NULL, 0));
}

static void attach_when_settled(void *arg) {
  struct part *p = arg;

  WEAVE_SAME(0, uvs_add_cleanup(stage.s, p->id, on_cleanup, NULL, UVS_CLEANUP_WHEN_SETTLED));
}

static void attach_to_lane(void *arg) {
  (void)arg;
  WEAVE_SAME(0, uvs_lane_add_cleanup(stage.s, lane.number, on_cleanup, NULL, 0));
}

static void end_with_cleanups(int n) {
  stage_play();
  WEAVE_SAME(n, lane.cleanups);
  stage_close();
  WEAVE_SAME(n, lane.cleanups);
}

static void cleanup_meets_end(void) {
  stage_open(1);
  memset(&lane, 0, sizeof lane);
  stage_submit(stage_part('a'));
  weave_spawn("attach", attach_to_task, &stage.parts[0], false);
  end_with_cleanups(1);
}

static void cleanup_meets_detached_end(void) {
  stage_open(1);
  memset(&lane, 0, sizeof lane);
  stage_part('a')->spec.done = NULL;
  stage_submit(&stage.parts[0]);
  weave_spawn("attach", attach_to_task, &stage.parts[0], false);
  end_with_cleanups(1);
}

static void cleanup_meets_cancel(void) {
  stage_open(1);
  memset(&lane, 0, sizeof lane);
  stage_submit(stage_part('a'));
  weave_spawn("attach", attach_when_settled, &stage.parts[0], false);
  weave_spawn("cancel", stage_cancel_arg, &stage.parts[0], false);
  end_with_cleanups(1);
}

static void on_early_cleanup(uvs_t *s, void *arg) {
  (void)s;
  if (((struct part *)arg)->dones == 0 && !stage.terminated && !lane.ordered)
    weave_fail("a clean-up of a task that is not settled");
}

/* The strand that cancelled 'a' comes to its clean-ups when the slot has a new task. */
static void cancel_meets_reuse_of_the_slot(void) {
  struct part *b;

  stage_open(1);
  memset(&lane, 0, sizeof lane);
  stage_submit(stage_part('a'));
  attach_to_task(&stage.parts[0]);
  weave_spawn("cancel", stage_cancel_arg, &stage.parts[0], false);
  stage_go();
  while (stage.parts[0].dones == 0)
    WEAVE_CHECK(model_turn());
  b = stage_part('b');
  b->spec.first_ns = UVS_MS(50);
  stage_submit(b);
  WEAVE_SAME(0, uvs_add_cleanup(stage.s, b->id, on_early_cleanup, b, UVS_CLEANUP_WHEN_SETTLED));
  while (weave_unfinished() != NULL)
    weave_yield();
  model_turn();
  lane.ordered = true; /* from here on it may end */
  stage_play();
  stage_close();
}

static void finish(void *arg) {
  WEAVE_SAME(0, uvs_finish(stage.s, ((struct part *)arg)->id, 0));
}

static void finish_when_it_runs(void *arg) {
  stage_await_run(arg);
  stage_sleep_ms(1); /* its runner has gone */
  WEAVE_SAME(0, uvs_finish(stage.s, ((struct part *)arg)->id, 0));
}

/* 'b' may start as soon as 'a' is finished. One runner has returned, the other is in a long body:
 * only the loop can submit a runner. */
static void finish_lets_b_start(bool in_a_pass) {
  struct part *a;

  stage_open(2);
  open_lane(0);
  stage_part('x')->act = sleep_3ms;
  stage_submit(&stage.parts[0]);
  a = stage_part('a');
  a->spec.lane = lane.number;
  a->spec.done = NULL;
  a->ret = UVS_PENDING;
  stage_submit(a);
  stage_part('b')->spec.lane = lane.number;
  stage.parts[2].late_ns = UVS_MS(1);
  stage_submit(&stage.parts[2]);
  stage_part('z')->spec.first_ns = UVS_MS(50);
  stage_submit(&stage.parts[3]);
  if (in_a_pass) {
    stage_loop_part('l')->spec.first_ns = UVS_MS(1);
    stage_submit(&stage.parts[4]);
  }
  weave_spawn("finish", finish_when_it_runs, a, false);
  end(0);
}

static void finish_lets_the_next_start(void) {
  finish_lets_b_start(false);
}

/* The pass has already submitted its runners when 'a' is finished. */
static void finish_in_a_pass_lets_the_next_start(void) {
  finish_lets_b_start(true);
}

/* The last task of a disposed lane comes in while the loop cancels another one, outside a pass: the
 * loop stays alive until the lane is quiet. */
static void loop_stays_until_the_lane_is_quiet(void) {
  struct part *a;

  stage_init();
  stage.options.concurrency = 1;
  stage.options.keep_alive = UVS_KEEP_ALIVE_AUTO;
  stage_open_with(1);
  open_lane(0);
  for (int i = 0; i < 2; i++) { /* one is cancelled, the other stays in the queue */
    struct part *z = stage_part((char)('y' + i));

    z->spec.first_ns = UVS_MS(900 + i);
    z->spec.flags = UVS_UNREF;
    stage_submit(z);
  }
  a = in_lane(stage_part('a'));
  a->ret = UVS_PENDING;
  a->spec.done = NULL;
  a->others_cancel = true;
  stage_submit(a);
  while (a->runs == 0)
    WEAVE_CHECK(model_turn());
  WEAVE_SAME(0, uvs_lane_dispose(lane.number, 0));
  model_turn();
  weave_spawn("finish", finish, a, false);
  stage_go();
  weave_yield();
  stage_cancel(&stage.parts[0], 0);
  while (model_alive() && model_turn()) {
  }
  WEAVE_SAME(1, lane.quiets);
  stage_play();
  stage_close();
}

static void cleanup_meets_dispose(void) {
  stage_open(1);
  open_lane(0);
  weave_spawn("attach", attach_to_lane, NULL, false);
  weave_spawn("dispose", dispose, NULL, false);
  end_with_cleanups(1);
}

static void many_lanes(void) {
  uvs_lane_t number;

  stage_open(1);
  for (int i = 0; i < 16; i++)
    WEAVE_SAME(0, uvs_lane_open(stage.s, NULL, &number));
  stage_close();
}

const struct weave_scene scene_to_begin_with = {"lane", "many-lanes", many_lanes};

const struct weave_scene scenes_lane[] = {
    {"lane", "order-in-a-lane", order_in_a_lane},
    {"lane", "lane-among-others", lane_among_others},
    {"lane", "two-submit-to-a-lane", two_submit_to_a_lane},
    {"lane", "cancel-in-a-lane", cancel_in_a_lane},
    {"lane", "lane-of-loop-and-pool", lane_of_loop_and_pool},
    {"lane", "runner-wakes-the-loop-for-the-next-task", runner_wakes_the_loop_for_the_next_task},
    {"lane", "yielding-runner-wakes-the-loop", yielding_runner_wakes_the_loop},
    {"lane", "cancel-lets-the-loop-start", cancel_lets_the_loop_start},
    {"lane", "cancel-lets-the-sleeping-loop-start", cancel_lets_the_sleeping_loop_start},
    {"lane", "lingering-runner-wakes-the-loop", lingering_runner_wakes_the_loop},
    {"lane", "dispose-meets-submit", dispose_meets_submit},
    {"lane", "dispose-meets-run", dispose_meets_run},
    {"lane", "refusal-meets-dispose", refusal_meets_dispose},
    {"lane", "batch-meets-dispose", batch_meets_dispose},
    {"lane", "two-threads-dispose", two_threads_dispose},
    {"lane", "loop-and-other-dispose", loop_and_other_dispose},
    {"lane", "dispose-meets-cancel", dispose_meets_cancel},
    {"lane", "body-disposes-its-lane", body_disposes_its_lane},
    {"lane", "lane-id-meets-dispose", lane_id_meets_dispose},
    {"lane", "directory-place-is-reused", directory_place_is_reused},
    {"lane", "lane-with-a-thread", lane_with_a_thread},
    {"lane", "close-with-lanes", close_with_lanes},
    {"lane", "close-meets-dispose", close_meets_dispose},
    {"lane", "close-meets-submit-to-a-lane", close_meets_submit_to_a_lane},
    {"lane", "close-meets-lane-open", close_meets_lane_open},
    {"lane", "cleanup-meets-end", cleanup_meets_end},
    {"lane", "cleanup-meets-detached-end", cleanup_meets_detached_end},
    {"lane", "cleanup-meets-cancel", cleanup_meets_cancel},
    {"lane", "cancel-meets-reuse-of-the-slot", cancel_meets_reuse_of_the_slot},
    {"lane", "loop-stays-until-the-lane-is-quiet", loop_stays_until_the_lane_is_quiet},
    {"lane", "cleanup-meets-dispose", cleanup_meets_dispose},
    {"lane", "finish-lets-the-next-start", finish_lets_the_next_start},
    {"lane", "finish-in-a-pass-lets-the-next-start", finish_in_a_pass_lets_the_next_start},
    {NULL, NULL, NULL},
};
