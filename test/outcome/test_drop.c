/* SPDX-License-Identifier: MIT
 *
 * Results that nobody receives: each result that a run sets is handed to a wait or dropped, exactly
 * once.
 */
#include <stddef.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "uvsched/lane.h"

#include "lib/bodies.h"
#include "lib/fixture.h"
#include "lib/stage.h"
#include "lib/threads.h"

/* ----------------------------------------------------------------- results --- */

/* A result. It is logged as EV_USER with its letter when it is dropped. */
struct made {
  _Atomic int sets, drops, handed;
};

#define MADE 26
static struct made made[MADE];
static struct fixture *at; /* logs here */

static void results_init(struct fixture *f) {
  memset(made, 0, sizeof made);
  at = f;
}

static struct made *result_of(int letter) {
  return &made[letter - 'A'];
}

static void drop(void *result) {
  struct made *r = result;

  atomic_fetch_add(&r->drops, 1);
  log_add(at, EV_USER, 'A' + (int)(r - made), 0, 0);
}

static int set(uvs_run_t *run, struct made *r) {
  atomic_fetch_add(&r->sets, 1);
  return uvs_set_result(run, r);
}

/* The letters of the dropped results, in order. */
static const char *dropped(void) {
  return log_string(at, EV_USER);
}

/* Every result that was set was handed over or dropped, exactly once. */
static bool all_are_settled(void) {
  for (int i = 0; i < MADE; i++) {
    bool was_set = atomic_load(&made[i].sets) > 0;
    bool was_handed = atomic_load(&made[i].handed) > 0;

    if (atomic_load(&made[i].drops) != (was_set && !was_handed))
      return false;
  }
  return true;
}

/* uvs_wait that only looks. The caller owns the result. */
static int take(uvs_t *s, uvs_id_t id, unsigned flags, uvs_outcome_t *o) {
  int rc;

  uvs_outcome_init(o);
  rc = uvs_wait(s, id, 0, flags, o);
  if (rc == 0 && o->result >= (void *)made && o->result < (void *)(made + MADE))
    atomic_fetch_add(&((struct made *)o->result)->handed, 1);
  return rc;
}

/* Run n sets the n-th letter of p->data, unless that is a dot. The body then returns the probe's
 * `ret`. */
static int set_by_number(struct probe *p, uvs_run_t *run) {
  const char *letters = p->data;
  size_t n = run->number <= strlen(letters) ? run->number - 1 : strlen(letters) - 1;

  if (letters[n] != '.')
    set(run, result_of(letters[n]));
  return run->number >= p->ret_from ? p->ret : 0;
}

static uvs_task_t sets(uvs_task_t t, const char *letters) {
  t.keep_outcome = 1;
  t.drop_result = drop;
  probe_of(&t)->act = set_by_number;
  probe_of(&t)->data = (void *)(uintptr_t)letters;
  return t;
}

static const struct event *drop_of(int letter) {
  return log_nth(at, EV_USER, letter, 0);
}

/* --------------------------------------------------------------- in the body --- */

static int set_many(struct probe *p, uvs_run_t *run) {
  set(run, result_of('A'));
  set(run, result_of('B'));
  log_add(p->f, EV_USER, '1', 0, 0);
  set(run, result_of('B')); /* nothing new */
  log_add(p->f, EV_USER, '2', 0, 0);
  uvs_set_result(run, NULL);
  log_add(p->f, EV_USER, '3', 0, 0);
  set(run, result_of('C')); /* NULL is no result */
  return 0;
}

/* F19 F20 */
TEST a_run_that_replaces_its_own_result_drops_it_in_that_call(void) {
  for (int concurrency = 0; concurrency < 2; concurrency++) {
    struct fixture f;
    uvs_outcome_t o;
    uvs_id_t id;

    fixture_init(&f);
    f.options.concurrency = concurrency;
    CHECK_CALL(fixture_open_turned(&f));
    results_init(&f);
    uvs_task_t t = sets(fixture_once(&f, 'a', 0), "");
    probe_of(&t)->act = set_many;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_turn(&f);
    ASSERT_STR_EQ("A12B3", dropped());
    ASSERT_EQ(log_nth(&f, EV_WORK, 'a', 0)->in_work, drop_of('A')->in_work); /* on its thread */
    ASSERT_RC(0, take(f.s, id, 0, &o));
    ASSERT_EQ(result_of('C'), (struct made *)o.result);
    ASSERT_RC(0, uvs_forget(f.s, id));
    CHECK_CALL(fixture_close(&f));
    ASSERT(all_are_settled());
  }
  PASS();
}

