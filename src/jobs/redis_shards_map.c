/* SPDX-License-Identifier: MIT
 *
 * What the servers report, and the map that the process follows. A process learns a newer map from
 * any server whenever it reads the epoch of that server (redis_server.c), and writes its map to a
 * server that has an older one. So the newest map reaches all processes and all servers.
 */
#include <stdio.h>
#include <string.h>

#include "jobs/alloc.h"
#include "jobs/redis_shards.h"

/* ------------------------------------------------------------------- hooks --- */

static void on_wake(void *arg, const char *queue, int64_t due_us) {
  struct uvs__shard *shard = arg;
  struct uvs__shards *all = shard->all;

  uvs__shard_due(shard, queue, due_us);
  all->hooks->wake(all->arg, queue, uvs__shard_to_store_us(shard, due_us));
}

static void sum_events(struct uvs__shards *all) {
  uint64_t sum = all->resets << 40;

  for (size_t i = 0; i < all->n; i++)
    sum += all->shards[i]->redis->events;
  all->base.events = sum;
}

static void on_event(void *arg, int what, const char *text) {
  struct uvs__shard *shard = arg;
  struct uvs__shards *all = shard->all;
  char whole[UVS__REDIS_SERVER_NAME + UVS__REDIS_WARNING_MAX + 2];

  if (what == UVS_EVENT_STORE_RESET) {
    shard->events_seen = 0;
    all->resets++;
    sum_events(all);
    uvs__shard_due(shard, NULL, 0);
  }
  snprintf(whole, sizeof whole, "%s: %s", shard->name, text);
  all->hooks->event(all->arg, what, all->map == NULL ? text : whole);
}

static void on_up(void *arg) {
  struct uvs__shard *shard = arg;
  struct uvs__shards *all = shard->all;

  if (shard->down)
    shard->up_ns = (int64_t)uv_hrtime();
  shard->down = false;
  uvs__shard_due(shard, NULL, 0);
  if (all->map == NULL)
    return;
  if (shard->told_down)
    all->hooks->event(all->arg, UVS_EVENT_STORE_UP, shard->name);
  shard->told_down = false;
  all->hooks->wake(all->arg, NULL, 0);
}

static void on_down(void *arg) {
  struct uvs__shard *shard = arg;

  if (shard->down_ns <= shard->up_ns) /* not since it was up */
    shard->down_ns = (int64_t)uv_hrtime();
  shard->down = true;
}

static void on_new_events(void *arg) {
  struct uvs__shard *shard = arg;

  sum_events(shard->all);
  shard->all->hooks->wake(shard->all->arg, "", 0); /* no queue: only look at the events */
}

/* Does this server have the map that the process follows? */
static bool has_current(const struct uvs__shards *all, const char *text, size_t size) {
  return size == all->current.size && memcmp(text, all->current.text, size) == 0;
}

static int on_newer(void *arg, const char *text, size_t size) {
  struct uvs__shard *shard = arg;
  struct uvs__shards *all = shard->all;
  struct uvs__redis_map *map;
  char why[150] = "there is not enough memory";
  int rc = UV_ENOMEM;

  if (has_current(all, text, size)) { /* another server has told it meanwhile */
    uvs__redis_new_map(shard->redis);
    return 0;
  }
  map = uvs__jobs_alloc(sizeof *map);
  if (map != NULL && uvs__redis_map_read(text, size, map, why, sizeof why) != 0)
    rc = UV_EIO;
  else if (map != NULL && map->generation == all->current.generation) {
    snprintf(why, sizeof why, "the server has another map of generation %llu",
             (unsigned long long)map->generation);
    rc = UV_EIO;
  } else if (map != NULL && map->generation < all->current.generation)
    snprintf(why, sizeof why, "its map is older than its epoch says");
  else if (map != NULL)
    rc = uvs__shards_follow(all, map, why, sizeof why);
  if (rc == 0)
    return 0;
  uvs__jobs_free(map);
  snprintf(all->base.trouble, sizeof all->base.trouble, "%.*s: %s",
           (int)(sizeof all->base.trouble - sizeof why - 2), shard->name, why);
  return rc == UV_ENOMEM ? UV_EAGAIN : UV_EIO;
}

/* ----------------------------------------------------------------- servers --- */

