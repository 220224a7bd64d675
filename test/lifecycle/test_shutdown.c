/* SPDX-License-Identifier: MIT
 *
 * Orderly shutdown: the states on the way, which tasks survive it, and the grace period.
 *
 * Immediate shutdown is in test_shutdown_now.c.
 */
#include "lib/bodies.h"
#include "lib/fixture.h"
#include "lib/threads.h"

static int do_shutdown_within(void *s) {
  return uvs_shutdown_within(s, UVS_SEC(1));
}

/* -------------------------------------------------------------- state asked --- */

/* S30 */
TEST is_shutdown_is_true_as_soon_as_shutdown_returns(void) {
  static int (*const ways[])(void *) = {do_shutdown, do_shutdown_within, do_shutdown_now,
                                        do_shutdown_now_quietly};
  struct fixture f;

  for (unsigned way = 0; way < sizeof ways / sizeof *ways; way++) {
    for (int off_loop = 0; off_loop < 2; off_loop++) {
      fixture_init(&f);
      CHECK_CALL(fixture_open(&f));
      fixture_turn(&f);
      ASSERT_RC(0, uvs_is_shutdown(f.s));
      ASSERT_RC(0, uvs_is_terminating(f.s));
      ASSERT_RC(0, off_loop ? elsewhere(ways[way], f.s) : ways[way](f.s));
      ASSERT_RC(1, uvs_is_shutdown(f.s));
      ASSERT_RC(UV_ESHUTDOWN, uvs_execute(f.s, probe_work, fixture_probe(&f, 'x')));
      fixture_turn(&f);
      ASSERT_RC(1, uvs_is_shutdown(f.s));
      ASSERT_STR_EQ(ways[way] == do_shutdown_now ? ".t" : "t", log_string(&f, 0));
      CHECK_CALL(fixture_close(&f));
    }
  }
  PASS();
}

static int say_states(struct probe *p, uvs_run_t *run) {
  log_add(p->f, EV_USER, 's', run->id, uvs_is_shutdown(run->scheduler));
  log_add(p->f, EV_USER, 'i', run->id, uvs_is_terminating(run->scheduler));
  log_add(p->f, EV_USER, 'd', run->id, uvs_is_terminated(run->scheduler));
  return 0;
}

static int shut_and_say_states(struct probe *p, uvs_run_t *run) {
  say_states(p, run);
  uvs_shutdown(run->scheduler);
  return say_states(p, run);
}

