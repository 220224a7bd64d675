/* SPDX-License-Identifier: MIT
 *
 * Jobs in a SQLite transaction of the user: put and done commit with it, or not at all.
 */
#include "sqlite_fixture.h"

#include <string.h>
#include <time.h>

#include <uvsched/jobs_sqlite.h>

#include "jobs/sqlite.h"

/* A store on the system's clock, as the user's transactions are, and a connection of the user. */
struct txn {
  struct store_fixture f;
  sqlite3 *db;
  char text[300];
  char id[UVS_JOB_ID_MAX + 1];
};

static void txn_init(struct txn *t) {
  struct timespec now;

  sqlite_only();
  store_init(&t->f);
  clock_gettime(CLOCK_REALTIME, &now);
  t->f.wall_ns = (int64_t)now.tv_sec * 1000000000;
  t->db = sql_open(t->f.name);
  sql_do(t->db, "CREATE TABLE effects(what)");
}

static void txn_close(struct txn *t) {
  sqlite3_close(t->db);
  store_close(&t->f);
}

static int put(struct txn *t, const char *name, const char *id) {
  uvs_job_spec_t spec;

  uvs_job_spec_init(&spec);
  spec.name = name;
  spec.id = id;
  spec.payload = "pay";
  spec.payload_size = 3;
  t->id[0] = '\0';
  return uvs_jobs_sqlite_put(t->db, &spec, t->id, t->text, sizeof t->text);
}

static int done(struct txn *t, size_t i) {
  const struct uvs__claimed *c = t->f.claimed[i];
  char id[UVS_JOB_ID_MAX + 1];
  struct uvs_job_s job = {.id = id, .fence = c->fence};

  snprintf(id, sizeof id, "%s/%s", c->queue, c->rest);
  return uvs_jobs_sqlite_done(t->db, &job, t->text, sizeof t->text);
}

static void pass(struct txn *t, int64_t us) {
  store_advance(&t->f, us);
}

/* --------------------------------------------------------------------- put --- */

/* Q46 */
TEST a_job_is_there_after_commit(void) {
  struct txn t;

  txn_init(&t);
  sql_do(t.db, "BEGIN IMMEDIATE; INSERT INTO effects VALUES (1)");
  EQ(0, put(&t, "mail", "a"));
  SAYS("mail/a", t.id);
  EQ(0, store_state(&t.f, "mail", "a"));
  sql_do(t.db, "COMMIT");
  pass(&t, 60 * SEC);
  SAYS("a", store_claim(&t.f, "mail", 1));
  EQ(3, t.f.claimed[0]->payload.size);
  EQ(0, memcmp(t.f.claimed[0]->payload.data, "pay", 3));
  txn_close(&t);
  PASS();
}

/* Q46 */
TEST no_job_is_there_after_rollback(void) {
  struct txn t;

  txn_init(&t);
  sql_do(t.db, "BEGIN IMMEDIATE");
  EQ(0, put(&t, "mail", "a"));
  sql_do(t.db, "ROLLBACK");
  EQ(0, store_state(&t.f, "mail", "a"));
  txn_close(&t);
  PASS();
}

TEST an_id_is_made_if_there_is_none(void) {
  char first[UVS_JOB_ID_MAX + 1];
  struct txn t;

  txn_init(&t);
  sql_do(t.db, "BEGIN IMMEDIATE");
  EQ(0, put(&t, "mail", NULL));
  EQ(5 + 26, strlen(t.id));
  snprintf(first, sizeof first, "%s", t.id);
  EQ(0, put(&t, "mail", NULL));
  ASSERT(strcmp(first, t.id) != 0);
  sql_do(t.db, "COMMIT");
  EQ(2, store_count(&t.f, "mail")->pending);
  txn_close(&t);
  PASS();
}

TEST a_put_with_an_id_that_exists_names_it(void) {
  struct txn t;

  txn_init(&t);
  EQ(0, store_put_simple(&t.f, "mail", "a"));
  sql_do(t.db, "BEGIN IMMEDIATE");
  EQ(UVS_JOB_EXISTS, put(&t, "mail", "a"));
  SAYS("mail/a", t.id);
  sql_do(t.db, "COMMIT");
  txn_close(&t);
  PASS();
}

