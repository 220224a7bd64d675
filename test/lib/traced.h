/* SPDX-License-Identifier: MIT
 *
 * A written trace, and the script that checks it. test/meson.build says where the script is
 * (TRACE_CHECK).
 */
#ifndef LIB_TRACED_H
#define LIB_TRACED_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "uvsched/trace.h"

struct traced {
  FILE *file;
  char path[256];
  size_t bytes;
};

static inline int traced_write(const char *data, size_t size, void *arg) {
  struct traced *t = arg;

  t->bytes += size;
  return fwrite(data, 1, size, t->file) == size ? 0 : UV_EIO;
}

static inline bool traced_begin(struct traced *t) {
  char folder[200];
  size_t size = sizeof folder;
  int fd;

  t->bytes = 0;
  if (uv_os_tmpdir(folder, &size) < 0)
    return false;
  snprintf(t->path, sizeof t->path, "%s/uvs-trace-XXXXXX", folder);
  fd = mkstemp(t->path);
  t->file = fd < 0 ? NULL : fdopen(fd, "w");
  return t->file != NULL;
}

/* Closes the file, checks it, and removes it. `wants`: for check-trace. */
static inline bool traced_end(struct traced *t, const char *wants) {
  char command[1024];
  bool good;

  good = fclose(t->file) == 0;
  snprintf(command, sizeof command, "python3 '%s' '%s' %s", TRACE_CHECK, t->path, wants);
  good = system(command) == 0 && good;
  if (good)
    unlink(t->path);
  else
    printf("the trace is %s, wanted: %s\n", t->path, wants);
  return good;
}

/* Writes a trace, and checks it. */
static inline bool traced_is(uvs_t *s, int64_t last_ns, unsigned flags, const char *wants) {
  struct traced t;
  int rc;

  if (!traced_begin(&t))
    return false;
  rc = uvs_trace_write(s, last_ns, flags, traced_write, &t);
  if (rc != 0)
    printf("uvs_trace_write: %d\n", rc);
  return traced_end(&t, wants) && rc == 0;
}

#endif
