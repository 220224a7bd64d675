/* SPDX-License-Identifier: MIT
 *
 * intake: the thread that consumes. Each map has a channel of its own with two consumers: one of
 * the intake queue, and one of the queue with messages that have expired there. A message becomes
 * a job, and is acknowledged when the job is durable. A message that cannot become a job goes to
 * the parking queue, and is acknowledged when the broker has confirmed that.
 */
#ifndef UVSCHED_AMQP_INTAKE_H
#define UVSCHED_AMQP_INTAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "amqp/handler.h"
#include "amqp/content.h"
#include "amqp/link.h"
#include "amqp/tags.h"

#define UVS__PREFETCH 1000
#define UVS__PUT_MESSAGES 500                 /* in one call of the store */
#define UVS__PUT_BYTES (1024u * 1024u)        /* the same */
#define UVS__HELD_BYTES (64u * 1024u * 1024u) /* beyond this, nothing more is read */

struct uvs__map {
  char *intake, *target;
  char queue[256], expired[256]; /* names; `expired` is an exchange and a queue */
  amqp_channel_t number;
  bool is_open;       /* the channel */
  bool is_subscribed; /* both consumers */
  uint64_t epoch;     /* of the channel: tags of an earlier one mean nothing */
  uint64_t try_ns;    /* when to subscribe again */
  struct uvs__tags tags;
  struct uvs__content content;
  char told[400]; /* the last reason why it is not subscribed */
};

/* A message that was received and is not acknowledged. */
struct uvs__taken {
  struct uvs__send send; /* used if the message is parked; first */
  struct uvs__taken *next;
  struct uvs__intake *intake;
  struct uvs__map *map;
  uint64_t epoch, tag, arrived_ns, again_ns;
  int64_t delay_ns, at_ns;
  char rest[97]; /* of the job's id; "": the library makes the id */
  bool is_named; /* rest is from the message-id */
  bool is_parked;
  int status;
  uint8_t *payload; /* encoded */
  size_t size;
  char id[64];      /* of a message to park */
  char reason[200]; /* why it is parked */
};

struct uvs__intake {
  uvs_jobs_amqp_t *amqp;
  struct uvs__link link;
  uv_thread_t thread;
  struct uvs__map *maps;
  size_t n_maps;
  char *parking;

  uv_mutex_t lock; /* protects answered and stop */
  struct uvs__taken *answered;
  bool stop;
  _Atomic bool stopping; /* the publisher reads it */

  /* Only the intake's thread uses these. */
  struct uvs__taken *batch, **batch_end; /* for the next call of the store */
  size_t batch_n, batch_bytes;
  struct uvs__taken *again; /* to be tried again later */
  size_t out;               /* messages that the store or the publisher has */
  size_t held_bytes;        /* of all messages in memory */
  bool has_parking;         /* declared on this connection */
  uint64_t connect_ns, heartbeat_ns;
  struct uvs__backoff backoff;
  uint64_t parked;
  uint64_t random;
  char told[400];
};

struct uvs__link *uvs__intake_link(struct uvs__intake *in);
void uvs__intake_join(struct uvs__intake *in); /* and free it */

/* ---------------------------------------------------------- subscribe.c --- */

/* Declares what a map needs, and subscribes. Returns false: the connection is lost. */
bool uvs__map_subscribe(struct uvs__intake *in, struct uvs__map *map);

/* Declares the parking queue on the channel of a map. Returns false: the connection is lost. */
bool uvs__map_declare_parking(struct uvs__intake *in, struct uvs__map *map);

/* The channel is gone. */
void uvs__map_closed(struct uvs__map *map);

/* Tells why a map is not subscribed; the same reason only once. */
void uvs__map_tell(struct uvs__intake *in, struct uvs__map *map, const char *why);

/* --------------------------------------------------------------- take.c --- */

/* Makes a job of the message in map->content, or has it parked. Returns 0; UV_ENOMEM. */
int uvs__take(struct uvs__intake *in, struct uvs__map *map);

/* --------------------------------------------------------------- hand.c --- */

void uvs__hand_add(struct uvs__intake *in, struct uvs__taken *t); /* to the batch */
void uvs__hand_put(struct uvs__intake *in);                       /* puts the batch */
void uvs__hand_park(struct uvs__intake *in, struct uvs__taken *t);
void uvs__hand_answers(struct uvs__intake *in); /* handles answers of store and publisher */
void uvs__hand_again(struct uvs__intake *in);   /* tries messages again whose time has come */
void uvs__hand_drop(struct uvs__intake *in);    /* frees messages that are not out: the broker
                                                 * still has them */

#endif
