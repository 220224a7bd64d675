/* SPDX-License-Identifier: MIT
 *
 * redis_store: the requests of the store in Redis, on top of the link (redis.h). This header is for
 * the files redis_*.c only. docs/jobs-redis.md has the format of the data.
 *
 *   redis_server.c  one server: carries out batches, notices a reset and a new map
 *   redis_call.c    one command of a request: what all commands have in common; the clock
 *   redis_words.c   the words of a command
 *   redis_job.c     reads jobs, dead letters and ends
 *   redis_put.c     PUT
 *   redis_claim.c   CLAIM
 *   redis_settle.c  SETTLE and ALTER
 *   redis_scan.c    finds the jobs that a filter matches, page by page
 *   redis_list.c    GET, LIST, REDRIVE, PURGE and TRIM
 *   redis_count.c   COUNT and EVENTS
 *   redis_admin.c   queues and crons
 *
 * A request becomes one command or several. It is answered when the last of them is answered.
 */
#ifndef UVSCHED_JOBS_REDIS_STORE_H
#define UVSCHED_JOBS_REDIS_STORE_H

#include "jobs/redis.h"

#define UVS__REDIS_FORMAT "1" /* version of the stored format */

/* Bounds of one command. */
#define UVS__REDIS_PUTS 1000
#define UVS__REDIS_CLAIMS 500
#define UVS__REDIS_BYTES (1024 * 1024)
#define UVS__REDIS_QUEUES 50

/* A queue that was claimed from. */
struct uvs__redis_queue {
  struct uvs__redis_queue *next;
  char name[UVS_JOB_NAME_MAX + 1];
};

/* What a server reports to redis_shards_map.c. Keeper's thread. */
struct uvs__redis_hooks {
  /* As in struct uvs__store_hooks. */
  void (*wake)(void *arg, const char *queue, int64_t due_us);
  void (*event)(void *arg, int what, const char *text);
  void (*up)(void *arg); /* the server has the current map, and carries out requests from now on */
  void (*down)(void *arg); /* the connection was lost */
  /* The server has a newer map. 0, or why the map cannot be used. */
  int (*newer)(void *arg, const char *text, size_t size);
  void (*new_events)(void *arg); /* `events` has changed */
};

/* The map that the process follows. */
struct uvs__redis_current {
  uint64_t generation; /* 0: there is no map */
  const char *text;
  size_t size, servers; /* how many have jobs */
  bool moving;
};

struct uvs__redis {
  struct uvs__store *face; /* gets `trouble` */
  const struct uvs__redis_current *map;
  uint64_t events; /* the number of the newest event */
  const struct uvs__redis_options *options;
  uvs_clock_t clock;     /* wall_ns NULL: the server's clock counts */
  uint64_t node;         /* 48 random bits: the number of this opener */
  char channels[2][100]; /* for messages to this opener; for events */
  const char *channel_names[2];
  uv_loop_t *loop;
  const struct uvs__redis_hooks *hooks;
  void *arg; /* of the hooks */
  struct uvs__redis_link *link;
  char epoch[64];                              /* "": not known yet */
  bool ready;                                  /* the epoch is that of the server's data */
  bool asking;                                 /* init was sent, or a command about the map */
  void (*ask_epoch)(struct uvs__redis *store); /* the server has another epoch */
  struct uvs__request *waiting, **end;         /* requests that wait for `ready` */
  uv_timer_t patience;                         /* how long these requests wait */
  char run_id[60];                             /* of the server */
  char warning[UVS__REDIS_WARNING_MAX];        /* settings that may lose jobs; "" */
  bool leads; /* takes part in leading queues; false with a replaced clock */
  uint64_t random;
  struct uvs__redis_queue *queues;
  int housekeeping;  /* old records that a command removes; 0 with a replaced clock */
  bool waited_for;   /* a job was read that has not ended */
  unsigned leaves;   /* in `stop`: commands that end leases and are not answered */
  int64_t offset_us; /* the server's clock less the monotonic one */
  bool knows_offset;
};

/* More codes, which a server answers only while jobs move. Only redis_shards*.c sees them. */
enum {
  UVS__NOT_HERE =
      1001,       /* "only if there", and the id, key or cron is not there: nothing was done */
  UVS__IN_TRANSIT /* the job or cron is in an outbox: ask again shortly; nothing was done */
};
#define UVS__ONLY_IF_THERE 4 /* is added to key_policy of a put */
#define UVS__STRAY \
  8 /* the same, in a settle: the put has a key whose slot moves to another server */

/* --------------------------------------------------------- redis_server.c --- */

