/* SPDX-License-Identifier: MIT
 *
 * The value store of a delay queue: values in due order, items that may be stale but never dangle.
 * inspect_values_check holds after every step. The random run compares with a plain list.
 */
#include "queue/values.h"

#include <string.h>

#include "lib/inspect.h"
#include "lib/unit.h"

struct store {
  struct uvs__values v;
  struct fault fault;
  uvs_allocator_t mem;
};

static void store_init(struct store *s) {
  fault_init(&s->fault);
  s->mem = fault_option(&s->fault);
  uvs__values_init(&s->v, &s->mem);
}

static long store_destroy(struct store *s) {
  uvs__values_free_memory(&s->v);
  return atomic_load(&s->fault.live);
}

static char things[4096];

static uvs_entry_t pop(struct store *s) {
  uint32_t slot = uvs__values_head(&s->v);
  uvs_entry_t e = uvs__values_entry(&s->v, slot);

  uvs__values_take(&s->v, slot);
  uvs__values_give(&s->v, slot);
  return e;
}

TEST an_empty_store_has_no_head_and_finds_nothing(void) {
  struct store s;

  store_init(&s);
  ASSERT_EQ(UVS__NONE, uvs__values_head(&s.v));
  ASSERT_EQ(UVS__NONE, uvs__values_find(&s.v, 0));
  ASSERT_EQ(UVS__NONE, uvs__values_find(&s.v, UINT64_MAX));
  ASSERT_EQ(UVS__NONE, uvs__values_find_value(&s.v, things));
  ASSERT(inspect_values_check(&s.v));
  ASSERT_EQ(0, store_destroy(&s));
  PASS();
}

/* D24 */
TEST equal_times_come_in_the_order_of_insertion(void) {
  struct store s;

  store_init(&s);
  ASSERT_RC(0, uvs__values_reserve(&s.v, 1000));
  for (int i = 0; i < 1000; i++)
    uvs__values_add(&s.v, &things[i], (uint64_t)(i % 3));
  for (int i = 0; i < 1000; i++) {
    int n = i < 334 ? 3 * i : i < 667 ? 3 * (i - 334) + 1 : 3 * (i - 667) + 2;

    ASSERT_EQ(&things[n], pop(&s).value);
  }
  ASSERT(inspect_values_check(&s.v));
  ASSERT_EQ(0, store_destroy(&s));
  PASS();
}

/* Also after slots were reused, when slot order is not insertion order. D24 */
TEST a_pointer_inserted_twice_is_found_in_due_order(void) {
  struct store s;
  uvs_item_t a, b, c;

  store_init(&s);
  ASSERT_RC(0, uvs__values_reserve(&s.v, 3));
  uvs__values_add(&s.v, &things[1], 0);
  a = uvs__values_add(&s.v, &things[0], 7);
  ASSERT_EQ(&things[1], pop(&s).value);
  b = uvs__values_add(&s.v, &things[0], 7); /* in the lower slot */
  ASSERT((b & UVS__SLOT_MASK) < (a & UVS__SLOT_MASK));
  ASSERT_U64(a, uvs__values_entry(&s.v, uvs__values_find_value(&s.v, &things[0])).item);
  c = uvs__values_add(&s.v, &things[0], 6);
  ASSERT_U64(c, uvs__values_entry(&s.v, uvs__values_find_value(&s.v, &things[0])).item);
  ASSERT_EQ(0, store_destroy(&s));
  PASS();
}

