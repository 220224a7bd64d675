/* SPDX-License-Identifier: MIT
 *
 * redis_sigpipe: keeps a write to a closed connection from ending the process. libuv writes with
 * write(2), which then sends SIGPIPE to the thread, unless the program ignores that signal. A
 * library cannot rely on that. So the thread that writes blocks the signal.
 */
#include <pthread.h>

#include "jobs/redis_socket.h"

static void only_sigpipe(sigset_t *set) {
  sigemptyset(set);
  sigaddset(set, SIGPIPE);
}

void uvs__redis_block_sigpipe(sigset_t *before) {
  sigset_t set;

  only_sigpipe(&set);
  pthread_sigmask(SIG_BLOCK, &set, before);
}

/* Removes the signals that were sent meanwhile; otherwise they would end the process now. */
void uvs__redis_restore_sigpipe(const sigset_t *before) {
  sigset_t set, pending;
  int taken;

  only_sigpipe(&set);
  if (sigismember(before, SIGPIPE) == 0 && sigpending(&pending) == 0 &&
      sigismember(&pending, SIGPIPE) == 1)
    sigwait(&set, &taken);
  pthread_sigmask(SIG_SETMASK, before, NULL);
}
