/* SPDX-License-Identifier: MIT */
#include "wheel.h"

#include <string.h>

#define STEP 16u /* entries that are looked at together, so that their memory comes at once */
#define AHEAD 12
#define LOWER_MIN 64u /* a heap of fewer is no burden */
#define LOWER_SHARE 16u

static struct uvs__slot *slot_at(const struct uvs__wheel *w, uint32_t slot) {
  uint32_t offset;
  unsigned k = uvs__chunk_of(slot, &offset);

  return (struct uvs__slot *)(void *)w->slots->chunk[k] +
         offset; /* uvs__slab_at, of a known size */
}

static uint64_t key_of(const struct uvs__wheel *w, uint32_t slot) {
  /* relaxed: only the loop writes the sequence */
  uint64_t seq_cold = uvs__locked_load(&slot_at(w, slot)->seq_cold, relaxed);

  return (seq_cold & ~(uint64_t)UVS__SLOT_MASK) | slot;
}

static bool is_empty(const struct uvs__wheel *w, uint32_t list) {
  return (w->list[list].ends.b & UVS__LIST_MARK) != 0;
}

static void clear(struct uvs__wheel *w, uint32_t list) {
  uint32_t mark = UVS__LIST_MARK | list;

  w->list[list] = (struct uvs__bucket){{mark, mark}, 0, 0};
}

void uvs__wheel_emptied(struct uvs__wheel *w, uint32_t list) {
  uint32_t level = list / UVS__DIGITS;

  clear(w, list);
  if (list >= UVS__BUCKETS)
    return;
  w->digits[level] &= ~(UINT64_C(1) << list % UVS__DIGITS);
  if (w->digits[level] == 0)
    w->levels &= ~(1u << level);
}

void uvs__wheel_init(struct uvs__wheel *w, struct uvs__link **links,
                     const struct uvs__slab *slots) {
  memset(w, 0, sizeof *w);
  w->links = links;
  w->slots = slots;
  uvs__heap_init(&w->heap, links);
  for (uint32_t list = 0; list < UVS__LISTS; list++)
    clear(w, list);
  atomic_init(&w->puts, 0);
  atomic_init(&w->moves, 0);
  atomic_init(&w->removals, 0);
}

void uvs__wheel_destroy(struct uvs__wheel *w, const uvs_allocator_t *m) {
  uvs__heap_destroy(&w->heap, m);
}

int uvs__wheel_reserve(struct uvs__wheel *w, const uvs_allocator_t *m, size_t n) {
  return uvs__heap_reserve(&w->heap, m, n);
}

static void set_upto(struct uvs__wheel *w, uint64_t tick) {
  w->upto = tick;
  w->below = 0;
}

/* All of one list goes to the end of another, which is not in order any more unless the caller
 * knows better. */
static void join(struct uvs__wheel *w, uint32_t to, uint32_t from) {
  struct uvs__link source = w->list[from].ends;
  struct uvs__link *target = &w->list[to].ends;

  uvs__wheel_link(w, source.b)->a = target->a;
  uvs__wheel_end(w, target->a)->b = source.b;
  uvs__wheel_link(w, source.a)->b = UVS__LIST_MARK | to;
  target->a = source.a;
  w->list[to].last_ns = UVS__UNORDERED;
  uvs__wheel_emptied(w, from);
}

/* Nothing is in a bucket: then `upto` may be any tick, if what is in the front is not after it. Not
 * far from now is best, since that is where deadlines will be. (While some fall they fall to where
 * they are expected, not into buckets again.) */
void uvs__wheel_start_over(struct uvs__wheel *w) {
  uint64_t tick = w->now_ns >> UVS__TICK_BITS;

  if (!is_empty(w, UVS__FALLING) || tick == w->upto)
    return;
  if (is_empty(w, UVS__FRONT) || w->list[UVS__FRONT].last_ns >> UVS__TICK_BITS <= tick)
    set_upto(w, tick);
}

/* Somebody was armed for a far future when there was nobody else, and now the heap gets all that
 * comes: take `upto` back to where we are. At the level where the two ticks differ, what is below
 * all has the digit of the old one, and becomes one bucket; what is at that level and above stays
 * where it is. What is in the heap stays, too: it may hold more than it must. */
