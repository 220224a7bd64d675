/* SPDX-License-Identifier: MIT
 *
 * Files are read through libuv's synchronous calls, which need no loop, so this code is the same on
 * every system. TZ may name any file, even a pipe. So a file is opened with O_NONBLOCK, and only a
 * regular file of up to FILE_MAX bytes is read.
 */
#include "calendar/zone_file.h"

#include <string.h>

#include <uv.h>

#include "calendar/memory.h"
#include "calendar/tzif.h"

#define NAME_MAX_BYTES 255
#define FILE_MAX (UINT64_C(1) << 14) /* tzdata has up to 4 KB; a search looks at each span */
#define LOCALTIME "/etc/localtime"

static const char *const usual_folders[] = {"/usr/share/zoneinfo", "/usr/lib/zoneinfo",
                                            "/usr/share/lib/zoneinfo", "/etc/zoneinfo"};
static const char *const names_of_utc[] = {"UTC", "Etc/UTC", "GMT", "Etc/GMT"};

/* ---- names ---- */

static bool is_name_of_utc(const char *name) {
  for (size_t i = 0; i < sizeof names_of_utc / sizeof *names_of_utc; i++) {
    if (strcmp(name, names_of_utc[i]) == 0)
      return true;
  }
  return false;
}

/* NULL: the name is allowed. */
static const char *wrong_in_name(const char *name) {
  size_t n = strlen(name);

  if (n == 0)
    return "the name of the zone is empty";
  if (n > NAME_MAX_BYTES)
    return "the name of the zone is too long";
  if (name[0] == '/')
    return "a zone is named as in tzdata (\"Europe/Berlin\"), not by its file";
  for (size_t i = 0; i < n; i++) {
    bool starts = i == 0 || name[i - 1] == '/';

    if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
      return "the name of the zone has a control character";
    if ((starts && (name[i] == '.' || name[i] == '/')) || (name[i] == '/' && i + 1 == n))
      return "a part of the zone's name is empty or begins with a dot";
  }
  return NULL;
}

static bool set_text(struct uvs__zone_source *s, const char *folder, const char *name) {
  int n = snprintf(s->text, sizeof s->text, "%s%s%s", folder, *folder != '\0' ? "/" : "", name);

  return n >= 0 && (size_t)n < sizeof s->text;
}

static bool is_there(const char *path) {
  struct uvs__zone_stamp stamp;

  return uvs__zone_stamp_of(path, &stamp) == 0;
}

/* Finds the file of an allowed name. 0; UV_ENOENT; UV_EINVAL: the path is too long. */
static int locate_file(const char *name, struct uvs__zone_source *ret) {
  const char *folder = getenv("TZDIR");

  ret->is_file = true;
  if (folder != NULL && *folder != '\0') {
    if (!set_text(ret, folder, name))
      return UV_EINVAL;
    return is_there(ret->text) ? 0 : UV_ENOENT;
  }
  for (size_t i = 0; i < sizeof usual_folders / sizeof *usual_folders; i++) {
    if (set_text(ret, usual_folders[i], name) && is_there(ret->text))
      return 0;
  }
  return UV_ENOENT;
}

/* Checks the name, and finds its file. 0, UV_ENOENT, UV_EINVAL. */
static int locate_named(const char *name, struct uvs__zone_source *ret, char *why, size_t size) {
  const char *wrong = wrong_in_name(name);
  int rc;

  if (wrong != NULL) {
    snprintf(why, size, "%s", wrong);
    return UV_EINVAL;
  }
  if (is_name_of_utc(name)) {
    set_text(ret, "", "UTC0");
    return 0;
  }
  rc = locate_file(name, ret);
  if (rc == UV_ENOENT)
    snprintf(why, size, "there is no zone \"%s\" (is tzdata installed?)", name);
  else if (rc < 0)
    snprintf(why, size, "TZDIR is too long");
  return rc;
}

/* The value of TZ is a POSIX rule, the name of a zone, or an absolute path. A colon may precede the
 * name or the path. EST5EDT is both a file and a rule: the file is used, as in glibc. */
static int locate_tz(const char *tz, struct uvs__zone_source *ret, char *why, size_t size) {
  bool colon = *tz == ':';
  const char *name = tz + colon;
  struct uvs__posix_rule rule;
  int rc;

  if (*name == '\0' || *name == '/') {
    ret->is_file = *name == '/';
    if (set_text(ret, "", *name == '/' ? name : "UTC0"))
      return 0;
    snprintf(why, size, "the path in TZ is too long");
    return UV_EINVAL;
  }
  rc = locate_named(name, ret, why, size);
  if (rc == 0 || colon)
    return rc;
  if (uvs__posix_rule_parse(name, strlen(name), &rule) == 0 && set_text(ret, "", name)) {
    ret->is_file = false;
    return 0;
  }
  if (rc == UV_ENOENT && strpbrk(name, "0123456789") != NULL) /* it may be meant as a rule */
    snprintf(why, size,
             "\"%.40s\" is neither a zone nor a POSIX rule such as CET-1CEST,M3.5.0,M10.5.0/3",
             name);
  return rc;
}

