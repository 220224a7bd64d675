/* SPDX-License-Identifier: MIT
 *
 * queue: one delay queue of values: in, out, ask; one value at a time.
 *
 * One lock guards the values and those who sleep. Whoever finds a value due hands it to the first
 * sleeper, before he takes one for himself: he takes it out, writes it into the sleeper, and wakes
 * just that thread. So a sleeper that leaves for another reason finds under the lock whether a
 * value is his, and nothing is lost or handed out twice. No user code runs under the lock, but for
 * allocator and clock.
 */
#include "scheduler.h"

#include <string.h>

/* ---- with the lock ---- */

static void unlink_sleeper(uvs_queue_t *q, struct uvs__sleeper *z) {
  *(z->before != NULL ? &z->before->behind : &q->first) = z->behind;
  *(z->behind != NULL ? &z->behind->before : &q->last) = z->before;
  if (z->waiter != NULL)
    z->waiter->waiting = NULL;
}

static void link_sleeper(uvs_queue_t *q, struct uvs__sleeper *z) {
  z->before = q->last;
  z->behind = NULL;
  *(q->last != NULL ? &q->last->behind : &q->first) = z;
  q->last = z;
  if (z->waiter != NULL)
    z->waiter->waiting = z;
}

/* The signal is given with the lock: the sleeper's stack stays until we let go of it. */
static void call_out(uvs_queue_t *q, struct uvs__sleeper *z, int rc) {
  unlink_sleeper(q, z);
  z->rc = rc;
  z->over = true;
  uv_cond_signal(&z->cond);
}

uint32_t uvs__queue_due_locked(uvs_queue_t *q) {
  uint32_t slot = uvs__values_head(&q->values);
  uint64_t due_ns;

  if (slot == UVS__NONE)
    return UVS__NONE;
  due_ns = uvs__values_at(&q->values, slot)->due_ns;
  return due_ns != UVS__NEVER && due_ns <= uvs__now(q->s) ? slot : UVS__NONE;
}

uvs_entry_t uvs__queue_pop_locked(uvs_queue_t *q, uint32_t slot) {
  uvs_entry_t e = uvs__values_entry(&q->values, slot);

  uvs__values_take(&q->values, slot);
  uvs__values_give(&q->values, slot);
  return e;
}

void uvs__queue_hand_over_locked(uvs_queue_t *q) {
  while (q->first != NULL) {
    uint32_t slot = uvs__queue_due_locked(q);

    if (slot == UVS__NONE)
      return;
    q->first->entry = uvs__queue_pop_locked(q, slot);
    call_out(q, q->first, 0);
  }
}

uint64_t uvs__queue_wants_locked(const uvs_queue_t *q) {
  uint32_t slot = uvs__values_head(&q->values);

  if (slot == UVS__NONE || (q->first == NULL && q->consume == NULL))
    return UVS__NEVER;
  return uvs__values_at(&q->values, slot)->due_ns;
}

void uvs__queue_unlock_and_tell(uvs_queue_t *q) {
  uint64_t due_ns = uvs__queue_wants_locked(q);
  bool earlier = due_ns < q->told_ns;

  if (earlier)
    q->told_ns = due_ns;
  uv_mutex_unlock(&q->lock);
  if (earlier)
    uvs__queues_tell(q->s, due_ns);
}

/* ---- open and close ---- */

int uvs__queue_enter(const uvs_queue_t *q) {
  return q == NULL ? UV_EINVAL : uvs__enter(q->s);
}

int uvs__queue_enter_locked(uvs_queue_t *q) {
  int rc = uvs__queue_enter(q);

  if (rc < 0)
    return rc;
  uv_mutex_lock(&q->lock);
  if (!q->closed)
    return 0;
  uv_mutex_unlock(&q->lock);
  return UV_ESHUTDOWN;
}

static void destroy(uvs_queue_t *q) {
  uvs_t *s = q->s;

  if (!uvs__forked(&s->fork)) /* a child's copy may be held by a thread that does not exist there */
    uv_mutex_destroy(&q->lock);
  uvs__values_free_memory(&q->values);
  uvs__mem_free(&s->mem, q);
  uvs_release(s);
}

uvs_queue_t *uvs_queue_retain(uvs_queue_t *q) {
  if (q != NULL)
    uvs__add(&q->refs, 1, relaxed); /* the caller has one, or is inside somebody's */
  return q;
}

