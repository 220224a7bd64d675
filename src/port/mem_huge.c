/* SPDX-License-Identifier: MIT
 *
 * mem on Linux: large pieces ask for large pages. A million slots are 16,000 small ones, many more
 * than the processor remembers the places of.
 */
#include "port/mem.h"

#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)

void *uvs__mem_system(size_t size) {
  void *ptr;

  if (size < HUGE_PAGE || posix_memalign(&ptr, HUGE_PAGE, size) != 0)
    return malloc(size);
  madvise(ptr, size / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE); /* advice: may be refused */
  return ptr;
}
