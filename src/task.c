/* SPDX-License-Identifier: MIT */
#include "task.h"

#define TO(state) (1u << (state))

static const unsigned allowed[UVS__STATES] = {
    [UVS__FREE] = TO(UVS__WAITING) | TO(UVS__ENDED), /* accepted; accepted and dropped */
    [UVS__WAITING] = TO(UVS__WAITING) | TO(UVS__READY) | TO(UVS__ENDED) /* moved; due; cancelled */
                     | TO(UVS__FREE), /* cancelled, and nobody hears of it */
    [UVS__READY] = TO(UVS__READY) | TO(UVS__RUNNING) |
                   TO(UVS__ENDED)      /* to the loop; taken by a runner; cancelled */
                   | TO(UVS__WAITING), /* it was moved before its submitter could run it */
    [UVS__RUNNING] = TO(UVS__RUNNING) | TO(UVS__WAITING) |
                     TO(UVS__ENDED)   /* cancelled, pending; next period; last run */
                     | TO(UVS__FREE), /* a light one's last run */
    [UVS__ENDED] = TO(UVS__ENDED) | TO(UVS__OVER) | TO(UVS__FREE), /* `done` has returned */
    [UVS__OVER] = TO(UVS__OVER) | TO(UVS__FREE),
};

int uvs__status_of(int returned) {
  if (returned == 0 || returned == UVS_STOP)
    return returned;
  if (returned > 0)
    return UV_EINVAL;
  return returned < -0xfff ? UV_UNKNOWN : returned;
}

bool uvs__word_legal(uint64_t from, uint64_t to) {
  if ((allowed[uvs__word_state(from)] & TO(uvs__word_state(to))) == 0)
    return false;
  if ((from & ~to & (UVS__CANCELLED | UVS__LATE)) != 0 && uvs__word_state(to) != UVS__FREE)
    return false; /* an outcome, once decided, stays */
  if (uvs__word_state(to) == UVS__READY && (to & (UVS__INBOX | UVS__MOVING)) != 0)
    return false; /* what is ready is on no list that travels, and in nobody's hand */
  return true;
}

bool uvs__word_try(struct uvs__slot *t, uint64_t *w, uint64_t to) {
  UVS_ASSERT(uvs__word_legal(*w, to));
  return uvs__cas(&t->word, w, to, acq_rel);
}

bool uvs__word_try_locked(struct uvs__slot *t, uint64_t *w, uint64_t to) {
  UVS_ASSERT(uvs__word_legal(*w, to));
  return uvs__locked_cas(&t->word, w, to, acq_rel);
}
