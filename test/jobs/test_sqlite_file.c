/* SPDX-License-Identifier: MIT
 *
 * What the SQLite store keeps in its file, what it does when the file is busy or full, and how the
 * write-ahead log stays small.
 */
#include "sqlite_fixture.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "jobs/sqlite.h"

static void fixture_init(struct store_fixture *f) {
  sqlite_only();
  store_init(f);
}

/* -------------------------------------------------------------------- keeps --- */

/* Q39 */
TEST everything_is_there_after_close_and_open(void) {
  struct store_fixture f;
  uvs_job_queue_t q = store_queue("q");
  struct uvs__cron cron = store_cron("nightly", 3);
  uint64_t fence;

  fixture_init(&f);
  EQ(0, store_put_key(&f, "a", "k", UVS_KEY_KEEP));
  SAYS("a", store_claim(&f, "q", 1));
  fence = f.claimed[0]->fence;
  EQ(0, store_put_key(&f, "b", "k", UVS_KEY_REPLACE));
  EQ(0, store_put_simple(&f, "q", "c"));
  SAYS("c", store_claim(&f, "q", 1));
  EQ(0, store_bury(&f, 0, "broken"));
  q.rate = 5;
  EQ(0, store_set_queue(&f, &q));
  EQ(0, store_set_cron(&f, &cron));
  store_advance(&f, f.lease_us);
  EQ(0, store_reopen(&f));
  EQ(UVS_JOB_RUNNING, store_state(&f, "q", "a"));
  EQ(UVS_JOB_HELD, store_state(&f, "q", "b"));
  EQ(UVS_JOB_DEAD, store_state(&f, "q", "c"));
  SAYS("broken", f.infos->error);
  EQ(5, store_count(&f, "q")->rate);
  EQ(0, store_crons(&f));
  EQ(1, f.n_crons);
  SAYS("dead q/c broken; queue q", store_events(&f));
  SAYS("b", store_claim(&f, "q", 9)); /* a was replaced */
  ASSERT(f.claimed[0]->fence > fence);
  store_close(&f);
  PASS();
}

/* With a letter that depends on its place, so that a part in the wrong place is found. */
static void fill(char *bytes, size_t n) {
  size_t i;

  for (i = 0; i < n; i++)
    bytes[i] = (char)(i % 251);
}

TEST payloads_of_all_sizes_come_back(void) {
  static const size_t sizes[] = {0, 1, UVS__PAYLOAD_HERE, UVS__PAYLOAD_HERE + 1,
                                 UVS_JOB_PAYLOAD_MAX};
  static char bytes[UVS_JOB_PAYLOAD_MAX];
  struct store_fixture f;
  size_t i;

  fixture_init(&f);
  fill(bytes, sizeof bytes);
  for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    struct uvs__record job = store_job("q", "a");

    job.payload.data = bytes;
    job.payload.size = sizes[i];
    job.meta.data = bytes;
    job.meta.size = sizes[i] < UVS_JOB_META_MAX ? sizes[i] : UVS_JOB_META_MAX;
    EQ(0, store_put(&f, &job));
    EQ(0, store_reopen(&f));
    EQ(0, store_get(&f, "q", "a"));
    EQ(sizes[i], f.infos->payload_size);
    ASSERT(sizes[i] == 0 || memcmp(f.infos->payload, bytes, sizes[i]) == 0);
    SAYS("a", store_claim(&f, "q", 1));
    EQ(sizes[i], f.claimed[0]->payload.size);
    ASSERT(sizes[i] == 0 || memcmp(f.claimed[0]->payload.data, bytes, sizes[i]) == 0);
    EQ(job.meta.size, f.claimed[0]->meta.size);
    store_advance(&f, 60 * SEC);
    EQ(0, store_ack(&f, 0));
    EQ(0, sql_number(f.name, "SELECT count(*) FROM uvs_payloads"));
    EQ(0, sql_number(f.name, "SELECT count(*) FROM uvs_jobs"));
  }
  store_close(&f);
  PASS();
}

