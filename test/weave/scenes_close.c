/* SPDX-License-Identifier: MIT
 *
 * Shutdown and close, racing everything that may still be in progress: nothing is lost, and nothing
 * is used after it was freed.
 */
#include "scenes.h"

#include "model.h"
#include "stage.h"

/* Holds a reference, as every caller during a close must. */
static void submit_held(void *arg) {
  struct part *p = arg;

  stage_submit(p);
  WEAVE_CHECK(p->rc == 0 || p->rc == UV_ESHUTDOWN);
  p->others_cancel = true;
  uvs_release(stage.s);
}

static void cancel_held(void *arg) {
  struct part *p = arg;

  stage_cancel(p, 0);
  uvs_release(stage.s);
}

static void cancel_guessed_held(void *arg) {
  struct part *p = arg;

  for (int i = 0; i < 3 && p->id == 0; i++)
    weave_here();
  if (p->id != 0)
    stage_cancel(p, 0);
  uvs_release(stage.s);
}

static void move_held(void *arg) {
  int rc = stage_reschedule(arg, 0);

  WEAVE_CHECK(rc == 0 || rc == UV_EBUSY || rc == UV_ENOENT || rc == UV_ESHUTDOWN);
  uvs_release(stage.s);
}

static void finish_held(void *arg) {
  struct part *p = arg;

  WEAVE_SAME(0, uvs_finish(stage.s, p->id, 0)); /* close waits for the finish */
  uvs_release(stage.s);
}

static void release(void *arg) {
  (void)arg;
  uvs_release(stage.s);
}

static void ask_and_release(void *arg) {
  (void)arg;
  WEAVE_CHECK(uvs_is_shutdown(stage.s) >= 0);
  stage_check_counts();
  uvs_release(stage.s);
}

static void held(const char *name, void (*fn)(void *arg), void *arg) {
  uvs_retain(stage.s);
  weave_spawn(name, fn, arg, false);
}

static void close_now(void) {
  WEAVE_SAME(0, uvs_close(stage.s, stage_on_closed));
  stage_await_close();
}

static void close_meets_submit(void) {
  stage_open(1);
  held("a", submit_held, stage_part('a'));
  stage_go();
  close_now();
}

static void close_meets_run(void) {
  struct part *a;

  stage_open(1);
  a = stage_part('a');
  a->others_cancel = true;
  stage_submit(a);
  stage_go();
  model_turn();
  close_now();
}

static void close_meets_cancel(void) {
  struct part *a;

  stage_open(1);
  a = stage_part('a');
  a->others_cancel = true;
  a->spec.first_ns = UVS_MS(5);
  stage_submit(a);
  held("actor", cancel_held, a);
  stage_go();
  close_now();
}

static void close_meets_reschedule(void) {
  struct part *a;

  stage_open(1);
  stage.on_their_way =
      true; /* the reschedule may put the task in the inbox after the loop's last look */
  a = stage_part('a');
  a->others_cancel = true;
  a->spec.first_ns = UVS_MS(5);
  stage_submit(a);
  held("move", move_held, a);
  stage_go();
  close_now();
}

static void close_meets_finish(void) {
  struct part *a;

  stage_open(1);
  a = stage_part('a');
  a->others_cancel = true;
  a->ret = UVS_PENDING;
  stage_submit(a);
  stage_go();
  while (a->runs == 0)
    WEAVE_CHECK(model_turn());
  held("finish", finish_held, a);
  close_now();
}

static void close_meets_batch(void) {
  stage_open(1);
  held("submit", submit_held, stage_part('a'));
  held("cancel", cancel_guessed_held, &stage.parts[0]);
  stage_go();
  close_now();
}

/* The last reference is released at any time: during the close, or long after. */
static void release_meets_close(void) {
  stage_open(1);
  held("one", release, NULL);
  held("two", ask_and_release, NULL);
  stage_go();
  close_now();
}

static void close_in_the_first_pass(void) {
  stage_init();
  stage.options.concurrency = 1;
  model_reset(1);
  WEAVE_SAME(0, uvs_open(model_loop(), &stage.options, &stage.s));
  held("a", submit_held, stage_part('a'));
  stage_go();
  close_now();
}

static void close_with_own_threads(void) {
  stage_init();
  stage.options.threads = 1;
  stage_open_with(0);
  stage_part('a')->others_cancel = true;
  stage_submit(&stage.parts[0]);
  stage_go();
  model_turn();
  close_now();
}

static int attached, called;

static void on_cleanup(uvs_t *s, void *arg) {
  (void)s;
  (void)arg;
  WEAVE_CHECK(!stage.closed);
  called++;
}

