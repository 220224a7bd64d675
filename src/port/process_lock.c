/* SPDX-License-Identifier: MIT */
#include "port/process_lock.h"

#include <pthread.h>
#include <stdbool.h>

#include <uv.h>

#include "port/base.h"

/* Not a uv_mutex_t: a pthread_mutex_t needs no initialization call, and a forked child may unlock
 * it. */
static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER;
static bool taken_at_fork;

void uvs__process_lock(void) {
  UVS_ASSERT(pthread_mutex_lock(&process_lock) == 0);
}

void uvs__process_unlock(void) {
  UVS_ASSERT(pthread_mutex_unlock(&process_lock) == 0);
}

int uvs__process_lock_at_fork(void) {
  if (!taken_at_fork &&
      pthread_atfork(uvs__process_lock, uvs__process_unlock, uvs__process_unlock) != 0)
    return UV_ENOMEM;
  taken_at_fork = true;
  return 0;
}
