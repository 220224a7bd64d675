/* SPDX-License-Identifier: MIT
 *
 * Tasks that run by a calendar, on the virtual clock: over gaps and overlaps, with a wall clock
 * that is set, with missed occurrences, and with every other option that a task has.
 */
#include "calendar/occur.h"

#include <sys/wait.h>
#include <unistd.h>

#include "uvsched/lane.h"

#include "lib/bodies.h"
#include "lib/fixture.h"
#include "lib/threads.h"

#include "calendar/calendars.h"
#include "calendar/folder.h"

#define NEW_YORK "America/New_York"
#define HELD 64

/* The calendars of a test. At its end, only the test holds them. */
static struct {
  uvs_calendar_t *all[HELD];
  unsigned n;
} held;

static uvs_calendar_t *hold_calendar(const char *text, const char *zone) {
  uvs_calendar_t *c = calendar_of(text, zone);

  if (c == NULL || held.n == HELD)
    abort();
  return held.all[held.n++] = c;
}

/* What the missed hook was told. */
static struct {
  uint64_t count;
  unsigned calls;
  int reason; /* of the last call */
} told;

static void note_missed(uvs_t *s, uvs_id_t id, uint64_t count, int reason, void *arg) {
  struct probe *p = arg;

  log_add(uvs_data(s), EV_USER, p->tag, id, (int)count);
  told.count += count;
  told.calls++;
  told.reason = reason;
}

/* A fixture whose wall clock is at this time. */
static enum greatest_test_res open_at(struct fixture *f, const char *wall, int concurrency) {
  memset(&told, 0, sizeof told);
  held.n = 0;
  fixture_init(f);
  f->options.concurrency = concurrency;
  f->hooks.on_missed = note_missed;
  vclock_step_wall(&f->clock, utc(wall) - VCLOCK_WALL_NS);
  CHECK_CALL(fixture_open_turned(f));
  PASS();
}

static enum greatest_test_res close_all(struct fixture *f) {
  CHECK_CALL(fixture_close(f));
  for (unsigned i = 0; i < held.n; i++) {
    ASSERT_EQ_FMT(1u, (unsigned)uvs__load(&held.all[i]->refs, relaxed), "%u");
    uvs_calendar_release(held.all[i]);
  }
  PASS();
}

static uvs_task_t cron(struct fixture *f, int tag, const char *text, const char *zone) {
  uvs_task_t t = fixture_once(f, tag, 0);

  t.kind = UVS_CALENDAR;
  t.calendar = hold_calendar(text, zone);
  return t;
}

static void set_wall(struct fixture *f, int64_t by_ns) {
  vclock_step_wall(&f->clock, by_ns);
  uvs_clock_changed(f->s);
  fixture_turn(f);
}

static void advance_until(struct fixture *f, const char *wall) {
  fixture_advance_ns(f, utc(wall) - vclock_wall(&f->clock));
}

static void jump_until(struct fixture *f, const char *wall) {
  fixture_jump_ns(f, utc(wall) - vclock_wall(&f->clock));
}

static int clock_text(char *text, size_t size, int64_t ns) {
  time_t s = (time_t)(ns / UVS_SEC(1));
  struct tm tm;
  size_t n = strftime(text, size, "%d %H:%M:%S", gmtime_r(&s, &tm));

  if (ns % UVS_SEC(1) == 0)
    return (int)n;
  return (int)n + snprintf(text + n, size - n, ".%03d", (int)(ns % UVS_SEC(1) / UVS_MS(1)));
}

/* All runs in one line: "09 07:00:00" stood for that instant, and started then by the wall clock;
 * "@09 07:00:05": it started at another; "+3": three were missed. */
static const char *runs(struct fixture *f, int tag) {
  static char text[65536];
  size_t n = 0;

  text[0] = '\0';
  for (unsigned i = 0; i < log_count(f, EV_WORK, tag) && n < sizeof text - 100; i++) {
    const struct event *e = log_nth(f, EV_WORK, tag, i);

    if (n > 0)
      n += (size_t)snprintf(text + n, 10, ", ");
    n += (size_t)clock_text(text + n, 40, e->ideal_ns);
    if (e->wall_ns != e->ideal_ns) {
      text[n++] = '@';
      n += (size_t)clock_text(text + n, 40, e->wall_ns);
    }
    if (e->missed != 0)
      n += (size_t)snprintf(text + n, 40, "+%llu", (unsigned long long)e->missed);
  }
  return text;
}

#define ASSERT_RUNS(EXP, F, TAG) ASSERT_STR_EQ(EXP, runs(F, TAG))

/* ------------------------------------------------------ gaps and overlaps --- */

/* K13 K4 K6 */
TEST a_task_runs_right_after_a_gap(void) {
  struct fixture f;
  uvs_task_t t;

  SKIP_WITHOUT(NEW_YORK);
  CHECK_CALL(open_at(&f, "2025-03-08 12:00", 1));
  t = cron(&f, 'a', "30 2 * * *", NEW_YORK);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  t = cron(&f, 'b', "*/30 * * * *", NEW_YORK);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  advance_until(&f, "2025-03-11 00:00");
  ASSERT_RUNS("09 07:00:00, 10 06:30:00", &f, 'a');
  ASSERT_U64(120, log_count(&f, EV_WORK, 'b')); /* 60 hours: the gap costs none */
  CHECK_CALL(close_all(&f));
  PASS();
}

/* K13 K5 K6 */
TEST a_task_runs_once_in_an_overlap_unless_it_follows_real_time(void) {
  struct fixture f;
  uvs_task_t t;

  SKIP_WITHOUT(NEW_YORK);
  CHECK_CALL(open_at(&f, "2025-11-02 03:00", 1));
  t = cron(&f, 'a', "30 1 * * *", NEW_YORK);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  t = cron(&f, 'b', "30 * * * *", NEW_YORK);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  t.arg = fixture_probe(&f, 'c');
  t.calendar = held.all[held.n++] =
      calendar_with("30 1 * * *", NEW_YORK, UVS_DAYS_AUTO, UVS_GAP_RUN_AFTER, UVS_OVERLAP_BOTH);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  advance_until(&f, "2025-11-02 08:00");
  ASSERT_RUNS("02 05:30:00", &f, 'a');
  ASSERT_RUNS("02 03:30:00, 02 04:30:00, 02 05:30:00, 02 06:30:00, 02 07:30:00", &f, 'b');
  ASSERT_RUNS("02 05:30:00, 02 06:30:00", &f, 'c');
  CHECK_CALL(close_all(&f));
  PASS();
}

/* ------------------------------------------------------- when the clock is set --- */

/* K13 */
TEST a_run_is_never_early_by_the_wall_clock(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(open_at(&f, "2025-06-01 08:59:59", 1));
  uvs_task_t t = cron(&f, 'a', "0 9 * * *", "UTC");
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_turn(&f);
  ASSERT_I64(utc("2025-06-01 09:00"), look_at(f.s, id).info.due_ns);
  ASSERT_I64(UVS_SEC(1), look_at(f.s, id).info.remaining_ns);
  ASSERT_I64(1000, fixture_next_ms(&f));
  fixture_jump_ns(&f, UVS_SEC(1) - 1);
  ASSERT_U64(0, log_total(&f));
  set_wall(&f, -UVS_MS(500));
  fixture_jump_ns(&f, 1);
  ASSERT_U64(0, log_total(&f));
  fixture_jump_ns(&f, UVS_MS(500) - 1);
  ASSERT_U64(0, log_total(&f));
  fixture_jump_ns(&f, 1);
  ASSERT_RUNS("01 09:00:00", &f, 'a');
  ASSERT_I64(0, log_nth(&f, EV_WORK, 'a', 0)->late_ns);
  CHECK_CALL(close_all(&f));
  PASS();
}

/* K15 */
TEST no_occurrence_runs_twice_when_the_clock_is_set_back(void) {
  static const int policies[] = {UVS_MISSED_CATCH_UP, UVS_MISSED_ONCE, UVS_MISSED_SKIP};

  for (int i = 0; i < 3; i++) {
    struct fixture f;

    CHECK_CALL(open_at(&f, "2025-06-01 08:00", 1));
    uvs_task_t t = cron(&f, 'a', "*/20 * * * *", "UTC");
    t.missed_policy = policies[i];
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    advance_until(&f, "2025-06-01 09:05");
    ASSERT_RUNS("01 08:20:00, 01 08:40:00, 01 09:00:00", &f, 'a');
    set_wall(&f, -UVS_HOUR(1));
    advance_until(&f, "2025-06-01 09:19:59");
    ASSERT_U64(3, log_total(&f));
    advance_until(&f, "2025-06-01 09:40");
    ASSERT_RUNS("01 08:20:00, 01 08:40:00, 01 09:00:00, 01 09:20:00, 01 09:40:00", &f, 'a');
    ASSERT_U64(0, told.count);
    CHECK_CALL(close_all(&f));
  }
  PASS();
}

