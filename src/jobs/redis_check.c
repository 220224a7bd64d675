/* SPDX-License-Identifier: MIT
 *
 * redis_check: connects once, on a loop of its own, and looks at the settings of the server that
 * decide whether jobs can be lost.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/alloc.h"
#include "jobs/redis_socket.h"

struct check {
  uv_loop_t loop;
  uv_timer_t timer;
  const struct uvs__redis_options *options;
  struct uvs__redis_connection connection;
  struct uvs__redis_command config, exists, map;
  struct uvs__redis_found *found;
  int status;
  char *warning, *text;
  size_t warning_size, size;
  bool over;
};

static void finish(struct check *k, int status, const char *text) {
  if (k->over)
    return;
  k->over = true;
  k->status = status;
  snprintf(k->text, k->size, "%s", text);
  uvs__redis_connection_close(&k->connection);
  uv_close((uv_handle_t *)&k->timer, NULL);
}

/* -------------------------------------------------------------------- settings --- */

static const char *const names[] = {"appendonly", "appendfsync", "no-appendfsync-on-rewrite",
                                    "maxmemory-policy", "min-replicas-to-write"};
enum { APPENDONLY, APPENDFSYNC, ON_REWRITE, POLICY, MIN_REPLICAS, SETTINGS };

/* Adds a sentence to the warning. */
static void warn(struct check *k, const char *what) {
  size_t used = strlen(k->warning);

  if (used < k->warning_size)
    snprintf(k->warning + used, k->warning_size - used, "%s%s", used > 0 ? "; " : "", what);
}

/* The server may lose jobs that were acknowledged. */
static void judge_durability(struct check *k, const char *const *values) {
  if (values[APPENDONLY] != NULL && strcmp(values[APPENDONLY], "yes") != 0) {
    warn(k, "appendonly is not yes: a restart of Redis loses jobs");
    return;
  }
  if (values[APPENDFSYNC] != NULL && strcmp(values[APPENDFSYNC], "always") != 0)
    warn(k, "appendfsync is not always: a crash of Redis can lose the jobs of about 2 seconds");
  if (values[ON_REWRITE] != NULL && strcmp(values[ON_REWRITE], "no") != 0)
    warn(k, "no-appendfsync-on-rewrite is yes: a crash while the file is rewritten loses jobs");
}

static void on_map(struct uvs__redis_command *command, int status, redisReply *reply, int64_t at) {
  struct check *k = (struct check *)(void *)((char *)command - offsetof(struct check, map));
  bool is_map = reply != NULL && status == 0 && reply->type == REDIS_REPLY_STRING;

  (void)at;
  if (reply == NULL) /* on_down has reported it */
    return;
  if (is_map) {
    k->found->map = uvs__jobs_alloc(reply->len + 1);
    k->found->map_size = reply->len;
    if (k->found->map != NULL)
      memcpy(k->found->map, reply->str, reply->len);
  }
  if (status != 0)
    finish(k, status, "the map of the servers cannot be read");
  else if (is_map && k->found->map == NULL)
    finish(k, UV_ENOMEM, "no memory");
  else
    finish(k, 0, "");
  freeReplyObject(reply);
}

static void on_exists(struct uvs__redis_command *command, int status, redisReply *reply,
                      int64_t at) {
  struct check *k = (struct check *)(void *)((char *)command - offsetof(struct check, exists));

  (void)at;
  if (reply == NULL)
    return;
  k->found->data = status == 0 && reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;
  freeReplyObject(reply);
}

static void look_for_store(struct check *k) {
  char meta[100], map[100];
  const char *has[] = {"HEXISTS", meta, "epoch"}, *get[] = {"GET", map};
  struct uvs__redis_words has_part = {3, has, NULL}, get_part = {2, get, NULL};

  snprintf(meta, sizeof meta, "{%s}:meta", k->options->ns);
  snprintf(map, sizeof map, "{%s}:map", k->options->ns);
  k->exists.done = on_exists;
  k->map.done = on_map;
  if (uvs__redis_connection_send(&k->connection, &k->exists, &has_part, 1,
                                 k->options->timeout_ns) != 0 ||
      uvs__redis_connection_send(&k->connection, &k->map, &get_part, 1, k->options->timeout_ns) !=
          0)
    finish(k, UV_ENOMEM, "no memory");
}

