/* SPDX-License-Identifier: MIT
 *
 * UVS_REPLACE and uvs_find: tasks that are found, and replaced, by name.
 */
#include "lib/bodies.h"
#include "lib/control.h"
#include "lib/lanes.h"

static uvs_task_t named(uvs_task_t t, const char *name) {
  t.name = name;
  t.flags |= UVS_REPLACE;
  return t;
}

/* The same without `done`: nobody must be told of its end. */
static uvs_task_t silent(uvs_task_t t, const char *name) {
  t = named(t, name);
  t.done = NULL;
  return t;
}

static uvs_id_t found(struct fixture *f, const char *name) {
  uvs_id_t id = 0;

  return uvs_find(f->s, name, &id) == 0 ? id : 0;
}

/* L31 L32 */
TEST find_and_replace_answer_for_each_name(void) {
  struct fixture f;
  uvs_id_t id, other = 7;

  CHECK_CALL(fixture_open_turned_anew(&f));
  ASSERT_RC(UV_EINVAL, uvs_find(NULL, "a", &id));
  ASSERT_RC(UV_EINVAL, uvs_find(f.s, NULL, &id));
  ASSERT_RC(UV_EINVAL, uvs_find(f.s, "a", NULL));
  ASSERT_RC(UV_ENOENT, uvs_find(f.s, "a", &other));
  uvs_task_t t = named(fixture_once(&f, 'a', UVS_MS(10)), NULL);
  ASSERT_RC(UV_EINVAL, uvs_submit(f.s, &t, NULL));
  t.name = "";
  ASSERT_RC(UV_EINVAL, uvs_submit(f.s, &t, NULL));
  t.name = "123456789012345678901234"; /* one byte too long */
  ASSERT_RC(UV_EINVAL, uvs_submit(f.s, &t, NULL));
  t.name = "12345678901234567890123";
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_U64(id, found(&f, "12345678901234567890123"));
  ASSERT_RC(UV_ENOENT, uvs_find(f.s, "1234567890123456789012", &other));
  ASSERT_RC(UV_ENOENT, uvs_find(f.s, "123456789012345678901234", &other));
  ASSERT_U64(7, other);
  t = fixture_once(&f, 'b', UVS_MS(10));
  t.name = "plain"; /* a name without UVS_REPLACE is only for people */
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT_RC(UV_ENOENT, uvs_find(f.s, "plain", &other));
  t = named(fixture_once(&f, 'c', UVS_MS(10)), "plain");
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL)); /* and is not replaced */
  fixture_advance_ms(&f, 10);
  ASSERT_STR_EQ("abc", log_string(&f, EV_WORK));
  ASSERT_U64(0, found(&f, "12345678901234567890123")); /* they have ended */
  ASSERT_U64(0, found(&f, "plain"));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L31 L33: waiting, ready, paused, periodic, by the wall clock, by calendar */
TEST a_task_without_a_listener_is_replaced_under_the_same_id(void) {
  for (int i = 0; i < 5; i++) {
    struct fixture f;
    uvs_id_t old, id;

    CHECK_CALL(fixture_open_turned_anew(&f));
    uvs_task_t t = silent(i == 0   ? fixture_once(&f, 'a', UVS_MS(10))
                          : i == 4 ? fixture_every_second(&f, 'a')
                                   : fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10)),
                          "job");
    if (i == 3) {
      t = silent(fixture_once(&f, 'a', 0), "job");
      t.from = UVS_FROM_WALL;
      t.first_ns = vclock_wall(&f.clock) + UVS_MS(10);
    }
    ASSERT_RC(0, uvs_submit(f.s, &t, &old));
    uvs_calendar_release(t.calendar);
    fixture_advance_ms(&f, 5);
    if (i == 2)
      ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, old));
    t = named(fixture_once(&f, 'b', UVS_MS(20)), "job");
    ASSERT_RC(UVS_REPLACED, uvs_submit(f.s, &t, &id));
    ASSERT_U64(old, id);
    ASSERT_U64(id, found(&f, "job"));
    ASSERT_U64(1, counts_of(f.s).cancelled);
    ASSERT_U64(1, live_tasks(f.s));
    fixture_advance_ms(&f, 1100);
    ASSERT_STR_EQ("b", log_string(&f, EV_WORK)); /* the new one is not paused */
    ASSERT_RC(0, done_status(&f, 'b'));
    ASSERT_U64(id, log_nth(&f, EV_DONE, 'b', 0)->id);
    ASSERT(inspect_idle(f.s));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

