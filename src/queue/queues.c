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

/* ---- loop thread ---- */

/* Only a pass does this: see above. `at` is the link that points to q, or pointed to q before other
 * queues were added in front of it. */
static void take_off_list(uvs_queue_t *q, uvs_queue_t **at) {
  uvs__lock(q->s);
  while (*at != q)
    at = &(*at)->next;
  *at = q->next;
  uvs__unlock(q->s);
  if (q->s->queues.resume == q)
    q->s->queues.resume = q->next;
  uvs_queue_release(q);
}

/* Looks at all queues: hands due values to threads, and computes due_ns anew. Makes no callbacks. A
 * pass also takes closed queues off the list. Returns the nearest time.
 *
 * due_ns and dirty are reset first, so no change is lost. If a thread changes a queue after this
 * function has looked at it, the thread sets due_ns or dirty after the reset. If a thread set them
 * before the reset, it had changed its queue before that, and this function sees the change. */
static uint64_t look_at_all(uvs_t *s, bool in_pass) {
  struct uvs__queues *all = &s->queues;
  uvs_queue_t **at = &all->first;
  uint64_t due_ns = UVS__NEVER;
  uvs_queue_t *q, *next;

  uvs__lock(s);
  q = all->first;
  all->due_ns = UVS__NEVER;
  if (in_pass)
    all->dirty = false;
  uvs__unlock(s);
  for (; q != NULL; q = next) {
    bool closed;

    uv_mutex_lock(&q->lock);
    uvs__queue_hand_over(q);
    q->told_ns = uvs__queue_wants(q);
    due_ns = q->told_ns < due_ns ? q->told_ns : due_ns;
    closed = q->closed;
    uv_mutex_unlock(&q->lock);
    next = q->next;
    if (closed && in_pass)
      take_off_list(q, at);
    else
      at = &q->next;
  }
  uvs__lock(s);
  all->due_ns = due_ns < all->due_ns ? due_ns : all->due_ns;
  uvs__unlock(s);
  return due_ns;
}

/* Makes the callbacks for due values that were in the queue before the first of these callbacks.
 * True: the time is used up. */
static bool call_back(uvs_queue_t *q, uint64_t until_ns) {
  bool over = false;
  uint64_t bound;

  uv_mutex_lock(&q->lock);
  bound = q->values.next_key;
  while (q->consume != NULL && !over) {
    uvs_value_cb cb = q->consume;
    void *arg = q->consume_arg;
    uvs_entry_t e;

    uvs__queue_hand_over(q); /* a thread may have come during the last call */
    if (!uvs__queue_is_due(q) || uvs__heap_head(&q->values.heap)->key >= bound)
      break;
    e = uvs__queue_pop(q);
    uv_mutex_unlock(&q->lock);
    cb(q, &e, arg);
    over = uvs__now(q->s) >= until_ns;
    uv_mutex_lock(&q->lock);
  }
  uv_mutex_unlock(&q->lock);
  return over;
}

/* Needs at least one queue. When the time is used up, the next pass goes on with the next queue.
 * Queues that a callback opens wait for the next pass. */
static void call_back_all(uvs_t *s, uint64_t until_ns) {
  struct uvs__queues *all = &s->queues;
  uvs_queue_t *first, *start, *q;
  bool over;

  uvs__lock(s);
  first = all->first;
  uvs__unlock(s);
  q = start = all->resume != NULL ? all->resume : first;
  do {
    over = call_back(q, until_ns);
    q = q->next != NULL ? q->next : first;
  } while (q != start && !over);
  all->resume = q != start ? q : NULL;
}

/* until_ns 0: only hand over, and make due_ns exact. Such a call may come from a callback. */
static void serve(uvs_t *s, uint64_t until_ns) {
  bool in_pass = until_ns != 0;

  if (look_at_all(s, in_pass) <= uvs__now(s) && in_pass) {
    call_back_all(s, until_ns);
    look_at_all(s, true); /* callbacks have changed the queues */
  }
}

/* Closes all queues; none can be opened any more. A forked child never locks, and only frees. */
static void close_all(uvs_t *s) {
  bool child = uvs__forked(&s->fork);
  struct uvs__queues *all = &s->queues;
  uvs_queue_t *q, *next;

  if (!child)
    uvs__lock(s);
  q = all->first;
  all->first = all->resume = NULL;
  all->shut = true;
  all->due_ns = UVS__NEVER;
  all->dirty = false;
  if (!child)
    uvs__unlock(s);
  for (; q != NULL; q = next) {
    next = q->next;
    uvs__queue_shut(q);
    uvs_queue_release(q);
  }
}

/* ---- any thread ---- */

bool uvs__queues_add(uvs_t *s, uvs_queue_t *q) {
  struct uvs__queues *all = &s->queues;

  if (uvs__on_loop(s))
    uvs__notice_loss(s);
  uvs__lock(s);
  if (all->shut) {
    uvs__unlock(s);
    return false;
  }
  all->serve = serve;
  all->close = close_all;
  q->next = all->first;
  all->first = uvs_queue_retain(q);
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
  if (!all->shut) {
    all->due_ns = due_ns < all->due_ns ? due_ns : all->due_ns;
    uvs__note_due(s, due_ns); /* even if uvs_next_due has found it: the loop is not armed for it */
  }
  uvs__unlock_and_wake(s, now_ns);
}
