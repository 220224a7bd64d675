/* SPDX-License-Identifier: MIT
 *
 * redis_reshard_map: writes maps to the servers, and gives new servers the settings of queues.
 */
#include <stdio.h>
#include <string.h>

#include "jobs/alloc.h"
#include "jobs/redis_reshard.h"

/* -------------------------------------------------------------------- write maps --- */

struct map_words {
  const char *text;
  char id[33];
};

static void add_map(struct uvs__reshard_server *s, struct uvs__words *w, const void *from) {
  const struct map_words *map = from;
  const struct uvs__reshard *m = s->move;

  uvs__words_text(w, "2");
  uvs__words_text(w, uvs__redis_key(&s->redis, &w->arena, "meta", ""));
  uvs__words_text(w, uvs__redis_key(&s->redis, &w->arena, "map", ""));
  uvs__words_text(w, UVS__REDIS_FORMAT);
  uvs__words_add(w, s->epoch, strcspn(s->epoch, "."));
  uvs__words_int(w, (int64_t)m->map.generation);
  uvs__words_text(w, map->text);
  uvs__words_int(w, (int64_t)m->map.n_all);
  uvs__words_int(w, m->map.moving);
  uvs__words_text(w, s->redis.run_id);
  uvs__words_text(w, map->id);
  uvs__words_text(w, "0");
}

static int read_epoch(void *to, redisReply *const *body, size_t n) {
  struct uvs__reshard_server *s = to;
  const redisReply *reply = body[0];

  (void)n;
  if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2)
    return UV_EIO;
  if (uvs__redis_int(reply->element[0]) != 0)
    return UV_EBUSY;
  snprintf(s->epoch, sizeof s->epoch, "%s", (const char *)uvs__redis_bytes(reply->element[1]).data);
  return 0;
}

static bool make_id(char ret[33]) {
  unsigned char random[16];

  if (uv_random(NULL, NULL, random, sizeof random, 0, NULL) != 0)
    return false;
  for (size_t i = 0; i < sizeof random; i++)
    snprintf(ret + 2 * i, 3, "%02x", random[i]);
  return true;
}

static int write_map_to(struct uvs__reshard_server *s, const char *text) {
  struct uvs__reshard *m = s->move;
  struct map_words map = {.text = text};
  struct uvs__reshard_command c = {UVS__REDIS_MAP, NULL, add_map, &map, read_epoch, s};
  char wanted[64];
  int rc;

  if (!make_id(map.id))
    return uvs__reshard_fail(m, UV_EIO, "the system has no random numbers");
  snprintf(wanted, sizeof wanted, "%.*s.%llu", (int)strcspn(s->epoch, "."), s->epoch,
           (unsigned long long)m->map.generation);
  rc = uvs__reshard_do(s, &c);
  if (rc == UV_EBUSY || (rc == 0 && strcmp(s->epoch, wanted) != 0))
    return uvs__reshard_fail(m, UV_EBUSY, "%s: another `reshard` has changed the map", s->name);
  if (rc != 0)
    return rc;
  strcpy(s->redis.epoch, wanted);
  rc = uvs__reshard_look(s); /* reads id and moved_from */
  return rc != 0 ? rc : uvs__reshard_tell(m, UVS_RESHARD_SWITCHED, s->name);
}

/* Writes the map to all servers that have data: those of the map, and those that were removed. The
 * former owner of slot 0 gets the map first: if two processes want different maps, it refuses the
 * second one. */
int uvs__reshard_write_map(struct uvs__reshard *m) {
  struct uvs__reshard_server *first = uvs__reshard_find(m, m->map.servers[m->map.from[0]]);
  char *text = uvs__jobs_alloc(UVS__REDIS_MAP_TEXT);
  int rc;

  if (text == NULL)
    return uvs__reshard_fail(m, UV_ENOMEM, "no memory");
  uvs__redis_map_print(&m->map, text);
  m->progress.generation = m->map.generation;
  rc = write_map_to(first, text);
  for (size_t i = 0; i < m->n && rc == 0; i++)
    if (m->servers[i] != first && m->servers[i]->epoch[0] != '\0')
      rc = write_map_to(m->servers[i], text);
  uvs__jobs_free(text);
  return rc;
}

static void add_init(struct uvs__reshard_server *s, struct uvs__words *w, const void *from) {
  uvs__words_text(w, "2");
  uvs__words_text(w, uvs__redis_key(&s->redis, &w->arena, "meta", ""));
  uvs__words_text(w, uvs__redis_key(&s->redis, &w->arena, "put:" UVS__REDIS_FORMAT, ""));
  uvs__words_text(w, UVS__REDIS_FORMAT);
  uvs__words_text(w, from);
  uvs__words_text(w, s->redis.run_id);
  uvs__words_add(w, uvs__redis_scripts[UVS__REDIS_PUT].text,
                 uvs__redis_scripts[UVS__REDIS_PUT].size);
}

