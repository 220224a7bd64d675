/* SPDX-License-Identifier: MIT
 *
 * Durable jobs (uvsched/jobs.h) that publish to RabbitMQ: "publish this in 48 hours". The message
 * is a job in the store until it is due. Then the library publishes it, waits for the broker's
 * confirm, and only then ends the job. RabbitMQ itself needs no plugin. docs/rabbitmq.md is the
 * guide. This is libuvsched-amqp, with pkg-config uvsched-amqp; it uses rabbitmq-c.
 *
 *   handler  the jobs of one name, each of which holds one encoded message
 *   intake   an exchange and a queue that the library declares. The library turns each message
 *            that arrives there into a job, and acknowledges the message when the job is durable.
 *            The delay is in a header of the message.
 *   parked   put into the parking queue, because the message cannot become a job
 *
 * AT LEAST ONCE. A message whose put reported success is published at least once, and not before
 * its due time. The end of a job needs the broker's confirm, so a message may be published again if
 * the process or the broker dies between the publish and the confirm. Each published message has
 * the header x-uvsched-id, the id of its job, so that consumers can recognize a second copy. There
 * is no promise about the order.
 *
 * WHAT THE BROKER ANSWERS decides how a job ends:
 *   confirmed               done
 *   returned (unroutable)   dead letter, with the reason
 *   no such exchange (404)  failed: the job is retried after a wait. Other exchanges go on.
 *   refused (nack, 403)     failed: the job is retried after a wait
 *   invalid message (406)   dead letter, with the reason
 * If the connection is lost, if an alarm blocks the broker, or if the process ends before the
 * confirm, the job is given back to the store for a moment. This does not count as an attempt.
 *
 * THREADS. Calls of rabbitmq-c block, so publishing has a thread of its own, and an intake has one
 * more. Callbacks come on the loop thread.
 */
#ifndef UVSCHED_JOBS_AMQP_H
#define UVSCHED_JOBS_AMQP_H

#include <amqp.h>
#include <amqp_framing.h>

#include <uvsched/jobs.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct uvs_jobs_amqp_s uvs_jobs_amqp_t; /* a handler that publishes */

/* ------------------------------------------------------------------ open --- */

/* What on_event reports. text is one line for people. */
enum {
  UVS_AMQP_UP = 1,      /* the connection for publishing is open */
  UVS_AMQP_DOWN,        /* there is no connection; again if the reason changes */
  UVS_AMQP_BLOCKED,     /* the broker has an alarm (memory, disk) and takes no messages */
  UVS_AMQP_UNBLOCKED,   /* the broker takes messages again */
  UVS_AMQP_INTAKE_UP,   /* the intake takes messages */
  UVS_AMQP_INTAKE_DOWN, /* the intake takes no messages; again if the reason changes */
  UVS_AMQP_PARKED       /* a message was put into the parking queue; text has the reason */
};

typedef void (*uvs_jobs_amqp_event_cb)(uvs_jobs_amqp_t *amqp, int what, const char *text,
                                       void *arg);

typedef struct {
  size_t size;      /* set by the initializer; new fields go at the end */
  const char *url;  /* amqp://USER:PASSWORD@HOST:PORT/VHOST, or amqps:// for TLS */
  const char *name; /* of the handler, and of the queue of its jobs; default "amqp" */

  /* For amqps: a file of certificates (PEM) that the broker's certificate must be signed by.
   * Required, because there is no default. The host name of the URL must be in the certificate. */
  const char *ca_file;

  /* Settings of the handler. NULL: those of uvs_job_handler_init, but 1000 places, no bound on
   * attempts, and waits of at most a minute between attempts. */
  const uvs_job_handler_t *handler;

  uvs_jobs_amqp_event_cb on_event; /* optional */
  void *arg;                       /* of on_event */
} uvs_jobs_amqp_options_t;

static inline void uvs_jobs_amqp_options_init(uvs_jobs_amqp_options_t *o) {
  memset(o, 0, sizeof *o);
  o->size = sizeof *o;
  o->name = "amqp";
}

/**
 * Register the handler, and start to connect. The broker need not be there: the library tries to
 * connect again and again, with waits of up to 5 s.
 *
 * Thread:  loop thread.
 * Owns:    copies *o; borrows jobs.
 * Returns: 0 with *ret set; UV_EINVAL (an option is wrong); UV_EEXIST (the name has a handler);
 *          UV_ENOMEM; UV_ESHUTDOWN. On an error, text (may be NULL) gets one line that says why.
 */
UVS_API int uvs_jobs_amqp_open(uvs_jobs_t *jobs, const uvs_jobs_amqp_options_t *o,
                               uvs_jobs_amqp_t **ret, char *text, size_t text_size);

