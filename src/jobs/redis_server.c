/* SPDX-License-Identifier: MIT
 *
 * redis_server: one server of the store: carries out batches, and knows whose data it has.
 *
 * EPOCH. The data has an epoch, a random text that `init` writes when it finds no data. If there is
 * a map of servers (redis_map.h), a point and the generation of the map follow. Each script
 * compares the caller's epoch with that of the data. If they differ, the server has lost its data,
 * or has a new map, or another server answers. Then the request is answered with UV_EAGAIN, and
 * `init` is called again. If the random text has changed, a reset is reported. If the generation is
 * higher, the map is read from the server; if it is lower, the map is written to the server.
 * Requests that come before the epoch is known wait for it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/alloc.h"
#include "jobs/redis_store.h"

#define HOUSEKEEPING 20 /* more than a command can leave behind, on average */

/* ------------------------------------------------------------------- batch --- */

static void carry_out(struct uvs__redis *s, struct uvs__request *r) {
  struct uvs__redis_op *op = uvs__redis_op_new(s, r);

  if (op == NULL)
    return;
  switch (r->op) {
  case UVS__CLAIM:
    uvs__redis_claim(op);
    break;
  case UVS__SETTLE:
    uvs__redis_settle(op);
    break;
  case UVS__ALTER:
    uvs__redis_alter(op);
    break;
  case UVS__GET:
    uvs__redis_get(op);
    break;
  case UVS__LIST:
    uvs__redis_list(op);
    break;
  case UVS__REDRIVE:
  case UVS__PURGE:
    uvs__redis_bulk(op);
    break;
  case UVS__SET_QUEUE:
    uvs__redis_set_queue(op);
    break;
  case UVS__SET_CRON:
  case UVS__REMOVE_CRON:
    uvs__redis_cron(op);
    break;
  case UVS__CRONS:
    uvs__redis_crons(op);
    break;
  case UVS__COUNT:
    uvs__redis_count(op);
    break;
  case UVS__EVENTS:
    uvs__redis_events(op);
    break;
  case UVS__TRIM:
    uvs__redis_trim(op);
    break;
  case UVS__PUT: /* in `dispatch` */
    uvs__redis_op_done(op, UV_EINVAL);
    break;
  }
}

static void dispatch(struct uvs__redis *s, struct uvs__request *r) {
  while (r != NULL) {
    struct uvs__request *next = r;
    size_t puts = 0;

    for (; next != NULL && next->op == UVS__PUT; next = next->next)
      puts++;
    if (puts > 0) {
      uvs__redis_put(s, r, puts);
    } else {
      next = r->next;
      carry_out(s, r);
    }
    r = next;
  }
}

static void answer_all(struct uvs__request *r, int status) {
  struct uvs__request *next;

  for (; r != NULL; r = next) {
    next = r->next;
    r->status = status;
    r->done(r);
  }
}

static struct uvs__request *take_waiting(struct uvs__redis *s) {
  struct uvs__request *first = s->waiting;

  s->waiting = NULL;
  s->end = &s->waiting;
  uv_timer_stop(&s->patience);
  return first;
}

static void on_no_patience(uv_timer_t *timer) {
  struct uvs__redis *s = timer->data;

  snprintf(s->face->trouble, sizeof s->face->trouble, "%s", s->link->trouble);
  answer_all(take_waiting(s), UV_EAGAIN);
}

static void wait(struct uvs__redis *s, struct uvs__request *first) {
  if (s->waiting == NULL) {
    uv_update_time(s->loop);
    uv_timer_start(&s->patience, on_no_patience, (uint64_t)(s->options->timeout_ns / 1000000), 0);
  }
  *s->end = first;
  while (*s->end != NULL)
    s->end = &(*s->end)->next;
}

/* ------------------------------------------------------------------- epoch --- */

/* The generation in an epoch, which is "RANDOM" or "RANDOM.GENERATION". */
static uint64_t generation_of(const char *epoch) {
  const char *point = strchr(epoch, '.');

  return point == NULL ? 0 : strtoull(point + 1, NULL, 10);
}

static bool is_same_data(const char *epoch, const char *other) {
  size_t size = strcspn(epoch, ".");

  return size == strcspn(other, ".") && memcmp(epoch, other, size) == 0;
}

