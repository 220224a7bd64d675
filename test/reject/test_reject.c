/* SPDX-License-Identifier: MIT
 *
 * At the cap: a submission is discarded, or the oldest task is. Handlers are in test_reject_ask.c,
 * tasks that the submitter runs itself in test_reject_here.c.
 */
#include "lib/bodies.h"
#include "lib/full.h"

#define UNTOUCHED UINT64_C(0x7e57)

/* ----------------------------------------------------------------- discard --- */

static int decorations;

static void count_decorations(uvs_t *s, uvs_id_t id, uvs_decoration_t *d) {
  (void)s;
  (void)id;
  (void)d;
  decorations++;
}

/* A task of any kind, with every optional part of a spec. */
static uvs_task_t any_spec(struct fixture *f, int i) {
  uvs_task_t t = i % 6 == 3   ? fixture_loop_task(f, 'a', 0)
                 : i % 6 == 1 ? fixture_rate(f, 'a', 0, UVS_MS(5))
                              : fixture_once(f, 'a', i % 2 != 0 ? UVS_NEVER : 0);

  if (i % 6 == 2) {
    t.from = UVS_FROM_WALL;
    t.first_ns = 1;
  }
  if (i % 6 == 4) {
    t.after = probe_after;
    t.name = "cold";
    t.jitter_ns = 5;
  }
  if (i % 6 == 5)
    t.flags = UVS_UNREF;
  return t;
}

/* S16 V10 V9 */
TEST a_discarded_task_is_accepted_and_ends_without_a_run(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    for (int decorated = 0; decorated < 2; decorated++) {
      struct fixture f;

      prepare(&f, 2, UVS_REJECT_DISCARD);
      f.hooks.decorate = decorated ? count_decorations : NULL;
      CHECK_CALL(fill(&f));
      fixture_turn(&f); /* the hook hears of those that fill it */
      decorations = 0;
      for (int i = 0; i < 6; i++) {
        uvs_task_t t = any_spec(&f, i);
        uvs_id_t id = 0;

        log_clear(&f);
        ASSERT_RC(0, submit_from(off_loop, f.s, &t, 1, &id));
        ASSERT(id != 0);
        ASSERT_U64(0, log_total(&f)); /* nothing from inside the call */
        /* Immediately: counted as submitted and dropped, and no room is taken. */
        uvs_counts_t c = counts_of(f.s);
        ASSERT(adds_up(&c));
        ASSERT_U64((unsigned)i + 1, c.dropped);
        ASSERT_U64((unsigned)i + 3, c.submitted);
        ASSERT_U64(2, c.waiting);
        ASSERT_U64(0, c.rejected + c.cancelled + c.runs);
        struct look l = look_at(f.s, id);
        ASSERT_RC(0, l.rc);
        ASSERT_RC(UVS_ENDED, l.info.state);
        ASSERT_RC(1, l.info.cancelled);
        ASSERT_RC(UV_ENOENT, uvs_cancel(f.s, id, 0));
        ASSERT_RC(UV_ENOENT, uvs_reschedule(f.s, id, 0));
        ASSERT_RC(UV_ENOENT, uvs_finish(f.s, id, 0));
        ASSERT_RC(UV_ENOENT, uvs_ref(f.s, id));
        fixture_turn(&f);
        ASSERT_U64(1, log_total(&f)); /* no error hook either */
        ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
        ASSERT_U64(id, log_nth(&f, EV_DONE, 'a', 0)->id);
        ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 0)->status);
        ASSERT(log_nth(&f, EV_DONE, 'a', 0)->on_loop);
        ASSERT_RC(UV_ENOENT, look_at(f.s, id).rc);
      }
      ASSERT_RC(0, decorations);
      CHECK_CALL(close_checked(&f));
    }
  }
  PASS();
}

