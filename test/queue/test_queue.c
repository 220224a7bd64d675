/* SPDX-License-Identifier: MIT
 *
 * The delay queue as a collection: inserting, the order and time in which values come out, and
 * queries. On the virtual clock, mostly on one thread. Waiting threads are in test_queue_wait.c.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/conds.h"
#include "lib/values.h"

/* ---------------------------------------------------------------------- in --- */

#define MANY 100000

static int count_one(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  (void)q;
  (void)e;
  ++*(int *)arg;
  return 0;
}

static void forget_value(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  (void)q;
  (void)e;
  (void)arg;
}

/* A queue has no bound, so no put is refused. D1 */
TEST a_queue_is_unbounded_and_its_size_is_exact(void) {
  struct fixture f;
  uvs_queue_t *q;
  int n = 0;

  fixture_init(&f);
  f.options.max_pending = 1; /* is for tasks */
  CHECK_CALL(queue_open(&f, &q));
  ASSERT_RC(0, uvs_queue_size(q));
  for (int i = 0; i < MANY; i++) {
    if (put_ms(q, i % 128, i) != 0 || uvs_queue_size(q) != i + 1)
      FAILm("a put was refused, or the size is wrong");
  }
  ASSERT_RC(0, uvs_queue_each(q, count_one, &n));
  ASSERT_RC(MANY, n);
  vclock_advance_ns(&f.clock, UVS_MS(MANY));
  for (int i = MANY; i > MANY / 2; i--) {
    if (poll_tag(q) < 0 || uvs_queue_size(q) != i - 1)
      FAILm("a value is missing, or the size is wrong");
  }
  ASSERT_RC(MANY / 2, uvs_queue_drain(q, UVS_QUEUE_ALL, forget_value, NULL));
  ASSERT_RC(0, uvs_queue_size(q));
  ASSERT_RC(UV_EAGAIN, poll_tag(q));
  ASSERT_U64(0, counts_of(f.s).submitted); /* values are no tasks */
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* D2 */
TEST every_insert_refuses_null_and_inserts_nothing(void) {
  struct fixture f;
  uvs_queue_t *q;
  uvs_item_t item = 7;

  fixture_init(&f);
  CHECK_CALL(queue_open(&f, &q));
  ASSERT_RC(UV_EINVAL, uvs_queue_put(q, NULL, 0, &item));
  ASSERT_RC(UV_EINVAL, uvs_queue_put(q, NULL, UVS_SEC(1), NULL));
  ASSERT_RC(UV_EINVAL, uvs_queue_put(q, NULL, UVS_NEVER, &item));
  ASSERT_RC(UV_EINVAL, uvs_queue_put_at(q, NULL, uvs_now(f.s), &item));
  for (int bad = 0; bad < 3; bad++) {
    uvs_entry_t e[3] = {{value_of('a'), 7, 0}, {value_of('b'), 7, 0}, {value_of('c'), 7, 0}};

    e[bad].value = NULL;
    ASSERT_RC(UV_EINVAL, uvs_queue_put_many(q, e, 3)); /* all or none */
    for (int i = 0; i < 3; i++)
      ASSERT_U64(7, e[i].item);
  }
  ASSERT_U64(7, item);
  ASSERT_RC(0, uvs_queue_size(q));
  ASSERT_RC(0, put_ms(q, 'a', 0)); /* and it is as good as before */
  ASSERT_RC('a', poll_tag(q));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* Even if nobody runs the loop. D5 */
TEST inserting_into_a_queue_never_waits(void) {
  struct fixture f;
  uvs_queue_t *q;

  fixture_init(&f);
  CHECK_CALL(queue_open(&f, &q));
  conds_forget();
  for (int i = 0; i < 1000; i++) {
    uvs_entry_t e[2] = {{value_of('a'), 0, 0}, {value_of('b'), 0, UVS_NEVER}};

    ASSERT_RC(0, put_ms(q, 'c', i));
    ASSERT_RC(0, uvs_queue_put_many(q, e, 2));
  }
  ASSERT_RC(0, put_ms_elsewhere(q, 'd', 1));
  ASSERT_RC(0, atomic_load(&conds.asleep));
  ASSERT_RC(0, atomic_load(&conds.timed));
  ASSERT_RC(3001, uvs_queue_clear(q, NULL, NULL));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

TEST put_many_inserts_all_values_each_with_its_own_item(void) {
  struct fixture f;
  uvs_queue_t *q;
  uvs_entry_t e[3], got;

  fixture_init(&f);
  CHECK_CALL(queue_open(&f, &q));
  for (int i = 0; i < 3; i++) {
    e[i].value = value_of('a' + i);
    e[i].due_ns = uvs_now(f.s) + UVS_MS(30 - 10 * i);
  }
  ASSERT_RC(0, uvs_queue_put_many(q, e, 3));
  ASSERT_STR_EQ("cba", tags_in(q));
  ASSERT_RC(0, uvs_queue_remove(q, e[1].item, &got));
  ASSERT_EQ(e[1].value, got.value);
  ASSERT_I64(e[1].due_ns, got.due_ns);
  ASSERT_RC(2, uvs_queue_clear(q, NULL, NULL));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* ------------------------------------------------------------ order and time --- */

/* D8 D19 */
TEST poll_returns_the_head_only_if_it_is_due(void) {
  struct fixture f;
  uvs_queue_t *q;

  fixture_init(&f);
  CHECK_CALL(queue_open(&f, &q));
  ASSERT_RC(UV_EAGAIN, poll_tag(q));
  ASSERT_RC(0, put_ms(q, 'b', 20));
  ASSERT_RC(0, put_ms(q, 'a', 10));
  ASSERT_RC(UV_EAGAIN, poll_tag(q));
  vclock_advance_ns(&f.clock, UVS_MS(10) - 1);
  ASSERT_RC(UV_EAGAIN, poll_tag(q)); /* not a nanosecond early */
  ASSERT_RC(2, uvs_queue_size(q));
  vclock_advance_ns(&f.clock, 1);
  ASSERT_RC('a', poll_tag(q));
  ASSERT_RC(UV_EAGAIN, poll_tag(q));
  vclock_advance_ns(&f.clock, UVS_MS(10));
  ASSERT_RC('b', poll_tag(q));
  ASSERT_RC(UV_EAGAIN, poll_tag(q));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

TEST zero_and_negative_delays_and_instants_are_now(void) {
  struct fixture f;
  uvs_queue_t *q;
  uvs_entry_t e;

  fixture_init(&f);
  CHECK_CALL(queue_open(&f, &q));
  ASSERT_RC(0, uvs_queue_put(q, value_of('a'), 0, NULL));
  ASSERT_RC(0, uvs_queue_put(q, value_of('b'), INT64_MIN, NULL));
  ASSERT_RC(0, uvs_queue_put_at(q, value_of('c'), uvs_now(f.s), NULL));
  ASSERT_RC(0, uvs_queue_put_at(q, value_of('d'), INT64_MIN, NULL)); /* before all of them */
  ASSERT_RC('d', poll_tag(q));
  ASSERT_RC(0, uvs_queue_peek(q, &e));
  ASSERT_I64(uvs_now(f.s), e.due_ns);
  ASSERT_RC('a', poll_tag(q));
  ASSERT_RC('b', poll_tag(q));
  ASSERT_RC('c', poll_tag(q));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* Times far beyond 32 bits of milliseconds. D24 */
TEST queue_order_holds_for_distant_and_for_equal_times(void) {
  struct fixture f;
  uvs_queue_t *q;
  static const struct {
    int tag;
    int64_t delay_ns;
  } puts[] = {
      {'h', UVS_NEVER},      {'e', UVS_DAY(60)},     {'a', 0},
      {'g', UVS_DAY(36500)}, {'c', UVS_DAY(24) + 1}, {'b', UVS_DAY(24)},
      {'d', UVS_DAY(25)},    {'f', UVS_DAY(60)},     {'i', UVS_NEVER},
  };

  fixture_init(&f);
  CHECK_CALL(queue_open(&f, &q));
  for (size_t i = 0; i < sizeof puts / sizeof puts[0]; i++)
    ASSERT_RC(0, uvs_queue_put(q, value_of(puts[i].tag), puts[i].delay_ns, NULL));
  ASSERT_STR_EQ("abcdefghi", tags_in(q));
  for (int tag = 'a'; tag <= 'g'; tag++) {
    uvs_entry_t e;

    ASSERT_RC(0, uvs_queue_peek(q, &e));
    vclock_advance_to(&f.clock, e.due_ns);
    ASSERT_RC(tag, poll_tag(q));
  }
  vclock_advance_ns(&f.clock, UVS_NEVER - vclock_now(&f.clock) - 1);
  ASSERT_RC(UV_EAGAIN, poll_tag(q));
  ASSERT_RC(2, uvs_queue_clear(q, NULL, NULL));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* Through every call that removes a value. D6 D19 D24 */
TEST random_values_come_out_in_due_order_and_never_early(void) {
  enum { N = 3000 };
  static struct {
    int64_t due_ns;
    int order;
    int out;
  } v[N];
  uint64_t random = test_seed;
  struct fixture f;
  uvs_queue_t *q;
  int in = 0, out = 0;

  fixture_init(&f);
  CHECK_CALL(queue_open(&f, &q));
  memset(v, 0, sizeof v);
  while (out < N) {
    int64_t last_ns = -1;
    int last_order = -1;
    uvs_entry_t e;

    for (uint64_t n = test_random_below(&random, 20); n > 0 && in < N; n--, in++) {
      int64_t delay_ns = (int64_t)test_random_below(&random, 10) * UVS_MS(1);

      v[in].due_ns = uvs_now(f.s) + delay_ns;
      v[in].order = in;
      ASSERT_RC(0, uvs_queue_put(q, &v[in], delay_ns, NULL));
    }
    vclock_advance_ns(&f.clock, UVS_MS((int64_t)test_random_below(&random, 4)));
    while (uvs_queue_poll(q, &e) == 0) {
      int i = (int)(((char *)e.value - (char *)v) / (ptrdiff_t)sizeof v[0]);

      ASSERT_I64(v[i].due_ns, e.due_ns);
      ASSERT(e.due_ns <= uvs_now(f.s));
      ASSERT(e.due_ns > last_ns || (e.due_ns == last_ns && v[i].order > last_order));
      ASSERT_RC(1, ++v[i].out);
      last_ns = e.due_ns;
      last_order = v[i].order;
      out++;
    }
    if (uvs_queue_peek(q, &e) == 0)
      ASSERT(e.due_ns > uvs_now(f.s)); /* nothing due was left */
  }
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* D22 */
TEST a_head_at_the_end_of_time_can_be_peeked_but_never_polled(void) {
  struct fixture f;
  uvs_queue_t *q;
  uvs_entry_t e;

  fixture_init(&f);
  CHECK_CALL(queue_open(&f, &q));
  ASSERT_RC(0, uvs_queue_put(q, value_of('a'), UVS_NEVER, NULL));
  ASSERT_RC(0, uvs_queue_put_at(q, value_of('b'), UVS_NEVER, NULL));
  ASSERT_RC(0, uvs_queue_put(q, value_of('c'), UVS_NEVER - 1, NULL)); /* now plus that is too far */
  for (int i = 0; i < 2; i++) {
    static struct taker t;

    ASSERT_RC(0, uvs_queue_peek(q, &e));
    ASSERT_EQ(value_of('a'), e.value);
    ASSERT_I64(UVS_NEVER, e.due_ns);
    ASSERT_RC(UV_EAGAIN, poll_tag(q));
    ASSERT_RC(UV_ETIMEDOUT, uvs_queue_poll_within(q, 0, NULL, &e));
    ASSERT_RC(0, taker_start(&t, q, NULL, UVS_SEC(5)));
    ASSERT_RC(UV_ETIMEDOUT, taker_join(&t));
    ASSERT_RC(0, uvs_queue_drain(q, UVS_QUEUE_ALL, logs_value, &f));
    ASSERT_RC(0, uvs_queue_consume(q, logs_value, &f)); /* nor to a callback */
    fixture_jump_ns(&f, 0);
    ASSERT_I64(-1, fixture_next_ms(&f));
    ASSERT_RC(0, uvs_queue_consume(q, NULL, NULL));
    vclock_advance_to(&f.clock, UVS_NEVER - UVS_DAY(1)); /* and once more, in 292 years */
  }
  atomic_store(&f.clock.monotonic_ns, UVS_NEVER); /* even then; no loop pass sees it */
  ASSERT_RC(UV_EAGAIN, poll_tag(q));
  atomic_store(&f.clock.monotonic_ns, UVS_NEVER - UVS_DAY(1));
  ASSERT_RC(3, uvs_queue_clear(q, logs_value, &f));
  ASSERT_STR_EQ("abc", log_string(&f, EV_USER));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* --------------------------------------------------------------------- out --- */

/* D10 */
TEST peek_returns_the_head_even_if_not_due_and_does_not_remove_it(void) {
  struct fixture f;
  uvs_queue_t *q;
  uvs_item_t a;
  uvs_entry_t e = {&f, 7, 7};

  fixture_init(&f);
  CHECK_CALL(queue_open(&f, &q));
  ASSERT_RC(UV_ENOENT, uvs_queue_peek(q, &e));
  ASSERT_EQ((void *)&f, e.value); /* nothing is written */
  ASSERT_RC(0, put_ms(q, 'b', 20));
  ASSERT_RC(0, uvs_queue_put(q, value_of('a'), UVS_MS(10), &a));
  for (int i = 0; i < 2; i++) {
    ASSERT_RC(0, uvs_queue_peek(q, &e));
    ASSERT_EQ(value_of('a'), e.value);
    ASSERT_U64(a, e.item);
    ASSERT_I64(VCLOCK_START_NS + UVS_MS(10), e.due_ns);
    ASSERT_RC(2, uvs_queue_size(q));
    vclock_advance_ns(&f.clock, UVS_MS(100)); /* nor does it go when it is overdue */
  }
  ASSERT_RC('a', poll_tag(q));
  ASSERT_RC('b', poll_tag(q));
  ASSERT_RC(UV_ENOENT, uvs_queue_peek(q, &e));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* D12 */
TEST a_value_is_found_and_removed_once_and_others_stay(void) {
  struct fixture f;
  uvs_queue_t *q;
  uvs_entry_t e = {NULL, 0, 0};

  fixture_init(&f);
  CHECK_CALL(queue_open(&f, &q));
  ASSERT_RC(0, uvs_queue_contains(q, value_of('b')));
  for (int tag = 'a'; tag <= 'e'; tag++)
    ASSERT_RC(0, put_ms(q, tag, tag));
  ASSERT_RC(1, uvs_queue_contains(q, value_of('b')));
  ASSERT_RC(0, uvs_queue_remove_value(q, value_of('b'), &e));
  ASSERT_EQ(value_of('b'), e.value);
  ASSERT_I64('b', fixture_ms(&f, e.due_ns));
  ASSERT_RC(0, uvs_queue_contains(q, value_of('b')));
  ASSERT_RC(UV_ENOENT, uvs_queue_remove_value(q, value_of('b'), &e));
  ASSERT_RC(UV_ENOENT, uvs_queue_remove(q, e.item, NULL));
  ASSERT_STR_EQ("acde", tags_in(q));
  ASSERT_RC(0, uvs_queue_remove_value(q, value_of('a'), NULL)); /* the head */
  ASSERT_RC(0, uvs_queue_remove_value(q, value_of('e'), NULL)); /* the last */
  ASSERT_STR_EQ("cd", tags_in(q));
  /* NULL is never in the queue. */
  ASSERT_RC(0, uvs_queue_contains(q, NULL));
  ASSERT_RC(UV_ENOENT, uvs_queue_remove_value(q, NULL, NULL));
  ASSERT_RC(2, uvs_queue_size(q));
  ASSERT_RC(2, uvs_queue_clear(q, NULL, NULL));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* D12 */
TEST the_same_pointer_twice_is_two_values(void) {
  struct fixture f;
  uvs_queue_t *q;
  uvs_item_t first, second;
  uvs_entry_t e;

  fixture_init(&f);
  CHECK_CALL(queue_open(&f, &q));
  ASSERT_RC(0, uvs_queue_put(q, value_of('a'), UVS_MS(20), &second));
  ASSERT_RC(0, uvs_queue_put(q, value_of('a'), UVS_MS(10), &first));
  ASSERT_RC(0, uvs_queue_remove_value(q, value_of('a'), &e));
  ASSERT_U64(first, e.item); /* the one that is due first */
  ASSERT_RC(1, uvs_queue_contains(q, value_of('a')));
  ASSERT_RC(0, uvs_queue_remove(q, second, NULL));
  ASSERT_RC(0, uvs_queue_contains(q, value_of('a')));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* D12 */
TEST each_item_is_removed_once_and_a_stale_item_matches_nothing(void) {
  struct fixture f;
  uvs_queue_t *q;
  uvs_item_t item[5], again;
  uvs_entry_t e;

  fixture_init(&f);
  CHECK_CALL(queue_open(&f, &q));
  for (int i = 0; i < 5; i++)
    ASSERT_RC(0, uvs_queue_put(q, value_of('a' + i), UVS_MS(i), &item[i]));
  ASSERT_RC(0, uvs_queue_remove(q, item[3], &e));
  ASSERT_EQ(value_of('d'), e.value);
  ASSERT_U64(item[3], e.item);
  ASSERT_RC(UV_ENOENT, uvs_queue_remove(q, item[3], &e));
  ASSERT_RC('a', poll_tag(q));
  ASSERT_RC(UV_ENOENT, uvs_queue_remove(q, item[0], &e));           /* it went out another way */
  ASSERT_RC(0, uvs_queue_put(q, value_of('x'), UVS_MS(9), &again)); /* in an old slot */
  ASSERT_RC(UV_ENOENT, uvs_queue_remove(q, item[0], NULL));
  ASSERT_RC(UV_ENOENT, uvs_queue_remove(q, item[3], NULL));
  ASSERT_RC(UV_ENOENT, uvs_queue_remove(q, 0, NULL));
  ASSERT_RC(UV_ENOENT, uvs_queue_remove(q, UINT64_MAX, NULL));
  ASSERT_STR_EQ("bcex", tags_in(q));
  ASSERT_RC(4, uvs_queue_clear(q, NULL, NULL));
  ASSERT_RC(UV_ENOENT, uvs_queue_remove(q, again, NULL));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* D13 */
TEST clear_empties_and_the_queue_stays_usable(void) {
  struct fixture f;
  uvs_queue_t *q;

  fixture_init(&f);
  CHECK_CALL(queue_open(&f, &q));
  ASSERT_RC(0, uvs_queue_clear(q, logs_value, &f));
  for (int round = 0; round < 3; round++) {
    ASSERT_RC(0, put_ms(q, 'c', 20));
    ASSERT_RC(0, put_ms(q, 'a', 0));
    ASSERT_RC(0, uvs_queue_put(q, value_of('d'), UVS_NEVER, NULL));
    ASSERT_RC(0, put_ms(q, 'b', 10));
    log_clear(&f);
    ASSERT_RC(4, uvs_queue_clear(q, round == 0 ? NULL : logs_value, &f));
    ASSERT_STR_EQ(round == 0 ? "" : "abcd", log_string(&f, EV_USER));
    ASSERT_RC(0, uvs_queue_size(q));
    ASSERT_RC(UV_EAGAIN, poll_tag(q));
    ASSERT_STR_EQ("", tags_in(q));
  }
  ASSERT_RC(0, put_ms(q, 'x', 0));
  ASSERT_RC('x', poll_tag(q));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* D20 */
TEST drain_moves_due_values_in_order_and_the_queue_stays_usable(void) {
  struct fixture f;
  uvs_queue_t *q;

  fixture_init(&f);
  CHECK_CALL(queue_open(&f, &q));
  ASSERT_RC(0, uvs_queue_drain(q, UVS_QUEUE_ALL, logs_value, &f));
  for (int round = 0; round < 2; round++) {
    log_clear(&f);
    ASSERT_RC(0, put_ms(q, 'c', 30));
    ASSERT_RC(0, put_ms(q, 'a', 10));
    ASSERT_RC(0, put_ms(q, 'b', 20));
    ASSERT_RC(0, put_ms(q, 'd', 31));
    ASSERT_RC(0, uvs_queue_drain(q, UVS_QUEUE_ALL, logs_value, &f)); /* nothing is due */
    ASSERT_RC(4, uvs_queue_size(q));
    vclock_advance_ns(&f.clock, UVS_MS(30));
    ASSERT_RC(3, uvs_queue_drain(q, UVS_QUEUE_ALL, logs_value, &f));
    ASSERT_STR_EQ("abc", log_string(&f, EV_USER));
    ASSERT_STR_EQ("d", tags_in(q));
    ASSERT_RC(0, uvs_queue_drain(q, UVS_QUEUE_ALL, logs_value, &f));
    vclock_advance_ns(&f.clock, UVS_MS(1));
    ASSERT_RC(1, uvs_queue_drain(q, UVS_QUEUE_ALL, logs_value, &f));
    ASSERT_RC(0, uvs_queue_size(q));
  }
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* D20 */
TEST drain_of_n_moves_at_most_n_due_values(void) {
  struct fixture f;
  uvs_queue_t *q;

  fixture_init(&f);
  CHECK_CALL(queue_open(&f, &q));
  for (int tag = 'a'; tag <= 'e'; tag++)
    ASSERT_RC(0, put_ms(q, tag, tag <= 'd' ? 0 : 10));
  ASSERT_RC(0, uvs_queue_drain(q, 0, logs_value, &f));
  ASSERT_RC(0, uvs_queue_drain(q, -1, logs_value, &f));
  ASSERT_RC(0, uvs_queue_drain(q, INT64_MIN, logs_value, &f));
  ASSERT_STR_EQ("abcde", tags_in(q)); /* nothing has changed */
  ASSERT_RC(1, uvs_queue_drain(q, 1, logs_value, &f));
  ASSERT_RC(2, uvs_queue_drain(q, 2, logs_value, &f));
  ASSERT_RC(1, uvs_queue_drain(q, 2, logs_value, &f)); /* only one was due */
  ASSERT_STR_EQ("abcd", log_string(&f, EV_USER));
  ASSERT_STR_EQ("e", tags_in(q));
  ASSERT_RC(1, uvs_queue_clear(q, NULL, NULL));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

static void puts_back_later(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  logs_value(q, e, arg);
  log_add(arg, EV_ERROR, 'r', 0, uvs_queue_remove(q, e->item, NULL));
  log_add(arg, EV_ERROR, 'p', 0, uvs_queue_put(q, e->value, 0, NULL));
}

/* The callbacks come after the removal: values that they put are not drained, and the values that
 * they get are no longer in the queue. */
TEST a_drain_or_clear_callback_may_use_the_queue(void) {
  struct fixture f;
  uvs_queue_t *q;

  fixture_init(&f);
  CHECK_CALL(queue_open(&f, &q));
  ASSERT_RC(0, put_ms(q, 'a', 0));
  ASSERT_RC(0, put_ms(q, 'b', 0));
  ASSERT_RC(2, uvs_queue_drain(q, UVS_QUEUE_ALL, puts_back_later, &f));
  ASSERT_STR_EQ("ab", log_string(&f, EV_USER));
  ASSERT_RC(2, uvs_queue_clear(q, puts_back_later, &f));
  ASSERT_STR_EQ("abab", log_string(&f, EV_USER));
  ASSERT_STR_EQ("ab", tags_in(q));
  ASSERT_STR_EQ("rprprprp", log_string(&f, EV_ERROR));
  for (unsigned i = 0; i < 4; i++) {
    ASSERT_RC(UV_ENOENT, log_nth(&f, EV_ERROR, 'r', i)->status);
    ASSERT_RC(0, log_nth(&f, EV_ERROR, 'p', i)->status);
  }
  ASSERT_RC(2, uvs_queue_clear(q, NULL, NULL));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

static void closes_it(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  logs_value(q, e, arg);
  log_add(arg, EV_ERROR, 'c', 0, uvs_queue_close(q));
}

static int each_closes_it(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  closes_it(q, e, arg);
  return 0;
}

/* Values that drain and clear have removed are still delivered. The others are given back. D20 */
TEST a_drain_or_clear_callback_may_close_the_queue(void) {
  for (int way = 0; way < 3; way++) {
    struct fixture f;
    uvs_queue_t *q;

    fixture_init(&f);
    CHECK_CALL(queue_open(&f, &q));
    uvs_queue_retain(q);
    ASSERT_RC(0, put_ms(q, 'a', 0));
    ASSERT_RC(0, put_ms(q, 'b', 0));
    ASSERT_RC(0, put_ms(q, 'c', 10));
    if (way == 0)
      ASSERT_RC(2, uvs_queue_drain(q, UVS_QUEUE_ALL, closes_it, &f));
    else if (way == 1)
      ASSERT_RC(3, uvs_queue_clear(q, closes_it, &f));
    else
      ASSERT_RC(0, uvs_queue_each(q, each_closes_it, &f));
    ASSERT_STR_EQ(way == 0 ? "ab" : "abc", log_string(&f, EV_USER));
    ASSERT_STR_EQ(way == 0 ? "c" : way == 1 ? "" : "abc", log_string(&f, EV_NEVER_RAN));
    ASSERT_RC(0, log_nth(&f, EV_ERROR, 'c', 0)->status);
    ASSERT_RC(UV_EALREADY, log_nth(&f, EV_ERROR, 'c', 1)->status);
    uvs_queue_release(q);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* --------------------------------------------------------------------- ask --- */

static int stops_at_b(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  logs_value(q, e, arg);
  return tag_of_value(e->value) == 'b' ? 42 : 0;
}

static int each_empties(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  logs_value(q, e, arg);
  uvs_queue_clear(q, NULL, NULL);
  return uvs_queue_put(q, value_of('z'), 0, NULL);
}

/* D16 */
TEST a_snapshot_visits_every_value_once(void) {
  struct fixture f;
  uvs_queue_t *q;

  fixture_init(&f);
  CHECK_CALL(queue_open(&f, &q));
  ASSERT_RC(0, uvs_queue_each(q, logs_entry, &f)); /* an empty queue gives none */
  ASSERT_STR_EQ("", log_string(&f, EV_USER));
  ASSERT_RC(0, put_ms(q, 'c', 30));
  ASSERT_RC(0, put_ms(q, 'b', 0));
  ASSERT_RC(0, uvs_queue_put(q, value_of('d'), UVS_NEVER, NULL));
  ASSERT_RC(0, put_ms(q, 'a', -1)); /* is now, after b */
  ASSERT_RC(0, uvs_queue_each(q, logs_entry, &f));
  ASSERT_STR_EQ("bacd", log_string(&f, EV_USER));
  ASSERT_RC(4, uvs_queue_size(q)); /* they stay in */
  log_clear(&f);
  ASSERT_RC(42, uvs_queue_each(q, stops_at_b, &f));
  ASSERT_STR_EQ("b", log_string(&f, EV_USER));
  log_clear(&f);
  ASSERT_RC(0, uvs_queue_each(q, each_empties, &f)); /* what changes meanwhile is not seen */
  ASSERT_STR_EQ("bacd", log_string(&f, EV_USER));
  ASSERT_STR_EQ("z", tags_in(q));
  ASSERT_RC(1, uvs_queue_clear(q, NULL, NULL));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

/* D17 */
TEST the_dump_of_a_queue_lists_every_value(void) {
  enum { N = 100 };
  struct fixture f;
  uvs_queue_t *q;
  uvs_item_t item[N];
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);

  ASSERT(out != NULL);
  fixture_init(&f);
  CHECK_CALL(queue_open(&f, &q));
  for (int i = 0; i < N; i++)
    ASSERT_RC(0, uvs_queue_put(q, value_of(i), i == 7 ? UVS_NEVER : UVS_SEC(i), &item[i]));
  ASSERT_RC(0, uvs_queue_dump(q, out));
  fflush(out);
  for (int i = 0; i < N; i++) {
    char line[128];

    if (i == 7)
      snprintf(line, sizeof line, "  %16llu         never  %p\n", (unsigned long long)item[i],
               value_of(i));
    else
      snprintf(line, sizeof line, "  %16llu  %+10.3f s  %p\n", (unsigned long long)item[i],
               (double)i, value_of(i));
    ASSERT(strstr(text, line) != NULL);
  }
  ASSERT(strstr(text, "100 in, 0 wait") != NULL);
  fclose(out);
  free(text);
  ASSERT_RC(N, uvs_queue_clear(q, NULL, NULL));
  CHECK_CALL(queue_close(&f, q));
  PASS();
}

SUITE(in) {
  RUN_TEST(a_queue_is_unbounded_and_its_size_is_exact);
  RUN_TEST(every_insert_refuses_null_and_inserts_nothing);
  RUN_TEST(inserting_into_a_queue_never_waits);
  RUN_TEST(put_many_inserts_all_values_each_with_its_own_item);
}

SUITE(order_and_time) {
  RUN_TEST(poll_returns_the_head_only_if_it_is_due);
  RUN_TEST(zero_and_negative_delays_and_instants_are_now);
  RUN_TEST(queue_order_holds_for_distant_and_for_equal_times);
  RUN_TEST(random_values_come_out_in_due_order_and_never_early);
  RUN_TEST(a_head_at_the_end_of_time_can_be_peeked_but_never_polled);
}

SUITE(out) {
  RUN_TEST(peek_returns_the_head_even_if_not_due_and_does_not_remove_it);
  RUN_TEST(a_value_is_found_and_removed_once_and_others_stay);
  RUN_TEST(the_same_pointer_twice_is_two_values);
  RUN_TEST(each_item_is_removed_once_and_a_stale_item_matches_nothing);
  RUN_TEST(clear_empties_and_the_queue_stays_usable);
  RUN_TEST(drain_moves_due_values_in_order_and_the_queue_stays_usable);
  RUN_TEST(drain_of_n_moves_at_most_n_due_values);
  RUN_TEST(a_drain_or_clear_callback_may_use_the_queue);
  RUN_TEST(a_drain_or_clear_callback_may_close_the_queue);
}

SUITE(ask) {
  RUN_TEST(a_snapshot_visits_every_value_once);
  RUN_TEST(the_dump_of_a_queue_lists_every_value);
}

TEST_MAIN(RUN_SUITE(in); RUN_SUITE(order_and_time); RUN_SUITE(out); RUN_SUITE(ask));
