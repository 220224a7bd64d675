/* SPDX-License-Identifier: MIT
 *
 * Executors: where bodies run. Executors of a scheduler and of a lane, the inline executor, the
 * calls that an executor gets, and invalid executors.
 *
 * See also test_executor_refuse.c (an executor refuses), test_executor_cancel.c (cancel, dispose,
 * shutdown, close) and test_executor_threads.c (real threads).
 */
#include <limits.h>

#include "lib/bodies.h"
#include "lib/lanes.h"
#include "lib/shelf.h"
#include "lib/threads.h"

#define UNTOUCHED UINT64_C(0x7e57)

/* Wrapped so that creating a thread can fail. */
static _Atomic int created, joined;
static _Atomic int creations_left = -1; /* 0: the next one fails; below 0: none fails */

int __real_uv_thread_create_ex(uv_thread_t *t, const uv_thread_options_t *o, uv_thread_cb entry,
                               void *arg);
int __wrap_uv_thread_create_ex(uv_thread_t *t, const uv_thread_options_t *o, uv_thread_cb entry,
                               void *arg);
int __real_uv_thread_join(uv_thread_t *t);
int __wrap_uv_thread_join(uv_thread_t *t);

int __wrap_uv_thread_create_ex(uv_thread_t *t, const uv_thread_options_t *o, uv_thread_cb entry,
                               void *arg) {
  int rc = UV_EAGAIN;

  if (atomic_load(&creations_left) != 0)
    rc = __real_uv_thread_create_ex(t, o, entry, arg);
  if (rc == 0 && atomic_load(&creations_left) > 0)
    atomic_fetch_sub(&creations_left, 1);
  atomic_fetch_add(&created, rc == 0);
  return rc;
}

int __wrap_uv_thread_join(uv_thread_t *t) {
  atomic_fetch_add(&joined, 1);
  return __real_uv_thread_join(t);
}

/* --------------------------------------------------------------- the scheduler's --- */

TEST bodies_run_on_the_executor_and_the_executor_is_not_closed(void) {
  struct fixture f;
  struct shelf e;

  fixture_init(&f);
  shelf_init(&e);
  CHECK_CALL(shelf_open(&f, &e));
  ASSERT_RC(1, uvs_concurrency(f.s));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(5));
  t.after = probe_after;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ms(&f, 4);
  ASSERT_U64(0, e.asked);
  fixture_advance_ms(&f, 1);
  ASSERT_U64(1, e.n);
  ASSERT_STR_EQ("", log_string(&f, EV_WORK));
  ASSERT(shelf_run(&e));
  ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
  ASSERT_FALSE(log_nth(&f, EV_WORK, 'a', 0)->on_loop);
  ASSERT_FALSE(log_nth(&f, EV_WORK, 'a', 0)->in_work);
  fixture_turn(&f);
  ASSERT_STR_EQ("a", log_string(&f, EV_AFTER));
  ASSERT(log_nth(&f, EV_AFTER, 'a', 0)->on_loop);
  ASSERT_STR_EQ("a", log_string(&f, EV_DONE));
  ASSERT_U64(0, fakepool_seen().queue_works);
  CHECK_CALL(shelf_close(&f, &e)); /* which looks whether somebody closed it */
  PASS();
}

