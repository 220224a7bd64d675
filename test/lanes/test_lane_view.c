/* SPDX-License-Identifier: MIT
 *
 * A lane id as a restricted handle: what can be reached with it and what cannot; invalid and stale
 * ids, ids of a closed scheduler, ids in a forked child; and submissions that fail.
 */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/bodies.h"
#include "lib/lanes.h"
#include "lib/threads.h"

/* ------------------------------------------------------------ the narrow view --- */

static struct {
  uvs_t *work, *after, *done;
  int cancelled, set_rc;
} saw;

static int work_looks(uvs_run_t *run) {
  saw.work = run->scheduler;
  saw.cancelled = uvs_cancelled(run);
  saw.set_rc = uvs_set_result(run, &saw);
  return 0;
}

static int after_looks(uvs_run_t *run) {
  saw.after = run->scheduler;
  saw.cancelled |= uvs_cancelled(run);
  saw.set_rc |= uvs_set_result(run, &saw);
  return 0;
}

static void done_looks(uvs_t *s, uvs_id_t id, int status, void *arg) {
  saw.done = s;
  log_add(arg, EV_DONE, 'a', id, status);
}

/* On the pool, on the loop, with `after`. */
TEST a_task_submitted_through_a_lane_does_not_see_the_scheduler(void) {
  for (int how = 0; how < 8; how++) {
    bool narrow = how % 2 == 0;
    uvs_task_t t;
    struct fixture f;
    uvs_lane_t lane;
    uvs_outcome_t o;
    uvs_id_t id;

    CHECK_CALL(open_with_lane(&f, how / 4 * 2, 1, &lane));
    memset(&saw, 0xff, sizeof saw);
    saw.set_rc = saw.cancelled = 0;
    uvs_task_init(&t);
    t.work = how / 2 % 2 == 0 ? work_looks : NULL;
    t.after = after_looks;
    t.done = done_looks;
    t.arg = &f;
    t.keep_outcome = 1;
    t.lane = narrow && how < 4 ? 0 : lane; /* or said twice */
    ASSERT_RC(0, narrow ? uvs_lane_submit(lane, &t, &id) : uvs_submit(f.s, &t, &id));
    fixture_turn(&f);
    uvs_t *seen = narrow ? NULL : f.s;
    if (t.work != NULL)
      ASSERT_EQ(seen, saw.work);
    ASSERT_EQ(seen, saw.after);
    ASSERT_EQ(seen, saw.done);
    ASSERT_RC(0, saw.set_rc);
    ASSERT_RC(0, saw.cancelled);
    uvs_outcome_init(&o);
    ASSERT_RC(0, uvs_wait(f.s, id, 0, 0, &o)); /* its owner has both */
    ASSERT_EQ((void *)&saw, o.result);
    ASSERT_RC(0, uvs_forget(f.s, id));
    fixture_turn(&f);
    CHECK_CALL(close_idle(&f));
  }
  PASS();
}

static int work_stops(uvs_run_t *run) {
  struct fixture *f = run->arg;

  log_add(f, EV_USER, 'i', run->id, uvs_clock_changed(f->s));
  work_endless(run);
  return uvs_cancelled(run) ? 0 : UV_EIO;
}

/* R21 */
TEST the_cancel_token_reaches_a_body_submitted_through_a_lane(void) {
  static struct fixture f;
  uvs_lane_t lane;
  uvs_task_t t;
  uvs_id_t id;

  CHECK_CALL(open_real(&f, 1, 1, &lane));
  uvs_task_init(&t);
  t.work = work_stops;
  t.done = done_looks;
  t.arg = &f;
  ASSERT_RC(0, uvs_lane_submit(lane, &t, &id));
  ASSERT(fixture_wait_log(&f, EV_USER, 'i', 1));
  ASSERT_RC(UV_EBUSY, uvs_lane_reschedule(lane, id, 0));
  ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, uvs_lane_cancel(lane, id, UVS_CANCEL_TOKEN));
  ASSERT(fixture_wait_log(&f, EV_DONE, 'a', 1));
  while (fakepool_pending() > 0)
    fixture_turn(&f);
  CHECK_CALL(close_idle(&f));
  PASS();
}