static int after_sets(uvs_run_t *run) {
  struct probe *p = run->arg;

  log_run(p->f, EV_AFTER, p->tag, run);
  set(run, result_of('Z'));
  return p->after_ret;
}

/* F19 F20 */
TEST a_result_of_after_replaces_that_of_work(void) {
  for (int fails = 0; fails < 3; fails++) { /* what fails: nothing, `work`, `after` */
    struct fixture f;
    uvs_outcome_t o;
    uvs_id_t id;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    results_init(&f);
    uvs_task_t t = sets(fixture_once(&f, 'a', 0), "A");
    t.after = after_sets;
    probe_of(&t)->ret = fails == 1 ? UV_EIO : 0;
    probe_of(&t)->after_ret = fails == 2 ? UV_EIO : 0;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_turn(&f);
    ASSERT_STR_EQ(fails ? "AZ" : "A", dropped());
    ASSERT(drop_of('A')->on_loop && !drop_of('A')->in_work);
    ASSERT_RC(0, take(f.s, id, 0, &o));
    ASSERT_EQ(fails ? NULL : result_of('Z'), (struct made *)o.result);
    CHECK_CALL(fixture_close(&f));
    ASSERT(all_are_settled());
  }
  PASS();
}

/* ------------------------------------------------------ the end of a one-shot --- */

static int set_and_pend(struct probe *p, uvs_run_t *run) {
  set(run, result_of('A'));
  (void)p;
  return UVS_PENDING;
}

/* How the run of a pending task ends. */
enum ways {
  SUCCESS,
  FAILURE,
  CANCEL,
  LIMIT,
  LIMIT_VALUE,
  LIMIT_SETTLED, /* a wait gets limit_result while the body runs */
  SHUTDOWN_NOW,
  DISPOSE,
  WAYS
};

static char of_spec[2]; /* the spec's `result` and `limit_result`; never dropped */

static enum greatest_test_res end_pending(struct fixture *f, int way, uvs_id_t id,
                                          uvs_lane_t lane) {
  uvs_outcome_t o;

  if (way == CANCEL)
    ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, uvs_cancel(f->s, id, 0));
  if (way == LIMIT || way == LIMIT_VALUE || way == LIMIT_SETTLED)
    fixture_advance_ms(f, 10);
  if (way == LIMIT_SETTLED) {
    ASSERT_RC(0, take(f->s, id, UVS_WAIT_SETTLED, &o));
    ASSERT_EQ(&of_spec[1], (char *)o.result);
  }
  if (way == SHUTDOWN_NOW)
    ASSERT_RC(0, uvs_shutdown_now(f->s, NULL, NULL));
  if (way == DISPOSE)
    ASSERT_RC(0, uvs_lane_dispose(lane, 0));
  fixture_turn(f);
  ASSERT_STR_EQ("", dropped()); /* the body has not returned */
  ASSERT_RC(0, uvs_finish(f->s, id,
                          way == FAILURE        ? UV_EIO
                          : way == SHUTDOWN_NOW ? UV_ECANCELED
                                                : 0));
  fixture_turn(f);
  PASS();
}

