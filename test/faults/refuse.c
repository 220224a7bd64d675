/* SPDX-License-Identifier: MIT */
#include "refuse.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/timerfd.h>

int __real_uv_queue_work(uv_loop_t *, uv_work_t *, uv_work_cb, uv_after_work_cb);
int __wrap_uv_queue_work(uv_loop_t *, uv_work_t *, uv_work_cb, uv_after_work_cb);
int __real_uv_async_init(uv_loop_t *, uv_async_t *, uv_async_cb);
int __wrap_uv_async_init(uv_loop_t *, uv_async_t *, uv_async_cb);
int __real_uv_timer_start(uv_timer_t *, uv_timer_cb, uint64_t, uint64_t);
int __wrap_uv_timer_start(uv_timer_t *, uv_timer_cb, uint64_t, uint64_t);
int __real_uv_poll_init(uv_loop_t *, uv_poll_t *, int);
int __wrap_uv_poll_init(uv_loop_t *, uv_poll_t *, int);
int __real_uv_mutex_init(uv_mutex_t *);
int __wrap_uv_mutex_init(uv_mutex_t *);
int __real_uv_cond_init(uv_cond_t *);
int __wrap_uv_cond_init(uv_cond_t *);
int __real_uv_thread_create_ex(uv_thread_t *, const uv_thread_options_t *, uv_thread_cb, void *);
int __wrap_uv_thread_create_ex(uv_thread_t *, const uv_thread_options_t *, uv_thread_cb, void *);
int __real_timerfd_create(int, int);
int __wrap_timerfd_create(int, int);
int __real_timerfd_settime(int, int, const struct itimerspec *, struct itimerspec *);
int __wrap_timerfd_settime(int, int, const struct itimerspec *, struct itimerspec *);
void *__real_mmap64(void *, size_t, int, int, int, off_t);
void *__wrap_mmap64(void *, size_t, int, int, int, off_t);
void *__real_mmap(void *, size_t, int, int, int, off_t);
void *__wrap_mmap(void *, size_t, int, int, int, off_t);
int __real_madvise(void *, size_t, int);
int __wrap_madvise(void *, size_t, int);
void *__real_calloc(size_t, size_t);
void *__wrap_calloc(size_t, size_t);
int __real_pthread_setname_np(pthread_t, const char *);
int __wrap_pthread_setname_np(pthread_t, const char *);

const char *const refuse_names[REFUSABLES] = {"memory",
                                              "calloc",
                                              "uv_queue_work",
                                              "uv_async_init",
                                              "uv_timer_start",
                                              "uv_poll_init",
                                              "timerfd_create",
                                              "timerfd_settime",
                                              "uv_mutex_init",
                                              "uv_cond_init",
                                              "uv_thread_create_ex",
                                              "mmap",
                                              "madvise",
                                              "pthread_setname_np"};

#define NOTHING (-1)
#define ANYTHING REFUSABLES

static _Atomic int chosen = NOTHING;
static _Atomic long countdown;
static _Atomic bool for_ever;
static _Atomic int answer;
static _Atomic long refused;
static _Atomic uint64_t random_state;
static _Atomic unsigned odds;

static void order(int which, int code) {
  atomic_store(&chosen, NOTHING);
  atomic_store(&answer, code);
  atomic_store(&refused, 0);
  atomic_store(&chosen, which);
}

void refuse_after(enum refusable which, long n, bool all, int code) {
  refuse_nothing();
  atomic_store(&countdown, n);
  atomic_store(&for_ever, all);
  order((int)which, code);
}

void refuse_randomly(uint64_t seed, unsigned one_in, int code) {
  refuse_nothing();
  atomic_store(&random_state, seed);
  atomic_store(&odds, one_in);
  order(ANYTHING, code);
}

void refuse_nothing(void) {
  atomic_store(&chosen, NOTHING);
}

long refuse_count(void) {
  return atomic_load(&refused);
}

/* A counter with a mixing function: any thread may draw, and no draw depends on another. */
static bool unlucky(void) {
  uint64_t x = atomic_fetch_add(&random_state, UINT64_C(0x9e3779b97f4a7c15));

  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return (x ^ x >> 31) % atomic_load(&odds) == 0;
}