static void attach_held(void *arg) {
  struct part *p = arg;

  for (int i = 0; i < 2; i++) {
    int rc = uvs_add_cleanup(stage.s, p->id, on_cleanup, NULL, 0);

    WEAVE_CHECK(rc == 0 || rc == UV_ESHUTDOWN);
    attached += rc == 0;
  }
  uvs_release(stage.s);
}

/* Attaches to an ended task: every accepted action is called before the close finishes. */
static void close_meets_attach(void) {
  struct part *a;

  stage_open(1);
  attached = called = 0;
  a = stage_loop_part('a');
  stage_submit(a);
  while (a->dones == 0)
    WEAVE_CHECK(model_turn());
  held("attach", attach_held, a);
  stage_go();
  close_now();
  WEAVE_SAME(attached, called);
}

static void resize_held(void *arg) {
  int rc = uvs_set_concurrency(stage.s, *(int *)arg);

  WEAVE_CHECK(rc == 0 || rc == UV_ESHUTDOWN);
  uvs_release(stage.s);
}

static void close_meets_resize(void) {
  static int three = 3;

  stage_open(1);
  stage_part('a')->others_cancel = true;
  stage_submit(&stage.parts[0]);
  held("resize", resize_held, &three);
  stage_go();
  close_now();
}

static void shutdown_held(void *arg) {
  int rc = uvs_shutdown(stage.s);

  (void)arg;
  WEAVE_CHECK(rc == 0 || rc == UV_ESHUTDOWN);
  uvs_release(stage.s);
}

static void close_meets_shutdown(void) {
  stage_open(1);
  stage_part('a')->others_cancel = true;
  stage_submit(&stage.parts[0]);
  held("shutdown", shutdown_held, NULL);
  held("submit", submit_held, stage_part('b'));
  stage_go();
  close_now();
}

/* The runner may be returning, and then wakes nobody. */
static void close_meets_the_end_of_a_run(void) {
  stage_open(1);
  stage_part('a')->others_cancel = true;
  stage_add_after(&stage.parts[0]);
  stage_submit(&stage.parts[0]);
  held("cancel", cancel_held, &stage.parts[0]);
  stage_go();
  model_turn();
  close_now();
}

/* ---- shutdown ---- */

static void submit_maybe(void *arg) {
  struct part *p = arg;

  p->others_cancel = true;
  stage_submit(p);
  WEAVE_CHECK(p->rc == 0 || p->rc == UV_ESHUTDOWN);
}

static void shut_down(void *arg) {
  (void)arg;
  WEAVE_SAME(0, uvs_shutdown(stage.s));
  WEAVE_SAME(1, uvs_is_shutdown(stage.s));
}

static void shut_down_within_2ms(void *arg) {
  (void)arg;
  WEAVE_SAME(0, uvs_shutdown_within(stage.s, UVS_MS(2)));
}

static void await_end(void *arg) {
  (void)arg;
  WEAVE_SAME(0, uvs_wait_terminated(stage.s, UVS_NEVER));
  WEAVE_SAME(1, uvs_is_terminated(stage.s));
}

static void await_end_of_closed(void *arg) {
  (void)arg;
  WEAVE_SAME(0, uvs_wait_terminated(stage.s, UVS_NEVER));
}

/* The scheduler has terminated by itself. */
static void end_terminated(void) {
  stage_play();
  if (!stage.terminated)
    weave_fail("shut down, all sleep, and it has not terminated");
  WEAVE_SAME(1, uvs_is_terminated(stage.s));
  stage_close();
}

static void shutdown_meets_submit(void) {
  stage_open(1);
  submit_maybe(stage_loop_part('b')); /* so that the loop makes a pass */
  weave_spawn("submit", submit_maybe, stage_loop_part('a'), false);
  weave_spawn("shutdown", shut_down, NULL, false);
  stage_play();
  if (stage.parts[1].rc == 0) /* what is due when it is shut down still runs */
    WEAVE_SAME(1, stage.parts[1].runs);
  end_terminated();
}

/* There is one task, and so no room for another. */
static void open_full(int rejection) {
  stage_init();
  stage.options.concurrency = 1;
  stage.options.max_pending = 1;
  stage.options.rejection_policy = rejection;
  stage_open_with(1);
  stage_part('a')->spec.first_ns = UVS_MS(5);
  submit_maybe(&stage.parts[0]);
}

/* There is no room, so the task is dropped: accepted nevertheless, or refused. */
static void shutdown_meets_a_dropped_task(void) {
  open_full(UVS_REJECT_DISCARD);
  weave_spawn("submit", submit_maybe, stage_part('b'), false);
  stage_go();
  shut_down(NULL);
  stage_cancel(&stage.parts[0], 0); /* so that nothing else is left */
  end_terminated();
}

