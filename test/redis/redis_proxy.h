/* SPDX-License-Identifier: MIT
 *
 * redis_proxy: a TCP proxy on a thread of its own, which makes the faults of a network. All calls
 * come from the test's thread, and return when the proxy has done it.
 */
#ifndef TEST_REDIS_PROXY_H
#define TEST_REDIS_PROXY_H

enum redis_fault {
  PROXY_GOOD,
  PROXY_REFUSE,     /* all connections are closed, and new ones refused */
  PROXY_RESET,      /* all connections are reset, and each new one, too */
  PROXY_BLACK_HOLE, /* nothing that comes goes on */
  PROXY_HALF_OPEN,  /* the connections that are there are dead for ever; new ones are good */
  PROXY_DELAY,      /* 200 ms in each direction */
  PROXY_BYTES,      /* one byte at a time */
  PROXY_SLOW_BYTES, /* one byte at a time, 50 ms apart, to the client only */
  PROXY_CUT         /* the next reply does not go on: its connection is reset. Then good. */
};

struct redis_proxy;

struct redis_proxy *redis_proxy_start(int to_port);
int redis_proxy_port(const struct redis_proxy *p);
void redis_proxy_set(struct redis_proxy *p, enum redis_fault fault);
/* From now on new connections go to another server. */
void redis_proxy_lead(struct redis_proxy *p, int to_port);
int redis_proxy_connections(struct redis_proxy *p); /* that were accepted until now */
void redis_proxy_stop(struct redis_proxy *p);

#endif
