/* SPDX-License-Identifier: MIT
 *
 * The hooks before and after each body: when they are called, with which arguments, on which
 * thread. Also: these hooks, the error hook and the hook for missed points may call any function. A
 * script says how each run ends: "x." fails once.
 */
#include <limits.h>

#include "lib/bodies.h"
#include "lib/fixture.h"
#include "lib/threads.h"

/* What each hook logs as EV_USER: 'b' before, 'a' after, 'm' missed, with the count as status. The
 * other fields are those of the run. */
static struct {
  const uvs_run_t *run; /* of the last `before`, and of the last body */
  const uvs_run_t *body_run;
  int64_t after_takes_ns;
  int statuses[64]; /* that `after_body` saw */
  unsigned bodies;
  void (*act)(int hook, uvs_t *s, uvs_id_t id, uvs_run_t *run);
  int act_in; /* 'b', 'a', 'm', 'e' */
  int acted;  /* it acts once; the answer */
  int rc;
} seen;

static void act(int hook, uvs_t *s, uvs_id_t id, uvs_run_t *run) {
  if (seen.act == NULL || seen.act_in != hook || seen.acted++ > 0)
    return;
  seen.act(hook, s, id, run);
}

static void on_before(uvs_run_t *run) {
  log_run(uvs_data(run->scheduler), EV_USER, 'b', run);
  seen.run = run;
  seen.body_run = NULL;
  act('b', run->scheduler, run->id, run);
}

static void on_after(uvs_run_t *run, int status) {
  struct fixture *f = uvs_data(run->scheduler);

  log_run(f, EV_USER, run == seen.run && run == seen.body_run ? 'a' : '?', run);
  seen.statuses[seen.bodies++ % 64] = status;
  if (seen.after_takes_ns > 0)
    vclock_advance_ns(&f->clock, seen.after_takes_ns);
  act('a', run->scheduler, run->id, run);
}

static void on_missed(uvs_t *s, uvs_id_t id, uint64_t count, int reason, void *arg) {
  struct fixture *f = uvs_data(s);
  struct probe *p = arg;

  log_add(f, EV_USER, p >= f->probes && p < f->probes + PROBES ? 'm' : '?', id, (int)count);
  (void)reason;
  act('m', s, id, NULL);
}

static void on_error(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct probe *p = arg;

  log_add(uvs_data(s), EV_ERROR, p->tag, id, status);
  act('e', s, id, NULL);
}

static int act_noted(struct probe *p, uvs_run_t *run) {
  seen.body_run = run;
  return act_script(p, run);
}

static void follow(uvs_task_t *t, const char *script) {
  follow_script(t, script);
  probe_of(t)->act = act_noted;
}

static void init_hooked(struct fixture *f, int concurrency) {
  memset(&seen, 0, sizeof seen);
  fixture_init(f);
  f->options.concurrency = concurrency;
  f->options.on_error = on_error;
  f->hooks.on_missed = on_missed;
  f->hooks.before_body = on_before;
  f->hooks.after_body = on_after;
}

/* ------------------------------------------------------- around each body --- */

/* P7 */
TEST the_hooks_are_called_before_and_after_each_body_on_its_thread(void) {
  for (int concurrency = 0; concurrency < 3; concurrency++)
    for (int loop_task = 0; loop_task < 2; loop_task++) {
      struct fixture f;
      enum event_kind body = loop_task ? EV_AFTER : EV_WORK;

      init_hooked(&f, concurrency);
      CHECK_CALL(fixture_open_turned(&f));
      uvs_task_t t = loop_task ? fixture_loop_task(&f, 'w', 0) : fixture_once(&f, 'w', 0);
      t.kind = UVS_FIXED_RATE;
      t.period_ns = UVS_MS(10);
      t.failure_policy = UVS_FAIL_CONTINUE;
      follow(&t, ".x.s");
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
      fixture_advance_ms(&f, 100);
      ASSERT_STR_EQ("bwabwawbwabwaw", log_string(&f, (enum event_kind)0)); /* error; done */
      for (unsigned i = 0; i < 4; i++) {
        const struct event *e[] = {log_nth(&f, EV_USER, 'b', i), log_nth(&f, body, 'w', i),
                                   log_nth(&f, EV_USER, 'a', i)};

        for (int k = 0; k < 3; k++) {
          ASSERT_EQ(concurrency == 0 || loop_task, e[k]->on_loop);
          ASSERT(uv_thread_equal(&e[0]->thread, &e[k]->thread));
          ASSERT_U64(i + 1, e[k]->number);
          ASSERT_U64(e[0]->id, e[k]->id);
          ASSERT_RC(e[0]->runner, e[k]->runner);
          ASSERT_I64(UVS_MS(10) * i, e[k]->ideal_ns - VCLOCK_START_NS);
        }
      }
      ASSERT_RC(0, seen.statuses[0]);
      ASSERT_RC(UV_EIO, seen.statuses[1]);
      ASSERT_RC(UVS_STOP, seen.statuses[3]);
      CHECK_CALL(fixture_close(&f));
    }
  PASS();
}

