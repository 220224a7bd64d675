/* SPDX-License-Identifier: MIT
 *
 * Bursts: many tasks due at the same instant. They move to the loop's list in batches, and each
 * batch runs while it is in the cache. Only timing may differ from tasks that come one by one.
 */
#include <limits.h>
#include <unistd.h>

#include "lib/fixture.h"

enum { N = 5000, PER_TURN = 1024 + 63 };

/* A clock that advances by 1 us each time it is read, so that no part of a lateness is 0. */
static _Atomic int64_t now_ns;

static int64_t tick_on(void *arg) {
  (void)arg;
  return atomic_fetch_add(&now_ns, 1000) + 1000;
}

static int64_t wall_of(void *arg) {
  (void)arg;
  return VCLOCK_WALL_NS;
}

struct item {
  _Atomic unsigned runs;
  unsigned place; /* its position among the runs of its kind */
  unsigned pass;
  bool adds_up;
  int64_t by_loop_ns;
  bool on_loop;
};

static struct item items[N];
static unsigned places[2], passes, polls;

static int note_run(uvs_run_t *run) {
  struct item *it = run->arg;
  int64_t sum_ns = 0;

  atomic_fetch_add(&it->runs, 1);
  it->on_loop = run->runner == UVS_ON_LOOP;
  it->place = places[it->on_loop]++;
  it->pass = passes;
  for (int i = 0; i < UVS_LATE_CAUSES; i++)
    sum_ns += run->late_by_ns[i];
  it->adds_up = sum_ns == run->late_ns && run->late_ns == run->start_ns - run->ideal_ns;
  it->by_loop_ns = run->late_by_ns[UVS_LATE_LOOP];
  return 0;
}

static void on_readable(uv_poll_t *h, int status, int events) {
  (void)h;
  (void)status;
  (void)events;
  polls++;
}

static enum greatest_test_res open_ticking(struct fixture *f, int64_t budget_ns) {
  memset(items, 0, sizeof items);
  places[0] = places[1] = passes = polls = 0;
  atomic_store(&now_ns, VCLOCK_START_NS);
  fixture_init(f);
  f->options.clock = (uvs_clock_t){tick_on, wall_of, NULL};
  f->options.budget_ns = budget_ns;
  f->options.concurrency = 1;
  CHECK_CALL(fixture_open_turned(f));
  PASS();
}

/* L7 L20 S66 V9: tasks run alternately on the loop and on the pool; with `pool_too` false, all on
 * the loop. Of three tasks with a cold record, each takes a different way. */
static enum greatest_test_res burst(bool pool_too) {
  uv_prepare_t counter;
  struct fixture f;
  uv_poll_t poll;
  int fds[2];

  CHECK_CALL(open_ticking(&f, UVS_SEC(1))); /* longer than the whole burst takes */
  ASSERT_RC(0, pipe(fds));
  ASSERT_RC(1, (int)write(fds[1], "x", 1)); /* always readable: the program's I/O */
  ASSERT_RC(0, uv_poll_init(&f.loop, &poll, fds[0]));
  ASSERT_RC(0, uv_poll_start(&poll, UV_READABLE, on_readable));
  uv_prepare_init(&f.loop, &counter);
  uv_prepare_start(&counter, count_turn);
  counter.data = &passes;

