/* SPDX-License-Identifier: MIT
 *
 * What a review found broken between two steps of ours, one test for each; see test_regress.c and
 * test_regress_runs.c for the others. Built with -DUVS__STEPS: a call, or a turn of the loop, is
 * stopped before its n-th atomic step, and something else happens there from start to end; then the
 * next n, until there is no n-th step any more.
 */
#include "atomic.h"

#include "lib/fixture.h"

#define STEPS_MAX 5000

static struct {
  int left;
  bool came;
  void (*act)(void);
} stop;

static _Thread_local bool under_test; /* the act may use threads of its own */

static void hook(void) {
  if (!under_test || stop.came || stop.left-- > 0)
    return;
  under_test = false;
  stop.came = true;
  stop.act();
  under_test = true;
}

static void arm(int n, void (*act)(void)) {
  stop.left = n;
  stop.came = false;
  stop.act = act;
  under_test = true;
  uvs__step_hook = hook;
}

/* True if there was an n-th step. */
static bool disarm(void) {
  uvs__step_hook = NULL;
  under_test = false;
  return stop.came;
}

/* A scene for n = 0, 1, 2 ... until *ret_came says that it has no n-th step. */
static enum greatest_test_res
at_every_step(enum greatest_test_res (*scene)(int n, int variant, bool *ret_came), int variant) {
  bool came = true;
  int n;

  for (n = 0; came && n < STEPS_MAX; n++)
    CHECK_CALL(scene(n, variant, &came));
  ASSERT(n > 5); /* it was stopped at all */
  ASSERT(n < STEPS_MAX);
  PASS();
}

/* ------------------------------------------------------------ reschedule --- */

static struct {
  uvs_t *s;
  uvs_id_t id;
  int64_t delay_ns;
  int rc;
} mover;

static void mover_main(void *arg) {
  (void)arg;
  mover.rc = uvs_reschedule(mover.s, mover.id, mover.delay_ns);
}

static void move_elsewhere(void) {
  uv_thread_t thread;

  mover.rc = UV_EAGAIN;
  if (uv_thread_create(&thread, mover_main, NULL) == 0)
    uv_thread_join(&thread);
}

/* At 35 ms the loop leaves out three points of the grid, and would wait for 40. */
static enum greatest_test_res move_during_skip(int n, int delay_ms, bool *ret_came) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
  t.missed = UVS_MISSED_SKIP;
  t.max_runs = 1;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  vclock_advance_ns(&f.clock, UVS_MS(35));
  ASSERT_RC(0, uvs_clock_changed(f.s));
  mover.s = f.s;
  mover.id = id;
  mover.delay_ns = UVS_MS(delay_ms);
  arm(n, move_elsewhere);
  uv_run(&f.loop, UV_RUN_NOWAIT);
  *ret_came = disarm();
  if (!*ret_came)
    move_elsewhere();
  ASSERT_RC(0, mover.rc); /* at no time is it ready or running */
  fixture_turn(&f);
  ASSERT_U64(0, log_total(&f));
  ASSERT_I64(35 + delay_ms, fixture_next_ms(&f));
  fixture_advance_ms(&f, delay_ms - 1);
  ASSERT_U64(0, log_total(&f));
  fixture_advance_ms(&f, 1);
  ASSERT_U64(1, log_count(&f, EV_WORK, 'a'));
  ASSERT_I64(35 + delay_ms, fixture_ms(&f, log_nth(&f, EV_WORK, 'a', 0)->start_ns));
  ASSERT_I64(35 + delay_ms, fixture_ms(&f, log_nth(&f, EV_WORK, 'a', 0)->ideal_ns));
  ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'a', 0)->status);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* The loop held a SKIP task as a rescheduler does while it moved it along its grid; another thread
 * that came then was told 0, and nothing happened. */
TEST a_reschedule_at_any_step_of_a_turn_that_skips_is_never_dropped(void) {
  CHECK_CALL(at_every_step(move_during_skip, 1));   /* before the next point */
  CHECK_CALL(at_every_step(move_during_skip, 500)); /* after it */
  PASS();
}

/* The same, but it is to run at once. */
static enum greatest_test_res move_to_now_during_skip(int n, int unused, bool *ret_came) {
  struct fixture f;
  uvs_id_t id;

