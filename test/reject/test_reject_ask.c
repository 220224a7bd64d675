/* SPDX-License-Identifier: MIT
 *
 * At the cap: reading and setting the policy, what a handler may answer and do, and all policies
 * under many threads and with failing memory.
 */
#include <limits.h>

#include "lib/bodies.h"
#include "lib/full.h"

#define UNTOUCHED UINT64_C(0x7e57)

/* A handler that logs EV_USER 'h' with the code, and answers `says`. */
static struct {
  struct fixture *f;
  int says;
  int calls;
  int max_depth, depth;
  size_t n;
  uvs_task_t t; /* the first spec of the last call */
  int (*act)(uvs_t *s, const uvs_task_t *t);
  int act_rc;
} ask;

static int asked(uvs_t *s, const uvs_task_t *t, size_t n, int code) {
  ask.calls++;
  if (++ask.depth > ask.max_depth)
    ask.max_depth = ask.depth;
  ask.n = n;
  ask.t = *t;
  log_add(ask.f, EV_USER, 'h', n, code);
  if (ask.act != NULL)
    ask.act_rc = ask.act(s, t);
  ask.depth--;
  return ask.says;
}

static enum greatest_test_res open_asking(struct fixture *f, uint32_t cap, int says) {
  memset(&ask, 0, sizeof ask);
  ask.f = f;
  ask.says = says;
  prepare(f, cap, 0);
  f->hooks.on_rejected = asked;
  CHECK_CALL(fill(f));
  PASS();
}

/* --------------------------------------------------------------- the policy --- */

static const int unknown[] = {-1, UVS_REJECT_ASK + 1, 99, INT_MIN, INT_MAX};

