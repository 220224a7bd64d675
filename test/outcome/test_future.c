/* SPDX-License-Identifier: MIT
 *
 * A task and its outcome as a future: the effect of a cancel during the run on the task and on
 * others, the last callbacks, and waits during a shutdown. Waits in general are in test_outcome.c.
 */
#include <stdlib.h>

#include "lib/bodies.h"
#include "lib/fixture.h"
#include "lib/inspect.h"
#include "lib/stage.h"
#include "lib/threads.h"

static char value[8]; /* results are addresses in here */

/* ------------------------------------------------------------- once final --- */

enum { WATCHED = 400 };

struct watcher {
  uvs_t *s;
  const uvs_id_t *ids;
  _Atomic int *over;
  int wrong, seen;
};

static bool same_outcome(const uvs_outcome_t *a, const uvs_outcome_t *b) {
  if (a->status != b->status || a->result != b->result)
    return false;
  if (a->state != UVS_ENDED) /* settled while its only run was about to begin, or had begun */
    return b->runs == 1 || (a->runs == 0 && b->runs == 0 && b->state != UVS_ENDED);
  return b->state == UVS_ENDED && a->runs == b->runs && a->ideal_ns == b->ideal_ns &&
         a->start_ns == b->start_ns && a->end_ns == b->end_ns;
}

static void watcher_main(void *arg) {
  struct watcher *w = arg;
  static _Thread_local uvs_outcome_t first[WATCHED];
  bool last = false;

  memset(first, 0, sizeof first);
  while (!last) {
    last = atomic_load(w->over) != 0; /* then check once more */
    for (int i = 0; i < WATCHED; i++) {
      unsigned flags = (i + last) % 2 == 0 ? UVS_WAIT_SETTLED : 0;
      uvs_outcome_t o;
      int rc;

      uvs_outcome_init(&o);
      rc = uvs_wait(w->s, w->ids[i], 0, flags, &o);
      if (first[i].size == 0 && rc == 0) {
        first[i] = o;
        w->seen++;
      } else if (first[i].size != 0) {
        /* A settled task may not be quiet yet. */
        if (rc == UV_ETIMEDOUT ? flags != 0 || first[i].state == UVS_ENDED
                               : rc != 0 || !same_outcome(&first[i], &o))
          w->wrong++;
        else if (rc == 0)
          first[i] = o;
      }
    }
  }
}

static int spin(uvs_run_t *run) {
  int64_t end_ns = (int64_t)uv_hrtime() + UVS_US(50);

  uvs_set_result(run, run->arg);
  while ((int64_t)uv_hrtime() < end_ns && !uvs_cancelled(run)) {
  }
  return run->arg == &value[1] ? UV_EIO : 0;
}

/* F1: after one thread has seen a final outcome, no thread sees another one. */
TEST a_final_outcome_never_changes_while_others_cancel_and_finish(void) {
  enum { WATCHERS = 2 };
  static uvs_id_t ids[WATCHED];
  static struct watcher w[WATCHERS];
  static _Atomic int over;
  static struct fixture f;
  uv_thread_t thread, threads[WATCHERS];
  uint64_t random = test_seed;

  CHECK_CALL(stage_open(&f, &thread, 3, true));
  for (int i = 0; i < WATCHED; i++) {
    uvs_task_t t = plain(spin, &value[i % 4]);

    t.keep_outcome = 1;
    t.first_ns = UVS_US(30) * i;
    ASSERT_RC(0, uvs_submit(f.s, &t, &ids[i]));
  }
  atomic_store(&over, 0);
  for (int i = 0; i < WATCHERS; i++) {
    w[i] = (struct watcher){f.s, ids, &over, 0, 0};
    ASSERT_RC(0, uv_thread_create(&threads[i], watcher_main, &w[i]));
  }
  while (live_tasks(f.s) > 0) {
    uvs_id_t id = ids[test_random_below(&random, WATCHED)];

    uvs_cancel(f.s, id, test_random_below(&random, 2) == 0 ? UVS_CANCEL_TOKEN : 0);
    uvs_finish(f.s, id, 0);
    uv_sleep(0);
  }
  for (int i = 0; i < WATCHED; i++)
    ASSERT_RC(0, uvs_wait(f.s, ids[i], UVS_NEVER, 0, NULL));
  atomic_store(&over, 1);
  for (int i = 0; i < WATCHERS; i++) {
    uv_thread_join(&threads[i]);
    ASSERT_RC(0, w[i].wrong);
    ASSERT_RC(WATCHED, w[i].seen);
  }
  CHECK_CALL(stage_close(&f, &thread));
  PASS();
}

