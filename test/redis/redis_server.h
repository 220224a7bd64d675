/* SPDX-License-Identifier: MIT
 *
 * redis_server: a Redis server for a test program, on a free loopback port and a unix socket, with
 * its data in a temporary folder. It dies with the test program, however that ends.
 */
#ifndef TEST_REDIS_SERVER_H
#define TEST_REDIS_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

#include <hiredis/hiredis.h>

struct redis_server {
  struct redis_server *next; /* all that were made */
  pid_t pid;                 /* 0: not running */
  int port;
  char folder[200];
  char socket[250];      /* its path */
  char options[20][100]; /* of the command line */
  int n_options;
  redisContext *c; /* of the test */
  bool sentinel;
};

/* If there is no redis-server: says so, and ends the program. */
void redis_server_need(void);

/* Starts a server and waits until it answers. `options` are more words of its command line, such as
 * "--appendonly no", separated by spaces; NULL: none. Aborts on errors. */
struct redis_server *redis_server_start(const char *options);
/* A sentinel for the service "jobs" of this server. */
struct redis_server *redis_sentinel_start(const struct redis_server *master);
void redis_server_kill(struct redis_server *s);    /* SIGKILL */
void redis_server_restart(struct redis_server *s); /* on the same data */
/* The same, but only waits until the server listens: it may be loading its data then. */
void redis_server_restart_loading(struct redis_server *s);
void redis_server_stop(struct redis_server *s);  /* with its folder; s is freed */
void redis_server_pause(struct redis_server *s); /* SIGSTOP */
void redis_server_resume(struct redis_server *s);

/* Asks the server over a connection of the test; connects again if the server was restarted. The
 * reply is valid until the next call. */
const redisReply *redis_ask(struct redis_server *s, const char *format, ...);
/* The same for an integer. */
long long redis_ask_number(struct redis_server *s, const char *format, ...);

int free_port(void);

#endif
