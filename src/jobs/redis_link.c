/* SPDX-License-Identifier: MIT
 *
 * redis_link: the connections of a store. Commands go over one of them; one receives messages; with
 * replicas=N, one waits for replicas. The link is up when the first one has loaded the scripts and
 * the last one is ready. When it goes down, all connections are made again, to one server.
 */
#include <stdio.h>
#include <string.h>

#include "jobs/alloc.h"
#include "jobs/redis_socket.h"

#define OWNER(p, type, field) ((type *)(void *)((char *)(p)-offsetof(type, field)))

struct link;

struct request {
  struct uvs__redis_command command; /* first */
  struct link *link;
  bool durable;
  uvs__redis_cb cb;
  void *arg;
  struct uvs__redis_held held;
  redisReply *reply; /* waits for replicas */
  int64_t received_ns;
};

struct load {
  struct uvs__redis_command command; /* first */
  struct link *link;
  char sha[41]; /* the server's answer */
};

struct link {
  struct uvs__redis_link face; /* first */
  uv_loop_t *loop;
  const struct uvs__redis_options *options;
  struct uvs__redis_link_hooks hooks;
  void *arg;
  bool closing;
  int pending; /* connections and timer that are not closed */
  struct uvs__redis_connection commands;
  struct uvs__redis_subscription messages;
  struct uvs__redis_replicas replicas;
  struct load loads[UVS__REDIS_SCRIPTS];
  int loading; /* replies of SCRIPT LOAD that have not come */
  bool loaded;
  bool draining; /* the server cannot be used: reconnect when the last reply has come */
  bool probing;
  struct uvs__redis_command probe;
  struct request *refused, *refused_last; /* to be answered by the timer */
  uv_timer_t timer;
};

static struct link *link_of(struct uvs__redis_link *face) {
  return (struct link *)face;
}

static void say_why(struct link *l, const char *why) {
  if (why != l->face.trouble)
    snprintf(l->face.trouble, sizeof l->face.trouble, "%s", why);
}

/* ------------------------------------------------------------------- up, down --- */

static bool has_replicas(const struct link *l) {
  return l->options->replicas > 0;
}

static void look_up(struct link *l) {
  if (l->face.is_up || l->closing || !l->loaded || l->draining ||
      (has_replicas(l) && !l->replicas.connection.ready))
    return;
  l->face.is_up = true;
  l->messages.connection.allowed = true;
  l->hooks.up(l->arg, l->commands.run_id);
  if (!l->closing && l->messages.n > 0)
    uvs__redis_connection_hurry(&l->messages.connection);
}

static void go_down(struct link *l) {
  if (!l->face.is_up)
    return;
  l->face.is_up = false;
  if (!l->closing)
    l->hooks.down(l->arg);
}

static void break_link(struct link *l, int status, const char *why) {
  say_why(l, why);
  uvs__redis_connection_break(&l->commands, status, l->face.trouble);
}

/* -------------------------------------------------------------------- scripts --- */

static void on_load(struct uvs__redis_command *command, int status, redisReply *reply, int64_t at) {
  struct load *load = (struct load *)command;
  struct link *l = load->link;
  char why[160] = "SCRIPT LOAD was not answered with a hash";

  (void)at;
  l->loading--;
  if (reply == NULL)
    return;
  if (status == 0 && reply->type == REDIS_REPLY_STRING && reply->len == 40)
    memcpy(load->sha, reply->str, 41);
  else if (status == 0)
    status = UV_EPROTO;
  else
    uvs__redis_line(why, sizeof why, reply->str, reply->len);
  freeReplyObject(reply);
  if (status != 0) {
    break_link(l, status, why);
  } else if (l->loading == 0) {
    l->loaded = true;
    look_up(l);
  }
}

static void load_scripts(struct link *l) {
  for (int i = 0; i < UVS__REDIS_SCRIPTS; i++) {
    const char *words[] = {"SCRIPT", "LOAD", uvs__redis_scripts[i].text};
    const size_t sizes[] = {6, 4, uvs__redis_scripts[i].size};
    struct uvs__redis_words part = {3, words, sizes};

    if (words[2] == NULL)
      continue; /* a test has fewer scripts */
    l->loads[i].link = l;
    l->loads[i].command.done = on_load;
    if (uvs__redis_connection_send(&l->commands, &l->loads[i].command, &part, 1,
                                   l->options->timeout_ns) != 0) {
      break_link(l, UV_ENOMEM, "no memory");
      return;
    }
    l->loading++;
  }
}

/* ------------------------------------------------------------------- commands --- */

/* Answers the request, and frees it and the reply. */
static void answer(struct request *r, int status, redisReply *reply, int64_t received_ns) {
  r->cb(r->arg, status, status == 0 ? reply : NULL, r->command.sent_ns, received_ns);
  if (reply != NULL)
    freeReplyObject(reply);
  uvs__jobs_free(r);
}

