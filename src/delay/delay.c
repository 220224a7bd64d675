/* SPDX-License-Identifier: MIT */
#include "delay/delay.h"

#include <string.h>

#define MARK UINT32_C(0x80000000) /* in a link: not a slot, but a list */
#define UNORDERED UINT64_MAX
#define STEP 16 /* tasks that are looked at together, so that their cache misses overlap */

static inline struct uvs__task *task_at(const struct uvs__delay *d, uint32_t slot) {
  return uvs__task_at(d->table, slot);
}

static inline struct uvs__link *link_at(const struct uvs__delay *d, uint32_t slot) {
  return uvs__link_at(d->table, slot);
}

/* The link of a slot, or of a list. */
static inline struct uvs__link *end_at(struct uvs__delay *d, uint32_t i) {
  return (i & MARK) != 0 ? &d->list[i & ~MARK].ends : link_at(d, i);
}

static inline uint32_t first_in(const struct uvs__delay *d, uint32_t list) {
  uint32_t slot = d->list[list].ends.b;

  return (slot & MARK) != 0 ? UVS__NONE : slot;
}

static inline uint64_t heap_key_of(const struct uvs__task *t, uint32_t slot) {
  return (uint64_t)t->seq << UVS__SLOT_BITS | slot;
}

/* ---- lists ---- */

static void clear(struct uvs__delay *d, uint32_t list) {
  d->list[list] = (struct uvs__bucket){
      .ends = {MARK | list, MARK | list}, .min_ns = UVS__NEVER, .min_slot = UVS__NONE};
}

static void note_empty(struct uvs__delay *d, uint32_t list) {
  uint32_t level = list / UVS__DIGITS;

  clear(d, list);
  if (list >= UVS__BUCKETS)
    return;
  d->digits[level] &= ~(UINT64_C(1) << list % UVS__DIGITS);
  if (d->digits[level] == 0)
    d->levels &= ~(1u << level);
}

static inline void append(struct uvs__delay *d, uint32_t list, uint32_t slot,
                          const struct uvs__task *t) {
  struct uvs__bucket *b = &d->list[list];
  uint32_t last = b->ends.a;
  bool in_order = t->due_ns > b->last_ns || (t->due_ns == b->last_ns && t->seq >= b->last_seq);

  *link_at(d, slot) = (struct uvs__link){last, MARK | list};
  end_at(d, last)->b = slot;
  b->ends.a = slot;
  b->last_ns = in_order ? t->due_ns : UNORDERED;
  b->last_seq = t->seq;
  if (t->due_ns < b->min_ns ||
      (t->due_ns == b->min_ns && !b->stale && t->seq < task_at(d, b->min_slot)->seq)) {
    b->min_ns = t->due_ns;
    b->min_slot = slot;
    b->stale = false;
  }
}

static inline void unlink_slot(struct uvs__delay *d, struct uvs__link *k) {
  uint32_t previous = k->a;
  uint32_t next = k->b;

  *k = (struct uvs__link){UVS__NONE, UVS__NONE};
  end_at(d, previous)->b = next;
  end_at(d, next)->a = previous;
  if (previous == next)
    note_empty(d, next & ~MARK);
}

/* Moves all tasks of a list to another list, which is empty. */
static void become(struct uvs__delay *d, uint32_t to, uint32_t from) {
  struct uvs__bucket b = d->list[from];

  note_empty(d, from);
  link_at(d, b.ends.b)->a = MARK | to;
  link_at(d, b.ends.a)->b = MARK | to;
  d->list[to] = b;
  if (to == UVS__FALLING)
    d->list[to].last_ns = UNORDERED; /* a falling task may be pushed back, and stays in the list */
}

/* ---- where a task belongs ---- */

static inline uint32_t bucket_of(const struct uvs__delay *d, uint64_t tick) {
  unsigned level = (63u - (unsigned)__builtin_clzll(tick ^ d->upto)) / UVS__DIGIT_BITS;

  return level * UVS__DIGITS + (uint32_t)(tick >> level * UVS__DIGIT_BITS) % UVS__DIGITS;
}

static inline uint32_t list_for(const struct uvs__delay *d, uint64_t due_ns) {
  uint64_t tick = due_ns >> UVS__TICK_BITS;

  return tick <= d->upto ? UVS__FRONT : bucket_of(d, tick);
}

static inline void note_full(struct uvs__delay *d, uint32_t list) {
  d->digits[list / UVS__DIGITS] |= UINT64_C(1) << list % UVS__DIGITS;
  d->levels |= 1u << list / UVS__DIGITS;
}

