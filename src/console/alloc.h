/* SPDX-License-Identifier: MIT
 *
 * alloc: the only place where this library gets memory of its own. (libmicrohttpd has its own.)
 * Tests replace uvs__console_alloc at link time to let it fail.
 */
#ifndef UVSCHED_CONSOLE_ALLOC_H
#define UVSCHED_CONSOLE_ALLOC_H

#include <stddef.h>

void *uvs__console_alloc(size_t size); /* zeroed; NULL: no memory */
void *uvs__console_realloc(void *old,
                           size_t size); /* not zeroed; NULL: no memory, old is unchanged */
void uvs__console_free(void *p);
char *uvs__console_copy(const char *text); /* NULL: no memory */

#endif
