/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "jobs/alloc.h"
#include "jobs/redis_reshard.h"

#define PAUSE_MS 100 /* before a command is repeated */

int uvs__reshard_fail(struct uvs__reshard *m, int status, const char *format, ...) {
  va_list args;

  va_start(args, format);
  vsnprintf(m->text, m->size, format, args);
  va_end(args);
  return status;
}

int uvs__reshard_tell(struct uvs__reshard *m, int step, const char *server) {
  m->progress.step = step;
  m->progress.server = server;
  if (m->options->on_progress == NULL ||
      m->options->on_progress(&m->progress, m->options->arg) == 0)
    return 0;
  return uvs__reshard_fail(m, UV_ECANCELED, "the callback has stopped the move");
}

/* ---------------------------------------------------------------- connections --- */

static void on_up(void *arg, const char *run_id) {
  struct uvs__reshard_server *s = arg;

  snprintf(s->redis.run_id, sizeof s->redis.run_id, "%s", run_id);
}

static void on_nothing(void *arg) {
  (void)arg;
}

static void on_message(void *arg, const char *channel, const char *text, size_t size) {
  (void)arg;
  (void)channel;
  (void)text;
  (void)size;
}

static void on_new_events(void *arg) {
  (void)arg;
}

static void on_other_epoch(struct uvs__redis *redis) {
  struct uvs__reshard_server *s =
      (struct uvs__reshard_server *)(void *)((char *)redis -
                                             offsetof(struct uvs__reshard_server, redis));

  s->other_epoch = true;
}

int uvs__reshard_add(struct uvs__reshard *m, const char *name, struct uvs__reshard_server **ret) {
  static const struct uvs__redis_link_hooks hooks = {on_up, on_nothing, on_nothing, on_message};
  static const struct uvs__redis_hooks redis_hooks = {.new_events = on_new_events};
  struct uvs__reshard_server *s = uvs__jobs_alloc(sizeof *s);
  const struct uvs__redis_options *given = m->given;
  char own[UVS__REDIS_SERVER_NAME], why[200];
  int rc;

  if (s == NULL)
    return uvs__reshard_fail(m, UV_ENOMEM, "no memory");
  if (m->n == UVS__RESHARD_SERVERS) {
    uvs__jobs_free(s);
    return uvs__reshard_fail(m, UV_E2BIG, "there are too many servers");
  }
  snprintf(s->name, sizeof s->name, "%s", name);
  for (struct uvs__redis_options *o = m->wanted; o != NULL; o = o->next)
    if (uvs__redis_server_name(o, own) && strcmp(own, name) == 0)
      given = m->wanted;
  rc = uvs__redis_server_options(name, given, &s->options, why, sizeof why);
  if (rc != 0) {
    uvs__jobs_free(s);
    return uvs__reshard_fail(m, rc, "%s: %s", name, why);
  }
  s->move = m;
  s->redis.options = s->options;
  s->redis.face = &s->face;
  s->redis.hooks = &redis_hooks;
  s->redis.ask_epoch = on_other_epoch;
  s->redis.link = uvs__redis_link_open(&m->loop, s->options, NULL, 0, &hooks, s);
  if (s->redis.link == NULL) {
    uvs__redis_free_options(s->options);
    uvs__jobs_free(s);
    return uvs__reshard_fail(m, UV_ENOMEM, "no memory");
  }
  m->servers[m->n++] = s;
  *ret = s;
  return 0;
}

struct uvs__reshard_server *uvs__reshard_find(struct uvs__reshard *m, const char *name) {
  for (size_t i = 0; i < m->n; i++)
    if (strcmp(m->servers[i]->name, name) == 0)
      return m->servers[i];
  return NULL;
}

void uvs__reshard_close(struct uvs__reshard *m) {
  for (size_t i = 0; i < m->n; i++)
    uvs__redis_link_close(m->servers[i]->redis.link);
  uv_close((uv_handle_t *)&m->timer, NULL);
  uv_run(&m->loop, UV_RUN_DEFAULT);
  for (size_t i = 0; i < m->n; i++) {
    uvs__redis_free_options(m->servers[i]->options);
    uvs__jobs_free(m->servers[i]);
  }
  m->n = 0;
}

static void on_timer(uv_timer_t *timer) {
  *(bool *)timer->data = true;
}

void uvs__reshard_sleep(struct uvs__reshard *m, int ms) {
  bool over = false;

  m->timer.data = &over;
  uv_update_time(&m->loop);
  uv_timer_start(&m->timer, on_timer, (uint64_t)ms, 0);
  while (!over)
    uv_run(&m->loop, UV_RUN_ONCE);
}

/* ------------------------------------------------------------------- commands --- */

struct pending {
  struct uvs__redis_call call; /* first; of a script with common.lua */
  const struct uvs__reshard_command *command;
  int status;
  bool over;
};

static void finish(struct pending *p, int status, redisReply *const *body, size_t n) {
  if (status == 0 && p->command->read != NULL)
    status = p->command->read(p->command->to, body, n);
  p->status = status;
  p->over = true;
}

static void on_answer(struct uvs__redis_call *call, int status, redisReply *const *body, size_t n) {
  finish((struct pending *)(void *)call, status, body, n);
}

static void on_reply(void *arg, int status, const redisReply *reply, int64_t sent_ns,
                     int64_t received_ns) {
  struct pending *p = arg;
  struct uvs__redis *redis = p->call.store;
  redisReply *body = (redisReply *)(uintptr_t)reply;

  (void)sent_ns;
  (void)received_ns;
  if (status != 0)
    snprintf(redis->face->trouble, sizeof redis->face->trouble, "%s", redis->link->trouble);
  finish(p, status, &body, 1);
}

static void send_once(struct uvs__reshard_server *s, struct pending *p) {
  const struct uvs__reshard_command *c = p->command;
  struct uvs__words w = {0};
  int rc = UV_ENOMEM;

  p->call.store = &s->redis;
  p->call.answered = on_answer;
  if (c->queues != NULL)
    uvs__redis_begin(&s->redis, &w, c->queues);
  c->add(s, &w, c->from);
  if (c->queues != NULL) {
    uvs__redis_send(&p->call, c->script, &w, c->script >= UVS__REDIS_MAP);
    return;
  }
  if (!w.no_memory)
    rc = uvs__redis_link_send(s->redis.link, c->script, w.n, w.words, w.sizes, true, on_reply, p);
  uvs__words_free(&w);
  if (rc != 0)
    finish(p, rc, NULL, 0);
}

int uvs__reshard_do(struct uvs__reshard_server *s, const struct uvs__reshard_command *c) {
  uint64_t end_ns = uv_hrtime() + (uint64_t)s->move->options->patience_ns;

  for (;;) {
    struct pending p = {.command = c};

    s->other_epoch = false;
    send_once(s, &p);
    while (!p.over)
      uv_run(&s->move->loop, UV_RUN_ONCE);
    if (p.status == 0)
      return 0;
    if (s->other_epoch)
      return uvs__reshard_fail(s->move, UV_EBUSY,
                               "%s: another `reshard` has changed the map, or the server has lost "
                               "its data",
                               s->name);
    if ((p.status != UV_EAGAIN && p.status != UVS_EUNKNOWN) || uv_hrtime() >= end_ns)
      return uvs__reshard_fail(s->move, p.status, "%s: %s", s->name,
                               s->face.trouble[0] == '\0' ? uvs_jobs_strerror(p.status)
                                                          : s->face.trouble);
    uvs__reshard_sleep(s->move, PAUSE_MS);
  }
}
