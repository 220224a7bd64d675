/* SPDX-License-Identifier: MIT
 *
 * The short ways, step by step. Built with -DUVS__STEPS: what is under test is stopped before its
 * n-th atomic step, and another thread does something there from start to end; then the next n,
 * until there is no n-th step any more.
 *
 * A light loop task, which goes from RUNNING to FREE in one move; a light turn, which falls asleep
 * without a full one; and the first lane there ever was.
 */
#include "uvsched/lane.h"
#include "uvsched/queue.h"

#include "lib/bodies.h"
#include "lib/cleanups.h"
#include "lib/fixture.h"
#include "lib/limited.h"
#include "lib/threads.h"
#include "lib/values.h"

#include "scheduler.h"

#define STEPS_MAX 3000

static _Thread_local bool under_test;

static struct {
  struct fixture *f;
  int act;
  int left;
  bool came;
  int rc;
  uvs_id_t id;
  int (*run)(void *arg); /* the act */
  bool sums_wrong;
} scene;

static int act_and_look(void *arg) {
  int rc = scene.run(arg);
  uvs_counts_t c = counts_of(scene.f->s);

  scene.sums_wrong |= !adds_up(&c);
  return rc;
}

static void on_step(void) {
  if (!under_test || scene.came || scene.left-- > 0)
    return;
  scene.came = true;
  scene.rc = elsewhere(act_and_look, NULL);
}

static void begin_scene(struct fixture *f, int act, int n, int (*run)(void *arg)) {
  memset(&scene, 0, sizeof scene);
  scene.f = f;
  scene.act = act;
  scene.left = n;
  scene.run = run;
}

/* From here on the loop's thread is under test. */
static void watch(bool on) {
  under_test = on;
  uvs__step_hook = on ? on_step : NULL;
}

/* ---- a light loop task ---- */

enum { CANCEL, TOKEN, FINISH, MOVE, CLEAN, SUBMIT, SHUTDOWN, NOW, LOOP_ACTS };
enum { SUCCEEDS, FAILS, STOPS, PENDS, HOWS };

static uvs_task_t another;

static int loop_act(void *arg) {
  uvs_t *s = scene.f->s;

  (void)arg;
  switch (scene.act) {
  case CANCEL:
    return uvs_cancel(s, scene.id, 0);
  case TOKEN:
    return uvs_cancel(s, scene.id, UVS_CANCEL_TOKEN);
  case FINISH:
    return uvs_finish(s, scene.id, UV_EPROTO);
  case MOVE:
    return uvs_reschedule(s, scene.id, UVS_MS(33));
  case CLEAN:
    return attach(scene.f, scene.id, 'c', 0);
  case SUBMIT:
    return uvs_submit(s, &another, NULL);
  case SHUTDOWN:
    return uvs_shutdown(s);
  default:
    return uvs_shutdown_now(s, NULL, NULL);
  }
}

static enum greatest_test_res check_light(struct fixture *f, int act, int how) {
  unsigned ran = log_count(f, EV_AFTER, 'a');
  uvs_counts_t c = counts_of(f->s);
  bool cancelled = (act == CANCEL || act == TOKEN) && scene.rc >= 0;
  bool failed;

