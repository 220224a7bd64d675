/* SPDX-License-Identifier: MIT
 *
 * base: asserts, saturating time arithmetic, and the index of a chunked array.
 *
 * Inside the library, times are uint64_t nanoseconds. They are never above UVS__NEVER (=
 * UVS_NEVER), so they also fit the public int64_t.
 */
#ifndef UVS__BASE_H
#define UVS__BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Stays on in release: a scheduler with a broken heap must not run jobs. */
#define UVS_ASSERT(cond) \
  do { \
    if (!(cond)) { \
      fprintf(stderr, "uvsched: %s:%d: %s: broken invariant: %s\n", __FILE__, __LINE__, __func__, \
              #cond); \
      abort(); \
    } \
  } while (0)

#define UVS__NEVER ((uint64_t)INT64_MAX)
#define UVS__NONE UINT32_MAX

/* now + delay, saturating. A delay of zero or less is now. */
static inline uint64_t uvs__later(uint64_t now_ns, int64_t delay_ns) {
  if (delay_ns <= 0)
    return now_ns;
  if ((uint64_t)delay_ns >= UVS__NEVER - now_ns)
    return UVS__NEVER;
  return now_ns + (uint64_t)delay_ns;
}

/* a + n * step, saturating. */
static inline uint64_t uvs__steps_later(uint64_t a_ns, uint64_t n, uint64_t step_ns) {
  if (n != 0 && step_ns > (UVS__NEVER - a_ns) / n)
    return UVS__NEVER;
  return a_ns + n * step_ns;
}

/* An instant that a caller gave. Negative values count as 0, where the clock begins. */
static inline uint64_t uvs__instant(int64_t ns) {
  return ns < 0 ? 0 : (uint64_t)ns;
}

/* A chunked array never moves: chunk k has 64 << k elements. 20 chunks are 2^26 - 64 elements. */
#define UVS__CHUNKS 20
#define UVS__CHUNK_FIRST 64u
#define UVS__INDEX_MAX ((UVS__CHUNK_FIRST << UVS__CHUNKS) - UVS__CHUNK_FIRST)

static inline uint32_t uvs__chunk_size(unsigned k) {
  return UVS__CHUNK_FIRST << k;
}

static inline unsigned uvs__chunk_of(uint32_t index, uint32_t *ret_offset) {
  uint32_t j = index + UVS__CHUNK_FIRST;
  unsigned top = 31u ^ (unsigned)__builtin_clz(j); /* written like this, it is one instruction */

  *ret_offset = j ^ 1u << top;
  return top - 6u;
}

#endif
