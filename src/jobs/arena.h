/* SPDX-License-Identifier: MIT
 *
 * arena: memory for many small things that are freed together.
 */
#ifndef UVSCHED_JOBS_ARENA_H
#define UVSCHED_JOBS_ARENA_H

#include <stddef.h>

struct uvs__chunk;
struct uvs__arena {
  struct uvs__chunk *chunks; /* NULL: empty, and nothing to free */
};

/* Aligned for any type, and zeroed. NULL: no memory. */
void *uvs__arena_alloc(struct uvs__arena *a, size_t size);
/* A copy, with a zero byte behind it. data may be NULL if size is 0. NULL: no memory. */
void *uvs__arena_copy(struct uvs__arena *a, const void *data, size_t size);
/* A copy of a string; *ret is NULL for NULL. False: no memory. */
int uvs__arena_string(struct uvs__arena *a, const char *text, const char **ret);
/* Moves all that is in `from` to *a. */
void uvs__arena_join(struct uvs__arena *a, struct uvs__arena *from);
void uvs__arena_free(struct uvs__arena *a);

#endif