/* However a job with a large payload ends, its payload goes. */
TEST no_payload_is_left_behind(void) {
  static char bytes[UVS__PAYLOAD_HERE + 1];
  struct uvs__record job = store_job("q", "a");
  struct store_fixture f;
  uvs_job_filter_t dead;

  fixture_init(&f);
  uvs_job_filter_init(&dead);
  dead.state = UVS_JOB_DEAD;
  job.payload.data = bytes;
  job.payload.size = sizeof bytes;

  EQ(0, store_put(&f, &job)); /* done, with a record */
  SAYS("a", store_claim(&f, "q", 1));
  EQ(0, store_ack(&f, 0));
  EQ(0, sql_number(f.name, "SELECT count(*) FROM uvs_payloads"));
  job.rest = "b"; /* cancelled */
  EQ(0, store_put(&f, &job));
  EQ(0, store_cancel(&f, "q", "b"));
  EQ(0, sql_number(f.name, "SELECT count(*) FROM uvs_payloads"));
  job.rest = "c"; /* a dead letter keeps it until it is purged */
  EQ(0, store_put(&f, &job));
  SAYS("c", store_claim(&f, "q", 1));
  EQ(0, store_bury(&f, 0, "broken"));
  EQ(1, sql_number(f.name, "SELECT count(*) FROM uvs_payloads"));
  EQ(0, store_bulk(&f, UVS__PURGE, &dead, 0, 10));
  EQ(1, f.count);
  EQ(0, sql_number(f.name, "SELECT count(*) FROM uvs_payloads"));
  job.rest = "d"; /* replaced */
  job.key = "k";
  EQ(0, store_put(&f, &job));
  EQ(0, store_put_key(&f, "e", "k", UVS_KEY_REPLACE));
  EQ(0, sql_number(f.name, "SELECT count(*) FROM uvs_payloads"));
  store_close(&f);
  PASS();
}

TEST names_of_queues_that_are_not_used_any_more_are_trimmed(void) {
  struct store_fixture f;
  uvs_job_queue_t q = store_queue("set");
  char name[20];
  int i;

  fixture_init(&f);
  EQ(0, store_set_queue(&f, &q));
  for (i = 0; i < 20; i++) {
    snprintf(name, sizeof name, "q%d", i);
    EQ(0, store_put_simple(&f, name, "a"));
    if (i > 0)
      EQ(0, store_cancel(&f, name, "a"));
  }
  store_advance(&f, 60 * SEC);
  for (i = 0; i < 200; i++)
    store_trim(&f, 100, 100, 3600 * SEC, 100);
  EQ(2, sql_number(f.name, "SELECT count(*) FROM uvs_queues"));
  EQ(UVS_JOB_PENDING, store_state(&f, "q0", "a"));
  EQ(0, store_put_simple(&f, "q7", "a"));
  SAYS("a", store_claim(&f, "q7", 1));
  store_close(&f);
  PASS();
}

/* ----------------------------------------------------------------- durable --- */

/* Was the last transaction synced? */
static bool is_synced(const struct store_fixture *f) {
  return ((const struct uvs__sqlite *)f->first)->full;
}

/* Q51. Before each step, a trim is written without a sync. */
TEST what_a_callback_reports_is_written_with_a_sync(void) {
  struct uvs__cron cron = store_cron("nightly", 1);
  uvs_job_queue_t q = store_queue("q");
  struct store_fixture f;
  uvs_job_filter_t any;

  fixture_init(&f);
  uvs_job_filter_init(&any);
  EQ(0, store_put_simple(&f, "q", "dead"));
#define SYNCS(expected, step) \
  do { \
    EQ(0, store_trim(&f, 9, 9, 3600 * SEC, 9)); \
    EQ(false, is_synced(&f)); \
    step; \
    EQ(expected, is_synced(&f)); \
  } while (0)
  SYNCS(false, SAYS("dead", store_claim(&f, "q", 1)));
  SYNCS(false, EQ(0, store_extend(&f, 0, SEC)));
  SYNCS(false, EQ(0, store_retry(&f, 0, 0)));
  SAYS("dead", store_claim(&f, "q", 1));
  SYNCS(true, EQ(0, store_bury(&f, 0, "why")));
  SYNCS(true, EQ(0, store_put_simple(&f, "q", "a")));
  SYNCS(true, EQ(0, store_move(&f, "q", "a", after_us(0))));
  SYNCS(true, EQ(0, store_cancel(&f, "q", "a")));
  SYNCS(true, EQ(0, store_set_queue(&f, &q)));
  SYNCS(true, EQ(0, store_set_cron(&f, &cron)));
  SYNCS(true, EQ(0, store_remove_cron(&f, "nightly")));
  SYNCS(true, EQ(0, store_bulk(&f, UVS__REDRIVE, &any, 0, 10)));
  EQ(1, f.count);
  SYNCS(true, EQ(0, store_bulk(&f, UVS__PURGE, &any, 0, 10)));
  SAYS("dead", store_claim(&f, "q", 1));
  SYNCS(false, EQ(0, store_ack(&f, 0)));
#undef SYNCS
  store_close(&f);
  PASS();
}

