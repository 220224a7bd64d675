/* SPDX-License-Identifier: MIT
 *
 * identity: the id of the job of a message that has a message-id. The same message always gets the
 * same id, so a message that the broker delivers twice becomes one job.
 */
#ifndef UVSCHED_AMQP_IDENTITY_H
#define UVSCHED_AMQP_IDENTITY_H

#include <stddef.h>
#include <stdint.h>

#include <amqp.h>

#define UVS__AMQP_ID_BYTES 41 /* 160 bits in hexadecimal, and the end */

/* Makes the id from SHA-256 over the three parts, each preceded by its length. */
void uvs__amqp_identity(const char *queue, amqp_bytes_t message_id, amqp_bytes_t body,
                        char ret[UVS__AMQP_ID_BYTES]);

struct uvs__sha256 {
  uint32_t state[8];
  uint64_t size;
  uint8_t block[64];
};

void uvs__sha256_init(struct uvs__sha256 *h);
void uvs__sha256_add(struct uvs__sha256 *h, const void *data, size_t size);
void uvs__sha256_end(struct uvs__sha256 *h, uint8_t ret[32]);

#endif