/* S16 P5: the short calls, which have no `done`. */
TEST every_form_of_submission_is_discarded_above_the_cap(void) {
  for (int turned = 0; turned < 2; turned++) {
    struct fixture f;
    uvs_id_t ids[FORMS] = {0};

    prepare(&f, 1, UVS_REJECT_DISCARD);
    CHECK_CALL(turned ? fixture_open_turned(&f) : fixture_open(&f));
    uvs_task_t x = fixture_once(&f, 'x', UVS_HOUR(1)), t = fixture_once(&f, 'a', 0);
    ASSERT_RC(0, uvs_submit(f.s, &x, NULL));
    for (int form = 0; form < FORMS; form++) {
      ASSERT_RC(0, submit_form(f.s, form, &t, &ids[form]));
      ASSERT_EQ(form != 2, ids[form] != 0); /* uvs_execute gives none */
    }
    ASSERT_U64(FORMS, counts_of(f.s).dropped);
    fixture_advance_ms(&f, 50);
    ASSERT_U64(0, log_count(&f, EV_WORK, 0));
    ASSERT_U64(2, log_count(&f, EV_DONE, 'a')); /* of those that have one */
    ASSERT_U64(FORMS, counts_of(f.s).dropped);
    ASSERT_U64(1, counts_of(f.s).waiting);
    CHECK_CALL(close_checked(&f));
  }
  PASS();
}

/* S16 P5 */
TEST a_batch_is_discarded_all_or_none(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    struct fixture f;
    uvs_task_t t[5];
    uvs_id_t ids[5] = {0};

    prepare(&f, 6, UVS_REJECT_DISCARD);
    CHECK_CALL(fixture_open_turned(&f));
    for (int i = 0; i < 5; i++)
      t[i] = fixture_once(&f, 'a' + i, UVS_MS(10));
    ASSERT_RC(0, submit_from(off_loop, f.s, t, 4, NULL)); /* two more would fit ... */
    ASSERT_RC(0, submit_from(off_loop, f.s, t, 5, ids));  /* ... but five do not */
    for (int i = 0; i < 5; i++) {
      ASSERT_RC(UVS_ENDED, look_at(f.s, ids[i]).info.state);
      for (int k = 0; k < i; k++)
        ASSERT(ids[k] != ids[i]);
    }
    ASSERT_U64(5, counts_of(f.s).dropped);
    ASSERT_RC(0, submit_from(off_loop, f.s, t, 2, NULL)); /* the room is still there */
    fixture_turn(&f);
    ASSERT_STR_EQ("abcde", log_string(&f, EV_DONE));
    fixture_advance_ms(&f, 10);
    ASSERT_STR_EQ("abcdab", log_string(&f, EV_WORK));
    ASSERT_STR_EQ("abcdeabcdab", log_string(&f, EV_DONE));
    ASSERT_U64(5, counts_of(f.s).dropped);
    ASSERT_U64(6, counts_of(f.s).completed);
    CHECK_CALL(close_checked(&f));
  }
  PASS();
}

struct kept {
  uvs_t *s;
  uvs_id_t id;
  uvs_outcome_t o;
};

static int do_wait(void *arg) {
  struct kept *k = arg;

  uvs_outcome_init(&k->o);
  return uvs_wait(k->s, k->id, UVS_NEVER, 0, &k->o);
}

/* S16 V10 F13 */
TEST the_outcome_of_a_discarded_task_is_kept(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    for (int when = 0; when < 3;
         when++) { /* asked before, and after, its end; and forgotten first */
      struct fixture f;
      struct kept k;

      CHECK_CALL(open_full(&f, 1, UVS_REJECT_DISCARD));
      uvs_task_t t = fixture_once(&f, 'a', 0);
      t.keep_outcome = 1;
      t.result = &f;
      k.s = f.s;
      ASSERT_RC(0, submit_from(off_loop, f.s, &t, 1, &k.id));
      if (when == 1)
        fixture_turn(&f);
      if (when == 2) {
        ASSERT_RC(0, uvs_forget(f.s, k.id));
        ASSERT_RC(UV_ENOENT, elsewhere(do_wait, &k));
      } else {
        ASSERT_RC(0, elsewhere(do_wait, &k));
        ASSERT_RC(UV_ECANCELED, k.o.status);
        ASSERT_RC(UVS_ENDED, k.o.state);
        ASSERT(k.o.result == NULL);
        ASSERT_U64(0, k.o.runs);
        ASSERT_I64(0, k.o.start_ns);
        ASSERT_RC(0, uvs_wait(f.s, k.id, 0, 0, NULL)); /* on the loop too: no need to sleep */
        ASSERT_RC(0, uvs_forget(f.s, k.id));
      }
      fixture_turn(&f);
      ASSERT_RC(UV_ENOENT, uvs_wait(f.s, k.id, 0, 0, NULL));
      ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
      CHECK_CALL(close_checked(&f));
    }
  }
  PASS();
}