/* Q46 */
TEST a_put_needs_a_write_transaction(void) {
  struct txn t;

  txn_init(&t);
  EQ(UV_EINVAL, put(&t, "mail", "a"));
  ASSERT(strstr(t.text, "BEGIN IMMEDIATE") != NULL);
  sql_do(t.db, "BEGIN");
  EQ(UV_EINVAL, put(&t, "mail", "a"));
  sql_number_of(t.db, "SELECT count(*) FROM effects");
  EQ(UV_EINVAL, put(&t, "mail", "a"));
  sql_do(t.db, "INSERT INTO effects VALUES (1)");
  EQ(0, put(&t, "mail", "a"));
  SAYS("", t.text);
  sql_do(t.db, "COMMIT");
  EQ(UV_EINVAL, uvs_jobs_sqlite_put(NULL, NULL, t.id, NULL, 0));
  txn_close(&t);
  PASS();
}

TEST a_wrong_spec_is_refused_with_the_field(void) {
  struct txn t;

  txn_init(&t);
  sql_do(t.db, "BEGIN IMMEDIATE");
  EQ(UV_EINVAL, put(&t, "white space", "a"));
  ASSERT(strstr(t.text, "name") != NULL);
  sql_do(t.db, "ROLLBACK");
  txn_close(&t);
  PASS();
}

TEST a_database_without_our_tables_is_refused(void) {
  struct sqlite_folder folder;
  struct txn t;

  folder_init(&folder);
  t.db = sql_open(folder.file);
  sql_do(t.db, "BEGIN IMMEDIATE; CREATE TABLE effects(what)");
  EQ(UV_ENOTSUP, put(&t, "mail", "a"));
  ASSERT(strstr(t.text, "no tables") != NULL);
  sql_do(t.db, "ROLLBACK");
  EQ(0, folder_try(&folder));
  sql_do(t.db, "UPDATE uvs_meta SET value = 99 WHERE name = 'version'; BEGIN IMMEDIATE");
  EQ(UV_ENOTSUP, put(&t, "mail", "a"));
  ASSERT(strstr(t.text, "version") != NULL);
  sql_do(t.db, "ROLLBACK");
  sqlite3_close(t.db);
  folder_remove(&folder);
  PASS();
}

TEST a_put_leaves_the_last_rowid_of_the_user(void) {
  struct txn t;

  txn_init(&t);
  sql_do(t.db, "BEGIN IMMEDIATE; INSERT INTO effects(rowid, what) VALUES (77, 1)");
  EQ(0, put(&t, "mail", "a"));
  EQ(77, sqlite3_last_insert_rowid(t.db));
  sql_do(t.db, "COMMIT");
  txn_close(&t);
  PASS();
}

/* Q46 */
TEST a_put_that_fails_leaves_the_rest_of_the_transaction(void) {
  struct txn t;
  char limit[100];
  int i, rc = 0;

  txn_init(&t);
  sql_do(t.db, "BEGIN IMMEDIATE; INSERT INTO effects VALUES (1)");
  snprintf(limit, sizeof limit, "PRAGMA max_page_count = %lld",
           (long long)sql_number_of(t.db, "PRAGMA page_count"));
  sql_do(t.db, limit);
  for (i = 0; i < 1000 && rc == 0; i++)
    rc = put(&t, "mail", NULL);
  EQ(UV_ENOSPC, rc);
  ASSERT(strstr(t.text, "full") != NULL);
  if (sqlite3_get_autocommit(t.db) == 0) {
    sql_do(t.db, "COMMIT");
    EQ(i - 1, store_count(&t.f, "mail")->pending);
  }
  txn_close(&t);
  PASS();
}

/* -------------------------------------------------------------------- done --- */

/* Q46 */
TEST effect_and_end_commit_together(void) {
  struct txn t;

  txn_init(&t);
  EQ(0, store_put_simple(&t.f, "q", "a"));
  SAYS("a", store_claim(&t.f, "q", 1));
  sql_do(t.db, "BEGIN IMMEDIATE; INSERT INTO effects VALUES (1)");
  EQ(0, done(&t, 0));
  EQ(UVS_JOB_RUNNING, store_state(&t.f, "q", "a"));
  sql_do(t.db, "COMMIT");
  EQ(UVS_JOB_DONE, store_state(&t.f, "q", "a"));
  EQ(1, t.f.infos->attempts);
  pass(&t, 3600 * SEC);
  SAYS("", store_claim(&t.f, "q", 1));
  txn_close(&t);
  PASS();
}

