/* SPDX-License-Identifier: MIT
 *
 * Pause, resume, run now, replace, move and cancel on many threads, with libuv's pool and the real
 * clock. Each thread makes a bounded number of calls at random (from a seed) on tasks of all
 * threads. At the end every accepted task had exactly one `done`, and every call a known answer.
 *
 * Takes a second or two; with UVS_STRESS=long ten times as many calls.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "uvsched/calendar.h"
#include "uvsched/control.h"
#include "uvsched/outcome.h"

#include "lib/unit.h"

enum { THREADS = 4, CALLS = 10000, NAMES = 5, JOBS = 50000 };

struct job {
  _Atomic uvs_id_t id;
  _Atomic int accepted, dones;
};

static struct world {
  uv_loop_t loop;
  uvs_t *s;
  uvs_calendar_t *calendar; /* occurs every second */
  struct fault fault;
  struct job jobs[JOBS];
  _Atomic int used, bad_answers, finished, closed;
  int calls;
} world;

static void expect(bool answer_is_known) {
  if (!answer_is_known)
    atomic_fetch_add(&world.bad_answers, 1);
}

static int on_work(uvs_run_t *run) {
  return run->number % 7 == 3 ? UV_EIO : 0;
}

static void on_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct job *j = arg;

  (void)s;
  (void)id;
  (void)status;
  atomic_fetch_add(&j->dones, 1);
}

static void submit_one(uint64_t *random) {
  static const char *const names[NAMES] = {"one", "two", "three", "four", "five"};
  int n = atomic_fetch_add(&world.used, 1);
  uvs_id_t id = 0;
  struct job *j;
  uvs_task_t t;
  int rc;

  if (n >= JOBS)
    return;
  j = &world.jobs[n];
  uvs_task_init(&t);
  t.first_ns = (int64_t)test_random_below(random, 2000) * 1000;
  t.kind = (int)test_random_below(random, 4);
  if (t.kind == UVS_CALENDAR)
    t.calendar = world.calendar;
  else if (t.kind != UVS_ONE_SHOT)
    t.period_ns = UVS_US(300);
  t.max_runs = t.kind == UVS_ONE_SHOT ? 0 : 20;
  if (t.kind == UVS_FIXED_RATE || t.kind == UVS_CALENDAR)
    t.missed_policy = (int)test_random_below(random, 3);
  t.failure_policy = t.kind == UVS_ONE_SHOT ? UVS_FAIL_STOP : UVS_FAIL_CONTINUE;
  t.work = test_random_below(random, 8) == 0 ? NULL : on_work;
  t.after = t.work == NULL || test_random_below(random, 4) == 0 ? on_work : NULL;
  t.done = on_done;
  t.arg = j;
  if (test_random_below(random, 2) == 0) {
    t.name = names[test_random_below(random, NAMES)];
    t.flags = UVS_REPLACE;
  }
  rc = uvs_submit(world.s, &t, &id);
  expect(rc == 0 || (rc == UVS_REPLACED && t.name != NULL));
  atomic_store(&j->accepted, rc >= 0);
  atomic_store(&j->id, id);
}

static uvs_id_t any_id(uint64_t *random) {
  int used = atomic_load(&world.used);
  uint64_t newest = used < JOBS ? (uint64_t)used : JOBS;

  if (newest == 0)
    return 0;
  return atomic_load(
      &world.jobs[newest - 1 - test_random_below(random, newest < 40 ? newest : 40)].id);
}

