/* SPDX-License-Identifier: MIT
 *
 * content: puts a message together from its frames: a method (deliver, return), a header, and the
 * body in pieces. Frames of other channels may come in between. The memory that a message refers
 * to is valid until the buffers of the channel are released.
 */
#ifndef UVSCHED_AMQP_CONTENT_H
#define UVSCHED_AMQP_CONTENT_H

#include <stdbool.h>
#include <stddef.h>

#include <amqp.h>
#include <amqp_framing.h>

struct uvs__content {
  enum { UVS__CONTENT_NONE, UVS__CONTENT_HEADER, UVS__CONTENT_BODY } expects;
  const void *method; /* amqp_basic_deliver_t, amqp_basic_return_t */
  const amqp_basic_properties_t *properties;
  char *body; /* freed by uvs__content_end */
  size_t size, have;
};

void uvs__content_begin(struct uvs__content *c, const void *method);

/* Takes a frame that is not a method. Returns 1: the message is complete; 0: not yet; UV_EPROTO:
 * the frame does not belong here; UV_ENOMEM. */
int uvs__content_frame(struct uvs__content *c, const amqp_frame_t *frame);
void uvs__content_end(struct uvs__content *c);

#endif
