/* SPDX-License-Identifier: MIT
 *
 * queues: the loop's part of the delay queues.
 *
 * A scheduler has a list of its queues, under the scheduler's lock. queues.due_ns is the nearest
 * time that one of them wants the loop at. The loop looks at all queues when that time comes, or
 * when a queue was closed (queues.dirty).
 *
 * The loop thread walks the list without the lock. That is safe for two reasons. A new queue is
 * added at the head, so `next` of a queue that is on the list does not change then. Only a pass of
 * the loop takes queues off the list, and never from inside a callback; so the list's reference
 * keeps every queue that the walk is at.
 */
#include "queue/queue.h"

#include "core/wake.h"

/* ---- loop thread ---- */

/* Only a pass does this: see above. */
static void take_off_list(uvs_queue_t *q) {
  struct uvs__queues *all = &q->s->queues;

  if (all->resume == q)
    all->resume = q->next;
  uvs__lock(q->s);
  if (q->previous != NULL)
    q->previous->next = q->next;
  else
    all->first = q->next;
  if (q->next != NULL)
    q->next->previous = q->previous;
  uvs__unlock(q->s);
  uvs_queue_release(q);
}

/* Looks at all queues: hands due values to threads, and finds due_ns again. Makes no callbacks.
 * Returns the nearest time.
 *
 * due_ns and dirty are reset first. A thread that changes a queue after the look at it tells us
 * after the reset, and what it tells is kept. A thread that told us before the reset had changed
 * its queue before that, and the look sees the change. */
static uint64_t look_at_all(uvs_t *s, bool in_pass) {
  struct uvs__queues *all = &s->queues;
  uint64_t due_ns = UVS__NEVER;
  bool closed_left = false;
  uvs_queue_t *next;

  uvs__lock(s);
  next = all->first;
  all->due_ns = UVS__NEVER;
  all->dirty = false;
  uvs__unlock(s);
  while (next != NULL) {
    uvs_queue_t *q = next;
    bool closed;

    uv_mutex_lock(&q->lock);
    uvs__queue_hand_over(q);
    q->told_ns = uvs__queue_wants(q);
    due_ns = q->told_ns < due_ns ? q->told_ns : due_ns;
    closed = q->closed;
    uv_mutex_unlock(&q->lock);
    next = q->next;
    closed_left |= closed && !in_pass;
    if (closed && in_pass)
      take_off_list(q);
  }
  uvs__lock(s);
  all->due_ns = due_ns < all->due_ns ? due_ns : all->due_ns;
  all->dirty |= closed_left;
  uvs__unlock(s);
  return due_ns;
}

/* Call back for values that are due and were in before the first call. True when the time is over.
 * *ret_more is set if a value that is due is left. */
static bool call_back(uvs_queue_t *q, uint64_t until_ns, bool *ret_more) {
  bool over = false;
  uint64_t bound;

  uv_mutex_lock(&q->lock);
  bound = q->values.last_seq;
  while (q->consume != NULL) {
    uvs_value_cb cb = q->consume;
    void *arg = q->consume_arg;
    uvs_entry_t e;
    uint32_t slot;

    uvs__queue_hand_over(q); /* a thread may have come during the last call */
    slot = uvs__queue_due(q);
    if (slot == UVS__NONE)
      break;
    if (over || uvs__values_seq(&q->values, slot) > bound) {
      *ret_more = true;
      break;
    }
    e = uvs__queue_pop(q, slot);
    uv_mutex_unlock(&q->lock);
    cb(q, &e, arg);
    over = uvs__now(q->s) >= until_ns;
    uv_mutex_lock(&q->lock);
  }
  uv_mutex_unlock(&q->lock);
  return over;
}

/* There are queues. They take turns: when the time is over, the next pass goes on with the next
 * queue. Queues that a callback opens wait for the next pass. True: something may be left. */
static bool call_back_all(uvs_t *s, uint64_t until_ns) {
  struct uvs__queues *all = &s->queues;
  uvs_queue_t *first;
  uvs_queue_t *start;
  uvs_queue_t *q;
  bool more = false;
  bool over;

  uvs__lock(s);
  first = all->first;
  uvs__unlock(s);
  start = all->resume != NULL ? all->resume : first;
  q = start;
  do {
    over = call_back(q, until_ns, &more);
    q = q->next != NULL ? q->next : first;
  } while (q != start && !over);
  all->resume = q != start ? q : NULL;
  return more || q != start;
}

/* until_ns of 0: only hand over, and make due_ns exact. It may come from inside a callback. */
static bool serve(uvs_t *s, uint64_t until_ns) {
  bool in_pass = until_ns != 0;
  uint64_t due_ns = look_at_all(s, in_pass);
  bool more;

  if (!in_pass || due_ns > uvs__now(s))
    return false;
  more = call_back_all(s, until_ns);
  due_ns = look_at_all(s, true); /* callbacks have changed the queues */
  return more && due_ns <= uvs__now(s);
}

/* No queue is opened any more. Returns the list, which is the caller's now. */
static uvs_queue_t *take_list(struct uvs__queues *all) {
  uvs_queue_t *first = all->first;

  all->first = NULL;
  all->resume = NULL;
  all->shut = true;
  all->due_ns = UVS__NEVER;
  all->dirty = false;
  return first;
}

static void close_all(uvs_t *s) {
  uvs_queue_t *q;
  uvs_queue_t *next;

  uvs__lock(s);
  q = take_list(&s->queues);
  uvs__unlock(s);
  for (; q != NULL; q = next) {
    next = q->next;
    uvs__queue_shut(q);
    uvs_queue_release(q);
  }
}

/* In a forked child, which never locks. */
static void forget_all(uvs_t *s) {
  uvs_queue_t *next;

  for (uvs_queue_t *q = take_list(&s->queues); q != NULL; q = next) {
    next = q->next;
    uvs_queue_release(q);
  }
}

/* ---- any thread ---- */

bool uvs__queues_add(uvs_t *s, uvs_queue_t *q) {
  struct uvs__queues *all = &s->queues;
  uvs_queue_t *second;

  if (uvs__on_loop(s))
    uvs__notice_loss(s);
  uvs__lock(s);
  if (all->shut) {
    uvs__unlock(s);
    return false;
  }
  all->serve = serve;
  all->close = close_all;
  all->forget = forget_all;
  second = all->first;
  q->next = second;
  if (second != NULL)
    second->previous = q;
  all->first = q;
  all->refs++;
  uvs__unlock_and_wake(s, 0);
  return true;
}

void uvs__queues_tell(uvs_t *s, uint64_t due_ns, int refs, bool closed) {
  struct uvs__queues *all = &s->queues;
  uint64_t now_ns = uvs__now(s); /* user code: before the lock */

  if (uvs__on_loop(s))
    uvs__notice_loss(s);
  uvs__lock(s);
  all->refs += (uint32_t)refs;
  if (closed && !all->shut) /* else there is no list any more */
    all->dirty = true;
  if (due_ns < all->due_ns && !all->shut) {
    all->due_ns = due_ns;
    uvs__note_due(s, due_ns);
  }
  uvs__unlock_and_wake(s, now_ns);
}
