/* SPDX-License-Identifier: MIT
 *
 * take: reads one message that was delivered, and decides what becomes of it.
 */
#include <stdio.h>
#include <string.h>

#include "amqp/alloc.h"
#include "amqp/headers.h"
#include "amqp/identity.h"
#include "amqp/intake.h"
#include "amqp/message.h"
#include "amqp/when.h"

#define PARKED_MAX (1024u * 1024 * 1024) /* in effect no bound; the broker has one */

/* Encodes the message for the parking queue, with headers that say where it was and why. */
static int encode_parked(struct uvs__intake *in, struct uvs__taken *t, struct uvs__amqp_message *m,
                         amqp_pool_t *pool) {
  char key[256];
  size_t n = m->routing_key.len;
  int rc;

  if (!uvs__headers_own(&m->properties, 4, pool))
    return UV_ENOMEM;
  if (n > 0)
    memcpy(key, m->routing_key.bytes, n);
  key[n] = '\0';
  uvs__header_set(&m->properties, "x-uvsched-refused", uvs__amqp_string(t->reason));
  uvs__header_set(&m->properties, "x-uvsched-intake", uvs__amqp_string(t->map->intake));
  uvs__header_set(&m->properties, "x-uvsched-routing-key", uvs__amqp_string(key));
  /* The message must not expire in the parking queue. */
  if (m->properties._flags & AMQP_BASIC_EXPIRATION_FLAG) {
    amqp_field_value_t expiration = uvs__amqp_string("");

    expiration.value.bytes = m->properties.expiration;
    uvs__header_set(&m->properties, "x-uvsched-expiration", expiration);
    m->properties._flags &= ~(amqp_flags_t)AMQP_BASIC_EXPIRATION_FLAG;
  }
  m->exchange = amqp_empty_bytes;
  m->routing_key = uvs__amqp_text(in->parking);
  rc = uvs__message_encode(m, PARKED_MAX, &t->payload, &t->size);
  if (rc != UV_EINVAL && rc != UV_E2BIG)
    return rc;
  /* The headers of the message cannot be encoded. They are lost, and the body is kept. */
  memset(&m->properties, 0, sizeof m->properties);
  if (!uvs__headers_own(&m->properties, 4, pool))
    return UV_ENOMEM;
  uvs__header_set(&m->properties, "x-uvsched-refused", uvs__amqp_string(t->reason));
  uvs__header_set(&m->properties, "x-uvsched-intake", uvs__amqp_string(t->map->intake));
  uvs__header_set(&m->properties, "x-uvsched-routing-key", uvs__amqp_string(key));
  m->properties._flags |= AMQP_BASIC_DELIVERY_MODE_FLAG;
  m->properties.delivery_mode = AMQP_DELIVERY_PERSISTENT;
  return uvs__message_encode(m, PARKED_MAX, &t->payload, &t->size);
}

_Static_assert(UVS__BODY_MAX + UVS__ENVELOPE_MAX == UVS_JOB_PAYLOAD_MAX,
               "the largest message fits into a job");

/* Does the store accept the encoded message? If not, frees it and writes the reason. */
static int check_job(struct uvs__taken *t) {
  uvs_job_spec_t spec;
  int rc;

  uvs_job_spec_init(&spec);
  spec.name = t->intake->amqp->name;
  spec.payload = t->payload;
  spec.payload_size = t->size;
  rc = uvs_jobs_check(t->intake->amqp->jobs, &spec, t->reason, sizeof t->reason);
  if (rc != 0) {
    uvs__amqp_free(t->payload);
    t->payload = NULL;
  }
  return rc;
}

