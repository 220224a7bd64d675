/* SPDX-License-Identifier: MIT */
#include "amqp/publisher.h"

#include <stdio.h>
#include <string.h>

#include <uvsched/jobs_amqp.h>

#include "amqp/alloc.h"

#define LOOK_NS UINT64_C(250000000) /* how often waiting messages are looked at */

void uvs__send_end(struct uvs__send *send, enum uvs__sent how, const char *text) {
  char *returned = send->returned;

  send->returned = NULL;
  send->ended(send, how, text);
  uvs__amqp_free(returned); /* may be text */
}

/* ------------------------------------------------------------------- tell --- */

static void tell_down(struct uvs__publisher *p) {
  if (strcmp(p->told, p->link.error) == 0)
    return;
  snprintf(p->told, sizeof p->told, "%s", p->link.error);
  p->tell(p->arg, UVS_AMQP_DOWN, p->told);
}

static void set_blocked(struct uvs__publisher *p, bool blocked, amqp_bytes_t reason) {
  char text[200];

  if (p->blocked == blocked)
    return;
  p->blocked = blocked;
  snprintf(text, sizeof text, "%.*s", reason.len > 150 ? 150 : (int)reason.len,
           reason.bytes == NULL ? "" : (const char *)reason.bytes);
  p->tell(p->arg, blocked ? UVS_AMQP_BLOCKED : UVS_AMQP_UNBLOCKED, text);
}

/* ------------------------------------------------------------- connection --- */

static void lose(struct uvs__publisher *p) {
  for (size_t i = 0; i < p->n_targets; i++)
    uvs__target_lost(p, p->targets[i]);
  uvs__link_drop(&p->link, false);
  p->blocked = false;
  tell_down(p);
  p->connect_ns = uv_hrtime() + (uint64_t)uvs__backoff_next(&p->backoff) * 1000000;
}

static void connect_again(struct uvs__publisher *p) {
  if (p->link.state != NULL || uv_hrtime() < p->connect_ns)
    return;
  if (!uvs__link_connect(&p->link)) {
    lose(p);
    return;
  }
  p->backoff.wait_ms = 0;
  p->told[0] = '\0';
  p->tell(p->arg, UVS_AMQP_UP, p->link.address->shown);
}

static struct uvs__target *target_of(struct uvs__publisher *p, amqp_channel_t number) {
  for (size_t i = 0; i < p->n_targets; i++)
    if (p->targets[i]->number == number)
      return p->targets[i];
  return NULL;
}

static bool take_frame(struct uvs__publisher *p, const amqp_frame_t *frame) {
  struct uvs__target *t = target_of(p, frame->channel);

  if (frame->channel == 0 && frame->frame_type == AMQP_FRAME_METHOD) {
    if (frame->payload.method.id == AMQP_CONNECTION_BLOCKED_METHOD)
      set_blocked(p, true,
                  ((const amqp_connection_blocked_t *)frame->payload.method.decoded)->reason);
    else if (frame->payload.method.id == AMQP_CONNECTION_UNBLOCKED_METHOD)
      set_blocked(p, false, amqp_empty_bytes);
  }
  if (t != NULL && !uvs__target_frame(p, t, frame))
    return false;
  if (t == NULL || t->returning.expects == UVS__CONTENT_NONE)
    uvs__link_release(&p->link, frame->channel);
  return true;
}

static bool take_frames(struct uvs__publisher *p) {
  amqp_frame_t frame;
  int rc;

  while ((rc = uvs__link_next(&p->link, &frame)) > 0)
    if (!take_frame(p, &frame))
      return false;
  return rc == 0;
}

/* --------------------------------------------------------------------- inbox --- */

void uvs__publisher_send(struct uvs__publisher *p, struct uvs__send *send) {
  bool was_empty, stopped;

  send->next = NULL;
  send->since_ns = uv_hrtime();
  send->dropped_for = 0;
  send->is_returned = false;
  send->returned = NULL;
  uv_mutex_lock(&p->lock);
  was_empty = p->inbox == NULL;
  stopped = p->stop;
  if (!stopped) {
    *p->inbox_end = send;
    p->inbox_end = &send->next;
  }
  uv_mutex_unlock(&p->lock);
  if (stopped)
    uvs__send_end(send, UVS__SENT_LATER, "the program ends");
  else if (was_empty)
    uvs__link_wake(&p->link);
}