/* ------------------------------------------------------------- busy, full --- */

TEST a_busy_file_answers_eagain_and_nothing_is_done(void) {
  struct store_fixture f;
  sqlite3 *other;

  fixture_init(&f);
  other = sql_open(f.name);
  sql_do(other, "BEGIN IMMEDIATE");
  EQ(UV_EAGAIN, store_put_simple(&f, "q", "a"));
  ASSERT(strstr(f.first->trouble, "locked") != NULL);
  EQ(0, store_state(&f, "q", "a")); /* reading goes on */
  sql_do(other, "COMMIT");
  sqlite3_close(other);
  EQ(0, store_put_simple(&f, "q", "a"));
  SAYS("", f.first->trouble);
  store_close(&f);
  PASS();
}

/* Q59 */
TEST nothing_is_written_to_a_file_that_was_deleted_or_replaced(void) {
  struct store_fixture f;
  char moved[400];

  fixture_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  snprintf(moved, sizeof moved, "%s-moved", f.name);
  ASSERT(rename(f.name, moved) == 0);
  EQ(UV_EAGAIN, store_put_simple(&f, "q", "b"));
  ASSERT(strstr(f.first->trouble, "deleted") != NULL);
  EQ(UV_EAGAIN, store_put_simple(&f, "q", "b"));
  EQ(-1, file_size(f.name)); /* no new file is made */
  ASSERT(rename(moved, f.name) == 0);
  EQ(0, store_put_simple(&f, "q", "b"));
  EQ(UVS_JOB_PENDING, store_state(&f, "q", "a"));
  store_close(&f);
  PASS();
}

static void note_status(struct uvs__request *r) {
  *(int *)r->owner = r->status;
}

/* Q59 */
TEST a_store_finds_its_file_again_after_a_change_of_the_working_directory(void) {
  struct uvs__store_config config = {.name = "jobs.db"};
  struct uvs__trim_request r = {.r = {.op = UVS__TRIM, .done = note_status}, .limit = 1};
  struct sqlite_folder d;
  struct uvs__store *store;
  char before[400], moved[400], text[300];
  int status = -1;

  r.r.owner = &status;
  folder_init(&d);
  folder_file(&d, "moved", moved);
  ASSERT(getcwd(before, sizeof before) != NULL);
  ASSERT(chdir(d.path) == 0);
  EQ(0, uvs__sqlite_open(&config, &store, text, sizeof text));
  ASSERT(chdir(before) == 0);
  ASSERT(rename(d.file, moved) == 0);
  store->ops->run(store, &r.r);
  EQ(UV_EAGAIN, status);
  ASSERT(rename(moved, d.file) == 0);
  store->ops->run(store, &r.r);
  EQ(0, status);
  store->ops->close(store);
  folder_remove(&d);
  PASS();
}

/* Q59 */
TEST a_file_that_took_the_place_of_another_is_used_from_then_on(void) {
  struct store_fixture f;
  char moved[400];

  fixture_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  snprintf(moved, sizeof moved, "%s-moved", f.name);
  ASSERT(rename(f.name, moved) == 0);
  snprintf(moved, sizeof moved, "%s-wal", f.name);
  ASSERT(unlink(moved) == 0);
  snprintf(moved, sizeof moved, "%s-shm", f.name);
  ASSERT(unlink(moved) == 0);
  snprintf(moved, sizeof moved, "%s-owners", f.name);
  ASSERT(unlink(moved) == 0);
  file_write(f.name, "", 0);
  ASSERT(f.first->ops->poll(f.first)); /* so the queues are looked at again */
  EQ(0, store_state(&f, "q", "a"));
  EQ(0, store_put_simple(&f, "q", "b"));
  EQ(UVS_JOB_PENDING, store_state(&f, "q", "b"));
  EQ(1, sql_number(f.name, "SELECT count(*) FROM uvs_owners"));
  store_close(&f);
  PASS();
}

