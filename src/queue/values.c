/* SPDX-License-Identifier: MIT */
#include "queue/values.h"

#include "task/task.h"

#include <string.h>

/* Slots in the first n chunks. */
static uint32_t slots_of(unsigned n) {
  return (UVS__CHUNK_FIRST << n) - UVS__CHUNK_FIRST;
}

void uvs__values_init(struct uvs__values *v, const uvs_allocator_t *mem) {
  memset(v, 0, sizeof *v);
  v->mem = mem;
  v->free = UVS__NONE;
  uvs__heap_init(&v->heap, v->links);
}

void uvs__values_free_memory(struct uvs__values *v) {
  for (unsigned k = 0; k < v->chunks; k++) {
    uvs__mem_free(v->mem, v->chunk[k]);
    uvs__mem_free(v->mem, v->links[k]);
  }
  uvs__heap_destroy(&v->heap, v->mem);
}

static int add_chunk(struct uvs__values *v) {
  unsigned k = v->chunks;
  int rc;

  if (k == UVS__CHUNKS)
    return UV_E2BIG;
  rc = uvs__heap_reserve(&v->heap, v->mem, slots_of(k + 1));
  if (rc < 0)
    return rc;
  v->chunk[k] = uvs__mem_alloc(v->mem, uvs__chunk_size(k), sizeof *v->chunk[k], 0);
  if (v->chunk[k] == NULL)
    return UV_ENOMEM;
  v->links[k] = uvs__mem_alloc(v->mem, uvs__chunk_size(k), sizeof *v->links[k], 0);
  if (v->links[k] == NULL) {
    uvs__mem_free(v->mem, v->chunk[k]);
    return UV_ENOMEM;
  }
  v->chunks++;
  return 0;
}

int uvs__values_reserve(struct uvs__values *v, size_t n) {
  if (n > UVS__INDEX_MAX)
    return UV_E2BIG;
  while (slots_of(v->chunks) - v->made + v->free_count < n) {
    int rc = add_chunk(v);

    if (rc < 0)
      return rc;
  }
  return 0;
}

static uvs_item_t item_of(const struct uvs__values *v, uint32_t slot) {
  return (uint64_t)uvs__values_at(v, slot)->generation << UVS__SLOT_BITS | slot;
}

static uint32_t new_slot(struct uvs__values *v) {
  uint32_t slot = v->free;
  uint32_t offset;
  unsigned k;

  if (slot != UVS__NONE) {
    v->free = uvs__values_at(v, slot)->next;
    v->free_count--;
    return slot;
  }
  slot = v->made++;
  k = uvs__chunk_of(slot, &offset);
  UVS_ASSERT(k < v->chunks);
  v->links[k][offset].a = UVS__NONE;
  v->chunk[k][offset].generation = 1; /* so that no item is 0 */
  return slot;
}

uvs_item_t uvs__values_add(struct uvs__values *v, void *value, uint64_t due_ns) {
  uint32_t slot = new_slot(v);
  struct uvs__value *x = uvs__values_at(v, slot);

  x->value = value;
  x->due_ns = due_ns;
  uvs__heap_push(&v->heap, due_ns, ++v->last_seq << UVS__SLOT_BITS | slot);
  return item_of(v, slot);
}

bool uvs__values_has(const struct uvs__values *v, uint32_t slot) {
  return uvs__heap_has(&v->heap, slot);
}

uint64_t uvs__values_seq(const struct uvs__values *v, uint32_t slot) {
  return uvs__heap_at(&v->heap, slot)->key >> UVS__SLOT_BITS;
}

uvs_entry_t uvs__values_entry(const struct uvs__values *v, uint32_t slot) {
  const struct uvs__value *x = uvs__values_at(v, slot);
  uvs_entry_t e = {x->value, item_of(v, slot), (int64_t)x->due_ns};

  return e;
}

uint32_t uvs__values_head(const struct uvs__values *v) {
  const struct uvs__heap_entry *head = uvs__heap_head(&v->heap);

  return head == NULL ? UVS__NONE : uvs__heap_slot(head);
}

uint32_t uvs__values_nth(const struct uvs__values *v, uint32_t n) {
  return uvs__heap_slot(uvs__heap_nth(&v->heap, n));
}

uint32_t uvs__values_find(const struct uvs__values *v, uvs_item_t item) {
  uint32_t slot = (uint32_t)item & UVS__SLOT_MASK;

  if (slot >= v->made || item_of(v, slot) != item || !uvs__values_has(v, slot))
    return UVS__NONE;
  return slot;
}

static bool comes_before(const struct uvs__values *v, uint32_t slot, uint32_t other) {
  uint64_t due_ns = uvs__values_at(v, slot)->due_ns;
  uint64_t other_ns = uvs__values_at(v, other)->due_ns;

  return due_ns != other_ns ? due_ns < other_ns
                            : uvs__values_seq(v, slot) < uvs__values_seq(v, other);
}

uint32_t uvs__values_find_value(const struct uvs__values *v, const void *value) {
  uint32_t found = UVS__NONE;

  for (uint32_t n = 0; n < v->heap.count; n++) {
    uint32_t slot = uvs__values_nth(v, n);

    if (uvs__values_at(v, slot)->value != value)
      continue;
    if (found == UVS__NONE || comes_before(v, slot, found))
      found = slot;
  }
  return found;
}

void uvs__values_take(struct uvs__values *v, uint32_t slot) {
  uvs__heap_remove(&v->heap, slot);
}

void uvs__values_give(struct uvs__values *v, uint32_t slot) {
  struct uvs__value *x = uvs__values_at(v, slot);

  UVS_ASSERT(!uvs__values_has(v, slot));
  if (++x->generation >= UVS__GENERATION_MAX)
    return; /* never used again */
  x->next = v->free;
  v->free = slot;
  v->free_count++;
}

bool uvs__values_check(const struct uvs__values *v) {
  uint32_t in = 0;
  uint32_t free = 0;

  for (uint32_t slot = 0; slot < v->made; slot++)
    in += uvs__values_has(v, slot);
  for (uint32_t slot = v->free; slot != UVS__NONE; slot = uvs__values_at(v, slot)->next) {
    if (uvs__values_has(v, slot) || free > v->free_count)
      return false;
    free++;
  }
  return in == v->heap.count && free == v->free_count && uvs__heap_check(&v->heap);
}