struct brief {
  uvs_t *s;
  uvs_id_t id;
};

static int wait_briefly(void *arg) {
  struct brief *b = arg;

  return uvs_wait(b->s, b->id, 1, 0, NULL);
}

/* F14: a wait that timed out holds no memory. */
TEST a_wait_that_timed_out_leaves_no_memory_in_use(void) {
  static struct fixture f;
  uint64_t slots = 0;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = plain(work_nothing, NULL);
  t.first_ns = UVS_DAY(1);
  t.keep_outcome = 1;
  for (int i = 0; i < 400; i++) {
    struct brief b = {f.s, 0};

    ASSERT_RC(0, uvs_submit(f.s, &t, &b.id));
    for (int k = 0; k < 3; k++)
      ASSERT_RC(UV_ETIMEDOUT, elsewhere(wait_briefly, &b));
    if (i % 2 == 0)
      ASSERT_RC(0, uvs_forget(f.s, b.id));
    ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, b.id, 0));
    if (i % 2 == 1)
      ASSERT_RC(0, uvs_forget(f.s, b.id));
    ASSERT_RC(0, uvs_clock_changed(f.s));
    fixture_turn(&f);
    if (i == 0)
      slots = counts_of(f.s).slots;
  }
  ASSERT_U64(slots, counts_of(f.s).slots);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ------------------------------------------------------ cancel and its token --- */

/* F10: two bodies run at once, and one is asked to stop. */
TEST a_cancel_token_reaches_only_its_own_body(void) {
  static struct hold h[2], next[2];
  static struct fixture f;
  uv_thread_t thread;
  uvs_id_t id[2], next_id[2];

  CHECK_CALL(stage_open(&f, &thread, 2, false));
  for (int i = 0; i < 2; i++) {
    uvs_task_t t = held_task(&f, 'a' + i, &h[i]);

    h[i].token_ends = true;
    h[i].give = &value[i];
    ASSERT_RC(0, uvs_submit(f.s, &t, &id[i]));
    ASSERT(await_flag(&h[i].inside));
  }
  for (int i = 0; i < 2; i++) { /* what the same threads run next */
    uvs_task_t t = held_task(&f, 'c' + i, &next[i]);

    atomic_store(&next[i].open, 1);
    next[i].give = &value[2 + i];
    ASSERT_RC(0, uvs_submit(f.s, &t, &next_id[i]));
  }
  ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, uvs_cancel(f.s, id[0], UVS_CANCEL_TOKEN));
  ASSERT(await_flag(&h[0].left));
  for (int i = 0; i < 2; i++) { /* through the one thread that is free */
    ASSERT_RC(0, uvs_wait(f.s, next_id[i], UVS_NEVER, 0, NULL));
    ASSERT_RC(0, atomic_load(&next[i].saw_token));
  }
  ASSERT_RC(0, atomic_load(&h[1].left));
  atomic_store(&h[1].open, 1);
  for (int i = 0; i < 2; i++) {
    uvs_outcome_t o;

    uvs_outcome_init(&o);
    ASSERT_RC(0, uvs_wait(f.s, id[i], UVS_NEVER, 0, &o));
    ASSERT_RC(i == 0 ? UV_ECANCELED : 0, o.status);
    ASSERT_EQ(i == 0 ? NULL : &value[1], (char *)o.result);
    ASSERT_RC(i == 0, atomic_load(&h[i].saw_token));
  }
  CHECK_CALL(stage_close(&f, &thread));
  PASS();
}

