/* SPDX-License-Identifier: MIT
 *
 * Executors with real threads: own threads of a scheduler or a lane, a pool that several share and
 * that is resized, and all of it under load.
 */
#include <string.h>

#include "lib/bodies.h"
#include "lib/named.h"
#include "lib/shelf.h"
#include "lib/threads.h"
#include "lib/unit.h"

static int do_nothing(void *arg) {
  (void)arg;
  return 0;
}

/* All threads of the process. A sanitizer starts one of its own along with the first. */
static int count_threads(void) {
  elsewhere(do_nothing, NULL);
  return count_named("");
}

/* Waits until there are no more threads than before. A thread that was joined before the first
 * count may have been counted. */
static bool await_no_more_than(int before) {
  uint64_t end_ns = uv_hrtime() + (uint64_t)PATIENCE_NS;

  while (count_named("") > before && uv_hrtime() < end_ns)
    uv_sleep(1);
  return count_named("") <= before;
}

/* --------------------------------------------------------------------- helpers --- */

static enum greatest_test_res open_pool(int threads, const char *name, uvs_threads_t **ret) {
  uvs_threads_options_t o;

  uvs_threads_options_init(&o);
  o.threads = threads;
  o.name = name;
  ASSERT_RC(0, uvs_threads_open(&o, ret));
  PASS();
}

static enum greatest_test_res submit_to_gate(struct fixture *f, uvs_lane_t lane, int tag, int n) {
  for (int i = 0; i < n; i++) {
    uvs_task_t t = fixture_once(f, tag, 0);
    t.lane = lane;
    probe_of(&t)->act = gate_pass;
    ASSERT_RC(0, uvs_submit(f->s, &t, NULL));
  }
  PASS();
}

static enum greatest_test_res no_body_in_libuvs_pool(struct fixture *f) {
  ASSERT_U64(0, fakepool_seen().queue_works);
  for (unsigned i = 0; i < log_count(f, EV_WORK, 0); i++) {
    ASSERT_FALSE(log_nth(f, EV_WORK, 0, i)->in_work);
    ASSERT_FALSE(log_nth(f, EV_WORK, 0, i)->on_loop);
  }
  PASS();
}

/* ------------------------------------------------------------------ own threads --- */

/* L2 */
TEST a_schedulers_own_threads_are_named_and_end_with_it(void) {
  struct fixture f;
  int before = count_threads();

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.options.threads = 3;
  f.options.thread_name = "mine";
  CHECK_CALL(fixture_open_turned(&f));
  ASSERT_RC(3, uvs_concurrency(f.s));
  ASSERT(await_named("mine-", 3));
  for (int i = 0; i < 3; i++) {
    char name[16];
    snprintf(name, sizeof name, "mine-%d", i);
    ASSERT(await_named(name, 1));
  }
  gate_init(false);
  CHECK_CALL(submit_to_gate(&f, 0, 'a', 5));
  ASSERT(gate_wait(&f, 3));
  gate_let(5);
  ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 5));
  ASSERT_RC(3, gate_peak());
  CHECK_CALL(no_body_in_libuvs_pool(&f));
  CHECK_CALL(fixture_close(&f));
  ASSERT(await_no_more_than(before)); /* no thread is left */
  PASS();
}

/* L2 */
TEST own_threads_of_a_lane_end_when_it_is_quiet(void) {
  struct fixture f;
  uvs_lane_options_t o;
  uvs_lane_t lane[2];
  int before = count_threads();

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  CHECK_CALL(fixture_open_turned(&f));
  for (int i = 0; i < 2; i++) {
    uvs_lane_options_init(&o);
    o.threads = 2;
    o.thread_name = i == 0 ? "first" : "second";
    o.width = 0;
    o.on_quiet = log_quiet;
    o.arg = &f;
    ASSERT_RC(0, uvs_lane_open(f.s, &o, &lane[i]));
  }
  ASSERT(await_named("first-", 2));
  ASSERT(await_named("second-", 2));
  gate_init(false);
  CHECK_CALL(submit_to_gate(&f, lane[0], 'a', 4));
  CHECK_CALL(submit_to_gate(&f, lane[1], 'b', 4));
  ASSERT(gate_wait(&f, 4));
  gate_let(8);
  ASSERT(fixture_wait_log(&f, EV_DONE, 0, 8));
  ASSERT_RC(4, gate_peak());
  CHECK_CALL(no_body_in_libuvs_pool(&f));
  ASSERT_RC(0, uvs_lane_dispose(lane[0], 0));
  ASSERT(fixture_wait_log(&f, EV_USER, 'q', 1));
  ASSERT(await_named("first-", 0));
  ASSERT(await_named("second-", 2)); /* that ends with the scheduler */
  CHECK_CALL(fixture_close(&f));
  ASSERT(await_no_more_than(before));
  PASS();
}

