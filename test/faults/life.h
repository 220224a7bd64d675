/* SPDX-License-Identifier: MIT
 *
 * The whole life of a scheduler, in steps, with everything that the API offers: all kinds of tasks,
 * from the loop and from other threads, lanes with and without own threads, queues, clean-ups,
 * groups, outcomes, reports. Everything that was accepted must end exactly once. A test may
 * interfere between the steps.
 */
#ifndef FAULTS_LIFE_H
#define FAULTS_LIFE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "uvsched/outcome.h"
#include "uvsched/settings.h"
#include "uvsched/stats.h"
#include "uvsched/executor.h"
#include "uvsched/lane.h"
#include "uvsched/queue.h"

#include "../lib/fault.h"
#include "../lib/vclock.h"
#include "refuse.h"

#define LIFE_TASKS 1024
#define LIFE_LANES 4
#define LIFE_VALUES 512

struct account {
  bool accepted;
  _Atomic int dones, runs;
  int fails; /* number of runs that fail before one succeeds */
  uvs_id_t id;
};

struct life {
  /* Set before life_run; the rest is zero. */
  bool real_clock, precise; /* precise: with real_clock only */
  bool own_threads;         /* the scheduler's bodies run on two of its own */
  bool alone;               /* no thread but the loop's: concurrency 0, no own threads */
  bool stuck;               /* nothing runs until the last step */
  int code;                 /* refused calls return this, or UV_ENOMEM */
  void (*before)(struct life *l, int step);
  int at; /* for `before` */

  uv_loop_t loop;
  uvs_t *s;
  struct vclock clock;
  struct fault fault;
  uvs_allocator_t under;
  uvs_threads_t *pool;
  uvs_lane_t lane[LIFE_LANES];
  uvs_queue_t *q;
  unsigned tasks;
  struct account account[LIFE_TASKS];
  _Atomic int cleanups, cleaned;
  int lanes, values, in_groups;
  _Atomic int quiet, out, closed, group_runs;
  _Atomic int elsewhere; /* the test's own thread has finished */
  bool lost;             /* the scheduler's handles were closed */
  const char *wrong;     /* the first error */
  int wrong_line, wrong_code;
  bool opened;
};

extern const int life_steps; /* number of steps: `before` is called with 0 .. life_steps - 1 */

/* From open to close. Returns false on an error: see `wrong`. If uvs_open itself was refused,
 * `opened` is false, which is not an error. */
bool life_run(struct life *l);
void life_say(const struct life *l); /* prints the error */

#endif
