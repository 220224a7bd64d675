/* SPDX-License-Identifier: MIT
 *
 * reject: decides about a submission that max_pending has no room for.
 *
 * The policy says on which terms submit.c accepts it. The rejected handler is asked at most once
 * per submission, without the lock, and may call anything.
 */
#include "api/submit.h"

#include "pool/runner.h"

bool uvs__rejection_known(int rejection, uvs_rejected_cb handler) {
  if (rejection == UVS_REJECT_ASK)
    return handler != NULL;
  return rejection >= UVS_REJECT_ABORT && rejection < UVS_REJECT_ASK;
}

int uvs_rejection_policy(uvs_t *s) {
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  uvs__lock(s);
  rc = s->rejection;
  uvs__unlock(s);
  return rc;
}

int uvs_set_rejection_policy(uvs_t *s, int rejection) {
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (!uvs__rejection_known(rejection, s->rejected_cb))
    return UV_EINVAL;
  uvs__lock(s);
  s->rejection = rejection;
  uvs__unlock(s);
  return 0;
}

uvs_rejected_cb uvs_rejection_handler(uvs_t *s) {
  return s == NULL ? NULL : s->rejected_cb;
}

static int policy_of_answer(int answer) {
  return answer > UVS_REJECT_ABORT && answer < UVS_REJECT_ASK ? answer : UVS_REJECT_ABORT;
}

enum uvs__terms uvs__terms_without_room(uvs_t *s, const uvs_task_t *given, size_t n, int code) {
  static const enum uvs__terms terms[] = {
      [UVS_REJECT_ABORT] = UVS__TERMS_REFUSED,
      [UVS_REJECT_DISCARD] = UVS__TERMS_DROP,
      [UVS_REJECT_DISCARD_OLDEST] = UVS__TERMS_PUSH,
      [UVS_REJECT_CALLER_RUNS] = UVS__TERMS_HERE,
  };
  int rejection;

  uvs__lock(s);
  rejection = s->rejection;
  uvs__unlock(s);
  if (rejection == UVS_REJECT_ASK)
    rejection = policy_of_answer(s->rejected_cb(s, given, n, code));
  return code == UV_ESHUTDOWN ? UVS__TERMS_REFUSED : terms[rejection];
}

/* ---- drop the oldest ---- */

/* The ready task that would start next; UVS__NONE. */
static uint32_t first_ready(const uvs_t *s) {
  uint32_t slot = uvs__ready_first(&s->table, &s->home.ready);

  for (const struct uvs__crew *c = s->wanting; c != NULL && slot == UVS__NONE; c = c->next)
    slot = uvs__ready_first(&s->table, &c->ready);
  return slot != UVS__NONE ? slot : uvs__ready_first(&s->table, &s->loop_ready);
}

/* The waiting task that is due first; UVS__NONE. Tasks of different clocks are
 * compared by the time that is left. */
static uint32_t first_waiting(const uvs_t *s, uint64_t now_ns, uint64_t wall_ns) {
  const struct uvs__heap_entry *wall = uvs__heap_head(&s->table.wall);
  uint32_t slot = uvs__delay_first(&s->delay);

  if (s->at.arrivals.first != UVS__NONE)
    return s->at.arrivals.first;
  if (wall == NULL)
    return slot;
  if (slot != UVS__NONE &&
      (int64_t)(uvs__task(s, slot)->due_ns - now_ns) <= (int64_t)(wall->deadline_ns - wall_ns))
    return slot;
  return ((struct uvs__extra *)uvs__slots_at(&s->table.extras, uvs__heap_slot(wall)))->slot;
}

bool uvs__drop_oldest(uvs_t *s, uint64_t now_ns, uint64_t wall_ns) {
  int steps = UVS__BATCH;
  uint32_t slot;

  while (!uvs__delay_settle(&s->delay, &steps)) {
    uvs__unlock(s); /* let others in */
    steps = UVS__BATCH;
    uvs__lock(s);
  }
  slot = first_ready(s);
  if (slot == UVS__NONE)
    slot = first_waiting(s, now_ns, wall_ns);
  if (slot == UVS__NONE)
    return false;
  uvs__end_unstarted(s, slot, UVS__DROPPED, 0);
  return true;
}

/* ---- the submitter runs it ---- */

bool uvs__fits_here(const uvs_t *s, const uvs_task_t *t, uint64_t due_ns, uint64_t now_ns,
                    bool watched) {
  return s->decorate_cb == NULL && t->work != NULL && t->kind == UVS_ONE_SHOT &&
         t->from != UVS_FROM_WALL && due_ns <= now_ns && t->jitter_ns == 0 &&
         t->failure_policy == UVS_FAIL_STOP && t->limit.run_ns == 0 && t->limit.total_ns == 0 &&
         t->lane == 0 && (t->flags & UVS_REPLACE) == 0 &&
         !watched; /* tasks of uvs_all and uvs_any: the call would miss its time limit */
}

void uvs__run_here(uvs_t *s, uint32_t slot, uint64_t now_ns) {
  struct uvs__seat seat = {UVS_ON_CALLER, 0, 0};
  struct uvs__handing h = {now_ns, now_ns, 0, 0};
  struct uvs__run_end e;
  struct uvs__started st;

  if (!uvs__may_run(s, uvs__task(s, slot), uvs__extra(s, uvs__task(s, slot)))) {
    uvs__end_refused(s, slot);
    return;
  }
  uvs__make_ready(s, slot, &h);
  uvs__start(s, slot, &seat, now_ns, &st);
  uvs__record_start(s, &st, &s->shared_cell); /* such a task has no time limit */
  uvs__unlock_and_wake(s, now_ns);
  uvs__call_body(s, &st, &e);
  uvs__lock(s);
  uvs__return_body(s, &st, &e, &s->shared_cell);
}
