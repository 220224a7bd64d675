/* SPDX-License-Identifier: MIT
 *
 * Durable jobs: "confirm the order in 15 days" survives the death of the process. A job is a name,
 * a payload and a due time in a store. The store is a SQLite file, a Redis server, or memory for
 * tests. Any process that has opened the store, and has a handler for the name, may run the job.
 *
 *   store    where the jobs are: "sqlite:FILE", "redis://HOST" (docs/jobs.md lists the other forms)
 *            or "memory:"
 *   job      a name, a payload and a due time; an id names it
 *   queue    jobs that are claimed together; default: the job's name. Limits, rate and pause belong
 *            to a queue and are kept in the store.
 *   handler  your function that runs the jobs of one name, on the scheduler's pool
 *   claim    take a due job for a limited time, the lease. A heartbeat extends the lease while the
 *            handler runs. If the process dies, the lease ends, and the job is claimed again.
 *   fence    a number that grows with each claim of a job. The store accepts at most one result
 *            for each claim, and none if a later claim of the job exists.
 *   crash    a lease that ended without a result, usually because the process died
 *   dead     given up: the store keeps the job as a dead letter, with the reason
 *
 * THE PROMISE. A job whose put callback reported success runs at least once, and not before its due
 * time by the store's clock, as long as the store keeps its data. A SQLite store keeps its data
 * through any crash of the process and through power loss. A store in Redis keeps its data through
 * any crash of a process, and through a crash of Redis if its appendfsync is `always`; with
 * `everysec`, a crash of Redis can lose the puts of about 2 s. A job may run more than once. This
 * happens if the process that runs the job dies or is stopped for longer than the lease, or if a
 * power failure loses the result. So a second run of a handler should do no harm: let the handler
 * use the job's id to recognize what is done already, or use uvsched/jobs_sqlite.h, where the
 * effect and the result commit together.
 *
 * ORDER. Within a queue, jobs start by priority, then due time, then time of put. Jobs with crashes
 * go first, but each process runs only one of them at a time.
 *
 * IDS. The id of a job is "QUEUE/REST". The caller gives REST, or the library makes it. The ids
 * that the library makes sort by the time of put. Names of jobs, queues and crons have 1 to 64
 * characters of A-Z a-z 0-9 _ . : - and do not begin with "uvs.". REST and keys have 1 to 96
 * printable ASCII characters without blanks.
 *
 * THREADS. Any thread may call any function, unless its comment says "loop thread". All callbacks
 * come on the loop thread of the scheduler, except handlers, which run on its pool. Strings and
 * bytes that are passed in are copied. The arguments of a callback are valid only during the call.
 *
 * TIME. Durations and instants are signed nanoseconds; instants count from 1970, UTC. The store
 * counts in microseconds and rounds up. UVS_JOBS_END_NS and later instants are refused.
 *
 * uvsched/jobs_admin.h lists jobs, handles dead letters, sets up queues and reads statistics.
 *
 * ERRORS. A call that returns an error has changed nothing, and its callback is not called.
 * Otherwise its callback is called exactly once. uvs_jobs_strerror explains all codes.
 */
#ifndef UVSCHED_JOBS_H
#define UVSCHED_JOBS_H

#include <uvsched.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct uvs_jobs_s uvs_jobs_t; /* an open store */
typedef struct uvs_job_s uvs_job_t;   /* a claimed job, as its handler sees it */

#define UVS_JOB_NAME_MAX 64             /* bytes of a name of a job, queue or cron */
#define UVS_JOB_ID_MAX 161              /* bytes of a whole id, "QUEUE/REST" */
#define UVS_JOB_PAYLOAD_MAX 1114112     /* 1 MiB + 64 KiB: the largest max_payload_bytes */
#define UVS_JOB_RESULT_MAX 65536        /* bytes of a result */
#define UVS_JOB_META_MAX 4096           /* bytes of metadata */
#define UVS_JOB_PROGRESS_MAX 1024       /* bytes of a progress note */
#define UVS_JOB_ERROR_MAX 500           /* bytes of the reason of a failure; more is cut off */
#define UVS_JOBS_PUT_MAX 1000           /* jobs in one uvs_jobs_put_many */
#define UVS_JOBS_PUT_BYTES_MAX 67108864 /* bytes of payload in one uvs_jobs_put_many: 64 MiB */
#define UVS_JOBS_END_NS INT64_C(9007199254740992000) /* 2^53 us, 2255-06-05 */