static inline void file(struct uvs__delay *d, uint32_t slot, const struct uvs__task *t) {
  uint32_t list = list_for(d, t->due_ns);
  const struct uvs__bucket *b = &d->list[list];

  if (list != UVS__FRONT)
    note_full(d, list);
  else if (t->due_ns < b->last_ns || (t->due_ns == b->last_ns && t->seq < b->last_seq)) {
    uvs__heap_push(&d->table->delay_heap, t->due_ns, heap_key_of(t, slot));
    return;
  }
  append(d, list, slot, t);
}

void uvs__delay_init(struct uvs__delay *d, struct uvs__table *t, uint64_t now_ns) {
  memset(d, 0, sizeof *d);
  d->table = t;
  d->upto = now_ns >> UVS__TICK_BITS;
  d->soonest_ns = UVS__NEVER;
  for (uint32_t list = 0; list < UVS__LISTS; list++)
    clear(d, list);
}

void uvs__delay_put(struct uvs__delay *d, uint32_t slot, uint64_t now_ns) {
  const struct uvs__task *t = task_at(d, slot);

  UVS_ASSERT(t->due_ns < UVS__NEVER);
  d->ops++;
  d->count++;
  if (t->due_ns < d->soonest_ns)
    d->soonest_ns = t->due_ns;
  if (d->levels == 0 && now_ns >> UVS__TICK_BITS > d->upto)
    d->upto = now_ns >> UVS__TICK_BITS; /* all buckets are empty */
  file(d, slot, t);
}

/* Takes a task out of its list or the heap. due_ns: the deadline that it was filed by, or a later
 * one. */
static inline void take_out(struct uvs__delay *d, uint32_t slot, uint64_t due_ns) {
  struct uvs__link *k = link_at(d, slot);
  uint64_t tick = due_ns >> UVS__TICK_BITS;

  if (k->b == UVS__NONE) {
    uvs__heap_remove(&d->table->delay_heap, slot);
    return;
  }
  __builtin_prefetch(end_at(d, k->a), 1); /* both at once: with many tasks each is a cache miss */
  __builtin_prefetch(end_at(d, k->b), 1);
  if (tick > d->upto) { /* pushing a task back has marked its bucket */
    struct uvs__bucket *b = &d->list[bucket_of(d, tick)];

    b->stale |= b->min_slot == slot;
  }
  if (d->list[UVS__FALLING].min_slot == slot)
    d->list[UVS__FALLING].stale = true;
  unlink_slot(d, k);
}

void uvs__delay_remove(struct uvs__delay *d, uint32_t slot) {
  d->ops++;
  d->count--;
  take_out(d, slot, task_at(d, slot)->due_ns);
}

void uvs__delay_move(struct uvs__delay *d, uint32_t slot, uint64_t due_ns, uint64_t now_ns) {
  struct uvs__task *t = task_at(d, slot);
  uint64_t tick = t->due_ns >> UVS__TICK_BITS;

  if (due_ns >= t->due_ns && tick > d->upto) {
    /* The new time is later, and the task is neither in the front nor in the heap, which end at
     * `upto`: so its link can stay. If the task is in another bucket than its deadline says, it was
     * pushed back before, and that bucket is marked already. */
    struct uvs__bucket *b = &d->list[bucket_of(d, tick)];

    b->last_ns = UNORDERED;
    b->stale |= b->min_slot == slot;
    if (d->list[UVS__FALLING].min_slot == slot)
      d->list[UVS__FALLING].stale = true;
    t->due_ns = due_ns;
    return;
  }
  take_out(d, slot, t->due_ns);
  d->count--;
  t->due_ns = due_ns;
  uvs__delay_put(d, slot, now_ns);
}

/* ---- the first ---- */

/* The next bucket, and where it begins. Needs a bucket that is not empty. */
static inline uint32_t next_bucket(const struct uvs__delay *d, uint64_t *ret_tick) {
  uint32_t level = (uint32_t)__builtin_ctz(d->levels);
  uint32_t digit = (uint32_t)__builtin_ctzll(d->digits[level]);
  unsigned shift = level * UVS__DIGIT_BITS;

  *ret_tick = (d->upto >> shift >> UVS__DIGIT_BITS << UVS__DIGIT_BITS | digit) << shift;
  return level * UVS__DIGITS + digit;
}

/* The last tick of a bucket that begins with `tick`. */
static inline uint64_t end_of(uint32_t list, uint64_t tick) {
  return tick + (UINT64_C(1) << list / UVS__DIGITS * UVS__DIGIT_BITS) - 1;
}

