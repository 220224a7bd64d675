/* SPDX-License-Identifier: MIT
 *
 * queue: one delay queue of values: open and close, in, out.
 *
 * The queue's lock protects the values and the threads that sleep. A thread that finds a value due
 * hands it to the first sleeper before it takes one for itself: it takes the value out, writes it
 * into the sleeper's record, and wakes just that thread. So a sleeper that leaves for another
 * reason sees under the lock whether it was handed a value. No value is lost or handed out twice.
 */
#include "queue/queue.h"

#include <string.h>

/* The size of the options in the first version. */
#define LEAST_OPTIONS (offsetof(uvs_queue_options_t, arg) + sizeof(void *))

/* ---- queue locked ---- */

static void unlink_taker(uvs_queue_t *q, struct uvs__taker *t) {
  *t->link = t->next;
  *(t->next != NULL ? &t->next->link : &q->end) = t->link;
}

/* Signals under the lock: the record is on the sleeper's stack, and exists until the sleeper has
 * the lock again. */
static void end_wait(uvs_queue_t *q, struct uvs__taker *t, int rc) {
  unlink_taker(q, t);
  uvs__handle_release(&t->z);
  t->rc = rc;
  t->z.woken = true;
  uv_cond_signal(&t->z.cond);
}

static uint64_t first_due_ns(const uvs_queue_t *q) {
  const struct uvs__heap_entry *head = uvs__heap_head(&q->values.heap);

  return head == NULL ? UVS__NEVER : head->deadline_ns;
}

bool uvs__queue_is_due(const uvs_queue_t *q) {
  uint64_t due_ns = first_due_ns(q);

  return due_ns != UVS__NEVER && due_ns <= uvs__now(q->s);
}

uvs_entry_t uvs__queue_pop(uvs_queue_t *q) {
  uint32_t slot = uvs__values_head(&q->values);

  uvs__values_take(&q->values, slot);
  return uvs__values_give(&q->values, slot);
}

void uvs__queue_hand_over(uvs_queue_t *q) {
  while (q->first != NULL && uvs__queue_is_due(q)) {
    q->first->entry = uvs__queue_pop(q);
    end_wait(q, q->first, 0);
  }
}

uint64_t uvs__queue_wants(const uvs_queue_t *q) {
  return q->first == NULL && q->consume == NULL ? UVS__NEVER : first_due_ns(q);
}

/* ---- enter and leave ---- */

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
  return q->closed ? uvs__queue_leave(q, UV_ESHUTDOWN) : 0;
}

int uvs__queue_leave(uvs_queue_t *q, int rc) {
  uint64_t due_ns = uvs__queue_wants(q);
  bool earlier = due_ns < q->told_ns;

  if (earlier)
    q->told_ns = due_ns;
  uv_mutex_unlock(&q->lock);
  if (earlier)
    uvs__queues_tell(q->s, due_ns, 0, false);
  return rc;
}

/* ---- open and close ---- */

uvs_queue_t *uvs_queue_retain(uvs_queue_t *q) {
  if (q != NULL)
    uvs__add(&q->refs, 1, relaxed); /* the caller has a reference, or is called by its holder */
  return q;
}

void uvs_queue_release(uvs_queue_t *q) {
  uvs_t *s = q == NULL ? NULL : q->s;

  /* acq_rel: releases what this thread did; the last one acquires what all others did */
  if (q == NULL || uvs__sub(&q->refs, 1, acq_rel) != 1)
    return;
  if (!uvs__forked(&s->fork)) /* in a child, a thread that does not exist may hold the lock */
    uv_mutex_destroy(&q->lock);
  uvs__values_free_memory(&q->values);
  uvs__mem_free(&s->mem, q);
  uvs_release(s);
}

/* Copies the caller's options. Fields that a smaller struct lacks have defaults. 0 or UV_EINVAL. */
static int read_queue_options(const uvs_queue_options_t *given, uvs_queue_options_t *ret) {
  memset(ret, 0, sizeof *ret);
  if (given == NULL)
    return 0;
  if (uvs__read_sized(ret, sizeof *ret, given, given->size, LEAST_OPTIONS) < 0)
    return UV_EINVAL;
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
  if (ret == NULL || read_queue_options(o, &options) < 0)
    return UV_EINVAL;
  q = uvs__mem_alloc(&s->mem, 1, sizeof *q, 0);
  if (q == NULL)
    return UV_ENOMEM;
  *q = (struct uvs_queue_s){.options = options, .told_ns = UVS__NEVER, .ref = true};
  rc = uv_mutex_init(&q->lock);
  if (rc < 0) {
    uvs__mem_free(&s->mem, q);
    return rc;
  }
  atomic_init(&q->refs, 1);
  q->s = uvs_retain(s);
  q->end = &q->first;
  uvs__values_init(&q->values, &s->mem);
  if (!uvs__queues_add(s, q)) {
    uvs_queue_release(q);
    return UV_ESHUTDOWN;
  }
  *ret = q;
  return 0;
}

