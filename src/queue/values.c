/* SPDX-License-Identifier: MIT */
#include "queue/values.h"

#include "task/task.h"

#include <string.h>

#define ONE_KEY (UINT64_C(1) << UVS__SLOT_BITS)

void uvs__values_init(struct uvs__values *v, const uvs_allocator_t *mem) {
  memset(v, 0, sizeof *v);
  v->mem = mem;
  v->slots.element_size = sizeof(struct uvs__value);
  v->slots.side_size = sizeof(struct uvs__link) + sizeof(struct uvs__heap_entry);
  uvs__heap_init(&v->heap, v->links);
}

void uvs__values_free_memory(struct uvs__values *v) {
  uvs__slots_free_memory(&v->slots, v->mem);
}

int uvs__values_reserve(struct uvs__values *v, size_t n) {
  if (n > UVS__INDEX_MAX)
    return UV_E2BIG;
  while (uvs__slots_room(&v->slots) < n) {
    struct uvs__slots_chunk c;
    unsigned k = v->slots.chunks;
    int rc = uvs__slots_prepare(&v->slots, k, v->mem, &c);

    if (rc < 0)
      return rc;
    uvs__slots_attach(&v->slots, &c);
    v->links[k] = v->slots.side[k];
    v->heap.chunk[k] = (void *)(v->links[k] + uvs__chunk_size(k));
  }
  return 0;
}

static uvs_item_t item_of(const struct uvs__values *v, uint32_t slot) {
  return (uint64_t)uvs__values_at(v, slot)->generation << UVS__SLOT_BITS | slot;
}

uvs_item_t uvs__values_add(struct uvs__values *v, void *value, uint64_t due_ns) {
  bool is_new;
  uint32_t slot = uvs__slots_take(&v->slots, &is_new);
  struct uvs__value *x = uvs__values_at(v, slot);

  if (is_new) {
    uint32_t offset;
    unsigned k = uvs__chunk_of(slot, &offset);

    v->links[k][offset].a = UVS__NONE;
    x->generation = 1; /* so that no item is 0 */
  }
  x->value = value;
  x->due_ns = due_ns;
  uvs__heap_push(&v->heap, due_ns, v->next_key | slot);
  v->next_key += ONE_KEY;
  return item_of(v, slot);
}

uvs_entry_t uvs__values_entry(const struct uvs__values *v, uint32_t slot) {
  const struct uvs__value *x = uvs__values_at(v, slot);

  return (uvs_entry_t){x->value, item_of(v, slot), (int64_t)x->due_ns};
}

uint32_t uvs__values_head(const struct uvs__values *v) {
  return v->heap.count == 0 ? UVS__NONE : uvs__heap_slot(uvs__heap_head(&v->heap));
}

uint32_t uvs__values_find(const struct uvs__values *v, uvs_item_t item) {
  uint32_t slot = (uint32_t)item & UVS__SLOT_MASK;

  if (slot >= v->slots.made || item_of(v, slot) != item || !uvs__heap_has(&v->heap, slot))
    return UVS__NONE;
  return slot;
}

uint32_t uvs__values_find_value(const struct uvs__values *v, const void *value) {
  const struct uvs__heap_entry *found = NULL;

  for (uint32_t n = 0; n < v->heap.count; n++) {
    const struct uvs__heap_entry *e = uvs__heap_nth(&v->heap, n);

    if (uvs__values_at(v, uvs__heap_slot(e))->value == value &&
        (found == NULL || uvs__values_before(e, found)))
      found = e;
  }
  return found == NULL ? UVS__NONE : uvs__heap_slot(found);
}

void uvs__values_take(struct uvs__values *v, uint32_t slot) {
  uvs__heap_remove(&v->heap, slot);
}

uvs_entry_t uvs__values_give(struct uvs__values *v, uint32_t slot) {
  uvs_entry_t e = uvs__values_entry(v, slot);

  UVS_ASSERT(!uvs__heap_has(&v->heap, slot));
  if (++uvs__values_at(v, slot)->generation < UVS__GENERATION_MAX) /* else never used again */
    uvs__slots_give(&v->slots, slot);
  return e;
}
