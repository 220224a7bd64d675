/* SPDX-License-Identifier: MIT
 *
 * sqlite_sql: all statements of the SQLite store, and how to run one. They are compiled once for
 * each connection. A query of a partial index repeats the condition of the index, or SQLite would
 * not use it.
 */
#include <string.h>

#include "jobs/sqlite.h"

#define ROW_COLUMNS \
  "SELECT seq, queue, class, visible_us, due_us, put_us, keep_us, failures, crashes, fence," \
  " priority, cancelled, big, rest, key FROM uvs_jobs "

/* A claimed job whose end changes only its own row. */
#define PLAIN_RUN \
  " WHERE seq = ?1 AND fence = ?2 AND rest = ?3 AND queue = ?4 AND class = 3 AND key IS NULL" \
  " AND keep_us <= 0 AND big = 0"

#define INFO_COLUMNS \
  "SELECT j.seq, j.class, j.state, j.fence, q.name, j.rest, ifnull(j.name, q.name), j.key," \
  " j.priority, j.visible_us, j.due_us, j.put_us, j.ended_us, j.failures, j.crashes," \
  " j.cancelled, j.error, j.big, j.payload, j.meta, j.progress, j.result" \
  " FROM uvs_jobs j CROSS JOIN uvs_queues q ON q.queue = j.queue "

#define CRON_COLUMNS \
  "SELECT name, revision, expression, zone, misfire, overlap, max_missed, last_us, queue, job," \
  " priority, keep_us, payload, meta, (SELECT visible_us FROM uvs_jobs WHERE queue =" \
  " (SELECT queue FROM uvs_queues WHERE name = '" UVS__CRON_QUEUE "') AND rest = uvs_crons.name)" \
  " FROM uvs_crons "