/* F19 F20 F9 F5. Dropping allocates nothing. */
TEST an_unused_result_is_dropped_on_the_loop_before_done(void) {
  for (int way = 0; way < WAYS * 4; way++) {
    int how = way % WAYS;
    bool preset = way / WAYS % 2 != 0, forgotten = way / WAYS / 2 != 0;
    uvs_lane_options_t lane_options;
    uvs_lane_t lane;
    uvs_outcome_t o;
    struct fixture f;
    uvs_id_t id;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    results_init(&f);
    uvs_lane_options_init(&lane_options);
    ASSERT_RC(0, uvs_lane_open(f.s, &lane_options, &lane));
    uvs_task_t t = sets(fixture_once(&f, 'a', 0), "A");
    probe_of(&t)->act = set_and_pend;
    t.result = preset ? &of_spec[0] : NULL;
    if (how == LIMIT || how == LIMIT_VALUE || how == LIMIT_SETTLED)
      t.limit.total_ns = UVS_MS(10);
    if (how == LIMIT_VALUE || how == LIMIT_SETTLED) {
      t.limit.substitute = 1;
      t.limit.result = &of_spec[1];
    }
    if (how == DISPOSE)
      t.lane = lane;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_turn(&f);
    fault_from(0);
    CHECK_CALL(end_pending(&f, how, id, lane));
    if (how == SUCCESS) {
      ASSERT_STR_EQ("", dropped());
    } else {
      ASSERT_STR_EQ("A", dropped());
      ASSERT(drop_of('A')->on_loop && !drop_of('A')->in_work);
      ASSERT(drop_of('A') < log_nth(&f, EV_DONE, 'a', 0));
    }
    if (!forgotten) {
      ASSERT_RC(0, take(f.s, id, 0, &o));
      ASSERT_EQ(how == SUCCESS                               ? (void *)result_of('A')
                : how == LIMIT_VALUE || how == LIMIT_SETTLED ? &of_spec[1]
                                                             : NULL,
                o.result);
    }
    ASSERT_RC(0, uvs_forget(f.s, id));
    ASSERT_FALSE(fault_hit());
    ASSERT_STR_EQ(how == SUCCESS && !forgotten ? "" : "A", dropped());
    CHECK_CALL(fixture_close(&f));
    ASSERT(all_are_settled());
  }
  PASS();
}

/* ---------------------------------------------------------------- periodic --- */

/* F19 F20. A result is dropped when a later run has set another one, and before the run after
 * that. */
TEST the_result_of_a_later_run_replaces_the_earlier_one(void) {
  /* ended by: UVS_STOP, a failure, max_runs, a cancel between runs, in its run, shutdown */
  for (int way = 0; way < 12; way++) {
    int how = way % 6;
    bool success = how == 0 || how == 2;
    struct fixture f;
    uvs_outcome_t o;
    uvs_id_t id;

    fixture_init(&f);
    f.options.concurrency = way / 6;
    CHECK_CALL(fixture_open_turned(&f));
    results_init(&f);
    uvs_task_t t = sets(fixture_rate(&f, 'a', 0, UVS_MS(10)), "AB.C");
    probe_of(&t)->ret_from = 4;
    probe_of(&t)->ret = how == 0 ? UVS_STOP : how == 1 ? UV_EIO : how == 4 ? UVS_PENDING : 0;
    t.max_runs = how == 2 ? 4 : 0;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_advance_ms(&f, 9);
    ASSERT_STR_EQ("", dropped());
    fixture_advance_ms(&f, 1);
    ASSERT_STR_EQ("A", dropped());
    ASSERT(drop_of('A')->on_loop && !drop_of('A')->in_work);
    fixture_advance_ms(&f, 10);
    ASSERT_STR_EQ("A", dropped()); /* the third run gave nothing */
    fixture_advance_ms(&f, 10);
    ASSERT_STR_EQ(how == 1 ? "ACB" : how == 4 ? "A" : "AB", dropped());
    if (how == 3)
      ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, 0));
    if (how == 4) {
      ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, uvs_cancel(f.s, id, 0));
      ASSERT_RC(0, uvs_finish(f.s, id, 0));
    }
    if (how == 5)
      ASSERT_RC(0, uvs_shutdown(f.s));
    fixture_turn(&f);
    ASSERT_STR_EQ(success ? "AB" : how == 1 || how == 4 ? "ACB" : "ABC", dropped());
    ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
    ASSERT(success || drop_of('C') < log_nth(&f, EV_DONE, 'a', 0));
    ASSERT_RC(0, take(f.s, id, 0, &o));
    ASSERT_EQ(success ? result_of('C') : NULL, (struct made *)o.result);
    ASSERT_STR_EQ("0 10 20 30", log_runs(&f, EV_WORK, 'a')); /* dropping does not disturb it */
    CHECK_CALL(fixture_close(&f));
    ASSERT(all_are_settled());
  }
  PASS();
}