/* Codes that libuv does not have. */
#define UVS_EUNKNOWN (-3901) /* the store may or may not have done it: repeat, with the same id */
#define UVS_EDOWN (-3902)    /* the store did not work in time; nothing was done */
#define UVS_ELOST (-3903)    /* the lease is lost: another claim of the job came later */

/* ------------------------------------------------------------------ open --- */

/* What on_event reports. */
enum {
  UVS_EVENT_DEAD = 1,      /* a job became a dead letter; text is the reason */
  UVS_EVENT_LOST,          /* a result came too late: the job was claimed again meanwhile */
  UVS_EVENT_CRASHED,       /* a job was claimed again, because its earlier lease had ended */
  UVS_EVENT_CANCELLED,     /* a job was cancelled */
  UVS_EVENT_REPLACED,      /* a job was replaced by a later one with the same key */
  UVS_EVENT_UNKNOWN_NAME,  /* no handler here for a claimed job; it was given back */
  UVS_EVENT_MISFIRED,      /* occurrences of a cron passed without a job; text says how many */
  UVS_EVENT_DEAD_DROPPED,  /* old dead letters were removed: max_dead or dead_age_ns */
  UVS_EVENT_STORE_DOWN,    /* the store fails, or one of its Redis servers, which text names; text
                            * says why. Calls wait up to put_timeout_ns. */
  UVS_EVENT_STORE_UP,      /* the store works again, or the Redis server that text names */
  UVS_EVENT_CLOCK_SET,     /* the store's clock was set forward or back */
  UVS_EVENT_CANNOT_SHRINK, /* another reader keeps the write-ahead log of SQLite from shrinking */
  UVS_EVENT_QUEUE_CHANGED, /* a queue was paused, resumed or changed, by any process */
  UVS_EVENT_STORE_RESET,   /* Redis has lost its data, by FLUSHALL for example. The process has
                            * defined its crons again. */
  UVS_EVENT_STORE_UNSAFE   /* settings of Redis can lose jobs that were reported as durable; text
                            * names the settings. Reported once, after the open. */
};

typedef struct {
  int what;         /* UVS_EVENT_... */
  const char *id;   /* of the job, the cron or the queue; NULL: none */
  const char *text; /* one line; may be "" */
} uvs_jobs_event_t;

typedef void (*uvs_jobs_event_cb)(uvs_jobs_t *jobs, const uvs_jobs_event_t *event, void *arg);

typedef struct {
  size_t size;       /* set by the initializer; new fields go at the end */
  const char *store; /* "sqlite:FILE", "redis://HOST", "redis://HOST1,redis://HOST2" or "memory:" */

  int64_t put_timeout_ns; /* a call fails if the store has not worked for this long; default 2 s */
  uint32_t max_queued;    /* calls that may wait for the store; more get UV_EAGAIN; default 65536 */

  uint32_t max_dead;   /* dead letters that are kept; older ones are removed; default 100000 */
  int64_t dead_age_ns; /* how long a dead letter is kept; default 90 days */
  uint32_t max_done; /* ended jobs that are kept for uvs_jobs_get (keep_done_ns); default 100000 */

  uvs_jobs_event_cb on_event; /* optional */
  void *arg;                  /* of on_event; uvs_jobs_data returns it */

  /* A replaced clock, for tests, as in uvs_options_t: the program moves it, and then calls
   * uvs_jobs_clock_changed. All NULL: the clocks of the system. */
  uvs_clock_t clock;

  /* 1: only open a store that is there. If there is no file, or a database without the tables of
   * uvsched, the call answers UV_ENOENT and makes nothing. Default 0: the store is made. */
  int existing;

  /* The largest payload that this process may put, 1 to UVS_JOB_PAYLOAD_MAX bytes; default 64 KiB.
   * The limit does not apply to jobs that other processes have put: they are claimed and read. */
  uint32_t max_payload_bytes;
} uvs_jobs_options_t;

