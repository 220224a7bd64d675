/* SPDX-License-Identifier: MIT
 *
 * A delay queue and a loop that goes to sleep: nobody's wake-up is lost. The library is compiled
 * with UVS__STEPS and calls a hook before each atomic operation that is not inside a lock. A thread
 * does something with the queue between two steps of the loop's turn; and the loop takes a turn
 * between two steps of what the thread does. For every two steps, on the virtual clock (where the
 * loop sleeps without a timer) and on the system's (where it sleeps until its timer; the times are
 * hours away). Afterwards the loop knows all it must know, without being told again.
 */
#include <string.h>

#include "scheduler.h"

#include "lib/conds.h"
#include "lib/threads.h"
#include "lib/values.h"

enum what {
  PUT_DUE,    /* somebody waits: it reaches him */
  PUT_NEARER, /* somebody waits: the loop wakes for it */
  JOIN,       /* a thread begins to wait for what is in: the loop wakes for it */
  CLOSE,      /* the loop may end, and who sleeps leaves */
  OPEN,       /* the loop must stay */
  UNREF,      /* the loop may end */
};

#define FAR_NS UVS_HOUR(4)
#define NEAR_NS UVS_HOUR(1)

static struct scene {
  enum what what;
  bool callback;   /* a callback waits, not a thread */
  bool turn_first; /* the turn is interrupted, not the thread */

  struct fixture f;
  uvs_queue_t *q;
  struct taker taker;
  bool waits; /* it does */
  int rc;
  uint64_t due_ns; /* what the loop must know of */

  unsigned step, target;
  bool hit;
  uv_sem_t to_main, to_thread;
} scene;

static _Thread_local bool under_test;

/* ----------------------------------------------------------- what happens --- */

/* On a thread that is not the loop's. */
static int perform(void *arg) {
  struct scene *c = &scene;

  (void)arg;
  switch (c->what) {
  case PUT_DUE:
    return put_ms(c->q, 'x', 0);
  case PUT_NEARER:
    return uvs_queue_put_at(c->q, value_of('x'), (int64_t)c->due_ns, NULL);
  case CLOSE:
    return uvs_queue_close(c->q);
  case OPEN:
    return uvs_queue_open(c->f.s, NULL, &c->q);
  case UNREF:
    return uvs_queue_unref(c->q);
  default:
    return UV_EINVAL;
  }
}

static void come_in(void) {
  if (scene.what != JOIN) {
    scene.rc = elsewhere(perform, NULL);
    return;
  }
  scene.rc = taker_start(&scene.taker, scene.q, NULL, 0);
  scene.waits = true;
  if (!conds_await(1))
    abort();
}

static void on_step(void) {
  if (!under_test || scene.step++ != scene.target)
    return;
  under_test = false;
  scene.hit = true;
  if (scene.turn_first) {
    come_in();
  } else {
    uv_sem_post(&scene.to_main);
    uv_sem_wait(&scene.to_thread);
  }
  under_test = true;
}

/* The turn, with the thread let in. */
static void turn_interrupted(void) {
  uvs_clock_changed(scene.f.s);
  under_test = true;
  fixture_turn(&scene.f);
  under_test = false;
  if (!scene.hit)
    come_in();
}

/* Where the joining thread is through with what can be interrupted. */
static void is_asleep(void) {
  under_test = false;
  uv_sem_post(&scene.to_main);
}

static void thread_main(void *arg) {
  struct scene *c = arg;

  under_test = true;
  if (c->what == JOIN) {
    c->taker.rc = uvs_queue_take(c->q, NULL, &c->taker.e);
  } else {
    c->rc = perform(NULL);
    uv_sem_post(&c->to_main);
  }
  under_test = false;
}

