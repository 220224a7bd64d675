/* SPDX-License-Identifier: MIT
 *
 * Bugs that a review found in times, loop passes, the cap and single calls: one test for each.
 *
 * The comment above a test says what went wrong before. Other bugs are in test_regress.c.
 */
#include <sched.h>

#include "uvsched/queue.h"

#include "lib/bodies.h"
#include "lib/fixture.h"
#include "lib/inspect.h"
#include "lib/threads.h"

/* A clock in front of the virtual one: the test is called at each read. */
struct looked {
  struct vclock *hands;
  uv_thread_t loop_thread;
  _Atomic(void (*)(struct looked *, bool on_loop)) hook;
};

static int64_t looked_monotonic(void *arg) {
  struct looked *l = arg;
  int64_t now_ns = vclock_now(l->hands);
  void (*hook)(struct looked *, bool) = atomic_load(&l->hook);
  uv_thread_t self = uv_thread_self();

  if (hook != NULL)
    hook(l, uv_thread_equal(&self, &l->loop_thread) != 0);
  return now_ns;
}

static int64_t looked_wall(void *arg) {
  return vclock_wall(((struct looked *)arg)->hands);
}

static void put_in_front(struct looked *l, struct fixture *f) {
  l->hands = &f->clock;
  l->loop_thread = uv_thread_self();
  atomic_store(&l->hook, NULL);
  f->options.clock = (uvs_clock_t){looked_monotonic, looked_wall, l};
}

/* ---------------------------------------------------------------- timing --- */

static struct { _Atomic int armed, stopped, go; } runner_clock;

/* The runner reads its clock at the end of a body and then is delayed. */
static void hold_the_runner(struct looked *l, bool on_loop) {
  int armed = 1;

  (void)l;
  if (on_loop || !atomic_compare_exchange_strong(&runner_clock.armed, &armed, 0))
    return;
  atomic_store(&runner_clock.stopped, 1);
  await_flag(&runner_clock.go);
}

static int act_arm(struct probe *p, uvs_run_t *run) {
  (void)p;
  (void)run;
  atomic_store(&runner_clock.armed, 1);
  return 0;
}

/* S2 S3. A runner that went from one body to the next used a clock reading from before the second
 * was due: run->start_ns was before run->ideal_ns. */
