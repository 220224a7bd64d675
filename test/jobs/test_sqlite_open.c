/* SPDX-License-Identifier: MIT
 *
 * Which files the SQLite store opens, which it refuses, and that a refused file is unchanged, byte
 * for byte.
 */
#include "sqlite_fixture.h"

#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/sqlite.h"

/* Expects a refusal with this code and these words in its text, and no change of the file. */
#define REFUSES(f, code, words) \
  do { \
    struct file_copy before_ = file_read((f)->file); \
    int rc_ = folder_try(f); \
    EQ(code, rc_); \
    if (strstr((f)->text, words) == NULL) \
      FAILm((f)->text); \
    ASSERT(strchr((f)->text, '\n') == NULL); \
    ASSERTm("the file was changed", file_is_as_before((f)->file, &before_)); \
  } while (0)

/* ----------------------------------------------------------------- accepted --- */

TEST a_missing_file_is_created(void) {
  struct sqlite_folder f;

  folder_init(&f);
  EQ(0, folder_try(&f));
  EQ(1, sql_number(f.file, "SELECT value FROM uvs_meta WHERE name = 'version'"));
  EQ(0, folder_try(&f));
  folder_remove(&f);
  PASS();
}

TEST an_empty_file_is_a_new_database(void) {
  struct sqlite_folder f;

  folder_init(&f);
  file_write(f.file, "", 0);
  EQ(0, folder_try(&f));
  EQ(1, sql_number(f.file, "SELECT value FROM uvs_meta WHERE name = 'version'"));
  folder_remove(&f);
  PASS();
}

/* Q56 */
TEST a_database_of_the_user_gets_only_tables_that_begin_with_uvs(void) {
  struct sqlite_folder f;

  folder_init(&f);
  sql_run(f.file, "PRAGMA user_version = 7; PRAGMA application_id = 77;"
                  "CREATE TABLE orders(id, what); INSERT INTO orders VALUES (1, 'tea');");
  EQ(0, folder_try(&f));
  EQ(7, sql_number(f.file, "PRAGMA user_version"));
  EQ(77, sql_number(f.file, "PRAGMA application_id"));
  EQ(1, sql_number(f.file, "SELECT count(*) FROM orders WHERE what = 'tea'"));
  EQ(0, sql_number(f.file, "SELECT count(*) FROM sqlite_schema WHERE tbl_name <> 'orders' AND"
                           " tbl_name NOT LIKE 'uvs\\_%' ESCAPE '\\'"));
  folder_remove(&f);
  PASS();
}

TEST a_database_in_utf_16_works(void) {
  struct store_fixture f;

  sqlite_only();
  store_init(&f);
  f.first->ops->close(f.first);
  EQ(0, unlink(f.name));
  sql_run(f.name, "PRAGMA encoding = 'UTF-16'; CREATE TABLE t(x)");
  EQ(0, store_open_second(&f));
  f.first = f.second;
  f.second = NULL;
  EQ(0, store_put_simple(&f, "q", "a"));
  SAYS("a", store_claim(&f, "q", 1));
  EQ(0, store_ack(&f, 0));
  EQ(UVS_JOB_DONE, store_state(&f, "q", "a"));
  store_close(&f);
  PASS();
}

TEST names_that_are_special_to_sqlite_are_plain_paths(void) {
  static const char *const names[] = {":memory:", "file:a?mode=memory", "file:b", "-x"};
  struct sqlite_folder f;
  char here[4096];
  size_t i;

  folder_init(&f);
  ASSERT(getcwd(here, sizeof here) != NULL);
  EQ(0, chdir(f.path));
  for (i = 0; i < sizeof names / sizeof *names; i++) {
    snprintf(f.file, sizeof f.file, "%s", names[i]);
    EQ(0, folder_try(&f));
    ASSERT(file_size(names[i]) > 0);
  }
  EQ(0, chdir(here));
  folder_remove(&f);
  PASS();
}

/* ----------------------------------------------------------------- refused --- */

TEST an_empty_name_is_refused(void) {
  struct sqlite_folder f;

  folder_init(&f);
  f.file[0] = '\0';
  EQ(UV_EINVAL, folder_try(&f));
  SAYS("the name of the file is empty", f.text);
  folder_remove(&f);
  PASS();
}

