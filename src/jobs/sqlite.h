/* SPDX-License-Identifier: MIT
 *
 * sqlite: the files of the SQLite store (store.h). sqlite_schema.c has the tables.
 *
 *   sqlite_open.c    open and close a file; open it anew after an error of the disk
 *   sqlite_check.c   checks that a file can be used, before anything is changed
 *   sqlite_schema.c  tables, their version, migration
 *   sqlite_sql.c     all statements, and how to run one
 *   sqlite_run.c     carries out batches
 *   sqlite_transaction.c   begin, commit, and what an error of SQLite means
 *   sqlite_log.c     checkpoints of the write-ahead log
 *   sqlite_owners.c  which open store has claimed a job, and whether its process is alive
 *   sqlite_job.c     one job: find it, end it, events
 *   sqlite_put.c, sqlite_claim.c, sqlite_settle.c, sqlite_alter.c, sqlite_list.c, sqlite_cron.c,
 *   sqlite_admin.c   the requests
 *   sqlite_user.c    jobs in a transaction of the user (uvsched/jobs_sqlite.h)
 *   sqlite_linux.c, sqlite_other.c   what differs by platform
 */
#ifndef UVSCHED_JOBS_SQLITE_ROOMS_H
#define UVSCHED_JOBS_SQLITE_ROOMS_H

#include <sqlite3.h>

#include "jobs/store.h"
#include "jobs/job_spec.h"

#define UVS__SQLITE_VERSION 1  /* of the tables */
#define UVS__PAYLOAD_HERE 4096 /* larger payloads are in uvs_payloads */

/* Classes that store.h does not have. visible_us of a dead letter is when it ended, of a record of
 * an end the time until which it is kept. */
enum {
  UVS__CLASS_DEAD = 5,
  UVS__CLASS_KEPT, /* a record of an end; its time is set by keep_us */
  UVS__CLASS_ENDED /* a record of an end; its time is set by UVS__REPEAT_US */
};

/* ------------------------------------------------------------- statements --- */

/* The texts are in sqlite_sql.c. */
enum uvs__sql {
  UVS__SQL_BEGIN,
  UVS__SQL_BEGIN_WRITE,
  UVS__SQL_COMMIT,
  UVS__SQL_ROLLBACK,
  UVS__SQL_SAVEPOINT,
  UVS__SQL_RELEASE,
  UVS__SQL_ROLLBACK_TO,
  UVS__SQL_DATA_VERSION,
  UVS__SQL_COUNT_UP,
  UVS__SQL_SKIP_FENCES,
  UVS__SQL_SET_BOOT,
  UVS__SQL_FIND_QUEUE,
  UVS__SQL_ADD_QUEUE,
  UVS__SQL_SET_QUEUE,
  UVS__SQL_SET_WINDOWS,
  UVS__SQL_QUEUES,
  UVS__SQL_COUNT_QUEUES,
  UVS__SQL_LAST_QUEUE,
  UVS__SQL_DROP_QUEUES,
  UVS__SQL_PUT,
  UVS__SQL_PUT_PAYLOAD,
  UVS__SQL_GET_PAYLOAD,
  UVS__SQL_DROP_PAYLOAD,
  UVS__SQL_FIND,
  UVS__SQL_FIND_ROW,
  UVS__SQL_HOLDER,
  UVS__SQL_SUCCESSOR,
  UVS__SQL_PROMOTE,
  UVS__SQL_KEEP_END,
  UVS__SQL_DELETE,
  UVS__SQL_VISIBLE,
  UVS__SQL_LEASED,
  UVS__SQL_NEXT_LEASE_END,
  UVS__SQL_NEXT_VISIBLE,
  UVS__SQL_CLAIM,
  UVS__SQL_PENDING_AGAIN,
  UVS__SQL_EXTEND,
  UVS__SQL_ACK,
  UVS__SQL_ACK_AND_KEEP,
  UVS__SQL_DIE,
  UVS__SQL_SETTLED_RESULT,
  UVS__SQL_SETTLED_EXTEND,
  UVS__SQL_FLAG_CANCEL,
  UVS__SQL_MOVE,
  UVS__SQL_GET,
  UVS__SQL_SCAN,
  UVS__SQL_SCAN_DEAD,
  UVS__SQL_REDRIVE,
  UVS__SQL_EXPIRED,
  UVS__SQL_COUNT_KEPT,
  UVS__SQL_OLDEST_KEPT,
  UVS__SQL_COUNT_DEAD,
  UVS__SQL_OLDEST_DEAD,
  UVS__SQL_COUNT_PENDING,
  UVS__SQL_COUNT_LEASED,
  UVS__SQL_COUNT_DEAD_BY_QUEUE,
  UVS__SQL_FIND_CRON,
  UVS__SQL_SET_CRON,
  UVS__SQL_REMOVE_CRON,
  UVS__SQL_CRON_LAST,
  UVS__SQL_CRONS,
  UVS__SQL_COUNT_CRONS,
  UVS__SQL_ADD_EVENT,
  UVS__SQL_TRIM_EVENTS,
  UVS__SQL_EVENTS,
  UVS__SQL_LAST_EVENT,
  UVS__SQL_ADD_OWNER,
  UVS__SQL_OWNERS,
  UVS__SQL_DROP_OWNER,
  UVS__SQL_END_LEASES,
  UVS__SQL_STATEMENTS
};

