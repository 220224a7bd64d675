/* SPDX-License-Identifier: MIT
 *
 * `interrupt`: the callback on the loop when a running body is asked to stop, so that a body that
 * blocks can be made to return, and a pending run be finished.
 */
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "lib/bodies.h"
#include "lib/lanes.h"
#include "lib/threads.h"

/* ------------------------------------------------------------- ways to ask --- */

enum way { CANCEL_TOKEN, LIMIT, SHUTDOWN_NOW, GRACE_IS_OVER, CLOSE, DISPOSE_TOKEN, WAYS };

static const char *const name_of_way[WAYS] = {
    "cancel with token", "time limit", "shutdown now",
    "the grace is over", "close",      "lane disposed with token"};

static uvs_lane_t the_lane; /* of the test */

static int do_cancel_token(void *probe) {
  struct probe *p = probe;

  return uvs_cancel(p->f->s, p->id, UVS_CANCEL_TOKEN);
}

static int do_dispose(void *flags) {
  return uvs_lane_dispose(the_lane, *(unsigned *)flags);
}

/* Asks the body of p->id to stop. away: from another thread, where that is allowed. The time limit
 * and the grace pass on the virtual clock; the loop does not know yet. */
static int ask(struct probe *p, int way, bool away) {
  unsigned token = UVS_DISPOSE_TOKEN;
  uvs_t *s = p->f->s;
  int rc;

  switch (way) {
  case CANCEL_TOKEN:
    return away ? elsewhere(do_cancel_token, p) : do_cancel_token(p);
  case LIMIT:
    vclock_advance_ns(&p->f->clock, UVS_MS(10));
    return uvs_clock_changed(s); /* that wakes the loop */
  case SHUTDOWN_NOW:
    return away ? elsewhere(do_shutdown_now_quietly, s) : uvs_shutdown_now(s, NULL, NULL);
  case GRACE_IS_OVER:
    rc = uvs_shutdown_within(s, UVS_MS(10));
    vclock_advance_ns(&p->f->clock, UVS_MS(10));
    return rc;
  case CLOSE:
    return uvs_close(s, note_closed);
  case DISPOSE_TOKEN:
    return away ? elsewhere(do_dispose, &token) : do_dispose(&token);
  default:
    return UV_EINVAL;
  }
}

/* ------------------------------------------------------------- what is asked --- */

static int on_interrupt_rc; /* what the call inside `interrupt` answered */

/* Logs EV_USER 'i'. The status says which scheduler it was given. */
static struct probe *note(uvs_t *s, uvs_id_t id, void *arg) {
  struct probe *p = arg;

  log_add(p->f, EV_USER, 'i', id, s == p->f->s ? 0 : s == NULL ? UV_ENOENT : UV_EINVAL);
  return p;
}

static void only_notes(uvs_t *s, uvs_id_t id, void *arg) {
  note(s, id, arg);
}

/* For a run that is pending. */
static void finishes(uvs_t *s, uvs_id_t id, void *arg) {
  note(s, id, arg);
  on_interrupt_rc = uvs_finish(s, id, UV_ECANCELED);
}

/* For a body that blocks: hold_act. */
static void opens(uvs_t *s, uvs_id_t id, void *arg) {
  struct hold *h = note(s, id, arg)->data;

  atomic_store(&h->open, 1);
}

static int act_pending(struct probe *p, uvs_run_t *run) {
  (void)p;
  (void)run;
  return UVS_PENDING;
}

static enum greatest_test_res open_fixture(struct fixture *f, bool real, int concurrency) {
  fixture_init(f);
  if (real)
    f->pool = FAKEPOOL_REAL;
  f->options.concurrency = concurrency;
  CHECK_CALL(fixture_open_turned(f));
  the_lane = 0;
  on_interrupt_rc = INT_MAX;
  PASS();
}

static uvs_task_t pending_task(struct fixture *f, int tag, uvs_interrupt_cb interrupt) {
  uvs_task_t t = fixture_once(f, tag, 0);

  probe_of(&t)->act = act_pending;
  t.interrupt = interrupt;
  return t;
}

/* Submits it, and its body returns UVS_PENDING. */
static enum greatest_test_res submit_pending(struct fixture *f, const uvs_task_t *t) {
  struct probe *p = probe_of(t);

  ASSERT_RC(0, uvs_submit(f->s, t, &p->id));
  fixture_turn(f);
  ASSERT_RC(UVS_RUNNING, state_of(f->s, p->id));
  ASSERT_U64(0, log_count(f, EV_USER, 'i'));
  PASS();
}

