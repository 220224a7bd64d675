/* SPDX-License-Identifier: MIT
 *
 * mem where large pages are nobody's choice.
 */
#include "port/mem.h"

void *uvs__mem_system(size_t size) {
  return malloc(size);
}