static void shutdown_meets_cancel(void) {
  stage_open(1);
  stage_part('a')->spec.first_ns = UVS_NEVER;
  stage.parts[0].spec.done = NULL;
  stage.parts[0].spec.flags = UVS_UNREF; /* else the loop is woken because it was the last */
  stage_submit(&stage.parts[0]);
  weave_spawn("shutdown", shut_down, NULL, false);
  weave_spawn("cancel", stage_cancel_arg, &stage.parts[0], false);
  end_terminated();
}

static void shutdown_meets_wait_terminated(void) {
  stage_open(1);
  submit_maybe(stage_part('a'));
  weave_spawn("shutdown", shut_down, NULL, false);
  weave_spawn("await", await_end, NULL, false);
  end_terminated();
}

static void shutdown_meets_two_waits_terminated(void) {
  stage_open(1);
  weave_spawn("await", await_end, NULL, false);
  weave_spawn("await-2", await_end, NULL, false);
  weave_spawn("shutdown", shut_down, NULL, false);
  end_terminated();
}

static bool awaits(const void *arg) {
  (void)arg;
  return stage_is_awaited();
}

/* A waiting thread needs no reference of its own: it may be the last to leave. */
static void close_meets_wait_terminated(void) {
  stage_open(1);
  weave_spawn("await", await_end_of_closed, NULL, false);
  weave_sleep(awaits, NULL, WEAVE_NEVER);
  stage_go();
  close_now();
}

static void shutdown_now_meets_run(void) {
  stage_open(1);
  submit_maybe(stage_part('a'));
  stage_part('b')->spec.first_ns = UVS_MS(2);
  submit_maybe(&stage.parts[1]);
  weave_spawn("now", stage_shut_down_now_arg, NULL, false);
  stage_play();
  for (int i = 0; i < 2; i++) /* handed back, or run: one of both */
    WEAVE_SAME(1, stage.parts[i].never_ran + stage.parts[i].runs);
  WEAVE_SAME(1, stage.all_came);
  end_terminated();
}

static void shutdown_now_meets_submit(void) {
  stage_open(1);
  weave_spawn("submit", submit_maybe, stage_part('a'), false);
  weave_spawn("now", stage_shut_down_now_arg, NULL, false);
  stage_play();
  if (stage.parts[0].rc == 0)
    WEAVE_SAME(1, stage.parts[0].never_ran + stage.parts[0].runs);
  WEAVE_SAME(1, stage.all_came);
  end_terminated();
}

static void shutdown_with_grace_period(void) {
  stage_open(1);
  stage_part('a')->spec.first_ns = UVS_MS(2);
  submit_maybe(&stage.parts[0]);
  weave_spawn("within", shut_down_within_2ms, NULL, false);
  weave_spawn("await", await_end, NULL, false);
  end_terminated();
}

static void shut_down_within_30ms(void *arg) {
  (void)arg;
  WEAVE_SAME(0, uvs_shutdown_within(stage.s, UVS_MS(30)));
}

static void await_for_2ms(void *arg) {
  WEAVE_SAME(0, uvs_wait_terminated(stage.s, UVS_NEVER));
  WEAVE_CHECK((int64_t)weave_now_ns <= *(int64_t *)arg + UVS_MS(2));
}

static void finish(void *arg) {
  WEAVE_SAME(0, uvs_finish(stage.s, ((struct part *)arg)->id, 0));
}

/* The last task ends while the loop falls asleep until the end of the grace period. The scheduler
 * terminates before that. */
static void shutdown_meets_finish(void) {
  static int64_t began_ns;
  struct part *a;

  stage_open(1);
  began_ns = (int64_t)weave_now_ns;
  a = stage_part('a');
  a->ret = UVS_PENDING;
  a->spec.done = NULL;
  stage_submit(a);
  while (a->runs == 0)
    WEAVE_CHECK(model_turn());
  shut_down_within_30ms(NULL);
  weave_spawn("finish", finish, a, false);
  weave_spawn("await", await_for_2ms, &began_ns, false);
  end_terminated();
}

/* The earliest of several grace periods counts, whichever call comes last. */
static void two_shutdowns_with_grace_periods(void) {
  static int64_t began_ns;

  stage_open(1);
  began_ns = (int64_t)weave_now_ns;
  stage_part('a')->spec.first_ns = UVS_MS(50);
  submit_maybe(&stage.parts[0]);
  weave_spawn("soon", shut_down_within_2ms, NULL, false);
  weave_spawn("later", shut_down_within_30ms, NULL, false);
  weave_spawn("await", await_for_2ms, &began_ns, false);
  end_terminated();
}

static void forbid_delayed(void *arg) {
  (void)arg;
  WEAVE_SAME(0, uvs_set_after_shutdown(stage.s, UVS_DELAYED_TASKS, 0));
}