void uvs_queue_release(uvs_queue_t *q) {
  /* acq_rel: releases what this thread did with it; the last one acquires what all others did */
  if (q != NULL && uvs__sub(&q->refs, 1, acq_rel) == 1)
    destroy(q);
}

int uvs_queue_open(uvs_t *s, const uvs_queue_options_t *o, uvs_queue_t **ret) {
  uvs_queue_t *q;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (ret == NULL || (o != NULL && uvs__check_size(o, o->size, sizeof *o, sizeof *o) < 0))
    return UV_EINVAL;
  q = uvs__mem_alloc(&s->mem, 1, sizeof *q, 0);
  if (q == NULL)
    return UV_ENOMEM;
  memset(q, 0, sizeof *q);
  rc = uv_mutex_init(&q->lock);
  if (rc < 0) {
    uvs__mem_free(&s->mem, q);
    return rc;
  }
  atomic_init(&q->refs, 2); /* the opener's and the list's */
  q->s = uvs_retain(s);
  q->left = o != NULL ? o->left : NULL;
  q->left_arg = o != NULL ? o->arg : NULL;
  q->told_ns = UVS__NEVER;
  q->ref = true;
  uvs__values_init(&q->values, &s->mem);
  if (!uvs__queues_add(s, q)) {
    destroy(q);
    return UV_ESHUTDOWN;
  }
  uvs__queues_hold(s, 1);
  *ret = q;
  return 0;
}

/* In due order. What drain and clear have in their hands is not in any more. */
static void give_back_all(uvs_queue_t *q) {
  for (;;) {
    uvs_entry_t e;
    uint32_t slot;

    uv_mutex_lock(&q->lock);
    slot = uvs__values_head(&q->values);
    if (slot != UVS__NONE)
      e = uvs__queue_pop_locked(q, slot);
    uv_mutex_unlock(&q->lock);
    if (slot == UVS__NONE)
      return;
    if (q->left != NULL)
      q->left(q, &e, q->left_arg);
  }
}

bool uvs__queue_shut(uvs_queue_t *q) {
  bool held;

  uv_mutex_lock(&q->lock);
  if (q->closed) {
    uv_mutex_unlock(&q->lock);
    return false;
  }
  q->closed = true;
  q->consume = NULL;
  held = q->ref;
  while (q->first != NULL)
    call_out(q, q->first, UV_ECANCELED);
  uv_mutex_unlock(&q->lock);
  if (held)
    uvs__queues_hold(q->s, -1);
  give_back_all(q);
  return true;
}

int uvs_queue_close(uvs_queue_t *q) {
  bool gone;
  int rc = uvs__queue_enter(q);

  if (rc == UV_EINVAL)
    return rc;
  if (rc != UV_ENOTSUP) /* there, only this thread is left, and the lock may be held */
    uv_mutex_lock(&q->lock);
  gone = q->opener_gone;
  q->opener_gone = true;
  if (rc != UV_ENOTSUP)
    uv_mutex_unlock(&q->lock);
  if (gone)
    return UV_EALREADY;
  if (rc != UV_ENOTSUP && uvs__queue_shut(q))
    uvs__queues_tell(q->s, 0); /* take it off the list */
  uvs_queue_release(q);
  return 0;
}

static int set_ref(uvs_queue_t *q, bool ref) {
  bool changed;
  int rc = uvs__queue_enter_locked(q);

  if (rc < 0)
    return rc;
  changed = q->ref != ref;
  q->ref = ref;
  uv_mutex_unlock(&q->lock);
  if (changed)
    uvs__queues_hold(q->s, ref ? 1 : -1);
  return 0;
}

int uvs_queue_ref(uvs_queue_t *q) {
  return set_ref(q, true);
}

int uvs_queue_unref(uvs_queue_t *q) {
  return set_ref(q, false);
}

int uvs_queue_has_ref(uvs_queue_t *q) {
  int rc = uvs__queue_enter_locked(q);

  if (rc < 0)
    return rc;
  rc = q->ref;
  uv_mutex_unlock(&q->lock);
  return rc;
}

uvs_t *uvs_queue_scheduler(const uvs_queue_t *q) {
  return q == NULL ? NULL : q->s;
}

/* ---- in ---- */

