/* SPDX-License-Identifier: MIT
 *
 * Kept outcomes: what remains of a task after its end, and threads that wait for it. uvs_all and
 * uvs_any are in test_group.c. Where a wait must sleep, the loop runs on a thread of its own
 * (lib/stage.h) and the test thread waits, or the other way round.
 */
#include <stdlib.h>

#include "lib/bodies.h"
#include "lib/fixture.h"
#include "lib/stage.h"

/* ----------------------------------------------------------------- helpers --- */

/* Sets p->data as the result. */
static int give_act(struct probe *p, uvs_run_t *run) {
  int rc = uvs_set_result(run, p->data);

  return rc < 0 ? rc : run->number >= p->ret_from ? p->ret : 0;
}

static char value[8]; /* results are addresses in here */

/* ----------------------------------------------------------- state machine --- */

/* `done` reads its own outcome. */
static void looking_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct probe *p = arg;
  uvs_outcome_t o;
  int rc = peek_at(s, id, &o);

  log_add(p->f, EV_USER, p->tag, id, rc < 0 ? rc : o.state * 10000 + o.status);
  log_add(p->f, EV_DONE, p->tag, id, status);
}

static int give_in_after(uvs_run_t *run) {
  struct probe *p = run->arg;

  log_run(p->f, EV_AFTER, p->tag, run);
  return run->status < 0 ? 0 : uvs_set_result(run, &value[7]);
}

/* F1 F17 S9 S3 */
TEST an_outcome_becomes_final_once_and_does_not_change(void) {
  enum { N = 8 };
  static const int status[N] = {0, 0, 0, UV_EIO, 0, UV_EINVAL, 0, 0};
  void *const result[N] = {NULL, &value[1], &value[2], NULL, &value[4], NULL, &value[7], &value[2]};

  for (int concurrency = 0; concurrency <= 2; concurrency++) {
    static struct fixture f;
    uvs_id_t id[N];
    uvs_outcome_t o;

    fixture_init(&f);
    f.options.concurrency = concurrency;
    CHECK_CALL(fixture_open_turned(&f));
    for (int i = 0; i < N; i++) {
      uvs_task_t t = i == 4 ? fixture_loop_task(&f, 'a' + i, UVS_MS(10))
                            : fixture_once(&f, 'a' + i, UVS_MS(10));
      t.keep_outcome = 1;
      t.done = looking_done;
      probe_of(&t)->ret = status[i];
      if (i == 5)
        probe_of(&t)->ret = 77; /* no status */
      if (i == 7)
        probe_of(&t)->ret = UVS_STOP;
      if (i == 2 || i == 3 || i == 6 || i == 7)
        t.result = &value[2]; /* a preset; a failure gives none */
      if (i == 1 || i == 4) {
        probe_of(&t)->act = give_act;
        probe_of(&t)->data = &value[i];
      }
      if (i == 1)
        t.result = &value[0]; /* the body's counts */
      if (i == 6)
        t.after = give_in_after;
      ASSERT_RC(0, uvs_submit(f.s, &t, &id[i]));
      ASSERT_RC(UV_ETIMEDOUT, peek_at(f.s, id[i], &o));
      ASSERT_RC(UV_ETIMEDOUT, uvs_wait(f.s, id[i], 0, UVS_WAIT_SETTLED, &o));
    }
    fixture_advance_ms(&f, 9);
    for (int i = 0; i < N; i++)
      ASSERT_RC(UV_ETIMEDOUT, peek_at(f.s, id[i], &o));
    fixture_advance_ms(&f, 1);
    for (int again = 0; again < 3; again++) {
      for (int i = 0; i < N; i++) {
        ASSERT_RC(0, peek_at(f.s, id[i], &o));
        ASSERT_RC(UVS_ENDED, o.state);
        ASSERT_RC(status[i], o.status);
        ASSERT_EQ(result[i], o.result);
        ASSERT_I64(10, fixture_ms(&f, o.ideal_ns));
        ASSERT_I64(10, fixture_ms(&f, o.start_ns));
        ASSERT_I64(10, fixture_ms(&f, o.end_ns));
        ASSERT_U64(1, o.runs);
        ASSERT_U64(sizeof o, o.size);
        ASSERT_RC(0, uvs_wait(f.s, id[i], UVS_NEVER, 0, NULL)); /* need not wait: also here */
        ASSERT_RC(UV_ENOENT, uvs_cancel(f.s, id[i], 0));
        ASSERT_U64(1, log_count(&f, EV_USER, 'a' + i));
        ASSERT_U64(1, log_count(&f, EV_DONE, 'a' + i));
        ASSERT_RC(UVS_ENDED * 10000 + status[i], log_nth(&f, EV_USER, 'a' + i, 0)->status);
        ASSERT_RC(status[i], log_nth(&f, EV_DONE, 'a' + i, 0)->status);
      }
      fixture_advance_ms(&f, 100);
    }
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static int give_number(struct probe *p, uvs_run_t *run) {
  uvs_outcome_t o;

  log_add(p->f, EV_USER, p->tag, run->id, peek_at(run->scheduler, run->id, &o));
  if (run->number < 3)
    uvs_set_result(run, &value[run->number]);
  return run->number >= p->ret_from ? p->ret : 0;
}

/* F3 */
TEST a_periodic_task_is_not_done_before_its_last_run(void) {
  /* ended by: UVS_STOP, a failure, max_runs, until, a cancel between runs, shutdown */
  static const int status[] = {0, UV_EIO, 0, 0, UV_ECANCELED, UV_ECANCELED};

  for (int kind = UVS_FIXED_RATE; kind <= UVS_FIXED_DELAY; kind++) {
    for (int way = 0; way < 6; way++) {
      static struct fixture f;
      uvs_outcome_t o;
      uvs_id_t id;

      fixture_init(&f);
      CHECK_CALL(fixture_open_turned(&f));
      uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_MS(10));
      t.kind = kind;
      t.keep_outcome = 1;
      t.done = looking_done;
      t.max_runs = way == 2 ? 3 : 0;
      t.until_ns = way == 3 ? UVS_MS(25) : 0;
      probe_of(&t)->act = give_number;
      probe_of(&t)->ret = way == 0 ? UVS_STOP : way == 1 ? UV_EIO : 0;
      probe_of(&t)->ret_from = 3;
      ASSERT_RC(0, uvs_submit(f.s, &t, &id));
      for (unsigned i = 1; i <= 2; i++) {
        fixture_advance_ms(&f, i == 1 ? 0 : 10);
        ASSERT_U64(i, log_count(&f, EV_WORK, 'a'));
        ASSERT_RC(UV_ETIMEDOUT, peek_at(f.s, id, &o));
        ASSERT_EQ(NULL, o.result);
        ASSERT_U64(0, log_count(&f, EV_DONE, 0));
      }
      fixture_advance_ms(&f, 10);
      if (way == 4) {
        ASSERT_RC(UV_ETIMEDOUT, peek_at(f.s, id, &o));
        ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, 0));
        ASSERT_RC(0, peek_at(f.s, id, &o)); /* at once */
      }
      if (way == 5)
        ASSERT_RC(0, uvs_shutdown(f.s));
      fixture_advance_ms(&f, 10);
      ASSERT_RC(0, peek_at(f.s, id, &o));
      ASSERT_RC(UVS_ENDED, o.state);
      ASSERT_RC(status[way], o.status);
      /* The third run set no result, so that of the second run remains. */
      ASSERT_EQ(status[way] == 0 ? &value[2] : NULL, (char *)o.result);
      ASSERT_U64(3, o.runs);
      ASSERT_I64(20, fixture_ms(&f, o.ideal_ns));
      ASSERT_I64(20, fixture_ms(&f, o.start_ns));
      ASSERT_I64(20, fixture_ms(&f, o.end_ns));
      for (unsigned i = 0; i < 3; i++) /* from inside each run: not yet; after: `done` */
        ASSERT_RC(UV_ETIMEDOUT, log_nth(&f, EV_USER, 'a', i)->status);
      ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
      ASSERT_RC(UVS_ENDED * 10000 + status[way], log_nth(&f, EV_USER, 'a', 3)->status);
      CHECK_CALL(fixture_close(&f));
    }
  }
  PASS();
}