/* A lane is disposed while its bodies run: it waits for them. */
TEST a_lane_with_own_threads_is_quiet_only_when_its_bodies_have_returned(void) {
  struct fixture f;
  uvs_lane_options_t o;
  uvs_lane_t lane;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_lane_options_init(&o);
  o.threads = 2;
  o.width = 2;
  o.on_quiet = log_quiet;
  o.arg = &f;
  ASSERT_RC(0, uvs_lane_open(f.s, &o, &lane));
  gate_init(false);
  CHECK_CALL(submit_to_gate(&f, lane, 'a', 3));
  ASSERT(gate_wait(&f, 2));
  ASSERT_RC(0, uvs_lane_dispose(lane, 0));
  ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 1)); /* the one that had not started */
  fixture_turn(&f);
  ASSERT_U64(0, log_count(&f, EV_USER, 'q'));
  gate_let(1);
  ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 2));
  fixture_turn(&f);
  ASSERT_U64(0, log_count(&f, EV_USER, 'q'));
  gate_let(1);
  ASSERT(fixture_wait_log(&f, EV_USER, 'q', 1));
  ASSERT_U64(2, log_count(&f, EV_WORK, 'a'));
  ASSERT_U64(3, log_count(&f, EV_DONE, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

TEST a_scheduler_with_own_threads_can_be_closed_while_bodies_run(void) {
  struct fixture f;
  int before = count_threads();

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.options.threads = 2;
  CHECK_CALL(fixture_open_turned(&f));
  gate_init(true); /* the token opens it */
  CHECK_CALL(submit_to_gate(&f, 0, 'a', 4));
  ASSERT(gate_wait(&f, 2));
  ASSERT_RC(0, uvs_close(f.s, note_closed));
  ASSERT(fixture_wait_closed(&f));
  f.s = NULL;
  ASSERT_U64(2, log_count(&f, EV_WORK, 'a'));
  ASSERT_U64(4, log_count(&f, EV_DONE, 'a'));
  CHECK_CALL(fixture_close(&f));
  ASSERT(await_no_more_than(before));
  PASS();
}

/* ------------------------------------------------------------- a pool of somebody's --- */

TEST a_user_supplied_pool_outlives_the_scheduler_and_its_lanes(void) {
  struct fixture f;
  uvs_threads_t *p;
  uvs_lane_t lane;

  CHECK_CALL(open_pool(2, "shared", &p));
  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.options.executor = uvs_threads_executor(p);
  CHECK_CALL(fixture_open_turned(&f));
  CHECK_CALL(lane_on(&f, uvs_threads_executor(p), &lane));
  for (int i = 0; i < 10; i++) {
    uvs_task_t t = fixture_once(&f, 'a', 0);
    t.lane = i % 2 == 0 ? lane : 0;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 10));
  ASSERT_RC(0, uvs_lane_dispose(lane, 0));
  ASSERT(fixture_wait_log(&f, EV_USER, 'q', 1));
  ASSERT(await_named("shared-", 2));
  CHECK_CALL(no_body_in_libuvs_pool(&f));
  CHECK_CALL(fixture_close(&f)); /* all memory of the scheduler is back, whatever the pool does */
  ASSERT(await_named("shared-", 2));
  ASSERT_RC(2, uvs_threads_size(p));
  ASSERT_RC(0, uvs_threads_close(p));
  ASSERT(await_named("shared-", 0));
  PASS();
}

/* Only the resize changes how many bodies run at once. */
TEST the_number_of_running_bodies_follows_the_size_of_the_pool(void) {
  for (int own_lane = 0; own_lane < 2; own_lane++) {
    struct fixture f;
    uvs_threads_t *p;
    uvs_lane_options_t o;
    uvs_lane_t lane = 0;

    CHECK_CALL(open_pool(1, NULL, &p));
    fixture_init(&f);
    f.pool = FAKEPOOL_REAL;
    f.real_clock = true;
    if (!own_lane)
      f.options.executor = uvs_threads_executor(p);
    CHECK_CALL(fixture_open_turned(&f));
    if (own_lane) {
      uvs_lane_options_init(&o);
      o.width = 0;
      o.executor = uvs_threads_executor(p);
      ASSERT_RC(0, uvs_lane_open(f.s, &o, &lane));
    }
    gate_init(false);
    CHECK_CALL(submit_to_gate(&f, lane, 'a', 40));
    ASSERT(gate_wait(&f, 1));
    fixture_turn(&f); /* nothing else wakes the loop now */
    ASSERT_RC(0, uvs_threads_resize(p, 3));
    ASSERT(gate_wait(&f, 3));
    fixture_turn(&f);
    ASSERT_RC(0, uvs_threads_resize(p, 7));
    ASSERT(gate_wait(&f, 7));
    ASSERT_RC(7, gate_peak());
    ASSERT_RC(0, uvs_threads_resize(p, 2));
    fixture_turn(&f); /* the loop hears of it */
    gate_let(7);
    ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 7));
    ASSERT(gate_wait(&f, 2));
    gate_peak();
    gate_let(10);
    ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 17));
    ASSERT(gate_wait(&f, 2));
    ASSERT_RC(2, gate_peak());
    gate_let(40 - 17);
    ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 40));
    CHECK_CALL(fixture_close(&f));
    ASSERT_RC(0, uvs_threads_close(p));
  }
  PASS();
}