/* S16 S50 S47 */
TEST discarded_groups_end_immediately(void) {
  struct fixture f;
  struct gathering g = {.f = &f, .winner = 7};

  CHECK_CALL(open_full(&f, 1, UVS_REJECT_DISCARD));
  g.t[0] = fixture_once(&f, 'a', 0);
  g.t[1] = fixture_once(&f, 'b', UVS_NEVER);
  ASSERT_RC(0, elsewhere(do_all, &g)); /* without a loop pass */
  ASSERT_RC(UV_ECANCELED, g.o[0].status);
  ASSERT_RC(UV_ECANCELED, g.o[1].status);
  ASSERT_RC(UV_ECANCELED, elsewhere(do_any, &g));
  ASSERT_U64(7, g.winner);
  ASSERT_U64(4, counts_of(f.s).dropped);
  fixture_turn(&f);
  ASSERT_STR_EQ("abab", log_string(&f, EV_DONE));
  ASSERT_U64(0, log_count(&f, EV_WORK, 0));
  CHECK_CALL(close_checked(&f));
  PASS();
}

/* V2 V10: a dropped task is not handed back. */
TEST a_discarded_task_has_ended_before_a_later_shutdown(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    struct fixture f;

    CHECK_CALL(open_full(&f, 1, UVS_REJECT_DISCARD));
    uvs_task_t t = fixture_once(&f, 'a', 0);
    ASSERT_RC(0, submit_from(off_loop, f.s, &t, 1, NULL));
    ASSERT_RC(0, uvs_shutdown_now(f.s, probe_never_ran, NULL));
    ASSERT_U64(0, log_total(&f));
    fixture_turn(&f);
    ASSERT_STR_EQ("x", log_string(&f, EV_NEVER_RAN));
    ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
    ASSERT_U64(1, counts_of(f.s).dropped);
    ASSERT_U64(1, counts_of(f.s).cancelled);
    ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
    CHECK_CALL(close_checked(&f));
  }
  PASS();
}

enum { CROWD = 4000 };

static int discard_crowd(void *s) {
  for (int i = 0; i < CROWD; i++)
    if (uvs_execute(s, work_nothing, NULL) != 0)
      return i + 1;
  return 0;
}

/* S55 L16: without a `done` the loop need not be woken. The tasks are freed immediately. */
TEST discarded_tasks_are_freed_without_the_loop(void) {
  struct fixture f;
  uvs_counts_t c;

  CHECK_CALL(open_full(&f, 1, UVS_REJECT_DISCARD));
  fixture_turn(&f);
  fakepool_forget();
  ASSERT_RC(0, elsewhere(discard_crowd, f.s));
  ASSERT_U64(0, fakepool_seen().async_sends);
  ASSERT_U64(1, inspect_records(f.s));
  ASSERT_U64(CROWD, counts_of(f.s).dropped);
  fixture_turn(&f);
  c = counts_of(f.s);
  ASSERT_RC(0, elsewhere(discard_crowd, f.s));
  fixture_turn(&f);
  ASSERT_U64(c.slots, counts_of(f.s).slots);
  ASSERT_RC(0, discard_crowd(f.s)); /* on the loop gone at once */
  ASSERT(counts_of(f.s).slots <= c.slots + 64 * 4);
  CHECK_CALL(close_checked(&f));
  PASS();
}

/* L16 */
TEST the_done_of_a_discarded_task_is_called_promptly(void) {
  struct fixture f;
  unsigned dones = 0;

  CHECK_CALL(open_full(&f, 1, UVS_REJECT_DISCARD));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  fixture_turn(&f);
  fakepool_forget();
  ASSERT_RC(0, submit_from(true, f.s, &t, 1, NULL));
  ASSERT_U64(1, fakepool_seen().async_sends);
  ASSERT(fixture_run(&f, UV_RUN_ONCE, &dones));
  ASSERT_U64(1, dones);
  /* On the loop: the loop stays alive for it, whatever else there is. */
  ASSERT_RC(0, uvs_set_rejection_policy(f.s, UVS_REJECT_DISCARD));
  t.flags = UVS_UNREF;
  ASSERT_RC(0, submit_from(false, f.s, &t, 1, NULL));
  ASSERT(fixture_run(&f, UV_RUN_ONCE, &dones));
  ASSERT_U64(2, dones);
  CHECK_CALL(close_checked(&f));
  PASS();
}

/* ---------------------------------------------------------- discard oldest --- */