/* Q46 */
TEST after_rollback_the_job_runs_as_before(void) {
  struct txn t;

  txn_init(&t);
  EQ(0, store_put_simple(&t.f, "q", "a"));
  SAYS("a", store_claim(&t.f, "q", 1));
  sql_do(t.db, "BEGIN IMMEDIATE");
  EQ(0, done(&t, 0));
  sql_do(t.db, "ROLLBACK");
  EQ(UVS_JOB_RUNNING, store_state(&t.f, "q", "a"));
  EQ(0, store_ack(&t.f, 0));
  EQ(UVS_ELOST, store_ack(&t.f, 0));
  txn_close(&t);
  PASS();
}

TEST a_lease_that_was_claimed_again_is_lost(void) {
  struct uvs__claimed *old;
  struct txn t;

  txn_init(&t);
  EQ(0, store_put_simple(&t.f, "q", "a"));
  SAYS("a", store_claim(&t.f, "q", 1));
  old = t.f.claimed[0];
  pass(&t, t.f.lease_us);
  SAYS("a", store_claim(&t.f, "q", 1));
  t.f.claimed[0] = old;
  sql_do(t.db, "BEGIN IMMEDIATE");
  EQ(UVS_ELOST, done(&t, 0));
  ASSERT(strstr(t.text, "lost") != NULL);
  sql_do(t.db, "COMMIT");
  EQ(UVS_JOB_RUNNING, store_state(&t.f, "q", "a"));
  txn_close(&t);
  PASS();
}

TEST a_job_that_has_ended_or_is_pending_is_lost(void) {
  struct txn t;

  txn_init(&t);
  EQ(0, store_put_simple(&t.f, "q", "a"));
  SAYS("a", store_claim(&t.f, "q", 1));
  EQ(0, store_release(&t.f, 0, 0));
  sql_do(t.db, "BEGIN IMMEDIATE");
  EQ(UVS_ELOST, done(&t, 0));
  sql_do(t.db, "ROLLBACK");
  SAYS("a", store_claim(&t.f, "q", 1));
  EQ(0, store_ack(&t.f, 0));
  sql_do(t.db, "BEGIN IMMEDIATE");
  EQ(UVS_ELOST, done(&t, 0));
  sql_do(t.db, "ROLLBACK");
  txn_close(&t);
  PASS();
}

/* Q46 */
TEST done_needs_a_write_transaction(void) {
  struct txn t;

  txn_init(&t);
  EQ(0, store_put_simple(&t.f, "q", "a"));
  SAYS("a", store_claim(&t.f, "q", 1));
  EQ(UV_EINVAL, done(&t, 0));
  EQ(UVS_JOB_RUNNING, store_state(&t.f, "q", "a"));
  EQ(UV_EINVAL, uvs_jobs_sqlite_done(t.db, NULL, NULL, 0));
  txn_close(&t);
  PASS();
}

/* Q46 */
TEST after_done_the_ack_of_the_handler_still_writes_its_result_and_puts(void) {
  struct uvs__put next = {.job = store_job("next", "b")};
  struct uvs__settle s;
  struct txn t;

  txn_init(&t);
  EQ(0, store_put_simple(&t.f, "q", "a"));
  SAYS("a", store_claim(&t.f, "q", 1));
  sql_do(t.db, "BEGIN IMMEDIATE");
  EQ(0, done(&t, 0));
  EQ(0, done(&t, 0)); /* again: nothing happens */
  sql_do(t.db, "COMMIT");
  s = store_settlement(&t.f, 0, UVS__ACK);
  s.result.data = "fine";
  s.result.size = 4;
  s.puts = &next;
  s.n_puts = 1;
  EQ(0, store_settle(&t.f, &s));
  EQ(0, next.status);
  EQ(UVS_JOB_PENDING, store_state(&t.f, "next", "b"));
  EQ(UVS_JOB_DONE, store_state(&t.f, "q", "a"));
  EQ(4, t.f.infos->result_size);
  txn_close(&t);
  PASS();
}

/* Q46 */
TEST after_done_the_job_stays_done_whatever_the_handler_returns(void) {
  struct txn t;

  txn_init(&t);
  EQ(0, store_put_simple(&t.f, "q", "a"));
  SAYS("a", store_claim(&t.f, "q", 1));
  sql_do(t.db, "BEGIN IMMEDIATE");
  EQ(0, done(&t, 0));
  sql_do(t.db, "COMMIT");
  EQ(0, store_retry(&t.f, 0, 0));
  EQ(0, store_bury(&t.f, 0, "failed"));
  EQ(0, store_release(&t.f, 0, 0));
  EQ(UVS_JOB_DONE, store_state(&t.f, "q", "a"));
  SAYS("", store_claim(&t.f, "q", 1));
  txn_close(&t);
  PASS();
}

