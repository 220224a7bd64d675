/* SPDX-License-Identifier: MIT
 *
 * redis_socket: one connection to a Redis server, on a libuv loop. The only part of hiredis that is
 * used is the parser of replies.
 *
 * A socket is made for one connection and frees itself after it. Commands are pipelined: their
 * words go into one buffer, which is written once in a pass of the loop, and the replies come in
 * the order of the commands.
 *
 * DEADLINES. Each command has a deadline, which counts from the send. When the deadline of the
 * oldest command passes, the connection is closed. A reply that arrives byte by byte does not
 * move the deadline. If the loop was late itself, the socket first reads what has arrived.
 *
 * WHAT A LOST CONNECTION MEANS. A server carries out a command only when it has all of its bytes.
 * So a command whose last byte was not yet given to the kernel was not carried out (UV_EAGAIN). The
 * other commands may have been carried out (UVS_EUNKNOWN).
 */
#ifndef UVSCHED_JOBS_REDIS_SOCKET_H
#define UVSCHED_JOBS_REDIS_SOCKET_H

#include <signal.h>

#include "jobs/redis.h"

/* -------------------------------------------------------- redis_sigpipe.c --- */

/* Blocks SIGPIPE for this thread. `before`: NULL, or gets the signals that were blocked. */
void uvs__redis_block_sigpipe(sigset_t *before);
void uvs__redis_restore_sigpipe(const sigset_t *before);

/* ---------------------------------------------------------- redis_reply.c --- */

enum uvs__redis_remedy {
  UVS__REDIS_CARRY_ON,
  UVS__REDIS_LOAD_SCRIPTS, /* the server has lost the scripts */
  UVS__REDIS_RECONNECT     /* the server cannot write, perhaps another one can */
};

/* What an error reply means, as uvs__redis_cb says. */
int uvs__redis_error(const redisReply *reply, enum uvs__redis_remedy *ret);

/* Copies a text as one printable line, cut to the size. */
void uvs__redis_line(char *to, size_t size, const char *text, size_t length);

/* Copies the value of a line "name:value" of INFO, cut to the size. False: there is no such line.
 */
bool uvs__redis_info(const redisReply *reply, const char *name, char *ret, size_t size);

/* --------------------------------------------------------- redis_socket.c --- */

struct uvs__redis_socket;

/* A command in flight. The sender keeps it until `done`. */
struct uvs__redis_command {
  struct uvs__redis_command *next;
  /* Called once. `done` owns the reply; NULL: the connection was lost. For an error reply the
   * status is that of uvs__redis_error. */
  void (*done)(struct uvs__redis_command *c, int status, redisReply *reply, int64_t received_ns);
  int64_t sent_ns; /* uv_hrtime of the send */
  int64_t deadline_ns;
  uint64_t end; /* where its bytes end in the stream of all bytes that are sent */
};

/* Words of a command. sizes NULL: the words are strings. */
struct uvs__redis_words {
  int n;
  const char *const *words;
  const size_t *sizes;
};

struct uvs__redis_socket_hooks {
  void (*opened)(void *arg);
  /* A published message. NULL: this socket does not subscribe. */
  void (*message)(void *arg, const redisReply *reply);
  /* The connection is lost, or could not be made. Called once, before the commands are answered. */
  void (*broken)(void *arg, int status, const char *why);
  /* All handles are closed; the socket is freed after the return. Called last, always. */
  void (*closed)(void *arg);
};

/* Where a server is. */
struct uvs__redis_address {
  const char *host; /* NULL: path */
  int port;
  const char *path;
};

/* Starts to connect, for at most timeout_ns. `address` is copied. Returns NULL if there is no
 * memory; then no hook is called. */
struct uvs__redis_socket *
uvs__redis_socket_open(uv_loop_t *loop, const struct uvs__redis_address *address,
                       int64_t timeout_ns, const struct uvs__redis_socket_hooks *hooks, void *arg);

/* Sends the words of all parts as one command, which may take timeout_ns. The caller has set
 * c->done. Call it only after the hook `opened`. Returns 0, UV_ENOMEM, or UV_EAGAIN if the socket
 * is broken. */
int uvs__redis_socket_send(struct uvs__redis_socket *s, struct uvs__redis_command *c,
                           const struct uvs__redis_words *parts, int n_parts, int64_t timeout_ns);

/* Breaks the connection: calls `broken`, answers all commands, closes the handles. */
void uvs__redis_socket_break(struct uvs__redis_socket *s, int status, const char *why);

bool uvs__redis_socket_idle(const struct uvs__redis_socket *s); /* no command is in flight */

/* ----------------------------------------------------- redis_connection.c --- */

/* A connection that is made again whenever it is lost. Each attempt asks the sentinels for the
 * master, if there are any, connects, gives the user and the password, selects the database, and
 * checks that the server is a master of version 7 or later. */
struct uvs__redis_connection;

struct uvs__redis_connection_hooks {
  void (*ready)(struct uvs__redis_connection *c);
  /* An attempt has failed, or the connection was lost; c->status and c->trouble say why. Called
   * before the commands in flight are answered. */
  void (*down)(struct uvs__redis_connection *c, bool was_ready);
  void (*message)(struct uvs__redis_connection *c, const redisReply *reply); /* or NULL */
  void (*closed)(struct uvs__redis_connection *c);
};

