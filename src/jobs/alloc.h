/* SPDX-License-Identifier: MIT
 *
 * alloc: the only place where the jobs library gets memory. Tests replace uvs__jobs_alloc at link
 * time to let it fail.
 */
#ifndef UVSCHED_JOBS_ALLOC_H
#define UVSCHED_JOBS_ALLOC_H

#include <stddef.h>

void *uvs__jobs_alloc(size_t size);              /* zeroed; NULL: no memory */
void *uvs__jobs_realloc(void *old, size_t size); /* not zeroed; NULL: no memory, old is unchanged */
void uvs__jobs_free(void *p);

#endif