static void on_replicas_have_it(struct uvs__redis_held *h, int status, const char *why) {
  struct request *r = OWNER(h, struct request, held);

  if (status != 0)
    say_why(r->link, why);
  answer(r, status, r->reply, r->received_ns);
}

static void heal(struct link *l, enum uvs__redis_remedy remedy) {
  if (remedy == UVS__REDIS_LOAD_SCRIPTS && l->loading == 0 && l->commands.ready)
    load_scripts(l);
  if (remedy == UVS__REDIS_RECONNECT) {
    l->draining = true;
    go_down(l);
  }
}

static void on_reply(struct uvs__redis_command *command, int status, redisReply *reply,
                     int64_t received_ns) {
  struct request *r = (struct request *)command;
  struct link *l = r->link;
  enum uvs__redis_remedy remedy = UVS__REDIS_CARRY_ON;

  if (reply != NULL && status != 0) {
    uvs__redis_error(reply, &remedy);
    uvs__redis_line(l->face.trouble, sizeof l->face.trouble, reply->str, reply->len);
    heal(l, remedy);
  }
  if (status == 0 && r->durable && has_replicas(l)) {
    r->reply = reply;
    r->received_ns = received_ns;
    uvs__redis_replicas_hold(&l->replicas, &r->held);
  } else {
    answer(r, status, reply, received_ns);
  }
  if (l->draining && l->commands.ready && uvs__redis_socket_idle(l->commands.socket))
    break_link(l, UV_EAGAIN, l->face.trouble);
}

static void on_timer(uv_timer_t *timer) {
  struct link *l = timer->data;
  struct request *r = l->refused, *next;

  l->refused = l->refused_last = NULL;
  for (; r != NULL; r = next) {
    next = (struct request *)r->command.next;
    answer(r, UV_EAGAIN, NULL, (int64_t)uv_hrtime());
  }
}

static void refuse(struct link *l, struct request *r) {
  r->command.sent_ns = (int64_t)uv_hrtime();
  r->command.next = NULL;
  if (l->refused == NULL) {
    l->refused = r;
    uv_timer_start(&l->timer, on_timer, 0, 0);
  } else {
    l->refused_last->command.next = &r->command;
  }
  l->refused_last = r;
}

int uvs__redis_link_send(struct uvs__redis_link *face, enum uvs__redis_script script, int n,
                         const char *const *words, const size_t *sizes, bool durable,
                         uvs__redis_cb cb, void *arg) {
  struct link *l = link_of(face);
  struct request *r = uvs__jobs_alloc(sizeof *r);
  const char *head[] = {"EVALSHA", script < 0 ? "" : l->loads[script].sha};
  struct uvs__redis_words parts[] = {{script < 0 ? 0 : 2, head, NULL}, {n, words, sizes}};

  if (r == NULL)
    return UV_ENOMEM;
  r->link = l;
  r->durable = durable;
  r->cb = cb;
  r->arg = arg;
  r->held.done = on_replicas_have_it;
  r->command.done = on_reply;
  if (!l->face.is_up) {
    refuse(l, r);
    return 0;
  }
  if (uvs__redis_connection_send(&l->commands, &r->command, parts, 2, l->options->timeout_ns) !=
      0) {
    uvs__jobs_free(r);
    return UV_ENOMEM;
  }
  return 0;
}

/* ---------------------------------------------------------------- connections --- */

static void on_commands_ready(struct uvs__redis_connection *c) {
  struct link *l = c->owner;

  l->loaded = l->draining = false;
  load_scripts(l);
  if (has_replicas(l)) {
    l->replicas.connection.allowed = true;
    uvs__redis_connection_hurry(&l->replicas.connection);
  }
}

/* The other connections are made again, too: the next server may be another one. */
static void on_commands_down(struct uvs__redis_connection *c, bool was_ready) {
  struct link *l = c->owner;

  say_why(l, c->trouble);
  l->loaded = false;
  go_down(l);
  l->messages.connection.allowed = l->replicas.connection.allowed = false;
  if (was_ready && !l->closing) {
    uvs__redis_connection_break(&l->messages.connection, UV_EAGAIN, c->trouble);
    uvs__redis_connection_break(&l->replicas.connection, UV_EAGAIN, c->trouble);
  }
}

static struct link *of_replicas(struct uvs__redis_replicas *r) {
  return OWNER(r, struct link, replicas);
}

static void on_replicas_ready(struct uvs__redis_replicas *r) {
  look_up(of_replicas(r));
}

