/* SPDX-License-Identifier: MIT
 *
 * At the cap: the submitter runs its task itself (UVS_REJECT_CALLER_RUNS).
 */
#include <stdlib.h>

#include "lib/bodies.h"
#include "lib/full.h"

#define UNTOUCHED UINT64_C(0x7e57)

static enum greatest_test_res open_here(struct fixture *f) {
  CHECK_CALL(open_full(f, 1, UVS_REJECT_CALLER_RUNS));
  fixture_turn(f);
  fakepool_forget();
  PASS();
}

/* A call on a thread of its own while the test goes on. */
struct caller {
  struct submission call;
  struct errand errand;
  uv_thread_t thread;
};

static int caller_start(struct caller *c, uvs_t *s, const uvs_task_t *t, size_t n, uvs_id_t *ids) {
  c->call = (struct submission){s, t, n, ids};
  c->errand = (struct errand){do_submit_many, &c->call, UV_EAGAIN};
  return uv_thread_create(&c->thread, errand_main, &c->errand);
}

static int caller_join(struct caller *c) {
  uv_thread_join(&c->thread);
  return c->errand.rc;
}

/* ------------------------------------------------------------------- one run --- */

static int act_looks(struct probe *p, uvs_run_t *run) {
  uvs_counts_t c = counts_of(run->scheduler);

  log_add(p->f, EV_USER, adds_up(&c) ? 'l' : '!', run->id, (int)c.running);
  return 0;
}

/* S17 S20 V9 */
TEST caller_runs_runs_the_body_on_the_submitting_thread_inside_the_call(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    for (int asks = 0; asks < 2; asks++) { /* an instant that has passed is due too */
      struct fixture f;
      uvs_id_t id = 0;

      CHECK_CALL(open_here(&f));
      uvs_task_t t = fixture_once(&f, 'a', asks ? -5 : 0);
      if (asks) {
        t.from = UVS_FROM_MONOTONIC;
        t.first_ns = uvs_now(f.s);
      }
      probe_of(&t)->act = act_looks;
      ASSERT_RC(0, submit_from(off_loop, f.s, &t, 1, &id));
      ASSERT(id != 0);
      const struct event *e = log_nth(&f, EV_WORK, 'a', 0);
      ASSERT_U64(1, log_count(&f, EV_WORK, 'a'));
      ASSERT_U64(id, e->id);
      ASSERT_RC(UVS_ON_CALLER, e->runner);
      ASSERT_EQ(!off_loop, e->on_loop);
      ASSERT_FALSE(e->in_work);
      ASSERT_U64(1, e->number);
      ASSERT_I64(0, e->late_ns);
      ASSERT_STR_EQ("l", log_string(&f, EV_USER)); /* inside: one runs, and the sum holds */
      ASSERT_RC(1, log_nth(&f, EV_USER, 'l', 0)->status);
      ASSERT_U64(0, log_count(&f, EV_DONE, 'a')); /* that is the loop's */
      uvs_counts_t c = counts_of(f.s);
      ASSERT(adds_up(&c));
      ASSERT_U64(2, c.submitted);
      ASSERT_U64(1, c.completed);
      ASSERT_U64(1, c.runs);
      ASSERT_U64(0, c.running + c.rejected + c.runners + c.peak_runners);
      ASSERT_RC(UVS_ENDED, state_of(f.s, id));
      fixture_turn(&f);
      ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
      ASSERT(log_nth(&f, EV_DONE, 'a', 0)->on_loop);
      ASSERT_RC(0, log_nth(&f, EV_DONE, 'a', 0)->status);
      ASSERT_RC(UV_ENOENT, state_of(f.s, id));
      ASSERT_U64(0, fakepool_seen().queue_works);
      CHECK_CALL(close_checked(&f));
    }
  }
  PASS();
}

static void no_decoration(uvs_t *s, uvs_id_t id, uvs_decoration_t *d) {
  (void)s;
  (void)id;
  (void)d;
}

/* V7 S17 S18 */
TEST caller_runs_refuses_tasks_that_are_not_plain_immediate_one_shots(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    struct fixture f;
    uvs_id_t ids[2] = {UNTOUCHED, UNTOUCHED};
    uvs_task_t bad[7];

    CHECK_CALL(open_here(&f));
    uvs_counts_t before = counts_of(f.s);
    bad[0] = fixture_once(&f, 'a', 1); /* a nanosecond is a delay */
    bad[1] = fixture_once(&f, 'a', UVS_NEVER);
    bad[2] = fixture_rate(&f, 'a', 0, UVS_MS(1));
    bad[3] = fixture_delay(&f, 'a', 0, UVS_MS(1));
    bad[4] = fixture_once(&f, 'a', 1);
    bad[4].from = UVS_FROM_WALL; /* long past, but by a clock that may be set */
    bad[5] = fixture_loop_task(&f, 'a', 0);
    bad[6] = fixture_once(&f, 'a', 0);
    bad[6].jitter_ns = UVS_MS(1);
    for (int i = 0; i < 7; i++) {
      uvs_task_t two[2] = {fixture_once(&f, 'a', 0), bad[i]};

      ASSERT_RC(UV_EAGAIN, submit_from(off_loop, f.s, &bad[i], 1, ids));
      ASSERT_RC(UV_EAGAIN, submit_from(off_loop, f.s, two, 2, ids)); /* all, or none */
    }
    ASSERT_U64(UNTOUCHED, ids[0]);
    uvs_counts_t after = counts_of(f.s);
    ASSERT_U64(14, after.rejected);
    after.rejected = before.rejected;
    ASSERT_MEM_EQ(&before, &after, sizeof after);
    fixture_advance_ms(&f, 10);
    ASSERT_U64(0, log_count(&f, 0, 'a'));
    CHECK_CALL(close_checked(&f));

    /* Only the loop may call the decorate hook. */
    prepare(&f, 1, UVS_REJECT_CALLER_RUNS);
    f.hooks.decorate = no_decoration;
    CHECK_CALL(fill(&f));
    uvs_task_t t = fixture_once(&f, 'a', 0);
    ASSERT_RC(UV_EAGAIN, submit_from(off_loop, f.s, &t, 1, ids));
    ASSERT_U64(0, log_count(&f, 0, 'a'));
    CHECK_CALL(close_checked(&f));
  }
  PASS();
}

