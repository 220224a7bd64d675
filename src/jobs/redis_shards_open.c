/* SPDX-License-Identifier: MIT
 *
 * Opens and closes the store in Redis. Opening connects once to each server that the name of the
 * store lists. If one of them has a map, the newest map says which servers the store has. Without a
 * map, a single server is used alone, and several servers get the first map.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/alloc.h"
#include "jobs/redis_shards.h"

/* ------------------------------------------------------------------- looks --- */

/* The result of connecting to a server. */
struct look {
  char name[UVS__REDIS_SERVER_NAME];
  int rc;
  char text[200], warning[UVS__REDIS_WARNING_MAX];
  struct uvs__redis_found found;
  struct uvs__redis_map *map; /* NULL: none */
};

struct opening {
  struct uvs__shards *all;
  struct look *looks;
  size_t n, newest; /* newest: index of the look with the newest map; n: no server has a map */
  char *text;
  size_t size;
};

/* A server that does not answer is no error, if another one has a map. */
static bool may_be_down(int rc) {
  return rc != UV_ENOTSUP && rc != UV_EACCES && rc != UV_ENOMEM;
}

static int refuse(struct opening *o, int rc, const struct look *look, const char *text) {
  if (o->n == 1)
    snprintf(o->text, o->size, "%s", text);
  else
    snprintf(o->text, o->size, "%s: %s", look->name, text);
  return rc;
}

static int read_map(struct opening *o, struct look *look) {
  int rc;

  if (look->found.map == NULL)
    return 0;
  look->map = uvs__jobs_alloc(sizeof *look->map);
  if (look->map == NULL)
    return refuse(o, UV_ENOMEM, look, "there is not enough memory");
  rc = uvs__redis_map_read(look->found.map, look->found.map_size, look->map, look->text,
                           sizeof look->text);
  return rc == 0 ? 0 : refuse(o, UV_EIO, look, look->text);
}

static int look_at(struct opening *o, struct look *look, const struct uvs__redis_options *options) {
  look->rc = uvs__redis_check(options, look->warning, sizeof look->warning, look->text,
                              sizeof look->text, &look->found);
  if (look->rc == 0)
    return read_map(o, look);
  return may_be_down(look->rc) ? 0 : refuse(o, look->rc, look, look->text);
}

static int look_at_all(struct opening *o) {
  size_t i = 0;

  for (const struct uvs__redis_options *g = o->all->given; g != NULL; g = g->next, i++) {
    int rc;

    uvs__redis_server_name(g, o->looks[i].name);
    rc = look_at(o, &o->looks[i], g);
    if (rc != 0)
      return rc;
    if (o->looks[i].map != NULL &&
        (o->newest == o->n || o->looks[i].map->generation > o->looks[o->newest].map->generation))
      o->newest = i;
  }
  return 0;
}

/* ------------------------------------------------------------ with a map --- */

/* Does this server belong to the newest map? */
static int check_look(struct opening *o, const struct look *look) {
  const struct look *newest = &o->looks[o->newest];
  bool is_in_map = uvs__redis_map_find(newest->map, look->name) != SIZE_MAX;
  char text[200];

  if (look->rc != 0)
    return 0;
  if (look->map == NULL && !look->found.data && !is_in_map) {
    snprintf(
        text, sizeof text,
        "the server is not in the map of generation %llu: `uvsched jobs reshard` adds a server",
        (unsigned long long)newest->map->generation);
    return refuse(o, UV_EINVAL, look, text);
  }
  if (look->map == NULL && !is_in_map)
    return refuse(o, UV_EINVAL, look,
                  "the server has jobs of its own, and is not in the map of the other servers");
  if (look->map == NULL)
    return 0;
  if (look->map->generation == newest->map->generation
          ? look->found.map_size != newest->found.map_size ||
                memcmp(look->found.map, newest->found.map, look->found.map_size) != 0
          : !is_in_map && uvs__redis_map_find(look->map, look->name) != SIZE_MAX)
    return refuse(o, UV_EINVAL, look, "the server has a map of other servers, or a different map");
  return 0;
}

static int check_looks(struct opening *o) {
  for (size_t i = 0; i < o->n; i++) {
    int rc = check_look(o, &o->looks[i]);

    if (rc != 0)
      return rc;
  }
  return 0;
}

