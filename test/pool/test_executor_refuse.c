/* SPDX-License-Identifier: MIT
 *
 * An executor that refuses: no task is lost, each ends as its policies say, and the error hook is
 * called.
 */
#include <limits.h>

#include "lib/bodies.h"
#include "lib/shelf.h"
#include "lib/threads.h"

/* ------------------------------------------------------------------- every kind --- */

/* All of these end with their first refusal. */
enum kind {
  LIGHT,
  NAMED,
  WITH_DONE,
  WITH_AFTER,
  WITH_BOTH,
  KEPT,
  RATE,
  DELAY,
  GOES_ON_BUT_GIVES_UP,
  RETRIED_BUT_GIVES_UP,
  ONCE_RETRIED,
  LIMITED,
  AT_AN_INSTANT,
  UNREFD,
  DELAYED,
  KINDS
};

static uvs_task_t task_of(struct fixture *f, enum kind kind) {
  uvs_task_t t = kind == RATE || kind == GOES_ON_BUT_GIVES_UP || kind == RETRIED_BUT_GIVES_UP
                     ? fixture_rate(f, 'a', 0, UVS_MS(10))
                 : kind == DELAY ? fixture_delay(f, 'a', 0, UVS_MS(10))
                                 : fixture_once(f, 'a', kind == DELAYED ? UVS_MS(3) : 0);

  if (kind == LIGHT || kind == NAMED || kind == WITH_AFTER)
    t.done = NULL;
  if (kind == WITH_AFTER || kind == WITH_BOTH)
    t.after = probe_after;
  if (kind == NAMED)
    t.name = "named";
  t.keep_outcome = kind == KEPT;
  if (kind == GOES_ON_BUT_GIVES_UP)
    t.failure_policy = UVS_FAIL_CONTINUE;
  if (kind == RETRIED_BUT_GIVES_UP || kind == ONCE_RETRIED) {
    t.failure_policy = UVS_FAIL_RETRY;
    t.retry.wait_ns = UVS_MS(1);
  }
  if (t.failure_policy != 0)
    t.max_failures = 1;
  t.limit.total_ns = kind == LIMITED ? UVS_MS(5) : 0;
  if (kind == AT_AN_INSTANT) {
    t.from = UVS_FROM_WALL;
    t.first_ns = VCLOCK_WALL_NS;
  }
  t.flags = kind == UNREFD ? UVS_UNREF : 0;
  return t;
}

static enum greatest_test_res refused_once(struct fixture *f, const uvs_task_t *t) {
  uvs_counts_t c = counts_of(f->s);

  ASSERT_STR_EQ("", log_string(f, EV_WORK));
  ASSERT_STR_EQ("", log_string(f, EV_AFTER));
  ASSERT_STR_EQ("a", log_string(f, EV_ERROR));
  ASSERT_RC(UV_EBUSY, log_nth(f, EV_ERROR, 'a', 0)->status);
  ASSERT(log_nth(f, EV_ERROR, 'a', 0)->on_loop);
  ASSERT_STR_EQ(t->done != NULL ? "a" : "", log_string(f, EV_DONE));
  if (t->done != NULL)
    ASSERT_RC(UV_EBUSY, log_nth(f, EV_DONE, 'a', 0)->status);
  ASSERT(adds_up(&c));
  ASSERT_U64(1, c.failed);
  ASSERT_U64(0, c.runs);
  ASSERT_U64(0, live_tasks(f->s));
  ASSERT_I64(-1, fixture_next_ms(f));
  PASS();
}

/* R27 */
TEST a_refusal_ends_a_task_of_any_kind_once_and_reaches_the_error_hook(void) {
  for (enum kind kind = 0; kind < KINDS; kind++) {
    for (enum place place = 0; place < PLACES; place++) {
      for (int off_loop = 0; off_loop < 2; off_loop++) {
        struct fixture f;
        struct shelf e;
        uvs_lane_t lane;
        uvs_id_t id;

        CHECK_CALL(open_place(&f, &e, place, &lane));
        e.refuses = UV_EBUSY;
        uvs_task_t t = task_of(&f, kind);
        t.lane = lane;
        ASSERT_RC(0, off_loop ? submit_elsewhere(f.s, t, &id) : uvs_submit(f.s, &t, &id));
        fixture_advance_ms(&f, 3);
        CHECK_CALL(refused_once(&f, &t));
        ASSERT_RC(kind == KEPT ? 0 : UV_ENOENT, uvs_wait(f.s, id, 0, 0, NULL));
        ASSERT_FALSE(fixture_alive(&f));
        e.refuses = 0; /* later tasks are not affected */
        uvs_task_t b = fixture_once(&f, 'b', 0);
        b.lane = lane;
        ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
        shelf_empty(&f, &e);
        ASSERT_STR_EQ("b", log_string(&f, EV_WORK));
        fixture_advance_ms(&f, 100);
        ASSERT_STR_EQ("a", log_string(&f, EV_ERROR));
        CHECK_CALL(shelf_close(&f, &e));
      }
    }
  }
  PASS();
}