TEST a_runs_start_time_is_never_before_its_ideal_time(void) {
  struct fixture f;
  struct looked l;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.options.concurrency = 1;
  put_in_front(&l, &f);
  CHECK_CALL(fixture_open_turned(&f));
  atomic_store(&runner_clock.stopped, 0);
  atomic_store(&runner_clock.go, 0);
  atomic_store(&l.hook, hold_the_runner);
  uvs_task_t a = fixture_once(&f, 'a', 0), b = fixture_once(&f, 'b', UVS_MS(10));
  uvs_task_t c = fixture_rate(&f, 'c', UVS_MS(10), UVS_MS(100));
  c.missed_policy = UVS_MISSED_ONCE;
  c.max_runs = 1;
  probe_of(&a)->act = act_arm;
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &c, NULL));
  ASSERT(fixture_wait_flag(&f, &runner_clock.stopped));
  fixture_jump_ms(&f, 10); /* b and c are ready now, and the runner takes them next */
  atomic_store(&runner_clock.go, 1);
  ASSERT(fixture_wait_log(&f, EV_DONE, 0, 3));
  ASSERT_STR_EQ("abc", log_string(&f, EV_WORK));
  ASSERT_STR_EQ("10", log_runs(&f, EV_WORK, 'b'));
  ASSERT_STR_EQ("10", log_runs(&f, EV_WORK, 'c'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

struct finishing {
  uvs_t *s;
  uvs_id_t id;
};

static int finish_slowly(void *arg) {
  const struct finishing *f = arg;

  atomic_store(&runner_clock.armed, 1);
  return uvs_finish(f->s, f->id, 0);
}

/* S7 L14. A thread read the clock for uvs_finish, and then the run began. The run ended before its
 * start, its length was negative, and the next run of a fixed delay came too early. */
TEST a_runs_end_is_never_before_its_start_even_if_finished_by_another_thread(void) {
  struct fixture f;
  struct looked l;
  struct finishing finishing;
  struct errand errand = {finish_slowly, &finishing, UV_EAGAIN};
  uv_thread_t thread;

  fixture_init(&f);
  f.options.concurrency = 1;
  put_in_front(&l, &f);
  CHECK_CALL(fixture_open_turned(&f));
  atomic_store(&runner_clock.stopped, 0);
  atomic_store(&runner_clock.go, 0);
  atomic_store(&l.hook, hold_the_runner);
  uvs_task_t t = fixture_delay(&f, 'a', UVS_MS(5), UVS_MS(10));
  t.after = probe_after;
  probe_of(&t)->ret = UVS_PENDING;
  finishing.s = f.s;
  ASSERT_RC(0, uvs_submit(f.s, &t, &finishing.id));
  ASSERT_RC(0, uv_thread_create(&thread, errand_main, &errand));
  ASSERT(await_flag(&runner_clock.stopped)); /* it has looked: 0 ms */
  fixture_advance_ms(&f, 5);
  ASSERT_STR_EQ("5", log_runs(&f, EV_WORK, 'a'));
  atomic_store(&runner_clock.go, 1);
  uv_thread_join(&thread);
  ASSERT_RC(0, errand.rc);
  fixture_turn(&f);
  ASSERT_I64(5, fixture_ms(&f, log_nth(&f, EV_AFTER, 'a', 0)->end_ns));
  ASSERT_U64(1, histogram_of(f.s, UVS_STAT_RUN).count);
  ASSERT_U64(0, histogram_of(f.s, UVS_STAT_RUN).max_ns);
  ASSERT_I64(15, fixture_next_ms(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

struct starts {
  _Atomic int runs, early, wrong;
};

static int check_start(uvs_run_t *run) {
  struct starts *s = run->arg;

  atomic_fetch_add(&s->runs, 1);
  if (run->start_ns < run->ideal_ns)
    atomic_fetch_add(&s->early, 1);
  if (run->late_ns != run->start_ns - run->ideal_ns)
    atomic_fetch_add(&s->wrong, 1);
  return 0;
}

/* S2 S3. As above, with many tasks on the real clock. */
TEST of_many_runs_none_has_a_start_time_before_its_ideal_time(void) {
  enum { MANY = 3000 };
  static struct starts s;
  struct fixture f;
  uint64_t random = test_seed;

  memset(&s, 0, sizeof s);
  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.real_clock = true;
  f.options.concurrency = 2;
  CHECK_CALL(fixture_open_turned(&f));
  for (int i = 0; i < MANY; i++)
    ASSERT_RC(0, uvs_schedule(f.s, (int64_t)test_random_below(&random, (uint64_t)UVS_MS(30)),
                              check_start, &s, NULL));
  ASSERT_RC(0, uvs_shutdown(f.s));
  ASSERT(fixture_wait_log(&f, EV_TERMINATED, 0, 1));
  ASSERT_RC(MANY, atomic_load(&s.runs));
  ASSERT_RC(0, atomic_load(&s.early));
  ASSERT_RC(0, atomic_load(&s.wrong));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* The newest max_burst points were counted back from now, even if now was after the end time. So
 * runs were made for points that should not exist. */
TEST max_burst_runs_only_points_before_the_end_time(void) {
  for (unsigned burst = 1; burst <= 5; burst++) {
    static const char *const runs[] = {
        "100(40+3)", "100(30+2) 100(40)", "100(20+1) 100(30) 100(40)",
        "100(10) 100(20) 100(30) 100(40)", "100(10) 100(20) 100(30) 100(40)"};
    struct fixture f;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
    t.until_ns = UVS_MS(45);
    t.max_burst = burst;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_jump_ms(&f, 100);
    ASSERT_STR_EQ(runs[burst - 1], log_runs(&f, EV_WORK, 'a'));
    ASSERT_STR_EQ("a", log_string(&f, EV_DONE));
    ASSERT_RC(0, log_nth(&f, EV_DONE, 'a', 0)->status);
    ASSERT_U64(burst < 4 ? 4 - burst : 0, counts_of(f.s).missed);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* Points after the end time were counted as missed. */
TEST missed_once_counts_no_points_after_the_end_time(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t a = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
  uvs_task_t b = fixture_rate(&f, 'b', UVS_MS(10), UVS_MS(10));
  a.missed_policy = b.missed_policy = UVS_MISSED_ONCE;
  a.until_ns = UVS_MS(45);
  b.until_ns = UVS_MS(40); /* that very point still counts */
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  fixture_jump_ms(&f, 100);
  ASSERT_STR_EQ("100(10+3)", log_runs(&f, EV_WORK, 'a'));
  ASSERT_STR_EQ("100(10+3)", log_runs(&f, EV_WORK, 'b'));
  ASSERT_STR_EQ("ab", log_string(&f, EV_DONE));
  ASSERT_U64(6, counts_of(f.s).missed);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* A SKIP task that found no runner for longer than its period. */
static enum greatest_test_res skip_late(bool loop_tasks, int64_t until_ns, const char *runs) {
  struct fixture f;
  uvs_info_t info;
  uvs_id_t id;

  fixture_init(&f);
  f.options.concurrency = loop_tasks ? 0 : 1;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t b = fixture_once(&f, 'b', UVS_MS(10));
  uvs_task_t t = fixture_rate(&f, 's', UVS_MS(10), UVS_MS(10));
  probe_of(&b)->takes_ns = UVS_MS(35);
  t.missed_policy = UVS_MISSED_SKIP;
  t.until_ns = until_ns;
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_jump_ms(&f, 10); /* both are ready; b is first, and ends at 45 */
  ASSERT_I64(45, fixture_now_ms(&f));
  ASSERT_STR_EQ("", log_runs(&f, EV_WORK, 's'));
  ASSERT_U64(4, counts_of(f.s).missed);
  ASSERT_U64(1, counts_of(f.s).runs);
  uvs_info_init(&info);
  if (until_ns == 0) {
    ASSERT_RC(0, uvs_info(f.s, id, &info));
    ASSERT_U64(0, info.runs);
    ASSERT_U64(4, info.missed);
    ASSERT_RC(UVS_WAITING, info.state);
    ASSERT_I64(50, fixture_next_ms(&f));
  } else {
    ASSERT_RC(UV_ENOENT, uvs_info(f.s, id, &info));
    ASSERT_RC(0, log_nth(&f, EV_DONE, 's', 0)->status);
    ASSERT_U64(1, log_count(&f, EV_DONE, 's'));
    ASSERT_U64(2, counts_of(f.s).completed);
  }
  fixture_advance_ms(&f, 20);
  ASSERT_STR_EQ(runs, log_runs(&f, EV_WORK, 's'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* The task ran, however late, when there was a runner at last. After a first fix it did not run,
 * but the run was counted. */
TEST a_skip_task_that_waits_a_period_for_a_runner_is_skipped(void) {
  CHECK_CALL(skip_late(false, 0, "50(50+4) 60"));
  CHECK_CALL(skip_late(true, 0, "50(50+4) 60"));
  CHECK_CALL(skip_late(false, UVS_MS(48), "")); /* and the next point is after its end */
  CHECK_CALL(skip_late(true, UVS_MS(48), ""));
  PASS();
}

/* S63 S69. Tasks due by the wall clock ran after all tasks due by the monotonic clock. */
TEST wall_clock_and_relative_tasks_run_in_the_order_in_which_they_became_due(void) {
  for (int pool = 0; pool < 2; pool++) {
    static const struct {
      int tag, due_ms;
      bool wall;
    } tasks[] = {{'f', 15, false}, {'e', 12, true}, {'a', 3, false}, {'g', 18, true},
                 {'b', 5, true},   {'c', 7, false}, {'d', 9, true}};
    struct fixture f;

    fixture_init(&f);
    f.options.concurrency = pool;
    CHECK_CALL(fixture_open_turned(&f));
    for (unsigned i = 0; i < sizeof tasks / sizeof *tasks; i++) {
      uvs_task_t t = fixture_once(&f, tasks[i].tag, UVS_MS(tasks[i].due_ms));
      if (tasks[i].wall) {
        t.from = UVS_FROM_WALL;
        t.first_ns += VCLOCK_WALL_NS;
      }
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    }
    fixture_jump_ms(&f, 20);
    ASSERT_STR_EQ("abcdefg", log_string(&f, EV_WORK));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* ----------------------------------------------------------------- turns --- */

#define CROWD 2000

static void advance_a_budget(struct looked *l, bool on_loop) {
  if (on_loop)
    vclock_advance_ns(l->hands, UVS_MS(1));
}

/* L7. Skipped tasks did not count for the budget, and the clock was not read: one pass went through
 * all of them. */
TEST a_loop_pass_looks_at_a_bounded_number_of_late_skip_tasks(void) {
  enum { MANY = 2000, A_FEW = 256 };
  struct fixture f;
  struct looked l;
  uint64_t seen = 0;
  int turns;

  fixture_init(&f);
  put_in_front(&l, &f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_HOUR(1), UVS_HOUR(1));
  t.missed_policy = UVS_MISSED_SKIP;
  t.done = NULL;
  for (int i = 0; i < MANY; i++)
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  vclock_advance_ns(&f.clock, UVS_MIN(150)); /* two points late, each */
  ASSERT_RC(0, uvs_clock_changed(f.s));
  atomic_store(&l.hook, advance_a_budget); /* each look at the clock uses a budget up */
  for (turns = 0; turns < MANY && seen < 2 * MANY; turns++) {
    uv_run(&f.loop, UV_RUN_NOWAIT);
    uint64_t missed = counts_of(f.s).missed;
    ASSERT(missed - seen <= 2 * A_FEW);
    seen = missed;
  }
  atomic_store(&l.hook, NULL);
  ASSERT_U64(2 * MANY, seen);
  fixture_turn(&f);
  ASSERT_U64(0, log_total(&f));
  ASSERT_I64(INT64_C(3) * 3600 * 1000, fixture_next_ms(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* Submits many tasks for one instant and its neighbours, in random order. */
static int submit_a_crowd(uvs_run_t *run) {
  for (int i = 0; i < CROWD; i++) {
    uvs_task_t t;

    uvs_task_init(&t);
    t.after = work_nothing;
    t.from = UVS_FROM_MONOTONIC;
    t.first_ns = *(int64_t *)run->arg - i;
    if (uvs_submit(run->scheduler, &t, NULL) < 0)
      return UV_ENOMEM;
  }
  return 0;
}

/* L7 S63. Many tasks in random order: the first is found immediately, and all run in order. */
TEST the_first_of_many_unordered_tasks_is_found_at_once(void) {
  int64_t due_ns = (VCLOCK_START_NS + UVS_HOUR(1)) / (1 << 20) * (1 << 20);
  int64_t next_ns;
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_loop_task(&f, 'a', 0);
  t.after = submit_a_crowd;
  t.arg = &due_ns;
  t.done = NULL;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  ASSERT_U64(0, inspect_ordered(f.s));
  ASSERT_RC(0, uvs_next_due(f.s, &next_ns));
  ASSERT_I64(due_ns - CROWD + 1, next_ns);
  fixture_advance_ns(&f, UVS_HOUR(1));
  ASSERT_U64(CROWD + 1, counts_of(f.s).completed);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L7. Many time-outs were postponed, and their old deadline came at once: one pass moved all of
 * them. */
TEST a_loop_pass_moves_a_bounded_number_of_postponed_tasks(void) {
  enum { MANY = 2000, A_FEW = 256 };
  struct fixture f;
  struct looked l;
  static uvs_id_t ids[MANY];
  uint64_t before, moved = 0;
  int turns;

  for (int wall = 0; wall < 2; wall++) {
    fixture_init(&f);
    put_in_front(&l, &f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = fixture_once(&f, 'a', wall ? VCLOCK_WALL_NS + UVS_HOUR(1) : UVS_HOUR(1));
    t.from = wall ? UVS_FROM_WALL : UVS_FROM_NOW;
    uvs_task_t due = fixture_once(&f, 'b', UVS_MIN(90));
    t.done = NULL;
    for (int i = 0; i < MANY; i++)
      ASSERT_RC(0, uvs_submit(f.s, &t, &ids[i]));
    ASSERT_RC(0, uvs_submit(f.s, &due, NULL));
    for (int i = 0; i < MANY; i++)
      ASSERT_RC(0, uvs_reschedule(f.s, ids[i], UVS_HOUR(2)));
    before = counts_of(f.s).heap_ops;
    vclock_advance_ns(&f.clock, UVS_MIN(90));
    ASSERT_RC(0, uvs_clock_changed(f.s));
    atomic_store(&l.hook, advance_a_budget); /* each look at the clock uses a budget up */
    for (turns = 0, moved = 0; turns < MANY && moved < (wall ? 1 : MANY); turns++) {
      uv_run(&f.loop, UV_RUN_NOWAIT);
      ASSERT(counts_of(f.s).heap_ops - before - moved <= A_FEW);
      moved = counts_of(f.s).heap_ops - before;
    }
    atomic_store(&l.hook, NULL);
    fixture_turn(&f);
    /* The wall-clock queue moved the tasks when they were postponed. */
    ASSERT_U64((wall ? 0 : MANY) + 1, counts_of(f.s).heap_ops - before);
    ASSERT_STR_EQ("b", log_string(&f, EV_WORK)); /* what was due behind them */
    ASSERT_I64(INT64_C(2) * 3600 * 1000, fixture_next_ms(&f));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static struct {
  uvs_t *s;
  uvs_task_t t;
  uv_sem_t ask, answer;
  int pushes, most;
  int rc;
  bool leave;
} producer;

static void producer_main(void *arg) {
  (void)arg;
  for (;;) {
    uv_sem_wait(&producer.ask);
    if (producer.leave)
      return;
    producer.rc |= uvs_submit(producer.s, &producer.t, NULL);
    uv_sem_post(&producer.answer);
  }
}

/* Each time the loop reads the clock, another thread has just submitted a task. */
static void push_once(struct looked *l, bool on_loop) {
  if (!on_loop || producer.pushes == producer.most)
    return;
  producer.pushes++;
  vclock_advance_ns(l->hands, UVS_US(10));
  uv_sem_post(&producer.ask);
  uv_sem_wait(&producer.answer);
}

/* L7. As long as a task had come in by the end of a pass, the same pass went on. */
TEST a_busy_producer_does_not_keep_the_loop_in_one_pass(void) {
  enum { MOST = 5000, TURNS = 5 };
  struct fixture f;
  struct looked l;
  uv_thread_t thread;

  fixture_init(&f);
  put_in_front(&l, &f);
  CHECK_CALL(fixture_open_turned(&f));
  memset(&producer, 0, sizeof producer);
  producer.s = f.s;
  producer.t = fixture_once(&f, 'a', UVS_HOUR(1));
  producer.t.done = NULL;
  producer.most = MOST;
  ASSERT_RC(0, uv_sem_init(&producer.ask, 0));
  ASSERT_RC(0, uv_sem_init(&producer.answer, 0));
  ASSERT_RC(0, uv_thread_create(&thread, producer_main, NULL));
  atomic_store(&l.hook, push_once);
  ASSERT_RC(0, uvs_clock_changed(f.s));
  fakepool_pin();
  for (int i = 0; i < TURNS; i++)
    uv_run(&f.loop, UV_RUN_NOWAIT);
  fakepool_unpin();
  atomic_store(&l.hook, NULL);
  producer.leave = true;
  uv_sem_post(&producer.ask);
  uv_thread_join(&thread);
  uv_sem_destroy(&producer.ask);
  uv_sem_destroy(&producer.answer);
  /* 100 reads of the clock use up a budget. */
  ASSERT(producer.pushes > 0);
  ASSERT(producer.pushes <= TURNS * 200);
  ASSERT_RC(0, producer.rc);
  fixture_turn(&f);
  ASSERT_U64((unsigned)producer.pushes, counts_of(f.s).waiting);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* R31. uvs_next_due considered tasks only: a caller that steps the clock by it passed over
 * callbacks that the loop had to make. */
TEST next_due_is_now_while_callbacks_are_pending(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  ASSERT_I64(-1, fixture_next_ms(&f));
  uvs_task_t a = fixture_once(&f, 'a', UVS_HOUR(1)), b = fixture_once(&f, 'b', UVS_HOUR(2));
  ASSERT_RC(0, uvs_submit(f.s, &a, &id));
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  ASSERT_I64(3600 * 1000, fixture_next_ms(&f));
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, 0));
  ASSERT_I64(0, fixture_next_ms(&f));
  fixture_turn(&f);
  ASSERT_STR_EQ("a", log_string(&f, EV_DONE));
  ASSERT_I64(2 * 3600 * 1000, fixture_next_ms(&f));
  /* The same for a task that the loop has not seen yet. */
  ASSERT_RC(0, submit_elsewhere(f.s, fixture_once(&f, 'c', UVS_HOUR(1)), &id));
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, 0));
  ASSERT_I64(0, fixture_next_ms(&f));
  fixture_turn(&f);
  ASSERT_STR_EQ("ac", log_string(&f, EV_DONE));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* R31. The same for a shutdown that the loop had not applied yet. */
TEST next_due_is_now_until_the_loop_has_applied_a_shutdown(void) {
  for (int i = 0; i < 4; i++) {
    struct fixture f;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t r = fixture_rate(&f, 'r', UVS_HOUR(1), UVS_HOUR(1));
    ASSERT_RC(0, uvs_submit(f.s, &r, NULL));
    ASSERT_I64(3600 * 1000, fixture_next_ms(&f));
    ASSERT_RC(0, i == 0   ? uvs_shutdown(f.s)
                 : i == 1 ? elsewhere(do_shutdown, f.s)
                 : i == 2 ? uvs_shutdown_now(f.s, NULL, NULL)
                          : elsewhere(do_shutdown_now, f.s));
    ASSERT_I64(0, fixture_next_ms(&f));
    ASSERT_U64(0, log_count(&f, EV_DONE, 0));
    fixture_turn(&f);
    ASSERT_STR_EQ("r", log_string(&f, EV_DONE));
    ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
    ASSERT_I64(-1, fixture_next_ms(&f));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* --------------------------------------------------------------- the cap --- */

struct hammer {
  uvs_t *s;
  uvs_task_t t[9];
  _Atomic int stop;
  _Atomic uint64_t refused;
  uint64_t wrong;
};

static void hammer_main(void *arg) {
  struct hammer *h = arg;

  while (atomic_load(&h->stop) == 0) {
    h->wrong += uvs_submit_many(h->s, h->t, 9, NULL) != UV_EAGAIN;
    atomic_fetch_add(&h->refused, 1);
  }
}

/* P5 S18. A submission that was refused for the cap took room for a moment: others were refused
 * although they fitted, and the counts were above the cap. */
TEST a_refused_batch_never_takes_the_room_of_a_task_that_fits(void) {
  enum { CAP = 8, ROUNDS = 20000 };
  struct fixture f;
  struct hammer h;
  uv_thread_t thread;
  uvs_id_t ids[CAP];
  uint64_t over = 0, unfair = 0, refused = 0;
  uint64_t end_ns = uv_hrtime() + (uint64_t)PATIENCE_NS;

  fixture_init(&f);
  f.options.max_pending = CAP;
  CHECK_CALL(fixture_open_turned(&f));
  memset(&h, 0, sizeof h);
  h.s = f.s;
  for (int i = 0; i < 9; i++) {
    h.t[i] = fixture_once(&f, 'x', 0);
    h.t[i].done = NULL;
  }
  uvs_task_t t = fixture_once(&f, 'a', UVS_DAY(1));
  t.done = NULL;
  ASSERT_RC(0, uv_thread_create(&thread, hammer_main, &h));
  /* Until both threads have tried for a while. The faster one waits for the other. */
  for (int i = 0; i < ROUNDS && uv_hrtime() < end_ns; i++) {
    int n = i % CAP + 1;

    while (atomic_load(&h.refused) < (uint64_t)i / 2 && uv_hrtime() < end_ns)
      sched_yield();

    for (int k = 0; k < n; k++) {
      ids[k] = 0;
      unfair += uvs_submit(f.s, &t, &ids[k]) != 0;
    }
    uvs_counts_t c = counts_of(f.s);
    over += c.waiting + c.ready + c.running > CAP;
    if (n == CAP && uvs_submit(f.s, &t, NULL) == UV_EAGAIN)
      refused++;
    for (int k = 0; k < n; k++)
      unfair += uvs_cancel(f.s, ids[k], 0) != UVS_CANCELLED;
  }
  atomic_store(&h.stop, 1);
  uv_thread_join(&thread);
  ASSERT_U64(0, unfair);
  ASSERT_U64(0, over);
  ASSERT_U64(0, h.wrong);
  ASSERT_U64(atomic_load(&h.refused) + refused, counts_of(f.s).rejected);
  ASSERT_U64(0, counts_of(f.s).waiting);
  fixture_turn(&f);
  ASSERT_U64(0, log_total(&f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* --------------------------------------------------------------- control --- */

/* The loop sleeps until `x`, in an hour. `a` is in the inbox, due in two hours, so nothing woke the
 * loop. */
static enum greatest_test_res open_with_one_in_the_inbox(struct fixture *f, int variant,
                                                         uvs_id_t *ret_id) {
  fixture_init(f);
  f->pool = FAKEPOOL_REAL;
  f->real_clock = true;
  CHECK_CALL(fixture_open_turned(f));
  uvs_task_t x = fixture_once(f, 'x', UVS_HOUR(1)), a = fixture_once(f, 'a', UVS_HOUR(2));
  if (variant == 1) {
    a.kind = UVS_FIXED_RATE;
    a.period_ns = UVS_HOUR(1);
  }
  if (variant == 2)
    a.name = "cold";
  if (variant == 3) {
    a.work = NULL;
    a.after = probe_loop_body;
  }
  ASSERT_RC(0, uvs_submit(f->s, &x, NULL));
  fakepool_forget();
  ASSERT_RC(0, submit_elsewhere(f->s, a, ret_id));
  ASSERT_U64(0, fakepool_seen().async_sends);
  PASS();
}

/* A reschedule on the loop of a task in the inbox was not noticed before the loop woke up for
 * something else. */
TEST a_reschedule_on_the_loop_acts_at_once_on_a_task_in_the_inbox(void) {
  for (int variant = 0; variant < 4; variant++) {
    struct fixture f;
    uvs_id_t id;

    CHECK_CALL(open_with_one_in_the_inbox(&f, variant, &id));
    ASSERT_RC(0, uvs_reschedule(f.s, id, UVS_MS(1)));
    ASSERT(fixture_wait_log(&f, variant == 3 ? EV_AFTER : EV_WORK, 'a', 1));
    ASSERT_U64(0, log_count(&f, EV_WORK, 'x'));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* The same for a cancel: `done` came only when the loop woke up for something else. */
TEST a_cancel_on_the_loop_acts_at_once_on_a_task_in_the_inbox(void) {
  for (int variant = 0; variant < 4; variant++) {
    struct fixture f;
    uvs_id_t id;

    CHECK_CALL(open_with_one_in_the_inbox(&f, variant, &id));
    ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, 0));
    ASSERT_U64(1, counts_of(f.s).cancelled);
    ASSERT_U64(1, counts_of(f.s).waiting);
    ASSERT_U64(0, log_total(&f)); /* not from inside the call */
    ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 1));
    ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 0)->status);
    ASSERT_U64(1, log_total(&f));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* ---------------------------------------------------------------- `after` --- */

/* S41. The answer of `after` was ignored when `work` had returned UVS_STOP. */
TEST a_failing_after_decides_even_if_work_returned_stop(void) {
  for (int i = 0; i < 4; i++) {
    int fails = i % 2;
    struct fixture f;

    fixture_init(&f);
    f.options.concurrency = i / 2;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
    t.after = probe_after;
    probe_of(&t)->ret = UVS_STOP;
    probe_of(&t)->ret_from = 2;
    probe_of(&t)->after_ret = fails ? UV_EIO : 0;
    probe_of(&t)->after_from = 2;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_advance_ms(&f, 100);
    ASSERT_STR_EQ("10 20", log_runs(&f, EV_WORK, 'a')); /* stopped it is, either way */
    ASSERT_U64(2, log_count(&f, EV_AFTER, 'a'));
    ASSERT_RC(0, log_nth(&f, EV_AFTER, 'a', 1)->status);
    ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
    ASSERT_RC(fails ? UV_EIO : 0, log_nth(&f, EV_DONE, 'a', 0)->status);
    ASSERT_U64(fails ? 1 : 0, counts_of(f.s).failed);
    ASSERT_U64(fails ? 0 : 1, counts_of(f.s).completed);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static int after_finishes(uvs_run_t *run) {
  struct probe *p = run->arg;

  log_add(p->f, EV_USER, p->tag, run->id, uvs_finish(run->scheduler, run->id, UV_EIO));
  return 0;
}

/* L14. With concurrency 0 the body's end was not marked, and a finish in `after` was accepted. */
TEST finish_inside_after_is_refused(void) {
  for (int concurrency = 0; concurrency < 2; concurrency++) {
    struct fixture f;
    uvs_id_t id;

    fixture_init(&f);
    f.options.concurrency = concurrency;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t a = fixture_once(&f, 'a', 0), b = fixture_delay(&f, 'b', 0, UVS_MS(10));
    uvs_task_t c = fixture_once(&f, 'c', 0);
    a.after = b.after = c.after = after_finishes;
    b.max_runs = 2;
    probe_of(&c)->ret = UVS_PENDING;
    ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &c, &id));
    fixture_advance_ms(&f, 20);
    ASSERT_U64(0, log_count(&f, EV_USER, 'c')); /* it is pending */
    ASSERT_RC(0, uvs_finish(f.s, id, 0));
    fixture_turn(&f);
    ASSERT_U64(1, log_count(&f, EV_USER, 'a'));
    ASSERT_U64(2, log_count(&f, EV_USER, 'b'));
    ASSERT_U64(1, log_count(&f, EV_USER, 'c'));
    for (unsigned i = 0; i < 4; i++)
      ASSERT_RC(UV_ENOENT, log_nth(&f, EV_USER, 0, i)->status);
    ASSERT_U64(3, log_count(&f, EV_DONE, 0));
    for (unsigned i = 0; i < 3; i++)
      ASSERT_RC(0, log_nth(&f, EV_DONE, 0, i)->status);
    ASSERT_STR_EQ("0 10", log_runs(&f, EV_WORK, 'b'));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* ---------------------------------------------------------------- queues --- */

/* A thread that opens a queue while the loop reads its clock. The two threads signal each other by
 * relaxed atomics only, so that ThreadSanitizer does not see an ordering that the library has not
 * made. */
static struct {
  uvs_t *s;
  uvs_queue_t *q;
  int rc;
  int left; /* number of clock reads before that one */
  _Atomic int go, done;
} opener;

static void await_relaxed(_Atomic int *flag) {
  while (atomic_load_explicit(flag, memory_order_relaxed) == 0)
    sched_yield();
}

static void open_when_told(void *arg) {
  (void)arg;
  await_relaxed(&opener.go);
  opener.rc = uvs_queue_open(opener.s, NULL, &opener.q);
  atomic_store_explicit(&opener.done, 1, memory_order_relaxed);
}

static void have_one_opened(struct looked *l, bool on_loop) {
  (void)l;
  if (!on_loop || opener.left-- != 0)
    return;
  atomic_store_explicit(&opener.go, 1, memory_order_relaxed);
  await_relaxed(&opener.done);
}

/* D18. A pass read without the lock how queues are served, which opening the first queue writes.
 * Only ThreadSanitizer notices. */
TEST the_first_queue_may_be_opened_at_any_point_of_a_pass(void) {
  bool came = true;

  for (int look = 0; came; look++) {
    struct fixture f;
    struct looked l;
    uv_thread_t thread;
    uvs_entry_t e;

    ASSERT(look < 100);
    fixture_init(&f);
    put_in_front(&l, &f);
    CHECK_CALL(fixture_open_turned(&f));
    opener.s = f.s;
    opener.rc = UV_EAGAIN;
    opener.left = look;
    atomic_store(&opener.go, 0);
    atomic_store(&opener.done, 0);
    ASSERT_RC(0, uv_thread_create(&thread, open_when_told, NULL));
    ASSERT_RC(0, uvs_clock_changed(f.s));
    atomic_store(&l.hook, have_one_opened);
    fixture_turn(&f);
    atomic_store(&l.hook, NULL);
    came = opener.left < 0;
    atomic_store(&opener.go, 1);
    uv_thread_join(&thread);
    ASSERT_RC(0, opener.rc);
    ASSERT_RC(0, uvs_queue_put(opener.q, &f, 0, NULL));
    ASSERT_RC(0, uvs_queue_poll(opener.q, &e));
    ASSERT_EQ(&f, e.value);
    ASSERT_RC(0, uvs_queue_close(opener.q));
    CHECK_CALL(fixture_close(&f));
    ASSERT(look > 0 || came); /* a pass looks at the clock */
  }
  PASS();
}

SUITE(times) {
  RUN_TEST(a_runs_start_time_is_never_before_its_ideal_time);
  RUN_TEST(a_runs_end_is_never_before_its_start_even_if_finished_by_another_thread);
  RUN_TEST(of_many_runs_none_has_a_start_time_before_its_ideal_time);
  RUN_TEST(max_burst_runs_only_points_before_the_end_time);
  RUN_TEST(missed_once_counts_no_points_after_the_end_time);
  RUN_TEST(a_skip_task_that_waits_a_period_for_a_runner_is_skipped);
  RUN_TEST(wall_clock_and_relative_tasks_run_in_the_order_in_which_they_became_due);
}

SUITE(turns) {
  RUN_TEST(a_loop_pass_looks_at_a_bounded_number_of_late_skip_tasks);
  RUN_TEST(a_loop_pass_moves_a_bounded_number_of_postponed_tasks);
  RUN_TEST(the_first_of_many_unordered_tasks_is_found_at_once);
  RUN_TEST(a_busy_producer_does_not_keep_the_loop_in_one_pass);
  RUN_TEST(next_due_is_now_while_callbacks_are_pending);
  RUN_TEST(next_due_is_now_until_the_loop_has_applied_a_shutdown);
}

SUITE(calls) {
  RUN_TEST(a_refused_batch_never_takes_the_room_of_a_task_that_fits);
  RUN_TEST(a_reschedule_on_the_loop_acts_at_once_on_a_task_in_the_inbox);
  RUN_TEST(a_cancel_on_the_loop_acts_at_once_on_a_task_in_the_inbox);
  RUN_TEST(a_failing_after_decides_even_if_work_returned_stop);
  RUN_TEST(finish_inside_after_is_refused);
  RUN_TEST(the_first_queue_may_be_opened_at_any_point_of_a_pass);
}

/* Blocking bodies need enough threads in libuv's pool, whatever the environment says. */
TEST_MAIN(uv_os_setenv("UV_THREADPOOL_SIZE", "4"); RUN_SUITE(times); RUN_SUITE(turns);
          RUN_SUITE(calls));
