/* SPDX-License-Identifier: MIT
 *
 * clock_shim: another wall clock for a program that is started with this library in LD_PRELOAD. The
 * file that CLOCK_SHIM names has 8 bytes, the number of microseconds that the program's clock is
 * ahead; it may change at any time. libfaketime does not start with a redis-server that uses
 * jemalloc. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *ahead_us; /* NULL: not initialized yet */

__attribute__((constructor)) static void map_file(void) {
  const char *name = getenv("CLOCK_SHIM");
  int file = name == NULL ? -1 : open(name, O_RDONLY | O_CLOEXEC);
  void *map = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *ahead_us, PROT_READ, MAP_SHARED, file, 0);

  if (map == MAP_FAILED)
    abort();
  close(file);
  ahead_us = map;
}

static int64_t now_ns(void) {
  struct timespec t;

  if (syscall(SYS_clock_gettime, CLOCK_REALTIME, &t) != 0)
    abort();
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec + (ahead_us == NULL ? 0 : *ahead_us * 1000);
}

int clock_gettime(clockid_t clock, struct timespec *ret) {
  int64_t ns;

  if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
    return (int)syscall(SYS_clock_gettime, clock, ret);
  ns = now_ns();
  ret->tv_sec = ns / 1000000000;
  ret->tv_nsec = ns % 1000000000;
  return 0;
}

int gettimeofday(struct timeval *ret, void *zone) {
  int64_t ns = now_ns();

  (void)zone;
  ret->tv_sec = ns / 1000000000;
  ret->tv_usec = ns % 1000000000 / 1000;
  return 0;
}

time_t time(time_t *ret) {
  time_t s = now_ns() / 1000000000;

  if (ret != NULL)
    *ret = s;
  return s;
}
