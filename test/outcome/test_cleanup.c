/* SPDX-License-Identifier: MIT
 *
 * Clean-up actions of tasks: when they are called, in which order, and that each is called once.
 * Actions of lanes, and actions at the end of the scheduler, are in test_cleanup_end.c.
 */
#include "lib/cleanups.h"
#include "lib/full.h"
#include "lib/limited.h"

/* ------------------------------------------------------------------ order --- */

/* The parts of the task. */
enum { WITH_DONE = 1, WITH_AFTER = 2, WITH_NAME = 4, KEPT = 8, SHAPES = 16, LOOP_TASK = SHAPES };

static uvs_task_t shaped(struct fixture *f, int shape, int64_t delay_ns) {
  uvs_task_t t =
      shape == LOOP_TASK ? fixture_loop_task(f, 'a', delay_ns) : fixture_once(f, 'a', delay_ns);

  if (shape == LOOP_TASK)
    return t;
  if ((shape & WITH_DONE) == 0)
    t.done = NULL;
  if ((shape & WITH_AFTER) != 0)
    t.after = probe_after;
  if ((shape & WITH_NAME) != 0)
    t.name = "cold";
  t.keep_outcome = (shape & KEPT) != 0;
  return t;
}

/* The expected callbacks of a task that has run, or has not. */
static const char *expected(int shape, bool ran) {
  static char text[16];
  const char *done = (shape & WITH_DONE) != 0 || shape == LOOP_TASK ? "a" : "";

  snprintf(text, sizeof text, "%s%sxyz%s", ran ? "a" : "",
           ran && shape != LOOP_TASK && (shape & WITH_AFTER) != 0 ? "a" : "", done);
  return text;
}

