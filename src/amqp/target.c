/* SPDX-License-Identifier: MIT
 *
 * target: the messages to one exchange, and its channel.
 */
#include "amqp/publisher.h"

#include <stdio.h>
#include <string.h>

#include "amqp/alloc.h"
#include "amqp/headers.h"

#define WAIT_NS UINT64_C(1000000000) /* a message that is not sent in this time is given back */
#define DROPPED_LOOKS 4   /* after so many looks, a dropped message ends without a confirm */
#define HEADERS_ROOM 1500 /* bytes that sending adds to the properties */
#define BURST 64          /* messages of a target before the other targets have their turn */

/* ---------------------------------------------------------------- targets --- */

static bool is_idle(const struct uvs__target *t) {
  return t->waiting == NULL && t->first == t->next;
}

/* Closes the channel of the target that was idle for the longest time, for another exchange. */
static struct uvs__target *reuse(struct uvs__publisher *p) {
  struct uvs__target *oldest = NULL;

  for (size_t i = 0; i < p->n_targets; i++)
    if (is_idle(p->targets[i]) && (oldest == NULL || p->targets[i]->used_ns < oldest->used_ns))
      oldest = p->targets[i];
  if (oldest == NULL || p->blocked)
    return NULL;
  if (oldest->is_open && p->link.state != NULL) {
    uvs__link_busy(&p->link);
    amqp_channel_close(p->link.state, oldest->number, AMQP_REPLY_SUCCESS);
    uvs__link_idle(&p->link);
  }
  uvs__content_end(&oldest->returning);
  return oldest;
}

struct uvs__target *uvs__target_find(struct uvs__publisher *p, amqp_bytes_t exchange) {
  struct uvs__target *t;
  amqp_channel_t number;

  for (size_t i = 0; i < p->n_targets; i++) {
    t = p->targets[i];
    if (t->exchange_size == exchange.len && memcmp(t->exchange, exchange.bytes, exchange.len) == 0)
      return t;
  }
  if (p->n_targets < UVS__CHANNELS) {
    t = uvs__amqp_alloc(sizeof *t);
    if (t == NULL)
      return NULL;
    p->targets[p->n_targets++] = t;
    number = (amqp_channel_t)p->n_targets;
  } else {
    t = reuse(p);
    if (t == NULL)
      return NULL;
    number = t->number;
  }
  memset(t, 0, sizeof *t);
  t->number = number;
  t->first = t->next = 1;
  t->waiting_end = &t->waiting;
  memcpy(t->exchange, exchange.bytes, exchange.len);
  t->exchange_size = exchange.len;
  return t;
}

void uvs__target_add(struct uvs__target *t, struct uvs__send *send) {
  send->next = NULL;
  *t->waiting_end = send;
  t->waiting_end = &send->next;
}

static struct uvs__send *take_waiting(struct uvs__target *t) {
  struct uvs__send *send = t->waiting;

  t->waiting = send->next;
  if (t->waiting == NULL)
    t->waiting_end = &t->waiting;
  return send;
}

static size_t slot(uint64_t tag) {
  return (size_t)(tag & 511);
}

/* ------------------------------------------------------------------- send --- */

/* Returns 0; the code of the broker; -1: the connection is lost. */
static int open_channel(struct uvs__publisher *p, struct uvs__target *t) {
  int rc;

  uvs__link_busy(&p->link);
  amqp_channel_open(p->link.state, t->number);
  rc = uvs__link_answer(&p->link, t->number, "a channel cannot be opened");
  if (rc == 0) {
    amqp_confirm_select(p->link.state, t->number);
    rc = uvs__link_answer(&p->link, t->number, "publisher confirms cannot be turned on");
  }
  uvs__link_idle(&p->link);
  t->is_open = rc == 0;
  t->first = t->next = 1;
  return rc;
}

/* The broker accepts a user-id only if it is the user of the connection. */
static void move_user(const struct uvs__publisher *p, amqp_basic_properties_t *properties) {
  amqp_field_value_t user;

  if (!(properties->_flags & AMQP_BASIC_USER_ID_FLAG) ||
      uvs__amqp_is(properties->user_id, p->link.address->info.user))
    return;
  memset(&user, 0, sizeof user);
  user.kind = AMQP_FIELD_KIND_UTF8;
  user.value.bytes = properties->user_id;
  uvs__header_set(properties, "x-uvsched-user-id", user);
  properties->_flags &= ~(amqp_flags_t)AMQP_BASIC_USER_ID_FLAG;
}

