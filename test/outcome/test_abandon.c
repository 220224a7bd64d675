/* SPDX-License-Identifier: MIT
 *
 * Waits that another thread abandons: waits for a task, for a group, for termination. The loop runs
 * on a thread of its own, on the virtual clock. The waiting threads sleep without time-out unless a
 * test says otherwise, so the test knows when they are asleep.
 */
#include "uvsched/queue.h"

#include "lib/bodies.h"
#include "lib/stage.h"
#include "lib/threads.h"

/* ---------------------------------------------------------------- the callers --- */

enum call { WAIT, AWAIT, ALL, ANY, CALLS };

enum { MEMBERS = 3 };

static struct fixture f;
static uv_thread_t loop_thread;

/* A thread that makes one call. */
struct caller {
  int call;
  uvs_t *s;
  uvs_id_t id;
  uvs_task_t t[MEMBERS];
  int64_t timeout_ns;
  uvs_waiter_t *w;
  uv_thread_t thread;
  int rc;
  size_t index;
  uvs_outcome_t o[MEMBERS];
  _Atomic int back; /* the call has returned */
};

static struct caller one, two;
static uvs_waiter_t w;
static char value[4];

static int make_call(struct caller *c) {
  switch (c->call) {
  case WAIT:
    return uvs_wait_with(c->s, c->id, c->timeout_ns, 0, c->w, c->o);
  case AWAIT:
    return uvs_wait_terminated_with(c->s, c->timeout_ns, c->w);
  case ALL:
    return uvs_all_with(c->s, c->t, MEMBERS, c->timeout_ns, c->w, c->o);
  case ANY:
    return uvs_any_with(c->s, c->t, MEMBERS, c->timeout_ns, c->w, &c->index, c->o);
  case CALLS:
    break;
  }
  return UV_EINVAL;
}

static void caller_main(void *arg) {
  struct caller *c = arg;

  c->rc = make_call(c);
  atomic_store(&c->back, 1);
}

/* The tasks of a group are due in a day. Memory that a call must not write is marked. */
static void caller_init(struct caller *c, int call, uvs_id_t id, uvs_waiter_t *waiter) {
  memset(c, 0, sizeof *c);
  c->call = call;
  c->s = f.s;
  c->id = id;
  c->timeout_ns = UVS_NEVER;
  c->w = waiter;
  c->rc = UV_EAGAIN;
  c->index = 77;
  for (int i = 0; i < MEMBERS; i++) {
    c->t[i] = plain(work_nothing, NULL);
    c->t[i].first_ns = UVS_DAY(1);
    uvs_outcome_init(&c->o[i]);
    c->o[i].status = 77;
  }
}

static int caller_start(struct caller *c) {
  return uv_thread_create(&c->thread, caller_main, c);
}

static int caller_join(struct caller *c) {
  uv_thread_join(&c->thread);
  return c->rc;
}

static bool is_untouched(const struct caller *c) {
  for (int i = 0; i < MEMBERS; i++) {
    if (c->o[i].status != 77)
      return false;
  }
  return c->index == 77;
}

/* Waits until one task has ended. Returns false after PATIENCE_NS. */
static bool await_first_end(void) {
  uint64_t end_ns = patience_end_ns();
  uvs_counts_t c;

  do {
    uv_sleep(0);
    c = counts_of(f.s);
  } while (c.completed + c.failed == 0 && uv_hrtime() < end_ns);
  return c.completed + c.failed > 0;
}

/* A kept task that is due in a day. */
static uvs_id_t far_task(void) {
  uvs_task_t t = plain(give_arg, &value[1]);
  uvs_id_t id = 0;

  t.first_ns = UVS_DAY(1);
  t.keep_outcome = 1;
  return uvs_submit(f.s, &t, &id) == 0 ? id : 0;
}

static enum greatest_test_res begin(void) {
  CHECK_CALL(stage_open(&f, &loop_thread, 4, false));
  uvs_waiter_init(&w);
  PASS();
}

static enum greatest_test_res end(void) {
  uvs_counts_t c = counts_of(f.s);

