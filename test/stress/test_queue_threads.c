/* SPDX-License-Identifier: MIT
 *
 * Many threads on one delay queue, on the real clock: at random (from a seed) they put, take, poll,
 * drain, remove, clear, abandon each other, ref, unref, and close. Each value records who got it:
 * exactly one thread, and not before its time.
 *
 * Takes about a second; with UVS_STRESS=long a minute. Under ThreadSanitizer only the library
 * orders the producer's writes into a value before the consumer's reads.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "uvsched/queue.h"

#include "lib/unit.h"

#define PATIENCE_NS UVS_SEC(100)

enum { VALUES = 1500, PRODUCERS = 3, ACTORS = 12 };

/* Errors that were seen. */
enum {
  EARLY = 1,
  TWICE = 2,
  UNWRITTEN = 4,   /* the consumer did not see what the producer wrote */
  BAD_ANSWER = 8,  /* a code that cannot be */
  UNORDERED = 16,  /* one drain, and times that go back */
  BAD_THREAD = 32, /* the callback was not on the loop */
};

struct value {
  int64_t not_before_ns;
  int plain;
  bool accepted;
  _Atomic int out;
};

struct world {
  uv_loop_t loop;
  uv_thread_t thread;
  uv_sem_t ready;
  struct fault fault;
  uvs_t *s;
  uvs_queue_t *q;
  bool consumes;      /* a callback on the loop, too */
  bool closes_itself; /* the loop's thread calls uvs_close while the queue is open */
  _Atomic int close_now;
  uv_async_t close_async;
  int rc;
  _Atomic int wrong;
  _Atomic int got, accepted;
  _Atomic int called_out, left_by_request;
};

struct actor;
typedef void (*role)(struct actor *a);

struct actor {
  struct world *w;
  role act;
  uv_thread_t thread;
  uint64_t random;
  uvs_waiter_t waiter;
  struct actor *others; /* ACTORS of them, for who abandons */
  struct value *values; /* VALUES of them, of a producer */
  int64_t last_ns;      /* of this drain */
};

static struct value values[PRODUCERS][VALUES];
static struct actor actors[ACTORS];

static void blame(struct world *w, int what) {
  atomic_fetch_or(&w->wrong, what);
}

static uint64_t below(struct actor *a, uint64_t n) {
  return test_random_below(&a->random, n);
}

/* ------------------------------------------------------------------ the books --- */

static void account(struct world *w, const uvs_entry_t *e) {
  struct value *v = e->value;

  if (uvs_now(w->s) < v->not_before_ns || e->due_ns < v->not_before_ns)
    blame(w, EARLY);
  if (v->plain != 42)
    blame(w, UNWRITTEN);
  if (atomic_fetch_add_explicit(&v->out, 1, memory_order_relaxed) != 0)
    blame(w, TWICE);
  atomic_fetch_add_explicit(&w->got, 1, memory_order_relaxed);
}

/* A value that comes out before its time, because a thread removed it. */
static void account_undue(struct world *w, const uvs_entry_t *e) {
  struct value *v = e->value;

  v->not_before_ns = 0; /* it is ours */
  account(w, e);
}

static void drained(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  struct actor *a = arg;

  (void)q;
  if (e->due_ns < a->last_ns)
    blame(a->w, UNORDERED);
  a->last_ns = e->due_ns;
  account(a->w, e);
}

static void cleared(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  (void)q;
  account_undue(arg, e);
}

static void consumed(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  struct world *w = arg;
  uv_thread_t self = uv_thread_self();

  (void)q;
  if (!uv_thread_equal(&self, &w->thread))
    blame(w, BAD_THREAD);
  account(w, e);
}

/* ------------------------------------------------------------------ the actors --- */

/* Does this answer mean that the queue was closed? */
static bool is_over(struct actor *a, int rc) {
  if (rc == UV_ESHUTDOWN || rc == UV_ECANCELED)
    return true;
  if (rc == UV_EINTR)
    atomic_fetch_add(&a->w->left_by_request, 1);
  else if (rc < 0 && rc != UV_EAGAIN && rc != UV_ETIMEDOUT && rc != UV_ENOENT)
    blame(a->w, BAD_ANSWER);
  return false;
}

static int64_t some_delay(struct actor *a) {
  return below(a, 3) == 0 ? 0 : (int64_t)below(a, (uint64_t)UVS_MS(2));
}

static int put_one(struct actor *a, struct value *v, uvs_item_t *item) {
  int64_t delay_ns = some_delay(a);
  int rc;

  v->not_before_ns = uvs_now(a->w->s) + delay_ns;
  v->plain = 42;
  rc = uvs_queue_put(a->w->q, v, delay_ns, item);
  v->accepted = rc == 0;
  atomic_fetch_add(&a->w->accepted, rc == 0);
  return rc;
}

