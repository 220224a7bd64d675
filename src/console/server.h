/* SPDX-License-Identifier: MIT
 *
 * server: what the files of the HTTP server share.
 *
 *   listen.c    opens and closes; the loop's handles; the bounds on time
 *   request.c   one request: who may, what it asks for
 *   waiting.c   requests that wait for their answer
 *   answer.c    responses and their headers
 *   cache.c     resources that several clients ask for at once are rendered once
 *   events.c    live updates
 *   actions.c   POST
 *   jobs.c      durable jobs
 *   recording.c /trace.json, written by a thread of libuv's pool
 *
 * Everything is on the loop thread. libmicrohttpd runs inside MHD_run, which only listen.c calls. A
 * request that cannot be answered at once is suspended. The file that makes the answer calls
 * uvs__request_answer later, also outside MHD_run.
 */
#ifndef UVSCHED_CONSOLE_SERVER_H
#define UVSCHED_CONSOLE_SERVER_H

#include <uvsched/console.h>
#include <uvsched/console_jobs.h>
#include <uvsched/lane.h>

#include <microhttpd.h>

#include "console/guard.h"
#include "console/render.h"
#include "console/tasks.h"

/* The bounds. */
#define UVS__REQUEST_NS \
  UVS_SEC(10)                      /* until a request has arrived, also the wait for the next one */
#define UVS__ANSWER_NS UVS_SEC(30) /* until its answer was read */
#define UVS__EVENTS_NS UVS_HOUR(1) /* a client then connects again */
#define UVS__HEADERS_MAX (16 * 1024) /* memory of a connection */
#define UVS__TARGET_MAX 1000         /* bytes of path and query */
#define UVS__TICK_NS UVS_MS(500)     /* between two live updates, and checks of the bounds */
#define UVS__FRESH_NS UVS_MS(300)    /* a rendered resource is used again for this long */
#define UVS__SHARE 50 /* what takes 1 ms is rendered again after 50 ms at the earliest */
#define UVS__REST_MAX_NS UVS_SEC(1) /* but after this at the latest */
#define UVS__NO_FD_NS UVS_MS(100)   /* between two tries to accept, without a descriptor for it */
#define UVS__CACHED 16              /* rendered resources, and those in progress */
#define UVS__UPDATE_RUNS 500        /* in a live update */
#define UVS__STEP_NS UVS_US(250)    /* of a survey, at most */
#define UVS__STEP_GAP_NS UVS_MS(2)  /* between two steps, at least */

/* A connection, which may have several requests, one after the other. */
struct uvs__connection {
  struct uvs_console_s *console;
  struct uvs__connection *prev, *next;
  int fd;
  uint64_t until_ns; /* then it is shut down */
};

struct uvs__entry;

/* Work that ends later, on the loop. The request that waits for it may end before. */
struct uvs__later {
  struct uvs__later *prev, *next;
  struct uvs_console_s *console;
  struct uvs__request *request; /* NULL: it has ended */
  uint64_t began_ns;
};

struct uvs__request {
  struct uvs_console_s *console;
  struct MHD_Connection *connection;
  char *target; /* as it was sent; NULL: too long, or no memory */
  bool whole;   /* the headers and the (empty) body have arrived */
  bool suspended;
  bool answered;               /* `answer` and `status` are set */
  struct MHD_Response *answer; /* NULL: no memory */
  unsigned status;
  struct uvs__entry *entry; /* it waits for this entry of the cache */
  struct uvs__request *next_in_entry;
  struct uvs__later *later; /* it waits for this */
};

/* A client of /events. */
struct uvs__client {
  struct uvs__client *prev, *next;
  struct uvs_console_s *console;
  struct MHD_Connection *connection;
  struct uvs__update *update; /* what it is reading; NULL: it has read everything */
  size_t offset;
  uint64_t began_ns; /* when it got the update */
  bool suspended;
};

/* A resource that is being rendered, or was. */
struct uvs__entry {
  char *target;
  struct MHD_Response *answer; /* NULL: it is being rendered */
  unsigned status;
  uint64_t until_ns; /* then it is too old to be sent again */
  struct uvs__survey survey;
  bool surveying;             /* it is being rendered; `survey` is used for /tasks.json */
  struct uvs__request *first; /* that wait */
};

struct uvs_console_s {
  uvs_t *s;
  struct uvs__guard guard;
  uvs_lane_t lane; /* disposed by uvs_close: so the console learns of it */
  char url[UVS__ADDRESS_SIZE + 24];
  struct MHD_Daemon *daemon;
  pid_t pid; /* a forked child leaves libmicrohttpd to its parent */
  int listen_fd;
  uv_poll_t poll; /* libmicrohttpd's epoll */
  uv_timer_t timer;
  int handles; /* that are not closed */
  bool closing;
  bool ended;       /* the lane is quiet: the scheduler may be gone */
  bool kicked;      /* run again at once */
  uint64_t rest_ns; /* libmicrohttpd is not run before */
  struct uvs__connection *connections;
  uint64_t accepted;
  uint64_t tick_ns; /* the next; while there are connections */

