/* SPDX-License-Identifier: MIT
 *
 * ask: the contents of a delay queue: the first value, the number of values, a snapshot, a dump.
 */
#include "queue/queue.h"

#include <inttypes.h>
#include <stdlib.h>

int uvs_queue_peek(uvs_queue_t *q, uvs_entry_t *ret) {
  int rc = uvs__queue_enter(q, ret != NULL);

  if (rc < 0)
    return rc;
  if (q->values.heap.count == 0)
    return uvs__queue_leave(q, UV_ENOENT);
  *ret = uvs__values_entry(&q->values, uvs__values_head(&q->values));
  if (q->options.hold != NULL) /* under the lock: no consumer can free the value before */
    q->options.hold(ret->value, q->options.arg);
  return uvs__queue_leave(q, 0);
}

int uvs_queue_size(uvs_queue_t *q) {
  int rc = uvs__queue_enter(q, true);

  return rc < 0 ? rc : uvs__queue_leave(q, (int)q->values.heap.count);
}

int uvs_queue_contains(uvs_queue_t *q, const void *value) {
  int rc = uvs__queue_enter(q, true);

  return rc < 0 ? rc : uvs__queue_leave(q, uvs__values_find_value(&q->values, value) != UVS__NONE);
}

/* A value of a snapshot, and its place in the order. */
struct snapshot_entry {
  struct uvs__heap_entry place;
  uvs_entry_t entry;
};

static int by_due(const void *x, const void *y) {
  const struct snapshot_entry *a = x;
  const struct snapshot_entry *b = y;

  return uvs__values_before(&a->place, &b->place) ? -1 : uvs__values_before(&b->place, &a->place);
}

/* Queue locked: copies all values, and holds each. */
static void copy_entries(const uvs_queue_t *q, struct snapshot_entry *entries) {
  for (uint32_t n = 0; n < q->values.heap.count; n++) {
    const struct uvs__heap_entry *place = uvs__heap_nth(&q->values.heap, n);

    entries[n] =
        (struct snapshot_entry){*place, uvs__values_entry(&q->values, uvs__heap_slot(place))};
    if (q->options.hold != NULL)
      q->options.hold(entries[n].entry.value, q->options.arg);
  }
}

/* Visits a snapshot until `each` returns nonzero. Each value is dropped once, visited or not. out:
 * where a headline is printed; NULL: none is. */
static int visit(uvs_queue_t *q, FILE *out, uvs_entry_cb each, void *arg) {
  struct snapshot_entry *entries;
  size_t count, takers = 0;
  int rc = uvs__queue_enter(q, each != NULL);

  if (rc < 0)
    return rc;
  count = q->values.heap.count;
  entries = uvs__mem_alloc(&q->s->mem, count, sizeof *entries, 1); /* never 0 bytes */
  if (entries == NULL)
    return uvs__queue_leave(q, UV_ENOMEM);
  copy_entries(q, entries);
  for (const struct uvs__taker *t = q->first; t != NULL; t = t->next)
    takers++;
  uvs__queue_leave(q, 0);
  qsort(entries, count, sizeof *entries, by_due);
  if (out != NULL)
    fprintf(out, "uvsched queue %p: %zu in, %zu wait\n", (void *)q, count, takers);
  uvs_queue_retain(q); /* `each` and `drop` may close it */
  for (size_t i = 0; i < count; i++) {
    if (rc == 0)
      rc = each(q, &entries[i].entry, arg);
    if (q->options.drop != NULL)
      q->options.drop(entries[i].entry.value, q->options.arg);
  }
  uvs__mem_free(&q->s->mem, entries);
  uvs_queue_release(q);
  return rc;
}

int uvs_queue_each(uvs_queue_t *q, uvs_entry_cb each, void *arg) {
  return visit(q, NULL, each, arg);
}

static int print_entry(uvs_queue_t *q, const uvs_entry_t *e, void *out) {
  fprintf(out, "  %16" PRIu64 "  ", e->item);
  if (e->due_ns == UVS_NEVER)
    fprintf(out, "%12s", "never");
  else
    fprintf(out, "%+10.3f s", (double)(e->due_ns - (int64_t)uvs__now(q->s)) / 1e9);
  fprintf(out, "  %p\n", e->value);
  return 0;
}

int uvs_queue_dump(uvs_queue_t *q, FILE *out) {
  return visit(q, out, out == NULL ? NULL : print_entry, out);
}