static int act_set_back(struct probe *p, uvs_run_t *run) {
  if (run->number == 2)
    vclock_step_wall(&p->f->clock, -UVS_HOUR(1));
  return 0;
}

/* K15 */
TEST a_clock_that_is_set_back_during_a_run_repeats_nothing(void) {
  struct fixture f;

  CHECK_CALL(open_at(&f, "2025-06-01 08:00", 1));
  uvs_task_t t = cron(&f, 'a', "*/20 * * * *", "UTC");
  t.missed_policy = UVS_MISSED_SKIP;
  probe_of(&t)->act = act_set_back;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  advance_until(&f, "2025-06-01 08:40");
  advance_until(&f, "2025-06-01 09:00");
  ASSERT_RUNS("01 08:20:00, 01 08:40:00, 01 09:00:00", &f, 'a');
  CHECK_CALL(close_all(&f));
  PASS();
}

/* What passes a day: somebody sets the clock (a suspended machine looks the same), the loop stalls,
 * the body of the first run takes that long, or the task is paused. */
enum way { WAY_STEP, WAY_STALL, WAY_OVERLAP, WAY_PAUSE, WAY_PAUSE_ALL, WAYS };

static int act_long_first(struct probe *p, uvs_run_t *run) {
  if (run->number == 1)
    vclock_advance_ns(&p->f->clock, UVS_HOUR(4) + UVS_MIN(30));
  return 0;
}

/* At 00:30 the run of 00:00 is over, or goes on. At 04:30 things go on. */
static void let_pass(struct fixture *f, uvs_id_t id, enum way way) {
  advance_until(f, "2025-06-02 00:30");
  if (way == WAY_STEP)
    set_wall(f, UVS_HOUR(4));
  else if (way == WAY_STALL)
    fixture_jump_ns(f, UVS_HOUR(4));
  else if (way == WAY_PAUSE) {
    uvs_pause(f->s, id);
    fixture_jump_ns(f, UVS_HOUR(4));
    uvs_resume(f->s, id, 0);
  } else if (way == WAY_PAUSE_ALL) {
    uvs_pause_all(f->s);
    fixture_jump_ns(f, UVS_HOUR(4));
    uvs_resume_all(f->s);
  }
  fixture_turn(f);
}

/* K15 K19 */
TEST a_task_that_is_rescheduled_after_a_clock_was_set_back_goes_back_too(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(open_at(&f, "2025-06-01 08:30", 1));
  uvs_task_t t = cron(&f, 'a', "0 * * * *", "UTC");
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  advance_until(&f, "2025-06-01 09:05");
  set_wall(&f, -UVS_HOUR(1));
  ASSERT_RC(0, uvs_reschedule(f.s, id, UVS_MIN(10)));
  advance_until(&f, "2025-06-01 10:00");
  ASSERT_RUNS("01 09:00:00, 01 08:15:00, 01 09:00:00, 01 10:00:00", &f, 'a');
  CHECK_CALL(close_all(&f));
  PASS();
}

/* K16 K17 V3 */
TEST the_policy_decides_about_missed_occurrences(void) {
  static const int reasons[] = {UVS_LATE_CLOCK, UVS_LATE_LOOP, UVS_LATE_OVERLAP, UVS_LATE_PAUSED,
                                UVS_LATE_PAUSED};
  static const struct {
    int policy;
    uint32_t max_burst;
    uint64_t missed;
    const char *runs;
  } rows[] = {
      {UVS_MISSED_CATCH_UP, 0, 0,
       "02 00:00:00, 02 01:00:00@02 04:30:00, 02 02:00:00@02 04:30:00, 02 03:00:00@02 04:30:00, "
       "02 04:00:00@02 04:30:00, 02 05:00:00"},
      {UVS_MISSED_CATCH_UP, 1, 3, "02 00:00:00, 02 04:00:00@02 04:30:00+3, 02 05:00:00"},
      {UVS_MISSED_CATCH_UP, 3, 1,
       "02 00:00:00, 02 02:00:00@02 04:30:00+1, 02 03:00:00@02 04:30:00, "
       "02 04:00:00@02 04:30:00, 02 05:00:00"},
      {UVS_MISSED_CATCH_UP, 4, 0,
       "02 00:00:00, 02 01:00:00@02 04:30:00, 02 02:00:00@02 04:30:00, 02 03:00:00@02 04:30:00, "
       "02 04:00:00@02 04:30:00, 02 05:00:00"},
      {UVS_MISSED_ONCE, 0, 3, "02 00:00:00, 02 01:00:00@02 04:30:00+3, 02 05:00:00"},
      {UVS_MISSED_SKIP, 0, 4, "02 00:00:00, 02 05:00:00+4"},
  };

  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    for (int way = WAY_STEP; way < WAYS; way++) {
      struct fixture f;
      uvs_id_t id;

      CHECK_CALL(open_at(&f, "2025-06-01 23:30", 1));
      uvs_task_t t = cron(&f, 'a', "0 * * * *", "UTC");
      t.missed_policy = rows[i].policy;
      t.max_burst = rows[i].max_burst;
      if (way == WAY_OVERLAP)
        probe_of(&t)->act = act_long_first;
      ASSERT_RC(0, uvs_submit(f.s, &t, &id));
      let_pass(&f, id, (enum way)way);
      ASSERT_U64(rows[i].missed, told.count);
      ASSERT_U64(rows[i].missed > 0, told.calls);
      if (rows[i].missed > 0)
        ASSERT_RC(reasons[way], told.reason);
      ASSERT_U64(rows[i].missed, look_at(f.s, id).info.missed);
      ASSERT_U64(rows[i].missed, counts_of(f.s).missed);
      advance_until(&f, "2025-06-02 05:10");
      ASSERT_RUNS(rows[i].runs, &f, 'a');
      ASSERT_U64(rows[i].missed, counts_of(f.s).missed);
      CHECK_CALL(close_all(&f));
    }
  PASS();
}

/* K16. The clock is set forward by a day, every minute. */
TEST a_day_forward_is_1440_missed_minutes(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(open_at(&f, "2025-06-01 00:00:30", 1));
  uvs_task_t t = cron(&f, 'a', "* * * * *", "UTC");
  t.missed_policy = UVS_MISSED_ONCE;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_turn(&f);
  set_wall(&f, UVS_DAY(1));
  ASSERT_RUNS("01 00:01:00@02 00:00:30+1439", &f, 'a');
  fixture_advance_ns(&f, UVS_SEC(30));
  ASSERT_U64(2, log_count(&f, EV_WORK, 'a'));
  ASSERT_I64(utc("2025-06-02 00:01"), log_nth(&f, EV_WORK, 'a', 1)->ideal_ns);
  CHECK_CALL(close_all(&f));
  PASS();
}

/* K17. What was merged into a run that has not started is not counted again. */
TEST a_merged_occurrence_is_counted_once(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(open_at(&f, "2025-06-01 00:30", 1));
  uvs_task_t t = cron(&f, 'a', "0 * * * *", "UTC");
  t.missed_policy = UVS_MISSED_ONCE;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_turn(&f);
  fakepool_hold();
  fixture_jump_ns(&f, UVS_HOUR(4)); /* 01:00 and three more */
  ASSERT_RC(UVS_READY, state_of(f.s, id));
  ASSERT_U64(3, told.count);
  ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id));
  fixture_jump_ns(&f, UVS_HOUR(1)); /* and one more */
  ASSERT_RC(0, uvs_resume(f.s, id, 0));
  fixture_turn(&f);
  ASSERT_U64(4, told.count);
  fakepool_release();
  fixture_turn(&f);
  ASSERT_RUNS("01 01:00:00@01 05:30:00+4", &f, 'a');
  CHECK_CALL(close_all(&f));
  PASS();
}

