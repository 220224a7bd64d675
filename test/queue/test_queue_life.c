/* SPDX-License-Identifier: MIT
 *
 * The life of a delay queue: open, close, references, keeping the loop alive, invalid arguments and
 * their codes, and allocation failures everywhere.
 */
#include <stdlib.h>
#include <string.h>

#include <stddef.h>

#include "lib/conds.h"
#include "lib/inspect.h"
#include "lib/threads.h"
#include "lib/values.h"

static struct taker a, b;
static uvs_waiter_t wa;
static uvs_queue_t *q; /* of the current test */

static int failing_inits; /* this many locks and conditions cannot be created */

int __real_uv_mutex_init(uv_mutex_t *m);
int __wrap_uv_mutex_init(uv_mutex_t *m);
int __real_uv_cond_init(uv_cond_t *m);
int __wrap_uv_cond_init(uv_cond_t *m);

int __wrap_uv_mutex_init(uv_mutex_t *m) {
  return failing_inits > 0 && failing_inits-- > 0 ? UV_EAGAIN : __real_uv_mutex_init(m);
}

int __wrap_uv_cond_init(uv_cond_t *m) {
  return failing_inits > 0 && failing_inits-- > 0 ? UV_EAGAIN : __real_uv_cond_init(m);
}

static enum greatest_test_res begin(struct fixture *f) {
  CHECK_CALL(queue_open(f, &q));
  uvs_waiter_init(&wa);
  conds_forget();
  ASSERT_RC(0, atomic_load(&conds.asleep));
  PASS();
}

/* -------------------------------------------------------------------- close --- */

