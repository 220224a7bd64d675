/* SPDX-License-Identifier: MIT
 *
 * fork: are we in a child of the process that opened the scheduler? One load per call (fork_wipe.c)
 * or a getpid (fork_pid.c).
 */
#ifndef UVS__FORK_H
#define UVS__FORK_H

#include <stdbool.h>
#include <stddef.h>

#include <unistd.h>

struct uvs__fork {
  volatile int *mark; /* a page that the kernel wipes in the child; or NULL */
  size_t size;
  int pid; /* or 0, if the page tells */
};

int uvs__fork_init(struct uvs__fork *f);
void uvs__fork_destroy(struct uvs__fork *f);

static inline bool uvs__forked(const struct uvs__fork *f) {
  return (f->mark != NULL && *f->mark == 0) || (f->pid != 0 && f->pid != (int)getpid());
}

#endif