TEST only_a_lane_with_its_own_executor_does_not_use_the_schedulers(void) {
  struct fixture f;
  struct shelf mine, lanes;
  uvs_lane_t own, plain;

  fixture_init(&f);
  shelf_init(&mine);
  shelf_init(&lanes);
  CHECK_CALL(shelf_open(&f, &mine));
  CHECK_CALL(lane_on(&f, &lanes.table, &own));
  CHECK_CALL(lane_on(&f, NULL, &plain));
  for (int i = 0; i < 3; i++) {
    uvs_task_t t = fixture_once(&f, 'a' + i, 0);
    t.lane = i == 0 ? own : i == 1 ? plain : 0;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  uvs_task_t on_loop = fixture_loop_task(&f, 'd', 0);
  on_loop.lane = own;
  ASSERT_RC(0, uvs_submit(f.s, &on_loop, NULL));
  fixture_turn(&f);
  ASSERT_U64(1, mine.n);
  ASSERT_U64(1, lanes.n);
  ASSERT(shelf_run(&mine));
  ASSERT_STR_EQ("bc", log_string(&f, EV_WORK));
  ASSERT_STR_EQ("", log_string(&f, EV_AFTER)); /* it must wait for its lane */
  ASSERT(shelf_run(&lanes));
  ASSERT_STR_EQ("bca", log_string(&f, EV_WORK));
  fixture_turn(&f);
  ASSERT_STR_EQ("d", log_string(&f, EV_AFTER));
  ASSERT(log_nth(&f, EV_AFTER, 'd', 0)->on_loop);
  ASSERT_U64(4, log_count(&f, EV_DONE, 0));
  CHECK_CALL(shelf_close(&f, &mine));
  ASSERT_U64(0, lanes.closed);
  PASS();
}

/* An overdue task goes before an immediate one that was submitted later, on an executor too. S69 */
TEST immediate_and_delayed_tasks_go_to_the_executor_in_order(void) {
  for (int lane = 0; lane < 2; lane++) {
    struct fixture f;
    struct shelf e;
    uvs_lane_t number = 0;

    fixture_init(&f);
    shelf_init(&e);
    CHECK_CALL(shelf_open(&f, &e));
    if (lane)
      CHECK_CALL(lane_on(&f, &e.table, &number));
    static const struct {
      int tag;
      int64_t delay_ns;
    } of[] = {{'c', UVS_MS(3)}, {'a', UVS_MS(1)}, {'b', UVS_MS(2)}};
    for (int i = 0; i < 3; i++) {
      uvs_task_t t = fixture_once(&f, of[i].tag, of[i].delay_ns);
      t.lane = number;
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    }
    vclock_advance_ns(&f.clock, UVS_MS(5)); /* and the loop has not looked */
    for (int i = 0; i < 2; i++) {
      uvs_task_t t = fixture_once(&f, 'd' + i, 0);
      t.lane = number;
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    }
    shelf_empty(&f, &e);
    ASSERT_STR_EQ("abcde", log_string(&f, EV_WORK));
    CHECK_CALL(shelf_close(&f, &e));
  }
  PASS();
}

/* S69 */
TEST a_task_that_is_due_at_once_arms_no_timer(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    struct fixture f;
    struct shelf e;

    fixture_init(&f);
    f.pool = FAKEPOOL_REAL;
    f.real_clock = true; /* else there is no timer at all */
    shelf_init(&e);
    CHECK_CALL(shelf_open(&f, &e));
    inspect_set_budget_ns(f.s, (uint64_t)UVS_HOUR(1)); /* one runner takes all, if slowly */
    for (int i = 0; i < 10; i++) {
      uvs_task_t t = fixture_once(&f, 'a', i % 2 == 0 ? 0 : -UVS_SEC(1));
      ASSERT_RC(0, off_loop ? submit_elsewhere(f.s, t, NULL) : uvs_submit(f.s, &t, NULL));
      fixture_turn(&f);
    }
    ASSERT_U64(1, e.n);
    ASSERT_U64(10, counts_of(f.s).ready);
    ASSERT_U64(0, fakepool_seen().timer_starts);
    ASSERT(shelf_run(&e));
    ASSERT_U64(10, log_count(&f, EV_WORK, 'a'));
    ASSERT_U64(0, fakepool_seen().timer_starts);
    ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 10));
    uvs_task_t t = fixture_once(&f, 'b', UVS_HOUR(1)); /* a delayed task arms it */
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    ASSERT(fakepool_seen().timer_starts > 0);
    CHECK_CALL(shelf_close(&f, &e));
  }
  PASS();
}

static int count_up(uvs_run_t *run) {
  ++*(int *)run->arg; /* no atomic: the lane orders them */
  return 0;
}

/* Bodies of one lane run on different threads. Each sees what the previous one wrote. R7 */
TEST bodies_of_a_lane_see_each_others_writes_on_any_thread(void) {
  struct fixture f;
  struct shelf e;
  uvs_lane_t lane;
  int count = 0;

  fixture_init(&f);
  f.options.budget_ns = UVS_US(1);
  shelf_init(&e);
  CHECK_CALL(shelf_open(&f, &e));
  CHECK_CALL(lane_on(&f, &e.table, &lane));
  for (int i = 0; i < 100; i++) {
    uvs_task_t t;

    uvs_task_init(&t);
    t.work = count_up;
    t.arg = &count;
    t.lane = lane;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    if (i % 10 == 9)
      shelf_empty(&f, &e); /* a new thread each time */
  }
  ASSERT_RC(100, count);
  CHECK_CALL(shelf_close(&f, &e));
  PASS();
}

/* --------------------------------------------------------------- how many at once --- */

TEST the_executors_concurrency_is_clamped_to_1_to_1024(void) {
  static const struct {
    int says, means;
  } of[] = {{1, 1},       {7, 7},       {0, 1},       {-1, 1},         {UV_ENOTSUP, 1},
            {INT_MIN, 1}, {1024, 1024}, {1025, 1024}, {INT_MAX, 1024}, {2, 2}};
  struct fixture f;
  struct shelf e;

  for (size_t i = 0; i < sizeof of / sizeof *of; i++) { /* at open */
    fixture_init(&f);
    shelf_init(&e);
    e.at_once = of[i].says;
    CHECK_CALL(shelf_open(&f, &e));
    ASSERT_RC(of[i].means, uvs_concurrency(f.s));
    CHECK_CALL(shelf_close(&f, &e));
  }
  fixture_init(&f);
  shelf_init(&e);
  CHECK_CALL(shelf_open(&f, &e));
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) { /* and later */
    e.at_once = of[i].says;
    uvs_task_t t = fixture_once(&f, 'a', 0);
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    shelf_empty(&f, &e);
    ASSERT_RC(of[i].means, uvs_concurrency(f.s));
  }
  CHECK_CALL(shelf_close(&f, &e));
  fixture_init(&f); /* no concurrency given */
  shelf_init(&e);
  e.table.concurrency = NULL;
  CHECK_CALL(shelf_open(&f, &e));
  ASSERT_RC(1, uvs_concurrency(f.s));
  CHECK_CALL(shelf_close(&f, &e));
  PASS();
}

