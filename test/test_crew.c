/* SPDX-License-Identifier: MIT
 *
 * How many runners a crew is given. A turn of the loop is played by hand, and so are the runners:
 * what they count, and when. Time is a number here.
 */
#include "pool.h"

#include <string.h>

#include "lib/unit.h"

#define MS UINT64_C(1000000)
#define MANY 100 /* concurrency, where it is not what is asked for */

struct bench {
  struct uvs__agenda agenda;
  struct uvs__pool pool;
  struct uvs__crew other; /* of a lane's own */
  struct fault fault;
  uvs_allocator_t mem;
};

static int bench_init(struct bench *b, int concurrency) {
  int rc;

  fault_init(&b->fault);
  b->mem = fault_option(&b->fault);
  memset(&b->other, 0, sizeof b->other);
  rc = uvs__agenda_init(&b->agenda, &b->mem);
  if (rc == 0)
    rc = uvs__pool_init(&b->pool, &b->agenda, &b->mem, NULL);
  if (rc == 0)
    rc = uvs__crew_set_concurrency(&b->pool, &b->pool.home, concurrency);
  if (rc == 0)
    rc = uvs__crew_set_concurrency(&b->pool, &b->other, concurrency);
  b->pool.home.starts = b->other.starts = UVS__BRIEF_MANY; /* so many runs there were */
  return rc;
}

static bool bench_destroy(struct bench *b) {
  uvs__pool_destroy(&b->pool);
  uvs__agenda_destroy(&b->agenda);
  return b->fault.live == 0;
}

/* So many could start, and the last `brief` runs were over at once. */
static void set(struct bench *b, struct uvs__crew *c, uint32_t startable, uint32_t brief) {
  uv_mutex_lock(&b->pool.lock);
  c->startable = startable;
  c->brief = brief;
  c->usual_ns = UVS__ALONE_NS;
  if (c != &b->pool.home)
    uvs__crew_list_locked(&b->pool, c);
  uv_mutex_unlock(&b->pool.lock);
}

/* A turn of the loop: every crew that wants some gets them. Returns how many went out. */
static unsigned turn(struct bench *b, uint64_t now_ns) {
  uint32_t left = UVS__NONE;
  struct uvs__crew *c;
  unsigned n = 0;

  while ((c = uvs__crew_that_wants(&b->pool, now_ns, &left)) != NULL)
    for (struct uvs__runner *r = uvs__crew_call_out(&b->pool, c, now_ns); r != NULL; r = r->next)
      n++;
  return n;
}

/* One that was sought for has begun with a task. */
static void start(struct bench *b, struct uvs__crew *c) {
  uv_mutex_lock(&b->pool.lock);
  c->seeking--;
  c->active++;
  c->startable--;
  c->starts++;
  uv_mutex_unlock(&b->pool.lock);
}

/* It has ended one, and begun with the next. */
static void go_on(struct bench *b, struct uvs__crew *c) {
  uv_mutex_lock(&b->pool.lock);
  c->startable--;
  c->starts++;
  uv_mutex_unlock(&b->pool.lock);
}

/* V8 S24: as long as nobody knows how long the runs are, each task has its runner. */
TEST before_64_brief_runs_each_task_gets_a_runner(void) {
  for (uint32_t brief = 0; brief <= UVS__BRIEF_MANY; brief++) {
    struct bench b;

    ASSERT_RC(0, bench_init(&b, MANY));
    set(&b, &b.pool.home, 40, brief);
    ASSERT_U64(brief < UVS__BRIEF_MANY ? 40 : 2, turn(&b, 5 * MS));
    ASSERT_EQ(brief == UVS__BRIEF_MANY, b.pool.held_back);
    ASSERT(bench_destroy(&b));
  }
  PASS();
}

