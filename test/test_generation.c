/* SPDX-License-Identifier: MIT
 *
 * Slots whose generation has three bits, so that it is soon used up: built with
 * -DUVS__GENERATION_BITS=3. This is the agenda's half of the promise that an id stays stale for
 * ever; that every end of a task counts its generation up is the scheduler's.
 */
#include "agenda.h"
#include "values.h"

#include <string.h>

#include "lib/unit.h"

_Static_assert(UVS__GENERATION_MAX == 7, "this program is for the build with three bits");

#define LIVES 6u /* generations 1 to 6; 7 is the end */

static uint64_t generation(struct uvs__agenda *a, uint32_t slot) {
  return uvs__word_generation(atomic_load(&uvs__agenda_slot(a, slot)->word));
}

static void end(struct uvs__agenda *a, uintptr_t stripe, uint32_t slot) {
  atomic_store(&uvs__agenda_slot(a, slot)->word,
               (uint64_t)UVS__FREE | (generation(a, slot) + 1) << UVS__GENERATION_SHIFT);
  uvs__agenda_give_slot(a, stripe, slot);
}

TEST no_slot_has_the_same_generation_twice(void) {
  static bool seen[4096][8];
  uint64_t random = test_seed;
  uint32_t held[50], n = 0;
  struct uvs__agenda a;
  struct fault fault;
  uvs_allocator_t mem;

  fault_init(&fault);
  mem = fault_option(&fault);
  ASSERT_RC(0, uvs__agenda_init(&a, &mem));
  for (int step = 0; step < 10000; step++) {
    uintptr_t stripe = (uintptr_t)test_random(&random);

    if (n < 50 && (n == 0 || test_random_below(&random, 2) == 0)) {
      ASSERT_RC(0, uvs__agenda_take_slot(&a, stripe, test_random_below(&random, 2) == 0, false,
                                         &held[n]));
      ASSERT(held[n] < 4096);
      ASSERT(generation(&a, held[n]) >= 1);
      ASSERT(generation(&a, held[n]) <= LIVES);
      ASSERT(!seen[held[n]][generation(&a, held[n])]);
      seen[held[n]][generation(&a, held[n])] = true;
      n++;
    } else {
      uint32_t i = (uint32_t)test_random_below(&random, n);

      end(&a, stripe, held[i]);
      held[i] = held[--n];
    }
  }
  ASSERT(uvs__slab_made(&a.slots) > 500); /* about 5000 lives of 6 each */
  ASSERT(uvs__slab_made(&a.colds) <=
         50 + UVS__STRIPES * 128); /* cold records have no generation and are not lost */
  uvs__agenda_destroy(&a);
  ASSERT_U64(0, fault.live);
  PASS();
}

TEST a_slot_lives_six_times_and_then_another_takes_over(void) {
  struct uvs__agenda a;
  struct fault fault;
  uvs_allocator_t mem;
  uint32_t slot, last = UVS__NONE;

  fault_init(&fault);
  mem = fault_option(&fault);
  ASSERT_RC(0, uvs__agenda_init(&a, &mem));
  for (uint32_t life = 0; life < 64 * LIVES; life++) {
    ASSERT_RC(0, uvs__agenda_take_slot(&a, 0, false, false, &slot));
    ASSERT_U64(1 + life % LIVES, generation(&a, slot));
    ASSERT_EQ(life % LIVES != 0, slot == last);
    last = slot;
    end(&a, 0, slot);
  }
  ASSERT_U64(64, uvs__slab_made(&a.slots));
  for (slot = 0; slot < 64; slot++)
    ASSERT_U64(
        7, generation(&a, slot)); /* whoever holds an old id finds another generation, for ever */
  ASSERT_RC(0, uvs__agenda_take_slot(&a, 0, false, false, &slot));
  ASSERT(slot >= 64);
  ASSERT_U64(128, uvs__slab_made(&a.slots));
  uvs__agenda_destroy(&a);
  ASSERT_U64(0, fault.live);
  PASS();
}