static inline void uvs_jobs_options_init(uvs_jobs_options_t *o) {
  memset(o, 0, sizeof *o);
  o->size = sizeof *o;
  o->put_timeout_ns = UVS_SEC(2);
  o->max_queued = 65536;
  o->max_dead = 100000;
  o->dead_age_ns = UVS_DAY(90);
  o->max_done = 100000;
  o->max_payload_bytes = 65536;
}

/**
 * Open a store. A SQLite file is created if there is none. The file may be your own database: the
 * tables of uvsched begin with uvs_. Several processes may open the same file, and they share its
 * jobs; a network file system is refused. The store has a thread of its own. Until the callback of
 * uvs_jobs_close, the open store keeps the loop alive.
 *
 * Thread:  loop thread. The call may read the file, so it may block for a moment.
 * Owns:    copies *o; borrows s until the callback of uvs_jobs_close: close the jobs first, then s.
 * Returns: 0 with *ret set; UV_EINVAL (an option is wrong); UV_ENOTSUP (built without this store; a
 *          network file system; a file of a newer version); UV_EFTYPE (not a SQLite file, or
 *          damaged); UV_EBUSY (another process has locked the file for longer than 250 ms);
 *          UV_EROFS, UV_EACCES, UV_ENOENT (no such folder; see `existing`), UV_ENOMEM and other
 * errors of the system. On an error, text (may be NULL) gets one line that says what is wrong, and
 * the file is unchanged.
 */
UVS_API int uvs_jobs_open(uvs_t *s, const uvs_jobs_options_t *o, uvs_jobs_t **ret, char *text,
                          size_t text_size);

UVS_API uvs_t *uvs_jobs_scheduler(const uvs_jobs_t *jobs);
UVS_API void *uvs_jobs_data(const uvs_jobs_t *jobs);

/**
 * Close: no more calls are accepted (UV_ESHUTDOWN), and no more jobs are claimed. Calls that were
 * accepted are carried out. Handlers that run get grace_ns to finish. Then they are asked to stop
 * (uvs_job_cancelled). If such a handler then returns a failure, its job is given back to the
 * store, and this does not count as an attempt. cb is called when all handlers have returned and
 * all other callbacks were called. *jobs is freed after cb.
 *
 * Thread:  any.
 * Returns: 0; UV_EALREADY; UV_EINVAL.
 */
typedef void (*uvs_jobs_close_cb)(uvs_jobs_t *jobs, void *arg);
UVS_API int uvs_jobs_close(uvs_jobs_t *jobs, int64_t grace_ns, uvs_jobs_close_cb cb, void *arg);

UVS_API const char *uvs_jobs_strerror(int code);

/* ------------------------------------------------------------------- put --- */

/* What a put does if another job of the queue, which has not ended, has the same key:
 *   KEEP     The put writes nothing, and answers UVS_JOB_EXISTS with the id of the other job.
 *   REPLACE  The new job replaces the other job, which does not run again. If the other job is
 *            running, the new job waits until that run has ended.
 *   ERROR    The put writes nothing, and answers UV_EEXIST with the id of the other job. */
enum { UVS_KEY_KEEP = 0, UVS_KEY_REPLACE, UVS_KEY_ERROR };

typedef struct {
  size_t size;       /* set by the initializer; new fields go at the end */
  const char *name;  /* the handler of this name runs the job */
  const char *queue; /* NULL: the name */
  const char *id;    /* the part after "QUEUE/"; NULL: the library makes one */

  /* When the job is due: delay_ns after the store has accepted it, or at the instant at_ns if that
   * is not 0. A past instant means now. */
  int64_t delay_ns;
  int64_t at_ns;

  const void *payload; /* up to max_payload_bytes of the store */
  size_t payload_size;
  const void *meta; /* for your own use, such as a trace id; up to UVS_JOB_META_MAX bytes */
  size_t meta_size;

  const char *key; /* unique among the jobs of its queue that have not ended; NULL: none */
  int key_policy;  /* UVS_KEY_... */
  int priority;    /* UVS_PRIORITY_...; jobs of a higher priority always start first */

  /* How long after its end the store keeps a record of how the job ended. With the record,
   * uvs_jobs_get and uvs_jobs_wait can read the end, and a put with the same id answers
   * UVS_JOB_EXISTS. Each record is kept until 30 s after the put, even if this is 0. */
  int64_t keep_done_ns;
} uvs_job_spec_t;

