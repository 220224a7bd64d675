/* SPDX-License-Identifier: MIT */
#include "jobs/timers.h"

#include <stddef.h>

#include <uvsched/time.h>

/* The earlier root takes the other one as its first child. Either may be NULL. */
static struct uvs__timer *join(struct uvs__timer *a, struct uvs__timer *b) {
  struct uvs__timer *swap;

  if (a == NULL || b == NULL)
    return a == NULL ? b : a;
  if (b->due_ns < a->due_ns) {
    swap = a;
    a = b;
    b = swap;
  }
  b->previous = a;
  b->next = a->child;
  if (b->next != NULL)
    b->next->previous = b;
  a->child = b;
  a->next = a->previous = NULL;
  return a;
}

/* Joins a list of siblings into one heap: joins pairs from the left, then joins these. */
static struct uvs__timer *join_all(struct uvs__timer *first) {
  struct uvs__timer *pairs = NULL, *root = NULL;

  while (first != NULL) {
    struct uvs__timer *second = first->next;
    struct uvs__timer *rest = second == NULL ? NULL : second->next;
    struct uvs__timer *pair;

    first->next = first->previous = NULL;
    if (second != NULL)
      second->next = second->previous = NULL;
    pair = join(first, second);
    pair->next = pairs;
    pairs = pair;
    first = rest;
  }
  while (pairs != NULL) {
    struct uvs__timer *rest = pairs->next;

    pairs->next = NULL;
    root = join(root, pairs);
    pairs = rest;
  }
  return root;
}

void uvs__timer_clear(struct uvs__timers *all, struct uvs__timer *t) {
  struct uvs__timer *below;

  if (t->fire == NULL)
    return;
  below = join_all(t->child);
  if (t == all->root) {
    all->root = below;
  } else {
    if (t->previous->child == t)
      t->previous->child = t->next;
    else
      t->previous->next = t->next;
    if (t->next != NULL)
      t->next->previous = t->previous;
    all->root = join(all->root, below);
  }
  t->child = t->next = t->previous = NULL;
  t->fire = NULL;
}

void uvs__timer_set(struct uvs__timers *all, struct uvs__timer *t, int64_t due_ns,
                    void (*fire)(struct uvs__timer *t, int64_t now_ns)) {
  uvs__timer_clear(all, t);
  t->due_ns = due_ns;
  t->fire = fire;
  t->child = t->next = t->previous = NULL;
  all->root = join(all->root, t);
}

bool uvs__timers_fire(struct uvs__timers *all, int64_t now_ns) {
  bool any = false;

  while (all->root != NULL && all->root->due_ns <= now_ns) {
    struct uvs__timer *t = all->root;
    void (*fire)(struct uvs__timer *, int64_t) = t->fire;

    uvs__timer_clear(all, t);
    fire(t, now_ns);
    any = true;
  }
  return any;
}

int64_t uvs__timers_next(const struct uvs__timers *all) {
  return all->root == NULL ? UVS_NEVER : all->root->due_ns;
}
