/* SPDX-License-Identifier: MIT
 *
 * control: cancel, reschedule, finish, ref and unref. Each finds the task of the id under the lock
 * and makes one move.
 */
#include "api/api.h"

#include "core/trace.h"
#include "uvsched/control.h"

/* ---- cancel ---- */

/* Lock held. */
static void raise_token(uvs_t *s, uint32_t slot, struct uvs__task *t) {
  uvs__store(&t->token, UVS__TOKEN, release); /* pairs with the acquire in uvs_cancelled */
  uvs__owe_interrupt(s, slot);
}

/* Lock held. */
static int cancel(uvs_t *s, uint32_t slot, unsigned flags) {
  struct uvs__task *t = uvs__task(s, slot);

  if (t->state == UVS__WAITING || t->state == UVS__READY) {
    if ((flags & UVS_CANCEL_NO_DONE) != 0)
      t->done = NULL;
    uvs__end_unstarted(s, slot, UVS__WAS_CANCELLED, 0);
    return UVS_CANCELLED;
  }
  if (t->state != UVS__RUNNING || uvs__has(t, UVS__TIMED_OUT))
    return UV_ENOENT;
  if ((flags & UVS_CANCEL_IF_WAITING) != 0)
    return UV_EBUSY;
  if ((flags & UVS_CANCEL_TOKEN) != 0)
    raise_token(s, slot, t);
  if (uvs__has(t, UVS__CANCELLED))
    return UVS_CANCELLED_BEFORE;
  uvs__settle_running(s, slot, UVS__WAS_CANCELLED);
  return UVS_CANCELLED_WHILE_RUNNING;
}

int uvs_cancel(uvs_t *s, uvs_id_t id, unsigned flags) {
  const unsigned known = UVS_CANCEL_TOKEN | UVS_CANCEL_IF_WAITING | UVS_CANCEL_NO_DONE;
  uint32_t slot;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if ((flags & ~known) != 0)
    return UV_EINVAL;
  uvs__lock(s);
  uvs__table_prefetch(&s->table, id);
  rc = uvs__table_find(&s->table, id, &slot) == NULL ? UV_ENOENT : cancel(s, slot, flags);
  uvs__unlock_and_wake(s, 0);
  return rc;
}

int uvs_cancelled(const uvs_run_t *run) {
  const struct uvs__context *c;
  uint64_t stop_ns;

  if (run == NULL || run->state == NULL)
    return 0;
  c = run->state;
  /* acquire, all: a body that is asked to stop sees what was written before the request */
  if (uvs__load(c->token, acquire) != 0 || uvs__load(&c->scheduler->stop, acquire))
    return 1;
  if (c->gate != NULL && uvs__load(&c->gate->token, acquire) &&
      !uvs__load(&c->extra->spared, relaxed)) /* only the body's own thread uses it */
    return 1;
  /* Times are compared with the clock here: the loop may be held up, or may run this body. */
  stop_ns = uvs__load(&c->scheduler->kill_ns, relaxed); /* a time; nothing is ordered by it */
  if (c->limit_due_ns < stop_ns)
    stop_ns = c->limit_due_ns;
  return stop_ns != UVS__NEVER && uvs__now(c->scheduler) >= stop_ns;
}

/* ---- reschedule ---- */