TEST the_record_lasts_while_the_lease_is_extended(void) {
  struct txn t;
  int i;

  txn_init(&t);
  EQ(0, store_put_simple(&t.f, "q", "a"));
  SAYS("a", store_claim(&t.f, "q", 1));
  sql_do(t.db, "BEGIN IMMEDIATE");
  EQ(0, done(&t, 0));
  sql_do(t.db, "COMMIT");
  for (i = 0; i < 20; i++) {
    pass(&t, t.f.lease_us);
    EQ(0, store_extend(&t.f, 0, t.f.lease_us));
    store_trim(&t.f, 0, 0, 0, 100);
  }
  EQ(0, store_ack(&t.f, 0));
  pass(&t, 3600 * SEC);
  EQ(1, store_trim(&t.f, 100, 100, 3600 * SEC, 100));
  EQ(UVS_ELOST, store_ack(&t.f, 0));
  txn_close(&t);
  PASS();
}

TEST the_successor_of_a_done_job_is_pending_after_the_commit(void) {
  struct txn t;

  txn_init(&t);
  EQ(0, store_put_key(&t.f, "a", "k", UVS_KEY_KEEP));
  SAYS("a", store_claim(&t.f, "q", 1));
  EQ(0, store_put_key(&t.f, "b", "k", UVS_KEY_REPLACE));
  EQ(UVS_JOB_HELD, store_state(&t.f, "q", "b"));
  sql_do(t.db, "BEGIN IMMEDIATE");
  EQ(0, done(&t, 0));
  sql_do(t.db, "COMMIT");
  EQ(UVS_JOB_PENDING, store_state(&t.f, "q", "b"));
  SAYS("b", store_claim(&t.f, "q", 9));
  txn_close(&t);
  PASS();
}

/* Q18 */
TEST the_store_notices_a_commit_of_the_user(void) {
  struct txn t;

  txn_init(&t);
  t.f.first->ops->poll(t.f.first);
  ASSERT_FALSE(t.f.first->ops->poll(t.f.first));
  sql_do(t.db, "BEGIN IMMEDIATE");
  EQ(0, put(&t, "mail", "a"));
  ASSERT_FALSE(t.f.first->ops->poll(t.f.first));
  sql_do(t.db, "COMMIT");
  ASSERT(t.f.first->ops->poll(t.f.first));
  ASSERT_FALSE(t.f.first->ops->poll(t.f.first));
  txn_close(&t);
  PASS();
}

SUITE(put_in_a_transaction) {
  RUN_TEST(a_job_is_there_after_commit);
  RUN_TEST(no_job_is_there_after_rollback);
  RUN_TEST(an_id_is_made_if_there_is_none);
  RUN_TEST(a_put_with_an_id_that_exists_names_it);
  RUN_TEST(a_put_needs_a_write_transaction);
  RUN_TEST(a_wrong_spec_is_refused_with_the_field);
  RUN_TEST(a_database_without_our_tables_is_refused);
  RUN_TEST(a_put_leaves_the_last_rowid_of_the_user);
  RUN_TEST(a_put_that_fails_leaves_the_rest_of_the_transaction);
}

SUITE(done_in_a_transaction) {
  RUN_TEST(effect_and_end_commit_together);
  RUN_TEST(after_rollback_the_job_runs_as_before);
  RUN_TEST(a_lease_that_was_claimed_again_is_lost);
  RUN_TEST(a_job_that_has_ended_or_is_pending_is_lost);
  RUN_TEST(done_needs_a_write_transaction);
  RUN_TEST(after_done_the_ack_of_the_handler_still_writes_its_result_and_puts);
  RUN_TEST(after_done_the_job_stays_done_whatever_the_handler_returns);
  RUN_TEST(the_record_lasts_while_the_lease_is_extended);
  RUN_TEST(the_successor_of_a_done_job_is_pending_after_the_commit);
  RUN_TEST(the_store_notices_a_commit_of_the_user);
}

TEST_MAIN(RUN_SUITE(put_in_a_transaction); RUN_SUITE(done_in_a_transaction));