/* The thread, with turns of the loop let in. */
static void thread_interrupted(void) {
  uv_thread_t thread;

  if (scene.what == JOIN)
    conds.falls_asleep = is_asleep;
  if (uv_thread_create(&thread, thread_main, &scene) < 0)
    abort();
  uv_sem_wait(&scene.to_main);
  if (scene.hit) {
    uvs_clock_changed(scene.f.s);
    fixture_turn(&scene.f);
    uv_sem_post(&scene.to_thread);
    uv_sem_wait(&scene.to_main);
  }
  conds.falls_asleep = NULL;
  if (scene.what == JOIN) {
    scene.taker.thread = thread;
    scene.waits = true;
  } else {
    uv_thread_join(&thread);
  }
}

/* ------------------------------------------------------------- before and after --- */

static enum greatest_test_res set_the_scene(struct scene *c, bool real) {
  struct fixture *f = &c->f;

  fixture_init(f);
  f->real_clock = real;
  conds_forget();
  CHECK_CALL(fixture_open_turned(f));
  c->step = 0;
  c->hit = false;
  c->waits = false;
  c->rc = 0;
  c->due_ns = (uint64_t)(uvs_now(f->s) + NEAR_NS);
  c->q = NULL;
  if (c->what == OPEN)
    PASS();
  ASSERT_RC(0, uvs_queue_open(f->s, NULL, &c->q));
  if (c->what == JOIN)
    ASSERT_RC(0, uvs_queue_put_at(c->q, value_of('x'), (int64_t)c->due_ns, NULL));
  else
    ASSERT_RC(0, uvs_queue_put(c->q, value_of('z'), FAR_NS, NULL));
  if (c->callback) {
    ASSERT_RC(0, uvs_queue_consume(c->q, logs_value, f));
  } else if (c->what != JOIN) {
    ASSERT_RC(0, taker_start(&c->taker, c->q, NULL, 0));
    ASSERT(conds_await(1));
    c->waits = true;
  }
  fixture_turn(f);
  PASS();
}

static enum greatest_test_res the_loop_knows(struct scene *c) {
  uvs_t *s = c->f.s;

  ASSERT(uvs__queues_quiet(s)); /* no news are left unread */
  ASSERT_U64(c->due_ns, s->queues.next_ns);
  if (c->f.real_clock)
    ASSERT_U64(c->due_ns, s->ticker.armed_ns);
  PASS();
}

static enum greatest_test_res taker_gets_x(struct scene *c) {
  uv_thread_join(&c->taker.thread);
  c->waits = false;
  ASSERT_RC(0, c->taker.rc);
  ASSERT_EQ(value_of('x'), c->taker.e.value);
  PASS();
}

/* Nobody tells the loop anything more. */
static enum greatest_test_res check(struct scene *c) {
  struct fixture *f = &c->f;

  fixture_turn(f); /* if somebody has woken it, that is */
  ASSERT_RC(0, c->rc);
  switch (c->what) {
  case PUT_DUE:
    if (c->callback && f->real_clock)
      ASSERT(fixture_wait_log(f, EV_USER, 'x', 1)); /* by its timer, if it came in just before */
    else if (c->callback)
      ASSERT_STR_EQ("x", log_string(f, EV_USER));
    else
      CHECK_CALL(taker_gets_x(c));
    break;
  case PUT_NEARER:
  case JOIN:
    CHECK_CALL(the_loop_knows(c));
    if (!f->real_clock) {
      fixture_advance_ns(f, NEAR_NS);
      if (c->callback)
        ASSERT_STR_EQ("x", log_string(f, EV_USER));
      else
        CHECK_CALL(taker_gets_x(c));
    }
    break;
  case CLOSE:
    ASSERT_FALSE(fixture_alive(f));
    c->q = NULL;
    break;
  case OPEN:
    ASSERT(fixture_alive(f));
    break;
  case UNREF:
    ASSERT_FALSE(fixture_alive(f));
    break;
  }
  if (c->q != NULL)
    ASSERT_RC(0, uvs_queue_close(c->q));
  if (c->waits) {
    uv_thread_join(&c->taker.thread);
    ASSERT_RC(UV_ECANCELED, c->taker.rc);
  }
  CHECK_CALL(fixture_close(f));
  PASS();
}

static enum greatest_test_res for_every_step(enum what what, bool callback, bool turn_first) {
  struct scene *c = &scene;

