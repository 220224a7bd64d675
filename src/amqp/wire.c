/* SPDX-License-Identifier: MIT */
#include "amqp/wire.h"

#include <string.h>

/* ---------------------------------------------------------------- encoding --- */

static bool is_table_good(const amqp_table_t *t, int depth);

static bool is_value_good(const amqp_field_value_t *v, int depth) {
  switch (v->kind) {
  case AMQP_FIELD_KIND_BOOLEAN:
  case AMQP_FIELD_KIND_I8:
  case AMQP_FIELD_KIND_U8:
  case AMQP_FIELD_KIND_I16:
  case AMQP_FIELD_KIND_U16:
  case AMQP_FIELD_KIND_I32:
  case AMQP_FIELD_KIND_U32:
  case AMQP_FIELD_KIND_I64:
  case AMQP_FIELD_KIND_U64:
  case AMQP_FIELD_KIND_F32:
  case AMQP_FIELD_KIND_F64:
  case AMQP_FIELD_KIND_DECIMAL:
  case AMQP_FIELD_KIND_TIMESTAMP:
  case AMQP_FIELD_KIND_VOID:
    return true;
  case AMQP_FIELD_KIND_UTF8:
  case AMQP_FIELD_KIND_BYTES:
    return v->value.bytes.bytes != NULL || v->value.bytes.len == 0;
  case AMQP_FIELD_KIND_TABLE:
    return is_table_good(&v->value.table, depth + 1);
  case AMQP_FIELD_KIND_ARRAY:
    if (depth >= UVS__AMQP_DEPTH || v->value.array.num_entries < 0)
      return false;
    for (int i = 0; i < v->value.array.num_entries; i++)
      if (!is_value_good(&v->value.array.entries[i], depth + 1))
        return false;
    return true;
  default:
    return false;
  }
}

static bool is_table_good(const amqp_table_t *t, int depth) {
  if (depth > UVS__AMQP_DEPTH || t->num_entries < 0)
    return false;
  for (int i = 0; i < t->num_entries; i++) {
    const amqp_table_entry_t *e = &t->entries[i];

    if (e->key.len > UVS__AMQP_SHORT || (e->key.bytes == NULL && e->key.len > 0) ||
        !is_value_good(&e->value, depth))
      return false;
  }
  return true;
}

bool uvs__wire_can_encode(const amqp_basic_properties_t *p) {
  const struct {
    amqp_flags_t flag;
    const amqp_bytes_t *text;
  } texts[] = {
      {AMQP_BASIC_CONTENT_TYPE_FLAG, &p->content_type},
      {AMQP_BASIC_CONTENT_ENCODING_FLAG, &p->content_encoding},
      {AMQP_BASIC_CORRELATION_ID_FLAG, &p->correlation_id},
      {AMQP_BASIC_REPLY_TO_FLAG, &p->reply_to},
      {AMQP_BASIC_EXPIRATION_FLAG, &p->expiration},
      {AMQP_BASIC_MESSAGE_ID_FLAG, &p->message_id},
      {AMQP_BASIC_TYPE_FLAG, &p->type},
      {AMQP_BASIC_USER_ID_FLAG, &p->user_id},
      {AMQP_BASIC_APP_ID_FLAG, &p->app_id},
      {AMQP_BASIC_CLUSTER_ID_FLAG, &p->cluster_id},
  };

  if (p->_flags & ~(amqp_flags_t)UVS__AMQP_KNOWN)
    return false;
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
    if (p->_flags & texts[i].flag && (texts[i].text->len > UVS__AMQP_SHORT ||
                                      (texts[i].text->bytes == NULL && texts[i].text->len > 0)))
      return false;
  return !(p->_flags & AMQP_BASIC_HEADERS_FLAG) || is_table_good(&p->headers, 0);
}

/* ---------------------------------------------------------------- decoding --- */

struct reader {
  const uint8_t *at;
  size_t left;
};

static bool skip(struct reader *r, size_t n) {
  if (n > r->left)
    return false;
  r->at += n;
  r->left -= n;
  return true;
}

static bool skip_short(struct reader *r) {
  return r->left > 0 && skip(r, 1 + (size_t)r->at[0]);
}

/* Reads a length of 4 bytes, and makes a reader of what it covers. */
static bool take_long(struct reader *r, struct reader *ret) {
  if (r->left < 4)
    return false;
  ret->left = (size_t)r->at[0] << 24 | (size_t)r->at[1] << 16 | (size_t)r->at[2] << 8 | r->at[3];
  ret->at = r->at + 4;
  return skip(r, 4) && skip(r, ret->left);
}

static bool skip_table(struct reader *r, int depth);

static bool skip_value(struct reader *r, int depth);

static bool skip_array(struct reader *r, int depth) {
  struct reader in;

  if (depth > UVS__AMQP_DEPTH || !take_long(r, &in))
    return false;
  while (in.left > 0)
    if (!skip_value(&in, depth))
      return false;
  return true;
}

static bool skip_value(struct reader *r, int depth) {
  struct reader in;
  uint8_t kind;

  if (r->left == 0)
    return false;
  kind = *r->at;
  skip(r, 1);
  switch (kind) {
  case AMQP_FIELD_KIND_VOID:
    return true;
  case AMQP_FIELD_KIND_BOOLEAN:
  case AMQP_FIELD_KIND_I8:
  case AMQP_FIELD_KIND_U8:
    return skip(r, 1);
  case AMQP_FIELD_KIND_I16:
  case AMQP_FIELD_KIND_U16:
    return skip(r, 2);
  case AMQP_FIELD_KIND_I32:
  case AMQP_FIELD_KIND_U32:
  case AMQP_FIELD_KIND_F32:
    return skip(r, 4);
  case AMQP_FIELD_KIND_DECIMAL:
    return skip(r, 5);
  case AMQP_FIELD_KIND_I64:
  case AMQP_FIELD_KIND_U64:
  case AMQP_FIELD_KIND_F64:
  case AMQP_FIELD_KIND_TIMESTAMP:
    return skip(r, 8);
  case AMQP_FIELD_KIND_UTF8:
  case AMQP_FIELD_KIND_BYTES:
    return take_long(r, &in);
  case AMQP_FIELD_KIND_ARRAY:
    return skip_array(r, depth + 1);
  case AMQP_FIELD_KIND_TABLE:
    return skip_table(r, depth + 1);
  default:
    return false;
  }
}

static bool skip_table(struct reader *r, int depth) {
  struct reader in;

  if (depth > UVS__AMQP_DEPTH || !take_long(r, &in))
    return false;
  while (in.left > 0)
    if (!skip_short(&in) || !skip_value(&in, depth))
      return false;
  return true;
}

bool uvs__wire_is_valid(const uint8_t *data, size_t size) {
  struct reader r = {data, size};
  unsigned flags;

  if (size < 2)
    return false;
  flags = (unsigned)data[0] << 8 | data[1];
  skip(&r, 2);
  if (flags & ~UVS__AMQP_KNOWN)
    return false;
  for (unsigned flag = 0x8000; flag >= 0x0004; flag >>= 1) {
    bool good = true;

    if (!(flags & flag))
      continue;
    if (flag == AMQP_BASIC_HEADERS_FLAG)
      good = skip_table(&r, 0);
    else if (flag == AMQP_BASIC_DELIVERY_MODE_FLAG || flag == AMQP_BASIC_PRIORITY_FLAG)
      good = skip(&r, 1);
    else if (flag == AMQP_BASIC_TIMESTAMP_FLAG)
      good = skip(&r, 8);
    else
      good = skip_short(&r);
    if (!good)
      return false;
  }
  return r.left == 0;
}
