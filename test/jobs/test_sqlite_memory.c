/* SPDX-License-Identifier: MIT
 *
 * Memory runs out, in the library or inside SQLite: each allocation fails once. What was answered
 * with success is there, what was refused is not, and the store goes on.
 */
#include "sqlite_fixture.h"

#include <string.h>

#include <uvsched/jobs_sqlite.h>

#include "jobs/sqlite.h"

/* The allocation with this number fails; 0: none. Counted down. */
static long fails_in;
static bool failed;

static bool must_fail(void) {
  if (fails_in == 0 || --fails_in > 0)
    return false;
  failed = true;
  return true;
}

/* These replace src/jobs/alloc.c. */
void *uvs__jobs_alloc(size_t size) {
  return must_fail() ? NULL : calloc(1, size == 0 ? 1 : size);
}

void *uvs__jobs_realloc(void *old, size_t size) {
  return must_fail() ? NULL : realloc(old, size == 0 ? 1 : size);
}

void uvs__jobs_free(void *p) {
  free(p);
}

/* Under SQLite's own allocator. */
static sqlite3_mem_methods real;

static void *sqlite_alloc(int size) {
  return must_fail() ? NULL : real.xMalloc(size);
}

static void *sqlite_realloc(void *old, int size) {
  return must_fail() ? NULL : real.xRealloc(old, size);
}

static void replace_allocator_of_sqlite(void) {
  sqlite3_mem_methods methods;

  sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real);
  methods = real;
  methods.xMalloc = sqlite_alloc;
  methods.xRealloc = sqlite_realloc;
  sqlite3_config(SQLITE_CONFIG_MALLOC, &methods);
}

static void fail_in(long n) {
  failed = false;
  fails_in = n;
}

static bool is_sound(const char *file) {
  return sql_number(file, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check ="
                          " 'ok'") == 1;
}

/* --------------------------------------------------------------------- open --- */

/* Q54 */
TEST open_fails_cleanly_and_can_be_repeated(void) {
  struct sqlite_folder f;
  uint64_t random = test_seed;
  unsigned refused = 0;
  bool all_tried;
  long n = 1;

  folder_init(&f);
  do {
    int rc;

    if (test_random_below(&random, 4) == 0)
      remove(f.file);
    fail_in(n);
    rc = folder_try(&f);
    all_tried = !failed;
    fail_in(0);
    if (rc != 0) {
      refused++;
      EQ(UV_ENOMEM, rc);
      ASSERT(strstr(f.text, "memory") != NULL);
      EQ(0, folder_try(&f));
    }
    n += 1 + (long)test_random_below(&random, 100);
  } while (!all_tried);
  ASSERT(refused > 10);
  ASSERT(is_sound(f.file));
  folder_remove(&f);
  PASS();
}

/* ----------------------------------------------------------------- requests --- */

/* May an answer be this one when memory runs out? UVS_EUNKNOWN: in the commit. */
static bool is_refusal(int rc) {
  return rc == UV_ENOMEM || rc == UVS_EUNKNOWN;
}

/* Carries out `step` with each allocation failing, until none fails. */
#define EACH_ALLOCATION(f, n, rc, step) \
  for (long n = 1, done_ = 0; !done_; n++) { \
    int rc; \
    fail_in(n); \
    rc = (step); \
    done_ = !failed; \
    fail_in(0); \
    if (rc != 0 && !is_refusal(rc)) { \
      printf("allocation %ld: %d, %s\n", n, rc, (f)->first->trouble); \
      FAILm("an answer that is neither success nor ENOMEM"); \
    } \
    AFTER(n, rc); \
  }

static char bytes[20000];

static int put_number(struct store_fixture *f, long n, size_t size, const char *key, int policy) {
  struct uvs__record job = store_job("q", NULL);
  char rest[30];

  snprintf(rest, sizeof rest, "j%ld-%zu-%s", n, size, key == NULL ? "" : key);
  job.rest = rest;
  job.key = key;
  job.key_policy = policy;
  job.payload.data = bytes;
  job.payload.size = size;
  return store_put(f, &job);
}

static bool has(struct store_fixture *f, long n, size_t size, const char *key) {
  char rest[30];

  snprintf(rest, sizeof rest, "j%ld-%zu-%s", n, size, key == NULL ? "" : key);
  return store_state(f, "q", rest) != 0;
}