/* F7 F8 S9 */
TEST cancel_succeeds_before_the_run_and_fails_after_it(void) {
  for (unsigned flags = 0; flags <= UVS_CANCEL_TOKEN; flags++) {
    for (int inbox = 0; inbox < 2; inbox++) { /* the loop does not know the task yet */
      static struct fixture f;
      uvs_outcome_t o;
      uvs_id_t id, ran;

      fixture_init(&f);
      if (inbox)
        CHECK_CALL(fixture_open(&f));
      else
        CHECK_CALL(fixture_open_turned(&f));
      uvs_task_t t = fixture_once(&f, 'a', UVS_MS(10));
      t.keep_outcome = 1;
      t.result = &value[1];
      t.done = looking_done;
      ASSERT_RC(0, uvs_submit(f.s, &t, &id));
      ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, flags));
      ASSERT_RC(0, peek_at(f.s, id, &o));
      ASSERT_RC(UVS_ENDED, o.state);
      ASSERT_RC(UV_ECANCELED, o.status);
      ASSERT_EQ(NULL, o.result);
      ASSERT_U64(0, o.runs);
      fixture_advance_ms(&f, 20);
      ASSERT_U64(0, log_count(&f, EV_WORK, 0));
      ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 0)->status);
      ASSERT_RC(0, peek_at(f.s, id, &o));
      ASSERT_RC(UV_ECANCELED, o.status);
      ASSERT_I64(0, o.ideal_ns);
      ASSERT_I64(0, o.start_ns);
      ASSERT_I64(0, o.end_ns);
      ASSERT_RC(UV_ENOENT, uvs_cancel(f.s, id, flags));
      ASSERT_RC(0, uvs_forget(f.s, id));

      uvs_task_t u = fixture_once(&f, 'b', 0);
      u.keep_outcome = 1;
      u.result = &value[2];
      ASSERT_RC(0, uvs_submit(f.s, &u, &ran));
      fixture_turn(&f);
      ASSERT_RC(UV_ENOENT, uvs_cancel(f.s, ran, flags));
      ASSERT_RC(0, peek_at(f.s, ran, &o));
      ASSERT_RC(0, o.status);
      ASSERT_EQ(&value[2], (char *)o.result);
      ASSERT_RC(0, uvs_forget(f.s, ran));
      fixture_turn(&f);

      /* The slot has a new task, which must not show anything of the old one. */
      ASSERT_RC(0, uvs_submit(f.s, &t, &id));
      ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, flags));
      ASSERT_RC(0, peek_at(f.s, id, &o));
      ASSERT_I64(0, o.start_ns + o.end_ns + o.ideal_ns + (int64_t)o.runs);
      CHECK_CALL(fixture_close(&f));
    }
  }
  PASS();
}

/* F9 F10 F12 F12b F13 */
TEST cancel_during_the_run_settles_at_once_and_is_quiet_when_the_body_returns(void) {
  for (int way = 0; way < 4; way++) { /* with token or without; the body succeeds or fails */
    unsigned flags = way % 2 == 0 ? UVS_CANCEL_TOKEN : 0;
    static struct fixture f;
    static struct waiter settled, quiet, late;
    static struct hold h, next;
    uv_thread_t thread;
    uvs_outcome_t o;
    uvs_id_t id, next_id;

    CHECK_CALL(stage_open(&f, &thread, 1, false));
    uvs_task_t t = held_task(&f, 'a', &h);
    uvs_task_t n = held_task(&f, 'n', &next);
    h.give = &value[1];
    h.ret = way < 2 ? 0 : UV_EIO;
    atomic_store(&next.open, 1);
    next.give = &value[3];
    t.result = &value[2];
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    ASSERT_RC(0, uvs_submit(f.s, &n, &next_id));
    ASSERT(await_flag(&h.inside));
    ASSERT_RC(0, waiter_start(&settled, f.s, id, UVS_NEVER, UVS_WAIT_SETTLED));
    ASSERT_RC(0, waiter_start(&quiet, f.s, id, UVS_NEVER, 0));
    ASSERT(await_asleep(2));
    ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, uvs_cancel(f.s, id, flags));
    waiter_join(&settled);
    ASSERT_RC(0, settled.rc);
    ASSERT_RC(UV_ECANCELED, settled.o.status);
    ASSERT_RC(UVS_RUNNING, settled.o.state);
    ASSERT_EQ(NULL, settled.o.result);
    ASSERT_U64(1, settled.o.runs);
    ASSERT_I64(0, settled.o.start_ns + settled.o.ideal_ns + settled.o.end_ns);
    ASSERT_RC(0, atomic_load(&h.left));
    ASSERT(await_asleep(1)); /* the other one sleeps on */
    ASSERT_RC(UV_ETIMEDOUT, peek_at(f.s, id, &o));
    ASSERT_RC(0, waiter_start(&late, f.s, id, UVS_NEVER, UVS_WAIT_SETTLED));
    waiter_join(&late);
    ASSERT_RC(UV_ECANCELED, late.o.status);
    ASSERT_U64(0, log_count(&f, EV_DONE, 'a'));
    atomic_store(&h.open, 1);
    waiter_join(&quiet);
    ASSERT_RC(1, atomic_load(&h.left));
    ASSERT_RC(0, quiet.rc);
    ASSERT_RC(UV_ECANCELED, quiet.o.status);
    ASSERT_RC(UVS_ENDED, quiet.o.state);
    ASSERT_EQ(NULL, quiet.o.result); /* what the body gave is discarded */
    ASSERT_RC(flags != 0, atomic_load(&h.saw_token));
    uvs_outcome_init(&o);
    ASSERT_RC(0, uvs_wait(f.s, next_id, UVS_NEVER, 0, &o));
    ASSERT_RC(0, o.status);
    ASSERT_EQ(&value[3], (char *)o.result);
    ASSERT_RC(0, atomic_load(&next.saw_token)); /* the thread came back clean */
    stage_join(&f, &thread);
    ASSERT_STR_EQ("an", log_string(&f, EV_DONE));
    ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 0)->status);
    ASSERT_U64(0, log_count(&f, EV_ERROR, 0));
    ASSERT_RC(0, peek_at(f.s, id, &o));
    ASSERT_RC(UV_ECANCELED, o.status);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static int pend_act(struct probe *p, uvs_run_t *run) {
  uvs_set_result(run, p->data);
  return UVS_PENDING;
}