/* D12 */
TEST an_item_is_stale_as_soon_as_its_value_is_taken_out(void) {
  struct store s;
  uvs_item_t old, new;
  uint32_t slot;

  store_init(&s);
  ASSERT_RC(0, uvs__values_reserve(&s.v, 1));
  old = uvs__values_add(&s.v, &things[0], 7);
  ASSERT(old != 0);
  slot = uvs__values_find(&s.v, old);
  ASSERT(slot != UVS__NONE);
  ASSERT_EQ(UVS__NONE, uvs__values_find(&s.v, old + (UINT64_C(1) << UVS__SLOT_BITS)));
  ASSERT_EQ(UVS__NONE, uvs__values_find(&s.v, old + 1)); /* a slot that was never used */
  uvs__values_take(&s.v, slot);
  ASSERT_EQ(UVS__NONE, uvs__values_find(&s.v, old));
  ASSERT_EQ(UVS__NONE, uvs__values_find_value(&s.v, &things[0]));
  ASSERT_EQ(&things[0], uvs__values_entry(&s.v, slot).value); /* the taker can still read it */
  ASSERT_U64(old, uvs__values_entry(&s.v, slot).item);
  uvs__values_give(&s.v, slot);
  new = uvs__values_add(&s.v, &things[1], 8);
  ASSERT_EQ(slot, uvs__values_find(&s.v, new)); /* the slot is used again */
  ASSERT(new != old);
  ASSERT_EQ(UVS__NONE, uvs__values_find(&s.v, old));
  ASSERT_EQ(0, store_destroy(&s));
  PASS();
}

/* L10 */
TEST a_failed_reserve_changes_nothing_and_can_be_repeated(void) {
  for (size_t room = 1; room <= 300; room += 299) {
    bool failed = true;
    long n;

    for (n = 0; failed; n++) {
      struct store s;
      int rc;

      store_init(&s);
      fault_after(n);
      rc = uvs__values_reserve(&s.v, room);
      failed = fault_hit();
      ASSERT_RC(failed ? UV_ENOMEM : 0, rc);
      ASSERT(inspect_values_check(&s.v));
      ASSERT_U64(0, s.v.heap.count);
      ASSERT_RC(0, uvs__values_reserve(&s.v, room));
      fault_from(0);
      for (size_t i = 0; i < room; i++)
        uvs__values_add(&s.v, &things[i], 0); /* needs no memory any more */
      ASSERT_FALSE(fault_hit());
      ASSERT(inspect_values_check(&s.v));
      ASSERT_EQ(0, store_destroy(&s));
    }
    ASSERT_EQ_FMT(room == 1 ? 2L : 4L, n, "%ld"); /* one block each time it grows */
  }
  PASS();
}

TEST freed_room_in_the_value_store_is_reused(void) {
  struct store s;

  store_init(&s);
  for (int round = 0; round < 3; round++) {
    ASSERT_RC(0, uvs__values_reserve(&s.v, UVS__CHUNK_FIRST));
    for (unsigned i = 0; i < UVS__CHUNK_FIRST; i++)
      uvs__values_add(&s.v, &things[i], 0);
    for (unsigned i = 0; i < UVS__CHUNK_FIRST; i++)
      ASSERT_EQ(&things[i], pop(&s).value);
    ASSERT_EQ_FMT(1u, s.v.slots.chunks, "%u");
  }
  ASSERT_EQ(0, store_destroy(&s));
  PASS();
}

TEST more_values_than_item_numbers_are_refused(void) {
  struct store s;

  store_init(&s);
  ASSERT_RC(UV_E2BIG, uvs__values_reserve(&s.v, UVS__INDEX_MAX + 1));
  ASSERT_RC(UV_E2BIG, uvs__values_reserve(&s.v, SIZE_MAX));
  s.v.slots.chunks = UVS__CHUNKS; /* as if, and all full */
  ASSERT_RC(UV_E2BIG, uvs__values_reserve(&s.v, 1));
  s.v.slots.chunks = 0;
  ASSERT_EQ(0, store_destroy(&s));
  PASS();
}

/* ------------------------------------------------------ against a plain list --- */

#define MOST 500

struct model {
  struct {
    uvs_item_t item;
    void *value;
    uint64_t due_ns, order;
  } in[MOST];
  size_t count;
  uint64_t last;
};

