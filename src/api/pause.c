/* SPDX-License-Identifier: MIT
 *
 * pause: uvs_pause, uvs_resume, uvs_run_now, uvs_pause_all, uvs_resume_all, uvs_find.
 */
#include "api/api.h"

#include "uvsched/control.h"

/* Locks, finds a task that is not settled, and gives it an extra record if it has none. NULL:
 * *ret_rc is UV_ENOENT or UV_ENOMEM, and the lock is not held. */
static struct uvs__task *lock_with_extra(uvs_t *s, uvs_id_t id, uint32_t *ret_slot, int *ret_rc) {
  int rc = 0;

  uvs__lock(s);
  while (rc == 0) {
    struct uvs__task *t = uvs__table_find(&s->table, id, ret_slot);

    if (t == NULL || uvs__is_settled(t))
      rc = UV_ENOENT;
    else if (t->extra != 0)
      return t;
    else if (uvs__slots_room(&s->table.extras) > 0)
      uvs__give_extra(s, *ret_slot);
    else
      rc = uvs__reserve(s, 0, 1); /* releases the lock meanwhile */
  }
  uvs__unlock(s);
  *ret_rc = rc;
  return NULL;
}

int uvs_pause(uvs_t *s, uvs_id_t id) {
  struct uvs__task *t;
  uint64_t now_ns;
  uint32_t slot;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  now_ns = uvs__now(s);
  t = lock_with_extra(s, id, &slot, &rc);
  if (t == NULL)
    return rc;
  if (s->shut) {
    rc = UV_ESHUTDOWN;
  } else if (uvs__extra(s, t)->paused) {
    rc = UV_EALREADY;
  } else {
    rc = t->state == UVS__RUNNING ? UVS_PAUSED_WHILE_RUNNING : UVS_PAUSED;
    uvs__pause(s, slot, now_ns);
  }
  uvs__unlock_and_wake(s, now_ns);
  return rc;
}

int uvs_resume(uvs_t *s, uvs_id_t id, unsigned flags) {
  uint64_t now_ns, wall_ns;
  struct uvs__task *t;
  uint32_t slot;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if ((flags & ~(unsigned)UVS_RESUME_FORGET) != 0)
    return UV_EINVAL;
  now_ns = uvs__now(s);
  wall_ns = uvs__clock_wall(&s->clock);
  uvs__lock(s);
  t = uvs__table_find(&s->table, id, &slot);
  if (t == NULL || uvs__is_settled(t))
    rc = UV_ENOENT;
  else if (t->extra == 0 || !uvs__extra(s, t)->paused)
    rc = UV_EALREADY;
  else
    uvs__resume(s, slot, (flags & UVS_RESUME_FORGET) != 0, now_ns, wall_ns);
  uvs__unlock_and_wake(s, now_ns);
  return rc;
}

/* Is an extra run due already? An extra run that uvs_pause has held back is not due. */
static bool has_extra_run(const struct uvs__extra *x) {
  return uvs__is_asked_for(x) && (x->at_once || !x->paused);
}

int uvs_run_now(uvs_t *s, uvs_id_t id) {
  uint64_t now_ns, wall_ns;
  struct uvs__extra *x;
  struct uvs__task *t;
  uint32_t slot;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  now_ns = uvs__now(s);
  wall_ns = uvs__clock_wall(&s->clock);
  t = lock_with_extra(s, id, &slot, &rc);
  if (t == NULL)
    return rc;
  x = uvs__extra(s, t);
  if (s->shut)
    rc = UV_ESHUTDOWN;
  else if (t->state != UVS__WAITING || x->held || has_extra_run(x))
    rc = UV_EBUSY;
  else
    uvs__run_extra(s, slot, now_ns, wall_ns);
  uvs__unlock_and_wake(s, now_ns);
  return rc;
}

/* ---- the whole scheduler ---- */

int uvs_pause_all(uvs_t *s) {
  uint64_t now_ns;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  now_ns = uvs__now(s);
  uvs__lock(s);
  if (s->shut || s->paused)
    rc = s->shut ? UV_ESHUTDOWN : UV_EALREADY;
  else
    s->paused = true;
  /* From now on no task becomes READY. Tasks that are READY become WAITING again. If another thread
   * has paused the scheduler, it may still be in this loop. So this thread visits all tasks too. */
  for (uint32_t slot = 0; s->paused && slot < s->table.tasks.made; slot++) {
    if (uvs__task(s, slot)->state == UVS__READY)
      uvs__unmake_ready(s, slot, now_ns);
    if (slot % UVS__BATCH == UVS__BATCH - 1)
      uvs__let_others_in(s);
  }
  uvs__unlock_and_wake(s, now_ns);
  return rc;
}

int uvs_resume_all(uvs_t *s) {
  uint64_t now_ns;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  now_ns = uvs__now(s);
  uvs__lock(s);
  if (!s->paused) {
    rc = UV_EALREADY;
  } else {
    s->paused = false;
    uvs__store(&s->resumed_ns, now_ns, relaxed); /* a time; orders nothing */
    uvs__note_due(s, 0);
  }
  uvs__unlock_and_wake(s, now_ns);
  return rc;
}

int uvs_is_paused(uvs_t *s) {
  bool paused;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  uvs__lock(s);
  paused = s->paused;
  uvs__unlock(s);
  return paused;
}

/* ---- by name ---- */

int uvs_find(uvs_t *s, const char *name, uvs_id_t *ret_id) {
  uint32_t slot;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (name == NULL || ret_id == NULL)
    return UV_EINVAL;
  uvs__lock(s);
  slot = uvs__name_find(s, name);
  if (slot == UVS__NONE || uvs__is_settled(uvs__task(s, slot)))
    rc = UV_ENOENT;
  else
    *ret_id = uvs__id_of(s, uvs__task(s, slot), slot);
  uvs__unlock(s);
  return rc;
}