/* S19 S15 */
TEST the_rejection_policy_reads_back_and_unknown_policies_are_refused(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  ASSERT_RC(UVS_REJECT_ABORT, uvs_rejection_policy(f.s));
  ASSERT(uvs_rejection_handler(f.s) == NULL);
  for (int policy = UVS_REJECT_ABORT; policy < UVS_REJECT_ASK; policy++) {
    ASSERT_RC(0, uvs_set_rejection_policy(f.s, policy));
    ASSERT_RC(policy, uvs_rejection_policy(f.s));
    for (int i = 0; i < 5; i++)
      ASSERT_RC(UV_EINVAL, uvs_set_rejection_policy(f.s, unknown[i]));
    ASSERT_RC(UV_EINVAL, uvs_set_rejection_policy(f.s, UVS_REJECT_ASK)); /* whom? */
    ASSERT_RC(policy, uvs_rejection_policy(f.s));
  }
  ASSERT_RC(UV_EINVAL, uvs_rejection_policy(NULL));
  ASSERT_RC(UV_EINVAL, uvs_set_rejection_policy(NULL, UVS_REJECT_ABORT));
  ASSERT(uvs_rejection_handler(NULL) == NULL);
  /* The policy can be set after a shutdown, but not after close. */
  ASSERT_RC(0, uvs_shutdown(f.s));
  ASSERT_RC(0, uvs_set_rejection_policy(f.s, UVS_REJECT_DISCARD));
  ASSERT_RC(UVS_REJECT_DISCARD, uvs_rejection_policy(f.s));
  uvs_t *s = uvs_retain(f.s);
  ASSERT_RC(0, uvs_close(s, note_closed));
  f.s = NULL;
  fixture_turn_until_closed(&f);
  ASSERT_RC(UV_ESHUTDOWN, uvs_rejection_policy(s));
  ASSERT_RC(UV_ESHUTDOWN, uvs_set_rejection_policy(s, UVS_REJECT_ABORT));
  uvs_release(s);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S19 S13 */
TEST the_handler_is_fixed_at_open_and_reads_back(void) {
  uvs_options_t o;
  uvs_hooks_t hooks;
  uv_loop_t loop;
  uvs_t *s = NULL;

  ASSERT_RC(0, uv_loop_init(&loop));
  uvs_hooks_init(&hooks);
  uvs_options_init(&o);
  o.hooks = &hooks;
  for (int i = 0; i < 5; i++) {
    o.rejection_policy = unknown[i];
    ASSERT_RC(UV_EINVAL, uvs_open(&loop, &o, &s));
    hooks.on_rejected = asked;
    ASSERT_RC(UV_EINVAL, uvs_open(&loop, &o, &s));
    hooks.on_rejected = NULL;
  }
  o.rejection_policy = UVS_REJECT_ASK;
  ASSERT_RC(UV_EINVAL, uvs_open(&loop, &o, &s));
  ASSERT(s == NULL);
  for (int policy = UVS_REJECT_ABORT; policy <= UVS_REJECT_ASK; policy++) {
    o.rejection_policy = policy;
    hooks.on_rejected = asked;
    ASSERT_RC(0, uvs_open(&loop, &o, &s));
    /* No policy given: the given handler is asked. */
    ASSERT_RC(policy == UVS_REJECT_ABORT ? UVS_REJECT_ASK : policy, uvs_rejection_policy(s));
    ASSERT(uvs_rejection_handler(s) == asked);
    ASSERT_RC(0, uvs_set_rejection_policy(s, UVS_REJECT_ABORT));
    ASSERT_RC(UVS_REJECT_ABORT, uvs_rejection_policy(s)); /* said at run time, it is meant */
    ASSERT_RC(0, uvs_set_rejection_policy(s, UVS_REJECT_ASK));
    ASSERT_RC(UVS_REJECT_ASK, uvs_rejection_policy(s));
    ASSERT_RC(0, uvs_close(s, NULL));
    ASSERT_RC(0, uv_run(&loop, UV_RUN_DEFAULT));
  }
  ASSERT_RC(0, uv_loop_close(&loop));
  PASS();
}

/* S12 S18 P6 S16 S17 */
TEST after_a_shutdown_every_rejection_policy_refuses(void) {
  for (int policy = UVS_REJECT_ABORT; policy <= UVS_REJECT_ASK; policy++) {
    for (int full = 0; full < 2; full++) {
      struct fixture f;
      uvs_id_t id = UNTOUCHED;

      memset(&ask, 0, sizeof ask);
      ask.f = &f;
      ask.says = full ? UVS_REJECT_DISCARD : UVS_REJECT_CALLER_RUNS;
      prepare(&f, 2, policy);
      f.hooks.on_rejected = policy == UVS_REJECT_ASK ? asked : NULL;
      CHECK_CALL(full ? fill(&f) : fixture_open_turned(&f));
      uvs_task_t t = fixture_once(&f, 'a', 0);
      ASSERT_RC(0, uvs_shutdown(f.s));
      uvs_counts_t before = counts_of(f.s);
      for (int form = 0; form < FORMS; form++)
        ASSERT_RC(UV_ESHUTDOWN, submit_form(f.s, form, &t, &id));
      ASSERT_RC(UV_ESHUTDOWN, submit_from(true, f.s, &t, 1, &id));
      ASSERT_U64(UNTOUCHED, id);
      before.rejected += FORMS + 1;
      uvs_counts_t after = counts_of(f.s);
      ASSERT_MEM_EQ(&before, &after, sizeof after);
      ASSERT_RC(policy == UVS_REJECT_ASK ? FORMS + 1 : 0, ask.calls);
      for (unsigned i = 0; i < log_count(&f, EV_USER, 'h'); i++)
        ASSERT_RC(UV_ESHUTDOWN, log_nth(&f, EV_USER, 'h', i)->status);
      fixture_turn(&f);
      ASSERT_U64(0, log_count(&f, 0, 'a'));
      CHECK_CALL(close_checked(&f));
    }
  }
  PASS();
}

/* ----------------------------------------------------------------- the handler --- */

/* S13 */
TEST the_handler_is_asked_once_per_submission_with_spec_and_code(void) {
  struct fixture f;
  uvs_task_t three[3];
  uvs_id_t id = UNTOUCHED;

  CHECK_CALL(open_asking(&f, 2, UVS_REJECT_ABORT));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  for (int form = 0; form < FORMS; form++) {
    ASSERT_RC(UV_EAGAIN, submit_form(f.s, form, &t, &id));
    ASSERT_RC(form + 1, ask.calls);
    ASSERT_U64(1, ask.n);
    ASSERT(ask.t.arg == t.arg);
    ASSERT_U64(sizeof t, ask.t.size);
    ASSERT_RC(form == 4 ? UVS_FIXED_RATE : form == 5 ? UVS_FIXED_DELAY : UVS_ONE_SHOT, ask.t.kind);
  }
  for (int i = 0; i < 3; i++)
    three[i] = t;
  ASSERT_RC(UV_EAGAIN, uvs_submit_many(f.s, three, 3, NULL));
  ASSERT_U64(3, ask.n);
  ASSERT_RC(UV_EAGAIN, submit_from(true, f.s, three, 3, NULL));
  ASSERT_U64(3, ask.n);
  ASSERT_RC(FORMS + 2, ask.calls);
  ASSERT_U64(FORMS + 2, counts_of(f.s).rejected);
  for (int i = 0; i < FORMS + 2; i++) {
    const struct event *e = log_nth(&f, EV_USER, 'h', (unsigned)i);
    ASSERT_RC(UV_EAGAIN, e->status);
    ASSERT_EQ(i != FORMS + 1, e->on_loop); /* on the submitting thread */
  }
  ASSERT_U64(UNTOUCHED, id);
  /* An invalid spec, or one that fits, is not a rejection. */
  three[1].work = NULL;
  ASSERT_RC(UV_EINVAL, uvs_submit_many(f.s, three, 3, NULL));
  ASSERT_RC(0,
            uvs_set_rejection_policy(f.s, UVS_REJECT_ABORT)); /* not asked under another policy */
  ASSERT_RC(UV_EAGAIN, uvs_submit(f.s, &t, NULL));
  ASSERT_RC(FORMS + 2, ask.calls);
  CHECK_CALL(close_checked(&f));
  PASS();
}

/* S13: for a group too, with the caller's own specs. */
TEST the_handler_sees_the_specs_of_a_group_as_they_were_given(void) {
  struct fixture f;
  struct gathering g = {.f = &f};

  CHECK_CALL(open_asking(&f, 1, UVS_REJECT_ABORT));
  g.t[0] = fixture_once(&f, 'a', 0);
  g.t[1] = fixture_once(&f, 'b', 0);
  ASSERT_RC(UV_EAGAIN, elsewhere(do_all, &g));
  ASSERT_RC(1, ask.calls);
  ASSERT_U64(2, ask.n);
  ASSERT_RC(0, ask.t.keep_outcome); /* how we keep them is our business */
  ASSERT_RC(UV_EAGAIN, elsewhere(do_any, &g));
  ASSERT_RC(2, ask.calls);
  ASSERT_U64(0, log_count(&f, EV_DONE, 0));
  ask.says = UVS_REJECT_DISCARD;
  ASSERT_RC(0, elsewhere(do_all, &g));
  ASSERT_RC(UV_ECANCELED, g.o[1].status);
  CHECK_CALL(close_checked(&f));
  PASS();
}

/* S14 V10 S18 */
TEST an_unknown_answer_of_the_handler_means_refusal(void) {
  static const int answers[] = {UVS_REJECT_ABORT, -1,      99,     UVS_REJECT_ASK,
                                UV_EINVAL,        INT_MAX, INT_MIN};

  for (int off_loop = 0; off_loop < 2; off_loop++) {
    for (int i = 0; i < 7; i++) {
      struct fixture f;
      uvs_id_t id = UNTOUCHED;

      CHECK_CALL(open_asking(&f, 1, answers[i]));
      uvs_task_t t = fixture_once(&f, 'a', 0);
      uvs_counts_t before = counts_of(f.s);
      ASSERT_RC(UV_EAGAIN, submit_from(off_loop, f.s, &t, 1, &id));
      ASSERT_U64(UNTOUCHED, id);
      uvs_counts_t after = counts_of(f.s);
      before.rejected++;
      ASSERT_MEM_EQ(&before, &after, sizeof after);
      fixture_advance_ms(&f, 10);
      ASSERT_U64(0, log_count(&f, 0, 'a'));
      ASSERT_RC(1, ask.calls);
      CHECK_CALL(close_checked(&f));
    }
  }
  PASS();
}

/* S13 S16 V10 */
TEST a_handler_that_answers_drop_discards(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    struct fixture f;
    uvs_id_t ids[3] = {0};
    uvs_task_t t[3];

    CHECK_CALL(open_asking(&f, 2, UVS_REJECT_DISCARD));
    for (int i = 0; i < 3; i++)
      t[i] = fixture_once(&f, 'a' + i, UVS_MS(5));
    ASSERT_RC(0, submit_from(off_loop, f.s, t, 3, ids));
    ASSERT(ids[0] != 0 && ids[2] != 0);
    ASSERT_U64(3, counts_of(f.s).dropped);
    ASSERT_U64(0, counts_of(f.s).rejected);
    fixture_advance_ms(&f, 10);
    ASSERT_STR_EQ("abc", log_string(&f, EV_DONE));
    ASSERT_U64(0, log_count(&f, EV_WORK, 0));
    ASSERT_RC(1, ask.calls);
    CHECK_CALL(close_checked(&f));
  }
  PASS();
}

