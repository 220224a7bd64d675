/* SPDX-License-Identifier: MIT
 *
 * sqlite_schema: the tables, their version, and the way from each version to the next. The file may
 * be a database of the user: all names begin with uvs_, and neither user_version nor application_id
 * is touched.
 */
#include "jobs/sqlite.h"

/* A job, a dead letter, or the record of an end is one row of uvs_jobs. seq is its number
 * (store.h). Its place (queue, class, visible_us, seq) is the index uvs_due, or, for what has
 * ended, uvs_ended. Most jobs change three B-trees: the table, uvs_due and uvs_ids. The other
 * indexes leave out what they do not need.
 *
 * name is NULL if it is the name of the queue. big: the payload is in uvs_payloads. owner: who
 * claimed it. state, ended_us, result: only of what has ended.
 */
static const char version_1[] =
    "CREATE TABLE uvs_meta(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"
    "INSERT INTO uvs_meta VALUES ('version', 1), ('fence', 0), ('owner', 0);"

    "CREATE TABLE uvs_queues("
    " queue INTEGER PRIMARY KEY,"
    " name TEXT NOT NULL UNIQUE,"
    " is_set INTEGER NOT NULL DEFAULT 0,"
    " paused INTEGER NOT NULL DEFAULT 0,"
    " concurrency INTEGER NOT NULL DEFAULT 0,"
    " rate INTEGER NOT NULL DEFAULT 0,"
    " rate_ns INTEGER NOT NULL DEFAULT 1000000000,"
    " catch_up_rate INTEGER NOT NULL DEFAULT 0,"
    " rate_start_us INTEGER NOT NULL DEFAULT 0,"
    " rate_used INTEGER NOT NULL DEFAULT 0,"
    " catch_up_start_us INTEGER NOT NULL DEFAULT 0,"
    " catch_up_used INTEGER NOT NULL DEFAULT 0);"

    "CREATE TABLE uvs_jobs("
    " seq INTEGER PRIMARY KEY,"
    " queue INTEGER NOT NULL,"
    " class INTEGER NOT NULL,"
    " visible_us INTEGER NOT NULL,"
    " due_us INTEGER NOT NULL,"
    " put_us INTEGER NOT NULL,"
    " keep_us INTEGER NOT NULL,"
    " priority INTEGER NOT NULL,"
    " fence INTEGER NOT NULL DEFAULT 0,"
    " owner INTEGER NOT NULL DEFAULT 0,"
    " failures INTEGER NOT NULL DEFAULT 0,"
    " crashes INTEGER NOT NULL DEFAULT 0,"
    " cancelled INTEGER NOT NULL DEFAULT 0,"
    " big INTEGER NOT NULL DEFAULT 0,"
    " state INTEGER NOT NULL DEFAULT 0,"
    " ended_us INTEGER NOT NULL DEFAULT 0,"
    " rest TEXT NOT NULL,"
    " name TEXT,"
    " key TEXT,"
    " error TEXT,"
    " progress BLOB,"
    " result BLOB,"
    " meta BLOB,"
    " payload BLOB);"
    "CREATE UNIQUE INDEX uvs_ids ON uvs_jobs(queue, rest);"
    "CREATE INDEX uvs_due ON uvs_jobs(queue, class, visible_us) WHERE class < 5;"
    "CREATE UNIQUE INDEX uvs_keys ON uvs_jobs(queue, key) WHERE key IS NOT NULL AND class < 4;"
    "CREATE UNIQUE INDEX uvs_held ON uvs_jobs(queue, key) WHERE class = 4;"
    "CREATE INDEX uvs_ended ON uvs_jobs(class, visible_us) WHERE class >= 5;"
    "CREATE INDEX uvs_kept ON uvs_jobs(ended_us) WHERE class = 6;"
    "CREATE TABLE uvs_payloads(seq INTEGER PRIMARY KEY, payload BLOB NOT NULL);"

    "CREATE TABLE uvs_crons("
    " name TEXT PRIMARY KEY,"
    " revision INTEGER NOT NULL,"
    " expression TEXT NOT NULL,"
    " zone TEXT,"
    " misfire INTEGER NOT NULL,"
    " overlap INTEGER NOT NULL,"
    " max_missed INTEGER NOT NULL,"
    " last_us INTEGER NOT NULL,"
    " queue TEXT NOT NULL,"
    " job TEXT NOT NULL,"
    " priority INTEGER NOT NULL,"
    " keep_us INTEGER NOT NULL,"
    " payload BLOB,"
    " meta BLOB);"

    "CREATE TABLE uvs_events("
    " number INTEGER PRIMARY KEY, what INTEGER NOT NULL, id TEXT, text TEXT NOT NULL);"
    "CREATE TABLE uvs_owners(owner INTEGER PRIMARY KEY);";

const struct uvs__migration uvs__sqlite_migrations[] = {
    {1, version_1},
    {0, NULL},
};

static int one_number(sqlite3 *db, const char *sql, int *ret) {
  sqlite3_stmt *statement;
  int rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);

  if (rc != SQLITE_OK)
    return rc;
  rc = sqlite3_step(statement);
  *ret = rc == SQLITE_ROW ? sqlite3_column_int(statement, 0) : -1;
  rc = sqlite3_finalize(statement);
  return rc;
}

int uvs__sqlite_version(sqlite3 *db, int *ret_rc) {
  int tables = 0, version = -1;

  *ret_rc = one_number(db,
                       "SELECT count(*) FROM main.sqlite_schema WHERE name LIKE 'uvs\\_%'"
                       " ESCAPE '\\' AND name <> 'uvs_meta'",
                       &tables);
  if (*ret_rc != SQLITE_OK)
    return -1;
  *ret_rc =
      one_number(db, "SELECT count(*) FROM main.sqlite_schema WHERE name = 'uvs_meta'", &version);
  if (*ret_rc != SQLITE_OK || version == 0)
    return *ret_rc == SQLITE_OK && tables == 0 ? 0 : -1;
  *ret_rc = one_number(db, "SELECT value FROM main.uvs_meta WHERE name = 'version'", &version);
  return version > 0 ? version : -1;
}

/* In a transaction that is open. */
static int migrate(sqlite3 *db, const struct uvs__migration *steps) {
  int rc, version = uvs__sqlite_version(db, &rc);

  if (rc == SQLITE_OK && version < 0)
    return SQLITE_CORRUPT;
  for (; rc == SQLITE_OK && steps->sql != NULL; steps++) {
    if (steps->to <= version)
      continue;
    rc = sqlite3_exec(db, steps->sql, NULL, NULL, NULL);
    version = steps->to;
    if (rc == SQLITE_OK) {
      char text[80];

      sqlite3_snprintf(sizeof text, text, "UPDATE uvs_meta SET value = %d WHERE name = 'version'",
                       version);
      rc = sqlite3_exec(db, text, NULL, NULL, NULL);
    }
  }
  return rc;
}

static bool is_newest(int version, const struct uvs__migration *steps) {
  while (steps->sql != NULL && steps->to <= version)
    steps++;
  return steps->sql == NULL;
}

int uvs__sqlite_migrate(sqlite3 *db, const struct uvs__migration *steps) {
  int rc, version = uvs__sqlite_version(db, &rc);

  if (rc != SQLITE_OK || is_newest(version, steps))
    return rc;
  rc = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
  if (rc != SQLITE_OK)
    return rc;
  rc = migrate(db, steps); /* looks again: another process may have been faster */
  if (rc == SQLITE_OK)
    rc = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
  if (rc != SQLITE_OK && !sqlite3_get_autocommit(db))
    sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
  return rc;
}