/* K17 */
TEST what_skip_left_out_is_not_counted_again_after_a_pause(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(open_at(&f, "2025-06-01 00:30", 1));
  uvs_task_t t = cron(&f, 'a', "0 * * * *", "UTC");
  t.missed_policy = UVS_MISSED_SKIP;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_jump_ns(&f, UVS_HOUR(4));
  ASSERT_U64(4, told.count);
  ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id));
  ASSERT_RC(0, uvs_resume(f.s, id, 0));
  advance_until(&f, "2025-06-01 05:00");
  ASSERT_U64(4, told.count);
  ASSERT_RUNS("01 05:00:00+4", &f, 'a');
  CHECK_CALL(close_all(&f));
  PASS();
}

/* K16. A ready task waits for a runner until the next occurrence: SKIP leaves its run out. */
TEST skip_leaves_out_a_run_whose_next_occurrence_has_come(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(open_at(&f, "2025-06-01 00:30", 1));
  uvs_task_t t = cron(&f, 'a', "0 * * * *", "UTC");
  t.missed_policy = UVS_MISSED_SKIP;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_turn(&f);
  fakepool_hold();
  fixture_jump_ns(&f, UVS_MIN(30));
  ASSERT_RC(UVS_READY, state_of(f.s, id));
  vclock_advance_ns(&f.clock, UVS_MIN(90));
  fakepool_release();
  fixture_turn(&f);
  ASSERT_U64(0, log_count(&f, EV_WORK, 'a'));
  ASSERT_RC(UVS_LATE_RUNNERS, told.reason);
  advance_until(&f, "2025-06-01 03:00");
  ASSERT_RUNS("01 03:00:00+2", &f, 'a');
  CHECK_CALL(close_all(&f));
  PASS();
}

/* ------------------------------------------------- the first and the last run --- */

/* K14 */
TEST the_first_run_is_the_first_occurrence_that_is_not_before_first_ns(void) {
  static const struct {
    int from;
    const char *first; /* NULL: first_ns is 0 */
    const char *expected;
  } rows[] = {
      {UVS_FROM_NOW, NULL, "2025-06-01 10:00"}, /* 09:00 is now: the next one is later */
      {UVS_FROM_WALL, NULL, "2025-06-01 10:00"},
      {UVS_FROM_WALL, "2025-05-01 00:00", "2025-06-01 10:00"}, /* the past does not count */
      {UVS_FROM_NOW, "2025-06-01 11:30", "2025-06-01 12:00"},
      {UVS_FROM_WALL, "2025-06-01 11:30", "2025-06-01 12:00"},
      {UVS_FROM_NOW, "2025-06-01 12:00", "2025-06-01 12:00"},
      {UVS_FROM_WALL, "2025-06-01 12:00", "2025-06-01 12:00"},
  };

  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    int64_t first_ns = rows[i].first == NULL ? 0 : utc(rows[i].first);
    struct fixture f;

    CHECK_CALL(open_at(&f, "2025-06-01 09:00", 1));
    uvs_task_t t = cron(&f, 'a', "0 * * * *", "UTC");
    t.from = rows[i].from;
    t.first_ns =
        rows[i].from == UVS_FROM_NOW && first_ns != 0 ? first_ns - vclock_wall(&f.clock) : first_ns;
    t.max_runs = 1;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    fixture_advance_ns(&f, UVS_DAY(1));
    ASSERT_U64(1, log_count(&f, EV_WORK, 'a'));
    ASSERT_INSTANT(utc(rows[i].expected), log_nth(&f, EV_WORK, 'a', 0)->ideal_ns);
    ASSERT_RC(0, done_status(&f, 'a'));
    CHECK_CALL(close_all(&f));
  }
  PASS();
}

/* K14 */
TEST until_ns_is_the_last_instant_that_counts(void) {
  for (int from = UVS_FROM_NOW; from <= UVS_FROM_WALL; from += UVS_FROM_WALL)
    for (int early = 0; early < 2; early++) {
      struct fixture f;

      CHECK_CALL(open_at(&f, "2025-06-01 09:30", 1));
      uvs_task_t t = cron(&f, 'a', "0 * * * *", "UTC");
      t.from = from;
      t.until_ns = from == UVS_FROM_NOW ? UVS_MIN(150) - early : utc("2025-06-01 12:00") - early;
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
      fixture_advance_ns(&f, UVS_DAY(1));
      ASSERT_RUNS(early != 0 ? "01 10:00:00, 01 11:00:00" : "01 10:00:00, 01 11:00:00, 01 12:00:00",
                  &f, 'a');
      ASSERT_RC(0, done_status(&f, 'a'));
      CHECK_CALL(close_all(&f));
    }
  PASS();
}

/* K14 */
TEST a_task_without_an_occurrence_until_its_end_ends_at_once(void) {
  struct fixture f;

  CHECK_CALL(open_at(&f, "2025-06-01 09:30", 1));
  uvs_task_t t = cron(&f, 'a', "0 0 29 2 *", "UTC");
  t.until_ns = UVS_DAY(365);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  ASSERT_RC(0, done_status(&f, 'a'));
  ASSERT_U64(0, log_count(&f, EV_WORK, 'a'));
  CHECK_CALL(close_all(&f));
  PASS();
}

/* K14 K17. Occurrences after the end time are neither run nor missed. */
TEST what_comes_after_until_ns_is_not_missed(void) {
  static const struct {
    int policy;
    uint32_t max_burst;
    uint64_t missed;
    const char *runs;
  } rows[] = {
      {UVS_MISSED_CATCH_UP, 0, 0, "01 10:00:00@02 00:30:00, 01 11:00:00@02 00:30:00"},
      {UVS_MISSED_CATCH_UP, 1, 1, "01 11:00:00@02 00:30:00+1"},
      {UVS_MISSED_ONCE, 0, 1, "01 10:00:00@02 00:30:00+1"},
      {UVS_MISSED_SKIP, 0, 0, ""},
  };

  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct fixture f;

    CHECK_CALL(open_at(&f, "2025-06-01 09:30", 1));
    uvs_task_t t = cron(&f, 'a', "0 * * * *", "UTC");
    t.from = UVS_FROM_WALL;
    t.missed_policy = rows[i].policy;
    t.max_burst = rows[i].max_burst;
    t.until_ns = utc("2025-06-01 11:30");
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    jump_until(&f, "2025-06-02 00:30");
    ASSERT_RUNS(rows[i].runs, &f, 'a');
    ASSERT_U64(rows[i].missed, told.count);
    ASSERT_RC(0, done_status(&f, 'a'));
    CHECK_CALL(close_all(&f));
  }
  PASS();
}

/* ------------------------------------------------------ failures and limits --- */

/* K18 */
TEST occurrences_that_pass_during_retries_are_missed_and_the_calendar_goes_on(void) {
  static const int policies[] = {UVS_MISSED_CATCH_UP, UVS_MISSED_ONCE, UVS_MISSED_SKIP};

  for (int i = 0; i < 3; i++) {
    struct fixture f;

    CHECK_CALL(open_at(&f, "2025-06-01 08:59", 1));
    uvs_task_t t = retried(cron(&f, 'a', "0 * * * *", "UTC"), UVS_MIN(50), "xx.");
    t.missed_policy = policies[i];
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    advance_until(&f, "2025-06-01 12:30"); /* fails at 09:00 and 09:50; 11:30 succeeds */
    ASSERT_RUNS("01 09:00:00, 01 09:50:00, 01 11:30:00, 01 12:00:00+2", &f, 'a');
    ASSERT_U64(2, told.count);
    ASSERT_RC(UVS_LATE_RETRY, told.reason);
    CHECK_CALL(close_all(&f));
  }
  PASS();
}

/* K22 */
TEST failure_policies_apply(void) {
  struct fixture f;

  CHECK_CALL(open_at(&f, "2025-06-01 08:59", 1));
  uvs_task_t t = cron(&f, 'a', "0 * * * *", "UTC");
  follow_script(&t, ".x");
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  t = cron(&f, 'b', "0 * * * *", "UTC");
  t.failure_policy = UVS_FAIL_CONTINUE;
  t.max_failures = 3;
  follow_script(&t, "x.x");
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  t = cron(&f, 'c', "0 * * * *", "UTC");
  follow_script(&t, "..s");
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ns(&f, UVS_HOUR(10));
  ASSERT_RUNS("01 09:00:00, 01 10:00:00", &f, 'a');
  ASSERT_RC(UV_EIO, done_status(&f, 'a'));
  ASSERT_U64(5, log_count(&f, EV_WORK, 'b'));
  ASSERT_RC(UV_EIO, done_status(&f, 'b'));
  ASSERT_U64(3, log_count(&f, EV_WORK, 'c'));
  ASSERT_RC(0, done_status(&f, 'c'));
  CHECK_CALL(close_all(&f));
  PASS();
}

