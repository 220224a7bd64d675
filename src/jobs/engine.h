/* SPDX-License-Identifier: MIT
 *
 * engine: an open store (struct uvs_jobs_s), and the part of the library that is the same for all
 * stores.
 *
 * THREADS. There are three kinds:
 *   - The keeper's thread calls the store, and owns all other state: runs, leases, deadlines. It
 *     never waits for the user's loop or for a handler.
 *   - The user's loop thread calls the callbacks.
 *   - Pool threads run the handlers.
 * They exchange messages (jobs/mailbox.h), which are embedded in the structs that they are about.
 * The exceptions are named at the fields: `lock` protects the ids, the list of handlers and the
 * notes of a run, and any thread may read the atomics.
 *
 * FILES. A file calls only files that stand above it in this list. It reports to files below it
 * through callbacks.
 *
 *   tell                hands an event to the user's loop
 *   asked               the requests that wait for the store
 *   keeper              the keeper's thread: passes, and a store that fails
 *   due                 when a worker asks for jobs
 *   nudge               calls that make the keeper look
 *   kept_crons          the crons of this process, for a store that loses its data
 *   call                one call of the user: to the keeper, and back to the user's loop
 *   wait                uvs_jobs_wait
 *   events              events that the store remembers
 *   settle              tells the store how runs ended
 *   tick                makes the jobs of a cron's occurrences
 *   job                 the functions that a handler calls about its job
 *   run                 one claimed job, from the claim to the end
 *   worker              claims the jobs of one queue
 *   calls, cron, admin  the calls of the user
 *   finish              the last steps of a close
 *   open                opens and closes
 */
#ifndef UVSCHED_JOBS_ENGINE_H
#define UVSCHED_JOBS_ENGINE_H

#include <stdatomic.h>
#include <stdlib.h>

#include <uvsched/calendar.h>
#include <uvsched/jobs.h>
#include <uvsched/jobs_admin.h>

#include "jobs/job_spec.h"
#include "jobs/mailbox.h"
#include "jobs/store.h"
#include "jobs/timers.h"

#define UVS__BUCKETS_OF_IDS 512 /* of the tables of runs and waits */

/* Stays on in release builds. */
#define UVS__MUST(condition) ((condition) ? (void)0 : abort())
/* The struct that has this member. */
#define UVS__OWNER(pointer, type, member) \
  ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

struct uvs__run;
struct uvs__worker;
struct uvs__handler;
struct uvs__wait;
struct uvs__call;

/* A request to the store, with the callback for its answer. If the request fails with UV_EAGAIN or
 * UVS_EUNKNOWN, the keeper repeats it. */
enum uvs__repeat {
  UVS__UNTIL_TIMEOUT, /* for put_timeout_ns; then UVS_EUNKNOWN or UVS_EDOWN */
  UVS__UNTIL_CLOSE,   /* without a time-out until the close begins, then as UNTIL_TIMEOUT */
  UVS__ONCE           /* not at all */
};
struct uvs__ask {
  uvs_jobs_t *jobs;
  struct uvs__request *request;
  enum uvs__repeat repeat;
  void (*answered)(struct uvs_jobs_s *jobs, struct uvs__ask *ask, int status);
  int64_t failing_since_ns; /* of the keeper; 0: has not failed */
  bool unknown;             /* an earlier try may have been carried out */
};

struct uvs__list {
  struct uvs__request *first, **end;
};

/* One event on its way to the user's loop. */
struct uvs__news {
  struct uvs__message message;
  int what;
  const char *id, *text; /* behind the struct */
};

/* A thread that waits for uvs_jobs_next_due. */
struct uvs__next_due {
  struct uvs__next_due *next;
  struct uvs__message message;
  int64_t due_ns;
  uv_sem_t done;
};

/* Callbacks of the keeper, for the files below it in the list above. */
struct uvs__keeper_rooms {
  void (*begin)(uvs_jobs_t *jobs);     /* before the first call */
  void (*collect)(uvs_jobs_t *jobs);   /* before each batch: ask for what is wanted now */
  void (*changed)(uvs_jobs_t *jobs);   /* another process has changed something */
  void (*clock_set)(uvs_jobs_t *jobs); /* the clock by which leases count was set */
  void (*reset)(uvs_jobs_t *jobs);     /* the store has lost its data */
};

struct uvs__keeper {
  uv_thread_t thread;
  uv_loop_t loop;
  uv_timer_t timer;
  struct uvs__mailbox mail;
  struct uvs__store *store;
  const struct uvs__keeper_rooms *rooms;
  struct uvs__timers timers;
  struct uvs__list asked[3]; /* settle first, claim last */
  struct uvs__list failed;   /* requests about a part of the store that does not work */
  struct uvs__timer again;   /* when the failed requests are asked again */
  size_t in_flight;          /* requests that have no answer yet; a put counts for each job */
  bool in_pass;
  int64_t housekeeping_ns; /* when housekeeping is next due */
  int64_t trim_ns;
  enum {
    UVS__BUSY,
    UVS__QUIET,
    UVS__IDLE
  } idle;                         /* advances one step at each housekeeping without a batch */
  struct uvs__next_due *next_due; /* threads that wait until there is nothing left to do */
  bool quitting;                  /* the loop's handles are being closed */

