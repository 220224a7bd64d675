/* SPDX-License-Identifier: MIT
 *
 * The flight recorder, on a virtual clock. Each written trace is checked by check-trace, which
 * knows the rules that hold for every trace; here stands what else this one must have.
 */
#include <stdlib.h>
#include <string.h>

#include "uvsched/lane.h"
#include "uvsched/trace.h"

#include "lib/bodies.h"
#include "lib/fixture.h"
#include "lib/threads.h"
#include "lib/traced.h"

#define RUNS_MAX 4096

static enum greatest_test_res open_traced(struct fixture *f) {
  fixture_init(f);
  f->options.concurrency = 2;
  CHECK_CALL(fixture_open_turned(f));
  ASSERT_RC(0, uvs_trace_open(f->s, NULL));
  PASS();
}

static bool is_written(struct fixture *f, const char *wants) {
  return traced_is(f->s, UVS_NEVER, 0, wants);
}

static uvs_id_t submit(struct fixture *f, uvs_task_t t) {
  uvs_id_t id = 0;

  return uvs_submit(f->s, &t, &id) < 0 ? 0 : id;
}

static uvs_task_t named_once(struct fixture *f, int tag, int64_t delay_ns, const char *name) {
  uvs_task_t t = fixture_once(f, tag, delay_ns);

  t.name = name;
  return t;
}

/* ---- what is in a trace ---- */

