/* SPDX-License-Identifier: MIT
 *
 * A file on a network file system is refused. The folder of the test claims to be on one.
 */
#include "sqlite_fixture.h"

#include <string.h>

#include "jobs/sqlite.h"

static bool on_network;
static const char *file_on_network; /* NULL: none */

const char *__real_uvs__network_fs_of(const char *path);
const char *__wrap_uvs__network_fs_of(const char *path);

const char *__wrap_uvs__network_fs_of(const char *path) {
  if (file_on_network != NULL && strcmp(path, file_on_network) == 0)
    return "NFS";
  return on_network ? "NFS" : __real_uvs__network_fs_of(path);
}

/* Q42 */
TEST a_file_on_a_network_file_system_is_refused_and_unchanged(void) {
  struct sqlite_folder f;
  struct file_copy before;

  folder_init(&f);
  on_network = true;
  EQ(UV_ENOTSUP, folder_try(&f));
  ASSERT(strstr(f.text, "is on NFS, a network file system") != NULL);
  EQ(-1, file_size(f.file)); /* none was made */
  on_network = false;
  EQ(0, folder_try(&f));
  before = file_read(f.file);
  on_network = true;
  EQ(UV_ENOTSUP, folder_try(&f));
  ASSERT(file_is_as_before(f.file, &before));
  on_network = false;
  folder_remove(&f);
  PASS();
}

/* A symbolic link, or a file that is mounted alone, in a local folder. Q42 */
TEST a_file_whose_folder_is_local_is_refused_and_unchanged(void) {
  struct sqlite_folder f;
  struct file_copy before;

  folder_init(&f);
  EQ(0, folder_try(&f));
  before = file_read(f.file);
  file_on_network = f.file;
  EQ(UV_ENOTSUP, folder_try(&f));
  ASSERT(strstr(f.text, "jobs.db is on NFS, a network file system") != NULL);
  ASSERT(file_is_as_before(f.file, &before));
  file_on_network = NULL;
  folder_remove(&f);
  PASS();
}

SUITE(network) {
  RUN_TEST(a_file_on_a_network_file_system_is_refused_and_unchanged);
  RUN_TEST(a_file_whose_folder_is_local_is_refused_and_unchanged);
}

TEST_MAIN(RUN_SUITE(network));