/* Ids of another lane, of no lane, of an earlier task in the same slot, of an ended task, and
 * invalid ids. R18 */
TEST a_lane_refuses_ids_of_other_tasks(void) {
  struct fixture f;
  uvs_lane_t lane, other;
  uvs_id_t id[6];

  CHECK_CALL(open_with_lane(&f, 1, 1, &lane));
  CHECK_CALL(open_lane(&f, 1, &other));
  uvs_task_t mine = fixture_once(&f, 'm', UVS_MS(10)), theirs = fixture_once(&f, 't', UVS_MS(10)),
             nobodys = fixture_once(&f, 'n', UVS_MS(10)), over = fixture_once(&f, 'o', 0),
             pending = fixture_once(&f, 'p', 0);
  probe_of(&pending)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_lane_submit(lane, &over, &id[0]));
  fixture_turn(&f);
  ASSERT_RC(0, uvs_lane_submit(other, &theirs, &id[1]));
  ASSERT_RC(0, uvs_submit(f.s, &nobodys, &id[2]));
  ASSERT_RC(0, uvs_lane_submit(other, &pending, &id[3]));
  id[4] = 0;
  id[5] = UINT64_MAX;
  fixture_turn(&f);
  for (int i = 0; i < 6; i++) {
    ASSERT_RC(UV_ENOENT, uvs_lane_cancel(lane, id[i], 0));
    ASSERT_RC(UV_ENOENT, uvs_lane_cancel(lane, id[i], UVS_CANCEL_TOKEN));
    ASSERT_RC(UV_ENOENT, uvs_lane_reschedule(lane, id[i], 0));
    ASSERT_RC(UV_ENOENT, uvs_lane_finish(lane, id[i], 0));
  }
  ASSERT_RC(0, uvs_lane_submit(lane, &mine, &id[0]));
  ASSERT_RC(UV_EINVAL, uvs_lane_cancel(lane, id[0], 1u << 31));
  ASSERT_RC(UV_EINVAL, uvs_lane_finish(lane, id[0], UVS_PENDING));
  ASSERT_RC(UV_ENOENT, uvs_lane_finish(lane, id[0], 0)); /* it does not run */
  ASSERT_RC(0, uvs_lane_reschedule(lane, id[0], UVS_MS(20)));
  ASSERT_RC(0, uvs_lane_finish(other, id[3], 0));
  fixture_advance_ms(&f, 15);
  ASSERT_STR_EQ("optn", log_string(&f, EV_DONE)); /* each is unaffected by the attempts */
  ASSERT_RC(UVS_CANCELLED, uvs_lane_cancel(lane, id[0], 0));
  ASSERT_RC(UV_ENOENT, uvs_lane_cancel(lane, id[0], 0));
  fixture_advance_ms(&f, 100);
  ASSERT_STR_EQ("optn", log_string(&f, EV_WORK));
  CHECK_CALL(close_idle(&f));
  PASS();
}

/* ------------------------------------------------------------------ bad input --- */

/* Of two tasks in this lane, this many go to the pool at once. */
static enum greatest_test_res runs_at_once(struct fixture *f, uvs_lane_t lane, unsigned n) {
  fakepool_hold();
  CHECK_CALL(submit(f, lane, 'a', 0));
  CHECK_CALL(submit(f, lane, 'a', 0));
  fixture_turn(f);
  ASSERT_U64(n, fakepool_pending());
  fakepool_release();
  fixture_turn(f);
  PASS();
}

