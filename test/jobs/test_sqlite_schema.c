/* SPDX-License-Identifier: MIT
 *
 * Versions of the tables. There is one version so far. sqlite_version_1.sql has a file of this
 * version, as text. It must not change, because such files must open for ever. The mechanism that
 * brings a file to a later version is tested with invented steps.
 */
#include "sqlite_fixture.h"

#include <string.h>

#include "jobs/sqlite.h"

/* The file that test/jobs/sqlite_version_1.sql describes. */
static void make_version_1(const char *file) {
  struct file_copy sql = file_read(VERSION_1_SQL);

  if (sql.data == NULL) {
    fprintf(stderr, "there is no " VERSION_1_SQL "\n");
    abort();
  }
  sql.data[sql.size] = '\0';
  sql_run(file, sql.data);
  free(sql.data);
}

/* Q45 */
TEST the_jobs_of_a_file_of_version_1_are_there_and_run(void) {
  struct store_fixture f;

  sqlite_only();
  store_init(&f);
  f.first->ops->close(f.first);
  remove(f.name);
  make_version_1(f.name);
  EQ(0, store_open_second(&f));
  f.first = f.second;
  f.second = NULL;
  EQ(UVS_JOB_PENDING, store_state(&f, "mail", "later"));
  SAYS("welcome", f.infos->name);
  EQ(UVS_JOB_HELD, store_state(&f, "mail", "held"));
  EQ(UVS_JOB_DEAD, store_state(&f, "mail", "dead"));
  SAYS("broken", f.infos->error);
  EQ(UVS_JOB_DONE, store_state(&f, "mail", "done"));
  EQ(0, store_crons(&f));
  EQ(1, f.n_crons);
  SAYS("0 3 * * *", f.crons[0].expression);
  EQ(5, store_count(&f, "mail")->concurrency);
  SAYS("dead mail/dead broken; queue mail", store_events(&f));
  EQ(5000, store_get(&f, "mail", "large") == 0 ? f.infos->payload_size : 0);
  store_advance(&f, 3600 * SEC);
  SAYS("now held large later", store_claim(&f, "mail", 9));
  EQ(1, f.claimed[0]->crashes); /* the process that had claimed it is dead */
  ASSERT(f.claimed[0]->fence > 7);
  EQ(0, store_ack(&f, 0));
  store_close(&f);
  PASS();
}

/* A new file has the same tables as one of version 1. If this fails, a table was changed without a
 * step to a new version. */
TEST the_tables_of_a_new_file_are_those_of_version_1(void) {
  static const char sum[] =
      "SELECT count(*) * 1000000 + sum(length(replace(replace(sql, ' ', ''), char(10), '')))"
      " FROM sqlite_schema WHERE sql IS NOT NULL";
  struct sqlite_folder f, old;

  folder_init(&f);
  folder_init(&old);
  EQ(0, folder_try(&f));
  make_version_1(old.file);
  EQ(1, UVS__SQLITE_VERSION);
  EQ(sql_number(old.file, sum), sql_number(f.file, sum));
  folder_remove(&f);
  folder_remove(&old);
  PASS();
}

/* ------------------------------------------------------------------ mechanism --- */

/* Steps as a later library would have them. */
static const struct uvs__migration to_3[] = {
    {1, "CREATE TABLE uvs_never(x)"}, /* done already */
    {2, "ALTER TABLE uvs_jobs ADD COLUMN colour TEXT; UPDATE uvs_jobs SET colour = 'red'"},
    {3, "CREATE TABLE uvs_new(x); INSERT INTO uvs_new SELECT count(*) FROM uvs_jobs"},
    {0, NULL},
};

/* Q45 */
TEST a_file_goes_through_the_steps_that_it_has_not_seen(void) {
  struct sqlite_folder f;
  sqlite3 *db;
  int rc;

  folder_init(&f);
  make_version_1(f.file);
  db = sql_open(f.file);
  EQ(1, uvs__sqlite_version(db, &rc));
  EQ(SQLITE_OK, uvs__sqlite_migrate(db, to_3));
  EQ(3, uvs__sqlite_version(db, &rc));
  EQ(0, sql_number_of(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'uvs_never'"));
  EQ(0, sql_number_of(db, "SELECT count(*) FROM uvs_jobs WHERE colour <> 'red'"));
  EQ(sql_number_of(db, "SELECT count(*) FROM uvs_jobs"),
     sql_number_of(db, "SELECT x FROM uvs_new"));
  EQ(SQLITE_OK, uvs__sqlite_migrate(db, to_3)); /* again: nothing happens */
  EQ(1, sql_number_of(db, "SELECT count(*) FROM uvs_new"));
  sqlite3_close(db);
  EQ(UV_ENOTSUP, folder_try(&f)); /* this library does not know version 3 */
  folder_remove(&f);
  PASS();
}

/* Q45 */
TEST a_step_that_fails_leaves_the_file_in_its_version(void) {
  static const struct uvs__migration broken[] = {
      {2, "ALTER TABLE uvs_jobs ADD COLUMN colour TEXT"},
      {3, "CREATE TABLE uvs_new(x); INSERT INTO no_such_table VALUES (1)"},
      {0, NULL},
  };
  struct sqlite_folder f;
  sqlite3 *db;
  int rc;

  folder_init(&f);
  make_version_1(f.file);
  db = sql_open(f.file);
  EQ(SQLITE_ERROR, uvs__sqlite_migrate(db, broken));
  EQ(1, sqlite3_get_autocommit(db));
  EQ(1, uvs__sqlite_version(db, &rc));
  EQ(0, sql_number_of(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'uvs_new'"));
  EQ(0, sql_number_of(db, "SELECT count(*) FROM pragma_table_info('uvs_jobs') WHERE name ="
                          " 'colour'"));
  sqlite3_close(db);
  EQ(0, folder_try(&f));
  folder_remove(&f);
  PASS();
}

SUITE(schema) {
  RUN_TEST(the_jobs_of_a_file_of_version_1_are_there_and_run);
  RUN_TEST(the_tables_of_a_new_file_are_those_of_version_1);
  RUN_TEST(a_file_goes_through_the_steps_that_it_has_not_seen);
  RUN_TEST(a_step_that_fails_leaves_the_file_in_its_version);
}

TEST_MAIN(RUN_SUITE(schema));