static unsigned interrupts(struct fixture *f) {
  return log_count(f, EV_USER, 'i');
}

/* `interrupt` was called once for this task, on the loop, before everything that ends the run. */
static enum greatest_test_res interrupted_once(struct fixture *f, const struct probe *p) {
  const struct event *i = log_nth(f, EV_USER, 'i', 0);

  ASSERT_U64(1, interrupts(f));
  ASSERT(i->on_loop);
  ASSERT_U64(p->id, i->id);
  ASSERT_RC(0, i->status);
  ASSERT(i > log_nth(f, EV_WORK, p->tag, 0));
  if (log_count(f, EV_AFTER, p->tag) > 0)
    ASSERT(i < log_nth(f, EV_AFTER, p->tag, 0));
  if (log_count(f, EV_DONE, p->tag) > 0)
    ASSERT(i < log_nth(f, EV_DONE, p->tag, 0));
  PASS();
}

/* -------------------------------------------------------------- every way --- */

static enum greatest_test_res pending_once(int way, int concurrency, bool away, bool after,
                                           bool has_done) {
  struct fixture f;

  CHECK_CALL(open_fixture(&f, false, concurrency));
  uvs_task_t t = pending_task(&f, 'a', finishes);
  struct probe *p = probe_of(&t);
  if (way == DISPOSE_TOKEN) {
    CHECK_CALL(open_lane(&f, 1, &the_lane));
    t.lane = the_lane;
  }
  t.limit.run_ns = way == LIMIT ? UVS_MS(10) : 0;
  t.after = after ? probe_after : NULL;
  t.done = has_done ? t.done : NULL;
  CHECK_CALL(submit_pending(&f, &t));
  ASSERT(ask(p, way, away) >= 0);
  ASSERT_U64(0, interrupts(&f)); /* never from inside the call */
  if (way == CLOSE)
    fixture_turn_until_closed(&f);
  else
    fixture_turn(&f);
  CHECK_CALL(interrupted_once(&f, p));
  ASSERT_RC(0, on_interrupt_rc);
  ASSERT_U64(after, log_count(&f, EV_AFTER, 'a'));
  ASSERT_U64(has_done, log_count(&f, EV_DONE, 'a'));
  if (has_done)
    ASSERT_RC(way == LIMIT ? UV_ETIMEDOUT : UV_ECANCELED, done_status(&f, 'a'));
  if (way == CLOSE)
    f.s = NULL;
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L23 L14 */
TEST a_pending_run_is_finished_from_interrupt_whatever_asked_it_to_stop(void) {
  for (int way = 0; way < WAYS; way++) {
    for (int i = 0; i < 2 * 2 * 2 * 2; i++) {
      if (pending_once(way, i % 2, i / 2 % 2 != 0, i / 4 % 2 != 0, i / 8 != 0) !=
          GREATEST_TEST_RES_PASS) {
        printf("%s: concurrency %d, away %d, after %d, done %d\n", name_of_way[way], i % 2,
               i / 2 % 2, i / 4 % 2, i / 8);
        FAILm(name_of_way[way]);
      }
    }
  }
  PASS();
}

static enum greatest_test_res held_once(int way, bool away, bool after) {
  static struct hold h;
  static struct fixture f;

  CHECK_CALL(open_fixture(&f, true, 1));
  uvs_task_t t = held_task(&f, 'a', &h);
  struct probe *p = probe_of(&t);
  t.keep_outcome = 0;
  t.interrupt = opens;
  h.ret = UV_ECANCELED;
  if (way == DISPOSE_TOKEN) {
    CHECK_CALL(open_lane(&f, 1, &the_lane));
    t.lane = the_lane;
  }
  t.limit.run_ns = way == LIMIT ? UVS_MS(10) : 0;
  t.after = after ? probe_after : NULL;
  ASSERT_RC(0, uvs_submit(f.s, &t, &p->id));
  ASSERT(fixture_wait_flag(&f, &h.inside));
  ASSERT(ask(p, way, away) >= 0);
  fixture_turn(&f); /* the clock is virtual, so no timer wakes the loop */
  if (way == CLOSE)
    ASSERT(fixture_wait_closed(&f));
  else
    ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 1));
  CHECK_CALL(interrupted_once(&f, p));
  ASSERT_RC(1, atomic_load(&h.saw_token));
  ASSERT_U64(after, log_count(&f, EV_AFTER, 'a'));
  ASSERT_RC(way == LIMIT ? UV_ETIMEDOUT : UV_ECANCELED, done_status(&f, 'a'));
  if (way == CLOSE)
    f.s = NULL;
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L23: this body returns for nothing else. */
TEST a_blocked_body_returns_by_interrupt_whatever_asked_it_to_stop(void) {
  for (int way = 0; way < WAYS; way++) {
    for (int i = 0; i < 2 * 2; i++) {
      if (held_once(way, i % 2 != 0, i / 2 != 0) != GREATEST_TEST_RES_PASS) {
        printf("%s: away %d, after %d\n", name_of_way[way], i % 2, i / 2);
        FAILm(name_of_way[way]);
      }
    }
  }
  PASS();
}