/* Q44 */
TEST a_full_disk_refuses_puts_and_still_ends_jobs(void) {
  struct uvs__sqlite *s;
  struct store_fixture f;
  char limit[100], rest[20];
  int i, rc = 0;

  fixture_init(&f);
  s = (struct uvs__sqlite *)f.first;
  EQ(0, store_put_simple(&f, "q", "0"));
  snprintf(limit, sizeof limit, "PRAGMA max_page_count = %lld",
           (long long)sql_number_of(s->c.db, "PRAGMA page_count") + 3);
  sql_do(s->c.db, limit);
  for (i = 1; i < 10000 && rc == 0; i++) {
    snprintf(rest, sizeof rest, "%d", i);
    rc = store_put_simple(&f, "q", rest);
  }
  EQ(UV_ENOSPC, rc);
  ASSERT(strstr(f.first->trouble, "full") != NULL);
  EQ(0, store_state(&f, "q", rest));
  EQ(i - 1, store_count(&f, "q")->pending);
  SAYS("0 1", store_claim(&f, "q", 2));
  store_advance(&f, 60 * SEC);
  EQ(0, store_ack(&f, 0));
  EQ(0, store_ack(&f, 1));
  EQ(0, store_reopen(&f)); /* without the limit */
  EQ(i - 3, store_count(&f, "q")->pending);
  EQ(0, store_put_simple(&f, "q", rest));
  store_close(&f);
  PASS();
}

/* Q44 Q52 */
TEST a_request_that_does_not_fit_on_the_disk_does_not_fail_its_batch(void) {
  static char bytes[UVS_JOB_PAYLOAD_MAX];
  struct uvs__put puts[3] = {
      {.job = store_job("q", "a")}, {.job = store_job("q", "large")}, {.job = store_job("q", "b")}};
  struct uvs__put_request r[3];
  struct store_fixture f;
  char limit[100];
  int i;

  fixture_init(&f);
  EQ(0, store_put_simple(&f, "q", "0"));
  snprintf(limit, sizeof limit, "PRAGMA max_page_count = %lld",
           (long long)sql_number(f.name, "PRAGMA page_count") + 3);
  sql_do(((struct uvs__sqlite *)f.first)->c.db, limit);
  puts[1].job.payload.data = bytes;
  puts[1].job.payload.size = sizeof bytes;
  memset(r, 0, sizeof r);
  for (i = 0; i < 3; i++) {
    r[i].r.op = UVS__PUT;
    r[i].r.next = i < 2 ? &r[i + 1].r : NULL;
    r[i].puts = &puts[i];
    r[i].n = 1;
  }
  store_run(&f, &r[0].r);
  EQ(0, r[0].r.status);
  EQ(UV_ENOSPC, r[1].r.status);
  EQ(0, r[2].r.status);
  EQ(UVS_JOB_PENDING, store_state(&f, "q", "a"));
  EQ(0, store_state(&f, "q", "large"));
  EQ(UVS_JOB_PENDING, store_state(&f, "q", "b"));
  store_close(&f);
  PASS();
}

/* Q42 */
TEST a_dropped_table_is_reported_as_damage_and_not_retried(void) {
  struct store_fixture f;

  fixture_init(&f);
  sql_run(f.name, "DROP TABLE uvs_jobs");
  EQ(UV_EFTYPE, store_put_simple(&f, "q", "a"));
  ASSERT(strstr(f.first->trouble, "uvs_jobs") != NULL);
  store_close(&f);
  PASS();
}

/* --------------------------------------------------------------------- log --- */

static int64_t log_size(const struct store_fixture *f) {
  char path[400];

  snprintf(path, sizeof path, "%s-wal", f->name);
  return file_size(path);
}

