/* SPDX-License-Identifier: MIT
 *
 * Threads of this process by name, as top and ps show them. Linux only.
 */
#ifndef TEST_NAMED_H
#define TEST_NAMED_H

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <uv.h>

#define NAMES_PATIENCE_NS UINT64_C(20000000000)

static inline bool read_name_at(const char *path, char *name, int size) {
  FILE *in = fopen(path, "r");
  bool known;

  if (in == NULL)
    return false;
  known = fgets(name, size, in) != NULL;
  fclose(in);
  if (known)
    name[strcspn(name, "\n")] = '\0';
  return known;
}

static inline bool read_name(const char *tid, char *name, int size) {
  char path[300];

  snprintf(path, sizeof path, "/proc/self/task/%s/comm", tid);
  return read_name_at(path, name, size);
}

/* The name of the calling thread. */
static inline bool read_own_name(char *name, int size) {
  return read_name_at("/proc/thread-self/comm", name, size);
}

/* The number of threads whose name begins with `begin`. -1 on systems without this information. */
static inline int count_named(const char *begin) {
  DIR *d = opendir("/proc/self/task");
  char name[32];
  int n = 0;

  if (d == NULL)
    return -1;
  for (struct dirent *f = readdir(d); f != NULL; f = readdir(d))
    n += read_name(f->d_name, name, sizeof name) && strncmp(name, begin, strlen(begin)) == 0;
  closedir(d);
  return n;
}

/* Waits until n threads have such a name: a new thread has no name yet, and a joined thread is
 * listed for a moment longer. Returns true on systems without this information. */
static inline bool await_named(const char *begin, int n) {
  uint64_t end_ns = uv_hrtime() + (uint64_t)NAMES_PATIENCE_NS;

  if (count_named("") < 0)
    return true;
  while (count_named(begin) != n && uv_hrtime() < end_ns)
    uv_sleep(1);
  return count_named(begin) == n;
}

#endif
