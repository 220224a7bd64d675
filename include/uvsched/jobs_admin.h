/* SPDX-License-Identifier: MIT
 *
 * Administration of durable jobs (uvsched/jobs.h): list jobs and crons, put dead letters back,
 * set up queues, read statistics. Threads, callbacks and errors are as in uvsched/jobs.h.
 */
#ifndef UVSCHED_JOBS_ADMIN_H
#define UVSCHED_JOBS_ADMIN_H

#include <uvsched/jobs.h>
#include <uvsched/stats.h>

#ifdef __cplusplus
extern "C" {
#endif

/* -------------------------------------------------------------------- jobs --- */

/* A filter selects the jobs that match all its fields. A field that is NULL, or overdue 0, matches
 * any job. */
typedef struct {
  size_t size;
  const char *id; /* exactly this job */
  const char *queue;
  const char *name;
  int state;   /* PENDING, RUNNING, HELD; DEAD; DONE (all ends but DEAD); 0: not ended */
  int overdue; /* 1: only jobs that are pending and due already */
} uvs_job_filter_t;

static inline void uvs_job_filter_init(uvs_job_filter_t *f) {
  memset(f, 0, sizeof *f);
  f->size = sizeof *f;
}

/* List jobs, in pages of up to `limit` (1 to 1000), by time of put. In Redis the list has no order,
 * a page may have up to 512 jobs more, and a job may come twice if jobs are put meanwhile. cursor:
 * 0 for the first page, then the `next` that the callback got. If `next` is 0, that was the last
 * page. A page that is short or empty need not be the last page. */
typedef void (*uvs_job_list_cb)(uvs_jobs_t *jobs, int status, const uvs_job_info_t *list, size_t n,
                                int64_t next, void *arg);
UVS_API int uvs_jobs_list(uvs_jobs_t *jobs, const uvs_job_filter_t *f, int64_t cursor,
                          uint32_t limit, uvs_job_list_cb cb, void *arg);

/* uvs_jobs_redrive: put dead letters back as pending jobs, due now, with no attempts and crashes. A
 * letter whose key is in use stays a dead letter. uvs_jobs_purge: remove dead letters (state 0 or
 * DEAD), or the records of how jobs ended (state DONE) if the jobs were put more than 30 s ago.
 * count: how many were put back or removed. If the filter has an id, status may be UV_ENOENT, and
 * for a redrive UV_EEXIST (the key of the letter is in use). */
typedef void (*uvs_jobs_count_cb)(uvs_jobs_t *jobs, int status, uint64_t count, void *arg);
UVS_API int uvs_jobs_redrive(uvs_jobs_t *jobs, const uvs_job_filter_t *f, uvs_jobs_count_cb cb,
                             void *arg);
UVS_API int uvs_jobs_purge(uvs_jobs_t *jobs, const uvs_job_filter_t *f, uvs_jobs_count_cb cb,
                           void *arg);

/* ------------------------------------------------------------------ queues --- */

/* Settings of a queue. The store keeps them, for all processes. A field that is -1 leaves its
 * setting unchanged. */
typedef struct {
  size_t size;
  const char *name;
  int paused; /* 1: nothing is claimed */
  /* With several Redis servers, each server enforces an equal share of a bound, rounded up. */
  int64_t concurrency; /* jobs that may run at once, in all processes; 0: no bound */
  int64_t rate;        /* claims per rate_ns at most, in all processes; 0: no bound */
  int64_t rate_ns;     /* default 1 s */
  /* At most this many claims per second of jobs that are overdue by more than a minute, so that a
   * backlog does not overload the systems that handlers call; 0: no bound. */
  int64_t catch_up_rate;
} uvs_job_queue_t;

static inline void uvs_job_queue_init(uvs_job_queue_t *q) {
  memset(q, 0, sizeof *q);
  q->size = sizeof *q;
  q->paused = -1;
  q->concurrency = q->rate = q->rate_ns = q->catch_up_rate = -1;
}

UVS_API int uvs_jobs_set_queue(uvs_jobs_t *jobs, const uvs_job_queue_t *q, uvs_jobs_cb cb,
                               void *arg);

/* ------------------------------------------------------------------- crons --- */

typedef struct {
  const char *name, *expression, *zone, *job_name, *queue;
  uint64_t revision;
  int64_t last_ns; /* the newest occurrence that was handled; if none: when the cron was defined */
  int64_t next_ns; /* the next occurrence; UVS_NEVER: none */
  int misfire, overlap;
  uint32_t max_missed;
} uvs_cron_info_t;

typedef void (*uvs_cron_list_cb)(uvs_jobs_t *jobs, int status, const uvs_cron_info_t *list,
                                 size_t n, void *arg);
UVS_API int uvs_jobs_crons(uvs_jobs_t *jobs, uvs_cron_list_cb cb, void *arg);

/* ------------------------------------------------------------------ stats --- */

typedef struct {
  const char *queue;
  int paused;
  int64_t concurrency, rate, rate_ns, catch_up_rate; /* 0: no bound */
  uint64_t pending, overdue, running, dead;
  int64_t oldest_overdue_ns; /* how long the oldest overdue job has been due; 0: none */
} uvs_queue_stats_t;

typedef struct {
  size_t size;
  /* In the store, now. kept: records of how jobs ended that are kept because of keep_done_ns. */
  uint64_t pending, overdue, running, dead, kept;
  int64_t oldest_overdue_ns;
  const uvs_queue_stats_t *queues;
  size_t n_queues;
  /* In this process, since uvs_jobs_open. */
  uint64_t put, exists, started, done, failed, retried, given_up, cancelled;
  uint64_t lost_leases, crashes, store_failures, transactions;
  uvs_histogram_t late; /* from the due time to the start of the handler */
  uvs_histogram_t run;  /* how long handlers ran */
} uvs_jobs_stats_t;

/* status: 0; UVS_EDOWN. Counting reads an index of all pending jobs: about 0.3 s for a million. The
 * store does nothing else meanwhile. */
typedef void (*uvs_jobs_stats_cb)(uvs_jobs_t *jobs, int status, const uvs_jobs_stats_t *stats,
                                  void *arg);
UVS_API int uvs_jobs_stats(uvs_jobs_t *jobs, uvs_jobs_stats_cb cb, void *arg);

/* Write statistics as uvs_stats_write does; the names of the metrics begin with uvsched_jobs_. */
UVS_API int uvs_jobs_stats_write(const uvs_jobs_stats_t *stats, int format, uvs_write_cb write,
                                 void *arg);

/* ----------------------------------------------------------------- servers --- */

/* The step that uvs_jobs_reshard has just taken. */
enum {
  UVS_RESHARD_CHECK = 1, /* it begins to look at the servers */
  UVS_RESHARD_SWITCHED,  /* `server` has the new map */
  UVS_RESHARD_EXPORTED,  /* a batch is in the outbox of `server` */
  UVS_RESHARD_IMPORTED,  /* `server` has taken a batch over */
  UVS_RESHARD_MOVED,     /* the batch was removed from the old server, `server`, and is counted */
  UVS_RESHARD_WAITING,   /* it waits until `running` jobs have ended, at least one of them on
                          * `server`; or, if `running` is 0, before it looks once more */
  UVS_RESHARD_DONE
};

typedef struct {
  size_t size;
  int step;            /* UVS_RESHARD_... */
  const char *server;  /* URL of the server of this step, without user and password; may be NULL */
  uint64_t generation; /* of the newest map that was written */
  uint64_t slots;      /* number of slots that move to another server */
  /* Moved by this call: `jobs` counts jobs that have not ended, and crons; `dead`, dead letters;
   * `ends`, records of ends. */
  uint64_t jobs, dead, ends;
  uint64_t running; /* number of running jobs that must end before the move can end */
} uvs_reshard_progress_t;

/* Returns 0 to continue. Any other value stops the move, and uvs_jobs_reshard returns UV_ECANCELED;
 * a later call with the same servers continues the move. */
typedef int (*uvs_reshard_cb)(const uvs_reshard_progress_t *p, void *arg);

typedef struct {
  size_t size;
  const char *store; /* name of the store as it is; one of its servers is enough */
  const char *to;    /* name of the store as it shall be: all servers, as for uvs_jobs_open */
  uvs_reshard_cb on_progress; /* NULL: none. Called on the calling thread */
  void *arg;
  int64_t patience_ns; /* the call fails if a server does not answer for this long; 0: 30 s */
} uvs_reshard_options_t;

static inline void uvs_reshard_options_init(uvs_reshard_options_t *o) {
  memset(o, 0, sizeof *o);
  o->size = sizeof *o;
}

/**
 * Move the jobs of a store in Redis to other servers, while processes use the store
 * (docs/scale.md). After the move, each server has an equal share of the 1024 slots. As few slots
 * as possible move. If the call fails or its process dies, repeat the same call to continue the
 * move. Until then the store works, but up to 200 jobs of each server wait for the next call.
 *
 * Thread:  any. Blocks until everything has moved. A running job that must move has to end first.
 * Owns:    nothing; copies *o, and borrows the strings during the call.
 * Returns: 0; UV_EINVAL; UV_ENOENT (there is no store); UV_EEXIST (a new server has other jobs);
 *          UV_EBUSY (another move is under way); UV_ENOSPC (a server is full); UV_ECANCELED (the
 *          callback has stopped the move); UV_ENOTSUP (the library was built without Redis, or a
 *          server has settings that the store refuses); UV_EAGAIN, UVS_EUNKNOWN, UV_EACCES, UV_EIO
 *          and other errors of the connection. On an error, `text` says why.
 */
UVS_API int uvs_jobs_reshard(const uvs_reshard_options_t *o, char *text, size_t size);

UVS_API const char *uvs_job_state_name(int state); /* "pending" ...; "?" */
UVS_API const char *uvs_jobs_event_name(int what); /* "dead" ...; "?" */

#ifdef __cplusplus
}
#endif

#endif
