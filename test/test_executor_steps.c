/* SPDX-License-Identifier: MIT
 *
 * A runner on somebody else's thread and the loop, between any two steps of the other. Built with
 * -DUVS__STEPS: one side is stopped before its n-th atomic step, and the other one goes as far as
 * it can; then the next n, until there is no n-th step any more.
 */
#include "atomic.h"
#include "scheduler.h"

#include "lib/shelf.h"
#include "lib/threads.h"

#define STEPS_MAX 5000

/* ------------------------------------------------------------------- the deeds --- */

enum deed { CLOSE, SHUT_DOWN_NOW, SHUT_DOWN, CANCEL, DISPOSE, SUBMIT, NOTHING, DEEDS };

enum place { SCHEDULER, LANE, LANE_WITH_ITS_OWN, PLACES };

static struct {
  struct fixture f;
  struct shelf e;
  uvs_lane_t lane;
  uvs_id_t id;
  enum deed deed;
  int rc;
} scene;

static int do_deed(void) {
  uvs_t *s = scene.f.s;

  switch (scene.deed) {
  case CLOSE:
    return uvs_close(s, note_closed);
  case SHUT_DOWN_NOW:
    return uvs_shutdown_now(s, NULL, NULL);
  case SHUT_DOWN:
    return uvs_shutdown(s);
  case CANCEL:
    return uvs_cancel(s, scene.id, 0);
  case DISPOSE:
    return uvs_lane_dispose(scene.lane, 0);
  case SUBMIT: {
    uvs_task_t t = fixture_once(&scene.f, 'b', 0);

    t.lane = scene.lane;
    return uvs_submit(s, &t, NULL);
  }
  default:
    return 0;
  }
}

/* A task, and its runner on the shelf. */
static enum greatest_test_res set_scene(enum deed deed, enum place place, bool with_done) {
  struct fixture *f = &scene.f;

  memset(&scene, 0, sizeof scene);
  scene.deed = deed;
  fixture_init(f);
  shelf_init(&scene.e);
  if (place != LANE_WITH_ITS_OWN)
    f->options.executor = &scene.e.table;
  CHECK_CALL(fixture_open_turned(f));
  if (place != SCHEDULER)
    CHECK_CALL(lane_on(f, place == LANE ? NULL : &scene.e.table, &scene.lane));
  uvs_task_t t = fixture_once(f, 'a', 0);
  t.lane = scene.lane;
  if (!with_done)
    t.done = NULL;
  ASSERT_RC(0, uvs_submit(f->s, &t, &scene.id));
  fixture_turn(f);
  ASSERT_U64(1, scene.e.n);
  PASS();
}

static enum greatest_test_res scene_is_over(bool with_done) {
  struct fixture *f = &scene.f;

  ASSERT(scene.rc >= 0 || (scene.deed == CANCEL && scene.rc == UV_ENOENT));
  shelf_empty(f, &scene.e);
  if (scene.deed == CLOSE) {
    fixture_turn_until_closed(f);
    ASSERT(f->closed);
    f->s = NULL;
  } else {
    uvs_clock_changed(f->s); /* who has nothing to say is forgotten only when the loop turns */
    fixture_turn(f);
    ASSERT_U64(0, live_tasks(f->s));
    ASSERT_U64(0, f->s->taken);
    ASSERT_U64(0, f->s->pool.out);
    ASSERT_RC(scene.deed == SHUT_DOWN || scene.deed == SHUT_DOWN_NOW, uvs_is_terminated(f->s));
  }
  ASSERT_U64(with_done, log_count(f, EV_DONE, 'a'));
  ASSERT(log_count(f, EV_WORK, 'a') <= 1);
  if (scene.deed >= SUBMIT || scene.deed == SHUT_DOWN)
    ASSERT_U64(1, log_count(f, EV_WORK, 'a'));
  ASSERT_U64(scene.deed == SUBMIT, log_count(f, EV_DONE, 'b'));
  ASSERT_U64(scene.lane != 0 && (scene.deed == DISPOSE || scene.deed == CLOSE),
             log_count(f, EV_USER, 'q'));
  CHECK_CALL(shelf_close(f, &scene.e));
  PASS();
}

/* --------------------------------------- the runner stands still, the loop goes on --- */

static struct {
  struct shelf_job job;
  int left;
  bool came;
  uv_sem_t reached, go;
  _Atomic bool let_go;
} runner;

static _Thread_local bool under_test;

int __real_sched_yield(void);
int __wrap_sched_yield(void);

static void let_runner_go(void) {
  if (!atomic_exchange(&runner.let_go, true))
    uv_sem_post(&runner.go);
}

/* The loop waits for those who are about to wake it. */
int __wrap_sched_yield(void) {
  let_runner_go();
  return __real_sched_yield();
}

static void runner_hook(void) {
  if (!under_test || runner.came || runner.left-- > 0)
    return;
  runner.came = true;
  uv_sem_post(&runner.reached);
  uv_sem_wait(&runner.go);
}

static void runner_main(void *arg) {
  (void)arg;
  under_test = true;
  runner.job.fn(runner.job.arg);
  under_test = false;
  if (!runner.came)
    uv_sem_post(&runner.reached);
}

/* As far as it comes: what it waits for is the runner. */
static void let_loop_turn(void) {
  for (int i = 0; i < 5; i++)
    fixture_turn(&scene.f);
}