  ASSERT(adds_up(&c));
  ASSERT_RC(0, asleep_now());
  CHECK_CALL(stage_close(&f, &loop_thread));
  PASS();
}

/* ---------------------------------------------------------------- during and before --- */

/* F14 */
TEST a_wait_that_is_abandoned_returns_eintr_and_the_request_is_used_up(void) {
  for (int call = 0; call < CALLS; call++) {
    uvs_outcome_t o;
    uvs_id_t id;

    CHECK_CALL(begin());
    id = far_task();
    for (int i = 0; i < 3; i++) { /* the same waiter is used again */
      caller_init(&one, call, id, &w);
      ASSERT_RC(0, caller_start(&one));
      ASSERT(await_asleep(1));
      ASSERT_RC(1, uvs_abandon(f.s, &w));
      ASSERT_RC(UV_EINTR, caller_join(&one));
    }
    if (call != ALL)
      ASSERT(is_untouched(&one));
    /* The task is unchanged. Only the groups' own tasks are gone. */
    ASSERT_RC(UVS_WAITING, state_of(f.s, id));
    ASSERT_RC(0, uvs_is_shutdown(f.s));
    ASSERT_U64(call >= ALL ? 3 * MEMBERS : 0, counts_of(f.s).cancelled);
    stage_advance(&f, UVS_DAY(1));
    uvs_outcome_init(&o);
    ASSERT_RC(0, uvs_wait_with(f.s, id, UVS_NEVER, 0, &w, &o)); /* no request is left */
    ASSERT_RC(0, o.status);
    ASSERT_EQ(&value[1], (char *)o.result);
    CHECK_CALL(end());
  }
  PASS();
}

/* F14: a request that comes before the wait applies to the next call, even if that call need not
 * wait. */
TEST a_wait_that_was_abandoned_before_it_began_returns_eintr_at_once(void) {
  for (int call = 0; call < CALLS; call++) {
    for (int looks = 0; looks < 2; looks++) {
      uvs_task_t t = plain(give_arg, &value[2]);
      uint64_t submitted;
      uvs_id_t id;

      CHECK_CALL(begin());
      t.keep_outcome = 1;
      ASSERT_RC(0, uvs_submit(f.s, &t, &id));
      ASSERT_RC(0, uvs_wait(f.s, id, UVS_NEVER, 0, NULL)); /* ended */
      submitted = counts_of(f.s).submitted;
      ASSERT_RC(0, uvs_abandon(f.s, &w));
      ASSERT_RC(0, uvs_abandon(f.s, &w)); /* two requests are one */
      caller_init(&one, call, id, &w);
      one.timeout_ns = looks ? 0 : PATIENCE_NS;
      ASSERT_RC(UV_EINTR, make_call(&one));
      ASSERT(is_untouched(&one));
      ASSERT_U64(submitted, counts_of(f.s).submitted); /* a group has submitted nothing */
      /* The request is used up: the next call works as usual. */
      one.timeout_ns = UVS_US(1);
      ASSERT_RC(call == WAIT ? 0 : UV_ETIMEDOUT, make_call(&one));
      CHECK_CALL(end());
    }
  }
  PASS();
}

/* F14: the first call uses up the request, whatever its kind. */
TEST a_request_to_abandon_applies_to_the_next_wait_of_any_kind(void) {
  CHECK_CALL(begin());
  for (int call = 0; call < CALLS; call++) {
    uvs_id_t id = far_task();

    caller_init(&one, (call + 1) % CALLS, id, &w);
    one.timeout_ns = PATIENCE_NS;
    ASSERT_RC(0, uvs_abandon(f.s, &w));
    ASSERT_RC(UV_EINTR, make_call(&one));
    caller_init(&one, call, id, &w);
    one.timeout_ns = UVS_US(1);
    ASSERT_RC(UV_ETIMEDOUT, make_call(&one));
  }
  CHECK_CALL(end());
  PASS();
}