  ASSERT_FALSE(scene.sums_wrong);
  ASSERT(adds_up(&c));
  ASSERT_U64(0, live_tasks(f->s));
  ASSERT_U64(0, f->s->taken);
  ASSERT_U64(0, f->s->taken_ref);
  ASSERT_U64(0, uvs__live(f->s));
  ASSERT_U64(ran + log_count(f, EV_AFTER, 'b'), c.runs);
  ASSERT(ran <= 1);
  if (act == CANCEL || act == TOKEN) {
    ASSERT(scene.rc >= 0 || scene.rc == UV_ENOENT);
    ASSERT_U64(scene.rc != UVS_NEVER_RUNS, ran);
    ASSERT_U64(cancelled, c.cancelled);
  } else if (act != SHUTDOWN && act != NOW) {
    ASSERT_U64(1, ran);
    ASSERT_U64(0, c.cancelled);
  }
  if (act == SUBMIT)
    ASSERT_U64(1, log_count(f, EV_AFTER, 'b'));
  if (act == CLEAN) { /* the task was there: called once, in its time or at the next turn */
    ASSERT_RC(0, scene.rc);
    ASSERT_U64(1, log_count(f, EV_USER, 'c'));
  }
  /* Who was not cancelled, and failed, is told of, once. */
  failed =
      ran == 1 && !cancelled && (how == FAILS || (how == PENDS && act == FINISH && scene.rc == 0));
  if (act != NOW) {
    ASSERT_U64(failed, log_count(f, EV_ERROR, 'a'));
    ASSERT_U64(failed, c.failed);
  }
  ASSERT_RC(UV_ENOENT, state_of(f->s, scene.id)); /* for ever: L18 */
  ASSERT_RC(UV_ENOENT, uvs_cancel(f->s, scene.id, 0));
  PASS();
}

static enum greatest_test_res play_loop(int act, int how, bool unref, int n, bool *ret_came) {
  static const int ret[] = {0, UV_EIO, UVS_STOP, UVS_PENDING};
  struct fixture f;

  fixture_init(&f);
  begin_scene(&f, act, n, loop_act);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_loop_task(&f, 'a', UVS_MS(10));
  t.done = NULL;
  t.flags = unref ? UVS_UNREF : 0;
  probe_of(&t)->ret = ret[how];
  another = fixture_loop_task(&f, 'b', 0);
  another.done = NULL;
  ASSERT_RC(0, uvs_submit(f.s, &t, &scene.id));
  ASSERT_EQ(NULL,
            uvs__agenda_cold(&f.s->agenda, uvs__slot(f.s, (uint32_t)scene.id & UVS__SLOT_MASK)));
  fixture_turn(&f);
  vclock_advance_ns(&f.clock, UVS_MS(10));
  ASSERT_RC(0, uvs_clock_changed(f.s));
  watch(true);
  fixture_turn(&f);
  watch(false);
  *ret_came = scene.came;
  if (!scene.came)
    scene.rc = elsewhere(act_and_look, NULL);
  fixture_turn(&f);
  fixture_advance_ms(&f, 50); /* if it was moved */
  if (how == PENDS) {
    uvs_finish(f.s, scene.id, 0); /* if nobody has yet */
    fixture_turn(&f);
  }
  CHECK_CALL(check_light(&f, act, how));
  ASSERT_FALSE(fixture_alive(&f)); /* L1 */
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S68 V9 F12 L14 L18 */
TEST a_light_loop_task_ends_once_whatever_comes_between(void) {
  for (int act = 0; act < LOOP_ACTS; act++)
    for (int how = 0; how < HOWS; how++)
      for (int unref = 0; unref < 2; unref++) {
        bool came = true;
        int n;

        for (n = 0; came && n < STEPS_MAX; n++)
          CHECK_CALL(play_loop(act, how, unref != 0, n, &came));
        ASSERT(n > 20); /* it was stopped at all */
        ASSERT(n < STEPS_MAX);
      }
  PASS();
}

/* ---- a light turn ---- */

enum {
  SEND_NOW,
  SEND_SOON,
  SEND_NEVER,
  SEND_WALL,
  SEND_LIMITED,
  PUT_VALUE,
  DISPOSE,
  STOP_ONE,
  FINISH_ONE,
  TURN_ACTS
};

static uvs_lane_t lane;
static uvs_queue_t *queue;
static uvs_task_t sent;
static uvs_id_t sent_id, pending_id, waiting_id;

static int turn_act(void *arg) {
  uvs_t *s = scene.f->s;

  (void)arg;
  switch (scene.act) {
  case PUT_VALUE:
    return put_ms(queue, 'v', 2);
  case DISPOSE:
    return uvs_lane_dispose(lane, 0);
  case STOP_ONE:
    return uvs_cancel(s, waiting_id, 0);
  case FINISH_ONE:
    return uvs_finish(s, pending_id, 0);
  default:
    return uvs_submit(s, &sent, &sent_id);
  }
}

static void wait_or_advance(struct fixture *f, enum event_kind what, int tag) {
  if (!f->real_clock)
    fixture_advance_ms(f, 10);
  else
    fixture_wait_log(f, what, tag, 1);
}

/* real: by the clock of the machine, and with the timer armed. */
static enum greatest_test_res play_turn(int act, bool real, int n, bool *ret_came) {
  uvs_id_t far_id = 0;
  uvs_lane_options_t o;
  struct fixture f;