  /* A store that fails. */
  int64_t retry_ns;      /* when to try again; 0: the store works */
  int64_t retry_wait_ns; /* the wait before that try */
  bool retry_awaited;    /* the last pass came before retry_ns: wake up at retry_ns */
  bool told_down;

  /* Clock. */
  int64_t store_offset_ns; /* the store's clock minus the monotonic one, at the last look */

  /* Workers and runs. */
  struct uvs__worker *workers;
  struct uvs__run *runs[UVS__BUCKETS_OF_IDS];
  struct uvs__run *to_settle, **to_settle_end;
  size_t n_to_settle;
  size_t running;           /* runs that have not been settled */
  struct uvs__run *crashed; /* the run of a job with crashes; NULL: none */

  struct uvs__kept_cron *crons; /* that this process has defined */

  struct uvs__wait *waits[UVS__BUCKETS_OF_IDS];
  size_t n_waits;

  /* Events of the store. */
  bool looking_at_events;
  uint64_t events_seen; /* store->events when the store was last asked for events */
  uint64_t events_last; /* number of the last event that was reported; INT64_MAX: not known yet */

  bool closing;
  struct uvs__timer grace;
  struct uvs__message close_message;
  int64_t grace_ns;

  uvs_jobs_stats_t stats; /* only the fields about this process */
};

struct uvs_jobs_s {
  uvs_t *s;
  uvs_jobs_options_t options; /* without the pointers to strings */
  struct uvs__mailbox user;   /* messages to the loop of s */
  struct uvs__keeper keeper;

  uv_mutex_t lock;
  struct uvs__id_maker ids;      /* under the lock */
  struct uvs__handler *handlers; /* under the lock: all, for the check of names */
  uint64_t random;               /* under the lock: state of the jitter */

  atomic_uint queued; /* calls that wait for their answer */
  atomic_uint tasks;  /* tasks of s that have not had their `done` */
  atomic_bool closing;
  bool keeper_ended; /* loop thread; false again when the close goes on */
  struct uvs__message keeper_ended_message;
  uvs_jobs_close_cb close_cb;
  void *close_arg;
};

/* ------------------------------------------------------------------ clock --- */

int64_t uvs__mono_ns(const uvs_jobs_t *jobs);
int64_t uvs__wall_ns(const uvs_jobs_t *jobs);
static inline bool uvs__clock_is_replaced(const uvs_jobs_t *jobs) {
  return jobs->options.clock.monotonic_ns != NULL;
}
/* A random number; any thread. */
uint64_t uvs__random(uvs_jobs_t *jobs);
unsigned uvs__bucket_of_id(const char *queue, const char *rest);
/* now_ns + ns, but not more than UVS_NEVER. */
int64_t uvs__later_ns(int64_t now_ns, int64_t ns);

/* ------------------------------------------------------------------ asked --- */

/* Keeper's thread. */
void uvs__asked_init(struct uvs__keeper *k);
void uvs__asked_add(struct uvs__keeper *k, struct uvs__request *r);
/* The request is about a part of the store that does not work: adds it after a pause. */
void uvs__asked_add_later(uvs_jobs_t *jobs, struct uvs__request *r, int64_t now_ns);
bool uvs__asked_is_empty(const struct uvs__keeper *k);
/* Takes the requests for one batch, as a list, and counts them in k->in_flight. */
struct uvs__request *uvs__asked_take(uvs_jobs_t *jobs, int64_t now_ns);
/* How much a request counts in k->in_flight: a put counts for each job and for its payload. */
size_t uvs__asked_jobs_of(const struct uvs__request *r);
/* May a request be tried again? A put that may have been written must not be repeated after a
 * while: by then its job may have run, and its record may be gone. */
bool uvs__asked_may_repeat(const struct uvs__ask *ask, int64_t now_ns);

/* ----------------------------------------------------------------- keeper --- */

/* Keeper's thread, unless the comment of a function names another thread. */

/* Loop thread. */
int uvs__keeper_open(uvs_jobs_t *jobs, struct uvs__store *store,
                     const struct uvs__keeper_rooms *rooms);
/* Carry out a request in this pass or the next one. */
void uvs__keeper_ask(uvs_jobs_t *jobs, struct uvs__ask *ask);
/* Any thread. False: the keeper has ended. */
bool uvs__keeper_send(uvs_jobs_t *jobs, struct uvs__message *m);

/* Loop thread. Goes on with the close if the keeper and all tasks have ended. */
void uvs__close_if_ended(uvs_jobs_t *jobs);
void uvs__on_keeper_ended(struct uvs__message *m, void *to);
/* Frees *jobs, whose mailboxes are destroyed already. */
void uvs__jobs_destroy(uvs_jobs_t *jobs);

/* ----------------------------------------------------------------- worker --- */