/* F19. The same if the next run does not start, and so sets nothing. */
TEST a_run_that_fails_drops_its_own_result_and_the_task_keeps_the_old_one(void) {
  for (int way = 0; way < 2; way++) {
    struct fixture f;
    uvs_outcome_t o;
    uvs_id_t id;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    results_init(&f);
    uvs_task_t t = sets(fixture_rate(&f, 'a', 0, UVS_MS(10)), "ABCD");
    t.failure_policy = UVS_FAIL_CONTINUE;
    t.limit.total_ns = UVS_MS(2);
    t.max_runs = way == 0 ? 3 : 0;
    probe_of(&t)->ret_from = 2;
    probe_of(&t)->ret = UV_EIO;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_advance_ms(&f, 10);
    ASSERT_STR_EQ("B", dropped()); /* A is still the task's */
    fakepool_hold();
    fixture_advance_ms(&f, 12); /* at 20 ms it is ready, and passes its limit */
    fakepool_release();
    fixture_turn(&f);
    ASSERT_STR_EQ("B", dropped());
    fixture_advance_ms(&f, 8);
    ASSERT_STR_EQ(way == 0 ? "BCA" : "BC", dropped());
    if (way == 1)
      ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, 0));
    fixture_turn(&f);
    ASSERT_STR_EQ("BCA", dropped());
    ASSERT_RC(0, take(f.s, id, 0, &o));
    ASSERT_EQ(NULL, o.result);
    CHECK_CALL(fixture_close(&f));
    ASSERT(all_are_settled());
  }
  PASS();
}

/* F19 F5. The last run times out, and limit_result replaces the results of two runs. */
TEST a_substitute_replaces_the_result_of_an_earlier_run(void) {
  struct fixture f;
  uvs_outcome_t o;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  results_init(&f);
  uvs_task_t t = sets(fixture_rate(&f, 'a', 0, UVS_MS(10)), "AB");
  t.max_runs = 2;
  t.limit.total_ns = UVS_MS(2);
  t.limit.substitute = 1;
  t.limit.result = &of_spec[1];
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_advance_ms(&f, 9);
  probe_of(&t)->takes_ns = UVS_MS(3);
  fixture_advance_ms(&f, 20);
  ASSERT_RC(0, take(f.s, id, 0, &o));
  ASSERT_RC(0, o.status);
  ASSERT_EQ(&of_spec[1], (char *)o.result);
  ASSERT_U64(1, log_count(&f, EV_USER, 'A'));
  ASSERT_U64(1, log_count(&f, EV_USER, 'B'));
  CHECK_CALL(fixture_close(&f));
  ASSERT(all_are_settled());
  PASS();
}

/* F20 */
TEST a_pointer_that_is_set_again_while_it_is_held_is_one_result(void) {
  for (int way = 0; way < 3; way++) { /* the last run succeeds, fails; cancelled */
    struct fixture f;
    uvs_id_t id;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    results_init(&f);
    uvs_task_t t = sets(fixture_delay(&f, 'a', 0, UVS_MS(10)), "A");
    t.max_runs = way == 2 ? 0 : 3;
    probe_of(&t)->ret_from = 3;
    probe_of(&t)->ret = way == 1 ? UV_EIO : 0;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_advance_ms(&f, 20);
    if (way == 2)
      ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, 0));
    fixture_turn(&f);
    ASSERT_U64(3, log_count(&f, EV_WORK, 'a'));
    ASSERT_STR_EQ(way == 0 ? "" : "A", dropped());
    ASSERT_RC(0, uvs_forget(f.s, id));
    ASSERT_STR_EQ("A", dropped());
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static int set_of_spec(struct probe *p, uvs_run_t *run) {
  uvs_set_result(run, p->data);
  return p->ret;
}

static int spec_drops;

static void must_not_drop(void *result) {
  (void)result;
  spec_drops++;
}

