/* SPDX-License-Identifier: MIT
 *
 * queue: one delay queue of values: in, out, ask; one value at a time.
 *
 * The queue's lock protects the values and the threads that sleep. A thread that finds a value due
 * hands it to the first sleeper before it takes one for itself: it takes the value out, writes it
 * into the sleeper's record, and wakes just that thread. So a sleeper that leaves for another
 * reason finds under the lock whether a value is its own, and no value is lost or handed out twice.
 */
#include "queue/queue.h"

#include <string.h>

/* Options of this size are the oldest that exist. */
#define LEAST_OPTIONS (offsetof(uvs_queue_options_t, arg) + sizeof(void *))

/* ---- queue locked ---- */

static void unlink_taker(uvs_queue_t *q, struct uvs__taker *t) {
  *(t->previous != NULL ? &t->previous->next : &q->first) = t->next;
  *(t->next != NULL ? &t->next->previous : &q->last) = t->previous;
  if (t->waiter != NULL)
    t->waiter->waiting = NULL;
}

static void link_taker(uvs_queue_t *q, struct uvs__taker *t) {
  t->previous = q->last;
  t->next = NULL;
  *(q->last != NULL ? &q->last->next : &q->first) = t;
  q->last = t;
  if (t->waiter != NULL)
    t->waiter->waiting = t;
}

/* The signal is given under the lock: the record is on the sleeper's stack, and stays there until
 * the sleeper has the lock. */
static void end_wait(uvs_queue_t *q, struct uvs__taker *t, int rc) {
  unlink_taker(q, t);
  t->rc = rc;
  t->over = true;
  uv_cond_signal(&t->cond);
}

uint32_t uvs__queue_due(const uvs_queue_t *q) {
  uint32_t slot = uvs__values_head(&q->values);
  uint64_t due_ns;

  if (slot == UVS__NONE)
    return UVS__NONE;
  due_ns = uvs__values_at(&q->values, slot)->due_ns;
  return due_ns != UVS__NEVER && due_ns <= uvs__now(q->s) ? slot : UVS__NONE;
}

uvs_entry_t uvs__queue_pop(uvs_queue_t *q, uint32_t slot) {
  uvs_entry_t e = uvs__values_entry(&q->values, slot);

  uvs__values_take(&q->values, slot);
  uvs__values_give(&q->values, slot);
  return e;
}

void uvs__queue_hand_over(uvs_queue_t *q) {
  while (q->first != NULL) {
    uint32_t slot = uvs__queue_due(q);

    if (slot == UVS__NONE)
      return;
    q->first->entry = uvs__queue_pop(q, slot);
    end_wait(q, q->first, 0);
  }
}

uint64_t uvs__queue_wants(const uvs_queue_t *q) {
  uint32_t slot = uvs__values_head(&q->values);

  if (slot == UVS__NONE || (q->first == NULL && q->consume == NULL))
    return UVS__NEVER;
  return uvs__values_at(&q->values, slot)->due_ns;
}

void uvs__queue_unlock_and_tell(uvs_queue_t *q) {
  uint64_t due_ns = uvs__queue_wants(q);
  bool earlier = due_ns < q->told_ns;

  if (earlier)
    q->told_ns = due_ns;
  uv_mutex_unlock(&q->lock);
  if (earlier)
    uvs__queues_tell(q->s, due_ns, 0, false);
}

static int unlock_and_answer(uvs_queue_t *q, int rc) {
  uv_mutex_unlock(&q->lock);
  return rc;
}

/* ---- open and close ---- */

/* Before the lock: a forked child never locks. */
static int check_entry(const uvs_queue_t *q, bool valid) {
  int rc = q == NULL ? UV_EINVAL : uvs__enter(q->s);

  return rc == 0 && !valid ? UV_EINVAL : rc;
}

