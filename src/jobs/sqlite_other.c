/* SPDX-License-Identifier: MIT
 *
 * sqlite_other: systems other than Linux. Network file systems are not recognized. All owners count
 * as alive, so the leases of a dead process end only by their time.
 */
#include "jobs/sqlite.h"

const char *uvs__network_fs(uint64_t type) {
  (void)type;
  return NULL;
}

const char *uvs__network_fs_of(const char *path) {
  (void)path;
  return NULL;
}

bool uvs__owners_lock(int fd, int64_t owner) {
  (void)fd;
  (void)owner;
  return true;
}

bool uvs__owners_alive(int fd, int64_t owner) {
  (void)fd;
  (void)owner;
  return true;
}

int64_t uvs__boot_id(void) {
  return 0;
}