/* Logs whether the body has returned ('l': left, 'i': inside) and the current outcome. */
static void done_after_body(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct probe *p = arg;
  struct hold *h = p->data;
  uvs_outcome_t o;
  int rc = peek_at(s, id, &o);

  log_add(p->f, EV_USER, atomic_load(&h->left) ? 'l' : 'i', id, rc < 0 ? rc : o.status);
  log_add(p->f, EV_DONE, p->tag, id, status);
}

/* F12b F17: the order of the last callbacks, however the run was cancelled. */
TEST done_is_the_last_callback_and_follows_the_return_of_the_body(void) {
  for (int way = 0; way < 6;
       way++) { /* not cancelled, cancelled, with token; with `after` or not */
    static struct fixture f;
    static struct hold h;
    uv_thread_t thread;
    bool after = way >= 3;
    uvs_outcome_t o;
    uvs_id_t id;

    CHECK_CALL(stage_open(&f, &thread, 1, false));
    uvs_task_t t = held_task(&f, 'a', &h);
    t.after = after ? probe_after : NULL;
    t.done = done_after_body;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    ASSERT(await_flag(&h.inside));
    if (way % 3 != 0) {
      ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING,
                uvs_cancel(f.s, id, way % 3 == 2 ? UVS_CANCEL_TOKEN : 0));
      uvs_outcome_init(&o);
      ASSERT_RC(0, uvs_wait(f.s, id, UVS_NEVER, UVS_WAIT_SETTLED, &o)); /* waiters leave at once */
      ASSERT_RC(UV_ECANCELED, o.status);
    }
    /* The loop has made a pass since, and has called nothing. */
    uvs_task_t turn = fixture_loop_task(&f, 't', 0);
    turn.keep_outcome = 1;
    uvs_id_t turn_id;
    for (int i = 0; i < 3; i++) {
      ASSERT_RC(0, uvs_submit(f.s, &turn, &turn_id));
      ASSERT_RC(0, uvs_wait(f.s, turn_id, UVS_NEVER, 0, NULL));
    }
    ASSERT_U64(0, log_count(&f, EV_DONE, 'a') + log_count(&f, EV_AFTER, 'a'));
    atomic_store(&h.open, 1);
    ASSERT_RC(0, uvs_wait(f.s, id, UVS_NEVER, 0, NULL));
    stage_join(&f, &thread);
    ASSERT_U64(after, log_count(&f, EV_AFTER, 'a'));
    ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
    ASSERT_U64(1, log_count(&f, EV_USER, 'l')); /* after the body, and it showed done */
    ASSERT_RC(way % 3 == 0 ? 0 : UV_ECANCELED, log_nth(&f, EV_USER, 'l', 0)->status);
    ASSERT_RC(way % 3 == 0 ? 0 : UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 0)->status);
    bool done = false;
    for (unsigned i = 0; i < log_total(&f); i++) {
      const struct event *e = log_nth(&f, 0, 0, i);

      done |= e->what == EV_DONE && e->tag == 'a';
      ASSERT_FALSE(done && e->what == EV_AFTER && e->tag == 'a');
    }
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static int cancel_from(struct probe *p, uvs_run_t *run) {
  if (run->number >= 3)
    log_add(p->f, EV_USER, 'c', run->id, uvs_cancel(run->scheduler, run->id, 0));
  return 0;
}

