/* SPDX-License-Identifier: MIT
 *
 * The cost and the bounds of time limits: invalid specs, the shortest and the longest limit,
 * failing memory, freed memory, the timer, the budget.
 */
#include <limits.h>
#include <string.h>

#include "lib/bodies.h"
#include "lib/inspect.h"
#include "lib/limited.h"
#include "lib/threads.h"

/* ------------------------------------------------------------------------- input --- */

static bool same_counts(uvs_t *s, const uvs_counts_t *before) {
  uvs_counts_t now = counts_of(s);

  now.slots = before->slots; /* room that was made stays */
  return memcmp(&now, before, sizeof now) == 0;
}

/* J5 J6 */
TEST a_spec_with_an_invalid_limit_is_refused_and_changes_nothing(void) {
  struct fixture f;
  uvs_task_t bad[16];
  uvs_counts_t before;
  long live;
  int n = 0;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  for (int i = 0; i < 16; i++)
    bad[i] = limited(&f, 'a', LATE_VALUE);
  bad[n++].limit.total_ns = -1;
  bad[n++].limit.total_ns = INT64_MIN;
  bad[n++].limit.total_ns = 0; /* a substitute for nothing */
  bad[n].work = NULL;          /* on the loop nothing could notice the time-out */
  bad[n++].after = probe_loop_body;
  bad[n].keep_outcome = 0; /* a result without a kept outcome */
  bad[n++].result = NULL;
  bad[n++].limit.status = 1;
  bad[n++].limit.status = UVS_STOP;
  bad[n++].limit.status = UVS_PENDING;
  bad[n++].limit.status = UV_EIO; /* a failure has no value */
  bad[n].limit.result = NULL;
  bad[n++].limit.status = -0x1000; /* more than the word can hold */
  bad[n].limit.result = NULL;
  bad[n++].limit.status = INT_MIN;
  bad[n++].limit.substitute = 0; /* a value without it */
  bad[n].limit.result = NULL;
  bad[n].limit.status = UV_EIO;
  bad[n++].limit.substitute = 0;
  bad[n++].limit.substitute = 2;
  bad[n++].limit.substitute = -1;
  before = counts_of(f.s);
  live = atomic_load(&f.fault.live);
  for (int i = 0; i < n; i++) {
    uvs_task_t two[2] = {limited(&f, 'b', LATE_VALUE), bad[i]};
    uvs_id_t ids[2] = {77, 78};

    ASSERT_RC(UV_EINVAL, uvs_submit(f.s, &bad[i], ids));
    ASSERT_RC(UV_EINVAL, uvs_submit_many(f.s, two, 2, ids));
    ASSERT_RC(UV_EINVAL, submit_elsewhere(f.s, bad[i], NULL));
    ASSERT_U64(77, ids[0]);
    ASSERT_U64(78, ids[1]);
    ASSERT(same_counts(f.s, &before));
  }
  ASSERT_I64(live, atomic_load(&f.fault.live));
  fixture_advance_ms(&f, 100);
  ASSERT_U64(0, log_total(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L19: a caller compiled before limits existed has none. */
TEST an_older_spec_has_no_limit(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = limited(&f, 'a', LATE_VALUE);
  t.size = offsetof(uvs_task_t, failure_policy);
  probe_of(&t)->takes_ns = UVS_DAY(1);
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_turn(&f);
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'a', 0)->status);
  ASSERT_U64(1, counts_of(f.s).completed);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ----------------------------------------------------------------------- extremes --- */

/* T12 J7 */
TEST the_largest_limits_neither_overflow_nor_pass(void) {
  static const int64_t limits[] = {UVS_NEVER, UVS_NEVER - 1, UVS_NEVER - VCLOCK_START_NS,
                                   UVS_NEVER - VCLOCK_START_NS - 1};

  for (int i = 0; i < 4; i++) {
    struct fixture f;
    uvs_outcome_t o;
    int64_t due_ns;
    uvs_id_t id;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = limited(&f, 'a', LATE_DEFAULT);
    t.limit.total_ns = limits[i];
    probe_of(&t)->ret = UVS_PENDING;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_turn(&f);
    ASSERT_RC(0, uvs_next_due(f.s, &due_ns));
    ASSERT_I64(i == 3 ? UVS_NEVER - 1 : UVS_NEVER, due_ns);
    fixture_advance_to(&f, UVS_NEVER - 2);
    ASSERT_RC(UV_ETIMEDOUT, peek(f.s, id, UVS_WAIT_SETTLED, &o));
    fixture_advance_to(&f, UVS_NEVER - 1);
    ASSERT_RC(i == 3 ? 0 : UV_ETIMEDOUT, peek(f.s, id, UVS_WAIT_SETTLED, &o));
    ASSERT_RC(0, uvs_finish(f.s, id, 0));
    fixture_turn(&f);
    ASSERT_RC(i == 3 ? UV_ETIMEDOUT : 0, log_nth(&f, EV_DONE, 'a', 0)->status);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* J5 J7 */
TEST the_shortest_limit_is_one_nanosecond(void) {
  for (int takes = 0; takes < 2; takes++) {
    for (int concurrency = 0; concurrency < 2; concurrency++) {
      struct fixture f;

      fixture_init(&f);
      f.options.concurrency = concurrency;
      CHECK_CALL(fixture_open_turned(&f));
      uvs_task_t t = limited(&f, 'a', LATE_DEFAULT);
      t.limit.total_ns = 1;
      probe_of(&t)->takes_ns = takes;
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
      fixture_turn(&f);
      ASSERT_U64(1, log_count(&f, EV_WORK, 'a'));
      ASSERT_RC(takes == 0 ? 0 : UV_ETIMEDOUT, log_nth(&f, EV_DONE, 'a', 0)->status);
      CHECK_CALL(fixture_close(&f));
    }
  }
  PASS();
}

/* ------------------------------------------------------------------------- memory --- */

struct call {
  uvs_t *s;
  const uvs_task_t *t;
  size_t n;
  uvs_id_t *ids;
};

static int do_submit(void *arg) {
  struct call *c = arg;

  return uvs_submit_many(c->s, c->t, c->n, c->ids);
}

/* L10: the first limit of a chunk allocates its links and its room in the heap. Later limits use
 * them. */
TEST a_submit_with_a_limit_fails_cleanly_at_every_allocation(void) {
  enum { MANY = 200 };
  static const int filled[] = {0, 63, 64, 192};
  static uvs_task_t t[MANY];
  static uvs_id_t ids[MANY];

  for (int way = 0; way < 4 * 2 * 2 * 2; way++) {
    bool limits_before = way / 4 % 2 != 0, off_loop = way / 8 % 2 != 0;
    size_t n = way / 16 == 0 ? 1 : MANY;
    long failures = 0;
    struct fixture f;
    struct call c;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t other = limited(&f, 'x', LATE_DEFAULT);
    other.first_ns = UVS_HOUR(1);
    other.limit.total_ns = limits_before ? LIMIT_NS : 0;
    for (int i = 0; i < filled[way % 4]; i++)
      ASSERT_RC(0, uvs_submit(f.s, &other, NULL));
    t[0] = limited(&f, 'a', LATE_DEFAULT);
    for (size_t i = 1; i < n; i++)
      t[i] = t[0];
    c = (struct call){f.s, t, n, ids};
    for (;; failures++) {
      uvs_counts_t before = counts_of(f.s);
      bool failed;
      int rc;

      ASSERT(failures < 1000);
      for (size_t i = 0; i < n; i++)
        ids[i] = i;
      fault_after(failures);
      rc = off_loop ? elsewhere(do_submit, &c) : do_submit(&c);
      failed = fault_hit();
      ASSERT_RC(failed ? UV_ENOMEM : 0, rc);
      if (!failed)
        break;
      ASSERT(same_counts(f.s, &before));
      for (size_t i = 0; i < n; i++)
        ASSERT_U64(i, ids[i]);
      ASSERT(inspect_check(f.s));
    }
    if (n > 1 || filled[way % 4] == 0)
      ASSERT(failures >= 1);
    fakepool_hold();
    fixture_turn(&f);
    ASSERT_U64(n, inspect_limits(f.s));
    fault_from(0); /* from here on nothing needs memory */
    fixture_advance_ns(&f, LIMIT_NS);
    ASSERT_FALSE(fault_hit());
    ASSERT_U64(n, counts_of(f.s).timed_out);
    ASSERT_U64(0, inspect_limits(f.s));
    ASSERT(inspect_check(f.s));
    fakepool_release();
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L10 S55 */
TEST a_submit_without_memory_for_its_limit_frees_its_slot(void) {
  struct fixture f;
  uvs_task_t plain;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_init(&plain);
  plain.work = work_nothing;
  plain.first_ns = UVS_HOUR(1);
  ASSERT_RC(0, uvs_submit(f.s, &plain, NULL)); /* now there is room for 64 plain ones */
  uvs_task_t t = limited(&f, 'a', LATE_DEFAULT);
  for (int i = 0; i < 200; i++) {
    fault_from(0);
    ASSERT_RC(UV_ENOMEM, uvs_submit(f.s, &t, NULL));
    ASSERT(fault_hit());
  }
  ASSERT_U64(1, counts_of(f.s).submitted);
  fault_from(0);
  for (int i = 0; i < 63; i++)
    ASSERT_RC(0, uvs_submit(f.s, &plain, NULL));
  ASSERT_FALSE(fault_hit());
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ---------------------------------------------------------------------- many, L11 --- */

enum { MANY = 100000, PORTION = 1000 };

static uvs_task_t in_time(_Atomic int *dones) {
  uvs_task_t t;

  uvs_task_init(&t);
  t.work = work_nothing;
  t.done = done_counts;
  t.arg = (void *)dones;
  t.limit.total_ns = UVS_HOUR(1);
  return t;
}

static enum greatest_test_res submit_in_time(uvs_t *s, _Atomic int *dones) {
  static uvs_task_t t[PORTION];

  for (int i = 0; i < PORTION; i++)
    t[i] = in_time(dones);
  for (int i = 0; i < MANY / PORTION; i++)
    ASSERT_RC(0, uvs_submit_many(s, t, PORTION, NULL));
  PASS();
}

/* L11 J7 S59: uv_run returns by itself, long before the first limit. */
TEST a_hundred_thousand_timely_runs_leave_no_limit_behind(void) {
  static _Atomic int dones;
  struct fixture f;
  int64_t due_ns;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.real_clock = true;
  CHECK_CALL(fixture_open_turned(&f));
  atomic_store(&dones, 0);
  CHECK_CALL(submit_in_time(f.s, &dones));
  ASSERT(fixture_run(&f, UV_RUN_DEFAULT, NULL));
  ASSERT_RC(MANY, atomic_load(&dones));
  ASSERT_U64(MANY, counts_of(f.s).completed);
  ASSERT_U64(0, inspect_limits(f.s));
  ASSERT_RC(0, uvs_next_due(f.s, &due_ns));
  ASSERT_I64(UVS_NEVER, due_ns);
  ASSERT_FALSE(uv_is_active(find_handles(&f.loop, f.s).timer));
  ASSERT_FALSE(fixture_alive(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* The heap holds one limit for each task that is ready or running, and no other. */
TEST the_heap_has_one_limit_for_each_task_that_is_ready_or_in_its_run(void) {
  static _Atomic int dones;
  struct fixture f;
  uvs_id_t ids[6];

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  atomic_store(&dones, 0);
  fakepool_hold();
  CHECK_CALL(submit_in_time(f.s, &dones));
  ASSERT_U64(0, inspect_limits(f.s)); /* they wait, if only for the next pass */
  fixture_turn(&f);
  ASSERT_U64(MANY, inspect_limits(f.s));
  ASSERT(inspect_check(f.s));
  fakepool_release();
  fixture_turn(&f);
  ASSERT_RC(MANY, atomic_load(&dones));
  ASSERT_U64(0, inspect_limits(f.s));

  fakepool_hold();
  for (int i = 0; i < 6; i++) { /* some leave from the middle */
    uvs_task_t t = limited(&f, 'a' + i, LATE_DEFAULT);
    t.limit.total_ns = UVS_MS(10 + i);
    ASSERT_RC(0, uvs_submit(f.s, &t, &ids[i]));
  }
  fixture_turn(&f);
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, ids[2], 0));
  ASSERT_U64(5, inspect_limits(f.s));
  ASSERT_RC(UVS_CANCELLED, cancel_elsewhere(f.s, ids[0]));
  fixture_turn(&f);
  ASSERT_U64(4, inspect_limits(f.s));
  ASSERT_I64(11, fixture_next_ms(&f));
  ASSERT(inspect_check(f.s));
  fixture_advance_ms(&f, 13);
  ASSERT_U64(2, inspect_limits(f.s));
  fakepool_release();
  fixture_turn(&f);
  ASSERT_U64(0, inspect_limits(f.s));
  ASSERT_STR_EQ("cabdef", log_string(&f, EV_DONE));
  ASSERT_STR_EQ("ef", log_string(&f, EV_WORK));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ---------------------------------------------------------------------------- timer --- */

static uint64_t ms_up(int64_t ns) {
  return ns <= UVS_MS(1) ? 1 : (uint64_t)((ns + UVS_MS(1) - 1) / UVS_MS(1));
}

/* Was the timer last started (not before since_ns) for the next event? */
static bool armed_for_next(struct fixture *f, int64_t since_ns) {
  struct fakepool_timer_start last = fakepool_seen().last;
  int64_t due_ns;

  return uvs_next_due(f->s, &due_ns) == 0 &&
         last.handle == (const uv_timer_t *)find_handles(&f->loop, f->s).timer &&
         last.timeout_ms >= ms_up(due_ns - (int64_t)last.at_ns) &&
         last.timeout_ms <= ms_up(due_ns - since_ns);
}

/* L13 L11 */
TEST the_timer_is_armed_for_a_limit_when_that_is_next(void) {
  for (int far = 0; far < 2; far++) { /* beside a task that is due later, and alone */
    int64_t due_ns, ready_ns, since_ns;
    struct fixture f;
    uvs_id_t id, far_id;

    fixture_init(&f);
    f.real_clock = true;
    CHECK_CALL(fixture_open_turned(&f));
    if (far)
      ASSERT_RC(0, uvs_schedule(f.s, UVS_MS(900), work_nothing, NULL, &far_id));
    uvs_task_t t = limited(&f, 'a', LATE_DEFAULT);
    t.limit.total_ns = UVS_MS(700);
    probe_of(&t)->ret = UVS_PENDING;
    since_ns = (int64_t)uv_hrtime();
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_turn(&f);
    ASSERT_RC(UVS_RUNNING, state_of(f.s, id));
    ASSERT_RC(0, uvs_next_due(f.s, &due_ns));
    ready_ns = due_ns - UVS_MS(700);
    ASSERT(ready_ns >= since_ns && ready_ns <= log_nth(&f, EV_WORK, 'a', 0)->start_ns);
    ASSERT(armed_for_next(&f, since_ns));
    ASSERT_RC(0, uvs_finish(f.s, id, 0));
    fixture_turn(&f);
    ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
    ASSERT_RC(far, uv_is_active(find_handles(&f.loop, f.s).timer) != 0);
    if (far) {
      ASSERT_RC(0, uvs_next_due(f.s, &due_ns));
      ASSERT(due_ns >= since_ns + UVS_MS(700));
      ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, far_id, 0));
    }
    ASSERT_FALSE(uv_is_active(find_handles(&f.loop, f.s).timer));
    ASSERT_FALSE(fixture_alive(&f));
    ASSERT_U64(1, fakepool_seen().timer_inits);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L11: the last ready task is cancelled, on the loop or on another thread. It leaves no limit to
 * wait for. */
TEST a_cancelled_task_leaves_no_limit_that_wakes_the_loop(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    struct fixture f;
    uvs_id_t id;

    fixture_init(&f);
    f.real_clock = true;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = limited(&f, 'a', LATE_DEFAULT);
    t.limit.total_ns = UVS_HOUR(1);
    fakepool_hold();
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_turn(&f);
    ASSERT(uv_is_active(find_handles(&f.loop, f.s).timer));
    ASSERT_RC(UVS_CANCELLED, off_loop ? cancel_elsewhere(f.s, id) : uvs_cancel(f.s, id, 0));
    fakepool_release();
    fixture_turn(&f);
    ASSERT_FALSE(uv_is_active(find_handles(&f.loop, f.s).timer));
    ASSERT_FALSE(fixture_alive(&f));
    ASSERT_U64(0, fakepool_seen().timer_fires);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* --------------------------------------------------------------------------- budget --- */

/* Each read of the clock costs time. */
static int64_t costly_now(void *arg) {
  vclock_advance_ns(arg, UVS_US(10));
  return vclock_now(arg);
}

/* L7 */
TEST a_burst_of_limits_keeps_io_waiting_no_longer_than_the_budget(void) {
  enum { BURST = 6400 };
  static uvs_task_t t[BURST];
  unsigned turns = 0;
  uv_prepare_t prepare;
  struct fixture f;

  fixture_init(&f);
  f.options.clock.monotonic_ns = costly_now;
  f.options.budget_ns = UVS_US(200);
  f.options.on_error = NULL;
  CHECK_CALL(fixture_open_turned(&f));
  fakepool_hold();
  for (int i = 0; i < BURST; i++) {
    uvs_task_init(&t[i]);
    t[i].work = work_nothing;
    t[i].limit.total_ns = UVS_SEC(1);
  }
  ASSERT_RC(0, uvs_submit_many(f.s, t, BURST, NULL));
  fixture_turn(&f);
  ASSERT_U64(BURST, inspect_limits(f.s));
  ASSERT_RC(0, uv_prepare_init(&f.loop, &prepare));
  prepare.data = &turns;
  uv_prepare_start(&prepare, count_turn);
  vclock_advance_ns(&f.clock, UVS_SEC(1));
  uvs_clock_changed(f.s);
  fixture_turn(&f);
  ASSERT_U64(BURST, counts_of(f.s).timed_out);
  ASSERT(turns >= 5); /* a hundred batches, 20 to a budget */
  uv_close((uv_handle_t *)&prepare, NULL);
  fakepool_release();
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(limit_room) {
  RUN_TEST(a_spec_with_an_invalid_limit_is_refused_and_changes_nothing);
  RUN_TEST(an_older_spec_has_no_limit);
  RUN_TEST(the_largest_limits_neither_overflow_nor_pass);
  RUN_TEST(the_shortest_limit_is_one_nanosecond);
  RUN_TEST(a_submit_with_a_limit_fails_cleanly_at_every_allocation);
  RUN_TEST(a_submit_without_memory_for_its_limit_frees_its_slot);
  RUN_TEST(a_hundred_thousand_timely_runs_leave_no_limit_behind);
  RUN_TEST(the_heap_has_one_limit_for_each_task_that_is_ready_or_in_its_run);
  RUN_TEST(the_timer_is_armed_for_a_limit_when_that_is_next);
  RUN_TEST(a_cancelled_task_leaves_no_limit_that_wakes_the_loop);
  RUN_TEST(a_burst_of_limits_keeps_io_waiting_no_longer_than_the_budget);
}

TEST_MAIN(RUN_SUITE(limit_room));