/* A connection. The first error of a transaction stays in rc: after it no statement does anything,
 * and the transaction must be rolled back. So only the end of a request has to look at rc. */
struct uvs__db {
  sqlite3 *db;
  sqlite3_stmt *statements[UVS__SQL_STATEMENTS];
  int rc;                  /* of SQLite; SQLITE_NOMEM for our own memory too */
  int64_t wall_ns, now_us; /* of the transaction */
  int64_t owner;           /* number of this open store */
  bool events;             /* the transaction has made events */
  bool acks_keep;          /* the last ACK has left a record, so the next ACK probably will, too */

  /* The queue that was looked up last, in this transaction. */
  char queue_name[UVS_JOB_NAME_MAX + 1];
  int64_t queue;
};

/* What is bound to a statement. The end of a list has the type 0. */
struct uvs__arg {
  char type;
  int64_t number;
  struct uvs__bytes bytes;
};
static inline struct uvs__arg uvs__int(int64_t number) {
  return (struct uvs__arg){'i', number, {NULL, 0}};
}
static inline struct uvs__arg uvs__text(const char *text) { /* NULL: the NULL of SQL */
  return (struct uvs__arg){'t', 0, {text, 0}};
}
static inline struct uvs__arg uvs__blob(struct uvs__bytes bytes) { /* no bytes: the NULL of SQL */
  return (struct uvs__arg){'b', 0, bytes};
}
#define UVS__ARGS(...) \
  (const struct uvs__arg[]) { \
    __VA_ARGS__, { \
      0, 0, { \
        NULL, 0 \
      } \
    } \
  }

/* Runs a statement up to its first row. False: there is none, or an error. */
bool uvs__row(struct uvs__db *c, enum uvs__sql which, const struct uvs__arg *args);
bool uvs__next_row(struct uvs__db *c, enum uvs__sql which);
/* Ends a statement whose further rows are not wanted. The columns of its row are then invalid. */
void uvs__end_rows(struct uvs__db *c, enum uvs__sql which);
/* Runs a statement that has no rows. Returns how many rows it changed. */
int64_t uvs__do(struct uvs__db *c, enum uvs__sql which, const struct uvs__arg *args);
/* The number in the first row, or `otherwise` if there is no row. */
int64_t uvs__number(struct uvs__db *c, enum uvs__sql which, const struct uvs__arg *args,
                    int64_t otherwise);

/* Columns of the row; the first is 0. */
int64_t uvs__col(struct uvs__db *c, enum uvs__sql which, int column);
bool uvs__col_copy(struct uvs__db *c, enum uvs__sql which, int column, char *to, size_t size);
/* Copies into the arena. NULL stays NULL. False: no memory; rc is not set. */
bool uvs__col_text(struct uvs__db *c, enum uvs__sql which, int column, struct uvs__arena *a,
                   const char **ret);
bool uvs__col_bytes(struct uvs__db *c, enum uvs__sql which, int column, struct uvs__arena *a,
                    struct uvs__bytes *ret);

void uvs__db_failed(struct uvs__db *c, int rc); /* remembers the first error */
int uvs__db_prepare(struct uvs__db *c);         /* all statements; the result of SQLite */
int uvs__db_prepare_one(struct uvs__db *c, enum uvs__sql which);
/* Runs a statement even after an error. It was prepared before, because undoing must not need
 * memory. */
void uvs__db_undo(struct uvs__db *c, enum uvs__sql which);
void uvs__db_reset(struct uvs__db *c); /* ends the rows of all statements */
void uvs__db_finalize(struct uvs__db *c);

/* Raises a number of uvs_meta by one, and returns it. */
int64_t uvs__count_up(struct uvs__db *c, const char *name);

/* ------------------------------------------------------------------ store --- */

