/* SPDX-License-Identifier: MIT
 *
 * thread: which thread is this, and does that one still live?
 */
#ifndef UVS__THREAD_H
#define UVS__THREAD_H

#include <stdbool.h>
#include <stdint.h>

struct uvs__thread {
  const void *running; /* the scheduler whose body runs on this thread */
  uintptr_t self;      /* no other thread has it, nor had or will have; 0: not yet known */
  int tid;             /* for uvs__thread_gone */
};

extern _Thread_local struct uvs__thread uvs__thread;

void uvs__thread_begin(void);

static inline uintptr_t uvs__self(void) {
  if (uvs__thread.self == 0)
    uvs__thread_begin();
  return uvs__thread.self;
}

/* True only if that thread of this process has surely ended. */
bool uvs__thread_gone(int tid);
/* The system's number of this thread. */
int uvs__thread_tid(void);

#endif
