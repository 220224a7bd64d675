/* SPDX-License-Identifier: MIT
 *
 * sqlite_log: checkpoints copy the write-ahead log into the database file. The store makes them
 * itself, after it has answered. SQLite's own checkpoints run inside a commit, and do not report a
 * failed sync.
 */
#include "jobs/alloc.h"
#include "jobs/sqlite.h"

#define COPY_BYTES 65536
#define CHECKPOINT_FRAMES 4000            /* 16 MB */
#define BLOCKED_LONG_US INT64_C(60000000) /* after this time an event reports the blockage */

/* -------------------------------------------------------------- write again --- */

static int rewrite(sqlite3_file *file) {
  const sqlite3_io_methods *methods = file->pMethods;
  sqlite3_int64 size, at;
  void *bytes;
  int rc = methods->xFileSize(file, &size);

  if (rc != SQLITE_OK || size == 0)
    return rc;
  bytes = uvs__jobs_alloc(COPY_BYTES);
  if (bytes == NULL)
    return SQLITE_NOMEM;
  for (at = 0; rc == SQLITE_OK && at < size; at += COPY_BYTES) {
    int n = size - at < COPY_BYTES ? (int)(size - at) : COPY_BYTES;

    rc = methods->xRead(file, bytes, n, at);
    if (rc == SQLITE_OK)
      rc = methods->xWrite(file, bytes, n, at);
  }
  uvs__jobs_free(bytes);
  return rc == SQLITE_OK ? methods->xSync(file, SQLITE_SYNC_NORMAL) : rc;
}

int uvs__sqlite_rewrite_log(sqlite3 *db) {
  sqlite3_file *log = NULL;
  int rc = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL); /* nobody else can write now */
  int rolled_back;

  if (rc != SQLITE_OK)
    return rc;
  rc = sqlite3_file_control(db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
  if (rc == SQLITE_OK && log != NULL && log->pMethods != NULL) {
    rc = rewrite(log);
    if (rc == SQLITE_OK)
      rc = uvs__sync_folder(sqlite3_db_filename(db, "main"));
  }
  rolled_back = sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
  return rc == SQLITE_OK ? rolled_back : rc;
}

/* -------------------------------------------------------------- checkpoints --- */

/* Returns true if the whole log was copied. */
static bool checkpoint(struct uvs__sqlite *s, int mode) {
  int frames = 0, copied = 0, patience_ms = s->patience_ms, rc;

  s->patience_ms = 0; /* do not wait: while TRUNCATE waits, nobody else can write */
  rc = sqlite3_wal_checkpoint_v2(s->c.db, "main", mode, &frames, &copied);
  s->patience_ms = patience_ms;
  if (rc != SQLITE_OK && (rc & 0xff) != SQLITE_BUSY) {
    uvs__sqlite_status(s, rc, false);
    return false;
  }
  if (rc == SQLITE_OK)
    s->log_frames = mode == SQLITE_CHECKPOINT_TRUNCATE ? 0 : frames - copied;
  return rc == SQLITE_OK && frames == copied;
}

/* Remembers since when a reader has prevented the copying of the log. */
static bool try_passive(struct uvs__sqlite *s) {
  bool whole = checkpoint(s, SQLITE_CHECKPOINT_PASSIVE);

  if (whole) {
    s->blocked_since_us = 0;
    s->blocked_told = false;
  } else if (s->blocked_since_us == 0) {
    s->blocked_since_us = s->base.ops->now_us(&s->base);
  }
  return whole;
}

void uvs__sqlite_checkpoint(struct uvs__sqlite *s) {
  if (s->log_frames >= CHECKPOINT_FRAMES)
    try_passive(s);
}

int uvs__sqlite_idle(struct uvs__store *store) {
  struct uvs__sqlite *s = (struct uvs__sqlite *)store;

  if (s->suspect)
    return 0;
  if (s->log_frames > 0 || s->blocked_since_us != 0) {
    if (try_passive(s))
      checkpoint(s, SQLITE_CHECKPOINT_TRUNCATE);
  }
  if (s->blocked_since_us == 0 || s->blocked_told ||
      store->ops->now_us(store) - s->blocked_since_us < BLOCKED_LONG_US)
    return 0;
  s->blocked_told = true;
  return UVS_EVENT_CANNOT_SHRINK;
}