/* V7: every submitting call. Tasks that are due now are run, the others refused. */
TEST caller_runs_applies_only_to_calls_that_submit_immediate_tasks(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(open_here(&f));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  for (int form = 0; form < FORMS; form++)
    ASSERT_RC(form <= 2 ? 0 : UV_EAGAIN, submit_form(f.s, form, &t, &id));
  ASSERT_STR_EQ("aaa", log_string(&f, EV_WORK));
  fixture_advance_ms(&f, 10);
  ASSERT_STR_EQ("aaa", log_string(&f, EV_WORK));
  ASSERT_STR_EQ("aa", log_string(&f, EV_DONE));
  CHECK_CALL(close_checked(&f));
  PASS();
}

static int act_gives(struct probe *p, uvs_run_t *run) {
  return uvs_set_result(run, p->data);
}

static int do_wait(void *arg) {
  struct probe *p = arg;
  uvs_outcome_t o;
  int rc;

  uvs_outcome_init(&o);
  rc = uvs_wait(p->f->s, p->id, UVS_NEVER, 0, &o);
  if (rc < 0)
    return rc;
  return o.status != 0 ? o.status : o.result == p->data && o.runs == 1 && o.end_ns > 0 ? 0 : 1;
}

/* S17 S50 F12b: after the run the task goes on like any other. */
TEST a_caller_run_task_has_its_after_done_and_outcome(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    for (int ret = 0; ret > -2; ret--) {
      struct fixture f;

      CHECK_CALL(open_here(&f));
      uvs_task_t t = fixture_once(&f, 'a', 0), u = fixture_once(&f, 'b', 0);
      t.after = probe_after;
      t.keep_outcome = u.keep_outcome = 1;
      t.result = &f;
      probe_of(&t)->ret = ret * 5; /* UV_EIO */
      probe_of(&t)->data = &f;
      probe_of(&u)->act = act_gives;
      probe_of(&u)->data = &u;
      ASSERT_RC(0, submit_from(off_loop, f.s, &t, 1, &probe_of(&t)->id));
      ASSERT_RC(0, submit_from(off_loop, f.s, &u, 1, &probe_of(&u)->id));
      ASSERT_STR_EQ("ab", log_string(&f, EV_WORK));
      ASSERT_U64(0, log_count(&f, EV_AFTER, 0)); /* never from inside */
      ASSERT_U64(1, counts_of(f.s).running);     /* `after` is part of the run */
      ASSERT_RC(0, elsewhere(do_wait, probe_of(&u)));
      fixture_turn(&f);
      ASSERT_RC(ret * 5, elsewhere(do_wait, probe_of(&t)));
      ASSERT_U64(1, log_count(&f, EV_AFTER, 'a'));
      ASSERT(log_nth(&f, EV_AFTER, 'a', 0)->on_loop);
      ASSERT_RC(UVS_ON_CALLER, log_nth(&f, EV_AFTER, 'a', 0)->runner);
      ASSERT_RC(ret * 5, log_nth(&f, EV_AFTER, 'a', 0)->status);
      ASSERT_RC(ret * 5, log_nth(&f, EV_DONE, 'a', 0)->status);
      ASSERT_U64(2, log_count(&f, EV_DONE, 0));
      ASSERT_RC(0, uvs_forget(f.s, probe_of(&t)->id));
      ASSERT_RC(0, uvs_forget(f.s, probe_of(&u)->id));
      CHECK_CALL(close_checked(&f));
    }
  }
  PASS();
}

/* S17. Found by the model: a failure of a caller-run task was not reported. */
TEST a_failure_of_a_caller_run_task_is_reported(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    struct fixture f;

    CHECK_CALL(open_here(&f));
    for (int named = 0; named < 2; named++) {
      uvs_task_t t = fixture_once(&f, 'a', 0);
      uvs_id_t id;

      t.name = named ? "named" : NULL;
      probe_of(&t)->ret = UV_EIO;
      ASSERT_RC(0, submit_from(off_loop, f.s, &t, 1, &id));
      ASSERT_RC(UVS_ENDED, state_of(f.s, id));
      ASSERT_U64(1, look_at(f.s, id).info.failures);
    }
    fixture_turn(&f);
    CHECK_CALL(close_checked(&f));
  }
  PASS();
}

/* S17 R25: a task without callbacks is freed without the loop, unless it failed. */
TEST a_detached_caller_run_task_needs_no_loop_pass(void) {
  struct fixture f;

  CHECK_CALL(open_here(&f));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  t.done = NULL;
  for (int i = 0; i < 200; i++) {
    ASSERT_RC(0, submit_from(true, f.s, &t, 1, NULL));
    ASSERT_RC(0, uvs_execute(f.s, probe_work, t.arg)); /* and on the loop */
  }
  ASSERT_U64(0, fakepool_seen().async_sends);
  ASSERT_U64(1, inspect_records(f.s)); /* x */
  ASSERT_U64(400, counts_of(f.s).completed);
  probe_of(&t)->ret = UV_EIO;
  ASSERT_RC(0, submit_from(true, f.s, &t, 1, NULL));
  ASSERT_U64(1, counts_of(f.s).failed);
  ASSERT_U64(0, log_count(&f, EV_ERROR, 'a'));
  fixture_turn(&f);
  ASSERT_U64(1, log_count(&f, EV_ERROR, 'a'));
  CHECK_CALL(close_checked(&f));
  PASS();
}

static int do_finish(void *arg) {
  struct probe *p = arg;

  return uvs_finish(p->f->s, p->id, 0);
}

