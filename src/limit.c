/* SPDX-License-Identifier: MIT
 *
 * limit: runs that take too long.
 *
 * The limit of a run begins when the loop makes it READY. The loop keeps the limits that have not
 * passed in a queue of their own, whose head is one more candidate for the ONE timer. A run is late
 * by the clock: whoever comes first, the loop at the limit or the body at its end, decides the same
 * way. If no run would follow, the loop settles the task there and then (LATE), and what the body
 * returns later is discarded; if not, it only raises the token, and the run fails when its body
 * returns.
 */
#include "scheduler.h"

#define BATCH 64

bool uvs__limit_passed(const struct uvs__cold *c, uint64_t now_ns) {
  return c->limit_due_ns != UVS__NEVER && now_ns >= c->limit_due_ns;
}

/* Would this task be over if the run that is about to start passed its limit? (Whether `until_ns`
 * ends it too is known only when the body has returned.) */
static bool is_final(const struct uvs__slot *t, const struct uvs__cold *c, uint64_t w) {
  /* relaxed, both: not RUNNING, so nobody writes them */
  uint32_t failures = uvs__locked_load(&c->failures, relaxed);
  uint32_t runs = uvs__locked_load(&t->runs, relaxed);

  if (c->max_runs != 0 && runs + UINT64_C(1) >= c->max_runs)
    return true;
  if (c->limit_status == 0)
    return uvs__word_kind(w) == UVS_ONCE;
  return c->failure == UVS_FAIL_STOP ||
         (c->max_failures != 0 && failures + UINT64_C(1) >= c->max_failures);
}

void uvs__limit_begin_locked(uvs_t *s, uint32_t slot, struct uvs__cold *c, uint64_t w) {
  if (c->limit_ns == UVS__NEVER)
    return;
  c->limit_due_ns = uvs__steps_later(c->ready_ns, 1, c->limit_ns);
  c->limit_final = is_final(uvs__slot(s, slot), c, w);
  if (c->limit_due_ns != UVS__NEVER)
    uvs__agenda_limit(&s->agenda, slot, c->limit_due_ns);
}

void uvs__limit_end(uvs_t *s, uint32_t slot) {
  struct uvs__cold *c;

  if (s->agenda.limits.count == 0)
    return; /* without a look at the record */
  c = uvs__agenda_cold(&s->agenda, uvs__slot(s, slot));
  if (c != NULL && c->limit_ns != UVS__NEVER)
    uvs__agenda_unlimit(&s->agenda, slot);
}

static bool body_over(uint64_t w) {
  return (w & UVS__INBOX) != 0 || (~w & (UVS__PENDING | UVS__FINISHED)) == 0;
}

/* Settled while its body goes on, perhaps for ever: who has only the error hook is told now. */
static void tell(uvs_t *s, uint32_t slot, const struct uvs__cold *c, uint64_t w) {
  if (s->error_cb != NULL && c->limit_status < 0 && (w & (UVS__HAS_DONE | UVS__HAS_AFTER)) == 0)
    s->error_cb(s, uvs__id(w, slot), c->limit_status,
                uvs__load(&uvs__slot(s, slot)->arg, relaxed)); /* constant */
}

/* The run that slot is READY for, or in, has passed its limit. */
static void pass(uvs_t *s, uint32_t slot, uint64_t now_ns) {
  struct uvs__slot *t = uvs__slot(s, slot);
  struct uvs__cold *c = uvs__agenda_cold(&s->agenda, t);
  uint64_t w = uvs__load(&t->word, acquire); /* pairs with the release of its last move */

  for (;;) {
    uint64_t late = uvs__word_with_status(w, c->limit_status) | UVS__LATE | UVS__TOKEN;
    bool settles = c->limit_final && (w & UVS__CANCELLED) == 0;

    if (uvs__word_state(w) == UVS__READY) {
      if (uvs__pool_withdraw(&s->pool, slot, &w)) {
        uvs__run_unstarted(s, slot, now_ns);
        return;
      }
    } else if (uvs__word_state(w) != UVS__RUNNING || body_over(w)) {
      return;
    } else if (settles ? uvs__pool_decide(&s->pool, slot, &w, late, UVS__TIMED_OUT)
                       : uvs__word_try(t, &w, w | UVS__TOKEN)) {
      if (settles) {
        uvs__cleanup_settled(s, slot, w);
        tell(s, slot, c, w);
      }
      return;
    }
  }
}

bool uvs__limits_expire(uvs_t *s, uint64_t now_ns, uint64_t until_ns) {
  for (unsigned n = 1;; n++) {
    uint32_t slot = uvs__agenda_take_limit(&s->agenda, now_ns);

    if (slot == UVS__NONE)
      return false;
    pass(s, slot, now_ns);
    if (n % BATCH == 0 && uvs__now(s) >= until_ns)
      return true;
  }
}
