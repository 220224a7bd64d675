/* SPDX-License-Identifier: MIT
 *
 * subscribe: declares exchanges and queues, and subscribes. Declaring what exists changes nothing.
 */
#include <stdio.h>
#include <string.h>

#include "amqp/headers.h"
#include "amqp/intake.h"

#define AGAIN_NS UINT64_C(2000000000)

void uvs__map_tell(struct uvs__intake *in, struct uvs__map *map, const char *why) {
  char text[700];

  if (strcmp(map->told, why) == 0)
    return;
  snprintf(map->told, sizeof map->told, "%s", why);
  snprintf(text, sizeof text, "%.200s: %s", map->intake, why);
  uvs__amqp_tell(in->amqp, UVS_AMQP_INTAKE_DOWN, text);
}

void uvs__map_closed(struct uvs__map *map) {
  map->is_open = map->is_subscribed = false;
  map->epoch++;
  uvs__tags_free(&map->tags);
  uvs__content_end(&map->content);
}

/* Call it after a call that waits for an answer. Returns true: go on. */
static bool answered(struct uvs__intake *in, struct uvs__map *map, const char *what, int *ret) {
  *ret = uvs__link_answer(&in->link, map->number, what);
  return *ret == 0;
}

static amqp_bytes_t text(const char *s) {
  return uvs__amqp_text(s);
}

static int open_channel(struct uvs__intake *in, struct uvs__map *map) {
  amqp_connection_state_t c = in->link.state;
  int rc;

  amqp_channel_open(c, map->number);
  if (!answered(in, map, "a channel cannot be opened", &rc))
    return rc;
  amqp_basic_qos(c, map->number, 0, UVS__PREFETCH, 0);
  if (!answered(in, map, "the prefetch cannot be set", &rc))
    return rc;
  uvs__map_closed(map);
  map->is_open = true;
  return 0;
}

/* Messages that expire in the intake queue go to the exchange map->expired, and so to the queue of
 * the same name. */
static int declare(struct uvs__intake *in, struct uvs__map *map) {
  amqp_connection_state_t c = in->link.state;
  amqp_channel_t n = map->number;
  amqp_table_entry_t argument = {text("x-dead-letter-exchange"), uvs__amqp_string(map->expired)};
  amqp_table_t arguments = {1, &argument};
  int rc;

  amqp_exchange_declare(c, n, text(map->intake), text("topic"), 0, 1, 0, 0, amqp_empty_table);
  if (!answered(in, map, "the intake exchange cannot be declared", &rc))
    return rc;
  amqp_exchange_declare(c, n, text(map->expired), text("fanout"), 0, 1, 0, 0, amqp_empty_table);
  if (!answered(in, map, "the exchange for expired messages cannot be declared", &rc))
    return rc;
  amqp_queue_declare(c, n, text(map->expired), 0, 1, 0, 0, amqp_empty_table);
  if (!answered(in, map, "the queue for expired messages cannot be declared", &rc))
    return rc;
  amqp_queue_bind(c, n, text(map->expired), text(map->expired), text(""), amqp_empty_table);
  if (!answered(in, map, "the queue for expired messages cannot be bound", &rc))
    return rc;
  amqp_queue_declare(c, n, text(map->queue), 0, 1, 0, 0, arguments);
  if (!answered(in, map, "the intake queue cannot be declared", &rc))
    return rc;
  amqp_queue_bind(c, n, text(map->queue), text(map->intake), text("#"), amqp_empty_table);
  answered(in, map, "the intake queue cannot be bound", &rc);
  return rc;
}

static int declare_parking(struct uvs__intake *in, struct uvs__map *map) {
  int rc;

  amqp_queue_declare(in->link.state, map->number, text(in->parking), 0, 1, 0, 0, amqp_empty_table);
  if (answered(in, map, "the parking queue cannot be declared", &rc))
    in->has_parking = true;
  return rc;
}

static int consume(struct uvs__intake *in, struct uvs__map *map) {
  amqp_connection_state_t c = in->link.state;
  int rc;

  /* After basic.cancel one of the two consumers may be left. */
  amqp_basic_cancel(c, map->number, text("intake"));
  if (answered(in, map, "the subscription cannot be ended", &rc))
    amqp_basic_cancel(c, map->number, text("expired"));
  if (rc != 0 || !answered(in, map, "the subscription cannot be ended", &rc))
    return rc;
  amqp_basic_consume(c, map->number, text(map->queue), text("intake"), 0, 0, 0, amqp_empty_table);
  if (!answered(in, map, "the intake queue cannot be consumed", &rc))
    return rc;
  amqp_basic_consume(c, map->number, text(map->expired), text("expired"), 0, 0, 0,
                     amqp_empty_table);
  answered(in, map, "the queue for expired messages cannot be consumed", &rc);
  return rc;
}

/* Call it after a failed call. Returns false: the connection is lost. */
static bool failed(struct uvs__intake *in, struct uvs__map *map, int rc) {
  if (rc < 0)
    return false;
  uvs__map_tell(in, map, in->link.error);
  uvs__map_closed(map);
  map->try_ns = uv_hrtime() + AGAIN_NS;
  return true;
}

bool uvs__map_subscribe(struct uvs__intake *in, struct uvs__map *map) {
  char shown[700];
  int rc = 0;

  uvs__link_busy(&in->link);
  if (!map->is_open)
    rc = open_channel(in, map);
  if (rc == 0 && !in->has_parking)
    rc = declare_parking(in, map);
  if (rc == 0)
    rc = declare(in, map);
  if (rc == 0)
    rc = consume(in, map);
  uvs__link_idle(&in->link);
  if (rc != 0)
    return failed(in, map, rc);
  map->is_subscribed = true;
  map->told[0] = '\0';
  snprintf(shown, sizeof shown, "%.200s, for %.200s", map->intake,
           *map->target == '\0' ? "the default exchange" : map->target);
  uvs__amqp_tell(in->amqp, UVS_AMQP_INTAKE_UP, shown);
  return true;
}

bool uvs__map_declare_parking(struct uvs__intake *in, struct uvs__map *map) {
  int rc;

  uvs__link_busy(&in->link);
  rc = declare_parking(in, map);
  uvs__link_idle(&in->link);
  return rc == 0 || failed(in, map, rc);
}
