/* SPDX-License-Identifier: MIT */
#include "late.h"

#define TIMER_STEP_NS 1000000
#define US 1000u
#define PACKED_MAX (UINT32_MAX >> 1)

/* The time from *at to `until` is the doing of `cause`. */
static void blame(int64_t *by_ns, int64_t *at_ns, int64_t until_ns, int64_t start_ns) {
  if (until_ns > start_ns)
    until_ns = start_ns;
  if (until_ns <= *at_ns)
    return;
  *by_ns += until_ns - *at_ns;
  *at_ns = until_ns;
}

int uvs__culprit(const int64_t by_ns[UVS_LATE_CAUSES]) {
  int culprit = -1;

  for (int i = 0; i < UVS_LATE_CAUSES; i++) {
    if (by_ns[i] > 0 && (culprit < 0 || by_ns[i] > by_ns[culprit]))
      culprit = i;
  }
  return culprit;
}

int uvs__late_split(const struct uvs__late *l, int64_t by_ns[UVS_LATE_CAUSES]) {
  int64_t at_ns = l->due_ns;

  for (int i = 0; i < UVS_LATE_CAUSES; i++)
    by_ns[i] = 0;
  if (l->start_ns <= l->due_ns)
    return -1;
  blame(&by_ns[UVS_LATE_CLOCK], &at_ns, at_ns + l->step_ns, l->start_ns);
  if (l->after_ns != 0) {
    blame(&by_ns[UVS_LATE_OVERLAP], &at_ns, l->ended_ns, l->start_ns);
    blame(&by_ns[UVS_LATE_LOOP], &at_ns, l->after_ns, l->start_ns);
  }
  blame(&by_ns[l->first ? UVS_LATE_SUBMIT : UVS_LATE_OVERLAP], &at_ns, l->since_ns, l->start_ns);
  if (l->timed) {
    int64_t until_ns = at_ns + TIMER_STEP_NS;

    blame(&by_ns[UVS_LATE_TIMER], &at_ns, until_ns < l->turn_ns ? until_ns : l->turn_ns,
          l->start_ns);
  }
  blame(&by_ns[UVS_LATE_LOOP], &at_ns, l->turn_ns, l->start_ns);
  blame(&by_ns[UVS_LATE_BUDGET], &at_ns, l->ready_ns, l->start_ns);
  if (l->again_ns > l->ready_ns && l->on_loop) {
    blame(&by_ns[UVS_LATE_BUDGET], &at_ns, l->home_ns, l->start_ns);
  } else if (l->again_ns > l->ready_ns) {
    blame(&by_ns[UVS_LATE_RUNNERS], &at_ns, l->home_ns, l->start_ns);
    blame(&by_ns[UVS_LATE_LOOP], &at_ns, l->again_ns, l->start_ns);
  }
  blame(&by_ns[UVS_LATE_RUNNERS], &at_ns, l->start_ns, l->start_ns);
  return uvs__culprit(by_ns);
}

uint32_t uvs__late_pack(uint64_t turn_ns, uint64_t ready_ns, bool timed) {
  uint64_t us = (ready_ns - turn_ns) / US;

  return (uint32_t)(us < PACKED_MAX ? us : PACKED_MAX) << 1 | timed;
}

void uvs__late_unpack(uint32_t packed, struct uvs__late *l) {
  l->turn_ns = l->ready_ns - (int64_t)(packed >> 1) * US;
  l->timed = (packed & 1) != 0;
}