TEST as_many_runners_are_submitted_as_the_executors_current_concurrency(void) {
  for (int own = 0; own < 2; own++) {
    struct fixture f;
    struct shelf e;
    uvs_lane_options_t o;
    uvs_lane_t lane = 0;

    fixture_init(&f);
    shelf_init(&e);
    e.at_once = 2;
    if (own) {
      CHECK_CALL(fixture_open_turned(&f));
      uvs_lane_options_init(&o);
      o.width = 0;
      o.executor = &e.table;
      ASSERT_RC(0, uvs_lane_open(f.s, &o, &lane));
    } else {
      CHECK_CALL(shelf_open(&f, &e));
    }
    for (int i = 0; i < 20; i++) {
      uvs_task_t t = fixture_once(&f, 'a', 0);
      t.lane = lane;
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
      if (i == 5) {
        fixture_turn(&f);
        ASSERT_U64(2, e.n);
        e.at_once = 5;
      }
      if (i == 10) {
        fixture_turn(&f);
        ASSERT_U64(5, e.n);
        e.at_once = 1;
      }
    }
    fixture_turn(&f);
    ASSERT_U64(5, e.n); /* runners that are out stay out */
    ASSERT(shelf_run(&e));
    ASSERT_U64(20, log_count(&f, EV_WORK, 'a'));
    shelf_empty(&f, &e);
    for (int i = 0; i < 3; i++) {
      uvs_task_t t = fixture_once(&f, 'b', 0);
      t.lane = lane;
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    }
    fixture_turn(&f);
    ASSERT_U64(1, e.n);
    CHECK_CALL(shelf_close(&f, &e));
  }
  PASS();
}

TEST an_explicit_concurrency_overrides_the_executors(void) {
  struct fixture f;
  struct shelf e;

  for (int given = 0; given < 2; given++) {
    fixture_init(&f);
    shelf_init(&e);
    e.at_once = 7;
    f.options.concurrency = given ? 3 : -1;
    CHECK_CALL(shelf_open(&f, &e));
    ASSERT_RC(given ? 3 : 7, uvs_concurrency(f.s));
    if (!given)
      ASSERT_RC(0, uvs_set_concurrency(f.s, 3));
    for (int i = 0; i < 10; i++) {
      uvs_task_t t = fixture_once(&f, 'a', 0);
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    }
    fixture_turn(&f);
    ASSERT_U64(3, e.n);
    ASSERT_RC(0, uvs_set_concurrency(f.s, 4));
    fixture_turn(&f);
    ASSERT_U64(4, e.n);
    shelf_empty(&f, &e);
    ASSERT_RC(0, uvs_set_concurrency(f.s, 0)); /* on the loop */
    uvs_task_t t = fixture_once(&f, 'b', 0);
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_turn(&f);
    ASSERT(log_nth(&f, EV_WORK, 'b', 0)->on_loop);
    ASSERT_RC(UVS_ON_LOOP, log_nth(&f, EV_WORK, 'b', 0)->runner);
    ASSERT_U64(4, e.submitted);
    CHECK_CALL(shelf_close(&f, &e));
  }
  PASS();
}

/* -------------------------------------------------------------------------- inline --- */

