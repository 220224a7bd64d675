/* SPDX-License-Identifier: MIT */
#include "core/ready.h"

#define WHEEL_SIZE 13

static const uint8_t wheel[WHEEL_SIZE] = {
    UVS__HIGH, UVS__HIGH,   UVS__NORMAL, UVS__HIGH, UVS__HIGH,   UVS__NORMAL, UVS__HIGH,
    UVS__HIGH, UVS__NORMAL, UVS__HIGH,   UVS__HIGH, UVS__NORMAL, UVS__LOW,
};

struct key {
  uint64_t ns, seq;
};

static inline struct key key_of(const struct uvs__table *t, uint32_t slot) {
  const struct uvs__task *k = uvs__task_at(t, slot);
  const struct uvs__extra *x = uvs__extra_of(t, k);

  return x == NULL ? (struct key){k->due_ns, k->seq} : (struct key){x->key_ns, x->key_seq};
}

static inline bool before(struct key x, struct key y) {
  return x.ns < y.ns || (x.ns == y.ns && x.seq < y.seq);
}

/* ---- the heap ---- */

static inline unsigned rank_of(const struct uvs__table *t, uint32_t slot) {
  return slot == UVS__NONE ? 0 : uvs__task_at(t, slot)->rank;
}

static inline void set_parent(struct uvs__table *t, uint32_t slot, uint32_t up) {
  if (slot != UVS__NONE)
    uvs__task_at(t, slot)->up = up;
}

/* Puts the child with the greater rank on the left. Returns whether the rank has changed. */
static bool settle_rank(struct uvs__table *t, uint32_t slot) {
  struct uvs__link *k = uvs__link_at(t, slot);
  struct uvs__task *task = uvs__task_at(t, slot);
  unsigned rank;

  if (rank_of(t, k->a) < rank_of(t, k->b))
    *k = (struct uvs__link){k->b, k->a};
  rank = rank_of(t, k->b) + 1;
  if (task->rank == rank)
    return false;
  task->rank = (uint8_t)rank & 31u;
  return true;
}

/* Merges two heaps: down their right spines, which are short, and up again. */
static uint32_t merge(struct uvs__table *t, uint32_t x, uint32_t y) {
  uint32_t root = UVS__NONE;
  uint32_t last = UVS__NONE;

  while (x != UVS__NONE && y != UVS__NONE) {
    if (before(key_of(t, y), key_of(t, x))) {
      uint32_t z = x;

      x = y;
      y = z;
    }
    if (last == UVS__NONE)
      root = x;
    else
      uvs__link_at(t, last)->b = x;
    set_parent(t, x, last);
    last = x;
    x = uvs__link_at(t, x)->b;
  }
  if (x == UVS__NONE)
    x = y;
  if (last == UVS__NONE) {
    set_parent(t, x, UVS__NONE);
    return x;
  }
  uvs__link_at(t, last)->b = x;
  set_parent(t, x, last);
  for (; last != UVS__NONE; last = uvs__task_at(t, last)->up)
    settle_rank(t, last);
  return root;
}

static void heap_add(struct uvs__table *t, struct uvs__ready_class *c, uint32_t slot) {
  *uvs__link_at(t, slot) = (struct uvs__link){UVS__NONE, UVS__NONE};
  uvs__task_at(t, slot)->rank = 1;
  c->root = merge(t, c->root, slot);
}

static void heap_remove(struct uvs__table *t, struct uvs__ready_class *c, uint32_t slot) {
  struct uvs__link *k = uvs__link_at(t, slot);
  uint32_t up = uvs__task_at(t, slot)->up;
  uint32_t rest = merge(t, k->a, k->b);

  set_parent(t, rest, up);
  if (up == UVS__NONE) {
    c->root = rest;
  } else {
    struct uvs__link *parent = uvs__link_at(t, up);

    *(parent->a == slot ? &parent->a : &parent->b) = rest;
    while (up != UVS__NONE && settle_rank(t, up))
      up = uvs__task_at(t, up)->up;
  }
  uvs__task_at(t, slot)->rank = 0;
}

/* ---- the list ---- */

static void list_add(struct uvs__table *t, struct uvs__ready_class *c, uint32_t slot,
                     struct key key) {
  *uvs__link_at(t, slot) = (struct uvs__link){c->last, UVS__NONE};
  if (c->last == UVS__NONE)
    c->first = slot;
  else
    uvs__link_at(t, c->last)->b = slot;
  c->last = slot;
  c->last_ns = key.ns;
  c->last_seq = key.seq;
}

static void list_remove(struct uvs__table *t, struct uvs__ready_class *c, uint32_t slot) {
  struct uvs__link *k = uvs__link_at(t, slot);

  if (k->a == UVS__NONE)
    c->first = k->b;
  else
    uvs__link_at(t, k->a)->b = k->b;
  if (k->b == UVS__NONE)
    c->last = k->a;
  else
    uvs__link_at(t, k->b)->a = k->a;
}