/* P6 */
TEST discard_oldest_drops_the_head_of_the_queue_for_a_new_task(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    struct fixture f;
    uvs_task_t t[5];
    uvs_id_t ids[5];

    prepare(&f, 3, UVS_REJECT_DISCARD_OLDEST);
    CHECK_CALL(fixture_open_turned(&f));
    for (int i = 0; i < 5; i++)
      t[i] = fixture_once(&f, 'a' + i, UVS_MS(10 - i)); /* the last is the head */
    for (int i = 0; i < 3; i++)
      ASSERT_RC(0, submit_from(off_loop, f.s, &t[i], 1, &ids[i]));
    fixture_turn(&f);
    ASSERT_RC(0, submit_from(off_loop, f.s, &t[3], 1, &ids[3]));
    ASSERT_U64(0, log_total(&f)); /* not from inside */
    if (!off_loop) {              /* at once */
      ASSERT_RC(UVS_ENDED, state_of(f.s, ids[2]));
      ASSERT_U64(3, counts_of(f.s).waiting);
      ASSERT_U64(1, counts_of(f.s).dropped);
    }
    fixture_turn(&f);
    ASSERT_STR_EQ("c", log_string(&f, EV_DONE));
    ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'c', 0)->status);
    ASSERT_U64(3, counts_of(f.s).waiting);
    ASSERT_U64(1, counts_of(f.s).dropped);
    ASSERT_U64(0, counts_of(f.s).cancelled + counts_of(f.s).rejected);
    ASSERT_RC(0, submit_from(off_loop, f.s, &t[4], 1, &ids[4]));
    fixture_turn(&f);
    ASSERT_STR_EQ("cd", log_string(&f, EV_DONE)); /* the newcomer of before is the head now */
    fixture_advance_ms(&f, 10);
    ASSERT_STR_EQ("eba", log_string(&f, EV_WORK));
    ASSERT_STR_EQ("cdeba", log_string(&f, EV_DONE));
    ASSERT_U64(0, log_count(&f, EV_ERROR, 0));
    CHECK_CALL(close_checked(&f));
  }
  PASS();
}

/* P6: first ready tasks of the pool, then of the loop, then the delay queues of both clocks. Tasks
 * that are never due are not dropped. */
TEST discard_oldest_drops_the_task_that_would_start_next(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    struct fixture f;
    char expected[32];

    prepare(&f, 8, UVS_REJECT_DISCARD_OLDEST);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t n = fixture_once(&f, 'n', UVS_NEVER), h = fixture_once(&f, 'h', UVS_MS(20));
    uvs_task_t w = fixture_once(&f, 'w', vclock_wall(&f.clock) + UVS_MS(15));
    uvs_task_t v = fixture_once(&f, 'v', vclock_wall(&f.clock) + UVS_MS(25));
    uvs_task_t p = fixture_once(&f, 'p', UVS_MS(1)), q = fixture_once(&f, 'q', UVS_MS(1));
    uvs_task_t l = fixture_loop_task(&f, 'l', UVS_MS(1)), m = fixture_loop_task(&f, 'm', UVS_MS(1));
    w.from = v.from = UVS_FROM_WALL;
    const uvs_task_t *all[] = {&n, &v, &h, &w, &m, &l, &q, &p};
    for (int i = 0; i < 8; i++)
      ASSERT_RC(0, uvs_submit(f.s, all[i], NULL));
    fakepool_hold();
    vclock_advance_ns(&f.clock, UVS_MS(1));
    uvs_task_t x = fixture_once(&f, 'x', UVS_NEVER);
    ASSERT_RC(0, uvs_clock_changed(f.s));
    fixture_turn(&f); /* m and l run on the loop; q and p wait for the pool */
    ASSERT_STR_EQ("ml", log_string(&f, EV_AFTER));
    ASSERT_U64(2, counts_of(f.s).ready);
    for (int i = 0; i < 2; i++) /* the room of m and l */
      ASSERT_RC(0, uvs_submit(f.s, &x, NULL));
    expected[0] = '\0';
    for (int i = 0; i < 6; i++) {
      log_clear(&f);
      ASSERT_RC(0, submit_from(off_loop, f.s, &x, 1, NULL));
      fixture_turn(&f);
      ASSERT_U64(8, live_tasks(f.s));
      strcat(expected, log_string(&f, EV_DONE));
    }
    ASSERT_STR_EQ("qpwhvx", expected); /* with only "never" left, the newcomer itself */
    fakepool_release();
    fixture_turn(&f);
    ASSERT_U64(6, counts_of(f.s).dropped);
    ASSERT_U64(2, counts_of(f.s).completed);
    CHECK_CALL(close_checked(&f));
  }
  PASS();
}

