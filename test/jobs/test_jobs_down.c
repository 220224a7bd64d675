/* SPDX-License-Identifier: MIT
 *
 * A store that fails for a while: what callers are told, and that nothing is lost or doubled. The
 * store of node 0 is a real one whose requests fail as the test says.
 */
#include <stdatomic.h>
#include <string.h>

#include "engine_fixture.h"
#include "jobs/store.h"

/* ------------------------------------------------------------------ faults --- */

enum fault {
  WORKS,
  NOT_DONE,         /* UV_EAGAIN */
  UNKNOWN_NOT_DONE, /* UVS_EUNKNOWN */
  UNKNOWN_DONE,     /* UVS_EUNKNOWN, although it was carried out */
  FULL              /* UV_ENOSPC */
};

/* fails[op]: how requests of this kind fail. Set while the keeper has nothing to do. */
static _Atomic int fails[UVS__TRIM + 1];
static _Atomic int largest_batch; /* puts in one batch that was carried out */
static struct uvs__store *failing;
static const struct uvs__store_ops *real;
static struct uvs__store_ops with_faults;

typedef int opener(const struct uvs__store_config *config, struct uvs__store **ret, char *text,
                   size_t size);
opener __real_uvs__memory_open, __real_uvs__sqlite_open;
opener __wrap_uvs__memory_open, __wrap_uvs__sqlite_open;

static void fail_all(enum fault how) {
  for (int op = 0; op <= UVS__TRIM; op++)
    fails[op] = how;
}

static void fail_op(enum uvs__op op, enum fault how) {
  fails[op] = how;
}

static void ignore(struct uvs__request *r) {
  (void)r;
}

/* The requests are carried out one by one, if any of them fails. */
static void run_one(struct uvs__store *store, struct uvs__request *r) {
  void (*done)(struct uvs__request *) = r->done;
  int fault = fails[r->op];

  r->next = NULL;
  if (fault == WORKS) {
    real->run(store, r);
    return;
  }
  if (fault == UNKNOWN_DONE) {
    r->done = ignore;
    real->run(store, r);
    r->done = done;
  }
  snprintf(store->trouble, sizeof store->trouble, "the disk is away");
  r->status = fault == NOT_DONE ? UV_EAGAIN : fault == FULL ? UV_ENOSPC : UVS_EUNKNOWN;
  done(r);
}

static void run(struct uvs__store *store, struct uvs__request *first) {
  bool all_work = true;
  int puts = 0;

  for (const struct uvs__request *r = first; r != NULL; r = r->next) {
    all_work &= store != failing || fails[r->op] == WORKS;
    puts += r->op == UVS__PUT;
  }
  if (all_work) {
    if (puts > largest_batch)
      largest_batch = puts;
    real->run(store, first);
    return;
  }
  while (first != NULL) {
    struct uvs__request *next = first->next;

    run_one(store, first);
    first = next;
  }
}

/* The first store that is opened may fail. */
static void add_faults(struct uvs__store *store) {
  if (failing == NULL)
    failing = store;
  real = store->ops;
  with_faults = *real;
  with_faults.run = run;
  store->ops = &with_faults;
}

int __wrap_uvs__memory_open(const struct uvs__store_config *config, struct uvs__store **ret,
                            char *text, size_t size) {
  int rc = __real_uvs__memory_open(config, ret, text, size);

  if (rc == 0)
    add_faults(*ret);
  return rc;
}

int __wrap_uvs__sqlite_open(const struct uvs__store_config *config, struct uvs__store **ret,
                            char *text, size_t size) {
  int rc = __real_uvs__sqlite_open(config, ret, text, size);

  if (rc == 0)
    add_faults(*ret);
  return rc;
}

static struct engine *start(void) {
  failing = NULL;
  fail_all(WORKS);
  largest_batch = 0;
  return engine_start();
}

/* Begins a put at node 0. */
static int begin_put(struct engine *f, struct answer *a, const char *id) {
  uvs_job_spec_t spec = engine_spec("n", id);

  spec.keep_done_ns = 0;
  answer_init(a, f);
  return uvs_jobs_put(f->nodes[0].jobs, &spec, answer_put, a);
}

/* -------------------------------------------------------------------- puts --- */

TEST a_put_waits_for_a_store_that_works_again_in_time(void) {
  struct engine *f = start();
  struct answer a;

  fail_all(NOT_DONE);
  EQ(0, begin_put(f, &a, "a"));
  engine_advance(f, UVS_MS(1900));
  EQ(0, a.calls);
  SAYS("store down the disk is away", engine_events(f));
  fail_all(WORKS);
  engine_advance(f, UVS_MS(250));
  EQ(1, a.calls);
  EQ(0, a.status);
  SAYS("store up", engine_events(f));
  EQ(UVS_JOB_PENDING, engine_state(f, "n/a"));
  engine_close(f);
  PASS();
}

