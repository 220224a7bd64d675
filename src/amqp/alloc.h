/* SPDX-License-Identifier: MIT
 *
 * alloc: the only place where this library gets memory of its own. (rabbitmq-c has its own.) Tests
 * replace uvs__amqp_alloc at link time to let it fail.
 */
#ifndef UVSCHED_AMQP_ALLOC_H
#define UVSCHED_AMQP_ALLOC_H

#include <stddef.h>

void *uvs__amqp_alloc(size_t size);              /* zeroed; NULL: no memory */
void *uvs__amqp_realloc(void *old, size_t size); /* not zeroed; NULL: no memory, old is unchanged */
void uvs__amqp_free(void *p);
char *uvs__amqp_copy(const char *text); /* NULL: no memory */

#endif