static int act_submits(struct probe *p, uvs_run_t *run) {
  return uvs_submit(run->scheduler, p->data, NULL);
}

/* P6: the loop's own list of due tasks. */
TEST discard_oldest_drops_a_due_loop_task_before_a_waiting_task(void) {
  for (int concurrency = 0; concurrency < 2; concurrency++) {
    struct fixture f;

    prepare(&f, 4, UVS_REJECT_DISCARD_OLDEST);
    f.options.concurrency = concurrency;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t x = fixture_once(&f, 'x', UVS_MS(5));
    uvs_task_t a = fixture_loop_task(&f, 'a', UVS_MS(1)), b = fixture_loop_task(&f, 'b', UVS_MS(1));
    uvs_task_t c = fixture_loop_task(&f, 'c', UVS_MS(1)), w = fixture_once(&f, 'w', UVS_MS(2));
    probe_of(&a)->act = act_submits;
    probe_of(&a)->data = &x;
    ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &c, NULL));
    ASSERT_RC(0, uvs_submit(f.s, &w, NULL));
    fixture_advance_ms(&f, 10); /* a runs, and b has to go for x */
    ASSERT_STR_EQ("ac", log_string(&f, EV_AFTER));
    ASSERT_STR_EQ("wx", log_string(&f, EV_WORK));
    ASSERT_U64(1, log_count(&f, EV_DONE, 'b'));
    ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'b', 0)->status);
    ASSERT_U64(1, counts_of(f.s).dropped);
    CHECK_CALL(close_checked(&f));
  }
  PASS();
}

struct arrivals {
  uvs_task_t on_loop, next, newcomer;
  int rc;
};

static int act_makes_two_due(struct probe *p, uvs_run_t *run) {
  struct arrivals *a = p->data;

  return uvs_submit(run->scheduler, &a->on_loop, NULL) | uvs_submit(run->scheduler, &a->next, NULL);
}

/* The first new task takes the room that r has left. */
static int act_submits_two(struct probe *p, uvs_run_t *run) {
  struct arrivals *a = p->data;

  a->rc = uvs_submit(run->scheduler, &a->newcomer, NULL);
  a->rc |= uvs_submit(run->scheduler, &a->newcomer, NULL);
  return 0;
}

/* P6: a runner has found a due task of the loop, and the loop has not looked yet. A runner looks
 * only on the real clock. The test does not depend on timing. */
TEST discard_oldest_drops_a_loop_task_found_by_a_runner_before_a_waiting_task(void) {
  struct fixture f;
  struct arrivals a = {.rc = UV_EAGAIN};

  prepare(&f, 4, UVS_REJECT_DISCARD_OLDEST);
  f.real_clock = true;
  CHECK_CALL(fixture_open_turned(&f));
  inspect_set_budget_ns(f.s, (uint64_t)UVS_HOUR(1)); /* the runner stays for the second body */
  uvs_task_t w = fixture_once(&f, 'w', UVS_HOUR(1)), r = fixture_once(&f, 'r', 0);
  a.on_loop = fixture_loop_task(&f, 'l', 0);
  a.next = fixture_once(&f, 'n', 0);
  a.newcomer = fixture_once(&f, 'x', UVS_HOUR(1));
  probe_of(&r)->act = act_makes_two_due;
  probe_of(&r)->data = probe_of(&a.next)->data = &a;
  probe_of(&a.next)->act = act_submits_two;
  ASSERT_RC(0, uvs_submit(f.s, &w, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &r, NULL));
  fixture_turn(&f); /* r submits l and n, which both are due; n submits x twice */
  ASSERT_RC(0, a.rc);
  ASSERT_STR_EQ("rn", log_string(&f, EV_WORK));
  ASSERT_STR_EQ("", log_string(&f, EV_AFTER));
  ASSERT_U64(1, log_count(&f, EV_DONE, 'l'));
  ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'l', 0)->status);
  ASSERT_U64(1, counts_of(f.s).dropped);
  ASSERT_U64(3, counts_of(f.s).waiting); /* w, x and x */
  CHECK_CALL(close_checked(&f));
  PASS();
}

