/* SPDX-License-Identifier: MIT
 *
 * Statistics by the name of tasks, and the numbers that describe the loop and the runners: the
 * age of the oldest ready task, and how long the loop was held up.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/bodies.h"
#include "lib/fixture.h"
#include "lib/threads.h"

static uvs_task_t named(struct fixture *f, int tag, int64_t delay_ns, const char *name) {
  uvs_task_t t = fixture_once(f, tag, delay_ns);

  t.name = name;
  return t;
}

/* The statistics of this name. If it has none, both counts are 7777, which no test expects. */
static uvs_name_stats_t stats_of(uvs_t *s, const char *name) {
  uvs_name_stats_t n;

  uvs_name_stats_init(&n);
  if (uvs_name_stats(s, name, &n) != 0)
    n.late.count = n.run.count = 7777;
  return n;
}

static int no_such(uvs_t *s, const char *name) {
  uvs_name_stats_t n;

  uvs_name_stats_init(&n);
  return uvs_name_stats(s, name, &n);
}

/* -------------------------------------------------------------------- names --- */

/* S74 */
TEST runs_are_counted_under_the_name_of_their_task(void) {
  struct fixture f;

  fixture_init(&f);
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t a = named(&f, 'a', UVS_MS(10), "report");
  uvs_task_t b = named(&f, 'b', UVS_MS(10), "sweep");
  uvs_task_t c = named(&f, 'c', UVS_MS(10), NULL);
  uvs_task_t r = fixture_rate(&f, 'r', UVS_MS(500), UVS_MS(500));
  probe_of(&a)->takes_ns = UVS_MS(30);
  probe_of(&b)->takes_ns = UVS_MS(5);
  r.name = "report";
  r.max_runs = 2;
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL)); /* waits 30 ms for the runner */
  ASSERT_RC(0, uvs_submit(f.s, &c, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &r, NULL));
  fixture_advance_ms(&f, 2000);

  uvs_name_stats_t report = stats_of(f.s, "report"), sweep = stats_of(f.s, "sweep");
  ASSERT_STR_EQ("report", report.name);
  ASSERT_U64(3, report.late.count);
  ASSERT_U64(3, report.run.count);
  ASSERT_U64(UVS_MS(30), report.run.sum_ns);
  ASSERT_U64(0, report.late.sum_ns);
  ASSERT_U64(1, sweep.late.count);
  ASSERT_U64(UVS_MS(30), sweep.late.sum_ns);
  ASSERT_U64(UVS_MS(30), sweep.late.max_ns);
  ASSERT_U64(UVS_MS(5), sweep.run.sum_ns);
  ASSERT_RC(UV_ENOENT, no_such(f.s, "other"));
  ASSERT_RC(UV_ENOENT, no_such(f.s, ""));
  ASSERT_RC(UV_ENOENT, no_such(f.s, "repor"));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int finish(struct probe *p, uvs_run_t *run) {
  p->id = run->id;
  return UVS_PENDING;
}

