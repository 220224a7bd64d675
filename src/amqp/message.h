/* SPDX-License-Identifier: MIT
 *
 * message: an AMQP message as the payload of a job, and back. The format, version 1:
 *
 *   1 byte   1, the version
 *   1 byte   length of the exchange, then its bytes
 *   1 byte   length of the routing key, then its bytes
 *   4 bytes  length of the properties, most significant byte first
 *   then the properties as AMQP encodes them, and the body to the end
 */
#ifndef UVSCHED_AMQP_MESSAGE_H
#define UVSCHED_AMQP_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include <amqp.h>
#include <amqp_framing.h>

/* The limits of a message in a job, in bytes; together UVS_JOB_PAYLOAD_MAX. */
#define UVS__BODY_MAX 1048576
#define UVS__ENVELOPE_MAX 65536 /* of everything but the body */

struct uvs__amqp_message {
  amqp_bytes_t exchange, routing_key, body;
  amqp_basic_properties_t properties;
};

/* Encodes a message. *ret is to be freed with uvs__amqp_free. Returns 0; UV_EINVAL (AMQP cannot
 * encode it); UV_E2BIG (more than max bytes); UV_ENOMEM. */
int uvs__message_encode(const struct uvs__amqp_message *m, size_t max, uint8_t **ret,
                        size_t *ret_size);

/* The same with the limits of a job: UV_E2BIG (UVS__BODY_MAX or UVS__ENVELOPE_MAX is exceeded). */
int uvs__message_encode_job(const struct uvs__amqp_message *m, uint8_t **ret, size_t *ret_size);

/* Decodes a message. The strings point into `data`, the headers are in the pool. Returns 0;
 * UV_EINVAL (the bytes are not an encoded message); UV_ENOMEM. */
int uvs__message_decode(const void *data, size_t size, amqp_pool_t *pool,
                        struct uvs__amqp_message *ret);

/* Decodes only the exchange. Returns 0, UV_EINVAL. */
int uvs__message_exchange(const void *data, size_t size, amqp_bytes_t *ret);

#endif