static int put_several(struct actor *a, struct value *v, size_t n) {
  uvs_entry_t e[5];
  int rc;

  for (size_t i = 0; i < n; i++) {
    v[i].not_before_ns = uvs_now(a->w->s) + some_delay(a);
    v[i].plain = 42;
    e[i].value = &v[i];
    e[i].due_ns = v[i].not_before_ns;
  }
  rc = uvs_queue_put_many(a->w->q, e, n);
  for (size_t i = 0; i < n; i++)
    v[i].accepted = rc == 0;
  atomic_fetch_add(&a->w->accepted, rc == 0 ? (int)n : 0);
  return rc;
}

static void produce(struct actor *a) {
  uvs_item_t item = 0;
  int rc = 0;

  for (size_t i = 0; i < VALUES && !is_over(a, rc);) {
    size_t n = 1 + (size_t)below(a, 5);
    uvs_entry_t e;

    if (n > VALUES - i)
      n = VALUES - i;
    if (n == 1)
      rc = put_one(a, &a->values[i], &item);
    else
      rc = put_several(a, &a->values[i], n);
    i += n;
    if (below(a, 20) == 0 && uvs_queue_remove(a->w->q, item, &e) == 0)
      account_undue(a->w, &e);
    if (below(a, 10) == 0)
      uv_sleep(0);
    if (below(a, 100) == 0)
      uv_sleep(1);
  }
}

static void take(struct actor *a) {
  uvs_entry_t e;
  int rc;

  do {
    rc = uvs_queue_take(a->w->q, &a->waiter, &e);
    if (rc == 0)
      account(a->w, &e);
  } while (!is_over(a, rc));
}

static void poll_with_patience(struct actor *a) {
  uvs_entry_t e;
  int rc;

  do {
    rc = uvs_queue_poll_within(a->w->q, (int64_t)below(a, (uint64_t)UVS_MS(2)), &a->waiter, &e);
    if (rc == 0)
      account(a->w, &e);
  } while (!is_over(a, rc));
}

static void poll_and_drain(struct actor *a) {
  uvs_entry_t e;
  int rc;

  do {
    if (below(a, 2) == 0) {
      rc = uvs_queue_poll(a->w->q, &e);
      if (rc == 0)
        account(a->w, &e);
    } else {
      a->last_ns = 0;
      rc = uvs_queue_drain(a->w->q, (int64_t)below(a, 10), drained, a);
    }
    uv_sleep((unsigned)below(a, 2));
  } while (!is_over(a, rc));
}

static int looks_at(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  (void)q;
  if (e->due_ns < *(int64_t *)arg)
    return 1;
  *(int64_t *)arg = e->due_ns;
  return 0;
}

static void look_and_clear(struct actor *a) {
  uvs_entry_t e;
  int rc;

  do {
    int64_t last_ns = 0;

    rc = uvs_queue_each(a->w->q, looks_at, &last_ns);
    if (rc > 0)
      blame(a->w, UNORDERED);
    if (rc == 0)
      rc = uvs_queue_size(a->w->q);
    if (rc >= 0)
      rc = uvs_queue_peek(a->w->q, &e);
    if (rc == 0)
      rc = uvs_queue_contains(a->w->q, e.value); /* or not any more */
    if (rc == 1 && below(a, 4) == 0) {
      rc = uvs_queue_remove_value(a->w->q, e.value, &e);
      if (rc == 0)
        account_undue(a->w, &e);
    }
    if (rc >= 0)
      rc = below(a, 2) == 0 ? uvs_queue_ref(a->w->q) : uvs_queue_unref(a->w->q);
    if (rc >= 0 && below(a, 50) == 0)
      rc = uvs_queue_clear(a->w->q, cleared, a->w);
    uv_sleep(1);
  } while (!is_over(a, rc));
}

static void abandon(struct actor *a) {
  int rc;

  do {
    rc = uvs_queue_abandon(a->w->q, &a->others[below(a, ACTORS)].waiter);
    atomic_fetch_add(&a->w->called_out, rc == 1);
    uv_sleep((unsigned)below(a, 2));
  } while (!is_over(a, rc));
}

static void act_main(void *arg) {
  struct actor *a = arg;

  a->act(a);
  uvs_queue_release(a->w->q);
}

/* ------------------------------------------------------------------- the world --- */

static void left(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  cleared(q, e, arg);
}

static void on_close_now(uv_async_t *h) {
  struct world *w = h->data;

  uv_close((uv_handle_t *)h, NULL);
  if (w->closes_itself)
    w->rc |= uvs_close(w->s, NULL);
}