/* L14 L1 S31 */
TEST a_pending_caller_run_task_can_be_finished_later(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    for (int light = 0; light < 2; light++) {
      for (int shut = 0; shut < 2; shut++) {
        struct fixture f;

        CHECK_CALL(open_here(&f));
        uvs_task_t t = fixture_once(&f, 'a', 0);
        t.done = light ? NULL : probe_done;
        probe_of(&t)->ret = UVS_PENDING;
        ASSERT_RC(0, submit_from(off_loop, f.s, &t, 1, &probe_of(&t)->id));
        ASSERT_RC(UVS_RUNNING, state_of(f.s, probe_of(&t)->id));
        fixture_turn(&f); /* off the loop it counts once the loop has looked */
        ASSERT(fixture_alive(&f));
        ASSERT_U64(2, live_tasks(f.s));
        ASSERT_U64(2, inspect_live_refs(f.s));
        if (shut)
          ASSERT_RC(0, uvs_shutdown_now(f.s, NULL, NULL));
        fixture_turn(&f);
        ASSERT_RC(0, uvs_is_terminated(f.s));
        ASSERT_RC(0, off_loop ? elsewhere(do_finish, probe_of(&t)) : do_finish(probe_of(&t)));
        ASSERT_RC(UV_ENOENT, do_finish(probe_of(&t)));
        fixture_turn(&f);
        ASSERT_U64(1, counts_of(f.s).completed);
        ASSERT_U64(!light, log_count(&f, EV_DONE, 'a'));
        ASSERT_RC(shut, uvs_is_terminated(f.s));
        ASSERT_U64(1 - (unsigned)shut, live_tasks(f.s));
        ASSERT_U64(1 - (unsigned)shut, inspect_records(f.s));
        CHECK_CALL(close_checked(&f));
      }
    }
  }
  PASS();
}

/* D17: a caller-run task that has ended when the loop takes it from the inbox does not replace
 * another task in the loop's list. */
TEST a_dump_right_after_a_caller_run_task_has_all_tasks(void) {
  struct fixture f;
  char *text = NULL;
  size_t size = 0;
  uvs_id_t id;
  FILE *out;

  CHECK_CALL(open_here(&f));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  t.done = NULL;
  t.keep_outcome = 1;
  ASSERT_RC(0, submit_from(true, f.s, &t, 1, &id));
  out = open_memstream(&text, &size);
  ASSERT(out != NULL);
  ASSERT_RC(0, uvs_dump(f.s, out));
  fclose(out);
  ASSERT(strstr(text, "completed 1 ") != NULL);
  ASSERT(strstr(text, "waiting  once") != NULL); /* x */
  free(text);
  ASSERT_RC(0, uvs_forget(f.s, id));
  CHECK_CALL(close_checked(&f));
  PASS();
}

static int act_unrefs(struct probe *p, uvs_run_t *run) {
  log_add(p->f, EV_USER, 'u', run->id, uvs_unref(run->scheduler, run->id));
  return p->ret;
}

/* L1: a task that its body unrefs on the loop no longer keeps the loop alive. */
TEST a_caller_run_body_on_the_loop_may_unref_its_task(void) {
  for (int light = 0; light < 2; light++) {
    for (int pending = 0; pending < 2; pending++) {
      struct fixture f;

      CHECK_CALL(open_here(&f));
      uvs_task_t t = fixture_once(&f, 'a', 0);
      t.done = light ? NULL : probe_done;
      probe_of(&t)->act = act_unrefs;
      probe_of(&t)->ret = pending ? UVS_PENDING : 0;
      ASSERT_RC(0, uvs_submit(f.s, &t, &probe_of(&t)->id));
      ASSERT_RC(0, log_nth(&f, EV_USER, 'u', 0)->status);
      fixture_turn(&f);
      ASSERT_U64(1, inspect_live_refs(f.s)); /* x */
      ASSERT_U64(1 + (unsigned)pending, live_tasks(f.s));
      ASSERT_RC(pending ? 0 : UV_ENOENT, do_finish(probe_of(&t)));
      fixture_turn(&f);
      ASSERT_U64(1, inspect_live_refs(f.s));
      ASSERT_U64(1, inspect_records(f.s));
      CHECK_CALL(close_checked(&f));
    }
  }
  PASS();
}