/* F14 F15: a wait with a time limit can be abandoned too, whether it sleeps already or not. */
TEST a_wait_with_a_time_limit_can_be_abandoned(void) {
  for (int call = 0; call < CALLS; call++) {
    int rc;

    CHECK_CALL(begin());
    caller_init(&one, call, far_task(), &w);
    one.timeout_ns = PATIENCE_NS;
    ASSERT_RC(0, caller_start(&one));
    rc = uvs_abandon(f.s, &w);
    ASSERT(rc == 0 || rc == 1);
    ASSERT_RC(UV_EINTR, caller_join(&one));
    CHECK_CALL(end());
  }
  PASS();
}

/* F14 F13: the running body is not disturbed, and other waits for the task go on. */
TEST one_of_two_waits_for_a_task_is_abandoned(void) {
  static struct hold h;
  uvs_id_t id;

  CHECK_CALL(begin());
  uvs_task_t t = held_task(&f, 'h', &h);
  h.give = &value[3];
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  caller_init(&one, WAIT, id, &w);
  ASSERT_RC(0, caller_start(&one));
  caller_init(&two, WAIT, id, NULL);
  ASSERT_RC(0, caller_start(&two));
  ASSERT(await_asleep(2));
  ASSERT(await_flag(&h.inside));
  ASSERT_RC(1, uvs_abandon(f.s, &w));
  ASSERT_RC(UV_EINTR, caller_join(&one));
  ASSERT(is_untouched(&one));
  ASSERT_RC(UVS_RUNNING, state_of(f.s, id));
  ASSERT_RC(0, atomic_load(&two.back));
  atomic_store(&h.open, 1);
  ASSERT_RC(0, caller_join(&two));
  ASSERT_EQ(&value[3], (char *)two.o[0].result);
  ASSERT_RC(0, atomic_load(&h.saw_token));
  CHECK_CALL(end());
  PASS();
}

/* F14: the end of the task decides the wait, although the waiting thread has not woken up yet. */
TEST a_wait_that_ended_just_before_an_abandon_keeps_its_answer(void) {
  for (int i = 0; i < 20; i++) {
    uvs_id_t id;
    int rc;

    CHECK_CALL(begin());
    id = far_task();
    caller_init(&one, WAIT, id, &w);
    ASSERT_RC(0, caller_start(&one));
    ASSERT(await_asleep(1));
    ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, 0));
    rc = uvs_abandon(f.s, &w); /* the request is for the next call */
    ASSERT_RC(0, caller_join(&one));
    ASSERT_RC(0, rc);
    ASSERT_RC(UV_ECANCELED, one.o[0].status);
    caller_init(&one, WAIT, id, &w);
    ASSERT_RC(UV_EINTR, make_call(&one));
    ASSERT_RC(0, make_call(&one));
    CHECK_CALL(end());
  }
  PASS();
}

/* ------------------------------------------------------------------- bad input --- */

/* F14 */
TEST a_waiter_in_use_is_refused_and_its_thread_keeps_waiting(void) {
  for (int call = 0; call < CALLS; call++) {
    uint64_t submitted;
    uvs_id_t id;

    CHECK_CALL(begin());
    id = far_task();
    caller_init(&one, call, id, &w);
    ASSERT_RC(0, caller_start(&one));
    ASSERT(await_asleep(1));
    submitted = counts_of(f.s).submitted;
    for (int other = 0; other < CALLS; other++) {
      caller_init(&two, other, id, &w);
      two.timeout_ns = PATIENCE_NS;
      ASSERT_RC(UV_EBUSY, make_call(&two));
      two.timeout_ns = 0;
      ASSERT_RC(UV_EBUSY, make_call(&two));
      ASSERT(is_untouched(&two));
    }
    ASSERT_U64(submitted, counts_of(f.s).submitted);
    ASSERT_RC(1, asleep_now());
    ASSERT_RC(1, uvs_abandon(f.s, &w));
    ASSERT_RC(UV_EINTR, caller_join(&one));
    CHECK_CALL(end());
  }
  PASS();
}