static const char *const texts[UVS__SQL_STATEMENTS] = {
    [UVS__SQL_BEGIN] = "BEGIN",
    [UVS__SQL_BEGIN_WRITE] = "BEGIN IMMEDIATE",
    [UVS__SQL_COMMIT] = "COMMIT",
    [UVS__SQL_ROLLBACK] = "ROLLBACK",
    [UVS__SQL_SAVEPOINT] = "SAVEPOINT uvs_step",
    [UVS__SQL_RELEASE] = "RELEASE uvs_step",
    [UVS__SQL_ROLLBACK_TO] = "ROLLBACK TO uvs_step",
    [UVS__SQL_DATA_VERSION] = "PRAGMA main.data_version",
    [UVS__SQL_COUNT_UP] = "UPDATE uvs_meta SET value = value + 1 WHERE name = ?1 RETURNING value",
    [UVS__SQL_SKIP_FENCES] =
        "UPDATE uvs_meta SET value = value + ?1 WHERE name = 'fence' AND value > 0 AND (?2 = 0"
        " OR NOT EXISTS (SELECT 1 FROM uvs_meta WHERE name = 'boot' AND value = ?2))",
    [UVS__SQL_SET_BOOT] = "INSERT OR REPLACE INTO uvs_meta VALUES ('boot', ?1)",

    /* queues */
    [UVS__SQL_FIND_QUEUE] =
        "SELECT queue, paused, concurrency, rate, rate_ns, catch_up_rate, rate_start_us,"
        " rate_used, catch_up_start_us, catch_up_used FROM uvs_queues WHERE name = ?1",
    [UVS__SQL_ADD_QUEUE] = "INSERT INTO uvs_queues(name) VALUES (?1) RETURNING queue",
    [UVS__SQL_SET_QUEUE] =
        "UPDATE uvs_queues SET is_set = 1, paused = ifnull(?2, paused),"
        " concurrency = ifnull(?3, concurrency), rate = ifnull(?4, rate),"
        " rate_ns = ifnull(?5, rate_ns), catch_up_rate = ifnull(?6, catch_up_rate)"
        " WHERE queue = ?1",
    [UVS__SQL_SET_WINDOWS] =
        "UPDATE uvs_queues SET rate_start_us = ?2, rate_used = ?3, catch_up_start_us = ?4,"
        " catch_up_used = ?5 WHERE queue = ?1",
    [UVS__SQL_QUEUES] =
        "SELECT queue, name, is_set, paused, concurrency, rate, rate_ns, catch_up_rate"
        " FROM uvs_queues WHERE name <> '" UVS__CRON_QUEUE "' ORDER BY name",
    [UVS__SQL_COUNT_QUEUES] = "SELECT count(*) FROM uvs_queues",
    [UVS__SQL_LAST_QUEUE] = "SELECT max(queue) FROM uvs_queues",
    [UVS__SQL_DROP_QUEUES] =
        "DELETE FROM uvs_queues WHERE is_set = 0 AND queue IN (SELECT queue FROM uvs_queues"
        " WHERE queue > ?1 ORDER BY queue LIMIT ?2) AND NOT EXISTS (SELECT 1 FROM uvs_jobs"
        " WHERE uvs_jobs.queue = uvs_queues.queue)",

    /* one job */
    [UVS__SQL_PUT] =
        "INSERT INTO uvs_jobs(queue, class, visible_us, due_us, put_us, keep_us, priority, big,"
        " rest, name, key, meta, payload)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)"
        " ON CONFLICT(queue, rest) DO NOTHING",
    [UVS__SQL_PUT_PAYLOAD] = "INSERT INTO uvs_payloads(seq, payload) VALUES (?1, ?2)",
    [UVS__SQL_GET_PAYLOAD] = "SELECT payload FROM uvs_payloads WHERE seq = ?1",
    [UVS__SQL_DROP_PAYLOAD] = "DELETE FROM uvs_payloads WHERE seq = ?1",
    [UVS__SQL_FIND] = ROW_COLUMNS "WHERE queue = ?1 AND rest = ?2",
    [UVS__SQL_FIND_ROW] = ROW_COLUMNS "WHERE seq = ?1",
    [UVS__SQL_HOLDER] =
        ROW_COLUMNS "INDEXED BY uvs_keys WHERE queue = ?1 AND key = ?2 AND class < 4",
    [UVS__SQL_SUCCESSOR] =
        ROW_COLUMNS "INDEXED BY uvs_held WHERE queue = ?1 AND key = ?2 AND class = 4",
    [UVS__SQL_PROMOTE] =
        "UPDATE uvs_jobs INDEXED BY uvs_held SET class = 1 - priority, visible_us = due_us"
        " WHERE queue = ?1 AND key = ?2 AND class = 4",
    [UVS__SQL_KEEP_END] =
        "UPDATE uvs_jobs SET class = ?2, visible_us = ?3, state = ?4, ended_us = ?5,"
        " failures = ?6, result = ?7, fence = ?8, owner = 0, cancelled = 0, big = 0, key = NULL,"
        " error = NULL, progress = NULL, meta = NULL, payload = NULL WHERE seq = ?1",
    [UVS__SQL_DELETE] = "DELETE FROM uvs_jobs WHERE seq = ?1",

    /* claim */
    [UVS__SQL_VISIBLE] =
        "SELECT seq, visible_us, fence, cancelled, rest, name, key, priority, failures, crashes,"
        " due_us, put_us, big, payload, meta FROM uvs_jobs INDEXED BY uvs_due"
        " WHERE queue = ?1 AND class = ?2 AND class < 5 AND visible_us >= ?3"
        " AND visible_us <= ?4 ORDER BY visible_us, seq",
    [UVS__SQL_LEASED] =
        "SELECT count(*) FROM uvs_jobs INDEXED BY uvs_due"
        " WHERE queue = ?1 AND class = 3 AND class < 5 AND visible_us > ?2 AND fence <> 0",
    [UVS__SQL_NEXT_LEASE_END] =
        "SELECT visible_us FROM uvs_jobs INDEXED BY uvs_due WHERE queue = ?1 AND class = 3"
        " AND class < 5 AND visible_us > ?2 AND fence <> 0 ORDER BY visible_us LIMIT 1",
    [UVS__SQL_NEXT_VISIBLE] =
        "SELECT visible_us FROM uvs_jobs INDEXED BY uvs_due WHERE queue = ?1 AND class = ?2"
        " AND class < 5 AND visible_us > ?3 ORDER BY visible_us LIMIT 1",
    [UVS__SQL_CLAIM] =
        "UPDATE uvs_jobs SET class = 3, visible_us = ?2, fence = ?3, owner = ?4, crashes = ?5"
        " WHERE seq = ?1",

    /* settle, alter */
    [UVS__SQL_PENDING_AGAIN] =
        "UPDATE uvs_jobs SET class = ?2, visible_us = ?3, due_us = ?3, failures = ?4,"
        " error = CASE WHEN ?5 THEN ?6 ELSE error END, fence = 0, owner = 0 WHERE seq = ?1",
    [UVS__SQL_EXTEND] =
        "UPDATE uvs_jobs SET visible_us = ?2, progress = ifnull(?3, progress) WHERE seq = ?1",
    [UVS__SQL_ACK] = "DELETE FROM uvs_jobs" PLAIN_RUN " AND put_us <= ?5",
    [UVS__SQL_ACK_AND_KEEP] =
        "UPDATE uvs_jobs SET class = 7, visible_us = put_us + ?6, state = ?7, ended_us = ?8,"
        " failures = failures + 1, result = ?9, fence = 0, owner = 0, cancelled = 0, error = NULL,"
        " progress = NULL, meta = NULL, payload = NULL" PLAIN_RUN " AND put_us > ?5",
    [UVS__SQL_DIE] =
        "UPDATE uvs_jobs SET class = 5, visible_us = ?2, state = ?3, ended_us = ?2,"
        " failures = ?4, error = ?5, fence = 0, owner = 0, cancelled = 0, progress = NULL"
        " WHERE seq = ?1",
    [UVS__SQL_SETTLED_RESULT] = "UPDATE uvs_jobs SET result = ifnull(?2, result) WHERE seq = ?1",
    [UVS__SQL_SETTLED_EXTEND] =
        "UPDATE uvs_jobs SET visible_us = max(visible_us, ?2) WHERE seq = ?1",
    [UVS__SQL_FLAG_CANCEL] = "UPDATE uvs_jobs SET cancelled = 1 WHERE seq = ?1",
    [UVS__SQL_MOVE] = "UPDATE uvs_jobs SET visible_us = ?2, due_us = ?3 WHERE seq = ?1",

    /* read, redrive, purge, trim */
    [UVS__SQL_GET] = INFO_COLUMNS "WHERE j.queue = ?1 AND j.rest = ?2",
    [UVS__SQL_SCAN] = INFO_COLUMNS "WHERE j.seq > ?1 ORDER BY j.seq",
    [UVS__SQL_SCAN_DEAD] = INFO_COLUMNS "WHERE +j.seq > ?1 AND j.class = 5 AND j.class >= 5"
                                        " ORDER BY +j.seq",
    [UVS__SQL_REDRIVE] =
        "UPDATE uvs_jobs SET class = 1 - priority, visible_us = ?2, due_us = ?2, failures = 0,"
        " crashes = 0, state = 0, ended_us = 0, error = NULL WHERE seq = ?1",
    [UVS__SQL_EXPIRED] =
        "DELETE FROM uvs_jobs WHERE seq IN (SELECT seq FROM uvs_jobs INDEXED BY uvs_ended"
        " WHERE class = ?1 AND class >= 5 AND visible_us <= ?2 ORDER BY visible_us LIMIT ?3)",
    [UVS__SQL_COUNT_KEPT] = "SELECT count(*) FROM uvs_jobs INDEXED BY uvs_ended"
                            " WHERE class = 6 AND class >= 5 AND visible_us > ?1",
    [UVS__SQL_OLDEST_KEPT] =
        "DELETE FROM uvs_jobs WHERE seq IN (SELECT seq FROM uvs_jobs INDEXED BY uvs_kept"
        " WHERE class = 6 AND visible_us > ?1 AND put_us <= ?2 ORDER BY ended_us, seq LIMIT ?3)",
    [UVS__SQL_COUNT_DEAD] =
        "SELECT count(*) FROM uvs_jobs INDEXED BY uvs_ended WHERE class = 5 AND class >= 5",
    [UVS__SQL_OLDEST_DEAD] =
        ROW_COLUMNS "INDEXED BY uvs_ended WHERE class = 5 AND class >= 5 AND visible_us < ?1"
                    " ORDER BY visible_us, seq LIMIT 1",

    /* count */
    [UVS__SQL_COUNT_PENDING] =
        "SELECT count(*), sum(visible_us <= ?2), min(visible_us) FROM uvs_jobs"
        " INDEXED BY uvs_due WHERE queue = ?1 AND class < 3 AND class < 5",
    [UVS__SQL_COUNT_LEASED] =
        "SELECT fence <> 0, count(*), sum(visible_us <= ?2), min(visible_us) FROM uvs_jobs"
        " INDEXED BY uvs_due WHERE queue = ?1 AND class = 3 AND class < 5 GROUP BY fence <> 0",
    [UVS__SQL_COUNT_DEAD_BY_QUEUE] =
        "SELECT queue, count(*) FROM uvs_jobs INDEXED BY uvs_ended"
        " WHERE class = 5 AND class >= 5 GROUP BY queue ORDER BY queue",

    /* crons */
    [UVS__SQL_FIND_CRON] = CRON_COLUMNS "WHERE name = ?1",
    [UVS__SQL_SET_CRON] =
        "INSERT OR REPLACE INTO uvs_crons(name, revision, expression, zone, misfire, overlap,"
        " max_missed, last_us, queue, job, priority, keep_us, payload, meta)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
    [UVS__SQL_REMOVE_CRON] = "DELETE FROM uvs_crons WHERE name = ?1",
    [UVS__SQL_CRON_LAST] = "UPDATE uvs_crons SET last_us = ?2 WHERE name = ?1 AND last_us < ?2",
    [UVS__SQL_CRONS] = CRON_COLUMNS "ORDER BY name",
    [UVS__SQL_COUNT_CRONS] = "SELECT count(*) FROM uvs_crons",

    /* events */
    [UVS__SQL_ADD_EVENT] =
        "INSERT INTO uvs_events(what, id, text) VALUES (?1, ?2, ?3) RETURNING number",
    [UVS__SQL_TRIM_EVENTS] = "DELETE FROM uvs_events WHERE number <= ?1",
    [UVS__SQL_EVENTS] =
        "SELECT number, what, id, text FROM uvs_events WHERE number > ?1 ORDER BY number"
        " LIMIT ?2",
    [UVS__SQL_LAST_EVENT] = "SELECT max(number) FROM uvs_events",

    /* owners */
    [UVS__SQL_ADD_OWNER] = "INSERT INTO uvs_owners(owner) VALUES (?1)",
    [UVS__SQL_OWNERS] = "SELECT owner FROM uvs_owners WHERE owner > ?1 ORDER BY owner",
    [UVS__SQL_DROP_OWNER] = "DELETE FROM uvs_owners WHERE owner = ?1",
    [UVS__SQL_END_LEASES] =
        "UPDATE uvs_jobs INDEXED BY uvs_due SET visible_us = ?2 WHERE class = 3 AND class < 5"
        " AND queue IN (SELECT queue FROM uvs_queues) AND visible_us > ?2 AND owner = ?1"
        " AND fence <> 0",
};

