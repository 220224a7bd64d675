/* SPDX-License-Identifier: MIT
 *
 * Reference-counted values: with hold and drop in a queue's options, a call that looks at a value
 * holds a reference to it. So a consumer may take the value and release its own reference
 * meanwhile.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "lib/conds.h"
#include "lib/threads.h"
#include "lib/values.h"

/* ------------------------------------------------------------- counted values --- */

struct counted {
  _Atomic int count;
  int tag;
};

static _Atomic int made, freed, holds, drops;
static struct fixture f;
static uvs_queue_t *q;

static struct counted *counted_new(int tag) {
  struct counted *v = malloc(sizeof *v);

  if (v == NULL)
    abort();
  atomic_init(&v->count, 1);
  v->tag = tag;
  atomic_fetch_add(&made, 1);
  return v;
}

static void counted_drop(struct counted *v) {
  if (atomic_fetch_sub(&v->count, 1) != 1)
    return;
  v->tag = 0; /* a tag that must not be seen */
  free(v);
  atomic_fetch_add(&freed, 1);
}

/* The queue's hold and drop. Their arg is the fixture. */
static void hold_value(void *value, void *arg) {
  if (arg != &f)
    abort();
  atomic_fetch_add(&((struct counted *)value)->count, 1);
  atomic_fetch_add(&holds, 1);
}

static void drop_value(void *value, void *arg) {
  if (arg != &f)
    abort();
  counted_drop(value);
  atomic_fetch_add(&drops, 1);
}

static void drop_left(uvs_queue_t *queue, const uvs_entry_t *e, void *arg) {
  (void)queue;
  (void)arg;
  counted_drop(e->value);
}

static uvs_queue_options_t counting_options(void) {
  uvs_queue_options_t o;

  uvs_queue_options_init(&o);
  o.on_left = drop_left;
  o.hold = hold_value;
  o.drop = drop_value;
  o.arg = &f;
  return o;
}

static enum greatest_test_res begin(void) {
  uvs_queue_options_t o = counting_options();

  atomic_store(&made, 0);
  atomic_store(&freed, 0);
  atomic_store(&holds, 0);
  atomic_store(&drops, 0);
  conds_forget();
  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  ASSERT_RC(0, uvs_queue_open(f.s, &o, &q));
  PASS();
}

/* No reference is missing, and none is left. */
static enum greatest_test_res end(void) {
  if (q != NULL)
    ASSERT_RC(0, uvs_queue_close(q));
  CHECK_CALL(fixture_close(&f));
  ASSERT_RC(atomic_load(&made), atomic_load(&freed));
  PASS();
}

static enum greatest_test_res put_three(struct counted *v[3]) {
  for (int i = 2; i >= 0; i--) { /* in due order they are a, b, c */
    v[i] = counted_new('a' + i);
    ASSERT_RC(0, uvs_queue_put(q, v[i], UVS_MS(i), NULL));
  }
  PASS();
}

static int count_of(const struct counted *v) {
  return atomic_load(&v->count);
}

/* ------------------------------------------------------------------------ peek --- */

/* D10 */
TEST peek_takes_one_reference_that_the_caller_releases(void) {
  struct counted *v[3];
  uvs_entry_t e = {NULL, 0, 0};

  CHECK_CALL(begin());
  ASSERT_RC(UV_ENOENT, uvs_queue_peek(q, &e)); /* empty: there is nothing to hold */
  ASSERT_RC(UV_EINVAL, uvs_queue_peek(q, NULL));
  ASSERT_RC(0, atomic_load(&holds));
  CHECK_CALL(put_three(v));
  ASSERT_RC(UV_EINVAL, uvs_queue_peek(q, NULL));
  ASSERT_RC(0, atomic_load(&holds));
  ASSERT_RC(0, uvs_queue_peek(q, &e));
  ASSERT_EQ(v[0], (struct counted *)e.value);
  ASSERT_RC(2, count_of(v[0]));
  ASSERT_RC(1, count_of(v[1]) * count_of(v[2]));
  ASSERT_RC(0, uvs_queue_poll(q, &e)); /* a consumer takes it and gives its count back */
  counted_drop(e.value);
  ASSERT_RC(0, atomic_load(&freed));
  ASSERT_RC('a', v[0]->tag); /* ours is left */
  counted_drop(v[0]);
  ASSERT_RC(1, atomic_load(&freed));
  ASSERT_RC(0, atomic_load(&drops)); /* the queue has dropped nothing */
  CHECK_CALL(end());
  PASS();
}

