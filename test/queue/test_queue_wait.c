/* SPDX-License-Identifier: MIT
 *
 * Waiting for values of a delay queue: threads in take and in the timed poll, and the callback on
 * the loop. The wake-ups are counted at libuv's conditions, async and timer. Time-outs take no real
 * time (lib/conds.h). Data that other threads touch is static, because a failed ASSERT leaves these
 * threads running.
 */
#include <string.h>

#include "lib/conds.h"
#include "lib/threads.h"
#include "lib/values.h"

static struct taker a, b, c;
static uvs_waiter_t wa, wb;
static uvs_queue_t *q; /* of the current test */

static enum greatest_test_res begin(struct fixture *f) {
  CHECK_CALL(queue_open(f, &q));
  uvs_waiter_init(&wa);
  uvs_waiter_init(&wb);
  conds_forget();
  ASSERT_RC(0, atomic_load(&conds.asleep));
  PASS();
}

static int signals(void) {
  return atomic_load(&conds.signals);
}

static uint64_t sends(void) {
  return fakepool_seen().async_sends;
}

/* ------------------------------------------------------------------ getting --- */

/* A put on the loop, a put on another thread, and a value that is due immediately. D18 */
TEST a_waiting_thread_gets_a_value_that_another_inserts(void) {
  for (int way = 0; way < 4; way++) {
    int64_t delay_ms = way < 2 ? 10 : 0;
    struct fixture f;

    fixture_init(&f);
    CHECK_CALL(begin(&f));
    ASSERT_RC(0, taker_start(&a, q, NULL, 0));
    ASSERT(conds_await(1));
    ASSERT_RC(0, way % 2 == 0 ? put_ms(q, 'a', delay_ms) : put_ms_elsewhere(q, 'a', delay_ms));
    fixture_advance_ms(&f, 10);
    ASSERT_RC('a', taker_join(&a));
    ASSERT_I64(VCLOCK_START_NS + UVS_MS(delay_ms), a.e.due_ns);
    CHECK_CALL(queue_close(&f, q));
  }
  PASS();
}

