/* SPDX-License-Identifier: MIT
 *
 * redis_connection: makes a connection, and makes it again whenever it is lost.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/redis_socket.h"

#define DELAY_MIN_NS INT64_C(50000000)
#define DELAY_MAX_NS INT64_C(5000000000)
#define STABLE_NS INT64_C(1000000000) /* after this time a connection resets the delay */
#define SENTINEL_PORT 26379

/* -------------------------------------------------------------------- delays --- */

static void attempt(struct uvs__redis_connection *c);

static uint64_t next_random(struct uvs__redis_connection *c) {
  c->random ^= c->random << 13;
  c->random ^= c->random >> 7;
  c->random ^= c->random << 17;
  return c->random;
}

static void on_timer(uv_timer_t *timer) {
  attempt(timer->data);
}

/* The delay counts from the start of the last attempt, so that a long attempt does not add to the
 * delay. The next attempt is at least DELAY_MIN_NS after the end of the last one. */
static void schedule_attempt(struct uvs__redis_connection *c) {
  int64_t delay_ns = c->delay_ns, now_ns = (int64_t)uv_hrtime(), left_ns;

  delay_ns += (int64_t)(next_random(c) % (uint64_t)(delay_ns / 2));
  left_ns = c->started_ns + delay_ns - now_ns;
  if (left_ns < DELAY_MIN_NS)
    left_ns = DELAY_MIN_NS;
  /* With the jitter, at most DELAY_MAX_NS. */
  c->delay_ns = c->delay_ns * 2 < DELAY_MAX_NS * 2 / 3 ? c->delay_ns * 2 : DELAY_MAX_NS * 2 / 3;
  uv_update_time(c->loop);
  uv_timer_start(&c->timer, on_timer, (uint64_t)(left_ns / 1000000), 0);
}

static void go_down(struct uvs__redis_connection *c, int status, const char *why, size_t length) {
  bool was_ready = c->ready;

  c->ready = false;
  c->status = status;
  uvs__redis_line(c->trouble, sizeof c->trouble, why, length);
  if (was_ready && (int64_t)uv_hrtime() - c->ready_ns >= STABLE_NS)
    c->delay_ns = DELAY_MIN_NS;
  if (!c->closing)
    c->hooks->down(c, was_ready);
}

/* ------------------------------------------------------------------- sending --- */

/* Sends a command of strings. If there is no memory, the connection is broken. */
static void say(struct uvs__redis_connection *c, int i,
                void (*done)(struct uvs__redis_command *, int, redisReply *, int64_t), int n,
                const char *const *words) {
  struct uvs__redis_words part = {n, words, NULL};

  c->login[i].done = done;
  if (uvs__redis_socket_send(c->socket, &c->login[i], &part, 1, c->options->timeout_ns) != 0)
    uvs__redis_socket_break(c->socket, UV_ENOMEM, "no memory");
}

int uvs__redis_connection_send(struct uvs__redis_connection *c, struct uvs__redis_command *command,
                               const struct uvs__redis_words *parts, int n_parts,
                               int64_t timeout_ns) {
  return uvs__redis_socket_send(c->socket, command, parts, n_parts, timeout_ns);
}

/* --------------------------------------------------------------------- login --- */

enum { LOGIN_AUTH, LOGIN_SELECT, LOGIN_NAME, LOGIN_INFO, LOGIN_MASTER };
_Static_assert(LOGIN_MASTER + 1 == UVS__REDIS_LOGIN, "one command each");

static struct uvs__redis_connection *owner_of(struct uvs__redis_command *command, int i) {
  return (struct uvs__redis_connection *)(void *)((char *)(command - i) -
                                                  offsetof(struct uvs__redis_connection, login));
}