/* K18 K22. A run whose limit passes before it can start has used its occurrence. */
TEST a_run_that_times_out_before_it_starts_is_not_repeated(void) {
  struct fixture f;

  CHECK_CALL(open_at(&f, "2025-06-01 08:59", 1));
  uvs_task_t t = cron(&f, 'a', "0 * * * *", "UTC");
  t.limit.total_ns = UVS_SEC(10);
  t.failure_policy = UVS_FAIL_CONTINUE;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  fakepool_hold();
  fixture_jump_ns(&f, UVS_MIN(1));
  fixture_jump_ns(&f, UVS_SEC(30)); /* the limit has passed */
  fakepool_release();
  fixture_turn(&f);
  ASSERT_U64(0, log_count(&f, EV_WORK, 'a'));
  ASSERT_U64(1, counts_of(f.s).failed_runs);
  advance_until(&f, "2025-06-01 11:00");
  ASSERT_RUNS("01 10:00:00, 01 11:00:00", &f, 'a');
  ASSERT_U64(1, counts_of(f.s).failed_runs);
  CHECK_CALL(close_all(&f));
  PASS();
}

/* K22 */
TEST a_run_past_its_limit_ends_and_the_next_occurrence_runs(void) {
  struct fixture f;

  CHECK_CALL(open_at(&f, "2025-06-01 08:59", 1));
  uvs_task_t t = cron(&f, 'a', "0 * * * *", "UTC");
  t.limit.run_ns = UVS_SEC(10);
  t.failure_policy = UVS_FAIL_CONTINUE;
  t.max_failures = 2;
  probe_of(&t)->takes_ns = UVS_SEC(20);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ns(&f, UVS_HOUR(5));
  ASSERT_RUNS("01 09:00:00, 01 10:00:00", &f, 'a');
  ASSERT_RC(UV_ETIMEDOUT, done_status(&f, 'a'));
  CHECK_CALL(close_all(&f));
  PASS();
}

/* --------------------------------------------- lanes, priorities, jitter, ... --- */

/* K22 */
TEST calendar_tasks_have_a_place_in_their_lane(void) {
  struct fixture f;
  uvs_lane_t lane;

  CHECK_CALL(open_at(&f, "2025-06-01 08:59", 2));
  ASSERT_RC(0, uvs_lane_open(f.s, NULL, &lane));
  for (int tag = 'a'; tag <= 'c'; tag++) {
    uvs_task_t t = cron(&f, tag, "0 * * * *", "UTC");

    t.lane = lane;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  advance_until(&f, "2025-06-01 10:00");
  ASSERT_STR_EQ("abcabc", log_string(&f, EV_WORK));
  ASSERT_RC(0, uvs_lane_dispose(lane, 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("abc", log_string(&f, EV_DONE));
  ASSERT_RC(UV_ECANCELED, done_status(&f, 'b'));
  CHECK_CALL(close_all(&f));
  PASS();
}

/* K22 */
TEST a_higher_priority_starts_first(void) {
  struct fixture f;

  CHECK_CALL(open_at(&f, "2025-06-01 08:59", 1));
  for (int p = UVS_PRIORITY_LOW; p <= UVS_PRIORITY_HIGH; p++) {
    uvs_task_t t = cron(&f, 'b' - p, "0 * * * *", "UTC");

    t.priority = p;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  advance_until(&f, "2025-06-01 09:00");
  ASSERT_STR_EQ("abc", log_string(&f, EV_WORK));
  CHECK_CALL(close_all(&f));
  PASS();
}

/* K22 K13 */
TEST jitter_delays_each_run_and_delays_do_not_add_up(void) {
  struct fixture f;
  bool differ = false;

  CHECK_CALL(open_at(&f, "2025-06-01 08:59", 1));
  uvs_task_t t = cron(&f, 'a', "0 * * * *", "UTC");
  t.jitter_ns = UVS_MIN(10);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ns(&f, UVS_HOUR(20));
  ASSERT_U64(20, log_count(&f, EV_WORK, 'a'));
  for (unsigned i = 0; i < 20; i++) {
    const struct event *e = log_nth(&f, EV_WORK, 'a', i);
    int64_t jitter_ns = e->wall_ns - e->ideal_ns;

    ASSERT_I64(utc("2025-06-01 09:00") + UVS_HOUR((int64_t)i), e->ideal_ns);
    ASSERT(jitter_ns >= 0 && jitter_ns <= UVS_MIN(10));
    ASSERT_I64(0, e->late_ns);
    differ |= i > 0 && jitter_ns != log_nth(&f, EV_WORK, 'a', 0)->wall_ns -
                                        log_nth(&f, EV_WORK, 'a', 0)->ideal_ns;
  }
  ASSERT(differ);
  CHECK_CALL(close_all(&f));
  PASS();
}

/* K17. Jitter may be longer than the time to the next occurrence: that one is missed, once. */
TEST jitter_that_is_longer_than_the_period_misses_each_occurrence_once(void) {
  struct fixture f;

  CHECK_CALL(open_at(&f, "2025-06-01 09:00", 1));
  uvs_task_t t = cron(&f, 'a', "* * * * * *", "UTC");
  t.missed_policy = UVS_MISSED_ONCE;
  t.jitter_ns = UVS_SEC(10);
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_advance_ns(&f, UVS_MIN(5));
  ASSERT_RC(UVS_LATE_TIMER, told.reason); /* only the jitter is to blame */
  fakepool_hold();
  fixture_advance_ns(&f, UVS_SEC(60));
  fakepool_release();
  fixture_turn(&f);
  ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, log_nth(&f, EV_WORK, 'a', 0)->id));
  const struct event *last = log_nth(&f, EV_WORK, 'a', log_count(&f, EV_WORK, 'a') - 1);
  uint64_t missed = 0;
  for (unsigned i = 0; i < log_count(&f, EV_WORK, 'a'); i++)
    missed += log_nth(&f, EV_WORK, 'a', i)->missed;
  /* Each run stands for its ideal and for the missed ones. Together they are all seconds. */
  ASSERT(missed > 100);
  ASSERT((uint64_t)((last->wall_ns - utc("2025-06-01 09:00")) / UVS_SEC(1)) + 1 >=
         missed + log_count(&f, EV_WORK, 'a'));
  CHECK_CALL(close_all(&f));
  PASS();
}

/* K22 */
TEST max_runs_ref_and_a_kept_outcome_work_as_for_other_tasks(void) {
  struct fixture f;
  uvs_id_t id;
  uvs_outcome_t outcome;

  CHECK_CALL(open_at(&f, "2025-06-01 08:59", 1));
  uvs_task_t t = cron(&f, 'a', "0 * * * *", "UTC");
  t.max_runs = 3;
  t.keep_outcome = 1;
  t.result = &f;
  t.flags = UVS_UNREF;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_turn(&f);
  ASSERT_RC(0, uvs_has_ref(f.s, id));
  ASSERT_FALSE(fixture_alive(&f));
  ASSERT_RC(0, uvs_ref(f.s, id));
  fixture_turn(&f);
  ASSERT(fixture_alive(&f));
  ASSERT_RC(UVS_CALENDAR, look_at(f.s, id).info.kind);
  ASSERT_RC(UVS_FROM_WALL, look_at(f.s, id).info.from);
  ASSERT_I64(0, look_at(f.s, id).info.period_ns);
  fixture_advance_ns(&f, UVS_HOUR(9));
  ASSERT_RUNS("01 09:00:00, 01 10:00:00, 01 11:00:00", &f, 'a');
  ASSERT_RC(0, done_status(&f, 'a'));
  uvs_outcome_init(&outcome);
  ASSERT_RC(0, uvs_wait(f.s, id, 0, 0, &outcome));
  ASSERT_EQ(&f, outcome.result);
  ASSERT_RC(UV_ENOENT, uvs_next_runs(f.s, id, &(int64_t){0}, 1));
  ASSERT_RC(0, uvs_forget(f.s, id));
  CHECK_CALL(close_all(&f));
  PASS();
}

/* K22 */
TEST a_calendar_task_on_the_loop_and_one_with_after_run(void) {
  struct fixture f;

  CHECK_CALL(open_at(&f, "2025-06-01 08:59", 1));
  uvs_task_t t = cron(&f, 'a', "0 * * * *", "UTC");
  t.after = probe_after;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  t = cron(&f, 'b', "0 * * * *", "UTC");
  t.work = NULL;
  t.after = probe_loop_body;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  advance_until(&f, "2025-06-01 11:00");
  ASSERT_U64(3, log_count(&f, EV_WORK, 'a'));
  ASSERT_U64(3, log_count(&f, EV_AFTER, 'a'));
  ASSERT_I64(utc("2025-06-01 10:00"), log_nth(&f, EV_AFTER, 'a', 1)->ideal_ns);
  ASSERT_U64(3, log_count(&f, EV_WORK, 'b') + log_count(&f, EV_AFTER, 'b'));
  CHECK_CALL(close_all(&f));
  PASS();
}

/* D17 */
TEST the_dump_shows_a_calendar_task(void) {
  struct fixture f;
  char *text = NULL;
  size_t size = 0;

  CHECK_CALL(open_at(&f, "2025-06-01 08:59", 1));
  uvs_task_t t = cron(&f, 'a', "0 * * * *", "UTC");
  t.name = "hourly";
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  FILE *out = open_memstream(&text, &size);
  ASSERT(out != NULL);
  ASSERT_RC(0, uvs_dump(f.s, out));
  fclose(out);
  ASSERT(strstr(text, "waiting  cron      +60.000 s  runs 0  missed 0  hourly") != NULL);
  free(text);
  CHECK_CALL(close_all(&f));
  PASS();
}

/* ---------------------------------------------------------- moved and paused --- */

/* K19 */
TEST a_moved_run_comes_then_and_the_calendar_goes_on_after_it(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(open_at(&f, "2025-06-01 08:30", 1));
  uvs_task_t t = cron(&f, 'a', "0 * * * *", "UTC");
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(0, uvs_reschedule(f.s, id, UVS_MIN(10))); /* before the loop has worked out a time */
  advance_until(&f, "2025-06-01 09:10");
  ASSERT_RC(0, uvs_reschedule(f.s, id, UVS_MIN(125)));
  advance_until(&f, "2025-06-01 12:10");
  ASSERT_RUNS("01 08:40:00, 01 09:00:00, 01 11:15:00, 01 12:00:00", &f, 'a');
  ASSERT_U64(0, told.count);
  CHECK_CALL(close_all(&f));
  PASS();
}

/* K19 K20 */
TEST a_moved_run_survives_a_pause_and_an_extra_run(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(open_at(&f, "2025-06-01 08:30", 1));
  uvs_task_t t = cron(&f, 'a', "0 * * * *", "UTC");
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_turn(&f);
  ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id));
  ASSERT_RC(0, uvs_reschedule(f.s, id, UVS_MIN(10)));
  ASSERT_RC(0, uvs_resume(f.s, id, 0));
  fixture_turn(&f);
  ASSERT_RC(0, uvs_run_now(f.s, id));
  advance_until(&f, "2025-06-01 09:00");
  ASSERT_RUNS("01 08:30:00, 01 08:40:00, 01 09:00:00", &f, 'a');
  /* For ever, until it is moved again. */
  ASSERT_RC(0, uvs_reschedule(f.s, id, UVS_NEVER));
  ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id));
  ASSERT_RC(0, uvs_resume(f.s, id, 0));
  ASSERT_RC(0, uvs_run_now(f.s, id));
  fixture_advance_ns(&f, UVS_HOUR(5));
  ASSERT_U64(4, log_count(&f, EV_WORK, 'a'));
  ASSERT_RC(UVS_WAITING, state_of(f.s, id));
  ASSERT_RC(0, uvs_reschedule(f.s, id, 0));
  fixture_advance_ns(&f, UVS_HOUR(1));
  ASSERT_U64(6, log_count(&f, EV_WORK, 'a'));
  CHECK_CALL(close_all(&f));
  PASS();
}

