/* SPDX-License-Identifier: MIT
 *
 * headers: finds and changes headers of a message. A changed table is a copy of the array of
 * entries in a pool; the values stay where they are.
 */
#ifndef UVSCHED_AMQP_HEADERS_H
#define UVSCHED_AMQP_HEADERS_H

#include <stdbool.h>

#include <amqp.h>
#include <amqp_framing.h>

amqp_bytes_t uvs__amqp_text(const char *text);
bool uvs__amqp_is(amqp_bytes_t bytes, const char *text);
amqp_field_value_t uvs__amqp_string(const char *text);

/* The value of a header; NULL: there is none. */
const amqp_field_value_t *uvs__header_find(const amqp_table_t *headers, const char *name);

/* Makes room for `more` headers: the entries become a copy in the pool, which the functions below
 * may change. Returns false if there is no memory. */
bool uvs__headers_own(amqp_basic_properties_t *p, int more, amqp_pool_t *pool);

/* Sets a header. For a new header there must be room. */
void uvs__header_set(amqp_basic_properties_t *p, const char *name, amqp_field_value_t value);
void uvs__header_remove(amqp_basic_properties_t *p, const char *name);

/* Undoes what the broker did to a message that it took out of `queue` because of its expiration,
 * or of a limit of the queue: puts the expiration back, and removes the record of it. The headers
 * must be owned (uvs__headers_own). Returns false if there is no memory. */
bool uvs__headers_restore(amqp_basic_properties_t *p, const char *queue, amqp_pool_t *pool);

#endif
