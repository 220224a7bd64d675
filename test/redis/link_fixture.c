/* SPDX-License-Identifier: MIT */
#include "link_fixture.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCRIPT(name, text) \
  { name, text, sizeof(text) - 1 }

const struct uvs__redis_script_text uvs__redis_scripts[UVS__REDIS_SCRIPTS] = {
    [SCRIPT_ECHO] = SCRIPT("echo", "#!lua flags=allow-oom\nreturn {KEYS[1], ARGV[1]}"),
    [SCRIPT_COUNT] = SCRIPT("count", "#!lua\nreturn redis.call('INCR', KEYS[1])"),
    [SCRIPT_READ] = SCRIPT("read", "#!lua flags=allow-oom\nreturn redis.call('GET', KEYS[1])"),
    [SCRIPT_STORE] = SCRIPT("store", "#!lua\nreturn redis.call('SET', KEYS[1], ARGV[1])"),
};

static void on_up(void *arg, const char *run_id) {
  struct link_fixture *f = arg;

  f->ups++;
  snprintf(f->run_id, sizeof f->run_id, "%s", run_id);
}

static void on_down(void *arg) {
  struct link_fixture *f = arg;

  f->downs++;
}

static void on_subscribed(void *arg) {
  struct link_fixture *f = arg;

  f->subscribed++;
}

static void on_message(void *arg, const char *channel, const char *text, size_t size) {
  struct link_fixture *f = arg;

  f->messages++;
  snprintf(f->channel, sizeof f->channel, "%s", channel);
  snprintf(f->message, sizeof f->message, "%.*s", (int)size, text);
}

void link_init(struct link_fixture *f, const char *url, ...) {
  static const struct uvs__redis_link_hooks hooks = {on_up, on_down, on_subscribed, on_message};
  static const char *const channels[] = {"{t}:wake:1", "{t}:events"};
  char name[500], text[200];
  va_list arguments;

  memset(f, 0, sizeof *f);
  va_start(arguments, url);
  vsnprintf(name, sizeof name, url, arguments);
  va_end(arguments);
  if (uvs__redis_read_url(name, &f->options, text, sizeof text) != 0) {
    fprintf(stderr, "%s: %s\n", name, text);
    abort();
  }
  if (uv_loop_init(&f->loop) != 0)
    abort();
  f->link = uvs__redis_link_open(&f->loop, f->options, channels, 2, &hooks, f);
  if (f->link == NULL)
    abort();
}

void link_close(struct link_fixture *f) {
  if (f->link != NULL)
    uvs__redis_link_close(f->link);
  uv_run(&f->loop, UV_RUN_DEFAULT);
  if (uv_loop_close(&f->loop) != 0)
    abort();
  uvs__redis_free_options(f->options);
}

static void on_timer(uv_timer_t *timer) {
  uv_close((uv_handle_t *)timer, NULL);
}

/* A pass of the loop takes at most 10 ms of waiting. */
void link_turn(struct link_fixture *f) {
  static uv_timer_t timer;

  uv_timer_init(&f->loop, &timer);
  uv_timer_start(&timer, on_timer, 10, 0);
  uv_run(&f->loop, UV_RUN_ONCE);
  f->turns++;
  if (!uv_is_closing((uv_handle_t *)&timer))
    uv_close((uv_handle_t *)&timer, NULL);
  uv_run(&f->loop, UV_RUN_NOWAIT); /* closes the timer */
}

void link_run_ms(struct link_fixture *f, unsigned ms) {
  uint64_t until = uv_hrtime() + ms * UINT64_C(1000000);

  while (uv_hrtime() < until)
    link_turn(f);
}

static void on_answer(void *arg, int status, const redisReply *reply, int64_t sent_ns,
                      int64_t received_ns) {
  struct answer *a = arg;
  const redisReply *r = reply;

  a->times++;
  a->f->answers++;
  a->status = status;
  a->sent_ns = sent_ns;
  a->received_ns = received_ns;
  if (status != 0) {
    snprintf(a->trouble, sizeof a->trouble, "%s", a->f->link->trouble);
    return;
  }
  if (r->type == REDIS_REPLY_ARRAY)
    r = r->element[0];
  a->number = r->integer;
  if (r->type == REDIS_REPLY_STRING || r->type == REDIS_REPLY_STATUS)
    snprintf(a->text, sizeof a->text, "%s", r->str);
}

static void send_list(struct link_fixture *f, struct answer *a, int script, bool durable,
                      va_list words) {
  const char *list[20];
  size_t sizes[20];
  int n = 0;

  memset(a, 0, sizeof *a);
  a->f = f;
  while ((list[n] = va_arg(words, const char *)) != NULL) {
    sizes[n] = strlen(list[n]);
    n++;
  }
  if (uvs__redis_link_send(f->link, (enum uvs__redis_script)script, n, list, sizes, durable,
                           on_answer, a) != 0 ||
      a->times != 0)
    abort();
}

void link_send(struct link_fixture *f, struct answer *a, int script, ...) {
  va_list words;

  va_start(words, script);
  send_list(f, a, script, false, words);
  va_end(words);
}

void link_send_durable(struct link_fixture *f, struct answer *a, int script, ...) {
  va_list words;

  va_start(words, script);
  send_list(f, a, script, true, words);
  va_end(words);
}

static int run_until_answered(struct link_fixture *f, const struct answer *a) {
  uint64_t until = uv_hrtime() + UINT64_C(60000000000);

  while (a->times == 0) {
    if (uv_hrtime() > until)
      abort();
    link_turn(f);
  }
  return a->status;
}

int link_ask(struct link_fixture *f, struct answer *a, int script, ...) {
  va_list words;

  va_start(words, script);
  send_list(f, a, script, false, words);
  va_end(words);
  return run_until_answered(f, a);
}

int link_set(struct link_fixture *f, struct answer *a, int n, const char *const *words,
             const size_t *sizes) {
  memset(a, 0, sizeof *a);
  a->f = f;
  if (uvs__redis_link_send(f->link, UVS__REDIS_NO_SCRIPT, n, words, sizes, false, on_answer, a) !=
      0)
    abort();
  return run_until_answered(f, a);
}