/* F13 P12 S9 */
TEST run_finish_and_cancel_release_all_waiters(void) {
  enum { WAITERS = 6 };
  static const int status[] = {0, 0, UV_EIO, UV_ECANCELED, UV_ECANCELED, UV_ECANCELED};

  /* by: the run, uvs_finish with success and failure, cancel of a waiting, ready and running one */
  for (int way = 0; way < 6; way++) {
    static struct waiter w[WAITERS];
    static struct hold h, busy;
    static struct fixture f;
    uv_thread_t thread;
    uvs_id_t id, busy_id;
    uvs_outcome_t o;

    CHECK_CALL(stage_open(&f, &thread, 1, false));
    uvs_task_t t = held_task(&f, 'a', &h);
    h.give = &value[1];
    if (way == 1 || way == 2) {
      probe_of(&t)->act = pend_act;
      probe_of(&t)->data = &value[1];
    }
    if (way == 3)
      t.first_ns = UVS_DAY(1);
    uvs_task_t b = held_task(&f, 'b', &busy);
    if (way == 4) {
      ASSERT_RC(0, uvs_submit(f.s, &b, &busy_id));
      ASSERT(await_flag(&busy.inside));
    }
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    for (int i = 0; i < WAITERS; i++)
      ASSERT_RC(0, waiter_start(&w[i], f.s, id, i == 0 ? PATIENCE_NS : UVS_NEVER,
                                i % 2 == 0 ? UVS_WAIT_SETTLED : 0));
    ASSERT(await_asleep(WAITERS - 1));
    if (way == 0)
      atomic_store(&h.open, 1);
    if (way == 1 || way == 2) {
      int rc = UV_ENOENT; /* until the body has started */
      for (int i = 0; i < 20000 && rc == UV_ENOENT; i++) {
        rc = uvs_finish(f.s, id, status[way]);
        if (rc == UV_ENOENT)
          uv_sleep(1);
      }
      ASSERT_RC(0, rc);
    }
    if (way >= 3) {
      if (way == 5)
        ASSERT(await_flag(&h.inside));
      ASSERT_RC(way == 5 ? UVS_CANCELLED_WHILE_RUNNING : UVS_CANCELLED, uvs_cancel(f.s, id, 0));
      atomic_store(&h.open, 1);
    }
    if (way == 4) { /* P12: the running one as well */
      ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, uvs_cancel(f.s, busy_id, 0));
      atomic_store(&busy.open, 1);
      uvs_outcome_init(&o);
      ASSERT_RC(0, uvs_wait(f.s, busy_id, UVS_NEVER, 0, &o));
      ASSERT_RC(UV_ECANCELED, o.status);
    }
    for (int i = 0; i < WAITERS; i++) {
      waiter_join(&w[i]);
      ASSERT_RC(0, w[i].rc);
      ASSERT_RC(status[way], w[i].o.status);
      ASSERT_EQ(status[way] == 0 ? &value[1] : NULL, (char *)w[i].o.result);
      if (i % 2 != 0 || way != 5)
        ASSERT_RC(UVS_ENDED, w[i].o.state);
    }
    ASSERT(await_asleep(0));
    CHECK_CALL(stage_close(&f, &thread));
  }
  PASS();
}

enum { THREADS = 8, TASKS = 100 };

struct crowd {
  uvs_t *s;
  uvs_id_t id[TASKS];
  char result[TASKS];
  int number;
  int wrong;
};

static int crowd_status(int i) {
  return i % 3 == 0 ? 0 : i % 3 == 1 ? UV_EIO : UV_ECANCELED;
}

struct crowd_task {
  int i;
  char *result;
};

static int crowd_work(uvs_run_t *run) {
  struct crowd_task *c = run->arg;

  uvs_set_result(run, c->result);
  return crowd_status(c->i);
}

struct crowd_waiter {
  struct crowd *c;
  int number;
  int wrong;
};

static void crowd_main(void *arg) {
  struct crowd_waiter *w = arg;
  struct crowd *c = w->c;

  for (int k = 0; k < TASKS; k++) {
    int i = (k * 7 + w->number * 13) % TASKS;
    uvs_outcome_t o;

    uvs_outcome_init(&o);
    if (uvs_wait(c->s, c->id[i], k % 2 == 0 ? UVS_NEVER : PATIENCE_NS,
                 k % 3 == 0 ? UVS_WAIT_SETTLED : 0, &o) != 0 ||
        o.status != crowd_status(i) || o.state != UVS_ENDED ||
        o.result != (i % 3 == 0 ? &c->result[i] : NULL) || o.runs != (i % 3 != 2))
      w->wrong++;
  }
}

/* F13 S2 */
TEST many_waiters_on_many_threads_each_get_their_own_outcome(void) {
  static struct crowd c;
  static struct crowd_task arg[TASKS];
  struct crowd_waiter w[THREADS];
  uv_thread_t threads[THREADS], thread;
  static struct fixture f;

  CHECK_CALL(stage_open(&f, &thread, 3, true));
  c.s = f.s;
  for (int i = 0; i < TASKS; i++) {
    uvs_task_t t;

    uvs_task_init(&t);
    t.work = crowd_work;
    arg[i] = (struct crowd_task){i, &c.result[i]};
    t.arg = &arg[i];
    t.keep_outcome = 1;
    t.first_ns = i % 3 == 2 ? UVS_DAY(1) : UVS_US(200) * i;
    ASSERT_RC(0, uvs_submit(f.s, &t, &c.id[i]));
  }
  for (int i = 0; i < THREADS; i++) {
    w[i] = (struct crowd_waiter){&c, i, 0};
    ASSERT_RC(0, uv_thread_create(&threads[i], crowd_main, &w[i]));
  }
  for (int i = 2; i < TASKS; i += 3)
    ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, c.id[i], 0));
  for (int i = 0; i < THREADS; i++) {
    uv_thread_join(&threads[i]);
    ASSERT_RC(0, w[i].wrong);
  }
  for (int i = 0; i < TASKS; i++)
    ASSERT_RC(0, uvs_forget(f.s, c.id[i]));
  CHECK_CALL(stage_close(&f, &thread));
  PASS();
}

/* ------------------------------------------------------------- patience --- */

