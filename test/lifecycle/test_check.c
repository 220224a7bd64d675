/* SPDX-License-Identifier: MIT
 *
 * uvs_check: each mistake in a spec has a text that names the field and the reason.
 */
#include "uvsched.h"

#include "lib/unit.h"

#define PERIODIC(KIND) .kind = KIND, .period_ns = 100
#define RETRYING .failure_policy = UVS_FAIL_RETRY

static char place[1];

static int work(uvs_run_t *run) {
  (void)run;
  return 0;
}

static void drop(void *result) {
  (void)result;
}

static void interrupt(uvs_t *s, uvs_id_t id, void *arg) {
  (void)s;
  (void)id;
  (void)arg;
}

/* What is wrong, and a spec with this one mistake. `work` and `size` are set by the test. */
static const struct {
  const char *text;
  uvs_task_t t;
} mistakes[] = {
    {"kind is not UVS_ONE_SHOT, UVS_FIXED_RATE, UVS_FIXED_DELAY or UVS_CALENDAR", {.kind = -1}},
    {"kind is not UVS_ONE_SHOT, UVS_FIXED_RATE, UVS_FIXED_DELAY or UVS_CALENDAR", {.kind = 4}},
    {"from is not UVS_FROM_NOW, UVS_FROM_MONOTONIC or UVS_FROM_WALL", {.from = 3}},
    {"flags has an unknown bit: only UVS_UNREF and UVS_REPLACE are known", {.flags = 4}},
    {"UVS_REPLACE needs a name", {.flags = UVS_REPLACE}},
    {"UVS_REPLACE needs a name", {.flags = UVS_REPLACE, .name = ""}},
    {"calendar is NULL: UVS_CALENDAR needs one", {.kind = UVS_CALENDAR}},
    {"calendar is only for UVS_CALENDAR", {.calendar = (struct uvs_calendar_s *)(void *)place}},
    {"period_ns is only for UVS_FIXED_RATE and UVS_FIXED_DELAY", {PERIODIC(UVS_CALENDAR)}},
    {"UVS_FROM_MONOTONIC is not for UVS_CALENDAR, which follows the wall clock",
     {.kind = UVS_CALENDAR, .from = UVS_FROM_MONOTONIC}},
    {"priority is not UVS_PRIORITY_LOW, UVS_PRIORITY_NORMAL or UVS_PRIORITY_HIGH", {.priority = 2}},
    {"jitter_ns is negative", {.jitter_ns = -1}},
    {"name is longer than UVS_NAME_MAX (23) bytes", {.name = "123456789 123456789 1234"}},
    {"period_ns is only for UVS_FIXED_RATE and UVS_FIXED_DELAY", {.period_ns = 1}},
    {"max_runs is only for periodic tasks", {.max_runs = 1}},
    {"until_ns is only for periodic tasks", {.until_ns = 1}},
    {"period_ns is not positive: a periodic task needs one", {.kind = UVS_FIXED_RATE}},
    {"period_ns is not positive: a periodic task needs one",
     {.kind = UVS_FIXED_DELAY, .period_ns = -1}},
    {"UVS_FROM_WALL is only for UVS_ONE_SHOT and UVS_CALENDAR",
     {PERIODIC(UVS_FIXED_RATE), .from = UVS_FROM_WALL}},
    {"until_ns is negative", {PERIODIC(UVS_FIXED_RATE), .until_ns = -1}},
    {"until_ns is before first_ns: the task would never run",
     {PERIODIC(UVS_FIXED_DELAY), .first_ns = 10, .until_ns = 9}},
    {"jitter_ns is not below period_ns: UVS_FIXED_RATE needs that",
     {PERIODIC(UVS_FIXED_RATE), .jitter_ns = 100}},
    {"missed_policy is not UVS_MISSED_CATCH_UP, UVS_MISSED_ONCE or UVS_MISSED_SKIP",
     {PERIODIC(UVS_FIXED_RATE), .missed_policy = 3}},
    {"missed_policy is only for UVS_FIXED_RATE and UVS_CALENDAR",
     {.missed_policy = UVS_MISSED_ONCE}},
    {"max_burst is only for UVS_FIXED_RATE and UVS_CALENDAR",
     {PERIODIC(UVS_FIXED_DELAY), .max_burst = 1}},
    {"max_burst is only for UVS_MISSED_CATCH_UP",
     {PERIODIC(UVS_FIXED_RATE), .missed_policy = UVS_MISSED_SKIP, .max_burst = 1}},
    {"failure_policy is not UVS_FAIL_STOP, UVS_FAIL_CONTINUE or UVS_FAIL_RETRY",
     {.failure_policy = 3}},
    {"max_failures is only for UVS_FAIL_CONTINUE and UVS_FAIL_RETRY", {.max_failures = 1}},
    {"UVS_FAIL_CONTINUE is only for periodic tasks", {.failure_policy = UVS_FAIL_CONTINUE}},
    {"retry is only for UVS_FAIL_RETRY", {.retry = {.wait_ns = 1}}},
    {"retry is only for UVS_FAIL_RETRY", {.retry = {.jitter_percent = 1}}},
    {"retry.wait_ns is not positive: UVS_FAIL_RETRY needs one", {RETRYING}},
    {"retry.max_wait_ns is below retry.wait_ns",
     {RETRYING, .retry = {.wait_ns = 2, .max_wait_ns = 1}}},
    {"retry.jitter_percent is not in 0 to 100",
     {RETRYING, .retry = {.wait_ns = 2, .jitter_percent = 101}}},
    {"limit.run_ns is negative", {.limit = {.run_ns = -1}}},
    {"limit.total_ns is negative", {.limit = {.total_ns = -1}}},
    {"limit.substitute is not 0 or 1", {.limit = {.run_ns = 1, .substitute = 2}}},
    {"limit.status needs limit.substitute", {.limit = {.run_ns = 1, .status = UV_EIO}}},
    {"limit.result needs limit.substitute", {.limit = {.run_ns = 1, .result = place}}},
    {"limit.substitute needs limit.run_ns or limit.total_ns", {.limit = {.substitute = 1}}},
    {"limit.status is not 0 or a negative UV_E... code",
     {.limit = {.run_ns = 1, .substitute = 1, .status = 1}}},
    {"limit.result needs a limit.status of 0",
     {.keep_outcome = 1,
      .limit = {.run_ns = 1, .substitute = 1, .status = UV_EIO, .result = place}}},
    {"limit.result needs keep_outcome", {.limit = {.run_ns = 1, .substitute = 1, .result = place}}},
    {"keep_outcome is not 0 or 1", {.keep_outcome = 2}},
    {"result needs keep_outcome", {.result = place}},
    {"drop_result needs keep_outcome", {.drop_result = drop}},
};