/* If the reply is an error, frees it and breaks the connection. */
static bool refused(struct uvs__redis_connection *c, int status, redisReply *reply) {
  char why[160];

  if (reply == NULL) /* the connection is broken */
    return true;
  if (status == 0)
    return false;
  uvs__redis_line(why, sizeof why, reply->str, reply->len);
  freeReplyObject(reply);
  uvs__redis_socket_break(c->socket, status, why);
  return true;
}

static void say_auth(struct uvs__redis_connection *c,
                     void (*done)(struct uvs__redis_command *, int, redisReply *, int64_t)) {
  const struct uvs__redis_options *o = c->options;

  if (o->user != NULL)
    say(c, LOGIN_AUTH, done, 3, (const char *const[]){"AUTH", o->user, o->password});
  else
    say(c, LOGIN_AUTH, done, 2, (const char *const[]){"AUTH", o->password});
}

/* `refused` for AUTH. A server that does not know AUTH repeats its arguments. */
static bool refused_auth(struct uvs__redis_connection *c, int status, redisReply *reply) {
  if (reply == NULL || status == 0 || c->options->password[0] == '\0' ||
      strstr(reply->str, c->options->password) == NULL)
    return refused(c, status, reply);
  freeReplyObject(reply);
  uvs__redis_socket_break(c->socket, status, "the server refused AUTH, and its reply is not shown");
  return true;
}

static void on_auth(struct uvs__redis_command *command, int status, redisReply *reply, int64_t at) {
  (void)at;
  /* "ERR AUTH ... without any password": the server needs no password, but the user gave one. */
  if (!refused_auth(owner_of(command, LOGIN_AUTH), status == UV_EIO ? UV_EACCES : status, reply))
    freeReplyObject(reply);
}

static void on_select(struct uvs__redis_command *command, int status, redisReply *reply,
                      int64_t at) {
  (void)at;
  if (!refused(owner_of(command, LOGIN_SELECT), status, reply))
    freeReplyObject(reply);
}

/* The name is for people who look at the server. A user without the right to set it is accepted. */
static void on_name(struct uvs__redis_command *command, int status, redisReply *reply, int64_t at) {
  (void)command;
  (void)status;
  (void)at;
  if (reply != NULL)
    freeReplyObject(reply);
}

/* Reads the reply of INFO. Returns 0, or a code if the server cannot be used; then why says why. */
static int read_info(struct uvs__redis_connection *c, const redisReply *reply, char *why,
                     size_t size) {
  char role[16], loading[4], replicas[16], clock[24];

  if (!uvs__redis_info(reply, "redis_version", c->version, sizeof c->version) ||
      !uvs__redis_info(reply, "run_id", c->run_id, sizeof c->run_id) ||
      !uvs__redis_info(reply, "role", role, sizeof role)) {
    snprintf(why, size, "INFO says no redis_version, run_id or role");
    return UV_EPROTO;
  }
  if (atoi(c->version) < 7) {
    snprintf(why, size, "the server is Redis %s; at least 7.0 is needed", c->version);
    return UV_ENOTSUP;
  }
  if (strcmp(role, "master") != 0) {
    snprintf(why, size, "the server is a replica: give the address of its master");
    return UV_EROFS;
  }
  if (uvs__redis_info(reply, "loading", loading, sizeof loading) && strcmp(loading, "0") != 0) {
    snprintf(why, size, "the server is loading its data");
    return UV_EAGAIN;
  }
  if (c->leader != NULL && strcmp(c->run_id, c->leader->run_id) != 0) {
    snprintf(why, size, "another server has answered");
    return UV_EAGAIN;
  }
  if (!uvs__redis_info(reply, "maxmemory_policy", c->policy, sizeof c->policy))
    c->policy[0] = '\0';
  c->clock.now_us =
      uvs__redis_info(reply, "server_time_usec", clock, sizeof clock) ? atoll(clock) : 0;
  if (c->clock.now_us < 0 || c->clock.now_us >= (INT64_C(1) << 53)) /* no script could use it */
    c->clock.now_us = 0;
  c->replicas =
      uvs__redis_info(reply, "connected_slaves", replicas, sizeof replicas) ? atoi(replicas) : 0;
  return 0;
}

