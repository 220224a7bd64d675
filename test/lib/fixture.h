/* SPDX-License-Identifier: MIT
 *
 * The fixture: a loop with a scheduler on it, a virtual clock, a pool that runs one item at a time,
 * an allocator that detects leaks, and a log of all callbacks.
 *
 *   TEST late_tick_keeps_the_rate(void) {
 *     struct fixture f;
 *     fixture_init(&f);                            <- now change f.options, f.pool, f.real_clock
 *     f.options.concurrency = 1;
 *     CHECK_CALL(fixture_open_turned(&f));         <- or fixture_open: the loop has not run yet
 *     uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(100), UVS_MS(100));   <- a spec to change ...
 *     t.missed = UVS_MISSED_ONCE;
 *     ASSERT_RC(0, uvs_submit(f.s, &t, NULL));                          <- ... and to submit
 *     fixture_jump_ms(&f, 250);
 *     ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
 *     ASSERT_U64(1, log_nth(&f, EV_WORK, 'a', 0)->missed);
 *     CHECK_CALL(fixture_close(&f));               <- fails on a leak, a live handle, a lost done
 *     PASS();
 *   }
 *
 * TIME. fixture_advance_* moves the clock from deadline to deadline, as on an idle machine, so each
 * task sees its own due time as now. fixture_jump_* moves the clock once and makes the scheduler
 * read it once: everything that came due in between is late. fixture_turn runs the loop until
 * nothing changes any more, while the clock stands still. With f.real_clock the loop must really
 * run: use fixture_wait_log. f.clock (vclock.h) is the clock; vclock_step_wall and then
 * uvs_clock_changed set the wall clock.
 *
 * POOL (fakepool.h). f.pool = FAKEPOOL_STEPPED is the default: a body runs on another thread while
 * the loop waits for it, so every run of the test is the same. FAKEPOOL_INLINE: on the loop thread.
 * FAKEPOOL_SEEDED with f.seed: any legal order. FAKEPOOL_REAL: libuv's own pool, for bodies that
 * block while the test does something; then wait with fixture_wait_log, never for a fixed time.
 *
 * PROBES. fixture_once, fixture_rate and fixture_delay make a spec whose work, after and done are
 * the probe_* functions below. Its arg is a probe with a tag, one character that the log shows.
 * probe_of(&t) returns the probe. Its fields say what the body answers (ret, from run ret_from on),
 * how long it takes on the virtual clock (takes_ns), and what else it does (act). The error hook
 * also writes to the log. A test's own callbacks log with log_add or log_run. Callbacks must not
 * use ASSERT: they log, and the test asserts.
 *
 * Bodies must not block in the fake modes, because the loop waits for them. A failed ASSERT leaves
 * the fixture open. Its loop does not run again, so with a fake pool nothing touches the fixture
 * any more.
 */
#ifndef TEST_FIXTURE_H
#define TEST_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

#include "uvsched/control.h"
#include "uvsched/outcome.h"
#include "uvsched/settings.h"
#include "uvsched/stats.h"

#include "fakepool.h"
#include "fault.h"
#include "greatest.h"
#include "main.h"
#include "patience.h"
#include "vclock.h"

enum event_kind {
  EV_WORK = 1,
  EV_AFTER,
  EV_DONE,
  EV_ERROR,
  EV_NEVER_RAN,
  EV_TERMINATED,
  EV_USER,
  EV_ALL_CAME /* the last call of probe_never_ran */
};

struct event {
  enum event_kind what;
  int tag;
  uvs_id_t id;
  int64_t time_ns; /* uvs_now when it was logged: for a run, at its start */
  int64_t wall_ns; /* virtual clock only */
  uv_thread_t thread;
  bool on_loop; /* on the loop thread */
  bool in_work; /* inside an uv_queue_work callback, ours or libuv's */
  enum fakepool_place place;
  int status;
  /* of a run */
  int runner;
  uint64_t number, missed;
  int64_t ideal_ns, start_ns, end_ns, late_ns;
};

#define LOG_MAX 16384
#define PROBES 256

struct fixture;

