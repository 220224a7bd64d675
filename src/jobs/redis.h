/* SPDX-License-Identifier: MIT
 *
 * redis: the store in Redis. This header is for the files redis*.c only.
 *
 *   redis_slot.c     the slot of a job
 *   redis_map.c      which server owns which slots
 *   redis_url.c      reads "redis://..." into options
 *   redis_servers.c  the list of the servers of a store
 *   redis_check.c    connects once while the store is opened, and looks at the server's settings
 *   redis_socket.c   one connection on a libuv loop, with a deadline for each command
 *   redis_reply.c    what error replies mean
 *   redis_connection.c    connects, asks sentinels, logs in, and connects again
 *   redis_subscription.c  the connection for messages
 *   redis_replicas.c      the connection for WAIT
 *   redis_sigpipe.c  writes to a closed connection do not end the process
 *   redis_link.c     the connections of a store
 *   redis_script.c   the texts of the scripts, made from the files *.lua
 *   redis_words.c    the words of a command
 *   redis_put.c ...  one file for each kind of request: its words, and how its reply is read
 *   redis_open.c     opens, closes, carries out batches
 */
#ifndef UVSCHED_JOBS_REDIS_H
#define UVSCHED_JOBS_REDIS_H

#include <hiredis/hiredis.h>
#include <uv.h>

#include "jobs/redis_map.h"
#include "jobs/store.h"

/* -------------------------------------------------------- redis_servers.c --- */

/* What the name of a store says about one server. The memory of all strings is behind one of the
 * structs of the list. */
struct uvs__redis_options {
  struct uvs__redis_options *next; /* the next server of the list */
  const char *host;                /* NULL: the server is at `path` */
  int port;
  const char *path;            /* of a unix socket */
  const char *user, *password; /* NULL: none */
  int db;
  const char *ns;        /* the prefix of all keys; "uvsched" */
  const char *service;   /* Sentinel: the name of the master; NULL: host is the server itself */
  const char *sentinels; /* "host:port,host:port"; NULL: host and port */
  uint32_t replicas;     /* of WAIT; 0: no WAIT */
  bool strict;           /* settings that may lose jobs are refused, not only warned of */
  int64_t timeout_ns;    /* of each request, and of connecting; 2 s */
};

/* `name` is the whole name of the store, "redis://..." and so on, or several with commas between
 * them. On an error `text` names what is wrong. */
int uvs__redis_read_url(const char *name, struct uvs__redis_options **ret, char *text, size_t size);
void uvs__redis_free_options(struct uvs__redis_options *o); /* the whole list */

/* Writes the name of a server: its URL without user, password and settings. False: the name would
 * be longer than UVS__REDIS_SERVER_NAME, or has a blank. */
bool uvs__redis_server_name(const struct uvs__redis_options *o, char to[UVS__REDIS_SERVER_NAME]);
/* Makes the options of a server of the map. Its user and password are those of the server of this
 * name in the list `given`, or else of the first one; its settings are those of the list. The list
 * must live longer than the options. */
int uvs__redis_server_options(const char *server, const struct uvs__redis_options *given,
                              struct uvs__redis_options **ret, char *text, size_t size);

#define UVS__REDIS_WARNING_MAX 200

/* --------------------------------------------------------- redis_script.c --- */

enum uvs__redis_script {
  UVS__REDIS_NO_SCRIPT = -1, /* a plain command */
  UVS__REDIS_INIT,
  UVS__REDIS_PUT,
  UVS__REDIS_CLAIM,
  UVS__REDIS_SETTLE,
  UVS__REDIS_ALTER,
  UVS__REDIS_GET,
  UVS__REDIS_SCAN,
  UVS__REDIS_BULK,
  UVS__REDIS_TRIM,
  UVS__REDIS_COUNT,
  UVS__REDIS_EVENTS,
  UVS__REDIS_QUEUE,
  UVS__REDIS_CRON,
  UVS__REDIS_CRONS,
  UVS__REDIS_LEAVE,
  UVS__REDIS_MAP,
  UVS__REDIS_EXPORT,
  UVS__REDIS_IMPORT,
  UVS__REDIS_DROP,
  UVS__REDIS_SCRIPTS /* more are added in front of this one */
};
struct uvs__redis_script_text {
  const char *name;
  const char *text;
  size_t size;
};
extern const struct uvs__redis_script_text uvs__redis_scripts[UVS__REDIS_SCRIPTS];