/* Q42 */
TEST a_file_that_is_not_sqlite_is_refused(void) {
  struct sqlite_folder f;
  char big[10000];

  folder_init(&f);
  file_write(f.file, "hello", 5);
  REFUSES(&f, UV_EFTYPE, "is not a SQLite database");
  memset(big, 'x', sizeof big);
  file_write(f.file, big, sizeof big);
  REFUSES(&f, UV_EFTYPE, "is not a SQLite database");
  folder_remove(&f);
  PASS();
}

/* Q42 */
TEST a_truncated_file_is_refused(void) {
  struct sqlite_folder f;
  struct file_copy copy;

  folder_init(&f);
  EQ(0, folder_try(&f));
  copy = file_read(f.file);
  file_write(f.file, copy.data, copy.size / 2);
  free(copy.data);
  REFUSES(&f, UV_EFTYPE, "damaged");
  folder_remove(&f);
  PASS();
}

/* Overwrites the page where a table or an index begins. */
static void damage(const char *file, const char *name) {
  char sql[200];
  struct file_copy copy;
  int64_t page, page_size = sql_number(file, "PRAGMA page_size");

  snprintf(sql, sizeof sql, "SELECT rootpage FROM sqlite_schema WHERE name = '%s'", name);
  page = sql_number(file, sql);
  copy = file_read(file);
  memset(copy.data + (page - 1) * page_size, 0xEE, (size_t)page_size);
  file_write(file, copy.data, copy.size);
  free(copy.data);
}

/* Q42 */
TEST a_file_with_a_damaged_table_or_index_is_refused(void) {
  static const char *const names[] = {"uvs_meta",
                                      "uvs_queues",
                                      "uvs_jobs",
                                      "uvs_ids",
                                      "uvs_due",
                                      "uvs_keys",
                                      "uvs_held",
                                      "uvs_ended",
                                      "uvs_kept",
                                      "uvs_crons",
                                      "uvs_events",
                                      "uvs_owners",
                                      "uvs_payloads",
                                      "sqlite_autoindex_uvs_queues_1",
                                      "sqlite_autoindex_uvs_crons_1"};
  struct sqlite_folder f;
  size_t i;

  for (i = 0; i < sizeof names / sizeof *names; i++) {
    folder_init(&f);
    EQ(0, folder_try(&f));
    damage(f.file, names[i]);
    REFUSES(&f, UV_EFTYPE, "damaged");
    folder_remove(&f);
  }
  PASS();
}

/* Q42 */
TEST tables_of_a_newer_version_are_refused(void) {
  struct sqlite_folder f;

  folder_init(&f);
  EQ(0, folder_try(&f));
  sql_run(f.file, "UPDATE uvs_meta SET value = 99 WHERE name = 'version'");
  REFUSES(&f, UV_ENOTSUP, "version 99");
  folder_remove(&f);
  PASS();
}

/* Q42. The version is in the log that a killed process has left. Neither the file nor the log
 * changes.
 */
TEST a_refused_database_keeps_its_log(void) {
  struct sqlite_folder f, left;
  char log[400], left_log[400];
  struct file_copy copy, before;
  sqlite3 *db;

  folder_init(&f);
  folder_init(&left);
  folder_file(&f, "jobs.db-wal", log);
  folder_file(&left, "jobs.db-wal", left_log);
  EQ(0, folder_try(&f));
  db = sql_open(f.file);
  sql_do(db, "UPDATE uvs_meta SET value = 99 WHERE name = 'version'");
  copy = file_read(f.file);
  file_write(left.file, copy.data, copy.size);
  free(copy.data);
  before = file_read(log);
  ASSERT(before.size > 0);
  file_write(left_log, before.data, before.size);
  sqlite3_close(db);
  REFUSES(&left, UV_ENOTSUP, "version 99");
  ASSERT(file_is_as_before(left_log, &before));
  folder_remove(&left);
  folder_remove(&f);
  PASS();
}

TEST tables_without_a_version_are_refused(void) {
  struct sqlite_folder f;

  folder_init(&f);
  sql_run(f.file, "CREATE TABLE uvs_jobs(x)");
  REFUSES(&f, UV_EFTYPE, "no version of them");
  folder_remove(&f);
  folder_init(&f);
  EQ(0, folder_try(&f));
  sql_run(f.file, "DELETE FROM uvs_meta");
  REFUSES(&f, UV_EFTYPE, "no version of them");
  folder_remove(&f);
  PASS();
}