/* S8 */
TEST a_waiter_that_is_not_initialized_is_refused(void) {
  static uvs_waiter_t wrong;

  CHECK_CALL(begin());
  ASSERT_RC(UV_EINVAL, uvs_abandon(f.s, NULL));
  ASSERT_RC(UV_EINVAL, uvs_abandon(NULL, &w));
  for (size_t size = 0; size < 2 * sizeof wrong; size += 4) {
    uint64_t submitted = counts_of(f.s).submitted;

    if (size == sizeof wrong)
      continue;
    memset(&wrong, 0, sizeof wrong);
    wrong.size = size;
    ASSERT_RC(UV_EINVAL, uvs_abandon(f.s, &wrong));
    ASSERT_RC(0, wrong.requested);
    for (int call = 0; call < CALLS; call++) {
      caller_init(&one, call, 0, &wrong);
      one.timeout_ns = PATIENCE_NS;
      ASSERT_RC(UV_EINVAL, make_call(&one));
      ASSERT(is_untouched(&one));
    }
    ASSERT_U64(submitted, counts_of(f.s).submitted);
  }
  /* A call that need not wait does not look at the waiter. */
  ASSERT_RC(0, uvs_abandon(f.s, &w));
  ASSERT_RC(0, uvs_all_with(f.s, NULL, 0, UVS_NEVER, &wrong, NULL));
  ASSERT_RC(0, uvs_all_with(f.s, NULL, 0, UVS_NEVER, &w, NULL));
  ASSERT_RC(UV_EINTR, uvs_wait_terminated_with(f.s, 0, &w)); /* and the request is still there */
  CHECK_CALL(end());
  PASS();
}

/* F14: a scheduler does not know about a thread that waits in another scheduler or in a queue. */
TEST abandoning_a_waiter_through_another_object_is_refused(void) {
  static uvs_t *other;
  static uv_loop_t other_loop;
  uvs_options_t options;
  uvs_queue_t *q;

  CHECK_CALL(begin());
  ASSERT_RC(0, uv_loop_init(&other_loop));
  uvs_options_init(&options);
  ASSERT_RC(0, uvs_open(&other_loop, &options, &other));
  ASSERT_RC(0, uvs_queue_open(f.s, NULL, &q));
  for (int call = 0; call < CALLS; call++) {
    caller_init(&one, call, far_task(), &w);
    ASSERT_RC(0, caller_start(&one));
    ASSERT(await_asleep(1));
    ASSERT_RC(UV_EINVAL, uvs_abandon(other, &w));
    ASSERT_RC(UV_EINVAL, uvs_queue_abandon(q, &w));
    ASSERT_RC(1, asleep_now());
    ASSERT_RC(0, atomic_load(&one.back));
    ASSERT_RC(1, uvs_abandon(f.s, &w));
    ASSERT_RC(UV_EINTR, caller_join(&one));
  }
  ASSERT_RC(0, uvs_queue_close(q));
  ASSERT_RC(0, uvs_close(other, NULL));
  uv_run(&other_loop, UV_RUN_DEFAULT);
  ASSERT_RC(0, uv_loop_close(&other_loop));
  CHECK_CALL(end());
  PASS();
}

static int do_take(void *queue) {
  uvs_entry_t e;

  return uvs_queue_take(queue, &w, &e);
}

/* D7: the reverse case. */
TEST a_waiter_used_in_a_queue_is_refused_by_a_scheduler(void) {
  static struct errand errand;
  uv_thread_t thread;
  uvs_queue_t *q;

  CHECK_CALL(begin());
  ASSERT_RC(0, uvs_queue_open(f.s, NULL, &q));
  errand = (struct errand){do_take, q, UV_EAGAIN};
  ASSERT_RC(0, uv_thread_create(&thread, errand_main, &errand));
  ASSERT(await_asleep(1));
  ASSERT_RC(UV_EINVAL, uvs_abandon(f.s, &w));
  ASSERT_RC(UV_EBUSY, uvs_wait_terminated_with(f.s, 0, &w));
  ASSERT_RC(1, asleep_now());
  ASSERT_RC(1, uvs_queue_abandon(q, &w));
  uv_thread_join(&thread);
  ASSERT_RC(UV_EINTR, errand.rc);
  ASSERT_RC(0, uvs_queue_close(q));
  CHECK_CALL(end());
  PASS();
}