/* P6 */
TEST discard_oldest_drops_the_new_task_if_all_others_run(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    struct fixture f;
    uvs_id_t id;

    prepare(&f, 1, UVS_REJECT_DISCARD_OLDEST);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t a = fixture_once(&f, 'a', 0), b = fixture_once(&f, 'b', 0);
    probe_of(&a)->ret = UVS_PENDING;
    ASSERT_RC(0, uvs_submit(f.s, &a, &id));
    fixture_turn(&f);
    ASSERT_RC(0, submit_from(off_loop, f.s, &b, 1, NULL));
    fixture_turn(&f);
    ASSERT_U64(0, log_count(&f, EV_WORK, 'b'));
    ASSERT_STR_EQ("b", log_string(&f, EV_DONE));
    ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'b', 0)->status);
    ASSERT_RC(UVS_RUNNING, state_of(f.s, id));
    ASSERT_RC(0, uvs_finish(f.s, id, 0));
    fixture_turn(&f);
    ASSERT_RC(0, log_nth(&f, EV_DONE, 'a', 0)->status);
    CHECK_CALL(close_checked(&f));
  }
  PASS();
}

/* P6 V10: a periodic task between two runs waits in the queue like any other. */
TEST discard_oldest_may_drop_a_periodic_task_between_two_runs(void) {
  struct fixture f;

  prepare(&f, 1, UVS_REJECT_DISCARD_OLDEST);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t r = fixture_rate(&f, 'r', 0, UVS_MS(10)), b = fixture_once(&f, 'b', UVS_MS(50));
  ASSERT_RC(0, uvs_submit(f.s, &r, NULL));
  fixture_advance_ms(&f, 25);
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  fixture_advance_ms(&f, 100);
  ASSERT_STR_EQ("rrrb", log_string(&f, EV_WORK));
  ASSERT_STR_EQ("rb", log_string(&f, EV_DONE));
  ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'r', 0)->status);
  ASSERT_U64(1, counts_of(f.s).dropped);
  CHECK_CALL(close_checked(&f));
  PASS();
}

/* P6 V9 */
TEST discard_oldest_drops_nothing_if_there_is_room(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    struct fixture f;
    uvs_id_t ids[3];

    prepare(&f, 3, UVS_REJECT_DISCARD_OLDEST);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = fixture_once(&f, 'a', UVS_MS(10)), b = fixture_once(&f, 'b', UVS_MS(20));
    for (int i = 0; i < 3; i++)
      ASSERT_RC(0, uvs_submit(f.s, &t, &ids[i]));
    ASSERT_RC(UVS_CANCELLED, cancel_elsewhere(f.s, ids[0]));
    ASSERT_RC(UVS_CANCELLED, cancel_elsewhere(f.s, ids[1]));
    ASSERT_RC(0, submit_from(off_loop, f.s, &b, 1, NULL));
    ASSERT_RC(0, submit_from(off_loop, f.s, &b, 1, &ids[0]));
    ASSERT_U64(0, counts_of(f.s).dropped);
    ASSERT_U64(3, counts_of(f.s).waiting);
    ASSERT_RC(UVS_CANCELLED, cancel_elsewhere(f.s, ids[0])); /* a new task makes room, too */
    ASSERT_RC(0, submit_from(off_loop, f.s, &b, 1, NULL));
    ASSERT_U64(0, counts_of(f.s).dropped);
    ASSERT_RC(0, submit_from(off_loop, f.s, &b, 1, NULL)); /* now one goes, at once */
    ASSERT_U64(1, counts_of(f.s).dropped);
    ASSERT_U64(3, counts_of(f.s).waiting);
    fixture_advance_ms(&f, 20);
    ASSERT_STR_EQ("bbb", log_string(&f, EV_WORK));
    CHECK_CALL(close_checked(&f));
  }
  PASS();
}

