/* SPDX-License-Identifier: MIT */
#include "jobs/tree.h"

void uvs__tree_init(struct uvs__tree *t,
                    int (*compare)(const struct uvs__node *a, const struct uvs__node *b)) {
  t->root = NULL;
  t->compare = compare;
  t->random = 2463534242u;
}

static uint32_t next_random(struct uvs__tree *t) { /* xorshift32 */
  t->random ^= t->random << 13;
  t->random ^= t->random >> 17;
  t->random ^= t->random << 5;
  return t->random;
}

void uvs__tree_insert(struct uvs__tree *t, struct uvs__node *node) {
  struct uvs__node **at = &t->root, **left = &node->left, **right = &node->right, *below;

  node->rank = next_random(t);
  while (*at != NULL && (*at)->rank >= node->rank)
    at = t->compare(*at, node) < 0 ? &(*at)->right : &(*at)->left;
  below = *at;
  *at = node;
  while (below != NULL) { /* split what is below into what comes before and after the node */
    if (t->compare(below, node) < 0) {
      *left = below;
      left = &below->right;
      below = below->right;
    } else {
      *right = below;
      right = &below->left;
      below = below->left;
    }
  }
  *left = *right = NULL;
}

void uvs__tree_remove(struct uvs__tree *t, struct uvs__node *node) {
  struct uvs__node **at = &t->root, *left = node->left, *right = node->right;

  while (*at != node)
    at = t->compare(*at, node) < 0 ? &(*at)->right : &(*at)->left;
  while (left != NULL && right != NULL) { /* merge the two subtrees */
    if (left->rank >= right->rank) {
      *at = left;
      at = &left->right;
      left = left->right;
    } else {
      *at = right;
      at = &right->left;
      right = right->left;
    }
  }
  *at = left != NULL ? left : right;
}

/* The first node whose comparison with `like` is at least `least`. */
static struct uvs__node *first(const struct uvs__tree *t, const struct uvs__node *like, int least) {
  struct uvs__node *at = t->root, *found = NULL;

  while (at != NULL) {
    int order = t->compare(at, like);

    if ((order > 0) - (order < 0) >= least) {
      found = at;
      at = at->left;
    } else {
      at = at->right;
    }
  }
  return found;
}

struct uvs__node *uvs__tree_from(const struct uvs__tree *t, const struct uvs__node *like) {
  return first(t, like, 0);
}

struct uvs__node *uvs__tree_after(const struct uvs__tree *t, const struct uvs__node *like) {
  return first(t, like, 1);
}

struct uvs__node *uvs__tree_find(const struct uvs__tree *t, const struct uvs__node *like) {
  struct uvs__node *found = first(t, like, 0);

  return found != NULL && t->compare(found, like) == 0 ? found : NULL;
}

struct uvs__node *uvs__tree_first(const struct uvs__tree *t) {
  struct uvs__node *at = t->root;

  while (at != NULL && at->left != NULL)
    at = at->left;
  return at;
}