TEST after_them_there_is_one_for_each_32(void) {
  static const struct {
    uint32_t startable, runners;
  } of[] = {{0, 0}, {1, 1}, {2, 1}, {32, 1}, {33, 2}, {64, 2}, {65, 3}, {97, 4}, {3200, 100}};

  for (unsigned i = 0; i < sizeof of / sizeof of[0]; i++) {
    struct bench b;

    ASSERT_RC(0, bench_init(&b, MANY));
    set(&b, &b.pool.home, of[i].startable, UVS__BRIEF_MANY);
    ASSERT_U64(of[i].runners, turn(&b, 5 * MS));
    ASSERT_U64(0, turn(&b, 5 * MS)); /* those are on their way */
    ASSERT_U64(of[i].runners, b.pool.out);
    ASSERT_EQ(of[i].startable > of[i].runners, b.pool.held_back);
    ASSERT(bench_destroy(&b));
  }
  PASS();
}

/* Who has a body counts as well, since it goes on with the next. */
TEST a_busy_runner_is_one_of_them(void) {
  struct bench b;

  ASSERT_RC(0, bench_init(&b, MANY));
  set(&b, &b.pool.home, 10, UVS__BRIEF_MANY);
  ASSERT_U64(1, turn(&b, 5 * MS));
  start(&b, &b.pool.home);
  ASSERT_U64(0, turn(&b, 5 * MS));
  set(&b, &b.pool.home, 33, UVS__BRIEF_MANY);
  ASSERT_U64(1, turn(&b, 5 * MS));
  set(&b, &b.pool.home, 0, UVS__BRIEF_MANY);
  ASSERT_U64(0, turn(&b, 5 * MS));
  ASSERT_FALSE(b.pool.held_back); /* nothing is left to look for */
  ASSERT(bench_destroy(&b));
  PASS();
}

/* Where runs are shorter than the way from one to the next, one is enough for any number. */
TEST one_alone_for_the_shortest(void) {
  for (uint32_t brief = UVS__BRIEF_MANY - 1; brief <= UVS__BRIEF_MANY; brief++) {
    struct bench b;

    ASSERT_RC(0, bench_init(&b, MANY));
    set(&b, &b.pool.home, 90, brief);
    b.pool.home.usual_ns = UVS__ALONE_NS - 1;
    ASSERT_EQ(brief == UVS__BRIEF_MANY, uvs__crew_alone(&b.pool.home));
    ASSERT_U64(brief < UVS__BRIEF_MANY ? 90 : 1, turn(&b, 5 * MS));
    ASSERT_EQ(brief == UVS__BRIEF_MANY, b.pool.held_back); /* so there is another look */
    if (brief == UVS__BRIEF_MANY)
      ASSERT_U64(0, turn(&b, 5 * MS));
    set(&b, &b.pool.home, 90, brief);
    ASSERT_U64(brief < UVS__BRIEF_MANY ? 0 : 2, turn(&b, 5 * MS)); /* they are longer again */
    ASSERT(bench_destroy(&b));
  }
  PASS();
}

/* V8 L13 */
TEST never_more_than_the_concurrency(void) {
  for (uint32_t brief = 0; brief <= UVS__BRIEF_MANY; brief += UVS__BRIEF_MANY)
    for (int concurrency = 0; concurrency < 4; concurrency++) {
      struct bench b;

      ASSERT_RC(0, bench_init(&b, concurrency));
      set(&b, &b.pool.home, 1000, brief);
      ASSERT_U64((unsigned)concurrency, turn(&b, 5 * MS));
      set(&b, &b.pool.home, 1000, 0); /* a long run, and then the rescue */
      for (uint64_t ns = 5 * MS; ns < 10 * MS; ns += MS / 2)
        ASSERT_U64(0, turn(&b, ns));
      ASSERT_U64((unsigned)concurrency, b.pool.out);
      ASSERT(bench_destroy(&b));
    }
  PASS();
}

/* One run that takes long (or a clock that is not the machine's): the plain rule again. */
TEST when_a_run_was_long_all_others_are_called(void) {
  struct bench b;

  ASSERT_RC(0, bench_init(&b, MANY));
  set(&b, &b.pool.home, 20, UVS__BRIEF_MANY);
  ASSERT_U64(1, turn(&b, 5 * MS));
  start(&b, &b.pool.home);
  ASSERT_U64(0, turn(&b, 5 * MS));
  set(&b, &b.pool.home, 19, 0);
  ASSERT_U64(19, turn(&b, 5 * MS));
  ASSERT_FALSE(b.pool.held_back);
  ASSERT(bench_destroy(&b));
  PASS();
}