/* Queue locked: takes out at most n values, in order; due: only due values. Returns their number;
 * *ret_first is the first slot of their chain. */
static int take_many(uvs_queue_t *q, int64_t n, bool due, uint32_t *ret_first) {
  uint32_t *end = ret_first;
  int count = 0;

  for (; count < n && q->values.heap.count > 0 && (!due || uvs__queue_is_due(q)); count++) {
    *end = uvs__values_head(&q->values);
    uvs__values_take(&q->values, *end);
    end = &uvs__values_at(&q->values, *end)->next;
  }
  *end = UVS__NONE;
  return count;
}

/* Without the lock: gives the values of such a chain to `each`, which may be NULL. */
static void deliver(uvs_queue_t *q, uint32_t first, uvs_value_cb each, void *arg) {
  for (uint32_t slot = first, next; slot != UVS__NONE; slot = next) {
    uvs_entry_t e;

    uv_mutex_lock(&q->lock);
    next = uvs__values_at(&q->values, slot)->next;
    e = uvs__values_give(&q->values, slot);
    uv_mutex_unlock(&q->lock);
    if (each != NULL)
      each(q, &e, arg);
  }
}

void uvs__queue_shut(uvs_queue_t *q) {
  uint32_t left = UVS__NONE;

  if (uvs__forked(&q->s->fork)) /* a child never locks, and makes no callbacks */
    return;
  uv_mutex_lock(&q->lock);
  if (!q->closed) {
    q->closed = true;
    q->consume = NULL;
    while (q->first != NULL)
      end_wait(q, q->first, UV_ECANCELED);
    uvs__queues_tell(q->s, UVS__NEVER, q->ref ? -1 : 0, true);
    take_many(q, UVS_QUEUE_ALL, false, &left);
  }
  uv_mutex_unlock(&q->lock);
  deliver(q, left, q->options.on_left, q->options.arg);
}

int uvs_queue_close(uvs_queue_t *q) {
  if (q == NULL)
    return UV_EINVAL;
  if (uvs__swap(&q->opener_gone, true, relaxed)) /* only one thread finds false */
    return UV_EALREADY;
  uvs__queue_shut(q);
  uvs_queue_release(q);
  return 0;
}

/* The scheduler's count of such queues changes under the queue's lock, too, so that it agrees with
 * `ref`. */
static int set_queue_ref(uvs_queue_t *q, bool ref) {
  int rc = uvs__queue_enter(q, true);

  if (rc < 0)
    return rc;
  if (q->ref != ref)
    uvs__queues_tell(q->s, UVS__NEVER, ref ? 1 : -1, false);
  q->ref = ref;
  return uvs__queue_leave(q, 0);
}

int uvs_queue_ref(uvs_queue_t *q) {
  return set_queue_ref(q, true);
}

int uvs_queue_unref(uvs_queue_t *q) {
  return set_queue_ref(q, false);
}

int uvs_queue_has_ref(uvs_queue_t *q) {
  int rc = uvs__queue_enter(q, true);

  return rc < 0 ? rc : uvs__queue_leave(q, q->ref);
}

uvs_t *uvs_queue_scheduler(const uvs_queue_t *q) {
  return q == NULL ? NULL : q->s;
}

/* ---- in ---- */

static int put(uvs_queue_t *q, uvs_entry_t *e, size_t n, uvs_item_t *ret_item) {
  bool valid = e != NULL && n > 0;
  int rc;

  for (size_t i = 0; valid && i < n && n <= UVS__INDEX_MAX; i++) /* a larger n is refused below */
    valid = e[i].value != NULL;
  rc = uvs__queue_enter(q, valid);
  if (rc < 0)
    return rc;
  rc = uvs__values_reserve(&q->values, n);
  if (rc < 0)
    return uvs__queue_leave(q, rc);
  for (size_t i = 0; i < n; i++)
    e[i].item = uvs__values_add(&q->values, e[i].value, uvs__instant(e[i].due_ns));
  if (ret_item != NULL)
    *ret_item = e[0].item; /* before another thread can take the value */
  uvs__queue_hand_over(q);
  return uvs__queue_leave(q, 0);
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
  return put(q, e, n, NULL);
}

/* ---- out ---- */

/* Queue locked, but not during the sleep. Sleeps until another thread ends the wait, or until
 * uv_hrtime reaches until_ns. */