static void lower(struct uvs__wheel *w) {
  uint64_t tick = w->now_ns >> UVS__TICK_BITS;
  uint64_t old = w->upto;
  uint64_t last_ns = 0;
  uint64_t last_key = 0;
  uint32_t to;

  if (tick >= old || !is_empty(w, UVS__FALLING))
    return;
  set_upto(w, tick);
  to = uvs__wheel_bucket(w, old);
  while (w->levels != 0 && (uint32_t)__builtin_ctz(w->levels) < to / UVS__DIGITS) {
    uint32_t level = (uint32_t)__builtin_ctz(w->levels);
    uint32_t from = level * UVS__DIGITS + (uint32_t)__builtin_ctzll(w->digits[level]);

    if (last_ns != UVS__UNORDERED) { /* they come in order: in order they stay, if they were */
      last_ns = w->list[from].last_ns;
      last_key = w->list[from].last_key;
    }
    join(w, to, from);
  }
  if (!is_empty(w, to)) {
    w->list[to].last_ns = last_ns;
    w->list[to].last_key = last_key;
    w->digits[to / UVS__DIGITS] |= UINT64_C(1) << to % UVS__DIGITS;
    w->levels |= 1u << to / UVS__DIGITS;
  }
  if (!is_empty(w, UVS__FRONT)) { /* some of it may be after the new one */
    w->falling_ns = 0;
    w->falling_upto = old;
    join(w, UVS__FALLING, UVS__FRONT);
  }
}

/* Not later than `upto`: the front if it comes last there, else the heap. */
void uvs__wheel_file_below(struct uvs__wheel *w, uint32_t slot, uint64_t deadline_ns,
                           uint64_t key) {
  const struct uvs__bucket *front = &w->list[UVS__FRONT];

  if (deadline_ns > front->last_ns || (deadline_ns == front->last_ns && key > front->last_key)) {
    uvs__wheel_append(w, UVS__FRONT, slot, deadline_ns, key);
    return;
  }
  uvs__heap_push(&w->heap, deadline_ns, key);
  w->below++;
  if (w->below >= LOWER_MIN && w->heap.count >= LOWER_MIN &&
      (uint64_t)w->below * LOWER_SHARE >= w->count)
    lower(w);
}

void uvs__wheel_move(struct uvs__wheel *w, uint32_t slot, uint64_t deadline_ns, uint64_t key) {
  struct uvs__link *k = uvs__wheel_link(w, slot);

  UVS_ASSERT(k->a != UVS__NONE);
  uvs__wheel_tally(&w->moves);
  uvs__wheel_note(w, deadline_ns);
  if (k->b != UVS__NONE) {
    uvs__wheel_unlink(w, k);
  } else if (deadline_ns >> UVS__TICK_BITS <= w->upto) {
    uvs__heap_move(&w->heap, slot, deadline_ns);
    return;
  } else {
    uvs__heap_remove(&w->heap, slot);
  }
  uvs__wheel_file(w, slot, deadline_ns, key);
}

void uvs__wheel_push_back_below(struct uvs__wheel *w, uint32_t slot, uint64_t old_ns) {
  struct uvs__link *k = uvs__wheel_link(w, slot);

  if (k->b == UVS__NONE)
    return;                /* in the heap, which knows the old deadline; or nowhere */
  uvs__wheel_unlink(w, k); /* the front must be in order: to the heap, as of old */
  uvs__heap_push(&w->heap, old_ns, key_of(w, slot));
}

/* ---- the first of all ---- */

/* The first of the front; UVS__NONE. One that another thread has in hand may have any deadline, and
 * hide those behind it: it is filed for what it says now, and the inbox will bring it. */
static uint32_t front_first(struct uvs__wheel *w, uint64_t *ret_ns) {
  for (;;) {
    uint32_t slot = w->list[UVS__FRONT].ends.b;
    struct uvs__slot *t;
    uint64_t word;

    if ((slot & UVS__LIST_MARK) != 0)
      return UVS__NONE;
    t = slot_at(w, slot);
    /* acquire: who sees a mover's deadline sees its MOVING; pairs with the release in control.c */
    *ret_ns = uvs__load(&t->deadline_ns, acquire);
    word = uvs__load(&t->word, relaxed); /* only for the two bits */
    if ((word & (UVS__INBOX | UVS__MOVING)) == 0)
      return slot;
    uvs__wheel_unlink(w, uvs__wheel_link(w, slot));
    if (*ret_ns >= UVS__NEVER)
      w->count--;
    else if (*ret_ns >> UVS__TICK_BITS <= w->upto)
      uvs__heap_push(&w->heap, *ret_ns, key_of(w, slot)); /* not to the front again */
    else
      uvs__wheel_file(w, slot, *ret_ns, key_of(w, slot));
  }
}

