/* SPDX-License-Identifier: MIT
 *
 * store: what the jobs library asks of a store, and what each answer means. A store is a table of
 * functions. memory.c is the reference: every other store must answer as it does.
 *
 * ONE TIME COLUMN. Each job that has not ended has a place (queue, class, visible_us) in one
 * ordered index. For a pending job visible_us is the due time, for a claimed one the end of its
 * lease. A claim moves visible_us forward, and the end of a job deletes its place. There is no
 * second structure that could disagree.
 *
 *   class 0, 1, 2  pending, and never crashed: priority high, normal, low
 *   class 3        claimed; or pending with crashes
 *   class 4        held: waits for the run of the job that it replaces; visible_us is UVS__NEVER_US
 *
 * FENCE. A counter of the store, raised once for each claim request that claims a job. A claimed
 * job keeps the fence of its claim. A settle compares the fences: it answers UVS_ELOST if the job
 * is gone, or has another fence, or none.
 *
 * THE END of a job (done, cancelled, replaced) removes the job. If keep_us > 0, the store keeps a
 * record of the end until now + keep_us. In any case it keeps the record until put_us +
 * UVS__REPEAT_US, if that is later than now. A put with the id of a job, a dead letter or such a
 * record answers UVS_JOB_EXISTS. So a put that is repeated never makes a job run twice.
 *
 * KEYS. A job that has not ended holds its key, in its queue. A held job (class 4) does not: the
 * job that it replaces still holds the key, and hands it on when its run ends. A dead letter holds
 * no key.
 *
 * SUCCESSOR. A job that is claimed may have one held job that replaces it, its successor. When the
 * run ends in any way (each settle but EXTEND; also the claim of an expired lease), the successor
 * gets the key and becomes pending with its own due time. Unless the run ended with ACK or DEAD,
 * the old job then ends as replaced.
 *
 * CANCEL of a running job sets a flag: EXTEND then answers UVS__SETTLE_CANCELLED, and so do RETRY,
 * RELEASE and DEAD, which end the job as cancelled. If the lease ends instead, the next claim ends
 * the job as cancelled. ACK ends it as done.
 *
 * TIME. Microseconds since 1970, by the store's clock. Due times are below UVS__NEVER_US. The
 * store's now is wall_ns rounded down; it is read once for each batch.
 *
 * NUMBERS. Each new job gets a number above those of all jobs, dead letters and records of ends
 * that are there: a larger number is a later time of put. The job keeps its number and its put_us
 * for ever: when it is moved or retried, as a dead letter, when it is redriven, and in the record
 * of its end. Lists are ordered by number, and cursors are numbers.
 *
 * EVENTS are written in the order of the steps that make them. `id` is the whole id of a job, the
 * name of a queue (QUEUE_CHANGED), or NULL (DEAD_DROPPED). `text` is the reason of a dead letter,
 * "removed: N" for DEAD_DROPPED, and otherwise "".
 *
 * PARTS. A store that is divided among several servers has parts. If a part does not work, a
 * request about this part fails with `part_only`; requests about other parts are carried out. A
 * claimed job has the number of its part, and all items of a SETTLE are of one part. If a put of a
 * SETTLE belongs to another part, the job is put before the items are settled. So the job may exist
 * although the item answers UVS_ELOST. COUNT, LIST, REDRIVE, PURGE, SET_QUEUE and CRONS need all
 * parts.
 *
 * THREADS. All calls come from one thread, the store's. Requests of one batch are carried out in
 * order, in one transaction.
 *
 * A SERVER (Redis) differs in this. Each request of a batch is carried out by itself, and a
 * request with many jobs in several steps; after UVS_EUNKNOWN some steps may have been carried
 * out. COUNT, LIST, REDRIVE and PURGE take several steps, between which the next requests are
 * carried out. LIST is sorted only within a page, a page may be longer than its limit, a cursor is
 * not the number of a job, and a job that exists all the time comes at least once. Whole records
 * of jobs count towards UVS__STEP_BYTES, not only payloads. Old records of ends are removed by any
 * request, and TRIM does not count them. A job that moves to another server gets a new number
 * there. A claim that takes part in leading a queue (docs/jobs-redis.md) has a later next_us; the
 * store wakes the worker earlier if need be.
 */