static void loop_main(void *arg) {
  struct world *w = arg;

  uv_run(&w->loop, UV_RUN_NOWAIT); /* now this thread is the loop's */
  if (w->consumes)
    w->rc |= uvs_queue_consume(w->q, consumed, w);
  uv_sem_post(&w->ready);
  uv_run(&w->loop, UV_RUN_DEFAULT); /* until the queue is closed */
  if (!w->closes_itself)
    w->rc |= uvs_close(w->s, NULL);
  uv_run(&w->loop, UV_RUN_DEFAULT);
}

static enum greatest_test_res world_open(struct world *w, bool consumes, bool closes_itself) {
  uvs_queue_options_t qo;
  uvs_options_t o;

  memset(w, 0, sizeof *w);
  w->consumes = consumes;
  w->closes_itself = closes_itself;
  fault_init(&w->fault);
  ASSERT_RC(0, uv_loop_init(&w->loop));
  ASSERT_RC(0, uv_sem_init(&w->ready, 0));
  ASSERT_RC(0, uv_async_init(&w->loop, &w->close_async, on_close_now));
  w->close_async.data = w;
  uvs_options_init(&o);
  o.allocator = fault_option(&w->fault);
  ASSERT_RC(0, uvs_open(&w->loop, &o, &w->s));
  uvs_retain(w->s); /* for uvs_now, to the last */
  uvs_queue_options_init(&qo);
  qo.on_left = left;
  qo.arg = w;
  ASSERT_RC(0, uvs_queue_open(w->s, &qo, &w->q));
  memset(values, 0, sizeof values);
  ASSERT_RC(0, uv_thread_create(&w->thread, loop_main, w));
  uv_sem_wait(&w->ready);
  PASS();
}

static enum greatest_test_res cast(struct world *w, int i, role act, uint64_t *random) {
  struct actor *a = &actors[i];

  a->w = w;
  a->act = act;
  a->random = test_random(random) | 1;
  a->others = actors;
  a->values = i < PRODUCERS ? values[i] : NULL;
  uvs_queue_retain(w->q);
  ASSERT_RC(0, uv_thread_create(&a->thread, act_main, a));
  PASS();
}

static bool all_out(struct world *w) {
  uint64_t end_ns = uv_hrtime() + (uint64_t)PATIENCE_NS;

  while (atomic_load(&w->got) < atomic_load(&w->accepted) && uv_hrtime() < end_ns)
    uv_sleep(1);
  return atomic_load(&w->got) == atomic_load(&w->accepted);
}

/* Closes the queue or its scheduler, joins all threads, and checks the accounts. */
static enum greatest_test_res world_close(struct world *w, int first, int casted) {
  if (w->closes_itself)
    uv_async_send(&w->close_async);
  else
    ASSERT_RC(0, uvs_queue_close(w->q));
  for (int i = first; i < casted; i++)
    uv_thread_join(&actors[i].thread);
  if (!w->closes_itself)
    uv_async_send(&w->close_async);
  uv_thread_join(&w->thread);
  if (w->closes_itself)
    ASSERT_RC(0, uvs_queue_close(w->q));
  ASSERT_RC(0, w->rc);
  uvs_release(w->s);
  ASSERT_RC(0, uv_loop_close(&w->loop));
  uv_sem_destroy(&w->ready);
  ASSERT_EQ_FMT(0L, atomic_load(&w->fault.live), "%ld");
  ASSERT_EQ_FMT(0, atomic_load(&w->wrong), "%d");
  for (int p = 0; p < PRODUCERS; p++) {
    for (int i = 0; i < VALUES; i++)
      ASSERT_EQ_FMT((int)values[p][i].accepted, atomic_load(&values[p][i].out), "%d");
  }
  /* Abandoned threads left for that reason. Some more were abandoned before they waited. */
  ASSERT(atomic_load(&w->left_by_request) >= atomic_load(&w->called_out));
  PASS();
}

static int rounds(int n) {
  const char *stress = getenv("UVS_STRESS");

  return stress != NULL && strcmp(stress, "long") == 0 ? n * 10 : n;
}

/* All roles at once. */
static const role everybody[ACTORS] = {
    produce, produce, produce,        take,           take,    poll_with_patience,
    take,    take,    poll_and_drain, look_and_clear, abandon, poll_with_patience};

/* D21 */
TEST draining_while_others_insert_loses_and_duplicates_nothing(void) {
  static struct world w;
  uint64_t random = test_seed;

  for (int round = 0; round < rounds(1); round++) {
    CHECK_CALL(world_open(&w, false, false));
    for (int i = 0; i <= PRODUCERS; i++)
      CHECK_CALL(cast(&w, i, i < PRODUCERS ? produce : poll_and_drain, &random));
    for (int i = 0; i < PRODUCERS; i++)
      uv_thread_join(&actors[i].thread);
    ASSERT(all_out(&w));
    CHECK_CALL(world_close(&w, PRODUCERS, PRODUCERS + 1));
  }
  PASS();
}

