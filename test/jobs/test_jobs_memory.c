/* SPDX-License-Identifier: MIT
 *
 * Allocation failure at every allocation of the library: no crash, no leak, each accepted call gets
 * its callback exactly once, and no acknowledged job is lost.
 */
#include <stdatomic.h>
#include <string.h>

#include "engine_fixture.h"

/* ------------------------------------------------------------- allocations --- */

void *__real_uvs__jobs_alloc(size_t size);
void *__real_uvs__jobs_realloc(void *old, size_t size);
void __real_uvs__jobs_free(void *p);
void *__wrap_uvs__jobs_alloc(size_t size);
void *__wrap_uvs__jobs_realloc(void *old, size_t size);
void __wrap_uvs__jobs_free(void *p);

static _Atomic long live;                  /* blocks that were not freed */
static _Atomic long countdown = -1;        /* allocations that still succeed; below zero: all */
static _Atomic long then_fail, has_failed; /* how many fail after them; how many have */

static bool must_fail(void) {
  long left = atomic_load(&countdown);

  do {
    if (left < 0)
      return false;
    if (left == 0 && atomic_fetch_sub(&then_fail, 1) > 0) {
      atomic_fetch_add(&has_failed, 1);
      return true;
    }
  } while (!atomic_compare_exchange_weak(&countdown, &left, left - 1));
  return false;
}

static void fail_after(long n, long failures) {
  atomic_store(&has_failed, 0);
  atomic_store(&then_fail, failures);
  atomic_store(&countdown, n);
}

/* How many have failed; none fails any more. */
static long fail_no_more(void) {
  atomic_store(&countdown, -1);
  return atomic_load(&has_failed);
}

void *__wrap_uvs__jobs_alloc(size_t size) {
  void *p = must_fail() ? NULL : __real_uvs__jobs_alloc(size);

  live += p != NULL;
  return p;
}

void *__wrap_uvs__jobs_realloc(void *old, size_t size) {
  void *p = must_fail() ? NULL : __real_uvs__jobs_realloc(old, size);

  live += p != NULL && old == NULL;
  return p;
}

void __wrap_uvs__jobs_free(void *p) {
  live -= p != NULL;
  __real_uvs__jobs_free(p);
}

/* -------------------------------------------------------------------- open --- */

static void on_closed(uvs_jobs_t *jobs, void *arg) {
  bool *closed = arg;

  (void)jobs;
  *closed = true;
}

/* Q54 */
TEST an_open_without_memory_answers_enomem_and_leaves_nothing(void) {
  struct engine *f = engine_new();
  uvs_jobs_t *jobs;
  long n;

  engine_open(f); /* node 0 keeps a store in memory */
  f->options.arg = &f->nodes[0];
  engine_quiesce(f);
  for (n = 0; n < 1000; n++) {
    long before = live;
    char text[200];
    int rc;

    fail_after(n, 1);
    rc = uvs_jobs_open(f->s, &f->options, &jobs, text, sizeof text);
    if (rc == 0) { /* what fails later is the keeper's */
      int64_t due_ns;
      bool closed = false;

      EQ(0, uvs_jobs_next_due(jobs, &due_ns));
      EQ(0, uvs_jobs_close(jobs, 0, on_closed, &closed));
      engine_run_until(f, &closed);
    } else {
      EQ(UV_ENOMEM, rc);
      ASSERT(*text != '\0');
      engine_quiesce(f);
    }
    EQ(before, live);
    if (fail_no_more() == 0)
      break;
  }
  ASSERT(n > 0 && n < 1000);
  engine_close(f);
  EQ(0, live);
  PASS();
}

/* The claim of the same pass comes before the settlement then, and does not see the job. */
TEST a_job_that_could_not_be_settled_at_first_is_claimed_in_time(void) {
  struct engine *f = engine_start();
  uvs_job_handler_t h = engine_handler();

  h.retry.wait_ns = 0;
  engine_handle(f, "n", &h)->hold = true;
  engine_put_simple(f, "n", "a", 0);
  fail_after(0, 1);
  engine_finish(f, 0, UV_EIO);
  EQ(1, fail_no_more());
  EQ(2, f->n_runs); /* the clock has stood still */
  engine_close(f);
  EQ(0, live);
  PASS();
}

/* ---------------------------------------------------------------- scenario --- */

enum { CALLS = 40, KEPT = 16 };

struct scene {
  struct engine *f;
  int accepted, answered; /* calls; all accepted ones are numbered */
  int times[CALLS];       /* how often the callback of each call came */
  char acknowledged[KEPT][UVS_JOB_ID_MAX + 1];
  int n_acknowledged;
  bool cron; /* acknowledged */
  bool wrong;
};