/* R27 */
TEST the_outcome_of_a_refused_task_is_the_refusal_without_a_run(void) {
  struct fixture f;
  struct shelf e;
  uvs_outcome_t o;
  uvs_id_t id;

  fixture_init(&f);
  shelf_init(&e);
  CHECK_CALL(shelf_open(&f, &e));
  e.refuses = UV_ENOSPC;
  uvs_task_t t = fixture_once(&f, 'a', 0);
  t.keep_outcome = 1;
  t.result = &f;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_turn(&f);
  uvs_outcome_init(&o);
  ASSERT_RC(0, uvs_wait(f.s, id, 0, 0, &o));
  ASSERT_RC(UVS_ENDED, o.state);
  ASSERT_RC(UV_ENOSPC, o.status);
  ASSERT(o.result == NULL);
  ASSERT_U64(0, o.runs);
  ASSERT_I64(0, fixture_ms(&f, o.ideal_ns)); /* as for a run that timed out before its start */
  ASSERT_I64(0, o.start_ns);
  ASSERT_I64(0, o.end_ns);
  ASSERT_RC(0, uvs_forget(f.s, id));
  CHECK_CALL(shelf_close(&f, &e));
  PASS();
}

/* R27 */
TEST without_an_error_hook_done_still_reports_the_refusal(void) {
  struct fixture f;
  struct shelf e;

  fixture_init(&f);
  f.options.on_error = NULL;
  shelf_init(&e);
  CHECK_CALL(shelf_open(&f, &e));
  e.refuses = UV_EBUSY;
  for (enum kind kind = 0; kind < KINDS; kind++) {
    uvs_task_t t = task_of(&f, kind);
    t.keep_outcome = 0;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  fixture_advance_ms(&f, 5);
  ASSERT_U64(KINDS - 3, log_count(&f, EV_DONE, 'a'));
  for (unsigned i = 0; i < KINDS - 3; i++)
    ASSERT_RC(UV_EBUSY, log_nth(&f, EV_DONE, 'a', i)->status);
  ASSERT_U64(0, live_tasks(f.s));
  ASSERT_U64(KINDS, counts_of(f.s).failed);
  CHECK_CALL(shelf_close(&f, &e));
  PASS();
}

/* --------------------------------------------------------------- what follows --- */

/* R27 */
TEST a_refused_run_of_a_periodic_task_does_not_count_and_the_grid_continues(void) {
  for (int with_done = 0; with_done < 2; with_done++) {
    struct fixture f;
    struct shelf e;
    uvs_id_t id;

    fixture_init(&f);
    shelf_init(&e);
    CHECK_CALL(shelf_open(&f, &e));
    e.refuses = UV_EBUSY;
    uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_MS(10));
    t.failure_policy = UVS_FAIL_CONTINUE;
    t.max_runs = 2;
    if (!with_done)
      t.done = NULL;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_advance_ms(&f, 25);
    ASSERT_STR_EQ("aaa", log_string(&f, EV_ERROR)); /* at 0, 10 and 20 */
    ASSERT_U64(3, look_at(f.s, id).info.failures);
    ASSERT_U64(0, look_at(f.s, id).info.runs);
    ASSERT_I64(30, fixture_next_ms(&f));
    e.refuses = 0;
    fixture_advance_ms(&f, 5);
    shelf_empty(&f, &e);
    fixture_advance_ms(&f, 10);
    shelf_empty(&f, &e);
    ASSERT_STR_EQ("30 40", log_runs(&f, EV_WORK, 'a'));
    ASSERT_STR_EQ(with_done ? "a" : "", log_string(&f, EV_DONE));
    ASSERT_RC(0, log_nth(&f, EV_DONE, 'a', 0)->status);
    ASSERT_U64(3, log_count(&f, EV_ERROR, 0));
    CHECK_CALL(shelf_close(&f, &e));
  }
  PASS();
}