static inline void uvs_job_spec_init(uvs_job_spec_t *spec) {
  memset(spec, 0, sizeof *spec);
  spec->size = sizeof *spec;
}

/* status of a put: 0, UVS_JOB_EXISTS, or an error. */
#define UVS_JOB_EXISTS 1 /* a job with this id, or this key, exists: nothing was written */

typedef struct {
  int status;
  const char *id; /* the whole id: of the new job, or of the job that exists already */
} uvs_put_result_t;

/* n results, in the order of the specs. */
typedef void (*uvs_put_cb)(uvs_jobs_t *jobs, const uvs_put_result_t *results, size_t n, void *arg);

/**
 * Put a job into the store. cb (may be NULL) reports 0 only when the job is durable. It is safe
 * to repeat a put with the same id: the put answers UVS_JOB_EXISTS, also after the job has run
 * (keep_done_ns). If the store fails, the library repeats the put for put_timeout_ns, but for at
 * most 20 s if the job may have been written. uvs_jobs_put_many puts up to UVS_JOBS_PUT_MAX jobs,
 * with up to UVS_JOBS_PUT_BYTES_MAX of payload, in one transaction. A store on several Redis
 * servers uses one transaction on each server. Each job gets a result of its own: one may be
 * refused while others are put. The array stride is spec->size.
 *
 * Results: 0; UVS_JOB_EXISTS; UV_EEXIST (UVS_KEY_ERROR); UVS_EUNKNOWN (repeat with the id in the
 *          result, soon: see keep_done_ns); UVS_EDOWN; UV_ENOSPC; UV_ENOMEM.
 * Returns: 0; UV_EINVAL (uvs_jobs_check says why); UV_E2BIG (a payload, meta, or all
 *          payloads together); UV_EAGAIN (max_queued); UV_ENOMEM; UV_ESHUTDOWN.
 */
UVS_API int uvs_jobs_put(uvs_jobs_t *jobs, const uvs_job_spec_t *spec, uvs_put_cb cb, void *arg);
UVS_API int uvs_jobs_put_many(uvs_jobs_t *jobs, const uvs_job_spec_t *specs, size_t n,
                              uvs_put_cb cb, void *arg);

/* Check a spec. Writes one line that names the field that is wrong, or "" if nothing is wrong. For
 * a payload that is too large, the line has the size and the limit. uvs_jobs_check returns 0,
 * UV_EINVAL or UV_E2BIG, as uvs_jobs_put would. uvs_job_check does the same without a store, and
 * allows payloads of up to UVS_JOB_PAYLOAD_MAX bytes. */
UVS_API int uvs_jobs_check(const uvs_jobs_t *jobs, const uvs_job_spec_t *spec, char *text,
                           size_t size);
UVS_API int uvs_job_check(const uvs_job_spec_t *spec, char *text, size_t size);

/* --------------------------------------------------------------- handlers --- */

/* One claimed job. The strings and bytes are valid until the run ends. New fields go at the end. */
struct uvs_job_s {
  uvs_jobs_t *jobs;
  void *arg; /* of uvs_jobs_handle */
  const char *id, *name, *queue;
  const char *key; /* NULL: none */
  const void *payload;
  size_t payload_size;
  const void *meta;
  size_t meta_size;
  int priority;
  uint32_t attempt; /* 1 plus the failures before this run; crashes do not count */
  uint32_t crashes; /* earlier claims whose lease ended without a result */
  uint64_t fence;   /* pass it to a system that can refuse a run with a smaller fence */
  int64_t due_ns;   /* when the job was due */
  int64_t put_ns;   /* when the job was put */
};

/* What a handler returns:
 *   0                the run has succeeded, and the job is done
 *   a negative code  the run has failed: the job is retried after a wait, or given up after
 *                    max_attempts failures
 *   UVS_PENDING      the run goes on until uvs_job_finish
 *   UVS_JOB_GIVE_UP, or what uvs_job_retry_at returned
 * Any other positive value is a failure. */