TEST a_put_that_was_not_written_in_time_answers_edown(void) {
  struct engine *f = start();
  struct answer a;

  fail_all(NOT_DONE);
  EQ(0, begin_put(f, &a, "a"));
  engine_advance(f, UVS_SEC(2) - 1);
  EQ(0, a.calls);
  engine_advance(f, UVS_MS(250));
  EQ(1, a.calls);
  EQ(UVS_EDOWN, a.status);
  fail_all(WORKS);
  engine_advance(f, UVS_SEC(5));
  EQ(UV_ENOENT, engine_get(f, "n/a"));
  EQ(1, a.calls);
  engine_close(f);
  PASS();
}

/* Whether it was written or not: a put with the id of the answer makes one job. */
TEST a_put_that_may_have_been_written_answers_eunknown_and_can_be_repeated(void) {
  for (int fault = UNKNOWN_NOT_DONE; fault <= UNKNOWN_DONE; fault++) {
    struct engine *f = start();
    uvs_job_spec_t spec = engine_spec("n", NULL);
    struct answer a;

    fail_op(UVS__PUT, fault);
    EQ(0, begin_put(f, &a, NULL));
    engine_advance(f, UVS_SEC(3));
    EQ(1, a.calls);
    EQ(UVS_EUNKNOWN, a.status);
    fail_all(WORKS);
    engine_advance(f, UVS_SEC(1));
    spec.id = a.id + 2;
    EQ(fault == UNKNOWN_DONE ? UVS_JOB_EXISTS : 0, engine_put(f, &spec));
    SAYS(a.id, f->last.id);
    EQ(0, engine_stats(f));
    EQ(1, f->last.stats.pending);
    engine_close(f);
  }
  PASS();
}

TEST a_put_that_was_written_at_its_first_try_answers_0_at_the_second(void) {
  struct engine *f = start();
  struct answer a;

  fail_op(UVS__PUT, UNKNOWN_DONE);
  EQ(0, begin_put(f, &a, NULL));
  engine_quiesce(f);
  EQ(0, a.calls);
  fail_all(WORKS);
  engine_advance(f, UVS_MS(50));
  EQ(1, a.calls);
  EQ(0, a.status);
  EQ(0, engine_stats(f));
  EQ(1, f->last.stats.pending);
  engine_close(f);
  PASS();
}

/* The record of the end lasts for 30 s after the put. So the library must not repeat a put of which
 * it does not know whether it was written for as long as that, whatever put_timeout_ns is. */
TEST a_put_that_may_have_been_written_is_not_repeated_when_its_job_may_be_forgotten(void) {
  struct engine *f = engine_new();
  struct answer a;

  failing = NULL;
  fail_all(WORKS);
  f->options.put_timeout_ns = UVS_MIN(5);
  engine_open(f);
  engine_handle(f, "n", NULL);
  fail_op(UVS__PUT, UNKNOWN_DONE);
  EQ(0, begin_put(f, &a, "a"));
  engine_quiesce(f);
  fail_op(UVS__PUT, NOT_DONE);
  engine_advance(f, UVS_SEC(40));
  SAYS("n/a", engine_ran(f));
  fail_all(WORKS);
  engine_advance(f, UVS_SEC(5));
  SAYS("", engine_ran(f));
  EQ(1, a.calls);
  EQ(UVS_EUNKNOWN, a.status);
  engine_close(f);
  PASS();
}

TEST puts_that_wait_together_are_written_in_one_transaction(void) {
  struct engine *f = start();
  static struct answer a[100]; /* too large for the stack */

  fail_all(NOT_DONE);
  for (int i = 0; i < 100; i++)
    EQ(0, begin_put(f, &a[i], i == 50 ? "49" : i == 49 ? "49" : NULL));
  engine_quiesce(f);
  fail_all(WORKS);
  engine_advance(f, UVS_MS(250));
  EQ(100, largest_batch);
  for (int i = 0; i < 100; i++)
    EQ(i == 50 ? UVS_JOB_EXISTS : 0, a[i].status); /* each is answered by itself */
  engine_close(f);
  PASS();
}

/* ----------------------------------------------------------------- results --- */