/* Makes data without jobs on the new servers. The data has no map yet. */
static int make_data(struct uvs__reshard *m) {
  for (size_t i = 0; i < m->map.n; i++) {
    struct uvs__reshard_server *s = uvs__reshard_find(m, m->map.servers[i]);
    char epoch[33];
    struct uvs__reshard_command c = {UVS__REDIS_INIT, NULL, add_init, epoch, read_epoch, s};
    int rc;

    if (s->epoch[0] != '\0')
      continue;
    if (!make_id(epoch))
      return uvs__reshard_fail(m, UV_EIO, "the system has no random numbers");
    rc = uvs__reshard_do(s, &c);
    if (rc != 0)
      return rc;
  }
  return 0;
}

/* Did the server own slots before this move? */
static bool is_old(struct uvs__reshard_server *s) {
  const struct uvs__redis_map *map = &s->move->map;
  size_t i = uvs__redis_map_find(map, s->name);

  return i != SIZE_MAX && memchr(map->from, (int)i, sizeof map->from) != NULL;
}

/* -------------------------------------------------------------------- settings --- */

enum { SETTINGS = 6 };
static const char *const setting_names[SETTINGS] = {"paused",  "concurrency", "rate",
                                                    "rate_ns", "rate_us",     "catch_up"};
struct settings {
  char values[SETTINGS][24];
};

static void add_ask_settings(struct uvs__reshard_server *s, struct uvs__words *w,
                             const void *from) {
  uvs__words_text(w, "HMGET");
  uvs__words_text(w, uvs__redis_key(&s->redis, &w->arena, "set:", from));
  for (size_t i = 0; i < SETTINGS; i++)
    uvs__words_text(w, setting_names[i]);
}

static int read_settings(void *to, redisReply *const *body, size_t n) {
  struct settings *settings = to;

  (void)n;
  if (body[0]->type != REDIS_REPLY_ARRAY || body[0]->elements != SETTINGS)
    return UV_EIO;
  for (size_t i = 0; i < SETTINGS; i++)
    snprintf(settings->values[i], sizeof settings->values[i], "%s",
             (const char *)uvs__redis_bytes(body[0]->element[i]).data);
  return 0;
}

static int ask_settings(struct uvs__reshard_server *s, const char *queue, struct settings *ret) {
  struct uvs__reshard_command c = {UVS__REDIS_NO_SCRIPT, NULL, add_ask_settings, queue,
                                   read_settings,        ret};

  return uvs__reshard_do(s, &c);
}

static void add_settings(struct uvs__reshard_server *s, struct uvs__words *w, const void *from) {
  const struct settings *settings = from;

  (void)s;
  for (size_t i = 0; i < SETTINGS; i++) {
    uvs__words_text(w, setting_names[i]);
    uvs__words_text(w, settings->values[i]);
  }
}

static int copy_queue(struct uvs__reshard_server *from, struct uvs__reshard_server *to,
                      const char *queue) {
  struct uvs__queue_names queues = {{queue}, 1};
  struct settings settings = {{""}}, there = {{""}};
  struct uvs__reshard_command c = {UVS__REDIS_QUEUE, &queues, add_settings, &settings, NULL, NULL};
  int rc = ask_settings(from, queue, &settings);

  if (rc != 0 || settings.values[0][0] == '\0') /* the queue has no settings */
    return rc;
  rc = ask_settings(to, queue, &there);
  if (rc != 0 || memcmp(&settings, &there, sizeof there) == 0)
    return rc;
  return uvs__reshard_do(to, &c);
}

/* All old servers have the same settings, so those of one old server are copied to the new ones. */
static int copy_settings(struct uvs__reshard *m) {
  struct uvs__reshard_server *from = uvs__reshard_find(m, m->map.servers[m->map.from[0]]);
  struct uvs__reshard_names names = {.n = 0};
  int rc = uvs__reshard_queues(from, &names);

  if (rc != 0)
    return rc;
  for (size_t i = 0; i < m->map.n && rc == 0; i++) {
    struct uvs__reshard_server *to = uvs__reshard_find(m, m->map.servers[i]);

    for (size_t j = 0; j < names.n && rc == 0 && !is_old(to); j++)
      rc = copy_queue(from, to, names.names[j]);
  }
  uvs__arena_free(&names.arena);
  return rc;
}

/* The new servers get the settings before the map is written, and again after that, because a node
 * that knew only the old map may have changed the settings in between. */
int uvs__reshard_switch(struct uvs__reshard *m) {
  int rc = make_data(m);

  for (size_t i = 0; i < m->n; i++)
    strcpy(m->servers[i]->redis.epoch, m->servers[i]->epoch);
  if (rc == 0)
    rc = copy_settings(m);
  if (rc == 0)
    rc = uvs__reshard_write_map(m);
  if (rc == 0)
    rc = copy_settings(m);
  return rc;
}
