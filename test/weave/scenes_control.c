/* SPDX-License-Identifier: MIT
 *
 * One task: cancel, reschedule, finish and other calls, racing the run and each other.
 */
#include "scenes.h"

#include "model.h"
#include "lib/inspect.h"
#include "stage.h"

/* ---- actors ---- */

static void cancel_with_token(void *arg) {
  stage_cancel(arg, UVS_CANCEL_TOKEN);
}

static void cancel_if_waiting(void *arg) {
  stage_cancel(arg, UVS_CANCEL_IF_WAITING);
}

static void cancel_without_done(void *arg) {
  stage_cancel(arg, UVS_CANCEL_NO_DONE);
}

static void cancel_at_5ms(void *arg) {
  stage_sleep_ms(5);
  stage_cancel(arg, 0);
}

/* Cancels as soon as the id is known, whether the task is accepted or not. */
static void cancel_guessed(void *arg) {
  stage_await_id(arg);
  stage_cancel(arg, 0);
}

static void move_guessed(void *arg) {
  stage_await_id(arg);
  stage_reschedule(arg, UVS_MS(2));
}

static void move_to_now(void *arg) {
  int rc = stage_reschedule(arg, 0);

  WEAVE_CHECK(rc == 0 || rc == UV_EBUSY || rc == UV_ENOENT);
}

static void move_to_80ms(void *arg) {
  int rc = stage_reschedule(arg, UVS_MS(80));

  WEAVE_CHECK(rc == 0 || rc == UV_EBUSY || rc == UV_ENOENT);
}

static void move_to_2ms(void *arg) {
  int rc = stage_reschedule(arg, UVS_MS(2));

  WEAVE_CHECK(rc == 0 || rc == UV_EBUSY || rc == UV_ENOENT);
}

/* The task is due at 5 ms. If it could be rescheduled, it has not started, and does not start
 * before 8 ms. */
static void move_at_5ms(void *arg) {
  struct part *p = arg;
  int rc;

  stage_sleep_ms(5);
  rc = stage_reschedule(p, UVS_MS(3));
  WEAVE_CHECK(rc == 0 || rc == UV_EBUSY || rc == UV_ENOENT);
  if (rc == 0) {
    WEAVE_SAME(0, p->runs);
    p->not_before_ns = (int64_t)weave_now_ns + UVS_MS(3);
  }
}

static int finishes; /* finishes that succeeded */

static void finish(void *arg) {
  struct part *p = arg;
  int rc;

  stage_await_run(p);
  rc = uvs_finish(stage.s, p->id, 0);
  WEAVE_CHECK(rc == 0 || rc == UV_ENOENT);
  finishes += rc == 0;
}

static void count(void *arg) {
  (void)arg;
  stage_check_counts();
  stage_check_counts();
}

static void ask(void *arg) {
  struct part *p = arg;
  uvs_info_t i;

  for (int k = 0; k < 2; k++) {
    int rc;

    uvs_info_init(&i);
    rc = uvs_info(stage.s, p->id, &i);
    WEAVE_CHECK(rc == 0 || rc == UV_ENOENT);
    if (rc == 0) {
      WEAVE_SAME(p->id, i.id);
      WEAVE_CHECK(i.arg == p);
      WEAVE_CHECK(i.state >= UVS_WAITING && i.state <= UVS_ENDED);
    }
  }
}

/* ---- cancel ---- */

/* 'a', due now, submitted by the loop. */
static struct part *due_now(void) {
  struct part *a;

  stage_open(1);
  a = stage_part('a');
  stage_submit(a);
  return a;
}

static struct part *due_at(int64_t ms) {
  struct part *a;

  stage_open(1);
  a = stage_part('a');
  a->spec.first_ns = UVS_MS(ms);
  stage_submit(a);
  return a;
}

static void play(void) {
  stage_play();
  stage_close();
}

static void cancel_meets_run(void) {
  weave_spawn("cancel", stage_cancel_arg, due_now(), false);
  play();
}

static void cancel_meets_due(void) {
  weave_spawn("cancel", cancel_at_5ms, due_at(5), false);
  play();
}

static void two_cancels_meet_run(void) {
  struct part *a = due_now();

  weave_spawn("cancel", stage_cancel_arg, a, false);
  weave_spawn("token", cancel_with_token, a, false);
  play();
}

static void cancel_if_waiting_meets_run(void) {
  weave_spawn("cancel", cancel_if_waiting, due_now(), false);
  play();
}

static void cancel_without_done_meets_run(void) {
  weave_spawn("cancel", cancel_without_done, due_now(), false);
  play();
}

