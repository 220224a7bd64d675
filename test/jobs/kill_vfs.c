/* SPDX-License-Identifier: MIT */
#include "kill_vfs.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <sqlite3.h>

#define TABLES 8

/* SQLite's VFS for Unix has a few tables of methods; a file is given the copy of its table. */
static struct {
  const sqlite3_io_methods *real;
  sqlite3_io_methods copy;
} tables[TABLES];
static sqlite3_vfs *unix_vfs;
static atomic_long left;

static const sqlite3_io_methods *real_methods(const sqlite3_file *file) {
  int i = 0;

  while (&tables[i].copy != file->pMethods)
    i++;
  return tables[i].real;
}

static int is_the_last(void) {
  return atomic_fetch_sub(&left, 1) == 1;
}

static int write_file(sqlite3_file *file, const void *data, int size, sqlite3_int64 offset) {
  if (is_the_last()) {
    real_methods(file)->xWrite(file, data, size / 2, offset);
    raise(SIGKILL);
  }
  return real_methods(file)->xWrite(file, data, size, offset);
}

static int sync_file(sqlite3_file *file, int flags) {
  if (is_the_last())
    raise(SIGKILL);
  return real_methods(file)->xSync(file, flags);
}

static int truncate_file(sqlite3_file *file, sqlite3_int64 size) {
  if (is_the_last())
    raise(SIGKILL);
  return real_methods(file)->xTruncate(file, size);
}

static int open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out) {
  int rc = unix_vfs->xOpen(unix_vfs, name, file, flags, out), i = 0;

  (void)vfs;
  if (file->pMethods == NULL)
    return rc;
  while (i < TABLES && tables[i].real != NULL && tables[i].real != file->pMethods)
    i++;
  if (i == TABLES)
    abort();
  if (tables[i].real == NULL) {
    tables[i].copy = *file->pMethods;
    tables[i].copy.xWrite = write_file;
    tables[i].copy.xSync = sync_file;
    tables[i].copy.xTruncate = truncate_file;
    tables[i].real = file->pMethods;
  }
  file->pMethods = &tables[i].copy;
  return rc;
}

void kill_vfs_at(long n) {
  static sqlite3_vfs vfs;

  atomic_store(&left, n);
  unix_vfs = sqlite3_vfs_find("unix");
  if (unix_vfs == NULL)
    abort();
  vfs = *unix_vfs; /* Its other functions get our struct; they only read what is copied. */
  vfs.zName = "kill";
  vfs.pNext = NULL;
  vfs.xOpen = open_file;
  if (sqlite3_vfs_register(&vfs, 1) != SQLITE_OK)
    abort();
}