/* F4: cancelled during the run, between two runs, and when due. */
TEST a_cancelled_periodic_task_is_not_armed_again(void) {
  for (int way = 0; way < 3; way++) {
    for (int kind = UVS_FIXED_RATE; kind <= UVS_FIXED_DELAY; kind++) {
      for (int concurrency = 0; concurrency < 2; concurrency++) {
        struct fixture f;
        uvs_outcome_t o;
        uvs_id_t id;

        fixture_init(&f);
        f.options.concurrency = concurrency;
        CHECK_CALL(fixture_open_turned(&f));
        uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_MS(10));
        t.kind = kind;
        t.keep_outcome = 1;
        probe_of(&t)->act = way == 0 ? cancel_from : NULL;
        ASSERT_RC(0, uvs_submit(f.s, &t, &id));
        fixture_advance_ms(&f, 20);
        ASSERT_STR_EQ("0 10 20", log_runs(&f, EV_WORK, 'a'));
        if (way == 0)
          ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, log_nth(&f, EV_USER, 'c', 0)->status);
        if (way == 1)
          ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, 0));
        if (way == 2) {
          if (concurrency > 0) {
            fakepool_hold();
            fixture_advance_ms(&f, 10);
            ASSERT_RC(UVS_READY, state_of(f.s, id));
          } else {
            vclock_advance_ns(&f.clock, UVS_MS(10)); /* due, but the loop has not looked */
          }
          ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, 0));
          fakepool_release();
        }
        ASSERT_RC(0, peek_at(f.s, id, &o));
        ASSERT_RC(UV_ECANCELED, o.status);
        fixture_advance_ms(&f, 100);
        ASSERT_STR_EQ("0 10 20", log_runs(&f, EV_WORK, 'a'));
        ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
        ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 0)->status);
        ASSERT_U64(3, counts_of(f.s).runs);
        ASSERT_RC(0, peek_at(f.s, id, &o));
        ASSERT_U64(3, o.runs);
        ASSERT_I64(-1, fixture_next_ms(&f));
        fakepool_release();
        CHECK_CALL(fixture_close(&f));
      }
    }
  }
  PASS();
}

/* ------------------------------------------------------------------- in words --- */

/* A state as a program would log it. */
static const char *in_words(uvs_t *s, uvs_id_t id) {
  static char text[128];
  uvs_outcome_t o;
  int rc = peek_at(s, id, &o);

  if (rc < 0)
    snprintf(text, sizeof text, "%s", uvs_strerror(rc));
  else
    snprintf(text, sizeof text, "%s: %s", uvs_outcome_name(o.status), uvs_strerror(o.status));
  return text;
}

/* F18: using the library's names of states and codes. */
TEST the_four_states_of_a_future_have_distinct_names(void) {
  enum { OPEN, SUCCESS, FAILURE, CANCELLED, N };
  static struct fixture f;
  char text[N][128];
  uvs_id_t id[N];

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  for (int i = 0; i < N; i++) {
    uvs_task_t t = fixture_once(&f, 'a' + i, i == OPEN || i == CANCELLED ? UVS_DAY(1) : 0);

    t.keep_outcome = 1;
    probe_of(&t)->ret = i == FAILURE ? UV_EIO : 0;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id[i]));
  }
  fixture_turn(&f);
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id[CANCELLED], 0));
  for (int i = 0; i < N; i++) {
    snprintf(text[i], sizeof text[i], "%s", in_words(f.s, id[i]));
    for (int k = 0; k < i; k++)
      ASSERT(strcmp(text[k], text[i]) != 0);
  }
  ASSERT_STR_EQ("timed out", text[OPEN]);
  ASSERT_STR_EQ("completed: success", text[SUCCESS]);
  ASSERT_STR_EQ("failed: i/o error", text[FAILURE]);
  ASSERT_STR_EQ("cancelled: cancelled", text[CANCELLED]);
  ASSERT_STR_EQ("timed out", uvs_outcome_name(UV_ETIMEDOUT));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ------------------------------------------------------------------- shutdown --- */

