/* SPDX-License-Identifier: MIT
 *
 * An executor that keeps what it is given, as on a shelf, until the test lets it run; and that
 * refuses when told to. Of one thread at a time. For programs with the fixture.
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
  unsigned asked;     /* `submit` was called */
  unsigned submitted; /* and it took them */
  unsigned closed;
  int refuses;                 /* below 0: with this code ... */
  unsigned refuse_first;       /* ... the next so many; 0: all */
  int at_once;                 /* what `concurrency` answers; 1 at first */
  int (*on_submit)(void *arg); /* may be NULL: called first; a negative answer is a refusal */
  void *arg;                   /* of on_submit */
};

void shelf_init(struct shelf *e);
/* The oldest job, off the shelf. */
struct shelf_job shelf_take(struct shelf *e);
/* The oldest one runs on a thread of its own, to its end. False: no thread. */
bool shelf_run(struct shelf *e);
bool shelf_run_job(struct shelf_job job);
/* Let all run, and the loop turn, until nothing is on the shelf any more. */
void shelf_empty(struct fixture *f, struct shelf *e);

/* The fixture with it as the scheduler's executor. */
enum greatest_test_res shelf_open(struct fixture *f, struct shelf *e);
/* Empties it and closes the fixture: nobody may have closed the shelf, nothing is left there. */
enum greatest_test_res shelf_close(struct fixture *f, struct shelf *e);

/* A lane of width 1 on this executor (NULL: the scheduler's), which logs EV_USER 'q' when quiet. */
enum greatest_test_res lane_on(struct fixture *f, const uvs_executor_t *e, uvs_lane_t *ret);
void log_quiet(uvs_t *s, uvs_lane_t lane, void *arg); /* arg: the fixture */

/* A fixture with the shelf as executor of the scheduler, or of a lane alone; with a lane, unless
 * place is SCHEDULER. */
enum place { SCHEDULER, LANE, LANE_WITH_ITS_OWN, PLACES };

enum greatest_test_res open_place(struct fixture *f, struct shelf *e, enum place place,
                                  uvs_lane_t *ret);

#endif