/* If it could be completed, it has not started, and never will. */
static void complete(void *arg) {
  struct part *p = arg;
  int rc = uvs_complete(stage.s, p->id, UV_EIO, NULL);

  WEAVE_CHECK(rc == 0 || rc == UV_EBUSY || rc == UV_ENOENT);
  if (rc != 0)
    return;
  WEAVE_CHECK(!p->inside);
  p->must_not_run = true;
  p->settled_ns = (int64_t)weave_now_ns;
}

static void complete_at_5ms(void *arg) {
  stage_sleep_ms(5);
  complete(arg);
}

static void complete_meets_run(void) {
  weave_spawn("complete", complete, due_now(), false);
  play();
}

static void complete_meets_due(void) {
  struct part *a = due_at(5);

  weave_spawn("complete", complete_at_5ms, a, false);
  play();
  WEAVE_CHECK((a->status == UV_EIO) == (a->runs == 0));
}

static void complete_meets_cancel(void) {
  struct part *a = due_at(80);

  weave_spawn("complete", complete, a, false);
  weave_spawn("cancel", stage_cancel_arg, a, false);
  play();
  WEAVE_CHECK((a->status == UV_ECANCELED) == (a->receipt[0].rc == UVS_CANCELLED));
}

static void loop_and_other_cancel(void) {
  struct part *a = due_at(5);

  weave_spawn("cancel", stage_cancel_arg, a, false);
  stage_go();
  stage_cancel(a, 0);
  play();
}

static void loop_and_other_cancel_plain(void) {
  struct part *a;

  stage_open(1);
  a = stage_part('a');
  a->spec.done = NULL;
  a->spec.first_ns = UVS_MS(5);
  stage_submit(a);
  weave_spawn("cancel", stage_cancel_arg, a, false);
  stage_go();
  stage_cancel(a, 0);
  stage_play();
  WEAVE_SAME(0, a->runs);
  stage_close();
}

/* A detached task: no callback reports its end. */
static void cancel_meets_detached_run(void) {
  struct part *a;

  stage_open(1);
  a = stage_part('a');
  a->spec.done = NULL;
  stage_submit(a);
  weave_spawn("cancel", stage_cancel_arg, a, false);
  stage_play();
  WEAVE_SAME(a->receipt[0].rc == UVS_CANCELLED ? 0 : 1, a->runs);
  stage_close();
}

static void cancel_meets_submit(void) {
  struct part *a;

  stage_open(1);
  a = stage_part('a');
  weave_spawn("submit", stage_submit_arg, a, false);
  weave_spawn("cancel", cancel_guessed, a, false);
  play();
}

static void cancel_meets_after(void) {
  struct part *a;

  stage_open(1);
  a = stage_part('a');
  stage_add_after(a);
  stage_submit(a);
  weave_spawn("cancel", stage_cancel_arg, a, false);
  play();
}

/* The slot of 'a' is reused for 'b' when the old id is used: the loop reuses the slot freed
 * last. */
static void cancel_of_a_stale_id(void) {
  struct part *a, *other;

  stage_open(1);
  a = stage_part('a');
  other = stage_part('b');
  stage_submit(a);
  weave_spawn("cancel", stage_cancel_arg, a, false);
  stage_go();
  while (a->dones == 0)
    WEAVE_CHECK(model_turn());
  stage_submit(other);
  WEAVE_SAME(inspect_slot_of(a->id), inspect_slot_of(other->id));
  stage_play();
  WEAVE_SAME(0, other->status);
  WEAVE_SAME(1, other->runs);
  stage_close();
}

/* A thread that sees that the task is gone also sees it counted. */
static void look_and_count(void *arg) {
  struct part *p = arg;
  uvs_counts_t c;
  uvs_info_t i;
  int rc;

  uvs_info_init(&i);
  rc = uvs_info(stage.s, p->id, &i);
  uvs_counts_init(&c);
  WEAVE_SAME(0, uvs_counts(stage.s, &c));
  WEAVE_SAME(1, c.submitted);
  if (rc == UV_ENOENT || i.cancelled)
    WEAVE_SAME(1, c.cancelled);
}

static void counts_meet_own_cancel(void) {
  struct part *a;

  stage_open(1);
  a = stage_part('a');
  a->spec.done = NULL;
  a->spec.first_ns = UVS_MS(5);
  stage_submit(a);
  weave_spawn("count", look_and_count, a, false);
  stage_go();
  stage_cancel(a, 0);
  play();
}

static void counts_meet_a_cancel(void) {
  struct part *a = due_at(5);

  weave_spawn("count", look_and_count, a, false);
  weave_spawn("cancel", stage_cancel_arg, a, false);
  play();
}

