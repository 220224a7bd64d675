/* SPDX-License-Identifier: MIT
 *
 * The delay heap, the index of a chunked array, and the allocation functions. After every step
 * uvs__heap_check must hold. The random run compares with a sorted list.
 */
#include "util/heap.h"

#include <string.h>

#include "lib/unit.h"

/* A heap with links and room for `slots` slots. In the library these belong to the table. */
struct pile {
  struct uvs__heap heap;
  struct uvs__link *links[UVS__CHUNKS];
};

static void pile_init(struct pile *p, uint32_t slots) {
  uint32_t made = 0;

  memset(p, 0, sizeof *p);
  for (unsigned k = 0; made < slots; made += uvs__chunk_size(k++)) {
    p->links[k] = malloc(uvs__chunk_size(k) * sizeof *p->links[k]);
    if (p->links[k] == NULL)
      abort();
    memset(p->links[k], 0xff, uvs__chunk_size(k) * sizeof *p->links[k]); /* UVS__NONE */
  }
  uvs__heap_init(&p->heap, p->links);
  for (unsigned k = 0; k < UVS__CHUNKS && p->links[k] != NULL; k++) {
    p->heap.chunk[k] = malloc(uvs__chunk_size(k) * sizeof *p->heap.chunk[k]);
    if (p->heap.chunk[k] == NULL)
      abort();
  }
}

static void pile_destroy(struct pile *p) {
  for (unsigned k = 0; k < UVS__CHUNKS; k++) {
    free(p->links[k]);
    free(p->heap.chunk[k]);
  }
}

static uint64_t key(uint64_t seq, uint32_t slot) {
  return seq << UVS__SLOT_BITS | slot;
}

/* The slot is its own sequence number. */
static void push(struct pile *p, uint64_t deadline_ns, uint32_t slot) {
  uvs__heap_push(&p->heap, deadline_ns, key(slot, slot));
}

static uint32_t position(struct pile *p, uint32_t slot) {
  uint32_t offset;
  unsigned k = uvs__chunk_of(slot, &offset);

  return p->links[k][offset].a;
}

static uint32_t head_slot(struct pile *p) {
  return uvs__heap_slot(uvs__heap_head(&p->heap));
}

/* Removes all entries. Returns false unless they come in order. */
static bool drains_in_order(struct pile *p) {
  struct uvs__heap_entry last = {0, 0};

  while (p->heap.count > 0) {
    struct uvs__heap_entry e = *uvs__heap_head(&p->heap);

    if (e.deadline_ns < last.deadline_ns || (e.deadline_ns == last.deadline_ns && e.key < last.key))
      return false;
    last = e;
    uvs__heap_remove(&p->heap, uvs__heap_slot(&e));
    if (!uvs__heap_check(&p->heap))
      return false;
  }
  return true;
}

TEST an_empty_heap_has_no_head(void) {
  struct pile p;

  pile_init(&p, 64);
  ASSERT_EQ(NULL, uvs__heap_head(&p.heap));
  ASSERT(uvs__heap_check(&p.heap));
  for (uint32_t slot = 0; slot < 64; slot++)
    ASSERT(!uvs__heap_has(&p.heap, slot));
  pile_destroy(&p);
  PASS();
}

TEST the_first_entry_of_a_heap_can_be_removed(void) {
  struct pile p;

  pile_init(&p, 64);
  for (uint32_t slot = 0; slot < 20; slot++)
    push(&p, 100 + slot, slot);
  uvs__heap_remove(&p.heap, 0);
  ASSERT(uvs__heap_check(&p.heap));
  ASSERT(!uvs__heap_has(&p.heap, 0));
  ASSERT_U64(19, p.heap.count);
  ASSERT_U64(1, head_slot(&p));
  ASSERT(drains_in_order(&p));
  pile_destroy(&p);
  PASS();
}