/* L18: the way of a runner, which gives back a batch of light tasks at once. */
TEST no_generation_comes_twice_when_slots_are_freed_in_batches(void) {
  static bool seen[8192][8];
  struct uvs__freed freed = {0, {0}};
  uint64_t random = test_seed;
  uint32_t held[50], n = 0;
  struct uvs__agenda a;
  struct fault fault;
  uvs_allocator_t mem;

  fault_init(&fault);
  mem = fault_option(&fault);
  ASSERT_RC(0, uvs__agenda_init(&a, &mem));
  for (int step = 0; step < 20000; step++) {
    if (n < 50 && (n == 0 || test_random_below(&random, 2) == 0)) {
      ASSERT_RC(0, uvs__agenda_take_slot(&a, 0, false, false, &held[n]));
      ASSERT(held[n] < 8192);
      ASSERT(generation(&a, held[n]) <= LIVES);
      ASSERT_FALSE(seen[held[n]][generation(&a, held[n])]);
      seen[held[n]][generation(&a, held[n])] = true;
      n++;
    } else {
      uint32_t i = (uint32_t)test_random_below(&random, n);

      atomic_store(&uvs__agenda_slot(&a, held[i])->word,
                   (uint64_t)UVS__FREE | (generation(&a, held[i]) + 1) << UVS__GENERATION_SHIFT);
      uvs__agenda_free_later(&a, 0, &freed, held[i]);
      ASSERT(freed.count < UVS__SLAB_BATCH);
      held[i] = held[--n];
      if (test_random_below(&random, 50) == 0) {
        uvs__agenda_free_now(&a, 0, &freed);
        ASSERT_U64(0, freed.count);
      }
    }
  }
  /* About 10000 lives of 6 each: none was lost before its time. */
  ASSERT(uvs__slab_made(&a.slots) > 1000);
  ASSERT(uvs__slab_made(&a.slots) < 10200 / LIVES + 50 + UVS__SLAB_BATCH + 3 * 128);
  uvs__agenda_destroy(&a);
  ASSERT_U64(0, fault.live);
  PASS();
}

/* The items of a delay queue. L18 */
TEST no_item_names_two_values(void) {
  static bool seen[4096 << 3];
  uint64_t random = test_seed;
  struct uvs__values v;
  struct fault fault;
  uvs_allocator_t mem;

  fault_init(&fault);
  mem = fault_option(&fault);
  uvs__values_init(&v, &mem);
  for (int step = 0; step < 10000; step++) {
    if (v.heap.count < 50 && (v.heap.count == 0 || test_random_below(&random, 2) == 0)) {
      uvs_item_t item;

      ASSERT_RC(0, uvs__values_reserve(&v, 1));
      item = uvs__values_add(&v, &v, test_random_below(&random, 50));
      ASSERT((item & UVS__SLOT_MASK) < 4096);
      ASSERT(item >> UVS__SLOT_BITS >= 1);
      ASSERT(item >> UVS__SLOT_BITS <= LIVES);
      bool *mark = &seen[(item & UVS__SLOT_MASK) << 3 | item >> UVS__SLOT_BITS];
      ASSERT_FALSE(*mark);
      *mark = true;
    } else {
      uint32_t slot = uvs__values_head(&v);

      uvs__values_take(&v, slot);
      uvs__values_give(&v, slot);
    }
  }
  ASSERT(v.made > 500); /* about 5000 lives of 6 each */
  ASSERT(uvs__values_check(&v));
  uvs__values_free_memory(&v);
  ASSERT_EQ_FMT(0L, atomic_load(&fault.live), "%ld");
  PASS();
}

SUITE(generation_of_three_bits) {
  RUN_TEST(no_slot_has_the_same_generation_twice);
  RUN_TEST(a_slot_lives_six_times_and_then_another_takes_over);
  RUN_TEST(no_generation_comes_twice_when_slots_are_freed_in_batches);
  RUN_TEST(no_item_names_two_values);
}

TEST_MAIN(RUN_SUITE(generation_of_three_bits));
