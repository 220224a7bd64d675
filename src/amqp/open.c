/* SPDX-License-Identifier: MIT
 *
 * open: from uvs_jobs_amqp_open to the callback of uvs_jobs_amqp_close.
 */
#include <stdio.h>
#include <string.h>

#include "amqp/alloc.h"
#include "amqp/handler.h"
#include "amqp/intake.h"

#define PLACES 1000
#define WATCH_MS 500
#define STUCK_NS UINT64_C(20000000000) /* longer than any time-out of rabbitmq-c */
#define STUCK_AT_END_NS UINT64_C(2000000000)

/* -------------------------------------------------------------------- close --- */

static void free_amqp(uvs_jobs_amqp_t *amqp) {
  uvs__address_free(&amqp->address);
  uv_mutex_destroy(&amqp->lock);
  uvs__amqp_free(amqp->name);
  uvs__amqp_free(amqp);
}

static void on_handle_closed(uv_handle_t *handle) {
  uvs_jobs_amqp_t *amqp = handle->data;

  if (--amqp->open_handles > 0)
    return;
  if (amqp->on_closed != NULL)
    amqp->on_closed(amqp, amqp->closed_arg);
  free_amqp(amqp);
}

static void close_handles(uvs_jobs_amqp_t *amqp) {
  uv_close((uv_handle_t *)&amqp->async, on_handle_closed);
  uv_close((uv_handle_t *)&amqp->watchdog, on_handle_closed);
}

static void on_async(uv_async_t *async) {
  uvs_jobs_amqp_t *amqp = async->data;

  uvs__amqp_deliver(amqp);
  if (amqp->intake != NULL && atomic_exchange(&amqp->intake_exited, false)) {
    uvs__intake_join(amqp->intake);
    amqp->intake = NULL;
    amqp->stopping = false;
    if (amqp->on_stopped != NULL)
      amqp->on_stopped(amqp, amqp->stopped_arg);
  }
  if (amqp->closing && atomic_exchange(&amqp->publisher_exited, false)) {
    uvs__publisher_join(&amqp->publisher);
    uvs__amqp_deliver(amqp);
    close_handles(amqp);
  }
}

/* Breaks a connection in which a thread is stuck: the broker does not read. */
static void watch(struct uvs__link *link, bool ends) {
  uint64_t busy_ns = atomic_load_explicit(&link->busy_ns, memory_order_relaxed);
  uint64_t now_ns = uv_hrtime();

  if (busy_ns != 0 && now_ns > busy_ns && now_ns - busy_ns > (ends ? STUCK_AT_END_NS : STUCK_NS))
    uvs__link_break(link);
}

static void on_watch(uv_timer_t *timer) {
  uvs_jobs_amqp_t *amqp = timer->data;

  watch(&amqp->publisher.link, amqp->closing);
  if (amqp->intake != NULL)
    watch(uvs__intake_link(amqp->intake), amqp->stopping);
}

static void on_publisher_exited(void *arg) {
  uvs_jobs_amqp_t *amqp = arg;

  atomic_store(&amqp->publisher_exited, true);
  uv_async_send(&amqp->async);
}

int uvs_jobs_amqp_close(uvs_jobs_amqp_t *amqp, uvs_jobs_amqp_cb cb, void *arg) {
  if (amqp == NULL)
    return UV_EINVAL;
  if (amqp->closing)
    return UV_EALREADY;
  if (amqp->intake != NULL || atomic_load(&amqp->in_flight) > 0)
    return UV_EBUSY;
  amqp->closing = true;
  amqp->on_closed = cb;
  amqp->closed_arg = arg;
  uvs__publisher_stop(&amqp->publisher);
  return 0;
}

/* --------------------------------------------------------------------- open --- */

static int complain(char *text, size_t size, int rc, const char *why) {
  if (text != NULL && size > 0)
    snprintf(text, size, "%s", why);
  return rc;
}

static int read_options(const uvs_jobs_amqp_options_t *o, uvs_jobs_amqp_t *amqp, char *text,
                        size_t size) {
  char unused[1];

  if (text == NULL || size == 0) {
    text = unused;
    size = sizeof unused;
  }
  if (o->url == NULL)
    return complain(text, size, UV_EINVAL, "the broker's URL is missing");
  amqp->name = uvs__amqp_copy(o->name == NULL ? "amqp" : o->name);
  if (amqp->name == NULL)
    return complain(text, size, UV_ENOMEM, "there is no memory");
  amqp->on_event = o->on_event;
  amqp->arg = o->arg;
  return uvs__address_read(&amqp->address, o->url, o->ca_file, text, size);
}