/* L23: a shutdown looks at all tasks, a batch at a time. */
TEST every_running_task_with_interrupt_is_interrupted_by_a_shutdown(void) {
  enum { TASKS = 200 };
  struct fixture f;

  CHECK_CALL(open_fixture(&f, false, 4));
  for (int i = 0; i < TASKS; i++) {
    uvs_task_t t = pending_task(&f, 'a', i % 4 == 0 ? NULL : finishes);
    ASSERT_RC(0, uvs_submit(f.s, &t, &probe_of(&t)->id));
  }
  fixture_turn(&f);
  ASSERT_U64(TASKS, counts_of(f.s).running);
  ASSERT_RC(0, uvs_shutdown_now(f.s, NULL, NULL));
  fixture_turn(&f);
  ASSERT_U64(TASKS / 4 * 3, interrupts(&f));
  ASSERT_U64(TASKS / 4 * 3, log_count(&f, EV_DONE, 'a'));
  for (int i = 0; i < TASKS; i += 4)
    ASSERT_RC(0, uvs_finish(f.s, f.probes[i].id, 0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L23 L1: the call that is owed keeps the loop alive, also for a task that does not. */
TEST an_unrefd_task_is_interrupted_before_the_loop_ends(void) {
  struct fixture f;

  CHECK_CALL(open_fixture(&f, false, 1));
  uvs_task_t t = pending_task(&f, 'a', finishes);
  t.flags = UVS_UNREF;
  CHECK_CALL(submit_pending(&f, &t));
  ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, ask(probe_of(&t), CANCEL_TOKEN, true));
  ASSERT(fixture_run(&f, UV_RUN_DEFAULT, NULL));
  CHECK_CALL(interrupted_once(&f, probe_of(&t)));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ---------------------------------------------------------- how often, and when not --- */

/* L23 */
TEST a_run_is_interrupted_once_however_often_it_is_asked(void) {
  struct fixture f;

  CHECK_CALL(open_fixture(&f, false, 1));
  CHECK_CALL(open_lane(&f, 1, &the_lane));
  uvs_task_t t = pending_task(&f, 'a', only_notes);
  struct probe *p = probe_of(&t);
  t.lane = the_lane;
  t.limit.run_ns = UVS_MS(10);
  CHECK_CALL(submit_pending(&f, &t));
  ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, ask(p, CANCEL_TOKEN, false));
  ASSERT_RC(UVS_CANCELLED_BEFORE, ask(p, CANCEL_TOKEN, false));
  fixture_turn(&f);
  ASSERT_U64(1, interrupts(&f));
  ASSERT_RC(UVS_CANCELLED_BEFORE, ask(p, CANCEL_TOKEN, true));
  fixture_turn(&f);
  fixture_advance_ms(&f, 20); /* the time limit */
  ASSERT_RC(0, ask(p, DISPOSE_TOKEN, false));
  fixture_turn(&f);
  ASSERT_RC(0, ask(p, SHUTDOWN_NOW, false));
  fixture_turn(&f);
  ASSERT_U64(1, interrupts(&f));
  ASSERT_U64(0, log_count(&f, EV_DONE, 'a'));
  ASSERT_RC(0, uvs_finish(f.s, p->id, 0));
  fixture_turn(&f);
  CHECK_CALL(interrupted_once(&f, p));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* Asks its own task to stop, and returns what `ret` says. */
static int act_asks_itself(struct probe *p, uvs_run_t *run) {
  p->id = run->id;
  if (ask(p, *(int *)p->data, true) < 0 || !uvs_cancelled(run))
    return UV_EIO;
  return p->ret;
}

/* L23: on a runner, while the loop waits for it, and on the loop. */
TEST a_body_that_returns_before_the_loop_comes_is_not_interrupted(void) {
  for (int way = 0; way < WAYS; way++) {
    for (int i = 0; i < 2 * 2; i++) {
      struct fixture f;

      if (way == CLOSE)
        continue; /* not from a runner */
      CHECK_CALL(open_fixture(&f, false, i % 2));
      CHECK_CALL(open_lane(&f, 1, &the_lane));
      uvs_task_t t = fixture_once(&f, 'a', 0);
      probe_of(&t)->act = act_asks_itself;
      probe_of(&t)->data = &way;
      probe_of(&t)->ret = UV_ECANCELED;
      t.interrupt = only_notes;
      t.after = i / 2 == 0 ? NULL : probe_after;
      t.lane = the_lane;
      t.limit.run_ns = way == LIMIT ? UVS_MS(10) : 0;
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
      fixture_turn(&f);
      ASSERT_RC(way == LIMIT ? UV_ETIMEDOUT : UV_ECANCELED, done_status(&f, 'a'));
      ASSERT_U64(0, interrupts(&f));
      CHECK_CALL(fixture_close(&f));
    }
  }
  PASS();
}

static int act_asks_and_finishes(struct probe *p, uvs_run_t *run) {
  p->id = run->id;
  return ask(p, CANCEL_TOKEN, true) < 0 || uvs_finish(p->f->s, run->id, 0) < 0 ? UV_EIO
                                                                               : UVS_PENDING;
}

/* L23 L14 */
TEST a_pending_run_that_is_finished_before_the_loop_comes_is_not_interrupted(void) {
  for (int i = 0; i < 2 * 2; i++) {
    bool inside = i % 2 == 0; /* the body finishes its run itself */
    struct fixture f;

    CHECK_CALL(open_fixture(&f, false, 1));
    uvs_task_t t = pending_task(&f, 'a', only_notes);
    struct probe *p = probe_of(&t);
    t.after = i / 2 == 0 ? NULL : probe_after;
    if (inside) {
      p->act = act_asks_and_finishes;
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    } else {
      CHECK_CALL(submit_pending(&f, &t));
      ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, ask(p, CANCEL_TOKEN, false));
      ASSERT_RC(0, uvs_finish(f.s, p->id, 0));
    }
    fixture_turn(&f);
    ASSERT_RC(UV_ECANCELED, done_status(&f, 'a'));
    ASSERT_U64(i / 2, log_count(&f, EV_AFTER, 'a'));
    ASSERT_U64(0, interrupts(&f));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static int after_asks(uvs_run_t *run) {
  struct probe *p = run->arg;

  log_run(p->f, EV_AFTER, p->tag, run);
  return uvs_cancel(p->f->s, run->id, UVS_CANCEL_TOKEN) == UVS_CANCELLED_WHILE_RUNNING ? 0 : UV_EIO;
}

/* L23 */
TEST an_after_is_not_interrupted(void) {
  struct fixture f;

  CHECK_CALL(open_fixture(&f, false, 1));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  t.interrupt = only_notes;
  t.after = after_asks;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  ASSERT_RC(UV_ECANCELED, done_status(&f, 'a'));
  ASSERT_U64(0, interrupts(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L23: the outcome is decided, but nothing asks the body; or something asks another body. */
TEST a_body_that_is_not_asked_to_stop_is_not_interrupted(void) {
  unsigned no_token = 0;
  uvs_lane_t other;
  struct fixture f;

  CHECK_CALL(open_fixture(&f, false, 2));
  CHECK_CALL(open_lane(&f, 1, &other));
  CHECK_CALL(open_lane(&f, 1, &the_lane));
  uvs_task_t a = pending_task(&f, 'a', only_notes), b = pending_task(&f, 'b', only_notes);
  a.lane = the_lane;
  CHECK_CALL(submit_pending(&f, &a));
  CHECK_CALL(submit_pending(&f, &b));
  ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, uvs_cancel(f.s, probe_of(&b)->id, 0));
  ASSERT_RC(UV_EBUSY, uvs_cancel(f.s, probe_of(&a)->id, UVS_CANCEL_TOKEN | UVS_CANCEL_IF_WAITING));
  ASSERT_RC(0, do_dispose(&no_token));
  ASSERT_RC(0, uvs_lane_dispose(other, UVS_DISPOSE_TOKEN));
  ASSERT_RC(0, uvs_shutdown_within(f.s, UVS_MS(10)));
  fixture_advance_ns(&f, UVS_MS(10) - 1);
  ASSERT_U64(0, interrupts(&f));
  fixture_advance_ns(&f, 1);
  ASSERT_U64(2, interrupts(&f));
  ASSERT_RC(0, uvs_finish(f.s, probe_of(&a)->id, 0));
  ASSERT_RC(0, uvs_finish(f.s, probe_of(&b)->id, 0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L23 L19: a program that was compiled before the field existed. */
TEST a_smaller_spec_has_no_interrupt(void) {
  struct fixture f;

  CHECK_CALL(open_fixture(&f, false, 1));
  uvs_task_t t = pending_task(&f, 'a', only_notes);
  t.size = offsetof(uvs_task_t, interrupt);
  CHECK_CALL(submit_pending(&f, &t));
  ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, ask(probe_of(&t), CANCEL_TOKEN, false));
  fixture_turn(&f);
  ASSERT_U64(0, interrupts(&f));
  ASSERT_RC(0, uvs_finish(f.s, probe_of(&t)->id, 0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ------------------------------------------------------------------ periods --- */

/* L23 F5: runs 1 and 3 pass the limit, which does not end the task. Run 2 is not asked. */
TEST each_run_of_a_periodic_task_can_be_interrupted(void) {
  for (int i = 0; i < 2 * 2 * 2; i++) {
    bool after = i / 2 % 2 != 0, waits = i / 4 != 0;
    struct fixture f;

    CHECK_CALL(open_fixture(&f, false, 1));
    uvs_task_t t =
        i % 2 == 0 ? fixture_rate(&f, 'a', 0, UVS_MS(100)) : fixture_delay(&f, 'a', 0, UVS_MS(100));
    t.interrupt = waits ? only_notes : finishes;
    t.after = after ? probe_after : NULL;
    t.failure_policy = UVS_FAIL_CONTINUE;
    t.limit.run_ns = UVS_MS(10);
    follow_script(&t, "p.ps");
    ASSERT_RC(0, uvs_submit(f.s, &t, &probe_of(&t)->id));
    for (unsigned n = 1; n <= 2; n++) {
      ASSERT_U64(n - 1, interrupts(&f));
      fixture_advance_ns(&f, UVS_MS(10));
      ASSERT_U64(n, interrupts(&f));
      ASSERT(log_nth(&f, EV_USER, 'i', n - 1) > log_nth(&f, EV_WORK, 'a', 2 * n - 2));
      if (waits)
        ASSERT_RC(0, uvs_finish(f.s, probe_of(&t)->id, 0));
      else
        ASSERT_RC(0, on_interrupt_rc);
      fixture_advance_ms(&f, 90);
      if (i % 2 != 0) /* the delay counts from the end of the run */
        fixture_advance_ms(&f, 10);
      ASSERT_U64(2 * n, log_count(&f, EV_WORK, 'a'));
      if (n == 1)
        fixture_advance_ms(&f, 100);
    }
    ASSERT_U64(2, interrupts(&f));
    ASSERT_U64(after ? 4 : 0, log_count(&f, EV_AFTER, 'a'));
    ASSERT_RC(0, done_status(&f, 'a'));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L23 */
TEST each_retry_can_be_interrupted(void) {
  struct fixture f;

  CHECK_CALL(open_fixture(&f, false, 1));
  uvs_task_t t = retried(fixture_once(&f, 'a', 0), UVS_MS(1), "p");
  t.interrupt = finishes;
  t.max_failures = 3;
  t.limit.run_ns = UVS_MS(10);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ms(&f, 100);
  ASSERT_U64(3, interrupts(&f));
  ASSERT_RC(UV_ETIMEDOUT, done_status(&f, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* -------------------------------------------------------------------- lanes --- */

/* L23 R22 */
TEST a_lane_that_is_disposed_again_with_the_token_interrupts_its_bodies(void) {
  unsigned no_token = 0;
  struct fixture f;

  CHECK_CALL(open_fixture(&f, false, 1));
  CHECK_CALL(open_lane(&f, 1, &the_lane));
  uvs_task_t t = pending_task(&f, 'a', finishes);
  t.lane = the_lane;
  CHECK_CALL(submit_pending(&f, &t));
  ASSERT_RC(0, do_dispose(&no_token));
  fixture_turn(&f);
  ASSERT_U64(0, interrupts(&f));
  ASSERT_RC(0, ask(probe_of(&t), DISPOSE_TOKEN, true));
  fixture_turn(&f);
  CHECK_CALL(interrupted_once(&f, probe_of(&t)));
  ASSERT_RC(UV_ECANCELED, done_status(&f, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int act_disposes_own_lane(struct probe *p, uvs_run_t *run) {
  (void)p;
  (void)run;
  return uvs_lane_dispose(the_lane, UVS_DISPOSE_TOKEN) < 0 ? UV_EIO : UVS_PENDING;
}

/* L23 R22 */
TEST a_body_that_disposes_its_own_lane_is_not_interrupted(void) {
  struct fixture f;

  CHECK_CALL(open_fixture(&f, false, 2));
  CHECK_CALL(open_lane(&f, 2, &the_lane));
  uvs_task_t b = pending_task(&f, 'b', finishes), a = pending_task(&f, 'a', only_notes);
  a.lane = b.lane = the_lane;
  probe_of(&a)->act = act_disposes_own_lane;
  CHECK_CALL(submit_pending(&f, &b));
  ASSERT_RC(0, uvs_submit(f.s, &a, &probe_of(&a)->id));
  fixture_turn(&f);
  CHECK_CALL(interrupted_once(&f, probe_of(&b)));
  ASSERT_RC(UVS_RUNNING, state_of(f.s, probe_of(&a)->id));
  ASSERT_RC(UVS_CANCELLED_BEFORE, ask(probe_of(&a), CANCEL_TOKEN, false)); /* that asks it */
  fixture_turn(&f);
  ASSERT_U64(2, interrupts(&f));
  ASSERT_RC(0, uvs_finish(f.s, probe_of(&a)->id, 0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L23 */
TEST interrupt_of_a_task_submitted_through_its_lane_does_not_see_the_scheduler(void) {
  struct fixture f;

  CHECK_CALL(open_fixture(&f, false, 1));
  CHECK_CALL(open_lane(&f, 1, &the_lane));
  uvs_task_t t = pending_task(&f, 'a', only_notes);
  struct probe *p = probe_of(&t);
  ASSERT_RC(0, uvs_lane_submit(the_lane, &t, &p->id));
  fixture_turn(&f);
  ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, ask(p, CANCEL_TOKEN, false));
  fixture_turn(&f);
  ASSERT_U64(1, interrupts(&f));
  ASSERT_U64(p->id, log_nth(&f, EV_USER, 'i', 0)->id);
  ASSERT_RC(UV_ENOENT, log_nth(&f, EV_USER, 'i', 0)->status); /* NULL */
  ASSERT_RC(0, uvs_finish(f.s, p->id, 0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ---------------------------------------------------------------- other threads --- */

static int do_submit_held(void *task) {
  const uvs_task_t *t = task;
  struct probe *p = probe_of(t);

  return uvs_submit(p->f->s, t, &p->id);
}

/* L23 S17 */
TEST a_body_on_its_submitters_thread_is_interrupted(void) {
  static struct fixture f;
  static struct hold h;
  static uvs_task_t t;
  struct errand e = {do_submit_held, &t, 0};
  uv_thread_t thread;

  fixture_init(&f);
  f.options.concurrency = 1;
  f.options.max_pending = 1;
  f.options.rejection_policy = UVS_REJECT_CALLER_RUNS;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t far = fixture_once(&f, 'f', UVS_DAY(1));
  ASSERT_RC(0, uvs_submit(f.s, &far, NULL));
  t = held_task(&f, 'a', &h);
  t.keep_outcome = 0;
  t.interrupt = opens;
  ASSERT_RC(0, uv_thread_create(&thread, errand_main, &e));
  ASSERT(await_flag(&h.inside));
  ASSERT_RC(0, uvs_shutdown_now(f.s, NULL, NULL));
  fixture_turn(&f);
  ASSERT_RC(0, uv_thread_join(&thread));
  ASSERT_RC(0, e.rc);
  fixture_turn(&f);
  CHECK_CALL(interrupted_once(&f, probe_of(&t)));
  ASSERT_RC(UVS_ON_CALLER, log_nth(&f, EV_WORK, 'a', 0)->runner);
  ASSERT_RC(0, done_status(&f, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ------------------------------------------------------------------ the outcome --- */

static int look(uvs_t *s, uvs_id_t id, unsigned flags, uvs_outcome_t *o) {
  uvs_outcome_init(o);
  return uvs_wait(s, id, 0, flags, o);
}

static struct { int settled, quiet, again; } seen;

static void finishes_and_looks(uvs_t *s, uvs_id_t id, void *arg) {
  uvs_outcome_t o;

  finishes(s, id, arg);
  seen.again = uvs_finish(s, id, 0);
  seen.settled = look(s, id, UVS_WAIT_SETTLED, &o);
  seen.quiet = look(s, id, 0, &o);
}

/* L23 F1: a wait returns when `interrupt` has returned. So its thread may free what both use. */
TEST a_task_is_quiet_only_after_interrupt_has_returned(void) {
  for (int way = CANCEL_TOKEN; way <= LIMIT; way++) {
    struct fixture f;
    uvs_outcome_t o;

    CHECK_CALL(open_fixture(&f, false, 1));
    uvs_task_t t = pending_task(&f, 'a', finishes_and_looks);
    struct probe *p = probe_of(&t);
    t.keep_outcome = 1;
    t.done = NULL;
    t.limit.run_ns = way == LIMIT ? UVS_MS(10) : 0;
    CHECK_CALL(submit_pending(&f, &t));
    ASSERT_RC(UV_ETIMEDOUT, look(f.s, p->id, UVS_WAIT_SETTLED, &o));
    ASSERT(ask(p, way, false) >= 0);
    fixture_turn(&f);
    CHECK_CALL(interrupted_once(&f, p));
    ASSERT_RC(0, on_interrupt_rc);
    ASSERT_RC(UV_ENOENT, seen.again);
    ASSERT_RC(0, seen.settled);
    ASSERT_RC(UV_ETIMEDOUT, seen.quiet); /* not yet */
    ASSERT_RC(0, look(f.s, p->id, 0, &o));
    ASSERT_RC(UVS_ENDED, o.state);
    ASSERT_RC(way == LIMIT ? UV_ETIMEDOUT : UV_ECANCELED, o.status);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* -------------------------------------------------------- calls from inside --- */

static int inner_way;

static void asks(uvs_t *s, uvs_id_t id, void *arg) {
  struct probe *p = note(s, id, arg);

  on_interrupt_rc = ask(p, inner_way, false);
  if (uvs_finish(s, id, 0) < 0)
    on_interrupt_rc = UV_EIO;
}

/* L23: the request is a time limit that does not end the task, and `interrupt` makes another. */
TEST interrupt_may_ask_in_any_way(void) {
  for (inner_way = 0; inner_way < WAYS; inner_way++) {
    struct fixture f;

    CHECK_CALL(open_fixture(&f, false, 1));
    CHECK_CALL(open_lane(&f, 1, &the_lane));
    uvs_task_t t = pending_task(&f, 'a', asks);
    struct probe *p = probe_of(&t);
    t.kind = UVS_FIXED_DELAY;
    t.period_ns = UVS_MS(100);
    t.failure_policy = UVS_FAIL_CONTINUE;
    t.limit.run_ns = UVS_MS(10);
    t.lane = the_lane;
    CHECK_CALL(submit_pending(&f, &t));
    ASSERT_RC(0, ask(p, LIMIT, false));
    if (inner_way == CLOSE)
      fixture_turn_until_closed(&f);
    else
      fixture_turn(&f);
    CHECK_CALL(interrupted_once(&f, p));
    ASSERT_RC(inner_way == CANCEL_TOKEN ? UVS_CANCELLED_WHILE_RUNNING : 0, on_interrupt_rc);
    if (inner_way != LIMIT) {
      ASSERT_RC(UV_ECANCELED, done_status(&f, 'a'));
    } else {
      ASSERT_RC(UVS_WAITING, state_of(f.s, p->id)); /* it goes on */
      ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, p->id, 0));
    }
    if (inner_way == CLOSE)
      f.s = NULL;
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* --------------------------------------------------------------------- decorate --- */

static struct {
  uvs_work_cb work;
  void *arg;
} wrapped;

static int run_wrapped(uvs_run_t *run) {
  uvs_run_t inner = *run;

  inner.arg = wrapped.arg;
  return wrapped.work(&inner);
}

static void wrap(uvs_t *s, uvs_id_t id, uvs_decoration_t *d) {
  (void)s;
  (void)id;
  wrapped.work = d->work;
  wrapped.arg = d->arg;
  d->work = run_wrapped;
  d->arg = &wrapped;
}

/* L23 S60 */
TEST interrupt_of_a_decorated_task_gets_the_arg_of_the_spec(void) {
  struct fixture f;

  fixture_init(&f);
  f.options.concurrency = 1;
  f.hooks.decorate = wrap;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = pending_task(&f, 'a', finishes);
  CHECK_CALL(submit_pending(&f, &t));
  ASSERT_EQ((void *)probe_of(&t), wrapped.arg);
  ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, ask(probe_of(&t), CANCEL_TOKEN, false));
  fixture_turn(&f);
  CHECK_CALL(interrupted_once(&f, probe_of(&t)));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ----------------------------------------------------------------- a real call --- */

static struct {
  int pipe[2]; /* read end, write end */
  _Atomic int inside;
} line;

static int act_reads(struct probe *p, uvs_run_t *run) {
  char byte = 0;

  (void)p;
  atomic_store(&line.inside, 1);
  if (read(line.pipe[0], &byte, 1) != 1) /* no time-out: only a byte ends it */
    return UV_EIO;
  return byte == 's' && uvs_cancelled(run) ? UV_ECANCELED : UV_EIO;
}

static void writes(uvs_t *s, uvs_id_t id, void *arg) {
  note(s, id, arg);
  on_interrupt_rc = (int)write(line.pipe[1], "s", 1);
}

/* L23 */
TEST a_body_that_blocks_in_read_returns_when_interrupt_writes(void) {
  static struct fixture f;

  CHECK_CALL(open_fixture(&f, true, 1));
  ASSERT_RC(0, pipe(line.pipe));
  atomic_store(&line.inside, 0);
  uvs_task_t t = fixture_once(&f, 'a', 0);
  struct probe *p = probe_of(&t);
  p->act = act_reads;
  t.interrupt = writes;
  ASSERT_RC(0, uvs_submit(f.s, &t, &p->id));
  ASSERT(fixture_wait_flag(&f, &line.inside));
  ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, ask(p, CANCEL_TOKEN, true));
  ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 1));
  CHECK_CALL(interrupted_once(&f, p));
  ASSERT_RC(1, on_interrupt_rc);
  ASSERT_RC(UV_ECANCELED, done_status(&f, 'a'));
  ASSERT_U64(0, counts_of(f.s).failed_runs);
  CHECK_CALL(fixture_close(&f));
  close(line.pipe[0]);
  close(line.pipe[1]);
  PASS();
}

SUITE(called) {
  RUN_TEST(a_pending_run_is_finished_from_interrupt_whatever_asked_it_to_stop);
  RUN_TEST(a_blocked_body_returns_by_interrupt_whatever_asked_it_to_stop);
  RUN_TEST(every_running_task_with_interrupt_is_interrupted_by_a_shutdown);
  RUN_TEST(an_unrefd_task_is_interrupted_before_the_loop_ends);
  RUN_TEST(a_body_on_its_submitters_thread_is_interrupted);
  RUN_TEST(a_body_that_blocks_in_read_returns_when_interrupt_writes);
}

SUITE(how_often) {
  RUN_TEST(a_run_is_interrupted_once_however_often_it_is_asked);
  RUN_TEST(a_body_that_returns_before_the_loop_comes_is_not_interrupted);
  RUN_TEST(a_pending_run_that_is_finished_before_the_loop_comes_is_not_interrupted);
  RUN_TEST(an_after_is_not_interrupted);
  RUN_TEST(a_body_that_is_not_asked_to_stop_is_not_interrupted);
  RUN_TEST(a_smaller_spec_has_no_interrupt);
  RUN_TEST(each_run_of_a_periodic_task_can_be_interrupted);
  RUN_TEST(each_retry_can_be_interrupted);
}

SUITE(around_it) {
  RUN_TEST(a_lane_that_is_disposed_again_with_the_token_interrupts_its_bodies);
  RUN_TEST(a_body_that_disposes_its_own_lane_is_not_interrupted);
  RUN_TEST(interrupt_of_a_task_submitted_through_its_lane_does_not_see_the_scheduler);
  RUN_TEST(a_task_is_quiet_only_after_interrupt_has_returned);
  RUN_TEST(interrupt_may_ask_in_any_way);
  RUN_TEST(interrupt_of_a_decorated_task_gets_the_arg_of_the_spec);
}

TEST_MAIN(RUN_SUITE(called); RUN_SUITE(how_often); RUN_SUITE(around_it));
