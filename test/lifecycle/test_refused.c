/* SPDX-License-Identifier: MIT
 *
 * Submissions that are refused, by every submitting call: after a shutdown, and at the cap. The
 * call returns the error, nothing runs, and only the rejected count changes.
 */
#include "lib/bodies.h"
#include "lib/fixture.h"
#include "lib/threads.h"

#define UNTOUCHED UINT64_C(4711)

/* ------------------------------------------------------------- every way in --- */

enum way_in { SUBMIT, MANY, EXECUTE, SCHEDULE, RATE, DELAY, AT, ALL, ANY, WAYS_IN };

struct entry {
  uvs_t *s;
  enum way_in way;
  uvs_task_t t; /* 'x' */
  uvs_id_t id;
  size_t winner;
  uvs_outcome_t o;
};

/* All tasks are due far in the future, so that none could have run already. */
static int enter(void *arg) {
  struct entry *e = arg;
  int64_t delay_ns = UVS_HOUR(1);

  switch (e->way) {
  case SUBMIT:
    return uvs_submit(e->s, &e->t, &e->id);
  case MANY:
    return uvs_submit_many(e->s, &e->t, 1, &e->id);
  case EXECUTE:
    return uvs_execute(e->s, probe_work, e->t.arg);
  case SCHEDULE:
    return uvs_schedule(e->s, delay_ns, probe_work, e->t.arg, &e->id);
  case RATE:
    return uvs_schedule_at_fixed_rate(e->s, delay_ns, delay_ns, probe_work, e->t.arg, &e->id);
  case DELAY:
    return uvs_schedule_with_fixed_delay(e->s, delay_ns, delay_ns, probe_work, e->t.arg, &e->id);
  case AT:
    return uvs_schedule_at(e->s, VCLOCK_WALL_NS + delay_ns, probe_work, e->t.arg, &e->id);
  case ALL:
    return uvs_all(e->s, &e->t, 1, UVS_NEVER, &e->o);
  default:
    return uvs_any(e->s, &e->t, 1, UVS_NEVER, &e->winner, &e->o);
  }
}

static struct entry entry_of(struct fixture *f, enum way_in way) {
  struct entry e = {.s = f->s, .way = way, .id = UNTOUCHED, .winner = UNTOUCHED};

  e.t = fixture_once(f, 'x', UVS_HOUR(1));
  uvs_outcome_init(&e.o);
  return e;
}

/* By every submitting call, on the loop thread and on another thread. */
static enum greatest_test_res all_refused(struct fixture *f, int code) {
  for (enum way_in way = 0; way < WAYS_IN; way++) {
    for (int off_loop = 0; off_loop < 2; off_loop++) {
      struct entry e = entry_of(f, way);
      uvs_counts_t before = counts_of(f->s), after;
      uvs_outcome_t untouched = e.o;
      unsigned events = log_total(f);

      if (!off_loop && (way == ALL || way == ANY))
        continue; /* who would have to wait hears that first */
      ASSERT_RC(code, off_loop ? elsewhere(enter, &e) : enter(&e));
      after = counts_of(f->s);
      ASSERT_U64(before.rejected + 1, after.rejected);
      after.rejected = before.rejected;
      ASSERT_MEM_EQ(&before, &after, sizeof after);
      ASSERT_U64(UNTOUCHED, e.id);
      ASSERT_U64(UNTOUCHED, e.winner);
      ASSERT_MEM_EQ(&untouched, &e.o, sizeof untouched);
      fixture_turn(f);
      ASSERT_U64(events, log_total(f)); /* no callback */
    }
  }
  PASS();
}

/* -------------------------------------------------------------- shut down --- */

static int shut_within(void *s) {
  return uvs_shutdown_within(s, UVS_DAY(2));
}

static int shut_at_once(void *s) {
  return uvs_shutdown_within(s, 0);
}

static int (*const ways_out[])(void *) = {do_shutdown, shut_within, do_shutdown_now_quietly,
                                          shut_at_once};

enum { WAYS_OUT = sizeof ways_out / sizeof *ways_out };