static int put(uvs_queue_t *q, uvs_entry_t *e, size_t n, uvs_item_t *ret_item) {
  int rc;

  for (size_t i = 0; i < n; i++) {
    if (e[i].value == NULL)
      return UV_EINVAL;
  }
  rc = uvs__queue_enter_locked(q);
  if (rc < 0)
    return rc;
  rc = uvs__values_reserve(&q->values, n);
  if (rc < 0) {
    uv_mutex_unlock(&q->lock);
    return rc;
  }
  for (size_t i = 0; i < n; i++)
    e[i].item = uvs__values_add(&q->values, e[i].value, uvs__instant(e[i].due_ns));
  if (ret_item != NULL)
    *ret_item = e[0].item; /* before anybody can take it */
  uvs__queue_hand_over_locked(q);
  uvs__queue_unlock_and_tell(q);
  return 0;
}

int uvs_queue_put(uvs_queue_t *q, void *value, int64_t delay_ns, uvs_item_t *ret_item) {
  uvs_entry_t e = {value, 0, 0};
  int rc = uvs__queue_enter(q);

  if (rc < 0)
    return rc;
  e.due_ns = (int64_t)uvs__later(uvs__now(q->s), delay_ns);
  return put(q, &e, 1, ret_item);
}

int uvs_queue_put_at(uvs_queue_t *q, void *value, int64_t due_ns, uvs_item_t *ret_item) {
  uvs_entry_t e = {value, 0, due_ns};
  int rc = uvs__queue_enter(q);

  return rc < 0 ? rc : put(q, &e, 1, ret_item);
}

int uvs_queue_put_many(uvs_queue_t *q, uvs_entry_t *e, size_t n) {
  int rc = uvs__queue_enter(q);

  if (rc < 0)
    return rc;
  if (e == NULL || n == 0)
    return UV_EINVAL;
  if (n > UVS__INDEX_MAX)
    return UV_E2BIG;
  return put(q, e, n, NULL);
}

/* ---- out: one ---- */

/* With the lock: linked. Until somebody ends the wait, or until_ns by uv_hrtime. */
static int sleep_locked(uvs_queue_t *q, struct uvs__sleeper *z, uint64_t until_ns) {
  while (!z->over) {
    if (uvs__wait_on(&z->cond, &q->lock, until_ns) == 0)
      continue;
    uvs__queue_hand_over_locked(q); /* a last look: the loop may be late */
    if (!z->over) {
      unlink_sleeper(q, z);
      return UV_ETIMEDOUT;
    }
  }
  return z->rc;
}

/* With the lock, which it lets go of. */
static int wait_and_unlock(uvs_queue_t *q, uint64_t until_ns, uvs_waiter_t *w, uvs_entry_t *ret) {
  struct uvs__sleeper z = {.waiter = w};
  int rc = uv_cond_init(&z.cond);

  if (rc < 0) {
    uv_mutex_unlock(&q->lock);
    return rc;
  }
  link_sleeper(q, &z);
  uvs__queue_unlock_and_tell(q);
  uv_mutex_lock(&q->lock);
  rc = sleep_locked(q, &z, until_ns);
  uv_mutex_unlock(&q->lock);
  uv_cond_destroy(&z.cond);
  if (rc == 0)
    *ret = z.entry;
  return rc;
}

/* With the lock: may a call sleep with w? Or was it called out before it came? */
static int check_waiter_locked(uvs_waiter_t *w) {
  if (w == NULL)
    return 0;
  if (w->waiting != NULL)
    return UV_EBUSY;
  if (w->requested == 0)
    return 0;
  w->requested = 0;
  return UV_EINTR;
}

static int take_or_wait(uvs_queue_t *q, int64_t timeout_ns, uvs_waiter_t *w, uvs_entry_t *ret) {
  uint64_t until_ns = uvs__later(uv_hrtime(), timeout_ns); /* patience is real time */
  uint32_t slot;
  int rc = uvs__queue_enter_locked(q);

  if (rc < 0)
    return rc;
  rc = check_waiter_locked(w);
  if (rc < 0) {
    uv_mutex_unlock(&q->lock);
    return rc;
  }
  uvs__queue_hand_over_locked(q); /* to those who came before */
  slot = uvs__queue_due_locked(q);
  if (slot == UVS__NONE && timeout_ns > 0)
    return wait_and_unlock(q, until_ns, w, ret);
  if (slot != UVS__NONE)
    *ret = uvs__queue_pop_locked(q, slot);
  uvs__queue_unlock_and_tell(q);
  return slot != UVS__NONE ? 0 : UV_ETIMEDOUT;
}

