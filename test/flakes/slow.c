/* SPDX-License-Identifier: MIT
 *
 * slow: makes a machine slow at random points. `hunt` preloads it into a test program: one in SLOW
 * (default 100) calls that lock, unlock, read the clock or write yields, or sleeps for up to 25 ms.
 * So threads interleave, and runs take times, as they never do on an idle machine.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static unsigned one_in = 100;
static uint64_t seed = 1;

__attribute__((constructor)) static void read_environment(void) {
  const char *text = getenv("SLOW");

  if (text != NULL)
    one_in = (unsigned)strtoul(text, NULL, 10);
  text = getenv("SEED");
  if (text != NULL)
    seed = strtoull(text, NULL, 0);
}

/* xorshift; each thread has its own state. */
static uint64_t draw(void) {
  static _Thread_local uint64_t state;

  if (state == 0)
    state = (seed * 0x9e3779b97f4a7c15u + (uint64_t)gettid() * 0xbf58476d1ce4e5b9u) | 1;
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state >> 11;
}

/* Half of these calls yield; most others sleep for less than 0.3 or 3 ms. */
static void hold_up(void) {
  struct timespec t = {0, 0};
  uint64_t r = draw();
  unsigned kind;

  if (one_in == 0 || r % one_in != 0)
    return;
  kind = (unsigned)(r / one_in % 100);
  r = draw();
  if (kind < 50) {
    sched_yield();
    return;
  }
  t.tv_nsec = (long)(r % (kind < 80 ? 300000 : kind < 98 ? 3000000 : 25000000));
  syscall(SYS_nanosleep, &t, NULL); /* not by a function that may be replaced here */
}

static void *next(const char *name) {
  return dlsym(RTLD_NEXT, name);
}

int pthread_mutex_lock(pthread_mutex_t *m) {
  static int (*real)(pthread_mutex_t *);

  if (real == NULL)
    real = (int (*)(pthread_mutex_t *))next("pthread_mutex_lock");
  hold_up();
  return real(m);
}

int pthread_mutex_trylock(pthread_mutex_t *m) {
  static int (*real)(pthread_mutex_t *);

  if (real == NULL)
    real = (int (*)(pthread_mutex_t *))next("pthread_mutex_trylock");
  hold_up();
  return real(m);
}

int pthread_mutex_unlock(pthread_mutex_t *m) {
  static int (*real)(pthread_mutex_t *);
  int rc;

  if (real == NULL)
    real = (int (*)(pthread_mutex_t *))next("pthread_mutex_unlock");
  rc = real(m);
  hold_up();
  return rc;
}

int clock_gettime(clockid_t which, struct timespec *ret) {
  static int (*real)(clockid_t, struct timespec *);
  int rc;

  if (real == NULL)
    real = (int (*)(clockid_t, struct timespec *))next("clock_gettime");
  rc = real(which, ret);
  hold_up(); /* so that it is old when the caller has it */
  return rc;
}

ssize_t write(int fd, const void *data, size_t n) {
  static ssize_t (*real)(int, const void *, size_t);

  if (real == NULL)
    real = (ssize_t(*)(int, const void *, size_t))next("write");
  hold_up();
  return real(fd, data, n);
}