/* L15: who blocks says nothing. A ms without a start, and all are called. */
TEST a_ms_without_a_start_calls_all(void) {
  for (uint64_t from_ns = 0; from_ns < 3000 * MS; from_ns += 1000 * MS - 1) {
    struct bench b;

    ASSERT_RC(0, bench_init(&b, MANY));
    set(&b, &b.pool.home, 20, UVS__BRIEF_MANY);
    ASSERT_U64(1, turn(&b, from_ns));
    start(&b, &b.pool.home);
    ASSERT_U64(0, turn(&b, from_ns));
    ASSERT(b.pool.held_back);
    ASSERT_U64(0, turn(&b, from_ns + MS - 1));
    ASSERT(b.pool.held_back); /* so there is another look */
    ASSERT_U64(19, turn(&b, from_ns + MS));
    ASSERT_U64(0, b.pool.home.brief); /* and they stay called */
    ASSERT_FALSE(b.pool.held_back);
    ASSERT_U64(0, turn(&b, from_ns + MS));
    ASSERT(bench_destroy(&b));
  }
  PASS();
}

/* While they go on, no more are called, however long that takes. */
TEST starts_put_it_off(void) {
  uint64_t ns = 5 * MS;
  struct bench b;

  ASSERT_RC(0, bench_init(&b, MANY));
  set(&b, &b.pool.home, 30, UVS__BRIEF_MANY);
  ASSERT_U64(1, turn(&b, ns));
  start(&b, &b.pool.home);
  ASSERT_U64(0, turn(&b, ns));
  for (int i = 0; i < 20; i++) {
    go_on(&b, &b.pool.home);
    ns += 3 * MS;
    ASSERT_U64(0, turn(&b, ns));
    ASSERT(b.pool.held_back);
  }
  ASSERT_U64(0, turn(&b, ns + MS - 1));
  ASSERT_U64(9, turn(&b, ns + MS));
  ASSERT(bench_destroy(&b));
  PASS();
}

/* Each crew by itself: one that is slow has the plain rule, and one that waits is seen. */
TEST one_crew_says_nothing_of_another(void) {
  struct bench b;

  ASSERT_RC(0, bench_init(&b, MANY));
  set(&b, &b.pool.home, 20, UVS__BRIEF_MANY);
  set(&b, &b.other, 20, 0);
  ASSERT_U64(21, turn(&b, 5 * MS));
  ASSERT_U64(1, b.pool.home.out);
  ASSERT_U64(20, b.other.out);
  ASSERT(b.pool.held_back);
  for (int i = 0; i < 20; i++)
    start(&b, &b.other);
  start(&b, &b.pool.home);
  ASSERT_U64(0, turn(&b, 5 * MS));
  set(&b, &b.other, 30, UVS__BRIEF_MANY);
  set(&b, &b.pool.home, 0, UVS__BRIEF_MANY);
  ASSERT_U64(0, turn(&b, 6 * MS)); /* its first look: it has started since */
  ASSERT(b.pool.held_back);        /* the home crew is not, and does not hide it */
  ASSERT_U64(30, turn(&b, 7 * MS));
  ASSERT_U64(1, b.pool.home.out);
  ASSERT_FALSE(b.pool.held_back);
  ASSERT(bench_destroy(&b));
  PASS();
}

SUITE(crew) {
  RUN_TEST(before_64_brief_runs_each_task_gets_a_runner);
  RUN_TEST(after_them_there_is_one_for_each_32);
  RUN_TEST(a_busy_runner_is_one_of_them);
  RUN_TEST(one_alone_for_the_shortest);
  RUN_TEST(never_more_than_the_concurrency);
  RUN_TEST(when_a_run_was_long_all_others_are_called);
  RUN_TEST(a_ms_without_a_start_calls_all);
  RUN_TEST(starts_put_it_off);
  RUN_TEST(one_crew_says_nothing_of_another);
}

TEST_MAIN(RUN_SUITE(crew));
