/* SPDX-License-Identifier: MIT
 *
 * uvs_complete: a task that is not running ends with a status and a result that the caller gives.
 */
#include "lib/fixture.h"
#include "lib/stage.h"
#include "lib/threads.h"

static char value[4];
static char *dropped[8];
static unsigned drops;

static void note_drop(void *result) {
  dropped[drops++ % 8] = result;
}

static uvs_task_t kept(struct fixture *f, int tag, int64_t delay_ns) {
  uvs_task_t t = fixture_once(f, tag, delay_ns);

  t.keep_outcome = 1;
  t.drop_result = note_drop;
  return t;
}

/* F21 */
TEST a_waiting_task_ends_with_the_given_status_and_never_runs(void) {
  static const int statuses[] = {0, UV_EIO, UV_ECANCELED};

  for (int i = 0; i < 3; i++) {
    for (int held = 0; held < 2; held++) { /* it waits, or it is ready */
      struct fixture f;
      uvs_outcome_t o;
      uvs_id_t id;

      fixture_init(&f);
      CHECK_CALL(fixture_open_turned(&f));
      uvs_task_t t = kept(&f, 'a', held ? 0 : UVS_HOUR(1));
      if (held)
        fakepool_hold();
      ASSERT_RC(0, uvs_submit(f.s, &t, &id));
      fixture_turn(&f);
      ASSERT_RC(0, uvs_complete(f.s, id, statuses[i], i == 0 ? &value[1] : NULL));
      ASSERT_RC(0, peek_at(f.s, id, &o));
      ASSERT_RC(statuses[i], o.status);
      ASSERT_U64(id, o.id);
      ASSERT_EQ(i == 0 ? &value[1] : NULL, (char *)o.result);
      ASSERT_U64(0, o.runs);
      if (held)
        fakepool_release();
      fixture_advance_ms(&f, 1);
      ASSERT_RC(statuses[i], done_status(&f, 'a'));
      ASSERT_U64(0, log_count(&f, EV_WORK, 0));
      ASSERT_RC(UV_ENOENT, uvs_complete(f.s, id, 0, NULL));
      uvs_counts_t c = counts_of(f.s);
      ASSERT(adds_up(&c));
      ASSERT_U64(i == 0, c.completed);
      ASSERT_U64(i != 0, c.failed);
      CHECK_CALL(fixture_close(&f));
    }
  }
  PASS();
}

/* F21 */
TEST a_running_task_is_busy_and_bad_arguments_change_nothing(void) {
  struct fixture f;
  uvs_id_t id, plain;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = kept(&f, 'a', 0);
  probe_of(&t)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_turn(&f);
  ASSERT_RC(UV_EBUSY, uvs_complete(f.s, id, 0, NULL));
  ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, uvs_cancel(f.s, id, 0));
  ASSERT_RC(UV_ENOENT, uvs_complete(f.s, id, 0, NULL)); /* its outcome is decided */
  ASSERT_RC(0, uvs_finish(f.s, id, 0));
  uvs_task_t p = fixture_once(&f, 'p', UVS_HOUR(1));
  ASSERT_RC(0, uvs_submit(f.s, &p, &plain));
  ASSERT_RC(UV_EINVAL, uvs_complete(f.s, plain, 1, NULL));
  ASSERT_RC(UV_EINVAL, uvs_complete(f.s, plain, UVS_PENDING, NULL));
  ASSERT_RC(UV_EINVAL, uvs_complete(f.s, plain, -5000, NULL));
  ASSERT_RC(UV_EINVAL, uvs_complete(f.s, plain, 0, value)); /* it keeps no outcome */
  ASSERT_RC(UV_EINVAL, uvs_complete(f.s, plain, UV_EIO, value));
  ASSERT_RC(UV_ENOENT, uvs_complete(f.s, 0, 0, NULL));
  ASSERT_RC(UV_EINVAL, uvs_complete(NULL, plain, 0, NULL));
  ASSERT_RC(UVS_WAITING, state_of(f.s, plain));
  ASSERT_RC(0, uvs_complete(f.s, plain, 0, NULL));
  fixture_turn(&f);
  ASSERT_RC(0, done_status(&f, 'p'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int give_first(struct probe *p, uvs_run_t *run) {
  (void)p;
  uvs_set_result(run, &value[2]);
  return 0;
}

/* F21 F19. The result of an earlier run is dropped in the call; the given one is dropped once if
 * nobody receives it. */
TEST the_given_result_replaces_that_of_an_earlier_run(void) {
  for (int forget = 0; forget < 2; forget++) {
    struct fixture f;
    uvs_outcome_t o;
    uvs_id_t id;

    drops = 0;
    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    uvs_task_t t = kept(&f, 'a', 0);
    t.kind = UVS_FIXED_RATE;
    t.period_ns = UVS_HOUR(1);
    probe_of(&t)->act = give_first;
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_turn(&f);
    ASSERT_RC(0, uvs_complete(f.s, id, 0, &value[3]));
    ASSERT_U64(1, drops);
    ASSERT_EQ(&value[2], dropped[0]);
    if (!forget) {
      ASSERT_RC(0, peek_at(f.s, id, &o));
      ASSERT_EQ(&value[3], (char *)o.result);
      ASSERT_U64(1, o.runs);
    }
    ASSERT_RC(0, uvs_forget(f.s, id));
    fixture_turn(&f);
    ASSERT_U64(forget ? 2 : 1, drops);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* F21 F13 */
TEST a_thread_that_waits_is_released(void) {
  static struct fixture f;
  static struct waiter w;
  uv_thread_t thread;
  uvs_id_t id;

  CHECK_CALL(stage_open(&f, &thread, 1, false));
  uvs_task_t t = kept(&f, 'a', UVS_DAY(1));
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(0, waiter_start(&w, f.s, id, UVS_NEVER, 0));
  ASSERT(await_asleep(1));
  ASSERT_RC(0, uvs_complete(f.s, id, 0, &value[1]));
  waiter_join(&w);
  ASSERT_RC(0, w.rc);
  ASSERT_RC(0, w.o.status);
  ASSERT_EQ(&value[1], (char *)w.o.result);
  CHECK_CALL(stage_close(&f, &thread));
  PASS();
}

SUITE(complete) {
  RUN_TEST(a_waiting_task_ends_with_the_given_status_and_never_runs);
  RUN_TEST(a_running_task_is_busy_and_bad_arguments_change_nothing);
  RUN_TEST(the_given_result_replaces_that_of_an_earlier_run);
  RUN_TEST(a_thread_that_waits_is_released);
}

TEST_MAIN(RUN_SUITE(complete));