TEST a_concurrency_that_was_set_does_not_follow_the_pool(void) {
  struct fixture f;
  uvs_threads_t *p;

  CHECK_CALL(open_pool(4, NULL, &p));
  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.options.executor = uvs_threads_executor(p);
  CHECK_CALL(fixture_open_turned(&f));
  ASSERT_RC(4, uvs_concurrency(f.s));
  ASSERT_RC(0, uvs_set_concurrency(f.s, 2));
  gate_init(false);
  CHECK_CALL(submit_to_gate(&f, 0, 'a', 10));
  ASSERT(gate_wait(&f, 2));
  ASSERT_RC(0, uvs_threads_resize(p, 8));
  uvs_clock_changed(f.s);
  fixture_turn(&f);
  ASSERT_RC(2, uvs_concurrency(f.s));
  gate_let(5);
  ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 5));
  ASSERT(gate_wait(&f, 2));
  ASSERT_RC(2, gate_peak());
  ASSERT_RC(0, uvs_set_concurrency(f.s, 5));
  ASSERT(gate_wait(&f, 5));
  gate_let(5);
  ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 10));
  ASSERT_RC(5, gate_peak());
  CHECK_CALL(fixture_close(&f));
  ASSERT_RC(0, uvs_threads_close(p));
  PASS();
}

static _Atomic int other_closed;

static void note_other_closed(uvs_t *s) {
  (void)s;
  atomic_store(&other_closed, 1);
}

/* The pool limits all of them together. */
TEST schedulers_and_lanes_share_one_pool(void) {
  struct fixture f;
  uvs_threads_t *p;
  uvs_options_t o;
  uvs_t *other;
  uvs_lane_t lane[2];

  CHECK_CALL(open_pool(3, "three", &p));
  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.options.executor = uvs_threads_executor(p);
  CHECK_CALL(fixture_open_turned(&f));
  o = f.options;
  ASSERT_RC(0, uvs_open(&f.loop, &o, &other));
  CHECK_CALL(lane_on(&f, uvs_threads_executor(p), &lane[0]));
  CHECK_CALL(lane_on(&f, NULL, &lane[1]));
  gate_init(false);
  CHECK_CALL(submit_to_gate(&f, 0, 'a', 10));
  CHECK_CALL(submit_to_gate(&f, lane[0], 'b', 10));
  CHECK_CALL(submit_to_gate(&f, lane[1], 'c', 10));
  for (int i = 0; i < 100; i++) {
    uvs_task_t t = fixture_once(&f, 'o', 0);
    ASSERT_RC(0, uvs_submit(other, &t, NULL));
  }
  ASSERT(gate_wait(&f, 3));
  gate_let(30);
  ASSERT(fixture_wait_log(&f, EV_DONE, 0, 130));
  ASSERT_RC(3, gate_peak());
  CHECK_CALL(no_body_in_libuvs_pool(&f));
  ASSERT(await_named("three-", 3));
  atomic_store(&other_closed, 0);
  ASSERT_RC(0, uvs_close(other, note_other_closed));
  ASSERT(fixture_wait_flag(&f, &other_closed)); /* its last runner may still be on its way back */
  CHECK_CALL(fixture_close(&f));
  ASSERT_RC(0, uvs_threads_close(p));
  PASS();
}