/* S31 S32 */
TEST terminating_lasts_from_shutdown_to_the_end_of_the_last_body(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  probe_of(&t)->act = shut_and_say_states;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT_RC(0, uvs_is_terminating(f.s));
  ASSERT_RC(0, uvs_is_terminated(f.s));
  fixture_turn(&f);
  ASSERT_STR_EQ("sidsid", log_string(&f, EV_USER));
  for (unsigned i = 0; i < 3; i++)
    ASSERT_RC(0, log_nth(&f, EV_USER, 0, i)->status);
  ASSERT_RC(1, log_nth(&f, EV_USER, 's', 1)->status);
  ASSERT_RC(1, log_nth(&f, EV_USER, 'i', 1)->status);
  ASSERT_RC(0, log_nth(&f, EV_USER, 'd', 1)->status);
  ASSERT_RC(1, uvs_is_shutdown(f.s));
  ASSERT_RC(0, uvs_is_terminating(f.s));
  ASSERT_RC(1, uvs_is_terminated(f.s));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S31 S32 S42 */
TEST a_pending_run_keeps_the_scheduler_from_termination(void) {
  struct fixture f;
  uvs_id_t id;

  for (int now = 0; now < 2; now++) {
    fixture_init(&f);
    CHECK_CALL(fixture_open(&f));
    uvs_task_t t = fixture_once(&f, 'a', 0);
    probe_of(&t)->ret = UVS_PENDING;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_turn(&f);
    ASSERT_RC(0, now ? do_shutdown_now(f.s) : do_shutdown(f.s));
    fixture_turn(&f);
    fixture_advance_ns(&f, UVS_HOUR(1));
    ASSERT_RC(1, uvs_is_terminating(f.s));
    ASSERT_RC(0, uvs_is_terminated(f.s));
    ASSERT_RC(UVS_RUNNING, state_of(f.s, id));
    ASSERT_RC(UV_ETIMEDOUT, elsewhere(do_look, f.s));
    ASSERT_RC(0, uvs_finish(f.s, id, UV_EIO));
    ASSERT_RC(0, uvs_is_terminated(f.s)); /* its `done` is still to come */
    fixture_turn(&f);
    ASSERT_RC(UV_EIO, log_nth(&f, EV_DONE, 'a', 0)->status);
    ASSERT_RC(0, uvs_is_terminating(f.s));
    ASSERT_RC(1, uvs_is_terminated(f.s));
    ASSERT_RC(0, elsewhere(do_look, f.s));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* --------------------------------------------------------- orderly shutdown --- */

/* S35 */
TEST by_default_delayed_tasks_survive_shutdown_and_periodic_ones_do_not(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  uvs_task_t once = fixture_once(&f, 'o', UVS_MS(50));
  uvs_task_t rate = fixture_rate(&f, 'r', UVS_MS(10), UVS_MS(10));
  uvs_task_t delay = fixture_delay(&f, 'd', UVS_MS(10), UVS_MS(10));
  uvs_task_t gone = fixture_once(&f, 'c', UVS_MS(20));
  uvs_task_t wall = fixture_once(&f, 'w', VCLOCK_WALL_NS + UVS_MS(60));
  wall.from = UVS_FROM_WALL;
  ASSERT_RC(0, uvs_submit(f.s, &once, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &rate, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &delay, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &wall, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &gone, &id));
  fixture_turn(&f);
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, 0));
  ASSERT_U64(4, counts_of(f.s).waiting); /* at once */
  ASSERT_RC(0, uvs_shutdown(f.s));
  fixture_turn(&f);
  ASSERT_U64(2, counts_of(f.s).waiting);
  ASSERT_U64(1, log_count(&f, EV_DONE, 'r'));
  ASSERT_U64(1, log_count(&f, EV_DONE, 'd'));
  ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'r', 0)->status);
  fixture_advance_ms(&f, 200);
  ASSERT_STR_EQ("ow", log_string(&f, EV_WORK));
  ASSERT_STR_EQ("50", log_runs(&f, EV_WORK, 'o'));
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'o', 0)->status);
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'w', 0)->status);
  ASSERT_I64(60, fixture_ms(&f, log_nth(&f, EV_TERMINATED, 0, 0)->time_ns));
  ASSERT_U64(0, log_count(&f, EV_NEVER_RAN, 0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S36 */
TEST survive_policies_read_back_before_and_after_shutdown(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  ASSERT_RC(1, uvs_after_shutdown(f.s, UVS_DELAYED_TASKS));
  ASSERT_RC(0, uvs_after_shutdown(f.s, UVS_PERIODIC_TASKS));
  for (int after = 0; after < 2; after++) {
    for (int which = UVS_DELAYED_TASKS; which <= UVS_PERIODIC_TASKS; which++) {
      int other = uvs_after_shutdown(f.s, 1 - which);
      for (int on = 1; on >= 0; on--) {
        ASSERT_RC(0, uvs_set_after_shutdown(f.s, which, on));
        ASSERT_RC(on, uvs_after_shutdown(f.s, which));
        ASSERT_RC(other, uvs_after_shutdown(f.s, 1 - which));
      }
      ASSERT_RC(0, uvs_set_after_shutdown(f.s, which, 1));
    }
    ASSERT_RC(UV_EINVAL, uvs_after_shutdown(f.s, 2));
    ASSERT_RC(UV_EINVAL, uvs_after_shutdown(f.s, -1));
    ASSERT_RC(UV_EINVAL, uvs_set_after_shutdown(f.s, 2, 1));
    ASSERT_RC(1, uvs_after_shutdown(f.s, UVS_DELAYED_TASKS));
    ASSERT_RC(0, uvs_shutdown(f.s));
    fixture_turn(&f);
  }
  CHECK_CALL(fixture_close(&f));

  fixture_init(&f);
  f.options.delayed_after_shutdown = 0;
  f.options.periodic_after_shutdown = 1;
  CHECK_CALL(fixture_open(&f));
  ASSERT_RC(0, uvs_after_shutdown(f.s, UVS_DELAYED_TASKS));
  ASSERT_RC(1, uvs_after_shutdown(f.s, UVS_PERIODIC_TASKS));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int periodic_off(void *s) {
  return uvs_set_after_shutdown(s, UVS_PERIODIC_TASKS, 0);
}

static int delayed_off(void *s) {
  return uvs_set_after_shutdown(s, UVS_DELAYED_TASKS, 0);
}

/* S36 */
TEST a_survive_policy_switched_off_after_shutdown_acts_immediately(void) {
  struct fixture f;

  for (int off_loop = 0; off_loop < 2; off_loop++) {
    fixture_init(&f);
    f.options.periodic_after_shutdown = 1;
    CHECK_CALL(fixture_open(&f));
    uvs_task_t once = fixture_once(&f, 'o', UVS_HOUR(1));
    uvs_task_t never = fixture_once(&f, 'n', UVS_NEVER);
    uvs_task_t rate = fixture_rate(&f, 'r', UVS_MS(10), UVS_MS(10));
    ASSERT_RC(0, uvs_submit(f.s, &once, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &never, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &rate, NULL));
    ASSERT_RC(0, uvs_shutdown(f.s));
    fixture_advance_ms(&f, 25);
    ASSERT_STR_EQ("10 20", log_runs(&f, EV_WORK, 'r'));
    ASSERT_RC(0, off_loop ? elsewhere(periodic_off, f.s) : periodic_off(f.s));
    fixture_turn(&f);
    ASSERT_STR_EQ("r", log_string(&f, EV_DONE));
    ASSERT_U64(2, counts_of(f.s).waiting);
    ASSERT_RC(0, uvs_is_terminated(f.s));
    ASSERT_RC(0, off_loop ? elsewhere(delayed_off, f.s) : delayed_off(f.s));
    fixture_turn(&f);
    ASSERT_RC(1, uvs_is_terminated(f.s));
    for (int i = 0; i < 3; i++)
      ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, "ron"[i], 0)->status);
    ASSERT_STR_EQ("rr", log_string(&f, EV_WORK));
    ASSERT_I64(25, fixture_now_ms(&f));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S36 */
TEST a_survive_policy_switched_before_shutdown_acts_at_shutdown(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  uvs_task_t once = fixture_once(&f, 'o', UVS_MS(50));
  uvs_task_t rate = fixture_rate(&f, 'r', UVS_MS(10), UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &once, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &rate, NULL));
  fixture_turn(&f);
  ASSERT_RC(0, delayed_off(f.s));
  ASSERT_RC(0, uvs_set_after_shutdown(f.s, UVS_PERIODIC_TASKS, 1));
  fixture_advance_ms(&f, 15);
  ASSERT_U64(2, counts_of(f.s).waiting);
  ASSERT_RC(0, uvs_shutdown(f.s));
  fixture_advance_ms(&f, 10);
  ASSERT_STR_EQ("o", log_string(&f, EV_DONE));
  ASSERT_STR_EQ("10 20", log_runs(&f, EV_WORK, 'r'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S37 */
TEST without_delayed_survive_tasks_that_are_not_due_end_at_shutdown(void) {
  struct fixture f;

  for (int seen = 0; seen < 2; seen++) { /* by the loop, or still on its way there */
    fixture_init(&f);
    f.options.delayed_after_shutdown = 0;
    CHECK_CALL(fixture_open(&f));
    uvs_task_t specs[] = {
        fixture_once(&f, 'a', UVS_MS(1)),
        fixture_loop_task(&f, 'b', UVS_MS(50)),
        fixture_once(&f, 'c', UVS_NEVER),
        fixture_once(&f, 'd', VCLOCK_WALL_NS + 1),
    };
    specs[3].from = UVS_FROM_WALL;
    for (int i = 0; i < 4; i++)
      ASSERT_RC(0, uvs_submit(f.s, &specs[i], NULL));
    if (seen)
      fixture_turn(&f);
    ASSERT_RC(0, uvs_shutdown(f.s));
    fixture_turn(&f);
    ASSERT_U64(0, counts_of(f.s).waiting);
    ASSERT_U64(4, counts_of(f.s).cancelled);
    for (int tag = 'a'; tag <= 'd'; tag++)
      ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, tag, 0)->status);
    ASSERT_RC(1, uvs_is_terminated(f.s));
    fixture_advance_ms(&f, 100);
    ASSERT_U64(0, log_count(&f, EV_WORK, 0) + log_count(&f, EV_AFTER, 0));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S38: the time of the first shutdown decides which tasks are due, however late the loop looks. */
TEST a_second_shutdown_does_not_change_which_tasks_were_due(void) {
  struct fixture f;

  fixture_init(&f);
  f.options.delayed_after_shutdown = 0;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t specs[] = {fixture_once(&f, 'a', UVS_MS(10)),
                        fixture_once(&f, 'b', VCLOCK_WALL_NS + UVS_MS(10))};
  specs[1].from = UVS_FROM_WALL;
  for (int i = 0; i < 2; i++)
    ASSERT_RC(0, uvs_submit(f.s, &specs[i], NULL));
  ASSERT_RC(0, uvs_shutdown(f.s));
  vclock_advance_ns(&f.clock, UVS_MS(20));
  ASSERT_RC(0, uvs_shutdown(f.s));
  fixture_turn(&f);
  ASSERT_U64(0, log_count(&f, EV_WORK, 0));
  for (int tag = 'a'; tag <= 'b'; tag++)
    ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, tag, 0)->status);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S38 */
TEST a_one_shot_already_due_at_shutdown_runs_whatever_the_policies_say(void) {
  struct fixture f;

  for (int seen = 0; seen < 2; seen++) {
    fixture_init(&f);
    f.options.delayed_after_shutdown = 0;
    CHECK_CALL(fixture_open(&f));
    uvs_task_t now = fixture_once(&f, 'n', 0);
    uvs_task_t just = fixture_once(&f, 'j', UVS_MS(10));
    uvs_task_t loop = fixture_loop_task(&f, 'l', UVS_MS(10));
    uvs_task_t wall = fixture_once(&f, 'w', VCLOCK_WALL_NS + UVS_MS(10));
    uvs_task_t not = fixture_once(&f, 'x', UVS_MS(10) + 1);
    wall.from = UVS_FROM_WALL;
    fakepool_hold();
    ASSERT_RC(0, uvs_submit(f.s, &just, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &loop, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &wall, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &not, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &now, NULL));
    if (seen)
      fixture_turn(&f);
    vclock_advance_ns(&f.clock, UVS_MS(10)); /* due, though the loop has not read the clock */
    ASSERT_RC(0, uvs_shutdown(f.s));
    vclock_advance_ns(&f.clock, UVS_MS(10)); /* what became due since then was not */
    fakepool_release();
    fixture_turn(&f);
    ASSERT_U64(3, log_count(&f, EV_WORK, 0));
    ASSERT_U64(0, log_count(&f, EV_WORK, 'x'));
    ASSERT_U64(1, log_count(&f, EV_AFTER, 'l'));
    for (int i = 0; i < 4; i++)
      ASSERT_RC(0, log_nth(&f, EV_DONE, "njlw"[i], 0)->status);
    ASSERT_U64(5, log_count(&f, EV_DONE, 0));
    ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'x', 0)->status);
    ASSERT_RC(1, uvs_is_terminated(f.s));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static int shut_and_look(struct probe *p, uvs_run_t *run) {
  uvs_info_t info;

  uvs_shutdown(run->scheduler);
  uvs_info_init(&info);
  if (uvs_info(run->scheduler, run->id, &info) == 0)
    log_add(p->f, EV_USER, info.cancelled ? 'c' : 'n', run->id, info.state);
  return run->number > 1 ? p->ret : 0;
}

/* S39 S42 */
TEST a_periodic_task_in_the_middle_of_a_run_finishes_it_and_ends_cancelled(void) {
  struct fixture f;

  for (int kind = UVS_FIXED_RATE; kind <= UVS_FIXED_DELAY; kind++) {
    for (int concurrency = 0; concurrency < 2; concurrency++) {
      fixture_init(&f);
      f.options.concurrency = concurrency;
      CHECK_CALL(fixture_open(&f));
      uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_MS(10));
      uvs_task_t queued = fixture_rate(&f, 'q', UVS_MS(5), UVS_MS(10));
      t.kind = kind;
      t.after = probe_after;
      probe_of(&t)->act = shut_and_look;
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
      ASSERT_RC(0, uvs_submit(f.s, &queued, NULL));
      fixture_turn(&f);
      ASSERT_STR_EQ("n", log_string(&f, EV_USER)); /* not over, not cancelled, and still running */
      ASSERT_RC(UVS_RUNNING, log_nth(&f, EV_USER, 'n', 0)->status);
      ASSERT_U64(1, log_count(&f, EV_AFTER, 'a'));
      ASSERT_RC(0, log_nth(&f, EV_AFTER, 'a', 0)->status);
      ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 0)->status);
      ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'q', 0)->status);
      ASSERT_RC(1, uvs_is_terminated(f.s));
      fixture_advance_ms(&f, 100);
      ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
      ASSERT_U64(2, counts_of(f.s).cancelled);
      CHECK_CALL(fixture_close(&f));
    }
  }
  PASS();
}

