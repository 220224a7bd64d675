/* SPDX-License-Identifier: MIT
 *
 * queues: the loop's part of the delay queues.
 *
 * The loop has all queues on a list of its own. next_ns is the nearest time that one of them wants,
 * and one more candidate for the ONE timer. It looks at them all when that time comes, or when
 * there is news; in between a turn costs two loads.
 *
 * News travel as in the inbox (inbox.h): a thread changes the queue under its lock, leaves news,
 * and then looks whether the loop wakes in time by itself. The loop publishes next_wake and then
 * looks for news. Both are seq_cst: either the thread sees the loop asleep for too long and wakes
 * it, or the loop sees the news and does not sleep.
 */
#include "scheduler.h"

/* On `fresh`: no queue is taken any more. */
#define SHUT ((uvs_queue_t *)UINTPTR_MAX)

void uvs__queues_init(struct uvs__queues *all) {
  atomic_init(&all->fresh, NULL);
  atomic_init(&all->news, false);
  atomic_init(&all->refs, 0);
  all->first = NULL;
  all->resume = NULL;
  all->next_ns = UVS__NEVER;
  all->stale = false;
}

/* ---- any thread ---- */

bool uvs__queues_add(uvs_t *s, uvs_queue_t *q) {
  uvs_queue_t *fresh = uvs__load(&s->queues.fresh, relaxed); /* the CAS decides */

  do {
    if (fresh == SHUT)
      return false;
    q->next = fresh;
  } while (!uvs__cas(&s->queues.fresh, &fresh, q, release)); /* pairs with see_fresh */
  return true;
}

void uvs__queues_tell(uvs_t *s, uint64_t due_ns) {
  if (uvs__on_loop(s)) {
    if (due_ns < s->queues.next_ns)
      s->queues.next_ns = due_ns;
    uvs__notice_loss(s);
    if (!uvs__ticker_lost(&s->ticker)) /* else there may be no loop any more */
      uvs__expect(s, 0, due_ns, uvs__now(s));
    return;
  }
  /* A swap also if there are news already: whoever takes them acquires through it what we did
   * before, that is the count of refs and the list of fresh queues, which no lock guards. seq_cst:
   * pairs with uvs__queues_quiet */
  uvs__swap(&s->queues.news, true, seq_cst);
  if (due_ns < uvs__load(&s->inbox.next_wake, seq_cst)) /* pairs with uvs__inbox_sleep */
    uvs__ticker_wake(&s->ticker);
}

void uvs__queues_hold(uvs_t *s, int by) {
  if (by > 0)
    uvs__add(&s->queues.refs, 1, relaxed); /* the news release it */
  else
    uvs__sub(&s->queues.refs, 1, relaxed); /* as above */
  if (!uvs__on_loop(s))
    uvs__queues_tell(s, 0);
  else if (!s->closing)
    uvs__update_keep(s);
}

/* ---- the loop ---- */

/* What was opened since the last look goes to the front of the list. `leave`: NULL, or SHUT. */
static void see_fresh(uvs_t *s, uvs_queue_t *leave) {
  uvs_queue_t *q = uvs__load(&s->queues.fresh, relaxed); /* a look; the loop alone shuts it */

  if (q == SHUT || (q == NULL && leave == NULL))
    return;
  q = uvs__swap(&s->queues.fresh, leave, acquire); /* pairs with uvs__queues_add */
  while (q != NULL) {
    uvs_queue_t *next = q->next;

    q->next = s->queues.first;
    s->queues.first = q;
    q = next;
  }
}

static bool take_news(uvs_t *s) {
  return uvs__swap(&s->queues.news, false, seq_cst); /* acquires what was done before */
}

bool uvs__queues_quiet(uvs_t *s) {
  return !uvs__load(&s->queues.news, seq_cst); /* pairs with uvs__queues_tell */
}

/* No queue, and no news of one that is gone either. */
static bool has_none(uvs_t *s) {
  uvs_queue_t *fresh = uvs__load(&s->queues.fresh, relaxed); /* a look; its news come after it */

  return s->queues.first == NULL && (fresh == NULL || fresh == SHUT) && uvs__queues_quiet(s);
}

/* Look at all: hand over to those who wait, and find when the next is wanted. Calls nothing back.
 */