bool uvs__wheel_head(struct uvs__wheel *w, struct uvs__heap_entry *ret) {
  uint64_t front_ns;
  uint32_t slot = front_first(w, &front_ns);
  const struct uvs__heap_entry *e = uvs__heap_head(&w->heap);

  if (slot != UVS__NONE && (e == NULL || front_ns <= e->deadline_ns)) {
    uint64_t key = key_of(w, slot);

    if (e == NULL || front_ns < e->deadline_ns || key < e->key) {
      *ret = (struct uvs__heap_entry){front_ns, key};
      return true;
    }
  }
  if (e == NULL)
    return false;
  *ret = *e;
  return true;
}

unsigned uvs__wheel_take_front(struct uvs__wheel *w, uint64_t until_ns, uint32_t *ret_slots,
                               unsigned most) {
  const struct uvs__heap_entry *e = uvs__heap_head(&w->heap);
  uint32_t ahead = w->list[UVS__FRONT].ends.b;
  unsigned n = 0;

  if (!is_empty(w, UVS__FALLING))
    return 0;
  /* Their memory is asked for a little before it is looked at. */
  for (unsigned i = 0; i < AHEAD && (ahead & UVS__LIST_MARK) == 0; i++)
    ahead = uvs__wheel_link(w, ahead)->b;
  while (n < most) {
    uint64_t deadline_ns;
    uint32_t slot = front_first(w, &deadline_ns);

    if (slot == UVS__NONE || deadline_ns > until_ns)
      break;
    if (e != NULL && (e->deadline_ns < deadline_ns ||
                      (e->deadline_ns == deadline_ns && e->key < key_of(w, slot))))
      break; /* the heap's turn */
    if ((ahead & UVS__LIST_MARK) == 0) {
      __builtin_prefetch(slot_at(w, ahead), 1);
      ahead = uvs__wheel_link(w, ahead)->b;
    }
    uvs__wheel_remove(w, slot);
    ret_slots[n++] = slot;
  }
  return n;
}

/* The next bucket, and where it begins. */
static uint32_t next_bucket(const struct uvs__wheel *w, uint64_t *ret_tick) {
  uint32_t level = (uint32_t)__builtin_ctz(w->levels);
  uint32_t digit = (uint32_t)__builtin_ctzll(w->digits[level]);
  unsigned shift = level * UVS__DIGIT_BITS;

  *ret_tick = (w->upto >> shift >> UVS__DIGIT_BITS << UVS__DIGIT_BITS | digit) << shift;
  return level * UVS__DIGITS + digit;
}

/* `upto` moves to the next bucket, and what is in there one or more levels down; or to the front,
 * all at once, if it is in order and nobody is there. */
static void pull(struct uvs__wheel *w) {
  uint64_t tick;
  uint32_t list = next_bucket(w, &tick);
  uint64_t last = tick + (UINT64_C(1) << list / UVS__DIGITS * UVS__DIGIT_BITS) - 1;
  struct uvs__bucket b = w->list[list];

  w->falling_ns = tick << UVS__TICK_BITS;
  w->falling_upto = last;
  if (b.last_ns != UVS__UNORDERED) {
    /* The first is the earliest: there is nothing before it. relaxed: if another thread has moved
     * it, anywhere within the bucket is right */
    uint64_t first = uvs__load(&slot_at(w, b.ends.b)->deadline_ns, relaxed) >> UVS__TICK_BITS;

    tick = first < tick ? tick : first > last ? last : first;
  }
  set_upto(w, tick);
  if (b.last_ns != UVS__UNORDERED && b.last_ns >> UVS__TICK_BITS <= tick &&
      is_empty(w, UVS__FRONT)) {
    join(w, UVS__FRONT, list);
    w->list[UVS__FRONT].last_ns = b.last_ns;
    w->list[UVS__FRONT].last_key = b.last_key;
  } else {
    join(w, UVS__FALLING, list);
  }
}

/* File a few of the falling ones anew, by what their slots say: those that were pushed back learn
 * of it here. */
static unsigned file_falling(struct uvs__wheel *w) {
  uint32_t batch[STEP];
  uint32_t slot = w->list[UVS__FALLING].ends.b;
  unsigned n = 0;

  for (; n < STEP && (slot & UVS__LIST_MARK) == 0; slot = uvs__wheel_link(w, slot)->b) {
    __builtin_prefetch(slot_at(w, slot));
    batch[n++] = slot;
  }
  for (unsigned i = 0; i < n; i++) {
    /* relaxed: if a mover is at it, the inbox brings it */
    uint64_t deadline_ns = uvs__locked_load(&slot_at(w, batch[i])->deadline_ns, relaxed);

    uvs__wheel_unlink(w, uvs__wheel_link(w, batch[i]));
    if (deadline_ns >> UVS__TICK_BITS > w->falling_upto)
      uvs__wheel_tally(&w->moves);
    if (deadline_ns >= UVS__NEVER)
      w->count--;
    else
      uvs__wheel_file(w, batch[i], deadline_ns, key_of(w, batch[i]));
  }
  return n;
}