static void on_info(struct uvs__redis_command *command, int status, redisReply *reply, int64_t at) {
  struct uvs__redis_connection *c = owner_of(command, LOGIN_INFO);
  char why[100];

  if (refused(c, status, reply))
    return;
  c->clock.sent_ns = command->sent_ns;
  c->clock.received_ns = at;
  status = read_info(c, reply, why, sizeof why);
  freeReplyObject(reply);
  if (status != 0) {
    uvs__redis_socket_break(c->socket, status, why);
    return;
  }
  c->ready = true;
  c->ready_ns = (int64_t)uv_hrtime();
  c->status = 0;
  c->trouble[0] = '\0';
  c->hooks->ready(c);
}

static void log_in(struct uvs__redis_connection *c) {
  const struct uvs__redis_options *o = c->options;
  char db[16];

  snprintf(db, sizeof db, "%d", o->db);
  if (o->password != NULL)
    say_auth(c, on_auth);
  if (o->db != 0)
    say(c, LOGIN_SELECT, on_select, 2, (const char *const[]){"SELECT", db});
  say(c, LOGIN_NAME, on_name, 3, (const char *const[]){"CLIENT", "SETNAME", c->name});
  say(c, LOGIN_INFO, on_info, 1, (const char *const[]){"INFO"});
}

/* ----------------------------------------------------------------- sentinels --- */

static void ask_sentinel(struct uvs__redis_connection *c);

static void on_sentinel_auth(struct uvs__redis_command *command, int status, redisReply *reply,
                             int64_t at) {
  struct uvs__redis_connection *c = owner_of(command, LOGIN_AUTH);

  (void)at;
  if (refused_auth(c, status, reply))
    return;
  freeReplyObject(reply);
  ask_sentinel(c);
}

/* Reads the address of the master. Returns false if the reply is not an address. */
static bool read_master(struct uvs__redis_connection *c, const redisReply *reply) {
  int port;

  if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
      reply->element[0]->type != REDIS_REPLY_STRING || reply->element[0]->len == 0 ||
      reply->element[0]->len >= sizeof c->host || reply->element[1]->type != REDIS_REPLY_STRING)
    return false;
  port = atoi(reply->element[1]->str);
  if (port < 1 || port > 65535)
    return false;
  snprintf(c->host, sizeof c->host, "%s", reply->element[0]->str);
  c->port = port;
  return true;
}

static void on_master(struct uvs__redis_command *command, int status, redisReply *reply,
                      int64_t at) {
  struct uvs__redis_connection *c = owner_of(command, LOGIN_MASTER);

  (void)at;
  /* If sentinels need a password, it is that of the servers. */
  if (status == UV_EACCES && c->options->password != NULL && !c->sentinel_auth) {
    freeReplyObject(reply);
    c->sentinel_auth = true;
    say_auth(c, on_sentinel_auth);
    return;
  }
  if (refused(c, status, reply))
    return;
  c->found = read_master(c, reply);
  freeReplyObject(reply);
  uvs__redis_socket_break(c->socket, UV_ENOENT, "the sentinel knows no service of this name");
}

static void ask_sentinel(struct uvs__redis_connection *c) {
  say(c, LOGIN_MASTER, on_master, 3,
      (const char *const[]){"SENTINEL", "get-master-addr-by-name", c->options->service});
}

/* Finds the sentinel to ask next. */
static void choose_sentinel(struct uvs__redis_connection *c) {
  const char *at = c->options->sentinels;
  unsigned n = 1;

  for (const char *p = at; *p != '\0'; p++)
    n += *p == ',';
  c->sentinel %= n;
  for (unsigned i = 0; i <= c->sentinel; i++) {
    uvs__redis_read_address(&at, SENTINEL_PORT, c->host, &c->port);
    at += *at == ',';
  }
}