static void on_ready(struct uvs__redis *s, const char *epoch) {
  bool is_reset = s->epoch[0] != '\0' && !is_same_data(s->epoch, epoch);

  snprintf(s->epoch, sizeof s->epoch, "%s", epoch);
  s->ready = true;
  if (is_reset) {
    s->events = 0;
    s->hooks->event(s->arg, UVS_EVENT_STORE_RESET, "Redis was flushed, or another server answers");
  }
  s->hooks->up(s->arg);
  dispatch(s, take_waiting(s));
}

static void give_up(struct uvs__redis *s, int status) {
  answer_all(take_waiting(s), status == UVS_EUNKNOWN ? UV_EAGAIN : status);
}

static void add_key(struct uvs__redis *s, struct uvs__words *w, const char *what) {
  const char *key = uvs__redis_key(s, &w->arena, what, "");

  w->no_memory = w->no_memory || key == NULL;
  uvs__words_text(w, key);
}

/* Sends a command about the epoch or the map. Until its answer, requests wait. */
static void ask(struct uvs__redis *s, enum uvs__redis_script script, struct uvs__words *w,
                uvs__redis_cb cb) {
  s->asking = !w->no_memory &&
              uvs__redis_link_send(s->link, script, w->n, w->words, w->sizes, false, cb, s) == 0;
  uvs__words_free(w);
  if (s->asking)
    return;
  /* The next request tries again. */
  snprintf(s->face->trouble, sizeof s->face->trouble, "there is not enough memory");
  give_up(s, UV_EAGAIN);
}

static void on_map(void *arg, int status, const redisReply *reply, int64_t sent_ns,
                   int64_t received_ns) {
  struct uvs__redis *s = arg;

  (void)sent_ns;
  (void)received_ns;
  s->asking = false;
  if (status != 0)
    snprintf(s->face->trouble, sizeof s->face->trouble, "%s", s->link->trouble);
  else if (reply->type != REDIS_REPLY_STRING)
    snprintf(s->face->trouble, sizeof s->face->trouble, "the server has lost its map");
  if (status == 0)
    status = reply->type == REDIS_REPLY_STRING
                 ? s->hooks->newer(s->arg, reply->str, reply->len) /* calls uvs__redis_new_map */
                 : UV_EAGAIN;
  if (status != 0)
    give_up(s, status);
}

/* The server has a newer map than this process. */
static void read_map(struct uvs__redis *s) {
  struct uvs__words w = {0};

  uvs__words_text(&w, "GET");
  add_key(s, &w, "map");
  ask(s, UVS__REDIS_NO_SCRIPT, &w, on_map);
}

static bool make_epoch(char ret[33]) {
  unsigned char random[16];

  if (uv_random(NULL, NULL, random, sizeof random, 0, NULL) != 0)
    return false;
  for (size_t i = 0; i < sizeof random; i++)
    snprintf(ret + 2 * i, 3, "%02x", random[i]);
  return true;
}

static void send_init(struct uvs__redis *s);

static void on_written(void *arg, int status, const redisReply *reply, int64_t sent_ns,
                       int64_t received_ns) {
  struct uvs__redis *s = arg;

  (void)sent_ns;
  (void)received_ns;
  s->asking = false;
  if (status == 0 && (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2))
    status = UV_EIO;
  if (status == 0 && reply->element[0]->integer == 4) { /* another map of this generation */
    read_map(s);
    return;
  }
  if (status == 0) {
    send_init(s);
    return;
  }
  snprintf(s->face->trouble, sizeof s->face->trouble, "%s", s->link->trouble);
  give_up(s, status);
}

/* Writes the map to the server, if its map is older. `epoch` is the epoch of its data. `create`: if
 * the server has no data, it gets this epoch. */
static void write_map(struct uvs__redis *s, const char *epoch, bool create) {
  const struct uvs__redis_current *map = s->map;
  struct uvs__words w = {0};
  char id[33];

  w.no_memory = !make_epoch(id);
  uvs__words_text(&w, "2");
  add_key(s, &w, "meta");
  add_key(s, &w, "map");
  uvs__words_text(&w, UVS__REDIS_FORMAT);
  uvs__words_add(&w, epoch, strcspn(epoch, "."));
  uvs__words_int(&w, (int64_t)map->generation);
  uvs__words_add(&w, map->text, map->size);
  uvs__words_int(&w, (int64_t)map->servers);
  uvs__words_int(&w, map->moving);
  uvs__words_text(&w, s->run_id);
  uvs__words_text(&w, id);
  uvs__words_int(&w, create);
  ask(s, UVS__REDIS_MAP, &w, on_written);
}