static int act_shutdown(uvs_t *s, const uvs_task_t *t) {
  (void)t;
  return uvs_shutdown(s);
}

static int act_shutdown_now(uvs_t *s, const uvs_task_t *t) {
  (void)t;
  return uvs_shutdown_now(s, NULL, NULL);
}

static int act_close(uvs_t *s, const uvs_task_t *t) {
  (void)t;
  return uvs_close(s, note_closed);
}

/* The handler makes room by a cancel, and uses it itself. */
static uvs_id_t victim;

static int act_make_room(uvs_t *s, const uvs_task_t *t) {
  int rc = uvs_cancel(s, victim, 0);

  return rc < 0 ? rc : uvs_submit(s, t, NULL);
}

/* The handler submits again, is asked about that, and answers drop. */
static int act_nested(uvs_t *s, const uvs_task_t *t) {
  if (ask.depth > 3)
    return 0;
  ask.says = UVS_REJECT_DISCARD;
  return uvs_submit(s, t, NULL);
}

static int act_everything(uvs_t *s, const uvs_task_t *t) {
  uvs_counts_t c = counts_of(s);
  int bad = 0;

  bad += !adds_up(&c);
  bad += uvs_set_rejection_policy(s, UVS_REJECT_DISCARD_OLDEST) != 0;
  bad += uvs_rejection_policy(s) != UVS_REJECT_DISCARD_OLDEST;
  bad += uvs_reschedule(s, victim, UVS_HOUR(2)) != 0;
  bad += state_of(s, victim) != UVS_WAITING;
  bad += uvs_submit(s, t, NULL) != 0; /* pushes the head out */
  bad += uvs_set_rejection_policy(s, UVS_REJECT_ASK) != 0;
  bad += uvs_set_concurrency(s, 2) != 0;
  bad += uvs_clock_changed(s) != 0;
  return bad;
}