struct replacement {
  uvs_task_t t;
  uvs_id_t id;
  int rc;
};

static int act_replace(struct probe *p, uvs_run_t *run) {
  struct replacement *r = p->data;

  if (run->number == 1)
    r->rc = uvs_submit(p->f->s, &r->t, &r->id);
  return 0;
}

/* L31 L33: a ready task; without and with `done` */
TEST a_ready_task_is_replaced_before_it_starts(void) {
  for (int i = 0; i < 2; i++) {
    struct fixture f;
    struct replacement r;
    uvs_id_t old;

    fixture_init(&f);
    f.options.concurrency = 1;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t a = fixture_once(&f, 'a', 0);
    probe_of(&a)->act = act_replace;
    probe_of(&a)->data = &r;
    ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
    uvs_task_t b = named(fixture_once(&f, 'b', 0), "job");
    if (i == 0)
      b.done = NULL;
    ASSERT_RC(0, uvs_submit(f.s, &b, &old));
    r.t = named(fixture_once(&f, 'c', UVS_MS(5)), "job");
    fixture_turn(&f);
    ASSERT_RC(UVS_REPLACED, r.rc);
    ASSERT_RC(i == 0, r.id == old);
    ASSERT_RC(i == 0 ? INT_MAX : UV_ECANCELED, done_status(&f, 'b'));
    fixture_advance_ms(&f, 5);
    ASSERT_STR_EQ("ac", log_string(&f, EV_WORK));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

static void cleaned(uvs_t *s, void *arg) {
  log_add(uvs_data(s), EV_USER, 'x', 0, 0);
  (void)arg;
}

static void release_nothing(void *arg) {
  (void)arg;
}

static void decorate(uvs_t *s, uvs_id_t id, uvs_decoration_t *d) {
  (void)s;
  (void)id;
  d->release = release_nothing;
}

/* L32 L33: `done`, a kept outcome, a clean-up action, a decoration, a lane (of either) */
TEST a_task_whose_end_is_told_gets_an_id_of_its_own_and_one_done(void) {
  for (int i = 0; i < 6; i++) {
    struct fixture f;
    uvs_lane_t lane;
    uvs_id_t old, id;

    fixture_init(&f);
    if (i == 3)
      f.hooks.decorate = decorate;
    CHECK_CALL(fixture_open_turned(&f));
    CHECK_CALL(open_lane(&f, 1, &lane));
    uvs_task_t t = silent(fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10)), "job");
    if (i == 0)
      t.done = probe_done;
    t.keep_outcome = i == 1;
    t.lane = i == 4 ? lane : 0;
    ASSERT_RC(0, uvs_submit(f.s, &t, &old));
    if (i == 2)
      ASSERT_RC(0, uvs_add_cleanup(f.s, old, cleaned, NULL, 0));
    fixture_turn(&f);
    t = named(fixture_once(&f, 'b', UVS_MS(20)), "job");
    t.lane = i == 5 ? lane : 0;
    ASSERT_RC(UVS_REPLACED, uvs_submit(f.s, &t, &id));
    ASSERT(old != id);
    ASSERT_U64(id, found(&f, "job"));
    ASSERT_RC(UV_ENOENT, uvs_cancel(f.s, old, 0));
    fixture_turn(&f);
    if (i == 0)
      ASSERT_RC(UV_ECANCELED, done_status(&f, 'a'));
    ASSERT_U64(i == 2, log_count(&f, EV_USER, 'x'));
    if (i == 1) {
      uvs_outcome_t o;

      uvs_outcome_init(&o);
      ASSERT_RC(0, uvs_wait(f.s, old, 0, 0, &o));
      ASSERT_RC(UV_ECANCELED, o.status);
      ASSERT_RC(0, uvs_forget(f.s, old));
    }
    fixture_advance_ms(&f, 30);
    ASSERT_STR_EQ("b", log_string(&f, EV_WORK));
    ASSERT_RC(0, done_status(&f, 'b'));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* A periodic task 'a' with the name "job" whose run is pending. */
static enum greatest_test_res open_running(struct fixture *f, uvs_id_t *ret) {
  CHECK_CALL(fixture_open_turned_anew(f));
  uvs_task_t t = named(fixture_rate(f, 'a', 0, UVS_MS(10)), "job");
  probe_of(&t)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f->s, &t, ret));
  fixture_turn(f);
  ASSERT_RC(UVS_RUNNING, state_of(f->s, *ret));
  PASS();
}