/* ---- both ---- */

void uvs__ready_init(struct uvs__ready *r) {
  *r = (struct uvs__ready){.turn = 0};
  for (int i = 0; i < UVS__CLASSES; i++)
    r->of[i] = (struct uvs__ready_class){UVS__NONE, UVS__NONE, UVS__NONE, 0, 0};
}

void uvs__ready_add(struct uvs__table *t, struct uvs__ready *r, uint32_t slot) {
  struct uvs__task *k = uvs__task_at(t, slot);
  struct uvs__ready_class *c = &r->of[uvs__class_of(k)];
  struct key key = key_of(t, slot);

  UVS_ASSERT(k->place == UVS__NOWHERE);
  k->place = UVS__IN_READY;
  k->rank = 0;
  r->count++;
  if (c->last == UVS__NONE || !before(key, (struct key){c->last_ns, c->last_seq}))
    list_add(t, c, slot, key);
  else
    heap_add(t, c, slot);
}

void uvs__ready_remove(struct uvs__table *t, struct uvs__ready *r, uint32_t slot) {
  struct uvs__task *k = uvs__task_at(t, slot);
  struct uvs__ready_class *c = &r->of[uvs__class_of(k)];

  UVS_ASSERT(k->place == UVS__IN_READY);
  if (k->rank == 0)
    list_remove(t, c, slot);
  else
    heap_remove(t, c, slot);
  *uvs__link_at(t, slot) = (struct uvs__link){UVS__NONE, UVS__NONE};
  k->place = UVS__NOWHERE;
  r->count--;
}

static inline uint32_t first_of(const struct uvs__table *t, const struct uvs__ready_class *c) {
  if (c->root == UVS__NONE)
    return c->first;
  if (c->first == UVS__NONE)
    return c->root;
  return before(key_of(t, c->root), key_of(t, c->first)) ? c->root : c->first;
}

uint32_t uvs__ready_first(const struct uvs__table *t, const struct uvs__ready *r) {
  uint32_t slot;

  if (r->count == 0)
    return UVS__NONE;
  slot = first_of(t, &r->of[wheel[r->turn]]);
  for (int i = 0; i < UVS__CLASSES && slot == UVS__NONE; i++)
    slot = first_of(t, &r->of[i]);
  return slot;
}

void uvs__ready_key(const struct uvs__table *t, uint32_t slot, uint64_t *ret_ns,
                    uint64_t *ret_seq) {
  struct key key = key_of(t, slot);

  *ret_ns = key.ns;
  *ret_seq = key.seq;
}

/* ---- check ---- */

static bool check_list(const struct uvs__table *t, const struct uvs__ready_class *c, unsigned class,
                       uint32_t *count) {
  uint32_t previous = UVS__NONE;

  for (uint32_t slot = c->first; slot != UVS__NONE; slot = uvs__link_at(t, slot)->b) {
    const struct uvs__task *k = uvs__task_at(t, slot);

    if (k->state != UVS__READY || k->place != UVS__IN_READY || k->rank != 0 ||
        uvs__class_of(k) != class || uvs__link_at(t, slot)->a != previous)
      return false;
    if (previous != UVS__NONE && before(key_of(t, slot), key_of(t, previous)))
      return false;
    previous = slot;
    ++*count;
  }
  return c->last == previous;
}

/* Without recursion: down to the left, then up and to the right. */
static bool check_heap(const struct uvs__table *t, const struct uvs__ready_class *c, unsigned class,
                       uint32_t *count) {
  uint32_t slot = c->root;
  uint32_t from = UVS__NONE; /* where we came from */

  if (slot != UVS__NONE && uvs__task_at(t, slot)->up != UVS__NONE)
    return false;
  while (slot != UVS__NONE) {
    const struct uvs__task *k = uvs__task_at(t, slot);
    struct uvs__link l = *uvs__link_at(t, slot);

    if (from == k->up) { /* the first visit */
      ++*count;
      if (k->state != UVS__READY || k->place != UVS__IN_READY || uvs__class_of(k) != class ||
          k->rank != rank_of(t, l.b) + 1 || rank_of(t, l.a) < rank_of(t, l.b))
        return false;
      if (k->up != UVS__NONE && before(key_of(t, slot), key_of(t, k->up)))
        return false;
    }
    if (from == k->up && l.a != UVS__NONE) {
      from = slot;
      slot = l.a;
    } else if (l.b != UVS__NONE && from != l.b) {
      from = slot;
      slot = l.b;
    } else {
      from = slot;
      slot = k->up;
    }
  }
  return true;
}

bool uvs__ready_check(const struct uvs__table *t, const struct uvs__ready *r) {
  uint32_t count = 0;

  for (unsigned i = 0; i < UVS__CLASSES; i++) {
    if (!check_list(t, &r->of[i], i, &count) || !check_heap(t, &r->of[i], i, &count))
      return false;
  }
  return count == r->count;
}
