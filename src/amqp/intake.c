/* SPDX-License-Identifier: MIT */
#include "amqp/intake.h"

#include <stdio.h>
#include <string.h>

#include "amqp/alloc.h"
#include "amqp/headers.h"

#define MAPS_MAX 1000
#define NAME_MAX_BYTES 200 /* so that the names made from a name are short strings */
#define HEARTBEAT_NS UINT64_C(10000000000)

/* ---------------------------------------------------------------- connection --- */

static void lose(struct uvs__intake *in) {
  for (size_t i = 0; i < in->n_maps; i++)
    uvs__map_closed(&in->maps[i]);
  uvs__hand_drop(in);
  in->has_parking = false;
  uvs__link_drop(&in->link, false);
  if (strcmp(in->told, in->link.error) != 0) {
    snprintf(in->told, sizeof in->told, "%s", in->link.error);
    uvs__amqp_tell(in->amqp, UVS_AMQP_INTAKE_DOWN, in->told);
  }
  in->connect_ns = uv_hrtime() + (uint64_t)uvs__backoff_next(&in->backoff) * 1000000;
}

static void connect_again(struct uvs__intake *in) {
  if (in->link.state != NULL || uv_hrtime() < in->connect_ns)
    return;
  if (!uvs__link_connect(&in->link)) {
    lose(in);
    return;
  }
  in->backoff.wait_ms = 0;
  in->told[0] = '\0';
  for (size_t i = 0; i < in->n_maps; i++)
    in->maps[i].try_ns = 0;
}

static bool subscribe(struct uvs__intake *in) {
  for (size_t i = 0; i < in->n_maps; i++) {
    struct uvs__map *map = &in->maps[i];

    if (map->is_subscribed ? !in->has_parking && !uvs__map_declare_parking(in, map)
                           : uv_hrtime() >= map->try_ns && !uvs__map_subscribe(in, map))
      return false;
  }
  return true;
}

/* -------------------------------------------------------------------- frames --- */

/* The broker has ended a subscription, because the queue was deleted. */
static bool take_cancel(struct uvs__intake *in, struct uvs__map *map,
                        const amqp_basic_cancel_t *cancel) {
  amqp_basic_cancel_ok_t ok = {cancel->consumer_tag};

  map->is_subscribed = false;
  map->try_ns = 0;
  uvs__map_tell(in, map, "the broker has ended the subscription");
  return cancel->nowait ||
         uvs__link_sent(&in->link, amqp_send_method(in->link.state, map->number,
                                                    AMQP_BASIC_CANCEL_OK_METHOD, &ok));
}

static bool take_close(struct uvs__intake *in, struct uvs__map *map,
                       const amqp_channel_close_t *close) {
  amqp_channel_close_ok_t ok;
  char text[300];

  memset(&ok, 0, sizeof ok);
  uvs__link_close_text(close->reply_code, close->reply_text, text, sizeof text);
  uvs__map_tell(in, map, text);
  uvs__map_closed(map);
  map->try_ns = uv_hrtime() + UVS_SEC(1);
  return uvs__link_sent(
      &in->link, amqp_send_method(in->link.state, map->number, AMQP_CHANNEL_CLOSE_OK_METHOD, &ok));
}

static bool take_method(struct uvs__intake *in, struct uvs__map *map, const amqp_method_t *m) {
  switch (m->id) {
  case AMQP_BASIC_DELIVER_METHOD:
    uvs__content_begin(&map->content, m->decoded);
    return true;
  case AMQP_BASIC_CANCEL_METHOD:
    return take_cancel(in, map, m->decoded);
  case AMQP_CHANNEL_CLOSE_METHOD:
    return take_close(in, map, m->decoded);
  default:
    return true;
  }
}

static bool take_frame(struct uvs__intake *in, const amqp_frame_t *frame) {
  struct uvs__map *map;
  int rc;

  if (frame->channel == 0 || frame->channel > in->n_maps)
    return true;
  map = &in->maps[frame->channel - 1];
  if (frame->frame_type == AMQP_FRAME_METHOD)
    return take_method(in, map, &frame->payload.method);
  rc = uvs__content_frame(&map->content, frame);
  if (rc > 0 && !atomic_load(&in->stopping))
    rc = uvs__take(in, map);
  if (rc > 0 || map->content.have == map->content.size)
    uvs__content_end(&map->content);
  if (rc < 0)
    snprintf(in->link.error, sizeof in->link.error, "a message cannot be taken: %s",
             uv_strerror(rc));
  return rc >= 0;
}