/* X1 X2 X3 X5 */
TEST every_submission_run_and_outcome_is_in_the_trace(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(open_traced(&f));
  uvs_task_t rate = fixture_rate(&f, 'r', UVS_MS(10), UVS_MS(10));
  rate.name = "rate";
  rate.max_runs = 5;
  submit(&f, rate);
  uvs_task_t silent = fixture_once(&f, 's', UVS_MS(1));
  silent.done = NULL;
  submit(&f, silent);
  uvs_task_t fails = named_once(&f, 'x', UVS_MS(3), "fails");
  probe_of(&fails)->ret = UV_EIO;
  submit(&f, fails);
  uvs_task_t both = named_once(&f, 'b', UVS_MS(4), "both");
  both.after = probe_after;
  probe_of(&both)->takes_ns = UVS_MS(2);
  submit(&f, both);
  submit(&f, fixture_loop_task(&f, 'l', UVS_MS(5)));
  id = submit(&f, named_once(&f, 'c', UVS_MS(500), "cancelled"));
  submit(&f, named_once(&f, 'w', UVS_MS(900), "waits"));
  fixture_advance_ms(&f, 30);
  ASSERT_RC(0, uvs_cancel(f.s, id, 0));
  fixture_advance_ms(&f, 100);
  ASSERT(is_written(&f, "submit=7 run=9 run:rate=5 run:fails=1 run:both=1 run:task=2 arrow=5 "
                        "end:cancelled=1 end:failed=1 call:'after both'=1 call:'done both'=1 "
                        "call:'done rate'=1 overwritten=0"));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* X1 */
TEST tasks_from_before_the_recorder_are_recorded_from_then_on(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t rate = fixture_rate(&f, 'r', UVS_MS(10), UVS_MS(10));
  submit(&f, rate);
  fixture_advance_ms(&f, 25);
  ASSERT_RC(0, uvs_trace_open(f.s, NULL));
  fixture_advance_ms(&f, 30);
  ASSERT(is_written(&f, "submit=0 run=3 arrow=0"));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* X4 */
TEST a_late_run_has_a_lead_in_named_by_its_culprit(void) {
  struct fixture f;

  CHECK_CALL(open_traced(&f));
  submit(&f, fixture_once(&f, 'a', UVS_MS(10)));
  fixture_jump_ms(&f, 60); /* 50 ms late: no loop pass came earlier */
  uvs_task_t past = fixture_once(&f, 'p', 0);
  past.from = UVS_FROM_MONOTONIC;
  past.first_ns = uvs_now(f.s) - UVS_MS(20);
  submit(&f, past);
  fixture_turn(&f);
  submit(&f, fixture_once(&f, 't', UVS_MS(5)));
  fixture_advance_ms(&f, 5);
  ASSERT(is_written(&f, "run=3 late=2 late:loop=1 late:submit=1 held=1"));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* X4: a deadline before the clock began is no negative time. */
TEST a_deadline_before_the_beginning_of_time_is_not_negative(void) {
  struct fixture f;

  CHECK_CALL(open_traced(&f));
  uvs_task_t t = fixture_once(&f, 'w', 0);
  t.from = UVS_FROM_WALL;
  t.first_ns = 0;
  submit(&f, t);
  fixture_turn(&f);
  ASSERT_U64(1, log_count(&f, EV_WORK, 'w'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* X2: a run whose body is not called, because its limit has passed, is not counted. */
TEST limits_retries_and_pending_runs_add_up(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(open_traced(&f));
  uvs_task_t slow = named_once(&f, 's', 0, "slow");
  slow.limit.run_ns = UVS_MS(5);
  probe_of(&slow)->takes_ns = UVS_MS(20);
  submit(&f, slow);
  uvs_task_t total = named_once(&f, 't', 0, "total");
  total.limit.total_ns = UVS_MS(1);
  submit(&f, total);
  uvs_task_t pending = named_once(&f, 'p', 0, "pending");
  probe_of(&pending)->ret = UVS_PENDING;
  id = submit(&f, pending);
  submit(&f, retried(named_once(&f, 'r', UVS_MS(3), "retried"), UVS_MS(4), "xx."));
  fixture_turn(&f);
  fixture_advance_ms(&f, 50);
  ASSERT(is_written(&f, "run:slow=1 run:pending=1 run:retried=3 running=0 end:completed=1"));
  ASSERT_RC(0, uvs_finish(f.s, id, 0));
  fixture_turn(&f);
  ASSERT(is_written(&f, "run:pending=1 end:completed=2"));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* X2 X5: the new task keeps the id of the old one, and has a first run again. */
TEST a_task_that_is_replaced_adds_up(void) {
  struct fixture f;

  CHECK_CALL(open_traced(&f));
  for (int i = 0; i < 3; i++) {
    uvs_task_t t = fixture_rate(&f, 'a' + i, UVS_MS(10), UVS_MS(10));

    t.name = "same";
    t.done = NULL; /* else the new task gets an id of its own */
    t.flags = UVS_REPLACE;
    submit(&f, t);
    fixture_advance_ms(&f, 25);
  }
  ASSERT(is_written(&f, "submit=3 run:same=6 end:cancelled=2 arrow=1"));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* X2: a plain task that ends by uvs_finish, and one whose body finishes itself. */
TEST plain_tasks_that_finish_later_add_up(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(open_traced(&f));
  uvs_task_t t = fixture_once(&f, 'p', 0);
  t.done = NULL;
  probe_of(&t)->ret = UVS_PENDING;
  id = submit(&f, t);
  fixture_turn(&f);
  ASSERT(is_written(&f, "run=1 running=0 end:completed=0"));
  ASSERT_RC(0, uvs_finish(f.s, id, 0));
  ASSERT(is_written(&f, "run=1 end:completed=1"));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static struct {
  uv_thread_t loop_thread;
  _Atomic int reads;
} slow_start;

/* The second time that the runner reads the clock, its limit has passed. */
static int64_t slow_start_now(void *clock) {
  uv_thread_t self = uv_thread_self();

  if (!uv_thread_equal(&self, &slow_start.loop_thread) &&
      atomic_fetch_add(&slow_start.reads, 1) == 1)
    vclock_advance_ns(clock, UVS_MS(10));
  return vclock_now(clock);
}

/* X2 */
TEST a_run_whose_body_was_not_called_is_not_in_the_trace(void) {
  struct fixture f;

  fixture_init(&f);
  f.options.concurrency = 1;
  f.options.clock.monotonic_ns = slow_start_now;
  slow_start.loop_thread = uv_thread_self();
  CHECK_CALL(fixture_open_turned(&f));
  ASSERT_RC(0, uvs_trace_open(f.s, NULL));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  t.limit.total_ns = UVS_MS(10);
  submit(&f, t);
  vclock_advance_ns(&f.clock, UVS_MS(1)); /* it is late, too */
  ASSERT_RC(0, uvs_clock_changed(f.s));
  fixture_turn(&f);
  ASSERT_STR_EQ("", log_string(&f, EV_WORK));
  ASSERT(atomic_load(&slow_start.reads) >= 2);
  ASSERT(is_written(&f, "run=0 late=0 submit=1 end:'timed out'=1"));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* X2 */
TEST dropped_tasks_and_runs_on_the_submitters_thread_add_up(void) {
  static const int policies[] = {UVS_REJECT_DISCARD, UVS_REJECT_DISCARD_OLDEST,
                                 UVS_REJECT_CALLER_RUNS};

  for (int i = 0; i < 3; i++) {
    struct fixture f;

    fixture_init(&f);
    f.options.max_pending = 2;
    f.options.rejection_policy = policies[i];
    CHECK_CALL(fixture_open_turned(&f));
    ASSERT_RC(0, uvs_trace_open(f.s, NULL));
    for (int n = 0; n < 5; n++)
      submit(&f, fixture_once(&f, 'a' + n,
                              policies[i] == UVS_REJECT_CALLER_RUNS && n > 1 ? 0 : UVS_MS(5)));
    fixture_advance_ms(&f, 10);
    ASSERT(is_written(&f, policies[i] == UVS_REJECT_CALLER_RUNS ? "submit=5 run=5 end:dropped=0"
                                                                : "submit=5 run=2 end:dropped=3"));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* X7 */
TEST lanes_have_rows_of_their_own_if_asked(void) {
  struct fixture f;
  uvs_lane_t one, two;

  CHECK_CALL(open_traced(&f));
  ASSERT_RC(0, uvs_lane_open(f.s, NULL, &one));
  ASSERT_RC(0, uvs_lane_open(f.s, NULL, &two));
  for (int i = 0; i < 6; i++) {
    uvs_task_t t = fixture_once(&f, 'a' + i, UVS_MS(i));

    t.lane = i % 2 == 0 ? one : i == 5 ? 0 : two;
    probe_of(&t)->takes_ns = UVS_MS(2);
    submit(&f, t);
  }
  fixture_advance_ms(&f, 50);
  ASSERT(is_written(&f, "run=6 lane=0 lanes=0"));
  ASSERT(traced_is(f.s, UVS_NEVER, UVS_TRACE_LANES, "run=6 lane=5 lanes=2"));
  ASSERT_RC(0, uvs_lane_dispose(one, 0));
  ASSERT_RC(0, uvs_lane_dispose(two, 0));
  fixture_turn(&f);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* X7 */
TEST a_lane_with_several_runs_at_once_has_several_rows(void) {
  uvs_lane_options_t o;
  uvs_lane_t lane;
  struct fixture f;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.options.concurrency = 2;
  CHECK_CALL(fixture_open_turned(&f));
  ASSERT_RC(0, uvs_trace_open(f.s, NULL));
  uvs_lane_options_init(&o);
  o.width = 2;
  ASSERT_RC(0, uvs_lane_open(f.s, &o, &lane));
  gate_init(false);
  for (int i = 0; i < 2; i++) {
    uvs_task_t t = fixture_once(&f, 'a' + i, 0);

    t.lane = lane;
    probe_of(&t)->act = gate_pass;
    submit(&f, t);
  }
  ASSERT(gate_wait(&f, 2));
  vclock_advance_ns(&f.clock, UVS_MS(5));
  gate_let(2);
  ASSERT(fixture_wait_log(&f, EV_DONE, 0, 2));
  ASSERT(traced_is(f.s, UVS_NEVER, UVS_TRACE_LANES, "run=2 lane=2 lanes=2 tracks=2"));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ---- names ---- */

/* X6 */
TEST any_name_gives_valid_json(void) {
  static const char *const names[] = {
      "\"",
      "\\",
      "</script><script>",
      "a\nb\tc\r",
      "\x01\x1f\x7f",
      "\xff\xfe",
      "\xc0\xaf\xe0\x80\xaf",
      "\xed\xa0\x80",
      "\xf4\x90\x80\x80",
      "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
      "12345678901234567890\xe2\x82",
      "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80",
      "\\u0000",
      "%s%n%d",
  };
  const unsigned n = sizeof names / sizeof names[0];
  struct fixture f;

  CHECK_CALL(open_traced(&f));
  for (unsigned i = 0; i < n; i++)
    submit(&f, named_once(&f, 'a' + (int)i, UVS_MS(1), names[i]));
  fixture_advance_ms(&f, 1);
  ASSERT(is_written(&f, "run=14 run:'\"'=1 run:'\\'=1 run:'</script><script>'=1 run:'%s%n%d'=1 "
                        "run:'caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80'=1 run:'\\u0000'=1"));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* X6: names at random, with bytes that are likely to be trouble. */
TEST random_names_give_valid_json(void) {
  static const char bytes[] =
      "\"\\/<>&'\x01\n\x7f\x80\xbf\xc2\xc3\xe0\xe2\xed\xa0\xf0\x90\xf4\x8f\xff"
      "az";
  uint64_t random = test_seed;
  struct fixture f;

  CHECK_CALL(open_traced(&f));
  for (int i = 0; i < 200; i++) {
    char name[UVS_NAME_MAX + 1];
    size_t n = 1 + test_random_below(&random, UVS_NAME_MAX);
    uvs_task_t t;

    for (size_t k = 0; k < n; k++)
      name[k] = bytes[test_random_below(&random, sizeof bytes - 1)];
    name[n] = '\0';
    uvs_task_init(&t);
    t.work = work_nothing;
    t.name = name;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  fixture_turn(&f);
  ASSERT(is_written(&f, "run=200"));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ---- room ---- */

/* X8 */
TEST the_oldest_records_are_overwritten_and_counted(void) {
  uvs_trace_options_t o;
  struct fixture f;
  size_t count;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_trace_options_init(&o);
  o.bytes = 64 << 10;
  ASSERT_RC(0, uvs_trace_open(f.s, &o));
  for (int i = 0; i < 3000; i++) {
    uvs_task_t t;

    uvs_task_init(&t);
    t.work = work_nothing;
    t.name = "n";
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_advance_ms(&f, 1);
  }
  ASSERT(is_written(&f, "overwritten=1000+ run:n=100+"));
  uvs_trace_run_t *runs = malloc(RUNS_MAX * sizeof *runs);
  uvs_trace_run_init(runs);
  ASSERT_RC(0, uvs_trace_runs(f.s, UVS_NEVER, runs, RUNS_MAX, &count, NULL));
  ASSERT(count >= 100 && count < 3000);
  ASSERT_I64(uvs_now(f.s) - UVS_MS(1), runs[count - 1].start_ns); /* the newest is there */
  ASSERT_STR_EQ("n", runs[count - 1].name);
  free(runs);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* X9 */
TEST recording_allocates_nothing(void) {
  struct fixture f;
  long before;

  CHECK_CALL(open_traced(&f));
  uvs_task_t t = fixture_rate(&f, 'r', UVS_MS(1), UVS_MS(1));
  t.name = "rate";
  submit(&f, t);
  fixture_advance_ms(&f, 10);
  before = atomic_load(&f.fault.total);
  fixture_advance_ms(&f, 500);
  ASSERT_I64(before, atomic_load(&f.fault.total));
  ASSERT(is_written(&f, "run=510"));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int count_bytes(const char *data, size_t size, void *arg) {
  (void)data;
  *(size_t *)arg += size;
  return 0;
}

/* X10 X17 */
TEST a_million_events_are_written_in_bounded_memory(void) {
  enum { EVENTS = 1000000, RECORDER = 48 << 20 };
  uvs_trace_run_t runs[8];
  uvs_trace_options_t o;
  struct fixture f;
  size_t bytes = 0, count;
  long before;

  fixture_init(&f);
  f.options.concurrency = 0;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_trace_options_init(&o);
  o.bytes = RECORDER * 3; /* the loop has one of three rings */
  ASSERT_RC(0, uvs_trace_open(f.s, &o));
  for (int i = 0; i < EVENTS / 3; i += 1000) { /* each task is submitted, starts and ends */
    uvs_task_t t[1000];

    for (int k = 0; k < 1000; k++) {
      uvs_task_init(&t[k]);
      t[k].work = work_nothing;
    }
    ASSERT_RC(0, uvs_submit_many(f.s, t, 1000, NULL));
    fixture_turn(&f);
  }
  before = atomic_load(&f.fault.live_bytes);
  atomic_store(&f.fault.peak_bytes, before);
  ASSERT_RC(0, uvs_trace_write(f.s, UVS_NEVER, 0, count_bytes, &bytes));
  ASSERT(bytes > EVENTS * 50u);
  ASSERT(atomic_load(&f.fault.peak_bytes) - before < 3L * RECORDER);
  ASSERT_I64(before, atomic_load(&f.fault.live_bytes));
  atomic_store(&f.fault.peak_bytes, before);
  uvs_trace_run_init(runs);
  ASSERT_RC(0, uvs_trace_runs(f.s, UVS_NEVER, runs, 8, &count, NULL));
  ASSERT(atomic_load(&f.fault.peak_bytes) - before < 8L << 20);
  ASSERT_U64(8, count);
  ASSERT_I64(uvs_now(f.s), runs[7].end_ns); /* the newest is there */
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ---- windows, and the timeline ---- */

/* X11 */
TEST only_the_time_that_was_asked_for_is_written(void) {
  struct fixture f;
  size_t count;
  uvs_trace_run_t runs[64];

  CHECK_CALL(open_traced(&f));
  uvs_task_t t = fixture_rate(&f, 'r', UVS_MS(10), UVS_MS(10));
  submit(&f, t);
  fixture_advance_ms(&f, 1005);
  ASSERT(traced_is(f.s, UVS_MS(100), 0, "window=1 run=10 submit=0 arrow=0"));
  ASSERT(traced_is(f.s, 0, 0, "window=1 run=0"));
  ASSERT(is_written(&f, "run=100"));
  uvs_trace_run_init(runs);
  ASSERT_RC(0, uvs_trace_runs(f.s, UVS_MS(100), runs, 64, &count, NULL));
  ASSERT_U64(10, count);
  ASSERT_RC(0, uvs_trace_runs(f.s, UVS_NEVER, runs, 64, &count, NULL));
  ASSERT_U64(64, count); /* the newest 64 */
  for (unsigned i = 0; i < 64; i++) {
    ASSERT_I64(VCLOCK_START_NS + UVS_MS(370 + 10 * (int)i), runs[i].start_ns);
    ASSERT_U64(sizeof *runs, runs[i].size);
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* X11 */
TEST late_runs_and_held_times_are_left_out_last(void) {
  enum { LATE = 5 };
  struct fixture f;
  size_t count, left_out;
  uvs_trace_run_t runs[64];

  CHECK_CALL(open_traced(&f));
  for (int i = 1; i <= LATE; i++) { /* as many tasks, and the time that made them late */
    submit(&f, fixture_once(&f, 'a', UVS_MS(1)));
    fixture_jump_ms(&f, (unsigned)(10 * i));
  }
  submit(&f, fixture_rate(&f, 'r', UVS_MS(10), UVS_MS(10)));
  fixture_advance_ms(&f, 1005);
  uvs_trace_run_init(runs);
  ASSERT_RC(0, uvs_trace_runs(f.s, UVS_NEVER, runs, 20, &count, &left_out));
  ASSERT_U64(20, count);
  ASSERT_U64(100 - 10, left_out);
  for (size_t i = 0; i < 20; i++) {
    ASSERT(i == 0 || runs[i].start_ns >= runs[i - 1].start_ns);
    ASSERT_RC(i < 10 && i % 2 == 0 ? UVS_TRACE_HELD : UVS_TRACE_RUN, runs[i].what);
    if (runs[i].what == UVS_TRACE_RUN)
      ASSERT_I64(i < 10 ? UVS_MS(10 * (int)(i / 2 + 1) - 1) : 0, runs[i].late_ns);
  }
  ASSERT_I64(runs[9].start_ns + UVS_MS(910), runs[10].start_ns); /* the newest others */
  ASSERT_RC(0, uvs_trace_runs(f.s, UVS_NEVER, runs, LATE + 2, &count, &left_out));
  ASSERT_U64(LATE + 2, count);
  for (size_t i = 0; i < LATE + 2; i++) /* the two latest of the runs */
    ASSERT_RC(i == 4 || i == 6 ? UVS_TRACE_RUN : UVS_TRACE_HELD, runs[i].what);
  ASSERT_U64(100 + LATE - 2, left_out);
  ASSERT_RC(0, uvs_trace_runs(f.s, UVS_NEVER, runs, 0, &count, &left_out));
  ASSERT_U64(0, count);
  ASSERT_U64(100 + 2 * LATE, left_out);
  ASSERT_RC(0, uvs_trace_runs(f.s, UVS_MS(15), runs, 64, &count, &left_out));
  ASSERT_U64(0, left_out);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* X11 */
TEST the_timeline_has_runs_and_times_when_the_loop_was_held_up(void) {
  struct fixture f;
  uvs_trace_run_t runs[8];
  size_t count;

  CHECK_CALL(open_traced(&f));
  uvs_task_t t = named_once(&f, 'a', UVS_MS(10), "alpha");
  probe_of(&t)->takes_ns = UVS_MS(7);
  uvs_id_t id = submit(&f, t);
  submit(&f, fixture_loop_task(&f, 'l', UVS_MS(10)));
  fixture_jump_ms(&f, 60);
  uvs_trace_run_init(runs);
  ASSERT_RC(0, uvs_trace_runs(f.s, UVS_SEC(60), runs, 8, &count, NULL));
  ASSERT_U64(3, count);
  ASSERT_RC(UVS_TRACE_HELD, runs[0].what);
  ASSERT_I64(UVS_MS(50), runs[0].end_ns - runs[0].start_ns);
  ASSERT_RC(UVS_ON_LOOP, runs[0].runner);
  ASSERT_U64(0, runs[0].id);
  for (int i = 1; i < 3; i++) {
    bool alpha = strcmp(runs[i].name, "alpha") == 0;

    ASSERT_RC(UVS_TRACE_RUN, runs[i].what);
    ASSERT_RC(UVS_LATE_LOOP, runs[i].culprit);
    ASSERT(runs[i].late_ns >= UVS_MS(50));
    ASSERT_RC(0, runs[i].running);
    ASSERT(alpha ? runs[i].id == id && runs[i].runner >= 0 : runs[i].runner == UVS_ON_LOOP);
    ASSERT_I64(alpha ? UVS_MS(7) : 0, runs[i].end_ns - runs[i].start_ns);
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ---- while something is stuck ---- */

static bool stuck_is_written;

static int write_stuck(void *arg) {
  struct fixture *f = arg;

  stuck_is_written = is_written(f, "run:stuck=1 running=1 run=2 submit=2 held=0");
  return 0;
}

static int act_stuck(struct probe *p, uvs_run_t *run) {
  (void)run;
  vclock_advance_ns(&p->f->clock, UVS_SEC(3));
  return elsewhere(write_stuck, p->f);
}

/* X12 */
TEST another_thread_writes_while_the_loop_is_stuck_in_a_body(void) {
  struct fixture f;

  CHECK_CALL(open_traced(&f));
  submit(&f, fixture_once(&f, 'a', UVS_MS(1)));
  uvs_task_t t = fixture_loop_task(&f, 'l', UVS_MS(5));
  t.name = "stuck";
  probe_of(&t)->act = act_stuck;
  submit(&f, t);
  stuck_is_written = false;
  fixture_advance_ms(&f, 10);
  ASSERT(stuck_is_written);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int write_held(void *arg) {
  struct fixture *f = arg;

  return is_written(f, "held=1 run=0") ? 0 : UV_EIO;
}

/* X12: a callback of the program's own holds up the loop, so no pass has noticed it yet. */
TEST a_loop_that_is_held_up_now_is_in_the_trace(void) {
  struct fixture f;

  CHECK_CALL(open_traced(&f));
  submit(&f, fixture_once(&f, 'a', UVS_MS(10)));
  fixture_turn(&f);
  vclock_advance_ns(&f.clock, UVS_MS(500));
  ASSERT_RC(0, elsewhere(write_held, &f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ---- the trigger ---- */

static struct {
  int calls, reason;
  int64_t ns;
  uvs_id_t id;
  bool written;
} triggered;

static void on_trigger(uvs_t *s, int reason, int64_t ns, uvs_id_t id, void *arg) {
  const char *wants = arg;

  triggered.calls++;
  triggered.reason = reason;
  triggered.ns = ns;
  triggered.id = id;
  triggered.written = traced_is(s, UVS_SEC(10), 0, wants);
}

static enum greatest_test_res open_triggered(struct fixture *f, int64_t late_ns, int64_t held_ns,
                                             char *wants) {
  uvs_trace_options_t o;

  memset(&triggered, 0, sizeof triggered);
  fixture_init(f);
  CHECK_CALL(fixture_open_turned(f));
  uvs_trace_options_init(&o);
  o.on_trigger = on_trigger;
  o.late_ns = late_ns;
  o.held_ns = held_ns;
  o.arg = wants;
  ASSERT_RC(0, uvs_trace_open(f->s, &o));
  PASS();
}

/* X13 */
TEST a_run_that_is_late_enough_triggers(void) {
  char wants[] = "window=1 late=2+";
  struct fixture f;

  CHECK_CALL(open_triggered(&f, UVS_MS(100), 0, wants));
  uvs_id_t id = submit(&f, fixture_once(&f, 'a', UVS_MS(10)));
  uvs_id_t other = submit(&f, fixture_once(&f, 'b', UVS_MS(20)));
  fixture_jump_ms(&f, 109); /* 99 ms late */
  ASSERT_RC(0, triggered.calls);
  id = submit(&f, fixture_once(&f, 'c', UVS_MS(10)));
  fixture_jump_ms(&f, 110);
  ASSERT_RC(1, triggered.calls);
  ASSERT_RC(UVS_TRACE_LATE, triggered.reason);
  ASSERT_I64(UVS_MS(100), triggered.ns);
  ASSERT_U64(id, triggered.id);
  ASSERT(other != id && triggered.written);
  submit(&f, fixture_once(&f, 'd', UVS_MS(10)));
  fixture_jump_ms(&f, 9899); /* quiet for 10 s */
  ASSERT_RC(1, triggered.calls);
  submit(&f, fixture_once(&f, 'e', UVS_MS(10)));
  fixture_jump_ms(&f, 110);
  ASSERT_RC(2, triggered.calls);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* X13 */
TEST a_loop_that_was_held_up_triggers(void) {
  char wants[] = "window=1 held=1+";
  struct fixture f;

  CHECK_CALL(open_triggered(&f, 0, UVS_MS(50), wants));
  submit(&f, fixture_once(&f, 'a', UVS_MS(10)));
  fixture_jump_ms(&f, 59);
  ASSERT_RC(0, triggered.calls);
  submit(&f, fixture_once(&f, 'b', UVS_MS(10)));
  fixture_jump_ms(&f, 60);
  ASSERT_RC(1, triggered.calls);
  ASSERT_RC(UVS_TRACE_HELD, triggered.reason);
  ASSERT_I64(UVS_MS(50), triggered.ns);
  ASSERT_U64(0, triggered.id);
  ASSERT(triggered.written);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* X13 */
TEST a_body_that_holds_up_the_loop_triggers(void) {
  char wants[] = "window=1 run:slow=1";
  struct fixture f;

  CHECK_CALL(open_triggered(&f, 0, UVS_MS(50), wants));
  uvs_task_t t = fixture_loop_task(&f, 'l', UVS_MS(5));
  t.name = "slow";
  probe_of(&t)->takes_ns = UVS_MS(50);
  submit(&f, t);
  fixture_advance_ms(&f, 5);
  fixture_turn(&f);
  ASSERT_RC(1, triggered.calls);
  ASSERT_RC(UVS_TRACE_HELD, triggered.reason);
  ASSERT_I64(UVS_MS(50), triggered.ns);
  ASSERT(triggered.written);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ---- answers ---- */

/* X14 */
TEST a_wrong_call_is_refused_and_changes_nothing(void) {
  char wants[] = "";
  uvs_trace_options_t o;
  uvs_trace_run_t run;
  struct fixture f;
  size_t count = 7;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_trace_run_init(&run);
  ASSERT_RC(UV_ENOENT, uvs_trace_close(f.s));
  ASSERT_RC(UV_ENOENT, uvs_trace_write(f.s, UVS_NEVER, 0, count_bytes, &count));
  ASSERT_RC(UV_ENOENT, uvs_trace_runs(f.s, UVS_NEVER, &run, 1, &count, NULL));
  for (int i = 0; i < 8; i++) {
    uvs_trace_options_init(&o);
    if (i == 0)
      o.size = 1;
    if (i == 1)
      o.bytes = (64 << 10) - 1;
    if (i == 2)
      o.bytes = ((size_t)1 << 30) + 1;
    if (i == 3)
      o.late_ns = 1; /* without a callback */
    if (i >= 4)
      o.on_trigger = on_trigger; /* 4: without a limit */
    if (i == 5)
      o.late_ns = -1;
    if (i == 6)
      o.held_ns = -1;
    if (i == 7) {
      o.held_ns = 1;
      o.quiet_ns = -1;
    }
    o.arg = wants;
    ASSERT_RC(UV_EINVAL, uvs_trace_open(f.s, &o));
  }
  ASSERT_RC(UV_EINVAL, uvs_trace_open(NULL, NULL));
  ASSERT_RC(0, uvs_trace_open(f.s, NULL));
  ASSERT_RC(UV_EALREADY, uvs_trace_open(f.s, NULL));
  ASSERT_RC(UV_EINVAL, uvs_trace_write(f.s, UVS_NEVER, 0, NULL, NULL));
  ASSERT_RC(UV_EINVAL, uvs_trace_write(f.s, -1, 0, count_bytes, &count));
  ASSERT_RC(UV_EINVAL, uvs_trace_write(f.s, 0, 2, count_bytes, &count));
  ASSERT_RC(UV_EINVAL, uvs_trace_runs(f.s, UVS_NEVER, NULL, 1, &count, NULL));
  ASSERT_RC(UV_EINVAL, uvs_trace_runs(f.s, UVS_NEVER, &run, 1, NULL, NULL));
  ASSERT_RC(UV_EINVAL, uvs_trace_runs(f.s, -1, &run, 1, &count, NULL));
  run.size = 8;
  ASSERT_RC(UV_EINVAL, uvs_trace_runs(f.s, UVS_NEVER, &run, 1, &count, NULL));
  ASSERT_U64(7, count);
  ASSERT_RC(0, uvs_trace_close(f.s));
  ASSERT_RC(UV_ENOENT, uvs_trace_close(f.s));
  ASSERT_RC(0, uvs_trace_open(f.s, NULL)); /* fixture_close: uvs_close frees it */
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int refuse_third(const char *data, size_t size, void *arg) {
  (void)data, (void)size;
  return ++*(int *)arg == 3 ? UV_EPIPE : 0;
}

/* X14 */
TEST an_answer_of_the_callback_ends_the_writing(void) {
  struct fixture f;
  int calls = 0;

  CHECK_CALL(open_traced(&f));
  submit(&f, fixture_rate(&f, 'r', 0, UVS_MS(1)));
  fixture_advance_ms(&f, 300);
  ASSERT_RC(UV_EPIPE, uvs_trace_write(f.s, UVS_NEVER, 0, refuse_third, &calls));
  ASSERT_RC(3, calls);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int close_inside(const char *data, size_t size, void *arg) {
  (void)data, (void)size;
  uvs_trace_close(arg);
  return 0;
}

/* X14: the callback may call anything. */
TEST the_recorder_may_be_closed_while_it_is_written(void) {
  struct fixture f;

  CHECK_CALL(open_traced(&f));
  submit(&f, fixture_rate(&f, 'r', 0, UVS_MS(1)));
  fixture_advance_ms(&f, 300);
  ASSERT_RC(0, uvs_trace_write(f.s, UVS_NEVER, 0, close_inside, f.s));
  ASSERT_RC(UV_ENOENT, uvs_trace_close(f.s));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* X15 */
TEST a_failed_allocation_is_answered_and_changes_nothing(void) {
  struct fixture f;
  size_t bytes = 0;
  uvs_trace_run_t runs[4];
  size_t count;
  long failures = 0;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  fault_after(0);
  ASSERT_RC(UV_ENOMEM, uvs_trace_open(f.s, NULL));
  ASSERT(fault_hit());
  ASSERT_RC(0, uvs_trace_open(f.s, NULL));
  submit(&f, fixture_rate(&f, 'r', 0, UVS_MS(1)));
  fixture_advance_ms(&f, 20);
  uvs_trace_run_init(runs);
  for (int call = 0; call < 2; call++) {
    for (long n = 0;; n++) {
      long before = atomic_load(&f.fault.live);
      bool failed;
      int rc;

      fault_after(n);
      rc = call == 0 ? uvs_trace_write(f.s, UVS_NEVER, 0, count_bytes, &bytes)
                     : uvs_trace_runs(f.s, UVS_NEVER, runs, 4, &count, NULL);
      failed = fault_hit();
      ASSERT_RC(failed ? UV_ENOMEM : 0, rc);
      ASSERT_I64(before, atomic_load(&f.fault.live));
      failures += failed;
      if (!failed)
        break;
    }
  }
  ASSERT(failures >= 8);
  ASSERT(is_written(&f, "run=21"));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(contents) {
  RUN_TEST(every_submission_run_and_outcome_is_in_the_trace);
  RUN_TEST(tasks_from_before_the_recorder_are_recorded_from_then_on);
  RUN_TEST(a_late_run_has_a_lead_in_named_by_its_culprit);
  RUN_TEST(a_deadline_before_the_beginning_of_time_is_not_negative);
  RUN_TEST(limits_retries_and_pending_runs_add_up);
  RUN_TEST(a_task_that_is_replaced_adds_up);
  RUN_TEST(plain_tasks_that_finish_later_add_up);
  RUN_TEST(a_run_whose_body_was_not_called_is_not_in_the_trace);
  RUN_TEST(dropped_tasks_and_runs_on_the_submitters_thread_add_up);
  RUN_TEST(lanes_have_rows_of_their_own_if_asked);
  RUN_TEST(a_lane_with_several_runs_at_once_has_several_rows);
  RUN_TEST(any_name_gives_valid_json);
  RUN_TEST(random_names_give_valid_json);
}

SUITE(room) {
  RUN_TEST(the_oldest_records_are_overwritten_and_counted);
  RUN_TEST(recording_allocates_nothing);
  RUN_TEST(a_million_events_are_written_in_bounded_memory);
  RUN_TEST(only_the_time_that_was_asked_for_is_written);
  RUN_TEST(late_runs_and_held_times_are_left_out_last);
  RUN_TEST(the_timeline_has_runs_and_times_when_the_loop_was_held_up);
}

SUITE(trouble) {
  RUN_TEST(another_thread_writes_while_the_loop_is_stuck_in_a_body);
  RUN_TEST(a_loop_that_is_held_up_now_is_in_the_trace);
  RUN_TEST(a_run_that_is_late_enough_triggers);
  RUN_TEST(a_loop_that_was_held_up_triggers);
  RUN_TEST(a_body_that_holds_up_the_loop_triggers);
  RUN_TEST(a_wrong_call_is_refused_and_changes_nothing);
  RUN_TEST(an_answer_of_the_callback_ends_the_writing);
  RUN_TEST(the_recorder_may_be_closed_while_it_is_written);
  RUN_TEST(a_failed_allocation_is_answered_and_changes_nothing);
}

TEST_MAIN(RUN_SUITE(contents); RUN_SUITE(room); RUN_SUITE(trouble));
