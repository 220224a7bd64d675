/* SPDX-License-Identifier: MIT
 *
 * platform: what differs by system. linux.c uses what Linux has; other.c makes do with libuv and
 * POSIX.
 */
#ifndef UVS__PLATFORM_H
#define UVS__PLATFORM_H

#include <unistd.h>

#include "port/mem.h"

/* The same clock as uv_hrtime. */
uint64_t uvs__clock_hrtime(void);

/* As malloc; free() frees the memory. Large blocks may be on huge pages. */
void *uvs__mem_system(size_t size);

/* ---- fork: are we in a child of the process that opened the scheduler? ---- */

struct uvs__fork {
  volatile int *mark; /* in a page that the kernel wipes in the child; NULL: none */
  int pid;            /* the opener's process id; 0: `mark` is enough */
};

/* 0, or what the system answers. */
int uvs__fork_init(struct uvs__fork *f);
void uvs__fork_destroy(struct uvs__fork *f);

static inline bool uvs__forked(const struct uvs__fork *f) {
  return (f->mark != NULL && *f->mark == 0) || (f->pid != 0 && f->pid != (int)getpid());
}

/* ---- threads ---- */

/* Tells the CPU that this thread waits for another one. */
static inline void uvs__cpu_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || (defined(__ARM_ARCH) && __ARM_ARCH >= 7)
  __asm__ volatile("yield");
#endif
}

/* The system's number of this thread. */
int uvs__thread_tid(void);
/* True only if that thread of this process has surely ended. */
bool uvs__thread_gone(int tid);
/* The CPU time that this thread has used; 0: it is not known. */
uint64_t uvs__thread_cpu_ns(void);
/* Sets the name that the system's tools show for this thread, up to 15 bytes. May do nothing. */
void uvs__thread_name(const char *name);

/* ---- alarms: timers of the system that a loop watches through a uv_poll handle ---- */

/* An alarm never keeps the loop alive. It is allocated apart from the scheduler: if uvs_open fails,
 * the scheduler is freed while libuv still has the handle. */
struct uvs__alarm {
  uv_poll_t poll;
  int fd;
  bool wall;
  void (*rings)(void *data);
  uvs_allocator_t mem;
};

/* Loop thread, all. Opens an alarm that calls `rings` at the time of uvs__alarm_set; with `wall`,
 * each time the wall clock is set. `data` is also the data of the handle. 0; UV_ENOTSUP: not on
 * this system; UV_ENOMEM; or what the system or libuv answers. */
int uvs__alarm_open(const uvs_allocator_t *mem, uv_loop_t *loop, bool wall,
                    void (*rings)(void *data), void *data, struct uvs__alarm **ret);
/* Rings once, at due_ns by uv_hrtime or later, even if that time has already passed. Replaces the
 * time that was set before. UVS__NEVER: does not ring. False: the system refuses. */
bool uvs__alarm_set(struct uvs__alarm *a, uint64_t due_ns);
/* Frees the alarm. Its handle is closed, or was never opened. */
void uvs__alarm_free(struct uvs__alarm *a);

#endif