static void counts_meet_cancels(void) {
  struct part *a, *other;

  stage_open(1);
  a = stage_part('a');
  other = stage_part('b');
  a->spec.done = other->spec.done = NULL;
  a->spec.first_ns = other->spec.first_ns = UVS_MS(5);
  stage_submit(a);
  stage_submit(other);
  weave_spawn("count", count, NULL, false);
  weave_spawn("cancel", stage_cancel_arg, other, false);
  stage_go();
  stage_cancel(a, 0);
  play();
}

static void counts_meet_run(void) {
  struct part *a = due_now();

  (void)a;
  weave_spawn("count", count, NULL, false);
  play();
}

static void info_meets_run(void) {
  weave_spawn("ask", ask, due_now(), false);
  play();
}

/* ---- reschedule ---- */

static void reschedule_meets_due(void) {
  weave_spawn("move", move_at_5ms, due_at(5), false);
  play();
}

static void reschedule_earlier_meets_sleep(void) {
  struct part *a = due_at(50);

  weave_spawn("move", move_to_now, a, false);
  stage_play();
  WEAVE_SAME(1, a->runs);
  stage_close();
}

static void two_reschedules(void) {
  struct part *a = due_at(50);

  weave_spawn("now", move_to_now, a, false);
  weave_spawn("2ms", move_to_2ms, a, false);
  play();
}

static void reschedule_meets_cancel(void) {
  struct part *a = due_at(50);

  weave_spawn("move", move_to_2ms, a, false);
  weave_spawn("cancel", stage_cancel_arg, a, false);
  play();
}

/* Nothing else would wake the loop for the new time. */
static void reschedule_later_meets_cancel(void) {
  struct part *a = due_at(50);

  weave_spawn("move", move_to_80ms, a, false);
  weave_spawn("cancel", stage_cancel_arg, a, false);
  play();
}

static void reschedule_meets_submit(void) {
  struct part *a;

  stage_open(1);
  a = stage_part('a');
  weave_spawn("submit", stage_submit_arg, a, false);
  weave_spawn("move", move_guessed, a, false);
  play();
}

/* The loop reschedules, another strand reschedules, a third cancels. */
static void loop_and_others_reschedule(void) {
  struct part *a = due_at(50);

  weave_spawn("move", move_to_2ms, a, false);
  weave_spawn("cancel", stage_cancel_arg, a, false);
  stage_go();
  move_to_now(a);
  play();
}

/* Nothing else wakes the loop. */
static void loop_reschedules_earlier(void) {
  struct part *a = due_at(50);

  weave_spawn("ask", ask, a, false);
  stage_go();
  move_to_2ms(a);
  play();
}

static void loop_reschedules_a_named_task_earlier(void) {
  struct part *a;

  stage_open(1);
  a = stage_part('a');
  a->spec.name = "with a cold record";
  a->spec.first_ns = UVS_MS(50);
  stage_submit(a);
  weave_spawn("ask", ask, a, false);
  stage_go();
  move_to_now(a);
  play();
}

/* A task that the loop submits between two passes, due before everything else. */
static void loop_submits_an_earlier_task(void) {
  struct part *a = due_at(50);

  weave_spawn("ask", ask, a, false);
  stage_go();
  stage_part('b')->spec.first_ns = UVS_MS(2);
  stage_submit(&stage.parts[1]);
  stage_part('c')->spec.name = "with a cold record";
  stage_submit(&stage.parts[2]);
  play();
}

static void loop_cancels_during_reschedule(void) {
  struct part *a = due_at(50);

  weave_spawn("move", move_to_2ms, a, false);
  stage_go();
  stage_cancel(a, 0);
  play();
}

/* The reschedule wakes nobody, since it is to a later time and the loop sleeps for another task. */
static void loop_cancels_during_reschedule_later(void) {
  struct part *a = due_at(50);
  struct part *z = stage_part('z');

  z->spec.first_ns = UVS_MS(90);
  stage_submit(z);
  weave_spawn("move", move_to_80ms, a, false);
  stage_go();
  stage_cancel(a, 0);
  play();
}

static void loop_reschedules_a_named_task(void) {
  struct part *a;

  stage_open(1);
  a = stage_part('a');
  a->spec.name = "with a cold record";
  a->spec.first_ns = UVS_MS(50);
  stage_submit(a);
  weave_spawn("move", move_to_2ms, a, false);
  weave_spawn("cancel", stage_cancel_arg, a, false);
  stage_go();
  move_to_now(a);
  play();
}

/* All at once: the loop hands the task over, a runner takes it, one strand reschedules it, one
 * cancels it. */
static void run_reschedule_and_cancel_at_once(void) {
  struct part *a = due_at(5);

  a->late_ns = UVS_MS(5);
  weave_spawn("cancel", cancel_at_5ms, a, false);
  weave_spawn("move", move_at_5ms, a, false);
  weave_spawn("count", count, NULL, false);
  play();
}

static void clear_token(uvs_run_t *run, struct part *p) {
  (void)p;
  while (!uvs_cancelled(run))
    weave_yield();
}

