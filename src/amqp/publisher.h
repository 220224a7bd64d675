/* SPDX-License-Identifier: MIT
 *
 * publisher: the thread that publishes. It has one connection, and one channel for each exchange,
 * because an error closes the whole channel. A channel has at most UVS__WINDOW messages that are
 * sent and not confirmed. A message that cannot be sent for a second (no connection, an alarm of
 * the broker, a full window) is given back to its owner.
 */
#ifndef UVSCHED_AMQP_PUBLISHER_H
#define UVSCHED_AMQP_PUBLISHER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#include "amqp/content.h"
#include "amqp/link.h"
#include "amqp/message.h"

#define UVS__WINDOW 500  /* messages of a channel that are sent and not confirmed */
#define UVS__CHANNELS 64 /* exchanges at the same time */

/* How a message ended. */
enum uvs__sent {
  UVS__SENT_CONFIRMED,
  UVS__SENT_RETURNED, /* no queue for it */
  UVS__SENT_INVALID,  /* the broker does not accept such a message, or the payload is no message */
  UVS__SENT_REFUSED,  /* the broker does not accept it now */
  UVS__SENT_LATER     /* not sent, or the answer is not known */
};

/* A message to publish; part of its owner. */
struct uvs__send {
  struct uvs__send *next;
  const void *payload; /* message.h; borrowed until `ended` */
  size_t size;
  const char *id; /* becomes x-uvsched-id; borrowed */

  /* On the publisher's thread. is_dropped: the owner does not wait any more. `ended` is the last
   * use of the message. */
  bool (*is_dropped)(const struct uvs__send *send);
  void (*ended)(struct uvs__send *send, enum uvs__sent how, const char *text);

  /* Only the publisher uses these. */
  uint64_t since_ns;
  int dropped_for; /* looks at is_dropped */
  bool is_returned;
  char *returned; /* why the broker has returned it; NULL: not known */
};

struct uvs__target {
  amqp_channel_t number;
  bool is_open;
  char exchange[256];
  size_t exchange_size;
  struct uvs__send *waiting, **waiting_end;
  struct uvs__send *window[512]; /* by tag; NULL also: its owner does not wait any more */
  bool sent[512];                /* sent and not confirmed */
  uint64_t first, next;          /* tags in the window */
  uint32_t careful; /* this many are sent one by one, to find the one that closes the channel */
  uint64_t used_ns;
  struct uvs__content returning;
};

struct uvs__publisher {
  struct uvs__link link;
  uv_thread_t thread;
  uv_mutex_t lock; /* protects inbox, go and stop */
  struct uvs__send *inbox, **inbox_end;
  bool go, stop;
  void (*tell)(void *arg, int what, const char *text); /* UVS_AMQP_... */
  void (*exited)(void *arg);
  void *arg;

  /* Only the publisher's thread uses these. */
  struct uvs__target *targets[UVS__CHANNELS];
  size_t n_targets;
  bool blocked;
  amqp_pool_t pool;
  struct uvs__backoff backoff;
  uint64_t connect_ns, look_ns;
  char told[400]; /* the last reason */
};

/* tell and exited are called on the publisher's thread. Returns 0 or an error of the system. */
int uvs__publisher_start(struct uvs__publisher *p, const struct uvs__amqp_address *address,
                         void (*tell)(void *, int, const char *), void (*exited)(void *),
                         void *arg);
void uvs__publisher_go(struct uvs__publisher *p);   /* connect */
void uvs__publisher_stop(struct uvs__publisher *p); /* messages that are left end as LATER */
void uvs__publisher_join(struct uvs__publisher *p); /* after stop; frees what it has */

/* Any thread. `ended` is called in any case. */
void uvs__publisher_send(struct uvs__publisher *p, struct uvs__send *send);

/* ------------------------------------------------------------- target.c --- */

/* Returns the target of an exchange; NULL if there are too many, or there is no memory. */
struct uvs__target *uvs__target_find(struct uvs__publisher *p, amqp_bytes_t exchange);
void uvs__target_add(struct uvs__target *t, struct uvs__send *send);

/* Sends what can be sent. Returns false: the connection is lost. */
bool uvs__target_send(struct uvs__publisher *p, struct uvs__target *t);

/* A frame for the channel of t. Returns false: the connection is lost. */
bool uvs__target_frame(struct uvs__publisher *p, struct uvs__target *t, const amqp_frame_t *frame);

/* The connection is lost: ends all messages that were sent. */
void uvs__target_lost(struct uvs__publisher *p, struct uvs__target *t);

/* Ends messages that have waited too long, and those whose owner does not wait. `all`: all of them.
 */
void uvs__target_look(struct uvs__target *t, bool all);

void uvs__send_end(struct uvs__send *send, enum uvs__sent how, const char *text);

#endif
