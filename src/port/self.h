/* SPDX-License-Identifier: MIT
 *
 * self: which thread is this, and which bodies run on it?
 */
#ifndef UVS__SELF_H
#define UVS__SELF_H

#include "port/platform.h"

/* A body that runs on this thread. A body that submits a task may have to run the body of that task
 * itself (UVS_REJECT_CALLER_RUNS), so there may be several. */
struct uvs__frame {
  const void *scheduler;
  uint32_t slot;
  const struct uvs__frame *outer;
  int runner; /* as in uvs_run_t */
};

struct uvs__thread {
  const struct uvs__frame *frame; /* the innermost; NULL: no body */
  uintptr_t self;                 /* the number of this thread: 1, 2, 3 ...; 0: it has none yet */
  int tid;                        /* for uvs__thread_gone */
};

extern _Thread_local struct uvs__thread uvs__thread;

void uvs__thread_begin(void);
/* Does a body of this scheduler run on this thread, the innermost or an outer one? */
bool uvs__thread_inside(const void *scheduler);

static inline uintptr_t uvs__self(void) {
  if (uvs__thread.self == 0)
    uvs__thread_begin();
  return uvs__thread.self;
}

#endif
