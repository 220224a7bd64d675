/* SPDX-License-Identifier: MIT
 *
 * Lets the n-th allocation of the console fail, where the linker can replace functions.
 */
#ifndef TEST_CONSOLE_WRAPS_H
#define TEST_CONSOLE_WRAPS_H

#include <stddef.h>
#include <stdlib.h>

static int fail_alloc = -1; /* this many succeed before one fails; -1: all succeed */

#ifdef TEST_WRAPS
void *__real_uvs__console_alloc(size_t size);
void *__wrap_uvs__console_alloc(size_t size);

void *__wrap_uvs__console_alloc(size_t size) {
  if (fail_alloc >= 0 && fail_alloc-- == 0)
    return NULL;
  return __real_uvs__console_alloc(size);
}
#endif

#endif