static void on_init(void *arg, int status, const redisReply *reply, int64_t sent_ns,
                    int64_t received_ns) {
  struct uvs__redis *s = arg;

  (void)sent_ns;
  (void)received_ns;
  s->asking = false;
  if (status == 0 && (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2 ||
                      reply->element[1]->type != REDIS_REPLY_STRING))
    status = UV_EIO;
  if (status == 0 && reply->element[0]->integer == 0) {
    const char *epoch = reply->element[1]->str;
    uint64_t generation = generation_of(epoch);

    if (generation == s->map->generation)
      on_ready(s, epoch);
    else if (generation > s->map->generation)
      read_map(s);
    else
      write_map(s, epoch, false);
    return;
  }
  if (status == 0) {
    snprintf(s->face->trouble, sizeof s->face->trouble,
             "the data has format %.20s, and this program knows format " UVS__REDIS_FORMAT,
             reply->element[1]->str);
    status = UV_EIO;
  } else {
    snprintf(s->face->trouble, sizeof s->face->trouble, "%s", s->link->trouble);
  }
  give_up(s, status);
}

static void send_init(struct uvs__redis *s) {
  struct uvs__words w = {0};
  char epoch[33];

  w.no_memory = !make_epoch(epoch);
  uvs__words_text(&w, "2");
  add_key(s, &w, "meta");
  add_key(s, &w, "put:" UVS__REDIS_FORMAT);
  uvs__words_text(&w, UVS__REDIS_FORMAT);
  uvs__words_text(&w, epoch);
  uvs__words_text(&w, s->run_id);
  uvs__words_add(&w, uvs__redis_scripts[UVS__REDIS_PUT].text,
                 uvs__redis_scripts[UVS__REDIS_PUT].size);
  ask(s, UVS__REDIS_INIT, &w, on_init);
}

/* An empty server of a map gets its data by the script `map`, because `init` would make data
 * without a map. */
static void ask_epoch(struct uvs__redis *s) {
  char epoch[33];

  s->ready = false;
  if (s->asking)
    return;
  if (s->map->generation == 0)
    send_init(s);
  else if (make_epoch(epoch))
    write_map(s, epoch, true);
  else
    give_up(s, UV_EAGAIN);
}

/* The waiting requests were sent to this server because of the former map. */
void uvs__redis_new_map(struct uvs__redis *s) {
  if (s->link == NULL)
    return;
  if (s->link->is_up)
    ask_epoch(s);
  snprintf(s->face->trouble, sizeof s->face->trouble, "the servers have a new map");
  give_up(s, UV_EAGAIN);
}

void uvs__redis_run(struct uvs__redis *s, struct uvs__request *first) {
  if (s->link == NULL) {
    answer_all(first, UV_ENOMEM);
  } else if (s->ready || (s->epoch[0] != '\0' && !s->link->is_up)) {
    dispatch(s, first); /* while the link is down, the link answers */
  } else {
    wait(s, first);
    if (s->link->is_up)
      ask_epoch(s);
  }
}

/* -------------------------------------------------------------------- link --- */

static void on_up(void *arg, const char *run_id) {
  struct uvs__redis *s = arg;

  snprintf(s->run_id, sizeof s->run_id, "%s", run_id);
  ask_epoch(s);
}

static void on_down(void *arg) {
  struct uvs__redis *s = arg;

  s->ready = false;
  s->hooks->down(s->arg);
}

/* Messages may have been missed, if other nodes use the store. */
static void on_subscribed(void *arg) {
  struct uvs__redis *s = arg;

  if (s->leads)
    s->hooks->wake(s->arg, NULL, 0);
}

static void on_message(void *arg, const char *channel, const char *text, size_t size) {
  struct uvs__redis *s = arg;
  char copy[UVS_JOB_NAME_MAX + 30], *end; /* "QUEUE DUE_US", or the number of an event */

  snprintf(copy, sizeof copy, "%.*s", (int)size, text);
  end = copy + strcspn(copy, " ");
  if (strcmp(channel, s->channels[0]) == 0) {
    int64_t due_us = strtoll(end, NULL, 10);

    *end = '\0';
    s->hooks->wake(s->arg, copy, due_us);
  } else if (strcmp(copy, "new") == 0) { /* `init` has made new data */
    s->hooks->wake(s->arg, NULL, 0);
  } else {
    uvs__redis_note_events(s, strtoull(copy, NULL, 10));
  }
}

