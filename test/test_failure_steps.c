/* SPDX-License-Identifier: MIT
 *
 * A run fails, points of the grid are missed, and the hooks are to be told: at each step on that
 * way somebody else ends or moves the task. Built with -DUVS__STEPS: the turn of the loop, or the
 * runner, is stopped before its n-th atomic step, and something else happens there from start to
 * end; then the next n, until there is no n-th step any more.
 */
#include "lib/bodies.h"
#include "lib/fixture.h"
#include "lib/threads.h"

#include "scheduler.h"

#define STEPS_MAX 5000

enum act { CANCEL, MOVE, CANCEL_AND_MOVE, SHUTDOWN, NOW, ACTS };

static struct {
  struct fixture *f;
  enum act act;
  uvs_id_t id;
  int left;
  bool came;
  int rc;
  unsigned told; /* points */
} scene;

static _Thread_local bool under_test;

static int act_main(void *arg) {
  uvs_t *s = scene.f->s;

  (void)arg;
  switch (scene.act) {
  case CANCEL:
    return uvs_cancel(s, scene.id, 0);
  case MOVE:
    return uvs_reschedule(s, scene.id, UVS_MS(33));
  case CANCEL_AND_MOVE: {
    int rc = uvs_cancel(s, scene.id, 0);

    uvs_reschedule(s, scene.id, UVS_MS(33));
    return rc;
  }
  case SHUTDOWN:
    return uvs_shutdown(s);
  default:
    return uvs_shutdown_now(s, probe_never_ran, NULL);
  }
}

static void on_step(void) {
  if (!under_test || scene.came || scene.left-- > 0)
    return;
  scene.came = true;
  scene.rc = elsewhere(act_main, NULL);
}

/* From here on this thread is under test as well: that of the runner, or the loop's. */
static int act_fail_under_test(struct probe *p, uvs_run_t *run) {
  under_test = true;
  return act_script(p, run);
}

/* What `after` makes of a run, nobody has seen. */
static int fail_first_after(uvs_run_t *run) {
  return run->number == 1 ? UV_EIO : 0;
}

static void note_missed(uvs_t *s, uvs_id_t id, uint64_t count, int reason, void *arg) {
  (void)s;
  (void)id;
  (void)reason;
  (void)arg;
  scene.told += (unsigned)count;
}

static int done_status(struct fixture *f) {
  return log_count(f, EV_DONE, 'a') == 1 ? log_nth(f, EV_DONE, 'a', 0)->status : 1;
}

static enum greatest_test_res check_end(struct fixture *f, enum act act) {
  bool cancels = act == CANCEL || act == CANCEL_AND_MOVE;
  unsigned failed = log_count(f, EV_WORK, 'a') > 0;

  ASSERT_U64(1, log_count(f, EV_DONE, 'a'));
  /* The first run failed and was seen, unless it was cancelled while it ran. */
  ASSERT_U64(cancels && scene.rc == UVS_RUN_FINISHES ? 0 : failed, log_count(f, EV_ERROR, 'a'));
  ASSERT_U64(counts_of(f->s).missed, scene.told);
  ASSERT_U64(0, atomic_load(&f->s->inbox.dead));
  ASSERT_U64(0, live_tasks(f->s));
  if (cancels)
    ASSERT_RC(UV_ECANCELED, done_status(f));
  PASS();
}

static enum greatest_test_res play(enum act act, int failure, int concurrency, bool after, int n,
                                   bool *ret_came) {
  struct fixture f;

  memset(&scene, 0, sizeof scene);
  scene.f = &f;
  scene.act = act;
  scene.left = n;
  fixture_init(&f);
  f.options.concurrency = concurrency;
  f.options.missed = note_missed;
  CHECK_CALL(fixture_open_turned(&f));
  vclock_advance_ns(&f.clock, UVS_MS(350));
  uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_MS(100));
  t.from = UVS_FROM_MONOTONIC;
  t.delay_ns = VCLOCK_START_NS; /* three more points pass before its first run */
  t.missed = UVS_MISSED_ONCE;
  t.failure = failure;
  t.retry_ns = failure == UVS_FAIL_RETRY ? UVS_MS(10) : 0;
  t.limit_ns = UVS_SEC(1);
  if (after)
    t.after = fail_first_after;
  follow_script(&t, after ? "." : "x.");
  probe_of(&t)->act = act_fail_under_test;
  t.max_runs = 2;
  ASSERT_RC(0, uvs_submit(f.s, &t, &scene.id));
  under_test = true;
  uvs__step_hook = on_step;
  fixture_turn(&f);
  uvs__step_hook = NULL;
  under_test = false;
  *ret_came = scene.came;
  if (!scene.came)
    scene.rc = elsewhere(act_main, NULL);
  fixture_turn(&f);
  if (act == MOVE) {
    ASSERT(scene.rc == 0 || scene.rc == UV_EBUSY);
    ASSERT_U64(log_count(&f, EV_WORK, 'a'), log_count(&f, EV_ERROR, 'a'));
    if (scene.rc == 0) /* before the first run, or before the second */
      ASSERT_I64(383, fixture_next_ms(&f));
    fixture_advance_ms(&f, 200);
    ASSERT_U64(2, log_count(&f, EV_WORK, 'a'));
    ASSERT_RC(0, done_status(&f));
  }
  CHECK_CALL(check_end(&f, act));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* V4 S68 */
TEST whatever_comes_between_each_failure_is_told_once_and_the_task_ends_once(void) {
  for (int act = CANCEL; act < ACTS; act++)
    for (int failure = UVS_FAIL_GO_ON; failure <= UVS_FAIL_RETRY; failure++)
      for (int concurrency = 0; concurrency < 2; concurrency++)
        for (int after = 0; after < 2; after++) {
          bool came = true;
          int n;

          for (n = 0; came && n < STEPS_MAX; n++)
            CHECK_CALL(play((enum act)act, failure, concurrency, after != 0, n, &came));
          ASSERT(n > 30); /* it was stopped at all */
          ASSERT(n < STEPS_MAX);
        }
  PASS();
}

SUITE(steps) {
  RUN_TEST(whatever_comes_between_each_failure_is_told_once_and_the_task_ends_once);
}

TEST_MAIN(RUN_SUITE(steps));
