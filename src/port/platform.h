/* SPDX-License-Identifier: MIT
 *
 * platform: what differs by system. linux.c uses what Linux has; other.c makes do with libuv and
 * POSIX.
 */
#ifndef UVS__PLATFORM_H
#define UVS__PLATFORM_H

#include <unistd.h>

#include "port/mem.h"

/* What uv_hrtime says. */
uint64_t uvs__clock_hrtime(void);

/* What malloc gives, for free(). Large pieces may lie on large pages. */
void *uvs__mem_system(size_t size);

/* ---- fork: are we in a child of the process that opened the scheduler? ---- */

struct uvs__fork {
  volatile int *mark; /* in a page that the kernel wipes in the child; or NULL */
  int pid;            /* or 0, if the page tells */
};

/* 0, or what the system answers. */
int uvs__fork_init(struct uvs__fork *f);
void uvs__fork_destroy(struct uvs__fork *f);

static inline bool uvs__forked(const struct uvs__fork *f) {
  return (f->mark != NULL && *f->mark == 0) || (f->pid != 0 && f->pid != (int)getpid());
}

/* ---- threads ---- */

/* The system's number of this thread. */
int uvs__thread_tid(void);
/* True only if that thread of this process has surely ended. */
bool uvs__thread_gone(int tid);
/* The CPU time that this thread has used; 0: it is not known. */
uint64_t uvs__thread_cpu_ns(void);
/* What the system's tools show for this thread; up to 15 bytes. Where they show none: nothing. */
void uvs__thread_name(const char *name);

/* ---- alarms: timers of the system that a loop watches through a uv_poll handle ---- */

/* An alarm never holds the loop. It has memory of its own, since libuv may have its handle longer
 * than a scheduler that could not be opened after all. */
struct uvs__alarm {
  uv_poll_t poll;
  int fd;
  bool wall;
  void (*rings)(void *data);
  uvs_allocator_t mem;
};

/* Loop thread, all. Opens an alarm that calls `rings` at a time (uvs__alarm_set); `wall`: instead
 * whenever the wall clock was set. `data` is also that of the handle. 0; UV_ENOTSUP: not on this
 * system; UV_ENOMEM; or what the system or libuv answers. */
int uvs__alarm_open(const uvs_allocator_t *mem, uv_loop_t *loop, bool wall,
                    void (*rings)(void *data), void *data, struct uvs__alarm **ret);
/* Rings once, at due_ns of uv_hrtime or later, also if that is over; instead of what was set
 * before. UVS__NEVER: not at all. False if the system refuses. */
bool uvs__alarm_set(struct uvs__alarm *a, uint64_t due_ns);
/* The handle is closed, by whomever: frees the alarm. */
void uvs__alarm_free(struct uvs__alarm *a);

#endif
