/* SPDX-License-Identifier: MIT
 *
 * redis_reshard_look: finds the newest map and all servers, and checks those that are to be added.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/alloc.h"
#include "jobs/redis_reshard.h"

#define CLOCKS_US 5000000 /* the largest allowed difference between two clocks */

/* ----------------------------------------------------------------------- look --- */

static void add_meta(struct uvs__reshard_server *s, struct uvs__words *w, const void *from) {
  static const char *const fields[] = {"version", "epoch", "id", "moved_from"};

  (void)from;
  uvs__words_text(w, "HMGET");
  uvs__words_text(w, uvs__redis_key(&s->redis, &w->arena, "meta", ""));
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    uvs__words_text(w, fields[i]);
}

static int read_meta(void *to, redisReply *const *body, size_t n) {
  struct uvs__reshard_server *s = to;
  const redisReply *meta = body[0];
  struct uvs__bytes version;

  (void)n;
  if (meta->type != REDIS_REPLY_ARRAY || meta->elements != 4)
    return UV_EIO;
  version = uvs__redis_bytes(meta->element[0]);
  if (version.size > 0 && strcmp(version.data, UVS__REDIS_FORMAT) != 0 &&
      strcmp(version.data, "2") != 0)
    return UV_ENOTSUP;
  snprintf(s->epoch, sizeof s->epoch, "%s", (const char *)uvs__redis_bytes(meta->element[1]).data);
  snprintf(s->id, sizeof s->id, "%s", (const char *)uvs__redis_bytes(meta->element[2]).data);
  s->moved_from = strtoll(uvs__redis_bytes(meta->element[3]).data, NULL, 10);
  return 0;
}

int uvs__reshard_look(struct uvs__reshard_server *s) {
  struct uvs__reshard_command c = {UVS__REDIS_NO_SCRIPT, NULL, add_meta, NULL, read_meta, s};

  return uvs__reshard_do(s, &c);
}

static void add_get_map(struct uvs__reshard_server *s, struct uvs__words *w, const void *from) {
  (void)from;
  uvs__words_text(w, "GET");
  uvs__words_text(w, uvs__redis_key(&s->redis, &w->arena, "map", ""));
}

struct map_text {
  struct uvs__redis_map *map;
  char why[200];
  bool found;
};

static int read_map(void *to, redisReply *const *body, size_t n) {
  struct map_text *t = to;
  struct uvs__bytes text = uvs__redis_bytes(body[0]);

  (void)n;
  t->found = text.size > 0;
  return t->found ? uvs__redis_map_read(text.data, text.size, t->map, t->why, sizeof t->why) : 0;
}

/* Looks at the map that the server has. `adopt`: if this map is newer, it becomes m->map. */
static int look_at_map(struct uvs__reshard_server *s, bool adopt) {
  struct uvs__reshard *m = s->move;
  struct map_text t = {.map = uvs__jobs_alloc(sizeof *t.map)};
  struct uvs__reshard_command c = {UVS__REDIS_NO_SCRIPT, NULL, add_get_map, NULL, read_map, &t};
  int rc;

  if (t.map == NULL)
    return uvs__reshard_fail(m, UV_ENOMEM, "no memory");
  rc = uvs__reshard_do(s, &c);
  if (rc != 0 && t.why[0] != '\0')
    uvs__reshard_fail(m, rc, "%s: %s", s->name, t.why);
  s->is_owner = rc == 0 && t.found && uvs__redis_map_find(t.map, s->name) < t.map->n;
  if (rc == 0 && adopt && t.found && t.map->generation > m->map.generation)
    m->map = *t.map;
  uvs__jobs_free(t.map);
  return rc;
}

/* Connects once, so that the call fails at once if the server cannot be reached or refuses the
 * user. Settings that the store does not accept are an error only for a new server: jobs may leave
 * an old server that has such settings. */
static int check(struct uvs__reshard_server *s, bool is_new) {
  char warning[UVS__REDIS_WARNING_MAX], why[200];
  struct uvs__redis_found found;
  int rc = uvs__redis_check(s->options, warning, sizeof warning, why, sizeof why, &found);

  uvs__jobs_free(found.map);
  if (rc == 0 && found.clock.now_us > 0)
    s->clock_us = found.clock.now_us - found.clock.received_ns / 1000;
  if (rc == 0 || (rc == UV_ENOTSUP && !is_new))
    return 0;
  return uvs__reshard_fail(s->move, rc, "%s: %s", s->name, why);
}

/* Connects to the server, if this was not done yet, and looks at its data and its map. */
static int meet(struct uvs__reshard *m, const char *name, bool adopt) {
  struct uvs__reshard_server *s = uvs__reshard_find(m, name);
  int rc;

  if (s != NULL)
    return 0;
  rc = uvs__reshard_add(m, name, &s);
  if (rc == 0)
    rc = check(s, false);
  if (rc == 0)
    rc = uvs__reshard_look(s);
  if (rc == 0)
    rc = look_at_map(s, adopt);
  return rc;
}

/* A server with two names would move jobs to itself. Due times and records of ends move unchanged,
 * so the clocks of all servers must agree. */
