/* SPDX-License-Identifier: MIT */
#include "task/table.h"

#include <string.h>

void uvs__table_init(struct uvs__table *t) {
  memset(t, 0, sizeof *t);
  t->tasks.element_size = sizeof(struct uvs__task);
  t->tasks.side_size = sizeof(struct uvs__link) + sizeof(struct uvs__heap_entry);
  t->extras.element_size = UVS__EXTRA_SIZE;
  t->extras.side_size = sizeof(struct uvs__link) + 2 * sizeof(struct uvs__heap_entry);
  uvs__heap_init(&t->delay_heap, t->links);
  uvs__heap_init(&t->wall, t->extra_links);
  uvs__heap_init(&t->limits, t->extra_links);
}

void uvs__table_free_memory(struct uvs__table *t, const uvs_allocator_t *m) {
  uvs__slots_free_memory(&t->tasks, m); /* this frees links and heaps, too */
  uvs__slots_free_memory(&t->extras, m);
}

void uvs__table_attach(struct uvs__table *t, struct uvs__slots *slots, struct uvs__slots_chunk *c) {
  unsigned k = c->k;
  struct uvs__link *links;
  struct uvs__heap_entry *entries;

  if (!uvs__slots_attach(slots, c))
    return;
  links = slots->side[k];
  entries = (void *)(links + uvs__chunk_size(k));
  if (slots == &t->tasks) {
    t->links[k] = links;
    t->delay_heap.chunk[k] = entries;
  } else {
    t->extra_links[k] = links;
    t->wall.chunk[k] = entries;
    t->limits.chunk[k] = entries + uvs__chunk_size(k);
  }
}

/* ---- take and give ---- */

void uvs__table_add_extra(struct uvs__table *t, uint32_t slot) {
  bool is_new;
  uint32_t index = uvs__slots_take(&t->extras, &is_new);
  struct uvs__extra *x = uvs__slots_at(&t->extras, index);
  uint32_t offset;
  unsigned k = uvs__chunk_of(index, &offset);

  memset(x, 0, sizeof *x);
  x->slot = slot;
  if (is_new)
    t->extra_links[k][offset] = (struct uvs__link){UVS__NONE, UVS__NONE};
  uvs__task_at(t, slot)->extra = (index + 1) & UVS__SLOT_MASK;
}
