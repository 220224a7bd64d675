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

static struct redis_server *servers[REDIS_NS_SERVERS]; /* they end with the program */

bool redis_ns_is_built(void) {
  return true;
}

/* The server forgets it when it is started again. */
static void make_user(struct redis_server *s) {
  redis_ask(s, "ACL SETUSER jobs on >secret ~{t*}:* &{t*}:* -@all " RIGHTS);
}

static void start(int i) {
  if (servers[i] != NULL)
    return;
  redis_server_need();
  if (access("/dev/shm", W_OK) == 0) /* each write is synchronized: no test needs a disk */
    setenv("TMPDIR", "/dev/shm", 0);
  servers[i] = redis_server_start("");
  make_user(servers[i]);
}

void redis_ns_name(char *name, size_t size, int n) {
  static unsigned namespaces;
  size_t used = 0;

  for (int i = 0; i < n; i++) {
    start(i);
    used += (size_t)snprintf(name + used, size - used, "%sredis+unix://jobs:secret@%s",
                             i == 0 ? "" : ",", servers[i]->socket);
  }
  used += (size_t)snprintf(name + used, size - used, "?ns=t%u&timeout=20s", namespaces++);
  if (used >= size)
    abort();
}

void redis_ns_flush(void) {
  for (int i = 0; i < REDIS_NS_SERVERS; i++)
    if (servers[i] != NULL)
      redis_ask(servers[i], "FLUSHALL");
}

long long redis_ns_ask(const char *command) {
  long long number = redis_ask_number(servers[0], command);

  return number < 0 ? 0 : number;
}

long long redis_ns_commands(const char *name) {
  const redisReply *reply = redis_ask(servers[0], "INFO commandstats");
  char start[100];
  const char *at;

  snprintf(start, sizeof start, "cmdstat_%s:calls=", name);
  at = strstr(reply->str, start);
  return at == NULL ? 0 : strtoll(at + strlen(start), NULL, 10);
}

struct redis_server *redis_ns_server(int i) {
  return servers[i];
}

void redis_ns_start_again(int i) {
  redis_server_restart(servers[i]);
  make_user(servers[i]);
}

void redis_ns_restart(void) {
  redis_server_kill(servers[0]);
  redis_ns_start_again(0);
}
