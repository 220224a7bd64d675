/* SPDX-License-Identifier: MIT
 *
 * kill_node: what its files share. kill_node.c opens the store and runs the jobs, kill_puts.c puts
 * and cancels them, kill_drain.c ends them and tells what is left. */
#ifndef TEST_JOBS_KILL_NODE_H
#define TEST_JOBS_KILL_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include <uvsched/jobs.h>

/* From the command line, as NAME=NUMBER. */
struct node_settings {
  int64_t lease;   /* ms */
  int64_t places;  /* handlers at a time */
  int64_t puts;    /* by one process; 0: no bound */
  int64_t waiting; /* puts that wait for their answer at a time */
  int64_t rate;    /* puts a second; 0: a put follows each answer */
  int64_t delay;   /* jobs are due after 0 to so many ms */
  int64_t sleep;   /* ms of each handler; 0: most are brief */
  int64_t crashes; /* max_crashes */
  int64_t keep;    /* 1: every second job has a record of its end, with its fence as result */
  int64_t timeout; /* put_timeout_ns in ms */
  int64_t clock;   /* this process's clock is so many seconds ahead (libfaketime) */
  int64_t cron;    /* 1: defines a cron with an occurrence each second */
  int64_t bulk;    /* puts so many jobs, 1000 a call, due at the instant `at` (in us), and no more */
  int64_t at;
  int64_t repeat; /* s for which a put without a clear answer is repeated; 0: it is not */
};
extern struct node_settings node;
extern bool node_breaks_early;

/* Writes a line, in one piece. */
void node_tell(const char *format, ...);
/* Ends the process if rc is an error. */
void node_need(int rc, const char *what);
uint64_t node_below(uint64_t n);
/* The real time of this machine in us, as a process sees it whose clock is right. */
int64_t node_now_us(void);

void node_puts_begin(uvs_jobs_t *jobs);
void node_puts_end(void);

/* Waits until no job is due or running, tells what is left, and closes the store. */
void node_drain(uvs_jobs_t *jobs);
/* Closes the store; then the loop ends. */
void node_close(uvs_jobs_t *jobs);

#endif