/* R27 */
TEST a_fixed_delay_counts_from_the_refusal(void) {
  struct fixture f;
  struct shelf e;

  fixture_init(&f);
  shelf_init(&e);
  CHECK_CALL(shelf_open(&f, &e));
  e.refuses = UV_EBUSY;
  uvs_task_t t = fixture_delay(&f, 'a', 0, UVS_MS(10));
  t.failure_policy = UVS_FAIL_CONTINUE;
  t.max_failures = 3;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_jump_ms(&f, 13);
  ASSERT_U64(2, log_count(&f, EV_ERROR, 'a'));
  ASSERT_I64(23, fixture_next_ms(&f));
  fixture_advance_ms(&f, 10); /* and the third in a row is its end */
  ASSERT_U64(3, log_count(&f, EV_ERROR, 'a'));
  ASSERT_STR_EQ("a", log_string(&f, EV_DONE));
  ASSERT_RC(UV_EBUSY, log_nth(&f, EV_DONE, 'a', 0)->status);
  CHECK_CALL(shelf_close(&f, &e));
  PASS();
}

/* R27 */
TEST a_refused_task_is_retried_like_a_failed_one(void) {
  for (int periodic = 0; periodic < 2; periodic++) {
    struct fixture f;
    struct shelf e;

    fixture_init(&f);
    shelf_init(&e);
    CHECK_CALL(shelf_open(&f, &e));
    e.refuses = UV_EBUSY;
    e.refuse_first = 3;
    uvs_task_t t = periodic ? fixture_rate(&f, 'a', 0, UVS_MS(100)) : fixture_once(&f, 'a', 0);
    t.failure_policy = UVS_FAIL_RETRY;
    t.retry.wait_ns = UVS_MS(1);
    t.max_runs = periodic ? 1 : 0;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_advance_ms(&f, 6); /* refused at 0, 1 and 3 */
    ASSERT_STR_EQ("aaa", log_string(&f, EV_ERROR));
    ASSERT_U64(0, e.submitted);
    fixture_advance_ms(&f, 1);
    ASSERT_U64(1, e.submitted);
    shelf_empty(&f, &e);
    ASSERT_STR_EQ("7", log_runs(&f, EV_WORK, 'a'));
    ASSERT_RC(0, log_nth(&f, EV_DONE, 'a', 0)->status);
    ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
    CHECK_CALL(shelf_close(&f, &e));
  }
  PASS();
}

/* R27 S33: a refused run has not started. So its task never ran, and its first run is number 1. */
TEST a_task_that_was_only_refused_counts_as_never_run(void) {
  for (int periodic = 0; periodic < 2; periodic++) {
    for (int runs = 0; runs < 2; runs++) {
      struct fixture f;
      struct shelf e;

      fixture_init(&f);
      shelf_init(&e);
      CHECK_CALL(shelf_open(&f, &e));
      e.refuses = UV_EBUSY;
      e.refuse_first = 1;
      uvs_task_t t = periodic ? fixture_rate(&f, 'a', 0, UVS_MS(10)) : fixture_once(&f, 'a', 0);
      t.failure_policy = UVS_FAIL_RETRY;
      t.retry.wait_ns = UVS_MS(10);
      probe_of(&t)->ret = UV_EIO; /* so that it waits again */
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
      fixture_turn(&f);
      ASSERT_STR_EQ("a", log_string(&f, EV_ERROR));
      if (runs > 0) {
        fixture_advance_ms(&f, 10);
        shelf_empty(&f, &e);
        ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
        ASSERT_U64(1, log_nth(&f, EV_WORK, 'a', 0)->number);
      }
      ASSERT_U64(1, counts_of(f.s).waiting);
      ASSERT_RC(0, uvs_shutdown_now(f.s, probe_never_ran, NULL));
      fixture_turn(&f);
      ASSERT_STR_EQ(runs > 0 ? "" : "a", log_string(&f, EV_NEVER_RAN));
      ASSERT_STR_EQ("a", log_string(&f, EV_DONE));
      CHECK_CALL(shelf_close(&f, &e));
    }
  }
  PASS();
}

