/* SPDX-License-Identifier: MIT
 *
 * Open stores of jobs for tests, on one loop, one scheduler and one virtual clock. Handlers run on
 * the loop (concurrency 0), so every run of a test is the same. Tests wait in real time only for
 * the threads of the stores to finish their work.
 *
 * ON_EVERY_STORE runs a suite against each store in the table of engine_fixture.c.
 *
 * NODES. Each open store is a node. engine_open opens node 0, and engine_open_node opens one more.
 * All nodes are on the same store, like several processes. A node that is stopped (engine_stop) is
 * not told that the clock has moved: it is like a process that is paused or has died.
 *
 * HANDLERS. engine_handle registers a probe. Each run is written to f->runs. The probe's `act`
 * decides what the handler returns. Without `act` the handler returns `ret`. With `hold` the run
 * stays pending until engine_finish.
 *
 * Calls: engine_put and others make a call, run everything until nothing changes any more, and
 * return the status of the callback (or the error of the call). They abort if the callback does not
 * come exactly once.
 */
#ifndef TEST_ENGINE_FIXTURE_H
#define TEST_ENGINE_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>

#include <uvsched/jobs.h>
#include <uvsched/jobs_admin.h>

#include "lib/main.h"
#include "lib/vclock.h"

#define NODES_MAX 3
#define RUNS_MAX 4000
#define PROBES_MAX 16
#define TEXT_MAX 8000
#define NO_ANSWER (-777777) /* the callback has not come yet */

#define EQ(expected, got) ASSERT_EQ_FMT((long long)(expected), (long long)(got), "%lld")
#define SAYS(expected, got) ASSERT_STR_EQ((expected), (got))

/* Chooses the store of all fixtures that are opened from now on. False: there are not so many.
 * STORE=name in the environment chooses only that one. */
bool engine_choose(size_t i);
extern const char *engine_store; /* its name; NULL: skipped */
extern bool engine_is_server;    /* nodes learn of changes by messages, which come at any time */
#define ON_EVERY_STORE(...) \
  for (size_t store_i_ = 0; engine_choose(store_i_); store_i_++) { \
    if (engine_store != NULL) { \
      __VA_ARGS__; \
    } \
  }

/* For tests that stand between the engine and the store, or need its clock. */
#define ON_EVERY_LOCAL_STORE(...) ON_EVERY_STORE(if (!engine_is_server) { __VA_ARGS__; })

struct engine;

struct probe {
  struct engine *f;
  int node;
  int ret;
  int (*act)(struct probe *p, uvs_job_t *job);
  bool hold;
  void *data; /* for the test */
  int number; /* for the test */
};

/* One run of a handler. */
struct run {
  char id[UVS_JOB_ID_MAX + 1];
  int node;
  int64_t wall_ns;
  uint32_t attempt, crashes;
  uint64_t fence;
  int64_t due_ns, put_ns;
  uvs_job_t *job; /* held, and not finished; else NULL */
};

/* What the callback of a call has got. */
struct answer {
  struct engine *f;
  int calls;
  int status;
  char id[UVS_JOB_ID_MAX + 1]; /* put: of the first job; info: of the job */
  uint64_t count;
  int64_t next;
  char text[TEXT_MAX]; /* list: the ids; crons; put: all statuses; info: result */
  char payload[100], meta[100], progress[100], error[600], name[65], queue[65], key[100];
  uvs_job_info_t info; /* without the pointers */
  uvs_jobs_stats_t stats;
  uvs_queue_stats_t queues[8]; /* without the names */
};

struct node {
  struct engine *f;
  int number;
  uvs_jobs_t *jobs;
  bool stopped, closed;
  int close_calls;
};

struct engine {
  uvs_jobs_options_t options; /* may be changed between engine_new and engine_open */
  uvs_options_t scheduler;
  uv_thread_t thread; /* of the loop */
  bool real_clock;    /* for tests with threads; then only open, run_until and close */
  struct vclock clock;
  uv_loop_t loop;
  uvs_t *s;
  bool scheduler_closed;
  char folder[200], store[300];
  struct node nodes[NODES_MAX];
  int n_nodes;
  int to; /* the node that calls go to */
  struct probe probes[PROBES_MAX];
  int n_probes;
  struct run runs[RUNS_MAX];
  int n_runs, n_told;
  char events[TEXT_MAX]; /* the first ones; a node's number is in front if it is not 0 */
  char text[TEXT_MAX];   /* of engine_ran, and texts of errors */
  uint64_t activity;     /* changes with each callback */
  struct answer last;    /* of the last call */
};