/* ------------------------------------------------------------- connection --- */

void uvs__db_failed(struct uvs__db *c, int rc) {
  if (c->rc == SQLITE_OK)
    c->rc = rc;
}

int uvs__db_prepare_one(struct uvs__db *c, enum uvs__sql which) {
  if (c->statements[which] != NULL)
    return SQLITE_OK;
  return sqlite3_prepare_v3(c->db, texts[which], -1, SQLITE_PREPARE_PERSISTENT,
                            &c->statements[which], NULL);
}

int uvs__db_prepare(struct uvs__db *c) {
  int i, rc = SQLITE_OK;

  for (i = 0; i < UVS__SQL_STATEMENTS && rc == SQLITE_OK; i++)
    rc = uvs__db_prepare_one(c, (enum uvs__sql)i);
  return rc;
}

void uvs__db_undo(struct uvs__db *c, enum uvs__sql which) {
  sqlite3_step(c->statements[which]);
  sqlite3_reset(c->statements[which]);
}

void uvs__db_reset(struct uvs__db *c) {
  int i;

  for (i = 0; i < UVS__SQL_STATEMENTS; i++) {
    if (c->statements[i] != NULL && sqlite3_stmt_busy(c->statements[i]))
      sqlite3_reset(c->statements[i]);
  }
}

