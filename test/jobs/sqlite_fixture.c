/* SPDX-License-Identifier: MIT */
#include "sqlite_fixture.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/tmp.h"

static void must(bool good, const char *what) {
  if (good)
    return;
  fprintf(stderr, "sqlite_fixture: %s\n", what);
  abort();
}

void sqlite_only(void) {
  static const struct store_kind sqlite = {"sqlite", uvs__sqlite_open, true, false};

  store_kind = &sqlite;
}

/* ----------------------------------------------------------------- folder --- */

void folder_init(struct sqlite_folder *f) {
  memset(f, 0, sizeof *f);
  snprintf(f->path, sizeof f->path, "%s/uvsched-sqlite-XXXXXX", tmp_root());
  must(mkdtemp(f->path) != NULL, "mkdtemp");
  snprintf(f->file, sizeof f->file, "%s/jobs.db", f->path);
}

void folder_remove(struct sqlite_folder *f) {
  DIR *dir = opendir(f->path);
  struct dirent *entry;
  char file[600];

  must(dir != NULL, "opendir");
  while ((entry = readdir(dir)) != NULL) {
    snprintf(file, sizeof file, "%s/%s", f->path, entry->d_name);
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
      must(remove(file) == 0, file);
  }
  closedir(dir);
  must(rmdir(f->path) == 0, "rmdir");
}

char *folder_file(const struct sqlite_folder *f, const char *name, char ret[400]) {
  snprintf(ret, 400, "%s/%s", f->path, name);
  return ret;
}

int folder_open(struct sqlite_folder *f) {
  struct uvs__store_config config = {.name = f->file};

  f->text[0] = '\0';
  return uvs__sqlite_open(&config, &f->store, f->text, sizeof f->text);
}

void folder_close(struct sqlite_folder *f) {
  f->store->ops->close(f->store);
  f->store = NULL;
}

int folder_try(struct sqlite_folder *f) {
  int rc = folder_open(f);

  if (rc == 0)
    folder_close(f);
  return rc;
}

/* -------------------------------------------------------------------- SQL --- */

sqlite3 *sql_open(const char *file) {
  sqlite3 *db;

  must(sqlite3_open(file, &db) == SQLITE_OK, file);
  sqlite3_busy_timeout(db, 5000);
  return db;
}

void sql_do(sqlite3 *db, const char *sql) {
  char *why = NULL;

  sqlite3_exec(db, sql, NULL, NULL, &why);
  must(why == NULL, why);
}

int64_t sql_number_of(sqlite3 *db, const char *sql) {
  sqlite3_stmt *statement;
  int64_t number;

  must(sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK, sql);
  must(sqlite3_step(statement) == SQLITE_ROW, sql);
  number = sqlite3_column_int64(statement, 0);
  sqlite3_finalize(statement);
  return number;
}

void sql_run(const char *file, const char *sql) {
  sqlite3 *db = sql_open(file);

  sql_do(db, sql);
  sqlite3_close(db);
}

int64_t sql_number(const char *file, const char *sql) {
  sqlite3 *db = sql_open(file);
  int64_t number = sql_number_of(db, sql);

  sqlite3_close(db);
  return number;
}

/* ------------------------------------------------------------------- files --- */

int64_t file_size(const char *path) {
  struct stat st;

  return stat(path, &st) == 0 ? st.st_size : -1;
}

struct file_copy file_read(const char *path) {
  struct file_copy copy = {NULL, 0};
  FILE *in = fopen(path, "rb");

  if (in == NULL)
    return copy;
  copy.size = (size_t)file_size(path);
  copy.data = malloc(copy.size + 1);
  must(copy.data != NULL && fread(copy.data, 1, copy.size, in) == copy.size, "fread");
  fclose(in);
  return copy;
}

void file_write(const char *path, const void *data, size_t size) {
  FILE *out = fopen(path, "wb");

  must(out != NULL && fwrite(data, 1, size, out) == size && fclose(out) == 0, path);
}

bool file_is_as_before(const char *path, struct file_copy *before) {
  struct file_copy now = file_read(path);
  bool same = (now.data == NULL) == (before->data == NULL) && now.size == before->size &&
              (now.data == NULL || memcmp(now.data, before->data, now.size) == 0);

  free(now.data);
  free(before->data);
  before->data = NULL;
  return same;
}
