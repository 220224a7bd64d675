/* SPDX-License-Identifier: MIT
 *
 * Invalid arguments: every mistake of a caller gets a specific negative code and has no other
 * effect. No count changes, no result is written, no callback is called.
 */
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "uvsched/executor.h"

#include "lib/fixture.h"
#include "lib/threads.h"

#define UNTOUCHED UINT64_C(0x7e57)

/* ----------------------------------------------------------------- helpers --- */

static int body(uvs_run_t *run) {
  struct fixture *f = uvs_data(run->scheduler);

  log_add(f, EV_WORK, 'x', run->id, 0);
  return 0;
}

static void done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)arg;
  log_add(uvs_data(s), EV_DONE, 'x', id, status);
}

static int each_never(uvs_t *s, const uvs_info_t *info, void *arg) {
  (void)info;
  (void)arg;
  log_add(uvs_data(s), EV_USER, 'e', 0, 0);
  return 0;
}

static int write_never(const char *data, size_t size, void *arg) {
  (void)data;
  (void)size;
  (void)arg;
  return UV_EIO;
}

static void close_never(uvs_t *s) {
  log_add(uvs_data(s), EV_USER, 'c', 0, 0);
}

static bool same_counts(struct fixture *f, const uvs_counts_t *before) {
  uvs_counts_t now = counts_of(f->s);

  return memcmp(before, &now, sizeof now) == 0;
}

/* Since `before` nothing was counted, no memory was taken, no callback was or will be called, and
 * the loop was not woken. */
static bool nothing_changed(struct fixture *f, const uvs_counts_t *before) {
  unsigned events = log_total(f);
  bool same = same_counts(f, before);

  fixture_turn(f);
  return same && same_counts(f, before) && log_total(f) == events;
}

/* A fixture with one waiting task, so that "nothing changed" is a real check. */
static enum greatest_test_res open_with_one(struct fixture *f, uvs_id_t *ret_id) {
  fixture_init(f);
  CHECK_CALL(fixture_open(f));
  uvs_task_t t = fixture_once(f, 'a', UVS_HOUR(1));
  ASSERT_RC(0, uvs_submit(f->s, &t, ret_id));
  fixture_turn(f);
  PASS();
}

static enum greatest_test_res close_with_one(struct fixture *f) {
  ASSERT_U64(0, log_total(f));
  CHECK_CALL(fixture_close(f));
  PASS();
}

/* --------------------------------------------------------------------- NULL --- */

TEST every_call_without_a_scheduler_is_an_argument_error(void) {
  uvs_task_t t;
  uvs_info_t info;
  uvs_counts_t counts;
  uvs_histogram_t histogram;
  uvs_id_t id = UNTOUCHED;
  int64_t ns = 7;

  uvs_histogram_init(&histogram);
  uvs_task_init(&t);
  t.work = body;
  uvs_info_init(&info);
  uvs_counts_init(&counts);
  ASSERT_RC(UV_EINVAL, uvs_submit(NULL, &t, &id));
  ASSERT_RC(UV_EINVAL, uvs_submit_many(NULL, &t, 1, &id));
  ASSERT_RC(UV_EINVAL, uvs_execute(NULL, body, NULL));
  ASSERT_RC(UV_EINVAL, uvs_schedule(NULL, 0, body, NULL, &id));
  ASSERT_RC(UV_EINVAL, uvs_schedule_at_fixed_rate(NULL, 0, 1, body, NULL, &id));
  ASSERT_RC(UV_EINVAL, uvs_schedule_with_fixed_delay(NULL, 0, 1, body, NULL, &id));
  ASSERT_RC(UV_EINVAL, uvs_schedule_at(NULL, 0, body, NULL, &id));
  ASSERT_RC(UV_EINVAL, uvs_cancel(NULL, 1, 0));
  ASSERT_RC(UV_EINVAL, uvs_reschedule(NULL, 1, 0));
  ASSERT_RC(UV_EINVAL, uvs_finish(NULL, 1, 0));
  ASSERT_RC(UV_EINVAL, uvs_ref(NULL, 1));
  ASSERT_RC(UV_EINVAL, uvs_unref(NULL, 1));
  ASSERT_RC(UV_EINVAL, uvs_has_ref(NULL, 1));
  ASSERT_RC(UV_EINVAL, uvs_info(NULL, 1, &info));
  ASSERT_RC(UV_EINVAL, uvs_each(NULL, each_never, NULL));
  ASSERT_RC(UV_EINVAL, uvs_counts(NULL, &counts));
  ASSERT_RC(UV_EINVAL, uvs_histogram(NULL, UVS_STAT_LATE, &histogram));
  ASSERT_RC(UV_EINVAL, uvs_stats_write(NULL, UVS_FORMAT_TEXT, write_never, NULL));
  ASSERT_RC(UV_EINVAL, uvs_dump(NULL, stdout));
  ASSERT_RC(UV_EINVAL, uvs_concurrency(NULL));
  ASSERT_RC(UV_EINVAL, uvs_set_concurrency(NULL, 1));
  ASSERT_RC(UV_EINVAL, uvs_after_shutdown(NULL, UVS_DELAYED_TASKS));
  ASSERT_RC(UV_EINVAL, uvs_set_after_shutdown(NULL, UVS_DELAYED_TASKS, 1));
  ASSERT_RC(UV_EINVAL, uvs_rejection_policy(NULL));
  ASSERT_RC(UV_EINVAL, uvs_set_rejection_policy(NULL, UVS_REJECT_ABORT));
  ASSERT(uvs_rejection_handler(NULL) == NULL);
  ASSERT_RC(UV_EINVAL, uvs_next_due(NULL, &ns));
  ASSERT_RC(UV_EINVAL, uvs_clock_changed(NULL));
  ASSERT_RC(UV_EINVAL, uvs_shutdown(NULL));
  ASSERT_RC(UV_EINVAL, uvs_shutdown_within(NULL, 0));
  ASSERT_RC(UV_EINVAL, uvs_shutdown_now(NULL, NULL, NULL));
  ASSERT_RC(UV_EINVAL, uvs_is_shutdown(NULL));
  ASSERT_RC(UV_EINVAL, uvs_is_terminating(NULL));
  ASSERT_RC(UV_EINVAL, uvs_is_terminated(NULL));
  ASSERT_RC(UV_EINVAL, uvs_wait_terminated(NULL, 0));
  ASSERT_RC(UV_EINVAL, uvs_close(NULL, close_never));
  ASSERT_U64(UNTOUCHED, id);
  ASSERT_I64(7, ns);
  /* These calls cannot return a code. */
  ASSERT_RC(0, uvs_cancelled(NULL));
  ASSERT_EQ(NULL, uvs_loop(NULL));
  ASSERT_EQ(NULL, uvs_data(NULL));
  uvs_now(NULL);
  ASSERT_RC(0, uvs_owns_handle(NULL, NULL));
  ASSERT_EQ(NULL, uvs_retain(NULL));
  uvs_release(NULL);
  PASS();
}