/* Q54 */
TEST a_put_is_there_or_was_refused(void) {
  struct store_fixture f;

  sqlite_only();
  store_init(&f);
#define AFTER(n, rc) \
  if (rc != UVS_EUNKNOWN) \
  ASSERT_EQ(rc == 0, has(&f, n, 100, NULL))
  EACH_ALLOCATION(&f, n, rc, put_number(&f, n, 100, NULL, 0));
#undef AFTER
#define AFTER(n, rc) \
  if (rc != UVS_EUNKNOWN) \
  ASSERT_EQ(rc == 0, has(&f, n, 20000, NULL))
  EACH_ALLOCATION(&f, n, rc, put_number(&f, n, 20000, NULL, 0));
#undef AFTER
#define AFTER(n, rc) \
  if (rc != UVS_EUNKNOWN) \
  ASSERT_EQ(rc == 0, has(&f, n, 10, "k"))
  EACH_ALLOCATION(&f, n, rc, put_number(&f, n, 10, "k", UVS_KEY_REPLACE));
#undef AFTER
  ASSERT(is_sound(f.name));
  store_close(&f);
  PASS();
}

/* -1: an answer that makes no sense. */
static int claim_one(struct store_fixture *f) {
  if (strcmp(store_claim(f, "q", 1), "error") == 0)
    return UV_ENOMEM;
  return f->n_claimed == 1 ? 0 : -1;
}

/* Q54 */
TEST a_job_is_claimed_and_settled_or_stays_as_it_is(void) {
  struct store_fixture f;

  sqlite_only();
  store_init(&f);
  EQ(0, put_number(&f, 1, 20000, NULL, 0));
#define AFTER(n, rc) \
  if (rc == 0) \
    EQ(0, store_release(&f, 0, 0)); \
  store_advance(&f, f.lease_us)
  EACH_ALLOCATION(&f, n, rc, claim_one(&f));
#undef AFTER
  SAYS("j1-20000-", store_claim(&f, "q", 1));
#define AFTER(n, rc) \
  if (rc == 0) { \
    EQ(UVS_JOB_PENDING, store_state(&f, "q", "j1-20000-")); \
    SAYS("j1-20000-", store_claim(&f, "q", 1)); \
  } else if (rc == UV_ENOMEM) { \
    EQ(UVS_JOB_RUNNING, store_state(&f, "q", "j1-20000-")); \
  }
  EACH_ALLOCATION(&f, n, rc, store_retry(&f, 0, 0));
#undef AFTER
  EQ(0, store_ack(&f, 0));
  ASSERT(is_sound(f.name));
  store_close(&f);
  PASS();
}

static int list_all(struct store_fixture *f) {
  return strcmp(store_list_state(f, 0), "error") == 0 ? UV_ENOMEM : 0;
}

static int read_events(struct store_fixture *f) {
  return strcmp(store_events(f), "error") == 0 ? UV_ENOMEM : 0;
}

/* Q54 */
TEST reading_answers_or_is_refused(void) {
  struct uvs__cron cron = store_cron("nightly", 1);
  struct store_fixture f;

  sqlite_only();
  store_init(&f);
  EQ(0, put_number(&f, 1, 20000, "k", UVS_KEY_KEEP));
  EQ(0, put_number(&f, 2, 10, "k", UVS_KEY_REPLACE));
  EQ(0, store_set_cron(&f, &cron));
#define AFTER(n, rc) (void)0
  EACH_ALLOCATION(&f, n, rc, store_get(&f, "q", "j2-10-k"));
  EACH_ALLOCATION(&f, n, rc, list_all(&f));
  EACH_ALLOCATION(&f, n, rc, store_crons(&f));
  EACH_ALLOCATION(&f, n, rc, read_events(&f));
#undef AFTER
  store_close(&f);
  PASS();
}

/* Replaces the job with the key: two jobs change, or none. */
static int put_in_transaction(sqlite3 *db, long n) {
  uvs_job_spec_t spec;
  char id[UVS_JOB_ID_MAX + 1], rest[30];
  int rc;

  snprintf(rest, sizeof rest, "u%ld", n);
  uvs_job_spec_init(&spec);
  spec.name = "q";
  spec.id = rest;
  spec.key = "k";
  spec.key_policy = UVS_KEY_REPLACE;
  rc = uvs_jobs_sqlite_put(db, &spec, id, NULL, 0);
  fails_in = 0;
  return rc;
}