TEST the_last_and_the_only_entry_of_a_heap_can_be_removed(void) {
  struct pile p;

  pile_init(&p, 64);
  for (uint32_t slot = 0; slot < 20; slot++)
    push(&p, 100 + slot, slot);
  ASSERT_U64(19, position(&p, 19)); /* they came in order, so each lies where it was pushed */
  uvs__heap_remove(&p.heap, 19);
  ASSERT(uvs__heap_check(&p.heap));
  ASSERT(!uvs__heap_has(&p.heap, 19));
  for (uint32_t slot = 0; slot < 19; slot++)
    ASSERT_U64(slot, position(&p, slot));
  for (uint32_t slot = 18; slot > 0; slot--)
    uvs__heap_remove(&p.heap, slot);
  ASSERT_U64(1, p.heap.count);
  uvs__heap_remove(&p.heap, 0);
  ASSERT_EQ(NULL, uvs__heap_head(&p.heap));
  ASSERT(uvs__heap_check(&p.heap));
  pile_destroy(&p);
  PASS();
}

/* Positions 0 to 9. The children of 1 are 5 to 8, those of 2 begin at 9. When 5 is removed, 9 takes
 * its place, and is earlier than its parent 1. */
TEST the_replacement_of_a_middle_heap_entry_moves_up(void) {
  static const uint64_t deadline_ns[] = {0, 100, 10, 20, 30, 101, 102, 103, 104, 11};
  static const uint32_t order[] = {0, 2, 9, 3, 4, 1, 6, 7, 8};
  struct pile p;

  pile_init(&p, 64);
  for (uint32_t slot = 0; slot < 10; slot++) {
    push(&p, deadline_ns[slot], slot);
    ASSERT_U64(slot, position(&p, slot));
  }
  uvs__heap_remove(&p.heap, 5);
  ASSERT_U64(1, position(&p, 9));
  ASSERT_U64(5, position(&p, 1));
  ASSERT(uvs__heap_check(&p.heap));
  for (unsigned i = 0; i < 9; i++) {
    ASSERT_U64(order[i], head_slot(&p));
    uvs__heap_remove(&p.heap, order[i]);
    ASSERT(uvs__heap_check(&p.heap));
  }
  pile_destroy(&p);
  PASS();
}

TEST the_replacement_of_a_middle_heap_entry_moves_down(void) {
  struct pile p;

  pile_init(&p, 64);
  for (uint32_t slot = 0; slot < 60; slot++)
    push(&p, slot, slot);
  uvs__heap_remove(&p.heap, 1);
  ASSERT(uvs__heap_check(&p.heap));
  ASSERT_U64(1, position(&p, 5)); /* the least of its children rose */
  ASSERT(position(&p, 59) > 20);  /* and the last one sank to a leaf */
  ASSERT(drains_in_order(&p));
  pile_destroy(&p);
  PASS();
}

TEST each_entry_can_be_removed_from_a_heap_of_each_size(void) {
  struct pile p;

  pile_init(&p, 64);
  for (uint32_t size = 1; size <= 40; size++)
    for (uint32_t victim = 0; victim < size; victim++) {
      for (uint32_t slot = 0; slot < size; slot++)
        push(&p, slot * 7 % 11, slot);
      uvs__heap_remove(&p.heap, victim);
      ASSERT(uvs__heap_check(&p.heap));
      ASSERT(!uvs__heap_has(&p.heap, victim));
      ASSERT_U64(size - 1, p.heap.count);
      ASSERT(drains_in_order(&p));
    }
  pile_destroy(&p);
  PASS();
}

/* Removing an absent entry is an internal error and aborts, so callers ask first. */
TEST a_removed_entry_is_no_longer_in_the_heap(void) {
  struct pile p;

  pile_init(&p, 64);
  for (uint32_t slot = 0; slot < 10; slot++)
    push(&p, slot, slot);
  ASSERT(uvs__heap_has(&p.heap, 4));
  uvs__heap_remove(&p.heap, 4);
  for (int again = 0; again < 2; again++)
    if (uvs__heap_has(&p.heap, 4))
      uvs__heap_remove(&p.heap, 4);
  ASSERT_U64(9, p.heap.count);
  ASSERT(uvs__heap_check(&p.heap));
  for (uint32_t slot = 0; slot < 10; slot++)
    ASSERT_EQ(slot != 4, uvs__heap_has(&p.heap, slot)); /* the neighbours noticed nothing */
  push(&p, 4, 4);
  ASSERT(uvs__heap_has(&p.heap, 4));
  ASSERT(drains_in_order(&p));
  pile_destroy(&p);
  PASS();
}

/* The effects of one expiry on others: it cancels one that is due too, cancels one that is not due,
 * and arms one that is due immediately. */