TEST null_out_pointers_are_refused_or_harmless(void) {
  struct fixture f;
  uvs_counts_t before;
  uvs_id_t id;

  CHECK_CALL(open_with_one(&f, &id));
  before = counts_of(f.s);
  ASSERT_RC(UV_EINVAL, uvs_submit(f.s, NULL, &id));
  ASSERT_RC(UV_EINVAL, uvs_submit_many(f.s, NULL, 3, &id));
  ASSERT_RC(UV_EINVAL, uvs_info(f.s, id, NULL));
  ASSERT_RC(UV_EINVAL, uvs_counts(f.s, NULL));
  ASSERT_RC(UV_EINVAL, uvs_histogram(f.s, UVS_STAT_LATE, NULL));
  ASSERT_RC(UV_EINVAL, uvs_stats_write(f.s, UVS_FORMAT_TEXT, NULL, NULL));
  ASSERT_RC(UV_EINVAL, uvs_each(f.s, NULL, NULL));
  ASSERT_RC(UV_EINVAL, uvs_dump(f.s, NULL));
  ASSERT_RC(UV_EINVAL, uvs_next_due(f.s, NULL));
  ASSERT_RC(0, uvs_owns_handle(f.s, NULL));
  ASSERT(nothing_changed(&f, &before));
  /* The id pointer may be NULL. */
  uvs_task_t t = fixture_once(&f, 'b', UVS_HOUR(1));
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  ASSERT_RC(0, uvs_submit_many(f.s, &t, 1, NULL));
  ASSERT_RC(0, uvs_schedule(f.s, UVS_HOUR(1), body, NULL, NULL));
  CHECK_CALL(close_with_one(&f));
  PASS();
}

/* --------------------------------------------------------------------- open --- */

static char unknown;
static const uvs_hooks_t no_size;
static const struct {
  uvs_hooks_t known;
  void *unknown;
} unknown_hook = {{.size = sizeof unknown_hook}, &unknown};

static void bad_options(int i, uvs_options_t *o) {
  switch (i) {
  case 0:
    o->concurrency = -2;
    break;
  case 1:
    o->concurrency = 1025;
    break;
  case 2:
    o->concurrency = INT_MAX;
    break;
  case 3:
    o->concurrency = INT_MIN;
    break;
  case 4:
    o->keep_alive = -1;
    break;
  case 5:
    o->keep_alive = 3;
    break;
  case 6:
    o->delayed_after_shutdown = 2;
    break;
  case 7:
    o->periodic_after_shutdown = -1;
    break;
  case 8:
    o->budget_ns = 0;
    break;
  case 9:
    o->budget_ns = -1;
    break;
  case 10:
    o->budget_ns = UVS_US(1) - 1;
    break;
  case 11:
    o->budget_ns = UVS_SEC(1) + 1;
    break;
  case 12:
    o->budget_ns = INT64_MAX;
    break;
  case 13:
    o->clock.monotonic_ns = NULL;
    break;
  case 14:
    o->clock.wall_ns = NULL;
    break;
  case 15:
    o->allocator.alloc = NULL;
    break;
  case 16:
    o->allocator.free = NULL;
    break;
  case 17:
    o->size = 0;
    break;
  case 18:
    o->size = 1;
    break;
  case 19:
    o->size = sizeof *o - 1;
    break;
  case 21:
    o->concurrency = 0, o->threads = 2; /* bodies would run on the loop, and not there */
    break;
  case 22:
    o->concurrency = 0, o->executor = uvs_inline_executor();
    break;
  case 23:
    o->hooks = &no_size;
    break;
  case 24:
    o->hooks = &unknown_hook.known;
    break;
  case 20:
    o->size = sizeof(size_t);
    break;
  default:
    o->size = 0;
    break;
  }
}

#define BAD_OPTIONS 25

/* L19 */
TEST open_refuses_invalid_options_and_leaves_nothing_behind(void) {
  struct vclock clock;
  struct fault fault;
  uvs_t *s = (uvs_t *)&clock;
  uvs_options_t o;
  uv_loop_t loop;

  vclock_init(&clock);
  fault_init(&fault);
  ASSERT_RC(0, uv_loop_init(&loop));
  uvs_options_init(&o);
  o.allocator = fault_option(&fault);
  ASSERT_RC(UV_EINVAL, uvs_open(NULL, &o, &s));
  ASSERT_RC(UV_EINVAL, uvs_open(&loop, &o, NULL));
  ASSERT_RC(UV_EINVAL, uvs_open(NULL, NULL, NULL));
  for (int i = 0; i < BAD_OPTIONS; i++) {
    uvs_options_init(&o);
    o.clock = vclock_option(&clock);
    o.allocator = fault_option(&fault);
    bad_options(i, &o);
    ASSERT_EQ_FMTm("an option that should be refused", UV_EINVAL, uvs_open(&loop, &o, &s), "%d");
  }
  ASSERT_EQ((uvs_t *)&clock, s);
  ASSERT_I64(0, atomic_load(&fault.total));
  ASSERT_RC(0, uv_loop_close(&loop)); /* no handle was left on it */
  PASS();
}