/* L34: one-shot, periodic, by the wall clock, loop task, by calendar; due, and not yet due when the
 * run ends */
TEST a_task_that_replaces_a_running_one_waits_for_the_end_of_its_run(void) {
  for (int i = 0; i < 10; i++) {
    bool due = i < 5;
    struct fixture f;
    uvs_id_t old, id;

    CHECK_CALL(open_running(&f, &old));
    uvs_task_t t = i % 5 == 3   ? fixture_loop_task(&f, 'b', UVS_MS(1000))
                   : i % 5 == 4 ? fixture_every_second(&f, 'b')
                                : fixture_once(&f, 'b', UVS_MS(1000));
    if (i % 5 == 1)
      t = fixture_rate(&f, 'b', UVS_MS(1000), UVS_SEC(10));
    if (i % 5 == 2) {
      t.from = UVS_FROM_WALL;
      t.first_ns = vclock_wall(&f.clock) + UVS_MS(1000);
    }
    t = named(t, "job");
    ASSERT_RC(UVS_REPLACED, uvs_submit(f.s, &t, &id));
    uvs_calendar_release(t.calendar);
    ASSERT(old != id);
    ASSERT_U64(id, found(&f, "job"));
    ASSERT_RC(UV_EBUSY, uvs_run_now(f.s, id));
    ASSERT_RC(0, uvs_next_runs(f.s, id, NULL, 0));
    ASSERT_RC(UVS_CANCELLED_BEFORE, uvs_cancel(f.s, old, 0));
    fixture_advance_ms(&f, due ? 1002 : 500);
    ASSERT_STR_EQ("a", log_string(&f, 0));
    ASSERT_RC(0, uvs_finish(f.s, old, 0));
    fixture_turn(&f);
    ASSERT_RC(UV_ECANCELED, done_status(&f, 'a'));
    if (!due)
      fixture_advance_ms(&f, 500);
    ASSERT_U64(1, log_count(&f, t.work == NULL ? EV_AFTER : EV_WORK, 'b'));
    ASSERT_U64(1, log_count(&f, EV_WORK, 'a')); /* no run follows */
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L34: `after` of the old run comes first. */
TEST the_new_task_waits_for_after_of_the_old_run(void) {
  struct fixture f;
  struct replacement r;

  fixture_init(&f);
  f.options.concurrency = 2;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = named(fixture_rate(&f, 'a', 0, UVS_MS(10)), "job");
  t.after = probe_after;
  probe_of(&t)->act = act_replace; /* the body replaces its own task */
  probe_of(&t)->data = &r;
  r.t = named(fixture_once(&f, 'b', 0), "job");
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ms(&f, 20);
  ASSERT_RC(UVS_REPLACED, r.rc);
  ASSERT_RC(EV_WORK, f.log[0].what);
  ASSERT_RC(EV_AFTER, f.log[1].what); /* before the body of 'b' */
  ASSERT_STR_EQ("ab", log_string(&f, EV_WORK));
  ASSERT_RC(UV_ECANCELED, done_status(&f, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L32 L34: while one runs, three follow one another; only the last runs, and each has one `done`.
 */
TEST of_a_chain_of_replacements_only_the_last_task_runs(void) {
  struct fixture f;
  uvs_id_t old, id[3];

  CHECK_CALL(open_running(&f, &old));
  for (int i = 0; i < 3; i++) {
    uvs_task_t t = named(fixture_once(&f, 'b' + i, 0), "job");
    ASSERT_RC(UVS_REPLACED, uvs_submit(f.s, &t, &id[i]));
    fixture_turn(&f);
  }
  ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
  ASSERT_RC(UV_ECANCELED, done_status(&f, 'b'));
  ASSERT_RC(UV_ECANCELED, done_status(&f, 'c'));
  ASSERT_RC(0, uvs_finish(f.s, old, 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("ad", log_string(&f, EV_WORK));
  ASSERT_RC(0, done_status(&f, 'd'));
  ASSERT_U64(3, counts_of(f.s).cancelled);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L34: the task that waits is cancelled; the name is free. The next task is not held back by the
 * run of the first, and a task that replaces it waits for its run, not for that of the first. */
TEST a_held_task_waits_for_the_run_of_its_own_predecessor(void) {
  struct fixture f;
  uvs_id_t first, id;

  CHECK_CALL(open_running(&f, &first));
  uvs_task_t t = named(fixture_once(&f, 'b', 0), "job");
  ASSERT_RC(UVS_REPLACED, uvs_submit(f.s, &t, &id));
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, 0));
  ASSERT_U64(0, found(&f, "job"));
  t = named(fixture_once(&f, 'c', 0), "job");
  probe_of(&t)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_turn(&f);
  ASSERT_STR_EQ("ac", log_string(&f, EV_WORK));
  t = named(fixture_once(&f, 'd', 0), "job");
  ASSERT_RC(UVS_REPLACED, uvs_submit(f.s, &t, NULL));
  ASSERT_RC(0, uvs_finish(f.s, first, 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("ac", log_string(&f, EV_WORK)); /* 'c' still runs */
  ASSERT_RC(0, uvs_finish(f.s, id, 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("acd", log_string(&f, EV_WORK));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L31 L34: a task that was cancelled while it runs: uvs_find does not find it, and it is not
 * replaced, but its run is waited for. */
TEST a_cancelled_task_that_still_runs_is_not_found_and_not_replaced(void) {
  struct fixture f;
  uvs_id_t old;

  CHECK_CALL(open_running(&f, &old));
  ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, uvs_cancel(f.s, old, 0));
  ASSERT_U64(0, found(&f, "job"));
  uvs_task_t t = named(fixture_once(&f, 'b', 0), "job");
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
  ASSERT_RC(0, uvs_finish(f.s, old, 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("ab", log_string(&f, EV_WORK));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L34: pause, move and shutdown of a task that waits for the run of its predecessor */
TEST a_held_task_can_be_paused_and_moved_and_ends_at_a_shutdown(void) {
  struct fixture f;
  uvs_id_t old, id;

  CHECK_CALL(open_running(&f, &old));
  uvs_task_t t = named(fixture_once(&f, 'b', 0), "job");
  ASSERT_RC(UVS_REPLACED, uvs_submit(f.s, &t, &id));
  ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id));
  ASSERT_RC(0, uvs_reschedule(f.s, id, UVS_MS(5)));
  ASSERT_RC(0, uvs_finish(f.s, old, 0));
  fixture_advance_ms(&f, 20);
  ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
  ASSERT_RC(0, uvs_resume(f.s, id, 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("ab", log_string(&f, EV_WORK));
  CHECK_CALL(fixture_close(&f));

  CHECK_CALL(open_running(&f, &old));
  t = named(fixture_once(&f, 'b', UVS_MS(5)), "job");
  ASSERT_RC(UVS_REPLACED, uvs_submit(f.s, &t, &id));
  ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id));
  ASSERT_RC(0, uvs_resume(f.s, id, 0)); /* it still waits for the run */
  fixture_advance_ms(&f, 10);
  ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
  ASSERT_RC(0, uvs_shutdown_now(f.s, NULL, NULL));
  fixture_turn(&f);
  ASSERT_RC(UV_ECANCELED, done_status(&f, 'b'));
  ASSERT_RC(0, uvs_finish(f.s, old, 0));
  fixture_turn(&f);
  ASSERT_RC(1, uvs_is_terminated(f.s));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L31: the second task of a batch replaces the first. */
TEST a_batch_may_hold_the_same_name_twice(void) {
  for (int i = 0; i < 2; i++) {
    struct fixture f;
    uvs_id_t ids[2];

    CHECK_CALL(fixture_open_turned_anew(&f));
    uvs_task_t t[2] = {named(fixture_once(&f, 'a', 0), "job"),
                       named(fixture_once(&f, 'b', 0), "job")};
    if (i == 0)
      t[0].done = NULL;
    ASSERT_RC(UVS_REPLACED, uvs_submit_many(f.s, t, 2, ids));
    ASSERT_RC(i == 0, ids[0] == ids[1]);
    fixture_turn(&f);
    ASSERT_STR_EQ("b", log_string(&f, EV_WORK));
    ASSERT_RC(0, done_status(&f, 'b'));
    ASSERT_RC(i == 0 ? INT_MAX : UV_ECANCELED, done_status(&f, 'a'));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L32: a lane with a task that replaces, and is replaced, becomes quiet. */
TEST tasks_of_lanes_are_replaced_and_the_lane_becomes_quiet(void) {
  struct fixture f;
  uvs_lane_t lane;

  CHECK_CALL(open_with_lane(&f, 1, 1, &lane));
  uvs_task_t t = in_lane(named(fixture_once(&f, 'a', UVS_MS(10)), "job"), lane);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  t = in_lane(named(fixture_once(&f, 'b', UVS_MS(10)), "job"), lane);
  ASSERT_RC(UVS_REPLACED, uvs_submit(f.s, &t, NULL));
  ASSERT_RC(0, uvs_lane_dispose(lane, 0));
  fixture_turn(&f);
  ASSERT_RC(UV_ECANCELED, done_status(&f, 'a'));
  ASSERT_RC(UV_ECANCELED, done_status(&f, 'b'));
  ASSERT_U64(1, log_count(&f, EV_USER, 'q'));
  ASSERT_U64(0, found(&f, "job"));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L31: the id of a lane gives access to that lane only, so not to names. */
TEST a_lane_cannot_replace_tasks_of_the_scheduler(void) {
  struct fixture f;
  uvs_lane_t lane;
  uvs_id_t id;

  CHECK_CALL(open_with_lane(&f, 1, 1, &lane));
  uvs_task_t t = named(fixture_once(&f, 'a', UVS_MS(10)), "job");
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  t = named(fixture_once(&f, 'b', UVS_MS(10)), "job");
  ASSERT_RC(UV_EINVAL, uvs_lane_submit(lane, &t, &id));
  fixture_advance_ms(&f, 10);
  ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L31: without room nothing is replaced; CALLER_RUNS does not run it; DISCARD drops the new one. */
TEST a_full_scheduler_replaces_nothing(void) {
  for (int policy = UVS_REJECT_ABORT; policy <= UVS_REJECT_CALLER_RUNS; policy++) {
    struct fixture f;
    uvs_id_t old;

    if (policy == UVS_REJECT_DISCARD_OLDEST)
      continue; /* drops the old one first */
    fixture_init(&f);
    f.options.max_pending = 1;
    f.options.rejection_policy = policy;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = silent(fixture_once(&f, 'a', UVS_MS(10)), "job");
    ASSERT_RC(0, uvs_submit(f.s, &t, &old));
    t = named(fixture_once(&f, 'b', 0), "job");
    ASSERT_RC(policy == UVS_REJECT_DISCARD ? 0 : UV_EAGAIN, uvs_submit(f.s, &t, NULL));
    ASSERT_U64(old, found(&f, "job"));
    fixture_advance_ms(&f, 10);
    ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

#define NAMES 1000

/* L31: the index. Tasks come, are replaced and end in random order; each name leads to its task. */
TEST each_of_a_thousand_names_leads_to_its_task(void) {
  static uvs_id_t ids[NAMES];
  uint64_t random = test_seed;
  struct fixture f;

  CHECK_CALL(fixture_open_turned_anew(&f));
  memset(ids, 0, sizeof ids);
  for (int step = 0; step < 6 * NAMES; step++) {
    unsigned i = (unsigned)test_random_below(&random, NAMES);
    char name[UVS_NAME_MAX + 1];

    snprintf(name, sizeof name, "task-%u", i);
    ASSERT_U64(ids[i], found(&f, name));
    if (ids[i] != 0 && step % 3 == 0) {
      ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, ids[i], 0));
      ids[i] = 0;
    } else {
      uvs_task_t t;

      uvs_task_init(&t);
      t.work = work_nothing;
      t.first_ns = UVS_HOUR(1);
      t.name = name;
      t.flags = UVS_REPLACE;
      int expected = ids[i] == 0 ? 0 : UVS_REPLACED;
      ASSERT_RC(expected, uvs_submit(f.s, &t, &ids[i]));
    }
  }
  for (unsigned i = 0; i < NAMES; i++) {
    char name[UVS_NAME_MAX + 1];

    snprintf(name, sizeof name, "task-%u", i);
    ASSERT_U64(ids[i], found(&f, name));
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L10: a submission that fails for lack of memory replaces nothing. */
TEST without_memory_nothing_is_replaced_paused_or_run(void) {
  static uvs_id_t many[5000];
  struct fixture f;
  uvs_id_t old, plain;
  int rc = 0;

  CHECK_CALL(fixture_open_turned_anew(&f));
  uvs_task_t t = named(fixture_once(&f, 'a', UVS_MS(10)), "job");
  ASSERT_RC(0, uvs_submit(f.s, &t, &old));
  t = fixture_once(&f, 'p', UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &t, &plain));
  uvs_task_t spare = fixture_once(&f, 's', UVS_HOUR(1));
  spare.name = "spare";
  for (int i = 0; i < 5000; i++) /* room for tasks, but not for extra records */
    ASSERT_RC(0, uvs_schedule(f.s, UVS_HOUR(1), work_nothing, NULL, &many[i]));
  for (int i = 0; i < 5000; i++)
    ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, many[i], 0));
  fault_from(0);
  for (int i = 0; rc == 0 && i < 100000; i++) /* until no extra record is left */
    rc = uvs_submit(f.s, &spare, NULL);
  ASSERT_RC(UV_ENOMEM, rc);
  t = named(fixture_once(&f, 'b', UVS_MS(10)), "job");
  ASSERT_RC(UV_ENOMEM, uvs_submit(f.s, &t, NULL));
  ASSERT_U64(old, found(&f, "job"));
  ASSERT_RC(UV_ENOMEM, uvs_pause(f.s, plain));
  ASSERT_RC(UV_ENOMEM, uvs_run_now(f.s, plain));
  ASSERT(fault_hit());
  fixture_advance_ms(&f, 10);
  ASSERT_STR_EQ("ap", log_string(&f, EV_WORK));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(replaces) {
  RUN_TEST(find_and_replace_answer_for_each_name);
  RUN_TEST(a_task_without_a_listener_is_replaced_under_the_same_id);
  RUN_TEST(a_ready_task_is_replaced_before_it_starts);
  RUN_TEST(a_task_whose_end_is_told_gets_an_id_of_its_own_and_one_done);
  RUN_TEST(a_batch_may_hold_the_same_name_twice);
  RUN_TEST(tasks_of_lanes_are_replaced_and_the_lane_becomes_quiet);
  RUN_TEST(a_lane_cannot_replace_tasks_of_the_scheduler);
  RUN_TEST(a_full_scheduler_replaces_nothing);
  RUN_TEST(each_of_a_thousand_names_leads_to_its_task);
  RUN_TEST(without_memory_nothing_is_replaced_paused_or_run);
}

SUITE(replaces_a_running_task) {
  RUN_TEST(a_task_that_replaces_a_running_one_waits_for_the_end_of_its_run);
  RUN_TEST(the_new_task_waits_for_after_of_the_old_run);
  RUN_TEST(of_a_chain_of_replacements_only_the_last_task_runs);
  RUN_TEST(a_held_task_waits_for_the_run_of_its_own_predecessor);
  RUN_TEST(a_cancelled_task_that_still_runs_is_not_found_and_not_replaced);
  RUN_TEST(a_held_task_can_be_paused_and_moved_and_ends_at_a_shutdown);
}

TEST_MAIN(RUN_SUITE(replaces); RUN_SUITE(replaces_a_running_task));