TEST removal_and_insertion_during_expiry_keep_the_heap_order(void) {
  uint64_t now_ns = 50, last_ns = 0;
  uint32_t fresh = 100, fired = 0, cancelled = 0;
  struct pile p;

  pile_init(&p, 200);
  for (uint32_t slot = 0; slot < 100; slot++)
    push(&p, slot, slot);
  while (p.heap.count > 0 && uvs__heap_head(&p.heap)->deadline_ns <= now_ns) {
    struct uvs__heap_entry e = *uvs__heap_head(&p.heap);
    uint32_t slot = uvs__heap_slot(&e);
    uint32_t others[2] = {slot + 1, slot + 60};

    ASSERT(e.deadline_ns >= last_ns);
    last_ns = e.deadline_ns;
    uvs__heap_remove(&p.heap, slot);
    ASSERT(uvs__heap_check(&p.heap));
    fired++;
    for (int i = 0; i < 2; i++)
      if (slot < 100 && others[i] < 100 && uvs__heap_has(&p.heap, others[i])) {
        uvs__heap_remove(&p.heap, others[i]);
        ASSERT(uvs__heap_check(&p.heap));
        cancelled++;
      }
    if (slot % 10 == 0 && slot < 100) {
      push(&p, now_ns, fresh++);
      ASSERT(uvs__heap_check(&p.heap));
    }
  }
  ASSERT_U64(26 + 6, fired); /* the even ones up to 50, and what every tenth of them armed */
  ASSERT_U64(100 - 26 - cancelled, p.heap.count);
  for (uint32_t slot = 0; slot < fresh; slot++)
    ASSERT_EQ(slot > 51 && slot < 100 && !(slot % 2 == 0 && slot >= 60),
              uvs__heap_has(&p.heap, slot));
  ASSERT(drains_in_order(&p));
  pile_destroy(&p);
  PASS();
}

/* The larger slot number came first, and they are pushed in neither order. */
TEST equal_deadlines_are_ordered_by_sequence_and_not_by_slot(void) {
  struct pile p;

  pile_init(&p, 64);
  for (uint32_t i = 0; i < 61; i++) {
    uint32_t slot = i * 17 % 61;

    uvs__heap_push(&p.heap, 5, key(1000 - slot, slot));
    ASSERT(uvs__heap_check(&p.heap));
  }
  for (uint32_t slot = 61; slot-- > 0;) {
    ASSERT_U64(slot, head_slot(&p));
    uvs__heap_remove(&p.heap, slot);
    ASSERT(uvs__heap_check(&p.heap));
  }
  pile_destroy(&p);
  PASS();
}

TEST the_extreme_deadlines_and_sequences_are_in_order(void) {
  uint64_t last_seq = (UINT64_C(1) << (64 - UVS__SLOT_BITS)) - 1;
  struct pile p;

  pile_init(&p, 64);
  uvs__heap_push(&p.heap, UVS__NEVER, key(1, 0));
  uvs__heap_push(&p.heap, 0, key(last_seq, 1));
  uvs__heap_push(&p.heap, UVS__NEVER - 1, key(3, 2));
  uvs__heap_push(&p.heap, 0, key(last_seq - 1, 3));
  ASSERT_U64(3, head_slot(&p));
  uvs__heap_remove(&p.heap, 3);
  ASSERT_U64(1, head_slot(&p));
  uvs__heap_remove(&p.heap, 1);
  ASSERT_U64(2, head_slot(&p));
  uvs__heap_remove(&p.heap, 2);
  ASSERT_U64(0, head_slot(&p));
  pile_destroy(&p);
  PASS();
}

/* S29 A removed entry leaves the heap immediately: the heap holds only live entries and does not
 * grow. */
TEST the_heap_is_never_larger_than_the_number_of_live_entries(void) {
  struct pile p;

  pile_init(&p, 64);
  for (uint32_t slot = 0; slot < 10; slot++)
    push(&p, 1000 + slot, slot);
  for (uint64_t i = 0; i < 100000; i++) {
    uint32_t slot = 10 + (uint32_t)(i % 50);

    uvs__heap_push(&p.heap, UVS__NEVER - 1 - i, key(100 + i, slot));
    ASSERT_U64(11, p.heap.count);
    uvs__heap_remove(&p.heap, slot);
    ASSERT_U64(10, p.heap.count);
    ASSERT(!uvs__heap_has(&p.heap, slot));
  }
  ASSERT(uvs__heap_check(&p.heap));
  ASSERT(drains_in_order(&p));
  pile_destroy(&p);
  PASS();
}