static void cancel_run_with_token(void *arg) {
  stage_await_run(arg);
  WEAVE_SAME(UVS_CANCELLED_WHILE_RUNNING, stage_cancel(arg, UVS_CANCEL_TOKEN));
}

/* The body runs until it is asked to stop. */
static void token_reaches_the_body(void) {
  struct part *a = due_now();

  a->act = clear_token;
  a->ret = UV_ECANCELED;
  weave_spawn("cancel", cancel_run_with_token, a, false);
  weave_spawn("count", count, NULL, false);
  play();
}

/* ---- finish ---- */

static struct part *pending(bool with_after) {
  struct part *a;

  stage_open(1);
  finishes = 0;
  a = stage_part('a');
  a->ret = UVS_PENDING;
  if (with_after)
    stage_add_after(a);
  stage_submit(a);
  return a;
}

static void play_pending(struct part *a) {
  stage_play();
  if (a->runs > 0)
    WEAVE_SAME(1, finishes);
  stage_close();
}

static void finish_meets_pending(void) {
  struct part *a = pending(false);

  weave_spawn("finish", finish, a, false);
  play_pending(a);
}

static void two_finishes(void) {
  struct part *a = pending(false);

  weave_spawn("finish", finish, a, false);
  weave_spawn("again", finish, a, false);
  play_pending(a);
}

static void finish_meets_cancel(void) {
  struct part *a = pending(false);

  weave_spawn("finish", finish, a, true); /* the body may never begin */
  weave_spawn("cancel", stage_cancel_arg, a, false);
  play_pending(a);
}

static void finish_with_after(void) {
  struct part *a = pending(true);

  weave_spawn("finish", finish, a, true);
  weave_spawn("cancel", stage_cancel_arg, a, false);
  play_pending(a);
}

const struct weave_scene scenes_control[] = {
    {"control", "cancel-meets-run", cancel_meets_run},
    {"control", "cancel-meets-due", cancel_meets_due},
    {"control", "two-cancels-meet-run", two_cancels_meet_run},
    {"control", "cancel-if-waiting-meets-run", cancel_if_waiting_meets_run},
    {"control", "cancel-without-done-meets-run", cancel_without_done_meets_run},
    {"control", "complete-meets-run", complete_meets_run},
    {"control", "complete-meets-due", complete_meets_due},
    {"control", "complete-meets-cancel", complete_meets_cancel},
    {"control", "loop-and-other-cancel", loop_and_other_cancel},
    {"control", "loop-and-other-cancel-plain", loop_and_other_cancel_plain},
    {"control", "cancel-meets-detached-run", cancel_meets_detached_run},
    {"control", "cancel-meets-submit", cancel_meets_submit},
    {"control", "cancel-meets-after", cancel_meets_after},
    {"control", "cancel-of-a-stale-id", cancel_of_a_stale_id},
    {"control", "counts-meet-cancels", counts_meet_cancels},
    {"control", "counts-meet-own-cancel", counts_meet_own_cancel},
    {"control", "counts-meet-a-cancel", counts_meet_a_cancel},
    {"control", "counts-meet-run", counts_meet_run},
    {"control", "info-meets-run", info_meets_run},
    {"control", "reschedule-meets-due", reschedule_meets_due},
    {"control", "reschedule-earlier-meets-sleep", reschedule_earlier_meets_sleep},
    {"control", "two-reschedules", two_reschedules},
    {"control", "reschedule-meets-cancel", reschedule_meets_cancel},
    {"control", "reschedule-later-meets-cancel", reschedule_later_meets_cancel},
    {"control", "reschedule-meets-submit", reschedule_meets_submit},
    {"control", "loop-and-others-reschedule", loop_and_others_reschedule},
    {"control", "loop-reschedules-earlier", loop_reschedules_earlier},
    {"control", "loop-reschedules-a-named-task-earlier", loop_reschedules_a_named_task_earlier},
    {"control", "loop-submits-an-earlier-task", loop_submits_an_earlier_task},
    {"control", "loop-cancels-during-reschedule", loop_cancels_during_reschedule},
    {"control", "loop-cancels-during-reschedule-later", loop_cancels_during_reschedule_later},
    {"control", "loop-reschedules-a-named-task", loop_reschedules_a_named_task},
    {"control", "finish-meets-pending", finish_meets_pending},
    {"control", "two-finishes", two_finishes},
    {"control", "finish-meets-cancel", finish_meets_cancel},
    {"control", "finish-with-after", finish_with_after},
    {"control", "run-reschedule-and-cancel-at-once", run_reschedule_and_cancel_at_once},
    {"control", "token-reaches-the-body", token_reaches_the_body},
    {NULL, NULL, NULL},
};