/* L4: where a call may not wait, it returns UVS_EDEADLK. For a task and for termination, where the
 * call may only look, an earlier request comes first. */
TEST on_the_loop_thread_a_wait_with_a_waiter_returns_edeadlk(void) {
  static struct fixture g;
  uvs_id_t id;

  fixture_init(&g);
  CHECK_CALL(fixture_open_turned(&g));
  uvs_waiter_init(&w);
  uvs_task_t t = fixture_once(&g, 'a', UVS_MS(1));
  t.keep_outcome = 1;
  ASSERT_RC(0, uvs_submit(g.s, &t, &id));
  ASSERT_RC(UVS_EDEADLK, uvs_wait_with(g.s, id, UVS_NEVER, 0, &w, NULL));
  ASSERT_RC(UVS_EDEADLK, uvs_wait_terminated_with(g.s, UVS_NEVER, &w));
  ASSERT_RC(UVS_EDEADLK, uvs_all_with(g.s, &t, 1, UVS_NEVER, &w, NULL));
  ASSERT_RC(UVS_EDEADLK, uvs_any_with(g.s, &t, 1, UVS_NEVER, &w, NULL, NULL));
  ASSERT_EQ(NULL, w.waiting);
  ASSERT_RC(0, uvs_abandon(g.s, &w));
  ASSERT_RC(UV_EINTR, uvs_wait_with(g.s, id, 0, 0, &w, NULL));
  ASSERT_RC(UV_ETIMEDOUT, uvs_wait_with(g.s, id, 0, 0, &w, NULL));
  CHECK_CALL(fixture_close(&g));
  PASS();
}

/* ---------------------------------------------------------------------- groups --- */

/* F14: as when the time limit passes. Task 0 has ended, task 1 runs and ignores its token, task 2
 * has not started. */
TEST an_abandoned_uvs_all_cancels_unfinished_tasks_and_returns_after_all_bodies(void) {
  static struct hold h;

  CHECK_CALL(begin());
  caller_init(&one, ALL, 0, &w);
  memset(&h, 0, sizeof h);
  h.give = &value[3];
  one.t[0] = plain(give_arg, &value[1]);
  one.t[1] = plain(hold_work, &h);
  ASSERT_RC(0, caller_start(&one));
  ASSERT(await_asleep(1));
  ASSERT(await_flag(&h.inside));
  ASSERT(await_first_end());
  ASSERT_RC(1, uvs_abandon(f.s, &w));
  ASSERT(await_flag(&h.saw_token)); /* it is asked to stop */
  ASSERT(await_asleep(1));          /* and the call waits for it */
  ASSERT_RC(0, atomic_load(&one.back));
  ASSERT_RC(0, uvs_abandon(f.s, &w)); /* it is called off already: this one is for the next call */
  ASSERT_RC(0, atomic_load(&one.back));
  atomic_store(&h.open, 1);
  ASSERT_RC(UV_EINTR, caller_join(&one));
  ASSERT_RC(1, atomic_load(&h.left));
  ASSERT_RC(0, one.o[0].status);
  ASSERT_EQ(&value[1], (char *)one.o[0].result);
  ASSERT_RC(UV_ECANCELED, one.o[1].status);
  ASSERT_RC(UVS_ENDED, one.o[1].state);
  ASSERT_EQ(NULL, one.o[1].result);
  ASSERT_RC(UV_ECANCELED, one.o[2].status);
  ASSERT_U64(0, one.o[2].runs);
  ASSERT_U64(2, counts_of(f.s).cancelled);
  ASSERT_U64(0, live_tasks(f.s));
  ASSERT_RC(UV_EINTR, uvs_wait_terminated_with(f.s, 0, &w));
  CHECK_CALL(end());
  PASS();
}