  fixture_init(&f);
  f.real_clock = real;
  f.options.concurrency = 2;
  begin_scene(&f, act, n, turn_act);
  CHECK_CALL(queue_open(&f, &queue));
  if (act == PUT_VALUE) /* else a queue is a reason for another way */
    ASSERT_RC(0, uvs_queue_consume(queue, logs_value, &f));
  if (act == DISPOSE) {
    uvs_lane_options_init(&o);
    ASSERT_RC(0, uvs_lane_open(f.s, &o, &lane));
    ASSERT_RC(0, uvs_lane_add_cleanup(f.s, lane, note, fixture_probe(&f, 'q'), 0));
  }
  uvs_task_t w = fixture_once(&f, 'w', UVS_NEVER);
  ASSERT_RC(0, uvs_submit(f.s, &w, &waiting_id));
  uvs_task_t p = fixture_once(&f, 'p', 0);
  probe_of(&p)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &p, &pending_id));
  if (real)
    ASSERT_RC(0, uvs_schedule(f.s, UVS_HOUR(1), work_nothing, NULL, &far_id));
  fixture_turn(&f);
  sent = fixture_once(&f, 's', act == SEND_SOON ? UVS_MS(2) : act == SEND_NEVER ? UVS_NEVER : 0);
  if (act == SEND_WALL) {
    sent.from = UVS_FROM_WALL;
    sent.delay_ns = (int64_t)uvs__clock_wall(&f.s->clock) + UVS_MS(2);
  }
  if (act == SEND_LIMITED) {
    sent.limit_ns = UVS_MS(3);
    probe_of(&sent)->ret = UVS_PENDING;
  }
  uvs_task_t r = fixture_once(&f, 'r', 0);
  r.done = NULL;
  fakepool_hold();
  ASSERT_RC(0, uvs_submit(f.s, &r, NULL));
  fixture_turn(&f);
  ASSERT(fakepool_step());
  watch(true);
  ASSERT(fakepool_step()); /* home: the light turn */
  watch(false);
  fakepool_release();
  *ret_came = scene.came;
  if (!scene.came)
    scene.rc = elsewhere(act_and_look, NULL);
  ASSERT_RC(0, scene.rc);

  switch (act) {
  case SEND_NEVER: /* L1: it keeps the loop */
    fixture_turn(&f);
    ASSERT_RC(UVS_WAITING, state_of(f.s, sent_id));
    if (!real) /* else it need not be heard of before the hour is over */
      ASSERT_U64(3, f.s->taken);
    ASSERT_RC(UVS_NEVER_RUNS, uvs_cancel(f.s, sent_id, 0));
    break;
  case SEND_LIMITED:
    fixture_turn(&f);
    if (real && log_count(&f, EV_WORK, 's') == 0) { /* so slow a machine that it did not start */
      fixture_wait_log(&f, EV_DONE, 's', 1);
      ASSERT_U64(1, counts_of(f.s).timed_out);
      break;
    }
    ASSERT_U64(1, log_count(&f, EV_WORK, 's'));
    ASSERT_RC(0, attach(&f, sent_id, 'c', UVS_WHEN_SETTLED));
    wait_or_advance(&f, EV_USER, 'c');
    ASSERT_U64(1, counts_of(f.s).timed_out);
    ASSERT_RC(0, uvs_finish(f.s, sent_id, 0));
    break;
  case PUT_VALUE:
    wait_or_advance(&f, EV_USER, 'v');
    ASSERT_U64(1, log_count(&f, EV_USER, 'v'));
    break;
  case DISPOSE:
    fixture_turn(&f);
    ASSERT_U64(1, log_count(&f, EV_USER, 'q'));
    break;
  case STOP_ONE: /* L16 */
    fixture_turn(&f);
    ASSERT_U64(1, log_count(&f, EV_DONE, 'w'));
    break;
  case FINISH_ONE: /* L14 */
    fixture_turn(&f);
    ASSERT_U64(1, log_count(&f, EV_DONE, 'p'));
    break;
  default:
    wait_or_advance(&f, EV_DONE, 's');
    ASSERT_U64(1, log_count(&f, EV_DONE, 's'));
  }
  uvs_finish(f.s, pending_id, 0);
  uvs_cancel(f.s, waiting_id, 0);
  uvs_cancel(f.s, far_id, 0);
  fixture_turn(&f);
  ASSERT_FALSE(scene.sums_wrong);
  ASSERT_U64(0, live_tasks(f.s));
  CHECK_CALL(queue_close(&f, queue));
  PASS();
}