/* Encodes the message as a job. Returns UV_E2BIG, UV_EINVAL: the message is to be parked. */
static int encode_job(struct uvs__taken *t, const struct uvs__amqp_message *from,
                      const struct uvs__amqp_when *when, amqp_pool_t *pool) {
  struct uvs__amqp_message m = *from;
  int rc;

  t->delay_ns = when->delay_ns;
  t->at_ns = when->at_ns;
  m.exchange = uvs__amqp_text(t->map->target);
  if (when->has_delay) {
    if (!uvs__headers_own(&m.properties, 0, pool))
      return UV_ENOMEM;
    uvs__header_set(&m.properties, "x-delay", when->negated);
  }
  if (m.properties._flags & AMQP_BASIC_MESSAGE_ID_FLAG && m.properties.message_id.len > 0) {
    uvs__amqp_identity(t->map->queue, m.properties.message_id, m.body, t->rest);
    t->is_named = true;
  }
  rc = uvs__message_encode_job(&m, &t->payload, &t->size);
  if (rc == 0)
    return check_job(t);
  if (rc == UV_E2BIG && m.body.len > UVS__BODY_MAX)
    snprintf(t->reason, sizeof t->reason, "the body has %zu bytes, more than %d", m.body.len,
             UVS__BODY_MAX);
  else if (rc == UV_E2BIG)
    snprintf(t->reason, sizeof t->reason,
             "the properties, headers and names have more than %d bytes", UVS__ENVELOPE_MAX);
  else if (rc == UV_EINVAL)
    snprintf(t->reason, sizeof t->reason,
             "the headers are nested deeper than 32 levels, or have "
             "a value of an unknown type");
  return rc;
}

static struct uvs__taken *make(struct uvs__intake *in, struct uvs__map *map, uint64_t tag) {
  struct uvs__taken *t = uvs__amqp_alloc(sizeof *t);

  if (t == NULL)
    return NULL;
  t->intake = in;
  t->map = map;
  t->epoch = map->epoch;
  t->tag = tag;
  t->arrived_ns = uv_hrtime();
  return t;
}

static int decide(struct uvs__intake *in, struct uvs__taken *t, struct uvs__amqp_message *m,
                  amqp_pool_t *pool) {
  struct uvs__amqp_when when;
  int rc = UV_EINVAL;

  uvs__amqp_read_when(&m->properties.headers, &when);
  if (when.refused != NULL)
    snprintf(t->reason, sizeof t->reason, "%s", when.refused);
  else
    rc = encode_job(t, m, &when, pool);
  if (rc == 0 || rc == UV_ENOMEM)
    return rc;
  t->is_parked = true;
  return encode_parked(in, t, m, pool);
}

int uvs__take(struct uvs__intake *in, struct uvs__map *map) {
  const amqp_basic_deliver_t *d = map->content.method;
  struct uvs__amqp_message m;
  struct uvs__taken *t;
  amqp_pool_t pool;
  int rc = uvs__tags_add(&map->tags, d->delivery_tag);

  if (rc != 0)
    return rc;
  t = make(in, map, d->delivery_tag);
  if (t == NULL)
    return UV_ENOMEM;
  memset(&m, 0, sizeof m);
  m.routing_key = d->routing_key;
  m.properties = *map->content.properties;
  if (!(m.properties._flags & AMQP_BASIC_HEADERS_FLAG))
    m.properties.headers = amqp_empty_table;
  m.body.bytes = map->content.body;
  m.body.len = map->content.size;
  init_amqp_pool(&pool, 4096);
  rc = UV_ENOMEM;
  if (!uvs__amqp_is(d->consumer_tag, "expired") ||
      (uvs__headers_own(&m.properties, 0, &pool) &&
       uvs__headers_restore(&m.properties, map->queue, &pool)))
    rc = decide(in, t, &m, &pool);
  empty_amqp_pool(&pool);
  if (rc != 0) {
    uvs__amqp_free(t->payload);
    uvs__amqp_free(t);
    return UV_ENOMEM;
  }
  atomic_fetch_add_explicit(&in->amqp->stats.received, 1, memory_order_relaxed);
  in->held_bytes += t->size + sizeof *t;
  if (t->is_parked)
    uvs__hand_park(in, t);
  else
    uvs__hand_add(in, t);
  return 0;
}