static enum greatest_test_res stop_runner_at(int n, bool with_done, bool *ret_came) {
  bool closed_too_early;
  uv_thread_t thread;

  runner.job = shelf_take(&scene.e);
  runner.left = n;
  runner.came = false;
  atomic_store(&runner.let_go, false);
  ASSERT_RC(0, uv_sem_init(&runner.reached, 0));
  ASSERT_RC(0, uv_sem_init(&runner.go, 0));
  uvs__step_hook = runner_hook;
  ASSERT_RC(0, uv_thread_create(&thread, runner_main, NULL));
  uv_sem_wait(&runner.reached);
  scene.rc = do_deed();
  let_loop_turn();
  closed_too_early = scene.f.closed && runner.came && !atomic_load(&runner.let_go);
  let_runner_go();
  uv_thread_join(&thread);
  uvs__step_hook = NULL;
  uv_sem_destroy(&runner.reached);
  uv_sem_destroy(&runner.go);
  *ret_came = runner.came;
  ASSERT_FALSE(closed_too_early); /* the runner was still inside */
  CHECK_CALL(scene_is_over(with_done));
  PASS();
}

/* L2 R17 R23 */
TEST the_loop_may_do_anything_between_two_steps_of_a_runner(void) {
  for (enum deed deed = 0; deed < DEEDS; deed++) {
    for (enum place place = deed == DISPOSE ? LANE : SCHEDULER; place < PLACES; place++) {
      for (int with_done = 0; with_done < 2; with_done++) {
        bool came = true;
        int n;

        for (n = 0; came && n < STEPS_MAX; n++) {
          CHECK_CALL(set_scene(deed, place, with_done));
          CHECK_CALL(stop_runner_at(n, with_done, &came));
        }
        ASSERT(n > 10); /* it was stopped at all */
        ASSERT(n < STEPS_MAX);
      }
    }
  }
  PASS();
}

/* --------------------------------------- the loop stands still, the runner goes on --- */

static struct {
  int left;
  bool came, ran;
} loop_side;

/* There the job runs from its start to its end. */
static void loop_hook(void) {
  if (!under_test || loop_side.came || loop_side.left-- > 0)
    return;
  under_test = false;
  loop_side.came = true;
  loop_side.ran = shelf_run(&scene.e);
  under_test = true;
}

static enum greatest_test_res stop_loop_at(int n, bool with_done, bool *ret_came) {
  loop_side.left = n;
  loop_side.came = false;
  loop_side.ran = true;
  under_test = true;
  uvs__step_hook = loop_hook;
  scene.rc = do_deed();
  fixture_turn(&scene.f);
  uvs__step_hook = NULL;
  under_test = false;
  ASSERT(loop_side.ran);
  *ret_came = loop_side.came;
  CHECK_CALL(scene_is_over(with_done));
  PASS();
}

/* L2 R17 R23 */
TEST a_runner_may_come_home_between_two_steps_of_the_loop(void) {
  for (enum deed deed = 0; deed < NOTHING; deed++) {
    for (enum place place = deed == DISPOSE ? LANE : SCHEDULER; place < PLACES; place++) {
      for (int with_done = 0; with_done < 2; with_done++) {
        bool came = true;
        int n;

        for (n = 0; came && n < STEPS_MAX; n++) {
          CHECK_CALL(set_scene(deed, place, with_done));
          CHECK_CALL(stop_loop_at(n, with_done, &came));
        }
        ASSERT(n > 10);
        ASSERT(n < STEPS_MAX);
      }
    }
  }
  PASS();
}

/* -------------------------------------- the executor is asked, and somebody else sets --- */

static int set_five(void *arg) {
  (void)arg;
  return uvs_set_concurrency(scene.f.s, 5);
}

static void set_hook(void) {
  if (!under_test || loop_side.came || loop_side.left-- > 0)
    return;
  under_test = false;
  loop_side.came = true;
  scene.rc = elsewhere(set_five, NULL);
  under_test = true;
}

/* Whoever sets the concurrency has the last word, also while the loop asks the executor. */
TEST a_concurrency_that_is_set_stays_even_if_the_executor_is_being_asked(void) {
  bool came = true;
  int n;

  for (n = 0; came && n < STEPS_MAX; n++) {
    CHECK_CALL(set_scene(SUBMIT, SCHEDULER, true));
    scene.e.at_once = 3; /* it was one */
    loop_side.left = n;
    loop_side.came = false;
    under_test = true;
    uvs__step_hook = set_hook;
    scene.rc = do_deed();
    fixture_turn(&scene.f);
    uvs__step_hook = NULL;
    under_test = false;
    came = loop_side.came;
    ASSERT_RC(came ? 5 : 3, uvs_concurrency(scene.f.s));
    CHECK_CALL(scene_is_over(true));
  }
  ASSERT(n > 10);
  ASSERT(n < STEPS_MAX);
  PASS();
}

SUITE(steps) {
  RUN_TEST(the_loop_may_do_anything_between_two_steps_of_a_runner);
  RUN_TEST(a_runner_may_come_home_between_two_steps_of_the_loop);
  RUN_TEST(a_concurrency_that_is_set_stays_even_if_the_executor_is_being_asked);
}

TEST_MAIN(RUN_SUITE(steps));
