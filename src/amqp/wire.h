/* SPDX-License-Identifier: MIT
 *
 * wire: checks properties before rabbitmq-c encodes or decodes them. rabbitmq-c calls itself for
 * each nested table, so a hostile payload could use up the stack. Also, rabbitmq-c cannot encode
 * every value that its types can hold.
 */
#ifndef UVSCHED_AMQP_WIRE_H
#define UVSCHED_AMQP_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <amqp.h>
#include <amqp_framing.h>

#define UVS__AMQP_DEPTH 32      /* tables and arrays inside each other */
#define UVS__AMQP_SHORT 255     /* bytes of a short string, such as a routing key */
#define UVS__AMQP_KNOWN 0xFFFCu /* the flags of the 14 properties */

/* Returns whether rabbitmq-c can encode these properties. */
bool uvs__wire_can_encode(const amqp_basic_properties_t *p);

/* Returns whether the bytes are properties as amqp_encode_properties writes them, and nothing else.
 */
bool uvs__wire_is_valid(const uint8_t *data, size_t size);

#endif