int uvs__zone_locate(const char *name, struct uvs__zone_source *ret, char *why, size_t size) {
  const char *tz;
  char reason[160];
  int rc;

  ret->is_file = ret->may_be_missing = false;
  if (strcmp(name, "Local") != 0)
    return locate_named(name, ret, why, size);
  tz = getenv("TZ");
  if (tz == NULL) {
    ret->is_file = ret->may_be_missing = true;
    set_text(ret, "", LOCALTIME);
    return 0;
  }
  rc = locate_tz(tz, ret, reason, sizeof reason);
  if (rc < 0)
    snprintf(why, size, "the environment variable TZ: %s", reason);
  return rc;
}

/* ---- files ---- */

static int stamp_of_stat(const uv_stat_t *s, struct uvs__zone_stamp *ret) {
  if ((s->st_mode & S_IFMT) != S_IFREG)
    return UV_ENOENT; /* "Europe" is a folder, not a zone */
  *ret = (struct uvs__zone_stamp){s->st_dev,         s->st_ino,          s->st_size,
                                  s->st_mtim.tv_sec, s->st_mtim.tv_nsec, s->st_ctim.tv_sec,
                                  s->st_ctim.tv_nsec};
  return 0;
}

int uvs__zone_stamp_of(const char *path, struct uvs__zone_stamp *ret) {
  uv_fs_t req;
  int rc = uv_fs_stat(NULL, &req, path, NULL);

  if (rc == 0)
    rc = stamp_of_stat(&req.statbuf, ret);
  uv_fs_req_cleanup(&req);
  return rc;
}

bool uvs__zone_stamp_equal(const struct uvs__zone_stamp *a, const struct uvs__zone_stamp *b) {
  return a->device == b->device && a->inode == b->inode && a->size == b->size &&
         a->modified_s == b->modified_s && a->modified_ns == b->modified_ns &&
         a->changed_s == b->changed_s && a->changed_ns == b->changed_ns;
}

static int open_file(const char *path) {
  uv_fs_t req;
  int fd =
      uv_fs_open(NULL, &req, path, UV_FS_O_RDONLY | UV_FS_O_NONBLOCK | UV_FS_O_NOCTTY, 0, NULL);

  uv_fs_req_cleanup(&req);
  return fd;
}

static int stamp_of_open(int fd, struct uvs__zone_stamp *ret) {
  uv_fs_t req;
  int rc = uv_fs_fstat(NULL, &req, fd, NULL);

  if (rc == 0)
    rc = stamp_of_stat(&req.statbuf, ret);
  uv_fs_req_cleanup(&req);
  return rc;
}

static void close_file(int fd) {
  uv_fs_t req;

  uv_fs_close(NULL, &req, fd, NULL);
  uv_fs_req_cleanup(&req);
}

/* Returns how many bytes were read: fewer than `size` if the file is now shorter; or an error. */
static int64_t read_bytes(int fd, char *bytes, size_t size) {
  size_t n = 0;
  int rc = 1;

  while (n < size && rc != 0) {
    uv_buf_t buf = uv_buf_init(bytes + n, (unsigned)(size - n));
    uv_fs_t req;

    rc = uv_fs_read(NULL, &req, fd, &buf, 1, (int64_t)n, NULL);
    uv_fs_req_cleanup(&req);
    if (rc < 0 && rc != UV_EINTR)
      return rc;
    if (rc > 0)
      n += (size_t)rc;
  }
  return (int64_t)n;
}

/* Sets *ret_why if the error code alone does not say what is wrong. */
static int read_open(int fd, struct uvs__zone_table **ret, struct uvs__zone_stamp *ret_stamp,
                     const char **ret_why) {
  int rc = stamp_of_open(fd, ret_stamp);
  char *bytes;
  int64_t n;

  if (rc == UV_ENOENT)
    *ret_why = "it is not a regular file";
  if (rc < 0)
    return rc;
  if (ret_stamp->size > FILE_MAX) {
    *ret_why = "it is too large";
    return UV_EINVAL;
  }
  bytes = uvs__calendar_alloc(1, (size_t)ret_stamp->size, 1);
  if (bytes == NULL)
    return UV_ENOMEM;
  n = read_bytes(fd, bytes, (size_t)ret_stamp->size);
  rc = n < 0 ? (int)n : uvs__tzif_parse(bytes, (size_t)n, ret, ret_why);
  uvs__calendar_free(bytes);
  return rc;
}

int uvs__zone_read(const struct uvs__zone_source *source, struct uvs__zone_table **ret,
                   struct uvs__zone_stamp *ret_stamp, char *why, size_t size) {
  const char *reason = NULL;
  int fd, rc;

  memset(ret_stamp, 0, sizeof *ret_stamp);
  if (!source->is_file) {
    rc = uvs__zone_table_of_rule(source->text, strlen(source->text), ret);
  } else {
    fd = open_file(source->text);
    rc = fd < 0 ? fd : read_open(fd, ret, ret_stamp, &reason);
    if (fd >= 0)
      close_file(fd);
  }
  if (rc < 0)
    snprintf(why, size, "%s: %s", source->text, reason != NULL ? reason : uv_strerror(rc));
  return rc;
}