  for (int i = 0; i < N; i++) {
    uvs_task_t t;

    uvs_task_init(&t);
    t.arg = &items[i];
    t.from = UVS_FROM_MONOTONIC;
    t.first_ns = VCLOCK_START_NS + UVS_SEC(10);
    t.name = i % 3 == 0 ? "cold" : NULL;
    if (pool_too && i % 2 == 1)
      t.work = note_run;
    else
      t.after = note_run;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  fixture_turn(&f);
  atomic_fetch_add(&now_ns, UVS_SEC(15));
  ASSERT_RC(0, uvs_clock_changed(f.s));
  polls = 0;
  while (places[0] + places[1] < N && !f.overrun) {
    uvs_counts_t c;

    uv_run(&f.loop, UV_RUN_NOWAIT);
    c = counts_of(f.s);
    ASSERT(adds_up(&c));
    ASSERT_U64(N, c.waiting + c.ready + c.running + c.completed);
  }
  ASSERT_U64(pool_too ? N / 2 : N, places[1]);

  unsigned in_pass = 0, next[2] = {0, 0};
  for (int i = 0; i < N; i++) {
    const struct item *it = &items[i];

    ASSERT_U64(1, atomic_load(&it->runs));
    ASSERT_EQ(!pool_too || i % 2 == 0, it->on_loop);
    ASSERT_U64(next[it->on_loop]++, it->place); /* in order, each kind by itself */
    ASSERT(it->adds_up);
    /* From the due time to the first loop pass. The rest of the lateness is the budget's. */
    ASSERT_I64(items[0].by_loop_ns, it->by_loop_ns);
    if (!it->on_loop)
      continue;
    if (in_pass == 0 || it->pass != items[i - (pool_too ? 2 : 1)].pass)
      in_pass = 0;
    ASSERT(++in_pass <= PER_TURN);
  }
  ASSERT(items[0].by_loop_ns >= UVS_SEC(5) && items[0].by_loop_ns < UVS_SEC(6));
  ASSERT(polls >= (pool_too ? 2u : 4u));
  uv_close((uv_handle_t *)&poll, NULL);
  uv_close((uv_handle_t *)&counter, NULL);
  CHECK_CALL(fixture_close(&f));
  close(fds[0]);
  close(fds[1]);
  PASS();
}

TEST a_burst_on_the_loop_does_not_starve_other_io(void) {
  CHECK_CALL(burst(false));
  PASS();
}

TEST a_burst_on_loop_and_pool_keeps_the_order_of_each_kind(void) {
  CHECK_CALL(burst(true));
  PASS();
}

/* P11: tasks that run first can cancel those that still wait, and these never run. */
static struct fixture *cancelling;
static uvs_id_t ids[N];

static int cancel_another(uvs_run_t *run) {
  size_t i = (size_t)((struct item *)run->arg - items);

  if (uvs_cancel(cancelling->s, ids[N - 1 - i], 0) != UVS_CANCELLED && i < N / 2)
    return UV_EIO;
  return note_run(run);
}

TEST a_burst_whose_first_half_cancels_the_second_runs_only_the_first(void) {
  struct fixture f;

  CHECK_CALL(open_ticking(&f, UVS_SEC(1))); /* longer than the whole burst takes */
  cancelling = &f;
  for (int i = 0; i < N; i++) {
    uvs_task_t t;

    uvs_task_init(&t);
    t.arg = &items[i];
    t.first_ns = UVS_SEC(10);
    t.after = cancel_another;
    ASSERT_RC(0, uvs_submit(f.s, &t, &ids[i]));
  }
  atomic_fetch_add(&now_ns, UVS_SEC(15));
  ASSERT_RC(0, uvs_clock_changed(f.s));
  fixture_turn(&f);
  for (int i = 0; i < N; i++)
    ASSERT_U64(i < N / 2, atomic_load(&items[i].runs));
  uvs_counts_t c = counts_of(f.s);
  ASSERT(adds_up(&c));
  ASSERT_U64(N / 2, c.completed);
  ASSERT_U64(N / 2, c.cancelled);
  ASSERT_U64(0, c.failed);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static unsigned ran_before;

static int take_long(uvs_run_t *run) {
  atomic_fetch_add(&now_ns, UVS_US(200));
  return note_run(run);
}

static int look_how_many(uvs_run_t *run) {
  ran_before = places[1];
  return note_run(run);
}

/* L7 P11: slow bodies on the loop do not delay later tasks of a higher class, nor tasks for the
 * pool. */
TEST a_slow_burst_on_the_loop_delays_neither_higher_priorities_nor_the_pool(void) {
  struct fixture f;

  CHECK_CALL(open_ticking(&f, UVS_MS(1)));
  for (int i = 0; i < N; i++) {
    uvs_task_t t;

    uvs_task_init(&t);
    t.arg = &items[i];
    t.first_ns = UVS_SEC(10);
    t.after = i < N - 2 ? take_long : i == N - 2 ? look_how_many : NULL;
    t.work = i == N - 1 ? note_run : NULL;
    t.priority = i == N - 2 ? UVS_PRIORITY_HIGH : UVS_PRIORITY_NORMAL;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  atomic_fetch_add(&now_ns, UVS_SEC(15));
  ASSERT_RC(0, uvs_clock_changed(f.s));
  ran_before = UINT_MAX;
  for (int i = 0; i < 10; i++)
    uv_run(&f.loop, UV_RUN_NOWAIT);
  ASSERT(ran_before < 50); /* a few loop passes of a few runs each */
  ASSERT_U64(1, atomic_load(&items[N - 1].runs));
  ASSERT(places[1] < 200);
  fixture_turn(&f);
  for (int i = 0; i < N; i++)
    ASSERT_U64(1, atomic_load(&items[i].runs));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(burst_of_due_tasks) {
  RUN_TEST(a_burst_on_the_loop_does_not_starve_other_io);
  RUN_TEST(a_burst_on_loop_and_pool_keeps_the_order_of_each_kind);
  RUN_TEST(a_burst_whose_first_half_cancels_the_second_runs_only_the_first);
  RUN_TEST(a_slow_burst_on_the_loop_delays_neither_higher_priorities_nor_the_pool);
}

TEST_MAIN(RUN_SUITE(burst_of_due_tasks));