/* F14: a member that succeeds after the abandon does not win. */
TEST an_abandoned_uvs_any_has_no_winner_and_returns_after_all_bodies(void) {
  static struct hold h;

  CHECK_CALL(begin());
  caller_init(&one, ANY, 0, &w);
  memset(&h, 0, sizeof h);
  one.t[0] = plain(fail_work, NULL);
  one.t[1] = plain(hold_work, &h);
  ASSERT_RC(0, caller_start(&one));
  ASSERT(await_asleep(1));
  ASSERT(await_flag(&h.inside));
  ASSERT(await_first_end());
  ASSERT_RC(1, uvs_abandon(f.s, &w));
  ASSERT(await_flag(&h.saw_token));
  ASSERT(await_asleep(1));
  ASSERT_RC(0, atomic_load(&one.back));
  atomic_store(&h.open, 1);
  ASSERT_RC(UV_EINTR, caller_join(&one));
  ASSERT_RC(1, atomic_load(&h.left));
  ASSERT(is_untouched(&one));
  ASSERT_U64(2, counts_of(f.s).cancelled);
  ASSERT_U64(0, live_tasks(f.s));
  CHECK_CALL(end());
  PASS();
}

/* F14 S46 S50: nobody abandons the group, so the waiter makes no difference. */
TEST an_unused_waiter_changes_nothing_for_a_group(void) {
  CHECK_CALL(begin());
  for (int i = 0; i < 10; i++) {
    caller_init(&one, ALL, 0, i % 2 == 0 ? &w : NULL);
    for (int k = 0; k < MEMBERS; k++)
      one.t[k] = plain(give_arg, &value[k]);
    ASSERT_RC(0, make_call(&one));
    for (int k = 0; k < MEMBERS; k++)
      ASSERT_EQ(&value[k], (char *)one.o[k].result);
    caller_init(&one, ANY, 0, i % 2 == 0 ? &w : NULL);
    one.t[1] = plain(give_arg, &value[1]);
    ASSERT_RC(0, make_call(&one));
    ASSERT_U64(1, one.index);
    ASSERT_EQ(&value[1], (char *)one.o[0].result);
    ASSERT_EQ(NULL, w.waiting);
  }
  ASSERT_RC(0, uvs_abandon(f.s, &w)); /* nothing is left in it */
  CHECK_CALL(end());
  PASS();
}

/* L12: threads with a waiter are released like all others, and their waiters can be used again. */
TEST shutdown_releases_threads_that_wait_with_a_waiter(void) {
  static uvs_waiter_t ws[CALLS];
  static struct caller callers[CALLS];
  uvs_id_t id;

  CHECK_CALL(begin());
  id = far_task();
  for (int call = 0; call < CALLS; call++) {
    uvs_waiter_init(&ws[call]);
    caller_init(&callers[call], call, id, &ws[call]);
    ASSERT_RC(0, caller_start(&callers[call]));
  }
  ASSERT(await_asleep(CALLS));
  ASSERT_RC(0, uvs_shutdown_now(f.s, NULL, NULL));
  ASSERT_RC(0, caller_join(&callers[WAIT]));
  ASSERT_RC(UV_ECANCELED, callers[WAIT].o[0].status);
  ASSERT_RC(0, caller_join(&callers[AWAIT]));
  ASSERT_RC(0, caller_join(&callers[ALL]));
  ASSERT_RC(UV_ECANCELED, caller_join(&callers[ANY]));
  for (int call = 0; call < CALLS; call++) {
    ASSERT_EQ(NULL, ws[call].waiting);
    ASSERT_RC(0, uvs_abandon(f.s, &ws[call]));
  }
  ASSERT_RC(UV_EINTR,
            uvs_wait_terminated_with(f.s, UVS_NEVER, &ws[0])); /* though it is terminated */
  ASSERT_RC(0, uvs_wait_terminated_with(f.s, UVS_NEVER, &ws[0]));
  CHECK_CALL(end());
  PASS();
}

/* ----------------------------------------------------------------------- races --- */

