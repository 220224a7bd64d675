/* SPDX-License-Identifier: MIT
 *
 * Elsewhere: as libuv knows how.
 */
#include "port/clock.h"

uint64_t uvs__clock_hrtime(void) {
  return uv_hrtime();
}
