/* SPDX-License-Identifier: MIT
 *
 * Waits and groups, stopped between two of their steps while something else happens from start to
 * end. Built with -DUVS__STEPS; to take the pool's lock is a step, too.
 *
 * The caller is a thread of its own; the test thread is the loop's. At its n-th step the caller
 * asks the loop to act, and goes on when that is over.
 */
#include "scheduler.h"

#include <stdlib.h>

#include "lib/bodies.h"
#include "lib/fixture.h"
#include "lib/stage.h"

#define STEPS_MAX 5000
#define DUE_MS 10

enum call { WAIT, GATHER, RACE };

static struct {
  struct fixture f;
  uvs_t *s; /* with a reference of the test's: what is asked is whether the call has its own */
  enum call call;
  uvs_id_t id; /* of the task to wait for */
  int64_t limit_ns;
  int64_t delay_ns; /* of all members but the second */
  int rc;
  uvs_outcome_t o[3];

  int left;            /* steps to the stop; below 0: behind it */
  bool at_every_step;  /* not only at one */
  _Atomic int stopped; /* the caller waits for the loop */
  _Atomic int over;    /* the call has returned */
  uv_sem_t go;
  long live;        /* blocks of memory before the call */
  bool unprotected; /* it had memory or tasks of this scheduler, and no reference */
  _Atomic int dones;
} scene;

static _Thread_local bool under_test;

static void on_step(void) {
  if (!under_test || atomic_load(&scene.s->ticker.senders) > 0) /* close would wait for it */
    return;
  if (!scene.at_every_step && scene.left-- != 0)
    return;
  under_test = false;
  if ((atomic_load(&scene.f.fault.live) > scene.live || counts_of(scene.s).submitted > 0) &&
      atomic_load(&scene.s->refs) < 3)
    scene.unprotected = true;
  atomic_store(&scene.stopped, 1);
  uvs_clock_changed(scene.s); /* the loop may sleep */
  uv_sem_wait(&scene.go);
  under_test = true;
}

void __real_uv_mutex_lock(uv_mutex_t *mutex);
void __wrap_uv_mutex_lock(uv_mutex_t *mutex);
void __wrap_uv_mutex_lock(uv_mutex_t *mutex) {
  if (under_test && scene.s != NULL && mutex == &scene.s->pool.lock)
    on_step();
  __real_uv_mutex_lock(mutex);
}

static void caller_main(void *arg) {
  uvs_task_t t[3] = {plain(work_nothing, NULL), plain(fail_work, NULL), plain(work_nothing, NULL)};

  (void)arg;
  for (int i = 0; i < 3; i++) {
    t[i].done = done_counts;
    t[i].arg = &scene.dones;
    uvs_outcome_init(&scene.o[i]);
  }
  t[0].delay_ns = t[2].delay_ns = scene.delay_ns;
  under_test = true;
  if (scene.call == WAIT)
    scene.rc = uvs_wait(scene.s, scene.id, scene.limit_ns, 0, scene.o);
  else if (scene.call == GATHER)
    scene.rc = uvs_all(scene.s, t, 3, scene.limit_ns, scene.o);
  else
    scene.rc = uvs_any(scene.s, t, 3, scene.limit_ns, NULL, scene.o);
  under_test = false;
  atomic_store(&scene.over, 1);
}

/* The loop turns until the caller has stopped or come back: true if it has stopped. Time passes
 * when it sleeps and there is something to wait for. */
static bool turn_until_stopped(void) {
  int64_t end_ns = (int64_t)uv_hrtime() + PATIENCE_NS;

  while (!atomic_load(&scene.stopped) && !atomic_load(&scene.over)) {
    if ((int64_t)uv_hrtime() > end_ns) {
      fprintf(stderr, "the call does not come back\n");
      abort();
    }
    fixture_turn(&scene.f);
    if (asleep_now() > 0 && live_tasks(scene.s) > 0)
      fixture_advance_ms(&scene.f, DUE_MS);
  }
  return atomic_exchange(&scene.stopped, 0) != 0;
}

static enum greatest_test_res set_the_scene(enum call call, int64_t limit_ns, int64_t delay_ns,
                                            uv_thread_t *caller) {
  uvs_task_t t = plain(give_arg, &scene);

  fixture_init(&scene.f);
  CHECK_CALL(fixture_open_turned(&scene.f));
  scene.s = uvs_retain(scene.f.s);
  scene.call = call;
  scene.limit_ns = limit_ns;
  scene.delay_ns = delay_ns;
  if (call == WAIT) {
    t.keep = 1;
    t.delay_ns = delay_ns;
    ASSERT_RC(0, uvs_submit(scene.s, &t, &scene.id));
  }
  scene.unprotected = false;
  atomic_store(&scene.stopped, 0);
  atomic_store(&scene.over, 0);
  atomic_store(&scene.dones, 0);
  scene.live = atomic_load(&scene.f.fault.live);
  ASSERT_RC(0, uv_sem_init(&scene.go, 0));
  uvs__step_hook = on_step;
  ASSERT_RC(0, uv_thread_create(caller, caller_main, NULL));
  PASS();
}

