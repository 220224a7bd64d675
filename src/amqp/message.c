/* SPDX-License-Identifier: MIT */
#include "amqp/message.h"

#include <string.h>

#include <uv.h>

#include "amqp/alloc.h"
#include "amqp/wire.h"

#define VERSION 1
#define PROPERTIES_MAX (256u * 1024) /* a header frame of RabbitMQ has at most 128 KiB */

static amqp_bytes_t bytes_at(const uint8_t *data, size_t size) {
  amqp_bytes_t b = {size, (void *)(uintptr_t)data};

  return b;
}

/* Encodes the properties into memory of their own. rabbitmq-c does not say how much it needs. */
static int encode_properties(const amqp_basic_properties_t *p, uint8_t **ret, size_t *ret_size) {
  for (size_t room = 1024; room <= PROPERTIES_MAX; room *= 8) {
    uint8_t *data = uvs__amqp_alloc(room);
    int n;

    if (data == NULL)
      return UV_ENOMEM;
    n = amqp_encode_properties(AMQP_BASIC_CLASS, (void *)(uintptr_t)p, bytes_at(data, room));
    if (n >= 0) {
      *ret = data;
      *ret_size = (size_t)n;
      return 0;
    }
    uvs__amqp_free(data);
  }
  return UV_E2BIG;
}

static uint8_t *write_short(uint8_t *at, amqp_bytes_t text) {
  *at++ = (uint8_t)text.len;
  if (text.len > 0)
    memcpy(at, text.bytes, text.len);
  return at + text.len;
}

int uvs__message_encode(const struct uvs__amqp_message *m, size_t max, uint8_t **ret,
                        size_t *ret_size) {
  uint8_t *properties, *at;
  size_t n, fixed;
  int rc;

  if (m->exchange.len > UVS__AMQP_SHORT || m->routing_key.len > UVS__AMQP_SHORT ||
      (m->body.bytes == NULL && m->body.len > 0) || !uvs__wire_can_encode(&m->properties))
    return UV_EINVAL;
  rc = encode_properties(&m->properties, &properties, &n);
  if (rc != 0)
    return rc;
  fixed = 1 + 1 + m->exchange.len + 1 + m->routing_key.len + 4 + n;
  rc = UV_E2BIG;
  if (fixed > max || m->body.len > max - fixed)
    goto free_properties;
  rc = UV_ENOMEM;
  *ret = at = uvs__amqp_alloc(fixed + m->body.len);
  if (at == NULL)
    goto free_properties;
  *at++ = VERSION;
  at = write_short(at, m->exchange);
  at = write_short(at, m->routing_key);
  *at++ = (uint8_t)(n >> 24);
  *at++ = (uint8_t)(n >> 16);
  *at++ = (uint8_t)(n >> 8);
  *at++ = (uint8_t)n;
  memcpy(at, properties, n);
  if (m->body.len > 0)
    memcpy(at + n, m->body.bytes, m->body.len);
  *ret_size = fixed + m->body.len;
  rc = 0;

free_properties:
  uvs__amqp_free(properties);
  return rc;
}

int uvs__message_encode_job(const struct uvs__amqp_message *m, uint8_t **ret, size_t *ret_size) {
  if (m->body.len > UVS__BODY_MAX)
    return UV_E2BIG;
  return uvs__message_encode(m, m->body.len + UVS__ENVELOPE_MAX, ret, ret_size);
}

/* Reads a short string. Returns where it ends; NULL if that is after `end`. */
static const uint8_t *take_short(const uint8_t *at, const uint8_t *end, amqp_bytes_t *ret) {
  size_t length;

  if (at == end)
    return NULL;
  length = *at++;
  if (length > (size_t)(end - at))
    return NULL;
  *ret = bytes_at(at, length);
  return at + length;
}

int uvs__message_exchange(const void *data, size_t size, amqp_bytes_t *ret) {
  const uint8_t *at = data;

  if (size == 0 || at[0] != VERSION || take_short(at + 1, at + size, ret) == NULL)
    return UV_EINVAL;
  return 0;
}

int uvs__message_decode(const void *data, size_t size, amqp_pool_t *pool,
                        struct uvs__amqp_message *ret) {
  const uint8_t *at = data, *end = at + size;
  void *decoded;
  size_t n;
  int rc;

  memset(ret, 0, sizeof *ret);
  if (size == 0 || *at != VERSION)
    return UV_EINVAL;
  at = take_short(at + 1, end, &ret->exchange);
  if (at != NULL)
    at = take_short(at, end, &ret->routing_key);
  if (at == NULL || end - at < 4)
    return UV_EINVAL;
  n = (size_t)at[0] << 24 | (size_t)at[1] << 16 | (size_t)at[2] << 8 | at[3];
  at += 4;
  if (n > (size_t)(end - at) || !uvs__wire_is_valid(at, n))
    return UV_EINVAL;
  rc = amqp_decode_properties(AMQP_BASIC_CLASS, pool, bytes_at(at, n), &decoded);
  if (rc < 0)
    return rc == AMQP_STATUS_NO_MEMORY ? UV_ENOMEM : UV_EINVAL;
  ret->properties = *(const amqp_basic_properties_t *)decoded;
  ret->body = bytes_at(at + n, (size_t)(end - at) - n);
  return 0;
}
