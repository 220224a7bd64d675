/* SPDX-License-Identifier: MIT
 *
 * names: the index of the tasks that were submitted with UVS_REPLACE, by name.
 *
 * The index is a digital search tree: a binary tree in which bit n of the hash of a name chooses
 * the branch below level n. The only memory that it needs is two links in the record of each task.
 * It needs no balancing: its depth is about the logarithm of the number of names.
 */
#include "core/moves.h"

#include <string.h>

uint64_t uvs__name_hash(const char *name) {
  uint64_t h = UINT64_C(14695981039346656037);

  for (; *name != '\0'; name++)
    h = (h ^ (unsigned char)*name) * UINT64_C(1099511628211);
  return h ^ h >> 32;
}

static struct uvs__extra *extra_at(const uvs_t *s, uint32_t slot) {
  return uvs__slots_at(&s->table.extras, (uint32_t)uvs__task(s, slot)->extra - 1);
}

/* The link to the task of this name. If there is none: the empty link where it would be added. */
static uint32_t *link_of_name(uvs_t *s, const char *name) {
  uint64_t h = uvs__name_hash(name);
  uint32_t *link = &s->names;

  for (; *link != UVS__NONE; h >>= 1) {
    struct uvs__extra *x = extra_at(s, *link);

    if (strcmp(x->name, name) == 0)
      break;
    link = &x->name_child[h & 1];
  }
  return link;
}

uint32_t uvs__name_find(uvs_t *s, const char *name) {
  return *link_of_name(s, name);
}

void uvs__name_add(uvs_t *s, uint32_t slot) {
  struct uvs__extra *x = extra_at(s, slot);
  uint32_t *link = link_of_name(s, x->name);

  UVS_ASSERT(*link == UVS__NONE);
  x->name_child[0] = x->name_child[1] = UVS__NONE;
  x->indexed = true;
  *link = slot;
}

/* A leaf below the task takes the place of the task. This is correct because all tasks below it
 * have the bits of the hash that lead to this place. */
void uvs__name_remove(uvs_t *s, uint32_t slot) {
  struct uvs__extra *x = extra_at(s, slot);
  uint32_t *link = link_of_name(s, x->name);
  uint32_t *to_leaf = link;
  uint32_t leaf;

  UVS_ASSERT(*link == slot);
  for (;;) {
    struct uvs__extra *below = extra_at(s, *to_leaf);

    if (below->name_child[0] != UVS__NONE)
      to_leaf = &below->name_child[0];
    else if (below->name_child[1] != UVS__NONE)
      to_leaf = &below->name_child[1];
    else
      break;
  }
  leaf = *to_leaf;
  *to_leaf = UVS__NONE;
  x->indexed = false;
  if (leaf == slot)
    return;
  memcpy(extra_at(s, leaf)->name_child, x->name_child, sizeof x->name_child);
  *link = leaf;
}