/* Q42 */
TEST a_missing_table_is_refused(void) {
  struct sqlite_folder f;

  folder_init(&f);
  EQ(0, folder_try(&f));
  sql_run(f.file, "DROP TABLE uvs_crons");
  REFUSES(&f, UV_EFTYPE, "uvs_crons");
  folder_remove(&f);
  PASS();
}

TEST a_missing_folder_is_refused_and_not_made(void) {
  struct sqlite_folder f;
  char folder[400];

  folder_init(&f);
  folder_file(&f, "no", folder);
  snprintf(f.file, sizeof f.file, "%.250s/jobs.db", folder);
  REFUSES(&f, UV_ENOENT, "/no: ");
  EQ(-1, file_size(folder));
  file_write(folder, "", 0);
  REFUSES(&f, UV_ENOTDIR, "");
  folder_remove(&f);
  PASS();
}

TEST what_is_not_a_regular_file_is_refused(void) {
  struct sqlite_folder f;

  folder_init(&f);
  EQ(0, mkdir(f.file, 0700));
  EQ(UV_EISDIR, folder_try(&f));
  EQ(0, rmdir(f.file));
  EQ(0, mkfifo(f.file, 0600));
  EQ(UV_EFTYPE, folder_try(&f));
  folder_remove(&f);
  PASS();
}

TEST a_locked_database_is_refused(void) {
  struct sqlite_folder f;
  sqlite3 *other;

  folder_init(&f);
  sql_run(f.file, "CREATE TABLE t(x)");
  other = sql_open(f.file);
  sql_do(other, "BEGIN EXCLUSIVE");
  REFUSES(&f, UV_EBUSY, "locked");
  sql_do(other, "ROLLBACK");
  sqlite3_close(other);
  EQ(0, folder_try(&f));
  folder_remove(&f);
  PASS();
}

/* In a child, because root may write everywhere. Returns 0 or the line that failed. */
static int try_as_nobody(struct sqlite_folder *f, mode_t file_mode, mode_t folder_mode,
                         const char *words) {
  pid_t child;
  int status = -1;

  fflush(stdout);
  if (chmod(f->file, file_mode) != 0 || chmod(f->path, folder_mode) != 0)
    return __LINE__;
  child = fork();
  if (child == 0) {
    if (geteuid() == 0 && (setegid(65534) != 0 || seteuid(65534) != 0))
      _exit(2);
    if (folder_try(f) != UV_EACCES || strstr(f->text, words) == NULL) {
      fprintf(stderr, "%s\n", f->text);
      _exit(1);
    }
    _exit(0);
  }
  waitpid(child, &status, 0);
  chmod(f->path, 0777);
  return status;
}

/* Q42 */
TEST a_file_or_folder_without_permission_to_write_is_refused(void) {
  struct sqlite_folder f;
  struct file_copy before;

  folder_init(&f);
  EQ(0, folder_try(&f));
  before = file_read(f.file);
  EQ(0, try_as_nobody(&f, 0444, 0777, "the file is not readable and writable"));
  EQ(0, try_as_nobody(&f, 0222, 0777, "the file is not readable and writable"));
  EQ(0, try_as_nobody(&f, 0666, 0555, "the folder is not writable"));
  ASSERT(file_is_as_before(f.file, &before));
  folder_remove(&f);
  PASS();
}

/* Another user of a shared file must be able to open it, too. */
TEST the_file_of_the_owners_has_the_permissions_of_the_database(void) {
  struct sqlite_folder f;
  struct stat st;
  char owners[400];

  folder_init(&f);
  file_write(f.file, "", 0);
  EQ(0, chmod(f.file, 0662));
  EQ(0, folder_try(&f));
  EQ(0, stat(folder_file(&f, "jobs.db-owners", owners), &st));
  EQ(0662, st.st_mode & 0777);
  folder_remove(&f);
  PASS();
}

/* The number of an owner cannot be written. */
TEST an_error_of_the_first_transaction_names_the_database(void) {
  struct sqlite_folder f;

  folder_init(&f);
  EQ(0, folder_try(&f));
  sql_run(f.file, "CREATE TRIGGER no BEFORE INSERT ON uvs_owners"
                  " BEGIN SELECT RAISE(ABORT, 'there is no room'); END");
  REFUSES(&f, UV_EFTYPE, "jobs.db: there is no room");
  ASSERT_EQ(NULL, strstr(f.text, "-owners"));
  folder_remove(&f);
  PASS();
}