/* F20 */
TEST a_result_preset_in_the_spec_is_never_dropped(void) {
  void *given[] = {&of_spec[0], &of_spec[1], NULL};

  for (int way = 0; way < 12; way++) {
    struct fixture f;
    uvs_id_t id;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    results_init(&f);
    uvs_task_t t = fixture_once(&f, 'a', 0);
    t.keep_outcome = 1;
    t.result = &of_spec[0];
    t.limit.total_ns = UVS_MS(10);
    t.limit.substitute = 1;
    t.limit.result = &of_spec[1];
    t.drop_result = must_not_drop;
    if (way % 4 < 3) {
      probe_of(&t)->act = set_of_spec;
      probe_of(&t)->data = given[way % 4];
    }
    probe_of(&t)->ret = way / 4 == 1 ? UV_EIO : 0;
    probe_of(&t)->takes_ns = way / 4 == 2 ? UVS_MS(10) : 0;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_turn(&f);
    ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
    if (way % 2)
      ASSERT_RC(0, uvs_forget(f.s, id));
    CHECK_CALL(fixture_close(&f));
    ASSERT_RC(0, spec_drops);
  }
  PASS();
}

/* ---------------------------------------------------------------- forgotten --- */

static void forget_in_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  uvs_forget(s, id);
  probe_done(s, id, status, arg);
}

static int forget_it(void *arg) {
  struct probe *p = arg;

  return uvs_forget(p->f->s, p->id);
}

/* F19 F20 */
TEST a_forgotten_result_is_dropped_unless_a_wait_received_it(void) {
  enum { BEFORE, IN_RUN, IN_DONE, LATER, ELSEWHERE, TIMES };

  for (int way = 0; way < TIMES * 4; way++) {
    int when = way % TIMES;
    bool taken = way / TIMES % 2 != 0 && (when == LATER || when == ELSEWHERE);
    bool has_done = way / TIMES / 2 != 0 || when == IN_DONE;
    struct fixture f;
    uvs_outcome_t o;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    results_init(&f);
    uvs_task_t t = sets(fixture_once(&f, 'a', UVS_MS(1)), "A");
    struct probe *p = probe_of(&t);
    p->act = set_and_pend;
    if (when == IN_DONE)
      t.done = forget_in_done;
    else if (!has_done)
      t.done = NULL;
    ASSERT_RC(0, uvs_submit(f.s, &t, &p->id));
    if (when == BEFORE)
      ASSERT_RC(0, forget_it(p));
    fixture_advance_ms(&f, 1);
    if (when == IN_RUN)
      ASSERT_RC(0, forget_it(p));
    ASSERT_RC(0, uvs_finish(f.s, p->id, 0));
    fixture_turn(&f);
    ASSERT_STR_EQ(when <= IN_DONE ? "A" : "", dropped());
    ASSERT_RC(when <= IN_DONE ? UV_ENOENT : 0, uvs_wait(f.s, p->id, 0, 0, NULL)); /* only a look */
    if (taken)
      ASSERT_RC(0, take(f.s, p->id, 0, &o));
    if (when == LATER)
      ASSERT_RC(0, forget_it(p));
    if (when == ELSEWHERE)
      ASSERT_RC(0, elsewhere(forget_it, p));
    ASSERT_STR_EQ(taken ? "" : "A", dropped()); /* before uvs_forget has returned */
    if (!taken)
      ASSERT_EQ(when != ELSEWHERE, drop_of('A')->on_loop);
    ASSERT_RC(UV_ENOENT, forget_it(p));
    CHECK_CALL(fixture_close(&f));
    ASSERT(all_are_settled());
  }
  PASS();
}

/* F19. A wait in progress still gets a forgotten result. That result is not dropped. */
TEST a_wait_in_progress_gets_a_result_that_is_forgotten_meanwhile(void) {
  static struct fixture f;
  static struct waiter w;
  uv_thread_t thread;
  static struct hold h;
  uvs_id_t id;

  CHECK_CALL(stage_open(&f, &thread, 2, true));
  results_init(&f);
  uvs_task_t t = held_task(&f, 'a', &h);
  t.drop_result = drop;
  h.give = result_of('A');
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(0, waiter_start(&w, f.s, id, UVS_NEVER, 0));
  ASSERT(await_asleep(1));
  ASSERT_RC(0, uvs_forget(f.s, id));
  atomic_store(&h.open, 1);
  waiter_join(&w);
  ASSERT_RC(0, w.rc);
  ASSERT_EQ(result_of('A'), (struct made *)w.o.result);
  CHECK_CALL(stage_close(&f, &thread));
  ASSERT_RC(0, atomic_load(&made[0].drops));
  PASS();
}