/* S13 */
TEST a_handler_may_call_back_into_the_scheduler(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    struct fixture f;

    /* The handler makes room and uses it. Its answer still applies to the refused submission. */
    CHECK_CALL(open_asking(&f, 1, UVS_REJECT_ABORT));
    uvs_task_t t = fixture_once(&f, 'a', UVS_MS(5));
    uvs_task_t v = fixture_once(&f, 'v', UVS_HOUR(1));
    ASSERT_RC(0, uvs_set_rejection_policy(f.s, UVS_REJECT_DISCARD_OLDEST));
    ASSERT_RC(0, uvs_submit(f.s, &v, &victim));
    fixture_turn(&f);
    ASSERT_RC(0, uvs_set_rejection_policy(f.s, UVS_REJECT_ASK));
    ask.act = act_make_room;
    ASSERT_RC(UV_EAGAIN, submit_from(off_loop, f.s, &t, 1, NULL));
    ASSERT_RC(0, ask.act_rc);
    ASSERT_RC(1, ask.calls);
    fixture_advance_ms(&f, 5);
    ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
    CHECK_CALL(close_checked(&f));

    /* A refused submission inside the handler of another. */
    CHECK_CALL(open_asking(&f, 1, UVS_REJECT_ABORT));
    t = fixture_once(&f, 'a', UVS_MS(5));
    ask.act = act_nested;
    ASSERT_RC(0, submit_from(off_loop, f.s, &t, 1, NULL));
    ASSERT_RC(4, ask.calls);
    ASSERT_RC(4, ask.max_depth);
    ASSERT_U64(4, counts_of(f.s).dropped);
    fixture_turn(&f);
    ASSERT_STR_EQ("aaaa", log_string(&f, EV_DONE));
    CHECK_CALL(close_checked(&f));

    /* All other calls. */
    CHECK_CALL(open_asking(&f, 2, UVS_REJECT_DISCARD));
    t = fixture_once(&f, 'a', UVS_MS(5));
    v = fixture_once(&f, 'v', UVS_HOUR(1));
    ASSERT_RC(0, uvs_set_rejection_policy(f.s, UVS_REJECT_DISCARD_OLDEST));
    ASSERT_RC(0, uvs_submit(f.s, &v, &victim));
    fixture_turn(&f);
    log_clear(&f);
    ASSERT_RC(0, uvs_set_rejection_policy(f.s, UVS_REJECT_ASK));
    ask.act = act_everything;
    ASSERT_RC(0, submit_from(off_loop, f.s, &t, 1, NULL));
    ASSERT_RC(0, ask.act_rc);
    fixture_advance_ms(&f, 5);
    ASSERT_U64(1, log_count(&f, EV_WORK, 'a'));
    ASSERT_U64(2, log_count(&f, EV_DONE, 'a'));
    CHECK_CALL(close_checked(&f));
  }
  PASS();
}

/* S13 S12 S68 */
TEST a_handler_may_shut_down_and_its_answer_then_changes_nothing(void) {
  static int (*const acts[])(uvs_t *, const uvs_task_t *) = {act_shutdown, act_shutdown_now};

  for (int off_loop = 0; off_loop < 2; off_loop++) {
    for (int says = UVS_REJECT_ABORT; says <= UVS_REJECT_CALLER_RUNS; says++) {
      for (int i = 0; i < 2; i++) {
        struct fixture f;
        uvs_id_t id = UNTOUCHED;

        CHECK_CALL(open_asking(&f, 1, says));
        ask.act = acts[i];
        uvs_task_t t = fixture_once(&f, 'a', 0);
        ASSERT_RC(says == UVS_REJECT_ABORT ? UV_EAGAIN : UV_ESHUTDOWN,
                  submit_from(off_loop, f.s, &t, 1, &id));
        ASSERT_RC(0, ask.act_rc);
        ASSERT_RC(1, ask.calls); /* and not once more for the other code */
        ASSERT_U64(UNTOUCHED, id);
        ASSERT_U64(1, counts_of(f.s).rejected);
        ASSERT_U64(1, counts_of(f.s).submitted);
        fixture_advance_ms(&f, 10);
        ASSERT_U64(0, log_count(&f, 0, 'a'));
        CHECK_CALL(close_checked(&f));
      }
    }
  }
  PASS();
}

static int act_submits(struct probe *p, uvs_run_t *run) {
  return uvs_submit(run->scheduler, p->data, NULL);
}