/* ----------------------------------------------------------- redis_link.c --- */

/* How a command ended. Loop thread of the link, once for each command that was sent.
 *   0             `reply` is not an error, and lives until the return
 *   UV_EAGAIN     the server has not carried out the command: the command was not sent, or the
 *                 server is loading, is a replica, has lost the scripts, has too few replicas ...
 *   UVS_EUNKNOWN  the command was sent, and no reply came: it may have been carried out
 *   UV_ENOSPC     the server is full (OOM), or cannot write (MISCONF); nothing was done
 *   UV_EACCES     the server refuses the user, the password or the command
 *   UV_EIO        any other error of the server
 * After UV_E... link->trouble is one line that says why. */
typedef void (*uvs__redis_cb)(void *arg, int status, const redisReply *reply, int64_t sent_ns,
                              int64_t received_ns);

struct uvs__redis_link_hooks {
  /* A new connection works, and its scripts are loaded. `run_id` is that of the server. */
  void (*up)(void *arg, const char *run_id);
  void (*down)(void *arg);
  /* Subscribed, and confirmed, for the first time or again: messages may have been missed. */
  void (*subscribed)(void *arg);
  void (*message)(void *arg, const char *channel, const char *text, size_t size);
};

struct uvs__redis_link {
  char trouble[200]; /* why the last command failed; "" */
  bool is_up;
};

/* Connects to the server, and connects again whenever the connection is lost: after 50 ms, doubling
 * to 5 s, with jitter. `channels` (n of them) are subscribed on a second connection. With
 * options->replicas a third connection waits for replicas. No call blocks. From now on SIGPIPE is
 * blocked for this thread, which is that of the loop. Returns NULL if there is no memory. */
struct uvs__redis_link *uvs__redis_link_open(uv_loop_t *loop, const struct uvs__redis_options *o,
                                             const char *const *channels, size_t n,
                                             const struct uvs__redis_link_hooks *hooks, void *arg);

/* Sends a command, after those that were sent before. For a script, the words are those that follow
 * its hash: the number of keys, the keys, the arguments. The words are copied. `durable`: the
 * answer waits for replicas, if options->replicas asks for it. cb is called later, never from
 * inside this call. Returns 0 or UV_ENOMEM (then cb is not called). */
int uvs__redis_link_send(struct uvs__redis_link *link, enum uvs__redis_script script, int n,
                         const char *const *words, const size_t *sizes, bool durable,
                         uvs__redis_cb cb, void *arg);

/* Answers all commands (UV_EAGAIN or UVS_EUNKNOWN) and closes all handles. *link is freed later, by
 * a callback on the loop. No hook is called any more. */
void uvs__redis_link_close(struct uvs__redis_link *link);

/* ---------------------------------------------------------- redis_check.c --- */

/* The server's clock was now_us at some time between the two monotonic times. now_us 0: not known.
 */
struct uvs__redis_reading {
  int64_t now_us, sent_ns, received_ns;
};

/* The data that a check has found on the server. */
struct uvs__redis_found {
  bool data; /* the namespace has a store */
  char *map; /* the text of its map, to be freed; NULL: none */
  size_t map_size;
  struct uvs__redis_reading clock;
};

/* Connects once, and checks the server: version at least 7, role, appendonly, appendfsync,
 * no-appendfsync-on-rewrite, maxmemory-policy, min-replicas-to-write. Blocks for at most
 * options->timeout_ns. `warning` gets one line about settings that may lose jobs, or "". Returns 0,
 * or why the server cannot be used: UV_ENOTSUP (its settings), UV_EACCES (the login), UV_ENOMEM; or
 * another code if it cannot be reached. Then nothing is found. */
int uvs__redis_check(const struct uvs__redis_options *o, char *warning, size_t warning_size,
                     char *text, size_t size, struct uvs__redis_found *found);

#endif