/* J1 */
TEST delayed_one_shots_run_after_shutdown_and_periodic_tasks_do_not(void) {
  enum { ONCE, LOOP, WALL, RATE, DELAY, N };
  static struct fixture f;
  static struct waiter w[N];
  uv_thread_t thread;
  uvs_id_t id[N];

  CHECK_CALL(stage_open(&f, &thread, 1, false));
  for (int i = 0; i < N; i++) {
    uvs_task_t t = i == LOOP    ? fixture_loop_task(&f, 'a' + i, UVS_MS(50))
                   : i == WALL  ? fixture_once(&f, 'a' + i, VCLOCK_WALL_NS + UVS_MS(50))
                   : i == RATE  ? fixture_rate(&f, 'a' + i, UVS_MS(50), UVS_MS(50))
                   : i == DELAY ? fixture_delay(&f, 'a' + i, UVS_MS(50), UVS_MS(50))
                                : fixture_once(&f, 'a' + i, UVS_MS(50));
    t.from = i == WALL ? UVS_FROM_WALL : UVS_FROM_NOW;
    t.keep_outcome = 1;
    t.result = &value[i];
    ASSERT_RC(0, uvs_submit(f.s, &t, &id[i]));
    ASSERT_RC(0, waiter_start(&w[i], f.s, id[i], UVS_NEVER, 0));
  }
  ASSERT(await_asleep(N));
  ASSERT_RC(0, uvs_shutdown(f.s));
  for (int i = RATE; i < N; i++) { /* at once: no time passes */
    waiter_join(&w[i]);
    ASSERT_RC(0, w[i].rc);
    ASSERT_RC(UV_ECANCELED, w[i].o.status);
    ASSERT_EQ(NULL, w[i].o.result);
    ASSERT_U64(0, w[i].o.runs);
  }
  ASSERT(await_asleep(3));
  ASSERT_RC(UV_ETIMEDOUT, uvs_wait_terminated(f.s, 0));
  stage_advance(&f, UVS_MS(50));
  for (int i = ONCE; i < RATE; i++) {
    waiter_join(&w[i]);
    ASSERT_RC(0, w[i].rc);
    ASSERT_RC(0, w[i].o.status);
    ASSERT_EQ(&value[i], (char *)w[i].o.result);
    ASSERT_U64(1, w[i].o.runs);
  }
  ASSERT_RC(0, uvs_wait_terminated(f.s, PATIENCE_NS));
  ASSERT_U64(3, counts_of(f.s).runs);
  CHECK_CALL(stage_close(&f, &thread));
  PASS();
}

static int delayed_off(uvs_t *s) {
  return uvs_set_after_shutdown(s, UVS_DELAYED_TASKS, 0);
}

static int delayed_off_act(struct probe *p, uvs_run_t *run) {
  (void)p;
  return delayed_off(run->scheduler);
}

/* J2 */
TEST without_delayed_survive_a_far_task_ends_and_shutdown_finishes_at_once(void) {
  for (int way = 0; way < 5; way++) { /* at open; before; after, the same on the loop; "never" */
    static struct fixture f;
    static struct waiter w;
    uv_thread_t thread;
    uvs_id_t id;

    fixture_init(&f);
    f.options.delayed_after_shutdown = way == 0 ? 0 : 1;
    CHECK_CALL(stage_start(&f, &thread));
    uvs_task_t t = fixture_once(&f, 'a', way == 4 ? UVS_NEVER : UVS_DAY(365));
    t.keep_outcome = 1;
    t.result = &value[1];
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    uvs_task_t off = fixture_loop_task(&f, 'o', UVS_MS(1));
    probe_of(&off)->act = delayed_off_act;
    if (way == 3)
      ASSERT_RC(0, uvs_submit(f.s, &off, NULL));
    ASSERT_RC(0, waiter_start(&w, f.s, id, UVS_NEVER, 0));
    ASSERT(await_asleep(1));
    if (way == 1)
      ASSERT_RC(0, delayed_off(f.s));
    ASSERT_U64(way == 3 ? 2 : 1, counts_of(f.s).waiting); /* nothing before the shutdown */
    ASSERT_RC(0, uvs_shutdown(f.s));
    if (way >= 2) {
      ASSERT_RC(UV_ETIMEDOUT, uvs_wait_terminated(f.s, UVS_MS(2))); /* the far one keeps it */
      ASSERT_RC(1, asleep_now());
      if (way == 3)
        stage_advance(&f, UVS_MS(1));
      else
        ASSERT_RC(0, delayed_off(f.s));
    }
    waiter_join(&w);
    ASSERT_RC(0, w.rc);
    ASSERT_RC(UV_ECANCELED, w.o.status);
    ASSERT_RC(UVS_ENDED, w.o.state);
    ASSERT_EQ(NULL, w.o.result);
    ASSERT_RC(0, uvs_wait_terminated(f.s, PATIENCE_NS));
    ASSERT_I64(VCLOCK_START_NS + (way == 3 ? UVS_MS(1) : 0), uvs_now(f.s)); /* no time has passed */
    stage_join(&f, &thread);
    ASSERT_U64(0, log_count(&f, EV_WORK, 'a'));
    ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 0)->status);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* -------------------------------------------------------------------- repeat --- */