/* S39 */
TEST waiting_periodic_tasks_end_at_once_while_another_one_still_runs(void) {
  struct fixture f;
  uvs_id_t running;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  uvs_task_t a = fixture_delay(&f, 'a', 0, UVS_MS(10));
  uvs_task_t b = fixture_delay(&f, 'b', 0, UVS_MS(10));
  probe_of(&a)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &a, &running));
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  fixture_turn(&f);
  ASSERT_RC(0, uvs_shutdown(f.s));
  fixture_turn(&f);
  ASSERT_STR_EQ("b", log_string(&f, EV_DONE));
  ASSERT_RC(UVS_RUNNING, state_of(f.s, running));
  ASSERT_RC(0, uvs_finish(f.s, running, 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("ba", log_string(&f, EV_DONE));
  ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 0)->status);
  ASSERT_STR_EQ("ab", log_string(&f, EV_WORK));
  ASSERT_RC(1, uvs_is_terminated(f.s));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S39 S41 S42 */
TEST the_last_run_of_a_periodic_task_may_still_fail_or_stop_it(void) {
  static const int rets[] = {UV_EIO, UVS_STOP};
  static const int outcomes[] = {UV_EIO, 0};
  struct fixture f;
  uvs_id_t id;

  for (int i = 0; i < 2; i++) {
    fixture_init(&f);
    CHECK_CALL(fixture_open(&f));
    uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_MS(10));
    probe_of(&t)->ret = UVS_PENDING;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_turn(&f);
    ASSERT_RC(0, uvs_shutdown(f.s));
    fixture_turn(&f);
    ASSERT_RC(0, uvs_finish(f.s, id, rets[i]));
    fixture_turn(&f);
    ASSERT_RC(outcomes[i], log_nth(&f, EV_DONE, 'a', 0)->status);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S40 */
TEST surviving_periodic_tasks_go_on_until_the_last_one_is_cancelled(void) {
  struct fixture f;
  uvs_id_t ids[3];

  fixture_init(&f);
  f.options.periodic_after_shutdown = 1;
  CHECK_CALL(fixture_open(&f));
  uvs_task_t specs[] = {
      fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10)),
      fixture_delay(&f, 'b', UVS_MS(10), UVS_MS(20)),
      fixture_rate(&f, 'c', UVS_MS(10), UVS_MS(50)),
  };
  probe_of(&specs[2])->ret = UVS_STOP;
  probe_of(&specs[2])->ret_from = 3;
  for (int i = 0; i < 3; i++)
    ASSERT_RC(0, uvs_submit(f.s, &specs[i], &ids[i]));
  ASSERT_RC(0, uvs_shutdown(f.s));
  fixture_advance_ms(&f, 45);
  ASSERT_STR_EQ("10 20 30 40", log_runs(&f, EV_WORK, 'a'));
  ASSERT_STR_EQ("10 30", log_runs(&f, EV_WORK, 'b'));
  for (int i = 0; i < 3; i++)
    ASSERT_RC(UVS_WAITING, state_of(f.s, ids[i]));
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, ids[0], 0));
  fixture_advance_ms(&f, 10);
  ASSERT_STR_EQ("a", log_string(&f, EV_DONE));
  ASSERT_STR_EQ("10 30 50", log_runs(&f, EV_WORK, 'b'));
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, ids[1], 0));
  fixture_advance_ms(&f, 45);
  ASSERT_STR_EQ("10 60", log_runs(&f, EV_WORK, 'c'));
  ASSERT_RC(0, uvs_is_terminated(f.s));
  fixture_advance_ms(&f, 100);
  ASSERT_STR_EQ("10 60 110", log_runs(&f, EV_WORK, 'c'));
  ASSERT_STR_EQ("abc", log_string(&f, EV_DONE));
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'c', 0)->status);
  ASSERT_RC(1, uvs_is_terminated(f.s));
  ASSERT_I64(110, fixture_ms(&f, log_nth(&f, EV_TERMINATED, 0, 0)->time_ns));
  ASSERT_STR_EQ("10 20 30 40", log_runs(&f, EV_WORK, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int shut_in_body(struct probe *p, uvs_run_t *run) {
  uvs_shutdown(run->scheduler);
  return p->ret;
}

/* S42 */
TEST a_body_that_runs_at_shutdown_delivers_its_result(void) {
  static const int rets[] = {0, UV_EIO, UVS_STOP, 77};
  static const int outcomes[] = {0, UV_EIO, 0, UV_EINVAL};
  struct fixture f;

  for (int i = 0; i < 4; i++) {
    fixture_init(&f);
    CHECK_CALL(fixture_open(&f));
    uvs_task_t t = fixture_once(&f, 'a', 0);
    t.after = probe_after;
    probe_of(&t)->act = shut_in_body;
    probe_of(&t)->ret = rets[i];
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_turn(&f);
    ASSERT_RC(outcomes[i], log_nth(&f, EV_AFTER, 'a', 0)->status);
    ASSERT_RC(outcomes[i], log_nth(&f, EV_DONE, 'a', 0)->status);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static int count_one(uvs_t *s, const uvs_info_t *info, void *arg) {
  (void)s;
  (void)info;
  ++*(int *)arg;
  return 0;
}

/* Logs the counts when it is called: waiting + ready + running. */
static void look_when_terminated(uvs_t *s) {
  struct fixture *f = uvs_data(s);
  uvs_counts_t c = counts_of(s);
  int left = 0;

  uvs_each(s, count_one, &left);
  left += (int)(c.waiting + c.ready + c.running + c.runners);
  log_add(f, EV_TERMINATED, adds_up(&c) && uvs_is_terminated(s) == 1 ? 't' : '!', 0, left);
}

/* S43 S44 S56 */
TEST at_termination_nothing_is_left_and_every_done_was_called(void) {
  struct fixture f;
  uint64_t random = test_seed;
  int tasks = 0;

  fixture_init(&f);
  f.pool = FAKEPOOL_SEEDED;
  f.options.on_terminated = look_when_terminated;
  f.options.concurrency = 3;
  CHECK_CALL(fixture_open(&f));
  for (int i = 0; i < 100; i++) {
    uvs_id_t id;
    int64_t delay_ns = (int64_t)test_random_below(&random, 30) * UVS_MS(1);
    uvs_task_t t = i % 3 == 0   ? fixture_rate(&f, 'A' + i % 26, delay_ns, UVS_MS(7))
                   : i % 3 == 1 ? fixture_loop_task(&f, 'A' + i % 26, delay_ns)
                                : fixture_once(&f, 'A' + i % 26, delay_ns);
    probe_of(&t)->ret = i % 7 == 0 ? UV_EIO : 0;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    tasks++;
    if (i % 5 == 0)
      ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, 0));
    if (i % 10 == 0)
      fixture_advance_ms(&f, 1);
  }
  ASSERT_RC(0, uvs_shutdown(f.s));
  fixture_advance_ms(&f, 100);
  ASSERT_U64(1, log_count(&f, EV_TERMINATED, 't'));
  ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
  ASSERT_RC(0, log_nth(&f, EV_TERMINATED, 't', 0)->status);
  ASSERT_U64((unsigned)tasks, log_count(&f, EV_DONE, 0));
  /* It was the last callback. */
  ASSERT_RC(EV_TERMINATED, log_nth(&f, (enum event_kind)0, 0, log_total(&f) - 1)->what);
  uvs_counts_t c = counts_of(f.s);
  ASSERT_U64((unsigned)tasks, c.submitted);
  ASSERT_U64((unsigned)tasks, c.completed + c.failed + c.cancelled);
  ASSERT_U64(log_count(&f, EV_WORK, 0) + log_count(&f, EV_AFTER, 0), c.runs);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S44 S35 S37 S40 */
TEST the_number_of_runs_is_exact_for_each_combination_of_policies(void) {
  struct fixture f;

  for (int delayed = 0; delayed < 2; delayed++) {
    for (int periodic = 0; periodic < 2; periodic++) {
      for (int way = 0; way < 3; way++) { /* orderly, with a grace of 50 ms, immediate */
        for (int concurrency = 0; concurrency < 3; concurrency++) {
          unsigned late_once = way == 2 ? 0 : delayed && way == 0 ? 10 : delayed ? 5 : 0;
          unsigned late_rate = way == 2 || !periodic ? 0 : way == 0 ? 10 : 5;
          fixture_init(&f);
          f.options.concurrency = concurrency;
          f.options.delayed_after_shutdown = delayed;
          f.options.periodic_after_shutdown = periodic;
          CHECK_CALL(fixture_open(&f));
          /* Before the shutdown at 25 ms three one-shots and 2 runs are due. 100 ms follow. */
          for (int i = 0; i < 13; i++) {
            uvs_task_t o = fixture_once(&f, 'o', i < 3 ? UVS_MS(5 * i) : UVS_MS(10 * i));
            ASSERT_RC(0, uvs_submit(f.s, &o, NULL));
          }
          uvs_task_t r = fixture_rate(&f, 'r', UVS_MS(10), UVS_MS(10));
          uvs_task_t d = fixture_delay(&f, 'd', UVS_MS(10), UVS_MS(10));
          ASSERT_RC(0, uvs_submit(f.s, &r, NULL));
          ASSERT_RC(0, uvs_submit(f.s, &d, NULL));
          fixture_advance_ms(&f, 25);
          ASSERT_RC(0, way == 0   ? uvs_shutdown(f.s)
                       : way == 1 ? uvs_shutdown_within(f.s, UVS_MS(50))
                                  : do_shutdown_now(f.s));
          fixture_advance_ms(&f, 100);
          ASSERT_U64(3 + late_once, log_count(&f, EV_WORK, 'o'));
          ASSERT_U64(2 + late_rate, log_count(&f, EV_WORK, 'r'));
          ASSERT_U64(2 + late_rate, log_count(&f, EV_WORK, 'd'));
          ASSERT_U64(13, log_count(&f, EV_DONE, 'o'));
          ASSERT_U64(log_count(&f, EV_WORK, 0), counts_of(f.s).runs);
          ASSERT_RC(periodic && way == 0 ? 0 : 1, uvs_is_terminated(f.s));
          CHECK_CALL(fixture_close(&f));
        }
      }
    }
  }
  PASS();
}

/* ---------------------------------------------------------------- the grace --- */

static int within(struct fixture *f, int64_t grace_ns) {
  return uvs_shutdown_within(f->s, grace_ns);
}

/* S33 S35 */
TEST at_the_end_of_the_grace_period_the_remaining_tasks_are_cancelled(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  f.options.periodic_after_shutdown = 1;
  CHECK_CALL(fixture_open(&f));
  uvs_task_t in_time = fixture_once(&f, 'i', UVS_MS(99));
  uvs_task_t too_late = fixture_once(&f, 'l', UVS_MS(101));
  uvs_task_t rate = fixture_rate(&f, 'r', 0, UVS_MS(60));
  uvs_task_t pending = fixture_once(&f, 'p', 0);
  probe_of(&pending)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &in_time, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &too_late, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &rate, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &pending, &id));
  ASSERT_RC(0, within(&f, UVS_MS(100)));
  fixture_advance_ns(&f, UVS_MS(100) - 1);
  ASSERT_STR_EQ("i", log_string(&f, EV_DONE));
  ASSERT_I64(100, fixture_next_ms(&f));
  fixture_advance_ns(&f, 1);
  ASSERT_U64(3, log_count(&f, EV_DONE, 0));
  ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'l', 0)->status);
  ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'r', 0)->status);
  ASSERT_RC(UVS_RUNNING, state_of(f.s, id));
  ASSERT_RC(0, uvs_is_terminated(f.s));
  fixture_advance_ms(&f, 100); /* the loop sleeps meanwhile, or this would not end */
  ASSERT_FALSE(f.overrun);
  ASSERT_I64(-1, fixture_next_ms(&f));
  ASSERT_RC(0, uvs_finish(f.s, id, 0));
  fixture_turn(&f);
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'p', 0)->status);
  ASSERT_RC(1, uvs_is_terminated(f.s));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S42 */