/* Decodes and publishes. Returns false: the connection is lost, and send is in the window. */
static bool publish(struct uvs__publisher *p, struct uvs__target *t, struct uvs__send *send) {
  struct uvs__amqp_message m;
  int rc;

  recycle_amqp_pool(&p->pool);
  rc = uvs__message_decode(send->payload, send->size, &p->pool, &m);
  if (rc == 0 && !uvs__headers_own(&m.properties, 2, &p->pool))
    rc = UV_ENOMEM;
  if (rc != 0) {
    uvs__send_end(send, rc == UV_ENOMEM ? UVS__SENT_LATER : UVS__SENT_INVALID,
                  rc == UV_ENOMEM ? "there is no memory" : "the payload is not an encoded message");
    return true;
  }
  if (send->size - m.body.len + HEADERS_ROOM > (size_t)amqp_get_frame_max(p->link.state)) {
    uvs__send_end(send, UVS__SENT_INVALID, "the properties are larger than a frame");
    return true;
  }
  uvs__header_set(&m.properties, "x-uvsched-id", uvs__amqp_string(send->id));
  move_user(p, &m.properties);
  t->window[slot(t->next)] = send;
  t->sent[slot(t->next)] = true;
  t->next++;
  uvs__link_busy(&p->link);
  rc = amqp_basic_publish(p->link.state, t->number, m.exchange, m.routing_key, 1, 0, &m.properties,
                          m.body);
  uvs__link_idle(&p->link);
  return uvs__link_sent(&p->link, rc);
}

static void refuse_all(struct uvs__target *t, const char *text) {
  while (t->waiting != NULL)
    uvs__send_end(take_waiting(t), UVS__SENT_REFUSED, text);
}

bool uvs__target_send(struct uvs__publisher *p, struct uvs__target *t) {
  for (int i = 0; i < BURST && t->waiting != NULL; i++) {
    struct uvs__send *send;

    /* A frame may say that the broker is blocked, or that this channel is closed. */
    if (p->blocked || amqp_frames_enqueued(p->link.state))
      return true;
    if (!t->is_open) {
      int rc = open_channel(p, t);

      if (rc > 0)
        refuse_all(t, p->link.error);
      if (rc != 0)
        return rc > 0;
    }
    if (t->next - t->first >= (t->careful > 0 ? 1 : UVS__WINDOW))
      return true;
    send = take_waiting(t);
    t->used_ns = uv_hrtime();
    if (!publish(p, t, send))
      return false;
  }
  return true;
}

/* ---------------------------------------------------------------- answers --- */

static void end_tag(struct uvs__target *t, uint64_t tag, enum uvs__sent how, const char *text) {
  struct uvs__send *send = t->window[slot(tag)];

  if (!t->sent[slot(tag)])
    return;
  t->sent[slot(tag)] = false;
  t->window[slot(tag)] = NULL;
  if (t->careful > 0)
    t->careful--;
  if (send == NULL)
    return;
  if (how == UVS__SENT_CONFIRMED && send->is_returned)
    uvs__send_end(send, UVS__SENT_RETURNED, send->returned == NULL ? "unroutable" : send->returned);
  else
    uvs__send_end(send, how, text);
}

static void confirm(struct uvs__target *t, uint64_t tag, bool multiple, enum uvs__sent how) {
  static const char nack[] = "the broker has refused the message (basic.nack)";

  if (tag < t->first || tag >= t->next)
    return;
  for (uint64_t i = multiple ? t->first : tag; i <= tag; i++)
    end_tag(t, i, how, nack);
  while (t->first < t->next && !t->sent[slot(t->first)])
    t->first++;
}

static void take_return(struct uvs__target *t) {
  const amqp_basic_return_t *r = t->returning.method;
  const amqp_field_value_t *id =
      uvs__header_find(&t->returning.properties->headers, "x-uvsched-id");
  char text[400];
  size_t n;

  if (id == NULL || id->kind != AMQP_FIELD_KIND_UTF8)
    return;
  n = (size_t)snprintf(text, sizeof text, "unroutable: ");
  uvs__link_close_text(r->reply_code, r->reply_text, text + n, sizeof text - n);
  for (uint64_t tag = t->first; tag < t->next; tag++) {
    struct uvs__send *send = t->window[slot(tag)];

    if (send == NULL || send->is_returned || !uvs__amqp_is(id->value.bytes, send->id))
      continue;
    send->is_returned = true;
    send->returned = uvs__amqp_copy(text);
    return;
  }
}

