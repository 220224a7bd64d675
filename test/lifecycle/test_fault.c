/* SPDX-License-Identifier: MIT
 *
 * Allocation failure at every allocation of every call that allocates: the call returns a clear
 * code, changes and leaks nothing, and works when repeated. All other calls never allocate.
 */
#include <stdlib.h>

#include "lib/fixture.h"

#define UNTOUCHED UINT64_C(0x7e57)
#define ENOUGH 1000 /* no call makes this many allocations */

static int body(uvs_run_t *run) {
  (void)run;
  return 0;
}

static uvs_counts_t counts_but_slots(uvs_t *s) {
  uvs_counts_t c = counts_of(s);

  c.slots = 0; /* room that was made may stay for the next */
  return c;
}

static bool same_counts(uvs_t *s, const uvs_counts_t *before) {
  uvs_counts_t now = counts_but_slots(s);

  return memcmp(before, &now, sizeof now) == 0;
}

/* L10 */
TEST open_fails_cleanly_at_every_allocation(void) {
  long failures = 0;

  for (int all = 0; all < 2; all++) {
    for (long n = 0; n < ENOUGH; n++) {
      struct fault fault;
      uvs_options_t o;
      uv_loop_t loop;
      uvs_t *s = NULL;
      bool failed;
      int rc;

      ASSERT_RC(0, uv_loop_init(&loop));
      fault_init(&fault);
      uvs_options_init(&o);
      o.concurrency = 3;
      o.allocator = fault_option(&fault);
      if (all)
        fault_from(n);
      else
        fault_after(n);
      rc = uvs_open(&loop, &o, &s);
      failed = fault_hit();
      ASSERT_RC(failed ? UV_ENOMEM : 0, rc);
      failures += failed;
      if (!failed) {
        ASSERT_RC(0, uvs_close(s, NULL));
        ASSERT_RC(0, uv_run(&loop, UV_RUN_DEFAULT));
      }
      ASSERT_EQ(failed, s == NULL);
      ASSERT_I64(0, atomic_load(&fault.live));
      ASSERT_RC(0, uv_loop_close(&loop)); /* no handle was left behind */
      if (!failed)
        break;
      ASSERT(n + 1 < ENOUGH);
    }
  }
  ASSERT(failures >= 4);
  PASS();
}

enum form {
  PLAIN,
  WALL,
  COLD,
  WALL_COLD,
  PERIODIC,
  MANY,
  MANY_COLD,
  MANY_PLAIN,
  MANY_NO_IDS,
  FORMS
};

#define BATCH 300 /* more than the first two chunks of slots */

static void make_specs(struct fixture *f, enum form form, int tag, uvs_task_t *t) {
  uvs_task_t one = fixture_once(f, tag, UVS_MS(10));

  if (form == WALL || form == WALL_COLD) {
    one.from = UVS_FROM_WALL;
    one.first_ns = vclock_wall(&f->clock) + UVS_MS(10);
  }
  if (form == PERIODIC) {
    one.kind = UVS_FIXED_RATE;
    one.period_ns = UVS_MS(1);
    one.missed_policy = UVS_MISSED_ONCE;
    one.max_runs = 3;
  }
  if (form == COLD || form == WALL_COLD || form == MANY_COLD) {
    one.name = "cold";
    one.after = probe_after;
  }
  for (int i = 0; i < BATCH; i++) {
    t[i] = one;
    if (form == MANY_COLD && i % 3 == 0)
      t[i].name = NULL;
    if (form == MANY && i % 5 == 0)
      t[i].from = UVS_FROM_MONOTONIC;
  }
}

static int submit_form(uvs_t *s, enum form form, const uvs_task_t *t, uvs_id_t *ids) {
  if (form == MANY || form == MANY_COLD || form == MANY_PLAIN)
    return uvs_submit_many(s, t, BATCH, ids);
  if (form == MANY_NO_IDS)
    return uvs_submit_many(s, t, BATCH, NULL);
  return uvs_submit(s, t, ids);
}