static int compare(struct uvs__reshard *m) {
  for (size_t i = 0; i < m->n; i++) {
    const struct uvs__reshard_server *a = m->servers[i];

    for (size_t j = 0; j < i; j++) {
      const struct uvs__reshard_server *b = m->servers[j];
      int64_t us = a->clock_us == 0 || b->clock_us == 0 ? 0 : a->clock_us - b->clock_us;

      if (strcmp(a->redis.run_id, b->redis.run_id) == 0 && a->options->db == b->options->db)
        return uvs__reshard_fail(m, UV_EINVAL, "%s and %s are the same server", b->name, a->name);
      if (us > CLOCKS_US || us < -CLOCKS_US)
        return uvs__reshard_fail(
            m, UV_EINVAL, "the clocks of %s and %s differ by %lld s: set them first", b->name,
            a->name, (long long)(((us < 0 ? -us : us) + 500000) / 1000000));
    }
  }
  return 0;
}

/* Calls `meet` for each server of a list. */
static int meet_all(struct uvs__reshard *m, const struct uvs__redis_options *list, bool adopt) {
  char name[UVS__REDIS_SERVER_NAME];
  int rc = 0;

  for (; list != NULL && rc == 0; list = list->next) {
    if (!uvs__redis_server_name(list, name))
      return uvs__reshard_fail(m, UV_EINVAL, "the address of a server is too long");
    rc = meet(m, name, adopt);
  }
  return rc;
}

static bool any_has_data(const struct uvs__reshard *m) {
  for (size_t i = 0; i < m->n; i++)
    if (m->servers[i]->epoch[0] != '\0')
      return true;
  return false;
}

/* Makes the map of a store that is on one server and has no map. */
static void first_map(struct uvs__reshard *m) {
  const char *name = m->servers[0]->name;

  uvs__redis_map_first(&m->map, &name, 1);
  m->map.generation = 0;
}

/* Finds the newest map, and meets all its servers. Each of them may have a still newer map. */
int uvs__reshard_look_at_all(struct uvs__reshard *m) {
  int rc = meet_all(m, m->given, true);

  if (rc == 0 && !any_has_data(m))
    rc = uvs__reshard_fail(m, UV_ENOENT, "%s has no store in this namespace", m->servers[0]->name);
  if (rc == 0 && m->map.generation == 0 && m->n > 1)
    rc = uvs__reshard_fail(m, UV_EINVAL,
                           "these servers have no map, so they are not one store: name only one");
  if (rc == 0 && m->map.generation == 0)
    first_map(m);
  for (size_t i = 0; i < m->map.n_all && rc == 0; i++) {
    uint64_t generation = m->map.generation;
    const struct uvs__reshard_server *s;

    rc = meet(m, m->map.servers[i], true);
    s = uvs__reshard_find(m, m->map.servers[i]);
    if (rc == 0 && s->epoch[0] == '\0')
      rc = uvs__reshard_fail(m, UV_ENOENT, "%s is in the map, but has lost its data", s->name);
    if (m->map.generation != generation)
      i = SIZE_MAX; /* begin again */
  }
  return rc;
}

/* ----------------------------------------------------------------- new servers --- */

static void add_length(struct uvs__reshard_server *s, struct uvs__words *w, const void *from) {
  const char *const *key = from;

  uvs__words_text(w, "HLEN");
  uvs__words_text(w, uvs__redis_key(&s->redis, &w->arena, key[0], key[1]));
}

static int read_int(void *to, redisReply *const *body, size_t n) {
  (void)n;
  *(int64_t *)to += uvs__redis_int(body[0]);
  return 0;
}

static int count_hash(struct uvs__reshard_server *s, const char *what, const char *more,
                      int64_t *count) {
  const char *key[] = {what, more};
  struct uvs__reshard_command c = {UVS__REDIS_NO_SCRIPT, NULL, add_length, key, read_int, count};

  return uvs__reshard_do(s, &c);
}

/* A server that is not in the map, because it is new or was removed, must have no jobs. */
static int check_empty(struct uvs__reshard_server *s) {
  struct uvs__reshard_names names = {.n = 0};
  int64_t count = 0;
  int rc;

  if (s->is_owner)
    return uvs__reshard_fail(s->move, UV_EEXIST, "%s belongs to another store", s->name);
  rc = uvs__reshard_queues(s, &names);
  if (rc != 0)
    return rc;
  for (size_t i = 0; i < names.n && rc == 0; i++)
    rc = count_hash(s, "job:", names.names[i], &count);
  uvs__arena_free(&names.arena);
  if (rc == 0)
    rc = count_hash(s, "dead", "", &count);
  if (rc == 0)
    rc = count_hash(s, "crons", "", &count);
  if (rc == 0 && count > 0)
    rc = uvs__reshard_fail(s->move, UV_EEXIST, "%s is not in the map, but has jobs", s->name);
  return rc;
}

/* Meets the servers that are to be added, and checks all servers that are not in the map. */
int uvs__reshard_look_at_others(struct uvs__reshard *m, const char *const *wanted, size_t n) {
  int rc = meet_all(m, m->wanted, false);

  if (rc == 0)
    rc = compare(m);
  for (size_t i = 0; i < n && rc == 0; i++)
    if (!uvs__reshard_has_slots(&m->map, wanted[i]))
      rc = check(uvs__reshard_find(m, wanted[i]), true);
  for (size_t i = 0; i < m->n && rc == 0; i++) {
    struct uvs__reshard_server *s = m->servers[i];

    if (s->epoch[0] != '\0' && uvs__redis_map_find(&m->map, s->name) == SIZE_MAX)
      rc = check_empty(s);
  }
  return rc;
}
