/* SPDX-License-Identifier: MIT */
#include "promise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "power_vfs.h"

/* The store syncs the folder by itself, not through SQLite. */
int __wrap_uvs__sync_folder(const char *file);
int __wrap_uvs__sync_folder(const char *file) {
  (void)file;
  power_sync_directory();
  return SQLITE_OK;
}

void promise_make(struct promise *p, uint64_t seed) {
  memset(p, 0, sizeof *p);
  p->script = script_make(seed);
  /* The store looks at this file's owner and permissions; SQLite's bytes are on the other disk. */
  scratch_file(p->file, "jobs.db");
  power_vfs_reset(seed);
}

void promise_free(struct promise *p) {
  promise_close(p);
  free(p->script);
}

int promise_open(struct promise *p) {
  struct uvs__store_config config = {.name = p->file, .clock = script_clock(p->script)};

  return uvs__sqlite_open(&config, &p->store, p->why, sizeof p->why);
}

void promise_close(struct promise *p) {
  if (p->store != NULL)
    p->store->ops->close(p->store);
  p->store = NULL;
}

static void note(struct promise *p, const struct script_step *step) {
  const struct script_answer *a = &step->answers[SCRIPT_TESTED];
  bool answered = a->given && a->status == 0;

  for (unsigned i = 0; i < step->n; i++) {
    unsigned job = step->items[i].job;

    switch (step->op) {
    case SCRIPT_PUT:
      p->put[job] |= answered;
      p->cancelled[job] = false; /* A later job may have the id. */
      break;
    case SCRIPT_SETTLE:
      p->may_end[job] = true;
      if (step->items[i].puts)
        p->cancelled[step->items[i].put] = false;
      break;
    case SCRIPT_CANCEL:
      p->may_end[job] = true;
      p->cancelled[job] |= answered && a->statuses[i] == 0;
      break;
    default:
      break;
    }
  }
}

void promise_run(struct promise *p, unsigned first, unsigned n) {
  struct script *s = p->script;

  script_run(s, p->store, SCRIPT_TESTED, first, n);
  for (unsigned i = first; i < first + n; i++) {
    if (script_is_durable(s, i))
      p->durable = i + 1;
    note(p, &s->steps[i]);
  }
}

bool promise_is_sound(struct promise *p) {
  sqlite3 *db = NULL;
  sqlite3_stmt *query = NULL;
  bool sound = false;

  if (sqlite3_open(p->file, &db) == SQLITE_OK &&
      sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &query, NULL) == SQLITE_OK &&
      sqlite3_step(query) == SQLITE_ROW) {
    sound = strcmp((const char *)sqlite3_column_text(query, 0), "ok") == 0;
    snprintf(p->why, sizeof p->why, "integrity_check: %s",
             (const char *)sqlite3_column_text(query, 0));
  } else {
    snprintf(p->why, sizeof p->why, "SQLite: %s", sqlite3_errmsg(db));
  }
  sqlite3_finalize(query);
  sqlite3_close(db);
  return sound;
}

bool promise_is_kept(struct promise *p) {
  for (unsigned i = 0; i < p->script->n_jobs; i++) {
    bool intact;
    int state = script_state(p->script, p->store, i, &intact);
    bool lives = state == UVS_JOB_PENDING || state == UVS_JOB_RUNNING || state == UVS_JOB_HELD;

    /* A job with a key may not have been put, or may have been replaced. */
    if (p->put[i] && !p->may_end[i] && p->script->jobs[i].record.key == NULL &&
        !(lives && intact)) {
      snprintf(p->why, sizeof p->why, "job %u was acknowledged; its state is %d, intact %d", i,
               state, intact);
      return false;
    }
    if (p->cancelled[i] && lives) {
      snprintf(p->why, sizeof p->why, "job %u was cancelled, and is back", i);
      return false;
    }
  }
  return true;
}
