/* SPDX-License-Identifier: MIT
 *
 * policy: which tasks still run after a shutdown.
 *
 * A shutdown refuses new tasks at once. When a policy has changed, the loop looks at every accepted
 * task, a batch at a time. A task whose run is in progress is looked at when it is filed again. If
 * the shutdown asks bodies to stop, `interrupt` is called for it.
 */
#include "loop/loop.h"

/* Lock held: the first shutdown fixes what "already due" means (S38). */
static void shut(uvs_t *s, uint64_t now_ns, uint64_t wall_ns) {
  if (s->shutdown_ns == UVS__NEVER) {
    s->shutdown_ns = now_ns;
    s->shutdown_wall_ns = wall_ns;
  }
  s->shut = true;
  if (s->paused)                                 /* what is due still runs */
    uvs__store(&s->resumed_ns, now_ns, relaxed); /* a time; orders nothing */
  s->paused = false;
  s->at.policy_changed = true;
}

void uvs__shut(uvs_t *s, uint64_t kill_ns) {
  uint64_t now_ns = uvs__now(s);
  uint64_t wall_ns = uvs__clock_wall(&s->clock);

  uvs__lock(s);
  shut(s, now_ns, wall_ns);
  if (kill_ns < uvs__load(&s->kill_ns, relaxed)) /* written under the lock */
    uvs__store(&s->kill_ns, kill_ns, relaxed);   /* relaxed: it publishes nothing else */
  uvs__unlock_and_wake(s, now_ns);
}

bool uvs__stop_now(uvs_t *s, uvs_never_ran_cb each, void *arg) {
  uint64_t now_ns = uvs__now(s);
  uint64_t wall_ns = uvs__clock_wall(&s->clock);

  uvs__lock(s);
  if (uvs__load(&s->stop, relaxed)) { /* written under the lock */
    uvs__unlock(s);
    return false;
  }
  shut(s, now_ns, wall_ns);
  s->never_ran_cb = each;
  s->never_ran_arg = arg;
  uvs__store(&s->stop, true, release); /* pairs with the acquire in uvs_cancelled */
  uvs__unlock_and_wake(s, now_ns);
  return true;
}

void uvs__apply_policies(uvs_t *s) {
  while (s->at.policy_changed) {
    s->at.policy_changed = false;
    for (uint32_t slot = 0; slot < s->table.tasks.made; slot++) {
      struct uvs__task *t = uvs__task(s, slot);

      if ((t->state == UVS__WAITING || t->state == UVS__READY) &&
          !uvs__may_run(s, t, uvs__extra(s, t)))
        uvs__end_refused(s, slot);
      else if (t->state == UVS__RUNNING && uvs__was_asked(s, t, s->at.pass_ns))
        uvs__owe_interrupt(s, slot);
      if (slot % UVS__BATCH == UVS__BATCH - 1)
        uvs__let_others_in(s);
    }
  }
}