#ifndef UVSCHED_JOBS_STORE_H
#define UVSCHED_JOBS_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <uvsched/jobs.h>
#include <uvsched/jobs_admin.h>

#include "jobs/arena.h"

#define UVS__NEVER_US (INT64_C(1) << 53)
#define UVS__REPEAT_US INT64_C(30000000) /* for this long a put may be repeated without keep_us */
#define UVS__OVERDUE_US \
  INT64_C(60000000)                /* catch_up_rate is for jobs that are overdue for longer */
#define UVS__CRON_QUEUE "uvs.cron" /* has one job for each cron, its tick; REST is the name */
#define UVS__STEP_BYTES 1048576    /* after more payload than this, a claim or a list stops */
#define UVS__EVENTS_KEPT 1000      /* the newest events that a store remembers */
#define UVS__EVENTS_PAGE 100       /* the most events in one answer */

enum { UVS__CLASS_HIGH, UVS__CLASS_NORMAL, UVS__CLASS_LOW, UVS__CLASS_LEASED, UVS__CLASS_HELD };

struct uvs__bytes {
  const void *data;
  size_t size;
};

/* A time that the store computes: `delay_us` after its now, or, if delay_us is -1, at_us. A time
 * in the past is stored as it is, because jobs are ordered by due time. */
struct uvs__when {
  int64_t delay_us;
  int64_t at_us;
};

/* All stores compute such a time like this. The store's now is rounded up, so that no delay is too
 * short. */
static inline int64_t uvs__due_us(struct uvs__when when, int64_t wall_ns) {
  int64_t now_us = wall_ns / 1000 + (wall_ns % 1000 > 0);

  if (when.delay_us < 0)
    return when.at_us < UVS__NEVER_US ? when.at_us : UVS__NEVER_US - 1;
  return when.delay_us < UVS__NEVER_US - now_us ? now_us + when.delay_us : UVS__NEVER_US - 1;
}

/* A job, as it is put. */
struct uvs__record {
  const char *queue, *rest, *name;
  const char *key; /* NULL: none */
  int key_policy;
  int priority;
  struct uvs__when due;
  int64_t keep_us;
  bool made; /* no caller has given the id: this job is put by one SETTLE or PUT only */
  struct uvs__bytes payload, meta;
};

/* -------------------------------------------------------------- requests --- */

enum uvs__op {
  UVS__PUT = 1,
  UVS__CLAIM,
  UVS__SETTLE,
  UVS__ALTER,
  UVS__GET,
  UVS__LIST,
  UVS__REDRIVE,
  UVS__PURGE,
  UVS__SET_QUEUE,
  UVS__SET_CRON,
  UVS__REMOVE_CRON,
  UVS__CRONS,
  UVS__COUNT,
  UVS__EVENTS,
  UVS__TRIM
};

/* The head of each request. status: 0; UV_EAGAIN (the store is busy or down: nothing was done, ask
 * again later); UVS_EUNKNOWN (it may have been done: ask again, no request does harm if it is done
 * twice); UV_ENOSPC, UV_ENOMEM (nothing was done); others: nothing was done, and asking again
 * is of no use. A PUT and a SETTLE that are asked again must have the same structs as before. */
struct uvs__request {
  struct uvs__request *next;
  enum uvs__op op;
  int status;
  bool part_only; /* UV_EAGAIN or UVS_EUNKNOWN, and other parts of the store work */
  void (*done)(struct uvs__request *r); /* called once for each `run`, on the store's thread */
  void *owner;                          /* the requester's */
};

/* PUT. Durable when it answers. Each job by itself: status 0, UVS_JOB_EXISTS or UV_EEXIST. For the
 * last two, `there` is the REST of the job that is there (in the arena). The store looks at the id
 * first, then at the key. With UVS_KEY_REPLACE:
 *   - A pending holder of the key ends as replaced, and the new job is pending.
 *   - A claimed holder, even if its lease has ended, gets the new job as its successor, which is
 *     held. An earlier successor ends as replaced. */