int uvs_queue_poll_within(uvs_queue_t *q, int64_t timeout_ns, uvs_waiter_t *w, uvs_entry_t *ret) {
  int rc = uvs__queue_enter(q);

  if (rc < 0)
    return rc;
  if (ret == NULL || (w != NULL && w->size != sizeof *w))
    return UV_EINVAL;
  if (timeout_ns > 0 && uvs__may_wait(q->s) < 0)
    return UVS_EDEADLK;
  uvs_queue_retain(q); /* close may come while we sleep */
  rc = take_or_wait(q, timeout_ns, w, ret);
  uvs_queue_release(q);
  return rc;
}

int uvs_queue_take(uvs_queue_t *q, uvs_waiter_t *w, uvs_entry_t *ret) {
  return uvs_queue_poll_within(q, UVS_NEVER, w, ret);
}

int uvs_queue_poll(uvs_queue_t *q, uvs_entry_t *ret) {
  int rc = uvs_queue_poll_within(q, 0, NULL, ret);

  return rc == UV_ETIMEDOUT ? UV_EAGAIN : rc;
}

/* With the lock: who sleeps here with w. */
static struct uvs__sleeper *find_sleeper(const uvs_queue_t *q, const uvs_waiter_t *w) {
  struct uvs__sleeper *z = q->first;

  while (z != NULL && z->waiter != w)
    z = z->behind;
  return z;
}

int uvs_queue_abandon(uvs_queue_t *q, uvs_waiter_t *w) {
  struct uvs__sleeper *z;
  int rc = uvs__queue_enter(q);

  if (rc < 0)
    return rc;
  if (w == NULL || w->size != sizeof *w)
    return UV_EINVAL;
  rc = uvs__queue_enter_locked(q);
  if (rc < 0)
    return rc;
  z = find_sleeper(q, w);
  if (z != NULL) {
    call_out(q, z, UV_EINTR);
    rc = 1;
  } else if (w->waiting == NULL) {
    w->requested = 1;
  } else {
    rc = UV_EINVAL; /* in another queue: that one's lock is not ours */
  }
  uv_mutex_unlock(&q->lock);
  return rc;
}

int uvs_queue_consume(uvs_queue_t *q, uvs_value_cb cb, void *arg) {
  int rc = q == NULL ? UV_EINVAL : uvs__enter_loop(q->s);

  if (rc == 0)
    rc = uvs__queue_enter_locked(q);
  if (rc < 0)
    return rc;
  q->consume = cb;
  q->consume_arg = arg;
  uvs__queue_unlock_and_tell(q);
  return 0;
}

static int remove_found_and_unlock(uvs_queue_t *q, uint32_t slot, uvs_entry_t *ret) {
  uvs_entry_t e;

  if (slot != UVS__NONE)
    e = uvs__queue_pop_locked(q, slot);
  uv_mutex_unlock(&q->lock);
  if (slot == UVS__NONE)
    return UV_ENOENT;
  if (ret != NULL)
    *ret = e;
  return 0;
}

int uvs_queue_remove(uvs_queue_t *q, uvs_item_t item, uvs_entry_t *ret) {
  int rc = uvs__queue_enter_locked(q);

  return rc < 0 ? rc : remove_found_and_unlock(q, uvs__values_find(&q->values, item), ret);
}

int uvs_queue_remove_value(uvs_queue_t *q, const void *value, uvs_entry_t *ret) {
  int rc = uvs__queue_enter_locked(q);

  return rc < 0 ? rc : remove_found_and_unlock(q, uvs__values_find_value(&q->values, value), ret);
}

/* ---- ask ---- */

int uvs_queue_peek(uvs_queue_t *q, uvs_entry_t *ret) {
  uint32_t slot;
  int rc = uvs__queue_enter(q);

  if (rc < 0)
    return rc;
  if (ret == NULL)
    return UV_EINVAL;
  rc = uvs__queue_enter_locked(q);
  if (rc < 0)
    return rc;
  slot = uvs__values_head(&q->values);
  if (slot != UVS__NONE)
    *ret = uvs__values_entry(&q->values, slot);
  uv_mutex_unlock(&q->lock);
  return slot != UVS__NONE ? 0 : UV_ENOENT;
}

int uvs_queue_size(uvs_queue_t *q) {
  int rc = uvs__queue_enter_locked(q);

  if (rc < 0)
    return rc;
  rc = (int)q->values.heap.count;
  uv_mutex_unlock(&q->lock);
  return rc;
}

int uvs_queue_contains(uvs_queue_t *q, const void *value) {
  int rc = uvs__queue_enter_locked(q);

  if (rc < 0)
    return rc;
  rc = uvs__values_find_value(&q->values, value) != UVS__NONE;
  uv_mutex_unlock(&q->lock);
  return rc;
}