/* The broker has closed the channel. Which message was the reason is known only if one was sent.
 * Otherwise all are sent again, one by one. */
static void closed(struct uvs__target *t, uint16_t code, const char *text) {
  enum uvs__sent how = UVS__SENT_REFUSED;
  uint32_t n = 0;

  for (uint64_t tag = t->first; tag < t->next; tag++)
    n += t->sent[slot(tag)];
  if (code != AMQP_NOT_FOUND && n > 1)
    how = UVS__SENT_LATER;
  else if (code == AMQP_PRECONDITION_FAILED)
    how = UVS__SENT_INVALID;
  t->careful = 0;
  for (uint64_t tag = t->first; tag < t->next; tag++)
    end_tag(t, tag, how, text);
  t->first = t->next = 1;
  t->careful = how == UVS__SENT_LATER ? n : 0;
  t->is_open = false;
  uvs__content_end(&t->returning);
}

static bool take_method(struct uvs__publisher *p, struct uvs__target *t, const amqp_method_t *m) {
  const amqp_channel_close_t *close = m->decoded;
  const amqp_basic_ack_t *ack = m->decoded;
  const amqp_basic_nack_t *nack = m->decoded;
  amqp_channel_close_ok_t ok;
  char text[300];

  switch (m->id) {
  case AMQP_BASIC_ACK_METHOD:
    confirm(t, ack->delivery_tag, ack->multiple, UVS__SENT_CONFIRMED);
    return true;
  case AMQP_BASIC_NACK_METHOD:
    confirm(t, nack->delivery_tag, nack->multiple, UVS__SENT_REFUSED);
    return true;
  case AMQP_BASIC_RETURN_METHOD:
    uvs__content_begin(&t->returning, m->decoded);
    return true;
  case AMQP_CHANNEL_CLOSE_METHOD:
    memset(&ok, 0, sizeof ok);
    uvs__link_close_text(close->reply_code, close->reply_text, text, sizeof text);
    closed(t, close->reply_code, text);
    return uvs__link_sent(
        &p->link, amqp_send_method(p->link.state, t->number, AMQP_CHANNEL_CLOSE_OK_METHOD, &ok));
  default:
    return true;
  }
}

bool uvs__target_frame(struct uvs__publisher *p, struct uvs__target *t, const amqp_frame_t *frame) {
  int rc;

  if (frame->frame_type == AMQP_FRAME_METHOD)
    return take_method(p, t, &frame->payload.method);
  rc = uvs__content_frame(&t->returning, frame);
  if (rc > 0) {
    take_return(t);
    uvs__content_end(&t->returning);
  }
  if (rc < 0)
    snprintf(p->link.error, sizeof p->link.error, "a returned message cannot be read");
  return rc >= 0;
}

void uvs__target_lost(struct uvs__publisher *p, struct uvs__target *t) {
  t->careful = 0;
  for (uint64_t tag = t->first; tag < t->next; tag++)
    end_tag(t, tag, p->link.refused ? UVS__SENT_REFUSED : UVS__SENT_LATER, p->link.error);
  t->first = t->next = 1;
  t->is_open = false;
  uvs__content_end(&t->returning);
}

/* ------------------------------------------------------------------- look --- */

static bool is_dropped(struct uvs__send *send) {
  if (!send->is_dropped(send))
    send->dropped_for = 0;
  else
    send->dropped_for++;
  return send->dropped_for > 0;
}

void uvs__target_look(struct uvs__target *t, bool all) {
  struct uvs__send *list = t->waiting;
  uint64_t now_ns = uv_hrtime();

  t->waiting = NULL;
  t->waiting_end = &t->waiting;
  while (list != NULL) {
    struct uvs__send *send = list;

    list = send->next;
    if (all || now_ns - send->since_ns > WAIT_NS || is_dropped(send))
      uvs__send_end(send, UVS__SENT_LATER, "the message could not be sent in time");
    else
      uvs__target_add(t, send);
  }
  for (uint64_t tag = t->first; tag < t->next; tag++) {
    struct uvs__send *send = t->window[slot(tag)];

    if (send == NULL || !is_dropped(send) || send->dropped_for < DROPPED_LOOKS)
      continue;
    t->window[slot(tag)] = NULL; /* the confirm may still come */
    uvs__send_end(send, UVS__SENT_LATER, "the broker has not confirmed the message");
  }
}