struct uvs__put {
  struct uvs__record job;
  int status;
  bool answered; /* status is valid although the request has failed; it is not put again */
  const char *there;
  int64_t due_us; /* of a new job */
};
struct uvs__put_request {
  struct uvs__request r;
  struct uvs__put *puts;
  size_t n;
  struct uvs__arena arena;
};

/* A job that was claimed. It owns its arena, in which the strings are. */
struct uvs__cron;
struct uvs__claimed {
  struct uvs__claimed *next;
  struct uvs__arena arena;
  const char *queue, *rest, *name, *key;
  struct uvs__bytes payload, meta;
  int priority;
  int part;    /* of the store; 0: it has no parts */
  int64_t row; /* the store's own handle: makes settling fast; may be 0 */
  uint64_t fence;
  uint32_t failures, crashes;   /* crashes counts this claim too, if an expired lease was claimed */
  bool crashed_now;             /* an expired lease was claimed */
  int64_t due_us, put_us;       /* due_us: as put, moved, retried or released, not as claimed */
  const struct uvs__cron *cron; /* a tick of UVS__CRON_QUEUE: the definition; else NULL */
};

/* CLAIM up to max jobs of a queue that are visible (visible_us <= now): first class 3, then 0, 1,
 * 2, each by visible_us and then by number. A claimed job moves to class 3 with visible_us = now +
 * lease_us. max and lease_us are at least 1.
 *
 * A paused queue gives no jobs, and next_us is UVS__NEVER_US. Otherwise the store walks through the
 * visible jobs in this order. For each job it takes the first step that applies:
 *   1. Class 3, and max_crashed jobs of class 3 have been claimed: go on with class 0.
 *   2. pending_only, and the job is claimed already (its lease has ended): skip it.
 *   3. The lease has ended, and the job is cancelled or has a successor: if max is reached (7),
 *      stop, and next_us is now_us. Otherwise it ends as cancelled, or else as replaced, and is not
 *      returned, but it counts for max. Its successor may be claimed by this request.
 *   4. `concurrency` is not 0, and at least this many jobs of the queue are claimed with a lease
 *      that has not ended: stop. next_us is the nearest end of such a lease.
 *   5. There is no token of `rate`: stop. next_us is the end of the window.
 *   6. The job is overdue (visible_us < now - UVS__OVERDUE_US), and there is no token of
 *      catch_up_rate: skip it.
 *   7. max jobs were claimed, or ended by step 3; or the payloads of the claimed jobs have more
 *      than UVS__STEP_BYTES together: stop. next_us is now_us.
 *   8. Claim the job. This takes a token of each rate that steps 5 and 6 have looked at.
 * If the walk was not stopped: next_us is the nearest visible_us above now in classes 0 to 3, or
 * the end of the catch-up window if that is earlier and step 6 has skipped a job; UVS__NEVER_US if
 * there is neither.
 *
 * The fence is raised when the first job is claimed. A request that claims nothing raises none. An
 * expired lease that is claimed counts as a crash. If memory runs out after something was done, the
 * request succeeds with fewer jobs, and next_us is now_us.
 *
 * TOKENS. A queue keeps two windows in the store, (start_us, used): one for `rate`, of rate_ns in
 * microseconds (rounded up, at least 1), and one for catch_up_rate, of one second. A window is over
 * if now >= start_us + its length, or now < start_us (the clock was set back). There is a token if
 * the window is over or used < the rate. If the window is over, taking a token begins a new window,
 * (now, 1); otherwise it raises `used` by 1. A rate of 0 is no bound, takes no tokens and leaves
 * its window alone. SET_QUEUE leaves both windows as they are. */
struct uvs__claim_request {
  struct uvs__request r;
  const char *queue;
  uint32_t max, max_crashed;
  bool pending_only;
  int64_t lease_us;
  struct uvs__claimed *claimed; /* in order; the requester owns them */
  int64_t now_us, next_us;
};