/* A value that is removed belongs to the caller: no reference is added. */
TEST removing_a_value_takes_no_reference(void) {
  struct counted *v[3];
  uvs_entry_t e;

  CHECK_CALL(begin());
  CHECK_CALL(put_three(v));
  ASSERT_RC(1, uvs_queue_contains(q, v[1]));
  ASSERT_RC(3, uvs_queue_size(q));
  ASSERT_RC(0, uvs_queue_poll(q, &e));
  counted_drop(e.value);
  ASSERT_RC(0, uvs_queue_remove_value(q, v[2], &e));
  counted_drop(e.value);
  ASSERT_RC(1, uvs_queue_clear(q, drop_left, NULL));
  CHECK_CALL(put_three(v));
  vclock_advance_ns(&f.clock, UVS_MS(10));
  ASSERT_RC(3, uvs_queue_drain(q, UVS_QUEUE_ALL, drop_left, NULL));
  CHECK_CALL(put_three(v)); /* for close */
  CHECK_CALL(end());
  ASSERT_RC(0, atomic_load(&holds) + atomic_load(&drops));
  PASS();
}

/* ---------------------------------------------------------------- each and dump --- */

static struct {
  struct counted **v;
  int seen;
  int stop_at; /* answers 7 there; -1 */
  int wrong;
  void (*meanwhile)(void); /* at the first visit */
} visit;

/* Values that were visited have one reference, the others two. */
static int visits(uvs_queue_t *queue, const uvs_entry_t *e, void *arg) {
  int at = visit.seen++;

  (void)queue;
  visit.wrong += arg != &visit || e->value != visit.v[at];
  if (at == 0 && visit.meanwhile != NULL)
    visit.meanwhile();
  else
    for (int i = 0; i < 3 && visit.meanwhile == NULL; i++)
      visit.wrong += count_of(visit.v[i]) != (i < at ? 1 : 2);
  visit.wrong += ((struct counted *)e->value)->tag != 'a' + at;
  return at == visit.stop_at ? 7 : 0;
}

static void visit_init(struct counted **v, int stop_at, void (*meanwhile)(void)) {
  memset(&visit, 0, sizeof visit);
  visit.v = v;
  visit.stop_at = stop_at;
  visit.meanwhile = meanwhile;
}

/* D16 */
TEST each_holds_and_drops_all_values_even_if_it_stops_early(void) {
  for (int stop_at = -1; stop_at < 3; stop_at++) {
    struct counted *v[3];

    CHECK_CALL(begin());
    visit_init(v, stop_at, NULL);
    ASSERT_RC(0, uvs_queue_each(q, visits, &visit)); /* empty */
    ASSERT_RC(0, atomic_load(&holds));
    CHECK_CALL(put_three(v));
    ASSERT_RC(UV_EINVAL, uvs_queue_each(q, NULL, NULL));
    ASSERT_RC(0, atomic_load(&holds));
    ASSERT_RC(stop_at < 0 ? 0 : 7, uvs_queue_each(q, visits, &visit));
    ASSERT_RC(stop_at < 0 ? 3 : stop_at + 1, visit.seen);
    ASSERT_RC(0, visit.wrong);
    ASSERT_RC(3, atomic_load(&holds));
    ASSERT_RC(3, atomic_load(&drops));
    for (int i = 0; i < 3; i++)
      ASSERT_RC(1, count_of(v[i]));
    CHECK_CALL(end());
  }
  PASS();
}

/* D17 */
TEST dump_holds_and_drops_all_values(void) {
  struct counted *v[3];
  char text[1024] = "", address[32];
  FILE *out = tmpfile();

  ASSERT(out != NULL);
  CHECK_CALL(begin());
  CHECK_CALL(put_three(v));
  ASSERT_RC(UV_EINVAL, uvs_queue_dump(q, NULL));
  ASSERT_RC(0, atomic_load(&holds));
  ASSERT_RC(0, uvs_queue_dump(q, out));
  rewind(out);
  ASSERT(fread(text, 1, sizeof text - 1, out) > 0);
  fclose(out);
  for (int i = 0; i < 3; i++) {
    snprintf(address, sizeof address, "%p", (void *)v[i]);
    ASSERT(strstr(text, address) != NULL);
    ASSERT_RC(1, count_of(v[i]));
  }
  ASSERT_RC(3, atomic_load(&holds));
  ASSERT_RC(3, atomic_load(&drops));
  CHECK_CALL(end());
  PASS();
}

static int do_clear(void *arg) {
  (void)arg;
  return uvs_queue_clear(q, drop_left, NULL);
}

static void all_is_taken(void) {
  visit.wrong += elsewhere(do_clear, NULL) != 3 || atomic_load(&freed) != 0;
}

