/* SPDX-License-Identifier: MIT
 *
 * handler: the object behind uvs_jobs_amqp_t: a handler of jobs, the publisher, an intake if there
 * is one, and the notes that the threads leave for the loop thread.
 */
#ifndef UVSCHED_AMQP_HANDLER_H
#define UVSCHED_AMQP_HANDLER_H

#include <stdatomic.h>
#include <stdbool.h>

#include <uvsched/jobs_amqp.h>

#include "amqp/address.h"
#include "amqp/publisher.h"

struct uvs__note {
  struct uvs__note *next;
  int what; /* UVS_AMQP_... */
  char text[500];
};

struct uvs__intake;

struct uvs__amqp_stats { /* uvs_jobs_amqp_stats_t */
  _Atomic uint64_t received, put, known, parked, confirmed, returned, refused, released;
};

struct uvs_jobs_amqp_s {
  uvs_jobs_t *jobs;
  char *name;
  struct uvs__amqp_address address;
  uvs_jobs_amqp_event_cb on_event;
  void *arg;
  struct uvs__publisher publisher;
  struct uvs__intake *intake;
  struct uvs__amqp_stats stats;
  _Atomic size_t in_flight; /* jobs that the publisher has */

  uv_async_t async;
  uv_timer_t watchdog;
  int open_handles;
  uv_mutex_t lock; /* protects notes */
  struct uvs__note *notes, **notes_end;
  _Atomic bool publisher_exited, intake_exited;

  /* Only the loop thread uses these. */
  bool stopping, closing;
  uvs_jobs_amqp_cb on_stopped, on_closed;
  void *stopped_arg, *closed_arg;
};

/* Any thread: leaves a note for on_event. Loop thread: delivers the notes. */
void uvs__amqp_tell(void *amqp, int what, const char *text);
void uvs__amqp_deliver(uvs_jobs_amqp_t *amqp);

/* The handler of the jobs. Runs on a pool thread. */
int uvs__amqp_run(uvs_job_t *job);

#endif
