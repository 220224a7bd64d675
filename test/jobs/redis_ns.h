/* SPDX-License-Identifier: MIT
 *
 * redis_ns: Redis servers for a test program, with a namespace for each fixture. Without hiredis in
 * the build, redis_ns_none.c stands for it.
 */
#ifndef TEST_REDIS_NS_H
#define TEST_REDIS_NS_H

#include <stdbool.h>
#include <stddef.h>

bool redis_ns_is_built(void);
#define REDIS_NS_SERVERS 3

/* The name of a store in a new namespace, on this many servers. Starts the servers if they are not
 * running; ends the program with code 77 if none is installed. */
void redis_ns_name(char *name, size_t size, int servers);
void redis_ns_flush(void); /* all namespaces */
/* Sends a command to the first server. Returns its reply if that is a number, else 0. */
long long redis_ns_ask(const char *command);
long long redis_ns_commands(const char *name); /* how many it has carried out */
struct redis_server *redis_ns_server(int i);   /* the i-th; NULL: it was never started */
void redis_ns_start_again(int i);              /* after it was killed */
void redis_ns_restart(void); /* kills the server, and starts it again on the same data */

#endif