enum {
  UVS_JOB_GIVE_UP = 16, /* failed for good: becomes a dead letter */
  UVS_JOB_RETRY_AT = 17 /* see uvs_job_retry_at */
};
typedef int (*uvs_job_cb)(uvs_job_t *job);

typedef struct {
  size_t size;           /* set by the initializer; new fields go at the end */
  const char *queue;     /* the queue to claim from; NULL: the name */
  int concurrency;       /* most jobs at once in this process; 0: uvs_concurrency, but at least 1 */
  int64_t lease_ns;      /* 100 ms or more; default 30 s. Heartbeats come a third of it apart. */
  uint32_t max_attempts; /* failures that make a job a dead letter; 0: no bound; default 20 */
  uint32_t max_crashes;  /* crashes that make a job a dead letter; 0: no bound; default 5 */
  struct {
    int64_t wait_ns;     /* after the first failure; doubles with each failure; default 1 s */
    int64_t max_wait_ns; /* the longest wait; default 1 h */
    int jitter_percent;  /* each wait is shortened by a random 0 to this many percent; default 20 */
  } retry;
  /* A run that takes longer is asked to stop (uvs_job_cancelled) and fails with UV_ETIMEDOUT.
   * Heartbeats no longer extend its lease. 0: no limit. */
  int64_t limit_ns;
} uvs_job_handler_t;

static inline void uvs_job_handler_init(uvs_job_handler_t *h) {
  memset(h, 0, sizeof *h);
  h->size = sizeof *h;
  h->lease_ns = UVS_SEC(30);
  h->max_attempts = 20;
  h->max_crashes = 5;
  h->retry.wait_ns = UVS_SEC(1);
  h->retry.max_wait_ns = UVS_HOUR(1);
  h->retry.jitter_percent = 20;
}

/**
 * Run the jobs of this name in this process. A handler has `concurrency` places, and the process
 * claims only as many jobs as it has free places for. The handlers of one queue share the sum of
 * their places, and all use the longest of their leases. If the process claims a job whose name has
 * no handler here, it gives the job back for 30 to 40 s.
 *
 * Owns:    copies *h (NULL: defaults); borrows arg until the callback of uvs_jobs_close.
 * Returns: 0; UV_EINVAL (a field is wrong); UV_EEXIST (the name has a handler); UV_ENOMEM;
 *          UV_ESHUTDOWN.
 */
UVS_API int uvs_jobs_handle(uvs_jobs_t *jobs, const char *name, uvs_job_cb handler, void *arg,
                            const uvs_job_handler_t *h);

/* The following functions are for a handler, on its thread. If it returns UVS_PENDING, any thread
 * may call them until uvs_job_finish. */

/* uvs_job_cancelled: 1 if the handler should stop: the job was cancelled, its lease is lost, its
 * time limit has passed, or the store is being closed. uvs_job_lost: 1 if the lease is lost: the
 * store will not accept the result. Both calls are cheap. */
UVS_API int uvs_job_cancelled(const uvs_job_t *job);
UVS_API int uvs_job_lost(const uvs_job_t *job);

/* Write a note that uvs_jobs_get shows while the job runs. A note replaces the note before it,
 * which may then never be shown. Returns 0; UV_E2BIG; UV_EINVAL; UV_ENOMEM. */
UVS_API int uvs_job_progress(uvs_job_t *job, const void *data, size_t size);

/* uvs_job_result: set the result that uvs_jobs_get and uvs_jobs_wait read. It is stored only if the
 * job succeeds. uvs_job_error: set the reason of a failure; the default is the text of the code.
 * Both return 0; UV_ENOMEM; UV_E2BIG (the result is too long); UV_EINVAL (data or text is NULL). */
UVS_API int uvs_job_result(uvs_job_t *job, const void *data, size_t size);
UVS_API int uvs_job_error(uvs_job_t *job, const char *text);

/* Put another job in the step that ends this job as done: both happen, or neither. If the run
 * fails, nothing is put. If the id or the key of the other job is in use, this job still ends as
 * done, and the other one is put only if its key_policy is UVS_KEY_REPLACE and its id is new.
 *
 * With several Redis servers, a job with a key, or with an id of yours, may belong to another
 * server than this job. Then it is put first, in a step of its own. If the lease of this job is
 * lost after that step, the other job exists nevertheless.
 *
 * Returns 0; UV_EINVAL; UV_E2BIG (also: more than UVS_JOBS_PUT_BYTES_MAX of payload in one run);
 * UV_EAGAIN (more than UVS_JOBS_PUT_MAX jobs in one run); UV_ENOMEM. */
