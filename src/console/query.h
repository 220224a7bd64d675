/* SPDX-License-Identifier: MIT
 *
 * query: reads a request target: the path, and the parameters behind the '?'.
 */
#ifndef UVSCHED_CONSOLE_QUERY_H
#define UVSCHED_CONSOLE_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Is this the path of the target? */
bool uvs__query_path_is(const char *target, const char *path);

/* The decoded value of the first parameter of this name. Returns its length; UV_ENOENT: there is
 * none; UV_EINVAL: it does not fit, has a zero byte, or is not well-formed. */
int uvs__query_text(const char *target, const char *name, char *ret, size_t size);

/* A decimal number from `min` to `max`. 0: *ret is set, or unchanged if there is no such parameter.
 * UV_EINVAL. */
int uvs__query_uint(const char *target, const char *name, uint64_t min, uint64_t max,
                    uint64_t *ret);

/* The place of the parameter's value among `words`, which end with NULL. 0: *ret is set, or
 * unchanged. UV_EINVAL: it is not among them. */
int uvs__query_word(const char *target, const char *name, const char *const *words, int *ret);

#endif
