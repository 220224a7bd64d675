/* SPDX-License-Identifier: MIT
 *
 * A folder of zone files made by hand, below the folder for temporary files.
 */
#ifndef TEST_FOLDER_H
#define TEST_FOLDER_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "calendar/image.h"

struct folder {
  char path[200];
  int written; /* files so far: each gets another time, so that no two have the same stamp */
};

static inline void folder_must(bool good, const char *what) {
  if (good)
    return;
  perror(what);
  abort();
}

static inline void folder_make(struct folder *f) {
  const char *tmp = getenv("TMPDIR");

  snprintf(f->path, sizeof f->path, "%s/uvsched-zones-XXXXXX", tmp != NULL ? tmp : "/tmp");
  folder_must(mkdtemp(f->path) != NULL, f->path);
  f->written = 0;
}

static inline void folder_name(const struct folder *f, const char *name, char path[400]) {
  snprintf(path, 400, "%s/%s", f->path, name);
}

/* Replaces the file at once, as a package manager does. */
static inline void folder_write(struct folder *f, const char *name, const void *bytes, size_t n) {
  struct timespec times[2] = {{0, 0}, {0, 0}};
  char fresh[400], path[400];
  int fd;

  folder_name(f, "fresh", fresh);
  folder_name(f, name, path);
  fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  folder_must(fd >= 0 && write(fd, bytes, n) == (ssize_t)n, fresh);
  times[0].tv_sec = times[1].tv_sec = 1000000000 + f->written++;
  folder_must(futimens(fd, times) == 0 && close(fd) == 0, fresh);
  folder_must(rename(fresh, path) == 0, path);
}

/* A zone that always has this offset. */
static inline void folder_write_offset(struct folder *f, const char *name, int32_t offset_s) {
  struct tzif_plan p = {.version = '2', .types = 1, .offset_s = {offset_s}};
  struct tzif_image m = image_of(&p);

  folder_write(f, name, m.bytes, m.size);
}

static inline void folder_unlink(const struct folder *f, const char *name) {
  char path[400];

  folder_name(f, name, path);
  folder_must(unlink(path) == 0, path);
}

#endif