/* L1: the loop stays alive for the task that its own thread ran. */
TEST the_loop_stays_alive_for_the_done_of_a_task_it_ran_as_caller(void) {
  struct fixture f;
  unsigned dones = 0;

  prepare(&f, 1, UVS_REJECT_CALLER_RUNS);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t x = fixture_once(&f, 'x', UVS_HOUR(1)), t = fixture_once(&f, 'a', 0);
  x.flags = t.flags = UVS_UNREF;
  ASSERT_RC(0, uvs_submit(f.s, &x, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT(fixture_run(&f, UV_RUN_DEFAULT, &dones));
  ASSERT_U64(1, dones);
  CHECK_CALL(close_checked(&f));
  PASS();
}

/* -------------------------------------------------------------- inside the body --- */

static int act_waits(struct probe *p, uvs_run_t *run) {
  uvs_task_t t = fixture_once(p->f, 'y', 0);
  uvs_t *s = run->scheduler;

  log_add(p->f, EV_USER, 'w', 0, uvs_wait(s, p->id, UVS_NEVER, 0, NULL));
  log_add(p->f, EV_USER, 'a', 0, uvs_all(s, &t, 1, UVS_NEVER, NULL));
  log_add(p->f, EV_USER, 'y', 0, uvs_any(s, &t, 1, UVS_NEVER, NULL, NULL));
  log_add(p->f, EV_USER, 't', 0, uvs_wait_terminated(s, UVS_NEVER));
  return 0;
}

/* L4 */
TEST a_wait_inside_a_caller_run_body_is_refused(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    struct fixture f;

    prepare(&f, 1, UVS_REJECT_CALLER_RUNS);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t x = fixture_once(&f, 'x', UVS_HOUR(1)), t = fixture_once(&f, 'a', 0);
    x.keep_outcome = 1;
    probe_of(&t)->act = act_waits;
    ASSERT_RC(0, uvs_submit(f.s, &x, &probe_of(&t)->id));
    ASSERT_RC(0, submit_from(off_loop, f.s, &t, 1, NULL));
    ASSERT_STR_EQ("wayt", log_string(&f, EV_USER));
    for (unsigned i = 0; i < 4; i++)
      ASSERT_RC(UVS_EDEADLK, log_nth(&f, EV_USER, 0, i)->status);
    CHECK_CALL(close_checked(&f));
  }
  PASS();
}

struct two {
  struct fixture *f;
  uvs_t *inner; /* another scheduler, full, on the same loop */
  uvs_task_t outer_task, inner_task;
  uvs_id_t kept, inner_kept; /* one of each that is not over */
};

static int act_inner(struct probe *p, uvs_run_t *run) {
  struct two *w = p->data;

  (void)run;
  log_add(p->f, EV_USER, 'i', 0, uvs_wait(w->inner, w->inner_kept, UVS_NEVER, 0, NULL));
  log_add(p->f, EV_USER, 'o', 0, uvs_wait(w->f->s, w->kept, UVS_NEVER, 0, NULL));
  return 0;
}

static int act_outer(struct probe *p, uvs_run_t *run) {
  struct two *w = p->data;
  int rc = uvs_submit(w->inner, &w->inner_task, NULL);

  (void)run;
  log_add(p->f, EV_USER, 'O', 0, uvs_wait(w->f->s, w->kept, UVS_NEVER, 0, NULL));
  log_add(p->f, EV_USER, 'I', 0, uvs_wait(w->inner, w->inner_kept, UVS_MS(1), 0, NULL));
  return rc;
}

static int do_nest(void *arg) {
  struct two *w = arg;
  int rc = uvs_submit(w->f->s, &w->outer_task, NULL);

  /* After the body, this thread may wait again. */
  log_add(w->f, EV_USER, 'e', 0, uvs_wait(w->f->s, w->kept, UVS_MS(1), 0, NULL));
  return rc;
}

/* L4: a body of one scheduler runs inside a body of another, on one thread. */
TEST nested_bodies_of_two_schedulers_may_wait_in_neither(void) {
  struct fixture f;
  struct two w = {&f, NULL, {0}, {0}, 0, 0};
  uvs_options_t o;

  prepare(&f, 1, UVS_REJECT_CALLER_RUNS);
  CHECK_CALL(fixture_open_turned(&f));
  o = f.options;
  ASSERT_RC(0, uvs_open(&f.loop, &o, &w.inner));
  uvs_task_t x = fixture_once(&f, 'x', UVS_HOUR(1));
  x.keep_outcome = 1;
  ASSERT_RC(0, uvs_submit(f.s, &x, &w.kept));
  ASSERT_RC(0, uvs_submit(w.inner, &x, &w.inner_kept));
  w.outer_task = fixture_once(&f, 'a', 0);
  w.inner_task = fixture_once(&f, 'b', 0);
  probe_of(&w.outer_task)->act = act_outer;
  probe_of(&w.inner_task)->act = act_inner;
  probe_of(&w.outer_task)->data = probe_of(&w.inner_task)->data = &w;
  fixture_turn(&f);
  ASSERT_RC(0, elsewhere(do_nest, &w));
  ASSERT_STR_EQ("ab", log_string(&f, EV_WORK));
  ASSERT_STR_EQ("ioOIe", log_string(&f, EV_USER));
  ASSERT_RC(UVS_EDEADLK, log_nth(&f, EV_USER, 'i', 0)->status);
  ASSERT_RC(UVS_EDEADLK, log_nth(&f, EV_USER, 'o', 0)->status);
  ASSERT_RC(UVS_EDEADLK, log_nth(&f, EV_USER, 'O', 0)->status);
  ASSERT_RC(UV_ETIMEDOUT, log_nth(&f, EV_USER, 'I', 0)->status); /* only the inner body has ended */
  ASSERT_RC(UV_ETIMEDOUT, log_nth(&f, EV_USER, 'e', 0)->status);
  ASSERT_RC(0, uvs_close(w.inner, NULL));
  CHECK_CALL(close_checked(&f));
  PASS();
}

static int act_again(struct probe *p, uvs_run_t *run) {
  uvs_task_t *t = p->data;

  return ++p->ret < 100 ? uvs_submit(run->scheduler, t, NULL) : 0;
}

/* S17: recursion is the user's responsibility, and works. */
TEST a_caller_run_body_that_submits_runs_the_next_body_inside_itself(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    struct fixture f;

    CHECK_CALL(open_here(&f));
    uvs_task_t t = fixture_once(&f, 'a', 0);
    probe_of(&t)->act = act_again;
    probe_of(&t)->data = &t;
    ASSERT_RC(0, submit_from(off_loop, f.s, &t, 1, NULL));
    ASSERT_U64(100, log_count(&f, EV_WORK, 'a'));
    ASSERT_U64(100, counts_of(f.s).completed);
    fixture_turn(&f);
    ASSERT_U64(100, log_count(&f, EV_DONE, 'a'));
    CHECK_CALL(close_checked(&f));
  }
  PASS();
}