/* --------------------------------------------------- one scheduler, many executors --- */

#define LANES 5
#define PER_LANE 1000

static struct counted {
  int next; /* no atomic: bodies of a lane of width 1 do not overlap */
  _Atomic int inside, most, wrong;
  _Atomic int done;
} counted[LANES];

struct numbered {
  struct counted *lane;
  int number;
};

static struct numbered numbered[LANES][PER_LANE];

static int counts_in_order(uvs_run_t *run) {
  struct numbered *n = run->arg;
  int inside = atomic_fetch_add(&n->lane->inside, 1) + 1;

  if (inside > atomic_load(&n->lane->most))
    atomic_store(&n->lane->most, inside);
  if (n->lane->next++ != n->number)
    atomic_fetch_add(&n->lane->wrong, 1);
  atomic_fetch_sub(&n->lane->inside, 1);
  return 0;
}

static void counts_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)s;
  (void)id;
  if (status == 0)
    atomic_fetch_add(&((struct numbered *)arg)->lane->done, 1);
}

/* libuv's pool, own threads, a user-supplied pool, inline, and the scheduler's executor. R7 */
TEST lanes_on_all_kinds_of_executors_keep_order_and_do_not_overlap(void) {
  for (int libuv = 0; libuv < 2; libuv++) {
    struct fixture f;
    uvs_threads_t *p;
    uvs_lane_t lane[LANES];

    CHECK_CALL(open_pool(3, NULL, &p));
    fixture_init(&f);
    f.pool = FAKEPOOL_REAL;
    f.real_clock = true;
    if (!libuv)
      f.options.threads = 3;
    CHECK_CALL(fixture_open_turned(&f));
    for (int i = 0; i < LANES; i++) {
      uvs_lane_options_t o;

      uvs_lane_options_init(&o);
      if (i == 1)
        o.threads = 4;
      else if (i == 2 || i == 3)
        o.executor = i == 2 ? uvs_threads_executor(p) : uvs_inline_executor();
      ASSERT_RC(0, uvs_lane_open(f.s, &o, &lane[i]));
      memset(&counted[i], 0, sizeof counted[i]);
    }
    for (int k = 0; k < PER_LANE; k++) {
      for (int i = 0; i < LANES; i++) {
        uvs_task_t t;

        numbered[i][k] = (struct numbered){&counted[i], k};
        uvs_task_init(&t);
        t.work = counts_in_order;
        t.done = counts_done;
        t.arg = &numbered[i][k];
        t.lane = lane[i];
        ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
      }
      if (k % 100 == 0)
        uv_run(&f.loop, UV_RUN_NOWAIT);
    }
    ASSERT(fixture_run(&f, UV_RUN_DEFAULT, NULL));
    for (int i = 0; i < LANES; i++) {
      ASSERT_RC(PER_LANE, counted[i].next);
      ASSERT_RC(PER_LANE, atomic_load(&counted[i].done));
      ASSERT_RC(1, atomic_load(&counted[i].most));
      ASSERT_RC(0, atomic_load(&counted[i].wrong));
    }
    CHECK_CALL(fixture_close(&f));
    ASSERT_RC(0, uvs_threads_close(p));
  }
  PASS();
}

