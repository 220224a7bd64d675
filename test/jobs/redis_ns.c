/* SPDX-License-Identifier: MIT */
#include "redis_ns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "redis/redis_server.h"

/* The rights that a store needs: each test of a store on Redis shows that they are enough. */
#define RIGHTS \
  "+ping +info +select +client|setname +config|get +script|load +evalsha +eval +wait +subscribe " \
  "+publish +time +get +set +hset +hget +hmget +hgetall +hdel +hexists +hincrby +hlen +hscan " \
  "+hstrlen " \
  "+zadd +zcard +zcount +zpopmin +zrange +zrangebyscore +zrem +zscore"

static struct redis_server *server; /* ends with the program */

bool redis_ns_is_built(void) {
  return true;
}

/* The server forgets it when it is started again. */
static void make_user(void) {
  redis_ask(server, "ACL SETUSER jobs on >secret ~{t*}:* &{t*}:* -@all " RIGHTS);
}

void redis_ns_name(char *name, size_t size) {
  static unsigned namespaces;

  if (server == NULL) {
    redis_server_need();
    if (access("/dev/shm", W_OK) == 0) /* each write is synchronized: no test needs a disk */
      setenv("TMPDIR", "/dev/shm", 0);
    server = redis_server_start("");
    make_user();
  }
  snprintf(name, size, "redis+unix://jobs:secret@%s?ns=t%u&timeout=20s", server->socket,
           namespaces++);
}

void redis_ns_flush(void) {
  redis_ask(server, "FLUSHALL");
}

long long redis_ns_ask(const char *command) {
  long long number = redis_ask_number(server, command);

  return number < 0 ? 0 : number;
}

long long redis_ns_commands(const char *name) {
  const redisReply *reply = redis_ask(server, "INFO commandstats");
  char start[100];
  const char *at;

  snprintf(start, sizeof start, "cmdstat_%s:calls=", name);
  at = strstr(reply->str, start);
  return at == NULL ? 0 : strtoll(at + strlen(start), NULL, 10);
}

void redis_ns_restart(void) {
  redis_server_kill(server);
  redis_server_restart(server);
  make_user();
}