enum { UVS__REDIS_LOGIN = 5 };
enum { UVS__REDIS_HOST = 256 };

struct uvs__redis_connection {
  uv_loop_t *loop;
  const struct uvs__redis_options *options;
  const char *name; /* of CLIENT SETNAME */
  const struct uvs__redis_connection_hooks *hooks;
  void *owner;

  bool ready;
  int status;        /* why it is not ready */
  char trouble[200]; /* the same in words */
  char run_id[64];
  char version[24];
  char policy[32];                 /* maxmemory_policy; "": unknown */
  int replicas;                    /* that are connected to the server */
  struct uvs__redis_reading clock; /* at the last INFO */
  char host[UVS__REDIS_HOST];
  int port;
  struct uvs__redis_socket *socket; /* NULL: between two attempts */

  const struct uvs__redis_connection *leader; /* connect only to its server; or NULL */
  bool allowed;                               /* with a leader: connect now */
  bool asking;                                /* the socket is connected to a sentinel */
  bool found;                                 /* the sentinel has answered with host and port */
  bool sentinel_auth;                         /* the password was sent to the sentinel */
  bool closing;
  unsigned sentinel; /* index of the sentinel to ask */
  uint64_t random;
  int64_t delay_ns;   /* until the next attempt; it doubles */
  int64_t started_ns; /* the last attempt */
  int64_t ready_ns;
  uv_timer_t timer;
  struct uvs__redis_command login[UVS__REDIS_LOGIN];
};

/* Starts the first attempt, from the loop. The caller has set the fields up to `owner`, and
 * `leader`; all others are zero. With a leader, no attempt is made until `allowed` is set and
 * uvs__redis_connection_hurry is called. Cannot fail. */
void uvs__redis_connection_open(struct uvs__redis_connection *c);
/* Ends the present connection, if any. The next attempt follows. */
void uvs__redis_connection_break(struct uvs__redis_connection *c, int status, const char *why);
/* Makes the next attempt without delay. */
void uvs__redis_connection_hurry(struct uvs__redis_connection *c);
/* Ends the connection for good. `closed` is called from the loop. */
void uvs__redis_connection_close(struct uvs__redis_connection *c);
/* Sends on a connection that is ready. */
int uvs__redis_connection_send(struct uvs__redis_connection *c, struct uvs__redis_command *command,
                               const struct uvs__redis_words *parts, int n_parts,
                               int64_t timeout_ns);

/* --------------------------------------------------- redis_subscription.c --- */

struct uvs__redis_subscription {
  struct uvs__redis_connection connection;
  const char *const *channels;
  size_t n, confirmed;
  void (*subscribed)(struct uvs__redis_subscription *s);
  void (*message)(struct uvs__redis_subscription *s, const char *channel, const char *text,
                  size_t size);
  void (*down)(struct uvs__redis_subscription *s, bool was_ready);
  void (*closed)(struct uvs__redis_subscription *s);
  uv_timer_t ping_timer;
  struct uvs__redis_command ping;
  bool pinging;
  struct uvs__redis_command subscribe;
};

/* The caller has set the fields up to `closed`, and loop, options and leader of the connection. */
void uvs__redis_subscription_open(struct uvs__redis_subscription *s);
void uvs__redis_subscription_close(struct uvs__redis_subscription *s);

/* ------------------------------------------------------- redis_replicas.c --- */

/* An answer that waits for replicas. */
struct uvs__redis_held {
  struct uvs__redis_held *next;
  /* 0; UVS_EUNKNOWN: too few replicas had the change in time, and `why` says so. */
  void (*done)(struct uvs__redis_held *h, int status, const char *why);
};

struct uvs__redis_replicas {
  struct uvs__redis_connection connection;
  void (*ready)(struct uvs__redis_replicas *r);
  void (*down)(struct uvs__redis_replicas *r, bool was_ready);
  void (*closed)(struct uvs__redis_replicas *r);
  struct uvs__redis_held *first, *last; /* for the next WAIT */
  struct uvs__redis_held *batch;        /* of the WAIT that runs */
  bool waiting;
  bool written; /* the write before that WAIT succeeded */
  struct uvs__redis_command write, wait;
};

/* The caller has set the fields up to `closed`, and loop, options and leader of the connection. */
void uvs__redis_replicas_open(struct uvs__redis_replicas *r);
void uvs__redis_replicas_close(struct uvs__redis_replicas *r);
/* Answers *h when enough replicas have all that the server had done until now. */
void uvs__redis_replicas_hold(struct uvs__redis_replicas *r, struct uvs__redis_held *h);

/* ------------------------------------------------------------ redis_url.c --- */

/* Reads one URL. only_db: no setting but db= may be behind the ?. */
int uvs__redis_read_server(const char *name, bool only_db, struct uvs__redis_options **ret,
                           char *text, size_t size);
/* Reads "host:port", "host", "[v6]:port" or "[v6]" up to a comma or the end, and moves *at behind
 * it. Returns false if the text is not an address. */
bool uvs__redis_read_address(const char **at, int port, char host[UVS__REDIS_HOST], int *ret_port);

#endif