/* F14 F15 */
TEST a_wait_that_times_out_is_not_early_and_changes_nothing(void) {
  static const int64_t patience[] = {1, UVS_US(10), UVS_MS(1), UVS_MS(3), UVS_MS(20)};
  static struct fixture f;
  static struct hold h;
  uv_thread_t thread;
  uvs_id_t id[2];
  uvs_outcome_t o, before;

  CHECK_CALL(stage_open(&f, &thread, 1, false));
  uvs_task_t t = held_task(&f, 'a', &h);
  h.give = &value[1];
  ASSERT_RC(0, uvs_submit(f.s, &t, &id[0]));
  ASSERT(await_flag(&h.inside));
  uvs_task_t d = fixture_once(&f, 'd', UVS_MS(5)); /* virtual: it does not come by itself */
  d.keep_outcome = 1;
  ASSERT_RC(0, uvs_submit(f.s, &d, &id[1]));
  for (size_t i = 0; i < sizeof patience / sizeof *patience; i++) {
    for (unsigned flags = 0; flags <= UVS_WAIT_SETTLED; flags++) {
      for (int k = 0; k < 2; k++) {
        int64_t start_ns = (int64_t)uv_hrtime();

        memset(&o, 0x5a, sizeof o);
        o.size = sizeof o;
        before = o;
        ASSERT_RC(UV_ETIMEDOUT, uvs_wait(f.s, id[k], patience[i], flags, &o));
        ASSERT((int64_t)uv_hrtime() - start_ns >= patience[i]);
        ASSERT_MEM_EQ(&before, &o, sizeof o); /* untouched on error */
      }
    }
  }
  ASSERT_U64(1, counts_of(f.s).running);
  ASSERT_U64(1, counts_of(f.s).waiting);
  ASSERT_RC(0, atomic_load(&h.left));
  atomic_store(&h.open, 1);
  stage_advance(&f, UVS_MS(5));
  for (int k = 0; k < 2; k++) {
    uvs_outcome_init(&o);
    ASSERT_RC(0, uvs_wait(f.s, id[k], PATIENCE_NS, 0, &o));
    ASSERT_RC(0, o.status);
    ASSERT_EQ(k == 0 ? &value[1] : NULL, (char *)o.result);
  }
  ASSERT_RC(0, atomic_load(&h.saw_token));
  CHECK_CALL(stage_close(&f, &thread));
  PASS();
}

/* F16 */
TEST a_time_out_of_zero_only_looks_and_the_largest_does_not_overflow(void) {
  static const int64_t none[] = {0, -1, -UVS_SEC(1), INT64_MIN + 1, INT64_MIN};
  static const int64_t most[] = {INT64_MAX, INT64_MAX - 1, INT64_MAX / 2};
  static struct fixture f;
  uv_thread_t thread;
  static struct waiter w[3];
  uvs_outcome_t o;
  uvs_id_t id;

  CHECK_CALL(stage_open(&f, &thread, 1, false));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(5));
  t.keep_outcome = 1;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  uvs_outcome_init(&o);
  for (size_t i = 0; i < sizeof none / sizeof *none; i++)
    for (unsigned flags = 0; flags <= UVS_WAIT_SETTLED; flags++)
      ASSERT_RC(UV_ETIMEDOUT, uvs_wait(f.s, id, none[i], flags, &o));
  for (int i = 0; i < 3; i++)
    ASSERT_RC(0, waiter_start(&w[i], f.s, id, most[i], 0));
  ASSERT_RC(UV_ETIMEDOUT, uvs_wait(f.s, id, UVS_MS(20), 0, &o));
  stage_advance(&f, UVS_MS(5));
  for (int i = 0; i < 3; i++) {
    waiter_join(&w[i]);
    ASSERT_RC(0, w[i].rc);
    ASSERT_RC(0, w[i].o.status);
  }
  for (size_t i = 0; i < sizeof none / sizeof *none; i++)
    ASSERT_RC(0, uvs_wait(f.s, id, none[i], 0, &o));
  CHECK_CALL(stage_close(&f, &thread));
  PASS();
}

/* S2 S3 S9 */
TEST a_delayed_task_returns_its_result_and_never_starts_early(void) {
  static struct fixture f;
  uv_thread_t thread;

  CHECK_CALL(stage_open(&f, &thread, 2, true));
  for (int i = 0; i < 30; i++) {
    int64_t delay_ns = UVS_US(300) * i;
    int64_t before_ns = (int64_t)uv_hrtime();
    uvs_outcome_t o;
    uvs_id_t id;
    uvs_task_t t;

    uvs_task_init(&t);
    t.work = i % 2 == 0 ? give_arg : work_nothing;
    t.arg = &value[i % 8];
    t.first_ns = delay_ns;
    t.keep_outcome = 1;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    uvs_outcome_init(&o);
    ASSERT_RC(0, uvs_wait(f.s, id, UVS_NEVER, 0, &o));
    ASSERT((int64_t)uv_hrtime() - before_ns >= delay_ns);
    ASSERT(o.ideal_ns - before_ns >= delay_ns);
    ASSERT(o.start_ns >= o.ideal_ns);
    ASSERT(o.end_ns >= o.start_ns);
    ASSERT_RC(0, o.status);
    ASSERT_EQ(i % 2 == 0 ? t.arg : NULL, o.result);
    ASSERT_RC(0, uvs_forget(f.s, id));
  }
  CHECK_CALL(stage_close(&f, &thread));
  PASS();
}

/* -------------------------------------------------------------- deadlock --- */

static int wait_act(struct probe *p, uvs_run_t *run) {
  uvs_t *s = run->scheduler;
  uvs_task_t t;
  uvs_outcome_t o;
  size_t winner;

  uvs_task_init(&t);
  t.work = work_nothing;
  uvs_outcome_init(&o);
  log_add(p->f, EV_USER, 'w', 0, uvs_wait(s, p->id, UVS_NEVER, 0, &o));
  log_add(p->f, EV_USER, 'w', 0, uvs_wait(s, p->id, 1, UVS_WAIT_SETTLED, &o));
  log_add(p->f, EV_USER, 'w', 0, uvs_wait(s, run->id, UVS_NEVER, 0, &o)); /* its own end */
  log_add(p->f, EV_USER, 'w', 0, uvs_all(s, &t, 1, UVS_NEVER, &o));
  log_add(p->f, EV_USER, 'w', 0, uvs_all(s, &t, 1, 0, NULL));
  log_add(p->f, EV_USER, 'w', 0, uvs_all(s, NULL, 0, 0, NULL));
  log_add(p->f, EV_USER, 'w', 0, uvs_any(s, &t, 1, UVS_NEVER, &winner, &o));
  log_add(p->f, EV_USER, 'w', 0, uvs_any(s, &t, 1, -1, NULL, NULL));
  log_add(p->f, EV_USER, 'l', 0, uvs_wait(s, p->id, 0, 0, &o)); /* a look is allowed */
  log_add(p->f, EV_USER, 'l', 0, uvs_wait(s, p->id, INT64_MIN, 0, &o));
  return 0;
}

static void wait_in_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  uvs_run_t run = {.scheduler = s, .id = ((struct probe *)arg)->id};

  wait_act(arg, &run);
  probe_done(s, id, status, arg);
}