/* P3 */
TEST open_accepts_the_extreme_values_of_each_option(void) {
  static const int concurrency[] = {-1, 0, 1, 1024};
  static const int64_t budget_ns[] = {UVS_US(1), UVS_SEC(1)};

  for (int i = 0; i < 8; i++) {
    struct fixture f;

    fixture_init(&f);
    f.options.concurrency = concurrency[i / 2];
    f.options.budget_ns = budget_ns[i % 2];
    f.options.keep_alive = i % 3;
    CHECK_CALL(fixture_open(&f));
    if (concurrency[i / 2] >= 0)
      ASSERT_RC(concurrency[i / 2], uvs_concurrency(f.s));
    else
      ASSERT(uvs_concurrency(f.s) >= 1);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* -------------------------------------------------------------------- specs --- */

struct bad_spec {
  const char *why;
  void (*spoil)(uvs_task_t *t);
};

static void no_body(uvs_task_t *t) {
  t->work = NULL;
}
static void kind_low(uvs_task_t *t) {
  t->kind = -1;
}
static void kind_high(uvs_task_t *t) {
  t->kind = UVS_FIXED_DELAY + 1;
}
static void kind_wild(uvs_task_t *t) {
  t->kind = INT_MIN;
}
static void from_low(uvs_task_t *t) {
  t->from = -1;
}
static void from_high(uvs_task_t *t) {
  t->from = UVS_FROM_WALL + 1;
}
static void missed_low(uvs_task_t *t) {
  t->kind = UVS_FIXED_RATE, t->period_ns = 1, t->missed_policy = -1;
}
static void missed_high(uvs_task_t *t) {
  t->kind = UVS_FIXED_RATE, t->period_ns = 1, t->missed_policy = UVS_MISSED_SKIP + 1;
}
static void missed_once(uvs_task_t *t) {
  t->missed_policy = UVS_MISSED_ONCE;
}
static void missed_delay(uvs_task_t *t) {
  t->kind = UVS_FIXED_DELAY, t->period_ns = 1, t->missed_policy = UVS_MISSED_SKIP;
}
static void flag_unknown(uvs_task_t *t) {
  t->flags = 2;
}
static void flags_all(uvs_task_t *t) {
  t->flags = ~0u;
}
static void period_of_once(uvs_task_t *t) {
  t->period_ns = 1;
}
static void period_negative_once(uvs_task_t *t) {
  t->period_ns = -1;
}
static void rate_zero(uvs_task_t *t) {
  t->kind = UVS_FIXED_RATE;
}
static void rate_negative(uvs_task_t *t) {
  t->kind = UVS_FIXED_RATE, t->period_ns = -1;
}
static void rate_least(uvs_task_t *t) {
  t->kind = UVS_FIXED_RATE, t->period_ns = INT64_MIN;
}
static void delay_zero(uvs_task_t *t) {
  t->kind = UVS_FIXED_DELAY;
}
static void delay_negative(uvs_task_t *t) {
  t->kind = UVS_FIXED_DELAY, t->period_ns = -5;
}
static void rate_wall(uvs_task_t *t) {
  t->kind = UVS_FIXED_RATE, t->period_ns = 1, t->from = UVS_FROM_WALL;
}
static void delay_wall(uvs_task_t *t) {
  t->kind = UVS_FIXED_DELAY, t->period_ns = 1, t->from = UVS_FROM_WALL;
}
static void burst_of_once(uvs_task_t *t) {
  t->max_burst = 1;
}
static void burst_of_delay(uvs_task_t *t) {
  t->kind = UVS_FIXED_DELAY, t->period_ns = 1, t->max_burst = UINT32_MAX;
}
static void burst_of_skip(uvs_task_t *t) {
  t->kind = UVS_FIXED_RATE, t->period_ns = 1, t->missed_policy = UVS_MISSED_SKIP, t->max_burst = 3;
}
static void burst_of_missed_once(uvs_task_t *t) {
  t->kind = UVS_FIXED_RATE, t->period_ns = 1, t->missed_policy = UVS_MISSED_ONCE, t->max_burst = 3;
}
static void runs_of_once(uvs_task_t *t) {
  t->max_runs = 1;
}
static void until_of_once(uvs_task_t *t) {
  t->until_ns = UVS_HOUR(9);
}
static void until_negative(uvs_task_t *t) {
  t->kind = UVS_FIXED_RATE, t->period_ns = 1, t->until_ns = -1;
}
static void until_before_first(uvs_task_t *t) {
  t->kind = UVS_FIXED_RATE, t->period_ns = 1, t->first_ns = 10, t->until_ns = 9;
}
static void jitter_negative(uvs_task_t *t) {
  t->jitter_ns = -1;
}
static void jitter_least(uvs_task_t *t) {
  t->jitter_ns = INT64_MIN;
}
static void jitter_of_a_period(uvs_task_t *t) {
  t->kind = UVS_FIXED_RATE, t->period_ns = 100, t->jitter_ns = 100;
}
static void jitter_huge(uvs_task_t *t) {
  t->kind = UVS_FIXED_RATE, t->period_ns = 100, t->jitter_ns = INT64_MAX;
}
static void name_long(uvs_task_t *t) {
  t->name = "123456789 123456789 1234";
}

static const struct bad_spec bad_specs[] = {
    {"neither work nor after", no_body},
    {"kind below", kind_low},
    {"kind above", kind_high},
    {"kind wild", kind_wild},
    {"from below", from_low},
    {"from above", from_high},
    {"missed below", missed_low},
    {"missed above", missed_high},
    {"missed policy of a one-shot", missed_once},
    {"missed policy of a fixed delay", missed_delay},
    {"unknown flag", flag_unknown},
    {"all flags", flags_all},
    {"period of a one-shot", period_of_once},
    {"negative period of a one-shot", period_negative_once},
    {"rate with period 0", rate_zero},
    {"rate with negative period", rate_negative},
    {"rate with the least period", rate_least},
    {"fixed delay of 0", delay_zero},
    {"negative fixed delay", delay_negative},
    {"rate by the wall clock", rate_wall},
    {"fixed delay by the wall clock", delay_wall},
    {"max_burst of a one-shot", burst_of_once},
    {"max_burst of a fixed delay", burst_of_delay},
    {"max_burst with skip", burst_of_skip},
    {"max_burst with once", burst_of_missed_once},
    {"max_runs of a one-shot", runs_of_once},
    {"until of a one-shot", until_of_once},
    {"negative until", until_negative},
    {"until before the first run", until_before_first},
    {"negative jitter", jitter_negative},
    {"least jitter", jitter_least},
    {"jitter of a whole period", jitter_of_a_period},
    {"absurd jitter", jitter_huge},
    {"name of 24 bytes", name_long},
};

#define BAD_SPECS (sizeof bad_specs / sizeof bad_specs[0])

static uvs_task_t good_spec(void) {
  uvs_task_t t;

  uvs_task_init(&t);
  t.work = body;
  t.done = done;
  return t;
}

struct bad_call {
  uvs_t *s;
  const uvs_task_t *t;
  size_t n;
  uvs_id_t *ids;
};

static int do_submit_many(void *arg) {
  struct bad_call *c = arg;

  return uvs_submit_many(c->s, c->t, c->n, c->ids);
}

static int submit_many_elsewhere(uvs_t *s, const uvs_task_t *t, size_t n, uvs_id_t *ids) {
  struct bad_call c = {s, t, n, ids};

  return elsewhere(do_submit_many, &c);
}

/* S8 S65 V6 */
TEST every_invalid_spec_is_refused_and_changes_nothing(void) {
  struct fixture f;
  uvs_counts_t before;
  uvs_id_t id;

  CHECK_CALL(open_with_one(&f, &id));
  before = counts_of(f.s);
  for (unsigned i = 0; i < BAD_SPECS; i++) {
    uvs_id_t ids[3] = {UNTOUCHED, UNTOUCHED, UNTOUCHED};
    uvs_task_t t = good_spec();

    bad_specs[i].spoil(&t);
    ASSERT_EQ_FMTm(bad_specs[i].why, UV_EINVAL, uvs_submit(f.s, &t, ids), "%d");
    ASSERT_EQ_FMTm(bad_specs[i].why, UV_EINVAL, uvs_submit_many(f.s, &t, 1, ids), "%d");
    ASSERT_EQ_FMTm(bad_specs[i].why, UV_EINVAL, submit_many_elsewhere(f.s, &t, 1, ids), "%d");
    ASSERT_RC(UV_EINVAL, uvs_submit(f.s, &t, NULL));
    ASSERTm(bad_specs[i].why, ids[0] == UNTOUCHED);
    ASSERTm(bad_specs[i].why, nothing_changed(&f, &before));
  }
  CHECK_CALL(close_with_one(&f));
  PASS();
}

/* S8 */
TEST one_invalid_spec_makes_a_whole_batch_refused(void) {
  struct fixture f;
  uvs_counts_t before;
  uvs_id_t id;

  CHECK_CALL(open_with_one(&f, &id));
  before = counts_of(f.s);
  for (unsigned i = 0; i < BAD_SPECS; i++) {
    for (int place = 0; place < 3; place++) {
      uvs_task_t t[3] = {good_spec(), good_spec(), good_spec()};
      uvs_id_t ids[3] = {UNTOUCHED, UNTOUCHED + 1, UNTOUCHED + 2};

      bad_specs[i].spoil(&t[place]);
      ASSERT_EQ_FMTm(bad_specs[i].why, UV_EINVAL, uvs_submit_many(f.s, t, 3, ids), "%d");
      ASSERT_EQ_FMTm(bad_specs[i].why, UV_EINVAL, submit_many_elsewhere(f.s, t, 3, ids), "%d");
      for (unsigned k = 0; k < 3; k++)
        ASSERT_U64(UNTOUCHED + k, ids[k]);
    }
    ASSERTm(bad_specs[i].why, nothing_changed(&f, &before));
  }
  CHECK_CALL(close_with_one(&f));
  PASS();
}

TEST an_empty_submit_many_is_an_argument_error(void) {
  struct fixture f;
  uvs_counts_t before;
  uvs_id_t id, none = UNTOUCHED;
  uvs_task_t t = good_spec();

  CHECK_CALL(open_with_one(&f, &id));
  before = counts_of(f.s);
  ASSERT_RC(UV_EINVAL, uvs_submit_many(f.s, &t, 0, &none));
  ASSERT_RC(UV_EINVAL, uvs_submit_many(f.s, NULL, 0, &none));
  ASSERT_RC(UV_EINVAL, uvs_submit_many(f.s, NULL, 1, &none));
  ASSERT_RC(UV_EINVAL, submit_many_elsewhere(f.s, &t, 0, &none));
  ASSERT_U64(UNTOUCHED, none);
  ASSERT(nothing_changed(&f, &before));
  CHECK_CALL(close_with_one(&f));
  PASS();
}

/* S8 S65 V6 */
TEST the_short_calls_refuse_a_missing_body_and_an_invalid_period(void) {
  static const int64_t wrong[] = {0, -1, INT64_MIN};
  struct fixture f;
  uvs_counts_t before;
  uvs_id_t id, none = UNTOUCHED;

  CHECK_CALL(open_with_one(&f, &id));
  before = counts_of(f.s);
  ASSERT_RC(UV_EINVAL, uvs_execute(f.s, NULL, NULL));
  ASSERT_RC(UV_EINVAL, uvs_schedule(f.s, 0, NULL, NULL, &none));
  ASSERT_RC(UV_EINVAL, uvs_schedule_at_fixed_rate(f.s, 0, 1, NULL, NULL, &none));
  ASSERT_RC(UV_EINVAL, uvs_schedule_with_fixed_delay(f.s, 0, 1, NULL, NULL, &none));
  ASSERT_RC(UV_EINVAL, uvs_schedule_at(f.s, 0, NULL, NULL, &none));
  for (int i = 0; i < 3; i++) {
    ASSERT_RC(UV_EINVAL, uvs_schedule_at_fixed_rate(f.s, 0, wrong[i], body, NULL, &none));
    ASSERT_RC(UV_EINVAL, uvs_schedule_with_fixed_delay(f.s, 0, wrong[i], body, NULL, &none));
  }
  ASSERT_U64(UNTOUCHED, none);
  ASSERT(nothing_changed(&f, &before));
  CHECK_CALL(close_with_one(&f));
  PASS();
}

/* S65 */
TEST the_extreme_valid_values_are_accepted(void) {
  static const int64_t delays[] = {INT64_MIN, -1, 0, INT64_MAX};
  struct fixture f;
  uvs_info_t info;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  for (int from = UVS_FROM_NOW; from <= UVS_FROM_WALL; from++) {
    for (int i = 0; i < 4; i++) {
      uvs_task_t t = good_spec();
      t.from = from;
      t.first_ns = delays[i];
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    }
  }
  fixture_turn(&f);
  ASSERT_U64(9, log_count(&f, EV_WORK, 'x'));
  uvs_task_t t = good_spec();
  t.kind = UVS_FIXED_RATE;
  t.period_ns = INT64_MAX;
  t.first_ns = INT64_MAX;
  t.jitter_ns = INT64_MAX - 1;
  t.max_burst = UINT32_MAX;
  t.max_runs = UINT32_MAX;
  t.until_ns = INT64_MAX;
  t.flags = UVS_UNREF;
  t.name = "123456789 123456789 123";
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  uvs_info_init(&info);
  ASSERT_RC(0, uvs_info(f.s, id, &info));
  ASSERT_STR_EQ(t.name, info.name);
  ASSERT_RC(UVS_WAITING, info.state);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* -------------------------------------------------------------------- sizes --- */

struct big_task {
  uvs_task_t t;
  char tail[64];
};

/* L19 */
TEST a_spec_of_another_size_works_unless_an_unknown_field_is_set(void) {
  struct big_task big[3];
  struct fixture f;
  uvs_counts_t before;
  uvs_id_t ids[3] = {UNTOUCHED, UNTOUCHED, UNTOUCHED};

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  fixture_turn(&f);
  memset(big, 0, sizeof big);
  /* An older program: its struct ended after arg. The memory after it must not be read. */
  uvs_task_t old = fixture_once(&f, 'a', UVS_MS(10));
  old.size = offsetof(uvs_task_t, flags);
  memset((char *)&old + old.size, 0xa5, sizeof old - old.size);
  ASSERT_RC(0, uvs_submit(f.s, &old, &ids[0]));
  ASSERT_RC(1, uvs_has_ref(f.s, ids[0]));
  fixture_advance_ms(&f, 10);
  ASSERT_STR_EQ("a", log_string(&f, EV_WORK));
  before = counts_of(f.s);
  ids[0] = UNTOUCHED;

  /* A newer program. */
  for (int i = 0; i < 3; i++) {
    big[i].t = fixture_once(&f, 'b' + i, UVS_MS(10));
    big[i].t.size = sizeof big[i];
  }
  big[1].tail[63] = 1;
  ASSERT_RC(UV_EINVAL, uvs_submit(f.s, &big[1].t, ids));
  ASSERT_RC(UV_EINVAL, uvs_submit_many(f.s, &big[0].t, 3, ids));
  big[1].tail[63] = 0;
  big[2].tail[0] = 1;
  ASSERT_RC(UV_EINVAL, uvs_submit_many(f.s, &big[0].t, 3, ids));
  big[2].tail[0] = 0;
  ASSERT_U64(UNTOUCHED, ids[0]);
  ASSERT(nothing_changed(&f, &before));
  ASSERT_RC(0, uvs_submit_many(f.s, &big[0].t, 3, ids)); /* the stride is their size */
  fixture_advance_ms(&f, 10);
  ASSERT_STR_EQ("abcd", log_string(&f, EV_WORK));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L19 */
TEST memory_after_a_smaller_spec_is_not_read(void) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), size = offsetof(uvs_task_t, flags);
  /* The struct ends where the readable memory ends. */
  char *two = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct fixture f;
  uvs_task_t old;

  ASSERT(two != MAP_FAILED);
  ASSERT_EQ(0, mprotect(two + page, page, PROT_NONE));
  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  fixture_turn(&f);
  old = fixture_once(&f, 'a', 0);
  old.size = size;
  void *at = memcpy(two + page - size, &old, size);
  ASSERT_RC(0, uvs_submit(f.s, at, NULL));
  ASSERT_RC(0, uvs_submit_many(f.s, at, 1, NULL));
  size = sizeof(size_t); /* one that is only its size, and wrong */
  at = memcpy(two + page - size, &size, size);
  ASSERT_RC(UV_EINVAL, uvs_submit(f.s, at, NULL));
  ASSERT_RC(UV_EINVAL, uvs_submit_many(f.s, at, 1, NULL));
  fixture_turn(&f);
  ASSERT_STR_EQ("aa", log_string(&f, EV_WORK));
  CHECK_CALL(fixture_close(&f));
  ASSERT_EQ(0, munmap(two, 2 * page));
  PASS();
}

/* L19 */
TEST a_spec_of_a_wrong_size_is_refused(void) {
  struct fixture f;
  uvs_counts_t before;
  uvs_id_t id, none = UNTOUCHED;
  struct big_task big[2];

  CHECK_CALL(open_with_one(&f, &id));
  before = counts_of(f.s);
  memset(big, 0xff, sizeof big);
  for (size_t size = 0; size < sizeof big[0]; size++) {
    bool known = size == sizeof(uvs_task_t) ||
                 (size >= offsetof(uvs_task_t, flags) && size % _Alignof(uvs_task_t) == 0 &&
                  size < sizeof(uvs_task_t));

    if (known)
      continue;
    big[0].t = good_spec();
    big[0].t.size = size;
    ASSERT_RC(UV_EINVAL, uvs_submit(f.s, &big[0].t, &none));
    ASSERT_RC(UV_EINVAL, uvs_submit_many(f.s, &big[0].t, 2, &none));
  }
  big[0].t.size = SIZE_MAX;
  ASSERT_RC(UV_EINVAL, uvs_submit(f.s, &big[0].t, &none));
  big[0].t.size = SIZE_MAX - 7;
  ASSERT_RC(UV_EINVAL, uvs_submit(f.s, &big[0].t, &none));
  /* All specs of a batch have one size. */
  uvs_task_t t[2] = {good_spec(), good_spec()};
  t[1].size -= 8;
  ASSERT_RC(UV_EINVAL, uvs_submit_many(f.s, t, 2, NULL));
  ASSERT_U64(UNTOUCHED, none);
  ASSERT(nothing_changed(&f, &before));
  CHECK_CALL(close_with_one(&f));
  PASS();
}

struct big_options {
  uvs_options_t o;
  char tail[64];
};

/* L19 */
TEST options_of_another_size_work_unless_an_unknown_field_is_set(void) {
  struct big_options big;
  uv_loop_t loop;
  uvs_t *s = NULL;

  ASSERT_RC(0, uv_loop_init(&loop));
  memset(&big, 0, sizeof big);
  uvs_options_init(&big.o);
  big.o.size = sizeof big;
  big.o.concurrency = 7;
  big.tail[5] = 1;
  ASSERT_RC(UV_EINVAL, uvs_open(&loop, &big.o, &s));
  ASSERT_EQ(NULL, s);
  big.tail[5] = 0;
  ASSERT_RC(0, uvs_open(&loop, &big.o, &s));
  ASSERT_RC(7, uvs_concurrency(s));
  ASSERT_RC(0, uvs_close(s, NULL));
  /* An older struct, followed by garbage. */
  memset(&big, 0xa5, sizeof big);
  uvs_options_init(&big.o);
  memset((char *)&big + offsetof(uvs_options_t, seed), 0xa5,
         sizeof big - offsetof(uvs_options_t, seed));
  big.o.size = offsetof(uvs_options_t, seed);
  big.o.concurrency = 9;
  ASSERT_RC(0, uvs_open(&loop, &big.o, &s));
  ASSERT_RC(9, uvs_concurrency(s));
  ASSERT_EQ(NULL, uvs_data(s)); /* the default */
  ASSERT_RC(0, uvs_close(s, NULL));
  big.o.size = sizeof big.o + 8;
  ASSERT_RC(UV_EINVAL, uvs_open(&loop, &big.o, &s));
  big.o.size = SIZE_MAX - 7;
  ASSERT_RC(UV_EINVAL, uvs_open(&loop, &big.o, &s));
  ASSERT_RC(0, uv_run(&loop, UV_RUN_DEFAULT));
  ASSERT_RC(0, uv_loop_close(&loop));
  PASS();
}

struct big_info {
  uvs_info_t i;
  char tail[64];
};

struct big_counts {
  uvs_counts_t c;
  char tail[64];
};

static bool all_are(const char *p, char c, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (p[i] != c)
      return false;
  return true;
}

/* L19 */
TEST an_info_of_another_size_is_filled_up_to_its_size(void) {
  struct big_info big;
  struct fixture f;
  uvs_id_t id;
  size_t old = offsetof(uvs_info_t, period_ns);

  CHECK_CALL(open_with_one(&f, &id));
  memset(&big, 0x5a, sizeof big);
  big.i.size = old;
  ASSERT_RC(0, uvs_info(f.s, id, &big.i));
  ASSERT_U64(old, big.i.size);
  ASSERT_U64(id, big.i.id);
  ASSERT_RC(UVS_WAITING, big.i.state);
  ASSERT_I64(UVS_HOUR(1), big.i.remaining_ns);
  ASSERT(all_are((char *)&big + old, 0x5a, sizeof big - old)); /* not a byte more */

  memset(&big, 0, sizeof big);
  big.i.size = sizeof big;
  ASSERT_RC(0, uvs_info(f.s, id, &big.i));
  ASSERT_U64(sizeof big, big.i.size);
  ASSERT_U64(id, big.i.id);
  ASSERT(all_are(big.tail, 0, sizeof big.tail));

  memset(&big, 0x5a, sizeof big);
  for (size_t size = 0; size < old; size++) {
    big.i.size = size;
    ASSERT_RC(UV_EINVAL, uvs_info(f.s, id, &big.i));
    ASSERT_U64(size, big.i.size);
    ASSERT(all_are((char *)&big + sizeof(size_t), 0x5a, sizeof big - sizeof(size_t)));
  }
  CHECK_CALL(close_with_one(&f));
  PASS();
}

/* L19 */
TEST counts_of_another_size_are_filled_up_to_their_size(void) {
  struct big_counts big;
  struct fixture f;
  uvs_id_t id;
  size_t old = offsetof(uvs_counts_t, rejected);

  CHECK_CALL(open_with_one(&f, &id));
  memset(&big, 0x5a, sizeof big);
  big.c.size = old;
  ASSERT_RC(0, uvs_counts(f.s, &big.c));
  ASSERT_U64(old, big.c.size);
  ASSERT_U64(1, big.c.submitted);
  ASSERT_U64(1, big.c.waiting);
  ASSERT(all_are((char *)&big + old, 0x5a, sizeof big - old));

  memset(&big, 0, sizeof big);
  big.c.size = sizeof big;
  ASSERT_RC(0, uvs_counts(f.s, &big.c));
  ASSERT_U64(sizeof big, big.c.size);
  ASSERT_U64(1, big.c.submitted);
  ASSERT(all_are(big.tail, 0, sizeof big.tail));

  memset(&big, 0x5a, sizeof big);
  for (size_t size = 0; size < old; size++) {
    big.c.size = size;
    ASSERT_RC(UV_EINVAL, uvs_counts(f.s, &big.c));
    ASSERT_U64(size, big.c.size);
    ASSERT(all_are((char *)&big + sizeof(size_t), 0x5a, sizeof big - sizeof(size_t)));
  }
  CHECK_CALL(close_with_one(&f));
  PASS();
}

/* L19: a size that was never set must not cause writes out of bounds */
TEST an_info_or_counts_with_an_unknown_tail_is_refused_untouched(void) {
  static const size_t sizes[] = {sizeof(struct big_info), (size_t)1 << 40, SIZE_MAX - 7, SIZE_MAX};
  struct fixture f;
  uvs_id_t id;

  CHECK_CALL(open_with_one(&f, &id));
  for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    struct big_info info;
    struct big_counts counts;

    memset(&info, 0x5a, sizeof info);
    memset(&counts, 0x5a, sizeof counts);
    info.i.size = sizes[i];
    counts.c.size = i == 0 ? sizeof counts : sizes[i];
    ASSERT_RC(UV_EINVAL, uvs_info(f.s, id, &info.i));
    ASSERT_RC(UV_EINVAL, uvs_counts(f.s, &counts.c));
    ASSERT(all_are((char *)&info + sizeof(size_t), 0x5a, sizeof info - sizeof(size_t)));
    ASSERT(all_are((char *)&counts + sizeof(size_t), 0x5a, sizeof counts - sizeof(size_t)));
  }
  CHECK_CALL(close_with_one(&f));
  PASS();
}

/* ---------------------------------------------------------------------- ids --- */

static bool nobodys(uvs_t *s, uvs_id_t id) {
  uvs_info_t info;

  uvs_info_init(&info);
  return uvs_cancel(s, id, 0) == UV_ENOENT && uvs_cancel(s, id, UVS_CANCEL_TOKEN) == UV_ENOENT &&
         uvs_cancel(s, id, UVS_CANCEL_IF_WAITING) == UV_ENOENT &&
         uvs_reschedule(s, id, 0) == UV_ENOENT && uvs_finish(s, id, 0) == UV_ENOENT &&
         uvs_ref(s, id) == UV_ENOENT && uvs_unref(s, id) == UV_ENOENT &&
         uvs_has_ref(s, id) == UV_ENOENT && uvs_info(s, id, &info) == UV_ENOENT && info.id == 0;
}

/* L18 */
TEST ids_that_were_never_issued_match_no_task(void) {
  static const uvs_id_t odd[] = {0,
                                 1,
                                 63,
                                 64,
                                 UINT64_C(1) << 26,
                                 UINT64_C(1) << 52,
                                 (UINT64_C(1) << 53) - 1,
                                 UINT64_C(1) << 53,
                                 UINT64_MAX,
                                 INT64_MAX};
  uint64_t random = test_seed;
  uvs_id_t ids[50];
  struct fixture f;
  uvs_counts_t before;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  for (unsigned i = 0; i < sizeof odd / sizeof odd[0]; i++)
    ASSERT(nobodys(f.s, odd[i])); /* with no task at all */
  for (int i = 0; i < 50; i++)
    ASSERT_RC(0, uvs_schedule(f.s, UVS_HOUR(1), body, NULL, &ids[i]));
  fixture_turn(&f);
  before = counts_of(f.s);
  for (unsigned i = 0; i < sizeof odd / sizeof odd[0]; i++)
    ASSERT(odd[i] == ids[0] || nobodys(f.s, odd[i])); /* the first id of all is 2^26 */
  for (int i = 0; i < 100000; i++) {
    uvs_id_t id = test_random(&random);
    bool given = false;

    if (i % 4 == 1)
      id >>= 11;
    if (i % 4 == 2) /* the slot of a living task, another generation */
      id = (ids[i % 50] & 0x3ffffff) | (id << 26);
    if (i % 4 == 3) /* one bit off */
      id = ids[i % 50] ^ UINT64_C(1) << (id & 63);
    for (int k = 0; k < 50; k++)
      given |= ids[k] == id;
    if (!given)
      ASSERTm("a random id named something", nobodys(f.s, id));
  }
  ASSERT(nothing_changed(&f, &before));
  for (int i = 0; i < 50; i++)
    ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, ids[i], 0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L14 */
TEST unknown_flags_and_values_are_refused_by_the_calls_on_a_task(void) {
  struct fixture f;
  uvs_counts_t before;
  uvs_id_t id;

  CHECK_CALL(open_with_one(&f, &id));
  before = counts_of(f.s);
  ASSERT_RC(UV_EINVAL, uvs_cancel(f.s, id, 8));
  ASSERT_RC(UV_EINVAL, uvs_cancel(f.s, id, ~0u));
  ASSERT_RC(UV_EINVAL, uvs_cancel(f.s, 0, 8)); /* the flags come first */
  ASSERT_RC(UV_EINVAL, uvs_finish(f.s, id, UVS_PENDING));
  ASSERT_RC(UV_ENOENT, uvs_finish(f.s, id, 0)); /* no run is in progress */
  ASSERT(nothing_changed(&f, &before));
  CHECK_CALL(close_with_one(&f));
  PASS();
}

/* P3 */
TEST an_invalid_concurrency_keeps_the_old_value(void) {
  static const int wrong[] = {-1, -2, 1025, INT_MAX, INT_MIN};
  struct fixture f;
  uvs_counts_t before;
  uvs_id_t id;

  CHECK_CALL(open_with_one(&f, &id));
  ASSERT_RC(0, uvs_set_concurrency(f.s, 2));
  fixture_turn(&f);
  before = counts_of(f.s);
  for (int i = 0; i < 5; i++) {
    ASSERT_RC(UV_EINVAL, uvs_set_concurrency(f.s, wrong[i]));
    ASSERT_RC(2, uvs_concurrency(f.s));
  }
  ASSERT(nothing_changed(&f, &before));
  ASSERT_RC(0, uvs_set_concurrency(f.s, 0));
  ASSERT_RC(0, uvs_concurrency(f.s));
  ASSERT_RC(0, uvs_set_concurrency(f.s, 1024));
  ASSERT_RC(1024, uvs_concurrency(f.s));
  CHECK_CALL(close_with_one(&f));
  PASS();
}

/* S36 */
TEST invalid_after_shutdown_policies_are_refused_and_change_nothing(void) {
  static const int wrong[] = {-1, 2, INT_MAX, INT_MIN};
  struct fixture f;
  uvs_counts_t before;
  uvs_id_t id;

  CHECK_CALL(open_with_one(&f, &id));
  before = counts_of(f.s);
  for (int i = 0; i < 4; i++) {
    ASSERT_RC(UV_EINVAL, uvs_after_shutdown(f.s, wrong[i]));
    ASSERT_RC(UV_EINVAL, uvs_set_after_shutdown(f.s, wrong[i], 0));
    ASSERT_RC(UV_EINVAL, uvs_set_after_shutdown(f.s, UVS_DELAYED_TASKS, wrong[i]));
    ASSERT_RC(UV_EINVAL, uvs_set_after_shutdown(f.s, UVS_PERIODIC_TASKS, wrong[i]));
  }
  ASSERT_RC(1, uvs_after_shutdown(f.s, UVS_DELAYED_TASKS));
  ASSERT_RC(0, uvs_after_shutdown(f.s, UVS_PERIODIC_TASKS));
  ASSERT(nothing_changed(&f, &before));
  CHECK_CALL(close_with_one(&f));
  PASS();
}

TEST unknown_states_and_codes_have_a_text_too(void) {
  ASSERT_STR_EQ("?", uvs_state_name(0));
  ASSERT_STR_EQ("?", uvs_state_name(-1));
  ASSERT_STR_EQ("?", uvs_state_name(UVS_ENDED + 1));
  ASSERT_STR_EQ("?", uvs_state_name(INT_MAX));
  ASSERT_STR_EQ("waiting", uvs_state_name(UVS_WAITING));
  ASSERT_STR_EQ("ended", uvs_state_name(UVS_ENDED));
  PASS();
}

/* ------------------------------------------------------------- wrong thread --- */

struct stranger {
  uvs_t *s;
  uvs_id_t id;
  int64_t ns;
  int rc[7];
};

static void stranger_main(void *arg) {
  struct stranger *x = arg;

  x->rc[0] = uvs_ref(x->s, x->id);
  x->rc[1] = uvs_unref(x->s, x->id);
  x->rc[2] = uvs_has_ref(x->s, x->id);
  x->rc[3] = uvs_each(x->s, each_never, NULL);
  x->rc[4] = uvs_dump(x->s, stdout);
  x->rc[5] = uvs_next_due(x->s, &x->ns);
  x->rc[6] = uvs_close(x->s, close_never);
}

static enum greatest_test_res only_for_the_loop(struct fixture *f, uvs_id_t id) {
  struct stranger x = {f->s, id, 7, {0}};
  uv_thread_t thread;

  ASSERT_RC(0, uv_thread_create(&thread, stranger_main, &x));
  uv_thread_join(&thread);
  for (int i = 0; i < 7; i++)
    ASSERT_RC(UV_EPERM, x.rc[i]);
  ASSERT_I64(7, x.ns);
  PASS();
}

/* L3 */
TEST calls_for_the_loop_thread_are_refused_on_every_other_thread(void) {
  struct fixture f;
  uvs_counts_t before;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_HOUR(1));
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  before = counts_of(f.s);
  CHECK_CALL(only_for_the_loop(&f, id)); /* before the first pass: the opener's thread */
  ASSERT(same_counts(&f, &before));
  fixture_turn(&f); /* which takes the task in */
  ASSERT_U64(0, log_total(&f));
  before = counts_of(f.s);
  CHECK_CALL(only_for_the_loop(&f, id));
  ASSERT(nothing_changed(&f, &before));
  ASSERT_RC(1, uvs_has_ref(f.s, id));
  CHECK_CALL(close_with_one(&f));
  PASS();
}

static uv_sem_t turned, may_end;

static void run_main(void *arg) {
  uv_run(arg, UV_RUN_NOWAIT);
  uv_sem_post(&turned);
  uv_sem_wait(&may_end);
}

/* L3 */
TEST the_loop_thread_is_the_one_on_which_the_loop_last_ran(void) {
  struct fixture f;
  uv_thread_t thread;
  int64_t ns = 7;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  ASSERT_RC(0, uv_sem_init(&turned, 0));
  ASSERT_RC(0, uv_sem_init(&may_end, 0));
  ASSERT_RC(0, uv_thread_create(&thread, run_main, &f.loop));
  uv_sem_wait(&turned);
  ASSERT_RC(UV_EPERM, uvs_next_due(f.s, &ns));
  ASSERT_RC(UV_EPERM, uvs_close(f.s, close_never));
  ASSERT_I64(7, ns);
  uv_sem_post(&may_end);
  uv_thread_join(&thread);
  if (!TEST_PORT_LINUX) { /* other.c does not notice the end, so the loop must run here */
    ASSERT_RC(UV_EPERM, uvs_next_due(f.s, &ns));
    ASSERT_RC(0, uvs_clock_changed(f.s));
    fixture_turn(&f);
  }
  ASSERT_RC(0, uvs_next_due(f.s, &ns)); /* it has ended: here again */
  uv_sem_destroy(&turned);
  uv_sem_destroy(&may_end);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int each_again(uvs_t *s, const uvs_info_t *info, void *arg) {
  (void)info;
  *(int *)arg = uvs_each(s, each_never, NULL);
  return 0;
}

TEST each_inside_each_is_refused(void) {
  struct fixture f;
  uvs_counts_t before;
  uvs_id_t id;
  int rc = 0;

  CHECK_CALL(open_with_one(&f, &id));
  before = counts_of(f.s);
  ASSERT_RC(0, uvs_each(f.s, each_again, &rc));
  ASSERT_RC(UV_EBUSY, rc);
  ASSERT(nothing_changed(&f, &before));
  CHECK_CALL(close_with_one(&f));
  PASS();
}

/* ------------------------------------------------------------- after close --- */

static void closed(uvs_t *s) {
  ((struct fixture *)uvs_data(s))->closed = true;
}

static enum greatest_test_res nothing_is_accepted(uvs_t *s) {
  uvs_task_t t[2] = {good_spec(), good_spec()};
  uvs_id_t ids[2] = {UNTOUCHED, UNTOUCHED};

  ASSERT_RC(UV_ESHUTDOWN, uvs_submit(s, t, ids));
  ASSERT_RC(UV_ESHUTDOWN, uvs_submit_many(s, t, 2, ids));
  ASSERT_RC(UV_ESHUTDOWN, submit_many_elsewhere(s, t, 2, ids));
  ASSERT_RC(UV_ESHUTDOWN, uvs_execute(s, body, NULL));
  ASSERT_RC(UV_ESHUTDOWN, uvs_schedule(s, 0, body, NULL, ids));
  ASSERT_RC(UV_ESHUTDOWN, uvs_schedule_at_fixed_rate(s, 0, 1, body, NULL, ids));
  ASSERT_RC(UV_ESHUTDOWN, uvs_schedule_with_fixed_delay(s, 0, 1, body, NULL, ids));
  ASSERT_RC(UV_ESHUTDOWN, uvs_schedule_at(s, 0, body, NULL, ids));
  ASSERT_U64(UNTOUCHED, ids[0]);
  ASSERT_U64(UNTOUCHED, ids[1]);
  PASS();
}

/* S12 L17 */
TEST calls_after_close_return_eshutdown(void) {
  struct fixture f;
  uvs_info_t info;
  uvs_counts_t counts;
  uvs_histogram_t histogram;
  int64_t ns = 7;
  unsigned events;
  uvs_id_t id;
  uvs_t *s;

  CHECK_CALL(open_with_one(&f, &id));
  s = uvs_retain(f.s);
  ASSERT_RC(0, uvs_close(f.s, closed));
  f.s = NULL;
  CHECK_CALL(nothing_is_accepted(s)); /* while it closes */
  ASSERT_RC(UV_EALREADY, uvs_close(s, close_never));
  for (int i = 0; i < 100 && !f.closed; i++)
    fixture_turn(&f);
  ASSERT(f.closed);
  events = log_total(&f);
  CHECK_CALL(nothing_is_accepted(s));
  uvs_info_init(&info);
  uvs_counts_init(&counts);
  counts.submitted = 7;
  ASSERT_RC(UV_ESHUTDOWN, uvs_cancel(s, id, 0));
  ASSERT_RC(UV_ESHUTDOWN, uvs_reschedule(s, id, 0));
  ASSERT_RC(UV_ESHUTDOWN, uvs_finish(s, id, 0));
  ASSERT_RC(UV_ESHUTDOWN, uvs_ref(s, id));
  ASSERT_RC(UV_ESHUTDOWN, uvs_unref(s, id));
  ASSERT_RC(UV_ESHUTDOWN, uvs_has_ref(s, id));
  ASSERT_RC(UV_ESHUTDOWN, uvs_info(s, id, &info));
  ASSERT_U64(0, info.id);
  ASSERT_RC(UV_ESHUTDOWN, uvs_each(s, each_never, NULL));
  ASSERT_RC(0, uvs_counts(s, &counts)); /* the final numbers, to whoever holds a reference */
  ASSERT(adds_up(&counts));
  ASSERT_U64(0, counts.waiting + counts.ready + counts.running);
  uvs_histogram_init(&histogram);
  ASSERT_RC(UV_ESHUTDOWN, uvs_histogram(s, UVS_STAT_LATE, &histogram));
  ASSERT_RC(UV_ESHUTDOWN, uvs_stats_write(s, UVS_FORMAT_TEXT, write_never, NULL));
  ASSERT_RC(UV_ESHUTDOWN, uvs_dump(s, stdout));
  ASSERT_RC(UV_ESHUTDOWN, uvs_concurrency(s));
  ASSERT_RC(UV_ESHUTDOWN, uvs_set_concurrency(s, 2));
  ASSERT_RC(UV_ESHUTDOWN, uvs_after_shutdown(s, UVS_DELAYED_TASKS));
  ASSERT_RC(UV_ESHUTDOWN, uvs_set_after_shutdown(s, UVS_DELAYED_TASKS, 0));
  ASSERT_RC(UV_ESHUTDOWN, uvs_rejection_policy(s));
  ASSERT_RC(UV_ESHUTDOWN, uvs_set_rejection_policy(s, UVS_REJECT_ABORT));
  ASSERT_RC(UV_ESHUTDOWN, uvs_next_due(s, &ns));
  ASSERT_I64(7, ns);
  ASSERT_RC(UV_ESHUTDOWN, uvs_clock_changed(s));
  ASSERT_RC(UV_ESHUTDOWN, uvs_shutdown(s));
  ASSERT_RC(UV_ESHUTDOWN, uvs_shutdown_within(s, 0));
  ASSERT_RC(UV_ESHUTDOWN, uvs_shutdown_now(s, probe_never_ran, NULL));
  ASSERT_RC(UV_EALREADY, uvs_close(s, close_never));
  /* These calls still work. */
  ASSERT_RC(1, uvs_is_shutdown(s));
  ASSERT_RC(0, uvs_is_terminating(s));
  ASSERT_RC(1, uvs_is_terminated(s));
  ASSERT_RC(0, uvs_wait_terminated(s, UVS_SEC(1)));
  fixture_turn(&f);
  ASSERT_U64(events, log_total(&f));
  ASSERT_STR_EQ("a", log_string(&f, EV_DONE));
  uvs_release(s);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S12 S18 */
TEST calls_after_shutdown_are_refused_and_only_counted_as_rejected(void) {
  struct fixture f;
  uvs_counts_t before, after;
  uvs_id_t id;

  CHECK_CALL(open_with_one(&f, &id));
  ASSERT_RC(0, uvs_shutdown(f.s));
  fixture_turn(&f);
  before = counts_of(f.s);
  CHECK_CALL(nothing_is_accepted(f.s));
  after = counts_of(f.s);
  ASSERT_U64(before.rejected + 8, after.rejected);
  after.rejected = before.rejected;
  ASSERT_MEM_EQ(&before, &after, sizeof after);
  CHECK_CALL(close_with_one(&f));
  PASS();
}

SUITE(null) {
  RUN_TEST(every_call_without_a_scheduler_is_an_argument_error);
  RUN_TEST(null_out_pointers_are_refused_or_harmless);
}

SUITE(options) {
  RUN_TEST(open_refuses_invalid_options_and_leaves_nothing_behind);
  RUN_TEST(open_accepts_the_extreme_values_of_each_option);
}

SUITE(specs) {
  RUN_TEST(every_invalid_spec_is_refused_and_changes_nothing);
  RUN_TEST(one_invalid_spec_makes_a_whole_batch_refused);
  RUN_TEST(an_empty_submit_many_is_an_argument_error);
  RUN_TEST(the_short_calls_refuse_a_missing_body_and_an_invalid_period);
  RUN_TEST(the_extreme_valid_values_are_accepted);
}

SUITE(sizes) {
  RUN_TEST(a_spec_of_another_size_works_unless_an_unknown_field_is_set);
  RUN_TEST(memory_after_a_smaller_spec_is_not_read);
  RUN_TEST(a_spec_of_a_wrong_size_is_refused);
  RUN_TEST(options_of_another_size_work_unless_an_unknown_field_is_set);
  RUN_TEST(an_info_of_another_size_is_filled_up_to_its_size);
  RUN_TEST(counts_of_another_size_are_filled_up_to_their_size);
  RUN_TEST(an_info_or_counts_with_an_unknown_tail_is_refused_untouched);
}

SUITE(ids_and_values) {
  RUN_TEST(ids_that_were_never_issued_match_no_task);
  RUN_TEST(unknown_flags_and_values_are_refused_by_the_calls_on_a_task);
  RUN_TEST(an_invalid_concurrency_keeps_the_old_value);
  RUN_TEST(invalid_after_shutdown_policies_are_refused_and_change_nothing);
  RUN_TEST(unknown_states_and_codes_have_a_text_too);
}

SUITE(wrong_thread) {
  RUN_TEST(calls_for_the_loop_thread_are_refused_on_every_other_thread);
  RUN_TEST(the_loop_thread_is_the_one_on_which_the_loop_last_ran);
  RUN_TEST(each_inside_each_is_refused);
}

SUITE(too_late) {
  RUN_TEST(calls_after_close_return_eshutdown);
  RUN_TEST(calls_after_shutdown_are_refused_and_only_counted_as_rejected);
}

TEST_MAIN(RUN_SUITE(null); RUN_SUITE(options); RUN_SUITE(specs); RUN_SUITE(sizes);
          RUN_SUITE(ids_and_values); RUN_SUITE(wrong_thread); RUN_SUITE(too_late));
