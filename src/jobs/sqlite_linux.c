/* SPDX-License-Identifier: MIT
 *
 * sqlite_linux: file systems, and locks that belong to an open file. Other systems: sqlite_other.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "jobs/sqlite.h"

/* FUSE is in the list because it may be a network file system. File systems of shared disks are in
 * it because the shared memory of the write-ahead log does not work between machines. */
const char *uvs__network_fs(uint64_t type) {
  static const struct {
    uint32_t type;
    const char *name;
  } known[] = {
      {0x00006969, "NFS"},    {0x0000517B, "SMB"},    {0xFF534D42, "CIFS"}, {0xFE534D42, "SMB2"},
      {0x65735546, "FUSE"},   {0x00C36400, "Ceph"},   {0x5346414F, "AFS"},  {0x6B414653, "AFS"},
      {0x73757245, "Coda"},   {0x01021997, "9P"},     {0x0000564C, "NCP"},  {0x01161970, "GFS2"},
      {0x7461636F, "OCFS2"},  {0x0BD00BD0, "Lustre"}, {0x47504653, "GPFS"}, {0x19830326, "BeeGFS"},
      {0x786F4256, "vboxsf"}, {0xAAD7AAEA, "PanFS"},
  };
  size_t i;

  for (i = 0; i < sizeof known / sizeof *known; i++) {
    if ((uint32_t)type == known[i].type)
      return known[i].name;
  }
  return NULL;
}

const char *uvs__network_fs_of(const char *path) {
  struct statfs fs;

  return statfs(path, &fs) == 0 ? uvs__network_fs((uint64_t)fs.f_type) : NULL;
}

static int control(int fd, int command, int64_t owner, struct flock *lock) {
  int rc;

  memset(lock, 0, sizeof *lock); /* l_pid must be 0 */
  lock->l_type = F_WRLCK;
  lock->l_whence = SEEK_SET;
  lock->l_start = owner;
  lock->l_len = 1;
  do
    rc = fcntl(fd, command, lock);
  while (rc != 0 && errno == EINTR);
  return rc;
}

bool uvs__owners_lock(int fd, int64_t owner) {
  struct flock lock;

  return control(fd, F_OFD_SETLK, owner, &lock) == 0;
}

bool uvs__owners_alive(int fd, int64_t owner) {
  struct flock lock;

  return control(fd, F_OFD_GETLK, owner, &lock) != 0 || lock.l_type != F_UNLCK;
}

int64_t uvs__boot_id(void) {
  uint64_t id = 0;
  char text[64]; /* hexadecimal digits, and - between */
  int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  ssize_t size = fd < 0 ? 0 : read(fd, text, sizeof text), i;

  if (fd >= 0)
    close(fd);
  for (i = 0; i < size; i++)
    id = (id ^ (unsigned char)text[i]) * UINT64_C(1099511628211);
  return (int64_t)(id >> 1);
}