/* With takers only, the loop must hand over every value that is not due when it is put. D18 D19
 * D23 */
TEST the_loop_hands_every_value_to_a_waiting_thread(void) {
  static struct world w;
  uint64_t random = test_seed;

  for (int round = 0; round < rounds(1); round++) {
    CHECK_CALL(world_open(&w, false, false));
    for (int i = 0; i < PRODUCERS + 4; i++)
      CHECK_CALL(cast(&w, i, i < PRODUCERS ? produce : take, &random));
    for (int i = 0; i < PRODUCERS; i++)
      uv_thread_join(&actors[i].thread);
    ASSERT(all_out(&w));
    CHECK_CALL(world_close(&w, PRODUCERS, PRODUCERS + 4));
  }
  PASS();
}

/* D18 D19 D21 D23 */
TEST under_mixed_load_each_queue_value_has_one_owner(void) {
  static struct world w;
  uint64_t random = test_seed;

  for (int round = 0; round < rounds(4); round++) {
    CHECK_CALL(world_open(&w, round % 2 == 0, false));
    for (int i = 0; i < ACTORS; i++)
      CHECK_CALL(cast(&w, i, everybody[i], &random));
    for (int i = 0; i < PRODUCERS; i++)
      uv_thread_join(&actors[i].thread);
    ASSERT(all_out(&w));
    CHECK_CALL(world_close(&w, PRODUCERS, ACTORS));
  }
  PASS();
}

/* The queue, or its scheduler, is closed in the middle. D21 L12 L17 */
TEST closing_under_load_gives_back_every_remaining_value(void) {
  static struct world w;
  uint64_t random = test_seed;

  for (int round = 0; round < rounds(20); round++) {
    CHECK_CALL(world_open(&w, round % 2 == 0, round % 4 < 2));
    for (int i = 0; i < ACTORS; i++)
      CHECK_CALL(cast(&w, i, everybody[i], &random));
    uv_sleep((unsigned)test_random_below(&random, 12));
    CHECK_CALL(world_close(&w, 0, ACTORS));
  }
  PASS();
}

struct crowd {
  struct world *w;
  uint64_t random;
  uv_thread_t thread;
  int rc;
};

static void open_and_close(void *arg) {
  struct crowd *c = arg;

  for (int i = 0; i < 200 && c->rc == 0; i++) {
    uvs_queue_t *q;

    c->rc = uvs_queue_open(c->w->s, NULL, &q);
    if (c->rc != 0)
      break;
    if (test_random_below(&c->random, 2) == 0)
      c->rc |= uvs_queue_unref(q);
    c->rc |= uvs_queue_put(q, c, (int64_t)test_random_below(&c->random, (uint64_t)UVS_MS(1)), NULL);
    c->rc |= uvs_queue_close(q);
  }
}

/* On several threads, while the loop serves all queues. */
TEST queues_can_be_opened_and_closed_under_load(void) {
  static struct crowd crowd[4];
  static struct world w;
  uint64_t random = test_seed;

  CHECK_CALL(world_open(&w, true, false));
  for (int i = 0; i < 4; i++) {
    crowd[i].w = &w;
    crowd[i].random = test_random(&random) | 1;
    crowd[i].rc = 0;
    ASSERT_RC(0, uv_thread_create(&crowd[i].thread, open_and_close, &crowd[i]));
  }
  CHECK_CALL(cast(&w, 0, produce, &random));
  for (int i = 0; i < 4; i++) {
    uv_thread_join(&crowd[i].thread);
    ASSERT_RC(0, crowd[i].rc);
  }
  uv_thread_join(&actors[0].thread);
  ASSERT(all_out(&w));
  CHECK_CALL(world_close(&w, 0, 0)); /* uv_run must return: no queue holds the loop */
  PASS();
}

SUITE(queue_threads) {
  for (int i = 0; i < ACTORS; i++)
    uvs_waiter_init(&actors[i].waiter);
  RUN_TEST(draining_while_others_insert_loses_and_duplicates_nothing);
  RUN_TEST(the_loop_hands_every_value_to_a_waiting_thread);
  RUN_TEST(under_mixed_load_each_queue_value_has_one_owner);
  RUN_TEST(closing_under_load_gives_back_every_remaining_value);
  RUN_TEST(queues_can_be_opened_and_closed_under_load);
}

TEST_MAIN(RUN_SUITE(queue_threads));