TEST a_result_is_repeated_until_the_store_works_again(void) {
  struct engine *f = start();

  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  EQ(0, uvs_job_result(f->runs[0].job, "42", 2));
  fail_all(NOT_DONE);
  engine_finish(f, 0, 0);
  engine_advance(f, UVS_MIN(2)); /* four leases, and longer than put_timeout_ns */
  fail_all(WORKS);
  engine_advance(f, UVS_MIN(2));
  EQ(UVS_JOB_DONE, engine_state(f, "n/a"));
  SAYS("42", f->last.text);
  EQ(1, f->n_runs);
  EQ(0, f->last.info.crashes);
  engine_close(f);
  PASS();
}

TEST a_result_that_the_full_store_refuses_is_repeated(void) {
  struct engine *f = start();

  engine_handle(f, "n", NULL);
  fail_op(UVS__SETTLE, FULL);
  EQ(0, engine_put_simple(f, "n", "a", 0));
  engine_advance(f, UVS_SEC(10));
  EQ(UVS_JOB_RUNNING, engine_state(f, "n/a"));
  fail_all(WORKS);
  engine_advance(f, UVS_SEC(1));
  EQ(UVS_JOB_DONE, engine_state(f, "n/a"));
  EQ(1, f->n_runs);
  engine_close(f);
  PASS();
}

TEST a_result_whose_first_try_was_written_counts_once(void) {
  struct engine *f = start();

  engine_handle(f, "n", NULL);
  fail_op(UVS__SETTLE, UNKNOWN_DONE);
  EQ(0, engine_put_simple(f, "n", "a", 0));
  fail_all(WORKS);
  engine_advance(f, UVS_SEC(1));
  EQ(UVS_JOB_DONE, engine_state(f, "n/a"));
  EQ(0, engine_stats(f));
  EQ(1, f->last.stats.done);
  EQ(0, f->last.stats.lost_leases);
  SAYS("", engine_events(f));
  engine_close(f);
  PASS();
}

TEST a_close_gives_a_result_up_after_put_timeout_ns(void) {
  struct engine *f = start();

  EQ(1, engine_open_node(f)); /* keeps a store in memory */
  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  fail_all(NOT_DONE);
  engine_finish(f, 0, 0);
  EQ(0, engine_begin_close(f, 0, 0));
  engine_advance(f, UVS_SEC(3));
  engine_close_node(f, 0, 0);
  f->to = 1;
  engine_handle(f, "n", NULL);
  engine_advance(f, UVS_SEC(31));
  SAYS("n/a n/a", engine_ran(f)); /* it runs once more */
  engine_close(f);
  PASS();
}

/* ------------------------------------------------------------------ leases --- */

TEST after_the_store_was_down_expired_leases_are_spared_for_a_third_of_a_lease(void) {
  struct engine *f = start();
  int64_t up_ns;

  EQ(1, engine_open_node(f));
  f->to = 1;
  engine_handle(f, "n", NULL)->hold = true;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  f->to = 0;
  engine_handle(f, "n", NULL);
  engine_stop(f, 1);
  fail_all(NOT_DONE);
  engine_advance(f, UVS_MIN(2));
  fail_all(WORKS);
  SAYS("store down the disk is away", engine_events(f));
  for (int i = 0; i < 200 && strcmp(engine_events(f), "store up") != 0; i++)
    engine_advance(f, UVS_MS(10));
  up_ns = engine_wall(f);
  engine_advance(f, UVS_MS(9900));
  EQ(1, f->n_runs);
  engine_advance(f, UVS_MS(100));
  EQ(2, f->n_runs);
  ASSERT(f->runs[1].wall_ns - up_ns > UVS_MS(9900));
  engine_close(f);
  PASS();
}

SUITE(down) {
  RUN_TEST(a_put_waits_for_a_store_that_works_again_in_time);
  RUN_TEST(a_put_that_was_not_written_in_time_answers_edown);
  RUN_TEST(a_put_that_may_have_been_written_answers_eunknown_and_can_be_repeated);
  RUN_TEST(a_put_that_was_written_at_its_first_try_answers_0_at_the_second);
  RUN_TEST(a_put_that_may_have_been_written_is_not_repeated_when_its_job_may_be_forgotten);
  RUN_TEST(puts_that_wait_together_are_written_in_one_transaction);
  RUN_TEST(a_result_is_repeated_until_the_store_works_again);
  RUN_TEST(a_result_that_the_full_store_refuses_is_repeated);
  RUN_TEST(a_result_whose_first_try_was_written_counts_once);
  RUN_TEST(a_close_gives_a_result_up_after_put_timeout_ns);
  RUN_TEST(after_the_store_was_down_expired_leases_are_spared_for_a_third_of_a_lease);
}

TEST_MAIN(ON_EVERY_STORE(RUN_SUITE(down)));