/* K20 */
TEST what_passed_during_a_pause_can_be_forgotten(void) {
  for (int at_once = 0; at_once < 2; at_once++) {
    struct fixture f;
    uvs_id_t id;

    CHECK_CALL(open_at(&f, "2025-06-01 08:30", 1));
    uvs_task_t t = cron(&f, 'a', "0 * * * *", "UTC");
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    if (at_once == 0)
      fixture_turn(&f);
    ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id));
    if (at_once == 0)
      fixture_advance_ns(&f, UVS_HOUR(3) + UVS_MIN(30));
    else /* the loop has not seen the task yet */
      vclock_advance_ns(&f.clock, UVS_HOUR(3) + UVS_MIN(30));
    ASSERT_RC(0, uvs_resume(f.s, id, UVS_RESUME_FORGET));
    fixture_turn(&f); /* 12:00 is now */
    advance_until(&f, "2025-06-01 13:00");
    ASSERT_RUNS("01 12:00:00, 01 13:00:00", &f, 'a');
    ASSERT_U64(0, told.count);
    CHECK_CALL(close_all(&f));
  }
  PASS();
}

/* K20 */
TEST an_extra_run_does_not_move_the_calendar(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(open_at(&f, "2025-06-01 08:30", 1));
  uvs_task_t t = cron(&f, 'a', "0 * * * *", "UTC");
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(0, uvs_run_now(f.s, id)); /* before the loop has worked out a time */
  advance_until(&f, "2025-06-01 09:10");
  ASSERT_RC(0, uvs_run_now(f.s, id));
  ASSERT_RC(UV_EBUSY, uvs_run_now(f.s, id));
  advance_until(&f, "2025-06-01 10:00");
  ASSERT_RUNS("01 08:30:00, 01 09:00:00, 01 09:10:00, 01 10:00:00", &f, 'a');
  CHECK_CALL(close_all(&f));
  PASS();
}

/* L29 K20: whether the scheduler or the task was paused meanwhile. */
TEST an_extra_run_does_not_wait_for_a_clock_that_is_set_back(void) {
  for (int i = 0; i < 2; i++) {
    struct fixture f;
    uvs_id_t id;

    CHECK_CALL(open_at(&f, "2025-06-01 08:30", 1));
    uvs_task_t t = cron(&f, 'a', "0 * * * *", "UTC");
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_turn(&f);
    if (i == 0)
      ASSERT_RC(0, uvs_pause_all(f.s));
    ASSERT_RC(0, uvs_run_now(f.s, id));
    if (i == 1)
      ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id));
    set_wall(&f, -UVS_HOUR(1));
    ASSERT_U64(0, log_total(&f));
    ASSERT_RC(0, i == 0 ? uvs_resume_all(f.s) : uvs_resume(f.s, id, 0));
    fixture_turn(&f);
    ASSERT_RUNS("01 07:30:00", &f, 'a');
    ASSERT_I64(0, log_nth(&f, EV_WORK, 'a', 0)->late_ns);
    advance_until(&f, "2025-06-01 09:00");
    ASSERT_RUNS("01 07:30:00, 01 09:00:00", &f, 'a');
    CHECK_CALL(close_all(&f));
  }
  PASS();
}

static int act_next_runs(struct probe *p, uvs_run_t *run) {
  int64_t *ns = p->data;

  return uvs_next_runs(run->scheduler, run->id, ns, 2) == 2 ? 0 : UV_EIO;
}

/* K20 */
TEST next_runs_are_the_next_occurrences(void) {
  struct fixture f;
  uvs_id_t id;
  int64_t ns[4], inside[2] = {0, 0};

  CHECK_CALL(open_at(&f, "2025-06-01 08:30", 1));
  uvs_task_t t = cron(&f, 'a', "0 * * * *", "UTC");
  t.max_runs = 4;
  probe_of(&t)->act = act_next_runs;
  probe_of(&t)->data = inside;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  for (int turned = 0; turned < 2; turned++) { /* also before the loop has worked it out */
    ASSERT_RC(4, uvs_next_runs(f.s, id, ns, 4));
    for (int i = 0; i < 4; i++)
      ASSERT_INSTANT(utc("2025-06-01 09:00") + UVS_HOUR(i), ns[i]);
    fixture_turn(&f);
  }
  advance_until(&f, "2025-06-01 09:10");
  ASSERT_INSTANT(utc("2025-06-01 10:00"), inside[0]);
  ASSERT_INSTANT(utc("2025-06-01 11:00"), inside[1]);
  ASSERT_RC(0, uvs_run_now(f.s, id));
  ASSERT_RC(3, uvs_next_runs(f.s, id, ns, 4));
  ASSERT_INSTANT(utc("2025-06-01 09:10"), ns[0]);
  ASSERT_INSTANT(utc("2025-06-01 10:00"), ns[1]);
  fixture_turn(&f);
  ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id));
  ASSERT_RC(0, uvs_next_runs(f.s, id, ns, 4));
  CHECK_CALL(close_all(&f));
  PASS();
}