/* ------------------------------------------------------------------- closed --- */

/* F19 F20 L12 */
TEST close_drops_unclaimed_results_before_its_callback(void) {
  enum { N = 10 };
  struct fixture f;
  uvs_outcome_t o;
  uvs_id_t id[N];

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  results_init(&f);
  for (int i = 0; i < N; i++) {
    static const char letters[] = "A\0B\0C\0D\0E\0F\0G\0H\0I\0J";
    uvs_task_t t = sets(fixture_once(&f, 'a' + i, i < 8 ? 0 : UVS_DAY(1)), &letters[2 * i]);

    t.done = i % 2 ? probe_done : NULL;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id[i]));
  }
  fixture_turn(&f);
  ASSERT_RC(0, take(f.s, id[2], 0, &o)); /* C is ours */
  ASSERT_RC(0, uvs_forget(f.s, id[3]));  /* D */
  ASSERT_STR_EQ("D", dropped());
  ASSERT_RC(0, uvs_close(f.s, note_closed));
  f.s = NULL;
  fixture_turn_until_closed(&f);
  ASSERT_STR_EQ("DABEFGHc", dropped());
  for (unsigned i = 0; i < 7; i++)
    ASSERT(log_nth(&f, EV_USER, 0, i)->on_loop);
  CHECK_CALL(fixture_close(&f));
  ASSERT(all_are_settled());
  PASS();
}

static struct {
  uvs_t *s;
  int rc;
} counting;

static void drop_and_count(void *result) {
  uvs_counts_t c;

  uvs_counts_init(&c);
  counting.rc = uvs_counts(counting.s, &c);
  drop(result);
}

/* The header: drop_result may call anything. During close, uvs_counts still works. */
TEST a_drop_callback_during_close_may_read_the_counts(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  results_init(&f);
  counting.s = f.s;
  counting.rc = UV_EAGAIN;
  uvs_task_t t = sets(fixture_once(&f, 'a', 0), "A");
  t.drop_result = drop_and_count;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  CHECK_CALL(fixture_close(&f));
  ASSERT_RC(0, counting.rc);
  ASSERT(all_are_settled());
  PASS();
}

/* F20 L8 */
TEST a_forked_child_drops_nothing(void) {
  struct fixture f;
  uvs_id_t id;
  int status;
  pid_t pid;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  results_init(&f);
  uvs_task_t t = sets(fixture_once(&f, 'a', 0), "A");
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_turn(&f);
  fflush(NULL);
  pid = fork();
  if (pid == 0) {
    int rc = uvs_close(f.s, NULL);

    _exit(rc == 0 && atomic_load(&made[0].drops) == 0 ? 7 : 1);
  }
  ASSERT(pid > 0);
  ASSERT_EQ(pid, waitpid(pid, &status, 0));
  ASSERT(WIFEXITED(status));
  ASSERT_RC(7, WEXITSTATUS(status));
  CHECK_CALL(fixture_close(&f));
  ASSERT(all_are_settled());
  PASS();
}

/* --------------------------------------------------------------------- spec --- */

/* L19 F19 */
TEST drop_result_needs_a_kept_outcome_and_is_absent_in_older_specs(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  results_init(&f);
  uvs_task_t t = sets(fixture_once(&f, 'a', 0), "A");
  t.keep_outcome = 0;
  ASSERT_RC(UV_EINVAL, uvs_submit(f.s, &t, NULL));
  ASSERT_RC(UV_EINVAL, uvs_submit_many(f.s, &t, 1, NULL));
  t.keep_outcome = 1;
  t.size = offsetof(uvs_task_t, drop_result);
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_turn(&f);
  ASSERT_RC(0, uvs_forget(f.s, id));
  CHECK_CALL(fixture_close(&f));
  ASSERT_RC(1, atomic_load(&made[0].sets));
  ASSERT_RC(0, atomic_load(&made[0].drops));
  PASS();
}

