/* SPDX-License-Identifier: MIT
 *
 * Light turns: what the timer and a runner that comes home do, without a call of the user's code.
 * Whatever they find that needs one must come soon all the same, by a full turn. That nothing is
 * ever called back from those two places, fixture_close says in every program that has a fixture.
 */
#include "uvsched/executor.h"
#include "uvsched/lane.h"
#include "uvsched/queue.h"

#include "lib/bodies.h"
#include "lib/cleanups.h"
#include "lib/fixture.h"
#include "lib/lanes.h"
#include "lib/shelf.h"
#include "lib/threads.h"
#include "lib/values.h"

#include "scheduler.h"

/* ---- a runner that is on its way ---- */

/* A task 'r' is in the pool, and stays there until `home`. The loop is at rest. */
static enum greatest_test_res send_out(struct fixture *f, const uvs_task_t *r) {
  fakepool_hold();
  ASSERT_RC(0, uvs_submit(f->s, r, NULL));
  fixture_turn(f);
  ASSERT_U64(1, fakepool_pending());
  PASS();
}

static enum greatest_test_res send_any(struct fixture *f) {
  uvs_task_t r = fixture_once(f, 'r', 0);

  r.done = NULL;
  CHECK_CALL(send_out(f, &r));
  PASS();
}

/* Its body runs, and it comes home: a light turn. Nothing else has called for the loop. */
static enum greatest_test_res home(struct fixture *f) {
  unsigned before = log_total(f);

  ASSERT(fakepool_step());
  ASSERT_U64(before + 1, log_total(f)); /* the body */
  ASSERT(fakepool_step());
  ASSERT_U64(before + 1, log_total(f)); /* and nothing is called back there */
  fakepool_release();
  PASS();
}

/* Time passes, and nobody tells the loop. */
static void silently(struct fixture *f, int64_t ms) {
  vclock_advance_ns(&f->clock, UVS_MS(ms));
}

/* ---- what it finds ---- */

