/* SPDX-License-Identifier: MIT
 *
 * virtual: calls for a program that replaces the clock. It asks when the next task is due, and
 * tells the loop that the clock has changed.
 */
#include "api/api.h"

#include "loop/loop.h"

/* Lock held, but released between batches: makes the bound of the delay queue exact. */
static void settle_virtual(uvs_t *s) {
  int steps = UVS__BATCH;

  while (!uvs__delay_settle(&s->delay, &steps)) {
    uvs__unlock(s); /* let others in */
    steps = UVS__BATCH;
    uvs__lock(s);
  }
}

int uvs_next_due(uvs_t *s, int64_t *ret_ns) {
  void (*serve)(uvs_t *, uint64_t);
  uint64_t now_ns, wall_ns, due_ns;
  int rc = uvs__enter_loop(s);

  if (rc < 0)
    return rc;
  if (ret_ns == NULL)
    return UV_EINVAL;
  now_ns = uvs__now(s);
  wall_ns = uvs__clock_wall(&s->clock);
  uvs__lock(s);
  serve = s->queues.serve;
  uvs__unlock(s);
  if (serve != NULL)
    serve(s, 0); /* only makes due_ns exact */
  uvs__lock(s);
  settle_virtual(s);
  due_ns = uvs__next_look(s, uvs__wall_due(s, wall_ns, now_ns));
  if (uvs__has_loop_work(s) || s->at.first_pass)
    due_ns = now_ns; /* the next pass has work to do */
  uvs__unlock(s);
  *ret_ns = (int64_t)due_ns;
  return 0;
}

int uvs_clock_changed(uvs_t *s) {
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (uvs__on_loop(s))
    uvs__notice_loss(s); /* somebody may have closed the handles, and even the loop */
  uvs__wake_loop(s);
  return 0;
}
