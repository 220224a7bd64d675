/* SPDX-License-Identifier: MIT
 *
 * script: random programs of requests for a store. Each step is one request. A step remembers what
 * each of two stores has answered, so the same script can be run on the store that is tested and on
 * its model, which is the memory store.
 *
 * A script has up to SCRIPT_JOBS jobs in SCRIPT_QUEUES queues. The number of a job and the seed
 * determine what the job is put with.
 */
#ifndef TEST_JOBS_SCRIPT_H
#define TEST_JOBS_SCRIPT_H

#include "jobs/store.h"

#define SCRIPT_JOBS 96
#define SCRIPT_STEPS 300
#define SCRIPT_QUEUES 2

enum script_op {
  SCRIPT_PUT,
  SCRIPT_CLAIM,
  SCRIPT_SETTLE,
  SCRIPT_CANCEL,
  SCRIPT_MOVE,
  SCRIPT_QUEUE,
  SCRIPT_REDRIVE,
  SCRIPT_PURGE,
  SCRIPT_TRIM
};

enum { SCRIPT_TESTED, SCRIPT_MODEL }; /* which store */

struct script_answer {
  bool given;
  int status;                /* of the request */
  int statuses[SCRIPT_JOBS]; /* of its items */
  uint64_t count;            /* REDRIVE, PURGE */
  unsigned n_claimed;
  struct script_claimed {
    unsigned job;
    uint64_t fence;
    int64_t row;
  } claimed[SCRIPT_JOBS];
};

struct script_item {
  unsigned job;
  enum uvs__settle_op how;
  struct uvs__when when;
  bool puts; /* with ACK */
  unsigned put;
};

struct script_step {
  enum script_op op;
  int64_t wall_ns;
  unsigned queue, max, n;
  int64_t lease_us;
  uvs_job_queue_t set;
  struct script_item items[SCRIPT_JOBS];
  struct script_answer answers[2];
};

struct script_job {
  struct uvs__record record;
  char rest[12], key[12];
  uint8_t payload[10000];
};

struct script {
  uint64_t random;
  int64_t wall_ns; /* of the next step */
  int64_t now_ns;  /* what the stores' clock shows */
  unsigned n_jobs, n_steps;
  struct script_job jobs[SCRIPT_JOBS];
  struct script_step steps[SCRIPT_STEPS];
};

/* Frees with free(). */
struct script *script_make(uint64_t seed);
uint64_t script_below(struct script *s, uint64_t n); /* a random number */

/* The clock of all stores that run the script. */
uvs_clock_t script_clock(struct script *s);

/* Add steps. They have the same time: a batch. */
void script_add_batch(struct script *s);
/* All queues without bounds and pauses; then, an hour later, claim all that is there. */
void script_add_claim_all(struct script *s);
/* Give all jobs back that the tested store claimed in the last steps of this kind. */
void script_add_release_all(struct script *s);

/* Run the steps first to first + n - 1 as one batch. */
void script_run(struct script *s, struct uvs__store *store, int which, unsigned first, unsigned n);

/* Has the tested store answered that a step was done for which that means durable? Then the earlier
 * steps are durable, too. Not if nothing had to be written. */
bool script_is_durable(const struct script *s, unsigned step);

/* The state of a job: UVS_JOB_..., or 0: there is none; -1: the store failed. *ret_intact: its
 * payload is the one of the script. */
int script_state(struct script *s, struct uvs__store *store, unsigned job, bool *ret_intact);

/* Do two stores show the same? When leases end is not compared. If not, `text` says what differs.
 */
bool script_same(struct script *s, struct uvs__store *a, struct uvs__store *b, char *text,
                 size_t size);

#endif
