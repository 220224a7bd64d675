/* SPDX-License-Identifier: MIT
 *
 * outcome: results, the wait for the end of a task, the wait for termination, and how another
 * thread abandons a wait. core/waiters.c says how threads sleep and are woken.
 *
 * A call that sleeps holds a reference on the scheduler, since uvs_close may come meanwhile. The
 * time-out of a wait is real time, even with a replaced clock.
 */
#include "api/api.h"

#include <stddef.h>
#include <string.h>

#define OUTCOME_SIZE_MIN offsetof(uvs_outcome_t, ideal_ns) /* up to status and result */

/* ---- sleeping ---- */

int uvs__may_wait(uvs_t *s) {
  return uvs__owns_loop(s) || uvs__thread_inside(s) ? UVS_EDEADLK : 0;
}

int uvs__wait_on(uv_cond_t *cond, uv_mutex_t *lock, uint64_t until_ns) {
  uint64_t now_ns;

  if (until_ns == UVS__NEVER) {
    uv_cond_wait(cond, lock);
    return 0;
  }
  now_ns = uv_hrtime();
  if (now_ns >= until_ns)
    return UV_ETIMEDOUT;
  uv_cond_timedwait(cond, lock, until_ns - now_ns);
  return 0;
}

int uvs__sleep(uvs_t *s, struct uvs__sleeper *z, uint64_t until_ns) {
  int rc = 0;

  while (!z->woken && !z->abandoned && rc == 0)
    rc = uvs__wait_on(&z->cond, &s->lock, until_ns);
  if (z->abandoned)
    return UV_EINTR; /* first: uvs_abandon has promised this result */
  return z->woken ? 0 : rc;
}

/* ---- outcomes of callers ---- */

int uvs__check_outcome(const uvs_outcome_t *ret) {
  return ret == NULL ? 0 : uvs__check_size(ret, ret->size, sizeof *ret, OUTCOME_SIZE_MIN);
}

void uvs__give_outcome(void *ret, size_t size, const uvs_outcome_t *o) {
  memset(ret, 0, size);
  memcpy(ret, o, size < sizeof *o ? size : sizeof *o);
  ((uvs_outcome_t *)ret)->size = size;
}

/* Lock held. The kept task of an id, and its extra record. 0, UV_ENOENT, UV_EINVAL (not kept). */
static int find_kept_locked(uvs_t *s, uvs_id_t id, uint32_t *ret_slot, struct uvs__task **ret_task,
                            struct uvs__extra **ret_extra) {
  *ret_task = uvs__table_find(&s->table, id, ret_slot);
  if (*ret_task == NULL)
    return UV_ENOENT;
  if (!uvs__has(*ret_task, UVS__KEPT))
    return UV_EINVAL;
  *ret_extra = uvs__extra(s, *ret_task);
  return (*ret_extra)->forgotten ? UV_ENOENT : 0;
}

int uvs_set_result(uvs_run_t *run, void *result) {
  const struct uvs__context *c;
  struct uvs__extra *x;
  void *before;

  if (run == NULL || run->state == NULL)
    return UV_EINVAL;
  c = run->state;
  if (!c->kept)
    return UV_EINVAL;
  x = c->extra; /* RUNNING: only this thread uses the results of the run */
  before = x->run_result;
  x->run_result = result;
  if (before != result && before != x->result && uvs__is_droppable(x, before))
    x->drop_result(before);
  return 0;
}

int uvs_forget(uvs_t *s, uvs_id_t id) {
  struct uvs__extra *x;
  struct uvs__task *t;
  uint32_t slot;
  void (*drop)(void *) = NULL;
  void *result = NULL;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  uvs__lock(s);
  rc = find_kept_locked(s, id, &slot, &t, &x);
  if (rc == 0 && uvs__has(t, UVS__TOLD)) {
    drop = x->drop_result;
    result = uvs__take_unclaimed(x);
    uvs__free_told(s, slot, t);
  } else if (rc == 0) {
    x->forgotten = true; /* the end of the task frees it */
  }
  uvs__unlock_and_wake(s, 0);
  if (result != NULL)
    drop(result);
  return rc;
}

int uvs_complete(uvs_t *s, uvs_id_t id, int status, void *result) {
  void (*drop)(void *) = NULL;
  void *replaced = NULL;
  struct uvs__task *t;
  uint32_t slot;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (status > 0 || uvs__status_of(status) != status || (status < 0 && result != NULL))
    return UV_EINVAL;
  uvs__lock(s);
  t = uvs__table_find(&s->table, id, &slot);
  if (t == NULL || t->state == UVS__ENDED || (t->state == UVS__RUNNING && uvs__is_settled(t)))
    rc = UV_ENOENT;
  else if (t->state == UVS__RUNNING)
    rc = UV_EBUSY;
  else if (result != NULL && !uvs__has(t, UVS__KEPT))
    rc = UV_EINVAL;
  else if (result != NULL)
    drop = uvs__extra(s, t)->drop_result;
  if (rc == 0)
    replaced = uvs__complete_unstarted(s, slot, status, result);
  uvs__unlock_and_wake(s, 0);
  if (drop != NULL && replaced != NULL)
    drop(replaced);
  return rc;
}

