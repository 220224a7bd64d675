/* SPDX-License-Identifier: MIT
 *
 * sqlite_transaction: begin, commit, and what an error of SQLite means.
 *
 * After an error of the disk, what is on the disk is not known: Linux may report a failed fsync
 * once, and then treat the lost pages as written. So from then on the store is suspect, and nothing
 * is done until uvs__sqlite_recover succeeds.
 */
#include <stdio.h>
#include <time.h>

#include "jobs/sqlite.h"

int64_t uvs__sqlite_wall_ns(const struct uvs__sqlite *s) {
  struct timespec t;

  if (s->clock.wall_ns != NULL)
    return s->clock.wall_ns(s->clock.arg);
  clock_gettime(CLOCK_REALTIME, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int uvs__sqlite_status(struct uvs__sqlite *s, int rc, bool at_commit) {
  snprintf(s->base.trouble, sizeof s->base.trouble, "%s: %s", s->path,
           sqlite3_extended_errcode(s->c.db) == rc ? sqlite3_errmsg(s->c.db) : sqlite3_errstr(rc));
  /* The log may hold the whole transaction although the commit failed, unless the transaction was
   * never begun (BUSY) or did not fit (FULL). */
  if (at_commit && (rc & 0xff) != SQLITE_BUSY && (rc & 0xff) != SQLITE_FULL) {
    s->suspect = true;
    return UVS_EUNKNOWN;
  }
  switch (rc & 0xff) {
  case SQLITE_BUSY:
  case SQLITE_LOCKED:
    return UV_EAGAIN;
  case SQLITE_FULL:
    return UV_ENOSPC;
  case SQLITE_NOMEM:
    return UV_ENOMEM;
  case SQLITE_IOERR:
    if (rc == SQLITE_IOERR_NOMEM)
      return UV_ENOMEM;
    s->suspect = true;
    return UV_EAGAIN;
  case SQLITE_CANTOPEN:
  case SQLITE_PROTOCOL:
    s->suspect = true;
    return UV_EAGAIN;
  case SQLITE_READONLY:
    return UV_EROFS;
  case SQLITE_CORRUPT:
  case SQLITE_NOTADB:
  case SQLITE_ERROR: /* a table is gone */
  case SQLITE_CONSTRAINT:
    return UV_EFTYPE;
  default:
    return UV_EIO;
  }
}

/* Only outside a transaction. */
static int set_durability(struct uvs__sqlite *s, bool full) {
  int rc = SQLITE_OK;

  if (s->full != full)
    rc = sqlite3_exec(s->c.db, full ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL",
                      NULL, NULL, NULL);
  if (rc == SQLITE_OK)
    s->full = full;
  return rc;
}

static void begin(struct uvs__sqlite *s, bool write) {
  uvs__do(&s->c, write ? UVS__SQL_BEGIN_WRITE : UVS__SQL_BEGIN, NULL);
  s->c.wall_ns = uvs__sqlite_wall_ns(s);
  s->c.now_us = s->c.wall_ns / 1000;
  s->c.queue = 0;
  s->c.events = false;
}

static void roll_back(struct uvs__sqlite *s) {
  uvs__db_reset(&s->c);
  if (!sqlite3_get_autocommit(s->c.db)) /* SQLite rolls back by itself after some errors */
    uvs__db_undo(&s->c, UVS__SQL_ROLLBACK);
  if (!sqlite3_get_autocommit(s->c.db))
    s->suspect = true;
}

bool uvs__sqlite_has_moved(struct uvs__sqlite *s) {
  int moved = 0;

  sqlite3_file_control(s->c.db, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
  if (moved == 0)
    return false;
  snprintf(s->base.trouble, sizeof s->base.trouble, "%s: the file was deleted or replaced",
           s->path);
  s->suspect = true;
  s->moved = true;
  return true;
}

int uvs__sqlite_begin(struct uvs__sqlite *s, bool write, bool full) {
  int status;

  if (write && uvs__sqlite_has_moved(s))
    return UV_EAGAIN;
  s->c.rc = write ? set_durability(s, full) : SQLITE_OK;
  begin(s, write);
  if (s->c.rc == SQLITE_OK)
    return 0;
  status = uvs__sqlite_status(s, s->c.rc, false);
  roll_back(s);
  return status;
}

int uvs__sqlite_commit(struct uvs__sqlite *s) {
  bool at_commit = s->c.rc == SQLITE_OK;
  int status;

  uvs__db_reset(&s->c);
  if (at_commit)
    uvs__do(&s->c, UVS__SQL_COMMIT, NULL);
  if (s->c.rc == SQLITE_OK) {
    s->base.events += s->c.events;
    return 0;
  }
  status = uvs__sqlite_status(s, s->c.rc, at_commit);
  roll_back(s);
  return status;
}