static enum greatest_test_res close_at(int n, enum call call, bool *ret_came) {
  uv_thread_t caller;

  scene.left = n;
  scene.at_every_step = false;
  CHECK_CALL(set_the_scene(call, UVS_MS(1), UVS_DAY(1), &caller));
  *ret_came = turn_until_stopped();
  if (*ret_came) {
    scene.f.s = NULL;
    ASSERT_RC(0, uvs_close(scene.s, note_closed));
    fixture_turn_until_closed(&scene.f); /* to its very end, unless it needs the caller for that */
    uv_sem_post(&scene.go);
    ASSERT_FALSE(turn_until_stopped());
    fixture_turn_until_closed(&scene.f);
    ASSERT(scene.f.closed);
  }
  uv_thread_join(&caller);
  uvs__step_hook = NULL;
  uv_sem_destroy(&scene.go);
  ASSERT_FALSE(scene.unprotected);
  /* Refused, or every member is told of. */
  if (scene.rc != UV_ESHUTDOWN) {
    ASSERT(scene.rc == UV_ETIMEDOUT || scene.rc == (call == RACE ? UV_ECANCELED : 0) ||
           (call == RACE && scene.rc == UV_EIO));
    for (int i = 0; i < 3 && call == GATHER; i++) {
      ASSERT_RC(UVS_ENDED, scene.o[i].state);
      ASSERT(scene.o[i].status == UV_ECANCELED || (i == 1 && scene.o[i].status == UV_EIO));
    }
  }
  uvs_release(scene.s);
  scene.s = NULL;
  CHECK_CALL(fixture_close(&scene.f)); /* nothing is left behind */
  ASSERT_RC(scene.rc == UV_ESHUTDOWN ? 0 : 3, atomic_load(&scene.dones));
  PASS();
}

/* L12 S50 */
TEST close_may_come_at_any_step_of_gather_and_race(void) {
  for (enum call call = GATHER; call <= RACE; call++) {
    bool came = true;
    int n;

    for (n = 0; came && n < STEPS_MAX; n++)
      CHECK_CALL(close_at(n, call, &came));
    ASSERT(n > 30); /* it was stopped at all */
    ASSERT(n < STEPS_MAX);
  }
  PASS();
}

static enum greatest_test_res end_at(int n, enum call call, bool *ret_came) {
  uv_thread_t caller;

  scene.left = n;
  scene.at_every_step = false;
  CHECK_CALL(set_the_scene(call, UVS_NEVER, UVS_MS(DUE_MS), &caller));
  *ret_came = turn_until_stopped();
  if (*ret_came) {
    fixture_advance_ms(&scene.f, DUE_MS); /* what it waits for is over, if it is there yet */
    uv_sem_post(&scene.go);
    ASSERT_FALSE(turn_until_stopped());
  }
  uv_thread_join(&caller);
  uvs__step_hook = NULL;
  uv_sem_destroy(&scene.go);
  ASSERT_RC(0, scene.rc);
  if (call == WAIT) {
    ASSERT_RC(0, scene.o[0].status);
    ASSERT_EQ((void *)&scene, scene.o[0].result);
  }
  for (int i = 0; i < 3 && call == GATHER; i++)
    ASSERT_RC(i == 1 ? UV_EIO : 0, scene.o[i].status);
  uvs_release(scene.s);
  scene.s = NULL;
  CHECK_CALL(fixture_close(&scene.f));
  PASS();
}

/* F13: an end between any two steps of a wait wakes it, or is seen before it sleeps. */
TEST an_end_at_any_step_of_a_wait_is_not_missed(void) {
  for (enum call call = WAIT; call <= RACE; call++) {
    bool came = true;
    int n;

    for (n = 0; came && n < STEPS_MAX; n++)
      CHECK_CALL(end_at(n, call, &came));
    ASSERT(n > 5);
    ASSERT(n < STEPS_MAX);
  }
  PASS();
}

/* S48: others succeed whenever the race looks at its members, so that it never has to sleep. */
TEST race_keeps_its_limit_although_there_is_always_news(void) {
  uv_thread_t caller;
  unsigned stops = 0;

  scene.at_every_step = true;
  CHECK_CALL(set_the_scene(RACE, UVS_MS(1), UVS_DAY(1), &caller));
  while (turn_until_stopped()) {
    uint64_t completed = counts_of(scene.s).completed;

    ASSERT_RC(0, uvs_execute(scene.s, work_nothing, NULL));
    for (int i = 0; i < 1000000 && counts_of(scene.s).completed == completed; i++)
      fixture_turn(&scene.f);
    ASSERT(++stops < STEPS_MAX);
    uv_sem_post(&scene.go);
  }
  uv_thread_join(&caller);
  uvs__step_hook = NULL;
  uv_sem_destroy(&scene.go);
  ASSERT(stops > 30);
  ASSERT_RC(UV_ETIMEDOUT, scene.rc);
  uvs_release(scene.s);
  scene.s = NULL;
  CHECK_CALL(fixture_close(&scene.f));
  PASS();
}

