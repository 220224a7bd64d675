/* SPDX-License-Identifier: MIT
 *
 * other: the functions of platform.h, with libuv and POSIX only. uvs__thread_gone is always false,
 * threads get no names, and there are no alarms.
 */
#include "port/platform.h"

uint64_t uvs__clock_hrtime(void) {
  return uv_hrtime();
}

void *uvs__mem_system(size_t size) {
  return malloc(size);
}

int uvs__fork_init(struct uvs__fork *f) {
  *f = (struct uvs__fork){NULL, (int)getpid()};
  return 0;
}

void uvs__fork_destroy(struct uvs__fork *f) {
  (void)f;
}

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

int uvs__alarm_open(const uvs_allocator_t *mem, uv_loop_t *loop, bool wall,
                    void (*rings)(void *data), void *data, struct uvs__alarm **ret) {
  (void)mem;
  (void)loop;
  (void)wall;
  (void)rings;
  (void)data;
  (void)ret;
  return UV_ENOTSUP;
}

/* The next two functions are never called, since no alarm can be opened. */
bool uvs__alarm_set(struct uvs__alarm *a, uint64_t due_ns) {
  (void)a;
  (void)due_ns;
  return false;
}

void uvs__alarm_free(struct uvs__alarm *a) {
  (void)a;
}
