/* SPDX-License-Identifier: MIT
 *
 * sqlite_log: checkpoints copy the write-ahead log into the database file. The store makes them
 * itself, after it has answered: SQLite's own ones come inside a commit and keep silent about a
 * failed sync.
 */
#include "jobs/sqlite.h"

#define CHECKPOINT_FRAMES 4000            /* 16 MB; see docs/jobs.md for what was measured */
#define BLOCKED_LONG_US INT64_C(60000000) /* then it is worth an event */

/* Returns true if the whole log was copied. */
static bool checkpoint(struct uvs__sqlite *s, int mode) {
  int frames = 0, copied = 0, patience_ms = s->patience_ms, rc;

  s->patience_ms = 0; /* TRUNCATE would keep others from writing while it waits */
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

/* Notes since when a reader has kept the log from being copied. */
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