static void look_at_all(uvs_t *s) {
  struct uvs__queues *all = &s->queues;

  see_fresh(s, NULL);
  all->next_ns = UVS__NEVER;
  all->stale = false;
  for (uvs_queue_t *q = all->first; q != NULL; q = q->next) {
    uv_mutex_lock(&q->lock);
    uvs__queue_hand_over_locked(q);
    q->told_ns = uvs__queue_wants_locked(q);
    if (q->told_ns < all->next_ns)
      all->next_ns = q->told_ns;
    if (q->closed)
      all->next_ns = 0; /* let a turn take it off the list, and soon */
    uv_mutex_unlock(&q->lock);
  }
}

uint64_t uvs__queues_next(uvs_t *s, bool exact) {
  if (has_none(s))
    return UVS__NEVER;
  if (take_news(s) || s->queues.stale || exact)
    look_at_all(s);
  return s->queues.next_ns;
}

/* Never from inside a callback: the turn that makes it has a place on the list. */
static void unlink_closed(uvs_t *s) {
  uvs_queue_t **link = &s->queues.first;
  uvs_queue_t *q;

  see_fresh(s, NULL); /* one may be closed already */
  while ((q = *link) != NULL) {
    bool closed;

    uv_mutex_lock(&q->lock);
    closed = q->closed;
    uv_mutex_unlock(&q->lock);
    if (!closed) {
      link = &q->next;
      continue;
    }
    if (s->queues.resume == q)
      s->queues.resume = q->next;
    *link = q->next;
    uvs_queue_release(q);
  }
}

/* Call back for what is due and was in before the first call. True when the time is over. *ret_more
 * is set if something due is left. */
static bool consume(uvs_queue_t *q, uint64_t until_ns, bool *ret_more) {
  bool over = false;
  uint64_t bound;

  uv_mutex_lock(&q->lock);
  bound = q->values.last_seq;
  for (;;) {
    uvs_value_cb cb = q->consume;
    void *arg = q->consume_arg;
    uvs_entry_t e;
    uint32_t slot;

    if (cb == NULL)
      break;
    uvs__queue_hand_over_locked(q);
    slot = uvs__queue_due_locked(q);
    if (slot == UVS__NONE)
      break;
    if (over || uvs__values_seq(&q->values, slot) > bound) {
      *ret_more = true;
      break;
    }
    e = uvs__queue_pop_locked(q, slot);
    uv_mutex_unlock(&q->lock);
    cb(q, &e, arg);
    over = uvs__now(q->s) >= until_ns;
    uv_mutex_lock(&q->lock);
  }
  uv_mutex_unlock(&q->lock);
  return over;
}

/* Each queue in its turn; where the time was over, the next turn goes on. */
static bool call_back(uvs_t *s, uint64_t until_ns) {
  struct uvs__queues *all = &s->queues;
  uvs_queue_t *start = all->resume != NULL ? all->resume : all->first;
  uvs_queue_t *q = start;
  bool more = false;

  all->resume = NULL;
  do {
    bool over = consume(q, until_ns, &more);

    q = q->next != NULL ? q->next : all->first;
    if (over && q != start) {
      all->resume = q;
      more = true;
      break;
    }
  } while (q != start);
  all->stale = true;
  return more;
}

bool uvs__queues_serve(uvs_t *s, uint64_t until_ns) {
  if (has_none(s))
    return false;
  /* News are taken by a swap in every turn, never load-and-skip: that orders them against
   * uv_async_send's relaxed first load. */
  if (!take_news(s) && !s->queues.stale && s->queues.next_ns > s->turn_ns)
    return false;
  unlink_closed(s);
  look_at_all(s);
  return s->queues.next_ns <= uvs__now(s) && call_back(s, until_ns);
}

void uvs__queues_close(uvs_t *s) {
  uvs_queue_t *q;

  see_fresh(s, SHUT);
  while ((q = s->queues.first) != NULL) {
    s->queues.first = q->next;
    uvs__queue_shut(q);
    uvs_queue_release(q);
  }
  s->queues.resume = NULL;
}

void uvs__queues_forget(uvs_t *s) {
  uvs_queue_t *q;

  see_fresh(s, SHUT);
  while ((q = s->queues.first) != NULL) {
    s->queues.first = q->next;
    uvs_queue_release(q);
  }
}
