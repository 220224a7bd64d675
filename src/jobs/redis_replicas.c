/* SPDX-License-Identifier: MIT
 *
 * redis_replicas: the connection that waits for replicas. WAIT blocks its connection, so WAIT has a
 * connection of its own. WAIT counts only the writes of its own connection, so a small write is
 * sent before it: a replica that has this write has everything that the server did before. There is
 * one WAIT at a time. It answers all requests that came before its write.
 */
#include <stdio.h>

#include "jobs/redis_socket.h"

static struct uvs__redis_replicas *owner_of(struct uvs__redis_command *command, size_t offset) {
  return (struct uvs__redis_replicas *)(void *)((char *)command - offset);
}

static void answer_batch(struct uvs__redis_replicas *r, int status, const char *why) {
  struct uvs__redis_held *h = r->batch, *next;

  r->batch = NULL;
  for (; h != NULL; h = next) {
    next = h->next;
    h->done(h, status, why);
  }
}

static void start(struct uvs__redis_replicas *r);

static void on_write(struct uvs__redis_command *command, int status, redisReply *reply,
                     int64_t at) {
  struct uvs__redis_replicas *r = owner_of(command, offsetof(struct uvs__redis_replicas, write));

  (void)at;
  r->written = status == 0;
  if (reply != NULL)
    freeReplyObject(reply);
}

static void on_wait(struct uvs__redis_command *command, int status, redisReply *reply, int64_t at) {
  struct uvs__redis_replicas *r = owner_of(command, offsetof(struct uvs__redis_replicas, wait));
  uint32_t wanted = r->connection.options->replicas;
  long long n = -1;
  char why[100] = "";

  (void)at;
  r->waiting = false;
  if (reply == NULL) /* on_down has answered */
    return;
  if (status != 0)
    uvs__redis_line(why, sizeof why, reply->str, reply->len);
  else if (reply->type == REDIS_REPLY_INTEGER)
    n = reply->integer;
  freeReplyObject(reply);
  if (status == 0 && !r->written)
    snprintf(why, sizeof why, "the write before WAIT was refused");
  else if (status == 0 && n < wanted)
    snprintf(why, sizeof why, "%lld of %u replicas have it", n, wanted);
  answer_batch(r, r->written && n >= wanted ? 0 : UVS_EUNKNOWN, why);
  start(r);
}

static void start(struct uvs__redis_replicas *r) {
  const struct uvs__redis_options *o = r->connection.options;
  char key[80], n[16], timeout[24];
  /* A script, because a script may write even if the server is full. */
  const char *write[] = {"EVAL", "#!lua flags=allow-oom\nreturn redis.call('SET', KEYS[1], '1')",
                         "1", key};
  const char *wait[] = {"WAIT", n, timeout};
  struct uvs__redis_words write_words = {4, write, NULL}, wait_words = {3, wait, NULL};

  if (r->first == NULL || r->waiting || !r->connection.ready)
    return;
  snprintf(key, sizeof key, "{%s}:wait", o->ns);
  snprintf(n, sizeof n, "%u", o->replicas);
  snprintf(timeout, sizeof timeout, "%lld", (long long)(o->timeout_ns / 1000000));
  r->write.done = on_write;
  r->wait.done = on_wait;
  r->written = false;
  r->waiting = true;
  r->batch = r->first;
  r->first = r->last = NULL;
  /* WAIT itself takes up to timeout_ns. */
  if (uvs__redis_connection_send(&r->connection, &r->write, &write_words, 1, o->timeout_ns) != 0 ||
      uvs__redis_connection_send(&r->connection, &r->wait, &wait_words, 1, 2 * o->timeout_ns) !=
          0) {
    r->waiting = false;
    uvs__redis_connection_break(&r->connection, UV_ENOMEM, "no memory");
  }
}

void uvs__redis_replicas_hold(struct uvs__redis_replicas *r, struct uvs__redis_held *h) {
  h->next = NULL;
  if (!r->connection.ready) {
    h->done(h, UVS_EUNKNOWN, r->connection.trouble);
    return;
  }
  if (r->first == NULL)
    r->first = h;
  else
    r->last->next = h;
  r->last = h;
  start(r);
}

/* ------------------------------------------------------------ the connection --- */

static void answer_all(struct uvs__redis_replicas *r) {
  const char *why = "the connection that waits for replicas was lost";

  answer_batch(r, UVS_EUNKNOWN, why);
  r->batch = r->first;
  r->first = r->last = NULL;
  answer_batch(r, UVS_EUNKNOWN, why);
}

static void on_ready(struct uvs__redis_connection *c) {
  struct uvs__redis_replicas *r = c->owner;

  r->ready(r);
}

static void on_down(struct uvs__redis_connection *c, bool was_ready) {
  struct uvs__redis_replicas *r = c->owner;

  r->down(r, was_ready);
  answer_all(r);
}

static void on_closed(struct uvs__redis_connection *c) {
  struct uvs__redis_replicas *r = c->owner;

  r->closed(r);
}

void uvs__redis_replicas_open(struct uvs__redis_replicas *r) {
  static const struct uvs__redis_connection_hooks hooks = {on_ready, on_down, NULL, on_closed};

  r->connection.name = "uvsched-replicas";
  r->connection.hooks = &hooks;
  r->connection.owner = r;
  uvs__redis_connection_open(&r->connection);
}

void uvs__redis_replicas_close(struct uvs__redis_replicas *r) {
  answer_all(r);
  uvs__redis_connection_close(&r->connection);
}