UVS_API int uvs_job_put(uvs_job_t *job, const uvs_job_spec_t *spec);

/* Extend the lease so that it ends lease_ns from now or later, and wait until the store has done
 * it. A handler calls this before it stops the whole process for longer than a third of the lease.
 * Returns 0; UV_EINVAL; UV_ETIMEDOUT (limit_ns has passed); UVS_ELOST; UVS_EDOWN, UVS_EUNKNOWN and
 * UV_ENOSPC (the store failed). */
UVS_API int uvs_job_extend(uvs_job_t *job, int64_t lease_ns);

/* Run the job again at this instant, without counting an attempt: return uvs_job_retry_at(job, t)
 * from the handler. If the store cannot keep the instant (0 or less, or UVS_JOBS_END_NS or more),
 * the call returns UV_EINVAL. A run whose handler returns UV_EINVAL has failed. */
UVS_API int uvs_job_retry_at(uvs_job_t *job, int64_t at_ns);

/* End a run whose handler returned UVS_PENDING, as if the handler had returned status. Do not use
 * job afterwards. Returns 0; UV_EINVAL (status is UVS_PENDING). */
UVS_API int uvs_job_finish(uvs_job_t *job, int status);

/* ---------------------------------------------------------- act on a job --- */

typedef void (*uvs_jobs_cb)(uvs_jobs_t *jobs, int status, void *arg);

/* Cancel a job. status:
 *   0                The job will not run.
 *   UVS_JOB_RUNNING  Its handler is asked to stop, within a third of the lease. The job does not
 *                    run again: if this run succeeds, it ends as done, otherwise as cancelled.
 *   UV_ENOENT        There is no such job, or it has ended.
 *   UVS_EUNKNOWN, UVS_EDOWN */
UVS_API int uvs_jobs_cancel(uvs_jobs_t *jobs, const char *id, uvs_jobs_cb cb, void *arg);

/* Change when a job is due; delay_ns and at_ns are as in a spec. status: 0; UVS_JOB_RUNNING (the
 * job is running, nothing has changed); UV_ENOENT; UVS_EUNKNOWN; UVS_EDOWN. */
UVS_API int uvs_jobs_move(uvs_jobs_t *jobs, const char *id, int64_t delay_ns, int64_t at_ns,
                          uvs_jobs_cb cb, void *arg);

/* The state of a job, also as the status of uvs_jobs_cancel and uvs_jobs_move. */
enum {
  UVS_JOB_PENDING = 1, /* not due, or due and not claimed */
  UVS_JOB_RUNNING,     /* claimed */
  UVS_JOB_HELD,        /* waits until the run of the job that it replaces has ended */
  UVS_JOB_DONE,
  UVS_JOB_DEAD,      /* given up, kept as a dead letter */
  UVS_JOB_CANCELLED, /* cancelled, or a dead letter that was removed */
  UVS_JOB_REPLACED
};

typedef struct {
  size_t size;
  int state; /* UVS_JOB_... */
  const char *id, *name, *queue;
  const char *key; /* NULL: none */
  int priority;
  int64_t due_ns;   /* pending: when it is due next, also after a failure; running: end of lease */
  int64_t put_ns;   /* 0: not known any more */
  int64_t ended_ns; /* 0: it has not ended */
  uint32_t attempts, crashes;
  int cancelling;      /* 1: the job is running, and was cancelled */
  const char *error;   /* of the last failure, or the reason of a dead letter; "": none */
  const void *payload; /* set by uvs_jobs_get, and for dead letters */
  size_t payload_size;
  const void *meta;
  size_t meta_size;
  const void *progress;
  size_t progress_size;
  const void *result;
  size_t result_size;
} uvs_job_info_t;

/* Read a job: status 0 with *info; UV_ENOENT (no such job, or not kept any more); UVS_EDOWN. */
typedef void (*uvs_job_info_cb)(uvs_jobs_t *jobs, int status, const uvs_job_info_t *info,
                                void *arg);
