/* SPDX-License-Identifier: MIT
 *
 * sizes: structs that callers pass, with their `size`. Older and newer callers have other sizes
 * (L19).
 */
#ifndef UVS__SIZES_H
#define UVS__SIZES_H

#include <stddef.h>

/* May a struct of a caller have this size? `ours` is the size that we know, `least` the smallest
 * ever. A smaller struct leaves defaults; a larger one must say nothing that we do not know. 0 or
 * UV_EINVAL. */
int uvs__check_size(const void *given, size_t size, size_t ours, size_t least);

#endif
