/* SPDX-License-Identifier: MIT */
#include "thread.h"

#include <uv.h>

_Thread_local struct uvs__thread uvs__thread;

/* An address alone would be used again by a later thread; with the time it is not. Mixed, so that
 * the slab's stripes differ. */
void uvs__thread_begin(void) {
  uint64_t x = uv_hrtime() ^ (uint64_t)(uintptr_t)&uvs__thread * UINT64_C(0x9e3779b97f4a7c15);

  x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
  uvs__thread.self = (uintptr_t)((x ^ x >> 32) | 1); /* never 0 */
  uvs__thread.tid = uvs__thread_tid();
}

bool uvs__thread_inside(const void *scheduler) {
  const struct uvs__frame *f = uvs__thread.frame;

  while (f != NULL && f->scheduler != scheduler)
    f = f->outer;
  return f != NULL;
}