TEST opening_a_lane_validates_its_options(void) {
  struct {
    uvs_lane_options_t o;
    char more[64];
  } large;
  uvs_lane_options_t o;
  uvs_lane_t lane = 77;
  struct fixture f;

  fixture_init(&f);
  f.options.concurrency = 2;
  CHECK_CALL(fixture_open_turned(&f));
  uvs_lane_options_init(&o);
  ASSERT_RC(UV_EINVAL, uvs_lane_open(NULL, &o, &lane));
  ASSERT_RC(UV_EINVAL, uvs_lane_open(f.s, &o, NULL));
  ASSERT_RC(UV_EINVAL, uvs_lane_open(f.s, NULL, NULL));
  static const size_t sizes[] = {0, 1, sizeof o.size, sizeof o - 1, sizeof o + 1, 1 << 20};
  for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    memset(&large, 0, sizeof large);
    large.o = o;
    large.o.size = sizes[i];
    ASSERT_RC(UV_EINVAL, uvs_lane_open(f.s, &large.o, &lane));
  }
  memset(&large, 0, sizeof large);
  large.o = o;
  large.o.size = sizeof large;
  large.more[40] = 1;
  ASSERT_RC(UV_EINVAL, uvs_lane_open(f.s, &large.o, &lane)); /* it asks for what we do not know */
  static const uint32_t widths[] = {(uint32_t)-1, (uint32_t)INT32_MIN,
                                    (uint32_t)UVS_LANE_WIDTH_MAX + 1};
  for (unsigned i = 0; i < sizeof widths / sizeof widths[0]; i++) {
    uvs_lane_options_t wide = o;
    wide.width = widths[i];
    ASSERT_RC(UV_EINVAL, uvs_lane_open(f.s, &wide, &lane));
  }
  ASSERT_U64(77, lane);
  ASSERT_U64(0, inspect_lanes(f.s));

  large.more[40] = 0; /* a newer program */
  ASSERT_RC(0, uvs_lane_open(f.s, &large.o, &lane));
  o.size = 16; /* an older one: size and width */
  o.width = UVS_LANE_WIDTH_MAX;
  ASSERT_RC(0, uvs_lane_open(f.s, &o, &lane));
  CHECK_CALL(runs_at_once(&f, lane, 2));
  ASSERT_RC(0, uvs_lane_open(f.s, NULL, &lane));
  CHECK_CALL(runs_at_once(&f, lane, 1)); /* the default width */
  ASSERT(lane != 0 && lane < UINT64_C(1) << 53);
  ASSERT_U64(3, inspect_lanes(f.s));
  CHECK_CALL(close_idle(&f));
  PASS();
}

