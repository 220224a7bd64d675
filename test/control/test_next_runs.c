/* SPDX-License-Identifier: MIT
 *
 * uvs_next_runs: when a task runs next.
 */
#include "lib/bodies.h"
#include "lib/control.h"
#include "lib/lanes.h"

/* The next runs of a task, at most n, in ms since the virtual clock started: "10 20 30". */
static const char *next_ms(struct fixture *f, uvs_id_t id, size_t n) {
  static char text[200];
  int64_t ns[16] = {0};
  int told = uvs_next_runs(f->s, id, ns, n);
  size_t at = 0;

  if (told < 0)
    snprintf(text, sizeof text, "%s", uv_err_name(told));
  else
    text[0] = '\0';
  for (int i = 0; i < told; i++) {
    int64_t ms =
        ns[i] >= VCLOCK_WALL_NS ? (ns[i] - VCLOCK_WALL_NS) / UVS_MS(1) : fixture_ms(f, ns[i]);

    at += (size_t)snprintf(text + at, sizeof text - at, "%s%lld", i == 0 ? "" : " ", (long long)ms);
  }
  return text;
}

/* L30 */
TEST next_runs_answers_for_each_kind_of_id(void) {
  struct fixture f;
  int64_t ns[2] = {7, 7};
  uvs_id_t id;

  CHECK_CALL(fixture_open_turned_anew(&f));
  ASSERT_RC(UV_EINVAL, uvs_next_runs(NULL, 1, ns, 2));
  ASSERT_RC(UV_ENOENT, uvs_next_runs(f.s, 0, ns, 2));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(UV_EINVAL, uvs_next_runs(f.s, id, NULL, 2));
  ASSERT_RC(0, uvs_next_runs(f.s, id, NULL, 0));
  ASSERT_RC(1, uvs_next_runs(f.s, id, ns, 2));
  ASSERT_I64(VCLOCK_START_NS + UVS_MS(10), ns[0]);
  ASSERT_I64(7, ns[1]); /* not written */
  fixture_advance_ms(&f, 10);
  ASSERT_RC(UV_ENOENT, uvs_next_runs(f.s, id, ns, 2));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L30: one-shots, also by the wall clock and never; fixed rate; fixed delay; calendar */
TEST next_runs_of_each_kind_of_task(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(fixture_open_turned_anew(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_NEVER);
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_STR_EQ("", next_ms(&f, id, 3));
  t = fixture_once(&f, 'a', 0);
  t.from = UVS_FROM_WALL;
  t.first_ns = vclock_wall(&f.clock) + UVS_MS(25);
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_STR_EQ("25", next_ms(&f, id, 3));
  t = fixture_rate(&f, 'a', UVS_MS(5), UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_STR_EQ("5 15 25 35", next_ms(&f, id, 4));
  t = fixture_rate(&f, 'a', UVS_MS(5), UVS_NEVER - 1); /* the second point never comes */
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_STR_EQ("5", next_ms(&f, id, 4));
  t = fixture_rate(&f, 'j', UVS_MS(5), UVS_MS(10)); /* ideal times: without the jitter */
  t.jitter_ns = UVS_MS(3);
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_STR_EQ("5 15 25", next_ms(&f, id, 3));
  t = fixture_delay(&f, 'a', UVS_MS(7), UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_STR_EQ("7", next_ms(&f, id, 3));
  t = fixture_every_second(&f, 'c');
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  uvs_calendar_release(t.calendar);
  ASSERT_STR_EQ("1000 2000 3000", next_ms(&f, id, 3)); /* the loop has not worked them out */
  fixture_advance_ms(&f, 1500);
  ASSERT_STR_EQ("2000 3000 4000", next_ms(&f, id, 3));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L30 */
TEST next_runs_end_with_max_runs_and_until(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(fixture_open_turned_anew(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
  t.max_runs = 3;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_advance_ms(&f, 10);
  ASSERT_STR_EQ("20 30", next_ms(&f, id, 5));
  t = fixture_rate(&f, 'b', UVS_MS(10), UVS_MS(10));
  t.until_ns = UVS_MS(30);
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_STR_EQ("20 30 40", next_ms(&f, id, 5));
  t = fixture_every_second(&f, 'c');
  t.until_ns = UVS_MS(2990);
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  uvs_calendar_release(t.calendar);
  ASSERT_STR_EQ("1000 2000 3000", next_ms(&f, id, 5));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L30: the run in progress is not among them; a run that merged points is followed by the next. */
TEST next_runs_of_a_running_task(void) {
  struct fixture f;
  uvs_id_t once, rate, delay, calendar;

  CHECK_CALL(fixture_open_turned_anew(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(10));
  probe_of(&t)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &t, &once));
  t = fixture_rate(&f, 'b', UVS_MS(10), UVS_MS(10));
  t.missed_policy = UVS_MISSED_ONCE;
  probe_of(&t)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &t, &rate));
  t = fixture_delay(&f, 'd', UVS_MS(10), UVS_MS(10));
  probe_of(&t)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &t, &delay));
  t = fixture_every_second(&f, 'c');
  probe_of(&t)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &t, &calendar));
  uvs_calendar_release(t.calendar);
  fixture_turn(&f);
  fixture_jump_ms(&f, 35);
  ASSERT_STR_EQ("", next_ms(&f, once, 3));
  ASSERT_STR_EQ("40 50 60", next_ms(&f, rate, 3));
  ASSERT_STR_EQ("", next_ms(&f, delay, 3));
  fixture_advance_ms(&f, 1000);
  ASSERT_STR_EQ("2000 3000", next_ms(&f, calendar, 2));
  ASSERT_RC(0, uvs_finish(f.s, once, 0));
  ASSERT_RC(0, uvs_finish(f.s, rate, UVS_STOP));
  ASSERT_RC(0, uvs_finish(f.s, delay, UVS_STOP));
  ASSERT_RC(0, uvs_finish(f.s, calendar, UVS_STOP));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L30: first the retry, then the points of the grid that are not before it; as the runs then come
 */
TEST next_runs_of_a_task_that_waits_for_a_retry(void) {
  struct fixture f;
  uvs_id_t rate, once, delay, calendar;

  CHECK_CALL(fixture_open_turned_anew(&f));
  uvs_task_t t = retried(fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10)), UVS_MS(13), "x.");
  ASSERT_RC(0, uvs_submit(f.s, &t, &rate));
  t = retried(fixture_once(&f, 'b', UVS_MS(10)), UVS_MS(13), "x.");
  ASSERT_RC(0, uvs_submit(f.s, &t, &once));
  t = retried(fixture_delay(&f, 'd', UVS_MS(10), UVS_MS(10)), UVS_MS(13), "x.");
  ASSERT_RC(0, uvs_submit(f.s, &t, &delay));
  fixture_advance_ms(&f, 12);
  ASSERT_STR_EQ("23 30 40", next_ms(&f, rate, 3));
  ASSERT_STR_EQ("23", next_ms(&f, once, 3));
  ASSERT_STR_EQ("23", next_ms(&f, delay, 3));
  fixture_advance_ms(&f, 28);
  ASSERT_STR_EQ("10 23 30(30+1) 40", log_runs(&f, EV_WORK, 'a'));
  t = retried(fixture_every_second(&f, 'c'), UVS_MS(1500), "x.");
  t.missed_policy = UVS_MISSED_SKIP;
  ASSERT_RC(0, uvs_submit(f.s, &t, &calendar));
  uvs_calendar_release(t.calendar);
  fixture_advance_ms(&f, 1000);
  ASSERT_STR_EQ("2500 3000 4000", next_ms(&f, calendar, 3));
  fixture_advance_ms(&f, 2000);
  ASSERT_I64(VCLOCK_WALL_NS + UVS_MS(3000), log_nth(&f, EV_WORK, 'c', 2)->ideal_ns);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int act_next_of_retry(struct probe *p, uvs_run_t *run) {
  if (run->number == 1)
    return UV_EIO;
  if (run->number == 2)
    snprintf(p->data, 64, "%s", next_ms(p->f, run->id, 3));
  return 0;
}

/* L30 */
TEST next_runs_of_a_task_whose_retry_runs(void) {
  struct fixture f;
  char text[64] = "";

  CHECK_CALL(fixture_open_turned_anew(&f));
  uvs_task_t t = retried(fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10)), UVS_MS(13), ".");
  probe_of(&t)->act = act_next_of_retry;
  probe_of(&t)->data = text;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ms(&f, 30);
  ASSERT_STR_EQ("30 40 50", text);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L30: before and during an extra run, of each kind */