enum { PAIRS = 3 };

struct pair {
  uvs_waiter_t w;
  uint64_t random, pause_random; /* of the waiting thread, and of the abandoning thread */
  _Atomic uint64_t interrupted;  /* answers UV_EINTR so far */
  _Atomic int stop;              /* the one that waits may leave */
  uint64_t abandoned;
  _Atomic int wrong;
  uv_thread_t waits, abandons;
};

static uint64_t race_end_ns;

static int race_body(uvs_run_t *run) {
  return uvs_set_result(run, &value[1]);
}

static uvs_task_t race_task(struct pair *p) {
  uvs_task_t t = plain(race_body, NULL);

  t.first_ns = test_random_below(&p->random, 3) == 0
                   ? UVS_DAY(1)
                   : (int64_t)test_random_below(&p->random, 3) * UVS_US(50);
  return t;
}

/* One call of a random kind. Each answer must fit the call. */
static void race_once(struct pair *p) {
  static const int64_t patience[] = {0, UVS_US(20), UVS_US(200), UVS_MS(2)};
  struct caller c;
  int rc;

  caller_init(&c, (int)test_random_below(&p->random, CALLS), 0, &p->w);
  c.timeout_ns = patience[test_random_below(&p->random, 4)];
  for (int i = 0; i < MEMBERS; i++)
    c.t[i] = race_task(p);
  if (c.call == WAIT) {
    c.t[0].keep_outcome = 1;
    if (uvs_submit(f.s, &c.t[0], &c.id) != 0)
      p->wrong++;
  }
  rc = make_call(&c);
  if (rc == UV_EINTR)
    atomic_fetch_add(&p->interrupted, 1);
  else if (rc != UV_ETIMEDOUT && (rc != 0 || c.call == AWAIT))
    p->wrong++;
  if (rc == 0 && c.o[0].result != &value[1])
    p->wrong++;
  if (c.call != ALL && rc != 0 && !is_untouched(&c))
    p->wrong++;
  if (c.call == WAIT) {
    uvs_outcome_t o;
    int now = peek_at(f.s, c.id, &o);

    if (now != UV_ETIMEDOUT && (now != 0 || o.status != 0)) /* abandoned or not, it is untouched */
      p->wrong++;
    if (now == UV_ETIMEDOUT)
      uvs_cancel(f.s, c.id, 0);
    if (uvs_forget(f.s, c.id) != 0)
      p->wrong++;
  }
}

static void race_waits(void *arg) {
  struct pair *p = arg;

  while (!atomic_load(&p->stop))
    race_once(p);
}

/* Each request must cause exactly one UV_EINTR. */
static void race_abandons(void *arg) {
  struct pair *p = arg;

  while (uv_hrtime() < race_end_ns) {
    int rc = uvs_abandon(f.s, &p->w);

    if (rc != 0 && rc != 1)
      p->wrong++;
    p->abandoned++;
    for (int i = 0; atomic_load(&p->interrupted) < p->abandoned && i < 20000; i++)
      uv_sleep(0);
    while (atomic_load(&p->interrupted) < p->abandoned && uv_hrtime() < race_end_ns + UVS_SEC(10))
      uv_sleep(1);
    for (uint64_t i = test_random_below(&p->pause_random, 300); i > 0; i--) {
    }
    if (test_random_below(&p->pause_random, 4) == 0)
      uv_sleep(0);
  }
  atomic_store(&p->stop, 1);
}

