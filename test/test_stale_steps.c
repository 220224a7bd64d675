/* SPDX-License-Identifier: MIT
 *
 * A call with an id, stopped between two of its atomic steps, while the task of that id runs, ends,
 * and leaves its slot to another task. Whatever the call then answers, it must not have touched the
 * other one. Built with -DUVS__STEPS.
 *
 * The other thread is the fake pool's: one step of it runs `a`, a light task, which frees its slot
 * at once, and then `b`, whose body submits `c`, which gets that slot.
 */
#include "atomic.h"

#include "lib/fixture.h"

static int left;
static bool came;

static void hook(void) {
  if (came || left-- > 0)
    return;
  uvs__step_hook = NULL; /* the other one is not interrupted */
  came = true;
  fakepool_step();
  uvs__step_hook = hook;
}

static int submit_c(struct probe *p, uvs_run_t *run) {
  uvs_task_t c = fixture_once(p->f, 'c', UVS_HOUR(1));

  return uvs_submit(run->scheduler, &c, &p->id);
}

static int cancel(uvs_t *s, uvs_id_t id) {
  return uvs_cancel(s, id, 0);
}

static int cancel_if_waiting(uvs_t *s, uvs_id_t id) {
  return uvs_cancel(s, id, UVS_CANCEL_IF_WAITING);
}

static int reschedule(uvs_t *s, uvs_id_t id) {
  return uvs_reschedule(s, id, UVS_MS(1));
}

static int finish(uvs_t *s, uvs_id_t id) {
  return uvs_finish(s, id, UV_EIO);
}

static int info(uvs_t *s, uvs_id_t id) {
  uvs_info_t i;
  int rc;

  uvs_info_init(&i);
  rc = uvs_info(s, id, &i);
  return rc == 0 && i.id != id ? UV_EINVAL : rc;
}

/* Stopped at its n-th step, from this thread, which is the loop's. */
static enum greatest_test_res stop_at(int n, int (*call)(uvs_t *, uvs_id_t), bool *ret_came) {
  struct fixture f;
  struct probe *b;
  uvs_id_t id;
  uvs_info_t c;

  fixture_init(&f);
  f.options.concurrency = 1;
  CHECK_CALL(fixture_open_turned(&f));
  b = fixture_probe(&f, 'b');
  b->act = submit_c;
  fakepool_hold();
  ASSERT_RC(0, uvs_schedule(f.s, 0, probe_work, fixture_probe(&f, 'a'), &id));
  ASSERT_RC(0, uvs_schedule(f.s, 0, probe_work, b, NULL));
  fixture_turn(&f); /* both are ready, and the runner is on its way */

  left = n;
  came = false;
  uvs__step_hook = hook;
  int rc = call(f.s, id);
  uvs__step_hook = NULL;
  *ret_came = came;
  if (!came)
    fakepool_step();
  if (call == cancel || call == cancel_if_waiting)
    ASSERT_U64(rc == UVS_NEVER_RUNS ? 0 : 1, log_count(&f, EV_WORK, 'a'));

  /* c waits as if nothing had happened. */
  uvs_info_init(&c);
  ASSERT_RC(0, uvs_info(f.s, b->id, &c));
  ASSERT_RC(UVS_WAITING, c.state);
  ASSERT_RC(0, c.cancelled);
  ASSERT_I64(VCLOCK_START_NS + UVS_HOUR(1), c.due_ns);
  fakepool_release();
  fixture_advance_ns(&f, UVS_HOUR(1));
  ASSERT_U64(1, log_count(&f, EV_WORK, 'c'));
  ASSERT_U64(1, log_count(&f, EV_DONE, 'c'));
  ASSERT_RC(0, log_nth(&f, EV_DONE, 'c', 0)->status);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static enum greatest_test_res stop_everywhere(int (*call)(uvs_t *, uvs_id_t)) {
  bool reached = true;
  int n;

  for (n = 0; reached && n < 1000; n++)
    CHECK_CALL(stop_at(n, call, &reached));
  ASSERT(n > 1); /* it was stopped at least once */
  ASSERT(n < 1000);
  PASS();
}

/* L18 */
TEST a_cancel_never_hits_the_next_task_of_the_slot(void) {
  CHECK_CALL(stop_everywhere(cancel));
  CHECK_CALL(stop_everywhere(cancel_if_waiting));
  PASS();
}

/* L18 */
TEST a_reschedule_never_hits_the_next_task_of_the_slot(void) {
  CHECK_CALL(stop_everywhere(reschedule));
  PASS();
}

/* L18 */
TEST a_finish_never_hits_the_next_task_of_the_slot(void) {
  CHECK_CALL(stop_everywhere(finish));
  PASS();
}

/* L18 */
TEST an_unref_never_hits_the_next_task_of_the_slot(void) {
  CHECK_CALL(stop_everywhere(uvs_unref));
  CHECK_CALL(stop_everywhere(uvs_ref));
  PASS();
}

/* L18 */
TEST an_info_never_tells_of_the_next_task_of_the_slot(void) {
  CHECK_CALL(stop_everywhere(info));
  PASS();
}

SUITE(stale_steps) {
  RUN_TEST(a_cancel_never_hits_the_next_task_of_the_slot);
  RUN_TEST(a_reschedule_never_hits_the_next_task_of_the_slot);
  RUN_TEST(a_finish_never_hits_the_next_task_of_the_slot);
  RUN_TEST(an_unref_never_hits_the_next_task_of_the_slot);
  RUN_TEST(an_info_never_tells_of_the_next_task_of_the_slot);
}

TEST_MAIN(RUN_SUITE(stale_steps));
