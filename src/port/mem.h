/* SPDX-License-Identifier: MIT
 *
 * mem: all allocation goes through here. The allocator can be replaced, so a test can make it fail.
 */
#ifndef UVS__MEM_H
#define UVS__MEM_H

#include "uvsched.h"

#include "port/base.h"

/* Fills in malloc and free if *m names none. */
void uvs__mem_init(uvs_allocator_t *m);

/* n * size + extra bytes, uninitialized; NULL if that overflows or allocation fails. Any thread. */
void *uvs__mem_alloc(const uvs_allocator_t *m, size_t n, size_t size, size_t extra);
void uvs__mem_free(const uvs_allocator_t *m, void *ptr);

#endif