/* L4 */
TEST a_wait_that_would_deadlock_is_refused(void) {
  for (int concurrency = 0; concurrency <= 1; concurrency++) {
    static struct fixture f;
    uvs_outcome_t o;
    uvs_id_t far_id;

    fixture_init(&f);
    f.options.concurrency = concurrency;
    CHECK_CALL(fixture_open(&f));
    uvs_task_t far = fixture_once(&f, 'f', UVS_DAY(1));
    far.keep_outcome = 1;
    ASSERT_RC(0, uvs_submit(f.s, &far, &far_id));
    uvs_outcome_init(&o);
    ASSERT_RC(UVS_EDEADLK, uvs_wait(f.s, far_id, UVS_NEVER, 0, &o)); /* before the first pass */
    ASSERT_RC(UV_ETIMEDOUT, uvs_wait(f.s, far_id, 0, 0, &o));
    uvs_task_t w = fixture_once(&f, 'w', 0);
    uvs_task_t l = fixture_loop_task(&f, 'l', 0);
    w.keep_outcome = l.keep_outcome = 1;
    probe_of(&w)->act = wait_act;
    probe_of(&l)->act = wait_act;
    probe_of(&w)->id = probe_of(&l)->id = far_id;
    w.done = wait_in_done;
    ASSERT_RC(0, uvs_submit(f.s, &w, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &l, NULL));
    fixture_turn(&f);
    ASSERT_U64(24, log_count(&f, EV_USER, 'w'));
    ASSERT_U64(6, log_count(&f, EV_USER, 'l'));
    for (unsigned i = 0; i < 24; i++)
      ASSERT_RC(UVS_EDEADLK, log_nth(&f, EV_USER, 'w', i)->status);
    for (unsigned i = 0; i < 6; i++)
      ASSERT_RC(UV_ETIMEDOUT, log_nth(&f, EV_USER, 'l', i)->status);
    ASSERT_U64(3, counts_of(f.s).submitted); /* nothing of it was started */
    ASSERT_RC(UVS_EDEADLK, uvs_wait(f.s, far_id, 1, 0, NULL));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* A body of one scheduler may wait for another's task. */
static int wait_for_other(uvs_run_t *run) {
  struct waiter *w = run->arg;

  waiter_main(w);
  return w->rc;
}

/* L4 */
TEST a_body_may_wait_for_a_task_of_another_scheduler(void) {
  static struct fixture f;
  uv_thread_t thread;
  uv_loop_t loop;
  uvs_t *other;
  struct waiter w = {0};
  uvs_task_t t;

  CHECK_CALL(stage_open(&f, &thread, 1, false));
  uvs_task_t far = fixture_once(&f, 'a', UVS_MS(1));
  far.keep_outcome = 1;
  far.result = &value[1];
  w.s = f.s;
  w.timeout_ns = UVS_NEVER;
  ASSERT_RC(0, uvs_submit(f.s, &far, &w.id));
  ASSERT_RC(0, uv_loop_init(&loop));
  ASSERT_RC(0, uvs_open(&loop, NULL, &other));
  uvs_task_init(&t);
  t.work = wait_for_other;
  t.arg = &w;
  ASSERT_RC(0, uvs_submit(other, &t, NULL));
  for (int i = 0; i < 20000 && asleep_now() == 0; i++) {
    uv_run(&loop, UV_RUN_NOWAIT);
    uv_sleep(1);
  }
  ASSERT_RC(1, asleep_now());
  stage_advance(&f, UVS_MS(1));
  uv_run(&loop, UV_RUN_DEFAULT);
  ASSERT_RC(0, w.rc);
  ASSERT_EQ(&value[1], (char *)w.o.result);
  ASSERT_RC(0, uvs_close(other, NULL));
  uv_run(&loop, UV_RUN_DEFAULT);
  ASSERT_RC(0, uv_loop_close(&loop));
  CHECK_CALL(stage_close(&f, &thread));
  PASS();
}

/* ------------------------------------------------------ forget and the end --- */

/* F13: also for an outcome that is forgotten meanwhile. */
TEST forgotten_outcomes_are_gone_except_for_waits_in_progress(void) {
  static struct fixture f;
  static struct waiter w[3];
  static struct hold h;
  uv_thread_t thread;
  uvs_outcome_t o;
  uvs_id_t id;

  CHECK_CALL(stage_open(&f, &thread, 1, false));
  uvs_task_t t = held_task(&f, 'a', &h);
  h.give = &value[1];
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT(await_flag(&h.inside));
  for (int i = 0; i < 3; i++)
    ASSERT_RC(0, waiter_start(&w[i], f.s, id, UVS_NEVER, i == 0 ? UVS_WAIT_SETTLED : 0));
  ASSERT(await_asleep(3));
  ASSERT_RC(0, uvs_forget(f.s, id)); /* before the end, while they sleep */
  ASSERT_RC(UV_ENOENT, uvs_forget(f.s, id));
  ASSERT_RC(UV_ENOENT, peek_at(f.s, id, &o));
  ASSERT_RC(UV_ENOENT, uvs_wait(f.s, id, UVS_NEVER, 0, &o));
  ASSERT(await_asleep(3));
  ASSERT_U64(1, counts_of(f.s).running); /* the task itself goes on */
  atomic_store(&h.open, 1);
  for (int i = 0; i < 3; i++) {
    waiter_join(&w[i]);
    ASSERT_RC(0, w[i].rc);
    ASSERT_RC(0, w[i].o.status);
    ASSERT_RC(UVS_ENDED, w[i].o.state);
    ASSERT_EQ(&value[1], (char *)w[i].o.result);
  }
  ASSERT_RC(UV_ENOENT, uvs_forget(f.s, id));
  stage_join(&f, &thread);
  ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
  ASSERT_RC(UV_ENOENT, uvs_forget(f.s, id));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

TEST forget_works_once_in_every_state_and_does_not_stop_the_task(void) {
  for (int way = 0; way < 4; way++) { /* in the inbox, waiting, before `done`, ended */
    static struct fixture f;
    uvs_outcome_t o;
    uvs_id_t id, again;

    fixture_init(&f);
    if (way == 0)
      CHECK_CALL(fixture_open(&f));
    else
      CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = fixture_once(&f, 'a', UVS_MS(1));
    t.keep_outcome = 1;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    if (way == 2)
      ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, 0)); /* `done` still to come */
    if (way == 3)
      fixture_advance_ms(&f, 1);
    ASSERT_RC(0, uvs_forget(f.s, id));
    ASSERT_RC(UV_ENOENT, uvs_forget(f.s, id));
    ASSERT_RC(UV_ENOENT, peek_at(f.s, id, &o));
    fixture_advance_ms(&f, 2);
    ASSERT_U64(way == 2 ? 0 : 1, log_count(&f, EV_WORK, 'a'));
    ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
    ASSERT_RC(UV_ENOENT, uvs_forget(f.s, id));
    ASSERT_RC(UV_ENOENT, peek_at(f.s, id, &o));
    /* The id stays stale when the slot has a new task. */
    for (int i = 0; i < 300; i++) {
      ASSERT_RC(0, uvs_submit(f.s, &t, &again));
      ASSERT(again != id);
      ASSERT_RC(UV_ENOENT, peek_at(f.s, id, &o));
      ASSERT_RC(UV_ENOENT, uvs_forget(f.s, id));
      ASSERT_RC(UV_ETIMEDOUT, peek_at(f.s, again, &o));
      ASSERT_RC(0, uvs_forget(f.s, again));
      ASSERT(uvs_cancel(f.s, again, 0) == UVS_CANCELLED);
      fixture_turn(&f);
    }
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static int count_each(uvs_t *s, const uvs_info_t *info, void *arg) {
  (void)s;
  (void)info;
  ++*(int *)arg;
  return 0;
}

/* A kept outcome is not a task: no other call sees it, and it does not count against the cap. */
TEST a_kept_outcome_is_visible_only_to_wait_and_forget(void) {
  static struct fixture f;
  uvs_info_t info;
  uvs_outcome_t o;
  uvs_id_t id, next;
  int seen = 0;

  fixture_init(&f);
  f.options.max_pending = 1;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  t.keep_outcome = 1;
  t.name = "kept";
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_turn(&f);
  uvs_info_init(&info);
  ASSERT_RC(UV_ENOENT, uvs_info(f.s, id, &info));
  ASSERT_RC(UV_ENOENT, uvs_cancel(f.s, id, UVS_CANCEL_TOKEN));
  ASSERT_RC(UV_ENOENT, uvs_cancel(f.s, id, UVS_CANCEL_IF_WAITING));
  ASSERT_RC(UV_ENOENT, uvs_reschedule(f.s, id, 0));
  ASSERT_RC(UV_ENOENT, uvs_finish(f.s, id, 0));
  ASSERT_RC(UV_ENOENT, uvs_ref(f.s, id));
  ASSERT_RC(UV_ENOENT, uvs_unref(f.s, id));
  ASSERT_RC(UV_ENOENT, uvs_has_ref(f.s, id));
  ASSERT_RC(0, uvs_each(f.s, count_each, &seen));
  ASSERT_RC(0, seen);
  ASSERT_I64(-1, fixture_next_ms(&f));
  ASSERT_RC(0, uv_run(&f.loop, UV_RUN_DEFAULT)); /* it does not keep the loop alive */
  ASSERT_RC(0, uvs_submit(f.s, &t, &next));
  fixture_turn(&f);
  ASSERT_RC(0, peek_at(f.s, id, &o));
  ASSERT_RC(0, peek_at(f.s, next, &o));
  ASSERT_RC(0, uvs_shutdown(f.s));
  fixture_turn(&f);
  ASSERT_RC(1, uvs_is_terminated(f.s)); /* nor does it keep the scheduler from its end */
  ASSERT_U64(2, counts_of(f.s).completed);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* J3 S43 */
TEST immediate_shutdown_leaves_nobody_waiting(void) {
  enum { N = 5 };
  static struct fixture f;
  static struct waiter w[N];
  static struct hold h[2];
  uv_thread_t thread;
  uvs_outcome_t o;
  uvs_id_t id[N];

  CHECK_CALL(stage_open(&f, &thread, 1, false));
  for (int i = 0; i < N; i++) { /* running, ready, delayed, periodic, on the loop */
    uvs_task_t t = i < 2    ? held_task(&f, 'a' + i, &h[i])
                   : i == 2 ? fixture_once(&f, 'c', UVS_DAY(1))
                   : i == 3 ? fixture_rate(&f, 'd', UVS_SEC(1), UVS_SEC(1))
                            : fixture_loop_task(&f, 'e', UVS_NEVER);
    t.keep_outcome = 1;
    if (i < 2) {
      h[i].give = &value[1];
      h[i].token_ends = true;
    }
    ASSERT_RC(0, uvs_submit(f.s, &t, &id[i]));
    if (i == 0)
      ASSERT(await_flag(&h[0].inside));
    ASSERT_RC(0, waiter_start(&w[i], f.s, id[i], UVS_NEVER, 0));
  }
  ASSERT(await_asleep(N));
  ASSERT_RC(0, uvs_shutdown_now(f.s, NULL, NULL));
  for (int i = 0; i < N; i++) {
    waiter_join(&w[i]);
    ASSERT_RC(0, w[i].rc);
    ASSERT_RC(i == 0 ? 0 : UV_ECANCELED, w[i].o.status); /* a running body keeps its result */
    ASSERT_EQ(i == 0 ? &value[1] : NULL, (char *)w[i].o.result);
    ASSERT_RC(UVS_ENDED, w[i].o.state);
  }
  ASSERT_RC(0, uvs_wait_terminated(f.s, PATIENCE_NS));
  for (int i = 0; i < N; i++) { /* the outcomes outlive the termination */
    ASSERT_RC(0, peek_at(f.s, id[i], &o));
    ASSERT_RC(i == 0 ? 0 : UV_ECANCELED, o.status);
    if (i % 2 == 0)
      ASSERT_RC(0, uvs_forget(f.s, id[i]));
  }
  stage_join(&f, &thread);
  for (int i = 0; i < N; i++)
    ASSERT_RC(i % 2 == 0 ? UV_ENOENT : 0, peek_at(f.s, id[i], &o));
  CHECK_CALL(fixture_close(&f)); /* and are freed here: the fixture counts */
  PASS();
}

/* L12 L17 */
TEST close_releases_threads_that_wait_for_outcomes(void) {
  enum { N = 6 };
  static struct fixture f;
  static struct waiter w[N];
  static struct hold h;
  uvs_outcome_t o;
  uvs_id_t id[3];
  uvs_t *s;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t a = held_task(&f, 'a', &h);
  uvs_task_t b = fixture_once(&f, 'b', 0);
  uvs_task_t c = fixture_rate(&f, 'c', UVS_DAY(1), UVS_DAY(1));
  h.give = &value[1];
  h.token_ends = true;
  b.keep_outcome = c.keep_outcome = 1;
  ASSERT_RC(0, uvs_submit(f.s, &a, &id[0]));
  ASSERT(fixture_wait_flag(&f, &h.inside));
  ASSERT_RC(0, uvs_submit(f.s, &b, &id[1]));
  ASSERT_RC(0, uvs_submit(f.s, &c, &id[2]));
  for (int i = 0; i < N; i++)
    ASSERT_RC(0, waiter_start(&w[i], f.s, id[i % 3], UVS_NEVER, i < 3 ? 0 : UVS_WAIT_SETTLED));
  ASSERT(await_asleep(N)); /* inside: they hold references of their own */
  s = uvs_retain(f.s);
  f.s = NULL;
  ASSERT_RC(0, uvs_close(s, NULL));
  uv_run(&f.loop, UV_RUN_DEFAULT);
  for (int i = 0; i < N; i++) {
    waiter_join(&w[i]);
    ASSERT_RC(0, w[i].rc);
    ASSERT_RC(i % 3 == 0 ? 0 : UV_ECANCELED, w[i].o.status);
  }
  ASSERT_RC(UV_ESHUTDOWN, peek_at(s, id[0], &o));
  ASSERT_RC(UV_ESHUTDOWN, uvs_forget(s, id[0]));
  ASSERT_RC(UV_ESHUTDOWN, uvs_all(s, &b, 1, UVS_NEVER, NULL));
  ASSERT_RC(UV_ESHUTDOWN, uvs_all(s, NULL, 0, UVS_NEVER, NULL));
  ASSERT_RC(UV_ESHUTDOWN, uvs_any(s, &b, 1, UVS_NEVER, NULL, NULL));
  uvs_release(s);
  CHECK_CALL(fixture_close(&f)); /* nothing is left */
  PASS();
}

/* S59 S55 */
TEST keeping_waiting_and_forgetting_takes_constant_memory(void) {
  static struct fixture f;
  static struct waiter sleeper;
  uv_thread_t thread;
  uint64_t slots = 0;
  uvs_id_t id, far_id;
  uvs_task_t t;
  long bytes = 0;

  CHECK_CALL(stage_open(&f, &thread, 2, true));
  uvs_task_init(&t);
  t.work = work_nothing;
  t.keep_outcome = 1;
  t.first_ns = UVS_DAY(1);
  ASSERT_RC(0, uvs_submit(f.s, &t, &far_id));
  ASSERT_RC(0, waiter_start(&sleeper, f.s, far_id, UVS_NEVER, 0)); /* it holds only its own */
  for (int i = 0; i < 100000; i++) {
    t.first_ns = i % 4 == 3 ? UVS_DAY(1) : 0;
    if (i % 50 != 0)
      t.first_ns = UVS_DAY(1); /* most are cancelled: quick */
    if (uvs_submit(f.s, &t, &id) != 0)
      FAILm("submit");
    if (t.first_ns != 0 && uvs_cancel(f.s, id, 0) != UVS_CANCELLED)
      FAILm("cancel");
    if (i % 3 == 0 && uvs_forget(f.s, id) != 0)
      FAILm("forget before the wait");
    if (i % 3 != 0 && (uvs_wait(f.s, id, UVS_NEVER, 0, NULL) != 0 || uvs_forget(f.s, id) != 0))
      FAILm("wait or forget");
    if (i % 1000 == 999) { /* the loop comes to it, sooner or later; it need not be woken for it */
      ASSERT_RC(0, uvs_clock_changed(f.s));
      t.first_ns = 0;
      ASSERT_RC(0, uvs_submit(f.s, &t, &id));
      ASSERT_RC(0, uvs_wait(f.s, id, UVS_NEVER, 0, NULL));
      ASSERT_RC(0, uvs_forget(f.s, id));
    }
    if (i == 20000) {
      slots = counts_of(f.s).slots;
      bytes = atomic_load(&f.fault.live_bytes);
    }
  }
  ASSERT(counts_of(f.s).slots <= 2 * slots + 4096);
  ASSERT(atomic_load(&f.fault.live_bytes) <= 3 * bytes + (1 << 21));
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, far_id, 0));
  waiter_join(&sleeper);
  ASSERT_RC(UV_ECANCELED, sleeper.o.status);
  CHECK_CALL(stage_close(&f, &thread));
  PASS();
}

/* S59: exactly, on the loop thread. */
TEST a_forgotten_outcome_frees_its_memory(void) {
  static struct fixture f;
  uint64_t slots;
  uvs_outcome_t o;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  t.work = give_arg;
  t.done = NULL;
  t.keep_outcome = 1;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  slots = counts_of(f.s).slots;
  for (int i = 0; i < 100000; i++) {
    if (i % 10 == 0)
      fixture_turn(&f);
    else
      uvs_cancel(f.s, id, 0);
    if (peek_at(f.s, id, &o) != 0 || o.status != (i % 10 == 0 ? 0 : UV_ECANCELED) ||
        o.result != (i % 10 == 0 ? t.arg : NULL) || uvs_forget(f.s, id) != 0 ||
        uvs_submit(f.s, &t, &id) != 0)
      FAILm("keep, wait, forget");
  }
  ASSERT(counts_of(f.s).slots <= slots + 64);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S59: the last waiting thread frees the memory. */
TEST a_forgotten_outcome_with_waiters_frees_its_memory(void) {
  static struct fixture f;
  static struct waiter w[2];
  uint64_t slots;
  uvs_task_t t;
  uvs_id_t id;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL; /* the others have condition variables of their own */
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_init(&t);
  t.work = work_nothing;
  t.first_ns = UVS_DAY(1);
  t.keep_outcome = 1;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  slots = counts_of(f.s).slots;
  for (int i = 0; i < 400; i++) {
    for (int k = 0; k < 2; k++)
      ASSERT_RC(0, waiter_start(&w[k], f.s, id, UVS_NEVER, 0));
    ASSERT(await_asleep(2));
    ASSERT_RC(0, uvs_forget(f.s, id));
    ASSERT_RC(UVS_CANCELLED,
              uvs_cancel(f.s, id, 0)); /* ends the task at once, while the threads wake up */
    for (int k = 0; k < 2; k++) {
      waiter_join(&w[k]);
      ASSERT_RC(0, w[k].rc);
      ASSERT_RC(UV_ECANCELED, w[k].o.status);
    }
    ASSERT_RC(0, uvs_clock_changed(f.s));
    fixture_turn(&f);
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  }
  ASSERT(counts_of(f.s).slots <= slots + 128);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ---------------------------------------------------------------- bad input --- */

TEST invalid_arguments_of_the_outcome_calls_change_nothing(void) {
  static const uvs_id_t stale[] = {0, 1, 12345, UINT64_C(1) << 52, UINT64_MAX};
  static struct fixture f;
  uvs_outcome_t o;
  uvs_run_t run = {0};
  uvs_id_t kept, unkept;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(1));
  ASSERT_RC(0, uvs_submit(f.s, &t, &unkept));
  t.result = &value[1]; /* without keep */
  ASSERT_RC(UV_EINVAL, uvs_submit(f.s, &t, &kept));
  t.keep_outcome = 2;
  ASSERT_RC(UV_EINVAL, uvs_submit(f.s, &t, &kept));
  t.keep_outcome = -1;
  ASSERT_RC(UV_EINVAL, uvs_submit(f.s, &t, &kept));
  t.keep_outcome = 1;
  ASSERT_RC(0, uvs_submit(f.s, &t, &kept));
  uvs_outcome_init(&o);
  ASSERT_RC(UV_EINVAL, uvs_wait(NULL, kept, 0, 0, &o));
  ASSERT_RC(UV_EINVAL, uvs_forget(NULL, kept));
  ASSERT_RC(UV_EINVAL, uvs_wait(f.s, unkept, 0, 0, &o));
  ASSERT_RC(UV_EINVAL, uvs_wait(f.s, unkept, UVS_NEVER, 0, &o));
  ASSERT_RC(UV_EINVAL, uvs_forget(f.s, unkept));
  ASSERT_RC(UV_EINVAL, uvs_wait(f.s, kept, 0, 2, &o));
  ASSERT_RC(UV_EINVAL, uvs_wait(f.s, kept, 0, ~0u, &o));
  o.size = 0;
  ASSERT_RC(UV_EINVAL, uvs_wait(f.s, kept, 0, 0, &o));
  o.size = sizeof o - 1;
  ASSERT_RC(UV_EINVAL, uvs_wait(f.s, kept, 0, 0, &o));
  uvs_outcome_init(&o);
  for (size_t i = 0; i < sizeof stale / sizeof *stale; i++) {
    ASSERT_RC(UV_ENOENT, uvs_wait(f.s, stale[i], 0, 0, &o));
    ASSERT_RC(UV_ENOENT, uvs_wait(f.s, stale[i], UVS_NEVER, UVS_WAIT_SETTLED, NULL));
    ASSERT_RC(UV_ENOENT, uvs_forget(f.s, stale[i]));
  }
  ASSERT_RC(UV_EINVAL, uvs_set_result(NULL, &value[1]));
  ASSERT_RC(UV_EINVAL, uvs_set_result(&run, &value[1]));
  uvs_task_t u = fixture_once(&f, 'u', 0);
  probe_of(&u)->act = give_act; /* answers what uvs_set_result does: not kept */
  ASSERT_RC(0, uvs_submit(f.s, &u, NULL));
  fixture_advance_ms(&f, 1);
  ASSERT_RC(UV_EINVAL, log_nth(&f, EV_DONE, 'u', 0)->status);
  ASSERT_RC(UV_ENOENT, uvs_wait(f.s, unkept, 0, 0, &o)); /* over, not kept */
  ASSERT_RC(UV_ENOENT, uvs_forget(f.s, unkept));
  ASSERT_RC(0, uvs_wait(f.s, kept, 0, 0, &o));
  ASSERT_EQ(&value[1], (char *)o.result);
  ASSERT_RC(0, uvs_forget(f.s, kept));
  ASSERT_RC(UV_ENOENT, uvs_forget(f.s, kept));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ------------------------------------------------------------------- races --- */

struct racer {
  uvs_t *s;
  _Atomic uint64_t *ids;
  int n, number;
  uint64_t random;
  int wrong;
  _Atomic int *go;
};

enum { RACE_TASKS = 64, RACE_THREADS = 5 };

/* Waits for, cancels and forgets tasks at random. Every answer must be a legal one. */
static void racer_main(void *arg) {
  struct racer *r = arg;

  while (!atomic_load(r->go)) {
  }
  for (int i = 0; i < r->n; i++) {
    uvs_id_t id = atomic_load(&r->ids[test_random_below(&r->random, RACE_TASKS)]);
    uint64_t what = test_random_below(&r->random, 10);
    uvs_outcome_t o;
    int rc;

    uvs_outcome_init(&o);
    if (what < 6) {
      unsigned flags = what % 2 == 0 ? UVS_WAIT_SETTLED : 0;

      rc = uvs_wait(r->s, id, what < 2 ? 0 : what < 4 ? UVS_US(50) : UVS_MS(1), flags, &o);
      if (rc == 0) {
        bool own = o.result == (void *)(uintptr_t)(id | 1);

        if (o.status == 0 ? !own || o.state != UVS_ENDED || o.runs != 1
                          : o.status != UV_ECANCELED || o.result != NULL)
          r->wrong++;
        if (flags == 0 && o.state != UVS_ENDED)
          r->wrong++;
      } else if (rc != UV_ETIMEDOUT && rc != UV_ENOENT && rc != UV_ESHUTDOWN) {
        r->wrong++;
      }
    } else if (what < 8) {
      rc = uvs_cancel(r->s, id, what == 6 ? UVS_CANCEL_TOKEN : 0);
      if (rc < 0 && rc != UV_ENOENT && rc != UV_ESHUTDOWN)
        r->wrong++;
    } else {
      rc = uvs_forget(r->s, id);
      if (rc < 0 && rc != UV_ENOENT && rc != UV_ESHUTDOWN)
        r->wrong++;
    }
  }
  uvs_release(r->s);
}

static int race_work(uvs_run_t *run) {
  uvs_set_result(run, (void *)(uintptr_t)(run->id | 1));
  return 0;
}

/* L12 F13: cancel, forget and close against waits. */
TEST waits_survive_races_with_cancel_forget_and_close(void) {
  uint64_t random = test_seed;

  for (int round = 0; round < 30; round++) {
    struct racer r[RACE_THREADS];
    uv_thread_t threads[RACE_THREADS];
    static _Atomic uint64_t ids[RACE_TASKS];
    _Atomic int go = 0;
    static struct fixture f;
    uvs_task_t t = plain(race_work, NULL);
    uvs_t *s;
    int wrong = 0;

    fixture_init(&f);
    f.pool = FAKEPOOL_REAL;
    f.real_clock = true;
    f.options.concurrency = round % 4;
    CHECK_CALL(fixture_open_turned(&f));
    t.keep_outcome = 1;
    for (int i = 0; i < RACE_TASKS; i++) {
      uvs_id_t id;

      t.first_ns = i % 2 == 0 ? UVS_DAY(1) : 0;
      ASSERT_RC(0, uvs_submit(f.s, &t, &id));
      atomic_store(&ids[i], id);
    }
    for (int i = 0; i < RACE_THREADS; i++) {
      r[i] = (struct racer){uvs_retain(f.s), ids, 300, i, test_random(&random) | 1, 0, &go};
      ASSERT_RC(0, uv_thread_create(&threads[i], racer_main, &r[i]));
    }
    s = uvs_retain(f.s);
    atomic_store(&go, 1);
    for (int i = 0; i < 600; i++) { /* replaces ended tasks, while the loop runs */
      uint64_t k = test_random_below(&random, RACE_TASKS);
      uvs_outcome_t o;
      uvs_id_t id;

      if (peek_at(s, atomic_load(&ids[k]), &o) != UV_ETIMEDOUT) {
        uvs_forget(s, atomic_load(&ids[k]));
        t.first_ns = (int64_t)test_random_below(&random, 3) * UVS_US(100);
        ASSERT_RC(0, uvs_submit(s, &t, &id));
        atomic_store(&ids[k], id);
      }
      uv_run(&f.loop, UV_RUN_NOWAIT);
    }
    f.s = NULL;
    ASSERT_RC(0, uvs_close(s, NULL));
    uv_run(&f.loop, UV_RUN_DEFAULT);
    for (int i = 0; i < RACE_THREADS; i++) {
      uv_thread_join(&threads[i]);
      wrong += r[i].wrong;
    }
    uvs_release(s);
    ASSERT_RC(0, wrong);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

SUITE(outcomes) {
  RUN_TEST(an_outcome_becomes_final_once_and_does_not_change);
  RUN_TEST(a_periodic_task_is_not_done_before_its_last_run);
  RUN_TEST(cancel_succeeds_before_the_run_and_fails_after_it);
  RUN_TEST(cancel_during_the_run_settles_at_once_and_is_quiet_when_the_body_returns);
  RUN_TEST(run_finish_and_cancel_release_all_waiters);
  RUN_TEST(many_waiters_on_many_threads_each_get_their_own_outcome);
  RUN_TEST(a_wait_that_times_out_is_not_early_and_changes_nothing);
  RUN_TEST(a_time_out_of_zero_only_looks_and_the_largest_does_not_overflow);
  RUN_TEST(a_delayed_task_returns_its_result_and_never_starts_early);
  RUN_TEST(a_wait_that_would_deadlock_is_refused);
  RUN_TEST(a_body_may_wait_for_a_task_of_another_scheduler);
}

SUITE(ends) {
  RUN_TEST(forgotten_outcomes_are_gone_except_for_waits_in_progress);
  RUN_TEST(forget_works_once_in_every_state_and_does_not_stop_the_task);
  RUN_TEST(a_kept_outcome_is_visible_only_to_wait_and_forget);
  RUN_TEST(immediate_shutdown_leaves_nobody_waiting);
  RUN_TEST(close_releases_threads_that_wait_for_outcomes);
  RUN_TEST(keeping_waiting_and_forgetting_takes_constant_memory);
  RUN_TEST(a_forgotten_outcome_frees_its_memory);
  RUN_TEST(a_forgotten_outcome_with_waiters_frees_its_memory);
}

SUITE(input_and_races) {
  RUN_TEST(invalid_arguments_of_the_outcome_calls_change_nothing);
  RUN_TEST(waits_survive_races_with_cancel_forget_and_close);
}

TEST_MAIN(RUN_SUITE(outcomes); RUN_SUITE(ends); RUN_SUITE(input_and_races));
