/* SPDX-License-Identifier: MIT
 *
 * A fresh folder for the files of an example. */
#ifndef SCRATCH_H
#define SCRATCH_H

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "expect.h"

/* Makes the folder, and writes its name. */
static inline void make_scratch(char *folder, size_t size) {
  size_t length = size;

  EXPECT(uv_os_tmpdir(folder, &length) == 0);
  EXPECT(length + sizeof "/uvsched-XXXXXX" <= size);
  strcat(folder, "/uvsched-XXXXXX");
  EXPECT(mkdtemp(folder) != NULL);
}

/* Removes the folder and the files in it. */
static inline void remove_scratch(const char *folder) {
  DIR *d = opendir(folder);
  struct dirent *e;

  EXPECT(d != NULL);
  while ((e = readdir(d)) != NULL)
    if (e->d_name[0] != '.')
      EXPECT(unlinkat(dirfd(d), e->d_name, 0) == 0);
  closedir(d);
  EXPECT(rmdir(folder) == 0);
}

#endif