/* S17: from a body on a runner, and from one on the loop. */
TEST a_body_that_submits_at_the_cap_runs_the_new_task_itself(void) {
  for (int concurrency = 0; concurrency < 2; concurrency++) {
    struct fixture f;

    prepare(&f, 1, UVS_REJECT_CALLER_RUNS);
    f.options.concurrency = concurrency;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t a = fixture_once(&f, 'a', 0);
    uvs_task_t b = fixture_once(&f, 'b', 0);
    probe_of(&a)->act = act_again;
    probe_of(&a)->ret = 98; /* once */
    probe_of(&a)->data = &b;
    ASSERT_RC(0, uvs_submit(f.s, &a, NULL)); /* runs itself, and takes all the room */
    fixture_turn(&f);
    ASSERT_STR_EQ("ab", log_string(&f, EV_WORK));
    ASSERT_RC(UVS_ON_CALLER, log_nth(&f, EV_WORK, 'b', 0)->runner);
    ASSERT_EQ(concurrency == 0, log_nth(&f, EV_WORK, 'b', 0)->on_loop);
    ASSERT_U64(1, log_count(&f, EV_DONE, 'a'));
    ASSERT_U64(1, log_count(&f, EV_DONE, 'b'));
    ASSERT_U64(0, counts_of(f.s).failed);
    CHECK_CALL(close_checked(&f));
  }
  PASS();
}

/* ---------------------------------------------------------- several in one call --- */

/* What the first body does to the second task. */
static struct {
  struct fixture *f;
  uvs_id_t ids[3];
  int (*act)(uvs_t *s, uvs_id_t second);
  bool elsewhere;
  int rc;
} first;

static int do_first(void *arg) {
  (void)arg;
  return first.act(first.f->s, first.ids[1]);
}

static int act_first(struct probe *p, uvs_run_t *run) {
  (void)p;
  (void)run;
  first.rc = first.elsewhere ? elsewhere(do_first, NULL) : do_first(NULL);
  return 0;
}

static int cancels(uvs_t *s, uvs_id_t second) {
  return uvs_cancel(s, second, 0);
}

static int moves(uvs_t *s, uvs_id_t second) {
  return uvs_reschedule(s, second, UVS_MS(10));
}

static int moves_to_now(uvs_t *s, uvs_id_t second) {
  return uvs_reschedule(s, second, 0);
}

static int forgets(uvs_t *s, uvs_id_t second) {
  return uvs_forget(s, second);
}

static int shuts_down(uvs_t *s, uvs_id_t second) {
  (void)second;
  return uvs_shutdown(s);
}

static int stops(uvs_t *s, uvs_id_t second) {
  (void)second;
  return uvs_shutdown_now(s, probe_never_ran, NULL);
}

static enum greatest_test_res open_three(struct fixture *f, int (*act)(uvs_t *, uvs_id_t),
                                         bool is_elsewhere, uvs_task_t t[3]) {
  CHECK_CALL(open_here(f));
  memset(&first, 0, sizeof first);
  first.f = f;
  first.act = act;
  first.elsewhere = is_elsewhere;
  for (int i = 0; i < 3; i++) {
    t[i] = fixture_once(f, 'a' + i, 0);
    t[i].keep_outcome = act == forgets && i == 1;
  }
  probe_of(&t[0])->act = act_first;
  PASS();
}

#define FOR_EACH_ROAD(off_loop, other) \
  for (int off_loop = 0; off_loop < 2; off_loop++) \
    for (int other = 0; other < 2; other++)

/* S17 F7 P11 */
TEST caller_run_tasks_of_a_batch_run_in_order_and_may_cancel_each_other(void) {
  FOR_EACH_ROAD(off_loop, other) {
    struct fixture f;
    uvs_task_t t[3];

    CHECK_CALL(open_three(&f, cancels, other, t));
    ASSERT_RC(0, submit_from(off_loop, f.s, t, 3, first.ids));
    ASSERT_RC(UVS_CANCELLED, first.rc);
    ASSERT_STR_EQ("ac", log_string(&f, EV_WORK));
    ASSERT_U64(0, log_count(&f, EV_DONE, 0));
    ASSERT_U64(1, counts_of(f.s).cancelled);
    ASSERT_U64(2, counts_of(f.s).completed);
    fixture_turn(&f);
    ASSERT_STR_EQ("bac", log_string(&f, EV_DONE)); /* in the order in which they ended */
    ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'b', 0)->status);
    CHECK_CALL(close_checked(&f));
  }
  PASS();
}

/* V7 S2: a task rescheduled before its start never starts early. */
TEST a_caller_run_task_that_is_rescheduled_runs_at_its_new_time(void) {
  FOR_EACH_ROAD(off_loop, other) {
    struct fixture f;
    uvs_task_t t[3];

    CHECK_CALL(open_three(&f, moves, other, t));
    ASSERT_RC(0, submit_from(off_loop, f.s, t, 3, first.ids));
    ASSERT_RC(0, first.rc);
    ASSERT_STR_EQ("ac", log_string(&f, EV_WORK));
    ASSERT_RC(UVS_WAITING, state_of(f.s, first.ids[1]));
    fixture_advance_ms(&f, 9);
    ASSERT_STR_EQ("ac", log_string(&f, EV_WORK));
    fixture_advance_ms(&f, 1);
    ASSERT_STR_EQ("acb", log_string(&f, EV_WORK));
    ASSERT_RC(0, log_nth(&f, EV_WORK, 'b', 0)->runner);
    ASSERT_STR_EQ("acb", log_string(&f, EV_DONE));
    CHECK_CALL(close_checked(&f));

    CHECK_CALL(open_three(&f, moves_to_now, other, t));
    ASSERT_RC(0, submit_from(off_loop, f.s, t, 3, first.ids));
    ASSERT_RC(0, first.rc);
    ASSERT_STR_EQ("ac", log_string(&f, EV_WORK)); /* the scheduler has it now */
    fixture_turn(&f);
    ASSERT_STR_EQ("acb", log_string(&f, EV_WORK));
    CHECK_CALL(close_checked(&f));

    CHECK_CALL(open_three(&f, forgets, other, t));
    ASSERT_RC(0, submit_from(off_loop, f.s, t, 3, first.ids));
    ASSERT_RC(0, first.rc);
    ASSERT_STR_EQ("abc", log_string(&f, EV_WORK));
    fixture_turn(&f);
    ASSERT_STR_EQ("abc", log_string(&f, EV_DONE));
    CHECK_CALL(close_checked(&f));
  }
  PASS();
}

