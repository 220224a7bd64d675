/* SPDX-License-Identifier: MIT
 *
 * sqlite_user: jobs in a transaction of the user (uvsched/jobs_sqlite.h), on the user's connection.
 * The statements are compiled for one call. A savepoint undoes the call if it fails.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <uv.h>

#include <uvsched/jobs_sqlite.h>

#include "jobs/sqlite.h"

struct call {
  struct uvs__db c;
  sqlite3_int64 rowid; /* the user's, of the last insert */
  char *text;
  size_t size;
};

static int refuse(struct call *call, int code, const char *why) {
  if (call->text != NULL)
    snprintf(call->text, call->size, "%s", why);
  return code;
}

static int code_of(int rc) {
  switch (rc & 0xff) {
  case SQLITE_FULL:
    return UV_ENOSPC;
  case SQLITE_NOMEM:
    return UV_ENOMEM;
  case SQLITE_CORRUPT:
  case SQLITE_NOTADB:
  case SQLITE_ERROR:
  case SQLITE_CONSTRAINT:
    return UV_EFTYPE;
  default:
    return rc == SQLITE_IOERR_NOMEM ? UV_ENOMEM : UV_EIO;
  }
}

/* Checks that the tables exist, in a version that is known. */
static int check_tables(struct call *call) {
  int rc, version = uvs__sqlite_version(call->c.db, &rc);

  if (rc != SQLITE_OK)
    return refuse(call, code_of(rc), sqlite3_errmsg(call->c.db));
  if (version <= 0)
    return refuse(call, UV_ENOTSUP,
                  "the database has no tables of uvsched: open it as a store first");
  if (version != UVS__SQLITE_VERSION)
    return refuse(call, UV_ENOTSUP,
                  "this library does not know the version of the tables of uvsched");
  return 0;
}

static int begin(struct call *call, sqlite3 *db, char *text, size_t size) {
  struct timespec t;
  int rc;

  memset(call, 0, sizeof *call);
  call->text = size == 0 ? NULL : text;
  call->size = size;
  if (call->text != NULL)
    *text = '\0';
  if (db == NULL)
    return refuse(call, UV_EINVAL, "db is NULL");
  if (sqlite3_txn_state(db, "main") != SQLITE_TXN_WRITE)
    return refuse(call, UV_EINVAL,
                  "no write transaction is open on main: begin with BEGIN IMMEDIATE");
  call->c.db = db;
  rc = check_tables(call);
  if (rc != 0)
    return rc;
  clock_gettime(CLOCK_REALTIME, &t);
  call->c.wall_ns = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
  call->c.now_us = call->c.wall_ns / 1000;
  call->rowid = sqlite3_last_insert_rowid(db);
  rc = uvs__db_prepare_one(&call->c, UVS__SQL_ROLLBACK_TO);
  if (rc == SQLITE_OK)
    rc = uvs__db_prepare_one(&call->c, UVS__SQL_RELEASE);
  uvs__db_failed(&call->c, rc);
  uvs__do(&call->c, UVS__SQL_SAVEPOINT, NULL);
  if (call->c.rc == SQLITE_OK)
    return 0;
  uvs__db_finalize(&call->c);
  return refuse(call, code_of(call->c.rc), sqlite3_errmsg(db));
}

static int end(struct call *call) {
  struct uvs__db *c = &call->c;
  int rc;

  uvs__db_reset(c);
  uvs__do(c, UVS__SQL_RELEASE, NULL);
  rc = c->rc == SQLITE_OK ? 0 : refuse(call, code_of(c->rc), sqlite3_errmsg(c->db));
  if (rc != 0 && !sqlite3_get_autocommit(c->db)) {
    uvs__db_undo(c, UVS__SQL_ROLLBACK_TO);
    uvs__db_undo(c, UVS__SQL_RELEASE);
  }
  uvs__db_finalize(c);
  sqlite3_set_last_insert_rowid(c->db, call->rowid);
  return rc;
}

static int put(struct call *call, const uvs_job_spec_t *spec, char *ret_id) {
  struct uvs__put job = {.status = 0};
  struct uvs__arena arena = {NULL};
  struct uvs__id_maker maker = {0, {0}};
  uvs_job_spec_t s;
  char rest[27] = "";
  int rc;

  uvs__read_job_spec(spec, &s); /* it was checked */
  rc = s.id == NULL ? uvs__make_id(&maker, call->c.wall_ns, rest) : 0;
  if (rc != 0)
    return refuse(call, rc, "there are no random numbers for an id");
  if (!uvs__copy_spec(&s, rest, &arena, &job.job))
    uvs__db_failed(&call->c, SQLITE_NOMEM);
  uvs__put_jobs(&call->c, &job, 1, &arena);
  if (call->c.rc == SQLITE_OK)
    snprintf(ret_id, UVS_JOB_ID_MAX + 1, "%s/%s", job.job.queue,
             job.status == 0 ? job.job.rest : job.there);
  uvs__arena_free(&arena);
  return job.status;
}

int uvs_jobs_sqlite_put(struct sqlite3 *db, const uvs_job_spec_t *spec,
                        char ret_id[UVS_JOB_ID_MAX + 1], char *text, size_t text_size) {
  struct call call;
  int rc = uvs_job_check(spec, text, text_size), status;

  if (rc != 0)
    return rc;
  rc = begin(&call, db, text, text_size);
  if (rc != 0)
    return rc;
  status = put(&call, spec, ret_id);
  rc = end(&call);
  return rc == 0 ? status : rc;
}

int uvs__sqlite_done(sqlite3 *db, const char *id, uint64_t fence, char *text, size_t size) {
  char queue[UVS_JOB_NAME_MAX + 1];
  struct uvs__bytes none = {NULL, 0};
  struct call call;
  const char *rest;
  int rc = begin(&call, db, text, size), status;

  if (rc != 0)
    return rc;
  status = uvs__split_id(id, queue, &rest);
  if (status == 0)
    status = uvs__settle_for_user(&call.c, queue, rest, fence, none);
  rc = end(&call);
  if (rc == 0 && status == UVS_ELOST)
    refuse(&call, 0, "the lease is lost: the job was claimed again, or has ended");
  return rc == 0 ? status : rc;
}

int uvs_jobs_sqlite_done(struct sqlite3 *db, uvs_job_t *job, char *text, size_t text_size) {
  if (job == NULL) {
    snprintf(text, text == NULL ? 0 : text_size, "job is NULL");
    return UV_EINVAL;
  }
  return uvs__sqlite_done(db, job->id, job->fence, text, text_size);
}