int uvs__queue_enter(uvs_queue_t *q, bool valid) {
  int rc = check_entry(q, valid);

  if (rc < 0)
    return rc;
  uv_mutex_lock(&q->lock);
  return q->closed ? unlock_and_answer(q, UV_ESHUTDOWN) : 0;
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
    uvs__add(&q->refs, 1, relaxed); /* the caller has one, or is called by a thread that has */
  return q;
}

void uvs_queue_release(uvs_queue_t *q) {
  /* acq_rel: releases what this thread did with it; the last one acquires what all others did */
  if (q != NULL && uvs__sub(&q->refs, 1, acq_rel) == 1)
    destroy(q);
}

/* The caller's options as ours. A smaller struct leaves defaults. 0 or UV_EINVAL. */
static int read_options(const uvs_queue_options_t *given, uvs_queue_options_t *ret) {
  memset(ret, 0, sizeof *ret);
  if (given == NULL)
    return 0;
  if (uvs__check_size(given, given->size, sizeof *ret, LEAST_OPTIONS) < 0)
    return UV_EINVAL;
  memcpy(ret, given, given->size < sizeof *ret ? given->size : sizeof *ret);
  if ((ret->hold == NULL) != (ret->drop == NULL))
    return UV_EINVAL;
  return 0;
}

int uvs_queue_open(uvs_t *s, const uvs_queue_options_t *o, uvs_queue_t **ret) {
  uvs_queue_options_t options;
  uvs_queue_t *q;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (ret == NULL || read_options(o, &options) < 0)
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
  q->left = options.left;
  q->arg = options.arg;
  q->hold = options.hold;
  q->drop = options.drop;
  q->told_ns = UVS__NEVER;
  q->ref = true;
  uvs__values_init(&q->values, &s->mem);
  if (!uvs__queues_add(s, q)) {
    destroy(q);
    return UV_ESHUTDOWN;
  }
  *ret = q;
  return 0;
}

/* In due order. Values that a drain or clear has taken out are not in any more. */
static void give_back_all(uvs_queue_t *q) {
  for (;;) {
    uvs_entry_t e;
    uint32_t slot;

    uv_mutex_lock(&q->lock);
    slot = uvs__values_head(&q->values);
    if (slot != UVS__NONE)
      e = uvs__queue_pop(q, slot);
    uv_mutex_unlock(&q->lock);
    if (slot == UVS__NONE)
      return;
    if (q->left != NULL)
      q->left(q, &e, q->arg);
  }
}

void uvs__queue_shut(uvs_queue_t *q) {
  uv_mutex_lock(&q->lock);
  if (q->closed) {
    uv_mutex_unlock(&q->lock);
    return;
  }
  q->closed = true;
  q->consume = NULL;
  while (q->first != NULL)
    end_wait(q, q->first, UV_ECANCELED);
  uvs__queues_tell(q->s, UVS__NEVER, q->ref ? -1 : 0, true);
  uv_mutex_unlock(&q->lock);
  give_back_all(q);
}

int uvs_queue_close(uvs_queue_t *q) {
  if (q == NULL)
    return UV_EINVAL;
  if (uvs__swap(&q->opener_gone, true, relaxed)) /* only one thread finds false */
    return UV_EALREADY;
  if (!uvs__forked(&q->s->fork)) /* a child never locks, and calls nothing */
    uvs__queue_shut(q);
  uvs_queue_release(q);
  return 0;
}

/* The count changes under the queue's lock, too, so that it agrees with `ref`. */
static int set_ref(uvs_queue_t *q, bool ref) {
  int rc = uvs__queue_enter(q, true);

  if (rc < 0)
    return rc;
  if (q->ref != ref)
    uvs__queues_tell(q->s, UVS__NEVER, ref ? 1 : -1, false);
  q->ref = ref;
  return unlock_and_answer(q, 0);
}

int uvs_queue_ref(uvs_queue_t *q) {
  return set_ref(q, true);
}

int uvs_queue_unref(uvs_queue_t *q) {
  return set_ref(q, false);
}

