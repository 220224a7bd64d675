/* SPDX-License-Identifier: MIT
 *
 * sqlite_open: opens and closes the SQLite store, and opens it anew after an error of the disk.
 */
#include <stdio.h>
#include <string.h>

#include <uv.h>

#include "jobs/alloc.h"
#include "jobs/sqlite.h"

#define PATIENCE_MS 250 /* how long to wait for another writer */

/* cache_size: -32768 means 32 MiB. The cache holds the rows and indexes that are in use, so it need
 * not grow with the number of jobs. secure_delete: FAST overwrites old content only where this
 * needs no extra write. On some systems the default needs extra writes. */
static const char pragmas[] = "PRAGMA synchronous = FULL;"
                              "PRAGMA cache_size = -32768;"
                              "PRAGMA mmap_size = 0;"
                              "PRAGMA temp_store = MEMORY;"
                              "PRAGMA secure_delete = FAST;"
                              "PRAGMA recursive_triggers = OFF;"
                              "PRAGMA foreign_keys = OFF;";

/* -------------------------------------------------------------- connection --- */

/* Waits in steps of 1 ms. SQLite's own steps grow to 100 ms, and then other writers come first. */
static int wait_for_others(void *arg, int tries) {
  const struct uvs__sqlite *s = arg;

  if (tries >= s->patience_ms)
    return 0;
  sqlite3_sleep(1);
  return 1;
}

static int note_frames(void *arg, sqlite3 *db, const char *name, int frames) {
  (void)db;
  (void)name;
  ((struct uvs__sqlite *)arg)->log_frames = frames;
  return SQLITE_OK;
}

/* Closes without a checkpoint: nothing is written. */
static void disconnect(struct uvs__sqlite *s) {
  uvs__db_finalize(&s->c);
  if (s->c.db != NULL) {
    sqlite3_db_config(s->c.db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_close(s->c.db);
  }
  s->c.db = NULL;
}

/* A connection to a file that can be used. Nothing is changed, except that a missing file is
 * created with no bytes. */
static int connect_file(struct uvs__sqlite *s, int flags, char *text, size_t size) {
  int rc = sqlite3_open_v2(s->path, &s->c.db,
                           SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE |
                               SQLITE_OPEN_EXRESCODE | flags,
                           NULL);

  if (rc == SQLITE_OK) {
    sqlite3_busy_handler(s->c.db, wait_for_others, s);
    sqlite3_wal_hook(s->c.db, note_frames, s);
    rc = uvs__sqlite_check_file(s->c.db, s->path, text, size);
  } else {
    rc = uvs__sqlite_open_error(s->c.db, s->path, rc, text, size);
  }
  if (rc != 0)
    disconnect(s);
  return rc;
}

/* The mode of the journal, in lower case. */
static int journal_mode(sqlite3 *db, const char *sql, char ret[16]) {
  sqlite3_stmt *statement;
  int rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);

  ret[0] = '\0';
  if (rc != SQLITE_OK)
    return rc;
  if (sqlite3_step(statement) == SQLITE_ROW)
    sqlite3_snprintf(16, ret, "%s", (const char *)sqlite3_column_text(statement, 0));
  return sqlite3_finalize(statement);
}

/* Sets up the write-ahead log, the tables and the statements. On an error, the journal mode is as
 * before. */
static int set_up(struct uvs__sqlite *s, char *text, size_t size) {
  sqlite3 *db = s->c.db;
  char before[16], mode[16];
  int rc = journal_mode(db, "PRAGMA main.journal_mode", before);

  if (rc == SQLITE_OK)
    rc = journal_mode(db, "PRAGMA main.journal_mode = WAL", mode);
  if (rc != SQLITE_OK)
    return uvs__sqlite_open_error(db, s->path, rc, text, size);
  if (strcmp(mode, "wal") != 0) {
    snprintf(text, size, "%s: the file system does not support the write-ahead log of SQLite",
             s->path);
    return UV_ENOTSUP;
  }
  rc = sqlite3_exec(db, pragmas, NULL, NULL, NULL);
  s->full = true;
  if (rc == SQLITE_OK)
    rc = uvs__sqlite_rewrite_log(db); /* a sync may have failed in an earlier process */
  if (rc == SQLITE_OK)
    rc = uvs__sqlite_migrate(db, uvs__sqlite_migrations);
  if (rc == SQLITE_OK)
    rc = uvs__db_prepare(&s->c);
  if (rc != SQLITE_OK) {
    rc = uvs__sqlite_open_error(db, s->path, rc, text, size);
    uvs__db_finalize(&s->c);
    if (strcmp(before, "wal") != 0)
      journal_mode(db, "PRAGMA main.journal_mode = DELETE", mode);
    return rc;
  }
  s->c.rc = SQLITE_OK;
  s->data_version = uvs__number(&s->c, UVS__SQL_DATA_VERSION, NULL, 0);
  return 0;
}