static const struct uvs__redis_hooks hooks = {on_wake, on_event, on_up,
                                              on_down, on_newer, on_new_events};

int uvs__shards_add(struct uvs__shards *all, const char *name,
                    const struct uvs__redis_options *options, struct uvs__shard **ret, char *text,
                    size_t size) {
  struct uvs__redis_setup setup = {options, all->clock, &all->base, &all->current, &hooks, NULL};
  struct uvs__shard *shard;
  int rc = UV_ENOMEM;

  if (all->n == UVS__SHARDS_MAX) {
    snprintf(text, size, "this process has used too many servers: open the store again");
    return UV_E2BIG;
  }
  shard = uvs__jobs_alloc(sizeof *shard);
  if (shard != NULL)
    rc = options == NULL ? uvs__redis_server_options(name, all->given, &shard->options, text, size)
                         : 0;
  if (rc == 0) {
    setup.options = options == NULL ? shard->options : options;
    setup.arg = shard;
    rc = uvs__redis_new(&setup, &shard->redis);
    if (rc != 0)
      uvs__redis_free_options(shard->options);
  }
  if (rc != 0) {
    uvs__jobs_free(shard);
    if (rc != UV_EINVAL)
      snprintf(text, size, "the store cannot be opened: %s", uv_strerror(rc));
    return rc;
  }
  shard->all = all;
  shard->index = all->n;
  shard->end = &shard->first;
  shard->events_seen = all->events_began ? INT64_MAX : 0;
  snprintf(shard->name, sizeof shard->name, "%s", name);
  all->shards[all->n++] = shard;
  *ret = shard;
  return 0;
}

void uvs__shards_start(struct uvs__shard *shard) {
  shard->started = true;
  uvs__redis_start(shard->redis, shard->all->loop);
}

/* --------------------------------------------------------------------- map --- */

static struct uvs__shard *find(struct uvs__shards *all, const char *name) {
  for (size_t i = 0; i < all->n; i++)
    if (!all->shards[i]->stopped && strcmp(all->shards[i]->name, name) == 0)
      return all->shards[i];
  return NULL;
}

/* Finds the servers of the map, and adds those that are new. */
static int find_servers(struct uvs__shards *all, const struct uvs__redis_map *map, size_t *of_map,
                        char *text, size_t size) {
  for (size_t i = 0; i < map->n_all; i++) {
    struct uvs__shard *shard = find(all, map->servers[i]);
    int rc = shard == NULL ? uvs__shards_add(all, map->servers[i], NULL, &shard, text, size) : 0;

    if (rc != 0)
      return rc;
    of_map[i] = shard->index;
  }
  return 0;
}

/* Requests that are on their way were sent under the former map. A server that has the new map does
 * not carry them out. */
static void tell_servers(struct uvs__shards *all) {
  for (size_t i = 0; i < all->n; i++) {
    struct uvs__shard *shard = all->shards[i];

    if (shard->started && !shard->stopped)
      uvs__redis_new_map(shard->redis);
    else if (!shard->started && shard->in_map && all->loop != NULL)
      uvs__shards_start(shard);
    uvs__shard_retire(shard);
  }
  uvs__shards_all_due(all);
  if (all->loop != NULL)
    all->hooks->wake(all->arg, NULL, 0);
}

int uvs__shards_follow(struct uvs__shards *all, struct uvs__redis_map *map, char *text,
                       size_t size) {
  size_t of_map[2 * UVS__REDIS_SERVERS];
  char *printed;
  int rc = find_servers(all, map, of_map, text, size);

  if (rc != 0)
    return rc;
  printed = uvs__jobs_alloc(UVS__REDIS_MAP_TEXT);
  if (printed == NULL) {
    snprintf(text, size, "there is not enough memory");
    return UV_ENOMEM;
  }
  for (size_t i = 0; i < all->n; i++)
    all->shards[i]->in_map = false;
  for (size_t i = 0; i < map->n_all; i++)
    all->shards[of_map[i]]->in_map = true;
  memcpy(all->of_map, of_map, sizeof of_map);
  uvs__jobs_free(all->map);
  uvs__jobs_free(all->text);
  all->map = map;
  all->text = printed;
  all->current = (struct uvs__redis_current){
      map->generation, printed, uvs__redis_map_print(map, printed), map->n_all, map->moving};
  tell_servers(all);
  return 0;
}
