/* SPDX-License-Identifier: MIT
 *
 * late: why did a run start late? Splits the time between due and start by what it was spent on.
 * Pure: no clock, no task.
 *
 * A run that is due waits for its own previous run, then for the loop to take a turn, then for its
 * place among all that is due at once, then for a runner. Each of these ends at an instant; what
 * lies between two of them has one culprit, and the parts add up to the lateness. Two of them may
 * need the loop once more: the previous run for its `after`, and runners who have gone home to be
 * called out again.
 */
#ifndef UVS__LATE_H
#define UVS__LATE_H

#include "uvsched.h"

#include "base.h"

/* The instants, by the monotonic clock. Those that lie before `due` do not matter. */
struct uvs__late {
  int64_t due_ns;   /* a wall-clock task: as long before `start` as it is late */
  int64_t ended_ns; /* the body of its previous run had returned, */
  int64_t after_ns; /* and `after` was called on the loop; both 0 if there was none */
  int64_t since_ns; /* submitted, or its previous run was over */
  int64_t turn_ns;  /* the loop took a turn; if there was too much to do, the first of several */
  int64_t ready_ns; /* it was handed over */
  /* For a runner: they had all gone home, and the loop called them out again. For the loop itself:
   * the last turn was over but for a body that went on; the next one began. */
  int64_t home_ns, again_ns;
  int64_t start_ns;
  int64_t step_ns; /* so much of it is not time, but a step of the wall clock */
  bool on_loop;
  bool timed; /* it waited for its time, and so for the uv_timer, which counts in whole ms */
  bool first; /* there is no previous run: it was submitted late */
};

/* Returns the culprit, the largest part; -1 if it is on time. */
int uvs__late_split(const struct uvs__late *l, int64_t ret_by_ns[UVS_LATE_CAUSES]);

/* The largest part; -1 if there is none. */
int uvs__culprit(const int64_t by_ns[UVS_LATE_CAUSES]);

/* What a slot without cold record keeps in 32 bits of how it became ready: how long before `ready`
 * the turn began, in us, and whether it waited for the timer. */
uint32_t uvs__late_pack(uint64_t turn_ns, uint64_t ready_ns, bool timed);
void uvs__late_unpack(uint32_t packed, struct uvs__late *l); /* needs l->ready_ns */

#endif