struct uvs__redis_setup {
  const struct uvs__redis_options *options; /* they live longer than the server */
  uvs_clock_t clock;
  struct uvs__store *face;
  const struct uvs__redis_current *map;
  const struct uvs__redis_hooks *hooks;
  void *arg;
};
/* 0 or UV_E.... */
int uvs__redis_new(const struct uvs__redis_setup *setup, struct uvs__redis **ret);
void uvs__redis_start(struct uvs__redis *s, uv_loop_t *loop);
/* Carries out a batch, as `run` of struct uvs__store_ops. */
void uvs__redis_run(struct uvs__redis *s, struct uvs__request *first);
/* Leaves the queues that this opener has claimed from, and closes all handles. */
void uvs__redis_stop(struct uvs__redis *s);
void uvs__redis_free(struct uvs__redis *s); /* after the handles were closed */
/* *s->map has changed. */
void uvs__redis_new_map(struct uvs__redis *s);
/* For tests: the i-th server of a store. */
struct uvs__redis *uvs__redis_server_of(struct uvs__store *store, size_t i);

/* ---------------------------------------------------------- redis_words.c --- */

struct uvs__words {
  struct uvs__arena arena;
  const char **words;
  size_t *sizes;
  int n, room;
  size_t bytes;
  bool no_memory; /* then no more words are added */
};

/* Words that are not copied must live until the command is sent. */
void uvs__words_add(struct uvs__words *w, const void *data, size_t size);
void uvs__words_text(struct uvs__words *w, const char *text); /* NULL: "" */
void uvs__words_int(struct uvs__words *w, int64_t number);
void uvs__words_when(struct uvs__words *w, struct uvs__when when);
void uvs__words_free(struct uvs__words *w);

/* ----------------------------------------------------------- redis_call.c --- */

/* The queues that a command names. */
struct uvs__queue_names {
  const char *names[UVS__REDIS_QUEUES];
  size_t n;
};
/* Returns the index of a queue, counted from 1. A queue that is not there is added. 0: no room. */
size_t uvs__queue_index(struct uvs__queue_names *q, const char *name);

/* A request that is being carried out. */
struct uvs__redis_op {
  struct uvs__redis *store;
  struct uvs__request *r;
  unsigned left; /* commands that are not answered, plus 1 while commands are made */
  bool done_any; /* a command was carried out */
  int status;
};
/* NULL: there is no memory, and the request was answered. */
struct uvs__redis_op *uvs__redis_op_new(struct uvs__redis *store, struct uvs__request *r);
/* A command of the request was answered, or could not be sent. The last one answers the request,
 * and frees the op. */
void uvs__redis_op_done(struct uvs__redis_op *op, int status);

/* A command. Each file puts this struct at the front of a struct of its own, and frees that in
 * `answered`. `body` has the elements of the reply after the common ones; it is NULL if status is
 * not 0. */
struct uvs__redis_call {
  struct uvs__redis *store;
  struct uvs__redis_op *op;
  void (*answered)(struct uvs__redis_call *call, int status, redisReply *const *body, size_t n);
  int64_t wall_ns; /* set before `answered`: the store's clock, as the script has read it */
};

/* The words that each command begins with: keys, epoch, time, queues. */
void uvs__redis_begin(struct uvs__redis *store, struct uvs__words *w,
                      const struct uvs__queue_names *queues);
/* Sends and frees the words. If that fails, `answered` is called at once. */
void uvs__redis_send(struct uvs__redis_call *call, enum uvs__redis_script script,
                     struct uvs__words *w, bool durable);
/* For requests of one command: makes a call of the op. NULL: there is no memory, and the op has
 * failed. `size` is the size of the caller's struct. */
void *uvs__redis_call_new(struct uvs__redis_op *op, size_t size,
                          void (*answered)(struct uvs__redis_call *call, int status,
                                           redisReply *const *body, size_t n));

/* The number of the newest event is known. */
void uvs__redis_note_events(struct uvs__redis *s, uint64_t last);
/* The server's clock was read between two monotonic times. */
void uvs__redis_note_clock(struct uvs__redis *store, struct uvs__redis_reading reading);
int64_t uvs__redis_now_us(struct uvs__redis *store);
int64_t uvs__redis_int(const redisReply *reply);
struct uvs__bytes uvs__redis_bytes(const redisReply *reply);
char *uvs__redis_key(struct uvs__redis *store, struct uvs__arena *a, const char *what,
                     const char *more); /* "{ns}:what" and more; NULL: no memory */

/* ------------------------------------------------------------ redis_job.c --- */

/* Reads big-endian numbers and counted texts. `bad` is set if there are not enough bytes. */
struct uvs__reader {
  const unsigned char *at, *end;
  bool bad;
};
struct uvs__reader uvs__reader_of(struct uvs__bytes bytes);
uint64_t uvs__read_number(struct uvs__reader *r, size_t size);
struct uvs__bytes uvs__read_bytes(struct uvs__reader *r, size_t size);
struct uvs__bytes uvs__read_rest(struct uvs__reader *r);