/* S12 S15 S18 */
TEST after_any_shutdown_every_kind_of_submission_is_refused(void) {
  for (int out = 0; out < WAYS_OUT; out++) {
    struct fixture f;
    uvs_id_t id;

    fixture_init(&f);
    f.options.max_pending = 100; /* full or not: this comes first */
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t p = fixture_once(&f, 'p', 0);
    probe_of(&p)->ret = UVS_PENDING;
    ASSERT_RC(0, uvs_submit(f.s, &p, &id));
    fixture_turn(&f);
    ASSERT_RC(0, ways_out[out](f.s));
    CHECK_CALL(all_refused(&f, UV_ESHUTDOWN)); /* the loop has only heard of it ... */
    fixture_advance_ms(&f, 100);
    ASSERT_RC(1, uvs_is_terminating(f.s));
    CHECK_CALL(all_refused(&f, UV_ESHUTDOWN)); /* ... it winds down ... */
    ASSERT_RC(0, uvs_finish(f.s, id, 0));
    fixture_turn(&f);
    ASSERT_RC(1, uvs_is_terminated(f.s));
    CHECK_CALL(all_refused(&f, UV_ESHUTDOWN)); /* ... and has terminated. */
    fixture_advance_ns(&f, UVS_DAY(3));
    ASSERT_U64(0, log_count(&f, 0, 'x'));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* J4 */
TEST the_first_submission_of_all_is_refused_after_a_shutdown(void) {
  for (int out = 0; out < WAYS_OUT; out++) {
    for (enum way_in way = 0; way < WAYS_IN; way++) {
      for (int turned = 0; turned < 2; turned++) {
        struct fixture f;
        long live;

        fixture_init(&f);
        if (turned)
          CHECK_CALL(fixture_open_turned(&f));
        else
          CHECK_CALL(fixture_open(&f));
        struct entry e = entry_of(&f, way);
        live = atomic_load(&f.fault.live);
        ASSERT_RC(0, ways_out[out](f.s));
        ASSERT_RC(UV_ESHUTDOWN, way == ALL || way == ANY ? elsewhere(enter, &e) : enter(&e));
        ASSERT_RC(UV_ESHUTDOWN, elsewhere(enter, &e));
        ASSERT_U64(UNTOUCHED, e.id);
        ASSERT_U64(0, counts_of(f.s).slots); /* it did not even take memory */
        ASSERT_EQ_FMT(live, atomic_load(&f.fault.live), "%ld");
        ASSERT_U64(2, counts_of(f.s).rejected);
        fixture_advance_ns(&f, UVS_DAY(3));
        ASSERT_RC(1, uvs_is_terminated(f.s));
        ASSERT_STR_EQ("t", log_string(&f, 0)); /* terminated is all that was ever said */
        ASSERT_U64(0, counts_of(f.s).submitted);
        CHECK_CALL(fixture_close(&f));
      }
    }
  }
  PASS();
}

/* ----------------------------------------------------------------- the cap --- */

/* P5 S15 S18 */
TEST at_the_cap_every_kind_of_submission_is_refused_until_there_is_room(void) {
  struct fixture f;
  uvs_id_t ids[2];

  fixture_init(&f);
  f.options.max_pending = 2;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(10));
  for (int i = 0; i < 2; i++)
    ASSERT_RC(0, uvs_submit(f.s, &t, &ids[i]));
  CHECK_CALL(all_refused(&f, UV_EAGAIN));
  fakepool_hold();                              /* what is due stays ready */
  for (enum way_in way = 0; way < ALL; way++) { /* room for one, and one comes, by each way */
    struct entry e = entry_of(&f, way);

    ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, ids[1], 0));
    ASSERT_RC(0, enter(&e));
    fixture_turn(&f); /* the `done` of the cancelled one */
    CHECK_CALL(all_refused(&f, UV_EAGAIN));
    if (way == EXECUTE) { /* it has no id: let it run */
      fakepool_release();
      fixture_turn(&f);
      fakepool_hold();
      ASSERT_U64(1, log_count(&f, EV_WORK, 'x'));
    } else {
      ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, e.id, 0));
    }
    ASSERT_RC(0, uvs_submit(f.s, &t, &ids[1]));
    fixture_turn(&f);
  }
  fakepool_release();
  fixture_advance_ms(&f, 10);
  ASSERT_STR_EQ("xaa", log_string(&f, EV_WORK));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(refused) {
  RUN_TEST(after_any_shutdown_every_kind_of_submission_is_refused);
  RUN_TEST(the_first_submission_of_all_is_refused_after_a_shutdown);
  RUN_TEST(at_the_cap_every_kind_of_submission_is_refused_until_there_is_room);
}

TEST_MAIN(RUN_SUITE(refused));
