/* SPDX-License-Identifier: MIT
 *
 * sqlite_check: checks that a file can be used, before anything is changed. Only SQLite opens the
 * file: if this file opened and closed it, the close would drop the locks that other connections of
 * this process hold on it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <uv.h>

#include "jobs/alloc.h"
#include "jobs/sqlite.h"

static int system_error(const char *path, const char *what, char *text, size_t size) {
  int rc = uv_translate_sys_error(errno);

  snprintf(text, size, "%s: %s: %s", path, what, uv_strerror(rc));
  return rc;
}

/* The folder of a path that has a slash. NULL: no memory. */
static char *folder_of(const char *path) {
  size_t length = (size_t)(strrchr(path, '/') - path);
  char *folder = uvs__jobs_alloc(length + 2);

  if (folder != NULL)
    memcpy(folder, path, length == 0 ? 1 : length);
  return folder;
}

static int check_network(const char *path, char *text, size_t size) {
  const char *network = uvs__network_fs_of(path);

  if (network == NULL)
    return 0;
  snprintf(text, size, "%s is on %s, a network file system, where locks are not reliable", path,
           network);
  return UV_ENOTSUP;
}

static int check_folder(const char *folder, char *text, size_t size) {
  struct stat st;

  if (stat(folder, &st) != 0)
    return system_error(folder, "the folder cannot be used", text, size);
  if (!S_ISDIR(st.st_mode)) {
    snprintf(text, size, "%s is not a folder", folder);
    return UV_ENOTDIR;
  }
  if (faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) != 0)
    return system_error(folder, "the folder is not writable", text, size);
  return check_network(folder, text, size);
}

static int check_existing(const char *path, bool must_exist, char *text, size_t size) {
  struct stat st;

  if (stat(path, &st) != 0)
    return errno == ENOENT && !must_exist
               ? 0
               : system_error(path, "the file cannot be used", text, size);
  if (S_ISDIR(st.st_mode)) {
    snprintf(text, size, "%s is a folder", path);
    return UV_EISDIR;
  }
  if (!S_ISREG(st.st_mode)) {
    snprintf(text, size, "%s is not a regular file", path);
    return UV_EFTYPE;
  }
  if (faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS) != 0)
    return system_error(path, "the file is not readable and writable", text, size);
  return check_network(path, text, size); /* it may be a symbolic link, or be mounted alone */
}

int uvs__sqlite_check_path(const char *name, bool must_exist, char **ret_path, char *text,
                           size_t size) {
  size_t path_size = strlen(name) + sizeof "./";
  char *path, *folder;
  int rc;

  if (*name == '\0') {
    snprintf(text, size, "the name of the file is empty");
    return UV_EINVAL;
  }
  path = uvs__jobs_alloc(path_size);
  if (path == NULL)
    goto no_memory;
  /* With a slash in front, SQLite sees neither a URI nor ":memory:". */
  snprintf(path, path_size, "%s%s", *name == '/' ? "" : "./", name);
  folder = folder_of(path);
  if (folder == NULL)
    goto free_path;
  rc = check_folder(folder, text, size);
  uvs__jobs_free(folder);
  if (rc == 0)
    rc = check_existing(path, must_exist, text, size);
  if (rc == 0)
    *ret_path = path;
  else
    uvs__jobs_free(path);
  return rc;

free_path:
  uvs__jobs_free(path);
no_memory:
  snprintf(text, size, "no memory");
  return UV_ENOMEM;
}

/* If the folder cannot be opened or synced, that is no error: SQLite ignores it too. */
int uvs__sync_folder(const char *path) {
  char *folder = folder_of(path);
  int fd, rc = SQLITE_OK;

  if (folder == NULL)
    return SQLITE_NOMEM;
  fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  uvs__jobs_free(folder);
  if (fd < 0)
    return SQLITE_OK;
  if (fsync(fd) != 0 && errno == EIO)
    rc = SQLITE_IOERR_DIR_FSYNC;
  close(fd);
  return rc;
}

/* ------------------------------------------------------------------ content --- */

