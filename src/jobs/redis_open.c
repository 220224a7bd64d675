/* SPDX-License-Identifier: MIT
 *
 * redis_open: opens and closes the store in Redis, and carries out batches.
 *
 * EPOCH. The data has an epoch, a random text that `init` writes when it finds no data. Each script
 * compares the caller's epoch with that of the data. If they differ, the server has lost its data,
 * or another server answers. Then the store calls `init` again, reports a reset, and answers its
 * requests with UV_EAGAIN. Requests that come before the epoch is known wait for it.
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

  snprintf(s->base.trouble, sizeof s->base.trouble, "%s", s->link->trouble);
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

static void on_epoch(struct uvs__redis *s, const redisReply *reply) {
  const char *text = reply->element[1]->str;
  bool is_new = s->epoch[0] == '\0', is_other = strcmp(s->epoch, text) != 0;

  snprintf(s->epoch, sizeof s->epoch, "%s", text);
  s->ready = true;
  if (is_other && !is_new) {
    s->base.events = 0;
    s->hooks->event(s->arg, UVS_EVENT_STORE_RESET, "Redis was flushed, or another server answers");
  }
  dispatch(s, take_waiting(s));
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
    on_epoch(s, reply);
    return;
  }
  if (status == 0) {
    snprintf(s->base.trouble, sizeof s->base.trouble,
             "the data has format %.20s, and this program knows format " UVS__REDIS_FORMAT,
             reply->element[1]->str);
    status = UV_EIO;
  } else {
    snprintf(s->base.trouble, sizeof s->base.trouble, "%s", s->link->trouble);
  }
  answer_all(take_waiting(s), status == UVS_EUNKNOWN ? UV_EAGAIN : status);
}

static bool make_epoch(char ret[33]) {
  unsigned char random[16];

  if (uv_random(NULL, NULL, random, sizeof random, 0, NULL) != 0)
    return false;
  for (size_t i = 0; i < sizeof random; i++)
    snprintf(ret + 2 * i, 3, "%02x", random[i]);
  return true;
}

static void ask_epoch(struct uvs__redis *s) {
  struct uvs__words w = {0};
  char epoch[33];
  bool good;

  s->ready = false;
  if (s->asking)
    return;
  good = make_epoch(epoch);
  uvs__words_text(&w, "2");
  uvs__words_text(&w, uvs__redis_key(s, &w.arena, "meta", ""));
  uvs__words_text(&w, uvs__redis_key(s, &w.arena, "put:" UVS__REDIS_FORMAT, ""));
  uvs__words_text(&w, UVS__REDIS_FORMAT);
  uvs__words_text(&w, epoch);
  uvs__words_text(&w, s->run_id);
  uvs__words_add(&w, uvs__redis_scripts[UVS__REDIS_PUT].text,
                 uvs__redis_scripts[UVS__REDIS_PUT].size);
  if (good && !w.no_memory)
    s->asking = uvs__redis_link_send(s->link, UVS__REDIS_INIT, w.n, w.words, w.sizes, false,
                                     on_init, s) == 0;
  uvs__words_free(&w);
  if (!s->asking) { /* the next request tries again */
    snprintf(s->base.trouble, sizeof s->base.trouble, "there is not enough memory");
    answer_all(take_waiting(s), UV_EAGAIN);
  }
}

static void run(struct uvs__store *store, struct uvs__request *first) {
  struct uvs__redis *s = (struct uvs__redis *)store;

  store->trouble[0] = '\0';
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
    s->base.events = strtoull(copy, NULL, 10);
    s->hooks->wake(s->arg, "", 0); /* no queue: only look at the events */
  }
}

static void start(struct uvs__store *store, uv_loop_t *loop, const struct uvs__store_hooks *hooks,
                  void *arg) {
  static const struct uvs__redis_link_hooks link_hooks = {on_up, on_down, on_subscribed,
                                                          on_message};
  struct uvs__redis *s = (struct uvs__redis *)store;

  s->loop = loop;
  s->hooks = hooks;
  s->arg = arg;
  uv_timer_init(loop, &s->patience); /* cannot fail */
  s->patience.data = s;
  s->link = uvs__redis_link_open(loop, s->options, s->channel_names, 2, &link_hooks, s);
  if (*s->warning != '\0')
    hooks->event(arg, UVS_EVENT_STORE_UNSAFE, s->warning);
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

/* Leaves the queues that this opener has claimed from. */
static void stop(struct uvs__store *store) {
  struct uvs__redis *s = (struct uvs__redis *)store;

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

/* ------------------------------------------------------------- open, close --- */

/* There is a message for everything except the end of a job that is done. A caller who reads a job
 * that has not ended may wait for that end, so the store must be polled. */
static bool poll_waits(struct uvs__store *store) {
  struct uvs__redis *s = (struct uvs__redis *)store;
  bool waited_for = s->waited_for;

  s->waited_for = false;
  return waited_for;
}

static int idle(struct uvs__store *store) {
  (void)store;
  return 0;
}

static int64_t now_us(struct uvs__store *store) {
  return uvs__redis_now_us((struct uvs__redis *)store);
}

static void close_store(struct uvs__store *store) {
  struct uvs__redis *s = (struct uvs__redis *)store;

  while (s->queues != NULL) {
    struct uvs__redis_queue *q = s->queues;

    s->queues = q->next;
    uvs__jobs_free(q);
  }
  uvs__redis_free_options(s->options);
  uvs__jobs_free(s);
}

static int make(struct uvs__redis_options *options, uvs_clock_t clock, struct uvs__redis **ret) {
  static const struct uvs__store_ops ops = {start, stop,   run,        poll_waits,
                                            idle,  now_us, close_store};
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
  s->base.ops = &ops;
  s->options = options;
  s->clock = clock;
  s->leads = clock.wall_ns == NULL;
  s->housekeeping = s->leads ? HOUSEKEEPING : 0;
  s->random = s->node;
  s->end = &s->waiting;
  s->ask_epoch = ask_epoch;
  snprintf(s->channels[0], sizeof s->channels[0], "{%s}:wake:%llu", options->ns,
           (unsigned long long)s->node);
  snprintf(s->channels[1], sizeof s->channels[1], "{%s}:events", options->ns);
  s->channel_names[0] = s->channels[0];
  s->channel_names[1] = s->channels[1];
  *ret = s;
  return 0;
}

int uvs__redis_open(const struct uvs__store_config *config, struct uvs__store **ret, char *text,
                    size_t size) {
  struct uvs__redis_options *options;
  struct uvs__redis *s = NULL;
  struct uvs__redis_reading clock;
  char warning[UVS__REDIS_WARNING_MAX];
  int rc = uvs__redis_read_url(config->name, &options, text, size);

  if (rc != 0)
    return rc;
  rc = uvs__redis_check(options, config->existing, warning, sizeof warning, text, size, &clock);
  if (rc == 0) {
    rc = make(options, config->clock, &s);
    if (rc != 0)
      snprintf(text, size, "the store cannot be opened: %s", uv_strerror(rc));
  }
  if (rc != 0) {
    uvs__redis_free_options(options);
    return rc;
  }
  strcpy(s->warning, warning);
  uvs__redis_note_clock(s, clock); /* the clock of this machine may be wrong */
  *ret = &s->base;
  return 0;
}