/* ---------------------------------------------------------------- zones --- */

#define OLD_OFFSET 0
#define NEW_OFFSET (-7200)

/* K21 K10 */
TEST the_next_run_follows_new_rules_of_the_zone(void) {
  const char *tzdir = getenv("TZDIR");
  char *before = tzdir == NULL ? NULL : strdup(tzdir);
  struct folder folder;
  struct fixture f;
  uvs_id_t id, paused, moved;

  folder_make(&folder);
  folder_write_offset(&folder, "Here", OLD_OFFSET);
  ASSERT_RC(0, setenv("TZDIR", folder.path, 1));
  CHECK_CALL(open_at(&f, "2025-06-01 08:30", 1));
  uvs_task_t t = cron(&f, 'a', "0 9 * * *", "Here");
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  t.arg = fixture_probe(&f, 'b');
  ASSERT_RC(0, uvs_submit(f.s, &t, &paused));
  t.arg = fixture_probe(&f, 'c');
  ASSERT_RC(0, uvs_submit(f.s, &t, &moved));
  fixture_turn(&f);
  ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, paused));
  ASSERT_RC(0, uvs_reschedule(f.s, moved, UVS_MIN(40)));
  folder_write_offset(&folder, "Here", NEW_OFFSET);
  fixture_jump_ns(&f, UVS_SEC(59));
  ASSERT_INSTANT(utc("2025-06-01 09:00"), look_at(f.s, id).info.due_ns);
  fixture_jump_ns(&f, UVS_SEC(1));
  ASSERT_INSTANT(utc("2025-06-01 11:00"), look_at(f.s, id).info.due_ns);
  ASSERT_RC(0, uvs_resume(f.s, paused, 0));
  advance_until(&f, "2025-06-02 12:00");
  ASSERT_RUNS("01 11:00:00, 02 11:00:00", &f, 'a');
  ASSERT_RUNS("01 11:00:00, 02 11:00:00", &f, 'b');
  ASSERT_RUNS("01 09:10:00, 01 11:00:00, 02 11:00:00", &f, 'c');
  ASSERT_U64(0, told.count);
  CHECK_CALL(close_all(&f));
  ASSERT_RC(0, before == NULL ? unsetenv("TZDIR") : setenv("TZDIR", before, 1));
  folder_unlink(&folder, "Here");
  ASSERT_RC(0, rmdir(folder.path));
  free(before);
  PASS();
}

/* K21. The loop looks at the zones in the pass in which the task is due. */
TEST an_occurrence_that_is_due_runs_although_the_zone_changed(void) {
  static const int policies[] = {UVS_MISSED_CATCH_UP, UVS_MISSED_ONCE, UVS_MISSED_SKIP};
  const char *tzdir = getenv("TZDIR");
  char *before = tzdir == NULL ? NULL : strdup(tzdir);

  for (int i = 0; i < 3; i++) {
    struct folder folder;
    struct fixture f;
    uvs_id_t id;

    folder_make(&folder);
    folder_write_offset(&folder, "Here", OLD_OFFSET);
    ASSERT_RC(0, setenv("TZDIR", folder.path, 1));
    CHECK_CALL(open_at(&f, "2025-06-01 08:30", 1));
    uvs_task_t t = cron(&f, 'a', "0 9 * * *", "Here");
    t.missed_policy = policies[i];
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    fixture_turn(&f);
    folder_write_offset(&folder, "Here", NEW_OFFSET);
    fixture_jump_ns(&f, UVS_MIN(30));
    ASSERT_RUNS("01 09:00:00", &f, 'a');
    advance_until(&f, "2025-06-01 12:00");
    ASSERT_RUNS("01 09:00:00, 01 11:00:00", &f, 'a');
    ASSERT_U64(0, told.count);
    CHECK_CALL(close_all(&f));
    ASSERT_RC(0, before == NULL ? unsetenv("TZDIR") : setenv("TZDIR", before, 1));
    folder_unlink(&folder, "Here");
    ASSERT_RC(0, rmdir(folder.path));
  }
  free(before);
  PASS();
}

/* K21. The program itself refreshes the zones, just before an occurrence that the new rules do not
 * have passes. */
TEST a_refresh_by_the_program_makes_no_wrong_count(void) {
  const char *tzdir = getenv("TZDIR");
  char *before = tzdir == NULL ? NULL : strdup(tzdir);
  struct folder folder;
  struct fixture f;
  uvs_id_t id;

  folder_make(&folder);
  folder_write_offset(&folder, "Here", OLD_OFFSET);
  ASSERT_RC(0, setenv("TZDIR", folder.path, 1));
  CHECK_CALL(open_at(&f, "2025-06-01 08:59:30", 1));
  uvs_task_t t = cron(&f, 'a', "0 9,10 * * *", "Here");
  t.missed_policy = UVS_MISSED_ONCE;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_turn(&f);
  folder_write_offset(&folder, "Here", -43200);
  ASSERT(uvs_calendar_refresh() > 0);
  vclock_advance_ns(&f.clock, UVS_SEC(30)); /* the loop's next look is after 09:00:30 */
  set_wall(&f, UVS_HOUR(2));
  ASSERT_RUNS("01 09:00:00@01 11:00:00", &f, 'a');
  ASSERT_U64(0, told.count);
  CHECK_CALL(close_all(&f));
  ASSERT_RC(0, before == NULL ? unsetenv("TZDIR") : setenv("TZDIR", before, 1));
  folder_unlink(&folder, "Here");
  ASSERT_RC(0, rmdir(folder.path));
  free(before);
  PASS();
}

/* ------------------------------------------------------------------- the end --- */

/* K23 */
TEST a_shutdown_ends_the_task_or_lets_it_go_on(void) {
  for (int goes_on = 0; goes_on < 2; goes_on++)
    for (int turned = 0; turned < 2; turned++) {
      struct fixture f;
      uvs_id_t id;

      CHECK_CALL(open_at(&f, "2025-06-01 08:30", 1));
      ASSERT_RC(0, uvs_set_after_shutdown(f.s, UVS_PERIODIC_TASKS, goes_on));
      uvs_task_t t = cron(&f, 'a', "0 * * * *", "UTC");
      ASSERT_RC(0, uvs_submit(f.s, &t, &id));
      if (turned != 0)
        fixture_turn(&f);
      ASSERT_RC(0, uvs_shutdown(f.s));
      advance_until(&f, "2025-06-01 10:00");
      ASSERT_U64(goes_on != 0 ? 2 : 0, log_count(&f, EV_WORK, 'a'));
      ASSERT_RC(goes_on != 0 ? INT_MAX : UV_ECANCELED, done_status(&f, 'a'));
      if (goes_on != 0)
        ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, 0));
      fixture_turn(&f);
      ASSERT_RC(1, uvs_is_terminated(f.s));
      CHECK_CALL(close_all(&f));
    }
  PASS();
}

/* K23 */
TEST a_cancelled_task_gives_its_calendar_back(void) {
  for (int turned = 0; turned < 2; turned++)
    for (unsigned flags = 0; flags <= UVS_CANCEL_NO_DONE; flags += UVS_CANCEL_NO_DONE) {
      struct fixture f;
      uvs_id_t id;

      CHECK_CALL(open_at(&f, "2025-06-01 08:30", 1));
      uvs_task_t t = cron(&f, 'a', "0 * * * *", "UTC");
      ASSERT_RC(0, uvs_submit(f.s, &t, &id));
      if (turned != 0)
        fixture_turn(&f);
      ASSERT_EQ_FMT(2u, (unsigned)uvs__load(&t.calendar->refs, relaxed), "%u");
      ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, id, flags));
      fixture_turn(&f);
      ASSERT_EQ_FMT(1u, (unsigned)uvs__load(&t.calendar->refs, relaxed), "%u");
      ASSERT_RC(flags != 0 ? INT_MAX : UV_ECANCELED, done_status(&f, 'a'));
      CHECK_CALL(close_all(&f));
    }
  PASS();
}

