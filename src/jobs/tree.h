/* SPDX-License-Identifier: MIT
 *
 * tree: an ordered set of nodes, which are embedded in the caller's structs. It is a treap: a
 * search tree by `compare`, and a heap by a random rank, so that it stays flat. It never allocates.
 */
#ifndef UVSCHED_JOBS_TREE_H
#define UVSCHED_JOBS_TREE_H

#include <stddef.h>
#include <stdint.h>

struct uvs__node {
  struct uvs__node *left, *right;
  uint32_t rank; /* not lower than the ranks below */
};

struct uvs__tree {
  struct uvs__node *root;
  /* Below 0: a comes before b; above 0: after b. No two nodes of a tree are equal. */
  int (*compare)(const struct uvs__node *a, const struct uvs__node *b);
  uint32_t random;
};

void uvs__tree_init(struct uvs__tree *t,
                    int (*compare)(const struct uvs__node *a, const struct uvs__node *b));
void uvs__tree_insert(struct uvs__tree *t, struct uvs__node *node);
void uvs__tree_remove(struct uvs__tree *t, struct uvs__node *node);

/* find: the node that is equal to `like`. from: the first node that is not before it. after: the
 * first node that is after it. NULL: none. `like` need not be in the tree. */
struct uvs__node *uvs__tree_find(const struct uvs__tree *t, const struct uvs__node *like);
struct uvs__node *uvs__tree_from(const struct uvs__tree *t, const struct uvs__node *like);
struct uvs__node *uvs__tree_after(const struct uvs__tree *t, const struct uvs__node *like);
struct uvs__node *uvs__tree_first(const struct uvs__tree *t);

/* The struct that the node is embedded in. node must not be NULL. */
#define UVS__AROUND(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))

#endif