/* The time limit of a refused run does not apply to the next run. R27 */
TEST the_time_limit_of_a_refused_run_does_not_apply_to_the_next(void) {
  struct fixture f;
  struct shelf e;

  fixture_init(&f);
  shelf_init(&e);
  CHECK_CALL(shelf_open(&f, &e));
  e.refuses = UV_EBUSY;
  e.refuse_first = 1;
  uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_MS(10));
  t.failure_policy = UVS_FAIL_CONTINUE;
  t.limit.total_ns = UVS_MS(4);
  t.max_runs = 1;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  ASSERT_I64(10, fixture_next_ms(&f));
  fixture_advance_ms(&f, 13);
  ASSERT_U64(1, e.n);
  shelf_empty(&f, &e); /* at 13, a millisecond before its limit */
  ASSERT_STR_EQ("13(10)", log_runs(&f, EV_WORK, 'a'));
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'a', 0)->status);
  ASSERT_U64(0, counts_of(f.s).timed_out);
  ASSERT_I64(-1, fixture_next_ms(&f));
  CHECK_CALL(shelf_close(&f, &e));
  PASS();
}

/* ------------------------------------------------------------------ among other tasks --- */

/* R27 R2 */
TEST a_lane_goes_on_behind_a_refused_task_and_keeps_its_order(void) {
  for (int own = 0; own < 2; own++) {
    for (unsigned refused = 1; refused < 6; refused++) {
      struct fixture f;
      struct shelf e;
      uvs_lane_t lane;

      CHECK_CALL(open_place(&f, &e, own ? LANE_WITH_ITS_OWN : LANE, &lane));
      e.refuses = UV_EBUSY;
      e.refuse_first = refused;
      for (int i = 0; i < 6; i++) {
        uvs_task_t t = fixture_once(&f, 'a' + i, 0);
        t.lane = lane;
        ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
      }
      shelf_empty(&f, &e);
      ASSERT_STR_EQ(&"abcdef"[refused], log_string(&f, EV_WORK));
      ASSERT_STR_EQ("abcdef", log_string(&f, EV_DONE));
      for (unsigned i = 0; i < 6; i++)
        ASSERT_RC(i < refused ? UV_EBUSY : 0, log_nth(&f, EV_DONE, 0, i)->status);
      ASSERT_RC(0, uvs_lane_dispose(lane, 0));
      fixture_turn(&f);
      ASSERT_STR_EQ("q", log_string(&f, EV_USER));
      CHECK_CALL(shelf_close(&f, &e));
    }
  }
  PASS();
}

