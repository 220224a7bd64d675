/* SPDX-License-Identifier: MIT
 *
 * memory: the store in memory, the reference that other stores are compared with. This header is
 * for the files memory*.c only.
 *
 *   memory.c         opening, sharing by name, carrying out batches
 *   memory_index.c   the indexes of jobs, and the changes of a job's state
 *   memory_put.c     PUT, ALTER
 *   memory_claim.c   CLAIM
 *   memory_settle.c  SETTLE
 *   memory_list.c    GET, LIST, REDRIVE, PURGE, TRIM
 *   memory_admin.c   queues, crons, COUNT, EVENTS
 *
 * To change a job, the store takes it out of all indexes, writes its fields, and adds it again. So
 * no index can be forgotten. A request that changes something allocates all that it needs first.
 * After that it cannot fail, and UV_ENOMEM means that nothing was done.
 */
#ifndef UVSCHED_JOBS_MEMORY_H
#define UVSCHED_JOBS_MEMORY_H

#include <string.h>

#include <uv.h>

#include "jobs/job_spec.h"
#include "jobs/store.h"
#include "jobs/tree.h"

/* What is kept about a job. */
enum uvs__memory_kind { UVS__MEMORY_LIVE, UVS__MEMORY_DEAD, UVS__MEMORY_ENDED, UVS__MEMORY_KINDS };

struct uvs__blob {
  struct uvs__blob *next; /* in a list of spares */
  size_t size;
  char data[]; /* with a zero byte behind it */
};

/* A job that has not ended, a dead letter, or the record of an end; `state` says which. */
struct uvs__memory_job {
  struct uvs__node by_id, by_number;
  struct uvs__node by_order;    /* live: by place; others: by the time of the end */
  struct uvs__node by_key;      /* in a tree only if the job holds a key */
  struct uvs__memory_job *next; /* in a list of spares */
  char *there;                  /* of a spare: room for uvs__put.there */

  int state; /* UVS_JOB_... */
  int class; /* UVS__CLASS_... */
  int priority;
  int64_t number, visible_us, due_us, put_us, keep_us;
  int64_t ended_us, until_us; /* until_us: of the record of an end */
  uint64_t fence;             /* 0: not claimed */
  uint64_t owner;             /* the opener that has claimed it last */
  uint32_t failures, crashes;
  bool cancelled; /* it runs, and was cancelled */
  struct uvs__memory_job *successor, *holder;
  const char *queue, *rest, *name, *key;                        /* key NULL: none */
  struct uvs__blob *payload, *meta, *error, *progress, *result; /* NULL: empty */
};

struct uvs__window {
  int64_t start_us, used;
};

struct uvs__memory_queue {
  struct uvs__node by_name;
  uvs_job_queue_t set; /* set.name is `name` */
  struct uvs__window rate, catch_up;
  char name[UVS_JOB_NAME_MAX + 1];
};

struct uvs__memory_cron {
  struct uvs__node by_name;
  struct uvs__arena arena;
  struct uvs__cron cron;
};

struct uvs__memory_event {
  int what;
  bool has_id;
  char id[UVS_JOB_ID_MAX + 1];
  char text[UVS_JOB_ERROR_MAX + 1];
};

/* The content of a store. Several openers may share it; `lock` guards all of it. */
struct uvs__memory {
  uv_mutex_t lock;
  struct uvs__memory *next; /* in the list of shared ones, with refs */
  unsigned refs;
  char *name; /* "": private */

  struct uvs__tree ids, keys;
  struct uvs__tree numbers[UVS__MEMORY_KINDS], orders[UVS__MEMORY_KINDS];
  struct uvs__tree queues, crons;
  int64_t last_number;
  uint64_t last_fence, last_event, last_owner;
  uint64_t changes;                 /* raised when claims may find more jobs, or a job has ended */
  struct uvs__memory_event *events; /* number n is at n % UVS__EVENTS_KEPT */

  int64_t wall_ns, now_us; /* of this batch */
  uint64_t owner;          /* whose batch it is */
};

/* --------------------------------------------------------- memory_index.c --- */

void uvs__memory_init_indexes(struct uvs__memory *m);
void uvs__memory_add(struct uvs__memory *m, struct uvs__memory_job *job);
void uvs__memory_take(struct uvs__memory *m, struct uvs__memory_job *job);
void uvs__memory_free_job(struct uvs__memory_job *job);

/* A job, a dead letter, or the record of an end that is not past its time. NULL: none. find_any
 * also finds records that are past their time. */
struct uvs__memory_job *uvs__memory_find_any(const struct uvs__memory *m, const char *queue,
                                             const char *rest);
bool uvs__memory_is_past(const struct uvs__memory *m, const struct uvs__memory_job *job);
struct uvs__memory_job *uvs__memory_find(const struct uvs__memory *m, const char *queue,
                                         const char *rest);
struct uvs__memory_job *uvs__memory_find_key(const struct uvs__memory *m, const char *queue,
                                             const char *key);