UVS_API int uvs_jobs_get(uvs_jobs_t *jobs, const char *id, uvs_job_info_cb cb, void *arg);

/* Wait until a job has ended, at most timeout_ns. If another process runs the job, or if the job
 * has ended already, the wait needs the record of its end (keep_done_ns). status: 0 with *info;
 * UV_ETIMEDOUT; UV_ENOENT (no such job, or no record); UVS_EDOWN; UV_ECANCELED (closed). */
UVS_API int uvs_jobs_wait(uvs_jobs_t *jobs, const char *id, int64_t timeout_ns, uvs_job_info_cb cb,
                          void *arg);

/* ------------------------------------------------------------------- cron --- */

/* Misfires are occurrences that passed more than a minute ago and got no job. The policy says which
 * of them get a job late:
 *   SKIP  none
 *   ONCE  the newest
 *   ALL   the newest max_missed */
enum { UVS_MISFIRE_ONCE = 0, UVS_MISFIRE_SKIP, UVS_MISFIRE_ALL };

/* What an occurrence gets while the job of an earlier one has not ended (a job that waits for a
 * retry has not ended):
 *   QUEUE  a job like any other
 *   SKIP   no job */
enum { UVS_CRON_QUEUE = 0, UVS_CRON_SKIP };

typedef struct {
  size_t size;
  const char *name;       /* of the cron */
  uint64_t revision;      /* of the definition, 1 or more; the store keeps the highest */
  const char *expression; /* see docs/calendar.md; may be an @every */
  const char *zone;       /* NULL: UTC, because processes may differ in their local zone */
  uvs_job_spec_t spec; /* of each job; without id, key, delay_ns and at_ns; payload up to 64 KiB */
  int misfire;         /* UVS_MISFIRE_... */
  uint32_t max_missed; /* with UVS_MISFIRE_ALL; 1 to 1000 */
  int overlap;         /* UVS_CRON_QUEUE, UVS_CRON_SKIP */
} uvs_job_cron_t;

static inline void uvs_job_cron_init(uvs_job_cron_t *c) {
  memset(c, 0, sizeof *c);
  c->size = sizeof *c;
  c->revision = 1;
  c->spec.size = sizeof c->spec;
}

/**
 * Define a cron in the store. Each occurrence becomes at most one job, however many processes have
 * opened the store. The id of the job is "QUEUE/CRON@INSTANT". Raise the revision when you change
 * the definition: a higher revision than the stored one replaces the definition, the same or a
 * lower one changes nothing. After a change of expression or zone, occurrences before the change do
 * not count as missed. A process makes the jobs of all crons if it has any handler, or has
 * defined a cron.
 *
 * status:  0; UVS_JOB_EXISTS (nothing changed); UVS_EUNKNOWN; UVS_EDOWN; UV_ENOSPC.
 * Returns: as uvs_jobs_put; UV_ENOENT (no such zone), or the error of reading the zone file. After
 *          these, UV_EINVAL and UV_E2BIG, text (may be NULL) says why.
 */
UVS_API int uvs_jobs_cron(uvs_jobs_t *jobs, const uvs_job_cron_t *c, uvs_jobs_cb cb, void *arg,
                          char *text, size_t text_size);

/* Remove a cron; its jobs stay. status: 0, UV_ENOENT. */
UVS_API int uvs_jobs_remove_cron(uvs_jobs_t *jobs, const char *name, uvs_jobs_cb cb, void *arg);

/* ---------------------------------------------------------------- waking --- */

/* Look at the store now, for example after a commit of your own (uvsched/jobs_sqlite.h). Without
 * this call, a change by another connection is noticed within 250 ms. */
UVS_API int uvs_jobs_wake(uvs_jobs_t *jobs);

/* For a replaced clock. uvs_jobs_clock_changed: read the clock again. uvs_jobs_next_due: wait until
 * the store's thread has nothing left to do, and write the instant of monotonic_ns at which that
 * thread next has something to do, or UVS_NEVER. */
UVS_API int uvs_jobs_clock_changed(uvs_jobs_t *jobs);
UVS_API int uvs_jobs_next_due(uvs_jobs_t *jobs, int64_t *ret_ns);

#ifdef __cplusplus
}
#endif

#endif
