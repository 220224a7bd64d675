/* SPDX-License-Identifier: MIT
 *
 * link: one connection to the broker, used by one thread. Other threads may only wake that thread,
 * or break the connection if the thread is stuck in a call: rabbitmq-c waits without a limit while
 * the broker does not read.
 */
#ifndef UVSCHED_AMQP_LINK_H
#define UVSCHED_AMQP_LINK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <uv.h>
#include <amqp.h>
#include <amqp_framing.h>

#include "amqp/address.h"

struct uvs__link {
  const struct uvs__amqp_address *address;
  const char *purpose;           /* the broker's lists of connections show it */
  amqp_connection_state_t state; /* NULL: not connected */
  uv_file wake[2];               /* a pipe: read end, write end */
  uv_mutex_t lock;               /* protects fd and barred against uvs__link_break */
  int fd;                        /* -1: none */
  _Atomic uint64_t busy_ns;      /* since when the thread is inside a call that may block; 0: not */
  bool refused;    /* the broker closed the connection because of something that we sent */
  char error[400]; /* why the last call failed */
};

int uvs__link_init(struct uvs__link *l, const struct uvs__amqp_address *address,
                   const char *purpose);
void uvs__link_destroy(struct uvs__link *l);

/* Connects and logs in, in at most about 10 s. Returns false: `error` says why. */
bool uvs__link_connect(struct uvs__link *l);

/* Drops the connection. `politely`: tells the broker, and waits up to 1 s for its answer. */
void uvs__link_drop(struct uvs__link *l, bool politely);

/* Waits for at most timeout_ms, until the broker has sent something or another thread wakes this
 * one. `broker` false: waits only for other threads. */
void uvs__link_wait(struct uvs__link *l, bool broker, int timeout_ms);

/* Any thread. */
void uvs__link_wake(struct uvs__link *l);
void uvs__link_break(struct uvs__link *l);

/* Reads the next frame that has come. Returns 1; 0: none; -1: the connection is lost; `error` says
 * why. A frame is valid until uvs__link_release of its channel. */
int uvs__link_next(struct uvs__link *l, amqp_frame_t *ret);
void uvs__link_release(struct uvs__link *l, amqp_channel_t channel);

/* Call it after a call of rabbitmq-c that waits for an answer. `what` says what has failed. Returns
 * 0; the code of the broker (404 ...) if the broker has closed the channel, after answering the
 * close; -1: the connection is lost. */
int uvs__link_answer(struct uvs__link *l, amqp_channel_t channel, const char *what);

/* Call it after a call that only sends. Returns false: the connection is lost. */
bool uvs__link_sent(struct uvs__link *l, int status);

/* Writes the text of a close that the broker sent, such as "404 NOT_FOUND - no exchange". */
void uvs__link_close_text(uint16_t code, amqp_bytes_t text, char *ret, size_t size);

/* Call these before and after a call that may block. */
void uvs__link_busy(struct uvs__link *l);
void uvs__link_idle(struct uvs__link *l);

/* The waits between attempts to connect. */
struct uvs__backoff {
  unsigned wait_ms;
};

/* Returns the next wait: from 50 ms to 5 s, shortened by a random part of up to a quarter. */
int uvs__backoff_next(struct uvs__backoff *b);

#endif
