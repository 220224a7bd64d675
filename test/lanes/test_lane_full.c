/* SPDX-License-Identifier: MIT
 *
 * Lanes of a scheduler at its cap: each rejection policy and its effect on the lane. Also groups of
 * lane tasks, and hooks around lane tasks.
 */
#include "lib/full.h"
#include "lib/lanes.h"

/* One run is pending. The tasks that wait for the lane behind it reach the cap. */
static enum greatest_test_res open_full_lane(struct fixture *f, int rejection, uvs_lane_t *lane,
                                             uvs_id_t *pending) {
  prepare(f, 3, rejection);
  CHECK_CALL(fixture_open_turned(f));
  CHECK_CALL(open_lane(f, 1, lane));
  uvs_task_t p = in_lane(fixture_once(f, 'p', 0), *lane);
  probe_of(&p)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f->s, &p, pending));
  CHECK_CALL(submit(f, *lane, 'a', 0));
  CHECK_CALL(submit(f, *lane, 'b', 0));
  fixture_turn(f);
  ASSERT_U64(2, counts_of(f->s).ready);
  PASS();
}

static enum greatest_test_res end_full_lane(struct fixture *f, uvs_lane_t lane, uvs_id_t pending) {
  ASSERT_RC(0, uvs_lane_finish(lane, pending, 0));
  fixture_turn(f);
  CHECK_CALL(nothing_is_left(f));
  ASSERT_RC(0, uvs_lane_dispose(lane, 0));
  fixture_turn(f);
  ASSERT_STR_EQ("q", log_string(f, EV_USER));
  ASSERT_U64(0, inspect_lanes(f->s));
  CHECK_CALL(close_idle(f));
  PASS();
}

/* S15 S18, and the caller never runs a lane task itself: the runs could overlap. S17 P5 V7 */
TEST a_full_scheduler_refuses_lane_tasks(void) {
  for (int how = 0; how < 4; how++) {
    struct fixture f;
    uvs_lane_t lane;
    uvs_id_t pending, id = 77;

    CHECK_CALL(open_full_lane(&f, how % 2 == 0 ? UVS_REJECT_ABORT : UVS_REJECT_CALLER_RUNS, &lane,
                              &pending));
    uvs_task_t t = in_lane(fixture_once(&f, 'c', 0), lane);
    ASSERT_RC(UV_EAGAIN, submit_from(how >= 2, f.s, &t, 1, &id));
    ASSERT_RC(UV_EAGAIN, uvs_lane_submit(lane, &t, &id));
    ASSERT_U64(77, id);
    ASSERT_U64(2, counts_of(f.s).rejected);
    t.lane = 0; /* it may run here, on its own */
    if (how % 2 != 0)
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_turn(&f);
    ASSERT_STR_EQ(how % 2 != 0 ? "pc" : "p", log_string(&f, EV_WORK));
    CHECK_CALL(end_full_lane(&f, lane, pending));
  }
  PASS();
}

/* S16 V10 */
TEST a_discarded_lane_task_ends_and_leaves_its_lane(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    struct fixture f;
    uvs_lane_t lane;
    uvs_id_t pending;

    CHECK_CALL(open_full_lane(&f, UVS_REJECT_DISCARD, &lane, &pending));
    uvs_task_t t = in_lane(fixture_once(&f, 'c', 0), lane);
    ASSERT_RC(0, submit_from(off_loop != 0, f.s, &t, 1, NULL));
    fixture_turn(&f);
    ASSERT_STR_EQ("c", log_string(&f, EV_DONE));
    ASSERT_U64(1, counts_of(f.s).dropped);
    CHECK_CALL(end_full_lane(&f, lane, pending));
  }
  PASS();
}