/* The tasks would survive, but the policy is changed while the loop checks which may. There are
 * more tasks than a batch, so other strands run in between. */
static void shutdown_meets_its_policy(void) {
  static uvs_task_t others[64];

  stage_open(1);
  stage_part('a')->spec.first_ns = UVS_MS(50);
  submit_maybe(&stage.parts[0]);
  for (int i = 0; i < 64; i++) {
    others[i] = stage.parts[0].spec;
    others[i].done = NULL;
  }
  WEAVE_SAME(0, uvs_submit_many(stage.s, others, 64, NULL));
  weave_spawn("forbid", forbid_delayed, NULL, false);
  stage_go();
  shut_down(NULL);
  stage_play();
  WEAVE_SAME(0, stage.parts[0].runs);
  end_terminated();
}

static void shutdown_of_a_periodic_task(void) {
  stage_open(1);
  stage_part('p')->spec.kind = UVS_FIXED_RATE;
  stage.parts[0].spec.period_ns = UVS_MS(2);
  stage.parts[0].stops_at = 3;
  submit_maybe(&stage.parts[0]);
  weave_spawn("shutdown", shut_down, NULL, false);
  end_terminated();
}

static void let_others(uvs_run_t *run, struct part *p) {
  (void)run;
  (void)p;
  weave_yield();
}

/* A submitter that runs its own task is inside the scheduler, whatever the loop thinks. */
static void shutdown_in_a_caller_run_body(void) {
  open_full(UVS_REJECT_CALLER_RUNS);
  stage_part('b')->act = let_others;
  weave_spawn("submit", submit_maybe, &stage.parts[1], false);
  stage_go();
  weave_yield();
  shut_down(NULL);
  stage_cancel(&stage.parts[0], 0); /* so that only the submitter is left */
  end_terminated();
}

static void shutdown_meets_a_caller_run_task(void) {
  open_full(UVS_REJECT_CALLER_RUNS);
  weave_spawn("submit", submit_maybe, stage_part('b'), false);
  weave_spawn("shutdown", shut_down, NULL, false);
  stage_go();
  stage_cancel(&stage.parts[0], 0); /* so that only the submitter is left */
  end_terminated();
}

static void close_meets_a_caller_run_task(void) {
  open_full(UVS_REJECT_CALLER_RUNS);
  held("submit", submit_held, stage_part('b'));
  stage_go();
  close_now();
}

const struct weave_scene scenes_close[] = {
    {"close", "close-meets-submit", close_meets_submit},
    {"close", "close-meets-run", close_meets_run},
    {"close", "close-meets-cancel", close_meets_cancel},
    {"close", "close-meets-reschedule", close_meets_reschedule},
    {"close", "close-meets-finish", close_meets_finish},
    {"close", "close-meets-attach", close_meets_attach},
    {"close", "close-meets-batch", close_meets_batch},
    {"close", "release-meets-close", release_meets_close},
    {"close", "close-in-the-first-pass", close_in_the_first_pass},
    {"close", "close-with-own-threads", close_with_own_threads},
    {"close", "shutdown-meets-submit", shutdown_meets_submit},
    {"close", "shutdown-meets-a-dropped-task", shutdown_meets_a_dropped_task},
    {"close", "shutdown-meets-cancel", shutdown_meets_cancel},
    {"close", "shutdown-meets-finish", shutdown_meets_finish},
    {"close", "shutdown-meets-wait-terminated", shutdown_meets_wait_terminated},
    {"close", "shutdown-meets-two-waits-terminated", shutdown_meets_two_waits_terminated},
    {"close", "close-meets-wait-terminated", close_meets_wait_terminated},
    {"close", "shutdown-now-meets-run", shutdown_now_meets_run},
    {"close", "shutdown-now-meets-submit", shutdown_now_meets_submit},
    {"close", "shutdown-with-grace-period", shutdown_with_grace_period},
    {"close", "two-shutdowns-with-grace-periods", two_shutdowns_with_grace_periods},
    {"close", "shutdown-meets-its-policy", shutdown_meets_its_policy},
    {"close", "shutdown-of-a-periodic-task", shutdown_of_a_periodic_task},
    {"close", "shutdown-in-a-caller-run-body", shutdown_in_a_caller_run_body},
    {"close", "shutdown-meets-a-caller-run-task", shutdown_meets_a_caller_run_task},
    {"close", "close-meets-a-caller-run-task", close_meets_a_caller_run_task},
    {"close", "close-meets-resize", close_meets_resize},
    {"close", "close-meets-shutdown", close_meets_shutdown},
    {"close", "close-meets-the-end-of-a-run", close_meets_the_end_of_a_run},
    {NULL, NULL, NULL},
};