int uvs_reschedule(uvs_t *s, uvs_id_t id, int64_t delay_ns) {
  uint64_t now_ns, wall_ns = 0;
  struct uvs__task *t;
  uint32_t slot;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  now_ns = uvs__now(s);
  uvs__lock(s);
  t = uvs__table_find(&s->table, id, &slot);
  if (t != NULL && uvs__has(t, UVS__WALL)) { /* the clock is not read under the lock */
    uvs__unlock(s);
    wall_ns = uvs__clock_wall(&s->clock);
    uvs__lock(s);
    t = uvs__table_find(&s->table, id, &slot);
  }
  if (t == NULL || t->state == UVS__ENDED) {
    rc = UV_ENOENT;
  } else if (t->state != UVS__WAITING) {
    rc = UV_EBUSY;
  } else {
    uvs__move(s, slot, uvs__later(uvs__has(t, UVS__WALL) ? wall_ns : now_ns, delay_ns), now_ns);
    if (uvs__has(t, UVS__WALL))
      uvs__note_due(s, delay_ns < (int64_t)UVS__WALL_CAP_NS ? uvs__later(now_ns, delay_ns)
                                                            : now_ns + UVS__WALL_CAP_NS);
  }
  uvs__unlock_and_wake(s, now_ns);
  return rc;
}

/* ---- finish ---- */

int uvs_finish(uvs_t *s, uvs_id_t id, int status) {
  struct uvs__run_end e;
  struct uvs__task *t;
  uint32_t slot;
  bool wall;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (status == UVS_PENDING)
    return UV_EINVAL;
  if (uvs__on_loop(s))
    uvs__notice_loss(s);
  e = (struct uvs__run_end){.status = uvs__status_of(status), .end_ns = uvs__now(s)};
  e.over_ns = e.end_ns;
  uvs__lock(s);
  t = uvs__table_find(&s->table, id, &slot);
  wall = t != NULL && uvs__has(t, UVS__WALL);
  if (wall) { /* the clock is not read under the lock */
    uvs__unlock(s);
    e.wall_ns = uvs__clock_wall(&s->clock);
    uvs__lock(s);
    t = uvs__table_find(&s->table, id, &slot);
  }
  if (t == NULL || t->state != UVS__RUNNING || uvs__has(t, UVS__FINISHED)) {
    rc = UV_ENOENT;
  } else if (uvs__has(t, UVS__PENDING)) {
    if (e.end_ns < t->ready_ns) /* the start of this run, which began after the clock was read */
      e.end_ns = e.over_ns = t->ready_ns;
    uvs__cell_end(&s->shared_cell, e.end_ns - t->ready_ns); /* see uvs__return_body */
    uvs__name_ended(s, uvs__extra(s, t), e.end_ns - t->ready_ns);
    if (uvs__is_traced(s) && uvs__ends_silently(t, e.status))
      uvs__trace_put_ended(s, slot, UVS__COMPLETED);
    uvs__body_returned(s, slot, &e);
  } else {
    t->flags |= UVS__FINISHED;
    t->status = e.status;
  }
  uvs__unlock_and_wake(s, e.end_ns);
  return rc;
}

/* ---- ref ---- */

static int set_ref(uvs_t *s, uvs_id_t id, bool ref) {
  struct uvs__task *t;
  uint32_t slot;
  int rc = uvs__enter_loop(s);

  if (rc < 0)
    return rc;
  uvs__lock(s);
  t = uvs__table_find(&s->table, id, &slot);
  if (t == NULL || t->state == UVS__ENDED) {
    rc = UV_ENOENT;
  } else if (uvs__has(t, UVS__REF) != ref) {
    t->flags ^= UVS__REF;
    s->live_refs += ref ? 1 : UINT64_MAX;
  }
  uvs__unlock_and_wake(s, 0);
  return rc;
}

int uvs_ref(uvs_t *s, uvs_id_t id) {
  return set_ref(s, id, true);
}

int uvs_unref(uvs_t *s, uvs_id_t id) {
  return set_ref(s, id, false);
}

int uvs_has_ref(uvs_t *s, uvs_id_t id) {
  struct uvs__task *t;
  uint32_t slot;
  int rc = uvs__enter_loop(s);

  if (rc < 0)
    return rc;
  uvs__lock(s);
  t = uvs__table_find(&s->table, id, &slot);
  rc = t == NULL || t->state == UVS__ENDED ? UV_ENOENT : uvs__has(t, UVS__REF);
  uvs__unlock(s);
  return rc;
}