/* S13 L2 */
TEST a_handler_on_the_loop_may_close(void) {
  for (int says = UVS_REJECT_ABORT; says <= UVS_REJECT_CALLER_RUNS; says++) {
    for (int inside = 0; inside < 2; inside++) { /* from a callback of ours, or from outside */
      struct fixture f;

      CHECK_CALL(open_asking(&f, 2, says));
      ask.act = act_close;
      uvs_task_t t = fixture_once(&f, 'a', 0), l = fixture_loop_task(&f, 'l', 0);
      if (inside) {
        ASSERT_RC(0, uvs_set_rejection_policy(f.s, UVS_REJECT_DISCARD_OLDEST));
        probe_of(&l)->act = act_submits;
        probe_of(&l)->data = &t;
        ASSERT_RC(0, uvs_submit(f.s, &l, NULL));
        ASSERT_RC(0, uvs_set_rejection_policy(f.s, UVS_REJECT_ASK));
        fixture_turn(&f);
      } else {
        ASSERT_RC(says == UVS_REJECT_ABORT ? UV_EAGAIN : UV_ESHUTDOWN, uvs_submit(f.s, &t, NULL));
      }
      ASSERT_RC(0, ask.act_rc);
      ASSERT_RC(1, ask.calls);
      f.s = NULL;
      fixture_turn_until_closed(&f);
      ASSERT(f.closed);
      ASSERT_U64(0, log_count(&f, 0, 'a'));
      CHECK_CALL(fixture_close(&f));
    }
  }
  PASS();
}

/* The handler waits until the loop has closed everything. */
static uv_sem_t thinking, closed;

static int act_think(uvs_t *s, const uvs_task_t *t) {
  (void)s;
  (void)t;
  uv_sem_post(&thinking);
  uv_sem_wait(&closed);
  return 0;
}

static int do_submit_two(void *arg) {
  uvs_task_t t[2];
  uvs_id_t ids[2];

  for (int i = 0; i < 2; i++) {
    uvs_task_init(&t[i]);
    t[i].work = work_nothing;
  }
  return uvs_submit_many(arg, t, 2, ids);
}

/* S13 L17 */
TEST close_may_finish_while_a_handler_runs_on_another_thread(void) {
  for (int says = UVS_REJECT_ABORT; says <= UVS_REJECT_CALLER_RUNS; says++) {
    for (int group = 0; group < 2; group++) {
      struct fixture f;
      struct gathering g = {.f = &f};
      struct errand e;
      uv_thread_t thread;

      ASSERT_RC(0, uv_sem_init(&thinking, 0));
      ASSERT_RC(0, uv_sem_init(&closed, 0));
      CHECK_CALL(open_asking(&f, 1, says));
      ask.act = act_think;
      g.t[0] = fixture_once(&f, 'a', 0);
      g.t[1] = fixture_once(&f, 'b', 0);
      uvs_t *s = f.s;
      if (group)
        e = (struct errand){do_all, &g, 0};
      else
        e = (struct errand){do_submit_two, s, 0};
      ASSERT_RC(0, uv_thread_create(&thread, errand_main, &e));
      uv_sem_wait(&thinking);
      ASSERT_RC(0, uvs_close(s, note_closed));
      fixture_turn_until_closed(&f);
      ASSERT(f.closed);
      uv_sem_post(&closed);
      uv_thread_join(&thread);
      ASSERT_RC(says == UVS_REJECT_ABORT ? UV_EAGAIN : UV_ESHUTDOWN, e.rc);
      ASSERT_U64(0, log_count(&f, 0, 'a') + log_count(&f, 0, 'b'));
      f.s = NULL;
      CHECK_CALL(fixture_close(&f)); /* all memory is back: the submitter's call held it */
      uv_sem_destroy(&thinking);
      uv_sem_destroy(&closed);
    }
  }
  PASS();
}

static int act_spoils_the_spec(uvs_t *s, const uvs_task_t *t) {
  (void)s;
  ((uvs_task_t *)(uintptr_t)t)->work = NULL;
  return 0;
}

static int act_changes_the_spec(uvs_t *s, const uvs_task_t *t) {
  (void)s;
  ((uvs_task_t *)(uintptr_t)t)->flags = UVS_UNREF;
  return 0;
}

/* S13 S8: a handler that changes the caller's spec breaks nothing in the scheduler. */
TEST a_spec_that_the_handler_changes_is_checked_again(void) {
  struct fixture f;

  CHECK_CALL(open_asking(&f, 1, UVS_REJECT_DISCARD));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  ask.act = act_spoils_the_spec;
  ASSERT_RC(UV_EINVAL, uvs_submit(f.s, &t, NULL));
  ASSERT_U64(0, counts_of(f.s).rejected + counts_of(f.s).dropped);
  t.work = probe_work;
  ask.says = UVS_REJECT_CALLER_RUNS;
  ask.act = act_changes_the_spec;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
  ASSERT_U64(1, inspect_live_refs(f.s)); /* x */
  CHECK_CALL(close_checked(&f));
  PASS();
}

/* --------------------------------------------------------------------- memory --- */