TEST each_index_maps_to_one_chunk_and_offset(void) {
  uint32_t index = 0, offset;

  for (unsigned k = 0; k < UVS__CHUNKS; k++) {
    uint32_t size = uvs__chunk_size(k);

    ASSERT_U64(k, uvs__chunk_of(index, &offset));
    ASSERT_U64(0, offset);
    ASSERT_U64(k, uvs__chunk_of(index + size / 2, &offset));
    ASSERT_U64(size / 2, offset);
    ASSERT_U64(k, uvs__chunk_of(index + size - 1, &offset));
    ASSERT_U64(size - 1, offset);
    index += size;
  }
  ASSERT_U64(UVS__INDEX_MAX, index);
  PASS();
}

TEST an_allocation_whose_size_overflows_is_refused(void) {
  static const struct {
    size_t n, size, extra;
  } bad[] = {
      {SIZE_MAX, 2, 0},
      {SIZE_MAX / 2 + 1, 2, 0},
      {2, SIZE_MAX, 0},
      {SIZE_MAX / 16, 16, 16},
      {SIZE_MAX, 1, 1},
      {1, SIZE_MAX, 1},
      {SIZE_MAX / 64, 64, 64},
      {SIZE_MAX, SIZE_MAX, SIZE_MAX},
      {1, 1, SIZE_MAX},
      {3, SIZE_MAX / 2, 0},
      {UINT32_MAX, SIZE_MAX / 2, 5},
  };
  struct fault fault;
  uvs_allocator_t mem;
  unsigned char *block;

  fault_init(&fault);
  mem = fault_option(&fault);
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    ASSERT_EQ(NULL, uvs__mem_alloc(&mem, bad[i].n, bad[i].size, bad[i].extra));
  ASSERT_U64(0, fault.total);
  block = uvs__mem_alloc(&mem, 7, 5, 3);
  ASSERT(block != NULL);
  memset(block, 1, 38);
  ASSERT_U64(38, fault.live_bytes);
  uvs__mem_free(&mem, block);
  uvs__mem_free(&mem, NULL);
  ASSERT_U64(0, fault.live);
  fault_after(0);
  ASSERT_EQ(NULL, uvs__mem_alloc(&mem, 1, 1, 0));
  ASSERT(fault_hit());
  PASS();
}

TEST without_an_allocator_malloc_is_used(void) {
  struct fault fault;
  uvs_allocator_t mem = {NULL, NULL, NULL}, own;
  void *block;

  uvs__mem_init(&mem);
  block = uvs__mem_alloc(&mem, 100, 10, 0);
  ASSERT(block != NULL);
  uvs__mem_free(&mem, block);
  fault_init(&fault);
  own = fault_option(&fault);
  mem = own;
  uvs__mem_init(&mem);
  ASSERT_EQ(own.alloc, mem.alloc);
  ASSERT_EQ(own.free, mem.free);
  ASSERT_EQ(own.arg, mem.arg);
  PASS();
}

/* The naive model: a sorted array. */
#define SLOTS 300u

struct naive {
  struct uvs__heap_entry entry[SLOTS];
  uint32_t count;
};

static void naive_add(struct naive *v, struct uvs__heap_entry e) {
  uint32_t i = v->count++;

  for (; i > 0; i--) {
    struct uvs__heap_entry *x = &v->entry[i - 1];

    if (x->deadline_ns < e.deadline_ns || (x->deadline_ns == e.deadline_ns && x->key < e.key))
      break;
    v->entry[i] = *x;
  }
  v->entry[i] = e;
}

static bool naive_remove(struct naive *v, uint32_t slot, struct uvs__heap_entry *ret) {
  for (uint32_t i = 0; i < v->count; i++)
    if (uvs__heap_slot(&v->entry[i]) == slot) {
      *ret = v->entry[i];
      memmove(&v->entry[i], &v->entry[i + 1], (--v->count - i) * sizeof v->entry[0]);
      return true;
    }
  return false;
}

/* Deadlines from a narrow range, to get equal ones, or from all of time. */
static uint64_t some_deadline(uint64_t *random, bool narrow) {
  return narrow ? test_random_below(random, 20) : test_random(random) >> 1;
}