static bool take_frames(struct uvs__intake *in) {
  amqp_frame_t frame;
  int rc = 1;

  while (in->held_bytes < UVS__HELD_BYTES && (rc = uvs__link_next(&in->link, &frame)) > 0) {
    bool good = take_frame(in, &frame);
    bool incomplete = frame.channel > 0 && frame.channel <= in->n_maps &&
                      in->maps[frame.channel - 1].content.expects != UVS__CONTENT_NONE;

    if (!incomplete)
      uvs__link_release(&in->link, frame.channel);
    if (!good)
      return false;
  }
  return rc >= 0;
}

/* ------------------------------------------------------------------ acknowledge --- */

static bool acknowledge(struct uvs__intake *in) {
  for (size_t i = 0; i < in->n_maps; i++) {
    struct uvs__map *map = &in->maps[i];
    bool multiple;
    uint64_t tag;

    while (map->is_open && (tag = uvs__tags_ack(&map->tags, &multiple)) != 0) {
      int rc;

      uvs__link_busy(&in->link);
      rc = amqp_basic_ack(in->link.state, map->number, tag, multiple);
      uvs__link_idle(&in->link);
      if (!uvs__link_sent(&in->link, rc))
        return false;
    }
  }
  return true;
}

/* While nothing is read, rabbitmq-c sends no heartbeats. */
static bool beat(struct uvs__intake *in) {
  amqp_frame_t frame;

  if (in->held_bytes < UVS__HELD_BYTES || uv_hrtime() < in->heartbeat_ns)
    return true;
  in->heartbeat_ns = uv_hrtime() + HEARTBEAT_NS;
  memset(&frame, 0, sizeof frame);
  frame.frame_type = AMQP_FRAME_HEARTBEAT;
  return uvs__link_sent(&in->link, amqp_send_frame(in->link.state, &frame));
}

/* ---------------------------------------------------------------------- thread --- */

static bool must_stop(struct uvs__intake *in) {
  bool stop;

  uv_mutex_lock(&in->lock);
  stop = in->stop;
  uv_mutex_unlock(&in->lock);
  return stop;
}

static bool work(struct uvs__intake *in) {
  if (!subscribe(in) || !take_frames(in))
    return false;
  uvs__hand_put(in); /* nothing more has come, so the batch is put now */
  return acknowledge(in) && beat(in);
}

/* Waits until the store and the publisher have answered, and acknowledges. The broker keeps all
 * other messages. */
static void drain(struct uvs__intake *in) {
  amqp_basic_cancel_t cancel[2] = {{uvs__amqp_text("intake"), 1}, {uvs__amqp_text("expired"), 1}};

  atomic_store(&in->stopping, true);
  for (size_t i = 0; in->link.state != NULL && i < 2 * in->n_maps; i++)
    if (in->maps[i / 2].is_open)
      amqp_send_method(in->link.state, in->maps[i / 2].number, AMQP_BASIC_CANCEL_METHOD,
                       &cancel[i % 2]);
  uvs__hand_drop(in);
  for (;;) {
    uvs__hand_answers(in);
    uvs__hand_drop(in); /* refused messages stay in the broker */
    if (in->link.state != NULL && (!take_frames(in) || !acknowledge(in)))
      lose(in);
    if (in->out == 0)
      break;
    uvs__link_wait(&in->link, in->held_bytes < UVS__HELD_BYTES, 250);
  }
}

static void run(void *arg) {
  struct uvs__intake *in = arg;
  uvs_jobs_amqp_t *amqp = in->amqp;

  while (!must_stop(in)) {
    connect_again(in);
    uvs__hand_answers(in);
    uvs__hand_again(in);
    if (in->link.state != NULL && !work(in))
      lose(in);
    uvs__link_wait(&in->link, in->held_bytes < UVS__HELD_BYTES, 250);
  }
  drain(in);
  uvs__link_drop(&in->link, true);
  atomic_store(&amqp->intake_exited, true);
  uv_async_send(&amqp->async);
}

/* ------------------------------------------------------------------------ life --- */

static void free_intake(struct uvs__intake *in) {
  for (size_t i = 0; in->maps != NULL && i < in->n_maps; i++) {
    uvs__map_closed(&in->maps[i]);
    uvs__amqp_free(in->maps[i].intake);
    uvs__amqp_free(in->maps[i].target);
  }
  uvs__amqp_free(in->maps);
  uvs__amqp_free(in->parking);
  uvs__amqp_free(in);
}

struct uvs__link *uvs__intake_link(struct uvs__intake *in) {
  return &in->link;
}

void uvs__intake_join(struct uvs__intake *in) {
  uv_thread_join(&in->thread);
  uvs__link_destroy(&in->link);
  uv_mutex_destroy(&in->lock);
  free_intake(in);
}