struct probe {
  struct fixture *f;
  int tag;
  int ret;           /* what `work` answers (of a loop task: `after`) ... */
  uint64_t ret_from; /* ... from this run on, 0 before it; initially 1 */
  int after_ret;     /* what an `after` that follows a `work` answers, the same way */
  uint64_t after_from;
  int64_t takes_ns; /* how long the body takes on the virtual clock */
  int (*act)(struct probe *p,
             uvs_run_t *run); /* called last in the body; its answer is the body's */
  void *data;                 /* for the test */
  uvs_id_t id;                /* for the test; `act` often needs it */
};

struct fixture {
  /* May be changed between fixture_init and fixture_open. */
  uvs_options_t options; /* clock, allocator, on_error, on_terminated, data, hooks are set */
  uvs_hooks_t hooks;
  enum fakepool_mode pool;
  uint64_t seed;   /* of FAKEPOOL_SEEDED; initially test_seed */
  bool real_clock; /* options.clock is not set */

  uv_loop_t loop;
  uv_thread_t loop_thread;
  uvs_t *s; /* a test that closes it itself sets this to NULL */
  struct vclock clock;
  struct fault fault;
  bool closed;
  bool overrun; /* fixture_turn did not come to an end: fixture_close fails */
  /* The library called a callback from inside its timer's callback, or from inside after_work. Only
   * a full loop pass may call callbacks. fixture_close then fails. */
  bool misplaced;

  uv_mutex_t lock; /* protects everything below */
  unsigned probe_count;
  struct probe probes[PROBES];
  unsigned log_count; /* read it with log_total */
  struct event *log;
};

void fixture_init(struct fixture *f);
enum greatest_test_res fixture_open(struct fixture *f);
/* fixture_open, and the loop has run once. Until a loop has run, the scheduler does not know the
 * loop's thread, and all submissions go through the inbox. After that, submissions of the test
 * thread are made directly. */
enum greatest_test_res fixture_open_turned(struct fixture *f);
enum greatest_test_res fixture_close(struct fixture *f);

void fixture_turn(struct fixture *f);
void fixture_advance_ns(struct fixture *f, int64_t ns);
void fixture_advance_ms(struct fixture *f, int64_t ms);
void fixture_advance_to(struct fixture *f, int64_t monotonic_ns);
void fixture_jump_ns(struct fixture *f, int64_t ns);
void fixture_jump_ms(struct fixture *f, int64_t ms);

/* Runs the loop until the log has n events of this kind and tag (0: any tag). Returns false after
 * PATIENCE_NS. Waits in the loop's poll: nothing is missed, and nothing sleeps for a fixed time. */
bool fixture_wait_log(struct fixture *f, enum event_kind what, int tag, unsigned n);
/* The same, until *flag is not zero. */
bool fixture_wait_flag(struct fixture *f, const _Atomic int *flag);

/* Calls uv_run in this mode, but stops it after PATIENCE_NS: then false. *ret_dones (may be NULL)
 * is the number of EV_DONE in the log when uv_run returned, before the extra loop pass that closes
 * the guard timer. */
bool fixture_run(struct fixture *f, uv_run_mode mode, unsigned *ret_dones);
bool fixture_alive(struct fixture *f); /* uv_loop_alive */

/* For a test that closes the scheduler itself: uvs_close with a callback that logs EV_USER 'c', and
 * the wait for that callback. */
void note_closed(uvs_t *s);
void fixture_turn_until_closed(struct fixture *f);
/* The same if closing depends on another thread. Returns false after PATIENCE_NS. */
bool fixture_wait_closed(struct fixture *f);

/* Callbacks for the test's own handles. */
void stop_loop(uv_timer_t *h);    /* sets the bool that `data` points to, unless NULL */
void count_turn(uv_prepare_t *h); /* data: an unsigned */

/* Milliseconds since the virtual clock started; -1: never. */
int64_t fixture_ms(const struct fixture *f, int64_t monotonic_ns);
int64_t fixture_now_ms(struct fixture *f);
int64_t fixture_next_ms(struct fixture *f); /* uvs_next_due */