/* S38 S42: the tasks are accepted and due, so all run. The scheduler terminates afterwards. */
TEST a_caller_run_batch_finishes_during_an_orderly_shutdown(void) {
  FOR_EACH_ROAD(off_loop, other) {
    struct fixture f;
    uvs_task_t t[3];

    CHECK_CALL(open_three(&f, shuts_down, other, t));
    ASSERT_RC(0, uvs_set_after_shutdown(f.s, UVS_DELAYED_TASKS, 0));
    ASSERT_RC(0, submit_from(off_loop, f.s, t, 3, first.ids));
    ASSERT_RC(0, first.rc);
    ASSERT_STR_EQ("abc", log_string(&f, EV_WORK));
    fixture_turn(&f);
    ASSERT_U64(4, log_count(&f, EV_DONE, 0));
    ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
    ASSERT_RC(EV_TERMINATED, log_nth(&f, 0, 0, log_total(&f) - 1)->what);
    CHECK_CALL(close_checked(&f));
  }
  PASS();
}

/* S33 V2: tasks that have not started are handed back. */
TEST an_immediate_shutdown_hands_back_unstarted_tasks_of_a_caller_run_batch(void) {
  FOR_EACH_ROAD(off_loop, other) {
    struct fixture f;
    uvs_task_t t[3];

    CHECK_CALL(open_three(&f, stops, other, t));
    ASSERT_RC(0, submit_from(off_loop, f.s, t, 3, first.ids));
    ASSERT_RC(0, first.rc);
    ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
    fixture_turn(&f);
    ASSERT_U64(3, log_count(&f, EV_NEVER_RAN, 0)); /* b, c and x */
    ASSERT_U64(4, log_count(&f, EV_DONE, 0));
    ASSERT_RC(0, log_nth(&f, EV_DONE, 'a', 0)->status);
    ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'b', 0)->status);
    ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'c', 0)->status);
    ASSERT_RC(EV_TERMINATED, log_nth(&f, 0, 0, log_total(&f) - 1)->what);
    CHECK_CALL(close_checked(&f));
  }
  PASS();
}

/* An allocator that shuts the scheduler down inside one of its calls. */
struct rival {
  uvs_allocator_t real;
  uvs_t *s;
  long after; /* shuts down in this call; below 0: in none */
  bool came;
};

static void *alloc_with_rival(size_t size, void *arg) {
  struct rival *r = arg;

  if (r->after >= 0 && r->after-- == 0) {
    r->came = true;
    uvs_shutdown(r->s);
  }
  return r->real.alloc(size, r->real.arg);
}

static void free_with_rival(void *ptr, void *arg) {
  struct rival *r = arg;

  r->real.free(ptr, r->real.arg);
}

/* S12 S17: a shutdown during the allocation of a submission takes effect before the submission. */
TEST a_shutdown_during_the_allocation_refuses_the_whole_batch(void) {
  enum { N = 3000 };
  static uvs_task_t t[N];

  for (int off_loop = 0; off_loop < 2; off_loop++) {
    for (int cap = 0; cap < 2; cap++) {
      struct rival rival;
      long n = -1;

      do {
        _Atomic int dones = 0;
        struct fixture f;
        int rc;

        prepare(&f, (uint32_t)cap, UVS_REJECT_CALLER_RUNS);
        rival = (struct rival){.real = f.options.allocator, .after = -1};
        f.options.allocator = (uvs_allocator_t){alloc_with_rival, free_with_rival, &rival};
        CHECK_CALL(fill(&f));
        for (int i = 0; i < N; i++) {
          uvs_task_init(&t[i]);
          t[i].work = work_nothing;
          t[i].done = done_counts;
          t[i].arg = &dones;
        }
        rival.s = f.s;
        rival.after = ++n;
        rc = submit_from(off_loop, f.s, t, N, NULL);
        rival.after = -1;
        ASSERT_RC(rival.came ? UV_ESHUTDOWN : 0, rc);
        ASSERT_U64(rival.came, counts_of(f.s).rejected);
        ASSERT_U64(cap + (rival.came ? 0 : N), counts_of(f.s).submitted);
        fixture_turn(&f);
        ASSERT_RC(rival.came ? 0 : N, atomic_load(&dones));
        CHECK_CALL(close_checked(&f));
      } while (rival.came);
      ASSERT(n > 0);
    }
  }
  PASS();
}

static int closes(uvs_t *s, uvs_id_t second) {
  (void)second;
  return uvs_close(s, note_closed);
}