TEST next_runs_begin_with_an_extra_run(void) {
  struct fixture f;
  uvs_id_t once, rate, delay, calendar;

  CHECK_CALL(fixture_open_turned_anew(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &t, &once));
  t = fixture_rate(&f, 'b', UVS_MS(10), UVS_MS(10));
  probe_of(&t)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &t, &rate));
  t = fixture_delay(&f, 'd', UVS_MS(10), UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &t, &delay));
  t = fixture_every_second(&f, 'c');
  ASSERT_RC(0, uvs_submit(f.s, &t, &calendar));
  uvs_calendar_release(t.calendar);
  fixture_advance_ms(&f, 3);
  ASSERT_RC(0, uvs_run_now(f.s, once));
  ASSERT_RC(0, uvs_run_now(f.s, rate));
  ASSERT_RC(0, uvs_run_now(f.s, delay));
  ASSERT_RC(0, uvs_run_now(f.s, calendar));
  ASSERT_STR_EQ("3 10", next_ms(&f, once, 3));
  ASSERT_STR_EQ("3 10 20", next_ms(&f, rate, 3));
  ASSERT_STR_EQ("3 10", next_ms(&f, delay, 3));
  ASSERT_STR_EQ("3 1000 2000", next_ms(&f, calendar, 3));
  ASSERT_STR_EQ("3", next_ms(&f, rate, 1));
  fixture_turn(&f);
  ASSERT_RC(UVS_RUNNING, state_of(f.s, rate));
  ASSERT_STR_EQ("10 20 30", next_ms(&f, rate, 3));
  ASSERT_STR_EQ("10", next_ms(&f, once, 3));
  ASSERT_STR_EQ("1000 2000", next_ms(&f, calendar, 2));
  ASSERT_RC(0, uvs_finish(f.s, rate, UVS_STOP));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L30: none, except an extra run */
TEST a_paused_task_has_no_next_runs(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(fixture_open_turned_anew(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(10), UVS_MS(10));
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id));
  ASSERT_STR_EQ("", next_ms(&f, id, 3));
  ASSERT_RC(0, uvs_run_now(f.s, id));
  ASSERT_STR_EQ("0", next_ms(&f, id, 3));
  fixture_turn(&f);
  ASSERT_STR_EQ("", next_ms(&f, id, 3));
  ASSERT_RC(0, uvs_resume(f.s, id, 0));
  ASSERT_STR_EQ("10 20 30", next_ms(&f, id, 3));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(tells_next_runs) {
  RUN_TEST(next_runs_answers_for_each_kind_of_id);
  RUN_TEST(next_runs_of_each_kind_of_task);
  RUN_TEST(next_runs_end_with_max_runs_and_until);
  RUN_TEST(next_runs_of_a_running_task);
  RUN_TEST(next_runs_of_a_task_that_waits_for_a_retry);
  RUN_TEST(next_runs_of_a_task_whose_retry_runs);
  RUN_TEST(next_runs_begin_with_an_extra_run);
  RUN_TEST(a_paused_task_has_no_next_runs);
}

TEST_MAIN(RUN_SUITE(tells_next_runs));