struct engine *engine_new(void); /* not open yet: options may be changed */
void engine_open(struct engine *f);
int engine_open_node(struct engine *f); /* its number */
struct engine *engine_start(void);      /* engine_new and engine_open */
/* Closes a node and opens it again, in the same place. Its handlers are gone. */
void engine_reopen(struct engine *f, int node);
/* Closes a node, and finishes its held runs with UV_ECANCELED when the grace is over. */
void engine_close_node(struct engine *f, int node, int64_t grace_ns);
/* Runs the loop, which sets *ended. */
void engine_run_until(struct engine *f, const bool *ended);
/* Only begins it. */
int engine_begin_close(struct engine *f, int node, int64_t grace_ns);
/* Closes everything that is open, and frees f. Aborts if a handle is still alive. */
void engine_close(struct engine *f);

void engine_quiesce(struct engine *f); /* until nothing changes any more; the clock stands still */
void engine_sync(struct engine *f);    /* the same; each node looks at the store first */
void engine_advance(struct engine *f, int64_t ns); /* from due instant to due instant */
void engine_jump(struct engine *f, int64_t ns);    /* at once */
void engine_step_wall(struct engine *f, int64_t ns);
int64_t engine_wall(struct engine *f);
int64_t engine_next_due(struct engine *f); /* monotonic */
void engine_stop(struct engine *f, int node);
void engine_go_on(struct engine *f, int node);

/* A handler of this name at node f->to. `o` may be NULL: concurrency 100. */
struct probe *engine_handle(struct engine *f, const char *name, const uvs_job_handler_t *o);
uvs_job_handler_t engine_handler(void); /* defaults, concurrency 100, no jitter */
int engine_probe_run(uvs_job_t *job);   /* the handler; its arg is a probe */
bool engine_is_on_loop(const struct engine *f);
/* Ends the i-th run, which is held. */
void engine_finish(struct engine *f, int i, int status);
/* The ids that have run since the last call, with blanks between; forgets them if told twice. */
const char *engine_ran(struct engine *f);
/* Waits until an event has come that has this text in it. */
void engine_await_event(struct engine *f, const char *text);
const char *engine_events(struct engine *f); /* since the last call: "dead n/a reason; lost n/b" */

uvs_job_spec_t engine_spec(const char *name, const char *id); /* due now, kept for a day */
int engine_put(struct engine *f, const uvs_job_spec_t *spec);
int engine_put_simple(struct engine *f, const char *name, const char *id, int64_t delay_ns);
int engine_cancel(struct engine *f, const char *id);
int engine_move(struct engine *f, const char *id, int64_t delay_ns, int64_t at_ns);
int engine_get(struct engine *f, const char *id);   /* to f->last */
int engine_state(struct engine *f, const char *id); /* or the error of engine_get */
int engine_list(struct engine *f, const uvs_job_filter_t *filter, int64_t cursor, uint32_t limit);
int engine_redrive(struct engine *f, const uvs_job_filter_t *filter);
int engine_purge(struct engine *f, const uvs_job_filter_t *filter);
uvs_job_queue_t engine_queue(const char *name);
int engine_set_queue(struct engine *f, const uvs_job_queue_t *q);
uvs_job_cron_t engine_cron_spec(const char *name, const char *expression);
int engine_cron(struct engine *f, const uvs_job_cron_t *c);
int engine_remove_cron(struct engine *f, const char *name);
int engine_crons(struct engine *f);
int engine_stats(struct engine *f);
/* Starts a wait. a->status is NO_ANSWER until it ends. */
int engine_wait(struct engine *f, struct answer *a, const char *id, int64_t timeout_ns);

/* Callbacks that write to a struct answer, for calls that a test makes itself. */
void answer_init(struct answer *a, struct engine *f);
void answer_put(uvs_jobs_t *jobs, const uvs_put_result_t *results, size_t n, void *arg);
void answer_status(uvs_jobs_t *jobs, int status, void *arg);
void answer_info(uvs_jobs_t *jobs, int status, const uvs_job_info_t *info, void *arg);

#endif