void uvs__db_finalize(struct uvs__db *c) {
  int i;

  for (i = 0; i < UVS__SQL_STATEMENTS; i++) {
    sqlite3_finalize(c->statements[i]);
    c->statements[i] = NULL;
  }
}

/* ------------------------------------------------------------------- run --- */

static int bind_all(sqlite3_stmt *statement, const struct uvs__arg *args) {
  int i, rc = SQLITE_OK;

  for (i = 0; rc == SQLITE_OK && args[i].type != 0; i++) {
    const struct uvs__arg *a = &args[i];

    if (a->type == 'i')
      rc = sqlite3_bind_int64(statement, i + 1, a->number);
    else if (a->type == 't')
      rc = sqlite3_bind_text(statement, i + 1, a->bytes.data, -1, SQLITE_STATIC);
    else if (a->bytes.size == 0)
      rc = sqlite3_bind_null(statement, i + 1);
    else
      rc = sqlite3_bind_blob64(statement, i + 1, a->bytes.data, a->bytes.size, SQLITE_STATIC);
  }
  return rc;
}

static bool step(struct uvs__db *c, sqlite3_stmt *statement) {
  int rc = sqlite3_step(statement);

  if (rc == SQLITE_ROW)
    return true;
  sqlite3_reset(statement);
  if (rc != SQLITE_DONE)
    uvs__db_failed(c, rc);
  return false;
}

