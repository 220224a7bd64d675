/* SPDX-License-Identifier: MIT
 *
 * runner: a job on a thread of libuv's pool, or of another executor, that runs one task after
 * another. See pool/runner.c.
 */
#ifndef UVS__POOL_RUNNER_H
#define UVS__POOL_RUNNER_H

#include "core/moves.h"

struct uvs__runner {
  uv_work_t req;
  uvs_t *scheduler;
  struct uvs__runner *next; /* list: idle, or returned. Under the lock */
  struct uvs__runner *all;  /* the runner that was made before this one */
  struct uvs__crew *crew;   /* valid while the runner is out */
  int index;
  uint64_t starts; /* the crew's `starts` when it took its task. Under the lock */
  /* Used by its thread only: */
  bool waited;                    /* it had to wait for the lock when it took this run */
  bool last_long, last_cpu_bound; /* of its last body */
  uint64_t no_yield_until_ns;
  uint64_t leave_ns, linger_ns; /* when it goes back; until when it waits for more */
  struct uvs__cell cell;        /* statistics of its runs. Its thread writes */
};

/* Runs one task after another, until none is left or the budget is used up. */
void uvs__run_tasks(struct uvs__runner *r);
/* Lock held: should the loop send one more runner now? If not, although there are more tasks than
 * runners, sets `held_back`. */
bool uvs__wants_runner(uvs_t *s, struct uvs__crew *c, uint64_t now_ns);

/* Calls the body of a run that has started, with the hooks around it, on this thread.
 * ret->status: the return value of the body. */
void uvs__call_body(uvs_t *s, struct uvs__started *st, struct uvs__run_end *ret);
/* Lock held: the body of a run has returned; *e is from uvs__call_body. Ends the run, unless the
 * body is pending and uvs_finish has not been called. `cell` records the length of the run. */
void uvs__return_body(uvs_t *s, const struct uvs__started *st, struct uvs__run_end *e,
                      struct uvs__cell *cell);
/* Records the start in the statistics. If the limit of the run has passed since the clock was read,
 * sets st->expired instead, and the body is not called. Without the lock; with the lock only if
 * `cell` is s->shared_cell and the run has no limit. */
void uvs__record_start(uvs_t *s, struct uvs__started *st, struct uvs__cell *cell);

#endif