/* K23. In every state: owed a time, waiting, ready, paused, ended with a kept outcome. */
TEST closing_gives_all_calendars_back(void) {
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(open_at(&f, "2025-06-01 08:59:30", 1));
  uvs_task_t t = cron(&f, 'a', "0 10 * * *", "UTC");
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  t = cron(&f, 'b', "0 * * * *", "UTC");
  t.keep_outcome = 1;
  t.max_runs = 1;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  t = cron(&f, 'c', "0 * * * *", "UTC");
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id));
  advance_until(&f, "2025-06-01 09:59:59");
  t = cron(&f, 'd', "0 * * * *", "UTC");
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  t = cron(&f, 'e', "0 * * * *", "UTC");
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  vclock_advance_ns(&f.clock, UVS_SEC(1));
  CHECK_CALL(close_all(&f));
  PASS();
}

/* K23 */
TEST a_forked_child_can_close_its_copy(void) {
  struct fixture f;
  pid_t child;
  int status = 0;

  if (UNDER_TSAN)
    SKIPm("ThreadSanitizer supports no child of a process with threads");
  CHECK_CALL(open_at(&f, "2025-06-01 08:30", 1));
  uvs_task_t t = cron(&f, 'a', "0 * * * *", "UTC");
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  t = cron(&f, 'b', "0 * * * *", "UTC");
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  child = fork();
  if (child == 0) {
    alarm(15);
    if (uvs_schedule_cron(f.s, "0 9 * * *", "UTC", probe_work, NULL, NULL) != UV_ENOTSUP)
      _exit(1);
    if (uvs_close(f.s, NULL) != 0)
      _exit(2);
    for (unsigned i = 0; i < held.n; i++) {
      if (uvs__load(&held.all[i]->refs, relaxed) != 1)
        _exit(3);
    }
    _exit(0);
  }
  ASSERT(child > 0);
  ASSERT_EQ(child, waitpid(child, &status, 0));
  ASSERT(WIFEXITED(status));
  ASSERT_RC(0, WEXITSTATUS(status));
  CHECK_CALL(close_all(&f));
  PASS();
}

/* K23. Also the other way round: a fixed rate takes the place of a calendar. */
TEST a_replaced_task_gives_its_calendar_back_and_keeps_its_id(void) {
  struct fixture f;
  uvs_id_t id, other;

  CHECK_CALL(open_at(&f, "2025-06-01 08:30", 1));
  uvs_task_t t = cron(&f, 'a', "0 * * * *", "UTC");
  t.name = "job";
  t.flags = UVS_REPLACE;
  t.done = NULL;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_turn(&f);
  for (int i = 0; i < 3; i++) {
    uvs_calendar_t *old = t.calendar;
    struct probe *p = t.arg;

    t.calendar = hold_calendar("30 * * * *", "UTC");
    t.arg = p;
    ASSERT_RC(UVS_REPLACED, uvs_submit(f.s, &t, &other));
    ASSERT_U64(id, other);
    ASSERT_EQ_FMT(1u, (unsigned)uvs__load(&old->refs, relaxed), "%u");
    fixture_turn(&f);
  }
  advance_until(&f, "2025-06-01 10:10");
  ASSERT_RUNS("01 09:30:00", &f, 'a');
  t.kind = UVS_FIXED_RATE;
  t.calendar = NULL;
  t.period_ns = UVS_MIN(5);
  t.first_ns = UVS_MIN(5);
  ASSERT_RC(UVS_REPLACED, uvs_submit(f.s, &t, &other));
  fixture_advance_ns(&f, UVS_MIN(10));
  ASSERT_U64(3, log_count(&f, EV_WORK, 'a'));
  CHECK_CALL(close_all(&f));
  PASS();
}

/* --------------------------------------------------------------- the short call --- */

/* K24 */
TEST uvs_schedule_cron_runs_once_for_missed_occurrences(void) {
  struct fixture f;
  uvs_id_t id = 0;

  SKIP_WITHOUT("Europe/Berlin");
  CHECK_CALL(open_at(&f, "2025-06-02 06:30", 1)); /* a Monday */
  ASSERT_RC(0, uvs_schedule_cron(f.s, "0 9 * * 1-5", "Europe/Berlin", probe_work,
                                 fixture_probe(&f, 'a'), &id));
  advance_until(&f, "2025-06-04 00:00");
  ASSERT_RUNS("02 07:00:00, 03 07:00:00", &f, 'a');
  jump_until(&f, "2025-06-09 00:00");
  ASSERT_U64(3, log_count(&f, EV_WORK, 'a'));
  ASSERT_U64(2, log_nth(&f, EV_WORK, 'a', 2)->missed);
  CHECK_CALL(close_all(&f));
  PASS();
}

/* K24 K12 */
TEST uvs_schedule_cron_takes_intervals(void) {
  struct fixture f;
  uvs_id_t id = 0;

  CHECK_CALL(open_at(&f, "2025-06-02 06:30:07", 1));
  ASSERT_RC(0, uvs_schedule_cron(f.s, "@every 90s", NULL, probe_work, fixture_probe(&f, 'a'), &id));
  ASSERT_RC(UVS_FIXED_RATE, look_at(f.s, id).info.kind);
  ASSERT_I64(UVS_SEC(90), look_at(f.s, id).info.period_ns);
  set_wall(&f, UVS_HOUR(5)); /* an interval does not follow the wall clock */
  fixture_advance_ns(&f, UVS_SEC(180));
  ASSERT_STR_EQ("90000 180000", log_runs(&f, EV_WORK, 'a'));
  CHECK_CALL(close_all(&f));
  PASS();
}

/* K24 K2 K25 */
TEST uvs_schedule_cron_refuses_what_it_cannot_read(void) {
  struct fixture f;
  uvs_id_t id = 7;
  struct probe *p;

  CHECK_CALL(open_at(&f, "2025-06-02 06:30", 1));
  p = fixture_probe(&f, 'a');
  ASSERT_RC(UV_EINVAL, uvs_schedule_cron(f.s, "61 * * * *", "UTC", probe_work, p, &id));
  ASSERT_RC(UV_EINVAL, uvs_schedule_cron(f.s, NULL, "UTC", probe_work, p, &id));
  ASSERT_RC(UV_EINVAL, uvs_schedule_cron(f.s, "0 0 31 2 *", "UTC", probe_work, p, &id));
  ASSERT_RC(UV_EINVAL, uvs_schedule_cron(f.s, "* * * * *", "../UTC", probe_work, p, &id));
  ASSERT_RC(UV_ENOENT, uvs_schedule_cron(f.s, "* * * * *", "No/Such", probe_work, p, &id));
  ASSERT_RC(UV_EINVAL, uvs_schedule_cron(f.s, "* * * * *", "UTC", NULL, p, &id));
  ASSERT_RC(UV_EINVAL, uvs_schedule_cron(NULL, "* * * * *", "UTC", probe_work, p, &id));
  ASSERT_RC(0, uvs_shutdown(f.s));
  ASSERT_RC(UV_ESHUTDOWN, uvs_schedule_cron(f.s, "* * * * *", "UTC", probe_work, p, &id));
  ASSERT_U64(7, id);
  ASSERT_U64(0, counts_of(f.s).submitted);
  CHECK_CALL(close_all(&f));
  PASS();
}

/* K25 */
TEST specs_that_make_no_sense_are_refused(void) {
  struct fixture f;
  uvs_task_t good;
  char why[100];

  CHECK_CALL(open_at(&f, "2025-06-02 06:30", 1));
  good = cron(&f, 'a', "0 * * * *", "UTC");
  ASSERT_RC(0, uvs_check(&good, why, sizeof why));
#define REFUSED(CHANGE, WHY) \
  do { \
    uvs_task_t t = good; \
    CHANGE; \
    ASSERT_RC(UV_EINVAL, uvs_submit(f.s, &t, NULL)); \
    ASSERT_RC(UV_EINVAL, uvs_check(&t, why, sizeof why)); \
    ASSERTm(why, strstr(why, WHY) != NULL); \
  } while (0)
  REFUSED(t.calendar = NULL, "calendar is NULL");
  REFUSED(t.calendar = hold_calendar("@every 5s", "UTC"), "@every");
  REFUSED(t.period_ns = 1, "period_ns");
  REFUSED(t.from = UVS_FROM_MONOTONIC, "UVS_FROM_MONOTONIC");
  REFUSED(t.kind = UVS_ONE_SHOT, "calendar is only for UVS_CALENDAR");
  REFUSED(t.kind = 4, "kind");
  REFUSED(t.until_ns = -1, "until_ns");
  REFUSED(t.missed_policy = UVS_MISSED_SKIP; t.max_burst = 1, "max_burst");
  ASSERT_U64(0, counts_of(f.s).submitted);
  CHECK_CALL(close_all(&f));
  PASS();
}