/* Specs with a probe: work, done, arg. fixture_loop_task: after and done, no work. */
struct probe *fixture_probe(struct fixture *f, int tag);
uvs_task_t fixture_once(struct fixture *f, int tag, int64_t delay_ns);
uvs_task_t fixture_rate(struct fixture *f, int tag, int64_t initial_ns, int64_t period_ns);
uvs_task_t fixture_delay(struct fixture *f, int tag, int64_t initial_ns, int64_t delay_ns);
uvs_task_t fixture_loop_task(struct fixture *f, int tag, int64_t delay_ns);
struct probe *probe_of(const uvs_task_t *t);

int probe_work(uvs_run_t *run);
int probe_after(uvs_run_t *run);     /* for a task with `work` */
int probe_loop_body(uvs_run_t *run); /* for a task without `work` */
void probe_done(uvs_t *s, uvs_id_t id, int status, void *arg);
void probe_never_ran(uvs_t *s, uvs_id_t id, void *task_arg, void *arg); /* for uvs_shutdown_now */

/* The log. The functions lock it. */
void log_add(struct fixture *f, enum event_kind what, int tag, uvs_id_t id, int status);
void log_run(struct fixture *f, enum event_kind what, int tag, const uvs_run_t *run);
unsigned log_total(struct fixture *f);
unsigned log_count(struct fixture *f, enum event_kind what, int tag); /* tag 0: any */
/* The n-th (from 0) of this kind and tag (0: any); an event of zeros if there is none. */
const struct event *log_nth(struct fixture *f, enum event_kind what, int tag, unsigned n);
/* The tags of all events of this kind (0: any), in order. Valid until the next call. */
const char *log_string(struct fixture *f, enum event_kind what);
/* All runs of a task in one line: "0 450(400+3) 500" = it started at 0, 450 and 500 ms (since the
 * virtual clock started); the second stood for 400 ms, and three points were missed before or in
 * it. "#7": its number was 7 instead of the next; "!20": its lateness was said to be 20 ms, which
 * is not start minus ideal. Valid until the next call. */
const char *log_runs(struct fixture *f, enum event_kind what, int tag);
/* The status that `done` got. INT_MAX if `done` was not called exactly once. */
int done_status(struct fixture *f, int tag);
void log_clear(struct fixture *f);
void log_print(struct fixture *f); /* for debugging */

/* What the scheduler reports about itself. */
uvs_counts_t counts_of(uvs_t *s); /* all bits set if uvs_counts fails */
bool adds_up(const uvs_counts_t *c);
uint64_t live_tasks(uvs_t *s);       /* waiting + ready + running */
int state_of(uvs_t *s, uvs_id_t id); /* or the error code */

uvs_histogram_t histogram_of(uvs_t *s, int which); /* all bits set on failure */

struct look {
  uvs_info_t info;
  int rc;
};

struct look look_at(uvs_t *s, uvs_id_t id);
/* For uvs_each with the fixture as arg: logs EV_USER with the task's tag and its state as status.
 * Tasks with probes only. */
int each_logs_state(uvs_t *s, const uvs_info_t *info, void *arg);

/* The loop's handles: those of the scheduler, those of the fake pool, and others. */
struct found {
  const uvs_t *s;
  unsigned timers, asyncs, others, pool;
  uv_handle_t *timer, *async, *other;
};

struct found find_handles(uv_loop_t *loop, const uvs_t *s);

/* Like greatest's assertions, but each side is evaluated once, because it may be a call with side
 * effects. */
#define ASSERT_SAME(TYPE, FMT, EXP, GOT) \
  do { \
    TYPE same_exp = (TYPE)(EXP), same_got = (TYPE)(GOT); \
    ASSERT_EQ_FMTm(#EXP " != " #GOT, same_exp, same_got, FMT); \
  } while (0)
#define ASSERT_RC(EXP, GOT) ASSERT_SAME(int, "%d", EXP, GOT)
#define ASSERT_I64(EXP, GOT) ASSERT_SAME(long long, "%lld", EXP, GOT)
#define ASSERT_U64(EXP, GOT) ASSERT_SAME(unsigned long long, "%llu", EXP, GOT)

#endif