/* SETTLE a claimed job.
 *   ACK      ends as done, with the result; puts the jobs in `puts`
 *   RETRY    pending again, due at `when`; failures + 1; with the error
 *   EXTEND   the lease ends at now + when.delay_us; with the progress, if its size is not 0
 *   RELEASE  pending again, due at `when`; nothing is counted. The tick of a cron is settled this
 *            way, never with ACK or DEAD. If tick_last_us is later than the cron's `last`, it is
 *            the new `last`, and `puts` are put. Otherwise each put answers UVS_JOB_EXISTS.
 *   DEAD     becomes a dead letter with the error as reason
 * The jobs in `puts` are written only if status is 0. Only ACK, and RELEASE with a tick_last_us,
 * have puts. An item is carried out in this order: the job ends or becomes pending, its successor
 * takes its place, the puts are put one by one. So a put may use the key of the job that has ended.
 *
 * A claim whose lease has ended is settled like any other, until the job is claimed again. A
 * cancelled job that is extended keeps its new lease and its progress. RETRY with a successor
 * answers 0, and so does RELEASE.
 *
 * A job keeps the error of its last RETRY (NULL: none), and its last progress, until it ends. */
enum uvs__settle_op { UVS__ACK = 1, UVS__RETRY, UVS__EXTEND, UVS__RELEASE, UVS__DEAD };
#define UVS__SETTLE_CANCELLED 1
struct uvs__settle {
  const char *queue, *rest;
  const char *key; /* of the job; NULL: none */
  int part;        /* all items of a request have the same */
  int64_t row;
  uint64_t fence;
  enum uvs__settle_op op;
  struct uvs__when when;
  const char *error; /* NULL: none */
  struct uvs__bytes result, progress;
  struct uvs__put *puts; /* each gets its status, as in PUT */
  size_t n_puts;
  int64_t tick_last_us; /* of a tick: the newest occurrence; 0: no new one */
  int64_t lease_us;     /* while the puts wait for another part, the lease is extended by this */
  int status;           /* 0; UVS_ELOST; UVS__SETTLE_CANCELLED */
};
struct uvs__settle_request {
  struct uvs__request r;
  struct uvs__settle *items;
  size_t n;
  struct uvs__arena arena; /* for `there` of puts */
};

/* ALTER: cancel or move a job that has not ended. Durable when it answers. status: 0;
 * UVS_JOB_RUNNING (cancel: the flag is set; move: nothing was done); UV_ENOENT. A held job can be
 * cancelled, and moved: its due time counts once it is pending. A job whose lease has ended, and
 * that was not claimed again, counts as running. */
enum uvs__alter_op { UVS__CANCEL = 1, UVS__MOVE };
struct uvs__alter_request {
  struct uvs__request r;
  enum uvs__alter_op op;
  const char *queue, *rest;
  struct uvs__when when;
  int status;
};

/* GET one job, dead letter or record of an end: found, or r.status is UV_ENOENT. LIST a page: by
 * filter, with numbers above the cursor. next: the cursor of the next page; 0: there is no more. A
 * page may be short, even empty, although next is not 0. A page of dead letters ends after
 * UVS__STEP_BYTES of payload. Infos are in the arena. Ids in infos are whole ids. A record of an
 * end whose time is over does not exist for any request but TRIM.
 *
 * An info has these fields; others are 0 or NULL, `error` is "".
 *   not ended     id, name, queue, key, priority, put, attempts, crashes, error; due: pending or
 *                 held, its due time; running, the end of the lease; cancelling; GET: payload,
 *                 meta, progress
 *   dead letter   id, name, queue, key, priority, put, due (the last due time), ended, attempts,
 *                 crashes, error (the reason); payload, meta
 *   an end        id, name, queue, put, ended, attempts, crashes; GET of a done job: result
 * attempts: how often the job was settled with RETRY, ACK or DEAD. A filter with state 0 means jobs
 * that have not ended, PENDING, RUNNING and HELD one of these, DEAD the dead letters, DONE the
 * records of ends; others match nothing. overdue: pending with a due time <= now. A filter with an
 * id matches that one, if the other fields match too. */