TEST after_and_done_follow(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t r = fixture_once(&f, 'r', 0);
  r.after = probe_after;
  CHECK_CALL(send_out(&f, &r));
  CHECK_CALL(home(&f));
  fixture_turn(&f);
  ASSERT_U64(1, log_count(&f, EV_AFTER, 'r'));
  ASSERT_U64(1, log_count(&f, EV_DONE, 'r'));
  ASSERT_U64(IN_ASYNC, log_nth(&f, EV_AFTER, 'r', 0)->place);
  ASSERT_U64(IN_ASYNC, log_nth(&f, EV_DONE, 'r', 0)->place);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* Those of the loop's need a full turn, those of the pool go out at once. */
TEST what_is_due_by_then_starts(void) {
  struct fixture f;

  fixture_init(&f);
  f.options.concurrency = 2;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t l = fixture_loop_task(&f, 'l', UVS_MS(10));
  uvs_task_t p = fixture_once(&f, 'p', UVS_MS(10));
  uvs_task_t late = fixture_once(&f, 'z', UVS_MS(11));
  ASSERT_RC(0, uvs_submit(f.s, &l, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &p, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &late, NULL));
  CHECK_CALL(send_any(&f));
  silently(&f, 10);
  CHECK_CALL(home(&f));
  ASSERT_U64(1, fakepool_pending()); /* handed over, and sent out, without a turn */
  fixture_turn(&f);
  ASSERT_U64(1, log_count(&f, EV_AFTER, 'l'));
  ASSERT_U64(1, log_count(&f, EV_WORK, 'p'));
  ASSERT_U64(0, log_count(&f, EV_WORK, 'z'));
  fixture_advance_ms(&f, 1);
  ASSERT_U64(3, log_count(&f, EV_DONE, 0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* The same with concurrency 0 by now: the task of the pool is the loop's. V5 */
TEST without_runners_it_is_the_loops(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t p = fixture_once(&f, 'p', UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &p, NULL));
  CHECK_CALL(send_any(&f));
  ASSERT(fakepool_step());
  ASSERT_RC(0, uvs_set_concurrency(f.s, 0));
  fixture_turn(&f);
  silently(&f, 10);
  ASSERT(fakepool_step());
  ASSERT_U64(0, log_count(&f, EV_WORK, 'p'));
  fakepool_release();
  fixture_turn(&f);
  ASSERT_U64(1, log_count(&f, EV_WORK, 'p'));
  ASSERT(log_nth(&f, EV_WORK, 'p', 0)->on_loop);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* An executor's submit is the user's code. */
static _Thread_local unsigned misplaced_submits;

static int note_place(void *arg) {
  (void)arg;
  misplaced_submits += fakepool_place() != IN_ASYNC;
  return 0;
}

TEST other_crews_are_called_by_a_full_turn(void) {
  struct fixture f;
  struct shelf e;
  uvs_lane_t lane;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  shelf_init(&e);
  e.on_submit = note_place;
  misplaced_submits = 0;
  CHECK_CALL(lane_on(&f, &e.table, &lane));
  uvs_task_t t = in_lane(fixture_once(&f, 'x', UVS_MS(10)), lane);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  CHECK_CALL(send_any(&f));
  silently(&f, 10);
  CHECK_CALL(home(&f));
  ASSERT_U64(0, e.submitted);
  fixture_turn(&f);
  ASSERT_U64(1, e.submitted);
  ASSERT_U64(0, misplaced_submits);
  ASSERT_RC(0, uvs_lane_dispose(lane, 0));
  CHECK_CALL(shelf_close(&f, &e));
  PASS();
}

/* F5 */
TEST a_limit_that_has_passed_is_seen(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  f.options.concurrency = 2;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t l = fixture_once(&f, 'l', 0);
  l.keep = 1;
  l.limit_ns = UVS_MS(10);
  probe_of(&l)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &l, &id));
  fixture_turn(&f);
  CHECK_CALL(send_any(&f));
  silently(&f, 20);
  CHECK_CALL(home(&f));
  fixture_turn(&f);
  ASSERT_U64(1, counts_of(f.s).timed_out);
  ASSERT_RC(0, uvs_finish(f.s, id, 0));
  ASSERT_RC(0, uvs_forget(f.s, id));
  fixture_turn(&f);
  ASSERT_U64(1, log_count(&f, EV_DONE, 'l'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* Of a delay queue: a value that is due is called back for, one that just came in as well. */
static int act_put(struct probe *p, uvs_run_t *run) {
  (void)run;
  return put_ms(p->data, 'v', 0);
}

TEST values_of_a_queue_are_handed_out(void) {
  for (int in_body = 0; in_body < 2; in_body++) {
    uvs_queue_t *q;
    struct fixture f;

    fixture_init(&f);
    CHECK_CALL(queue_open(&f, &q));
    ASSERT_RC(0, uvs_queue_consume(q, logs_value, &f));
    if (!in_body)
      ASSERT_RC(0, put_ms(q, 'v', 10));
    uvs_task_t r = fixture_once(&f, 'r', 0);
    r.done = NULL;
    probe_of(&r)->act = in_body ? act_put : NULL;
    probe_of(&r)->data = q;
    CHECK_CALL(send_out(&f, &r));
    silently(&f, 20);
    CHECK_CALL(home(&f));
    fixture_turn(&f);
    ASSERT_U64(1, log_count(&f, EV_USER, 'v'));
    CHECK_CALL(queue_close(&f, q));
  }
  PASS();
}

/* Points of the grid were missed: the hook is told. Its end time has come: done. */
static void logs_missed(uvs_t *s, uvs_id_t id, uint64_t count, int reason, void *arg) {
  struct probe *p = arg;

  (void)s;
  (void)reason;
  log_add(p->f, EV_USER, 'm', id, (int)count);
}

TEST the_hooks_hear_of_missed_points(void) {
  struct fixture f;

  fixture_init(&f);
  f.options.missed = logs_missed;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
  t.missed = UVS_MISSED_SKIP;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  CHECK_CALL(send_any(&f));
  silently(&f, 35);
  CHECK_CALL(home(&f));
  fixture_turn(&f);
  ASSERT_U64(1, log_count(&f, EV_USER, 'm'));
  ASSERT_RC(3, log_nth(&f, EV_USER, 'm', 0)->status);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

TEST a_task_whose_end_time_has_come_is_done(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
  t.missed = UVS_MISSED_SKIP;
  t.until_ns = UVS_MS(12);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  CHECK_CALL(send_any(&f));
  silently(&f, 35);
  CHECK_CALL(home(&f));
  fixture_turn(&f);
  ASSERT_U64(0, log_count(&f, EV_WORK, 'a'));
  ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* The last task of a lane that was disposed is brought home: clean-ups and `quiet`. R29 */
static int act_dispose(struct probe *p, uvs_run_t *run) {
  (void)run;
  return uvs_lane_dispose((uvs_lane_t)p->id, 0);
}

TEST a_lane_ends(void) {
  for (int in_body = 0; in_body < 2; in_body++) {
    struct fixture f;
    uvs_lane_t lane;

    CHECK_CALL(open_with_lane(&f, 1, 1, &lane));
    ASSERT_RC(0, uvs_lane_add_cleanup(f.s, lane, note, fixture_probe(&f, 'c'), 0));
    uvs_task_t r = in_lane(fixture_once(&f, 'r', 0), lane);
    r.done = NULL;
    probe_of(&r)->act = in_body ? act_dispose : NULL;
    probe_of(&r)->id = lane;
    CHECK_CALL(send_out(&f, &r));
    if (!in_body) { /* nothing starts any more, but one is in the pool */
      ASSERT(fakepool_step());
      ASSERT_RC(0, uvs_lane_dispose(lane, 0));
      fixture_turn(&f);
      ASSERT(fakepool_step());
      fakepool_release();
    } else {
      CHECK_CALL(home(&f));
    }
    fixture_turn(&f);
    ASSERT_STR_EQ("cq", log_string(&f, EV_USER));
    CHECK_CALL(lanes_left(&f, 0));
    CHECK_CALL(close_idle(&f));
  }
  PASS();
}

/* Attached by the body, when the task is about to end. */
static int act_attach(struct probe *p, uvs_run_t *run) {
  return attach(p->f, run->id, 'c', 0);
}

TEST a_clean_up_of_the_body_is_called(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t r = fixture_once(&f, 'r', 0);
  r.done = NULL;
  probe_of(&r)->act = act_attach;
  CHECK_CALL(send_out(&f, &r));
  CHECK_CALL(home(&f));
  fixture_turn(&f);
  ASSERT_STR_EQ("c", log_string(&f, EV_USER));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S41: a light task that fails after all has something to tell. */
TEST the_error_hook_hears_of_a_failure(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t r = fixture_once(&f, 'r', 0);
  r.done = NULL;
  probe_of(&r)->ret = UV_EIO;
  CHECK_CALL(send_out(&f, &r));
  CHECK_CALL(home(&f));
  fixture_turn(&f);
  ASSERT_U64(1, log_count(&f, EV_ERROR, 'r'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S30: what comes home may be the last. */
static int act_shut(struct probe *p, uvs_run_t *run) {
  (void)p;
  return uvs_shutdown(run->scheduler);
}

TEST a_shutdown_in_the_body_ends_it(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t r = fixture_once(&f, 'r', 0);
  r.done = NULL;
  probe_of(&r)->act = act_shut;
  CHECK_CALL(send_out(&f, &r));
  CHECK_CALL(home(&f));
  fixture_turn(&f);
  ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

TEST a_shutdown_before_waits_for_it_and_no_longer(void) {
  for (int now = 0; now < 2; now++) {
    struct fixture f;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    CHECK_CALL(send_any(&f));
    ASSERT(fakepool_step()); /* the body has returned, the runner is not home */
    ASSERT_RC(0, now ? uvs_shutdown_now(f.s, NULL, NULL) : uvs_shutdown(f.s));
    fixture_turn(&f);
    ASSERT_U64(0, log_count(&f, EV_TERMINATED, 0));
    ASSERT(fakepool_step());
    ASSERT_U64(0, log_count(&f, EV_TERMINATED, 0));
    fakepool_release();
    fixture_turn(&f);
    ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L2 */
TEST a_close_waits_for_it_and_no_longer(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  CHECK_CALL(send_any(&f));
  ASSERT(fakepool_step());
  ASSERT_RC(0, uvs_close(f.s, note_closed));
  fixture_turn(&f);
  ASSERT_U64(0, log_count(&f, EV_USER, 'c'));
  ASSERT(fakepool_step());
  ASSERT_U64(0, log_count(&f, EV_USER, 'c'));
  fakepool_release();
  f.s = NULL;
  fixture_turn_until_closed(&f);
  ASSERT_U64(1, log_count(&f, EV_USER, 'c'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* Somebody has closed our handles meanwhile, and then us, before the runner is home or after it:
 * there is no async to send to, and yet all callbacks come. */
TEST with_the_handles_lost_a_close_brings_all_callbacks(void) {
  for (int which = 0; which < 3; which++)
    for (int close_first = 0; close_first < 2; close_first++) {
      struct fixture f;
      struct found h;

      fixture_init(&f);
      CHECK_CALL(fixture_open_turned(&f));
      uvs_task_t r = fixture_once(&f, 'r', 0);
      r.after = probe_after;
      CHECK_CALL(send_out(&f, &r));
      h = find_handles(&f.loop, f.s);
      if (which != 1)
        uv_close(h.timer, NULL);
      if (which != 0)
        uv_close(h.async, NULL);
      ASSERT(fakepool_step());
      if (close_first)
        ASSERT_RC(0, uvs_close(f.s, note_closed));
      ASSERT(fakepool_step());
      ASSERT_U64(1, log_total(&f)); /* the body */
      fakepool_release();
      if (!close_first)
        ASSERT_RC(0, uvs_close(f.s, note_closed));
      f.s = NULL;
      fixture_turn_until_closed(&f);
      ASSERT_U64(1, log_count(&f, EV_AFTER, 'r'));
      ASSERT_U64(1, log_count(&f, EV_DONE, 'r'));
      ASSERT_U64(1, log_count(&f, EV_USER, 'c'));
      CHECK_CALL(fixture_close(&f));
    }
  PASS();
}

/* A decorate hook is the user's code, and wants to see what another thread sends in. */
static _Thread_local unsigned decorated, misplaced_decorations;

static void note_decoration(uvs_t *s, uvs_id_t id, uvs_decoration_t *d) {
  (void)s;
  (void)id;
  (void)d;
  decorated++;
  misplaced_decorations += fakepool_place() == IN_HOME || fakepool_place() == IN_TIMER;
}

static int act_submit(struct probe *p, uvs_run_t *run) {
  return uvs_submit(run->scheduler, p->data, NULL);
}

TEST a_decorate_hook_is_called_by_full_turns_only(void) {
  struct fixture f;

  decorated = misplaced_decorations = 0;
  fixture_init(&f);
  f.options.decorate = note_decoration;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t next = fixture_once(&f, 'n', UVS_MS(10));
  uvs_task_t r = fixture_once(&f, 'r', 0);
  r.done = NULL;
  probe_of(&r)->act = act_submit;
  probe_of(&r)->data = &next;
  CHECK_CALL(send_out(&f, &r));
  CHECK_CALL(home(&f));
  fixture_advance_ms(&f, 10);
  ASSERT_U64(1, log_count(&f, EV_DONE, 'n'));
  ASSERT_U64(2, decorated);
  ASSERT_U64(0, misplaced_decorations);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ---- asleep again ---- */

/* By the machine's clock. */
static enum greatest_test_res open_real_clock(struct fixture *f, enum fakepool_mode pool,
                                              int concurrency) {
  fixture_init(f);
  f->real_clock = true;
  f->pool = pool;
  f->options.concurrency = concurrency;
  CHECK_CALL(fixture_open_turned(f));
  PASS();
}

/* The user's callbacks by the timer: it is what wakes us here, and it makes none of them. */
TEST the_timer_calls_nothing_back(void) {
  struct fixture f;

  CHECK_CALL(open_real_clock(&f, FAKEPOOL_REAL, 2));
  f.s->missed_cb = logs_missed;
  uvs_task_t l = fixture_loop_task(&f, 'l', UVS_MS(3));
  uvs_task_t p = fixture_once(&f, 'p', UVS_MS(3));
  p.after = probe_after;
  uvs_task_t x = fixture_rate(&f, 'x', UVS_MS(2), UVS_US(50));
  x.missed = UVS_MISSED_SKIP;
  x.max_runs = 20;
  uvs_task_t e = fixture_loop_task(&f, 'e', UVS_MS(4));
  e.done = NULL;
  probe_of(&e)->ret = UV_EIO;
  ASSERT_RC(0, uvs_submit(f.s, &l, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &p, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &x, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &e, NULL));
  ASSERT(fixture_wait_log(&f, EV_DONE, 0, 3));
  ASSERT(fixture_wait_log(&f, EV_ERROR, 'e', 1));
  ASSERT(fakepool_seen().timer_fires > 0);
  ASSERT(log_count(&f, EV_USER, 'm') > 0);
  ASSERT_U64(IN_ASYNC, log_nth(&f, EV_AFTER, 'l', 0)->place);
  ASSERT_U64(IN_ASYNC, log_nth(&f, EV_AFTER, 'p', 0)->place);
  CHECK_CALL(fixture_close(&f)); /* looks at the place of all others */
  PASS();
}

/* What a light turn hands over has a limit: the timer is armed for that, though the queue is empty.
 * F5 */
TEST a_limit_that_begins_in_a_light_turn_is_kept(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(open_real_clock(&f, FAKEPOOL_STEPPED, 2));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  t.limit_ns = UVS_MS(20);
  probe_of(&t)->ret = UVS_PENDING;
  uvs_task_t r = fixture_once(&f, 'r', 0);
  r.done = NULL;
  probe_of(&r)->act = act_submit;
  probe_of(&r)->data = &t;
  CHECK_CALL(send_out(&f, &r));
  ASSERT(f.s->ticker.armed_ns == UVS__NEVER);
  CHECK_CALL(home(&f));
  ASSERT_U64(1, f.s->agenda.limits.count);
  ASSERT(f.s->ticker.armed_ns < UVS__NEVER);
  fixture_turn(&f);
  id = log_nth(&f, EV_WORK, 'a', 0)->id;
  ASSERT_RC(0, attach(&f, id, 'c', UVS_WHEN_SETTLED));
  ASSERT(fixture_wait_log(&f, EV_USER, 'c', 1));
  ASSERT_U64(1, counts_of(f.s).timed_out);
  ASSERT_RC(0, uvs_finish(f.s, id, 0));
  ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 1));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* A runner comes home when something has just become due. It is left to the timer, if that comes
 * within a ms; else it is handed over there. Either way it runs. */
TEST what_is_due_is_left_to_the_timer_for_a_ms(void) {
  for (int late = 0; late < 2; late++)
    for (int round = 0; round < 10; round++) {
      uint64_t due_ns;
      struct fixture f;

      CHECK_CALL(open_real_clock(&f, FAKEPOOL_STEPPED, 2));
      uvs_task_t p = fixture_once(&f, 'p', UVS_MS(2));
      uvs_task_t l = fixture_loop_task(&f, 'l', UVS_MS(2));
      ASSERT_RC(0, uvs_submit(f.s, &p, NULL));
      ASSERT_RC(0, uvs_submit(f.s, &l, NULL));
      due_ns = uv_hrtime() + (uint64_t)UVS_MS(2); /* both are, by then */
      CHECK_CALL(send_any(&f));
      while (uv_hrtime() < due_ns + (late ? UINT64_C(1000000) : 0)) {
      }
      CHECK_CALL(home(&f));
      if (late)
        ASSERT_U64(1, fakepool_pending());
      ASSERT(fixture_wait_log(&f, EV_DONE, 0, 2));
      ASSERT_U64(1, log_count(&f, EV_WORK, 'p'));
      ASSERT_U64(1, log_count(&f, EV_AFTER, 'l'));
      CHECK_CALL(fixture_close(&f));
    }
  PASS();
}

/* That somebody was held back counts no more when nothing is ready. */
TEST who_was_held_back_before_does_not_matter(void) {
  unsigned seen = 0;

  for (int round = 0; round < 1000 && seen < 3; round++) {
    uint64_t armed_ns;
    struct fixture f;

    CHECK_CALL(open_real_clock(&f, FAKEPOOL_STEPPED, 2));
    uvs_task_t p = fixture_once(&f, 'p', UVS_MS(2));
    ASSERT_RC(0, uvs_submit(f.s, &p, NULL));
    CHECK_CALL(send_any(&f));
    f.s->pool.held_back = true;
    armed_ns = f.s->ticker.armed_ns;
    while (uv_hrtime() < armed_ns) {
    }
    CHECK_CALL(home(&f));
    if (f.s->turn_ns < armed_ns + (uint64_t)UVS_MS(1)) { /* else it was too late for that */
      ASSERT_U64(0, fakepool_pending());
      seen++;
    }
    ASSERT(fixture_wait_log(&f, EV_DONE, 'p', 1));
    CHECK_CALL(fixture_close(&f));
  }
  ASSERT(seen > 0);
  PASS();
}

/* A task of the wall clock came in meanwhile: the timer is armed for a look at that. */
TEST a_wall_clock_task_that_comes_in_is_looked_at(void) {
  struct fixture f;

  CHECK_CALL(open_real_clock(&f, FAKEPOOL_STEPPED, 1));
  uvs_task_t w = fixture_once(&f, 'w', UVS_MS(1));
  w.from = UVS_FROM_WALL;
  w.delay_ns = (int64_t)uvs__clock_wall(&f.s->clock) + UVS_MS(20);
  uvs_task_t r = fixture_once(&f, 'r', 0);
  r.done = NULL;
  probe_of(&r)->act = act_submit;
  probe_of(&r)->data = &w;
  CHECK_CALL(send_out(&f, &r));
  ASSERT(f.s->ticker.armed_ns == UVS__NEVER);
  CHECK_CALL(home(&f));
  ASSERT_U64(1, f.s->agenda.wall.count);
  ASSERT(f.s->ticker.armed_ns < UVS__NEVER);
  ASSERT(fixture_wait_log(&f, EV_DONE, 'w', 1));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* So do runners that are held back: within a ms the loop looks whether one is missing. */
TEST runners_that_are_held_back_are_looked_for(void) {
  struct fixture f;

  CHECK_CALL(open_real_clock(&f, FAKEPOOL_STEPPED, 4));
  f.s->pool.home.brief = UVS__BRIEF_MANY;
  f.s->pool.home.starts = UVS__BRIEF_MANY;
  for (int i = 0; i < 3; i++) {
    uvs_task_t t = fixture_delay(&f, 'a' + i, 0, 1);

    t.max_runs = 2;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  fakepool_hold();
  fixture_turn(&f);
  ASSERT_U64(1, fakepool_pending());
  ASSERT(f.s->pool.held_back);
  ASSERT(f.s->ticker.armed_ns <= uv_hrtime() + (uint64_t)UVS_MS(1)); /* a full turn */
  ASSERT(fakepool_step());
  ASSERT_U64(3, log_count(&f, EV_WORK, 0));
  uvs__ticker_disarm(&f.s->ticker); /* as if it had fired, and found nobody held back any more */
  f.s->pool.home.brief = UVS__BRIEF_MANY;
  ASSERT(fakepool_step()); /* home: they are due again */
  ASSERT_U64(1, fakepool_pending());
  ASSERT(f.s->pool.held_back);
  ASSERT(f.s->ticker.armed_ns <= uv_hrtime() + (uint64_t)UVS_MS(1));
  fakepool_release();
  ASSERT(fixture_wait_log(&f, EV_DONE, 0, 3));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L15: they wait for each other, after many that were over at once. No time says when. */
static struct {
  _Atomic int inside;
  _Atomic int given_up;
  int all;
} barrier;

static int meet(uvs_run_t *run) {
  int64_t end_ns = (int64_t)uv_hrtime() + PATIENCE_NS;

  (void)run;
  atomic_fetch_add(&barrier.inside, 1);
  while (atomic_load(&barrier.inside) < barrier.all) {
    if ((int64_t)uv_hrtime() > end_ns) {
      atomic_store(&barrier.given_up, 1);
      break;
    }
    uv_sleep(0);
  }
  return 0;
}

static int meet_in_the_second_run(uvs_run_t *run) {
  return run->number == 1 ? 0 : meet(run);
}

/* The loop looks all the time, but only the scheduler's own timer and runners call it. */
static void turn_until(struct fixture *f, const _Atomic int *count, int n) {
  fakepool_pin();
  while (atomic_load(count) < n)
    uv_run(&f->loop, UV_RUN_NOWAIT);
  fakepool_unpin();
}

TEST bodies_that_wait_for_each_other_all_come_to_run(void) {
  for (int way = 0; way < 3; way++) { /* from the loop, from another thread, coming home */
    for (barrier.all = 2; barrier.all <= 4; barrier.all++) {
      static _Atomic int dones;
      struct fixture f;

      CHECK_CALL(open_real_clock(&f, FAKEPOOL_REAL, 4));
      atomic_store(&dones, 0);
      atomic_store(&barrier.inside, 0);
      atomic_store(&barrier.given_up, 0);
      uvs_task_t t;
      uvs_task_init(&t);
      t.work = work_nothing;
      t.done = done_counts;
      t.arg = (void *)&dones;
      for (int n = 1; n <= 3 * UVS__BRIEF_MANY; n++)
        ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
      turn_until(&f, &dones, 3 * UVS__BRIEF_MANY);
      uv_mutex_lock(&f.s->pool.lock);
      f.s->pool.home.brief = UVS__BRIEF_MANY; /* whatever the machine made of them */
      uv_mutex_unlock(&f.s->pool.lock);
      t.work = meet;
      if (way == 2) {
        t.work = meet_in_the_second_run;
        t.kind = UVS_DELAY;
        t.period_ns = 1;
        t.max_runs = 2;
      }
      atomic_store(&dones, 0);
      for (int n = 0; n < barrier.all; n++)
        ASSERT_RC(0, way == 1 ? submit_elsewhere(f.s, t, NULL) : uvs_submit(f.s, &t, NULL));
      turn_until(&f, &dones, barrier.all);
      ASSERT_U64(0, atomic_load(&barrier.given_up));
      CHECK_CALL(fixture_close(&f));
    }
  }
  PASS();
}

/* ---- how long the runs were ---- */

static int work_long(uvs_run_t *run) {
  uint64_t end_ns = uv_hrtime() + 2 * UVS__BRIEF_NS;

  (void)run;
  while (uv_hrtime() < end_ns) {
  }
  return 0;
}

TEST a_long_run_or_a_replaced_clock_is_not_brief(void) {
  for (int replaced = 0; replaced < 2; replaced++) {
    struct fixture f;

    fixture_init(&f);
    f.real_clock = !replaced;
    f.options.concurrency = 1;
    CHECK_CALL(fixture_open_turned(&f));
    f.s->pool.home.brief = UVS__BRIEF_MANY;
    uvs_task_t t = fixture_once(&f, 'a', 0);
    t.done = NULL;
    t.work = replaced ? work_nothing : work_long;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_turn(&f);
    ASSERT_U64(1, counts_of(f.s).completed);
    ASSERT_U64(0, f.s->pool.home.brief);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* ---- a runner too many ---- */

/* Another runner, played by the bodies: it has one from the first on, and starts something in the
 * fifth. */
static struct {
  uvs_t *s;
  int bodies;
  bool stuck;
  uint32_t usual_ns;
} crowd;

static int work_in_a_crowd(uvs_run_t *run) {
  struct uvs__crew *home = &crowd.s->pool.home;

  (void)run;
  uv_mutex_lock(&crowd.s->pool.lock);
  if (++crowd.bodies == 1)
    home->active++;
  if (crowd.bodies <= 5) {
    home->brief = UVS__BRIEF_MANY;
    home->usual_ns = 0;
  }
  if (crowd.bodies == 5 && !crowd.stuck)
    home->starts++;
  if (crowd.bodies == UVS__BRIEF_MANY + 6)
    crowd.usual_ns = home->usual_ns;
  uv_mutex_unlock(&crowd.s->pool.lock);
  return 0;
}

/* Returns how many bodies there were before it went home. */
static enum greatest_test_res play_crowd(bool stuck, int *ret_ran) {
  struct fixture f;

  CHECK_CALL(open_real_clock(&f, FAKEPOOL_STEPPED, 2));
  f.s->budget_ns = (uint64_t)UVS_SEC(1);
  crowd.s = f.s;
  crowd.bodies = 0;
  crowd.stuck = stuck;
  f.s->pool.home.brief = UVS__BRIEF_MANY;
  f.s->pool.home.starts = UVS__BRIEF_MANY;
  for (int i = 0; i < 100; i++)
    ASSERT_RC(0, uvs_execute(f.s, work_in_a_crowd, NULL));
  fakepool_hold();
  fixture_turn(&f);
  ASSERT_U64(1, fakepool_pending());
  ASSERT(fakepool_step());
  *ret_ran = crowd.bodies;
  uv_mutex_lock(&f.s->pool.lock);
  f.s->pool.home.active--;
  uv_mutex_unlock(&f.s->pool.lock);
  fakepool_release();
  fakepool_pin();
  while (crowd.bodies < 100)
    uv_run(&f.loop, UV_RUN_NOWAIT);
  fakepool_unpin();
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* It goes home if the other does without it. But not if that one is at something long, however
 * short its own are: L15. */
TEST a_runner_too_many_goes_home(void) {
  int ran = 0;

  for (int i = 0; i < 1000 && ran != 5; i++) /* until the machine does not hold up the fifth */
    CHECK_CALL(play_crowd(false, &ran));
  ASSERT_U64(5, ran);
  CHECK_CALL(play_crowd(true, &ran));
  ASSERT_U64(100, ran);
  ASSERT(crowd.usual_ns >= UVS__ALONE_NS);
  PASS();
}

static int work_a_us(uvs_run_t *run) {
  uint64_t end_ns = uv_hrtime() + 1000;

  (void)run;
  while (uv_hrtime() < end_ns) {
  }
  return 0;
}

/* A body of 1 us is long enough for others to help; of many one is timed. */
TEST how_long_bodies_take_is_known(void) {
  struct fixture f;

  CHECK_CALL(open_real_clock(&f, FAKEPOOL_STEPPED, 2));
  f.s->budget_ns = (uint64_t)UVS_SEC(1);
  ASSERT_U64(0, f.s->pool.home.usual_ns);
  for (int i = 0; i < 200; i++)
    ASSERT_RC(0, uvs_execute(f.s, work_a_us, NULL));
  fakepool_pin();
  while (counts_of(f.s).completed < 200)
    uv_run(&f.loop, UV_RUN_NOWAIT);
  fakepool_unpin();
  ASSERT(f.s->pool.home.usual_ns >= 700); /* 6 times, a quarter of each: 0.82 of it */
  ASSERT(!uvs__crew_alone(&f.s->pool.home));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ---- keep alive ---- */

/* L1: something is owed after the light turn, and the loop stays for it; then nothing is. */
TEST the_loop_stays_for_what_is_owed_and_no_longer(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t r = fixture_once(&f, 'r', 0);
  r.flags = UVS_UNREF; /* it is the callback that is owed */
  r.after = probe_after;
  CHECK_CALL(send_out(&f, &r));
  CHECK_CALL(home(&f));
  ASSERT(fixture_alive(&f));
  ASSERT(fixture_run(&f, UV_RUN_DEFAULT, NULL));
  ASSERT_U64(1, log_count(&f, EV_DONE, 'r'));
  ASSERT_FALSE(fixture_alive(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L1: plain tasks have nothing to call back; their runner brings the number home. */
TEST when_the_last_runner_is_home_the_loop_ends(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  CHECK_CALL(send_any(&f));
  ASSERT(fixture_alive(&f));
  CHECK_CALL(home(&f));
  ASSERT_FALSE(fixture_alive(&f));
  ASSERT_U64(0, live_tasks(f.s));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L1: asleep without a timer, the loop hears of a task that is never due, for it keeps it alive. */
TEST a_task_that_is_never_due_is_heard_of(void) {
  for (int real = 0; real < 2; real++) {
    struct fixture f;
    uvs_id_t id;

    fixture_init(&f);
    f.real_clock = real;
    CHECK_CALL(fixture_open_turned(&f));
    CHECK_CALL(send_any(&f));
    CHECK_CALL(home(&f));
    uvs_task_t t = fixture_once(&f, 'n', UVS_NEVER);
    ASSERT_RC(0, submit_elsewhere(f.s, t, &id));
    fixture_turn(&f);
    ASSERT(fixture_alive(&f));
    ASSERT_RC(UVS_NEVER_RUNS, cancel_elsewhere(f.s, id));
    ASSERT(fixture_run(&f, UV_RUN_DEFAULT, NULL));
    ASSERT_U64(1, log_count(&f, EV_DONE, 'n'));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L1 L9: all of it at once, on the real clock and pool: uv_run comes back when the last is over. */
TEST uv_run_returns_when_all_is_over(void) {
  for (int round = 0; round < 5; round++) {
    unsigned dones;
    struct fixture f;

    CHECK_CALL(open_real_clock(&f, FAKEPOOL_REAL, 3));
    for (int i = 0; i < 40; i++) {
      uvs_task_t t = i % 4 == 0   ? fixture_loop_task(&f, 'l', UVS_US(100 * i))
                     : i % 4 == 1 ? fixture_rate(&f, 'p', UVS_US(100 * i), UVS_US(70))
                                  : fixture_once(&f, 'o', UVS_US(90 * i));

      if (i % 4 == 1)
        t.max_runs = 5;
      if (i % 4 == 2)
        t.after = probe_after;
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    }
    ASSERT(fixture_run(&f, UV_RUN_DEFAULT, &dones));
    ASSERT_U64(40, dones);
    ASSERT_U64(0, live_tasks(f.s));
    ASSERT_FALSE(fixture_alive(&f));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* ---- L9 ---- */

static unsigned pass;

static int logs_pass(uvs_run_t *run) {
  struct probe *p = run->arg;

  log_add(p->f, EV_AFTER, p->tag, run->id, (int)pass);
  return 0;
}

/* L9: with many periods to catch up, run after run on the pool, `after` by `after` on the loop. */
TEST in_one_pass_no_after_comes_twice(void) {
  static const uv_run_mode modes[] = {UV_RUN_NOWAIT, UV_RUN_ONCE, UV_RUN_DEFAULT};

  for (int i = 0; i < 3; i++)
    for (int pool = FAKEPOOL_REAL; pool <= FAKEPOOL_STEPPED; pool++) {
      uv_prepare_t counter;
      struct fixture f;

      fixture_init(&f);
      f.pool = (enum fakepool_mode)pool;
      f.options.concurrency = 2;
      CHECK_CALL(fixture_open_turned(&f));
      uv_prepare_init(&f.loop, &counter);
      uv_prepare_start(&counter, count_turn);
      uv_unref((uv_handle_t *)&counter);
      counter.data = &pass;
      pass = 0;
      for (int k = 0; k < 4; k++) {
        uvs_task_t t = fixture_rate(&f, 'a' + k, VCLOCK_START_NS - UVS_MS(900), UVS_MS(1));

        t.from = UVS_FROM_MONOTONIC; /* 900 points are past */
        t.after = logs_pass;
        t.max_runs = 30;
        t.max_burst = 1000;
        ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
      }
      for (uint64_t until_ns = uv_hrtime() + (uint64_t)UVS_SEC(60);
           log_count(&f, EV_DONE, 0) < 4 && uv_hrtime() < until_ns;)
        uv_run(&f.loop, modes[i]);
      ASSERT_U64(4, log_count(&f, EV_DONE, 0));
      for (int k = 0; k < 4; k++) {
        ASSERT_U64(30, log_count(&f, EV_AFTER, 'a' + k));
        for (unsigned n = 1; n < 30; n++)
          ASSERT(log_nth(&f, EV_AFTER, 'a' + k, n)->status >
                 log_nth(&f, EV_AFTER, 'a' + k, n - 1)->status);
      }
      uv_close((uv_handle_t *)&counter, NULL);
      CHECK_CALL(fixture_close(&f));
    }
  PASS();
}

/* ---- the budget ---- */

/* A clock that goes on by 1 us with each look, so that a loop of any kind sees time pass. */
static struct {
  _Atomic int64_t now_ns;
  _Atomic unsigned looks;
} ticking;

static int64_t tick_on(void *arg) {
  (void)arg;
  atomic_fetch_add(&ticking.looks, 1);
  return atomic_fetch_add(&ticking.now_ns, 1000) + 1000;
}

static int64_t wall_of_ticking(void *arg) {
  (void)arg;
  return VCLOCK_WALL_NS;
}

static _Atomic unsigned ran;

static int work_counts(uvs_run_t *run) {
  (void)run;
  atomic_fetch_add_explicit(&ran, 1, memory_order_relaxed);
  return 0;
}

/* L7 */
TEST a_light_turn_ends_with_its_budget_and_is_carried_on(void) {
  enum { N = 100000 };
  struct fixture f;
  uint64_t sends;
  unsigned looks;

  atomic_store(&ticking.now_ns, VCLOCK_START_NS);
  atomic_store(&ran, 0);
  fixture_init(&f);
  f.options.clock = (uvs_clock_t){tick_on, wall_of_ticking, NULL};
  f.options.budget_ns = UVS_US(100);
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t;
  uvs_task_init(&t);
  t.work = work_counts;
  t.delay_ns = UVS_SEC(10);
  for (int i = 0; i < N; i++)
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  CHECK_CALL(send_any(&f));
  ASSERT(fakepool_step());
  atomic_fetch_add(&ticking.now_ns, UVS_SEC(20));
  sends = fakepool_seen().async_sends;
  looks = atomic_load(&ticking.looks);
  ASSERT(fakepool_step()); /* home */
  looks = atomic_load(&ticking.looks) - looks;
  ASSERT(looks >= 100 && looks < 110); /* so many us */
  uvs_counts_t c = counts_of(f.s);
  ASSERT(c.ready > 64 && c.ready < N / 2);
  ASSERT_U64(N, c.ready + c.waiting);
  ASSERT(fakepool_seen().async_sends > sends); /* it goes on */
  ASSERT(fixture_alive(&f));
  fakepool_release();
  while (atomic_load(&ran) < N && !f.overrun)
    fixture_turn(&f);
  ASSERT_U64(N, atomic_load(&ran));
  c = counts_of(f.s);
  ASSERT(adds_up(&c));
  ASSERT_U64(N + 1, c.completed);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(what_a_light_turn_finds) {
  RUN_TEST(after_and_done_follow);
  RUN_TEST(what_is_due_by_then_starts);
  RUN_TEST(without_runners_it_is_the_loops);
  RUN_TEST(other_crews_are_called_by_a_full_turn);
  RUN_TEST(a_limit_that_has_passed_is_seen);
  RUN_TEST(values_of_a_queue_are_handed_out);
  RUN_TEST(the_hooks_hear_of_missed_points);
  RUN_TEST(a_task_whose_end_time_has_come_is_done);
  RUN_TEST(a_lane_ends);
  RUN_TEST(a_clean_up_of_the_body_is_called);
  RUN_TEST(the_error_hook_hears_of_a_failure);
  RUN_TEST(a_shutdown_in_the_body_ends_it);
  RUN_TEST(a_shutdown_before_waits_for_it_and_no_longer);
  RUN_TEST(a_close_waits_for_it_and_no_longer);
  RUN_TEST(with_the_handles_lost_a_close_brings_all_callbacks);
  RUN_TEST(a_decorate_hook_is_called_by_full_turns_only);
}

SUITE(asleep_again) {
  RUN_TEST(the_timer_calls_nothing_back);
  RUN_TEST(a_limit_that_begins_in_a_light_turn_is_kept);
  RUN_TEST(what_is_due_is_left_to_the_timer_for_a_ms);
  RUN_TEST(who_was_held_back_before_does_not_matter);
  RUN_TEST(a_wall_clock_task_that_comes_in_is_looked_at);
  RUN_TEST(runners_that_are_held_back_are_looked_for);
  RUN_TEST(bodies_that_wait_for_each_other_all_come_to_run);
  RUN_TEST(a_long_run_or_a_replaced_clock_is_not_brief);
  RUN_TEST(a_runner_too_many_goes_home);
  RUN_TEST(how_long_bodies_take_is_known);
}

SUITE(the_loop) {
  RUN_TEST(the_loop_stays_for_what_is_owed_and_no_longer);
  RUN_TEST(when_the_last_runner_is_home_the_loop_ends);
  RUN_TEST(a_task_that_is_never_due_is_heard_of);
  RUN_TEST(uv_run_returns_when_all_is_over);
  RUN_TEST(in_one_pass_no_after_comes_twice);
  RUN_TEST(a_light_turn_ends_with_its_budget_and_is_carried_on);
}

TEST_MAIN(RUN_SUITE(what_a_light_turn_finds); RUN_SUITE(asleep_again); RUN_SUITE(the_loop));
