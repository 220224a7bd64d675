/* SPDX-License-Identifier: MIT
 *
 * redis_map: which server owns which slots. Each server of a namespace has the map as a text, in
 * the key {NS}:map:
 *
 *   uvsched map 1
 *   generation 3
 *   state moving
 *   server redis://h1:6379/0 0-511,600-700
 *   server redis://h2:6379/0 512-599,701-1023
 *   from redis://h1:6379/0 0-1023
 *
 * Each `server` line has a server and its slots. While slots are being moved (state moving), each
 * `from` line has a server and the slots that it owned before. In state stable there is none. A
 * server is named by its URL without user, password and settings. A map with a larger generation
 * replaces one with a smaller generation. This file only computes: it talks to no server.
 */
#ifndef UVSCHED_JOBS_REDIS_MAP_H
#define UVSCHED_JOBS_REDIS_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/redis_slot.h"

#define UVS__REDIS_SERVERS 64      /* the most servers that own slots */
#define UVS__REDIS_SERVER_NAME 256 /* with the zero byte */
/* Room for the text of any map: names of old and new servers, and one range for each slot. */
#define UVS__REDIS_MAP_TEXT \
  (2 * UVS__REDIS_SERVERS * (UVS__REDIS_SERVER_NAME + 20) + 2 * UVS__SLOTS * 10 + 200)

struct uvs__redis_map {
  uint64_t generation; /* 1 and up */
  bool moving;
  size_t n;     /* servers that own slots */
  size_t n_all; /* n, plus the servers that no longer own slots and stand behind; only if moving */
  char servers[2 * UVS__REDIS_SERVERS][UVS__REDIS_SERVER_NAME];
  uint8_t owner[UVS__SLOTS]; /* index in servers */
  uint8_t from[UVS__SLOTS];  /* the owner before; the same as `owner` if not moving */
};

/* Reads a text. Returns 0, or UV_EINVAL with what is wrong in `why`. */
int uvs__redis_map_read(const char *text, size_t length, struct uvs__redis_map *ret, char *why,
                        size_t size);
/* Writes the text, at most UVS__REDIS_MAP_TEXT bytes with the zero byte. Returns its length. */
size_t uvs__redis_map_print(const struct uvs__redis_map *map, char *to);
/* Returns the index of a server, or SIZE_MAX. */
size_t uvs__redis_map_find(const struct uvs__redis_map *map, const char *server);

/* Makes the first map: n servers, each with an equal range, and all different. n is 1 to
 * UVS__REDIS_SERVERS. */
void uvs__redis_map_first(struct uvs__redis_map *ret, const char *const *servers, size_t n);
/* Makes the next map after a stable one. The n servers get equal shares, as few slots as possible
 * move, and the state is moving. */
void uvs__redis_map_change(struct uvs__redis_map *ret, const struct uvs__redis_map *old,
                           const char *const *servers, size_t n);
/* All slots have moved: makes the next map, which is stable. */
void uvs__redis_map_finish(struct uvs__redis_map *map);

#endif