  struct uvs__entry cache[UVS__CACHED];
  uint64_t step_ns; /* the next step of an entry */
  unsigned turn;    /* the entry that goes on next */

  struct uvs__client *clients;
  int clients_left;           /* how many more clients are accepted */
  struct uvs__update *update; /* the newest */
  uint64_t runs_ns;           /* when runs were last read */
  uint64_t runs_next_ns;      /* they are not read before */

  uvs_console_jobs_t jobs; /* jobs.jobs NULL: none */
  struct uvs__text jobs_text;
  uint64_t jobs_next_ns; /* when the statistics may be asked for again */

  struct uvs__later *laters;
  /* For the files below listen.c. */
  void (*kick)(struct uvs_console_s *c);   /* MHD_run, soon */
  void (*let_go)(struct uvs_console_s *c); /* frees it if nothing uses it any more */
  bool tracing;                            /* a trace is being written */
  int traces;                              /* being written or sent */
  uint64_t trace_next_ns;                  /* none is written before */

  uvs_console_close_cb on_close;
  void *arg;
};

/* ---- answer.c ---- */

/* A response with all headers. It takes the text. NULL: no memory. */
struct MHD_Response *uvs__answer_text(const char *type, struct uvs__text *text);
struct MHD_Response *uvs__answer_page(void);
void uvs__answer_headers(struct MHD_Response *answer, const char *type);
/* {"error": ...} */
struct MHD_Response *uvs__answer_error(const char *text);
/* Queues the response, and gives up the caller's share of it. NULL is accepted: no memory. */
enum MHD_Result uvs__answer_queue(struct MHD_Connection *connection, unsigned status,
                                  struct MHD_Response *answer);

/* ---- request.c ---- */

void *uvs__request_begin(void *console, const char *target, struct MHD_Connection *connection);
enum MHD_Result uvs__request_handle(void *console, struct MHD_Connection *connection,
                                    const char *url, const char *method, const char *version,
                                    const char *upload, size_t *upload_size, void **request);
void uvs__request_end(void *console, struct MHD_Connection *connection, void **request,
                      enum MHD_RequestTerminationCode why);
void uvs__connection_notify(void *console, struct MHD_Connection *connection, void **context,
                            enum MHD_ConnectionNotificationCode what);
/* ---- waiting.c ---- */

struct uvs__connection *uvs__connection_of(struct MHD_Connection *connection); /* NULL: no memory */
void uvs__request_lives(struct uvs__request *r, uint64_t ns); /* sets the bound on its time */
/* Stops the work on it until uvs__request_answer. */
void uvs__request_suspend(struct uvs__request *r);
/* Goes on with a suspended request: as if it had just arrived, unless it has an answer. */
void uvs__request_resume(struct uvs__request *r);
/* The answer of a request; resumes it, if it is suspended. Takes the response. */
void uvs__request_answer(struct uvs__request *r, unsigned status, struct MHD_Response *answer);

/* How an action went: code 0, with a count; or an error. */
void uvs__request_say(struct uvs__request *r, int code, uint64_t count);
/* The work that r waits for begins. NULL: no memory. */
struct uvs__later *uvs__later_begin(struct uvs__request *r);
/* It has ended. Returns the request; NULL: it has ended, and the console may be freed. */
struct uvs__request *uvs__later_end(struct uvs__later *later);
void uvs__later_leave(struct uvs__request *r); /* the request ends before */
/* Requests that wait go on without an answer. */
void uvs__later_close(struct uvs_console_s *c);

/* The CPU time of this thread. */
uint64_t uvs__console_cpu_ns(void);
/* How long not to render again what took so much CPU time. */
uint64_t uvs__console_rest(uint64_t took_ns);
void uvs__console_about(const struct uvs_console_s *c, struct uvs__stats_about *ret);

/* ---- cache.c ---- */

enum MHD_Result uvs__cache_get(struct uvs__request *r);
void uvs__cache_leave(struct uvs__request *r);          /* it waits no more */
void uvs__cache_forget(struct uvs_console_s *c);        /* an action has changed something */
bool uvs__cache_is_busy(const struct uvs_console_s *c); /* an entry is being rendered */
void uvs__cache_step(struct uvs_console_s *c);
void uvs__cache_close(struct uvs_console_s *c);

/* ---- events.c ---- */

enum MHD_Result uvs__events_get(struct uvs__request *r);
enum MHD_Result uvs__events_head(struct uvs__request *r); /* no body */
void uvs__events_tick(struct uvs_console_s *c);
void uvs__events_close(struct uvs_console_s *c); /* ends all clients */
void uvs__events_free(struct uvs_console_s *c);

/* ---- actions.c ---- */

bool uvs__action_exists(const char *target);
enum MHD_Result uvs__action_do(struct uvs__request *r);

/* ---- jobs.c ---- */

enum MHD_Result uvs__console_get_jobs(struct uvs__request *r);
int uvs__console_redrive(struct uvs__request *r);
int uvs__console_cancel_job(struct uvs__request *r);
void uvs__console_free_jobs(struct uvs_console_s *c);

/* ---- recording.c ---- */

enum MHD_Result uvs__recording_get(struct uvs__request *r);

#endif