static const char *check_map(const uvs_jobs_amqp_intake_t *o, size_t i) {
  const uvs_jobs_amqp_map_t *map = &o->maps[i];

  if (map->intake == NULL || *map->intake == '\0')
    return "an intake has no name";
  if (map->target == NULL)
    return "a target is NULL";
  if (strlen(map->intake) > NAME_MAX_BYTES || strlen(map->target) > NAME_MAX_BYTES)
    return "a name is longer than 200 bytes";
  if (strcmp(map->intake, map->target) == 0)
    return "an intake is its own target: messages would go round for ever";
  for (size_t k = 0; k < i; k++)
    if (strcmp(o->maps[k].intake, map->intake) == 0)
      return "an intake has two targets";
  return NULL;
}

static const char *check(const uvs_jobs_amqp_intake_t *o) {
  const char *why = NULL;

  if (o->maps == NULL || o->n_maps == 0 || o->n_maps > MAPS_MAX)
    return "there must be 1 to 1000 maps";
  if (o->parking == NULL || *o->parking == '\0' || strlen(o->parking) > NAME_MAX_BYTES)
    return "the parking queue needs a name of 1 to 200 bytes";
  for (size_t i = 0; i < o->n_maps && why == NULL; i++)
    why = check_map(o, i);
  return why;
}

static bool copy_options(struct uvs__intake *in, const uvs_jobs_amqp_intake_t *o) {
  in->parking = uvs__amqp_copy(o->parking);
  in->maps = uvs__amqp_alloc(o->n_maps * sizeof *in->maps);
  if (in->parking == NULL || in->maps == NULL)
    return false;
  in->n_maps = o->n_maps;
  for (size_t i = 0; i < o->n_maps; i++) {
    struct uvs__map *map = &in->maps[i];

    uvs__tags_init(&map->tags);
    map->number = (amqp_channel_t)(i + 1);
    map->intake = uvs__amqp_copy(o->maps[i].intake);
    map->target = uvs__amqp_copy(o->maps[i].target);
    if (map->intake == NULL || map->target == NULL)
      return false;
    snprintf(map->queue, sizeof map->queue, "uvsched.%s", map->intake);
    snprintf(map->expired, sizeof map->expired, "uvsched.%s.expired", map->intake);
  }
  return true;
}

static int start(struct uvs__intake *in, const struct uvs__amqp_address *address) {
  int rc = uvs__link_init(&in->link, address, "uvsched: intake");

  if (rc != 0)
    return rc;
  rc = uv_mutex_init(&in->lock);
  if (rc != 0)
    goto destroy_link;
  rc = uv_thread_create(&in->thread, run, in);
  if (rc == 0)
    return 0;
  uv_mutex_destroy(&in->lock);
destroy_link:
  uvs__link_destroy(&in->link);
  return rc;
}

int uvs_jobs_amqp_intake(uvs_jobs_amqp_t *amqp, const uvs_jobs_amqp_intake_t *o, char *text,
                         size_t size) {
  struct uvs__intake *in;
  const char *why;
  int rc;

  if (text != NULL && size > 0)
    *text = '\0';
  if (amqp == NULL || o == NULL || o->size < sizeof *o)
    return UV_EINVAL;
  why = check(o);
  if (why != NULL) {
    if (text != NULL && size > 0)
      snprintf(text, size, "%s", why);
    return UV_EINVAL;
  }
  if (amqp->intake != NULL || amqp->closing)
    return UV_EALREADY;
  in = uvs__amqp_alloc(sizeof *in);
  if (in == NULL)
    return UV_ENOMEM;
  in->amqp = amqp;
  in->batch_end = &in->batch;
  rc = UV_ENOMEM;
  if (!copy_options(in, o))
    goto free_intake;
  rc = uv_random(NULL, NULL, &in->random, sizeof in->random, 0, NULL);
  if (rc != 0)
    goto free_intake;
  amqp->intake = in;
  rc = start(in, &amqp->address);
  if (rc == 0)
    return 0;
  amqp->intake = NULL;
free_intake:
  free_intake(in);
  return rc;
}

int uvs_jobs_amqp_stop(uvs_jobs_amqp_t *amqp, uvs_jobs_amqp_cb cb, void *arg) {
  if (amqp == NULL || amqp->intake == NULL)
    return UV_EINVAL;
  if (amqp->stopping)
    return UV_EALREADY;
  amqp->stopping = true;
  amqp->on_stopped = cb;
  amqp->stopped_arg = arg;
  uv_mutex_lock(&amqp->intake->lock);
  amqp->intake->stop = true;
  uv_mutex_unlock(&amqp->intake->lock);
  uvs__link_wake(&amqp->intake->link);
  return 0;
}