static void queue_is_closed(void) {
  visit.wrong += uvs_queue_close(q) != 0 || atomic_load(&freed) != 0;
  q = NULL;
}

/* D16: a value lives until its visit has ended, even if a consumer or close has released it. */
TEST values_freed_during_each_live_until_they_were_visited(void) {
  void (*const meanwhile[])(void) = {all_is_taken, queue_is_closed};

  for (size_t i = 0; i < sizeof meanwhile / sizeof *meanwhile; i++) {
    for (int stop_at = -1; stop_at < 2; stop_at++) {
      struct counted *v[3];

      CHECK_CALL(begin());
      CHECK_CALL(put_three(v));
      visit_init(v, stop_at, meanwhile[i]);
      ASSERT_RC(stop_at < 0 ? 0 : 7, uvs_queue_each(q, visits, &visit));
      ASSERT_RC(0, visit.wrong);
      ASSERT_RC(3, atomic_load(&drops));
      ASSERT_RC(3, atomic_load(&freed));
      CHECK_CALL(end());
    }
  }
  PASS();
}

/* L10: a snapshot without memory holds nothing. */
TEST a_snapshot_without_memory_holds_no_value(void) {
  struct counted *v[3];

  CHECK_CALL(begin());
  CHECK_CALL(put_three(v));
  for (long n = 0;; n++) {
    bool failed;
    int rc;

    visit_init(v, -1, NULL);
    fault_after(n);
    rc = uvs_queue_each(q, visits, &visit);
    failed = fault_hit();
    ASSERT_RC(failed ? UV_ENOMEM : 0, rc);
    ASSERT_RC(atomic_load(&holds), atomic_load(&drops));
    ASSERT_RC(failed ? 0 : 3, visit.seen);
    if (!failed)
      break;
    ASSERT_RC(0, atomic_load(&holds));
  }
  CHECK_CALL(end());
  PASS();
}

/* After close no value is looked at, so none is held. */
TEST calls_on_a_closed_queue_hold_no_value(void) {
  struct counted *v[3];
  uvs_entry_t e;

  CHECK_CALL(begin());
  CHECK_CALL(put_three(v));
  uvs_queue_retain(q);
  ASSERT_RC(0, uvs_queue_close(q));
  ASSERT_RC(UV_ESHUTDOWN, uvs_queue_peek(q, &e));
  ASSERT_RC(UV_ESHUTDOWN, uvs_queue_each(q, visits, &visit));
  ASSERT_RC(UV_ESHUTDOWN, uvs_queue_dump(q, stdout));
  ASSERT_RC(0, atomic_load(&holds) + atomic_load(&drops));
  uvs_queue_release(q);
  q = NULL;
  CHECK_CALL(end());
  PASS();
}

/* --------------------------------------------------------------------- options --- */

/* S8 L19 */
TEST hold_without_drop_and_drop_without_hold_are_refused(void) {
  uvs_queue_t *unset = (uvs_queue_t *)(void *)&f;
  uvs_queue_t *ret = unset;
  uvs_queue_options_t o;

  CHECK_CALL(begin());
  o = counting_options();
  o.drop = NULL;
  ASSERT_RC(UV_EINVAL, uvs_queue_open(f.s, &o, &ret));
  o = counting_options();
  o.hold = NULL;
  ASSERT_RC(UV_EINVAL, uvs_queue_open(f.s, &o, &ret));
  o = counting_options();
  o.size = offsetof(uvs_queue_options_t, drop); /* hold, and no room for drop */
  ASSERT_RC(UV_EINVAL, uvs_queue_open(f.s, &o, &ret));
  ASSERT_EQ(unset, ret);
  CHECK_CALL(end());
  PASS();
}

static int has_one_count(uvs_queue_t *queue, const uvs_entry_t *e, void *arg) {
  (void)queue;
  (void)arg;
  return count_of(e->value);
}

/* L19: a program compiled before hold and drop existed. The memory after its struct must not be
 * read. */
