/* SPDX-License-Identifier: MIT */
#include "jobs/redis_map.h"

#include <stdio.h>
#include <string.h>

#include <uv.h>

#define NOBODY 255 /* the owner of a slot, before one was read */

/* ------------------------------------------------------------------- read --- */

struct reading {
  const char *at, *end; /* the lines that were not read */
  struct uvs__redis_map *map;
  char *why;
  size_t size;
};

static int refuse(struct reading *r, const char *what) {
  snprintf(r->why, r->size, "the map of the servers is damaged: %s", what);
  return UV_EINVAL;
}

/* Is this the next word? Then moves behind it. */
static bool skip(struct reading *r, const char *word) {
  size_t length = strlen(word);

  if ((size_t)(r->end - r->at) < length || memcmp(r->at, word, length) != 0)
    return false;
  r->at += length;
  return true;
}

/* Reads a number without sign and without zeros in front. False: there is none up to max. */
static bool read_number(struct reading *r, uint64_t max, uint64_t *ret) {
  const char *begin = r->at;
  uint64_t n = 0;

  for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
    uint64_t digit = (uint64_t)(*r->at - '0');

    if (n > (max - digit) / 10)
      return false;
    n = n * 10 + digit;
  }
  *ret = n;
  return r->at > begin && (*begin != '0' || r->at == begin + 1);
}

/* Reads the name of a server up to a space. Returns its index: a new one is added. */
static int read_server(struct reading *r, bool old, size_t *ret) {
  const char *space = memchr(r->at, ' ', (size_t)(r->end - r->at));
  size_t length = space == NULL ? 0 : (size_t)(space - r->at);
  char name[UVS__REDIS_SERVER_NAME];

  if (length == 0 || length >= sizeof name)
    return refuse(r, "the name of a server is missing or too long");
  for (size_t i = 0; i < length; i++)
    if (r->at[i] <= ' ' || r->at[i] > '~')
      return refuse(r, "the name of a server has a byte that is not a letter, a digit or a sign");
  memcpy(name, r->at, length);
  name[length] = '\0';
  r->at = space + 1;
  *ret = uvs__redis_map_find(r->map, name);
  if (*ret != SIZE_MAX)
    return old ? 0 : refuse(r, "a server has two lines");
  if (r->map->n_all == (old ? 2 : 1) * (size_t)UVS__REDIS_SERVERS)
    return refuse(r, "there are too many servers");
  *ret = r->map->n_all++;
  memcpy(r->map->servers[*ret], name, length + 1);
  return 0;
}

/* Reads "0-511,600" up to the end of the line. */
static int read_slots(struct reading *r, uint8_t *owner, size_t server) {
  do {
    uint64_t first, last;

    if (!read_number(r, UVS__SLOTS - 1, &first))
      return refuse(r, "a slot is not a number from 0 to 1023");
    last = first;
    if (skip(r, "-") && (!read_number(r, UVS__SLOTS - 1, &last) || last <= first))
      return refuse(r, "a range of slots is wrong");
    for (uint64_t slot = first; slot <= last; slot++) {
      if (owner[slot] != NOBODY)
        return refuse(r, "a slot has two owners");
      owner[slot] = (uint8_t)server;
    }
  } while (skip(r, ","));
  return skip(r, "\n") ? 0 : refuse(r, "a line has something after the slots of a server");
}

static int read_lines(struct reading *r, const char *word, uint8_t *owner) {
  bool old = owner == r->map->from;

  memset(owner, NOBODY, UVS__SLOTS);
  while (skip(r, word)) {
    size_t server;
    int rc = read_server(r, old, &server);

    if (rc == 0)
      rc = read_slots(r, owner, server);
    if (rc != 0)
      return rc;
  }
  return memchr(owner, NOBODY, UVS__SLOTS) == NULL ? 0 : refuse(r, "a slot has no owner");
}

int uvs__redis_map_read(const char *text, size_t length, struct uvs__redis_map *ret, char *why,
                        size_t size) {
  struct reading r = {text, text + length, ret, why, size};
  int rc;

  memset(ret, 0, sizeof *ret);
  if (!skip(&r, "uvsched map 1\n"))
    return refuse(&r, "the first line is not \"uvsched map 1\"");
  if (!skip(&r, "generation ") || !read_number(&r, INT64_MAX, &ret->generation) ||
      ret->generation == 0 || !skip(&r, "\n"))
    return refuse(&r, "the generation is not a number above 0");
  ret->moving = skip(&r, "state moving\n");
  if (!ret->moving && !skip(&r, "state stable\n"))
    return refuse(&r, "the state is neither stable nor moving");
  rc = read_lines(&r, "server ", ret->owner);
  ret->n = ret->n_all;
  if (rc == 0 && ret->moving)
    rc = read_lines(&r, "from ", ret->from);
  else
    memcpy(ret->from, ret->owner, sizeof ret->from);
  if (rc == 0 && r.at != r.end)
    rc = refuse(&r, "there is one line too many");
  return rc;
}

/* ------------------------------------------------------------------ print --- */

