/* SPDX-License-Identifier: MIT */
#include "port/platform.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>

#define SECOND UINT64_C(1000000000)
#define HUGE_PAGE ((size_t)2 << 20)
#define NO_SUCH_ADVICE (-1)

static uint64_t ns_of(clockid_t clock) {
  struct timespec t;

  clock_gettime(clock, &t); /* it cannot fail: these clocks exist */
  return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

/* Reads the clock of uv_hrtime directly. It is read for each task, and uv_hrtime takes twice as
 * long as reading the clock. */
uint64_t uvs__clock_hrtime(void) {
  return ns_of(CLOCK_MONOTONIC);
}

/* Huge pages if possible: a million slots are 16,000 small pages, far more than the TLB holds. */
void *uvs__mem_system(size_t size) {
  void *ptr;

  if (size < HUGE_PAGE || posix_memalign(&ptr, HUGE_PAGE, size) != 0)
    return malloc(size);
  madvise(ptr, size / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE); /* advice: may be refused */
  return ptr;
}

/* ---- fork: since Linux 4.14 a page may read as zero in a forked child ---- */

/* Is the page surely wiped in a child? Older kernels and valgrind refuse the advice. qemu-user
 * accepts every advice, even one that does not exist, and ignores this one. */
static bool wipe_on_fork(void *page) {
  return madvise(page, 1, NO_SUCH_ADVICE) != 0 && madvise(page, 1, MADV_WIPEONFORK) == 0;
}

int uvs__fork_init(struct uvs__fork *f) {
  void *page = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  if (page == MAP_FAILED)
    return -errno;
  f->mark = page;
  *f->mark = 1;
  f->pid = wipe_on_fork(page) ? 0 : (int)getpid();
  return 0;
}

void uvs__fork_destroy(struct uvs__fork *f) {
  munmap((void *)f->mark, 1);
}

/* ---- threads ---- */

int uvs__thread_tid(void) {
  return (int)syscall(SYS_gettid);
}

/* Signal 0 can be sent to a thread until it has ended. */
bool uvs__thread_gone(int tid) {
  int saved = errno;
  bool gone = syscall(SYS_tgkill, getpid(), tid, 0) != 0 && errno == ESRCH;

  errno = saved;
  return gone;
}

uint64_t uvs__thread_cpu_ns(void) {
  return ns_of(CLOCK_THREAD_CPUTIME_ID);
}

void uvs__thread_name(const char *name) {
  (void)pthread_setname_np(pthread_self(), name);
}

/* ---- alarms: timerfds. The kernel adds slack to an epoll time-out, but not to a timerfd ---- */

/* Sets a timer that never expires. A step of the real-time clock, or a resume from suspend, cancels
 * the timer. The timer reports that once, so it must be set again afterwards. */
static bool watch_wall(int fd) {
  struct itimerspec far;

  memset(&far, 0, sizeof far);
  far.it_value.tv_sec =
      sizeof far.it_value.tv_sec == 8 ? (time_t)INT64_C(0x1ffffffff) : (time_t)INT32_MAX;
  return timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &far, NULL) == 0;
}

static void on_poll(uv_poll_t *h, int status, int events) {
  struct uvs__alarm *a = (void *)((char *)h - offsetof(struct uvs__alarm, poll));
  uint64_t expirations;

  (void)status;
  (void)events;
  /* Without the read the handle stays readable. EAGAIN: the alarm was set again meanwhile. */
  if (read(a->fd, &expirations, sizeof expirations) < 0 && errno == EAGAIN)
    return;
  if (a->wall) /* the read has failed with ECANCELED */
    watch_wall(a->fd);
  a->rings(h->data);
}

int uvs__alarm_open(const uvs_allocator_t *mem, uv_loop_t *loop, bool wall,
                    void (*rings)(void *data), void *data, struct uvs__alarm **ret) {
  struct uvs__alarm *a = uvs__mem_alloc(mem, 1, sizeof *a, 0);
  int rc;

  if (a == NULL)
    return UV_ENOMEM;
  a->mem = *mem;
  a->rings = rings;
  a->wall = wall;
  a->fd = timerfd_create(wall ? CLOCK_REALTIME : CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  if (a->fd < 0 || (wall && !watch_wall(a->fd)))
    rc = uv_translate_sys_error(errno);
  else
    rc = uv_poll_init(loop, &a->poll, a->fd);
  if (rc < 0) {
    uvs__alarm_free(a);
    return rc;
  }
  a->poll.data = data;
  rc = uv_poll_start(&a->poll, UV_READABLE, on_poll);
  UVS_ASSERT(rc == 0); /* it cannot fail: the handle is not closing */
  uv_unref((uv_handle_t *)&a->poll);
  *ret = a;
  return 0;
}

/* due_ns is an absolute time of uv_hrtime's clock, so the present time is not needed. */
bool uvs__alarm_set(struct uvs__alarm *a, uint64_t due_ns) {
  struct itimerspec t;

  memset(&t, 0, sizeof t);
  if (due_ns != UVS__NEVER) { /* all zero: the timer is stopped; due_ns is never 0 */
    t.it_value.tv_sec = (time_t)(due_ns / SECOND);
    t.it_value.tv_nsec = (long)(due_ns % SECOND);
  }
  return timerfd_settime(a->fd, TFD_TIMER_ABSTIME, &t, NULL) == 0;
}

void uvs__alarm_free(struct uvs__alarm *a) {
  uvs_allocator_t mem = a->mem;

  if (a->fd >= 0)
    close(a->fd);
  uvs__mem_free(&mem, a);
}