/* --------------------------------------------------------- without a map --- */

static int check_alone(struct opening *o, bool existing) {
  const struct look *look = &o->looks[0];

  if (look->rc != 0)
    return refuse(o, look->rc, look, look->text);
  if (existing && !look->found.data)
    return refuse(o, UV_ENOENT, look, "there is no store in this namespace");
  return 0;
}

/* The first map is made only if all servers can be reached and none has data. */
static int check_new(struct opening *o, bool existing) {
  char text[300];

  for (size_t i = 0; i < o->n; i++) {
    const struct look *look = &o->looks[i];

    if (look->rc != 0) {
      snprintf(text, sizeof text, "%s (all servers must answer when the list is used first)",
               look->text);
      return refuse(o, look->rc, look, text);
    }
    if (look->found.data)
      return refuse(
          o, UV_EINVAL, look,
          "the server has a store without a map: open this server alone, or add the others with "
          "`uvsched jobs reshard`");
  }
  if (existing)
    return refuse(o, UV_ENOENT, &o->looks[0], "there is no store in this namespace");
  return 0;
}

static int compare_texts(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorted, so that all processes that are started with these servers make the same map. */
static int make_first_map(struct opening *o) {
  const char *names[UVS__REDIS_SERVERS];
  struct uvs__redis_map *map = uvs__jobs_alloc(sizeof *map);

  if (map == NULL)
    return refuse(o, UV_ENOMEM, &o->looks[0], "there is not enough memory");
  for (size_t i = 0; i < o->n; i++)
    names[i] = o->looks[i].name;
  qsort(names, o->n, sizeof *names, compare_texts);
  uvs__redis_map_first(map, names, o->n);
  o->looks[0].map = map;
  o->newest = 0;
  return 0;
}

/* ----------------------------------------------------------------- servers --- */

static void note_look(struct uvs__shard *shard, const struct look *look) {
  if (look->rc != 0) {
    shard->down = true;
    return;
  }
  snprintf(shard->redis->warning, sizeof shard->redis->warning, "%s", look->warning);
  uvs__redis_note_clock(shard->redis, look->found.clock); /* this machine's clock may be wrong */
}

/* A server that the name of the store does not list. */
static int look_at_other(struct opening *o, struct uvs__shard *shard) {
  struct look *look = uvs__jobs_alloc(sizeof *look);
  int rc;

  if (look == NULL)
    return refuse(o, UV_ENOMEM, &o->looks[0], "there is not enough memory");
  snprintf(look->name, sizeof look->name, "%s", shard->name);
  look->rc = uvs__redis_check(shard->redis->options, look->warning, sizeof look->warning,
                              look->text, sizeof look->text, &look->found);
  rc = may_be_down(look->rc) ? 0 : look->rc;
  if (rc == 0)
    note_look(shard, look);
  else
    snprintf(o->text, o->size, "%s: %s", look->name, look->text);
  uvs__jobs_free(look->found.map);
  uvs__jobs_free(look);
  return rc;
}

static int look_at_servers(struct opening *o) {
  for (size_t i = 0; i < o->all->n; i++) {
    struct uvs__shard *shard = o->all->shards[i];
    size_t given = 0;
    int rc = 0;

    while (given < o->n && strcmp(o->looks[given].name, shard->name) != 0)
      given++;
    if (given < o->n)
      note_look(shard, &o->looks[given]);
    else
      rc = look_at_other(o, shard);
    if (rc != 0)
      return rc;
  }
  return 0;
}

static int make_servers(struct opening *o) {
  struct uvs__shard *shard;
  struct look *newest;
  int rc;

  if (o->newest == o->n) {
    rc = uvs__shards_add(o->all, o->looks[0].name, o->all->given, &shard, o->text, o->size);
    if (rc != 0)
      return rc;
    shard->in_map = shard->kept = true;
    note_look(shard, &o->looks[0]);
    return 0;
  }
  newest = &o->looks[o->newest];
  rc = uvs__shards_follow(o->all, newest->map, o->text, o->size);
  if (rc != 0)
    return rc;
  newest->map = NULL;
  return look_at_servers(o);
}

static int find_servers(struct opening *o, bool existing) {
  int rc = look_at_all(o);

  if (rc != 0)
    return rc;
  if (o->newest < o->n)
    rc = check_looks(o);
  else if (o->n == 1)
    rc = check_alone(o, existing);
  else
    rc = check_new(o, existing);
  if (rc == 0 && o->newest == o->n && o->n > 1)
    rc = make_first_map(o);
  return rc == 0 ? make_servers(o) : rc;
}

/* ------------------------------------------------------------------- store --- */

static void start(struct uvs__store *store, uv_loop_t *loop, const struct uvs__store_hooks *hooks,
                  void *arg) {
  struct uvs__shards *all = (struct uvs__shards *)store;

  all->loop = loop;
  all->hooks = hooks;
  all->arg = arg;
  for (size_t i = 0; i < all->n; i++)
    uvs__shards_start(all->shards[i]);
}

static void stop(struct uvs__store *store) {
  struct uvs__shards *all = (struct uvs__shards *)store;

  for (size_t i = 0; i < all->n; i++) {
    struct uvs__shard *shard = all->shards[i];

    if (shard->started && !shard->stopped)
      uvs__redis_stop(shard->redis);
    shard->stopped = true;
  }
}

/* There is a message for everything except the end of a job that is done. A caller who reads a job
 * that has not ended may wait for that end, so the store must be polled. */
static bool poll_waits(struct uvs__store *store) {
  struct uvs__shards *all = (struct uvs__shards *)store;
  bool waited_for = false;

  for (size_t i = 0; i < all->n; i++) {
    waited_for |= all->shards[i]->redis->waited_for;
    all->shards[i]->redis->waited_for = false;
  }
  return waited_for;
}

static int idle(struct uvs__store *store) {
  (void)store;
  return 0;
}

static int64_t now_us(struct uvs__store *store) {
  return uvs__shards_now_us((struct uvs__shards *)store);
}

static void close_store(struct uvs__store *store) {
  struct uvs__shards *all = (struct uvs__shards *)store;

  for (size_t i = 0; i < all->n; i++) {
    uvs__redis_free(all->shards[i]->redis);
    uvs__redis_free_options(all->shards[i]->options);
    uvs__jobs_free(all->shards[i]);
  }
  uvs__shards_free_queues(all);
  uvs__jobs_free(all->map);
  uvs__jobs_free(all->text);
  uvs__redis_free_options(all->given);
  uvs__jobs_free(all);
}

struct uvs__redis *uvs__redis_server_of(struct uvs__store *store, size_t i) {
  return ((struct uvs__shards *)store)->shards[i]->redis;
}

/* -------------------------------------------------------------------- open --- */

static void free_looks(struct opening *o) {
  for (size_t i = 0; i < o->n; i++) {
    uvs__jobs_free(o->looks[i].found.map);
    uvs__jobs_free(o->looks[i].map);
  }
  uvs__jobs_free(o->looks);
}

int uvs__redis_open(const struct uvs__store_config *config, struct uvs__store **ret, char *text,
                    size_t size) {
  static const struct uvs__store_ops ops = {start, stop,   uvs__shards_run, poll_waits,
                                            idle,  now_us, close_store};
  struct opening o = {.text = text, .size = size};
  struct uvs__redis_options *given;
  int rc = uvs__redis_read_url(config->name, &given, text, size);

  if (rc != 0)
    return rc;
  for (const struct uvs__redis_options *g = given; g != NULL; g = g->next)
    o.n++;
  o.newest = o.n;
  o.all = uvs__jobs_alloc(sizeof *o.all);
  o.looks = uvs__jobs_alloc(o.n * sizeof *o.looks);
  if (o.all == NULL || o.looks == NULL) {
    uvs__jobs_free(o.all);
    uvs__jobs_free(o.looks);
    uvs__redis_free_options(given);
    snprintf(text, size, "there is not enough memory");
    return UV_ENOMEM;
  }
  o.all->base.ops = &ops;
  o.all->clock = config->clock;
  o.all->given = given;
  rc = find_servers(&o, config->existing);
  free_looks(&o);
  if (rc == 0)
    *ret = &o.all->base;
  else
    close_store(&o.all->base);
  return rc;
}