/* ---- the wait for a task ---- */

/* Lock held. may_sleep: 0, or what to answer instead of sleeping. */
static int wait_locked(uvs_t *s, uvs_id_t id, uint64_t until_ns, int may_sleep,
                       struct uvs__waiter *w) {
  struct uvs__extra *x;
  struct uvs__task *t;
  uint32_t slot;
  int rc = find_kept_locked(s, id, &slot, &t, &x);

  if (rc < 0)
    return rc;
  if (t->state == UVS__ENDED || (w->settled_is_enough && uvs__is_settled(t))) {
    uvs__waiter_serve(t, x, w);
    return 0;
  }
  if (may_sleep < 0)
    return may_sleep;
  uvs__waiter_link(x, w);
  rc = uvs__sleep(s, w->sleeper, until_ns);
  uvs__waiter_unlink(w); /* if the time-out came first; otherwise it is unlinked already */
  return rc;
}

int uvs_wait_with(uvs_t *s, uvs_id_t id, int64_t timeout_ns, unsigned flags, uvs_waiter_t *w,
                  uvs_outcome_t *ret) {
  struct uvs__waiter waiter = {.settled_is_enough = (flags & UVS_WAIT_SETTLED) != 0};
  struct uvs__sleeper z = {
      .unsettled = 1, .not_over = 1, .only = &waiter, .wants_result = ret != NULL};
  uint64_t until_ns;
  int may_sleep;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if ((flags & ~(unsigned)UVS_WAIT_SETTLED) != 0 || uvs__check_outcome(ret) < 0)
    return UV_EINVAL;
  may_sleep = timeout_ns > 0 ? uvs__may_wait(s) : UV_ETIMEDOUT;
  if (may_sleep == 0)
    rc = uv_cond_init(&z.cond);
  if (rc < 0)
    return rc;
  waiter.sleeper = &z;
  until_ns = uvs__later(uv_hrtime(), timeout_ns);
  uvs_retain(s);
  uvs__lock(s);
  rc = uvs__handle_claim(s, &z, w);
  if (rc == 0)
    rc = wait_locked(s, id, until_ns, may_sleep, &waiter);
  uvs__handle_release(&z);
  uvs__unlock(s);
  uvs_release(s);
  if (may_sleep == 0)
    uv_cond_destroy(&z.cond);
  waiter.outcome.id = id;
  if (rc == 0 && ret != NULL)
    uvs__give_outcome(ret, ret->size, &waiter.outcome);
  return rc;
}

int uvs_wait(uvs_t *s, uvs_id_t id, int64_t timeout_ns, unsigned flags, uvs_outcome_t *ret) {
  return uvs_wait_with(s, id, timeout_ns, flags, NULL, ret);
}

/* ---- the wait for termination ---- */

int uvs_wait_terminated_with(uvs_t *s, int64_t timeout_ns, uvs_waiter_t *w) {
  struct uvs__sleeper z = {.handle = NULL};
  uint64_t until_ns;
  int may_sleep;
  int rc = uvs__enter(s);

  if (rc == UV_ESHUTDOWN)
    return 0; /* closed, so terminated */
  if (rc < 0)
    return rc;
  may_sleep = timeout_ns > 0 ? uvs__may_wait(s) : UV_ETIMEDOUT;
  if (may_sleep == 0)
    rc = uv_cond_init(&z.cond);
  if (rc < 0)
    return rc;
  until_ns = uvs__later(uv_hrtime(), timeout_ns);
  uvs_retain(s);
  uvs__lock(s);
  rc = uvs__handle_claim(s, &z, w);
  if (rc == 0 && !s->terminated)
    rc = may_sleep;
  if (rc == 0 && !s->terminated) {
    uvs__terminated_link(s, &z);
    rc = uvs__sleep(s, &z, until_ns);
    uvs__terminated_unlink(&z); /* unless uvs__wake_terminated did */
  }
  uvs__handle_release(&z);
  uvs__unlock(s);
  uvs_release(s);
  if (may_sleep == 0)
    uv_cond_destroy(&z.cond);
  return rc;
}

int uvs_wait_terminated(uvs_t *s, int64_t timeout_ns) {
  return uvs_wait_terminated_with(s, timeout_ns, NULL);
}

/* ---- abandon a wait ---- */

int uvs_abandon(uvs_t *s, uvs_waiter_t *w) {
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  uvs__lock(s);
  rc = uvs__handle_abandon(s, w);
  uvs__unlock(s);
  return rc;
}
