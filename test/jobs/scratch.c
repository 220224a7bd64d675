/* SPDX-License-Identifier: MIT */
#include "scratch.h"

#include <stdio.h>
#include <stdlib.h>

#include <uv.h>

static char folder[SCRATCH_PATH - 100];

void scratch_make(void) {
  char template[SCRATCH_PATH - 100];
  size_t size = sizeof template - sizeof "/uvsched-power-XXXXXX";
  uv_fs_t req;

  if (uv_os_tmpdir(template, &size) != 0)
    abort();
  snprintf(template + size, sizeof template - size, "/uvsched-power-XXXXXX");
  if (uv_fs_mkdtemp(NULL, &req, template, NULL) != 0)
    abort();
  snprintf(folder, sizeof folder, "%s", req.path);
  uv_fs_req_cleanup(&req);
}

void scratch_file(char ret[SCRATCH_PATH], const char *name) {
  FILE *file;

  snprintf(ret, SCRATCH_PATH, "%s/%s", folder, name);
  file = fopen(ret, "w");
  if (file == NULL || fclose(file) != 0)
    abort();
}

void scratch_remove(void) {
  uv_fs_t list, req;
  uv_dirent_t entry;
  char path[SCRATCH_PATH];

  if (uv_fs_scandir(NULL, &list, folder, 0, NULL) >= 0) {
    while (uv_fs_scandir_next(&list, &entry) == 0) {
      snprintf(path, sizeof path, "%s/%s", folder, entry.name);
      uv_fs_unlink(NULL, &req, path, NULL);
      uv_fs_req_cleanup(&req);
    }
  }
  uv_fs_req_cleanup(&list);
  uv_fs_rmdir(NULL, &req, folder, NULL);
  uv_fs_req_cleanup(&req);
}