TEST closing_a_queue_gives_back_remaining_values_in_due_order(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  ASSERT_RC(0, put_ms(q, 'c', 10));
  ASSERT_RC(0, put_ms(q, 'a', 0));
  ASSERT_RC(0, uvs_queue_put(q, value_of('d'), UVS_NEVER, NULL));
  ASSERT_RC(0, put_ms(q, 'b', 0));
  ASSERT_RC('a', poll_tag(q));
  ASSERT_RC(0, uvs_queue_close(q));
  ASSERT_STR_EQ("bcd", log_string(&f, EV_NEVER_RAN));
  fixture_turn(&f);
  ASSERT_STR_EQ("bcd", log_string(&f, EV_NEVER_RAN)); /* once */
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int close_q(void *arg) {
  (void)arg;
  return uvs_queue_close(q);
}

/* L12 */
TEST closing_a_queue_releases_all_waiting_threads(void) {
  for (int elsewhere_too = 0; elsewhere_too < 2; elsewhere_too++) {
    struct fixture f;

    fixture_init(&f);
    CHECK_CALL(begin(&f));
    atomic_store(&conds.real, true);
    ASSERT_RC(0, put_ms(q, 'a', 10));
    ASSERT_RC(0, taker_start(&a, q, NULL, 0));
    ASSERT(conds_await(1));
    ASSERT_RC(0, taker_start(&b, q, &wa, UVS_HOUR(1)));
    ASSERT(conds_await(2));
    ASSERT_RC(0, elsewhere_too ? elsewhere(close_q, NULL) : close_q(NULL));
    ASSERT_RC(UV_ECANCELED, taker_join(&a)); /* and its memory goes with the last of them */
    ASSERT_RC(UV_ECANCELED, taker_join(&b));
    ASSERT_RC(2, atomic_load(&conds.signals));
    ASSERT_STR_EQ("a", log_string(&f, EV_NEVER_RAN));
    ASSERT_EQ(!elsewhere_too, log_nth(&f, EV_NEVER_RAN, 'a', 0)->on_loop);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static uv_sem_t go;
static int bare_rc;

static void wait_for_go(void) {
  uv_sem_wait(&go);
}

/* Without a reference of its own. */
static void bare_take(void *arg) {
  uvs_entry_t e;

  (void)arg;
  bare_rc = uvs_queue_take(q, NULL, &e);
}

/* All others have released the queue when the waiting thread wakes up. L12 */
TEST the_queue_is_freed_when_the_last_waiting_thread_has_left(void) {
  struct fixture f;
  uv_thread_t thread;
  long before;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  before = atomic_load(&f.fault.live);
  conds_forget();
  ASSERT_RC(0, uv_sem_init(&go, 0));
  ASSERT_RC(0, uvs_queue_open(f.s, NULL, &q));
  ASSERT_RC(0, uv_thread_create(&thread, bare_take, NULL));
  ASSERT(conds_await(1));
  conds.wakes = wait_for_go;
  ASSERT_RC(0, uvs_queue_close(q));
  fixture_turn(&f);
  ASSERT(conds_await(0)); /* it is on its way out */
  ASSERT_EQ_FMT(before + 1, atomic_load(&f.fault.live), "%ld");
  uv_sem_post(&go);
  uv_thread_join(&thread);
  conds_forget();
  ASSERT_RC(UV_ECANCELED, bare_rc);
  ASSERT_EQ_FMT(before, atomic_load(&f.fault.live), "%ld");
  uv_sem_destroy(&go);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static void closes_meanwhile(void) {
  (void)uvs_queue_close(q);
}

static void puts_and_closes_meanwhile(void) {
  (void)put_ms(q, 'x', 0);
  (void)uvs_queue_close(q);
}

/* The value already belonged to the waiting thread: it is neither lost nor given back. D23 */
TEST a_value_handed_to_a_waiter_before_close_is_not_lost(void) {
  for (int value = 0; value < 2; value++) {
    struct fixture f;

    fixture_init(&f);
    CHECK_CALL(begin(&f));
    conds.meanwhile = value ? puts_and_closes_meanwhile : closes_meanwhile;
    ASSERT_RC(0, taker_start(&a, q, NULL, UVS_SEC(1)));
    ASSERT_RC(value ? 'x' : UV_ECANCELED, taker_join(&a));
    ASSERT_STR_EQ("", log_string(&f, EV_NEVER_RAN));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static int each_never(uvs_queue_t *queue, const uvs_entry_t *e, void *arg) {
  logs_value(queue, e, arg);
  return 0;
}

/* The number of the first call that does not return `rc`, or 0. */
static int all_answer(struct fixture *f, int rc) {
  uvs_entry_t e = {value_of('a'), 7, 7};
  uvs_item_t item = 7;
  int n = 0;

#define ANSWERS(call) \
  do { \
    n++; \
    if ((call) != rc) \
      return n; \
  } while (0)
  ANSWERS(uvs_queue_put(q, value_of('b'), 0, &item));
  ANSWERS(uvs_queue_put_at(q, value_of('b'), 0, &item));
  ANSWERS(uvs_queue_put_many(q, &e, 1));
  ANSWERS(uvs_queue_poll(q, &e));
  ANSWERS(uvs_queue_poll_within(q, 0, &wa, &e));
  ANSWERS(uvs_queue_abandon(q, &wa));
  ANSWERS(uvs_queue_consume(q, logs_value, f));
  ANSWERS(uvs_queue_drain(q, UVS_QUEUE_ALL, logs_value, f));
  ANSWERS(uvs_queue_drain(q, 0, logs_value, f));
  ANSWERS(uvs_queue_clear(q, logs_value, f));
  ANSWERS(uvs_queue_remove(q, 7, &e));
  ANSWERS(uvs_queue_remove_value(q, value_of('a'), &e));
  ANSWERS(uvs_queue_peek(q, &e));
  ANSWERS(uvs_queue_size(q));
  ANSWERS(uvs_queue_contains(q, value_of('a')));
  ANSWERS(uvs_queue_each(q, each_never, f));
  ANSWERS(uvs_queue_dump(q, stdout));
  ANSWERS(uvs_queue_ref(q));
  ANSWERS(uvs_queue_unref(q));
  ANSWERS(uvs_queue_has_ref(q));
#undef ANSWERS
  if (e.value != value_of('a') || e.item != 7 || e.due_ns != 7 || item != 7)
    return n + 1;
  return log_count(f, EV_USER, 0) == 0 ? 0 : n + 2;
}

/* L17 */
TEST after_closing_a_queue_calls_of_reference_holders_are_refused(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  ASSERT_EQ(q, uvs_queue_retain(q));
  ASSERT_RC(0, uvs_queue_close(q));
  for (int turned = 0; turned < 2; turned++) {
    ASSERT_RC(0, all_answer(&f, UV_ESHUTDOWN));
    ASSERT_RC(0, taker_start(&a, q, NULL, 0));
    ASSERT_RC(UV_ESHUTDOWN, taker_join(&a));
    ASSERT_RC(UV_EALREADY, uvs_queue_close(q));
    ASSERT_EQ(f.s, uvs_queue_scheduler(q));
    fixture_turn(&f); /* the loop has let go of it */
  }
  uvs_queue_release(q);
  ASSERT_EQ(NULL, uvs_queue_retain(NULL));
  uvs_queue_release(NULL);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L12 */
TEST closing_the_scheduler_closes_its_queues(void) {
  struct fixture f;
  uvs_queue_t *other;
  uvs_t *s;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  ASSERT_RC(0, uvs_queue_open(f.s, NULL, &other)); /* the loop has not yet seen it */
  ASSERT_RC(0, put_ms(q, 'b', 10));
  ASSERT_RC(0, put_ms(q, 'a', 0));
  ASSERT_RC(0, taker_start(&a, other, NULL, 0));
  ASSERT(conds_await(1));
  ASSERT_RC(0, uvs_queue_consume(other, logs_value, &f));
  s = uvs_retain(f.s);
  f.s = NULL;
  ASSERT_RC(0, uvs_close(s, note_closed));
  ASSERT_STR_EQ("", log_string(&f, EV_NEVER_RAN)); /* not from inside the call */
  fixture_turn_until_closed(&f);
  ASSERT_STR_EQ("ab", log_string(&f, EV_NEVER_RAN));
  ASSERT(log_nth(&f, EV_NEVER_RAN, 'a', 0)->on_loop);
  ASSERT_STR_EQ("c", log_string(&f, EV_USER));
  ASSERT_RC(UV_ECANCELED, taker_join(&a));
  log_clear(&f);
  ASSERT_RC(0, all_answer(&f, UV_ESHUTDOWN));
  ASSERT_RC(UV_ESHUTDOWN, uvs_queue_open(s, NULL, &other));
  uvs_release(s);
  /* The opener's reference is not released yet. The scheduler is freed with its last queue. */
  uvs_queue_retain(q);
  ASSERT_RC(0, uvs_queue_close(q));
  ASSERT_RC(UV_EALREADY, uvs_queue_close(q));
  uvs_queue_release(q);
  ASSERT_RC(0, uvs_queue_close(other));
  CHECK_CALL(fixture_close(&f)); /* no memory is left */
  PASS();
}

static _Atomic int has_left;

static void take_and_tell(void *arg) {
  bare_take(arg);
  atomic_store(&has_left, 1);
}

/* A body that ends when a consumer has left the queue, or after PATIENCE_NS. */
static int waits_for_a_consumer(struct probe *p, uvs_run_t *run) {
  (void)p;
  (void)run;
  return await_flag(&has_left) ? 0 : UV_ETIMEDOUT;
}

/* Closing the scheduler waits for bodies. Threads that wait in a queue are released before. L12 */
TEST closing_the_scheduler_closes_queues_while_bodies_still_run(void) {
  struct fixture f;
  uv_thread_t thread;
  uvs_t *s;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  CHECK_CALL(begin(&f));
  atomic_store(&has_left, 0);
  ASSERT_RC(0, uv_thread_create(&thread, take_and_tell, NULL));
  ASSERT(conds_await(1));
  uvs_task_t t = fixture_once(&f, 'b', 0);
  probe_of(&t)->act = waits_for_a_consumer;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT(fixture_wait_log(&f, EV_WORK, 'b', 1));
  s = f.s;
  f.s = NULL;
  ASSERT_RC(0, uvs_close(s, note_closed));
  ASSERT(fixture_wait_closed(&f));
  ASSERT_RC(1, atomic_load(&has_left));
  uv_thread_join(&thread);
  ASSERT_RC(UV_ECANCELED, bare_rc);
  ASSERT_U64(1, log_count(&f, EV_DONE, 'b'));
  ASSERT_RC(0, uvs_queue_close(q));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* Between uvs_close and the loop pass that closes the queues. */
static void close_and_turn(uvs_t *s) {
  struct fixture *f = uvs_data(s);

  uvs_close(s, note_closed);
  uv_run(&f->loop, UV_RUN_NOWAIT);
}

/* L12: even if the pass that ends the scheduler began before the close. */
TEST queues_are_closed_if_the_last_callback_closes_and_runs_the_loop(void) {
  struct fixture f;

  fixture_init(&f);
  f.options.on_terminated = close_and_turn;
  CHECK_CALL(begin(&f));
  ASSERT_RC(0, put_ms(q, 'a', 10));
  ASSERT_RC(0, uvs_shutdown(f.s));
  fixture_turn_until_closed(&f);
  f.s = NULL;
  ASSERT_STR_EQ("a", log_string(&f, EV_NEVER_RAN));
  ASSERT_RC(0, uvs_queue_close(q));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

TEST a_queue_opened_while_the_scheduler_closes_is_closed_or_refused(void) {
  struct fixture f;
  uvs_queue_t *other, *late = NULL;
  uvs_t *s;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  s = uvs_retain(f.s);
  f.s = NULL;
  ASSERT_RC(0, uvs_close(s, note_closed));
  ASSERT_RC(0, uvs_queue_open(s, NULL, &other));
  ASSERT_RC(0, uvs_queue_close(q)); /* in that same gap */
  fixture_turn_until_closed(&f);
  ASSERT_RC(UV_ESHUTDOWN, uvs_queue_size(other));
  ASSERT_RC(UV_ESHUTDOWN, uvs_queue_open(s, NULL, &late));
  ASSERT_EQ(NULL, late);
  ASSERT_RC(0, uvs_queue_close(other));
  uvs_release(s);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static void opens_another(uvs_queue_t *queue, const uvs_entry_t *e, void *arg) {
  uvs_queue_t *other = NULL;

  logs_left_value(queue, e, arg);
  log_add(arg, EV_ERROR, 'o', 0, uvs_queue_open(uvs_queue_scheduler(queue), NULL, &other));
  log_add(arg, EV_ERROR, 'n', 0, other == NULL ? 0 : 1);
}

/* The same in the pass that closes the queues: a queue opened then would never be closed. */
TEST a_queue_opened_while_the_queues_are_closed_is_refused(void) {
  uvs_queue_options_t o;
  struct fixture f;
  uvs_queue_t *queue;
  uvs_t *s;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_queue_options_init(&o);
  o.on_left = opens_another;
  o.arg = &f;
  ASSERT_RC(0, uvs_queue_open(f.s, &o, &queue));
  ASSERT_RC(0, put_ms(queue, 'a', 0));
  s = f.s;
  f.s = NULL;
  ASSERT_RC(0, uvs_close(s, note_closed));
  fixture_turn_until_closed(&f);
  ASSERT_STR_EQ("a", log_string(&f, EV_NEVER_RAN));
  ASSERT_STR_EQ("on", log_string(&f, EV_ERROR));
  ASSERT_RC(UV_ESHUTDOWN, log_nth(&f, EV_ERROR, 'o', 0)->status);
  ASSERT_RC(0, log_nth(&f, EV_ERROR, 'n', 0)->status);
  ASSERT_RC(0, uvs_queue_close(queue));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static struct errand closer;
static uv_thread_t closer_thread;
static uv_sem_t in_left;

static void waits_in_left(uvs_queue_t *queue, const uvs_entry_t *e, void *arg) {
  logs_left_value(queue, e, arg);
  if (tag_of_value(e->value) != 'b')
    return;
  uv_sem_post(&in_left);
  uv_sem_wait(&go);
}

static void is_closed_meanwhile(uvs_queue_t *queue, const uvs_entry_t *e, void *arg) {
  logs_value(queue, e, arg);
  if (tag_of_value(e->value) != 'a')
    return;
  closer.run = close_q;
  if (uv_thread_create(&closer_thread, errand_main, &closer) == 0)
    uv_sem_wait(&in_left);
}

/* Another thread closes the queue while the callback runs, and has not yet given back all values
 * when the callback returns. The callback must not get these values. */
TEST after_closing_a_queue_its_callback_is_not_called(void) {
  uvs_queue_options_t o;
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  ASSERT_RC(0, uv_sem_init(&go, 0));
  ASSERT_RC(0, uv_sem_init(&in_left, 0));
  uvs_queue_options_init(&o);
  o.on_left = waits_in_left;
  o.arg = &f;
  ASSERT_RC(0, uvs_queue_open(f.s, &o, &q));
  ASSERT_RC(0, uvs_queue_consume(q, is_closed_meanwhile, &f));
  for (int tag = 'a'; tag <= 'd'; tag++)
    ASSERT_RC(0, put_ms(q, tag, 0));
  fixture_turn(&f);
  uv_sem_post(&go);
  uv_thread_join(&closer_thread);
  ASSERT_RC(0, closer.rc);
  ASSERT_STR_EQ("a", log_string(&f, EV_USER));
  ASSERT_STR_EQ("bcd", log_string(&f, EV_NEVER_RAN));
  uv_sem_destroy(&go);
  uv_sem_destroy(&in_left);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* Values are not tasks: they are not counted as tasks and do not end with them. */
TEST a_shutdown_does_not_affect_queues(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  ASSERT_RC(0, uvs_queue_consume(q, logs_value, &f));
  ASSERT_RC(0, put_ms(q, 'a', 10));
  ASSERT_RC(0, uvs_shutdown_now(f.s, NULL, NULL));
  fixture_turn(&f);
  ASSERT_RC(1, uvs_is_terminated(f.s));
  ASSERT_RC(0, put_ms(q, 'b', 20));
  fixture_advance_ms(&f, 20);
  ASSERT_STR_EQ("ab", log_string(&f, EV_USER));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* Somebody walked the loop's handles and closed them all. L12 */
TEST closing_releases_all_waiters_even_if_others_closed_the_handles(void) {
  struct fixture f;
  struct found found;
  uvs_t *s;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  ASSERT_RC(0, taker_start(&a, q, NULL, 0));
  ASSERT(conds_await(1));
  found = find_handles(&f.loop, f.s);
  ASSERT(found.timer != NULL && found.async != NULL);
  uv_close(found.timer, NULL);
  uv_close(found.async, NULL);
  fixture_turn(&f);
  ASSERT_RC(0, put_ms(q, 'a', 10));
  ASSERT_RC(0, put_ms_elsewhere(q, 'b', 5));
  fixture_jump_ms(&f, 20);
  ASSERT_RC(1, atomic_load(&conds.asleep)); /* nothing more falls due there */
  s = f.s;
  f.s = NULL;
  ASSERT_RC(0, uvs_close(s, note_closed));
  fixture_turn_until_closed(&f);
  ASSERT_RC(UV_ECANCELED, taker_join(&a));
  ASSERT_STR_EQ("ba", log_string(&f, EV_NEVER_RAN));
  ASSERT_RC(0, uvs_queue_close(q));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* No call sends to a closed handle: if the loop is gone as well, libuv would abort. L12 */
TEST no_queue_call_sends_to_an_async_handle_that_others_closed(void) {
  for (int real = 0; real < 2; real++) {
    struct fixture f;
    struct found found;

    fixture_init(&f);
    f.real_clock = real != 0;
    CHECK_CALL(begin(&f));
    ASSERT_RC(0, uvs_queue_consume(q, logs_value, &f));
    found = find_handles(&f.loop, f.s);
    ASSERT(found.timer != NULL && found.async != NULL);
    uv_close(found.timer, NULL);
    uv_close(found.async, NULL);
    fixture_turn(&f);
    fakepool_forget();
    ASSERT_RC(0, put_ms(q, 'b', 3600 * 1000));
    ASSERT_RC(0, put_ms(q, 'a', 0));
    ASSERT_RC(0, uvs_queue_unref(q));
    ASSERT_RC(0, uvs_queue_close(q));
    ASSERT_STR_EQ("ab", log_string(&f, EV_NEVER_RAN));
    ASSERT_U64(0, fakepool_seen().async_sends);
    ASSERT_U64(0, fakepool_seen().timer_starts);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* Queues are opened and closed again and again, on the loop and on other threads: the memory is
 * freed. */
TEST closed_queues_leave_no_memory_behind(void) {
  struct fixture f;
  long before;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  before = atomic_load(&f.fault.live);
  for (int round = 0; round < 3; round++) {
    uvs_queue_t *many[50];

    for (int i = 0; i < 50; i++) {
      ASSERT_RC(0, uvs_queue_open(f.s, NULL, &many[i]));
      ASSERT_RC(0, put_ms(many[i], 'a', i));
      ASSERT_RC(0, uvs_queue_consume(many[i], logs_value, &f));
    }
    if (round > 0)
      fixture_advance_ms(&f, 10);
    for (int i = 0; i < 50; i++) {
      uvs_queue_t *keep = q;

      q = many[i * 7 % 50]; /* in some other order */
      ASSERT_RC(0, round < 2 ? close_q(NULL) : elsewhere(close_q, NULL));
      q = keep;
    }
    fixture_turn(&f);
    ASSERT_EQ_FMT(before, atomic_load(&f.fault.live), "%ld");
  }
  ASSERT_U64(22, log_count(&f, EV_USER, 'a'));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* --------------------------------------------------------------- keep alive --- */

static uvs_t *scheduler;

static int open_q(void *arg) {
  (void)arg;
  return uvs_queue_open(scheduler, NULL, &q);
}

static int ref_q(void *arg) {
  (void)arg;
  return uvs_queue_ref(q);
}

static int unref_q(void *arg) {
  (void)arg;
  return uvs_queue_unref(q);
}

/* Like a listening socket. L1 */
TEST an_open_queue_keeps_the_loop_alive_unless_unref_d(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    int (*call)(int (*run)(void *arg), void *arg) = elsewhere;
    struct fixture f;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    scheduler = f.s;
    ASSERT_FALSE(fixture_alive(&f));
#define DO(what) ASSERT_RC(0, off_loop ? call(what, NULL) : what(NULL))
#define ALIVE(yes) \
  do { \
    if (off_loop) \
      fixture_turn(&f); /* the loop hears of it */ \
    ASSERT_EQ(yes, fixture_alive(&f)); \
  } while (0)
    DO(open_q);
    ALIVE(true);
    ASSERT_RC(1, uvs_queue_has_ref(q));
    DO(unref_q);
    ALIVE(false);
    ASSERT_RC(0, uvs_queue_has_ref(q));
    DO(unref_q);
    ALIVE(false); /* twice is once */
    DO(ref_q);
    DO(ref_q);
    ALIVE(true);
    DO(unref_q);
    ALIVE(false);
    ASSERT_RC(0, put_ms(q, 'a', 10));
    ASSERT_RC(0, uvs_queue_consume(q, logs_value, &f));
    ALIVE(false); /* nor does it otherwise */
    fixture_advance_ms(&f, 10);
    ASSERT_STR_EQ("a", log_string(&f, EV_USER));
    DO(ref_q);
    ALIVE(true);
    DO(close_q);
    ALIVE(false);
    DO(open_q);
    DO(unref_q);
    DO(close_q); /* an unref'd one takes no other's share */
    DO(open_q);
    ALIVE(true);
    DO(close_q);
    ALIVE(false);
#undef DO
#undef ALIVE
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L1 */
TEST keep_alive_never_and_always_apply_to_queues(void) {
  struct fixture f;

  fixture_init(&f);
  f.options.keep_alive = UVS_KEEP_ALIVE_NEVER;
  CHECK_CALL(begin(&f));
  ASSERT_FALSE(fixture_alive(&f));
  ASSERT_RC(1, uvs_queue_has_ref(q));
  CHECK_CALL(queue_close(&f, q));

  fixture_init(&f);
  f.options.keep_alive = UVS_KEEP_ALIVE_ALWAYS;
  CHECK_CALL(begin(&f));
  ASSERT_RC(0, uvs_shutdown(f.s));
  fixture_turn(&f);
  ASSERT_RC(1, uvs_is_terminated(f.s));
  ASSERT(fixture_alive(&f)); /* now it is the queue */
  ASSERT_RC(0, uvs_queue_unref(q));
  ASSERT_FALSE(fixture_alive(&f));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* The loop sleeps in its poll when another thread closes the last queue. */
static _Atomic int about_to_sleep;

static void note_sleep(uv_prepare_t *h) {
  if (uv_backend_timeout(h->loop) != 0) /* the poll that follows does not return by itself */
    atomic_store(&about_to_sleep, 1);
}

static int close_when_asleep(void *arg) {
  (void)arg;
  return await_flag(&about_to_sleep) ? uvs_queue_close(q) : UV_ETIMEDOUT;
}

/* L11 */
TEST uv_run_returns_when_another_thread_closes_the_last_queue(void) {
  static struct errand e;
  struct fixture f;
  uv_prepare_t prepare;
  uv_thread_t thread;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  atomic_store(&about_to_sleep, 0);
  ASSERT_RC(0, uv_prepare_init(&f.loop, &prepare));
  uv_prepare_start(&prepare, note_sleep);
  uv_unref((uv_handle_t *)&prepare);
  e.run = close_when_asleep;
  e.arg = NULL;
  ASSERT_RC(0, uv_thread_create(&thread, errand_main, &e));
  ASSERT(fixture_run(&f, UV_RUN_DEFAULT, NULL));
  uv_thread_join(&thread);
  ASSERT_RC(0, e.rc);
  uv_close((uv_handle_t *)&prepare, NULL);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ----------------------------------------------------------------- bad input --- */

TEST a_null_queue_is_refused_by_every_call(void) {
  struct fixture f;
  uvs_queue_t *queue;
  uvs_entry_t e;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  queue = q;
  q = NULL;
  ASSERT_RC(0, all_answer(&f, UV_EINVAL));
  q = queue;
  ASSERT_RC(UV_EINVAL, uvs_queue_take(NULL, NULL, &e));
  ASSERT_RC(UV_EINVAL, uvs_queue_close(NULL));
  ASSERT_EQ(NULL, uvs_queue_scheduler(NULL));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

TEST opening_a_queue_refuses_invalid_options(void) {
  uvs_queue_options_t o[2];
  struct fixture f;
  uvs_queue_t *other = NULL;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  uvs_queue_options_init(&o[0]);
  ASSERT_RC(UV_EINVAL, uvs_queue_open(NULL, o, &other));
  ASSERT_RC(UV_EINVAL, uvs_queue_open(f.s, o, NULL));
  o[0].size = 0;
  ASSERT_RC(UV_EINVAL, uvs_queue_open(f.s, o, &other));
  o[0].size = offsetof(uvs_queue_options_t, arg); /* the least has `arg` */
  ASSERT_RC(UV_EINVAL, uvs_queue_open(f.s, o, &other));
  o[0].size = sizeof o[0] + 1;
  ASSERT_RC(UV_EINVAL, uvs_queue_open(f.s, o, &other));
  /* A newer and larger struct is accepted only if its unknown fields are zero. L19 */
  memset(&o[1], 0, sizeof o[1]);
  o[1].arg = &f;
  o[0].size = sizeof o;
  ASSERT_RC(UV_EINVAL, uvs_queue_open(f.s, o, &other));
  ASSERT_EQ(NULL, other);
  o[1].arg = NULL;
  ASSERT_RC(0, uvs_queue_open(f.s, o, &other));
  ASSERT_RC(0, uvs_queue_close(other));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

static int consume_elsewhere(void *arg) {
  return uvs_queue_consume(q, logs_value, arg);
}

TEST each_queue_call_refuses_invalid_arguments_with_its_own_code(void) {
  uvs_waiter_t raw = {0};
  uvs_entry_t e = {value_of('a'), 7, 0};
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  ASSERT_RC(UV_EINVAL, uvs_queue_put(q, NULL, 0, NULL));
  ASSERT_RC(UV_EINVAL, uvs_queue_put_at(q, NULL, 0, NULL));
  ASSERT_RC(UV_EINVAL, uvs_queue_put_many(q, NULL, 1));
  ASSERT_RC(UV_EINVAL, uvs_queue_put_many(q, &e, 0));
  ASSERT_RC(UV_E2BIG, uvs_queue_put_many(q, &e, SIZE_MAX)); /* before it looks at them */
  ASSERT_RC(UV_EINVAL, uvs_queue_poll(q, NULL));
  ASSERT_RC(UV_EINVAL, uvs_queue_poll_within(q, 0, NULL, NULL));
  ASSERT_RC(UV_EINVAL, uvs_queue_poll_within(q, 0, &raw, &e));
  ASSERT_RC(UV_EINVAL, uvs_queue_poll_within(q, 1, &raw, &e));
  ASSERT_RC(UV_EINVAL, uvs_queue_take(q, NULL, NULL));
  ASSERT_RC(UV_EINVAL, uvs_queue_take(q, &raw, &e));
  ASSERT_RC(UV_EINVAL, uvs_queue_abandon(q, NULL));
  ASSERT_RC(UV_EINVAL, uvs_queue_abandon(q, &raw));
  ASSERT_RC(UV_EPERM, elsewhere(consume_elsewhere, &f));
  ASSERT_RC(UV_EINVAL, uvs_queue_drain(q, UVS_QUEUE_ALL, NULL, NULL));
  ASSERT_RC(UV_EINVAL, uvs_queue_drain(q, 0, NULL, NULL));
  ASSERT_RC(UV_EINVAL, uvs_queue_peek(q, NULL));
  ASSERT_RC(UV_EINVAL, uvs_queue_each(q, NULL, NULL));
  ASSERT_RC(UV_EINVAL, uvs_queue_dump(q, NULL));
  ASSERT_RC(UV_ENOENT, uvs_queue_remove(q, 12345, NULL));
  ASSERT_RC(UV_ENOENT, uvs_queue_remove_value(q, &f, NULL));
  ASSERT_RC(0, uvs_queue_contains(q, &f));
  ASSERT_U64(7, e.item);
  ASSERT_RC(0, uvs_queue_size(q));
  ASSERT_RC(0, put_ms(q, 'a', 0));
  ASSERT_RC('a', poll_tag(q)); /* nothing of all this has left a trace */
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* ------------------------------------------------------------------- memory --- */

/* L10 */
TEST opening_a_queue_survives_every_failure(void) {
  struct fixture f;
  long before;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  before = atomic_load(&f.fault.live);
  for (long n = 0;; n++) {
    uvs_queue_t *other = NULL;
    bool failed;
    int rc;

    fault_after(n);
    rc = uvs_queue_open(f.s, NULL, &other);
    failed = fault_hit();
    ASSERT_RC(failed ? UV_ENOMEM : 0, rc);
    if (!failed) {
      ASSERT(n > 0);
      ASSERT_RC(0, uvs_queue_close(other));
      break;
    }
    ASSERT_EQ(NULL, other);
    ASSERT_EQ_FMT(before, atomic_load(&f.fault.live), "%ld");
  }
  uvs_queue_t *other = NULL;
  fixture_turn(&f);
  failing_inits = 1;
  ASSERT_RC(UV_EAGAIN, uvs_queue_open(f.s, NULL, &other));
  ASSERT_EQ(NULL, other);
  ASSERT_EQ_FMT(before, atomic_load(&f.fault.live), "%ld");
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* A queue with n values; one more would make it grow. */
static int open_and_fill(struct fixture *f, int n) {
  int rc = uvs_queue_open(f->s, NULL, &q);

  for (int i = 0; i < n && rc == 0; i++)
    rc = put_ms(q, i % 128, 0);
  return rc;
}

/* L10 */
TEST putting_into_a_queue_survives_every_failure(void) {
  static const int full[] = {0, 64, 192};
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  for (int k = 0; k < 3; k++) {
    bool failed = true;
    long n;

    for (n = 0; failed; n++) {
      uvs_item_t item = 7;
      int rc;

      ASSERT_RC(0, open_and_fill(&f, full[k]));
      fault_after(n);
      rc = uvs_queue_put(q, value_of('x'), UVS_MS(1), &item);
      failed = fault_hit();
      ASSERT_RC(failed ? UV_ENOMEM : 0, rc);
      ASSERT_RC(failed ? full[k] : full[k] + 1, uvs_queue_size(q));
      ASSERT(failed == (item == 7));
      ASSERT(inspect_queue_check(q));
      ASSERT_RC(0, put_ms(q, 'y', 2)); /* now it works */
      ASSERT_RC(0, uvs_queue_close(q));
    }
    ASSERT_EQ_FMT(2L, n, "%ld"); /* one block each time it grows */
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L10 */
TEST removing_values_needs_no_memory(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  for (int i = 0; i < 100; i++)
    ASSERT_RC(0, put_ms(q, i, i));
  ASSERT_RC(0, taker_start(&a, q, NULL, 0));
  ASSERT_RC(0, taker_join(&a)); /* tag 0: of something due */
  ASSERT_RC(0, taker_start(&a, q, NULL, 0));
  ASSERT(conds_await(1));
  fault_from(0);
  fixture_jump_ms(&f, 100);
  ASSERT_RC(1, taker_join(&a));
  ASSERT_RC(2, poll_tag(q));
  ASSERT_RC(10, uvs_queue_drain(q, 10, logs_value, &f));
  ASSERT_RC(0, uvs_queue_remove_value(q, value_of(20), NULL));
  ASSERT_RC(0, uvs_queue_consume(q, logs_value, &f));
  fixture_turn(&f);
  ASSERT_RC(0, uvs_queue_size(q));
  ASSERT_FALSE(fault_hit());
  ASSERT_U64(96, log_count(&f, EV_USER, 0));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* Whichever call removes them. */
TEST putting_and_removing_values_uses_constant_memory(void) {
  struct fixture f;
  uvs_entry_t e;
  long bytes = 0;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  for (int round = 0; round < 1000; round++) {
    for (int i = 0; i < 6; i++)
      ASSERT_RC(0, put_ms(q, 'a' + i, 0));
    ASSERT_RC('a', poll_tag(q));
    ASSERT_RC(0, uvs_queue_remove_value(q, value_of('b'), &e));
    ASSERT_RC(2, uvs_queue_drain(q, 2, logs_value, &f));
    ASSERT_RC(0, uvs_queue_consume(q, logs_value, &f));
    if (round % 100 == 0)
      fixture_turn(&f);
    (void)uvs_queue_clear(q, NULL, NULL);
    if (round == 0)
      bytes = atomic_load(&f.fault.live_bytes);
    ASSERT_EQ_FMT(bytes, atomic_load(&f.fault.live_bytes), "%ld");
  }
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* L10 */
TEST put_many_inserts_all_or_none_even_without_memory(void) {
  static uvs_entry_t e[400];
  struct fixture f;
  bool failed = true;
  long n;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  for (n = 0; failed; n++) {
    int rc;

    ASSERT_RC(0, open_and_fill(&f, 1));
    for (int i = 0; i < 400; i++) {
      e[i].value = value_of('a');
      e[i].item = 7;
      e[i].due_ns = UVS_SEC(100) - i;
    }
    fault_after(n);
    rc = uvs_queue_put_many(q, e, 400);
    failed = fault_hit();
    ASSERT_RC(failed ? UV_ENOMEM : 0, rc);
    ASSERT_RC(failed ? 1 : 401, uvs_queue_size(q));
    ASSERT(failed == (e[0].item == 7));
    ASSERT(failed == (e[399].item == 7));
    ASSERT(inspect_queue_check(q));
    ASSERT_RC(0, uvs_queue_close(q));
  }
  ASSERT_EQ_FMT(3L, n, "%ld"); /* it grows twice */
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L10 */
TEST snapshot_and_dump_survive_every_failure(void) {
  for (int dump = 0; dump < 2; dump++) {
    struct fixture f;
    FILE *out = fopen("/dev/null", "w");
    long n;

    ASSERT(out != NULL);
    fixture_init(&f);
    CHECK_CALL(begin(&f));
    ASSERT_RC(0, put_ms(q, 'a', 0));
    for (n = 0;; n++) {
      bool failed;
      int rc;

      fault_after(n);
      rc = dump ? uvs_queue_dump(q, out) : uvs_queue_each(q, logs_entry, &f);
      failed = fault_hit();
      ASSERT_RC(failed ? UV_ENOMEM : 0, rc);
      if (!failed)
        break;
      ASSERT_STR_EQ("", log_string(&f, EV_USER));
    }
    ASSERT(n > 0);
    fclose(out);
    ASSERT_RC('a', poll_tag(q));
    CHECK_CALL(queue_close(&f, q));
  }
  PASS();
}

/* The thread could not sleep, so it must not be among the waiters. L10 */
TEST a_wait_whose_condition_cannot_be_created_changes_nothing(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(begin(&f));
  failing_inits = 1;
  ASSERT_RC(0, taker_start(&a, q, &wa, 0));
  ASSERT_RC(UV_EAGAIN, taker_join(&a));
  ASSERT_RC(0, put_ms(q, 'a', 0));
  ASSERT_RC(1, uvs_queue_size(q));
  ASSERT_RC(0, taker_start(&a, q, &wa, 0));
  ASSERT_RC('a', taker_join(&a));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

SUITE(close_) {
  RUN_TEST(closing_a_queue_gives_back_remaining_values_in_due_order);
  RUN_TEST(closing_a_queue_releases_all_waiting_threads);
  RUN_TEST(the_queue_is_freed_when_the_last_waiting_thread_has_left);
  RUN_TEST(a_value_handed_to_a_waiter_before_close_is_not_lost);
  RUN_TEST(after_closing_a_queue_calls_of_reference_holders_are_refused);
  RUN_TEST(closing_the_scheduler_closes_its_queues);
  RUN_TEST(closing_the_scheduler_closes_queues_while_bodies_still_run);
  RUN_TEST(queues_are_closed_if_the_last_callback_closes_and_runs_the_loop);
  RUN_TEST(a_queue_opened_while_the_scheduler_closes_is_closed_or_refused);
  RUN_TEST(a_queue_opened_while_the_queues_are_closed_is_refused);
  RUN_TEST(after_closing_a_queue_its_callback_is_not_called);
  RUN_TEST(a_shutdown_does_not_affect_queues);
  RUN_TEST(closing_releases_all_waiters_even_if_others_closed_the_handles);
  RUN_TEST(no_queue_call_sends_to_an_async_handle_that_others_closed);
  RUN_TEST(closed_queues_leave_no_memory_behind);
}

SUITE(keep_alive) {
  RUN_TEST(an_open_queue_keeps_the_loop_alive_unless_unref_d);
  RUN_TEST(keep_alive_never_and_always_apply_to_queues);
  RUN_TEST(uv_run_returns_when_another_thread_closes_the_last_queue);
}

SUITE(bad_input) {
  RUN_TEST(a_null_queue_is_refused_by_every_call);
  RUN_TEST(opening_a_queue_refuses_invalid_options);
  RUN_TEST(each_queue_call_refuses_invalid_arguments_with_its_own_code);
}

SUITE(memory) {
  RUN_TEST(opening_a_queue_survives_every_failure);
  RUN_TEST(putting_into_a_queue_survives_every_failure);
  RUN_TEST(removing_values_needs_no_memory);
  RUN_TEST(putting_and_removing_values_uses_constant_memory);
  RUN_TEST(put_many_inserts_all_or_none_even_without_memory);
  RUN_TEST(snapshot_and_dump_survive_every_failure);
  RUN_TEST(a_wait_whose_condition_cannot_be_created_changes_nothing);
}

TEST_MAIN(RUN_SUITE(close_); RUN_SUITE(keep_alive); RUN_SUITE(bad_input); RUN_SUITE(memory));
