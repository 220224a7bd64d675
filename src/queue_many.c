/* SPDX-License-Identifier: MIT
 *
 * queue_many: a delay queue's values by the dozen: drain, clear, a snapshot, a dump.
 *
 * What goes out together is taken out in one step, so that nobody sees half of it; the callbacks
 * come after, without the lock.
 */
#include "scheduler.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- out ---- */

/* Values that were taken out together, in order. Their slots are ours until they are given back. */
struct haul {
  uint32_t head, tail;
  int count;
};

static void haul_locked(uvs_queue_t *q, struct haul *h, uint32_t slot) {
  uvs__values_take(&q->values, slot);
  uvs__values_at(&q->values, slot)->next = UVS__NONE;
  if (h->count++ == 0)
    h->head = slot;
  else
    uvs__values_at(&q->values, h->tail)->next = slot;
  h->tail = slot;
}

/* Without the lock. Returns how many. */
static int deliver(uvs_queue_t *q, const struct haul *h, uvs_value_cb each, void *arg) {
  uint32_t slot = h->head;

  for (int i = 0; i < h->count && each != NULL; i++) {
    uvs_entry_t e = uvs__values_entry(&q->values, slot);

    slot = uvs__values_at(&q->values, slot)->next;
    each(q, &e, arg);
  }
  uv_mutex_lock(&q->lock);
  slot = h->head;
  for (int i = 0; i < h->count; i++) {
    uint32_t next = uvs__values_at(&q->values, slot)->next;

    uvs__values_give(&q->values, slot);
    slot = next;
  }
  uv_mutex_unlock(&q->lock);
  return h->count;
}

int uvs_queue_drain(uvs_queue_t *q, int64_t n, uvs_value_cb each, void *arg) {
  struct haul h = {UVS__NONE, UVS__NONE, 0};
  uint32_t slot;
  int rc = uvs__queue_enter(q);

  if (rc < 0)
    return rc;
  if (each == NULL)
    return UV_EINVAL;
  uvs_queue_retain(q); /* `each` may close it */
  rc = uvs__queue_enter_locked(q);
  if (rc == 0) {
    if (n > 0)
      uvs__queue_hand_over_locked(q); /* to those who wait */
    while (h.count < n && (slot = uvs__queue_due_locked(q)) != UVS__NONE)
      haul_locked(q, &h, slot);
    uvs__queue_unlock_and_tell(q);
    rc = deliver(q, &h, each, arg);
  }
  uvs_queue_release(q);
  return rc;
}

int uvs_queue_clear(uvs_queue_t *q, uvs_value_cb each, void *arg) {
  struct haul h = {UVS__NONE, UVS__NONE, 0};
  uint32_t slot;
  int rc;

  uvs_queue_retain(q); /* `each` may close it */
  rc = uvs__queue_enter_locked(q);
  if (rc == 0) {
    while ((slot = uvs__values_head(&q->values)) != UVS__NONE)
      haul_locked(q, &h, slot);
    uv_mutex_unlock(&q->lock);
    rc = deliver(q, &h, each, arg);
  }
  uvs_queue_release(q);
  return rc;
}

/* ---- ask ---- */

/* All values at one instant, sorted. */
struct shot {
  uvs_entry_t entry;
  uint64_t seq;
};

struct album {
  struct shot *shots; /* NULL if there are none */
  size_t count;
  size_t sleepers;
};

static int by_due(const void *x, const void *y) {
  const struct shot *a = x;
  const struct shot *b = y;

  if (a->entry.due_ns != b->entry.due_ns)
    return a->entry.due_ns < b->entry.due_ns ? -1 : 1;
  return a->seq < b->seq ? -1 : a->seq > b->seq;
}

static void shoot_locked(const uvs_queue_t *q, struct album *a) {
  a->count = q->values.heap.count;
  a->sleepers = 0;
  for (uint32_t n = 0; n < a->count; n++) {
    uint32_t slot = uvs__values_nth(&q->values, n);

    a->shots[n].entry = uvs__values_entry(&q->values, slot);
    a->shots[n].seq = uvs__values_seq(&q->values, slot);
  }
  for (const struct uvs__sleeper *z = q->first; z != NULL; z = z->behind)
    a->sleepers++;
}

/* Room is taken without the lock, so it may turn out too small. */
static int shoot(uvs_queue_t *q, struct album *a) {
  const uvs_allocator_t *mem = &q->s->mem;
  size_t room = 0;
  size_t in;

  a->shots = NULL;
  for (;;) {
    int rc = uvs__queue_enter_locked(q);

    if (rc < 0) {
      uvs__mem_free(mem, a->shots);
      return rc;
    }
    in = q->values.heap.count;
    if (in <= room)
      break;
    uv_mutex_unlock(&q->lock);
    uvs__mem_free(mem, a->shots);
    room = in + in / 8;
    a->shots = uvs__mem_alloc(mem, room, sizeof *a->shots, 0);
    if (a->shots == NULL)
      return UV_ENOMEM;
  }
  shoot_locked(q, a);
  uv_mutex_unlock(&q->lock);
  if (in > 0)
    qsort(a->shots, in, sizeof *a->shots, by_due);
  return 0;
}

int uvs_queue_each(uvs_queue_t *q, uvs_entry_cb each, void *arg) {
  struct album a;
  int rc = uvs__queue_enter(q);

  if (rc < 0)
    return rc;
  if (each == NULL)
    return UV_EINVAL;
  rc = shoot(q, &a);
  if (rc < 0)
    return rc;
  uvs_queue_retain(q); /* `each` may close it */
  for (size_t i = 0; i < a.count && rc == 0; i++)
    rc = each(q, &a.shots[i].entry, arg);
  uvs__mem_free(&q->s->mem, a.shots);
  uvs_queue_release(q);
  return rc;
}

int uvs_queue_dump(uvs_queue_t *q, FILE *out) {
  struct album a;
  int64_t now_ns;
  int rc = uvs__queue_enter(q);

  if (rc < 0)
    return rc;
  if (out == NULL)
    return UV_EINVAL;
  rc = shoot(q, &a);
  if (rc < 0)
    return rc;
  now_ns = (int64_t)uvs__now(q->s);
  fprintf(out, "uvsched queue %p: %zu in, %zu wait\n", (void *)q, a.count, a.sleepers);
  for (size_t i = 0; i < a.count; i++) {
    const uvs_entry_t *e = &a.shots[i].entry;

    fprintf(out, "  %16" PRIu64 "  ", e->item);
    if (e->due_ns == UVS_NEVER)
      fprintf(out, "%12s", "never");
    else
      fprintf(out, "%+10.3f s", (double)(e->due_ns - now_ns) / 1e9);
    fprintf(out, "  %p\n", e->value);
  }
  uvs__mem_free(&q->s->mem, a.shots);
  return 0;
}
