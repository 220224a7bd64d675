/* SPDX-License-Identifier: MIT
 *
 * Systems that we cannot ask whether a thread has ended: it may live. Nor do we name it.
 */
#include "port/self.h"

int uvs__thread_tid(void) {
  return 0;
}

bool uvs__thread_gone(int tid) {
  (void)tid;
  return false;
}

uint64_t uvs__thread_cpu_ns(void) {
  return 0;
}

void uvs__thread_name(const char *name) {
  (void)name;
}