/* ------------------------------------------------------------------ attempts --- */

static void on_opened(void *arg) {
  struct uvs__redis_connection *c = arg;

  if (c->asking)
    ask_sentinel(c);
  else
    log_in(c);
}

static void on_message(void *arg, const redisReply *reply) {
  struct uvs__redis_connection *c = arg;

  c->hooks->message(c, reply);
}

static void on_closed(void *arg);

static void on_broken(void *arg, int status, const char *why) {
  struct uvs__redis_connection *c = arg;

  if (c->asking && c->found)
    return; /* the connection to the server follows */
  c->sentinel += c->asking;
  go_down(c, status, why, strlen(why));
}

static void connect_to(struct uvs__redis_connection *c) {
  static const struct uvs__redis_socket_hooks hooks = {on_opened, NULL, on_broken, on_closed};
  static const struct uvs__redis_socket_hooks with_messages = {on_opened, on_message, on_broken,
                                                               on_closed};
  struct uvs__redis_address address = {c->host, c->port, c->options->path};

  c->socket = uvs__redis_socket_open(c->loop, &address, c->options->timeout_ns,
                                     c->hooks->message != NULL ? &with_messages : &hooks, c);
  if (c->socket == NULL) {
    go_down(c, UV_ENOMEM, "no memory", strlen("no memory"));
    schedule_attempt(c);
  }
}

static void attempt(struct uvs__redis_connection *c) {
  const struct uvs__redis_options *o = c->options;

  if (c->leader != NULL && !c->allowed)
    return; /* until uvs__redis_connection_hurry */
  c->started_ns = (int64_t)uv_hrtime();
  c->asking = c->leader == NULL && o->service != NULL;
  c->found = c->sentinel_auth = false;
  if (c->asking) {
    choose_sentinel(c);
  } else if (c->leader != NULL) {
    memcpy(c->host, c->leader->host, sizeof c->host);
    c->port = c->leader->port;
  } else if (o->host != NULL) {
    snprintf(c->host, sizeof c->host, "%s", o->host);
    c->port = o->port;
  }
  connect_to(c);
}

static void on_timer_closed(uv_handle_t *timer) {
  struct uvs__redis_connection *c = timer->data;

  c->hooks->closed(c);
}

static void on_closed(void *arg) {
  struct uvs__redis_connection *c = arg;

  c->socket = NULL;
  if (c->closing) {
    uv_close((uv_handle_t *)&c->timer, on_timer_closed);
  } else if (c->asking && c->found) {
    c->asking = false;
    connect_to(c);
  } else {
    schedule_attempt(c);
  }
}

/* ---------------------------------------------------------------- open, close --- */

void uvs__redis_connection_open(struct uvs__redis_connection *c) {
  c->random = (uv_hrtime() ^ (uint64_t)uv_os_getpid() << 40 ^ (uint64_t)(uintptr_t)c) | 1;
  c->delay_ns = DELAY_MIN_NS;
  uv_timer_init(c->loop, &c->timer);
  c->timer.data = c;
  uv_timer_start(&c->timer, on_timer, 0, 0);
}

void uvs__redis_connection_break(struct uvs__redis_connection *c, int status, const char *why) {
  if (c->socket != NULL)
    uvs__redis_socket_break(c->socket, status, why);
}

void uvs__redis_connection_hurry(struct uvs__redis_connection *c) {
  c->delay_ns = DELAY_MIN_NS;
  if (c->socket == NULL && !c->closing)
    uv_timer_start(&c->timer, on_timer, 0, 0);
}

void uvs__redis_connection_close(struct uvs__redis_connection *c) {
  c->closing = true;
  if (c->socket != NULL)
    uvs__redis_socket_break(c->socket, UV_ECANCELED, "closed");
  else
    uv_close((uv_handle_t *)&c->timer, on_timer_closed);
}