/* P3 */
TEST every_mistake_in_a_spec_is_named(void) {
  for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
    uvs_task_t t = mistakes[i].t;
    char text[128] = "untouched";

    t.size = sizeof t;
    t.work = work;
    ASSERT_EQ(UV_EINVAL, uvs_check(&t, text, sizeof text));
    ASSERT_STR_EQ(mistakes[i].text, text);
  }
  PASS();
}

TEST a_task_without_a_body_is_named(void) {
  uvs_task_t t;
  char text[128];

  uvs_task_init(&t);
  ASSERT_EQ(UV_EINVAL, uvs_check(&t, text, sizeof text));
  ASSERT_STR_EQ("work and after are both NULL: a task needs one of them", text);
  t.after = work;
  t.limit.run_ns = 1;
  ASSERT_EQ(UV_EINVAL, uvs_check(&t, text, sizeof text));
  ASSERT_STR_EQ("limit is only for tasks with work", text);
  t.limit.run_ns = 0;
  t.interrupt = interrupt;
  ASSERT_EQ(UV_EINVAL, uvs_check(&t, text, sizeof text));
  ASSERT_STR_EQ("interrupt is only for tasks with work", text);
  t.work = work;
  ASSERT_EQ(0, uvs_check(&t, text, sizeof text));
  PASS();
}

TEST a_spec_that_cannot_be_read_is_named(void) {
  uvs_task_t t;
  char text[128];

  ASSERT_EQ(UV_EINVAL, uvs_check(NULL, text, sizeof text));
  ASSERT_STR_EQ("the spec is NULL", text);
  uvs_task_init(&t);
  t.work = work;
  t.size = 0;
  ASSERT_EQ(UV_EINVAL, uvs_check(&t, text, sizeof text));
  ASSERT_STR_EQ("size is wrong: call uvs_task_init first", text);
  PASS();
}

TEST a_good_spec_has_an_empty_text(void) {
  uvs_task_t t;
  char text[128] = "untouched";

  uvs_task_init(&t);
  t.work = work;
  ASSERT_EQ(0, uvs_check(&t, text, sizeof text));
  ASSERT_STR_EQ("", text);
  PASS();
}

TEST the_text_is_cut_to_the_room_and_may_be_left_out(void) {
  char text[8] = "1234567";
  uvs_task_t t;

  uvs_task_init(&t);
  ASSERT_EQ(UV_EINVAL, uvs_check(&t, NULL, 0));
  ASSERT_EQ(UV_EINVAL, uvs_check(&t, text, 0));
  ASSERT_STR_EQ("1234567", text);
  ASSERT_EQ(UV_EINVAL, uvs_check(&t, text, 5));
  ASSERT_STR_EQ("work", text);
  PASS();
}

SUITE(check) {
  RUN_TEST(every_mistake_in_a_spec_is_named);
  RUN_TEST(a_task_without_a_body_is_named);
  RUN_TEST(a_spec_that_cannot_be_read_is_named);
  RUN_TEST(a_good_spec_has_an_empty_text);
  RUN_TEST(the_text_is_cut_to_the_room_and_may_be_left_out);
}

TEST_MAIN(RUN_SUITE(check));