static bool is_refused(enum refusable which) {
  int now = atomic_load(&chosen);
  bool yes;

  if (now == ANYTHING) {
    yes = unlucky();
  } else if (now == (int)which) {
    long left = atomic_fetch_sub(&countdown, 1);

    yes = left == 0 || (left < 0 && atomic_load(&for_ever));
  } else {
    yes = false;
  }
  if (yes)
    atomic_fetch_add(&refused, 1);
  return yes;
}

/* Refuses a system call: sets errno. */
static bool no(enum refusable which) {
  if (!is_refused(which))
    return false;
  errno = -atomic_load(&answer);
  return true;
}

static int code(void) {
  return atomic_load(&answer);
}

int __wrap_uv_queue_work(uv_loop_t *loop, uv_work_t *req, uv_work_cb work, uv_after_work_cb after) {
  return is_refused(REFUSE_QUEUE_WORK) ? code() : __real_uv_queue_work(loop, req, work, after);
}

int __wrap_uv_async_init(uv_loop_t *loop, uv_async_t *h, uv_async_cb cb) {
  return is_refused(REFUSE_ASYNC_INIT) ? code() : __real_uv_async_init(loop, h, cb);
}

int __wrap_uv_timer_start(uv_timer_t *h, uv_timer_cb cb, uint64_t timeout, uint64_t repeat) {
  return is_refused(REFUSE_TIMER_START) ? code() : __real_uv_timer_start(h, cb, timeout, repeat);
}

int __wrap_uv_poll_init(uv_loop_t *loop, uv_poll_t *h, int fd) {
  return is_refused(REFUSE_POLL_INIT) ? code() : __real_uv_poll_init(loop, h, fd);
}

int __wrap_uv_mutex_init(uv_mutex_t *m) {
  return is_refused(REFUSE_MUTEX_INIT) ? code() : __real_uv_mutex_init(m);
}

int __wrap_uv_cond_init(uv_cond_t *c) {
  return is_refused(REFUSE_COND_INIT) ? code() : __real_uv_cond_init(c);
}

int __wrap_uv_thread_create_ex(uv_thread_t *t, const uv_thread_options_t *o, uv_thread_cb entry,
                               void *arg) {
  return is_refused(REFUSE_THREAD_CREATE) ? code() : __real_uv_thread_create_ex(t, o, entry, arg);
}

int __wrap_timerfd_create(int clock, int flags) {
  return no(REFUSE_TIMERFD_CREATE) ? -1 : __real_timerfd_create(clock, flags);
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *new,
                           struct itimerspec *old) {
  return no(REFUSE_TIMERFD_SETTIME) ? -1 : __real_timerfd_settime(fd, flags, new, old);
}

void *__wrap_mmap64(void *at, size_t n, int prot, int flags, int fd, off_t offset) {
  return no(REFUSE_MMAP) ? MAP_FAILED : __real_mmap64(at, n, prot, flags, fd, offset);
}

void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset) {
  return no(REFUSE_MMAP) ? MAP_FAILED : __real_mmap(at, n, prot, flags, fd, offset);
}

int __wrap_madvise(void *at, size_t n, int advice) {
  return no(REFUSE_MADVISE) ? -1 : __real_madvise(at, n, advice);
}

void *__wrap_calloc(size_t n, size_t size) {
  return no(REFUSE_CALLOC) ? NULL : __real_calloc(n, size);
}

int __wrap_pthread_setname_np(pthread_t t, const char *name) {
  return is_refused(REFUSE_SETNAME) ? ERANGE : __real_pthread_setname_np(t, name);
}

static void *alloc(size_t size, void *arg) {
  uvs_allocator_t *under = arg;

  return is_refused(REFUSE_MEMORY) ? NULL : under->alloc(size, under->arg);
}

static void give_back(void *ptr, void *arg) {
  uvs_allocator_t *under = arg;

  under->free(ptr, under->arg);
}

uvs_allocator_t refuse_allocator(uvs_allocator_t *under) {
  uvs_allocator_t a = {alloc, give_back, under};

  return a;
}