struct ticket {
  struct scene *s;
  int number;
};
static struct ticket tickets[CALLS];

static void answer(void *arg, int status) {
  struct ticket *t = arg;

  t->s->times[t->number]++;
  t->s->answered++;
  t->s->f->activity++;
  t->s->wrong |= status < 0 && status != UV_ENOMEM && status != UV_ETIMEDOUT &&
                 status != UV_ENOENT && status != UV_ECANCELED;
}

static void on_put(uvs_jobs_t *jobs, const uvs_put_result_t *results, size_t n, void *arg) {
  struct ticket *t = arg;

  (void)jobs;
  answer(arg, 0);
  for (size_t i = 0; i < n; i++) {
    t->s->wrong |= results[i].status != 0 && results[i].status != UV_ENOMEM;
    if (results[i].status == 0)
      strcpy(t->s->acknowledged[t->s->n_acknowledged++], results[i].id);
  }
}

static void on_status(uvs_jobs_t *jobs, int status, void *arg) {
  (void)jobs;
  answer(arg, status);
}

static void on_cron(uvs_jobs_t *jobs, int status, void *arg) {
  struct ticket *t = arg;

  (void)jobs;
  answer(arg, status);
  t->s->cron = status == 0;
}

static void on_info(uvs_jobs_t *jobs, int status, const uvs_job_info_t *info, void *arg) {
  (void)jobs;
  (void)info;
  answer(arg, status);
}

static void on_list(uvs_jobs_t *jobs, int status, const uvs_job_info_t *list, size_t n,
                    int64_t next, void *arg) {
  (void)jobs;
  (void)list;
  (void)n;
  (void)next;
  answer(arg, status);
}

static void on_crons(uvs_jobs_t *jobs, int status, const uvs_cron_info_t *list, size_t n,
                     void *arg) {
  (void)jobs;
  (void)list;
  (void)n;
  answer(arg, status);
}

static void on_count(uvs_jobs_t *jobs, int status, uint64_t count, void *arg) {
  (void)jobs;
  (void)count;
  answer(arg, status);
}

static void on_stats(uvs_jobs_t *jobs, int status, const uvs_jobs_stats_t *stats, void *arg) {
  (void)jobs;
  (void)stats;
  answer(arg, status);
}

static struct ticket *ticket(struct scene *s) {
  tickets[s->accepted] = (struct ticket){s, s->accepted};
  return &tickets[s->accepted];
}

static void called(struct scene *s, int rc) {
  s->accepted += rc == 0;
  s->wrong |= rc != 0 && rc != UV_ENOMEM;
}

static int run_with_everything(struct probe *p, uvs_job_t *job) {
  uvs_job_spec_t spec = engine_spec("next", NULL);

  (void)p;
  uvs_job_progress(job, "half", 4);
  uvs_job_result(job, "result", 6);
  uvs_job_error(job, "reason");
  uvs_job_put(job, &spec); /* without memory it is not put */
  return job->attempt == 1 && job->payload_size > 0 ? UV_EIO : 0;
}

static void make_calls(struct scene *s) {
  uvs_jobs_t *jobs = s->f->nodes[0].jobs;
  uvs_job_spec_t specs[3] = {engine_spec("n", "a"), engine_spec("n", "b"), engine_spec("m", "c")};
  uvs_job_cron_t c = engine_cron_spec("c", "*/10 * * * *");
  uvs_job_queue_t q = engine_queue("m");

  specs[0].payload = "payload";
  specs[0].payload_size = 7;
  specs[1].key = "key";
  specs[1].meta = "meta";
  specs[1].meta_size = 4;
  c.spec.keep_done_ns = UVS_DAY(1);
  q.rate = 100;
  called(s, uvs_jobs_put(jobs, &specs[0], on_put, ticket(s)));
  called(s, uvs_jobs_put_many(jobs, specs + 1, 2, on_put, ticket(s)));
  called(s, uvs_jobs_wait(jobs, "n/a", UVS_NEVER, on_info, ticket(s)));
  called(s, uvs_jobs_wait(jobs, "n/b", UVS_SEC(1), on_info, ticket(s)));
  called(s, uvs_jobs_cron(jobs, &c, on_cron, ticket(s), NULL, 0));
  called(s, uvs_jobs_set_queue(jobs, &q, on_status, ticket(s)));
  engine_quiesce(s->f);
  called(s, uvs_jobs_move(jobs, "m/c", UVS_SEC(2), 0, on_status, ticket(s)));
  called(s, uvs_jobs_get(jobs, "n/a", on_info, ticket(s)));
  called(s, uvs_jobs_list(jobs, NULL, 0, 100, on_list, ticket(s)));
  called(s, uvs_jobs_cancel(jobs, "n/none", on_status, ticket(s)));
  called(s, uvs_jobs_crons(jobs, on_crons, ticket(s)));
  called(s, uvs_jobs_stats(jobs, on_stats, ticket(s)));
  called(s, uvs_jobs_redrive(jobs, NULL, on_count, ticket(s)));
  called(s, uvs_jobs_remove_cron(jobs, "none", on_status, ticket(s)));
}