/* Width n on each executor at the same time. */
TEST the_width_of_a_lane_holds_on_its_own_threads(void) {
  struct fixture f;
  uvs_lane_options_t o;
  uvs_lane_t lane;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_lane_options_init(&o);
  o.threads = 5;
  o.width = 3;
  ASSERT_RC(0, uvs_lane_open(f.s, &o, &lane));
  gate_init(false);
  CHECK_CALL(submit_to_gate(&f, lane, 'a', 9));
  ASSERT(gate_wait(&f, 3));
  for (int i = 0; i < 9; i++) {
    gate_let(1);
    ASSERT(fixture_wait_log(&f, EV_DONE, 'a', (unsigned)i + 1));
  }
  ASSERT_RC(3, gate_peak());
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* -------------------------------------------------------------- keeping the loop --- */

/* With the real clock, as uv_run sees it. L1 */
TEST uv_run_returns_for_an_unrefd_delay_and_stays_for_a_refd_one(void) {
  for (int own = 0; own < 2; own++) {
    struct fixture f;
    uvs_threads_t *p;
    unsigned dones;

    CHECK_CALL(open_pool(1, NULL, &p));
    fixture_init(&f);
    f.pool = FAKEPOOL_REAL;
    f.real_clock = true;
    if (own)
      f.options.threads = 1;
    else
      f.options.executor = uvs_threads_executor(p);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = fixture_once(&f, 'a', UVS_HOUR(1));
    t.flags = UVS_UNREF;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    ASSERT(fixture_run(&f, UV_RUN_DEFAULT, &dones)); /* it did not wait for an hour */
    ASSERT_U64(0, dones);
    ASSERT_U64(1, live_tasks(f.s));
    t = fixture_once(&f, 'b', UVS_MS(5));
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    t = fixture_once(&f, 'c', UVS_MS(10)); /* only the counts show its end */
    t.done = NULL;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    ASSERT(fixture_run(&f, UV_RUN_DEFAULT, &dones));
    ASSERT_U64(1, dones);
    ASSERT_STR_EQ("bc", log_string(&f, EV_WORK));
    ASSERT_FALSE(fixture_alive(&f));
    CHECK_CALL(fixture_close(&f));
    ASSERT_RC(0, uvs_threads_close(p));
  }
  PASS();
}

/* ----------------------------------------------------------------------- under load --- */

static int rounds(int n) {
  const char *stress = getenv("UVS_STRESS");

  return stress != NULL && strcmp(stress, "long") == 0 ? n * 10 : n;
}

#define MANY 10000

static struct {
  int done[MANY], status[MANY];
  _Atomic int ran[MANY];
} many;

static int many_work(uvs_run_t *run) {
  atomic_fetch_add((_Atomic int *)run->arg, 1);
  return 0;
}

static void many_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  ptrdiff_t i = (_Atomic int *)arg - many.ran;

  (void)s;
  (void)id;
  many.done[i]++;
  many.status[i] = status;
}

/* Accepts every second job. */
struct half {
  uvs_executor_t table;
  uvs_threads_t *pool;
  unsigned asked;
};

static int half_submit(void *self, void (*fn)(void *arg), void *arg) {
  struct half *h = self;
  const uvs_executor_t *e = uvs_threads_executor(h->pool);

  return h->asked++ % 2 == 0 ? UV_EBUSY : e->submit(e->self, fn, arg);
}

static int half_concurrency(void *self) {
  return uvs_threads_size(((struct half *)self)->pool);
}

static void on_refused(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)id;
  (void)arg;
  ++*(int *)uvs_data(s);
  if (status != UV_EBUSY)
    *(int *)uvs_data(s) = -1000000;
}

