/* SPDX-License-Identifier: MIT
 *
 * cleanup: attach an action to the end of a task. loop/callbacks.c calls it.
 *
 * An action waits on the list of its task. If the task is over already, the action is called at the
 * next pass. An action with UVS_CLEANUP_WHEN_SETTLED is on both lists once the outcome is decided:
 * the end of the task may come before that pass, and must not come before the action. The list that
 * is served first calls the action; the other one frees it.
 */
#include "api/api.h"

int uvs__cleanup_make(uvs_t *s, uvs_cleanup_cb cb, void *arg, unsigned flags,
                      struct uvs__cleanup **ret) {
  if (cb == NULL || (flags & ~(unsigned)UVS_CLEANUP_WHEN_SETTLED) != 0)
    return UV_EINVAL;
  *ret = uvs__mem_alloc(&s->mem, 1, sizeof **ret, 0);
  if (*ret == NULL)
    return UV_ENOMEM;
  **ret = (struct uvs__cleanup){.cb = cb, .arg = arg, .when_settled = flags != 0};
  return 0;
}

bool uvs__cleanup_refused(const uvs_t *s, bool on_loop) {
  return s->cleanups_shut || (s->closing_cleanups && !on_loop);
}

/* Lock held: does, or did, a task have this id? */
static bool has_been(const uvs_t *s, uvs_id_t id) {
  uint64_t generation = (id ^ s->table.id_base) >> UVS__SLOT_BITS;
  uint32_t slot = (uint32_t)id & UVS__SLOT_MASK;
  const struct uvs__task *t;

  if (generation == 0 || slot >= s->table.tasks.made)
    return false;
  t = uvs__task(s, slot);
  return generation < t->generation || (generation == t->generation && t->state != UVS__FREE);
}

/* Lock held: a task that an action can still be attached to. NULL: the task is over; or its actions
 * are being called, and this is not the loop thread. (Otherwise another thread could add actions
 * for ever, and the task would never end.) */
static struct uvs__task *attachable(uvs_t *s, uvs_id_t id, bool on_loop, uint32_t *ret_slot) {
  struct uvs__task *t = uvs__table_find(&s->table, id, ret_slot);

  if (t == NULL || uvs__has(t, UVS__TOLD) || (s->ending == id && !on_loop))
    return NULL;
  return t;
}

static void attach(uvs_t *s, struct uvs__task *t, struct uvs__cleanup *a) {
  struct uvs__extra *x = uvs__extra(s, t);

  a->lists++;
  if (x->first_cleanup == NULL)
    x->first_cleanup = a;
  else
    x->last_cleanup->next = a;
  x->last_cleanup = a;
  t->flags |= UVS__CLEANUPS;
  if (a->when_settled && t->state != UVS__ENDED && uvs__is_settled(t))
    uvs__owe_cleanup(s, a);
}

int uvs_post(uvs_t *s, uvs_post_cb cb, void *arg) {
  struct uvs__cleanup *a;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  rc = uvs__cleanup_make(s, cb, arg, 0, &a);
  if (rc < 0)
    return rc;
  uvs__lock(s);
  if (uvs__cleanup_refused(s, uvs__on_loop(s)))
    rc = UV_ESHUTDOWN;
  else
    uvs__owe_cleanup(s, a);
  uvs__unlock_and_wake(s, 0);
  if (rc < 0)
    uvs__mem_free(&s->mem, a);
  return rc;
}

int uvs_add_cleanup(uvs_t *s, uvs_id_t id, uvs_cleanup_cb cb, void *arg, unsigned flags) {
  struct uvs__cleanup *a;
  struct uvs__task *t;
  uint32_t slot;
  bool on_loop;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  rc = uvs__cleanup_make(s, cb, arg, flags, &a);
  if (rc < 0)
    return rc;
  on_loop = uvs__on_loop(s);
  uvs__lock(s);
  if (!has_been(s, id))
    rc = UV_ENOENT;
  t = rc < 0 ? NULL : attachable(s, id, on_loop, &slot);
  if (t != NULL && t->extra == 0) {
    rc = uvs__reserve(s, 0, 1);
    t = attachable(s, id, on_loop, &slot); /* the lock may have been released */
    if (rc == 0 && t != NULL && t->extra == 0)
      uvs__give_extra(s, slot);
  }
  if (rc == 0 && t != NULL)
    attach(s, t, a);
  else if (rc == 0 && uvs__cleanup_refused(s, on_loop))
    rc = UV_ESHUTDOWN;
  else if (rc == 0)
    uvs__owe_cleanup(s, a);
  uvs__unlock_and_wake(s, 0);
  if (rc < 0)
    uvs__mem_free(&s->mem, a);
  return rc;
}
