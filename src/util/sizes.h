/* SPDX-License-Identifier: MIT
 *
 * sizes: checks the `size` of structs that callers pass. A caller that was compiled with an older
 * or newer header passes another size (L19).
 */
#ifndef UVS__SIZES_H
#define UVS__SIZES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <uv.h>

#define UVS__STRUCT_MAX 4096 /* no struct will ever be larger: a size beyond is a mistake */

/* May a caller's struct have this size? `ours` is the size in this version, `least` the smallest
 * ever. Fields that a smaller struct lacks have defaults. A larger struct must be zero beyond
 * `ours`. 0 or UV_EINVAL. */
static inline int uvs__check_size(const void *given, size_t size, size_t ours, size_t least) {
  if (size < least || size > UVS__STRUCT_MAX || size % _Alignof(int64_t) != 0)
    return UV_EINVAL;
  for (size_t i = ours; i < size; i++) {
    if (((const char *)given)[i] != 0)
      return UV_EINVAL;
  }
  return 0;
}

/* The same, and copies the caller's struct to ret, which holds the defaults. */
static inline int uvs__read_sized(void *ret, size_t ours, const void *given, size_t size,
                                  size_t least) {
  int rc = uvs__check_size(given, size, ours, least);

  if (rc == 0)
    memcpy(ret, given, size < ours ? size : ours);
  return rc;
}

#endif