static char *print_slots(char *at, const uint8_t *owner, size_t server) {
  const char *comma = "";

  for (unsigned first = 0, next; first < UVS__SLOTS; first = next) {
    next = first + 1;
    if (owner[first] != server)
      continue;
    while (next < UVS__SLOTS && owner[next] == server)
      next++;
    at += next == first + 1 ? sprintf(at, "%s%u", comma, first)
                            : sprintf(at, "%s%u-%u", comma, first, next - 1);
    comma = ",";
  }
  return at;
}

static char *print_lines(char *at, const struct uvs__redis_map *map, const char *word,
                         const uint8_t *owner) {
  for (size_t i = 0; i < map->n_all; i++) {
    if (memchr(owner, (int)i, UVS__SLOTS) == NULL)
      continue;
    at += sprintf(at, "%s %s ", word, map->servers[i]);
    at = print_slots(at, owner, i);
    *at++ = '\n';
  }
  return at;
}

size_t uvs__redis_map_print(const struct uvs__redis_map *map, char *to) {
  char *at = to + sprintf(to, "uvsched map 1\ngeneration %llu\nstate %s\n",
                          (unsigned long long)map->generation, map->moving ? "moving" : "stable");

  at = print_lines(at, map, "server", map->owner);
  if (map->moving)
    at = print_lines(at, map, "from", map->from);
  *at = '\0';
  return (size_t)(at - to);
}

size_t uvs__redis_map_find(const struct uvs__redis_map *map, const char *server) {
  for (size_t i = 0; i < map->n_all; i++)
    if (strcmp(map->servers[i], server) == 0)
      return i;
  return SIZE_MAX;
}

/* ------------------------------------------------------------------- make --- */

static void add_server(struct uvs__redis_map *map, const char *server) {
  snprintf(map->servers[map->n_all++], UVS__REDIS_SERVER_NAME, "%s", server);
}

/* How many slots server i of n gets. */
static size_t share_of(size_t i, size_t n) {
  return UVS__SLOTS / n + (i < UVS__SLOTS % n);
}

void uvs__redis_map_first(struct uvs__redis_map *ret, const char *const *servers, size_t n) {
  unsigned slot = 0;

  memset(ret, 0, sizeof *ret);
  ret->generation = 1;
  for (size_t i = 0; i < n; i++) {
    add_server(ret, servers[i]);
    for (size_t j = 0; j < share_of(i, n); j++)
      ret->owner[slot++] = (uint8_t)i;
  }
  ret->n = ret->n_all;
  memcpy(ret->from, ret->owner, sizeof ret->from);
}

/* Gives each slot whose old owner is full or gone to a server that is not full. */
static void give_slots(struct uvs__redis_map *map) {
  size_t left[UVS__REDIS_SERVERS] = {0}, next = 0;

  /* The servers that had most keep the larger shares, if 1024 cannot be divided by n. */
  size_t had[2 * UVS__REDIS_SERVERS] = {0}, larger = UVS__SLOTS % map->n;

  for (unsigned slot = 0; slot < UVS__SLOTS; slot++)
    had[map->from[slot]]++;
  for (size_t i = 0; i < map->n; i++) {
    left[i] = UVS__SLOTS / map->n;
    if (larger > 0 && had[i] > left[i]) {
      left[i]++;
      larger--;
    }
  }
  for (size_t i = 0; i < map->n && larger > 0; i++)
    if (left[i] == UVS__SLOTS / map->n) {
      left[i]++;
      larger--;
    }
  memset(map->owner, NOBODY, sizeof map->owner);
  for (unsigned slot = 0; slot < UVS__SLOTS; slot++) {
    size_t old = map->from[slot];

    if (old < map->n && left[old] > 0) {
      map->owner[slot] = (uint8_t)old;
      left[old]--;
    }
  }
  for (unsigned slot = 0; slot < UVS__SLOTS; slot++) {
    if (map->owner[slot] != NOBODY)
      continue;
    while (left[next] == 0)
      next++;
    map->owner[slot] = (uint8_t)next;
    left[next]--;
  }
}

void uvs__redis_map_change(struct uvs__redis_map *ret, const struct uvs__redis_map *old,
                           const char *const *servers, size_t n) {
  uint8_t index[2 * UVS__REDIS_SERVERS] = {0}; /* of the old servers */

  memset(ret, 0, sizeof *ret);
  ret->generation = old->generation + 1;
  ret->moving = true;
  for (size_t i = 0; i < n; i++)
    add_server(ret, servers[i]);
  ret->n = ret->n_all;
  for (size_t i = 0; i < old->n; i++) {
    if (uvs__redis_map_find(ret, old->servers[i]) == SIZE_MAX)
      add_server(ret, old->servers[i]);
    index[i] = (uint8_t)uvs__redis_map_find(ret, old->servers[i]);
  }
  for (unsigned slot = 0; slot < UVS__SLOTS; slot++)
    ret->from[slot] = index[old->owner[slot]];
  give_slots(ret);
}

void uvs__redis_map_finish(struct uvs__redis_map *map) {
  map->generation++;
  map->moving = false;
  map->n_all = map->n;
  memcpy(map->from, map->owner, sizeof map->from);
}