/* ---------------------------------------------------------- a guessed id --- */

static struct {
  uvs_t *s;
  uvs_id_t ids[100];
  struct waiter w;
  bool waits;
} guess;

/* As soon as the first of many is made, another thread waits for it. */
static void wait_for_the_first(void) {
  if (!under_test || guess.waits || guess.ids[0] == 0)
    return;
  under_test = false;
  guess.waits = waiter_start(&guess.w, guess.s, guess.ids[0], UVS_NEVER, 0) == 0 && await_asleep(1);
  under_test = true;
}

/* L18: the submission is refused for lack of memory, and the slot goes to another task. */
TEST a_wait_for_a_guessed_id_never_tells_of_the_next_task_of_the_slot(void) {
  static struct fixture f;
  uvs_task_t t[100];
  bool failed = true;
  int refused = 0;

  for (long n = 0; failed; n++) {
    static char result;
    uvs_id_t next;
    uvs_outcome_t o;
    int rc;

    ASSERT(n < 100);
    fixture_init(&f);
    CHECK_CALL(fixture_open(&f)); /* the loop has never turned: this thread takes others' road */
    memset(&guess, 0, sizeof guess);
    guess.s = f.s;
    for (int i = 0; i < 100; i++) {
      t[i] = plain(work_nothing, NULL);
      t[i].keep = 1;
    }
    under_test = true;
    uvs__step_hook = wait_for_the_first;
    fault_after(n);
    rc = uvs_submit_many(f.s, t, 100, guess.ids);
    failed = fault_hit();
    under_test = false;
    ASSERT_RC(failed ? UV_ENOMEM : 0, rc);
    t[0].result = &result;
    do { /* until it has the slot: the free list has others, too */
      ASSERT_RC(0, uvs_submit(f.s, &t[0], &next));
    } while (failed && guess.waits && (next & UVS__SLOT_MASK) != (guess.w.id & UVS__SLOT_MASK));
    fixture_turn(&f);
    if (guess.waits) {
      refused += failed;
      waiter_join(&guess.w);
      ASSERT_RC(failed ? UV_ENOENT : 0, guess.w.rc);
    }
    uvs__step_hook = NULL; /* not before: the waiter looks at it */
    ASSERT_RC(0, peek_at(f.s, next, &o));
    ASSERT_EQ((void *)&result, o.result);
    ASSERT_U64(0, uvs__agenda_cold(&f.s->agenda, uvs__slot(f.s, next & UVS__SLOT_MASK))->pins);
    CHECK_CALL(fixture_close(&f));
  }
  ASSERT(refused > 0);
  PASS();
}

static struct {
  struct fixture f;
  struct waiter waiter;
  uvs_id_t id;
  bool waits;
} refused;

static void wait_and_shut_down(void) {
  if (!under_test || refused.waits || refused.id == 0)
    return;
  under_test = false;
  refused.waits = true;
  waiter_start(&refused.waiter, refused.f.s, refused.id, UVS_NEVER, 0);
  await_asleep(1);
  uvs_shutdown(refused.f.s);
  under_test = true;
}

/* L12. Somebody guesses the id of a task that is just being submitted, and waits for it; then it is
 * refused. */
TEST a_wait_for_a_task_that_is_refused_after_all_ends(void) {
  struct fixture *f = &refused.f;
  int rc;

  fixture_init(f);
  CHECK_CALL(fixture_open(f));
  uvs_task_t t = fixture_once(f, 'a', UVS_MS(10));
  t.keep = 1;
  under_test = true;
  uvs__step_hook = wait_and_shut_down;
  rc = uvs_submit(f->s, &t, &refused.id);
  under_test = false;
  ASSERT_RC(UV_ESHUTDOWN, rc);
  ASSERT(refused.waits);
  fixture_turn(f);
  ASSERT(await_asleep(0));
  waiter_join(&refused.waiter);
  uvs__step_hook = NULL; /* not before: the waiter looks at it */
  ASSERT_RC(UV_ENOENT, refused.waiter.rc);
  CHECK_CALL(fixture_close(f));
  PASS();
}

SUITE(group_steps) {
  RUN_TEST(a_wait_for_a_task_that_is_refused_after_all_ends);
  RUN_TEST(close_may_come_at_any_step_of_gather_and_race);
  RUN_TEST(an_end_at_any_step_of_a_wait_is_not_missed);
  RUN_TEST(race_keeps_its_limit_although_there_is_always_news);
  RUN_TEST(a_wait_for_a_guessed_id_never_tells_of_the_next_task_of_the_slot);
}

TEST_MAIN(RUN_SUITE(group_steps));