/* R33. Found by the model: uvs_next_due ignored an action that another thread had attached. */
TEST next_due_is_now_while_a_clean_up_is_to_be_called(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    struct fixture f;
    uvs_id_t id;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = fixture_once(&f, 'a', 0);
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_turn(&f); /* over */
    ASSERT_I64(-1, fixture_next_ms(&f));
    ASSERT_RC(0, off_loop ? attach_elsewhere(&f, id, 'x', 0) : attach(&f, id, 'x', 0));
    ASSERT_I64(fixture_now_ms(&f), fixture_next_ms(&f));
    fixture_turn(&f);
    ASSERT_U64(1, log_count(&f, EV_USER, 'x'));
    ASSERT_I64(-1, fixture_next_ms(&f));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

enum end { SUCCESS, FAILURE, CANCEL_WAITING, CANCEL_READY, CANCEL_ELSEWHERE, SHUTDOWN_NOW, ENDS };

static enum greatest_test_res end_one(int shape, enum end end, int concurrency) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  f.options.concurrency = concurrency;
  f.options.on_error = NULL;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = shaped(&f, shape, end == CANCEL_WAITING ? UVS_DAY(1) : 0);
  probe_of(&t)->ret = end == FAILURE ? UV_EIO : 0;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  if (end == CANCEL_READY) {
    fakepool_hold();
    fixture_turn(&f);
  }
  ASSERT_RC(0, attach(&f, id, 'x', 0));
  ASSERT_RC(0, attach(&f, id, 'y', UVS_CLEANUP_WHEN_SETTLED)); /* settled and quiet: one instant */
  ASSERT_RC(0, attach_elsewhere(&f, id, 'z', 0));
  if (end == CANCEL_ELSEWHERE)
    ASSERT_RC(UVS_CANCELLED, cancel_elsewhere(f.s, id));
  else if (end == CANCEL_WAITING || end == CANCEL_READY)
    ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, 0));
  if (end == SHUTDOWN_NOW)
    ASSERT_RC(0, uvs_shutdown_now(f.s, NULL, NULL));
  ASSERT_U64(0, log_count(&f, EV_USER, 0)); /* nothing from inside a call */
  if (end == CANCEL_READY)
    fakepool_release();
  fixture_turn(&f);
  ASSERT_RC(uvs_is_shutdown(f.s), uvs_is_terminated(f.s));
  if (end == SHUTDOWN_NOW) /* it may be before the end of the scheduler, and after it */
    ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
  ASSERT_STR_EQ(expected(shape, end <= FAILURE), without(&f, EV_TERMINATED));
  ASSERT(all_on_loop(&f, EV_USER));
  CHECK_CALL(nothing_attached(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* R32 F12b F7 */
TEST clean_ups_are_called_once_in_order_before_done_however_the_task_ends(void) {
  for (int shape = 0; shape <= SHAPES; shape++) {
    for (int end = 0; end < ENDS; end++) {
      for (int concurrency = 0; concurrency < 3; concurrency += 2) {
        bool is_ready_to_cancel = concurrency > 0 && shape != LOOP_TASK;
        enum greatest_test_res res;

        if (end == CANCEL_READY && !is_ready_to_cancel)
          continue;
        res = end_one(shape, (enum end)end, concurrency);
        if (res != GREATEST_TEST_RES_PASS) {
          fprintf(stderr, "shape %d, end %d, concurrency %d\n", shape, end, concurrency);
          return res;
        }
      }
    }
  }
  PASS();
}

/* R32 F12b */
TEST the_wrappers_end_hook_is_called_after_the_clean_ups(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  f.hooks.decorate = logs_over;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(0, attach(&f, id, 'x', 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("axao", log_string(&f, (enum event_kind)0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* R32 S39 */
TEST clean_ups_of_a_periodic_task_are_called_at_its_end_not_after_each_run(void) {
  struct fixture f;
  uvs_id_t counted, stopped, failed, cancelled, retried;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t a = fixture_rate(&f, 'a', 0, UVS_MS(10));
  a.max_runs = 3;
  uvs_task_t b = fixture_delay(&f, 'b', 0, UVS_MS(10));
  probe_of(&b)->ret = UVS_STOP;
  probe_of(&b)->ret_from = 4;
  uvs_task_t c = fixture_rate(&f, 'c', 0, UVS_MS(10));
  probe_of(&c)->ret = UV_EIO;
  probe_of(&c)->ret_from = 2;
  uvs_task_t d = fixture_rate(&f, 'd', 0, UVS_MS(10));
  d.after = probe_after;
  uvs_task_t e = fixture_once(&f, 'e', 0);
  follow_script(&e, "xx.");
  e.failure_policy = UVS_FAIL_RETRY;
  e.retry.wait_ns = UVS_MS(1);
  ASSERT_RC(0, uvs_submit(f.s, &a, &counted));
  ASSERT_RC(0, uvs_submit(f.s, &b, &stopped));
  ASSERT_RC(0, uvs_submit(f.s, &c, &failed));
  ASSERT_RC(0, uvs_submit(f.s, &d, &cancelled));
  ASSERT_RC(0, uvs_submit(f.s, &e, &retried));
  ASSERT_RC(0, attach(&f, counted, 'A', 0));
  ASSERT_RC(0, attach(&f, stopped, 'B', UVS_CLEANUP_WHEN_SETTLED));
  ASSERT_RC(0, attach(&f, failed, 'C', 0));
  ASSERT_RC(0, attach(&f, cancelled, 'D', 0));
  ASSERT_RC(0, attach(&f, cancelled, 'F', UVS_CLEANUP_WHEN_SETTLED));
  ASSERT_RC(0, attach(&f, retried, 'E', 0));
  fixture_advance_ms(&f, 2);
  ASSERT_STR_EQ("", log_string(&f, EV_USER));
  fixture_advance_ms(&f, 1);
  ASSERT_STR_EQ("E", log_string(&f, EV_USER));
  fixture_advance_ms(&f, 7);
  ASSERT_STR_EQ("EC", log_string(&f, EV_USER));
  fixture_advance_ms(&f, 10);
  ASSERT_STR_EQ("ECA", log_string(&f, EV_USER));
  fixture_advance_ms(&f, 10);
  ASSERT_STR_EQ("ECAB", log_string(&f, EV_USER));
  fixture_advance_ms(&f, 70);
  ASSERT_U64(11, log_count(&f, EV_WORK, 'd'));
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, cancelled, 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("ECABDF", log_string(&f, EV_USER));
  ASSERT_STR_EQ("ecabd", log_string(&f, EV_DONE));
  CHECK_CALL(nothing_attached(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* R32: also if the clock is not read in between. */
TEST a_timed_out_run_that_does_not_end_the_task_calls_no_clean_up(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = limited(&f, 'a', LATE_DEFAULT);
  t.failure_policy = UVS_FAIL_RETRY;
  t.retry.wait_ns = UVS_MS(1);
  follow_script(&t, "p.");
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(0, attach(&f, id, 'x', UVS_CLEANUP_WHEN_SETTLED));
  fixture_advance_ms(&f, LIMIT_MS);
  ASSERT_STR_EQ("", log_string(&f, EV_USER));
  ASSERT_RC(0, uvs_finish(f.s, id, 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("", log_string(&f, EV_USER));
  fixture_advance_ms(&f, 1);
  ASSERT_STR_EQ("aaaxa", log_string(&f, (enum event_kind)0)); /* the hook heard of the first */
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L14 R32 */
TEST a_pending_run_calls_no_clean_up(void) {
  for (int with_after = 0; with_after < 2; with_after++) {
    for (int light = 0; light < 2; light++) {
      struct fixture f;
      uvs_id_t id;

      fixture_init(&f);
      CHECK_CALL(fixture_open_turned(&f));
      uvs_task_t t = fixture_once(&f, 'a', 0);
      probe_of(&t)->ret = UVS_PENDING;
      t.after = with_after ? probe_after : NULL;
      t.done = light ? NULL : probe_done;
      ASSERT_RC(0, uvs_submit(f.s, &t, &id));
      fixture_turn(&f);
      ASSERT_RC(0, attach(&f, id, 'x', 0));
      ASSERT_RC(0, attach(&f, id, 'y', UVS_CLEANUP_WHEN_SETTLED));
      fixture_turn(&f);
      ASSERT_STR_EQ("a", log_string(&f, (enum event_kind)0));
      ASSERT_RC(0, uvs_finish(f.s, id, 0));
      fixture_turn(&f);
      ASSERT_STR_EQ(with_after ? light ? "aaxy" : "aaxya"
                    : light    ? "axy"
                               : "axya",
                    log_string(&f, (enum event_kind)0));
      CHECK_CALL(fixture_close(&f));
    }
  }
  PASS();
}

/* R32 */
TEST ten_thousand_clean_ups_of_one_task_are_called_in_order(void) {
  enum { MANY = 10000 };
  static struct numbered n[MANY];
  struct fixture f;
  uvs_id_t id;
  long bytes;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(1));
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(0, attach(&f, id, 'x', 0)); /* from here on there is room for lists */
  bytes = atomic_load(&f.fault.live_bytes);
  numbered_restart();
  for (int i = 0; i < MANY; i++) {
    n[i] = (struct numbered){i, 0, 0};
    ASSERT_RC(0,
              uvs_add_cleanup(f.s, id, count_up, &n[i], i % 3 == 0 ? UVS_CLEANUP_WHEN_SETTLED : 0));
  }
  fixture_advance_ms(&f, 1);
  for (int i = 0; i < MANY; i++) {
    ASSERT_RC(1, n[i].calls);
    ASSERT_RC(i, n[i].place);
  }
  ASSERT_STR_EQ("axa", log_string(&f, (enum event_kind)0));
  ASSERT(atomic_load(&f.fault.live_bytes) < bytes);
  CHECK_CALL(nothing_attached(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ---------------------------------------------------------------- settled --- */

/* R24 F12 F12b: the body blocks on a thread of libuv's pool. */
TEST a_task_cancelled_during_its_run_is_settled_at_once_and_quiet_later(void) {
  for (int how = 0; how < 4; how++) {
    static struct fixture f;
    bool token = (how & 1) != 0;
    bool off_loop = (how & 2) != 0;
    uvs_id_t id;

    gate_init(false);
    fixture_init(&f);
    f.pool = FAKEPOOL_REAL;
    f.options.concurrency = 2;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = fixture_once(&f, 'a', 0);
    probe_of(&t)->act = gate_pass;
    t.after = probe_after;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    ASSERT_RC(0, attach(&f, id, 'p', 0));
    ASSERT_RC(0, attach(&f, id, 'x', UVS_CLEANUP_WHEN_SETTLED));
    ASSERT_RC(0, attach(&f, id, 'q', 0));
    ASSERT_RC(0, attach(&f, id, 'y', UVS_CLEANUP_WHEN_SETTLED));
    ASSERT(gate_wait(&f, 1));
    fixture_turn(&f);
    ASSERT_STR_EQ("", log_string(&f, EV_USER));
    if (off_loop)
      ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, cancel_elsewhere(f.s, id));
    else
      ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, uvs_cancel(f.s, id, token ? UVS_CANCEL_TOKEN : 0));
    ASSERT_STR_EQ("", log_string(&f, EV_USER));
    ASSERT(fixture_wait_log(&f, EV_USER, 0, 2));
    ASSERT_STR_EQ("xy", log_string(&f, EV_USER));
    ASSERT_RC(1, gate_inside());
    /* R24: an action attached late with the flag is called at once, too; one without the flag is
     * not. */
    ASSERT_RC(0, attach(&f, id, 'z', UVS_CLEANUP_WHEN_SETTLED));
    ASSERT_RC(0, attach_elsewhere(&f, id, 'r', 0));
    ASSERT_RC(0, attach_elsewhere(&f, id, 'w', UVS_CLEANUP_WHEN_SETTLED));
    ASSERT(fixture_wait_log(&f, EV_USER, 0, 4));
    ASSERT_RC(UVS_CANCELLED_BEFORE, uvs_cancel(f.s, id, 0)); /* R19: settled once */
    fixture_turn(&f);
    ASSERT_STR_EQ("xyzw", log_string(&f, EV_USER));
    ASSERT_RC(1, gate_inside());
    gate_let(1);
    ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 1));
    ASSERT_STR_EQ("axyzwapqra", log_string(&f, (enum event_kind)0));
    ASSERT(all_on_loop(&f, EV_USER));
    CHECK_CALL(nothing_attached(&f));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static int act_cancels_itself(struct probe *p, uvs_run_t *run) {
  return uvs_cancel(p->f->s, run->id, 0) == UVS_CANCELLED_WHILE_RUNNING ? 0 : UV_EPROTO;
}

static int act_cancels_itself_and_attaches(struct probe *p, uvs_run_t *run) {
  int rc = act_cancels_itself(p, run);

  attach(p->f, run->id, 'z', UVS_CLEANUP_WHEN_SETTLED);
  attach(p->f, run->id, 'q', 0);
  return rc;
}

/* F12b R24: the run may end before the loop pass in which the early actions would be called. Then
 * they are called at the end, each once. */
TEST no_clean_up_is_called_after_done_even_if_the_run_ends_quickly(void) {
  for (int concurrency = 0; concurrency < 2; concurrency++) {
    for (int late = 0; late < 2; late++) {
      for (int with_after = 0; with_after < 2; with_after++) {
        struct fixture f;
        uvs_id_t id;

        fixture_init(&f);
        f.options.concurrency = concurrency;
        CHECK_CALL(fixture_open_turned(&f));
        uvs_task_t t = fixture_once(&f, 'a', UVS_MS(1));
        t.after = with_after ? probe_after : NULL;
        probe_of(&t)->act = late ? act_cancels_itself_and_attaches : act_cancels_itself;
        ASSERT_RC(0, uvs_submit(f.s, &t, &id));
        ASSERT_RC(0, attach(&f, id, 'p', 0));
        ASSERT_RC(0, attach(&f, id, 'x', UVS_CLEANUP_WHEN_SETTLED));
        ASSERT_RC(0, attach(&f, id, 'y', UVS_CLEANUP_WHEN_SETTLED));
        fixture_advance_ms(&f, 1);
        ASSERT_U64(late ? 5 : 3, log_count(&f, EV_USER, 0));
        ASSERT_RC('a', last_tag(&f));
        ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 0)->status);
        CHECK_CALL(nothing_attached(&f));
        CHECK_CALL(fixture_close(&f));
      }
    }
  }
  PASS();
}

/* F5 F12b R24: the last run times out, and its body goes on. */
TEST a_timed_out_task_is_quiet_when_its_body_returns(void) {
  for (int how = 0; how < LATE_HOWS; how++) {
    struct fixture f;
    uvs_id_t id;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = limited(&f, 'a', how);
    probe_of(&t)->ret = UVS_PENDING;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    ASSERT_RC(0, attach(&f, id, 'p', 0));
    ASSERT_RC(0, attach(&f, id, 'x', UVS_CLEANUP_WHEN_SETTLED));
    fixture_advance_ms(&f, LIMIT_MS - 1);
    ASSERT_STR_EQ("a", log_string(&f, (enum event_kind)0));
    fixture_advance_ms(&f, 1);
    ASSERT_STR_EQ("ax", log_string(&f, (enum event_kind)0));
    ASSERT_RC(UVS_RUNNING, state_of(f.s, id));
    ASSERT_RC(0, attach_elsewhere(&f, id, 'y', UVS_CLEANUP_WHEN_SETTLED));
    ASSERT_RC(0, attach(&f, id, 'q', 0));
    fixture_turn(&f);
    ASSERT_STR_EQ("axy", log_string(&f, (enum event_kind)0));
    ASSERT_RC(0, uvs_finish(f.s, id, 0));
    fixture_turn(&f);
    ASSERT_STR_EQ("axypqa", log_string(&f, (enum event_kind)0));
    ASSERT_RC(late_status(how), log_nth(&f, EV_DONE, 'a', 0)->status);
    CHECK_CALL(nothing_attached(&f));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* F5: the same on libuv's pool, where the body does not notice the time-out. */
TEST when_a_blocked_body_times_out_the_clean_ups_are_called_on_the_loop(void) {
  static struct fixture f;
  uvs_id_t id;

  gate_init(false);
  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = limited(&f, 'a', LATE_DEFAULT);
  probe_of(&t)->act = gate_pass;
  t.done = NULL;
  t.keep_outcome = 0;
  t.result = NULL;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(0, attach(&f, id, 'p', 0));
  ASSERT_RC(0, attach(&f, id, 'x', UVS_CLEANUP_WHEN_SETTLED));
  ASSERT(gate_wait(&f, 1));
  fixture_jump_ms(&f, LIMIT_MS);
  ASSERT(fixture_wait_log(&f, EV_USER, 'x', 1));
  ASSERT_RC(1, gate_inside());
  ASSERT_U64(0, log_count(&f, EV_USER, 'p'));
  gate_let(1);
  ASSERT(fixture_wait_log(&f, EV_USER, 'p', 1));
  ASSERT(all_on_loop(&f, EV_USER));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* F5: the task never started. */
TEST a_time_out_before_the_start_calls_the_clean_ups(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = limited(&f, 'a', LATE_DEFAULT);
  fakepool_hold();
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(0, attach(&f, id, 'x', UVS_CLEANUP_WHEN_SETTLED));
  ASSERT_RC(0, attach(&f, id, 'y', 0));
  fixture_advance_ms(&f, LIMIT_MS);
  ASSERT_STR_EQ("xya", log_string(&f, (enum event_kind)0));
  fakepool_release();
  fixture_turn(&f);
  ASSERT_STR_EQ("xya", log_string(&f, (enum event_kind)0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ------------------------------------------------------------ from where --- */

static int act_attaches(struct probe *p, uvs_run_t *run) {
  p->ret = attach(p->f, run->id, 'x', 0);
  return p->ret;
}

static int after_attaches(uvs_run_t *run) {
  struct probe *p = run->arg;

  log_run(p->f, EV_AFTER, p->tag, run);
  return attach(p->f, run->id, 'y', 0);
}

static void done_attaches(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct probe *p = arg;

  probe_done(s, id, status, arg);
  p->ret = attach(p->f, id, 'z', 0);
  p->after_ret = attach(p->f, id, 'w', UVS_CLEANUP_WHEN_SETTLED);
}

/* R32 R33: for a detached task as for any other. */
TEST clean_ups_can_be_attached_in_the_body_in_after_and_in_done(void) {
  for (int concurrency = 0; concurrency < 2; concurrency++) {
    struct fixture f;

    fixture_init(&f);
    f.options.concurrency = concurrency;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t light = fixture_once(&f, 'a', 0);
    light.done = NULL;
    probe_of(&light)->act = act_attaches;
    ASSERT_RC(0, uvs_submit(f.s, &light, NULL));
    fixture_turn(&f);
    ASSERT_STR_EQ("ax", log_string(&f, (enum event_kind)0));
    log_clear(&f);
    uvs_task_t all = fixture_once(&f, 'b', 0);
    probe_of(&all)->act = act_attaches;
    all.after = after_attaches;
    all.done = done_attaches;
    ASSERT_RC(0, uvs_submit(f.s, &all, NULL));
    fixture_turn(&f);
    ASSERT_STR_EQ("bbxybzw", log_string(&f, (enum event_kind)0));
    ASSERT_RC(0, probe_of(&all)->ret);
    ASSERT_RC(0, probe_of(&all)->after_ret);
    ASSERT(all_on_loop(&f, EV_USER));
    CHECK_CALL(nothing_attached(&f));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static int act_attaches_next(struct probe *p, uvs_run_t *run) {
  (void)run;
  if (p->tag < 'e')
    p->ret = attach_acting(p->f, p->id, p->tag + 1, 0, act_attaches_next);
  return 0;
}

/* R32 R33: to the task that is just ending, and to a task that has ended. */
TEST clean_ups_can_be_attached_in_a_clean_up(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'x', 0);
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(0, attach_acting(&f, id, 'b', 0, act_attaches_next));
  ASSERT_RC(0, attach(&f, id, 'z', 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("xbzcdex", log_string(&f, (enum event_kind)0));
  log_clear(&f);
  ASSERT_RC(0, attach_acting(&f, id, 'a', 0, act_attaches_next));
  fixture_turn(&f);
  ASSERT_STR_EQ("abcde", log_string(&f, (enum event_kind)0));
  CHECK_CALL(nothing_attached(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int do_cancel(void *arg) {
  const struct attaching *a = arg;

  return uvs_cancel(a->f->s, a->id, a->flags);
}

/* R33 L16: the end of a task without callbacks does not wake the loop. Attaching an action does. */
TEST attaching_to_a_task_cancelled_on_another_thread_wakes_the_loop(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_SEC(1)), other = fixture_once(&f, 'b', UVS_SEC(2));
  struct attaching a = {&f, 0, 'a', 0};
  t.done = NULL;
  ASSERT_RC(0, uvs_submit(f.s, &t, &a.id));
  ASSERT_RC(0, uvs_submit(f.s, &other, NULL));
  fixture_turn(&f);
  ASSERT_RC(UVS_CANCELLED, elsewhere(do_cancel, &a));
  fixture_turn(&f);
  ASSERT_RC(0, attach_elsewhere(&f, a.id, 'x', 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("x", log_string(&f, EV_USER));
  CHECK_CALL(nothing_attached(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L16b S59 */
TEST a_waiting_task_that_is_cancelled_without_done_is_freed_before_the_call_returns(void) {
  for (int way = 0; way < 4; way++) {
    bool off_loop = way % 2 != 0, periodic = way >= 2;

    for (int shape = 0; shape <= LOOP_TASK; shape++) {
      struct fixture f;
      struct attaching a = {&f, 0, 'a', UVS_CANCEL_NO_DONE};

      fixture_init(&f);
      CHECK_CALL(fixture_open_turned(&f));
      uvs_task_t t = shaped(&f, shape, UVS_SEC(1)), other = fixture_once(&f, 'b', UVS_SEC(2));
      t.kind = periodic ? UVS_FIXED_RATE : UVS_ONE_SHOT;
      t.period_ns = periodic ? UVS_SEC(1) : 0;
      ASSERT_RC(0, uvs_submit(f.s, &t, &a.id));
      ASSERT_RC(0, uvs_submit(f.s, &other, NULL));
      fixture_turn(&f);
      fakepool_forget();
      ASSERT_RC(UVS_CANCELLED, off_loop ? elsewhere(do_cancel, &a) : do_cancel(&a));
      ASSERT_U64(0, fakepool_seen().async_sends);
      if (t.keep_outcome != 0)
        ASSERT_RC(0, uvs_forget(f.s, a.id));
      ASSERT_U64(1, inspect_records(f.s));
      ASSERT_RC(UV_ENOENT, do_cancel(&a));
      ASSERT_U64(1, counts_of(f.s).cancelled);
      fixture_advance_ms(&f, 1500);
      ASSERT_U64(0, log_total(&f));
      CHECK_CALL(fixture_close(&f));
    }
  }
  PASS();
}

/* L16b: the other callbacks of its end come. The last task keeps the loop alive until then. */
TEST a_cancel_without_done_calls_the_clean_ups(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_SEC(1));
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(0, attach(&f, id, 'x', 0));
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, UVS_CANCEL_NO_DONE));
  ASSERT(fixture_alive(&f));
  fixture_turn(&f);
  ASSERT_STR_EQ("x", log_string(&f, (enum event_kind)0));
  ASSERT_U64(0, inspect_records(f.s));
  ASSERT_FALSE(fixture_alive(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L16b F12b */
TEST a_running_task_that_is_cancelled_without_done_still_gets_its_done(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  probe_of(&t)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_turn(&f);
  ASSERT_RC(UV_EBUSY, uvs_cancel(f.s, id, UVS_CANCEL_NO_DONE | UVS_CANCEL_IF_WAITING));
  ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, uvs_cancel(f.s, id, UVS_CANCEL_NO_DONE));
  ASSERT_RC(UVS_CANCELLED_BEFORE, uvs_cancel(f.s, id, UVS_CANCEL_NO_DONE));
  ASSERT_RC(0, uvs_finish(f.s, id, 0));
  fixture_turn(&f);
  ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
  ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 0)->status);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L7; and the loop stays alive for the remaining actions. */
TEST many_clean_ups_do_not_hold_the_loop_longer_than_the_budget(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_turn(&f);
  inspect_set_budget_ns(f.s, 0); /* used up at once: at most one in each pass */
  for (int i = 0; i < 20; i++)
    ASSERT_RC(0, attach(&f, id, 'x', 0));
  for (unsigned turns = 1, called = 0; called < 20; turns++) {
    ASSERT(turns <= 100);
    uv_run(&f.loop, UV_RUN_NOWAIT);
    ASSERT(log_count(&f, EV_USER, 'x') <= called + 1);
    called = log_count(&f, EV_USER, 'x');
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int act_attaches_again(struct probe *p, uvs_run_t *run) {
  (void)run;
  return p->ret++ < 5000 ? uvs_add_cleanup(p->f->s, p->id, note, p, 0) : 0;
}

/* R33 L7: an action that is attached during the calls waits for the next loop pass, so an action
 * that attaches itself again and again does not block the loop. */
TEST a_clean_up_that_attaches_itself_again_does_not_starve_the_loop(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', 0), other = fixture_loop_task(&f, 'b', 0);
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_turn(&f);
  ASSERT_RC(0, attach_acting(&f, id, 'x', 0, act_attaches_again));
  ASSERT_RC(0, uvs_submit(f.s, &other, NULL));
  fixture_turn(&f);
  ASSERT_U64(5001, log_count(&f, EV_USER, 'x'));
  ASSERT(log_nth(&f, EV_AFTER, 'b', 0)->what == EV_AFTER);
  ASSERT(place_of(&f, EV_AFTER, 'b') < 10);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static void error_attaches(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct fixture *f = uvs_data(s);
  struct probe *p = arg;

  log_add(f, EV_ERROR, p->tag, id, status);
  p->after_ret = attach(f, id, 'x', 0) + attach(f, id, 'y', UVS_CLEANUP_WHEN_SETTLED);
}

/* R25 R32: the hook is called before the end; if a body goes on past its time limit,
 * immediately. */
TEST clean_ups_can_be_attached_in_the_error_hook(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  f.options.on_error = error_attaches;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  t.done = NULL;
  probe_of(&t)->ret = UV_EIO;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  ASSERT_STR_EQ("aaxy", log_string(&f, (enum event_kind)0));
  ASSERT_RC(0, probe_of(&t)->after_ret);
  log_clear(&f);
  uvs_task_t late = limited(&f, 'b', LATE_DEFAULT);
  late.done = NULL;
  late.keep_outcome = 0;
  late.result = NULL;
  probe_of(&late)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &late, &id));
  fixture_advance_ms(&f, LIMIT_MS);
  ASSERT_STR_EQ("bby", log_string(&f, (enum event_kind)0));
  ASSERT_RC(0, uvs_finish(f.s, id, 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("bbyx", log_string(&f, (enum event_kind)0));
  CHECK_CALL(nothing_attached(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int act_forgets(struct probe *p, uvs_run_t *run) {
  (void)run;
  return uvs_forget(p->f->s, p->id);
}

static void done_seen_kept(uvs_t *s, uvs_id_t id, int status, void *arg) {
  uvs_outcome_t o;
  struct probe *p = arg;

  probe_done(s, id, status, arg);
  p->after_ret = peek(s, id, 0, &o);
}

/* F13 R32 R33 R34 */
TEST clean_ups_and_a_kept_outcome_do_not_interfere(void) {
  struct fixture f;
  uvs_outcome_t o;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  t.keep_outcome = 1;
  t.result = &f;
  t.done = done_seen_kept;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(0, attach(&f, id, 'x', 0));
  fixture_turn(&f);
  ASSERT_RC(0, peek(f.s, id, 0, &o));
  ASSERT_EQ(&f, o.result);
  ASSERT_RC(0, attach(&f, id, 'y', 0)); /* over, and kept */
  fixture_turn(&f);
  ASSERT_RC(0, peek(f.s, id, 0, &o));
  ASSERT_RC(0, uvs_forget(f.s, id));
  ASSERT_RC(0, attach(&f, id, 'z', UVS_CLEANUP_WHEN_SETTLED)); /* forgotten */
  fixture_turn(&f);
  ASSERT_STR_EQ("axayz", log_string(&f, (enum event_kind)0));
  /* A clean-up forgets its own task. */
  t.done = probe_done;
  log_clear(&f);
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(0, attach_acting(&f, id, 'x', 0, act_forgets));
  ASSERT_RC(0, attach(&f, id, 'y', 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("axya", log_string(&f, (enum event_kind)0));
  ASSERT_RC(UV_ENOENT, peek(f.s, id, 0, &o));
  CHECK_CALL(nothing_attached(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S16 S17 P6 V10: tasks that do not reach the loop in the usual way. */
TEST clean_ups_of_discarded_and_caller_run_tasks_are_called(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    struct fixture f;
    uvs_id_t id;

    CHECK_CALL(open_full(&f, 1, UVS_REJECT_DISCARD));
    uvs_task_t t = fixture_once(&f, 'a', UVS_MS(1));
    ASSERT_RC(0, submit_from(off_loop != 0, f.s, &t, 1, &id));
    ASSERT_RC(0, attach(&f, id, 'x', 0));
    fixture_turn(&f);
    ASSERT_STR_EQ("xa", log_string(&f, (enum event_kind)0));
    log_clear(&f);

    ASSERT_RC(0, uvs_set_rejection_policy(f.s, UVS_REJECT_CALLER_RUNS));
    uvs_task_t light = fixture_once(&f, 'b', 0);
    light.done = NULL;
    probe_of(&light)->act = act_attaches;
    ASSERT_RC(0, submit_from(off_loop != 0, f.s, &light, 1, &id));
    ASSERT_STR_EQ("b", log_string(&f, (enum event_kind)0));
    fixture_turn(&f);
    ASSERT_STR_EQ("bx", log_string(&f, (enum event_kind)0));
    log_clear(&f);

    ASSERT_RC(0, uvs_set_rejection_policy(f.s, UVS_REJECT_DISCARD_OLDEST));
    uvs_task_t first = fixture_once(&f, 'c', UVS_HOUR(1));
    ASSERT_RC(0, submit_from(off_loop != 0, f.s, &first, 1, &id));
    ASSERT_RC(0, attach(&f, id, 'y', UVS_CLEANUP_WHEN_SETTLED));
    fixture_turn(&f);
    ASSERT_STR_EQ("x", log_string(&f, EV_DONE)); /* the one that filled it */
    uvs_task_t second = fixture_once(&f, 'd', UVS_HOUR(1));
    ASSERT_RC(0, submit_from(off_loop != 0, f.s, &second, 1, NULL));
    fixture_turn(&f);
    ASSERT_STR_EQ("xyc", log_string(&f, (enum event_kind)0));
    CHECK_CALL(nothing_attached(&f));
    CHECK_CALL(close_checked(&f));
  }
  PASS();
}

/* ---------------------------------------------------------------- answers --- */

/* R33 R18 R19 R20 */
TEST attaching_to_an_ended_task_calls_in_the_next_pass_and_an_unknown_id_is_refused(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    struct fixture f;
    uvs_id_t id, next;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = fixture_once(&f, 'a', 0);
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    /* the next task of the same slot */
    next = inspect_id(f.s, inspect_slot_of(id), inspect_generation_of(id) + 1);
    fixture_turn(&f);
    ASSERT_RC(UV_ENOENT, uvs_info(f.s, id, &(uvs_info_t){.size = sizeof(uvs_info_t)}));
    for (unsigned flags = 0; flags <= UVS_CLEANUP_WHEN_SETTLED; flags++) {
      log_clear(&f);
      if (off_loop)
        ASSERT_RC(0, attach_elsewhere(&f, id, 'x', flags));
      else
        ASSERT_RC(0, attach(&f, id, 'x', flags));
      ASSERT_U64(0, log_total(&f)); /* not inside the call */
      fixture_turn(&f);
      ASSERT_STR_EQ("x", log_string(&f, (enum event_kind)0));
      ASSERT(all_on_loop(&f, EV_USER));
    }
    log_clear(&f);
    long live = atomic_load(&f.fault.live);
    ASSERT_RC(UV_ENOENT, attach(&f, 0, 'y', 0));
    ASSERT_RC(UV_ENOENT, attach(&f, next, 'y', 0));
    ASSERT_RC(UV_ENOENT, attach(&f, UINT64_MAX, 'y', 0));
    ASSERT_RC(UV_ENOENT, attach(&f, id + 1, 'y', 0));      /* a slot that had no task */
    ASSERT_RC(UV_ENOENT, attach(&f, id + 100000, 'y', 0)); /* none that was ever made */
    ASSERT_RC(UV_ENOENT, attach(&f, inspect_id(f.s, inspect_slot_of(id), 0), 'y', 0));
    ASSERT_RC(UV_EINVAL, uvs_add_cleanup(f.s, id, NULL, &f, 0));
    ASSERT_RC(UV_EINVAL, uvs_add_cleanup(NULL, id, note, &f, 0));
    for (unsigned bit = UVS_CLEANUP_WHEN_SETTLED << 1; bit != 0; bit <<= 1) {
      ASSERT_RC(UV_EINVAL, attach(&f, id, 'y', bit));
      ASSERT_RC(UV_EINVAL, attach(&f, id, 'y', bit | UVS_CLEANUP_WHEN_SETTLED));
    }
    ASSERT_EQ_FMT(live, atomic_load(&f.fault.live), "%ld");
    fixture_turn(&f);
    ASSERT_U64(0, log_total(&f));
    /* The slot has a new task. An action attached with the old id is not attached to the new
     * task. */
    ASSERT_RC(0, uvs_submit(f.s, &t, &next));
    ASSERT_U64(inspect_slot_of(id), inspect_slot_of(next));
    ASSERT_RC(0, uvs_cancel(f.s, next, 0));
    uvs_task_t later = fixture_once(&f, 'b', UVS_MS(1));
    fixture_turn(&f);
    ASSERT_RC(0, uvs_submit(f.s, &later, &next));
    log_clear(&f);
    ASSERT_RC(0, attach(&f, id, 'x', 0));
    fixture_turn(&f);
    ASSERT_STR_EQ("x", log_string(&f, (enum event_kind)0));
    fixture_advance_ms(&f, 1);
    ASSERT_STR_EQ("xbb", log_string(&f, (enum event_kind)0));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L10 */
TEST attaching_without_memory_changes_nothing(void) {
  for (int over = 0; over < 2; over++) {
    struct fixture f;
    uvs_id_t id;
    long n;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = fixture_once(&f, 'a', UVS_MS(1));
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    if (over)
      fixture_advance_ms(&f, 1);
    for (n = 0;; n++) {
      long live = atomic_load(&f.fault.live);

      fault_after(n);
      int rc = attach(&f, id, 'x', 0);
      bool failed = fault_hit();
      ASSERT_RC(failed ? UV_ENOMEM : 0, rc);
      if (!failed)
        break;
      ASSERT_EQ_FMT(live, atomic_load(&f.fault.live), "%ld");
    }
    ASSERT(n >= 1 + !over || n == 2);
    if (!over)
      fixture_advance_ms(&f, 1);
    fixture_turn(&f);
    ASSERT_STR_EQ("x", log_string(&f, EV_USER));
    ASSERT_STR_EQ("a", log_string(&f, EV_DONE));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S55 R23 R28: all memory that was allocated for actions is freed. */
TEST attaching_and_calling_clean_ups_takes_constant_memory(void) {
  enum { ROUNDS = 3000 };
  static struct numbered n;
  struct fixture f;
  long live = 0, bytes = 0;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  n.calls = 0;
  for (int i = 0; i < ROUNDS; i++) {
    uvs_id_t ids[4];

    for (int k = 0; k < 4; k++) {
      ASSERT_RC(0, uvs_schedule(f.s, k == 3 ? UVS_DAY(1) : 0, work_nothing, NULL, &ids[k]));
      ASSERT_RC(0, uvs_add_cleanup(f.s, ids[k], count_up, &n, 0));
      ASSERT_RC(0, uvs_add_cleanup(f.s, ids[k], count_up, &n, UVS_CLEANUP_WHEN_SETTLED));
    }
    ASSERT_RC(0, uvs_cancel(f.s, ids[3], 0));
    fixture_turn(&f);
    ASSERT_RC(0, uvs_add_cleanup(f.s, ids[0], count_up, &n, 0)); /* over */
    fixture_turn(&f);
    if (i == 10) {
      live = atomic_load(&f.fault.live);
      bytes = atomic_load(&f.fault.live_bytes);
    }
  }
  ASSERT_RC(9 * ROUNDS, n.calls);
  ASSERT_EQ_FMT(live, atomic_load(&f.fault.live), "%ld");
  ASSERT_EQ_FMT(bytes, atomic_load(&f.fault.live_bytes), "%ld");
  CHECK_CALL(nothing_attached(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L1 L16: the loop stays alive until the action was called, and is woken up for it. */
TEST the_loop_stays_alive_until_the_clean_ups_are_called(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  t.flags = UVS_UNREF;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_turn(&f);
  ASSERT_FALSE(fixture_alive(&f));
  ASSERT_RC(0, attach(&f, id, 'x', 0)); /* over: only this keeps the loop */
  ASSERT(fixture_alive(&f));
  ASSERT(fixture_run(&f, UV_RUN_DEFAULT, NULL));
  ASSERT_STR_EQ("x", log_string(&f, EV_USER));
  ASSERT_FALSE(fixture_alive(&f));
  /* A cancelled task that is in no queue any more: only the action keeps the loop alive. */
  uvs_task_t far = fixture_once(&f, 'b', UVS_DAY(1));
  far.done = NULL;
  ASSERT_RC(0, uvs_submit(f.s, &far, &id));
  ASSERT_RC(0, attach(&f, id, 'y', 0));
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, 0));
  ASSERT(fixture_run(&f, UV_RUN_DEFAULT, NULL));
  ASSERT_STR_EQ("xy", log_string(&f, EV_USER));
  ASSERT_FALSE(fixture_alive(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(cleanup) {
  RUN_TEST(next_due_is_now_while_a_clean_up_is_to_be_called);
  RUN_TEST(clean_ups_are_called_once_in_order_before_done_however_the_task_ends);
  RUN_TEST(the_wrappers_end_hook_is_called_after_the_clean_ups);
  RUN_TEST(clean_ups_of_a_periodic_task_are_called_at_its_end_not_after_each_run);
  RUN_TEST(a_timed_out_run_that_does_not_end_the_task_calls_no_clean_up);
  RUN_TEST(a_pending_run_calls_no_clean_up);
  RUN_TEST(ten_thousand_clean_ups_of_one_task_are_called_in_order);
}

SUITE(settled) {
  RUN_TEST(a_task_cancelled_during_its_run_is_settled_at_once_and_quiet_later);
  RUN_TEST(no_clean_up_is_called_after_done_even_if_the_run_ends_quickly);
  RUN_TEST(a_timed_out_task_is_quiet_when_its_body_returns);
  RUN_TEST(when_a_blocked_body_times_out_the_clean_ups_are_called_on_the_loop);
  RUN_TEST(a_time_out_before_the_start_calls_the_clean_ups);
}

SUITE(from_where) {
  RUN_TEST(clean_ups_can_be_attached_in_the_body_in_after_and_in_done);
  RUN_TEST(clean_ups_can_be_attached_in_a_clean_up);
  RUN_TEST(attaching_to_a_task_cancelled_on_another_thread_wakes_the_loop);
  RUN_TEST(a_waiting_task_that_is_cancelled_without_done_is_freed_before_the_call_returns);
  RUN_TEST(a_cancel_without_done_calls_the_clean_ups);
  RUN_TEST(a_running_task_that_is_cancelled_without_done_still_gets_its_done);
  RUN_TEST(many_clean_ups_do_not_hold_the_loop_longer_than_the_budget);
  RUN_TEST(a_clean_up_that_attaches_itself_again_does_not_starve_the_loop);
  RUN_TEST(clean_ups_can_be_attached_in_the_error_hook);
  RUN_TEST(clean_ups_and_a_kept_outcome_do_not_interfere);
  RUN_TEST(clean_ups_of_discarded_and_caller_run_tasks_are_called);
}

SUITE(answers) {
  RUN_TEST(attaching_to_an_ended_task_calls_in_the_next_pass_and_an_unknown_id_is_refused);
  RUN_TEST(attaching_without_memory_changes_nothing);
  RUN_TEST(attaching_and_calling_clean_ups_takes_constant_memory);
  RUN_TEST(the_loop_stays_alive_until_the_clean_ups_are_called);
}

TEST_MAIN(RUN_SUITE(cleanup); RUN_SUITE(settled); RUN_SUITE(from_where); RUN_SUITE(answers));
