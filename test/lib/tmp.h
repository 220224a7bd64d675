/* SPDX-License-Identifier: MIT
 *
 * tmp: where tests put their temporary folders.
 */
#ifndef TEST_TMP_H
#define TEST_TMP_H

#include <stdlib.h>
#include <unistd.h>

/* TMPDIR; else /dev/shm, because on a disk SQLite waits at each commit; else /tmp. */
static inline const char *tmp_root(void) {
  const char *asked = getenv("TMPDIR");

  if (asked != NULL)
    return asked;
  return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

#endif