void uvs__redis_start(struct uvs__redis *s, uv_loop_t *loop) {
  static const struct uvs__redis_link_hooks link_hooks = {on_up, on_down, on_subscribed,
                                                          on_message};

  s->loop = loop;
  uv_timer_init(loop, &s->patience); /* cannot fail */
  s->patience.data = s;
  s->link = uvs__redis_link_open(loop, s->options, s->channel_names, 2, &link_hooks, s);
  if (*s->warning != '\0')
    s->hooks->event(s->arg, UVS_EVENT_STORE_UNSAFE, s->warning);
}

/* -------------------------------------------------------------------- stop --- */

struct leave_call {
  struct uvs__redis_call call;
  const char *queue;
};

static void end_leave(struct uvs__redis *s) {
  if (--s->leaves > 0)
    return;
  uvs__redis_link_close(s->link);
  uv_close((uv_handle_t *)&s->patience, NULL);
}

static void send_leave(struct leave_call *c, int64_t skip) {
  struct uvs__queue_names queues = {{c->queue}, 1};
  struct uvs__words w = {0};

  uvs__redis_begin(c->call.store, &w, &queues);
  uvs__words_int(&w, skip);
  uvs__redis_send(&c->call, UVS__REDIS_LEAVE, &w, false);
}

static void on_left(struct uvs__redis_call *call, int status, redisReply *const *body, size_t n) {
  struct leave_call *c = (struct leave_call *)(void *)call;

  if (status == 0 && n > 0 && uvs__redis_int(body[0]) >= 0) {
    send_leave(c, uvs__redis_int(body[0]));
    return;
  }
  end_leave(call->store); /* leases that were not ended here end by themselves */
  uvs__jobs_free(c);
}

void uvs__redis_stop(struct uvs__redis *s) {
  if (s->link == NULL) {
    uv_close((uv_handle_t *)&s->patience, NULL);
    return;
  }
  s->leaves = 1;
  for (struct uvs__redis_queue *q = s->queues; q != NULL && s->ready; q = q->next) {
    struct leave_call *c = uvs__jobs_alloc(sizeof *c);

    if (c == NULL)
      break;
    c->call.store = s;
    c->call.answered = on_left;
    c->queue = q->name;
    s->leaves++;
    send_leave(c, 0);
  }
  end_leave(s);
}

/* ------------------------------------------------------------- make, free --- */

void uvs__redis_free(struct uvs__redis *s) {
  while (s->queues != NULL) {
    struct uvs__redis_queue *q = s->queues;

    s->queues = q->next;
    uvs__jobs_free(q);
  }
  uvs__jobs_free(s);
}

int uvs__redis_new(const struct uvs__redis_setup *setup, struct uvs__redis **ret) {
  struct uvs__redis *s = uvs__jobs_alloc(sizeof *s);
  int rc;

  if (s == NULL)
    return UV_ENOMEM;
  rc = uv_random(NULL, NULL, &s->node, sizeof s->node, 0, NULL);
  if (rc != 0) {
    uvs__jobs_free(s);
    return rc;
  }
  s->node = (s->node >> 16) | 1;
  s->options = setup->options;
  s->clock = setup->clock;
  s->face = setup->face;
  s->map = setup->map;
  s->hooks = setup->hooks;
  s->arg = setup->arg;
  s->leads = s->clock.wall_ns == NULL;
  s->housekeeping = s->leads ? HOUSEKEEPING : 0;
  s->random = s->node;
  s->end = &s->waiting;
  s->ask_epoch = ask_epoch;
  snprintf(s->channels[0], sizeof s->channels[0], "{%s}:wake:%llu", s->options->ns,
           (unsigned long long)s->node);
  snprintf(s->channels[1], sizeof s->channels[1], "{%s}:events", s->options->ns);
  s->channel_names[0] = s->channels[0];
  s->channel_names[1] = s->channels[1];
  *ret = s;
  return 0;
}
