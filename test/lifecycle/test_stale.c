/* SPDX-License-Identifier: MIT
 *
 * An id stays stale for ever, however its task ended. Built with -DUVS__GENERATION_BITS=3, so that
 * the generations of a slot are soon used up. See also rooms/test_directory_generation.c.
 */
#include <stdlib.h>

#include "lib/fixture.h"
#include "lib/inspect.h"

_Static_assert(UVS__GENERATION_BITS == 3, "this program is for the build with three bits");

#define LIVES 6u /* of a slot */
#define ROUNDS 400
#define BATCH 10
#define IDS (ROUNDS * BATCH)

static uvs_id_t ids[IDS];
static unsigned id_count;
static unsigned used[IDS]; /* by slot */

static int body(uvs_run_t *run) {
  (void)run;
  return 0;
}

static int twice(uvs_run_t *run) {
  return run->number == 2 ? UVS_STOP : 0;
}

static int failing(uvs_run_t *run) {
  (void)run;
  return UV_EIO;
}

static void done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)s;
  (void)id;
  (void)status;
  ++*(unsigned *)arg;
}

static bool stale(uvs_t *s, uvs_id_t id) {
  uvs_info_t info;

  uvs_info_init(&info);
  return uvs_cancel(s, id, 0) == UV_ENOENT && uvs_reschedule(s, id, 0) == UV_ENOENT &&
         uvs_finish(s, id, 0) == UV_ENOENT && uvs_unref(s, id) == UV_ENOENT &&
         uvs_has_ref(s, id) == UV_ENOENT && uvs_info(s, id, &info) == UV_ENOENT;
}

static int by_value(const void *x, const void *y) {
  uvs_id_t a = *(const uvs_id_t *)x, b = *(const uvs_id_t *)y;

  return a < b ? -1 : a > b;
}

static bool all_different(void) {
  qsort(ids, id_count, sizeof ids[0], by_value);
  for (unsigned i = 1; i < id_count; i++)
    if (ids[i] == ids[i - 1])
      return false;
  return true;
}

struct cancel {
  uvs_t *s;
  uvs_id_t *ids;
  unsigned n;
};

static void cancel_main(void *arg) {
  struct cancel *c = arg;

  for (unsigned i = 0; i < c->n; i++)
    uvs_cancel(c->s, c->ids[i], 0);
}

enum way { RUN_LIGHT, RUN_DONE, RUN_LOOP, FAIL, PERIODIC, CANCEL, CANCEL_ELSEWHERE, WAYS };

/* One batch of tasks, from submission to end. */
static bool live_and_end(struct fixture *f, enum way way, unsigned *dones) {
  uvs_id_t *batch = &ids[id_count];
  uvs_task_t t;

  uvs_task_init(&t);
  t.work = way == FAIL ? failing : way == PERIODIC ? twice : body;
  t.arg = dones;
  t.done = way == RUN_LIGHT || way == CANCEL ? NULL : done;
  t.name = way == RUN_DONE ? "named" : NULL;
  if (way == RUN_LOOP) {
    t.work = NULL;
    t.after = body;
  }
  if (way == PERIODIC) {
    t.kind = UVS_FIXED_DELAY;
    t.period_ns = 1;
  }
  if (way >= CANCEL)
    t.first_ns = UVS_HOUR(1);
  for (int i = 0; i < BATCH; i++, id_count++)
    if (uvs_submit(f->s, &t, &ids[id_count]) != 0)
      return false;
  if (way == CANCEL_ELSEWHERE) {
    struct cancel c = {f->s, batch, BATCH};
    uv_thread_t thread;

    if (uv_thread_create(&thread, cancel_main, &c) != 0)
      return false;
    uv_thread_join(&thread);
  }
  for (int i = 0; way == CANCEL && i < BATCH; i++)
    if (uvs_cancel(f->s, batch[i], 0) != UVS_CANCELLED)
      return false;
  fixture_advance_ns(f, 10);
  for (int i = 0; i < BATCH; i++)
    if (!stale(f->s, batch[i]))
      return false;
  return true;
}