  (void)unused;
  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
  t.missed = UVS_MISSED_SKIP;
  t.max_runs = 1;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  vclock_advance_ns(&f.clock, UVS_MS(35));
  ASSERT_RC(0, uvs_clock_changed(f.s));
  mover.s = f.s;
  mover.id = id;
  mover.delay_ns = 0;
  arm(n, move_elsewhere);
  uv_run(&f.loop, UV_RUN_NOWAIT);
  *ret_came = disarm();
  if (!*ret_came)
    move_elsewhere();
  fixture_turn(&f);
  if (mover.rc == 0) {
    ASSERT_U64(1, log_count(&f, EV_WORK, 'a'));
    ASSERT_I64(35, fixture_ms(&f, log_nth(&f, EV_WORK, 'a', 0)->ideal_ns));
  } else {
    ASSERT_RC(UV_EBUSY, mover.rc);
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* The loop found its deadline changed while it left points out, saw that the new one was due as
 * well, and left that out, too. */
TEST a_reschedule_to_now_at_any_step_of_a_turn_that_skips_is_never_dropped(void) {
  CHECK_CALL(at_every_step(move_to_now_during_skip, 0));
  PASS();
}

static struct {
  struct fixture f;
  uvs_id_t id;
  uv_sem_t go;
  _Atomic int stopped, over;
} moving;

static void wait_for_go(void) {
  atomic_store(&moving.stopped, 1);
  uv_sem_wait(&moving.go);
}

static void move_away_main(void *arg) {
  (void)arg;
  under_test = true;
  (void)uvs_reschedule(moving.f.s, moving.id, UVS_DAY(2));
  under_test = false;
  atomic_store(&moving.over, 1);
}

/* One thread puts the task off and is stopped; another wants it now; the loop turns, and sleeps for
 * a day; the first goes on. */
static enum greatest_test_res move_during_move(int n, int on_loop, bool *ret_came) {
  struct fixture *f = &moving.f;
  uv_thread_t thread;
  uvs_info_t info;

  atomic_store(&moving.stopped, 0);
  atomic_store(&moving.over, 0);
  fixture_init(f);
  f->real_clock = true; /* with one of ours every push wakes the loop */
  CHECK_CALL(fixture_open_turned(f));
  uvs_task_t t = fixture_rate(f, 'a', UVS_DAY(1), UVS_DAY(1));
  ASSERT_RC(0, uvs_submit(f->s, &t, &moving.id));
  uvs_task_t other = fixture_once(f, 'b', UVS_DAY(1)); /* what the loop sleeps for */
  ASSERT_RC(0, uvs_submit(f->s, &other, NULL));
  fixture_turn(f);
  ASSERT_RC(0, uv_sem_init(&moving.go, 0));
  arm(n, wait_for_go);
  under_test = false; /* the other thread is */
  ASSERT_RC(0, uv_thread_create(&thread, move_away_main, NULL));
  while (!atomic_load(&moving.stopped) && !atomic_load(&moving.over))
    uv_sleep(0);
  mover.s = f->s;
  mover.id = moving.id;
  mover.delay_ns = 0;
  if (on_loop)
    mover_main(NULL);
  else
    move_elsewhere();
  ASSERT_RC(0, mover.rc);
  fixture_turn(f);
  uv_sem_post(&moving.go);
  uv_thread_join(&thread);
  *ret_came = disarm();
  uv_sem_destroy(&moving.go);
  uvs_info_init(&info);
  ASSERT_RC(0, uvs_info(f->s, moving.id, &info));
  if (info.remaining_ns < UVS_SEC(1)) /* it is as the second wants it: it must run */
    ASSERT(fixture_wait_log(f, EV_WORK, 'a', 1));
  CHECK_CALL(fixture_close(f));
  PASS();
}

/* The second found the task on its way, and woke the loop before the first had pushed it; that
 * one asked whether to wake it for its own time only, so the task slept until the loop woke by
 * itself. test/models/wakeup.pml shows it. */
TEST of_two_reschedules_at_once_the_earlier_wakes_the_loop(void) {
  CHECK_CALL(at_every_step(move_during_move, 0));
  CHECK_CALL(at_every_step(move_during_move, 1));
  PASS();
}

/* ---------------------------------------------------------------- submit --- */

static struct fixture *shut;

static void shut_down(void) {
  if (uvs_shutdown(shut->s) != 0)
    log_add(shut, EV_USER, '!', 0, 0);
}

/* `a` is in the inbox when b, or b, c and d in one call, are submitted. The loop has never turned,
 * so this thread takes the road of other threads. */
static enum greatest_test_res shut_during_submit(int n, int many, bool *ret_came) {
  struct fixture f;
  uvs_task_t later[3];
  uvs_info_t info;
  uvs_id_t id;
  int rc;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  uvs_task_t a = fixture_once(&f, 'a', UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &a, &id));
  for (int i = 0; i < 3; i++)
    later[i] = fixture_once(&f, 'b' + i, UVS_MS(10));
  shut = &f;
  arm(n, shut_down);
  rc = uvs_submit_many(f.s, later, (size_t)many, NULL);
  *ret_came = disarm();
  if (!*ret_came) {
    ASSERT_RC(0, rc);
    shut_down();
  }
  ASSERT(rc == 0 || rc == UV_ESHUTDOWN);
  uvs_info_init(&info);
  ASSERT_RC(0, uvs_info(f.s, id, &info)); /* a is still there */
  ASSERT_RC(UVS_WAITING, info.state);
  fixture_turn(&f);
  fixture_advance_ms(&f, 10);
  ASSERT_STR_EQ(rc < 0 ? "a" : many == 1 ? "ab" : "abcd", log_string(&f, EV_WORK));
  ASSERT_STR_EQ(rc < 0 ? "a" : many == 1 ? "ab" : "abcd", log_string(&f, EV_DONE));
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'a', 0)->status);
  ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
  ASSERT_U64(0, log_count(&f, EV_USER, 0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S68. A push that was refused at its second try had already linked the task to what was in the
 * inbox, and taking it back freed that too: its `done` never came. */
TEST a_submit_refused_at_any_step_leaves_what_is_in_the_inbox_alone(void) {
  CHECK_CALL(at_every_step(shut_during_submit, 1));
  CHECK_CALL(at_every_step(shut_during_submit, 3));
  PASS();
}

static struct {
  uvs_t *s;
  uvs_task_t t;
  int rc;
  uint64_t live;
} small;

static void submit_small(void) {
  uvs_counts_t c;

  uvs_counts_init(&c);
  small.rc = uvs_submit(small.s, &small.t, NULL);
  uvs_counts(small.s, &c);
  small.live = c.waiting + c.ready + c.running;
}

/* There is room for one, and four want to come in at once. */
static enum greatest_test_res submit_during_refusal(int n, int off_loop, bool *ret_came) {
  struct fixture f;
  uvs_task_t crowd[4];
  uvs_counts_t c;
  int rc;

  fixture_init(&f);
  f.options.max_pending = 2;
  if (off_loop)
    CHECK_CALL(fixture_open(&f));
  else
    CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t a = fixture_once(&f, 'a', UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  for (int i = 0; i < 4; i++)
    crowd[i] = fixture_once(&f, 'x', UVS_MS(10));
  small.s = f.s;
  small.t = fixture_once(&f, 'b', UVS_MS(10));
  arm(n, submit_small);
  rc = uvs_submit_many(f.s, crowd, 4, NULL);
  *ret_came = disarm();
  if (!*ret_came)
    submit_small();
  ASSERT_RC(UV_EAGAIN, rc);
  ASSERT_RC(0, small.rc); /* it always fits */
  ASSERT_U64(2, small.live);
  uvs_counts_init(&c);
  ASSERT_RC(0, uvs_counts(f.s, &c));
  ASSERT_U64(1, c.rejected);
  ASSERT_U64(2, c.submitted);
  fixture_turn(&f);
  fixture_advance_ms(&f, 10);
  ASSERT_STR_EQ("ab", log_string(&f, EV_DONE));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* P5 S18. A submission that was refused for the cap took its room for a moment; see
 * test_regress.c. */
TEST a_submit_that_fits_is_accepted_at_any_step_of_one_that_does_not(void) {
  bool came = true;

  for (int off_loop = 0; off_loop < 2; off_loop++) {
    came = true;
    for (int n = 0; came && n < STEPS_MAX; n++)
      CHECK_CALL(submit_during_refusal(n, off_loop, &came));
    ASSERT_FALSE(came);
  }
  PASS();
}

static struct {
  struct fixture f;
  uvs_id_t id;
  uv_sem_t go;
  _Atomic int stopped, over;
} cancelling;

static void stay_here(void) {
  atomic_store(&cancelling.stopped, 1);
  uv_sem_wait(&cancelling.go);
}

static void cancel_main(void *arg) {
  (void)arg;
  under_test = true;
  uvs_cancel(cancelling.f.s, cancelling.id, 0);
  under_test = false;
  atomic_store(&cancelling.over, 1);
}

/* A cancel off the loop is stopped; the loop shuts down and comes to rest; the cancel goes on. */
static enum greatest_test_res shut_down_during_cancel(int n, int at_once, bool *ret_came) {
  struct fixture *f = &cancelling.f;
  uv_thread_t thread;

  atomic_store(&cancelling.stopped, 0);
  atomic_store(&cancelling.over, 0);
  fixture_init(f);
  CHECK_CALL(fixture_open_turned(f));
  uvs_task_t t = fixture_once(f, 'a', UVS_DAY(1));
  t.done = NULL; /* nobody is to be told, so nobody wakes the loop */
  ASSERT_RC(0, uvs_submit(f->s, &t, &cancelling.id));
  ASSERT_RC(0, uvs_submit(f->s, &t, NULL));
  fixture_turn(f);
  ASSERT_RC(0, uv_sem_init(&cancelling.go, 0));
  arm(n, stay_here);
  under_test = false; /* the other thread is */
  ASSERT_RC(0, uv_thread_create(&thread, cancel_main, NULL));
  while (!atomic_load(&cancelling.stopped) && !atomic_load(&cancelling.over))
    uv_sleep(0);
  ASSERT_RC(0, uvs_set_survive(f->s, UVS_SURVIVE_DELAYED, 0));
  ASSERT_RC(0, at_once ? uvs_shutdown_now(f->s, NULL, NULL) : uvs_shutdown(f->s));
  fixture_turn(f);
  uv_sem_post(&cancelling.go);
  uv_thread_join(&thread);
  *ret_came = disarm();
  uv_sem_destroy(&cancelling.go);
  fixture_turn(f);
  ASSERT_RC(1, uvs_is_terminated(f->s));
  CHECK_CALL(fixture_close(f));
  PASS();
}

/* S32 S43. The cancel asked whether we are shut down before it sent the task, and not again. */
TEST a_cancel_that_a_shutdown_overtakes_does_not_keep_it_from_its_end(void) {
  CHECK_CALL(at_every_step(shut_down_during_cancel, 0));
  CHECK_CALL(at_every_step(shut_down_during_cancel, 1));
  PASS();
}

/* ------------------------------------------------------------------ stop --- */

static void stop_main(void *arg) {
  (void)arg;
  under_test = true;
  uvs_shutdown_now(cancelling.f.s, NULL, NULL);
  under_test = false;
  atomic_store(&cancelling.over, 1);
}

/* A shutdown off the loop is stopped; the loop has something ready, and comes to rest. */
static enum greatest_test_res turn_during_stop(int n, int variant, bool *ret_came) {
  struct fixture *f = &cancelling.f;
  uv_thread_t thread;

  (void)variant;
  atomic_store(&cancelling.stopped, 0);
  atomic_store(&cancelling.over, 0);
  fixture_init(f);
  CHECK_CALL(fixture_open_turned(f));
  uvs_task_t t = fixture_once(f, 'a', 0);
  ASSERT_RC(0, uvs_submit(f->s, &t, NULL));
  ASSERT_RC(0, uv_sem_init(&cancelling.go, 0));
  arm(n, stay_here);
  under_test = false; /* the other thread is */
  ASSERT_RC(0, uv_thread_create(&thread, stop_main, NULL));
  while (!atomic_load(&cancelling.stopped) && !atomic_load(&cancelling.over))
    uv_sleep(0);
  fakepool_forget();
  fixture_turn(f);
  ASSERT(fakepool_seen().queue_works <= 1);
  uv_sem_post(&cancelling.go);
  uv_thread_join(&thread);
  *ret_came = disarm();
  uv_sem_destroy(&cancelling.go);
  fixture_turn(f);
  ASSERT_U64(1, log_count(f, EV_DONE, 'a'));
  ASSERT_RC(1, uvs_is_terminated(f->s));
  CHECK_CALL(fixture_close(f));
  PASS();
}

/* S43. Runners saw the stop before the loop did: it called them out again and again. */
TEST the_loop_sees_a_stop_no_later_than_a_runner(void) {
  CHECK_CALL(at_every_step(turn_during_stop, 0));
  PASS();
}

SUITE(regress_steps) {
  RUN_TEST(the_loop_sees_a_stop_no_later_than_a_runner);
  RUN_TEST(a_cancel_that_a_shutdown_overtakes_does_not_keep_it_from_its_end);
  RUN_TEST(a_reschedule_at_any_step_of_a_turn_that_skips_is_never_dropped);
  RUN_TEST(a_reschedule_to_now_at_any_step_of_a_turn_that_skips_is_never_dropped);
  RUN_TEST(of_two_reschedules_at_once_the_earlier_wakes_the_loop);
  RUN_TEST(a_submit_refused_at_any_step_leaves_what_is_in_the_inbox_alone);
  RUN_TEST(a_submit_that_fits_is_accepted_at_any_step_of_one_that_does_not);
}

TEST_MAIN(RUN_SUITE(regress_steps));