/* K23. Nothing is held if a submission fails. */
TEST an_allocation_failure_changes_nothing(void) {
  int failures = 0;

  for (long n = 0;; n++) {
    struct fixture f;
    uvs_task_t t[70];
    bool failed;
    int rc;

    CHECK_CALL(open_at(&f, "2025-06-02 06:30", 1));
    for (int i = 0; i < 70; i++) { /* more than the first chunk of extra records has */
      t[i] = i == 0 ? cron(&f, 'a', "0 * * * *", "UTC") : t[0];
    }
    fault_after(n);
    rc = uvs_submit_many(f.s, t, 70, NULL);
    failed = fault_hit();
    ASSERT_RC(failed ? UV_ENOMEM : 0, rc);
    ASSERT_EQ_FMT(failed ? 1u : 71u, (unsigned)uvs__load(&t[0].calendar->refs, relaxed), "%u");
    fixture_turn(&f);
    CHECK_CALL(close_all(&f));
    if (!failed)
      break;
    failures++;
  }
  ASSERT(failures >= 2);
  PASS();
}

/* ---------------------------------------------------------------- properties --- */

/* K13 K15 K16 K17. The clock goes on, stalls and is set, at random. No run is early, no occurrence
 * runs twice, and with ONCE or bursts each occurrence runs or is missed. */
TEST at_random_no_occurrence_is_early_lost_or_doubled(void) {
  uint64_t seed = test_seed;

  for (int round = 0; round < 60; round++) {
    struct fixture f;
    uvs_id_t id;
    uint64_t stood_for = 0;
    int64_t start_ns, last_ns;
    uvs_calendar_t *c;

    CHECK_CALL(open_at(&f, "2025-06-01 08:30", 1));
    uvs_task_t t = cron(&f, 'a', "*/10 * * * *", "UTC");
    c = t.calendar;
    t.missed_policy = (int)test_random_below(&seed, 3);
    t.max_burst =
        t.missed_policy == UVS_MISSED_CATCH_UP ? (uint32_t)test_random_below(&seed, 4) : 0;
    if (test_random_below(&seed, 3) == 0)
      probe_of(&t)->takes_ns = UVS_MIN(3);
    start_ns = last_ns = vclock_wall(&f.clock);
    ASSERT_RC(0, uvs_submit(f.s, &t, &id));
    for (int i = 0; i < 40; i++) {
      int64_t ns = UVS_SEC((int64_t)test_random_below(&seed, 4000));

      switch (test_random_below(&seed, 6)) {
      case 0:
        fixture_jump_ns(&f, ns);
        break;
      case 1:
        set_wall(&f, ns);
        break;
      case 2:
        set_wall(&f, -ns);
        break;
      case 3:
        if (uvs_pause(f.s, id) == 0) {
          fixture_jump_ns(&f, ns);
          ASSERT_RC(0, uvs_resume(f.s, id, 0));
        }
        break;
      default:
        fixture_advance_ns(&f, ns);
      }
    }
    fixture_turn(&f);
    for (unsigned i = 0; i < log_count(&f, EV_WORK, 'a'); i++) {
      const struct event *e = log_nth(&f, EV_WORK, 'a', i);

      ASSERT(e->wall_ns >= e->ideal_ns);
      ASSERT(e->ideal_ns > last_ns || (i == 0 && e->ideal_ns > start_ns));
      ASSERT(uvs_calendar_matches(c, e->ideal_ns));
      last_ns = e->ideal_ns;
      stood_for += 1 + e->missed;
    }
    /* Each occurrence before the next run has run or was missed. */
    ASSERT_RC(1, uvs_next_runs(f.s, id, &last_ns, 1));
    ASSERT_U64((last_ns - start_ns) / UVS_MIN(10) - 1, log_count(&f, EV_WORK, 'a') + told.count);
    ASSERT(stood_for <= log_count(&f, EV_WORK, 'a') + told.count);
    CHECK_CALL(close_all(&f));
  }
  PASS();
}

SUITE(calendar_task) {
  RUN_TEST(a_task_runs_right_after_a_gap);
  RUN_TEST(a_task_runs_once_in_an_overlap_unless_it_follows_real_time);
  RUN_TEST(a_run_is_never_early_by_the_wall_clock);
  RUN_TEST(no_occurrence_runs_twice_when_the_clock_is_set_back);
  RUN_TEST(a_clock_that_is_set_back_during_a_run_repeats_nothing);
  RUN_TEST(a_task_that_is_rescheduled_after_a_clock_was_set_back_goes_back_too);
  RUN_TEST(the_policy_decides_about_missed_occurrences);
  RUN_TEST(a_day_forward_is_1440_missed_minutes);
  RUN_TEST(a_merged_occurrence_is_counted_once);
  RUN_TEST(what_skip_left_out_is_not_counted_again_after_a_pause);
  RUN_TEST(skip_leaves_out_a_run_whose_next_occurrence_has_come);
  RUN_TEST(the_first_run_is_the_first_occurrence_that_is_not_before_first_ns);
  RUN_TEST(until_ns_is_the_last_instant_that_counts);
  RUN_TEST(a_task_without_an_occurrence_until_its_end_ends_at_once);
  RUN_TEST(what_comes_after_until_ns_is_not_missed);
  RUN_TEST(occurrences_that_pass_during_retries_are_missed_and_the_calendar_goes_on);
  RUN_TEST(failure_policies_apply);
  RUN_TEST(a_run_that_times_out_before_it_starts_is_not_repeated);
  RUN_TEST(a_run_past_its_limit_ends_and_the_next_occurrence_runs);
  RUN_TEST(calendar_tasks_have_a_place_in_their_lane);
  RUN_TEST(a_higher_priority_starts_first);
  RUN_TEST(jitter_delays_each_run_and_delays_do_not_add_up);
  RUN_TEST(jitter_that_is_longer_than_the_period_misses_each_occurrence_once);
  RUN_TEST(max_runs_ref_and_a_kept_outcome_work_as_for_other_tasks);
  RUN_TEST(a_calendar_task_on_the_loop_and_one_with_after_run);
  RUN_TEST(the_dump_shows_a_calendar_task);
  RUN_TEST(a_moved_run_comes_then_and_the_calendar_goes_on_after_it);
  RUN_TEST(a_moved_run_survives_a_pause_and_an_extra_run);
  RUN_TEST(what_passed_during_a_pause_can_be_forgotten);
  RUN_TEST(an_extra_run_does_not_move_the_calendar);
  RUN_TEST(an_extra_run_does_not_wait_for_a_clock_that_is_set_back);
  RUN_TEST(next_runs_are_the_next_occurrences);
  RUN_TEST(the_next_run_follows_new_rules_of_the_zone);
  RUN_TEST(an_occurrence_that_is_due_runs_although_the_zone_changed);
  RUN_TEST(a_refresh_by_the_program_makes_no_wrong_count);
  RUN_TEST(a_shutdown_ends_the_task_or_lets_it_go_on);
  RUN_TEST(a_cancelled_task_gives_its_calendar_back);
  RUN_TEST(closing_gives_all_calendars_back);
  RUN_TEST(a_forked_child_can_close_its_copy);
  RUN_TEST(a_replaced_task_gives_its_calendar_back_and_keeps_its_id);
  RUN_TEST(uvs_schedule_cron_runs_once_for_missed_occurrences);
  RUN_TEST(uvs_schedule_cron_takes_intervals);
  RUN_TEST(uvs_schedule_cron_refuses_what_it_cannot_read);
  RUN_TEST(specs_that_make_no_sense_are_refused);
  RUN_TEST(an_allocation_failure_changes_nothing);
  RUN_TEST(at_random_no_occurrence_is_early_lost_or_doubled);
}

TEST_MAIN(RUN_SUITE(calendar_task));
