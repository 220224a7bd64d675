/* SPDX-License-Identifier: MIT
 *
 * Durable jobs inside a SQLite transaction of your own. Your tables and the jobs are in one file,
 * so your changes and the jobs commit together, or not at all:
 *
 *   put   An order and the job that confirms it: neither is there without the other.
 *   done  The effect of a handler and the end of its job: the effect happens exactly once, even if
 *         the process is killed at any instant.
 *
 *     sqlite3_exec(db, "BEGIN IMMEDIATE", ...);
 *     ... your own statements ...
 *     rc = uvs_jobs_sqlite_done(db, job, text, sizeof text);
 *     sqlite3_exec(db, rc == 0 ? "COMMIT" : "ROLLBACK", ...);
 *     uvs_jobs_wake(jobs);
 *
 * RULES
 *   - db is a connection of your own to the file of a store that was opened with "sqlite:FILE"
 *     (also by another process). The tables of uvsched are in its database `main`.
 *   - Your program and this library must use the same SQLite library. Two copies in one process do
 *     not know each other's locks on the file, and may damage it.
 *   - A write transaction must be open: BEGIN IMMEDIATE, or a statement that has written.
 *   - The result is as durable as your connection makes it: use PRAGMA synchronous = FULL.
 *   - The job is in the store, or has ended, when your COMMIT succeeds. Then call uvs_jobs_wake:
 *     without it, open stores notice the change within 250 ms.
 *   - Times are read from the clock of the system, even if the store was opened with a replaced
 *     clock.
 *
 * ERRORS. text (may be NULL) gets one line that says what is wrong. If a function fails, it has
 * changed nothing. But when SQLite runs out of memory or disk space, or a read or write fails, it
 * may roll back your whole transaction. Then sqlite3_get_autocommit(db) is not 0.
 */
#ifndef UVSCHED_JOBS_SQLITE_H
#define UVSCHED_JOBS_SQLITE_H

#include <uvsched/jobs.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sqlite3;

/**
 * Put a job, in the open transaction of db. The rules of uvs_jobs_put hold for the spec.
 *
 * Thread:  the one that uses db.
 * Owns:    copies *spec.
 * Returns: 0, with the id of the new job in ret_id; UVS_JOB_EXISTS or UV_EEXIST (UVS_KEY_ERROR),
 *          with the id of the job that exists; UV_EINVAL (the spec is wrong, or no write
 *          transaction is open); UV_E2BIG; UV_ENOTSUP (no tables of uvsched, or tables of
 *          another version); UV_ENOSPC; UV_ENOMEM; UV_EFTYPE (the file is damaged); UV_EIO.
 */
UVS_API int uvs_jobs_sqlite_put(struct sqlite3 *db, const uvs_job_spec_t *spec,
                                char ret_id[UVS_JOB_ID_MAX + 1], char *text, size_t text_size);

/**
 * End a running job as done, in the open transaction of db. After COMMIT the job never runs again,
 * whatever the handler returns. After ROLLBACK the job is running as before. The handler should
 * return 0. Then its result and its uvs_job_put are still written, but in a later transaction,
 * which a crash may prevent: use uvs_jobs_sqlite_put for jobs that must not be lost.
 *
 * Thread:  the one that uses db, while the handler runs.
 * Returns: 0; UVS_ELOST (another claim of the job came later, or the job has ended: roll back);
 *          UV_EINVAL (no write transaction is open); UV_ENOTSUP; UV_ENOSPC; UV_ENOMEM; UV_EFTYPE;
 *          UV_EIO.
 */
UVS_API int uvs_jobs_sqlite_done(struct sqlite3 *db, uvs_job_t *job, char *text, size_t text_size);

#ifdef __cplusplus
}
#endif

#endif