int uvs_queue_has_ref(uvs_queue_t *q) {
  int rc = uvs__queue_enter(q, true);

  return rc < 0 ? rc : unlock_and_answer(q, q->ref);
}

uvs_t *uvs_queue_scheduler(const uvs_queue_t *q) {
  return q == NULL ? NULL : q->s;
}

/* ---- in ---- */

static int put(uvs_queue_t *q, uvs_entry_t *e, size_t n, uvs_item_t *ret_item) {
  bool valid = true;
  int rc;

  for (size_t i = 0; i < n; i++)
    valid = valid && e[i].value != NULL;
  rc = uvs__queue_enter(q, valid);
  if (rc < 0)
    return rc;
  rc = uvs__values_reserve(&q->values, n);
  if (rc < 0)
    return unlock_and_answer(q, rc);
  for (size_t i = 0; i < n; i++)
    e[i].item = uvs__values_add(&q->values, e[i].value, uvs__instant(e[i].due_ns));
  if (ret_item != NULL)
    *ret_item = e[0].item; /* before another thread can take the value */
  uvs__queue_hand_over(q);
  uvs__queue_unlock_and_tell(q);
  return 0;
}

int uvs_queue_put_at(uvs_queue_t *q, void *value, int64_t due_ns, uvs_item_t *ret_item) {
  uvs_entry_t e = {value, 0, due_ns};

  return put(q, &e, 1, ret_item);
}

int uvs_queue_put(uvs_queue_t *q, void *value, int64_t delay_ns, uvs_item_t *ret_item) {
  int rc = check_entry(q, true);

  if (rc < 0)
    return rc;
  return uvs_queue_put_at(q, value, (int64_t)uvs__later(uvs__now(q->s), delay_ns), ret_item);
}

int uvs_queue_put_many(uvs_queue_t *q, uvs_entry_t *e, size_t n) {
  int rc = check_entry(q, e != NULL && n > 0);

  if (rc == 0 && n > UVS__INDEX_MAX)
    rc = UV_E2BIG;
  return rc < 0 ? rc : put(q, e, n, NULL);
}

/* ---- out: one ---- */

/* Queue locked; unlocks it. Sleeps until another thread ends the wait, or until_ns by uv_hrtime. */
static int wait_and_unlock(uvs_queue_t *q, uint64_t until_ns, uvs_waiter_t *w, uvs_entry_t *ret) {
  struct uvs__taker t = {.waiter = w, .rc = UV_ETIMEDOUT};
  int rc = uv_cond_init(&t.cond);

  if (rc < 0)
    return unlock_and_answer(q, rc);
  link_taker(q, &t);
  uvs__queue_unlock_and_tell(q);
  uv_mutex_lock(&q->lock);
  while (!t.over && uvs__wait_on(&t.cond, &q->lock, until_ns) == 0)
    continue;
  if (!t.over)
    uvs__queue_hand_over(q); /* a last look: the loop may be late */
  if (!t.over)
    unlink_taker(q, &t);
  uv_mutex_unlock(&q->lock);
  uv_cond_destroy(&t.cond);
  if (t.rc == 0)
    *ret = t.entry;
  return t.rc;
}

/* Queue locked. 0: a call may sleep with w; UV_EBUSY; UV_EINTR: it was abandoned before it came. */
static int check_waiter(uvs_waiter_t *w) {
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
  uint64_t until_ns = uvs__later(uv_hrtime(), timeout_ns); /* a time-out is real time */
  uint32_t slot;
  int rc = uvs__queue_enter(q, true);

  if (rc < 0)
    return rc;
  rc = check_waiter(w);
  if (rc < 0)
    return unlock_and_answer(q, rc);
  uvs__queue_hand_over(q); /* to the threads that came before */
  slot = uvs__queue_due(q);
  if (slot == UVS__NONE && timeout_ns > 0)
    return wait_and_unlock(q, until_ns, w, ret);
  if (slot != UVS__NONE)
    *ret = uvs__queue_pop(q, slot);
  uvs__queue_unlock_and_tell(q);
  return slot != UVS__NONE ? 0 : UV_ETIMEDOUT;
}

