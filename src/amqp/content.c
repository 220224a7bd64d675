/* SPDX-License-Identifier: MIT */
#include "amqp/content.h"

#include <string.h>

#include <uv.h>

#include "amqp/alloc.h"

void uvs__content_begin(struct uvs__content *c, const void *method) {
  uvs__content_end(c);
  c->expects = UVS__CONTENT_HEADER;
  c->method = method;
}

void uvs__content_end(struct uvs__content *c) {
  uvs__amqp_free(c->body);
  memset(c, 0, sizeof *c);
}

static int take_header(struct uvs__content *c, const amqp_frame_t *frame) {
  c->expects = UVS__CONTENT_BODY;
  c->properties = frame->payload.properties.decoded;
  if (frame->payload.properties.body_size > SIZE_MAX / 2)
    return UV_ENOMEM;
  c->size = (size_t)frame->payload.properties.body_size;
  if (c->size == 0)
    return 1;
  c->body = uvs__amqp_alloc(c->size);
  return c->body == NULL ? UV_ENOMEM : 0;
}

int uvs__content_frame(struct uvs__content *c, const amqp_frame_t *frame) {
  amqp_bytes_t piece = frame->payload.body_fragment;

  if (frame->frame_type == AMQP_FRAME_HEADER && c->expects == UVS__CONTENT_HEADER)
    return take_header(c, frame);
  if (frame->frame_type != AMQP_FRAME_BODY || c->expects != UVS__CONTENT_BODY ||
      piece.len > c->size - c->have)
    return UV_EPROTO;
  memcpy(c->body + c->have, piece.bytes, piece.len);
  c->have += piece.len;
  return c->have == c->size;
}