/* ------------------------------------------------------------------- groups --- */

/* Sets its arg as the result. */
static int work_sets(uvs_run_t *run) {
  return set(run, run->arg);
}

static int work_sets_and_fails(uvs_run_t *run) {
  set(run, run->arg);
  return UV_EIO;
}

/* Sets its arg as the result and succeeds, but only when it is asked to stop. */
static int work_sets_at_last(uvs_run_t *run) {
  set(run, run->arg);
  work_endless(run);
  return 0;
}

/* F19 S46 S50 S51 */
TEST a_group_hands_over_or_drops_each_result(void) {
  enum { ALL, ALL_WITHOUT_ROOM, ALL_IN_VAIN, ANY, ANY_WITHOUT_ROOM, ANY_IN_VAIN, WHATS };

  for (int what = 0; what < WHATS; what++) {
    enum { N = 4 };
    static struct fixture f;
    static uvs_task_t t[N];
    static uvs_outcome_t o[N];
    bool in_vain = what == ALL_IN_VAIN || what == ANY_IN_VAIN;
    int64_t limit_ns = in_vain ? UVS_MS(20) : UVS_NEVER;
    bool room = what != ALL_WITHOUT_ROOM && what != ANY_WITHOUT_ROOM;
    uv_thread_t thread;
    size_t winner = N;
    int rc;

    CHECK_CALL(stage_open(&f, &thread, N, true));
    results_init(&f);
    for (int i = 0; i < N; i++) {
      t[i] = plain(work_sets, &made[i]);
      t[i].drop_result = drop; /* a member is kept without being told so */
      uvs_outcome_init(&o[i]);
    }
    t[0].work = work_sets_and_fails;
    if (what >= ANY || in_vain)
      t[1].work = t[2].work = work_sets_at_last;
    if (what == ANY_IN_VAIN)
      t[3].work = work_sets_at_last;
    if (what < ANY)
      rc = uvs_all(f.s, t, N, limit_ns, room ? o : NULL);
    else
      rc = uvs_any(f.s, t, N, limit_ns, &winner, room ? &o[0] : NULL);
    ASSERT_RC(in_vain ? UV_ETIMEDOUT : 0, rc);
    for (int i = 0; i < N; i++) {
      if (o[i].result != NULL)
        atomic_fetch_add(&((struct made *)o[i].result)->handed, 1);
    }
    if (what >= ANY && !in_vain)
      ASSERT_U64(3, winner);
    CHECK_CALL(stage_close(&f, &thread));
    ASSERT(all_are_settled());
    if (!room)
      ASSERT_RC(0, atomic_load(&made[3].handed));
    else if (what == ALL || what == ANY)
      ASSERT_RC(1, atomic_load(&made[3].handed));
  }
  PASS();
}

/* ---------------------------------------------------------------- many threads --- */

enum { LOAD = 2000 };

struct loaded {
  _Atomic int sets, drops, handed;
  int kind;
  uvs_id_t id;
  struct loaded *other; /* a second result of the same run */
};

static struct loaded load[LOAD], second[LOAD];

static void drop_loaded(void *result) {
  atomic_fetch_add(&((struct loaded *)result)->drops, 1);
}

static int set_loaded(uvs_run_t *run, struct loaded *l) {
  atomic_fetch_add(&l->sets, 1);
  return uvs_set_result(run, l);
}

static int work_loaded(uvs_run_t *run) {
  struct loaded *l = run->arg;

  set_loaded(run, l);
  if (l->kind % 3 == 0)
    set_loaded(run, l->other);
  for (int i = 0; i < 100 && l->kind % 5 == 0 && !uvs_cancelled(run); i++)
    uv_sleep(0);
  return l->kind % 7 == 0 ? UV_EIO : 0;
}