/**
 * End the threads and free *amqp. Call uvs_jobs_close first, and call this function in the callback
 * of uvs_jobs_close or later: until then jobs may still be handed over. Close the scheduler after
 * cb.
 *
 * Thread:  loop thread.
 * Returns: 0; UV_EALREADY; UV_EBUSY (uvs_jobs_amqp_stop has not called back yet, or a job is still
 *          being published: close jobs first); UV_EINVAL.
 */
typedef void (*uvs_jobs_amqp_cb)(uvs_jobs_amqp_t *amqp, void *arg);
UVS_API int uvs_jobs_amqp_close(uvs_jobs_amqp_t *amqp, uvs_jobs_amqp_cb cb, void *arg);

/* ------------------------------------------------------------------- put --- */

typedef struct {
  size_t size;             /* set by the initializer; new fields go at the end */
  const char *exchange;    /* NULL or "": the default exchange */
  const char *routing_key; /* NULL: "" */
  /* Properties and headers; NULL: none. A message without a delivery mode becomes persistent. */
  const amqp_basic_properties_t *properties;
  const void *body;
  size_t body_size;
} uvs_jobs_amqp_message_t;

static inline void uvs_jobs_amqp_message_init(uvs_jobs_amqp_message_t *m) {
  memset(m, 0, sizeof *m);
  m->size = sizeof *m;
}

/**
 * Put a job that publishes a message. spec (may be NULL) says when the message is due, and may have
 * an id, a key, a priority and keep_done_ns; its name, queue and payload are set by this function.
 *
 * Thread:  any.
 * Returns: as uvs_jobs_put; UV_E2BIG: the body is larger than 1 MiB, the rest of the message is
 *          larger than 64 KiB, or the encoded message exceeds max_payload_bytes of the store;
 *          UV_EINVAL also if a header is nested deeper than 32 levels, or a property is longer than
 *          AMQP allows.
 */
UVS_API int uvs_jobs_amqp_put(uvs_jobs_amqp_t *amqp, const uvs_jobs_amqp_message_t *message,
                              const uvs_job_spec_t *spec, uvs_put_cb cb, void *arg);

/* ---------------------------------------------------------------- intake --- */

/* Messages that are published to the exchange `intake` are delivered to the exchange `target` when
 * they are due. The target must exist; "" is the default exchange. */
typedef struct {
  const char *intake, *target;
} uvs_jobs_amqp_map_t;

typedef struct {
  size_t size; /* set by the initializer; new fields go at the end */
  const uvs_jobs_amqp_map_t *maps;
  size_t n_maps;       /* 1 to 1000 */
  const char *parking; /* the parking queue; default "uvsched.parked" */
} uvs_jobs_amqp_intake_t;

static inline void uvs_jobs_amqp_intake_init(uvs_jobs_amqp_intake_t *o) {
  memset(o, 0, sizeof *o);
  o->size = sizeof *o;
  o->parking = "uvsched.parked";
}

/**
 * Start an intake, as docs/rabbitmq.md describes it: declare the exchanges and queues, and turn
 * the messages that arrive into jobs of this handler.
 *
 * Thread:  loop thread.
 * Owns:    copies *o.
 * Returns: 0; UV_EINVAL; UV_EALREADY (there is an intake); UV_ENOMEM; text as in
 *          uvs_jobs_amqp_open.
 */
UVS_API int uvs_jobs_amqp_intake(uvs_jobs_amqp_t *amqp, const uvs_jobs_amqp_intake_t *o, char *text,
                                 size_t text_size);

/**
 * Stop the intake: messages that were received become jobs and are acknowledged, all others stay in
 * the broker. Call this function before uvs_jobs_close.
 *
 * Thread:  loop thread.
 * Returns: 0; UV_EALREADY; UV_EINVAL (there is no intake).
 */
UVS_API int uvs_jobs_amqp_stop(uvs_jobs_amqp_t *amqp, uvs_jobs_amqp_cb cb, void *arg);

/* What has happened since uvs_jobs_amqp_open. Any thread. */
typedef struct {
  size_t size;
  uint64_t received, put, known, parked; /* by the intake; known: put by an earlier delivery */
  uint64_t confirmed, returned, refused, released; /* how runs of the handler have ended */
} uvs_jobs_amqp_stats_t;

static inline void uvs_jobs_amqp_stats_init(uvs_jobs_amqp_stats_t *stats) {
  memset(stats, 0, sizeof *stats);
  stats->size = sizeof *stats;
}

UVS_API int uvs_jobs_amqp_stats(const uvs_jobs_amqp_t *amqp, uvs_jobs_amqp_stats_t *ret);

#ifdef __cplusplus
}
#endif

#endif