TEST a_put_in_a_transaction_of_the_user_is_whole_or_nothing(void) {
  struct store_fixture f;
  long holder = 0; /* the last one that was put */
  char sql[100];
  sqlite3 *db;

  sqlite_only();
  store_init(&f);
  db = sql_open(f.name);
  sql_do(db, "BEGIN IMMEDIATE");
  EQ(0, put_in_transaction(db, holder));
/* SQLite may have rolled back the transaction by itself, but not after a success. */
#define AFTER(n, rc) \
  if (rc == 0 || !sqlite3_get_autocommit(db)) \
    sql_do(db, "COMMIT"); \
  if (rc == 0) \
    holder = n; \
  snprintf(sql, sizeof sql, "SELECT sum(rest = 'u%ld') FROM uvs_jobs WHERE class < 5", holder); \
  EQ(1, sql_number_of(db, "SELECT count(*) FROM uvs_jobs WHERE class < 5")); \
  EQ(1, sql_number_of(db, sql)); \
  sql_do(db, "BEGIN IMMEDIATE")
  sql_do(db, "COMMIT; BEGIN IMMEDIATE");
  EACH_ALLOCATION(&f, n, rc, put_in_transaction(db, n));
#undef AFTER
  sql_do(db, "COMMIT");
  EQ(1, store_count(&f, "q")->pending);
  sqlite3_close(db);
  store_close(&f);
  PASS();
}

/* ------------------------------------------------------------- pending jobs --- */

static int put_1000(struct store_fixture *f, int first) {
  static struct uvs__put puts[1000];
  static char rests[1000][20];
  struct uvs__put_request r = {.r = {.op = UVS__PUT}, .puts = puts, .n = 1000};
  int i;

  for (i = 0; i < 1000; i++) {
    snprintf(rests[i], sizeof rests[i], "%d", first + i);
    puts[i] = (struct uvs__put){.job = store_job("q", rests[i])};
  }
  store_run(f, &r.r);
  uvs__arena_free(&r.arena);
  return r.r.status;
}

/* Q47. 10000 jobs are more than 1 MB in the file. */
TEST jobs_take_no_memory_but_the_page_cache(void) {
  struct store_fixture f;
  int64_t before;
  int i;

  sqlite_only();
  store_init(&f);
  sql_do(((struct uvs__sqlite *)f.first)->c.db, "PRAGMA cache_size = -200");
  EQ(0, put_1000(&f, 0));
  before = sqlite3_memory_used();
  for (i = 1; i < 10; i++)
    EQ(0, put_1000(&f, 1000 * i));
  ASSERT(sqlite3_memory_used() - before < 100000);
  EQ(10000, store_count(&f, "q")->pending);
  EQ(0, f.first->ops->idle(f.first)); /* everything is in the file */
  ASSERT(file_size(f.name) > 1000000);
  store_close(&f);
  PASS();
}

/* Q47. The cache does not grow with the file, either. */
TEST the_page_cache_is_bounded(void) {
  struct store_fixture f;

  sqlite_only();
  store_init(&f);
  EQ(-32768, sql_number_of(((struct uvs__sqlite *)f.first)->c.db, "PRAGMA cache_size"));
  EQ(0, sql_number_of(((struct uvs__sqlite *)f.first)->c.db, "PRAGMA mmap_size"));
  store_close(&f);
  PASS();
}

SUITE(memory) {
  RUN_TEST(open_fails_cleanly_and_can_be_repeated);
  RUN_TEST(a_put_is_there_or_was_refused);
  RUN_TEST(a_job_is_claimed_and_settled_or_stays_as_it_is);
  RUN_TEST(reading_answers_or_is_refused);
  RUN_TEST(a_put_in_a_transaction_of_the_user_is_whole_or_nothing);
  RUN_TEST(jobs_take_no_memory_but_the_page_cache);
  RUN_TEST(the_page_cache_is_bounded);
}

TEST_MAIN(replace_allocator_of_sqlite(); RUN_SUITE(memory));