/* The first of all values, or of those with this pointer; `count` if there is none. */
static size_t model_first(const struct model *m, const void *value) {
  size_t first = m->count;

  for (size_t i = 0; i < m->count; i++) {
    if (value != NULL && m->in[i].value != value)
      continue;
    if (first == m->count ||
        (m->in[i].due_ns != m->in[first].due_ns ? m->in[i].due_ns < m->in[first].due_ns
                                                : m->in[i].order < m->in[first].order))
      first = i;
  }
  return first;
}

/* The head and a search for one pointer agree with the list. */
static bool agrees(const struct store *s, const struct model *m, const void *value) {
  uint32_t slot = uvs__values_find_value(&s->v, value);
  size_t first = model_first(m, value);
  uint64_t items = 0;

  for (uint32_t n = 0; n < s->v.heap.count; n++)
    items += uvs__values_entry(&s->v, uvs__heap_slot(uvs__heap_nth(&s->v.heap, n))).item;
  for (size_t i = 0; i < m->count; i++)
    items -= m->in[i].item;
  if (items != 0)
    return false;
  return first == m->count ? slot == UVS__NONE
                           : uvs__values_entry(&s->v, slot).item == m->in[first].item;
}

static void model_remove(struct model *m, size_t i) {
  m->in[i] = m->in[--m->count];
}

/* D6 D12 D24 */
TEST a_random_value_store_agrees_with_a_plain_list(void) {
  static struct model m;
  uint64_t random = test_seed;
  struct store s;

  store_init(&s);
  m.count = 0;
  m.last = 0;
  for (int step = 0; step < 20000; step++) {
    uint64_t dice = test_random_below(&random, 100);

    if (dice < 45 && m.count < MOST) {
      void *value = &things[test_random_below(&random, 200)];
      uint64_t due_ns = test_random_below(&random, 2) == 0 ? test_random_below(&random, 20)
                                                           : test_random(&random) >> 1;

      ASSERT_RC(0, uvs__values_reserve(&s.v, 1));
      m.in[m.count].item = uvs__values_add(&s.v, value, due_ns);
      m.in[m.count].value = value;
      m.in[m.count].due_ns = due_ns;
      m.in[m.count++].order = m.last++;
    } else if (dice < 80 && m.count > 0) {
      size_t i = model_first(&m, NULL);
      uvs_entry_t e = pop(&s);

      ASSERT_U64(m.in[i].item, e.item);
      ASSERT_EQ(m.in[i].value, e.value);
      ASSERT_U64(m.in[i].due_ns, e.due_ns);
      model_remove(&m, i);
    } else if (m.count > 0) {
      size_t i = (size_t)test_random_below(&random, m.count);
      uint32_t slot = uvs__values_find(&s.v, m.in[i].item);

      ASSERT(slot != UVS__NONE);
      ASSERT_EQ(m.in[i].value, uvs__values_entry(&s.v, slot).value);
      uvs__values_take(&s.v, slot);
      uvs__values_give(&s.v, slot);
      ASSERT_EQ(UVS__NONE, uvs__values_find(&s.v, m.in[i].item));
      model_remove(&m, i);
    }
    ASSERT_U64(m.count, s.v.heap.count);
    if (step % 50 == 0) {
      ASSERT(inspect_values_check(&s.v));
      ASSERT(agrees(&s, &m, &things[test_random_below(&random, 200)]));
    }
  }
  ASSERT_EQ(0, store_destroy(&s));
  PASS();
}

SUITE(values) {
  RUN_TEST(an_empty_store_has_no_head_and_finds_nothing);
  RUN_TEST(equal_times_come_in_the_order_of_insertion);
  RUN_TEST(a_pointer_inserted_twice_is_found_in_due_order);
  RUN_TEST(an_item_is_stale_as_soon_as_its_value_is_taken_out);
  RUN_TEST(a_failed_reserve_changes_nothing_and_can_be_repeated);
  RUN_TEST(freed_room_in_the_value_store_is_reused);
  RUN_TEST(more_values_than_item_numbers_are_refused);
  RUN_TEST(a_random_value_store_agrees_with_a_plain_list);
}

TEST_MAIN(RUN_SUITE(values));