TEST older_queue_options_without_hold_work(void) {
  uvs_queue_options_t o = counting_options();
  uvs_queue_t *old;
  uvs_entry_t e;

  CHECK_CALL(begin());
  o.size = offsetof(uvs_queue_options_t, hold);
  ASSERT_RC(0, uvs_queue_open(f.s, &o, &old));
  ASSERT_RC(0, uvs_queue_put(old, counted_new('a'), 0, NULL));
  ASSERT_RC(0, uvs_queue_peek(old, &e));
  ASSERT_RC(1, count_of(e.value));
  ASSERT_RC(1, uvs_queue_each(old, has_one_count, NULL));
  ASSERT_RC(0, atomic_load(&holds) + atomic_load(&drops));
  ASSERT_RC(0, uvs_queue_close(old)); /* `left` is known to it */
  ASSERT_RC(1, atomic_load(&freed));
  struct { /* of a program that is newer than we are */
    uvs_queue_options_t known;
    uint64_t unknown;
  } newer = {counting_options(), 0};
  newer.known.size = sizeof newer;
  ASSERT_RC(0, uvs_queue_open(f.s, &newer.known, &old));
  ASSERT_RC(0, uvs_queue_close(old));
  newer.unknown = 1;
  ASSERT_RC(UV_EINVAL, uvs_queue_open(f.s, &newer.known, &old));
  CHECK_CALL(end());
  PASS();
}

/* --------------------------------------------------------------------- threads --- */

enum { VALUES = 20000, LOOKERS = 2, BACKLOG = 50 };

static _Atomic int over, bad;

static void consumer_main(void *arg) {
  uvs_entry_t e;

  (void)arg;
  for (int i = 0; i < VALUES; i++) {
    if (uvs_queue_take(q, NULL, &e) != 0 || ((struct counted *)e.value)->tag != 'v')
      atomic_fetch_add(&bad, 1);
    counted_drop(e.value);
  }
  atomic_store(&over, 1);
}

static int look_at_value(uvs_queue_t *queue, const uvs_entry_t *e, void *arg) {
  uint64_t *random = arg;

  (void)queue;
  if (((struct counted *)e->value)->tag != 'v')
    atomic_fetch_add(&bad, 1);
  return test_random_below(random, 20) == 0;
}

static void looker_main(void *arg) {
  uint64_t *random = arg;
  uvs_entry_t e;

  while (!atomic_load(&over)) {
    if (test_random_below(random, 4) == 0) {
      uvs_queue_each(q, look_at_value, random);
    } else if (uvs_queue_peek(q, &e) == 0) {
      look_at_value(q, &e, random);
      counted_drop(e.value);
    }
  }
}

/* D10 D16 D21: values are freed while other threads look at them. ASan and TSan detect errors. */
TEST a_consumer_may_free_a_value_that_others_look_at(void) {
  uv_thread_t consumer, lookers[LOOKERS];
  uint64_t random[LOOKERS];
  uint64_t seed = test_seed;

  CHECK_CALL(begin());
  atomic_store(&conds.real, true);
  atomic_store(&over, 0);
  atomic_store(&bad, 0);
  for (int i = 0; i < LOOKERS; i++) {
    random[i] = test_random(&seed) | 1;
    ASSERT_RC(0, uv_thread_create(&lookers[i], looker_main, &random[i]));
  }
  ASSERT_RC(0, uvs_queue_put(q, counted_new('v'), 0, NULL));
  ASSERT(await_flag(&holds)); /* they are there */
  ASSERT_RC(0, uv_thread_create(&consumer, consumer_main, NULL));
  for (int i = 1; i < VALUES; i++) {
    while (uvs_queue_size(q) > BACKLOG)
      uv_sleep(0);
    if (uvs_queue_put(q, counted_new('v'), 0, NULL) != 0)
      atomic_fetch_add(&bad, 1);
  }
  uv_thread_join(&consumer);
  for (int i = 0; i < LOOKERS; i++)
    uv_thread_join(&lookers[i]);
  ASSERT_RC(0, atomic_load(&bad));
  ASSERT_RC(VALUES, atomic_load(&freed));
  ASSERT(atomic_load(&holds) > 0);
  CHECK_CALL(end());
  PASS();
}

SUITE(hold_and_drop) {
  RUN_TEST(peek_takes_one_reference_that_the_caller_releases);
  RUN_TEST(removing_a_value_takes_no_reference);
  RUN_TEST(each_holds_and_drops_all_values_even_if_it_stops_early);
  RUN_TEST(dump_holds_and_drops_all_values);
  RUN_TEST(values_freed_during_each_live_until_they_were_visited);
  RUN_TEST(a_snapshot_without_memory_holds_no_value);
  RUN_TEST(calls_on_a_closed_queue_hold_no_value);
}

SUITE(options) {
  RUN_TEST(hold_without_drop_and_drop_without_hold_are_refused);
  RUN_TEST(older_queue_options_without_hold_work);
}

SUITE(threads) {
  RUN_TEST(a_consumer_may_free_a_value_that_others_look_at);
}

TEST_MAIN(RUN_SUITE(hold_and_drop); RUN_SUITE(options); RUN_SUITE(threads));
