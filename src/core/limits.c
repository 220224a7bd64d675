/* SPDX-License-Identifier: MIT
 *
 * limits: runs that take too long.
 *
 * A run may have two limits: one counts from when its task becomes READY, the other from the start
 * of the run. Only the nearer one counts. Limits that have not passed are in a heap of their own,
 * whose head is one more candidate for the timer. Only the clock decides whether a run has passed
 * its limit. So the loop, which looks at the limit, and the runner, which looks when the body
 * returns, come to the same answer. If no run would follow, the loop settles the task at the limit,
 * and the later return value of the body is discarded. Otherwise the loop only raises the token,
 * and the run ends as timed out when its body returns.
 */
#include "core/moves.h"

/* Would the task end if the run that is about to start passed its limit? (Whether `until_ns` ends
 * the task as well is known only when the body has returned.) */
static bool is_final(const struct uvs__task *t, const struct uvs__extra *x) {
  if (x->max_runs != 0 && x->runs + UINT64_C(1) >= x->max_runs)
    return true;
  if (x->limit_status == 0)
    return t->kind == UVS_ONE_SHOT && !x->extra_run;
  return x->failure == UVS_FAIL_STOP ||
         (x->max_failures != 0 && x->failures + UINT64_C(1) >= x->max_failures);
}

/* The run passes its limit at due_ns. */
static void set_limit(uvs_t *s, const struct uvs__task *t, struct uvs__extra *x, uint64_t due_ns) {
  x->limit_due_ns = due_ns;
  if (due_ns == UVS__NEVER)
    return;
  uvs__heap_push(&s->table.limits, x->limit_due_ns,
                 (uint64_t)t->seq << UVS__SLOT_BITS | (t->extra - 1));
  if (x->limit_due_ns < s->delay.soonest_ns)
    s->delay.soonest_ns = x->limit_due_ns;
}

void uvs__limit_begin(uvs_t *s, const struct uvs__task *t, struct uvs__extra *x) {
  x->limit_final = is_final(t, x);
  set_limit(s, t, x, uvs__steps_later(t->ready_ns, 1, x->total_limit_ns));
}

void uvs__limit_start(uvs_t *s, const struct uvs__task *t, struct uvs__extra *x,
                      uint64_t start_ns) {
  uint64_t due_ns = uvs__steps_later(start_ns, 1, x->run_limit_ns);

  if (due_ns >= x->limit_due_ns)
    return;
  uvs__limit_end(s, t, x);
  set_limit(s, t, x, due_ns);
}

void uvs__limit_end(uvs_t *s, const struct uvs__task *t, struct uvs__extra *x) {
  uint32_t index = (uint32_t)t->extra - 1;

  if (x->limit_due_ns != UVS__NEVER && uvs__heap_has(&s->table.limits, index))
    uvs__heap_remove(&s->table.limits, index);
  x->limit_due_ns = UVS__NEVER;
}