/* The first job of a class with visible_us >= from_us. NULL: none. */
struct uvs__memory_job *uvs__memory_place(const struct uvs__memory *m, const char *queue, int class,
                                          int64_t from_us);
/* The next job of the same queue and class. */
struct uvs__memory_job *uvs__memory_next_place(const struct uvs__memory *m,
                                               const struct uvs__memory_job *job);
enum uvs__memory_kind uvs__memory_kind(const struct uvs__memory_job *job);
/* Is the record kept because of keep_us, for longer than repeated puts need it? */
bool uvs__memory_is_kept(const struct uvs__memory_job *job);

/* Changes of a job that has not ended. If it ends, its successor takes its place. */
void uvs__memory_make_pending(struct uvs__memory *m, struct uvs__memory_job *job, int64_t due_us);
void uvs__memory_end(struct uvs__memory *m, struct uvs__memory_job *job, int state);
void uvs__memory_bury(struct uvs__memory *m, struct uvs__memory_job *job, struct uvs__blob *reason);
/* Changes of a dead letter: pending again; removed. */
void uvs__memory_revive(struct uvs__memory *m, struct uvs__memory_job *job);
void uvs__memory_remove_dead(struct uvs__memory *m, struct uvs__memory_job *job);
/* Removes a job, a dead letter or a record, and leaves no record. */
void uvs__memory_forget(struct uvs__memory *m, struct uvs__memory_job *job);

void uvs__memory_write_event(struct uvs__memory *m, int what, const struct uvs__memory_job *job,
                             const char *queue, const char *text);

/* ----------------------------------------------------------- memory_put.c --- */

/* Memory that was allocated before anything is changed. */
struct uvs__spares {
  struct uvs__memory_job *jobs, **jobs_end;
  struct uvs__blob *blobs, **blobs_end;
};
void uvs__spares_init(struct uvs__spares *s);
/* One job for each put. False: no memory. */
bool uvs__spares_add_puts(struct uvs__spares *s, const struct uvs__put *puts, size_t n,
                          struct uvs__arena *arena);
bool uvs__spares_add_blob(struct uvs__spares *s, const void *data, size_t size);
struct uvs__blob *uvs__spares_take_blob(struct uvs__spares *s); /* NULL: it is empty */
void uvs__spares_free(struct uvs__spares *s);

/* Both take n spare jobs. After uvs__memory_refuse_all, each put answers UVS_JOB_EXISTS with its
 * own REST. */
void uvs__memory_put_all(struct uvs__memory *m, struct uvs__put *puts, size_t n,
                         struct uvs__spares *spares);
void uvs__memory_refuse_all(struct uvs__put *puts, size_t n, struct uvs__spares *spares);

/* A job from a record, not yet in the store. NULL: no memory. */
struct uvs__memory_job *uvs__memory_make_job(const struct uvs__record *record);
/* Adds the job as pending, with a number above all others. */
void uvs__memory_put_pending(struct uvs__memory *m, struct uvs__memory_job *job, int64_t due_us);

/* --------------------------------------------------------------- requests --- */

int uvs__memory_put(struct uvs__memory *m, struct uvs__put_request *r);
int uvs__memory_alter(struct uvs__memory *m, struct uvs__alter_request *r);
int uvs__memory_claim(struct uvs__memory *m, struct uvs__claim_request *r);
void uvs__memory_end_leases(struct uvs__memory *m, uint64_t owner);
int uvs__memory_settle(struct uvs__memory *m, struct uvs__settle_request *r);
int uvs__memory_get(struct uvs__memory *m, struct uvs__list_request *r);
int uvs__memory_list(struct uvs__memory *m, struct uvs__list_request *r);
int uvs__memory_redrive(struct uvs__memory *m, struct uvs__bulk_request *r);
int uvs__memory_purge(struct uvs__memory *m, struct uvs__bulk_request *r);
int uvs__memory_trim(struct uvs__memory *m, struct uvs__trim_request *r);
int uvs__memory_set_queue(struct uvs__memory *m, struct uvs__queue_request *r);
int uvs__memory_set_cron(struct uvs__memory *m, struct uvs__cron_request *r);
int uvs__memory_remove_cron(struct uvs__memory *m, struct uvs__cron_request *r);
int uvs__memory_crons(struct uvs__memory *m, struct uvs__cron_request *r);
int uvs__memory_count(struct uvs__memory *m, struct uvs__count_request *r);
int uvs__memory_events(struct uvs__memory *m, struct uvs__events_request *r);

/* NULL: it has no settings. */
struct uvs__memory_queue *uvs__memory_find_queue(const struct uvs__memory *m, const char *name);
struct uvs__memory_cron *uvs__memory_find_cron(const struct uvs__memory *m, const char *name);
/* False: no memory. */
bool uvs__copy_cron(struct uvs__arena *a, const struct uvs__cron *from, struct uvs__cron *ret);
void uvs__memory_init_admin(struct uvs__memory *m);
void uvs__memory_free_admin(struct uvs__memory *m);

#endif
