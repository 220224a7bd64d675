/* SPDX-License-Identifier: MIT
 *
 * An executor that keeps submitted jobs, as on a shelf, until the test runs them, and that refuses
 * jobs when told to. Not thread-safe. For programs with the fixture.
 */
#ifndef TEST_SHELF_H
#define TEST_SHELF_H

#include "uvsched/executor.h"
#include "uvsched/lane.h"

#include "fixture.h"

#define SHELF_MAX 64

struct shelf_job {
  void (*fn)(void *arg);
  void *arg;
};

struct shelf {
  uvs_executor_t table;
  struct shelf_job jobs[SHELF_MAX]; /* the oldest first */
  unsigned n;
  unsigned asked;     /* calls of `submit` */
  unsigned submitted; /* calls that were accepted */
  unsigned closed;
  int refuses;                 /* below 0: refuses with this code ... */
  unsigned refuse_first;       /* ... the next n jobs; 0: all jobs */
  int at_once;                 /* what `concurrency` answers; initially 1 */
  int (*on_submit)(void *arg); /* may be NULL: called first; a negative answer is a refusal */
  void *arg;                   /* of on_submit */
};

void shelf_init(struct shelf *e);
/* Removes and returns the oldest job. */
struct shelf_job shelf_take(struct shelf *e);
/* Runs the oldest job on a thread of its own and joins it. Returns false if there is no thread. */
bool shelf_run(struct shelf *e);
bool shelf_run_job(struct shelf_job job);
/* Runs jobs and the loop until the shelf is empty. */
void shelf_empty(struct fixture *f, struct shelf *e);

/* Opens the fixture with the shelf as the scheduler's executor. */
enum greatest_test_res shelf_open(struct fixture *f, struct shelf *e);
/* Empties the shelf and closes the fixture. Fails if somebody closed the shelf or left a job on
 * it. */
enum greatest_test_res shelf_close(struct fixture *f, struct shelf *e);

/* Opens a lane of width 1 on this executor (NULL: the scheduler's). It logs EV_USER 'q' when
 * quiet. */
enum greatest_test_res lane_on(struct fixture *f, const uvs_executor_t *e, uvs_lane_t *ret);
void log_quiet(uvs_t *s, uvs_lane_t lane, void *arg); /* arg: the fixture */

/* Opens a fixture with the shelf as the executor of the scheduler, or only of one lane. There is a
 * lane unless place is SCHEDULER. */
enum place { SCHEDULER, LANE, LANE_WITH_ITS_OWN, PLACES };

enum greatest_test_res open_place(struct fixture *f, struct shelf *e, enum place place,
                                  uvs_lane_t *ret);

#endif