/* A refused lane does not affect lanes on other executors. */
TEST a_refusal_does_not_affect_lanes_on_other_executors(void) {
  struct fixture f;
  struct shelf e;
  uvs_lane_t lane;

  CHECK_CALL(open_place(&f, &e, LANE_WITH_ITS_OWN, &lane));
  e.refuses = UV_EBUSY;
  for (int i = 0; i < 8; i++) {
    uvs_task_t t = fixture_once(&f, i % 2 == 0 ? 'x' : 'a', 0);
    t.lane = i % 2 == 0 ? lane : 0;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  fixture_turn(&f);
  ASSERT_STR_EQ("aaaa", log_string(&f, EV_WORK));
  ASSERT_STR_EQ("xxxx", log_string(&f, EV_ERROR));
  ASSERT_U64(8, log_count(&f, EV_DONE, 0));
  CHECK_CALL(shelf_close(&f, &e));
  PASS();
}

/* R27 */
TEST a_task_refused_while_a_runner_is_out_waits_for_that_runner(void) {
  struct fixture f;
  struct shelf e;

  fixture_init(&f);
  shelf_init(&e);
  e.at_once = 3;
  CHECK_CALL(shelf_open(&f, &e));
  uvs_task_t a = fixture_once(&f, 'a', 0);
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  fixture_turn(&f);
  ASSERT_U64(1, e.n);
  e.refuses = UV_EBUSY;
  for (int i = 1; i < 6; i++) {
    uvs_task_t t = fixture_once(&f, 'a' + i, 0);
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_turn(&f);
  }
  ASSERT_U64(1, e.n);
  ASSERT(e.asked > 1);
  ASSERT_U64(0, log_total(&f));
  ASSERT_U64(6, counts_of(f.s).ready);
  ASSERT(shelf_run(&e));
  fixture_turn(&f);
  ASSERT_STR_EQ("abcdef", log_string(&f, EV_WORK));
  ASSERT_STR_EQ("abcdef", log_string(&f, EV_DONE));
  ASSERT_STR_EQ("", log_string(&f, EV_ERROR));
  CHECK_CALL(shelf_close(&f, &e));
  PASS();
}

/* The runner that is out returns after one body, because its budget is used up. Then the remaining
 * tasks are refused. */
TEST a_task_left_over_by_the_last_runner_is_refused_when_the_runner_returns(void) {
  struct fixture f;
  struct shelf e;

  fixture_init(&f);
  shelf_init(&e);
  e.at_once = 2;
  CHECK_CALL(shelf_open(&f, &e));
  for (int i = 0; i < 3; i++) {
    uvs_task_t t = fixture_once(&f, 'a' + i, 0);
    probe_of(&t)->takes_ns = UVS_MS(2);
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_turn(&f);
    e.refuses = UV_EBUSY;
  }
  ASSERT(shelf_run(&e));
  ASSERT_STR_EQ("", log_string(&f, EV_ERROR));
  fixture_turn(&f);
  ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
  ASSERT_STR_EQ("bc", log_string(&f, EV_ERROR));
  ASSERT_STR_EQ("abc", log_string(&f, EV_DONE));
  CHECK_CALL(shelf_close(&f, &e));
  PASS();
}

/* ----------------------------------------------------------------------- codes --- */

/* R27 */
TEST any_negative_answer_is_a_refusal_and_an_invalid_code_becomes_unknown(void) {
  static const struct {
    int answer, status;
  } codes[] = {
      {-1, -1},
      {UV_EBUSY, UV_EBUSY},
      {UV_ECANCELED, UV_ECANCELED},
      {UV_EOF, UV_EOF},
      {UVS_EDEADLK, UVS_EDEADLK},
      {-4096, UV_UNKNOWN},
      {-5000, UV_UNKNOWN},
      {INT_MIN, UV_UNKNOWN},
  };

  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
    struct fixture f;
    struct shelf e;

    fixture_init(&f);
    shelf_init(&e);
    CHECK_CALL(shelf_open(&f, &e));
    e.refuses = codes[i].answer;
    uvs_task_t t = fixture_once(&f, 'a', 0), u = fixture_once(&f, 'b', 0);
    u.done = NULL;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &u, NULL));
    fixture_turn(&f);
    ASSERT_STR_EQ("ab", log_string(&f, EV_ERROR));
    ASSERT_RC(codes[i].status, log_nth(&f, EV_ERROR, 'a', 0)->status);
    ASSERT_RC(codes[i].status, log_nth(&f, EV_ERROR, 'b', 0)->status);
    ASSERT_RC(codes[i].status, log_nth(&f, EV_DONE, 'a', 0)->status);
    CHECK_CALL(shelf_close(&f, &e));
  }
  PASS();
}

static int answer_positive(void *arg) {
  return *(int *)arg;
}

/* As everywhere, a positive answer is a success. */
TEST a_positive_answer_of_an_executor_is_not_a_refusal(void) {
  static int answers[] = {1, 2, 4095, INT_MAX};

  for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
    struct fixture f;
    struct shelf e;

    fixture_init(&f);
    shelf_init(&e);
    e.at_once = 3;
    e.on_submit = answer_positive;
    e.arg = &answers[i];
    CHECK_CALL(shelf_open(&f, &e));
    for (int k = 0; k < 3; k++) {
      uvs_task_t t = fixture_once(&f, 'a' + k, 0);
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    }
    fixture_turn(&f);
    ASSERT_U64(3, e.n);
    shelf_empty(&f, &e);
    ASSERT_STR_EQ("abc", log_string(&f, EV_WORK));
    ASSERT_STR_EQ("abc", log_string(&f, EV_DONE));
    ASSERT_STR_EQ("", log_string(&f, EV_ERROR));
    CHECK_CALL(shelf_close(&f, &e));
  }
  PASS();
}

/* ------------------------------------------------------------------ ten thousand --- */

#define MANY 10000

static struct {
  struct fixture *f;
  int done[MANY], ran[MANY], status[MANY];
} many;

static int many_work(uvs_run_t *run) {
  ++*(int *)run->arg;
  vclock_advance_ns(&many.f->clock,
                    UVS_US(1)); /* a budget is this long here: one task per runner */
  return 0;
}