static int sleep_as(uvs_queue_t *q, struct uvs__taker *t, uint64_t until_ns) {
  int rc = uv_cond_init(&t->z.cond);

  if (rc < 0)
    return rc;
  t->rc = UV_ETIMEDOUT;
  t->link = q->end;
  *q->end = t;
  q->end = &t->next;
  uvs__queue_leave(q, 0);
  uv_mutex_lock(&q->lock);
  while (!t->z.woken && uvs__wait_on(&t->z.cond, &q->lock, until_ns) == 0)
    continue;
  if (!t->z.woken)
    uvs__queue_hand_over(q); /* a last look: the loop may be late */
  if (!t->z.woken)
    unlink_taker(q, t);
  uv_cond_destroy(&t->z.cond);
  return t->rc;
}

static int take_or_wait(uvs_queue_t *q, int64_t timeout_ns, uvs_waiter_t *w, uvs_entry_t *ret) {
  uint64_t until_ns = uvs__later(uv_hrtime(), timeout_ns); /* time-outs use real time */
  struct uvs__taker t = {.next = NULL};
  int rc = uvs__queue_enter(q, true);

  if (rc < 0)
    return rc;
  rc = uvs__handle_claim(q, &t.z, w);
  if (rc < 0)
    return uvs__queue_leave(q, rc);
  uvs__queue_hand_over(q); /* to the threads that wait already */
  if (uvs__queue_is_due(q))
    t.entry = uvs__queue_pop(q);
  else
    rc = timeout_ns > 0 ? sleep_as(q, &t, until_ns) : UV_ETIMEDOUT;
  uvs__handle_release(&t.z);
  if (rc == 0)
    *ret = t.entry;
  return uvs__queue_leave(q, rc);
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
  int rc = uvs__queue_enter(q, w != NULL && w->size == sizeof *w);

  if (rc < 0)
    return rc;
  if (w->owner == q) {
    end_wait(q, w->waiting, UV_EINTR);
    return uvs__queue_leave(q, 1);
  }
  if (w->waiting != NULL) /* the wait is elsewhere, under another lock */
    return uvs__queue_leave(q, UV_EINVAL);
  w->requested = 1;
  return uvs__queue_leave(q, 0);
}

int uvs_queue_consume(uvs_queue_t *q, uvs_value_cb cb, void *arg) {
  int rc = q == NULL ? UV_EINVAL : uvs__enter_loop(q->s);

  if (rc == 0)
    rc = uvs__queue_enter(q, true);
  if (rc < 0)
    return rc;
  q->consume = cb;
  q->consume_arg = arg;
  return uvs__queue_leave(q, 0);
}

/* Queue locked; unlocks it. */
static int remove_and_leave(uvs_queue_t *q, uint32_t slot, uvs_entry_t *ret) {
  uvs_entry_t e;

  if (slot == UVS__NONE)
    return uvs__queue_leave(q, UV_ENOENT);
  uvs__values_take(&q->values, slot);
  e = uvs__values_give(&q->values, slot);
  if (ret != NULL)
    *ret = e;
  return uvs__queue_leave(q, 0);
}

int uvs_queue_remove(uvs_queue_t *q, uvs_item_t item, uvs_entry_t *ret) {
  int rc = uvs__queue_enter(q, true);

  return rc < 0 ? rc : remove_and_leave(q, uvs__values_find(&q->values, item), ret);
}

int uvs_queue_remove_value(uvs_queue_t *q, const void *value, uvs_entry_t *ret) {
  int rc = uvs__queue_enter(q, true);

  return rc < 0 ? rc : remove_and_leave(q, uvs__values_find_value(&q->values, value), ret);
}

/* Takes out all these values in one critical section, so that no thread sees only some of them
 * gone. Then calls `each` for them, without the lock. */
static int take_n(uvs_queue_t *q, int64_t n, bool due, bool valid, uvs_value_cb each, void *arg) {
  uint32_t first;
  int rc = uvs__queue_enter(q, valid);

  if (rc < 0)
    return rc;
  if (due && n > 0)
    uvs__queue_hand_over(q);
  rc = uvs__queue_leave(q, take_many(q, n, due, &first));
  uvs_queue_retain(q); /* `each` may close it */
  deliver(q, first, each, arg);
  uvs_queue_release(q);
  return rc;
}

int uvs_queue_drain(uvs_queue_t *q, int64_t n, uvs_value_cb each, void *arg) {
  return take_n(q, n, true, each != NULL, each, arg);
}

int uvs_queue_clear(uvs_queue_t *q, uvs_value_cb each, void *arg) {
  return take_n(q, UVS_QUEUE_ALL, false, true, each, arg);
}