/* Pending runs, runs with a limit, loop tasks, and runs on the submitter's thread. S74 */
TEST every_kind_of_run_is_counted_once(void) {
  struct fixture f;
  uvs_task_t t;

  fixture_init(&f);
  f.options.concurrency = 1;
  f.options.max_pending = 1;
  f.options.rejection_policy = UVS_REJECT_CALLER_RUNS;
  CHECK_CALL(fixture_open_turned(&f));

  t = named(&f, 'p', 0, "pending");
  probe_of(&t)->act = finish;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  ASSERT_U64(1, stats_of(f.s, "pending").late.count);
  ASSERT_U64(0, stats_of(f.s, "pending").run.count);
  uvs_task_t here = named(&f, 'h', 0, "here"); /* max_pending is reached */
  probe_of(&here)->takes_ns = UVS_MS(4);
  ASSERT_RC(0, uvs_submit(f.s, &here, NULL));
  ASSERT_U64(1, stats_of(f.s, "here").late.count);
  ASSERT_U64(UVS_MS(4), stats_of(f.s, "here").run.sum_ns);
  fixture_advance_ms(&f, 20);
  ASSERT_RC(0, uvs_finish(f.s, probe_of(&t)->id, 0));
  ASSERT_U64(1, stats_of(f.s, "pending").late.count);
  ASSERT_U64(1, stats_of(f.s, "pending").run.count);
  ASSERT_U64(UVS_MS(24), stats_of(f.s, "pending").run.sum_ns);
  fixture_turn(&f);

  t = named(&f, 'l', 0, "limited");
  t.limit.run_ns = UVS_MS(50);
  probe_of(&t)->takes_ns = UVS_MS(7);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  ASSERT_U64(1, stats_of(f.s, "limited").late.count);
  ASSERT_U64(UVS_MS(7), stats_of(f.s, "limited").run.sum_ns);

  t = named(&f, 't', 0, "never started");
  t.limit.total_ns = UVS_MS(5);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  vclock_advance_ns(&f.clock, UVS_MS(6)); /* if it has passed: not counted */
  fixture_turn(&f);
  ASSERT_U64(stats_of(f.s, "never started").run.count, stats_of(f.s, "never started").late.count);

  t = fixture_loop_task(&f, 'o', 0);
  t.name = "on the loop";
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  ASSERT_U64(1, stats_of(f.s, "on the loop").late.count);
  ASSERT_U64(1, stats_of(f.s, "on the loop").run.count);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

struct visit {
  char names[400];
  unsigned count;
  int stop_at, answer;
  uint64_t late, run;
};

static int visit(uvs_t *s, const uvs_name_stats_t *n, void *arg) {
  struct visit *v = arg;
  uvs_counts_t c = counts_of(s); /* no lock is held */

  (void)c;
  snprintf(v->names + strlen(v->names), sizeof v->names - strlen(v->names), "%s%s",
           v->count > 0 ? "," : "", n->name);
  v->late += n->late.count;
  v->run += n->run.count;
  return (int)++v->count == v->stop_at ? v->answer : 0;
}

/* S75 */
TEST names_beyond_max_names_are_counted_together(void) {
  /* Not valid UTF-8: alone, cut off, overlong, a surrogate, above U+10FFFF, never a first byte. */
  static const char *const broken[] = {
      "\x80",         "\xc3",         "a\xc3(",           "\xe2\x82",         "\xc0\xaf",
      "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf0\x80\x80\x80", "\xff",
      "\xfe\xfe"};
  static const char *const valid[] = {"\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
                                      "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"};
  struct visit v = {.count = 0};
  struct fixture f;

  fixture_init(&f);
  f.options.max_names = 2 + (int)(sizeof valid / sizeof valid[0]);
  CHECK_CALL(fixture_open_turned(&f));
  ASSERT_RC(0, uvs_each_name(f.s, visit, &v));
  ASSERT_U64(0, v.count);
  for (int i = 0; i < 2; i++) {
    uvs_task_t t = named(&f, 'a', 0, "a");

    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
    uvs_task_t t = named(&f, 'x', 0, broken[i]);

    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    ASSERT_RC(UV_ENOENT, no_such(f.s, broken[i]));
  }
  fixture_turn(&f);
  ASSERT_U64(sizeof broken / sizeof broken[0], stats_of(f.s, "other").late.count);
  for (size_t i = 0; i < sizeof valid / sizeof valid[0]; i++) {
    uvs_task_t t = named(&f, 'v', 0, valid[i]);

    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_turn(&f);
    ASSERT_U64(1, stats_of(f.s, valid[i]).run.count);
  }
  uvs_task_t many[] = {named(&f, 'o', 0, "other"), named(&f, 'b', 0, "b"), named(&f, 'c', 0, "c"),
                       named(&f, 'd', 0, "d"), named(&f, 'a', 0, "a")};
  ASSERT_RC(0, uvs_submit_many(f.s, many, 5, NULL));
  fixture_turn(&f);
  ASSERT_U64(1, stats_of(f.s, "b").run.count);
  ASSERT_U64(3, stats_of(f.s, "a").run.count);
  ASSERT_RC(UV_ENOENT, no_such(f.s, "c"));
  ASSERT_U64(sizeof broken / sizeof broken[0] + 3, stats_of(f.s, "other").run.count);

  ASSERT_RC(0, uvs_each_name(f.s, visit, &v));
  ASSERT_STR_EQ("other,a,\xc3\xa4,\xe2\x82\xac,\xf0\x9f\x98\x80,\xed\x9f\xbf,\xf4\x8f\xbf\xbf,b",
                v.names);
  ASSERT_U64(v.late, v.run);
  ASSERT_U64(counts_of(f.s).runs, v.run);
  v = (struct visit){.stop_at = 2, .answer = 42};
  ASSERT_RC(42, uvs_each_name(f.s, visit, &v));
  ASSERT_U64(2, v.count);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S75 */
TEST unnamed_tasks_and_max_names_0_take_no_memory(void) {
  for (int max = 0; max <= 64; max += 64) {
    struct visit v = {.count = 0};
    struct fixture f;
    long before;

    fixture_init(&f);
    f.options.max_names = max;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = fixture_rate(&f, 'r', 0, UVS_MS(1)); /* the first extra record */
    t.max_runs = 2;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_advance_ms(&f, 5);
    before = atomic_load(&f.fault.live);
    t = named(&f, 'n', 0, max == 0 ? "name" : "");
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_turn(&f);
    ASSERT_I64(before, atomic_load(&f.fault.live));
    ASSERT_RC(0, uvs_each_name(f.s, visit, &v));
    ASSERT_U64(0, v.count);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* S75 */
TEST without_memory_for_a_name_its_tasks_are_accepted_and_counted_as_other(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t warm = fixture_rate(&f, 'w', UVS_HOUR(1), UVS_HOUR(1)); /* memory for extra records */
  uvs_task_t a = named(&f, 'a', 0, "a"), b = named(&f, 'b', 0, "b"), c = named(&f, 'c', 0, "c");
  ASSERT_RC(0, uvs_submit(f.s, &warm, NULL));

  fault_from(0); /* no memory for "a" and for "other": not counted by name */
  ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
  ASSERT(fault_hit());
  fault_after(0); /* no memory for "b", but for "other" */
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  ASSERT(fault_hit());
  ASSERT_RC(0, uvs_submit(f.s, &c, NULL));
  fixture_turn(&f);
  ASSERT_RC(UV_ENOENT, no_such(f.s, "a"));
  ASSERT_RC(UV_ENOENT, no_such(f.s, "b"));
  ASSERT_U64(1, stats_of(f.s, "other").run.count);
  ASSERT_U64(1, stats_of(f.s, "c").run.count);
  ASSERT_U64(3, counts_of(f.s).completed);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* A name stays when its task has ended or was replaced. */
TEST a_replaced_task_and_its_successor_are_counted_under_one_name(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  for (int i = 0; i < 3; i++) {
    uvs_task_t t = named(&f, 'a', UVS_MS(10), "one");

    t.flags = UVS_REPLACE;
    ASSERT(uvs_submit(f.s, &t, NULL) >= 0);
    if (i == 1)
      fixture_advance_ms(&f, 10);
  }
  fixture_advance_ms(&f, 10);
  ASSERT_U64(2, stats_of(f.s, "one").run.count);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

#define SUBMITTERS 4
#define EACH 400

static int submit_names(void *arg) {
  uvs_t *s = arg;
  uint64_t seed = test_seed ^ (uint64_t)(uintptr_t)&seed;

  for (int i = 0; i < EACH; i++) {
    uvs_task_t t = {.size = sizeof t, .work = work_nothing};
    struct visit v = {.count = 0};
    uvs_name_stats_t n;
    char name[16];
    int rc;

    snprintf(name, sizeof name, "name %d", (int)test_random_below(&seed, 40));
    t.name = name;
    uvs_name_stats_init(&n);
    rc = uvs_submit(s, &t, NULL);
    if (rc == 0)
      rc = uvs_name_stats(s, name, &n);
    if (rc != 0 && rc != UV_ENOENT)
      return rc;
    if (i % 50 == 0)
      (void)uvs_each_name(s, visit, &v);
  }
  return 0;
}

/* S74 S75 */
TEST names_are_counted_while_several_threads_submit(void) {
  struct errand errands[SUBMITTERS];
  uv_thread_t threads[SUBMITTERS];
  struct visit v = {.count = 0};
  struct fixture f;

  fixture_init(&f);
  f.real_clock = true;
  f.pool = FAKEPOOL_REAL;
  f.options.max_names = 20;
  f.options.keep_alive = UVS_KEEP_ALIVE_ALWAYS; /* all tasks come from other threads */
  CHECK_CALL(fixture_open_turned(&f));
  for (int i = 0; i < SUBMITTERS; i++) {
    errands[i] = (struct errand){submit_names, f.s, 0};
    ASSERT_RC(0, uv_thread_create(&threads[i], errand_main, &errands[i]));
  }
  for (int i = 0; i < SUBMITTERS; i++) {
    uv_thread_join(&threads[i]);
    ASSERT_RC(0, errands[i].rc);
  }
  for (uint64_t end_ns = patience_end_ns(); uv_hrtime() < end_ns;) {
    uv_run(&f.loop, UV_RUN_NOWAIT);
    if (counts_of(f.s).completed == SUBMITTERS * EACH)
      break;
  }
  ASSERT_RC(0, uvs_each_name(f.s, visit, &v));
  ASSERT_U64(21, v.count);
  ASSERT_U64(SUBMITTERS * EACH, v.late);
  ASSERT_U64(SUBMITTERS * EACH, v.run);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

TEST wrong_arguments_of_calls_about_names_are_refused(void) {
  struct fixture f;
  uvs_name_stats_t n;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_name_stats_init(&n);
  ASSERT_RC(UV_EINVAL, uvs_name_stats(f.s, NULL, &n));
  ASSERT_RC(UV_EINVAL, uvs_name_stats(f.s, "a", NULL));
  n.size = 0;
  ASSERT_RC(UV_EINVAL, uvs_name_stats(f.s, "a", &n));
  uvs_name_stats_init(&n);
  ASSERT_RC(UV_EINVAL, uvs_name_stats(NULL, "a", &n));
  ASSERT_RC(UV_EINVAL, uvs_each_name(f.s, NULL, NULL));
  ASSERT_RC(UV_EINVAL, uvs_each_name(NULL, visit, NULL));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int open_with(const char *name, int max_names) {
  uvs_options_t o;
  uv_loop_t loop;
  uvs_t *s;
  int rc;

  uvs_options_init(&o);
  o.name = name;
  o.max_names = max_names;
  if (uv_loop_init(&loop) < 0)
    return 1;
  rc = uvs_open(&loop, &o, &s);
  if (rc == 0) {
    rc = strcmp(uvs_name(s), name == NULL ? "" : name) == 0 ? 0 : 2;
    if (uvs_close(s, NULL) < 0)
      rc = 3;
  }
  uv_run(&loop, UV_RUN_DEFAULT);
  return uv_loop_close(&loop) < 0 ? 4 : rc;
}

TEST the_schedulers_name_and_max_names_are_checked(void) {
  ASSERT_RC(0, open_with(NULL, 0));
  ASSERT_RC(0, open_with("", 256));
  ASSERT_RC(0, open_with("a name of 23 bytes \"\\\n.", 64));
  ASSERT_RC(UV_EINVAL, open_with("a name of 24 bytes \"\\\n..", 64));
  ASSERT_RC(UV_EINVAL, open_with("\xff", 64));
  ASSERT_RC(UV_EINVAL, open_with("a", 257));
  ASSERT_RC(UV_EINVAL, open_with("a", -1));
  ASSERT_STR_EQ("", uvs_name(NULL));
  PASS();
}

/* ------------------------------------------------------------- loop and runners --- */

/* S78 */
TEST the_age_of_the_oldest_ready_task_grows_while_it_waits(void) {
  struct hold hold;
  struct fixture f;
  uvs_task_t late;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open_turned(&f));
  ASSERT_U64(1, counts_of(f.s).concurrency);
  uvs_task_t first = held_task(&f, 'h', &hold);
  first.keep_outcome = 0;
  ASSERT_RC(0, uvs_submit(f.s, &first, NULL));
  ASSERT(fixture_wait_flag(&f, &hold.inside));
  ASSERT_U64(0, counts_of(f.s).oldest_ready_ns);
  for (int i = 0; i < 3; i++) {
    late = fixture_once(&f, 'l', 0);
    late.priority = 1 - i;
    ASSERT_RC(0, uvs_submit(f.s, &late, NULL));
    fixture_turn(&f);
    vclock_advance_ns(&f.clock, UVS_MS(10));
    ASSERT_U64(UVS_MS(10) * (i + 1), counts_of(f.s).oldest_ready_ns);
  }
  ASSERT_RC(0, uvs_set_concurrency(f.s, 2));
  ASSERT_U64(2, counts_of(f.s).concurrency);
  ASSERT_RC(0, uvs_set_concurrency(f.s, 1));
  atomic_store(&hold.open, 1);
  ASSERT(fixture_wait_log(&f, EV_DONE, 'l', 3));
  ASSERT_U64(0, counts_of(f.s).oldest_ready_ns);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* The callbacks of the scheduler itself keep the loop. S79 */
TEST a_pass_that_exceeds_its_budget_by_5_ms_counts_as_held_up(void) {
  struct fixture f;
  uvs_task_t t;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  t = fixture_loop_task(&f, 'a', 0);
  probe_of(&t)->takes_ns = UVS_MS(5); /* with the budget of 1 ms, this is 4 ms too long */
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  ASSERT_U64(0, counts_of(f.s).loop_held_ns);
  for (int i = 0; i < 2; i++) {
    t = fixture_loop_task(&f, 'b', 0);
    probe_of(&t)->takes_ns = UVS_MS(i == 0 ? 31 : 11);
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_turn(&f);
  }
  ASSERT_U64(UVS_MS(40), counts_of(f.s).loop_held_ns);
  ASSERT_U64(UVS_MS(30), counts_of(f.s).loop_held_max_ns);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* A wake-up from another thread that the loop does not see in time. S79 */
TEST a_wake_up_that_waits_5_ms_for_the_loop_counts_as_held_up(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  ASSERT_RC(0, submit_elsewhere(f.s, fixture_once(&f, 'a', 0), NULL));
  vclock_advance_ns(&f.clock, UVS_MS(25));
  fixture_turn(&f);
  ASSERT_U64(UVS_MS(25), counts_of(f.s).loop_held_ns);
  ASSERT_U64(UVS_MS(25), counts_of(f.s).loop_held_max_ns);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static void sleep_30_ms(uv_timer_t *h) {
  uv_sleep(30);
  uv_close((uv_handle_t *)h, NULL);
}

/* Other callbacks keep the loop from the timer. The real clock, so only a lower bound. S79 */
TEST a_timer_that_waits_5_ms_for_the_loop_counts_as_held_up(void) {
  struct fixture f;
  uv_timer_t blocker;

  fixture_init(&f);
  f.real_clock = true;
  f.pool = FAKEPOOL_REAL;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(2));
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT_RC(0, uv_timer_init(&f.loop, &blocker));
  ASSERT_RC(0, uv_timer_start(&blocker, sleep_30_ms, 1, 0));
  ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 1));
  ASSERT(counts_of(f.s).loop_held_ns >= (uint64_t)UVS_MS(20));
  ASSERT(counts_of(f.s).loop_held_max_ns >= (uint64_t)UVS_MS(20));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(names) {
  RUN_TEST(runs_are_counted_under_the_name_of_their_task);
  RUN_TEST(every_kind_of_run_is_counted_once);
  RUN_TEST(names_beyond_max_names_are_counted_together);
  RUN_TEST(unnamed_tasks_and_max_names_0_take_no_memory);
  RUN_TEST(without_memory_for_a_name_its_tasks_are_accepted_and_counted_as_other);
  RUN_TEST(a_replaced_task_and_its_successor_are_counted_under_one_name);
  RUN_TEST(names_are_counted_while_several_threads_submit);
  RUN_TEST(wrong_arguments_of_calls_about_names_are_refused);
  RUN_TEST(the_schedulers_name_and_max_names_are_checked);
}

SUITE(loop_and_runners) {
  RUN_TEST(the_age_of_the_oldest_ready_task_grows_while_it_waits);
  RUN_TEST(a_pass_that_exceeds_its_budget_by_5_ms_counts_as_held_up);
  RUN_TEST(a_wake_up_that_waits_5_ms_for_the_loop_counts_as_held_up);
  RUN_TEST(a_timer_that_waits_5_ms_for_the_loop_counts_as_held_up);
}

TEST_MAIN(RUN_SUITE(names); RUN_SUITE(loop_and_runners));
