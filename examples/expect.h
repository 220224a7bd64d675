/* SPDX-License-Identifier: MIT
 *
 * Every example also runs as a test: it checks what it shows, and its exit code is the result. */
#ifndef EXPECT_H
#define EXPECT_H

#include <stdio.h>
#include <stdlib.h>

/* _Exit, because exit would wait for libuv's pool threads, and one of them may be the caller. */
#define EXPECT(what) \
  do { \
    if (!(what)) { \
      fflush(stdout); \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #what); \
      _Exit(1); \
    } \
  } while (0)

#endif