static int limit_log(sqlite3 *db) {
  char sql[60];

  sqlite3_snprintf(sizeof sql, sql, "PRAGMA main.journal_size_limit = %d", UVS__LOG_MAX_BYTES);
  return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

int uvs__sqlite_recover(struct uvs__sqlite *s) {
  char text[sizeof s->base.trouble];
  int rc;

  disconnect(s);
  rc = connect_file(s, 0, text, sizeof text);
  if (rc == 0)
    rc = set_up(s, text, sizeof text);
  if (rc == 0) {
    rc = sqlite3_wal_checkpoint_v2(s->c.db, "main", SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    if (rc == SQLITE_OK)
      rc = limit_log(s->c.db);
    if (rc == SQLITE_OK && s->moved && uvs__sqlite_enter(s) != 0) {
      disconnect(s);
      return UV_EAGAIN;
    }
    if (rc == SQLITE_OK) {
      s->moved = false;
      s->suspect = false;
      s->log_frames = 0;
      s->base.events++;
      return 0;
    }
    rc = uvs__sqlite_open_error(s->c.db, s->path, rc, text, sizeof text);
  }
  sqlite3_snprintf(sizeof s->base.trouble, s->base.trouble, "%s", text);
  disconnect(s);
  return rc == UV_EFTYPE || rc == UV_ENOTSUP ? rc : UV_EAGAIN;
}

/* -------------------------------------------------------------------- store --- */

static int64_t now_us(struct uvs__store *store) {
  return uvs__sqlite_wall_ns((struct uvs__sqlite *)store) / 1000;
}

static void close_store(struct uvs__store *store) {
  struct uvs__sqlite *s = (struct uvs__sqlite *)store;

  uvs__sqlite_leave(s);
  if (!s->suspect && s->c.db != NULL) { /* the last connection copies the log into the file */
    uvs__db_finalize(&s->c);
    sqlite3_close(s->c.db);
    s->c.db = NULL;
  }
  disconnect(s);
  uvs__jobs_free(s->path);
  uvs__jobs_free(s);
}

static const struct uvs__store_ops ops = {
    .run = uvs__sqlite_run,
    .poll = uvs__sqlite_poll,
    .idle = uvs__sqlite_idle,
    .now_us = now_us,
    .close = close_store,
};

static int enter(struct uvs__sqlite *s, char *text, size_t size) {
  int rc = limit_log(s->c.db);

  if (rc != SQLITE_OK)
    return uvs__sqlite_open_error(s->c.db, s->path, rc, text, size);
  rc = uvs__sqlite_enter(s);
  if (rc != 0 && s->base.trouble[0] != '\0') /* of a transaction */
    snprintf(text, size, "%s", s->base.trouble);
  else if (rc != 0)
    snprintf(text, size, "%s-owners: %s", s->path, uv_strerror(rc));
  return rc == UV_EAGAIN ? UV_EBUSY : rc;
}

/* The program may change its working directory before the store has to open the file again. */
static int keep_whole_path(struct uvs__sqlite *s, char *text, size_t size) {
  const char *whole = sqlite3_db_filename(s->c.db, "main");
  size_t length = strlen(whole) + 1;
  char *copy = uvs__jobs_alloc(length);

  if (copy == NULL) {
    snprintf(text, size, "no memory");
    return UV_ENOMEM;
  }
  memcpy(copy, whole, length);
  uvs__jobs_free(s->path);
  s->path = copy;
  return 0;
}

static int find_tables(struct uvs__sqlite *s, char *text, size_t size) {
  int rc, version = uvs__sqlite_version(s->c.db, &rc);

  if (rc != SQLITE_OK)
    return uvs__sqlite_open_error(s->c.db, s->path, rc, text, size);
  if (version != 0)
    return 0;
  snprintf(text, size, "%s has no tables of uvsched", s->path);
  return UV_ENOENT;
}

int uvs__sqlite_open(const struct uvs__store_config *config, struct uvs__store **ret, char *text,
                     size_t size) {
  struct uvs__sqlite *s;
  int rc;

  if (sqlite3_threadsafe() == 0) {
    snprintf(text, size, "SQLite was built without support for threads");
    return UV_ENOTSUP;
  }
  s = uvs__jobs_alloc(sizeof *s);
  if (s == NULL) {
    snprintf(text, size, "no memory");
    return UV_ENOMEM;
  }
  s->base.ops = &ops;
  s->base.poll_ms = 250;
  s->clock = config->clock;
  s->patience_ms = PATIENCE_MS;
  s->owners_fd = -1;
  rc = uvs__sqlite_check_path(config->name, config->existing, &s->path, text, size);
  if (rc == 0)
    rc = connect_file(s, config->existing ? 0 : SQLITE_OPEN_CREATE, text, size);
  if (rc == 0 && config->existing)
    rc = find_tables(s, text, size);
  if (rc == 0)
    rc = set_up(s, text, size);
  if (rc == 0)
    rc = enter(s, text, size);
  if (rc == 0)
    rc = keep_whole_path(s, text, size);
  if (rc != 0) {
    close_store(&s->base);
    return rc;
  }
  *ret = &s->base;
  return 0;
}
