/* SPDX-License-Identifier: MIT
 *
 * redis_reshard: uvs_jobs_reshard. It has four steps: look at all servers; write a map of state
 * moving to them; move, in passes over each server, until nothing is left that belongs elsewhere;
 * write a map of state stable. A later call finds out from the maps how far an earlier one came.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/alloc.h"
#include "jobs/redis_reshard.h"
#include "jobs/redis_socket.h"

#define PATIENCE_NS INT64_C(30000000000)
#define WAIT_MS 100 /* for jobs that run; it doubles */
#define WAIT_MAX_MS 1000

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
  if (version.size > 0 && strcmp(version.data, UVS__REDIS_FORMAT) != 0)
    return UV_ENOTSUP;
  snprintf(s->epoch, sizeof s->epoch, "%s", (const char *)uvs__redis_bytes(meta->element[1]).data);
  snprintf(s->id, sizeof s->id, "%s", (const char *)uvs__redis_bytes(meta->element[2]).data);
  s->moved_from = strtoll(uvs__redis_bytes(meta->element[3]).data, NULL, 10);
  return 0;
}

static int look(struct uvs__reshard_server *s) {
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

/* Looks at the map that the server has. `adopt`: it is read into m->map if it is newer. */
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

/* Connects once, so that a server that cannot be reached or refuses the user is an error at once.
 * Settings that the store does not accept matter only for a new server: jobs may leave another. */
static int check(struct uvs__reshard_server *s, bool is_new) {
  char warning[UVS__REDIS_WARNING_MAX], why[200];
  struct uvs__redis_found found;
  int rc = uvs__redis_check(s->options, warning, sizeof warning, why, sizeof why, &found);

  uvs__jobs_free(found.map);
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
    rc = look(s);
  if (rc == 0)
    rc = look_at_map(s, adopt);
  return rc;
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

/* Finds the newest map, and meets all its servers. A server may know a newer map. */
static int look_at_all(struct uvs__reshard *m) {
  int rc = meet_all(m, m->given, true);

  if (rc == 0 && !any_has_data(m))
    rc = uvs__reshard_fail(m, UV_ENOENT, "%s has no store in this namespace", m->servers[0]->name);
  if (rc == 0 && m->map.generation == 0 && m->n > 1)
    rc = uvs__reshard_fail(m, UV_EINVAL,
                           "these servers have no map, so they are not one store: name one");
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

/* A server that is not in the map must be empty: one that is new, or one that was removed. */
static int check_empty(struct uvs__reshard_server *s) {
  struct uvs__reshard_names names;
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

static bool has_slots(const struct uvs__redis_map *map, const char *name) {
  return uvs__redis_map_find(map, name) < map->n;
}

/* Meets the servers that are to be added, and looks at all that are not in the map. */
static int look_at_others(struct uvs__reshard *m, const char *const *wanted, size_t n) {
  int rc = meet_all(m, m->wanted, false);

  for (size_t i = 0; i < n && rc == 0; i++)
    if (!has_slots(&m->map, wanted[i]))
      rc = check(uvs__reshard_find(m, wanted[i]), true);
  for (size_t i = 0; i < m->n && rc == 0; i++) {
    struct uvs__reshard_server *s = m->servers[i];

    if (s->epoch[0] != '\0' && uvs__redis_map_find(&m->map, s->name) == SIZE_MAX)
      rc = check_empty(s);
  }
  return rc;
}

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
  rc = look(s); /* at the id and moved_from */
  return rc != 0 ? rc : uvs__reshard_tell(m, UVS_RESHARD_SWITCHED, s->name);
}

/* Writes the map to all servers that have data: those of the map, and those that were removed. The
 * first one, which was there before, decides if two processes want to change the map. */
static int write_map(struct uvs__reshard *m) {
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

/* The server had slots before this move. */
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

/* All servers have the same settings, so those of one old server are copied to the new ones. */
static int copy_settings(struct uvs__reshard *m) {
  struct uvs__reshard_server *from = uvs__reshard_find(m, m->map.servers[m->map.from[0]]);
  struct uvs__reshard_names names;
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

/* ------------------------------------------------------------------------- move --- */

/* Passes over all servers until all are clean. That stays so: a server that has nothing of another
 * one gets nothing of another one. */
static int move_all(struct uvs__reshard *m) {
  int wait_ms = WAIT_MS;

  for (;;) {
    uint64_t before = m->progress.jobs + m->progress.dead + m->progress.ends, all = 0;
    const char *waits_for = NULL;
    bool clean = true;

    for (size_t i = 0; i < m->n; i++) {
      uint64_t running = 0;
      int rc = m->servers[i]->clean ? 0 : uvs__reshard_pass(m->servers[i], &running);

      if (rc != 0)
        return rc;
      clean = clean && m->servers[i]->clean;
      all += running;
      if (running > 0)
        waits_for = m->servers[i]->name;
    }
    m->progress.running = all;
    if (clean)
      return 0;
    if (before == m->progress.jobs + m->progress.dead + m->progress.ends) {
      int rc = uvs__reshard_tell(m, UVS_RESHARD_WAITING, waits_for);

      if (rc != 0)
        return rc;
      uvs__reshard_sleep(m, wait_ms);
      wait_ms = 2 * wait_ms < WAIT_MAX_MS ? 2 * wait_ms : WAIT_MAX_MS;
    } else {
      wait_ms = WAIT_MS;
    }
  }
}

/* The names of the servers that are wanted. Returns how many; 0: there are too many. */
static size_t read_wanted(struct uvs__reshard *m, char (*names)[UVS__REDIS_SERVER_NAME],
                          const char **list) {
  size_t n = 0;

  for (const struct uvs__redis_options *o = m->wanted; o != NULL; o = o->next, n++) {
    if (n == UVS__REDIS_SERVERS || !uvs__redis_server_name(o, names[n]))
      return 0;
    list[n] = names[n];
  }
  return n;
}

static bool has_all(const struct uvs__redis_map *map, const char *const *servers, size_t n) {
  if (map->n != n)
    return false;
  for (size_t i = 0; i < n; i++)
    if (!has_slots(map, servers[i]))
      return false;
  return true;
}

/* Makes m->map the map of the move. *ret_moves: there is something to move. */
static int plan(struct uvs__reshard *m, const char *const *wanted, size_t n, bool *ret_moves) {
  struct uvs__redis_map *old;

  *ret_moves = m->map.moving;
  if (has_all(&m->map, wanted, n))
    return 0;
  if (m->map.moving)
    return uvs__reshard_fail(m, UV_EBUSY,
                             "a move to other servers is under way: first finish that, with the "
                             "servers of the map of generation %llu",
                             (unsigned long long)m->map.generation);
  old = uvs__jobs_alloc(sizeof *old);
  if (old == NULL)
    return uvs__reshard_fail(m, UV_ENOMEM, "no memory");
  *old = m->map;
  uvs__redis_map_change(&m->map, old, wanted, n);
  uvs__jobs_free(old);
  *ret_moves = true;
  return 0;
}

static void count_slots(struct uvs__reshard *m) {
  for (unsigned slot = 0; slot < UVS__SLOTS; slot++)
    m->progress.slots += m->map.owner[slot] != m->map.from[slot];
}

/* The new servers get their settings first, and once more after that, because a node may have
 * changed them while it knew only the old map. */
static int switch_maps(struct uvs__reshard *m) {
  int rc = make_data(m);

  for (size_t i = 0; i < m->n; i++)
    strcpy(m->servers[i]->redis.epoch, m->servers[i]->epoch);
  if (rc == 0)
    rc = copy_settings(m);
  if (rc == 0)
    rc = write_map(m);
  if (rc == 0)
    rc = copy_settings(m);
  return rc;
}

static int reshard(struct uvs__reshard *m, char (*names)[UVS__REDIS_SERVER_NAME]) {
  const char *wanted[UVS__REDIS_SERVERS];
  size_t n = read_wanted(m, names, wanted);
  bool moves = false;
  int rc;

  if (n == 0)
    return uvs__reshard_fail(m, UV_EINVAL, "there may be at most %d servers", UVS__REDIS_SERVERS);
  rc = uvs__reshard_tell(m, UVS_RESHARD_CHECK, NULL);
  if (rc == 0)
    rc = look_at_all(m);
  if (rc == 0)
    rc = look_at_others(m, wanted, n);
  if (rc == 0)
    rc = plan(m, wanted, n, &moves);
  if (rc != 0)
    return rc;
  count_slots(m);
  if (moves) {
    rc = switch_maps(m);
    if (rc == 0)
      rc = move_all(m);
    if (rc != 0)
      return rc;
    uvs__redis_map_finish(&m->map);
  }
  /* Also after an earlier call that had only this left to do. */
  rc = m->map.generation == 0 ? 0 : write_map(m);
  return rc != 0 ? rc : uvs__reshard_tell(m, UVS_RESHARD_DONE, NULL);
}

/* ------------------------------------------------------------------------- call --- */

static int read_names(struct uvs__reshard *m) {
  char why[200];
  int rc = uvs__redis_read_url(m->options->store, &m->given, why, sizeof why);

  if (rc != 0)
    return uvs__reshard_fail(m, rc, "store: %s", why);
  rc = uvs__redis_read_url(m->options->to, &m->wanted, why, sizeof why);
  if (rc != 0)
    return uvs__reshard_fail(m, rc, "to: %s", why);
  if (strcmp(m->given->ns, m->wanted->ns) != 0)
    return uvs__reshard_fail(m, UV_EINVAL, "the namespaces of store and to differ: %s and %s",
                             m->given->ns, m->wanted->ns);
  return 0;
}

static int run(struct uvs__reshard *m) {
  char(*names)[UVS__REDIS_SERVER_NAME] = uvs__jobs_alloc(UVS__REDIS_SERVERS * sizeof *names);
  sigset_t before;
  int rc = names == NULL ? UV_ENOMEM : uv_loop_init(&m->loop);

  if (rc != 0) {
    uvs__jobs_free(names);
    return uvs__reshard_fail(m, rc, "no event loop: %s", uv_strerror(rc));
  }
  uv_timer_init(&m->loop, &m->timer); /* cannot fail */
  uvs__redis_block_sigpipe(&before);
  rc = reshard(m, names);
  uvs__reshard_close(m);
  uvs__redis_restore_sigpipe(&before);
  uv_loop_close(&m->loop);
  uvs__jobs_free(names);
  return rc;
}

int uvs_jobs_reshard(const uvs_reshard_options_t *o, char *text, size_t size) {
  uvs_reshard_options_t options;
  struct uvs__reshard *m;
  char unused[200];
  int rc;

  if (text == NULL || size == 0) {
    text = unused;
    size = sizeof unused;
  }
  text[0] = '\0';
  if (o == NULL || o->size < sizeof options || o->store == NULL || o->to == NULL) {
    snprintf(text, size, "store or to is NULL, or the options were not initialized");
    return UV_EINVAL;
  }
  memcpy(&options, o, sizeof options);
  if (options.patience_ns <= 0)
    options.patience_ns = PATIENCE_NS;
  m = uvs__jobs_alloc(sizeof *m);
  if (m == NULL) {
    snprintf(text, size, "no memory");
    return UV_ENOMEM;
  }
  m->options = &options;
  m->progress.size = sizeof m->progress;
  m->text = text;
  m->size = size;
  rc = read_names(m);
  if (rc == 0)
    rc = run(m);
  if (rc != 0 && text[0] == '\0')
    snprintf(text, size, "%s", uvs_jobs_strerror(rc));
  uvs__redis_free_options(m->given);
  uvs__redis_free_options(m->wanted);
  uvs__jobs_free(m);
  return rc;
}