#define BATCH 300 /* more than the first two chunks of slots */

/* Repeats until no allocation fails: the call returns a clear code, changes nothing, and asks the
 * handler at most once. */
static enum greatest_test_res survives(int policy, bool many, bool off_loop) {
  static uvs_task_t t[BATCH];
  static uvs_id_t ids[BATCH];
  unsigned n = many ? BATCH : 1;
  struct fixture f;
  long failures = 0;

  memset(&ask, 0, sizeof ask);
  ask.f = &f;
  ask.says = UVS_REJECT_CALLER_RUNS;
  prepare(&f, BATCH, policy);
  f.hooks.on_rejected = policy == UVS_REJECT_ASK ? asked : NULL;
  f.options.max_names = 0; /* a submission does not fail for the statistics of a name (S75) */
  CHECK_CALL(fill(&f));
  for (unsigned i = 0; i < BATCH; i++) {
    if (i < 2)
      t[i] = fixture_once(&f, 'a', 0);
    else
      t[i] = t[i % 2];
    t[i].name = i % 2 == 0 ? "cold" : NULL;
    t[i].first_ns = policy == UVS_REJECT_DISCARD_OLDEST ? UVS_HOUR(2) : 0; /* behind 'x' */
    t[i].flags = i % 3 == 0 ? UVS_UNREF : 0;
  }
  for (;; failures++) {
    uvs_counts_t before = counts_of(f.s);
    unsigned events = log_total(&f);
    int calls = ask.calls;
    bool failed;
    int rc;

    for (unsigned i = 0; i < BATCH; i++)
      ids[i] = UNTOUCHED + i;
    fault_after(failures);
    rc = submit_from(off_loop, f.s, t, n, ids);
    failed = fault_hit();
    ASSERT_RC(failed ? UV_ENOMEM : 0, rc);
    ASSERT(failures < 1000);
    if (!failed)
      break;
    uvs_counts_t after = counts_of(f.s);
    after.slots = before.slots;
    ASSERT_MEM_EQ(&before, &after, sizeof after);
    for (unsigned i = 0; i < BATCH; i++)
      ASSERT_U64(UNTOUCHED + i, ids[i]);
    fixture_turn(&f);
    ASSERT(ask.calls - calls <= 1);
    ASSERT_U64(events + (unsigned)(ask.calls - calls), log_total(&f)); /* and nothing else */
    CHECK_CALL(nothing_is_left(&f));
  }
  if (many)
    ASSERT(failures > 0);
  fixture_turn(&f);
  if (policy == UVS_REJECT_DISCARD_OLDEST) {
    ASSERT_U64(n, log_count(&f, EV_DONE, 'x'));
  } else {
    ASSERT_U64(policy == UVS_REJECT_DISCARD ? 0 : n, log_count(&f, EV_WORK, 'a'));
    ASSERT_U64(n, log_count(&f, EV_DONE, 'a'));
  }
  CHECK_CALL(close_checked(&f));
  PASS();
}

/* L10 */
TEST allocation_failure_changes_nothing_under_every_rejection_policy(void) {
  for (int policy = UVS_REJECT_DISCARD; policy <= UVS_REJECT_ASK; policy++)
    for (int many = 0; many < 2; many++)
      for (int off_loop = 0; off_loop < 2; off_loop++)
        CHECK_CALL(survives(policy, many, off_loop));
  PASS();
}

/* -------------------------------------------------------------------- threads --- */

struct producer {
  uvs_t *s;
  uint64_t seed;
  int rounds;
  uint64_t accepted, refused; /* tasks, calls */
  _Atomic uint64_t *dones;
  _Atomic int *left;
};

static void count_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)s;
  (void)id;
  (void)status;
  atomic_fetch_add((_Atomic uint64_t *)arg, 1);
}

static void rush_main(void *arg) {
  struct producer *p = arg;
  uvs_task_t t;

  uvs_task_init(&t);
  t.first_ns = UVS_DAY(1);
  t.work = work_nothing;
  t.done = count_done;
  t.arg = p->dones;
  for (int i = 0; i < p->rounds; i++) {
    int rc = uvs_submit(p->s, &t, NULL);

    p->accepted += rc == 0;
    p->refused += rc == UV_EAGAIN;
  }
}