/* P6: a task that waits for its lane is not the one that would start next. */
TEST discard_oldest_never_drops_a_task_that_waits_for_its_lane(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    struct fixture f;
    uvs_lane_t lane, free_lane;
    uvs_id_t pending;

    CHECK_CALL(open_full_lane(&f, UVS_REJECT_DISCARD_OLDEST, &lane, &pending));
    CHECK_CALL(open_lane(&f, 1, &free_lane));
    uvs_task_t t = in_lane(fixture_once(&f, 'c', UVS_MS(1)), lane);
    ASSERT_RC(0, submit_from(off_loop != 0, f.s, &t, 1, NULL)); /* there is no other */
    fixture_turn(&f);
    ASSERT_STR_EQ("c", log_string(&f, EV_DONE));
    ASSERT_RC(0, uvs_lane_finish(lane, pending, 0)); /* the fake pool runs all of them */
    fixture_turn(&f);
    ASSERT_STR_EQ("pab", log_string(&f, EV_WORK));

    fakepool_hold();
    for (int i = 0; i < 3; i++)
      CHECK_CALL(submit(&f, i == 2 ? free_lane : lane, 'd' + i, 0));
    fixture_turn(&f); /* d is the next of its lane, e waits behind it */
    for (int i = 0; i < 2; i++) {
      t = in_lane(fixture_once(&f, 'g' + i, 0), lane);
      ASSERT_RC(0, submit_from(off_loop != 0, f.s, &t, 1, NULL));
      fixture_turn(&f);
    }
    fakepool_release();
    fixture_turn(&f);
    ASSERT_STR_EQ("pabegh", log_string(&f, EV_WORK)); /* d went first, then f: e came later */
    ASSERT_U64(3, counts_of(f.s).dropped);
    CHECK_CALL(nothing_is_left(&f));
    CHECK_CALL(close_idle(&f));
  }
  PASS();
}

static uvs_lane_t asked_lane;
static int answer;

static int dispose_and_answer(uvs_t *s, const uvs_task_t *t, size_t n, int code) {
  (void)s;
  (void)t;
  (void)n;
  (void)code;
  if (answer < 0)
    uvs_lane_dispose(asked_lane, 0);
  return answer < 0 ? UVS_REJECT_DISCARD : answer;
}

/* S13 R18: the handler's answers, also if it disposes the lane. */
TEST the_handler_is_asked_about_lane_tasks_too(void) {
  static const struct {
    int answer, rc;
  } plays[] = {{UVS_REJECT_ABORT, UV_EAGAIN},
               {UVS_REJECT_DISCARD, 0},
               {UVS_REJECT_CALLER_RUNS, UV_EAGAIN},
               {-1, UV_ECANCELED}};

  for (unsigned i = 0; i < 2 * sizeof plays / sizeof plays[0]; i++) {
    struct fixture f;

    prepare(&f, 2, UVS_REJECT_ASK);
    f.hooks.on_rejected = dispose_and_answer;
    CHECK_CALL(fill(&f));
    CHECK_CALL(open_lane(&f, 1, &asked_lane));
    answer = plays[i / 2].answer;
    uvs_task_t t = in_lane(fixture_once(&f, 'c', 0), asked_lane);
    ASSERT_RC(plays[i / 2].rc, submit_from(i % 2 != 0, f.s, &t, 1, NULL));
    fixture_turn(&f);
    ASSERT_STR_EQ("", log_string(&f, EV_WORK));
    ASSERT_STR_EQ(answer == UVS_REJECT_DISCARD ? "c" : "", log_string(&f, EV_DONE));
    ASSERT_STR_EQ(answer < 0 ? "q" : "", log_string(&f, EV_USER));
    ASSERT_U64(answer >= 0, inspect_lanes(f.s));
    CHECK_CALL(close_idle(&f));
  }
  PASS();
}

/* --------------------------------------------------------------------- groups --- */

struct group {
  uvs_t *s;
  uvs_task_t t[5];
  uvs_outcome_t o[5];
  size_t winner;
  bool any;
  _Atomic int over;
};

static int gather(void *arg) {
  struct group *g = arg;
  int rc = g->any ? uvs_any(g->s, g->t, 5, UVS_NEVER, &g->winner, NULL)
                  : uvs_all(g->s, g->t, 5, UVS_NEVER, g->o);

  atomic_store(&g->over, 1);
  uvs_clock_changed(g->s); /* for the loop, which waits for `over` */
  return rc;
}

