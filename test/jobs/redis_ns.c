/* SPDX-License-Identifier: MIT */
#include "redis_ns.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "redis/redis_server.h"

static struct redis_server *server; /* ends with the program */

bool redis_ns_is_built(void) {
  return true;
}

void redis_ns_name(char *name, size_t size) {
  static unsigned namespaces;

  if (server == NULL) {
    redis_server_need();
    if (access("/dev/shm", W_OK) == 0) /* each write is synchronized: no test needs a disk */
      setenv("TMPDIR", "/dev/shm", 0);
    server = redis_server_start("");
  }
  snprintf(name, size, "redis+unix://%s?ns=t%u&timeout=20s", server->socket, namespaces++);
}

void redis_ns_flush(void) {
  redis_ask(server, "FLUSHALL");
}