/* The first of the front and the heap; UVS__NONE. */
static inline uint32_t front_or_heap(const struct uvs__delay *d, uint64_t *ret_ns) {
  const struct uvs__heap_entry *top = uvs__heap_head(&d->table->delay_heap);
  uint32_t slot = first_in(d, UVS__FRONT);
  const struct uvs__task *t;

  if (slot == UVS__NONE) {
    if (top == NULL)
      return UVS__NONE;
    *ret_ns = top->deadline_ns;
    return uvs__heap_slot(top);
  }
  t = task_at(d, slot);
  *ret_ns = t->due_ns;
  if (top == NULL || top->deadline_ns > t->due_ns ||
      (top->deadline_ns == t->due_ns && top->key > heap_key_of(t, slot)))
    return slot;
  *ret_ns = top->deadline_ns;
  return uvs__heap_slot(top);
}

/* The list whose lower bound is the least: FALLING, or the next bucket. UVS__LISTS: neither has a
 * task. */
static inline uint32_t least_list(const struct uvs__delay *d) {
  uint64_t tick;
  uint32_t list;

  if (d->levels == 0)
    return first_in(d, UVS__FALLING) == UVS__NONE ? UVS__LISTS : UVS__FALLING;
  list = next_bucket(d, &tick);
  return d->list[UVS__FALLING].min_ns < d->list[list].min_ns ? UVS__FALLING : list;
}

uint64_t uvs__delay_bound(const struct uvs__delay *d) {
  uint32_t list = least_list(d);
  uint64_t bound_ns = list == UVS__LISTS ? UVS__NEVER : d->list[list].min_ns;
  uint64_t front_ns;

  if (front_or_heap(d, &front_ns) == UVS__NONE)
    return bound_ns;
  return front_ns < bound_ns ? front_ns : bound_ns;
}

bool uvs__delay_is_before(const struct uvs__delay *d, uint64_t due_ns, uint64_t seq) {
  uint32_t list = least_list(d);
  uint64_t front_ns;
  uint32_t slot;

  if (list != UVS__LISTS) {
    const struct uvs__bucket *b = &d->list[list];

    if (b->min_ns < due_ns ||
        (b->min_ns == due_ns && !b->stale && task_at(d, b->min_slot)->seq < seq))
      return true;
  }
  slot = front_or_heap(d, &front_ns);
  return slot != UVS__NONE &&
         (front_ns < due_ns || (front_ns == due_ns && task_at(d, slot)->seq < seq));
}

/* Files a few of the falling tasks again, by their present due_ns. Tasks that were pushed back
 * reach their new bucket here. */
static int file_falling(struct uvs__delay *d) {
  uint32_t batch[STEP];
  uint32_t slot = first_in(d, UVS__FALLING);
  int n = 0;

  for (; n < STEP && (slot & MARK) == 0; slot = link_at(d, slot)->b) {
    __builtin_prefetch(task_at(d, slot));
    batch[n++] = slot;
  }
  for (int i = 0; i < n; i++) {
    const struct uvs__task *t = task_at(d, batch[i]);

    d->ops += t->due_ns >> UVS__TICK_BITS > d->falling_upto; /* pushed back: counts as a move */
    unlink_slot(d, link_at(d, batch[i]));
    file(d, batch[i], t);
  }
  return n;
}

/* The time of a bucket has begun: moves `upto` into the bucket, or to its end. If all tasks of the
 * bucket go to one list, in order, they move in one step. */
static void pull(struct uvs__delay *d, uint32_t list, uint64_t tick, uint64_t now_tick) {
  uint64_t end = end_of(list, tick);
  struct uvs__bucket *b = &d->list[list];

  d->upto = now_tick < end ? now_tick : end;
  d->falling_upto = end;
  if (b->last_ns != UNORDERED) {
    uint32_t to = list_for(d, b->last_ns);

    if (to == list_for(d, b->min_ns) && first_in(d, to) == UVS__NONE) {
      become(d, to, list);
      if (to < UVS__BUCKETS)
        note_full(d, to);
      return;
    }
  }
  become(d, UVS__FALLING, list);
}

uint32_t uvs__delay_take(struct uvs__delay *d, uint64_t now_ns, int *steps) {
  uint64_t now_tick = now_ns >> UVS__TICK_BITS;

  while (*steps > 0) {
    uint64_t tick, due_ns;
    uint32_t slot;

    if (first_in(d, UVS__FALLING) != UVS__NONE) {
      *steps -= file_falling(d);
      continue;
    }
    if (d->levels != 0) {
      uint32_t list = next_bucket(d, &tick);

      if (d->list[list].min_ns <= now_ns) {
        pull(d, list, tick, now_tick);
        --*steps;
        continue;
      }
      if (tick <= now_tick)
        now_tick = tick - 1; /* the bucket's time has begun, but none of its tasks is due */
    }
    if (now_tick > d->upto)
      d->upto = now_tick;
    slot = front_or_heap(d, &due_ns);
    if (slot == UVS__NONE || due_ns > now_ns)
      return UVS__NONE;
    --*steps;
    d->ops++;
    d->count--;
    if (link_at(d, slot)->b == UVS__NONE) {
      uvs__heap_remove(&d->table->delay_heap, slot);
    } else {
      uint32_t next = link_at(d, slot)->b;

      if ((next & MARK) == 0)
        __builtin_prefetch(task_at(d, next), 1);
      unlink_slot(d, link_at(d, slot));
    }
    return slot;
  }
  return UVS__NONE;
}