TEST at_the_end_of_the_grace_period_a_body_sees_its_token(void) {
  struct fixture f;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open(&f));
  gate_init(true);
  uvs_task_t t = fixture_once(&f, 'a', 0);
  probe_of(&t)->act = gate_pass;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT(fixture_wait_log(&f, EV_WORK, 'a', 1));
  ASSERT_RC(0, within(&f, UVS_MS(100)));
  fixture_jump_ms(&f, 99);
  ASSERT_U64(0, log_count(&f, EV_DONE, 'a'));
  fixture_jump_ms(&f, 1);
  ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 1));
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'a', 0)->status);
  ASSERT(fixture_wait_log(&f, EV_TERMINATED, 0, 1));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S35 */
TEST of_several_grace_periods_the_earliest_end_counts(void) {
  static const int64_t graces[][3] = {{50, 20, 80}, {20, 50, 80}, {80, 50, 20}, {20, 20, 20}};
  struct fixture f;

  for (int i = 0; i < 4; i++) {
    fixture_init(&f);
    CHECK_CALL(fixture_open(&f));
    uvs_task_t t = fixture_once(&f, 'a', UVS_MS(200));
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    for (int k = 0; k < 3; k++)
      ASSERT_RC(0, within(&f, UVS_MS(graces[i][k])));
    ASSERT_RC(0, within(&f, UVS_NEVER));
    fixture_advance_ms(&f, 19);
    ASSERT_U64(0, log_total(&f));
    fixture_advance_ms(&f, 1);
    ASSERT_STR_EQ("a", log_string(&f, EV_DONE));
    ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S35 S42 */
TEST an_unneeded_grace_period_changes_nothing(void) {
  static const int64_t graces[] = {UVS_MS(100), UVS_NEVER, UVS_NEVER - 1};
  struct fixture f;

  for (int i = 0; i < 3; i++) {
    fixture_init(&f);
    CHECK_CALL(fixture_open(&f));
    uvs_task_t t = fixture_once(&f, 'a', UVS_MS(20));
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    ASSERT_RC(0, within(&f, graces[i]));
    fixture_advance_ms(&f, 20);
    ASSERT_STR_EQ("20", log_runs(&f, EV_WORK, 'a'));
    ASSERT_RC(0, log_nth(&f, EV_DONE, 'a', 0)->status);
    ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
    fixture_advance_ms(&f, 200);
    ASSERT_U64(3, log_total(&f));
    ASSERT_FALSE(f.overrun);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S33 */
TEST a_grace_period_of_zero_or_less_ends_immediately(void) {
  static const int64_t graces[] = {0, -1, INT64_MIN};
  struct fixture f;

  for (int i = 0; i < 3; i++) {
    fixture_init(&f);
    CHECK_CALL(fixture_open(&f));
    uvs_task_t t = fixture_once(&f, 'a', UVS_MS(20));
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_turn(&f);
    ASSERT_RC(0, within(&f, graces[i]));
    fixture_turn(&f);
    ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 0)->status);
    ASSERT_RC(1, uvs_is_terminated(f.s));
    ASSERT_FALSE(f.overrun);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

SUITE(states) {
  RUN_TEST(is_shutdown_is_true_as_soon_as_shutdown_returns);
  RUN_TEST(terminating_lasts_from_shutdown_to_the_end_of_the_last_body);
  RUN_TEST(a_pending_run_keeps_the_scheduler_from_termination);
}

SUITE(orderly) {
  RUN_TEST(by_default_delayed_tasks_survive_shutdown_and_periodic_ones_do_not);
  RUN_TEST(survive_policies_read_back_before_and_after_shutdown);
  RUN_TEST(a_survive_policy_switched_off_after_shutdown_acts_immediately);
  RUN_TEST(a_survive_policy_switched_before_shutdown_acts_at_shutdown);
  RUN_TEST(without_delayed_survive_tasks_that_are_not_due_end_at_shutdown);
  RUN_TEST(a_second_shutdown_does_not_change_which_tasks_were_due);
  RUN_TEST(a_one_shot_already_due_at_shutdown_runs_whatever_the_policies_say);
  RUN_TEST(a_periodic_task_in_the_middle_of_a_run_finishes_it_and_ends_cancelled);
  RUN_TEST(waiting_periodic_tasks_end_at_once_while_another_one_still_runs);
  RUN_TEST(the_last_run_of_a_periodic_task_may_still_fail_or_stop_it);
  RUN_TEST(surviving_periodic_tasks_go_on_until_the_last_one_is_cancelled);
  RUN_TEST(a_body_that_runs_at_shutdown_delivers_its_result);
  RUN_TEST(at_termination_nothing_is_left_and_every_done_was_called);
  RUN_TEST(the_number_of_runs_is_exact_for_each_combination_of_policies);
}

SUITE(grace) {
  RUN_TEST(at_the_end_of_the_grace_period_the_remaining_tasks_are_cancelled);
  RUN_TEST(at_the_end_of_the_grace_period_a_body_sees_its_token);
  RUN_TEST(of_several_grace_periods_the_earliest_end_counts);
  RUN_TEST(an_unneeded_grace_period_changes_nothing);
  RUN_TEST(a_grace_period_of_zero_or_less_ends_immediately);
}

/* Blocking bodies need enough threads in libuv's pool, whatever the environment says. */
TEST_MAIN(uv_os_setenv("UV_THREADPOOL_SIZE", "4"); RUN_SUITE(states); RUN_SUITE(orderly);
          RUN_SUITE(grace));