/* P5 */
TEST the_cap_is_exact_with_four_producers(void) {
  enum { THREADS = 4, CAP = 777, ROUNDS = 1000 };
  static const int policies[] = {UVS_REJECT_ABORT, UVS_REJECT_DISCARD, UVS_REJECT_CALLER_RUNS};

  for (int i = 0; i < 3; i++) {
    struct producer p[THREADS];
    uv_thread_t threads[THREADS];
    _Atomic uint64_t dones = 0;
    struct fixture f;
    uint64_t accepted = 0;
    bool discard = policies[i] == UVS_REJECT_DISCARD;

    prepare(&f, CAP, policies[i]);
    CHECK_CALL(fixture_open_turned(&f));
    for (int k = 0; k < THREADS; k++) {
      p[k] = (struct producer){f.s, 1, ROUNDS, 0, 0, &dones, NULL};
      ASSERT_RC(0, uv_thread_create(&threads[k], rush_main, &p[k]));
    }
    for (int k = 0; k < THREADS; k++) {
      uv_thread_join(&threads[k]);
      accepted += p[k].accepted;
    }
    uvs_counts_t c = counts_of(f.s);
    ASSERT_U64(CAP, c.waiting); /* those that found room, whatever became of the others */
    ASSERT_U64(discard ? THREADS * ROUNDS : CAP, accepted);
    ASSERT_U64(discard ? THREADS * ROUNDS - CAP : 0, c.dropped);
    ASSERT_U64(discard ? 0 : THREADS * ROUNDS - CAP, c.rejected); /* delayed: never run here, V7 */
    ASSERT_U64(0, c.runs);
    fixture_turn(&f);
    ASSERT_U64(c.dropped, atomic_load(&dones));
    ASSERT_RC(0, uvs_shutdown_now(f.s, NULL, NULL));
    fixture_turn(&f);
    ASSERT_U64(accepted, atomic_load(&dones));
    CHECK_CALL(close_checked(&f));
  }
  PASS();
}

static int answer_at_random(uvs_t *s, const uvs_task_t *t, size_t n, int code) {
  (void)s;
  (void)n;
  return code == UV_ESHUTDOWN ? UVS_REJECT_DISCARD
                              : (int)((uintptr_t)t / 16 + (uintptr_t)uv_hrtime()) % 4;
}

static int mixed_body(uvs_run_t *run) {
  return run->number >= 2 ? UVS_STOP : 0;
}

static void producer_main(void *arg) {
  struct producer *p = arg;
  uvs_task_t t[3];

  for (int i = 0; i < p->rounds; i++) {
    size_t n = 1 + test_random_below(&p->seed, 3);
    uvs_id_t ids[3] = {0};
    int rc;

    for (size_t k = 0; k < n; k++) {
      uvs_task_init(&t[k]);
      t[k].kind = test_random_below(&p->seed, 8) == 0 ? UVS_FIXED_DELAY : UVS_ONE_SHOT;
      t[k].period_ns = t[k].kind == UVS_ONE_SHOT ? 0 : UVS_US(20);
      t[k].first_ns =
          test_random_below(&p->seed, 3) == 0 ? (int64_t)test_random_below(&p->seed, 100000) : 0;
      t[k].work = mixed_body;
      t[k].after = test_random_below(&p->seed, 4) == 0 ? work_nothing : NULL;
      t[k].done = count_done;
      t[k].arg = p->dones;
    }
    rc = uvs_submit_many(p->s, t, n, ids);
    p->accepted += rc == 0 ? n : 0;
    p->refused += rc == UV_EAGAIN || rc == UV_ESHUTDOWN;
    if (rc == 0 && i % 3 == 0)
      uvs_cancel(p->s, ids[0], 0);
    if (rc == 0 && i % 5 == 0)
      uvs_reschedule(p->s, ids[n - 1], UVS_US(50));
    if (i % 16 == 0)
      uvs_set_rejection_policy(p->s, (int)test_random_below(&p->seed, UVS_REJECT_ASK + 1));
  }
  atomic_fetch_sub(p->left, 1);
}

struct sampler {
  uvs_t *s;
  _Atomic int stop;
  uint64_t samples, wrong, backwards;
};

static void sampler_main(void *arg) {
  struct sampler *m = arg;
  uvs_counts_t last;

  uvs_counts_init(&last);
  while (!atomic_load(&m->stop)) {
    uvs_counts_t c = counts_of(m->s);

    m->samples++;
    m->wrong += !adds_up(&c) || c.running + c.ready > c.submitted;
    m->backwards += c.completed < last.completed || c.cancelled < last.cancelled ||
                    c.dropped < last.dropped || c.runs < last.runs || c.rejected < last.rejected ||
                    c.submitted < last.submitted;
    last = c;
  }
}

