/* SPDX-License-Identifier: MIT
 *
 * Linux since 4.14: a page that reads as zero in a forked child.
 */
#include "port/fork.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

int uvs__fork_init(struct uvs__fork *f) {
  long size = sysconf(_SC_PAGESIZE);
  void *page;

  f->size = (size_t)size;
  page = mmap(NULL, f->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED)
    return -errno;
  f->mark = page;
  f->pid = 0;
  /* An older kernel, or valgrind, knows no such advice: then the process id has to tell. */
  if (madvise(page, f->size, MADV_WIPEONFORK) != 0)
    f->pid = (int)getpid();
  *f->mark = 1;
  return 0;
}

void uvs__fork_destroy(struct uvs__fork *f) {
  munmap((void *)f->mark, f->size);
}
