/* SPDX-License-Identifier: MIT
 *
 * handler: gives each job to the publisher, and ends the job as the broker has answered.
 */
#include <string.h>
#include <time.h>

#include "amqp/alloc.h"
#include "amqp/handler.h"
#include "amqp/headers.h"
#include "amqp/message.h"

#define LATER_NS UVS_SEC(1) /* the shortest time for which a job is given back */

struct job_send {
  struct uvs__send send;
  uvs_job_t *job;
};

static bool is_dropped(const struct uvs__send *send) {
  return uvs_job_cancelled(((const struct job_send *)send)->job) != 0;
}

/* Gives the job back; this does not count as an attempt. The wait is 1 to 2 s, in part random, so
 * that the jobs of an outage do not all come back at once. */
static int later(uvs_job_t *job) {
  unsigned random = 0;
  struct timespec t;

  if (uvs_job_cancelled(job))
    return UV_ECANCELED; /* given back at once, or cancelled */
  (void)uv_random(NULL, NULL, &random, sizeof random, 0, NULL);
  clock_gettime(CLOCK_REALTIME, &t);
  return uvs_job_retry_at(job, (int64_t)t.tv_sec * UVS_SEC(1) + t.tv_nsec + LATER_NS +
                                   (int64_t)(random % 1000) * UVS_MS(1));
}

static void count(uvs_jobs_amqp_t *amqp, enum uvs__sent how) {
  _Atomic uint64_t *const counts[] = {
      [UVS__SENT_CONFIRMED] = &amqp->stats.confirmed, [UVS__SENT_RETURNED] = &amqp->stats.returned,
      [UVS__SENT_INVALID] = &amqp->stats.refused,     [UVS__SENT_REFUSED] = &amqp->stats.refused,
      [UVS__SENT_LATER] = &amqp->stats.released,
  };

  atomic_fetch_add_explicit(counts[how], 1, memory_order_relaxed);
}

static void ended(struct uvs__send *send, enum uvs__sent how, const char *text) {
  struct job_send *js = (struct job_send *)send;
  uvs_job_t *job = js->job;
  uvs_jobs_amqp_t *amqp = job->arg;
  int status = 0;

  if (how == UVS__SENT_LATER) {
    status = later(job);
  } else if (how != UVS__SENT_CONFIRMED) {
    uvs_job_error(job, text);
    status = how == UVS__SENT_REFUSED ? UV_EIO : UVS_JOB_GIVE_UP;
  }
  count(amqp, how);
  uvs__amqp_free(js);
  /* Before uvs_job_finish: after it, uvs_jobs_close may call back, and then *amqp may be closed. */
  atomic_fetch_sub(&amqp->in_flight, 1);
  uvs_job_finish(job, status);
}

int uvs__amqp_run(uvs_job_t *job) {
  uvs_jobs_amqp_t *amqp = job->arg;
  struct job_send *js = uvs__amqp_alloc(sizeof *js);

  if (js == NULL)
    return later(job);
  js->job = job;
  js->send.payload = job->payload;
  js->send.size = job->payload_size;
  js->send.id = job->id;
  js->send.is_dropped = is_dropped;
  js->send.ended = ended;
  atomic_fetch_add(&amqp->in_flight, 1);
  uvs__publisher_send(&amqp->publisher, &js->send);
  return UVS_PENDING;
}

/* --------------------------------------------------------------------- put --- */

static int encode(const uvs_jobs_amqp_message_t *from, uint8_t **ret, size_t *ret_size) {
  struct uvs__amqp_message m;

  memset(&m, 0, sizeof m);
  m.exchange = uvs__amqp_text(from->exchange == NULL ? "" : from->exchange);
  m.routing_key = uvs__amqp_text(from->routing_key == NULL ? "" : from->routing_key);
  if (from->properties != NULL)
    m.properties = *from->properties;
  if (!(m.properties._flags & AMQP_BASIC_DELIVERY_MODE_FLAG)) {
    m.properties._flags |= AMQP_BASIC_DELIVERY_MODE_FLAG;
    m.properties.delivery_mode = AMQP_DELIVERY_PERSISTENT;
  }
  m.body.bytes = (void *)(uintptr_t)from->body;
  m.body.len = from->body_size;
  return uvs__message_encode_job(&m, ret, ret_size);
}

int uvs_jobs_amqp_put(uvs_jobs_amqp_t *amqp, const uvs_jobs_amqp_message_t *message,
                      const uvs_job_spec_t *spec, uvs_put_cb cb, void *arg) {
  uvs_job_spec_t s;
  uint8_t *payload;
  size_t size;
  int rc;

  if (amqp == NULL || message == NULL || message->size < sizeof *message)
    return UV_EINVAL;
  uvs_job_spec_init(&s);
  if (spec != NULL) {
    if (spec->size < sizeof s || spec->name != NULL || spec->queue != NULL ||
        spec->payload != NULL || spec->payload_size != 0)
      return UV_EINVAL;
    s = *spec;
    s.size = sizeof s;
  }
  rc = encode(message, &payload, &size);
  if (rc != 0)
    return rc;
  s.name = amqp->name;
  s.payload = payload;
  s.payload_size = size;
  rc = uvs_jobs_put(amqp->jobs, &s, cb, arg);
  uvs__amqp_free(payload);
  return rc;
}
