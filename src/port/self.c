/* SPDX-License-Identifier: MIT */
#include "port/self.h"

#include "port/atomic.h"

_Thread_local struct uvs__thread uvs__thread;

/* How many threads have a number. */
static _Atomic uintptr_t threads_so_far;

void uvs__thread_begin(void) {
  uvs__thread.self = uvs__add(&threads_so_far, 1, relaxed) + 1; /* only a number */
  uvs__thread.tid = uvs__thread_tid();
}

bool uvs__thread_inside(const void *scheduler) {
  const struct uvs__frame *f = uvs__thread.frame;

  while (f != NULL && f->scheduler != scheduler)
    f = f->outer;
  return f != NULL;
}
