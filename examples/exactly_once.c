/* SPDX-License-Identifier: MIT
 *
 * Each payment is booked exactly once, although the process is killed again and again: the booking
 * and the end of its job are one transaction.
 *
 *   exactly_once               kills the bank 20 times at random instants, then counts the bookings
 *   exactly_once bank FILE     the bank: books all payments, then ends
 *
 * SEED=n uses the same random instants again. */
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <uvsched/jobs_sqlite.h>

#include "scratch.h"

#define PAYMENTS 300
#define KILLS 20

/* ----------------------------------------------------------------- database --- */

static sqlite3 *open_database(const char *file) {
  sqlite3 *db;

  EXPECT(sqlite3_open(file, &db) == SQLITE_OK);
  EXPECT(sqlite3_busy_timeout(db, 60000) == SQLITE_OK);
  EXPECT(sqlite3_exec(db, "PRAGMA synchronous = FULL", NULL, NULL, NULL) == SQLITE_OK);
  return db;
}

static int number(sqlite3 *db, const char *sql) {
  sqlite3_stmt *statement;
  int n;

  EXPECT(sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK);
  EXPECT(sqlite3_step(statement) == SQLITE_ROW);
  n = sqlite3_column_int(statement, 0);
  sqlite3_finalize(statement);
  return n;
}

static int payments_left(sqlite3 *db) {
  return number(db,
                "SELECT count(*) FROM payments WHERE number NOT IN (SELECT payment FROM booked)");
}

/* ------------------------------------------------------------------ the bank --- */

/* Writes all payments, and a job for each of them, in one transaction: all of that, or nothing. */
static void take_payments(sqlite3 *db) {
  char sql[80], rest[12], id[UVS_JOB_ID_MAX + 1];
  uvs_job_spec_t spec;

  EXPECT(sqlite3_exec(db,
                      "BEGIN IMMEDIATE;"
                      "CREATE TABLE IF NOT EXISTS payments(number INTEGER PRIMARY KEY);"
                      "CREATE TABLE IF NOT EXISTS booked(payment INTEGER);",
                      NULL, NULL, NULL) == SQLITE_OK);
  for (int i = number(db, "SELECT count(*) FROM payments"); i < PAYMENTS; i++) {
    snprintf(sql, sizeof sql, "INSERT INTO payments VALUES (%d)", i);
    EXPECT(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK);
    snprintf(rest, sizeof rest, "%d", i);
    uvs_job_spec_init(&spec);
    spec.name = "book";
    spec.id = rest;
    spec.payload = rest;
    spec.payload_size = strlen(rest) + 1;
    EXPECT(uvs_jobs_sqlite_put(db, &spec, id, NULL, 0) == 0);
  }
  EXPECT(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK);
}

static void on_closed(uvs_jobs_t *jobs, void *arg) {
  (void)arg;
  uvs_close(uvs_jobs_scheduler(jobs), NULL);
}

/* Books a payment and ends its job, in one transaction. Pool thread. */
static int book(uvs_job_t *job) {
  sqlite3 *db = job->arg; /* one handler at a time uses it */
  char sql[200];
  int rc;

  snprintf(sql, sizeof sql, "BEGIN IMMEDIATE; INSERT INTO booked VALUES (%s)",
           (const char *)job->payload);
  rc = sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : UV_EIO;
  if (rc == 0)
    rc = uvs_jobs_sqlite_done(db, job, NULL, 0);
  if (rc == 0 && sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
    rc = UV_EIO;
  if (!sqlite3_get_autocommit(db)) /* something failed: the transaction is still open */
    sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
  uvs_jobs_wake(job->jobs);
  if (payments_left(db) == 0)
    uvs_jobs_close(job->jobs, UVS_SEC(60), on_closed, NULL);
  return rc;
}

static int keep_bank(const char *file) {
  uv_loop_t *loop = uv_default_loop();
  uvs_jobs_options_t o;
  uvs_job_handler_t h;
  uvs_jobs_t *jobs;
  sqlite3 *db;
  uvs_t *s;
  char store[300], why[200];

  snprintf(store, sizeof store, "sqlite:%s", file);
  uvs_jobs_options_init(&o);
  o.store = store;
  EXPECT(uvs_open(loop, NULL, &s) == 0);
  EXPECT(uvs_jobs_open(s, &o, &jobs, why, sizeof why) == 0);
  db = open_database(file);
  take_payments(db);
  uvs_job_handler_init(&h);
  h.concurrency = 1;
  h.max_crashes = 0; /* one job may be hit by many kills; normally a job is given up after 5 */
  if (payments_left(db) == 0)
    EXPECT(uvs_jobs_close(jobs, 0, on_closed, NULL) == 0);
  else
    EXPECT(uvs_jobs_handle(jobs, "book", book, db, &h) == 0);
  uv_run(loop, UV_RUN_DEFAULT);
  EXPECT(sqlite3_close(db) == SQLITE_OK);
  return uv_loop_close(loop) != 0;
}

/* ---------------------------------------------------------------- the story --- */

static pid_t start_bank(const char *file) {
  char self[1000];
  size_t size = sizeof self;
  pid_t pid;

  EXPECT(uv_exepath(self, &size) == 0);
  fflush(stdout);
  pid = fork();
  EXPECT(pid >= 0);
  if (pid == 0) {
    execl(self, self, "bank", file, (char *)NULL);
    _exit(127);
  }
  return pid;
}

static void kill_again_and_again(const char *file) {
  const char *seed = getenv("SEED");
  unsigned n = seed != NULL ? (unsigned)atoi(seed) : (unsigned)getpid();
  int status;

  printf("seed %u\n", n);
  srand(n);
  for (int i = 0; i < KILLS; i++) {
    pid_t pid = start_bank(file);
    uv_sleep((unsigned)rand() % 100);
    EXPECT(kill(pid, SIGKILL) == 0);
    EXPECT(waitpid(pid, &status, 0) == pid);
    EXPECT(WIFSIGNALED(status) || WEXITSTATUS(status) == 0); /* it may have ended before the kill */
  }
}

int main(int argc, char **argv) {
  char folder[200], file[240];
  sqlite3 *db;
  int status, bookings, booked;
  pid_t pid;

  if (argc == 3)
    return keep_bank(argv[2]);
  make_scratch(folder, sizeof folder);
  snprintf(file, sizeof file, "%s/bank.db", folder);
  kill_again_and_again(file);
  pid = start_bank(file); /* the last bank works until all payments are booked */
  EXPECT(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);

  db = open_database(file);
  bookings = number(db, "SELECT count(*) FROM booked");
  booked = number(db, "SELECT count(DISTINCT payment) FROM booked");
  EXPECT(sqlite3_close(db) == SQLITE_OK);
  printf("bank killed %d times, %d payments, %d booked, %d booked twice\n", KILLS, PAYMENTS, booked,
         bookings - booked);
  EXPECT(booked == PAYMENTS && bookings == PAYMENTS);
  remove_scratch(folder);
  return 0;
}