static enum greatest_test_res nothing_is_lost(bool real) {
  for (int act = 0; act < TURN_ACTS; act++) {
    bool came = true;
    int n;

    for (n = 0; came && n < STEPS_MAX; n++)
      CHECK_CALL(play_turn(act, real, n, &came));
    ASSERT(n > 10); /* it was stopped at all */
    ASSERT(n < STEPS_MAX);
  }
  PASS();
}

/* S68 L1 L14 L16 */
TEST nothing_that_comes_during_a_light_turn_is_lost(void) {
  CHECK_CALL(nothing_is_lost(false));
  PASS();
}

TEST nor_by_the_clock_of_the_machine(void) {
  CHECK_CALL(nothing_is_lost(true));
  PASS();
}

/* ---- what becomes due meanwhile ---- */

static uint64_t second_ns;

/* When the first is handed over, time passes. */
static void on_step_after_first(void) {
  if (!under_test || scene.f->s->pool.ready_count[0] == 0)
    return;
  while (uv_hrtime() <= second_ns) {
  }
}

/* It has as much time as if the turn had been over: the timer brings it. But what is submitted
 * then, and due at once, is not left: see nor_by_the_clock_of_the_machine. */
TEST what_becomes_due_in_a_light_turn_is_left_to_the_timer(void) {
  unsigned seen = 0;

  for (int round = 0; round < 1000 && seen < 3; round++) {
    struct fixture f;
    uvs_id_t id;

    fixture_init(&f);
    f.real_clock = true;
    f.options.concurrency = 2;
    begin_scene(&f, 0, 0, NULL);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t a = fixture_once(&f, 'a', 0);
    a.from = UVS_FROM_MONOTONIC;
    a.delay_ns = (int64_t)uv_hrtime() + UVS_MS(2);
    uvs_task_t b = fixture_once(&f, 'b', 0);
    b.from = UVS_FROM_MONOTONIC;
    b.delay_ns = a.delay_ns + UVS_MS(2);
    second_ns = (uint64_t)b.delay_ns;
    ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &b, &id));
    fixture_turn(&f);
    while ((int64_t)uv_hrtime() <= a.delay_ns) {
    }
    under_test = true;
    uvs__step_hook = on_step_after_first;
    uvs__tick_light(f.s, true);
    watch(false);
    if (f.s->turn_ns < second_ns && f.s->pool.out > 0) { /* else the machine was held up */
      ASSERT_RC(UVS_WAITING, state_of(f.s, id));
      ASSERT(uvs__inbox_next_wake(&f.s->inbox) != UVS__AWAKE);
      seen++;
    }
    ASSERT(fixture_wait_log(&f, EV_DONE, 0, 2));
    CHECK_CALL(fixture_close(&f));
  }
  ASSERT(seen > 0);
  PASS();
}

/* ---- something always comes ---- */

static int send_far(void *arg) {
  return uvs_submit(arg, &sent, NULL);
}

/* Whenever the loop has said when it will wake, another one comes, and at least 0.1 ms has passed.
 */