/* J8 */
TEST without_initial_delay_a_periodic_task_repeats_and_is_counted_as_waiting(void) {
  static const int64_t initial_ns[] = {0, -1, INT64_MIN};

  for (size_t k = 0; k < sizeof initial_ns / sizeof *initial_ns; k++) {
    for (int concurrency = 0; concurrency < 3; concurrency++) {
      struct fixture f;
      uvs_id_t rate, delay, far[3];

      fixture_init(&f);
      f.options.concurrency = concurrency;
      CHECK_CALL(fixture_open_turned(&f));
      struct probe *r = fixture_probe(&f, 'r');
      struct probe *d = fixture_probe(&f, 'd');
      uvs_task_t l = fixture_loop_task(&f, 'l', initial_ns[k]);
      l.kind = UVS_FIXED_RATE;
      l.period_ns = UVS_MS(10);
      ASSERT_U64(0, counts_of(f.s).waiting);
      ASSERT_RC(0,
                uvs_schedule_at_fixed_rate(f.s, initial_ns[k], UVS_MS(10), probe_work, r, &rate));
      ASSERT_RC(
          0, uvs_schedule_with_fixed_delay(f.s, initial_ns[k], UVS_MS(10), probe_work, d, &delay));
      ASSERT_RC(0, uvs_submit(f.s, &l, NULL));
      for (int i = 0; i < 3; i++) {
        ASSERT_RC(0, uvs_schedule(f.s, UVS_SEC(1) + i, work_nothing, NULL, &far[i]));
        ASSERT_U64(4 + (unsigned)i, counts_of(f.s).waiting);
      }
      fixture_turn(&f); /* the first runs have ended: the periodic tasks wait again */
      ASSERT_STR_EQ("0", log_runs(&f, EV_WORK, 'r'));
      ASSERT_U64(6, counts_of(f.s).waiting);
      fixture_advance_ms(&f, 45);
      ASSERT_STR_EQ("0 10 20 30 40", log_runs(&f, EV_WORK, 'r'));
      ASSERT_STR_EQ("0 10 20 30 40", log_runs(&f, EV_WORK, 'd'));
      ASSERT_STR_EQ("0 10 20 30 40", log_runs(&f, EV_AFTER, 'l'));
      ASSERT_U64(6, counts_of(f.s).waiting);
      ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, far[1], 0));
      ASSERT_U64(5, counts_of(f.s).waiting);
      ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, rate, 0));
      ASSERT_U64(4, counts_of(f.s).waiting);
      fixture_advance_ns(&f, UVS_SEC(1));
      ASSERT_U64(2, counts_of(f.s).waiting); /* the two that still repeat */
      ASSERT_U64(2, counts_of(f.s).completed);
      CHECK_CALL(fixture_close(&f));
    }
  }
  PASS();
}

