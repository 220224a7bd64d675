/* SPDX-License-Identifier: MIT
 *
 * redis_reshard: moves jobs between the servers of a store. This header is for the files
 * redis_reshard*.c only.
 *
 *   redis_reshard.c       uvs_jobs_reshard
 *   redis_reshard_look.c  looks at the servers
 *   redis_reshard_map.c   writes the maps
 *   redis_reshard_pass.c  one pass over a server: moves what belongs to other servers
 *   redis_reshard_batch.c moves one batch
 *   redis_reshard_call.c  one server: its connection, and commands one at a time
 *
 * THE PROMISE. No job is lost, and the move makes no job run twice, even if this process, or a
 * server that keeps its data, is killed at any moment. A job is either in the usual keys, or in the
 * outbox of its server. A batch has a number; the new server remembers the last number, and so
 * takes over a batch only once. A batch is dropped only after it was taken over. Each step may be
 * repeated, also by another process at the same time. docs/jobs-redis.md has all the rules.
 */
#ifndef UVSCHED_JOBS_REDIS_RESHARD_H
#define UVSCHED_JOBS_REDIS_RESHARD_H

#include "jobs/redis_store.h"

#define UVS__RESHARD_SERVERS (2 * UVS__REDIS_SERVERS) /* old and new ones */

struct uvs__reshard;

struct uvs__reshard_server {
  struct uvs__reshard *move;
  char name[UVS__REDIS_SERVER_NAME];
  struct uvs__redis_options *options;
  struct uvs__redis redis; /* only what commands need */
  struct uvs__store face;  /* gets `trouble` */
  bool other_epoch;        /* the last command was refused, because the data has another epoch */
  char epoch[64];          /* of the data, when it was looked at; "": there is no data */
  bool is_owner;           /* in the map that it has */
  char id[40];             /* of the data */
  int64_t clock_us;        /* the server's clock minus the monotonic clock; 0: unknown */
  int64_t moved_from;      /* the number of the newest job when the move began */
  bool clean;              /* the last pass found nothing that belongs to another server */
  char clean_run[60];      /* the server's run id in that pass */
};

struct uvs__reshard {
  uv_loop_t loop;
  uv_timer_t timer;
  struct uvs__redis_options *given, *wanted; /* of the old and the new name of the store */
  struct uvs__reshard_server *servers[UVS__RESHARD_SERVERS];
  size_t n;

  struct uvs__redis_map map;
  uvs_reshard_progress_t progress;
  const uvs_reshard_options_t *options;
  char *text; /* what is wrong */
  size_t size;
};

/* ---------------------------------------------------- redis_reshard_call.c --- */

/* Writes what is wrong. Returns status. */
__attribute__((format(printf, 3, 4))) int uvs__reshard_fail(struct uvs__reshard *m, int status,
                                                            const char *format, ...);

/* Adds a server, and starts to connect. */
int uvs__reshard_add(struct uvs__reshard *m, const char *name, struct uvs__reshard_server **ret);
/* NULL: it was not added. */
struct uvs__reshard_server *uvs__reshard_find(struct uvs__reshard *m, const char *name);
/* Closes all connections. */
void uvs__reshard_close(struct uvs__reshard *m);
void uvs__reshard_sleep(struct uvs__reshard *m, int ms);

/* A command. */
struct uvs__reshard_command {
  enum uvs__redis_script script;
  const struct uvs__queue_names *queues; /* NULL: not a script with common.lua, so the words begin
                                            with no keys, no epoch and no queues */
  /* Adds the words that follow. */
  void (*add)(struct uvs__reshard_server *s, struct uvs__words *w, const void *from);
  const void *from;
  /* Reads the answer. For a script with common.lua, this is what follows the common part; for
   * another command, the whole reply. Returns 0, or a code. NULL: the answer is not needed. */
  int (*read)(void *to, redisReply *const *body, size_t n);
  void *to;
};
/* Sends a command and waits for its answer. Without an answer, repeats the command for
 * options->patience_ns. */
int uvs__reshard_do(struct uvs__reshard_server *s, const struct uvs__reshard_command *c);

/* Reports a step to the callback. Returns UV_ECANCELED if the callback wants to stop. */
int uvs__reshard_tell(struct uvs__reshard *m, int step, const char *server);

/* --------------------------------------------------- redis_reshard_batch.c --- */

/* What is to be moved: ids of one kind and queue for one server. */
struct uvs__reshard_export {
  const char *to, *kind; /* "job", "dead" or "end" */
  const char *const *ids;
  size_t n;
};
/* Moves a batch of the first items. *ret_looked_at: how many of the ids are done; *ret_moved: how
 * many items were moved. */
int uvs__reshard_move(struct uvs__reshard_server *s, const struct uvs__reshard_export *e,
                      const struct uvs__queue_names *queues, size_t *ret_looked_at,
                      size_t *ret_moved);
/* Finishes the batch that an earlier process may have left in the outbox. */
int uvs__reshard_finish_batch(struct uvs__reshard_server *s);

/* ---------------------------------------------------- redis_reshard_pass.c --- */

/* Moves everything that belongs to another server, and sets s->clean if there was nothing.
 * *ret_running: how many jobs must end before they can move. */
int uvs__reshard_pass(struct uvs__reshard_server *s, uint64_t *ret_running);

/* The names of all queues of a server, in the arena. */
struct uvs__reshard_names {
  struct uvs__arena arena;
  const char **names;
  size_t n;
};
int uvs__reshard_queues(struct uvs__reshard_server *s, struct uvs__reshard_names *ret);

/* ---------------------------------------------------- redis_reshard_look.c --- */

/* Reads `epoch`, `id` and `moved_from` of the server. */
int uvs__reshard_look(struct uvs__reshard_server *s);
/* Finds the newest map, and all its servers. Without a map, it makes that of one server, with
 * generation 0. */
int uvs__reshard_look_at_all(struct uvs__reshard *m);
/* Looks at the n servers that are wanted: those that are not in the map must be empty. */
int uvs__reshard_look_at_others(struct uvs__reshard *m, const char *const *wanted, size_t n);

static inline bool uvs__reshard_has_slots(const struct uvs__redis_map *map, const char *name) {
  return uvs__redis_map_find(map, name) < map->n;
}

/* ----------------------------------------------------- redis_reshard_map.c --- */

/* Writes m->map to all servers that have data: those of the map, and those that were removed. */
int uvs__reshard_write_map(struct uvs__reshard *m);
/* Makes the new servers ready, and writes m->map, which is of state moving. */
int uvs__reshard_switch(struct uvs__reshard *m);

#endif