/* P6: a cancelled head is not dropped. */
TEST discard_oldest_does_not_drop_a_cancelled_head(void) {
  for (int ready = 0; ready < 2; ready++) {
    struct fixture f;
    uvs_id_t ids[4];

    prepare(&f, 4, UVS_REJECT_DISCARD_OLDEST);
    CHECK_CALL(fixture_open_turned(&f));
    for (int i = 0; i < 4; i++) {
      uvs_task_t t = fixture_once(&f, 'a' + i, ready ? 0 : UVS_MS(10 + i));
      ASSERT_RC(0, uvs_submit(f.s, &t, &ids[i]));
    }
    fakepool_hold();
    fixture_turn(&f);
    ASSERT_U64(ready ? 4 : 0, counts_of(f.s).ready);
    uvs_task_t n = fixture_once(&f, 'n', UVS_MS(50));
    ASSERT_RC(UVS_CANCELLED, cancel_elsewhere(f.s, ids[0])); /* makes room for one of two */
    ASSERT_RC(0, submit_from(true, f.s, &n, 1, NULL));
    ASSERT_RC(0, submit_from(true, f.s, &n, 1, NULL));
    ASSERT_U64(1, counts_of(f.s).dropped);
    ASSERT_U64(1, counts_of(f.s).cancelled);
    fixture_turn(&f);
    ASSERT_U64(2, log_count(&f, EV_DONE, 0));
    ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
    ASSERT_U64(1, log_count(&f, EV_DONE, 'b'));
    ASSERT_U64(4, live_tasks(f.s));
    fakepool_release();
    fixture_advance_ms(&f, 50);
    ASSERT_STR_EQ("cdnn", log_string(&f, EV_WORK));
    CHECK_CALL(close_checked(&f));
  }
  PASS();
}

/* P6 P5 */
TEST discard_oldest_drops_as_many_tasks_as_a_batch_needs(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    struct fixture f;
    uvs_task_t t[8];
    uvs_id_t ids[8];

    prepare(&f, 4, UVS_REJECT_DISCARD_OLDEST);
    CHECK_CALL(fixture_open_turned(&f));
    for (int i = 0; i < 8; i++)
      t[i] = fixture_once(&f, 'a' + i, UVS_MS(10));
    ids[0] = UNTOUCHED;
    ASSERT_RC(0, submit_from(off_loop, f.s, t, 3, NULL));
    fixture_turn(&f);
    ASSERT_RC(0, submit_from(off_loop, f.s, &t[3], 3, ids)); /* def: two have to go */
    fixture_turn(&f);
    ASSERT_STR_EQ("ab", log_string(&f, EV_DONE));
    log_clear(&f);
    ASSERT_RC(0, submit_from(off_loop, f.s, &t[4], 4, ids)); /* efgh: all that are there */
    fixture_turn(&f);
    ASSERT_STR_EQ("cdef", log_string(&f, EV_DONE));
    ASSERT_U64(6, counts_of(f.s).dropped);
    fixture_advance_ms(&f, 10);
    ASSERT_STR_EQ("efgh", log_string(&f, EV_WORK));
    log_clear(&f);
    ASSERT_RC(0, submit_from(off_loop, f.s, t, 7, ids)); /* more than the cap itself: the newest */
    fixture_turn(&f);
    ASSERT_STR_EQ("abc", log_string(&f, EV_DONE));
    fixture_advance_ms(&f, 10);
    ASSERT_STR_EQ("defg", log_string(&f, EV_WORK));
    CHECK_CALL(close_checked(&f));
  }
  PASS();
}

/* P6: a loop that does not run must not cost all memory. */
TEST a_stalled_loop_holds_no_more_than_the_cap(void) {
  struct fixture f;

  prepare(&f, 10, UVS_REJECT_DISCARD_OLDEST);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(10));
  t.done = NULL;
  for (int i = 0; i < 3000; i++)
    ASSERT_RC(0, submit_from(true, f.s, &t, 1, NULL));
  ASSERT_U64(10, counts_of(f.s).waiting);
  ASSERT_U64(2990, counts_of(f.s).dropped);
  ASSERT_U64(0, counts_of(f.s).rejected);
  ASSERT_U64(10, inspect_records(f.s));
  CHECK_CALL(close_checked(&f));
  PASS();
}