/* D6 D19 */
TEST takers_are_served_first_come_first_served_in_due_order(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  ASSERT_RC(0, taker_start(&a, q, NULL, 0));
  ASSERT(conds_await(1));
  ASSERT_RC(0, taker_start(&b, q, NULL, 0));
  ASSERT(conds_await(2));
  ASSERT_RC(0, taker_start(&c, q, NULL, 0));
  ASSERT(conds_await(3));
  ASSERT_RC(0, put_ms(q, 'z', 30));
  ASSERT_RC(0, put_ms(q, 'y', 20));
  ASSERT_RC(0, put_ms(q, 'x', 10));
  fixture_advance_ms(&f, 9);
  ASSERT_RC(3, atomic_load(&conds.asleep)); /* nothing is early */
  fixture_advance_ms(&f, 1);
  ASSERT_RC('x', taker_join(&a));
  fixture_advance_ms(&f, 10);
  ASSERT_RC('y', taker_join(&b));
  fixture_advance_ms(&f, 10);
  ASSERT_RC('z', taker_join(&c));
  ASSERT_I64(a.e.due_ns, a.at_ns);
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

TEST take_of_something_due_does_not_sleep(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  ASSERT_RC(0, put_ms(q, 'a', 0));
  ASSERT_RC(0, taker_start(&a, q, NULL, 0));
  ASSERT_RC('a', taker_join(&a));
  ASSERT_RC(0, put_ms(q, 'b', 0));
  ASSERT_RC(0, taker_start(&a, q, NULL, UVS_SEC(1)));
  ASSERT_RC('b', taker_join(&a));
  ASSERT_RC(0, atomic_load(&conds.timed));
  ASSERT_RC(0, signals());
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

static int put_abc_due(void *arg) {
  uvs_entry_t e[3] = {{value_of('a'), 0, 0}, {value_of('b'), 0, 0}, {value_of('c'), 0, 0}};

  (void)arg;
  return uvs_queue_put_many(q, e, 3);
}

/* Each thread gets one value, and the loop does not run. D18 D23 */
TEST several_due_values_go_to_several_waiting_threads(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  ASSERT_RC(0, taker_start(&a, q, NULL, 0));
  ASSERT(conds_await(1));
  ASSERT_RC(0, taker_start(&b, q, NULL, 0));
  ASSERT(conds_await(2));
  ASSERT_RC(0, taker_start(&c, q, NULL, 0));
  ASSERT(conds_await(3));
  fakepool_forget();
  ASSERT_RC(0, elsewhere(put_abc_due, NULL));
  ASSERT_RC(3, signals());
  ASSERT_U64(0, sends());
  ASSERT_RC('a', taker_join(&a));
  ASSERT_RC('b', taker_join(&b));
  ASSERT_RC('c', taker_join(&c));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

static int poll_elsewhere(void *ret) {
  return uvs_queue_poll(q, ret);
}

/* The loop is late, and another thread calls the queue: it serves the threads that waited before.
 * D23 */
TEST a_thread_that_finds_a_due_value_serves_earlier_waiters_first(void) {
  struct fixture f;
  uvs_entry_t e;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  ASSERT_RC(0, taker_start(&a, q, NULL, 0));
  ASSERT(conds_await(1));
  ASSERT_RC(0, put_ms(q, 'a', 10));
  ASSERT_RC(0, put_ms(q, 'b', 11));
  vclock_advance_ns(&f.clock, UVS_MS(20)); /* the loop has not looked */
  ASSERT_RC(0, elsewhere(poll_elsewhere, &e));
  ASSERT_EQ(value_of('b'), e.value);
  ASSERT_RC('a', taker_join(&a));
  ASSERT_RC(0, taker_start(&a, q, NULL, 0));
  ASSERT(conds_await(1));
  ASSERT_RC(0, put_ms(q, 'c', 10));
  ASSERT_RC(0, put_ms(q, 'd', 11));
  vclock_advance_ns(&f.clock, UVS_MS(20));
  ASSERT_RC(1, uvs_queue_drain(q, UVS_QUEUE_ALL, logs_value, &f));
  ASSERT_STR_EQ("d", log_string(&f, EV_USER));
  ASSERT_RC('c', taker_join(&a));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* D20 */
TEST a_drain_of_zero_values_does_not_affect_waiting_threads(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  ASSERT_RC(0, taker_start(&a, q, NULL, 0));
  ASSERT(conds_await(1));
  ASSERT_RC(0, put_ms(q, 'a', 10));
  vclock_advance_ns(&f.clock, UVS_MS(20)); /* the loop has not looked */
  ASSERT_RC(0, uvs_queue_drain(q, 0, logs_value, &f));
  ASSERT_RC(0, uvs_queue_drain(q, -1, logs_value, &f));
  ASSERT_RC(0, signals());
  ASSERT_RC(1, uvs_queue_size(q));
  fixture_jump_ms(&f, 0);
  ASSERT_RC('a', taker_join(&a));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* ---------------------------------------------------------------- timed poll --- */

/* D9 */
TEST a_time_out_of_zero_or_less_only_looks(void) {
  static const int64_t timeouts[] = {0, -1, INT64_MIN};
  struct fixture f;
  uvs_entry_t e;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  for (size_t i = 0; i < 3; i++) {
    ASSERT_RC(UV_ETIMEDOUT, uvs_queue_poll_within(q, timeouts[i], NULL, &e));
    ASSERT_RC(0, put_ms(q, 'b', 10));
    ASSERT_RC(UV_ETIMEDOUT, uvs_queue_poll_within(q, timeouts[i], &wa, &e));
    ASSERT_RC(0, put_ms(q, 'a', 0));
    ASSERT_RC(0, uvs_queue_poll_within(q, timeouts[i], &wa, &e)); /* also on the loop's thread */
    ASSERT_EQ(value_of('a'), e.value);
    ASSERT_RC(1, uvs_queue_clear(q, NULL, NULL));
  }
  ASSERT_RC(0, atomic_load(&conds.timed));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* After a spurious wake-up it waits on. D9 */
TEST a_timed_poll_waits_the_full_time_out_when_nothing_becomes_due(void) {
  for (int early = 0; early < 3; early++) {
    struct fixture f;

    fixture_init(&f);
    CHECK_CALL(begin(&f));
    ASSERT_RC(0, put_ms(q, 'a', 10)); /* the clock stands still */
    atomic_store(&conds.early, early);
    ASSERT_RC(0, taker_start(&a, q, NULL, UVS_SEC(5)));
    ASSERT_RC(UV_ETIMEDOUT, taker_join(&a));
    ASSERT(a.waited_ns >= UVS_SEC(5));
    ASSERT_RC(early + 1, atomic_load(&conds.timed));
    ASSERT_RC(1, uvs_queue_clear(q, NULL, NULL));
    CHECK_CALL(queue_close(&f, q));
  }
  PASS();
}

/* D9 */
TEST a_timed_poll_returns_as_soon_as_a_value_is_due(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  atomic_store(&conds.real, true);
  ASSERT_RC(0, taker_start(&a, q, NULL, UVS_HOUR(1)));
  ASSERT(conds_await(1));
  ASSERT_RC(0, put_ms_elsewhere(q, 'a', 10));
  fixture_advance_ms(&f, 10);
  ASSERT_RC('a', taker_join(&a));
  ASSERT(a.waited_ns < UVS_HOUR(1));
  ASSERT_RC(1, signals());
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

static struct fixture *stage; /* for conds.meanwhile */
static int meanwhile_rc;

static void time_passes(void) {
  vclock_advance_ns(&stage->clock, UVS_MS(10));
}

/* D9 */
TEST a_timed_poll_looks_once_more_at_its_time_out(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  stage = &f;
  ASSERT_RC(0, put_ms(q, 'a', 10));
  conds.meanwhile = time_passes; /* and the loop does not come */
  ASSERT_RC(0, taker_start(&a, q, NULL, UVS_SEC(1)));
  ASSERT_RC('a', taker_join(&a));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* ------------------------------------------------------------------- abandon --- */

static int abandon_a(void *arg) {
  (void)arg;
  return uvs_queue_abandon(q, &wa);
}

/* D7 */
TEST a_take_is_abandoned_during_the_wait_and_the_request_is_used_up(void) {
  for (int with_value = 0; with_value < 2; with_value++) {
    struct fixture f;

    fixture_init(&f);
    CHECK_CALL(begin(&f));
    if (with_value)
      ASSERT_RC(0, put_ms(q, 'a', 10)); /* not due */
    ASSERT_RC(0, taker_start(&a, q, &wa, 0));
    ASSERT(conds_await(1));
    ASSERT_RC(1, elsewhere(abandon_a, NULL));
    ASSERT_RC(UV_EINTR, taker_join(&a));
    ASSERT_RC(with_value, uvs_queue_size(q)); /* it is still in */
    ASSERT_RC(0, taker_start(&a, q, &wa, 0)); /* the next one waits */
    ASSERT(conds_await(1));
    if (!with_value)
      ASSERT_RC(0, put_ms(q, 'a', 10));
    fixture_advance_ms(&f, 10);
    ASSERT_RC('a', taker_join(&a));
    CHECK_CALL(queue_close(&f, q));
  }
  PASS();
}

/* D7 */
TEST a_take_is_abandoned_before_the_wait_and_the_request_is_used_up(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  ASSERT_RC(0, put_ms(q, 'a', 0)); /* even if something is due */
  ASSERT_RC(0, elsewhere(abandon_a, NULL));
  ASSERT_RC(0, uvs_queue_abandon(q, &wa)); /* two requests are one */
  ASSERT_RC(0, taker_start(&a, q, &wa, 0));
  ASSERT_RC(UV_EINTR, taker_join(&a));
  ASSERT_RC(1, uvs_queue_size(q));
  ASSERT_RC(0, taker_start(&a, q, &wa, 0));
  ASSERT_RC('a', taker_join(&a));
  /* The same for the timed call, and for the one that only looks. */
  ASSERT_RC(0, uvs_queue_abandon(q, &wa));
  ASSERT_RC(0, taker_start(&a, q, &wa, UVS_SEC(1)));
  ASSERT_RC(UV_EINTR, taker_join(&a));
  ASSERT_RC(0, uvs_queue_abandon(q, &wa));
  ASSERT_RC(UV_EINTR, uvs_queue_poll_within(q, 0, &wa, &a.e));
  ASSERT_RC(UV_ETIMEDOUT, uvs_queue_poll_within(q, 0, &wa, &a.e));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

static void abandons(void) {
  meanwhile_rc = uvs_queue_abandon(q, &wa);
}

/* D9 */
TEST abandoned_and_timed_out_have_different_codes(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  conds.meanwhile = abandons;
  a.e = (uvs_entry_t){&f, 7, 7};
  ASSERT_RC(0, taker_start(&a, q, &wa, UVS_SEC(1)));
  ASSERT_RC(UV_EINTR, taker_join(&a));
  ASSERT_RC(1, meanwhile_rc);
  ASSERT_RC(0, taker_start(&a, q, &wa, UVS_SEC(1)));
  ASSERT_RC(UV_ETIMEDOUT, taker_join(&a));
  ASSERT_EQ((void *)&f, a.e.value); /* nothing is written */
  ASSERT_U64(7, a.e.item);
  ASSERT_I64(7, a.e.due_ns);
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

TEST only_the_abandoned_thread_stops_waiting(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  ASSERT_RC(0, taker_start(&a, q, &wa, 0));
  ASSERT(conds_await(1));
  ASSERT_RC(0, taker_start(&b, q, &wb, 0));
  ASSERT(conds_await(2));
  ASSERT_RC(0, taker_start(&c, q, NULL, 0));
  ASSERT(conds_await(3));
  ASSERT_RC(1, uvs_queue_abandon(q, &wb));
  ASSERT_RC(UV_EINTR, taker_join(&b));
  ASSERT_RC(2, atomic_load(&conds.asleep));
  ASSERT_RC(1, signals());
  ASSERT_RC(0, put_ms(q, 'a', 0));
  ASSERT_RC(0, put_ms(q, 'c', 0));
  ASSERT_RC('a', taker_join(&a));
  ASSERT_RC('c', taker_join(&c));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

TEST one_waiter_is_for_one_call_at_a_time(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  ASSERT_RC(0, taker_start(&a, q, &wa, 0));
  ASSERT(conds_await(1));
  ASSERT_RC(0, taker_start(&b, q, &wa, 0));
  ASSERT_RC(UV_EBUSY, taker_join(&b));
  ASSERT_RC(0, put_ms(q, 'a', 0));
  ASSERT_RC('a', taker_join(&a)); /* as if nothing had been */
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* A caller's mistake: neither queue's waiters are affected. */
TEST abandon_on_another_queue_is_refused_and_changes_nothing(void) {
  struct fixture f;
  uvs_queue_t *other;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  ASSERT_RC(0, uvs_queue_open(f.s, NULL, &other));
  ASSERT_RC(0, taker_start(&a, q, &wa, 0));
  ASSERT(conds_await(1));
  ASSERT_RC(0, taker_start(&b, other, &wb, 0));
  ASSERT(conds_await(2));
  ASSERT_RC(UV_EINVAL, uvs_queue_abandon(other, &wa));
  ASSERT_RC(UV_EINVAL, uvs_queue_abandon(q, &wb));
  ASSERT_RC(2, atomic_load(&conds.asleep));
  ASSERT_RC(0, put_ms(q, 'a', 0));
  ASSERT_RC(0, put_ms(other, 'b', 0));
  ASSERT_RC('a', taker_join(&a));
  ASSERT_RC('b', taker_join(&b));
  ASSERT_RC(0, uvs_queue_close(other));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* ------------------------------------------------- nothing is lost on the way --- */

static void puts_x(void) {
  meanwhile_rc = put_ms(q, 'x', 0);
}

/* The thread was handed a value at the instant of its time-out: then it gets the value. D23 */
TEST a_value_handed_over_at_the_time_out_is_not_lost(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  conds.meanwhile = puts_x;
  ASSERT_RC(0, taker_start(&a, q, &wa, UVS_SEC(1)));
  ASSERT_RC('x', taker_join(&a));
  ASSERT_RC(0, meanwhile_rc);
  ASSERT_RC(1, signals());
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

static void puts_x_and_abandons(void) {
  puts_x();
  abandons();
}

/* The value came first: the request to abandon applies to the next call. D7 D23 */
TEST a_value_handed_over_before_an_abandon_is_kept(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  conds.meanwhile = puts_x_and_abandons;
  ASSERT_RC(0, taker_start(&a, q, &wa, UVS_SEC(1)));
  ASSERT_RC('x', taker_join(&a));
  ASSERT_RC(0, meanwhile_rc);
  ASSERT_RC(0, taker_start(&a, q, &wa, 0));
  ASSERT_RC(UV_EINTR, taker_join(&a));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

static void abandons_and_puts_x(void) {
  abandons();
  (void)put_ms(q, 'x', 0);
}

/* The request to abandon came first: the value goes to the next waiting thread. D23 */
TEST a_value_put_after_an_abandon_goes_to_another_thread(void) {
  for (int other = 0; other < 2; other++) {
    struct fixture f;

    fixture_init(&f);
    CHECK_CALL(begin(&f));
    if (other) {
      ASSERT_RC(0, taker_start(&b, q, NULL, 0));
      ASSERT(conds_await(1));
    }
    conds.meanwhile = abandons_and_puts_x;
    ASSERT_RC(0, taker_start(&a, q, &wa, UVS_SEC(1)));
    ASSERT_RC(UV_EINTR, taker_join(&a));
    ASSERT_RC(1, meanwhile_rc);
    ASSERT_RC('x', other ? taker_join(&b) : poll_tag(q));
    CHECK_CALL(queue_close(&f, q));
  }
  PASS();
}

/* A value is not handed to a thread that has left while another one waits. D23 */
TEST a_thread_that_timed_out_takes_no_wake_up_from_another(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  ASSERT_RC(0, put_ms(q, 'a', 10));
  ASSERT_RC(0, taker_start(&a, q, NULL, UVS_SEC(1))); /* the first in line */
  ASSERT_RC(UV_ETIMEDOUT, taker_join(&a));
  ASSERT_RC(0, taker_start(&b, q, NULL, 0));
  ASSERT(conds_await(1));
  ASSERT_RC(0, taker_start(&a, q, NULL, UVS_SEC(1))); /* the second in line */
  ASSERT_RC(UV_ETIMEDOUT, taker_join(&a));
  ASSERT_RC(0, signals());
  fixture_advance_ms(&f, 10);
  ASSERT_RC('a', taker_join(&b));
  ASSERT_RC(1, signals());
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* -------------------------------------------------------------- who is woken --- */

/* D23 */
TEST waiting_consumers_hold_no_value(void) {
  struct fixture f;
  uvs_entry_t e;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  ASSERT_RC(0, put_ms(q, 'a', 10));
  ASSERT_RC(0, taker_start(&a, q, NULL, 0));
  ASSERT(conds_await(1));
  ASSERT_RC(0, taker_start(&b, q, NULL, 0));
  ASSERT(conds_await(2));
  ASSERT_RC(0, atomic_load(&conds.timed));
  ASSERT_RC(1, uvs_queue_size(q));
  ASSERT_RC(1, uvs_queue_contains(q, value_of('a')));
  ASSERT_RC(0, uvs_queue_peek(q, &e));
  ASSERT_RC(0, uvs_queue_remove(q, e.item, NULL)); /* it can still be had */
  fixture_advance_ms(&f, 10);
  ASSERT_RC(2, atomic_load(&conds.asleep));
  ASSERT_RC(0, uvs_queue_close(q));
  ASSERT_RC(UV_ECANCELED, taker_join(&a));
  ASSERT_RC(UV_ECANCELED, taker_join(&b));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* D23 */
TEST a_due_value_wakes_exactly_one_thread(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  ASSERT_RC(0, taker_start(&a, q, NULL, 0));
  ASSERT(conds_await(1));
  ASSERT_RC(0, taker_start(&b, q, NULL, 0));
  ASSERT(conds_await(2));
  ASSERT_RC(0, taker_start(&c, q, NULL, 0));
  ASSERT(conds_await(3));
  ASSERT_RC(0, put_ms(q, 'a', 10)); /* by the loop, in time */
  ASSERT_RC(0, signals());
  fixture_advance_ms(&f, 10);
  ASSERT_RC('a', taker_join(&a));
  ASSERT_RC(1, signals());
  ASSERT_RC(2, atomic_load(&conds.asleep));
  ASSERT_RC(0, put_ms_elsewhere(q, 'b', 0)); /* woken by the thread that puts it */
  ASSERT_RC('b', taker_join(&b));
  ASSERT_RC(2, signals());
  ASSERT_RC(1, atomic_load(&conds.asleep));
  ASSERT_RC(0, put_ms(q, 'd', 5)); /* two at once, for one who waits */
  ASSERT_RC(0, put_ms(q, 'c', 5));
  fixture_advance_ms(&f, 5);
  ASSERT_RC('d', taker_join(&c));
  ASSERT_RC(3, signals());
  ASSERT_RC('c', poll_tag(q));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* D23 */
TEST an_immediate_value_goes_to_a_waiting_thread_without_the_loop(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  ASSERT_RC(0, taker_start(&a, q, NULL, 0));
  ASSERT(conds_await(1));
  fakepool_forget();
  ASSERT_RC(0, put_ms_elsewhere(q, 'a', 0));
  ASSERT_RC('a', taker_join(&a)); /* the loop did not run */
  ASSERT_U64(0, sends());
  ASSERT_RC(1, signals());
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* D23 */
TEST without_waiting_threads_a_put_wakes_nobody(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  fakepool_forget();
  for (int i = 10; i >= 0; i--)
    ASSERT_RC(0, put_ms_elsewhere(q, 'a', i));
  ASSERT_U64(0, sends());
  ASSERT_RC(0, signals());
  ASSERT_I64(-1, fixture_next_ms(&f)); /* the loop has nothing to do */
  fixture_jump_ms(&f, 20);
  ASSERT_RC(11, uvs_queue_clear(q, NULL, NULL));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

static int run_later(uvs_run_t *run) {
  (void)run;
  return 0;
}

/* With the system's clock, where there is a timer. Nothing here takes real time. D23 */
TEST a_new_earlier_head_re_arms_the_timer_and_wakes_no_consumer(void) {
  for (int callback = 0; callback < 2; callback++) {
    struct fixture f;
    uvs_id_t id;

    fixture_init(&f);
    f.real_clock = true;
    CHECK_CALL(begin(&f));
    if (callback) {
      ASSERT_RC(0, uvs_queue_consume(q, logs_value, &f));
    } else {
      ASSERT_RC(0, taker_start(&a, q, &wa, 0));
      ASSERT(conds_await(1));
    }
    fakepool_forget();
    ASSERT_RC(0, uvs_queue_put(q, value_of('a'), UVS_HOUR(4), NULL));
    ASSERT_U64(1, fakepool_seen().timer_starts);
    ASSERT(fakepool_seen().last.timeout_ms <= 4 * 3600 * 1000);
    ASSERT(fakepool_seen().last.timeout_ms > 3 * 3600 * 1000);
    ASSERT_RC(0, uvs_queue_put(q, value_of('b'), UVS_HOUR(5), NULL)); /* not earlier */
    ASSERT_U64(1, fakepool_seen().timer_starts);
    ASSERT_RC(0, uvs_queue_put(q, value_of('c'), UVS_HOUR(3), NULL));
    ASSERT_U64(2, fakepool_seen().timer_starts);
    ASSERT(fakepool_seen().last.timeout_ms <= 3 * 3600 * 1000);
    ASSERT_U64(0, sends());

    ASSERT_RC(0, put_ms_elsewhere(q, 'd', 4 * 3600 * 1000)); /* not earlier */
    ASSERT_U64(0, sends());
    ASSERT_RC(0, put_ms_elsewhere(q, 'e', 2 * 3600 * 1000));
    ASSERT_U64(1, sends()); /* the loop, to arm its timer */
    fixture_turn(&f);
    ASSERT_U64(3, fakepool_seen().timer_starts);
    ASSERT(fakepool_seen().last.timeout_ms <= 2 * 3600 * 1000);

    /* A task wakes the loop earlier: then the timer is not even re-armed. */
    ASSERT_RC(0, uvs_schedule(f.s, UVS_MIN(30), run_later, NULL, &id));
    ASSERT_U64(4, fakepool_seen().timer_starts);
    fixture_turn(&f);
    fakepool_forget();
    ASSERT_RC(0, put_ms_elsewhere(q, 'f', 3600 * 1000));
    ASSERT_U64(0, sends());
    ASSERT_RC(0, signals());
    ASSERT_RC(callback ? 0 : 1, atomic_load(&conds.asleep));
    ASSERT_STR_EQ("", log_string(&f, EV_USER));

    int64_t due_ns;
    ASSERT_RC(0, uvs_cancel(f.s, id, 0));
    ASSERT_RC(0, uvs_next_due(f.s, &due_ns));
    ASSERT(due_ns > uvs_now(f.s) + UVS_MIN(50) && due_ns < uvs_now(f.s) + UVS_HOUR(1));
    if (!callback) {
      ASSERT_RC(1, uvs_queue_abandon(q, &wa));
      ASSERT_RC(UV_EINTR, taker_join(&a));
    }
    ASSERT_RC(6, uvs_queue_clear(q, NULL, NULL));
    CHECK_CALL(queue_close(&f, q));
  }
  PASS();
}

/* D23 */
TEST a_thread_that_starts_waiting_for_a_value_arms_the_loop(void) {
  struct fixture f;

  fixture_init(&f);
  f.real_clock = true;
  CHECK_CALL(begin(&f));
  ASSERT_RC(0, uvs_queue_put(q, value_of('a'), UVS_HOUR(1), NULL));
  fixture_turn(&f);
  fakepool_forget();
  ASSERT_RC(0, taker_start(&a, q, &wa, 0));
  ASSERT(conds_await(1));
  ASSERT_U64(1, sends());
  fixture_turn(&f);
  ASSERT_U64(1, fakepool_seen().timer_starts);
  ASSERT_RC(0, taker_start(&b, q, &wb, 0)); /* the loop knows already */
  ASSERT(conds_await(2));
  ASSERT_U64(1, sends());
  ASSERT_RC(1, uvs_queue_abandon(q, &wa));
  ASSERT_RC(1, uvs_queue_abandon(q, &wb));
  ASSERT_RC(UV_EINTR, taker_join(&a));
  ASSERT_RC(UV_EINTR, taker_join(&b));
  ASSERT_U64(1, sends()); /* a thread that leaves wakes nobody */
  fixture_turn(&f);
  ASSERT_U64(1, fakepool_seen().timer_starts);
  ASSERT_RC(1, uvs_queue_clear(q, NULL, NULL));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* Where the loop has no timer, it is woken once for a new earliest time. D23 */
TEST on_a_replaced_clock_only_an_earlier_time_wakes_the_loop(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  ASSERT_RC(0, put_ms(q, 'a', 10));
  fakepool_forget();
  ASSERT_RC(0, taker_start(&a, q, NULL, 0));
  ASSERT(conds_await(1));
  ASSERT_U64(1, sends());
  for (int turned = 0; turned < 2; turned++) {
    ASSERT_RC(0, put_ms_elsewhere(q, 'c', 20)); /* not earlier */
    ASSERT_RC(UV_EAGAIN, poll_tag(q));
    ASSERT_U64(1, sends());
    fixture_turn(&f);
  }
  ASSERT_RC(0, put_ms_elsewhere(q, 'b', 5));
  ASSERT_U64(2, sends());
  fixture_advance_ms(&f, 5);
  ASSERT_RC('b', taker_join(&a));
  ASSERT_RC(3, uvs_queue_clear(q, NULL, NULL));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* uvs_next_due includes a value only while a thread waits for it, and not after it was removed. */
TEST next_due_includes_the_head_of_a_queue_with_waiters(void) {
  struct fixture f;
  uvs_item_t first;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  ASSERT_RC(0, uvs_queue_put(q, value_of('a'), UVS_MS(10), &first));
  ASSERT_RC(0, put_ms(q, 'b', 20));
  ASSERT_I64(-1, fixture_next_ms(&f));
  ASSERT_RC(0, taker_start(&a, q, &wa, 0));
  ASSERT(conds_await(1));
  ASSERT_I64(10, fixture_next_ms(&f));
  ASSERT_RC(0, uvs_queue_remove(q, first, NULL));
  ASSERT_I64(20, fixture_next_ms(&f));
  ASSERT_RC(0, put_ms_elsewhere(q, 'c', 5));
  ASSERT_I64(5, fixture_next_ms(&f));
  uvs_task_t t = fixture_once(&f, 't', UVS_MS(3));
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT_I64(3, fixture_next_ms(&f)); /* one more candidate among others */
  fixture_advance_ms(&f, 5);
  ASSERT_RC('c', taker_join(&a));
  ASSERT_I64(-1, fixture_next_ms(&f));
  ASSERT_RC(1, uvs_queue_clear(q, NULL, NULL));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* ------------------------------------------------------------------- refused --- */

static int takes_in_a_body(struct probe *p, uvs_run_t *run) {
  uvs_entry_t e;

  (void)run;
  log_add(p->f, EV_USER, p->tag, 0, uvs_queue_take(q, NULL, &e));
  log_add(p->f, EV_USER, p->tag, 0, uvs_queue_poll_within(q, UVS_SEC(1), NULL, &e));
  log_add(p->f, EV_USER, p->tag, 0, uvs_queue_poll_within(q, 0, NULL, &e));
  log_add(p->f, EV_USER, p->tag, 0, uvs_queue_poll(q, &e));
  return 0;
}

/* Even if a value is due: otherwise the call would work until the day the queue is empty. L4 */
TEST calls_that_sleep_are_refused_on_the_loop_and_in_bodies(void) {
  struct fixture f;
  uvs_entry_t e;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  for (int round = 0; round < 2; round++) {
    ASSERT_RC(UVS_EDEADLK, uvs_queue_take(q, NULL, &e));
    ASSERT_RC(UVS_EDEADLK, uvs_queue_poll_within(q, 1, NULL, &e));
    ASSERT_RC(0, put_ms(q, 'a', 0));
  }
  uvs_task_t t = fixture_once(&f, 'b', 0);
  probe_of(&t)->act = takes_in_a_body;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  ASSERT_RC(UVS_EDEADLK, log_nth(&f, EV_USER, 'b', 0)->status);
  ASSERT_RC(UVS_EDEADLK, log_nth(&f, EV_USER, 'b', 1)->status);
  ASSERT_RC(0, log_nth(&f, EV_USER, 'b', 2)->status); /* these do not sleep */
  ASSERT_RC(0, log_nth(&f, EV_USER, 'b', 3)->status);
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

SUITE(getting) {
  RUN_TEST(a_waiting_thread_gets_a_value_that_another_inserts);
  RUN_TEST(takers_are_served_first_come_first_served_in_due_order);
  RUN_TEST(take_of_something_due_does_not_sleep);
  RUN_TEST(several_due_values_go_to_several_waiting_threads);
  RUN_TEST(a_thread_that_finds_a_due_value_serves_earlier_waiters_first);
  RUN_TEST(a_drain_of_zero_values_does_not_affect_waiting_threads);
}

SUITE(timed_poll) {
  RUN_TEST(a_time_out_of_zero_or_less_only_looks);
  RUN_TEST(a_timed_poll_waits_the_full_time_out_when_nothing_becomes_due);
  RUN_TEST(a_timed_poll_returns_as_soon_as_a_value_is_due);
  RUN_TEST(a_timed_poll_looks_once_more_at_its_time_out);
}

SUITE(abandon) {
  RUN_TEST(a_take_is_abandoned_during_the_wait_and_the_request_is_used_up);
  RUN_TEST(a_take_is_abandoned_before_the_wait_and_the_request_is_used_up);
  RUN_TEST(abandoned_and_timed_out_have_different_codes);
  RUN_TEST(only_the_abandoned_thread_stops_waiting);
  RUN_TEST(one_waiter_is_for_one_call_at_a_time);
  RUN_TEST(abandon_on_another_queue_is_refused_and_changes_nothing);
}

SUITE(nothing_is_lost) {
  RUN_TEST(a_value_handed_over_at_the_time_out_is_not_lost);
  RUN_TEST(a_value_handed_over_before_an_abandon_is_kept);
  RUN_TEST(a_value_put_after_an_abandon_goes_to_another_thread);
  RUN_TEST(a_thread_that_timed_out_takes_no_wake_up_from_another);
}

SUITE(who_is_woken) {
  RUN_TEST(waiting_consumers_hold_no_value);
  RUN_TEST(a_due_value_wakes_exactly_one_thread);
  RUN_TEST(an_immediate_value_goes_to_a_waiting_thread_without_the_loop);
  RUN_TEST(without_waiting_threads_a_put_wakes_nobody);
  RUN_TEST(a_new_earlier_head_re_arms_the_timer_and_wakes_no_consumer);
  RUN_TEST(a_thread_that_starts_waiting_for_a_value_arms_the_loop);
  RUN_TEST(on_a_replaced_clock_only_an_earlier_time_wakes_the_loop);
  RUN_TEST(next_due_includes_the_head_of_a_queue_with_waiters);
}

SUITE(refused) {
  RUN_TEST(calls_that_sleep_are_refused_on_the_loop_and_in_bodies);
}

TEST_MAIN(RUN_SUITE(getting); RUN_SUITE(timed_poll); RUN_SUITE(abandon); RUN_SUITE(nothing_is_lost);
          RUN_SUITE(who_is_woken); RUN_SUITE(refused));