/* L18 */
TEST an_id_stays_stale_over_any_number_of_reuses(void) {
  uint64_t random = test_seed;
  unsigned dones = 0, expected = 0;
  uvs_id_t live[20];
  struct fixture f;
  uvs_counts_t counts;

  id_count = 0;
  fixture_init(&f);
  f.options.on_error = NULL;
  CHECK_CALL(fixture_open(&f));
  fixture_turn(&f);
  for (unsigned i = 0; i < 20; i++)
    ASSERT_RC(0, uvs_schedule(f.s, UVS_HOUR(1), body, NULL, &live[i]));
  for (unsigned round = 0; round < ROUNDS; round++) {
    enum way way = (enum way)(round % WAYS);

    ASSERT(live_and_end(&f, way, &dones));
    expected += way == RUN_LIGHT || way == CANCEL ? 0 : BATCH;
    ASSERT_U64(expected, dones);
    for (int i = 0; i < 50; i++) /* the older ones too */
      ASSERT(stale(f.s, ids[test_random_below(&random, id_count)]));
    /* A live task among them is cancelled and replaced. The old ids of its neighbours never match
     * it. */
    ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, live[round % 20], 0));
    ASSERT_RC(0, uvs_schedule(f.s, UVS_HOUR(1), body, NULL, &live[round % 20]));
    fixture_turn(&f);
  }
  for (unsigned i = 0; i < id_count; i++)
    ASSERT(stale(f.s, ids[i]));
  ASSERT(all_different());
  for (unsigned i = 0; i < 20; i++)
    ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, live[i], 0));
  uvs_counts_init(&counts);
  ASSERT_RC(0, uvs_counts(f.s, &counts));
  ASSERT_U64(IDS + 20 + ROUNDS, counts.submitted);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L18 */
TEST a_slot_whose_generation_is_used_up_is_never_used_again(void) {
  unsigned dones = 0;
  struct fixture f;
  uvs_counts_t counts;

  id_count = 0;
  memset(used, 0, sizeof used);
  fixture_init(&f);
  f.options.on_error = NULL;
  CHECK_CALL(fixture_open(&f));
  fixture_turn(&f);
  for (unsigned round = 0; round < ROUNDS; round++)
    ASSERT(live_and_end(&f, (enum way)(round % WAYS), &dones));
  uvs_counts_init(&counts);
  ASSERT_RC(0, uvs_counts(f.s, &counts));
  ASSERT(counts.slots >= IDS / LIVES);
  ASSERT(counts.slots < IDS / 2); /* each serves several times */
  for (unsigned i = 0; i < id_count; i++) {
    uint32_t slot = inspect_slot_of(ids[i]);

    ASSERT(slot < counts.slots && slot < IDS);
    ASSERT(inspect_generation_of(ids[i]) >= 1);
    ASSERT(inspect_generation_of(ids[i]) <= LIVES);
    ASSERT(++used[slot] <= LIVES);
  }
  ASSERT(all_different());
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L18 L10 */
TEST a_refused_submission_also_uses_up_its_ids(void) {
  static uvs_task_t many[500];
  static uvs_id_t out[500];
  unsigned refused = 0;
  struct fixture f;

  id_count = 0;
  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  fixture_turn(&f);
  for (int i = 0; i < 500; i++) {
    uvs_task_init(&many[i]);
    many[i].work = body;
    many[i].first_ns = UVS_HOUR(1);
  }
  for (int round = 0; round < 30; round++) {
    if (round % 2 == 0)
      fault_after(2 + round % 3); /* in the middle: some were made already */
    int rc = uvs_submit_many(f.s, many, 500, out);
    bool failed = fault_hit();
    ASSERT_RC(failed ? UV_ENOMEM : 0, rc);
    refused += failed;
    for (int i = 0; rc == 0 && i < 500; i++)
      ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, out[i], 0));
    for (int i = 0; rc == 0 && i < 500 && id_count < IDS; i++)
      ids[id_count++] = out[i];
    fixture_turn(&f);
    for (unsigned i = 0; i < id_count; i++)
      ASSERT(stale(f.s, ids[i]));
  }
  ASSERT(id_count >= 500);
  ASSERT(refused > 0);
  ASSERT(all_different());
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(stale_ids) {
  RUN_TEST(an_id_stays_stale_over_any_number_of_reuses);
  RUN_TEST(a_slot_whose_generation_is_used_up_is_never_used_again);
  RUN_TEST(a_refused_submission_also_uses_up_its_ids);
}

TEST_MAIN(RUN_SUITE(stale_ids));