static int put_many(struct store_fixture *f, int n) {
  static int number;
  char rest[20];
  int rc = 0;

  for (; n > 0 && rc == 0; n--) {
    snprintf(rest, sizeof rest, "m%d", number++);
    rc = store_put_simple(f, "q", rest);
  }
  return rc;
}

/* Q55 */
TEST an_idle_store_empties_the_log(void) {
  struct store_fixture f;

  fixture_init(&f);
  EQ(0, put_many(&f, 10));
  ASSERT(log_size(&f) > 0);
  EQ(0, f.first->ops->idle(f.first));
  EQ(0, log_size(&f));
  EQ(10, store_count(&f, "q")->pending);
  EQ(0, f.first->ops->idle(f.first));
  store_close(&f);
  PASS();
}

/* Q55 */
TEST a_reader_that_keeps_the_log_from_shrinking_makes_one_event(void) {
  struct store_fixture f;
  sqlite3 *reader;

  fixture_init(&f);
  EQ(0, put_many(&f, 1));
  reader = sql_open(f.name);
  sql_do(reader, "BEGIN");
  EQ(1, sql_number_of(reader, "SELECT count(*) FROM uvs_jobs"));
  EQ(0, put_many(&f, 10));
  EQ(0, f.first->ops->idle(f.first));
  store_advance(&f, 59 * SEC);
  EQ(0, f.first->ops->idle(f.first));
  store_advance(&f, 1 * SEC);
  EQ(UVS_EVENT_CANNOT_SHRINK, f.first->ops->idle(f.first));
  EQ(0, f.first->ops->idle(f.first));
  ASSERT(log_size(&f) > 0);
  sql_do(reader, "COMMIT");
  sqlite3_close(reader);
  EQ(0, f.first->ops->idle(f.first));
  EQ(0, log_size(&f));
  store_close(&f);
  PASS();
}

/* Q55 */
TEST under_load_the_log_stays_below_its_bound(void) {
  static char bytes[65536];
  struct uvs__record job = store_job("q", NULL);
  struct store_fixture f;
  int64_t largest = 0;
  char rest[20];
  int i;

  fixture_init(&f);
  job.payload.data = bytes;
  job.payload.size = sizeof bytes;
  for (i = 0; i < 800; i++) { /* 50 MB */
    snprintf(rest, sizeof rest, "%d", i);
    job.rest = rest;
    EQ(0, store_put(&f, &job));
    if (log_size(&f) > largest)
      largest = log_size(&f);
  }
  ASSERT(largest > 0);
  ASSERT(largest < 20 << 20);
  store_close(&f);
  PASS();
}

SUITE(keeps) {
  RUN_TEST(everything_is_there_after_close_and_open);
  RUN_TEST(payloads_of_all_sizes_come_back);
  RUN_TEST(no_payload_is_left_behind);
  RUN_TEST(what_a_callback_reports_is_written_with_a_sync);
  RUN_TEST(names_of_queues_that_are_not_used_any_more_are_trimmed);
}

SUITE(busy_or_full) {
  RUN_TEST(a_busy_file_answers_eagain_and_nothing_is_done);
  RUN_TEST(nothing_is_written_to_a_file_that_was_deleted_or_replaced);
  RUN_TEST(a_store_finds_its_file_again_after_a_change_of_the_working_directory);
  RUN_TEST(a_file_that_took_the_place_of_another_is_used_from_then_on);
  RUN_TEST(a_full_disk_refuses_puts_and_still_ends_jobs);
  RUN_TEST(a_request_that_does_not_fit_on_the_disk_does_not_fail_its_batch);
  RUN_TEST(a_dropped_table_is_reported_as_damage_and_not_retried);
}

SUITE(write_ahead_log) {
  RUN_TEST(an_idle_store_empties_the_log);
  RUN_TEST(a_reader_that_keeps_the_log_from_shrinking_makes_one_event);
  RUN_TEST(under_load_the_log_stays_below_its_bound);
}

TEST_MAIN(RUN_SUITE(keeps); RUN_SUITE(busy_or_full); RUN_SUITE(write_ahead_log));