  c->what = what;
  c->callback = callback;
  c->turn_first = turn_first;
  for (int real = 0; real < 2; real++) {
    c->hit = true;
    for (c->target = 0; c->hit; c->target++) {
      CHECK_CALL(set_the_scene(c, real != 0));
      if (turn_first)
        turn_interrupted();
      else
        thread_interrupted();
      CHECK_CALL(check(c));
    }
    ASSERT(c->target > 2); /* there were steps */
  }
  PASS();
}

static enum greatest_test_res both_ways(enum what what) {
  for (int i = 0; i < 4; i++) {
    if (what == JOIN && i % 2 == 1)
      continue; /* it joins an empty line */
    CHECK_CALL(for_every_step(what, i % 2 == 1, i / 2 == 1));
  }
  PASS();
}

/* D18 D23 */
TEST a_value_that_is_due_reaches_who_waits(void) {
  CHECK_CALL(both_ways(PUT_DUE));
  PASS();
}

/* D23 */
TEST a_nearer_value_wakes_the_loop_in_time(void) {
  CHECK_CALL(both_ways(PUT_NEARER));
  PASS();
}

/* D23 */
TEST one_who_begins_to_wait_is_known_to_the_loop(void) {
  CHECK_CALL(both_ways(JOIN));
  PASS();
}

static uvs_item_t known; /* to who puts */
static unsigned seen, unknown;

/* Between two steps of put: another thread that finds the value finds its item as well. */
static void on_step_of_put(void) {
  uvs_entry_t e;

  if (!under_test)
    return;
  under_test = false;
  if (uvs_queue_peek(scene.q, &e) == 0) {
    seen++;
    unknown += e.item != known;
  }
  under_test = true;
}

static int put_under_test(void *arg) {
  int rc;

  (void)arg;
  under_test = true;
  rc = uvs_queue_put(scene.q, value_of('x'), 0, &known);
  under_test = false;
  return rc;
}

TEST the_item_is_known_before_anybody_can_take_the_value(void) {
  scene.what = PUT_DUE;
  scene.callback = true;
  CHECK_CALL(set_the_scene(&scene, false));
  ASSERT_RC(1, uvs_queue_clear(scene.q, NULL, NULL));
  known = 0;
  seen = unknown = 0;
  uvs__step_hook = on_step_of_put;
  ASSERT_RC(0, elsewhere(put_under_test, NULL));
  uvs__step_hook = on_step;
  ASSERT(seen > 0);
  ASSERT_U64(0, unknown);
  fixture_turn(&scene.f);
  ASSERT_STR_EQ("x", log_string(&scene.f, EV_USER));
  ASSERT_RC(0, uvs_queue_close(scene.q));
  CHECK_CALL(fixture_close(&scene.f));
  PASS();
}

/* L1 L11 */
TEST a_close_lets_the_loop_end(void) {
  CHECK_CALL(both_ways(CLOSE));
  PASS();
}

/* L1 */
TEST an_open_queue_keeps_the_loop(void) {
  CHECK_CALL(both_ways(OPEN));
  PASS();
}

/* L1 */
TEST an_unref_lets_the_loop_end(void) {
  CHECK_CALL(both_ways(UNREF));
  PASS();
}

SUITE(queue_step_by_step) {
  uvs__step_hook = on_step; /* does nothing but on a thread that is under test */
  uv_sem_init(&scene.to_main, 0);
  uv_sem_init(&scene.to_thread, 0);
  RUN_TEST(a_value_that_is_due_reaches_who_waits);
  RUN_TEST(a_nearer_value_wakes_the_loop_in_time);
  RUN_TEST(one_who_begins_to_wait_is_known_to_the_loop);
  RUN_TEST(the_item_is_known_before_anybody_can_take_the_value);
  RUN_TEST(a_close_lets_the_loop_end);
  RUN_TEST(an_open_queue_keeps_the_loop);
  RUN_TEST(an_unref_lets_the_loop_end);
  uv_sem_destroy(&scene.to_main);
  uv_sem_destroy(&scene.to_thread);
}

TEST_MAIN(RUN_SUITE(queue_step_by_step));