static void on_step_asleep(void) {
  if (!under_test || scene.left == 0 || atomic_load(&scene.f->s->inbox.next_wake) == UVS__AWAKE)
    return;
  under_test = false;
  second_ns = uv_hrtime() + (uint64_t)UVS_US(100);
  while (uv_hrtime() < second_ns) {
  }
  scene.rc |= elsewhere(send_far, scene.f->s);
  scene.left--;
  under_test = true;
}

/* L7: it falls asleep over what only waits, but does not try that for longer than a turn may take.
 */
TEST a_stream_that_never_ends_does_not_keep_the_loop(void) {
  for (int light = 0; light < 2; light++) {
    struct fixture f;

    fixture_init(&f);
    f.real_clock = true;
    f.options.budget_ns = UVS_MS(1);
    begin_scene(&f, 0, 1000, NULL);
    CHECK_CALL(fixture_open_turned(&f));
    sent = fixture_once(&f, 's', UVS_HOUR(2));
    ASSERT_RC(0, uvs_schedule(f.s, UVS_HOUR(1), work_nothing, NULL, NULL));
    fixture_turn(&f);
    under_test = true;
    uvs__step_hook = on_step_asleep;
    if (light != 0)
      uvs__tick_light(f.s, true);
    else
      uvs__tick(f.s);
    watch(false);
    ASSERT_RC(0, scene.rc);
    ASSERT(scene.left < 1000);
    ASSERT(scene.left >= 1000 - 25); /* 1 ms is ten of them; its end may be seen twice */
    fixture_turn(&f);
    ASSERT_U64(1001 - (unsigned)scene.left, counts_of(f.s).waiting);
    ASSERT_RC(0, uvs_shutdown_now(f.s, NULL, NULL));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* ---- a callback that comes on the way to sleep ---- */

static int finish_pending(void *arg) {
  return uvs_finish(arg, pending_id, 0);
}

static void on_step_finish(void) {
  if (!under_test || scene.came || scene.left-- > 0)
    return;
  scene.came = true;
  scene.rc = elsewhere(finish_pending, scene.f->s);
}

/* A runner comes home less than 1 ms before the timer is to come, so what is due is left to that.
 */
static enum greatest_test_res play_homecoming(int n, bool *ret_came, unsigned *ret_near) {
  struct fixture f;

  fixture_init(&f);
  f.real_clock = true;
  begin_scene(&f, 0, n, NULL);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t p = fixture_once(&f, 'p', 0);
  p.flags = UVS_UNREF;
  probe_of(&p)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &p, &pending_id));
  fixture_turn(&f);
  uvs_task_t t = fixture_once(&f, 't', 0);
  t.flags = UVS_UNREF;
  t.from = UVS_FROM_MONOTONIC;
  t.delay_ns = (int64_t)uv_hrtime() + UVS_MS(4);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  while ((int64_t)uv_hrtime() < t.delay_ns - UVS_US(700)) {
  }
  under_test = true;
  uvs__step_hook = on_step_finish;
  uvs__tick_light(f.s, false);
  watch(false);
  *ret_came = scene.came;
  *ret_near += (int64_t)uv_hrtime() < t.delay_ns; /* else the machine was held up */
  if (f.s->todo.head != UVS__NONE) { /* then a turn is on its way, and the loop stays for it: L1 */
    ASSERT_U64(UVS__AWAKE, uvs__inbox_next_wake(&f.s->inbox));
    ASSERT(fixture_alive(&f));
  }
  if (!scene.came)
    ASSERT_RC(0, elsewhere(finish_pending, f.s));
  ASSERT(fixture_wait_log(&f, EV_DONE, 0, 2));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

TEST who_cannot_sleep_over_a_callback_does_not(void) {
  unsigned near = 0;

  /* Where the machine is held up nothing is seen: then more of them. */
  for (int round = 0; round < 3 || (near <= 20 && round < 100); round++) {
    bool came = true;

    for (int n = 0; came && n < STEPS_MAX; n++)
      CHECK_CALL(play_homecoming(n, &came, &near));
  }
  ASSERT(near > 20);
  PASS();
}

/* ---- the first lane ---- */

/* It is opened by another thread, which is stopped at each of its steps. There the loop submits to
 * the lane, whose number it guesses, and takes a turn: as soon as a task can get in, the lane's
 * rules are kept. */
static struct {
  struct fixture *f;
  int left;
  bool came;
  uvs_lane_t guess, number;
  int rc;
  uv_sem_t stopped, go;
} opening;

static _Thread_local bool opens;

static void on_step_of_opener(void) {
  if (!opens || opening.came || opening.left-- > 0)
    return;
  opening.came = true;
  uv_sem_post(&opening.stopped);
  uv_sem_wait(&opening.go);
}

static void opener_main(void *arg) {
  (void)arg;
  opens = true;
  opening.rc = uvs_lane_open(opening.f->s, NULL, &opening.number);
  if (!opening.came)
    uv_sem_post(&opening.stopped);
}

static enum greatest_test_res play_first_lane(int n, bool *ret_came, bool *ret_in) {
  static uvs_lane_t last[2];
  uv_thread_t thread;
  struct fixture f;

  memset(&opening, 0, sizeof opening);
  opening.f = &f;
  opening.left = n;
  opening.guess = 2 * last[1] - last[0];
  ASSERT_RC(0, uv_sem_init(&opening.stopped, 0));
  ASSERT_RC(0, uv_sem_init(&opening.go, 0));
  fixture_init(&f);
  f.options.concurrency = 3;
  CHECK_CALL(fixture_open_turned(&f));
  fakepool_hold();
  uvs__step_hook = on_step_of_opener;
  ASSERT_RC(0, uv_thread_create(&thread, opener_main, NULL));
  uv_sem_wait(&opening.stopped);
  *ret_in = false;
  for (int i = 0; i < 3 && opening.came; i++) {
    uvs_task_t t = fixture_once(&f, 'a' + i, 0);

    t.lane = opening.guess;
    if (uvs_submit(f.s, &t, NULL) == 0)
      *ret_in = true;
  }
  fixture_turn(&f);
  if (*ret_in) /* R7: one at a time */
    ASSERT_U64(1, fakepool_pending());
  *ret_came = opening.came;
  uv_sem_post(&opening.go);
  uv_thread_join(&thread);
  uvs__step_hook = NULL;
  ASSERT_RC(0, opening.rc);
  last[0] = last[1];
  last[1] = opening.number;
  if (*ret_in) {
    ASSERT_U64(opening.guess, opening.number);
    ASSERT(fakepool_step()); /* 'a' is over, and the runner goes on with the others in order: R2 */
    ASSERT_STR_EQ("abc", log_string(&f, EV_WORK));
    uvs_task_t x = fixture_once(&f, 'x', UVS_MS(1));
    x.lane = opening.number;
    ASSERT_RC(0, uvs_submit(f.s, &x, NULL));
  }
  fakepool_release();
  fixture_turn(&f);
  ASSERT_RC(0, uvs_lane_dispose(opening.number, 0)); /* R20: and it ends all of them */
  fixture_advance_ms(&f, 10);
  ASSERT_U64(0, log_count(&f, EV_WORK, 'x'));
  ASSERT_U64(*ret_in ? 4 : 0, log_count(&f, EV_DONE, 0));
  ASSERT_U64(0, live_tasks(f.s));
  uv_sem_destroy(&opening.stopped);
  uv_sem_destroy(&opening.go);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* R2 R7 */
TEST the_first_lanes_rules_hold_as_soon_as_a_task_gets_in(void) {
  bool came = true, in, was_in = false;
  int n;

  for (n = 0; n < 2; n++) /* to learn how numbers follow each other */
    CHECK_CALL(play_first_lane(STEPS_MAX, &came, &in));
  came = true;
  for (n = 0; came && n < STEPS_MAX; n++) {
    CHECK_CALL(play_first_lane(n, &came, &in));
    was_in |= in;
  }
  ASSERT(was_in); /* the guess was right at least once */
  ASSERT(n > 5 && n < STEPS_MAX);
  PASS();
}

/* ---- the last that keeps the loop alive ---- */

/* Another thread cancels one of two tasks, and is stopped before its n-th step: there the loop ends
 * the other one. */
static struct {
  uvs_t *s;
  uvs_id_t id;
  int left;
  bool came;
  int rc;
  uv_sem_t stopped, go;
} last;

static void on_step_of_canceller(void) {
  if (!under_test || last.came || last.left-- > 0)
    return;
  last.came = true;
  uv_sem_post(&last.stopped);
  uv_sem_wait(&last.go);
}

static void canceller_main(void *arg) {
  (void)arg;
  under_test = true;
  last.rc = uvs_cancel(last.s, last.id, 0);
  under_test = false;
  if (!last.came)
    uv_sem_post(&last.stopped);
}

static void done_nothing(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)s;
  (void)id;
  (void)status;
  (void)arg;
}

enum { OTHER_RUNS, OTHER_IS_CANCELLED, OTHER_WITH_DONE_IS, OTHER_IS_UNREFD, A_THIRD_RUNS, OTHERS };

static enum greatest_test_res play_last(int how, int n, bool *ret_came) {
  uv_thread_t thread;
  struct fixture f;
  uvs_id_t other = 0;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  memset(&last, 0, sizeof last);
  last.s = f.s;
  last.left = n;
  ASSERT_RC(0, uv_sem_init(&last.stopped, 0));
  ASSERT_RC(0, uv_sem_init(&last.go, 0));
  uvs_task_t t = {.size = sizeof t, .after = work_nothing, .delay_ns = UVS_HOUR(1)};
  ASSERT_RC(0, uvs_submit(f.s, &t, &last.id));
  t.delay_ns = how == OTHER_RUNS ? UVS_MS(10) : UVS_HOUR(1);
  if (how == OTHER_WITH_DONE_IS)
    t.done = done_nothing;
  if (how != A_THIRD_RUNS)
    ASSERT_RC(0, uvs_submit(f.s, &t, &other));
  fixture_turn(&f);
  uvs__step_hook = on_step_of_canceller;
  ASSERT_RC(0, uv_thread_create(&thread, canceller_main, NULL));
  uv_sem_wait(&last.stopped);
  switch (how) {
  case OTHER_RUNS:
    fixture_advance_ms(&f, 10);
    break;
  case OTHER_IS_UNREFD:
    ASSERT_RC(0, uvs_unref(f.s, other));
    break;
  case A_THIRD_RUNS:
    t.delay_ns = 0;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_turn(&f);
    break;
  default:
    ASSERT_RC(UVS_NEVER_RUNS, uvs_cancel(f.s, other, 0));
    fixture_turn(&f);
  }
  *ret_came = last.came;
  uv_sem_post(&last.go);
  uv_thread_join(&thread);
  uvs__step_hook = NULL;
  ASSERT_RC(UVS_NEVER_RUNS, last.rc);
  ASSERT(fixture_run(&f, UV_RUN_DEFAULT, NULL)); /* it returns: nothing keeps the loop */
  uv_sem_destroy(&last.stopped);
  uv_sem_destroy(&last.go);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L11 */
TEST the_loop_ends_with_the_last_one_whoever_takes_it(void) {
  for (int how = 0; how < OTHERS; how++) {
    bool came = true;
    int n;

    for (n = 0; came && n < STEPS_MAX; n++)
      CHECK_CALL(play_last(how, n, &came));
    ASSERT(n > 3 && n < STEPS_MAX);
  }
  PASS();
}

SUITE(light_steps) {
  RUN_TEST(a_light_loop_task_ends_once_whatever_comes_between);
  RUN_TEST(nothing_that_comes_during_a_light_turn_is_lost);
  RUN_TEST(nor_by_the_clock_of_the_machine);
  RUN_TEST(what_becomes_due_in_a_light_turn_is_left_to_the_timer);
  RUN_TEST(a_stream_that_never_ends_does_not_keep_the_loop);
  RUN_TEST(who_cannot_sleep_over_a_callback_does_not);
  RUN_TEST(the_first_lanes_rules_hold_as_soon_as_a_task_gets_in);
  RUN_TEST(the_loop_ends_with_the_last_one_whoever_takes_it);
}

TEST_MAIN(RUN_SUITE(light_steps));
