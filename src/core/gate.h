/* SPDX-License-Identifier: MIT
 *
 * gate: the core's part of a lane: the lane's tasks, and which of them may start.
 *
 * The READY tasks of a lane wait in the gate. Only the first of them joins the ready tasks of the
 * crew, and only if the lane has room for one more run. When that task starts, the next one joins
 * behind all other ready tasks: its key is the instant at which the gate lets it in. So lanes share
 * the runners task by task (R8).
 */
#ifndef UVS__CORE_GATE_H
#define UVS__CORE_GATE_H

#include "task/task.h"

struct uvs__crew;
struct uvs__cleanup;

struct uvs__gate {
  uvs_t *scheduler;       /* constant */
  struct uvs__crew *crew; /* constant: runs the lane's tasks */
  uint32_t width;         /* constant: the most runs at once */
  uint32_t running;
  uint32_t ready;                       /* READY tasks, `next` included */
  uint32_t next;                        /* the lane's one task in crew->ready; UVS__NONE: none */
  uint32_t first_waiting, last_waiting; /* the other READY tasks, by their links */
  uint32_t promised;                    /* the lane's part of the crew's `startable` */
  uint32_t first_task, last_task; /* tasks that have not ended, by lane_previous and lane_next */
  uint64_t live;      /* tasks that are not over, and calls that are about to add some */
  bool shut;          /* disposed: nothing starts, nothing is accepted */
  _Atomic bool token; /* disposed with token: bodies are asked to stop */
  struct uvs__cleanup *first_cleanup, *last_cleanup; /* for the lane's end */
  struct uvs__gate *prev, *next_gate;                /* all gates of the scheduler */
  void (*quiet)(struct uvs__gate *g);     /* lock held: the lane is disposed, its last task is over,
                                             and the runners of its own crew are back */
  uvs_lane_t number;                      /* constant: the lane's number in the directory */
  void (*free_lane)(struct uvs__gate *g); /* without the lock: the last hold has ended */
  void (*forget_lane)(struct uvs__gate *g); /* in a forked child: unlink and free the lane */
};

/* All of these need the lock. A task has become READY: it enters the gate, and joins the crew's
 * ready tasks if it may start. */
void uvs__gate_enter(uvs_t *s, struct uvs__gate *g, uint32_t slot);
/* A task is no longer READY. starts: its run begins. Otherwise the task was cancelled or dropped,
 * or its point of the grid is left out. */
void uvs__gate_leave(uvs_t *s, struct uvs__gate *g, uint32_t slot, bool starts);
/* A run of the lane has ended. */
void uvs__gate_run_ended(uvs_t *s, struct uvs__gate *g);
/* _join: a task joins the lane. _part: a task of the lane has ended. _left: `tasks` tasks of the
 * lane are over. */
void uvs__gate_join(uvs_t *s, struct uvs__gate *g, uint32_t slot);
void uvs__gate_part(uvs_t *s, struct uvs__gate *g, uint32_t slot);
void uvs__gate_left(struct uvs__gate *g, uint64_t tasks);
/* The lane is disposed: no task of it starts any more. */
void uvs__gate_shut(uvs_t *s, struct uvs__gate *g);
/* Updates the lane's part of the crew's `startable`. Called from outside when concurrency became 0
 * and the loop runs the lane's first task. */
void uvs__gate_promise(uvs_t *s, struct uvs__gate *g);

#endif