TEST inline_bodies_run_on_the_loop(void) {
  struct fixture f;

  fixture_init(&f);
  f.options.executor = uvs_inline_executor();
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_rate(&f, 'a', 0, UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ms(&f, 30);
  ASSERT_STR_EQ("0 10 20 30", log_runs(&f, EV_WORK, 'a'));
  ASSERT(log_nth(&f, EV_WORK, 'a', 0)->on_loop);
  ASSERT_U64(0, fakepool_seen().queue_works);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* After the budget other users of the loop run, as with runners elsewhere. L7 */
TEST inline_bodies_do_not_hold_the_loop_longer_than_the_budget(void) {
  struct fixture f;

  fixture_init(&f);
  f.options.executor = uvs_inline_executor();
  CHECK_CALL(fixture_open_turned(&f));
  for (int i = 0; i < 20; i++) {
    uvs_task_t t = fixture_once(&f, 'a', 0);
    probe_of(&t)->takes_ns = UVS_MS(1);
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  fakepool_pin();
  for (unsigned turn = 1; turn < 10; turn++) {
    uv_run(&f.loop, UV_RUN_NOWAIT);
    ASSERT(log_count(&f, EV_WORK, 'a') <= 2 * turn);
  }
  fakepool_unpin();
  fixture_turn(&f);
  ASSERT_U64(20, log_count(&f, EV_DONE, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

enum deed {
  SUBMIT,
  CANCEL_NEXT,
  CANCEL_SELF,
  SHUT_DOWN,
  SHUT_DOWN_NOW,
  CLOSE,
  DISPOSE,
  OPEN,
  DEEDS
};

static struct {
  enum deed deed;
  uvs_id_t b;
  uvs_lane_t lane, opened;
  uvs_task_t another;
} inside;

static int act_inside(struct probe *p, uvs_run_t *run) {
  uvs_t *s = p->f->s;
  int rc;

  switch (inside.deed) {
  case SUBMIT:
    rc = uvs_submit(s, &inside.another, NULL);
    break;
  case CANCEL_NEXT:
    rc = uvs_cancel(s, inside.b, 0) == UVS_CANCELLED ? 0 : UV_EIO;
    break;
  case CANCEL_SELF:
    rc = uvs_cancel(s, run->id, 0) == UVS_CANCELLED_WHILE_RUNNING ? 0 : UV_EIO;
    break;
  case SHUT_DOWN:
    rc = uvs_shutdown(s);
    break;
  case SHUT_DOWN_NOW:
    rc = uvs_shutdown_now(s, probe_never_ran, NULL);
    break;
  case CLOSE:
    p->f->s = NULL;
    rc = uvs_close(s, note_closed);
    break;
  case DISPOSE:
    rc = uvs_lane_dispose(inside.lane, UVS_DISPOSE_TOKEN);
    break;
  default: { /* a lane like ours, and a task for it */
    uvs_lane_options_t o;

    uvs_lane_options_init(&o);
    o.executor = uvs_inline_executor();
    rc = uvs_lane_open(s, &o, &inside.opened);
    inside.another.lane = inside.opened;
    rc = rc < 0 ? rc : uvs_submit(s, &inside.another, NULL);
  }
  }
  return rc;
}

/* 'a' acts, 'b' is ready after it, 'd' is submitted by 'a'. */
static const struct {
  const char *works, *dones;
  int status[3];
} insides[DEEDS] = {
    [SUBMIT] = {"abd", "abd", {0, 0, 0}},
    [CANCEL_NEXT] = {"a", "ba", {UV_ECANCELED, 0}},
    [CANCEL_SELF] = {"ab", "ab", {UV_ECANCELED, 0}},
    [SHUT_DOWN] = {"ab", "ab", {0, 0}},
    [SHUT_DOWN_NOW] = {"a", "ba", {UV_ECANCELED, 0}},
    [CLOSE] = {"a", "ba", {UV_ECANCELED, 0}},
    [DISPOSE] = {"a", "ba", {UV_ECANCELED, UV_ECANCELED}},
    [OPEN] = {"abd", "abd", {0, 0, 0}},
};

/* The body runs in the middle of a loop pass of the scheduler, and is not nested in another call.
 * R1 R16 */
TEST an_inline_body_may_call_any_function(void) {
  for (enum deed deed = 0; deed < DEEDS; deed++) {
    for (int place = deed == DISPOSE; place < 3; place++) { /* scheduler, lane, lane's own */
      struct fixture f;
      char dones[2] = {0};

      fixture_init(&f);
      memset(&inside, 0, sizeof inside);
      inside.deed = deed;
      if (place < 2)
        f.options.executor = uvs_inline_executor();
      CHECK_CALL(fixture_open_turned(&f));
      if (place > 0)
        CHECK_CALL(lane_on(&f, place == 1 ? NULL : uvs_inline_executor(), &inside.lane));
      uvs_task_t a = fixture_once(&f, 'a', 0), b = fixture_once(&f, 'b', 0);
      a.lane = b.lane = inside.lane;
      probe_of(&a)->act = act_inside;
      inside.another = fixture_once(&f, 'd', 0);
      inside.another.lane = inside.lane;
      ASSERT_RC(0, uvs_submit(f.s, &a, NULL));
      ASSERT_RC(0, uvs_submit(f.s, &b, &inside.b));
      fixture_turn(&f);
      if (deed == CLOSE)
        fixture_turn_until_closed(&f);
      ASSERT_STR_EQ(insides[deed].works, log_string(&f, EV_WORK));
      ASSERT_U64(strlen(insides[deed].dones), log_count(&f, EV_DONE, 0));
      for (int i = 0; insides[deed].dones[i] != '\0'; i++) {
        dones[0] = insides[deed].dones[i];
        ASSERT_U64(1, log_count(&f, EV_DONE, dones[0]));
        ASSERT_RC(insides[deed].status[i], log_nth(&f, EV_DONE, dones[0], 0)->status);
      }
      ASSERT_STR_EQ(deed == SHUT_DOWN_NOW ? "b" : "", log_string(&f, EV_NEVER_RAN));
      if (deed == CLOSE)
        ASSERT(f.closed);
      else
        ASSERT_U64(0, live_tasks(f.s));
      if (deed == SHUT_DOWN || deed == SHUT_DOWN_NOW)
        ASSERT_RC(1, uvs_is_terminated(f.s));
      ASSERT_U64(deed == DISPOSE || (deed == CLOSE && place > 0), log_count(&f, EV_USER, 'q'));
      CHECK_CALL(fixture_close(&f));
    }
  }
  PASS();
}

static int submits_itself(struct probe *p, uvs_run_t *run) {
  uvs_task_t t;

  if (--p->after_ret == 0)
    return 0;
  uvs_task_init(&t);
  t.work = probe_work;
  t.arg = p;
  return uvs_submit(run->scheduler, &t, NULL);
}

/* R5 R6 */
TEST inline_bodies_that_submit_do_not_nest(void) {
  struct fixture f;

  fixture_init(&f);
  f.options.executor = uvs_inline_executor();
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  probe_of(&t)->act = submits_itself;
  probe_of(&t)->after_ret = 10000; /* number of runs */
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  ASSERT_U64(10000, log_count(&f, EV_WORK, 'a'));
  ASSERT_RC(0, probe_of(&t)->after_ret);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ------------------------------------------------------------------- at the door --- */

struct where {
  const uvs_executor_t *executor;
  int threads;
  const char *name;
};

/* Opens a scheduler, and a lane in s, with these options. Both calls must return the same code. */
static enum greatest_test_res both_answer(struct fixture *f, int code, struct where w) {
  uvs_lane_t lane = UNTOUCHED;
  uvs_t *s = (uvs_t *)(uintptr_t)UNTOUCHED;
  uvs_counts_t before = counts_of(f->s), after;
  uvs_lane_options_t lo;
  uvs_options_t o = f->options;
  struct fault fault;

  fault_init(&fault);
  atomic_store(&created, 0);
  atomic_store(&joined, 0);
  o.executor = w.executor;
  o.threads = w.threads;
  o.thread_name = w.name;
  o.allocator = fault_option(&fault);
  ASSERT_RC(code, uvs_open(&f->loop, &o, &s));
  ASSERT(s == (uvs_t *)(uintptr_t)UNTOUCHED);
  ASSERT_EQ_FMT(0L, atomic_load(&fault.live), "%ld");
  uvs_lane_options_init(&lo);
  lo.executor = w.executor;
  lo.threads = w.threads;
  lo.thread_name = w.name;
  long live = atomic_load(&f->fault.live);
  ASSERT_RC(code, uvs_lane_open(f->s, &lo, &lane));
  ASSERT_U64(UNTOUCHED, lane);
  ASSERT_EQ_FMT(live, atomic_load(&f->fault.live), "%ld");
  after = counts_of(f->s);
  ASSERT_MEM_EQ(&before, &after, sizeof after);
  ASSERT_RC(atomic_load(&created), atomic_load(&joined));
  PASS();
}

TEST invalid_executor_options_are_refused_and_change_nothing(void) {
  struct fixture f;
  struct shelf good, small, large, empty;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  shelf_init(&good);
  small = large = empty = good;
  small.table.size -= sizeof(void *);
  large.table.size += sizeof(void *);
  empty.table.submit = NULL;
  const struct where wrong[] = {
      {&good.table, 1, NULL},   {&good.table, -1, NULL},
      {&good.table, 0, "name"}, {&small.table, 0, NULL},
      {&large.table, 0, NULL},  {&empty.table, 0, NULL},
      {NULL, -1, NULL},         {NULL, INT_MIN, NULL},
      {NULL, 1025, NULL},       {NULL, INT_MAX, NULL},
      {NULL, 0, "name"},        {NULL, 0, ""},
      {NULL, 1, "elevenbytes"}, {NULL, 1, "much longer than any name of a thread can be"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    CHECK_CALL(both_answer(&f, UV_EINVAL, wrong[i]));
  ASSERT_U64(0, good.asked + small.asked + large.asked);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* All threads but the last can be created. */
TEST open_fails_if_a_thread_cannot_be_created_and_leaves_no_thread(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  for (int left = 0; left < 4; left++) {
    uvs_lane_options_t lo;
    uvs_lane_t lane = UNTOUCHED;
    uvs_options_t o = f.options;
    uvs_t *s = NULL;

    atomic_store(&created, 0);
    atomic_store(&joined, 0);
    o.threads = 4;
    atomic_store(&creations_left, left);
    ASSERT_RC(UV_EAGAIN, uvs_open(&f.loop, &o, &s));
    ASSERT(s == NULL);
    uvs_lane_options_init(&lo);
    lo.threads = 4;
    atomic_store(&creations_left, left);
    ASSERT_RC(UV_EAGAIN, uvs_lane_open(f.s, &lo, &lane));
    atomic_store(&creations_left, -1);
    ASSERT_U64(UNTOUCHED, lane);
    ASSERT_RC(2 * left, atomic_load(&created));
    ASSERT_RC(2 * left, atomic_load(&joined));
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L10 */
TEST a_scheduler_with_threads_opens_or_fails_cleanly_at_every_allocation(void) {
  long failures = 0;
  bool failed = true;

  for (long n = 0; failed; n++) {
    struct fault fault;
    uvs_options_t o;
    uv_loop_t loop;
    uvs_t *s = NULL;
    int rc;

    ASSERT_RC(0, uv_loop_init(&loop));
    fault_init(&fault);
    uvs_options_init(&o);
    o.threads = 3;
    o.thread_name = "fault";
    o.allocator = fault_option(&fault);
    atomic_store(&created, 0);
    atomic_store(&joined, 0);
    fault_after(n);
    rc = uvs_open(&loop, &o, &s);
    failed = fault_hit();
    ASSERT_RC(failed ? UV_ENOMEM : 0, rc);
    failures += failed;
    if (!failed) {
      ASSERT_RC(3, atomic_load(&created));
      ASSERT_RC(0, uvs_close(s, NULL));
      ASSERT_RC(0, uv_run(&loop, UV_RUN_DEFAULT));
    }
    ASSERT_RC(0, uv_loop_close(&loop));
    ASSERT_RC(atomic_load(&created), atomic_load(&joined));
    ASSERT_EQ_FMT(0L, atomic_load(&fault.live), "%ld");
  }
  ASSERT(failures > 5); /* itself, the pool, its jobs, its threads, the runners */
  PASS();
}

/* L10 */
TEST a_lane_with_threads_opens_or_fails_cleanly_at_every_allocation(void) {
  for (int own = 0; own < 2; own++) {
    struct fixture f;
    struct shelf e;
    uvs_lane_options_t o;
    uvs_lane_t lane;
    long failures = 0;
    bool failed = true;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    shelf_init(&e);
    e.at_once = 20; /* runners are made for it */
    uvs_lane_options_init(&o);
    o.width = 0;
    o.on_quiet = log_quiet;
    o.arg = &f;
    if (own)
      o.threads = 3;
    else
      o.executor = &e.table;
    for (long n = 0; failed; n++) {
      long live = atomic_load(&f.fault.live);

      lane = UNTOUCHED;
      atomic_store(&created, 0);
      atomic_store(&joined, 0);
      fault_after(n);
      int rc = uvs_lane_open(f.s, &o, &lane);
      failed = fault_hit();
      failures += failed;
      ASSERT_RC(failed ? UV_ENOMEM : 0, rc);
      if (failed) {
        ASSERT_U64(UNTOUCHED, lane);
        ASSERT_EQ_FMT(live, atomic_load(&f.fault.live), "%ld");
        ASSERT_RC(atomic_load(&created), atomic_load(&joined));
      }
    }
    ASSERT(failures > 5);
    uvs_task_t t = fixture_once(&f, 'a', 0); /* and this one works */
    t.lane = lane;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    if (own)
      ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 1));
    else
      shelf_empty(&f, &e);
    ASSERT_STR_EQ("a", log_string(&f, EV_DONE));
    atomic_store(&joined, 0); /* the shelf's */
    ASSERT_RC(0, uvs_lane_dispose(lane, 0));
    ASSERT(fixture_wait_log(&f, EV_USER, 'q', 1));
    ASSERT_RC(atomic_load(&created), atomic_load(&joined));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* More runners are wanted than there is memory for: the existing ones do the work. L10 */
TEST without_memory_for_more_runners_the_existing_ones_do_the_work(void) {
  struct fixture f;
  struct shelf e;

  fixture_init(&f);
  shelf_init(&e);
  CHECK_CALL(shelf_open(&f, &e));
  e.at_once = 50;
  for (int i = 0; i < 5; i++) {
    uvs_task_t t = fixture_once(&f, 'a', 0);
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  fault_from(0);
  fixture_turn(&f);
  ASSERT_U64(1, e.n);
  ASSERT(fault_hit());
  ASSERT_RC(1, uvs_concurrency(f.s));
  shelf_empty(&f, &e);
  ASSERT_U64(5, log_count(&f, EV_DONE, 'a'));
  CHECK_CALL(shelf_close(&f, &e));
  PASS();
}

/* --------------------------------------------------------------- its end --- */

static uvs_threads_t *lent;
static int joined_when_told;

static void takes_back(uvs_t *s, void *arg) {
  (void)s;
  *(int *)arg = uvs_threads_close(lent);
}

static void takes_back_when_quiet(uvs_t *s, uvs_lane_t lane, void *arg) {
  (void)lane;
  joined_when_told = atomic_load(&joined);
  if (lent != NULL)
    takes_back(s, arg);
}

/* When `quiet` is called, the lane's executor is free again and none of its own threads is left. (A
 * sanitizer sees if the executor is still used afterwards.) */
TEST a_quiet_lane_no_longer_uses_its_executor(void) {
  enum { OWN, LENT, LENT_UNTIL_CLEANUP, WAYS };

  for (int way = OWN; way < WAYS; way++) {
    uvs_threads_options_t threads;
    uvs_lane_options_t o;
    struct fixture f;
    uvs_lane_t lane;
    int rc = 1;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    atomic_store(&created, 0);
    atomic_store(&joined, 0);
    joined_when_told = -1;
    lent = NULL;
    uvs_lane_options_init(&o);
    if (way == OWN) {
      o.threads = 2;
    } else {
      uvs_threads_options_init(&threads);
      threads.threads = 2;
      ASSERT_RC(0, uvs_threads_open(&threads, &lent));
      o.executor = uvs_threads_executor(lent);
    }
    if (way != LENT_UNTIL_CLEANUP)
      o.on_quiet = takes_back_when_quiet;
    o.arg = &rc;
    ASSERT_RC(0, uvs_lane_open(f.s, &o, &lane));
    if (way == LENT_UNTIL_CLEANUP)
      ASSERT_RC(0, uvs_lane_add_cleanup(f.s, lane, takes_back, &rc, 0));
    uvs_task_t t = fixture_once(&f, 'a', 0);
    t.lane = lane;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 1));
    ASSERT_RC(0, uvs_lane_dispose(lane, 0));
    for (uint64_t start = uv_hrtime();
         inspect_lanes(f.s) > 0 && uv_hrtime() - start < (uint64_t)PATIENCE_NS;)
      fixture_turn(&f);
    ASSERT_RC(2, atomic_load(&created));
    ASSERT_RC(2, atomic_load(&joined));
    if (way == OWN)
      ASSERT_RC(2, joined_when_told);
    else
      ASSERT_RC(0, rc);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* A new lane reuses the runners of a freed lane, and resizing an executor no longer finds the freed
 * lane. (If it did, a wake-up or a sanitizer would show it.) R28 */
TEST lanes_with_an_executor_leave_nothing_behind(void) {
  uvs_threads_options_t threads;
  uvs_lane_options_t o;
  uvs_threads_t *pool;
  struct fixture f;
  uvs_lane_t lane;
  uint64_t wakeups;
  int made = 0;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_threads_options_init(&threads);
  threads.threads = 3;
  ASSERT_RC(0, uvs_threads_open(&threads, &pool));
  uvs_lane_options_init(&o);
  o.executor = uvs_threads_executor(pool);
  for (int i = 0; i < 50; i++) {
    ASSERT_RC(0, uvs_lane_open(f.s, &o, &lane));
    ASSERT_RC(0, uvs_lane_dispose(lane, 0));
    fixture_turn(&f);
    ASSERT_U64(0, inspect_lanes(f.s));
    if (i == 0)
      made = inspect_runners_made(f.s);
    ASSERT_RC(made, inspect_runners_made(f.s));
  }
  wakeups = counts_of(f.s).wakeups;
  ASSERT_RC(0, uvs_threads_resize(pool, 2));
  fixture_turn(&f);
  ASSERT_U64(wakeups, counts_of(f.s).wakeups);
  ASSERT_RC(0, uvs_threads_close(pool));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* A lane has no more runners than it can use, however many threads there are: a runner takes 11
 * KB. */
TEST a_lane_has_at_most_as_many_runners_as_its_width(void) {
  static const struct {
    uint32_t width;
    int runners;
  } of[] = {{1, 1}, {3, 3}, {40, 40}, {100, 40}, {0, 40}};

  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    uvs_lane_options_t o;
    struct fixture f;
    struct shelf e;
    uvs_lane_t lane;

    fixture_init(&f);
    shelf_init(&e);
    e.at_once = 40;
    CHECK_CALL(fixture_open_turned(&f));
    int made = inspect_runners_made(f.s);
    uvs_lane_options_init(&o);
    o.width = of[i].width;
    o.executor = &e.table;
    ASSERT_RC(0, uvs_lane_open(f.s, &o, &lane));
    ASSERT_RC(of[i].runners, inspect_runners_made(f.s) - made);
    for (int k = 0; k < 50; k++) {
      uvs_task_t t = fixture_once(&f, 'a', 0);
      t.lane = lane;
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    }
    fixture_turn(&f);
    ASSERT_RC(of[i].runners, (int)e.n);
    ASSERT_RC(of[i].runners, inspect_runners_made(f.s) - made);
    shelf_empty(&f, &e);
    ASSERT_U64(50, log_count(&f, EV_DONE, 'a'));
    CHECK_CALL(shelf_close(&f, &e));
  }
  PASS();
}

/* One loop pass is enough, and lanes whose runner was submitted before do not delay the others. */
TEST each_lane_has_a_submitted_runner_after_one_loop_pass(void) {
  enum { LANES = 5 };
  struct fixture f;
  struct shelf e;
  uvs_lane_t lane[LANES];

  fixture_init(&f);
  shelf_init(&e);
  CHECK_CALL(fixture_open_turned(&f));
  for (int i = 0; i < LANES; i++)
    CHECK_CALL(lane_on(&f, &e.table, &lane[i]));
  for (int round = 1; round <= 2; round++) {
    for (int i = 0; i < LANES; i++) {
      uvs_task_t t = fixture_once(&f, 'a', 0);
      t.lane = lane[i];
      if (i % 2 == round % 2)
        ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    }
    uv_run(&f.loop, UV_RUN_NOWAIT);
    ASSERT_U64(round == 1 ? 2 : LANES, e.n);
  }
  shelf_empty(&f, &e);
  ASSERT_U64(LANES, log_count(&f, EV_DONE, 'a'));
  CHECK_CALL(shelf_close(&f, &e));
  PASS();
}

static uvs_lane_t doomed;

static int act_disposes_another(struct probe *p, uvs_run_t *run) {
  (void)p;
  (void)run;
  return uvs_lane_dispose(doomed, 0);
}

/* Only lanes with ready tasks cost the loop time, and each of them gets a runner, even if other
 * lanes end meanwhile. */
TEST every_lane_with_ready_tasks_gets_a_runner(void) {
  enum { LANES = 6 };
  struct fixture f;
  uvs_lane_t lane[LANES];

  for (int first = 0; first < LANES; first++) {
    for (int last = 0; last < LANES; last++) {
      if (last == first)
        continue;
      fixture_init(&f);
      CHECK_CALL(fixture_open_turned(&f));
      for (int i = 0; i < LANES; i++) {
        CHECK_CALL(lane_on(&f, uvs_inline_executor(), &lane[i]));
        uvs_task_t t = fixture_once(&f, 'a' + i, 0);
        t.lane = lane[i];
        if (i == first)
          probe_of(&t)->act = act_disposes_another;
        ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
      }
      doomed = lane[last];
      uv_run(&f.loop, UV_RUN_NOWAIT);
      for (int i = 0; i < LANES; i++) {
        unsigned runs = log_count(&f, EV_WORK, 'a' + i);
        ASSERT_U64(i != last || last < first, runs);
      }
      fixture_turn(&f);
      ASSERT_U64(LANES, log_count(&f, EV_DONE, 0));
      ASSERT(inspect_idle(f.s));
      ASSERT_U64(LANES - 1, inspect_lanes(f.s));
      CHECK_CALL(fixture_close(&f));
    }
  }
  PASS();
}

SUITE(executor) {
  RUN_TEST(bodies_run_on_the_executor_and_the_executor_is_not_closed);
  RUN_TEST(only_a_lane_with_its_own_executor_does_not_use_the_schedulers);
  RUN_TEST(immediate_and_delayed_tasks_go_to_the_executor_in_order);
  RUN_TEST(a_task_that_is_due_at_once_arms_no_timer);
  RUN_TEST(bodies_of_a_lane_see_each_others_writes_on_any_thread);
  RUN_TEST(the_executors_concurrency_is_clamped_to_1_to_1024);
  RUN_TEST(as_many_runners_are_submitted_as_the_executors_current_concurrency);
  RUN_TEST(an_explicit_concurrency_overrides_the_executors);
  RUN_TEST(a_quiet_lane_no_longer_uses_its_executor);
  RUN_TEST(lanes_with_an_executor_leave_nothing_behind);
  RUN_TEST(a_lane_has_at_most_as_many_runners_as_its_width);
  RUN_TEST(each_lane_has_a_submitted_runner_after_one_loop_pass);
  RUN_TEST(every_lane_with_ready_tasks_gets_a_runner);
}

SUITE(in_place) {
  RUN_TEST(inline_bodies_run_on_the_loop);
  RUN_TEST(inline_bodies_do_not_hold_the_loop_longer_than_the_budget);
  RUN_TEST(an_inline_body_may_call_any_function);
  RUN_TEST(inline_bodies_that_submit_do_not_nest);
}

SUITE(door) {
  RUN_TEST(invalid_executor_options_are_refused_and_change_nothing);
  RUN_TEST(open_fails_if_a_thread_cannot_be_created_and_leaves_no_thread);
  RUN_TEST(a_scheduler_with_threads_opens_or_fails_cleanly_at_every_allocation);
  RUN_TEST(a_lane_with_threads_opens_or_fails_cleanly_at_every_allocation);
  RUN_TEST(without_memory_for_more_runners_the_existing_ones_do_the_work);
}

TEST_MAIN(RUN_SUITE(executor); RUN_SUITE(in_place); RUN_SUITE(door));