/* S9. A task's record is reused: nothing of the previous task may be left in it. */
TEST a_preset_result_survives_a_skipped_first_run(void) {
  struct fixture f;
  uvs_outcome_t o;
  uvs_id_t id, old;

  fixture_init(&f);
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t before = fixture_once(&f, 'o', 0);
  before.keep_outcome = 1;
  before.result = &value[3];
  ASSERT_RC(0, uvs_submit(f.s, &before, &old));
  fixture_turn(&f);
  ASSERT_RC(0, uvs_forget(f.s, old));
  fixture_turn(&f);
  uvs_task_t busy = fixture_once(&f, 'b', 0);
  uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_MS(10));
  probe_of(&busy)->takes_ns = UVS_MS(25);
  t.missed_policy = UVS_MISSED_SKIP;
  t.max_runs = 2;
  t.keep_outcome = 1;
  t.result = &value[1];
  ASSERT_RC(0, uvs_submit(f.s, &busy, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_turn(&f);
  fixture_advance_ms(&f, 100);
  ASSERT_STR_EQ("30(30+3) 40", log_runs(&f, EV_WORK, 'a'));
  ASSERT_RC(0, peek_at(f.s, id, &o));
  ASSERT_RC(0, o.status);
  ASSERT_EQ((void *)&value[1], o.result);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ------------------------------------------------------------- one run, one token --- */

struct call {
  uvs_t *s;
  uvs_id_t id;
};

static int start_again(void *arg) {
  struct call *c = arg;

  return uvs_reschedule(c->s, c->id, 0);
}

static int act_starts_itself_again(struct probe *p, uvs_run_t *run) {
  struct call c = {run->scheduler, run->id};

  log_add(p->f, EV_USER, 'r', run->id, start_again(&c));
  return p->ret;
}

/* F2: the task runs, or is pending, or its body has returned and the loop has not noticed, or it
 * has ended. */
TEST a_task_that_is_running_or_ended_does_not_start_again(void) {
  enum { IN_BODY, IS_PENDING, RETURNED, IS_OVER, MOMENTS };

  for (int moment = 0; moment < MOMENTS; moment++)
    for (int off_loop = 0; off_loop < 2; off_loop++) {
      struct fixture f;
      struct call c;
      uvs_outcome_t o;
      int rc;

      fixture_init(&f);
      CHECK_CALL(fixture_open_turned(&f));
      uvs_task_t t = fixture_once(&f, 'a', 0);
      t.keep_outcome = 1;
      probe_of(&t)->ret = moment == IS_PENDING ? UVS_PENDING : 0;
      if (moment == IN_BODY)
        probe_of(&t)->act = act_starts_itself_again;
      if (moment == RETURNED)
        fakepool_hold();
      c.s = f.s;
      ASSERT_RC(0, uvs_submit(f.s, &t, &c.id));
      fixture_turn(&f);
      if (moment == RETURNED)
        ASSERT(fakepool_step());
      if (moment == IN_BODY)
        rc = log_nth(&f, EV_USER, 'r', 0)->status;
      else
        rc = off_loop ? elsewhere(start_again, &c) : start_again(&c);
      ASSERT_RC(moment <= IS_PENDING ? UV_EBUSY : UV_ENOENT, rc);
      if (moment == IS_PENDING)
        ASSERT_RC(0, uvs_finish(f.s, c.id, 0));
      if (moment == RETURNED)
        fakepool_release();
      fixture_turn(&f);
      fixture_advance_ns(&f, UVS_HOUR(1));
      ASSERT_U64(1, log_count(&f, EV_WORK, 'a'));
      ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
      ASSERT_U64(1, counts_of(f.s).runs);
      ASSERT_RC(0, peek_at(f.s, c.id, &o));
      ASSERT_U64(1, o.runs);
      CHECK_CALL(fixture_close(&f));
    }
  PASS();
}

/* The visible state after a cancel with token, and after a cancel without. */
static const char *seen_of(struct fixture *f, uvs_id_t id, int rc) {
  static char text[2][200];
  static int which;
  uvs_counts_t c = counts_of(f->s);
  uvs_outcome_t o;
  int settled;

  uvs_outcome_init(&o);
  settled = uvs_wait(f->s, id, 0, UVS_WAIT_SETTLED, &o);
  which = !which;
  snprintf(text[which], sizeof text[which], "%d, %d %d %d %d, %d+%d+%d, %d", rc, settled, o.status,
           o.state, (int)o.runs, (int)c.completed, (int)c.cancelled, (int)c.running,
           state_of(f->s, id));
  return text[which];
}

/* F11: the body has returned before the token could reach it. A cancel with token has the same
 * effect as one without: none, or, the second time, the task stays cancelled. */
TEST a_cancel_token_that_comes_too_late_changes_nothing(void) {
  for (int cancelled = 0; cancelled < 2; cancelled++) {
    char seen[2][2][200];

    for (int token = 0; token < 2; token++) {
      struct fixture f;
      uvs_id_t id;
      int rc;

      fixture_init(&f);
      CHECK_CALL(fixture_open_turned(&f));
      uvs_task_t t = fixture_once(&f, 'a', 0);
      t.keep_outcome = 1;
      probe_of(&t)->ret = cancelled ? UVS_PENDING : 0;
      if (!cancelled)
        fakepool_hold();
      ASSERT_RC(0, uvs_submit(f.s, &t, &id));
      fixture_turn(&f);
      if (cancelled) {
        ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, uvs_cancel(f.s, id, 0));
        ASSERT_RC(0, uvs_finish(f.s, id, 0));
      } else {
        ASSERT(fakepool_step());
      }
      rc = uvs_cancel(f.s, id, token ? UVS_CANCEL_TOKEN : 0);
      ASSERT_RC(UV_ENOENT, rc);
      strcpy(seen[token][0], seen_of(&f, id, rc));
      if (!cancelled)
        fakepool_release();
      fixture_turn(&f);
      strcpy(seen[token][1], seen_of(&f, id, rc));
      ASSERT_RC(cancelled ? UV_ECANCELED : 0, log_nth(&f, EV_DONE, 'a', 0)->status);
      ASSERT_U64(cancelled, counts_of(f.s).cancelled);
      CHECK_CALL(fixture_close(&f));
    }
    for (int i = 0; i < 2; i++)
      ASSERT_STR_EQ(seen[0][i], seen[1][i]);
  }
  PASS();
}

/* F11 F12: in time, the token reaches the body. It is not part of the outcome. */
TEST the_cancel_token_is_not_part_of_the_outcome(void) {
  char seen[2][2][200];

  for (int token = 0; token < 2; token++) {
    struct fixture f;
    uvs_id_t id;
    int rc;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = fixture_once(&f, 'a', 0);
    t.keep_outcome = 1;
    probe_of(&t)->ret = UVS_PENDING;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_turn(&f);
    rc = uvs_cancel(f.s, id, token ? UVS_CANCEL_TOKEN : 0);
    ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, rc);
    ASSERT_EQ(token != 0, inspect_token(f.s, id));
    strcpy(seen[token][0], seen_of(&f, id, rc));
    ASSERT_RC(0, uvs_finish(f.s, id, 0));
    fixture_turn(&f);
    strcpy(seen[token][1], seen_of(&f, id, rc));
    ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 0)->status);
    CHECK_CALL(fixture_close(&f));
  }
  for (int i = 0; i < 2; i++)
    ASSERT_STR_EQ(seen[0][i], seen[1][i]);
  PASS();
}