/* P6: on another thread the submission wakes the loop, whenever the new task is due. */
TEST discard_oldest_on_another_thread_wakes_the_loop(void) {
  struct fixture f;

  prepare(&f, 1, UVS_REJECT_DISCARD_OLDEST);
  f.real_clock = true; /* the timer is armed for x, in an hour */
  CHECK_CALL(fill(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_HOUR(2));
  fixture_turn(&f);
  fakepool_forget();
  ASSERT_RC(0, submit_from(true, f.s, &t, 1, NULL));
  ASSERT_U64(1, fakepool_seen().async_sends);
  fixture_turn(&f);
  ASSERT_STR_EQ("x", log_string(&f, EV_DONE));
  CHECK_CALL(close_checked(&f));
  PASS();
}

/* P6 F13 */
TEST a_thread_that_waits_for_a_dropped_task_is_released(void) {
  struct fixture f;
  struct kept k;
  struct errand waiter = {do_wait, &k, UV_EAGAIN};
  uv_thread_t thread;

  prepare(&f, 1, UVS_REJECT_DISCARD_OLDEST);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t a = fixture_once(&f, 'a', UVS_MS(10)), b = fixture_once(&f, 'b', UVS_MS(10));
  a.keep_outcome = 1;
  k.s = f.s;
  ASSERT_RC(0, uvs_submit(f.s, &a, &k.id));
  ASSERT_RC(0, uv_thread_create(&thread, errand_main, &waiter));
  ASSERT_RC(0, uvs_submit(f.s, &b, NULL));
  uv_thread_join(&thread); /* before its `done` */
  ASSERT_RC(0, waiter.rc);
  ASSERT_RC(UV_ECANCELED, k.o.status);
  ASSERT_U64(0, log_total(&f));
  ASSERT_RC(0, uvs_forget(f.s, k.id));
  fixture_turn(&f);
  ASSERT_STR_EQ("a", log_string(&f, EV_DONE));
  CHECK_CALL(close_checked(&f));
  PASS();
}

/* S60: the wrapper of a dropped task is told of its end. */
static int overs;

static void count_over(void *arg) {
  (void)arg;
  overs++;
}

static void wrap_over(uvs_t *s, uvs_id_t id, uvs_decoration_t *d) {
  (void)s;
  (void)id;
  d->release = count_over;
}

TEST the_wrapper_of_a_dropped_task_is_told_of_its_end(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    struct fixture f;

    prepare(&f, 1, UVS_REJECT_DISCARD_OLDEST);
    f.hooks.decorate = wrap_over;
    overs = 0;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t a = fixture_once(&f, 'a', UVS_MS(10)), b = fixture_once(&f, 'b', UVS_MS(10));
    a.done = NULL;
    ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
    fixture_turn(&f); /* it is wrapped */
    ASSERT_RC(0, submit_from(off_loop, f.s, &b, 1, NULL));
    ASSERT_RC(0, overs);
    fixture_turn(&f);
    ASSERT_RC(1, overs);
    fixture_advance_ms(&f, 10);
    ASSERT_RC(2, overs);
    CHECK_CALL(close_checked(&f));
  }
  PASS();
}

SUITE(discard) {
  RUN_TEST(a_discarded_task_is_accepted_and_ends_without_a_run);
  RUN_TEST(every_form_of_submission_is_discarded_above_the_cap);
  RUN_TEST(a_batch_is_discarded_all_or_none);
  RUN_TEST(the_outcome_of_a_discarded_task_is_kept);
  RUN_TEST(discarded_groups_end_immediately);
  RUN_TEST(a_discarded_task_has_ended_before_a_later_shutdown);
  RUN_TEST(discarded_tasks_are_freed_without_the_loop);
  RUN_TEST(the_done_of_a_discarded_task_is_called_promptly);
}

SUITE(oldest) {
  RUN_TEST(discard_oldest_drops_the_head_of_the_queue_for_a_new_task);
  RUN_TEST(discard_oldest_drops_the_task_that_would_start_next);
  RUN_TEST(discard_oldest_drops_a_due_loop_task_before_a_waiting_task);
  RUN_TEST(discard_oldest_drops_a_loop_task_found_by_a_runner_before_a_waiting_task);
  RUN_TEST(discard_oldest_drops_the_new_task_if_all_others_run);
  RUN_TEST(discard_oldest_may_drop_a_periodic_task_between_two_runs);
  RUN_TEST(discard_oldest_drops_nothing_if_there_is_room);
  RUN_TEST(discard_oldest_does_not_drop_a_cancelled_head);
  RUN_TEST(discard_oldest_drops_as_many_tasks_as_a_batch_needs);
  RUN_TEST(a_stalled_loop_holds_no_more_than_the_cap);
  RUN_TEST(discard_oldest_on_another_thread_wakes_the_loop);
  RUN_TEST(a_thread_that_waits_for_a_dropped_task_is_released);
  RUN_TEST(the_wrapper_of_a_dropped_task_is_told_of_its_end);
}

TEST_MAIN(RUN_SUITE(discard); RUN_SUITE(oldest));