struct off_loop {
  uvs_t *s;
  enum form form;
  const uvs_task_t *t;
  uvs_id_t *ids;
  int rc;
};

static void off_loop_main(void *arg) {
  struct off_loop *o = arg;

  o->rc = submit_form(o->s, o->form, o->t, o->ids);
}

static int submit_off_loop(uvs_t *s, enum form form, const uvs_task_t *t, uvs_id_t *ids) {
  struct off_loop o = {s, form, t, ids, UV_EAGAIN};
  uv_thread_t thread;

  if (uv_thread_create(&thread, off_loop_main, &o) < 0)
    return UV_EAGAIN;
  uv_thread_join(&thread);
  return o.rc;
}

/* `filled` tasks exist already, so that the failures hit the growth of every table. */
static enum greatest_test_res submit_survives(enum form form, int filled, bool off_loop) {
  static uvs_task_t t[BATCH];
  static uvs_id_t ids[BATCH];
  unsigned expected = form >= MANY ? BATCH : 1;
  struct fixture f;
  long live = -1;

  fixture_init(&f);
  f.options.max_names = 0; /* a submission does not fail for the statistics of a name (S75) */
  CHECK_CALL(fixture_open(&f));
  fixture_turn(&f);
  for (int i = 0; i < filled; i++)
    ASSERT_RC(0, uvs_schedule(f.s, UVS_HOUR(1), body, NULL, NULL));
  make_specs(&f, form, 'a', t);
  for (long n = 0; n < ENOUGH; n++) {
    uvs_counts_t before = counts_but_slots(f.s);
    bool failed;
    int rc;

    for (unsigned i = 0; i < BATCH; i++)
      ids[i] = UNTOUCHED + i;
    fault_after(n);
    rc = off_loop ? submit_off_loop(f.s, form, t, ids) : submit_form(f.s, form, t, ids);
    failed = fault_hit();
    ASSERT_RC(failed ? UV_ENOMEM : 0, rc);
    if (!failed)
      break;
    ASSERT(same_counts(f.s, &before));
    for (unsigned i = 0; i < BATCH; i++)
      ASSERT_U64(UNTOUCHED + i, ids[i]);
    /* Many failures hold no more memory than one failure. */
    for (int again = 0; again < 10; again++) {
      fault_from(0);
      rc = off_loop ? submit_off_loop(f.s, form, t, ids) : submit_form(f.s, form, t, ids);
      if (fault_hit())
        ASSERT_RC(UV_ENOMEM, rc);
      else
        break; /* all the room is there by now */
      if (again == 0)
        live = atomic_load(&f.fault.live);
      ASSERT_I64(live, atomic_load(&f.fault.live));
      ASSERT_U64(UNTOUCHED, ids[0]);
    }
    if (rc == 0)
      break;
    fixture_turn(&f);
    ASSERT_U64(0, log_total(&f));
    ASSERT(same_counts(f.s, &before));
    ASSERT(n + 1 < ENOUGH);
  }
  if (form != MANY_NO_IDS)
    ASSERT(ids[0] != UNTOUCHED);
  fixture_advance_ms(&f, 20);
  ASSERT_U64(form == PERIODIC ? 3 : expected, log_count(&f, EV_WORK, 'a'));
  ASSERT_U64(expected, log_count(&f, EV_DONE, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L10 */
TEST submit_fails_cleanly_at_every_allocation(void) {
  static const int filled[] = {0, 64, 192, 448};

  for (int form = PLAIN; form < FORMS; form++)
    for (int i = 0; i < 4; i++)
      CHECK_CALL(submit_survives((enum form)form, filled[i], false));
  PASS();
}

/* L10 */
TEST submit_off_the_loop_fails_cleanly_at_every_allocation(void) {
  static const int filled[] = {0, 64, 192};

  for (int form = PLAIN; form < FORMS; form++)
    for (int i = 0; i < 3; i++)
      CHECK_CALL(submit_survives((enum form)form, filled[i], true));
  PASS();
}

/* L10 P3 */
TEST set_concurrency_without_memory_keeps_the_old_value(void) {
  struct fixture f;
  long live, n;

  fixture_init(&f);
  f.options.concurrency = 2;
  CHECK_CALL(fixture_open(&f));
  fixture_turn(&f);
  live = atomic_load(&f.fault.live);
  for (n = 0; n < ENOUGH; n++) {
    uvs_counts_t before = counts_but_slots(f.s);
    bool failed;
    int rc;

    fault_after(n);
    rc = uvs_set_concurrency(f.s, 20);
    failed = fault_hit();
    ASSERT_RC(failed ? UV_ENOMEM : 0, rc);
    before.concurrency = failed ? 2 : 20;
    ASSERT(same_counts(f.s, &before));
    if (!failed)
      break;
    ASSERT_RC(2, uvs_concurrency(f.s));
    ASSERT_I64(live, atomic_load(&f.fault.live));
  }
  ASSERT_I64(18, n);
  ASSERT_RC(20, uvs_concurrency(f.s));
  for (int i = 0; i < 40; i++) {
    uvs_task_t t = fixture_once(&f, 'a', 0);
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  fixture_turn(&f);
  ASSERT_U64(40, log_count(&f, EV_DONE, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L10 */
TEST a_dump_without_memory_prints_nothing(void) {
  struct fixture f;
  FILE *out = tmpfile();
  long live, n;

  ASSERT(out != NULL);
  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  for (int i = 0; i < 5; i++) {
    uvs_task_t t = fixture_once(&f, 'a', UVS_HOUR(1));
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  fixture_turn(&f);
  live = atomic_load(&f.fault.live);
  for (n = 0; n < ENOUGH; n++) {
    bool failed;
    int rc;

    fault_after(n);
    rc = uvs_dump(f.s, out);
    failed = fault_hit();
    ASSERT_RC(failed ? UV_ENOMEM : 0, rc);
    ASSERT_I64(live, atomic_load(&f.fault.live));
    if (!failed)
      break;
    fflush(out);
    ASSERT_I64(0, ftell(out));
  }
  fflush(out);
  ASSERT(ftell(out) > 0);
  fclose(out);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L10 */
TEST random_allocation_failures_leave_the_scheduler_consistent(void) {
  uint64_t random = test_seed;
  unsigned accepted = 0, refused = 0;
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  for (int i = 0; i < 3000; i++) {
    int rc;

    t.first_ns = (int64_t)test_random_below(&random, (uint64_t)UVS_MS(2));
    t.name = test_random_below(&random, 2) == 0 ? "cold" : NULL;
    /* The first allocation fails whatever the seed says: there is no table yet. */
    fault_after(i == 0 ? 0 : (long)test_random_below(&random, 3));
    rc = uvs_submit(f.s, &t, NULL);
    ASSERT_RC(fault_hit() && rc != 0 ? UV_ENOMEM : 0, rc);
    accepted += rc == 0;
    refused += rc != 0;
    if (i % 500 == 0)
      fixture_advance_ms(&f, 1);
  }
  fixture_advance_ms(&f, 2);
  ASSERT(refused > 0);
  ASSERT_U64(accepted, log_count(&f, EV_DONE, 'a'));
  ASSERT_U64(accepted, log_count(&f, EV_WORK, 'a'));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ------------------------------------------------------- what never allocates --- */

#define CROWD 10000

static int periodic_body(uvs_run_t *run) {
  return run->number == 3 ? UVS_STOP : 0;
}

static int failing_body(uvs_run_t *run) {
  (void)run;
  return UV_EIO;
}

static void count_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)s;
  (void)id;
  (void)status;
  ++*(unsigned *)arg;
}

static int each_nothing(uvs_t *s, const uvs_info_t *info, void *arg) {
  (void)s;
  (void)info;
  (void)arg;
  return 0;
}

/* L10 */
TEST arming_firing_cancelling_and_rescheduling_never_allocate(void) {
  static uvs_id_t ids[CROWD];
  unsigned dones = 0;
  struct fixture f;
  uvs_counts_t counts;
  long total;

  fixture_init(&f);
  f.options.on_error = NULL; /* the log is too short for so many */
  CHECK_CALL(fixture_open(&f));
  fixture_turn(&f);
  for (int i = 0; i < CROWD; i++) {
    uvs_task_t t;

    uvs_task_init(&t);
    t.first_ns = UVS_US(i % 1000);
    t.work = i % 7 == 0 ? failing_body : periodic_body;
    t.done = count_done;
    t.arg = &dones;
    if (i % 3 != 0) {
      t.kind = i % 3;
      t.period_ns = UVS_US(100);
    }
    if (i % 4 == 1) {
      t.after = t.work;
      t.work = NULL;
    }
    if (i % 5 == 0)
      t.name = "named";
    if (i % 3 == 0 && i % 2 == 0) {
      t.from = UVS_FROM_WALL;
      t.first_ns = vclock_wall(&f.clock) + UVS_US(i % 1000);
    }
    ASSERT_RC(0, uvs_submit(f.s, &t, &ids[i]));
  }
  total = atomic_load(&f.fault.total);
  fault_from(0);
  for (int i = 0; i < CROWD; i += 10) {
    uvs_info_t info;

    uvs_info_init(&info);
    ASSERT_RC(0, uvs_info(f.s, ids[i], &info));
    ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, ids[i], 0));
    ASSERT_RC(0, uvs_reschedule(f.s, ids[i + 1], UVS_US(i % 700)));
    ASSERT_RC(0, uvs_unref(f.s, ids[i + 2]));
  }
  ASSERT_RC(0, uvs_each(f.s, each_nothing, NULL));
  for (int i = 0; i < 20; i++)
    fixture_jump_ns(&f, UVS_US(100));
  uvs_counts_init(&counts);
  ASSERT_RC(0, uvs_counts(f.s, &counts));
  ASSERT_U64(CROWD, counts.completed + counts.failed + counts.cancelled);
  ASSERT_U64(CROWD / 10, counts.cancelled);
  ASSERT(counts.runs > CROWD);
  ASSERT_U64(CROWD, dones);
  ASSERT_RC(0, uvs_shutdown(f.s));
  fixture_turn(&f);
  ASSERT_U64(1, log_count(&f, EV_TERMINATED, 0));
  ASSERT_FALSE(fault_hit());
  ASSERT_I64(total, atomic_load(&f.fault.total));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L10 */
TEST shutdown_and_close_never_allocate(void) {
  unsigned dones = 0;
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  for (int i = 0; i < 1000; i++) {
    uvs_task_t t;

    uvs_task_init(&t);
    t.first_ns = UVS_MS(i % 10);
    t.work = body;
    t.done = count_done;
    t.arg = &dones;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  fault_from(0);
  fixture_advance_ms(&f, 4);
  ASSERT_RC(0, uvs_shutdown_now(f.s, NULL, NULL));
  fixture_turn(&f);
  CHECK_CALL(fixture_close(&f));
  ASSERT_FALSE(fault_hit());
  ASSERT_U64(1000, dones);
  PASS();
}

SUITE(failing) {
  RUN_TEST(open_fails_cleanly_at_every_allocation);
  RUN_TEST(submit_fails_cleanly_at_every_allocation);
  RUN_TEST(submit_off_the_loop_fails_cleanly_at_every_allocation);
  RUN_TEST(set_concurrency_without_memory_keeps_the_old_value);
  RUN_TEST(a_dump_without_memory_prints_nothing);
  RUN_TEST(random_allocation_failures_leave_the_scheduler_consistent);
}

SUITE(never_allocating) {
  RUN_TEST(arming_firing_cancelling_and_rescheduling_never_allocate);
  RUN_TEST(shutdown_and_close_never_allocate);
}

TEST_MAIN(RUN_SUITE(failing); RUN_SUITE(never_allocating));