/* Waits for, cancels and forgets tasks that other threads use as well. */
static void meddle(void *arg) {
  uint64_t random = test_seed + (uint64_t)(uintptr_t)arg;
  uvs_outcome_t o;

  for (int i = 0; i < LOAD; i++) {
    struct loaded *l = &load[i];
    uint64_t what = test_random_below(&random, 8);

    uvs_outcome_init(&o);
    if (what == 0)
      uvs_cancel(at->s, l->id, UVS_CANCEL_TOKEN);
    else if (what == 1)
      uvs_forget(at->s, l->id);
    else if (what < 4 && uvs_wait(at->s, l->id, what == 2 ? 0 : PATIENCE_NS, 0, &o) == 0 &&
             o.result != NULL)
      atomic_fetch_add(&((struct loaded *)o.result)->handed, 1);
  }
}

/* F19 L3 */
TEST every_result_is_handed_over_or_dropped_once_among_many_threads(void) {
  enum { THREADS = 3 };
  static struct fixture f;
  uv_thread_t thread, meddler[THREADS];
  uint64_t random = test_seed;
  unsigned drops = 0, handed = 0;

  memset(load, 0, sizeof load);
  memset(second, 0, sizeof second);
  CHECK_CALL(stage_open(&f, &thread, 3, true));
  at = &f;
  for (int i = 0; i < LOAD; i++) {
    uvs_task_t t = plain(work_loaded, &load[i]);

    load[i].kind = (int)test_random_below(&random, 105);
    load[i].other = &second[i];
    t.keep_outcome = 1;
    t.drop_result = drop_loaded;
    t.limit.total_ns = load[i].kind % 11 == 0 ? UVS_US(50) : 0;
    ASSERT_RC(0, uvs_submit(f.s, &t, &load[i].id));
  }
  for (size_t i = 0; i < THREADS; i++)
    ASSERT_RC(0, uv_thread_create(&meddler[i], meddle, (void *)(i + 1)));
  for (size_t i = 0; i < THREADS; i++)
    uv_thread_join(&meddler[i]);
  CHECK_CALL(stage_close(&f, &thread));
  for (int i = 0; i < 2 * LOAD; i++) {
    struct loaded *l = i < LOAD ? &load[i] : &second[i - LOAD];

    drops += (unsigned)atomic_load(&l->drops);
    handed += atomic_load(&l->handed) > 0;
    ASSERT_RC(l->sets > 0 && l->handed == 0, atomic_load(&l->drops));
  }
  ASSERT(drops > 0 && handed > 0);
  PASS();
}

SUITE(dropping) {
  RUN_TEST(a_run_that_replaces_its_own_result_drops_it_in_that_call);
  RUN_TEST(a_result_of_after_replaces_that_of_work);
  RUN_TEST(an_unused_result_is_dropped_on_the_loop_before_done);
  RUN_TEST(the_result_of_a_later_run_replaces_the_earlier_one);
  RUN_TEST(a_run_that_fails_drops_its_own_result_and_the_task_keeps_the_old_one);
  RUN_TEST(a_substitute_replaces_the_result_of_an_earlier_run);
  RUN_TEST(a_pointer_that_is_set_again_while_it_is_held_is_one_result);
  RUN_TEST(a_result_preset_in_the_spec_is_never_dropped);
  RUN_TEST(a_forgotten_result_is_dropped_unless_a_wait_received_it);
  RUN_TEST(close_drops_unclaimed_results_before_its_callback);
  RUN_TEST(a_drop_callback_during_close_may_read_the_counts);
  RUN_TEST(a_forked_child_drops_nothing);
  RUN_TEST(drop_result_needs_a_kept_outcome_and_is_absent_in_older_specs);
}

SUITE(threads) {
  RUN_TEST(a_wait_in_progress_gets_a_result_that_is_forgotten_meanwhile);
  RUN_TEST(a_group_hands_over_or_drops_each_result);
  RUN_TEST(every_result_is_handed_over_or_dropped_once_among_many_threads);
}

/* Blocking bodies need enough threads in libuv's pool, whatever the environment says. */
TEST_MAIN(uv_os_setenv("UV_THREADPOOL_SIZE", "6"); RUN_SUITE(dropping); RUN_SUITE(threads));