/* Each task has one `done`, with its run or with the refusal. R27 */
TEST a_pool_that_refuses_every_second_time_loses_none_of_ten_thousand_tasks(void) {
  struct fixture f;
  struct half h = {.asked = 0};
  int errors = 0, refused = 0;

  memset(&many, 0, sizeof many);
  CHECK_CALL(open_pool(3, NULL, &h.pool));
  uvs_executor_init(&h.table);
  h.table.submit = half_submit;
  h.table.concurrency = half_concurrency;
  h.table.self = &h;
  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.real_clock = true;
  f.options.executor = &h.table;
  f.options.budget_ns = UVS_US(1); /* runners come home all the time */
  f.options.on_error = on_refused;
  f.options.on_terminated = NULL;
  f.options.data = &errors;
  CHECK_CALL(fixture_open(&f));
  for (int i = 0; i < MANY; i++) {
    uvs_task_t t;

    uvs_task_init(&t);
    t.work = many_work;
    t.done = many_done;
    t.arg = &many.ran[i];
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  ASSERT(fixture_run(&f, UV_RUN_DEFAULT, NULL));
  for (int i = 0; i < MANY; i++) {
    ASSERT_RC(1, many.done[i]);
    ASSERT_RC(many.status[i] == 0, atomic_load(&many.ran[i]));
    ASSERT(many.status[i] == 0 || many.status[i] == UV_EBUSY);
    refused += many.status[i] < 0;
  }
  ASSERT(refused > 0);
  ASSERT(refused < MANY);
  ASSERT_RC(refused, errors);
  ASSERT_RC(0, uvs_close(f.s, NULL));
  f.s = NULL;
  ASSERT(fixture_run(&f, UV_RUN_DEFAULT, NULL));
  CHECK_CALL(fixture_close(&f));
  ASSERT_RC(0, uvs_threads_close(h.pool));
  PASS();
}

static _Atomic int resizing;

static void keep_resizing(void *pool) {
  for (int n = 1; atomic_load(&resizing); n = n % 4 + 1) {
    if (uvs_threads_resize(pool, n) != 0)
      abort();
    uv_sleep(1);
  }
}

/* The runner's last steps race the close: immediately, or when the body has just ended. Another
 * thread resizes the pool all the time, which wakes its schedulers. L2 */
TEST close_survives_races_with_returning_runners(void) {
  uint64_t random = test_seed;
  uv_thread_t resizer;
  uvs_threads_t *p;

  CHECK_CALL(open_pool(2, NULL, &p));
  atomic_store(&resizing, 1);
  ASSERT_RC(0, uv_thread_create(&resizer, keep_resizing, p));
  for (int round = 0; round < rounds(150); round++) {
    struct fixture f;
    uvs_lane_options_t o;
    uvs_lane_t lane;
    int kind = round % 3;

    fixture_init(&f);
    f.pool = FAKEPOOL_REAL;
    f.real_clock = true;
    if (kind == 0)
      f.options.executor = uvs_threads_executor(p);
    if (kind == 1)
      f.options.threads = 2;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_lane_options_init(&o);
    if (kind == 2)
      o.executor = uvs_threads_executor(p);
    else
      o.threads = 1;
    ASSERT_RC(0, uvs_lane_open(f.s, &o, &lane));
    for (int i = 0; i < 6; i++) {
      uvs_task_t t = fixture_once(&f, 'a', 0);
      t.lane = i % 2 == 0 ? lane : 0;
      if (i < 2)
        t.done = NULL;
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    }
    for (uint64_t n = test_random_below(&random, 4); n > 0; n--)
      uv_run(&f.loop, UV_RUN_NOWAIT);
    if (test_random_below(&random, 2) == 0)
      ASSERT_RC(0, uvs_lane_dispose(lane, 0));
    CHECK_CALL(fixture_close(&f)); /* which looks for memory that is not back */
  }
  atomic_store(&resizing, 0);
  uv_thread_join(&resizer);
  ASSERT_RC(0, uvs_threads_close(p));
  PASS();
}

/* Threads that submit, cancel, open lanes with threads or on the pool, and dispose them; one thread
 * resizes the pool. */
#define HANDS 3
#define DEEDS 300

static struct {
  uvs_t *s;
  uvs_threads_t *pool;
  _Atomic int accepted, done, lanes, quiet, busy, wrong;
} crowd;

static void crowd_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)s;
  (void)id;
  (void)arg;
  if (status != 0 && status != UV_ECANCELED)
    atomic_fetch_add(&crowd.wrong, 1);
  atomic_fetch_add(&crowd.done, 1);
}

static void crowd_quiet(uvs_t *s, uvs_lane_t lane, void *arg) {
  (void)s;
  (void)lane;
  (void)arg;
  atomic_fetch_add(&crowd.quiet, 1);
}

static void crowd_lane(uint64_t *random, uvs_lane_t *lane) {
  uvs_lane_options_t o;

  if (*lane != 0)
    uvs_lane_dispose(*lane, test_random_below(random, 2) == 0 ? UVS_DISPOSE_TOKEN : 0);
  uvs_lane_options_init(&o);
  o.on_quiet = crowd_quiet;
  o.width = (uint32_t)test_random_below(random, 3);
  switch (test_random_below(random, 4)) {
  case 0:
    o.threads = 1 + (int)test_random_below(random, 2);
    break;
  case 1:
    o.executor = uvs_threads_executor(crowd.pool);
    break;
  case 2:
    o.executor = uvs_inline_executor();
    break;
  default:
    break;
  }
  *lane = 0;
  if (uvs_lane_open(crowd.s, &o, lane) == 0)
    atomic_fetch_add(&crowd.lanes, 1);
  else
    atomic_fetch_add(&crowd.wrong, 1);
}