struct uvs__redis_record {
  int priority;
  int64_t number, put_us;
  struct uvs__bytes name, key, meta, payload; /* size 0: none */
};
struct uvs__redis_run {
  bool claimed, held, cancelled;
  uint32_t failures, crashes;
  int64_t due_us;
  struct uvs__bytes error, progress;
};
/* Returns false if the bytes are not a record. `whole`: with metadata and payload. */
bool uvs__redis_read_record(struct uvs__reader *r, bool whole, struct uvs__redis_record *ret);
bool uvs__redis_read_run(struct uvs__bytes bytes, struct uvs__redis_run *ret);

/* An info, with the number of the job. Returns 0, UV_ENOMEM, or UV_EIO if a text cannot be read. */
int uvs__redis_read_job(struct uvs__arena *a, const char *queue, struct uvs__bytes rest,
                        int64_t visible_us, struct uvs__bytes run, struct uvs__bytes record,
                        bool whole, uvs_job_info_t *ret, int64_t *ret_number);
int uvs__redis_read_dead(struct uvs__arena *a, struct uvs__bytes id, struct uvs__bytes text,
                         uvs_job_info_t *ret, int64_t *ret_number);
/* ret_key: NULL, or unchanged if the job had no key. An info of an end has no key. */
int uvs__redis_read_end(struct uvs__arena *a, struct uvs__bytes id, struct uvs__bytes text,
                        bool whole, uvs_job_info_t *ret, int64_t *ret_number, const char **ret_key);
/* A copy of the bytes as a string. NULL: no memory. */
const char *uvs__redis_string(struct uvs__arena *a, struct uvs__bytes bytes);

/* redis_admin.c: the definition of a cron. 0, UV_ENOMEM or UV_EIO. */
int uvs__redis_read_cron(struct uvs__arena *a, const char *name, struct uvs__bytes text,
                         const struct uvs__cron **ret);

/* --------------------------------------------------------------- requests --- */

/* PUTs that follow each other share commands: `r` is the first, n of them are linked by `next`. */
void uvs__redis_put(struct uvs__redis *store, struct uvs__request *r, size_t n);
void uvs__redis_claim(struct uvs__redis_op *op);
void uvs__redis_settle(struct uvs__redis_op *op);
void uvs__redis_alter(struct uvs__redis_op *op);
void uvs__redis_get(struct uvs__redis_op *op);
void uvs__redis_list(struct uvs__redis_op *op);
void uvs__redis_bulk(struct uvs__redis_op *op);
void uvs__redis_trim(struct uvs__redis_op *op);
void uvs__redis_count(struct uvs__redis_op *op);
void uvs__redis_events(struct uvs__redis_op *op);
void uvs__redis_set_queue(struct uvs__redis_op *op);
void uvs__redis_cron(struct uvs__redis_op *op); /* SET_CRON and REMOVE_CRON */
void uvs__redis_crons(struct uvs__redis_op *op);

/* redis_put.c: how much room a put takes in a command, its words, and its answer. */
size_t uvs__redis_put_size(const struct uvs__put *put);
void uvs__redis_put_words(struct uvs__words *w, const struct uvs__put *put, size_t queue);
/* Reads n answers. *at: the next id in the body. 0, UV_ENOMEM, UV_EIO (a wrong reply). */
int uvs__redis_read_puts(struct uvs__put *puts, size_t n, const char *digits,
                         redisReply *const *body, size_t n_body, size_t *at, int64_t wall_ns,
                         struct uvs__arena *a);
void uvs__redis_refuse_puts(struct uvs__put *puts, size_t n);

/* ----------------------------------------------------------- redis_scan.c --- */

struct uvs__match {
  int64_t number;
  uvs_job_info_t info; /* texts are in the arena */
};
/* A search for jobs that match a filter. The requester sets the first part. */
struct uvs__redis_scan {
  struct uvs__redis_call call; /* its op, and `answered` */
  const uvs_job_filter_t *filter;
  const char *queue, *rest; /* of the id */
  bool whole;               /* with payloads and results */
  uint32_t limit;
  int64_t cursor; /* where to begin; after the search, where to go on; 0: there is no more */
  struct uvs__arena *arena;
  void (*found)(struct uvs__redis_scan *scan, int status); /* called once */

  struct uvs__match *matches; /* by number; freed by uvs__redis_scan_free */
  size_t n, room;
  int kind;
  char **names; /* queues, from that of the cursor on */
  size_t n_names;
  unsigned pages;
};
void uvs__redis_scan(struct uvs__redis_scan *scan);
void uvs__redis_scan_free(struct uvs__redis_scan *scan); /* not *scan itself */

/* The names of n queues from `from` on, in the order in which they were made. n = -1: all. */
struct uvs__redis_names {
  struct uvs__redis *store;
  void (*named)(struct uvs__redis_names *names, int status, redisReply *const *list, size_t n);
};
void uvs__redis_ask_names(struct uvs__redis_names *names, int64_t from, int64_t n);

#endif