bool uvs__delay_settle(struct uvs__delay *d, int *steps) {
  while (*steps > 0) {
    uint64_t front_ns, tick;
    uint32_t list;

    if (first_in(d, UVS__FALLING) != UVS__NONE) {
      *steps -= file_falling(d);
      continue;
    }
    list = least_list(d);
    if (list == UVS__LISTS || !d->list[list].stale)
      return true;
    if (front_or_heap(d, &front_ns) != UVS__NONE && front_ns < d->list[list].min_ns)
      return true;
    next_bucket(d, &tick);
    d->falling_upto = end_of(list, tick);
    become(d, UVS__FALLING, list); /* to be filed again: most go back to where they were */
    --*steps;
  }
  return false;
}

uint32_t uvs__delay_first(const struct uvs__delay *d) {
  uint32_t list = least_list(d);
  uint64_t front_ns;
  uint32_t slot = front_or_heap(d, &front_ns);

  if (list == UVS__LISTS || (slot != UVS__NONE && front_ns <= d->list[list].min_ns))
    return slot;
  return d->list[list].min_slot;
}

/* ---- check ---- */

/* Is the list linked both ways, in order if it says so, and without a deadline before its bound? */
static bool check_delay_list(const struct uvs__delay *d, uint32_t list, uint32_t *count) {
  const struct uvs__bucket *b = &d->list[list];
  uint32_t previous = MARK | list;
  uint64_t last_ns = 0;
  uint64_t last_seq = 0;

  for (uint32_t slot = b->ends.b; (slot & MARK) == 0; slot = link_at(d, slot)->b) {
    const struct uvs__task *t = task_at(d, slot);

    if (link_at(d, slot)->a != previous || t->place != UVS__IN_DELAY || t->due_ns < b->min_ns)
      return false;
    previous = slot;
    ++*count;
    if (list == UVS__FRONT && t->due_ns >> UVS__TICK_BITS > d->upto)
      return false;
    if (b->last_ns == UNORDERED)
      continue; /* some may have been pushed back, out of the bucket's time */
    if (list < UVS__BUCKETS && bucket_of(d, t->due_ns >> UVS__TICK_BITS) != list)
      return false;
    if (t->due_ns < last_ns || (t->due_ns == last_ns && t->seq < last_seq) ||
        t->due_ns > b->last_ns)
      return false;
    last_ns = t->due_ns;
    last_seq = t->seq;
  }
  if (b->ends.a != previous || (previous == (MARK | list)) != (b->min_ns == UVS__NEVER))
    return false;
  return list >= UVS__BUCKETS || b->stale || b->min_ns == UVS__NEVER ||
         task_at(d, b->min_slot)->due_ns == b->min_ns;
}

bool uvs__delay_check(const struct uvs__delay *d) {
  const struct uvs__heap *h = &d->table->delay_heap;
  uint32_t count = h->count;

  if (!uvs__heap_check(h))
    return false;
  for (uint32_t i = 0; i < h->count; i++) {
    uint32_t slot = uvs__heap_slot(uvs__heap_nth(h, i));

    if (link_at(d, slot)->b != UVS__NONE || task_at(d, slot)->place != UVS__IN_DELAY ||
        task_at(d, slot)->due_ns >> UVS__TICK_BITS > d->upto)
      return false;
  }
  for (uint32_t list = 0; list < UVS__LISTS; list++) {
    bool empty = first_in(d, list) == UVS__NONE;

    if (list < UVS__BUCKETS &&
        (d->digits[list / UVS__DIGITS] >> list % UVS__DIGITS & 1) != (empty ? 0u : 1u))
      return false;
    if ((!empty || d->list[list].min_ns != UVS__NEVER) && !check_delay_list(d, list, &count))
      return false;
  }
  for (uint32_t level = 0; level < UVS__LEVELS; level++) {
    if ((d->levels >> level & 1) != (d->digits[level] != 0 ? 1u : 0u))
      return false;
  }
  return count == d->count;
}