static int open_existing(struct sqlite_folder *f) {
  struct uvs__store_config config = {.name = f->file, .existing = true};

  return uvs__sqlite_open(&config, &f->store, f->text, sizeof f->text);
}

/* Q42 */
TEST a_file_without_a_store_is_refused_and_unchanged_if_the_store_must_exist(void) {
  struct sqlite_folder f;
  struct file_copy before;

  folder_init(&f);
  EQ(UV_ENOENT, open_existing(&f));
  EQ(-1, file_size(f.file)); /* none was made */
  file_write(f.file, "", 0);
  EQ(UV_ENOENT, open_existing(&f));
  EQ(0, file_size(f.file));
  sql_run(f.file, "CREATE TABLE orders(id, what)");
  before = file_read(f.file);
  EQ(UV_ENOENT, open_existing(&f));
  ASSERT(strstr(f.text, "jobs.db has no tables of uvsched") != NULL);
  ASSERT(file_is_as_before(f.file, &before));
  EQ(0, folder_try(&f));
  EQ(0, open_existing(&f));
  folder_close(&f);
  folder_remove(&f);
  PASS();
}

/* Q42 */
TEST network_file_systems_are_known_by_their_type(void) {
  static const struct {
    uint64_t type;
    const char *name;
  } all[] = {
      {0x6969, "NFS"},        {0x517B, "SMB"},
      {0xFF534D42, "CIFS"},   {0xFE534D42, "SMB2"},
      {0x65735546, "FUSE"},   {0x00C36400, "Ceph"},
      {0x5346414F, "AFS"},    {0x01021997, "9P"},
      {0x0BD00BD0, "Lustre"}, {0xFFFFFFFFFF534D42, "CIFS"} /* a 32-bit system extends the sign */};
  size_t i;

  for (i = 0; i < sizeof all / sizeof *all; i++)
    SAYS(all[i].name, uvs__network_fs(all[i].type));
  ASSERT_EQ(NULL, uvs__network_fs(0xEF53));     /* ext4 */
  ASSERT_EQ(NULL, uvs__network_fs(0x58465342)); /* XFS */
  ASSERT_EQ(NULL, uvs__network_fs(0x9123683E)); /* Btrfs */
  ASSERT_EQ(NULL, uvs__network_fs(0x794C7630)); /* overlay */
  ASSERT_EQ(NULL, uvs__network_fs(0x01021994)); /* tmpfs */
  PASS();
}

SUITE(accepted) {
  RUN_TEST(a_missing_file_is_created);
  RUN_TEST(an_empty_file_is_a_new_database);
  RUN_TEST(a_database_of_the_user_gets_only_tables_that_begin_with_uvs);
  RUN_TEST(a_database_in_utf_16_works);
  RUN_TEST(the_file_of_the_owners_has_the_permissions_of_the_database);
  RUN_TEST(names_that_are_special_to_sqlite_are_plain_paths);
}

SUITE(refused) {
  RUN_TEST(an_empty_name_is_refused);
  RUN_TEST(a_file_that_is_not_sqlite_is_refused);
  RUN_TEST(a_truncated_file_is_refused);
  RUN_TEST(a_file_with_a_damaged_table_or_index_is_refused);
  RUN_TEST(tables_of_a_newer_version_are_refused);
  RUN_TEST(a_refused_database_keeps_its_log);
  RUN_TEST(tables_without_a_version_are_refused);
  RUN_TEST(a_missing_table_is_refused);
  RUN_TEST(a_missing_folder_is_refused_and_not_made);
  RUN_TEST(what_is_not_a_regular_file_is_refused);
  RUN_TEST(a_locked_database_is_refused);
  RUN_TEST(a_file_or_folder_without_permission_to_write_is_refused);
  RUN_TEST(an_error_of_the_first_transaction_names_the_database);
  RUN_TEST(a_file_without_a_store_is_refused_and_unchanged_if_the_store_must_exist);
  RUN_TEST(network_file_systems_are_known_by_their_type);
}

TEST_MAIN(RUN_SUITE(accepted); RUN_SUITE(refused));
