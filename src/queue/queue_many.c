/* SPDX-License-Identifier: MIT
 *
 * queue_many: many values of a delay queue at once: drain, clear, a snapshot, a dump.
 *
 * Values that go out together are taken out in one critical section, so that no thread sees half of
 * them. The callbacks come after it, without the lock.
 */
#include "queue/queue.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- out ---- */

/* Values that were taken out together, in order. Their slots belong to the batch until they are
 * given back. */
struct batch {
  uint32_t first, last;
  int count;
};

/* Queue locked. */
static void batch_add(uvs_queue_t *q, struct batch *b, uint32_t slot) {
  uvs__values_take(&q->values, slot);
  uvs__values_at(&q->values, slot)->next = UVS__NONE;
  if (b->count++ == 0)
    b->first = slot;
  else
    uvs__values_at(&q->values, b->last)->next = slot;
  b->last = slot;
}

/* Without the lock. Returns how many. */
static int deliver(uvs_queue_t *q, const struct batch *b, uvs_value_cb each, void *arg) {
  uint32_t slot = b->first;
  uint32_t next;

  for (; slot != UVS__NONE && each != NULL; slot = next) {
    uvs_entry_t e = uvs__values_entry(&q->values, slot);

    next = uvs__values_at(&q->values, slot)->next;
    each(q, &e, arg);
  }
  uv_mutex_lock(&q->lock);
  for (slot = b->first; slot != UVS__NONE; slot = next) {
    next = uvs__values_at(&q->values, slot)->next;
    uvs__values_give(&q->values, slot);
  }
  uv_mutex_unlock(&q->lock);
  return b->count;
}

/* At most n values; `due`: only those that are due and that no thread waits for. How many, or what
 * uvs__queue_enter answers. */
static int take_out(uvs_queue_t *q, int64_t n, bool due, bool valid, uvs_value_cb each, void *arg) {
  struct batch b = {UVS__NONE, UVS__NONE, 0};
  uint32_t slot;
  int rc;

  uvs_queue_retain(q); /* `each` may close it */
  rc = uvs__queue_enter(q, valid);
  if (rc == 0) {
    if (due && n > 0)
      uvs__queue_hand_over(q);
    while (b.count < n &&
           (slot = due ? uvs__queue_due(q) : uvs__values_head(&q->values)) != UVS__NONE)
      batch_add(q, &b, slot);
    uvs__queue_unlock_and_tell(q);
    rc = deliver(q, &b, each, arg);
  }
  uvs_queue_release(q);
  return rc;
}

int uvs_queue_drain(uvs_queue_t *q, int64_t n, uvs_value_cb each, void *arg) {
  return take_out(q, n, true, each != NULL, each, arg);
}

int uvs_queue_clear(uvs_queue_t *q, uvs_value_cb each, void *arg) {
  return take_out(q, UVS_ALL, false, true, each, arg);
}

/* ---- ask ---- */

/* All values at one instant, in due order. */
struct shot {
  uvs_entry_t entry;
  uint64_t seq;
};

struct snapshot {
  struct shot *shots; /* NULL if there are none */
  size_t count;
  size_t takers;
};

static int by_due(const void *x, const void *y) {
  const struct shot *a = x;
  const struct shot *b = y;

  if (a->entry.due_ns != b->entry.due_ns)
    return a->entry.due_ns < b->entry.due_ns ? -1 : 1;
  return a->seq < b->seq ? -1 : a->seq > b->seq;
}

/* Queue locked, and there is room. Values are held under the lock: no consumer can take and free
 * one before. */
static void fill_in(const uvs_queue_t *q, struct snapshot *a) {
  a->count = q->values.heap.count;
  a->takers = 0;
  for (uint32_t n = 0; n < a->count; n++) {
    uint32_t slot = uvs__values_nth(&q->values, n);

    a->shots[n].entry = uvs__values_entry(&q->values, slot);
    a->shots[n].seq = uvs__values_seq(&q->values, slot);
    if (q->hold != NULL)
      q->hold(a->shots[n].entry.value, q->arg);
  }
  for (const struct uvs__taker *t = q->first; t != NULL; t = t->next)
    a->takers++;
}

/* Memory is allocated without the lock, so that it may turn out too small: then once more. */
static int snapshot_take(uvs_queue_t *q, bool valid, struct snapshot *a) {
  size_t room = 0;
  int rc;

  a->shots = NULL;
  while ((rc = uvs__queue_enter(q, valid)) == 0 && q->values.heap.count > room) {
    room = q->values.heap.count + q->values.heap.count / 8;
    uv_mutex_unlock(&q->lock);
    uvs__mem_free(&q->s->mem, a->shots);
    a->shots = uvs__mem_alloc(&q->s->mem, room, sizeof *a->shots, 0);
    if (a->shots == NULL)
      return UV_ENOMEM;
  }
  if (rc < 0) {
    if (a->shots != NULL)
      uvs__mem_free(&q->s->mem, a->shots);
    return rc;
  }
  fill_in(q, a);
  uv_mutex_unlock(&q->lock);
  if (a->count > 0)
    qsort(a->shots, a->count, sizeof *a->shots, by_due);
  return 0;
}

/* Visit until `each` answers nonzero, and free the snapshot. Each value is dropped once, also one
 * that is not visited any more. */
static int visit_and_free(uvs_queue_t *q, struct snapshot *a, uvs_entry_cb each, void *arg) {
  int rc = 0;

  uvs_queue_retain(q); /* `each` and `drop` may close it */
  for (size_t i = 0; i < a->count; i++) {
    const uvs_entry_t *e = &a->shots[i].entry;

    if (rc == 0)
      rc = each(q, e, arg);
    if (q->drop != NULL)
      q->drop(e->value, q->arg);
  }
  uvs__mem_free(&q->s->mem, a->shots);
  uvs_queue_release(q);
  return rc;
}

int uvs_queue_each(uvs_queue_t *q, uvs_entry_cb each, void *arg) {
  struct snapshot a;
  int rc = snapshot_take(q, each != NULL, &a);

  return rc < 0 ? rc : visit_and_free(q, &a, each, arg);
}

struct printer {
  FILE *out;
  int64_t now_ns;
};

static int print_entry(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  const struct printer *p = arg;

  (void)q;
  fprintf(p->out, "  %16" PRIu64 "  ", e->item);
  if (e->due_ns == UVS_NEVER)
    fprintf(p->out, "%12s", "never");
  else
    fprintf(p->out, "%+10.3f s", (double)(e->due_ns - p->now_ns) / 1e9);
  fprintf(p->out, "  %p\n", e->value);
  return 0;
}

int uvs_queue_dump(uvs_queue_t *q, FILE *out) {
  struct printer p = {out, 0};
  struct snapshot a;
  int rc = snapshot_take(q, out != NULL, &a);

  if (rc < 0)
    return rc;
  p.now_ns = (int64_t)uvs__now(q->s);
  fprintf(out, "uvsched queue %p: %zu in, %zu wait\n", (void *)q, a.count, a.takers);
  return visit_and_free(q, &a, print_entry, &p);
}