/* Moves the inbox to the targets. Returns false: stop. */
static bool take_inbox(struct uvs__publisher *p, bool *ret_go) {
  struct uvs__send *list;
  bool stop;

  uv_mutex_lock(&p->lock);
  list = p->inbox;
  p->inbox = NULL;
  p->inbox_end = &p->inbox;
  stop = p->stop;
  *ret_go = p->go;
  uv_mutex_unlock(&p->lock);
  while (list != NULL) {
    struct uvs__send *send = list;
    struct uvs__target *t;
    amqp_bytes_t exchange;

    list = send->next;
    if (uvs__message_exchange(send->payload, send->size, &exchange) != 0) {
      uvs__send_end(send, UVS__SENT_INVALID, "the payload is not an encoded message");
      continue;
    }
    t = uvs__target_find(p, exchange);
    if (t == NULL)
      uvs__send_end(send, UVS__SENT_LATER, "too many exchanges at the same time");
    else
      uvs__target_add(t, send);
  }
  return !stop;
}

/* -------------------------------------------------------------------- thread --- */

static bool work(struct uvs__publisher *p) {
  if (!take_frames(p))
    return false;
  for (size_t i = 0; i < p->n_targets && !p->blocked; i++)
    if (!uvs__target_send(p, p->targets[i]))
      return false;
  return true;
}

static bool has_work(const struct uvs__publisher *p) {
  for (size_t i = 0; i < p->n_targets && !p->blocked; i++) {
    const struct uvs__target *t = p->targets[i];

    if (t->waiting != NULL && t->next - t->first < (t->careful > 0 ? 1 : UVS__WINDOW))
      return true;
  }
  return false;
}

static void look(struct uvs__publisher *p, bool all) {
  if (!all && uv_hrtime() < p->look_ns)
    return;
  p->look_ns = uv_hrtime() + LOOK_NS;
  for (size_t i = 0; i < p->n_targets; i++)
    uvs__target_look(p->targets[i], all);
}

static void free_targets(struct uvs__publisher *p) {
  for (size_t i = 0; i < p->n_targets; i++) {
    uvs__content_end(&p->targets[i]->returning);
    uvs__amqp_free(p->targets[i]);
  }
  p->n_targets = 0;
}

static void run(void *arg) {
  struct uvs__publisher *p = arg;
  bool go;

  init_amqp_pool(&p->pool, 8192);
  while (take_inbox(p, &go)) {
    if (go)
      connect_again(p);
    if (p->link.state != NULL && !work(p))
      lose(p);
    look(p, false);
    uvs__link_wait(&p->link, true, p->link.state != NULL && has_work(p) ? 0 : 250);
  }
  look(p, true);
  for (size_t i = 0; i < p->n_targets; i++)
    uvs__target_lost(p, p->targets[i]);
  uvs__link_drop(&p->link, !p->blocked);
  free_targets(p);
  empty_amqp_pool(&p->pool);
  p->exited(p->arg);
}

int uvs__publisher_start(struct uvs__publisher *p, const struct uvs__amqp_address *address,
                         void (*tell)(void *, int, const char *), void (*exited)(void *),
                         void *arg) {
  int rc;

  memset(p, 0, sizeof *p);
  p->inbox_end = &p->inbox;
  p->tell = tell;
  p->exited = exited;
  p->arg = arg;
  rc = uvs__link_init(&p->link, address, "uvsched: publishing");
  if (rc != 0)
    return rc;
  rc = uv_mutex_init(&p->lock);
  if (rc != 0)
    goto destroy_link;
  rc = uv_thread_create(&p->thread, run, p);
  if (rc == 0)
    return 0;
  uv_mutex_destroy(&p->lock);
destroy_link:
  uvs__link_destroy(&p->link);
  return rc;
}

void uvs__publisher_go(struct uvs__publisher *p) {
  uv_mutex_lock(&p->lock);
  p->go = true;
  uv_mutex_unlock(&p->lock);
  uvs__link_wake(&p->link);
}

void uvs__publisher_stop(struct uvs__publisher *p) {
  uv_mutex_lock(&p->lock);
  p->stop = true;
  uv_mutex_unlock(&p->lock);
  uvs__link_wake(&p->link);
}

void uvs__publisher_join(struct uvs__publisher *p) {
  uv_thread_join(&p->thread);
  uv_mutex_destroy(&p->lock);
  uvs__link_destroy(&p->link);
}
