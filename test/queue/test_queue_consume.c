/* SPDX-License-Identifier: MIT
 *
 * The consumer callback of a delay queue, on the loop: values arrive in order and on time, within
 * the budget of a loop pass, after waiting threads are served. Also: what the callback may do.
 */
#include <string.h>

#include "lib/conds.h"
#include "lib/threads.h"
#include "lib/values.h"

static struct taker a;

/* Exactly one pass of the loop. */
static void turn_once(struct fixture *f) {
  fakepool_pin();
  uv_run(&f->loop, UV_RUN_NOWAIT);
  fakepool_unpin();
}

/* D6 D19 */
TEST the_consumer_callback_gets_values_in_order_and_on_time(void) {
  struct fixture f;
  uvs_queue_t *q;

  fixture_init(&f);
  CHECK_CALL(queue_open(&f, &q));
  ASSERT_RC(0, put_ms(q, 'c', 20));
  ASSERT_RC(0, uvs_queue_consume(q, logs_value, &f));
  ASSERT_RC(0, put_ms(q, 'a', 10));
  ASSERT_RC(0, put_ms(q, 'd', 20));
  ASSERT_RC(0, put_ms_elsewhere(q, 'b', 15));
  ASSERT_I64(10, fixture_next_ms(&f));
  fixture_advance_ms(&f, 100);
  ASSERT_STR_EQ("abcd", log_string(&f, EV_USER));
  ASSERT_I64(10, fixture_ms(&f, log_nth(&f, EV_USER, 'a', 0)->time_ns));
  ASSERT_I64(15, fixture_ms(&f, log_nth(&f, EV_USER, 'b', 0)->time_ns));
  ASSERT_I64(20, fixture_ms(&f, log_nth(&f, EV_USER, 'd', 0)->time_ns));
  for (unsigned i = 0; i < 4; i++)
    ASSERT(log_nth(&f, EV_USER, 0, i)->on_loop);
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* Never called from inside put or consume. */
TEST a_value_due_immediately_is_consumed_in_the_next_loop_pass(void) {
  for (int way = 0; way < 3; way++) {
    struct fixture f;
    uvs_queue_t *q;

    fixture_init(&f);
    CHECK_CALL(queue_open(&f, &q));
    if (way == 2)
      ASSERT_RC(0, put_ms(q, 'a', 0));
    ASSERT_RC(0, uvs_queue_consume(q, logs_value, &f));
    fakepool_forget();
    if (way == 0)
      ASSERT_RC(0, put_ms(q, 'a', 0));
    if (way == 1)
      ASSERT_RC(0, put_ms_elsewhere(q, 'a', 0));
    ASSERT_U64(way == 2 ? 0 : 1, fakepool_seen().async_sends); /* way 2: it was sent before */
    ASSERT_STR_EQ("", log_string(&f, EV_USER));
    turn_once(&f);
    ASSERT_STR_EQ("a", log_string(&f, EV_USER));
    ASSERT_U64(way == 2 ? 0 : 1, fakepool_seen().async_sends); /* and that was the last pass */
    CHECK_CALL(queue_close(&f, q));
  }
  PASS();
}

static void puts_another(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  struct fixture *f = arg;

  logs_value(q, e, f);
  if (tag_of_value(e->value) < 'e')
    log_add(f, EV_ERROR, '?', 0,
            uvs_queue_put_at(q, value_of(tag_of_value(e->value) + 1), 0, NULL));
}

TEST a_value_put_by_the_callback_is_consumed_in_a_later_loop_pass(void) {
  struct fixture f;
  uvs_queue_t *q;

  fixture_init(&f);
  CHECK_CALL(queue_open(&f, &q));
  ASSERT_RC(0, uvs_queue_consume(q, puts_another, &f));
  ASSERT_RC(0, put_ms(q, 'a', 0));
  for (unsigned n = 1; n <= 5; n++) {
    turn_once(&f);
    ASSERT_U64(n, log_count(&f, EV_USER, 0));
  }
  ASSERT_STR_EQ("abcde", log_string(&f, EV_USER));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* Each value is due before x, which has to wait. D19 */
TEST values_put_by_the_callback_are_consumed_in_due_order(void) {
  struct fixture f;
  uvs_queue_t *q;

  fixture_init(&f);
  CHECK_CALL(queue_open(&f, &q));
  ASSERT_RC(0, put_ms(q, 'a', 0));
  ASSERT_RC(0, put_ms(q, 'x', 0));
  ASSERT_RC(0, uvs_queue_consume(q, puts_another, &f));
  fixture_turn(&f);
  ASSERT_STR_EQ("abcdex", log_string(&f, EV_USER));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

static void takes_a_ms(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  struct fixture *f = arg;

  logs_value(q, e, f);
  vclock_advance_ns(&f->clock, UVS_MS(1));
}

/* L7 */
TEST values_beyond_the_budget_are_consumed_in_the_next_pass(void) {
  struct fixture f;
  uvs_queue_t *q;

  fixture_init(&f);
  CHECK_CALL(queue_open(&f, &q)); /* with a budget of 1 ms */
  ASSERT_RC(0, uvs_queue_consume(q, takes_a_ms, &f));
  for (int tag = 'a'; tag <= 'e'; tag++)
    ASSERT_RC(0, put_ms(q, tag, 0));
  for (unsigned n = 1; n <= 5; n++) {
    turn_once(&f);
    ASSERT_U64(n, log_count(&f, EV_USER, 0));
  }
  ASSERT_STR_EQ("abcde", log_string(&f, EV_USER));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* If one pass is too short for all queues, the next pass continues where it stopped. L7 */
TEST several_queues_are_served_in_rotation(void) {
  struct fixture f;
  uvs_queue_t *q[3];

  fixture_init(&f);
  CHECK_CALL(queue_open(&f, &q[0]));
  ASSERT_RC(0, uvs_queue_open(f.s, NULL, &q[1]));
  ASSERT_RC(0, uvs_queue_open(f.s, NULL, &q[2]));
  for (int i = 0; i < 3; i++) {
    ASSERT_RC(0, uvs_queue_consume(q[i], takes_a_ms, &f));
    for (int n = 0; n < 5; n++)
      ASSERT_RC(0, put_ms(q[i], 'a' + i, 0));
  }
  for (unsigned n = 1; n <= 9; n++) {
    turn_once(&f);
    ASSERT_U64(n, log_count(&f, EV_USER, 0));
    for (int tag = 'a'; n % 3 == 0 && tag <= 'c'; tag++)
      ASSERT_U64(n / 3, log_count(&f, EV_USER, tag)); /* each has had as many */
  }
  /* The queue that is next may be closed: the others go on. They are served in rotation, so the
   * next is the one that was called three passes ago. */
  int next = log_string(&f, EV_USER)[6] - 'a';
  ASSERT_RC(0, uvs_queue_close(q[next]));
  q[next] = NULL;
  fixture_turn(&f);
  for (int i = 0; i < 3; i++) {
    ASSERT_U64(q[i] == NULL ? 3 : 5, log_count(&f, EV_USER, 'a' + i));
    if (q[i] != NULL)
      ASSERT_RC(0, uvs_queue_close(q[i]));
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* D23 */
TEST waiting_threads_are_served_before_the_callback(void) {
  struct fixture f;
  uvs_queue_t *q;

  fixture_init(&f);
  CHECK_CALL(queue_open(&f, &q));
  conds_forget();
  ASSERT_RC(0, uvs_queue_consume(q, logs_value, &f));
  ASSERT_RC(0, taker_start(&a, q, NULL, 0));
  ASSERT(conds_await(1));
  ASSERT_RC(0, put_ms(q, 'a', 10));
  ASSERT_RC(0, put_ms(q, 'b', 10));
  fixture_advance_ms(&f, 10);
  ASSERT_RC('a', taker_join(&a));
  ASSERT_STR_EQ("b", log_string(&f, EV_USER));
  ASSERT_RC(1, atomic_load(&conds.signals));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

static void lets_a_thread_wait(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  struct fixture *f = arg;

  logs_value(q, e, f);
  if (tag_of_value(e->value) != 'a')
    return;
  if (taker_start(&a, q, NULL, 0) != 0 || !conds_await(1)) /* nothing else is due */
    log_add(f, EV_ERROR, '?', 0, 0);
  vclock_advance_ns(&f->clock, UVS_US(500));
}

/* Also for a thread that starts waiting between two callbacks. D23 */
TEST a_thread_that_starts_waiting_is_served_before_the_next_callback(void) {
  struct fixture f;
  uvs_queue_t *q;

  fixture_init(&f);
  CHECK_CALL(queue_open(&f, &q));
  conds_forget();
  ASSERT_RC(0, put_ms(q, 'a', 0));
  ASSERT_RC(0, uvs_queue_put(q, value_of('b'), UVS_US(500), NULL));
  ASSERT_RC(0, uvs_queue_put(q, value_of('c'), UVS_US(500), NULL));
  ASSERT_RC(0, uvs_queue_consume(q, lets_a_thread_wait, &f));
  turn_once(&f);
  ASSERT_RC('b', taker_join(&a));
  ASSERT_STR_EQ("ac", log_string(&f, EV_USER));
  ASSERT_STR_EQ("", log_string(&f, EV_ERROR));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

static void other_cb(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  (void)q;
  log_add(arg, EV_ERROR, tag_of_value(e->value), e->item, 0);
}

static void changes_cb(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  struct fixture *f = arg;
  int tag = tag_of_value(e->value);

  logs_value(q, e, f);
  uvs_queue_consume(q, tag == 'a' ? other_cb : NULL, f);
}

TEST a_consumer_callback_can_be_replaced_and_removed(void) {
  struct fixture f;
  uvs_queue_t *q;

  fixture_init(&f);
  CHECK_CALL(queue_open(&f, &q));
  ASSERT_RC(0, uvs_queue_consume(q, changes_cb, &f));
  ASSERT_RC(0, put_ms(q, 'a', 0));
  ASSERT_RC(0, put_ms(q, 'b', 0)); /* goes to the other at once */
  fixture_turn(&f);
  ASSERT_STR_EQ("a", log_string(&f, EV_USER));
  ASSERT_STR_EQ("b", log_string(&f, EV_ERROR));
  ASSERT_RC(0, uvs_queue_consume(q, changes_cb, &f));
  ASSERT_RC(0, put_ms(q, 'c', 0)); /* the last */
  ASSERT_RC(0, put_ms(q, 'd', 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("ac", log_string(&f, EV_USER));
  ASSERT_I64(-1, fixture_next_ms(&f)); /* no consumer is left */
  ASSERT_RC('d', poll_tag(q));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

static int do_nothing(uvs_run_t *run) {
  (void)run;
  return 0;
}

static void does_everything(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  struct fixture *f = arg;
  uvs_entry_t got;
  int64_t due_ns;
  uvs_queue_t *other;

  logs_value(q, e, f);
  log_add(f, EV_ERROR, 't', 0, uvs_queue_take(q, NULL, &got));
  log_add(f, EV_ERROR, 'o', 0, uvs_queue_open(f->s, NULL, &other));
  log_add(f, EV_ERROR, 'p', 0, uvs_queue_put(other, value_of('o'), 0, NULL));
  log_add(f, EV_ERROR, 'C', 0, uvs_queue_consume(other, logs_value, f));
  log_add(f, EV_ERROR, 'n', 0, uvs_next_due(f->s, &due_ns));
  log_add(f, EV_ERROR, 'd', 0, uvs_queue_drain(q, 1, logs_left_value, f));
  log_add(f, EV_ERROR, 'x', 0, uvs_schedule(f->s, 0, do_nothing, NULL, NULL));
  log_add(f, EV_ERROR, 'c', 0, uvs_queue_close(q));
  log_add(f, EV_ERROR, 'n', 0, uvs_next_due(f->s, &due_ns));
  log_add(f, EV_ERROR, 'c', 0, uvs_queue_close(other));
}

TEST the_consumer_callback_may_call_anything_even_close_the_queue(void) {
  struct fixture f;
  uvs_queue_t *q;

  fixture_init(&f);
  CHECK_CALL(queue_open(&f, &q));
  ASSERT_RC(0, uvs_queue_consume(q, does_everything, &f));
  for (int tag = 'a'; tag <= 'd'; tag++)
    ASSERT_RC(0, put_ms(q, tag, 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("a", log_string(&f, EV_USER));
  ASSERT_STR_EQ("bcd", log_string(&f, EV_NEVER_RAN)); /* b was drained, the rest given back */
  ASSERT_STR_EQ("topCndxcnc", log_string(&f, EV_ERROR));
  ASSERT_RC(UVS_EDEADLK, log_nth(&f, EV_ERROR, 't', 0)->status);
  ASSERT_RC(1, log_nth(&f, EV_ERROR, 'd', 0)->status);
  for (unsigned i = 0; i < 10; i++) {
    const struct event *e = log_nth(&f, EV_ERROR, 0, i);

    if (e->tag != 't' && e->tag != 'd')
      ASSERT_RC(0, e->status);
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static void closes_the_scheduler(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  struct fixture *f = arg;
  uvs_t *s = f->s;

  logs_value(q, e, f);
  f->s = NULL;
  log_add(f, EV_ERROR, 'c', 0, uvs_close(s, note_closed));
}

TEST the_consumer_callback_may_close_the_scheduler(void) {
  struct fixture f;
  uvs_queue_t *q;

  fixture_init(&f);
  CHECK_CALL(queue_open(&f, &q));
  ASSERT_RC(0, uvs_queue_consume(q, closes_the_scheduler, &f));
  ASSERT_RC(0, put_ms(q, 'a', 0));
  ASSERT_RC(0, put_ms(q, 'b', 10));
  fixture_turn_until_closed(&f);
  ASSERT_RC(0, log_nth(&f, EV_ERROR, 'c', 0)->status);
  ASSERT_STR_EQ("ac", log_string(&f, EV_USER)); /* c: closed */
  ASSERT_STR_EQ("b", log_string(&f, EV_NEVER_RAN));
  ASSERT_RC(0, uvs_queue_close(q));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static void closes_its_queue(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  logs_value(q, e, arg);
  log_add(arg, EV_ERROR, 'c', 0, uvs_queue_close(q));
}

/* Nothing else wakes the loop: the close itself has to. */
TEST a_queue_closed_by_its_callback_is_freed_soon(void) {
  struct fixture f;
  uvs_queue_t *q;
  uvs_queue_t *other;
  long before;

  fixture_init(&f);
  CHECK_CALL(queue_open(&f, &q));
  before = atomic_load(&f.fault.live);
  ASSERT_RC(0, uvs_queue_open(f.s, NULL, &other));
  ASSERT_RC(0, uvs_queue_consume(other, closes_its_queue, &f));
  ASSERT_RC(0, put_ms(other, 'a', 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("a", log_string(&f, EV_USER));
  ASSERT_RC(0, log_nth(&f, EV_ERROR, 'c', 0)->status);
  ASSERT_EQ_FMT(before, atomic_load(&f.fault.live), "%ld");
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* Before its first pass the loop's thread is not known. */
TEST a_consumer_may_be_set_before_the_first_loop_pass(void) {
  struct fixture f;
  uvs_queue_t *q;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  ASSERT_RC(0, uvs_queue_open(f.s, NULL, &q));
  ASSERT_RC(0, uvs_queue_consume(q, logs_value, &f));
  ASSERT_RC(0, put_ms(q, 'b', 10));
  ASSERT_RC(0, put_ms(q, 'a', 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("a", log_string(&f, EV_USER));
  fixture_advance_ms(&f, 10);
  ASSERT_STR_EQ("ab", log_string(&f, EV_USER));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* A removed head costs one empty wake-up at most: the timer is not moved for it. */
TEST a_removed_head_costs_at_most_one_empty_wake_up(void) {
  struct fixture f;
  uvs_queue_t *q;
  uvs_item_t item;

  fixture_init(&f);
  f.real_clock = true;
  CHECK_CALL(queue_open(&f, &q));
  ASSERT_RC(0, uvs_queue_consume(q, logs_value, &f));
  fakepool_forget();
  ASSERT_RC(0, uvs_queue_put(q, value_of('a'), UVS_HOUR(1), &item));
  ASSERT_U64(1, fakepool_seen().timer_starts);
  for (int i = 0; i < 100; i++) {
    ASSERT_RC(0, uvs_queue_remove(q, item, NULL));
    ASSERT_RC(0, uvs_queue_put(q, value_of('a'), UVS_HOUR(2), &item));
  }
  ASSERT_U64(1, fakepool_seen().timer_starts);
  ASSERT_U64(0, fakepool_seen().async_sends);
  ASSERT_RC(0, uvs_queue_remove(q, item, NULL));
  ASSERT_I64(-1, fixture_next_ms(&f)); /* who asks is told the truth */
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* A thread with this mark stops once before it takes a scheduler's lock. */
static _Thread_local bool stops;
static _Atomic int stopped, go_on;

int __real_uv_mutex_trylock(uv_mutex_t *mutex);
int __wrap_uv_mutex_trylock(uv_mutex_t *mutex);
int __wrap_uv_mutex_trylock(uv_mutex_t *mutex) {
  if (stops) {
    stops = false;
    atomic_store(&stopped, 1);
    await_flag(&go_on);
  }
  return __real_uv_mutex_trylock(mutex);
}

static int put_and_stop(void *queue) {
  int rc;

  stops = true;
  rc = put_ms(queue, 'a', 1);
  stops = false;
  return rc;
}

/* D23: uvs_next_due on the loop sees a value before the loop is woken for it. The timer must still
 * be armed for the value. */
TEST next_due_does_not_swallow_the_wake_up_for_a_new_value(void) {
  struct errand e = {put_and_stop, NULL, 0};
  struct fixture f;
  uv_thread_t thread;
  uvs_queue_t *q;
  uint64_t sends;
  int64_t due_ns;

  fixture_init(&f);
  f.real_clock = true;
  CHECK_CALL(queue_open(&f, &q));
  ASSERT_RC(0, uvs_queue_consume(q, logs_value, &f));
  fixture_turn(&f);
  stopped = go_on = 0;
  e.arg = q;
  sends = fakepool_seen().async_sends;
  ASSERT_RC(0, uv_thread_create(&thread, errand_main, &e));
  ASSERT(await_flag(&stopped)); /* the value is in, and the loop was not told */
  ASSERT_RC(0, uvs_next_due(f.s, &due_ns));
  ASSERT(due_ns != UVS_NEVER);
  atomic_store(&go_on, 1);
  uv_thread_join(&thread);
  ASSERT_RC(0, e.rc);
  ASSERT_U64(sends + 1, fakepool_seen().async_sends);
  ASSERT(fixture_wait_log(&f, EV_USER, 'a', 1));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

SUITE(consume) {
  RUN_TEST(the_consumer_callback_gets_values_in_order_and_on_time);
  RUN_TEST(a_value_due_immediately_is_consumed_in_the_next_loop_pass);
  RUN_TEST(a_value_put_by_the_callback_is_consumed_in_a_later_loop_pass);
  RUN_TEST(values_put_by_the_callback_are_consumed_in_due_order);
  RUN_TEST(values_beyond_the_budget_are_consumed_in_the_next_pass);
  RUN_TEST(several_queues_are_served_in_rotation);
  RUN_TEST(waiting_threads_are_served_before_the_callback);
  RUN_TEST(a_thread_that_starts_waiting_is_served_before_the_next_callback);
  RUN_TEST(a_consumer_callback_can_be_replaced_and_removed);
  RUN_TEST(the_consumer_callback_may_call_anything_even_close_the_queue);
  RUN_TEST(the_consumer_callback_may_close_the_scheduler);
  RUN_TEST(a_queue_closed_by_its_callback_is_freed_soon);
  RUN_TEST(a_consumer_may_be_set_before_the_first_loop_pass);
  RUN_TEST(a_removed_head_costs_at_most_one_empty_wake_up);
  RUN_TEST(next_due_does_not_swallow_the_wake_up_for_a_new_value);
}

TEST_MAIN(RUN_SUITE(consume));