bool uvs__row(struct uvs__db *c, enum uvs__sql which, const struct uvs__arg *args) {
  int rc;

  if (c->rc != SQLITE_OK)
    return false;
  rc = uvs__db_prepare_one(c, which);
  if (rc == SQLITE_OK) {
    sqlite3_reset(c->statements[which]);
    rc = args == NULL ? SQLITE_OK : bind_all(c->statements[which], args);
  }
  if (rc != SQLITE_OK) {
    uvs__db_failed(c, rc);
    return false;
  }
  return step(c, c->statements[which]);
}

bool uvs__next_row(struct uvs__db *c, enum uvs__sql which) {
  return c->rc == SQLITE_OK && step(c, c->statements[which]);
}

void uvs__end_rows(struct uvs__db *c, enum uvs__sql which) {
  if (c->statements[which] != NULL)
    sqlite3_reset(c->statements[which]);
}

int64_t uvs__do(struct uvs__db *c, enum uvs__sql which, const struct uvs__arg *args) {
  uvs__row(c, which, args);
  return c->rc == SQLITE_OK ? sqlite3_changes64(c->db) : 0;
}

int64_t uvs__number(struct uvs__db *c, enum uvs__sql which, const struct uvs__arg *args,
                    int64_t otherwise) {
  if (uvs__row(c, which, args)) {
    otherwise = uvs__col(c, which, 0);
    /* A statement with RETURNING has done its work only after its last row. */
    while (uvs__next_row(c, which))
      ;
  }
  return otherwise;
}

int64_t uvs__col(struct uvs__db *c, enum uvs__sql which, int column) {
  return sqlite3_column_int64(c->statements[which], column);
}

bool uvs__col_copy(struct uvs__db *c, enum uvs__sql which, int column, char *to, size_t size) {
  const unsigned char *text = sqlite3_column_text(c->statements[which], column);
  size_t length = 0;

  if (text == NULL && sqlite3_column_type(c->statements[which], column) != SQLITE_NULL)
    uvs__db_failed(c, SQLITE_NOMEM);
  if (text != NULL) {
    length = (size_t)sqlite3_column_bytes(c->statements[which], column);
    if (length >= size) /* the store writes no text of this length */
      length = size - 1;
    memcpy(to, text, length);
  }
  to[length] = '\0';
  return text != NULL;
}

bool uvs__col_text(struct uvs__db *c, enum uvs__sql which, int column, struct uvs__arena *a,
                   const char **ret) {
  const char *text = (const char *)sqlite3_column_text(c->statements[which], column);

  *ret = NULL;
  if (text == NULL)
    return sqlite3_column_type(c->statements[which], column) == SQLITE_NULL;
  return uvs__arena_string(a, text, ret);
}

bool uvs__col_bytes(struct uvs__db *c, enum uvs__sql which, int column, struct uvs__arena *a,
                    struct uvs__bytes *ret) {
  const void *data = sqlite3_column_blob(c->statements[which], column);

  ret->size = (size_t)sqlite3_column_bytes(c->statements[which], column);
  ret->data = ret->size == 0 ? NULL : uvs__arena_copy(a, data, ret->size);
  return ret->size == 0 || ret->data != NULL;
}

int64_t uvs__count_up(struct uvs__db *c, const char *name) {
  return uvs__number(c, UVS__SQL_COUNT_UP, UVS__ARGS(uvs__text(name)), 0);
}
