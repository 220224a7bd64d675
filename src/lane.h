/* SPDX-License-Identifier: MIT
 *
 * lane: tasks that keep their order and do not overlap, and end together.
 *
 * Whose turn it is in a lane is the pool's business (pool.h). Here is the rest: which tasks it has,
 * and its end. A lane is named by a number that may be stale (directory.h). It exists until it was
 * disposed and the last of its tasks is over; `life` counts those, from before they are accepted.
 *
 * The list of its tasks is the loop's, as the delay queues are. To dispose a lane shuts it at once,
 * from any thread: nothing starts any more, nothing is accepted. The rest is the loop's: it ends
 * the tasks on the list, and those that are still on their way as they come in.
 */
#ifndef UVS__LANE_H
#define UVS__LANE_H

#include "uvsched/lane.h"

#include "cleanup.h"
#include "pool.h"

#define UVS__DISPOSED UVS__BIT(63)
#define UVS__DISPOSED_TOKEN UVS__BIT(62) /* bodies are asked to stop */
#define UVS__LIVE_MASK (UVS__DISPOSED_TOKEN - 1)
#define UVS__NEWS_LISTED UVS__BIT(0)
#define UVS__NEWS_UNJOINED UVS__BIT(1) /* one more */

struct uvs__lane {
  struct uvs__lane_turns turns; /* the pool's lock */
  _Atomic uint64_t life;        /* DISPOSED, DISPOSED_TOKEN, and its tasks that are not over */
  uvs_t *scheduler;             /* constant, as what follows; a reference */
  uvs_lane_t number;
  uvs_quiet_cb quiet;
  void *arg;
  struct uvs__lane *prev, *next; /* all of the scheduler's; the pool's lock */

  /* For the loop: on the list of those that it should look at, and how many tasks were not accepted
   * after all. In one, so that the loop learns of those only by that list: until then they count,
   * and the lane, whose end nobody must miss, is there. */
  _Atomic uint64_t news;
  struct uvs__lane *look_next; /* who set LISTED in `news` writes it */

  uint32_t first, last; /* its tasks that the loop knows and that have not ended; the loop's */
  struct uvs__cleanup_list cleanups; /* the pool's lock */
  struct uvs__crew own_crew;         /* the same; if it has an executor of its own */
  bool over;                         /* the same: they are called, and it is on no list */
  bool called;                       /* the same: what other threads attach is too late */
  bool ending;                       /* the loop's: its last callbacks are to be made */
  struct uvs__lane *ending_next;     /* the loop's */
};

/* A scheduler's. */
struct uvs__lanes {
  struct uvs__lane *all; /* the pool's lock */
  bool shut;             /* the same: there will be no more */
  _Atomic(struct uvs__lane *) look;
  struct uvs__lane *ending, **ending_last; /* the loop's */
};

void uvs__lanes_init(struct uvs__lanes *all);

/* ---- any thread ---- */

/* May a task of this scheduler be submitted to this lane? 0, UV_ENOENT, UV_EINVAL, UV_ECANCELED. */
int uvs__lane_check(uvs_t *s, uvs_lane_t number);
/* The same, and *ret has one more task. */
int uvs__lane_join(uvs_t *s, uvs_lane_t number, struct uvs__lane **ret);
/* It was not accepted after all. */
void uvs__lane_unjoin(struct uvs__lane *lane);
static inline bool uvs__lane_disposed(struct uvs__lane *lane) {
  return (uvs__load(&lane->life, acquire) & UVS__DISPOSED) != 0; /* pairs with uvs__lane_dispose */
}
static inline bool uvs__lane_disposed_locked(struct uvs__lane *lane) {
  return (uvs__locked_load(&lane->life, relaxed) & UVS__DISPOSED) != 0; /* set under the lock */
}
/* Is the body asked to stop, because its lane was disposed? */
bool uvs__lane_token(struct uvs__cold *c);

/* ---- loop thread ---- */

/* The loop has taken it in; it has ended; it is over. */
void uvs__lane_enter(uvs_t *s, uint32_t slot);
void uvs__lane_ended(uvs_t *s, uint32_t slot);
void uvs__lane_left(uvs_t *s, struct uvs__lane *lane);
/* The last runner of its own crew came home. */
void uvs__lane_crew_home(uvs_t *s, struct uvs__lane *lane);
/* Look at those that were disposed elsewhere, until the time is over. True if something is left. */
bool uvs__lanes_look(uvs_t *s, uint64_t until_ns);
/* Last callbacks. True if something is left. */
bool uvs__lanes_end(uvs_t *s, uint64_t until_ns);
/* The scheduler closes: dispose all. True when the last is gone. */
void uvs__lanes_close(uvs_t *s);
bool uvs__lanes_gone(uvs_t *s);
/* A forked child closes: their memory. */
void uvs__lanes_forget(uvs_t *s);

#endif