static void crowd_main(void *arg) {
  uint64_t random = *(uint64_t *)arg;
  uvs_lane_t lane = 0;

  for (int i = 0; i < DEEDS; i++) {
    uvs_task_t t;
    uvs_id_t id;

    if (i % 20 == 0)
      crowd_lane(&random, &lane);
    uvs_task_init(&t);
    t.work = work_nothing;
    t.done = crowd_done;
    t.lane = test_random_below(&random, 4) == 0 ? 0 : lane;
    t.first_ns = test_random_below(&random, 3) == 0 ? UVS_US(200) : 0;
    if (uvs_submit(crowd.s, &t, &id) != 0) {
      atomic_fetch_add(&crowd.wrong, 1);
      continue;
    }
    atomic_fetch_add(&crowd.accepted, 1);
    if (test_random_below(&random, 4) == 0)
      uvs_cancel(crowd.s, id, 0);
    if (test_random_below(&random, 8) == 0)
      uvs_threads_resize(crowd.pool, 1 + (int)test_random_below(&random, 4));
  }
  uvs_lane_dispose(lane, 0);
  atomic_fetch_sub(&crowd.busy, 1);
  uvs_clock_changed(crowd.s);
}

TEST many_threads_on_executors_of_all_kinds_lose_no_task(void) {
  uint64_t random = test_seed;

  for (int round = 0; round < rounds(4); round++) {
    struct fixture f;
    uint64_t seeds[HANDS];
    uv_thread_t hands[HANDS];
    uint64_t end_ns = uv_hrtime() + (uint64_t)PATIENCE_NS;

    memset(&crowd, 0, sizeof crowd);
    CHECK_CALL(open_pool(2, NULL, &crowd.pool));
    fixture_init(&f);
    f.pool = FAKEPOOL_REAL;
    f.real_clock = true;
    if (round % 3 == 1)
      f.options.threads = 2;
    if (round % 3 == 2)
      f.options.executor = uvs_threads_executor(crowd.pool);
    CHECK_CALL(fixture_open_turned(&f));
    crowd.s = f.s;
    atomic_store(&crowd.busy, HANDS);
    for (int i = 0; i < HANDS; i++) {
      seeds[i] = test_random(&random) | 1;
      ASSERT_RC(0, uv_thread_create(&hands[i], crowd_main, &seeds[i]));
    }
    while ((atomic_load(&crowd.busy) > 0 ||
            atomic_load(&crowd.done) < atomic_load(&crowd.accepted) ||
            atomic_load(&crowd.quiet) < atomic_load(&crowd.lanes)) &&
           uv_hrtime() < end_ns)
      fixture_turn(&f);
    for (int i = 0; i < HANDS; i++)
      uv_thread_join(&hands[i]);
    ASSERT_RC(0, atomic_load(&crowd.wrong));
    ASSERT_RC(HANDS * DEEDS, atomic_load(&crowd.accepted));
    ASSERT_RC(HANDS * DEEDS, atomic_load(&crowd.done));
    ASSERT_RC(atomic_load(&crowd.lanes), atomic_load(&crowd.quiet));
    CHECK_CALL(fixture_close(&f));
    ASSERT_RC(0, uvs_threads_close(crowd.pool));
  }
  PASS();
}

SUITE(own) {
  RUN_TEST(a_schedulers_own_threads_are_named_and_end_with_it);
  RUN_TEST(own_threads_of_a_lane_end_when_it_is_quiet);
  RUN_TEST(a_lane_with_own_threads_is_quiet_only_when_its_bodies_have_returned);
  RUN_TEST(a_scheduler_with_own_threads_can_be_closed_while_bodies_run);
}

SUITE(handed_in) {
  RUN_TEST(a_user_supplied_pool_outlives_the_scheduler_and_its_lanes);
  RUN_TEST(the_number_of_running_bodies_follows_the_size_of_the_pool);
  RUN_TEST(a_concurrency_that_was_set_does_not_follow_the_pool);
  RUN_TEST(schedulers_and_lanes_share_one_pool);
  RUN_TEST(lanes_on_all_kinds_of_executors_keep_order_and_do_not_overlap);
  RUN_TEST(the_width_of_a_lane_holds_on_its_own_threads);
  RUN_TEST(uv_run_returns_for_an_unrefd_delay_and_stays_for_a_refd_one);
}

SUITE(load) {
  RUN_TEST(a_pool_that_refuses_every_second_time_loses_none_of_ten_thousand_tasks);
  RUN_TEST(close_survives_races_with_returning_runners);
  RUN_TEST(many_threads_on_executors_of_all_kinds_lose_no_task);
}

TEST_MAIN(RUN_SUITE(own); RUN_SUITE(handed_in); RUN_SUITE(load));