/* The first node does everything without memory. The second one then runs what is left. */
static int play(long n, long failures, const char **ret_wrong) {
  struct engine *f = engine_start();
  struct scene s = {.f = f};
  struct probe *p = &f->probes[0];
  uvs_job_handler_t h = engine_handler();
  long failed;

  engine_open_node(f);
  *p = (struct probe){.f = f, .act = run_with_everything};
  f->n_probes = 1;
  fail_after(n, failures);
  s.wrong |= uvs_jobs_handle(f->nodes[0].jobs, "n", engine_probe_run, p, &h) == UV_EINVAL;
  make_calls(&s);
  engine_advance(f, UVS_SEC(20));
  engine_advance(f, UVS_MIN(12));
  engine_close_node(f, 0, 0);
  failed = fail_no_more();
  *ret_wrong = s.wrong ? "a wrong error" : s.answered != s.accepted ? "callbacks" : NULL;
  for (int i = 0; i < s.accepted; i++)
    if (s.times[i] != 1)
      *ret_wrong = "a callback did not come once";
  f->to = 1;
  engine_handle(f, "n", NULL);
  engine_handle(f, "m", NULL);
  engine_handle(f, "next", NULL);
  engine_advance(f, UVS_MIN(30));
  for (int i = 0; i < s.n_acknowledged; i++)
    if (engine_state(f, s.acknowledged[i]) != UVS_JOB_DONE)
      *ret_wrong = "an acknowledged job is lost";
  if (s.cron && engine_state(f, "n/c@2023-11-14T22:40:00Z") != UVS_JOB_DONE)
    *ret_wrong = "a cron has stopped";
  engine_close(f);
  if (live != 0)
    *ret_wrong = "a leak";
  return failed > 0;
}

/* From one play to the next, the failures begin `step` allocations later. */
static enum greatest_test_res play_all(long failures, long step) {
  const char *wrong = NULL;
  long n = 0;

  while (play(n, failures, &wrong) && wrong == NULL && n < 10000)
    n += step;
  if (wrong != NULL) {
    printf("\nallocation %ld fails: %s\n", n, wrong);
    FAILm(wrong);
  }
  ASSERT(n > 50 && n < 10000);
  PASS();
}

/* Q6 Q54 */
TEST with_any_one_allocation_failing_nothing_is_lost(void) {
  return play_all(1, 1);
}

/* The failures begin at each allocation in turn; on SQLite, where a play is slow, at each fifth.
 * Q6 Q54 */
TEST with_any_twenty_allocations_failing_nothing_is_lost(void) {
  return play_all(20, strcmp(engine_store, "sqlite") == 0 ? 5 : 1);
}

/* ------------------------------------------------------------- pending jobs --- */

static void put_1000(struct engine *f) {
  static uvs_job_spec_t specs[1000];

  for (int i = 0; i < 1000; i++) {
    specs[i] = engine_spec("n", NULL);
    specs[i].delay_ns = UVS_HOUR(1);
  }
  answer_init(&f->last, f);
  if (uvs_jobs_put_many(f->nodes[0].jobs, specs, 1000, NULL, NULL) != 0)
    abort();
  engine_quiesce(f);
}

/* Q47 */
TEST jobs_that_wait_in_a_file_take_no_memory(void) {
  struct engine *f;
  long before;

  if (strcmp(engine_store, "sqlite") != 0)
    SKIP();
  f = engine_start();
  engine_handle(f, "n", NULL);
  put_1000(f);
  before = live;
  put_1000(f);
  put_1000(f);
  EQ(before, live);
  EQ(0, engine_stats(f));
  EQ(3000, f->last.stats.pending);
  engine_close(f);
  PASS();
}

SUITE(memory) {
  RUN_TEST(jobs_that_wait_in_a_file_take_no_memory);
  RUN_TEST(an_open_without_memory_answers_enomem_and_leaves_nothing);
  RUN_TEST(a_job_that_could_not_be_settled_at_first_is_claimed_in_time);
  RUN_TEST(with_any_one_allocation_failing_nothing_is_lost);
  RUN_TEST(with_any_twenty_allocations_failing_nothing_is_lost);
}

TEST_MAIN(ON_EVERY_LOCAL_STORE(RUN_SUITE(memory)));