static enum greatest_test_res random_steps(struct pile *p, struct naive *v, uint64_t *random,
                                           bool narrow) {
  uint64_t seq = 0;

  for (int step = 0; step < 10000; step++) {
    uint32_t slot = (uint32_t)test_random_below(random, SLOTS);
    uint64_t what = test_random_below(random, 8);
    struct uvs__heap_entry e = {some_deadline(random, narrow), key(++seq, slot)};
    struct uvs__heap_entry old;
    bool was = naive_remove(v, slot, &old);

    ASSERT_EQ(was, uvs__heap_has(&p->heap, slot));
    if (!was) {
      uvs__heap_push(&p->heap, e.deadline_ns, e.key);
      naive_add(v, e);
    } else if (what < 4) {
      uvs__heap_remove(&p->heap, slot);
    } else {
      naive_add(v, old);
      e = v->entry[0];
      (void)naive_remove(v, uvs__heap_slot(&e), &old);
      ASSERT_U64(e.key, uvs__heap_head(&p->heap)->key);
      uvs__heap_remove(&p->heap, uvs__heap_slot(&e));
    }
    ASSERT(uvs__heap_check(&p->heap));
    ASSERT_U64(v->count, p->heap.count);
    if (v->count > 0) {
      ASSERT_U64(v->entry[0].deadline_ns, uvs__heap_head(&p->heap)->deadline_ns);
      ASSERT_U64(v->entry[0].key, uvs__heap_head(&p->heap)->key);
    }
  }
  PASS();
}

TEST a_random_heap_agrees_with_a_sorted_list(void) {
  uint64_t random = test_seed;

  for (int narrow = 0; narrow < 2; narrow++) {
    struct naive v = {.count = 0};
    struct pile p;

    pile_init(&p, SLOTS);
    CHECK_CALL(random_steps(&p, &v, &random, narrow != 0));
    for (uint32_t i = 0; i < v.count; i++) {
      ASSERT_U64(v.entry[i].key, uvs__heap_head(&p.heap)->key);
      uvs__heap_remove(&p.heap, uvs__heap_slot(&v.entry[i]));
    }
    ASSERT_U64(0, p.heap.count);
    pile_destroy(&p);
  }
  PASS();
}

TEST every_heap_operation_is_counted_once_and_a_peek_is_not(void) {
  struct pile p;

  pile_init(&p, 64);
  for (uint32_t i = 0; i < 20; i++)
    push(&p, 100 - i, i);
  ASSERT_U64(20, p.heap.ops);
  uvs__heap_remove(&p.heap, 7);
  ASSERT_U64(21, p.heap.ops);
  ASSERT(uvs__heap_has(&p.heap, 5) && uvs__heap_check(&p.heap));
  ASSERT_U64(19, head_slot(&p));
  ASSERT_U64(21, p.heap.ops);
  pile_destroy(&p);
  PASS();
}

SUITE(heap) {
  RUN_TEST(an_empty_heap_has_no_head);
  RUN_TEST(every_heap_operation_is_counted_once_and_a_peek_is_not);
  RUN_TEST(the_first_entry_of_a_heap_can_be_removed);
  RUN_TEST(the_last_and_the_only_entry_of_a_heap_can_be_removed);
  RUN_TEST(the_replacement_of_a_middle_heap_entry_moves_up);
  RUN_TEST(the_replacement_of_a_middle_heap_entry_moves_down);
  RUN_TEST(each_entry_can_be_removed_from_a_heap_of_each_size);
  RUN_TEST(a_removed_entry_is_no_longer_in_the_heap);
  RUN_TEST(removal_and_insertion_during_expiry_keep_the_heap_order);
  RUN_TEST(equal_deadlines_are_ordered_by_sequence_and_not_by_slot);
  RUN_TEST(the_extreme_deadlines_and_sequences_are_in_order);
  RUN_TEST(the_heap_is_never_larger_than_the_number_of_live_entries);
  RUN_TEST(a_random_heap_agrees_with_a_sorted_list);
}

SUITE(chunks_and_memory) {
  RUN_TEST(each_index_maps_to_one_chunk_and_offset);
  RUN_TEST(an_allocation_whose_size_overflows_is_refused);
  RUN_TEST(without_an_allocator_malloc_is_used);
}

TEST_MAIN(RUN_SUITE(heap); RUN_SUITE(chunks_and_memory));