/* L2 */
TEST a_caller_run_body_on_the_loop_may_close(void) {
  struct fixture f;
  uvs_task_t t[3];

  CHECK_CALL(open_three(&f, closes, false, t));
  ASSERT_RC(0, uvs_submit_many(f.s, t, 3, first.ids));
  ASSERT_RC(0, first.rc);
  ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
  f.s = NULL;
  fixture_turn_until_closed(&f);
  ASSERT(f.closed);
  ASSERT_U64(4, log_count(&f, EV_DONE, 0));
  ASSERT_STR_EQ("c", log_string(&f, EV_USER));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S48 S51. A group has a time limit, which the caller could not keep while it runs the members'
 * bodies. */
TEST groups_are_never_run_by_the_caller(void) {
  struct fixture f;
  struct gathering g = {.f = &f, .winner = 7};

  CHECK_CALL(open_here(&f));
  g.t[0] = fixture_once(&f, 'a', 0);
  g.t[1] = fixture_once(&f, 'b', 0);
  ASSERT_RC(UV_EAGAIN, elsewhere(do_all, &g));
  ASSERT_RC(UV_EAGAIN, elsewhere(do_any, &g));
  ASSERT_U64(7, g.winner);
  fixture_turn(&f);
  ASSERT_U64(0, log_count(&f, EV_WORK, 'a') + log_count(&f, EV_WORK, 'b'));
  ASSERT_U64(0, log_count(&f, EV_DONE, 0));
  CHECK_CALL(close_checked(&f));
  PASS();
}

/* ----------------------------------------------------- while the body still runs --- */

/* F9 F12b */
TEST a_caller_run_body_can_be_cancelled_on_another_thread(void) {
  for (int light = 0; light < 2; light++) {
    struct fixture f;
    struct caller c;
    uvs_id_t id = 0;

    CHECK_CALL(open_here(&f));
    gate_init(true);
    uvs_task_t t = fixture_once(&f, 'a', 0);
    t.done = light ? NULL : probe_done;
    probe_of(&t)->act = gate_pass;
    probe_of(&t)->ret = UV_EIO; /* is discarded */
    ASSERT_RC(0, caller_start(&c, f.s, &t, 1, &id));
    ASSERT(gate_await(1));
    id = log_nth(&f, EV_WORK, 'a', 0)->id;
    ASSERT_RC(UVS_RUNNING, state_of(f.s, id));
    ASSERT_U64(1, counts_of(f.s).running);
    ASSERT_RC(UV_EBUSY, uvs_reschedule(f.s, id, 0));
    ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, uvs_cancel(f.s, id, UVS_CANCEL_TOKEN));
    ASSERT_RC(0, caller_join(&c));
    fixture_turn(&f);
    ASSERT_U64(0, log_count(&f, EV_ERROR, 0));
    ASSERT_U64(!light, log_count(&f, EV_DONE, 'a'));
    if (!light)
      ASSERT_RC(UV_ECANCELED, log_nth(&f, EV_DONE, 'a', 0)->status);
    ASSERT_U64(1, counts_of(f.s).cancelled);
    CHECK_CALL(close_checked(&f));
  }
  PASS();
}

/* S17 S31 S32 L2 */
TEST shutdown_and_close_wait_for_a_caller_run_body(void) {
  for (int how = 0; how < 3; how++) { /* shutdown, shutdown now, close */
    for (int light = 0; light < 2; light++) {
      struct fixture f;
      struct caller c;

      CHECK_CALL(open_here(&f));
      gate_init(false);
      uvs_task_t t = fixture_once(&f, 'a', 0);
      t.done = light ? NULL : probe_done;
      probe_of(&t)->act = gate_pass;
      ASSERT_RC(0, caller_start(&c, f.s, &t, 1, NULL));
      ASSERT(gate_await(1));
      uvs_t *s = uvs_retain(f.s);
      if (how == 0) {
        ASSERT_RC(0, uvs_set_after_shutdown(s, UVS_DELAYED_TASKS, 0));
        ASSERT_RC(0, uvs_shutdown(s));
      } else if (how == 1) {
        ASSERT_RC(0, uvs_shutdown_now(s, NULL, NULL));
      } else {
        ASSERT_RC(0, uvs_close(s, note_closed));
        f.s = NULL;
      }
      for (int i = 0; i < 10; i++)
        fixture_turn(&f);
      ASSERT_U64(1, log_count(&f, EV_DONE, 'x'));
      ASSERT_RC(0, uvs_is_terminated(s));
      ASSERT_RC(1, uvs_is_terminating(s));
      ASSERT_FALSE(f.closed);
      gate_let(1);
      ASSERT_RC(0, caller_join(&c));
      fixture_turn(&f); /* its end woke the loop */
      if (how == 2)
        ASSERT(f.closed);
      else
        ASSERT_RC(1, uvs_is_terminated(s));
      ASSERT_U64(!light, log_count(&f, EV_DONE, 'a'));
      ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
      uvs_release(s);
      CHECK_CALL(how == 2 ? fixture_close(&f) : close_checked(&f));
    }
  }
  PASS();
}

/* S17 L12: a submitter without a reference of its own, and everything is closed right after it. */
TEST a_caller_run_body_may_return_while_the_scheduler_is_closed(void) {
  for (int round = 0; round < 200; round++) {
    struct fixture f;
    struct caller c;

    CHECK_CALL(open_here(&f));
    gate_init(true);
    uvs_task_t t = fixture_once(&f, 'a', 0);
    t.done = round % 2 != 0 ? NULL : probe_done;
    probe_of(&t)->act = gate_pass;
    ASSERT_RC(0, caller_start(&c, f.s, &t, 1, NULL));
    ASSERT(gate_await(1));
    ASSERT_RC(0, uvs_close(f.s, note_closed)); /* the body sees it, and leaves */
    f.s = NULL;
    ASSERT(fixture_wait_closed(&f)); /* in real time: when the submitter's thread leaves */
    ASSERT_RC(0, caller_join(&c));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* P5: a caller-run task counts above the cap, and its end makes room. */
TEST a_caller_run_task_counts_above_the_cap(void) {
  struct fixture f;
  struct caller c[2];
  uvs_id_t x;

  prepare(&f, 2, UVS_REJECT_CALLER_RUNS);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t w = fixture_once(&f, 'x', UVS_HOUR(1)), t = fixture_once(&f, 'a', 0);
  ASSERT_RC(0, uvs_submit(f.s, &w, NULL));
  ASSERT_RC(0, uvs_submit(f.s, &w, &x));
  gate_init(false);
  probe_of(&t)->act = gate_pass;
  ASSERT_RC(0, caller_start(&c[0], f.s, &t, 1, NULL));
  ASSERT_RC(0, caller_start(&c[1], f.s, &t, 1, NULL));
  ASSERT(gate_await(2));
  ASSERT_U64(2, counts_of(f.s).running);
  ASSERT_U64(2, counts_of(f.s).waiting);
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, x, 0));
  ASSERT_RC(UV_EAGAIN, uvs_submit(f.s, &w, NULL)); /* three are still more than two */
  gate_let(2);
  ASSERT_RC(0, caller_join(&c[0]));
  ASSERT_RC(0, caller_join(&c[1]));
  ASSERT_RC(0, uvs_submit(f.s, &w, NULL)); /* without a loop pass */
  ASSERT_RC(UV_EAGAIN, uvs_submit(f.s, &w, NULL));
  CHECK_CALL(close_checked(&f));
  PASS();
}