/* P7. Also for a plain one-shot, and for a body that returns 77: the hook gets this status. */
TEST the_hooks_are_called_for_every_kind_of_task(void) {
  struct fixture f;

  init_hooked(&f, 1);
  CHECK_CALL(fixture_open_turned(&f));
  struct probe *p = fixture_probe(&f, 'l');
  p->ret = 77;
  p->act = NULL;
  ASSERT_RC(0, uvs_execute(f.s, probe_work, p));
  fixture_turn(&f);
  ASSERT_U64(1, log_count(&f, EV_USER, 'b'));
  ASSERT_RC(77, seen.statuses[0]);
  ASSERT_RC(UV_EINVAL, log_nth(&f, EV_ERROR, 'l', 0)->status);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* P7. The body has returned pending, so the run has not ended. `after` is not a body. */
TEST the_hook_after_a_pending_body_gets_pending_as_its_status(void) {
  for (int concurrency = 0; concurrency < 2; concurrency++) {
    struct fixture f;
    uvs_id_t id;

    init_hooked(&f, concurrency);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = fixture_once(&f, 'w', 0);
    t.after = probe_after;
    follow(&t, "p");
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_turn(&f);
    ASSERT_STR_EQ("bwa", log_string(&f, (enum event_kind)0));
    ASSERT_RC(UVS_PENDING, seen.statuses[0]);
    ASSERT_RC(0, uvs_finish(f.s, id, UV_EIO));
    fixture_turn(&f);
    ASSERT_STR_EQ("bwaww", log_string(&f, (enum event_kind)0)); /* `after`, done */
    ASSERT_U64(1, seen.bodies);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* Time spent in the hook after the body is not part of the run: the run ends with the body. */
TEST time_spent_in_the_hook_after_the_body_is_not_part_of_the_run(void) {
  for (int after = 0; after < 2; after++)
    for (int concurrency = 0; concurrency < 2; concurrency++) {
      struct fixture f;
      uvs_outcome_t o;
      uvs_id_t id;

      init_hooked(&f, concurrency);
      seen.after_takes_ns = UVS_MS(30);
      CHECK_CALL(fixture_open_turned(&f));
      uvs_task_t t = fixture_delay(&f, 'w', 0, UVS_MS(100));
      if (after)
        t.after = probe_after;
      t.failure_policy = UVS_FAIL_RETRY;
      t.retry.wait_ns = UVS_MS(50);
      t.keep_outcome = 1;
      follow(&t, ".x.s");
      probe_of(&t)->takes_ns = UVS_MS(5);
      ASSERT_RC(0, uvs_submit(f.s, &t, &id));
      fixture_advance_ms(&f, 1000);
      ASSERT_STR_EQ("0 105 160 265", log_runs(&f, EV_WORK, 'w'));
      uvs_outcome_init(&o);
      ASSERT_RC(0, uvs_wait(f.s, id, 0, 0, &o));
      ASSERT_I64(270, fixture_ms(&f, o.end_ns));
      ASSERT_RC(0, uvs_forget(f.s, id));
      CHECK_CALL(fixture_close(&f));
    }
  PASS();
}

static int value[3];

static void set_result(int hook, uvs_t *s, uvs_id_t id, uvs_run_t *run) {
  (void)s;
  (void)id;
  seen.rc = uvs_set_result(run, &value[hook == 'a']);
}

static int act_set_result(struct probe *p, uvs_run_t *run) {
  (void)p;
  seen.body_run = run;
  return uvs_set_result(run, &value[2]);
}

/* The last one to set it wins: the hook before the body, the body, the hook after it. */
TEST the_hooks_may_set_the_result(void) {
  for (int by_body = 0; by_body < 2; by_body++)
    for (const char *hook = "ba"; *hook != 0; hook++) {
      struct fixture f;
      uvs_outcome_t o;
      uvs_id_t id;

      init_hooked(&f, 1);
      seen.act = set_result;
      seen.act_in = *hook;
      CHECK_CALL(fixture_open_turned(&f));
      uvs_task_t t = fixture_once(&f, 'w', 0);
      t.keep_outcome = 1;
      follow(&t, ".");
      if (by_body)
        probe_of(&t)->act = act_set_result;
      ASSERT_RC(0, uvs_submit(f.s, &t, &id));
      fixture_turn(&f);
      ASSERT_RC(0, seen.rc);
      uvs_outcome_init(&o);
      ASSERT_RC(0, uvs_wait(f.s, id, 0, 0, &o));
      ASSERT_EQ(*hook == 'a' ? &value[1] : by_body ? &value[2] : &value[0], o.result);
      ASSERT_RC(0, uvs_forget(f.s, id));
      CHECK_CALL(fixture_close(&f));
    }
  PASS();
}

static int64_t wrapped;

static int run_wrapped(uvs_run_t *run) {
  wrapped++;
  seen.body_run = run;
  return probe_work(run);
}

static int run_wrapped_on_loop(uvs_run_t *run) {
  wrapped++;
  seen.body_run = run;
  return probe_loop_body(run);
}

static void wrap(uvs_t *s, uvs_id_t id, uvs_decoration_t *d) {
  (void)s;
  (void)id;
  d->work = d->work == probe_work ? run_wrapped : run_wrapped_on_loop;
}

/* R14 S60. The handle shows the body as submitted. The wrapper runs each time. */
TEST a_retried_body_stays_in_its_wrapper_and_info_shows_the_original(void) {
  for (int loop_task = 0; loop_task < 2; loop_task++) {
    struct fixture f;
    uvs_id_t id;

    wrapped = 0;
    init_hooked(&f, 1);
    f.hooks.decorate = wrap;
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = loop_task ? fixture_loop_task(&f, 'w', 0) : fixture_once(&f, 'w', 0);
    t.failure_policy = UVS_FAIL_RETRY;
    t.retry.wait_ns = UVS_MS(10);
    follow_script(&t, "xxx.");
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    for (int i = 0; i < 3; i++) { /* before its first run, and while it waits for a retry */
      ASSERT_EQ(loop_task ? probe_loop_body : probe_work, look_at(f.s, id).info.work);
      fixture_advance_ms(&f, i == 0 ? 0 : 10);
    }
    fixture_advance_ms(&f, 100);
    ASSERT_I64(4, wrapped);
    ASSERT_U64(4, log_count(&f, EV_USER, 'a')); /* and the hooks are around the wrapper */
    ASSERT_RC(0, done_status(&f, 'w'));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* P7. Called once, after every other callback. */
TEST the_terminated_hook_is_the_last_callback(void) {
  for (int now = 0; now < 2; now++) {
    struct fixture f;

    init_hooked(&f, 1);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = fixture_once(&f, 'w', UVS_MS(10));
    follow(&t, "x");
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    ASSERT_RC(0, now ? uvs_shutdown_now(f.s, NULL, NULL) : uvs_shutdown(f.s));
    ASSERT_U64(0, log_count(&f, EV_TERMINATED, 0));
    fixture_advance_ms(&f, 20);
    ASSERT_STR_EQ(now ? "wt" : "bwawt", log_string(&f, (enum event_kind)0));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L19. A caller compiled before these hooks existed. */
TEST older_options_have_no_hooks(void) {
  struct fixture f;

  init_hooked(&f, 1);
  f.options.size = offsetof(uvs_options_t, hooks);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'w', 0, UVS_MS(10));
  t.missed_policy = UVS_MISSED_ONCE;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  fixture_jump_ms(&f, 55);
  ASSERT_U64(4, counts_of(f.s).missed);
  ASSERT_U64(0, log_count(&f, EV_USER, 0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ------------------------------------------- a hook may call whatever it likes --- */

enum call {
  CANCEL_IT,
  MOVE_IT,
  FINISH_IT,
  SUBMIT_ONE,
  WAIT_FOR_IT,
  AWAIT,
  SHUT,
  SHUT_NOW,
  CLOSE,
  CALLS
};

static enum call call_now;

static void make_call(int hook, uvs_t *s, uvs_id_t id, uvs_run_t *run) {
  struct fixture *f = uvs_data(s);

  (void)hook;
  (void)run;
  switch (call_now) {
  case CANCEL_IT:
    seen.rc = uvs_cancel(s, id, UVS_CANCEL_TOKEN);
    break;
  case MOVE_IT:
    seen.rc = uvs_reschedule(s, id, UVS_MS(33));
    break;
  case FINISH_IT:
    seen.rc = uvs_finish(s, id, UV_EPIPE);
    break;
  case SUBMIT_ONE: {
    uvs_task_t t = fixture_once(f, 'n', 0);

    follow(&t, ".");
    seen.rc = uvs_submit(s, &t, NULL);
    break;
  }
  case WAIT_FOR_IT:
    seen.rc = uvs_wait(s, id, UVS_NEVER, 0, NULL);
    break;
  case AWAIT:
    seen.rc = uvs_wait_terminated(s, UVS_NEVER);
    break;
  case SHUT:
    seen.rc = uvs_shutdown(s);
    break;
  case SHUT_NOW:
    seen.rc = uvs_shutdown_now(s, NULL, NULL);
    break;
  default:
    seen.rc = uvs_close(s, note_closed);
    if (seen.rc == 0)
      f->s = NULL;
  }
}

static int answer_to(enum call c, int hook, bool on_loop) {
  bool running = hook == 'b' || hook == 'a';

  switch (c) {
  case CANCEL_IT:
    return running ? UVS_CANCELLED_WHILE_RUNNING : UVS_CANCELLED;
  case MOVE_IT:
    return running ? UV_EBUSY : 0;
  case FINISH_IT:
    return running ? 0 : UV_ENOENT;
  case WAIT_FOR_IT:
  case AWAIT:
    return UVS_EDEADLK;
  case CLOSE:
    return on_loop ? 0 : UV_EPERM;
  default:
    return 0;
  }
}

/* L4 R10. From each hook, on the loop and on other threads: a call works or returns an error code,
 * and never hangs. */
TEST every_call_is_allowed_or_refused_in_every_hook(void) {
  for (int c = CANCEL_IT; c < CALLS; c++)
    for (const char *hook = "bame"; *hook != 0; hook++)
      for (int concurrency = 0; concurrency < 2; concurrency++) {
        bool on_loop = concurrency == 0 || *hook == 'm' || *hook == 'e';
        bool ends = c == CANCEL_IT || (c >= SHUT && !(c == CLOSE && !on_loop));
        struct fixture f;
        uvs_id_t id;
        uvs_t *s;

        init_hooked(&f, concurrency);
        call_now = (enum call)c;
        seen.act = make_call;
        seen.act_in = *hook;
        CHECK_CALL(fixture_open_turned(&f));
        s = f.s;
        uvs_task_t t = fixture_rate(&f, 'w', 0, UVS_MS(100));
        t.missed_policy = UVS_MISSED_ONCE;
        t.failure_policy = UVS_FAIL_CONTINUE;
        t.keep_outcome = 1;
        follow(&t, ".x.");
        ASSERT_RC(0, uvs_submit(s, &t, &id));
        fixture_turn(&f);
        if (f.s != NULL)
          fixture_jump_ms(&f, 350); /* the second run fails, and two points are missed */
        ASSERT(seen.acted > 0);
        ASSERT_RC(answer_to((enum call)c, *hook, on_loop), seen.rc);
        if (f.s != NULL)
          fixture_advance_ms(&f, 100);
        fixture_turn(&f);
        ASSERT_U64(c == SUBMIT_ONE, log_count(&f, EV_DONE, 'n'));
        ASSERT_RC(ends ? UV_ECANCELED : INT_MAX, done_status(&f, 'w'));
        if (ends) /* after the run in which it was called, or between runs */
          ASSERT_U64(on_loop && strchr("me", *hook) != NULL ? 2 : 1, log_count(&f, EV_WORK, 'w'));
        else if (c == MOVE_IT && strchr("me", *hook) != NULL)
          ASSERT_STR_EQ("0 350(100+2) 383", log_runs(&f, EV_WORK, 'w'));
        else
          ASSERT_STR_EQ("0 350(100+2) 400", log_runs(&f, EV_WORK, 'w'));
        /* Whatever the hook did, the failure and the missed points were reported. */
        if (log_count(&f, EV_WORK, 'w') > 1) {
          ASSERT_STR_EQ("w", log_string(&f, EV_ERROR));
          ASSERT_RC(2, log_nth(&f, EV_USER, 'm', 0)->status);
        }
        if (c == CLOSE && on_loop)
          ASSERT(f.closed);
        CHECK_CALL(fixture_close(&f));
      }
  PASS();
}

static int act_look_at_token(struct probe *p, uvs_run_t *run) {
  log_add(p->f, EV_USER, uvs_cancelled(run) ? 'C' : '-', run->id, 0);
  seen.body_run = run;
  return 0;
}

/* F9. The body of a run that a hook has cancelled still runs, and can see the cancel. */
TEST a_body_sees_that_the_hook_before_it_cancelled_the_run(void) {
  struct fixture f;

  init_hooked(&f, 1);
  call_now = CANCEL_IT;
  seen.act = make_call;
  seen.act_in = 'b';
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'w', 0, UVS_MS(100));
  probe_of(&t)->act = act_look_at_token;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ms(&f, 500);
  ASSERT_STR_EQ("bwCaw", log_string(&f, (enum event_kind)0));
  ASSERT_RC(UV_ECANCELED, done_status(&f, 'w'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L14. The hook after a pending body finishes the run: it ends immediately with that status. */
TEST a_hook_may_finish_a_pending_run(void) {
  for (const char *hook = "ba"; *hook != 0; hook++)
    for (int after = 0; after < 2; after++) {
      struct fixture f;

      init_hooked(&f, 1);
      call_now = FINISH_IT;
      seen.act = make_call;
      seen.act_in = *hook;
      CHECK_CALL(fixture_open_turned(&f));
      uvs_task_t t = fixture_once(&f, 'w', 0);
      if (after)
        t.after = probe_after;
      follow(&t, "p");
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
      fixture_turn(&f);
      ASSERT_RC(0, seen.rc);
      ASSERT_RC(UVS_PENDING, seen.statuses[0]);
      ASSERT_RC(UV_EPIPE, done_status(&f, 'w'));
      CHECK_CALL(fixture_close(&f));
    }
  PASS();
}

SUITE(around_bodies) {
  RUN_TEST(the_hooks_are_called_before_and_after_each_body_on_its_thread);
  RUN_TEST(the_hooks_are_called_for_every_kind_of_task);
  RUN_TEST(the_hook_after_a_pending_body_gets_pending_as_its_status);
  RUN_TEST(time_spent_in_the_hook_after_the_body_is_not_part_of_the_run);
  RUN_TEST(the_hooks_may_set_the_result);
  RUN_TEST(a_retried_body_stays_in_its_wrapper_and_info_shows_the_original);
  RUN_TEST(the_terminated_hook_is_the_last_callback);
  RUN_TEST(older_options_have_no_hooks);
}

SUITE(calls) {
  RUN_TEST(every_call_is_allowed_or_refused_in_every_hook);
  RUN_TEST(a_body_sees_that_the_hook_before_it_cancelled_the_run);
  RUN_TEST(a_hook_may_finish_a_pending_run);
}

TEST_MAIN(RUN_SUITE(around_bodies); RUN_SUITE(calls));
