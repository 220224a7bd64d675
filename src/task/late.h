/* SPDX-License-Identifier: MIT
 *
 * late: why did a run start late? Splits the time between due and start by cause.
 * Pure: no clock, no task.
 *
 * A run that is due waits for its own previous run, then for a pass of the loop, then for its place
 * among all tasks that are due at once, then for a runner. Each wait ends at an instant. The time
 * between two of these instants has one culprit, and the parts add up to the lateness. Two of the
 * waits may need the loop once more: the previous run for its `after`, and idle runners, which the
 * loop must send again.
 */
#ifndef UVS__LATE_H
#define UVS__LATE_H

#include "uvsched.h"

#include "port/base.h"

#define UVS__TIMER_STEP_NS 1000000

/* The instants, by the monotonic clock. Instants before `due` do not matter. */
struct uvs__late {
  int64_t due_ns;     /* wall-clock task: ready_ns minus its lateness at that time */
  int64_t ended_ns;   /* when the body of the previous run returned ... */
  int64_t after_ns;   /* ... and when its `after` was called on the loop; 0: it was not */
  int64_t since_ns;   /* when the task was submitted, or its previous run was over */
  int64_t resumed_ns; /* when the task or the scheduler was resumed; 0: neither was paused */
  int64_t turn_ns;    /* when the loop pass began; if a burst took several, the first one */
  int64_t ready_ns;   /* when the task became READY */
  /* For a runner: when the last active runner became idle, and when the loop sent the next one. For
   * the loop: when the budget of the last pass was used up, although a body went on, and when the
   * next pass began. */
  int64_t home_ns, again_ns;
  int64_t start_ns;
  int64_t step_ns; /* this much of the lateness is a step of the wall clock */
  bool on_loop;
  bool timed; /* the task waited for the uv_timer, which counts in whole ms */
  bool first; /* there is no previous run: the task was submitted late */
};

/* Adds the time from *at_ns to until_ns, but not beyond start_ns, to *by_ns. Moves *at_ns to the
 * end of that time. */
static inline void uvs__late_blame(int64_t *by_ns, int64_t *at_ns, int64_t until_ns,
                                   int64_t start_ns) {
  if (until_ns > start_ns)
    until_ns = start_ns;
  if (until_ns <= *at_ns)
    return;
  *by_ns += until_ns - *at_ns;
  *at_ns = until_ns;
}

/* since_ns is when the task was resumed. The scheduler may have been resumed later. */
static inline void uvs__late_resumed(struct uvs__late *l) {
  if (l->since_ns > l->resumed_ns)
    l->resumed_ns = l->since_ns;
  l->since_ns = INT64_MIN; /* the deadline of a wall-clock task may be negative here */
}

/* The largest part; -1 if there is none. */
static inline int uvs__culprit(const int64_t by_ns[UVS_LATE_CAUSES]) {
  int culprit = -1;

  for (int i = 0; i < UVS_LATE_CAUSES; i++) {
    if (by_ns[i] > 0 && (culprit < 0 || by_ns[i] > by_ns[culprit]))
      culprit = i;
  }
  return culprit;
}

/* Returns the culprit, the largest part; -1 if the run is on time. Inline: most instants of a plain
 * task are 0, so the compiler drops most of this. */
static inline int uvs__late_split(const struct uvs__late *l, int64_t by_ns[UVS_LATE_CAUSES]) {
  int64_t at_ns = l->due_ns;

  for (int i = 0; i < UVS_LATE_CAUSES; i++)
    by_ns[i] = 0;
  if (l->start_ns <= l->due_ns)
    return -1;
  uvs__late_blame(&by_ns[UVS_LATE_CLOCK], &at_ns, at_ns + l->step_ns, l->start_ns);
  if (l->after_ns != 0) {
    uvs__late_blame(&by_ns[UVS_LATE_OVERLAP], &at_ns, l->ended_ns, l->start_ns);
    uvs__late_blame(&by_ns[UVS_LATE_LOOP], &at_ns, l->after_ns, l->start_ns);
  }
  uvs__late_blame(&by_ns[l->first ? UVS_LATE_SUBMIT : UVS_LATE_OVERLAP], &at_ns, l->since_ns,
                  l->start_ns);
  uvs__late_blame(&by_ns[UVS_LATE_PAUSED], &at_ns, l->resumed_ns, l->start_ns);
  if (l->timed) {
    int64_t until_ns = at_ns + UVS__TIMER_STEP_NS;

    uvs__late_blame(&by_ns[UVS_LATE_TIMER], &at_ns, until_ns < l->turn_ns ? until_ns : l->turn_ns,
                    l->start_ns);
  }
  uvs__late_blame(&by_ns[UVS_LATE_LOOP], &at_ns, l->turn_ns, l->start_ns);
  uvs__late_blame(&by_ns[UVS_LATE_BUDGET], &at_ns, l->ready_ns, l->start_ns);
  if (l->again_ns > l->ready_ns && l->on_loop) {
    uvs__late_blame(&by_ns[UVS_LATE_BUDGET], &at_ns, l->home_ns, l->start_ns);
  } else if (l->again_ns > l->ready_ns) {
    uvs__late_blame(&by_ns[UVS_LATE_RUNNERS], &at_ns, l->home_ns, l->start_ns);
    uvs__late_blame(&by_ns[UVS_LATE_LOOP], &at_ns, l->again_ns, l->start_ns);
  }
  uvs__late_blame(&by_ns[UVS_LATE_RUNNERS], &at_ns, l->start_ns, l->start_ns);
  return uvs__culprit(by_ns);
}

#endif