struct uvs__sqlite {
  struct uvs__store base;
  struct uvs__db c;
  char *path; /* as SQLite gets it */
  uvs_clock_t clock;
  int patience_ms; /* how long to wait for a busy file */
  bool full;       /* synchronous is FULL, not NORMAL */
  bool suspect;    /* the disk failed: the file must be opened anew before anything else */
  bool moved;      /* the file was deleted or replaced: the new file has other owners */
  int owners_fd;
  int64_t data_version;
  int log_frames;           /* in the write-ahead log */
  int64_t blocked_since_us; /* since when checkpoints cannot finish; 0: they can */
  bool blocked_told;
};

/* sqlite_open.c */
int64_t uvs__sqlite_wall_ns(const struct uvs__sqlite *s);
int uvs__sqlite_recover(struct uvs__sqlite *s); /* after an error of the disk: opens anew */

/* sqlite_check.c: changes nothing. Returns 0, or a code with a text. ret_path is allocated. */
int uvs__sqlite_check_path(const char *name, bool must_exist, char **ret_path, char *text,
                           size_t size);
int uvs__sqlite_check_file(sqlite3 *db, const char *path, char *text, size_t size);
/* Syncs the folder of a file, so that the names in it are on the disk. The result of SQLite. */
int uvs__sync_folder(const char *path);
/* The code and the text for an error of SQLite while a file is opened. */
int uvs__sqlite_open_error(sqlite3 *db, const char *path, int rc, char *text, size_t size);

/* sqlite_schema.c */
struct uvs__migration {
  int to; /* version */
  const char *sql;
};
extern const struct uvs__migration uvs__sqlite_migrations[]; /* the last one has sql NULL */
/* Brings the tables to the newest version, in one transaction. The result of SQLite. */
int uvs__sqlite_migrate(sqlite3 *db, const struct uvs__migration *steps);
/* The version of the tables; 0: there are none; -1: there are some, but without a version; or, with
 * *ret_rc not 0, an error. */
int uvs__sqlite_version(sqlite3 *db, int *ret_rc);

/* sqlite_run.c */
void uvs__sqlite_run(struct uvs__store *store, struct uvs__request *first);

/* sqlite_transaction.c */
/* What an error of SQLite means for a request; sets `trouble`, and `suspect` if it is the disk. */
int uvs__sqlite_status(struct uvs__sqlite *s, int rc, bool at_commit);
/* Was the file deleted or replaced? If so, marks the store as suspect: a file without a name, and
 * what is written to it, is gone when this process ends. */
bool uvs__sqlite_has_moved(struct uvs__sqlite *s);
/* Returns 0 or a status. `full`: durable when it is committed. */
int uvs__sqlite_begin(struct uvs__sqlite *s, bool write, bool full);
/* Returns 0 or a status; then everything was rolled back. */
int uvs__sqlite_commit(struct uvs__sqlite *s);

/* sqlite_log.c */
#define UVS__LOG_MAX_BYTES (64 << 20)
void uvs__sqlite_checkpoint(struct uvs__sqlite *s); /* if the log is long enough */
/* Writes the bytes of the log again, and syncs the log and its name. This is needed after a failed
 * sync: Linux may then show bytes that are not on the disk and never will be. If the power fails in
 * the middle of a checkpoint of such a log, the file is damaged. The result of SQLite. */
int uvs__sqlite_rewrite_log(sqlite3 *db);
int uvs__sqlite_idle(struct uvs__store *store);

/* sqlite_owners.c */
int uvs__sqlite_enter(struct uvs__sqlite *s); /* takes a number and its lock; a code of libuv */
void uvs__sqlite_leave(struct uvs__sqlite *s);
bool uvs__sqlite_poll(struct uvs__store *store);

/* sqlite_linux.c, sqlite_other.c */
/* The name of the network file system of this type (statfs), or NULL. */
const char *uvs__network_fs(uint64_t type);
const char *uvs__network_fs_of(const char *path);
int uvs__owners_open(const char *path);       /* a file descriptor, or a code of libuv */
bool uvs__owners_lock(int fd, int64_t owner); /* false: another open store has the lock */
bool uvs__owners_alive(int fd, int64_t owner);
int64_t uvs__boot_id(void); /* differs after each start of the system; 0: not known */

/* sqlite_user.c: what uvs_jobs_sqlite_done does, for a job that is known by its id and fence. */
int uvs__sqlite_done(sqlite3 *db, const char *id, uint64_t fence, char *text, size_t size);

/* --------------------------------------------------------------- one job --- */

struct uvs__row {
  int64_t seq, queue, visible_us, due_us, put_us, keep_us, failures, crashes;
  uint64_t fence; /* 0: not claimed */
  int class, priority;
  bool cancelled, big;
  bool keyed;             /* has a key */
  const char *queue_name; /* the caller's */
  char rest[UVS__REST_MAX + 1];
  char key[UVS__REST_MAX + 1];
};