/* Reads from each table and each index, so that a damaged page at their root is found now. */
static const char touch_all[] =
    "SELECT 1 FROM uvs_meta LIMIT 1;"
    "SELECT 1 FROM uvs_queues NOT INDEXED LIMIT 1;"
    "SELECT name FROM uvs_queues ORDER BY name LIMIT 1;"
    "SELECT 1 FROM uvs_jobs NOT INDEXED LIMIT 1;"
    "SELECT 1 FROM uvs_jobs INDEXED BY uvs_ids LIMIT 1;"
    "SELECT 1 FROM uvs_jobs INDEXED BY uvs_due WHERE class < 5 LIMIT 1;"
    "SELECT 1 FROM uvs_jobs INDEXED BY uvs_keys WHERE key IS NOT NULL AND class < 4 LIMIT 1;"
    "SELECT 1 FROM uvs_jobs INDEXED BY uvs_held WHERE class = 4 LIMIT 1;"
    "SELECT 1 FROM uvs_jobs INDEXED BY uvs_ended WHERE class >= 5 LIMIT 1;"
    "SELECT 1 FROM uvs_jobs INDEXED BY uvs_kept WHERE class = 6 LIMIT 1;"
    "SELECT 1 FROM uvs_payloads LIMIT 1;"
    "SELECT 1 FROM uvs_crons NOT INDEXED LIMIT 1;"
    "SELECT name FROM uvs_crons ORDER BY name LIMIT 1;"
    "SELECT 1 FROM uvs_events LIMIT 1;"
    "SELECT 1 FROM uvs_owners LIMIT 1;";

int uvs__sqlite_open_error(sqlite3 *db, const char *path, int rc, char *text, size_t size) {
  const char *why = db == NULL ? sqlite3_errstr(rc) : sqlite3_errmsg(db);

  switch (rc & 0xff) {
  case SQLITE_NOTADB:
    snprintf(text, size, "%s is not a SQLite database", path);
    return UV_EFTYPE;
  case SQLITE_CORRUPT:
  case SQLITE_ERROR:
    snprintf(text, size, "%s: the database is damaged: %s", path, why);
    return UV_EFTYPE;
  case SQLITE_BUSY:
    snprintf(text, size, "%s: another program has locked the database", path);
    return UV_EBUSY;
  case SQLITE_FULL:
    snprintf(text, size, "%s: the disk is full", path);
    return UV_ENOSPC;
  case SQLITE_NOMEM:
    snprintf(text, size, "no memory");
    return UV_ENOMEM;
  case SQLITE_READONLY:
    snprintf(text, size, "%s: the database is read-only", path);
    return UV_EROFS;
  case SQLITE_CANTOPEN:
  case SQLITE_PERM:
    snprintf(text, size, "%s: the database cannot be opened: %s", path, why);
    return UV_EACCES;
  default:
    snprintf(text, size, "%s: %s", path, why);
    return rc == SQLITE_IOERR_NOMEM ? UV_ENOMEM : UV_EIO;
  }
}

int uvs__sqlite_check_file(sqlite3 *db, const char *path, char *text, size_t size) {
  int rc, version = uvs__sqlite_version(db, &rc);

  if (rc == SQLITE_OK && version == UVS__SQLITE_VERSION)
    rc = sqlite3_exec(db, touch_all, NULL, NULL, NULL);
  if (rc != SQLITE_OK)
    return uvs__sqlite_open_error(db, path, rc, text, size);
  if (sqlite3_db_readonly(db, "main") == 1)
    return uvs__sqlite_open_error(db, path, SQLITE_READONLY, text, size);
  if (version < 0) {
    snprintf(text, size, "%s has tables named uvs_..., but uvs_meta has no version of them", path);
    return UV_EFTYPE;
  }
  if (version > UVS__SQLITE_VERSION) {
    snprintf(text, size, "%s has tables of version %d; this library knows versions up to %d", path,
             version, UVS__SQLITE_VERSION);
    return UV_ENOTSUP;
  }
  return 0;
}