int uvs_queue_poll_within(uvs_queue_t *q, int64_t timeout_ns, uvs_waiter_t *w, uvs_entry_t *ret) {
  int rc = check_entry(q, ret != NULL && (w == NULL || w->size == sizeof *w));

  if (rc < 0)
    return rc;
  if (timeout_ns > 0 && uvs__may_wait(q->s) < 0)
    return UVS_EDEADLK;
  uvs_queue_retain(q); /* the queue may be closed while this thread sleeps */
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

int uvs_queue_abandon(uvs_queue_t *q, uvs_waiter_t *w) {
  struct uvs__taker *t;
  int rc = uvs__queue_enter(q, w != NULL && w->size == sizeof *w);

  if (rc < 0)
    return rc;
  for (t = q->first; t != NULL && t->waiter != w;)
    t = t->next;
  if (t == NULL && w->waiting != NULL) /* it sleeps in another queue, under another lock */
    return unlock_and_answer(q, UV_EINVAL);
  if (t != NULL)
    end_wait(q, t, UV_EINTR);
  else
    w->requested = 1;
  return unlock_and_answer(q, t != NULL);
}

int uvs_queue_consume(uvs_queue_t *q, uvs_value_cb cb, void *arg) {
  int rc = q == NULL ? UV_EINVAL : uvs__enter_loop(q->s);

  if (rc == 0)
    rc = uvs__queue_enter(q, true);
  if (rc < 0)
    return rc;
  q->consume = cb;
  q->consume_arg = arg;
  uvs__queue_unlock_and_tell(q);
  return 0;
}

/* Queue locked; unlocks it. */
static int remove_and_unlock(uvs_queue_t *q, uint32_t slot, uvs_entry_t *ret) {
  if (slot != UVS__NONE) {
    uvs_entry_t e = uvs__queue_pop(q, slot);

    if (ret != NULL)
      *ret = e;
  }
  return unlock_and_answer(q, slot != UVS__NONE ? 0 : UV_ENOENT);
}

int uvs_queue_remove(uvs_queue_t *q, uvs_item_t item, uvs_entry_t *ret) {
  int rc = uvs__queue_enter(q, true);

  return rc < 0 ? rc : remove_and_unlock(q, uvs__values_find(&q->values, item), ret);
}

int uvs_queue_remove_value(uvs_queue_t *q, const void *value, uvs_entry_t *ret) {
  int rc = uvs__queue_enter(q, true);

  return rc < 0 ? rc : remove_and_unlock(q, uvs__values_find_value(&q->values, value), ret);
}

/* ---- ask ---- */

int uvs_queue_peek(uvs_queue_t *q, uvs_entry_t *ret) {
  uint32_t slot;
  int rc = uvs__queue_enter(q, ret != NULL);

  if (rc < 0)
    return rc;
  slot = uvs__values_head(&q->values);
  if (slot != UVS__NONE) {
    *ret = uvs__values_entry(&q->values, slot);
    if (q->hold != NULL)
      q->hold(ret->value, q->arg); /* under the lock: no consumer can take and free it before */
  }
  return unlock_and_answer(q, slot != UVS__NONE ? 0 : UV_ENOENT);
}

int uvs_queue_size(uvs_queue_t *q) {
  int rc = uvs__queue_enter(q, true);

  return rc < 0 ? rc : unlock_and_answer(q, (int)q->values.heap.count);
}

int uvs_queue_contains(uvs_queue_t *q, const void *value) {
  int rc = uvs__queue_enter(q, true);

  return rc < 0 ? rc : unlock_and_answer(q, uvs__values_find_value(&q->values, value) != UVS__NONE);
}