static void on_replicas_down(struct uvs__redis_replicas *r, bool was_ready) {
  struct link *l = of_replicas(r);

  if (was_ready)
    break_link(l, UV_EAGAIN, r->connection.trouble);
  else if (!l->face.is_up)
    say_why(l, r->connection.trouble);
}

static struct link *of_messages(struct uvs__redis_subscription *s) {
  return OWNER(s, struct link, messages);
}

static void on_subscribed(struct uvs__redis_subscription *s) {
  struct link *l = of_messages(s);

  if (!l->closing)
    l->hooks.subscribed(l->arg);
}

static void on_message(struct uvs__redis_subscription *s, const char *channel, const char *text,
                       size_t size) {
  struct link *l = of_messages(s);

  if (!l->closing)
    l->hooks.message(l->arg, channel, text, size);
}

static void on_probed(struct uvs__redis_command *command, int status, redisReply *reply,
                      int64_t at) {
  (void)status;
  (void)at;
  OWNER(command, struct link, probe)->probing = false;
  if (reply != NULL)
    freeReplyObject(reply);
}

/* Perhaps the server is gone, and the connection for commands has not noticed. */
static void on_messages_down(struct uvs__redis_subscription *s, bool was_ready) {
  struct link *l = of_messages(s);
  struct uvs__redis_words words = {1, (const char *const[]){"PING"}, NULL};

  if (!was_ready || l->probing || !l->commands.ready)
    return;
  l->probe.done = on_probed;
  l->probing =
      uvs__redis_connection_send(&l->commands, &l->probe, &words, 1, l->options->timeout_ns) == 0;
}

/* --------------------------------------------------------------- open, close --- */

static void end_one(struct link *l) {
  if (--l->pending == 0)
    uvs__jobs_free(l);
}

static void on_timer_closed(uv_handle_t *timer) {
  end_one(timer->data);
}

static void on_commands_closed(struct uvs__redis_connection *c) {
  end_one(c->owner);
}

static void on_messages_closed(struct uvs__redis_subscription *s) {
  end_one(of_messages(s));
}

static void on_replicas_closed(struct uvs__redis_replicas *r) {
  end_one(of_replicas(r));
}

static void open_commands(struct link *l) {
  static const struct uvs__redis_connection_hooks hooks = {on_commands_ready, on_commands_down,
                                                           NULL, on_commands_closed};

  l->commands.loop = l->loop;
  l->commands.options = l->options;
  l->commands.name = "uvsched";
  l->commands.hooks = &hooks;
  l->commands.owner = l;
  l->pending++;
  uvs__redis_connection_open(&l->commands);
}

static void open_messages(struct link *l, const char *const *channels, size_t n) {
  l->messages.connection.loop = l->loop;
  l->messages.connection.options = l->options;
  l->messages.connection.leader = &l->commands;
  l->messages.channels = channels;
  l->messages.n = n;
  l->messages.subscribed = on_subscribed;
  l->messages.message = on_message;
  l->messages.down = on_messages_down;
  l->messages.closed = on_messages_closed;
  l->pending++;
  uvs__redis_subscription_open(&l->messages);
}

static void open_replicas(struct link *l) {
  l->replicas.connection.loop = l->loop;
  l->replicas.connection.options = l->options;
  l->replicas.connection.leader = &l->commands;
  l->replicas.ready = on_replicas_ready;
  l->replicas.down = on_replicas_down;
  l->replicas.closed = on_replicas_closed;
  l->pending++;
  uvs__redis_replicas_open(&l->replicas);
}

struct uvs__redis_link *uvs__redis_link_open(uv_loop_t *loop, const struct uvs__redis_options *o,
                                             const char *const *channels, size_t n,
                                             const struct uvs__redis_link_hooks *hooks, void *arg) {
  struct link *l = uvs__jobs_alloc(sizeof *l);

  if (l == NULL)
    return NULL;
  uvs__redis_block_sigpipe(NULL);
  l->loop = loop;
  l->options = o;
  l->hooks = *hooks;
  l->arg = arg;
  snprintf(l->face.trouble, sizeof l->face.trouble, "not connected yet");
  uv_timer_init(loop, &l->timer);
  l->timer.data = l;
  l->pending = 1;
  open_commands(l);
  if (n > 0)
    open_messages(l, channels, n);
  if (has_replicas(l))
    open_replicas(l);
  return &l->face;
}

void uvs__redis_link_close(struct uvs__redis_link *face) {
  struct link *l = link_of(face);

  l->closing = true;
  l->face.is_up = false;
  if (l->messages.n > 0)
    uvs__redis_subscription_close(&l->messages);
  if (has_replicas(l))
    uvs__redis_replicas_close(&l->replicas);
  uvs__redis_connection_close(&l->commands);
  on_timer(&l->timer);
  uv_close((uv_handle_t *)&l->timer, on_timer_closed);
}