/* A job of this queue is due at due_us: its worker asks for jobs at that time. uvs__workers_due:
 * all workers ask for jobs now. */
void uvs__worker_due(uvs_jobs_t *jobs, const char *queue, int64_t due_us);
/* The same, but reported by the store. It may report this at any time, also during a claim. */
void uvs__worker_woken(uvs_jobs_t *jobs, const char *queue, int64_t due_us);
void uvs__workers_due(uvs_jobs_t *jobs);
/* Asks the store for jobs, for each worker that wants jobs and has free places. */
void uvs__workers_claim(uvs_jobs_t *jobs);
void uvs__workers_stop(uvs_jobs_t *jobs); /* closing: clears their timers */
void uvs__workers_free(uvs_jobs_t *jobs);
/* A run of the worker has ended, and its place is free. */
void uvs__worker_place_free(struct uvs__worker *w);
/* The store has settled a run of the worker: the job may be pending again. */
void uvs__worker_settled(struct uvs__worker *w);
/* From now on this process claims the ticks of crons too. */
void uvs__worker_for_crons(uvs_jobs_t *jobs);

/* ----------------------------------------------------------------- settle --- */

/* Ask the store to settle the runs that wait for it. */
void uvs__settle_collect(uvs_jobs_t *jobs);

/* ------------------------------------------------------------------ cron --- */

/* A tick was claimed: decides which jobs are put and when the next tick is, and settles the run. */
void uvs__cron_tick(uvs_jobs_t *jobs, struct uvs__run *run, int64_t now_us);
/* The store has defined the cron of this call, or had it already: remembers the cron. Takes the
 * strings of the call. If there is no memory, the cron is not defined again after a reset. */
void uvs__cron_keep(struct uvs__call *c);
/* The cron was removed: forgets it. */
void uvs__cron_forget(uvs_jobs_t *jobs, const char *name);
/* The store has lost its data: defines all crons of this process again. */
void uvs__crons_define_again(uvs_jobs_t *jobs);
void uvs__crons_free(uvs_jobs_t *jobs);
/* The first occurrence after now_us and last_us. The grid of @every begins at last_us. */
int64_t uvs__cron_next_us(const uvs_calendar_t *c, int64_t last_us, int64_t now_us);
#define UVS__MISSED_MAX 1000 /* the largest max_missed */

/* ------------------------------------------------------------------ wait --- */

/* A job has ended; info says how. Its waits end. */
void uvs__waits_ended(uvs_jobs_t *jobs, const char *queue, const char *rest,
                      const uvs_job_info_t *info);
/* An event of the store says that the job has ended in this state. Its waits ask the store. */
void uvs__waits_event(uvs_jobs_t *jobs, const char *id, int state);
/* Another process has changed something: all waits ask the store. */
void uvs__waits_look(uvs_jobs_t *jobs);
void uvs__waits_cancel(uvs_jobs_t *jobs);

/* ---------------------------------------------------------------- events --- */

/* Any thread. Hands an event to the user's loop. Does nothing if there is no memory or on_event. */
void uvs__tell(uvs_jobs_t *jobs, int what, const char *id, const char *text);
/* Ask the store for its events if there are new ones. */
void uvs__events_look(uvs_jobs_t *jobs);

/* ----------------------------------------------------------------- stats --- */

void uvs__histogram_add(uvs_histogram_t *h, int64_t ns);

/* ----------------------------------------------------------------- calls --- */

/* One call of the user that the store answers. */
struct uvs__call {
  struct uvs__message message; /* to the keeper, and back to the user's loop */
  struct uvs__ask ask;
  uvs_jobs_t *jobs;
  int status;
  bool (*answered)(struct uvs__call *c); /* keeper; false: it has asked again; may be NULL */
  void (*deliver)(struct uvs__call *c);  /* user's loop: calls the callback */
  void (*callback)(void);                /* of the user; deliver knows its type; NULL: none */
  void *arg;
  struct uvs__arena arena;
  union {
    struct uvs__request r;
    struct uvs__put_request put;
    struct uvs__alter_request alter;
    struct uvs__list_request list;
    struct uvs__bulk_request bulk;
    struct uvs__queue_request queue;
    struct uvs__cron_request cron;
    struct uvs__count_request count;
  };
  uint64_t bulk_count;       /* of redrive and purge: how many up to now */
  uvs_put_result_t *results; /* of put */
  bool *made;                /* of put: the library made this id */
};

/* Any thread. Makes a call. uvs__call_send frees the call if it returns an error. */
int uvs__call_new(uvs_jobs_t *jobs, enum uvs__op op, struct uvs__call **ret);
int uvs__call_send(struct uvs__call *c);
void uvs__call_free(struct uvs__call *c);
/* For calls whose callback is a uvs_jobs_cb. */
void uvs__call_deliver_status(struct uvs__call *c);
/* Copies an id, split in two, into the call's arena. 0, UV_EINVAL, UV_ENOMEM. */
int uvs__call_id(struct uvs__call *c, const char *id, const char **ret_queue,
                 const char **ret_rest);

#endif