unsigned uvs__wheel_step(struct uvs__wheel *w) {
  bool falling = !is_empty(w, UVS__FALLING);
  struct uvs__heap_entry head;
  uint64_t next_ns = w->falling_ns;

  if (!falling && w->levels == 0)
    return 0;
  if (!falling) {
    next_bucket(w, &next_ns);
    next_ns <<= UVS__TICK_BITS;
  }
  if (uvs__wheel_head(w, &head) && head.deadline_ns < next_ns)
    return 0;
  if (!is_empty(w, UVS__FALLING))
    return file_falling(w);
  if (w->levels != 0) /* front_first may have filed something */
    pull(w);
  return 1;
}

/* ---- check ---- */

/* Of a list: linked both ways, in order if it says so, no deadline before first_ns, none of the
 * front's after `upto`. Who is in another thread's hand may have any. */
static bool check_list(const struct uvs__wheel *w, uint32_t list, uint64_t first_ns,
                       uint32_t *ret_count) {
  const struct uvs__bucket *b = &w->list[list];
  uint32_t previous = UVS__LIST_MARK | list;
  struct uvs__heap_entry last = {0, 0};

  for (uint32_t slot = b->ends.b; (slot & UVS__LIST_MARK) == 0;
       slot = uvs__wheel_link(w, slot)->b) {
    /* relaxed, both: a test asks */
    uint64_t word = uvs__locked_load(&slot_at(w, slot)->word, relaxed);
    uint64_t ns = uvs__locked_load(&slot_at(w, slot)->deadline_ns, relaxed);
    uint64_t key = key_of(w, slot);

    if (uvs__wheel_link(w, slot)->a != previous)
      return false;
    previous = slot;
    ++*ret_count;
    if ((word & (UVS__INBOX | UVS__MOVING)) != 0)
      continue;
    if (ns < first_ns || (list == UVS__FRONT && ns >> UVS__TICK_BITS > w->upto))
      return false;
    if (b->last_ns == UVS__UNORDERED)
      continue; /* some may have been pushed back, out of the bucket's time */
    if (list < UVS__BUCKETS && uvs__wheel_bucket(w, ns >> UVS__TICK_BITS) != list)
      return false;
    if (ns < last.deadline_ns || (ns == last.deadline_ns && key < last.key))
      return false;
    if (ns > b->last_ns || (ns == b->last_ns && key > b->last_key))
      return false;
    last = (struct uvs__heap_entry){ns, key};
  }
  return b->ends.a == previous;
}

bool uvs__wheel_check(const struct uvs__wheel *w) {
  uint32_t count = w->heap.count;

  if (!uvs__heap_check(&w->heap) || !check_list(w, UVS__FRONT, 0, &count) ||
      !check_list(w, UVS__FALLING, is_empty(w, UVS__FALLING) ? 0 : w->falling_ns, &count))
    return false;
  for (uint32_t i = 0; i < w->heap.count; i++) {
    if (uvs__wheel_link(w, uvs__heap_slot(uvs__heap_nth(&w->heap, i)))->b != UVS__NONE)
      return false;
  }
  for (uint32_t list = 0; list < UVS__BUCKETS; list++) {
    uint32_t level = list / UVS__DIGITS;
    unsigned shift = level * UVS__DIGIT_BITS;
    uint64_t tick = (w->upto >> shift >> UVS__DIGIT_BITS << UVS__DIGIT_BITS | list % UVS__DIGITS)
                    << shift;
    bool full = (w->digits[level] >> list % UVS__DIGITS & 1) != 0;

    if (full == is_empty(w, list) || (full && tick <= w->upto) ||
        (full && uvs__wheel_bucket(w, tick) != list) ||
        !check_list(w, list, tick << UVS__TICK_BITS, &count))
      return false;
    if (full && (w->levels >> level & 1) == 0)
      return false;
    if (list % UVS__DIGITS == 0 && (w->levels >> level & 1) != (w->digits[level] != 0))
      return false;
  }
  return count == w->count;
}