static void call_one(uint64_t *random) {
  uvs_id_t id = any_id(random);
  int64_t ns[4];
  int rc;

  switch (test_random_below(random, 10)) {
  case 0:
  case 1:
    rc = uvs_pause(world.s, id);
    expect(rc == UVS_PAUSED || rc == UVS_PAUSED_WHILE_RUNNING || rc == UV_EALREADY ||
           rc == UV_ENOENT);
    break;
  case 2:
  case 3:
    rc = uvs_resume(world.s, id, (unsigned)test_random_below(random, 2));
    expect(rc == 0 || rc == UV_EALREADY || rc == UV_ENOENT);
    break;
  case 4:
    rc = uvs_run_now(world.s, id);
    expect(rc == 0 || rc == UV_EBUSY || rc == UV_ENOENT);
    break;
  case 5:
    rc = uvs_next_runs(world.s, id, ns, 4);
    expect((rc >= 0 && rc <= 4) || rc == UV_ENOENT);
    for (int i = 2; i < rc; i++) /* an extra run comes first, even if a late run follows */
      expect(ns[i - 1] <= ns[i]);
    break;
  case 6:
    rc = uvs_cancel(world.s, id, 0);
    expect(rc >= UVS_CANCELLED || rc == UV_ENOENT);
    break;
  case 7:
    rc = uvs_find(world.s, "one", &id);
    expect(rc == 0 || rc == UV_ENOENT);
    break;
  case 8:
    rc = uvs_reschedule(world.s, id, UVS_US(100));
    expect(rc == 0 || rc == UV_EBUSY || rc == UV_ENOENT);
    break;
  default:
    rc = uvs_pause_all(world.s);
    expect(rc == 0 || rc == UV_EALREADY);
    rc = uvs_resume_all(world.s);
    expect(rc == 0 || rc == UV_EALREADY);
  }
}

static void play_thread(void *arg) {
  uint64_t random = test_seed * 31 + (uint64_t)(uintptr_t)arg * 1000003 + 1;

  for (int i = 0; i < world.calls; i++) {
    if (i % 4 == 0)
      submit_one(&random);
    call_one(&random);
    if (i % 64 == 0)
      uv_sleep(1); /* lets bodies run */
  }
  atomic_fetch_add(&world.finished, 1);
}

static void on_closed(uvs_t *s) {
  (void)s;
  atomic_store(&world.closed, 1);
}

static void wake(uv_timer_t *h) {
  (void)h;
}

TEST every_accepted_task_has_one_done_whatever_is_paused_run_or_replaced(void) {
  const char *how = getenv("UVS_STRESS");
  uvs_options_t o;
  uv_thread_t threads[THREADS];
  uv_timer_t timer;
  uvs_counts_t c;
  int used;

  memset(&world, 0, sizeof world);
  world.calls = how != NULL && strcmp(how, "long") == 0 ? 10 * CALLS : CALLS;
  fault_init(&world.fault);
  ASSERT_RC(0, uvs_calendar_parse("* * * * * *", "UTC", NULL, &world.calendar, NULL));
  ASSERT_RC(0, uv_loop_init(&world.loop));
  uvs_options_init(&o);
  o.on_error = uvs_ignore_errors;
  o.allocator = fault_option(&world.fault);
  ASSERT_RC(0, uvs_open(&world.loop, &o, &world.s));
  ASSERT_RC(0, uv_timer_init(&world.loop, &timer));
  ASSERT_RC(0, uv_timer_start(&timer, wake, 1, 1)); /* uv_run must look at `finished` */
  for (int i = 0; i < THREADS; i++)
    ASSERT_RC(0, uv_thread_create(&threads[i], play_thread, (void *)(uintptr_t)(i + 1)));
  while (atomic_load(&world.finished) < THREADS)
    uv_run(&world.loop, UV_RUN_ONCE);
  for (int i = 0; i < THREADS; i++)
    ASSERT_RC(0, uv_thread_join(&threads[i]));
  uv_close((uv_handle_t *)&timer, NULL);
  uvs_counts_init(&c);
  ASSERT_RC(0, uvs_counts(world.s, &c));
  ASSERT(c.runs > 0 && c.cancelled > 0 && c.completed > 0);
  ASSERT_RC(0, uvs_close(world.s, on_closed));
  while (!atomic_load(&world.closed))
    uv_run(&world.loop, UV_RUN_ONCE);
  uv_run(&world.loop, UV_RUN_DEFAULT);
  ASSERT_RC(0, uv_loop_close(&world.loop));
  used = atomic_load(&world.used) < JOBS ? atomic_load(&world.used) : JOBS;
  for (int i = 0; i < used; i++)
    ASSERT_RC(atomic_load(&world.jobs[i].accepted), atomic_load(&world.jobs[i].dones));
  ASSERT_RC(0, atomic_load(&world.bad_answers));
  ASSERT_RC(0, (int)atomic_load(&world.fault.live));
  uvs_calendar_release(world.calendar);
  PASS();
}

SUITE(control_threads) {
  RUN_TEST(every_accepted_task_has_one_done_whatever_is_paused_run_or_replaced);
}

TEST_MAIN(RUN_SUITE(control_threads));