struct uvs__list_request {
  struct uvs__request r;
  uvs_job_filter_t filter;  /* GET: only id */
  const char *queue, *rest; /* of filter.id, if it is given */
  int64_t cursor, next;
  uint32_t limit;
  uvs_job_info_t *infos;
  size_t n;
  struct uvs__arena arena;
};

/* REDRIVE or PURGE up to `limit` that match the filter, with numbers above the cursor. count: how
 * many. next: the cursor for the next request; 0: all have been looked at. With an id: next is 0,
 * and r.status may be UV_ENOENT, or UV_EEXIST if its key is in use. Durable.
 *   REDRIVE  dead letters (state 0 or DEAD): pending, due now, in the class of its priority, with
 *            no failures, crashes, error and progress. If the key is in use, the letter stays.
 *   PURGE    dead letters (state 0 or DEAD), or records of ends (DONE). A removed dead letter
 *            leaves a record of its end, state CANCELLED, until put_us + UVS__REPEAT_US if that is
 *            later than now; so does TRIM. Records of ends whose put_us + UVS__REPEAT_US is later
 *            than now do not match. */
struct uvs__bulk_request {
  struct uvs__request r;
  uvs_job_filter_t filter;
  const char *queue, *rest;
  int64_t cursor, next;
  uint32_t limit;
  uint64_t count;
};

/* SET_QUEUE: fields that are -1 stay; those of a new queue are 0, and rate_ns is a second. Each
 * request makes an event. Durable. */
struct uvs__queue_request {
  struct uvs__request r;
  uvs_job_queue_t set;
};

/* SET_CRON: 0, or UVS_JOB_EXISTS if the stored revision is not lower. Otherwise the definition is
 * stored; `last` is now for a new cron, stays for a known one with the same expression and zone,
 * and is the later of the two for any other; a tick that is there is removed (a run of it is lost),
 * and a new one is made: queue UVS__CRON_QUEUE, rest and name the cron's, pending with normal
 * priority, due now. REMOVE_CRON: removes the tick too; 0 or UV_ENOENT. A tick that is removed
 * leaves no record and no event. CRONS: all, ordered by name. Durable. */
struct uvs__cron {
  const char *name, *expression, *zone;
  uint64_t revision;
  int misfire, overlap;
  uint32_t max_missed;
  struct uvs__record job; /* rest, key and due are not used */
  int64_t last_us;
  int64_t tick_us; /* CRONS: when the tick is visible */
};

/* All stores compute `last` like this. old: the stored definition; NULL: none. */
static inline int64_t uvs__cron_last_us(const struct uvs__cron *old, const struct uvs__cron *c,
                                        int64_t now_us) {
  const char *zone = c->zone == NULL ? "" : c->zone;

  if (old == NULL)
    return now_us;
  if (old->last_us > now_us || (strcmp(old->expression, c->expression) == 0 &&
                                strcmp(old->zone == NULL ? "" : old->zone, zone) == 0))
    return old->last_us;
  return now_us;
}

struct uvs__cron_request {
  struct uvs__request r;
  struct uvs__cron cron;   /* SET_CRON; REMOVE_CRON: only the name */
  bool only_if_there;      /* SET_CRON by redis_shards.c, while jobs move between servers */
  struct uvs__cron *crons; /* CRONS, in the arena */
  size_t n;
  int64_t now_us; /* CRONS: the store's now */
  struct uvs__arena arena;
};

/* COUNT: the first half of uvs_jobs_stats_t. Queues are ordered by name, without UVS__CRON_QUEUE,
 * in the arena; the sums are without it, too. A queue that has settings is listed even if it is
 * empty; one without settings has zeros there. pending: without held ones. overdue: pending, with a
 * due time <= now. running: claimed. kept: records of ends whose time is set by keep_us, that is
 * later than put_us + UVS__REPEAT_US, and not over. */
struct uvs__count_request {
  struct uvs__request r;
  uvs_jobs_stats_t stats;
  struct uvs__arena arena;
};