SUITE(futures) {
  RUN_TEST(a_preset_result_survives_a_skipped_first_run);
  RUN_TEST(a_task_that_is_running_or_ended_does_not_start_again);
  RUN_TEST(a_cancel_token_that_comes_too_late_changes_nothing);
  RUN_TEST(the_cancel_token_is_not_part_of_the_outcome);
  RUN_TEST(a_final_outcome_never_changes_while_others_cancel_and_finish);
  RUN_TEST(a_wait_that_timed_out_leaves_no_memory_in_use);
  RUN_TEST(a_cancel_token_reaches_only_its_own_body);
  RUN_TEST(done_is_the_last_callback_and_follows_the_return_of_the_body);
  RUN_TEST(a_cancelled_periodic_task_is_not_armed_again);
  RUN_TEST(the_four_states_of_a_future_have_distinct_names);
}

SUITE(shutdowns) {
  RUN_TEST(delayed_one_shots_run_after_shutdown_and_periodic_tasks_do_not);
  RUN_TEST(without_delayed_survive_a_far_task_ends_and_shutdown_finishes_at_once);
  RUN_TEST(without_initial_delay_a_periodic_task_repeats_and_is_counted_as_waiting);
}

/* Blocking bodies need enough threads in libuv's pool, whatever the environment says. */
TEST_MAIN(uv_os_setenv("UV_THREADPOOL_SIZE", "4"); RUN_SUITE(futures); RUN_SUITE(shutdowns));