/* The number of a queue; 0: there is none, or an error. */
int64_t uvs__find_queue(struct uvs__db *c, const char *name);
int64_t uvs__make_queue(struct uvs__db *c, const char *name); /* makes it if there is none */

/* Finds a job in any state. uvs__find does not find the record of an end whose time is over;
 * uvs__find_any does, and uvs__is_past tells. */
bool uvs__find_any(struct uvs__db *c, const char *queue, const char *rest, struct uvs__row *ret);
bool uvs__is_past(const struct uvs__db *c, const struct uvs__row *job);
bool uvs__find(struct uvs__db *c, const char *queue, const char *rest, struct uvs__row *ret);
bool uvs__find_row(struct uvs__db *c, const char *queue, int64_t seq, struct uvs__row *ret);
bool uvs__find_holder(struct uvs__db *c, const char *queue, const char *key, struct uvs__row *ret);
/* The dead letter that ended first, if that was before before_us. */
bool uvs__find_oldest_dead(struct uvs__db *c, int64_t before_us, struct uvs__row *ret);
bool uvs__find_successor(struct uvs__db *c, const struct uvs__row *job, struct uvs__row *ret);

/* How a job ended. */
struct uvs__end {
  int state; /* UVS_JOB_DONE, CANCELLED, REPLACED */
  int64_t ended_us, keep_us;
  int64_t least_us; /* keep the record at least up to here */
  uint64_t fence;   /* the user has settled the job with this fence; 0: the user has not */
  struct uvs__bytes result;
};
/* Turns the row into the record of an end, or removes it if no record is to be kept. */
void uvs__leave_record(struct uvs__db *c, const struct uvs__row *job, const struct uvs__end *end);
/* Ends a job: state UVS_JOB_DONE, CANCELLED or REPLACED. Its successor takes its place. */
void uvs__end_job(struct uvs__db *c, const struct uvs__row *job, int state,
                  struct uvs__bytes result);
void uvs__die(struct uvs__db *c, const struct uvs__row *job, const char *error);
void uvs__promote(struct uvs__db *c,
                  const struct uvs__row *job); /* its successor becomes pending, if there is one */
void uvs__remove_dead(struct uvs__db *c, const struct uvs__row *job); /* may leave a record */
void uvs__drop_row(struct uvs__db *c, int64_t seq, bool big);
void uvs__event(struct uvs__db *c, int what, const char *queue, const char *rest, const char *text);
static inline int uvs__class_of(int priority) {
  return UVS__CLASS_NORMAL - priority;
}

/* --------------------------------------------------------------- requests --- */

void uvs__put_jobs(struct uvs__db *c, struct uvs__put *puts, size_t n, struct uvs__arena *a);
void uvs__settle_item(struct uvs__db *c, struct uvs__settle *item, struct uvs__arena *a);
/* Settles a job as done, and leaves a record that knows the fence: a later settle with this fence
 * then succeeds. Status 0 or UVS_ELOST. */
int uvs__settle_for_user(struct uvs__db *c, const char *queue, const char *rest, uint64_t fence,
                         struct uvs__bytes result);
bool uvs__read_cron(struct uvs__db *c, enum uvs__sql which, struct uvs__arena *a,
                    struct uvs__cron *ret);

/* Each carries out a request in the transaction of c. */
void uvs__do_put(struct uvs__db *c, struct uvs__put_request *r);
void uvs__do_claim(struct uvs__db *c, struct uvs__claim_request *r);
void uvs__do_settle(struct uvs__db *c, struct uvs__settle_request *r);
void uvs__do_alter(struct uvs__db *c, struct uvs__alter_request *r);
void uvs__do_get(struct uvs__db *c, struct uvs__list_request *r);
void uvs__do_list(struct uvs__db *c, struct uvs__list_request *r);
void uvs__do_redrive(struct uvs__db *c, struct uvs__bulk_request *r);
void uvs__do_purge(struct uvs__db *c, struct uvs__bulk_request *r);
void uvs__do_set_queue(struct uvs__db *c, struct uvs__queue_request *r);
void uvs__do_set_cron(struct uvs__db *c, struct uvs__cron_request *r);
void uvs__do_remove_cron(struct uvs__db *c, struct uvs__cron_request *r);
void uvs__do_crons(struct uvs__db *c, struct uvs__cron_request *r);
void uvs__do_count(struct uvs__db *c, struct uvs__count_request *r);
void uvs__do_events(struct uvs__db *c, struct uvs__events_request *r);
void uvs__do_trim(struct uvs__db *c, struct uvs__trim_request *r);
void uvs__free_claimed(struct uvs__claim_request *r);

#endif