/* ---------------------------------------------------------------- the handler --- */

static int asked_times;

static int run_here(uvs_t *s, const uvs_task_t *t, size_t n, int code) {
  (void)s;
  (void)t;
  (void)n;
  (void)code;
  asked_times++;
  return UVS_REJECT_CALLER_RUNS;
}

/* S13 S17 V7 */
TEST a_handler_that_answers_caller_runs_is_obeyed_unless_the_task_is_not_due(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    struct fixture f;

    asked_times = 0;
    prepare(&f, 1, 0);
    f.hooks.on_rejected = run_here;
    CHECK_CALL(fill(&f));
    uvs_task_t t = fixture_once(&f, 'a', 0), late = fixture_once(&f, 'b', 1);
    ASSERT_RC(0, submit_from(off_loop, f.s, &t, 1, NULL));
    ASSERT_RC(1, asked_times);
    ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
    ASSERT_RC(UVS_ON_CALLER, log_nth(&f, EV_WORK, 'a', 0)->runner);
    ASSERT_RC(UV_EAGAIN, submit_from(off_loop, f.s, &late, 1, NULL));
    ASSERT_RC(2, asked_times);
    ASSERT_U64(1, counts_of(f.s).rejected);
    fixture_advance_ms(&f, 1);
    ASSERT_U64(0, log_count(&f, 0, 'b'));
    CHECK_CALL(close_checked(&f));
  }
  PASS();
}

static struct vclock *slow;

static int run_here_after_5ms(uvs_t *s, const uvs_task_t *t, size_t n, int code) {
  (void)s;
  (void)t;
  (void)n;
  (void)code;
  vclock_advance_ns(slow, UVS_MS(5));
  return UVS_REJECT_CALLER_RUNS;
}

/* the header: UVS_STAT_... The task becomes ready when it runs, however long the handler took. */
TEST caller_run_tasks_are_in_the_histograms(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    for (int light = 0; light < 2; light++) {
      uvs_histogram_t h;
      struct fixture f;

      prepare(&f, 1, 0);
      f.hooks.on_rejected = run_here_after_5ms;
      slow = &f.clock;
      CHECK_CALL(fill(&f));
      uvs_task_t t = fixture_once(&f, 'a', 0);
      if (light)
        t.done = NULL;
      probe_of(&t)->takes_ns = UVS_MS(3);
      ASSERT_RC(0, submit_from(off_loop, f.s, &t, 1, NULL));
      uvs_histogram_init(&h);
      for (int which = UVS_STAT_QUEUE; which <= UVS_STAT_LATE; which++) {
        static const int64_t expected_ns[] = {0, UVS_MS(3), UVS_MS(5)};

        ASSERT_RC(0, uvs_histogram(f.s, which, &h));
        ASSERT_U64(1, h.count);
        ASSERT_I64(expected_ns[which], (int64_t)h.max_ns);
      }
      CHECK_CALL(close_checked(&f));
    }
  }
  PASS();
}

SUITE(one_run) {
  RUN_TEST(caller_runs_runs_the_body_on_the_submitting_thread_inside_the_call);
  RUN_TEST(caller_runs_refuses_tasks_that_are_not_plain_immediate_one_shots);
  RUN_TEST(caller_runs_applies_only_to_calls_that_submit_immediate_tasks);
  RUN_TEST(a_caller_run_task_has_its_after_done_and_outcome);
  RUN_TEST(a_failure_of_a_caller_run_task_is_reported);
  RUN_TEST(caller_run_tasks_are_in_the_histograms);
  RUN_TEST(a_detached_caller_run_task_needs_no_loop_pass);
  RUN_TEST(a_pending_caller_run_task_can_be_finished_later);
  RUN_TEST(a_dump_right_after_a_caller_run_task_has_all_tasks);
  RUN_TEST(a_caller_run_body_on_the_loop_may_unref_its_task);
  RUN_TEST(the_loop_stays_alive_for_the_done_of_a_task_it_ran_as_caller);
}

SUITE(inside) {
  RUN_TEST(a_wait_inside_a_caller_run_body_is_refused);
  RUN_TEST(nested_bodies_of_two_schedulers_may_wait_in_neither);
  RUN_TEST(a_caller_run_body_that_submits_runs_the_next_body_inside_itself);
  RUN_TEST(a_body_that_submits_at_the_cap_runs_the_new_task_itself);
}

SUITE(several) {
  RUN_TEST(caller_run_tasks_of_a_batch_run_in_order_and_may_cancel_each_other);
  RUN_TEST(a_caller_run_task_that_is_rescheduled_runs_at_its_new_time);
  RUN_TEST(a_caller_run_batch_finishes_during_an_orderly_shutdown);
  RUN_TEST(an_immediate_shutdown_hands_back_unstarted_tasks_of_a_caller_run_batch);
  RUN_TEST(a_shutdown_during_the_allocation_refuses_the_whole_batch);
  RUN_TEST(a_caller_run_body_on_the_loop_may_close);
  RUN_TEST(groups_are_never_run_by_the_caller);
}

SUITE(meanwhile) {
  RUN_TEST(a_caller_run_body_can_be_cancelled_on_another_thread);
  RUN_TEST(shutdown_and_close_wait_for_a_caller_run_body);
  RUN_TEST(a_caller_run_body_may_return_while_the_scheduler_is_closed);
  RUN_TEST(a_caller_run_task_counts_above_the_cap);
  RUN_TEST(a_handler_that_answers_caller_runs_is_obeyed_unless_the_task_is_not_due);
}

TEST_MAIN(RUN_SUITE(one_run); RUN_SUITE(inside); RUN_SUITE(several); RUN_SUITE(meanwhile));