/* P5 V9 S19 S22 */
TEST every_accepted_task_has_one_done_while_the_rejection_policy_changes(void) {
  enum { THREADS = 4 };
  struct producer p[THREADS];
  uv_thread_t threads[THREADS], sampling;
  _Atomic uint64_t dones = 0;
  _Atomic int left = THREADS;
  struct sampler m = {0};
  struct fixture f;
  uint64_t accepted = 0, refused = 0;

  prepare(&f, 8, 0);
  f.pool = FAKEPOOL_REAL;
  f.real_clock = true;
  f.options.concurrency = 2;
  f.options.keep_alive = UVS_KEEP_ALIVE_ALWAYS;
  f.options.periodic_after_shutdown = 1;
  f.hooks.on_rejected = answer_at_random;
  CHECK_CALL(fixture_open(&f));
  m.s = f.s;
  ASSERT_RC(0, uv_thread_create(&sampling, sampler_main, &m));
  for (int i = 0; i < THREADS; i++) {
    p[i] = (struct producer){f.s, test_seed + (uint64_t)i, 3000, 0, 0, &dones, &left};
    ASSERT_RC(0, uv_thread_create(&threads[i], producer_main, &p[i]));
  }
  while (atomic_load(&left) > 0)
    fixture_turn(&f);
  for (int i = 0; i < THREADS; i++) {
    uv_thread_join(&threads[i]);
    accepted += p[i].accepted;
    refused += p[i].refused;
  }
  ASSERT_RC(0, uvs_shutdown(f.s));
  ASSERT(fixture_wait_log(&f, EV_TERMINATED, 0, 1));
  atomic_store(&m.stop, 1);
  uv_thread_join(&sampling);
  ASSERT(m.samples > 0);
  ASSERT_U64(0, m.wrong);
  ASSERT_U64(0, m.backwards);
  uvs_counts_t c = counts_of(f.s);
  ASSERT_U64(accepted, c.submitted);
  ASSERT_U64(refused, c.rejected);
  ASSERT_U64(accepted, atomic_load(&dones));
  ASSERT_U64(0, c.waiting + c.ready + c.running);
  ASSERT(c.dropped > 0 && c.rejected > 0 && c.completed > 0);
  CHECK_CALL(close_checked(&f));
  PASS();
}

/* S68 V9: and with a shutdown in the middle. */
TEST a_shutdown_with_four_producers_loses_no_task(void) {
  enum { THREADS = 4 };

  for (int now = 0; now < 2; now++) {
    for (int policy = UVS_REJECT_DISCARD; policy <= UVS_REJECT_CALLER_RUNS; policy++) {
      struct producer p[THREADS];
      uv_thread_t threads[THREADS];
      _Atomic uint64_t dones = 0;
      _Atomic int left = THREADS;
      struct fixture f;
      uint64_t accepted = 0, refused = 0;

      prepare(&f, 8, policy);
      f.pool = FAKEPOOL_REAL;
      f.real_clock = true;
      f.options.concurrency = 2;
      f.options.keep_alive = UVS_KEEP_ALIVE_ALWAYS;
      CHECK_CALL(fixture_open(&f));
      for (int i = 0; i < THREADS; i++) {
        p[i] = (struct producer){f.s, test_seed + (uint64_t)i, 1000, 0, 0, &dones, &left};
        ASSERT_RC(0, uv_thread_create(&threads[i], producer_main, &p[i]));
      }
      while (atomic_load(&dones) < 300 && atomic_load(&left) > 0)
        fixture_turn(&f);
      ASSERT_RC(0, now ? uvs_shutdown_now(f.s, NULL, NULL) : uvs_shutdown(f.s));
      ASSERT(fixture_wait_log(&f, EV_TERMINATED, 0, 1));
      uint64_t at_the_end = atomic_load(&dones);
      for (int i = 0; i < THREADS; i++) {
        uv_thread_join(&threads[i]);
        accepted += p[i].accepted;
        refused += p[i].refused;
      }
      fixture_turn(&f);
      ASSERT_U64(accepted, at_the_end);
      ASSERT_U64(accepted, atomic_load(&dones));
      ASSERT_U64(accepted, counts_of(f.s).submitted);
      ASSERT_U64(refused, counts_of(f.s).rejected);
      CHECK_CALL(close_checked(&f));
    }
  }
  PASS();
}

SUITE(policy) {
  RUN_TEST(the_rejection_policy_reads_back_and_unknown_policies_are_refused);
  RUN_TEST(the_handler_is_fixed_at_open_and_reads_back);
  RUN_TEST(after_a_shutdown_every_rejection_policy_refuses);
}

SUITE(handler) {
  RUN_TEST(the_handler_is_asked_once_per_submission_with_spec_and_code);
  RUN_TEST(the_handler_sees_the_specs_of_a_group_as_they_were_given);
  RUN_TEST(an_unknown_answer_of_the_handler_means_refusal);
  RUN_TEST(a_handler_that_answers_drop_discards);
  RUN_TEST(a_handler_may_call_back_into_the_scheduler);
  RUN_TEST(a_handler_may_shut_down_and_its_answer_then_changes_nothing);
  RUN_TEST(a_handler_on_the_loop_may_close);
  RUN_TEST(close_may_finish_while_a_handler_runs_on_another_thread);
  RUN_TEST(a_spec_that_the_handler_changes_is_checked_again);
}

SUITE(all_of_them) {
  RUN_TEST(allocation_failure_changes_nothing_under_every_rejection_policy);
  RUN_TEST(the_cap_is_exact_with_four_producers);
  RUN_TEST(every_accepted_task_has_one_done_while_the_rejection_policy_changes);
  RUN_TEST(a_shutdown_with_four_producers_loses_no_task);
}

TEST_MAIN(RUN_SUITE(policy); RUN_SUITE(handler); RUN_SUITE(all_of_them));