static void judge(struct check *k, const char *const *values) {
  const struct uvs__redis_connection *c = &k->connection;
  const char *policy = values[POLICY] != NULL ? values[POLICY] : c->policy;
  char text[200];

  if (*policy != '\0' && strcmp(policy, "noeviction") != 0) {
    snprintf(text, sizeof text, "maxmemory-policy is %.30s, which deletes jobs: set noeviction",
             policy);
    finish(k, UV_ENOTSUP, text);
    return;
  }
  judge_durability(k, values);
  if (k->options->strict && *k->warning != '\0') {
    finish(k, UV_ENOTSUP, k->warning);
    return;
  }
  if ((uint32_t)c->replicas < k->options->replicas) {
    snprintf(text, sizeof text, "%u replicas are wanted, and %d are connected",
             k->options->replicas, c->replicas);
    warn(k, text);
  }
  if ((c->replicas > 0 || k->options->service != NULL) && k->options->replicas == 0 &&
      values[MIN_REPLICAS] != NULL && atoi(values[MIN_REPLICAS]) == 0)
    warn(k, "min-replicas-to-write is 0, and replicas= is not given: a fail-over can lose jobs");
  look_for_store(k);
}

static void on_config(struct uvs__redis_command *command, int status, redisReply *reply,
                      int64_t at) {
  struct check *k = (struct check *)(void *)((char *)command - offsetof(struct check, config));
  const char *values[SETTINGS] = {NULL};
  size_t n = reply != NULL && status == 0 && reply->type == REDIS_REPLY_ARRAY ? reply->elements : 0;

  (void)at;
  if (reply == NULL) /* on_down has reported it */
    return;
  for (size_t i = 0; i + 1 < n; i += 2)
    for (int j = 0; j < SETTINGS; j++)
      if (reply->element[i]->type == REDIS_REPLY_STRING &&
          reply->element[i + 1]->type == REDIS_REPLY_STRING &&
          strcmp(reply->element[i]->str, names[j]) == 0)
        values[j] = reply->element[i + 1]->str;
  if (values[APPENDONLY] == NULL || values[APPENDFSYNC] == NULL || values[ON_REWRITE] == NULL)
    warn(k, "settings could not be read, so it is unknown whether a crash of Redis loses jobs");
  judge(k, values);
  freeReplyObject(reply);
}

/* ------------------------------------------------------------------ connection --- */

static void on_ready(struct uvs__redis_connection *c) {
  struct check *k = c->owner;
  const char *words[2 + SETTINGS] = {"CONFIG", "GET"};
  struct uvs__redis_words part = {2 + SETTINGS, words, NULL};

  memcpy(words + 2, names, sizeof names);
  k->config.done = on_config;
  if (uvs__redis_connection_send(c, &k->config, &part, 1, k->options->timeout_ns) != 0)
    finish(k, UV_ENOMEM, "no memory");
}

static void on_down(struct uvs__redis_connection *c, bool was_ready) {
  struct check *k = c->owner;

  (void)was_ready;
  finish(k, c->status, c->trouble);
}

static void on_closed(struct uvs__redis_connection *c) {
  (void)c;
}

static void on_timer(uv_timer_t *timer) {
  finish(timer->data, UV_ETIMEDOUT, "the server did not answer in time");
}

int uvs__redis_check(const struct uvs__redis_options *o, char *warning, size_t warning_size,
                     char *text, size_t size, struct uvs__redis_found *found) {
  static const struct uvs__redis_connection_hooks hooks = {on_ready, on_down, NULL, on_closed};
  struct check k = {.options = o,
                    .found = found,
                    .warning = warning,
                    .warning_size = warning_size,
                    .text = text,
                    .size = size};
  sigset_t before;
  int rc = uv_loop_init(&k.loop);

  warning[0] = '\0';
  memset(found, 0, sizeof *found);
  if (rc != 0) {
    snprintf(text, size, "no event loop: %s", uv_strerror(rc));
    return rc;
  }
  uv_timer_init(&k.loop, &k.timer);
  k.timer.data = &k;
  /* A loop rounds its time down to milliseconds. */
  uv_timer_start(&k.timer, on_timer, (uint64_t)(o->timeout_ns / 1000000) + 1, 0);
  k.connection.loop = &k.loop;
  k.connection.options = o;
  k.connection.name = "uvsched-check";
  k.connection.hooks = &hooks;
  k.connection.owner = &k;
  uvs__redis_connection_open(&k.connection);
  uvs__redis_block_sigpipe(&before);
  uv_run(&k.loop, UV_RUN_DEFAULT);
  uvs__redis_restore_sigpipe(&before);
  uv_loop_close(&k.loop);
  found->clock = k.connection.clock;
  if (k.status == 0)
    return 0;
  uvs__jobs_free(found->map);
  found->map = NULL;
  return k.status;
}