/* EVENTS with a number above `after`, oldest first, at most UVS__EVENTS_PAGE. `last`: the number of
 * the last one that the store has; 0: none. The store remembers DEAD, CANCELLED, REPLACED,
 * QUEUE_CHANGED and DEAD_DROPPED, each in the step that makes it. Numbers are 1, 2, 3, ... */
struct uvs__event {
  uint64_t number;
  int what;
  const char *id;
  const char *text;
};
struct uvs__events_request {
  struct uvs__request r;
  uint64_t after, last;
  struct uvs__event *events;
  size_t n;
  struct uvs__arena arena;
};

/* TRIM, up to `limit`, in this order; 2 to 4 oldest end first, then by number:
 *   1. records of ends whose time is over, in any order
 *   2. if more than max_done are `kept` (see COUNT): the oldest of these, but each only after its
 *      put_us + UVS__REPEAT_US
 *   3. dead letters that ended more than dead_age_us ago
 *   4. dead letters above max_dead
 * count: how many. If dead letters were removed, TRIM makes one event DEAD_DROPPED. */
struct uvs__trim_request {
  struct uvs__request r;
  uint32_t max_done, max_dead, limit;
  int64_t dead_age_us;
  uint64_t count;
};

/* ----------------------------------------------------------------- stores --- */

struct uvs__store_config {
  const char *name;  /* what follows "sqlite:" or "memory:"; all of "redis://..." */
  uvs_clock_t clock; /* wall_ns NULL: the system's */
  bool existing;     /* UV_ENOENT if there is no store yet; the one in memory ignores this */
};

struct uvs__store {
  const struct uvs__store_ops *ops;
  int poll_ms;       /* how often to call `poll`; 0: never */
  uint64_t events;   /* raised when EVENTS may have something new */
  char trouble[200]; /* why the last request failed, one line; "" */
};

/* What a store reports between requests. Keeper's thread. */
struct uvs__store_hooks {
  /* Jobs of this queue (NULL: of any queue) may be visible from due_us on. */
  void (*wake)(void *arg, const char *queue, int64_t due_us);
  /* The store reports UVS_EVENT_STORE_RESET or UVS_EVENT_STORE_UNSAFE. */
  void (*event)(void *arg, int what, const char *text);
};

struct uvs__store_ops {
  /* Called before the first `run`, on the keeper's thread. From now until `stop`, the store may
   * have handles on the loop. NULL: not needed. */
  void (*start)(struct uvs__store *store, uv_loop_t *loop, const struct uvs__store_hooks *hooks,
                void *arg);
  /* Called after the last request was answered: close the handles. The loop runs until they are
   * closed. */
  void (*stop)(struct uvs__store *store);
  /* Carry out a batch, a list in order. The `done` of each request is called once; `done` may free
   * the request. A store that is a server calls `done` later, from the loop of `start`. */
  void (*run)(struct uvs__store *store, struct uvs__request *first);
  /* Returns true if another process, or another connection, has changed something or died, so that
   * claims may find more. */
  bool (*poll)(struct uvs__store *store);
  /* Called when there was nothing to do for a while: housekeeping that is best done then. Returns
   * an event (UVS_EVENT_CANNOT_SHRINK) or 0. */
  int (*idle)(struct uvs__store *store);
  /* The store's clock. A store that is a server computes it from its answers and the monotonic
   * clock, so a wrong wall clock of this machine has no effect. */
  int64_t (*now_us)(struct uvs__store *store);
  /* Ends the leases that this opener has given: their visible_us becomes now. A store that several
   * processes share does the same for a process that has died. */
  void (*close)(struct uvs__store *store);
};

/* Open a store. On an error `text` says why, and nothing was changed. */
int uvs__memory_open(const struct uvs__store_config *config, struct uvs__store **ret, char *text,
                     size_t size);
int uvs__sqlite_open(const struct uvs__store_config *config, struct uvs__store **ret, char *text,
                     size_t size);
int uvs__redis_open(const struct uvs__store_config *config, struct uvs__store **ret, char *text,
                    size_t size);

#endif