/* F14 F15 */
TEST each_request_to_abandon_ends_exactly_one_wait_in_any_interleaving(void) {
  static struct pair pairs[PAIRS];
  uint64_t random = test_seed;
  uint64_t abandoned = 0;

  CHECK_CALL(stage_open(&f, &loop_thread, 2, true));
  race_end_ns = uv_hrtime() + (uint64_t)UVS_MS(700);
  for (int i = 0; i < PAIRS; i++) {
    memset(&pairs[i], 0, sizeof pairs[i]);
    uvs_waiter_init(&pairs[i].w);
    pairs[i].random = test_random(&random) | 1;
    pairs[i].pause_random = test_random(&random) | 1;
    ASSERT_RC(0, uv_thread_create(&pairs[i].waits, race_waits, &pairs[i]));
    ASSERT_RC(0, uv_thread_create(&pairs[i].abandons, race_abandons, &pairs[i]));
  }
  for (int i = 0; i < PAIRS; i++) {
    uv_thread_join(&pairs[i].abandons);
    uv_thread_join(&pairs[i].waits);
    ASSERT_RC(0, atomic_load(&pairs[i].wrong));
    ASSERT_U64(pairs[i].abandoned, atomic_load(&pairs[i].interrupted));
    ASSERT_RC(0, pairs[i].w.requested);
    ASSERT_EQ(NULL, pairs[i].w.waiting);
    abandoned += pairs[i].abandoned;
  }
  ASSERT(abandoned > 0);
  CHECK_CALL(end());
  PASS();
}

static _Atomic int abandon_rc;

static int abandon_and_refuse(uvs_t *s, const uvs_task_t *t, size_t n, int code) {
  (void)t;
  (void)n;
  (void)code;
  atomic_store(&abandon_rc, uvs_abandon(s, &w));
  return UVS_REJECT_ABORT;
}

/* F14: a group is abandoned while it is being submitted, and then the submission is refused. */
TEST a_group_that_is_abandoned_and_refused_reports_abandoned(void) {
  for (int call = ALL; call <= ANY; call++) {
    fixture_init(&f);
    f.options.max_pending = MEMBERS - 1;
    f.hooks.on_rejected = abandon_and_refuse;
    CHECK_CALL(stage_start(&f, &loop_thread));
    uvs_waiter_init(&w);
    caller_init(&one, call, 0, &w);
    ASSERT_RC(0, caller_start(&one));
    ASSERT_RC(UV_EINTR, caller_join(&one));
    ASSERT_RC(1, atomic_load(&abandon_rc));
    ASSERT(is_untouched(&one));
    ASSERT_U64(0, counts_of(f.s).submitted);
    CHECK_CALL(end());
  }
  PASS();
}

SUITE(abandoned) {
  RUN_TEST(a_wait_that_is_abandoned_returns_eintr_and_the_request_is_used_up);
  RUN_TEST(a_wait_that_was_abandoned_before_it_began_returns_eintr_at_once);
  RUN_TEST(a_request_to_abandon_applies_to_the_next_wait_of_any_kind);
  RUN_TEST(a_wait_with_a_time_limit_can_be_abandoned);
  RUN_TEST(one_of_two_waits_for_a_task_is_abandoned);
  RUN_TEST(a_wait_that_ended_just_before_an_abandon_keeps_its_answer);
}

SUITE(refused) {
  RUN_TEST(a_waiter_in_use_is_refused_and_its_thread_keeps_waiting);
  RUN_TEST(a_waiter_that_is_not_initialized_is_refused);
  RUN_TEST(abandoning_a_waiter_through_another_object_is_refused);
  RUN_TEST(a_waiter_used_in_a_queue_is_refused_by_a_scheduler);
  RUN_TEST(on_the_loop_thread_a_wait_with_a_waiter_returns_edeadlk);
}

SUITE(groups) {
  RUN_TEST(an_abandoned_uvs_all_cancels_unfinished_tasks_and_returns_after_all_bodies);
  RUN_TEST(an_abandoned_uvs_any_has_no_winner_and_returns_after_all_bodies);
  RUN_TEST(an_unused_waiter_changes_nothing_for_a_group);
  RUN_TEST(a_group_that_is_abandoned_and_refused_reports_abandoned);
  RUN_TEST(shutdown_releases_threads_that_wait_with_a_waiter);
}

SUITE(races) {
  RUN_TEST(each_request_to_abandon_ends_exactly_one_wait_in_any_interleaving);
}

TEST_MAIN(RUN_SUITE(abandoned); RUN_SUITE(refused); RUN_SUITE(groups); RUN_SUITE(races));
