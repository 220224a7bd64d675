/* SPDX-License-Identifier: MIT
 *
 * redis_shards: the store in Redis: a namespace on one server, or divided among several servers.
 * This header is for the files redis_shards*.c only.
 *
 *   redis_shards_open.c   opens and closes; which servers there are
 *   redis_shards_map.c    follows the map; what a server reports
 *   redis_shards.c        divides a batch among the servers
 *   redis_shards_find.c   requests about one job or cron, or a page
 *   redis_shards_join.c   requests that all servers answer
 *   redis_shards_claim.c  CLAIM
 *   redis_shards_put.c    PUT and SETTLE
 *   redis_shards_task.c   a request, and the requests to servers that it becomes
 *
 * A file calls only files that stand below it in this list.
 *
 * MAP. Without a map there is one server, and it gets all requests unchanged. With a map
 * (redis_map.h), a put goes to the server that owns the slot of the job. A claimed job is settled
 * on the server where it was claimed. A request about an id asks the owner of the id's slot first,
 * and then all other servers: a job with a key is on the owner of its key's slot, and a job that
 * was put in the step that ended another job may be on the server of that job.
 *
 * MOVING. While jobs move, a put goes to the former owner of the slot first. If the former owner
 * has the id or the key, the put is carried out there; otherwise it goes to the new owner. Claims
 * ask all servers, old and new.
 *
 * FAILURES. A server that does not work makes only requests about it fail, with `part_only`.
 */
#ifndef UVSCHED_JOBS_REDIS_SHARDS_H
#define UVSCHED_JOBS_REDIS_SHARDS_H

#include "jobs/redis_store.h"

#define UVS__SHARDS_MAX 256 /* servers that a process can know during its life */

struct uvs__shards;
struct uvs__shard_queue;

/* A server. */
struct uvs__shard {
  struct uvs__shards *all;
  struct uvs__redis *redis;
  struct uvs__redis_options *options; /* made for this server; NULL: they are in the list `given` */
  size_t index;
  char name[UVS__REDIS_SERVER_NAME];
  bool in_map;
  bool started; /* it has handles on the loop */
  bool kept;    /* jobs were claimed from it before there was a map: it is not stopped */
  bool stopped; /* it is not in the map any more, and its handles are closed */
  bool down, told_down;
  int64_t up_ns;    /* monotonic: when it came back; 0: it was never down */
  int64_t down_ns;  /* monotonic: when its connection was lost; 0: it was never there */
  size_t in_flight; /* requests without an answer */
  size_t held;      /* jobs that this process has claimed and not settled */
  uint64_t events_seen;
  struct uvs__request *first, **end; /* requests of the batch that is being divided */
};

struct uvs__shards {
  struct uvs__store base;
  uvs_clock_t clock;
  struct uvs__redis_options *given; /* the servers that the name of the store lists */
  uv_loop_t *loop;                  /* NULL: not started */
  const struct uvs__store_hooks *hooks;
  void *arg; /* of the hooks */
  struct uvs__shard *shards[UVS__SHARDS_MAX];
  size_t n;
  struct uvs__redis_map *map;            /* NULL: there is no map, and one server */
  size_t of_map[2 * UVS__REDIS_SERVERS]; /* the index in `shards` of each server of the map */
  struct uvs__redis_current current;
  char *text; /* of the map */
  bool dividing;
  struct uvs__shard_queue *queues;
  uint64_t resets;
  uint64_t numbered; /* the last number that was given to an event */
  bool events_began; /* from now on only new events count */
};

/* ----------------------------------------------------- redis_shards_task.c --- */

/* A request of the keeper. It becomes requests to servers (struct uvs__sub), in one step or more:
 * when all requests of a step are answered, `joined` makes the next step, or ends the task. */
struct uvs__sub;
struct uvs__task {
  struct uvs__shards *all;
  struct uvs__request *r;
  void (*joined)(struct uvs__task *t);
  unsigned left; /* requests of this step that are not answered, plus 1 while they are made */
  int status;    /* of the request that has failed; 0: none has failed */
  bool in_transit;
  uint64_t generation; /* of the map at the beginning */
  struct uvs__sub *subs;
  struct uvs__arena arena;
  void *more; /* of the file that carries it out */
};