/* S46 S50: in order, one after the other. */
TEST uvs_all_and_uvs_any_work_with_lane_tasks(void) {
  for (int any = 0; any < 2; any++) {
    static struct fixture f;
    static struct group g;
    struct errand e = {gather, &g, UV_EAGAIN};
    uv_thread_t thread;
    uvs_lane_t lane;

    CHECK_CALL(open_real(&f, 3, 1, &lane));
    memset(&g, 0, sizeof g);
    g.s = f.s;
    g.any = any != 0;
    for (int i = 0; i < 5; i++) {
      g.t[i] = in_lane(fixture_once(&f, 'a' + i, 0), lane);
      probe_of(&g.t[i])->ret = any && i < 2 ? UV_EIO : 0;
      uvs_outcome_init(&g.o[i]);
    }
    ASSERT_RC(0, uv_thread_create(&thread, errand_main, &e));
    ASSERT(fixture_wait_flag(&f, &g.over));
    uv_thread_join(&thread);
    ASSERT_RC(0, e.rc);
    while (fakepool_pending() > 0)
      fixture_turn(&f);
    ASSERT(strncmp("abcde", log_string(&f, EV_WORK), any ? 3 : 5) == 0);
    if (any)
      ASSERT_U64(2, g.winner);
    fixture_turn(&f);
    CHECK_CALL(close_idle(&f));
  }
  PASS();
}

/* ---------------------------------------------------------------------- hooks --- */

static int wrapped(uvs_run_t *run) {
  struct probe *p = run->arg;

  log_add(p->f, EV_USER, p->tag, run->id, run->scheduler == NULL);
  return probe_work(run);
}

static void wrap(uvs_t *s, uvs_id_t id, uvs_decoration_t *d) {
  (void)id;
  (void)s;
  d->work = wrapped;
}

/* R14: a wrapper does not see the scheduler either. It can read what was submitted. */
TEST every_body_in_a_lane_can_be_wrapped(void) {
  struct fixture f;
  uvs_lane_t lane;
  uvs_id_t id;

  fixture_init(&f);
  f.hooks.decorate = wrap;
  f.options.concurrency = 2;
  CHECK_CALL(fixture_open_turned(&f));
  CHECK_CALL(open_lane(&f, 1, &lane));
  uvs_task_t now = fixture_once(&f, 'n', 0), delayed = fixture_once(&f, 'd', UVS_MS(15)),
             rate = fixture_rate(&f, 'r', UVS_MS(10), UVS_MS(10));
  ASSERT_RC(0, uvs_lane_submit(lane, &now, NULL));
  ASSERT_RC(0, uvs_lane_submit(lane, &delayed, NULL));
  ASSERT_RC(0, uvs_lane_submit(lane, &rate, &id));
  fixture_advance_ms(&f, 20);
  ASSERT_STR_EQ("nrdr", log_string(&f, EV_USER));
  ASSERT_STR_EQ("nrdr", log_string(&f, EV_WORK));
  for (unsigned i = 0; i < 4; i++)
    ASSERT_RC(1, log_nth(&f, EV_USER, 0, i)->status);
  ASSERT(look_at(f.s, id).info.work == probe_work);
  ASSERT_RC(UVS_CANCELLED, uvs_lane_cancel(lane, id, 0));
  fixture_turn(&f);
  CHECK_CALL(close_idle(&f));
  PASS();
}

SUITE(lane_full) {
  RUN_TEST(a_full_scheduler_refuses_lane_tasks);
  RUN_TEST(a_discarded_lane_task_ends_and_leaves_its_lane);
  RUN_TEST(discard_oldest_never_drops_a_task_that_waits_for_its_lane);
  RUN_TEST(the_handler_is_asked_about_lane_tasks_too);
  RUN_TEST(uvs_all_and_uvs_any_work_with_lane_tasks);
  RUN_TEST(every_body_in_a_lane_can_be_wrapped);
}

TEST_MAIN(RUN_SUITE(lane_full));
