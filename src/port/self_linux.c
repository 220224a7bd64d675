/* SPDX-License-Identifier: MIT
 *
 * Linux: signal 0 reaches every thread that lives, and no other. Threads have names.
 */
#include "port/self.h"

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int uvs__thread_tid(void) {
  return (int)syscall(SYS_gettid);
}

bool uvs__thread_gone(int tid) {
  int saved = errno;
  bool gone = syscall(SYS_tgkill, getpid(), tid, 0) != 0 && errno == ESRCH;

  errno = saved;
  return gone;
}

uint64_t uvs__thread_cpu_ns(void) {
  struct timespec t;

  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0)
    return 0;
  return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

void uvs__thread_name(const char *name) {
  (void)pthread_setname_np(pthread_self(), name);
}