struct uvs__sub {
  struct uvs__task *task;
  struct uvs__shard *shard;
  struct uvs__sub *next;
  struct uvs__request *r;
  void (*answered)(struct uvs__sub *sub); /* sub->r->status: how it has ended */
  struct uvs__put **puts;                 /* PUT: those of the task */
};

/* Begins a task. NULL: there is no memory, and the request was answered. */
struct uvs__task *uvs__task_new(struct uvs__shards *all, struct uvs__request *r);
/* Makes a request of `size` bytes to a server. NULL: no memory, and the task has failed. */
struct uvs__sub *uvs__sub_new(struct uvs__task *t, struct uvs__shard *shard, size_t size,
                              enum uvs__op op, void (*answered)(struct uvs__sub *sub));
void uvs__sub_send(struct uvs__sub *sub);
/* uvs__task_begin starts a step; uvs__task_sent says that all requests of the step were made. */
void uvs__task_begin(struct uvs__task *t, void (*joined)(struct uvs__task *t));
void uvs__task_sent(struct uvs__task *t);
/* A part of the task has failed. UVS_EUNKNOWN and UV_EAGAIN replace other codes in t->status. */
void uvs__task_fail(struct uvs__task *t, int status);
/* Answers the request with t->status, and frees the task. */
void uvs__task_end(struct uvs__task *t);
bool uvs__may_try_again(int status);
/* Copies a request without its head. */
void uvs__copy_request(struct uvs__request *to, const struct uvs__request *from, size_t size);
/* Does at least one server work? */
bool uvs__shards_work(const struct uvs__shards *all);
/* May requests be sent to this server? */
bool uvs__shard_is_usable(const struct uvs__shard *shard);
/* Stops the server if it is not in the map any more, and nothing is left to be done there. */
void uvs__shard_retire(struct uvs__shard *shard);

/* A server's time, by the clock of the store. */
int64_t uvs__shard_to_store_us(const struct uvs__shard *shard, int64_t us);
int64_t uvs__shards_now_us(const struct uvs__shards *all);

/* The servers that own the slot: now, and before the move. */
struct uvs__shard *uvs__shard_of(const struct uvs__shards *all, unsigned slot);
struct uvs__shard *uvs__shard_before(const struct uvs__shards *all, unsigned slot);

/* ---------------------------------------------------- redis_shards_claim.c --- */

/* Jobs of this queue (NULL: of all) may be visible on this server from due_us on. */
void uvs__shard_due(struct uvs__shard *shard, const char *queue, int64_t due_us);
void uvs__shards_claim(struct uvs__task *t);
void uvs__shards_all_due(struct uvs__shards *all);
void uvs__shards_free_queues(struct uvs__shards *all);

/* --------------------------------------- redis_shards_put.c, _join.c, _find.c --- */

void uvs__shards_put(struct uvs__task *t);
void uvs__shards_settle(struct uvs__task *t);
void uvs__shards_set_queue(struct uvs__task *t);
void uvs__shards_count(struct uvs__task *t);
void uvs__shards_crons(struct uvs__task *t);
void uvs__shards_events(struct uvs__task *t);
void uvs__shards_trim(struct uvs__task *t);
void uvs__shards_find(struct uvs__task *t); /* GET, ALTER */
void uvs__shards_cron(struct uvs__task *t); /* SET_CRON, REMOVE_CRON */
void uvs__shards_page(struct uvs__task *t); /* LIST, REDRIVE, PURGE */

/* ----------------------------------------------------------- redis_shards.c --- */

void uvs__shards_run(struct uvs__store *store, struct uvs__request *first);

/* ------------------------------------------------------- redis_shards_map.c --- */

/* Adds a server. options NULL: they are made from its name and the given ones. 0, or UV_E... with a
 * text. */
int uvs__shards_add(struct uvs__shards *all, const char *name,
                    const struct uvs__redis_options *options, struct uvs__shard **ret, char *text,
                    size_t size);
void uvs__shards_start(struct uvs__shard *shard);
/* Uses this map from now on, and owns it. On an error nothing has changed, and the caller still
 * owns the map. */
int uvs__shards_follow(struct uvs__shards *all, struct uvs__redis_map *map, char *text,
                       size_t size);

#endif
