/* SPDX-License-Identifier: MIT */
#include "util/sizes.h"

#include <stdint.h>

#include <uv.h>

#define STRUCT_SIZE_MAX 4096 /* no struct will ever be larger: a size beyond is a mistake */

int uvs__check_size(const void *given, size_t size, size_t ours, size_t least) {
  if (size < least || size > STRUCT_SIZE_MAX || size % _Alignof(int64_t) != 0)
    return UV_EINVAL;
  for (size_t i = ours; i < size; i++) {
    if (((const char *)given)[i] != 0)
      return UV_EINVAL;
  }
  return 0;
}
