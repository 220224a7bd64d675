/* SPDX-License-Identifier: MIT
 *
 * For tests of what only the store in SQLite does: a folder for each test, and a connection of the
 * test that reads the file.
 */
#ifndef TEST_SQLITE_FIXTURE_H
#define TEST_SQLITE_FIXTURE_H

#include <sqlite3.h>

#include "store_fixture.h"

/* From now on, fixtures of stores are in SQLite files. */
void sqlite_only(void);

/* A new empty folder; the name of a file in it. Aborts on errors. */
struct sqlite_folder {
  char path[200];
  char file[300]; /* "…/jobs.db" */
  char text[300]; /* of the last open */
  struct uvs__store *store;
};
void folder_init(struct sqlite_folder *f);
void folder_remove(struct sqlite_folder *f); /* with all that is in it */
char *folder_file(const struct sqlite_folder *f, const char *name, char ret[400]);

/* Opens the store; on success it is closed at once, if `keep` is not set. */
int folder_try(struct sqlite_folder *f);
int folder_open(struct sqlite_folder *f);
void folder_close(struct sqlite_folder *f);

/* Runs SQL with a connection of its own. Aborts on errors. */
void sql_run(const char *file, const char *sql);
int64_t sql_number(const char *file, const char *sql);
int64_t sql_number_of(sqlite3 *db, const char *sql);
sqlite3 *sql_open(const char *file);
void sql_do(sqlite3 *db, const char *sql);

/* A copy of a file in memory, to compare it later. */
struct file_copy {
  char *data; /* NULL: there was no file */
  size_t size;
};
struct file_copy file_read(const char *path);
void file_write(const char *path, const void *data, size_t size);
bool file_is_as_before(const char *path, struct file_copy *before); /* frees the copy */
int64_t file_size(const char *path);                                /* -1: no file */

#endif