static int register_handler(uvs_jobs_amqp_t *amqp, const uvs_job_handler_t *from) {
  uvs_job_handler_t h;

  uvs_job_handler_init(&h);
  h.concurrency = PLACES;
  h.max_attempts = 0;
  h.retry.max_wait_ns = UVS_MIN(1);
  return uvs_jobs_handle(amqp->jobs, amqp->name, uvs__amqp_run, amqp, from == NULL ? &h : from);
}

static int open_handles(uvs_jobs_amqp_t *amqp) {
  uv_loop_t *loop = uvs_loop(uvs_jobs_scheduler(amqp->jobs));
  int rc = uv_async_init(loop, &amqp->async, on_async);

  if (rc != 0)
    return rc;
  uv_timer_init(loop, &amqp->watchdog);
  amqp->async.data = amqp->watchdog.data = amqp;
  amqp->open_handles = 2;
  return 0;
}

int uvs_jobs_amqp_open(uvs_jobs_t *jobs, const uvs_jobs_amqp_options_t *o, uvs_jobs_amqp_t **ret,
                       char *text, size_t size) {
  uvs_jobs_amqp_t *amqp;
  int rc;

  if (text != NULL && size > 0)
    *text = '\0';
  if (jobs == NULL || o == NULL || o->size < sizeof *o || ret == NULL)
    return complain(text, size, UV_EINVAL, "an argument is NULL, or an option has no size");
  amqp = uvs__amqp_alloc(sizeof *amqp);
  if (amqp == NULL)
    return complain(text, size, UV_ENOMEM, "there is no memory");
  amqp->jobs = jobs;
  amqp->notes_end = &amqp->notes;
  rc = uv_mutex_init(&amqp->lock);
  if (rc != 0) {
    uvs__amqp_free(amqp);
    return complain(text, size, rc, uv_strerror(rc));
  }
  rc = read_options(o, amqp, text, size);
  if (rc != 0) {
    free_amqp(amqp);
    return rc;
  }
  rc = open_handles(amqp);
  if (rc != 0) {
    free_amqp(amqp);
    return complain(text, size, rc, uv_strerror(rc));
  }
  rc = uvs__publisher_start(&amqp->publisher, &amqp->address, uvs__amqp_tell, on_publisher_exited,
                            amqp);
  if (rc == 0)
    rc = register_handler(amqp, o->handler);
  else
    goto close_handles;
  if (rc != 0)
    goto stop_publisher;
  uv_timer_start(&amqp->watchdog, on_watch, WATCH_MS, WATCH_MS);
  uv_unref((uv_handle_t *)&amqp->watchdog);
  uvs__publisher_go(&amqp->publisher);
  *ret = amqp;
  return 0;

stop_publisher: /* the publisher has not begun to connect, so it ends at once */
  uvs__publisher_stop(&amqp->publisher);
  uvs__publisher_join(&amqp->publisher);
close_handles:
  close_handles(amqp);
  return complain(text, size, rc,
                  rc == UV_EINVAL   ? "the name or the settings of the handler are wrong"
                  : rc == UV_EEXIST ? "the name has a handler already"
                                    : uvs_jobs_strerror(rc));
}

int uvs_jobs_amqp_stats(const uvs_jobs_amqp_t *amqp, uvs_jobs_amqp_stats_t *ret) {
  if (amqp == NULL || ret == NULL || ret->size < sizeof *ret)
    return UV_EINVAL;
  ret->received = atomic_load(&amqp->stats.received);
  ret->put = atomic_load(&amqp->stats.put);
  ret->known = atomic_load(&amqp->stats.known);
  ret->parked = atomic_load(&amqp->stats.parked);
  ret->confirmed = atomic_load(&amqp->stats.confirmed);
  ret->returned = atomic_load(&amqp->stats.returned);
  ret->refused = atomic_load(&amqp->stats.refused);
  ret->released = atomic_load(&amqp->stats.released);
  return 0;
}
