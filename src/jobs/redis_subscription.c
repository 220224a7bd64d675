/* SPDX-License-Identifier: MIT
 *
 * redis_subscription: the connection that receives published messages. One PING in two minutes
 * finds out whether the connection is dead without an error.
 */
#include "jobs/redis_socket.h"

#define PING_MS 120000

/* ---------------------------------------------------------------------- ping --- */

static void on_pong(struct uvs__redis_command *command, int status, redisReply *reply, int64_t at) {
  struct uvs__redis_subscription *s =
      (struct uvs__redis_subscription *)(void *)((char *)command -
                                                 offsetof(struct uvs__redis_subscription, ping));

  (void)at;
  s->pinging = false;
  if (reply != NULL)
    freeReplyObject(reply);
  if (status != 0)
    uvs__redis_connection_break(&s->connection, status, "PING failed");
}

static void on_ping_timer(uv_timer_t *timer) {
  struct uvs__redis_subscription *s = timer->data;
  struct uvs__redis_words words = {1, (const char *const[]){"PING"}, NULL};

  if (!s->connection.ready || s->pinging)
    return;
  s->ping.done = on_pong;
  s->pinging = uvs__redis_connection_send(&s->connection, &s->ping, &words, 1,
                                          s->connection.options->timeout_ns) == 0;
}

/* ----------------------------------------------------------------- subscribe --- */

static void subscribe_next(struct uvs__redis_subscription *s);

static void on_subscribed(struct uvs__redis_command *command, int status, redisReply *reply,
                          int64_t at) {
  struct uvs__redis_subscription *s =
      (struct uvs__redis_subscription *)(void *)((char *)command -
                                                 offsetof(struct uvs__redis_subscription,
                                                          subscribe));
  char why[160];

  (void)at;
  if (reply == NULL)
    return;
  if (status != 0)
    uvs__redis_line(why, sizeof why, reply->str, reply->len);
  freeReplyObject(reply);
  if (status != 0) {
    uvs__redis_connection_break(&s->connection, status, why);
  } else if (++s->confirmed < s->n) {
    subscribe_next(s);
  } else {
    uv_timer_start(&s->ping_timer, on_ping_timer, PING_MS, PING_MS);
    s->subscribed(s);
  }
}

/* One channel after the other: each command then has one reply. */
static void subscribe_next(struct uvs__redis_subscription *s) {
  struct uvs__redis_words words = {2, (const char *const[]){"SUBSCRIBE", s->channels[s->confirmed]},
                                   NULL};

  s->subscribe.done = on_subscribed;
  if (uvs__redis_connection_send(&s->connection, &s->subscribe, &words, 1,
                                 s->connection.options->timeout_ns) != 0)
    uvs__redis_connection_break(&s->connection, UV_ENOMEM, "no memory");
}

static void on_ready(struct uvs__redis_connection *c) {
  struct uvs__redis_subscription *s = c->owner;

  s->confirmed = 0;
  subscribe_next(s);
}

static void on_down(struct uvs__redis_connection *c, bool was_ready) {
  struct uvs__redis_subscription *s = c->owner;

  uv_timer_stop(&s->ping_timer);
  s->down(s, was_ready);
}

static void on_message(struct uvs__redis_connection *c, const redisReply *reply) {
  struct uvs__redis_subscription *s = c->owner;

  if (reply->element[1]->type == REDIS_REPLY_STRING &&
      reply->element[2]->type == REDIS_REPLY_STRING && !c->closing)
    s->message(s, reply->element[1]->str, reply->element[2]->str, reply->element[2]->len);
}

/* --------------------------------------------------------------- open, close --- */

static void on_timer_closed(uv_handle_t *timer) {
  struct uvs__redis_subscription *s = timer->data;

  s->closed(s);
}

static void on_closed(struct uvs__redis_connection *c) {
  struct uvs__redis_subscription *s = c->owner;

  uv_close((uv_handle_t *)&s->ping_timer, on_timer_closed);
}

void uvs__redis_subscription_open(struct uvs__redis_subscription *s) {
  static const struct uvs__redis_connection_hooks hooks = {on_ready, on_down, on_message,
                                                           on_closed};

  s->connection.name = "uvsched-messages";
  s->connection.hooks = &hooks;
  s->connection.owner = s;
  uv_timer_init(s->connection.loop, &s->ping_timer);
  s->ping_timer.data = s;
  uvs__redis_connection_open(&s->connection);
}

void uvs__redis_subscription_close(struct uvs__redis_subscription *s) {
  uv_timer_stop(&s->ping_timer);
  uvs__redis_connection_close(&s->connection);
}
