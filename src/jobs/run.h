/* SPDX-License-Identifier: MIT
 *
 * run: one claimed job, from its claim to the store's answer that it was settled. settle: requests
 * to the store that end runs or extend their leases. worker: claims the jobs of one queue.
 */
#ifndef UVSCHED_JOBS_RUN_H
#define UVSCHED_JOBS_RUN_H

#include "jobs/engine.h"

/* Why a handler should stop. */
enum { UVS__STOP_CANCELLED = 1, UVS__STOP_LOST = 2, UVS__STOP_LIMIT = 4, UVS__STOP_CLOSE = 8 };

enum { UVS__NOT_RUN = -4095 }; /* a status: the scheduler never started the handler */

struct uvs__job_put {
  struct uvs__job_put *next;
  struct uvs__record record;
};

struct uvs__run {
  struct uvs_job_s job; /* the first member: handlers have a pointer to it */
  char id[UVS_JOB_ID_MAX + 1];
  uvs_jobs_t *jobs;
  struct uvs__claimed *claimed;
  struct uvs__worker *worker;
  const struct uvs__handler *handler;
  struct uvs__run *spare; /* the worker's next spare run */

  atomic_int users;         /* the keeper and the scheduler's task; the last one frees the run */
  atomic_uint stop;         /* UVS__STOP_... */
  atomic_bool finished;     /* the end was reported to the keeper */
  _Atomic int64_t start_ns; /* monotonic; 0: the handler was not called */

  /* The handler's thread writes these before it sends `ended`. The keeper reads them afterwards. */
  struct uvs__message ended;
  int status;
  int64_t end_ns; /* monotonic */

  /* Under jobs->lock. */
  struct uvs__arena notes; /* the result, the error and the puts */
  struct uvs__bytes result;
  const char *error;
  struct uvs__job_put *puts, **puts_end;
  size_t n_puts, put_bytes;
  int64_t retry_at_us;
  void *progress; /* a note that was not written yet; NULL: none */
  size_t progress_size;
  struct uvs__extender *extenders; /* threads that wait in uvs_job_extend */
  struct uvs__message noted;
  bool noted_sent;

  /* The keeper's. */
  struct uvs__run *next_by_id;
  bool filed; /* is in keeper.runs */
  struct uvs__timer extend, limit;
  int64_t claimed_ns; /* monotonic */
  int64_t late_at_claim_ns;
  int64_t lease_us;
  int64_t least_end_ns; /* monotonic; uvs_job_extend has asked that the lease ends no earlier */
  bool extend_wanted, end_wanted;
  bool listed; /* in the list of runs to settle */
  bool asked;  /* a request to the store is on its way */
  /* The store has answered the end; status as in struct uvs__settle. */
  void (*settled)(struct uvs__run *run, int status, bool unknown);
  bool lost; /* the store has refused an extension */
  struct uvs__run *next_to_settle;
  struct uvs__settle end; /* valid if end_wanted: how the run ends */
  void *progress_sent;    /* freed at the answer */
  struct uvs__extender *extending;
};

/* A thread that waits in uvs_job_extend. The struct is on its stack. */
struct uvs__extender {
  struct uvs__extender *next;
  int64_t lease_us;
  int status;
  uv_sem_t done;
};

static inline struct uvs__run *uvs__run_of(const uvs_job_t *job) {
  return (struct uvs__run *)(uintptr_t)job;
}

struct uvs__run *uvs__run_new(void); /* NULL: no memory */
/* Keeper's thread: a job was claimed. Starts its handler, or settles it at once. */
void uvs__run_start(struct uvs__run *run, uvs_jobs_t *jobs, struct uvs__worker *w,
                    struct uvs__claimed *c, int64_t now_us);
void uvs__run_release(struct uvs__run *run);
/* Keeper's thread. _cancelled asks one handler to stop, because its job was cancelled. _stop asks
 * all handlers to stop. */
void uvs__run_cancelled(uvs_jobs_t *jobs, const char *queue, const char *rest);
void uvs__runs_stop(uvs_jobs_t *jobs, unsigned why);

/* The lease is not extended any more: threads that still wait in uvs_job_extend get this status. */
void uvs__run_end_extenders(struct uvs__run *run, int status);

/* run->end says how the run ends: the store is told in the next batch. */
void uvs__settle_end(struct uvs__run *run);
/* Extends the lease in the next batch, and writes the progress. */
void uvs__settle_extend(struct uvs__run *run);
/* Extends the leases of all runs, because the clock by which leases count was set. */
void uvs__settle_extend_all(uvs_jobs_t *jobs);
/* Sets the timer of the next heartbeat. */
void uvs__settle_extend_later(struct uvs__run *run);

/* ---------------------------------------------------------------- worker --- */

struct uvs__handler {
  struct uvs__message message; /* hands the handler to the keeper */
  struct uvs__handler *next;   /* in jobs->handlers, under the lock */
  struct uvs__handler *of_worker;
  struct uvs__worker *new_worker; /* is used if the queue has no worker yet */
  uvs_jobs_t *jobs;
  char name[UVS_JOB_NAME_MAX + 1];
  char queue[UVS_JOB_NAME_MAX + 1];
  uvs_job_cb run;
  void *arg;
  uvs_job_handler_t options;
};

struct uvs__worker {
  struct uvs__worker *next;
  uvs_jobs_t *jobs;
  char queue[UVS_JOB_NAME_MAX + 1];
  struct uvs__handler *handlers; /* NULL for the ticks of crons */
  size_t places, running;
  int64_t lease_us;
  int64_t expired_allowed_ns; /* expired leases are not claimed before this */
  struct uvs__timer due;
  bool wanted, asking;
  struct uvs__run *spare; /* a list: memory for the jobs that are claimed next */
  size_t n_spare;
  struct uvs__ask ask;
  struct uvs__claim_request request;
};

/* NULL: the process does not claim from this queue. */
struct uvs__worker *uvs__worker_find(uvs_jobs_t *jobs, const char *queue);
/* When the worker asks for jobs again. sleep_for: after this time. sleep_until: at due_us of the
 * store's clock, which reads now_us. wake_at: at due_ns of the monotonic clock, or earlier. */
void uvs__worker_sleep_for(struct uvs__worker *w, int64_t ns);
void uvs__worker_sleep_until(struct uvs__worker *w, int64_t now_us, int64_t due_us);
void uvs__worker_wake_at(struct uvs__worker *w, int64_t due_ns);

#endif