static void many_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  ptrdiff_t i = (int *)arg - many.ran;

  (void)s;
  (void)id;
  many.done[i]++;
  many.status[i] = status;
}

static void ignore_error(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)s;
  (void)id;
  (void)status;
  (void)arg;
}

/* Runs every second job and refuses the others. */
static int every_second(void *self, void (*fn)(void *arg), void *arg) {
  unsigned *asked = self;

  if ((*asked)++ % 2 != 0)
    return UV_EBUSY;
  fn(arg);
  return 0;
}

/* R27 */
TEST if_every_second_call_is_refused_each_of_ten_thousand_tasks_has_one_done(void) {
  struct fixture f;
  uvs_executor_t e;
  unsigned asked = 0;
  int refused = 0;

  memset(&many, 0, sizeof many);
  many.f = &f;
  fixture_init(&f);
  uvs_executor_init(&e);
  e.submit = every_second;
  e.self = &asked;
  f.options.executor = &e;
  f.options.budget_ns = UVS_US(1);
  f.options.on_error = ignore_error;
  CHECK_CALL(fixture_open_turned(&f));
  for (int i = 0; i < MANY; i++) {
    uvs_task_t t;

    uvs_task_init(&t);
    t.work = many_work;
    t.done = many_done;
    t.arg = &many.ran[i];
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  fixture_turn(&f);
  for (int i = 0; i < MANY; i++) {
    ASSERT_RC(1, many.done[i]);
    ASSERT_RC(many.status[i] == 0 ? 1 : 0, many.ran[i]);
    ASSERT(many.status[i] == 0 || many.status[i] == UV_EBUSY);
    refused += many.status[i] < 0;
  }
  ASSERT_RC(MANY / 2, refused);
  ASSERT_U64(MANY, asked);
  ASSERT_U64(MANY / 2, counts_of(f.s).runs);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* Refusals are handled on the loop: after the budget other users of the loop run. L7 */
static void slow_error(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct fixture *f = uvs_data(s);

  (void)arg;
  vclock_advance_ns(&f->clock, UVS_MS(1));
  log_add(f, EV_ERROR, 'e', id, status);
}

TEST refusals_do_not_hold_the_loop_longer_than_the_budget(void) {
  struct fixture f;
  struct shelf e;

  fixture_init(&f);
  f.options.on_error = slow_error;
  shelf_init(&e);
  CHECK_CALL(shelf_open(&f, &e));
  e.refuses = UV_EBUSY;
  for (int i = 0; i < 100; i++) {
    uvs_task_t t = fixture_once(&f, 'a', 0);
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  fakepool_pin();
  for (unsigned turn = 1; turn < 20; turn++) {
    uv_run(&f.loop, UV_RUN_NOWAIT);
    ASSERT(log_count(&f, EV_ERROR, 0) >= turn);
    ASSERT(log_count(&f, EV_ERROR, 0) <= 2 * turn);
  }
  fakepool_unpin();
  fixture_turn(&f);
  ASSERT_U64(100, log_count(&f, EV_ERROR, 0));
  ASSERT_U64(100, log_count(&f, EV_DONE, 'a'));
  CHECK_CALL(shelf_close(&f, &e));
  PASS();
}

/* --------------------------------------------------- the hook acts, in a refusal --- */

/* 'a' is refused first; 'b' and 'c' are ready behind it. */
enum deed {
  CANCEL_IT,
  CANCEL_NEXT,
  FINISH_IT,
  MOVE_IT,
  FORGET_IT,
  SUBMIT_ANOTHER,
  SHUT_DOWN,
  SHUT_DOWN_NOW,
  CLOSE,
  DISPOSE,
  RUN_ON_LOOP,
  DEEDS
};

static struct {
  struct fixture *f;
  enum deed deed;
  uvs_id_t a, b;
  uvs_lane_t lane;
  uvs_task_t another;
  int rc;
} hook;

static int do_deed(uvs_t *s) {
  switch (hook.deed) {
  case CANCEL_IT:
    return uvs_cancel(s, hook.a, UVS_CANCEL_TOKEN);
  case CANCEL_NEXT:
    return uvs_cancel(s, hook.b, 0);
  case FINISH_IT:
    return uvs_finish(s, hook.a, 0);
  case MOVE_IT:
    return uvs_reschedule(s, hook.a, UVS_MS(1));
  case FORGET_IT:
    return uvs_forget(s, hook.a);
  case SUBMIT_ANOTHER:
    return uvs_submit(s, &hook.another, NULL);
  case SHUT_DOWN:
    return uvs_shutdown(s);
  case SHUT_DOWN_NOW:
    return uvs_shutdown_now(s, probe_never_ran, NULL);
  case CLOSE:
    hook.f->s = NULL;
    return uvs_close(s, note_closed);
  case DISPOSE:
    return uvs_lane_dispose(hook.lane, 0);
  default:
    return uvs_set_concurrency(s, 0);
  }
}

static void hook_error(uvs_t *s, uvs_id_t id, int status, void *arg) {
  log_add(uvs_data(s), EV_ERROR, ((struct probe *)arg)->tag, id, status);
  if (log_count(uvs_data(s), EV_ERROR, 0) == 1)
    hook.rc = do_deed(s);
}

/* The result of the call; which tasks are refused and which run; how a, b and c end, and 'd' if it
 * is submitted. */
static const struct {
  int rc;
  const char *errors, *works, *dones;
  int status[4];
  const char *never_ran;
} scenes[DEEDS] = {
    [CANCEL_IT] =
        {UVS_CANCELLED_WHILE_RUNNING, "abc", "", "abc", {UV_ECANCELED, UV_EBUSY, UV_EBUSY}, ""},
    [CANCEL_NEXT] = {UVS_CANCELLED, "ac", "", "bac", {UV_ECANCELED, UV_EBUSY, UV_EBUSY}, ""},
    [FINISH_IT] = {0, "abc", "", "abc", {UV_EBUSY, UV_EBUSY, UV_EBUSY}, ""},
    [MOVE_IT] = {UV_EBUSY, "abc", "", "abc", {UV_EBUSY, UV_EBUSY, UV_EBUSY}, ""},
    [FORGET_IT] = {0, "abc", "", "abc", {UV_EBUSY, UV_EBUSY, UV_EBUSY}, ""},
    [SUBMIT_ANOTHER] = {0, "abcd", "", "abcd", {UV_EBUSY, UV_EBUSY, UV_EBUSY, UV_EBUSY}, ""},
    [SHUT_DOWN] = {0, "abc", "", "abc", {UV_EBUSY, UV_EBUSY, UV_EBUSY}, ""},
    [SHUT_DOWN_NOW] = {0, "a", "", "abc", {UV_EBUSY, UV_ECANCELED, UV_ECANCELED}, "bc"},
    [CLOSE] = {0, "a", "", "abc", {UV_EBUSY, UV_ECANCELED, UV_ECANCELED}, ""},
    [DISPOSE] = {0, "a", "", "bca", {UV_ECANCELED, UV_ECANCELED, UV_ECANCELED}, ""},
    [RUN_ON_LOOP] = {0, "a", "bc", "abc", {UV_EBUSY, 0, 0}, ""},
};

/* R27 R25 */
TEST the_error_hook_may_call_any_function_during_a_refusal(void) {
  for (enum deed deed = 0; deed < DEEDS; deed++) {
    for (enum place place = deed == DISPOSE ? LANE : SCHEDULER; place < PLACES; place++) {
      struct fixture f;
      struct shelf e;

      if (deed == RUN_ON_LOOP && place == LANE_WITH_ITS_OWN)
        continue; /* that is of the scheduler's executor */
      fixture_init(&f);
      shelf_init(&e);
      memset(&hook, 0, sizeof hook);
      hook.f = &f;
      hook.deed = deed;
      f.options.on_error = hook_error;
      if (place != LANE_WITH_ITS_OWN)
        f.options.executor = &e.table;
      CHECK_CALL(fixture_open_turned(&f));
      if (place != SCHEDULER)
        CHECK_CALL(lane_on(&f, place == LANE ? NULL : &e.table, &hook.lane));
      e.refuses = UV_EBUSY;
      for (int i = 0; i < 3; i++) {
        uvs_task_t t = fixture_once(&f, 'a' + i, 0);
        t.lane = hook.lane;
        t.keep_outcome = deed == FORGET_IT && i == 0;
        ASSERT_RC(0, uvs_submit(f.s, &t, i == 0 ? &hook.a : i == 1 ? &hook.b : NULL));
      }
      hook.another = fixture_once(&f, 'd', 0);
      hook.another.lane = hook.lane;
      fixture_turn(&f);
      if (deed == CLOSE)
        fixture_turn_until_closed(&f);
      ASSERT_RC(scenes[deed].rc, hook.rc);
      ASSERT_STR_EQ(scenes[deed].errors, log_string(&f, EV_ERROR));
      ASSERT_STR_EQ(scenes[deed].works, log_string(&f, EV_WORK));
      ASSERT_STR_EQ(scenes[deed].dones, log_string(&f, EV_DONE));
      ASSERT_STR_EQ(scenes[deed].never_ran, log_string(&f, EV_NEVER_RAN));
      for (unsigned i = 0; scenes[deed].dones[i] != '\0'; i++)
        ASSERT_RC(scenes[deed].status[i], log_nth(&f, EV_DONE, 0, i)->status);
      ASSERT_U64(0, e.n);
      if (deed == CLOSE)
        ASSERT(f.closed);
      else
        ASSERT_U64(0, live_tasks(f.s));
      if (deed == SHUT_DOWN || deed == SHUT_DOWN_NOW)
        ASSERT_RC(1, uvs_is_terminated(f.s));
      CHECK_CALL(shelf_close(&f, &e));
    }
  }
  PASS();
}

/* ------------------------------------------------------ the executor acts itself --- */

static int dispose_and_refuse(void *arg) {
  uvs_lane_dispose(*(uvs_lane_t *)arg, 0);
  return UV_ESHUTDOWN;
}

/* An executor that is being closed may dispose its lane during `submit`. */
TEST a_lane_that_its_executor_disposes_and_refuses_becomes_quiet(void) {
  for (int with_done = 0; with_done < 2; with_done++) {
    struct fixture f;
    struct shelf e;
    uvs_lane_t lane;

    CHECK_CALL(open_place(&f, &e, LANE_WITH_ITS_OWN, &lane));
    e.on_submit = dispose_and_refuse;
    e.arg = &lane;
    for (int i = 0; i < 2; i++) {
      uvs_task_t t = fixture_once(&f, 'a' + i, 0);
      t.lane = lane;
      if (!with_done)
        t.done = NULL;
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    }
    fixture_turn(&f);
    ASSERT_STR_EQ("", log_string(&f, EV_ERROR));
    ASSERT_STR_EQ(with_done ? "ab" : "", log_string(&f, EV_DONE));
    ASSERT_STR_EQ("q", log_string(&f, EV_USER));
    ASSERT_U64(1, e.asked);
    CHECK_CALL(shelf_close(&f, &e));
  }
  PASS();
}

SUITE(kinds) {
  RUN_TEST(a_refusal_ends_a_task_of_any_kind_once_and_reaches_the_error_hook);
  RUN_TEST(the_outcome_of_a_refused_task_is_the_refusal_without_a_run);
  RUN_TEST(without_an_error_hook_done_still_reports_the_refusal);
  RUN_TEST(a_refused_run_of_a_periodic_task_does_not_count_and_the_grid_continues);
  RUN_TEST(a_fixed_delay_counts_from_the_refusal);
  RUN_TEST(a_refused_task_is_retried_like_a_failed_one);
  RUN_TEST(a_task_that_was_only_refused_counts_as_never_run);
  RUN_TEST(the_time_limit_of_a_refused_run_does_not_apply_to_the_next);
}

SUITE(company) {
  RUN_TEST(a_lane_goes_on_behind_a_refused_task_and_keeps_its_order);
  RUN_TEST(a_refusal_does_not_affect_lanes_on_other_executors);
  RUN_TEST(a_task_refused_while_a_runner_is_out_waits_for_that_runner);
  RUN_TEST(a_task_left_over_by_the_last_runner_is_refused_when_the_runner_returns);
  RUN_TEST(any_negative_answer_is_a_refusal_and_an_invalid_code_becomes_unknown);
  RUN_TEST(a_positive_answer_of_an_executor_is_not_a_refusal);
  RUN_TEST(if_every_second_call_is_refused_each_of_ten_thousand_tasks_has_one_done);
  RUN_TEST(refusals_do_not_hold_the_loop_longer_than_the_budget);
  RUN_TEST(the_error_hook_may_call_any_function_during_a_refusal);
  RUN_TEST(a_lane_that_its_executor_disposes_and_refuses_becomes_quiet);
}

TEST_MAIN(RUN_SUITE(kinds); RUN_SUITE(company));