/* R13 R18 S8 */
TEST submitting_to_a_lane_validates_its_arguments(void) {
  struct fixture f, g;
  uvs_lane_t lane, second, foreign;
  uvs_id_t id = 77;
  uvs_task_t many[3];

  CHECK_CALL(open_with_lane(&f, 1, 1, &lane));
  CHECK_CALL(open_lane(&f, 1, &second));
  uvs_task_t t = fixture_once(&f, 'a', 0), empty = t, bad = t;
  empty.work = NULL;
  bad.period_ns = 1;
  ASSERT_RC(UV_EINVAL, uvs_lane_submit(lane, NULL, &id));
  ASSERT_RC(UV_EINVAL, uvs_lane_submit(lane, &empty, &id));
  ASSERT_RC(UV_EINVAL, uvs_lane_submit(lane, &bad, &id));
  bad = t;
  bad.size--;
  ASSERT_RC(UV_EINVAL, uvs_lane_submit(lane, &bad, &id));
  t.lane = second; /* not this one's */
  ASSERT_RC(UV_EINVAL, uvs_lane_submit(lane, &t, &id));
  static const uvs_lane_t never[] = {0, 1, UINT64_C(1) << 26, (UINT64_C(1) << 53) - 1, UINT64_MAX};
  for (unsigned i = 0; i < sizeof never / sizeof never[0]; i++) {
    uvs_lane_t n = never[i] == UINT64_C(1) << 26 ? (lane & ((1u << 26) - 1)) : never[i];

    t.lane = 0;
    ASSERT_RC(UV_ENOENT, uvs_lane_submit(n, &t, &id));
    ASSERT_RC(UV_ENOENT, uvs_lane_cancel(n, 1, 0));
    ASSERT_RC(UV_ENOENT, uvs_lane_reschedule(n, 1, 0));
    ASSERT_RC(UV_ENOENT, uvs_lane_finish(n, 1, 0));
    ASSERT_RC(UV_ENOENT, uvs_lane_dispose(n, 0));
    ASSERT_RC(UV_ENOENT, uvs_lane_is_disposed(n));
    t.lane = n;
    if (n != 0)
      ASSERT_RC(UV_ENOENT, uvs_submit(f.s, &t, &id));
  }
  ASSERT_RC(UV_EINVAL, uvs_lane_dispose(lane, 2));
  ASSERT_RC(UV_EINVAL, uvs_lane_dispose(lane, ~0u));
  ASSERT_RC(0, uvs_lane_is_disposed(lane));

  /* The fake pool serves one loop, so the other scheduler shares the loop. */
  g = f;
  uvs_options_t o = f.options;
  ASSERT_RC(0, uvs_open(&f.loop, &o, &g.s));
  ASSERT_RC(0, uvs_lane_open(g.s, NULL, &foreign));
  t.lane = foreign;
  ASSERT_RC(UV_EINVAL, uvs_submit(f.s, &t, &id));
  ASSERT_RC(UV_EINVAL, uvs_lane_submit(lane, &t, &id));
  many[0] = many[1] = many[2] = in_lane(t, lane);
  many[1].lane = foreign;
  ASSERT_RC(UV_EINVAL, uvs_submit_many(f.s, many, 3, NULL)); /* all or none */
  ASSERT_U64(77, id);
  ASSERT_RC(0, uvs_close(g.s, NULL));
  fixture_turn(&f);
  ASSERT_RC(UV_ECANCELED, uvs_submit(f.s, &t, &id)); /* the lane is gone */
  ASSERT_U64(0, counts_of(f.s).submitted);
  many[1].lane = second;
  many[2].lane = 0;
  ASSERT_RC(0, uvs_submit_many(f.s, many, 3, NULL));
  fixture_turn(&f);
  ASSERT_U64(3, log_count(&f, EV_DONE, 0));
  /* Refused submissions do not count as tasks of their lanes: the lanes end. */
  ASSERT_RC(0, uvs_lane_dispose(lane, 0));
  ASSERT_RC(0, uvs_lane_dispose(second, 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("qq", log_string(&f, EV_USER));
  ASSERT_U64(0, inspect_lanes(f.s));
  CHECK_CALL(close_idle(&f));
  PASS();
}

/* ---------------------------------------------------------- numbers for ever --- */

/* L18 R18 R35: even when the scheduler and all its memory are gone. */
TEST a_stale_lane_id_stays_stale_for_ever(void) {
  enum { LIVES = 200 };

  static uvs_lane_t old[LIVES];
  uvs_task_t t;

  for (int round = 0; round < 4; round++) {
    struct fixture f;

    fixture_init(&f);
    f.options.concurrency = 1;
    CHECK_CALL(fixture_open_turned(&f));
    t = fixture_once(&f, 'a', 0);
    for (int i = 0; i < LIVES / 4; i++) {
      CHECK_CALL(open_lane(&f, 1, &old[round * LIVES / 4 + i]));
      if (i % 2 == 0) {
        ASSERT_RC(0, uvs_lane_dispose(old[round * LIVES / 4 + i], 0));
        fixture_turn(&f);
      } /* the others: by close */
    }
    CHECK_CALL(close_idle(&f));
  }
  uvs_task_init(&t);
  t.work = work_nothing;
  for (int i = 0; i < LIVES; i++) {
    uvs_id_t id = 77;

    for (int j = 0; j < i; j++)
      ASSERT(old[i] != old[j]);
    ASSERT_RC(1, uvs_lane_is_disposed(old[i]));
    ASSERT_RC(0, uvs_lane_dispose(old[i], UVS_DISPOSE_TOKEN));
    ASSERT_RC(UV_ECANCELED, uvs_lane_submit(old[i], &t, &id));
    ASSERT_RC(UV_ECANCELED, uvs_lane_submit(old[i], NULL, &id));
    ASSERT_RC(UV_ENOENT, uvs_lane_cancel(old[i], 1, 0));
    ASSERT_RC(UV_ENOENT, uvs_lane_reschedule(old[i], 1, 0));
    ASSERT_RC(UV_ENOENT, uvs_lane_finish(old[i], 1, 0));
    ASSERT_U64(77, id);
  }
  PASS();
}

struct call {
  uvs_lane_t lane;
  uvs_task_t t;
};

static int do_lane_submit(void *arg) {
  struct call *c = arg;

  return uvs_lane_submit(c->lane, &c->t, NULL);
}

/* After the last loop pass, before the memory is freed: a thread still holds the scheduler. */
TEST lane_ids_of_a_closed_scheduler_are_stale(void) {
  struct fixture f;
  struct call c;
  uvs_t *s;

  CHECK_CALL(open_with_lane(&f, 1, 1, &c.lane));
  s = uvs_retain(f.s);
  c.t = fixture_once(&f, 'a', 0);
  ASSERT_RC(0, uvs_close(f.s, note_closed));
  ASSERT_RC(UV_ESHUTDOWN, elsewhere(do_lane_submit, &c)); /* the scheduler still has tasks to end */
  fixture_turn_until_closed(&f);
  f.s = NULL;
  ASSERT_RC(UV_ECANCELED, elsewhere(do_lane_submit, &c));
  ASSERT_RC(UV_ESHUTDOWN, uvs_lane_open(s, NULL, &c.lane));
  uvs_release(s);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* -------------------------------------------------------------- no memory --- */

TEST opening_a_lane_without_memory_leaves_nothing_behind(void) {
  struct fixture f;
  uvs_lane_t lane = 77;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  for (long n = 0;; n++) {
    fault_after(n);
    int rc = uvs_lane_open(f.s, NULL, &lane);
    bool failed = fault_hit();

    ASSERT_RC(failed ? UV_ENOMEM : 0, rc);
    ASSERT_U64(!failed, inspect_lanes(f.s));
    if (!failed)
      break;
    ASSERT_U64(77, lane);
  }
  CHECK_CALL(close_idle(&f));
  PASS();
}

/* Each allocation fails once. The lane still works, and is quiet at the right time. */
TEST a_failed_submission_does_not_change_the_lane(void) {
  for (int how = 0; how < 8; how++) {
    bool off_loop = how % 2 != 0, narrow = how / 2 % 2 != 0;
    unsigned accepted = 0;
    struct fixture f;
    struct call c;

    for (long n = 0;; n++) {
      bool failed;
      int rc;

      CHECK_CALL(open_with_lane(&f, 1, 1, &c.lane));
      c.t = in_lane(fixture_once(&f, 'a', how < 4 ? 0 : UVS_DAY(1)), c.lane);
      c.t.limit.total_ns = UVS_SEC(1);
      c.t.from = how < 4 ? UVS_FROM_NOW : UVS_FROM_WALL;
      fault_after(n);
      if (narrow)
        rc = off_loop ? elsewhere(do_lane_submit, &c) : do_lane_submit(&c);
      else
        rc = off_loop ? submit_elsewhere(f.s, c.t, NULL) : uvs_submit(f.s, &c.t, NULL);
      failed = fault_hit();
      ASSERT_RC(failed ? UV_ENOMEM : 0, rc);
      accepted = !failed;
      if (failed) {
        ASSERT_RC(0, uvs_submit(f.s, &c.t, NULL)); /* usable */
        accepted = 1;
      }
      fixture_turn(&f);
      ASSERT_RC(0, uvs_lane_dispose(c.lane, 0));
      fixture_turn(&f);
      ASSERT_STR_EQ("q", log_string(&f, EV_USER));
      ASSERT_U64(accepted, log_count(&f, EV_DONE, 0));
      ASSERT_U64(1, counts_of(f.s).submitted);
      ASSERT_U64(0, inspect_lanes(f.s));
      CHECK_CALL(close_idle(&f));
      if (!failed)
        break;
    }
  }
  PASS();
}

struct many {
  uvs_t *s;
  uvs_task_t t[100];
};

static int do_submit_all(void *arg) {
  struct many *m = arg;
  uvs_id_t ids[100];

  return uvs_submit_many(m->s, m->t, 100, ids);
}

/* Memory runs out in the middle of a batch. All tasks are accepted, or none. */
TEST a_failed_batch_does_not_change_its_lanes(void) {
  static struct many m;

  for (int off_loop = 0; off_loop < 2; off_loop++) {
    for (long n = 0;; n++) {
      struct fixture f;
      uvs_lane_t lane[2];
      bool failed;
      int rc;

      CHECK_CALL(open_with_lane(&f, 1, 1, &lane[0]));
      CHECK_CALL(open_lane(&f, 0, &lane[1]));
      m.s = f.s;
      for (int i = 0; i < 100; i++)
        m.t[i] = in_lane(fixture_once(&f, 'a', 0), lane[i % 2]);
      fault_after(n);
      rc = off_loop ? elsewhere(do_submit_all, &m) : do_submit_all(&m);
      failed = fault_hit();
      ASSERT_RC(failed ? UV_ENOMEM : 0, rc);
      if (failed) { /* disposed while the loop has not yet heard of those that did not join */
        ASSERT_RC(0, uvs_lane_dispose(lane[0], 0));
        ASSERT_RC(0, uvs_lane_dispose(lane[1], 0));
      }
      fixture_turn(&f);
      ASSERT_U64(failed ? 0 : 100, log_count(&f, EV_WORK, 0));
      ASSERT_STR_EQ(failed ? "qq" : "", log_string(&f, EV_USER));
      CHECK_CALL(close_idle(&f));
      if (!failed)
        break;
    }
  }
  PASS();
}

/* ---------------------------------------------------------------------- fork --- */

/* The number of the first wrong answer, or 0. */
static int try_in_child(struct fixture *f, uvs_lane_t lane, uvs_id_t id, uvs_task_t *t) {
  uvs_lane_t other;

  if (uvs_lane_submit(lane, t, NULL) != UV_ENOTSUP)
    return 1;
  if (uvs_lane_cancel(lane, id, 0) != UV_ENOTSUP || uvs_lane_finish(lane, id, 0) != UV_ENOTSUP ||
      uvs_lane_reschedule(lane, id, 0) != UV_ENOTSUP)
    return 2;
  if (uvs_lane_dispose(lane, 0) != UV_ENOTSUP || uvs_lane_is_disposed(lane) != 0)
    return 3;
  if (uvs_lane_open(f->s, NULL, &other) != UV_ENOTSUP)
    return 4;
  if (uvs_lane_dispose(0, 0) != UV_ENOENT)
    return 5;
  if (uvs_close(f->s, NULL) != 0)
    return 6;
  if (atomic_load(&f->fault.live) != 0)
    return 7;
  if (uvs_lane_is_disposed(lane) != 1 || uvs_lane_submit(lane, t, NULL) != UV_ECANCELED)
    return 8;
  return uvs_lane_cancel(lane, id, 0) != UV_ENOENT ? 9 : 0;
}

/* L19 */
TEST a_forked_child_can_only_close_its_copy_of_a_lane(void) {
  struct fixture f;
  uvs_lane_t lane, gone;
  uvs_id_t id;
  int status = -1;
  pid_t pid;

  CHECK_CALL(open_with_lane(&f, 1, 1, &lane));
  CHECK_CALL(open_lane(&f, 1, &gone));
  ASSERT_RC(0, uvs_lane_dispose(gone, 0));
  fixture_turn(&f);
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(1));
  ASSERT_RC(0, uvs_lane_submit(lane, &t, &id));
  fflush(NULL);
  pid = fork();
  if (pid == 0) {
    alarm(15);
    _exit(try_in_child(&f, lane, id, &t));
  }
  ASSERT(pid > 0);
  ASSERT_EQ(pid, waitpid(pid, &status, 0));
  ASSERT(WIFEXITED(status));
  ASSERT_RC(0, WEXITSTATUS(status));
  fixture_advance_ms(&f, 5); /* the parent has not noticed */
  ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
  CHECK_CALL(close_idle(&f));
  PASS();
}

/* ------------------------------------------------------------------- the visit --- */

struct lanes_seen {
  int n;
  uvs_lane_info_t info[4];
};

static int see_lane(uvs_t *s, const uvs_lane_info_t *info, void *arg) {
  struct lanes_seen *seen = arg;

  (void)s;
  seen->info[seen->n++] = *info;
  return seen->n == 4 ? 77 : 0;
}

TEST each_lane_shows_what_waits_and_what_is_disposed(void) {
  struct lanes_seen seen = {0};
  struct fixture f;
  uvs_lane_t lane, wide;

  CHECK_CALL(open_with_lane(&f, 2, 1, &lane));
  ASSERT_RC(UV_EINVAL, uvs_each_lane(f.s, NULL, NULL));
  ASSERT_RC(UV_EINVAL, uvs_each_lane(NULL, see_lane, &seen));
  CHECK_CALL(open_lane(&f, 0, &wide));
  CHECK_CALL(submit(&f, lane, 'a', UVS_SEC(1)));
  CHECK_CALL(submit(&f, lane, 'b', UVS_SEC(2)));
  ASSERT_RC(0, uvs_each_lane(f.s, see_lane, &seen));
  ASSERT_RC(2, seen.n); /* the newest first */
  ASSERT_U64(wide, seen.info[0].lane);
  ASSERT_U64(0, seen.info[0].width);
  ASSERT_U64(0, seen.info[0].tasks);
  ASSERT_U64(lane, seen.info[1].lane);
  ASSERT_U64(1, seen.info[1].width);
  ASSERT_U64(2, seen.info[1].tasks);
  ASSERT_RC(0, seen.info[1].disposed);
  ASSERT_RC(0, seen.info[1].own_executor);
  ASSERT_RC(0, uvs_lane_dispose(lane, 0));
  seen.n = 2;
  ASSERT_RC(77, uvs_each_lane(f.s, see_lane, &seen));
  ASSERT_RC(1, seen.info[3].disposed);
  fixture_turn(&f);
  seen.n = 0;
  ASSERT_RC(0, uvs_each_lane(f.s, see_lane, &seen));
  ASSERT_RC(1, seen.n); /* quiet lanes are gone */
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(lane_view) {
  RUN_TEST(a_task_submitted_through_a_lane_does_not_see_the_scheduler);
  RUN_TEST(the_cancel_token_reaches_a_body_submitted_through_a_lane);
  RUN_TEST(a_lane_refuses_ids_of_other_tasks);
  RUN_TEST(opening_a_lane_validates_its_options);
  RUN_TEST(submitting_to_a_lane_validates_its_arguments);
  RUN_TEST(a_stale_lane_id_stays_stale_for_ever);
  RUN_TEST(lane_ids_of_a_closed_scheduler_are_stale);
  RUN_TEST(opening_a_lane_without_memory_leaves_nothing_behind);
  RUN_TEST(a_failed_submission_does_not_change_the_lane);
  RUN_TEST(a_failed_batch_does_not_change_its_lanes);
  RUN_TEST(each_lane_shows_what_waits_and_what_is_disposed);
  RUN_TEST(a_forked_child_can_only_close_its_copy_of_a_lane);
}

TEST_MAIN(RUN_SUITE(lane_view));
