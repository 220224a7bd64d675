/* SPDX-License-Identifier: MIT
 *
 * The disk of power_disk.h, with SQLite alone: it loses what a real disk may lose, and nothing
 * else.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "lib/main.h"
#include "power_vfs.h"

#define ROWS 20 /* the newest that a program keeps */

static unsigned cuts;

/* -------------------------------------------------- a program of commits --- */

struct program {
  const char *setup; /* journal mode and synchronous */
  int commits;
  bool unsafe; /* a damaged file is no surprise */
};

/* What was found after a cut. */
struct found {
  int acked;  /* the last commit that was answered; -1: not even the table was made */
  int newest; /* the last commit that is there; -1 as above; INT_MIN: the file is damaged */
};

static int run_sql(sqlite3 *db, const char *sql) {
  return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

/* Commit i writes row i, of a size and with bytes that follow from i, and deletes an old row. */
static int commit_row(sqlite3 *db, int i) {
  char sql[400];

  snprintf(sql, sizeof sql,
           "BEGIN IMMEDIATE;"
           "INSERT INTO row VALUES (%d, zeroblob(%d) || printf('%%0*d', %d, %d));"
           "DELETE FROM row WHERE id <= %d; UPDATE counter SET value = %d; COMMIT",
           i, i % 3, i * 389 % 9000 + 1, i, i - ROWS, i);
  return run_sql(db, sql);
}

static int number(sqlite3 *db, const char *sql) {
  sqlite3_stmt *query = NULL;
  int value = INT_MIN;

  if (sqlite3_prepare_v2(db, sql, -1, &query, NULL) == SQLITE_OK &&
      sqlite3_step(query) == SQLITE_ROW)
    value = sqlite3_column_int(query, 0);
  return sqlite3_finalize(query) == SQLITE_OK ? value : INT_MIN;
}

/* Runs until the power is cut, or to the end. */
static int run_program(const struct program *p) {
  sqlite3 *db;
  int acked = -1;

  if (sqlite3_open("file.db", &db) == SQLITE_OK && run_sql(db, p->setup) == SQLITE_OK &&
      run_sql(db, "BEGIN; CREATE TABLE row (id INTEGER PRIMARY KEY, data);"
                  "CREATE TABLE counter (value); INSERT INTO counter VALUES (0); COMMIT") ==
          SQLITE_OK) {
    acked = 0;
    while (acked < p->commits && commit_row(db, acked + 1) == SQLITE_OK)
      acked++;
  }
  power_cut();
  sqlite3_close(db);
  power_on();
  return acked;
}

/* Is the file sound, and the state that of one commit? Returns its number. */
static int newest_commit(void) {
  sqlite3 *db;
  char sql[300];
  int newest = INT_MIN, oldest;

  if (sqlite3_open("file.db", &db) == SQLITE_OK &&
      number(db, "SELECT integrity_check = 'ok' FROM pragma_integrity_check") == 1) {
    newest = -1;
    if (number(db, "SELECT count(*) FROM sqlite_schema") > 0)
      newest = number(db, "SELECT value FROM counter");
    if (newest > 0) {
      oldest = newest > ROWS ? newest - ROWS + 1 : 1;
      snprintf(sql, sizeof sql,
               "SELECT count(*) = %d AND min(id) = %d AND max(id) = %d AND min(data ="
               " zeroblob(id %% 3) || printf('%%0*d', id * 389 %% 9000 + 1, id)) FROM row",
               newest - oldest + 1, oldest, newest);
      if (number(db, sql) != 1)
        newest = INT_MIN;
    }
  }
  sqlite3_close(db);
  return newest;
}

static struct found cut_once(const struct program *p, uint64_t seed) {
  struct found found;

  power_vfs_reset(seed);
  power_cut_at(1 + seed % 16381 % 700);
  found.acked = run_program(p);
  found.newest = newest_commit();
  return found;
}

struct tally {
  unsigned damaged; /* the file is not sound, or its state is that of no commit */
  unsigned lost;    /* a commit that was answered is not there */
  unsigned early;   /* a commit is there that did not begin */
  unsigned whole;   /* programs that were cut after their end */
};

static struct tally cut_often(const struct program *p) {
  uint64_t random = test_seed;
  struct tally tally = {0};

  for (unsigned i = 0; i < cuts; i++) {
    uint64_t seed = test_random(&random);
    struct found found = cut_once(p, seed);

    tally.damaged += found.newest == INT_MIN;
    tally.lost += found.newest != INT_MIN && found.newest < found.acked;
    tally.early += found.newest > found.acked + 1;
    tally.whole += found.acked == p->commits;
    if (found.newest == INT_MIN && !p->unsafe)
      printf("damaged: seed of the cut %llx\n", (unsigned long long)seed);
  }
  printf("%u cuts: %u damaged, %u lost, %u after the end\n", cuts, tally.damaged, tally.lost,
         tally.whole);
  return tally;
}

#define WAL "PRAGMA journal_mode = wal; PRAGMA wal_autocheckpoint = 12;"

TEST wal_with_full_sync_loses_no_commit(void) {
  struct tally tally = cut_often(&(struct program){WAL "PRAGMA synchronous = FULL", 60, false});

  ASSERT_EQ_FMT(0U, tally.damaged, "%u");
  ASSERT_EQ_FMT(0U, tally.lost, "%u");
  ASSERT_EQ_FMT(0U, tally.early, "%u");
  ASSERT(tally.whole < cuts / 2); /* Most cuts hit a program that runs. */
  PASS();
}

TEST wal_with_normal_sync_loses_the_tail_and_is_never_damaged(void) {
  struct tally tally = cut_often(&(struct program){WAL "PRAGMA synchronous = NORMAL", 60, false});

  ASSERT_EQ_FMT(0U, tally.damaged, "%u");
  ASSERT_EQ_FMT(0U, tally.early, "%u");
  ASSERT(tally.lost > cuts / 10);
  PASS();
}

TEST wal_without_sync_is_damaged(void) {
  struct tally tally = cut_often(&(struct program){WAL "PRAGMA synchronous = OFF", 60, true});

  ASSERT(tally.damaged > cuts / 10);
  ASSERT(tally.lost > cuts / 20);
  PASS();
}

/* FULL does not sync the directory after it has deleted the journal; EXTRA does. */
TEST a_rollback_journal_that_comes_back_undoes_the_last_commit(void) {
  struct tally tally = cut_often(&(struct program){"PRAGMA synchronous = FULL", 30, false});

  ASSERT_EQ_FMT(0U, tally.damaged, "%u");
  ASSERT(tally.lost > 0);
  tally = cut_often(&(struct program){"PRAGMA synchronous = EXTRA", 30, false});
  ASSERT_EQ_FMT(0U, tally.damaged, "%u");
  ASSERT_EQ_FMT(0U, tally.lost, "%u");
  PASS();
}

TEST a_seed_repeats_a_cut(void) {
  struct program p = {WAL "PRAGMA synchronous = OFF", 60, true};

  for (uint64_t seed = test_seed; seed < test_seed + 10; seed++) {
    struct found first = cut_once(&p, seed), second = cut_once(&p, seed);

    ASSERT_EQ_FMT(first.acked, second.acked, "%d");
    ASSERT_EQ_FMT(first.newest, second.newest, "%d");
  }
  PASS();
}

/* -------------------------------------------------------- the disk alone --- */

TEST a_write_is_kept_dropped_or_torn_at_sectors(void) {
  uint8_t block[4 * POWER_SECTOR];
  bool kept = false, dropped = false, torn = false;

  for (uint64_t seed = 1; seed <= 200; seed++) {
    struct power_file *f;
    unsigned new_sectors = 0;

    power_reset(seed);
    f = power_create("file");
    memset(block, 'a', sizeof block);
    ASSERT_EQ(SQLITE_OK, power_write(f, block, sizeof block, 0));
    ASSERT_EQ(SQLITE_OK, power_sync(f));
    memset(block, 'b', sizeof block);
    ASSERT_EQ(SQLITE_OK, power_write(f, block, sizeof block, 0));
    power_cut();
    ASSERT_EQ_FMT(sizeof block, f->live.size, "%zu");
    for (size_t i = 0; i < sizeof block; i++) {
      ASSERT_EQ(f->live.data[i / POWER_SECTOR * POWER_SECTOR], f->live.data[i]);
      if (i % POWER_SECTOR == 0)
        new_sectors += f->live.data[i] == 'b';
    }
    kept |= new_sectors == 4;
    dropped |= new_sectors == 0;
    torn |= new_sectors % 4 != 0;
  }
  ASSERT(kept);
  ASSERT(dropped);
  ASSERT(torn);
  PASS();
}

TEST a_later_write_can_survive_an_earlier_one(void) {
  bool seen[2][2] = {{false}};

  for (uint64_t seed = 1; seed <= 200; seed++) {
    struct power_file *f;

    power_reset(seed);
    f = power_create("file");
    power_write(f, "1", 1, 0);
    power_write(f, "2", 1, 5000);
    power_cut();
    seen[f->live.size > 0 && f->live.data[0] == '1']
        [f->live.size == 5001 && f->live.data[5000] == '2'] = true;
  }
  ASSERT(seen[0][0] && seen[0][1] && seen[1][0] && seen[1][1]);
  PASS();
}

TEST a_name_is_lost_unless_the_directory_is_synced(void) {
  bool created = false, lost = false, deleted = false, back = false;

  for (uint64_t seed = 1; seed <= 100; seed++) {
    struct power_file *f;

    power_reset(seed);
    f = power_create("file");
    power_sync(f);
    power_cut();
    power_on();
    created |= power_find("file") != NULL;
    lost |= power_find("file") == NULL;

    f = power_create("other");
    power_sync_directory();
    power_cut();
    power_on();
    ASSERT_EQ(f, power_find("other"));
    power_delete("other");
    ASSERT_EQ(NULL, power_find("other"));
    power_cut();
    power_on();
    deleted |= power_find("other") == NULL;
    back |= power_find("other") == f;
  }
  ASSERT(created && lost && deleted && back);
  PASS();
}

/* Readers see it, the next sync succeeds, and it is not on the disk. */
TEST what_a_failed_sync_drops_is_seen_until_the_cut(void) {
  unsigned lost = 0;

  for (uint64_t seed = 1; seed <= 100; seed++) {
    struct power_file *f;

    power_reset(seed);
    f = power_create("file");
    power_write(f, "1", 1, 0);
    power_fail(POWER_SYNC, 1, false, SQLITE_IOERR_FSYNC);
    ASSERT_EQ(SQLITE_IOERR_FSYNC, power_sync(f));
    ASSERT_EQ('1', f->live.data[0]);
    ASSERT_EQ(SQLITE_OK, power_sync(f));
    power_cut();
    lost += f->live.size == 0;
  }
  ASSERT(lost > 10 && lost < 90);
  PASS();
}

TEST the_nth_operation_fails_once_or_from_then_on(void) {
  struct power_file *f;

  power_reset(test_seed);
  f = power_create("file");
  power_fail(POWER_WRITE, 2, false, SQLITE_FULL);
  ASSERT_EQ(SQLITE_OK, power_write(f, "1", 1, 0));
  ASSERT_EQ(SQLITE_FULL, power_write(f, "2", 1, 1));
  ASSERT_EQ(SQLITE_OK, power_write(f, "3", 1, 2));
  power_fail(POWER_SYNC, 2, true, SQLITE_IOERR_FSYNC);
  ASSERT_EQ(SQLITE_OK, power_sync(f));
  ASSERT_EQ(SQLITE_IOERR_FSYNC, power_sync(f));
  ASSERT_EQ(SQLITE_IOERR_FSYNC, power_sync(f));
  power_heal();
  ASSERT_EQ(SQLITE_OK, power_sync(f));
  ASSERT_EQ_FMT((size_t)3, (size_t)power_count(POWER_WRITE), "%zu");
  ASSERT_EQ_FMT((size_t)4, (size_t)power_count(POWER_SYNC), "%zu");
  ASSERT_EQ_FMT((size_t)3, (size_t)power_failures(), "%zu");
  PASS();
}

/* ------------------------------------------------------- SQLite's methods --- */

TEST connections_lock_each_other_out_and_see_each_others_commits(void) {
  static const char *const modes[] = {"PRAGMA journal_mode = delete", "PRAGMA journal_mode = wal"};

  for (size_t i = 0; i < 2; i++) {
    sqlite3 *one, *two;

    power_vfs_reset(test_seed);
    ASSERT_EQ(SQLITE_OK, sqlite3_open("file.db", &one));
    ASSERT_EQ(SQLITE_OK, run_sql(one, modes[i]));
    ASSERT_EQ(SQLITE_OK, run_sql(one, "CREATE TABLE t (x)"));
    ASSERT_EQ(SQLITE_OK, sqlite3_open("file.db", &two));
    ASSERT_EQ(SQLITE_OK, run_sql(one, "BEGIN IMMEDIATE; INSERT INTO t VALUES (7)"));
    ASSERT_EQ(SQLITE_BUSY, run_sql(two, "BEGIN IMMEDIATE"));
    ASSERT_EQ_FMT(0, number(two, "SELECT count(*) FROM t"), "%d");
    ASSERT_EQ(SQLITE_OK, run_sql(one, "COMMIT"));
    ASSERT_EQ_FMT(7, number(two, "SELECT x FROM t"), "%d");
    ASSERT_EQ(SQLITE_OK, run_sql(two, "BEGIN; SELECT * FROM t"));
    /* A reader keeps the log from being emptied, or a writer from committing. */
    ASSERT_EQ(i == 1 ? SQLITE_OK : SQLITE_BUSY, run_sql(one, "INSERT INTO t VALUES (8)"));
    ASSERT_EQ_FMT((int)i, number(one, "PRAGMA wal_checkpoint(TRUNCATE)"), "%d");
    ASSERT_EQ(SQLITE_OK, run_sql(two, "COMMIT"));
    ASSERT_EQ_FMT(0, number(one, "PRAGMA wal_checkpoint(TRUNCATE)"), "%d");
    ASSERT_EQ(SQLITE_OK, sqlite3_close(one));
    ASSERT_EQ(SQLITE_OK, sqlite3_close(two));
    ASSERT_EQ(NULL, power_find("file.db-wal"));
  }
  PASS();
}

TEST open_files_are_dead_after_a_cut(void) {
  sqlite3 *before, *after;

  power_vfs_reset(test_seed);
  ASSERT_EQ(SQLITE_OK, sqlite3_open("file.db", &before));
  ASSERT_EQ(SQLITE_OK, run_sql(before, WAL "CREATE TABLE t (x)"));
  power_cut();
  ASSERT_EQ(SQLITE_IOERR, run_sql(before, "INSERT INTO t VALUES (1)") & 0xff);
  ASSERT(sqlite3_open("file.db", &after) != SQLITE_OK ||
         number(after, "SELECT count(*) FROM t") == INT_MIN);
  sqlite3_close(after);
  power_on();
  ASSERT_EQ(SQLITE_OK, sqlite3_open("file.db", &after));
  ASSERT_EQ_FMT(0, number(after, "SELECT count(*) FROM t"), "%d");
  ASSERT_EQ(SQLITE_IOERR, run_sql(before, "INSERT INTO t VALUES (1)") & 0xff);
  sqlite3_close(before);
  ASSERT_EQ(SQLITE_OK, run_sql(after, "INSERT INTO t VALUES (2)"));
  ASSERT_EQ(SQLITE_OK, sqlite3_close(after));
  PASS();
}

SUITE(power_vfs) {
  const char *stress = getenv("UVS_STRESS");

  power_vfs_register();
  cuts = stress != NULL && strcmp(stress, "long") == 0 ? 2000 : 200;
  RUN_TEST(a_write_is_kept_dropped_or_torn_at_sectors);
  RUN_TEST(a_later_write_can_survive_an_earlier_one);
  RUN_TEST(a_name_is_lost_unless_the_directory_is_synced);
  RUN_TEST(what_a_failed_sync_drops_is_seen_until_the_cut);
  RUN_TEST(the_nth_operation_fails_once_or_from_then_on);
  RUN_TEST(connections_lock_each_other_out_and_see_each_others_commits);
  RUN_TEST(open_files_are_dead_after_a_cut);
  RUN_TEST(a_seed_repeats_a_cut);
  RUN_TEST(wal_with_full_sync_loses_no_commit);
  RUN_TEST(wal_with_normal_sync_loses_the_tail_and_is_never_damaged);
  RUN_TEST(wal_without_sync_is_damaged);
  RUN_TEST(a_rollback_journal_that_comes_back_undoes_the_last_commit);
  power_reset(1);
}

TEST_MAIN(RUN_SUITE(power_vfs));
